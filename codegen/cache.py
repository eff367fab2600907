"""Compiled models on disk: one folder per entry, named by its key, put in place by one rename.

Comes in: a key (canonical text) and a draft folder that holds sources and a library. Goes out: an `Entry` whose
files were verified. Laws: an entry is used only if its whole key text is equal and the checksum of each file
holds; of two builders the first rename wins and nobody waits; a damaged entry is the same as none; what another
user could have written is never read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import uses
from .errors import CodegenError
from .folder import Draft, Folder, Say, discard, size, trusted

FORMAT = 1
"""Of entry.json; another one counts as damage."""

ATTEMPTS = 8
"""How often a builder tries to take the place of an entry that turns out to be damaged."""

KEPT = 0.9
"""Of the bound, after pruning: it is not needed again for a while."""

TOTAL = "total"
"""The file whose lines are bytes: of all entries when they were counted last, and of each one since."""

LINES = 1000
"""Of that file; then the entries are counted again."""

_BETWEEN = "\n----- toolchain -----\n"


@dataclass(frozen=True)
class Key:
    """What an entry was made from: `base` without and `toolchain` with the compiler, both complete texts.

    >>> Key("model f", "gcc 12").text.splitlines()
    ['model f', '----- toolchain -----', 'gcc 12']
    """

    base: str
    toolchain: str

    @property
    def text(self) -> str:
        """The full text, stored in the entry and compared."""
        return self.base + _BETWEEN + self.toolchain

    @property
    def prefix(self) -> str:
        """The start of the names of all entries with this base, whatever compiled them."""
        return digest(self.base) + "-"

    @property
    def name(self) -> str:
        """The name of the entry's folder: sha256 of the base, and of the toolchain (shortened)."""
        return self.prefix + digest(self.toolchain)[:16]


@dataclass(frozen=True)
class Entry:
    """A verified entry: `library` and `sources` are file names in `path`; `command` is what compiled it."""

    path: Path
    label: str
    library: str
    sources: tuple[str, ...]
    command: str

    @property
    def library_path(self) -> Path:
        """The compiled library."""
        return self.path / self.library

    def read(self, name: str) -> str:
        """The text of one of the entry's files."""
        return (self.path / name).read_text(encoding="utf-8")


class Damaged(CodegenError):
    """An entry that must not be used; the message says what is wrong with it."""


def digest(text: str) -> str:
    """The sha256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def tree_digest(*folders: Path, suffixes: tuple[str, ...] = (".py", ".h", ".c", ".j2")) -> str:
    """The sha256 over names and contents of all sources below some folders, read once per process."""
    total = hashlib.sha256()
    for number, folder in enumerate(folders):
        for name in sorted(_names(str(folder), "", suffixes)):
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                content = hashlib.sha256(file.read()).hexdigest()
            total.update(f"{number}/{name} {content}\n".encode())
    return total.hexdigest()


def _names(folder: str, below: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """The files with these endings below a folder, links to folders left out, by their paths from there."""
    with os.scandir(folder) as found:
        for item in found:
            if item.name.endswith(suffixes):
                yield below + item.name
            elif item.is_dir(follow_symlinks=False) and item.name != "__pycache__":
                yield from _names(item.path, f"{below}{item.name}/", suffixes)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def verify(path: Path) -> Entry:
    """Read an entry and check every file of it; raises Damaged."""
    if not trusted(path):
        raise Damaged("could have been written by another user")
    try:
        about = json.loads(_own(path / "entry.json").decode())
        files: dict[str, str] = about["files"]
        if about["format"] != FORMAT or about["library"] not in files or not set(about["sources"]) <= files.keys():
            raise Damaged("entry.json is of another format")
        for name, checksum in files.items():
            if os.path.basename(name) != name or hashlib.sha256(_own(path / name)).hexdigest() != checksum:
                raise Damaged(f"{name} is damaged")
        return Entry(path, about["label"], about["library"], tuple(about["sources"]), about["command"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None


def _own(path: Path) -> bytes:
    if not trusted(path):
        raise Damaged(f"{path.name} is missing or could have been written by another user")
    return path.read_bytes()


class Cache:
    """The entries in a `Folder`; `say` takes (debug level, line), `bound` is for the bytes of all entries together.

    Any number of processes and threads may use one folder at once. `cache` None stands for a private folder that
    ends with the process, and so does a folder that is missing, read-only or unsafe.
    """

    def __init__(self, cache: Path | None, say: Say, bound: int) -> None:
        self.folder = Folder(cache, say)
        self.say = say
        self.bound = bound

    def find(self, key: Key) -> Entry | None:
        """The entry of exactly this key, verified, or None; a damaged one is removed."""
        for root in self.folder.readable():
            entry = self._open(root / "entries" / key.name)
            if entry is not None and entry.read("key.txt") == key.text:
                return self._used(entry)
        return None

    def find_any(self, base: str) -> Entry | None:
        """An entry with this base from whatever toolchain, the newest first: for machines without a compiler."""
        start = base + _BETWEEN
        for root in self.folder.readable():
            found = (root / "entries").glob(Key(base, "").prefix + "*")
            for path in sorted(found, key=_modified, reverse=True):
                entry = self._open(path)
                if entry is not None and entry.read("key.txt").startswith(start):
                    return self._used(entry)
        return None

    def draft(self) -> Draft:
        """A private folder to build an entry in, to be used in `with`."""
        return self.folder.draft()

    def publish(
        self, draft: Draft, key: Key, *, label: str, library: str, sources: Sequence[str], command: str
    ) -> Entry:
        """Make a draft the entry of a key by one rename and return it, or the entry that was there first.

        Where the entries outgrow the bound, those that were used longest ago go.
        """
        (draft.path / "key.txt").write_text(key.text, encoding="utf-8")
        files = {path.name: _checksum(path) for path in sorted(draft.path.iterdir()) if path.is_file()}
        about = {"format": FORMAT, "label": label, "library": library, "sources": list(sources), "command": command}
        (draft.path / "entry.json").write_text(json.dumps(about | {"files": files}, indent=1), encoding="utf-8")
        draft.seal()
        added = size(draft.path)
        target = draft.root / "entries" / key.name
        target.parent.mkdir(mode=0o755, exist_ok=True)
        uses.note(draft.root, key.name)
        for attempt in range(ATTEMPTS):
            try:
                os.rename(draft.path, target)
                break
            except OSError:
                if (entry := self._open(target)) is not None:
                    return entry
                if attempt == ATTEMPTS - 1 or not draft.path.exists():
                    raise
        self._keep_bound(draft.root, added)
        return Entry(target, label, library, tuple(sources), command)

    def entries(self) -> list[Path]:
        """The folders of all entries, the one used last first."""
        found = [path for root in self.folder.readable() for path in _children(root / "entries")]
        return sorted(found, key=_modified, reverse=True)

    def info(self) -> dict[str, Any]:
        """Where the cache is and what it holds: entries, their bytes, those in use, leftovers, failed builds."""
        roots = self.folder.readable()
        return {
            "folder": str(self.folder.root) if self.folder.root else "",
            "usable": self.folder.root is not None and self.folder.root in roots,
            "entries": len(self.entries()),
            "bytes": sum(size(root / "entries") for root in roots),
            "used": sum(len(uses.living(root)) for root in roots),
            "drafts": sum(len(self.folder.drafts(root)) for root in roots),
            "failed": sum(len(_children(root / "failed")) for root in roots),
        }

    def listing(self) -> list[dict[str, Any]]:
        """A line for each entry, the one used last first: path, label, bytes, seconds since its use, what is wrong."""
        lines = []
        for path in self.entries():
            label, wrong = _examined(path)
            idle = max(0.0, time.time() - _modified(path))
            lines.append({"path": path, "label": label, "bytes": size(path), "idle": idle, "wrong": wrong})
        return lines

    def prune(self, *, max_bytes: int | None = None, max_idle: float | None = None) -> int:
        """Remove leftovers, damaged entries, and the longest unused ones over a limit; returns how many in all.

        `max_bytes` bounds the bytes of all entries together, `max_idle` the seconds since an entry's last use. What a
        living process uses stays.
        """
        count = 0
        for root in self.folder.readable():
            count += self.folder.sweep(root) + self._prune(root, max_bytes, max_idle, checked=True)
        return count

    def _prune(self, root: Path, max_bytes: int | None, max_idle: float | None, *, checked: bool) -> int:
        """Remove what is over a limit and not in use, and damaged entries if they are looked at; count what stays."""
        used, total, count, now = uses.living(root), 0, 0, time.time()
        for path in sorted(_children(root / "entries"), key=_modified, reverse=True):
            held = size(path)
            over = max_bytes is not None and total + held > max_bytes
            idle = max_idle is not None and now - _modified(path) > max_idle
            if ((over or idle) and path.name not in used) or (checked and _examined(path)[1]):
                discard(path, root)
                count += 1
            else:
                total += held
        self.folder.replace(root, TOTAL, f"{total}\n")
        return count

    def _keep_bound(self, root: Path, added: int) -> None:
        """After `added` bytes: remove what was unused longest if all entries together are over the bound."""
        if self._total(root, added) > self.bound:
            count = self._prune(root, int(KEPT * self.bound), None, checked=False)
            self.say(1, f"cache: {count} entries that were unused longest went: GT_CACHE_SIZE is {self.bound}")

    def _total(self, root: Path, added: int) -> int:
        """The bytes of all entries as their builders wrote them down, or counted where that is unknown or long."""
        path = root / TOTAL
        with contextlib.suppress(OSError, ValueError):
            known = path.exists()
            with open(path, "a", encoding="ascii") as file:  # a short line: another builder's stands before or behind
                file.write(f"{added}\n")
            lines = path.read_text(encoding="ascii").split()
            if known and len(lines) <= LINES:
                return sum(map(int, lines))
        total = sum(map(size, _children(root / "entries")))
        self.folder.replace(root, TOTAL, f"{total}\n")
        return total

    def clear(self) -> int:
        """Remove all entries, failed builds, facts and leftovers (not what others are building); returns how many."""
        count = 0
        for root in self.folder.readable():
            count += self.folder.sweep(root)
            for path in [*_children(root / "entries"), *_children(root / "failed"), root / "facts.json"]:
                count += path.exists()
                discard(path, root)
            discard(root / TOTAL, root)
        return count

    def _open(self, path: Path) -> Entry | None:
        if not path.exists():
            return None
        uses.note(path.parents[1], path.name)  # before it is looked at: what is used is not pruned
        try:
            return verify(path)
        except Damaged as error:
            self.say(1, f"cache: {path}: {error}: rebuilt")
            discard(path, path.parents[1])
            return None

    def _used(self, entry: Entry) -> Entry:
        with contextlib.suppress(OSError):
            os.utime(entry.path)
        return entry


def _examined(path: Path) -> tuple[str, str]:
    """The label of an entry and what is wrong with it; one of them is empty."""
    try:
        return verify(path).label, ""
    except Damaged as error:
        return "", str(error)


def _children(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _modified(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0

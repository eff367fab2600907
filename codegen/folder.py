"""The folder under the cache: whom it belongs to, private drafts in it, what dead builders left, remembered facts.

Comes in: the cache folder of `Options`, which may be missing, read-only or unsafe. Goes out: a place to read from
and a place to write to; where the cache cannot be used they are a private temporary folder of this process. Laws:
nothing is read that another user could have written; nothing is waited for; a draft becomes visible only by one
rename; a leftover is removed only when its builder is dead.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

LAYOUT = "v1"
"""The subfolder that holds everything; another layout would get another name."""

OLD = 24 * 3600.0
"""Seconds after which a draft of an unknown builder counts as left over."""

KEPT_FAILURES = 10
"""How many folders of failed builds stay for reading."""

ROOM = 16 * 10**6
"""Bytes of a disk that must be free before something is built on it: sources, objects, the compiler's own files."""

Say = Callable[[int, str], None]


def trusted(path: Path) -> bool:
    """Whether only this user or root can have written a file or folder: no link, our own, no other's write bit."""
    try:
        info = path.lstat()
    except OSError:
        return False
    kind = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
    return kind and info.st_uid in (os.geteuid(), 0) and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def roomy(path: Path) -> bool:
    """Whether the disk of a folder has room for a build, as far as its file system says."""
    found = os.statvfs(path)
    return found.f_blocks == 0 or found.f_bavail * found.f_frsize >= ROOM


def remove(path: Path) -> None:
    """Remove a file or a folder with all it holds, if it can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def size(path: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for root, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total


def owner() -> str:
    """A word that two processes share only if each can see whether the other is alive."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def departed(path: Path, old: float) -> bool:
    """Whether the process that named a file `owner.pid…` is dead; where nobody can tell, whether the file is old."""
    word, _, rest = path.name.partition(".")
    pid = rest.partition(".")[0]
    if word == owner() and pid.isdecimal():
        return not _alive(int(pid))
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime > old
    return False


def discard(path: Path, root: Path) -> None:
    """Make something below `root` disappear at once, then remove it: nobody sees it half removed."""
    with contextlib.suppress(OSError), Draft(root) as draft:
        os.rename(path, draft.scratch / path.name)


class Draft:
    """A private folder in which something is built; gone at the end of `with` unless it was moved.

    `path` is the folder itself, `scratch` a subfolder for what must not stay (objects, compiler's temporaries).
    """

    def __init__(self, root: Path) -> None:
        name = f"{owner()}.{os.getpid()}.{secrets.token_hex(6)}"
        self.root = root
        self.path = root / "drafts" / name
        self.scratch = self.path / "scratch"

    def __enter__(self) -> Self:
        self.path.parent.mkdir(mode=0o755, exist_ok=True)
        self.path.mkdir(mode=0o755)
        self.scratch.mkdir(mode=0o755)
        return self

    def __exit__(self, *error: object) -> None:
        remove(self.path)

    def seal(self) -> None:
        """Drop the scratch folder and the write permission of others, which a loose umask may have given."""
        remove(self.scratch)
        for path in self.path.iterdir():
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))

    def keep(self) -> Path:
        """Move the folder to where failed builds stay, and say where that is."""
        remove(self.scratch)
        failed = self.root / "failed"
        failed.mkdir(mode=0o755, exist_ok=True)
        target = failed / secrets.token_hex(6)
        os.rename(self.path, target)
        with contextlib.suppress(FileNotFoundError):
            kept = sorted(failed.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in kept[:-KEPT_FAILURES]:
                remove(path)
        return target


_STAND_INS: dict[int, Path] = {}
"""Process id -> the private folder of that process; a forked child makes its own."""

_TOLD: set[str] = set()
"""What was already said in this process."""


def _stand_in() -> Path:
    """The private folder of this process, made when first needed and removed at its end."""
    pid = os.getpid()
    if pid not in _STAND_INS:
        path = Path(tempfile.mkdtemp(prefix="gtensor-"))
        _STAND_INS[pid] = path
        atexit.register(_leave, pid, path)
    return _STAND_INS[pid]


def _leave(pid: int, path: Path) -> None:
    """Remove the private folder at the end of the process that made it; sources of failed builds stay."""
    if os.getpid() != pid:
        return
    if (path / "failed").exists():
        for child in path.iterdir():
            if child.name != "failed":
                remove(child)
    else:
        remove(path)


class Folder:
    """Where entries, drafts and facts are; `cache` is the folder of `Options`, `say` takes (debug level, line)."""

    def __init__(self, cache: Path | None, say: Say) -> None:
        self.cache = cache
        self.say = say
        self.root = None if cache is None else cache.expanduser().absolute() / LAYOUT

    def readable(self) -> list[Path]:
        """The folders to look for entries in, the cache first."""
        found = [self.root] if self.root is not None and self._safe(self.root) else []
        stand_in = _STAND_INS.get(os.getpid())
        return found if stand_in is None else [*found, stand_in]

    def writable(self) -> Path:
        """The cache if it can be written, else the private folder of this process."""
        if self.root is not None:
            try:
                self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
                if self._safe(self.root):
                    (self.root / "drafts").mkdir(mode=0o755, exist_ok=True)
                    writable = all(os.access(path, os.W_OK | os.X_OK) for path in (self.root, self.root / "drafts"))
                    if writable and roomy(self.root):
                        return self.root
                    wrong = "has no room left" if writable else "is read-only"
                    self._once(f"cache: {self.root} {wrong}: compiled models live as long as this process")
            except OSError as error:
                self._once(f"cache: {self.root}: {error.strerror}: compiled models live as long as this process")
        return _stand_in()

    def draft(self) -> Draft:
        """A new private folder to build in; leftovers of dead builders go first."""
        root = self.writable()
        self.sweep(root)
        return Draft(root)

    def sweep(self, root: Path) -> int:
        """Remove the drafts of dead builders and old drafts of builders elsewhere; returns how many."""
        count = 0
        for path in self.drafts(root):
            if departed(path, OLD):
                remove(path)
                count += 1
        return count

    def drafts(self, root: Path) -> list[Path]:
        """The drafts in a folder, of living and dead builders."""
        with contextlib.suppress(OSError):
            return list((root / "drafts").iterdir())
        return []

    def recall(self, name: str, about: str) -> Any:
        """What `remember` was told about this text, in this or an earlier process, or None."""
        digest = hashlib.sha256(about.encode()).hexdigest()
        for root in self.readable():
            fact = self._facts(root).get(name, {}).get(digest)
            if fact is not None:
                return fact
        return None

    def remember(self, name: str, about: str, fact: Any) -> None:
        """Keep a fact (JSON data) about a text; of two writers at once one may be forgotten."""
        root = self.writable()
        facts = self._facts(root)
        known = facts.setdefault(name, {})
        digest = hashlib.sha256(about.encode()).hexdigest()
        known.pop(digest, None)
        known[digest] = fact
        facts[name] = dict(list(known.items())[-32:])
        self.replace(root, "facts.json", json.dumps(facts, indent=1))

    def replace(self, root: Path, name: str, text: str) -> None:
        """Give a file of a root its text, all at once; where that cannot be it is said."""
        with self._suppressed(), Draft(root) as draft:
            path = draft.path / name
            path.write_text(text, encoding="utf-8")
            draft.seal()
            os.replace(path, root / name)

    def _facts(self, root: Path) -> dict[str, Any]:
        path = root / "facts.json"
        if trusted(path):
            with contextlib.suppress(OSError, ValueError):
                facts = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(facts, dict) and all(isinstance(known, dict) for known in facts.values()):
                    return facts
        return {}

    def _safe(self, root: Path) -> bool:
        if not root.exists():
            return False
        if not (safe := trusted(root)):
            self._once(f"cache: {root} could have been written by another user: it is not used")
        return safe

    @contextlib.contextmanager
    def _suppressed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._once(f"cache: {error}")

    def _once(self, line: str) -> None:
        if line not in _TOLD:
            _TOLD.add(line)
            self.say(1, line)

"""Which entries of a cache living processes use, so that pruning takes none of them away.

Comes in: a cache's root and the name of an entry that this process is about to load. Goes out: the names of all that
somebody may have loaded. Laws: a process writes into a file of its own and never waits; a file goes with its process,
or when its process is seen to be dead; what another host wrote is believed for a month.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from pathlib import Path

from .folder import departed, owner, remove

OLD = 30 * 24 * 3600.0
"""Seconds after which nobody is thought to use what a process of another host noted last."""

_NOTED: dict[tuple[int, Path], set[str]] = {}
"""What this process has noted, by process id and root: a child after a fork begins anew."""


def note(root: Path, name: str) -> None:
    """Say that this process uses an entry; where nothing can be written nothing can be pruned either."""
    known = _NOTED.setdefault((os.getpid(), root), set())
    if name in known:
        return
    path = file(root)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o755, exist_ok=True)
        with open(path, "a", encoding="utf-8") as notes:  # behind what a dead process of this number may have left
            notes.write(name + "\n")
    if not known:
        atexit.register(leave, os.getpid(), path)
    known.add(name)


def living(root: Path) -> set[str]:
    """The names of all entries that a process may have loaded; the files of dead processes go."""
    names: set[str] = set()
    with contextlib.suppress(OSError):
        for path in (root / "uses").iterdir():
            if departed(path, OLD):
                remove(path)
            else:
                names.update(path.read_text(encoding="utf-8", errors="replace").split())
    return names


def file(root: Path) -> Path:
    return root / "uses" / f"{owner()}.{os.getpid()}"


def leave(pid: int, path: Path) -> None:
    """At the end of the process that noted, not of its children."""
    if os.getpid() == pid:
        remove(path)

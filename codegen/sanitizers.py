"""The sanitizers of gcc and clang: flags for what is compiled, and whether a library can be loaded here.

Comes in: their names (GT_SANITIZE), or the file of a library that is about to be loaded. Goes out: flags, or an error
that says how Python is to be started. Law: a library with the address sanitizer is loaded only beside the very run-time
library it was linked with, preloaded: without it, or beside that of another compiler, the loader ends the process.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import CodegenError

CHECKS = {"address": ("address",), "undefined": ("undefined", "float-cast-overflow")}
"""Name -> the checks of the compilers: a number that its integer type cannot hold is undefined too."""

PRELOAD = {"darwin": "DYLD_INSERT_LIBRARIES"}
"""Platform -> the variable that preloads a library, where it is not LD_PRELOAD."""

RUNTIME = re.compile(rb"lib(?:clang_rt\.)?asan[\w.+-]*\.(?:so|dylib)[\d.]*")
"""What the run-time library of the address sanitizer is called in a library that needs it."""


class SanitizerError(CodegenError):
    """A library cannot be loaded into a process that was not started for the address sanitizer."""


def flags(names: Sequence[str], clang: bool) -> tuple[str, ...]:
    """The flags for compiling and linking with sanitizers whose first finding ends the process.

    >>> flags(("undefined",), clang=False)[0]
    '-fsanitize=undefined,float-cast-overflow'
    """
    if not names:
        return ()
    checks = ",".join(check for name in names for check in CHECKS[name])
    shared = ("-shared-libsan",) if clang else ()
    return (f"-fsanitize={checks}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", *shared)


def needed(library: Path) -> str:
    """The name of the address sanitizer that a library was linked with; empty if it was built without."""
    found = RUNTIME.search(library.read_bytes())
    return found.group().decode() if found else ""


class _Place(ctypes.Structure):
    """What dladdr says of an address: `Dl_info`."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def loaded() -> str:
    """The file of the address sanitizer that this process was started with; empty if there is none."""
    process, place = ctypes.CDLL(None), _Place()
    function = getattr(process, "__asan_init", None)
    if function is None or not process.dladdr(function, ctypes.byref(place)):
        return ""
    return os.path.realpath(os.fsdecode(place.file))


def check(library: Path) -> None:
    """Raise SanitizerError if loading a library would end this process; OSError if it cannot be read."""
    name = needed(library)
    if not name:
        return
    there = loaded()
    if there and f"{os.path.basename(there)}.".startswith(f"{name}."):
        return
    found = f"it has that of another compiler, {there}" if there else "it has none"
    compiler = "clang" if "clang_rt" in name else "gcc"
    preload = PRELOAD.get(sys.platform, "LD_PRELOAD")
    raise SanitizerError(
        f"{library.name} was compiled with the address sanitizer (GT_SANITIZE): {name} must be in the process before"
        f" Python starts, and {found}\n"
        f"  hint: start it as  {preload}=$({compiler} -print-file-name={name}) ASAN_OPTIONS=detect_leaks=0 python …"
    )


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without the address sanitizer: for programs that are not looked at, such as compilers.

    >>> without({"LD_PRELOAD": "/lib/libasan.so.8 /lib/other.so", "HOME": "/root"})
    {'LD_PRELOAD': '/lib/other.so', 'HOME': '/root'}
    """
    out = dict(environment)
    variable = PRELOAD.get(sys.platform, "LD_PRELOAD")
    if variable in out:
        kept = [path for path in re.split(r"[ :]+", out[variable]) if path and not RUNTIME.search(os.fsencode(path))]
        out[variable] = ":".join(kept)
    return out

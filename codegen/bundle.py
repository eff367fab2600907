"""A compiled model as files that stand by themselves: the library, and the C that it was made from.

Comes in: a library, or such a folder on this or another machine. Goes out: the files and what is to be known of
them; or the library, loaded. Laws: a library is loaded only on machines that it was made for, elsewhere its C is
compiled again, through the cache; files that are not those that were written are refused before anything is loaded.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import blas, machine
from .abi import with_headers
from .artefact import Recipe, Workshop
from .compiler import ToolchainError
from .errors import CodegenError
from .library import ABI_VERSION, Library, LibraryError
from .options import Options
from .trampoline import bridge

SOURCES = "c"
"""The name of the folder with the C."""


class BundleError(CodegenError):
    """Files of a model that are missing, damaged, or of another version."""


@dataclass(frozen=True)
class Parts:
    """What is kept of a model's code: the library's file, its C by name, what it was compiled with, its memory.

    `state_bytes` is what lasts from call to call, `work_bytes` what a call works in.
    """

    library: Path
    units: Mapping[str, str]
    options: Options
    state_bytes: int
    work_bytes: int


def write(folder: Path, parts: Parts) -> dict[str, Any]:
    """Write a library and its C into a folder; returns what `load` and people have to know of them, as JSON data."""
    library, options = parts.library, parts.options
    (folder / SOURCES).mkdir()
    for name, text in with_headers(parts.units).items():
        (folder / SOURCES / name).write_text(text, encoding="utf-8")
    # A loader takes two files of one name for one library: the name says what is inside.
    name = f"model-{_digest(library)[:16]}.so"
    shutil.copyfile(library, folder / name)
    return {
        "abi": ABI_VERSION,
        "library": name,
        **_machine(options),
        "variant": options.variant,
        "state_bytes": parts.state_bytes,
        "work_bytes": parts.work_bytes,
        "units": sorted(parts.units),
        "files": {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*")) if path.is_file()},
    }


def _machine(options: Options) -> dict[str, Any]:
    """The target, the machines that run what is made for it, and the CPU features that they must have."""
    platform, native = options.platform, options.variant == "native"
    here = machine.cpu() if native else machine.system()
    return {
        "target": options.target,
        "machine": platform.system or here,
        "needs": sorted(platform.needs) if native else [],
    }


def load(folder: Path, about: Mapping[str, Any], name: str, options: Options) -> Library:
    """The library of a folder, as it is if this machine can run it, else of its C compiled here.

    Raises BundleError for files that are missing or damaged, or of another version of the interface, and where the
    library cannot be used here and there is no compiler.
    """
    check(folder, about["files"])
    if about["abi"] != ABI_VERSION:
        raise BundleError(
            f"{folder} has interface version {about['abi']}; this gtensor has {ABI_VERSION}: save it again with it"
        )
    if about["library"] not in about["files"]:
        raise BundleError(f"{folder} names a library that is none of its files: {about['library']}")
    workshop = Workshop(options)
    provider = blas.choose(options, workshop)
    named = [Path(file) for file in sorted(about["files"]) if Path(file).parts[0] == SOURCES]
    sources = {file.name: (folder / file).read_text(encoding="utf-8") for file in named}
    units = {unit: sources[unit] for unit in about["units"]}

    def library(path: Path) -> Library:
        return Library(path, bridge(workshop), lambda: blas.table(provider, workshop).address, lambda: units)

    reason = unfit(about)
    if not reason:
        try:
            return library(folder / about["library"])
        except LibraryError as error:  # such as one that wants a newer C library
            reason = f"has a library that is of no use here ({error})"
    options.say(1, f"load: {folder} {reason}: its C is compiled")
    digest = hashlib.sha256("".join(f"{n}\0{text}\0" for n, text in sources.items()).encode()).hexdigest()
    recipe = Recipe(name, f"bundle {digest}\n{provider.text}")
    try:
        return library((workshop.find(recipe) or workshop.make(recipe, sources)).library_path)
    except ToolchainError as error:
        raise BundleError(f"{folder} {reason}, and its C cannot be compiled here: {error}") from None


def unfit(about: Mapping[str, Any]) -> str:
    """Why this machine cannot run a library; empty if it can.

    >>> unfit({"machine": machine.system(), "needs": [], "target": "x86-64"})
    ''
    >>> unfit({"machine": machine.system(), "needs": ["warp"], "target": "x86-64-v9"})
    'was made for x86-64-v9, and this CPU has no warp'
    """
    if about["machine"] not in (machine.cpu(), machine.system()):
        return f"was made for {about['machine']}, and this is {machine.cpu()}"
    if not machine.has(about["needs"]):
        lacking = sorted(set(about["needs"]) - machine.features())
        return f"was made for {about['target']}, and this CPU has no {', '.join(lacking)}"
    return ""


def check(folder: Path, files: Mapping[str, str]) -> None:
    """Raise BundleError unless the files of a folder are there and have the digests that were written."""
    for name, digest in files.items():
        path = folder / name
        if folder.resolve() not in path.resolve().parents:
            raise BundleError(f"{folder} names a file outside itself: {name}")
        try:
            same = _digest(path) == digest
        except OSError as error:
            raise BundleError(f"{path} cannot be read: {error.strerror}") from None
        if not same:
            raise BundleError(f"{path} is damaged: it is not the file that was saved")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

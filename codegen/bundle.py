"""A compiled model as files that stand by themselves: the library, and the C that it was made from.

Comes in: a `Library`; or such a folder on this or another machine. Goes out: the files and what is to be known of
them; or the library, loaded. Laws: a library is loaded only on the machine that it was made for, elsewhere its C is
compiled again, through the cache; files that are not those that were written are refused before anything is loaded.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import blas, machine
from .abi import with_headers
from .artefact import Recipe, Workshop
from .compiler import ToolchainError
from .errors import CodegenError
from .library import ABI_VERSION, Library
from .options import Options
from .trampoline import bridge

SOURCES = "c"
"""The name of the folder with the C."""


class BundleError(CodegenError):
    """Files of a model that are missing, damaged, or of another version."""


def write(folder: Path, library: Library, options: Options) -> dict[str, Any]:
    """Write the files of a library into a folder; returns what `load` has to know of them, as JSON data."""
    units = dict(library.sources)
    (folder / SOURCES).mkdir()
    for name, text in with_headers(units).items():
        (folder / SOURCES / name).write_text(text, encoding="utf-8")
    # A loader takes two files of one name for one library: the name says what is inside.
    name = f"model-{_digest(library.path)[:16]}.so"
    shutil.copyfile(library.path, folder / name)
    return {
        "abi": ABI_VERSION,
        "library": name,
        "machine": _machine(options),
        "variant": options.variant,
        "units": sorted(units),
        "files": {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*")) if path.is_file()},
    }


def load(folder: Path, about: Mapping[str, Any], name: str, options: Options) -> Library:
    """The library of a folder, as it is if it was made for this machine, else of its C compiled here.

    Raises BundleError for files that are missing or damaged, or of another version of the interface, and where the
    library is for another machine and there is no compiler here.
    """
    check(folder, about["files"])
    if about["abi"] != ABI_VERSION:
        raise BundleError(
            f"{folder} has interface version {about['abi']}; this gtensor has {ABI_VERSION}: save it again with it"
        )
    workshop = Workshop(options)
    provider = blas.choose(options, workshop)
    named = [Path(file) for file in sorted(about["files"]) if Path(file).parts[0] == SOURCES]
    sources = {file.name: (folder / file).read_text(encoding="utf-8") for file in named}
    path = folder / about["library"]
    if about["library"] not in about["files"]:
        raise BundleError(f"{folder} names a library that is none of its files: {about['library']}")
    if about["machine"] != _machine(options):
        options.say(1, f"load: {folder} was made for {about['machine']}: its C is compiled for {_machine(options)}")
        digest = hashlib.sha256("".join(f"{n}\0{text}\0" for n, text in sources.items()).encode()).hexdigest()
        try:
            path = workshop.make(Recipe(name, f"bundle {digest}\n{provider.text}"), sources).library_path
        except ToolchainError as error:
            raise BundleError(
                f"{folder} was made for {about['machine']}, this is {_machine(options)}, and its C cannot be compiled "
                f"here: {error}"
            ) from None
    units = {unit: sources[unit] for unit in about["units"]}
    return Library(path, bridge(workshop), lambda: blas.table(provider, workshop).address, lambda: units)


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


def _machine(options: Options) -> str:
    return machine.cpu() if options.variant == "native" else machine.system()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

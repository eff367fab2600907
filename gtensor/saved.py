"""Saved models: a compiled function, or a training step with its state, as a folder that lasts.

Comes in: what is compiled, the arrays that belong to it. Goes out: a folder with manifest.json (versions, arguments,
results, digests), the library, its C, and params.safetensors; or the parts of such a folder, checked. Laws: a folder
appears whole or not at all, and only an earlier saved model is replaced; reading one runs no Python from it, but a
library is code, and loading a model means trusting who made it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from . import arrays_file
from .codegen import build, bundle
from .codegen.bundle import BundleError, Parts
from .codegen.library import ERR_INDEX, ERR_MATRIX, Failure, Library
from .codegen.options import Options
from .codegen.platforms import NATIVE
from .errors import FileError, GTensorError, IndexingError, InternalError, MatrixError, OptionError
from .interface import Interface
from .stages import Compiled, Settings, Times, user_errors
from .trace import to_array

Array = np.ndarray[Any, Any]

FORMAT = 1
"""Of the manifest; a folder with a larger number was made by a newer gtensor."""

MANIFEST, ARRAYS = "manifest.json", "params.safetensors"

CAPTURED = "captured:"
"""Begins the names of the arrays that a function captured."""


@dataclass(frozen=True, eq=False)
class LoadedCode:
    """The last stage of a model that was loaded: the library and what stands around it, and nothing before it."""

    folder: Path
    library: Library
    interface: Interface
    captured: tuple[Array, ...]
    options: Options
    times: Times
    hit = True
    """Nothing was lowered, as if it had come from the cache."""

    @property
    def c_source(self) -> str:
        """The C, as it was saved."""
        return self.library.c_source

    @cached_property
    def assembly(self) -> str:
        """What the compiler of this machine makes of the C."""
        with user_errors():
            return build.assembly(self.library.sources, self.options)

    @property
    def files(self) -> list[Path]:
        """Where the C lies."""
        return [self.folder / bundle.SOURCES / name for name in self.library.sources]

    @property
    def traced(self) -> NoReturn:
        """There is none."""
        raise self._gone()

    @property
    def lowered(self) -> NoReturn:
        """There is none."""
        raise self._gone()

    def _gone(self) -> OptionError:
        return OptionError(
            f"{self.interface.name} was loaded from {self.folder}: its graph was not saved", hint="c_source shows its C"
        )

    def error(self, failure: Failure) -> GTensorError:
        """The error for a call that failed, with the equation that the C names."""
        family = {ERR_INDEX: IndexingError, ERR_MATRIX: MatrixError}.get(failure.status, InternalError)
        return family(str(failure.error()))


Code = Compiled | LoadedCode


def save(
    folder: str | os.PathLike[str],
    kind: str,
    compiled: Code,
    arrays: Mapping[str, Array],
    target: str = NATIVE,
    **extra: Any,
) -> None:
    """Write a model: `kind` says what `load` makes of it, `arrays` are kept, `extra` is JSON data for it.

    `target` names the machines that the library is for; for others than this one it is compiled now.
    """
    place = Path(folder).expanduser()
    if place.exists() and not (place / MANIFEST).is_file() and not (place.is_dir() and not any(place.iterdir())):
        raise FileError(f"save: {place} is there and no saved model, so it is left as it is", hint="name a new folder")
    parts = _parts(compiled, target)
    about = {"format": FORMAT, "gtensor": sys.modules[__package__ or "gtensor"].__version__, "kind": kind, **extra}
    about["interface"] = compiled.interface.as_json()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        if arrays:
            arrays_file.write(draft / ARRAYS, arrays)
        about["library"] = bundle.write(draft, parts)
        (draft / MANIFEST).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        os.chmod(draft, 0o777 & ~arrays_file.UMASK)
        _replace(draft, place)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _parts(compiled: Code, target: str) -> Parts:
    """The code of a model for a target; for others than its own it is compiled now."""
    options, library = options_of(compiled), compiled.library
    if target in (NATIVE, options.target):
        model = library.model
        return Parts(library.path, library.sources, options, model.state_bytes, model.work_bytes)
    if isinstance(compiled, LoadedCode):
        raise OptionError(
            f"{compiled.interface.name} was loaded from {compiled.folder}, so it stays what it was compiled for",
            hint=f"save it for {target} where it is made from Python",
        )
    with user_errors():
        options = replace(options, target=target, cc=Settings.now().options.cc)
        program = compiled.lowered.program
        entry, plan = build.artefact(program, compiled.traced.key, options), build.place(program, options)
        units = {name: entry.read(name) for name in entry.sources}
        return Parts(entry.library_path, units, options, plan.state_bytes, plan.work_bytes)


def read(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], LoadedCode, dict[str, Array]]:
    """The manifest of a saved model, its code and its arrays; raises FileError for a folder that is none."""
    path = Path(folder).expanduser()
    about, started = _manifest(path), time.perf_counter()
    settings = Settings.now()
    try:
        parts = about["library"]
        interface = Interface.from_json(about["interface"])
        with user_errors():
            options = replace(settings.options, variant=parts["variant"])
            library = _library(path, parts, interface.name, options)
            if library.path.parent == path:  # as it was saved, not compiled here
                options = replace(options, target=parts["target"])
        arrays = arrays_file.read(path / ARRAYS) if ARRAYS in parts["files"] else {}
        captured = tuple(arrays.pop(f"{CAPTURED}{i}") for i in range(len(interface.captured)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, GTensorError):
            raise
        raise FileError(f"{path / MANIFEST} is damaged: {type(error).__name__}: {error}") from None
    times = Times(0.0, 0.0, 0.0, time.perf_counter() - started)
    return about, LoadedCode(path, library, interface, captured, options, times), arrays


def captured_arrays(values: Sequence[Any]) -> dict[str, Array]:
    """The arrays that a function captured, by the names they have in a saved model."""
    return {f"{CAPTURED}{i}": to_array(value) for i, value in enumerate(values)}


def options_of(compiled: Code) -> Options:
    """What a model was compiled with."""
    return compiled.options if isinstance(compiled, LoadedCode) else compiled.traced.settings.options


def _library(path: Path, parts: Mapping[str, Any], name: str, options: Options) -> Library:
    try:
        return bundle.load(path, parts, name, options)
    except BundleError as error:
        raise FileError(str(error)) from None


def _manifest(path: Path) -> dict[str, Any]:
    try:
        about = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        number = about["format"]
    except FileNotFoundError:
        raise FileError(f"{path} is no saved model: it has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path / MANIFEST} is damaged: {error}") from None
    if number != FORMAT:
        made = about.get("gtensor", "?")
        raise FileError(
            f"{path} was saved by gtensor {made} in format {number}; this version reads format {FORMAT}",
            hint="load it with that version, or save it again with this one",
        )
    found: dict[str, Any] = about
    return found


def _replace(draft: Path, target: Path) -> None:
    """Give a folder its name; an earlier one of that name goes out of the way first, and comes back if that fails."""
    if not target.exists():
        os.rename(draft, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    os.rename(target, old / "old")
    try:
        os.rename(draft, target)
    except BaseException:
        os.rename(old / "old", target)
        os.rmdir(old)
        raise
    shutil.rmtree(old, ignore_errors=True)

"""BLAS for models that ask for it: which provider, its table of functions, its self-test.

Comes in: `Options` and a `Workshop`. Goes out: a `Provider` (known without loading anything, part of every cache
key) and, when a model needs it, the address of a `gt_blas` table. Laws: a provider that was named and is missing is
an error; BLAS runs on one thread, and only our own copy of it is told so; a table is handed out only after it
multiplied small matrices right.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.util
import itertools
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _abi, machine, sanitizers
from .abi import TEMPLATES
from .artefact import Recipe, Workshop
from .cache import Entry
from .compiler import ToolchainError
from .errors import CodegenError
from .options import Options
from .platforms import NATIVE
from .toolchain import stamp

FFI: Any = _abi.ffi

ACCELERATE_LINK = ("-framework", "Accelerate")


class BlasError(CodegenError):
    """A BLAS provider was named and is not there, or computes wrong results."""


@dataclass(frozen=True)
class Provider:
    """Where BLAS comes from. `name` is one of `options.BLAS`, `prefix` that of its symbols."""

    name: str
    path: str = ""
    version: str = ""
    prefix: str = ""

    @property
    def text(self) -> str:
        """For the cache key."""
        return f"blas {self.name} {self.path} {self.version}".rstrip()

    def __bool__(self) -> bool:
        return self.name != "none"


NONE = Provider("none")


def wheel(workshop: Workshop) -> Provider | None:
    """The scipy-openblas32 package, found without importing it (its import makes its symbols global)."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    libraries = sorted((package / "lib").glob("libscipy_openblas*.*"))
    infos = sorted(package.parent.glob("scipy_openblas32-*.dist-info"))
    version = infos[-1].name.removesuffix(".dist-info").partition("-")[2] if infos else ""
    return Provider("scipy-openblas32", str(libraries[0]), version, "scipy_") if libraries else None


def system(workshop: Workshop) -> Provider | None:
    """An OpenBLAS or BLAS of the system; the search, which starts processes, is remembered."""
    folder = workshop.cache.folder
    about = f"{machine.system()} {os.environ.get('LD_LIBRARY_PATH', '')}"
    known = folder.recall("blas", about)
    if known is None or stamp(known[0]) != known:
        name = ctypes.util.find_library("openblas") or ctypes.util.find_library("blas")
        if name is None:
            return None
        known = stamp(_location(name))
        folder.remember("blas", about, known)
    return Provider("system", known[0], " ".join(map(str, known[1:])))


def _location(name: str) -> str:
    """The full path of a library that the loader finds by name, if the system says; else the name."""
    if os.path.isabs(name):
        return name
    opened = FFI.dlopen(name)
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.rstrip("\n").partition("/")[2] for line in file if "/" in line}
    except OSError:
        return name
    finally:
        FFI.dlclose(opened)
    stem = name.partition(".so")[0]
    return next((f"/{path}" for path in sorted(paths) if os.path.basename(path).startswith(stem)), name)


def accelerate(workshop: Workshop) -> Provider | None:
    """Apple's Accelerate."""
    return Provider("accelerate", "Accelerate.framework", platform.mac_ver()[0]) if machine.MACOS else None


FINDERS: dict[str, Callable[[Workshop], Provider | None]] = {
    "scipy-openblas32": wheel,
    "system": system,
    "accelerate": accelerate,
    "none": lambda workshop: NONE,
}

HINTS = {
    "scipy-openblas32": "pip install scipy-openblas32",
    "system": "install OpenBLAS (Debian: apt install libopenblas0) or unset GT_BLAS",
    "accelerate": "Accelerate is part of macOS only; unset GT_BLAS",
}


def choose(options: Options, workshop: Workshop) -> Provider:
    """The provider that the options mean, found but not loaded; raises BlasError if it was named and is missing.

    Portable C, and what is built for a named target, calls none: nobody knows which there will be.
    """
    if options.variant == "portable" or options.target != NATIVE:
        return NONE
    if options.blas:
        provider = FINDERS[options.blas](workshop)
        if provider is None:
            raise BlasError(f"GT_BLAS={options.blas}: there is none here\n  hint: {HINTS[options.blas]}")
        return provider
    usual = "accelerate" if machine.MACOS else "scipy-openblas32"
    return FINDERS[usual](workshop) or NONE


@dataclass(frozen=True)
class Table:
    """A filled `gt_blas` and what keeps it alive."""

    provider: Provider
    pointer: Any
    library: Any

    @property
    def address(self) -> int:
        """Of the `gt_blas`."""
        return int(FFI.cast("intptr_t", self.pointer))


_TABLES: dict[Provider, Table] = {}
"""The tables of this process: a BLAS library stays loaded. Filled twice at once they are equal."""


def table(provider: Provider, workshop: Workshop) -> Table:
    """The table of a provider, loaded and tested when first asked for; raises BlasError."""
    if not provider:
        raise BlasError("a model that calls BLAS was built, but now there is none\n  hint: unset GT_BLAS")
    if provider not in _TABLES:
        made = shim(workshop) if provider.name == "accelerate" else from_symbols(provider)
        self_test(made)
        _TABLES[provider] = made
    return _TABLES[provider]


def from_symbols(provider: Provider) -> Table:
    """Load a BLAS library with the Fortran interface and take its functions by name."""
    try:
        library = FFI.dlopen(provider.path, FFI.RTLD_NOW | FFI.RTLD_LOCAL)
        pointer = FFI.new("gt_blas *")
        pointer.size = FFI.sizeof("gt_blas")
        pointer.sgemm = FFI.addressof(library, f"{provider.prefix}sgemm_")
        pointer.dgemm = FFI.addressof(library, f"{provider.prefix}dgemm_")
    except (OSError, FFI.error) as error:
        raise BlasError(f"{provider.path} cannot be used as BLAS: {error}") from error
    with contextlib.suppress(FFI.error):  # a BLAS that is no OpenBLAS has no such function
        getattr(library, f"{provider.prefix}openblas_set_num_threads")(1)
    return Table(provider, pointer, library)


def build_shim(workshop: Workshop, link: Sequence[str] = ACCELERATE_LINK, search: Sequence[Path] = ()) -> Entry:
    """The small library that puts Accelerate's CBLAS behind a `gt_blas`, compiled or from the cache."""
    source = (TEMPLATES / "gt_accelerate.c").read_text(encoding="utf-8")
    recipe = Recipe("accelerate", f"{source}\n{accelerate(workshop)}", ("-O2", "-fPIC"), tuple(link), plain=True)
    return workshop.find(recipe) or workshop.make(recipe, {"gt_accelerate.c": source}, search=search)


def shim(workshop: Workshop) -> Table:
    """Load Accelerate through the shim; raises BlasError if it cannot be compiled or loaded."""
    try:
        return from_shim(build_shim(workshop).library_path)
    except (OSError, ToolchainError) as error:
        raise BlasError(f"Accelerate cannot be used: {error}") from error


def from_shim(path: Path) -> Table:
    """The table of a library that exports `gt_blas_get`; raises OSError, or SanitizerError for one that would end this
    process."""
    sanitizers.check(path)
    library = FFI.dlopen(os.fspath(path), FFI.RTLD_NOW | FFI.RTLD_LOCAL)
    return Table(Provider("accelerate", str(path)), library.gt_blas_get(), library)


def self_test(made: Table) -> None:
    """Multiply small integer matrices in all four orientations; raises BlasError if one product is wrong."""
    m, n, k = 3, 4, 5
    for name, ctype, dtype in (("sgemm", "float", np.float32), ("dgemm", "double", np.float64)):
        multiply = getattr(made.pointer, name)
        one = FFI.new(f"{ctype} *", 1.0)
        for ta, tb in itertools.product("NT", repeat=2):
            a: Any = np.arange(m * k, dtype=dtype).reshape((m, k) if ta == "N" else (k, m), order="F")
            b: Any = np.arange(n * k, dtype=dtype).reshape((k, n) if tb == "N" else (n, k), order="F")
            c = np.ones((m, n), dtype, order="F")
            right = (a if ta == "N" else a.T) @ (b if tb == "N" else b.T) + c
            sizes = [FFI.new("int32_t *", value) for value in (m, n, k, a.shape[0], b.shape[0], m)]
            pa, pb, pc = (FFI.from_buffer(f"{ctype}[]", array.reshape(-1, order="F")) for array in (a, b, c))
            multiply(ta.encode(), tb.encode(), *sizes[:3], one, pa, sizes[3], pb, sizes[4], one, pc, sizes[5])
            if not np.array_equal(np.frombuffer(FFI.buffer(pc), dtype).reshape((m, n), order="F"), right):
                raise BlasError(
                    f"{made.provider.path} multiplies wrong ({name}, {ta}{tb})\n"
                    "  hint: GT_BLAS names another provider; GT_BLAS=none uses gtensor's own products"
                )

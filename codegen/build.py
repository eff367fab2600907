"""The one door for gtensor: a program and a key in, a loaded library out.

Comes in: a `Program`, the caller's key text (all that the program was made from), `Options`. On a miss the program
is checked, prepared, planned, written as C, compiled, put into the cache and loaded; on a hit it is only loaded.
Laws: `lookup` needs no program, starts no process and imports no templates; the key holds, besides the caller's
text, everything that codegen and the toolchain add to the result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import blas
from .abi import TEMPLATES
from .artefact import Recipe, Workshop
from .cache import Cache, Entry, tree_digest
from .lazy import Lazy
from .library import ABI_VERSION, Library, LibraryError
from .options import Options
from .target import Target
from .trampoline import begin, bridge

if TYPE_CHECKING:
    from . import write as writer
    from .emit import Source
    from .memory import Plan
    from .program import Program
else:
    writer = Lazy(".write", __package__)


def lookup(key_text: str, options: Options) -> Library | None:
    """The library of a key if it is in the cache, loaded; else None.

    Raises ToolchainError for a named compiler that does not work only when there is no library for this CPU
    either: what was compiled runs without a compiler.
    """
    started = time.perf_counter()
    workshop = Workshop(options)
    provider = blas.choose(options, workshop)
    entry = workshop.find(_recipe("model", key_text, provider))
    if entry is None or not entry.library_path.exists():
        return None
    try:
        library = _load(entry, workshop, provider)
    except LibraryError:
        if entry.library_path.exists():
            raise
        return None  # somebody cleared the cache meanwhile
    options.say(1, f"build: {entry.label}: from the cache in {1e3 * (time.perf_counter() - started):.1f} ms")
    return library


def build(program: Program, key_text: str, options: Options) -> Library:
    """The library of a program: that of the cache if the key is known, else compiled now.

    Raises ProgramError for a program that breaks the rules, ToolchainError without a compiler,
    CompileError if it refuses the C, BlasError if BLAS was named and is missing.
    """
    if (found := lookup(key_text, options)) is not None:
        return found
    workshop = Workshop(options)
    provider = blas.choose(options, workshop)
    begin(options)
    entry, compiled = _make(program, key_text, workshop, provider), time.perf_counter()
    library = _load(entry, workshop, provider)
    options.say(1, f"build: {program.name}: loaded in {1e3 * (time.perf_counter() - compiled):.1f} ms")
    return library


def artefact(program: Program, key_text: str, options: Options) -> Entry:
    """The library of a program for `options.target`, from the cache or compiled now; raises as `build` does.

    It is not loaded, so it may be for another machine.
    """
    workshop = Workshop(options)
    provider = blas.choose(options, workshop)
    found = workshop.find(_recipe("model", key_text, provider))
    if found is not None and found.library_path.exists():
        return found
    return _make(program, key_text, workshop, provider)


def _make(program: Program, key_text: str, workshop: Workshop, provider: blas.Provider) -> Entry:
    options, started = workshop.options, time.perf_counter()
    plan = place(program, options)
    planned = time.perf_counter()
    source = writer.emit(plan, target(options), options.timing, options.flush)
    written = time.perf_counter()
    options.say(4, source.c_source)
    units = {unit.filename: unit.text for unit in source.units}
    entry = workshop.make(_recipe(program.name, key_text, provider), units)
    options.say(
        1,
        f"build: {program.name}: checked and planned in {1e3 * (planned - started):.1f} ms, "
        f"written as {len(units)} units in {1e3 * (written - planned):.1f} ms, "
        f"compiled in {1e3 * (time.perf_counter() - written):.1f} ms",
    )
    return entry


def place(program: Program, options: Options) -> Plan:
    """The program checked, with its products assigned and a place for each buffer; raises as `build` does."""
    return writer.place(program, target(options), _has_blas(options))


def write(program: Program, options: Options) -> Source:
    """The C that `build` would compile; raises as `build` does."""
    return writer.emit(place(program, options), target(options), options.timing, options.flush)


def _has_blas(options: Options) -> bool:
    return bool(blas.choose(options, Workshop(options)))


def target(options: Options) -> Target:
    """What C would be written for; raises ToolchainError without a compiler."""
    return Workshop(options).compiler.target(options.variant)


def assembly(sources: Mapping[str, str], options: Options) -> str:
    """The assembly of C units (`Library.sources`), with the flags that a build would use."""
    workshop = Workshop(options)
    return workshop.assembly(_recipe("assembly", "", blas.NONE), sources)


def cache(options: Options) -> Cache:
    """The cache, to list, prune or clear."""
    return Cache(options.cache, options.say, options.cache_size)


def _recipe(label: str, key_text: str, provider: blas.Provider) -> Recipe:
    own = tree_digest(Path(__file__).parent, TEMPLATES)
    return Recipe(label, "\n".join([f"codegen {own}", f"abi {ABI_VERSION}", provider.text, "", key_text]))


def _load(entry: Entry, workshop: Workshop, provider: blas.Provider) -> Library:
    return Library(
        entry.library_path,
        bridge(workshop),
        lambda: blas.table(provider, workshop).address,
        lambda: {name: entry.read(name) for name in entry.sources},
    )

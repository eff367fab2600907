"""The stages of a compilation: traced, lowered (simplified, scheduled, a program), compiled; each can be read.

Comes in: a traced function and how its arguments share memory. Goes out: a `Compiled`, from the cache or built
now. Laws: the key holds all that the C depends on, and nothing of the user's files; on a hit nothing is
simplified, fused, lowered or emitted unless a setting asks to see or check it; errors of the compiler reach the
user as errors of gtensor.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import errors, ir
from .codegen import build
from .codegen.cache import tree_digest
from .codegen.cexpr import identifier
from .codegen.compiler import ToolchainError
from .codegen.errors import CodegenError, ProgramError
from .codegen.lazy import Lazy
from .codegen.library import ERR_INDEX, ERR_MATRIX, Failure, Library
from .codegen.options import OptionError, Options
from .config import get
from .interface import Interface
from .ir import Eqn, Graph
from .prim import Bounds, Indexing
from .trace import Traced as Tracing
from .types import Dim
from .wiring import Wiring

if TYPE_CHECKING:
    from . import pipeline
    from .codegen.memory import Plan
    from .codegen.program import Program
    from .report import Kernel
    from .schedule import Schedule
else:
    pipeline = Lazy(".pipeline", __package__)

_NUMBERS = itertools.count(1)
"""Of the models written to GT_DUMP."""


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Errors of codegen and of files as errors of gtensor: the user's settings and tools, or a fault of ours."""
    try:
        yield
    except ProgramError as error:
        raise errors.InternalError(str(error)) from error
    except CodegenError as error:
        family = errors.OptionError if isinstance(error, OptionError) else errors.ToolchainError
        message, _, hint = str(error).partition("\n  hint: ")
        raise family(message, hint=hint) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "gtensor cache prune makes room; " if full else ""
        raise errors.ToolchainError(
            f"a compiled model needs files: {error.filename or 'one'}: {error.strerror or error}",
            hint=f"{hint}GT_CACHE names the folder of compiled models, TMPDIR that of temporary files",
        ) from error


@dataclass(frozen=True)
class Settings:
    """The settings that a compilation goes by, as they were when the function was traced."""

    options: Options
    skip: tuple[str, ...]
    check: int
    dump: str

    @staticmethod
    def now() -> Settings:
        """From `gt.config` and the environment; raises OptionError for a value that means nothing."""
        with user_errors():
            options = Options(
                cache=get("cache"),
                cache_size=get("cache_size"),
                cc=get("cc"),
                cflags=get("cflags"),
                blas=get("blas"),
                variant=get("variant"),
                sanitize=get("sanitize"),
                timing=bool(get("time")),
                flush=bool(get("flush")),
                debug=get("debug"),
            )
        return Settings(options, tuple(get("skip")), get("check"), get("dump"))

    @property
    def looks_inside(self) -> bool:
        """Whether the stages are wanted even when the cache has the result."""
        return bool(self.dump) or self.check > 0 or self.options.debug >= 2


Finish = Callable[["Compiled"], Any]


@dataclass(frozen=True, eq=False)
class Traced:
    """The first stage: the graph of a function for one signature. `seconds` is what tracing took."""

    call: Tracing
    wiring: Wiring
    settings: Settings
    seconds: float
    finish: Finish

    @property
    def graph(self) -> Graph:
        """The graph as traced."""
        return self.call.graph

    def as_text(self) -> str:
        """The graph, one equation a line, with the user's lines."""
        return ir.text(self.graph)

    @cached_property
    def key(self) -> str:
        """The canonical text of all that the C is made from, this version of gtensor included."""
        dims = {e.name: e.bound for v in self.graph.inputs for e in v.type.shape if isinstance(e, Dim)}
        package = sys.modules[__package__ or "gtensor"]
        return "\n".join(
            [
                f"gtensor {package.__version__} {tree_digest(Path(__file__).parent)}",
                f"skip {' '.join(self.settings.skip)}".rstrip(),
                f"dims {' '.join(f'{name}<={bound}' for name, bound in sorted(dims.items()))}".rstrip(),
                self.wiring.as_text(),
                f"outputs {' '.join(self.graph.output_names)}".rstrip(),
                ir.text(self.graph, sources=False),
            ]
        )

    def lower(self) -> Lowered:
        """The next stages, each made when it is looked at."""
        return Lowered(self)


@dataclass(frozen=True, eq=False)
class Lowered:
    """The stages between the graph and C: simplified, scheduled, and a program of loops."""

    traced: Traced

    @cached_property
    def simplified(self) -> Graph:
        """The graph after the passes."""
        settings, graph = self.traced.settings, self.traced.graph
        say = settings.options.say
        if settings.options.debug >= 2:
            say(2, self.traced.as_text())
        started = time.perf_counter()
        result = pipeline.simplify(graph, skip=settings.skip, check=settings.check, log=self._log)
        say(1, f"passes: {graph.name}: {len(graph.eqns)} equations became {len(result.eqns)} {_since(started)}")
        return result

    def _log(self, name: str, before: Graph, after: Graph, seconds: float) -> None:
        """Say what a pass did."""
        options = self.traced.settings.options
        counts = "unchanged" if after is before else f"{len(before.eqns)} equations became {len(after.eqns)}"
        options.say(1, f"pass {name}: {counts} in {1e3 * seconds:.1f} ms")
        if after is not before and options.debug >= 2:
            options.say(2, pipeline.diff(before, after))

    @cached_property
    def schedule(self) -> Schedule:
        """The equations grouped into kernels, each with its reason."""
        started = time.perf_counter()
        result = pipeline.fuse(self.simplified)
        options = self.traced.settings.options
        options.say(1, f"fuse: {self.traced.graph.name}: {len(result.groups)} kernels {_since(started)}")
        if options.debug >= 3:
            options.say(3, result.as_text())
        return result

    @cached_property
    def program(self) -> Program:
        """The loops, before any C."""
        wiring, schedule = self.traced.wiring, self.schedule
        started = time.perf_counter()
        result = pipeline.lower(
            schedule, state=wiring.state, alias=wiring.alias, loss=wiring.loss, header=_header(self.traced, schedule)
        )
        self.traced.settings.options.say(1, f"lower: {self.traced.graph.name} {_since(started)}")
        return result

    @cached_property
    def plan(self) -> Plan:
        """The program with a place for each buffer; raises ToolchainError without a compiler."""
        with user_errors():
            return build.place(self.program, self.traced.settings.options)

    @cached_property
    def c_source(self) -> str:
        """The C, its comments from this trace."""
        with user_errors():
            return build.write(self.program, self.traced.settings.options).c_source

    def as_text(self, stage: str = "program") -> str:
        """A stage as text: `simplified`, `schedule`, `program`, `memory` or `c`; raises OptionError for others."""
        if stage not in _TEXTS:
            raise errors.OptionError(f"there is no stage {stage!r}", hint=f"stages are {', '.join(_TEXTS)}")
        return _TEXTS[stage](self)

    def compile(self) -> Any:
        """The compiled function, from the cache or built now.

        Raises ToolchainError where there is no compiler or it fails, and for a named BLAS that is missing.
        """
        settings = self.traced.settings
        options, name = settings.options, self.traced.graph.name
        options.say(1, f"trace: {name}: {len(self.traced.graph.eqns)} equations in {1e3 * self.traced.seconds:.1f} ms")
        with user_errors():
            started = time.perf_counter()
            library = build.lookup(self.traced.key, options)
            hit, looked = library is not None, time.perf_counter()
            if library is None or settings.looks_inside:
                program = self.program
                if settings.dump:
                    self._dump(Path(settings.dump))
                lowered = time.perf_counter()
                library = library or build.build(program, self.traced.key, options)
            else:
                lowered = looked
        times = Times(self.traced.seconds, looked - started, lowered - looked, time.perf_counter() - lowered)
        return self.traced.finish(Compiled(self, library, hit, times))

    def _dump(self, folder: Path) -> None:
        """Write every stage to a numbered file."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{next(_NUMBERS):03}-{identifier(self.traced.graph.name)}"
        texts = [("traced", self.traced.as_text()), *((stage, self.as_text(stage)) for stage in _TEXTS)]
        for number, (stage, text) in enumerate(texts):
            suffix = ".c" if stage == "c" else f"-{stage}.txt"
            (folder / f"{stem}-{number}{suffix}").write_text(text.rstrip("\n") + "\n", encoding="utf-8")


_TEXTS: dict[str, Callable[[Lowered], str]] = {
    "simplified": lambda stage: ir.text(stage.simplified),
    "schedule": lambda stage: stage.schedule.as_text(),
    "program": lambda stage: pipeline.show(stage.program),
    "memory": lambda stage: pipeline.show_memory(stage.plan, stage.traced.graph),
    "c": lambda stage: stage.c_source,
}
"""Stage -> its text, in order."""


@dataclass(frozen=True)
class Times:
    """Seconds that each part of a compilation took: `find` is the look into the cache."""

    trace: float
    find: float
    lower: float
    build: float

    @property
    def total(self) -> float:
        """All together."""
        return self.trace + self.find + self.lower + self.build


@dataclass(frozen=True, eq=False)
class Compiled:
    """The last stage: the loaded library. `hit` says whether the cache had it."""

    lowered: Lowered
    library: Library
    hit: bool
    times: Times

    @property
    def traced(self) -> Traced:
        """The first stage."""
        return self.lowered.traced

    @cached_property
    def interface(self) -> Interface:
        """What stands around the C."""
        return Interface.of(self.traced.call, self.traced.wiring)

    @property
    def captured(self) -> tuple[Any, ...]:
        """The arrays that the function captured, as they were when it was traced."""
        return self.traced.call.captured

    @cached_property
    def c_source(self) -> str:
        """The C; the comments are this trace's, or without a compiler those of the build."""
        with user_errors():
            try:
                build.target(self.traced.settings.options)
            except ToolchainError:
                return self.library.c_source
        return self.lowered.c_source

    @cached_property
    def assembly(self) -> str:
        """What the compiler makes of the C."""
        with user_errors():
            return build.assembly(self.library.sources, self.traced.settings.options)

    @property
    def files(self) -> list[Path]:
        """Where the C that was compiled lies."""
        return [self.library.path.parent / name for name in self.library.sources]

    def error(self, failure: Failure) -> errors.GTensorError:
        """The error for a call that failed, at the user's line: IndexingError, MatrixError, or InternalError."""
        eqns = self.lowered.schedule.equations
        if failure.status == ERR_INDEX and 0 <= failure.node < len(eqns):
            return index_error(eqns[failure.node], failure.index)
        if failure.status == ERR_MATRIX and 0 <= failure.node < len(eqns):
            return matrix_error(eqns[failure.node], failure.index)
        return errors.InternalError(str(failure.error()))


def index_error(eqn: Eqn, index: int) -> errors.IndexingError:
    """The error for an index that a compiled call found out of range, worded as the evaluator does."""
    place = None if eqn.prim.place is None else eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    where = _RANGES[type(place)](eqn, place) if type(place) in _RANGES else ""
    return errors.IndexingError(f"index {index} is out of range{where}", sources=eqn.source).during(eqn.prim.name)


def matrix_error(eqn: Eqn, number: int) -> errors.MatrixError:
    """The error for a matrix for which a compiled call found no answer, worded as the evaluator does."""
    assert eqn.prim.place is not None
    calling = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    message = f"matrix {number} of the batch {calling.fails}"
    return errors.MatrixError(message, sources=eqn.source).during(eqn.prim.name)


_RANGES: dict[type, Callable[[Eqn, Any], str]] = {
    Indexing: lambda eqn, place: f" for an axis of {eqn.ins[0].type.shape[place.axis]}",
    Bounds: lambda eqn, place: f" [{place.low}, {place.high})",
}
"""How a record places an indexed operation -> the range that its indices have."""


class Inspected:
    """What can be seen of a compiled function, by whatever class calls it. `compiled` is its last stage."""

    compiled: Compiled

    @property
    def graph(self) -> Graph:
        """The graph as traced."""
        return self.compiled.traced.graph

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels in the order they run: what each computes, reads and writes."""
        return pipeline.kernels(self.compiled.lowered.plan)

    @property
    def c_source(self) -> str:
        """The generated C."""
        return self.compiled.c_source

    @property
    def memory(self) -> str:
        """Every buffer, where it lives and when."""
        return self.compiled.lowered.as_text("memory")

    @property
    def assembly(self) -> str:
        """The assembly that the C compiler makes."""
        return self.compiled.assembly

    def as_text(self) -> str:
        """The last stage as text: the C."""
        return self.c_source


def _since(started: float) -> str:
    return f"in {1e3 * (time.perf_counter() - started):.1f} ms"


def _header(traced: Traced, schedule: Schedule) -> tuple[str, ...]:
    """What the C says of itself at its top."""
    graph, alias = traced.graph, traced.wiring.alias
    counts = f"{len(schedule.graph.eqns)} equations in {len(schedule.groups)} kernels"
    donated = [graph.inputs[i].hint for _, i in sorted(alias.items()) if i not in traced.wiring.state]
    return (counts, *([f"writes in place: {', '.join(donated)}"] if donated else []))

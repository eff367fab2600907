"""What each kernel of a compiled function does: its loops, its equations, what it reads and writes.

Comes in: a planned program. Goes out: one `Kernel` record per step and a text for people. Bytes are those of the
whole arrays a kernel touches, each counted once, at the bounds of run-time extents: what has to move if nothing
stays in a cache. Law: the records say nothing that the program does not say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .codegen.access import touches
from .codegen.memory import Plan, nbytes
from .codegen.program import (
    Assign,
    Extent,
    Gemm,
    Guard,
    LineCall,
    Program,
    Reduce,
    Repeat,
    Routine,
    RowKernel,
    Step,
    Stmt,
    upper,
)
from .codegen.program import Kernel as Compiled
from .codegen.show import show_extent


@dataclass(frozen=True)
class Kernel:
    """One kernel: `kind` is `rows`, `product`, `lines` (a function called for each) or `routine`.

    `space` are its loops (or sizes), `equations` its statements, `lines` the user's.

    `reads` and `writes` name arrays, `bytes_read` and `bytes_written` are their sizes, `flops` counts the
    multiplications and additions of products, and one per statement and element, or element of a line, elsewhere.
    """

    name: str
    kind: str
    space: str
    equations: tuple[str, ...]
    lines: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    flops: int

    def __str__(self) -> str:
        head = f"{self.name}: {self.kind} over ({self.space}), {amount(self.flops, 'flop')}"
        moved = [
            f"  reads  {amount(self.bytes_read, 'B'):>9}  {', '.join(self.reads) or 'nothing'}",
            f"  writes {amount(self.bytes_written, 'B'):>9}  {', '.join(self.writes)}",
        ]
        body = [*(f"  {eqn}" for eqn in self.equations), *(f"  # {line}" for line in self.lines)]
        return "\n".join([head, *moved, *body])


def kernels(plan: Plan) -> tuple[Kernel, ...]:
    """The kernels of a program in the order they run; those of a loop once, with the work of all trips
    (of one where a condition ends it)."""
    return tuple(_kernel(step, plan.program, trips) for step, trips in _unrolled(plan.program.steps, 1))


def _unrolled(steps: Sequence[Step], trips: int) -> Iterator[tuple[Compiled, int]]:
    """The kernels of the steps, and how often each runs."""
    for step in steps:
        if isinstance(step, Repeat):
            guarded = any(isinstance(inner, Guard) for inner in step.steps)
            yield from _unrolled(step.steps, trips * (1 if guarded else upper(step.count)))
        elif not isinstance(step, Guard):
            yield step, trips


def text(found: Sequence[Kernel]) -> str:
    """All kernels, and the totals."""
    total = sum(k.flops for k in found), sum(k.bytes_read for k in found), sum(k.bytes_written for k in found)
    flops, read, written = amount(total[0], "flop"), amount(total[1], "B"), amount(total[2], "B")
    return "\n\n".join([*map(str, found), f"{len(found)} kernels: {flops}, {read} read, {written} written"])


def amount(count: float, unit: str) -> str:
    """A count with a unit, in three digits.

    >>> amount(96, "B"), amount(123456, "flop")
    ('96 B', '123 kflop')
    """
    for prefix in ("", "k", "M", "G"):
        if count < 1000 or prefix == "G":
            break
        count /= 1000
    digits = 0 if not prefix or count >= 100 else 1
    return f"{count:.{digits}f} {prefix}{unit}"


def _kernel(step: Compiled, program: Program, trips: int) -> Kernel:
    found, table = touches(step), program.table
    reads = tuple(name for name in found.reads if name not in found.scratch and table[name].role != "row")
    writes = tuple(name for name in found.writes if name not in found.scratch and table[name].role != "row")
    sizes = {name: nbytes(table[name].shape, table[name].dtype) for name in (*reads, *writes)}
    return Kernel(
        step.name,
        _KINDS[type(step)],
        ", ".join(map(show_extent, _space(step))),
        tuple(_equations(step)),
        step.comment,
        reads,
        writes,
        trips * sum(sizes[name] for name in reads),
        trips * sum(sizes[name] for name in writes),
        trips * _flops(step),
    )


_KINDS: dict[type, str] = {RowKernel: "rows", Gemm: "product", LineCall: "lines", Routine: "routine"}


def _space(step: Compiled) -> Sequence[Extent]:
    """The loops of a step; of a routine its sizes."""
    if isinstance(step, Gemm):
        return (*step.batch, step.m, step.n)
    return step.sizes if isinstance(step, Routine) else step.space


def _equations(step: Compiled) -> list[str]:
    """The scalar statements of a step that compute something, or the function it calls."""
    lines = []
    if isinstance(step, LineCall):
        lines.append(f"{step.function}({', '.join(line.access.buffer for line in step.lines)})")
    if isinstance(step, Gemm):
        terms = [f"{t.a.buffer} @ {t.b.buffer} over {show_extent(t.k)}" for t in step.terms]
        lines.append(f"{step.acc} = {' + '.join(terms)}")
    if isinstance(step, Routine):
        lines.append(f"{', '.join(step.writes)} = {step.function}({', '.join(step.reads)})")
    for stmt in _statements(step):
        if isinstance(stmt, Assign):
            lines.append(f"{stmt.var} = {stmt.expr.text()}")
        elif isinstance(stmt, Reduce):
            lines.append(f"{stmt.var} = {stmt.op}({stmt.value})")
    return lines


def _statements(step: Compiled) -> list[Stmt]:
    if isinstance(step, Gemm):
        return list(step.epilogue)
    if isinstance(step, LineCall | Routine):
        return []
    return [stmt for phase in step.phases for stmt in (*phase.head, *phase.body)]


def _flops(step: Compiled) -> int:
    if isinstance(step, Routine):
        return step.flops
    if isinstance(step, LineCall):
        return math.prod(map(upper, step.space)) * max(upper(line.length) for line in step.lines)
    if isinstance(step, RowKernel):
        rows, size = math.prod(map(upper, step.space[:-1])), math.prod(map(upper, step.space))
        return sum(rows * _counted(phase.head) + size * _counted(phase.body) for phase in step.phases)
    size = math.prod(map(upper, (*step.batch, step.m, step.n)))
    return size * (2 * sum(upper(term.k) for term in step.terms) + _counted(step.epilogue))


def _counted(stmts: Sequence[Stmt]) -> int:
    return sum(isinstance(stmt, Assign | Reduce) for stmt in stmts)

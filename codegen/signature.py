"""What a kernel function takes, and when two kernels are the same function.

In comes a step (as nest.py left it) and the places of its buffers; out go the parameters and a key. Laws:
memory that several buffers share is one pointer, so `restrict` is true wherever it is written; kernels
with equal keys differ in names, notes and places only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from .cexpr import DTYPES
from .memory import Place
from .nest import one_element, reads
from .program import (
    Access,
    Accumulate,
    Assign,
    Buffer,
    Check,
    Counter,
    Dim,
    Extent,
    Gemm,
    Kernel,
    LineCall,
    Load,
    Reduce,
    Routine,
    RowKernel,
    Stmt,
    Store,
)


@dataclass(frozen=True)
class Param:
    """One pointer: its C type, whether the kernel writes it, and the buffers that are this memory."""

    place: Place
    ctype: str
    const: bool
    restrict: bool
    buffers: tuple[str, ...]

    def declare(self, name: str) -> str:
        """The parameter as C: `const float *restrict x`."""
        return f"{'const ' if self.const else ''}{self.ctype} *{'restrict ' if self.restrict else ''}{name}"


@dataclass(frozen=True)
class Signature:
    """Parameters in order: pointers, run-time dimensions, then `args` (a kernel that can fail) and `blas`."""

    params: tuple[Param, ...]
    dims: tuple[Dim, ...]
    fails: bool
    blas: bool
    key: Hashable


def statements(step: Kernel) -> Iterator[Stmt]:
    """All statements of a step."""
    if isinstance(step, Gemm):
        yield from step.epilogue
    elif isinstance(step, RowKernel):
        for phase in step.phases:
            yield from phase.head
            yield from phase.body


def local(step: Kernel, buffer: str, table: Mapping[str, Buffer]) -> bool:
    """Whether the running value of an accumulator lives in a variable of the kernel: its target is one element."""
    return one_element(table[buffer]) and any(a.buffer == buffer for a in step.accumulators)


def touched(step: Kernel, table: Mapping[str, Buffer]) -> Iterator[tuple[str, bool]]:
    """Every use of memory, in the order of the text: (buffer, whether it is written)."""
    if isinstance(step, Gemm):
        for term in step.terms:
            yield term.a.buffer, False
            yield term.b.buffer, False
        for name in step.memory:
            yield name, True
    elif isinstance(step, LineCall):
        for line in step.lines:
            yield line.access.buffer, line.written
        for name in step.memory:
            yield name, True
    elif isinstance(step, Routine):
        yield from ((name, False) for name in step.reads)
        yield from ((name, True) for name in (*step.writes, *([step.scratch] if step.scratch else [])))
    for stmt in statements(step):
        if isinstance(stmt, Load):
            yield stmt.access.buffer, False
        elif isinstance(stmt, Store | Accumulate):
            yield stmt.access.buffer, True
    for accumulator in step.accumulators:
        yield accumulator.buffer, True
        if accumulator.scratch and not local(step, accumulator.buffer, table):
            yield accumulator.scratch, True


def _extents(step: Kernel, table: Mapping[str, Buffer]) -> Iterator[Extent]:
    """Every extent that the text of the kernel names."""
    if isinstance(step, Gemm):
        yield from (*step.batch, step.m, step.n)
        for term in step.terms:
            yield from (term.k, *term.a.strides, term.a.offset, *term.b.strides, term.b.offset)
    else:
        yield from step.sizes if isinstance(step, Routine) else step.space
    if isinstance(step, LineCall):
        yield from step.lengths
        for line in step.lines:
            yield from (line.length, line.step, *line.access.strides, line.access.offset)
    for stmt in statements(step):
        if isinstance(stmt, Load | Store | Accumulate):
            yield from (*stmt.access.strides, stmt.access.offset, *(stride for _, stride in stmt.access.index))
        elif isinstance(stmt, Check):
            yield stmt.high
    for accumulator in step.accumulators:
        walked = accumulator.start != "keep" or accumulator.scratch
        if walked and not local(step, accumulator.buffer, table):
            yield from table[accumulator.buffer].shape


def signature(step: Kernel, table: Mapping[str, Buffer], places: Mapping[str, Place]) -> Signature:
    """The parameters of the function that a step becomes, what it only reads first, and its key."""
    buffers: dict[tuple[Place, str], dict[str, None]] = {}
    written: set[tuple[Place, str]] = set()
    for name, writes in touched(step, table):
        storage = (places[name], DTYPES[table[name].dtype])
        buffers.setdefault(storage, {})[name] = None
        if writes:
            written.add(storage)
    seen = [place for place, _ in buffers]
    params = tuple(
        Param(place, ctype, const, seen.count(place) == 1, tuple(names))
        for const in (True, False)
        for (place, ctype), names in buffers.items()
        if const != ((place, ctype) in written)
    )
    dims = {e.index: e for e in _extents(step, table) if isinstance(e, Dim)}
    fails = any(isinstance(stmt, Check) for stmt in statements(step)) or (isinstance(step, Routine) and step.node >= 0)
    blas = isinstance(step, Gemm) and step.route == "blas"
    where = {name: number for number, param in enumerate(params) for name in param.buffers}
    key = (
        tuple((p.ctype, p.const, p.restrict) for p in params),
        _Key(where, table).step(step),
    )
    ordered = tuple(Dim(d.index, d.name, d.bound) for _, d in sorted(dims.items()))
    return Signature(params, ordered, fails, blas, key)


class _Key:
    """A step as nested tuples in which buffers and variables are numbers, in order of appearance."""

    def __init__(self, where: Mapping[str, int], table: Mapping[str, Buffer]) -> None:
        self._where = where
        self._table = table
        self._vars: dict[str, int] = {}

    def step(self, step: Kernel) -> Hashable:
        """The key of a step."""
        shape: Hashable
        if isinstance(step, Gemm):
            terms = tuple((self._access(t.a), self._access(t.b), t.k) for t in step.terms)
            own = (step.scratch, step.packed_a, step.packed_b)
            memory = tuple(self._where[name] if name else None for name in own)
            shape = (step.dtype, step.batch, step.m, step.n, terms, step.route, memory)
            self._vars[step.acc] = 0
            body: Hashable = self._all(step.epilogue)
        elif isinstance(step, LineCall):
            memory = tuple(self._where[name] for name in step.memory)
            shape = (step.function, step.space, step.lengths, memory)
            body = tuple((self._access(line.access), line.step, line.length, line.written) for line in step.lines)
        elif isinstance(step, Routine):
            shape = (step.library, step.function, step.dtype, step.sizes, step.node)
            arrays = (*step.reads, *step.writes, *([step.scratch] if step.scratch else []))
            body = tuple(self._where[name] for name in arrays)
        else:
            shape = step.space
            body = tuple((self._all(phase.head), self._all(phase.body)) for phase in step.phases)
        return type(step).__name__, shape, body, tuple(self._accumulator(step, a.buffer) for a in step.accumulators)

    def _accumulator(self, step: Kernel, buffer: str) -> Hashable:
        found = next(a for a in step.accumulators if a.buffer == buffer)
        wide = found.scratch and (self._table[found.scratch].dtype, self._where.get(found.scratch))
        held = self._table[buffer]
        return self._where[buffer], held.dtype, held.shape, found.op, found.start, wide

    def _all(self, stmts: Iterable[Stmt]) -> Hashable:
        return tuple(self._stmt(stmt) for stmt in stmts)

    def _stmt(self, stmt: Stmt) -> Hashable:
        own: tuple[Hashable, ...] = (type(stmt).__name__, tuple(self._var(var) for var in reads(stmt)))
        if isinstance(stmt, Load | Assign | Counter | Reduce):
            own += (self._vars.setdefault(stmt.var, len(self._vars)),)
        if isinstance(stmt, Load | Store | Accumulate):
            own += (self._access(stmt.access),)
        if isinstance(stmt, Load | Assign | Reduce):
            own += (stmt.dtype,)
        if isinstance(stmt, Reduce | Accumulate):
            own += (stmt.op,)
        if isinstance(stmt, Assign):
            own += (stmt.expr.template, stmt.expr.t, stmt.expr.r)
        if isinstance(stmt, Counter):
            own += (stmt.axis,)
        if isinstance(stmt, Check):
            own += (stmt.low, stmt.high, stmt.node)
        return own

    def _access(self, access: Access) -> Hashable:
        index = tuple((self._var(var), stride) for var, stride in access.index)
        return self._where[access.buffer], self._table[access.buffer].dtype, access.strides, access.offset, index

    def _var(self, var: str) -> Hashable:
        return self._vars.get(var, var)

"""Simpler loops, before they are written: fewer axes, no statement without effect, no load twice.

In comes a step of a checked Program; out goes an equal one. Laws: no value changes, nor the order in which
a kernel's stores and sums happen to an element; what can fail still fails; every pass is linear.
"""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from .program import (
    Access,
    Accumulate,
    Assign,
    Buffer,
    Check,
    Counter,
    Extent,
    Gemm,
    Load,
    Phase,
    Reduce,
    RowKernel,
    Stmt,
    Store,
    scaled,
)

Same = Callable[[str], object]
"""Buffer name -> its storage: buffers with equal storage are one memory."""

FOLDED = frozenset(["sum", "max", "min"])
"""Float reducers that are folded in lanes (see rows.py); the others are one chain."""


def product(a: Extent, b: Extent) -> Extent | None:
    """`a * b`, or None when it is not an Extent."""
    if isinstance(b, int):
        return scaled(a, b)
    return scaled(b, a) if isinstance(a, int) else None


def one_element(buffer: Buffer) -> bool:
    """Whether the buffer always has exactly one element."""
    return all(n == 1 for n in buffer.shape)


def row_kernel(kernel: RowKernel, table: Mapping[str, Buffer], same: Same) -> RowKernel:
    """The kernel with fewer axes and statements; nothing but its accumulators where it has no rows.

    Rows without elements still run their heads: an empty sum is 0.
    """
    heads = any(phase.head for phase in kernel.phases)
    if 0 in kernel.space[:-1] or (kernel.space[-1] == 0 and not heads):
        return replace(kernel, space=(0,), phases=())
    return _swept(_summed(_merged(_joined(_unique(kernel))), table), same)


def gemm_axes(gemm: Gemm) -> Gemm:
    """The product without batch axes of length 1, and with batch axes taken into m where strides allow.

    x[t, m, k] @ w[k, n] is one product of t * m rows.
    """
    for axis in reversed(range(len(gemm.batch))):
        if gemm.batch[axis] == 1 and not _counted(gemm.epilogue, {axis}):
            gemm = _without_axis(gemm, axis, gemm.m)
    while gemm.batch:
        axis = len(gemm.batch) - 1
        rows = product(gemm.batch[axis], gemm.m)
        outer = [t.a.strides[axis : axis + 2] for t in gemm.terms]
        outer += [access.strides[axis : axis + 2] for access in _accesses(gemm.epilogue)]
        if (
            rows is None
            or any(t.b.strides[axis] != 0 for t in gemm.terms)
            or any(wide != product(near, gemm.m) for wide, near in outer)
            or _counted(gemm.epilogue, {axis, axis + 1})
        ):
            break
        gemm = _without_axis(gemm, axis, rows)
    return gemm


def gemm_statements(gemm: Gemm, same: Same) -> Gemm:
    """The product with a swept epilogue, without terms that add nothing; likewise where it has no elements."""
    if 0 in (*gemm.batch, gemm.m, gemm.n):
        return _without_terms(replace(gemm, batch=(), m=0, n=0, epilogue=()))
    body, _ = _needed(_once(gemm.epilogue, _Known({}, {}), same), set(), set())
    used = any(gemm.acc in reads(stmt) for stmt in body)
    gemm = replace(gemm, epilogue=tuple(body))
    terms = tuple(term for term in gemm.terms if term.k != 0 and used)
    return replace(gemm, terms=terms) if terms else _without_terms(gemm)


def _without_terms(gemm: Gemm) -> Gemm:
    """A sum of nothing, which needs no memory."""
    return replace(gemm, terms=(), scratch=None, packed_a=None, packed_b=None)


def _without_axis(gemm: Gemm, axis: int, m: Extent) -> Gemm:
    def cut(access: Access) -> Access:
        return replace(access, strides=access.strides[:axis] + access.strides[axis + 1 :])

    axes = {n: n - (n > axis) for n in range(len(gemm.batch) + 2)}
    return replace(
        gemm,
        batch=gemm.batch[:axis] + gemm.batch[axis + 1 :],
        m=m,
        terms=tuple(replace(term, a=cut(term.a), b=cut(term.b)) for term in gemm.terms),
        epilogue=tuple(_moved(stmt, cut, axes) for stmt in gemm.epilogue),
    )


# ---- axes -------------------------------------------------------------------------------------------------


def _merged(kernel: RowKernel) -> RowKernel:
    """Without axes of length 1, and with neighbours made one axis where all accesses walk on evenly.

    In a kernel of one body without row results the row axis takes part; else it stays as it is.
    """
    flat = not any(phase.head for phase in kernel.phases) and len(kernel.phases) == 1
    flat = flat and not any(isinstance(stmt, Reduce) for stmt in kernel.phases[0].body)
    stmts = [stmt for phase in kernel.phases for stmt in (*phase.head, *phase.body)]
    accesses = list(_accesses(stmts))
    rank = len(kernel.space)
    counted = {stmt.axis for stmt in stmts if isinstance(stmt, Counter)}
    free = [axis for axis in range(rank if flat else rank - 1) if kernel.space[axis] != 1 or axis in counted]
    groups: list[list[int]] = []
    extents: list[Extent] = []
    for axis in free:
        total = product(extents[-1], kernel.space[axis]) if groups else None
        if groups and total is not None and _even(groups[-1][-1], axis, kernel.space, accesses, counted):
            groups[-1].append(axis)
            extents[-1] = total
        else:
            groups.append([axis])
            extents.append(kernel.space[axis])
    if not flat or not groups:
        groups.append([rank - 1])
        extents.append(kernel.space[-1])
    if len(groups) == rank:
        return kernel
    kept = [group[-1] for group in groups]

    def pick(access: Access) -> Access:
        return replace(access, strides=tuple(access.strides[axis] for axis in kept))

    axes = {axis: place for place, group in enumerate(groups) for axis in group}
    phases = tuple(
        Phase(tuple(_moved(s, pick, axes) for s in phase.head), tuple(_moved(s, pick, axes) for s in phase.body))
        for phase in kernel.phases
    )
    return replace(kernel, space=tuple(extents), phases=phases)


def _even(outer: int, inner: int, space: Sequence[Extent], accesses: list[Access], counted: set[int]) -> bool:
    """Whether every access steps from one outer iteration to the next as from one inner element to the next."""
    return not counted & {outer, inner} and all(
        access.strides[outer] == product(access.strides[inner], space[inner]) for access in accesses
    )


def _accesses(stmts: Iterable[Stmt]) -> Iterable[Access]:
    return (stmt.access for stmt in stmts if isinstance(stmt, Load | Store | Accumulate))


def _counted(stmts: Iterable[Stmt], axes: set[int]) -> bool:
    return any(isinstance(stmt, Counter) and stmt.axis in axes for stmt in stmts)


def _moved(stmt: Stmt, pick: Callable[[Access], Access], axes: Mapping[int, int]) -> Stmt:
    """The statement over other axes."""
    if isinstance(stmt, Load | Store | Accumulate):
        return replace(stmt, access=pick(stmt.access))
    return replace(stmt, axis=axes[stmt.axis]) if isinstance(stmt, Counter) else stmt


# ---- sums over a row --------------------------------------------------------------------------------------


def _joined(kernel: RowKernel) -> RowKernel:
    """Folds of a row that are only added to a target become sums over all elements, so that axes can merge.

    `_summed` folds the rows again, which may then be longer.
    """
    if len(kernel.phases) != 2 or kernel.phases[0].head or kernel.phases[1].body:
        return kernel
    body, head = kernel.phases[0].body, kernel.phases[1].head
    folds = {stmt.var: stmt for stmt in body if isinstance(stmt, Reduce)}
    sums = [stmt for stmt in head if isinstance(stmt, Accumulate) and stmt.value in folds]
    if len(sums) != len(head) or sorted(folds) != sorted(stmt.value for stmt in sums):
        return kernel
    if any(stmt.op != folds[stmt.value].op or stmt.op not in FOLDED or stmt.access.index for stmt in sums):
        return kernel
    joined: list[Stmt] = [stmt for stmt in body if not isinstance(stmt, Reduce)]
    for stmt in sums:
        access = replace(stmt.access, strides=(*stmt.access.strides[:-1], 0))
        joined.append(replace(stmt, access=access, value=folds[stmt.value].value, note=folds[stmt.value].note))
    return replace(kernel, phases=(Phase((), tuple(joined)),))


def _summed(kernel: RowKernel, table: Mapping[str, Buffer]) -> RowKernel:
    """Sums of floats into one element per row become a Reduce of the row, added to its target once.

    The row is then folded in lanes, and the body around it can be a vector loop. In a kernel of one row
    the fold is the result, and is stored.
    """
    wide = {a.buffer: a.scratch or a.buffer for a in kernel.accumulators}
    often = Counted(a.buffer for p in kernel.phases for a in _accesses((*p.head, *p.body)))
    fresh = {a.buffer for a in kernel.accumulators if a.start == "identity" and often[a.buffer] == 1}
    phases: list[Phase] = []
    stored: set[str] = set()
    for phase in kernel.phases:
        body: list[Stmt] = []
        after: list[Stmt] = []
        tags = {stmt.var: stmt.dtype for stmt in (*phase.head, *phase.body) if isinstance(stmt, Load | Assign)}
        for stmt in phase.body:
            if not _is_row_sum(stmt, kernel, tags):
                body.append(stmt)
                continue
            target = stmt.access.buffer
            var = f"{hint(stmt.value)}_{stmt.op}'{len(phases)}_{len(after)}"
            if target in fresh and len(kernel.space) == 1 and one_element(table[target]):
                stored.add(target)
                body.append(Reduce(var, table[target].dtype, stmt.op, stmt.value, stmt.note))
                after.append(Store(stmt.access, var))
            else:
                body.append(Reduce(var, table[wide[target]].dtype, stmt.op, stmt.value, stmt.note))
                after.append(replace(stmt, value=var))
        phases += [Phase(phase.head, tuple(body))] + ([Phase(tuple(after))] if after else [])
    accumulators = tuple(a for a in kernel.accumulators if a.buffer not in stored)
    return replace(kernel, phases=tuple(phases), accumulators=accumulators)


def _is_row_sum(stmt: Stmt, kernel: RowKernel, tags: Mapping[str, str]) -> TypeGuard[Accumulate]:
    """Whether a statement of a body adds a float to an element that is the same for the whole row."""
    return (
        isinstance(stmt, Accumulate)
        and stmt.op in FOLDED
        and tags.get(stmt.value) in ("f32", "f64")
        and stmt.access.strides[-1] == 0
        and not stmt.access.index
        and kernel.space[-1] != 1
    )


# ---- names ------------------------------------------------------------------------------------------------


def hint(var: str) -> str:
    """The program's name of a variable, without the mark that made it unique.

    >>> hint("x'2"), hint("x")
    ('x', 'x')
    """
    return var.split("'")[0]


def _unique(kernel: RowKernel) -> RowKernel:
    """With each variable name defined once in the kernel: bodies may have used one name for their own variables."""
    seen: dict[str, int] = {}

    def define(stmts: Iterable[Stmt], names: dict[str, str]) -> tuple[Stmt, ...]:
        out = []
        for stmt in stmts:
            stmt = _renamed(stmt, names)
            if isinstance(stmt, Load | Assign | Counter | Reduce):
                seen[stmt.var] = seen.get(stmt.var, 0) + 1
                if seen[stmt.var] > 1:
                    names[stmt.var] = f"{stmt.var}'{seen[stmt.var]}"
                    stmt = replace(stmt, var=names[stmt.var])
            out.append(stmt)
        return tuple(out)

    outer: dict[str, str] = {}
    phases = []
    for phase in kernel.phases:
        head = define(phase.head, outer)
        inner = dict(outer)
        body = define(phase.body, inner)
        results = {hint(stmt.var): stmt.var for stmt in body if isinstance(stmt, Reduce)}
        outer.update((var, name) for var, name in results.items() if var != name)
        phases.append(Phase(head, body))
    return replace(kernel, phases=tuple(phases))


# ---- statements -------------------------------------------------------------------------------------------


@dataclass
class _Known:
    """What is in variables already: loads by storage and place, and names that stand for another variable."""

    loads: dict[object, dict[object, str]]
    names: dict[str, str]

    def inner(self) -> _Known:
        """A copy for a body, which may learn more."""
        return _Known({storage: dict(found) for storage, found in self.loads.items()}, dict(self.names))

    def forget(self, storage: object) -> None:
        """That memory is written: its loads are out of date."""
        self.loads.pop(storage, None)


def _swept(kernel: RowKernel, same: Same) -> RowKernel:
    """Without repeated loads and without statements whose value nobody reads."""
    known = _Known({}, {})
    phases: list[tuple[list[Stmt], list[Stmt]]] = []
    for phase in kernel.phases:
        head = _once(phase.head, known, same)
        for stmt in phase.body:
            if isinstance(stmt, Store | Accumulate):
                known.forget(same(stmt.access.buffer))
        phases.append((head, _once(phase.body, known.inner(), same)))
    later: set[str] = set()
    swept: list[Phase] = []
    for head, body in reversed(phases):
        body, outer = _needed(body, set(), later)
        head, later = _needed(head, later | outer, set())
        if head or body:
            swept.append(Phase(tuple(head), tuple(body)))
    return replace(kernel, phases=tuple(reversed(swept)))


def _once(stmts: Iterable[Stmt], known: _Known, same: Same) -> list[Stmt]:
    """The statements with each element loaded once; `known` learns what they load and forgets what they store."""
    out: list[Stmt] = []
    for stmt in stmts:
        stmt = _renamed(stmt, known.names)
        if isinstance(stmt, Load):
            found = known.loads.setdefault(same(stmt.access.buffer), {})
            place = (stmt.access.strides, stmt.access.offset, stmt.access.index, stmt.dtype)
            if place in found:
                known.names[stmt.var] = found[place]
                continue
            found[place] = stmt.var
        elif isinstance(stmt, Store | Accumulate):
            known.forget(same(stmt.access.buffer))
        out.append(stmt)
    return out


def _renamed(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """The statement with other names for what it reads."""
    if not names:
        return stmt
    if isinstance(stmt, Load | Store | Accumulate) and stmt.access.index:
        index = tuple((names.get(var, var), stride) for var, stride in stmt.access.index)
        stmt = replace(stmt, access=replace(stmt.access, index=index))
    if isinstance(stmt, Assign):
        args = tuple(names.get(arg, arg) for arg in stmt.expr.args)
        return replace(stmt, expr=replace(stmt.expr, args=args))
    if isinstance(stmt, Store | Reduce | Accumulate):
        return replace(stmt, value=names.get(stmt.value, stmt.value))
    return replace(stmt, var=names.get(stmt.var, stmt.var)) if isinstance(stmt, Check) else stmt


def _needed(stmts: Sequence[Stmt], after: set[str], results: set[str]) -> tuple[list[Stmt], set[str]]:
    """The statements whose value is read, and the variables needed from before them.

    `after` are the variables that later statements read, `results` the row results that later phases read.
    """
    out: list[Stmt] = []
    wanted = set(after)
    for stmt in reversed(stmts):
        if isinstance(stmt, Reduce) and stmt.var not in results:
            continue
        if isinstance(stmt, Load | Assign | Counter):
            if stmt.var not in wanted:
                continue
            wanted.discard(stmt.var)
        wanted.update(reads(stmt))
        out.append(stmt)
    out.reverse()
    return out, wanted


def live(stmts: Sequence[Stmt]) -> list[Stmt]:
    """The statements of a body that have an effect, or whose value such a statement reads."""
    return _needed(stmts, set(), {stmt.var for stmt in stmts if isinstance(stmt, Reduce)})[0]


def reads(stmt: Stmt) -> tuple[str, ...]:
    """The variables (and literals) that a statement reads."""
    if isinstance(stmt, Assign):
        return stmt.expr.args
    if isinstance(stmt, Check):
        return (stmt.var,)
    index = tuple(var for var, _ in stmt.access.index) if isinstance(stmt, Load | Store | Accumulate) else ()
    return index + ((stmt.value,) if isinstance(stmt, Store | Reduce | Accumulate) else ())

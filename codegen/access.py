"""Affine accesses: which elements a statement touches, and what two accesses have in common.

Comes in: a step of a Program. Goes out: its uses of memory, one record per access, and questions about
them: inside the buffer, all elements once, the same elements, no element in common, may one buffer take
over the memory of another. Law: an answer of True holds for every run-time extent from 0 to its bound.
Extents enter these conditions linearly, so they are decided at the corners 0, 1 and bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import gcd, prod
from types import MappingProxyType
from typing import NamedTuple

from .program import Access, Accumulate, Buffer, Check, Extent, Gemm, Load, Step, Stmt, Store, Term, scaled

Point = Mapping[int, int]
"""Values of the run-time dimensions: index -> extent."""

Bounds = tuple[tuple[int, Extent], ...]
"""What is known of an integer variable: `low <= value < high` for every pair."""

_STATIC: tuple[Point, ...] = ({},)
_UNKNOWN: Mapping[str, Bounds] = MappingProxyType({})


def at(extent: Extent, point: Point) -> int:
    """The value of an extent at one point."""
    return extent if isinstance(extent, int) else extent.factor * point[extent.index]


def corners(*groups: Iterable[Extent]) -> tuple[Point, ...]:
    """Every combination of 0, 1 and the bound of the dimensions that occur in the extents."""
    bounds = {e.index: e.bound for group in groups for e in group if not isinstance(e, int)}
    if not bounds:
        return _STATIC
    choices = [[(index, value) for value in sorted({0, min(1, bound), bound})] for index, bound in bounds.items()]
    return tuple(dict(point) for point in product(*choices))


def contiguous(shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """The strides of a C-contiguous array, in elements; a product of two run-time extents is a ValueError.

    >>> contiguous((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[Extent] = []
    step: Extent = 1
    for length in reversed(shape):
        strides.append(step)
        if isinstance(length, int):
            step = scaled(step, length)
        elif isinstance(step, int):
            step = scaled(length, step)
        elif len(strides) < len(shape):
            raise ValueError(f"a stride of shape {shape} is a product of two run-time extents")
    return tuple(reversed(strides))


class Use(NamedTuple):
    """One access of one step.

    `space` are the loops around it (in a head the last one is 1: it runs once per row); `kind` is
    `load`, `store`, `accumulate` or `operand` (of a product); (`phase`, `body`, `position`) is its order
    within a row, and for an epilogue within one element; `source` is the statement or term; `bounds` is
    what is known of the variables of `access.index`, which `inside`, `apart` and `within_row` need.
    """

    access: Access
    space: tuple[Extent, ...]
    kind: str
    phase: int
    body: bool
    position: int
    source: Stmt | Term
    bounds: Mapping[str, Bounds] = _UNKNOWN

    def extents(self) -> tuple[Extent, ...]:
        """Every extent that decides where the access goes."""
        access = self.access
        ends = (end for var, _ in access.index for _, end in self.bounds[var])
        return (*self.space, *access.strides, access.offset, *(stride for _, stride in access.index), *ends)


@dataclass
class Touches:
    """All memory that one step touches: uses by buffer, scratch buffers, and whether it can fail."""

    reads: dict[str, list[Use]] = field(default_factory=dict)
    writes: dict[str, list[Use]] = field(default_factory=dict)
    keeps: set[str] = field(default_factory=set)
    scratch: set[str] = field(default_factory=set)
    fails: bool = False

    def names(self) -> set[str]:
        """Every buffer the step touches."""
        return {*self.reads, *self.writes, *self.scratch}


KINDS: Mapping[type, str] = {Load: "load", Store: "store", Accumulate: "accumulate"}


def touches(step: Step) -> Touches:
    """What a step reads and writes; the target of an accumulator that keeps its content is read as well."""
    found = Touches()
    for use in uses(step):
        side = found.writes if use.kind in ("store", "accumulate") else found.reads
        side.setdefault(use.access.buffer, []).append(use)
    found.keeps = {a.buffer for a in step.accumulators if a.start == "keep"}
    found.scratch = {a.scratch for a in step.accumulators if a.scratch}
    if isinstance(step, Gemm) and step.scratch:
        found.scratch.add(step.scratch)
    found.fails = any(isinstance(stmt, Check) for stmts, *_ in statements(step) for stmt in stmts)
    return found


def statements(step: Step) -> Iterator[tuple[tuple[Stmt, ...], tuple[Extent, ...], int, bool]]:
    """The statement lists of a step in order: (statements, loops around them, phase, whether it is a body)."""
    if isinstance(step, Gemm):
        yield step.epilogue, (*step.batch, step.m, step.n), 1, True
        return
    for number, phase in enumerate(step.phases):
        if phase.head:
            yield phase.head, (*step.space[:-1], 1), number, False
        if phase.body:
            yield phase.body, step.space, number, True


def uses(step: Step) -> Iterator[Use]:
    """Every access of a step, in the order of its statements."""
    if isinstance(step, Gemm):
        for position, term in enumerate(step.terms):
            yield Use(term.a, (*step.batch, step.m, term.k), "operand", 0, True, position, term)
            yield Use(term.b, (*step.batch, term.k, step.n), "operand", 0, True, position, term)
    for stmts, space, phase, body in statements(step):
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, Load | Store | Accumulate):
                yield Use(stmt.access, space, KINDS[type(stmt)], phase, body, position, stmt)


def span(use: Use, point: Point) -> tuple[int, int] | None:
    """The lowest and highest element touched at a point; None if the access never happens there."""
    low = high = at(use.access.offset, point)
    ranges = [(at(stride, point), 0, at(n, point)) for stride, n in zip(use.access.strides, use.space, strict=True)]
    for var, stride in use.access.index:
        known = use.bounds[var]
        ranges.append((at(stride, point), max(first for first, _ in known), min(at(end, point) for _, end in known)))
    for stride, first, end in ranges:
        if end <= first:
            return None
        low += min(stride * first, stride * (end - 1))
        high += max(stride * first, stride * (end - 1))
    return low, high


def inside(use: Use, buffer: Buffer) -> bool:
    """Whether every element the use can touch belongs to the buffer."""
    for point in corners(use.extents(), buffer.shape):
        touched = span(use, point)
        if touched and not 0 <= touched[0] <= touched[1] < prod(at(n, point) for n in buffer.shape):
            return False
    return True


def _nested(axes: Iterable[tuple[int, int]], width: int) -> bool:
    """Whether blocks of `width` elements repeated over axes of (stride, length) never overlap."""
    for stride, length in sorted((abs(stride), length) for stride, length in axes if length > 1):
        if stride < width:
            return False
        width += stride * (length - 1)
    return True


def _axes(use: Use, point: Point) -> list[tuple[int, int]]:
    return [(at(stride, point), at(n, point)) for stride, n in zip(use.access.strides, use.space, strict=True)]


def once(use: Use) -> bool:
    """Whether no element is touched twice by the loops (an access with a run-time index may do so)."""
    if use.access.index:
        return False
    spaces = (_axes(use, point) for point in corners(use.extents()))
    return all(_nested(axes, 1) for axes in spaces if all(length for _, length in axes))


def whole(use: Use, buffer: Buffer) -> bool:
    """Whether the loops touch each element of the buffer exactly once."""
    if not once(use):
        return False
    for point in corners(use.extents(), buffer.shape):
        size = prod(at(n, point) for n in buffer.shape)
        if prod(at(n, point) for n in use.space) != size:
            return False
        if span(use, point) not in (None, (0, size - 1)):
            return False
    return True


def _plain(use: Use) -> tuple[Extent, tuple[Extent, ...]]:
    """Offset and strides, with the strides of axes of length 1 as 0: they move nothing."""
    return use.access.offset, tuple(
        0 if n == 1 else stride for stride, n in zip(use.access.strides, use.space, strict=True)
    )


def same_element(first: Use, then: Use) -> bool:
    """Whether each run of `then` touches what the same run of `first`, just before it, touched, and no other run does.

    So `first` may read an element that `then` overwrites, in whatever order or grouping the loops run:
    both have one affine access without run-time index, in the same loops (or one that runs once), which
    touches no element twice, and `first` stands in an earlier phase or earlier in the same list.
    """
    return (
        "operand" not in (first.kind, then.kind)
        and first.space == then.space
        and (first.phase, first.body, first.position) < (then.phase, then.body, then.position)
        and not first.access.index
        and _plain(first) == _plain(then)
        and once(then)
    )


def apart(one: Use, other: Use) -> bool:
    """Whether two uses of one buffer have no element in common, over all their loops."""
    return all(_apart_at(one, other, point) for point in corners(one.extents(), other.extents()))


def _apart_at(one: Use, other: Use, point: Point) -> bool:
    """Shared axes are peeled off, widest stride first; what is left must be disjoint and fit between their steps."""
    here, there = span(one, point), span(other, point)
    if here is None or there is None:
        return True
    mine, theirs = _axes(one, point), _axes(other, point)
    steps = [abs(stride) for stride, length in (*mine, *theirs) if length > 1]
    steps += [abs(at(stride, point)) for use in (one, other) for _, stride in use.access.index]
    grain = gcd(*steps)
    if grain > 1 and (at(one.access.offset, point) - at(other.access.offset, point)) % grain:
        return True
    shared = sorted((axis for axis, twin in zip(mine, theirs, strict=False) if axis == twin), key=lambda a: -abs(a[0]))
    peeled: list[tuple[int, int]] = []
    for axis in [(0, 1), *shared]:
        shift = axis[0] * (axis[1] - 1)
        here = (here[0] - min(shift, 0), here[1] - max(shift, 0))
        there = (there[0] - min(shift, 0), there[1] - max(shift, 0))
        peeled.append(axis)
        width = max(here[1], there[1]) - min(here[0], there[0]) + 1
        if (here[1] < there[0] or there[1] < here[0]) and _nested(peeled, width):
            return True
    return False


def within_row(load: Use, store: Use) -> bool:
    """Whether what `load` reads in a row was written in that row by `store`, which stands in an earlier phase."""
    if load.phase <= store.phase or store.access.index or _plain(load)[1][:-1] != _plain(store)[1][:-1]:
        return False
    rows = [use._replace(space=(*(1 for _ in use.space[:-1]), use.space[-1])) for use in (load, store)]
    for point in corners(load.extents(), store.extents()):
        read, written = (span(row, point) for row in rows)
        if read is None or any(at(n, point) == 0 for n in load.space[:-1]):
            continue
        if written is None or not written[0] <= read[0] <= read[1] <= written[1]:
            return False
        step = abs(at(store.access.strides[-1], point)) if at(store.space[-1], point) > 1 else 1
        strides = [at(load.access.strides[-1], point)] if at(load.space[-1], point) > 1 else []
        strides += [at(stride, point) for _, stride in load.access.index]
        if step > 1 and any(distance % step for distance in (read[0] - written[0], *strides)):
            return False
    return True


def may_take_over(step: Touches, old: str, new: str) -> bool:
    """Whether `new`, first written in this step, may lie on the memory of `old`, last read in it.

    Every read of `old` must be a load that `same_element` pairs with every store of `new`: the element
    is read, then overwritten, by the same run of the loops, and no other run touches it. So operands of
    products, reads by another stride, offset or run-time index, and accumulators are all refused.
    """
    reads, writes = step.reads.get(old, []), step.writes.get(new, [])
    if old in step.writes or {old, new} & step.scratch:
        return False
    return all(write.kind == "store" and all(same_element(read, write) for read in reads) for write in writes)

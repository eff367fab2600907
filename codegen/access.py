"""Affine accesses: which elements a statement touches, and what two accesses have in common.

Comes in: a step of a Program. Goes out: its uses of memory, one record per access, and questions about
them: inside the buffer, all elements once, the same elements, no element in common, may one buffer take
over the memory of another. Law: an answer of True holds for every run-time extent from 0 to its bound.

How that is decided. Where loops run at all, the conditions read `f >= 0` with an f that is concave in each
run-time extent: strides and offsets are linear, an outermost element is a sum of products with positive
factors. So they hold everywhere if they hold at the ends of the ranges in which the same loops run more
than once: at 0, 1, 2, the bound, and where a range of indices ceases to be empty. Conditions that are not
of this kind (remainders, sizes with the square of an extent) are met otherwise, as noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import gcd, prod
from types import MappingProxyType
from typing import NamedTuple

from .program import (
    Access,
    Accumulate,
    Buffer,
    Check,
    Extent,
    Gemm,
    Guard,
    Kernel,
    Line,
    LineCall,
    Load,
    Repeat,
    Routine,
    Step,
    Stmt,
    Store,
    Term,
    home,
    scaled,
    upper,
)

Point = Mapping[int, int]
"""Values of the run-time dimensions: index -> extent."""

Bounds = tuple[int, Extent]
"""What is known of an integer variable: `low <= value < high`."""

Axis = tuple[Extent, Extent]
"""Stride and length of one loop."""

_STATIC: tuple[Point, ...] = ({},)
_UNKNOWN: Mapping[str, Bounds] = MappingProxyType({})


def at(extent: Extent, point: Point) -> int:
    """The value of an extent at one point."""
    return extent if isinstance(extent, int) else extent.factor * point[extent.index]


def corners(uses: Sequence[Use], shape: Sequence[Extent] = ()) -> Sequence[Point]:
    """The points that decide a condition on these uses and the size of that shape."""
    found = [e for e in (*shape, *(e for use in uses for e in use.extents())) if not isinstance(e, int)]
    if not found:
        return _STATIC
    values = {dim.index: {0, 1, 2, dim.bound} for dim in found}
    for low, high in (known for use in uses for known in use.bounds.values()):
        if not isinstance(high, int):
            values[high.index].add(low // high.factor + 1)
    lengths = [n.index for n in shape if not isinstance(n, int)]
    limits = {dim.index: dim.bound for dim in found}
    for index in lengths:
        if lengths.count(index) > 1:
            # A size with the square of an extent is not concave: every value is tried.
            values[index] = set(range(limits[index] + 1))
    choices = [[(index, n) for n in sorted(tried) if 0 <= n <= limits[index]] for index, tried in values.items()]
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
    `load`, `store`, `accumulate`, `operand` (of a product or a function) or `trip` (of a slice, or read somewhere in a
    loop: other trips may touch other elements); (`phase`, `body`, `position`) is its order
    within a row, and for an epilogue within one element; `source` is the statement, term or line; `bounds` is
    what is known of the variables of `access.index`, which `inside`, `apart` and `within_row` need.
    """

    access: Access
    space: tuple[Extent, ...]
    kind: str
    phase: int
    body: bool
    position: int
    source: Stmt | Term | Line
    bounds: Mapping[str, Bounds] = _UNKNOWN

    def extents(self) -> tuple[Extent, ...]:
        """Every extent that decides where the access goes."""
        access = self.access
        index = (extent for var, stride in access.index for extent in (stride, self.bounds[var][1]))
        return (*self.space, *access.strides, access.offset, *index)


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


_NO_SLICES: Mapping[str, Buffer] = MappingProxyType({})


def touches(step: Step, table: Mapping[str, Buffer] = _NO_SLICES) -> Touches:
    """What a step reads and writes; the target of an accumulator that keeps its content is read as well.

    A slice that the table knows counts as the buffer that it is a slice of. A loop touches what its steps touch.
    """
    if isinstance(step, Repeat):
        return _trips(step, table)
    if isinstance(step, Guard):
        access = Access(step.flag, (0,))
        return Touches({home(step.flag, table): [Use(access, (1,), "trip", 0, True, 0, Load("flag", "b1", access))]})
    if isinstance(step, Routine):
        return _whole_arrays(step, table)
    found = Touches()
    for use in uses(step):
        side = found.writes if use.kind in ("store", "accumulate") else found.reads
        name = home(use.access.buffer, table)
        side.setdefault(name, []).append(use if name == use.access.buffer else use._replace(kind="trip"))
    found.keeps = {home(a.buffer, table) for a in step.accumulators if a.start == "keep"}
    found.scratch = {a.scratch for a in step.accumulators if a.scratch}
    if isinstance(step, Gemm | LineCall):
        found.scratch.update(step.memory)
    found.fails = any(isinstance(stmt, Check) for stmts, *_ in statements(step) for stmt in stmts)
    return found


def _whole_arrays(step: Routine, table: Mapping[str, Buffer]) -> Touches:
    """What a routine touches: nothing that another buffer could share with it, so no access is told."""
    found = Touches(scratch={step.scratch} if step.scratch else set(), fails=step.node >= 0)
    for side, names in ((found.reads, step.reads), (found.writes, step.writes)):
        for name in names:
            whole = Access(name, ())
            kind = "trip" if side is found.reads else "store"
            side.setdefault(home(name, table), []).append(
                Use(whole, (), kind, 0, True, 0, Load("whole", step.dtype, whole))
            )
    return found


def _trips(loop: Repeat, table: Mapping[str, Buffer]) -> Touches:
    """What all trips together touch: what is read may be read in any of them, after writes of earlier ones."""
    found = Touches()
    for part in (touches(step, table) for step in loop.steps):
        for side, more, kind in ((found.reads, part.reads, "trip"), (found.writes, part.writes, "store")):
            for name, of_name in more.items():
                side.setdefault(name, []).extend(use._replace(kind=kind) for use in of_name)
        found.keeps |= part.keeps
        found.scratch |= part.scratch
        found.fails |= part.fails
    for read, written in loop.carries:
        found.reads.setdefault(home(written, table), [])
        found.writes.setdefault(read, [])
    return found


def statements(step: Kernel) -> Iterator[tuple[tuple[Stmt, ...], tuple[Extent, ...], int, bool]]:
    """The statement lists of a step in order: (statements, loops around them, phase, whether it is a body)."""
    if isinstance(step, Routine):
        return
    if isinstance(step, Gemm):
        yield step.epilogue, (*step.batch, step.m, step.n), 1, True
        return
    if isinstance(step, LineCall):
        return
    for number, phase in enumerate(step.phases):
        if phase.head:
            yield phase.head, (*step.space[:-1], 1), number, False
        if phase.body:
            yield phase.body, step.space, number, True


def uses(step: Kernel) -> Iterator[Use]:
    """Every access of a step, in the order of its statements."""
    if isinstance(step, Gemm):
        for position, term in enumerate(step.terms):
            yield Use(term.a, (*step.batch, step.m, term.k), "operand", 0, True, position, term)
            yield Use(term.b, (*step.batch, term.k, step.n), "operand", 0, True, position, term)
    if isinstance(step, LineCall):
        for position, line in enumerate(step.lines):
            kind = "store" if line.written else "operand"
            yield Use(line.every, (*step.space, line.length), kind, 0, True, position, line)
    for stmts, space, phase, body in statements(step):
        for position, stmt in enumerate(stmts):
            if isinstance(stmt, Load | Store | Accumulate):
                yield Use(stmt.access, space, KINDS[type(stmt)], phase, body, position, stmt)


def span(use: Use, point: Point) -> tuple[int, int] | None:
    """The lowest and highest element touched at a point; None if the access never happens there."""
    low = high = at(use.access.offset, point)
    ranges = [(stride, 0, length) for stride, length in _axes(use)]
    ranges += [(stride, *use.bounds[var]) for var, stride in use.access.index]
    for stride, first, end in ranges:
        last = at(end, point) - 1
        if last < first:
            return None
        step = at(stride, point)
        low += min(step * first, step * last)
        high += max(step * first, step * last)
    return low, high


def inside(use: Use, buffer: Buffer) -> bool:
    """Whether every element the use can touch belongs to the buffer."""
    for point in corners((use,), buffer.shape):
        touched = span(use, point)
        if touched and not 0 <= touched[0] <= touched[1] < prod(at(n, point) for n in buffer.shape):
            return False
    return True


def _axes(use: Use) -> list[Axis]:
    return list(zip(use.access.strides, use.space, strict=True))


def _by_stride(axes: Iterable[Axis]) -> list[Axis]:
    """Axes in order of growing stride."""
    return sorted(axes, key=lambda axis: abs(upper(axis[0])))


def _nested(axes: Iterable[Axis], width: int, point: Point) -> bool:
    """Whether blocks of `width` elements, repeated over axes of growing stride, never overlap."""
    for stride, length in axes:
        repeats = at(length, point) - 1
        if repeats > 0:
            step = abs(at(stride, point))
            if step < width:
                return False
            width += step * repeats
    return True


def once(use: Use) -> bool:
    """Whether no element is touched twice by the loops (an access with a run-time index may do so)."""
    if use.access.index:
        return False
    axes = _by_stride(_axes(use))
    runs = (point for point in corners((use,)) if all(at(length, point) for length in use.space))
    return all(_nested(axes, 1, point) for point in runs)


def whole(use: Use, buffer: Buffer) -> bool:
    """Whether the loops touch each element of the buffer exactly once."""
    if not once(use):
        return False
    for point in corners((use,), buffer.shape):
        size = prod(at(n, point) for n in buffer.shape)
        if prod(at(n, point) for n in use.space) != size or span(use, point) not in (None, (0, size - 1)):
            return False
    return True


def _plain(use: Use) -> tuple[Extent, tuple[Extent, ...]]:
    """Offset and strides, with the strides of axes of length 1 as 0: they move nothing."""
    return use.access.offset, tuple(0 if length == 1 else stride for stride, length in _axes(use))


def same_element(first: Use, then: Use) -> bool:
    """Whether each run of `then` touches what the same run of `first`, just before it, touched, and no other run does.

    So `first` may read an element that `then` overwrites, in whatever order or grouping the loops run:
    both have one affine access without run-time index, in the same loops (or one that runs once), which
    touches no element twice, and `first` stands in an earlier phase or earlier in the same list.
    """
    return (
        {first.kind, then.kind}.isdisjoint(("operand", "trip"))
        and first.space == then.space
        and (first.phase, first.body, first.position) < (then.phase, then.body, then.position)
        and not first.access.index
        and _plain(first) == _plain(then)
        and once(then)
    )


def apart(one: Use, other: Use) -> bool:
    """Whether two uses of one buffer have no element in common, over all their loops.

    Either their elements differ by no multiple of their strides (even and odd), or they lie side by
    side in blocks: what is left without the widest shared axes is disjoint, and fits between their steps.
    """
    if _interleaved(one, other):
        return True
    spans = [(point, span(one, point), span(other, point)) for point in corners((one, other))]
    met = [(point, here, there) for point, here, there in spans if here and there]
    shared = _by_stride(axis for axis, twin in zip(_axes(one), _axes(other), strict=False) if axis == twin)
    return any(
        all(_beside(here, there, shared[first:], point, swapped) for point, here, there in met)
        for first in range(len(shared), -1, -1)
        for swapped in (False, True)
    )


def _interleaved(one: Use, other: Use) -> bool:
    strides = [stride for use in (one, other) for stride, length in _axes(use) if upper(length) > 1]
    strides += [stride for use in (one, other) for _, stride in use.access.index]
    static = [extent for extent in (one.access.offset, other.access.offset, *strides) if isinstance(extent, int)]
    if len(static) < len(strides) + 2:
        return False
    grain = gcd(*static[2:])
    return grain > 1 and (static[0] - static[1]) % grain != 0


def _beside(here: tuple[int, int], there: tuple[int, int], axes: Sequence[Axis], point: Point, swapped: bool) -> bool:
    """Whether two spans, both without the axes they share, lie side by side within one step of the axes."""
    shifts = [at(stride, point) * (at(length, point) - 1) for stride, length in axes]
    down, up = sum(min(shift, 0) for shift in shifts), sum(max(shift, 0) for shift in shifts)
    (low, middle), (next_low, high) = (there, here) if swapped else (here, there)
    width = max(middle, high) - min(low, next_low) + 1 - up + down
    return middle - up < next_low - down and _nested(axes, width, point)


def within_row(load: Use, store: Use) -> bool:
    """Whether what `load` reads in a row was written in that row by `store`, which stands in an earlier phase."""
    if load.phase <= store.phase or store.access.index or _plain(load)[1][:-1] != _plain(store)[1][:-1]:
        return False
    if _plain(load) == _plain(store) and load.space == store.space and not load.access.index:
        return True
    if not _on_grid(load, store):
        return False
    rows = [use._replace(space=(*(1 for _ in use.space[:-1]), use.space[-1])) for use in (load, store)]
    for point in corners((load, store)):
        read, written = (span(row, point) for row in rows)
        if read is None or any(at(n, point) == 0 for n in load.space[:-1]):
            continue
        if written is None or not written[0] <= read[0] <= read[1] <= written[1]:
            return False
    return True


def _on_grid(load: Use, store: Use) -> bool:
    """Whether the load moves along a row by constant multiples of the store's constant stride."""
    steps = [use.access.strides[-1] if upper(use.space[-1]) > 1 else 0 for use in (store, load)]
    steps += [stride for _, stride in load.access.index]
    start, begin = store.access.offset, load.access.offset
    if start != begin:
        steps.append(begin - start if isinstance(start, int) and isinstance(begin, int) else 1)
    static = [step for step in steps if isinstance(step, int)]
    return len(static) == len(steps) and (static[0] == 0 or all(step % static[0] == 0 for step in static[1:]))


def may_take_over(step: Touches, old: str, new: str) -> bool:
    """Whether `new`, first written in this step, may lie on the memory of `old`, last read in it.

    Every read of `old` must be a load that `same_element` pairs with every store of `new`: the element
    is read, then overwritten, by the same run of the loops, and no other run touches it. So operands of
    products, reads by another stride, offset or run-time index, and accumulators are all refused.
    """
    reads, writes = step.reads.get(old, []), step.writes.get(new, [])
    if old in step.writes:
        return False
    return all(write.kind == "store" and all(same_element(read, write) for read in reads) for write in writes)

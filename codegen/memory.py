"""Where every buffer lives: lifetimes, in-place reuse, donation, arena offsets.

Comes in: a checked Program. Goes out: a Plan, the same program (perhaps with its steps in another order,
without copies that move nothing, with last copy kernels) and a place for each buffer. Laws: two buffers
that are alive at once never overlap, unless one is the other's in-place successor; donated and resident
memory is first written after the last kernel that can fail and after the last read of its old value; a
state block's layout depends on the state's types only; the same program always gets the same plan.

When memory is reused in place. A work buffer that is read for the last time in a step may become the
memory of a buffer that is first written in that step, if both have the same number of elements of the
same C type (compilers take pointers to two types for two memories) and `access.may_take_over` holds:
every read of the old one is the read of the element that the same run of the loops then overwrites. The
memory of an input or state passes to the output that takes it over by the same rule. So `emit` must see
buffers of equal places as one memory: no `restrict`, and no partial sums of a product in the target of
its epilogue. An output that lies on an input has the place of the input.

Loops. What one trip alone uses lives within the trip; what is also used outside the loop lives through all
trips. Carries become copies at the end of the trip; what is carried lies on what it is carried to, and the
copy is left out, where `may_take_over` holds and nothing in the trip reads the old value afterwards. A guard
of the loop reads it: what its trip has written is not carried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from .access import Touches, contiguous, may_take_over, touches
from .cexpr import DTYPES
from .donate import arrange
from .extent import ALIGN as ALIGN
from .extent import aligned
from .extent import nbytes as nbytes
from .extent import state_layout as state_layout
from .program import (
    Access,
    Buffer,
    Extent,
    Guard,
    Load,
    Phase,
    Program,
    Repeat,
    RowKernel,
    Step,
    Store,
    kernels,
    loops,
    scaled,
    upper,
)
from .show import show_shape, show_table


@dataclass(frozen=True)
class Place:
    """`block` is `in`, `out`, `state` or `work`; `slot` counts in/out pointers; `offset` is in bytes (state, work).

    A slice has the place of its outermost buffer, with the names of the `loops` that move it, the outer one first.
    """

    block: str
    slot: int
    offset: int = 0
    loops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A program and its places. `state_offsets` has one byte offset per state leaf."""

    program: Program
    places: dict[str, Place]
    work_bytes: int
    state_bytes: int
    state_offsets: tuple[int, ...]


def plan(program: Program) -> Plan:
    """The places of all buffers, and the program in the order that they need.

    An output with an alias lies on its target if `donate.arrange` finds an order of the steps that
    allows it; otherwise it lies in the arena, and a step `copy_<name>` after all others brings it home.

    >>> x, y = Buffer("x", "f32", (8,), "input", 0), Buffer("y", "f32", (8,), "output", 0, alias="x")
    >>> body = (Load("a", "f32", Access("x", (1,))), Store(Access("y", (1,)), "a"))
    >>> planned = plan(Program("same", (x, y), (RowKernel("k0", (8,), (Phase(body=body),)),), (x,), (y,)))
    >>> planned.places["y"], planned.program.steps, planned.work_bytes
    (Place(block='in', slot=0, offset=0, loops=()), (), 0)
    """
    table = program.table
    taken = {item.name for items in (program.buffers, program.dims) for item in items}
    taken |= {step.name for step in (*kernels(program.steps), *loops(program.steps))}
    steps = [_with_copies(step, table, taken) for step in program.steps]
    touched = [touches(step, table) for step in steps]
    order, direct = arrange(program, touched)
    steps = [steps[number] for number in order]
    touched = [touched[number] for number in order]
    late = [b for b in program.buffers if b.role == "output" and b.alias is not None and b.name not in direct]
    for buffer in late:
        if not any(buffer.alias in step.writes for step in touched):
            comment = f"{buffer.alias} = {buffer.name}, now that nothing can fail and nothing reads the old value"
            steps.append(_copy(buffer, str(buffer.alias), f"copy_{buffer.name}", comment, taken))
    line = _in_line(steps, table)
    lives = line.lifetimes()
    carried = _carried_in_place(line, lives, table)
    arena = [b for b in program.buffers if b.role in ("work", "row") and b.name not in carried] + late
    offsets, work_bytes = _arena(arena, line.steps, lives)
    state_offsets, state_bytes = state_layout(program.state)
    places = {name: Place("work", -1, offset) for name, offset in offsets.items()}
    for buffer in program.buffers:
        if buffer.role != "slice" and buffer.name not in places and buffer.name not in carried:
            places[buffer.name] = _fixed(table[buffer.alias] if buffer.alias else buffer, state_offsets)
    for written, read in carried.items():
        places[written] = places[read]
    for loop in loops(steps):
        for name in loop.slices:
            outer = places[str(table[name].alias)]
            places[name] = replace(outer, loops=(*outer.loops, loop.name))
    kept = _that_move(steps, places)
    if kept != program.steps:
        program = replace(program, steps=kept)
    return Plan(program, places, work_bytes, state_bytes, state_offsets)


@dataclass(frozen=True)
class _Line:
    """What the kernels touch, in a row. `loops` are the places before and after the trips of each loop, left empty.

    `guards` are the places of guards.
    """

    steps: list[Touches]
    loops: list[tuple[int, int, Repeat]]
    guards: set[int]

    def lifetimes(self) -> dict[str, tuple[int, int]]:
        """The first and the last place of each buffer; what is used in a loop and outside lives through the loop."""
        lives: dict[str, tuple[int, int]] = {}
        for place, step in enumerate(self.steps):
            for name in step.names():
                lives[name] = (lives[name][0] if name in lives else place, place)
        for start, end, _ in reversed(self.loops):
            for name in {name for step in self.steps[start:end] for name in step.names()}:
                first, last = lives[name]
                if first < start or last > end:
                    lives[name] = min(first, start), max(last, end)
        return lives

    def guards_of(self, start: int, end: int) -> set[int]:
        """The guards of the loop between two places; those of loops inside it leave only these."""
        inner = [(first, last) for first, last, _ in self.loops if start < first < end]
        return {g for g in self.guards if start < g < end and not any(first < g < last for first, last in inner)}

    def numbers(self) -> list[int]:
        """The number of the kernel at each place; before a loop that of its first one, after it that of its last."""
        empty = {place for start, end, _ in self.loops for place in (start, end)} | self.guards
        ends = {end for _, end, _ in self.loops}
        before = list(accumulate((place not in empty for place in range(len(self.steps))), initial=0))
        return [before[place] - (place in ends) for place in range(len(self.steps))]


def _in_line(steps: Sequence[Step], table: Mapping[str, Buffer]) -> _Line:
    """The kernels of the steps; a loop stands in `loops` before those inside it."""
    line = _Line([], [], set())

    def add(step: Step) -> None:
        if not isinstance(step, Repeat):
            if isinstance(step, Guard):
                line.guards.add(len(line.steps))
            line.steps.append(touches(step, table))
            return
        start, place = len(line.steps), len(line.loops)
        line.steps.append(Touches())
        for inner in step.steps:
            add(inner)
        line.loops.insert(place, (start, len(line.steps), step))
        line.steps.append(Touches())

    for step in steps:
        add(step)
    return line


def _carried_in_place(line: _Line, lives: Mapping[str, tuple[int, int]], table: Mapping[str, Buffer]) -> dict[str, str]:
    """What is carried -> the buffer that it is carried to, where it may lie on it; those of outer loops first."""
    found: dict[str, str] = {}
    for start, end, loop in line.loops:
        for read, written in loop.carries:
            if table[written].role != "work":
                continue
            born, last = lives[written]
            if (
                written not in found
                and start < born <= last < end
                and not any(read in step.reads for step in line.steps[born + 1 : end])
                and not any(born < guard for guard in line.guards_of(start, end))
                and may_take_over(line.steps[born], read, written)
            ):
                found[written] = read
    return found


def _with_copies(step: Step, table: Mapping[str, Buffer], taken: set[str]) -> Step:
    """A loop whose carries are copies at the end of its steps too."""
    if not isinstance(step, Repeat):
        return step
    steps = [_with_copies(inner, table, taken) for inner in step.steps]
    for read, written in step.carries:
        steps.append(_copy(table[written], read, f"carry_{read}", f"{read} = {written}, for the next trip", taken))
    return replace(step, steps=tuple(steps))


def _that_move(steps: Sequence[Step], places: Mapping[str, Place]) -> tuple[Step, ...]:
    """The steps but for those that move nothing; in loops, copies stand for the carries."""
    return tuple(
        replace(step, steps=_that_move(step.steps, places), carries=()) if isinstance(step, Repeat) else step
        for step in steps
        if not _moves_nothing(step, places)
    )


def lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """When each buffer that is touched lives: in a row of all kernels, with a place before and after each loop."""
    return _in_line(program.steps, program.table).lifetimes()


def _room(buffer: Buffer) -> int:
    """Bytes of the arena for a buffer; an empty one has a place of its own too."""
    return max(aligned(nbytes(buffer.shape, buffer.dtype)), ALIGN)


def _fixed(home: Buffer, state_offsets: Sequence[int]) -> Place:
    """The place of a buffer that the caller owns."""
    if home.role == "state":
        return Place("state", home.slot, state_offsets[home.slot])
    return Place({"input": "in", "output": "out"}[home.role], home.slot)


def _copy(buffer: Buffer, target: str, hint: str, comment: str, taken: set[str]) -> RowKernel:
    """The step that copies a buffer to another of its type; its name joins `taken`."""
    space = buffer.shape or (1,)
    if sum(not isinstance(extent, int) for extent in space) <= 1:
        space = (_product(space),)
    strides, var = contiguous(space), _fresh("x", taken)
    load = Load(var, buffer.dtype, Access(buffer.name, strides))
    store = Store(Access(target, strides), var)
    name = _fresh(hint, taken)
    taken.add(name)
    return RowKernel(name, space, (Phase(body=(load, store)),), comment=(comment,))


def _product(shape: Sequence[Extent]) -> Extent:
    """The number of elements of a shape with at most one run-time extent."""
    count: Extent = 1
    for extent in shape:
        count = scaled(extent, count) if isinstance(count, int) else scaled(count, upper(extent))
    return count


def _fresh(hint: str, taken: set[str]) -> str:
    while hint in taken:
        hint += "_"
    return hint


def _moves_nothing(step: Step, places: Mapping[str, Place]) -> bool:
    """Whether a step only stores loaded elements where they already are."""
    if not isinstance(step, RowKernel):
        return False
    home: dict[str, tuple[object, ...]] = {}
    for phase in step.phases:
        for stmt in (*phase.head, *phase.body):
            if not isinstance(stmt, Load | Store):
                return False
            access = stmt.access
            element = (places[access.buffer], access.strides, access.offset, access.index)
            if isinstance(stmt, Load):
                home[stmt.var] = element
            elif home.get(stmt.value) != element:
                return False
    return True


def _successors(
    buffers: Mapping[str, Buffer], steps: Sequence[Touches], lives: Mapping[str, tuple[int, int]]
) -> dict[str, str]:
    """New buffer -> the dying buffer whose memory it takes over."""
    fixed = {name for step in steps for name in step.scratch} | {b.name for b in buffers.values() if b.role == "row"}
    movable = [b for b in buffers.values() if b.name in lives and b.name not in fixed and nbytes(b.shape, b.dtype)]
    dying: dict[int, list[Buffer]] = {}
    for buffer in movable:
        dying.setdefault(lives[buffer.name][1], []).append(buffer)
    before: dict[str, str] = {}
    for new in movable:
        born = lives[new.name][0]
        for old in dying.get(born, ()):
            if (
                DTYPES[old.dtype] == DTYPES[new.dtype]
                and nbytes(old.shape, old.dtype) == nbytes(new.shape, new.dtype)
                and may_take_over(steps[born], old.name, new.name)
            ):
                before[new.name] = old.name
                dying[born].remove(old)
                break
    return before


def _arena(
    arena: Sequence[Buffer], steps: Sequence[Touches], lives: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, int], int]:
    """Offsets of the buffers of the arena, and its bytes: best fit, step after step, large buffers first."""
    buffers = {b.name: b for b in arena}
    before = _successors(buffers, steps, lives)
    ends = {name: lives[name][1] for name in buffers if name in lives}
    for new in sorted(before, key=lambda name: -lives[name][0]):
        ends[before[new]] = ends[new]
    births: dict[int, list[str]] = {}
    deaths: dict[int, list[str]] = {}
    for name in ends:
        if name not in before:
            births.setdefault(lives[name][0], []).append(name)
            deaths.setdefault(ends[name], []).append(name)
    sizes = {b.name: _room(b) for b in arena}
    offsets, free = dict.fromkeys(buffers, 0), _Free()
    for number in range(len(steps)):
        for name in sorted(births.get(number, ()), key=lambda name: -sizes[name]):
            offsets[name] = free.take(sizes[name])
        for name in deaths.get(number, ()):
            free.give(offsets[name], sizes[name])
    for new in sorted(before, key=lambda name: lives[name][0]):
        offsets[new] = offsets[before[new]]
    return offsets, free.top


class _Free:
    """The gaps of the arena below `top`, in order of their offsets."""

    def __init__(self) -> None:
        self.top = 0
        self.gaps: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """The offset of `size` bytes: in the smallest gap that holds them, else at the top."""
        fits = [(length, offset) for offset, length in self.gaps if length >= size]
        if fits:
            length, offset = min(fits)
            position = bisect_left(self.gaps, (offset, length))
            self.gaps[position : position + 1] = [(offset + size, length - size)] if length > size else []
            return offset
        offset = self.top
        if self.gaps and sum(self.gaps[-1]) == self.top:
            offset = self.gaps.pop()[0]
        self.top = max(self.top, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        """Make a taken piece a gap, joined with the gaps beside it."""
        position = bisect_left(self.gaps, (offset, size))
        start, end, first, last = offset, offset + size, position, position
        if position and sum(self.gaps[position - 1]) == offset:
            start, first = self.gaps[position - 1][0], position - 1
        if position < len(self.gaps) and self.gaps[position][0] == end:
            end, last = sum(self.gaps[position]), position + 1
        self.gaps[first:last] = [(start, end - start)]


def show_plan(plan: Plan) -> str:
    """A table of the buffers, where they live and in which steps, and the totals below it.

    ```
    buffer  shape    dtype  bytes  place      steps
    x       [32, 8]  f32     1024  in 0       0
    h       [32, 8]  f32     1024  work 0     0-1
    g       [32, 8]  f32     1024  work 0     1-2    over h
    w_new   [8, 8]   f32      256  state 0    2      over w
    ```
    """
    program, line = plan.program, _in_line(plan.program.steps, plan.program.table)
    lives, numbers = line.lifetimes(), line.numbers()
    reused = _reused(plan, lives)
    rows = [("buffer", "shape", "dtype", "bytes", "place", "steps", "")]
    for buffer in program.buffers:
        place, life = plan.places[buffer.name], lives.get(buffer.name)
        where = f"{place.block} {place.offset if place.block in ('work', 'state') else place.slot}"
        where += "".join(f", a row per trip of {loop}" for loop in place.loops)
        steps = "-" if life is None else "-".join(dict.fromkeys(str(numbers[place]) for place in life))
        over = reused.get(buffer.name, "")
        size = nbytes(buffer.shape, buffer.dtype)
        rows.append((buffer.name, show_shape(buffer.shape), buffer.dtype, str(size), where, steps, over))
    width = max(len(row[3]) for row in rows)
    lines = show_table([(*row[:3], row[3].rjust(width), *row[4:]) for row in rows])
    arena = [b for b in program.buffers if plan.places[b.name].block == "work" and b.role != "slice"]
    apart = sum(map(_room, arena))
    copied = [b.name for b in arena if b.alias]
    lines += [
        "",
        f"arena: {plan.work_bytes} bytes, {apart} without reuse, {_peak(plan, lives)} alive at once",
        f"state: {plan.state_bytes} bytes in {len(plan.state_offsets)} leaves",
        f"in place: {', '.join(f'{new} {over}' for new, over in reused.items()) or 'nothing'}",
        f"copied at the end: {', '.join(copied) or 'nothing'}",
    ]
    return "\n".join(lines) + "\n"


def _reused(plan: Plan, lives: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Buffer -> `over` the buffer whose memory it has taken over in place."""
    found: dict[str, str] = {}
    holders: dict[tuple[Place, int], str] = {}
    order = [b for b in plan.program.buffers if b.name in lives]
    for buffer in sorted(order, key=lambda b: lives[b.name][0]):
        place, size = plan.places[buffer.name], nbytes(buffer.shape, buffer.dtype)
        before = holders.get((place, size))
        if before and size and lives[before][1] >= lives[buffer.name][0]:
            found[buffer.name] = f"over {before}"
        if not before or lives[before][1] <= lives[buffer.name][1]:
            holders[place, size] = buffer.name
    outputs = [b for b in plan.program.buffers if b.role == "output" and b.alias]
    homes = {b.name: f"over {b.alias}" for b in outputs if plan.places[b.name].block != "work"}
    return {b.name: over for b in plan.program.buffers if (over := homes.get(b.name) or found.get(b.name))}


def _peak(plan: Plan, lives: Mapping[str, tuple[int, int]]) -> int:
    """The most bytes of the arena that are alive in one step; what is shared in place counts once."""
    changes: dict[int, int] = {}
    ends: dict[tuple[int, int], int] = {}
    order = [b for b in plan.program.buffers if b.name in lives and plan.places[b.name].block == "work"]
    for buffer in sorted(order, key=lambda b: lives[b.name]):
        size, place = _room(buffer), plan.places[buffer.name]
        before = ends.get((place.offset, size), -1)
        first, last = max(lives[buffer.name][0], before + 1), max(lives[buffer.name][1], before)
        ends[place.offset, size] = last
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    alive = [changes[number] for number in sorted(changes)]
    return max(accumulate(alive), default=0)

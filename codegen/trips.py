"""The laws of loops: what may be known of the buffers in any trip, and after the last.

Comes in: what is known of the buffers before a loop, and the loop; its steps are checked by `check.py` between
`enter` and `leave`. Goes out: what is known after it, or a ProgramError that names the loop. Law: what is known
in a loop holds in every trip, in whatever order the trips run, and what is known after it holds after none too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .access import Bounds, touches
from .boundary import wrong_extent
from .errors import ProgramError
from .program import Buffer, Extent, Guard, Program, Repeat, Step, home, kernels, loops, rows, upper
from .show import show_extent, show_shape


@dataclass
class Known:
    """The program, and what is known of its buffers after the steps checked so far.

    `slices` are those of the loops around the step at hand, `depth` is the number of these loops.
    """

    program: Program
    table: dict[str, Buffer]
    written: set[str] = field(default_factory=set)
    overwritten: set[str] = field(default_factory=set)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    scratch: set[str] = field(default_factory=set)
    slices: set[str] = field(default_factory=set)
    depth: int = 0

    def ready(self, name: str) -> bool:
        """Whether the buffer holds values."""
        return name in self.written or self.table[name].role in ("input", "state")


@dataclass(frozen=True)
class Before:
    """What is remembered while the steps of a loop are checked.

    `named` are the buffers that its kernels and carries name, `written` those that they write, outer buffers of
    slices among them, `carried` those that its carries write; `bounds` is what was known before the loop.
    """

    named: frozenset[str]
    written: frozenset[str]
    carried: frozenset[str]
    bounds: dict[str, Bounds]


def enter(state: Known, loop: Repeat) -> Before:
    """Test what concerns the loop as a whole, and forget what does not hold in every trip."""
    if wrong := wrong_extent(loop.count, state.program.dims, 0):
        raise _fail(loop, f"the number of trips {wrong}")
    named, written = _uses(loop.steps, state.table)
    for carry in loop.carries:
        _carry(state, loop, *carry, written)
    carried = frozenset(read for read, _ in loop.carries)
    if len(carried) < len(loop.carries):
        raise _fail(loop, "carries two buffers to the same one")
    named |= {name for carry in loop.carries for name in carry}
    for name in loop.slices:
        _slice(state, loop, name, named, written)
    if any(isinstance(step, Guard) for step in loop.steps) and not written.isdisjoint(loop.slices):
        raise _fail(loop, "has a guard, and writes rows that it need not reach")
    before = Before(frozenset(named), frozenset(written | carried), carried, dict(state.bounds))
    state.depth += 1
    state.slices.update(loop.slices)
    _forget(state, before)
    for name in set(loop.slices) - before.written:
        outer = str(state.table[name].alias)
        if state.ready(outer):
            state.written.add(name)
        if outer in state.overwritten:
            state.overwritten.add(name)
        if outer in state.bounds:
            state.bounds[name] = state.bounds[outer]
    return before


def guard(state: Known, step: Guard) -> None:
    """Test a way out of a loop: its flag is there and is one truth value."""
    flag = state.table.get(step.flag)
    if state.depth == 0:
        raise ProgramError("is in no loop that it could leave", step=step.name)
    if flag is None or flag.dtype != "b1" or any(n != 1 for n in flag.shape):
        raise ProgramError(f"tests {step.flag!r}, which is no b1 of one element", step=step.name)
    if not state.ready(step.flag):
        raise ProgramError(f"tests {step.flag!r} before it is written", step=step.name)


def leave(state: Known, loop: Repeat, before: Before) -> None:
    """Test what one trip has written; forget what need not hold after the last one, or after none."""
    stored = {name for name in loop.slices if name in before.written}
    for name in (*loop.slices, *(written for _, written in loop.carries)):
        if name in before.written and name not in state.written:
            raise _fail(loop, f"{name!r} is not written at the end of a trip")
    state.bounds = before.bounds
    _forget(state, before)
    state.written.difference_update(loop.slices)
    state.written.update(str(state.table[name].alias) for name in stored)
    state.slices.difference_update(loop.slices)
    state.depth -= 1


def _forget(state: Known, before: Before) -> None:
    """What a trip writes has no value before it does so, but for what is carried; nor has it known bounds."""
    state.written -= before.written - before.carried
    for name in before.written:
        state.bounds.pop(name, None)


def _fail(loop: Repeat, message: str) -> ProgramError:
    return ProgramError(message, step=loop.name)


def _uses(steps: Sequence[Step], table: Mapping[str, Buffer]) -> tuple[set[str], set[str]]:
    """The buffers that the steps of a loop name, and those that they write; carries are those of loops inside."""
    found = [touches(kernel) for kernel in kernels(steps)]
    pairs = [pair for inner in loops(steps) for pair in inner.carries]
    named = {name for part in found for name in part.names()} | {name for pair in pairs for name in pair}
    written = {name for part in found for name in part.writes} | {read for read, _ in pairs}
    return named, _with_outer(written, table)


def _with_outer(names: Iterable[str], table: Mapping[str, Buffer]) -> set[str]:
    """The names, and the buffers that they are slices of."""
    found: set[str] = set()
    for name in names:
        found.add(name)
        while name in table and table[name].role == "slice":
            name = str(table[name].alias)
            found.add(name)
    return found


def _slice(state: Known, loop: Repeat, name: str, named: set[str], written: set[str]) -> None:
    """A slice of this loop: its outer buffer has the rows, and nothing but the slice touches it if it is written."""
    table = state.table
    outer = table[str(table[name].alias)]
    if outer.role == "slice" and outer.name not in state.slices:
        raise _fail(loop, f"{name!r} is a slice of {outer.name!r}, which is a slice of no loop around this one")
    trips, shape, found = show_extent(loop.count), show_shape(outer.shape), rows(outer, table[name])
    if found is None or not _has_rows(found, loop.count):
        raise _fail(loop, f"{outer.name!r} of shape {shape} has not {trips} rows")
    if name not in written:
        return
    role = table[home(name, table)].role
    if role in ("input", "state"):
        raise _fail(loop, f"writes {name!r}, a slice of the {role} {home(name, table)!r}")
    if role == "output" and found != loop.count:
        raise _fail(loop, f"{trips} trips do not write all of {outer.name!r} of shape {shape}")
    twins = {other for other in _with_outer(named, table) if table[other].role == "slice"} - {name}
    beside = {other for other in twins if table[other].alias == outer.name} | (named & {outer.name})
    if beside:
        raise _fail(loop, f"touches {min(beside)!r} beside {name!r}, a slice of {outer.name!r} that it writes")


def _has_rows(rows: Extent, count: Extent) -> bool:
    """Whether there are at least that many rows, whatever the run-time extents."""
    if isinstance(rows, int):
        return upper(count) <= rows
    return count == 0 or (not isinstance(count, int) and count.index == rows.index and count.factor <= rows.factor)


def _carry(state: Known, loop: Repeat, read: str, written: str, writes: set[str]) -> None:
    """What a carry reads has a value and is not written by the steps; what it writes is."""
    table = state.table
    for name, roles in ((read, ("work", "output")), (written, ("work", "slice"))):
        if name not in table or table[name].role not in roles:
            raise _fail(loop, f"carries {name!r}, which is no {' or '.join(roles)} buffer")
    if (table[read].dtype, table[read].shape) != (table[written].dtype, table[written].shape):
        raise _fail(loop, f"carries {written!r} to {read!r}, which has another dtype or shape")
    if not state.ready(read):
        raise _fail(loop, f"carries to {read!r}, which is not written before the loop")
    if read in writes:
        raise _fail(loop, f"writes {read!r}, which only its carry may do")
    if written not in writes:
        raise _fail(loop, f"carries {written!r}, which it does not write")

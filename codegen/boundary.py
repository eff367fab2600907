"""The laws of a Program that need no look at its statements: names, extents, slots, aliases, what callers are told.

Comes in: a Program. Goes out: nothing, or a ProgramError that names the buffer. Laws: buffers, steps and
dimensions share one name space of C identifiers; shapes use the program's dimensions; the slots of each
role are 0, 1, … and their buffers have the types that callers are told; an input or state is taken over
by at most one output, of its own type; a slice has the type of a row of its outer buffer; the loss is an output
of one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .cexpr import DTYPES, identifier
from .errors import ProgramError
from .program import Array, Buffer, Dim, Extent, Program, kernels, loops, rows
from .show import show_extent, show_shape


def check_boundary(program: Program) -> None:
    """Raise ProgramError if one of these laws is broken.

    >>> check_boundary(Program("p", (Buffer("x", "f32", (8,), "input", 1),), (), (), ()))
    Traceback (most recent call last):
    gtensor.codegen.errors.ProgramError: the slots of input buffers are [1], not []
    """
    _names(program)
    _extents(program)
    _slots(program)
    _aliases(program.buffers, program.table)
    _slices(program)
    if program.loss is not None:
        loss = program.table.get(program.loss)
        if loss is None or loss.role != "output" or any(n != 1 for n in loss.shape):
            raise ProgramError(f"the loss {program.loss!r} is not an output of one element")


def wrong_extent(extent: Extent, dims: Sequence[Dim], least: int | None = None) -> str:
    """What is wrong with an extent of which `least` is the smallest constant or factor, or nothing.

    >>> wrong_extent(Dim(0, "B", 8), ()), wrong_extent(-1, (), 0), wrong_extent(-1, ())
    ("dimension 'B' is not one of the program's", '-1 is negative', '')
    """
    if not isinstance(extent, int):
        known = 0 <= extent.index < len(dims) and dims[extent.index]
        if not known or (known.name, known.bound) != (extent.name, extent.bound) or extent.factor == 0:
            return f"dimension {extent.name!r} is not one of the program's"
    factor = extent if isinstance(extent, int) else extent.factor
    return f"{show_extent(extent)} is negative" if least is not None and factor < least else ""


def _names(program: Program) -> None:
    if identifier(program.name) != program.name:
        raise ProgramError(f"the program's name {program.name!r} is not a C identifier")
    seen: set[str] = set()
    steps = (*kernels(program.steps), *loops(program.steps))
    for name in (item.name for items in (program.dims, program.buffers, steps) for item in items):
        if identifier(name) != name:
            raise ProgramError(f"the name {name!r} is not a C identifier")
        if name in seen:
            raise ProgramError(f"the name {name!r} is used twice")
        seen.add(name)


def _extents(program: Program) -> None:
    for index, dim in enumerate(program.dims):
        if dim.index != index or dim.factor != 1 or dim.bound < 0:
            raise ProgramError(f"dimension {dim.name!r} must have index {index}, factor 1 and a bound of 0 or more")
    items: list[Buffer | Array] = [*program.buffers, *program.inputs, *program.outputs, *program.state]
    for item in items:
        if item.dtype not in DTYPES:
            raise ProgramError(f"{item.name!r} has the unknown dtype {item.dtype!r}")
        for extent in item.shape:
            if wrong := wrong_extent(extent, program.dims, 0):
                raise ProgramError(f"shape {show_shape(item.shape)} of {item.name!r}: {wrong}")


def _slots(program: Program) -> None:
    """An output that takes over a buffer may do without a slot; work and row buffers and slices have none."""
    told: dict[str, tuple[Array, ...]]
    told = {"input": program.inputs, "output": program.outputs, "state": program.state}
    told |= {"work": (), "row": (), "slice": ()}
    slots: dict[str, list[int]] = {role: [] for role in told}
    for buffer in program.buffers:
        if buffer.role not in told:
            raise ProgramError(f"{buffer.name!r} has the unknown role {buffer.role!r}")
        if buffer.slot != -1 or not (buffer.alias or buffer.role in ("work", "row", "slice")):
            slots[buffer.role].append(buffer.slot)
    for role, arrays in told.items():
        wanted = list(range(len(arrays)))
        if sorted(slots[role]) != wanted:
            raise ProgramError(f"the slots of {role} buffers are {sorted(slots[role])}, not {wanted}")
    for buffer in program.buffers:
        if buffer.slot >= 0:
            array = told[buffer.role][buffer.slot]
            if (array.dtype, array.shape) != (buffer.dtype, buffer.shape):
                raise ProgramError(
                    f"{buffer.role} {buffer.slot} is told as {array.dtype}{show_shape(array.shape)} but its buffer"
                    f" {buffer.name!r} is {buffer.dtype}{show_shape(buffer.shape)}"
                )


def _aliases(buffers: Sequence[Buffer], table: Mapping[str, Buffer]) -> None:
    taken: set[str] = set()
    for buffer in buffers:
        if buffer.alias is None or buffer.role == "slice":
            continue
        target = table.get(buffer.alias)
        if buffer.role != "output" or target is None or target.role not in ("input", "state"):
            raise ProgramError(f"{buffer.name!r} takes over {buffer.alias!r}: only an output may, of an input or state")
        if (target.dtype, target.shape) != (buffer.dtype, buffer.shape):
            raise ProgramError(f"{buffer.name!r} takes over {target.name!r}, which has another dtype or shape")
        if target.name in taken:
            raise ProgramError(f"{buffer.name!r} takes over {target.name!r}, which another output takes over")
        taken.add(target.name)


def _slices(program: Program) -> None:
    """Each slice moves with one loop, and has the type of a row."""
    table, named = program.table, [name for loop in loops(program.steps) for name in loop.slices]
    slices = [buffer for buffer in program.buffers if buffer.role == "slice"]
    if wrong := set(named) - {buffer.name for buffer in slices}:
        raise ProgramError(f"a loop names {min(wrong)!r} as a slice, which is none")
    for buffer in slices:
        if named.count(buffer.name) != 1:
            raise ProgramError(f"the slice {buffer.name!r} is named by {named.count(buffer.name)} loops, not by one")
        outer = table.get(buffer.alias or "")
        if outer is None or outer.role == "row":
            raise ProgramError(f"{buffer.name!r} is a slice of {buffer.alias!r}, which is no array")
        above = outer
        for _ in slices:
            above = table.get(above.alias or "", above) if above.role == "slice" else above
        if above.role == "slice":
            raise ProgramError(f"the slice {buffer.name!r} is in the end a slice of itself")
        if outer.dtype != buffer.dtype or rows(outer, buffer) is None:
            raise ProgramError(
                f"the slice {buffer.name!r} is {buffer.dtype}{show_shape(buffer.shape)}, but {outer.name!r} is"
                f" {outer.dtype}{show_shape(outer.shape)}"
            )

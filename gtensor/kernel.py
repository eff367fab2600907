"""The inside of one kernel under construction: phases, loads that are made once, row buffers.

`Memory` knows every buffer of the program and the C name of every value; `Kernel` collects the statements
of one loop nest. Both speak codegen's language and translate gtensor's extents. Law: a load of the same
element is made once per level and phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .codegen import cexpr
from .codegen import program as p
from .ir import Lit, Var
from .types import Dim, Shape, Type


def scalar_space(space: Shape) -> Shape:
    """A scalar's loop has one axis of one element."""
    return space or (1,)


class Memory:
    """Buffers by the value they hold, run-time extents, and names that no two things share."""

    def __init__(self, names: dict[Var, str], dims: dict[str, p.Dim]) -> None:
        self.names = names
        self.dims = dims
        self.buffers: list[p.Buffer] = []
        self._of: dict[Var, str] = {}
        self._taken = {*names.values(), *(dim.name for dim in dims.values())}
        self._marks: dict[str, int] = {}

    def extent(self, extent: int | Dim) -> p.Extent:
        """An extent in codegen's terms."""
        if isinstance(extent, int):
            return extent
        base = self.dims[extent.name]
        return p.Dim(base.index, base.name, base.bound, extent.factor) if extent.factor else 0

    def shape(self, type: Type) -> tuple[p.Extent, ...]:
        """A shape in codegen's terms."""
        return tuple(map(self.extent, type.shape))

    def unique(self, name: str) -> str:
        """A name that nothing else has."""
        made, count = name, 2
        while made in self._taken:
            made, count = f"{name}_{count}", count + 1
        self._taken.add(made)
        return made

    def value(self, var: Var) -> str:
        """The scalar variable of a value: its buffer's name with a mark that the C does not show."""
        return f"{self.names[var]}'"

    def variable(self, name: str) -> str:
        """A new scalar variable that the C calls `name`, as far as it can."""
        self._marks[name] = self._marks.get(name, 0) + 1
        return f"{name}'{self._marks[name]}"

    def add(self, var: Var, role: str, slot: int = -1, alias: str | None = None) -> str:
        """A buffer for a value, under the value's name."""
        name = self.names[var]
        self.buffers.append(p.Buffer(name, var.type.dtype.tag, self.shape(var.type), role, slot, alias))
        self._of[var] = name
        return name

    def place(self, var: Var, name: str) -> None:
        """Let a value live in a buffer that is there already."""
        self._of[var] = name

    def is_slice(self, var: Var) -> bool:
        """Whether a value is a row of an array in a loop."""
        slices = {buffer.name for buffer in self.buffers if buffer.role == "slice"}
        return var in self._of and self._of[var] in slices

    def buffer(self, var: Var) -> str:
        """The buffer of a value; a work buffer is made on first use."""
        return self._of[var] if var in self._of else self.add(var, "work")

    def scratch(self, name: str, dtype: str, shape: tuple[p.Extent, ...], role: str) -> str:
        """A further buffer."""
        name = self.unique(name)
        self.buffers.append(p.Buffer(name, dtype, shape, role))
        return name


class Kernel:
    """Statements of a kernel over `space`, in phases: per row (head), then per element (body)."""

    def __init__(self, memory: Memory, space: Shape) -> None:
        self.memory = memory
        self.space = tuple(map(memory.extent, space))
        self.accumulators: list[p.Accumulator] = []
        self._heads: list[list[p.Stmt]] = []
        self._bodies: list[list[p.Stmt]] = []
        self._loaded: dict[Any, str] = {}
        self._since: dict[Any, int] = {}
        self._rows: dict[Var, str] = {}

    @property
    def empty(self) -> bool:
        """Whether it does nothing."""
        return not any(self._heads) and not any(self._bodies)

    def add(self, stmt: p.Stmt, per_row: bool, phase: int) -> None:
        """A statement at the end of a head or body."""
        while len(self._heads) <= phase:
            self._heads.append([])
            self._bodies.append([])
        (self._heads if per_row else self._bodies)[phase].append(stmt)

    def assign(self, name: str, dtype: str, expr: cexpr.Expr, per_row: bool, phase: int) -> str:
        """A helper variable; gives its name."""
        name = self.memory.variable(name)
        self.add(p.Assign(name, dtype, expr), per_row, phase)
        return name

    def read(
        self, base: Var | Lit | None, strides: tuple[p.Extent, ...], offset: Any, type: Type, per_row: bool, phase: int,
        index: tuple[tuple[str, p.Extent], ...] = (),
    ) -> str:  # fmt: skip
        """The variable or literal of an element: loaded, counted or spelled out, once per level and phase.

        What a head has loaded is there for later phases, but not for an earlier one that asks afterwards.
        """
        tag = type.dtype.tag
        if isinstance(base, Lit):
            return cexpr.literal(base.value.item(), tag)
        key = (base, strides, offset, index, tag, per_row, None if per_row else phase)
        if key in self._loaded and self._since.get(key, phase) <= phase:
            return self._loaded[key]
        if per_row:
            self._since[key] = phase
        if base is None:
            name = self._count(strides, offset, tag, per_row, phase)
        else:
            name = self.memory.variable(self.memory.names[base])
            access = p.Access(self.memory.buffer(base), strides, self.memory.extent(offset), index)
            self.add(p.Load(name, tag, access), per_row, phase)
        self._loaded[key] = name
        return name

    def _count(self, strides: Sequence[p.Extent], offset: Any, tag: str, per_row: bool, phase: int) -> str:
        """A counter value: offset + the sum of strides times counters, converted to the dtype."""
        total = cexpr.literal(int(offset), "i64")
        for axis, stride in enumerate(strides):
            if stride == 0:
                continue
            counter = self.memory.variable("at")
            self.add(p.Counter(counter, axis), per_row, phase)
            if stride != 1:
                scaled = cexpr.Expr("{0} * {1}", (counter, cexpr.literal(int(stride), "i64")), "i64", "i64")  # type: ignore[arg-type]
                counter = self.assign("scaled", "i64", scaled, per_row, phase)
            if total == cexpr.literal(0, "i64"):
                total = counter
            else:
                total = self.assign(
                    "place", "i64", cexpr.Expr("{0} + {1}", (total, counter), "i64", "i64"), per_row, phase
                )
        if tag == "i64":
            return total
        return self.assign("counted", tag, cexpr.Expr("gt_cast_{t}_{r}({0})", (total,), "i64", tag), per_row, phase)

    def has_row_buffer(self, var: Var) -> bool:
        """Whether a value of a row is carried to later phases."""
        return var in self._rows

    def row_buffer(self, var: Var, phase: int) -> str:
        """A buffer that carries a value of one row from its phase to later ones."""
        if var not in self._rows:
            name = f"{self.memory.names[var]}_row"
            row = self.memory.scratch(name, var.type.dtype.tag, (self.space[-1],), "row")
            access = p.Access(row, (0,) * (len(self.space) - 1) + (1,))
            self.add(p.Store(access, self.memory.value(var)), False, phase)
            self._rows[var] = row
        return self._rows[var]

    def reread(self, buffer: str, strides: tuple[p.Extent, ...], var: Var, phase: int) -> str:
        """A value of an earlier phase, loaded back."""
        key = ("again", var, phase)
        if key not in self._loaded:
            name = self.memory.variable(self.memory.names[var])
            self.add(p.Load(name, var.type.dtype.tag, p.Access(buffer, strides)), False, phase)
            self._loaded[key] = name
        return self._loaded[key]

    def finished(self) -> tuple[p.Phase, ...]:
        """The phases."""
        return tuple(p.Phase(tuple(head), tuple(body)) for head, body in zip(self._heads, self._bodies, strict=True))


def positions(strides: Mapping[int, p.Extent], rank: int) -> tuple[p.Extent, ...]:
    """Strides over `rank` axes from those that move."""
    return tuple(strides.get(i, 0) for i in range(rank)) or (0,)

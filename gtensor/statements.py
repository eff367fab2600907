"""The statements of one kernel: each equation as loads, one scalar expression, and what keeps its result.

Comes in: the equations of a group, in order. Goes out: statements by phase and level in a `Kernel`. Views
become strides, literals text, counters arithmetic. Laws: statements stand in the order of the equations; a
value of an earlier phase is read back from memory or, where that is cheap, computed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .codegen import cexpr
from .codegen import program as p
from .ir import Atom, Eqn, Lit, Var
from .kernel import positions
from .schedule import Group, dense_strides
from .steps import Steps, copy_step
from .types import Dim, extent_bound, shape_size

WIDE = 64
"""Float32 terms that may be added one after another in float32; longer sums over rows run in float64."""

AGAIN = 3
"""Operations per element that a later phase of a row does again rather than read a value back from memory."""


class Statements:
    """The statements of one kernel: variables per level and phase, loads, spills, stores."""

    def __init__(self, f: Steps, index: int, group: Group) -> None:
        self.f = f
        self.index = index
        self.group = group
        self.kernel = f.kernel(index, group)
        self.rank = len(group.space)
        self.before: list[p.Step] = []
        self.phase_of: dict[Var, int] = {}
        self.made_by: dict[Var, Eqn] = {}
        self.again: dict[tuple[Var, int], str] = {}
        self.per_row: dict[Var, str] = {}
        self.indices: dict[tuple[Any, ...], str] = {}
        self.line = ""

    # ---- levels ----

    def level(self, var: Var) -> str:
        """`element`, `row` or `after`."""
        return self.f.schedule.level[var]

    def phase(self, eqn: Eqn) -> int:
        """The first phase in which all operands of an equation are known."""
        return max((self.phase_of.get(a, 0) for a in eqn.ins if self.f.inside(a, self.index)), default=0)  # type: ignore[arg-type]

    def row_strides(self, shape: Sequence[Any], strides: Sequence[Any]) -> tuple[p.Extent, ...]:
        """Strides of a value per row over the kernel's axes."""
        outer = list(strides[: self.rank - 1])
        return self.space_strides([*outer, 0])

    def space_strides(self, strides: Sequence[Any]) -> tuple[p.Extent, ...]:
        """Strides over the kernel's axes; a scalar kernel has one axis."""
        return tuple(self.f.memory.extent(s) for s in strides) or (0,)

    # ---- operands ----

    def operand(self, atom: Atom, per_row: bool, phase: int) -> str:
        """The variable or literal that an operand is at this level and phase."""
        if isinstance(atom, Var) and self.f.inside(atom, self.index):
            return self.local(atom, phase)
        location = self.f.locate(atom)
        strides = (
            self.row_strides(atom.type.shape, location.strides) if per_row else self.space_strides(location.strides)
        )
        return self.kernel.read(location.base, strides, location.offset, atom.type, per_row, phase)

    def local(self, var: Var, phase: int) -> str:
        """A variable of this kernel; one of an earlier phase is read back from memory, or computed again if cheap."""
        if var in self.per_row:
            return self.per_row[var]
        made = self.phase_of[var]
        if made == phase:
            return self.f.memory.value(var)
        if (var, phase) in self.again:
            return self.again[var, phase]
        if 0 < self.cost(var, phase, AGAIN) <= AGAIN:
            eqn = self.made_by[var]
            expr = self.expression(eqn, [self.operand(a, False, phase) for a in eqn.ins])
            self.again[var, phase] = self.kernel.assign(self.f.memory.names[var], expr.r, expr, False, phase)
            return self.again[var, phase]
        strides = self.space_strides(dense_strides(var.type.shape))
        if var in self.f.stored:
            return self.kernel.reread(self.f.buffer(var), strides, var, phase)
        row = self.kernel.row_buffer(var, made)
        return self.kernel.reread(row, (0,) * (len(self.kernel.space) - 1) + (1,), var, phase)

    def cost(self, var: Var, phase: int, budget: float) -> float:
        """Operations that give a value in a later phase from what is there in memory or in variables.

        What costs more than the budget is not counted to its end.
        """
        known = var in self.per_row or self.phase_of[var] == phase or (var, phase) in self.again
        if known or var in self.f.stored or self.kernel.has_row_buffer(var):
            return 0
        if var not in self.made_by:
            return math.inf
        eqn = self.made_by[var]
        total: float = eqn.prim.flops
        for a in eqn.ins:
            if total > budget:
                return math.inf
            if isinstance(a, Var) and self.f.inside(a, self.index):
                total += self.cost(a, phase, budget - total)
        return total

    def expression(self, eqn: Eqn, args: Sequence[str]) -> cexpr.Expr:
        """An elementwise equation over variables and literals."""
        operands = eqn.ins[-1].type.dtype
        template = eqn.prim.c_for(operands) or "{0}"
        return cexpr.Expr(template, tuple(args), operands.tag, eqn.out.type.dtype.tag)

    def define(self, eqn: Eqn, phase: int = 0) -> str:
        """The variable of an equation's result."""
        out = eqn.out
        self.phase_of[out] = phase
        name = self.f.memory.value(out)
        if self.level(out) == "row":
            self.per_row[out] = name
        return name

    def note(self, eqn: Eqn) -> str:
        """The user's file and line, where it differs from the statement before."""
        line = f"{eqn.source[0].base}:{eqn.source[0].line}" if eqn.source else ""
        if line == self.line:
            return ""
        self.line = line
        return line

    def keep(self, eqn: Eqn) -> None:
        """Store a result that others read."""
        out = eqn.out
        if out not in self.f.stored:
            return
        per_row = out in self.per_row
        dense = dense_strides(out.type.shape)
        strides = self.row_strides(out.type.shape, dense) if per_row else self.space_strides(dense)
        access = p.Access(self.f.buffer(out), strides)
        self.kernel.add(p.Store(access, self.f.memory.value(out)), per_row, self.phase_of[out])

    def number(self, eqn: Eqn) -> int:
        """The equation's place in the program's list."""
        return self.f.numbers[eqn.out]


def _elementwise(k: Statements, eqn: Eqn) -> None:
    per_row, phase = k.level(eqn.out) == "row", k.phase(eqn)
    expr = k.expression(eqn, [k.operand(a, per_row, phase) for a in eqn.ins])
    if eqn.prim.place is not None:
        _check_index(k, eqn, expr.args[0], per_row, phase)
    elif not per_row:
        k.made_by[eqn.out] = eqn
    k.kernel.add(p.Assign(k.define(eqn, phase), expr.r, expr, k.note(eqn)), per_row, phase)
    k.keep(eqn)


def _check_index(k: Statements, eqn: Eqn, value: str, per_row: bool, phase: int) -> None:
    assert eqn.prim.place is not None
    bounds = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    tag = eqn.ins[0].type.dtype.tag
    if bounds.ignore is not None:
        args = (value, cexpr.literal(bounds.ignore, tag), cexpr.literal(bounds.low, tag))
        ignored = cexpr.Expr(f"gt_where_{tag}({{0}} == {{1}}, {{2}}, {{0}})", args, tag, tag)
        value = k.kernel.assign("label", tag, ignored, per_row, phase)
    high = k.f.memory.extent(bounds.high)
    k.kernel.add(p.Check(value, bounds.low, high, k.number(eqn), k.note(eqn)), per_row, phase)


def _reduce(k: Statements, eqn: Eqn) -> None:
    (x,) = eqn.ins
    op, axes, shape = eqn.prim.c["*"], eqn.params["axis"], x.type.shape
    if op in ("argmax", "argmin"):
        _search(k, eqn, op)
        return
    per_row = k.f.inside(x, k.index) and k.level(x) == "row"  # type: ignore[arg-type]
    phase, tag, out = k.phase(eqn), x.type.dtype.tag, eqn.out.type.dtype.tag
    value, name = k.operand(x, per_row, phase), k.f.memory.names[eqn.out]
    if tag != out:
        widened = cexpr.Expr("gt_cast_{t}_{r}({0})", (value,), tag, out)
        value = k.kernel.assign(name, out, widened, per_row, phase)
    if k.level(eqn.out) == "row":
        k.kernel.add(p.Reduce(k.define(eqn, phase + 1), out, op, value, k.note(eqn)), False, phase)
        k.keep(eqn)
        return
    terms = [n for i, n in enumerate(shape) if i in axes]
    if not per_row and len(shape) - 1 in axes and k.group.kind == "row":
        row = k.f.memory.variable(name)
        k.kernel.add(p.Reduce(row, out, op, value, k.note(eqn)), False, phase)
        value, phase, per_row, terms = row, phase + 1, True, terms[:-1]
    _accumulate(k, eqn, op, value, per_row, phase, terms)


def _accumulate(
    k: Statements, eqn: Eqn, op: str, value: str, per_row: bool, phase: int, terms: Sequence[int | Dim]
) -> None:
    """Fold a value into the memory of the result, along the axes that are reduced."""
    (x,), out, memory = eqn.ins, eqn.out, k.f.memory
    kept = [i for i in range(x.type.ndim) if i not in eqn.params["axis"]]
    strides = zip(kept, map(memory.extent, dense_strides(out.type.shape)), strict=True)
    moving = {axis: stride for axis, stride in strides if x.type.shape[axis] != 1}
    count = extent_bound(shape_size([extent_bound(n) for n in terms]))
    _sum_into(k, eqn, op, value, per_row, phase, positions(moving, len(k.kernel.space)), count)


def _sum_into(
    k: Statements, eqn: Eqn, op: str, value: str, per_row: bool, phase: int, strides: tuple[p.Extent, ...], count: int
) -> None:
    """Fold a value into an element of the result's memory, where `count` values meet."""
    out, memory = eqn.out, k.f.memory
    buffer, tag = memory.buffer(out), out.type.dtype.tag
    scratch = None
    if op == "sum" and tag == "f32" and count > WIDE:
        scratch = memory.scratch(f"{buffer}_wide", "f64", memory.shape(out.type), "work")
    k.kernel.accumulators.append(p.Accumulator(buffer, op, scratch=scratch))
    k.kernel.add(p.Accumulate(p.Access(buffer, strides), op, value, k.note(eqn)), per_row, phase)


def _search(k: Statements, eqn: Eqn, op: str) -> None:
    """argmax and argmin: the searched axis is the last of the loop, whichever it is of the operand."""
    (x,), (axis,) = eqn.ins, eqn.params["axis"]
    phase, out = k.phase(eqn), eqn.out
    if k.level(out) == "row":
        value = k.operand(x, False, phase)
    else:
        location = k.f.locate(x)
        strides = [s for i, s in enumerate(location.strides) if i != axis] + [location.strides[axis]]
        value = k.kernel.read(location.base, k.space_strides(strides), location.offset, x.type, False, phase)
    if "'" not in value:
        tag = x.type.dtype.tag
        value = k.kernel.assign("value", tag, cexpr.Expr("{0}", (value,), tag, tag), False, phase)
    name = k.define(eqn, phase + 1)
    k.per_row[out] = name
    k.kernel.add(p.Reduce(name, out.type.dtype.tag, op, value, k.note(eqn)), False, phase)
    k.keep(eqn)


def _view(k: Statements, eqn: Eqn) -> None:
    """A view of a value per row that stays in its loop is the same variable."""
    (x,) = eqn.ins
    assert isinstance(x, Var)
    k.phase_of[eqn.out] = k.phase_of[x]
    k.per_row[eqn.out] = k.per_row[x]


_COUNTED = ("i32", "i64")
"""Dtypes in which places are counted."""


def _index(k: Statements, atom: Atom, size: int | Dim, axes: Sequence[int], node: int, phase: int) -> str:
    """The variable of an index, counted from the front; per row where it does not move along it, and there is one.

    Of a run-time axis it is counted from the front already.
    It is checked in the first phase, before anything is written, and again where a later phase uses it. Places
    counted from the end may not fit a small dtype, so these become int64.
    """
    location, memory = k.f.locate(atom), k.f.memory
    moving = {axis: memory.extent(s) for axis, s in zip(axes, location.strides, strict=True)}
    strides = positions(moving, len(k.kernel.space))
    per_row = strides[-1] == 0 and k.group.kind == "row" and k.kernel.space[-1] != 0
    own = atom.type.dtype.tag
    tag = own if own in _COUNTED else "i64"

    at, checked = 0, ""
    for at in sorted({0, 0 if per_row else phase}):
        raw = k.kernel.read(location.base, strides, location.offset, atom.type, per_row, at)
        checked = k.indices.get(("check", raw, size, at), "")
        if not checked:
            counted = cexpr.Expr("{0}" if tag == own else cexpr.INDEX, (raw,), own, tag)
            checked = raw if "'" in raw and tag == own else k.kernel.assign("index", tag, counted, per_row, at)
            low = -size if isinstance(size, int) else 0
            k.kernel.add(p.Check(checked, low, memory.extent(size), node), per_row, at)
            k.indices["check", raw, size, at] = checked
    if isinstance(size, Dim):
        return checked
    if ("row", checked, size) not in k.indices:
        counted = cexpr.Expr(cexpr.WRAP, (checked, cexpr.literal(size, tag)), tag, tag)
        k.indices["row", checked, size] = k.kernel.assign("row", tag, counted, per_row, at)
    return k.indices["row", checked, size]


def _gather(k: Statements, eqn: Eqn) -> None:
    x, index = eqn.ins
    assert eqn.prim.place is not None
    place = eqn.prim.place(x.type, index.type, **eqn.params)
    location, memory = k.f.locate(x), k.f.memory
    at = _index(k, index, x.type.shape[place.axis], place.index_axes, k.number(eqn), 0)
    moving = {axis: memory.extent(s) for axis, s in zip(place.axes, location.strides, strict=True) if axis is not None}
    name = k.define(eqn, 0)
    assert isinstance(location.base, Var)
    access = p.Access(
        k.f.buffer(location.base),
        positions(moving, len(k.kernel.space)),
        memory.extent(location.offset),
        ((at, memory.extent(location.strides[place.axis])),),
    )
    k.kernel.add(p.Load(name, x.type.dtype.tag, access), False, 0)
    k.keep(eqn)


def _scatter(k: Statements, eqn: Eqn) -> None:
    x, index, values = eqn.ins
    assert eqn.prim.place is not None
    place = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    out, memory = eqn.out, k.f.memory
    op = eqn.prim.c["*"]
    source, buffer = k.f.locate(x), memory.buffer(out)
    neutral = cexpr.REDUCERS[op].initial(out.type.dtype.tag) == "0"
    starts_at_zero = neutral and isinstance(source.base, Lit) and source.base.value == 0
    if not starts_at_zero:
        k.before.append(copy_step(k.f, memory.unique(f"k{k.index}_start"), out, source, x.type))
    phase = k.phase(eqn)
    value = k.operand(values, False, phase)
    at = _index(k, index, x.type.shape[place.axis], place.index_axes, k.number(eqn), phase)
    dense = [memory.extent(s) for s in dense_strides(out.type.shape)]
    moving = {axis: s for axis, s in zip(place.axes, dense, strict=True) if axis is not None}
    k.kernel.accumulators.append(p.Accumulator(buffer, op, "identity" if starts_at_zero else "keep"))
    access = p.Access(buffer, positions(moving, len(k.kernel.space)), 0, ((at, dense[place.axis]),))
    k.kernel.add(p.Accumulate(access, op, value, k.note(eqn)), False, phase)


def _overlap(k: Statements, eqn: Eqn) -> None:
    """Each element is added to its place; where many meet, the running sums are wider."""
    (x,) = eqn.ins
    assert eqn.prim.place is not None
    strides = eqn.prim.place(x.type, **eqn.params)
    d, phase = len(eqn.params["shape"]), k.phase(eqn)
    most = extent_bound(shape_size(x.type.shape[-2 * d : -d]))
    _sum_into(k, eqn, "sum", k.operand(x, False, phase), False, phase, k.space_strides(strides), most)


EQUATIONS = {
    "elementwise": _elementwise,
    "effect": _elementwise,
    "reduce": _reduce,
    "view": _view,
    "gather": _gather,
    "scatter": _scatter,
    "overlap": _overlap,
}

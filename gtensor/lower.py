"""From kernels to loops: a Schedule becomes the Program that the C is written from.

Comes in: a Schedule and which outputs take over which inputs. Goes out: `codegen.program.Program`. Views
become strides, literals become text, counters become arithmetic; a value gets memory only if another
kernel or the caller reads it. Law: statements stand in the order of the equations, phase by phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .codegen import cexpr
from .codegen import program as p
from .ir import Atom, Eqn, Lit, Var, lit, names, show_atom, show_param
from .kernel import Kernel, Memory, positions, scalar_space
from .schedule import Group, Location, Schedule, dense_strides
from .types import Dim, Type, extent_bound, shape_size

WIDE = 64
"""Float32 terms that may be added one after another in float32; longer sums over rows run in float64."""


AGAIN = 3
"""Operations per element that a later phase of a row does again rather than read a value back from memory."""


def lower(
    schedule: Schedule,
    *,
    state: Mapping[int, int] | None = None,
    alias: Mapping[int, int] | None = None,
    loss: int | None = None,
    header: Sequence[str] = (),
) -> p.Program:
    """The program of a schedule.

    `state` maps graph inputs to state leaves, `alias` graph outputs to the graph inputs whose memory they
    take over, `loss` is the output that is also reported as a number.
    """
    lowering = _Lowering(schedule, state or {}, alias or {}, loss)
    for index, group in enumerate(schedule.groups):
        _GROUPS[group.kind](lowering, index, group)
    return lowering.program(loss, header)


class _Lowering:
    """The program under construction: its buffers and steps."""

    def __init__(
        self, schedule: Schedule, state: Mapping[int, int], alias: Mapping[int, int], loss: int | None
    ) -> None:
        self.schedule = schedule
        self.graph = schedule.graph
        self.numbers = {eqn.out: i for i, eqn in enumerate(self.graph.eqns)}
        dims = _dims(schedule)
        self.memory = Memory(_c_names(schedule, alias, loss, {dim.name for dim in dims.values()}), dims)
        self.steps: list[p.Step] = []
        self.inputs: list[p.Array] = []
        self.outputs: list[p.Array] = []
        self.state: dict[int, p.Array] = {}
        self._boundary(state, alias)
        self.stored = self._stored()

    def _boundary(self, state: Mapping[int, int], alias: Mapping[int, int]) -> None:
        """Buffers of inputs, state leaves and outputs."""
        memory = self.memory
        for i, var in enumerate(self.graph.inputs):
            array = p.Array(var.hint, var.type.dtype.tag, memory.shape(var.type))
            if i in state:
                self.state[state[i]] = array
                memory.add(var, "state", state[i])
            else:
                memory.add(var, "input", len(self.inputs))
                self.inputs.append(array)
        output_names = self.graph.output_names or [""] * len(self.graph.outputs)
        for i, var in enumerate(self.schedule.outputs):
            if i in alias:
                memory.add(var, "output", -1, memory.names[self.graph.inputs[alias[i]]])
                continue
            name = output_names[i] or memory.names[var]
            memory.add(var, "output", len(self.outputs))
            self.outputs.append(p.Array(name, var.type.dtype.tag, memory.shape(var.type)))

    def _stored(self) -> set[Var]:
        """Values that need memory: outputs, and what a kernel reads that another has made."""
        schedule = self.schedule
        stored = set(schedule.outputs)
        for index, group in enumerate(schedule.groups):
            if group.target is not None and group.source is not None:
                stored.add(group.target)
                if isinstance(group.source.base, Var):
                    stored.add(group.source.base)
            for eqn in group.eqns:
                if group.kind == "assemble" or eqn.prim.kind == "scatter":
                    stored.add(eqn.out)
                for atom in eqn.ins:
                    if isinstance(atom, Var) and not self.inside(atom, index):
                        base = schedule.location[atom].base
                        if isinstance(base, Var):
                            stored.add(base)
        return stored

    def inside(self, atom: Atom, index: int) -> bool:
        """Whether a value is a variable of kernel `index`."""
        s = self.schedule
        return isinstance(atom, Var) and s.home.get(atom) == index and s.level[atom] != "after"

    def locate(self, atom: Atom) -> Location:
        """Where a value lives."""
        return self.schedule.location[atom] if isinstance(atom, Var) else Location(atom, (0,) * len(atom.type.shape))

    def buffer(self, var: Var) -> str:
        """The buffer of a stored value; made on first use."""
        return self.memory.buffer(var)

    def kernel(self, index: int, group: Group) -> Kernel:
        """An empty kernel over the group's space."""
        return Kernel(self.memory, scalar_space(group.space))

    def name(self, index: int, group: Group) -> str:
        """A name for a kernel: its number and the last named value it makes, else its last operation."""
        named = [e.out for e in group.eqns if e.out.hint]
        last = group.target or (named[-1] if named else None)
        what = group.eqns[-1].prim.name if last is None else self.memory.names[last]
        return self.memory.unique(f"k{index}_{what.rstrip('_')}")

    def comment(self, group: Group) -> tuple[str, ...]:
        """The user lines of a group, each once."""
        lines: dict[str, None] = {}
        for eqn in group.eqns:
            for source in eqn.source:
                lines.setdefault(str(source))
        return tuple(lines)

    def program(self, loss: int | None, header: Sequence[str]) -> p.Program:
        """The finished program."""
        name_of = names(self.graph)
        return p.Program(
            name=cexpr.identifier(self.graph.name),
            buffers=tuple(self.memory.buffers),
            steps=tuple(self.steps),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            state=tuple(self.state[i] for i in sorted(self.state)),
            dims=tuple(self.memory.dims.values()),
            loss=None if loss is None else self.buffer(self.schedule.outputs[loss]),
            equations=tuple(describe(eqn, name_of) for eqn in self.graph.eqns),
            header=tuple(header),
        )


def describe(eqn: Eqn, name_of: dict[Var, str]) -> str:
    """An equation in one line, with the first user line it came from."""
    args = [show_atom(a, name_of) for a in eqn.ins]
    args += [f"{k}={show_param(v)}" for k, v in sorted(eqn.params.items())]
    source = f"  {eqn.source[0].base}:{eqn.source[0].line}" if eqn.source else ""
    return f"{name_of[eqn.out]}: {eqn.out.type} = {eqn.prim.name}({', '.join(args)}){source}"


def _c_names(schedule: Schedule, alias: Mapping[int, int], loss: int | None, taken: set[str]) -> dict[Var, str]:
    """C identifiers of all variables: hints, what an output is called by its caller, or a number."""
    graph = schedule.graph
    every = names(graph)
    for i, (var, name) in enumerate(zip(schedule.outputs, graph.output_names, strict=False)):
        if i in alias:
            every[var] = f"{graph.inputs[alias[i]].hint}_new"
        elif i == loss:
            every[var] = "loss"
        elif not var.hint or var not in every:
            every[var] = name if name[:1].isalpha() else f"out_{name}"
    for group in schedule.groups:
        if group.target is not None and group.target not in every:
            every[group.target] = group.target.hint or "copied"
    result: dict[Var, str] = {}
    for var, name in every.items():
        stem = made = cexpr.identifier(name)
        count = 2
        while made in taken:
            made, count = f"{stem}_{count}", count + 1
        taken.add(made)
        result[var] = made
    return result


def _dims(schedule: Schedule) -> dict[str, p.Dim]:
    """The run-time extents by name, in the order of the inputs; in C each has an identifier of its own."""
    dims: dict[str, p.Dim] = {}
    used: set[str] = set()
    for var in schedule.graph.inputs:
        for extent in var.type.shape:
            if isinstance(extent, Dim) and extent.name not in dims:
                name = cexpr.identifier(extent.name)
                while name in used:
                    name += "2"
                used.add(name)
                dims[extent.name] = p.Dim(len(dims), name, extent.bound)
    return dims


# ---- row kernels and products ----------------------------------------------------------------------------


def _row(f: _Lowering, index: int, group: Group) -> None:
    kernel = _Statements(f, index, group)
    for eqn in group.eqns:
        _EQUATIONS[eqn.prim.kind](kernel, eqn)
    f.steps.extend(kernel.before)
    if kernel.kernel.empty:
        return
    f.steps.append(
        p.RowKernel(
            f.name(index, group),
            kernel.kernel.space,
            kernel.kernel.finished(),
            tuple(kernel.kernel.accumulators),
            f.comment(group),
        )
    )


def _product(f: _Lowering, index: int, group: Group) -> None:
    first, *rest = group.eqns
    a, b = first.ins
    ta, tb = first.params["ta"], first.params["tb"]
    memory = f.memory
    batch = len(group.space) - 2
    *lead, m, n = (memory.extent(x) for x in group.space)
    inner = a.type.shape[-2 if ta else -1]
    term = p.Term(_matrix_access(f, a, ta, batch), _matrix_access(f, b, tb, batch), memory.extent(inner))
    kernel = _Statements(f, index, group)
    acc = kernel.define(first)
    kernel.keep(first)
    for eqn in rest:
        _EQUATIONS[eqn.prim.kind](kernel, eqn)
    f.steps.extend(kernel.before)
    (phase,) = kernel.kernel.finished()
    f.steps.append(
        p.Gemm(
            f.name(index, group),
            first.out.type.dtype.tag,
            tuple(lead),
            m,
            n,
            (term,),
            acc,
            phase.body,
            tuple(kernel.kernel.accumulators),
            None,
            f.comment(group),
        )
    )


def _matrix_access(f: _Lowering, atom: Atom, transposed: bool, batch: int) -> p.Access:
    location = f.locate(atom)
    assert isinstance(location.base, Var)
    strides = [f.memory.extent(s) for s in location.strides]
    lead, (rows, columns) = strides[:batch], strides[batch:]
    order = (columns, rows) if transposed else (rows, columns)
    return p.Access(f.buffer(location.base), (*lead, *order), f.memory.extent(location.offset))


class _Statements:
    """The statements of one kernel: variables per level and phase, loads, spills, stores."""

    def __init__(self, f: _Lowering, index: int, group: Group) -> None:
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


def _elementwise(k: _Statements, eqn: Eqn) -> None:
    per_row, phase = k.level(eqn.out) == "row", k.phase(eqn)
    expr = k.expression(eqn, [k.operand(a, per_row, phase) for a in eqn.ins])
    if eqn.prim.place is not None:
        _check_index(k, eqn, expr.args[0], per_row, phase)
    elif not per_row:
        k.made_by[eqn.out] = eqn
    k.kernel.add(p.Assign(k.define(eqn, phase), expr.r, expr, k.note(eqn)), per_row, phase)
    k.keep(eqn)


def _check_index(k: _Statements, eqn: Eqn, value: str, per_row: bool, phase: int) -> None:
    assert eqn.prim.place is not None
    bounds = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    tag = eqn.ins[0].type.dtype.tag
    if bounds.ignore is not None:
        args = (value, cexpr.literal(bounds.ignore, tag), cexpr.literal(bounds.low, tag))
        ignored = cexpr.Expr(f"gt_where_{tag}({{0}} == {{1}}, {{2}}, {{0}})", args, tag, tag)
        value = k.kernel.assign("label", tag, ignored, per_row, phase)
    k.kernel.add(p.Check(value, bounds.low, bounds.high, k.number(eqn), k.note(eqn)), per_row, phase)


def _reduce(k: _Statements, eqn: Eqn) -> None:
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
    k: _Statements, eqn: Eqn, op: str, value: str, per_row: bool, phase: int, terms: Sequence[int | Dim]
) -> None:
    """Fold a value into the memory of the result, along the axes that are reduced."""
    (x,), out, memory = eqn.ins, eqn.out, k.f.memory
    kept = [i for i in range(x.type.ndim) if i not in eqn.params["axis"]]
    strides = zip(kept, map(memory.extent, dense_strides(out.type.shape)), strict=True)
    moving = {axis: stride for axis, stride in strides if x.type.shape[axis] != 1}
    buffer, tag = memory.buffer(out), out.type.dtype.tag
    count = extent_bound(shape_size([extent_bound(n) for n in terms]))
    scratch = None
    if op == "sum" and tag == "f32" and count > WIDE:
        scratch = memory.scratch(f"{buffer}_wide", "f64", memory.shape(out.type), "work")
    k.kernel.accumulators.append(p.Accumulator(buffer, op, scratch=scratch))
    access = p.Access(buffer, positions(moving, len(k.kernel.space)))
    k.kernel.add(p.Accumulate(access, op, value, k.note(eqn)), per_row, phase)


def _search(k: _Statements, eqn: Eqn, op: str) -> None:
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


def _view(k: _Statements, eqn: Eqn) -> None:
    """A view of a value per row that stays in its loop is the same variable."""
    (x,) = eqn.ins
    assert isinstance(x, Var)
    k.phase_of[eqn.out] = k.phase_of[x]
    k.per_row[eqn.out] = k.per_row[x]


def _index(k: _Statements, atom: Atom, size: int, axes: Sequence[int], node: int, phase: int) -> str:
    """The variable of an index, counted from the front; per row where it does not move along it.

    It is checked in the first phase, before anything is written, and again where a later phase uses it.
    """
    location, memory = k.f.locate(atom), k.f.memory
    moving = {axis: memory.extent(s) for axis, s in zip(axes, location.strides, strict=True)}
    strides = positions(moving, len(k.kernel.space))
    per_row = strides[-1] == 0 and k.group.kind == "row"
    tag = atom.type.dtype.tag

    at, checked = 0, ""
    for at in sorted({0, 0 if per_row else phase}):
        raw = k.kernel.read(location.base, strides, location.offset, atom.type, per_row, at)
        checked = k.indices.get(("check", raw, size, at), "")
        if not checked:
            same = cexpr.Expr("{0}", (raw,), tag, tag)
            checked = raw if "'" in raw else k.kernel.assign("index", tag, same, per_row, at)
            k.kernel.add(p.Check(checked, -size, size, node), per_row, at)
            k.indices["check", raw, size, at] = checked
    if ("row", checked, size) not in k.indices:
        counted = cexpr.Expr(cexpr.WRAP, (checked, cexpr.literal(size, tag)), tag, tag)
        k.indices["row", checked, size] = k.kernel.assign("row", tag, counted, per_row, at)
    return k.indices["row", checked, size]


def _gather(k: _Statements, eqn: Eqn) -> None:
    x, index = eqn.ins
    assert eqn.prim.place is not None
    place = eqn.prim.place(x.type, index.type, **eqn.params)
    location, memory = k.f.locate(x), k.f.memory
    at = _index(k, index, extent_bound(x.type.shape[place.axis]), place.index_axes, k.number(eqn), 0)
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


def _scatter(k: _Statements, eqn: Eqn) -> None:
    x, index, values = eqn.ins
    assert eqn.prim.place is not None
    place = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    out, memory = eqn.out, k.f.memory
    source, buffer = k.f.locate(x), memory.buffer(out)
    starts_at_zero = isinstance(source.base, Lit) and source.base.value == 0
    if not starts_at_zero:
        k.before.append(_copy_step(k.f, memory.unique(f"k{k.index}_start"), out, source, x.type))
    phase = k.phase(eqn)
    value = k.operand(values, False, phase)
    at = _index(k, index, extent_bound(x.type.shape[place.axis]), place.index_axes, k.number(eqn), phase)
    dense = [memory.extent(s) for s in dense_strides(out.type.shape)]
    moving = {axis: s for axis, s in zip(place.axes, dense, strict=True) if axis is not None}
    k.kernel.accumulators.append(p.Accumulator(buffer, "sum", "identity" if starts_at_zero else "keep"))
    access = p.Access(buffer, positions(moving, len(k.kernel.space)), 0, ((at, dense[place.axis]),))
    k.kernel.add(p.Accumulate(access, "sum", value, k.note(eqn)), False, phase)


_EQUATIONS = {
    "elementwise": _elementwise,
    "effect": _elementwise,
    "reduce": _reduce,
    "view": _view,
    "gather": _gather,
    "scatter": _scatter,
}


# ---- kernels that only move elements ---------------------------------------------------------------------


def _copy_step(
    f: _Lowering, name: str, target: Var, source: Location, type: Type, strides: Any = None, offset: int = 0
) -> p.RowKernel:
    """A kernel that writes the elements at `source` to the target's buffer."""
    kernel = Kernel(f.memory, scalar_space(type.shape))
    over = tuple(f.memory.extent(s) for s in source.strides) or (0,)
    value = kernel.read(source.base, over, source.offset, type, False, 0)
    to = strides if strides is not None else dense_strides(type.shape)
    access = p.Access(f.buffer(target), tuple(f.memory.extent(s) for s in to) or (0,), offset)
    kernel.add(p.Store(access, value), False, 0)
    return p.RowKernel(name, kernel.space, kernel.finished())


def _copy(f: _Lowering, index: int, group: Group) -> None:
    assert group.target is not None and group.source is not None
    type_ = Type(group.space, group.target.type.dtype)
    f.steps.append(_copy_step(f, f.name(index, group), group.target, group.source, type_))


def _assemble(f: _Lowering, index: int, group: Group) -> None:
    (eqn,) = group.eqns
    assert eqn.prim.place is not None
    placement = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    out, name = eqn.out, f.name(index, group)
    dense = dense_strides(out.type.shape)
    if placement.fill is not None:
        fill = Location(lit(placement.fill, Type((), out.type.dtype)), (0,) * out.type.ndim)
        f.steps.append(_copy_step(f, f.memory.unique(f"{name}_fill"), out, fill, out.type))
    for i, (atom, (start, step)) in enumerate(zip(eqn.ins, placement.pieces, strict=True)):
        if 0 in atom.type.shape and 0 not in out.type.shape:
            continue
        strides = tuple(s * k for s, k in zip(dense, step, strict=True))
        offset = sum(s * a for s, a in zip(dense, start, strict=True) if a)
        piece = f.memory.unique(f"{name}_{i}")
        f.steps.append(_copy_step(f, piece, out, f.locate(atom), atom.type, strides, offset))


_GROUPS = {"row": _row, "product": _product, "assemble": _assemble, "copy": _copy}

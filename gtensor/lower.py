"""From kernels to loops: a Schedule becomes the Program that the C is written from.

Comes in: a Schedule and which outputs take over which inputs. Goes out: `codegen.program.Program`. Views
become strides, literals become text, counters become arithmetic; a value gets memory only if another
kernel or the caller reads it. Law: statements stand in the order of the equations, phase by phase.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from .codegen import cexpr
from .codegen import program as p
from .ir import Atom, Var, lit, names
from .kernel import Kernel, Memory
from .ops.layout import add_extents
from .schedule import Group, Location, Schedule, dense_strides
from .statements import EQUATIONS, Statements
from .steps import Steps, copy_step
from .types import Dim, Type

MOST_TRIPS = 2**62
"""Trips of a loop that only its condition ends."""


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
    _run(lowering)
    return lowering.program(loss, header)


class _Lowering(Steps):
    """The program under construction: its buffers and steps."""

    def __init__(
        self, schedule: Schedule, state: Mapping[int, int], alias: Mapping[int, int], loss: int | None
    ) -> None:
        dims = _dims(schedule)
        names_of = _c_names(schedule, alias, loss, {dim.name for dim in dims.values()})
        super().__init__(schedule, Memory(names_of, dims), [])
        self.inputs: list[p.Array] = []
        self.outputs: list[p.Array] = []
        self.state: dict[int, p.Array] = {}
        self._boundary(state, alias)

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

    def program(self, loss: int | None, header: Sequence[str]) -> p.Program:
        """The finished program."""
        return p.Program(
            name=cexpr.identifier(self.graph.name),
            buffers=tuple(self.memory.buffers),
            steps=tuple(self.steps),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            state=tuple(self.state[i] for i in sorted(self.state)),
            dims=tuple(self.memory.dims.values()),
            loss=None if loss is None else self.buffer(self.schedule.outputs[loss]),
            equations=tuple(self.equations),
            header=tuple(header),
        )


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


def _row(f: Steps, index: int, group: Group) -> None:
    kernel = Statements(f, index, group)
    for eqn in group.eqns:
        EQUATIONS[eqn.prim.kind](kernel, eqn)
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


def _product(f: Steps, index: int, group: Group) -> None:
    first, *rest = group.eqns
    a, b = first.ins
    ta, tb = first.params["ta"], first.params["tb"]
    memory = f.memory
    batch = len(group.space) - 2
    *lead, m, n = (memory.extent(x) for x in group.space)
    inner = a.type.shape[-2 if ta else -1]
    term = p.Term(_matrix_access(f, a, ta, batch), _matrix_access(f, b, tb, batch), memory.extent(inner))
    kernel = Statements(f, index, group)
    acc = kernel.define(first)
    kernel.keep(first)
    for eqn in rest:
        EQUATIONS[eqn.prim.kind](kernel, eqn)
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


def _matrix_access(f: Steps, atom: Atom, transposed: bool, batch: int) -> p.Access:
    location = f.locate(atom)
    assert isinstance(location.base, Var)
    strides = [f.memory.extent(s) for s in location.strides]
    lead, (rows, columns) = strides[:batch], strides[batch:]
    order = (columns, rows) if transposed else (rows, columns)
    return p.Access(f.buffer(location.base), (*lead, *order), f.memory.extent(location.offset))


# ---- functions along lines --------------------------------------------------------------------------------


def _along(f: Steps, index: int, group: Group) -> None:
    (eqn,), memory = group.eqns, f.memory
    assert eqn.prim.place is not None
    walk = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    out, name = eqn.out, f.name(index, group)
    places = [*map(f.locate, eqn.ins), Location(out, dense_strides(out.type.shape))]
    types = [*(a.type for a in eqn.ins), out.type]
    lines = []
    for type_, place, axis in zip(types, places, walk.axes, strict=True):
        assert isinstance(place.base, Var)
        strides = [memory.extent(s) for s in place.strides]
        step, length = strides.pop(axis), memory.extent(type_.shape[axis])
        access = p.Access(f.buffer(place.base), tuple(strides), memory.extent(place.offset))
        lines.append(p.Line(access, step, length, place.base is out))
    scratch = tuple(memory.scratch(f"{name}_{dtype}", dtype, (n,), "work") for dtype, n in walk.memory)
    space = tuple(memory.extent(n) for i, n in enumerate(out.type.shape) if i != walk.axes[-1])
    lengths = tuple(lines[i].length for i in walk.lengths)
    f.steps.append(p.LineCall(name, walk.function, space, tuple(lines), lengths, scratch, f.comment(group)))


# ---- routines over whole matrices ------------------------------------------------------------------------


def _routine(f: Steps, index: int, group: Group) -> None:
    (eqn,), memory, name = group.eqns, f.memory, f.name(index, group)
    assert eqn.prim.place is not None
    calling = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    dtype = eqn.out.type.dtype.tag
    work = calling.scratch
    scratch = None if work is None else memory.scratch(f"{name}_work", dtype, (max(work, 1),), "work")
    f.steps.append(
        p.Routine(
            name,
            calling.library,
            calling.function,
            dtype,
            tuple(map(memory.extent, calling.sizes)),
            tuple(f.buffer(var) for var in group.operands),
            (f.buffer(eqn.out),),
            scratch,
            f.numbers[eqn.out] if calling.fails else -1,
            calling.flops,
            f.comment(group),
        )
    )


# ---- kernels that only move elements ---------------------------------------------------------------------


def _copy(f: Steps, index: int, group: Group) -> None:
    assert group.target is not None and group.source is not None
    type_ = Type(group.space, group.target.type.dtype)
    f.steps.append(copy_step(f, f.name(index, group), group.target, group.source, type_))


def _assemble(f: Steps, index: int, group: Group) -> None:
    (eqn,) = group.eqns
    assert eqn.prim.place is not None
    placement = eqn.prim.place(*(a.type for a in eqn.ins), **eqn.params)
    out, name = eqn.out, f.name(index, group)
    dense = dense_strides(out.type.shape)
    if placement.fill is not None:
        fill = Location(lit(placement.fill, Type((), out.type.dtype)), (0,) * out.type.ndim)
        f.steps.append(copy_step(f, f.memory.unique(f"{name}_fill"), out, fill, out.type))
    for i, (atom, (start, step)) in enumerate(zip(eqn.ins, placement.pieces, strict=True)):
        if 0 in atom.type.shape and 0 not in out.type.shape:
            continue
        strides = tuple(s * k for s, k in zip(dense, step, strict=True))
        offset = functools.reduce(add_extents, (s * a for s, a in zip(dense, start, strict=True) if a), 0)
        piece = f.memory.unique(f"{name}_{i}")
        f.steps.append(copy_step(f, piece, out, f.locate(atom), atom.type, strides, offset))


# ---- loops -----------------------------------------------------------------------------------------------


def _loop(f: Steps, index: int, group: Group) -> None:
    """A loop: its carries get their first values, then its body's steps run on a row of each sliced array."""
    (eqn,), (body,) = group.eqns, group.bodies
    carries, slices = eqn.params["carries"], eqn.params["slices"]
    memory, name, schedule = f.memory, f.name(index, group), body.schedule
    inputs, carried = schedule.graph.inputs, _carried(f, eqn.outs[:carries])
    _start(f, name, carried, eqn.ins)
    _take_names(f, schedule)
    _let_lie(f, inputs[:carries], carried)
    _let_lie(f, inputs[carries + slices :], body.operands[slices:])
    made = [schedule.outputs[i] for i in body.results]
    moving = [*zip(inputs[carries : carries + slices], body.operands[:slices], strict=True)]
    moving += zip(made[carries:], eqn.outs[carries:], strict=True)
    sliced = tuple(memory.add(var, "slice", -1, f.buffer(array)) for var, array in moving)
    inner = _inside(f, schedule, f"{name}_k")
    moved = _moved(f, inner, carried, made)
    count, turned = memory.extent(eqn.params["length"]), eqn.params["reverse"]
    f.steps.append(p.Repeat(name, count, tuple(inner.steps), moved, sliced, turned, f.comment(group)))
    _bring_home(f, name, carried, eqn.outs[:carries])


def _while(f: Steps, index: int, group: Group) -> None:
    """A loop that runs until its first part finds the condition false."""
    (eqn,), (test, body) = group.eqns, group.bodies
    name, tests, carried = f.name(index, group), test.schedule, _carried(f, eqn.outs)
    _start(f, name, carried, eqn.ins)
    for part in (test, body):
        inputs = part.schedule.graph.inputs
        _take_names(f, part.schedule)
        _let_lie(f, inputs[: len(carried)], carried)
        _let_lie(f, inputs[len(carried) :], part.operands)
    first, then = _inside(f, tests, f"{name}_test"), _inside(f, body.schedule, f"{name}_k")
    guard = p.Guard(f"{name}_guard", first.buffer(tests.outputs[test.results[0]]))
    moved = _moved(f, then, carried, [body.schedule.outputs[i] for i in body.results])
    steps = (*first.steps, guard, *then.steps)
    f.steps.append(p.Repeat(name, MOST_TRIPS, steps, moved, comment=f.comment(group)))
    _bring_home(f, name, carried, eqn.outs)


def _switch(f: Steps, index: int, group: Group) -> None:
    """Each branch is a loop of one trip, which is left at once where another branch is chosen."""
    (eqn,), name = group.eqns, f.name(index, group)
    last = len(group.bodies) - 1
    carried = _carried(f, eqn.outs)
    for i, out in enumerate(carried):
        nothing = Location(lit(0, Type((), out.type.dtype)), (0,) * out.type.ndim)
        f.steps.append(copy_step(f, f.memory.unique(f"{name}_start{i}"), out, nothing, out.type))
    for number, body in enumerate(group.bodies):
        flag = f.memory.scratch(f"{name}_is_{number}", "b1", (), "work")
        operator = "<=" if number == 0 else ">=" if number == last else "=="
        f.steps.append(_comparison(f, f"{name}_is_{number}", eqn.ins[0], operator, number, flag))
        _take_names(f, body.schedule)
        _let_lie(f, body.schedule.graph.inputs, body.operands)
        inner = _inside(f, body.schedule, f"{name}_{number}_k")
        moved = _moved(f, inner, carried, [body.schedule.outputs[i] for i in body.results])
        own = f.memory.unique(f"{name}_branch{number}")
        steps = (p.Guard(f"{own}_guard", flag), *inner.steps)
        f.steps.append(p.Repeat(own, 1, steps, moved, comment=f.comment(group)))
    _bring_home(f, name, carried, eqn.outs)


def _comparison(f: Steps, name: str, index: Atom, operator: str, number: int, flag: str) -> p.RowKernel:
    """A kernel that tells whether the index is that number."""
    kernel = Kernel(f.memory, (1,))
    location = f.locate(index)
    value = kernel.read(location.base, (0,), location.offset, index.type, False, 0)
    args = (value, cexpr.literal(number, index.type.dtype.tag))
    expr = cexpr.Expr(f"{{0}} {operator} {{1}}", args, index.type.dtype.tag, "b1")
    kernel.add(p.Store(p.Access(flag, (0,)), kernel.assign("chosen", "b1", expr, False, 0)), False, 0)
    return p.RowKernel(f.memory.unique(name), kernel.space, kernel.finished())


def _carried(f: Steps, outs: Sequence[Var]) -> list[Var]:
    """The results, with stand-ins for those that are rows of an array: what is carried has memory of its own."""
    found = []
    for out in outs:
        if f.memory.is_slice(out):
            twin = Var(out.type, out.hint)
            f.memory.names[twin] = f.memory.unique(f"{f.memory.names[out]}_carried")
            out = twin
        found.append(out)
    return found


def _bring_home(f: Steps, name: str, carried: Sequence[Var], outs: Sequence[Var]) -> None:
    """Copy what stand-ins hold."""
    for twin, out in zip(carried, outs, strict=True):
        if twin is not out:
            source = Location(twin, dense_strides(out.type.shape))
            f.steps.append(copy_step(f, f.memory.unique(f"{name}_home"), out, source, out.type))


def _start(f: Steps, name: str, outs: Sequence[Var], ins: Sequence[Atom]) -> None:
    """Give carries their first values."""
    for i, (out, start) in enumerate(zip(outs, ins, strict=False)):
        f.steps.append(copy_step(f, f.memory.unique(f"{name}_start{i}"), out, f.locate(start), start.type))


def _let_lie(f: Steps, inner: Sequence[Var], outer: Sequence[Var]) -> None:
    """Let inputs of a body be the memory of values around it."""
    for var, home in zip(inner, outer, strict=True):
        f.memory.place(var, f.buffer(home))


def _inside(f: Steps, schedule: Schedule, prefix: str) -> Steps:
    """The steps of a body."""
    inner = Steps(schedule, f.memory, f.equations, prefix)
    _run(inner)
    return inner


def _moved(f: Steps, inner: Steps, outs: Sequence[Var], made: Sequence[Var]) -> tuple[tuple[str, str], ...]:
    """What a trip leaves where, and where the next one, or what follows the loop, finds it."""
    return tuple((f.buffer(out), inner.buffer(var)) for out, var in zip(outs, made, strict=False))


def _take_names(f: Steps, schedule: Schedule) -> None:
    """Give names to everything in a body that may get memory."""
    for var, text in _inner_names(schedule).items():
        f.memory.names[var] = f.memory.unique(cexpr.identifier(text))


def _inner_names(schedule: Schedule) -> dict[Var, str]:
    """Names of everything in a body that may get memory."""
    found = names(schedule.graph)
    extra = [*(g.target for g in schedule.groups if g.target is not None), *schedule.outputs]
    return found | {var: var.hint or "copied" for var in extra if var not in found}


_GROUPS = {
    "row": _row,
    "product": _product,
    "assemble": _assemble,
    "copy": _copy,
    "loop": _loop,
    "while": _while,
    "along": _along,
    "switch": _switch,
    "routine": _routine,
}


def _run(f: Steps) -> None:
    """Make the steps of all groups."""
    for index, group in enumerate(f.schedule.groups):
        _GROUPS[group.kind](f, index, group)

"""From kernels to loops: a Schedule becomes the Program that the C is written from.

Comes in: a Schedule and which outputs take over which inputs. Goes out: `codegen.program.Program`. Views
become strides, literals become text, counters become arithmetic; a value gets memory only if another
kernel or the caller reads it. Law: statements stand in the order of the equations, phase by phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .codegen import cexpr
from .codegen import program as p
from .ir import Atom, Var, lit, names
from .kernel import Memory
from .schedule import Group, Location, Schedule, dense_strides
from .statements import EQUATIONS, Statements
from .steps import Steps, copy_step
from .types import Dim, Type


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
        offset = sum(s * a for s, a in zip(dense, start, strict=True) if a)
        piece = f.memory.unique(f"{name}_{i}")
        f.steps.append(copy_step(f, piece, out, f.locate(atom), atom.type, strides, offset))


# ---- loops -----------------------------------------------------------------------------------------------


def _loop(f: Steps, index: int, group: Group) -> None:
    """A loop: its carries get their first values, then its body's steps run on a row of each sliced array."""
    (eqn,), loop = group.eqns, group.loop
    assert loop is not None
    carries, slices = eqn.params["carries"], eqn.params["slices"]
    memory, name, schedule = f.memory, f.name(index, group), loop.body
    inputs, rows = schedule.graph.inputs, loop.operands[:slices]
    for i, (out, start) in enumerate(zip(eqn.outs[:carries], eqn.ins, strict=False)):
        f.steps.append(copy_step(f, memory.unique(f"{name}_start{i}"), out, f.locate(start), start.type))
    for var, text in _inner_names(schedule).items():
        memory.names[var] = memory.unique(cexpr.identifier(text))
    homes = [*(f.buffer(out) for out in eqn.outs[:carries]), *(f.buffer(v) for v in loop.operands[slices:])]
    for var, home in zip((*inputs[:carries], *inputs[carries + slices :]), homes, strict=True):
        memory.place(var, home)
    made = [schedule.outputs[i] for i in loop.results]
    moving = [*zip(inputs[carries : carries + slices], rows, strict=True)]
    moving += zip(made[carries:], eqn.outs[carries:], strict=True)
    sliced = tuple(memory.add(var, "slice", -1, f.buffer(array)) for var, array in moving)
    inner = Steps(schedule, memory, f.equations, f"{name}_k")
    _run(inner)
    moved = tuple((f.buffer(out), inner.buffer(var)) for out, var in zip(eqn.outs, made[:carries], strict=False))
    steps = tuple(inner.steps)
    f.steps.append(p.Repeat(name, eqn.params["length"], steps, moved, sliced, eqn.params["reverse"], f.comment(group)))


def _inner_names(schedule: Schedule) -> dict[Var, str]:
    """Names of everything in a body that may get memory."""
    found = names(schedule.graph)
    extra = [*(g.target for g in schedule.groups if g.target is not None), *schedule.outputs]
    return found | {var: var.hint or "copied" for var in extra if var not in found}


_GROUPS = {"row": _row, "product": _product, "assemble": _assemble, "copy": _copy, "loop": _loop}


def _run(f: Steps) -> None:
    """Make the steps of all groups."""
    for index, group in enumerate(f.schedule.groups):
        _GROUPS[group.kind](f, index, group)

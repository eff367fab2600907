"""scan: a loop over the leading axis, with a carry, as one equation with a body graph.

The operands are the initial carries, the stacked inputs, then what the body captures; the body takes the
carries, one slice of each input and the captures, and gives the new carries and one slice of each stacked
result. Laws: a loop of no steps gives the initial carries; steps run in order, or from the end with
`reverse`; the derivative is another scan the other way round, so derivatives of any order are scans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import interp, tree
from ..builder import Builder, read
from ..errors import DTypeError, ShapeError, TraceError
from ..ir import Atom, Eqn, Graph, Lit, Var
from ..prim import FUNCTIONS, Prim, public, register
from ..pullback import pull_back, traced_steps, zeros
from ..tensor import STATE, Scope, Tensor, apply, as_tensor, bind_all, cast
from ..trace import binding, placeholder, scope, subgraph
from ..types import Type, resolve

Array = np.ndarray[Any, Any]


def _type(*types: Type, body: Graph, length: int, reverse: bool, carries: int, slices: int) -> tuple[Type, ...]:
    wanted = [v.type for v in body.inputs]
    stacked = [Type((length, *t.shape), t.dtype, t.weak) for t in wanted[carries : carries + slices]]
    if list(types) != [*wanted[:carries], *stacked, *wanted[carries + slices :]]:
        raise ShapeError(f"takes {', '.join(map(str, wanted))}, not {', '.join(map(str, types))}")
    outs = [a.type for a in body.outputs]
    return (*outs[:carries], *(Type((length, *t.shape), t.dtype, t.weak) for t in outs[carries:]))


def _run(*arrays: Array, body: Graph, length: int, reverse: bool, carries: int, slices: int) -> tuple[Array, ...]:
    carry, xs, consts = list(arrays[:carries]), arrays[carries : carries + slices], arrays[carries + slices :]
    shapes = [interp.concrete((length, *a.type.shape), {}) for a in body.outputs[carries:]]
    types = [a.type.dtype.dtype for a in body.outputs[carries:]]
    stacked = [np.empty(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
    for step in reversed(range(length)) if reverse else range(length):
        found = interp.run(body, [*carry, *(x[step] for x in xs), *consts])
        carry = found[:carries]
        for stack, value in zip(stacked, found[carries:], strict=True):
            stack[step] = value
    return (*carry, *stacked)


# ---- the derivative ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Joint:
    """The body and its derivative in one graph: what stands for the body's values, for the cotangents, and the results.

    `found` has the cotangent of each input of the body, or None; `at` maps the body's variables to atoms.
    """

    eqns: tuple[Eqn, ...]
    at: dict[Var, Atom]
    seeds: dict[int, Var]
    found: list[Atom | None]


def _joint(body: Graph, given: Sequence[int], wanted: Sequence[bool]) -> _Joint:
    """Differentiate a body: cotangents of the outputs `given`, for the inputs that are `wanted`."""
    with scope(f"{body.name}_joint") as inner:
        inputs = [placeholder(inner, v.type, v.hint) for v in body.inputs]
        at: dict[Var, Atom] = {v: inner.atom(t) for v, t in zip(body.inputs, inputs, strict=True)}
        for eqn in body.eqns:
            ins = [read(at, a) for a in eqn.ins]
            outs = inner.builder.bind_all(eqn.prim, ins, eqn.params, eqn.source, [v.hint for v in eqn.outs])
            at.update(zip(eqn.outs, outs, strict=True))
        outputs = [read(at, body.outputs[i]) for i in given]
        seeds = [placeholder(inner, a.type, "d") for a in outputs]
        variables = [t for t, want in zip(inputs, wanted, strict=True) if want]
        steps = traced_steps(inner)
        tensors = [Tensor(a.type, atom=a, scope=inner) for a in outputs]
        found = iter(pull_back(steps, tensors, seeds, variables, lambda t: t, lambda t: f"a value of {body.name}"))
        cotangents = [next(found) if want else None for want in wanted]
        atoms = [None if t is None else inner.atom(t) for t in cotangents]
        graph = inner.builder.finish([])
    named = {i: t.atom for i, t in zip(given, seeds, strict=True) if isinstance(t.atom, Var)}
    return _Joint(graph.eqns, at, named, atoms)


class _Back:
    """The body of the loop that runs backwards, under construction.

    It computes what depends on cotangents, and again what is cheap or the same in every step; the values of
    the body that it needs beside are `kept`: the forward loop stacks them.
    """

    def __init__(self, body: Graph, joint: _Joint, carries: int, slices: int) -> None:
        self.body = body
        self.builder = Builder(f"{body.name}_back")
        self.makers = {out: eqn for eqn in joint.eqns for out in eqn.outs}
        self.forward: dict[Var, Var] = {}
        for var, atom in joint.at.items():
            if isinstance(atom, Var):
                self.forward.setdefault(atom, var)
        inputs = [joint.at[v] for v in body.inputs]
        self.slices = [a for a in inputs[carries : carries + slices] if isinstance(a, Var)]
        self.consts = [a for a in inputs[carries + slices :] if isinstance(a, Var)]
        self.fixed: set[Var] = set(self.consts)
        self.moving: set[Var] = set(joint.seeds.values())
        for eqn in joint.eqns:
            if any(a in self.moving for a in eqn.ins):
                self.moving.update(eqn.outs)
            elif all(isinstance(a, Lit) or a in self.fixed for a in eqn.ins):
                self.fixed.update(eqn.outs)
        self.env: dict[Var, Atom] = {}
        self.kept: dict[Var, Var] = {}
        self.used: dict[Var, Var] = {}

    def value(self, atom: Atom) -> Atom:
        """An atom of the joint graph in the backward body."""
        stack: list[Atom] = [atom]
        while stack:
            top = stack[-1]
            if isinstance(top, Lit) or top in self.env:
                stack.pop()
            elif top in self.slices or top in self.consts:
                self.env[top] = self.used[top] = Var(top.type, top.hint)
            elif self._is_kept(top):
                self.env[top] = self.kept[self.forward[top]] = Var(top.type, top.hint)
            else:
                eqn = self.makers[top]
                missing = [a for a in eqn.ins if isinstance(a, Var) and a not in self.env]
                if missing:
                    stack.extend(missing)
                    continue
                ins = [read(self.env, a) for a in eqn.ins]
                outs = self.builder.bind_all(eqn.prim, ins, eqn.params, eqn.source, [v.hint for v in eqn.outs])
                self.env.update(zip(eqn.outs, outs, strict=True))
        return read(self.env, atom)

    def _is_kept(self, var: Var) -> bool:
        """Whether a value comes from the forward loop: what the body computes, unless it is the same in every step."""
        if var in self.moving or var not in self.forward or var in self.fixed:
            return False
        return var not in self.makers or self.makers[var].prim.kind not in ("view", "source", "assemble")


def _vjp(
    gs: Sequence[Tensor | None], outs: Sequence[Tensor], ins: Sequence[Tensor], wanted: Sequence[bool], *,
    body: Graph, length: int, reverse: bool, carries: int, slices: int,
) -> list[Tensor | None]:  # fmt: skip
    """The loop the other way round: it carries the cotangents of the carries and the sums of those of captures."""
    turned = [i for i in range(carries) if body.inputs[i].type.dtype.floating]
    given = [*turned, *(i for i in range(carries, len(outs)) if gs[i] is not None)]
    asked = [i in turned if i < carries else want for i, want in enumerate(wanted)]
    joint = _joint(body, given, asked)
    back = _Back(body, joint, carries, slices)
    carried = [(joint.seeds[i], joint.found[i]) for i in turned]
    sums = [i for i in range(carries + slices, len(ins)) if joint.found[i] is not None]
    rows = [i for i in range(carries, carries + slices) if joint.found[i] is not None]
    seeds = {i: Var(joint.seeds[i].type, "d") for i in given}
    back.env.update((joint.seeds[i], seeds[i]) for i in given)
    totals = {i: Var(body.inputs[i].type, f"d_{body.inputs[i].hint}") for i in sums}
    new: list[Atom] = []
    with binding(back.builder) as inner:
        for seed, found in carried:
            new.append(_zero(inner, seed.type) if found is None else back.value(found))
        for i in sums:
            found = joint.found[i]
            assert found is not None
            part = Tensor(found.type, atom=back.value(found), scope=inner)
            new.append(inner.atom(apply("add", Tensor(totals[i].type, atom=totals[i], scope=inner), part)))
        for i in rows:
            found = joint.found[i]
            assert found is not None
            new.append(back.value(found))
    stacks = _stacks(back.kept, outs, ins, body, length, reverse, carries, slices)
    later = [i for i in given if i >= carries]
    used_rows = [(a, ins[carries + i]) for i, a in enumerate(back.slices) if a in back.used]
    used_consts = [(a, ins[carries + slices + i]) for i, a in enumerate(back.consts) if a in back.used]
    back.builder.inputs = [
        *(seeds[i] for i in turned), *totals.values(),
        *(back.used[a] for a, _ in used_rows), *back.kept.values(), *(seeds[i] for i in later),
        *(back.used[a] for a, _ in used_consts),
    ]  # fmt: skip
    graph = back.builder.finish(new)
    starts = [zeros(seeds[i].type) if gs[i] is None else gs[i] for i in turned] + [
        zeros(v.type) for v in totals.values()
    ]
    moved = [*(t for _, t in used_rows), *stacks, *(gs[i] for i in later)]
    operands: list[Tensor] = [*starts, *moved, *(t for _, t in used_consts)]
    params = {"length": length, "reverse": not reverse, "carries": len(starts), "slices": len(moved)}
    results = iter(bind_all(SCAN, operands, {"body": graph, **params}))
    place: dict[int, Tensor] = {i: next(results) for i in (*turned, *sums, *rows)}
    return [place.get(i) for i in range(len(ins))]


def _or_zeros(g: Tensor | None, type_: Type) -> Tensor:
    return zeros(type_) if g is None else g


def _zero(inner: Scope, type_: Type) -> Atom:
    return inner.atom(zeros(type_))


def _stacks(
    kept: dict[Var, Var], outs: Sequence[Tensor], ins: Sequence[Tensor], body: Graph,
    length: int, reverse: bool, carries: int, slices: int,
) -> list[Tensor]:  # fmt: skip
    """The kept values of all steps: results of the loop already, or of the same loop with more results.

    The pass `loops` makes one loop of both.
    """
    there = {a: i for i, a in enumerate(body.outputs) if i >= carries and isinstance(a, Var)}
    more = [v for v in kept if v not in there]
    extra: list[Tensor] = []
    if more:
        longer = Graph(body.name, body.inputs, body.eqns, (*body.outputs, *more))
        params = {"body": longer, "length": length, "reverse": reverse, "carries": carries, "slices": slices}
        extra = bind_all(SCAN, ins, params)[len(outs) :]
    found = dict(zip(more, extra, strict=True))
    return [outs[there[v]] if v in there else found[v] for v in kept]


SCAN = register(
    Prim(
        "scan", "loop", _type, _run, vjp=_vjp,  # type: ignore[arg-type]
        flops=0, doc="A loop over the leading axis with a carry.",
    )
)  # fmt: skip


# ---- the function -----------------------------------------------------------------------------------------


@public
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, *,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Run `carry, y = f(carry, x)` over the leading axis of `xs`; gives (last carry, stacked ys).

    `init`, `xs` and `y` are pytrees; each leaf of `xs` has `length` rows (`length` alone serves where xs is
    None). The carry keeps its structure, shapes and dtypes. `reverse` runs from the last row to the first;
    y stays at its row. Compiled, it is one loop, whatever the length; outside a trace it runs step by step.
    Raises ShapeError, DTypeError or TraceError where the carry changes or the rows differ in number.

    >>> import gtensor as gt
    >>> total, sums = scan(lambda c, x: (c + x, c + x), gt.tensor(0.0), gt.tensor([1.0, 2.0, 3.0]))
    >>> total, sums
    (Tensor(6., dtype=float32), Tensor([1., 3., 6.], dtype=float32))
    """
    leaves, structure = tree.flatten(xs)
    rows = [as_tensor(leaf) for leaf in leaves]
    steps = _length(rows, tree.paths(structure), length)
    carry = tree.map_leaves(_strong, init)
    if STATE.scope is None and steps:
        return _step_by_step(f, carry, rows, structure, steps, reverse)
    return _as_equation(f, carry, rows, structure, steps, reverse)


def _strong(leaf: Any) -> Tensor:
    tensor = as_tensor(leaf)
    return cast(tensor, resolve(tensor.type).dtype)


def _length(rows: Sequence[Tensor], names: Sequence[str], length: int | None) -> int:
    """The number of steps; raises ShapeError where it is not one number."""
    for tensor, name in zip(rows, names, strict=True):
        what = f"scan: {('xs.' + name).rstrip('.')}"
        if not tensor.shape:
            raise ShapeError(f"{what} is a scalar, which has no rows", hint="captured values need not be passed in")
        if length is None:
            length = tensor.shape[0]
        if tensor.shape[0] != length:
            raise ShapeError(f"{what} has {tensor.shape[0]} rows, not {length}")
    if length is None:
        raise ShapeError("scan without xs needs a length", hint="scan(f, init, length=10)")
    if not isinstance(length, int):
        raise ShapeError(
            f"scan: the number of rows, {length}, is known at run time only", hint="scan over a fixed axis"
        )
    if length < 0:
        raise ShapeError(f"scan: length {length} is negative")
    return length


def _called(f: Callable[..., Any], carry: Any, x: Any) -> tuple[Any, Any]:
    """The new carry and y of one step; raises where the carry is not as before."""
    result = f(carry, x)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TraceError(f"scan: the body returned {type(result).__name__}, not a pair (carry, y)")
    before, structure = tree.flatten(carry)
    after, found = tree.flatten(result[0])
    if found != structure:
        raise TraceError(f"scan: the carry has the structure {structure}, the body returned {found}")
    new = []
    for old, leaf, name in zip(before, after, tree.paths(structure), strict=True):
        tensor = as_tensor(leaf)
        if tensor.type.weak and not (tensor.type.dtype.floating and not old.dtype.floating):
            tensor = cast(tensor, old.dtype)
        what = f"scan: the carry{'.' + name if name else ''} is {resolve(old.type)}, "
        what += f"the body returned {resolve(tensor.type)}"
        if tensor.shape != old.shape:
            raise ShapeError(what)
        if tensor.dtype != old.dtype:
            raise DTypeError(what, hint="convert one of them with astype")
        new.append(tensor)
    return tree.unflatten(structure, new), tree.map_leaves(_strong, result[1])


def _step_by_step(
    f: Callable[..., Any], carry: Any, rows: Sequence[Tensor], structure: tree.Structure, steps: int, reverse: bool
) -> tuple[Any, Any]:
    ys: list[Any] = [None] * steps
    for step in reversed(range(steps)) if reverse else range(steps):
        carry, ys[step] = _called(f, carry, tree.unflatten(structure, [x[step] for x in rows]))
    columns = [tree.flatten(y) for y in ys]
    stacked = [FUNCTIONS["stack"](list(column)) for column in zip(*(leaves for leaves, _ in columns), strict=True)]
    return carry, tree.unflatten(columns[0][1], stacked)


def _as_equation(
    f: Callable[..., Any], carry: Any, rows: Sequence[Tensor], structure: tree.Structure, steps: int, reverse: bool
) -> tuple[Any, Any]:
    inits, carried = tree.flatten(carry)
    outer = STATE.scope
    made: list[tree.Structure] = []

    def body(*tensors: Tensor) -> list[Tensor]:
        x = tree.unflatten(structure, tensors[len(inits) :])
        after, y = _called(f, tree.unflatten(carried, tensors[: len(inits)]), x)
        ys, found = tree.flatten(y)
        made.append(found)
        return [*tree.flatten(after)[0], *ys]

    slices = [Type(t.type.shape[1:], resolve(t.type).dtype) for t in rows]
    hints = [*tree.paths(carried), *tree.paths(structure)]
    found = subgraph(
        body, [*(resolve(t.type) for t in inits), *slices], getattr(f, "__name__", "body").strip("<>"), hints
    )
    operands = [*inits, *(cast(t, resolve(t.type).dtype) for t in rows), *found.captured]
    params = {"body": found.graph, "length": steps, "reverse": reverse, "carries": len(inits), "slices": len(rows)}
    if outer is None:  # no steps: what the results would be is known from the body alone
        results = [*inits, *(zeros(Type((0, *a.type.shape), a.type.dtype)) for a in found.graph.outputs[len(inits) :])]
    else:
        results = bind_all(SCAN, operands, params)
    return tree.unflatten(carried, results[: len(inits)]), tree.unflatten(made[0], results[len(inits) :])

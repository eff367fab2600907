"""cond, switch, while_loop, fori_loop: control flow that depends on values, as equations with body graphs.

A branch or a loop whose condition is a number known while tracing is Python's own; on traced values it is one
equation. Laws: of a switch only the chosen branch runs; its derivative is a switch of the branches'
derivatives, which run the branch again; a while loop has a derivative only if its steps have a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import interp, tree
from ..batch import Axes, batch_size, in_front, run, run_batched
from ..errors import DTypeError, GradError, ShapeError, TraceError
from ..grad import vjp
from ..ir import Graph, Var
from ..prim import FUNCTIONS, Prim, public, register
from ..tensor import STATE, Tensor, apply, as_tensor, bind_all, cast
from ..trace import Subgraph, subgraph
from ..types import Type, bool_, int32, resolve
from .scan import scan

Array = np.ndarray[Any, Any]


def _strong(value: Any) -> Tensor:
    tensor = as_tensor(value)
    return cast(tensor, resolve(tensor.type).dtype)


def _leaves(value: Any) -> tuple[list[Tensor], tree.Structure]:
    leaves, structure = tree.flatten(value)
    return [_strong(leaf) for leaf in leaves], structure


# ---- switch -----------------------------------------------------------------------------------------------


def _switch_type(index: Type, *types: Type, branches: tuple[Graph, ...]) -> tuple[Type, ...]:
    if index != Type((), int32):
        raise DTypeError(f"the index of a switch is an i32 scalar, not {index}")
    return tuple(a.type for a in branches[0].outputs)


def _switch_run(index: Array, *arrays: Array, branches: tuple[Graph, ...]) -> tuple[Array, ...]:
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return tuple(interp.run(chosen, arrays))


def _switch_vjp(
    gs: Sequence[Tensor | None], outs: Sequence[Tensor], ins: Sequence[Tensor], wanted: Sequence[bool], *,
    branches: tuple[Graph, ...],
) -> list[Tensor | None]:  # fmt: skip
    """A switch of the derivatives of the branches, each of which runs its branch again."""
    index, operands = ins[0], list(ins[1:])
    given = [(i, g) for i, g in enumerate(gs) if g is not None]
    numbers = [i for i, want in enumerate(wanted[1:]) if want]

    def derivative(branch: Graph) -> Subgraph:
        def pulled(*tensors: Tensor) -> list[Tensor]:
            xs, seeds = tensors[: len(operands)], tensors[len(operands) :]

            def forward(*again: Tensor) -> list[Tensor]:
                found = run(branch, again)
                return [found[i] for i, _ in given]

            return list(vjp(forward, *xs, argnums=numbers)[1](list(seeds)))

        types = [t.type for t in (*operands, *(g for _, g in given))]
        return subgraph(pulled, types, f"{branch.name}_back", [v.hint for v in branch.inputs])

    tensors = [index, *operands, *(g for _, g in given)]
    backs = [derivative(branch) for branch in branches]
    captured = [t for back in backs for t in back.captured]
    found = bind_all(SWITCH, [*tensors, *captured], {"branches": _aligned(backs, len(tensors) - 1)})
    place = dict(zip(numbers, found, strict=True))
    return [None, *(place.get(i) for i in range(len(operands)))]


def _switch_batch(
    args: Sequence[Tensor], axes: Axes, *, branches: tuple[Graph, ...]
) -> tuple[list[Tensor], list[int | None]]:
    """One switch for all examples, or all branches and a choice for each example where the index differs."""
    size = batch_size(args, axes)

    def every(branch: Graph) -> Callable[..., list[Tensor]]:
        def all_examples(*tensors: Tensor) -> list[Tensor]:
            outs, found = run_batched(branch, tensors, axes[1:])
            return [in_front(out, axis, size) for out, axis in zip(outs, found, strict=True)]

        return all_examples

    places: list[int | None] = [0 for _ in branches[0].outputs]
    if axes[0] is None:
        graphs = tuple(subgraph(every(b), [x.type for x in args[1:]], b.name).graph for b in branches)
        return bind_all(SWITCH, args, {"branches": graphs}), places
    outs = [every(b)(*args[1:]) for b in branches]
    chosen = outs[-1]
    for number in reversed(range(len(branches) - 1)):
        here = apply("le", args[0], number)
        chosen = [_choose(here, a, b) for a, b in zip(outs[number], chosen, strict=True)]
    return chosen, places


def _choose(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    column = apply("reshape", mask, shape=(*mask.type.shape, *(1 for _ in a.type.shape[mask.ndim :])))
    return apply("where", apply("broadcast", column, shape=a.type.shape), a, b)


SWITCH = register(
    Prim(
        "switch", "loop", _switch_type, _switch_run, vjp=_switch_vjp, batch=_switch_batch,  # type: ignore[arg-type]
        flops=0, doc="One of several functions, by an index.",
    )
)  # fmt: skip


@public
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, the index being put into the range of the branches.

    Operands and results are pytrees; all branches give the same structure, shapes and dtypes. On a traced
    index one equation holds all branches, of which one runs. Raises TraceError, ShapeError or DTypeError where
    branches differ, DTypeError for an index that is no integer scalar.

    >>> import gtensor as gt
    >>> gt.switch(1, [gt.sin, gt.exp, gt.sqrt], gt.tensor(0.0))
    Tensor(1., dtype=float32)
    """
    if not branches:
        raise ShapeError("switch needs at least one branch")
    number = as_tensor(index)
    if number.shape != () or number.dtype.floating or number.dtype == bool_:
        raise DTypeError(f"switch: the index must be an integer scalar, not {resolve(number.type)}")
    if number.data is not None:
        return branches[min(max(int(number.data), 0), len(branches) - 1)](*operands)
    leaves, structure = _leaves(operands)
    made: list[tree.Structure] = []

    def traced(branch: Callable[..., Any]) -> Subgraph:
        def run(*tensors: Tensor) -> list[Tensor]:
            outs, found = _leaves(branch(*tree.unflatten(structure, tensors)))
            made.append(found)
            return outs

        name = getattr(branch, "__name__", "branch").strip("<>")
        return subgraph(run, [t.type for t in leaves], name, [path[2:] for path in tree.paths(structure)])

    found = [traced(branch) for branch in branches]
    for graph, shape in zip(found[1:], made[1:], strict=True):
        _same_results(found[0].graph, graph.graph, made[0], shape)
    captured = [t for part in found for t in part.captured]
    place = apply("stop_gradient", cast(number, int32))  # it chooses, and is not computed with: an argmax may make it
    tensors = [place, *leaves, *captured]
    results = bind_all(SWITCH, tensors, {"branches": _aligned(found, len(leaves))})
    return tree.unflatten(made[0], results)


def _same_results(one: Graph, other: Graph, structure: tree.Structure, found: tree.Structure) -> None:
    if structure != found:
        raise TraceError(f"switch: branches return {structure} and {found}")
    for name, a, b in zip(tree.paths(structure), one.outputs, other.outputs, strict=True):
        if a.type.shape != b.type.shape or a.type.dtype != b.type.dtype:
            raise ShapeError(f"switch: branches return {a.type} and {b.type}{f' at {name}' if name else ''}")


def _aligned(found: Sequence[Subgraph], count: int) -> tuple[Graph, ...]:
    """The branches with the captures of all as inputs."""
    graphs = []
    for own in found:
        inputs = list(own.graph.inputs[:count])
        for part in found:
            mine = part is own
            inputs += part.graph.inputs[count:] if mine else [Var(t.type) for t in part.captured]
        graphs.append(Graph(own.graph.name, tuple(inputs), own.graph.eqns, own.graph.outputs))
    return tuple(graphs)


@public
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`; only one of them runs.

    `pred` is a scalar; see `switch` for what the functions return.

    >>> import gtensor as gt
    >>> step = gt.compile(lambda x: gt.cond(gt.sum(x) > 0, gt.sqrt, gt.negative, x))
    >>> step(gt.tensor([4.0, 9.0])), step(gt.tensor([-1.0, -2.0]))
    (Tensor([2., 3.], dtype=float32), Tensor([1., 2.], dtype=float32))
    """
    flag = as_tensor(pred)
    if flag.shape != ():
        raise ShapeError(f"cond: the condition must be a scalar, not {resolve(flag.type)}")
    if flag.data is not None:
        return (true_fn if bool(flag.data) else false_fn)(*operands)
    return switch(cast(cast(flag, bool_), int32), [false_fn, true_fn], *operands)


# ---- while ------------------------------------------------------------------------------------------------


def _while_type(*types: Type, cond: Graph, body: Graph, carries: int, tests: int) -> tuple[Type, ...]:
    return types[:carries]


def _while_run(*arrays: Array, cond: Graph, body: Graph, carries: int, tests: int) -> tuple[Array, ...]:
    carry, test, rest = list(arrays[:carries]), arrays[carries : carries + tests], arrays[carries + tests :]
    while interp.run(cond, [*carry, *test])[0]:
        carry = interp.run(body, [*carry, *rest])
    return tuple(carry)


def _while_vjp(*args: Any, **params: Any) -> list[Tensor | None]:
    raise GradError(
        "while_loop has no derivative in reverse: its number of steps is not known",
        hint="give max_steps, or wrap the result in gt.stop_gradient",
    )


def _while_batch(
    args: Sequence[Tensor], axes: Axes, *, cond: Graph, body: Graph, carries: int, tests: int
) -> tuple[list[Tensor], list[int | None]]:
    """One loop for all examples. Where the condition differs between them it runs until the last one has ended.

    An example that has ended keeps its carry.
    """
    size = batch_size(args, axes)
    test_axes, body_axes = axes[carries : carries + tests], axes[carries + tests :]
    carried = _carried(args, axes, body, carries, tests)
    differs = _differ(cond, [args[i] for i in range(carries + tests)], [*carried, *test_axes])[0]
    if differs:
        carried = [0] * carries
    inits = [in_front(x, a, size) if at == 0 else x for x, a, at in zip(args, axes, carried, strict=False)]
    fixed_tests, fixed_body = args[carries : carries + tests], args[carries + tests :]

    def tested(carry: Sequence[Tensor], rest: Sequence[Tensor]) -> Tensor:
        outs, found = run_batched(cond, [*carry, *rest], [*carried, *test_axes])
        return in_front(outs[0], found[0], size) if differs else outs[0]

    def test(*tensors: Tensor) -> list[Tensor]:
        flags = tested(tensors[:carries], tensors[carries:])
        return [apply("any", flags, axis=(0,)) if differs else flags]

    def step(*tensors: Tensor) -> list[Tensor]:
        carry, rest = tensors[:carries], tensors[carries:]
        outs, found = run_batched(body, [*carry, *rest[tests if differs else 0 :]], [*carried, *body_axes])
        after = [in_front(out, a, size) if at == 0 else out for out, a, at in zip(outs, found, carried, strict=True)]
        if not differs:
            return after
        goes_on = tested(carry, rest[:tests])
        return [_choose(goes_on, new, old) for new, old in zip(after, carry, strict=True)]

    more = [*fixed_tests, *fixed_body] if differs else list(fixed_body)
    starts = [x.type for x in inits]
    graphs = {
        "cond": subgraph(test, [*starts, *(x.type for x in fixed_tests)], cond.name).graph,
        "body": subgraph(step, [*starts, *(x.type for x in more)], body.name, [v.hint for v in body.inputs]).graph,
    }
    outs = bind_all(WHILE, [*inits, *fixed_tests, *more], {**graphs, "carries": carries, "tests": tests})
    return outs, list(carried)


def _carried(args: Sequence[Tensor], axes: Axes, body: Graph, carries: int, tests: int) -> list[int | None]:
    """Which carries differ between examples, in some step: 0 for these, None for the others."""
    carried: list[int | None] = [None if a is None else 0 for a in axes[:carries]]
    size = batch_size(args, axes)
    while True:
        inits = [in_front(x, a, size) if at == 0 else x for x, a, at in zip(args, axes, carried, strict=False)]
        found = _differ(body, [*inits, *args[carries + tests :]], [*carried, *axes[carries + tests :]])
        new: list[int | None] = [0 if at == 0 or differs else None for at, differs in zip(carried, found, strict=True)]
        if new == carried:
            return carried
        carried = new


def _differ(graph: Graph, args: Sequence[Tensor], axes: Axes) -> list[bool]:
    """Which results differ between examples."""
    found: list[int | None] = []

    def probe(*tensors: Tensor) -> list[Tensor]:
        outs, places = run_batched(graph, tensors, axes)
        found.extend(places)
        return outs

    subgraph(probe, [x.type for x in args], graph.name)
    return [place is not None for place in found]


WHILE = register(
    Prim(
        "while_loop", "loop", _while_type, _while_run, vjp=_while_vjp, batch=_while_batch,  # type: ignore[arg-type]
        flops=0, doc="A loop that runs while a condition holds.",
    )
)  # fmt: skip


@public
def while_loop(
    cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any, *, max_steps: int | None = None
) -> Any:
    """`while cond_fn(carry): carry = body_fn(carry)` from `init`; the last carry.

    The carry is a pytree that keeps its structure, shapes and dtypes. With `max_steps` the loop is a scan of
    that length whose later steps change nothing, which has derivatives; without, asking for one is a GradError.
    Raises ShapeError, DTypeError or TraceError where the carry changes or the condition is no scalar.

    >>> import gtensor as gt
    >>> gt.while_loop(lambda c: c < 100, lambda c: c * 2, gt.tensor(3))
    Tensor(192, dtype=int64)
    """
    carry = tree.map_leaves(_strong, init)
    if max_steps is not None:
        return _bounded(cond_fn, body_fn, carry, max_steps)
    if STATE.scope is None:
        while bool(_condition(cond_fn(carry))):
            carry = _kept(carry, body_fn(carry))
        return carry
    leaves, structure = tree.flatten(carry)
    types, names = [t.type for t in leaves], tree.paths(structure)
    test = subgraph(lambda *t: [_condition(cond_fn(tree.unflatten(structure, t)))], types, "condition", names)

    def step(*tensors: Tensor) -> list[Tensor]:
        before = tree.unflatten(structure, tensors)
        return tree.flatten(_kept(before, body_fn(before)))[0]

    body = subgraph(step, types, getattr(body_fn, "__name__", "body").strip("<>"), names)
    params = {"cond": test.graph, "body": body.graph, "carries": len(leaves), "tests": len(test.captured)}
    results = bind_all(WHILE, [*leaves, *test.captured, *body.captured], params)
    return tree.unflatten(structure, results)


def _condition(value: Any) -> Tensor:
    flag = as_tensor(value)
    if flag.shape != ():
        raise ShapeError(f"while_loop: the condition must be a scalar, not {resolve(flag.type)}")
    return cast(flag, bool_)


def _kept(before: Any, after: Any) -> Any:
    """The new carry, which is of the old one's form."""
    old, structure = tree.flatten(before)
    new, found = tree.flatten(after)
    if structure != found:
        raise TraceError(f"while_loop: the carry has the structure {structure}, the body returned {found}")
    out = []
    for a, leaf in zip(old, new, strict=True):
        b = as_tensor(leaf)
        b = cast(b, a.dtype) if b.type.weak and b.type.dtype.floating <= a.dtype.floating else b
        if b.shape != a.shape or b.dtype != a.dtype:
            what = f"while_loop: the carry is {resolve(a.type)}, the body returned {resolve(b.type)}"
            raise (ShapeError if b.shape != a.shape else DTypeError)(what)
        out.append(b)
    return tree.unflatten(structure, out)


def _bounded(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], carry: Any, steps: int) -> Any:
    where = FUNCTIONS["where"]

    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        goes_on = _condition(cond_fn(carry))
        after = _kept(carry, body_fn(carry))
        return tree.map_leaves(lambda a, b: where(goes_on, a, b), after, carry), None

    return scan(step, carry, length=steps)[0]


@public
def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """`for i in range(lower, upper): carry = body_fn(i, carry)` from `init`; the last carry.

    With Python numbers for bounds it is a scan, which has derivatives; with traced ones a while_loop.

    >>> import gtensor as gt
    >>> gt.fori_loop(1, 5, lambda i, c: c * i, gt.tensor(1))
    Tensor(24, dtype=int64)
    """
    carry = tree.map_leaves(_strong, init)
    if isinstance(lower, int) and isinstance(upper, int):
        rows = FUNCTIONS["arange"](lower, max(lower, upper))
        return scan(lambda c, i: (_kept(c, body_fn(i, c)), None), carry, rows)[0]
    bounds = [cast(as_tensor(bound), resolve(as_tensor(bound).type).dtype) for bound in (lower, upper)]
    first, last = bounds
    return while_loop(lambda c: c[0] < last, lambda c: (c[0] + 1, body_fn(c[0], c[1])), (first, carry))[1]

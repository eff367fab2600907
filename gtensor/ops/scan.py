"""scan: a loop over the leading axis, with a carry, as one equation with a body graph.

The operands are the initial carries, the stacked inputs, then what the body captures; the body takes the
carries, one slice of each input and the captures, and gives the new carries and one slice of each stacked
result. Laws: a loop of no steps gives the initial carries; steps run in order, or from the end with
`reverse`; the derivative is another scan the other way round, so derivatives of any order are scans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import interp, tree
from ..batch import Axes, batch_size, in_front, run_batched
from ..errors import DTypeError, ShapeError, TraceError
from ..ir import Graph
from ..prim import FUNCTIONS, Prim, public, register
from ..pullback import zeros
from ..tensor import STATE, Tensor, apply, as_tensor, bind_all, cast
from ..trace import subgraph
from ..types import Type, resolve
from .backscan import backward

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
    dims: dict[str, int] = {}
    for place, (var, array) in enumerate(zip(body.inputs, arrays, strict=True)):
        row = array.shape[1:] if 0 <= place - carries < slices else array.shape
        interp.match_dims(var.type, row, dims, var.hint)
    shapes = [interp.concrete((length, *a.type.shape), dims) for a in body.outputs[carries:]]
    types = [a.type.dtype.dtype for a in body.outputs[carries:]]
    stacked = [np.empty(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
    for step in reversed(range(length)) if reverse else range(length):
        found = interp.run(body, [*carry, *(x[step] for x in xs), *consts])
        carry = found[:carries]
        for stack, value in zip(stacked, found[carries:], strict=True):
            stack[step] = value
    return (*carry, *stacked)


def _batch(
    args: Sequence[Tensor], axes: Axes, *, body: Graph, length: int, reverse: bool, carries: int, slices: int
) -> tuple[list[Tensor], list[int | None]]:
    """One loop over all examples: every carry has its examples in front, rows and captures as they come."""
    size = batch_size(args, axes)
    shared = [a is None for a in axes]
    pairs = list(zip(args, axes, strict=True))
    inits = [in_front(x, a, size) for x, a in pairs[:carries]]
    moved = [x if a is None else _to_second(x, a) for x, a in pairs[carries : carries + slices]]
    fixed = [x if a is None else in_front(x, a, size) for x, a in pairs[carries + slices :]]
    places: list[int | None] = [*(0 for _ in inits), *(None if same else 0 for same in shared[carries:])]

    def step(*tensors: Tensor) -> list[Tensor]:
        outs, found = run_batched(body, tensors, places)
        return [in_front(out, axis, size) for out, axis in zip(outs, found, strict=True)]

    types = [x.type for x in inits] + [x.type.with_shape(x.type.shape[1:]) for x in moved] + [x.type for x in fixed]
    graph = subgraph(step, types, body.name, [v.hint for v in body.inputs]).graph
    params = {"body": graph, "length": length, "reverse": reverse, "carries": carries, "slices": slices}
    outs = bind_all(SCAN, [*inits, *moved, *fixed], params)
    return outs, [0 if i < carries else 1 for i in range(len(outs))]


def _to_second(x: Tensor, axis: int) -> Tensor:
    """Rows with their examples along axis 1, behind the axis of the loop."""
    rest = [i for i in range(x.ndim) if i != axis]
    return x if axis == 1 else apply("transpose", x, axes=(rest[0], axis, *rest[1:]))


SCAN = register(
    Prim(
        "scan", "loop", _type, _run, vjp=backward, batch=_batch,  # type: ignore[arg-type]
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
    if isinstance(length, int) and length < 0:
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

"""checkpoint: a function whose inner values are computed again for its derivative, not kept.

A call is one equation with a body; its derivative binds the body anew, on operands behind a `barrier`, so
that nothing of it is merged with the first run. The pass `inline` puts the body in the equation's place.
Law: values and derivatives are those of the function itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import interp, tree
from ..batch import Axes, batch_size, in_front, run, run_batched
from ..grad import vjp
from ..ir import Graph, subgraphs
from ..prim import Prim, Sample, public, register
from ..tensor import STATE, Tensor, apply, as_tensor, bind_all, cast
from ..trace import subgraph
from ..types import Type, resolve
from .records import uniform

Array = np.ndarray[Any, Any]


def _type(*types: Type, body: Graph) -> tuple[Type, ...]:
    return tuple(a.type for a in body.outputs)


def _run(*arrays: Array, body: Graph) -> tuple[Array, ...]:
    return tuple(interp.run(body, arrays))


def _again(
    gs: Sequence[Tensor | None], outs: Sequence[Tensor], ins: Sequence[Tensor], wanted: Sequence[bool], *, body: Graph
) -> list[Tensor | None]:
    """The cotangents, from a second run of the body."""
    given = [i for i, g in enumerate(gs) if g is not None]
    numbers = [i for i, want in enumerate(wanted) if want]

    def again(*tensors: Tensor) -> list[Tensor]:
        outs = run(body, tensors)
        return [outs[i] for i in given]

    kept = [apply("barrier", x) for x in ins]
    _, pullback = vjp(again, *kept, argnums=numbers)
    found = dict(zip(numbers, pullback([gs[i] for i in given]), strict=True))
    return [found.get(i) for i in range(len(ins))]


def _batch(args: Sequence[Tensor], axes: Axes, *, body: Graph) -> tuple[list[Tensor], list[int | None]]:
    size = batch_size(args, axes)

    def every(*tensors: Tensor) -> list[Tensor]:
        outs, found = run_batched(body, tensors, axes)
        return [in_front(out, axis, size) for out, axis in zip(outs, found, strict=True)]

    graph = subgraph(every, [x.type for x in args], body.name, [v.hint for v in body.inputs]).graph
    return bind_all(CHECKPOINT, args, {"body": graph}), [0] * len(body.outputs)


CHECKPOINT = register(
    Prim(
        "checkpoint", "loop", _type, _run, vjp=_again, batch=_batch,  # type: ignore[arg-type]
        flops=0, doc="A function that is run again for its derivative.",
    )
)  # fmt: skip

register(
    Prim(
        "barrier", "view", lambda x: x, lambda x: x, vjp=lambda g, y, x: (g,), mask="move", exact=True, flops=0,
        batch=lambda args, axes: (apply("barrier", args[0]), axes[0]),
        strides=lambda x, strides, offset, out: (strides, offset),
        samples=(Sample((uniform(),)), Sample((uniform(shape=(0, 2)),)), Sample((uniform(shape=()),))),
        doc="The operand itself, for which nothing made of it before is taken.",
    )
)  # fmt: skip


def spared(graph: Graph, trips: int = 1) -> list[str]:
    """A line for each checkpoint: where it is, and the bytes between its arguments and results, in all trips of loops.

    So much would be kept for the derivative without it; of a loop that ends when a condition says so, one trip counts.
    """
    lines = []
    for eqn in graph.eqns:
        times = trips * int(eqn.params.get("length", 1))
        if eqn.prim is CHECKPOINT:
            body: Graph = eqn.params["body"]
            made = [out for inside in body.eqns if inside.prim.kind != "view" for out in inside.outs]
            size = trips * sum(out.type.nbytes for out in made if out not in body.outputs)
            where = "".join(f", {line.base}:{line.line}" for line in eqn.source[:1])
            lines.append(f"{body.name}{where}: {size} bytes")
        lines += [line for _, inside in subgraphs(eqn) for line in spared(inside, times)]
    return lines


@public
def checkpoint(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its inner values computed again when its derivative needs them.

    Costs a second run of `fn` and saves the memory of everything between its arguments and its results;
    around the body of a `scan` only the carries are stacked. Arguments and results are pytrees of tensors.
    Outside a trace it is `fn`.

    >>> import gtensor as gt
    >>> gt.grad(checkpoint(lambda x: gt.sin(gt.exp(x))))(0.0)
    Tensor(0.5403023, dtype=float32)
    """

    @functools.wraps(fn)
    def remembering(*args: Any) -> Any:
        if STATE.scope is None:
            return fn(*args)
        leaves, structure = tree.flatten(args)
        tensors = [as_tensor(leaf) for leaf in leaves]
        tensors = [cast(t, resolve(t.type).dtype) for t in tensors]
        made: list[tree.Structure] = []

        def body(*inner: Tensor) -> list[Tensor]:
            outs, found = tree.flatten(fn(*tree.unflatten(structure, inner)))
            made.append(found)
            return [cast(out, resolve(out.type).dtype) for out in map(as_tensor, outs)]

        name = getattr(fn, "__name__", "body").strip("<>")
        found = subgraph(body, [t.type for t in tensors], name, tree.paths(structure))
        results = bind_all(CHECKPOINT, [*tensors, *found.captured], {"body": found.graph})
        return tree.unflatten(made[0], results)

    return remembering

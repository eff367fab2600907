"""Batch rules over whole graphs: what a body does to one example, done to many at once.

Comes in: a graph, operands, and for each the axis along which examples lie (None where all share it). Goes
out: the same of the results. Law: the results are those of a loop over the examples.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InternalError
from .ir import Atom, Eqn, Graph, Lit
from .tensor import Tensor, apply, bind, bind_all

Axes = Sequence[int | None]


def run_batched(graph: Graph, args: Sequence[Tensor], axes: Axes) -> tuple[list[Tensor], list[int | None]]:
    """Bind a graph's equations by their batch rules, in the trace in force."""
    env: dict[Atom, tuple[Tensor, int | None]] = dict(zip(graph.inputs, zip(args, axes, strict=True), strict=True))

    def read(atom: Atom) -> tuple[Tensor, int | None]:
        return (Tensor(atom.type, atom=atom), None) if isinstance(atom, Lit) else env[atom]

    for eqn in graph.eqns:
        tensors, places = zip(*map(read, eqn.ins), strict=True) if eqn.ins else ((), ())
        env.update(zip(eqn.outs, _bound(eqn, tensors, places), strict=True))
    outs = [read(a) for a in graph.outputs]
    return [tensor for tensor, _ in outs], [axis for _, axis in outs]


def _bound(eqn: Eqn, args: Sequence[Tensor], axes: Axes) -> list[tuple[Tensor, int | None]]:
    loop = eqn.prim.kind == "loop"
    if all(axis is None for axis in axes):
        outs = bind_all(eqn.prim, args, eqn.params) if loop else [bind(eqn.prim, args, eqn.params, eqn.outs[0].hint)]
        return [(out, None) for out in outs]
    if eqn.prim.batch is None:
        raise InternalError(f"{eqn.prim.name} has no batch rule", sources=eqn.source)
    found, places = eqn.prim.batch(args, axes, **eqn.params)
    return list(zip(found, places, strict=True)) if loop else [(found, places)]


def in_front(x: Tensor, axis: int | None, size: int) -> Tensor:
    """The operand with its examples along axis 0: moved there, or repeated where all share it."""
    if axis is None:
        return apply("broadcast", apply("reshape", x, shape=(1, *x.type.shape)), shape=(size, *x.type.shape))
    if axis == 0:
        return x
    return apply("transpose", x, axes=(axis, *(i for i in range(x.ndim) if i != axis)))

"""The pass `cut`: walls that have done their work go.

`stop_gradient` keeps a derivative out; in a graph that is only run it is its operand.
"""

from __future__ import annotations

from ..builder import rebuild
from ..ir import Graph
from .rules import with_bodies


@with_bodies
def cut(graph: Graph) -> Graph:
    """Replace equations of kind `effect` by their operand.

    Precondition: every derivative that is wanted has been taken. Before that, merging x with
    stop_gradient(x) would let gradients through.

    before::

        t0: f32[3] = stop_gradient(x)
        t1: f32[3] = mul(x, t0)

    after::

        t0: f32[3] = mul(x, x)
    """
    if all(eqn.prim.kind != "effect" for eqn in graph.eqns):
        return graph
    return rebuild(graph, lambda builder, eqn, ins: ins if eqn.prim.kind == "effect" else None)

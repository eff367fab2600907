"""The pass `dce`: equations that no output needs go, and `live`, which finds the others."""

from __future__ import annotations

from ..ir import Eqn, Graph, Var
from .rules import with_bodies


def live(graph: Graph) -> list[Eqn]:
    """The equations that an output depends on, in order."""
    needed = {atom for atom in graph.outputs if isinstance(atom, Var)}
    found: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        if not needed.isdisjoint(eqn.outs):
            found.append(eqn)
            needed.update(atom for atom in eqn.ins if isinstance(atom, Var))
    return found[::-1]


@with_bodies
def dce(graph: Graph) -> Graph:
    """Drop dead equations. Inputs stay, used or not: they are the graph's signature.

    An index check, or a take or gather with its own check, is an equation like others: one whose result
    nothing needs goes, and with it its IndexError. So an error is raised for what is computed only.

    before::

        t0: f32[3] = exp(x)
        t1: f32[3] = sin(x)
        return t1

    after::

        t0: f32[3] = sin(x)
        return t0
    """
    kept = live(graph)
    if len(kept) == len(graph.eqns):
        return graph
    return Graph(graph.name, graph.inputs, tuple(kept), graph.outputs, graph.output_names)

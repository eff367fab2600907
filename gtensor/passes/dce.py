"""The pass `dce`: equations that no output needs go."""

from __future__ import annotations

from ..ir import Graph
from .rules import drop_dead, with_bodies


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
    return drop_dead(graph)

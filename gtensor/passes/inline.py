"""The pass `inline`: bodies that stand for themselves, of checkpoints and of custom rules, take their place."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder, rebuild
from ..builder import inline as bind_body
from ..ir import Atom, Eqn, Graph
from .rules import with_bodies

CALLS = {"checkpoint", "custom"}
"""Equations that are calls of their body, and differ from it in their derivatives only."""


@with_bodies
def inline(graph: Graph) -> Graph:
    """Bind the equations of functions with checkpoints or rules of their own where they are called.

    Precondition: every derivative that is wanted has been taken; what was run again for one stands behind
    barriers, which keep it apart.

    before::

        t0: f32[3] = checkpoint(x)
            body: t1 = exp(x); t2 = sin(t1); return t2

    after::

        t0: f32[3] = exp(x)
        t1: f32[3] = sin(t0)
    """
    if all(eqn.prim.name not in CALLS for eqn in graph.eqns):
        return graph

    def rewrite(builder: Builder, eqn: Eqn, ins: list[Atom]) -> Sequence[Atom] | None:
        return bind_body(builder, eqn.params["body"], ins) if eqn.prim.name in CALLS else None

    return rebuild(graph, rewrite)

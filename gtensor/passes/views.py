"""The pass `views`: one form for every view, and views moved to where they cost nothing.

A chain of views becomes at most one of each sort with the broadcast last; a view that an elementwise
operation, a reduction or a product can do without is taken out of its way (`sink`). What stays is what
fuse and lower turn into strides.
"""

from __future__ import annotations

from ..ir import Graph
from .compose import COMPOSE
from .rules import apply_rules, with_bodies
from .sink import SINK

RULES = {name: (*COMPOSE.get(name, ()), *SINK.get(name, ())) for name in (*COMPOSE, *SINK)}


@with_bodies
def views(graph: Graph) -> Graph:
    """Bring views into normal form: compose them, spell literals out, move them past what does not see them.

    Precondition: walls are cut, since a stop_gradient between two views would keep them apart.

    before::

        t0: f32[4,3] = transpose(w, axes=(1, 0))
        t1: f32[2,3] = matmul(x, t0, ta=False, tb=False)
        t2: f32[2,3] = broadcast(2.0:f32, shape=(2, 3))
        t3: f32[2,3] = mul(t1, t2)

    after::

        t0: f32[2,3] = matmul(x, w, ta=False, tb=True)
        t1: f32[2,3] = mul(t0, 2.0:f32)
    """
    return apply_rules(graph, RULES)

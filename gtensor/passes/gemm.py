"""The pass `gemm`: a product that is only wanted transposed is computed transposed."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder, rebuild
from ..ir import Atom, Eqn, Graph, Var, use_counts
from .axes import swaps_last_two
from .rules import drop_dead, with_bodies


@with_bodies
def gemm(graph: Graph) -> Graph:
    """Turn a product around when its only use is one transpose of its matrices: (A B)' is B' A'.

    Each element is the same chain of the same terms, since a*b is b*a. Transposed operands have become
    `ta` and `tb` before (views). Precondition: equal equations are merged, as every builder does, so that
    two uses by the same transpose are one.

    before::

        t0: f32[3,4] = matmul(x, w, ta=False, tb=False)
        t1: f32[4,3] = transpose(t0, axes=(1, 0))

    after::

        t0: f32[4,3] = matmul(w, x, ta=True, tb=True)
    """
    products = {eqn.outs[0] for eqn in graph.eqns if eqn.prim.name == "matmul"}
    swaps: list[tuple[Var, Var]] = []
    for eqn in graph.eqns:
        x = eqn.ins[0] if eqn.prim.name == "transpose" and swaps_last_two(eqn.params["axes"]) else None
        if isinstance(x, Var) and x in products:
            swaps.append((eqn.out, x))
    if not swaps:
        return graph
    uses = use_counts(drop_dead(graph))
    turned = {out for out, product in swaps if out in uses and uses[product] == 1}
    if not turned:
        return graph

    def rewrite(builder: Builder, eqn: Eqn, ins: list[Atom]) -> Sequence[Atom] | None:
        product = builder.define(ins[0]) if eqn.outs[0] in turned and isinstance(ins[0], Var) else None
        if product is None:
            return None
        (a, b), ta, tb = product.ins, product.params["ta"], product.params["tb"]
        source = dict.fromkeys(builder.source_of(product.out) + eqn.source)
        return [builder.bind(product.prim, (b, a), {"ta": not tb, "tb": not ta}, tuple(source), eqn.out.hint)]

    return drop_dead(rebuild(graph, rewrite))

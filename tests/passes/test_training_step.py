"""What a training step looks like after all passes: nothing in it that a reader would strike out."""

from __future__ import annotations

from collections import Counter

import pytest

import gtensor as gt
from benchmarks.gtensor_models import step_of
from gtensor.ir import Graph, Lit, use_counts
from gtensor.passes import simplify


@pytest.fixture(scope="module", params=["W1", "W2", "W8", "W9"])
def step(request):
    """A workload's step, before and after the passes."""
    fn, args = step_of(request.param)
    graph = gt.trace(fn, *args)
    return graph, simplify(graph, check=1)


def count(graph: Graph) -> Counter[str]:
    return Counter(eqn.prim.name for eqn in graph.eqns)


def test_nothing_is_dead_and_no_wall_stands(step):
    _, after = step
    uses = use_counts(after)
    assert all(uses.get(out) for eqn in after.eqns for out in eqn.outs)
    assert "stop_gradient" not in count(after)


def test_literals_stand_where_they_are_used(step):
    _, after = step
    assert not [eqn for eqn in after.eqns if eqn.prim.kind == "view" and isinstance(eqn.ins[0], Lit)]


def test_products_take_their_operands_as_they_are_stored(step):
    before, after = step
    assert "transpose" not in count(after)
    assert count(after)["matmul"] == count(before)["matmul"]
    views = {eqn.out for eqn in after.eqns if eqn.prim.kind == "view"}
    assert not [eqn for eqn in after.eqns if eqn.prim.name == "matmul" and not views.isdisjoint(eqn.ins)]


def test_every_reshape_makes_a_column_that_is_repeated_along_its_rows(step):
    _, after = step
    repeated = {eqn.ins[0] for eqn in after.eqns if eqn.prim.name == "broadcast"}
    for eqn in after.eqns:
        if eqn.prim.name == "reshape":
            assert eqn.out.type.shape == (*eqn.ins[0].type.shape, 1) and eqn.out in repeated


def test_there_is_one_form_of_each_thing(step):
    before, after = step
    assert count(after).keys().isdisjoint({"square", "reciprocal"})
    assert len({(e.prim.name, frozenset(e.ins), str(sorted(e.params.items()))) for e in after.eqns}) == len(after.eqns)
    assert len(after.eqns) < len(before.eqns)


def test_layers_over_a_stack_of_rows_are_one_chain_of_products():
    """A transformer's feed-forward block on [batch, time, width]: all of it runs on [batch * time, width]."""

    def loss(p, x, y):
        h = gt.gelu(gt.nn.layer_norm(x @ p["w1"] + p["b1"], p["g"], p["h"]))
        return gt.nn.mse_loss(x + h @ p["w2"] + p["b2"], y)

    shapes = {"w1": (8, 16), "b1": (16,), "g": (16,), "h": (16,), "w2": (16, 8), "b2": (8,)}
    params = {name: gt.spec(shape) for name, shape in shapes.items()}
    x = gt.spec((2, 5, 8))
    after = simplify(gt.trace(gt.value_and_grad(loss), params, x, x), check=2)
    three = [eqn for eqn in after.eqns if eqn.out.type.ndim > 2 or any(a.type.ndim > 2 for a in eqn.ins)]
    assert [(eqn.prim.name, eqn.ins[0].hint) for eqn in three] == [("reshape", "x"), ("reshape", "y")]

"""The laws of passes on random graphs: each pass, and all of them in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

import gtensor as gt
from gtensor.ir import Lit, text
from gtensor.passes import PASSES, simplify
from gtensor.passes.verify import difference
from tests.random_graphs import recipes

from .graphs import graphs
from .laws import check_laws, same_values

MANY = settings(max_examples=2 * settings.default.max_examples)


@MANY
@given(graph=graphs(), seed=st.integers(0, 3))
def test_each_pass_by_itself_keeps_its_laws(graph, seed):
    for each in PASSES:
        note(f"{each.name} of\n{text(graph)}")
        check_laws(each.run, graph, seed)


@MANY
@given(graph=graphs(), seed=st.integers(0, 3))
def test_each_pass_after_the_others_keeps_its_laws(graph, seed):
    for each in PASSES:
        note(f"{each.name} of\n{text(graph)}")
        graph = check_laws(each.run, graph, seed)


@given(recipe=recipes("exact") | recipes("float") | recipes("float", batch=True))
def test_laws_on_functions(recipe):
    graph = gt.trace(recipe, *recipe.specs())
    for each in PASSES:
        note(f"{each.name} of\n{text(graph)}")
        graph = check_laws(each.run, graph)


@settings(max_examples=max(1, settings.default.max_examples // 2))
@given(recipe=recipes("smooth"))
def test_laws_on_gradients(recipe):
    def loss(*xs):
        outs = map(gt.asarray, recipe(*xs))
        return sum((gt.sum(gt.sin(out)) for out in outs if out.dtype.floating), gt.sum(xs[0]))

    floats = tuple(i for i, a in enumerate(recipe.arrays) if a.dtype.kind == "f")
    graph = gt.trace(gt.grad(loss, floats), *recipe.specs())
    for each in PASSES:
        note(f"{each.name} of\n{text(graph)}")
        graph = check_laws(each.run, graph)


@MANY
@given(graph=graphs())
def test_what_is_left_after_all_passes(graph):
    """No walls, no dead equations, and no literal spread for arithmetic."""
    result = simplify(graph)
    used = {id(a) for eqn in result.eqns for a in eqn.ins} | {id(a) for a in result.outputs}
    spread = {eqn.out for eqn in result.eqns if eqn.prim.name == "broadcast" and isinstance(eqn.ins[0], Lit)}
    for eqn in result.eqns:
        assert eqn.prim.kind != "effect"
        assert any(id(out) in used for out in eqn.outs)
        assert eqn.prim.kind != "elementwise" or spread.isdisjoint(eqn.ins)


@given(graph=graphs(), left_out=st.sets(st.sampled_from([p.name for p in PASSES])))
def test_every_choice_of_passes_keeps_the_values(graph, left_out):
    result = simplify(graph, skip=left_out, check=1)
    same_values(graph, result, 0)


def test_a_wrong_value_is_seen():
    assert difference(np.array([0.0, 1.0]), np.array([-0.0, 1.0])) == "element [0] was 0.0 and became -0.0"
    assert difference(np.array([np.nan, 1.0]), np.array([np.nan, 2.0])) == "element [1] was 1.0 and became 2.0"
    assert difference(np.array([np.nan]), np.array([-np.nan])) == ""
    assert difference(np.array([np.inf]), np.array([np.nan]), 1e-6) == "element [0] was inf and became nan"
    assert difference(np.array([1.0, 1e3]), np.array([1.0 + 1e-9, 1e3]), 1e-6) == ""
    assert difference(np.zeros(2), np.zeros(3)) == "float64[2] became float64[3]"

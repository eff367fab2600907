"""The laws of passes on random graphs: each pass, and all of them in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

from gtensor.check import check_graph
from gtensor.errors import IndexingError
from gtensor.interp import run
from gtensor.ir import Graph, text
from gtensor.passes import PASSES, Pass, simplify
from gtensor.passes.verify import changed_value, difference, exact_outputs

from .graphs import awkward, graphs

MANY = settings(max_examples=2 * settings.default.max_examples)


def same_values(before: Graph, after: Graph, seed: int) -> None:
    """Equal bits on awkward inputs where all is exact; close values on ordinary ones elsewhere."""
    assert changed_value(before, after, seed) == ""
    inputs = awkward(before, seed)
    try:
        expected = run(before, inputs)
    except IndexingError:
        return
    for exact, old, new in zip(exact_outputs(before), expected, run(after, inputs), strict=True):
        assert not exact or difference(old, new) == ""


def check_laws(each: Pass, graph: Graph, seed: int) -> Graph:
    """The graph after a pass, which has kept its contract."""
    shown, eqns = text(graph), graph.eqns
    result = each.run(graph)
    assert text(graph) == shown and all(a is b for a, b in zip(graph.eqns, eqns, strict=True)), "the graph was changed"
    assert [(v.type, v.hint) for v in result.inputs] == [(v.type, v.hint) for v in graph.inputs]
    assert [a.type for a in result.outputs] == [a.type for a in graph.outputs]
    check_graph(result, each.name)
    assert each.run(result) is result, "twice is not once"
    assert result is graph or text(result) != shown, "unchanged is not the same object"
    same_values(graph, result, seed)
    return result


@MANY
@given(graph=graphs(), seed=st.integers(0, 3))
def test_each_pass_by_itself_keeps_its_laws(graph, seed):
    for each in PASSES:
        note(f"{each.name} of\n{text(graph)}")
        check_laws(each, graph, seed)


@MANY
@given(graph=graphs(), seed=st.integers(0, 3))
def test_each_pass_after_the_others_keeps_its_laws(graph, seed):
    for each in PASSES:
        note(f"{each.name} of\n{text(graph)}")
        graph = check_laws(each, graph, seed)


@MANY
@given(graph=graphs())
def test_after_all_passes_there_are_no_walls_no_dead_equations_and_no_literals_spread_for_arithmetic(graph):
    result = simplify(graph)
    spread = {e.out for e in result.eqns if e.prim.name == "broadcast" and e.ins[0] not in {*result.inputs, *_outs(result)}}
    used = {id(a) for e in result.eqns for a in e.ins} | {id(a) for a in result.outputs}
    for eqn in result.eqns:
        assert eqn.prim.kind != "effect"
        assert any(id(out) in used for out in eqn.outs)
        assert eqn.prim.kind != "elementwise" or spread.isdisjoint(eqn.ins)


def _outs(graph: Graph) -> list:
    return [out for eqn in graph.eqns for out in eqn.outs]


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

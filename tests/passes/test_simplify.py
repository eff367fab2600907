"""The order of passes, its hooks and its checks; walls, dead equations, and graphs inside equations."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

import gtensor as gt
from gtensor import passes
from gtensor.builder import Builder
from gtensor.errors import InternalError, OptionError
from gtensor.interp import run as evaluate
from gtensor.ir import Graph, Lit, lit, subgraphs, text
from gtensor.passes import PASSES, simplify
from gtensor.passes.cut import cut
from gtensor.passes.dce import dce
from gtensor.passes.verify import changed_value, exact_outputs, in_float64
from gtensor.prim import REGISTRY, Prim
from gtensor.types import Type

from .laws import check_laws, left, op

F3 = gt.spec((3,))


def test_every_pass_has_its_own_name_and_a_reason():
    assert [p.name for p in PASSES] == ["loops", "inline", "cut", "split", "hoist", "views", "gemm", "algebra", "dce"]
    assert all(p.run.__name__ == p.name and p.why and p.run.__doc__ for p in PASSES)


# ---- cut and dce -----------------------------------------------------------------------------------------


def test_walls_go():
    assert left(cut, lambda x: x * gt.stop_gradient(x), "f32[3]") == ["t0: f32[3] = mul(x, x)", "return t0"]


def test_walls_have_cut_the_gradient_before_they_go():
    gradient = gt.grad(lambda x: gt.sum(x * gt.stop_gradient(x)))
    assert left(simplify, gradient, "f32[3]") == ["return x"]


def test_walls_around_integers_and_outputs_go_too():
    assert left(cut, lambda i: gt.stop_gradient(gt.stop_gradient(i)), "i64[3]") == ["return i"]


def test_a_graph_without_walls_is_the_same_object():
    graph = gt.trace(lambda x: x * x, F3)
    assert cut(graph) is graph


def test_dead_equations_go_and_inputs_stay():
    def fn(x, y):
        gt.exp(gt.sin(x))
        return gt.cos(y)

    graph = gt.trace(fn, F3, F3)
    assert len(graph.eqns) == 3
    result = check_laws(dce, graph)
    assert result.inputs == graph.inputs and result.eqns == graph.eqns[2:] and dce(result) is result


def test_an_index_check_that_nothing_needs_goes_with_its_error():
    def fn(x, i):
        op("check_index", i, low=0, high=3)
        gt.take(x, i)
        return x

    graph = gt.trace(fn, F3, gt.spec((2,), "int64"))
    out_of_range = [np.zeros(3, np.float32), np.array([0, 7])]
    with pytest.raises(IndexError):
        evaluate(graph, out_of_range)
    assert evaluate(dce(graph), out_of_range)[0].tolist() == [0, 0, 0]


# ---- simplify --------------------------------------------------------------------------------------------


def model(x, y):
    return gt.stop_gradient(x) + -y / 4


def test_the_log_sees_every_pass():
    seen = []
    graph = gt.trace(model, F3, F3)
    result = simplify(graph, log=lambda *entry: seen.append(entry))
    assert [name for name, *_ in seen] == [p.name for p in PASSES]
    befores, afters = [entry[1] for entry in seen], [entry[2] for entry in seen]
    assert befores == [graph, *afters[:-1]] and afters[-1] is result
    assert all(seconds >= 0 for *_, seconds in seen)


def test_passes_can_be_left_out():
    graph = gt.trace(model, F3, F3)
    assert simplify(graph, skip=[p.name for p in PASSES]) is graph
    kinds = [{eqn.prim.kind for eqn in simplify(graph, skip=skip).eqns} for skip in (("cut",), ())]
    assert "effect" in kinds[0] and "effect" not in kinds[1]


def test_an_unknown_pass_to_skip_is_refused():
    with pytest.raises(
        OptionError,
        match=r"(?s)there is no pass 'fold' to skip.*loops, inline, cut, split, hoist, views, gemm, algebra, dce",
    ):
        simplify(gt.trace(model, F3, F3), skip=("views", "fold"))


def replaced(monkeypatch, name, run):
    """PASSES with another function under that name."""
    changed = [dataclasses.replace(p, run=run) if p.name == name else p for p in PASSES]
    monkeypatch.setattr(passes, "PASSES", tuple(changed))


def flip_a_sign(graph):
    eqn = graph.eqns[-1]
    builder = Builder(graph.name)
    env = {v: builder.input(v.type, v.hint) for v in graph.inputs}
    for e in graph.eqns:
        prim = REGISTRY["sub"] if e is eqn else e.prim
        env[e.out] = builder.bind(prim, [a if isinstance(a, Lit) else env[a] for a in e.ins], e.params, e.source)
    return builder.finish([env[eqn.out]], graph.output_names)


def test_the_first_pass_that_changes_a_value_is_named(monkeypatch):
    replaced(monkeypatch, "gemm", flip_a_sign)
    graph = gt.trace(model, F3, F3)
    assert simplify(graph, check=1) is not graph
    with pytest.raises(InternalError, match=r"the pass gemm changed a value of model: output out: element \[0\] was"):
        simplify(graph, check=2)


def test_a_changed_value_behind_a_rounding_operation_is_seen_too(monkeypatch):
    replaced(monkeypatch, "algebra", flip_a_sign)
    with pytest.raises(InternalError, match="the pass algebra changed a value"):
        simplify(gt.trace(lambda x, y: gt.exp(x) + y, F3, F3), check=2)


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch):
    def drop_first(graph):
        return Graph(graph.name, graph.inputs, graph.eqns[1:], graph.outputs, graph.output_names)

    replaced(monkeypatch, "views", drop_first)
    with pytest.raises(InternalError, match=r"after the pass views: .* is no variable of this graph"):
        simplify(gt.trace(model, F3, F3), check=1)


def test_a_pass_after_which_nothing_can_be_evaluated_is_named(monkeypatch):
    def out_of_range(graph):
        builder = Builder(graph.name)
        x = builder.input(graph.inputs[0].type, "x")
        index = lit(7, Type((), gt.int64))
        return builder.finish([builder.bind(REGISTRY["take"], (x, index), {"axis": 0})])

    replaced(monkeypatch, "dce", out_of_range)
    with pytest.raises(InternalError, match=r"dce changed a value of .*: it can no longer be evaluated: "):
        simplify(gt.trace(lambda x: x[1], F3), check=2)


def test_a_graph_that_refuses_its_inputs_cannot_be_compared():
    for dtype in ("int64", "float32"):
        graph = gt.trace(lambda x: op("check_index", gt.astype(x, "int64"), low=5, high=9), gt.spec((3,), dtype))
        assert changed_value(graph, graph) == ""


def test_integer_inputs_become_0_where_1_is_out_of_range():
    graph = gt.trace(lambda x, i: gt.take(x, i, axis=0), gt.spec((1, 4)), gt.spec((40,), "int64"))
    wrong = gt.trace(lambda x, i: -gt.take(x, i, axis=0), gt.spec((1, 4)), gt.spec((40,), "int64"))
    assert changed_value(graph, graph) == "" and "element" in changed_value(graph, wrong)


def test_outputs_of_exact_operations_are_compared_by_bits():
    def fn(x, w):
        total = gt.sum(x, axis=1)
        return x * 2, x @ w, gt.argmax(x, axis=1), total > 0

    graph = gt.trace(fn, gt.spec((2, 3)), gt.spec((3, 2)))
    assert exact_outputs(graph) == [True, False, True, False]


def test_float64_reaches_literals_parameters_and_results():
    graph = gt.trace(lambda x: gt.astype(x * 0.1, "float32") + gt.astype(gt.arange(3), "float32"), F3)
    assert "f32" in text(graph, sources=False) and "float32" in text(graph, sources=False)
    assert "f32" not in text(in_float64(graph), sources=False)
    assert "float32" not in text(in_float64(graph), sources=False)
    assert evaluate(in_float64(graph), [np.ones(3)])[0].dtype == np.float64


# ---- graphs inside equations -----------------------------------------------------------------------------


@pytest.fixture
def call(monkeypatch):
    """A primitive that runs a body graph, bound by `call(body, *operands)`."""
    prim = Prim(
        "call", "contract", lambda *types, body, more: tuple(a.type for a in body.outputs),
        lambda *arrays, body, more: tuple(evaluate(body, arrays)),
    )  # fmt: skip
    monkeypatch.setitem(REGISTRY, "call", prim)

    def graph_of(body: Graph, more: tuple[Graph, ...] = ()) -> Graph:
        builder = Builder("outer")
        ins = [builder.input(v.type, v.hint) for v in body.inputs]
        outs = builder.bind_all(prim, ins, {"body": body, "more": more})
        return builder.finish(outs)

    return graph_of


def test_passes_reach_bodies_at_any_depth(call):
    body = gt.trace(model, F3, F3)
    graph = call(call(body))
    result = simplify(graph, check=2)
    ((_, middle),) = subgraphs(result.eqns[0])
    ((_, inner),) = subgraphs(middle.eqns[0])
    assert text(inner, sources=False) == text(simplify(body), sources=False) != text(body, sources=False)
    for each in PASSES:
        check_laws(each.run, graph)


def test_passes_reach_tuples_of_bodies_and_leave_what_is_simple(call):
    body, simple = gt.trace(model, F3, F3), gt.trace(lambda x, y: x * y, F3, F3)
    result = simplify(call(simple, (simple, body)), check=2)
    assert result.eqns[0].params["body"] is simple and result.eqns[0].params["more"][0] is simple
    assert text(result.eqns[0].params["more"][1], sources=False) == text(simplify(body), sources=False)
    graph = call(simple, (simple,))
    assert simplify(graph) is graph


# ---- size ------------------------------------------------------------------------------------------------


def long_graph(length):
    """Rows normalised again and again, in changing shapes: every rule that looks at views has work."""
    builder = Builder("long")
    x, y = (builder.input(Type((4, 6), gt.float32), name) for name in "xy")

    def bind(name, *ins, **params):
        return builder.bind(REGISTRY[name], ins, params)

    while len(builder.eqns) < length:
        row = bind("reshape", bind("sum", bind("tanh", x), axis=(1,)), shape=(4, 1))
        x = bind("sub", x, bind("broadcast", row, shape=(4, 6)))
        x = bind("reshape", bind("tanh", bind("reshape", x, shape=(6, 4))), shape=(4, 6))
        x = bind("add", bind("transpose", bind("neg", bind("transpose", x, axes=(1, 0))), axes=(1, 0)), y)
    return builder.finish([x])


def test_a_long_graph_takes_time_in_proportion_and_no_stack():
    """Measured in processor time; the factor leaves room for a busy machine, a square law would be 8 times more."""
    seconds = {}
    for length in (2500, 20000):
        graph = long_graph(length)
        started = time.process_time()
        result = simplify(graph)
        seconds[length] = time.process_time() - started
        assert len(result.eqns) < 0.8 * len(graph.eqns)
    assert seconds[20000] < 8 * 3 * seconds[2500]


def test_long_chains_of_views_take_no_stack():
    builder = Builder("views")
    x = builder.input(Type((4, 6), gt.float32), "x")
    bind = builder.bind
    for _ in range(4000):
        x = bind(REGISTRY["transpose"], (bind(REGISTRY["reshape"], (x,), {"shape": (2, 12)}),), {"axes": (1, 0)})
        x = bind(REGISTRY["flip"], (bind(REGISTRY["reshape"], (x,), {"shape": (4, 6)}),), {"axes": (0,)})
    graph = builder.finish([bind(REGISTRY["tanh"], (x,), {})])
    assert len(simplify(graph).eqns) == len(graph.eqns)

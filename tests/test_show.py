"""Graphs for reading: texts, differences that do not follow the numbering, and drawings."""

from __future__ import annotations

import re

import pytest

import gtensor as gt
from gtensor import show
from gtensor.builder import rebuild
from gtensor.ir import Eqn, Graph, Var, text
from gtensor.prim import REGISTRY, Prim
from gtensor.types import Type, float32

X = gt.spec((2, 3))


def trace(f):
    graph = gt.trace(f, X)
    return Graph("f", graph.inputs, graph.eqns, graph.outputs, graph.output_names)


def changed(before, after):
    """The lines of a diff that were taken away or added, without the heads."""
    return [line for line in show.diff(before, after).splitlines()[3:] if line[0] in "+-"]


def test_text_is_that_of_the_graph():
    graph = trace(lambda x: gt.tanh(x))
    assert show.text(graph) == text(graph) == str(graph)


def test_equal_graphs_do_not_differ():
    graph = trace(lambda x: gt.softmax(x) * 2)
    assert show.diff(graph, graph) == ""
    assert show.diff(graph, trace(lambda x: gt.softmax(x) * 2)) == ""


def layered(x):
    return gt.exp(gt.tanh(gt.sin(x))) * gt.cos(x) + gt.log(x)


def without_tanh(builder, eqn, ins):
    return ins if eqn.prim.name == "tanh" else None


def test_an_equation_taken_away_changes_one_line_and_its_readers():
    before = trace(layered)
    assert changed(before, rebuild(before, without_tanh)) == [
        "-  t1: f32[2,3] = tanh(t0)",
        "-  t2: f32[2,3] = exp(t1)",
        "+  t2: f32[2,3] = exp(t0)",
    ]


def test_an_equation_put_in_gets_a_name_of_its_own():
    def double(builder, eqn, ins):
        if eqn.prim.name != "sin":
            return None
        out = builder.bind(eqn.prim, ins, eqn.params, eqn.source)
        return [builder.bind(REGISTRY["neg"], [out], {}, eqn.source)]

    before = trace(layered)
    assert changed(before, rebuild(before, double)) == [
        "-  t1: f32[2,3] = tanh(t0)",
        "+  t7: f32[2,3] = neg(t0)",
        "+  t1: f32[2,3] = tanh(t7)",
    ]


def test_another_parameter_or_literal_is_seen():
    assert changed(trace(lambda x: gt.sum(x, axis=0)), trace(lambda x: gt.sum(x, axis=1))) == [
        "-  t0: f32[3] = sum(x, axis=(0))",
        "-  return t0",
        "+  t1: f32[2] = sum(x, axis=(1))",
        "+  return t1",
    ]
    assert changed(trace(lambda x: x + 1), trace(lambda x: x + 2)) == [
        "-  t0: f32[2,3] = add(x, 1.0:f32)",
        "-  return t0",
        "+  t1: f32[2,3] = add(x, 2.0:f32)",
        "+  return t1",
    ]


def test_inputs_that_come_or_go_are_seen():
    def one(x):
        return x * 2

    def two(x, y):
        return x * 2

    assert changed(gt.trace(two, X, X), gt.trace(one, X)) == [
        "-graph two(x: f32[2,3], y: f32[2,3]):",
        "+graph one(x: f32[2,3]):",
    ]


def test_names_of_people_are_kept():
    def f(x):
        hidden = gt.tanh(x)
        total = gt.sum(hidden)
        return total

    def g(x):
        hidden = gt.tanh(x)
        scaled = hidden * 2
        total = gt.sum(scaled)
        return total

    assert changed(trace(f), trace(g)) == [
        "-  total: f32[] = sum(hidden, axis=(0, 1))",
        "+  scaled: f32[2,3] = mul(hidden, 2.0:f32)",
        "+  total: f32[] = sum(scaled, axis=(0, 1))",
    ]


@pytest.fixture
def with_body():
    """An operation whose parameter holds a body graph, registered for one test."""
    prim = Prim("apply_body", "elementwise", lambda x, body: x, lambda x, body: x)
    REGISTRY[prim.name] = prim

    def make(body):
        x, y = Var(Type((2, 3), float32), "x"), Var(Type((2, 3), float32), "y")
        return Graph("f", (x,), (Eqn(prim, (x,), {"body": body}, (y,)),), (y,))

    yield make
    del REGISTRY[prim.name]


def test_bodies_are_compared_too(with_body):
    before = trace(layered)
    after = rebuild(before, without_tanh)
    assert show.diff(with_body(before), with_body(before)) == ""
    assert [line.replace(" ", "") for line in changed(with_body(before), with_body(after))] == [
        "-t1:f32[2,3]=tanh(t0)",
        "-t2:f32[2,3]=exp(t1)",
        "+t2:f32[2,3]=exp(t0)",
    ]


def test_a_drawing_has_a_node_for_everything_and_an_edge_for_every_operand(with_body):
    graph = trace(lambda x: (gt.sum(x * x, axis=1), x + 1, 2.0))
    drawn = show.dot(graph)
    nodes = re.findall(r'^\s*("[^"]*") \[', drawn, re.MULTILINE)
    edges = re.findall(r'^\s*("[^"]*") -> ("[^"]*") \[', drawn, re.MULTILINE)
    assert len(nodes) == len(set(nodes)) == 1 + 3 + 3 + 1
    operands = sum(isinstance(a, Var) for eqn in graph.eqns for a in eqn.ins)
    assert len(edges) == operands + len(graph.outputs)
    assert {name for edge in edges for name in edge} <= set(nodes)
    assert 'label="add\\n1.0:f32"' in drawn
    assert 'label="sum\\naxis=(1)"' in drawn
    inner = show.dot(with_body(trace(lambda x: gt.exp(x))))
    assert 'subgraph "cluster e0.body." {' in inner
    assert '"e0.body.in.x" -> "e0.body.e0"' in inner


def test_a_drawing_quotes_what_needs_it():
    graph = Graph('a "b" \\', (Var(Type((), float32), 'x"y'),), (), ())
    assert show.dot(graph).splitlines()[0] == 'digraph "a \\"b\\" \\\\" {'
    assert '"in.x\\"y"' in show.dot(graph)


def test_long_graphs_are_compared_in_time_that_grows_with_them(monkeypatch):
    def chain(count, left_out=()):
        def f(x):
            for n in range(count):
                y = gt.tanh(x) * (n % 3 + 2.0)
                x = y if n in left_out else gt.sin(y)
            return x

        return gt.trace(f, gt.spec((4,)))

    before, after = chain(60), chain(60, (3, 30, 31, 59))
    best = changed(before, after)
    monkeypatch.setattr(show, "LONG", 10)
    assert 0 < len(changed(before, after)) <= len(best) + 4
    assert show.diff(before, before) == ""
    monkeypatch.undo()
    compared = []

    class Key:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return hash(self.value)

        def __eq__(self, other):
            compared.append(1)
            return self.value == other.value

    keys = [[Key(n % 7) for n in range(size) if n % 100] for size in (4000, 8000)]
    counts = []
    for left in keys:
        compared.clear()
        blocks = show._long_blocks(left, [*left[:1000], Key("new"), *left[1010:]])
        assert sum(block.size for block in blocks) > len(left) - 100
        counts.append(len(compared))
    assert counts[1] < 3 * counts[0]

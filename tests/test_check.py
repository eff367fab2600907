"""check_graph: lawful graphs pass, and each broken law is refused with the equation and its neighbours."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import InternalError, Source
from gtensor.ir import Eqn, Graph, Lit, Var, lit
from gtensor.prim import REGISTRY, Prim
from gtensor.types import Dim, Type, bool_, float32, float64

F2, F3 = Type((2,), float32), Type((3,), float32)
LINE = Source("model.py", 7)


def eqn(name, ins, out, **params):
    return Eqn(REGISTRY[name], tuple(ins), params, (out,), (LINE,))


X, A, B, C = Var(F2, "x"), Var(F2, "a"), Var(F2, "b"), Var(F2, "c")
TANH, EXP, ADD = eqn("tanh", [X], A), eqn("exp", [A], B), eqn("add", [A, B], C)


def graph(*eqns, inputs=(X,), outputs=(C,), names=()):
    return Graph("f", tuple(inputs), tuple(eqns), tuple(outputs), tuple(names))


def refused(g, *texts):
    with pytest.raises(InternalError) as caught:
        check_graph(g)
    for text in texts:
        assert text in str(caught.value)


def test_lawful_graphs_pass():
    check_graph(graph(TANH, EXP, ADD))
    check_graph(graph(outputs=(X, X, lit(1.0, Type((), float32)))))
    check_graph(graph(inputs=(), outputs=()))

    def loss(w, x, y):
        return gt.nn.cross_entropy(gt.nn.layer_norm(gt.gelu(x @ w)), y)

    spec = gt.spec(("B", 4), max={"B": 8})
    check_graph(gt.trace(gt.value_and_grad(loss), gt.spec((4, 5)), spec, gt.spec(("B",), "int64", max={"B": 8})))


def test_the_message_shows_the_equation_its_line_and_its_neighbours():
    bad = eqn("exp", [C], B)
    with pytest.raises(InternalError) as caught:
        check_graph(graph(TANH, bad, eqn("add", [A, B], C)), where="after dce")
    assert str(caught.value).splitlines() == [
        "after dce: equation 1 of f: c is used before it is defined",
        "    a: f32[2] = tanh(x)",
        "  > b: f32[2] = exp(c)",
        "    c: f32[2] = add(a, b)",
        "  at model.py:7",
        "  hint: this is a fault of gtensor: please report it",
    ]


def test_only_neighbours_are_shown():
    steps = [Var(F2, f"v{i}") for i in range(9)]
    chain = [eqn("exp", [a], b) for a, b in zip([X, *steps], steps, strict=False)]
    chain[4] = eqn("exp", [steps[8]], steps[4])
    with pytest.raises(InternalError) as caught:
        check_graph(graph(*chain, outputs=(steps[8],)))
    shown = [line.split(":")[0].strip(" >") for line in str(caught.value).splitlines()[1:-2]]
    assert shown == ["v2", "v3", "v4", "v5", "v6"]


def test_a_variable_is_assigned_once():
    refused(graph(TANH, eqn("exp", [X], A), outputs=(A,)), "equation 1 of f: a is assigned twice", "> a")
    refused(graph(eqn("exp", [X], X), outputs=(X,)), "x is assigned twice")
    refused(graph(inputs=(X, X), outputs=()), "graph f: x is assigned twice")


def test_a_variable_is_of_this_graph():
    refused(
        graph(eqn("exp", [Var(F2, "stray")], A), outputs=(A,)), "?stray is no variable of this graph", "exp(?stray)"
    )
    refused(graph(TANH, outputs=(A, C)), "graph f: output 1: ?c is no variable of this graph")


def test_operands_and_outputs_are_variables_or_literals():
    refused(graph(eqn("exp", [gt.tensor([1.0, 2.0])], A), outputs=(A,)), "operand 0 is Tensor, no variable")
    refused(graph(outputs=(None,)), "output 0: it is NoneType, no variable and no literal")


def test_types_are_those_of_the_rule():
    wrong = Var(F3, "wrong")
    refused(graph(eqn("exp", [X], wrong), outputs=()), "results are f32[3], by the rule f32[2]", "> wrong: f32[3]")
    double = Var(Type((2,), float64), "double")
    refused(graph(eqn("exp", [X], double), outputs=()), "results are f64[2], by the rule f32[2]")
    weak = Var(Type((2,), float32, weak=True), "weak")
    refused(graph(eqn("exp", [X], weak), outputs=()), "results are f32[2] (weak), by the rule f32[2]")
    refused(graph(Eqn(REGISTRY["exp"], (X,), {}, (), ()), outputs=()), "results are none, by the rule f32[2]")


def test_operations_take_their_operands():
    other = Var(F3, "other")
    refused(graph(eqn("add", [X, other], A), inputs=(X, other), outputs=()), "add does not take these operands: shapes")
    refused(graph(eqn("sum", [X], A), outputs=()), "sum does not take these operands", "axis")


def test_operations_are_registered():
    forged = dataclasses.replace(REGISTRY["exp"], doc="another")
    refused(graph(Eqn(forged, (X,), {}, (A,), ()), outputs=(A,)), "exp is not the registered operation of that name")
    unknown = Prim("frobnicate", "elementwise", lambda x: x, lambda x: x)
    refused(graph(Eqn(unknown, (X,), {}, (A,), ()), outputs=(A,)), "frobnicate is not the registered operation")


def test_parameters_are_hashable_and_sources_are_lines():
    out = Var(Type((), float32))
    refused(graph(eqn("sum", [X], out, axis=[0]), outputs=(out,)), "parameter axis is list, which is not hashable")
    refused(graph(Eqn(REGISTRY["exp"], (X,), {}, (A,), ("model.py",)), outputs=(A,)), "is no tuple of lines")


def test_literals_are_scalars_of_their_dtype():
    long = Lit(np.float32(1), F2)
    refused(graph(eqn("add", [X, long], A), outputs=(A,)), "operand 1 is a literal of shape (2,)")
    mixed = Lit(np.float64(1), Type((), float32))
    refused(graph(eqn("add", [X, mixed], A), outputs=(A,)), "literal of type f32[] with a value of float64")


def test_types_are_sound():
    refused(graph(inputs=(Var(Type((-1,), float32), "x"),), outputs=()), "x has the extent -1")
    refused(graph(inputs=(Var(Type((2.0,), float32), "x"),), outputs=()), "x has the extent 2.0")
    refused(graph(inputs=(Var(float32, "x"),), outputs=()), "x has the type gtensor.float32")
    refused(graph(inputs=(Var(Type((2,), np.dtype("f4")), "x"),), outputs=()), "x has the type")
    small, large = (Var(Type((Dim("B", n),), float32), f"x{n}") for n in (4, 8))
    refused(graph(inputs=(small, large), outputs=()), "x8: the run-time extent B has two bounds")


def test_output_names_match_the_outputs():
    check_graph(graph(TANH, EXP, ADD, names=("c",)))
    refused(graph(TANH, EXP, ADD, names=("c", "d")), "1 outputs have 2 names")


@pytest.fixture
def with_bodies():
    """An operation whose parameters hold body graphs, registered for one test."""
    prim = Prim("apply_body", "elementwise", lambda x, body, others=(): x, lambda x, **_: x)
    REGISTRY[prim.name] = prim
    yield lambda body, **params: graph(Eqn(prim, (X,), {"body": body, **params}, (A,), (LINE,)), outputs=(A,))
    del REGISTRY[prim.name]


def test_bodies_obey_the_same_laws(with_bodies):
    good = graph(eqn("exp", [X], A), outputs=(A,))
    check_graph(with_bodies(good, others=(good, good)))
    bad = graph(eqn("exp", [B], A), outputs=(A,))
    refused(with_bodies(bad), "body of apply_body in f: equation 0 of f: ?b is no variable of this graph", "> a")
    refused(with_bodies(good, others=(good, bad)), "others.1 of apply_body in f: equation 0")
    inner = with_bodies(bad)
    refused(with_bodies(inner), "body of apply_body in f: body of apply_body in f: equation 0 of f")


def test_a_body_does_not_see_the_variables_around_it(with_bodies):
    body = graph(eqn("exp", [A], B), outputs=(B,))
    refused(with_bodies(body), "body of apply_body in f: equation 0 of f: ?a is no variable of this graph")


def test_booleans_are_types_of_their_own():
    flag = Var(Type((2,), bool_), "flag")
    check_graph(graph(eqn("gt", [X, lit(0.0, Type((), float32))], flag), outputs=(flag,)))

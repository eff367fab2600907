"""cond, switch, while_loop, fori_loop: values and derivatives in every way of running, and what is refused.

Eagerly the branch or loop is Python's own, so `ways.agreed` holds the equation, evaluated and compiled, against it.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.batch import in_front, run_batched
from gtensor.errors import DTypeError, GradError, IndexingError, ShapeError, TraceError
from tests.ways import agreed, evaluated

RANDOM = np.random.default_rng(0)
W, X = RANDOM.standard_normal((3, 3)), np.array([1.0, 2.0, -2.5])
SIDES = [X, -X]


def forked(w, x):
    return gt.sum(gt.cond(gt.sum(x) > 0, lambda v: gt.tanh(v @ w), lambda v: gt.sin(v) * 2, x) ** 2)


@pytest.mark.parametrize("x", SIDES, ids=["true", "false"])
def test_cond_and_its_derivatives(x):
    def size(w, x):
        return sum(gt.sum(gt.sin(g)) for g in gt.grad(forked, (0, 1))(w, x))

    agreed(forked, W, x, rtol=1e-12)
    agreed(gt.grad(forked, (0, 1)), W, x, rtol=1e-10, atol=1e-12)
    agreed(gt.grad(size, (0, 1)), W, x, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 7])
def test_switch_takes_the_nearest_branch(index):
    branches = [lambda p: {"y": p["x"] + 1}, lambda p: {"y": p["x"] * p["x"]}, lambda p: {"y": gt.zeros(3, "float64")}]
    found = agreed(lambda i, x: gt.switch(i, branches, {"x": x}), np.int64(index), X)
    expected = [X + 1, X * X, np.zeros(3)][min(max(index, 0), 2)]
    np.testing.assert_allclose(found["y"], expected)


def test_only_the_chosen_branch_runs():
    table = np.arange(3.0)

    def pick(flag, i):
        return gt.cond(flag, lambda: gt.take(table, i), lambda: gt.sum(table) * 0)

    for way in (evaluated, lambda fn, *args: gt.compile(fn)(*args).numpy()):
        assert way(pick, np.bool_(False), np.int64(9)) == 0
        assert way(pick, np.bool_(True), np.int64(2)) == 2
        with pytest.raises(IndexingError):
            way(pick, np.bool_(True), np.int64(9))


def test_a_number_known_while_tracing_is_no_equation():
    graph = gt.trace(lambda x: gt.cond(True, gt.sin, gt.cos, x) + gt.switch(1, [gt.exp, gt.tanh], x), gt.spec((2,)))
    assert [eqn.prim.name for eqn in graph.eqns] == ["sin", "tanh", "add"]


def test_branches_in_loops_and_loops_in_branches():
    def loss(w, x, xs):
        def step(c, row):
            return gt.cond(gt.sum(c) > 0, lambda: gt.tanh(c @ w), lambda: c * row), c

        last, _ = gt.scan(step, x, xs)
        return gt.cond(last[0] > 5, lambda: gt.sum(last), lambda: gt.sum(gt.scan(step, last, xs)[1]))

    xs = RANDOM.standard_normal((4, 3))
    agreed(loss, W, X, xs, rtol=1e-12)
    agreed(gt.grad(loss, (0, 1, 2)), W, X, xs, rtol=1e-10, atol=1e-12)


def test_while_runs_as_long_as_it_must():
    def run(x):
        return gt.while_loop(
            lambda c: gt.sum(c["v"]) < 100, lambda c: {"v": c["v"] * 2, "n": c["n"] + 1}, {"v": x, "n": 0}
        )

    assert agreed(run, X)["n"] == 8
    assert agreed(run, X * 1000)["n"] == 0


def test_while_reads_captured_values():
    limit = np.array(50.0)
    agreed(
        lambda w, x: gt.while_loop(lambda c: gt.sum(c * c) < limit, lambda c: c + gt.abs(x @ w), x), W, X, rtol=1e-12
    )


def test_a_bounded_while_has_derivatives():
    def loss(x):
        return gt.sum(gt.while_loop(lambda c: gt.sum(c) < 100, lambda c: c * c + 1, x, max_steps=6))

    assert agreed(gt.grad(loss), X).shape == (3,)
    with pytest.raises(GradError, match="number of steps"):
        gt.trace(gt.grad(lambda x: gt.sum(gt.while_loop(lambda c: gt.sum(c) < 9, lambda c: c * 2, x))), X)


def test_fori_loop():
    agreed(lambda x: gt.fori_loop(2, 6, lambda i, c: c * i + x, x), X)
    agreed(lambda x: gt.fori_loop(6, 2, lambda i, c: c * i, x), X)
    agreed(lambda x, n: gt.fori_loop(0, n, lambda i, c: c + x * i, x), X, np.int64(3))
    agreed(gt.grad(lambda x: gt.sum(gt.fori_loop(0, 3, lambda i, c: gt.sin(c) * i, x))), X, rtol=1e-12)


@pytest.mark.parametrize("axes", [(None, 0), (0, None), (0, 1)])
def test_the_batch_rule_of_switch(axes):
    branches = [gt.sin, lambda x: x * 2, gt.zeros_like]
    graph = gt.trace(lambda i, x: gt.switch(i, branches, x), np.int32(0), X)
    index = np.int32(1) if axes[0] is None else np.array([0, 1, 2, -1], np.int32)
    x = X if axes[1] is None else np.moveaxis(RANDOM.standard_normal((4, 3)), 0, axes[1])

    def batched(*args):
        outs, places = run_batched(graph, [gt.asarray(a) for a in args], axes)
        return [in_front(out, place, 4) for out, place in zip(outs, places, strict=True)]

    (found,) = evaluated(batched, index, x)
    for n in range(4):
        i = int(index if axes[0] is None else index[n])
        row = x if axes[1] is None else np.take(x, n, axes[1])
        np.testing.assert_allclose(found[n], branches[min(max(i, 0), 2)](gt.tensor(row)).numpy())


@pytest.mark.parametrize(
    ("fn", "error", "words"),
    [
        (lambda x: gt.cond(x > 0, gt.sin, gt.cos, x), ShapeError, "must be a scalar"),
        (lambda x: gt.cond(x[0] > 0, lambda: x, lambda: x[:1]), ShapeError, "branches return"),
        (lambda x: gt.cond(x[0] > 0, lambda: x, lambda: (x, x)), TraceError, "branches return"),
        (lambda x: gt.switch(x[0], [gt.sin], x), DTypeError, "integer scalar"),
        (lambda x: gt.switch(gt.argmax(x), [], x), ShapeError, "at least one branch"),
        (lambda x: gt.while_loop(lambda c: c > 0, lambda c: c, x), ShapeError, "condition must be a scalar"),
        (lambda x: gt.while_loop(lambda c: c[0] > 0, lambda c: c[:1], x), ShapeError, "the body returned"),
        (lambda x: gt.while_loop(lambda c: c[0] > 0, lambda c: (c, c), x), TraceError, "structure"),
    ],
)
def test_errors_say_what_does_not_fit(fn, error, words):
    with pytest.raises(error, match=words):
        gt.trace(fn, gt.spec((3,)))

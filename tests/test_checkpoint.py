"""checkpoint: the same values and derivatives with less memory, by a second run of what lies inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gtensor as gt
from gtensor.passes import simplify
from tests.ways import agreed

RANDOM = np.random.default_rng(0)
W, X = RANDOM.standard_normal((3, 3)), RANDOM.standard_normal((5, 2, 3))


def block(w, x):
    return gt.tanh(gt.sin(gt.exp(gt.tanh(x @ w))))


def deep(wrapped):
    def loss(w, x):
        for _ in range(3):
            x = wrapped(w, x)
        return gt.sum(x * x)

    return loss


def recurrent(wrapped):
    def loss(w, x):
        return gt.sum(gt.scan(lambda h, x: (wrapped(w, h) + x,) * 2, x[0], x)[1] ** 2)

    return loss


def test_values_and_derivatives_are_those_of_the_function():
    for model in (deep, recurrent):
        found = agreed(gt.value_and_grad(model(gt.checkpoint(block)), (0, 1)), W, X, rtol=1e-10)
        plain = agreed(gt.value_and_grad(model(block), (0, 1)), W, X, rtol=1e-10)
        for a, b in zip(gt.tree.flatten(found)[0], gt.tree.flatten(plain)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_second_derivatives():
    def size(w, x):
        return gt.sum(gt.sin(gt.grad(deep(gt.checkpoint(block)))(w, x)))

    agreed(gt.grad(size, (0, 1)), W, X[0], rtol=1e-8)


def count(graph, name):
    bodies = (body for eqn in graph.eqns for _, body in gt.ir.subgraphs(eqn))
    return sum(eqn.prim.name == name for eqn in graph.eqns) + sum(count(body, name) for body in bodies)


def test_the_inside_runs_twice_and_a_barrier_costs_nothing():
    graphs = [simplify(gt.trace(gt.grad(deep(f)), W, X[0])) for f in (block, gt.checkpoint(block))]
    assert [count(graph, "exp") for graph in graphs] == [3, 6]
    step = gt.compile(gt.grad(deep(gt.checkpoint(block))))
    source = step.trace(W, X[0]).lower().compile().c_source
    assert "barrier" not in source.split("static const char")[0]


def test_a_loop_stacks_only_its_carries():
    def stacked(wrapped):
        graph = simplify(gt.trace(gt.grad(recurrent(wrapped)), W, X))
        forward = next(eqn for eqn in graph.eqns if eqn.prim.name == "scan")
        return len(forward.outs)

    assert stacked(gt.checkpoint(block)) < stacked(block)


def test_pytrees_captures_and_integers():
    scale = np.float64(2.0)

    @gt.checkpoint
    def inner(p, i):
        return {"y": p["w"][i] * scale, "n": i + 1}

    def loss(p, i):
        out = inner(p, i)
        return gt.sum(gt.sin(out["y"])) + out["n"].astype("float64") * 0

    agreed(gt.grad(loss), {"w": W}, np.int64(1), rtol=1e-10)
    assert inner.__name__ == "inner"


def test_the_memory_report_says_what_is_not_kept():
    """Of tanh(sin(exp(tanh(x @ w)))) four arrays f64[2,3] lie inside, in a loop as often as it turns."""
    inside = 4 * 2 * 3 * 8
    for model, x, trips, line in ((deep, X[0], 1, "x = wrapped(w, x)"), (recurrent, X, 5, "(wrapped(w, h) + x,)")):
        at = 1 + next(n for n, text in enumerate(Path(__file__).read_text("utf-8").splitlines()) if line in text)
        step = gt.compile(gt.grad(model(gt.checkpoint(block))))
        step(W, x)
        lines = [line for line in step.memory.splitlines() if line.startswith("computed again, not kept: ")]
        assert [line.split(": ")[1:] for line in lines] == [
            [f"block, test_checkpoint.py:{at}", f"{trips * inside} bytes"]
        ] * (3 if model is deep else 1)
    plain = gt.compile(gt.grad(deep(block)))
    plain(W, X[0])
    assert "computed again" not in plain.memory

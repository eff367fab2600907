"""explain_grad: paths are those that grad sums, cuts are where it stops, lines are the user's."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import GradError


def energy(p, x, y):
    mu = gt.tanh(x @ p["w1"])
    act = gt.stop_gradient(mu)
    for _ in range(3):
        act = act - 0.1 * (act - gt.stop_gradient(mu))
    out = gt.stop_gradient(act) @ p["w2"]
    unused = gt.sum(gt.floor(p["w3"]))
    return gt.sum((act - mu) ** 2) + gt.sum((y - out) ** 2) + 0 * unused


PARAMS = {"w1": gt.spec((2, 3)), "w2": gt.spec((3, 1)), "w3": gt.spec((2,)), "w4": gt.spec((2,))}
ARGS = gt.spec((4, 2)), gt.spec((4, 1))


def test_local_learning_is_explained_line_by_line():
    found = gt.explain_grad(energy, PARAMS, *ARGS)
    assert [flow.paths for flow in found.flows] == [1, 1, 0, 0]
    first = found["p.w1"]
    assert [step.operations for step in first.steps] == [("matmul", "tanh"), ("sub", "square", "sum", "add")]
    assert first.steps[0].source.text.strip().startswith("mu = gt.tanh")
    assert [step.operations for step in first.cuts] == [("stop_gradient",)]
    assert found["p.w3"].cuts[0].operations == ("floor",) and not found["p.w4"].cuts
    with pytest.raises(KeyError):
        found["w1"]


def test_the_text_says_it_all():
    text = str(gt.explain_grad(energy, PARAMS, *ARGS))
    assert "p.w1: 1 path to the loss\n    test_explain.py:" in text
    assert "p.w3: no path to the loss, its gradient is zero\n    cut at test_explain.py:" in text
    assert text.splitlines()[-1] == "p.w4: no path to the loss, its gradient is zero"


def test_paths_are_counted_where_they_fan_out():
    def loss(w):
        s = w * w
        return gt.sum(s * s + gt.stop_gradient(s) * s)

    assert gt.explain_grad(loss, gt.spec((3,)))["w"].paths == 6


def test_of_two_cuts_in_a_row_the_first_is_named():
    def loss(w, x):
        relaxed = gt.tanh(x @ gt.stop_gradient(w))
        return gt.sum(gt.stop_gradient(relaxed) - gt.tanh(x @ w))

    flow = gt.explain_grad(loss, gt.spec((3, 3)), gt.spec((2, 3)))["w"]
    assert flow.paths == 1 and len(flow.cuts) == 1 and "relaxed" in flow.cuts[0].source.text


def test_no_path_means_a_gradient_of_zero():
    arrays = {name: np.ones(spec.type.shape, np.float32) for name, spec in PARAMS.items()}
    gradients = gt.grad(energy)(arrays, np.ones((4, 2), np.float32), np.ones((4, 1), np.float32))
    found = gt.explain_grad(energy, PARAMS, *ARGS)
    for name, gradient in gradients.items():
        assert bool(gradient.numpy().any()) <= bool(found[f"p.{name}"].paths)


def test_a_loss_is_a_scalar():
    with pytest.raises(GradError, match="scalar loss"):
        gt.explain_grad(lambda w: w * 2, gt.spec((3,)))
    found = gt.explain_grad(lambda w: (gt.sum(w), w), gt.spec((3,)), has_aux=True)
    assert found["w"].paths == 1

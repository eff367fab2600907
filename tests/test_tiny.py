"""A walk through everything in a few seconds: evaluate, trace, differentiate, compile, train, look inside."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
W = np.linspace(0.5, -0.5, 6, dtype=np.float32).reshape(3, 2)


def loss_fn(w, x):
    hidden = gt.tanh(x @ w)
    return gt.mean(hidden * hidden)


def test_evaluate_and_trace():
    assert float(loss_fn(W, X)) == pytest.approx(float(np.mean(np.tanh(X @ W) ** 2)), rel=1e-6)
    assert "hidden: f32[4,2] = tanh(t0)" in str(gt.trace(loss_fn, W, X))


def test_differentiate():
    gt.check_grads(loss_fn, (W, X), order=2)
    w = gt.tensor(W, requires_grad=True)
    loss_fn(w, X).backward()
    np.testing.assert_allclose(w.grad.numpy(), gt.grad(loss_fn)(W, X).numpy())


def test_compile():
    both = gt.value_and_grad(loss_fn)
    for eager, compiled in zip(both(W, X), gt.compile(both)(W, X), strict=True):
        np.testing.assert_allclose(compiled.numpy(), eager.numpy(), rtol=1e-6)


def test_a_cut_costs_nothing_and_cuts():
    cut = gt.compile(gt.grad(lambda x: gt.sum(x * gt.stop_gradient(x))))
    np.testing.assert_array_equal(cut(X).numpy(), X)


def test_train_and_look_inside():
    train = gt.TrainStep(loss_fn, W, gt.optim.adam(0.05), gt.spec((4, 3)))
    losses = [train(X) for _ in range(50)]
    assert losses[-1] < losses[0] / 10
    assert "hidden = gt.tanh(x @ w)" in train.c_source and "arena" in train.memory
    assert [k.name for k in train.kernels]


def test_mistakes_are_told():
    with pytest.raises(gt.errors.ShapeError, match="inner sizes differ"):
        gt.compile(loss_fn)(W.T, X)
    with pytest.raises(gt.errors.TraceError, match="no truth value"):
        gt.compile(lambda x: x if x > 0 else -x)(1.0)

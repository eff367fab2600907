"""Activations and gates against formulas in float64, in every way of running: values, derivatives, kinks, NaN.

PyTorch's slopes at kinks are written down in `KINKS`; elsewhere differences say what the slope is.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import ShapeError
from tests.values import check_derivatives, close
from tests.ways import agreed

INF, NAN = math.inf, math.nan
X = np.array([-7.0, -3.5, -2.9, -1.3, -0.6, -0.2, 0.1, 0.4, 0.7, 1.6, 2.8, 3.2, 5.5, 6.5, 9.0])


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FORMULAS = {
    "celu": (lambda x: gt.nn.celu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0) / 1.5))),
    "elu": (lambda x: gt.nn.elu(x, 0.7), lambda x: elu(x, 0.7)),
    "hardshrink": (gt.nn.hardshrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "hardsigmoid": (gt.nn.hardsigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hardswish": (gt.nn.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "hardtanh": (lambda x: gt.nn.hardtanh(x, -2.0, 3.0), lambda x: np.clip(x, -2, 3)),
    "mish": (gt.nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "prelu": (lambda x: gt.nn.prelu(x, 0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    "relu6": (gt.nn.relu6, lambda x: np.clip(x, 0, 6)),
    "selu": (gt.nn.selu, lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    "softmin": (gt.nn.softmin, lambda x: np.exp(-x) / np.exp(-x).sum(-1, keepdims=True)),
    "softshrink": (lambda x: gt.nn.softshrink(x, 0.3), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0)),
    "softsign": (gt.nn.softsign, lambda x: x / (1 + np.abs(x))),
    "threshold": (lambda x: gt.nn.threshold(x, 0.5, -2.0), lambda x: np.where(x > 0.5, x, -2)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_are_their_formulas(name):
    ours, formula = FORMULAS[name]
    close(agreed(ours, X, rtol=1e-12), formula(X), rtol=1e-12)
    rows = X.astype(np.float32).reshape(3, 5)[:, ::2]
    close(agreed(ours, rows, rtol=2e-6), formula(rows.astype(np.float64)), rtol=2e-6)
    check_derivatives(ours, X)


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "softmin"])
def test_nan_stays_and_infinities_have_their_limits(name):
    ours, formula = FORMULAS[name]
    found = agreed(ours, np.array([NAN, 80.0, -80.0], np.float32), rtol=2e-6)
    assert np.isnan(found[0])
    close(found[1:], formula(np.array([80.0, -80.0])), rtol=2e-6)


KINKS = {
    "celu": (gt.nn.celu, [0.0], [1.0]),
    "elu": (lambda x: gt.nn.elu(x, 0.7), [0.0], [0.7]),
    "hardshrink": (gt.nn.hardshrink, [-0.5, 0.5], [0, 0]),
    "hardsigmoid": (gt.nn.hardsigmoid, [-3.0, 3.0], [0, 0]),
    "hardswish": (gt.nn.hardswish, [-3.0, 3.0], [0, 1]),
    "hardtanh": (gt.nn.hardtanh, [-1.0, 1.0], [0, 0]),
    "prelu": (lambda x: gt.nn.prelu(x, 0.3), [0.0], [0.3]),
    "relu6": (gt.nn.relu6, [0.0, 6.0], [0, 0]),
    "selu": (gt.nn.selu, [0.0], [1.0507009873554805 * 1.6732632423543772]),
    "softshrink": (gt.nn.softshrink, [-0.5, 0.5], [0, 0]),
    "softsign": (gt.nn.softsign, [0.0], [1]),
    "threshold": (lambda x: gt.nn.threshold(x, 0.5, -2.0), [0.5], [0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_slopes_at_kinks(name):
    ours, points, slopes = KINKS[name]
    close(agreed(gt.grad(lambda x: gt.sum(ours(x))), np.array(points)), slopes, rtol=1e-12)


GATES = {"glu": lambda a, b: a * sigmoid(b), "swiglu": lambda a, b: a * sigmoid(a) * b}


@pytest.mark.parametrize("name", GATES)
def test_gates(name):
    ours, gate = getattr(gt.nn, name), GATES[name]
    x = np.random.default_rng(0).standard_normal((3, 4, 6))
    close(agreed(ours, x, rtol=1e-12), gate(x[..., :3], x[..., 3:]), rtol=1e-12)
    close(agreed(lambda x: ours(x, axis=1), x, rtol=1e-12), gate(x[:, :2], x[:, 2:]), rtol=1e-12)
    check_derivatives(ours, x[0])
    with pytest.raises(ShapeError, match="even length"):
        ours(x[:, :3], axis=1)


def test_prelu_has_a_slope_for_each_channel():
    x = np.random.default_rng(1).standard_normal((2, 3, 4))
    slopes = np.array([0.1, 0.2, 0.5])
    close(agreed(gt.nn.prelu, x, slopes, rtol=1e-12), np.where(x > 0, x, x * slopes[:, None]), rtol=1e-12)
    found = agreed(gt.grad(lambda w, x: gt.sum(gt.nn.prelu(x, w))), slopes, x, rtol=1e-12)
    close(found, np.where(x > 0, 0, x).sum((0, 2)), rtol=1e-12)
    close(gt.nn.prelu(x, slopes[:1]), np.where(x > 0, x, x * 0.1), rtol=1e-12)
    with pytest.raises(ShapeError, match="one number or one per channel"):
        gt.nn.prelu(x, slopes[:2])


def test_bounds_may_be_arrays_and_have_gradients():
    low, high = gt.grad(lambda a, b: gt.sum(gt.nn.hardtanh(X, a, b)), (0, 1))(-1.0, 1.0)
    assert (low.item(), high.item()) == (np.sum(X <= -1), np.sum(X >= 1))
    assert gt.grad(lambda a: gt.sum(gt.nn.elu(X, a)))(1.0).item() == pytest.approx(elu(X)[X <= 0].sum())
    assert gt.grad(lambda a: gt.sum(gt.nn.softshrink(X, a)))(0.5).item() == np.sum(X < -0.5) - np.sum(X > 0.5)
    assert gt.grad(lambda v: gt.sum(gt.nn.threshold(X, 0.5, v)))(1.0).item() == np.sum(X <= 0.5)

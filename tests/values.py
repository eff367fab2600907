"""How tests compare values and derivatives: to a tolerance, to the bit, against differences."""

from __future__ import annotations

import numpy as np

import gtensor as gt


def f32(data):
    return np.asarray(data, np.float32)


def close(got, wanted, rtol=2e-6, atol=1e-7):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=rtol, atol=atol)


def same(got, wanted):
    """Equal to the bit but for the sign of NaN."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


def log_sum(x, axis):
    """The logarithm of the sum of exponentials along an axis, which stays."""
    m = x.max(axis, keepdims=True)
    return m + np.log(np.exp(x - m).sum(axis, keepdims=True))


def difference(f, x, step=1e-6):
    """The gradient of a scalar function of a float64 array by central differences."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        h = np.zeros_like(x)
        h[i] = step
        out[i] = (f(x + h) - f(x - h)) / (2 * step)
    return out


def check_derivatives(f, x):
    """First and second derivatives of the array function f at x, along random weights, to 1e-6."""
    x = np.asarray(x, np.float64)
    weights = np.random.default_rng(0).standard_normal(np.shape(f(x)))
    direction = np.random.default_rng(1).standard_normal(x.shape)

    def loss(x):
        return gt.sum(f(x) * weights)

    def slope(x):
        return gt.sum(gt.grad(loss)(x) * direction)

    close(gt.grad(loss)(x), difference(lambda x: loss(x).item(), x), rtol=1e-6, atol=1e-8)
    close(gt.grad(slope)(x), difference(lambda x: slope(x).item(), x), rtol=1e-6, atol=1e-8)


def agree(got, wanted):
    """Compiled results equal evaluated ones to a few roundings, infinities and NaN in the same places."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        close(a, b, rtol=2e-6, atol=1e-6)

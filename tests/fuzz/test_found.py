"""What the random functions found, each in its smallest form."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from tests.ways import agreed

X = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
NOTHING = np.zeros((0, 3), np.float32)


def sliding(x):
    """A value and itself in another order."""
    return gt.exp(x) * gt.flip(gt.exp(x)), gt.exp(x) * gt.exp(x).T, gt.exp(x)[::-1] + gt.exp(x)


def turned(x):
    """A value per row and the value of another row."""
    rows = gt.sum(x, axis=1)
    return x - gt.flip(rows)[:, None], gt.exp(rows) * gt.flip(rows)


def nothing(x):
    """Parts without elements are joined to an array without elements."""
    return gt.concat([x, x, x], axis=1), gt.concat([x, x], axis=1) + 1, gt.stack([x, x], axis=1) * 2


def late(x):
    """What is added at computed places is known in a later phase of its loop."""
    values = gt.softmax(x, axis=1)
    return gt.index_add(x, 1, [0, 2, 2], values), gt.scatter_add(x, 1, [[0, 1, 1]] * 3, values)


def late_gradient(x):
    return gt.grad(lambda x: gt.sum(gt.sin(gt.softmax(gt.take(x, [1, 1, 0], axis=1), axis=1))))(x)


def alone(x):
    """A sum of one element is that element, in another shape, and no scalar of inputs only."""
    return gt.sum(x[:1, :1] * 2) + gt.sum(x[1:2, 1:2]), gt.sum(gt.exp(x[:1, :1])) * gt.sum(x[:1, :1])


def single(x):
    """A value per row, folded over the rows: its last axis, of one element, does not move along the loop's."""
    rows = gt.cos(gt.logsumexp(x, axis=-1, keepdims=True))
    return gt.max(gt.abs(rows), axis=0), gt.sum(rows, axis=0), rows


def thin(x):
    """Rows of one element: a value per row is no element of its row, and positions are not searched over rows."""
    column = x[:, :1]
    smallest = gt.grad(lambda x: gt.sum(gt.sin(gt.min(x, axis=1))) + gt.sum(x))
    return smallest(column), gt.argmin(gt.argmin(column * 2, axis=1), axis=0)


def constant(x):
    return gt.argmax(gt.ones(3)) + gt.argmax(x, axis=0), gt.argmin(gt.zeros((2, 3)), axis=1)


@pytest.mark.parametrize(
    "fn, x",
    [
        (sliding, X),
        (turned, X),
        (nothing, NOTHING),
        (nothing, X),
        (late, X),
        (late_gradient, X),
        (alone, X),
        (single, X),
        (thin, X),
        (constant, X),
    ],
)
def test_found(fn, x):
    agreed(fn, x, rtol=1e-5, atol=1e-6)

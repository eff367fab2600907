"""Sorting, searching and order statistics against NumPy: ties, NaN, signed zeros, both directions, derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, OptionError, ShapeError
from tests.ways import agreed

RNG = np.random.default_rng(1)
X = RNG.normal(size=(3, 20, 2))
TIES = RNG.integers(0, 4, (3, 20, 2))
HARD = np.array([np.nan, 1.0, -0.0, 0.0, np.inf, -np.inf, -0.0, 2.0, np.nan, 0.0], np.float32)


def downwards(x: np.ndarray, axis: int) -> np.ndarray:
    """The stable permutation of a descending sort: equal elements keep their order."""
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


@pytest.mark.parametrize("x", [X, X.astype(np.float32), TIES, TIES.astype(np.uint8), TIES > 1, TIES.astype(np.int32)])
def test_sorting_along_every_axis(x):
    axes = (0, 1, -1)
    up = agreed(lambda x: [gt.argsort(x, axis) for axis in axes], x)
    down = agreed(lambda x: [gt.argsort(x, axis, descending=True) for axis in axes], x)
    values = agreed(lambda x: [gt.sort(x, axis) for axis in axes], x)
    turned = agreed(lambda x: [gt.sort(x, axis, descending=True) for axis in axes], x)
    for i, axis in enumerate(axes):
        np.testing.assert_array_equal(up[i], np.argsort(x, axis=axis, kind="stable"))
        np.testing.assert_array_equal(down[i], downwards(x, axis))
        np.testing.assert_array_equal(values[i], np.sort(x, axis=axis))
        np.testing.assert_array_equal(turned[i], np.flip(np.sort(x, axis=axis), axis))
        assert up[i].dtype == np.int64 and values[i].dtype == x.dtype


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 300])
def test_lines_of_every_length(n):
    """The merge sort's runs and halves, with many ties, and lines that are in order already or against it."""
    lines = np.stack([RNG.integers(0, 5, n), np.arange(n), np.arange(n)[::-1], np.zeros(n, int)]).astype(np.float32)
    found = np.asarray(gt.compile(gt.argsort)(lines))
    np.testing.assert_array_equal(found, np.argsort(lines, axis=-1, kind="stable"))


def test_nan_is_the_largest_and_zeros_are_equal():
    up, down = agreed(lambda x: [gt.sort(x), gt.sort(x, descending=True)], HARD)
    np.testing.assert_array_equal(up, np.sort(HARD))
    assert np.isnan(down[:2]).all() and down[2] == np.inf and down[-1] == -np.inf
    assert np.signbit(up[1:5]).tolist() == [True, False, True, False]  # stable: in the order they had
    np.testing.assert_array_equal(agreed(gt.argsort, HARD), np.argsort(HARD, kind="stable"))


def test_shapes_without_elements_or_axes():
    assert agreed(lambda x: gt.sort(x, axis=1), np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert agreed(lambda x: gt.argsort(x, axis=0), np.zeros((2, 0))).shape == (2, 0)
    assert agreed(lambda x: gt.sort(x, axis=None), X).shape == (120,)
    for call in (gt.sort, gt.argsort):
        with pytest.raises(ShapeError):
            call(gt.tensor(1.0))
        with pytest.raises(ShapeError):
            call(X, axis=3)
        with pytest.raises(DTypeError):
            call(X, axis="0")


def test_gradients_go_back_to_where_the_elements_stood():
    x = X[:, :4]
    for axis in (0, 1, 2, None):
        gt.check_grads(lambda x, axis=axis: gt.sort(x, axis) ** 2, [x], order=2, rtol=1e-6)
    gt.check_grads(lambda x: gt.sort(x, 1, descending=True) ** 2, [x], order=2, rtol=1e-6)
    gt.check_grads(lambda x: gt.top_k(x, 3, axis=1)[0] ** 2, [x], order=2, rtol=1e-6)
    slope = agreed(gt.grad(lambda x: gt.sum(gt.sort(x) * gt.arange(4.0))), np.array([2.0, -1.0, 2.0, 0.0]))
    assert slope.tolist() == [2.0, 0.0, 3.0, 1.0]


@pytest.mark.parametrize("k", [0, 1, 3, 20])
def test_the_best_of_each_line(k):
    for largest in (True, False):
        values, places = agreed(lambda x, best=largest: gt.top_k(x, k, axis=1, largest=best), TIES)
        order = downwards(TIES, 1) if largest else np.argsort(TIES, axis=1, kind="stable")
        np.testing.assert_array_equal(places, order[:, :k])
        np.testing.assert_array_equal(values, np.take_along_axis(TIES, order[:, :k], 1))


def test_how_many_there_are_to_take():
    for k in (-1, 21):
        with pytest.raises(ShapeError, match="top_k"):
            gt.top_k(X, k, axis=1)
    values, places = gt.tensor(HARD).topk(2)
    assert np.isnan(values.numpy()).all() and places.tolist() == [0, 8]


@pytest.mark.parametrize("side", ["left", "right"])
def test_searching(side):
    keys = np.sort(np.concatenate([HARD, HARD[::-1], np.float32([0.5, 0.5])]))
    values = np.concatenate([HARD, np.float32([0.5, 0.75, -3.0])]).reshape(-1, 1)
    found = agreed(lambda x, y: gt.searchsorted(x, y, side=side), keys, values)
    np.testing.assert_array_equal(found, np.searchsorted(keys, values, side=side))
    assert found.dtype == np.int64 and found.shape == values.shape
    order = RNG.permutation(6)
    shuffled = np.arange(6)[np.argsort(order)] * 1.5
    sorter = np.argsort(shuffled)
    found = agreed(lambda x, s: gt.searchsorted(x, gt.tensor([3.0, 4.0]), side=side, sorter=s), shuffled, sorter)
    np.testing.assert_array_equal(found, np.searchsorted(shuffled, [3.0, 4.0], side=side, sorter=sorter))


def test_searching_line_by_line_and_in_odd_shapes():
    keys, values = np.sort(RNG.normal(size=(2, 3, 9))), RNG.normal(size=(2, 3, 5))
    found = agreed(gt.searchsorted, keys, values)
    for place in np.ndindex(2, 3):
        np.testing.assert_array_equal(found[place], np.searchsorted(keys[place], values[place]))
    assert agreed(gt.searchsorted, np.zeros(0), np.ones(3)).tolist() == [0, 0, 0]
    assert agreed(gt.searchsorted, np.arange(3.0), np.float64(1.0)).shape == ()
    assert gt.searchsorted(gt.tensor([1, 2, 3]), 2.5).item() == 2
    with pytest.raises(OptionError):
        gt.searchsorted(keys[0, 0], 1.0, side="middle")
    with pytest.raises(ShapeError):
        gt.searchsorted(gt.tensor(1.0), 1.0)
    with pytest.raises(ShapeError):
        gt.searchsorted(keys, values[0])


# ---- order statistics --------------------------------------------------------------------------------------

AXES = [0, 1, -1, (0, 2), None]
METHODS = ["linear", "lower", "higher", "nearest", "midpoint"]


@pytest.mark.parametrize("n", [4, 5])
def test_medians(n):
    x = X[:, :n]
    found = agreed(lambda x: [(gt.median(x, axis), gt.median(x, axis, keepdims=True)) for axis in AXES], x)
    for axis, (plain, kept) in zip(AXES, found, strict=True):
        np.testing.assert_allclose(plain, np.median(x, axis))
        np.testing.assert_allclose(kept, np.median(x, axis, keepdims=True))
        gt.check_grads(lambda x, axis=axis: gt.median(x, axis) ** 2, [x], order=2, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles(method):
    q = np.array([[0.0, 0.1, 0.5], [0.77, 0.9, 1.0]])

    def every(x, q, axis):
        return [
            gt.quantile(x, 0.3, axis, method=method),
            gt.quantile(x, q, axis, method=method, keepdims=True),
            gt.percentile(x, q * 100, axis, method=method),
        ]

    found = agreed(lambda x, q: [every(x, q, axis) for axis in AXES], X, q)
    for axis, (one, kept, percent) in zip(AXES, found, strict=True):
        np.testing.assert_allclose(one, np.quantile(X, 0.3, axis, method=method))
        np.testing.assert_allclose(kept, np.quantile(X, q, axis, method=method, keepdims=True), rtol=1e-12)
        np.testing.assert_allclose(percent, np.percentile(X, q * 100, axis, method=method), rtol=1e-12)
        small = X[:, :3]
        gt.check_grads(lambda x, axis=axis: gt.quantile(x, 0.3, axis, method=method) ** 2, [small], order=2, rtol=1e-6)


def test_the_place_between_two_elements_has_a_derivative():
    gt.check_grads(lambda x, q: gt.quantile(x, q, axis=1), [X[:, :5], np.array([0.31, 0.62])], order=2, rtol=1e-6)


def test_lines_with_nan_and_infinity():
    x = np.float32([[1.0, np.nan, 2.0, 0.0], [1.0, np.inf, 2.0, 0.0], [-np.inf, -np.inf, 3.0, np.inf]])
    middle, upper = agreed(lambda x: [gt.median(x, 1), gt.quantile(x, 1.0, 1)], x)
    np.testing.assert_array_equal(middle, [np.nan, 1.5, -np.inf])
    np.testing.assert_array_equal(upper, [np.nan, np.inf, np.inf])
    slope = agreed(gt.grad(lambda x: gt.sum(gt.median(x, 1)[1:2])), x)
    assert slope[1].tolist() == [0.5, 0.0, 0.5, 0.0]


def test_odd_operands():
    assert gt.median(gt.tensor([1, 2])).dtype == gt.float32
    assert gt.median(gt.tensor(3.0)).item() == 3.0
    found = np.asarray(gt.compile(lambda x, q: gt.quantile(x, q))(X, np.array([0.5, 1.5, -0.1])))
    assert not np.isnan(found[0]) and np.isnan(found[1:]).all()
    for call in (lambda: gt.quantile(X, 1.5), lambda: gt.quantile(X, 0.5, method="exact")):
        with pytest.raises(OptionError):
            call()
    for call in (lambda: gt.median(X[:0]), lambda: gt.quantile(X[:, :0], 0.5, axis=1)):
        with pytest.raises(ShapeError, match="empty"):
            call()

"""Faults that reviews found, each as the case that showed it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import ShapeError
from tests.values import close
from tests.ways import agreed


def test_a_quantile_between_equal_elements_goes_back_to_both():
    assert agreed(gt.grad(lambda x: gt.quantile(x, 0.5)), np.array([1.0, 1.0])).tolist() == [0.5, 0.5]
    slopes = agreed(gt.grad(lambda x: gt.sum(gt.percentile(x, 50, axis=0))), np.array([[1.0, 5.0], [1.0, 6.0]]))
    assert slopes.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert agreed(lambda x: gt.quantile(x, 0.25), np.array([math.inf, math.inf])) == math.inf


def test_a_place_between_elements_is_found_in_float64():
    x = np.arange(11.0, dtype=np.float32)
    for q in (0.7, [0.7], np.array([0.7])):
        assert gt.quantile(x, q, method="lower").tolist() == np.quantile(x, q, method="lower").tolist()


@pytest.mark.parametrize(
    "reduce", [lambda x, i, v: x.at[i].multiply(v), lambda x, i, v: gt.scatter_reduce(x, 0, i, v, "prod")]
)
def test_a_product_over_no_places_has_a_derivative(reduce):
    none = np.zeros(0, np.int64)
    found = agreed(gt.grad(lambda x, v: gt.sum(reduce(x, none, v)), (0, 1)), np.ones(3), np.zeros(0))
    assert found[0].tolist() == [1, 1, 1] and found[1].shape == (0,)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8])
def test_counts_of_every_integer(dtype):
    assert gt.bincount(np.array([0, 2], dtype)).tolist() == [1, 0, 1]
    assert gt.bincount(np.zeros(0, dtype)).tolist() == []


def test_spacings_of_unsigned_integers_may_fall():
    close(gt.gradient(gt.tensor([1.0, 2.0, 4.0]), np.array([3, 2, 1], np.uint8)), [-1, -1.5, -2])


def test_falling_order_along_a_run_time_axis():
    order = gt.compile(lambda x: (gt.argsort(x, descending=True), gt.sort(x, descending=True)))
    compiled = order.trace(gt.spec(("B",), max={"B": 8})).lower().compile()
    for x in ([3.0, 1.0, 3.0, 2.0], [1.0], []):
        x = np.array(x, np.float32)
        places, values = compiled(x)
        assert (
            places.tolist() == gt.argsort(x, descending=True).tolist() and values.tolist() == sorted(x.tolist())[::-1]
        )


@pytest.mark.parametrize("start, stop", [(1e-200, 1e-190), (1e-200, 1e200), (-1e200, -1e-200), (8.0, 1.0)])
def test_factors_from_end_to_end_of_the_floats(start, stop):
    for num in (1, 3, 7):
        np.testing.assert_allclose(
            gt.geomspace(start, stop, num, dtype="float64").numpy(), np.geomspace(start, stop, num), rtol=1e-12
        )


def test_shifts_in_an_array():
    x = np.arange(6.0).reshape(2, 3)
    for shift in (np.array([1, 2]), gt.tensor([1, 2])):
        assert gt.roll(x, shift, axis=(0, 1)).tolist() == np.roll(x, (1, 2), axis=(0, 1)).tolist()


def test_what_does_not_fit_says_so():
    with pytest.raises(ShapeError, match="pad: widths"):
        gt.pad(gt.ones((2, 2)), [[1, 1]] * 3)
    with pytest.raises(ShapeError, match="needs a condition"):
        gt.piecewise(gt.ones(2), [], [1.0])
    assert gt.select(np.array([[True, False]]), [1], 0).tolist() == [1, 0]
    assert gt.histogram(gt.arange(4.0), np.int64(2))[0].tolist() == [2, 2]


def test_an_infinite_variance_has_an_infinite_logarithm():
    assert gt.nn.gaussian_nll_loss([1.0], [1.0], [math.inf]).item() == math.inf

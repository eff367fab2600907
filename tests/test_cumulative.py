"""Running folds: values of NumPy and SciPy-like formulas, both derivatives, difficult values, long sums, batches."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, OptionError, ShapeError
from tests.ways import agreed

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (3, 4, 2)) * np.where(RNG.random((3, 4, 2)) < 0.3, -1, 1)


def log_sums(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.accumulate(x, axis=axis)


FOLDS = {
    "cumsum": (gt.cumsum, np.cumsum),
    "cumprod": (gt.cumprod, np.cumprod),
    "cummax": (gt.cummax, lambda x, axis: np.maximum.accumulate(x, axis=axis)),
    "cummin": (gt.cummin, lambda x, axis: np.minimum.accumulate(x, axis=axis)),
    "cumlogsumexp": (gt.cumlogsumexp, log_sums),
}
every = pytest.mark.parametrize("name", FOLDS)


@every
@pytest.mark.parametrize("reverse", [False, True])
def test_values_along_every_axis(name, reverse):
    ours, numpys = FOLDS[name]
    found = agreed(lambda x: [ours(x, axis, reverse=reverse) for axis in (0, 1, -1)], X)
    for axis, values in zip((0, 1, -1), found, strict=True):
        turned = np.flip(X, axis) if reverse else X
        expected = numpys(turned, axis=axis)
        np.testing.assert_allclose(values, np.flip(expected, axis) if reverse else expected, rtol=1e-14, atol=1e-15)


@every
def test_without_an_axis_the_array_is_flat(name):
    ours, numpys = FOLDS[name]
    np.testing.assert_allclose(ours(X).numpy(), numpys(X.ravel(), axis=0), rtol=1e-14, atol=1e-15)
    assert ours(gt.tensor(2.5)).shape == (1,) and ours(gt.tensor(2.5)).item() == pytest.approx(2.5)


@every
@pytest.mark.parametrize("shape, axis", [((0,), 0), ((3, 0), 1), ((0, 3), 1), ((1, 1), 0)])
def test_empty_and_short_lines(name, shape, axis):
    ours, _ = FOLDS[name]
    x = np.full(shape, 2.0, np.float32)
    slope = agreed(lambda x: [ours(x, axis), gt.grad(lambda x: gt.sum(ours(x, axis)))(x)], x)
    assert [a.shape for a in slope] == [shape, shape]
    np.testing.assert_allclose(slope[0], x)
    np.testing.assert_allclose(slope[1], np.ones(shape))


@every
@pytest.mark.parametrize("axis, reverse", [(0, False), (1, True), (-1, False)])
def test_derivatives_of_both_orders(name, axis, reverse):
    ours, _ = FOLDS[name]
    gt.check_grads(lambda x: ours(x, axis, reverse=reverse), [X], order=2, rtol=1e-6)


@every
def test_special_values(name):
    """NaN, once met, stays; infinities meet as in NumPy; zeros keep their signs."""
    ours, numpys = FOLDS[name]
    rows = np.array(
        [
            [1.0, np.nan, 2.0, 3.0],
            [1.0, np.inf, 2.0, np.inf],
            [1.0, -np.inf, 2.0, np.inf],
            [-np.inf, -np.inf, 1.0, 2.0],
            [-np.inf, -1000.0, -np.inf, 1000.0],
            [-0.0, 0.0, -0.0, -0.0],
        ],
        np.float32,
    )
    with np.errstate(all="ignore"):
        expected = numpys(rows, axis=1)
    found = agreed(lambda x: ours(x, 1), rows)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    if name != "cumlogsumexp":
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


def test_products_with_zeros_have_their_derivatives():
    """First and second, against the product rule written out."""
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    gt.check_grads(lambda x: gt.cumprod(x, 0), [x], order=2, rtol=1e-6)
    found = agreed(gt.grad(lambda x: gt.sum(gt.cumprod(x, 0))), x)
    expected = [sum(np.prod(np.delete(x[: i + 1], j)) for i in range(j, 5)) for j in range(5)]
    np.testing.assert_allclose(found, expected)


def test_of_equal_elements_the_last_takes_the_gradient():
    x = gt.tensor([1.0, 3.0, 3.0, 2.0])
    slope = gt.grad(lambda x: gt.sum(gt.cummax(x) * gt.tensor([1.0, 10.0, 100.0, 1000.0])))(x)
    assert slope.tolist() == [1.0, 10.0, 1100.0, 0.0]
    assert gt.grad(lambda x: gt.sum(gt.cummin(-x) * gt.tensor([1.0, 10.0, 100.0, 1000.0])))(x).tolist() == [
        -1.0, -10.0, -1100.0, 0.0,
    ]  # fmt: skip


def test_logarithms_of_sums_neither_overflow_nor_cancel():
    x = np.array([-np.inf, -1000.0, 1000.0, -np.inf, 1000.0], np.float32)
    values, slope = agreed(lambda x: [gt.cumlogsumexp(x), gt.grad(lambda x: gt.sum(gt.cumlogsumexp(x)))(x)], x)
    np.testing.assert_allclose(values, [-np.inf, -1000.0, 1000.0, 1000.0, 1000.0 + np.log(2)], rtol=1e-7)
    np.testing.assert_allclose(slope, [0.0, 1.0, 2.5, 0.0, 0.5], atol=1e-6)


def test_long_float32_sums_keep_their_digits():
    """An element of a long sum has the error of one rounding, not of a million."""
    x = np.full(1_000_000, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    for found in (gt.cumsum(x).numpy(), gt.compile(gt.cumsum)(x).numpy()):
        assert np.abs(found / exact - 1).max() < 6e-8


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_the_standard_names(name):
    ours, numpys = getattr(gt, name), {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod}[name]
    first = {"cumulative_sum": 0, "cumulative_prod": 1}[name]
    found = agreed(lambda x: ours(x, axis=1, include_initial=True), X)
    expected = np.concatenate([np.full((3, 1, 2), first), numpys(X, axis=1)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert ours(gt.tensor([], dtype="float32"), include_initial=True).tolist() == [first]
    assert ours(gt.tensor([1, 2, 3]), dtype="float32").dtype == gt.float32
    assert ours(gt.tensor([True, True])).dtype == gt.int64
    assert ours(gt.tensor([1, 2], dtype="uint8")).dtype == gt.uint64
    with pytest.raises(ShapeError, match="axis"):
        ours(X)
    with pytest.raises(ShapeError, match="out of range"):
        ours(X, axis=3)
    gt.check_grads(lambda x: ours(x, axis=0, include_initial=True), [X], order=2, rtol=1e-6)


def test_integers_wrap_in_the_dtype_that_is_asked_for():
    x = gt.tensor([2**31 - 1, 1], dtype="int32")
    assert gt.cumsum(x).tolist() == [2**31 - 1, 2**31]
    assert agreed(lambda x: gt.cumsum(x, dtype="int32"), x.numpy()).tolist() == [2**31 - 1, -(2**31)]
    assert gt.cummax(gt.tensor([False, True, False])).tolist() == [False, True, True]
    assert gt.cummax(gt.tensor([1, 3], dtype="uint8")).dtype == gt.uint8


def test_differences():
    x = RNG.normal(size=(3, 5))
    for n in range(7):
        for axis in (0, -1):
            expected = np.diff(x, n=n, axis=axis)
            found = agreed(lambda x, n=n, axis=axis: gt.diff(x, n=n, axis=axis), x)
            np.testing.assert_allclose(found, expected, atol=1e-14)
    edges = {"prepend": np.zeros((3, 2)), "append": 7.0}
    np.testing.assert_allclose(gt.diff(x, **edges).numpy(), np.diff(x, **edges))
    np.testing.assert_allclose(gt.diff(x, axis=0, prepend=1.0).numpy(), np.diff(x, axis=0, prepend=1.0))
    assert gt.diff(gt.tensor([True, True, False])).tolist() == [False, True]
    gt.check_grads(lambda x: gt.diff(x, n=2, axis=1), [x], order=2, rtol=1e-6)
    with pytest.raises(OptionError):
        gt.diff(x, n=-1)
    with pytest.raises(ShapeError):
        gt.diff(gt.tensor(1.0))


def test_inside_a_loop_and_beside_other_work():
    """The lines of a transposed and of a computed operand, in the body of a scan."""

    def run(x):
        def body(carry, row):
            moved = gt.cumsum(carry.T * 0.5, axis=0).T + row
            return moved, gt.cummax(moved, axis=1)

        return gt.scan(body, x[0], x)

    x = RNG.normal(size=(4, 3, 5)).astype(np.float32)
    carry, ys = agreed(lambda x: list(run(x)), x, rtol=2e-6)
    expected = x[0]
    for row, y in zip(x, ys, strict=True):
        expected = np.cumsum(expected * 0.5, axis=1) + row
        np.testing.assert_allclose(y, np.maximum.accumulate(expected, axis=1), rtol=1e-5)
    np.testing.assert_allclose(carry, expected, rtol=1e-5)
    agreed(gt.grad(lambda x: gt.sum(run(x)[1] ** 2)), x, rtol=1e-5, atol=1e-5)


def test_a_run_time_batch_beside_the_line():
    spec = gt.spec(("B", 4), max={"B": 8})
    compiled = gt.compile(lambda x: gt.cumsum(x * 2, axis=1)).trace(spec).lower().compile()
    for batch in (1, 3, 8):
        x = RNG.normal(size=(batch, 4)).astype(np.float32)
        np.testing.assert_allclose(np.asarray(compiled(x)), np.cumsum(x * 2, axis=1), rtol=1e-6)


def test_what_is_refused():
    with pytest.raises(ShapeError, match="out of range"):
        gt.cumsum(X, axis=5)
    with pytest.raises(DTypeError, match="axis"):
        gt.cumsum(X, axis=1.5)
    spec = gt.spec(("B", 4), max={"B": 8})
    with pytest.raises(ShapeError, match="run time"):
        gt.trace(gt.grad(lambda x: gt.sum(gt.cumprod(x, axis=0))), spec)
    with pytest.raises(ShapeError, match="run time"):
        gt.trace(lambda x: gt.cumulative_sum(x, axis=0, include_initial=True), spec)

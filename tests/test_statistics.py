"""Statistics, products and layouts that are compositions: values against NumPy in float64, and wrong use."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import OptionError, ShapeError
from gtensor.interp import run
from tests.values import close, f32, same

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(5)

# ---- statistics -----------------------------------------------------------------------------------------------

AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2), ()]


@pytest.mark.parametrize("axis, keepdims", list(itertools.product(AXES, [False, True])))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_statistics_are_numpys(axis, keepdims, dtype):
    x = (RNG.standard_normal((3, 4, 5)) * 3 + 4).clip(0).astype(dtype)
    wide = x.astype(np.float64)
    result = np.float64 if dtype == "float64" else np.float32
    for got, wanted in [
        (gt.mean(x, axis, keepdims), wide.mean(axis, keepdims=keepdims)),
        (gt.var(x, axis, 0.0, keepdims), wide.var(axis, keepdims=keepdims)),
        (gt.std(x, axis, keepdims=keepdims), wide.std(axis, keepdims=keepdims)),
        (gt.norm(x, axis, keepdims), np.sqrt((wide**2).sum(axis, keepdims=keepdims))),
    ]:
        assert got.numpy().dtype == result
        close(got, wanted)
    if axis != ():
        close(gt.var(x, axis, 1.0, keepdims), wide.var(axis, ddof=1, keepdims=keepdims))
        close(gt.tensor(x).std(axis, correction=1), wide.std(axis, ddof=1))


def test_means_of_integers_do_not_overflow():
    close(gt.mean(np.full(300, 250, np.uint8)), 250)
    close(gt.mean(np.full(4, 2**62)), 2.0**62)
    close(gt.var(np.array([2**40, 2**40 + 2])), 1.0)


def test_a_variance_keeps_its_digits_beside_a_large_mean():
    x = f32([[40000, 40001, 40002, 40003], [8, 9, 10, 11]])
    close(gt.var(x, axis=1), [1.25, 1.25])
    close(gt.std(f32([1e7 + 1, 1e7 + 3])), 1.0)


def test_nothing_to_average_is_nan_and_its_norm_is_0():
    x = np.zeros((3, 0), np.float32)
    for f in (gt.mean, gt.var, gt.std):
        same(f(x, axis=1), f32([NAN, NAN, NAN]))
    same(gt.norm(x, axis=1), f32([0, 0, 0]))
    same(gt.norm(x, axis=1, keepdims=True), f32([[0], [0], [0]]))
    assert gt.mean(x, axis=0).shape == (0,)
    same(gt.var(f32([3.0]), correction=1), np.float32(NAN))
    same(gt.var(f32([3.0, 4.0]), correction=3), np.float32(NAN))


def test_a_standard_deviation_of_equal_elements_has_gradient_0():
    def total(x):
        return gt.sum(gt.std(x, axis=1))

    x = f32([[2, 2, 2], [1, 2, 3]])
    got = gt.grad(total)(x)
    same(got[0], f32([0, 0, 0]))
    close(got[1], f32([-1, 0, 1]) / (3 * np.std([1, 2, 3])))
    second = gt.grad(lambda x: gt.sum(gt.grad(total)(x) * f32([[1, 2, 3], [0, 0, 0]])))(x)
    same(second, np.zeros((2, 3), np.float32))
    assert np.isnan(gt.std(f32([1, NAN])).item())


def test_a_norm_neither_overflows_nor_vanishes():
    close(gt.norm(f32([3e30, 4e30])), np.float32(5e30))
    close(gt.norm(f32([3e-30, 4e-30])), np.float32(5e-30), atol=0)
    close(gt.grad(gt.norm)(f32([3e30, 4e30])), [0.6, 0.8])
    close(gt.grad(gt.norm)(f32([3e-30, 4e-30])), [0.6, 0.8])
    same(gt.norm(f32([INF, 1, -INF])), np.float32(INF))
    same(gt.norm(f32([NAN, INF])), np.float32(NAN))


def test_the_norm_of_the_zero_vector_has_gradient_0_beside_others():
    def total(x):
        return gt.sum(gt.norm(x, axis=1))

    x = f32([[0, 0], [3, -4]])
    close(gt.grad(total)(x), [[0, 0], [0.6, -0.8]])
    second = gt.grad(lambda x: gt.sum(gt.grad(total)(x)))(x)
    close(second, [[0, 0], [(16 + 12) / 125, (9 + 12) / 125]])
    hessian = gt.hvp(lambda x: gt.sum(x * x), [f32([0, 0])], [f32([1, 0])])[0]
    close(hessian, [2, 0])


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_run_time_extent_is_counted_at_run_time(rows):
    spec = gt.spec(("B", 4), max={"B": 8})
    x = RNG.standard_normal((rows, 4)).astype(np.float32)
    functions = [
        lambda x: gt.mean(x),
        lambda x: gt.mean(x, axis=0),
        lambda x: gt.var(x, correction=1),
        lambda x: gt.std(x, axis=1),
        lambda x: gt.nn.mse_loss(x, 0.0),
    ]
    for f in functions:
        graph = gt.trace(f, spec)
        check_graph(graph)
        close(run(graph, [x])[0], f(x))


def test_statistics_refuse_wrong_axes():
    for f in (gt.mean, gt.var, gt.std, gt.norm):
        with pytest.raises(ShapeError):
            f(gt.ones((2, 3)), axis=2)
        with pytest.raises(ShapeError):
            f(gt.ones((2, 3)), axis=(0, 0))


# ---- products and layouts -------------------------------------------------------------------------------------


def test_products_are_numpys():
    a, b, c = (RNG.standard_normal(s) for s in ((2, 3, 4), (4, 5), (6, 4, 3)))
    close(gt.dot(a, b), np.dot(a, b))
    close(gt.dot(a, c), np.dot(a, c))
    close(gt.dot(b[0], b[1]), np.dot(b[0], b[1]))
    close(gt.dot(2.0, b), 2 * b)
    close(gt.outer(a, b), np.outer(a, b))
    close(gt.vecdot(a, b[:, 0]), np.vecdot(a, b[:, 0]))
    close(gt.vecdot(a, a[:1], axis=1), (a * a[:1]).sum(1))
    close(gt.tensordot(a, c, axes=((1, 2), (2, 1))), np.tensordot(a, c, axes=((1, 2), (2, 1))))
    close(gt.tensordot(a, b, axes=1), np.tensordot(a, b, axes=1))
    close(gt.tensordot(a, b, axes=0), np.tensordot(a, b, axes=0))
    for wrong in (
        lambda: gt.vecdot(gt.ones(3), gt.ones(4)),
        lambda: gt.vecdot(gt.ones((2, 3)), gt.ones((2, 1))),
        lambda: gt.tensordot(a, b, axes=2),
        lambda: gt.tensordot(a, b, axes=3),
        lambda: gt.tensordot(a, a, axes=((0, 0), (0, 0))),
        lambda: gt.dot(a, a),
    ):
        with pytest.raises(ShapeError):
            wrong()


def test_layouts_are_numpys():
    x = np.arange(24).reshape(2, 3, 4)
    same(gt.transpose(x), x.T)
    same(gt.transpose(x, (1, 0, 2)), x.transpose(1, 0, 2))
    same(gt.swapaxes(x, 0, -1), x.swapaxes(0, -1))
    for got, wanted in zip(gt.unstack(x, axis=1), [x[:, i] for i in range(3)], strict=True):
        same(got, wanted)
    vectors = [np.arange(2), np.arange(3.0), np.arange(4)]
    for indexing, count in itertools.product(("xy", "ij"), range(1, 4)):
        wanted = np.meshgrid(*vectors[:count], indexing=indexing)
        for a, b in zip(gt.meshgrid(*vectors[:count], indexing=indexing), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(OptionError):
        gt.meshgrid([1], indexing="yx")
    with pytest.raises(ShapeError):
        gt.meshgrid([[1]])
    with pytest.raises(ShapeError):
        gt.trace(lambda x: gt.unstack(x), gt.spec(("B", 2), max={"B": 4}))
    with pytest.raises(ShapeError):
        gt.swapaxes(x, 0, 3)

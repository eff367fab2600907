"""gt.nn and the compositions beside it: values against NumPy in float64 and closed forms, kinks, stability,
derivatives of first and second order against differences, what is ignored or masked, and wrong use."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import DTypeError, IndexingError, OptionError, ShapeError
from gtensor.interp import run

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(5)


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


# ---- statistics ------------------------------------------------------------------------------------------

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
    same(gt.var(f32([3.0, 4.0]), correction=3), np.float32(INF))


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


# ---- activations -----------------------------------------------------------------------------------------

AWKWARD = f32([0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 3e38, -3e38, INF, -INF, NAN])


def test_relu_keeps_nan_and_has_no_slope_at_0():
    same(gt.relu(AWKWARD), f32([0, 0, 1, 0, 1e-40, 0, 3e38, 0, INF, 0, NAN]))
    same(gt.relu(np.array([-2, 3], np.int32)), np.array([0, 3], np.int32))
    x = f32([-1, 0, 2])
    same(gt.grad(lambda x: gt.sum(gt.relu(x)))(x), f32([0, 0, 1]))
    same(gt.grad(lambda x: gt.sum(gt.grad(lambda x: gt.sum(gt.relu(x) * [1, 2, 3]))(x)))(x), f32([0, 0, 0]))
    squared = gt.grad(lambda x: gt.sum(gt.grad(lambda x: gt.sum(gt.relu(x) ** 2))(x)))(x)
    same(squared, f32([0, 0, 2]))


def test_relu_hides_what_is_not_taken():
    same(gt.grad(lambda x: gt.sum(gt.relu(gt.log(x))))(f32([0.0, 2.0])), f32([0, 0.5]))


def test_leaky_relu():
    same(gt.leaky_relu(AWKWARD, 0.5), f32([0, -0.0, 1, -0.5, 1e-40, -5e-41, 3e38, -1.5e38, INF, -INF, NAN]))
    same(gt.grad(lambda x: gt.sum(gt.leaky_relu(x)))(f32([-1, 0, 2])), f32([0.01, 0.01, 1]))
    slope = f32([0.1, 0.2, 0.3])
    same(gt.grad(lambda s: gt.sum(gt.leaky_relu(f32([-1, 0, 2]), s)))(slope), f32([-1, 0, 0]))


def test_silu_and_log_sigmoid_do_not_overflow():
    x = np.linspace(-120, 120, 241).astype(np.float32)
    wide = x.astype(np.float64)
    s = 1 / (1 + np.exp(-wide))
    close(gt.silu(x), wide * s, atol=1e-42)
    close(gt.log_sigmoid(x), np.where(wide < 0, wide - np.log1p(np.exp(wide)), -np.log1p(np.exp(-wide))), atol=1e-42)
    close(gt.grad(lambda x: gt.sum(gt.log_sigmoid(x)))(x), 1 / (1 + np.exp(wide)), atol=1e-42)
    assert np.isfinite(gt.grad(lambda x: gt.sum(gt.silu(x)))(f32([-1e30, 1e30]))).all()
    same(gt.log_sigmoid(f32([-INF, INF, NAN])), f32([-INF, 0, NAN]) * f32([1, -1, 1]))


BOUNDS = [(-1, 1), (None, 0.5), (0, None), (1, -1), (NAN, 1), (-1, NAN), (None, None)]


@pytest.mark.parametrize("low, high", BOUNDS)
def test_clip_is_numpys(low, high):
    wanted = AWKWARD
    if low is not None:
        wanted = np.maximum(wanted, np.float32(low))
    if high is not None:
        wanted = np.minimum(wanted, np.float32(high))
    same(gt.clip(AWKWARD, low, high) + 0, wanted + 0)
    arrays = [None if b is None else np.full(AWKWARD.shape, b, np.float32) for b in (low, high)]
    same(gt.clip(AWKWARD, *arrays) + 0, wanted + 0)
    assert gt.clamp is gt.clip


def test_clip_of_integers_and_between_arrays():
    same(gt.clip(np.array([-3, 5], np.int64), 0, 4), np.array([0, 4]))
    same(gt.clip(f32([1, 2, 3]), f32([[2], [0]]), 2.5), f32([[2, 2, 2.5], [1, 2, 2.5]]))
    same(gt.tensor([1.0, 5.0]).clamp(max=2), f32([1, 2]))


def test_the_slope_of_clip_is_1_at_the_bounds_and_beyond_goes_to_the_bound():
    x = f32([-2, -1, 0, 1, 2])
    same(gt.grad(lambda x: gt.sum(gt.clip(x, -1, 1)))(x), f32([0, 1, 1, 1, 0]))
    low, high = gt.grad(lambda low, high: gt.sum(gt.clip(x, low, high)), (0, 1))(np.float32(-1), np.float32(1))
    assert (low.item(), high.item()) == (1, 1)


# ---- rows ------------------------------------------------------------------------------------------------

ROW_AXES = [(-1, (3,)), (0, (5,)), (0, (2, 3)), (1, (2, 3)), (-2, (2, 3, 4)), ((0, 2), (2, 3, 4)), (None, (2, 3))]


def log_sum(x, axis):
    m = x.max(axis, keepdims=True)
    return m + np.log(np.exp(x - m).sum(axis, keepdims=True))


@pytest.mark.parametrize("axis, shape", ROW_AXES)
@pytest.mark.parametrize("scale", [1, 1000])
def test_softmax_and_its_logarithms(axis, shape, scale):
    x = (RNG.standard_normal(shape) * scale).astype(np.float32)
    wide = x.astype(np.float64)
    total = log_sum(wide, axis)
    close(gt.softmax(x, axis), np.exp(wide - total), atol=1e-38)
    close(gt.log_softmax(x, axis), wide - total, atol=1e-6)
    close(gt.logsumexp(x, axis, keepdims=True), total)
    close(gt.logsumexp(x, axis), total.squeeze(axis))
    close(gt.sum(gt.softmax(x, axis), axis), np.ones(total.squeeze(axis).shape))


@pytest.mark.parametrize("axis, shape", ROW_AXES)
@pytest.mark.parametrize("f", [gt.softmax, gt.log_softmax, gt.logsumexp])
def test_row_functions_have_right_derivatives_on_every_axis(f, axis, shape):
    check_derivatives(lambda x: f(x, axis=axis), RNG.standard_normal(shape))


def test_rows_with_infinities():
    same(gt.softmax(f32([[0, -INF, 0], [-INF] * 3, [INF, 0, 0]])), f32([[0.5, 0, 0.5], [NAN] * 3, [NAN] * 3]))
    same(gt.log_softmax(f32([-INF, 3])), f32([-INF, 0]))
    same(gt.logsumexp(f32([[-INF, -INF], [-INF, 1], [INF, 1], [NAN, 1]])), f32([-INF, 1, INF, NAN]))
    grads = gt.grad(lambda x: gt.sum(gt.logsumexp(x)[1:]) + gt.logsumexp(x)[0])(f32([[-INF, -INF], [-INF, 1]]))
    same(grads, f32([[0, 0], [0, 1]]))
    second = gt.grad(lambda x: gt.sum(gt.grad(lambda x: gt.sum(gt.logsumexp(x)))(x)[:, 0]))(f32([[-INF, -INF], [0, 0]]))
    same(second, f32([[0, 0], [0.25, -0.25]]))


def test_a_masked_softmax_row_that_is_not_used_contributes_exactly_0():
    keep, used = np.array([[True] * 3, [False] * 3]), np.array([True, False])

    def loss(s, v):
        p = gt.softmax(gt.where(keep, s, -INF))
        return gt.sum(gt.where(used, gt.sum(p * v, axis=1), 0.0))

    ds, dv = gt.grad(loss, (0, 1))(f32([[1, 2, 0], [0.3, 0.1, 0.2]]), f32([1, 2, 4]))
    p = np.exp([1.0, 2.0, 0.0]) / np.exp([1.0, 2.0, 0.0]).sum()
    close(dv, p)
    close(ds, [p * (np.array([1, 2, 4]) - p @ [1, 2, 4]), [0, 0, 0]])
    same(ds[1], f32([0, 0, 0]))


def test_empty_rows():
    assert gt.softmax(np.zeros((2, 0), np.float32)).shape == (2, 0)
    assert gt.log_softmax(np.zeros((0, 3), np.float32)).shape == (0, 3)
    same(gt.logsumexp(np.zeros((2, 0), np.float32)), f32([-INF, -INF]))


def test_rows_take_integers_and_refuse_wrong_axes():
    close(gt.softmax([0, 0]), [0.5, 0.5])
    close(gt.logsumexp([0, 0]), math.log(2))
    for f in (gt.softmax, gt.log_softmax, gt.logsumexp):
        with pytest.raises(ShapeError):
            f(gt.ones((2, 3)), axis=2)
        with pytest.raises(ShapeError):
            f(1.0)


def layer_norm(x, weight, bias, eps, axes):
    d = x - x.mean(axes, keepdims=True)
    return d / np.sqrt((d * d).mean(axes, keepdims=True) + eps) * weight + bias


@pytest.mark.parametrize("shape, row", [((4,), (4,)), ((3, 4), (4,)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 4))])
def test_layer_norm(shape, row):
    x, w, b = (RNG.standard_normal(s) for s in (shape, row, row))
    axes = tuple(range(len(shape) - len(row), len(shape)))
    close(gt.nn.layer_norm(f32(x), f32(w), f32(b)), layer_norm(x, w, b, 1e-5, axes), atol=1e-6)
    close(gt.nn.layer_norm(x, w, eps=0.1), layer_norm(x, w, 0, 0.1, axes))
    close(gt.nn.layer_norm(x, bias=b), layer_norm(x, 1, b, 1e-5, axes))
    close(gt.nn.layer_norm(x), layer_norm(x, 1, 0, 1e-5, -1))
    check_derivatives(lambda x: gt.nn.layer_norm(x, w, b), x)
    check_derivatives(lambda w: gt.nn.layer_norm(x, w, b), w)
    check_derivatives(lambda b: gt.nn.layer_norm(x, w, b), b)


def test_layer_norm_of_constant_and_of_large_rows():
    x = f32([[3, 3, 3, 3], [40000, 40001, 40002, 40003]])
    got = gt.nn.layer_norm(x)
    same(got[0], f32([0, 0, 0, 0]))
    close(got[1], [-1.34163542, -0.44721181, 0.44721181, 1.34163542])
    assert np.isfinite(gt.grad(lambda x: gt.sum(gt.nn.layer_norm(x) ** 2))(x)).all()


def test_layer_norm_refuses():
    x = gt.ones((2, 3))
    with pytest.raises(ShapeError, match="weight f32\\[2\\] does not fit rows of f32\\[2,3\\]"):
        gt.nn.layer_norm(x, gt.ones(2))
    with pytest.raises(ShapeError, match="bias"):
        gt.nn.layer_norm(x, gt.ones(3), gt.ones((2, 3)))
    with pytest.raises(ShapeError):
        gt.nn.layer_norm(1.0)
    with pytest.raises(OptionError, match="eps"):
        gt.nn.layer_norm(x, eps=-1.0)


# ---- layers ----------------------------------------------------------------------------------------------


def test_linear():
    x, w, b = (RNG.standard_normal(s).astype(np.float32) for s in ((2, 5, 3), (3, 4), (4,)))
    close(gt.nn.linear(x, w, b), x @ w + b, atol=1e-6)
    close(gt.nn.linear(x[0, 0], w), x[0, 0] @ w, atol=1e-6)
    with pytest.raises(ShapeError, match="bias is f32\\[3\\]"):
        gt.nn.linear(x, w, x[0, 0])
    with pytest.raises(ShapeError, match="weight"):
        gt.nn.linear(x, b)
    with pytest.raises(ShapeError, match="inner sizes differ"):
        gt.nn.linear(b, w)


def test_embedding_adds_up_repeated_ids_and_refuses_others():
    w = RNG.standard_normal((4, 2)).astype(np.float32)
    ids = np.array([[1, 1], [3, 0]], np.int32)
    same(gt.nn.embedding(ids, w), w[ids])
    same(gt.grad(lambda w: gt.sum(gt.nn.embedding(ids, w)))(w), f32([[1, 1], [2, 2], [0, 0], [1, 1]]))
    with pytest.raises(IndexError):
        gt.nn.embedding([4], w)
    with pytest.raises(ShapeError):
        gt.nn.embedding([0], w[0])
    with pytest.raises(DTypeError):
        gt.nn.embedding([0.0], w)


def test_one_hot():
    labels = np.array([[2, 0], [1, 1]], np.uint8)
    same(gt.one_hot(labels, 3), np.eye(3, dtype=np.float32)[labels])
    same(gt.one_hot(1, 2, dtype="bool"), np.array([False, True]))
    for wrong in ([3], [-1], [2**32]):
        with pytest.raises(IndexingError):
            gt.one_hot(wrong, 3)
    with pytest.raises(IndexError):
        gt.trace(lambda: gt.one_hot(3, 3))
    with pytest.raises(DTypeError, match="integers"):
        gt.one_hot([1.0], 3)
    with pytest.raises(OptionError):
        gt.one_hot([0], -1)


# ---- losses ----------------------------------------------------------------------------------------------


def test_mse_loss():
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    close(gt.nn.mse_loss(a, b, "none"), (a - b) ** 2)
    close(gt.nn.mse_loss(a, b), ((a - b) ** 2).mean())
    close(gt.nn.mse_loss(a, b, reduction="sum"), ((a - b) ** 2).sum())
    close(gt.nn.mse_loss(a, 1), ((a - 1) ** 2).mean())
    close(gt.grad(gt.nn.mse_loss)(a, b), 2 * (a - b) / 12)
    check_derivatives(lambda a: gt.nn.mse_loss(a, b, "none"), a)


def test_huber_loss():
    d = np.array([-3.0, -1.0, -0.2, 0.0, 0.5, 1.0, 4.0])
    for delta in (1.0, 0.4):
        wanted = np.where(np.abs(d) <= delta, d * d / 2, delta * (np.abs(d) - delta / 2))
        close(gt.nn.huber_loss(d, 0.0, "none", delta), wanted)
        close(gt.nn.huber_loss(d, 0.0, delta=delta), wanted.mean())
        close(gt.grad(lambda d, delta=delta: gt.nn.huber_loss(d, 0, "sum", delta))(d), np.clip(d, -delta, delta))
    same(gt.nn.huber_loss(f32([INF, NAN]), 0.0, "none"), f32([INF, NAN]))
    check_derivatives(lambda d: gt.nn.huber_loss(d, 0.0, "none"), [-3.0, -0.2, 0.5, 4.0])


def test_losses_refuse_shapes_that_only_broadcast_and_unknown_reductions():
    for f in (gt.nn.mse_loss, gt.nn.huber_loss):
        with pytest.raises(ShapeError, match=r"shapes \(3, 1\) and \(3,\) differ"):
            f(gt.ones((3, 1)), gt.ones(3))
        with pytest.raises(OptionError, match="reduction"):
            f(gt.ones(3), gt.ones(3), reduction="max")
    with pytest.raises(OptionError, match="delta"):
        gt.nn.huber_loss(1.0, 0.0, delta=0.0)
    with pytest.raises(OptionError, match="reduction"):
        gt.nn.nll_loss(gt.ones((1, 2)), [0], reduction="average")


def torch_cross_entropy(z, y, weight=None, ignore=-100, smoothing=0.0, reduction="mean"):
    """PyTorch's documented formulas, row by row in float64; z is [rows, classes]."""
    rows, classes = z.shape
    logp = z - log_sum(z, 1)
    w = np.ones(classes) if weight is None else weight
    losses, weights = np.zeros(rows), np.zeros(rows)
    for n in range(rows):
        if y.dtype.kind == "f":
            p = y[n] * (1 - smoothing) + smoothing / classes
            losses[n], weights[n] = -(w * p * logp[n]).sum(), 1
        elif y[n] != ignore:
            losses[n] = -(1 - smoothing) * w[y[n]] * logp[n, y[n]] - smoothing / classes * (w * logp[n]).sum()
            weights[n] = w[y[n]]
    with np.errstate(invalid="ignore"):
        return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weights.sum()}[reduction]


Z = RNG.standard_normal((6, 4)) * 2
Y = np.array([0, 3, -100, 2, 2, 1])
P = RNG.dirichlet(np.ones(4), 6)
W = np.array([0.5, 2.0, 1.0, 3.0])

OPTIONS = list(itertools.product([None, W], [0.0, 0.2, 1.0], ["none", "mean", "sum"]))


@pytest.mark.parametrize("weight, smoothing, reduction", OPTIONS)
def test_cross_entropy_is_pytorchs(weight, smoothing, reduction):
    options = {"label_smoothing": smoothing, "reduction": reduction}
    for labels in (Y, Y.astype(np.int32)):
        wanted = torch_cross_entropy(Z, labels, weight, -100, smoothing, reduction)
        close(gt.nn.cross_entropy(Z, labels, weight, **options), wanted, rtol=1e-12)
        close(gt.nn.cross_entropy(f32(Z), labels, weight, **options), wanted, atol=1e-6)
    other = np.where(Y == -100, 1, Y)
    wanted = torch_cross_entropy(Z, other, weight, 1, smoothing, reduction)
    close(gt.nn.cross_entropy(Z, other.astype(np.uint8), weight, 1, **options), wanted, rtol=1e-12)
    wanted = torch_cross_entropy(Z, P, weight, -100, smoothing, reduction)
    close(gt.nn.cross_entropy(Z, P, weight, **options), wanted, rtol=1e-12)


@pytest.mark.parametrize("weight, smoothing, reduction", OPTIONS)
def test_cross_entropy_has_right_derivatives(weight, smoothing, reduction):
    options = {"weight": weight, "label_smoothing": smoothing, "reduction": reduction}
    check_derivatives(lambda z: gt.nn.cross_entropy(z, Y, **options), Z)
    check_derivatives(lambda z: gt.nn.cross_entropy(z, P, **options), Z)
    check_derivatives(lambda p: gt.nn.cross_entropy(Z, p, **options), P)
    if weight is not None:
        check_derivatives(lambda w: gt.nn.cross_entropy(Z, Y, **{**options, "weight": w}), W)


@pytest.mark.parametrize("weight, reduction", list(itertools.product([None, W], ["none", "mean", "sum"])))
def test_nll_loss_is_cross_entropy_after_log_softmax(weight, reduction):
    got = gt.nn.nll_loss(gt.log_softmax(Z), Y, weight, reduction=reduction)
    close(got, torch_cross_entropy(Z, Y, weight, reduction=reduction), rtol=1e-12)
    check_derivatives(lambda z: gt.nn.nll_loss(z, Y, weight, reduction=reduction), Z)


def test_classes_are_the_second_axis():
    z = RNG.standard_normal((2, 4, 3, 5))
    y = RNG.integers(0, 4, (2, 3, 5))
    flat = z.transpose(0, 2, 3, 1).reshape(-1, 4)
    for f in (gt.nn.cross_entropy, lambda z, y, **k: gt.nn.nll_loss(gt.log_softmax(z, 1), y, **k)):
        close(f(z, y), torch_cross_entropy(flat, y.ravel()), rtol=1e-12)
        close(f(z, y, reduction="none"), torch_cross_entropy(flat, y.ravel(), reduction="none").reshape(2, 3, 5))
    close(gt.nn.cross_entropy(Z[0], 3), torch_cross_entropy(Z[:1], np.array([3])), rtol=1e-12)
    close(gt.nn.cross_entropy(Z[0], P[0], reduction="none"), torch_cross_entropy(Z[:1], P[:1]), rtol=1e-12)


def test_label_smoothing_does_not_count_ignored_rows():
    z = f32([[1, 2, 0.5], [3, -1, 0], [0, 0, 4], [-2, 1, 1]])
    t = np.array([0, -100, 2, 1], np.int32)
    value, grads = gt.value_and_grad(lambda z: gt.nn.cross_entropy(z, t, label_smoothing=0.2))(z)
    close(value, 0.9726936675076135)
    close(grads[0], [-0.21181425634817252, 0.1872883508483653, 0.02452590549980728], atol=1e-7)
    same(grads[1], f32([0, 0, 0]))


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
@pytest.mark.parametrize("smoothing, weight", [(0.0, None), (0.1, W)])
def test_an_ignored_row_contributes_exactly_0_whatever_is_in_it(poison, smoothing, weight):
    z = Z.copy()
    z[2] = poison

    def loss(z):
        return gt.nn.cross_entropy(z, Y, weight, label_smoothing=smoothing)

    close(loss(z), torch_cross_entropy(Z, Y, weight, smoothing=smoothing))
    grads = gt.grad(loss)(z)
    same(grads[2], np.zeros(4))
    close(grads, gt.grad(loss)(Z), rtol=1e-12)
    second = gt.grad(lambda z: gt.sum(gt.grad(loss)(z) * Z))(z)
    same(second[2], np.zeros(4))
    assert np.isfinite(second).all()


def test_a_class_at_minus_infinity_costs_nothing_where_it_is_not_the_label():
    z = f32([[0, -INF, 0], [-INF, 0, 0]])
    value, grads = gt.value_and_grad(gt.nn.cross_entropy)(z, np.array([0, 2]))
    close(value, math.log(2))
    close(grads, [[-0.25, 0, 0.25], [0, 0.25, -0.25]])
    same(gt.nn.cross_entropy(z, [1, 0], reduction="none"), f32([INF, INF]))


def test_cross_entropy_neither_overflows_nor_cancels():
    z = f32([[1000, 0, -1000], [-1000, 0, 1000]])
    value, grads = gt.value_and_grad(lambda z: gt.nn.cross_entropy(z, np.array([1, 2]), reduction="sum"))(z)
    close(value, 1000)
    close(grads, [[1, -1, 0], [0, 0, 0]])
    close(gt.nn.cross_entropy(f32([[30, 0]]), [1]), 30)


def test_all_rows_ignored_is_nan_as_in_pytorch_with_gradient_0():
    for f in (gt.nn.cross_entropy, gt.nn.nll_loss):
        value, grads = gt.value_and_grad(f)(f32(Z), np.full(6, -100))
        assert math.isnan(value.item())
        same(grads, np.zeros((6, 4), np.float32))
    close(gt.nn.cross_entropy(f32(Z), np.full(6, -100), reduction="sum"), 0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("label", [4, -1, -99, 2**31 - 1])
def test_a_label_out_of_range_raises(label, dtype):
    y = np.array([0, label], dtype)
    for f in (gt.nn.cross_entropy, gt.nn.nll_loss):
        with pytest.raises(IndexError, match=f"{label} is out of range"):
            f(f32(Z[:2]), y)
        with pytest.raises(IndexError, match="-100 is out of range"):
            f(f32(Z[:2]), np.array([0, -100], dtype), ignore_index=None)
        graph = gt.trace(f, f32(Z[:2]), y)
        with pytest.raises(IndexError, match=f"{label} is out of range"):
            run(graph, [f32(Z[:2]), y])


def test_an_index_to_ignore_may_be_anything():
    big = np.array([0, 2**32, 3])
    close(gt.nn.cross_entropy(Z[:3], big, ignore_index=2**32), torch_cross_entropy(Z[:3], big, ignore=2**32))
    close(
        gt.nn.cross_entropy(Z, np.where(Y < 0, 0, Y), ignore_index=None), torch_cross_entropy(Z, np.where(Y < 0, 0, Y))
    )


def test_classification_losses_refuse():
    for f in (gt.nn.cross_entropy, gt.nn.nll_loss):
        with pytest.raises(ShapeError, match="one label is needed per row"):
            f(gt.ones((2, 3)), [0, 0, 0])
        with pytest.raises(ShapeError, match="classes are axis 1"):
            f(gt.ones((2, 5, 3)), np.zeros((2, 5), int))
        with pytest.raises(ShapeError, match="weight"):
            f(gt.ones((2, 3)), [0, 0], weight=gt.ones(2))
        with pytest.raises(ShapeError):
            f(1.0, 0)
        with pytest.raises(DTypeError, match="labels must be integers"):
            f(gt.ones((2, 3)), np.array([True, False]))
    with pytest.raises(DTypeError, match="labels must be integers"):
        gt.nn.nll_loss(gt.ones((2, 3)), gt.ones((2, 3)))
    with pytest.raises(ShapeError, match="probabilities"):
        gt.nn.cross_entropy(gt.ones((2, 3)), gt.ones(2))
    for smoothing in (-0.1, 1.5, NAN):
        with pytest.raises(OptionError, match="label_smoothing"):
            gt.nn.cross_entropy(gt.ones((2, 3)), [0, 0], label_smoothing=smoothing)
    with pytest.raises(OptionError, match="ignore_index"):
        gt.nn.cross_entropy(gt.ones((2, 3)), gt.ones((2, 3)), ignore_index=1)


# ---- derivatives and graphs of the others ----------------------------------------------------------------

SMOOTH = {
    "mean": lambda x: gt.mean(x, axis=0),
    "var": lambda x: gt.var(x, axis=1, correction=1),
    "std": lambda x: gt.std(x, axis=(0, 1)),
    "norm": lambda x: gt.norm(x, axis=1),
    "norm of all": gt.norm,
    "relu": gt.relu,
    "leaky_relu": gt.leaky_relu,
    "silu": gt.silu,
    "log_sigmoid": gt.log_sigmoid,
    "clip": lambda x: gt.clip(x, -0.5, 0.6),
    "linear": lambda x: gt.nn.linear(x, gt.reshape(gt.arange(8.0), (4, 2)), gt.ones(2)),
    "dot": lambda x: gt.dot(x, gt.arange(4.0)),
    "vecdot": lambda x: gt.vecdot(x, x * 2),
    "outer": lambda x: gt.outer(x, x),
    "tensordot": lambda x: gt.tensordot(x, gt.reshape(gt.arange(24.0), (2, 4, 3)), axes=((1, 0), (1, 2))),
    "swapaxes": lambda x: gt.swapaxes(x, 0, 1),
    "unstack": lambda x: gt.unstack(x, axis=1)[2] * gt.unstack(x)[1][0],
    "meshgrid": lambda x: gt.meshgrid(x[0], x[1])[0] * gt.meshgrid(x[0], x[1])[1],
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    check_derivatives(SMOOTH[name], RNG.standard_normal((3, 4)))


@pytest.mark.parametrize("name", SMOOTH)
def test_traced_graphs_keep_the_laws_and_mean_the_same(name):
    x = RNG.standard_normal((3, 4)).astype(np.float32)

    def loss(x):
        return gt.sum(SMOOTH[name](x))

    graph = gt.trace(gt.value_and_grad(loss), x)
    check_graph(graph)
    value, grads = gt.value_and_grad(loss)(x)
    for got, wanted in zip(run(graph, [x]), (value, grads), strict=True):
        close(got, wanted, atol=1e-6)


def agree(got, wanted):
    """Compiled results equal evaluated ones to a few roundings, infinities and NaN in the same places."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        close(a, b, rtol=2e-6, atol=1e-6)


def test_compiled_functions_are_the_evaluated_ones():
    def everything(x):
        losses = [lambda x, f=f: gt.sum(gt.sin(f(x))) for f in SMOOTH.values()]
        return [t for loss in losses for t in (loss(x), gt.grad(loss)(x))]

    x = RNG.standard_normal((3, 4)).astype(np.float32)
    agree(gt.compile(everything)(x), everything(x))


def test_compiled_functions_are_the_evaluated_ones_on_awkward_values():
    def everything(x):
        functions = [gt.relu, gt.leaky_relu, gt.silu, gt.log_sigmoid, gt.softmax, gt.log_softmax, gt.logsumexp]
        functions += [lambda x: gt.clip(x, -1, 1), lambda x: gt.clip(x, NAN, 1), lambda x: gt.norm(x, axis=1)]
        functions += [lambda x: gt.std(x, axis=1), gt.nn.layer_norm, lambda x: gt.nn.huber_loss(x, 0.0, "none")]
        return [t for f in functions for t in (f(x), gt.grad(lambda x, f=f: gt.sum(f(x)))(x))]

    rows = [[0, -0.0, 1, -1], [1e-40, -1e-40, 3e38, -3e38], [INF, 1, 2, 3], [-INF, 1, 2, 3], [-INF] * 4, [NAN, 1, 2, 3]]
    x = f32([*rows, [5, 5, 5, 5], [1e-30, 2e-30, 0, 0]])
    agree(gt.compile(everything)(x), everything(x))


def test_compiled_losses_are_the_evaluated_ones():
    def everything(z, y, p, w):
        losses = [
            lambda z: gt.nn.cross_entropy(z, y),
            lambda z: gt.sum(gt.nn.cross_entropy(z, y, w, label_smoothing=0.1, reduction="none")),
            lambda z: gt.nn.cross_entropy(z, p, w, label_smoothing=0.1),
            lambda z: gt.nn.nll_loss(z, y, w, reduction="sum"),
            lambda z: gt.nn.mse_loss(z, p),
        ]
        return [t for loss in losses for t in (loss(z), gt.grad(loss)(z))]

    z, p, w = f32(Z), f32(P), f32(W)
    z[2] = NAN  # the row that Y ignores
    for y in (Y, Y.astype(np.int32)):
        agree(gt.compile(everything)(z, y, p, w), everything(z, y, p, w))


@pytest.mark.parametrize("label", [4, -1, -99, 2**31 - 1])
def test_a_label_out_of_range_raises_from_the_compiled_call(label):
    compiled = gt.compile(gt.value_and_grad(gt.nn.cross_entropy))
    compiled(f32(Z[:2]), np.array([0, 3]))
    with pytest.raises(IndexError, match=f"{label} is out of range"):
        compiled(f32(Z[:2]), np.array([0, label]))
    with pytest.raises(IndexError, match=f"{label} is out of range"):
        gt.compile(lambda y: gt.one_hot(y, 4))(np.array([0, label], np.int32))


def test_cross_entropy_picks_without_indexing():
    graph = gt.trace(gt.grad(gt.nn.cross_entropy), gt.spec((8, 10)), gt.spec((8,), "int32"))
    check_graph(graph)
    assert not {eqn.prim.kind for eqn in graph.eqns} & {"gather", "scatter"}
    assert [eqn.prim.name for eqn in graph.eqns if eqn.params.get("axis") == (1,)] == ["max", "sum", "sum"]


# ---- products and layouts --------------------------------------------------------------------------------


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

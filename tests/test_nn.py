"""Activations, functions of rows and layers: values against NumPy in float64 and closed forms, kinks, what is
masked, and wrong use.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, IndexingError, OptionError, ShapeError
from tests.values import check_derivatives, close, f32, log_sum, same

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(5)

# ---- activations ----------------------------------------------------------------------------------------------

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


# ---- rows -----------------------------------------------------------------------------------------------------

ROW_AXES = [(-1, (3,)), (0, (5,)), (0, (2, 3)), (1, (2, 3)), (-2, (2, 3, 4)), ((0, 2), (2, 3, 4)), (None, (2, 3))]


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


# ---- layers ---------------------------------------------------------------------------------------------------


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


# ---- dropout --------------------------------------------------------------------------------------------------

KEY = gt.random.key(3)


def dropout_loss(x, w, rate, key):
    return gt.sum(gt.nn.dropout(gt.tanh(x @ w), rate, key) ** 2)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout_drops_and_scales(rate):
    x = f32(RNG.standard_normal((300, 200)))
    y = gt.nn.dropout(x, rate, KEY).numpy()
    kept = gt.random.uniform(KEY, x.shape).numpy() >= rate
    same(y, np.where(kept, x * np.float32(1 / (1 - rate) if rate < 1 else 1), np.float32(0)))
    assert abs(kept.mean() - (1 - rate)) <= 4 * math.sqrt(rate * (1 - rate) / kept.size)
    same(gt.compile(gt.nn.dropout)(x, np.float32(rate), KEY), gt.nn.dropout(x, np.float32(rate), KEY))
    same(gt.compile(lambda x, key: gt.nn.dropout(x, rate, key))(x, KEY), y)
    same(gt.nn.dropout(x, rate, KEY, training=False), x)
    same(gt.nn.dropout(x.astype(np.float64), rate, KEY).numpy() == 0, y == 0)


def test_dropped_elements_are_exactly_0_whatever_they_were():
    x = np.array([NAN, INF, -INF, 1.0] * 50, np.float32)
    kept = gt.nn.dropout(np.ones(200, np.float32), 0.5, KEY).numpy() != 0
    y = gt.nn.dropout(x, 0.5, KEY).numpy()
    same(y[~kept], np.zeros((~kept).sum(), np.float32))
    same(y[kept], x[kept] * 2)
    grads = gt.compile(gt.grad(lambda x, key: gt.sum(gt.nn.dropout(gt.log(x), 0.5, key))))(
        np.zeros(200, np.float32), KEY
    )
    same(grads, np.where(kept, np.float32(INF), np.float32(0)))


@pytest.mark.parametrize("way", [lambda f: f, gt.compile])
def test_forward_and_backward_share_one_mask(way):
    """The mask is found from each of them alone: from the zeros of the output, and from those of the gradient."""
    x, w = f32(RNG.uniform(0.1, 0.3, (64, 8))), f32(RNG.uniform(0.1, 0.3, (8, 96)))

    def both(x, w, key):
        drop = lambda h: gt.nn.dropout(h, 0.4, key)  # noqa: E731
        y, pull = gt.vjp(lambda h: drop(gt.tanh(h)), x @ w)
        return y, pull(gt.ones(y.shape))[0]

    masks = []
    for seed in range(3):
        y, g = (np.asarray(out) for out in way(both)(x, w, gt.random.key(seed)))
        same(y == 0, g == 0)
        h = np.tanh((x @ w).astype(np.float64))
        close(g, np.where(y != 0, (1 - h * h) / 0.6, 0), rtol=1e-4, atol=1e-5)
        masks.append((y == 0).tobytes())
    assert len(set(masks)) == 3


def test_compiled_gradients_through_dropout_are_those_of_the_mask():
    x, w = f32(RNG.standard_normal((16, 8))), f32(RNG.standard_normal((8, 32)))
    loss, grads = gt.compile(gt.value_and_grad(dropout_loss, (0, 1)))(x, w, 0.25, KEY)
    mask = gt.nn.dropout(np.ones((16, 32)), 0.25, KEY).numpy()
    h = np.tanh(x.astype(np.float64) @ w)
    close(loss, ((h * mask) ** 2).sum(), rtol=1e-5)
    d = 2 * h * mask**2 * (1 - h * h)
    close(grads[0], d @ w.T, rtol=1e-4, atol=1e-4)
    close(grads[1], x.T @ d, rtol=1e-4, atol=1e-4)


def test_dropout_refuses():
    with pytest.raises(OptionError, match="rate must be in"):
        gt.nn.dropout(gt.ones(3), 1.5, KEY)
    with pytest.raises(DTypeError, match="the key is") as caught:
        gt.nn.dropout(gt.ones(3), 0.5, 0)
    assert "gt.random.key(seed)" in caught.value.hint
    assert gt.nn.dropout([1, 2], 0.5, None, training=False).dtype == gt.float32

"""Pools, resizing and channel norms against loops and formulas in float64; ties, borders, derivatives, compiled."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ShapeError
from tests import conv_reference as reference
from tests.values import agree, close, f32, same

RNG = np.random.default_rng(11)
MAX = {1: gt.nn.max_pool1d, 2: gt.nn.max_pool2d, 3: gt.nn.max_pool3d}
AVG = {1: gt.nn.avg_pool1d, 2: gt.nn.avg_pool2d, 3: gt.nn.avg_pool3d}
CASES = [
    # x, window, stride, padding, dilation
    ((2, 9), (3,), (3,), (0,), (1,)),
    ((2, 3, 10), (3,), (2,), (1,), (2,)),
    ((2, 7, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((2, 2, 13, 5), (6, 2), (6, 2), (0, 0), (1, 1)),
    ((1, 2, 6, 7), (3, 2), (2, 1), (1, 1), (1, 2)),
    ((2, 4, 5, 6), (2, 1, 3), (1, 2, 3), (0, 0, 1), (1, 1, 1)),
    ((2, 6, 8), (3, 2), (2, 3), ((2, 0), (0, 1)), (1, 1)),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


def close12(got, wanted):
    close(got, wanted, rtol=1e-12, atol=1e-12)


@cases
def test_max_pool(case):
    shape, window, stride, padding, dilation = case
    x = RNG.standard_normal(shape)
    f = MAX[len(window)]
    close12(f(x, window, stride, padding, dilation), reference.pool(x, np.max, *case[1:], -math.inf))
    gt.check_grads(lambda x: f(x, window, stride, padding, dilation), (x,), order=2)
    whole = (10 * x).astype(np.int32)
    lowest = np.iinfo(np.int32).min
    np.testing.assert_array_equal(
        f(whole, window, stride, padding, dilation), reference.pool(whole, np.max, *case[1:], lowest)
    )


@cases
def test_avg_pool(case):
    shape, window, stride, padding, _ = case
    x, plain = RNG.standard_normal(shape), (1,) * len(window)
    f = AVG[len(window)]
    close12(f(x, window, stride, padding), reference.pool(x, np.mean, window, stride, padding, plain, 0.0))
    inside = reference.pool(x, np.nanmean, window, stride, padding, plain, np.nan)
    close12(f(x, window, stride, padding, count_include_pad=False), inside)
    for counted in (False, True):
        gt.check_grads(lambda x, c=counted: f(x, window, stride, padding, count_include_pad=c), (x,), order=2)


@cases
def test_pools_compiled(case):
    shape, window, stride, padding, dilation = case
    x, axes = f32(RNG.standard_normal(shape)), len(window)

    def pools(x):
        first = MAX[axes](gt.tanh(x), window, stride, padding, dilation)
        inside = AVG[axes](x, window, stride, padding, count_include_pad=False)
        return first, AVG[axes](gt.tanh(x), window, stride, padding), inside

    def call(x):
        loss = gt.grad(lambda x: sum((gt.sum(y**2) for y in pools(x)), gt.tensor(0.0)))
        return *pools(x), loss(x)

    agree(gt.compile(call)(x), call(x))


def test_ties_share_and_nan_stays():
    x = np.array([[1.0, 3.0, 3.0, 3.0], [2.0, 0.0, 3.0, -1.0]])
    wanted = [[0, 1, 1 / 3, 1 / 3], [0, 0, 1 / 3, 0]]
    loss = gt.grad(lambda x: gt.sum(gt.nn.max_pool2d(x, 2)))
    close(loss(x), wanted)
    close(gt.compile(loss)(x), wanted)
    x[0, 0] = np.nan
    for pooled in (gt.nn.max_pool2d(x, 2), gt.compile(lambda x: gt.nn.max_pool2d(x, 2))(x)):
        np.testing.assert_array_equal(pooled, [[np.nan, 3.0]])
    close(gt.nn.max_pool1d(np.array([-5.0, -7.0]), 2, padding=1), [-5.0, -7.0])


CEIL_CASES = [
    # x, window, stride, padding, dilation, the extents of the result
    ((2, 5), (2,), (2,), (0,), (1,), (3,)),
    ((2, 6), (2,), (2,), (0,), (1,), (3,)),
    ((2, 7), (3,), (3,), (1,), (1,), (3,)),  # a fourth window would start in the border behind
    ((2, 2), (1,), (2,), (0,), (1,), (1,)),
    ((1, 8), (3,), (3,), ((2, 0),), (2,), (3,)),
    ((2, 4, 7), (3, 2), (2, 2), (0, 1), (1, 2), (2, 4)),
    ((1, 3, 4, 4), (2, 2, 3), (2, 2, 2), (1, 0, 1), (1, 1, 1), (2, 2, 3)),
]


@pytest.mark.parametrize("case", CEIL_CASES, ids=str)
def test_ceil_mode(case):
    shape, window, stride, padding, dilation, extents = case
    x, axes = RNG.standard_normal(shape), len(window)
    how = (window, stride, padding)

    def pools(x):
        return (
            MAX[axes](x, *how, dilation, True),
            AVG[axes](x, *how, True, dilation=dilation),
            AVG[axes](x, *how, True, False, dilation=dilation),
        )

    folds = ((np.max, -math.inf), (np.mean, 0.0), (np.nanmean, np.nan))
    for found, (fold, border) in zip(pools(x), folds, strict=True):
        assert found.shape[-axes:] == extents
        close12(found, reference.pool(x, fold, *how, dilation, border, ceil=True))
    agree(gt.compile(pools)(f32(x)), pools(f32(x)))
    for i in range(3):
        gt.check_grads(lambda x, i=i: pools(x)[i], (x,), order=2)


def test_a_mean_with_dilation():
    x = RNG.standard_normal((2, 9, 8))
    wanted = reference.pool(x, np.mean, (2, 3), (2, 1), (0, 1), (3, 2), 0.0)
    close12(gt.nn.avg_pool2d(x, (2, 3), (2, 1), (0, 1), dilation=(3, 2)), wanted)


@pytest.mark.parametrize("case", [case[:5] for case in CEIL_CASES] + CASES, ids=str)
def test_indices_of_the_largest(case):
    shape, window, stride, padding, dilation = case
    x, axes = f32(RNG.integers(-3, 3, shape)), len(window)  # with ties

    def f(x):
        return MAX[axes](x, window, stride, padding, dilation, True, return_indices=True)

    low, unknown = np.full(shape, -np.inf, np.float32), x.copy()
    unknown[..., -1] = np.nan
    lead = x.shape[: x.ndim - axes]
    for array in (x, low, unknown):
        largest, places = map(np.asarray, f(array))
        np.testing.assert_array_equal(largest, MAX[axes](array, window, stride, padding, dilation, True))
        found = np.take_along_axis(array.reshape(*lead, -1), places.reshape(*lead, -1), -1)
        np.testing.assert_array_equal(found.reshape(largest.shape), largest)
        for got, wanted in zip(gt.compile(f)(array), (largest, places), strict=True):
            same(got, wanted)
    numbers = np.arange(math.prod(shape[x.ndim - axes :])).reshape(shape[x.ndim - axes :])
    first = reference.pool(x - numbers / 1000, np.max, window, stride, padding, dilation, -math.inf, ceil=True)
    largest, places = map(np.asarray, f(x))
    close12(largest - places / 1000, first)  # of equal ones the first


def test_pools_of_a_batch():
    """By vmap, and of a number of pictures that is known at run time only."""

    def f(x):
        found = gt.nn.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)
        return *found, gt.nn.avg_pool2d(x, 3, 2, [(0, 1), (2, 0)], ceil_mode=True, count_include_pad=False)

    x = f32(RNG.integers(-3, 3, (5, 2, 7, 6)))
    agree(gt.vmap(f)(x), f(x))
    some = gt.compile(f).trace(gt.spec(("B", 2, 7, 6), max={"B": 8})).lower().compile()
    for count in (1, 5):
        agree(some(x[:count]), f(x[:count]))


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (4, 6), (None, 5), (2, 7)], ids=str)
def test_adaptive_pools(sizes):
    x = RNG.standard_normal((2, 3, 8, 6 if sizes != (2, 7) else 9))
    counts = [n if k is None else k for n, k in zip(x.shape[2:], sizes, strict=True)]
    for f, fold in ((gt.nn.adaptive_avg_pool2d, np.mean), (gt.nn.adaptive_max_pool2d, np.max)):
        wanted = np.empty((2, 3, *counts))
        for at in itertools.product(*map(range, counts)):
            cut = [
                slice(i * n // k, math.ceil((i + 1) * n / k)) for i, n, k in zip(at, x.shape[2:], counts, strict=True)
            ]
            wanted[(..., *at)] = fold(x[(..., *cut)], axis=(2, 3))
        close12(f(x, sizes), wanted)
        agree([gt.compile(lambda x, f=f: f(x, sizes))(f32(x))], [f(f32(x), sizes)])
    gt.check_grads(lambda x: gt.nn.adaptive_avg_pool2d(x, sizes), (x,), order=2)
    gt.check_grads(lambda x: gt.nn.adaptive_max_pool2d(x, sizes), (x[:1, :1],), order=2)


def test_adaptive_pools_of_one_and_three_axes():
    x = RNG.standard_normal((3, 10))
    parts = [x[:, :4], x[:, 3:7], x[:, 6:]]
    close12(gt.nn.adaptive_avg_pool1d(x, 3), np.stack([p.mean(1) for p in parts], 1))
    close12(gt.nn.adaptive_max_pool1d(x, 3), np.stack([p.max(1) for p in parts], 1))
    cube = RNG.standard_normal((2, 4, 4, 6))
    close12(gt.nn.adaptive_avg_pool3d(cube, 1)[..., 0, 0, 0], cube.mean((1, 2, 3)))
    close12(gt.nn.adaptive_max_pool3d(cube, (2, 2, 3))[:, 1, 0, 2], cube[:, 2:, :2, 4:].max((1, 2, 3)))


def test_uneven_parts_see_only_their_elements():
    x = np.array([1.0, 2.0, np.nan, 4.0, 5.0])  # parts 0:2, 1:4 and 3:5
    for f, wanted in ((gt.nn.adaptive_avg_pool1d, [1.5, np.nan, 4.5]), (gt.nn.adaptive_max_pool1d, [2, np.nan, 5])):
        np.testing.assert_array_equal(f(x, 3), wanted)
        np.testing.assert_array_equal(gt.compile(lambda x, f=f: f(x, 3))(x), wanted)
    slope = gt.grad(lambda x: gt.nn.adaptive_max_pool1d(x, 2)[0])(np.array([3.0, 3.0, 3.0, 3.0, 3.0]))
    close12(slope, [1 / 3, 1 / 3, 1 / 3, 0, 0])
    low = gt.nn.adaptive_max_pool1d(np.array([-5, -4, -3, -2, -1]), 3)
    assert (low.dtype, low.tolist()) == (gt.int64, [-4, -2, -1])
    assert gt.nn.adaptive_max_pool1d(np.array([True, False, False, False, False]), 3).tolist() == [True, False, False]


def test_wrong_pools():
    x = gt.ones((2, 6, 6))
    with pytest.raises(OptionError, match="smaller than the window"):
        gt.nn.max_pool2d(x, 2, padding=2)
    with pytest.raises(OptionError, match="smaller than the window"):
        gt.nn.avg_pool2d(x, 2, padding=[(0, 0), (0, 2)])
    with pytest.raises(OptionError, match="kernel_size"):
        gt.nn.avg_pool2d(x, (2, 2, 2))
    for f in (gt.nn.max_pool2d, gt.nn.avg_pool2d):
        with pytest.raises(ShapeError, match="does not fit"):
            f(x, 7)
    with pytest.raises(ShapeError, match="must end in 3 axes"):
        gt.nn.max_pool3d(gt.ones((6, 6)), 2)
    with pytest.raises(OptionError, match="numbers"):
        gt.nn.max_pool2d(gt.ones((4, 4), gt.bool), 2)
    with pytest.raises(OptionError, match="output_size"):
        gt.nn.adaptive_avg_pool2d(x, 0)
    with pytest.raises(OptionError, match="output_size"):
        gt.nn.adaptive_avg_pool2d(x, (1, 2, 3))


# ---- resizing --------------------------------------------------------------------------------------------


def cubic(t, a=-0.75):
    """Keys's kernel, which is 1 at 0, and 0 at 1 and 2."""
    return ((a + 2) * t - (a + 3)) * t * t + 1 if t <= 1 else a * (((t - 5) * t + 8) * t - 4)


def line(x, new, mode, align, ratio=None):
    """The last axis at another size, by PyTorch's rules."""
    old = x.shape[-1]
    ratio = old / new if ratio is None else ratio
    out = np.empty((*x.shape[:-1], new))
    for i in range(new):
        if mode.startswith("nearest"):
            out[..., i] = x[..., min(math.floor((i + 0.5 * (mode == "nearest-exact")) * ratio), old - 1)]
            continue
        if mode == "bicubic":
            at = i * (old - 1) / max(new - 1, 1) if align else (i + 0.5) * ratio - 0.5
            near = [math.floor(at) + k for k in (-1, 0, 1, 2)]
            out[..., i] = sum(x[..., min(max(k, 0), old - 1)] * cubic(abs(at - k)) for k in near)
            continue
        at = i * (old - 1) / max(new - 1, 1) if align else max((i + 0.5) * ratio - 0.5, 0)
        low = min(math.floor(at), old - 1)
        out[..., i] = x[..., low] * (1 - (at - low)) + x[..., min(low + 1, old - 1)] * (at - low)
    return out


def resized(x, sizes, mode, align, ratios=None):
    for axis, new in enumerate(sizes, 2):
        ratio = None if ratios is None else ratios[axis - 2]
        x = np.moveaxis(line(np.moveaxis(x, axis, -1), new, mode, align, ratio), -1, axis)
    return x


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("sizes", [(8,), (3,), (4, 10), (7, 3), (1, 1), (2, 3, 8)], ids=str)
def test_resizing(sizes, align):
    x = RNG.standard_normal((2, 2, 4, 5, 4)[: 2 + len(sizes)])
    linear = ("linear", "bilinear", "trilinear")[len(sizes) - 1]
    smooth = (linear, "bicubic") if len(sizes) == 2 else (linear,)
    for mode in smooth if align else ("nearest", "nearest-exact", *smooth):

        def f(x, mode=mode):
            return gt.nn.interpolate(x, sizes, mode=mode, align_corners=align)

        close12(f(x), resized(x, sizes, mode, align))
        agree([gt.compile(f)(f32(x))], [f(f32(x))])
        gt.check_grads(f, (x[:1, :1],), order=2)


def test_scale_factors():
    x = RNG.standard_normal((1, 2, 5, 6))
    wanted = resized(x, (7, 14), "bilinear", False, (1 / 1.5, 1 / 2.4))
    close12(gt.nn.upsample(x, scale_factor=(1.5, 2.4), mode="bilinear"), wanted)
    close12(gt.nn.upsample(x, scale_factor=2), x.repeat(2, 2).repeat(2, 3))
    for mode in ("nearest", "nearest-exact", "bicubic"):
        wanted = resized(x, (7, 9), mode, False, (1 / 1.5, 1 / 1.5))
        close12(gt.nn.upsample(x, scale_factor=1.5, mode=mode), wanted)
    whole = np.arange(4)[None, None]
    np.testing.assert_array_equal(gt.nn.interpolate(whole, scale_factor=0.5), [[[0, 2]]])


def test_wrong_resizing():
    x = gt.ones((1, 1, 4))
    with pytest.raises(OptionError, match="mode"):
        gt.nn.interpolate(x, 2, mode="cubic")
    with pytest.raises(OptionError, match="one of size"):
        gt.nn.interpolate(x)
    with pytest.raises(ShapeError, match="bilinear"):
        gt.nn.interpolate(x, 2, mode="bilinear")
    with pytest.raises(OptionError, match="leaves nothing"):
        gt.nn.interpolate(x, scale_factor=0.1)
    with pytest.raises(OptionError, match="align_corners"):
        gt.nn.interpolate(x, 2, align_corners=True)
    with pytest.raises(OptionError, match="nearest-exact"):
        gt.nn.interpolate(x, 2, mode="nearest-exact", align_corners=True)


# ---- norms of channels -----------------------------------------------------------------------------------


def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 6), (2, 3, 4, 5)], ids=str)
def test_batch_norm(shape):
    x, column = RNG.standard_normal(shape) * 3 + 1, (3, *(1,) * (len(shape) - 2))
    w, b, m, v = RNG.standard_normal(3), RNG.standard_normal(3), RNG.standard_normal(3), RNG.uniform(0.5, 2, 3)
    axes = (0, *range(2, len(shape)))
    state = {"mean": m, "var": v}
    y, new = gt.nn.batch_norm(x, state, w, b, training=True, momentum=0.3)
    close12(y, normal(x, axes) * w.reshape(column) + b.reshape(column))
    close12(new["mean"], 0.7 * m + 0.3 * x.mean(axes))
    close12(new["var"], 0.7 * v + 0.3 * x.var(axes, ddof=1))
    y, same = gt.nn.batch_norm(x, state, w, b)
    close12(y, (x - m.reshape(column)) / np.sqrt(v.reshape(column) + 1e-5) * w.reshape(column) + b.reshape(column))
    close12(same["var"], v)
    for training in (False, True):
        gt.check_grads(lambda x, w, b, t=training: gt.nn.batch_norm(x, state, w, b, t)[0], (x, w, b), order=2)
    slope = gt.grad(lambda x: gt.sum(gt.nn.batch_norm(x, state, training=True)[1]["mean"]))(x)
    close(slope, np.zeros(shape))


def test_batch_norm_compiled_carries_its_state():
    layer = gt.nn.BatchNorm(3)
    params, state = layer.init(gt.random.key(0)), layer.init_state()

    @gt.compile
    def step(params, state, x):
        def loss(params, x):
            y, new = layer(params, state, x, training=True)
            return gt.sum(gt.sin(y)), new

        (value, new), slopes = gt.value_and_grad(loss, (0, 1), has_aux=True)(params, x)
        return value, new, slopes

    for _ in range(3):
        x = f32(RNG.standard_normal((4, 3, 5, 5)))
        value, new, slopes = step(params, state, x)
        y, wanted = layer(params, state, x, training=True)
        close(value, gt.sum(gt.sin(y)), 1e-5, 1e-5)
        close(new["mean"], wanted["mean"], 1e-5, 1e-6)
        close(new["var"], wanted["var"], 1e-5, 1e-6)
        eager = gt.grad(lambda p, x, state=state: gt.sum(gt.sin(layer(p, state, x, training=True)[0])), (0, 1))(
            params, x
        )
        close(slopes[1], eager[1], 1e-4, 1e-5)
        close(slopes[0]["w"], eager[0]["w"], 1e-4, 1e-4)
        state = new


def test_group_norm_and_instance_norm():
    x, w, b = RNG.standard_normal((2, 6, 4, 5)), RNG.standard_normal(6), RNG.standard_normal(6)
    column = (6, 1, 1)
    split = normal(x.reshape(2, 3, 2, 4, 5), (2, 3, 4)).reshape(x.shape)
    close12(gt.nn.group_norm(x, 3, w, b), split * w.reshape(column) + b.reshape(column))
    close12(gt.nn.instance_norm(x, w), normal(x, (2, 3)) * w.reshape(column))
    agree([gt.compile(lambda x: gt.nn.group_norm(x, 2))(f32(x))], [gt.nn.group_norm(f32(x), 2)])
    gt.check_grads(lambda x, w, b: gt.nn.group_norm(x, 3, w, b), (x[:1], w, b), order=2)
    gt.check_grads(lambda x: gt.nn.instance_norm(x), (x[:1, :2],), order=2)
    close(gt.nn.instance_norm(np.full((1, 2, 3), 7.0)), np.zeros((1, 2, 3)))


def test_wrong_norms():
    state = {"mean": gt.zeros(3), "var": gt.ones(3)}
    with pytest.raises(ShapeError, match="no variance"):
        gt.nn.batch_norm(gt.ones((1, 3)), state, training=True)
    with pytest.raises(ShapeError, match="weight"):
        gt.nn.batch_norm(gt.ones((2, 3)), state, gt.ones(2))
    with pytest.raises(ShapeError, match="state"):
        gt.nn.batch_norm(gt.ones((2, 4)), state)
    with pytest.raises(OptionError, match="num_groups"):
        gt.nn.group_norm(gt.ones((2, 4)), 3)
    with pytest.raises(OptionError, match="eps"):
        gt.nn.group_norm(gt.ones((2, 4)), 2, eps=-1)
    with pytest.raises(ShapeError, match="at least 3 axes"):
        gt.nn.instance_norm(gt.ones((2, 4)))


# ---- layers ----------------------------------------------------------------------------------------------


def test_layers_in_a_row():
    model = gt.nn.Sequential(
        gt.nn.Conv2d(1, 4, 3, padding="same"), gt.relu, gt.nn.MaxPool2d(2), gt.nn.GroupNorm(2, 4),
        gt.nn.Conv2d(4, 8, (3, 2), stride=2, groups=2, bias=False), gt.nn.AvgPool2d(2),
        gt.nn.Flatten(), gt.nn.Linear(8, 3),
    )  # fmt: skip
    params = model.init(gt.random.key(1))
    x = f32(RNG.standard_normal((5, 1, 14, 10)))
    h = gt.nn.max_pool2d(gt.relu(gt.nn.conv2d(x, params[0]["w"], params[0]["b"], padding=1)), 2)
    h = gt.nn.conv2d(gt.nn.group_norm(h, 2), params[4]["w"], stride=2, groups=2)
    wanted = gt.flatten(gt.nn.avg_pool2d(h, 2), 1)[:, :8] @ params[7]["w"]
    close(gt.compile(model)(params, x), wanted, 1e-5, 1e-6)
    spread = gt.nn.Conv2d(64, 32, 5).init(gt.random.key(0))["w"]
    assert abs(float(gt.std(spread)) * 40 - 1) < 0.02


@pytest.mark.parametrize(
    "make",
    [
        lambda: gt.nn.Conv2d(0, 1, 3),
        lambda: gt.nn.Conv2d(3, 4, (3, 3, 3)),
        lambda: gt.nn.Conv1d(3, 4, 3, groups=2),
        lambda: gt.nn.MaxPool2d(0),
        lambda: gt.nn.GroupNorm(3, 4),
        lambda: gt.nn.BatchNorm(-1),
    ],
)
def test_wrong_layers(make):
    with pytest.raises(OptionError):
        make()

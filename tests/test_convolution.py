"""Convolutions against loops in float64, over strides, paddings, dilations and groups; derivatives; compiled; vmap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

import gtensor as gt
from gtensor.errors import OptionError, ShapeError
from gtensor.nn import convolution
from tests import conv_reference as reference
from tests.values import agree, close, f32

RNG = np.random.default_rng(7)
CONV = {1: gt.nn.conv1d, 2: gt.nn.conv2d, 3: gt.nn.conv3d}
TURNED = {1: gt.nn.conv_transpose1d, 2: gt.nn.conv_transpose2d, 3: gt.nn.conv_transpose3d}

CASES = [
    # x, weight, stride, padding, dilation, groups
    ((2, 3, 9), (4, 3, 3), (1,), (0,), (1,), 1),
    ((2, 4, 11), (6, 2, 3), (2,), (2,), (2,), 2),
    ((1, 1, 5), (1, 1, 5), (3,), (0,), (1,), 1),
    ((2, 3, 6, 7), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 4, 7, 9), (4, 2, 3, 3), (2, 3), (1, 2), (1, 2), 2),
    ((1, 3, 5, 6), (6, 1, 2, 3), (1, 2), (0, 1), (2, 1), 3),
    ((2, 5, 4, 4), (3, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2), 1),
    ((2, 3, 6, 7), (4, 3, 3, 2), (2, 1), ((0, 1), (2, 0)), (1, 1), 1),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


def arrays(x, weight):
    return RNG.standard_normal(x), RNG.standard_normal(weight), RNG.standard_normal(weight[0])


@cases
def test_values(case):
    xs, ws, stride, padding, dilation, groups = case
    x, w, b = arrays(xs, ws)
    f, pairs = CONV[len(stride)], list(map(reference.both, padding))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    close(f(x, w, b, **options), reference.conv(x, w, b, stride, pairs, dilation, groups), rtol=1e-12, atol=1e-12)
    close(f(x[0], w, **options), reference.conv(x[:1], w, None, stride, pairs, dilation, groups)[0], 1e-12, 1e-12)
    small = f(f32(x), f32(w), f32(b), **options)
    assert small.dtype == gt.float32
    close(small, reference.conv(x, w, b, stride, pairs, dilation, groups), rtol=1e-5, atol=1e-5)


@cases
def test_compiled(case):
    xs, ws, stride, padding, dilation, groups = case
    x, w, b = map(f32, arrays(xs, ws))
    f = CONV[len(stride)]

    def call(x, w, b):
        def loss(x, w, b):
            return gt.sum(gt.tanh(f(x, w, b, stride, padding, dilation, groups)) ** 2)

        return f(x, w, b, stride, padding, dilation, groups), *gt.grad(loss, (0, 1, 2))(x, w, b)

    agree([np.asarray(a) / 4 for a in gt.compile(call)(x, w, b)], [np.asarray(a) / 4 for a in call(x, w, b)])


@cases
def test_derivatives(case):
    xs, ws, stride, padding, dilation, groups = case
    f = CONV[len(stride)]
    gt.check_grads(lambda x, w, b: f(x, w, b, stride, padding, dilation, groups), arrays(xs, ws), order=2)


def test_same_and_valid_padding():
    x, w, _ = arrays((1, 2, 6, 7), (3, 2, 4, 3))
    wanted = reference.conv(x, w, None, (1, 1), [(3, 3), (1, 1)], (2, 1), 1)
    assert gt.nn.conv2d(x, w, padding="same", dilation=(2, 1)).shape == (1, 3, 6, 7)
    close(gt.nn.conv2d(x, w, padding="same", dilation=(2, 1)), wanted, 1e-12, 1e-12)
    even = reference.conv(x, w, None, (1, 1), [(1, 2), (1, 1)], (1, 1), 1)
    close(gt.nn.conv2d(x, w, padding="same"), even, 1e-12, 1e-12)
    valid = reference.conv(x, w, None, (1, 1), [(0, 0), (0, 0)], (1, 1), 1)
    close(gt.nn.conv2d(x, w, padding="valid"), valid, 1e-12, 1e-12)


def test_scipy_agrees():
    x, w = RNG.standard_normal((9, 8)), RNG.standard_normal((3, 4))
    close(gt.nn.conv2d(x[None], w[None, None])[0], signal.correlate2d(x, w, "valid"), 1e-12, 1e-12)
    full = gt.nn.conv_transpose2d(x[None], w[None, None])[0]
    close(full, signal.convolve2d(x, w, "full"), 1e-12, 1e-12)


TURNED_CASES = [
    # x, weight, stride, padding, output_padding, dilation, groups
    ((2, 3, 5), (3, 4, 3), (1,), (0,), (0,), (1,), 1),
    ((2, 4, 5), (4, 2, 3), (2,), (1,), (1,), (2,), 2),
    ((2, 3, 3, 4), (3, 2, 3, 2), (2, 3), (1, 0), (1, 2), (1, 1), 1),
    ((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), (1, 2, 2), (0, 1, 1), (0, 0, 1), (1, 1, 1), 1),
    ((2, 3, 3, 4), (3, 2, 3, 2), (2, 3), ((1, 0), (0, 2)), (0, 1), (1, 1), 1),
]


@pytest.mark.parametrize("case", TURNED_CASES, ids=str)
def test_transposed(case):
    xs, ws, stride, padding, extra, dilation, groups = case
    x, w, b = RNG.standard_normal(xs), RNG.standard_normal(ws), RNG.standard_normal(ws[1] * groups)
    f = TURNED[len(stride)]

    def call(x, w, b):
        return f(x, w, b, stride, padding, extra, groups, dilation)

    wanted = reference.conv_transpose(x, w, b, stride, padding, extra, dilation, groups)
    close(call(x, w, b), wanted, 1e-12, 1e-12)
    close(call(x[0], w, b), wanted[0], 1e-12, 1e-12)
    close(gt.compile(call)(f32(x), f32(w), f32(b)), wanted, 1e-5, 1e-5)
    gt.check_grads(call, (x, w, b), order=2)


def test_the_transpose_is_the_derivative_of_the_convolution():
    x, w = RNG.standard_normal((2, 3, 7, 8)), RNG.standard_normal((4, 3, 3, 2))
    y = RNG.standard_normal((2, 4, 3, 4))
    slope = gt.grad(lambda x: gt.sum(gt.nn.conv2d(x, w, stride=2) * y))(x)
    close(slope[..., :7, :8], gt.nn.conv_transpose2d(y, w, stride=2), 1e-12, 1e-12)


def test_a_batch_known_at_run_time():
    w, b = f32(RNG.standard_normal((4, 2, 3, 3))), f32(RNG.standard_normal(4))

    def f(x):
        def loss(x, w):
            return gt.sum(gt.nn.max_pool2d(gt.relu(gt.nn.conv2d(x, w, b, padding=1)), 2) ** 2)

        return loss(x, w), *gt.grad(loss, (0, 1))(x, w)

    step = gt.compile(f).trace(gt.spec(("B", 2, 6, 6), max={"B": 9})).lower().compile()
    for count in (1, 4, 9):
        x = f32(RNG.standard_normal((count, 2, 6, 6)))
        for got, wanted in zip(step(x), f(x), strict=True):
            close(got, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("block", [1, 600])
def test_blocks_of_examples(block, monkeypatch):
    x, w, b = RNG.standard_normal((6, 2, 4, 5)), RNG.standard_normal((4, 1, 2, 3)), RNG.standard_normal(4)

    def f(x, w, b):
        return gt.nn.conv2d(x, w, b, (1, 2), 1, groups=2)

    def slopes(x, w, b):
        return gt.grad(lambda *args: gt.sum(gt.sin(f(*args))), (0, 1, 2))(x, w, b)

    wanted = f(x, w, b), *slopes(x, w, b)
    monkeypatch.setattr(convolution, "AT_ONCE", 0)
    monkeypatch.setattr(convolution, "BLOCK", 8 * block)
    for got, value in zip((f(x, w, b), *slopes(x, w, b)), wanted, strict=True):
        close(got, value, 1e-12, 1e-12)
    assert any(eqn.prim.name == "scan" for eqn in gt.trace(f, x, w, b).eqns)
    compiled = gt.compile(lambda x, w, b: (f(x, w, b), *slopes(x, w, b)))
    for got, value in zip(compiled(x, w, b), wanted, strict=True):
        close(got, value, 1e-12, 1e-12)
    gt.check_grads(f, (x[:3], w, b), order=2)


def test_nothing_is_read_outside_the_windows():
    """Elements behind the last whole window are not touched: NaN there does not spread, and they have gradient 0."""
    x = np.zeros((1, 1, 6))
    x[..., 5] = np.nan
    w = np.ones((1, 1, 3))
    close(gt.nn.conv1d(x, w, stride=2), np.zeros((1, 1, 2)))
    close(gt.grad(lambda x: gt.sum(gt.nn.conv1d(x, w, stride=2)))(x), [[[1, 1, 2, 1, 1, 0]]])


def test_wrong_use():
    x, w = gt.ones((2, 3, 8, 8)), gt.ones((4, 3, 3, 3))
    with pytest.raises(ShapeError, match="takes 3 channels"):
        gt.nn.conv2d(gt.ones((2, 4, 8, 8)), w)
    with pytest.raises(OptionError, match="cannot be divided into groups=3"):
        gt.nn.conv2d(x, w, groups=3)
    with pytest.raises(ShapeError, match="weight must have 4 axes"):
        gt.nn.conv2d(x, gt.ones((4, 3, 3)))
    with pytest.raises(ShapeError, match="x must have 4 axes"):
        gt.nn.conv2d(gt.ones((8, 8)), w)
    with pytest.raises(ShapeError, match=r"bias must be \[4\]"):
        gt.nn.conv2d(x, w, gt.ones(3))
    with pytest.raises(ShapeError, match="a window of 9 does not fit an axis of 8"):
        gt.nn.conv2d(x, w, dilation=4)
    with pytest.raises(OptionError, match="'same' needs a stride of 1"):
        gt.nn.conv2d(x, w, stride=2, padding="same")
    with pytest.raises(OptionError, match="padding must be"):
        gt.nn.conv2d(x, w, padding="full")
    with pytest.raises(OptionError, match="padding must have 2 pairs"):
        gt.nn.conv2d(x, w, padding=[(1, 0)])
    with pytest.raises(OptionError, match="padding must be one or 2 integers of at least 0"):
        gt.nn.conv2d(x, w, padding=[(1, 0), (0, -1)])
    with pytest.raises(OptionError, match="stride must be one or 2 integers of at least 1"):
        gt.nn.conv2d(x, w, stride=0)
    with pytest.raises(OptionError, match="output_padding"):
        gt.nn.conv_transpose2d(x, gt.ones((3, 1, 2, 2)), output_padding=1)

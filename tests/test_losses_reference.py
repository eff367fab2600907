"""gt.nn losses against PyTorch's numbers (tests/loss_reference.py says how they were made), their derivatives,
awkward points, and wrong use of those that test_losses.py does not cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ShapeError
from tests.loss_reference import CASES, LOSSES, P, Q, W, X, Y
from tests.values import check_derivatives, close, f32, same
from tests.ways import agreed

NAN, INF = math.nan, math.inf


def both(case):
    """The function of the losses and of the gradient of their sum, and its arguments."""
    name, x, y, options = CASES[case]
    f = getattr(gt.nn, name)

    def run(x, y):
        losses = [f(x, y, reduction=r, **options) for r in ("none", "mean", "sum")]
        return [*losses, gt.grad(lambda x: f(x, y, reduction="sum", **options))(x)]

    return run, x, y


@pytest.mark.parametrize("case", CASES)
def test_losses_are_pytorchs(case):
    run, x, y = both(case)
    none, mean, slope = LOSSES[case]
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-6)):
        target = y.astype(dtype) if y.dtype.kind == "f" else y
        got = agreed(run, x.astype(dtype), target, rtol=max(tolerance, 1e-11), atol=tolerance)
        assert {part.dtype.name for part in got} == {dtype}
        for part, wanted in zip(got, (none, mean, sum(none), slope), strict=True):
            np.testing.assert_allclose(part.ravel(), np.ravel(wanted), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", [case for case in CASES if "sharp" not in case and case != "l1"])
def test_losses_have_right_derivatives(case):
    name, x, y, options = CASES[case]
    f = getattr(gt.nn, name)
    # off the kinks, and where differences are exact enough to be compared with
    x = np.clip(x + 0.003 * (x != 0), *((0.05, 0.95) if name == "binary_cross_entropy" else (-5, 5)))
    y = np.minimum(y + 0.01, 5) if y.dtype.kind == "f" else y
    check_derivatives(lambda x: f(x, y, reduction="none", **options), x)
    if y.dtype.kind == "f":
        check_derivatives(lambda y: f(x, y, reduction="none", **options), y)
    for option in ("weight", "pos_weight"):
        if option in options and name.startswith("binary"):
            check_derivatives(lambda w, k=option: f(x, y, reduction="none", **{**options, k: w}), options[option])


def test_l1_and_its_kin_at_their_kinks():
    d = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    same(gt.grad(lambda d: gt.nn.l1_loss(d, 0.0, "sum"))(d), np.sign(d))
    same(gt.grad(lambda d: gt.nn.smooth_l1_loss(d, 0.0, "sum", 0.0))(d), np.sign(d))
    same(gt.grad(lambda d: gt.nn.smooth_l1_loss(d, 0.0, "sum"))(d), np.clip(d, -1, 1))
    same(gt.nn.smooth_l1_loss(f32([INF, NAN, -INF]), 0.0, "none"), f32([INF, NAN, INF]))
    close(gt.nn.smooth_l1_loss(f32([1e-20, 1.0]), 0.0, "none", 1e-30), [1e-20, 1.0])


def second(f, x):
    """First and second derivatives of a sum, elementwise."""
    slope = gt.grad(lambda x: gt.sum(f(x)))
    return slope(x), gt.grad(lambda x: gt.sum(slope(x)))(x)


def test_logits_neither_overflow_nor_cancel():
    x = f32([-1000, -30, 0, 30, 1000])
    with np.errstate(over="ignore"):
        for y, wanted in (
            (1.0, [1000, 30, math.log(2), math.exp(-30), 0]),
            (0.0, [0, math.exp(-30), math.log(2), 30, 1000]),
        ):
            close(gt.nn.bce_with_logits(x, y, reduction="none"), wanted)
            first, curvature = second(lambda x, y=y: gt.nn.bce_with_logits(x, y, reduction="none"), x)
            sigmoid = 1 / (1 + np.exp(-x.astype(float)))
            close(first, sigmoid - y, atol=2e-7)
            close(curvature, sigmoid * (1 - sigmoid))


def test_probabilities_of_0_and_1_are_finite():
    p = f32([0, 1, 0, 1, 1e-30])
    y = f32([0, 1, 1, 0, 0])
    same(gt.nn.binary_cross_entropy(p, y, reduction="none") + f32(0), f32([0, 0, 100, 100, 1e-30]))
    first, curvature = second(lambda p: gt.nn.binary_cross_entropy(p, y, reduction="none"), p)
    same(first, f32([1, -1, 0, 0, 1]))
    close(curvature, [1, 1, 0, 0, 1])
    assert np.isnan(gt.nn.binary_cross_entropy(f32([1.5, -0.5, NAN]), 1.0, reduction="none")[1:]).all()


def test_kl_of_shares_of_0():
    """0 log 0 is 0 whatever was predicted, with gradient 0; rows are averaged by batchmean."""
    x = f32([[-INF, math.log(0.5), math.log(0.5)]])
    q = f32([[0, 0.5, 0.5]])
    value, (dx, dq) = gt.value_and_grad(gt.nn.kl_div, argnums=(0, 1))(x, q, reduction="sum")
    same(value, f32(0))
    same(dx, f32([[0, -0.5, -0.5]]))
    same(dq, f32([[0, 1, 1]]))
    with np.errstate(divide="ignore"):
        close(gt.nn.kl_div(x, np.log(q), "none", log_target=True), [[0, 0, 0]])
    close(gt.nn.kl_div(X, Q, "batchmean"), sum(LOSSES["kl"][0]) / 2)
    close(gt.nn.kl_div(NAN, f32([0.5]), "none"), [NAN])


def test_weights_broadcast_into_the_loss_only():
    close(gt.nn.bce_with_logits(X, Y, 2.0), 2 * LOSSES["logits"][1])
    close(gt.nn.bce_with_logits(X, Y, W[:2, None], "none"), W[:2, None] * np.reshape(LOSSES["logits"][0], X.shape))
    for weight in (np.ones(3), np.ones((1, 1, 4)), np.ones((3, 4))):
        with pytest.raises(ShapeError, match=r"weight f64.* does not fit f64"):
            gt.nn.bce_with_logits(X, Y, weight)
        with pytest.raises(ShapeError, match="pos_weight"):
            gt.nn.bce_with_logits(X, Y, pos_weight=weight)
        with pytest.raises(ShapeError, match="binary_cross_entropy: weight"):
            gt.nn.binary_cross_entropy(P, Y, weight)


@pytest.mark.parametrize("name", ["l1_loss", "smooth_l1_loss", "binary_cross_entropy", "bce_with_logits", "kl_div"])
def test_wrong_use_is_refused(name):
    f = getattr(gt.nn, name)
    with pytest.raises(ShapeError, match=r"shapes \(3, 1\) and \(3,\) differ"):
        f(gt.ones((3, 1)), gt.ones(3))
    with pytest.raises(OptionError, match="reduction"):
        f(gt.ones(3), gt.ones(3), reduction="max")


def test_wrong_options_are_refused():
    with pytest.raises(OptionError, match="beta"):
        gt.nn.smooth_l1_loss(1.0, 0.0, beta=-1.0)
    with pytest.raises(OptionError, match="batchmean needs rows"):
        gt.nn.kl_div(gt.tensor(1.0), gt.tensor(0.5), "batchmean")

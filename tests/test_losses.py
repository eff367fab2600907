"""Losses: PyTorch's documented formulas in float64, derivatives, what is ignored, labels out of range, wrong use."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import DTypeError, OptionError, ShapeError
from gtensor.interp import run
from tests.values import agree, check_derivatives, close, f32, log_sum, same

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(5)


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


def test_the_axis_of_the_classes_may_be_named():
    scores, labels = RNG.standard_normal((4, 3, 5)), np.array([[0, 4, -100], [1, 1, 2], [3, 0, 4], [-100, 2, 2]])
    weight = np.array([1.0, 0.5, 2.0, 0.0, 1.5])
    for f in (gt.nn.cross_entropy, gt.nn.nll_loss):
        for options in ({}, {"weight": weight}, {"ignore_index": 2}, {"reduction": "none"}):
            valid = np.where(labels < 0, 0, labels) if "ignore_index" in options else labels
            usual = f(np.moveaxis(scores, -1, 1), valid, **options)
            close(f(scores, valid, axis=-1, **options), usual)
            close(f(scores, valid, axis=2, **options), usual)
        close(f(scores[0].T, np.array([0, 4, 2]), axis=0), f(scores[0], np.array([0, 4, 2])))
        with pytest.raises(ShapeError, match="axis 3 is out of range"):
            f(scores, labels, axis=3)
        with pytest.raises(ShapeError, match="axis=0 says that the classes are axis 0"):
            f(scores, labels, axis=0)
        with pytest.raises(ShapeError, match="these scores have them last: say axis=-1"):
            f(scores, labels)
    shares = gt.softmax(RNG.standard_normal((4, 3, 5)))
    moved = [np.moveaxis(np.asarray(a), -1, 1) for a in (scores, shares)]
    for smoothing in (0.0, 0.25):
        usual = gt.nn.cross_entropy(*moved, weight=weight, label_smoothing=smoothing)
        close(gt.nn.cross_entropy(scores, shares, weight=weight, label_smoothing=smoothing, axis=-1), usual)


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

"""Losses, as PyTorch defines them: of differences (mse, l1, huber, smooth_l1) and of labels (nll, cross_entropy).

Comes in: predictions and targets. Goes out: a scalar, or one loss per row with `reduction="none"`. Laws:
what is ignored contributes exactly 0 to the loss and to every gradient, NaN or not; a label out of range
raises IndexError, eager and compiled, and negative labels do not count from the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import abs, where
from ..ops.reduce import sum
from ..ops.statistics import floating, mean
from ..ops.transcendental import exp, log, square
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Shape, int64, normalize_axis, show_shapes
from .activations import clip
from .functions import classes, hot
from .normalization import shifted

_REDUCTIONS = {"none": lambda loss: loss, "mean": mean, "sum": sum}


def reduced(loss: Tensor, reduction: str, what: str, weights: Tensor | None = None) -> Tensor:
    """The losses of rows reduced; the mean of weighted ones is over the sum of the weights."""
    if reduction not in _REDUCTIONS:
        raise OptionError(f"{what}: reduction must be 'none', 'mean' or 'sum', not {reduction!r}")
    if reduction == "mean" and weights is not None:
        return sum(loss) / sum(weights)
    return _REDUCTIONS[reduction](loss)


def pair(input: Any, target: Any, what: str) -> tuple[Tensor, Tensor]:
    """Input and target as floats of one shape, or of which one is a scalar."""
    a, b = floating(input), floating(target)
    if a.type.shape != b.type.shape and a.ndim and b.ndim:
        raise ShapeError(
            f"{what}: shapes {show_shapes([a.type.shape, b.type.shape])} differ",
            hint="broadcast one of them explicitly if that is meant",
        )
    return a, b


def difference(input: Any, target: Any, what: str) -> Tensor:
    """input - target of one shape, or of which one is a scalar."""
    a, b = pair(input, target, what)
    return a - b


@rounded_once
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """The squares of input - target, their mean or their sum.

    input, target: one shape [...], or one is a scalar; the result is 0-d, or [...] for reduction "none".
    Raises ShapeError for shapes that differ, OptionError for another reduction.

    >>> import gtensor as gt
    >>> gt.nn.mse_loss(gt.tensor([1.0, 4.0]), gt.tensor([0.0, 2.0]))
    Tensor(2.5, dtype=float32)
    """
    return reduced(square(difference(input, target, "mse_loss")), reduction, "mse_loss")


@rounded_once
def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """The absolute values of input - target, their mean or their sum. The derivative at a difference of 0 is 0.

    input, target, result and errors as for `mse_loss`.

    >>> import gtensor as gt
    >>> gt.nn.l1_loss(gt.tensor([1.0, 4.0]), gt.tensor([2.0, 2.0]))
    Tensor(1.5, dtype=float32)
    """
    return reduced(abs(difference(input, target, "l1_loss")), reduction, "l1_loss")


@rounded_once
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d²/2 where the difference d is at most delta, delta (|d| - delta/2) beyond; their mean or sum.

    input, target, result and errors as for `mse_loss`; OptionError also for a delta that is not positive.
    Source: Huber, Robust Estimation of a Location Parameter, 1964.

    >>> import gtensor as gt
    >>> gt.nn.huber_loss(gt.tensor([0.5, 4.0]), gt.tensor([0.0, 0.0]), reduction="none")
    Tensor([0.125, 3.5  ], dtype=float32)
    """
    if not delta > 0:
        raise OptionError(f"huber_loss: delta must be positive, not {delta}")
    d = difference(input, target, "huber_loss")
    inside = clip(d, -delta, delta)
    return reduced(inside * (d - 0.5 * inside), reduction, "huber_loss")


@rounded_once
def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d²/(2 beta) where the difference d is below beta, |d| - beta/2 beyond; their mean or sum.

    That is huber_loss / beta, and l1_loss for a beta of 0. input, target, result and errors as for
    `mse_loss`; OptionError also for a beta that is negative. Source: Girshick, Fast R-CNN, 2015; PyTorch's
    `smooth_l1_loss`.

    >>> import gtensor as gt
    >>> gt.nn.smooth_l1_loss(gt.tensor([0.5, 4.0]), gt.tensor([0.0, 0.0]), reduction="none", beta=0.5)
    Tensor([0.25, 3.75], dtype=float32)
    """
    if not beta >= 0:
        raise OptionError(f"smooth_l1_loss: beta must not be negative, but it is {beta}")
    d = difference(input, target, "smooth_l1_loss")
    if not beta:
        return reduced(abs(d), reduction, "smooth_l1_loss")
    inside = clip(d, -beta, beta)
    return reduced(inside / beta * (d - 0.5 * inside), reduction, "smooth_l1_loss")


@dataclass(frozen=True)
class _Rows:
    """Rows of scores with their labels: `axis` has the `count` classes, `hot` is where the label's class is.

    `kept` says which rows count, `weights` how much; None means all, and equally.
    """

    axis: int
    count: Any
    hot: Tensor
    kept: Tensor | None
    weights: Tensor | None

    def picked(self, scores: Tensor) -> Tensor:
        """The score of each row's label; the others are not looked at, whatever they are."""
        return sum(where(self.hot, scores, 0), self.axis)

    def reduced(self, loss: Tensor, reduction: str, what: str) -> Tensor:
        """The losses of the rows that count, reduced."""
        if self.kept is None:
            return reduced(loss, reduction, what, self.weights)
        ones = cast(self.kept, loss.type.dtype) if self.weights is None else where(self.kept, self.weights, 0)
        return reduced(where(self.kept, loss, 0), reduction, what, ones)


def _class_axis(scores: Tensor, axis: int | None, what: str) -> tuple[int, Any]:
    """The axis of the classes, the second or the only one unless it is given, and their number.

    Raises ShapeError if there are none, or no such axis.
    """
    found = min(1, scores.ndim - 1) if axis is None else normalize_axis(axis, scores.ndim)
    if found < 0 or not (extent := scores.type.shape[found]):
        raise ShapeError(f"{what}: {scores.type} is no [classes], [rows, classes] or [rows, classes, …]")
    return found, extent


def _class_weights(weight: Any, scores: Tensor, axis: int, what: str) -> Tensor:
    """Weights of the classes, laid along their axis."""
    tensor = cast(as_tensor(weight), scores.type.dtype)
    if tensor.type.shape != (scores.type.shape[axis],):
        raise ShapeError(f"{what}: weight {tensor.type} does not fit the classes of {scores.type}")
    shape = tuple(n if i == axis else 1 for i, n in enumerate(scores.type.shape))
    return apply("reshape", tensor, shape=shape)


def _rows(
    scores: Tensor, labels: Tensor, weight: Any, ignore_index: int | None, class_axis: int | None, what: str
) -> _Rows:
    """Labels checked against the scores; one row of classes has one label."""
    axis, count = _class_axis(scores, class_axis, what)
    shape = scores.type.shape
    if labels.type.shape != shape[:axis] + shape[axis + 1 :]:
        raise ShapeError(
            f"{what}: labels are {labels.type}, scores {scores.type}: one label is needed per row of classes",
            hint=_hint(labels.type.shape, shape, axis, class_axis),
        )
    checked = apply("check_index", labels, low=0, high=count, ignore=ignore_index)
    where_hot = hot(checked, shape, axis)
    kept = None if ignore_index is None else apply("ne", cast(checked, int64), ignore_index)
    if weight is None:
        return _Rows(axis, count, where_hot, kept, None)
    weights = sum(where(where_hot, _class_weights(weight, scores, axis, what), 0), axis)
    return _Rows(axis, count, where_hot, kept, weights)


def _hint(labels: Shape, scores: Shape, axis: int, given: int | None) -> str:
    """What to do about labels that do not fit the scores."""
    if given is not None:
        return f"axis={given} says that the classes are axis {axis} of the scores: labels have all others"
    if labels == scores[:-1]:
        return "classes are axis 1, as in PyTorch; these scores have them last: say axis=-1"
    return f"classes are axis {axis}, as in PyTorch: say axis=…, or reshape to [rows, classes] and [rows]"


@rounded_once
def nll_loss(
    log_probs: Any,
    labels: Any,
    weight: Any = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    axis: int | None = None,
) -> Tensor:
    """The negative log-probability of each row's label, times its class's weight; their mean or sum.

    log_probs: [classes], [rows, classes] or [rows, classes, …] floats, as `log_softmax` gives along axis 1;
    labels: integers, one per row ([], [rows], [rows, …]); weight: [classes]; axis: where the classes are, if
    elsewhere (-1 for [rows, …, classes] and labels [rows, …]). Rows with the label
    `ignore_index` count 0; the mean is over the weights of the rows that count (NaN if there are none).
    The result is 0-d, or as labels for reduction "none". Raises IndexError for a label that is neither in
    [0, classes) nor ignored, ShapeError, DTypeError, and OptionError for another reduction.
    Source: the formulas of PyTorch's `nll_loss`.

    >>> import gtensor as gt
    >>> gt.nn.nll_loss(gt.log(gt.tensor([[0.5, 0.5], [0.75, 0.25]])), [0, -100])
    Tensor(0.6931472, dtype=float32)
    """
    scores = floating(log_probs)
    rows = _rows(scores, classes(labels, "nll_loss"), weight, ignore_index, axis, "nll_loss")
    loss = -rows.picked(scores)
    return rows.reduced(loss if rows.weights is None else loss * rows.weights, reduction, "nll_loss")


@rounded_once
def cross_entropy(
    logits: Any,
    labels: Any,
    weight: Any = None,
    ignore_index: int | None = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    axis: int | None = None,
) -> Tensor:
    """The cross-entropy of softmax(logits) against labels or probabilities of classes; mean or sum over rows.

    logits: [classes], [rows, classes] or [rows, classes, …]; labels: integers, one per row, or floats of
    the logits' shape: probabilities of the classes; weight: [classes]; axis: where the classes are, if
    elsewhere (-1 for logits [rows, …, classes] and labels [rows, …]). With smoothing e the probability of
    a class is (1 - e) p + e / classes. Rows with the label `ignore_index` count 0 (not for probabilities);
    the mean is over the weights of the rows that count (NaN if there are none), for probabilities over all
    rows. The result is 0-d, or one loss per row for reduction "none". Raises IndexError for a label that is
    neither in [0, classes) nor ignored, ShapeError, DTypeError, and OptionError for a smoothing outside
    [0, 1], another reduction, or an index to ignore among probabilities. Source: the formulas of PyTorch's
    `cross_entropy`.

    >>> import gtensor as gt
    >>> gt.nn.cross_entropy(gt.tensor([[2.0, 2.0], [1000.0, 0.0]]), [0, 0], reduction="none")
    Tensor([0.6931472, 0.       ], dtype=float32)
    """
    if not 0 <= label_smoothing <= 1:
        raise OptionError(f"cross_entropy: label_smoothing must be in [0, 1], not {label_smoothing}")
    scores, target = floating(logits), as_tensor(labels)
    if target.type.dtype.floating:
        if ignore_index not in (None, -100):
            raise OptionError("cross_entropy: ignore_index is for labels, not for probabilities of classes")
        return _soft_cross_entropy(scores, target, weight, label_smoothing, reduction, axis)
    rows = _rows(scores, classes(target, "cross_entropy"), weight, ignore_index, axis, "cross_entropy")
    below, log_total = _log_softmax_parts(scores, rows.axis)
    if label_smoothing:
        other = label_smoothing / rows.count
        shares = where(rows.hot, cast(as_tensor(1 - label_smoothing + other), scores.type.dtype), other)
        loss = _expected(below, log_total, shares, weight, rows.axis)
    else:
        loss = log_total - rows.picked(below)
        loss = loss if rows.weights is None else loss * rows.weights
    return rows.reduced(loss, reduction, "cross_entropy")


def _soft_cross_entropy(
    scores: Tensor, target: Tensor, weight: Any, smoothing: float, reduction: str, class_axis: int | None
) -> Tensor:
    """Cross-entropy against probabilities."""
    axis, count = _class_axis(scores, class_axis, "cross_entropy")
    if target.type.shape != scores.type.shape:
        raise ShapeError(f"cross_entropy: probabilities are {target.type}, logits {scores.type}")
    below, log_total = _log_softmax_parts(scores, axis)
    shares = target * (1 - smoothing) + smoothing / count if smoothing else target
    return reduced(_expected(below, log_total, shares, weight, axis), reduction, "cross_entropy")


def _log_softmax_parts(scores: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Each score less the row's largest, and the logarithm of the sum of their exponentials.

    Their difference is log_softmax; apart, a loss needs no second pass over the row in its derivative.
    """
    below = shifted(scores, (axis,))
    return below, log(sum(exp(below), axis))


def _expected(below: Tensor, log_total: Tensor, shares: Tensor, weight: Any, axis: int) -> Tensor:
    """The sum over classes of share times weight times -log_softmax."""
    if weight is not None:
        shares = shares * _class_weights(weight, below, axis, "cross_entropy")
    return sum(shares, axis) * log_total - sum(shares * below, axis)

"""Losses between probabilities, as PyTorch defines them: binary cross-entropy, also from logits, and kl_div.

Comes in: predictions and target probabilities, element by element. Goes out: a scalar, or one loss per
element with `reduction="none"`. Laws: a term whose target probability is exactly 0 contributes 0 to kl_div,
whatever the prediction; from logits nothing overflows or cancels, at any order.
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import where
from ..ops.reduce import sum
from ..ops.statistics import mean
from ..ops.transcendental import exp, log, log1p, softplus
from ..tensor import Tensor, as_tensor, cast
from .activations import clip
from .losses import pair, reduced

_LEAST_LOG = -100
"""What the logarithm of a probability of 0 counts as in `binary_cross_entropy`."""


def _factor(loss: Tensor, factor: Any, what: str, name: str) -> Tensor:
    """A weight that broadcasts to the shape of the loss, in its dtype."""
    weight = cast(as_tensor(factor), loss.type.dtype)
    shape, given = loss.type.shape, weight.type.shape
    tail = shape[len(shape) - len(given) :]
    if len(given) > len(shape) or any(n not in (1, m) for n, m in zip(given, tail, strict=True)):
        raise ShapeError(f"{what}: {name} {weight.type} does not fit {loss.type}")
    return weight


def _weighted(loss: Tensor, weight: Any, reduction: str, what: str) -> Tensor:
    """The losses times their weights, reduced; the mean is over the elements, as in PyTorch."""
    return reduced(loss if weight is None else loss * _factor(loss, weight, what, "weight"), reduction, what)


@rounded_once
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """-(y log p + (1 - y) log(1 - p)) for probabilities p of the first of two classes; mean or sum.

    input: p, [...] in [0, 1] (NaN outside); target: y, of the same shape or a scalar; weight: factors that
    broadcast to [...]. The result is 0-d, or [...] for reduction "none". Logarithms count as -100 at least,
    and have derivative 0 there. Where p comes from a sigmoid, `binary_cross_entropy_with_logits` is the
    stable form. Raises ShapeError, and OptionError for another reduction. Source: PyTorch's
    `binary_cross_entropy`.

    >>> import gtensor as gt
    >>> gt.nn.binary_cross_entropy(gt.tensor([0.5, 0.0]), gt.tensor([1.0, 1.0]), reduction="none")
    Tensor([  0.6931472, 100.       ], dtype=float32)
    """
    what = "binary_cross_entropy"
    p, y = pair(input, target, what)
    loss = -(y * clip(log(p), _LEAST_LOG) + (1 - y) * clip(log1p(-p), _LEAST_LOG))
    return _weighted(loss, weight, reduction, what)


@rounded_once
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """The binary cross-entropy of sigmoid(input), y softplus(-x) + (1 - y) softplus(x); mean or sum.

    input: x, [...]; target: y in [0, 1], of the same shape or a scalar; weight: factors that broadcast to
    [...]; pos_weight: factors of the first term, which broadcast likewise (one per class along the last
    axis). The result is 0-d, or [...] for reduction "none". Both terms are positive, so nothing cancels.
    Raises ShapeError, and OptionError for another reduction. Source: PyTorch's function of that name.

    >>> import gtensor as gt
    >>> x, y = gt.tensor([0.0, 1000.0, -30.0]), gt.tensor([1.0, 0.0, 0.0])
    >>> gt.nn.bce_with_logits(x, y, reduction="none")
    Tensor([6.931472e-01, 1.000000e+03, 9.357623e-14], dtype=float32)
    """
    what = "binary_cross_entropy_with_logits"
    x, y = pair(input, target, what)
    positive = y * softplus(-x)
    if pos_weight is not None:
        positive = positive * _factor(positive, pos_weight, what, "pos_weight")
    return _weighted(positive + (1 - y) * softplus(x), weight, reduction, what)


@rounded_once
def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), element by element; their mean, sum, or "batchmean".

    input: logarithms of the predicted probabilities, [...]; target: probabilities of the same shape, or
    their logarithms with `log_target`. The result is 0-d, or [...] for reduction "none"; the divergence of
    Kullback and Leibler is the sum over the classes, and its mean over rows, the first axis, "batchmean".
    Raises ShapeError, and OptionError for another reduction. Source: PyTorch's `kl_div`.

    >>> import gtensor as gt
    >>> p, q = gt.tensor([[0.5, 0.5]]), gt.tensor([[1.0, 0.0]])
    >>> gt.nn.kl_div(gt.log(p), q, reduction="batchmean")
    Tensor(0.6931472, dtype=float32)
    """
    x, y = pair(input, target, "kl_div")
    log_y = y if log_target else log(y)
    share = exp(y) if log_target else y
    loss = where(share == 0, 0, share * (log_y - x))
    if reduction != "batchmean":
        return reduced(loss, reduction, "kl_div")
    if not loss.ndim:
        raise OptionError("kl_div: batchmean needs rows")
    return sum(mean(loss, axis=0))

"""Losses of what should lie apart, as PyTorch defines them: margin_ranking_loss, triplet_margin_loss and their kin.

Comes in: scores, distances or vectors, and targets of 1 and -1. Goes out: a scalar, or one loss per example with
`reduction="none"`. Law: what lies apart far enough contributes exactly 0, to the loss and to every gradient.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..ops.arithmetic import minimum, where
from ..ops.statistics import floating
from ..ops.transcendental import softplus
from ..tensor import Tensor, meet
from ..types import show_shapes
from .activations import relu
from .distances import cosine_similarity, pairwise_distance
from .losses import pair, reduced


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, margin - target * (input1 - input2)): which of two scores should be the larger; mean or sum.

    input1, input2: one shape [...], or one is a scalar; target: 1 where the first should be, -1 where the second,
    which broadcasts. The result is 0-d, or [...] for reduction "none". Raises ShapeError for shapes that differ,
    OptionError for another reduction. Source: PyTorch's function of that name.

    >>> import gtensor as gt
    >>> x1, x2 = gt.tensor([1.0, 1.0]), gt.tensor([3.0, 0.0])
    >>> gt.nn.margin_ranking_loss(x1, x2, gt.tensor([1.0, 1.0]), reduction="none")
    Tensor([2., 0.], dtype=float32)
    """
    a, b = pair(input1, input2, "margin_ranking_loss")
    return reduced(relu(margin - floating(target) * (a - b)), reduction, "margin_ranking_loss")


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + |anchor - positive| - |anchor - negative|), distances along the last axis; mean or sum.

    anchor, positive, negative: [..., n], which broadcast; p: which norm; eps is added to differences. With `swap` the
    negative's distance from the positive counts where it is smaller. The result is 0-d, or [...] for reduction
    "none". Raises ShapeError, and OptionError for another reduction. Source: Balntas et al., Learning shallow
    convolutional feature descriptors with triplet losses, 2016; PyTorch's function of that name.

    >>> import gtensor as gt
    >>> gt.nn.triplet_margin_loss(gt.tensor([[0.0]]), gt.tensor([[3.0]]), gt.tensor([[2.0]]), eps=0)
    Tensor(2., dtype=float32)
    """
    near, far = (pairwise_distance(anchor, other, p, eps) for other in (positive, negative))
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(relu(near - far + margin), reduction, "triplet_margin_loss")


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """A distance where the target is 1, max(0, margin - distance) where it is -1; mean or sum.

    input, target: one shape [...], or one is a scalar. The result is 0-d, or [...] for reduction "none". Raises
    ShapeError for shapes that differ, OptionError for another reduction. Source: PyTorch's function of that name.

    >>> import gtensor as gt
    >>> gt.nn.hinge_embedding_loss(gt.tensor([0.25, 0.25]), gt.tensor([1.0, -1.0]), reduction="none")
    Tensor([0.25, 0.75], dtype=float32)
    """
    x, y = pair(input, target, "hinge_embedding_loss")
    return reduced(where(y == 1, x, 0) + where(y == -1, relu(margin - x), 0), reduction, "hinge_embedding_loss")


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, cos that of the vectors; mean or sum.

    input1, input2: [rows, n] or [n]; target: [rows] or []. The result is 0-d, or like target for reduction "none".
    Raises ShapeError where they do not fit, OptionError for another reduction. Source: PyTorch's function of that name.

    >>> import gtensor as gt
    >>> x1, x2 = gt.tensor([[1.0, 0.0], [1.0, 0.0]]), gt.tensor([[3.0, 4.0], [3.0, 4.0]])
    >>> gt.nn.cosine_embedding_loss(x1, x2, gt.tensor([1.0, -1.0]), reduction="none")
    Tensor([0.39999998, 0.6       ], dtype=float32)
    """
    a, b = meet(floating(input1), floating(input2))
    y = floating(target)
    if a.ndim not in (1, 2) or y.type.shape != a.type.shape[:-1]:
        shapes = show_shapes([a.type.shape, y.type.shape])
        raise ShapeError(f"cosine_embedding_loss takes [rows, n] and targets [rows], or [n] and [], not {shapes}")
    cosine = cosine_similarity(a, b, axis=-1)
    loss = where(y == 1, 1 - cosine, 0) + where(y == -1, relu(cosine - margin), 0)
    return reduced(loss, reduction, "cosine_embedding_loss")


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), without overflow: the logistic loss for targets of 1 and -1; mean or sum.

    input, target: one shape [...], or one is a scalar. The result is 0-d, or [...] for reduction "none". Raises
    ShapeError for shapes that differ, OptionError for another reduction. Source: PyTorch's function of that name.

    >>> import gtensor as gt
    >>> gt.nn.soft_margin_loss(gt.tensor([0.0, -1000.0]), gt.tensor([1.0, 1.0]), reduction="none")
    Tensor([6.931472e-01, 1.000000e+03], dtype=float32)
    """
    x, y = pair(input, target, "soft_margin_loss")
    return reduced(softplus(-(y * x)), reduction, "soft_margin_loss")

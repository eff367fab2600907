"""Lengths and angles of vectors: normalize, cosine_similarity, pairwise_distance, cdist.

Comes in: arrays whose vectors lie along one axis. Goes out: one number per vector or pair, or vectors of length 1.
Laws: integers give the default float; the largest element is taken out first, so squares neither overflow nor vanish;
the distance of equal points has gradient 0.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..linalg.norms import vector_norm
from ..ops.arithmetic import maximum
from ..ops.reduce import sum
from ..ops.statistics import floating
from ..prim import public
from ..tensor import Tensor, apply, meet


def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """Vectors over their p-norm, or over eps where that is larger: vectors of length 1, and 0 for 0.

    x: any shape with vectors along the axis, the second one by default, as in PyTorch. Raises ShapeError for a wrong
    axis. Source: PyTorch's `normalize`.

    >>> import gtensor as gt
    >>> gt.nn.normalize(gt.tensor([[3.0, 4.0], [0.0, 0.0]]))
    Tensor([[0.6, 0.8],
            [0. , 0. ]], dtype=float32)
    """
    tensor = floating(x)
    return tensor / maximum(vector_norm(tensor, axis=axis, keepdims=True, ord=p), eps)


def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors: their product over the product of their lengths, each eps at least.

    x1, x2: arrays that broadcast, with vectors along the axis, the second one by default, as in PyTorch. Raises
    ShapeError for a wrong axis. Source: PyTorch's `cosine_similarity`.

    >>> import gtensor as gt
    >>> gt.nn.cosine_similarity(gt.tensor([[1.0, 0.0]]), gt.tensor([[3.0, 4.0]]))
    Tensor([0.6], dtype=float32)
    """
    a, b = meet(floating(x1), floating(x2))
    lengths = [maximum(vector_norm(v, axis=axis, keepdims=True), eps) for v in (a, b)]
    return sum((a / lengths[0]) * (b / lengths[1]), axis)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis: distances of points, pair by pair.

    x1, x2: [..., n], which broadcast; the result is [...], or [..., 1] with keepdims. Raises ShapeError where they do
    not fit. Source: PyTorch's `pairwise_distance`.

    >>> import gtensor as gt
    >>> gt.nn.pairwise_distance(gt.tensor([[0.0, 0.0]]), gt.tensor([[3.0, 4.0]]), eps=0)
    Tensor([5.], dtype=float32)
    """
    a, b = meet(floating(x1), floating(x2))
    return vector_norm(a - b + eps, axis=-1, keepdims=keepdims, ord=p)


@public
def cdist(x1: Any, x2: Any, /, p: float = 2.0) -> Tensor:
    """The distances of all points of one set from all of another: [..., m, n] and [..., k, n] give [..., m, k].

    p: which norm of the differences; leading axes broadcast. The differences are taken one by one, so near points lose
    no digits, and the distance of equal points has gradient 0. Raises ShapeError for points of different sizes.

    >>> import gtensor as gt
    >>> gt.cdist(gt.tensor([[0.0, 0.0], [3.0, 0.0]]), gt.tensor([[3.0, 4.0]]))
    Tensor([[5.],
            [4.]], dtype=float32)
    """
    a, b = floating(x1), floating(x2)
    if a.ndim < 2 or b.ndim < 2 or a.type.shape[-1] != b.type.shape[-1]:
        raise ShapeError(f"cdist takes points [..., m, n] and [..., k, n], not {a.type} and {b.type}")
    rows = apply("reshape", a, shape=(*a.type.shape[:-1], 1, a.type.shape[-1]))
    columns = apply("reshape", b, shape=(*b.type.shape[:-2], 1, *b.type.shape[-2:]))
    return vector_norm(rows - columns, axis=-1, ord=p)

"""Attention as a composition: products, a softmax, a product. Fusion and strides make kernels of it."""

from __future__ import annotations

import math
from typing import Any

from ..errors import DTypeError, ShapeError
from ..ops.arithmetic import where
from ..ops.arrange import swapaxes
from ..ops.contract import matmul
from ..ops.create import arange
from ..ops.layout import expand_dims
from ..tensor import Tensor, as_tensor
from ..types import bool_
from .normalization import softmax


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(query @ key' * scale + mask) @ value, over the last two axes; leading axes broadcast.

    `query` is (…, L, E), `key` (…, S, E), `value` (…, S, V); the result is (…, L, V). `scale` is 1/sqrt(E)
    unless given. `attn_mask` is added to the scores, or, as bool, says which may be seen; `is_causal` lets
    position i see positions up to i. A row that sees nothing is NaN. Raises ShapeError where shapes do not
    fit and where both a mask and `is_causal` are given.

    The operation is that of Vaswani et al. (2017), equation 1; names and meaning are PyTorch's.

    >>> import gtensor as gt
    >>> q = gt.zeros((1, 2))
    >>> scaled_dot_product_attention(q, gt.ones((3, 2)), gt.tensor([[0.0], [3.0], [6.0]]))
    Tensor([[3.]], dtype=float32)
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(f"scaled_dot_product_attention: query {q.shape}, key {k.shape}, value {v.shape} do not fit")
    if attn_mask is not None and is_causal:
        raise ShapeError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = matmul(q * factor, swapaxes(k, -1, -2))
    if is_causal:
        rows, columns = arange(q.shape[-2], dtype="int32"), arange(k.shape[-2], dtype="int32")
        scores = where(columns <= expand_dims(rows, 1), scores, -math.inf)
    elif attn_mask is not None:
        mask = as_tensor(attn_mask)
        if mask.dtype != bool_ and not mask.dtype.floating:
            raise DTypeError(f"scaled_dot_product_attention: a mask is bool or floating, not {mask.dtype}")
        scores = where(mask, scores, -math.inf) if mask.dtype == bool_ else scores + mask
    return matmul(softmax(scores, axis=-1), v)

"""Attention as compositions: products, a softmax, a product, over one head or several.

Comes in: queries, keys and values, or the sequence and the weights that make them. Goes out: a sequence. Law: what
a mask hides contributes exactly 0. Fusion and strides make kernels of it.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import DTypeError, OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import where
from ..ops.arrange import swapaxes
from ..ops.contract import matmul
from ..ops.create import arange
from ..ops.layout import expand_dims, reshape
from ..ops.repeating import repeat
from ..tensor import Tensor, as_tensor
from ..types import bool_, extent_bound
from .functions import linear
from .normalization import softmax


@rounded_once
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key' * scale + mask) @ value, over the last two axes; leading axes broadcast.

    `query` is (…, L, E), `key` (…, S, E), `value` (…, S, V); the result is (…, L, V). `scale` is 1/sqrt(E)
    unless given. `attn_mask` is added to the scores, or, as bool, says which may be seen; `is_causal` lets
    position i see positions up to i. A row that sees nothing is NaN. With `enable_gqa` the heads, axis -3, of key
    and value may be fewer than those of query, which they divide: each serves as many neighbours (Ainslie et al.,
    GQA, 2023). Raises ShapeError where shapes do not fit and where both a mask and `is_causal` are given.

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
    if enable_gqa:
        k, v = _shared(k, q), _shared(v, q)
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


def _shared(x: Tensor, query: Tensor) -> Tensor:
    """Each head of x as often as there are heads of the query to it."""
    if min(x.ndim, query.ndim) < 3 or not x.shape[-3] or query.shape[-3] % x.shape[-3]:
        raise ShapeError(f"scaled_dot_product_attention: {x.type} has no heads that divide those of {query.type}")
    return repeat(x, query.shape[-3] // x.shape[-3], axis=-3)


def multi_head_attention(
    x: Any, qkv_weight: Any, out_weight: Any, num_heads: int, qkv_bias: Any = None, out_bias: Any = None, *,
    context: Any = None, attn_mask: Any = None, is_causal: bool = False,
) -> Tensor:  # fmt: skip
    """Attention by several heads, each over its own slice of the features, and a product that mixes their results.

    x: [..., L, E] asks; context: [..., S, E] answers, x itself by default; qkv_weight: [E, 3E] makes queries, keys
    and values side by side, each of them head by head; out_weight: [E, E]; biases: [3E] and [E]. The result is
    [..., L, E]. `attn_mask` and `is_causal` are those of `scaled_dot_product_attention`: a mask broadcasts to
    [..., num_heads, L, S], and as bool it is true where a key may be seen (PyTorch's module of this name has it
    the other way round). Raises ShapeError where shapes do not fit, OptionError where heads do not divide E.

    The operation is that of Vaswani et al. (2017), section 3.2.2; weights are the transposes of PyTorch's.

    >>> import gtensor as gt
    >>> multi_head_attention(gt.ones((3, 2)), gt.ones((2, 6)), gt.eye(2), 2)
    Tensor([[2., 2.],
            [2., 2.],
            [2., 2.]], dtype=float32)
    """
    asking, weight = as_tensor(x), as_tensor(qkv_weight)
    size = extent_bound(asking.type.shape[-1]) if asking.ndim > 1 else 0
    if weight.type.shape != (size, 3 * size) or not size:
        raise ShapeError(f"multi_head_attention: weight {weight.type} does not fit {asking.type}, it must be [E, 3E]")
    if num_heads < 1 or size % num_heads:
        raise OptionError(f"multi_head_attention: {size} features cannot be divided among {num_heads} heads")
    if context is None:
        queries, keys, values = _parts(linear(asking, weight, qkv_bias), size)
    else:
        bias = None if qkv_bias is None else as_tensor(qkv_bias)
        first, rest = (None, None) if bias is None else (bias[:size], bias[size:])
        queries = linear(asking, weight[:, :size], first)
        keys, values = _parts(linear(context, weight[:, size:], rest), size)
    q, k, v = (_heads(part, num_heads) for part in (queries, keys, values))
    mixed = scaled_dot_product_attention(q, k, v, attn_mask, is_causal=is_causal)
    return linear(reshape(swapaxes(mixed, -3, -2), asking.type.shape), out_weight, out_bias)


def _parts(x: Tensor, size: int) -> list[Tensor]:
    """What lies side by side along the features."""
    return [x[..., start : start + size] for start in range(0, extent_bound(x.type.shape[-1]), size)]


def _heads(x: Tensor, count: int) -> Tensor:
    """[..., L, count * D] as [..., count, L, D]."""
    *leading, width = x.type.shape
    return swapaxes(reshape(x, (*leading, count, extent_bound(width) // count)), -3, -2)

"""Functions of a whole row: softmax, log_softmax, logsumexp, layer_norm, rms_norm.

They subtract the row's largest element or its mean first, so that nothing overflows or cancels; the
largest element is a constant to the derivative, which does not depend on it. Compiled along the last axis
each is one loop over rows. Laws: NaN stays; a row of nothing but -inf has logsumexp -inf with gradient 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import isfinite, stop_gradient, where
from ..ops.reduce import Axis, max, reduce, sum
from ..ops.statistics import floating, mean
from ..ops.transcendental import exp, log, reciprocal, rsqrt, square
from ..prim import public
from ..tensor import Tensor, apply, as_tensor
from ..types import normalize_axes, resolve, show_shapes


def shifted(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """x less the largest element over axes, which counts as a constant: exp of it does not overflow."""
    if any(x.type.shape[i] == 0 for i in axes):
        return x
    return x - stop_gradient(max(x, axes, keepdims=True))


@public
@rounded_once
def softmax(x: Any, /, axis: Axis = -1) -> Tensor:
    """exp(x) over its sum along an axis (or several, or all for None), without overflow.

    x: any shape but 0-d, the shape of the result; integers give the default float. An element -inf gives
    exactly 0; a row of nothing but -inf, or with +inf, gives NaN. Raises ShapeError for a wrong axis.

    >>> import gtensor as gt
    >>> gt.softmax(gt.tensor([1000.0, 1000.0, -gt.inf]))
    Tensor([0.5, 0.5, 0. ], dtype=float32)
    """
    tensor = floating(x)
    axes = normalize_axes(axis, tensor.ndim)
    powers = exp(shifted(tensor, axes))
    return powers * reciprocal(sum(powers, axes, keepdims=True))


@public
@rounded_once
def log_softmax(x: Any, /, axis: Axis = -1) -> Tensor:
    """The logarithm of `softmax`, without overflow, and finite where the softmax rounds to 0.

    x, axis and errors as for `softmax`.

    >>> import gtensor as gt
    >>> gt.log_softmax(gt.tensor([0.0, 1000.0]))
    Tensor([-1000.,     0.], dtype=float32)
    """
    tensor = floating(x)
    axes = normalize_axes(axis, tensor.ndim)
    scores = shifted(tensor, axes)
    return scores - log(sum(exp(scores), axes, keepdims=True))


@public
@rounded_once
def logsumexp(x: Any, /, axis: Axis = -1, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exp(x) along an axis (or several, or all for None), without overflow.

    x: any shape but 0-d; integers give the default float. Where all elements are -inf, and along an empty
    axis, it is -inf, and the gradient is 0. Raises ShapeError for a wrong axis.

    >>> import gtensor as gt
    >>> gt.logsumexp(gt.tensor([[1000.0, 1000.0], [-gt.inf, -gt.inf]]))
    Tensor([1000.6932,      -inf], dtype=float32)
    """
    tensor = floating(x)
    axes = normalize_axes(axis, tensor.ndim)
    if any(tensor.type.shape[i] == 0 for i in axes):
        return reduce("sum", tensor, axes, keepdims) - math.inf
    largest = stop_gradient(max(tensor, axes, keepdims=True))
    shift = where(isfinite(largest), largest, 0)
    total = sum(exp(tensor - shift), axes, keepdims=True)
    result = where(total == 0, -math.inf, log(total)) + shift
    if keepdims:
        return result
    return apply("reshape", result, shape=tuple(n for i, n in enumerate(tensor.type.shape) if i not in axes))


@rounded_once
def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Each row less its mean, over the root of its variance plus eps, times weight, plus bias.

    x: [..., n], the shape of the result; weight, bias: [n]. With more axes in weight (or bias) a row is
    that many last axes of x. The variance is two-pass and uncorrected. Integers give the default float.
    Raises ShapeError where weight or bias does not have the row's shape, OptionError for a negative eps.
    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.

    >>> import gtensor as gt
    >>> gt.nn.layer_norm(gt.tensor([[1.0, 3.0], [5.0, 5.0]]))
    Tensor([[-0.999995,  0.999995],
            [ 0.      ,  0.      ]], dtype=float32)
    """
    if isinstance(eps, (int, float)) and not eps >= 0:
        raise OptionError(f"layer_norm: eps must not be negative, as {eps} is")
    tensor = floating(x)
    scale, shift = (None if p is None else as_tensor(p) for p in (weight, bias))
    axes = _row_axes(tensor, {"weight": scale, "bias": shift}, "layer_norm")
    centred = tensor - mean(tensor, axes, keepdims=True)
    result = centred * rsqrt(mean(square(centred), axes, keepdims=True) + eps)
    if scale is not None:
        result = result * scale
    return result if shift is None else result + shift


@rounded_once
def rms_norm(x: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """Each row over the root of the mean of its squares plus eps, times weight.

    x: [..., n], the shape of the result; weight: [n], or with more axes, which are then a row. `eps` is that of
    the dtype unless given. Raises as `layer_norm` does. Source: Zhang and Sennrich, Root Mean Square Layer
    Normalization, 2019.

    >>> import gtensor as gt
    >>> gt.nn.rms_norm(gt.tensor([[1.0, 7.0], [0.0, 0.0]]))
    Tensor([[0.2, 1.4],
            [0. , 0. ]], dtype=float32)
    """
    if isinstance(eps, (int, float)) and not eps >= 0:
        raise OptionError(f"rms_norm: eps must not be negative, as {eps} is")
    tensor = floating(x)
    scale = None if weight is None else as_tensor(weight)
    axes = _row_axes(tensor, {"weight": scale}, "rms_norm")
    small = float(np.finfo(resolve(tensor.type).dtype.dtype).eps) if eps is None else eps
    result = tensor * rsqrt(mean(square(tensor), axes, keepdims=True) + small)
    return result if scale is None else result * scale


def _row_axes(x: Tensor, parameters: dict[str, Tensor | None], what: str) -> tuple[int, ...]:
    """The axes of x that are a row: as many last ones as the parameters have, which must have the row's shape."""
    rank = next((p.ndim for p in parameters.values() if p is not None), 1)
    row = x.type.shape[x.ndim - rank :]
    for name, parameter in parameters.items():
        if (parameter is not None and parameter.type.shape != row) or not 0 < rank <= x.ndim:
            given = "no weight" if parameter is None else f"{name} {parameter.type}"
            raise ShapeError(f"{what}: {given} does not fit rows of {x.type}: {show_shapes([row])}")
    return tuple(range(x.ndim - rank, x.ndim))

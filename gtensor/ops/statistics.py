"""Statistics over axes, composed of sums: mean, average, var, std, ptp and the 2-norm.

Integers and bool give the default float; their sums are taken in int64 or float64 first. Variances are
two-pass. Laws: the standard deviation of equal elements and the norm of the zero vector have gradient 0;
NaN stays; an empty axis gives NaN (its norm is 0). A run-time extent is counted at run time.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import ShapeError
from ..narrow import rounded_once
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import DEFAULT_FLOAT, Dim, Type, float64, int64, normalize_axes
from .arithmetic import abs, divide, multiply, stop_gradient, subtract, where
from .reduce import Axis, max, min, reduce, sum
from .transcendental import sqrt, square


def floating(x: Any) -> Tensor:
    """x as a tensor of floats: integers and bool become the default float."""
    tensor = as_tensor(x)
    return tensor if tensor.type.dtype.floating else cast(tensor, DEFAULT_FLOAT)


def _count(type: Type, axes: tuple[int, ...]) -> Any:
    """The number of elements along axes: a Python int, or a tensor where an extent is known at run time only."""
    count: Any = math.prod(n for i in axes if isinstance(n := type.shape[i], int))
    for extent in (n for i in axes if isinstance(n := type.shape[i], Dim)):
        ones = apply("broadcast", cast(as_tensor(1), int64), shape=(extent,))
        count = apply("mul", apply("sum", ones, axis=(0,)), count)
    return count


def _mean(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    count = _count(x.type, normalize_axes(axis, x.ndim))
    return divide(sum(x, axis, keepdims), cast(count, x.type.dtype) if isinstance(count, Tensor) else count)


@public
@rounded_once
def mean(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes (all by default).

    x: any shape; floats keep their dtype, bool and integers give float32. NaN where there is nothing to
    average. Raises ShapeError for an axis that does not exist or is named twice.

    >>> import gtensor as gt
    >>> gt.mean(gt.tensor([[1.0, 2.0], [3.0, 6.0]]), axis=1)
    Tensor([1.5, 4.5], dtype=float32)
    """
    tensor = as_tensor(x)
    if tensor.type.dtype == int64:
        return cast(_mean(cast(tensor, float64), axis, keepdims), DEFAULT_FLOAT)
    return _mean(tensor, axis, keepdims)


@public
@rounded_once
def average(x: Any, /, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """The mean over axes, weighted if weights are given; with `returned` also the sum of the weights.

    x: any shape; integers and bool give the default float. weights: of x's shape, or one per place of the
    axes in their order. NaN or infinite where the weights sum to 0. Raises ShapeError for weights that do not
    fit and for a wrong axis.

    >>> import gtensor as gt
    >>> gt.average(gt.tensor([1.0, 5.0]), weights=[3.0, 1.0])
    Tensor(2., dtype=float32)
    """
    tensor = floating(x)
    axes = normalize_axes(axis, tensor.ndim)
    if weights is None:
        result = mean(tensor, axis, keepdims)
        count = _count(tensor.type, axes)
        total = apply("broadcast", cast(as_tensor(count), tensor.type.dtype), shape=result.type.shape)
        return (result, total) if returned else result
    scale = floating(weights)
    if scale.type.shape != tensor.type.shape:
        if scale.type.shape != tuple(tensor.type.shape[i] for i in axes):
            raise ShapeError(f"average: weights {scale.type} do not fit axis {axis} of {tensor.type}")
        scale = apply("reshape", scale, shape=tuple(n if i in axes else 1 for i, n in enumerate(tensor.type.shape)))
        scale = apply("broadcast", scale, shape=tensor.type.shape)
    total = sum(scale, axis, keepdims)
    result = divide(sum(multiply(tensor, scale), axis, keepdims), total)
    return (result, cast(total, result.type.dtype)) if returned else result


@public
def ptp(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The distance from the smallest to the largest element over axes; errors as for `max`.

    >>> import gtensor as gt
    >>> gt.ptp(gt.tensor([[1, 5], [2, 9]]), axis=1)
    Tensor([4, 7], dtype=int64)
    """
    tensor = as_tensor(x)
    return subtract(max(tensor, axis, keepdims), min(tensor, axis, keepdims))


@public
@rounded_once
def var(x: Any, /, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes (all by default): squared distances from the mean, summed, over n - correction.

    x: any shape; floats keep their dtype, bool and integers give float32. `correction=1` is the unbiased
    estimate. Two passes, so a large mean costs no digits. NaN where n is not above the correction, as in the
    array API (NumPy gives infinity where the elements differ). Raises ShapeError for a wrong axis.

    >>> import gtensor as gt
    >>> gt.var(gt.tensor([1e4 + 1, 1e4 + 3]), correction=1)
    Tensor(2., dtype=float32)
    """
    tensor = as_tensor(x)
    if not tensor.type.dtype.floating:
        return cast(var(cast(tensor, float64), axis, correction, keepdims), DEFAULT_FLOAT)
    centred = square(subtract(tensor, _mean(tensor, axis, keepdims=True)))
    count = _count(tensor.type, normalize_axes(axis, tensor.ndim))
    if isinstance(count, Tensor):
        left = cast(count, tensor.type.dtype) - correction
        freedom: Any = where(left > 0, left, math.nan)
    else:
        freedom = count - correction if count > correction else math.nan
    return divide(sum(centred, axis, keepdims), freedom)


@public
@rounded_once
def std(x: Any, /, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes (all by default): the square root of `var`.

    Where all elements are equal it is 0, and so is its gradient. Dtypes and errors as for `var`.

    >>> import gtensor as gt
    >>> gt.std(gt.tensor([1.0, 3.0])), gt.grad(gt.std)(gt.tensor([2.0, 2.0]))
    (Tensor(1., dtype=float32), Tensor([0., 0.], dtype=float32))
    """
    return root(var(x, axis, correction, keepdims))


def root(x: Tensor) -> Tensor:
    """The square root, with gradient 0 at 0: the mask of `where` cuts the infinite one off."""
    return where(x == 0, 0, sqrt(x))


@public
@rounded_once
def norm(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The 2-norm of vectors: the root of the sum of squares over axes (all by default).

    x: any shape; floats keep their dtype, bool and integers give float32. The gradient at the zero vector
    is 0. The elements are scaled by the largest, so squares neither overflow nor vanish. Raises ShapeError
    for a wrong axis.

    >>> import gtensor as gt
    >>> gt.norm(gt.tensor([[3e30, 4e30], [0.0, 0.0]]), axis=1)
    Tensor([5.e+30, 0.e+00], dtype=float32)
    """
    tensor = floating(x)
    axes = normalize_axes(axis, tensor.ndim)
    if any(tensor.type.shape[i] == 0 for i in axes):
        return reduce("sum", tensor, axes, keepdims)
    largest = stop_gradient(max(abs(tensor), axes, keepdims=True))
    scale = where((largest > 0) & (largest < math.inf), largest, 1)
    length = root(sum(square(tensor / scale), axes, keepdims=True)) * scale
    return length if keepdims else apply("reshape", length, shape=_dropped(tensor.type, axes))


def _dropped(type: Type, axes: tuple[int, ...]) -> tuple[int | Dim, ...]:
    return tuple(n for i, n in enumerate(type.shape) if i not in axes)

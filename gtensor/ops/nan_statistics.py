"""Statistics that leave out NaN: nansum, nanprod, nanmin, nanmax, nanmean, nanvar, nanstd.

NaN is replaced by what does not count before the reduction. Laws: where nothing is left the sum is 0, the
product 1, everything else NaN; a NaN gets gradient 0; integers have no NaN and go the ordinary way.
"""

from __future__ import annotations

import math
from typing import Any

from ..narrow import rounded_once
from ..prim import public
from ..tensor import Tensor, as_tensor, cast
from .arithmetic import divide, isnan, logical_not, maximum, subtract, where
from .reduce import Axis, all, max, min, prod, sum
from .statistics import mean, root, std, var
from .transcendental import square


def _without_nan(x: Tensor, value: float) -> Tensor:
    return where(isnan(x), value, x) if x.type.dtype.floating else x


def _number_count(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """How many elements over axes are no NaN, in x's dtype."""
    return sum(cast(logical_not(isnan(x)), x.type.dtype), axis, keepdims)


@public
@rounded_once
def nansum(x: Any, /, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum over axes of what is no NaN; dtypes and errors as for `sum`.

    >>> import gtensor as gt
    >>> gt.nansum(gt.tensor([1.0, gt.nan, 2.0]))
    Tensor(3., dtype=float32)
    """
    return sum(_without_nan(as_tensor(x), 0.0), axis, keepdims, dtype)


@public
@rounded_once
def nanprod(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over axes of what is no NaN; dtypes and errors as for `prod`.

    >>> import gtensor as gt
    >>> gt.nanprod(gt.tensor([2.0, gt.nan, 3.0]))
    Tensor(6., dtype=float32)
    """
    return prod(_without_nan(as_tensor(x), 1.0), axis, keepdims)


def _extreme(of: Any, x: Any, worst: float, axis: Axis, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    best: Tensor = of(_without_nan(tensor, worst), axis, keepdims)
    return where(all(isnan(tensor), axis, keepdims), math.nan, best) if tensor.type.dtype.floating else best


@public
@rounded_once
def nanmax(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes that is no NaN, NaN if all are; errors as for `max`.

    >>> import gtensor as gt
    >>> gt.nanmax(gt.tensor([1.0, gt.nan, 2.0]))
    Tensor(2., dtype=float32)
    """
    return _extreme(max, x, -math.inf, axis, keepdims)


@public
@rounded_once
def nanmin(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes that is no NaN, NaN if all are; errors as for `min`.

    >>> import gtensor as gt
    >>> gt.nanmin(gt.tensor([1.0, gt.nan, 2.0]))
    Tensor(1., dtype=float32)
    """
    return _extreme(min, x, math.inf, axis, keepdims)


@public
@rounded_once
def nanmean(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes of what is no NaN; dtypes and errors as for `mean`.

    >>> import gtensor as gt
    >>> gt.nanmean(gt.tensor([[1.0, gt.nan, 2.0], [gt.nan, gt.nan, gt.nan]]), axis=1)
    Tensor([1.5, nan], dtype=float32)
    """
    tensor = as_tensor(x)
    if not tensor.type.dtype.floating:
        return mean(tensor, axis, keepdims)
    return divide(nansum(tensor, axis, keepdims), _number_count(tensor, axis, keepdims))


@public
@rounded_once
def nanvar(x: Any, /, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes of what is no NaN, in two passes; dtypes and errors as for `var`.

    NaN where no more elements than the correction are left.

    >>> import gtensor as gt
    >>> gt.nanvar(gt.tensor([1.0, gt.nan, 3.0]), correction=1)
    Tensor(2., dtype=float32)
    """
    tensor = as_tensor(x)
    if not tensor.type.dtype.floating:
        return var(tensor, axis, correction, keepdims)
    centred = where(isnan(tensor), 0.0, subtract(tensor, nanmean(tensor, axis, keepdims=True)))
    freedom = maximum(subtract(_number_count(tensor, axis, keepdims), correction), 0)
    return where(freedom > 0, divide(sum(square(centred), axis, keepdims), freedom), math.nan)


@public
@rounded_once
def nanstd(x: Any, /, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes of what is no NaN: the root of `nanvar`, with gradient 0 at 0.

    >>> import gtensor as gt
    >>> gt.nanstd(gt.tensor([1.0, gt.nan, 3.0]))
    Tensor(1., dtype=float32)
    """
    tensor = as_tensor(x)
    if not tensor.type.dtype.floating:
        return std(tensor, axis, correction, keepdims)
    return root(nanvar(tensor, axis, correction, keepdims))

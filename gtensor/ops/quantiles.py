"""Order statistics over any axes: median, quantile, percentile.

The axes are joined into one, which is sorted; what is wanted lies at computed places. Laws: values, methods and
NaN (a line with a NaN gives NaN) are NumPy's; the gradient goes back to the elements that were read, in the
shares with which they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import DEFAULT_FLOAT, Dim, extent_bound, float64, int64, normalize_axes, resolve
from .arithmetic import ceil, floor, isinf, isnan, maximum, minimum, round, where
from .index import take
from .sort import sort

Axis = int | tuple[int, ...] | None
Places = tuple[Tensor, Tensor, Any]
"""The places below and above, and how far between them the value lies."""


def _linear(at: Tensor, last: int) -> Places:
    below = floor(at)
    return below, minimum(below + 1, last), at - below


def _midpoint(at: Tensor, last: int) -> Places:
    return floor(at), ceil(at), 0.5


def _one(rounding: Callable[[Tensor], Tensor]) -> Callable[[Tensor, int], Places]:
    def rule(at: Tensor, last: int) -> Places:
        place = rounding(at)
        return place, place, 0.0

    return rule


METHODS: dict[str, Callable[[Tensor, int], Places]] = {
    "linear": _linear,
    "lower": _one(floor),
    "higher": _one(ceil),
    "nearest": _one(round),
    "midpoint": _midpoint,
}
"""What lies at a place that is no whole number."""


def _sorted_lines(what: str, x: Any, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """The lines to take a statistic of, sorted and along the last axis, and the axes that they were made of."""
    tensor = as_tensor(x)
    dtype = resolve(tensor.type).dtype
    tensor = cast(tensor, dtype if dtype.floating else DEFAULT_FLOAT)
    axes = normalize_axes(axis, tensor.ndim)
    kept = tuple(i for i in range(tensor.ndim) if i not in axes)
    shape = tensor.type.shape
    if any(isinstance(shape[i], Dim) for i in axes):
        raise ShapeError(f"{what}: the length of an axis of {tensor.type} is known at run time only")
    length = math.prod(extent_bound(shape[i]) for i in axes)
    if length == 0:
        raise ShapeError(f"{what} of an empty axis has no value")
    moved = apply("transpose", tensor, axes=kept + axes)
    return sort(apply("reshape", moved, shape=(*(shape[i] for i in kept), length))), axes


def _last(x: Tensor, first: int, count: int) -> Tensor:
    """Elements of the last axis."""
    shape = x.type.shape
    lead = (0,) * (len(shape) - 1)
    return apply("slice", x, start=(*lead, first), stop=(*shape[:-1], first + count), step=(1,) * len(shape))


def _finished(out: Tensor, lines: Tensor, x: Any, axes: tuple[int, ...], keepdims: bool, lead: int = 0) -> Tensor:
    """NaN for the lines that have one, which is their last element; with the axes kept at extent 1 if asked for."""
    spoilt = apply("reshape", isnan(_last(lines, int(lines.shape[-1]) - 1, 1)), shape=lines.type.shape[:-1])
    out = where(spoilt, np.nan, out)
    if not keepdims:
        return out
    shape = tuple(1 if i in axes else n for i, n in enumerate(as_tensor(x).type.shape))
    return apply("reshape", out, shape=(*out.type.shape[:lead], *shape))


@public
@rounded_once
def median(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The middle element over axes (all by default), or the mean of the two in the middle, as np.median.

    NaN where there is one. Integers and bools give the default float. Raises ShapeError for an empty axis.

    >>> import gtensor as gt
    >>> gt.median(gt.tensor([[3.0, 1.0, 2.0], [4.0, 8.0, 6.0]]), axis=1), gt.median(gt.tensor([4, 1, 3, 2]))
    (Tensor([2., 6.], dtype=float32), Tensor(2.5, dtype=float32))
    """
    lines, axes = _sorted_lines("median", x, axis)
    length = int(lines.shape[-1])
    middle = [
        apply("reshape", _last(lines, place, 1), shape=lines.type.shape[:-1])
        for place in ((length - 1) // 2, length // 2)
    ]
    out = middle[0] if length % 2 else (middle[0] + middle[1]) / 2
    return _finished(out, lines, x, axes, keepdims)


@public
@rounded_once
def quantile(x: Any, q: Any, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The value below which a part q of the elements lies, over axes (all by default), as np.quantile.

    q: in [0, 1], a number or an array of any shape, whose axes come first in the result. method: what a place
    between two elements gives: "linear", "lower", "higher", "nearest" (the even one of two) or "midpoint".
    NaN where there is one. Raises ShapeError for an empty axis, OptionError for another method and for a known
    q out of range; a q out of range that is known at run time only gives NaN.

    >>> import gtensor as gt
    >>> gt.quantile(gt.tensor([1.0, 2.0, 3.0, 4.0]), [0.25, 0.5])
    Tensor([1.75, 2.5 ], dtype=float32)
    """
    if method not in METHODS:
        raise OptionError(f"quantile: method must be one of {', '.join(METHODS)}, not {method!r}")
    part = q if isinstance(q, Tensor) else as_tensor(np.asarray(q, np.float64))
    if part.data is not None and not ((part.data >= 0) & (part.data <= 1)).all():
        raise OptionError("quantile: q must lie in [0, 1]")
    lines, axes = _sorted_lines("quantile", x, axis)
    last = int(lines.shape[-1]) - 1
    wide = cast(part, float64)
    inside = minimum(maximum(wide, 0.0), 1.0)
    below, above, weight = METHODS[method](inside * last, last)
    a, b = (_at(lines, place) for place in (below, above))
    shape = part.type.shape
    column = (*shape, *(1,) * (lines.ndim - 1))
    share = apply("reshape", cast(as_tensor(weight) + 0 * wide, lines.type.dtype), shape=column)
    out = where((share == 0) | ((a == b) & isinf(a)), a, a + (b - a) * share)
    out = where(apply("reshape", wide == inside, shape=column), out, np.nan)
    return _finished(out, lines, x, axes, keepdims, len(shape))


def _at(lines: Tensor, places: Tensor) -> Tensor:
    """Elements of the last axis; the axes of the places come first."""
    found = take(lines, cast(places, int64), axis=-1)
    kept = lines.ndim - 1
    return apply("transpose", found, axes=(*range(kept, found.ndim), *range(kept)))


@public
@rounded_once
def percentile(x: Any, q: Any, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """`quantile` with q in per cent, as np.percentile.

    >>> import gtensor as gt
    >>> gt.percentile(gt.tensor([1.0, 2.0, 3.0]), 50)
    Tensor(2., dtype=float32)
    """
    return quantile(x, cast(as_tensor(q), float64) / 100, axis, method=method, keepdims=keepdims)

"""Arrays at another size: nearest neighbours, and linear interpolation over one, two or three axes.

x is [N, C, *S]; one axis is resized after the other, by reads at places that are exact fractions of integers. The
derivative adds what an element was read for. Law: places follow PyTorch's rules, by the ratio of the sizes, or by
`scale_factor` where that is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..errors import OptionError, ShapeError
from ..ops.arithmetic import maximum, minimum
from ..ops.create import arange
from ..ops.index import take
from ..ops.statistics import floating
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim
from .convolution import Sizes, sizes

AXES = {"nearest": None, "linear": 1, "bilinear": 2, "trilinear": 3}
"""Mode -> how many axes it resizes; nearest takes any number."""

FINEST = 10**6
"""The largest denominator of a scale factor, so that places are exact in int64."""


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False
) -> Tensor:
    """x at another size: each element from the nearest before its place, or between its two (four, eight) neighbours.

    x: [N, C, *S] with one to three axes S; `size`, or else `scale_factor` (the size is rounded down), is one number or
    one per axis. `mode`: "nearest" (keeps the dtype), "linear", "bilinear" or "trilinear" (integers give the default
    float). With `align_corners` the centres of the outermost elements coincide, else the edges of the arrays do.
    Raises ShapeError where x does not fit the mode, OptionError for wrong options.

    >>> import gtensor as gt
    >>> x = gt.tensor([[[0.0, 2.0]]])
    >>> gt.nn.interpolate(x, scale_factor=2), gt.nn.interpolate(x, size=3, mode="linear", align_corners=True)
    (Tensor([[[0., 0., 2., 2.]]], dtype=float32), Tensor([[[0., 1., 2.]]], dtype=float32))
    """
    if mode not in AXES:
        raise OptionError(f"interpolate: mode must be one of {', '.join(AXES)}, not {mode!r}")
    if align_corners and mode == "nearest":
        raise OptionError("interpolate: align_corners has no meaning for mode='nearest'")
    tensor = as_tensor(x) if mode == "nearest" else floating(x)
    axes = tensor.ndim - 2
    extents = tensor.type.shape[2:]
    if not 1 <= axes <= 3 or AXES[mode] not in (None, axes) or any(isinstance(n, Dim) or n == 0 for n in extents):
        raise ShapeError(f"interpolate: mode {mode!r} cannot resize {tensor.type}")
    before = tuple(n for n in extents if isinstance(n, int))
    after, ratios = _sizes(before, size, scale_factor)
    for axis, old, new, ratio in zip(range(2, tensor.ndim), before, after, ratios, strict=True):
        if mode == "nearest":
            tensor = _nearest(tensor, axis, old, new, ratio)
        elif align_corners:
            tensor = _linear(tensor, axis, old, new, Fraction(old - 1, max(new - 1, 1)), Fraction(0))
        else:
            tensor = _linear(tensor, axis, old, new, ratio, (ratio - 1) / 2)
    return tensor


upsample = interpolate


def _sizes(before: Sizes, size: Any, factor: Any) -> tuple[Sizes, list[Fraction]]:
    """The new sizes, and how many old elements there are to a new one."""
    if (size is None) == (factor is None):
        raise OptionError("interpolate: one of size and scale_factor must be given")
    if size is not None:
        after = sizes("interpolate", "size", size, len(before))
        return after, [Fraction(old, new) for old, new in zip(before, after, strict=True)]
    factors = tuple(factor) if isinstance(factor, Sequence) else (factor,) * len(before)
    if len(factors) != len(before) or not all(isinstance(f, (int, float)) and 0 < f < math.inf for f in factors):
        raise OptionError(f"interpolate: scale_factor must be one or {len(before)} positive numbers, not {factor!r}")
    exact = [Fraction(f).limit_denominator(FINEST) for f in factors]
    after = tuple(math.floor(old * f) for old, f in zip(before, exact, strict=True))
    if not all(after):
        raise OptionError(f"interpolate: scale_factor {factor!r} leaves nothing of {before}")
    return after, [1 / f for f in exact]


def _nearest(x: Tensor, axis: int, old: int, new: int, ratio: Fraction) -> Tensor:
    """New element i is old element floor(i * ratio)."""
    shape = x.type.shape
    if ratio * new == old and new % old == 0:
        times = new // old
        apart = apply("reshape", x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
        repeated = apply("broadcast", apart, shape=(*shape[: axis + 1], times, *shape[axis + 1 :]))
        return apply("reshape", repeated, shape=(*shape[:axis], new, *shape[axis + 1 :]))
    places = arange(new) * ratio.numerator // ratio.denominator
    return take(x, minimum(places, old - 1), axis=axis)


def _linear(x: Tensor, axis: int, old: int, new: int, ratio: Fraction, start: Fraction) -> Tensor:
    """New element i lies at i * ratio + start, between two old elements, and never before the first."""
    if old == new:
        return x
    below = math.lcm(ratio.denominator, start.denominator)
    steps = maximum(arange(new) * int(ratio * below) + int(start * below), 0)
    first = minimum(steps // below, old - 1)
    weight = cast(steps % below, x.dtype) / below
    weight = apply("reshape", weight, shape=(new, *(1,) * (x.ndim - axis - 1)))
    after = take(x, minimum(first + 1, old - 1), axis=axis)
    return take(x, first, axis=axis) * (1 - weight) + after * weight

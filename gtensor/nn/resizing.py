"""Arrays at another size: nearest neighbours, linear interpolation over one, two or three axes, cubic over two.

x is [N, C, *S]; one axis is resized after the other, by reads at places that are exact fractions of integers. The
derivative adds what an element was read for. Law: places follow PyTorch's rules, by the ratio of the sizes, or by
`scale_factor` where that is given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..codegen.lazy import Lazy
from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import add, maximum, minimum
from ..ops.create import arange
from ..ops.index import take
from ..ops.statistics import floating
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim
from .convolution import Sizes, sizes

if TYPE_CHECKING:
    import fractions
else:
    fractions = Lazy("fractions")

FINEST = 10**6
"""The largest denominator of a scale factor, so that places are exact in int64."""


@rounded_once
def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False
) -> Tensor:
    """x at another size: each element from the nearest before its place, or between its two (four, eight) neighbours.

    x: [N, C, *S] with one to three axes S; `size`, or else `scale_factor` (the size is rounded down), is one number or
    one per axis. `mode`: "nearest" or "nearest-exact" (which keep the dtype; the second takes the element in which
    the centre lies), "linear", "bilinear", "trilinear" or "bicubic" (integers give the default float). With
    `align_corners` the centres of the outermost elements coincide, else the edges of the arrays do. Raises ShapeError
    where x does not fit the mode, OptionError for wrong options. Source of bicubic: Keys, Cubic Convolution
    Interpolation for Digital Image Processing, 1981, with PyTorch's -0.75.

    >>> import gtensor as gt
    >>> x = gt.tensor([[[0.0, 2.0]]])
    >>> gt.nn.interpolate(x, scale_factor=2), gt.nn.interpolate(x, size=3, mode="linear", align_corners=True)
    (Tensor([[[0., 0., 2., 2.]]], dtype=float32), Tensor([[[0., 1., 2.]]], dtype=float32))
    """
    if mode not in MODES:
        raise OptionError(f"interpolate: mode must be one of {', '.join(MODES)}, not {mode!r}")
    way = MODES[mode]
    if align_corners and way.place is _nearest:
        raise OptionError(f"interpolate: align_corners has no meaning for mode={mode!r}")
    tensor = as_tensor(x) if way.place is _nearest else floating(x)
    axes = tensor.ndim - 2
    extents = tensor.type.shape[2:]
    if not 1 <= axes <= 3 or way.axes not in (None, axes) or any(isinstance(n, Dim) or n == 0 for n in extents):
        raise ShapeError(f"interpolate: mode {mode!r} cannot resize {tensor.type}")
    before = tuple(n for n in extents if isinstance(n, int))
    after, ratios = _sizes(before, size, scale_factor)
    for axis, old, new, ratio in zip(range(2, tensor.ndim), before, after, ratios, strict=True):
        if align_corners:
            tensor = way.place(
                tensor, axis, old, new, fractions.Fraction(old - 1, max(new - 1, 1)), fractions.Fraction(0)
            )
        else:
            tensor = way.place(tensor, axis, old, new, ratio, way.start(ratio))
    return tensor


upsample = interpolate


def _sizes(before: Sizes, size: Any, factor: Any) -> tuple[Sizes, list[fractions.Fraction]]:
    """The new sizes, and how many old elements there are to a new one."""
    if (size is None) == (factor is None):
        raise OptionError("interpolate: one of size and scale_factor must be given")
    if size is not None:
        after = sizes("interpolate", "size", size, len(before))
        return after, [fractions.Fraction(old, new) for old, new in zip(before, after, strict=True)]
    factors = tuple(factor) if isinstance(factor, Sequence) else (factor,) * len(before)
    if len(factors) != len(before) or not all(isinstance(f, (int, float)) and 0 < f < math.inf for f in factors):
        raise OptionError(f"interpolate: scale_factor must be one or {len(before)} positive numbers, not {factor!r}")
    exact = [fractions.Fraction(f).limit_denominator(FINEST) for f in factors]
    after = tuple(math.floor(old * f) for old, f in zip(before, exact, strict=True))
    if not all(after):
        raise OptionError(f"interpolate: scale_factor {factor!r} leaves nothing of {before}")
    return after, [1 / f for f in exact]


def _nearest(x: Tensor, axis: int, old: int, new: int, ratio: fractions.Fraction, start: fractions.Fraction) -> Tensor:
    """New element i is old element floor(i * ratio + start)."""
    shape = x.type.shape
    if ratio * new == old and new % old == 0:  # wherever it starts inside the first element
        times = new // old
        apart = apply("reshape", x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
        repeated = apply("broadcast", apart, shape=(*shape[: axis + 1], times, *shape[axis + 1 :]))
        return apply("reshape", repeated, shape=(*shape[:axis], new, *shape[axis + 1 :]))
    steps, below = _steps(new, ratio, start)
    return take(x, minimum(steps // below, old - 1), axis=axis)


def _steps(new: int, ratio: fractions.Fraction, start: fractions.Fraction) -> tuple[Tensor, int]:
    """The places i * ratio + start of new elements, as integers over a common denominator."""
    below = math.lcm(ratio.denominator, start.denominator)
    return arange(new) * int(ratio * below) + int(start * below), below


def _share(steps: Tensor, below: int, x: Tensor, axis: int) -> Tensor:
    """How far places lie behind the element before them, laid along an axis of x."""
    share = cast(steps % below, x.dtype) / below
    return apply("reshape", share, shape=(*share.type.shape, *(1,) * (x.ndim - axis - 1)))


def _linear(x: Tensor, axis: int, old: int, new: int, ratio: fractions.Fraction, start: fractions.Fraction) -> Tensor:
    """New element i lies at i * ratio + start, between two old elements, and never before the first."""
    if old == new:
        return x
    steps, below = _steps(new, ratio, start)
    steps = maximum(steps, 0)
    first = minimum(steps // below, old - 1)
    weight = _share(steps, below, x, axis)
    after = take(x, minimum(first + 1, old - 1), axis=axis)
    return take(x, first, axis=axis) * (1 - weight) + after * weight


BEND = -0.75
"""The slope of the cubic kernel at 1, by which it is known."""


def _cubic(x: Tensor, axis: int, old: int, new: int, ratio: fractions.Fraction, start: fractions.Fraction) -> Tensor:
    """New element i lies at i * ratio + start, among two old elements on either side; the outermost go on for ever."""
    if old == new:
        return x
    steps, below = _steps(new, ratio, start)
    first, t = steps // below, _share(steps, below, x, axis)

    def near(t: Tensor) -> Tensor:
        return ((BEND + 2) * t - (BEND + 3)) * t * t + 1

    def far(t: Tensor) -> Tensor:
        return ((BEND * t - 5 * BEND) * t + 8 * BEND) * t - 4 * BEND

    weights = {-1: far(t + 1), 0: near(t), 1: near(1 - t), 2: far(2 - t)}
    parts = (take(x, minimum(maximum(first + i, 0), old - 1), axis=axis) * w for i, w in weights.items())
    return functools.reduce(add, parts)


@dataclass(frozen=True)
class _Mode:
    """How many axes a mode resizes (None: any number), its function, and where the first place is, given the ratio."""

    axes: int | None
    place: Callable[[Tensor, int, int, int, fractions.Fraction, fractions.Fraction], Tensor]
    start: Callable[[fractions.Fraction], fractions.Fraction]


def _centred(ratio: fractions.Fraction) -> fractions.Fraction:
    return (ratio - 1) / 2


MODES = {
    "nearest": _Mode(None, _nearest, lambda ratio: fractions.Fraction(0)),
    "nearest-exact": _Mode(None, _nearest, lambda ratio: ratio / 2),
    "linear": _Mode(1, _linear, _centred),
    "bilinear": _Mode(2, _linear, _centred),
    "trilinear": _Mode(3, _linear, _centred),
    "bicubic": _Mode(2, _cubic, _centred),
}

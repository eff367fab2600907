"""Arrays read at computed places between their elements: affine_grid, grid_sample.

Comes in: x [N, C, *S] and for each place of the result its coordinates, from -1 to 1 along each axis, the last axis
first, as in PyTorch. The places are reads of the flattened axes, weighted by how near they are; the derivative by x
adds to what was read, that by the coordinates goes through the weights. Law: what a place outside reads is what
`padding_mode` says, at any distance, and NaN reads nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import abs, add, floor, remainder, round, where
from ..ops.arrange import swapaxes
from ..ops.assemble import stack
from ..ops.contract import matmul
from ..ops.create import arange, zeros
from ..ops.floats import fmod
from ..ops.index import gather
from ..ops.layout import broadcast_to, reshape
from ..ops.statistics import floating
from ..tensor import Tensor, cast
from ..types import int64, promote, shape_size
from .activations import clip

Taps = list[tuple[Tensor, Tensor | None]]
"""Elements along an axis, as floats without a fraction, and their weights (None: 1)."""


@rounded_once
def affine_grid(theta: Any, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The places that affine maps of a regular grid give, for `grid_sample`.

    theta: [N, 2, 3] or [N, 3, 4], a map for each example; size: the shape [N, C, H, W] or [N, C, D, H, W] of what is
    to be sampled; the result is [N, H, W, 2] or [N, D, H, W, 3]. With `align_corners` -1 and 1 are the centres of the
    outermost elements, else their edges. Raises ShapeError where shapes do not fit. Source: Jaderberg et al., Spatial
    Transformer Networks, 2015.

    >>> import gtensor as gt
    >>> gt.nn.affine_grid(gt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]]), (1, 1, 1, 2))
    Tensor([[[[-0.5,  0.5],
              [ 0.5,  0.5]]]], dtype=float32)
    """
    maps, shape = floating(theta), tuple(size)
    axes = len(shape) - 2
    if axes not in (2, 3) or maps.ndim != 3 or maps.shape[1:] != (axes, axes + 1):
        raise ShapeError(f"affine_grid: theta {maps.type} does not fit a size of {shape}")
    extents = shape[2:]
    lines = [_centres(n, align_corners, maps.dtype) for n in extents]
    columns = [
        broadcast_to(reshape(line, (n, *(1,) * (axes - 1 - i))), extents)
        for i, (n, line) in enumerate(zip(extents, lines, strict=True))
    ]
    points = reshape(stack(columns[::-1], axis=-1), (math.prod(extents), axes))
    moved = matmul(points, swapaxes(maps[:, :, :axes], 1, 2)) + swapaxes(maps[:, :, axes:], 1, 2)
    return reshape(moved, (maps.type.shape[0], *extents, axes))


def _centres(n: int, align_corners: bool, dtype: Any) -> Tensor:
    """Where the centres of n elements lie between -1 and 1."""
    if align_corners:
        return cast(arange(n) * 2, dtype) / (n - 1) - 1 if n > 1 else zeros(1, dtype)
    return cast(arange(n) * 2 + 1, dtype) / n - 1


@rounded_once
def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """x read at the places of a grid, between its elements.

    x: [N, C, H, W] or [N, C, D, H, W]; grid: [N, *P, 2] or [N, *P, 3], coordinates from -1 to 1 of which the first
    goes along the last axis of x; the result is [N, C, *P]. mode: "bilinear" (also for three axes), "nearest"
    (halves to even) or "bicubic" (two axes). What is outside is 0 for padding_mode "zeros", the nearest element for
    "border", and mirrored for "reflection". `align_corners` is that of `affine_grid`. Raises ShapeError where shapes
    do not fit, OptionError for wrong options. The rules are PyTorch's.

    >>> import gtensor as gt
    >>> x = gt.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> gt.nn.grid_sample(x, gt.tensor([[[[0.0, 0.0], [-0.5, 0.5], [1.0, 1.0]]]]))
    Tensor([[[[1.5 , 2.  , 0.75]]]], dtype=float32)
    """
    if mode not in MODES or padding_mode not in PADDINGS:
        raise OptionError(
            f"grid_sample: mode {mode!r} must be one of {', '.join(MODES)}, padding_mode {padding_mode!r} one of"
            f" {', '.join(PADDINGS)}"
        )
    way, outside = MODES[mode], PADDINGS[padding_mode]
    tensor, places = floating(x), floating(grid)
    dtype, _ = promote([tensor.type, places.type])
    tensor, places = cast(tensor, dtype), cast(places, dtype)
    axes = tensor.ndim - 2
    extents = [n for n in tensor.type.shape[2:] if isinstance(n, int) and n]
    if (
        axes not in way.axes
        or len(extents) < axes
        or places.ndim < 2
        or (places.type.shape[0], places.type.shape[-1]) != (tensor.type.shape[0], axes)
    ):
        raise ShapeError(f"grid_sample: mode {mode!r} cannot sample {tensor.type} at {places.type}")
    count, channels = tensor.type.shape[:2]
    shape = places.type.shape[1:-1]
    size = shape_size(shape)
    flat = reshape(places, (count, size, axes))
    found = []
    for i, n in enumerate(extents):
        place = _unscaled(flat[..., axes - 1 - i], n, align_corners)
        taps = way.taps(place if way.late else outside(place, n, align_corners))
        found.append([(outside(at, n, align_corners), w) for at, w in taps] if way.late else taps)
    flattened = reshape(tensor, (count, channels, math.prod(extents)))
    parts = (_read(flattened, taps, extents) for taps in itertools.product(*found))
    return reshape(functools.reduce(add, parts), (count, channels, *shape))


def _read(x: Tensor, taps: Sequence[tuple[Tensor, Tensor | None]], extents: Sequence[int]) -> Tensor:
    """One element for each place, times its weight; outside it is 0."""
    count, channels, _ = x.type.shape
    index: Any = 0
    inside: Any = True
    weight: Any = 1
    for (at, own), n in zip(taps, extents, strict=True):
        inside = inside & (at >= 0) & (at <= n - 1)
        index = index * n + cast(clip(at, 0, n - 1), int64)
        weight = weight if own is None else weight * own
    size = index.type.shape[-1]
    read = gather(x, 2, broadcast_to(reshape(index, (count, 1, size)), (count, channels, size)))
    weighted = read if isinstance(weight, int) else read * reshape(weight, (count, 1, size))
    return where(reshape(inside, (count, 1, size)), weighted, 0)


def _unscaled(place: Tensor, n: int, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as numbers of elements."""
    return (place + 1) / 2 * (n - 1) if align_corners else ((place + 1) * n - 1) / 2


# ---- what is read ----------------------------------------------------------------------------------------


def _nearest(place: Tensor) -> Taps:
    return [(round(place), None)]


def _linear(place: Tensor) -> Taps:
    first = floor(place)
    t = place - first
    return [(first, 1 - t), (first + 1, t)]


BEND = -0.75
"""The slope of the cubic kernel at 1, by which it is known: that of `interpolate`."""


def _cubic(place: Tensor) -> Taps:
    first = floor(place)
    t = place - first

    def near(t: Tensor) -> Tensor:
        return ((BEND + 2) * t - (BEND + 3)) * t * t + 1

    def far(t: Tensor) -> Tensor:
        return ((BEND * t - 5 * BEND) * t + 8 * BEND) * t - 4 * BEND

    return [(first - 1, far(t + 1)), (first, near(t)), (first + 1, near(1 - t)), (first + 2, far(2 - t))]


@dataclass(frozen=True)
class _Mode:
    """For how many axes a mode is, what it reads, and whether each element or the place between them is padded."""

    axes: tuple[int, ...]
    taps: Callable[[Tensor], Taps]
    late: bool = False


MODES = {
    "nearest": _Mode((2, 3), _nearest),
    "bilinear": _Mode((2, 3), _linear),
    "bicubic": _Mode((2,), _cubic, late=True),
}


# ---- what is outside -------------------------------------------------------------------------------------


def _border(place: Tensor, n: int, align_corners: bool) -> Tensor:
    return clip(place, 0, n - 1)


def _reflection(place: Tensor, n: int, align_corners: bool) -> Tensor:
    """Mirrored at the centres of the outermost elements, or at their edges, as often as needed."""
    low, width = (0.0, n - 1) if align_corners else (-0.5, n)
    if not width:
        return place * 0
    away = abs(place - low)
    back = fmod(away, width)
    turned = remainder(floor(away / width), 2) == 1
    return clip(where(turned, width - back, back) + low, 0, n - 1)


PADDINGS: dict[str, Callable[[Tensor, int, bool], Tensor]] = {
    "zeros": lambda place, n, align_corners: place,
    "border": _border,
    "reflection": _reflection,
}

"""Pooling over one, two and three axes: the largest element or the mean of windows.

x is [..., *S]; the last axes are pooled. Windows are a view (`ops.conv`), so a pool is a reduction of one. Laws:
equal largest elements of a window share its gradient evenly (PyTorch gives it to the first), NaN stays, and what a
window holds of the padding never wins and, for a mean, counts only with `count_include_pad`.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import add, maximum, minimum, where
from ..ops.conv import span
from ..ops.create import arange, ones
from ..ops.index import take
from ..ops.layout import expand_dims, reshape
from ..ops.reduce import argmax, max, sum
from ..ops.statistics import floating, mean
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, bool_, int64
from .convolution import Sizes, borders, padded, sizes

FEW = 4
"""Windows along an axis that are summed term by term: of 2, 64x6x24x24 takes 20 us so and 80 as a reduction."""


def _pooled_axes(what: str, x: Tensor, axes: int) -> Sizes:
    """The extents that are pooled; raises ShapeError."""
    found = x.type.shape[x.ndim - axes :]
    if x.ndim < axes or any(isinstance(n, Dim) for n in found):
        raise ShapeError(f"{what}: x must end in {axes} axes of constant extent, not {x.type}")
    return tuple(n for n in found if isinstance(n, int))


class _Pool:
    """The options of a pool over the given extents, one for each axis.

    `more` is how many elements a last window, which only `ceil_mode` keeps, reaches beyond the border. It is kept
    if it starts inside the array or the border before it.
    """

    def __init__(
        self, what: str, extents: Sizes, window: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        axes = len(extents)
        self.window = sizes(what, "kernel_size", window, axes)
        self.stride = self.window if stride is None else sizes(what, "stride", stride, axes)
        self.dilation = sizes(what, "dilation", dilation, axes)
        self.border = borders(what, padding, axes)
        spans = tuple(map(span, self.window, self.dilation))
        if any(n >= reach for pair, reach in zip(self.border, spans, strict=True) for n in pair):
            raise OptionError(f"{what}: padding {padding} must be smaller than the window, which spans {spans}")
        self.more = (0,) * axes
        if ceil_mode:
            self.more = tuple(map(_beyond, extents, self.border, spans, self.stride))
        self.padded = any(map(any, self.border))
        self.tiles = self.stride == self.window and set(self.dilation) == {1} and not self.padded

    def windows(self, x: Tensor, border: float, beyond: float) -> tuple[Tensor, tuple[int, ...]]:
        """The windows of x within a border and what is beyond it, and the axes that are inside a window."""
        axes = len(self.window)
        whole = padded(padded(x, self.border, border), tuple((0, n) for n in self.more), beyond)
        seen = apply("windows", whole, window=self.window, step=self.stride, dilation=self.dilation)
        return seen, tuple(range(x.ndim - axes, x.ndim))


def _beyond(extent: int, border: tuple[int, int], reach: int, stride: int) -> int:
    """How many elements are missing to one more window; 0 where none is, or where it would start too far behind."""
    whole, rest = divmod(extent + border[0] + border[1] - reach, stride)
    return stride - rest if rest and (whole + 1) * stride < extent + border[0] else 0


def _lowest(x: Tensor) -> float:
    """What is never larger than an element."""
    dtype = x.dtype
    return -math.inf if dtype.floating else 0 if dtype == bool_ else int(np.iinfo(dtype.dtype).min)


def _max_pool(
    axes: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool
) -> Any:
    what = f"max_pool{axes}d"
    tensor = as_tensor(x)
    extents = _pooled_axes(what, tensor, axes)
    pool = _Pool(what, extents, kernel_size, stride, padding, dilation, ceil_mode)
    if tensor.type.dtype == bool_:
        raise OptionError(f"{what}: x must be numbers, not {tensor.type}")
    low = _lowest(tensor)
    seen, inside = pool.windows(tensor, low, low)
    largest = max(seen, inside)
    return (largest, _indices(seen, pool, extents)) if return_indices else largest


def _indices(seen: Tensor, pool: _Pool, extents: Sizes) -> Tensor:
    """Where the first of the largest elements of each window lies in the flattened axes that are pooled."""
    axes = len(extents)
    lead, counts = seen.type.shape[: seen.ndim - 2 * axes], seen.shape[seen.ndim - axes :]
    line = apply("reshape", seen, shape=(*lead, math.prod(pool.window), *counts))
    rest = argmax(line, axis=len(lead))
    flat, step = as_tensor(0), 1
    for i in reversed(range(axes)):
        start = apply("iota", shape=counts, axis=i, dtype=int64) * pool.stride[i]
        start = start - pool.border[i][0]
        # Where nothing is larger than the border the first element of the window may lie in it: the next one inside.
        tap = maximum(rest % pool.window[i], -(start // pool.dilation[i]))
        flat = flat + (start + tap * pool.dilation[i]) * step
        rest, step = rest // pool.window[i], step * extents[i]
    return flat


def _avg_pool(
    axes: int, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    dilation: Any,
) -> Tensor:  # fmt: skip
    what = f"avg_pool{axes}d"
    tensor = floating(x)
    extents = _pooled_axes(what, tensor, axes)
    pool = _Pool(what, extents, kernel_size, stride, padding, dilation, ceil_mode)
    fits = all(n >= size for n, size in zip(extents, pool.window, strict=True))
    if pool.tiles and fits and not any(pool.more):
        return _sum_of_tiles(tensor, extents, pool.window) / math.prod(pool.window)
    total = sum(*pool.windows(tensor, 0.0, 0.0))
    if not any(pool.more) and (count_include_pad or not pool.padded):
        return total / math.prod(pool.window)
    return total / sum(*pool.windows(ones(extents, tensor.dtype), float(count_include_pad), 0.0))


def _sum_of_tiles(x: Tensor, extents: Sizes, window: Sizes) -> Tensor:
    """Sums of windows side by side, along one axis after the other: the derivative only repeats elements."""
    axes = len(window)
    for axis, n, size in zip(range(x.ndim - axes, x.ndim), extents, window, strict=True):
        shape = x.type.shape
        if n % size:
            stop = (*shape[:axis], n - n % size, *shape[axis + 1 :])
            x = apply("slice", x, start=(0,) * x.ndim, stop=stop, step=(1,) * x.ndim)
        if size > 1:
            tiles = apply("reshape", x, shape=(*shape[:axis], n // size, size, *shape[axis + 1 :]))
            x = _sum_of_few(tiles, axis + 1) if size <= FEW else apply("sum", tiles, axis=(axis + 1,))
    return x


def _sum_of_few(x: Tensor, axis: int) -> Tensor:
    """The sum along an axis, term by term: no running sums go through memory."""
    lead = (slice(None),) * axis
    first, *others = (x[(*lead, i)] for i in range(int(x.shape[axis])))
    return functools.reduce(add, others, first)


def max_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window along the last axis; NaN if it holds one.

    x: [..., L], of any dtype but bool. kernel_size, stride (that of the window by default), padding, dilation: an
    integer; padding also a list of one pair (before, after). What is padded never wins; equal largest elements share
    the gradient evenly. With `ceil_mode` a last window counts that starts inside x and reaches beyond its end; with
    `return_indices` the result is a pair: the elements, and where each lies in the axes that are pooled, flattened
    (int64; the first of equal ones). Raises ShapeError where the window does not fit, OptionError for wrong options.

    >>> import gtensor as gt
    >>> gt.nn.max_pool1d(gt.tensor([1.0, 3.0, 2.0, 5.0]), 2)
    Tensor([3., 5.], dtype=float32)
    >>> gt.nn.max_pool1d(gt.tensor([1.0, 3.0, 2.0]), 2, ceil_mode=True, return_indices=True)
    (Tensor([3., 2.], dtype=float32), Tensor([1, 2], dtype=int64))
    """
    return _max_pool(1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """`max_pool1d` over two axes: x is [..., H, W]; options are one integer or one per axis.

    `padding` may also be a pair (before, after) per axis.

    >>> import gtensor as gt
    >>> gt.nn.max_pool2d(gt.ones((8, 3, 9, 9)), 3, stride=2, padding=1).shape
    (8, 3, 5, 5)
    """
    return _max_pool(2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """`max_pool1d` over three axes: x is [..., D, H, W]; options are one integer or one per axis.

    `padding` may also be a pair (before, after) per axis.

    >>> import gtensor as gt
    >>> gt.nn.max_pool3d(gt.ones((1, 4, 4, 4)), (2, 1, 2)).shape
    (1, 2, 4, 2)
    """
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@rounded_once
def avg_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The mean of each window along the last axis.

    x: [..., L]; integers give the default float. kernel_size, stride, padding, dilation and `ceil_mode` are those of
    `max_pool1d`. Padded zeros count as elements, unless `count_include_pad` is false; what lies beyond them never
    does. Raises as `max_pool1d` does.

    >>> import gtensor as gt
    >>> gt.nn.avg_pool1d(gt.tensor([1.0, 3.0, 2.0, 6.0]), 2)
    Tensor([2., 4.], dtype=float32)
    """
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, dilation)


@rounded_once
def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """`avg_pool1d` over two axes: x is [..., H, W]; options are one integer or one per axis.

    `padding` may also be a pair (before, after) per axis.

    >>> import gtensor as gt
    >>> gt.nn.avg_pool2d(gt.ones((8, 3, 6, 7)), 2).shape
    (8, 3, 3, 3)
    """
    return _avg_pool(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, dilation)


@rounded_once
def avg_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """`avg_pool1d` over three axes: x is [..., D, H, W]; options are one integer or one per axis.

    `padding` may also be a pair (before, after) per axis.

    >>> import gtensor as gt
    >>> gt.nn.avg_pool3d(gt.ones((1, 4, 4, 4)), 2).shape
    (1, 2, 2, 2)
    """
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, dilation)


# ---- to a given size --------------------------------------------------------------------------------------


Fold = Callable[[Tensor, Tensor | None, tuple[int, ...]], Tensor]
"""Parts, which of their elements count (None: all), and the axes inside a part; gives one element for each part."""


def _adaptive(what: str, axes: int, x: Tensor, output_size: Any, fold: Fold) -> Tensor:
    """Each axis of n in `output_size` parts, part i from floor(i n / size) to ceil((i + 1) n / size), folded.

    Where all parts are of one length they are a view; else all are read with the length of the longest, under a mask.
    """
    extents, first = _pooled_axes(what, x, axes), x.ndim - axes
    given = (output_size,) * axes if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(given) == axes:
        given = tuple(n if size is None else size for n, size in zip(extents, given, strict=True))
    counts = sizes(what, "output_size", given, axes)
    if 0 in extents:
        raise ShapeError(f"{what}: nothing to pool in {x.type}")
    if all(n % size == 0 for n, size in zip(extents, counts, strict=True)):
        window = tuple(n // size for n, size in zip(extents, counts, strict=True))
        seen = apply("windows", x, window=window, step=window, dilation=(1,) * axes)
        return fold(seen, None, tuple(range(first, first + axes)))
    inside = as_tensor(True)
    for i, (n, size) in enumerate(zip(extents, counts, strict=True)):
        starts, ends = arange(size) * n // size, -(arange(1, size + 1) * -n // size)
        longest = builtins.max(-((k + 1) * -n // size) - k * n // size for k in range(size))
        places = expand_dims(starts, 1) + arange(longest)
        rest = (1,) * (2 * (axes - i - 1))
        inside = inside & reshape(places < expand_dims(ends, 1), (size, longest, *rest))
        x = take(x, minimum(places, n - 1), axis=first + 2 * i)
    return fold(x, inside, tuple(range(first + 1, x.ndim, 2)))


def _mean_of(x: Tensor, counts: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    if counts is None:
        return mean(x, axes)
    lead = x.ndim - counts.ndim
    return sum(where(counts, x, 0), axes) / sum(cast(counts, x.dtype), tuple(i - lead for i in axes))


def _largest_of(x: Tensor, counts: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    return max(x if counts is None else where(counts, x, _lowest(x)), axes)


def _adaptive_avg(axes: int, x: Any, output_size: Any) -> Tensor:
    return _adaptive(f"adaptive_avg_pool{axes}d", axes, floating(x), output_size, _mean_of)


def _adaptive_max(axes: int, x: Any, output_size: Any) -> Tensor:
    return _adaptive(f"adaptive_max_pool{axes}d", axes, as_tensor(x), output_size, _largest_of)


@rounded_once
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """The means of `output_size` parts of the last axis, which overlap where they do not divide it.

    x: [..., L]; part i reaches from floor(i L / size) to ceil((i + 1) L / size). None keeps an axis as it is. Raises
    ShapeError where there is nothing to pool, OptionError for a wrong size.

    >>> import gtensor as gt
    >>> gt.nn.adaptive_avg_pool1d(gt.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), 2)
    Tensor([2., 4.], dtype=float32)
    """
    return _adaptive_avg(1, x, output_size)


@rounded_once
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d` over two axes: x is [..., H, W]; a size of 1 is the mean of each channel.

    >>> import gtensor as gt
    >>> gt.nn.adaptive_avg_pool2d(gt.ones((8, 3, 7, 9)), (1, None)).shape
    (8, 3, 1, 9)
    """
    return _adaptive_avg(2, x, output_size)


@rounded_once
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d` over three axes: x is [..., D, H, W].

    >>> import gtensor as gt
    >>> gt.nn.adaptive_avg_pool3d(gt.ones((1, 4, 4, 4)), 2).shape
    (1, 2, 2, 2)
    """
    return _adaptive_avg(3, x, output_size)


@rounded_once
def adaptive_max_pool1d(x: Any, output_size: Any) -> Tensor:
    """The largest elements of `output_size` parts of the last axis; parts, options and errors as `adaptive_avg_pool1d`.

    >>> import gtensor as gt
    >>> gt.nn.adaptive_max_pool1d(gt.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), 2)
    Tensor([3., 5.], dtype=float32)
    """
    return _adaptive_max(1, x, output_size)


@rounded_once
def adaptive_max_pool2d(x: Any, output_size: Any) -> Tensor:
    """`adaptive_max_pool1d` over two axes: x is [..., H, W].

    >>> import gtensor as gt
    >>> gt.nn.adaptive_max_pool2d(gt.ones((8, 3, 7, 9)), 1).shape
    (8, 3, 1, 1)
    """
    return _adaptive_max(2, x, output_size)


@rounded_once
def adaptive_max_pool3d(x: Any, output_size: Any) -> Tensor:
    """`adaptive_max_pool1d` over three axes: x is [..., D, H, W].

    >>> import gtensor as gt
    >>> gt.nn.adaptive_max_pool3d(gt.ones((1, 4, 4, 4)), 2).shape
    (1, 2, 2, 2)
    """
    return _adaptive_max(3, x, output_size)

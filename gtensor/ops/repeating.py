"""Arrays made of copies and turns of another: repeat, tile, roll, rot90.

Laws: copies are broadcasts, so the gradient of an element is the sum over its copies; counts are known while
tracing (a shift need not be); axes out of range raise ShapeError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, int64, normalize_axis
from .arithmetic import remainder, subtract
from .arrange import ravel, swapaxes
from .layout import flip
from .places import constant_extent, constant_integers, rows


@public
def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Tensor:
    """Each element of an axis (of the flattened array without one) as often as `repeats` says, side by side.

    repeats: a number, or one for each element, known while tracing. Raises ShapeError for a negative number
    and where the count of numbers does not fit, TraceError for traced ones.

    >>> import gtensor as gt
    >>> gt.repeat(gt.tensor([1, 2]), 2), gt.repeat(gt.tensor([1, 2]), [0, 3])
    (Tensor([1, 1, 2, 2], dtype=int64), Tensor([2, 2, 2], dtype=int64))
    """
    tensor, counts = as_tensor(x), constant_integers(repeats, "repeat: repeats")
    if axis is None:
        tensor, axis = ravel(tensor), 0
    at = normalize_axis(axis, tensor.ndim)
    if (counts < 0).any() or counts.ndim > 1:
        raise ShapeError(f"repeat: repeats must be numbers from 0 on, not {counts.tolist()}")
    if counts.size != 1:
        extent = constant_extent(tensor, at, "repeat")
        if counts.size != extent:
            raise ShapeError(f"repeat: {counts.size} repeats for {extent} elements")
        return rows(tensor, np.repeat(np.arange(extent), counts), at)
    times, shape = int(counts.item()), tensor.type.shape
    apart = apply("reshape", tensor, shape=(*shape[: at + 1], 1, *shape[at + 1 :]))
    copies = apply("broadcast", apart, shape=(*shape[: at + 1], times, *shape[at + 1 :]))
    return apply("reshape", copies, shape=(*shape[:at], shape[at] * times, *shape[at + 1 :]))


@public
def tile(x: Any, repetitions: Any, /) -> Tensor:
    """The array laid side by side so many times along each axis, as `np.tile` and `torch.tile`.

    repetitions: a number, or one per axis; the shorter of the shape and these gets ones in front.

    >>> import gtensor as gt
    >>> gt.tile(gt.tensor([1, 2]), (2, 2))
    Tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]], dtype=int64)
    """
    tensor = as_tensor(x)
    times = [int(n) for n in np.atleast_1d(constant_integers(repetitions, "tile: repetitions"))]
    if any(n < 0 for n in times):
        raise ShapeError(f"tile: repetitions must not be negative, as {times} are")
    times = [1] * (tensor.ndim - len(times)) + times
    shape = (1,) * (len(times) - tensor.ndim) + tensor.type.shape
    apart = apply("reshape", tensor, shape=tuple(n for extent in shape for n in (1, extent)))
    pairs = tuple(n for count, extent in zip(times, shape, strict=True) for n in (count, extent))
    copies = apply("broadcast", apart, shape=pairs)
    return apply("reshape", copies, shape=tuple(extent * n for n, extent in zip(times, shape, strict=True)))


@public
def roll(x: Any, /, shift: Any, axis: Any = None) -> Tensor:
    """Elements moved along axes, those that leave at one end coming back at the other.

    shift: how far (towards higher places), one number or one per axis; without an axis the flattened array
    is rolled. A shift may be traced. Raises ShapeError where shifts and axes do not pair.

    >>> import gtensor as gt
    >>> gt.roll(gt.arange(5), 2)
    Tensor([3, 4, 0, 1, 2], dtype=int64)
    """
    tensor = as_tensor(x)
    if axis is None:
        return apply("reshape", roll(ravel(tensor), shift, 0), shape=tensor.type.shape)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    several = isinstance(shift, (tuple, list)) or getattr(shift, "ndim", 0) == 1
    shifts = list(shift) if several else [shift] * len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for by, at in zip(shifts, axes, strict=True):
        tensor = _rolled(tensor, by, normalize_axis(at, tensor.ndim))
    return tensor


def _rolled(x: Tensor, shift: Any, axis: int) -> Tensor:
    extent: Any = x.type.shape[axis]
    if extent == 0:
        return x
    if isinstance(extent, Dim) or (isinstance(shift, Tensor) and shift.data is None):
        line = apply("iota", shape=(extent,), axis=0, dtype=int64)
        return apply("take", x, remainder(subtract(line, cast(as_tensor(shift), int64)), extent), axis=axis)
    return rows(x, np.roll(np.arange(extent), int(constant_integers(shift, "roll: shift"))), axis)


@public
def rot90(x: Any, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Each matrix over two axes turned by k right angles, from the first axis towards the second.

    Raises ShapeError for axes that are one.

    >>> import gtensor as gt
    >>> gt.rot90(gt.tensor([[1, 2], [3, 4]]))
    Tensor([[2, 4],
            [1, 3]], dtype=int64)
    """
    tensor = as_tensor(x)
    first, second = (normalize_axis(a, tensor.ndim) for a in axes)
    if first == second:
        raise ShapeError(f"rot90: axes {axes} of {tensor.type} are one")
    if k % 4 == 0:
        return tensor
    if k % 4 == 2:
        return flip(tensor, (first, second))
    turned = flip(tensor, second) if k % 4 == 1 else tensor
    exchanged = swapaxes(turned, first, second)
    return exchanged if k % 4 == 1 else flip(exchanged, second)

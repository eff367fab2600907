"""Constant places along an axis, and flat places of several axes: rows, unravel_index, ravel_multi_index.

`rows` takes the elements at places that are known while tracing: a few runs become slices side by side, which
need no index and check nothing, more become one `take`. Laws: a place out of range raises IndexError; what
must be known while tracing and is not raises TraceError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, TraceError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast, concrete
from ..types import Dim, int64
from .arithmetic import add, floor_divide, multiply, remainder

Array = np.ndarray[Any, Any]

MOST_RUNS = 8
"""More runs of consecutive places than this are taken by an index."""


def constant_extent(x: Tensor, axis: int, what: str) -> int:
    """An extent that is known while tracing; raises ShapeError for one that is not."""
    extent = x.type.shape[axis]
    if isinstance(extent, Dim):
        raise ShapeError(f"{what}: the extent {extent} of axis {axis} is known at run time only")
    return extent


def constant_integers(value: Any, what: str) -> Array:
    """Integers (or bool) that are known now, as int64; raises TraceError for traced ones, DTypeError for floats."""
    if isinstance(value, Tensor) and value.data is None:
        raise TraceError(
            f"{what} must be known while tracing: shapes depend on them", hint="pass them as static arguments"
        )
    array = np.asarray(value)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise DTypeError(f"{what} must be integers, not {array.dtype}")
    return array.astype(np.int64)


def rows(x: Tensor, places: Array, axis: int) -> Tensor:
    """The elements of an axis at constant places, counted from the front and in range."""
    runs = _runs(places)
    if not 0 < len(runs) <= MOST_RUNS:
        return apply("take", x, concrete(np.array(places, np.int64)), axis=axis)
    parts = [_run(x, *run, axis) for run in runs]
    return parts[0] if len(parts) == 1 else apply("concat", *parts, axis=axis)


def _runs(places: Array) -> list[tuple[int, int, int]]:
    """(first, count, step) of runs whose places go up by one, down by one, or stay."""
    runs: list[tuple[int, int, int]] = []
    for place in places.tolist():
        if runs:
            first, count, step = runs[-1]
            ahead = place - (first + (count - 1) * step)
            if (count == 1 and abs(ahead) <= 1) or (count > 1 and ahead == step):
                runs[-1] = (first, count + 1, ahead)
                continue
        runs.append((place, 1, 1))
    return runs


def _run(x: Tensor, first: int, count: int, step: int, axis: int) -> Tensor:
    span = count if step else 1
    low = first if step >= 0 else first - count + 1
    shape = x.type.shape
    start = tuple(low if i == axis else 0 for i in range(x.ndim))
    stop = tuple(low + span if i == axis else n for i, n in enumerate(shape))
    part = apply("slice", x, start=start, stop=stop, step=(1,) * x.ndim)
    if step == 0:
        return apply("broadcast", part, shape=(*shape[:axis], count, *shape[axis + 1 :]))
    return apply("flip", part, axes=(axis,)) if step < 0 else part


@public
def unravel_index(indices: Any, shape: Any, /) -> tuple[Tensor, ...]:
    """The places along each axis of elements counted in row-major order.

    indices: integers of any shape, the shape of each result (int64). Raises IndexError for one outside the
    array, from the compiled call where it is computed.

    >>> import gtensor as gt
    >>> gt.unravel_index([5, 2], (2, 3))
    (Tensor([1, 0], dtype=int64), Tensor([2, 2], dtype=int64))
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    index, size = as_tensor(indices), math.prod(extents)
    if index.type.dtype.kind not in "iu":
        raise DTypeError(f"unravel_index: indices must be integers, not {index.dtype}")
    rest = apply("check_index", cast(index, int64), low=0, high=size)
    places: list[Tensor] = []
    for extent in reversed(extents):
        places.append(remainder(rest, extent))
        rest = floor_divide(rest, extent)
    return tuple(reversed(places))


@public
def ravel_multi_index(multi_index: Sequence[Any], dims: Any, /, mode: str = "raise") -> Tensor:
    """The places in row-major order of elements given by their places along each axis (int64).

    `mode` says what becomes of a place outside its axis: "raise" an IndexError, "wrap" counts round,
    "clip" takes the nearest. Raises ShapeError for another number of axes, OptionError for another mode.

    >>> import gtensor as gt
    >>> gt.ravel_multi_index(([1, 0], [2, 2]), (2, 3))
    Tensor([5, 2], dtype=int64)
    """
    extents = (dims,) if isinstance(dims, int) else tuple(dims)
    if mode not in _OUTSIDE:
        raise OptionError(f"ravel_multi_index: mode must be one of {', '.join(_OUTSIDE)}, not {mode!r}")
    indices = [as_tensor(index) for index in multi_index]
    if len(indices) != len(extents):
        raise ShapeError(f"ravel_multi_index: {len(indices)} indices for {len(extents)} axes")
    flat: Any = 0
    for index, extent in zip(indices, extents, strict=True):
        if index.type.dtype.kind not in "iu":
            raise DTypeError(f"ravel_multi_index: indices must be integers, not {index.dtype}")
        flat = add(multiply(flat, extent), _OUTSIDE[mode](cast(index, int64), extent))
    return as_tensor(flat)


def _clipped(index: Tensor, extent: int) -> Tensor:
    return apply("max2", apply("min2", index, extent - 1), 0)


_OUTSIDE = {
    "raise": lambda index, extent: apply("check_index", index, low=0, high=extent),
    "wrap": remainder,
    "clip": _clipped,
}

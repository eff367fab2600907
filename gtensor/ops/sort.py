"""Sorting and searching: sort, argsort, top_k, searchsorted.

`argsort` is the one operation that sorts: a stable merge sort of each line. Values are gathered by the
permutation it gives, so their derivative goes back along it. Laws: sorting is stable in both directions; NaN
counts as larger than every number and -0 as equal to +0, as in NumPy; shapes are static.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..prim import Input, Prim, Sample, Walk, public, register
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import (
    DTYPES,
    DType,
    Type,
    as_dtype,
    bool_,
    extent_bound,
    int64,
    normalize_axis,
    promote,
    resolve,
)
from .index import take
from .layout import backwards
from .records import batch_along, batch_size, move_axis, uniform

Array = np.ndarray[Any, Any]

# ---- records ---------------------------------------------------------------------------------------------


def _argsort_type(x: Type, axis: int) -> Type:
    return Type(x.shape, int64)


def _argsort_place(x: Type, axis: int) -> Walk:
    """The keys and their places lie in two halves of memory, between which they are merged."""
    room = 2 * max(extent_bound(x.shape[axis]), 1)
    return Walk(f"gt_argsort_{x.dtype.tag}", (axis, axis), (0,), ((x.dtype.tag, room), ("i64", room)))


register(
    Prim(
        "argsort", "along", _argsort_type,
        lambda x, axis: np.argsort(x, axis=axis, kind="stable").astype(np.int64, copy=False),
        batch=batch_along("argsort"), place=_argsort_place, exact=True,
        samples=tuple(
            Sample((uniform(shape=shape),), {"axis": axis}, grad=False, dtypes=("f", "i", "u"))
            for shape, axis in (((3, 5), 1), ((21, 3), 0), ((2, 3, 2), 1), ((67,), 0), ((2, 0), 1))
        ),
        flops=8, doc="The places of the elements of an axis in the order of their values; equal ones keep theirs.",
    )
)  # fmt: skip


def _search_type(x: Type, values: Type, side: str) -> Type:
    if x.dtype != values.dtype or x.shape[:-1] != values.shape[:-1]:
        raise ShapeError("the sorted lines and the values must be of one dtype and lie over the same axes")
    return Type(values.shape, int64)


def _search_array(x: Array, values: Array, side: Any) -> Array:
    out = np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape[:-1]):
        out[place] = np.searchsorted(x[place], values[place], side=side)
    return out


def _search_batch(args: Sequence[Tensor], axes: Sequence[int | None], side: str) -> tuple[Tensor, int]:
    size = batch_size(args, axes)
    moved = [move_axis(x, a, size, x.ndim - (a is not None)) for x, a in zip(args, axes, strict=True)]
    return apply("searchsorted", *moved, side=side), 0


def _search_place(x: Type, values: Type, side: str) -> Walk:
    axes = (x.ndim - 1, values.ndim - 1, values.ndim - 1)
    return Walk(f"gt_search_{side}_{x.dtype.tag}", axes, (0, 1))


def _search_sample(dtype: DType, side: str) -> Sample:
    """Given in their dtype, the lines stay sorted in every test."""
    lowest = 3 if dtype.kind == "u" else 0
    lines = Input(values=[[lowest + n for n in line] for line in ((-2, 0, 0, 1), (-1, 1, 2, 2))], dtype=dtype)
    values = Input(values=[[lowest + n for n in line] for line in ((0, -3, 5), (2, 1, -1))], dtype=dtype)
    return Sample((lines, values), {"side": side}, grad=False, dtypes=(dtype.tag,))


register(
    Prim(
        "searchsorted", "along", _search_type, _search_array, batch=_search_batch, place=_search_place, exact=True,
        samples=tuple(_search_sample(d, side) for d in DTYPES if d != bool_ for side in ("left", "right")),
        flops=8, doc="For each value how many elements of a sorted line come before it.",
    )
)  # fmt: skip


# ---- functions -------------------------------------------------------------------------------------------


def _line_up(x: Any, axis: int | None) -> tuple[Tensor, int]:
    """The tensor, strongly typed, and the axis to sort along: it is flattened without one."""
    tensor = as_tensor(x)
    tensor = cast(tensor, resolve(tensor.type).dtype)
    if axis is None:
        return apply("reshape", tensor, shape=(tensor.type.size,)), 0
    return tensor, normalize_axis(axis, tensor.ndim)


def _order(x: Tensor, axis: int, descending: bool) -> Tensor:
    """The stable permutation; downwards it is that of the reversed line, read from its end."""
    keys = cast(x, as_dtype("uint8")) if x.dtype == bool_ else x
    if not descending:
        return apply("argsort", keys, axis=axis)
    turned = backwards(apply("argsort", backwards(keys, axis), axis=axis), axis)
    return x.type.shape[axis] - 1 - turned


@public
def argsort(x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices (int64) that sort x along an axis, or the flattened array without one.

    Equal elements keep their order in both directions, whether `stable` is asked for or not. NaN counts as
    the largest value. Raises ShapeError for an axis out of range.

    >>> import gtensor as gt
    >>> gt.argsort(gt.tensor([3.0, 1.0, 2.0])), gt.argsort(gt.tensor([1, 2, 1]), descending=True)
    (Tensor([1, 2, 0], dtype=int64), Tensor([1, 0, 2], dtype=int64))
    """
    tensor, at = _line_up(x, axis)
    return _order(tensor, at, descending)


@public
def sort(x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements of x in order along an axis, or those of the flattened array without one.

    NaN counts as the largest value: last, or first with `descending`. The gradient of each element goes back
    to where it stood. Raises ShapeError for an axis out of range.

    >>> import gtensor as gt
    >>> gt.sort(gt.tensor([[3.0, 1.0], [2.0, 4.0]]), axis=0)
    Tensor([[2., 1.],
            [3., 4.]], dtype=float32)
    """
    tensor, at = _line_up(x, axis)
    return apply("gather", tensor, _order(tensor, at, descending), axis=at)


@public
def top_k(x: Any, k: int, /, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis, the best first, and their indices (int64).

    Of equal elements the first come first; NaN counts as the largest value. Values are differentiable.
    Raises ShapeError where the axis has fewer than k elements.

    >>> import gtensor as gt
    >>> gt.top_k(gt.tensor([1.0, 5.0, 3.0]), 2)
    (Tensor([5., 3.], dtype=float32), Tensor([1, 2], dtype=int64))
    """
    tensor, at = _line_up(as_tensor(x), normalize_axis(axis, as_tensor(x).ndim))
    length = tensor.type.shape[at]
    if not isinstance(length, int) or not 0 <= k <= length:
        raise ShapeError(f"top_k: there are no {k} elements along axis {at} of {tensor.type}")
    order = _order(tensor, at, largest)[(slice(None),) * at + (slice(k),)]
    return apply("gather", tensor, order, axis=at), order


@public
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where the values x2 would go into the sorted vector x1 (int64): before equal elements, or behind them.

    side: "left" counts the elements below each value, "right" those not above it. NaN counts as the largest
    value. sorter: indices that sort x1, as `argsort` gives them. With sorted lines x1 of shape (…, n) the
    values are searched line by line, and x2 has shape (…, m). Raises ShapeError for a scalar x1 and for lines
    over other axes, OptionError for another side.

    >>> import gtensor as gt
    >>> gt.searchsorted(gt.tensor([1.0, 2.0, 2.0, 3.0]), gt.tensor([2.0, 4.0]), side="right")
    Tensor([3, 4], dtype=int64)
    """
    if side not in ("left", "right"):
        raise OptionError(f"searchsorted: side must be 'left' or 'right', not {side!r}")
    keys, values = as_tensor(x1), as_tensor(x2)
    if keys.ndim == 0:
        raise ShapeError("searchsorted needs a sorted vector, not a scalar")
    if sorter is not None:
        if as_tensor(sorter).ndim != 1 or keys.ndim != 1:
            raise ShapeError("searchsorted: a sorter goes with one vector")
        keys = take(keys, sorter, axis=0)
    dtype = resolve(Type((), *promote([keys.type, values.type]))).dtype
    target = as_dtype("uint8") if dtype == bool_ else dtype
    keys, values = cast(keys, target), cast(values, target)
    if keys.ndim > 1:
        return apply("searchsorted", keys, values, side=side)
    flat = apply("reshape", values, shape=(values.type.size,))
    return apply("reshape", apply("searchsorted", keys, flat, side=side), shape=values.type.shape)

"""Indexed reads and sums: take, gather, scatter_add, index_add, checked indices.

Negative indices count from the end. An index out of range raises IndexError: while tracing when it is
constant, else from the call, before anything is written. Repeated indices accumulate in a fixed order. The
primitives take indices of a run-time axis counted from its front (`in_range` counts them).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, IndexingError, OptionError, ShapeError
from ..prim import Bounds, Indexing, Input, Prim, Sample, public, register
from ..pullback import zeros
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, Type, broadcast_shapes, int64, normalize_axis
from .arithmetic import maximum, minimum, where
from .records import batch_along, batch_elementwise, batch_size, move_axis, same_type, uniform

Array = np.ndarray[Any, Any]


def _require_integers(index: Type) -> None:
    if index.dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, not {index.dtype}")


def wrapped(index: Array, size: int, low: int | None = None) -> Array:
    """Indices counted from the front; raises IndexingError naming the first that is out of range."""
    largest = np.iinfo(np.int64).max  # of uint64, what is above it must not become negative
    wide = (np.minimum(index, largest) if index.dtype == np.uint64 else index).astype(np.int64)
    bad = (wide < (-size if low is None else low)) | (wide >= size)
    if bad.any():
        raise IndexingError(f"index {int(wide[bad].flat[0])} is out of range for an axis of {size}")
    return np.where(wide < 0, wide + size, wide)


# ---- take and its derivative -----------------------------------------------------------------------------


def _take_shape(x: Type, index: Type, axis: int) -> tuple[Any, ...]:
    return (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _take_type(x: Type, index: Type, axis: int) -> Type:
    _require_integers(index)
    return Type(_take_shape(x, index, axis), x.dtype)


def _take_place(x: Type, index: Type, axis: int, **params: Any) -> Indexing:
    span = index.ndim
    axes = tuple(None if i == axis else i if i < axis else i - 1 + span for i in range(x.ndim))
    return Indexing(axes, tuple(range(axis, axis + span)), axis)


def _index_add_type(x: Type, index: Type, values: Type, axis: int) -> Type:
    _require_integers(index)
    if values.shape != _take_shape(x, index, axis) or values.dtype != x.dtype:
        raise ShapeError(f"values must be {x.with_shape(_take_shape(x, index, axis))}")
    return Type(x.shape, x.dtype)


def _index_add_array(x: Array, index: Array, values: Array, axis: int) -> Array:
    out = x.copy()
    at: Any = (slice(None),) * axis + (wrapped(index, x.shape[axis]),)
    np.add.at(out, at, values)
    return out


def _take_batch(args: Sequence[Tensor], axes: Sequence[int | None], axis: int) -> tuple[Tensor, int]:
    x, index = args
    if axes[1] is None:
        moved = move_axis(x, axes[0], 0, x.ndim - 1)
        return apply("take", moved, index, axis=axis + 1), 0
    if axes[0] is None:
        return apply("take", x, move_axis(index, axes[1], 0, index.ndim - 1), axis=axis), axis
    size = x.type.shape[axes[0]]
    return _batched_rows(move_axis(x, axes[0], size, x.ndim - 1), move_axis(index, axes[1], size, index.ndim - 1), axis)


def _rows(x: Tensor, axis: int) -> int:
    """How many rows an axis has; raises ShapeError where each example has its own, as many as the run says."""
    rows = x.shape[axis]
    if not isinstance(rows, int):
        raise ShapeError(f"vmap: rows of the run-time axis {axis} of {x.type} cannot be taken by each example")
    return rows


def _batched_rows(x: Tensor, index: Tensor, axis: int) -> tuple[Tensor, int]:
    """Each batch element takes from its own array: one take from the arrays laid end to end."""
    size, rows = x.type.shape[0], _rows(x, axis + 1)
    front = apply("transpose", x, axes=(0, axis + 1, *(i for i in range(1, x.ndim) if i != axis + 1)))
    rest, span = front.type.shape[2:], index.ndim - 1
    if isinstance(size, Dim):
        found = apply("gather", front, _places(index, rest), axis=1)
        taken = apply("reshape", found, shape=(*index.type.shape, *rest))
    else:
        joined = apply("reshape", front, shape=(size * rows, *rest))
        checked = apply("check_index", index, low=-rows, high=rows)
        counted = apply("remainder", cast(checked, int64), rows)
        offsets = apply("iota", shape=(size, *(1,) * span), axis=0, dtype=int64)
        offsets = apply("broadcast", apply("mul", offsets, rows), shape=index.type.shape)
        taken = apply("take", joined, apply("add", counted, offsets), axis=0)
    before = tuple(range(1 + span, 1 + span + axis))
    order = (0, *before, *range(1, 1 + span), *range(1 + span + axis, taken.ndim))
    return apply("transpose", taken, axes=order), 0


def _places(index: Tensor, rest: tuple[Any, ...]) -> Tensor:
    """Indices of rows, an example in front, as those of all elements of the rows."""
    size, count = index.type.shape[0], math.prod(index.type.shape[1:])
    column = apply("reshape", index, shape=(size, count, *(1 for _ in rest)))
    return apply("broadcast", column, shape=(size, count, *rest))


def _index_add_batch(args: Sequence[Tensor], axes: Sequence[int | None], axis: int) -> tuple[Tensor, int]:
    """The batch axis becomes part of the index: arrays end to end, indices shifted by their array's start."""
    size = batch_size(args, axes)
    x, index, values = (move_axis(t, a, size, t.ndim - (a is not None)) for t, a in zip(args, axes, strict=True))
    rows, span = _rows(x, axis + 1), index.ndim - 1
    to_front = (0, axis + 1, *(i for i in range(1, x.ndim) if i != axis + 1))
    front = apply("transpose", x, axes=to_front)
    lead, rest = tuple(range(axis + 1, axis + 1 + span)), front.type.shape[2:]
    moved = apply("transpose", values, axes=(0, *lead, *(i for i in range(1, values.ndim) if i not in lead)))
    if isinstance(size, Dim):
        places = _places(index, rest)
        back = apply("scatter_add", front, places, apply("reshape", moved, shape=places.type.shape), axis=1)
    else:
        joined = apply("reshape", front, shape=(size * rows, *rest))
        checked = apply("remainder", cast(apply("check_index", index, low=-rows, high=rows), int64), rows)
        offsets = apply("mul", apply("iota", shape=(size, *(1,) * span), axis=0, dtype=int64), rows)
        shifted = apply("add", checked, apply("broadcast", offsets, shape=index.type.shape))
        back = apply("reshape", apply("index_add", joined, shifted, moved, axis=0), shape=front.type.shape)
    return apply("transpose", back, axes=tuple(to_front.index(i) for i in range(x.ndim))), 0


_INDEX = Input(values=[[2, 0], [-1, 2]], dtype=int64)

register(
    Prim(
        "take", "gather", _take_type,
        lambda x, index, axis: np.take(x, wrapped(index, x.shape[axis]), axis=axis),
        vjp=lambda g, y, x, index, axis: (lambda: apply("index_add", zeros(x.type), index, g, axis=axis), None),
        batch=_take_batch, place=_take_place, exact=True,
        samples=(
            Sample((uniform(shape=(3, 4)), _INDEX), {"axis": 0}, dtypes=("f", "i", "u", "b")),
            Sample((uniform(shape=(2, 3, 2)), _INDEX), {"axis": 1}),
            Sample((uniform(shape=(3,)), Input(values=1, dtype=int64)), {"axis": 0}),
            Sample((uniform(shape=(3, 2)), Input(values=np.zeros((0,)), dtype=int64)), {"axis": 0}),
        ),
        flops=0, doc="Rows of an axis at the given places.",
    )
)  # fmt: skip
register(
    Prim(
        "index_add", "scatter", _index_add_type, _index_add_array,
        vjp=lambda g, y, x, index, v, axis: (g, None, lambda: apply("take", g, index, axis=axis)),
        batch=_index_add_batch, c={"*": "sum"}, place=lambda x, index, v, axis: _take_place(x, index, axis),
        samples=(
            Sample((uniform(shape=(3, 4)), _INDEX, uniform(shape=(2, 2, 4))), {"axis": 0}, dtypes=("f", "i", "u")),
            Sample((uniform(shape=(2, 3)), Input(values=[1, 1], dtype=int64), uniform(shape=(2, 2))), {"axis": 1}),
        ),
        flops=1, doc="An array with values added to rows of an axis at the given places.",
    )
)  # fmt: skip


def _wrap(index: Tensor, size: Any) -> Tensor:
    return apply("remainder", cast(index, int64), size)


def _clip(index: Tensor, size: Any) -> Tensor:
    return minimum(maximum(cast(index, int64), 0), maximum(as_tensor(size) - 1, 0))


MODES = {"wrap": _wrap, "clip": _clip}
"""What `take` makes of indices out of range, beside raising an error."""


@public
def take(x: Any, indices: Any, /, axis: int | None = None, *, mode: str = "raise") -> Tensor:
    """Elements of an axis at the given places: x[..., indices, ...]; of the flattened array without an axis.

    mode: "raise" counts negative indices from the end and raises IndexError for an index out of range; "wrap"
    starts again at either end; "clip" takes the nearest element, the first one for negative indices.

    >>> import gtensor as gt
    >>> take(gt.tensor([10.0, 20.0, 30.0]), [-1, 0], axis=0)
    Tensor([30., 10.], dtype=float32)
    >>> take(gt.tensor([10.0, 20.0, 30.0]), [-2, 4], axis=0, mode="clip")
    Tensor([10., 30.], dtype=float32)
    """
    tensor, index = as_tensor(x), as_tensor(indices)
    if axis is None:
        tensor, axis = apply("reshape", tensor, shape=(tensor.type.size,)), 0
    at = normalize_axis(axis, tensor.ndim)
    size = tensor.type.shape[at]
    if mode != "raise":
        if mode not in MODES:
            raise OptionError(f"take: mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
        _require_integers(index.type)
        index = MODES[mode](index, size)
    return apply("take", tensor, in_range(index, size), axis=at)


def in_range(index: Tensor, size: Any) -> Tensor:
    """The index, a strong integer; raises IndexingError at once when it is constant and out of range.

    A captured array is no constant: it is read at each call. Along a run-time axis it is counted from the front.
    """
    _require_integers(index.type)
    if isinstance(size, Dim):
        wide = cast(index, int64)
        return where((wide < 0) & (wide + size >= 0), wide + size, wide)
    if index.data is not None and index.captured is None and isinstance(size, int):
        wrapped(index.data, size)
    return cast(index, int64) if index.type.weak else index


# ---- gather and scatter along an axis --------------------------------------------------------------------


def _along_type(x: Type, index: Type, axis: int) -> Type:
    _require_integers(index)
    if index.ndim != x.ndim or any(
        i != axis and a != b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True))
    ):
        raise ShapeError(f"the index must have the extents of the array but along axis {axis}")
    return Type(index.shape, x.dtype)


def along_place(x: Type, index: Type, axis: int) -> Indexing:
    """How an index of the array's rank addresses it."""
    axes = tuple(None if i == axis else i for i in range(x.ndim))
    return Indexing(axes, tuple(range(x.ndim)), axis)


def scatter_type(x: Type, index: Type, values: Type, axis: int) -> Type:
    """The type of an array into which values are written along an axis."""
    if values != _along_type(x, index, axis):
        raise ShapeError("the values must have the shape of the index and the dtype of the array")
    return Type(x.shape, x.dtype)


def _scatter_array(x: Array, index: Array, values: Array, axis: int) -> Array:
    out = x.copy()
    np.add.at(out, scatter_places(x, index, axis), values)
    return out


def scatter_places(x: Array, index: Array, axis: int) -> Any:
    """The key of the elements that an index along an axis names."""
    places: list[Array] = list(np.indices(index.shape, sparse=True))
    places[axis] = wrapped(index, x.shape[axis])
    return tuple(places)


_ALONG = Input(values=[[2, 0, -1], [1, 1, 0]], dtype=int64)
_ROW = Input(values=[[2, 0, -1]], dtype=int64)

register(
    Prim(
        "gather", "gather", _along_type,
        lambda x, index, axis: np.take_along_axis(x, wrapped(index, x.shape[axis]), axis),
        vjp=lambda g, y, x, index, axis: (lambda: apply("scatter_add", zeros(x.type), index, g, axis=axis), None),
        batch=batch_along("gather"), place=along_place, exact=True,
        samples=(
            Sample((uniform(shape=(2, 3)), _ALONG), {"axis": 1}, dtypes=("f", "i", "u", "b")),
            Sample((uniform(shape=(3, 3)), _ROW), {"axis": 0}),
        ),
        flops=0, doc="Elements along an axis, one place per element of the index.",
    )
)  # fmt: skip
register(
    Prim(
        "scatter_add", "scatter", scatter_type, _scatter_array,
        vjp=lambda g, y, x, index, v, axis: (g, None, lambda: apply("gather", g, index, axis=axis)),
        batch=batch_along("scatter_add"), c={"*": "sum"}, place=lambda x, index, v, axis: along_place(x, index, axis),
        samples=(
            Sample((uniform(shape=(2, 3)), _ALONG, uniform(shape=(2, 3))), {"axis": 1}, dtypes=("f", "i", "u")),
            Sample((uniform(shape=(3, 3)), _ROW, uniform(shape=(1, 3))), {"axis": 0}),
        ),
        flops=1, doc="An array with values added along an axis, one place per value.",
    )
)  # fmt: skip


@public
def gather(x: Any, axis: int, index: Any, /) -> Tensor:
    """Elements along an axis: out[i][j] = x[i][index[i][j]] for axis 1, as `torch.gather`.

    The index has the extents of x but along the axis. Raises IndexError for an index out of range.
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    return apply("gather", tensor, in_range(as_tensor(index), tensor.type.shape[at]), axis=at)


@public
def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Tensor:
    """Elements along an axis: out[i, j] = x[i, indices[i, j]] for the last of two axes.

    x and indices have one rank, and their other axes broadcast. Negative indices count from the end. Raises
    ShapeError where they do not fit, IndexError for an index out of range.

    >>> import gtensor as gt
    >>> gt.take_along_axis(gt.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1], [0]])
    Tensor([[2.],
            [3.]], dtype=float32)
    """
    tensor, index = as_tensor(x), as_tensor(indices)
    if tensor.ndim != index.ndim:
        raise ShapeError(f"take_along_axis: {tensor.type} and {index.type} must have as many axes")
    at = normalize_axis(axis, tensor.ndim)
    index = in_range(index, tensor.type.shape[at])
    met = broadcast_shapes([(*t.type.shape[:at], *t.type.shape[at + 1 :]) for t in (tensor, index)])
    shapes = [(*met[:at], t.type.shape[at], *met[at:]) for t in (tensor, index)]
    tensor, index = (
        t if t.type.shape == shape else apply("broadcast", t, shape=shape)
        for t, shape in zip((tensor, index), shapes, strict=True)
    )
    return apply("gather", tensor, index, axis=at)


@public
def scatter_add(x: Any, axis: int, index: Any, values: Any, /) -> Tensor:
    """x with values added along an axis: out[i][index[i][j]] += values[i][j] for axis 1, as `torch.scatter_add`.

    Repeated indices accumulate. Raises IndexError for an index out of range.

    >>> import gtensor as gt
    >>> scatter_add(gt.zeros(3), 0, [1, 1], gt.tensor([2.0, 3.0]))
    Tensor([0., 5., 0.], dtype=float32)
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    added = cast(as_tensor(values), tensor.type.dtype)
    index = in_range(as_tensor(index), tensor.type.shape[at])
    return apply("scatter_add", tensor, index, added, axis=at)


@public
def index_add(x: Any, axis: int, index: Any, values: Any, /) -> Tensor:
    """x with rows of values added at places of an axis: out[index[j]] += values[j] for axis 0.

    Repeated indices accumulate. Raises IndexError for an index out of range.
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    places = in_range(as_tensor(index), tensor.type.shape[at])
    return apply("index_add", tensor, places, cast(as_tensor(values), tensor.type.dtype), axis=at)


# ---- checked indices -------------------------------------------------------------------------------------


def _check_type(x: Type, low: int, high: int, ignore: int | None = None) -> Type:
    _require_integers(x)
    return same_type(x)


def _check_array(x: Array, low: int, high: int, ignore: int | None = None) -> Array:
    counted = x.astype(np.int64)
    bad = (counted < low) | (counted >= high)
    if ignore is not None:
        bad &= counted != ignore
    if bad.any():
        raise IndexingError(f"index {int(counted[bad].flat[0])} is out of range [{low}, {high})")
    return x


register(
    Prim(
        "check_index", "elementwise", _check_type, _check_array, vjp=lambda g, y, x, **p: (None,), zero=True,
        batch=batch_elementwise("check_index"), c={"*": "{0}"}, place=lambda x, **p: Bounds(**p), exact=True,
        samples=(Sample((Input(values=[0, 2, 1], dtype=int64),), {"low": 0, "high": 3}, grad=False),),
        flops=0, doc="The indices themselves; an error if one lies outside [low, high) and is not `ignore`.",
    )
)  # fmt: skip

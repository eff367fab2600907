"""Arrays put together in NumPy's further ways: hstack, vstack, dstack, column_stack, append, block, insert, delete.

All are `concat` and constant places of an axis. Laws: operands meet in one dtype, but what is inserted takes
the array's; shapes that do not fit raise ShapeError, places out of range IndexError; the places of `insert`
and `delete` are known while tracing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import IndexingError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import normalize_axis
from .arrange import atleast_1d, atleast_2d, atleast_3d, ravel
from .assemble import concat
from .layout import broadcast_to, moveaxis
from .places import constant_extent, constant_integers, rows


@public
def vstack(arrays: Any, /) -> Tensor:
    """Arrays on top of each other: joined along axis 0, vectors as rows.

    >>> import gtensor as gt
    >>> gt.vstack([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [3, 4]], dtype=int64)
    """
    return concat([atleast_2d(a) for a in arrays], axis=0)


@public
def hstack(arrays: Any, /) -> Tensor:
    """Arrays beside each other: vectors joined along axis 0, others along axis 1.

    >>> import gtensor as gt
    >>> gt.hstack([[1, 2], [3]])
    Tensor([1, 2, 3], dtype=int64)
    """
    tensors = [atleast_1d(a) for a in arrays]
    return concat(tensors, axis=0 if tensors and tensors[0].ndim == 1 else 1)


@public
def dstack(arrays: Any, /) -> Tensor:
    """Arrays behind each other: joined along axis 2, of which vectors and matrices have one more.

    >>> import gtensor as gt
    >>> gt.dstack([[1, 2], [3, 4]])
    Tensor([[[1, 3],
             [2, 4]]], dtype=int64)
    """
    return concat([atleast_3d(a) for a in arrays], axis=2)


@public
def column_stack(arrays: Any, /) -> Tensor:
    """Vectors as the columns of a matrix; matrices are joined along axis 1 as they are.

    >>> import gtensor as gt
    >>> gt.column_stack([[1, 2], [3, 4]])
    Tensor([[1, 3],
            [2, 4]], dtype=int64)
    """
    columns = [as_tensor(a) for a in arrays]
    return concat([apply("reshape", c, shape=(c.type.size, 1)) if c.ndim < 2 else c for c in columns], axis=1)


@public
def append(x: Any, values: Any, /, axis: int | None = None) -> Tensor:
    """x with values joined behind along an axis; both are flattened without one.

    >>> import gtensor as gt
    >>> gt.append([1, 2], [[3], [4]])
    Tensor([1, 2, 3, 4], dtype=int64)
    """
    return concat([ravel(x), ravel(values)] if axis is None else [x, values], axis=0 if axis is None else axis)


@public
def block(arrays: Any, /) -> Tensor:
    """An array put together from nested lists of blocks: the innermost along the last axis, and so on outwards.

    Raises ShapeError for lists of different depth, for an empty list, and for blocks that do not fit.

    >>> import gtensor as gt
    >>> gt.block([[gt.eye(2), gt.zeros((2, 1))], [gt.ones((1, 3))]])
    Tensor([[1., 0., 0.],
            [0., 1., 0.],
            [1., 1., 1.]], dtype=float32)
    """
    depth = _depth(arrays)
    leaves = _blocks(arrays)
    rank = max([depth, *(leaf.ndim for leaf in leaves)])
    given = iter(leaves)

    def joined(node: Any, level: int) -> Tensor:
        if isinstance(node, list):
            return concat([joined(child, level + 1) for child in node], axis=level - depth)
        leaf = next(given)
        return apply("reshape", leaf, shape=(1,) * (rank - leaf.ndim) + leaf.type.shape)

    return joined(arrays, 0)


def _depth(node: Any) -> int:
    if not isinstance(node, list):
        return 0
    depths = {_depth(child) for child in node}
    if len(depths) != 1:
        raise ShapeError("block: lists must not be empty, and all of one depth")
    return 1 + depths.pop()


def _blocks(node: Any) -> list[Tensor]:
    return [leaf for child in node for leaf in _blocks(child)] if isinstance(node, list) else [as_tensor(node)]


def _on_axis(x: Any, axis: int | None, what: str) -> tuple[Tensor, int, int]:
    """The tensor, flattened without an axis, that axis, and its extent."""
    tensor = ravel(x) if axis is None else as_tensor(x)
    at = normalize_axis(0 if axis is None else axis, tensor.ndim)
    return tensor, at, constant_extent(tensor, at, what)


def _places(where: Any, what: str) -> Any:
    """A slice as it is, bool as a mask, else integers."""
    if isinstance(where, slice):
        return where
    mask = np.asarray(where.data if isinstance(where, Tensor) and where.data is not None else where).dtype == bool
    numbers = constant_integers(where, f"{what}: places")
    return numbers.astype(bool) if mask else numbers


@public
def insert(x: Any, places: Any, values: Any, /, axis: int | None = None) -> Tensor:
    """x with values put before the given places of an axis (of the flattened array without one).

    places: an integer, integers, a slice or a mask, known while tracing, counted in x. values: broadcast to
    what is inserted, and converted to x's dtype. Raises IndexError for a place out of range.

    >>> import gtensor as gt
    >>> gt.insert([1, 2, 3], [1, 3], [10, 20])
    Tensor([ 1, 10,  2,  3, 20], dtype=int64)
    """
    tensor, at, extent = _on_axis(x, axis, "insert")
    where = _places(places, "insert")
    if isinstance(where, slice):
        where = np.arange(extent)[where]
    elif where.dtype == bool:
        where = np.flatnonzero(where)
    new = cast(as_tensor(values), tensor.type.dtype)
    if where.size == 1:
        new = apply("reshape", new, shape=(1,) * (tensor.ndim - new.ndim) + new.type.shape)
        if where.ndim == 0:
            new = moveaxis(new, 0, at)
        count = constant_extent(new, at, "insert")
        where = where.reshape(())
    else:
        count = where.size
    new = broadcast_to(new, (*tensor.type.shape[:at], count, *tensor.type.shape[at + 1 :]))
    try:
        order = np.insert(np.arange(extent), where, np.arange(extent, extent + count))
    except IndexError as error:
        raise IndexingError(f"insert: {error}") from None
    return rows(apply("concat", tensor, new, axis=at), order, at)


@public
def delete(x: Any, places: Any, /, axis: int | None = None) -> Tensor:
    """x without the given places of an axis (of the flattened array without one).

    places: an integer, integers, a slice or a mask, known while tracing. Raises IndexError for a place out
    of range.

    >>> import gtensor as gt
    >>> gt.delete([1, 2, 3, 4], [0, -1])
    Tensor([2, 3], dtype=int64)
    """
    tensor, at, extent = _on_axis(x, axis, "delete")
    known = _places(places, "delete")
    try:
        kept = np.delete(np.arange(extent), known)
    except (IndexError, ValueError) as error:
        raise IndexingError(f"delete: {error}") from None
    return rows(tensor, kept, at)

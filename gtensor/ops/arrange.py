"""Layout functions composed of others: transpose and swapaxes, flips, ravel, atleast_nd, unstack, meshgrid.

Laws: as for the operations they are made of: elements are only renamed, and axes out of range raise
ShapeError.
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor
from ..types import Dim, broadcast_shapes, normalize_axis
from .layout import flip, permute_dims


@public
def transpose(x: Any, /, axes: Any = None) -> Tensor:
    """x with its axes in the given order, reversed by default (NumPy's `transpose`).

    >>> import gtensor as gt
    >>> gt.transpose(gt.ones((2, 3, 4))).shape
    (4, 3, 2)
    """
    tensor = as_tensor(x)
    return permute_dims(tensor, tuple(reversed(range(tensor.ndim))) if axes is None else axes)


@public
def swapaxes(x: Any, axis1: int, axis2: int, /) -> Tensor:
    """x with two of its axes exchanged; raises ShapeError for an axis out of range.

    >>> import gtensor as gt
    >>> gt.swapaxes(gt.ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    tensor = as_tensor(x)
    first, second = normalize_axis(axis1, tensor.ndim), normalize_axis(axis2, tensor.ndim)
    order = list(range(tensor.ndim))
    order[first], order[second] = second, first
    return permute_dims(tensor, order)


@public
def fliplr(x: Any, /) -> Tensor:
    """x with axis 1 reversed; raises ShapeError for fewer than two axes.

    >>> import gtensor as gt
    >>> gt.fliplr([[1, 2], [3, 4]])
    Tensor([[2, 1],
            [4, 3]], dtype=int64)
    """
    return flip(x, 1)


@public
def flipud(x: Any, /) -> Tensor:
    """x with axis 0 reversed; raises ShapeError for a 0-d array.

    >>> import gtensor as gt
    >>> gt.flipud([1, 2, 3])
    Tensor([3, 2, 1], dtype=int64)
    """
    return flip(x, 0)


@public
def ravel(x: Any, /) -> Tensor:
    """The elements in row-major order as a vector.

    >>> import gtensor as gt
    >>> gt.ravel(gt.ones((2, 3))).shape
    (6,)
    """
    tensor = as_tensor(x)
    return apply("reshape", tensor, shape=(tensor.type.size,))


def _atleast(arrays: tuple[Any, ...], grow: Any) -> Any:
    """Each array in the shape that `grow` makes of its own: one alone, several as a tuple."""
    grown = tuple(apply("reshape", t, shape=grow(t.type.shape)) for t in map(as_tensor, arrays))
    return grown[0] if len(grown) == 1 else grown


@public
def atleast_1d(*arrays: Any) -> Any:
    """The array, or each of several as a tuple, with one axis at least.

    >>> import gtensor as gt
    >>> gt.atleast_1d(3.0)
    Tensor([3.], dtype=float32)
    """
    return _atleast(arrays, lambda shape: shape or (1,))


@public
def atleast_2d(*arrays: Any) -> Any:
    """The array, or each of several as a tuple, with two axes at least: new ones stand in front.

    >>> import gtensor as gt
    >>> gt.atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    return _atleast(arrays, lambda shape: (1,) * (2 - len(shape)) + shape)


@public
def atleast_3d(*arrays: Any) -> Any:
    """The array, or each of several as a tuple, with three axes at least: [n] becomes [1, n, 1], [m, n] [m, n, 1].

    >>> import gtensor as gt
    >>> [x.shape for x in gt.atleast_3d([1.0, 2.0], gt.ones((2, 3)))]
    [(1, 2, 1), (2, 3, 1)]
    """
    return _atleast(arrays, lambda shape: {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape))


@public
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """The arrays repeated to the shape in which they meet, each in its own dtype.

    Raises ShapeError where they do not meet.

    >>> import gtensor as gt
    >>> [x.tolist() for x in gt.broadcast_arrays([1, 2], [[3], [4]])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    tensors = [as_tensor(a) for a in arrays]
    shape = broadcast_shapes([t.type.shape for t in tensors])
    return tuple(apply("broadcast", t, shape=shape) for t in tensors)


@public
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The arrays along an axis, one by one, without that axis: the inverse of `stack`.

    Raises ShapeError for a run-time extent, whose number of arrays is not known.

    >>> import gtensor as gt
    >>> gt.unstack(gt.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    (Tensor([1., 3.], dtype=float32), Tensor([2., 4.], dtype=float32))
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    extent = tensor.type.shape[at]
    if isinstance(extent, Dim):
        raise ShapeError(f"unstack: the extent {extent} of axis {at} is known at run time only")
    before = (slice(None),) * at
    return tuple(tensor[(*before, i)] for i in range(extent))


@public
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate arrays of a grid: each vector repeated along the axes of all the others.

    `indexing="ij"` gives arrays of shape (len(arrays[0]), len(arrays[1]), …); "xy" exchanges the first two
    axes. Raises ShapeError for arrays that are no vectors, OptionError for another indexing.

    >>> import gtensor as gt
    >>> [a.tolist() for a in gt.meshgrid([1, 2], [3, 4, 5], indexing="ij")]
    [[[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]]]
    """
    if indexing not in ("xy", "ij"):
        raise OptionError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    vectors = [as_tensor(a) for a in arrays]
    if any(v.ndim != 1 for v in vectors):
        raise ShapeError("meshgrid takes vectors, not " + ", ".join(str(v.type) for v in vectors))
    order = list(range(len(vectors)))
    if indexing == "xy":
        order[:2] = reversed(order[:2])
    shape = tuple(vectors[i].type.shape[0] for i in order)
    columns = [
        apply("reshape", v, shape=tuple(v.type.shape[0] if at == i else 1 for at in order))
        for i, v in enumerate(vectors)
    ]
    return tuple(apply("broadcast", column, shape=shape) for column in columns)

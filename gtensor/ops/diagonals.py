"""Matrices and their diagonals: diag, diagonal, diagflat, diag_embed, matrix_trace, tri, tril, triu, vander.

A diagonal is a strided slice of the flattened matrix, and the matrix of a diagonal is a strided pad, so each
is the other's derivative and no index is computed. Laws: what lies outside a triangle contributes exactly
nothing to the gradient; a diagonal outside the matrix is empty; axes out of range raise ShapeError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import DEFAULT_FLOAT, Dim, Shape, as_dtype, int64, normalize_axis, uint64
from .arithmetic import multiply, where
from .assemble import stack
from .places import constant_extent
from .reduce import sum


@public
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements x[i, i + offset] of each matrix over two axes, along a new last axis.

    x: two axes or more. Raises ShapeError for fewer, for one axis named twice, and for run-time extents unless both
    are one and the offset is 0.

    >>> import gtensor as gt
    >>> gt.diagonal(gt.tensor([[1, 2, 3], [4, 5, 6]]), offset=1)
    Tensor([2, 6], dtype=int64)
    """
    tensor = as_tensor(x)
    first, second = normalize_axis(axis1, tensor.ndim), normalize_axis(axis2, tensor.ndim)
    if first == second:
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} of {tensor.type} are one")
    rest = [i for i in range(tensor.ndim) if i not in (first, second)]
    moved = apply("transpose", tensor, axes=(*rest, first, second))
    *lead, rows, columns = moved.type.shape
    if isinstance(rows, Dim) and rows == columns and offset == 0:
        place = apply("iota", shape=(*lead, rows, 1), axis=len(lead), dtype=int64)
        return apply("reshape", apply("gather", moved, place, axis=len(lead) + 1), shape=(*lead, rows))
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} of {tensor.type} must have constant extents")
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = (offset if offset >= 0 else -offset * columns) if count else 0
    stop = start + (count - 1) * (columns + 1) + 1 if count else 0
    flat = apply("reshape", moved, shape=(*lead, rows * columns))
    ones = (1,) * len(lead)
    return apply("slice", flat, start=(*(0 for _ in lead), start), stop=(*lead, stop), step=(*ones, columns + 1))


@public
def diag(x: Any, /, k: int = 0) -> Tensor:
    """The matrix with a vector on its k-th diagonal and zeros elsewhere, or the k-th diagonal of a matrix.

    x: [n], for [n + |k|, n + |k|], or a matrix. Raises ShapeError for any other rank.

    >>> import gtensor as gt
    >>> gt.diag(gt.tensor([1, 2]), k=-1), gt.diag(gt.eye(2))
    (Tensor([[0, 0, 0],
            [1, 0, 0],
            [0, 2, 0]], dtype=int64), Tensor([1., 1.], dtype=float32))
    """
    tensor = as_tensor(x)
    if tensor.ndim not in (1, 2):
        raise ShapeError(f"diag takes a vector or a matrix, not {tensor.type}")
    return _matrix(tensor, k) if tensor.ndim == 1 else diagonal(tensor, k)


@public
def diagflat(x: Any, /, k: int = 0) -> Tensor:
    """The matrix with all elements of x, flattened, on its k-th diagonal.

    >>> import gtensor as gt
    >>> gt.diagflat([[1, 2]])
    Tensor([[1, 0],
            [0, 2]], dtype=int64)
    """
    tensor = as_tensor(x)
    return _matrix(apply("reshape", tensor, shape=(tensor.type.size,)), k)


def _matrix(rows: Tensor, k: int) -> Tensor:
    """[..., n] as the k-th diagonals of matrices."""
    *lead, count = rows.type.shape
    if isinstance(count, Dim):
        raise ShapeError(f"diag: the extent of {rows.type} must be constant")
    size = count + abs(k)
    start = (*(0 for _ in lead), k if k >= 0 else -k * size)
    step = (*(1 for _ in lead), size + 1)
    zero = np.zeros((), rows.dtype.dtype).item()
    flat = apply("pad", rows, shape=(*lead, size * size), start=start, step=step, value=zero)
    return apply("reshape", flat, shape=(*lead, size, size))


@public
def diag_embed(x: Any, /, offset: int = 0) -> Tensor:
    """Matrices with the rows of x on a diagonal and zeros elsewhere, as `torch.diag_embed`.

    x: [..., n], for [..., n + |offset|, n + |offset|]. Raises ShapeError for a 0-d array and a run-time n.

    >>> import gtensor as gt
    >>> gt.diag_embed(gt.tensor([[1, 2], [3, 4]]))
    Tensor([[[1, 0],
             [0, 2]],
    <BLANKLINE>
            [[3, 0],
             [0, 4]]], dtype=int64)
    """
    tensor = as_tensor(x)
    if tensor.ndim == 0:
        raise ShapeError("diag_embed takes rows, not a 0-d array")
    return _matrix(tensor, offset)


@public
def matrix_trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """The sum of a diagonal, as `np.trace` (`gt.trace` traces functions); also the method `x.trace()`.

    Arguments and errors as for `diagonal`; dtypes as for `sum`.

    >>> import gtensor as gt
    >>> gt.matrix_trace(gt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor(5., dtype=float32)
    """
    return sum(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)


def _below(shape: Shape, k: int) -> Tensor:
    """Where a matrix lies on its k-th diagonal or below."""
    row = apply("iota", shape=shape, axis=0, dtype=int64)
    column = apply("iota", shape=shape, axis=1, dtype=int64)
    return apply("ge", apply("add", row, k), column)


def _triangle(x: Any, k: int, lower: bool, what: str) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"{what} needs two axes, not {tensor.type}")
    below = _below(tensor.type.shape[-2:], k if lower else k - 1)
    zero = cast(as_tensor(False), tensor.type.dtype)
    return where(below, tensor, zero) if lower else where(below, zero, tensor)


@public
def tril(x: Any, /, k: int = 0) -> Tensor:
    """x with zeros above the k-th diagonal of each matrix over the last two axes.

    Raises ShapeError for fewer than two axes.

    >>> import gtensor as gt
    >>> gt.tril(gt.ones((2, 3)))
    Tensor([[1., 0., 0.],
            [1., 1., 0.]], dtype=float32)
    """
    return _triangle(x, k, True, "tril")


@public
def triu(x: Any, /, k: int = 0) -> Tensor:
    """x with zeros below the k-th diagonal of each matrix over the last two axes.

    Raises ShapeError for fewer than two axes.

    >>> import gtensor as gt
    >>> gt.triu(gt.ones((2, 3)), k=1)
    Tensor([[0., 1., 1.],
            [0., 0., 1.]], dtype=float32)
    """
    return _triangle(x, k, False, "triu")


@public
def tri(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on the k-th diagonal and below, zeros above.

    >>> import gtensor as gt
    >>> gt.tri(2, 3, k=-1)
    Tensor([[0., 0., 0.],
            [1., 0., 0.]], dtype=float32)
    """
    below = _below((n_rows, n_rows if n_cols is None else n_cols), k)
    return cast(below, DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


@public
def vander(x: Any, /, n: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns: x**(n - 1), …, x, 1, the other way round if `increasing`.

    x: [m], for [m, n]; n is m unless given. Integers and bools become int64, as in NumPy, since powers grow fast.
    Raises ShapeError for what is no vector.

    >>> import gtensor as gt
    >>> gt.vander(gt.tensor([2, 3]), 3)
    Tensor([[4, 2, 1],
            [9, 3, 1]], dtype=int64)
    """
    tensor = as_tensor(x)
    if tensor.ndim != 1:
        raise ShapeError(f"vander takes a vector, not {tensor.type}")
    if not tensor.type.dtype.floating and tensor.type.dtype != uint64:
        tensor = cast(tensor, int64)
    count = constant_extent(tensor, 0, "vander") if n is None else n
    if count < 1:
        return apply("broadcast", cast(as_tensor(False), tensor.type.dtype), shape=(*tensor.type.shape, 0))
    powers = [apply("broadcast", cast(as_tensor(True), tensor.type.dtype), shape=tensor.type.shape)]
    for _ in range(count - 1):
        powers.append(multiply(powers[-1], tensor))
    return stack(powers if increasing else powers[::-1], axis=1)

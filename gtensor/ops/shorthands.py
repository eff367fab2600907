"""What PyTorch has one word for and NumPy an expression: masked_fill, index_select, narrow, lerp, addmm, ….

Arguments stand in PyTorch's order, with `axis` for its `dim`; each function is composed of others and has their
derivatives. Laws: the dtype is that of the first operand where the second is only written into it; what does not fit
raises ShapeError.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..prim import public
from ..tensor import Tensor, as_tensor, cast
from ..types import normalize_axis
from .arithmetic import add, divide, multiply, subtract, trunc, where
from .arrange import unstack
from .contract import matmul
from .index import take
from .layout import as_shape, reshape, slice_axis
from .sort import searchsorted


@public
def masked_fill(x: Any, mask: Any, value: Any, /) -> Tensor:
    """x with `value` where the mask holds, in the dtype of x; x, mask and value broadcast.

    What is replaced contributes exactly 0 to the gradient, NaN or not.

    >>> import gtensor as gt
    >>> gt.masked_fill(gt.tensor([1.0, 2.0]), [True, False], -gt.inf)
    Tensor([-inf,   2.], dtype=float32)
    """
    tensor = as_tensor(x)
    return where(mask, cast(as_tensor(value), tensor.type.dtype), tensor)


@public
def index_select(x: Any, axis: int, index: Any, /) -> Tensor:
    """The places of an axis that a vector of integers names: `take` in PyTorch's order of arguments.

    Raises ShapeError for an index that is no vector or number, IndexError for a place out of range.

    >>> import gtensor as gt
    >>> gt.index_select(gt.tensor([[1, 2, 3], [4, 5, 6]]), 1, [2, 0])
    Tensor([[3, 1],
            [6, 4]], dtype=int64)
    """
    places = as_tensor(index)
    if places.ndim > 1:
        raise ShapeError(f"index_select: the index must be a vector, not {places.type}")
    return take(x, reshape(places, (-1,)), axis=axis)


@public
def narrow(x: Any, axis: int, start: int, length: int, /) -> Tensor:
    """`length` places of an axis from `start` on, which counts from the end if it is negative.

    Raises ShapeError where they do not lie inside; `dynamic_slice` takes a traced start.

    >>> import gtensor as gt
    >>> gt.narrow(gt.arange(6), 0, 2, 3)
    Tensor([2, 3, 4], dtype=int64)
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    extent = tensor.type.shape[at]
    if not isinstance(extent, int) or not -extent <= start <= extent:
        raise ShapeError(f"narrow: there is no place {start} along axis {axis} of {tensor.type}")
    first = start + extent if start < 0 else start
    if not 0 <= length <= extent - first:
        raise ShapeError(f"narrow: axis {axis} of {tensor.type} has no {length} places from {start} on")
    return slice_axis(tensor, at, first, first + length)


@public
def unbind(x: Any, axis: int = 0, /) -> tuple[Tensor, ...]:
    """The arrays along an axis, one by one: `unstack` with the axis by its place.

    >>> import gtensor as gt
    >>> gt.unbind(gt.tensor([[1, 2], [3, 4]]), 1)
    (Tensor([1, 3], dtype=int64), Tensor([2, 4], dtype=int64))
    """
    return unstack(x, axis=axis)


@public
def unflatten(x: Any, axis: int, sizes: Any, /) -> Tensor:
    """One axis as several: the inverse of `flatten`; one of the sizes may be -1.

    >>> import gtensor as gt
    >>> gt.unflatten(gt.ones((2, 6)), 1, (3, -1)).shape
    (2, 3, 2)
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    shape = tensor.type.shape
    return reshape(tensor, (*shape[:at], *as_shape(sizes), *shape[at + 1 :]))


@public
def bucketize(x: Any, boundaries: Any, /, right: bool = False) -> Tensor:
    """Between which boundaries, a growing vector, each element lies: boundaries[i - 1] < x <= boundaries[i].

    With `right` the other way round: boundaries[i - 1] <= x < boundaries[i]; the result is int64. This is
    `searchsorted(boundaries, x)`; `digitize` has NumPy's meaning of `right`, which is the opposite.

    >>> import gtensor as gt
    >>> gt.bucketize(gt.tensor([1.0, 3.0]), [1.0, 2.0]), gt.bucketize(gt.tensor([1.0, 3.0]), [1.0, 2.0], right=True)
    (Tensor([0, 2], dtype=int64), Tensor([1, 2], dtype=int64))
    """
    return searchsorted(boundaries, x, side="right" if right else "left")


@public
def frac(x: Any, /) -> Tensor:
    """The part of x after the point, with the sign of x: x - trunc(x). Its derivative is 1.

    >>> import gtensor as gt
    >>> gt.frac(gt.tensor([1.25, -0.5]))
    Tensor([ 0.25, -0.5 ], dtype=float32)
    """
    return subtract(x, trunc(x))


@public
def lerp(x: Any, end: Any, weight: Any, /) -> Tensor:
    """x + weight * (end - x): x itself for weight 0, and exactly `end` for weight 1; all three broadcast.

    >>> import gtensor as gt
    >>> gt.lerp(gt.tensor([0.0, 10.0]), gt.tensor([4.0, 20.0]), 0.25)
    Tensor([ 1. , 12.5], dtype=float32)
    """
    first, last, share = as_tensor(x), as_tensor(end), as_tensor(weight)
    way = last - first
    return where(share < 0.5, first + share * way, last - way * (1 - share))


@public
def addcmul(x: Any, x1: Any, x2: Any, /, value: Any = 1) -> Tensor:
    """x + value * x1 * x2; all operands broadcast.

    >>> import gtensor as gt
    >>> gt.addcmul(gt.tensor([1.0, 1.0]), gt.tensor([2.0, 3.0]), gt.tensor([4.0, 5.0]), value=0.5)
    Tensor([5. , 8.5], dtype=float32)
    """
    return add(x, multiply(multiply(value, x1), x2))


@public
def addcdiv(x: Any, x1: Any, x2: Any, /, value: Any = 1) -> Tensor:
    """x + value * x1 / x2; all operands broadcast.

    >>> import gtensor as gt
    >>> gt.addcdiv(gt.tensor([1.0, 1.0]), gt.tensor([2.0, 3.0]), gt.tensor([4.0, 2.0]), value=2.0)
    Tensor([2., 4.], dtype=float32)
    """
    return add(x, divide(multiply(value, x1), x2))


@public
def addmm(x: Any, x1: Any, x2: Any, /, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (x1 @ x2), for matrices, vectors and stacks of matrices as `matmul` takes them.

    A beta of the number 0 leaves x out, NaN or not. Raises ShapeError where the sizes do not fit.

    >>> import gtensor as gt
    >>> gt.addmm(gt.tensor([1.0, 2.0]), gt.ones((1, 3)), gt.ones((3, 2)), alpha=2)
    Tensor([[7., 8.]], dtype=float32)
    """
    product = multiply(alpha, matmul(x1, x2))
    if isinstance(beta, (int, float)) and beta == 0:
        return product
    return add(multiply(beta, x), product)

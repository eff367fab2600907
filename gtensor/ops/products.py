"""Products by other names, composed of the matrix product: dot, inner, vdot, vecdot, outer, tensordot, kron, cross.

Laws: dtypes promote as everywhere; sizes that do not fit raise ShapeError naming the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor
from ..types import normalize_axis, shape_size
from .arithmetic import multiply, subtract
from .arrange import ravel
from .contract import matmul
from .layout import moveaxis
from .places import constant_extent
from .reduce import sum
from .repeating import roll


@public
def vecdot(x1: Any, x2: Any, /, axis: int = -1) -> Tensor:
    """The sum of products along one axis of operands that broadcast.

    x1, x2: numbers or arrays whose shapes broadcast, with equal extents along `axis`; the result lacks it.
    Raises ShapeError where they do not fit.

    >>> import gtensor as gt
    >>> gt.vecdot(gt.tensor([[1.0, 2.0], [3.0, 4.0]]), gt.tensor([10.0, 1.0]))
    Tensor([12., 34.], dtype=float32)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    extents = [x.type.shape[normalize_axis(axis, x.ndim)] for x in (a, b)]
    if extents[0] != extents[1]:
        raise ShapeError(f"vecdot: extents along axis {axis} differ: {extents[0]} against {extents[1]}")
    products = multiply(a, b)
    return sum(products, axis, dtype=products.dtype)


@public
def outer(x1: Any, x2: Any, /) -> Tensor:
    """All products of the elements of two vectors: result[i, j] = x1[i] * x2[j].

    Arrays with more axes are flattened first, as in NumPy.

    >>> import gtensor as gt
    >>> gt.outer(gt.tensor([1.0, 2.0]), gt.tensor([3.0, 4.0]))
    Tensor([[3., 4.],
            [6., 8.]], dtype=float32)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rows, columns = a.type.size, b.type.size
    return multiply(apply("reshape", a, shape=(rows, 1)), apply("reshape", b, shape=(1, columns)))


@public
def tensordot(x1: Any, x2: Any, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over several axes, as one matrix product.

    `axes`: how many of the last axes of x1 meet the first of x2, or (axes of x1, axes of x2). The result
    has the other axes of x1, then those of x2. Raises ShapeError where the extents differ.

    >>> import gtensor as gt
    >>> gt.tensordot(gt.ones((2, 3, 4)), gt.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: axes={axes} of arrays with {a.ndim} and {b.ndim} axes")
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    left = [normalize_axis(i, a.ndim) for i in axes[0]]
    right = [normalize_axis(i, b.ndim) for i in axes[1]]
    if [a.type.shape[i] for i in left] != [b.type.shape[i] for i in right] or len({*left}) != len(left):
        raise ShapeError(f"tensordot: axes {left} of {a.type} do not meet axes {right} of {b.type}")
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    kept = tuple(a.type.shape[i] for i in rows), tuple(b.type.shape[i] for i in columns)
    inner = shape_size(a.type.shape[i] for i in left)
    matrices = (
        apply("reshape", apply("transpose", a, axes=(*rows, *left)), shape=(shape_size(kept[0]), inner)),
        apply("reshape", apply("transpose", b, axes=(*right, *columns)), shape=(inner, shape_size(kept[1]))),
    )
    return apply("reshape", matmul(*matrices), shape=kept[0] + kept[1])


@public
def dot(x1: Any, x2: Any, /) -> Tensor:
    """NumPy's product: inner for vectors, matrix product for matrices, elementwise with a scalar.

    Otherwise the sum over the last axis of x1 and the last but one of x2. Raises ShapeError where these
    extents differ.

    >>> import gtensor as gt
    >>> gt.dot(gt.tensor([1.0, 2.0]), gt.tensor([3.0, 4.0]))
    Tensor(11., dtype=float32)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return matmul(a, b) if b.ndim <= 2 else tensordot(a, b, axes=((-1,), (-2,)))


@public
def inner(x1: Any, x2: Any, /) -> Tensor:
    """The sums of products over the last axes of both, as `np.inner`; elementwise with a scalar.

    The result has the other axes of x1, then those of x2. Raises ShapeError where the last extents differ.

    >>> import gtensor as gt
    >>> gt.inner(gt.ones((2, 3)), gt.ones((4, 3))).shape
    (2, 4)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    return multiply(a, b) if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, axes=((-1,), (-1,)))


@public
def vdot(x1: Any, x2: Any, /) -> Tensor:
    """The sum of products of all elements of two arrays of one size, flattened first.

    Raises ShapeError where the sizes differ.

    >>> import gtensor as gt
    >>> gt.vdot([[1, 2], [3, 4]], [1, 10, 100, 1000])
    Tensor(4321, dtype=int64)
    """
    return vecdot(ravel(x1), ravel(x2))


@public
def kron(x1: Any, x2: Any, /) -> Tensor:
    """The Kronecker product: x1 with each element replaced by it times x2.

    Of fewer axes than the other, an operand gets new ones in front.

    >>> import gtensor as gt
    >>> gt.kron([1, 10], [1, 2, 3])
    Tensor([ 1,  2,  3, 10, 20, 30], dtype=int64)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rank = a.ndim if a.ndim > b.ndim else b.ndim
    left, right = ((1,) * (rank - t.ndim) + t.type.shape for t in (a, b))
    spread = apply("reshape", a, shape=tuple(n for m in left for n in (m, 1)))
    laid = apply("reshape", b, shape=tuple(n for m in right for n in (1, m)))
    return apply("reshape", multiply(spread, laid), shape=tuple(map(shape_size, zip(left, right, strict=True))))


@public
def cross(x1: Any, x2: Any, /, axis: int = -1) -> Tensor:
    """The vector product of the vectors along an axis of extent 3; the other axes broadcast.

    Raises ShapeError for another extent.

    >>> import gtensor as gt
    >>> gt.cross([1, 0, 0], [0, 1, 0])
    Tensor([0, 0, 1], dtype=int64)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    for x in (a, b):
        if constant_extent(x, normalize_axis(axis, x.ndim), "cross") != 3:
            raise ShapeError(f"cross: axis {axis} of {a.type} and {b.type} must have the extent 3")
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    turned = [(roll(x, -1, -1), roll(x, -2, -1)) for x in (a, b)]
    (a1, a2), (b1, b2) = turned
    return moveaxis(subtract(multiply(a1, b2), multiply(a2, b1)), -1, axis)

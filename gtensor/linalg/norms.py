"""Norms, and what follows from singular values: vector_norm, matrix_norm, norm, matrix_rank, cond.

Laws: the gradient of a norm at zero is 0; the largest element is taken out first, so squares and powers neither
overflow nor vanish; ties of largest elements share the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import abs, multiply, stop_gradient, where
from ..ops.layout import moveaxis
from ..ops.reduce import Axis, max, min, reduce, sum
from ..ops.statistics import floating
from ..ops.statistics import norm as two_norm
from ..ops.transcendental import pow
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import int64, normalize_axes
from .factors import matrices, svdvals
from .systems import default_cutoff, inv


@rounded_once
def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The norm of vectors along axes (all by default): the ord-th root of the sum of |x|**ord.

    ord: any number; inf and -inf give the largest and the smallest magnitude, 0 counts what is not 0. Integers become
    float32. Raises ShapeError for a wrong axis, and for inf or -inf of nothing.

    >>> import gtensor as gt
    >>> gt.linalg.vector_norm(gt.tensor([3.0, -4.0])), gt.linalg.vector_norm(gt.tensor([3.0, -4.0]), ord=1)
    (Tensor(5., dtype=float32), Tensor(7., dtype=float32))
    """
    tensor = floating(x)
    if isinstance(ord, bool) or not isinstance(ord, int | float) or ord != ord:
        raise OptionError(f"vector_norm: ord must be a number, not {ord!r}")
    if ord in _VECTOR:
        return _VECTOR[ord](tensor, axis, keepdims)
    return _root_of_powers(tensor, axis, keepdims, float(ord))


_VECTOR: dict[float, Callable[[Tensor, Axis, bool], Tensor]] = {
    0: lambda x, axis, keepdims: sum(cast(x != 0, x.type.dtype), axis, keepdims),
    1: lambda x, axis, keepdims: sum(abs(x), axis, keepdims),
    2: two_norm,
    math.inf: lambda x, axis, keepdims: max(abs(x), axis, keepdims),
    -math.inf: lambda x, axis, keepdims: min(abs(x), axis, keepdims),
}


def _root_of_powers(x: Tensor, axis: Axis, keepdims: bool, ord: float) -> Tensor:
    """The general case. Zeros add nothing to a sum of positive powers, and make that of negative ones infinite."""
    axes = normalize_axes(axis, x.ndim)
    if any(x.type.shape[i] == 0 for i in axes):
        return reduce("sum", x, axes, keepdims)
    size = abs(x)
    extreme = stop_gradient((max if ord > 0 else min)(size, axes, keepdims=True))
    scale = where((extreme > 0) & (extreme < math.inf), extreme, 1)
    powers = where(size == 0, 0 if ord > 0 else math.inf, pow(where(size == 0, 1, size) / scale, ord))
    total = sum(powers, axes, keepdims=True)
    plain = (total > 0) & (total < math.inf)
    limit = where(total == total, where((total == 0) == (ord > 0), 0, math.inf), total)
    root = where(plain, pow(where(plain, total, 1), 1 / ord), limit) * scale
    kept = tuple(n for i, n in enumerate(x.type.shape) if i not in axes)
    return root if keepdims else apply("reshape", root, shape=kept)


@rounded_once
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices: (..., m, n) gives (...).

    ord: "fro" the root of the sum of squares, "nuc" the sum of singular values, 1 and -1 the largest and smallest sum
    of a column's magnitudes, inf and -inf of a row's, 2 and -2 the largest and smallest singular value. Raises
    OptionError for another.

    >>> import gtensor as gt
    >>> x = gt.tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> gt.linalg.matrix_norm(x, ord=1), gt.linalg.matrix_norm(x, ord=gt.inf)
    (Tensor(6., dtype=float32), Tensor(7., dtype=float32))
    """
    tensor = matrices(x, "matrix_norm")
    if ord is not None and ord not in _MATRIX:
        raise OptionError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    value = _MATRIX["fro" if ord is None else ord](tensor)
    return apply("reshape", value, shape=(*value.type.shape, 1, 1)) if keepdims else value


_MATRIX: dict[Any, Callable[[Tensor], Tensor]] = {
    "fro": lambda x: two_norm(x, (-2, -1)),
    "nuc": lambda x: sum(svdvals(x), -1),
    1: lambda x: max(sum(abs(x), -2), -1),
    -1: lambda x: min(sum(abs(x), -2), -1),
    math.inf: lambda x: max(sum(abs(x), -1), -1),
    -math.inf: lambda x: min(sum(abs(x), -1), -1),
    2: lambda x: max(svdvals(x), -1),
    -2: lambda x: min(svdvals(x), -1),
}


@rounded_once
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """NumPy's norm: of vectors along one axis, of matrices along two, the 2-norm of all elements by default.

    axis: an int for vectors, a pair (rows, columns) for matrices; without one x has one or two axes, or no ord.
    ord: as in `vector_norm` and `matrix_norm`. Raises ShapeError where axis does not fit.

    >>> import gtensor as gt
    >>> gt.linalg.norm(gt.tensor([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    Tensor([ 5., 10.], dtype=float32)
    """
    tensor = floating(x)
    if axis is None and ord is None:
        return two_norm(tensor, None, keepdims)
    axes = normalize_axes(axis, tensor.ndim) if axis is None or isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        return vector_norm(tensor, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"norm: {len(axes)} axes of {tensor.type} are neither a vector nor a matrix")
    rows, columns = (normalize_axes(a, tensor.ndim)[0] for a in axes)
    if rows == columns:
        raise ShapeError(f"norm: axis {rows} is named twice")
    moved = moveaxis(moveaxis(tensor, rows, -1), columns - (columns > rows), -1)
    value = matrix_norm(moved, ord=ord)
    kept = tuple(1 if i in (rows, columns) else n for i, n in enumerate(tensor.type.shape))
    return apply("reshape", value, shape=kept) if keepdims else value


@rounded_once
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than rtol times the largest: (..., m, n) gives int64 (...).

    rtol: a number or an array that broadcasts to the leading axes, max(m, n) times the dtype's eps by default.

    >>> import gtensor as gt
    >>> gt.linalg.matrix_rank(gt.ones((3, 3)))
    Tensor(1, dtype=int64)
    """
    tensor = matrices(x, "matrix_rank")
    s = svdvals(tensor)
    if not s.type.shape[-1]:
        return sum(cast(s, int64), -1)
    cutoff = cast(as_tensor(default_cutoff(tensor) if rtol is None else rtol), tensor.type.dtype)
    limit = multiply(max(s, -1), cutoff)
    return sum(cast(s > apply("reshape", limit, shape=(*limit.type.shape, 1)), int64), -1)


@rounded_once
def cond(x: Any, p: Any = None) -> Tensor:
    """The condition number: the norm of x times that of its inverse, by singular values for p None, 2 and -2.

    >>> import gtensor as gt
    >>> gt.linalg.cond(gt.tensor([[4.0, 0.0], [0.0, 2.0]]))
    Tensor(2., dtype=float32)
    """
    tensor = matrices(x, "cond")
    if p in (None, 2, -2):
        s = svdvals(tensor)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return multiply(matrix_norm(tensor, ord=p), matrix_norm(inv(tensor), ord=p))

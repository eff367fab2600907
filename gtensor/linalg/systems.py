"""Linear systems: solve, solve_triangular, inv, det, slogdet, pinv, lstsq.

Law: leading axes broadcast. A singular matrix raises MatrixError where an inverse is needed: from solve, inv and
solve_triangular, and from the derivatives of slogdet and the second derivative of det. The determinant and its
gradient are right for singular matrices too.
"""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.layout import broadcast_to, matrix_transpose
from ..ops.linalg import identity_like, matrix_sizes, product
from ..ops.reduce import max, sum
from ..ops.statistics import floating
from ..ops.transcendental import square
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import broadcast_shapes, int64
from .factors import alike, matrices, svdvals


class SlogdetResult(NamedTuple):
    """The sign of the determinant and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """The solution, the sums of squared residuals, the rank, and the singular values."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    s: Tensor


def _together(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two stacks of matrices with one dtype and the same leading axes."""
    a, b = alike(a, b)
    lead = broadcast_shapes([a.type.shape[:-2], b.type.shape[:-2]])
    a, b = (broadcast_to(x, (*lead, *x.type.shape[-2:])) for x in (a, b))
    return a, b


def _system(a: Tensor, b: Any, what: str, name: str, **params: Any) -> Tensor:
    """The solution of a x = b by a primitive; b is one vector, or matrices."""
    right = floating(b)
    if right.ndim == 0 or right.type.shape[right.ndim - 1 if right.ndim == 1 else -2] != a.type.shape[-1]:
        raise ShapeError(f"{what}: {a.type} and {right.type} do not fit together")
    vector = right.ndim == 1
    left, right = _together(a, apply("reshape", right, shape=(*right.type.shape, 1)) if vector else right)
    x = apply(name, left, right, **params)
    return apply("reshape", x, shape=x.type.shape[:-1]) if vector else x


@rounded_once
def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solution x of x1 @ x = x2.

    x1: (..., n, n); x2: (n,) or (..., n, k), whose leading axes broadcast. Raises MatrixError where x1 is singular,
    ShapeError where the sizes do not fit.

    >>> import gtensor as gt
    >>> gt.linalg.solve(gt.tensor([[2.0, 0.0], [1.0, 1.0]]), gt.tensor([4.0, 5.0]))
    Tensor([2., 3.], dtype=float32)
    """
    return _system(matrices(x1, "solve", square=True), x2, "solve", "solve")


@rounded_once
def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Tensor:
    """The solution x of a @ x = b for one triangle of a, as scipy.linalg.solve_triangular; the other is not read.

    a: (..., n, n); b: (n,) or (..., n, k). trans: 0 or "N" for a, 1 or "T" for a transposed. `unit_diagonal` takes
    the diagonal as 1. Raises MatrixError for a 0 on the diagonal, OptionError for another trans.

    >>> import gtensor as gt
    >>> gt.linalg.solve_triangular(gt.tensor([[2.0, 0.0], [1.0, 1.0]]), gt.tensor([4.0, 5.0]), lower=True)
    Tensor([2., 3.], dtype=float32)
    """
    if trans not in (0, 1, "N", "T"):
        raise OptionError(f"solve_triangular: trans must be 0, 1, 'N' or 'T', not {trans!r}")
    matrix = matrices(a, "solve_triangular", square=True)
    if trans in (1, "T"):
        matrix, lower = matrix_transpose(matrix), not lower
    return _system(matrix, b, "solve_triangular", "triangular_solve", lower=bool(lower), unit=bool(unit_diagonal))


@rounded_once
def inv(x: Any, /) -> Tensor:
    """The inverse of square matrices; raises MatrixError where one is singular.

    >>> import gtensor as gt
    >>> gt.linalg.inv(gt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    Tensor([[0.5 , 0.  ],
            [0.  , 0.25]], dtype=float32)
    """
    tensor = matrices(x, "inv", square=True)
    return apply("solve", tensor, identity_like(tensor))


@rounded_once
def det(x: Any, /) -> Tensor:
    """The determinant of square matrices: (..., n, n) gives (...).

    >>> import gtensor as gt
    >>> gt.linalg.det(gt.tensor([[1.0, 2.0], [2.0, 4.0]])), gt.grad(gt.linalg.det)(gt.tensor([[1.0, 2.0], [0.0, 0.0]]))
    (Tensor(0., dtype=float32), Tensor([[ 0.,  0.],
            [-2.,  1.]], dtype=float32))
    """
    return apply("det", matrices(x, "det", square=True))


@rounded_once
def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude: a namedtuple (sign, logabsdet).

    A singular matrix has sign 0 and logarithm -inf.

    >>> import gtensor as gt
    >>> gt.linalg.slogdet(gt.tensor([[0.0, 1.0], [1.0, 0.0]])).sign
    Tensor(-1., dtype=float32)
    """
    both = apply("slogdet", matrices(x, "slogdet", square=True))
    return SlogdetResult(both[..., 0], both[..., 1])


def default_cutoff(x: Tensor) -> float:
    """max(m, n) roundings: what the largest singular value may be off."""
    return float(np.finfo(x.type.dtype.dtype).eps) * builtins.max(matrix_sizes(x.type))


@rounded_once
def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse: (..., m, n) gives (..., n, m).

    rtol: singular values up to rtol times the largest count as 0; a number or an array that broadcasts to the leading
    axes, max(m, n) times the dtype's eps by default. The derivative is that at constant rank.

    >>> import gtensor as gt
    >>> gt.linalg.pinv(gt.tensor([[2.0], [0.0]]))
    Tensor([[0.5, 0. ]], dtype=float32)
    """
    tensor = matrices(x, "pinv")
    m, n = matrix_sizes(tensor.type)
    if m < n:
        return matrix_transpose(pinv(matrix_transpose(tensor), rtol=rtol))
    cutoff = cast(as_tensor(default_cutoff(tensor) if rtol is None else rtol), tensor.type.dtype)
    return apply("pinv", tensor, broadcast_to(cutoff, tensor.type.shape[:-2]))


@rounded_once
def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The x of least norm that makes a @ x - b least: a namedtuple (x, residuals, rank, s), as NumPy's.

    a: (m, n); b: (m,) or (m, k). rcond: singular values up to rcond times the largest count as 0. Shapes do not depend
    on values: the residuals, (k,) or (1,), are always there, where NumPy leaves them out unless m > rank = n.

    >>> import gtensor as gt
    >>> gt.linalg.lstsq(gt.tensor([[2.0], [0.0]]), gt.tensor([1.0, 3.0])).residuals
    Tensor([9.], dtype=float32)
    """
    left, right = matrices(a, "lstsq"), floating(b)
    if left.ndim != 2 or right.ndim not in (1, 2) or right.type.shape[0] != left.type.shape[0]:
        raise ShapeError(f"lstsq: {left.type} and {right.type} do not fit together")
    vector = right.ndim == 1
    left, right = alike(left, apply("reshape", right, shape=(*right.type.shape, 1)) if vector else right)
    cutoff = default_cutoff(left) if rcond is None else rcond
    x = product(pinv(left, rtol=cutoff), right)
    residuals = sum(square(product(left, x) - right), 0)
    s = svdvals(left)
    rank = sum(cast(s > max(s) * cutoff, int64)) if s.type.size else cast(as_tensor(0), int64)
    return LstsqResult(apply("reshape", x, shape=x.type.shape[:1]) if vector else x, residuals, rank, s)

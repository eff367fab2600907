"""Elimination: cholesky, triangular_solve, solve, det, cofactor, slogdet over stacks of matrices.

Each is one record of the kind `routine`: NumPy evaluates it, a routine of templates/gt_solve.h computes it in C, and
its derivative is made of the others, so derivatives of any order close (Giles, "Collected matrix derivative results",
2008; Murray, "Differentiation of the Cholesky decomposition", 2016). Laws: operands have the same leading axes; a
matrix with a NaN or an infinity gives NaN, or a triangle of NaN; one without an answer (singular, not positive
definite) is a MatrixError, evaluated and compiled. `gt.linalg` has the functions that users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, MatrixError, ShapeError
from ..prim import Calling, Input, Prim, Sample, register
from ..tensor import Tensor, apply
from ..types import Dim, Type, extent_bound, int64, shape_size
from .arithmetic import greater, greater_equal, multiply, negative, subtract, where
from .create import eye
from .layout import broadcast_to
from .records import batch_size, move_axis, uniform
from .reduce import sum

Array = np.ndarray[Any, Any]
Rule = Callable[..., Sequence[Any]]

# ---- what records of routines share ----------------------------------------------------------------------


def check_matrices(*types: Type, square: bool = False) -> tuple[Any, ...]:
    """The leading axes of stacks of matrices; raises ShapeError or DTypeError where they do not fit together."""
    for t in types:
        if not t.dtype.floating:
            raise DTypeError(f"takes floats, not {t.dtype}")
        if t.ndim < 2 or any(isinstance(n, Dim) for n in t.shape[-2:]):
            raise ShapeError(f"needs matrices of constant sizes, not {t}")
        if t.shape[:-2] != types[0].shape[:-2] or t.dtype != types[0].dtype:
            raise ShapeError("the leading axes and dtypes of the operands must be equal")
    if square and types[0].shape[-1] != types[0].shape[-2]:
        raise ShapeError(f"needs square matrices, not {types[0]}")
    return types[0].shape[:-2]


def matrix_sizes(x: Type) -> tuple[int, int]:
    """The rows and columns of the matrices."""
    rows, columns = map(extent_bound, x.shape[-2:])
    return rows, columns


def stack_size(x: Type) -> Any:
    """How many matrices there are."""
    return shape_size(x.shape[:-2])


def routine(
    name: str, type: Callable[..., Type], numpy: Callable[..., Any], vjp: Rule | None, place: Callable[..., Calling],
    samples: Sequence[Sample], doc: str,
) -> None:  # fmt: skip
    """Register a record of the kind `routine`, batched over leading axes."""

    def batch(args: Sequence[Tensor], axes: Sequence[int | None], **params: Any) -> tuple[Tensor, int]:
        size = batch_size(args, axes)
        moved = [move_axis(x, a, size, x.ndim - (a is not None)) for x, a in zip(args, axes, strict=True)]
        return apply(name, *moved, **params), 0

    register(Prim(name, "routine", type, numpy, vjp=vjp, batch=batch, place=place, samples=tuple(samples), doc=doc))


def finite(a: Array) -> tuple[Array, Array]:
    """The matrices, those that are not finite replaced by ones that every routine can take, and which those are."""
    bad: Array = np.asarray(~np.isfinite(a).all((-2, -1)))
    usual = np.eye(a.shape[-2], a.shape[-1], dtype=a.dtype)
    return np.ascontiguousarray(np.where(bad[..., None, None], usual, a)), bad


def marked(result: Array, bad: Array) -> Array:
    """The results, NaN where the operand was not finite."""
    return np.where(bad.reshape(bad.shape + (1,) * (result.ndim - bad.ndim)), np.array(np.nan, result.dtype), result)


def attempted(function: Callable[[Array], Array], a: Array, fails: str) -> Array:
    """The function of the matrices; raises MatrixError with the number of the first that has no answer."""
    try:
        return function(a)
    except np.linalg.LinAlgError:
        for number, matrix in enumerate(a.reshape(-1, *a.shape[-2:])):
            try:
                function(matrix)
            except np.linalg.LinAlgError:
                raise MatrixError(f"matrix {number} of the batch {fails}") from None
        raise


def product(a: Tensor, b: Tensor, ta: bool = False, tb: bool = False) -> Tensor:
    """a @ b, with `ta` or `tb` of the transposed."""
    return apply("matmul", a, b, ta=ta, tb=tb)


def turned(a: Tensor) -> Tensor:
    """The transposed matrices."""
    return apply("transpose", a, axes=(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))


def triangle(a: Tensor, lower: bool = True, diagonal: bool = True) -> Tensor:
    """A triangle of matrices, zeros elsewhere."""
    shape = a.type.shape[-2:]
    row, column = (apply("iota", shape=shape, axis=i, dtype=int64) for i in (0, 1))
    first, second = (row, column) if lower else (column, row)
    return where((greater_equal if diagonal else greater)(first, second), a, 0)


def folded(a: Tensor) -> Tensor:
    """The lower triangle of a + a', with a's own diagonal: the derivative by elements that stand for two."""
    both = apply("add", a, turned(a))
    return where(identity_like(a, bool), multiply(a, 1), triangle(both))


def halved(a: Tensor) -> Tensor:
    """The lower triangle, with half of its diagonal."""
    return where(identity_like(a, bool), multiply(a, 0.5), triangle(a))


def identity_like(a: Tensor, dtype: Any = None) -> Tensor:
    """The identity for each matrix of a."""
    rows, columns = matrix_sizes(a.type)
    return broadcast_to(eye(rows, columns, dtype=dtype or a.type.dtype), a.type.shape)


def column(x: Tensor) -> Tensor:
    """Numbers, one for each matrix, with two axes more."""
    return apply("reshape", x, shape=(*x.type.shape, 1, 1))


def inverse(a: Tensor) -> Tensor:
    """The inverse."""
    return apply("solve", a, identity_like(a))


def definite(a: Array) -> Array:
    """A positive definite matrix made of any: for samples."""
    return a @ a.swapaxes(-1, -2) / a.shape[-1] + np.eye(a.shape[-1])


def regular(a: Array) -> Array:
    """A matrix far from singular: for samples."""
    return a + 5 * np.eye(*a.shape[-2:])


def square(shape: tuple[int, ...], made: Callable[[Array], Array]) -> Input:
    """A random operand of a sample."""
    return Input(shape, -1.0, 1.0, made=made)


# ---- cholesky --------------------------------------------------------------------------------------------

_INDEFINITE = "is not positive definite"
_SINGULAR = "is singular"


def _square_type(a: Type) -> Type:
    check_matrices(a, square=True)
    return a


def _cholesky_array(a: Array) -> Array:
    clean, bad = finite(a)
    return np.asarray(np.tril(marked(attempted(np.linalg.cholesky, clean, _INDEFINITE), bad)))


def _cholesky_vjp(g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
    """With P = tril(L' G), its diagonal halved: S = L'^-1 P L^-1 (Murray, equation 9), folded to the lower triangle."""
    upper = turned(y)
    middle = halved(product(y, triangle(g), ta=True))
    left = apply("triangular_solve", upper, middle, lower=False, unit=False)
    return (folded(apply("triangular_solve", upper, turned(left), lower=False, unit=False)),)


def _cholesky_place(a: Type) -> Calling:
    n = extent_bound(a.shape[-1])
    return Calling("gt_solve", "gt_cholesky", (stack_size(a), n), None, n**3 // 3, _INDEFINITE)


routine(
    "cholesky", _square_type, _cholesky_array, _cholesky_vjp, _cholesky_place,
    [Sample((square(s, definite),)) for s in ((3, 3), (2, 4, 4), (1, 1), (0, 0))],
    "The lower Cholesky factor of symmetric matrices, of which the lower triangle is read.",
)  # fmt: skip

# ---- triangular systems ----------------------------------------------------------------------------------


def _system_type(a: Type, b: Type, **params: Any) -> Type:
    check_matrices(a, b, square=True)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"sizes differ ({a.shape[-1]} against {b.shape[-2]})")
    return b


def _marked_columns(x: Array, b: Array, bad: Array) -> Array:
    wrong = ~np.isfinite(b).all(-2, keepdims=True) | bad[..., None, None]
    return np.where(wrong, np.array(np.nan, x.dtype), x)


def _triangular_array(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    kept = (np.tril if lower else np.triu)(a, (-1 if lower else 1) if unit else 0)
    clean, bad = finite(kept)
    n = a.shape[-1]
    if unit:
        clean = np.where(np.eye(n, dtype=np.bool_), np.array(1, a.dtype), clean)
    zero = (np.diagonal(clean, axis1=-2, axis2=-1) == 0).any(-1).ravel()
    if zero.any():
        raise MatrixError(f"matrix {int(zero.argmax())} of the batch {_SINGULAR}")
    x = np.array(np.where(np.isfinite(b), b, np.array(0, b.dtype)), order="C")
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        x[..., i, :] -= np.matmul(clean[..., i : i + 1, known], x[..., known, :])[..., 0, :]
        x[..., i, :] /= clean[..., i, i, None]
    return _marked_columns(x, b, bad)


def _triangular_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor, lower: bool, unit: bool) -> Sequence[Any]:
    """dB = A'^-1 G, dA = -dB X', of which the triangle counts that is read."""
    gb = apply("triangular_solve", turned(a), g, lower=not lower, unit=unit)
    return lambda: triangle(negative(product(gb, y, tb=True)), lower, not unit), gb


def _triangular_place(a: Type, b: Type, lower: bool, unit: bool) -> Calling:
    n, cols = map(extent_bound, b.shape[-2:])
    sizes = (stack_size(a), n, cols, int(lower), int(unit))
    return Calling("gt_solve", "gt_triangular_solve", sizes, None, n * n * cols, "" if unit else _SINGULAR)


routine(
    "triangular_solve", _system_type, _triangular_array, _triangular_vjp, _triangular_place,
    [
        Sample((square((3, 3), regular), uniform(shape=(3, 2))), {"lower": True, "unit": False}),
        Sample((square((2, 3, 3), regular), uniform(shape=(2, 3, 1))), {"lower": False, "unit": False}),
        Sample((square((3, 3), np.asarray), uniform(shape=(3, 2))), {"lower": True, "unit": True}),
        Sample((square((4, 4), np.asarray), uniform(shape=(4, 1))), {"lower": False, "unit": True}),
        Sample((square((2, 0, 0), np.asarray), uniform(shape=(2, 0, 3))), {"lower": True, "unit": False}),
    ],
    "The solution x of a x = b for one triangle of a.",
)  # fmt: skip

# ---- systems ---------------------------------------------------------------------------------------------


def _solve_array(a: Array, b: Array) -> Array:
    clean, bad = finite(a)
    if not a.size or not b.size:
        return np.zeros_like(b)
    right = np.ascontiguousarray(np.where(np.isfinite(b), b, np.array(0, b.dtype)))
    try:
        x = np.linalg.solve(clean, right)
    except np.linalg.LinAlgError:
        attempted(np.linalg.inv, clean, _SINGULAR)
        raise
    return _marked_columns(x, b, bad)


def _solve_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Sequence[Any]:
    """dB = A'^-1 G, dA = -dB X' (Giles, 2.3.1)."""
    gb = apply("solve", turned(a), g)
    return lambda: negative(product(gb, y, tb=True)), gb


def _solve_place(a: Type, b: Type) -> Calling:
    n, cols = map(extent_bound, b.shape[-2:])
    flops = 2 * n**3 // 3 + 2 * n * n * cols
    return Calling("gt_solve", "gt_solve", (stack_size(a), n, cols), n * n + n, flops, _SINGULAR)


routine(
    "solve", _system_type, _solve_array, _solve_vjp, _solve_place,
    [
        Sample((square((3, 3), regular), uniform(shape=(3, 2)))),
        Sample((square((2, 4, 4), regular), uniform(shape=(2, 4, 1)))),
        Sample((square((1, 1), regular), uniform(shape=(1, 1)))),
        Sample((square((0, 0), np.asarray), uniform(shape=(0, 2)))),
    ],
    "The solution x of a x = b.",
)  # fmt: skip

# ---- determinants ----------------------------------------------------------------------------------------


def _det_type(a: Type) -> Type:
    return Type(check_matrices(a, square=True), a.dtype)


def _det_array(a: Array) -> Array:
    clean, bad = finite(a)
    return marked(np.asarray(np.linalg.det(clean)), bad)


def _det_place(a: Type) -> Calling:
    n = extent_bound(a.shape[-1])
    return Calling("gt_solve", "gt_det", (stack_size(a), n), n * n + n, 2 * n**3 // 3)


routine(
    "det", _det_type, _det_array, lambda g, y, a: (multiply(column(g), apply("cofactor", a)),), _det_place,
    [Sample((square(s, regular),)) for s in ((3, 3), (2, 4, 4), (1, 1), (0, 0))],
    "The determinant.",
)  # fmt: skip


def _cofactor_array(a: Array) -> Array:
    """det(u) det(v) u diag(products of the other singular values) v'."""
    clean, bad = finite(a)
    n = a.shape[-1]
    u, s, v = np.linalg.svd(clean)
    others = np.where(np.eye(n, dtype=np.bool_), np.array(1, a.dtype), s[..., None, :]).prod(-1)
    sign = np.sign(np.linalg.det(u) * np.linalg.det(v))[..., None, None]
    return marked(sign * np.matmul(u * others[..., None, :], v), bad)


def _cofactor_vjp(g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
    """With B the transposed inverse: <G, C> B - B G' C, which needs a regular matrix."""
    other = turned(inverse(a))
    along = column(sum(multiply(g, y), (-2, -1)))
    return (subtract(multiply(along, other), product(product(other, g, tb=True), y)),)


def _cofactor_place(a: Type) -> Calling:
    n = extent_bound(a.shape[-1])
    return Calling("gt_solve", "gt_cofactor", (stack_size(a), n), 2 * n * n + 2 * n, 3 * n**3)


routine(
    "cofactor", _square_type, _cofactor_array, _cofactor_vjp, _cofactor_place,
    [Sample((square(s, regular),)) for s in ((3, 3), (2, 4, 4), (1, 1))],
    "The cofactors: what the determinant grows by, per element; also of singular matrices.",
)  # fmt: skip


def _slogdet_type(a: Type) -> Type:
    return Type((*check_matrices(a, square=True), 2), a.dtype)


def _slogdet_array(a: Array) -> Array:
    clean, bad = finite(a)
    return marked(np.stack(np.linalg.slogdet(clean), -1).astype(a.dtype), bad)


def _slogdet_vjp(g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
    """The logarithm's is the transposed inverse (Giles, 2.2.4); the sign has none."""
    return (multiply(column(g[..., 1]), inverse(turned(a))),)


def _slogdet_place(a: Type) -> Calling:
    n = extent_bound(a.shape[-1])
    return Calling("gt_solve", "gt_slogdet", (stack_size(a), n), n * n + n, 2 * n**3 // 3)


routine(
    "slogdet", _slogdet_type, _slogdet_array, _slogdet_vjp, _slogdet_place,
    [Sample((square(s, regular),)) for s in ((3, 3), (2, 4, 4), (1, 1), (0, 0))],
    "The sign of the determinant and the logarithm of its magnitude, side by side.",
)  # fmt: skip

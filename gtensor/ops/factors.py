"""Orthogonal factors: qr, qr_basis, eigh, svd and pinv over stacks of matrices.

Records of the kind `routine` (see ops/linalg.py), with the factors side by side in one array, so that each is a slice:
qr has the rows of Q above those of R, eigh one row of eigenvalues above the eigenvectors, svd the rows of U, one row of
singular values, the rows of V'. Derivatives: Giles 2008; Seeger, Hetzel, Dai, Meissner and Lawrence,
"Auto-differentiating linear algebra", 2017; Golub and Pereyra 1973 for pinv. Laws: matrices have at least as many rows
as columns; R has the signs of LAPACK; of the two directions of an eigenvector or of a pair of singular vectors the one
is meant in which its first element of at least 0.6 of the largest magnitude is positive; where two eigenvalues or
singular values are equal, their vectors do not turn into each other in a derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..prim import Calling, Sample
from ..tensor import Tensor, apply
from ..types import Type, extent_bound
from .arithmetic import add, multiply, negative, subtract, where
from .linalg import (
    attempted,
    check_matrices,
    definite,
    finite,
    folded,
    identity_like,
    marked,
    matrix_sizes,
    product,
    regular,
    routine,
    square,
    stack_size,
    triangle,
    turned,
)
from .transcendental import reciprocal

Array = np.ndarray[Any, Any]

_NO_END = "has no eigenvalues that iteration would find"


def _tall(a: Type) -> tuple[int, int]:
    """The sizes of matrices that are not wider than tall."""
    check_matrices(a)
    m, n = matrix_sizes(a)
    if m < n:
        raise ShapeError(f"needs at least as many rows as columns, not {a}")
    return m, n


def _oriented(vectors: Array) -> Array:
    """The sign of each column that makes its first element of at least 0.6 of the largest magnitude positive."""
    size = np.abs(vectors)
    first = np.argmax(size >= 0.6 * size.max(-2, keepdims=True, initial=0), axis=-2) if size.size else 0
    chosen = np.take_along_axis(vectors, np.expand_dims(first, -2), -2) if size.size else vectors[..., :1, :]
    return np.where(chosen < 0, np.array(-1, vectors.dtype), np.array(1, vectors.dtype))


def _gaps(values: Tensor, sums: bool) -> Tensor:
    """1 / (w_j - w_i), or 1 / (w_j^2 - w_i^2), and 0 where that would be infinite."""
    shape = values.type.shape
    row, col = (apply("reshape", values, shape=s) for s in ((*shape[:-1], 1, shape[-1]), (*shape, 1)))
    gap = subtract(row, col)
    gap = multiply(gap, add(row, col)) if sums else gap
    return _reciprocal(gap)


def _reciprocal(x: Tensor) -> Tensor:
    """1 / x, and 0 for 0."""
    return where(x == 0, 0, reciprocal(where(x == 0, 1, x)))


def _scaled(a: Tensor, s: Tensor) -> Tensor:
    """The columns of a times the numbers s."""
    return multiply(a, apply("reshape", s, shape=(*s.type.shape[:-1], 1, s.type.shape[-1])))


# ---- qr --------------------------------------------------------------------------------------------------


def _qr_type(a: Type) -> Type:
    m, n = _tall(a)
    return a.with_shape((*a.shape[:-2], m + n, n))


def _qr_array(a: Array) -> Array:
    clean, bad = finite(a)
    q, r = np.linalg.qr(clean)
    return np.concatenate([marked(q, bad), np.triu(marked(r, bad))], -2)


def _qr_vjp(g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
    """With M = R G_R' - G_Q' Q and its lower triangle mirrored: (G_Q + Q M) R'^-1."""
    m, _ = matrix_sizes(a.type)
    q, r, gq, gr = y[..., :m, :], y[..., m:, :], g[..., :m, :], triangle(g[..., m:, :], lower=False)
    middle = subtract(product(r, gr, tb=True), product(gq, q, ta=True))
    mirrored = add(triangle(middle), turned(triangle(middle, diagonal=False)))
    total = add(gq, product(q, mirrored))
    return (turned(apply("triangular_solve", r, turned(total), lower=False, unit=False)),)


def _qr_place(a: Type) -> Calling:
    m, n = matrix_sizes(a)
    return Calling("gt_orthogonal", "gt_qr", (stack_size(a), m, n), m * n + n + m, 4 * m * n * n)


routine(
    "qr", _qr_type, _qr_array, _qr_vjp, _qr_place,
    [Sample((square(s, regular),)) for s in ((3, 3), (2, 5, 3), (4, 1), (0, 0), (2, 0))],
    "The factors Q (orthonormal columns) and R (upper triangle), one above the other.",
)  # fmt: skip


def _basis_type(a: Type) -> Type:
    m, _ = _tall(a)
    return a.with_shape((*a.shape[:-2], m, m))


def _basis_array(a: Array) -> Array:
    clean, bad = finite(a)
    return marked(np.asarray(np.linalg.qr(clean, "complete")[0]), bad)


def _basis_place(a: Type) -> Calling:
    m, n = matrix_sizes(a)
    return Calling("gt_orthogonal", "gt_qr_basis", (stack_size(a), m, n), m * n + n + m, 4 * m * m * n)


routine(
    "qr_basis", _basis_type, _basis_array, None, _basis_place,
    [Sample((square(s, regular),), grad=False) for s in ((3, 3), (2, 5, 3), (2, 0))],
    "The whole orthogonal matrix that begins with the columns of Q.",
)  # fmt: skip

# ---- eigenvalues -----------------------------------------------------------------------------------------


def _eigh_type(a: Type) -> Type:
    lead = check_matrices(a, square=True)
    n = extent_bound(a.shape[-1])
    return a.with_shape((*lead, n + 1, n))


def _eigh_array(a: Array) -> Array:
    clean, bad = finite(a)

    def both(x: Array) -> Array:
        w, v = np.linalg.eigh(x)
        return np.concatenate([w[..., None, :], v * _oriented(v)], -2)

    return marked(attempted(both, clean, _NO_END), bad)


def _eigh_vjp(g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
    """V (diag(g_w) + F * (V' G_V)) V' with F_ij = 1 / (w_j - w_i) (Giles, 3.1), folded to the lower triangle."""
    w, v, gw, gv = y[..., 0, :], y[..., 1:, :], g[..., 0, :], g[..., 1:, :]
    inner = add(multiply(_gaps(w, sums=False), product(v, gv, ta=True)), _scaled(identity_like(a), gw))
    whole = product(product(v, inner), v, tb=True)
    return (folded(multiply(add(whole, turned(whole)), 0.5)),)


def _eigh_place(a: Type) -> Calling:
    n = extent_bound(a.shape[-1])
    return Calling("gt_eigen", "gt_eigh", (stack_size(a), n), 2 * n * n + 3 * n, 9 * n**3, _NO_END)


routine(
    "eigh", _eigh_type, _eigh_array, _eigh_vjp, _eigh_place,
    [Sample((square(s, definite),)) for s in ((3, 3), (2, 4, 4), (1, 1), (0, 0))],
    "The eigenvalues of symmetric matrices (lower triangle), growing, above their eigenvectors.",
)  # fmt: skip

# ---- singular values -------------------------------------------------------------------------------------


def _svd_type(a: Type) -> Type:
    m, n = _tall(a)
    return a.with_shape((*a.shape[:-2], m + 1 + n, n))


def _svd_array(a: Array) -> Array:
    clean, bad = finite(a)
    u, s, v = np.linalg.svd(clean, full_matrices=False)
    sign = _oriented(u)
    return marked(np.concatenate([u * sign, s[..., None, :], v * np.swapaxes(sign, -1, -2)], -2), bad)


def _svd_vjp(g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
    """With P = F * (U' G_U), Q = F * (V' G_V), F_ij = 1 / (s_j^2 - s_i^2), each added to its transposed:
    U (P S + S Q + diag(g_s)) V' + (1 - U U') G_U S^-1 V'."""
    m, n = matrix_sizes(a.type)
    u, s, v, gu, gs, gv = (part for x in (y, g) for part in (x[..., :m, :], x[..., m, :], x[..., m + 1 :, :]))
    gaps = _gaps(s, sums=True)
    turn = product(u, gu, ta=True)
    of_u, of_v = multiply(gaps, turn), multiply(gaps, product(v, gv, tb=True))
    sides = add(_scaled(add(of_u, turned(of_u)), s), turned(_scaled(add(of_v, turned(of_v)), s)))
    inner = add(sides, _scaled(identity_like(v), gs))
    if m == n:
        return (product(product(u, inner), v),)
    outside = _scaled(subtract(gu, product(u, turn)), _reciprocal(s))
    return (product(add(product(u, inner), outside), v),)


def _svd_place(a: Type) -> Calling:
    m, n = matrix_sizes(a)
    work = m * n + n * n + n + m
    return Calling("gt_orthogonal", "gt_svd", (stack_size(a), m, n), work, 4 * m * n * n + 40 * n**3)


def _spread(a: Array) -> Array:
    """A matrix with singular values far from each other and from 0: for samples."""
    u, _, v = np.linalg.svd(a, full_matrices=False)
    return np.matmul(u * np.arange(1.0, u.shape[-1] + 1), v)


routine(
    "svd", _svd_type, _svd_array, _svd_vjp, _svd_place,
    [Sample((square(s, _spread),)) for s in ((3, 3), (2, 5, 3), (4, 1), (0, 0), (2, 0))],
    "The factors of u diag(s) v' with falling s: the rows of u, one of s, the rows of v'.",
)  # fmt: skip

# ---- the pseudo-inverse ----------------------------------------------------------------------------------


def _pinv_type(a: Type, cutoff: Type) -> Type:
    m, n = _tall(a)
    if cutoff != Type(a.shape[:-2], a.dtype):
        raise ShapeError(f"the cutoffs must be {Type(a.shape[:-2], a.dtype)}, one for each matrix")
    return a.with_shape((*a.shape[:-2], n, m))


def _pinv_array(a: Array, cutoff: Array) -> Array:
    clean, bad = finite(a)
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    u, s, v = np.linalg.svd(clean, full_matrices=False)
    kept = s > np.asarray(cutoff)[..., None] * s[..., :1]
    parts = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
    return marked(np.matmul(np.swapaxes(v, -1, -2) * parts[..., None, :], np.swapaxes(u, -1, -2)), bad)


def _pinv_vjp(g: Tensor, y: Tensor, a: Tensor, cutoff: Tensor) -> Sequence[Any]:
    """-P' G P' + (1 - A P) G' P P' + P' P G' (1 - P A): the rank does not change (Golub and Pereyra, 4.12)."""
    through = negative(product(product(y, g, ta=True), y, tb=True))
    left = product(product(g, y, ta=True), y, tb=True)
    left = subtract(left, product(a, product(y, left)))
    right = product(product(y, y, ta=True), g, tb=True)
    right = subtract(right, product(product(right, y), a))
    return add(through, add(left, right)), None


def _pinv_place(a: Type, cutoff: Type) -> Calling:
    inner = _svd_place(a)
    m, n = matrix_sizes(a)
    work = (inner.scratch or 0) + (m + 1 + n) * n
    return Calling("gt_orthogonal", "gt_pinv", inner.sizes, work, inner.flops + 2 * m * n * n)


def _no_cutoff(a: Array) -> Array:
    return 0 * a + 1e-7


routine(
    "pinv", _pinv_type, _pinv_array, _pinv_vjp, _pinv_place,
    [Sample((square(s, _spread), square(s[:-2], _no_cutoff))) for s in ((3, 3), (2, 5, 3), (4, 1), (2, 0))],
    "The pseudo-inverse; singular values up to the cutoff times the largest count as 0.",
)  # fmt: skip

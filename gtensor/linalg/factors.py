"""Factors of matrices: cholesky, qr, eigh, svd.

Symmetric operands are symmetrised first, (x + x') / 2, so that gradients are symmetric. Of the two directions of an
eigenvector, or of a pair of singular vectors, the one is meant in which its first element of at least 0.6 of the
largest magnitude is positive; vectors of equal eigenvalues or singular values are one basis of many. Law: where such
values are equal, a derivative through their vectors is right for results that no choice of the basis changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.assemble import concat
from ..ops.layout import matrix_transpose
from ..ops.linalg import matrix_sizes, product
from ..ops.padding import pad
from ..ops.statistics import floating
from ..tensor import Tensor, apply, cast
from ..types import Dim, promote


class QRResult(NamedTuple):
    """Q with orthonormal columns, R an upper triangle."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, growing, and eigenvectors in columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """x = U @ diag(S) @ Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matrices(x: Any, what: str, square: bool = False) -> Tensor:
    """x as a stack of matrices of floats; raises ShapeError naming the function."""
    tensor = floating(x)
    if tensor.ndim < 2 or (square and tensor.type.shape[-1] != tensor.type.shape[-2]):
        raise ShapeError(f"{what} needs {'square ' if square else ''}matrices, not {tensor.type}")
    if any(isinstance(n, Dim) for n in tensor.type.shape[-2:]):
        raise ShapeError(f"{what} needs matrices of constant sizes, not {tensor.type}")
    return tensor


def alike(*tensors: Tensor) -> list[Tensor]:
    """The tensors in their common dtype."""
    dtype, weak = promote([t.type for t in tensors])
    return [cast(t, dtype, weak) for t in tensors]


def _symmetric(x: Any, what: str) -> Tensor:
    tensor = matrices(x, what, square=True)
    return (tensor + matrix_transpose(tensor)) * 0.5


@rounded_once
def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor L of symmetric positive definite matrices: x = L @ L'.

    x: (..., n, n). `upper` gives the transposed factor. Raises MatrixError where x is not positive definite,
    ShapeError where it is not square.

    >>> import gtensor as gt
    >>> gt.linalg.cholesky(gt.tensor([[4.0, 2.0], [2.0, 10.0]]))
    Tensor([[2., 0.],
            [1., 3.]], dtype=float32)
    """
    factor = apply("cholesky", _symmetric(x, "cholesky"))
    return matrix_transpose(factor) if upper else factor


@rounded_once
def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """x = Q @ R with orthonormal columns of Q and an upper triangle R: a namedtuple (Q, R).

    x: (..., m, n). mode: "reduced" for Q (..., m, k) and R (..., k, n) with k = min(m, n); "complete" for Q (..., m, m)
    and R (..., m, n), whose further columns of Q have no derivative; "r" for R alone. The signs are LAPACK's. Raises
    OptionError for another mode. A derivative needs linearly independent columns (of the first k), else MatrixError.

    >>> import gtensor as gt
    >>> q, r = gt.linalg.qr(gt.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> gt.round(r * 10)
    Tensor([[-50., -22.],
            [  0.,   4.]], dtype=float32)
    """
    if mode not in ("reduced", "complete", "r"):
        raise OptionError(f"qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    tensor = matrices(x, "qr")
    m, n = matrix_sizes(tensor.type)
    k = min(m, n)
    both = apply("qr", tensor[..., :k])
    q, r = both[..., :m, :], both[..., m:, :]
    if n > k:
        r = concat([r, product(q, tensor[..., k:], ta=True)], -1)
    if mode == "r":
        return r
    if mode == "complete" and m > k:
        q = concat([q, apply("qr_basis", tensor)[..., k:]], -1)
        r = pad(r, [(0, 0)] * (tensor.ndim - 2) + [(0, m - k), (0, 0)])
    return QRResult(q, r)


@rounded_once
def eigh(x: Any, /) -> EighResult:
    """Eigenvalues (growing) and eigenvectors (columns) of symmetric matrices: a namedtuple (eigenvalues, eigenvectors).

    x: (..., n, n). Raises ShapeError where x is not square, MatrixError where the iteration does not end.

    >>> import gtensor as gt
    >>> gt.linalg.eigh(gt.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Tensor([1., 2.], dtype=float32)
    """
    both = apply("eigh", _symmetric(x, "eigh"))
    return EighResult(both[..., 0, :], both[..., 1:, :])


@rounded_once
def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of symmetric matrices, growing: `eigh` without vectors.

    >>> import gtensor as gt
    >>> gt.linalg.eigvalsh(gt.tensor([[0.0, 1.0], [1.0, 0.0]]))
    Tensor([-1.,  1.], dtype=float32)
    """
    return eigh(x).eigenvalues


@rounded_once
def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U @ diag(S) @ Vh with falling S: a namedtuple (U, S, Vh).

    x: (..., m, n). With k = min(m, n): U (..., m, k), S (..., k), Vh (..., k, n); `full_matrices` completes U or Vh
    to a square matrix, whose further columns (rows) have no derivative.

    >>> import gtensor as gt
    >>> gt.linalg.svd(gt.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    Tensor([2., 1.], dtype=float32)
    """
    tensor = matrices(x, "svd")
    u, s, v = _tall_svd(tensor)
    return (
        SVDResult(_completed(u), s, matrix_transpose(_completed(matrix_transpose(v))))
        if full_matrices
        else SVDResult(u, s, v)
    )


def _tall_svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factors of any matrix; those of a wide one are the transposed ones of its transposed."""
    m, n = matrix_sizes(x.type)
    if m < n:
        u, s, v = _tall_svd(matrix_transpose(x))
        return matrix_transpose(v), s, matrix_transpose(u)
    both = apply("svd", x)
    return both[..., :m, :], both[..., m, :], both[..., m + 1 :, :]


def _completed(u: Tensor) -> Tensor:
    """Orthonormal columns completed to a square matrix."""
    m, k = matrix_sizes(u.type)
    return u if m == k else concat([u, apply("qr_basis", u)[..., k:]], -1)


@rounded_once
def svdvals(x: Any, /) -> Tensor:
    """The singular values, falling: `svd` without vectors.

    >>> import gtensor as gt
    >>> gt.linalg.svdvals(gt.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    Tensor([2., 1.], dtype=float32)
    """
    return _tall_svd(matrices(x, "svdvals"))[1]

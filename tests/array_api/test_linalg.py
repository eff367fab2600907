"""The linalg extension of the array API, and the products of its main namespace, against NumPy and by definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import MatrixError
from tests.ways import compiled, eager

from .alike import agrees, draw, evaluate, text_agrees, texts
from .standard import dtypes

PRODUCTS = texts("""
matmul(m, xp.matrix_transpose(m)) | matmul(v, v) | matmul(m, v[:4]) | matmul(w, m) | matmul(t, xp.matrix_transpose(t))
t @ m.T | m @ v[:4] | matmul(t, v[:4]) | matmul(z, y) | matmul(r, m) | matmul(u, t) | matmul(w, t)
matmul(xp.matrix_transpose(k), t) | vecdot(v, v) | vecdot(m, n) | vecdot(m, m, axis=-1) | vecdot(m, k, axis=-2)
vecdot(t, m) | vecdot(z, z) | tensordot(m, n[0, :], axes=1) | tensordot(t, t, axes=3) | tensordot(m, m)
tensordot(v, w, axes=0) | tensordot(t, m, axes=2) | tensordot(t, m, axes=((2,), (1,)))
tensordot(t, t, axes=((0, 2), (0, 2))) | tensordot(t, m, axes=((1, 2), (0, 1))) | tensordot(t, m, axes=((-1,), (-1,)))
tensordot(s, v, axes=0) | tensordot(z, y, axes=((2,), (1,))) | linalg.matmul(m, m.T) | linalg.vecdot(m, n)
linalg.tensordot(m, m) | linalg.matrix_transpose(t) | linalg.outer(v, w) | linalg.cross(w, w + w)
linalg.cross(c, k[:3, :], axis=-2) | linalg.cross(d, w) | linalg.cross(d, d[0, :, :]) | linalg.diagonal(m)
linalg.diagonal(t) | linalg.diagonal(m, offset=1) | linalg.diagonal(t, offset=-1) | linalg.diagonal(m, offset=9)
linalg.trace(m) | linalg.trace(t) | linalg.trace(m, offset=-1) | linalg.trace(t, offset=2) | linalg.trace(r)
linalg.trace(z)
""")

SHAPES = {
    "s": (), "v": (5,), "w": (3,), "m": (3, 4), "n": (1, 4), "k": (3, 4), "c": (3, 1), "t": (2, 3, 4),
    "u": (2, 2, 3), "r": (0, 3), "z": (2, 0, 3), "y": (2, 3, 0), "d": (2, 4, 3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", dtypes("numeric"))
def test_products(dtype):
    """On small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(0)
    operands = {name: rng.integers(0, 5, shape).astype(dtype) for name, shape in SHAPES.items()}
    for text in PRODUCTS:
        text_agrees(text, operands)


def test_products_compiled():
    rng = np.random.default_rng(0)
    given = {
        dtype: {name: rng.integers(0, 5, shape).astype(dtype) for name, shape in SHAPES.items()}
        for dtype in ("float32", "int32")
    }

    def everything(given):
        return {dtype: [evaluate(text, gt, operands) for text in PRODUCTS] for dtype, operands in given.items()}

    wanted = eager(everything, given)
    for dtype, found in compiled(everything, given).items():
        for text, a, b in zip(PRODUCTS, found, wanted[dtype], strict=True):
            agrees(a, b, about=f"{text} of {dtype}")


def test_products_promote():
    for a, b in itertools.product(dtypes("numeric"), repeat=2):
        if np.dtype(a).kind == np.dtype(b).kind:
            x, y = (draw((2, 2), d, awkward=False) for d in (a, b))
            for f in ("matmul", "vecdot", "tensordot"):
                assert getattr(gt, f)(gt.asarray(x), gt.asarray(y)).numpy().dtype == np.result_type(a, b)
            assert gt.linalg.outer(gt.asarray(x[0]), gt.asarray(y[0])).numpy().dtype == np.result_type(a, b)


def test_the_dtype_of_a_trace():
    for dtype in dtypes("numeric"):
        x = draw((3, 3), dtype, awkward=False)
        agrees(gt.linalg.trace(gt.asarray(x)), np.asarray(np.linalg.trace(x)), 1)
        agrees(gt.linalg.trace(gt.asarray(x), dtype=getattr(gt, dtype)), np.asarray(np.linalg.trace(x, dtype=dtype)), 1)


# ---- factors and what follows from them -----------------------------------------------------------------------

BATCHES = [(), (2,), (2, 1), (0,)]
FLOATS = dtypes("floating")


def matrix(shape, dtype, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def definite(shape, dtype):
    x = matrix(shape, np.float64)
    return (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def near(got, wanted, dtype, about=""):
    a, b = np.asarray(got), np.asarray(wanted)
    assert (a.dtype, a.shape) == (np.dtype(dtype), b.shape), about
    bound = 2e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(a, b, rtol=bound, atol=bound, err_msg=about)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_square(batch, dtype):
    for n in (0, 1, 4):
        x, good = matrix((*batch, n, n), dtype) + 2 * np.eye(n, dtype=dtype), definite((*batch, n, n), dtype)
        eye, wide = np.broadcast_to(np.eye(n), x.shape), x.astype(np.float64)
        lower, upper = gt.linalg.cholesky(good), gt.linalg.cholesky(good, upper=True)
        near(lower @ lower.mT, good, dtype)
        near(upper.mT @ upper, good, dtype)
        near(gt.tril(lower), lower, dtype)
        near(gt.triu(upper), upper, dtype)
        near(gt.linalg.det(x), np.linalg.det(wide), dtype)
        near(gt.linalg.inv(x) @ x, eye, dtype)
        sign, logarithm = gt.linalg.slogdet(x)
        near(sign * gt.exp(logarithm), np.linalg.det(wide), dtype)
        values, vectors = gt.linalg.eigh(good)
        near(vectors.mT @ vectors, eye, dtype)
        near((vectors * values[..., None, :]) @ vectors.mT, good, dtype)
        near(gt.linalg.eigvalsh(good), values, dtype)
        for power in (0, 1, 2, 3, -1, -2):
            near(gt.linalg.matrix_power(x, power), np.linalg.matrix_power(wide, power), dtype, f"{power}")
        for right in (
            matrix((n,), dtype),
            matrix((n, 2), dtype),
            matrix((*batch, n, 3), dtype),
            matrix((2, n, 1), dtype),
        ):
            if right.ndim > 2 and batch == (0,) and right.shape[0] == 2:
                continue
            left = x.astype(np.float64)
            wanted = np.linalg.solve(left, right.astype(np.float64))
            near(gt.linalg.solve(x, right), wanted, dtype, f"{x.shape} {right.shape}")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_rectangular(batch, dtype):
    for m, n in ((4, 4), (5, 3), (2, 4), (1, 1)):
        x = matrix((*batch, m, n), dtype)
        k = min(m, n)
        for mode, size in (("reduced", k), ("complete", m)):
            q, r = gt.linalg.qr(x, mode=mode)
            assert (q.shape, r.shape) == ((*batch, m, size), (*batch, size, n))
            near(q.mT @ q, np.broadcast_to(np.eye(size), (*batch, size, size)), dtype)
            near(q @ r, x, dtype)
            near(gt.triu(r), r, dtype)
        for full in (True, False):
            u, s, vh = gt.linalg.svd(x, full_matrices=full)
            assert (u.shape, s.shape, vh.shape) == (
                (*batch, m, m if full else k), (*batch, k), (*batch, n if full else k, n),
            )  # fmt: skip
            near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, dtype)
            near(u.mT @ u, np.broadcast_to(np.eye(u.shape[-1]), (*batch, *u.shape[-1:] * 2)), dtype)
        wide = x.astype(np.float64)
        near(gt.linalg.svdvals(x), np.linalg.svd(wide, compute_uv=False), dtype)
        near(gt.linalg.pinv(x), np.linalg.pinv(wide), dtype)
        near(gt.linalg.pinv(x, rtol=gt.asarray(0.5, dtype=getattr(gt, dtype))), np.linalg.pinv(wide, rcond=0.5), dtype)
        for keepdims, order in itertools.product((False, True), ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)):
            wanted = np.linalg.matrix_norm(wide, ord=order, keepdims=keepdims)
            near(gt.linalg.matrix_norm(x, ord=order, keepdims=keepdims), wanted, dtype, f"{order}")
        rank = gt.linalg.matrix_rank(x)
        agrees(rank, np.asarray(np.linalg.matrix_rank(x)))
        agrees(gt.linalg.matrix_rank(gt.zeros((*batch, m, n))), np.zeros(batch, np.int64))
        agrees(gt.linalg.matrix_rank(x, rtol=gt.full(batch, 2.0)), np.zeros(batch, np.int64))


@pytest.mark.parametrize("dtype", FLOATS)
def test_vector_norm(dtype):
    x = matrix((2, 3, 4), dtype)
    wide = x.astype(np.float64)
    orders = (0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf)
    for order, axis, keepdims in itertools.product(orders, (None, 0, -1, (0, 2), (-1, 1)), (False, True)):
        wanted = np.linalg.vector_norm(wide, axis=axis, ord=order, keepdims=keepdims)
        near(gt.linalg.vector_norm(x, axis=axis, ord=order, keepdims=keepdims), wanted, dtype, f"{order} {axis}")
    for order in (0, 1, 2, 3):
        near(gt.linalg.vector_norm(gt.zeros((0, 2), dtype=getattr(gt, dtype)), axis=0, ord=order), np.zeros(2), dtype)
    near(gt.linalg.vector_norm(gt.asarray(-3.0, dtype=getattr(gt, dtype))), 3.0, dtype)


def test_what_has_no_answer():
    singular = gt.ones((2, 2))
    for attempt in (
        lambda: gt.linalg.inv(singular), lambda: gt.linalg.solve(singular, gt.ones(2)),
        lambda: gt.linalg.cholesky(-singular), lambda: gt.linalg.matrix_power(singular, -1),
    ):  # fmt: skip
        with pytest.raises(MatrixError) as caught:
            attempt()
        assert isinstance(caught.value, np.linalg.LinAlgError)
    assert gt.linalg.det(singular).tolist() == 0 and gt.linalg.slogdet(singular).logabsdet.tolist() == -np.inf

"""gt.linalg against numpy.linalg and scipy.linalg in float64, eager, traced and compiled.

Values and shapes on stacks, wide, tall, empty and 1 x 1 matrices; what has no answer; what is not finite; derivatives
of both orders against differences; batches against a loop. The records behind these functions are also held against
their rules in test_ops.py and test_compiled_ops.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import gtensor as gt
from gtensor import ir, tree
from gtensor.codegen import build
from gtensor.codegen.options import Options
from gtensor.config import get
from gtensor.errors import GradError, MatrixError, OptionError, ShapeError
from tests import lowered
from tests.values import close
from tests.ways import agreed, compiled, eager

la = gt.linalg


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def definite(*shape, seed=0):
    a = normal(*shape, seed=seed)
    return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])


def symmetric(*shape, seed=0):
    a = normal(*shape, seed=seed)
    return a + a.swapaxes(-1, -2)


def mT(a):
    return np.swapaxes(a, -1, -2)


SQUARES = [(1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 1, 3, 3), (0, 3, 3), (0, 0), (2, 0, 0)]
RECTANGLES = [*SQUARES, (5, 3), (3, 5), (2, 6, 1), (2, 1, 6), (4, 0), (0, 4), (2, 3, 7)]
squares = pytest.mark.parametrize("shape", SQUARES, ids=str)
rectangles = pytest.mark.parametrize("shape", RECTANGLES, ids=str)


# ---- values ------------------------------------------------------------------------------------------------


@squares
def test_what_numpy_gives_for_squares(shape):
    a, p, b = normal(*shape), definite(*shape), normal(*shape[:-1], 2, seed=1)

    def every(a, p, b):
        return (
            la.cholesky(p),
            la.solve(a, b),
            la.inv(a),
            la.det(a),
            *la.slogdet(a),
            la.eigvalsh(a),
        )

    found = agreed(every, a, p, b, rtol=1e-9, atol=1e-10)
    wanted = [np.linalg.cholesky(p), np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a)]
    wanted.append(np.linalg.eigvalsh((a + mT(a)) / 2))
    for got, right in zip(found, wanted, strict=True):
        close(got, right, rtol=1e-9, atol=1e-10)


@rectangles
def test_orthogonal_factors_multiply_to_the_matrix(shape):
    a = normal(*shape)
    m, n = shape[-2:]
    k = min(m, n)

    def every(a):
        return la.qr(a), la.qr(a, mode="complete"), la.svd(a, full_matrices=False), la.svd(a), la.svdvals(a)

    thin, whole, small, full, values = agreed(every, a, rtol=1e-8, atol=1e-10)
    assert thin.Q.shape == (*shape[:-1], k) and thin.R.shape == (*shape[:-2], k, n)
    assert whole.Q.shape == (*shape[:-1], m) and whole.R.shape == shape
    assert small.U.shape == (*shape[:-1], k) and small.Vh.shape == (*shape[:-2], k, n)
    assert full.U.shape == (*shape[:-1], m) and full.Vh.shape == (*shape[:-2], n, n)
    for q in (thin.Q, whole.Q, small.U, full.U, mT(small.Vh), mT(full.Vh)):
        close(mT(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])), atol=1e-12)
    for q, r in (thin, whole):
        close(q @ r, a, atol=1e-12)
        close(r, np.triu(r))
    for q, r in ((thin, np.linalg.qr(a)), (whole, np.linalg.qr(a, "complete"))):
        close(q.R, r[1], atol=1e-12)
    close(small.U * small.S[..., None, :] @ small.Vh, a, atol=1e-12)
    close(full.U[..., :k] * full.S[..., None, :] @ full.Vh[..., :k, :], a, atol=1e-12)
    close(values, np.linalg.svd(a, compute_uv=False), atol=1e-12)


@squares
def test_eigenvectors_belong_to_their_values(shape):
    a = symmetric(*shape)
    w, v = agreed(la.eigh, a, rtol=1e-8, atol=1e-10)
    close(v * w[..., None, :] @ mT(v), a, atol=1e-12)
    close(mT(v) @ v, np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-12)
    assert (np.diff(w, axis=-1) >= 0).all()


@rectangles
def test_pseudo_inverse_rank_and_norms(shape):
    a = normal(*shape)
    found = agreed(lambda a: (la.pinv(a), la.matrix_rank(a), la.matrix_norm(a)), a, rtol=1e-8, atol=1e-10)
    close(found[0], np.linalg.pinv(a), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(found[1], np.full(shape[:-2], min(shape[-2:])))
    close(found[2], np.linalg.norm(a, axis=(-2, -1)), rtol=1e-12)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems_read_one_triangle(lower, unit):
    a, b = normal(4, 4) + 3 * np.eye(4), normal(4, 2, seed=1)
    spoiled = np.where(np.tril(np.ones((4, 4)), 0 if lower else -1) == lower, a, np.nan)
    if unit:
        np.fill_diagonal(spoiled, np.nan)
    ways = [{"trans": trans, "lower": lower, "unit_diagonal": unit} for trans in (0, 1, "N", "T")]

    def every(a, b):
        return [la.solve_triangular(a, right, **options) for options in ways for right in (b, b[:, 0])]

    found = agreed(every, spoiled, b, rtol=1e-12)
    wanted = [scipy.linalg.solve_triangular(a, right, **options) for options in ways for right in (b, b[:, 0])]
    for got, right in zip(found, wanted, strict=True):
        close(got, right, rtol=1e-11)


def test_leading_axes_broadcast_and_dtypes_meet():
    a, b = normal(3, 1, 4, 4), normal(2, 4, 5, seed=1)
    close(agreed(la.solve, a, b, rtol=1e-9), np.linalg.solve(a, np.broadcast_to(b, (3, 2, 4, 5))), rtol=1e-9)
    close(agreed(la.solve, a, b[0, :, 0], rtol=1e-9)[..., None], np.linalg.solve(a, b[0, :, :1]), rtol=1e-9)
    assert la.solve(a.astype(np.float32), b).dtype == gt.float64
    assert la.inv([[2, 0], [0, 1]]).dtype == gt.float32


@pytest.mark.parametrize("n", [4, 16, 64, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_grow_as_they_may(n, dtype):
    """Residuals of compiled factors in units of rounding, on matrices of many sizes."""
    a = normal(n, n).astype(dtype)
    p = (a @ a.T / n + np.eye(n, dtype=dtype)).astype(dtype)
    eps = np.finfo(dtype).eps

    def every(a, p):
        return la.cholesky(p), la.solve(a, p), la.qr(a), la.eigh(p), la.svd(a)

    chol, x, (q, r), (w, v), (u, s, vh) = compiled(every, a, p)
    identity, scale = np.eye(n), 10 * n * eps
    for left, right, size in (
        (chol @ chol.T, p, 4.0), (a @ x, p, np.abs(x).max() * 4), (q @ r, a, 4.0), (q.T @ q, identity, 1.0),
        (v * w @ v.T, p, 4.0), (v.T @ v, identity, 1.0), (u * s @ vh, a, 4.0), (u.T @ u, identity, 1.0),
        (vh @ vh.T, identity, 1.0),
    ):  # fmt: skip
        assert np.abs(left - right).max() <= scale * size
    close(s, np.linalg.svd(a.astype(np.float64))[1], rtol=0, atol=scale * s[0])


def test_rank_deficient_equal_and_zero_values():
    """Bases are completed where singular values are 0, whatever the order of rows and columns."""

    def every(a):
        return la.svd(a, full_matrices=False), la.eigh(a @ a.T), la.matrix_rank(a), la.pinv(a)

    outer = np.outer(np.arange(1.0, 6), np.arange(1.0, 6))
    for a in (outer, np.zeros((5, 5)), np.eye(5), np.ones((5, 5)), np.diag([0.0, 2, 0, 2, 1])):
        for way in (eager, compiled):
            (u, s, vh), (w, v), rank, inverse = way(every, a)
            close(u * s @ vh, a, atol=1e-13)
            close(s, np.linalg.svd(a)[1], atol=1e-13)
            close(v * w @ v.T, a @ a.T, rtol=1e-12, atol=1e-12)
            for q in (u, vh, v):
                close(q.T @ q, np.eye(5), atol=1e-13)
            assert rank == np.linalg.matrix_rank(a)
            close(inverse, np.linalg.pinv(a), atol=1e-13)
    for a in (outer[:, :2], np.zeros((4, 2))):
        u, s, vh = compiled(la.svd, a)
        close(u[:, :2] * s @ vh, a, atol=1e-13)
        close(u.T @ u, np.eye(len(u)), atol=1e-13)


def test_tiny_and_huge_elements_neither_vanish_nor_overflow():
    a = normal(4, 4)
    for scale in (1e-200, 1e200):
        s, w, (q, r) = compiled(lambda a: (la.svdvals(a), la.eigvalsh(a), la.qr(a)), a * scale)
        close(s / scale, np.linalg.svd(a)[1], rtol=1e-12)
        close(w / scale, np.linalg.eigvalsh((a + a.T) / 2), rtol=1e-12)
        close(q @ r / scale, a, rtol=1e-12)


# ---- what has no answer, and what is not finite ------------------------------------------------------------

SINGULAR = np.stack([np.eye(3), np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])])
INDEFINITE = np.stack([np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]])])
REFUSED = {
    "inv": (la.inv, SINGULAR, "solve: matrix 1 of the batch is singular"),
    "solve": (lambda a: la.solve(a, gt.ones(3)), SINGULAR, "solve: matrix 1 of the batch is singular"),
    "triangular": (
        lambda a: la.solve_triangular(a, gt.ones(2)),
        np.triu(np.ones((2, 2))) * [0, 1],
        "matrix 0 .* singular",
    ),
    "cholesky": (la.cholesky, INDEFINITE, "cholesky: matrix 1 of the batch is not positive definite"),
    "power": (lambda a: la.matrix_power(a, -2), np.zeros((2, 2)), "is singular"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_matrix_without_an_answer_is_an_error_in_every_way(name):
    fn, a, message = REFUSED[name]
    for way in (eager, compiled):
        with pytest.raises(MatrixError, match=message) as caught:
            way(fn, a)
        assert isinstance(caught.value, np.linalg.LinAlgError)
        assert caught.value.sources and str(caught.value).startswith(caught.value.operation)


def test_a_failing_call_leaves_donated_memory_as_it_was():
    @gt.compile(donate=("state",))
    def step(state, a):
        return state + 1, la.inv(a)

    state = np.zeros(3)
    with pytest.raises(MatrixError):
        step(state, np.zeros((2, 2)))
    assert not state.any()
    new, inverse = step(state, 2 * np.eye(2))
    close(new, np.ones(3))
    close(inverse, np.eye(2) / 2)


def test_singular_determinants():
    sign, logarithm = agreed(la.slogdet, SINGULAR)
    np.testing.assert_array_equal(sign, [1, 0])
    np.testing.assert_array_equal(logarithm, [0, -np.inf])
    close(agreed(la.det, SINGULAR), [1, 0])
    gradient = agreed(gt.grad(lambda a: gt.sum(la.det(a))), SINGULAR)
    close(gradient, [np.eye(3), [[4, 4, -4], [-2, -2, 2], [0, 0, 0]]], atol=1e-14)
    lost = agreed(gt.grad(la.det), np.outer([1.0, 2, 3], [1.0, 1, 2]))  # rank 1: all minors are 0
    close(lost, np.zeros((3, 3)), atol=1e-14)


ON_SQUARES = {
    "cholesky": la.cholesky, "inv": la.inv, "det": la.det, "slogdet": la.slogdet, "qr": la.qr, "eigh": la.eigh,
    "svd": la.svd, "pinv": la.pinv, "expm": la.expm, "norm": la.norm,
}  # fmt: skip


TRIANGLES = {("cholesky", 0): np.tril, ("qr", 1): np.triu}
"""Results that are triangles, also where they are NaN."""


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ON_SQUARES)
def test_what_is_not_finite_gives_nan_and_spoils_no_other_matrix(name, value):
    a = np.stack([np.eye(3), 2 * np.eye(3), 3 * np.eye(3)])
    a[1, 2, 1] = a[1, 1, 2] = value
    fn = (lambda a: la.norm(a, axis=(1, 2))) if name == "norm" else ON_SQUARES[name]
    for i, leaf in enumerate(tree.flatten(agreed(fn, a))[0]):
        assert np.isfinite(leaf[[0, 2]]).all()
        norm_of_infinity = name == "norm" and np.isinf(value)
        wanted = np.full_like(leaf[1], np.inf if norm_of_infinity else np.nan)
        np.testing.assert_array_equal(leaf[1], TRIANGLES.get((name, i), np.asarray)(wanted))


def test_a_right_side_that_is_not_finite_spoils_its_column():
    b = np.ones((3, 3))
    b[1, 1] = np.inf
    for fn in (la.solve, la.solve_triangular):
        x = agreed(fn, normal(3, 3), b, rtol=1e-10)
        assert np.isnan(x[:, 1]).all() and np.isfinite(x[:, [0, 2]]).all()


# ---- derivatives -------------------------------------------------------------------------------------------


def spread(*shape, seed=0):
    """Singular values 1, 2, … ."""
    u, _, v = np.linalg.svd(normal(*shape, seed=seed), full_matrices=False)
    return u * np.arange(1.0, u.shape[-1] + 1) @ v


B = normal(3, 2, seed=3)
DIFFERENTIATED = {
    "cholesky": (la.cholesky, definite(3, 3)),
    "cholesky upper": (lambda a: la.cholesky(a, upper=True), definite(2, 2, 2)),
    "solve": (lambda a: la.solve(a, B), spread(3, 3)),
    "solve b": (lambda b: la.solve(spread(3, 3), b), B),
    "solve vector": (lambda a: la.solve(a, B[:, 0]), spread(2, 3, 3)),
    "triangular": (lambda a: la.solve_triangular(a, B, trans=1, lower=True), definite(3, 3)),
    "triangular b": (lambda b: la.solve_triangular(definite(3, 3), b, unit_diagonal=True), B),
    "inv": (la.inv, spread(2, 3, 3)),
    "det": (la.det, spread(2, 3, 3)),
    "slogdet": (la.slogdet, spread(3, 3)),
    "qr": (la.qr, spread(3, 3)),
    "qr tall": (la.qr, spread(4, 2)),
    "qr wide": (la.qr, spread(2, 4)),
    "qr r": (lambda a: la.qr(a, mode="complete").R, spread(4, 2)),
    "eigh": (la.eigh, definite(2, 3, 3)),
    "eigvalsh": (la.eigvalsh, symmetric(4, 4)),
    "svd": (la.svd, spread(3, 3)),
    "svd tall": (lambda a: la.svd(a, full_matrices=False), spread(4, 2)),
    "svd wide": (lambda a: la.svd(a, full_matrices=False), spread(2, 2, 3)),
    "svdvals": (la.svdvals, spread(2, 4)),
    "pinv tall": (la.pinv, spread(4, 2)),
    "pinv wide": (la.pinv, spread(2, 2, 3)),
    "lstsq": (lambda a: la.lstsq(a, normal(4, 2))[:2], spread(4, 3)),
    "matrix power": (lambda a: la.matrix_power(a, 3), spread(3, 3)),
    "inverse power": (lambda a: la.matrix_power(a, -2), spread(2, 2)),
    "expm": (la.expm, 0.7 * normal(3, 3)),
    "expm of much": (la.expm, symmetric(2, 2) * 3),
    "fro": (la.matrix_norm, normal(2, 3, 2)),
    "nuc": (lambda a: la.matrix_norm(a, ord="nuc"), spread(3, 2)),
    "largest": (lambda a: la.matrix_norm(a, ord=2), spread(3, 2)),
    "smallest": (lambda a: la.matrix_norm(a, ord=-2), spread(3, 2)),
    "columns": (lambda a: la.matrix_norm(a, ord=1), normal(3, 2)),
    "rows": (lambda a: la.matrix_norm(a, ord=-np.inf), normal(3, 2)),
    "3-norm": (lambda a: la.vector_norm(a, axis=1, ord=3), normal(2, 4)),
    "half-norm": (lambda a: la.vector_norm(a, ord=0.5), normal(4)),
    "-2-norm": (lambda a: la.vector_norm(a, ord=-2), normal(4) + 3),
    "cross": (lambda a: la.cross(a, normal(3)), normal(2, 3)),
    "trace": (lambda a: la.trace(la.matmul(a, a), offset=1), normal(3, 3)),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives_of_both_orders(name):
    fn, a = DIFFERENTIATED[name]
    gt.check_grads(fn, (a,), order=2, rtol=1e-6)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_compiled_derivatives_are_the_evaluated_ones(name):
    fn, a = DIFFERENTIATED[name]

    def loss(a):
        return sum(gt.sum(gt.sin(part)) for part in tree.flatten(fn(a))[0])

    agreed(gt.grad(loss), a, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["cholesky", "solve", "det", "eigh", "svd wide"])
def test_compiled_second_derivatives_are_the_evaluated_ones(name):
    fn, a = DIFFERENTIATED[name]

    def slope(a):
        return gt.sum(gt.grad(lambda a: sum(gt.sum(gt.sin(part)) for part in tree.flatten(fn(a))[0]))(a) ** 2)

    agreed(gt.grad(slope), a, rtol=1e-7, atol=1e-8)


def test_gradients_of_symmetric_operands_are_symmetric():
    a = definite(4, 4)
    for fn in (la.cholesky, la.eigvalsh, lambda a: la.eigh(a).eigenvectors):
        g = gt.grad(lambda a, fn=fn: gt.sum(gt.cos(fn(a))))(a).numpy()
        close(g, g.T, atol=1e-12)


def test_equal_values_have_finite_and_right_derivatives():
    """Of results that do not depend on the basis: a function of a symmetric matrix, and sums of values."""
    a = np.diag([1.0, 2.0, 2.0])

    def root(a):
        w, v = la.eigh(a)
        return gt.sum((v * gt.sqrt(w)) @ la.matrix_transpose(v) * normal(3, 3))

    close(gt.grad(lambda a: gt.sum(la.eigvalsh(a)))(a), np.eye(3), atol=1e-14)
    close(gt.grad(lambda a: gt.sum(la.svdvals(a)))(np.eye(3)), np.eye(3), atol=1e-14)
    close(gt.grad(lambda a: la.matrix_norm(a, ord="nuc"))(np.zeros((2, 2))), np.eye(2), atol=1e-14)
    assert np.isfinite(gt.grad(root)(a).numpy()).all()


def test_the_pseudo_inverse_has_a_derivative_at_lower_rank():
    at, along = np.outer([1.0, 2, 2], [2.0, 1]), np.outer([1.0, 0, 1], [2.0, 1])  # along keeps the rank
    weights, step = normal(2, 3), 1e-4

    def fn(a):
        return gt.sum(la.pinv(a, rtol=1e-10) * weights)

    slope = (fn(at + step * along).item() - fn(at - step * along).item()) / (2 * step)
    close(gt.sum(gt.grad(fn)(at) * along), slope, rtol=1e-7)


def test_norms_at_zero_have_gradient_zero():
    for ord in (1, 2, 3, 0.5, np.inf):
        assert not gt.grad(lambda x, ord=ord: la.vector_norm(x, ord=ord))(np.zeros(3)).numpy().any()
    assert not gt.grad(la.matrix_norm)(np.zeros((2, 2))).numpy().any()


def test_what_has_no_derivative_says_so():
    with pytest.raises(GradError, match="qr_basis has no derivative"):
        gt.grad(lambda a: gt.sum(la.qr(a, mode="complete").Q))(normal(3, 2))
    with pytest.raises(MatrixError, match="singular"):
        gt.grad(lambda a: gt.sum(la.qr(a).Q))(np.zeros((2, 2)))


# ---- norms, powers, parts ----------------------------------------------------------------------------------


VECTOR_ORDS = (0, 1, 2, 3, 0.5, -1, -2.5, np.inf, -np.inf)
MATRIX_ORDS = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


@pytest.mark.parametrize("keepdims", [False, True])
def test_vector_norms(keepdims):
    x = normal(3, 4)
    x[0, 1] = 0
    ways = [(ord, axis) for ord in VECTOR_ORDS for axis in (0, -1)]

    def every(x):
        along = [la.norm(x, ord, axis, keepdims) for ord, axis in ways]
        return along, [la.vector_norm(x, axis=(0, 1), ord=ord, keepdims=keepdims) for ord in VECTOR_ORDS]

    along, whole = agreed(every, x, rtol=1e-12)
    with np.errstate(divide="ignore"):
        for got, (ord, axis) in zip(along, ways, strict=True):
            close(got, np.linalg.norm(x, ord, axis, keepdims), rtol=1e-12)
        for got, ord in zip(whole, VECTOR_ORDS, strict=True):
            close(got, np.linalg.norm(x.ravel(), ord).reshape((1, 1) if keepdims else ()), rtol=1e-12)


@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms(keepdims):
    x = normal(3, 4, 2)
    ways = [(ord, axis) for ord in MATRIX_ORDS for axis in ((0, 1), (2, 0), (-1, -2))]
    found = agreed(lambda x: [la.norm(x, ord, axis, keepdims) for ord, axis in ways], x, rtol=1e-12)
    for got, (ord, axis) in zip(found, ways, strict=True):
        close(got, np.linalg.norm(x, ord, axis, keepdims), rtol=1e-12)
    for ord in MATRIX_ORDS:
        wanted = np.linalg.norm(x, ord, (-2, -1), keepdims)
        close(la.matrix_norm(x, ord=ord, keepdims=keepdims), wanted, rtol=1e-12)
        close(la.norm(x[0], ord, keepdims=keepdims), wanted[0], rtol=1e-12)


def test_norms_of_special_values():
    ords = (0, 1, 2, 3, -1, np.inf, -np.inf)
    for x in ([np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0], [-0.0, 2.0], [1e-300, 1e-300]):
        found = agreed(lambda x: [la.vector_norm(x, ord=ord) for ord in ords], np.array(x))
        for got, ord in zip(found, ords, strict=True):
            with np.errstate(all="ignore"):
                wanted = np.linalg.norm(np.array(x), ord)
            if x[0] == 1e-300 and ord == 3:
                wanted = 2 ** (1 / 3) * 1e-300  # where NumPy's powers vanish
            close(got, wanted, rtol=1e-12)
    assert la.vector_norm(np.zeros(0)).item() == la.vector_norm(np.zeros(0), ord=3).item() == 0
    with pytest.raises(ShapeError):
        la.norm(normal(2, 2, 2), "fro")
    with pytest.raises(ShapeError):
        la.norm(normal(2, 2), axis=(1, 1))
    for wrong in ("fro", np.nan, None):
        with pytest.raises(OptionError):
            la.vector_norm([1.0], ord=wrong)
    with pytest.raises(OptionError):
        la.matrix_norm(np.eye(2), ord=3)


def test_matrix_power():
    a, powers = spread(2, 3, 3), (-3, -1, 0, 1, 2, 5, 8)
    found = agreed(lambda a: [la.matrix_power(a, n) for n in powers], a, rtol=1e-9)
    for got, n in zip(found, powers, strict=True):
        close(got, np.linalg.matrix_power(a, n), rtol=1e-9)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0, 1000.0])
def test_expm(scale):
    a = np.stack([normal(4, 4), -definite(4, 4), normal(4, 4) - mT(normal(4, 4))]) * scale
    a = np.where(np.arange(3)[:, None, None] == 0, np.clip(a, -8, 8), a)
    found = agreed(la.expm, a, rtol=1e-7, atol=1e-9)
    close(found, scipy.linalg.expm(a), rtol=1e-8, atol=1e-9)
    for n in (0, 1):
        close(la.expm(np.full((n, n), 2.0)), np.full((n, n), np.exp(2)), rtol=1e-14)
    assert np.isnan(la.expm(np.full((2, 2), 1e9)).numpy()).all()


def test_cond():
    a, ways = spread(2, 3, 3), (None, 2, -2, 1, np.inf, "fro")
    found = agreed(lambda a: [la.cond(a, p) for p in ways], a)
    for got, p in zip(found, ways, strict=True):
        close(got, np.linalg.cond(a, p), rtol=1e-9)


def test_lstsq():
    for a, b in ((normal(5, 3), normal(5, 2)), (normal(3, 5), normal(3)), (np.outer(normal(4), normal(2)), normal(4))):
        found = agreed(la.lstsq, a, b, rtol=1e-8, atol=1e-9)
        x, residuals, rank, s = np.linalg.lstsq(a, b)
        close(found.x, x, rtol=1e-8, atol=1e-10)
        close(found.s, s, rtol=1e-8, atol=1e-13)
        assert found.rank == rank
        if residuals.size:
            close(found.residuals, residuals, rtol=1e-8)
    with pytest.raises(ShapeError):
        la.lstsq(normal(3, 2), normal(2))


def test_cross_diagonal_and_trace():
    a, b = normal(2, 3, 4), normal(3, 4, seed=1)
    close(agreed(lambda a, b: la.cross(a, b, axis=-2), a, b), np.cross(a, b[None], axis=-2), rtol=1e-14)
    with pytest.raises(ShapeError):
        la.cross(np.ones(2), np.ones(2))
    offsets = (-4, -1, 0, 1, 3, 9)
    for shape in ((3, 4), (2, 4, 3), (0, 3), (2, 1, 1)):
        x = normal(*shape)
        found = agreed(lambda x: [(la.diagonal(x, offset=k), la.trace(x, offset=k)) for k in offsets], x)
        for (line, total), k in zip(found, offsets, strict=True):
            close(line, np.diagonal(x, k, -2, -1))
            close(total, np.trace(x, k, -2, -1), rtol=1e-12)
    assert la.trace(np.ones((2, 2), np.uint8)).dtype == gt.uint64
    assert la.trace(np.ones((2, 2), np.float32), dtype=gt.float64).dtype == gt.float64


def test_what_is_no_matrix_is_refused():
    for fn in (la.cholesky, la.inv, la.det, la.slogdet, la.eigh, la.expm):
        for wrong in (normal(3), normal(2, 3)):
            with pytest.raises(ShapeError, match="square"):
                fn(wrong)
    for wrong in (normal(2), np.float64(1)):
        with pytest.raises(ShapeError):
            la.solve(np.eye(3), wrong)
    for call in (lambda: la.qr(np.eye(2), mode="full"), lambda: la.solve_triangular(np.eye(2), np.ones(2), trans="C")):
        with pytest.raises(OptionError):
            call()
    with pytest.raises(OptionError):
        la.matrix_power(np.eye(2), 0.5)


# ---- larger programs ---------------------------------------------------------------------------------------


def test_a_run_time_batch_runs_through():
    fn = gt.compile(lambda a, b: (la.solve(a, b), la.det(a), la.svdvals(a)))
    step = fn.trace(
        gt.spec(("B", 3, 3), max={"B": 8}, dtype="float64"), gt.spec(("B", 3, 1), max={"B": 8}, dtype="float64")
    )
    made = step.lower().compile()
    for size in (0, 1, 5, 8):
        a, b = normal(size, 3, 3), normal(size, 3, 1)
        for got, right in zip(made(a, b), (np.linalg.solve(a, b), np.linalg.det(a), np.linalg.svd(a)[1]), strict=True):
            close(got, right, rtol=1e-9)
    with pytest.raises(ShapeError, match="constant sizes"):
        gt.trace(la.svdvals, gt.spec(("N", 3), max={"N": 4}))


def test_inside_a_scan_and_its_derivative():
    """A Riccati recursion: solves in a loop, whose carry and rows are operands of routines."""
    a, q = 0.5 * normal(3, 3), definite(4, 3, 3)

    def loss(a, q):
        def body(p, row):
            gain = la.solve(p + gt.eye(3, dtype=gt.float64), p @ a)
            new = row + la.matrix_transpose(a) @ gain
            return new, la.slogdet(new).logabsdet

        last, logs = gt.scan(body, gt.eye(3, dtype=gt.float64), q)
        return gt.sum(logs) + la.trace(last)

    gt.check_grads(loss, (a, q), rtol=1e-6)
    agreed(lambda a, q: gt.value_and_grad(loss, (0, 1))(a, q), a, q, rtol=1e-9, atol=1e-10)


def test_the_portable_variant_computes_the_same():
    a = definite(4, 4)

    def every(a):
        return la.cholesky(a), la.inv(a), *la.eigh(a), *la.svd(a), *la.qr(a)

    trace, program, _ = lowered.compiled(every, a)
    options = Options(cache=get("cache"), variant="portable")
    found = build.build(program, f"{ir.text(trace.graph, sources=False)} portable", options).call([a])
    for got, right in zip(found, eager(every, a), strict=True):
        close(got, right, rtol=1e-9, atol=1e-11)


def test_a_kernel_says_what_it_calls():
    step = gt.compile(la.inv)
    step(np.eye(3))
    assert "gt_solve_f64(1, 3, 3, " in step.c_source
    assert '#include "gt_solve.h"' in step.c_source
    (kernel,) = (k for k in step.kernels if k.kind == "routine")
    assert kernel.flops > 0 and "gt_solve" in str(kernel)

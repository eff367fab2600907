"""ops/shorthands.py and PyTorch's methods and names: the expressions they stand for, gradients, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ShapeError, TraceError
from tests.values import check_derivatives, close, same
from tests.ways import agreed

RNG = np.random.default_rng(3)
X, Y, W = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4)), RNG.uniform(0.1, 0.9, (3, 4))
A, B = RNG.standard_normal((2, 3, 5)), RNG.standard_normal((2, 5, 4))

EXPRESSIONS = {
    "addcdiv": (lambda x, y: gt.addcdiv(x, y, y * y + 1, value=0.5), X + 0.5 * Y / (Y * Y + 1)),
    "addcmul": (lambda x, y: gt.addcmul(x, y, y, value=2), X + 2 * Y * Y),
    "addmm": (lambda x, y: gt.addmm(x, A, B, beta=0.5, alpha=2), 0.5 * X + 2 * (A @ B)),
    "bucketize": (lambda x, y: gt.bucketize(x, [-1.0, 0.0, 1.0]), np.searchsorted([-1.0, 0.0, 1.0], X)),
    "diag_embed": (lambda x, y: gt.diag_embed(x, 1), np.stack([np.diag(row, 1) for row in X])),
    "diag_embed below": (lambda x, y: gt.diag_embed(x, -2), np.stack([np.diag(row, -2) for row in X])),
    "frac": (lambda x, y: gt.frac(x), X - np.trunc(X)),
    "index_select": (lambda x, y: gt.index_select(x, 1, [3, 0, -1]), X[:, [3, 0, -1]]),
    "index_select of one": (lambda x, y: gt.index_select(x, 0, 2), X[2:]),
    "lerp": (lambda x, y: gt.lerp(x, y, W), X + W * (Y - X)),
    "masked_fill": (lambda x, y: gt.masked_fill(x, y > 0, 7), np.where(Y > 0, 7, X)),
    "narrow": (lambda x, y: gt.narrow(x, 1, 1, 2), X[:, 1:3]),
    "narrow from the end": (lambda x, y: gt.narrow(x, -2, -2, 2), X[1:]),
    "unflatten": (lambda x, y: gt.unflatten(x, 1, (-1, 2)), X.reshape(3, 2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_shorthands_are_their_expressions(name):
    ours, wanted = EXPRESSIONS[name]
    found = agreed(ours, X, Y, rtol=1e-12)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    close(found, wanted, rtol=1e-12)
    if found.dtype.kind == "f":
        check_derivatives(lambda x: ours(x, Y), X)


def test_dtypes_are_those_of_what_is_filled():
    assert gt.masked_fill(np.array([1, 2], np.int32), [True, False], 7.9).tolist() == [7, 2]
    assert gt.masked_fill(gt.ones(2), True, 3).dtype == gt.float32
    assert gt.lerp(gt.ones(2), gt.zeros(2), 0.5).dtype == gt.float32
    assert gt.addmm(gt.ones(2), gt.ones((1, 3)), gt.ones((3, 2)), alpha=2).dtype == gt.float32


def test_what_is_filled_contributes_nothing():
    slope = gt.grad(lambda x: gt.sum(gt.masked_fill(gt.log(x), x <= 0, 0.0)))(np.array([-1.0, 0.0, 2.0]))
    assert slope.tolist() == [0, 0, 0.5]


def test_lerp_ends_exactly():
    x, y = np.float32([1e8, -3.0]), np.float32([1.0, 0.1])
    same(agreed(lambda x, y: gt.lerp(x, y, 1.0), x, y), y)
    same(agreed(lambda x, y: gt.lerp(x, y, 0.0), x, y), x)


def test_a_beta_of_0_leaves_the_first_operand_out():
    close(gt.addmm(np.full((3, 4), math.nan), A, B, beta=0), A @ B)


def test_both_sides_of_a_boundary():
    x, edges = np.array([1.0, 2.0, 2.5]), [1.0, 2.0]
    assert agreed(lambda x: gt.bucketize(x, edges), x).tolist() == [0, 1, 2]
    assert agreed(lambda x: gt.bucketize(x, edges, right=True), x).tolist() == [1, 2, 2]


REFUSED = {
    "an index that is a matrix": (lambda: gt.index_select(X, 0, [[0]]), ShapeError),
    "an index out of range": (lambda: gt.index_select(X, 0, [3]), IndexError),
    "a place outside": (lambda: gt.narrow(X, 0, 4, 0), ShapeError),
    "a length that is too large": (lambda: gt.narrow(X, 0, 2, 2), ShapeError),
    "a negative length": (lambda: gt.narrow(X, 0, 2, -1), ShapeError),
    "sizes that do not divide": (lambda: gt.unflatten(X, 1, (3, -1)), ShapeError),
    "rows of a number": (lambda: gt.diag_embed(1.0), ShapeError),
    "matrices that do not fit": (lambda: gt.addmm(X, A, A), ShapeError),
    "a stack transposed": (lambda: gt.tensor(A).t(), ShapeError),
    "a new axis of unknown extent": (lambda: gt.tensor(X).expand(-1, 3, 4), ShapeError),
    "another device": (lambda: gt.tensor(X).to("cuda"), OptionError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    attempt, error = REFUSED[name]
    with pytest.raises(error) as info:
        attempt()
    assert "test_shorthands.py" in str(info.value) or name == "an index out of range"


INTS = np.arange(12).reshape(3, 4)

METHODS = {
    "atan2": (lambda x: x.atan2(2.0), np.arctan2(X, 2.0)),
    "bool": (lambda x: x.bool(), X != 0),
    "clamp_max": (lambda x: x.clamp_max(0.5), np.minimum(X, 0.5)),
    "clamp_min": (lambda x: x.clamp_min(0.5), np.maximum(X, 0.5)),
    "clone": (lambda x: x.clone(), X),
    "contiguous": (lambda x: x.T.contiguous(), X.T),
    "count_nonzero": (lambda x: x.relu().count_nonzero(1), (X > 0).sum(1)),
    "cpu": (lambda x: x.cpu(), X),
    "diff": (lambda x: x.diff(axis=0), np.diff(X, axis=0)),
    "double": (lambda x: x.float().double(), X.astype(np.float32).astype(np.float64)),
    "eq": (lambda x: x.eq(x.flip(0)), X[::-1] == X),
    "erfc": (lambda x: x.erfc(), np.vectorize(math.erfc)(X)),
    "exp2": (lambda x: x.exp2(), np.exp2(X)),
    "expand": (lambda x: x.expand(2, -1, 4), np.broadcast_to(X, (2, 3, 4))),
    "expand a tuple": (lambda x: x[:, :1].expand((-1, 5)), np.broadcast_to(X[:, :1], (3, 5))),
    "expand_as": (lambda x: x[0].expand_as(x), np.broadcast_to(X[0], (3, 4))),
    "float": (lambda x: x.float(), X.astype(np.float32)),
    "ge": (lambda x: x.ge(0.1), X >= 0.1),
    "gt": (lambda x: x.gt(0.1), X > 0.1),
    "index_add": (lambda x: x.index_add(0, [1, 1], x[:2]), X + np.array([[0], [1], [0]]) * (X[0] + X[1])),
    "index_select": (lambda x: x.index_select(1, [2, 0]), X[:, [2, 0]]),
    "int": (lambda x: x.int(), X.astype(np.int32)),
    "le": (lambda x: x.le(0.1), X <= 0.1),
    "lerp": (lambda x: x.lerp(1.0, 0.25), X + 0.25 * (1 - X)),
    "log10": (lambda x: x.abs().log10(), np.log10(np.abs(X))),
    "log2": (lambda x: x.abs().log2(), np.log2(np.abs(X))),
    "long": (lambda x: x.long(), X.astype(np.int64)),
    "lt": (lambda x: x.lt(0.1), X < 0.1),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 0), np.where(X > 0, 0, X)),
    "mm": (lambda x: x.mm(x.T), X @ X.T),
    "mv": (lambda x: x.mv(x[0]), X @ X[0]),
    "movedim": (lambda x: x[None].movedim(0, -1), X[..., None]),
    "nan_to_num": (lambda x: (x / 0).nan_to_num(0.0, 1.0, -1.0), np.sign(X)),
    "narrow": (lambda x: x.narrow(1, 0, 2), X[:, :2]),
    "ne": (lambda x: x.ne(x.flip(0)), X[::-1] != X),
    "neg": (lambda x: x.neg(), -X),
    "outer": (lambda x: x[0].outer(x[1]), np.outer(X[0], X[1])),
    "reciprocal": (lambda x: x.reciprocal(), 1 / X),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), np.repeat(X, 2, 1)),
    "reshape_as": (lambda x: x.reshape_as(x.T), X.reshape(4, 3)),
    "scatter": (lambda x: x.scatter(1, [[0], [1], [2]], x[:, 3:]), np.where(np.eye(3, 4) > 0, X[:, 3:], X)),
    "t": (lambda x: x.t(), X.T),
    "t of a vector": (lambda x: x[0].t(), X[0]),
    "tan": (lambda x: x.tan(), np.tan(X)),
    "to": (lambda x: x.to(gt.float32).to("float64").to("cpu"), X.astype(np.float32).astype(np.float64)),
    "unbind": (lambda x: x.unbind(1)[2], X[:, 2]),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)), X.reshape(3, 2, 2)),
    "view_as": (lambda x: x.view_as(x.T), X.reshape(4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    ours, wanted = METHODS[name]
    found = agreed(ours, X, rtol=1e-12)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    close(found, wanted, rtol=1e-12)


def test_sizes_and_types_by_pytorchs_names():
    x = gt.tensor(X)
    assert (x.numel(), x.dim()) == (12, 2)
    assert gt.tensor(A).bmm(B).tolist() == (gt.tensor(A) @ B).tolist()
    assert gt.trace(lambda x: gt.zeros(x.numel() + x.dim()), gt.spec((3, 4))).outputs[0].type.shape == (14,)


def test_a_tensor_has_no_data_of_its_own_to_change():
    with pytest.raises(TraceError, match="no numbers yet"):
        gt.trace(lambda x: x.double().item() * x, gt.spec(()))


def test_identities():
    x = gt.tensor(X)
    assert gt.positive(x) is x and x.clone() is x
    same(agreed(gt.positive, X), X)


def test_eager_names_of_sets():
    x = np.array([3, 1, 3, 2])
    assert gt.unique(x).tolist() == [1, 2, 3]
    assert [a.tolist() for a in gt.unique_counts(x)] == [[1, 2, 3], [1, 1, 2]]
    assert [a.tolist() for a in gt.unique_inverse(x)] == [[1, 2, 3], [2, 0, 2, 1]]

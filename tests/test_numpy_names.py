"""Functions composed of others against NumPy: values, shapes and dtypes over dtypes, 0-d and empty arrays, and axes.

`SAME` runs one text on `gt` and on NumPy. Results have NumPy's dtype but where gtensor's default is another: integers
become float32 where NumPy makes them float64.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.tensor import as_tensor

RNG = np.random.default_rng(11)
DTYPES = ["float32", "float64", "int32", "int64", "uint8", "bool"]


def draw(shape, dtype, low=-4, high=5):
    return RNG.integers(0 if dtype == "uint8" else low, high, shape).astype(dtype)


SHAPES = {"v": (5,), "m": (3, 4), "t": (2, 3, 4), "s": (), "e": (0,), "r": (0, 3), "q": (3, 3), "w": (3,), "o": (1, 4)}
"""Operands by letter: a vector, a matrix, a tensor, a scalar, nothing, nothing in rows, a square, 3 elements, a row."""

SAME = """
diag(v) | diag(v, 2) | diag(v, -1) | diag(m) | diag(m, 1) | diag(m, -2) | diag(m, 9) | diag(e) | diag(r) | diagflat(m, 1)
diagflat(s) | diagonal(m) | diagonal(t) | diagonal(t, 1, 2, 0) | diagonal(t, -1, axis1=-1, axis2=1) | diagonal(r)
tril(m) | tril(m, 1) | tril(m, -2) | tril(t, k=9) | triu(m) | triu(m, 1) | triu(t, -1) | triu(r) | vander(v) | vander(v, 2)
vander(v, 3, increasing=True) | vander(v, 0) | vander(e)
fliplr(m) | flipud(t) | rot90(m) | rot90(m, 2) | rot90(m, -1) | rot90(t, 3, (2, 0)) | rot90(t, 4) | ravel(t) | ravel(s)
atleast_1d(s) | atleast_2d(v) | atleast_2d(s) | atleast_3d(m) | atleast_3d(s) | atleast_3d(v) | atleast_1d(s, v, m)
broadcast_arrays(v[:4], m, s) | moveaxis(t, (0, 1), (-1, 0)) | moveaxis(t, [2], [0]) | expand_dims(m, (0, -1))
repeat(m, 2) | repeat(m, 2, 1) | repeat(m, 0, 0) | repeat(v, [0, 1, 2, 0, 3]) | repeat(m, [2, 0, 1], axis=0) | repeat(s, 3)
repeat(v, [2]) | repeat(e, 3) | tile(v, 2) | tile(m, (2, 1, 3)) | tile(t, (2,)) | tile(s, (2, 2)) | tile(m, 0) | tile(r, (2, 2))
roll(v, 2) | roll(v, -7) | roll(m, 1) | roll(m, 1, 0) | roll(m, (1, -2), (0, 1)) | roll(t, 2, axis=(0, 2)) | roll(e, 3)
roll(m, (1, 2), 1) | roll(s, 1)
vstack([v, v]) | vstack([m, m]) | vstack([s, s]) | hstack([v, w]) | hstack([m, m]) | hstack([s, s]) | dstack([v, v])
dstack([m, m]) | dstack([t, t]) | column_stack([v, v]) | column_stack([w, m]) | append(v, w) | append(m, m, 0) | append(m, v)
append(m, m, axis=1) | block([[m, m], [m, m]]) | block([v, w]) | block(m) | block([[q, q[:, :1]], [q[:1], 1]]) | block([[v], [v]])
split(m, 2, 1) | split(m, [1, 2], 1) | split(v, [2, 9]) | split(v, [3, 1]) | array_split(v, 3) | array_split(m, 3, axis=1)
array_split(v, 9) | hsplit(v, [2]) | hsplit(m, 2) | vsplit(m, 3) | dsplit(t, 2) | split(r, 1, 1) | array_split(e, 2)
pad(v, 2, mode="edge") | pad(v, (3, 1), mode="reflect") | pad(v, 7, mode="reflect") | pad(v, 11, mode="symmetric")
pad(v, (0, 12), mode="wrap") | pad(v, (9, 4), mode="wrap") | pad(m, ((1, 2), (3, 0)), mode="symmetric") | pad(t, 2, "edge")
pad(v[:1], 3, mode="reflect") | pad(m, 0, mode="wrap") | pad(m, 1, constant_values=1) | pad(s, 0, mode="edge") | pad(r, ((0, 0), (1, 1)), "wrap")
insert(v, 1, 3) | insert(v, [1, 3], [1, 0]) | insert(m, 1, w, axis=1) | insert(m, -1, v[:4], 0) | insert(m, 5, 1) | insert(v, [2], w)
insert(m, [1], [[1], [0], [1]], axis=1) | insert(v, slice(1, 4), 1) | insert(v, [0, 0, 5], w) | insert(v, [], 1) | insert(e, 0, 1)
insert(m, 1, [[1, 0, 1], [0, 1, 1]], axis=1) | insert(v, np.array([True, False, False, True, False]), 0)
delete(v, 1) | delete(v, [0, -1]) | delete(m, 1, 1) | delete(m, slice(None, None, 2), axis=1) | delete(m, 3) | delete(v, [])
delete(v, np.array([True, False, False, True, False])) | delete(t, [0, 0], 2)
nansum(m) | nansum(m, 1) | nanprod(m, 0) | nanmax(m) | nanmin(m, 1) | nanmax(t, (0, 2)) | nansum(e)
count_nonzero(m) | count_nonzero(t, 1) | count_nonzero(t, (0, 2), keepdims=True) | count_nonzero(e) | count_nonzero(s)
array_equal(m, m) | array_equal(m, v) | array_equal(m, 1 - m) | isclose(m, m[0]) | allclose(m, m) | allclose(m, 1 - m) | isclose(e, s)
kron(v, w) | kron(m, v) | kron(v, t) | kron(s, m) | kron(r, v)
where(m > 1, m, 0) | select([m > 1, m > 0], [m, 2 * m], 1) | select([m > 1, v[:4] > 0], [m, s])
nonzero(m) | nonzero(t) | nonzero(e) | argwhere(m) | argwhere(s) | flatnonzero(m) | unique_all(m) | unique_counts(t) | unique_inverse(v)
unique_values(s) | unique_values(e) | unique_all(s)
digitize(v, [-2, 0, 3]) | digitize(m, [-2, 0, 3], right=True) | digitize(m, [3, 0, -2]) | digitize(m, [3, 0, -2], True) | digitize(m, [1]) | digitize(v, [])
average(m) | average(m, 1)
average(m, 0, [1.0, 2.0, 3.0]) | average(m, axis=1, weights=[1, 2, 3, 4], returned=True) | average(m, weights=m + 9, keepdims=True) | average(t, (0, 2), returned=True)
nanmean(m) | nanmean(t, (0, 1)) | nanvar(m, 1) | nanstd(m, 0) | nanmean(m, 1, keepdims=True)
"""  # noqa: E501

NUMBERS = """
cross(w, w[::-1]) | cross(q, w) | cross(m, m, axis=0) | cross(t, t[:1], axis=1) | polyval(v, m) | polyval(v, s) | polyval(v[:1], m)
polyval(e, m) | convolve(v, w) | convolve(w, v, "same") | convolve(v, w, "valid") | convolve(v, v[:2], "same") | convolve(v[:2], v, "same")
correlate(v, w) | correlate(w, v) | correlate(v, w, "full") | correlate(v, w, "same") | correlate(v[:2], v, "same") | correlate(v[:4], w, "same")
correlate(w, v, "full") | convolve(v, v, "valid") | convolve(v[:1], v[:1])
gradient(v) | gradient(m) | gradient(m, axis=1) | gradient(m, 2.0, axis=0) | gradient(t, 1.0, 2.0, 0.5) | gradient(v, edge_order=2)
gradient(m, axis=(1, 0)) | gradient(v, [0.0, 1.0, 3.0, 4.5, 5.0]) | gradient(m, [0.0, 1.0, 3.0, 4.5], axis=-1, edge_order=2) | gradient(m[:2], axis=0)
interp(m, [-2.0, 0.0, 1.0], [3.0, -1.0, 2.0]) | interp(m, [-2, 0, 1], [3, -1, 2], left=7, right=8) | interp(s, [1.0], [2.0]) | interp(m, [0.0, 1.0], [2.0, 4.0])
histogram(m) | histogram(v, 3) | histogram(v, [-3, 0, 2]) | histogram(m, 4, (-1, 2)) | histogram(v, 2, density=True) | histogram(e, 2) | histogram(v * 0, 3)
histogram(m, 3, weights=m) | choose(abs(m) % 2, [m, m[0]]) | choose(m, [v[:4], s, 1], mode="wrap") | choose(m, [v[:4], s, 1], mode="clip")
piecewise(m, [m < 0, m > 1], [lambda x: -x, 7, 1]) | piecewise(m, [m < 0], [lambda x: x + 1]) | piecewise(s, [s < 1], [2, lambda x: x * 3])
trapezoid(m) | trapezoid(m, dx=0.5, axis=0) | trapezoid(m, [0.0, 1.0, 3.0, 4.0]) | trapezoid(t, axis=1) | trapezoid(m, m * 1.5)
ptp(m) | ptp(t, 1) | ptp(t, (0, 2), keepdims=True) | inner(v, v) | inner(t, m) | inner(s, m) | vdot(m, m)
isclose(m, m * 1.001, rtol=1e-2) | isclose(m, m + 1, atol=1.0)
"""  # noqa: E501
"""The same, but for bools."""

SPECIAL = {"choose": ["int32", "int64"], "vander": ["float64", "int64", "int32", "uint8", "bool"]}
"""Functions that are tried in these dtypes only: NumPy refuses others, or gives its own default dtypes."""


def texts(table):
    return [text.strip() for line in table.strip().splitlines() for text in line.split("|")]


def operands(dtype):
    return {letter: draw(shape, dtype) for letter, shape in SHAPES.items()}


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def on(library, text):
    """The function of operands, as a dictionary, that the text says."""
    return lambda xs: eval(text, {**vars(library), "np": np, "abs": library.abs, "slice": slice}, xs)


def expected(numpys, operand):
    """NumPy's dtype; but float32 where its float64 comes of integers or Python numbers."""
    return np.float32 if numpys == np.float64 and operand != "float64" else numpys


def check(text, dtype):
    xs = operands(dtype)
    with np.errstate(all="ignore"):
        wanted = leaves(on(np, text)(xs))
    got = leaves(on(gt, text)({k: as_tensor(x) for k, x in xs.items()}))
    assert len(got) == len(wanted)
    for ours, numpys in zip(got, wanted, strict=True):
        ours, numpys = np.asarray(as_tensor(ours)), np.asarray(numpys)
        assert ours.shape == numpys.shape
        assert ours.dtype == expected(numpys.dtype, dtype)
        np.testing.assert_allclose(ours, numpys, rtol=2e-6, atol=1e-6)
    return xs, got


def cases(table, dtypes):
    return [(text, d) for text in texts(table) for d in SPECIAL.get(text.partition("(")[0], dtypes)]


@pytest.mark.parametrize("text, dtype", [*cases(SAME, DTYPES), *cases(NUMBERS, DTYPES[:-1])])
def test_functions_are_numpys(text, dtype):
    check(text, dtype)

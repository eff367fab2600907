"""Functions of the array API that make, rearrange, join and repeat arrays, on every dtype, against NumPy.

Each text runs on `gt` and on NumPy. Operands by letter: s has no axes, v 5 elements, m (3, 4), n (1, 4), c (3, 1),
t (2, 3, 4), u (2, 1, 1), e none, r (0, 3), z (2, 0, 3).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtensor as gt
from tests.ways import compiled, eager

from .alike import agrees, draw, evaluate, text_agrees, texts
from .standard import DTYPES, dtypes

SHAPES = {
    "s": (), "v": (5,), "m": (3, 4), "n": (1, 4), "c": (3, 1), "t": (2, 3, 4), "u": (2, 1, 1), "e": (0,), "r": (0, 3),
    "z": (2, 0, 3),
}  # fmt: skip

TEXTS = texts("""
broadcast_arrays(m, n, c) | broadcast_arrays(s, v) | broadcast_arrays(t, u, n, s) | broadcast_arrays(r, v[:3])
broadcast_arrays(m) | broadcast_to(n, (3, 4)) | broadcast_to(s, (2, 0)) | broadcast_to(c, (2, 3, 4))
broadcast_to(v, (5,)) | broadcast_to(n, (0, 4)) | concat([v, v]) | concat((m, n)) | concat([m, c], axis=1)
concat([m, c], axis=-1) | concat([t, t], axis=1) | concat([m]) | concat([e, v]) | concat([r, m[:, :3]])
concat([m, v, s], axis=None) | concat([z, z], axis=1) | concat([t, t, t], axis=-3) | expand_dims(s, 0)
expand_dims(v, 0) | expand_dims(v, 1) | expand_dims(m, axis=1) | expand_dims(m, axis=-1) | expand_dims(m, -3)
flip(v) | flip(s) | flip(m) | flip(m, axis=0) | flip(m, axis=-1) | flip(t, axis=(0, -1)) | flip(z) | flip(t, axis=1)
flip(t, axis=()) | moveaxis(t, 0, -1) | moveaxis(t, -1, 0) | moveaxis(t, (0, 1), (2, 0))
moveaxis(t, (2, 0, 1), (0, 1, 2)) | moveaxis(v, 0, 0) | permute_dims(m, (1, 0)) | permute_dims(t, (2, 0, 1))
permute_dims(t, axes=(0, 2, 1)) | permute_dims(v, (0,)) | permute_dims(s, ()) | repeat(v, 2) | repeat(m, 3, axis=0)
repeat(m, 2, axis=-1) | repeat(m, 2) | repeat(v, 0) | repeat(z, 2, axis=2) | repeat(m, 1, axis=1)
repeat(v, xp.asarray([0, 1, 2, 0, 3])) | repeat(m, xp.asarray([2, 0, 1]), axis=0) | repeat(m, xp.asarray([2]), axis=1)
reshape(v, (5, 1)) | reshape(m, (2, 6)) | reshape(m, (-1,)) | reshape(t, (4, -1, 2)) | reshape(s, (1, 1))
reshape(n, (4,)) | reshape(z, (0,)) | reshape(z, (3, 0, 7)) | reshape(m, shape=(12,)) | reshape(m, (3, 4), copy=True)
reshape(u, (2,)) | reshape(m[:1, :1], ()) | roll(v, 2) | roll(v, shift=-7) | roll(m, 1) | roll(m, 1, axis=0)
roll(m, (1, -2), axis=(0, 1)) | roll(t, 2, axis=(0, 2)) | roll(e, 3) | roll(m, (1, 2), axis=(1, 1)) | roll(s, 1)
roll(z, 1, axis=-1) | roll(m, 0, axis=1) | squeeze(n, 0) | squeeze(n, axis=0) | squeeze(c, -1) | squeeze(u, (1, 2))
squeeze(u, (-1,)) | squeeze(m, ()) | squeeze(s, ()) | stack([v, v]) | stack((m, m), axis=1)
stack([m, m, m], axis=-1) | stack([s, s]) | stack([z, z], axis=2) | stack([t, t], axis=-4) | tile(v, (2,))
tile(m, (2, 1)) | tile(m, (2,)) | tile(v, (2, 3)) | tile(s, (2, 2)) | tile(m, (0, 1)) | tile(m, ())
tile(t, (1, 2, 1, 2)) | unstack(m) | unstack(m, axis=1) | unstack(t, axis=-1) | unstack(v) | unstack(e)
unstack(z, axis=2) | tril(m) | tril(m, k=1) | tril(m, k=-2) | tril(t, k=9) | triu(m) | triu(m, k=-1) | triu(m, k=3)
triu(t, k=-9) | triu(z) | tril(r) | matrix_transpose(m) | matrix_transpose(t) | matrix_transpose(z) | m.T | t.mT
z.mT | s + s * s if s.dtype != xp.bool else s | meshgrid(v, v[:2]) | meshgrid(v, v[:2], indexing='ij') | meshgrid(v)
meshgrid(v, v[:2], v[:3]) | meshgrid(v, e) | meshgrid() | meshgrid(v[:2], v[:1], v[:3], indexing='ij') | zeros_like(m)
ones_like(t) | full_like(m, 1) | full_like(s, True) | empty_like(z) | zeros_like(s) | ones_like(e)
astype(m, xp.float32) | astype(m, m.dtype, copy=False) | astype(z, xp.bool) | asarray(m) | asarray(m, copy=True)
asarray(v, dtype=v.dtype) | where(m == m, m, n) | where(m != n, c, m) | where(s == s, m, t) | where(m != m, m, m)
where(r == r, r, v[:3])
""")


def arrays(dtype):
    return {name: draw(shape, dtype) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("dtype", DTYPES)
def test_texts(dtype):
    operands = arrays(dtype)
    for text in TEXTS:
        text_agrees(text, operands)


def test_texts_compiled():
    """The functions only move elements, so that two dtypes stand for all."""
    given = {dtype: arrays(dtype) for dtype in ("float32", "bool")}
    kept = [text for text in TEXTS if "xp.asarray([" not in text and not text.startswith(("asarray", "meshgrid()"))]

    def everything(given):
        return {dtype: [evaluate(text, gt, operands) for text in kept] for dtype, operands in given.items()}

    wanted = eager(everything, given)
    for dtype, found in compiled(everything, given).items():
        for text, a, b in zip(kept, found, wanted[dtype], strict=True):
            agrees(a, b, about=f"{text} of {dtype}")


def test_concat_and_stack_promote():
    for a, b in itertools.product(dtypes("numeric"), repeat=2):
        if np.dtype(a).kind == np.dtype(b).kind:
            x, y = draw((2, 3), a), draw((2, 3), b)
            agrees(gt.concat([gt.asarray(x), gt.asarray(y)]), np.concat([x, y]))
            agrees(gt.stack([gt.asarray(x), gt.asarray(y)], axis=1), np.stack([x, y], axis=1))


# ---- arrays from nothing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_filled(dtype):
    d = getattr(gt, dtype)
    for shape in (3, (), (0,), (2, 3), (2, 0, 1)):
        agrees(gt.zeros(shape, dtype=d), np.zeros(shape, dtype))
        agrees(gt.ones(shape, dtype=d), np.ones(shape, dtype))
        agrees(gt.full(shape, 1, dtype=d), np.full(shape, 1, dtype))
        assert (gt.empty(shape, dtype=d).shape, gt.empty(shape, dtype=d).dtype) == (np.empty(shape).shape, d)
        x = gt.zeros(shape, dtype=gt.float32)
        agrees(gt.full_like(x, True, dtype=d), np.full(shape, 1, dtype))
        agrees(gt.ones_like(x, dtype=d), np.ones(shape, dtype))
        agrees(gt.zeros_like(x, dtype=d), np.zeros(shape, dtype))
        assert gt.empty_like(x, dtype=d).dtype == d
    for rows, columns, k in ((3, None, 0), (2, 4, 1), (4, 2, -1), (0, 3, 0), (2, 2, 9), (1, 1, -9)):
        agrees(gt.eye(rows, columns, k=k, dtype=d), np.eye(rows, columns, k=k, dtype=dtype))


def test_default_dtypes():
    defaults = gt.__array_namespace_info__().default_dtypes()
    real, whole = defaults["real floating"], defaults["integral"]
    floats = [gt.zeros(2), gt.ones(2), gt.empty(2), gt.eye(2), gt.linspace(0, 1, 3), gt.full(2, 1.0), gt.arange(3.0)]
    floats += [gt.asarray(1.5), gt.asarray([1, 2.5]), gt.asarray([True, 0.5]), gt.arange(0, 1, 0.25), gt.arange(0.0, 3)]
    integers = [
        gt.full(2, 1),
        gt.arange(3),
        gt.arange(1, 5, 2),
        gt.asarray(1),
        gt.asarray([True, 2]),
        gt.asarray([[1]]),
    ]
    truths = [gt.full(2, True), gt.asarray(False), gt.asarray([[True], [False]])]
    for arrays_, dtype in ((floats, real), (integers, whole), (truths, gt.bool)):
        assert all(x.dtype == dtype for x in arrays_)
    x = gt.asarray([3, 1])
    indices = [gt.argmax(x), gt.argsort(x), gt.nonzero(x)[0], gt.searchsorted(x, x), gt.count_nonzero(x)]
    indices += [*gt.unique_all(x)[1:], gt.unique_counts(x).counts, gt.unique_inverse(x).inverse_indices]
    assert all(i.dtype == defaults["indexing"] for i in indices)


SMALL = st.integers(-40, 40)
PROPERTY = settings(max_examples=settings.default.max_examples // 2)


@PROPERTY
@given(start=SMALL, stop=SMALL, step=SMALL.filter(bool), dtype=st.sampled_from([None, *dtypes("numeric")]))
def test_arange_of_integers(start, stop, step, dtype):
    wanted = list(range(start, stop, step))
    unsigned = dtype is not None and dtype.startswith("u")
    if unsigned and wanted and min(wanted) < 0:
        return
    given_dtype = None if dtype is None else getattr(gt, dtype)
    got = gt.arange(start, stop, step, dtype=given_dtype)
    assert got.tolist() == wanted and got.dtype == (given_dtype or gt.int64)


def test_arange_counts_large_integers_exactly():
    assert gt.arange(0, 2**60 + 1, 2**59).tolist() == [0, 2**59, 2**60]
    assert gt.arange(2**53, 2**53 + 3).tolist() == [2**53, 2**53 + 1, 2**53 + 2]
    assert gt.arange(5, 0).shape == gt.arange(-1).shape == (0,)
    assert gt.arange(gt.asarray(3)).tolist() == gt.arange(np.int8(3)).tolist() == [0, 1, 2]


@PROPERTY
@given(
    start=st.floats(-100, 100), length=st.floats(0, 50), step=st.floats(0.125, 9), down=st.booleans(),
    dtype=st.sampled_from(dtypes("floating")),
)  # fmt: skip
def test_arange_of_floats(start, length, step, down, dtype):
    sign = -1 if down else 1
    got = gt.arange(start, start + sign * length, sign * step, dtype=getattr(gt, dtype))
    size = math.ceil((start + sign * length - start) / (sign * step))
    assert got.shape == (max(0, size),)
    np.testing.assert_allclose(got, start + sign * step * np.arange(got.size), rtol=1e-6, atol=1e-5)


@PROPERTY
@given(start=st.floats(-1e3, 1e3), stop=st.floats(-1e3, 1e3), num=st.integers(0, 20), endpoint=st.booleans(),
       dtype=st.sampled_from(dtypes("floating")))  # fmt: skip
def test_linspace(start, stop, num, endpoint, dtype):
    got = gt.linspace(start, stop, num, dtype=getattr(gt, dtype), endpoint=endpoint).numpy()
    assert got.shape == (num,) and got.dtype == dtype
    if num:
        assert got[0] == np.dtype(dtype).type(start)
    if num > 1 and endpoint:
        assert got[-1] == np.dtype(dtype).type(stop)
    np.testing.assert_allclose(got, np.linspace(start, stop, num, endpoint=endpoint), rtol=1e-5, atol=1e-4)


def test_linspace_over_the_whole_range():
    end = float(np.finfo(np.float64).max)
    assert gt.linspace(-end, end, 3, dtype=gt.float64).tolist() == [-end, 0, end]
    assert gt.linspace(end, -end, 2, dtype=gt.float64, endpoint=False).tolist() == [end, 0]


@PROPERTY
@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_asarray_of_nested_lists(data, dtype):
    kind = np.dtype(dtype).kind
    elements = {
        "b": st.booleans(),
        "f": st.floats(width=32 if dtype == "float32" else 64),
        "i": st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if kind == "i" else st.nothing(),
        "u": st.integers(0, int(np.iinfo(dtype).max)) if kind == "u" else st.nothing(),
    }[kind]
    rows = data.draw(st.integers(0, 3))
    nested = data.draw(st.lists(st.lists(elements, min_size=rows, max_size=rows), max_size=3))
    got = gt.asarray(nested, dtype=getattr(gt, dtype))
    agrees(got, np.asarray(nested, dtype))


# ---- conversion -----------------------------------------------------------------------------------------------


def test_astype_between_all_dtypes():
    for a, b in itertools.product(DTYPES, repeat=2):
        x = draw((9,), a, awkward=False)
        if np.dtype(b).kind == "u" and np.dtype(a).kind in "if":
            x = np.abs(x)
        for copy in (True, False):
            agrees(gt.astype(gt.asarray(x), getattr(gt, b), copy=copy), x.astype(b), about=f"{a} {b}")
    x = gt.ones(2)
    assert gt.astype(x, x.dtype, copy=False) is x
    odd = gt.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5])
    assert gt.astype(odd, gt.bool).tolist() == [True, True, True, False, False, True]


@PROPERTY
@given(shape=st.lists(st.integers(0, 3), max_size=4), data=st.data())
def test_broadcasting_is_numpys(shape, data):
    other = [data.draw(st.sampled_from([n, 1])) for n in shape[data.draw(st.integers(0, len(shape))) :]]
    x, y = np.zeros(shape, np.float32), np.zeros(other, np.float32)
    assert gt.add(x, y).shape == np.add(x, y).shape
    assert [z.shape for z in gt.broadcast_arrays(x, y)] == [np.broadcast_shapes(x.shape, y.shape)] * 2

"""Sorting, searching, sets and indexing functions of the array API, on every dtype, against NumPy.

Where NumPy's sort and search of NaN is not the standard's business, it is gtensor's too: NaN is the largest.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtensor as gt
from tests.values import check_derivatives
from tests.ways import compiled, eager

from .alike import agrees, draw, text_agrees, texts
from .standard import DTYPES, dtypes

SHAPES = {"v": (7,), "m": (3, 4), "t": (2, 3, 4), "e": (0,), "z": (2, 0, 3), "one": (1,)}

TEXTS = texts("""
argmax(v) | argmin(m, axis=1) | count_nonzero(m) | count_nonzero(t, axis=(0, 2), keepdims=True) | count_nonzero(z)
nonzero(v) | nonzero(m) | nonzero(t) | nonzero(e) | nonzero(z) | sort(v) | sort(m, axis=0) | sort(t, axis=1)
sort(z, axis=2) | sort(m, axis=-1, stable=True) | argsort(v, stable=True) | argsort(m, axis=0, stable=True)
argsort(t, axis=1, stable=True) | argsort(z, stable=True) | argsort(e, stable=True) | sort(e) | sort(one)
argsort(one, stable=True) | take(v, xp.asarray([0, 3, 3, -1])) | take(m, xp.asarray([2, 0]), axis=0)
take(t, xp.asarray([1, -3]), axis=1) | take(m, xp.asarray([], dtype=xp.int32), axis=1)
take(t, xp.asarray([3, -4]), axis=-1) | take(v, xp.asarray([2]), axis=-1)
take_along_axis(m, xp.asarray([[3, 0, -1, 1], [0, 0, 0, 0], [1, 2, 3, -4]]))
take_along_axis(v, xp.asarray([6, -7]), axis=0) | take_along_axis(m, xp.asarray([[2, 0, 1, -1]]), axis=0)
take_along_axis(m, xp.asarray([[3], [0], [-2]]), axis=1) | take_along_axis(m, xp.asarray([[3, 1]]), axis=1)
take_along_axis(t, xp.asarray([[[1], [-1]]]), axis=1)
take_along_axis(m[:1, :], xp.asarray([[0, 1], [2, 3]]), axis=-1) | take_along_axis(z, xp.asarray([[[0]]]), axis=2)
""")


@pytest.mark.parametrize("dtype", DTYPES)
def test_texts(dtype):
    operands = {name: draw(shape, dtype) for name, shape in SHAPES.items()}
    for text in TEXTS:
        if np.dtype(dtype).kind == "b" and text.startswith("arg"):
            continue
        text_agrees(text, operands)


@pytest.mark.parametrize("dtype", dtypes("numeric"))
def test_sorting_downwards_is_stable(dtype):
    x = draw((4, 9), dtype) if np.dtype(dtype).kind != "f" else np.nan_to_num(draw((4, 9), dtype))
    x[:, ::3] = x[:, :1]

    def sorts(x):
        return [
            f(x, axis=axis, descending=True, stable=stable)
            for f in (gt.sort, gt.argsort)
            for axis in (0, 1, -1)
            for stable in (True, False)
        ]

    found = [way(sorts, x) for way in (eager, compiled)]
    for a, b in zip(*found, strict=True):
        agrees(b, a)
    for values, order, axis in zip(found[0][0:6:2], found[0][6:12:2], (0, 1, -1), strict=True):
        np.testing.assert_array_equal(np.take_along_axis(x, order, axis), values)
        np.testing.assert_array_equal(np.flip(np.sort(x, axis=axis), axis), values)
        lines = np.moveaxis(order, axis, -1).reshape(-1, x.shape[axis])
        for line, keys in zip(lines, np.moveaxis(values, axis, -1).reshape(-1, x.shape[axis]), strict=True):
            assert all(i < j for i, j, a, b in zip(line, line[1:], keys, keys[1:], strict=False) if a == b)


def test_nan_is_sorted_and_searched_as_the_largest():
    for dtype in dtypes("floating"):
        x = np.array([np.nan, 1, -np.inf, np.inf, np.nan, -0.0, 0.0], dtype)

        def everything(x):
            keys = gt.sort(x)
            return keys, gt.argsort(x), gt.argsort(x, descending=True), gt.searchsorted(keys, x)

        for way in (eager, compiled):
            keys, up, down, places = way(everything, x)
            assert up.tolist() == [2, 5, 6, 1, 3, 0, 4] and down.tolist() == [0, 4, 3, 1, 5, 6, 2]
            np.testing.assert_array_equal(keys, x[up])
            assert places.tolist() == [5, 3, 0, 4, 5, 1, 1]


PROPERTY = settings(max_examples=settings.default.max_examples // 2)


@PROPERTY
@given(data=st.data(), dtype=st.sampled_from(dtypes("numeric")), side=st.sampled_from(["left", "right"]))
def test_searchsorted(data, dtype, side):
    numbers = st.lists(st.integers(0, 6), max_size=8)
    keys, values = (np.array(data.draw(numbers), dtype) for _ in "ab")
    order = np.argsort(keys, kind="stable")
    wanted = np.searchsorted(keys[order], values, side=side)
    agrees(gt.searchsorted(gt.sort(keys), gt.asarray(values), side=side), wanted)
    agrees(gt.searchsorted(gt.asarray(keys), gt.asarray(values), side=side, sorter=gt.asarray(order)), wanted)
    if values.size % 2 == 0:
        pairs = values.reshape(2, -1)
        agrees(gt.searchsorted(gt.sort(keys), gt.asarray(pairs), side=side), wanted.reshape(pairs.shape))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sets(dtype):
    """By the definition: each value once, where it stands first, and how to make x again."""
    for shape in SHAPES.values():
        x = draw(shape, dtype)
        found = gt.unique_all(gt.asarray(x))
        values, indices, inverse, counts = map(np.asarray, found)
        flat = x.ravel()
        assert values.dtype == x.dtype and inverse.shape == x.shape
        assert values.shape == indices.shape == counts.shape and counts.sum() == x.size
        np.testing.assert_array_equal(values, flat[indices])
        np.testing.assert_array_equal(values[inverse], x)
        for value, first, count in zip(values, indices, counts, strict=True):
            where = np.flatnonzero(flat == value)
            assert (where.tolist() or [first])[0] == first and count == max(1, where.size)
        assert values.size == len({(v if v == v else object()) for v in flat.tolist()})
        agrees(gt.unique_counts(gt.asarray(x)), (values, counts))
        agrees(gt.unique_inverse(gt.asarray(x)), (values, inverse))
        agrees(gt.unique_values(gt.asarray(x)), values)


def test_each_nan_is_its_own_value_and_zeros_are_one():
    found = gt.unique_all(gt.asarray([[np.nan, 1.0, -0.0], [0.0, np.nan, 1.0]], dtype=gt.float64))
    assert sorted(found.counts.tolist()) == [1, 1, 2, 2] and found.values.shape == (4,)
    assert {found.indices.tolist()[i] for i in (2, 3)} == {0, 4}


def test_where():
    for a, b in itertools.product(DTYPES, repeat=2):
        if np.dtype(a).kind == np.dtype(b).kind:
            condition, x, y = draw((3, 1), "bool"), draw((4,), a), draw((3, 4), b)
            wanted = np.where(condition, x, y)
            agrees(gt.where(gt.asarray(condition), gt.asarray(x), gt.asarray(y)), wanted, about=f"where {a} {b}")
    for dtype in DTYPES:
        condition, x = draw((4,), "bool"), draw((4,), dtype)
        number = {"b": True, "f": 2.5}.get(np.dtype(dtype).kind, 3)
        for pair in ((x, number), (number, x)):
            wanted = np.where(condition, *(np.asarray(p, dtype) for p in pair))
            agrees(gt.where(gt.asarray(condition), *pair), wanted, about=f"where {dtype} {number}")


def test_derivatives_of_places_that_broadcast():
    index = np.array([[3], [0], [-3]])
    x = np.arange(12.0).reshape(3, 4) / 7
    check_derivatives(lambda x: gt.sin(gt.take_along_axis(x, index, axis=1)), x)
    check_derivatives(lambda x: gt.sin(gt.take_along_axis(x[:1], index, axis=1)), x)
    check_derivatives(lambda x: gt.sin(gt.take_along_axis(x, index[:1], axis=1)) * gt.sin(x[True])[0, :, :1], x)


def test_compiled():
    given = {dtype: draw((3, 4), dtype) for dtype in DTYPES}
    index = np.array([[3], [0], [-2]])

    def everything(given, index):
        return {
            dtype: [
                gt.sort(x), gt.sort(x, axis=0), gt.argsort(x), gt.take(x, index[:, 0], axis=1),
                gt.count_nonzero(x, axis=0), gt.take_along_axis(x, index, axis=1),
                gt.take_along_axis(x, index[:1], axis=1), gt.where(x == x[:1], x, x[0]),
                gt.searchsorted(gt.sort(x[0]), x),
            ]
            for dtype, x in given.items()
        }  # fmt: skip

    wanted = eager(everything, given, index)
    for dtype, found in compiled(everything, given, index).items():
        agrees(found, wanted[dtype], about=dtype)

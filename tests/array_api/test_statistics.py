"""Reductions and running folds of the array API on every dtype, over shapes and axes, against NumPy; empty and NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gtensor as gt
from tests.ways import compiled, eager

from .alike import agrees, draw
from .standard import DTYPES, dtypes

AXES = {
    (): [None, ()],
    (7,): [None, 0, -1, (0,)],
    (3, 4): [None, 0, 1, -2, (0, 1), (-1,), ()],
    (2, 3, 2): [None, 1, (0, 2), (-1, 0), (0, 1, 2)],
    (2, 0, 3): [0, 2, -1, (0, 2)],
}
"""Shapes and the axes to reduce; the last shape is empty, and its axis of extent 0 stays."""

EMPTY = [((0,), None), ((2, 0), 1), ((2, 0), (0, 1)), ((0, 3), 0)]
"""Shapes and axes over which there is nothing to reduce."""

REDUCED = {
    "sum": "numeric",
    "prod": "numeric",
    "max": "numeric",
    "min": "numeric",
    "mean": "floating",
    "std": "floating",
    "var": "floating",
    "all": "all",
    "any": "all",
    "count_nonzero": "all",
    "argmax": "numeric",
    "argmin": "numeric",
}
"""Functions by the kind of dtypes that the standard says they take."""

NEUTRAL = {
    "sum": 0,
    "prod": 1,
    "all": True,
    "any": False,
    "count_nonzero": 0,
    "mean": np.nan,
    "var": np.nan,
    "std": np.nan,
}


def operand(name, shape, dtype):
    """Awkward elements, but small whole ones where the order of roundings would show."""
    if name in ("sum", "mean", "prod", "var", "std") and np.dtype(dtype).kind == "f":
        return np.random.default_rng(3).integers(-2, 4, shape).astype(dtype)
    return draw(shape, dtype)


def ulps(name):
    return 4 if name in ("mean", "var", "std") else 0


def cases(name):
    for shape, axes in AXES.items():
        for axis, keepdims in itertools.product(axes, (False, True)):
            if not (name.startswith("arg") and (isinstance(axis, tuple) or 0 in shape)):
                yield shape, axis, keepdims


@pytest.mark.parametrize("name", REDUCED)
def test_reductions(name):
    for dtype, (shape, axis, keepdims) in itertools.product(dtypes(REDUCED[name]), cases(name)):
        x = operand(name, shape, dtype)
        if name.startswith("arg") and np.dtype(dtype).kind == "f":
            x = np.nan_to_num(x)
        wanted = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
        got = getattr(gt, name)(gt.asarray(x), axis=axis, keepdims=keepdims)
        agrees(got, wanted, ulps(name), f"{name} {dtype}{shape} {axis} {keepdims}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled(dtype):
    names = [name for name, kind in REDUCED.items() if dtype in dtypes(kind)]
    few = [(2, 3, 2), (2, 0, 3)] if dtype != "float32" else [*AXES]
    each = [(name, *case) for name in names for case in cases(name) if case[0] in few and not case[2]]
    xs = [operand(name, shape, dtype) for name, shape, _, _ in each]
    folds = ["cumulative_sum", "cumulative_prod"] if dtype in dtypes("numeric") else []
    line = operand("prod", (3, 5), dtype)

    def everything(xs, line):
        found = [getattr(gt, name)(x, axis=a, keepdims=k) for (name, _, a, k), x in zip(each, xs, strict=True)]
        return found + [
            getattr(gt, name)(line, axis=a, include_initial=i) for name in folds for a in (0, 1) for i in (0, 1)
        ]

    got, wanted = (way(everything, xs, line) for way in (compiled, eager))
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        about = f"{each[i] if i < len(each) else 'a fold'} {dtype}"
        agrees(a, b, 4 if i < len(each) and ulps(each[i][0]) else 0, about)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtypes_of_sums(name):
    for dtype in dtypes("numeric"):
        x = operand(name.removeprefix("cumulative_"), (5,), dtype)
        wide = {"i": "int64", "u": "uint64", "f": dtype}[np.dtype(dtype).kind]
        assert getattr(gt, name)(gt.asarray(x)).dtype.name == wide, dtype
        for target in dtypes("numeric"):
            if np.dtype(target).kind == np.dtype(dtype).kind:
                got = getattr(gt, name)(gt.asarray(x), dtype=getattr(gt, target))
                agrees(got, np.asarray(getattr(np, name)(x, dtype=target)), about=f"{name} {dtype} {target}")


@pytest.mark.parametrize("name", ["var", "std"])
def test_corrections(name):
    for dtype, correction, axis in itertools.product(dtypes("floating"), (0, 1, 0.5, 2), (None, 0, 1)):
        x = draw((4, 5), dtype, awkward=False)
        wanted = np.asarray(getattr(np, name)(x.astype(np.float64), axis=axis, correction=correction)).astype(dtype)
        agrees(getattr(gt, name)(gt.asarray(x), axis=axis, correction=correction), wanted, 4, f"{name} {correction}")


def test_a_variance_needs_more_elements_than_the_correction():
    """The standard has NaN, where NumPy has infinity for elements that differ."""
    x = np.array([[1.0, 3.0], [2.0, 2.0]], np.float32)

    def spreads(x):
        return [f(x, axis=1, correction=c) for f in (gt.var, gt.std) for c in (1, 2, 2.5, 3)]

    for way in (eager, compiled):
        for (one, *none), wanted in zip((way(spreads, x)[:4], way(spreads, x)[4:]), (2, np.sqrt(2)), strict=True):
            np.testing.assert_allclose(one, [wanted, 0], rtol=1e-6)
            assert np.isnan(none).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_of_nothing():
    for name, value in NEUTRAL.items():
        for dtype, (shape, axis) in itertools.product(dtypes(REDUCED[name]), EMPTY):
            x = np.zeros(shape, dtype)
            wanted = np.asarray(getattr(np, name)(x, axis=axis))
            agrees(getattr(gt, name)(gt.asarray(x), axis=axis), wanted, about=f"{name} {dtype}{shape}")
            assert all(v == value or value != value for v in wanted.ravel().tolist())
    for name, (shape, axis) in itertools.product(("max", "min", "argmax", "argmin"), EMPTY):
        if not (name.startswith("arg") and isinstance(axis, tuple)):
            with pytest.raises(ValueError, match=f"{name.removeprefix('arg')} of an empty axis|argmax or argmin"):
                getattr(gt, name)(gt.zeros(shape), axis=axis)


@pytest.mark.parametrize("dtype", dtypes("floating"))
def test_nan_and_infinities(dtype):
    nan, inf = np.nan, np.inf
    rows = np.array([[1, nan, 3], [inf, 1, 2], [-inf, inf, 0], [-inf, 1, nan], [-0.0, 0.0, -1], [nan, nan, nan]], dtype)
    wanted = {
        "sum": [nan, inf, nan, nan, -1, nan],
        "prod": [nan, inf, nan, nan, 0, nan],
        "max": [nan, inf, inf, nan, 0, nan],
        "min": [nan, 1, -inf, nan, -1, nan],
        "mean": [nan, inf, nan, nan, np.dtype(dtype).type(-1) / 3, nan],
        "var": [nan, nan, nan, nan, np.float64(2) / 9, nan],
        "std": [nan, nan, nan, nan, np.sqrt(np.float64(2) / 9), nan],
        "all": [True, True, False, True, False, True],
        "any": [True] * 6,
        "count_nonzero": [3, 3, 2, 3, 1, 3],
        "argmax": [1, 0, 1, 2, 0, 0],
        "argmin": [1, 1, 0, 2, 2, 0],
    }

    def everything(x):
        return {name: getattr(gt, name)(x, axis=1) for name in wanted}

    for way in (eager, compiled):
        for name, got in way(everything, rows).items():
            close = 1e-6 if dtype == "float32" else 1e-15
            np.testing.assert_allclose(
                got.astype(np.float64), np.asarray(wanted[name], float), rtol=close, err_msg=name
            )


def test_ties_of_extremes_are_the_first():
    for dtype in dtypes("numeric"):
        x = np.array([[1, 3, 3], [2, 0, 2], [5, 5, 5]], dtype)
        assert gt.argmax(x, axis=1).tolist() == [1, 0, 0] and gt.argmin(x, axis=1).tolist() == [0, 1, 0]
        assert gt.argmax(x).tolist() == 6 and gt.argmin(x, keepdims=True).tolist() == [[4]]


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_folds(name):
    for dtype, include_initial in itertools.product(dtypes("numeric"), (False, True)):
        for shape, axis in (
            ((5,), None),
            ((5,), 0),
            ((3, 4), 0),
            ((3, 4), -1),
            ((2, 3, 2), 1),
            ((0,), None),
            ((2, 0), 1),
        ):
            x = operand("prod", shape, dtype)
            wanted = getattr(np, name)(x, axis=axis, include_initial=include_initial)
            got = getattr(gt, name)(gt.asarray(x), axis=axis, include_initial=include_initial)
            agrees(got, wanted, about=f"{name} {dtype}{shape} {axis} {include_initial}")
    with pytest.raises(ValueError, match="needs an axis"):
        getattr(gt, name)(gt.ones((2, 2)))


def test_diff():
    for dtype in dtypes("numeric"):
        x, more, one = (draw(shape, dtype, awkward=False) for shape in ((3, 4), (3, 2), (1, 4)))
        for axis, n in ((-1, 1), (0, 1), (1, 2), (0, 2), (-1, 3), (1, 4), (0, 3)):
            agrees(gt.diff(gt.asarray(x), axis=axis, n=n), np.diff(x, n, axis), about=f"diff {dtype} {axis} {n}")
        for kwargs in ({"prepend": more}, {"append": more}, {"prepend": more, "append": x, "n": 2}):
            given = {k: gt.asarray(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
            agrees(gt.diff(gt.asarray(x), **given), np.diff(x, **kwargs), about=f"diff {dtype} {[*kwargs]}")
        agrees(gt.diff(gt.asarray(x), axis=0, append=gt.asarray(one)), np.diff(x, axis=0, append=one))

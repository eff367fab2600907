"""Elementwise functions of the array API on every dtype and many shapes, eager and compiled, against NumPy.

NumPy's values of functions that round are taken in float64 and rounded once for float32. What the functions make of
special values is in test_special_cases.py.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gtensor as gt
from tests.ways import compiled, eager

from .alike import agrees, draw
from .standard import DTYPES, MAIN, dtypes, signatures

ROUNDED = """acos acosh asin asinh atan atan2 atanh cos cosh exp expm1 hypot log log10 log1p log2 logaddexp pow sin sinh
tan tanh""".split()
"""Functions whose values are approximations."""

UNARY = {
    "floating": "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 reciprocal signbit sin sinh "
    "sqrt tan tanh",
    "numeric": "abs ceil conj floor isfinite isinf isnan negative positive real round sign square trunc",
    "integer or bool": "bitwise_invert",
    "bool": "logical_not",
}
BINARY = {
    "floating": "atan2 copysign divide hypot logaddexp nextafter",
    "numeric": "add floor_divide greater greater_equal less less_equal maximum minimum multiply pow remainder subtract",
    "all": "equal not_equal",
    "integer or bool": "bitwise_and bitwise_or bitwise_xor",
    "integer": "bitwise_left_shift bitwise_right_shift",
    "bool": "logical_and logical_or logical_xor",
}
"""Functions by the kind of dtypes that the standard says they take."""

ELSEWHERE = {"imag": "of complex numbers", "clip": "test_clip"}

SHAPES = [(), (1,), (17,), (3, 1, 2), (0,), (2, 0, 3)]
PAIRS = [((), ()), ((5,), ()), ((3, 1, 2), (4, 1)), ((2, 3), (2, 3)), ((0, 3), (3,)), ((1, 4), (0, 4)), ((1,), (2, 1))]


def spread(table):
    return [(name, kind) for kind, names in table.items() for name in names.split()]


def second(name, shape, dtype):
    """A second operand for which NumPy and the standard define the function."""
    if np.dtype(dtype).kind in "iu":
        if name.endswith("shift"):
            return draw(shape, "uint8", 5, awkward=False).astype(dtype) % 7
        if name == "pow":
            return np.abs(draw(shape, dtype, 5, awkward=False))
        if name in ("floor_divide", "remainder"):
            found = draw(shape, dtype, 5)
            return np.where(found == 0, 3, found).astype(dtype)
    return draw(shape, dtype, 5)


def numpys(name, *operands):
    """NumPy's value."""
    dtype = np.result_type(*operands)
    with np.errstate(all="ignore"):
        if name in ROUNDED and dtype == np.float32:
            return np.asarray(getattr(np, name)(*(x.astype(np.float64) for x in operands))).astype(dtype)
        return np.asarray(getattr(np, name)(*operands))


def ulps(name):
    """NumPy's own loops are one or two units apart, as memory lies."""
    return 2 if name in ROUNDED else 0


def test_no_function_is_forgotten():
    ours = [name for table in (UNARY, BINARY) for names in table.values() for name in names.split()]
    wanted = list(signatures(MAIN))
    wanted = wanted[wanted.index("abs") : wanted.index("trunc") + 1]
    assert sorted([*ours, *ELSEWHERE]) == sorted(wanted)


@pytest.mark.parametrize("name,kind", spread(UNARY))
def test_of_one(name, kind):
    for dtype, shape in itertools.product(dtypes(kind), SHAPES):
        x = draw(shape, dtype)
        agrees(getattr(gt, name)(gt.asarray(x)), numpys(name, x), ulps(name), f"{name} {dtype}{shape}")


@pytest.mark.parametrize("name,kind", spread(BINARY))
def test_of_two(name, kind):
    for dtype, (shape1, shape2) in itertools.product(dtypes(kind), PAIRS):
        x, y = draw(shape1, dtype), second(name, shape2, dtype)
        got = getattr(gt, name)(gt.asarray(x), gt.asarray(y))
        agrees(got, numpys(name, x, y), ulps(name), f"{name} {dtype}{shape1}{shape2}")


def promotable(kind):
    """The pairs of different dtypes of a kind that the standard promotes: within integers and within floats."""
    kinds = {"i": "iu", "u": "iu", "f": "f", "b": "b"}
    for a, b in itertools.permutations(dtypes(kind), 2):
        same = np.dtype(b).kind in kinds[np.dtype(a).kind]
        if same and np.result_type(a, b).kind in kinds[np.dtype(a).kind]:
            yield a, b


@pytest.mark.parametrize("name,kind", spread(BINARY))
def test_dtypes_that_meet(name, kind):
    for a, b in promotable(kind):
        x, y = draw((4,), a, awkward=False), second(name, (4,), b)
        if np.dtype(b).kind in "iu" and name != "pow":
            y = np.minimum(y, 5).astype(b)
        wanted = numpys(name, x, y)
        agrees(getattr(gt, name)(gt.asarray(x), gt.asarray(y)), wanted, ulps(name), f"{name} {a} {b}")


@pytest.mark.parametrize("name,kind", spread(BINARY))
def test_python_numbers_take_the_dtype_of_the_array(name, kind):
    numbers = {"b": [True], "i": [3], "u": [3], "f": [3, 2.5]}
    for dtype in dtypes(kind):
        x = draw((4,), dtype)
        y = second(name, (4,), dtype)
        for number in numbers[np.dtype(dtype).kind]:
            one = np.asarray(number, dtype)
            f = getattr(gt, name)
            about = f"{name} {dtype} {number}"
            agrees(f(gt.asarray(x), number), numpys(name, x, one), ulps(name), about)
            agrees(f(number, gt.asarray(y)), numpys(name, one, y), ulps(name), about)


@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled(dtype):
    x, scalar = draw((19,), dtype), draw((), dtype, 3)
    of_one = [name for name, kind in spread(UNARY) if dtype in dtypes(kind)]
    of_two = [name for name, kind in spread(BINARY) if dtype in dtypes(kind)]
    others = [second(name, (19,), dtype) for name in of_two]

    def everything(x, scalar, others):
        each = [getattr(gt, name)(x) for name in of_one]
        each += [getattr(gt, name)(x, y) for name, y in zip(of_two, others, strict=True)]
        return each + [getattr(gt, name)(scalar, y) for name, y in zip(of_two, others, strict=True)]

    got, wanted = (way(everything, x, scalar, others) for way in (compiled, eager))
    for name, a, b in zip(of_one + 2 * of_two, got, wanted, strict=True):
        agrees(a, b, 4 if name in ROUNDED else 0, f"{name} {dtype}")


def test_clip():
    for dtype in dtypes("numeric"):
        x = draw((3, 4), dtype)
        low, high = draw((4,), dtype, 1, awkward=False), draw((3, 1), dtype, 2, awkward=False)
        high = np.maximum(low.max(), high).astype(dtype)
        for bounds in ((None, None), (low, None), (None, high), (low, high), (2, 5), (2, high), (None, 3)):
            wanted = x if all(b is None for b in bounds) else np.clip(x, *bounds)
            given = [gt.asarray(b) if isinstance(b, np.ndarray) else b for b in bounds]
            agrees(gt.clip(gt.asarray(x), *given), wanted, about=f"clip {dtype}")
            agrees(gt.clip(gt.asarray(x), min=given[0], max=given[1]), wanted, about=f"clip {dtype}")
    assert gt.clip(gt.ones((0, 2)), 0, 1).shape == (0, 2) and gt.clip(gt.asarray(3.0), max=1).tolist() == 1


@pytest.mark.parametrize("dtype", dtypes("floating"))
def test_a_square_root_is_the_nearest_number(dtype):
    x = np.abs(np.random.default_rng(0).standard_normal(1000)).astype(dtype)
    got = gt.sqrt(gt.asarray(x)).numpy().astype(np.longdouble)
    gaps = np.spacing(got.astype(dtype)).astype(np.longdouble)
    assert (np.abs(got - np.sqrt(x.astype(np.longdouble))) <= gaps / 2).all()


def test_symmetries():
    x, y = (draw((40,), "float64", seed) for seed in (1, 2))
    wanted = gt.hypot(x, y)
    for a, b in ((y, x), (x, -y), (-x, y), (-x, -y)):
        agrees(gt.hypot(a, b), wanted.numpy())
    agrees(gt.cosh(-x), gt.cosh(x).numpy())
    for odd in (gt.sinh, gt.tanh, gt.asinh, gt.atanh):
        agrees(odd(-x), (-odd(x)).numpy())

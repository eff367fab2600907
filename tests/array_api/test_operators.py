"""Operators and conversions of arrays in the array API: they are the functions, on every dtype and Python numbers."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, ShapeError
from tests.ways import compiled, eager

from .alike import agrees, draw
from .standard import DTYPES, dtypes

UNARY = {
    "abs": ("abs", "numeric"),
    "invert": ("bitwise_invert", "integer or bool"),
    "neg": ("negative", "numeric"),
    "pos": ("positive", "numeric"),
}
ARITHMETIC = {
    "add": ("add", "numeric"),
    "floordiv": ("floor_divide", "numeric"),
    "mod": ("remainder", "numeric"),
    "mul": ("multiply", "numeric"),
    "pow": ("pow", "numeric"),
    "sub": ("subtract", "numeric"),
    "truediv": ("divide", "floating"),
    "and_": ("bitwise_and", "integer or bool"),
    "or_": ("bitwise_or", "integer or bool"),
    "xor": ("bitwise_xor", "integer or bool"),
    "lshift": ("bitwise_left_shift", "integer"),
    "rshift": ("bitwise_right_shift", "integer"),
}
COMPARISONS = {
    "lt": ("less", "numeric"),
    "le": ("less_equal", "numeric"),
    "gt": ("greater", "numeric"),
    "ge": ("greater_equal", "numeric"),
    "eq": ("equal", "all"),
    "ne": ("not_equal", "all"),
}
BINARY = ARITHMETIC | COMPARISONS
"""Operators by the names of Python's module `operator`: the function, and the kind of dtypes the standard gives it."""


def pair(dtype):
    """Operands for every operator: small numbers, the second one positive."""
    x, y = draw((3, 4), dtype, awkward=False), draw((4,), dtype, 1, awkward=False)
    return x, y if np.dtype(dtype).kind == "b" else (np.abs(y) % 5 + 1).astype(dtype)


def numbers(dtype):
    return {"b": [True, False], "f": [2, 2.5]}.get(np.dtype(dtype).kind, [2])


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    function, kind = UNARY[name]
    for dtype in dtypes(kind):
        x = draw((3, 4), dtype)
        agrees(getattr(operator, name)(gt.asarray(x)), getattr(gt, function)(x).numpy(), about=f"{name} {dtype}")


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function, kind = BINARY[name]
    f, wanted = getattr(operator, name), getattr(gt, function)
    for dtype in dtypes(kind):
        x, y = pair(dtype)
        agrees(f(gt.asarray(x), gt.asarray(y)), wanted(x, y).numpy(), about=f"{name} {dtype}")
        for number in numbers(dtype):
            agrees(f(gt.asarray(x), number), wanted(x, np.asarray(number, dtype)).numpy(), about=f"{name} {dtype}")
            agrees(f(number, gt.asarray(y)), wanted(np.asarray(number, dtype), y).numpy(), about=f"{name} {dtype}")


@pytest.mark.parametrize("name", BINARY)
def test_numpy_arrays_and_scalars_beside_arrays(name):
    function, kind = BINARY[name]
    f, wanted = getattr(operator, name), getattr(gt, function)
    for dtype in dtypes(kind):
        x, y = pair(dtype)
        for left, right in ((x, gt.asarray(y)), (gt.asarray(x), y), (x[0, 0], gt.asarray(y)), (gt.asarray(x), y[0])):
            agrees(f(left, right), wanted(left, right).numpy(), about=f"{name} {dtype}")


@pytest.mark.parametrize("name", ARITHMETIC)
def test_updates_bind_a_new_array_of_the_same_dtype(name):
    function, kind = ARITHMETIC[name]
    update = getattr(operator, "i" + name.strip("_"))
    for dtype in dtypes(kind):
        x, y = pair(dtype)
        before = z = gt.asarray(x)
        z = update(z, gt.asarray(y))
        agrees(z, getattr(gt, function)(x, y).numpy(), about=f"{name} {dtype}")
        agrees(before, x)
        for number in numbers(dtype):
            assert update(gt.asarray(x), number).dtype == before.dtype


def test_operators_compiled():
    operands = {dtype: pair(dtype) for dtype in DTYPES}
    each = [(dtype, name) for dtype in DTYPES for name, (_, kind) in BINARY.items() if dtype in dtypes(kind)]

    def everything(operands):
        results = [getattr(operator, name)(*operands[dtype]) for dtype, name in each]
        results += [getattr(operator, name)(operands[dtype][0], numbers(dtype)[0]) for dtype, name in each]
        return results + [getattr(operator, name)(numbers(dtype)[0], operands[dtype][1]) for dtype, name in each]

    for i, (got, wanted) in enumerate(zip(compiled(everything, operands), eager(everything, operands), strict=True)):
        agrees(got, wanted, 4 if each[i % len(each)][1] == "pow" else 0, f"{each[i % len(each)]}")


def test_matrix_products():
    for dtype in dtypes("numeric"):
        x, y = (np.arange(6).reshape(shape).astype(dtype) for shape in ((2, 3), (3, 2)))
        agrees(gt.asarray(x) @ gt.asarray(y), x @ y)
        agrees(x @ gt.asarray(y), x @ y)
        agrees(gt.asarray(x) @ y, x @ y)
        z = gt.asarray(x)
        z @= gt.asarray(np.eye(3, dtype=dtype))
        agrees(z, x)


def test_python_numbers_keep_the_dtype_and_the_other_kinds_do_not_fit():
    for dtype in dtypes("floating"):
        x = gt.ones(2, dtype=getattr(gt, dtype))
        assert all((x + n).dtype == (n + x).dtype == x.dtype for n in (1, 1.5, 2**40))
    for dtype in dtypes("integer"):
        x = gt.ones(2, dtype=getattr(gt, dtype))
        assert (x + 1).dtype == (1 - x).dtype == (x % 3).dtype == (True + x).dtype == x.dtype
        with pytest.raises(DTypeError, match="does not fit"):
            x + (np.iinfo(dtype).max + 1)
    for dtype in DTYPES:
        for attempt in (lambda x: x + 1j, lambda x: 1j * x, lambda x: x - "1", lambda x: None + x, lambda x: x @ {}):
            with pytest.raises(TypeError):
                attempt(gt.ones(2, dtype=getattr(gt, dtype)))


# ---- Python numbers of arrays ---------------------------------------------------------------------------------


def test_conversions():
    for dtype in DTYPES:
        x = gt.asarray(np.asarray(1, dtype))
        assert bool(x) is True and type(int(x)) is int and int(x) == 1
        assert type(float(x)) is float and float(x) == 1 and complex(x) == 1 + 0j
        if dtype in dtypes("integer"):
            assert operator.index(x) == 1 and [7, 8][x] == 8 and list(range(x)) == [0]
        else:
            with pytest.raises(DTypeError, match="index"):
                operator.index(x)
        assert not gt.asarray(np.asarray(0, dtype))
    for dtype in dtypes("integer"):
        for end in (np.iinfo(dtype).min, np.iinfo(dtype).max):
            assert int(gt.asarray(np.asarray(end))) == end
    for value in (-0.0, np.inf, -np.inf, 2.5e-310):
        x = gt.asarray(value, dtype=gt.float64)
        assert float(x) == value and np.signbit(float(x)) == np.signbit(value) and bool(x) == bool(value)
    nan, inf = gt.asarray(np.nan), gt.asarray(np.inf)
    assert np.isnan(float(nan)) and bool(nan) and bool(-inf) and not bool(gt.asarray(-0.0))
    assert np.isnan([complex(nan).real, complex(nan).imag]).all()
    assert complex(-inf) == complex(-np.inf, 0) and complex(gt.asarray(True)) == 1
    for x, error in ((nan, ValueError), (inf, OverflowError), (-inf, OverflowError)):
        with pytest.raises(error):
            int(x)


def test_only_one_element_is_a_number():
    for shape, f in itertools.product(((2,), (0,), (1, 3)), (bool, float, int, complex, operator.index)):
        with pytest.raises((ShapeError, DTypeError)) as caught:
            f(gt.ones(shape, dtype=gt.int64))
        assert "test_operators.py" in str(caught.value)
    with pytest.raises(ShapeError, match="no length"):
        len(gt.ones(()))
    assert len(gt.ones((3, 2))) == 3 and [x.shape for x in gt.ones((3, 2))] == [(2,)] * 3

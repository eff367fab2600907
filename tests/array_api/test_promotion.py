"""Promotion of dtypes as the array API has it, and what gtensor makes of the pairs that the standard leaves open."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError

from .standard import DTYPES, dtypes


def kind(dtype):
    """The standard's kinds: integers of both signs are one."""
    return np.dtype(dtype).kind.replace("u", "i")


def operands(a, b):
    return gt.ones(2, dtype=getattr(gt, a)), gt.ones(2, dtype=getattr(gt, b))


PAIRS = [*itertools.product(DTYPES, repeat=2)]
OF_ONE_KIND = [(a, b) for a, b in PAIRS if kind(a) == kind(b) and kind(np.result_type(a, b)) == kind(a)]
"""The pairs in the standard's tables: all of one kind but int* with uint64."""


def test_pairs_of_one_kind():
    for a, b in OF_ONE_KIND:
        wanted = np.result_type(a, b).name
        x, y = operands(a, b)
        assert gt.result_type(x.dtype, y.dtype).name == gt.result_type(x, y).name == wanted, (a, b)
        assert gt.can_cast(x.dtype, y.dtype) == gt.can_cast(x, y.dtype) == (wanted == b), (a, b)
        for other in DTYPES:
            if kind(other) == kind(a) == kind(np.result_type(np.result_type(a, b), other)):
                found = gt.result_type(getattr(gt, a), getattr(gt, b), getattr(gt, other))
                assert found.name == np.result_type(a, b, other).name


def test_any_dtype_can_be_asked_of_any_other():
    for a, b in PAIRS:
        assert gt.can_cast(getattr(gt, a), getattr(gt, b)) is (np.result_type(a, b).name == b) or kind(a) != kind(b)
        assert type(gt.can_cast(getattr(gt, a), getattr(gt, b))) is bool


def test_python_numbers_are_weak():
    for dtype in DTYPES:
        x = gt.ones(2, dtype=getattr(gt, dtype))
        fitting = {"b": [True], "i": [True, 3], "f": [True, 3, 2.5]}[kind(dtype)]
        for number in fitting:
            assert gt.result_type(x, number) == gt.result_type(number, x) == gt.result_type(x.dtype, number) == x.dtype


def test_kinds_that_meet():
    """Bool yields to numbers and integers yield to floats: the float's dtype, or the default one beside a number."""
    for a, b in PAIRS:
        x, y = operands(a, b)
        if kind(a) == "f" and kind(b) in "ib":
            assert (x + y).dtype == (y * x).dtype == gt.result_type(x, y) == x.dtype
        if kind(a) == "i" and kind(b) == "b":
            assert (x + y).dtype == (y * x).dtype == gt.result_type(x, y) == x.dtype
    for dtype in dtypes("integer or bool"):
        x = gt.ones(2, dtype=getattr(gt, dtype))
        assert (x * 2.5).dtype == (x / x).dtype == gt.mean(x).dtype == gt.sqrt(x).dtype == gt.float32
    assert (gt.asarray([True]) + 2).dtype == gt.int64


def test_no_integer_holds_all_of_int64_and_uint64():
    apart = [(a, b) for a, b in PAIRS if kind(a) == kind(b) and (a, b) not in OF_ONE_KIND]
    assert all("uint64" in pair for pair in apart)
    for a, b in apart:
        with pytest.raises(DTypeError, match="no common"):
            gt.result_type(getattr(gt, a), getattr(gt, b))


def test_compiled_results_have_the_dtypes_of_eager_ones():
    pairs = [(a, b) for a, b in PAIRS if not {a, b} & {"uint64"} or kind(a) != kind(b) or a == b]
    given = [operands(a, b) for a, b in pairs]
    results = gt.compile(lambda given: [gt.where(x == y, x, y) for x, y in given])(given)
    for (x, y), got in zip(given, results, strict=True):
        assert got.dtype == gt.where(x == y, x, y).dtype == gt.result_type(x, y)

"""What the functions of the array API make of special values, as the standard's text has it, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from tests.ways import compiled, eager

from .alike import agrees
from .special_cases import CLASSES, operands, rules
from .standard import dtypes

CASES = rules()
FLOATS = dtypes("floating")


def joined(name, dtype):
    """All operands of a function's rules in vectors, and all results."""
    each = [operands(rule, dtype) for rule in CASES[name]]
    return [np.concatenate(xs) for xs in zip(*(xs for xs, _ in each), strict=True)], np.concatenate(
        [w for _, w in each]
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CASES)
def test_eager(name, dtype):
    for rule in CASES[name]:
        xs, wanted = operands(rule, dtype)
        got = getattr(gt, name)(*map(gt.asarray, xs))
        agrees(got, wanted, 1, f"{name} {' '.join(rule)} of {[x.tolist() for x in xs]}")


def test_compiled():
    given = {(name, dtype): joined(name, dtype) for dtype in FLOATS for name in CASES}

    def everything(operands):
        return [getattr(gt, name)(*xs) for (name, _), xs in zip(given, operands, strict=True)]

    for (name, dtype), got in zip(given, compiled(everything, [xs for xs, _ in given.values()]), strict=True):
        xs, wanted = given[name, dtype]
        agrees(got, wanted, 1, f"{name} {dtype} of {xs}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_of_nan(dtype):
    def signs(x, y):
        return gt.signbit(gt.copysign(x, y)), gt.signbit(-y), gt.signbit(gt.abs(y))

    x = np.array([np.nan, -np.nan] * 3, dtype)
    y = np.array([1, 1, -0.0, -0.0, -np.nan, np.nan], dtype)
    for way in (eager, compiled):
        copied, negated, positive = way(signs, x, y)
        np.testing.assert_array_equal(copied, np.signbit(y))
        np.testing.assert_array_equal(negated, ~np.signbit(y))
        assert not positive.any()


def test_every_class_is_used_and_every_rule_has_members():
    each = [rule for found in CASES.values() for rule in found]
    used = {part for rule in each for part in rule[:-1]}
    assert {*CLASSES} <= used
    assert all(operands(rule, "float32")[1].size for rule in each)
    assert len(each) > 300

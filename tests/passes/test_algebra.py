"""Each rewrite of `algebra` in one example, and what it must leave alone because a bit would change."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.passes.algebra import HOLDS, algebra
from gtensor.passes.verify import difference
from gtensor.types import DTYPES
from tests.op_table import same_bits, special

from .graphs import AWKWARD
from .laws import left, op

F, D, N, U, C = "f32[3]", "f64[3]", "i32[3]", "u8[3]", "b1[3]"


def neg(x):
    return op("neg", x)


def no(c):
    return op("logical_not", c)


def where(c, x, y):
    """The primitive; numbers are float32, as x and y are."""
    return op("where", c, *(np.float32(z) if isinstance(z, float) else z for z in (x, y)))


REWRITES = [
    ("a + -b", lambda x, y: op("add", x, neg(y)), [F, F], ["sub(x, y)"]),
    ("-a + b", lambda x, y: op("add", neg(x), y), [N, N], ["sub(y, x)"]),
    ("a - -b", lambda x, y: op("sub", x, neg(y)), [F, F], ["add(x, y)"]),
    ("-0 - x", lambda x: op("sub", -0.0, x), [F], ["neg(x)"]),
    ("0 - x of integers", lambda x: op("sub", 0, x), [N], ["neg(x)"]),
    ("-a * -b", lambda x, y: op("mul", neg(x), neg(y)), [F, F], ["mul(x, y)"]),
    ("-a / -b", lambda x, y: op("div", neg(x), neg(y)), [F, F], ["div(x, y)"]),
    ("-a * c", lambda x: op("mul", neg(x), 3.0), [F], ["mul(x, -3.0:f32)"]),
    ("c * -a of integers", lambda x: op("mul", 3, neg(x)), [N], ["mul(-3:i32, x)"]),
    ("c / -a", lambda x: op("div", 3.0, neg(x)), [F], ["div(-3.0:f32, x)"]),
    ("x * -1", lambda x: op("mul", x, -1.0), [F], ["neg(x)"]),
    ("-1 * -x", lambda x: op("mul", -1.0, neg(x)), [F], []),
    ("-(c * x)", lambda x: neg(op("mul", 0.1, x)), [F], ["mul(-0.1:f32, x)"]),
    ("abs of a sign", lambda x: op("abs", op("abs", neg(x))), [F], ["abs(x)"]),
    ("x + x", lambda x: op("add", x, x), [F], ["mul(2.0:f32, x)"]),
    ("x + x of integers", lambda x: op("add", x, x), [U], ["mul(2:u8, x)"]),
    ("x + x of bool", lambda x: op("add", x, x), [C], []),
    ("square", lambda x: op("square", x) + op("mul", x, x), [F], ["mul(x, x)", "mul(2.0:f32, t0)"]),
    ("reciprocal", lambda x: op("reciprocal", x), [F], ["div(1.0:f32, x)"]),
    ("x / 8", lambda x: op("div", x, 8.0), [F], ["mul(x, 0.125:f32)"]),
    ("x / -0.5", lambda x: op("div", x, -0.5), [D], ["mul(x, -2.0:f64)"]),
    ("x / -1", lambda x: op("div", x, -1.0), [F], ["neg(x)"]),
    ("the largest power", lambda x: op("div", x, 2.0**126), [F], ["mul(x, 1.1754944e-38:f32)"]),
    ("x ** 0", lambda x: op("pow", x, 0.0), [F], ["broadcast(1.0:f32, shape=(3))"]),
    ("larger of one", lambda x: op("max2", x, x), [F], []),
    ("there and back", lambda x: op("cast", op("cast", x, dtype=gt.float64, weak=False), dtype=gt.float32, weak=False),
     [F], []),
    ("by way of a wider one",
     lambda x: op("cast", op("cast", x, dtype=gt.int64, weak=False), dtype=gt.uint8, weak=False), [N],
     ["cast(x, dtype=uint8, weak=False)"]),
    ("exchanged operands", lambda x, y: (op("mul", x, y), op("mul", y, x)), [F, F], ["mul(x, y)"]),
    ("mirrored comparisons", lambda x, y: (op("lt", x, y), op("gt", y, x)), [F, F], ["lt(x, y)"]),
    ("not ==", lambda x, y: no(op("eq", x, y)), [F, F], ["ne(x, y)"]),
    ("not !=", lambda x, y: no(op("ne", x, y)), [F, F], ["eq(x, y)"]),
    ("not < of integers", lambda x, y: no(op("lt", x, y)), [N, N], ["ge(x, y)"]),
    ("not >= of bool", lambda x, y: no(op("ge", x, y)), [C, C], ["lt(x, y)"]),
    ("c and c", lambda c: op("logical_and", c, c), [C], []),
    ("x | x", lambda x: op("bitwise_or", x, x), [N], []),
    ("c and True", lambda c: op("logical_and", c, True), [C], []),
    ("False and c", lambda c: op("logical_and", False, c), [C], ["broadcast(False:b1, shape=(3))"]),
    ("c or False", lambda c: op("logical_or", c, False), [C], []),
    ("c or True", lambda c: op("logical_or", c, True), [C], ["broadcast(True:b1, shape=(3))"]),
    ("c xor False", lambda c: op("logical_xor", c, False), [C], []),
    ("c xor True", lambda c: op("logical_xor", c, True), [C], ["logical_not(c)"]),
    ("c and (c and d)", lambda c, d: op("logical_and", c, op("logical_and", d, c)), [C, C], ["logical_and(d, c)"]),
    ("c and (c or d)", lambda c, d: op("logical_and", c, op("logical_or", c, d)), [C, C], []),
    ("(c and d) or c", lambda c, d: op("logical_or", op("logical_and", c, d), c), [C, C], []),
    ("c == True", lambda c: op("eq", c, True), [C], []),
    ("c == False", lambda c: op("eq", c, False), [C], ["logical_not(c)"]),
    ("c != True", lambda c: op("ne", c, True), [C], ["logical_not(c)"]),
    ("c != False", lambda c: op("ne", False, c), [C], []),
    ("where(True, 2, x)", lambda x: op("where", True, np.float32(2), x), [F], ["broadcast(2.0:f32, shape=(3))"]),
    ("where(False, x, 2)", lambda x: op("where", False, x, np.float32(2)), [F], ["broadcast(2.0:f32, shape=(3))"]),
    ("where(c, 2, 2)", lambda c: op("where", c, np.float32(2), np.float32(2)) * np.float32(3), [C],
     ["broadcast(6.0:f32, shape=(3))"]),
    ("where(c, True, False)", lambda c: op("where", c, True, False), [C], []),
    ("where(c, False, True)", lambda c: op("where", c, False, True), [C], ["logical_not(c)"]),
    ("where(not c)", lambda c, x, y: op("where", no(c), x, y), [C, F, F], ["where(c, y, x)"]),
    ("where(c, where(c, …), …)", lambda c, x, y, z: op("where", c, op("where", c, x, y), z), [C, F, F, F],
     ["where(c, x, z)"]),
    ("where(c, …, where(c, …))", lambda c, x, y, z: op("where", c, x, op("where", c, y, z)), [C, F, F, F],
     ["where(c, x, z)"]),
    ("masked once", lambda c, x: where(c, where(c, x, 0.0), 0.0), [C, F], ["where(c, x, 0.0:f32)"]),
    ("a masked sum",
     lambda c, d, x, y: where(c, where(c, x, 0.0) + where(op("logical_and", c, d), y, 0.0), 0.0),
     [C, C, F, F],
     ["where(c, x, 0.0:f32)", "logical_and(c, d)", "where(t1, y, 0.0:f32)", "add(t0, t2)"]),
    ("a masked sum, the other way",
     lambda c, d, x, y: where(c, 0.0, where(c, 0.0, x) + where(op("logical_or", d, c), 0.0, y)),
     [C, C, F, F],
     ["where(c, 0.0:f32, x)", "logical_or(d, c)", "where(t1, 0.0:f32, y)", "add(t0, t2)"]),
]  # fmt: skip

KEPT = [
    ("x + 0 makes 0 of -0", lambda x: op("add", x, 0.0), [F], ["add(x, 0.0:f32)"]),
    ("0 - x makes 0 of 0", lambda x: op("sub", 0.0, x), [F], ["sub(0.0:f32, x)"]),
    ("x * 0 keeps NaN", lambda x: op("mul", x, 0.0), [F], ["mul(x, 0.0:f32)"]),
    ("x - x keeps NaN", lambda x: op("sub", x, x), [F], ["sub(x, x)"]),
    ("-(a - b) is -0 where b - a is 0", lambda x, y: neg(op("sub", x, y)), [F, F], ["sub(x, y)", "neg(t0)"]),
    ("-a - b is 0 where -(a + b) is -0", lambda x, y: op("sub", neg(x), y), [F, F], ["neg(x)", "sub(t0, y)"]),
    ("uint8 has no -c", lambda x: op("mul", neg(x), 3), [U], ["neg(x)", "mul(t0, 3:u8)"]),
    ("1/3 is rounded", lambda x: op("div", x, 3.0), [F], ["div(x, 3.0:f32)"]),
    ("2**127 has a denormal reciprocal", lambda x: op("div", x, 2.0**127), [F], ["div(x, 1.7014118e+38:f32)"]),
    ("a denormal divisor", lambda x: op("div", x, 2.0**-140), [F], ["div(x, 7.17e-43:f32)"]),
    ("an infinite divisor", lambda x: op("div", x, math.inf), [F], ["div(x, inf:f32)"]),
    ("denormals lose bits twice", lambda x: op("mul", 0.5, op("mul", 0.25, x)), [F],
     ["mul(0.25:f32, x)", "mul(0.5:f32, t0)"]),
    ("pow rounds in its own way", lambda x: op("pow", x, 2.0), [F], ["pow(x, 2.0:f32)"]),
    ("max takes the second of equal zeros", lambda x, y: (op("max2", x, y), op("max2", y, x)), [F, F],
     ["max2(x, y)", "max2(y, x)"]),
    ("not (a < b) holds for NaN", lambda x, y: no(op("lt", x, y)), [F, F], ["lt(x, y)", "logical_not(t0)"]),
    ("float32 does not hold every int32",
     lambda x: op("cast", op("cast", x, dtype=gt.float32, weak=False), dtype=gt.float64, weak=False), [N],
     ["cast(x, dtype=float32, weak=False)", "cast(t0, dtype=float64, weak=False)"]),
    ("another condition", lambda c, d, x: where(c, where(d, x, 0.0), 0.0), [C, C, F],
     ["where(d, x, 0.0:f32)", "where(c, t0, 0.0:f32)"]),
    ("a wider condition",
     lambda c, d, x: where(c, where(op("logical_or", c, d), x, 0.0) + 0.0, 0.0), [C, C, F],
     ["logical_or(c, d)", "where(t0, x, 0.0:f32)", "add(t1, 0.0:f32)", "where(c, t2, 0.0:f32)"]),
    ("masked by -0", lambda c, x, y: where(c, where(c, x, -0.0) + where(c, y, -0.0), 0.0), [C, F, F],
     ["where(c, x, -0.0:f32)", "where(c, y, -0.0:f32)", "add(t0, t1)", "where(c, t2, 0.0:f32)"]),
]  # fmt: skip


def equations(fn, types):
    return [line.split(" = ")[1] for line in left(algebra, fn, *types)[:-1]]


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in REWRITES])
def test_rewrites(fn, types, expected):
    assert equations(fn, types) == expected


@pytest.mark.parametrize("fn, types, expected", [pytest.param(*c[1:], id=c[0]) for c in KEPT])
def test_what_is_not_bit_equal_stays(fn, types, expected):
    assert equations(fn, types) == expected


CLAIMS = [
    ("a + -b", lambda a, b: a + -b, lambda a, b: a - b),
    ("a - -b", lambda a, b: a - -b, lambda a, b: a + b),
    ("-a * -b", lambda a, b: -a * -b, lambda a, b: a * b),
    ("-a / -b", lambda a, b: -a / -b, lambda a, b: a / b),
    ("-a / b against a / -b", lambda a, b: -a / b, lambda a, b: a / -b),
    ("-(a * b)", lambda a, b: -(a * b), lambda a, b: -a * b),
    ("-0 - a", lambda a, b: np.float32(-0.0) - a, lambda a, b: -a),
    ("a + a", lambda a, b: a + a, lambda a, b: np.float32(2) * a),
    ("a / 4", lambda a, b: a / np.float32(4), lambda a, b: a * np.float32(0.25)),
    ("a / 2**-126", lambda a, b: a / np.float32(2**-126), lambda a, b: a * np.float32(2.0**126)),
    ("a / 2**126", lambda a, b: a / np.float32(2.0**126), lambda a, b: a * np.float32(2.0**-126)),
    ("reciprocal", lambda a, b: np.reciprocal(a), lambda a, b: np.float32(1) / a),
    ("square", lambda a, b: np.square(a), lambda a, b: a * a),
    ("a ** 0", lambda a, b: np.power(a, np.float32(0)), lambda a, b: np.ones_like(a)),
]  # fmt: skip


@pytest.mark.parametrize("old, new", [pytest.param(*c[1:], id=c[0]) for c in CLAIMS])
def test_arithmetic_claims_hold_for_all_bits(old, new):
    """On awkward values, against each other, and on random bits, which are numbers of every size."""
    rng = np.random.default_rng(0)
    values = np.concatenate([np.float32(AWKWARD), rng.integers(0, 2**32, 4000, np.uint32).view(np.float32)])
    a, b = values[:, None], values[None, :40]
    with np.errstate(all="ignore"):
        assert difference(np.asarray(old(a, b)), np.asarray(new(a, b))) == ""


def test_dtypes_hold_what_is_claimed():
    for small, wider in HOLDS.items():
        for big in wider:
            assert same_bits(special(small).astype(big.dtype).astype(small.dtype), special(small)), (small, big)
    assert set(HOLDS) <= set(DTYPES)


def test_a_long_masked_sum_is_left_alone():
    def fn(c, x):
        total = gt.where(c, x, 0.0)
        for i in range(12):
            total = total + gt.where(c, x * float(i + 2), 0.0)
        return gt.where(c, total, 0.0)

    assert equations(fn, [C, F])[-1] == "where(c, total_2, 0.0:f32)"


def test_the_mask_of_a_relu_is_one_comparison():
    gradient = gt.grad(lambda x: gt.sum(gt.relu(x) * 3.0))
    assert equations(lambda x: gradient(x), [F]) == ["le(x, 0.0:f32)", "where(t0, 0.0:f32, 3.0:f32)"]

"""templates/gt_scalar.h: every function against NumPy over awkward values, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.c_headers import CTYPES, SIGNED, UNDEFINED, UNSIGNED, assert_same_bits, awkward, grid
from tests.codegen.c_headers import NUMPY as DTYPES

HEADER = "gt_scalar.h"
C_NAMES = {**CTYPES, "b1": "int"}
FLOATS, INTEGERS = ("f32", "f64"), (*SIGNED, *UNSIGNED)
NUMBERS, ALL = (*FLOATS, *INTEGERS), tuple(DTYPES)
ARITHMETIC = (*NUMBERS, "b1")


def integer_power(base, exponent):
    """NumPy's power, and for the exponents it refuses the true power cut towards 0."""
    power = np.power(base, np.where(exponent < 0, 0, exponent).astype(base.dtype))
    odd = np.where(exponent % 2 == 0, 1, -1).astype(base.dtype) if base.dtype.kind == "i" else 1
    minus_one = base == -1 if base.dtype.kind == "i" else np.zeros(base.shape, bool)
    below = np.where(base == 1, 1, np.where(minus_one, odd, 0)).astype(base.dtype)
    return np.where(exponent < 0, below, power)


# name -> (reference, tags); the arguments and the result have the tag's dtype.
UNARY = {
    "neg": (np.negative, NUMBERS),
    "abs": (np.abs, NUMBERS),
    "sign": (np.sign, NUMBERS),
    "square": (np.square, NUMBERS),
    "not": (np.invert, (*INTEGERS, "b1")),
    "sqrt": (np.sqrt, FLOATS),
    "rsqrt": (lambda a: 1 / np.sqrt(a), FLOATS),
    "reciprocal": (np.reciprocal, FLOATS),
    "floor": (np.floor, FLOATS),
    "ceil": (np.ceil, FLOATS),
    "trunc": (np.trunc, FLOATS),
    "round": (np.rint, FLOATS),
}
BINARY = {
    "add": (np.add, ARITHMETIC),
    "sub": (np.subtract, NUMBERS),
    "mul": (np.multiply, ARITHMETIC),
    "div": (np.divide, FLOATS),
    "floor_divide": (np.floor_divide, NUMBERS),
    "remainder": (np.remainder, NUMBERS),
    "pow": (integer_power, INTEGERS),
    "max": (np.maximum, ALL),
    "min": (np.minimum, ALL),
    "and": (np.bitwise_and, (*INTEGERS, "b1")),
    "or": (np.bitwise_or, (*INTEGERS, "b1")),
    "xor": (np.bitwise_xor, (*INTEGERS, "b1")),
    "shift_left": (np.left_shift, INTEGERS),
    "shift_right": (np.right_shift, INTEGERS),
}
TESTS = {
    "isnan": (np.isnan, FLOATS),
    "isinf": (np.isinf, FLOATS),
    "isfinite": (np.isfinite, FLOATS),
}
COMPARISONS = {
    "eq": (np.equal, ALL),
    "ne": (np.not_equal, ALL),
    "lt": (np.less, ALL),
    "le": (np.less_equal, ALL),
    "gt": (np.greater, ALL),
    "ge": (np.greater_equal, ALL),
    "argmax": (lambda a, b: np.argmax(np.stack([b, a]), axis=0) == 1, ALL),
    "argmin": (lambda a, b: np.argmin(np.stack([b, a]), axis=0) == 1, ALL),
}
CASES = [
    (f"gt_{name}_{tag}", (tag,) * arity, tag if keeps else "b1", reference)
    for table, arity, keeps in ((UNARY, 1, True), (BINARY, 2, True), (TESTS, 1, False), (COMPARISONS, 2, False))
    for name, (reference, tags) in table.items()
    for tag in tags
]
CASTS = [(f"gt_cast_{a}_{b}", (a,), b) for a in ALL for b in ALL]
WHERES = [(f"gt_where_{tag}", ("b1", tag, tag), tag) for tag in ALL]
FMAS = [(f"gt_fma_{tag}", (tag, tag, tag), tag) for tag in FLOATS]
SIGNATURES = [*((name, args, result) for name, args, result, _ in CASES), *CASTS, *WHERES, *FMAS]


@pytest.mark.parametrize(("name", "args", "result", "reference"), CASES, ids=[c[0] for c in CASES])
def test_agrees_with_numpy(c_functions, name, args, result, reference):
    inputs = grid(args)
    with np.errstate(all="ignore"):
        wanted = np.asarray(reference(*inputs)).astype(DTYPES[result])
    assert_same_bits(c_functions[name](*inputs), wanted, inputs)


def cast_value(value, tag):
    """What casting one number gives: floats truncate and saturate, NaN is 0, integers wrap."""
    dtype = DTYPES[tag]
    if tag in FLOATS or tag == "b1":
        return dtype(value)
    info = np.iinfo(dtype)
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return dtype(0)
        return dtype(info.max if value >= info.max else info.min if value <= info.min else int(value))
    return np.array(int(value) % 2**64, np.uint64).astype(dtype)


@pytest.mark.parametrize(("name", "args", "result"), CASTS, ids=[c[0] for c in CASTS])
def test_casts(c_functions, name, args, result):
    (values,) = inputs = grid(args)
    with np.errstate(all="ignore"):
        wanted = np.array([cast_value(v.item(), result) for v in values], DTYPES[result])
    assert_same_bits(c_functions[name](*inputs), wanted, inputs)


@pytest.mark.parametrize("tag", ALL)
def test_where(c_functions, tag):
    inputs = grid(("b1", tag, tag))
    assert_same_bits(c_functions[f"gt_where_{tag}"](*inputs), np.where(*inputs), inputs)


def test_a_product_and_a_difference_are_not_contracted(c_functions):
    a = np.array([0.1, 1 / 3, 1e10 + 1], np.float32)
    product = c_functions["gt_mul_f32"](a, a)
    assert_same_bits(c_functions["gt_sub_f32"](product, product), np.zeros(3, np.float32), (a,))


@pytest.mark.parametrize("tag", FLOATS)
def test_fma_rounds_once_or_twice(c_functions, tag):
    """(1 + d)² − (1 + 2d) is d² when rounded once and 0 when rounded twice, for d² below half an ulp."""
    d = 2.0**-13 if tag == "f32" else 2.0**-28
    a = np.full(37, 1 + d, DTYPES[tag])
    got = c_functions[f"gt_fma_{tag}"](a, a, -(1 + 2 * d) * np.ones(37))
    assert set(got.tolist()) in ({d * d}, {0.0})


def c_literal(value, tag):
    """The value as a C constant expression."""
    if tag in FLOATS:
        return float.hex(float(value)).replace("inf", "INFINITY").replace("nan", "NAN")
    if tag in UNSIGNED:
        return f"UINT64_C({int(value)})"
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({int(value)})"


VECTORS = """
#include "gt_scalar.h"
#include <stdio.h>
#include <string.h>

#define CHECK(type, bytes, d)                                                                     \\
    do {                                                                                          \\
        typedef type vector __attribute__((vector_size(bytes)));                                  \\
        type one = 1, fused, lane[(bytes) / sizeof(type)];                                        \\
        vector a = (vector){0} + (one + (d));                                                     \\
        vector r = VFMA(a, a, (vector){0} - (one + 2 * (d)));                                     \\
        fused = VFMA(one + (d), one + (d), -(one + 2 * (d)));                                     \\
        memcpy(lane, &r, sizeof r);                                                               \\
        for (unsigned i = 0; i < (bytes) / sizeof(type); i++)                                     \\
            if (lane[i] != (GT_FUSED ? (d) * (d) : 0) || fused != lane[i])                        \\
                printf("%s x %d: %g\\n", #type, (int)((bytes) / sizeof(type)), (double)lane[i]);  \\
    } while (0)

int main(void)
{
    CHECK(float, 16, 0x1p-13f);
    CHECK(double, 16, 0x1p-28);
#ifdef __AVX__
    CHECK(float, 32, 0x1p-13f);
    CHECK(double, 32, 0x1p-28);
#endif
#ifdef __AVX512F__
    CHECK(float, 64, 0x1p-13f);
    CHECK(double, 64, 0x1p-28);
#endif
    return 0;
}
"""


def test_vfma_takes_every_vector_of_the_target(c_program):
    assert c_program(VECTORS) == ""


def test_nothing_is_undefined(c_program):
    """All functions over all pairs and triples of awkward values, under the undefined-behaviour sanitizer."""
    text = [f'#include "{HEADER}"', "static volatile double sink;", "int main(void)", "{"]
    for tag in ALL:
        values = ", ".join(c_literal(v, tag) for v in awkward(tag))
        text.append(f"    static const {C_NAMES[tag]} {tag}[] = {{{values}}};")
    text += [f"    enum {{ {', '.join(f'n_{tag} = {len(awkward(tag))}' for tag in ALL)} }};"]
    for name, args, _ in SIGNATURES:
        loops = "".join(f"for (int i{k} = 0; i{k} < n_{tag}; i{k}++) " for k, tag in enumerate(args))
        text.append(f"    {loops}sink = (double){name}({', '.join(f'{tag}[i{k}]' for k, tag in enumerate(args))});")
    assert c_program("\n".join([*text, "    return 0;", "}"]), *UNDEFINED) == ""

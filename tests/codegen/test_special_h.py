"""templates/gt_special.h: every function against mpmath, in units in the last place, and at its special points.

The bounds are those that the table of the header states. float64 and float32 are measured in the build with fused
multiply-add and in the one without; the other compiler must agree within the bounds as well.
"""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import special

from tests.codegen.c_headers import SCALAR, UNDEFINED, Build, assert_same_bits

HEADER = "gt_special.h"
TABLE = (Path(__file__).resolve().parents[2] / "templates" / HEADER).read_text(encoding="utf-8")
DTYPES = {"f32": np.float32, "f64": np.float64}
INF, NAN = np.inf, np.nan
COUNT = 150


def sized(random, low, high, signed=False, count=COUNT):
    """Numbers of all sizes between two bounds."""
    values = np.exp(random.uniform(math.log(low), math.log(high), count))
    return values * random.choice([-1, 1], count) if signed else values


def shapes(random):
    """Pairs (a, x) of incomplete gamma functions: some with x near a, some anywhere."""
    a, far = sized(random, 0.01, 2000), sized(random, 0.01, 2000)
    near = a * np.exp(random.normal(size=COUNT) * 2 / np.sqrt(a + 0.1))
    return a, np.where(random.uniform(size=COUNT) < 0.6, near, far)


def inverse_erf(x):
    """By the secant method from scipy's value: mpmath's own start is too far off near 1."""
    return mpmath.findroot(lambda y: mpmath.erf(y) - x, special.erfinv(float(x)))


def log_gamma(x):
    return mpmath.loggamma(x) if x > 0 else mpmath.log(abs(mpmath.gamma(x)))


# name -> (reference in mpmath, what draws the operands)
UNARY = {
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), lambda r: sized(r, 1e-300, 1e300, True)),
    "acosh": (mpmath.acosh, lambda r: 1 + sized(r, 1e-12, 1e10)),
    "asinh": (mpmath.asinh, lambda r: sized(r, 1e-12, 1e10, True)),
    "atanh": (mpmath.atanh, lambda r: r.uniform(-1, 1, COUNT)),
    "sinc": (lambda x: mpmath.sinpi(x) / (mpmath.pi * x), lambda r: sized(r, 1e-9, 40, True)),
    "sinc_slope": (
        lambda x: (mpmath.cospi(x) - mpmath.sinpi(x) / (mpmath.pi * x)) / x,
        lambda r: sized(r, 1e-3, 40, True),
    ),
    "lgamma": (log_gamma, lambda r: np.concatenate([sized(r, 1e-9, 200), r.uniform(-20, 20, COUNT)])),
    "digamma": (
        mpmath.digamma,
        lambda r: np.concatenate([sized(r, 1e-9, 200), r.uniform(-20, 20, COUNT), 1.46 + sized(r, 1e-9, 0.1)]),
    ),
    "erfinv": (inverse_erf, lambda r: np.concatenate([sized(r, 1e-12, 0.9, True), 1 - sized(r, 1e-15, 0.1)])),
    "i0": (lambda x: mpmath.besseli(0, x), lambda r: sized(r, 1e-3, 700, True)),
    "i1": (lambda x: mpmath.besseli(1, x), lambda r: sized(r, 1e-3, 700, True)),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), lambda r: sized(r, 1e-3, 1e4, True)),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), lambda r: sized(r, 1e-3, 1e4, True)),
    "logit": (
        lambda x: mpmath.log(x / (1 - x)),
        lambda r: np.concatenate([r.uniform(0, 1, COUNT), sized(r, 1e-9, 0.5), 0.5 + sized(r, 1e-9, 0.3, True)]),
    ),
    "entr": (lambda x: -x * mpmath.log(x), lambda r: sized(r, 1e-9, 1e9)),
}
BINARY = {
    "logaddexp": (lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)), lambda r: r.uniform(-50, 50, (2, COUNT))),
    "logaddexp2": (
        lambda a, b: mpmath.log(mpmath.mpf(2) ** a + mpmath.mpf(2) ** b, 2),
        lambda r: r.uniform(-50, 50, (2, COUNT)),
    ),
    "xlogy": (lambda x, y: x * mpmath.log(y), lambda r: (r.uniform(-50, 50, COUNT), sized(r, 1e-9, 1e9))),
    "xlog1py": (lambda x, y: x * mpmath.log1p(y), lambda r: (r.uniform(-50, 50, COUNT), sized(r, 1e-9, 1e9))),
    "gammainc": (lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), shapes),
    "gammaincc": (lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True), shapes),
    "gamma_density": (lambda a, x: mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a)), shapes),
    "betaln": (
        lambda a, b: mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b),
        lambda r: (sized(r, 0.01, 2000), sized(r, 0.01, 2000)),
    ),
}
ORDERED = {
    "polygamma": (
        lambda n, x: (-1) ** (int(n) + 1) * mpmath.factorial(int(n)) * mpmath.zeta(int(n) + 1, x),
        lambda r: (r.integers(1, 6, COUNT), sized(r, 0.01, 200)),
    ),
    "ive": (
        lambda n, x: mpmath.besseli(int(n), x) * mpmath.exp(-abs(x)),
        lambda r: (r.integers(2, 6, COUNT), sized(r, 1e-3, 1e4, True)),
    ),
}
EVERY = UNARY | BINARY | ORDERED
CROSSING = ("sinc_slope", "lgamma", "digamma", "betaln")
INCOMPLETE = ("gammainc", "gammaincc", "gamma_density")


def operand_tags(name, tag):
    return (tag,) if name in UNARY else (tag, tag) if name in BINARY else ("i32", tag)


SIGNATURES = [(f"gt_sf_{name}_{tag}", operand_tags(name, tag), tag) for name in EVERY for tag in DTYPES]


@pytest.fixture(scope="module")
def libraries(c_folder):
    return {build: build.functions(HEADER, SIGNATURES, c_folder) for build in SCALAR}


def test_the_table_lists_every_function():
    listed = re.findall(r"^ \*   (\w+) +[\d.]+ +\S", TABLE, re.MULTILINE)
    defined = set(re.findall(r"gt_sf_(\w+)_f64\(", TABLE))
    assert len(listed) == len(set(listed)) and set(listed) == defined == set(EVERY)


@functools.cache
def case(name, tag):
    """The operands of a function, rounded to the dtype, and the exact results."""
    reference, draw = EVERY[name]
    drawn = draw(np.random.default_rng(sum(map(ord, name))))
    rows = [drawn] if name in UNARY else list(drawn)
    with np.errstate(over="ignore"):
        rows = [row.astype(np.int32 if row.dtype.kind == "i" else DTYPES[tag]) for row in rows]
    with mpmath.workdps(40):
        wanted = [reference(*(mpmath.mpf(v.item()) for v in at)) for at in zip(*rows, strict=True)]
    return rows, wanted


def unit(wanted, bits, lowest):
    """A unit in the last place at that number."""
    return mpmath.ldexp(1, max(mpmath.frexp(wanted)[1] - bits, lowest))


@pytest.mark.parametrize("name", EVERY)
def test_float64(libraries, name):
    figure = float(re.search(rf"^ \*   {name} +([\d.]+) ", TABLE, re.MULTILINE)[1])
    rows, wanted = case(name, "f64")
    for build, functions in libraries.items():
        got = functions[f"gt_sf_{name}_f64"](*rows)
        for at, found, exact in zip(zip(*rows, strict=True), got, wanted, strict=True):
            if abs(exact) < 1e-290:
                assert abs(found) < 1e-289, (name, at)
                continue
            allowed = figure + (3 * abs(float(mpmath.log(exact))) if name in INCOMPLETE else 0)
            bound = allowed * unit(exact, 53, -1074)
            if name in CROSSING:
                bound = max(bound, mpmath.mpf(5e-15))
            error = abs(mpmath.mpf(float(found)) - exact)
            assert error <= bound, f"{name}{at} of {build}: {float(error / unit(exact, 53, -1074)):.1f} ulp"


@pytest.mark.parametrize("name", EVERY)
def test_float32(libraries, name):
    rows, wanted = case(name, "f32")
    for build, functions in libraries.items():
        got = functions[f"gt_sf_{name}_f32"](*rows)
        for at, found, exact in zip(zip(*rows, strict=True), got, wanted, strict=True):
            if not mpmath.isfinite(exact) or abs(exact) >= 3.4028235e38:
                assert found == mpmath.sign(exact) * INF, (name, at)
                continue
            error = abs(mpmath.mpf(float(found)) - exact) / unit(exact, 24, -149)
            assert error <= 0.51, f"{name}{at} of {build}: {float(error):.3f} ulp"


ODD = ((0.0, 0.0), (-0.0, -0.0), (NAN, NAN))
POINTS = {
    "cbrt": (*ODD, (INF, INF), (-INF, -INF), (27.0, 3.0), (-8.0, -2.0)),
    "acosh": ((1.0, 0.0), (INF, INF), (0.5, NAN), (-INF, NAN), (NAN, NAN)),
    "asinh": (*ODD, (INF, INF), (-INF, -INF)),
    "atanh": (*ODD, (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)),
    "sinc": ((0.0, 1.0), (-0.0, 1.0), (2.0, 0.0), (-5.0, -0.0), (1e30, 0.0), (INF, NAN), (NAN, NAN)),
    "sinc_slope": ((0.0, -0.0), (-0.0, 0.0), (1.0, -1.0), (2.0, 0.5), (INF, NAN), (NAN, NAN)),
    "lgamma": ((0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, 0.0), (-3.0, INF), (INF, INF), (-INF, INF), (NAN, NAN)),
    "digamma": ((0.0, -INF), (-0.0, INF), (-3.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)),
    "erfinv": (*ODD, (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN)),
    "i0": ((0.0, 1.0), (-0.0, 1.0), (1e4, INF), (INF, INF), (-INF, INF), (NAN, NAN)),
    "i1": (*ODD, (1e4, INF), (-1e4, -INF), (INF, INF), (-INF, -INF)),
    "i0e": ((0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 0.0), (NAN, NAN)),
    "i1e": (*ODD, (INF, 0.0), (-INF, -0.0)),
    "logit": ((0.0, -INF), (1.0, INF), (0.5, 0.0), (-0.5, NAN), (1.5, NAN), (INF, NAN), (NAN, NAN)),
    "entr": ((0.0, 0.0), (-0.0, 0.0), (1.0, -0.0), (-1.0, -INF), (INF, -INF), (-INF, -INF), (NAN, NAN)),
}
PAIRS = {
    "logaddexp": ((INF, INF, INF), (-INF, -INF, -INF), (INF, -INF, INF), (-INF, 3.0, 3.0), (NAN, 0.0, NAN)),
    "logaddexp2": ((INF, INF, INF), (-INF, -INF, -INF), (3.0, 3.0, 4.0), (-INF, 3.0, 3.0), (NAN, 0.0, NAN)),
    "xlogy": ((0.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, INF, 0.0), (0.0, NAN, NAN), (2.0, 0.0, -INF), (1.0, -1.0, NAN)),
    "xlog1py": ((0.0, -1.0, 0.0), (0.0, -2.0, 0.0), (0.0, NAN, NAN), (2.0, -1.0, -INF), (1.0, -2.0, NAN)),
    "gammainc": (
        (2.0, 0.0, 0.0), (2.0, INF, 1.0), (0.0, 2.0, 1.0), (INF, 2.0, 0.0), (0.0, 0.0, NAN), (INF, INF, NAN),
        (-1.0, 2.0, NAN), (2.0, -1.0, NAN), (NAN, 1.0, NAN), (1e30, 1e3, 0.0), (1e3, 1e30, 1.0), (1e-40, 1.0, 1.0),
    ),
    "gammaincc": (
        (2.0, 0.0, 1.0), (2.0, INF, 0.0), (0.0, 2.0, 0.0), (INF, 2.0, 1.0), (0.0, 0.0, NAN), (INF, INF, NAN),
        (-1.0, 2.0, NAN), (2.0, -1.0, NAN), (NAN, 1.0, NAN), (1e30, 1e3, 1.0), (1e3, 1e30, 0.0),
    ),
    "gamma_density": (
        (0.5, 0.0, INF), (1.0, 0.0, 1.0), (2.0, 0.0, 0.0), (2.0, INF, 0.0), (0.0, 1.0, 0.0), (-1.0, 1.0, NAN),
        (1.0, -1.0, NAN), (NAN, 1.0, NAN),
    ),
    "betaln": (
        (0.0, 2.0, INF), (2.0, 0.0, INF), (INF, 2.0, -INF), (1.0, 1.0, 0.0), (-1.0, 2.0, NAN), (2.0, -0.5, NAN),
        (NAN, 1.0, NAN),
    ),
    "polygamma": (
        (0, 0.0, -INF), (1, 0.0, INF), (2, 0.0, -INF), (1, -3.0, INF), (2, -3.0, -INF), (1, INF, 0.0), (2, INF, -0.0),
        (1, -INF, INF), (-1, 2.0, NAN), (1, NAN, NAN), (0, -3.0, NAN),
    ),
    "ive": ((2, 0.0, 0.0), (3, -0.0, -0.0), (2, INF, 0.0), (3, -INF, -0.0), (-1, 1.0, NAN), (2, NAN, NAN)),
}  # fmt: skip


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", EVERY)
def test_special_points(libraries, name, tag):
    *rows, wanted = np.array((POINTS | PAIRS)[name], np.float64).T
    tags = operand_tags(name, tag)
    with np.errstate(all="ignore"):
        rows = [row.astype(np.int32 if t == "i32" else DTYPES[tag]) for row, t in zip(rows, tags, strict=True)]
    for build, functions in libraries.items():
        got = functions[f"gt_sf_{name}_{tag}"](*rows)
        assert_same_bits(got, wanted.astype(DTYPES[tag]), rows, f"{name} of {build}")


@pytest.mark.parametrize("order", range(6))
def test_polygamma_and_bessel_functions_of_large_or_negative_arguments(libraries, order):
    """Left of 0 through the sum over all whole numbers, and where the chain of orders runs up and down."""
    left = np.array([-0.3, -0.75, -2.4, -7.6, -1e-9, -123.2])
    with mpmath.workdps(40):
        poles = [mpmath.polygamma(order, mpmath.mpf(float(x))) for x in left]
        sides = np.array([10.0, 10.5, 11.0, 24.0, 26.0, 40.0, 3e5])
        bessel = [mpmath.besseli(order, mpmath.mpf(float(x))) * mpmath.exp(-mpmath.mpf(float(x))) for x in sides]
    for functions in libraries.values():
        got = functions["gt_sf_polygamma_f64"](np.full(len(left), order), left)
        np.testing.assert_allclose(got, np.array(poles, float), rtol=1e-13)
        got = functions["gt_sf_ive_f64"](np.full(len(sides), order), sides)
        np.testing.assert_allclose(got, np.array(bessel, float), rtol=2e-15)


def test_gammainc_of_large_shapes(libraries):
    """By the uniform expansion from a = 200 on, on both sides of its border."""
    a = np.array([199.9, 200.1, 300.0, 1e3, 1e4, 1e6, 250.0, 500.0])
    x = a * np.array([1.1, 1.1, 0.85, 0.79, 1.01, 1.001, 1.21, 0.99])
    with mpmath.workdps(40):
        lower = [mpmath.gammainc(mpmath.mpf(float(s)), 0, mpmath.mpf(float(t)), regularized=True)
                 for s, t in zip(a, x, strict=True)]  # fmt: skip
    for functions in libraries.values():
        got, rest = functions["gt_sf_gammainc_f64"](a, x), functions["gt_sf_gammaincc_f64"](a, x)
        np.testing.assert_allclose(got, np.array(lower, float), rtol=1e-13)
        np.testing.assert_allclose(rest, np.array([1 - v for v in lower], float), rtol=1e-13)


def test_nothing_is_undefined(c_folder):
    """Every function over a sweep of bit patterns, under the undefined-behaviour sanitizer."""
    text = [f'#include "{HEADER}"', "static volatile double sink;", "int main(void)", "{"]
    text += ["    for (uint64_t k = 0; k < 4096; k++) {"]
    text += ["        double x = gt_from_bits(k << 52 | k * 40503), y = gt_from_bits((k * 2654435761u) << 32);"]
    for operands, table in (("x", UNARY), ("x, y", BINARY), ("(double)(k % 5), x", ORDERED)):
        text += [f"        sink = gt_sf_{name}_f64({operands});" for name in table]
    program = "\n".join([*text, "    }", "    return 0;", "}"])
    assert Build(SCALAR[0].compiler, "native").run(program, c_folder, *UNDEFINED) == ""

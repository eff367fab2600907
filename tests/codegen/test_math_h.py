"""templates/gt_math.h and what it includes: every function against a reference, in units in the last place.

float32 is compared with float64 over a sweep of all bit patterns, float64 with mpmath at a few thousand points. The
bounds are those the table of gt_math.h states; where a float64 function is the C library's own, 2 is asked of it.
Vectors of every width and the other compiler must give the same bits. `--fuzz N` makes the sweep denser: 100 is what
is done without it.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import settings
from scipy import special

from tests.codegen.c_headers import COMPILERS, SCALAR, UNDEFINED, VECTOR, Build, assert_same_bits

HEADER = "gt_math.h"
TABLE = (Path(__file__).resolve().parents[2] / "templates" / HEADER).read_text(encoding="utf-8")
DTYPES = {"f32": np.float32, "f64": np.float64}
INF, NAN, PI = np.inf, np.nan, np.pi

mpmath.mp.dps = 45


def gelu_tanh_angle(x):
    """v of gelu_tanh(x) = x sigmoid(v) and x v', in the arithmetic of x."""
    pi, cube = (mpmath.pi, mpmath.mpf("0.044715")) if isinstance(x, mpmath.mpf) else (np.pi, 0.044715)
    scale = 2 * (2 / pi) ** 0.5
    return scale * (x + cube * x**3), scale * (x + 3 * cube * x**3)


def limited(fn):
    """The function where its formula is -inf * 0 at -infinity: -0, its limit."""
    return lambda x: np.where(np.isneginf(x), -0.0, fn(x))


def from_left(fn, size):
    """A derivative that is s(|x|) for x <= 0 and 1 - s(|x|) for x > 0; from `size` on s is nothing."""

    def slope(x):
        left = fn(min(abs(x), size) if isinstance(x, mpmath.mpf) else np.minimum(np.abs(x), size))
        return (1 - left if x > 0 else left) if isinstance(x, mpmath.mpf) else np.where(x > 0, 1 - left, left)

    return slope


def bent(exp):
    """s of the derivative of gelu_tanh: q (1 - a v' (1 - q)), q = sigmoid(-v)."""

    def left(a):
        v, steep = gelu_tanh_angle(a)
        power = exp(-v)
        return power / (1 + power) * (1 - steep / (1 + power))

    return left


def mp_sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def mp_softplus(x):
    return mpmath.log1p(mpmath.exp(x))


def mp_erfc(x):
    """erfc where float64 can tell it from its limits; mpmath refuses very large arguments."""
    return mpmath.erfc(min(max(x, -100), 100))


# name -> (reference in float64 for float32 values, reference in mpmath for float64 values).
UNARY = {
    "exp": (np.exp, mpmath.exp),
    "exp2": (np.exp2, lambda x: mpmath.mpf(2) ** x),
    "expm1": (np.expm1, mpmath.expm1),
    "log": (np.log, mpmath.log),
    "log2": (np.log2, lambda x: mpmath.log(x) / mpmath.log(2)),
    "log10": (np.log10, mpmath.log10),
    "log1p": (np.log1p, mpmath.log1p),
    "sin": (np.sin, mpmath.sin),
    "cos": (np.cos, mpmath.cos),
    "tan": (np.tan, mpmath.tan),
    "asin": (np.arcsin, mpmath.asin),
    "acos": (np.arccos, mpmath.acos),
    "atan": (np.arctan, mpmath.atan),
    "sinh": (np.sinh, mpmath.sinh),
    "cosh": (np.cosh, mpmath.cosh),
    "tanh": (np.tanh, mpmath.tanh),
    "sigmoid": (special.expit, mp_sigmoid),
    "log_sigmoid": (special.log_expit, lambda x: -mp_softplus(-x)),
    "softplus": (lambda x: -special.log_expit(-x), mp_softplus),
    "silu": (limited(lambda x: x * special.expit(x)), lambda x: x * mp_sigmoid(x)),
    "erf": (special.erf, lambda x: mpmath.erf(min(max(x, -100), 100))),
    "erfc": (special.erfc, mp_erfc),
    "gelu": (limited(lambda x: x * special.ndtr(x)), lambda x: x * mp_erfc(-x / mpmath.sqrt(2)) / 2),
    "gelu_tanh": (
        limited(lambda x: x * special.expit(gelu_tanh_angle(x)[0])),
        lambda x: x * mp_sigmoid(gelu_tanh_angle(x)[0]),
    ),
    "sigmoid_slope": (
        lambda x: special.expit(-np.abs(x)) * special.expit(np.abs(x)),
        lambda x: mp_sigmoid(-abs(x)) * mp_sigmoid(abs(x)),
    ),
    "gelu_slope": (
        from_left(lambda a: -(a * np.exp(-0.5 * a * a) / np.sqrt(2 * np.pi) - special.ndtr(-a)), 50),
        from_left(lambda a: mpmath.erfc(a / mpmath.sqrt(2)) / 2 - a * mpmath.npdf(a), 50),
    ),
    "gelu_tanh_slope": (from_left(bent(np.exp), 100), from_left(bent(mpmath.exp), 100)),
}
BINARY = {
    "pow": (np.power, mpmath.power),
    "hypot": (np.hypot, mpmath.hypot),
    "atan2": (np.arctan2, mpmath.atan2),
}
SIGNATURES = [
    (f"gt_{name}_{tag}", (tag,) * arity, tag)
    for table, arity in ((UNARY, 1), (BINARY, 2))
    for name in table
    for tag in DTYPES
]


SLOPES = ("sigmoid_slope", "gelu_slope", "gelu_tanh_slope")
CROSSING = {("gelu_tanh_slope", "f32"): 4e-8, ("gelu_slope", "f64"): 1e-17, ("gelu_tanh_slope", "f64"): 1e-17}
"""Functions that cross zero between -1 and -1/2, and the error allowed there where that is more than their ulp."""


def stated(name, tag):
    """The ulp the table of gt_math.h states, or 2 for what the C library computes."""
    row = re.search(rf"^ \*   {name} +([\d.]+) +([\d.]+) (own|libm)$", TABLE, re.MULTILINE)
    assert row is not None, f"the table of {HEADER} has no row for {name}"
    return float(row[1]) if tag == "f32" else 2.0 if row[3] == "libm" else float(row[2])


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_the_table_promises_two_units_but_for_slopes(name):
    assert stated(name, "f64") <= 2
    assert stated(name, "f32") <= (4 if name in SLOPES else 2)


def bounds(name, tag, points, unit):
    """The largest error allowed at each point, in ulp."""
    allowed = np.full(len(points), stated(name, tag))
    if (name, tag) in CROSSING:
        there = (points >= -1) & (points <= -0.5)
        allowed[there] = np.maximum(allowed[there], CROSSING[name, tag] / unit[there])
    return allowed


@pytest.fixture(scope="module")
def libraries(c_folder):
    """The functions of every build: of both types for one value, of float32 for vectors."""
    narrow = [signature for signature in SIGNATURES if signature[2] == "f32"]
    return {b: b.functions(HEADER, narrow if b.width else SIGNATURES, c_folder) for b in (*SCALAR, *VECTOR)}


MEASURED = [build for build in SCALAR if build.compiler == COMPILERS[0]]
"""The builds that are compared with the references: with fused multiply-add and without."""


def assert_all_builds_agree(libraries, name, points):
    """Every other build gives the bits of the measured one with its flags."""
    for build, functions in libraries.items():
        if build not in MEASURED and name in functions:
            wanted = libraries[Build(COMPILERS[0], build.kind)][name](*points)
            assert_same_bits(functions[name](*points), wanted, points, f"{name} of {build}")


EDGES = (
    "0.5 0.6 0.7 0.75 0.8 1 1.25 1.5 2 3.5 8 10.25 11.5 14.5 14.75 16 20 30 80 87 88.7 89 89.5 103.3 103.98 104 105 115"
    " 119.2 120 126 127 128 149 150 151 4096 131072 8388608 1e-4 2.4e-4 1.2e-4 3e-8 1.2e-38"
)
"""Where functions take another branch, overflow or underflow, or cross zero."""

WORST = (
    "0.00053870288 0.00287091173 0.292015821 0.315678388 0.355089605 0.414276809 0.448047787 0.497388512 0.498436242"
    " 0.525954545 0.528896332 0.544700503 0.600857019 0.601305008 0.803151011 0.865715384 1.00420594 1.01737702"
    " 1.06507134 1.08797395 1.09993458 1.10468471 1.2743293 1.2821151 1.2823869 1.29352832 1.40220261 1.41038048"
    " 1.55707705 1.77505159 1.77549613 1.83310449 1.84781039 2.19211841 2.36125922 2.41571569 2.49750757 3.74480438"
    " 3.74485731 5.19422913 5.85337114 7.9748702 12.8831348 13.0810823 15.6328287 27.4464512 59.3060379 59.3084335"
    " 80.7542191 90.3375473 91.1676483 91.1822739"
)
"""Where one of the functions is least exact, with or without fused multiply-add, found over all bit patterns."""


def float32_blocks():
    """Points: all around EDGES and WORST, near powers of two, whole numbers and angles; a sweep of all bit patterns."""
    near, size = np.arange(-1000, 1001), 1 << 20
    places = np.array([*EDGES.split(), *WORST.split()], np.float32)
    edges = (places.view(np.int32)[:, None] + near).ravel().view(np.float32)
    anchors = np.concatenate([2.0 ** np.arange(-149, 128), np.arange(1, 150), np.arange(1, 40) * PI / 4])
    close = (anchors.astype(np.float32).view(np.int32)[:, None] + np.arange(-3, 4)).ravel().view(np.float32)
    special = np.array([0, 1e-45, 3e-45, 1.1754943e-38, 3.4028235e38, INF, NAN], np.float32)
    yield np.concatenate([edges, -edges, close, -close, special, -special])
    stride = max(1, 1_228_900 // settings.default.max_examples) | 1
    for first in range(0, 2**32, stride * size):
        bits = np.arange(first, min(first + stride * size, 2**32), stride, dtype=np.uint64)
        yield bits.astype(np.uint32).view(np.float32)


def float32_unit(wanted):
    """A unit in the last place of float32 at those numbers."""
    return 2.0 ** (np.clip(np.frexp(wanted)[1], -125, 128) - 24)


def float32_error(got, wanted):
    """Units in the last place of float32 between the result and the float64 reference."""
    largest = 2.0**128
    beyond = np.abs(wanted) >= largest * (1 - 2.0**-25)
    close = np.abs(np.clip(got, -largest, largest) - np.clip(wanted, -largest, largest)) / float32_unit(wanted)
    return np.where(beyond, np.where(got == np.copysign(INF, wanted), 0, close), close)


def assert_within(allowed, errors, got, wanted, *points):
    """No error is more than allowed; what is NaN must be NaN."""
    excess = np.where(np.isnan(errors), INF, errors - allowed)
    worst = int(np.argmax(excess))
    at = [float(p[worst]).hex() for p in points]
    assert excess[worst] <= 0, f"{errors[worst]:.3f} ulp at {at}: {got[worst]!r}, not {wanted[worst]!r}"


def float32_pairs(name):
    """Pairs of float32 values: all sizes, and for pow those whose power is in range."""
    random = np.random.default_rng(13)
    n = 2_000 * settings.default.max_examples
    a, b = random.integers(0, 2**32, (2, n), dtype=np.uint32).view(np.float32)
    if name == "pow":
        base = np.exp(random.uniform(-80, 80, n))
        in_range, large = random.uniform(-105, 90, n) / np.log(base), random.uniform(-1e5, 1e5, n)
        bases = base, 1 + random.uniform(-1e-3, 1e-3, n), random.uniform(-20, 20, n)
        exponents = in_range, large, random.integers(-40, 41, n)
    else:
        bases, exponents = random.normal(size=(2, 1, n))
    for pair in ((a, b), *zip(bases, exponents, strict=True)):
        yield tuple(v.astype(np.float32) for v in pair)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_float32(libraries, name):
    """Right in one value with and without fused multiply-add, and everywhere the same."""
    reference, _ = (UNARY | BINARY)[name]
    for points in ((block,) for block in float32_blocks()) if name in UNARY else float32_pairs(name):
        with np.errstate(all="ignore"):
            wanted = np.asarray(reference(*(p.astype(np.float64) for p in points)))
        real = ~np.isnan(wanted)
        for build in MEASURED:
            got = libraries[build][f"gt_{name}_f32"](*points)
            assert np.isnan(got[~real]).all()
            inside, expected = got[real].astype(np.float64), wanted[real]
            allowed = bounds(name, "f32", points[0][real], float32_unit(expected))
            assert_within(allowed, float32_error(inside, expected), inside, expected, *(p[real] for p in points))
            nothing = np.abs(expected) < 2.0**-150
            assert np.array_equal(np.signbit(inside[nothing]), np.signbit(expected[nothing]))
        assert_all_builds_agree(libraries, f"gt_{name}_f32", points)


@functools.cache
def float64_points():
    """Random numbers of all sizes and of the usual ones, and what overflows or underflows."""
    random = np.random.default_rng(11)
    sizes = [2.0 ** random.uniform(low, high, n) for low, high, n in ((-1074, 1024, 150), (-60, 10, 200), (-5, 5, 300))]
    small = [random.uniform(0, limit, 200) for limit in (1, 3, 40)]
    edges = [random.uniform(*limits, 60) for limits in ((705, 711), (735, 752), (25, 28), (37, 39.5), (0.999, 1.001))]
    anchors = np.concatenate([2.0 ** np.arange(-30, 31), np.arange(1, 20), np.arange(1, 20) * PI / 4])
    positive = np.concatenate([*sizes, *small, *edges, anchors, np.nextafter(anchors, 0), np.nextafter(anchors, INF)])
    return np.concatenate([positive, -positive])


def float64_unit(wanted):
    """A unit in the last place of float64 at that number, the largest number having one too."""
    exponent = mpmath.frexp(wanted)[1] if wanted and not mpmath.isinf(wanted) else 0
    return mpmath.ldexp(1, min(max(exponent - 53, -1074), 971)) if wanted else mpmath.ldexp(1, -1074)


def float64_error(got, wanted):
    """Units in the last place of float64 between the result and the mpmath reference."""
    if mpmath.isinf(wanted) or abs(wanted) >= mpmath.ldexp(1, 1024) * (1 - mpmath.ldexp(1, -54)):
        return 0.0 if got == mpmath.sign(wanted) * INF else INF
    return float(abs(mpmath.mpf(float(got)) - wanted) / float64_unit(wanted))


@functools.cache
def float64_case(name):
    """Points where the function is real and not too large for mpmath, and the reference."""
    _, reference = (UNARY | BINARY)[name]
    random = np.random.default_rng(17)
    points = (float64_points(),)
    if name in BINARY:
        points = (random.permutation(points[0]), random.permutation(points[0]))
    if name == "pow":
        base = np.exp(random.uniform(-300, 300, 1500))
        points = (
            np.concatenate([base, random.uniform(-20, 20, 300), np.abs(points[0])]),
            np.concatenate([random.uniform(-740, 705, 1500) / np.log(base), random.integers(-99, 99, 300), points[1]]),
        )
        points = tuple(p[np.abs(points[1] * np.log(np.abs(points[0]))) < 800] for p in points)
    with mpmath.workdps(45):
        wanted = [reference(*(mpmath.mpf(float(v)) for v in at)) for at in zip(*points, strict=True)]
    real = np.array([isinstance(w, mpmath.mpf) and not mpmath.isnan(w) for w in wanted])
    return tuple(p[real] for p in points), [w for w, keep in zip(wanted, real, strict=True) if keep]


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_float64(libraries, name):
    points, wanted = float64_case(name)
    unit = np.array([float(float64_unit(w)) for w in wanted])
    for build in MEASURED:
        got = libraries[build][f"gt_{name}_f64"](*points)
        errors = np.array([float64_error(g, w) for g, w in zip(got, wanted, strict=True)])
        assert_within(bounds(name, "f64", points[0], unit), errors, got, wanted, *points)
    assert_all_builds_agree(libraries, f"gt_{name}_f64", points)


# Function -> points and exact results, in both dtypes. ODD: those of every function that
# keeps the sign of a zero.
ODD = ((0.0, 0.0), (-0.0, -0.0), (NAN, NAN))


def zeros(value):
    """Points of a function that does not see the sign of a zero."""
    return ((0.0, value), (-0.0, value), (NAN, NAN))


EXACT = {
    "exp": (*zeros(1.0), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0)),
    "exp2": (*zeros(1.0), *((float(k), 2.0**k) for k in range(-126, 128)), (INF, INF), (-INF, 0.0), (2e3, INF)),
    "expm1": (*ODD, (INF, INF), (-INF, -1.0), (1e4, INF), (-1e4, -1.0)),
    "log": (*zeros(-INF), (1.0, 0.0), (INF, INF), (-INF, NAN), (-1.0, NAN)),
    "log2": (*zeros(-INF), *((2.0**k, float(k)) for k in range(-126, 128)), (INF, INF), (-INF, NAN), (-1.0, NAN)),
    "log10": (*zeros(-INF), *((10.0**k, float(k)) for k in range(11)), (INF, INF), (-1.0, NAN)),
    "log1p": (*ODD, (INF, INF), (-1.0, -INF), (-1.5, NAN), (-INF, NAN)),
    "sin": (*ODD, (INF, NAN), (-INF, NAN)),
    "cos": (*zeros(1.0), (INF, NAN), (-INF, NAN)),
    "tan": (*ODD, (INF, NAN), (-INF, NAN)),
    "asin": (*ODD, (1.0, PI / 2), (-1.0, -PI / 2), (1.5, NAN), (-INF, NAN)),
    "acos": (*zeros(PI / 2), (1.0, 0.0), (-1.0, PI), (-1.5, NAN), (INF, NAN)),
    "atan": (*ODD, (INF, PI / 2), (-INF, -PI / 2), (1.0, PI / 4)),
    "sinh": (*ODD, (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF)),
    "cosh": (*zeros(1.0), (INF, INF), (-INF, INF), (-1e4, INF)),
    "tanh": (*ODD, (INF, 1.0), (-INF, -1.0), (50.0, 1.0), (-50.0, -1.0), (1e30, 1.0)),
    "sigmoid": (*zeros(0.5), (INF, 1.0), (-INF, 0.0), (1e30, 1.0), (-1e30, 0.0)),
    "log_sigmoid": ((INF, -0.0), (-INF, -INF), (-1e30, -1e30), (NAN, NAN)),
    "softplus": ((INF, INF), (-INF, 0.0), (1e30, 1e30), (-1e30, 0.0), (NAN, NAN)),
    "silu": (*ODD, (INF, INF), (-INF, -0.0), (1e30, 1e30), (-1e30, -0.0)),
    "erf": (*ODD, (INF, 1.0), (-INF, -1.0), (10.0, 1.0)),
    "erfc": (*zeros(1.0), (INF, 0.0), (-INF, 2.0), (1e30, 0.0), (-1e30, 2.0)),
    "gelu": (*ODD, (INF, INF), (-INF, -0.0), (1e30, 1e30), (-1e30, -0.0)),
    "gelu_tanh": (*ODD, (INF, INF), (-INF, -0.0), (1e30, 1e30), (-1e30, -0.0)),
    "sigmoid_slope": (*zeros(0.25), (INF, 0.0), (-INF, 0.0), (1e30, 0.0), (-1e30, 0.0)),
    "gelu_slope": (*zeros(0.5), (INF, 1.0), (-INF, -0.0), (1e30, 1.0), (-1e30, -0.0)),
    "gelu_tanh_slope": (*zeros(0.5), (INF, 1.0), (-INF, -0.0), (1e30, 1.0), (-1e30, -0.0)),
}


def assert_measured(libraries, name, wanted, *points):
    """Equal bit for bit in the builds that are compared with references, and the same everywhere."""
    for build in MEASURED:
        assert_same_bits(libraries[build][name](*points), wanted, points, f"{name} of {build}")
    assert_all_builds_agree(libraries, name, points)


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_exact_points(libraries, name, tag):
    points, wanted = np.array(EXACT[name], DTYPES[tag]).T
    assert_measured(libraries, f"gt_{name}_{tag}", wanted, points)


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", ["expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh"])
def test_denormals_are_kept(libraries, name, tag):
    """Functions that are x + O(x²) give back what is too small for the square to matter."""
    points = np.array([k * np.finfo(DTYPES[tag]).smallest_subnormal for k in (1, 2, 3, 1000, -1, -7)], DTYPES[tag])
    assert_measured(libraries, f"gt_{name}_{tag}", points, points)


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_special_pairs(libraries, name, tag):
    """All pairs of special values, against NumPy, which follows C99: 0, 1, infinity and NaN exactly."""
    magnitudes = [0.0, 1e-30, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 2.0**24 - 1, 2.0**24, 1e30, INF]
    values = np.array([*magnitudes, *(-m for m in magnitudes), NAN], DTYPES[tag])
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = BINARY[name][0](a.astype(np.float64), b.astype(np.float64)).astype(DTYPES[tag])
    special = ~np.isfinite(wanted) | np.isin(np.abs(wanted), (0, 1))
    assert_measured(libraries, f"gt_{name}_{tag}", wanted[special], a[special], b[special])
    for build in MEASURED:
        got = libraries[build][f"gt_{name}_{tag}"](a, b)[~special]
        assert (np.abs(got - wanted[~special]) <= 2 * np.spacing(np.abs(wanted[~special]))).all()


@pytest.mark.parametrize("tag", DTYPES)
def test_whole_powers_are_exact(libraries, tag):
    base, exponent = (v.ravel() for v in np.meshgrid(np.arange(-12.0, 13), np.arange(0.0, 6)))
    wanted = np.array([int(x) ** int(y) for x, y in zip(base, exponent, strict=True)], DTYPES[tag])
    assert_measured(libraries, f"gt_pow_{tag}", wanted, base, exponent)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_nothing_is_undefined(c_folder, compiler):
    """Every function over a sweep of bit patterns, under the undefined-behaviour sanitizer, alone and in vectors."""
    text = [f'#include "{HEADER}"', "#include <string.h>", "static volatile double sink;", "int main(void)", "{"]
    text += ["    for (uint64_t k = 0; k < 4096; k++) {"]
    for tag, kind, bits in (("f32", "float", 32), ("f64", "double", 64)):
        text += [f"        uint{bits}_t a_{tag} = (uint{bits}_t)(k << {bits - 12}), b_{tag} = a_{tag} * 40503;"]
        text += [f"        {kind} x_{tag}, y_{tag};", f"        memcpy(&x_{tag}, &a_{tag}, sizeof x_{tag});"]
        text += [f"        memcpy(&y_{tag}, &b_{tag}, sizeof y_{tag});"]
    text += ["        gt_v_f32 x_v_f32 = gt_splat_f32(x_f32), y_v_f32 = gt_splat_f32(y_f32);"]
    for name, args, tag in SIGNATURES:
        text.append(f"        sink = {name}({', '.join([f'x_{tag}', f'y_{tag}'][: len(args)])});")
        if tag == "f32":
            operands = ", ".join(["x_v_f32", "y_v_f32"][: len(args)])
            text.append(f"        sink = {name.replace('_f32', '_v_f32')}({operands})[0];")
    program = "\n".join([*text, "    }", "    return 0;", "}"])
    assert Build(compiler, "native", 16).run(program, c_folder, *UNDEFINED) == ""

"""templates/gt_math.h and gt_math_f64.h: every function against a reference, in units in the last place.

float32 is compared with float64 over a sweep of all bit patterns, float64 with mpmath at a few thousand points.
The bounds are those the table of gt_math.h states, and never more than 2; where a function is the C library's
own, 2 is asked of it. Special values are compared bit for bit.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import special

HEADER = "gt_math.h"
TABLE = (Path(__file__).resolve().parents[2] / "templates" / HEADER).read_text(encoding="utf-8")
DTYPES = {"f32": np.float32, "f64": np.float64}
INF, NAN, PI = np.inf, np.nan, np.pi

mpmath.mp.dps = 45


def gelu_tanh_slope(x):
    """2u of gelu_tanh(x) = x sigmoid(2u), in the arithmetic of x."""
    pi, cube = (mpmath.pi, mpmath.mpf("0.044715")) if isinstance(x, mpmath.mpf) else (np.pi, 0.044715)
    return 2 * (2 / pi) ** 0.5 * (x + cube * x**3)


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
    "silu": (lambda x: x * special.expit(x), lambda x: x * mp_sigmoid(x)),
    "erf": (special.erf, lambda x: mpmath.erf(min(max(x, -100), 100))),
    "erfc": (special.erfc, mp_erfc),
    "gelu": (lambda x: x * special.ndtr(x), lambda x: x * mp_erfc(-x / mpmath.sqrt(2)) / 2),
    "gelu_tanh": (lambda x: x * special.expit(gelu_tanh_slope(x)), lambda x: x * mp_sigmoid(gelu_tanh_slope(x))),
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


def stated_bound(name, tag):
    """The ulp the table of gt_math.h states, or 2 for what the C library computes."""
    row = re.search(rf"^ \*   {name} +([\d.]+) (own|libm) +([\d.]+) (own|libm)$", TABLE, re.MULTILINE)
    assert row is not None, f"the table of {HEADER} has no row for {name}"
    bound, origin = row.group(1, 2) if tag == "f32" else row.group(3, 4)
    assert float(bound) <= 2
    return float(bound) if origin == "own" else 2.0


@functools.cache
def float32_points():
    """Every 12289th bit pattern, and the neighbourhoods of all powers of two and small whole numbers."""
    swept = np.arange(0, 2**32, 12289, dtype=np.uint64).astype(np.uint32).view(np.float32)
    anchors = np.concatenate([2.0 ** np.arange(-149, 128), np.arange(1, 150), np.arange(1, 40) * PI / 4])
    bits = anchors.astype(np.float32).view(np.int32)
    near = np.concatenate([(bits + step).view(np.float32) for step in range(-3, 4)])
    points = np.concatenate([swept, near, -near])
    return points[~np.isnan(points)]


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


def float32_error(got, wanted):
    """Units in the last place of float32 between the result and the float64 reference."""
    largest = 2.0**128
    unit = 2.0 ** (np.clip(np.frexp(wanted)[1], -125, 128) - 24)
    beyond = np.abs(wanted) >= largest * (1 - 2.0**-25)
    close = np.abs(np.clip(got, -largest, largest) - np.clip(wanted, -largest, largest)) / unit
    return np.where(beyond, np.where(got == np.copysign(INF, wanted), 0, close), close)


def float64_error(got, wanted):
    """Units in the last place of float64 between the result and the mpmath reference."""
    if mpmath.isinf(wanted) or abs(wanted) >= mpmath.ldexp(1, 1024) * (1 - mpmath.ldexp(1, -54)):
        return 0.0 if got == mpmath.sign(wanted) * INF else INF
    unit = mpmath.ldexp(1, max(mpmath.frexp(wanted)[1] - 53, -1074)) if wanted else mpmath.ldexp(1, -1074)
    return float(abs(mpmath.mpf(float(got)) - wanted) / unit)


def assert_within(bound, errors, got, wanted, *points):
    """The largest error is at most the bound; what is NaN must be NaN."""
    errors = np.where(np.isnan(got), INF, errors)
    worst = int(np.argmax(errors))
    at = [float(p[worst]).hex() for p in points]
    assert errors[worst] <= bound, f"{errors[worst]:.3f} ulp at {at}: {got[worst]!r}, not {wanted[worst]!r}"


def float32_pairs(name):
    """Pairs of float32 values: all sizes, and for pow those whose power is in range."""
    random = np.random.default_rng(13)
    n = 200_000
    a, b = random.integers(0, 2**32, (2, n), dtype=np.uint32).view(np.float32)
    if name == "pow":
        base = np.exp(random.uniform(-80, 80, n))
        in_range, large = random.uniform(-105, 90, n) / np.log(base), random.uniform(-1e5, 1e5, n)
        bases = base, 1 + random.uniform(-1e-3, 1e-3, n), random.uniform(-20, 20, n)
        exponents = in_range, large, random.integers(-40, 41, n)
    else:
        bases, exponents = random.normal(size=(2, 1, n))
    return tuple(
        np.concatenate([first, *(v.astype(np.float32) for v in rest)]) for first, rest in ((a, bases), (b, exponents))
    )


@functools.cache
def float32_case(name):
    """Points, and the reference where it is not NaN."""
    reference, _ = (UNARY | BINARY)[name]
    points = (float32_points(),) if name in UNARY else float32_pairs(name)
    with np.errstate(all="ignore"):
        wanted = np.asarray(reference(*(p.astype(np.float64) for p in points)))
    kept = ~np.isnan(wanted)
    return tuple(p[kept] for p in points), wanted[kept], tuple(p[~kept] for p in points)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_float32(c_functions, name):
    points, wanted, outside = float32_case(name)
    function = c_functions[f"gt_{name}_f32"]
    got = function(*points)
    assert_within(stated_bound(name, "f32"), float32_error(got.astype(np.float64), wanted), got, wanted, *points)
    limits = name in ("silu", "gelu", "gelu_tanh")  # where the reference is -inf * 0
    assert np.isnan(function(*outside)[~(np.isneginf(outside[0]) if limits else np.zeros(len(outside[0]), bool))]).all()


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
def test_float64(c_functions, name):
    points, wanted = float64_case(name)
    got = c_functions[f"gt_{name}_f64"](*points)
    errors = np.array([float64_error(g, w) for g, w in zip(got, wanted, strict=True)])
    assert_within(stated_bound(name, "f64"), errors, got, wanted, *points)


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
}


def assert_same(got, wanted, *points):
    """Equal, zeros by their sign, NaN to NaN."""
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | np.isnan(got) & np.isnan(wanted)
    wrong = np.flatnonzero(~same)[:5]
    assert not wrong.size, [(*(p[i].item() for p in points), got[i].item(), wanted[i].item()) for i in wrong]


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_exact_points(c_functions, name, tag):
    points, wanted = np.array(EXACT[name], DTYPES[tag]).T
    assert_same(c_functions[f"gt_{name}_{tag}"](points), wanted, points)


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", ["expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh"])
def test_denormals_are_kept(c_functions, name, tag):
    """Functions that are x + O(x²) give back what is too small for the square to matter."""
    points = np.array([k * np.finfo(DTYPES[tag]).smallest_subnormal for k in (1, 2, 3, 1000, -1, -7)], DTYPES[tag])
    assert_same(c_functions[f"gt_{name}_{tag}"](points), points, points)


@pytest.mark.parametrize("tag", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_special_pairs(c_functions, name, tag):
    """All pairs of special values, against NumPy, which follows C99: 0, 1, infinity and NaN exactly."""
    magnitudes = [0.0, 1e-30, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 2.0**24 - 1, 2.0**24, 1e30, INF]
    values = np.array([*magnitudes, *(-m for m in magnitudes), NAN], DTYPES[tag])
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = BINARY[name][0](a.astype(np.float64), b.astype(np.float64)).astype(DTYPES[tag])
    got = c_functions[f"gt_{name}_{tag}"](a, b)
    special = ~np.isfinite(wanted) | np.isin(np.abs(wanted), (0, 1))
    assert_same(got[special], wanted[special], a[special], b[special])
    got, wanted = got[~special], wanted[~special]
    assert (np.abs(got - wanted) <= 2 * np.spacing(np.abs(wanted))).all()


def test_whole_powers_are_exact(c_functions):
    base, exponent = (v.ravel() for v in np.meshgrid(np.arange(-12.0, 13), np.arange(0.0, 6)))
    for tag, dtype in DTYPES.items():
        got = c_functions[f"gt_pow_{tag}"](base, exponent)
        assert_same(
            got, np.array([int(x) ** int(y) for x, y in zip(base, exponent, strict=True)], dtype), base, exponent
        )


def test_nothing_is_undefined(c_program):
    """Every function over a sweep of bit patterns, under the undefined-behaviour sanitizer."""
    text = [f'#include "{HEADER}"', "#include <string.h>", "static volatile double sink;", "int main(void)", "{"]
    text += ["    for (uint64_t k = 0; k < 4096; k++) {"]
    for tag, kind, bits in (("f32", "float", 32), ("f64", "double", 64)):
        text += [f"        uint{bits}_t a_{tag} = (uint{bits}_t)(k << {bits - 12}), b_{tag} = a_{tag} * 40503;"]
        text += [f"        {kind} x_{tag}, y_{tag};", f"        memcpy(&x_{tag}, &a_{tag}, sizeof x_{tag});"]
        text += [f"        memcpy(&y_{tag}, &b_{tag}, sizeof y_{tag});"]
    for name, args, tag in SIGNATURES:
        text.append(f"        sink = {name}({', '.join([f'x_{tag}', f'y_{tag}'][: len(args)])});")
    sanitize = "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"
    assert c_program("\n".join([*text, "    }", "    return 0;", "}"]), *sanitize) == ""

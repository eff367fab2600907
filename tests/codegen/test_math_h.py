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
    return np.where(beyond, np.where(got == np.sign(wanted) * INF, 0, close), close)


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
    at = [p[worst].hex() for p in points]
    assert errors[worst] <= bound, f"{errors[worst]:.3f} ulp at {at}: {got[worst]!r}, not {wanted[worst]!r}"


def float32_pairs(name):
    """Pairs of float32 values: all sizes, and for pow those whose power is in range."""
    random = np.random.default_rng(13)
    n = 200_000
    a, b = random.integers(0, 2**32, (2, n), dtype=np.uint32).view(np.float32)
    if name == "pow":
        base = np.exp(random.uniform(-80, 80, n))
        exponent = random.uniform(-105, 90, n) / np.log(base)
        near_one, large = 1 + random.uniform(-1e-3, 1e-3, n), random.uniform(-1e5, 1e5, n)
        whole = random.integers(-40, 41, n)
        a = np.concatenate([a, base, near_one, random.uniform(-20, 20, n)]).astype(np.float32)
        b = np.concatenate([b, exponent, large, whole]).astype(np.float32)
    else:
        a = np.concatenate([a, random.normal(size=n)]).astype(np.float32)
        b = np.concatenate([b, random.normal(size=n)]).astype(np.float32)
    return a, b


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

"""ops/elementary.py and ops/floats.py: the special cases of the array API standard, NumPy's values, derivatives at
kinks, and what is refused. Eager and compiled results are both compared.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, GradError
from tests.op_table import same_bits
from tests.ways import agreed, compiled, derivatives

INF, NAN, PI = math.inf, math.nan, math.pi

HARD = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-40, 3e38, -3e38, INF, -INF, NAN]
A, B = (v.ravel() for v in np.meshgrid(HARD, HARD))


STANDARD = {
    "acosh": ([NAN, 0.5, -INF, 1.0, INF], [NAN, NAN, NAN, 0.0, INF]),
    "asinh": ([NAN, 0.0, -0.0, INF, -INF], [NAN, 0.0, -0.0, INF, -INF]),
    "atanh": ([NAN, -1.5, 1.5, -1.0, 1.0, 0.0, -0.0], [NAN, NAN, NAN, -INF, INF, 0.0, -0.0]),
    "copysign": (
        [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, INF, NAN], [-2.0, -0.0, 0.0, 2.0, -1.0, 1.0, -0.0, 1.0],
        [-1.0, -1.0, 1.0, 1.0, -0.0, 0.0, -INF, NAN],
    ),
    "hypot": (
        [INF, -INF, NAN, 1.0, NAN, 0.0, -0.0, 3.0], [NAN, 1.0, -INF, NAN, 1.0, -2.0, 2.0, 4.0],
        [INF, INF, INF, NAN, NAN, 2.0, 2.0, 5.0],
    ),
    "logaddexp": ([NAN, 1.0, INF, -INF, -INF], [1.0, NAN, 1.0, INF, -INF], [NAN, NAN, INF, INF, -INF]),
    "nextafter": ([NAN, 1.0, 0.0, -0.0, 2.0, INF], [1.0, NAN, -0.0, 0.0, 2.0, INF], [NAN, NAN, -0.0, 0.0, 2.0, INF]),
    "signbit": ([0.0, -0.0, INF, -INF, 1.0, -1.0, NAN, -NAN], [False, True, False, True, False, True, False, True]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", STANDARD)
def test_special_cases_of_the_standard(name, dtype):
    *operands, wanted = STANDARD[name]
    operands = [np.array(x, dtype) for x in operands]
    wanted = np.array(wanted, bool if name == "signbit" else dtype)
    for way in (lambda f, *xs: f(*xs).numpy(), compiled):
        assert same_bits(way(getattr(gt, name), *operands), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter_walks_over_every_number(dtype):
    x = np.array([0.0, 1.0, np.finfo(dtype).max, -np.finfo(dtype).smallest_subnormal], dtype)
    towards = np.array([1.0, 0.0, INF, INF], dtype)
    wanted = np.array([np.finfo(dtype).smallest_subnormal, 1 - np.finfo(dtype).epsneg, INF, -0.0], dtype)
    assert same_bits(agreed(gt.nextafter, x, towards), wanted)


COMPOSED = {
    "fmax": np.fmax, "fmin": np.fmin, "heaviside": np.heaviside, "isclose": np.isclose,
    "near": lambda a, b: np.isclose(a, b, 0.5, 0.1, True),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", COMPOSED)
def test_functions_of_two_are_numpys(name, dtype):
    ours = getattr(gt, name, lambda a, b: gt.isclose(a, b, 0.5, 0.1, equal_nan=True))
    with np.errstate(all="ignore"):
        a, b = A.astype(dtype), B.astype(dtype)
        wanted = COMPOSED[name](a, b)
    found = agreed(ours, a, b)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_functions_of_two_take_integers():
    a, b = np.array([-7, 5, 0, 7], np.int32), np.array([2, -3, 4, 0], np.int32)
    with np.errstate(all="ignore"):
        assert same_bits(agreed(gt.fmod, a, b), np.fmod(a, b))
    assert same_bits(agreed(gt.fmax, a, b), np.fmax(a, b)) and same_bits(agreed(gt.fmin, a, b), np.fmin(a, b))
    assert agreed(gt.isclose, a, b + 1).tolist() == np.isclose(a, b + 1).tolist()
    assert agreed(gt.heaviside, a, 0.5).tolist() == [0, 1, 0.5, 1]
    unsigned = np.array([7, 250, 3], np.uint8), np.array([4, 16, 0], np.uint8)
    assert agreed(gt.fmod, *unsigned).tolist() == [3, 10, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_to_num_is_numpys(dtype):
    with np.errstate(all="ignore"):
        x = np.array(HARD, dtype)
    assert same_bits(agreed(gt.nan_to_num, x), np.nan_to_num(x))
    found = agreed(lambda x: gt.nan_to_num(x, nan=-1.0, posinf=9.0, neginf=-9.0), x)
    assert same_bits(found, np.nan_to_num(x, nan=-1.0, posinf=9.0, neginf=-9.0))
    assert gt.nan_to_num(np.array([3, 4])).tolist() == [3, 4]
    slope = gt.grad(lambda x: gt.sum(gt.nan_to_num(x) ** 2))(np.array([NAN, INF, -INF, 3.0]))
    assert slope.tolist() == [0, 0, 0, 6]


def test_angles_are_numpys():
    x = np.array([0.0, -0.0, 30.0, 1e5, INF, NAN], np.float32)
    for ours, numpys in ((gt.deg2rad, np.deg2rad), (gt.rad2deg, np.rad2deg)):
        assert same_bits(agreed(ours, x), numpys(x.astype(np.float64)).astype(np.float32))
    assert gt.radians(np.array([180, 90])).dtype == gt.float32


def test_all_numbers_are_real():
    x = np.array([1.5, -0.0, NAN], np.float32)
    assert same_bits(gt.real(x).numpy(), x) and same_bits(gt.conj(x).numpy(), x)
    assert same_bits(agreed(gt.imag, x), np.zeros(3, np.float32))
    assert gt.imag(np.array([3])).dtype == gt.int64
    for function in (gt.real, gt.imag, gt.conj, gt.acosh):
        with pytest.raises(DTypeError):
            function(np.array([1j]))


def test_sinc_is_exact_where_it_can_be():
    whole = np.arange(-6.0, 7)
    assert agreed(gt.sinc, whole).tolist() == [0] * 6 + [1] + [0] * 6
    x = np.linspace(-3, 3, 41)
    np.testing.assert_allclose(gt.sinc(x).numpy(), np.sinc(x), rtol=1e-13, atol=1e-15)


def test_sinc_has_the_derivatives_of_its_series_at_and_beside_0():
    first, second = derivatives(gt.sinc, [0.0, 1e-160, 1e-9, -1e-5])
    np.testing.assert_allclose(first, -(PI**2) / 3 * np.array([0.0, 1e-160, 1e-9, -1e-5]), rtol=1e-9)
    np.testing.assert_allclose(second, -(PI**2) / 3, rtol=1e-9)
    assert derivatives(gt.sinc, [0.0, 0.5], 3)[2].tolist() == [0, pytest.approx(12 * PI - 96 / PI)]


def test_hypot_is_flat_at_the_origin_and_does_not_overflow():
    first, second = derivatives(lambda x: gt.hypot(x, 0.0), [0.0, -2.0])
    assert first.tolist() == [0, -1] and second.tolist() == [0, 0]
    huge = np.float32(3e38)
    assert gt.hypot(huge, np.float32(1e38)).item() == pytest.approx(np.sqrt(10.0) * 1e38, rel=1e-6)
    assert gt.grad(gt.asinh)(np.float32(1e25)).item() == pytest.approx(1e-25, rel=1e-6)
    assert gt.grad(gt.acosh)(np.float32(1e25)).item() == pytest.approx(1e-25, rel=1e-6)


@pytest.mark.parametrize("function, scale", [(gt.logaddexp, 1.0), (gt.logaddexp2, math.log(2))])
def test_sums_of_powers_between_equals_and_infinities(function, scale):
    first, second = derivatives(lambda x: function(x, 2.0), [2.0, 1e4, -1e4, INF, -INF])
    assert first.tolist() == [0.5, 1, 0, 1, 0]
    np.testing.assert_allclose(second, [0.25 * scale, 0, 0, 0, 0])
    a, b = (v.numpy() for v in gt.grad(lambda a, b: gt.sum(function(a, b)), (0, 1))(*np.array([[INF, -INF]] * 2)))
    assert a.tolist() == [0.5, 0.5] and b.tolist() == [0.5, 0.5]


def test_derivatives_at_kinks():
    def both(f, a, b):
        return [v.tolist() for v in gt.grad(lambda a, b: gt.sum(f(a, b)), (0, 1))(np.array(a), np.array(b))]

    assert both(gt.fmax, [1.0, NAN, 3.0, 2.0], [1.0, 5.0, NAN, 1.0]) == [[0.5, 0, 1, 1], [0.5, 1, 0, 0]]
    assert both(gt.fmin, [1.0, NAN, 3.0, 2.0], [1.0, 5.0, NAN, 1.0]) == [[0.5, 0, 1, 0], [0.5, 1, 0, 1]]
    assert both(gt.copysign, [2.0, -2.0, 0.0], [-1.0, -0.0, -1.0]) == [[-1, 1, 0], [0, 0, 0]]
    assert both(gt.fmod, [5.5, -5.5], [2.0, 2.0]) == [[1, 1], [-2, 2]]
    assert both(gt.heaviside, [-1.0, 0.0, 1.0], [5.0, 5.0, 5.0]) == [[0, 0, 0], [0, 1, 0]]
    assert gt.grad(gt.cbrt)(0.0).item() == INF
    assert derivatives(gt.cbrt, [8.0, -8.0])[0].tolist() == [1 / 12, 1 / 12]


def test_nextafter_has_no_derivative():
    with pytest.raises(GradError, match="nextafter"):
        gt.grad(lambda x: gt.nextafter(x, 2.0))(1.0)

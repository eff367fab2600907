"""ops/special.py: derivatives at awkward points, eager against mpmath, and what is refused.

The compiled functions are compared with mpmath in codegen/test_special_h.py, and with the evaluator, as all records,
in test_compiled_ops.py.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, GradError
from tests.ways import agreed, derivatives

INF, NAN = math.inf, math.nan


REFERENCES = {
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), [1e-9, 0.3, 1.5, 4.5, 60.0, -0.5, -3.7]),
    "digamma": (mpmath.digamma, [1e-9, 0.3, 1.4616, 4.5, 60.0, -0.5, -3.7]),
    "erfinv": (mpmath.erfinv, [1e-9, -0.3, 0.7, 0.99]),
    "i0": (lambda x: mpmath.besseli(0, x), [1e-9, -0.3, 9.9, 10.1, 300.0]),
    "i1": (lambda x: mpmath.besseli(1, x), [1e-9, -0.3, 9.9, 10.1, 300.0]),
    "entr": (lambda x: -x * mpmath.log(x), [1e-9, 0.3, 5.0]),
    "logit": (lambda x: mpmath.log(x / (1 - x)), [1e-9, 0.3, 0.5000001, 0.9]),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_values_and_derivatives_are_mpmaths(name):
    """Value, first and second derivative, in every way of running."""
    reference, points = REFERENCES[name]
    function = getattr(gt, name)
    found = [agreed(function, np.array(points), rtol=1e-13), *derivatives(function, points)]
    with mpmath.workdps(50):
        for order, values in enumerate(found):
            wanted = [float(mpmath.diff(reference, mpmath.mpf(x), order)) for x in points]
            np.testing.assert_allclose(values, wanted, rtol=1e-11, atol=1e-11, err_msg=f"order {order}")


@pytest.mark.parametrize("order", range(4))
def test_polygamma_by_its_order(order):
    points = np.array([0.1, 0.9, 3.5, 40.0, -0.4, -2.6])
    with mpmath.workdps(40):
        wanted = [float(mpmath.polygamma(order, mpmath.mpf(float(x)))) for x in points]
    found = agreed(lambda x: gt.polygamma(order, x), points, rtol=1e-12)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    gt.check_grads(lambda x: gt.polygamma(order, x), (points[:4] + 0.5,), order=2)


def test_orders_may_be_an_array_but_no_floats():
    orders = np.array([[0], [1], [2]])
    x = np.array([0.5, 2.0], np.float32)
    found = agreed(gt.polygamma, orders, x)
    rows = np.stack([gt.polygamma(n, x).numpy() for n in range(3)])
    assert found.dtype == np.float32 and np.array_equal(found, rows)
    assert np.array_equal(gt.polygamma(0, x).numpy(), gt.digamma(x).numpy())
    with pytest.raises(DTypeError, match="integer"):
        gt.polygamma(1.0, x)


SHAPES = [(0.4, [0.2, 1.0, 3.0]), (1.0, [0.2, 1.0, 3.0]), (2.5, [0.3, 2.5, 9.0]), (30.0, [20.0, 30.0, 45.0]),
          (300.0, [270.0, 300.0, 340.0])]  # fmt: skip


@pytest.mark.parametrize("function", [gt.gammainc, gt.gammaincc])
@pytest.mark.parametrize("a, points", SHAPES)
def test_incomplete_gamma_functions_have_derivatives_by_x(function, a, points):
    x = np.array(points)
    gt.check_grads(lambda x: function(a, x), (x,), order=2)
    sign = 1 if function is gt.gammainc else -1
    first, second = derivatives(lambda x: function(a, x), x)
    with mpmath.workdps(40):
        density = [mpmath.exp((a - 1) * mpmath.log(t) - t - mpmath.loggamma(a)) for t in points]
        bent = [d * ((a - 1) / mpmath.mpf(t) - 1) for d, t in zip(density, points, strict=True)]
    np.testing.assert_allclose(first, sign * np.array(density, float), rtol=1e-12)
    np.testing.assert_allclose(second, sign * np.array(bent, float), rtol=1e-10, atol=1e-13)


def test_incomplete_gamma_functions_at_the_ends():
    x = np.array([0.0, INF])
    for a, slope, bend in ((0.5, INF, -INF), (1.0, 1.0, -1.0), (2.0, 0.0, 1.0), (4.0, 0.0, 0.0)):
        first, second = derivatives(lambda x, a=a: gt.gammainc(a, x), x)
        assert first.tolist() == [slope, 0.0] and second[0] == bend


def test_incomplete_gamma_functions_have_no_derivative_by_a():
    for function in (gt.gammainc, gt.gammaincc):
        with pytest.raises(GradError, match="no derivative by a"):
            gt.grad(function, 0)(2.0, 1.0)
        kept = gt.grad(lambda a, x, f=function: f(gt.stop_gradient(a * x), x), (0, 1))(2.0, 1.0)
        assert kept[0].item() == 0 and abs(kept[1].item()) == pytest.approx(math.exp(-1))


def test_bessel_functions_at_0_and_where_they_nearly_overflow():
    assert [v[0] for v in derivatives(gt.i0, [0.0])] == [0, 0.5]
    assert [v[0] for v in derivatives(gt.i1, [0.0], 3)] == [0.5, 0, 0.375]
    assert [v[0] for v in derivatives(gt.i0e, [0.0], 1)] == [0]
    assert derivatives(gt.i1e, [0.0], 1)[0] == 0.5
    x = np.array([712.0])
    for function, other in ((gt.i0, gt.i1), (gt.i1, gt.i0)):
        slope = derivatives(function, x, 1)[0][0]
        assert np.isfinite(slope) and slope == pytest.approx(other(x).numpy()[0], rel=1e-2)
    near, far = derivatives(gt.i0e, [1e-3, 1e4], 1)[0]
    assert near == pytest.approx(-1 + 1.5e-3, abs=2e-6) and far == pytest.approx(-0.5 * 0.3989423e-2 * 1e-4, rel=1e-3)


def test_betaln_keeps_the_digits_of_large_arguments():
    a, b = np.array([2.5, 1e5, 0.3, 1e-3]), np.array([1e9, 2e5, 50.0, 7.0])
    with mpmath.workdps(60):
        wanted = [
            float(mpmath.loggamma(mpmath.mpf(s)) + mpmath.loggamma(mpmath.mpf(t)) - mpmath.loggamma(mpmath.mpf(s) + t))
            for s, t in zip(a.tolist(), b.tolist(), strict=True)
        ]
    np.testing.assert_allclose(agreed(gt.betaln, a, b), wanted, rtol=1e-14)


def test_slopes_where_a_factor_is_0():
    def both(f, x, y):
        return [v.tolist() for v in gt.grad(lambda x, y: gt.sum(f(x, y)), (0, 1))(np.array(x), np.array(y))]

    assert both(gt.xlogy, [0.0, 0.0, 0.0], [0.0, 1.0, -1.0]) == [[0, 0, 0], [0, 0, 0]]
    assert both(gt.xlog1py, [0.0, 0.0, 0.0], [-1.0, 0.0, -2.0]) == [[0, 0, 0], [0, 0, 0]]
    assert both(gt.xlogy, [0.0, 3.0], [2.0, 0.0]) == [[math.log(2.0), -INF], [0, INF]]
    mixed = gt.grad(lambda y: gt.grad(gt.xlogy)(0.0, y))(2.0)
    assert mixed.item() == 0.5
    assert [v[0] for v in derivatives(gt.entr, [0.0])] == [INF, -INF]
    assert derivatives(gt.logit, [0.0, 1.0, 0.5], 1)[0].tolist() == [INF, INF, 4]
    assert [v[1] for v in derivatives(gt.erfinv, [0.5, 1.0])] == [INF, INF]


def test_integers_become_floats():
    assert gt.lgamma(np.array([3, 5])).dtype == gt.float32
    assert gt.polygamma(1, np.array([3, 5])).dtype == gt.float32
    assert gt.xlogy(np.array([0, 2]), 1.0).dtype == gt.float32


def test_all_of_them_in_one_compiled_gradient():
    """In one kernel beside arithmetic, in float32."""

    def f(x):
        h = gt.lgamma(x) + gt.digamma(x) * gt.i0e(x) + gt.erfinv(x / 4) - gt.gammainc(2.0, x) * gt.sinc(x)
        return gt.sum(gt.logaddexp(h, x) + gt.xlogy(x, 1 + x * x) + gt.betaln(x, 2.0) + gt.logit(x / 4) * gt.cbrt(x))

    x = np.linspace(0.3, 3.5, 37).astype(np.float32)
    agreed(lambda x: (f(x), gt.grad(f)(x), gt.grad(lambda x: gt.sum(gt.grad(f)(x) ** 2))(x)), x, rtol=2e-5, atol=2e-5)

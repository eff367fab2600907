"""What derivatives are where it is doubtful: fan-out, broadcasting, walls, masks, kinks, powers, stability.

Each value is computed eagerly and traced (`ways.agreed`), and compared with a closed form. How derivatives
are asked for, and what is refused, is in test_transformations.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from tests.ways import agreed

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


def total(fn):
    """A scalar of an elementwise function, and the same of its derivative: `total(slope(f))` is a second one."""
    return lambda *xs: gt.sum(fn(*xs))


def slope(fn, argnum=0):
    """The elementwise derivative of an elementwise function."""
    return gt.grad(total(fn), argnum)


def orders(fn, *xs, upto=2):
    """The derivatives of an elementwise function by its first argument, of order 1 up to that one, in every way."""
    chain = [slope(fn)]
    while len(chain) < upto:
        chain.append(slope(chain[-1]))
    return agreed(lambda *xs: [f(*xs) for f in chain], *xs)


# ---- fan-out, broadcasting, walls --------------------------------------------------------------------------


def test_contributions_of_all_uses_are_summed():
    s = f32(1, -2, 3)
    assert agreed(slope(lambda x: x * x), s).tolist() == [2, -4, 6]
    assert agreed(slope(lambda x: x + x + x - x), s).tolist() == [2, 2, 2]

    def residual(x):
        h = x * 2
        return x + h + h * h

    assert agreed(slope(residual), s).tolist() == [1 + 2 + 8 * v for v in s]


SLICES = {
    "all": (1, lambda x: [x[:2], x[2:3], x[3:]]),
    "in another order": (1, lambda x: [x[3:], x[:2], x[2:3]]),
    "with gaps": (1, lambda x: [x[1:2], x[3:4]]),
    "an empty one": (1, lambda x: [x[:2], x[2:2], x[2:]]),
    "along the second axis": (1, lambda x: [x[:, :1], x[:, 1:]]),
    "single rows": (1, lambda x: [x[i] for i in range(5)]),
    "overlapping": (0, lambda x: [x[:3], x[2:]]),
    "twice the same": (0, lambda x: [x[:3], x[:3] * 1]),
    "every second": (0, lambda x: [x[::2], x[1::2]]),
    "blocks": (0, lambda x: [x[:2, :1], x[:2, 1:], x[2:]]),
}
"""How many joins their gradient takes, and slices of f64[5,3]."""


@pytest.mark.parametrize("name", SLICES)
def test_gradients_of_slices_are_joined_where_they_lie_side_by_side(name):
    joins, cut = SLICES[name]
    x = np.random.default_rng(0).normal(size=(5, 3))

    def f(x):
        return sum(gt.sum((k + 1) * part**3) for k, part in enumerate(cut(x)))

    expected = np.zeros((5, 3))
    for k, part in enumerate(cut(np.arange(15).reshape(5, 3))):
        np.add.at(expected.reshape(-1), part.ravel(), (k + 1) * 3 * x.ravel()[part.ravel()] ** 2)
    found = agreed(gt.grad(f), x)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    gt.check_grads(f, (x,), order=2)
    names = [eqn.prim.name for eqn in gt.trace(gt.grad(f), x).eqns]
    assert names.count("concat") == joins and (names.count("pad") == 0) == (joins == 1)


def test_a_slice_beside_other_uses_is_added_to_them():
    x = np.arange(6.0)
    found = agreed(gt.grad(lambda x: gt.sum(x * x) + gt.sum(x[:2]) + 3 * gt.sum(x[4:])), x)
    np.testing.assert_array_equal(found, 2 * x + [1, 1, 0, 0, 3, 3])


def test_one_array_as_query_key_and_value():
    x = np.random.default_rng(0).normal(size=(3, 4))

    def attention(q, k, v):
        return gt.sum(gt.softmax(q @ k.T) @ v * np.arange(4.0))

    parts = agreed(gt.grad(attention, (0, 1, 2)), x, x, x)
    np.testing.assert_allclose(agreed(gt.grad(lambda e: attention(e, e, e)), x), sum(parts), rtol=1e-12)
    gt.check_grads(lambda e: attention(e, e, e) + gt.sum(e), (x,), order=2)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (1, 4), (3, 4), (2, 1, 1), (1, 3, 4)])
def test_gradients_of_broadcast_operands_have_their_shape(shape):
    big = np.random.default_rng(1).normal(size=(2, 3, 4))
    small = np.random.default_rng(2).normal(size=shape)
    for fn in (lambda a, b: a * b, lambda a, b: b / (a * a + 1), gt.maximum, lambda a, b: gt.where(a > b, a, b * b)):
        assert agreed(gt.grad(total(fn), 0), small, big).shape == shape
        gt.check_grads(fn, (small, big), order=2)


def test_stop_gradient_is_a_wall_at_every_order():
    x = f32(0.7)
    f = total(lambda x: gt.sin(x) * gt.cos(gt.stop_gradient(x)))
    assert agreed(gt.grad(f), x)[0] == pytest.approx(math.cos(0.7) ** 2, rel=1e-6)
    second = slope(slope(lambda x: gt.sin(x) * gt.cos(gt.stop_gradient(x))))
    assert agreed(second, x)[0] == pytest.approx(-math.sin(0.7) * math.cos(0.7), rel=1e-6)
    third = slope(slope(slope(lambda x: x * x * x * gt.stop_gradient(x))))
    assert agreed(third, f32(2.0)).tolist() == [12]
    assert agreed(slope(gt.stop_gradient), x).tolist() == [0]
    assert agreed(slope(slope(lambda x: gt.stop_gradient(x) * x)), x).tolist() == [0]


def test_equal_values_on_both_sides_of_a_wall_stay_apart():
    x = f32(3, -1)
    assert agreed(slope(lambda x: x * x + x * gt.stop_gradient(x) + gt.stop_gradient(x * x)), x).tolist() == [9, -3]
    assert agreed(slope(lambda x: gt.exp(x) - gt.stop_gradient(gt.exp(x))), f32(0)).tolist() == [1]
    assert agreed(slope(lambda x: gt.stop_gradient(gt.exp(x)) - gt.exp(x)), f32(0)).tolist() == [-1]


# ---- the mask algebra --------------------------------------------------------------------------------------

X = f32(2, 0, -1)
KEPT = np.array([True, False, False])

MASKED = {
    "log": (lambda x: gt.where(x > 0, gt.log(x), 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "other branch": (lambda x: gt.where(x <= 0, 0.0, gt.log(x)), [0.5, 0, 0], [-0.25, 0, 0]),
    "division": (lambda x: gt.where(x == 0, 1.0, 1 / x), [-0.25, 0, -1], [0.25, 0, -2]),
    "power": (lambda x: gt.where(x > 0, x**0.5, x), [8**-0.5, 1, 1], [-0.25 * 8**-0.5, 0, 0]),
    "overflow": (lambda x: gt.where(x < 1, x, gt.exp(x * 1000) * x), [INF, 1, 1], [INF, 0, 0]),
    "arctan": (lambda x: gt.where(x > 0, gt.atan2(x * x, x), 0.0), [0.2, 0, 0], [-0.16, 0, 0]),
    "twice": (lambda x: gt.where(x > 0, gt.where(x > 1, gt.log(gt.log(x)), 1 / x), 3.0),
              [1 / (2 * math.log(2)), 0, 0], [-(1 + math.log(2)) / (2 * math.log(2)) ** 2, 0, 0]),
    "sum of two": (lambda x: gt.where(x > 0, gt.log(x), 0.0) + gt.where(x < 0, gt.log(-x), 0.0),
                   [0.5, 0, -1], [-0.25, 0, -1]),
    "sum with unmasked": (lambda x: gt.where(x > 0, gt.log(x), 0.0) + x * x, [4.5, 0, -2], [1.75, 2, 2]),
    "shared": (lambda x: gt.where(x > 0, gt.log(x), 0.0) * gt.where(x > 0, gt.log(x), 0.0),
               [math.log(2), 0, 0], [0.5 * (1 - math.log(2)), 0, 0]),
    "broadcast": (lambda x: gt.where(KEPT[:, None], gt.log(gt.broadcast_to(x.reshape(3, 1), (3, 2))), 0.0),
                  [1, 0, 0], [-0.5, 0, 0]),
    "sum": (lambda x: gt.where(KEPT, gt.sum(gt.log(gt.stack([x, x * x], axis=1)), axis=1), 0.0),
            [1.5, 0, 0], [-0.75, 0, 0]),
    "reshape": (lambda x: gt.where(KEPT[None], gt.log(x).reshape(1, 3), 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "transpose": (lambda x: gt.where(KEPT[:, None], gt.log(x.reshape(1, 3)).T, 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "flip": (lambda x: gt.where(KEPT[::-1], gt.log(gt.flip(x)), 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "slice": (lambda x: gt.where(KEPT, gt.log(gt.concat([x, x])[0:3]), 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "concat": (lambda x: gt.where(np.concatenate([KEPT, KEPT]), gt.concat([gt.log(x), gt.sqrt(x)]), 0.0),
               [0.5 + 8**-0.5, 0, 0], [-0.25 - 0.25 * 8**-0.5, 0, 0]),
    "pad": (lambda x: gt.where(np.pad(KEPT, 1), gt.pad(gt.log(x), 1), 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "cast": (lambda x: gt.where(KEPT, gt.astype(gt.log(x), "float64"), 0.0), [0.5, 0, 0], [-0.25, 0, 0]),
    "maximum": (lambda x: gt.maximum(gt.log(gt.abs(x)), -1.0), [0.5, 0, -1], [-0.25, 0, -1]),
    "clip": (lambda x: gt.clip(gt.log(gt.abs(x)), -1.0, 1.0), [0.5, 0, -1], [-0.25, 0, -1]),
    "reciprocal of relu": (lambda x: gt.where(x > 0, 1 / gt.relu(x), 0.0), [-0.25, 0, 0], [0.25, 0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_branch_contributes_exactly_nothing(name):
    fn, first, second = MASKED[name]
    found = orders(fn, X)
    np.testing.assert_allclose(found[0], first, rtol=1e-5, atol=0)
    np.testing.assert_allclose(found[1], second, rtol=1e-5, atol=1e-7)


def test_both_factors_of_a_masked_product_are_clean():
    a, b = f32(1, INF, NAN), f32(2, 0, INF)
    da, db = agreed(gt.grad(total(lambda a, b: gt.where(KEPT, a * b, 0.0)), (0, 1)), a, b)
    assert da.tolist() == [2, 0, 0] and db.tolist() == [1, 0, 0]


def test_a_masked_element_of_a_maximum_over_an_axis_is_clean():
    x = f32(0, 2)
    assert agreed(gt.grad(lambda x: gt.max(gt.log(x))), x).tolist() == [0, 0.5]
    assert agreed(gt.grad(lambda x: gt.min(-gt.log(x))), x).tolist() == [0, -0.5]


def test_a_zero_that_no_mask_made_is_a_number():
    """The derivative of (e^x - 1)^2 / 2 is 0 at 0, and its own derivative there is 1: zeros are not tested for."""
    assert agreed(slope(slope(lambda x: 0.5 * (gt.exp(x) - 1) ** 2)), f32(0)).tolist() == [1]
    assert agreed(slope(slope(lambda x: 0.5 * gt.expm1(x) ** 2)), f32(0)).tolist() == [1]
    masked = lambda x: gt.where(x >= 0, 0.5 * gt.expm1(x) ** 2, 0.0)  # noqa: E731
    assert agreed(slope(slope(masked)), f32(0)).tolist() == [1]


def test_a_fully_masked_row_of_a_softmax_does_not_reach_what_is_shared():
    scores, values = np.zeros((2, 3)), np.arange(3.0)
    keep = np.array([[True, True, False], [False, False, False]])
    rows = np.array([True, False])

    def loss(scores, values):
        p = gt.softmax(gt.where(keep, scores, -INF))
        return gt.sum(gt.where(rows, gt.sum(p * values, axis=1), 0.0))

    ds, dv = agreed(gt.grad(loss, (0, 1)), scores, values)
    np.testing.assert_allclose(ds, [[-0.25, 0.25, 0], [0, 0, 0]])
    np.testing.assert_allclose(dv, [0.5, 0.5, 0])


# ---- kinks -------------------------------------------------------------------------------------------------

KINKS = {
    "abs": (gt.abs, [0.0, -0.0, 2.0, -2.0], [0, 0, 1, -1]),
    "relu": (gt.relu, [0.0, -0.0, 2.0, -2.0], [0, 0, 1, 0]),
    "clip": (lambda x: gt.clip(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 1, 1, 0]),
    "sign": (gt.sign, [0.0, 2.0, -2.0], [0, 0, 0]),
    "floor": (gt.floor, [0.0, 1.5], [0, 0]),
    "ceil": (gt.ceil, [0.0, 1.5], [0, 0]),
    "round": (gt.round, [0.5, 1.2], [0, 0]),
    "trunc": (gt.trunc, [0.0, 1.2], [0, 0]),
    "sqrt": (gt.sqrt, [0.0, 4.0], [INF, 0.25]),
    "maximum with 0": (lambda x: gt.maximum(x, 0), [-1.0, 0.0, 1.0], [0, 0.5, 1]),
    "minimum with 0": (lambda x: gt.minimum(0, x), [-1.0, 0.0, 1.0], [1, 0.5, 0]),
    "maximum with itself": (lambda x: gt.maximum(x, x), [-1.0, 3.0], [1, 1]),
    "leaky_relu": (gt.leaky_relu, [-1.0, 0.0, 1.0], [0.01, 0.01, 1]),
    "through an integer": (lambda x: gt.astype(gt.astype(x, "int32"), "float32"), [0.0, 1.5], [0, 0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks(name):
    """Second derivatives at kinks are 0, but for the square root's."""
    fn, points, slopes = KINKS[name]
    first, second = orders(fn, f32(*points))
    np.testing.assert_allclose(first, slopes, rtol=1e-6)
    assert name == "sqrt" or not second.any()


def test_nan_is_kept_where_numpy_keeps_it():
    x = f32(NAN, 1)
    for fn in (gt.relu, lambda x: gt.clip(x, -1, 1), lambda x: gt.maximum(x, 0), lambda x: gt.minimum(2, x), gt.sign):
        assert np.isnan(agreed(fn, x)).tolist() == [True, False]


@pytest.mark.parametrize("fn, wins", [(gt.max, 2), (gt.min, -2)])
def test_ties_share_the_gradient_evenly(fn, wins):
    assert agreed(gt.grad(fn), f32(0, wins, wins, wins)).tolist() == f32(0, 1 / 3, 1 / 3, 1 / 3).tolist()
    rows = np.array([[wins, wins], [0, wins]], np.float32)
    assert agreed(gt.grad(lambda x: gt.sum(fn(x, axis=1) * f32(2, 3))), rows).tolist() == [[1, 1], [0, 3]]
    assert agreed(gt.grad(lambda x: gt.sum(fn(x, axis=(0, 1), keepdims=True))), rows).sum() == 1


ZEROS = np.array([[2, 0, 3, 4], [0, 5, 0, 1], [1, 2, 3, 4], [0, 0, 0, 0]], np.float64)


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_prod_is_right_with_zeros_at_both_orders(axis):
    gt.check_grads(lambda x: gt.prod(x, axis=axis), (ZEROS,), order=2)
    agreed(gt.grad(lambda x: gt.sum(gt.prod(x, axis=axis))), ZEROS)


def test_prod_gives_the_known_gradient():
    assert agreed(gt.grad(lambda x: gt.sum(gt.prod(x, axis=1))), ZEROS[:3].astype(np.float32)).tolist() == [
        [0, 24, 0, 0], [0, 0, 0, 0], [24, 12, 8, 6]
    ]  # fmt: skip
    assert agreed(gt.grad(gt.prod), np.zeros((0,), np.float32)).shape == (0,)


def test_the_norm_is_flat_at_zero_and_the_squared_norm_is_smooth():
    zero = np.zeros(3, np.float32)
    assert agreed(gt.grad(gt.norm), zero).tolist() == [0, 0, 0]
    assert agreed(gt.grad(gt.norm), f32(3, 4)).tolist() == f32(0.6, 0.8).tolist()
    hessian_row = gt.grad(lambda x: gt.grad(lambda x: gt.norm(x) ** 2)(x)[0])
    assert agreed(gt.grad(lambda x: gt.norm(x) ** 2), zero).tolist() == [0, 0, 0]
    assert np.isfinite(agreed(hessian_row, zero)).all()
    gt.check_grads(lambda x: gt.norm(x, axis=1), (np.random.default_rng(0).normal(size=(2, 3)),), order=2)


# ---- powers ------------------------------------------------------------------------------------------------

BASES = f32(-2, -0.5, 0, 0.5, 3)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("form", ["int", "float", "array", "scalar"])
def test_integer_powers_are_exact_at_all_orders(exponent, form):
    """In every form of the exponent; powers of these bases are exact in float32."""
    p = {"int": exponent, "float": float(exponent), "array": np.full(5, exponent, np.float32), "scalar": None}[form]
    given = np.float32(exponent) if p is None else p
    power = np.poly1d([1] + [0] * exponent)
    for order, found in enumerate(orders(lambda x: x**given, BASES, upto=3), 1):
        assert found.tolist() == power.deriv(order)(BASES).tolist(), order
    assert (gt.tensor(BASES) ** given).tolist() == power(BASES).tolist()


def test_the_derivative_by_the_exponent():
    x, p = f32(0, 0, 2, 0), f32(2, 0.5, 3, 1)
    assert agreed(slope(gt.pow, 1), x, p).tolist() == pytest.approx([0, 0, 8 * math.log(2), 0])
    assert agreed(slope(slope(gt.pow, 1), 1), x, p).tolist() == pytest.approx([0, 0, 8 * math.log(2) ** 2, 0])
    assert agreed(gt.pow, f32(0), f32(0)).tolist() == [1]
    gt.check_grads(gt.pow, (np.array([0.5, 2.0]), np.array([-1.5, 2.5])), order=2)


def test_fractional_and_negative_powers():
    gt.check_grads(lambda x: x**-2 + x**0.5 + x**2.5 + 2**x, (np.array([0.5, 2.0]),), order=2)
    assert agreed(slope(lambda x: x**0.5), f32(0)).tolist() == [INF]
    assert agreed(slope(lambda x: x**1.5), f32(0)).tolist() == [0]


# ---- neither overflow nor cancellation ---------------------------------------------------------------------

POINTS = np.array([-1000.0, -80, -20, -5, -1, 0, 1, 5, 20, 80, 1000])


def sigmoid(x):
    return np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))


STABLE = {
    "softplus": (gt.softplus, POINTS, sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "sigmoid": (gt.sigmoid, POINTS, lambda x: sigmoid(x) * sigmoid(-x),
                lambda x: sigmoid(x) * sigmoid(-x) * -np.tanh(x / 2)),
    "log_sigmoid": (gt.log_sigmoid, POINTS, lambda x: sigmoid(-x), lambda x: -sigmoid(x) * sigmoid(-x)),
    "expm1": (gt.expm1, np.array([-80.0, -1e-7, 0, 1e-7, 5]), np.exp, np.exp),
    "log1p": (gt.log1p, np.array([-0.999, -1e-7, 0, 1e-7, 1e5, 1e30]), lambda x: 1 / (1 + x),
              lambda x: -1 / (1 + x) ** 2),
}  # fmt: skip


@pytest.mark.parametrize("name", STABLE)
def test_first_and_second_derivatives_keep_their_digits_in_float32(name):
    fn, points, first, second = STABLE[name]
    x = points.astype(np.float32)
    wide = x.astype(np.float64)
    tiny = np.finfo(np.float32).tiny
    found = orders(fn, x)
    np.testing.assert_allclose(found[0], first(wide), rtol=2e-6, atol=tiny)
    np.testing.assert_allclose(found[1], second(wide), rtol=4e-6, atol=tiny)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_keeps_its_digits_and_never_overflows(approximate):
    fn = lambda x: gt.gelu(x, approximate=approximate)  # noqa: E731
    far = f32(-1e30, -1e10, -60, 60, 1e10, 1e30)
    assert agreed(fn, far).tolist() == [0, 0, 0, 60, np.float32(1e10), np.float32(1e30)]
    first, second, third = orders(fn, far, upto=3)
    assert first.tolist() == [0, 0, 0, 1, 1, 1] and second.tolist() == third.tolist() == [0] * 6
    near = np.linspace(-8, 8, 41)
    for found, wide in zip(orders(fn, near.astype(np.float32), upto=3), orders(fn, near, upto=3), strict=True):
        np.testing.assert_allclose(found, wide, rtol=2e-5, atol=1e-7)
    assert agreed(fn, f32(-INF, INF, NAN)).tolist()[:2] == [0, INF]
    for found, limit in zip(orders(fn, f32(-INF, INF), upto=3), ([0, 1], [0, 0], [0, 0]), strict=True):
        assert found.tolist() == limit


def test_derivatives_of_gelu_are_those_of_its_formula():
    """Phi + x phi, phi (2 - x**2), phi x (x**2 - 4); of the other form by differences of the one before."""
    x = np.linspace(-6, 6, 49)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    normal = np.array([0.5 * math.erfc(-v * math.sqrt(0.5)) for v in x])
    expected = normal + x * density, density * (2 - x * x), density * x * (x * x - 4)
    for found, wanted in zip(orders(gt.gelu, x, upto=3), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-16)
    tanh = slope(lambda x: gt.gelu(x, approximate="tanh"))
    gt.check_grads(tanh, (x,), order=2, rtol=1e-6)
    near = orders(lambda x: gt.gelu(x, approximate="tanh"), x)[0]
    np.testing.assert_allclose(near, expected[0], atol=2e-3)


@pytest.mark.parametrize("fn", [gt.sigmoid, gt.gelu, lambda x: gt.gelu(x, approximate="tanh")])
def test_a_derivative_that_has_a_function_of_its_own_is_one_operation(fn):
    _, _, _, derivative, product = gt.trace(slope(fn), gt.spec((3,))).eqns
    assert derivative.prim.name.endswith("_slope") and product.prim.name == "mul"


def test_logsumexp_and_log_softmax_have_finite_derivatives_far_out():
    far = f32(-1e30, 0, 1e30)
    assert agreed(gt.grad(gt.logsumexp), far).tolist() == [0, 0, 1]
    assert agreed(gt.grad(lambda x: gt.logsumexp(x)), f32(-INF, -INF)).tolist() == [0, 0]
    assert agreed(gt.grad(lambda x: gt.log_softmax(x)[2]), far).tolist() == [0, 0, 0]
    second = gt.grad(lambda x: gt.grad(gt.logsumexp)(x)[1])
    np.testing.assert_allclose(agreed(second, f32(0, 0)), [-0.25, 0.25])
    assert agreed(second, far).tolist() == [0, 0, 0]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_on_every_axis(axis):
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    for fn in (gt.softmax, gt.log_softmax, gt.logsumexp):
        gt.check_grads(lambda x, fn=fn: fn(x, axis=axis), (x,), order=2)


# ---- sums --------------------------------------------------------------------------------------------------


LONG = [((10_000_000,), 0), ((2_500_000, 4), 0), ((4, 2_500_000), 1), ((2_500_000, 4), (0, 1))]


@pytest.mark.parametrize("shape, axis", LONG)
def test_long_sums_of_float32_keep_their_digits(shape, axis):
    x = np.full(shape, 0.1, np.float32)
    exact = float(np.float32(0.1)) * (x.size if np.size(axis) == 2 else shape[axis])
    for memory in (x, np.asfortranarray(x)):
        np.testing.assert_allclose(gt.sum(memory, axis=axis).numpy(), exact, rtol=1e-6)
    np.testing.assert_allclose(gt.mean(x, axis=axis).numpy(), np.float32(0.1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_sums_of_integers_are_wide(dtype):
    x = np.full(300, 1 if dtype is np.bool_ else 100, dtype)
    for fn in (gt.sum, lambda x: gt.prod(x[:1])):
        assert agreed(fn, x).dtype == (np.uint64 if np.dtype(dtype).kind == "u" else np.int64)
    assert agreed(gt.sum, x) == 300 * int(x[0])

"""jacrev, jacfwd, hessian, linearize: against differences, each other and NumPy, in every way of running."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import GradError, ShapeError
from tests.ways import agreed, eager, evaluated

RNG = np.random.default_rng(1)
W, X = RNG.standard_normal((3, 3)), RNG.standard_normal(3)
BOTH = pytest.mark.parametrize("jacobian", [gt.jacrev, gt.jacfwd])


def differences(fn, x, step=1e-5):
    """The Jacobian of an array function of one float64 array, by central differences of the fourth order."""
    columns = []
    for i in np.ndindex(x.shape):
        h = np.zeros_like(x)
        h[i] = step
        f = lambda k, h=h: fn(x + k * h)  # noqa: E731
        columns.append((8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * step))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *x.shape)


def layered(x):
    return gt.nn.layer_norm(gt.gelu(gt.outer(x, x) @ W))


def rolled(x):
    last, rows = gt.scan(lambda c, e: (gt.tanh(c @ W + e), gt.sum(c * c)), x, gt.stack([x, x * x, gt.sin(x)]))
    return gt.concat([last, rows])


def mapped(x):
    return gt.vmap(lambda row: gt.softmax(row * x))(gt.outer(x, x))


def branched(x):
    return gt.cond(gt.sum(x) > 0, lambda v: gt.tanh(v @ W), lambda v: gt.sin(v @ W), x)


FUNCTIONS = {
    "layered": layered,
    "rolled": rolled,
    "mapped": mapped,
    "branched": branched,
    "remade": gt.checkpoint(layered),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@BOTH
def test_jacobians_against_differences(jacobian, name):
    fn = FUNCTIONS[name]
    found = agreed(jacobian(fn), X, rtol=1e-9, atol=1e-10)
    wanted = differences(lambda x: eager(fn, x), X)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_against_differences_of_gradients(name):
    fn = lambda x: gt.sum(gt.sin(FUNCTIONS[name](x)))  # noqa: E731
    found = agreed(gt.hessian(fn), X, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found, differences(lambda x: eager(gt.grad(fn), x), X), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-10)


def test_second_derivatives_in_every_order_of_modes():
    wanted = differences(lambda x: eager(gt.jacrev(layered), x), X)
    for outer in (gt.jacrev, gt.jacfwd):
        for inner in (gt.jacrev, gt.jacfwd):
            found = eager(outer(inner(layered)), X)
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(agreed(gt.jacfwd(gt.jacrev(mapped)), X, rtol=1e-8, atol=1e-10),
                               differences(lambda x: eager(gt.jacfwd(mapped), x), X), rtol=1e-6, atol=1e-7)  # fmt: skip


class Pair(NamedTuple):
    a: object
    b: object


@BOTH
def test_the_structure_is_that_of_the_result_and_in_it_that_of_the_arguments(jacobian):
    def fn(p, y, power):
        return {"u": p.a * gt.sum(y**power), "v": [p.b * y, gt.sum(p.a)]}

    p, y = Pair(X, np.float64(2)), RNG.standard_normal(2)
    found = agreed(lambda p, y: jacobian(fn, (0, 1))(p, y, power=2), p, y, rtol=1e-9)
    of_p, of_y = found["u"]
    assert isinstance(of_p, Pair) and of_p.a.shape == (3, 3) and of_p.b.shape == (3,) and of_y.shape == (3, 2)
    np.testing.assert_allclose(of_p.a, np.eye(3) * (y**2).sum(), atol=1e-12)
    np.testing.assert_allclose(of_y, X[:, None] * 2 * y, atol=1e-12)
    np.testing.assert_allclose(found["v"][0][0].b, y, atol=1e-12)
    np.testing.assert_allclose(found["v"][1][0].a, np.ones(3), atol=1e-12)
    assert not found["v"][1][1].any() and not found["u"][0].b.any()
    single = agreed(jacobian(lambda a, b: a * b, -1), X, y[0], rtol=1e-9)
    np.testing.assert_allclose(single, X)
    (alone,) = agreed(jacobian(lambda a, b: a * b, (1,)), X, y[0], rtol=1e-9)
    np.testing.assert_allclose(alone, X)


@BOTH
def test_aux_and_frozen_leaves(jacobian):
    found, aux = jacobian(lambda x: (x * x, {"note": "text", "x": x}), has_aux=True)(X)
    np.testing.assert_allclose(found.numpy(), np.diag(2 * X))
    assert aux["note"] == "text" and aux["x"].tolist() == X.tolist()
    params = {"w": X, "n": np.array([1, 2])}
    frozen = jacobian(lambda p: p["w"] * gt.sum(p["n"]), frozen={"w": False, "n": True})(params)
    assert frozen["n"] is None
    np.testing.assert_allclose(frozen["w"].numpy(), 3 * np.eye(3))


def test_hessians_of_trees_and_with_aux():
    def energy(p):
        return gt.sum(p["a"] ** 2 * p["b"]) + p["b"] ** 3

    found = agreed(gt.hessian(energy), {"a": X, "b": np.float64(2)}, rtol=1e-9)
    np.testing.assert_allclose(found["a"]["a"], np.diag(np.full(3, 4.0)), atol=1e-12)
    np.testing.assert_allclose(found["a"]["b"], 2 * X, atol=1e-12)
    np.testing.assert_allclose(found["b"]["a"], 2 * X, atol=1e-12)
    np.testing.assert_allclose(found["b"]["b"], 12, atol=1e-12)
    hessian, aux = gt.hessian(lambda x: (gt.sum(x**3), "note"), has_aux=True)(X)
    assert aux == "note"
    np.testing.assert_allclose(hessian.numpy(), np.diag(6 * X))


def test_hessians_under_a_map_and_maps_under_a_hessian():
    xs = RNG.standard_normal((4, 3))
    each = gt.vmap(gt.hessian(lambda x: gt.sum(gt.tanh(x @ W))))
    wanted = np.stack([eager(gt.hessian(lambda x: gt.sum(gt.tanh(x @ W))), x) for x in xs])
    np.testing.assert_allclose(agreed(each, xs, rtol=1e-8, atol=1e-10), wanted, rtol=1e-9, atol=1e-11)
    whole = agreed(
        gt.hessian(lambda xs: gt.sum(gt.vmap(lambda x: gt.sum(gt.tanh(x @ W)))(xs))), xs, rtol=1e-8, atol=1e-10
    )
    for i in range(4):
        np.testing.assert_allclose(whole[i, :, i], wanted[i], rtol=1e-9, atol=1e-11)
        assert not np.delete(whole[i], i, axis=1).any()


def test_linearize_runs_the_function_once():
    runs = []

    def fn(x, y):
        runs.append(1)
        return {"out": gt.sin(x) * y}

    def at(x, y, s, t):
        value, linear = gt.linearize(fn, x, y)
        return value, linear(s, t), linear(t, s), gt.jvp(fn, [x, y], [s, t])[1]

    args = [RNG.standard_normal(3) for _ in range(4)]
    value, one, other, wanted = agreed(at, *args, rtol=1e-9)
    x, y, s, t = args
    np.testing.assert_allclose(value["out"], np.sin(x) * y)
    np.testing.assert_allclose(one["out"], wanted["out"])
    np.testing.assert_allclose(other["out"], np.cos(x) * t * y + np.sin(x) * s)
    assert len(runs) == 6
    _, linear, aux = gt.linearize(lambda x, n: (x * n, n), X, 3, argnums=0, has_aux=True)
    assert aux == 3
    np.testing.assert_allclose(linear(X).numpy(), 3 * X)
    np.testing.assert_allclose(
        gt.grad(lambda x: gt.sum(gt.linearize(gt.sin, x)[1](x)))(X).numpy(), np.cos(X) - X * np.sin(X)
    )


def test_jacobians_of_numbers_and_empty_arrays():
    assert gt.jacrev(lambda x: x * x)(3.0).item() == gt.jacfwd(lambda x: x * x)(3.0).item() == 6
    for jacobian in (gt.jacrev, gt.jacfwd):
        assert agreed(jacobian(lambda x: x[:0] * 2), X).shape == (0, 3)
        assert agreed(jacobian(lambda x: gt.sum(x) * gt.ones(2, dtype="float64")), X[:0]).shape == (2, 0)
    assert gt.jacobian is gt.jacrev and gt.jacrev(layered).__name__ == "jacrev_layered"
    assert gt.hessian(layered).__name__ == "hessian_layered"


@BOTH
def test_what_is_refused(jacobian):
    with pytest.raises(GradError, match=r"x is i64\[3\]: only floating-point inputs"):
        jacobian(lambda x: x * 2)(np.arange(3))
    with pytest.raises(GradError, match=r"a result is i64\[\]: only floating-point results have a derivative"):
        jacobian(gt.argmax)(X)
    with pytest.raises(GradError, match="argnums=2, but there are 1 arguments"):
        jacobian(gt.sin, 2)(X)
    with pytest.raises(ShapeError, match="a Jacobian has a fixed size"):
        gt.trace(jacobian(gt.sin), gt.spec(("B",), max={"B": 3}))
    with pytest.raises(ShapeError, match="2 tangents for one argument"):
        gt.linearize(gt.sin, X, argnums=0)[1](X, X)
    with pytest.raises(ShapeError, match=r"the cotangent is f64\[2\], the value f64\[3\]"):
        gt.linearize(gt.sin, X)[1](X[:2])
    assert evaluated(jacobian(gt.sin), X).shape == (3, 3)

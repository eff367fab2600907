"""custom_vjp, custom_jvp and debug_print: rules are used, in every way of running, to second order, and under vmap."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import GradError, ShapeError, TraceError
from gtensor.passes import simplify
from tests.ways import agreed, eager, evaluated

RNG = np.random.default_rng(2)
X = RNG.standard_normal(3)
XS = RNG.standard_normal((4, 3))
TABLE = np.array([1.0, 2.0, 3.0])
WAYS = pytest.mark.parametrize("way", [eager, evaluated])


def wrong_by(factor):
    """sin(x) y, with a derivative by x that is a known multiple of the true one, to tell the rule from the function."""

    @gt.custom_vjp
    def product(x, y):
        return gt.sin(x) * y

    def fwd(x, y):
        return product(x, y), (x, gt.sin(x), y)

    def bwd(residuals, g):
        x, s, y = residuals
        return factor * g * gt.cos(x) * y, gt.sum(g * s)

    product.defvjp(fwd, bwd)
    return product


def stable():
    """log(1 + exp(x)) with the derivative that does not overflow."""

    @gt.custom_jvp
    def softplus(x):
        return gt.log(1 + gt.exp(x))

    @softplus.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return softplus(x), t * gt.sigmoid(x)

    return softplus


# ---- values and derivatives --------------------------------------------------------------------------------


def test_the_value_is_that_of_the_function_and_the_derivative_that_of_the_rule():
    f = wrong_by(2)
    y = np.float64(3)
    np.testing.assert_allclose(agreed(f, X, y), np.sin(X) * 3)
    of_x, of_y = agreed(gt.grad(lambda x, y: gt.sum(f(x, y)), (0, 1)), X, y)
    np.testing.assert_allclose(of_x, 2 * np.cos(X) * 3)
    np.testing.assert_allclose(of_y, np.sin(X).sum())
    value, pullback = gt.vjp(f, X, y)
    np.testing.assert_allclose(value.numpy(), np.sin(X) * 3)
    np.testing.assert_allclose(pullback(X)[0].numpy(), 6 * np.cos(X) * X)
    w = gt.tensor(X, requires_grad=True)
    gt.sum(f(w, 3.0)).backward()
    np.testing.assert_allclose(w.grad.numpy(), 6 * np.cos(X))


def test_second_derivatives_are_those_of_the_rule():
    f = wrong_by(2)
    slope = lambda x: gt.sum(gt.grad(lambda x: gt.sum(f(x, 3.0)))(x))  # noqa: E731
    np.testing.assert_allclose(agreed(gt.grad(slope), X), -6 * np.sin(X))
    np.testing.assert_allclose(agreed(gt.hessian(lambda x: gt.sum(f(x, 3.0))), X), np.diag(-6 * np.sin(X)), atol=1e-12)
    third = lambda x: gt.sum(gt.grad(slope)(x))  # noqa: E731
    np.testing.assert_allclose(agreed(gt.grad(third), X), -6 * np.cos(X))
    np.testing.assert_allclose(agreed(gt.jacfwd(f), X, np.float64(3), rtol=1e-9), np.diag(6 * np.cos(X)), atol=1e-12)


def test_a_residual_that_calls_the_function_has_its_rule_too():
    @gt.custom_vjp
    def exp(x):
        return gt.exp(x)

    exp.defvjp(lambda x: (exp(x), exp(x)), lambda y, g: (2 * g * y,))
    f = lambda x: gt.sum(exp(x))  # noqa: E731
    for order in range(1, 4):
        f = gt.grad(lambda x, f=f: gt.sum(f(x)))
        np.testing.assert_allclose(agreed(f, X), 2**order * np.exp(X), rtol=1e-12)


def test_rules_for_both_directions():
    f = stable()
    big = np.array([-800.0, 0.0, 800.0])
    np.testing.assert_allclose(agreed(gt.grad(lambda x: gt.sum(f(x))), big), [0, 0.5, 1])
    np.testing.assert_allclose(agreed(lambda x: gt.jvp(f, [x], [gt.ones_like(x)])[1], big), [0, 0.5, 1])
    np.testing.assert_allclose(agreed(gt.vmap(gt.grad(gt.grad(f))), big), [0, 0.25, 0], atol=1e-12)
    gt.check_grads(f, (X,), order=2)
    gt.check_grads(wrong_by(1), (X, np.float64(2)), order=2)


def test_trees_integers_defaults_and_arguments_without_a_cotangent():
    @gt.custom_vjp
    def f(p, n, scale=2.0):
        return {"u": p["a"] * scale + p["b"][0], "n": gt.argmax(p["a"])}

    def bwd(residuals, g):
        _, scale = residuals
        return {"a": g["u"] * TABLE * scale, "b": None}, None, None

    f.defvjp(lambda p, n, scale: (f(p, n, scale), (p, scale)), bwd)
    params = {"a": X, "b": [np.float64(1)]}
    for call in (lambda p: f(p, 3), lambda p: f(p, n=np.int64(3), scale=2.0)):
        found = agreed(gt.grad(lambda p, call=call: gt.sum(call(p)["u"])), params)
        np.testing.assert_allclose(found["a"], 2 * TABLE)
        assert found["b"][0] == 0
    assert agreed(lambda p: f(p, 3)["n"], params) == X.argmax()


def test_arguments_that_keep_their_python_values():
    @functools.partial(gt.custom_vjp, nondiff_argnums=(0, 2))
    def apply(fn, x, count):
        return fn(x) if count else x

    def bwd(fn, count, x, g):
        assert fn is gt.sin and count == 3 and isinstance(count, int)
        return (100 * g,)

    apply.defvjp(lambda fn, x, count: (apply(fn, x, count), x), bwd)
    np.testing.assert_allclose(agreed(gt.grad(lambda x: gt.sum(apply(gt.sin, x, 3))), X), np.full(3, 100.0))

    @functools.partial(gt.custom_jvp, nondiff_argnums=1)
    def power(x, n):
        return x**n

    power.defjvp(lambda n, primals, tangents: (power(primals[0], n), 10 * n * tangents[0]))
    np.testing.assert_allclose(agreed(gt.grad(lambda x: gt.sum(power(x, 3))), X), np.full(3, 30.0))


def test_walls_hold_inside_rules():
    @gt.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * gt.stop_gradient(x) * x,))
    np.testing.assert_allclose(agreed(gt.grad(lambda x: gt.sum(f(x))), X), X * X)
    slope = lambda x: gt.sum(gt.grad(lambda x: gt.sum(f(x)))(x))  # noqa: E731
    np.testing.assert_allclose(agreed(gt.grad(slope), X), X)
    assert not agreed(gt.grad(lambda x: gt.sum(f(gt.stop_gradient(x)))), X).any()


# ---- inside other transformations --------------------------------------------------------------------------


def test_rules_under_a_map():
    f = wrong_by(2)
    y = np.float64(3)
    each = gt.vmap(gt.grad(lambda x, y: gt.sum(f(x, y)), (0, 1)), (0, None))
    of_x, of_y = agreed(each, XS, y)
    np.testing.assert_allclose(of_x, 6 * np.cos(XS))
    np.testing.assert_allclose(of_y, np.sin(XS).sum(axis=1))
    around = gt.grad(lambda x, y: gt.sum(gt.vmap(f, (0, None))(x, y) ** 2), (0, 1))
    of_x, of_y = agreed(around, XS, y)
    np.testing.assert_allclose(of_x, 2 * (np.sin(XS) * 3) * 6 * np.cos(XS))
    np.testing.assert_allclose(of_y, (2 * np.sin(XS) ** 2 * 3).sum())
    last = gt.grad(lambda x: gt.sum(gt.vmap(f, (1, None), 1)(x, y) * XS.T))
    np.testing.assert_allclose(agreed(last, np.ascontiguousarray(XS.T)), 6 * np.cos(XS.T) * XS.T)
    twice = gt.vmap(gt.vmap(gt.grad(f), (0, None)), (None, 0))
    np.testing.assert_allclose(agreed(twice, X, TABLE), 2 * np.cos(X) * TABLE[:, None])
    second = gt.grad(lambda x: gt.sum(around(x, y)[0]))
    np.testing.assert_allclose(agreed(second, XS), 72 * np.cos(XS) ** 2 - 36 * np.sin(XS) ** 2, rtol=1e-9)
    np.testing.assert_allclose(
        agreed(gt.vmap(gt.vmap(gt.grad(gt.grad(stable())))), XS), np.exp(-XS) / (1 + np.exp(-XS)) ** 2
    )


def test_a_rule_inside_loops_and_branches_that_reads_an_array():
    @gt.custom_vjp
    def f(x):
        return gt.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * gt.cos(x) * TABLE,))

    def expected(x):
        slope = np.ones(3)
        for _ in range(3):
            slope, x = slope * np.cos(x) * TABLE, np.sin(x)
        return slope

    def looped(x):
        return gt.sum(gt.scan(lambda c, _: (f(c), None), x, length=3)[0])

    np.testing.assert_allclose(agreed(gt.grad(looped), X), expected(X), rtol=1e-9)
    np.testing.assert_allclose(agreed(gt.vmap(gt.grad(looped)), XS), np.stack([expected(x) for x in XS]), rtol=1e-9)
    np.testing.assert_allclose(
        agreed(gt.grad(lambda xs: gt.sum(gt.vmap(looped)(xs))), XS), np.stack([expected(x) for x in XS]), rtol=1e-9
    )
    forked = lambda x: gt.sum(gt.cond(gt.sum(x) > 0, f, lambda v: v * TABLE[0], x))  # noqa: E731
    for x in (X - X.sum(), X - X.sum() + 10):
        wanted = np.cos(x) * TABLE if x.sum() > 0 else np.ones(3)
        np.testing.assert_allclose(agreed(gt.grad(forked), x), wanted)
    remade = gt.checkpoint(lambda x: gt.sum(f(gt.exp(x))))
    np.testing.assert_allclose(agreed(gt.grad(remade), X), np.cos(np.exp(X)) * TABLE * np.exp(X))


def test_nothing_is_left_of_a_rule_in_what_is_compiled():
    f = wrong_by(2)
    graph = gt.trace(lambda x: f(x, 3.0) + 1, gt.spec((3,)))
    assert [eqn.prim.name for eqn in graph.eqns] == ["custom", "add"]
    assert [eqn.prim.name for eqn in simplify(graph, check=2).eqns] == ["sin", "mul", "add"]
    names = {eqn.prim.name for eqn in simplify(gt.trace(gt.grad(lambda x: gt.sum(f(x, 3.0))), gt.spec((3,)))).eqns}
    assert names == {"cos", "mul"}


def test_a_rule_in_a_training_step():
    @gt.custom_vjp
    def straight_through(x):
        return gt.sign(x)

    straight_through.defvjp(lambda x: (straight_through(x), None), lambda _, g: (g,))

    def loss_fn(w, x, y):
        return gt.mean((x @ straight_through(w) - y) ** 2)

    xs = RNG.standard_normal((16, 3)).astype(np.float32)
    ys = xs @ np.array([1, -1, 1], np.float32)
    train = gt.TrainStep(loss_fn, np.array([-0.2, 0.1, 0.1], np.float32), gt.optim.sgd(0.05), xs, ys)
    losses = [train(xs, ys) for _ in range(20)]
    assert losses[0] > 1 and losses[-1] == 0


# ---- wrong uses --------------------------------------------------------------------------------------------


def ruled(fwd=lambda x: (x, x), bwd=lambda x, g: (g,)):
    @gt.custom_vjp
    def f(x):
        return x * 1

    f.defvjp(fwd, bwd)
    return f


def tangential(rule):
    @gt.custom_jvp
    def f(x):
        return x * 1

    f.defjvp(rule)
    return f


@WAYS
@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (ruled(fwd=lambda x: x), GradError, "the fwd of f must return a pair"),
        (ruled(bwd=lambda x, g: g), GradError, "the bwd of f must return a tuple of 1 cotangents, not Tensor"),
        (ruled(bwd=lambda x, g: (g, g)), GradError, "must return a tuple of 1 cotangents, not 2"),
        (ruled(bwd=lambda x, g: ({"a": g},)), GradError, "cotangents of another structure"),
        (ruled(bwd=lambda x, g: (g[:2],)), ShapeError, r"the bwd of f gave f64\[2\] for f64\[3\]"),
        (tangential(lambda p, t: t[0]), GradError, "the jvp of f must return a pair"),
        (tangential(lambda p, t: (p[0], t)), GradError, "gave a tangent of structure"),
        (tangential(lambda p, t: (p[0], t[0][:2])), ShapeError, r"the jvp of f gave f64\[2\] for f64\[3\]"),
    ],
)
def test_rules_that_do_not_fit(way, f, error, message):
    assert way(f, X).tolist() == X.tolist()
    with pytest.raises(error, match=message):
        way(gt.grad(lambda x: gt.sum(f(x))), X)


@WAYS
def test_captured_tensors_have_no_derivative(way):
    def loss(a):
        f = gt.custom_vjp(lambda x: x * a)
        f.defvjp(lambda x: (f(x), None), lambda _, g: (g,))
        return gt.sum(f(a))

    with pytest.raises(GradError, match="captures a tensor that is differentiated"):
        way(gt.grad(loss), X)


@WAYS
def test_functions_without_a_rule(way):
    for make in (gt.custom_vjp, gt.custom_jvp):
        with pytest.raises(GradError, match="sin has no rule yet"):
            way(make(gt.sin), X)
    f = gt.custom_vjp(gt.sin, nondiff_argnums=1)
    f.defvjp(lambda x: (x, x), lambda x, g: (g,))
    with pytest.raises(GradError, match="nondiff_argnums=1, but sin has 1 arguments"):
        way(f, X)
    keyword = gt.custom_vjp(lambda x, *, y: x)
    keyword.defvjp(lambda x: (x, x), lambda x, g: (g,))
    with pytest.raises(TraceError, match="y can only be given by keyword"):
        way(lambda x: keyword(x, y=1), X)
    assert repr(keyword) == "<custom_vjp lambda>"


def test_an_array_that_is_returned_as_it_came_is_copied():
    f = ruled()
    given = X.copy()
    found = gt.custom_vjp(lambda x: x)
    found.defvjp(lambda x: (x, x), lambda x, g: (g,))
    out = found(given)
    given[:] = 0
    assert out.tolist() == X.tolist() and f(X).tolist() == X.tolist()


# ---- debug_print -------------------------------------------------------------------------------------------


def test_values_are_printed_where_operations_run_at_once(capsys):
    def loss(w):
        gt.debug_print("w {} of {n} at {:.1f}", w, gt.sum(w), n="two")
        return gt.sum(w * w)

    gt.grad(loss)(gt.tensor([1.0, 2.0]))
    gt.scan(lambda c, x: (gt.debug_print("c {}", c), (c + x, None))[1], gt.tensor(0), gt.arange(2))
    assert capsys.readouterr().out == "w [1. 2.] of two at 3.0\nc 0\nc 0\n"


def test_printing_is_refused_while_a_function_is_traced():
    def noisy(x):
        gt.debug_print("x {}", x)
        return x

    for call in (lambda: gt.compile(noisy)(X), lambda: gt.trace(noisy, X), lambda: gt.vmap(noisy)(X)):
        with pytest.raises(TraceError, match=r"(?s)debug_print while a function is traced.*without gt.compile"):
            call()

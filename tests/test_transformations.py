"""How derivatives are asked for: grad, value_and_grad, vjp, jvp, hvp, backward, check_grads, and what is refused.

Both styles are one mechanism, so most tests run eagerly and traced (`ways.agreed`): a function that is
differentiated, and a tensor that is, by what it was computed from.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, GradCheckError, GradError, ShapeError, TraceError
from tests.ways import agreed, evaluated


def f32(*values):
    return np.array(values, np.float32)


class Layer(NamedTuple):
    w: object
    b: object


# ---- functions ---------------------------------------------------------------------------------------------


def test_gradients_have_the_structure_of_the_argument():
    params = {"layers": [Layer(f32(1, 2), f32(3)), Layer(f32(4, 5), None)], "scale": f32(2)}

    def loss(p):
        first, second = p["layers"]
        return gt.sum(p["scale"] * (first.w * second.w + first.b))

    found = agreed(gt.grad(loss), params)
    assert isinstance(found["layers"][0], Layer) and found["layers"][1].b is None
    assert [found["layers"][0].w.tolist(), found["layers"][0].b.tolist()] == [[8, 10], [4]]
    assert [found["layers"][1].w.tolist(), found["scale"].tolist()] == [[2, 4], [20]]


def test_argnums_choose_arguments():
    def loss(a, b, c):
        return gt.sum(a * b + c)

    a, b, c = f32(2), f32(3), f32(4)
    assert agreed(gt.grad(loss), a, b, c).tolist() == [3]
    assert agreed(gt.grad(loss, -2), a, b, c).tolist() == [2]
    first, last = agreed(gt.grad(loss, (2, 0)), a, b, c)
    assert (first.tolist(), last.tolist()) == ([1], [3])
    assert agreed(gt.grad(loss, (1,)), a, b, c)[0].tolist() == [2]
    value, (da, _) = agreed(gt.value_and_grad(loss, (0, 1)), a, b, c)
    assert (value.tolist(), da.tolist()) == (10, [3])
    with pytest.raises(GradError, match="argnums=3, but there are 3 arguments"):
        gt.grad(loss, 3)(a, b, c)
    with pytest.raises(GradError, match="twice"):
        gt.grad(loss, (0, -3))(a, b, c)


def test_keyword_arguments_are_passed_on():
    assert agreed(lambda x: gt.grad(lambda x, power: gt.sum(x**power))(x, power=3), f32(2)).tolist() == [12]


def test_a_gradient_without_a_path_is_zero():
    assert agreed(gt.grad(lambda a, b: gt.sum(b), 0), f32(1, 2), f32(3)).tolist() == [0, 0]
    assert agreed(gt.grad(lambda a: gt.sum(gt.ones(3))), f32(1, 2)).tolist() == [0, 0]
    assert agreed(gt.grad(lambda a: 1.0), f32(1)).tolist() == [0]


def test_python_numbers_and_scalars_are_differentiated_as_float32():
    found = gt.grad(lambda x: x * x)(3.0)
    assert (found.item(), found.dtype, found.shape) == (6, gt.float32, ())
    assert gt.grad(lambda x: x * x)(np.float64(3)).dtype == gt.float64


def test_aux_carries_anything_beside_the_loss():
    def loss(w):
        h = w * w
        return gt.sum(h), {"h": h, "note": "text", "none": None, "count": 3, "twice": h + h}

    gradient, aux = gt.grad(loss, has_aux=True)(f32(1, 2))
    assert gradient.tolist() == [2, 4] and aux["twice"].tolist() == [2, 8]
    assert (aux["note"], aux["none"], aux["count"]) == ("text", None, 3)
    (value, aux), _ = gt.value_and_grad(loss, has_aux=True)(f32(1, 2))
    assert value.item() == 5 and aux["h"].tolist() == [1, 4]
    traced = evaluated(lambda w: gt.grad(loss, has_aux=True)(w)[1]["h"], f32(1, 2))
    assert traced.tolist() == [1, 4]
    with pytest.raises(GradError, match="pair"):
        gt.grad(lambda w: gt.sum(w), has_aux=True)(f32(1))
    with pytest.raises(GradError, match="has_aux"):
        gt.grad(lambda w: (gt.sum(w), w))(f32(1))


def test_aux_is_differentiated_by_the_outer_gradient():
    inner = lambda x: gt.grad(lambda y: (gt.sum(y * x), y * x * x), has_aux=True)(x)[1]  # noqa: E731
    assert agreed(gt.grad(lambda x: gt.sum(inner(x))), f32(2)).tolist() == [12]


def test_frozen_leaves_have_no_gradient():
    params = {"embed": f32(1, 2), "head": [f32(3, 4), np.array([7])]}

    def loss(p):
        return gt.sum(p["embed"] * p["head"][0] * gt.astype(p["head"][1], "float32"))

    for frozen in (
        {"embed": True, "head": [False, True]},
        lambda path: path in ("embed", "head.1"),
    ):
        found = agreed(gt.grad(loss, frozen=frozen), params)
        assert found["embed"] is None and found["head"][1] is None
        assert found["head"][0].tolist() == [7, 14]
    two = gt.grad(lambda a, p: gt.sum(a * p["w"]), (0, 1), frozen=lambda path: path == "p.w")
    assert agreed(two, f32(2), {"w": f32(5)})[0].tolist() == [5]
    two = gt.grad(lambda a, p: gt.sum(a * p["w"]), (0, 1), frozen=(True, False))
    assert agreed(two, f32(2), {"w": f32(5)})[1]["w"].tolist() == [2]
    assert agreed(gt.grad(loss, frozen=True), params) == {"embed": None, "head": [None, None]}


def test_the_function_runs_once_with_values_when_it_is_run_eagerly():
    seen = []

    def loss(x):
        seen.append(x.item())
        return x * x if x > 0 else -x

    assert gt.grad(loss)(3.0).item() == 6
    assert gt.grad(loss)(-3.0).item() == -1
    value, pullback = gt.vjp(loss, 2.0)
    assert (value.item(), pullback(1.0)[0].item(), pullback(2.0)[0].item()) == (4, 4, 8)
    assert seen == [3.0, -3.0, 2.0]


def test_a_function_is_traced_once():
    runs = []

    def loss(x):
        runs.append(1)
        return gt.sum(gt.sin(x))

    def both(x):
        value, pullback = gt.vjp(loss, x)
        return value, pullback(1.0)[0], pullback(2.0)[0], gt.grad(loss)(x)

    evaluated(both, f32(1, 2))
    assert len(runs) == 2


# ---- nesting -----------------------------------------------------------------------------------------------


def test_derivatives_nest_to_any_order():
    f = gt.sin
    for expected in (math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x), math.sin, math.cos):
        f = gt.grad(f)
        assert agreed(f, np.float64(0.7)) == pytest.approx(expected(0.7), rel=1e-12)


def test_variables_of_nested_derivatives_are_not_confused():
    f = lambda x: x * gt.grad(lambda y: x + y)(1.0)  # noqa: E731
    assert agreed(gt.grad(f), np.float32(1)) == 1
    g = lambda x: x * gt.jvp(lambda y: x * y, [gt.ones(())], [gt.ones(())])[1]  # noqa: E731
    assert agreed(gt.grad(g), np.float32(3)) == 6
    h = lambda x: gt.grad(lambda y: gt.grad(lambda z: x * y * z)(y) * x)(x)  # noqa: E731
    assert agreed(gt.grad(h), np.float32(3)) == 6
    same = lambda x: gt.grad(lambda y: y * gt.grad(lambda y: y * y)(y))(x)  # noqa: E731
    assert agreed(gt.grad(same), np.float32(3)) == 4


def test_an_inner_gradient_by_an_outer_variable():
    def f(x, w):
        inner = gt.grad(lambda x: gt.sum(x * x * w))(x)
        return gt.sum(inner * inner)

    x, w = np.random.default_rng(0).normal(size=(2, 3))
    np.testing.assert_allclose(agreed(gt.grad(f, 1), x, w), 8 * x * x * w, rtol=1e-12)
    gt.check_grads(f, (x, w), order=2)


def test_a_penalty_on_gradients_trains_through_a_network():
    rng = np.random.default_rng(0)
    params = {"a": rng.normal(size=(3, 4)), "b": rng.normal(size=(4, 1))}

    def net(p, x):
        return gt.sum(gt.tanh(x @ p["a"]) @ p["b"])

    gt.check_grads(lambda p, x: gt.sum(gt.grad(net, 1)(p, x) ** 2), (params, rng.normal(size=(2, 3))), order=2)


# ---- vjp, jvp, hvp -----------------------------------------------------------------------------------------


def jacobian(fn, x, eps=1e-6):
    columns = [(fn(x + eps * e) - fn(x - eps * e)) / (2 * eps) for e in np.eye(x.size).reshape(-1, *x.shape)]
    return np.stack(columns, axis=-1)


def test_vjp_and_jvp_are_the_jacobian_from_both_sides():
    x = np.random.default_rng(0).normal(size=3)
    fn = lambda x: gt.stack([gt.prod(x), gt.sum(x * x), x[0]])  # noqa: E731
    full = jacobian(lambda x: fn(x).numpy(), x)
    u, v = np.random.default_rng(1).normal(size=(2, 3))
    np.testing.assert_allclose(agreed(lambda x: gt.vjp(fn, x)[1](u)[0], x), u @ full, rtol=1e-8)
    value, tangent = agreed(lambda x: gt.jvp(fn, [x], [v]), x)
    np.testing.assert_allclose(tangent, full @ v, rtol=1e-8)
    np.testing.assert_allclose(value, fn(x).numpy(), rtol=1e-12)


def test_vjp_of_pytrees_with_aux_and_frozen_leaves():
    def fn(p, x):
        return {"y": p["w"] * x, "z": [x]}, "note"

    p, x = {"w": f32(2), "b": f32(3)}, f32(5)
    value, pullback, aux = gt.vjp(fn, p, x, has_aux=True, frozen=({"w": False, "b": True}, False))
    assert aux == "note" and value["y"].tolist() == [10]
    dp, dx = pullback({"y": f32(1), "z": [f32(10)]})
    assert (dp["w"].tolist(), dp["b"], dx.tolist()) == ([5], None, [12])
    only = gt.vjp(fn, p, x, argnums=1, has_aux=True)[1]({"y": f32(1), "z": [f32(0)]})
    assert only.tolist() == [2]
    with pytest.raises(ShapeError, match="structure"):
        pullback([f32(1)])
    with pytest.raises(ShapeError, match=r"cotangent is f32\[2\], the value f32\[1\]"):
        pullback({"y": f32(1, 2), "z": [f32(1)]})


def test_jvp_of_chosen_arguments():
    fn = lambda p, x: gt.sum(p["w"] * x) + gt.sum(p["b"])  # noqa: E731
    p, x = {"w": f32(2), "b": f32(3)}, f32(5)
    run = lambda p, x: gt.jvp(fn, [p, x], [{"w": f32(1), "b": f32(1)}, f32(1)])  # noqa: E731
    assert [t.item() for t in agreed(run, p, x)] == [13, 8]
    assert gt.jvp(fn, [p, x], f32(1), argnums=1)[1].item() == 2
    assert (
        gt.jvp(fn, [p, x], [{"w": f32(1), "b": None}], argnums=(0,), frozen=({"w": False, "b": True},))[1].item() == 5
    )
    assert gt.jvp(lambda x: (x * 2, "aux"), [x], [f32(1)], has_aux=True)[2] == "aux"
    with pytest.raises(ShapeError, match="structure"):
        gt.jvp(fn, [p, x], [p])
    with pytest.raises(ShapeError, match="tangent"):
        gt.jvp(lambda x: x, [x], [f32(1, 2)])


def test_hvp_is_the_hessian():
    x = np.random.default_rng(0).normal(size=4)
    fn = lambda x: gt.sum(gt.sin(x) * gt.prod(x)) + gt.sum(x) ** 4  # noqa: E731
    hessian = jacobian(lambda x: gt.grad(fn)(x).numpy(), x)
    for v in np.eye(4):
        np.testing.assert_allclose(agreed(lambda x, v=v: gt.hvp(fn, [x], [v])[0], x), hessian @ v, rtol=1e-6, atol=1e-8)
    product, aux = gt.hvp(lambda a, b: (gt.sum(a * a * b), "aux"), [x, x], x, argnums=0, has_aux=True)
    np.testing.assert_allclose(product.numpy(), 2 * x * x, rtol=1e-12)
    assert aux == "aux"
    (by_w,) = gt.hvp(lambda p: gt.sum(p["w"] ** 3 * p["b"]), [{"w": x, "b": x}], [{"w": x, "b": None}],
                     frozen=({"w": False, "b": True},))  # fmt: skip
    np.testing.assert_allclose(by_w["w"].numpy(), 6 * x**3, rtol=1e-12)


# ---- tensors -----------------------------------------------------------------------------------------------


def leaf(*values):
    return gt.tensor(f32(*values), requires_grad=True)


def test_the_gradient_of_a_tensor_never_accumulates():
    w, unused = leaf(1, 2), leaf(5)
    loss = gt.sum(w * w * w)
    for _ in range(2):
        found = gt.grad(loss, {"w": w, "unused": [unused]})
        assert found["w"].tolist() == [3, 12] and found["unused"][0].tolist() == [0]
    assert w.grad is None
    assert gt.grad(loss, w).tolist() == [3, 12]


def test_the_gradient_by_an_intermediate_value():
    w = leaf(2)
    h = w * w
    loss = gt.sum(h * h * w)
    assert gt.grad(loss, [h, w])[0].tolist() == [16]
    assert gt.grad(loss, [w])[0].tolist() == [80]


def test_gradients_of_tensors_nest():
    w = leaf(1, 2)
    (first,) = gt.grad(gt.sum(w**4), [w])
    (second,) = gt.grad(gt.sum(first), [w])
    (third,) = gt.grad(gt.sum(second), [w])
    assert [t.tolist() for t in (first, second, third)] == [[4, 32], [12, 48], [24, 48]]


def test_the_gradient_of_a_traced_tensor():
    def step(w, x):
        energy = gt.sum((x - gt.tanh(w)) ** 2)
        (dw,) = gt.grad(energy, [w])
        return w - 0.1 * dw, dw

    w, x = f32(0.5, -0.5), f32(1, 2)
    new, dw = evaluated(step, w, x)
    np.testing.assert_allclose(dw, gt.grad(lambda w: gt.sum((x - gt.tanh(w)) ** 2))(w).numpy(), rtol=1e-6)
    np.testing.assert_allclose(new, w - 0.1 * dw, rtol=1e-6)


def test_both_styles_nest_in_each_other():
    def f(w):
        energy = gt.sum(w**3)
        (dw,) = gt.grad(energy, [w])
        return gt.sum(dw * dw)

    assert agreed(gt.grad(f), f32(1, 2)).tolist() == [36, 288]

    def g(w):
        def inner(v):
            outer_energy = gt.sum(w * w * w)
            return gt.sum(v * gt.grad(outer_energy, [w])[0])

        return gt.sum(gt.grad(inner)(w))

    assert agreed(gt.grad(g), f32(1, 2)).tolist() == [6, 12]


def test_an_outer_tensor_is_differentiated_inside_an_inner_trace():
    def f(w):
        energy = gt.sum(w * w)
        return gt.grad(lambda v: gt.sum(v * gt.grad(energy, [w])[0]))(w)

    assert f(leaf(1, 2)).tolist() == [2, 4]
    assert evaluated(f, f32(1, 2)).tolist() == [2, 4]


def test_local_learning_does_not_reverse_through_the_inference():
    """x is relaxed with w detached; the gradient of the weights is that of the last energy alone."""
    pre, x0, w0 = f32(0.3, -0.2), f32(0.1, 0.9), f32(0.5, 1.5)

    def local(w, steps):
        x = gt.tensor(x0)
        for _ in range(steps):
            x = gt.stop_gradient(x - 0.1 * (x - gt.tanh(pre * w.detach())))
        return gt.sum((x - gt.tanh(pre * w)) ** 2), x

    for steps in (0, 1, 20):
        w = gt.tensor(w0, requires_grad=True)
        energy, x = local(w, steps)
        fixed = x.numpy()
        expected = gt.grad(lambda w, fixed=fixed: gt.sum((fixed - gt.tanh(pre * w)) ** 2))(w0)
        assert gt.grad(energy, [w])[0].tolist() == expected.tolist()
        assert gt.grad(gt.sum(gt.stop_gradient(w)), [w])[0].tolist() == [0, 0]


def test_backward_accumulates_until_it_is_forgotten():
    w, b = leaf(1, 2), leaf(5)
    gt.sum(w * w).backward()
    (gt.sum(w) * gt.sum(b)).backward()
    assert w.grad.tolist() == [7, 9] and b.grad.tolist() == [3]
    assert w.grad.levels == frozenset()
    w.zero_grad()
    assert w.grad is None
    (w * 2).backward(f32(1, 10))
    assert w.grad.tolist() == [2, 20]
    w.assign_(w - 0.5 * w.grad)
    assert w.tolist() == [0, -8]
    with pytest.raises(ShapeError, match="gradient"):
        (w * 2).backward(f32(1))


def test_detach_and_stop_gradient_cut_the_history():
    w = leaf(3)
    gt.sum(w * w.detach() + gt.stop_gradient(w * w)).backward()
    assert w.grad.tolist() == [3]


def test_history_of_a_deep_chain_needs_no_recursion():
    w = gt.tensor(1.0, requires_grad=True)
    y = w
    for _ in range(3000):
        y = y * 1.0001
    y.backward()
    assert w.grad.item() == pytest.approx(1.0001**3000, rel=1e-3)
    del y


# ---- what is refused ---------------------------------------------------------------------------------------


def test_integers_and_bools_are_named():
    params = {"w": f32(1), "ids": np.array([3, 4])}
    with pytest.raises(TypeError, match=r"params\.ids is i64\[2\]: only floating-point"):
        gt.grad(lambda params: gt.sum(params["w"]))(params)
    with pytest.raises(TypeError, match=r"x is i32\[2\]"):
        gt.grad(lambda x: gt.sum(x / 2))(np.array([3, 4], np.int32))
    with pytest.raises(TypeError, match=r"flag is b1\[\]"):
        gt.value_and_grad(lambda x, flag: x, 1)(1.0, True)
    for transformed in (
        lambda: gt.vjp(lambda x, n: x * n, 1.0, 3),
        lambda: gt.jvp(lambda x, n: x * n, [1.0, 3], [1.0, 1.0]),
        lambda: gt.hvp(lambda x, n: x * n, [1.0, 3], [1.0, 1.0]),
    ):
        with pytest.raises(TypeError, match=r"n is i64\[\]"):
            transformed()
    with pytest.raises(GradError, match="name is str"):
        gt.grad(lambda name: 1.0)("text")
    with pytest.raises(GradError, match=r"wrt\[1\] is ndarray"):
        gt.grad(gt.sum(leaf(1)), [leaf(1), f32(1)])
    with pytest.raises(GradError, match=r"wrt\[0\] has no history(.|\n)*requires_grad=True"):
        gt.grad(gt.sum(leaf(1)), [gt.tensor(f32(1))])


@pytest.mark.parametrize("run", [lambda f, x: f(x), evaluated], ids=["eager", "traced"])
def test_a_loss_is_a_scalar(run):
    def loss(x):
        return x * 2

    with pytest.raises(TypeError, match=r"grad of loss needs a scalar result, not f32\[2\](.|\n)*gt\.mean"):
        run(gt.grad(loss), f32(1, 2))
    with pytest.raises(GradError, match=r"floating-point result, not i64\[\]"):
        run(gt.grad(lambda x: gt.argmax(x)), f32(1, 2))


UNDEFINED = {
    "factor": lambda x: gt.sum(x * gt.astype(gt.argmax(x), "float32")),
    "sum": lambda x: gt.sum(x) + gt.astype(gt.argmin(x) * 2 + 1, "float32"),
    "promoted": lambda x: gt.sum(x) * gt.argmax(x),
    "gathered": lambda x: gt.sum(gt.astype(gt.take(gt.argmax(gt.stack([x, x]), axis=1), [0], axis=0), "float32")),
    "reduced": lambda x: gt.astype(gt.sum(gt.argmax(gt.stack([x, x]), axis=0)), "float32"),
    "intermediate": lambda x: gt.astype(gt.argmax(gt.sin(x) * 2), "float32"),
}


@pytest.mark.parametrize("run", [lambda f, x: f(x), evaluated], ids=["eager", "traced"])
@pytest.mark.parametrize("name", UNDEFINED)
def test_an_operation_without_derivative_on_the_path_is_named(name, run):
    def loss(params):
        return UNDEFINED[name](params["w1"])

    with pytest.raises(GradError) as info:
        run(gt.grad(loss), {"w1": f32(1, 2, 3), "w2": f32(1)})
    name = "argmin" if name == "sum" else "argmax"
    assert f"{name} has no derivative; it lies on the path from params.w1 to the loss" in str(info.value)
    assert "test_transformations.py" in str(info.value) and "gt.stop_gradient" in str(info.value)


DEFINED = {
    "index": lambda x: gt.take(x, gt.argmax(x), axis=0),
    "comparison": lambda x: gt.sum(gt.where(gt.argmax(x) > 1, x, 2 * x)),
    "one_hot": lambda x: gt.sum(x * gt.one_hot(gt.argmax(x), 3)),
    "stopped": lambda x: gt.sum(x * gt.stop_gradient(gt.astype(gt.argmax(x), "float32"))) / 2,
    "stopped before": lambda x: gt.sum(x * gt.astype(gt.argmax(gt.stop_gradient(x)), "float32")) / 2,
    "constant": lambda x: gt.sum(x * gt.astype(gt.argmax(gt.ones(3)) + 1, "float32")),
    "rounded": lambda x: gt.sum(x) + gt.astype(gt.astype(x[0], "int32"), "float32"),
    "scattered": lambda x: gt.sum(gt.index_add(x, 0, gt.argmax(x).reshape(1), gt.ones(1))),
}


@pytest.mark.parametrize("name", DEFINED)
def test_an_argmax_beside_the_path_is_no_error(name):
    found = agreed(gt.grad(DEFINED[name]), f32(1, 2, 3))
    expected = [0, 0, 1] if name in ("index", "one_hot") else [1, 1, 1]
    assert found.tolist() == expected


def test_an_argmax_may_leave_as_aux_and_by_a_recorded_tensor():
    gradient, index = gt.grad(lambda x: (gt.sum(x), gt.argmax(x)), has_aux=True)(f32(1, 3))
    assert gradient.tolist() == [1, 1] and index.item() == 1
    w = leaf(1, 3)
    with pytest.raises(GradError, match="argmax has no derivative; it lies on the path from a leaf to the loss"):
        gt.sum(w * gt.argmax(w)).backward()
    with pytest.raises(GradError, match=r"argmax has no derivative; it lies on the path from wrt\[0\] to the loss"):
        gt.grad(gt.sum(w * gt.argmax(w)), [w])


def test_backward_is_refused_where_it_cannot_work():
    with pytest.raises(TraceError, match=r"backward\(\) inside a trace(.|\n)*gt\.grad"):
        gt.trace(lambda x: gt.sum(x).backward(), f32(1))
    with pytest.raises(GradError, match="no history"):
        gt.sum(gt.ones(2)).backward()
    with pytest.raises(GradError, match="scalar"):
        (leaf(1, 2) * 2).backward()
    with pytest.raises(DTypeError, match="floating-point"):
        gt.tensor([1, 2], requires_grad=True)


def test_history_is_not_lost_in_a_list():
    with pytest.raises(TraceError, match=r"gt\.stack"):
        gt.grad(lambda x: gt.sum(gt.tensor([x * 2, x])))(3.0)
    assert agreed(gt.grad(lambda x: gt.sum(gt.stack([x * 2, x]))), np.float32(3)) == 3


# ---- check_grads -------------------------------------------------------------------------------------------


def test_check_grads_names_the_leaf_the_element_and_both_numbers():
    wrong = lambda p: gt.sum(p["w"] * gt.stop_gradient(p["w"]))  # noqa: E731
    with pytest.raises(AssertionError, match=r"the derivative by p\.w\[1, 0\] is 3 by the rules, 6 by differences"):
        gt.check_grads(wrong, ({"w": np.array([[0.0], [3.0]])},))
    second = lambda x: x**2 + gt.stop_gradient(x) * 2 * (x - gt.stop_gradient(x)) - x * x + x  # noqa: E731
    with pytest.raises(GradCheckError, match=r"the derivative by x is 5 by the rules, 1 by differences"):
        gt.check_grads(second, (2.0,))


def test_check_grads_of_order_two_finds_what_order_one_cannot():
    def tangent(x):
        """The sine, whose derivative is right and a constant to the rules."""
        return gt.stop_gradient(gt.sin(x) - x * gt.cos(x)) + x * gt.stop_gradient(gt.cos(x))

    gt.check_grads(gt.sin, (0.3,), order=2)
    gt.check_grads(tangent, (0.3,))
    with pytest.raises(
        GradCheckError, match=r"second derivative by x is 0 by the rules, -0\.2955202067 by differences"
    ):
        gt.check_grads(tangent, (0.3,), order=2)


def test_check_grads_refuses_nan_and_passes_what_is_no_float():
    with pytest.raises(GradCheckError, match="is nan by the rules"):
        gt.check_grads(gt.sqrt, (np.array([-1.0]),))
    gt.check_grads(
        lambda x, i, s: (gt.take(x, i, axis=0), gt.argmax(x), gt.ones(0)), (np.ones(3), np.array([0, 2]), "s")
    )
    gt.check_grads(lambda x: x, (np.ones((0, 3)),), order=2)
    with pytest.raises(GradError, match="order must be 1 or 2, not 3"):
        gt.check_grads(gt.sin, (1.0,), order=3)

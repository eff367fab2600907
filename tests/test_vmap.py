"""vmap: every primitive and many functions against a loop, in every way of running, with derivatives in and around it.

Law: `gt.vmap(f)(xs)` is `stack([f(x) for x in xs])`, eagerly, by the evaluator and compiled.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtensor as gt
from gtensor import tree
from gtensor.errors import DTypeError, GradError, ShapeError, TraceError
from gtensor.interp import run as evaluate
from gtensor.prim import REGISTRY
from gtensor.tensor import as_tensor
from tests.op_table import TABLE, batch_of, operands
from tests.ways import agreed, eager, evaluated

RNG = np.random.default_rng(0)
SIZE = 3
XS = RNG.standard_normal((SIZE, 4))
W = RNG.standard_normal((4, 4))


def looped(fn, *columns):
    """The results of a Python loop over the examples, stacked in front."""
    rows = [tree.flatten(tree.map_leaves(as_tensor, fn(*map(as_tensor, r)))) for r in zip(*columns, strict=True)]
    stacked = [
        np.stack([np.asarray(leaf, leaf.dtype) for leaf in leaves])
        for leaves in zip(*(r[0] for r in rows), strict=True)
    ]
    return tree.unflatten(rows[0][1], stacked)


def same(found, wanted, rtol=1e-12, atol=1e-12):
    leaves, structure = tree.flatten(found)
    others, expected = tree.flatten(wanted)
    assert structure == expected
    for a, b in zip(leaves, others, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


# ---- against a loop ----------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=2 * settings.default.max_examples)
def test_every_primitive_over_every_axis_is_a_loop(data):
    entry = data.draw(st.sampled_from([e for e in TABLE if e.sample.inputs]), label="entry")
    single = operands(entry)
    stacked = [batch_of(i, entry.dtype, SIZE) for i in entry.sample.inputs]
    axes = [data.draw(st.sampled_from([None, *range(-x.ndim - 1, x.ndim + 1)])) for x in single]
    if all(axis is None for axis in axes):
        axes[0] = 0
    args = [x if a is None else np.moveaxis(s, 0, a) for a, x, s in zip(axes, single, stacked, strict=True)]
    columns = [[x] * SIZE if a is None else s for a, x, s in zip(axes, single, stacked, strict=True)]
    expected = np.stack([entry.numpy(*row) for row in zip(*columns, strict=True)])
    out_axis = data.draw(st.integers(-expected.ndim, expected.ndim - 1), label="out_axes")
    mapped = gt.vmap(entry.call, tuple(axes), out_axis)
    for found in (eager(mapped, *args), evaluated(mapped, *args)):
        found = np.moveaxis(found, out_axis, 0)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def rolled(x):
    return gt.scan(lambda c, e: (gt.tanh(c @ W * 0.5 + e), {"c": gt.sum(c), "e": e * c}), x, gt.stack([x, x * x, -x]))


def stepped(x):
    return gt.while_loop(lambda c: gt.sum(c * c) < 9.0, lambda c: 1.5 * c + 0.1, x)


def counted(x):
    return gt.fori_loop(0, gt.astype(gt.argmax(x), "int64"), lambda i, c: c * x + i, x)


def chosen(x):
    picked = gt.switch(gt.argmin(x), [gt.sin, gt.exp, gt.negative, lambda v: v * v], x)
    return gt.cond(gt.sum(x) > 0, lambda v: gt.tanh(v @ W), lambda v: v * 2, picked)


FUNCTIONS = {
    "network": lambda x: gt.nn.layer_norm(gt.gelu(x @ W)) @ W.T,
    "left": lambda x: W @ x + gt.matmul(W.T, gt.outer(x, x)).sum(axis=1),
    "softmax": lambda x: gt.nn.cross_entropy(x[None] @ W, gt.argmax(x)[None]),
    "indexing": lambda x: (x[::2], x[[2, 0]], x[..., None]),
    "take": lambda x: gt.take(gt.outer(x, x), gt.stack([gt.argmax(x), gt.argmin(x)]), axis=1),
    "put": lambda x: gt.index_add(gt.outer(x, x), 0, gt.argmax(x)[None], x[None] * 2),
    "along": lambda x: gt.take_along_axis(x, gt.argmax(x)[None], axis=0),
    "statistics": lambda x: {"std": gt.std(x), "norm": gt.norm(x), "prod": gt.prod(x), "any": gt.any(x > 1)},
    "shapes": lambda x: gt.concat([gt.flip(x), gt.pad(x, 1)]).reshape(2, 5).T,
    "where": lambda x: gt.where(x > 0, gt.log(gt.abs(x)), 0.0),
    "constant": lambda x: (gt.ones(3, dtype="float64"), 2.5, x.sum()),
    "scan": rolled,
    "while": stepped,
    "fori": counted,
    "switch": chosen,
    "checkpoint": gt.checkpoint(lambda x: gt.sin(gt.exp(x)) @ W),
    "dropout": lambda x: gt.nn.dropout(x, 0.5, gt.random.key(3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_loops_in_every_way(name):
    fn = FUNCTIONS[name]
    same(agreed(gt.vmap(fn), XS, rtol=1e-10, atol=1e-12), looped(fn, XS))


def test_random_numbers_of_a_key_for_each_example():
    keys = gt.random.split(gt.random.key(0), SIZE)
    found = agreed(gt.vmap(lambda key: gt.random.normal(key, (2,))), np.stack([k.numpy() for k in keys]))
    same(found, looped(lambda key: gt.random.normal(key, (2,)), [k.numpy() for k in keys]), rtol=1e-6)


def test_axes_are_trees_and_negative_and_none():
    params = {"w": RNG.standard_normal((4, SIZE)), "b": np.float64(2)}
    fn = lambda p, x, scale: {"y": p["w"] * x + p["b"], "s": x * scale}  # noqa: E731
    mapped = gt.vmap(fn, in_axes=({"w": -1, "b": None}, 0, None), out_axes={"y": -1, "s": 0})
    found = agreed(mapped, params, XS, np.float64(3))
    np.testing.assert_allclose(found["y"], params["w"] * XS.T + 2)
    np.testing.assert_allclose(found["s"], 3 * XS)
    listed = gt.vmap(lambda x, y: [x, y], in_axes=[1, 0], out_axes=[1, 0])
    assert [a.shape for a in agreed(listed, XS.T, XS)] == [(4, SIZE), (SIZE, 4)]
    shared = gt.vmap(lambda x: (x, gt.sum(gt.asarray(W))), out_axes=(0, None))
    assert [a.shape for a in agreed(shared, XS)] == [(SIZE, 4), ()]


def test_arguments_by_keyword_are_mapped_and_what_is_not_mapped_stays_as_it_is():
    np.testing.assert_allclose(gt.vmap(lambda x, *, y: x * y)(XS, y=XS).numpy(), XS * XS)
    fn = lambda x, mode, count: x * count if mode == "times" else x  # noqa: E731
    np.testing.assert_allclose(gt.vmap(fn, (0, None, None))(XS, "times", 3).numpy(), XS * 3)
    found = gt.vmap(lambda x, empty: (x, empty), (0, 0))(XS, {"none": None})
    assert found[1] == {"none": None}


def test_nested_maps_and_captured_tensors():
    scale = gt.tensor(RNG.standard_normal(4))
    outer = gt.vmap(lambda x: gt.vmap(lambda y: (x * y * scale).sum())(XS))
    np.testing.assert_allclose(agreed(outer, XS), (XS * scale.numpy()) @ XS.T, rtol=1e-12)
    inner = gt.vmap(gt.vmap(lambda x, y: x - y, (None, 0)), (0, None))
    np.testing.assert_allclose(agreed(inner, XS[:, 0], XS[:, 1]), XS[:, :1] - XS[:, 1])
    np.testing.assert_allclose(agreed(lambda x: gt.vmap(lambda y: y @ W + x.sum())(x), XS), XS @ W + XS.sum())


def test_no_examples_and_one():
    assert agreed(gt.vmap(lambda x: gt.tanh(x @ W).sum()), XS[:0]).shape == (0,)
    same(agreed(gt.vmap(rolled), XS[:1], rtol=1e-10), looped(rolled, XS[:1]))


def test_what_all_examples_share_is_computed_once():
    graph = gt.trace(gt.vmap(lambda x, w: x @ gt.exp(w), (0, None)), gt.spec((SIZE, 4)), gt.spec((4, 2)))
    assert [(e.prim.name, e.out.type.shape) for e in graph.eqns if e.prim.kind != "view"] == [
        ("exp", (4, 2)), ("matmul", (SIZE, 2)),
    ]  # fmt: skip
    loop = gt.trace(
        gt.vmap(lambda x, n: gt.fori_loop(0, n, lambda i, c: c * x, x), (0, None)),
        gt.spec((SIZE, 4)), gt.spec((), "int64"),
    )  # fmt: skip
    (eqn,) = [e for e in loop.eqns if e.prim.name == "while_loop"]
    assert [out.type.shape for out in eqn.outs] == [(), (SIZE, 4)]
    assert eqn.params["cond"].outputs[0].type.shape == ()


def test_results_are_no_arrays_of_the_caller():
    given = XS.copy()
    out, moved = gt.vmap(lambda x: (x, x), out_axes=(0, 1))(given)
    given[:] = 0
    assert out.tolist() == XS.tolist() and moved.tolist() == XS.T.tolist()


def test_equations_keep_the_names_and_lines_of_the_example():
    def one(x):
        hidden = gt.tanh(x @ W)
        return hidden.sum()

    graph = gt.trace(gt.vmap(one), gt.spec((SIZE, 4), "float64"))
    (tanh,) = [eqn for eqn in graph.eqns if eqn.prim.name == "tanh"]
    assert tanh.source[0].text == "hidden = gt.tanh(x @ W)"
    assert gt.vmap(one).__name__ == "vmap_one"


# ---- derivatives -------------------------------------------------------------------------------------------


SMOOTH = {name: FUNCTIONS[name] for name in ("network", "left", "take", "put", "where", "scan", "switch", "checkpoint")}
SMOOTH["bounded"] = lambda x: gt.while_loop(lambda c: gt.sum(c * c) < 9.0, lambda c: 1.5 * c + 0.1, x, max_steps=9)


def total(fn):
    return lambda *args: sum(gt.sum(gt.sin(leaf)) for leaf in tree.flatten(fn(*args))[0])


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_inside_and_around(name):
    fn = total(SMOOTH[name])
    inside = gt.vmap(gt.grad(fn))
    wanted = looped(gt.grad(fn), XS)
    same(agreed(inside, XS, rtol=1e-9, atol=1e-10), wanted, rtol=1e-9, atol=1e-10)
    around = gt.grad(lambda xs: gt.vmap(fn)(xs).sum())
    same(agreed(around, XS, rtol=1e-9, atol=1e-10), wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_maps_against_differences(name):
    fn = SMOOTH[name]
    gt.check_grads(lambda xs: gt.vmap(total(fn))(xs).sum(), (XS[:2],), order=2)


def test_gradients_of_each_example_by_shared_parameters():
    def loss(w, x, y):
        return gt.sum((gt.tanh(x @ w) - y) ** 2)

    ys = RNG.standard_normal((SIZE, 4))
    each = gt.vmap(gt.grad(loss), (None, 0, 0))
    same(agreed(each, W, XS, ys, rtol=1e-9), looped(lambda x, y: gt.grad(loss)(gt.tensor(W), x, y), XS, ys))
    summed = gt.grad(lambda w: gt.vmap(loss, (None, 0, 0))(w, XS, ys).sum())
    np.testing.assert_allclose(agreed(summed, W, rtol=1e-9), each(W, XS, ys).numpy().sum(axis=0), rtol=1e-9)


def test_the_gradient_through_a_scan_of_a_map():
    def run(w, xs):
        step = lambda c, _: (gt.vmap(lambda x: gt.tanh(x @ w))(c), gt.vmap(gt.sum)(c))  # noqa: E731
        last, sums = gt.scan(step, xs, length=4)
        return gt.sum(last) + gt.sum(sums**2)

    by_hand = lambda w, xs: gt.scan(lambda c, _: (gt.tanh(c @ w), gt.sum(c, axis=1)), xs, length=4)  # noqa: E731
    plain = lambda w, xs: gt.sum(by_hand(w, xs)[0]) + gt.sum(by_hand(w, xs)[1] ** 2)  # noqa: E731
    found = agreed(gt.grad(run, (0, 1)), W, XS, rtol=1e-8, atol=1e-10)
    same(found, eager(gt.grad(plain, (0, 1)), W, XS), rtol=1e-8, atol=1e-10)
    gt.check_grads(run, (W, XS), order=2)


def test_recorded_tensors_are_differentiated_through_a_map():
    w = gt.tensor(W, requires_grad=True)
    loss = gt.vmap(lambda x: gt.scan(lambda c, _: (gt.tanh(c @ w), None), x, length=3)[0].sum())(XS).sum()
    loss.backward()
    expected = gt.grad(
        lambda w: sum(gt.scan(lambda c, _: (gt.tanh(c @ w), None), gt.tensor(x), length=3)[0].sum() for x in XS)
    )(W)
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-10)


def test_products_with_jacobians_under_a_map():
    ts = RNG.standard_normal(XS.shape)
    along = gt.vmap(lambda x, t: gt.jvp(lambda x: gt.tanh(x @ W), [x], [t])[1])
    np.testing.assert_allclose(agreed(along, XS, ts, rtol=1e-9), (ts @ W) * (1 - np.tanh(XS @ W) ** 2), rtol=1e-9)
    product = gt.vmap(lambda x, t: gt.hvp(lambda x: gt.sum(x**3), [x], [t])[0])
    np.testing.assert_allclose(agreed(product, XS, ts, rtol=1e-9), 6 * XS * ts, rtol=1e-9)


def test_walls_and_masks_hold_under_a_map():
    wall = gt.vmap(gt.grad(lambda x: gt.sum(gt.stop_gradient(x) * x)))
    np.testing.assert_array_equal(agreed(wall, XS), XS)
    masked = gt.vmap(gt.grad(lambda x: gt.sum(gt.where(x > 0, gt.log(x), 0.0))))
    found = agreed(masked, np.array([[-1.0, 0.0, 2.0], [4.0, -3.0, 0.0]]))
    np.testing.assert_array_equal(found, [[0, 0, 0.5], [0.25, 0, 0]])


def test_a_loop_without_bound_has_no_gradient_under_a_map_either():
    for way in (eager, evaluated):
        with pytest.raises(GradError, match="while_loop has no derivative"):
            way(gt.grad(lambda xs: gt.vmap(stepped)(xs).sum()), XS)


# ---- wrong uses --------------------------------------------------------------------------------------------


def shared(x, y):
    return x * y


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gt.vmap(shared, None)(XS, XS), ShapeError, "vmap of shared: no argument is mapped"),
        (lambda: gt.vmap(lambda: 1.0)(), ShapeError, "vmap of lambda: no argument is mapped"),
        (
            lambda: gt.vmap(shared)(XS, XS[:2]), ShapeError,
            "the numbers of examples differ: x has 3 along axis 0, y has 2 along axis 0",
        ),
        (lambda: gt.vmap(shared, (0, 2))(XS, XS), ShapeError, r"the axis of y, f64\[3,4\], is out of range: 2"),
        (lambda: gt.vmap(shared, (-3, 0))(XS, XS), ShapeError, r"the axis of x, f64\[3,4\], is out of range: -3"),
        (lambda: gt.vmap(shared, ("a", 0))(XS, XS), DTypeError, "must be an integer or None, not 'a'"),
        (lambda: gt.vmap(shared, (0,))(XS, XS), ShapeError, "in_axes has 1 entries for 2 arguments"),
        (lambda: gt.vmap(shared, ({"a": 0}, 0))(XS, XS), ShapeError, "does not fit the structure of the arguments"),
        (lambda: gt.vmap(shared)(XS, 2.0), ShapeError, "y is a scalar, which has no axis to map"),
        (lambda: gt.vmap(shared)(XS, "a"), DTypeError, "y is str, which has no axis to map"),
        (lambda: gt.vmap(lambda x: x, 0, 2)(XS), ShapeError, "the result: its axis in out_axes is out of range: 2"),
        (lambda: gt.vmap(lambda x: {"a": x}, 0, {"a": None})(XS), ShapeError, "a differs from example to example"),
        (lambda: gt.vmap(lambda x: x, 0, (0, 0))(XS), ShapeError, "does not fit the structure of the result"),
        (lambda: gt.vmap(lambda x: "a")(XS), DTypeError, "it returned str, which is no array"),
        (lambda: gt.vmap(lambda x: x if x.sum() > 0 else -x)(XS), TraceError, "has no truth value"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_sum_over_the_mapped_axis_is_none_of_the_example():
    with pytest.raises(ShapeError, match=re.escape("axis 1 is out of range for an array with 1 axes")):
        gt.vmap(lambda x: gt.sum(x, axis=1))(XS)
    assert len(REGISTRY) > 60 and all(p.batch for p in REGISTRY.values())
    assert list(itertools.islice(evaluate(gt.trace(gt.vmap(gt.sum), XS), [XS])[0].shape, 1)) == [SIZE]

"""scan: one loop equation, equal to the loop written out: values, derivatives, structures, and what is refused.

Eagerly scan runs step by step, so `ways.agreed` holds the loop, evaluated and compiled, against the same steps
written out.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtensor as gt
from gtensor.batch import in_front, run_batched
from gtensor.errors import DTypeError, GradError, IndexingError, ShapeError, TraceError
from gtensor.passes import simplify
from tests.ways import agreed, evaluated

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape)


W, U, B, X, H = normal(3, 3) * 0.6, normal(2, 3), normal(3), normal(5, 4, 2), normal(4, 3)


def cell(p, h, x):
    z = gt.sigmoid(h @ p["W"] + x @ p["U"] + p["b"])
    return (1 - z) * h + z * gt.tanh(h @ p["W"])


PARAMS = {"W": W, "U": U, "b": B}


def rollout(p, h, x):
    last, hs = gt.scan(lambda h, x: (cell(p, h, x),) * 2, h, x)
    return gt.sum(hs * hs) + gt.sum(gt.sin(last))


def test_a_recurrence_and_its_derivatives():
    agreed(rollout, PARAMS, H, X, rtol=1e-12)
    agreed(gt.grad(rollout, (0, 1, 2)), PARAMS, H, X, rtol=1e-10, atol=1e-12)


def test_second_derivatives():
    def size(p, h, x):
        gradients = gt.grad(rollout, (0, 1, 2))(p, h, x)
        return sum(gt.sum(gt.sin(leaf)) for leaf in gt.tree.flatten(gradients)[0])

    agreed(gt.grad(size, (0, 1, 2)), PARAMS, H, X, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("reverse", [False, True])
def test_results_stay_at_their_rows(reverse):
    rows = X[:, 0].astype(np.float32)
    last, sums = agreed(lambda x: gt.scan(lambda c, x: (c + x, c * 2), gt.zeros(2), x, reverse=reverse), rows)
    order = rows[::-1] if reverse else rows
    expected = 2 * np.concatenate([np.zeros((1, 2)), np.cumsum(order, 0)[:-1]])
    np.testing.assert_allclose(last, rows.sum(0), rtol=1e-5)
    np.testing.assert_allclose(sums, expected[::-1] if reverse else expected, rtol=1e-5, atol=1e-6)


def test_reverse_has_derivatives_too():
    def loss(p, h, x):
        last, hs = gt.scan(lambda h, x: (cell(p, h, x),) * 2, h, x, reverse=True)
        return gt.sum(hs[1] * last)

    agreed(gt.grad(loss, (0, 1, 2)), PARAMS, H, X, rtol=1e-10, atol=1e-12)


def test_pytrees_of_any_form():
    def body(carry, x):
        count, (a, b) = carry
        return (count + 1, (b, a + x["u"])), {"a": a, "both": [a * b, count]}

    def run(u):
        start = (gt.tensor(0), (gt.ones(2), gt.zeros(2)))
        return gt.scan(body, start, {"u": u, "unused": u})

    (count, (a, _)), ys = agreed(run, X[:, 0].astype(np.float32))
    assert count == 5 and a.shape == (2,)
    assert ys["both"][1].tolist() == [0, 1, 2, 3, 4] and ys["a"].shape == (5, 2)


def test_length_alone_and_no_results():
    carry, ys = agreed(lambda x: gt.scan(lambda c, _: (c * 2, None), x, length=4), np.float32(3))
    assert carry == 48 and ys is None


@pytest.mark.parametrize("grad", [False, True])
def test_no_steps(grad):
    def run(p, h, x):
        last, hs = gt.scan(lambda h, x: (cell(p, h, x),) * 2, h, x)
        return (gt.sum(hs) + gt.sum(last * last)) if grad else (last, hs)

    found = agreed(gt.grad(run, (0, 1, 2)) if grad else run, PARAMS, H, X[:0])
    if grad:
        np.testing.assert_allclose(found[1], 2 * H)
        assert found[2].shape == (0, 4, 2) and not found[0]["W"].any()
    else:
        np.testing.assert_array_equal(found[0], H)
        assert found[1].shape == (0, 4, 3)


def test_loops_in_loops():
    def inner(w, c, xs):
        return gt.scan(lambda c, x: (gt.tanh(c @ w + x), c), c, xs)

    def loss(w, c, xs):
        def outer(c, rows):
            c, seen = inner(w, c, rows)
            return c * 0.5, gt.sum(seen, axis=0)

        last, ys = gt.scan(outer, c, xs)
        return gt.sum(ys * ys) + gt.sum(last)

    xs = normal(4, 3, 3)
    agreed(loss, W, B, xs, rtol=1e-12)
    agreed(gt.grad(loss, (0, 1, 2)), W, B, xs, rtol=1e-10, atol=1e-12)


def test_cuts_inside_a_body_hold():
    def loss(w, x):
        last, _ = gt.scan(lambda h, x: (gt.stop_gradient(gt.tanh(h @ w)) + x @ w, None), x[0], x)
        return gt.sum(last)

    agreed(gt.grad(loss, (0, 1)), W, normal(4, 2, 3), rtol=1e-10, atol=1e-12)


def test_masks_in_a_body_keep_gradients_clean():
    def loss(x):
        return gt.scan(lambda c, x: (c + gt.where(x > 0, gt.log(x), 0.0), None), gt.sum(x) * 0, x)[0]

    found = agreed(gt.grad(loss), np.array([1.0, -1.0, 0.0, 2.0]))
    assert found.tolist() == [1, 0, 0, 0.5]


def test_captured_arrays_are_read_at_each_call():
    scale = np.ones(2, np.float32)
    run = gt.compile(lambda x: gt.scan(lambda c, x: (c + x * scale, None), gt.zeros(2), x)[0])
    x = np.ones((3, 2), np.float32)
    assert run(x).tolist() == [3, 3]
    scale[:] = 2
    assert run(x).tolist() == [6, 6]


def test_the_same_body_twice_and_a_loop_that_reads_another():
    def run(p, h, x):
        last, hs = gt.scan(lambda h, x: (cell(p, h, x),) * 2, h, x)
        again, gs = gt.scan(lambda h, x: (cell(p, h, x),) * 2, last, x)
        return gs - hs, again

    agreed(run, PARAMS, H, X, rtol=1e-12)


def test_indices_in_a_body():
    table = normal(6, 3)

    def loss(table, labels):
        return gt.scan(lambda c, i: (c + gt.sum(gt.take(table, i, axis=0) * c), c), gt.sum(table), labels)[0]

    labels = np.array([1, 5, 0, 1])
    agreed(loss, table, labels, rtol=1e-12)
    agreed(gt.grad(loss), table, labels, rtol=1e-10, atol=1e-12)
    for way in (lambda *args: evaluated(loss, *args), gt.compile(loss)):
        with pytest.raises(IndexingError):
            way(table, np.array([1, 6, 0, 1]))


def test_compile_time_does_not_grow_with_the_length():
    def equations(length):
        graph = gt.trace(gt.grad(rollout), PARAMS, H, gt.spec((length, 4, 2), "float64"))
        return len(simplify(graph).eqns)

    assert equations(10) == equations(10_000)


# ---- random bodies -------------------------------------------------------------------------------------------

UNARY = ["gt.tanh({})", "gt.sigmoid({})", "gt.sin({})", "({} @ w)", "({} * 0.5)", "gt.stop_gradient({})", "-{}"]
BINARY = ["({} + {})", "({} * {})", "({} - {})", "gt.where({} > 0.1, {}, x)", "gt.concat([{}, {}], axis=-1) @ v"]


@st.composite
def bodies(draw):
    """The source of a step: values of the shape of h, made of h, x and captured matrices."""
    names, lines = ["h", "x"], []
    for number in range(draw(st.integers(1, 6))):
        form = draw(st.sampled_from(UNARY + BINARY))
        operands = [draw(st.sampled_from(names)) for _ in range(form.count("{}"))]
        lines.append(f"    t{number} = {form.format(*operands)}")
        names.append(f"t{number}")
    carry, y = (draw(st.sampled_from(names[2:])) for _ in range(2))
    return "def step(w, v, h, x):\n" + "\n".join(lines) + f"\n    return gt.tanh({carry}), {y}\n"


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(text=bodies(), reverse=st.booleans(), seed=st.integers(0, 99))
def test_random_bodies(text, reverse, seed):
    space = {"gt": gt}
    exec(text, space)
    rng = np.random.default_rng(seed)
    w, v, h, x = (rng.standard_normal(shape) for shape in ((3, 3), (6, 3), (2, 3), (4, 2, 3)))

    def loss(w, v, h, x):
        last, ys = gt.scan(lambda h, x: space["step"](w, v, h, x), h, x, reverse=reverse)
        return gt.sum(gt.sin(ys)) + gt.sum(last)

    def size(*args):
        return sum(gt.sum(gt.sin(g)) for g in gt.grad(loss, (0, 1, 2, 3))(*args))

    for fn in (gt.value_and_grad(loss, (0, 1, 2, 3)), gt.grad(size, (0, 2))):
        found, expected = evaluated(fn, w, v, h, x), fn(*map(gt.tensor, (w, v, h, x)))
        for a, b in zip(gt.tree.flatten(found)[0], gt.tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-8, atol=1e-8)


# ---- what is refused -----------------------------------------------------------------------------------------


def step(c, x):
    return c + x, c


@pytest.mark.parametrize("way", [lambda fn, *args: fn(*args), gt.trace])
@pytest.mark.parametrize(
    ("fn", "error", "words"),
    [
        (lambda x: gt.scan(step, x[0], (x, x[:2])), ShapeError, r"xs\.1 has 2 rows, not 3"),
        (lambda x: gt.scan(step, x[0], x, length=4), ShapeError, "has 3 rows, not 4"),
        (lambda x: gt.scan(step, x[0], gt.sum(x)), ShapeError, "a scalar"),
        (lambda x: gt.scan(step, x[0]), ShapeError, "needs a length"),
        (lambda x: gt.scan(step, x[0], length=-1), ShapeError, "negative"),
        (lambda x: gt.scan(lambda c, x: c, x[0], x), TraceError, r"a pair \(carry, y\)"),
        (lambda x: gt.scan(lambda c, x: ((c, c), c), x[0], x), TraceError, "structure"),
        (lambda x: gt.scan(lambda c, x: (c[:1], c), x[0], x), ShapeError, r"f32\[2\], the body returned f32\[1\]"),
        (lambda x: gt.scan(lambda c, x: (c > 0, c), x[0], x), DTypeError, "b1"),
    ],
)
def test_errors_say_what_does_not_fit(way, fn, error, words):
    with pytest.raises(error, match=words):
        way(fn, gt.ones((3, 2)))


def test_an_operation_without_derivative_is_named():
    def loss(x):
        return gt.sum(gt.scan(lambda c, x: (c + gt.argmax(x).astype("float32"), None), gt.zeros(()), x)[0])

    for way in (lambda fn, x: fn(x), gt.trace):
        with pytest.raises(GradError, match="argmax has no derivative"):
            way(gt.grad(loss), gt.ones((3, 2)))


# ---- many examples at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [(0, None, None), (None, 1, None), (None, 2, 0), (1, 0, 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_batch_rule_is_a_loop_over_examples(axes, reverse):
    def run(w, x, h):
        last, ys = gt.scan(gt.checkpoint(lambda h, x: (gt.tanh(h @ w + x),) * 2), h, x, reverse=reverse)
        return last, ys

    def stacked(shape, axis):
        return normal(*shape) if axis is None else np.moveaxis(normal(6, *shape), 0, axis)

    arrays = [stacked(shape, axis) for shape, axis in zip(((3, 3), (4, 3), (3,)), axes, strict=True)]
    graph = gt.trace(run, np.zeros((3, 3)), np.zeros((4, 3)), np.zeros(3))

    def batched(*xs):
        outs, places = run_batched(graph, [gt.asarray(x) for x in xs], axes)
        return [in_front(out, place, 6) for out, place in zip(outs, places, strict=True)]

    found = evaluated(batched, *arrays)
    for i in range(6):
        one = [a if axis is None else np.take(a, i, axis) for a, axis in zip(arrays, axes, strict=True)]
        for a, b in zip(found, run(*map(gt.tensor, one)), strict=True):
            np.testing.assert_allclose(a[i], b.numpy(), rtol=1e-12)

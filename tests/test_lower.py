"""From schedules to programs: views, phases, counters, indices, pieces, run-time extents and aliases, all run as C."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor import statements
from gtensor.codegen.program import Gemm, RowKernel
from gtensor.interp import run as evaluate

from .lowered import check, compiled, normal

X = normal(6, 33)
C = normal(6, 33, seed=1)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("shape", [(5, 7), (7,), (3, 1), (1, 9), (0, 4), (2, 3, 5)])
def test_softmax_along_any_axis(shape, axis):
    check(lambda x: gt.softmax(x, axis=axis), normal(*shape))


def test_layer_norm_and_its_gradients_need_one_kernel_with_row_buffers():
    def loss(x, g, b, c):
        return gt.sum(gt.nn.layer_norm(x, g, b) * c)

    program = check(gt.grad(loss, (0, 1, 2)), X, normal(33), normal(33, seed=2), C)
    (kernel,) = program.steps
    assert isinstance(kernel, RowKernel) and len(kernel.phases) > 2
    assert any(buffer.role == "row" for buffer in program.buffers)


def test_what_it_costs_to_compute_again_is_not_counted_over_every_path(monkeypatch):
    def f(x, y):
        for _ in range(40):
            x, y = gt.sin(x) * 0.5 + y, x
        return y / gt.sum(x, axis=1, keepdims=True)

    count = statements.Statements.cost
    asked = []

    def counted(*args):
        asked.append(1)
        assert len(asked) < 10_000, "each value is looked at once for every path to it"
        return count(*args)

    monkeypatch.setattr(statements.Statements, "cost", counted)
    check(f, X, C)
    assert asked


def test_attention_and_its_gradients():
    def attention(q, k, v):
        return gt.softmax(q @ gt.matrix_transpose(k) * 0.5) @ v

    q, k, v = (normal(2, 3, 5, 4, seed=i) for i in range(3))
    check(attention, q, k, v)
    check(gt.grad(lambda *a: gt.sum(attention(*a) ** 2), (0, 1, 2)), q, k, v)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: gt.flip(x),
        lambda x: x[1:, ::2],
        lambda x: x[::-1, -1:],
        lambda x: gt.reshape(x, (3, 66)),
        lambda x: gt.reshape(x.T, (11, 18)),
        lambda x: gt.broadcast_to(gt.sum(x, axis=1, keepdims=True), (2, 6, 4)),
        lambda x: gt.flip(x[:, 1:].T, axis=0)[::3],
    ],
)
def test_views(view):
    check(lambda x: (view(x) + 1, view(x) * gt.exp(view(x)), gt.sum(view(x), axis=0), view(gt.exp(x))), X)


def test_counters_and_literals():
    check(lambda x: gt.where(gt.arange(33) > 3, x, 0.5) + gt.arange(6, dtype="float32")[:, None], X)
    check(lambda x: gt.linspace(0.0, 1.0, 33) * x, X)
    check(lambda x: (gt.flip(gt.arange(33))[::2], gt.eye(4) @ gt.ones((4, 2)), gt.zeros(3), x), X)


def test_a_literal_that_a_later_kernel_needs_in_memory_is_there_for_earlier_ones():
    def fn(x):
        ones = gt.ones((3, 3))
        return gt.pad(ones, 1), ones @ x, gt.sum(gt.arange(9, dtype=gt.float32).reshape(3, 3) @ x)

    check(fn, normal(3, 3))


def test_positions_along_any_axis():
    values = np.asarray([[1, 5, 5, 2], [np.nan, 7, np.nan, 1], [3, 3, 3, 3]], np.float32)
    check(lambda x: (gt.argmax(x, 0), gt.argmax(x, 1), gt.argmax(x), gt.argmin(x, 0), gt.argmin(x, 1)), values)


def test_reductions_of_every_kind():
    x = normal(3, 4, 5)
    for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2)):
        check(lambda x, axis=axis: [f(x, axis=axis) for f in (gt.sum, gt.prod, gt.max, gt.min)], x)
    check(lambda x: gt.sum(gt.sum(x * x, axis=2), axis=1), x)
    check(lambda b: (gt.sum(b), gt.any(b, axis=0), gt.all(b, axis=1), gt.sum(b, axis=1)), x > 0)


def test_long_sums_stay_accurate():
    tenth = np.full((200_000, 2), 0.1, np.float32)
    _, _, made = compiled(lambda x: (gt.sum(x), gt.sum(x, axis=0), gt.sum(x.T, axis=1)), tenth)
    exact = float(np.float32(0.1)) * 200_000
    whole, columns, rows = made.call([tenth])
    assert abs(whole / (2 * exact) - 1) < 1e-6
    assert np.abs(columns / exact - 1).max() < 1e-6 and np.abs(rows / exact - 1).max() < 1e-6


def test_take_and_its_gradient_accumulate():
    table, ids = normal(6, 3), np.asarray([[1, -1], [5, 1]])
    check(lambda t, i: gt.take(t, i, axis=0) * 2, table, ids)
    check(gt.grad(lambda t, i: gt.sum(gt.take(t, i, axis=0) ** 2)), table, ids)
    check(lambda t, i: gt.take(t.T, i, axis=1), table, ids)


def test_scatter_starts_from_its_target():
    x, index, values = normal(4, 3), np.asarray([[0, 0, 2], [3, 0, -1]]), normal(2, 3, seed=3)
    check(lambda x, i, v: (gt.scatter_add(x, 0, i, v), gt.gather(x, 0, i)), x, index, values)
    check(lambda x, i, v: gt.index_add(x, 0, i[0], gt.exp(v[[0, 1, 0]])), x, index, values)


@pytest.mark.parametrize("bad", [3, -4, 2**40])
def test_an_index_out_of_range_is_an_error_before_anything_is_written(bad):
    x = normal(3)
    _, _, made = compiled(lambda x, i: (x + 1, gt.take(x, i, axis=0)), x, np.asarray([0]), state={0: 0}, alias={0: 0})
    block = made.new_state()
    (view,) = made.state_views(block)
    view[:] = x
    with pytest.raises(IndexError):
        made.call([np.asarray([bad])], state=block)
    np.testing.assert_array_equal(view, x)
    made.call([np.asarray([-1])], state=block)
    np.testing.assert_array_equal(view, x + 1)


def test_pieces_are_written_into_one_array():
    check(lambda x: gt.concat([gt.exp(x), x[:, :2], gt.zeros((6, 0))], axis=1), X, exact=False)
    check(lambda x: (gt.pad(x, ((1, 0), (0, 2)), constant_values=3.0), gt.stack([x, x * 2], axis=1)), X, exact=True)
    check(gt.grad(lambda x: gt.sum(x[1:4, ::3] ** 2)), X)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products(ta, tb, dtype):
    a, b = (10 * normal(7, 5) if not ta else 10 * normal(5, 7)), (normal(5, 9) if not tb else normal(9, 5)) * 10
    a, b = a.astype(dtype), b.astype(dtype)
    program = check(lambda a, b: (a.T if ta else a) @ (b.T if tb else b), a, b)
    assert any(isinstance(step, Gemm) for step in program.steps)


def test_products_without_terms_and_without_elements():
    check(lambda a, b: a @ b + 1, normal(3, 0), normal(0, 2))
    check(lambda a, b: a @ b, normal(0, 3), normal(3, 2))
    check(lambda a, b: (a @ b, b.T @ b, a @ b[:, 0]), normal(2, 4, 3), normal(3, 5))


def test_one_program_serves_every_size_up_to_the_bound():
    batch, w = gt.spec(("B", 6), max={"B": 64}), normal(6, 5)

    def net(x, w):
        h = gt.softmax(gt.relu(x @ w))
        parts = gt.concat([h, h], axis=1), gt.reshape(h, (-1,)), gt.arange(5) + gt.reshape(x, (-1, 3, 2))[:, 0, :1]
        return gt.sum(h * h), h, gt.sum(h, axis=0), x.T, *parts

    for fn in (net, gt.grad(lambda w, x: net(x, w)[0])):
        args = (batch, w) if fn is net else (w, batch)
        trace, _, made = compiled(fn, *args)
        for size in (1, 7, 64, 0):
            given = [normal(size, 6) if a is batch else a for a in args]
            for wanted, value in zip(evaluate(trace.graph, given), made.call(given), strict=True):
                assert wanted.shape == value.shape
                np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


def test_a_swap_reads_the_old_values():
    one = np.float32(0.0)
    _, _, made = compiled(lambda a, b: (b, a + b), one, one, state={0: 0, 1: 1}, alias={0: 0, 1: 1})
    block = made.new_state()
    a, b = made.state_views(block)
    b[...] = 1
    for _ in range(6):
        made.call([], state=block)
    assert (float(a), float(b)) == (8.0, 13.0)


def test_a_second_output_keeps_the_old_value():
    w = normal(4)
    _, _, made = compiled(lambda w: (w - 0.1 * w, 2 * w), w, state={0: 0}, alias={0: 0})
    block = made.new_state()
    (view,) = made.state_views(block)
    view[:] = w
    (twice,) = made.call([], state=block)
    np.testing.assert_array_equal(twice, 2 * w)


def test_the_loss_is_reported():
    _, program, _ = compiled(lambda x: (x * 2, gt.sum(x)), X, loss=1)
    assert program.loss is not None
    assert next(b for b in program.buffers if b.name == program.loss).shape == ()


def test_a_program_names_the_users_lines():
    def named(x):
        doubled = gt.exp(x) * 2
        return gt.sum(doubled)

    _, program, made = compiled(named, X)
    assert any("test_lower.py" in line for line in program.steps[0].comment)
    assert "doubled = gt.exp(x) * 2" in made.c_source


@pytest.mark.parametrize("name", ["x", "int", "batch size", "2", "args"])
def test_a_run_time_extent_may_have_any_name(name):
    batch = gt.spec((name, 3), max={name: 4})
    _, _, made = compiled(lambda x, w: gt.softmax(x) @ w, batch, normal(3, 2))
    x = normal(2, 3)
    np.testing.assert_allclose(made.call([x, normal(3, 2)])[0], gt.softmax(x).numpy() @ normal(3, 2), rtol=1e-5)


def test_a_value_that_a_later_phase_has_loaded_is_loaded_for_an_earlier_one():
    def fn(x, rows, scale):
        late = gt.sum(gt.exp(x), axis=1) * scale
        early = rows * scale
        return x * late[:, None] + early[:, None]

    (kernel,) = check(fn, X, normal(6), normal()).steps
    assert isinstance(kernel, RowKernel) and len(kernel.phases) == 2

"""Memory between calls: results that stay what they were (A02), state that is updated in place (A04)."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt

CAPTURED = np.array([5.0, 6.0, 7.0], np.float32)
CONSTANT = gt.tensor([1.0, 2.0, 3.0])


def row(*values):
    return np.array(values, np.float32)


def leaves(result):
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in leaves(value)]
    if isinstance(result, tuple):
        return [leaf for value in result for leaf in leaves(value)]
    return [result]


# ---- A02 --------------------------------------------------------------------------------------------------

RESULTS = {
    "a scalar": lambda x: gt.sum(x),
    "an array": lambda x: x * 2,
    "the argument": lambda x: x,
    "views of the argument": lambda x: (x[1:], gt.reshape(x, (3, 1)), gt.flip(x)),
    "one value twice": lambda x: (y := x + 1, y),
    "what was captured": lambda x: CAPTURED,
    "captured and given": lambda x: {"c": CONSTANT, "x": x, "c again": CONSTANT},
    "constants": lambda x: (gt.ones(3), 2.0),
    "a product": lambda x: gt.reshape(x, (3, 1)) @ gt.reshape(x, (1, 3)),
}

WAYS = {
    "at the first call": lambda fn: gt.compile(fn),
    "ahead of time": lambda fn: gt.compile(fn).trace(gt.spec((3,))).lower().compile(),
    "resident": lambda fn: gt.Resident(lambda count, x: (count + 1, fn(x)), gt.zeros(()), [gt.spec((3,))]),
}


@pytest.mark.parametrize("what", RESULTS)
def test_A02_results_stay_as_they_were_returned(what):
    """A compiled function that keeps one output buffer, or hands out memory that is not the result's own, shows later
    calls, or a later change of an argument or of a captured array, in results that the user already holds.
    """
    fn = RESULTS[what]
    for way, make in WAYS.items():
        step = make(fn)
        inputs = [row(1, 1, 1), row(2, 2, 2), row(3, 3, 3)]
        expected = [[leaf.copy() for leaf in map(np.asarray, leaves(fn(x)))] for x in inputs]
        results = [step(x) for x in inputs]
        held = [leaf.numpy() for result in results for leaf in leaves(result)]
        try:
            for array in (*inputs, CAPTURED):
                array += 100
            step(row(9, 9, 9))
            for result, wanted in zip(results, expected, strict=True):
                for leaf, value in zip(leaves(result), wanted, strict=True):
                    np.testing.assert_array_equal(leaf.numpy(), value, err_msg=way)
        finally:
            CAPTURED[:] -= 100
        for i, one in enumerate(held):
            for other in (*held[:i], *inputs, CAPTURED, CONSTANT.numpy()):
                assert not np.shares_memory(one, other), way


def test_A02_a_sum_called_three_times_and_read_at_the_end():
    """The report's own program: every call returned a view of the same output buffer."""
    f = gt.compile(lambda x: gt.sum(x))
    results = [f(row(1, 1)), f(row(2, 2)), f(row(3, 3))]
    assert [result.item() for result in results] == [2.0, 4.0, 6.0]


def test_A02_memory_is_reused_only_where_it_was_donated_by_name():
    """Reuse of memory from call to call is a mode that the user asks for by name, and then says so: the returned leaf
    is the donated memory, a donated tensor refuses further use; what was not donated, and other views, stay.
    """
    f = gt.compile(lambda x, y: x + y, donate="x")
    x, y = row(1, 1), row(2, 2)
    result = f(x, y)
    assert np.shares_memory(result.numpy(), x) and x.tolist() == [3, 3] and y.tolist() == [2, 2]
    first, kept = gt.tensor([1.0, 1.0]), gt.tensor([2.0, 2.0])
    seen = kept.numpy()
    f(first, y)
    with pytest.raises(gt.errors.DonatedError):
        first + 1
    f(kept, y)
    assert seen.tolist() == [2, 2]


def test_A02_auxiliary_results_of_training_steps_stay():
    """State that lives in place is exposed as views, on purpose; what a step returns besides is not the state."""

    def loss(w, x):
        return gt.mean((w - x) ** 2), {"w": w, "x": x}

    train = gt.TrainStep(loss, gt.zeros(2), gt.optim.sgd(0.5), gt.spec((2,)), has_aux=True)
    results = [train(row(1, 1)) for _ in range(3)]
    assert [aux["w"].tolist() for _, aux in results] == [[0, 0], [0.5, 0.5], [0.75, 0.75]]
    assert not any(np.shares_memory(aux["w"].numpy(), train.params) for _, aux in results)


# ---- A04 --------------------------------------------------------------------------------------------------


def descent(w, v):
    def loss(w):
        return gt.sum(w * w) / 2

    return w - 0.1 * gt.grad(loss)(w), 2 * w


UPDATES = {
    "Fibonacci": (lambda a, b: (b, a + b), ()),
    "Fibonacci in vectors": (lambda a, b: (b, a + b), (40,)),
    "swap": (lambda a, b: (b, a), (7,)),
    "descent and the old weights": (descent, (9,)),
    "both need both": (lambda a, b: (a * b + 1, a - b), (33,)),
    "transposed": (lambda a, b: (b.T, a + b.T), (5, 5)),
    "reversed": (lambda a, b: (gt.flip(a), a + b), (17,)),
    "shifted": (lambda a, b: (gt.concat([b[1:], a[:1]]), gt.concat([a[-1:], b[:-1]])), (12,)),
    "less its mean": (lambda a, b: (a - gt.mean(b), b / gt.sum(gt.abs(a))), (21,)),
    "rows by softmax": (lambda a, b: (gt.softmax(a + b), gt.softmax(b - a, axis=0)), (6, 8)),
    "products": (lambda a, b: (a @ b / 6, b @ a / 6), (6, 6)),
    "gathered": (lambda a, b: (gt.take(a, np.array([3, 0, 0, 2]), axis=0), b + a), (4,)),
    "scattered": (lambda a, b: (gt.scatter_add(a, 0, np.array([2, 2, 0]), b[:3] / 8), a), (4,)),
    "one of two": (lambda a, b: (a, gt.where(a > b, a, b + 1)), (5,)),
    "a part of itself": (lambda a, b: (gt.concat([a[2:], a[:2] * 2]), b + gt.pad(a[1:], ((0, 1),))), (11,)),
}


@pytest.mark.parametrize("what", UPDATES)
def test_A04_updates_in_place_read_the_old_state(what):
    """An update in place must read all of the old state before it overwrites any of it, and must happen at every call:
    (a, b) <- (b, a + b) otherwise gives powers of two, or stands still. Donated tensors, donated arrays and resident
    state all do what fresh memory does.
    """
    update, shape = UPDATES[what]
    rng = np.random.default_rng(7)
    first = [np.zeros((), np.float32), np.ones((), np.float32)]
    if shape:
        first = [rng.uniform(0.5, 2, shape).astype(np.float32) for _ in first]

    def step(a, b):
        return update(a, b)

    fresh, donated = gt.compile(step), gt.compile(step, donate=("a", "b"))
    resident = gt.Resident(lambda state: (update(*state), state[0]), tuple(first), [])
    plain = tensors = tuple(map(gt.tensor, first))
    arrays = tuple(leaf.copy() for leaf in first)
    exact = tuple(leaf.astype(np.float64) for leaf in first)
    for _ in range(6):
        exact = tuple(leaf.numpy() for leaf in update(*map(gt.tensor, exact)))
        np.testing.assert_array_equal(resident().numpy(), plain[0].numpy())
        plain, tensors = fresh(*plain), donated(*tensors)
        returned = donated(*arrays)
        assert all(np.shares_memory(one.numpy(), array) for one, array in zip(returned, arrays, strict=True))
        for leaf, wanted in zip(plain, exact, strict=True):
            np.testing.assert_allclose(leaf.numpy(), wanted, rtol=1e-4, atol=1e-5)
        for other in (tensors, arrays, resident.state):
            for leaf, wanted in zip(other, plain, strict=True):
                np.testing.assert_array_equal(np.asarray(leaf), wanted.numpy())


def test_A04_fibonacci():
    """The report's own numbers: six updates of (0, 1) give (8, 13)."""
    pair = gt.Resident(lambda state: (((b := state[1]), state[0] + b), None), (gt.zeros(()), gt.ones(())), [])
    for _ in range(6):
        pair()
    assert [float(leaf) for leaf in pair.state] == [8.0, 13.0]


def test_A04_the_old_weights_are_returned_beside_the_new():
    """w <- w - 0.1 g(w) and v <- 2 w in one update: v is twice the w from before the step."""
    step = gt.Resident(lambda state: (descent(*state), None), (gt.tensor([1.0, -2.0]), gt.zeros(2)), [])
    for _ in range(6):
        before = step.state[0].copy()
        step()
        np.testing.assert_array_equal(step.state[1], 2 * before)
        np.testing.assert_allclose(step.state[0], 0.9 * before, rtol=1e-6)


def test_A04_the_loop_in_C_updates_as_single_steps_do():
    """Steps that run inside C, one after another without Python, are not allowed to drop or repeat an update."""

    def loss(p, x, y):
        return gt.mean((x @ p["w"] + p["b"] - y) ** 2)

    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((24, 5), np.float32), rng.standard_normal((24, 2), np.float32)
    params = {"w": rng.standard_normal((5, 2), np.float32), "b": np.zeros(2, np.float32)}
    specs = gt.spec((4, 5)), gt.spec((4, 2))
    looped, single = (gt.TrainStep(loss, params, gt.optim.adam(0.1), *specs) for _ in "ab")
    history = looped.fit(x, y, epochs=3, shuffle=False, progress=False)
    losses = [single(x[k : k + 4], y[k : k + 4]) for _ in range(3) for k in range(0, 24, 4)]
    np.testing.assert_array_equal(history.losses, losses)
    for key in params:
        np.testing.assert_array_equal(looped.params[key], single.params[key])

"""`gt.Resident`: state in one block of memory, functions bound to it, and who may touch it when."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, ShapeError, SignatureError, TraceError


def cell(state, x):
    gate = gt.sigmoid(x @ state["w"] + state["h"])
    h = gate * state["h"] + (1 - gate) * x
    return {"w": state["w"], "h": h, "count": state["count"] + 1}, {"h": h, "gate": gate}


def start():
    rng = np.random.default_rng(0)
    return {"w": rng.standard_normal((3, 3), np.float32), "h": np.zeros(3, np.float32), "count": 0}


@pytest.fixture(scope="module")
def compiled_cell():
    return gt.Resident(cell, start(), [gt.spec((3,))])


@pytest.fixture
def resident(compiled_cell):
    for view, value in zip(compiled_cell.block.views, block_values(), strict=True):
        view[...] = value
    return compiled_cell


def block_values():
    state = start()
    return [state["count"], state["h"], state["w"]]


def test_state_moves_on_from_call_to_call(resident):
    state = start()
    for step in range(4):
        x = np.full(3, step, np.float32)
        outputs = resident(x)
        state, expected = cell(state, x)
        np.testing.assert_allclose(outputs["h"].numpy(), expected["h"].numpy(), rtol=1e-6)
        np.testing.assert_allclose(outputs["gate"].numpy(), expected["gate"].numpy(), rtol=1e-6)
    assert resident.state["count"] == 4
    assert np.array_equal(resident.state["w"], start()["w"])


def test_state_is_one_aligned_block_seen_through_views(resident):
    views = resident.state
    before = views["h"].copy()
    first = resident(np.ones(3, np.float32))["h"]
    assert not np.array_equal(views["h"], before)
    assert np.array_equal(views["h"], first.numpy())
    resident(np.zeros(3, np.float32))
    assert not np.array_equal(views["h"], first.numpy())
    places = [v.__array_interface__["data"][0] for v in (views["count"], views["h"], views["w"])]
    assert all(place % 64 == 0 for place in places)
    assert np.diff(places).tolist() == [64, 64]
    assert all(np.shares_memory(v, resident.block.memory) for v in views.values())


def test_the_first_state_is_copied():
    given = np.ones(2, np.float32)
    counter = gt.Resident(lambda s, x: (s + x, None), given, [gt.spec((2,))])
    assert counter(gt.ones(2)) is None
    assert given.tolist() == [1, 1] and counter.state.tolist() == [2, 2]
    counter.state[:] = 7
    counter(gt.ones(2))
    assert counter.state.tolist() == [8, 8]


def test_leaves_may_change_places():
    fib = gt.Resident(lambda s: ((s[1], s[0] + s[1]), s[0]), (0.0, 1.0), [])
    assert [fib().item() for _ in range(7)] == [0, 1, 1, 2, 3, 5, 8]
    assert [float(v) for v in fib.state] == [13, 21]
    both = gt.Resident(lambda s: ({"w": s["w"] - 0.5, "v": 2 * s["w"]}, ()), {"w": np.ones(5), "v": np.zeros(5)}, [])
    both()
    assert (both.state["w"][0], both.state["v"][0]) == (0.5, 2)


def test_other_functions_share_the_state(resident):
    norm = resident.bind(lambda state, scale: gt.sum(state["h"] ** 2) * scale, gt.spec(()))
    batch = resident.bind(lambda state, xs: xs @ state["w"], gt.spec(("B", 3), max={"B": 4}))
    reset = resident.bind(lambda state: ({**state, "h": state["h"] * 0}, state["count"]), updates=True)
    resident(np.ones(3, np.float32))
    assert norm(2.0).item() == pytest.approx(2 * float((resident.state["h"] ** 2).sum()))
    for n in (1, 4, 0):
        np.testing.assert_allclose(batch(np.ones((n, 3), np.float32)), np.ones((n, 3)) @ start()["w"], rtol=1e-5)
    assert reset().item() == 1
    assert resident.state["h"].tolist() == [0, 0, 0] and norm(1).item() == 0
    assert norm.kernels and batch.graph.name == "lambda"


def test_a_function_that_only_reads_changes_nothing(resident):
    peek = resident.bind(lambda state: (state["h"] + 1, state))
    before = resident.block.memory.copy()
    first, same = peek()
    assert np.array_equal(resident.block.memory, before)
    assert not np.shares_memory(same["h"].numpy(), resident.block.memory)
    assert first.tolist() == [1, 1, 1]


def test_a_call_that_raises_leaves_the_state_alone():
    def step(state, i):
        picked = gt.take(state["table"], i, axis=0)
        return {"table": state["table"] * 2 + picked}, picked

    resident = gt.Resident(step, {"table": np.arange(4, dtype=np.float32)}, [gt.spec((), gt.int64)])
    assert resident(1).item() == 1
    before = resident.state["table"].copy()
    with pytest.raises(IndexError, match=r"take: index 4 is out of range for an axis of 4\n  at test_resident.py"):
        resident(4)
    assert np.array_equal(resident.state["table"], before)
    assert resident(-1).item() == before[-1]


def test_numbers_fit_scalars_of_their_kind_or_a_wider_one():
    add = gt.Resident(
        lambda s, a, n: (s + a * n, s), np.zeros((), np.float64), [gt.spec((), gt.float64), gt.spec((), gt.int32)]
    )
    add(1, 2)
    add(0.5, np.int32(2))
    assert add.state == 3
    with pytest.raises(SignatureError, match=r"n: i32\[\]; this call has f64\[\] \(a Python float\)"):
        add(1, 2.0)
    with pytest.raises(DTypeError, match="n: 2147483648 does not fit int32"):
        add(1, 2**31)


def test_only_tensors_without_history_are_taken(resident):
    w = gt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(TraceError, match=r"x records its history.*\n.*\n.*detach"):
        resident(w)
    resident(w.detach())
    with pytest.raises(TraceError, match="x is a traced tensor, and cell runs compiled code"):
        gt.trace(lambda x: resident(x), gt.spec((3,)))


@pytest.mark.parametrize(
    "step, state, error, message",
    [
        (lambda s, x: s, np.zeros(2), TraceError, "must return \\(state, outputs\\)"),
        (lambda s, x: ([s], x), np.zeros(2), TraceError, "returned a state of structure"),
        (lambda s, x: (s + x, x), np.zeros(3, np.int32), TraceError, r"state came as i32\[3\] and is returned as f32"),
        (lambda s, x: ({"w": s["w"][:2]}, x), {"w": np.zeros(3)}, TraceError, r"w came as f64\[3\] and is"),
        (lambda s, x: (s, x), {"w": "text"}, SignatureError, "the state has str at w, which is no array"),
        (lambda s, x: (s, x), gt.spec(("B",), max={"B": 2}), SignatureError, "the state has Spec"),
    ],
)  # fmt: skip
def test_states_that_cannot_stay(step, state, error, message):
    with pytest.raises(error, match=message):
        gt.Resident(step, state, [gt.spec((3,))])


def test_wrong_uses_say_what_was_compiled(resident):
    with pytest.raises(SignatureError, match=r"cell was compiled for x: f32\[3\]; this call has f64\[3\]"):
        resident(np.zeros(3))
    with pytest.raises(SignatureError, match="cell was compiled for x; argument 2 is not expected"):
        resident(np.zeros(3, np.float32), 1)
    with pytest.raises(SignatureError, match="cell was compiled for x; x is missing"):
        resident()
    with pytest.raises(SignatureError, match="specs is a sequence"):
        gt.Resident(cell, start(), gt.spec((3,)))
    with pytest.raises(ShapeError):
        resident.bind(lambda state, x: state["w"] @ x, gt.spec((4,)))


@pytest.mark.parametrize("tree", [False, True])
def test_arrays_that_fit_go_the_short_way(tree, monkeypatch):
    offset = np.zeros(2, np.float32) if tree else 0

    def step(state, x, n):
        x = x["x"] if tree else x
        return state + x + offset, (state * n, {"sum": gt.sum(x)})

    x = np.array([1, 2], np.float32)
    batch = {"x": x} if tree else x
    resident = gt.Resident(step, np.zeros(2, np.float32), [batch, gt.spec((), gt.int32)])
    n = np.array(3, np.int32)
    frozen = x.copy()
    frozen.flags.writeable = False
    monkeypatch.setattr(type(resident.step), "fit", lambda self, batch: pytest.fail("this is the long way"))
    for given in (x, frozen, gt.tensor(x), np.repeat(x, 2).reshape(2, 2)[1] * 0 + x):
        before = resident.state.tolist()
        first, second = resident({"x": given} if tree else given, n)
        assert first.tolist() == [3 * value for value in before] and second["sum"].item() == 3
        assert not first.numpy().flags.writeable
    assert resident.state.tolist() == [4, 8]
    monkeypatch.undo()
    for given in (np.repeat(x, 2)[::2], x.astype(">f4")):
        resident({"x": given} if tree else given, 3)
    assert resident.state.tolist() == [6, 12]
    offset += 10
    resident(batch, n)
    assert resident.state.tolist() == ([17, 24] if tree else [7, 14])


def test_a_batch_that_is_the_state_is_read_as_it_was():
    def step(state, x):
        moved = gt.flip(state, 0) + 1
        return moved, moved + x

    alone, same = (gt.Resident(step, np.arange(64.0), [gt.spec((64,), gt.float64)]) for _ in range(2))
    for _ in range(3):
        expected = alone(alone.state.copy())
        np.testing.assert_array_equal(same(same.state), expected)
    np.testing.assert_array_equal(same(same.state[:].view()), alone(alone.state.copy()))


def test_results_stay_when_steps_follow():
    resident = gt.Resident(lambda s, x: (s + x, s * x), np.ones(3), [gt.spec((3,), gt.float64)])
    results = [resident(np.full(3, 1.0) if n % 2 else [1.0, 1.0, 1.0] * np.ones(3)) for n in range(4)]
    assert [r.tolist()[0] for r in results] == [1, 2, 3, 4]


def test_threads_take_turns():
    count = gt.Resident(lambda s, x: (s + x, s), np.zeros(100), [gt.spec((100,), gt.float64)])
    one = np.ones(100)
    torn = []

    def work():
        for _ in range(200):
            seen = count(one).numpy()
            if not (seen == seen[0]).all():
                torn.append(seen)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn and (count.state == 800).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_a_state_of_its_own(resident):
    x = np.ones(3, np.float32)
    resident.block.lock.acquire()  # as a thread in the middle of a call would
    try:
        child = os.fork()
        if child == 0:
            resident(x)
            os._exit(0 if resident.state["count"] == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        resident.block.lock.release()
    assert resident.state["count"] == 0


def test_captured_arrays_are_read_at_each_call():
    table = np.zeros(2, np.float32)
    step = gt.Resident(lambda s, x: (s + x + table, s), np.zeros(2, np.float32), [gt.spec((2,))])
    step(gt.ones(2))
    table[:] = 10
    step(gt.ones(2))
    assert step.state.tolist() == [12, 12]
    table = np.full(2, 100, np.float32)
    step(gt.ones(2))
    assert step.state.tolist() == [113, 113]
    table = np.zeros(3)
    with pytest.raises(SignatureError, match="arrays that have since been replaced"):
        step(gt.ones(2))

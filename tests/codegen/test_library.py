"""Loading a model and calling it, over both bridges: description, binding, errors, loops, threads, fork."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from gtensor.codegen import abi, trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.library import Leaf, Library, LibraryError, Loop, aligned_empty
from gtensor.codegen.options import Options
from gtensor.codegen.program import Dim
from gtensor.codegen.trampoline import Wrapper

SOURCE = (Path(__file__).parent / "by_hand.c").read_text(encoding="utf-8")
OPTIONS = Options(cache=Path(os.environ["GT_CACHE"]))


def made(text, options=OPTIONS):
    """The path of a compiled unit."""
    workshop = Workshop(options)
    recipe = Recipe("by_hand", text)
    return (workshop.find(recipe) or workshop.make(recipe, {"by_hand.c": text})).library_path


@pytest.fixture(scope="module", params=["api", "abi"])
def bridge(request):
    if request.param == "abi":
        return trampoline.abi_bridge()
    return trampoline.api_bridge(trampoline.compiled(Workshop(OPTIONS)))


@pytest.fixture
def library(bridge):
    return Library(made(SOURCE), bridge, lambda: pytest.fail("this model needs no BLAS"))


def arguments(rows=4, index=(0, 2)):
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    w = np.array([1, 10, 100], np.float32)
    return [x, w, np.array(index, np.int64), np.empty(0, bool)]


def test_the_bridges_are_what_they_say(bridge, request):
    assert bridge.mode in request.node.callspec.id


def test_the_usual_bridge_is_api():
    assert trampoline.bridge(Workshop(OPTIONS)).mode == "api"


def test_the_shipped_module_is_what_the_header_gives():
    held = (Path(abi.__file__).parent / "_abi.py").read_text(encoding="utf-8")
    assert held == abi.python_module(), "run python -m gtensor.codegen.abi"


def test_declarations_hold_every_type_and_constant_of_the_header():
    header, declared = abi.header("gt_abi.h"), abi.declarations()
    assert "GT_ERR_BLAS 3" in declared and "} gt_model;" in declared
    assert declared.count("typedef struct") == header.count("typedef struct") + 1  # and the frame


def test_description(library):
    model = library.model
    assert (model.name, model.state_bytes, model.work_bytes, model.needs_blas) == ("by_hand", 128, 64, False)
    assert model.inputs[0] == Leaf("x", "f32", (Dim(0, "B", 8), 3), 96, 0)
    assert model.inputs[3].shape == (0,)
    assert [leaf.offset for leaf in model.state] == [0, 64]
    assert model.dims == (Dim(0, "B", 8),)
    assert model.equations[1] == "picked = w[i]  # Márton"


def test_call(library):
    state = library.new_state()
    x, w, *_ = inputs = arguments()
    y, picked = library.call(inputs, state=state)
    np.testing.assert_array_equal(y, x * w)
    np.testing.assert_array_equal(picked, [1, 100])
    calls, total = library.state_views(state)
    assert calls.shape == () and calls == 1
    np.testing.assert_array_equal(total, (x * w).sum(0))
    y, _ = library.call(inputs, state=state)
    np.testing.assert_array_equal(y, x * w + (x * w).sum(0))


def test_awkward_inputs(library):
    x, w, index, nothing = arguments(8)
    right, _ = library.call([x, w, index, nothing], state=library.new_state())
    read_only = x.copy()
    read_only.flags.writeable = False
    for form in (read_only, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1].copy()[::-1]):
        y, _ = library.call([form, w, index, nothing], state=library.new_state())
        np.testing.assert_array_equal(y, right)
    y, _ = library.call([np.broadcast_to(w, (2, 3)), w, index, nothing], state=library.new_state())
    np.testing.assert_array_equal(y, [w * w] * 2)
    y, _ = library.call([x[:0], w, index, nothing], state=library.new_state())
    assert y.shape == (0, 3)


def test_outputs_into_given_memory(library):
    y = np.full((4, 3), -1, np.float32)
    out, _ = library.call(arguments(), state=library.new_state(), outputs={0: y})
    assert out is y and y[1, 1] == 40


@pytest.mark.parametrize(
    "change, message",
    [
        ({0: np.zeros((4, 3))}, r"x must be float32\[4, 3\], not float64\[4, 3\]"),
        ({1: np.zeros(4, np.float32)}, r"w must be float32\[3\], not float32\[4\]"),
        ({2: np.zeros(2, np.int32)}, r"i must be int64\[2\], not int32\[2\]"),
    ],
)
def test_arguments_that_do_not_fit(library, change, message):
    inputs = [change.get(slot, value) for slot, value in enumerate(arguments())]
    with pytest.raises(LibraryError, match=message):
        library.call(inputs, state=library.new_state())


def test_wrong_counts_and_sizes(library):
    state = library.new_state()
    with pytest.raises(LibraryError, match="takes 4 inputs, not 3"):
        library.call(arguments()[:3], state=state)
    with pytest.raises(LibraryError, match="state of 128 bytes"):
        library.call(arguments())
    with pytest.raises(ValueError, match=r"dimension B is 9, outside 0 … 8"):
        library.call(arguments(9), state=state)


@pytest.mark.parametrize("bad", [-1, 3, 2**62])
def test_an_index_error_names_value_and_equation_and_leaves_the_state(library, bad):
    state = library.new_state()
    library.call(arguments(), state=state)
    before = state.copy()
    with pytest.raises(IndexError, match=rf"index {bad} is out of range in picked = w\[i\]"):
        library.call(arguments(index=(0, bad)), state=state)
    np.testing.assert_array_equal(state, before)


def bound(library, state, rows=4):
    """A call with everything bound, and the arrays that its outputs are."""
    call = library.acquire()
    y, picked = np.empty((rows, 3), np.float32), np.empty(2, np.float32)
    for slot, value in enumerate(arguments(rows)):
        call.set_input(slot, value)
    call.set_output(0, y)
    call.set_output(1, picked)
    call.set_state(state)
    call.set_dims([rows])
    return call, y, picked


def test_a_bound_call_keeps_its_arguments_alive(library):
    state = library.new_state()
    call, y, _ = bound(library, state)
    gc.collect()
    assert call.call() == 0
    assert call.loss == float((np.arange(12).reshape(4, 3) * [1, 10, 100]).sum())
    held = weakref.ref(y)
    del y
    gc.collect()
    assert held() is not None
    library.release(call)
    gc.collect()
    assert held() is None


def test_step_gives_nan_for_a_failed_call_only(library):
    call, *_ = bound(library, library.new_state())
    assert call.step() == float((np.arange(12).reshape(4, 3) * [1, 10, 100]).sum())
    assert call.status == 0
    call.set_input(2, np.array([0, 7]))
    assert np.isnan(call.step())
    assert call.status != 0
    failure = call.failure()
    assert (failure.node, failure.index) == (1, 7)
    assert isinstance(failure.error(), IndexError)


def stepping(library, otherwise=None, slots=(1, 2)):
    """A stepper over a bound call, its guard, and the state."""
    state = library.new_state()
    call, *_ = bound(library, state)
    guard = library.bridge.guard()

    def slow(*arrays):
        with guard:
            for slot, array in zip(slots, arrays, strict=True):
                call.set_input(slot, array)
            if call.call():
                raise call.failure().error()
            return call.loss

    return call.stepper(slots, otherwise or slow, guard), guard, state, call


def test_a_stepper_gives_what_the_long_way_gives(library):
    step, _, state, _ = stepping(library)
    by_calls = library.new_state()
    x, w, index, nothing = arguments()
    for scale in range(5):
        loss = step(w * np.float32(scale), index)
        y, _ = library.call([x, w * np.float32(scale), index, nothing], state=by_calls)
        assert loss == y.sum(dtype=np.float64)
    np.testing.assert_array_equal(state, by_calls)


def test_a_stepper_leaves_the_bindings_alone(library):
    step, _, _, call = stepping(library)
    if library.bridge.mode == "abi":
        return  # its long way binds
    before = bytes(trampoline.FFI.buffer(call._inputs))
    step(np.zeros(3, np.float32), np.array([1, 1]))
    assert bytes(trampoline.FFI.buffer(call._inputs)) == before


W, INDEX = arguments()[1:3]
ODD = [
    (W.astype(np.float64), INDEX),
    (W.astype(">f4"), INDEX),
    (W.astype(np.int32), INDEX),
    (W[:2], INDEX),
    (W.reshape(3, 1), INDEX),
    (np.repeat(W, 2)[::2], INDEX),
    (W[0], INDEX),
    ([1.0, 2.0, 3.0], INDEX),
    (memoryview(W), INDEX),
    (None, INDEX),
    (W, INDEX.astype(np.int32)),
    (W,),
    (W, INDEX, W),
    (),
]


@pytest.mark.parametrize("arrays", ODD, ids=lambda arrays: str(len(arrays)))
def test_what_a_stepper_does_not_take_goes_the_other_way(library, arrays):
    seen = []
    step, _, state, _ = stepping(library, lambda *arrays: seen.append(arrays) or "other")
    assert step(*arrays) == "other"
    assert len(seen) == 1 and all(a is b for a, b in zip(seen[0], arrays, strict=True))
    assert library.state_views(state)[0] == 0


def test_what_a_stepper_takes_does_not_go_the_other_way(library):
    step, *_ = stepping(library, lambda *arrays: "other")
    frozen = W.copy()
    frozen.flags.writeable = False
    for w in (W, frozen, np.zeros(9, np.float32)[3:6], W.view(np.ndarray)):
        assert isinstance(step(w, INDEX), float) == (library.bridge.mode == "api")


def test_what_c_cannot_read_where_it_is_goes_the_other_way(library):
    step, _, state, call = stepping(library, lambda *arrays: "other")
    call.set_state(state)
    shifted = np.zeros(13, np.uint8)[1:].view(np.float32)
    _, total = library.state_views(state)
    for w in (shifted, total):
        assert w.shape == (3,) and step(w, INDEX) == "other"
    outside = np.concatenate([np.frombuffer(state, np.float32), W])[-3:]
    assert isinstance(step(outside, INDEX), float) == (library.bridge.mode == "api")


class Kind:
    def __init__(self, weak):
        self.weak = weak


class Held:
    def __init__(self, data, **odd):
        vars(self).update({"data": data, "busy": None, "type": Kind(False)} | odd)


def test_objects_that_stand_for_arrays(library):
    plain, guard, _, call = stepping(library)
    wrapper = Wrapper(Held, "data", (("busy",), ("type", "weak")))
    step = call.stepper((1, 2), lambda *arrays: "other", guard, wrapper=wrapper)
    if library.bridge.mode == "api":
        losses = plain(W, INDEX), step(Held(W), Held(INDEX, busy=False)), step(W, INDEX)
        assert losses == (losses[0], 5 * losses[0], 25 * losses[0])  # each of four rows adds the total so far
    before = sys.getrefcount(W)
    for odd in ({"busy": True}, {"busy": 0}, {"type": Kind(True)}, {"type": 0}, {"data": 0}):
        assert step(Held(**{"data": W, **odd}), INDEX) == "other"
    assert step(Held(W[:2]), INDEX) == "other"
    assert step(type("Other", (Held,), {})(W), INDEX) == "other"
    assert sys.getrefcount(W) == before


def test_run_time_extents_are_read_off_the_arrays(library):
    _, guard, state, call = stepping(library)
    step = call.stepper((0, 1, 2), lambda *arrays: "other", guard, finish=lambda loss, *outputs: outputs)
    by_calls, before = library.new_state(), call.dims()
    for rows in (4, 0, 1, 8, 7):
        inputs = arguments(rows)
        found = step(*inputs[:3])
        wanted = library.call(inputs, state=by_calls)
        if library.bridge.mode == "api":
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype
    assert call.dims() == before
    x = np.zeros((9, 3), np.float32)
    for wrong in (x, x[:4, :2], x[0], x[:4].astype(np.float64)):
        assert step(wrong, W, INDEX) == "other"
    if library.bridge.mode == "api":
        np.testing.assert_array_equal(state, by_calls)


def test_run_time_extents_that_no_array_shows_go_the_other_way(library):
    _, guard, _, call = stepping(library)
    step = call.stepper((1, 2), lambda *arrays: "other", guard, finish=lambda loss, *outputs: outputs)
    assert step(W, INDEX) == "other"


NUMBERS = """\
#include "gt_abi.h"
static int32_t call(gt_args *args)
{
    const double a = *(const double *)args->in[0];
    const int64_t b = *(const int64_t *)args->in[1];
    double *sum = args->out[0];
    float *two = args->out[1];
    if (b < 0) {
        args->err_index = b;
        return GT_ERR_INDEX;
    }
    sum[0] = a + (double)b;
    two[0] = (float)a;
    two[1] = (float)b;
    args->loss = sum[0] / 2;
    return GT_OK;
}
static const gt_array inputs[] = {{"a", "f64", 0, 0, 1, 8, 0}, {"b", "i64", 0, 0, 1, 8, 0}};
static const int64_t shape[] = {2};
static const gt_array outputs[] = {{"sum", "f64", 0, 0, 1, 8, 0}, {"two", "f32", 1, shape, 1, 8, 0}};
static const gt_model model = {.abi = GT_ABI_VERSION, .name = "numbers", .n_inputs = 2, .n_outputs = 2,
                               .inputs = inputs, .outputs = outputs, .call = call};
GT_EXPORT const gt_model *gt_model_get(void) { return &model; }
"""


def test_numbers_in_and_fresh_arrays_out(bridge):
    call = Library(made(NUMBERS), bridge, lambda: 0).acquire()
    guard, kept = bridge.guard(), []

    def finish(loss, *outputs):
        kept.append(outputs)
        return loss

    step = call.stepper((0, 1), lambda *args: "other", guard, finish=finish, numbers=("f", "i"))
    odd = [(1, 2), (1.5, 2.0), (1.5, True), (np.float64(1.5), 2), (1.5, 2**63), (1.5, -1), (np.array(1.5), 2)]
    assert [step(*args) for args in odd] == ["other"] * len(odd) and not kept
    if bridge.mode == "abi":
        return
    assert (step(1.5, 2), step(0.25, 2**40)) == (1.75, (0.25 + 2**40) / 2)
    assert [sys.getrefcount(outputs[0]) for outputs in kept] == [2, 2]
    assert [[array.tolist() for array in outputs] for outputs in kept] == [
        [3.5, [1.5, 2.0]],
        [2**40 + 0.25, [0.25, 2**40]],
    ]
    assert all(array.flags.owndata and array.flags.writeable for outputs in kept for array in outputs)
    broken = call.stepper((0, 1), lambda *args: "other", guard, finish=lambda *args: 1 / 0, numbers=("f", "i"))
    with pytest.raises(ZeroDivisionError):
        broken(1.5, 2)
    with guard:
        assert step(1.5, 2) == "other"


def test_keywords_go_the_other_way(library):
    step, *_ = stepping(library, lambda **named: named)
    assert step(w=1) == {"w": 1}


def test_a_failing_step_raises_where_the_other_way_does(library):
    step, guard, state, _ = stepping(library)
    with pytest.raises(IndexError, match="index 9 is out of range in picked"):
        step(W, np.array([9, 0]))
    with guard:
        assert library.state_views(state)[0] == 0


def test_a_taken_guard_sends_the_other_way(library):
    step, guard, *_ = stepping(library, lambda *arrays: "other")
    with guard:
        assert step(W, INDEX) == "other"
    assert (step(W, INDEX) != "other") == (library.bridge.mode == "api")


def test_steps_of_several_threads_exclude_each_other(library):
    step, _, state, _ = stepping(library)
    zero, wrong_dtype = np.zeros(3, np.float32), np.zeros(2, np.int64)

    def work():
        for n in range(500):
            step(zero if n % 3 else zero.copy(), wrong_dtype)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.state_views(state)[0] == 2000


def test_a_stepper_leaks_nothing_and_can_be_collected(library):
    class Other:
        def __call__(self, *arrays):
            return "other"

    other = Other()
    other.step = stepping(library, other)[0]
    before = [sys.getrefcount(thing) for thing in (W, W.dtype, INDEX, INDEX.dtype, other, other.step)]
    for _ in range(100):
        other.step(W, INDEX)
        other.step(W[:2], INDEX)
        other.step(W)
    after = [sys.getrefcount(thing) for thing in (W, W.dtype, INDEX, INDEX.dtype, other, other.step)]
    assert before == after
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_a_guard_that_a_thread_held_is_free_after_fork(library):
    guard = library.bridge.guard()
    with guard:
        pid = os.fork()
        if pid == 0:
            with guard:
                os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_guard_is_taken_once(bridge):
    guard = bridge.guard()
    assert guard.acquire() and not guard.acquire(False)
    guard.release()
    assert guard.acquire(False) and guard.waiting == 0
    waiting = threading.Thread(target=lambda: guard.acquire() and guard.release())
    waiting.start()
    while bridge.mode == "api" and guard.waiting == 0:
        time.sleep(0.001)
    guard.release()
    waiting.join()
    assert guard.waiting == 0
    with guard:
        assert not guard.acquire(False)


def test_who_waits_for_a_guard_gets_it_from_a_thread_that_takes_it_again_at_once(bridge):
    """A thread that trains without a pause has the guard nearly always; the others must come to their turn."""
    if bridge.mode != "api":
        return  # a lock of the standard library, which promises nothing
    guard, stop = bridge.guard(), threading.Event()

    def trains():
        while not stop.is_set():
            with guard:
                time.sleep(0.0002)

    threads = [threading.Thread(target=trains) for _ in "ab"]
    for thread in threads:
        thread.start()
    for _ in range(20):
        with guard:
            pass
    stop.set()
    for thread in threads:
        thread.join()
    assert guard.waiting == 0


def test_who_waits_for_a_guard_can_be_interrupted(library):
    if library.bridge.mode == "abi":
        return
    guard = library.bridge.guard()

    class Signalled(Exception):
        pass

    def handler(number, frame):
        raise Signalled

    held = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with guard, pytest.raises(Signalled), guard:
            pass
    finally:
        signal.signal(signal.SIGALRM, held)
    with guard:
        pass


def test_outputs_and_state_must_be_writable_and_contiguous(library):
    call = library.acquire()
    frozen = np.zeros((4, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"not writable|read-only"):
        call.set_output(0, frozen)
    with pytest.raises(ValueError, match="not C-contiguous"):
        call.set_input(0, np.zeros((3, 4), np.float32).T)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, 10**7])
def test_aligned(nbytes):
    arrays = [aligned_empty(nbytes) for _ in range(5)]
    assert all(a.nbytes == nbytes for a in arrays)
    assert nbytes == 0 or all(a.__array_interface__["data"][0] % 64 == 0 for a in arrays)


def test_state_views_keep_the_block_alive(library):
    state = library.new_state()
    calls, total = library.state_views(state)
    total[:] = 5
    block = weakref.ref(state.base)
    del state, calls
    gc.collect()
    assert block() is not None and total.sum() == 15


def test_loop_over_batches(library):
    data = np.arange(30, dtype=np.float32).reshape(10, 3)
    by_calls = library.new_state()
    expected = []
    for start in range(2, 10, 2):
        call, *_ = bound(library, by_calls, 2)
        call.set_input(0, data[start : start + 2])
        expected.append(call.step())
    state = library.new_state()
    call, *_ = bound(library, state, 2)
    call.set_input(0, data)
    loop = Loop(call, [True, False, False, False])
    losses = np.empty(4)
    assert loop.run(4, 2, first=2, losses=losses) == 0
    assert loop.done == 4
    np.testing.assert_array_equal(losses, expected)
    np.testing.assert_array_equal(state, by_calls)


def test_loop_over_rows_in_any_order(library):
    data = np.arange(30, dtype=np.float32).reshape(10, 3)
    rows = np.array([9, 0, 3, 3, 5, 1])
    in_order, shuffled = library.new_state(), library.new_state()
    for state, x, order in ((in_order, data[rows], None), (shuffled, data, rows)):
        call, *_ = bound(library, state, 2)
        call.set_input(0, x)
        assert Loop(call, [True, False, False, False]).run(3, 2, rows=order) == 0
    np.testing.assert_array_equal(in_order, shuffled)


def test_loop_stops_and_fails_at_a_step(library):
    state = library.new_state()
    call, *_ = bound(library, state, 2)
    call.set_input(0, np.zeros((10, 3), np.float32))
    loop = Loop(call, [True, False, False, False])
    assert loop.run(5, 2, stop=np.array([1], np.int32)) == 0
    assert loop.done == 0
    call.set_input(2, np.array([0, -4]))
    assert loop.run(5, 2) != 0
    assert loop.done == 0
    assert str(call.failure().error()).startswith("index -4 is out of range in picked")


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"first": 3}, "x has no row 6"),
        ({"first": -1}, "first must not be negative"),
        ({"rows": np.array([0, 1, 2, 10])}, "x has no row 10"),
        ({"rows": np.array([0, 1, 2, -1])}, "x has no row -1"),
        ({"rows": np.array([0, 1, 2])}, "rows must be a contiguous int64 array of at least 4"),
        ({"rows": np.arange(4, dtype=np.int32)}, "rows must be a contiguous int64"),
        ({"rows": np.arange(8)[::2]}, "rows must be a contiguous int64"),
        ({"batch": 3}, "x has 2 rows in a call, not 3"),
        ({"losses": np.empty(1)}, "losses must be a contiguous float64 array of at least 2"),
        ({"stop": np.zeros(1)}, "stop must be a contiguous int32"),
    ],
)
def test_loop_refuses_what_lies_outside_the_data(library, asked, message):
    state = library.new_state()
    call, *_ = bound(library, state, 2)
    call.set_input(0, np.zeros((6 if "first" in asked else 10, 3), np.float32))
    with pytest.raises(ValueError, match=message):
        Loop(call, [True, False, False, False]).run(2, **{"batch": 2, **asked})
    assert library.state_views(state)[0] == 0


def test_threads_have_workspaces_of_their_own(library):
    results, states = {}, {}
    barrier = threading.Barrier(4)

    def work(number):
        states[number] = library.new_state()
        barrier.wait()
        for _ in range(200):
            library.call(arguments(1 + number), state=states[number])
        results[number] = states[number].copy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        alone = library.new_state()
        with np.errstate(over="ignore"):
            for _ in range(200):
                library.call(arguments(1 + number), state=alone)
        np.testing.assert_array_equal(results[number], alone)


def test_a_call_in_use_is_not_given_out_again(library):
    first, second = library.acquire(), library.acquire()
    assert first is not second
    library.release(first)
    assert library.acquire() is first


def test_the_gil_is_released(bridge):
    text = SOURCE.replace(
        "static int32_t call(gt_args *args) {",
        "#include <unistd.h>\nstatic int32_t call(gt_args *args)"
        " {\n    for (int n = 0; n < 2000 && !*(volatile int64_t *)args->state; n++) usleep(1000);",
    )
    library = Library(made(text), bridge, lambda: 0)
    state = library.new_state()
    call, *_ = bound(library, state)
    thread = threading.Thread(target=call.call)
    thread.start()
    library.state_views(state)[0][...] = 1  # Python runs while C waits for this
    thread.join(timeout=1.5)
    assert not thread.is_alive()


def test_after_fork(library):
    state = library.new_state()
    right = library.call(arguments(), state=library.new_state())[0]
    busy = library.acquire()
    pid = os.fork()
    if pid == 0:
        same = np.array_equal(library.call(arguments(), state=state)[0], right)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(library.call(arguments(), state=state)[0], right)
    library.release(busy)


def test_files_that_are_no_models(bridge, tmp_path):
    with pytest.raises(LibraryError, match="cannot be loaded"):
        Library(tmp_path / "missing.so", bridge, lambda: 0)
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(LibraryError, match="cannot be loaded"):
        Library(tmp_path / "text.so", bridge, lambda: 0)
    with pytest.raises(LibraryError, match="gt_model_get"):
        Library(made('#include "gt_abi.h"\nGT_EXPORT int x;\nint x = 1;\n'), bridge, lambda: 0)
    other = SOURCE.replace(".abi = GT_ABI_VERSION", ".abi = GT_ABI_VERSION + 1")
    with pytest.raises(LibraryError, match=r"interface version 2; this gtensor has 1"):
        Library(made(other), bridge, lambda: 0)


def test_loading_leaves_the_floating_point_environment_alone(library):
    library.call(arguments(), state=library.new_state())
    assert np.float32(1e-40) * np.float32(0.5) > 0
    assert np.float64(1e-310) * 0.5 > 0

"""The memory plan: what overlaps, what is reused, what is donated, and that values survive it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gtensor.codegen.access import touches
from gtensor.codegen.check import check
from gtensor.codegen.memory import ALIGN, Place, lifetimes, nbytes, plan, show_plan, state_layout
from gtensor.codegen.program import Access, Accumulator, Array, Gemm, Reduce, Term, kernels, loops
from tests.codegen.by_hand import (
    B,
    add,
    chain,
    checks,
    inp,
    kernel,
    load,
    make,
    names,
    out,
    phases,
    row,
    state,
    store,
    sums,
    update,
    work,
)
from tests.codegen.random_programs import programs
from tests.codegen.run_program import Failed, blocks, run_apart, run_planned, sample

RANDOM = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


SHAPE = (4, 8)


def extent(planned, buffer):
    place = planned.places[buffer.name]
    return place.offset, place.offset + nbytes(buffer.shape, buffer.dtype)


# ---- laws on random programs ---------------------------------------------------------------------------------


def outcome(run):
    try:
        return run()
    except Failed as error:
        return error.args


@RANDOM
@given(programs(), st.integers(0, 3), st.integers(0, 1000))
def test_planned_memory_keeps_every_value(program, dim, seed):
    check(program)
    planned, given = plan(program), sample(program, seed)
    want = outcome(lambda: run_apart(program, given, (dim,)))
    for lanes in (False, True):
        memory = blocks(planned, given)
        got = outcome(lambda: run_planned(planned, memory, (dim,), lanes))  # noqa: B023
        again = outcome(lambda: run_apart(program, given, (dim,), lanes))  # noqa: B023
        if isinstance(want, tuple):
            # A failing call leaves what it was given as it was.
            assert got == again == want
            for name, values in given.items():
                np.testing.assert_array_equal(memory[name], values, err_msg=name)
        else:
            for name, values in want.items():
                np.testing.assert_array_equal(got[name], values, err_msg=name)
                np.testing.assert_array_equal(again[name], values, err_msg=name)


def carried(written, read, carries):
    """Whether what a trip writes may be where the next one reads, of this loop or of loops around it."""
    return any(one == written and (to == read or carried(to, read, carries)) for one, to in carries)


@RANDOM
@given(programs())
def test_buffers_alive_at_once_never_overlap(program):
    planned = plan(program)
    carries = {(written, read) for loop in loops(program.steps) for read, written in loop.carries}
    lives = lifetimes(planned.program)
    arena = [b for b in program.buffers if planned.places[b.name].block == "work" and b.name in lives]
    for buffer in arena:
        start, end = extent(planned, buffer)
        assert start % ALIGN == 0
        assert end <= planned.work_bytes
    for number, one in enumerate(arena):
        for other in arena[:number]:
            first, then = sorted((one, other), key=lambda b: lives[b.name])
            if lives[first.name][1] < lives[then.name][0]:
                continue
            (start, end), (begin, stop) = extent(planned, first), extent(planned, then)
            taken_over = lives[first.name][1] == lives[then.name][0] or carried(then.name, first.name, carries)
            in_place = (start, end) == (begin, stop) and taken_over
            assert in_place or end <= begin or stop <= start, (first, then)


@RANDOM
@given(programs())
def test_donated_memory_is_written_after_its_last_read_and_after_all_that_can_fail(program):
    planned = plan(program)
    steps = [touches(step, program.table) for step in planned.program.steps]
    homes = {b.alias: b.name for b in program.buffers if b.role == "output" and b.alias}
    for target, output in homes.items():
        writes = [n for n, step in enumerate(steps) if target in step.writes]
        if planned.places[output] == planned.places[target]:
            writes = [n for n, step in enumerate(steps) if output in step.writes]
        reads = [n for n, step in enumerate(steps) if target in step.reads]
        if writes:
            assert max(reads, default=-1) <= writes[0]
            assert not any(step.fails for step in steps[writes[0] :])


@RANDOM
@given(programs())
def test_a_plan_is_no_larger_than_its_buffers_and_always_the_same(program):
    planned = plan(program)
    arena = [b for b in program.buffers if planned.places[b.name].block == "work"]
    assert planned.work_bytes <= sum(max(-(-nbytes(b.shape, b.dtype) // ALIGN) * ALIGN, ALIGN) for b in arena)
    assert planned == plan(program)
    assert show_plan(planned) == show_plan(plan(program))
    assert set(planned.places) == {b.name for b in program.buffers}


@RANDOM
@given(programs())
def test_only_steps_that_copy_are_added_and_only_copies_are_left_out(program):
    planned = plan(program)
    before, after = list(kernels(program.steps)), list(kernels(planned.program.steps))
    added = [step for step in after if step not in before]
    assert len(set(names(after))) == len(after)
    late = {(b.name, b.alias) for b in program.buffers if b.role == "output" and b.alias}
    late = {(source, target) for source, target in late if planned.places[source].block == "work"}
    carries = {(written, read) for loop in loops(program.steps) for read, written in loop.carries}
    moved = [tuple(stmt.access.buffer for stmt in step.phases[0].body) for step in added]
    assert {pair for pair in moved if pair not in carries} == late
    assert {pair for pair in carries if pair not in moved} == {
        (written, read) for written, read in carries if planned.places[written] == planned.places[read]
    }
    assert sorted(moved) == sorted(set(moved))
    for step in before:
        if step not in after:
            (target,), (source,) = touches(step).writes, touches(step).reads
            assert planned.places[target] == planned.places[source]


# ---- reuse in place ------------------------------------------------------------------------------------------


def test_elementwise_chain_uses_one_buffer():
    steps = [chain("k0", "x", "a1"), chain("k1", "a1", "a2"), chain("k2", "a2", "a3"), chain("k3", "a3", "y")]
    shape = (4, 8)
    program = make([inp("x", shape), *(work(f"a{i}", shape) for i in (1, 2, 3)), out("y", shape)], steps)
    planned = plan(program)
    assert planned.program is program
    assert {planned.places[f"a{i}"] for i in (1, 2, 3)} == {Place("work", -1, 0)}
    assert planned.work_bytes == 128
    assert planned.places["x"] == Place("in", 0)
    assert planned.places["y"] == Place("out", 0)


def reuse(step, old_dtype="f32", new_dtype="f32", old_shape=(4, 8), extra=()):
    """Whether `new`, first written by the step, lies on `old`, read by it for the last time."""
    fill = kernel("fill", (32,), store("old", "1", 1))
    final = kernel("final", (1,), load("n", "new", 0, dtype=new_dtype), store("y", "n", 0))
    buffers = [work("old", old_shape, old_dtype), work("new", (4, 8), new_dtype), out("y", (), 0, new_dtype), *extra]
    program = make(buffers, [fill, step, final])
    check(program)
    planned = plan(program)
    shared = planned.places["old"] == planned.places["new"]
    assert planned.work_bytes >= (128 if shared else 256)
    return shared


IN_PLACE = {
    "same element": chain("k", "old", "new"),
    "read twice": kernel(
        "k", (4, 8), load("a", "old", 8, 1), load("b", "old", 8, 1), add("c", "a", "b"), store("new", "c", 8, 1)
    ),
    "earlier phase": phases(
        "k",
        (4, 8),
        ((), (load("a", "old", 8, 1), Reduce("m", "f32", "max", "a"))),
        ((), (load("b", "old", 8, 1), add("c", "b", "m"), store("new", "c", 8, 1))),
    ),
    "both walk backwards": kernel("k", (32,), load("a", "old", -1, at=31), store("new", "a", -1, at=31)),
    "both transposed": kernel("k", (8, 4), load("a", "old", 1, 8), store("new", "a", 1, 8)),
    "an axis of length one": kernel("k", (1, 32), load("a", "old", 5, 1), store("new", "a", 32, 1)),
    "part of both": kernel("k", (4, 4), load("a", "old", 8, 1), store("new", "a", 8, 1)),
}

NOT_IN_PLACE = {
    "reversed": kernel("k", (32,), load("a", "old", -1, at=31), store("new", "a", 1)),
    "shifted": kernel("k", (31,), load("a", "old", 1, at=1), store("new", "a", 1)),
    "broadcast": kernel("k", (4, 8), load("a", "old", 0, 1), store("new", "a", 8, 1)),
    "transposed": kernel("k", (8, 4), load("a", "old", 1, 8), store("new", "a", 4, 1)),
    "one of two reads shifted": kernel(
        "k", (31,), load("a", "old", 1), load("b", "old", 1, at=1), add("c", "a", "b"), store("new", "c", 1)
    ),
    "read after the store": kernel(
        "k", (32,), store("new", "1.0f", 1), load("a", "old", 1), add("b", "a", "a"), Reduce("m", "f32", "sum", "b")
    ),
    "read in a later phase": phases(
        "k", (4, 8), ((), (store("new", "1.0f", 8, 1),)), ((), (load("a", "old", 8, 1), Reduce("m", "f32", "sum", "a")))
    ),
    "written over and over": kernel("k", (4, 8), load("a", "old", 0, 1), store("new", "a", 0, 1)),
    "read per row, written per element": phases(
        "k", (4, 8), ((load("a", "old", 8, 0),), (store("new", "a", 8, 0), Reduce("m", "f32", "sum", "a")))
    ),
    "read per element, written per row": phases(
        "k", (4, 8), ((), (load("a", "old", 8, 0), Reduce("m", "f32", "sum", "a"))), ((store("new", "m", 8, 0),), ())
    ),
    "overwritten as well": kernel("k", (32,), load("a", "old", 1), store("new", "a", 1), store("old", "2.0f", 1)),
    "summed into": kernel(
        "k", (4, 8), load("a", "old", 8, 1), sums("new", "a", 8, 1), accumulators=[Accumulator("new", "sum")]
    ),
    "operand of a product": Gemm(
        "k",
        "f32",
        (),
        4,
        8,
        (Term(Access("old", (8, 1)), Access("old", (1, 0)), 8),),
        "acc",
        (store("new", "acc", 8, 1),),
    ),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_reused_in_place(case):
    assert reuse(IN_PLACE[case])


@pytest.mark.parametrize("case", NOT_IN_PLACE)
def test_not_reused_in_place(case):
    assert not reuse(NOT_IN_PLACE[case])


def test_other_types_and_sizes_are_not_reused():
    assert not reuse(kernel("k", (32,), load("a", "old", 1, dtype="i32"), store("new", "1", 1)), old_dtype="i32")
    assert not reuse(kernel("k", (32,), load("a", "old", 1), store("new", "a", 1)), old_shape=(5, 8))


def test_a_buffer_read_later_is_not_reused():
    late = kernel("late", (32,), load("a", "h", 1), store("y", "a", 1))
    steps = [chain("k0", "x", "h"), chain("k1", "h", "g"), late, chain("k2", "g", "z")]
    shape = (4, 8)
    buffers = [inp("x", shape), work("h", shape), work("g", shape), out("y", shape), out("z", shape, 1)]
    planned = plan(make(buffers, steps))
    assert planned.places["h"] != planned.places["g"]
    assert planned.work_bytes == 256


def test_one_buffer_is_taken_over_by_one_only():
    both = kernel("k", (32,), load("a", "h", 1), store("p", "a", 1), store("q", "a", 1))
    steps = [chain("k0", "x", "h"), both, chain("k1", "p", "y"), chain("k2", "q", "z")]
    shape = (4, 8)
    buffers = [inp("x", shape), *(work(n, shape) for n in "hpq"), out("y", shape), out("z", shape, 1)]
    planned = plan(make(buffers, steps))
    assert planned.places["h"] == planned.places["p"] != planned.places["q"]


def test_an_epilogue_reuses_what_it_reads_and_no_operand():
    term = Term(Access("x", (8, 1)), Access("v", (8, 1)), 8)
    epilogue = (load("r", "h", 8, 1), add("s", "acc", "r"), store("g", "s", 8, 1))
    gemm = Gemm("k1", "f32", (), 4, 8, (term,), "acc", epilogue)
    steps = [chain("k0", "x", "h"), chain("k2", "w", "v", space=(8, 8)), gemm, chain("k3", "g", "y")]
    buffers = [inp("x", (4, 8)), inp("w", (8, 8), 1), work("h", (4, 8)), work("v", (8, 8)), work("g", (4, 8))]
    program = make([*buffers, out("y", (4, 8))], steps)
    check(program)
    planned = plan(program)
    assert planned.places["g"] == planned.places["h"] != planned.places["v"]


@pytest.mark.parametrize("kind", ["row", "scratch"])
def test_row_and_scratch_buffers_take_nothing_over(kind):
    fill, shape = kernel("fill", (32,), store("old", "1.0f", 1)), (1, 32)
    through = (load("a", "old", 32, 1), store("aside", "a", 0, 1)), (load("b", "aside", 0, 1), store("y", "b", 32, 1))
    total = kernel(
        "k",
        shape,
        load("a", "old", 0, 1),
        sums("y", "a", 0, 1),
        accumulators=[Accumulator("y", "sum", scratch="aside")],
    )
    step = phases("k", shape, *(((), body) for body in through)) if kind == "row" else total
    aside = row("aside", (32,)) if kind == "row" else work("aside", shape)
    program = make([work("old", shape), aside, out("y", shape)], [fill, step])
    check(program)
    planned = plan(program)
    assert planned.places["old"] != planned.places["aside"]


def test_row_and_scratch_buffers_live_for_one_step():
    passes = [
        phases(
            f"k{i}",
            (4, 8),
            ((), (load("a", "x", 8, 1), store(f"r{i}", "a", 0, 1))),
            ((), (load("b", f"r{i}", 0, 1), store(f"y{i}", "b", 8, 1))),
        )
        for i in (0, 1)
    ]
    total = kernel(
        "k2", (4, 8), load("a", "x", 8, 1), sums("s", "a", 0, 1), accumulators=[Accumulator("s", "sum", scratch="wide")]
    )
    buffers = [inp("x", (4, 8)), row("r0", (8,)), row("r1", (8,)), work("wide", (8,), "f64")]
    program = make([*buffers, out("y0", (4, 8)), out("y1", (4, 8), 1), out("s", (8,), 2)], [*passes, total])
    check(program)
    planned = plan(program)
    assert [planned.places[name].offset for name in ("r0", "r1", "wide")] == [0, 0, 0]
    assert planned.work_bytes == 64


def test_a_chain_keeps_its_memory_to_its_end():
    fills = kernel("k0", (32,), store("kept", "1.0f", 1), store("a1", "1.0f", 1))
    steps = [fills, chain("k1", "a1", "a2"), kernel("k2", (32,), store("other", "1.0f", 1)), chain("k3", "a2", "a3")]
    steps.append(kernel("k4", (32,), store("new", "1.0f", 1), load("v", "kept", 1), store("y", "v", 1)))
    body = add("c", "a", "b"), load("d", "new", 1), store("z", "c", 1), store("u", "d", 1)
    ends = kernel("k5", (32,), load("a", "a3", 1), load("b", "other", 1), *body)
    made = [work(name, SHAPE) for name in ("kept", "a1", "a2", "a3", "other", "new")]
    outputs = [out(name, SHAPE, slot) for slot, name in enumerate("yzu")]
    for buffers in (made, made[::-1]):
        program = make([*buffers, *outputs], [*steps, ends])
        check(program)
        planned = plan(program)
        assert len({planned.places[name] for name in ("a1", "a2", "a3")}) == 1
        assert len({planned.places[name] for name in ("kept", "a1", "other", "new")}) == 4


def arena(**lives):
    """Offsets and size of an arena of buffers given as (bytes, first step, last step)."""
    steps = []
    for number in range(1 + max(last for *_, last in lives.values())):
        stores = [store(name, "1", 0) for name, (_, first, _) in lives.items() if first == number]
        loads = [load(f"{name}1", name, 0, dtype="u8") for name, (*_, last) in lives.items() if last == number]
        steps.append(phases(f"k{number}", (1,), ((), stores), ((), loads)))
    program = make([work(name, (size,), "u8") for name, (size, *_) in lives.items()], steps)
    check(program)
    planned = plan(program)
    return {name: planned.places[name].offset for name in lives}, planned.work_bytes


def test_gaps_are_joined():
    assert arena(a=(64, 0, 1), b=(64, 0, 2), c=(128, 3, 3)) == ({"a": 0, "b": 64, "c": 0}, 128)
    assert arena(a=(64, 0, 2), b=(64, 0, 1), c=(128, 3, 3)) == ({"a": 0, "b": 64, "c": 0}, 128)
    assert arena(a=(64, 0, 1), b=(64, 0, 2), d=(64, 0, 1), c=(192, 3, 3))[1] == 192


def test_a_gap_at_the_top_grows():
    assert arena(a=(64, 0, 0), b=(128, 1, 1)) == ({"a": 0, "b": 0}, 128)


def test_large_buffers_are_placed_first():
    assert arena(a=(128, 0, 0), f=(64, 0, 2), s=(64, 1, 1), l=(128, 1, 1)) == (
        {"a": 0, "f": 128, "s": 192, "l": 0},
        256,
    )


def test_the_smallest_gap_that_fits_is_taken():
    offsets, total = arena(a=(256, 0, 0), b=(192, 0, 3), c=(128, 0, 0), d=(64, 0, 3), x=(128, 1, 3), y=(256, 2, 3))
    assert (offsets["x"], offsets["y"], total) == (448, 0, 640)


def test_empty_buffers_have_a_place_of_their_own():
    steps = [kernel("k0", (0,), store("a", "1.0f", 1), store("b", "1", 1)), kernel("k1", (0,), store("y", "1.0f", 1))]
    planned = plan(make([work("a", (0,)), work("b", (0,), "i32"), out("y", (0,))], steps))
    assert planned.places["a"] != planned.places["b"]


def test_sizes_are_those_at_the_bound():
    steps = [kernel("k0", (B,), store("h", "1.0f", 1)), kernel("k1", (B,), load("a", "h", 1), store("y", "a", 1))]
    long = replace(B, bound=100)
    steps = [replace(step, space=(long,)) for step in steps]
    planned = plan(make([work("h", (long,)), out("y", (long,))], steps, dims=(long,)))
    assert planned.work_bytes == 448


# ---- state, totals, time -------------------------------------------------------------------------------------


def test_state_layout_depends_on_types_only():
    arrays = (Array("w", "f32", (3, 5)), Array("empty", "f32", (0,)), Array("n", "i64", ()), Array("b", "u8", (65,)))
    offsets, total = state_layout(arrays)
    assert (offsets, total) == ((0, 64, 64, 128), 256)
    assert state_layout(tuple(replace(a, name="other") for a in arrays)) == (offsets, total)
    assert state_layout(()) == ((), 0)


def test_show_plan():
    steps = [checks("labels"), chain("k0", "x", "h"), chain("k1", "h", "g"), update()]
    swapped = kernel("k3", SHAPE, load("a", "v", 8, -1, at=7), store("v_new", "a", 8, 1))
    buffers = [
        inp("x", SHAPE),
        inp("idx", (4,), 1, "i64"),
        state("w", SHAPE),
        state("v", SHAPE, 1),
        work("h", SHAPE),
        work("g", SHAPE),
        out("w_new", SHAPE, -1, alias="w"),
        out("v_new", SHAPE, -1, alias="v"),
    ]
    assert show_plan(plan(make(buffers, [*steps, swapped]))) == (
        """\
buffer  shape   dtype  bytes  place      steps
x       [4, 8]  f32      128  in 0       1
idx     [4]     i64       32  in 1       0
w       [4, 8]  f32      128  state 0    3
v       [4, 8]  f32      128  state 128  4-5
h       [4, 8]  f32      128  work 0     1-2
g       [4, 8]  f32      128  work 0     2-3    over h
w_new   [4, 8]  f32      128  state 0    3      over w
v_new   [4, 8]  f32      128  work 0     4-5

arena: 128 bytes, 384 without reuse, 128 alive at once
state: 256 bytes in 2 leaves
in place: g over h, w_new over w
copied at the end: v_new
"""
    )


def lines(run) -> int:
    """How many lines of Python a call executes: a measure of work that no other process disturbs."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def layers(count):
    """Forward, backward and update of a deep net of elementwise layers, every update before a check."""
    shape = (4, 8)
    buffers = [inp("idx", (4,), 0, "i64"), inp("h0", shape, 1), work(f"d{count}", shape)]
    steps = [chain("start", "h0", f"d{count}")]
    for i in range(count):
        buffers += [state(f"w{i}", shape, i), work(f"h{i + 1}", shape), out(f"n{i}", shape, -1, alias=f"w{i}")]
        steps.insert(i, update(f"f{i}", f"h{i}", f"h{i + 1}", f"w{i}"))
    for i in reversed(range(count)):
        buffers.append(work(f"d{i}", shape))
        steps += [update(f"u{i}", f"w{i}", f"n{i}", f"d{i + 1}"), update(f"b{i}", f"d{i + 1}", f"d{i}", f"w{i}")]
    return make(buffers, [*steps, checks("late")])


def test_work_grows_with_the_number_of_steps():
    small, large = layers(50), layers(200)
    check(large)
    planned = plan(large)
    assert all(planned.places[f"n{i}"] == planned.places[f"w{i}"] for i in range(200))
    assert lines(lambda: plan(large)) < 4.5 * lines(lambda: plan(small))
    assert lines(lambda: check(large)) < 4.5 * lines(lambda: check(small))

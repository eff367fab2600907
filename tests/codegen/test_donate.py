"""Donation: outputs that lie on what they take over, the order that allows it, and copies where none does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen.check import check
from gtensor.codegen.memory import Place, plan
from gtensor.codegen.program import Access, Accumulator, Check
from tests.codegen.by_hand import (
    DONATED,
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
    state,
    store,
    sums,
    update,
    work,
)
from tests.codegen.run_program import Failed, blocks, run_planned

SHAPE = (4, 8)


def test_an_update_happens_on_the_state_itself():
    planned = plan(make(DONATED, [update()]))
    assert planned.places["w_new"] == planned.places["w"] == Place("state", 0, 0)
    assert names(planned.program.steps) == ["k"]
    assert planned.work_bytes == 0


def test_an_output_over_an_input_has_the_place_of_the_input():
    planned = plan(make([inp("w", SHAPE), inp("g", SHAPE, 1), out("w_new", SHAPE, 0, alias="w")], [update()]))
    assert planned.places["w_new"] == Place("in", 0)


def test_a_read_of_the_old_value_comes_first():
    read = chain("read", "w", "y")
    program = make([*DONATED, out("y", SHAPE)], [update(), read])
    planned = plan(program)
    assert names(planned.program.steps) == ["read", "k"]
    assert planned.places["w_new"] == planned.places["w"]


def test_a_read_of_the_old_value_that_needs_the_new_one_makes_a_copy():
    both = kernel(
        "both", SHAPE, load("a", "w", 8, 1), load("b", "w_new", 8, 1), add("c", "a", "b"), store("y", "c", 8, 1)
    )
    planned = plan(make([*DONATED, out("y", SHAPE)], [update(), both]))
    assert names(planned.program.steps) == ["k", "both", "copy_w_new"]
    assert planned.places["w_new"] == Place("work", -1, 0)
    body = planned.program.steps[-1].phases[0].body
    assert [stmt.access.buffer for stmt in body] == ["w_new", "w"]
    assert planned.program.steps[-1].space == (32,)


@pytest.mark.parametrize(
    "body",
    [
        (load("a", "w", 8, -1, at=7), store("w_new", "a", 8, 1)),
        (load("a", "w", 0, 1), store("w_new", "a", 8, 1)),
        (store("w_new", "1.0f", 8, 1), load("a", "w", 8, 1), store("y", "a", 8, 1)),
    ],
)
def test_a_step_that_reads_other_elements_makes_a_copy(body):
    planned = plan(make([*DONATED, out("y", SHAPE)], [kernel("k", SHAPE, *body)]))
    assert names(planned.program.steps) == ["k", "copy_w_new"]


def test_a_swap_copies_one_of_the_two():
    shape = (8,)
    first = kernel("first", shape, load("x", "b", 1), store("a_new", "x", 1))
    then = kernel("then", shape, load("x", "a", 1), load("y", "b", 1), add("z", "x", "y"), store("b_new", "z", 1))
    buffers = [
        state("a", shape),
        state("b", shape, 1),
        out("a_new", shape, -1, alias="a"),
        out("b_new", shape, -1, alias="b"),
    ]
    program = make(buffers, [first, then])
    planned = plan(program)
    assert len(planned.program.steps) == 3
    given = {"a": np.arange(8, dtype="f4"), "b": np.full(8, 10, "f4")}
    got = run_planned(planned, blocks(planned, given), (1,))
    np.testing.assert_array_equal(got["a_new"], given["b"])
    np.testing.assert_array_equal(got["b_new"], given["a"] + given["b"])


def test_a_swap_in_one_step_needs_no_copy():
    shape = (8,)
    reads = load("x", "a", 1), load("y", "b", 1), add("z", "x", "y")
    buffers = [
        state("a", shape),
        state("b", shape, 1),
        out("a_new", shape, -1, alias="a"),
        out("b_new", shape, -1, alias="b"),
    ]
    planned = plan(make(buffers, [kernel("k", shape, *reads, store("a_new", "y", 1), store("b_new", "z", 1))]))
    assert len(planned.program.steps) == 1
    assert planned.work_bytes == 0


def test_what_can_fail_comes_before_the_first_write():
    buffers = [*DONATED, inp("idx", (4,), 1, "i64")]
    planned = plan(make(buffers, [update(), checks("late")]))
    assert names(planned.program.steps) == ["late", "k"]
    assert planned.places["w_new"] == planned.places["w"]


def test_what_can_fail_and_needs_the_new_value_makes_a_copy():
    index = kernel("index", (4,), load("a", "w_new", 1), store("idx", "1", 1))
    planned = plan(make([*DONATED, work("idx", (4,), "i64")], [update(), index, checks("late")]))
    assert names(planned.program.steps) == ["k", "index", "late", "copy_w_new"]


def test_a_writer_that_can_fail_makes_a_copy():
    fails = kernel("k", (4,), load("i", "idx", 1, dtype="i64"), Check("i", 0, 4, 0), store("w_new", "1.0f", 1))
    buffers = [state("w", (4,)), inp("idx", (4,), 0, "i64"), out("w_new", (4,), -1, alias="w")]
    planned = plan(make(buffers, [fails]))
    assert names(planned.program.steps) == ["k", "copy_w_new"]
    given = {"w": np.zeros(4, "f4"), "idx": np.array([0, 1, 9, 1])}
    memory = blocks(planned, given)
    with pytest.raises(Failed):
        run_planned(planned, memory, (1,))
    np.testing.assert_array_equal(memory["w"], given["w"])


def test_copies_come_after_everything_else():
    buffers = [*DONATED, inp("idx", (4,), 1, "i64"), out("y", SHAPE)]
    both = kernel(
        "both", SHAPE, load("a", "w", 8, 1), load("b", "w_new", 8, 1), store("y", "b", 8, 1), add("c", "a", "b")
    )
    planned = plan(make(buffers, [update(), both, checks("late")]))
    assert names(planned.program.steps) == ["k", "both", "late", "copy_w_new"]


def test_the_order_is_kept_where_it_is_good():
    buffers = [*DONATED, inp("idx", (4,), 1, "i64"), work("h", SHAPE), out("y", SHAPE)]
    steps = [checks("early"), chain("k0", "w", "h"), chain("k1", "h", "y"), update()]
    program = make(buffers, steps)
    assert plan(program).program is program


def test_an_old_value_that_is_returned_too_is_saved_first():
    keep = kernel("keep", (32,), load("a", "w", 1), store("old", "a", 1))
    planned = plan(make([*DONATED, out("old", SHAPE)], [update(), keep]))
    assert names(planned.program.steps) == ["keep", "k"]
    given = {"w": np.ones(32, "f4"), "g": np.ones(32, "f4")}
    got = run_planned(planned, blocks(planned, given), (1,))
    assert set(got["old"]) == {1}
    assert set(got["w_new"]) == {2}


def test_a_donated_input_returned_unchanged_moves_nothing():
    same = kernel("same", (32,), load("a", "w", 1), store("w_new", "a", 1))
    planned = plan(make([state("w", SHAPE), out("w_new", SHAPE, -1, alias="w")], [same]))
    assert planned.program.steps == ()
    assert planned.places["w_new"] == planned.places["w"]


def test_one_value_returned_twice():
    second = kernel("second", (32,), load("a", "w_new", 1), store("v_new", "a", 1))
    buffers = [*DONATED, state("v", SHAPE, 1), out("v_new", SHAPE, -1, alias="v")]
    planned = plan(make(buffers, [update(), second]))
    assert names(planned.program.steps) == ["k", "second"]
    assert planned.places["v_new"] == Place("state", 1, 128)


def test_scatter_into_donated_memory_needs_no_copy_of_the_table():
    copied = kernel("copy", (32,), load("a", "w", 1), store("w_new", "a", 1))
    scatter = phases(
        "scatter",
        SHAPE,
        (
            (load("i", "idx", 1, 0, dtype="i64"),),
            (load("a", "g", 8, 1), replace(sums("w_new", "a", 0, 1), access=Access("w_new", (0, 1), 0, (("i", 8),)))),
        ),
        accumulators=[Accumulator("w_new", "sum", "keep")],
    )
    program = make([*DONATED, inp("idx", (4,), 1, "i64")], [copied, checks("labels"), scatter])
    check(program)
    planned = plan(program)
    assert names(planned.program.steps) == ["labels", "scatter"]
    assert planned.places["w_new"] == planned.places["w"]


def test_pieces_of_a_donated_output_wait_for_all_reads():
    pieces = [kernel(f"p{i}", (16,), load("a", "g", 1), store("w_new", "a", 1, at=16 * i)) for i in (0, 1)]
    read = chain("read", "w", "y")
    planned = plan(make([*DONATED, out("y", SHAPE)], [pieces[0], read, pieces[1]]))
    assert names(planned.program.steps) == ["read", "p0", "p1"]
    assert planned.places["w_new"] == planned.places["w"]
    crossing = [pieces[0], kernel("p1", (16,), load("a", "w", 1), store("w_new", "a", 1, at=16))]
    planned = plan(make(DONATED, crossing))
    assert names(planned.program.steps) == ["p0", "p1", "copy_w_new"]


def test_copies_of_run_time_extents():
    shapes = {(B, 4): (replace(B, factor=4),), (): (1,), (B, replace(B, factor=2)): (B, replace(B, factor=2))}
    for shape, space in shapes.items():
        bad = kernel("k", (1,), load("a", "w", 0), store("w_new", "a", 0), load("b", "w", 0), store("y", "b", 0))
        buffers = [state("w", shape), out("w_new", shape, -1, alias="w"), out("y", ())]
        planned = plan(make(buffers, [bad]))
        assert planned.program.steps[-1].space == space
        check(
            make(
                [inp("w", shape), out("w_new", shape, 0)],
                [
                    kernel(
                        "k",
                        space,
                        load("a", "w", *planned.program.steps[-1].phases[0].body[0].access.strides),
                        store("w_new", "a", *planned.program.steps[-1].phases[0].body[1].access.strides),
                    ),
                ],
            )
        )


def test_the_order_changes_as_little_as_it_can():
    steps = [chain("early", "g", "y"), update(), chain("mid", "g", "z"), checks("late"), chain("last", "g", "u")]
    outputs = [out(name, SHAPE, slot) for slot, name in enumerate("yzu")]
    planned = plan(make([*DONATED, inp("idx", (4,), 1, "i64"), *outputs], steps))
    assert names(planned.program.steps) == ["early", "mid", "late", "k", "last"]


def test_what_is_read_is_not_overwritten_before():
    first = kernel("first", (32,), store("h", "1.0f", 1))
    read = kernel("read", (32,), load("a", "h", 1), load("b", "w_new", 1), add("c", "a", "b"), store("y", "c", 1))
    again = kernel("again", (32,), store("h", "2.0f", 1))
    program = make(
        [*DONATED, inp("idx", (4,), 1, "i64"), work("h", SHAPE), out("y", SHAPE), out("z", SHAPE, 1)],
        [first, update(), read, again, chain("last", "h", "z"), checks("late")],
    )
    check(program)
    planned = plan(program)
    assert names(planned.program.steps) == ["first", "late", "k", "read", "again", "last"]


def test_a_program_that_commits_by_itself_gets_no_second_copy():
    commit = kernel("commit", (32,), load("a", "w_new", 1), store("w", "a", 1))
    program = make(DONATED, [update(), commit])
    check(program)
    planned = plan(program)
    assert planned.program is program
    assert planned.places["w_new"] == Place("work", -1, 0)


def test_names_of_copies_are_new():
    bad = kernel("copy_w_new", (4, 8), load("a", "w", 8, -1, at=7), store("w_new", "a", 8, 1))
    planned = plan(make(DONATED, [bad]))
    assert names(planned.program.steps) == ["copy_w_new", "copy_w_new_"]

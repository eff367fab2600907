"""Loops: where what they use lies, what is carried in place, and what donated memory waits for."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.check import check
from gtensor.codegen.memory import show_plan
from gtensor.codegen.program import Access, Accumulator, Assign, Check, Gemm, Guard, Repeat, Term, kernels
from gtensor.codegen.show import show
from tests.codegen.by_hand import ROWS as H
from tests.codegen.by_hand import (
    add,
    copy,
    inp,
    kernel,
    load,
    make,
    names,
    out,
    piece,
    plus,
    state,
    store,
    sums,
    work,
)
from tests.codegen.c_model import planned, run, source
from tests.codegen.loops_by_hand import (
    SANE,
    X_T,
    both,
    given_for,
    nested,
    recurrence,
    values,
)


def inside(program):
    """The kernels of the loops as planned."""
    planned_ = planned(program)
    return names(tuple(kernels(s for s in planned_.program.steps if isinstance(s, Repeat)))), planned_.places


# ---- carries in place -------------------------------------------------------------------------------------------


def carry(*steps, buffers=(), slices=(), carries=(("h", "n"),)):
    """A loop that carries h, written before and read after."""
    found = [inp("x", (4, *H)), inp("h0", H, 1), out("y", H), work("h", H), work("n", H), *buffers]
    loop = Repeat("loop", 4, steps, carries, slices)
    return make(found, [copy("start", "h0", "h"), loop, copy("end", "h", "y")], dims=())


GRADIENT = Gemm(
    "k",
    "f32",
    (),
    3,
    8,
    (Term(Access("x_t", (0, 8)), Access("x_t", (8, 1)), 3),),
    "acc",
    (load("a", "h", 8, 1), add("b", "acc", "a"), store("n", "b", 8, 1)),
)
SCATTER = kernel(
    "k2", (3,), load("a", "x_t", 8), sums("n", "a", 8), accumulators=[Accumulator("n", "sum", start="keep")]
)
TWICE = (work("m", H), piece("ys_t", "ys"), out("ys", (4, *H), 1))

IN_PLACE = {
    "elementwise": carry(plus("k", "h", "x_t", "n"), buffers=[X_T], slices=("x_t",)),
    "sum of products": carry(GRADIENT, buffers=[X_T], slices=("x_t",)),
    "added into a copy": carry(copy("k1", "h", "n"), SCATTER, buffers=[X_T], slices=("x_t",)),
    "read before": carry(
        copy("k1", "h", "ys_t"), plus("k2", "h", "x_t", "n"), buffers=[X_T, *TWICE], slices=("x_t", "ys_t")
    ),
    "read afterwards itself": carry(
        plus("k2", "h", "x_t", "n"), copy("k1", "n", "ys_t"), buffers=[X_T, *TWICE], slices=("x_t", "ys_t")
    ),
    "carried through an inner loop": carry(
        copy("k1", "h", "n"),
        Repeat("inner", 2, (plus("k2", "n", "x_t", "m"),), (("n", "m"),)),
        buffers=[X_T, *TWICE[:1]],
        slices=("x_t",),
    ),
}

COPIED = {
    "an operand of a product": recurrence(),
    "read later in the trip": carry(
        plus("k2", "h", "x_t", "n"), copy("k1", "h", "ys_t"), buffers=[X_T, *TWICE], slices=("x_t", "ys_t")
    ),
    "read by another element": carry(kernel("k", (24,), load("a", "h", -1, at=23), store("n", "a", 1))),
    "a slice": carry(
        plus("k", "h", "x_t", "ys_t"), buffers=[X_T, *TWICE], slices=("x_t", "ys_t"), carries=(("h", "ys_t"),)
    ),
    "read by an inner loop": carry(
        copy("k1", "x_t", "n"),
        Repeat("inner", 2, (copy("k2", "h", "m"),)),
        buffers=[X_T, *TWICE[:1]],
        slices=("x_t",),
    ),
    "read through a slice": carry(
        plus("k", "h", "x_t", "n"),
        Repeat("inner", 3, (copy("k2", "h_i", "m_i", (8,)),), (), ("h_i", "m_i")),
        buffers=[X_T, work("m", H), piece("h_i", "h", (8,)), piece("m_i", "m", (8,))],
        slices=("x_t",),
    ),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_carried_in_place(case):
    program = IN_PLACE[case]
    steps, places = inside(program)
    assert not any(name.startswith("carry") for name in steps)
    assert places["h"] == places["n"]
    assert "carry_h" not in source(program).c_source
    both(program, given_for(program))


@pytest.mark.parametrize("case", COPIED)
def test_carried_by_a_copy(case):
    program = COPIED[case]
    check(program)
    steps, places = inside(program)
    (loop,) = (step for step in program.steps if isinstance(step, Repeat))
    ((read, written),) = loop.carries
    assert steps[-1] == "carry_h"
    assert places[read] != places[written]
    if case != "an operand of a product":
        both(program, given_for(program))


def test_what_is_used_outside_the_loop_too_is_copied():
    """n is also alive together with h, before the loop."""
    buffers = [inp("x", (4, *H)), inp("h0", H, 1), out("y", H), out("z", H, 1), work("h", H), work("n", H), X_T]
    steps = copy("k1", "h0", "n"), kernel("k2", H, store("h", "1.0f", 8, 1)), copy("k3", "n", "z")
    loop = Repeat("loop", 4, (plus("k", "x_t", "x_t", "n"),), (("h", "n"),), ("x_t",))
    program = make(buffers, [*steps, loop, copy("end", "h", "y")], dims=())
    _, places = inside(program)
    assert places["h"] != places["n"]
    both(program, given_for(program))


def test_an_output_that_takes_over_an_input_is_carried_there():
    buffers = [inp("x", (4, *H)), state("h", H), out("h_new", H, -1, alias="h"), work("n", H), X_T]
    loop = Repeat("loop", 4, (plus("k", "h_new", "x_t", "n"),), (("h_new", "n"),), ("x_t",))
    program = make(buffers, [copy("start", "h", "h_new"), loop], dims=())
    planned_ = planned(program)
    assert planned_.places["n"] == planned_.places["h_new"] == planned_.places["h"]
    assert names(planned_.program.steps) == ["loop"]
    assert "memcpy" not in source(program).c_source
    x, h = values(4, *H), values(*H)
    np.testing.assert_allclose(both(program, {"x": x, "h": h}).outputs["h_new"], h + x.sum(0), atol=1e-5)


# ---- memory -----------------------------------------------------------------------------------------------------


def chain(*steps, more=()):
    """A loop over x whose last step writes a row of y; h1 to h4 are work buffers."""
    buffers = [inp("x", (4, *H)), inp("z", H, 1), out("y", (4, *H)), X_T, piece("y_t", "y")]
    buffers += [work(name, H) for name in ("h1", "h2", "h3", "h4")]
    return make(buffers, [*more, Repeat("loop", 4, steps, (), ("x_t", "y_t"))], dims=())


def test_what_one_trip_uses_shares_memory():
    back = kernel("k3", (24,), load("p", "h2", -1, at=23), store("h3", "p", 1))
    steps = plus("k1", "x_t", "x_t", "h1"), plus("k2", "h1", "h1", "h2"), back, plus("k4", "h3", "x_t", "h4")
    program = chain(*steps, copy("k5", "h4", "y_t"))
    planned_ = planned(program)
    h1, h2, h3, h4 = (planned_.places[name] for name in ("h1", "h2", "h3", "h4"))
    assert h1 == h2 != h3 == h4
    assert planned_.work_bytes == 2 * 128
    both(program, given_for(program))


def test_what_is_made_before_a_loop_lives_through_it():
    """h1 is read in the first step of a trip only, but in every trip."""
    back = kernel("k2", (24,), load("p", "h2", -1, at=23), store("h3", "p", 1))
    steps = plus("k1", "x_t", "h1", "h2"), back, copy("k3", "h3", "y_t")
    program = chain(*steps, more=[copy("k0", "z", "h1")])
    planned_ = planned(program)
    assert len({planned_.places[name] for name in ("h1", "h2", "h3")}) == 3
    x, z = values(4, *H), values(*H)
    found = both(program, {"x": x, "z": z})
    np.testing.assert_array_equal(found.outputs["y"], (x + z).reshape(4, 24)[:, ::-1].reshape(x.shape))


def test_the_table_of_a_plan_shows_loops():
    text = show_plan(planned(nested()))
    assert "a row per trip of outer, a row per trip of inner" in text
    assert "s_new over s_i" in text
    assert re.search(r"\nh +\[3, 8\] +f32 +96 +work 0 +0-4\n", show_plan(planned(recurrence())))


def test_a_loop_as_text():
    text = show(recurrence(reverse=True))
    assert "y_t     f32[3, 8]     slice     of ys" in text
    assert (
        "\nscan: 5 trips, the last first\n  # h = tanh(h @ w + x)\n  slices x_t, y_t\n  carry h = h_next\n\n  cell: "
        in text
    )


# ---- donation ----------------------------------------------------------------------------------------------------


def test_donated_memory_waits_for_a_loop_that_can_fail():
    """w_new = w + 1 is written by a step before the loop whose third trip fails: w stays as it was."""
    update = kernel("update", (4,), load("a", "w", 1), add("b", "a", "1.0f"), store("w_new", "b", 1))
    checked = kernel("checked", (1,), load("i", "i_t", 0, dtype="i64"), Check("i", 0, 4, 0))
    buffers = [
        state("w", (4,)),
        inp("i", (5,), 0, "i64"),
        out("w_new", (4,), -1, alias="w"),
        piece("i_t", "i", (), "i64"),
    ]
    program = make(buffers, [update, Repeat("loop", 5, (checked,), (), ("i_t",))], dims=())
    planned_ = planned(program)
    assert names(planned_.program.steps) == ["loop", "update"]
    w = values(4)
    for index, told in (([0, 1, 7, 9, 0], (1, 0, 7)), ([0, 1, 2, 3, 0], (0, 0, 0))):
        found = run(program, {"w": w, "i": np.array(index)}, flags=SANE)
        assert (found.code, found.node, found.index) == told
        np.testing.assert_array_equal(found.state["w"], w + (told[0] == 0))


def test_state_that_a_failing_loop_carries_is_written_at_the_end():
    step = kernel(
        "k", (1, 4), load("i", "i_t", 0, 0, dtype="i64"), Check("i", 0, 4, 0), load("a", "w_new", 0, 1),
        add("b", "a", "1.0f"), store("n", "b", 0, 1),
    )  # fmt: skip
    buffers = [state("w", (4,)), inp("i", (5,), 0, "i64"), out("w_new", (4,), -1, alias="w"), work("n", (4,))]
    loop = Repeat("loop", 5, (step,), (("w_new", "n"),), ("i_t",))
    program = make([*buffers, piece("i_t", "i", (), "i64")], [copy("start", "w", "w_new", (4,)), loop], dims=())
    planned_ = planned(program)
    assert names(planned_.program.steps)[-1] == "copy_w_new"
    w = values(4)
    for index, code, gained in (([0, 1, 7, 9, 0], 1, 0), ([0, 1, 2, 3, 0], 0, 5)):
        found = run(program, {"w": w, "i": np.array(index)}, flags=SANE)
        assert found.code == code
        np.testing.assert_allclose(found.state["w"], w + gained, rtol=1e-6)


def test_an_output_does_not_lie_on_what_its_loop_still_reads():
    """y[t] = x[3 - t] in trip t: x is read by rows, but not by the rows that are written."""
    buffers = [inp("x", (4, 8)), out("y", (4, 8), 0, alias="x"), piece("y_t", "y", (8,)), work("c", ()), work("c1", ())]
    pick = kernel(
        "pick", (8,), load("i", "c", 0, dtype="i64"), Check("i", 0, 4, 0), load("a", "x", 1, index=(("i", 8),)),
        store("y_t", "a", 1),
    )  # fmt: skip
    less = Assign("j", "i64", Expr("{0} - {1}", ("i", "1"), "i64", "i64"))
    down = kernel("down", (1,), load("i", "c", 0, dtype="i64"), less, store("c1", "j", 0))
    buffers = [replace(b, dtype="i64") if b.name in ("c", "c1") else b for b in buffers]
    start = kernel("start", (1,), store("c", "3", 0))
    program = make(buffers, [start, Repeat("loop", 4, (pick, down), (("c", "c1"),), ("y_t",))], dims=())
    planned_ = planned(program)
    assert planned_.places["y"].block == "work"
    x = values(4, 8)
    np.testing.assert_array_equal(run(program, {"x": x}, flags=SANE).outputs["y"], x[::-1])


def test_what_one_trip_reads_is_not_overwritten_by_another():
    """y[t] = 2 x[0]: in each trip the element is the one of x that the first trip writes."""
    twice = kernel("k", (8,), load("a", "x", 1), add("b", "a", "a"), store("y_t", "b", 1))
    buffers = [inp("x", (4, 8)), out("y", (4, 8), 0, alias="x"), piece("y_t", "y", (8,))]
    program = make(buffers, [Repeat("loop", 4, (twice,), (), ("y_t",))], dims=())
    assert planned(program).places["y"].block == "work"
    x = values(4, 8)
    found = run(program, {"x": x}, flags=SANE)
    np.testing.assert_array_equal(found.outputs["y"], np.broadcast_to(2 * x[0], (4, 8)))


def test_an_output_may_lie_on_what_no_trip_reads():
    buffers = [inp("x", (4, 8)), out("y", (4, 8), 0, alias="x"), inp("z", (4, 8), 1)]
    buffers += [piece("y_t", "y", (8,)), piece("z_t", "z", (8,))]
    program = make(buffers, [Repeat("loop", 4, (plus("k", "z_t", "z_t", "y_t", (8,)),), (), ("y_t", "z_t"))], dims=())
    assert planned(program).places["y"].block == "in"
    x, z = values(4, 8), values(4, 8)
    np.testing.assert_array_equal(run(program, {"x": x, "z": z}, flags=SANE).outputs["y"], 2 * z)


# ---- guards -------------------------------------------------------------------------------------------------------


def guarded(*steps):
    """h, to which a row of x is added in each trip until a flag is false."""
    buffers = [inp("x", (4, *H)), inp("h0", H, 1), inp("flags", (4,), 2, "b1"), out("y", H), work("h", H), work("n", H)]
    buffers += [X_T, piece("flag", "flags", (), "b1")]
    loop = Repeat("loop", 4, steps, (("h", "n"),), ("x_t", "flag"))
    return make(buffers, [copy("start", "h0", "h"), loop, copy("end", "h", "y")], dims=())


GUARD, STEP = Guard("guard", "flag"), plus("k", "h", "x_t", "n")


@pytest.mark.parametrize("flags", [(0, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("steps", [(GUARD, STEP), (STEP, GUARD)])
def test_a_guard_leaves_the_loop(steps, flags):
    program = guarded(*steps)
    x, h = values(4, *H), values(*H)
    found = both(program, {"x": x, "h0": h, "flags": np.array(flags, bool)})
    trips = int(np.argmin((*flags, 0)))
    np.testing.assert_allclose(found.outputs["y"], h + x[:trips].sum(0), atol=1e-5)
    assert "if (!flag[0])\n            break;" in source(program).c_source


def test_what_is_written_before_a_guard_is_not_carried_in_place():
    assert inside(guarded(GUARD, STEP))[0] == ["k"]
    assert inside(guarded(STEP, GUARD))[0] == ["k", "carry_h"]
    within = Repeat("inner", 2, (GUARD, copy("k2", "x_t", "m")))
    program = guarded(STEP, within)
    assert inside(replace(program, buffers=(*program.buffers, work("m", H))))[0] == ["k", "k2"]


def test_a_guard_keeps_the_memory_of_its_flag():
    """An output over the flag that no trip may overwrite, since each tests it."""
    buffers = [inp("flag", (1,), 0, "b1"), inp("go", (4, 1), 1, "b1"), out("seen", (1,), 0, "b1", alias="flag")]
    buffers += [piece("go_t", "go", (1,), "b1"), work("next", (1,), "b1")]
    move = kernel("move", (1,), load("a", "go_t", 1, dtype="b1"), store("next", "a", 1))
    loop = Repeat("loop", 4, (Guard("guard", "flag"), move), (("seen", "next"),), ("go_t",))
    program = make(buffers, [kernel("start", (1,), store("seen", "0", 1)), loop], dims=())
    assert planned(program).places["seen"].block == "work"
    go = np.array([[1], [1], [0], [1]], bool)
    found = run(program, {"flag": np.array([True]), "go": go}, flags=SANE)
    assert found.outputs["seen"].tolist() == [True]

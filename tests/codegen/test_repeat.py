"""Loops: what a trip computes, where it lies, and what its C looks like."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.check import check
from gtensor.codegen.emit import emit
from gtensor.codegen.errors import ProgramError
from gtensor.codegen.memory import plan, show_plan
from gtensor.codegen.program import Access, Accumulator, Assign, Check, Dim, Gemm, Repeat, Term, kernels
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
    phases,
    piece,
    plus,
    row,
    state,
    store,
    sums,
    work,
)
from tests.codegen.c_model import COMPILERS, NATIVE, SANITIZE, planned, run, source
from tests.codegen.run_program import blocks, run_apart, run_planned

SANE = (*SANITIZE, *NATIVE.flags)
RANDOM = np.random.default_rng(0)
T = Dim(0, "T", 6)


def values(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def cell(name, read, written, x="x_t", w="w"):
    """written = tanh(read @ w + x)."""
    term = Term(Access(read, (8, 1)), Access(w, (8, 1)), 8)
    tanh = Assign("r", "f32", Expr("gt_tanh_{t}({0})", ("s",), "f32", "f32"))
    epilogue = (load("x1", x, 8, 1), add("s", "acc", "x1"), tanh, store(written, "r", 8, 1))
    return Gemm(name, "f32", (), 3, 8, (term,), "acc", epilogue)


def recurrence(count=5, rows=5, reverse=False, steps=(), **more):
    """The last h and all h of h = tanh(h @ w + x[t])."""
    buffers = [inp("x", (rows, *H)), inp("h0", H, 1), inp("w", (8, 8), 2), out("ys", (rows, *H)), out("last", H, 1)]
    buffers += [work("h", H), work("h_next", H), piece("x_t", "x"), piece("y_t", "ys")]
    inner = (cell("cell", "h", "h_next"), copy("stack", "h_next", "y_t"), *steps)
    loop = Repeat("scan", count, inner, (("h", "h_next"),), ("x_t", "y_t"), reverse, ("h = tanh(h @ w + x)",))
    dims = (T,) if T in (count, rows) else ()
    return make(buffers, [copy("start", "h0", "h"), replace(loop, **more), copy("end", "h", "last")], dims=dims)


def by_numpy(x, h, w, count, reverse):
    ys = np.zeros_like(x)
    for t in reversed(range(count)) if reverse else range(count):
        ys[t] = h = np.tanh(h @ w + x[t])
    return ys, h


def both(program, given, dims=(), trips=None):
    """What a program without tanh gives in Python, which must not depend on the memory, and in C."""
    flat = {name: np.ascontiguousarray(v).ravel() for name, v in given.items()}
    expected = run_apart(program, flat, dims)
    planned_ = plan(program)
    for lanes in (False, True):
        got = run_planned(planned_, blocks(planned_, flat), dims, lanes)
        for name, wanted in expected.items():
            np.testing.assert_array_equal(got[name], wanted, err_msg=name)
    found = run(program, given, dims=dims, flags=SANE)
    for name, wanted in expected.items():
        np.testing.assert_allclose(found.outputs[name].ravel(), wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    return found


# ---- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_recurrence(compiler, reverse):
    x, h, w = values(5, *H), values(*H), 0.3 * values(8, 8)
    found = run(recurrence(reverse=reverse), {"x": x, "h0": h, "w": w}, compiler=compiler, flags=SANE)
    ys, last = by_numpy(x, h, w, 5, reverse)
    np.testing.assert_allclose(found.outputs["ys"], ys, atol=1e-5)
    np.testing.assert_allclose(found.outputs["last"], last, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_trips_counted_at_run_time(count, reverse):
    x, h, w = values(count, *H), values(*H), 0.3 * values(8, 8)
    found = run(recurrence(T, T, reverse), {"x": x, "h0": h, "w": w}, dims=(count,), flags=SANE)
    ys, last = by_numpy(x, h, w, count, reverse)
    np.testing.assert_allclose(found.outputs["ys"], ys, atol=1e-5)
    np.testing.assert_allclose(found.outputs["last"], last, atol=1e-5)


def test_no_trips_leave_the_first_value():
    x, h, w = values(0, *H), values(*H), values(8, 8)
    found = run(recurrence(0, 0), {"x": x, "h0": h, "w": w}, flags=SANE)
    np.testing.assert_array_equal(found.outputs["last"], h)


def test_rows_may_be_more_than_trips_where_they_are_read():
    buffers = [inp("x", (6, 4)), out("y", (4,)), work("s", (4,)), work("s_next", (4,)), piece("x_t", "x", (4,))]
    loop = Repeat("loop", T, (plus("k", "s", "x_t", "s_next", (4,)),), (("s", "s_next"),), ("x_t",))
    start = kernel("start", (4,), store("s", "0.0f", 1))
    program = make(buffers, [start, loop, copy("end", "s", "y", (4,))], dims=(T,))
    check(program)
    x = values(6, 4)
    for count in (0, 3):
        found = both(program, {"x": x}, (count,))
        np.testing.assert_allclose(found.outputs["y"], x[:count].sum(0), atol=1e-5)


def nested(first=True):
    """s += x[i][j] for all i and j, with s stacked per i and per (i, j)."""
    buffers = [inp("x", (4, 3, 8)), inp("s0", (8,), 1), out("per_i", (4, 8)), out("per_ij", (4, 3, 8), 1)]
    buffers += [out("s", (8,), 2), work("s_i", (8,)), work("s_new", (8,))]
    buffers += [piece("x_i", "x", (3, 8)), piece("x_ij", "x_i", (8,)), piece("p_i", "per_i", (8,))]
    buffers += [piece("q_i", "per_ij", (3, 8)), piece("q_ij", "q_i", (8,)), piece("s0_i", "x_i", (8,))]
    inner = (plus("step", "s_i", "x_ij", "s_new", (8,)), copy("stack_ij", "s_new", "q_ij", (8,)))
    steps = (
        copy("start_i", "s", "s_i", (8,)),
        Repeat("inner", 3, inner, (("s_i", "s_new"),), ("x_ij", "q_ij"), reverse=True),
        copy("stack_i", "s_i", "p_i", (8,)),
    )
    outer = Repeat("outer", 4, steps, (("s", "s_i"),), ("x_i", "p_i", "q_i"))
    return make([b for b in buffers if b.name != "s0_i"], [copy("start", "s0", "s", (8,)), outer], dims=())


def test_nested_loops():
    x, s = values(4, 3, 8), values(8)
    found = both(nested(), {"x": x, "s0": s})
    per_ij = s + x[:, ::-1].reshape(12, 8).cumsum(0).reshape(4, 3, 8)
    np.testing.assert_allclose(found.outputs["per_ij"], per_ij[:, ::-1], atol=1e-5)
    np.testing.assert_allclose(found.outputs["per_i"], per_ij[:, -1], atol=1e-5)
    np.testing.assert_allclose(found.outputs["s"], per_ij[-1, -1], atol=1e-5)


def test_a_slice_is_seen_by_the_loops_inside():
    """y = sum over i, j of x[i] + z[j], where the inner loop alone uses x[i]."""
    buffers = [inp("x", (4, 8)), inp("z", (3, 8), 1), out("y", (8,)), work("mid", (8,)), work("y1", (8,))]
    buffers += [work("y2", (8,)), piece("x_i", "x", (8,)), piece("z_j", "z", (8,))]
    inner = plus("k1", "mid", "x_i", "y1", (8,)), plus("k2", "y1", "z_j", "y2", (8,))
    steps = copy("k0", "y", "mid", (8,)), Repeat("inner", 3, inner, (("mid", "y2"),), ("z_j",))
    outer = Repeat("outer", 4, steps, (("y", "mid"),), ("x_i",))
    x, z = values(4, 8), values(3, 8)
    found = both(make(buffers, [kernel("k", (8,), store("y", "0.0f", 1)), outer], dims=()), {"x": x, "z": z})
    np.testing.assert_allclose(found.outputs["y"], 3 * x.sum(0) + 4 * z.sum(0), atol=1e-4)


def test_rows_of_another_shape():
    buffers = [inp("x", (12, 2)), out("y", (24,)), piece("x_t", "x", (2, 3)), piece("y_t", "y", (6,))]
    step = kernel("k", (6,), load("a", "x_t", 1), add("b", "a", "a"), store("y_t", "b", 1))
    x = values(12, 2)
    found = both(make(buffers, [Repeat("loop", 4, (step,), (), ("x_t", "y_t"))], dims=()), {"x": x})
    np.testing.assert_array_equal(found.outputs["y"], 2 * x.ravel())


def test_two_carries_change_places():
    buffers = [inp("p", (4,)), inp("q", (4,), 1), out("u", (4,)), out("v", (4,), 1), work("u1", (4,)), work("v1", (4,))]
    steps = copy("k1", "v", "u1", (4,)), copy("k2", "u", "v1", (4,))
    loop = Repeat("loop", 3, steps, (("u", "u1"), ("v", "v1")))
    program = make(buffers, [copy("k3", "p", "u", (4,)), copy("k4", "q", "v", (4,)), loop], dims=())
    p, q = values(4), values(4)
    found = both(program, {"p": p, "q": q})
    np.testing.assert_array_equal(found.outputs["u"], q)
    np.testing.assert_array_equal(found.outputs["v"], p)


def test_one_value_may_go_to_two_carries():
    buffers = [inp("x", (4,)), out("u", (4,)), out("v", (4,), 1), work("n", (4,))]
    steps = (plus("k", "u", "v", "n", (4,)),)
    loop = Repeat("loop", 3, steps, (("u", "n"), ("v", "n")))
    program = make(buffers, [copy("k3", "x", "u", (4,)), copy("k4", "x", "v", (4,)), loop], dims=())
    x = values(4)
    found = both(program, {"x": x})
    np.testing.assert_array_equal(found.outputs["u"], 8 * x)
    np.testing.assert_array_equal(found.outputs["v"], 8 * x)


def test_sums_begin_anew_in_each_trip():
    buffers = [
        inp("x", (4, 3, 8)),
        out("y", (4, 8)),
        piece("x_t", "x"),
        piece("y_t", "y", (8,)),
        work("wide", (8,), "f64"),
    ]
    total = kernel(
        "k", H, load("a", "x_t", 8, 1), sums("y_t", "a", 0, 1), accumulators=[Accumulator("y_t", "sum", scratch="wide")]
    )
    x = values(4, 3, 8)
    found = both(make(buffers, [Repeat("loop", 4, (total,), (), ("x_t", "y_t"))], dims=()), {"x": x})
    np.testing.assert_allclose(found.outputs["y"], x.sum(1), atol=1e-5)


def test_products_with_memory_of_their_own():
    """Big enough for BLAS, with an epilogue: its scratch memory serves every trip."""
    n = 300
    buffers = [inp("x", (3, n, n)), inp("w", (n, n), 1), out("y", (3, n, n)), piece("x_t", "x", (n, n))]
    buffers.append(piece("y_t", "y", (n, n)))
    term = Term(Access("x_t", (n, 1)), Access("w", (n, 1)), n)
    gemm = Gemm("k", "f32", (), n, n, (term,), "acc", (add("b", "acc", "1.0f"), store("y_t", "b", n, 1)))
    program = make(buffers, [Repeat("loop", 3, (gemm,), (), ("x_t", "y_t"))], dims=())
    x, w = 0.1 * values(3, n, n), 0.1 * values(n, n)
    assert "args->blas" in source(program, blas=True).c_source
    for blas in (False, True):
        found = run(program, {"x": x, "w": w}, blas=blas)
        np.testing.assert_allclose(found.outputs["y"], x @ w + 1, atol=1e-4)


# ---- carries in place -------------------------------------------------------------------------------------------


def carry(*steps, buffers=(), slices=(), count=4, carries=(("h", "n"),)):
    """A loop that carries h, written before and read after."""
    found = [inp("x", (4, *H)), inp("h0", H, 1), out("y", H), work("h", H), work("n", H), *buffers]
    loop = Repeat("loop", count, steps, carries, slices)
    return make(found, [copy("start", "h0", "h"), loop, copy("end", "h", "y")], dims=())


X_T = piece("x_t", "x")
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


def inside(program):
    """The kernels of the loops as planned."""
    planned_ = planned(program)
    return names(tuple(kernels(s for s in planned_.program.steps if isinstance(s, Repeat)))), planned_.places


def given_for(program):
    return {item.name: 0.5 * values(*item.shape) for item in program.inputs}


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


def chain(*steps, more=(), slices=("x_t", "y_t")):
    """A loop over x whose last step writes a row of y; h1 to h4 are work buffers."""
    buffers = [inp("x", (4, *H)), inp("z", H, 1), out("y", (4, *H)), X_T, piece("y_t", "y")]
    buffers += [work(name, H) for name in ("h1", "h2", "h3", "h4")]
    return make(buffers, [*more, Repeat("loop", 4, steps, (), slices)], dims=())


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


# ---- indices and rows ---------------------------------------------------------------------------------------------


def test_indices_checked_before_the_loop_are_known_in_its_trips():
    checked = kernel("checked", (5, 3), load("j", "i", 3, 1, dtype="i64"), Check("j", 0, 4, 0))
    gather = kernel(
        "gather",
        (3, 2),
        load("j", "i_t", 1, 0, dtype="i64"),
        load("a", "x", 0, 1, index=(("j", 2),)),
        store("y_t", "a", 2, 1),
    )
    buffers = [inp("x", (4, 2)), inp("i", (5, 3), 1, "i64"), out("y", (5, 3, 2)), piece("i_t", "i", (3,), "i64")]
    buffers.append(piece("y_t", "y", (3, 2)))
    loop = Repeat("loop", 5, (gather,), (), ("i_t", "y_t"))
    program = make(buffers, [checked, loop], dims=())
    check(program)
    x, i = values(4, 2), RANDOM.integers(0, 4, (5, 3))
    np.testing.assert_array_equal(run(program, {"x": x, "i": i}, flags=SANE).outputs["y"], x[i])
    with pytest.raises(ProgramError, match=r"gather: .*the index 'j' has passed no Check"):
        check(make(buffers, [loop], dims=()))


# ---- the C --------------------------------------------------------------------------------------------------------


def test_the_c_of_a_loop():
    text = source(recurrence()).c_source
    assert (
        """
    start(h0, h);
    /* loop: h = tanh(h @ w + x) */
    for (int64_t t = 0; t < 5; ++t) {
        const float *x_t = x + 24 * t;  // f32[3, 8]
        float *y_t = ys + 24 * t;       // f32[3, 8]
        cell(h, w, x_t, h_next);
        start(h_next, y_t);
        start(h_next, h);
    }
    start(h, last);
"""
        in text
    )
    assert "for (int64_t t = T; t-- > 0;) {" in source(recurrence(T, T, reverse=True)).c_source


def test_names_in_nested_loops_do_not_clash():
    text = source(nested()).c_source
    assert "for (int64_t t = 0; t < 4; ++t) {" in text
    assert "for (int64_t t_2 = 3; t_2-- > 0;) {" in text
    assert "const float *x_ij = x_i + 8 * t_2;" in text
    renamed = recurrence()
    taken = [replace(b, name="t") if b.name == "w" else b for b in renamed.buffers]
    steps = [cell("cell", "h", "h_next", w="t"), copy("stack", "h_next", "y_t")]
    loop = replace(renamed.steps[1], steps=tuple(steps))
    program = make(taken, [renamed.steps[0], loop, renamed.steps[2]], dims=())
    assert "for (int64_t t_2 = 0; t_2 < 5; ++t_2) {" in source(program).c_source
    x, h, w = values(5, *H), values(*H), 0.3 * values(8, 8)
    found = run(program, {"x": x, "h0": h, "t": w}, flags=SANE)
    np.testing.assert_allclose(found.outputs["last"], by_numpy(x, h, w, 5, False)[1], atol=1e-5)


def test_each_kernel_of_a_loop_has_its_clock():
    text = emit(planned(recurrence()), NATIVE, timed=True).c_source
    body = text[text.index("for (int64_t t = 0") :]
    assert [body.count(f"gt_time_note({number}, clock);") for number in range(5)] == [0, 1, 1, 1, 1]


def test_a_loop_without_effect_is_left_out():
    empty = kernel("k", (0,), load("a", "x_t", 1), store("y_t", "a", 1))
    buffers = [inp("x", (4, 0)), out("y", (4, 0)), piece("x_t", "x", (0,)), piece("y_t", "y", (0,))]
    program = make(buffers, [Repeat("loop", 4, (empty,), (), ("x_t", "y_t"))], dims=())
    assert "loop:" not in source(program).c_source
    run(program, {"x": values(4, 0)}, flags=SANE)


def test_long_loops_are_functions_of_their_own():
    steps = tuple(plus(f"k{n}", f"v{n}", "x_t", f"v{n + 1}") for n in range(1, 150))
    buffers = [inp("x", (4, *H)), out("y", (4, *H)), X_T, piece("y_t", "y"), *(work(f"v{n}", H) for n in range(1, 151))]
    loop = Repeat("loop", 4, (copy("first", "x_t", "v1"), *steps, copy("out", "v150", "y_t")), (), ("x_t", "y_t"))
    more = [out(f"z{n}", H, n) for n in range(1, 61)]
    after = [copy(f"end{n}", "z1", f"z{n}") for n in range(2, 61)]
    first = kernel("z", H, store("z1", "1.0f", 8, 1))
    program = make([*buffers, *more], [first, loop, *after], dims=())
    text = source(program).c_source
    parts = text.split("static int32_t hand_part_")[1:]
    assert [part.count("for (int64_t t = 0;") for part in parts[:3]] == [0, 1, 0]
    x = values(4, *H)
    found = run(program, {"x": x})
    np.testing.assert_allclose(found.outputs["y"], 150 * x, rtol=1e-4)
    np.testing.assert_array_equal(found.outputs["z60"], np.ones(H))


def test_row_buffers_in_loops():
    passes = phases(
        "k", H,
        ((), (load("a", "x_t", 8, 1), add("b", "a", "a"), store("r", "b", 0, 1))),
        ((), (load("c", "r", 0, -1, at=7), store("y_t", "c", 8, 1))),
    )  # fmt: skip
    buffers = [inp("x", (4, *H)), out("y", (4, *H)), row("r", (8,)), X_T, piece("y_t", "y")]
    x = values(4, *H)
    found = both(make(buffers, [Repeat("loop", 4, (passes,), (), ("x_t", "y_t"))], dims=()), {"x": x})
    np.testing.assert_array_equal(found.outputs["y"], 2 * x[:, :, ::-1])

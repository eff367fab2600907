"""Loops: what their trips compute, and what their C looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen.check import check
from gtensor.codegen.emit import emit
from gtensor.codegen.errors import ProgramError
from gtensor.codegen.gemm import BLAS_FROM
from gtensor.codegen.program import Access, Accumulator, Check, Gemm, Repeat, Term
from tests.codegen.by_hand import ROWS as H
from tests.codegen.by_hand import (
    add,
    copy,
    inp,
    kernel,
    load,
    make,
    out,
    phases,
    piece,
    plus,
    row,
    store,
    sums,
    work,
)
from tests.codegen.c_model import COMPILERS, NATIVE, planned, run, source
from tests.codegen.loops_by_hand import (
    RANDOM,
    SANE,
    X_T,
    T,
    both,
    by_numpy,
    cell,
    nested,
    recurrence,
    values,
)

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
    n = 800
    assert n**3 > BLAS_FROM
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

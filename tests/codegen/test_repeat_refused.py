"""Loops that are refused, and what is known of buffers in a loop and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.check import check
from gtensor.codegen.errors import ProgramError
from gtensor.codegen.program import Assign, Check, Dim, Guard, Repeat
from tests.codegen.by_hand import ROWS as H
from tests.codegen.by_hand import copy, inp, kernel, load, make, out, piece, plus, row, store, work

T = Dim(0, "T", 6)
X_T = piece("x_t", "x")


def refused(loop, *more_buffers, before=(), after=(), drop=()):
    buffers = [inp("x", (4, *H)), inp("h0", H, 1), out("ys", (4, *H)), out("last", H, 1), work("h", H), work("n", H)]
    buffers += [X_T, piece("y_t", "ys"), work("m", H), *more_buffers]
    steps = [copy("start", "h0", "h"), *before, loop, copy("end", "h", "last"), *after]
    return make([b for b in buffers if b.name not in drop], steps, dims=(T,))


GOOD = Repeat("loop", 4, (plus("k1", "h", "x_t", "n"), copy("k2", "n", "y_t")), (("h", "n"),), ("x_t", "y_t"))


def with_steps(*steps, **more):
    return replace(GOOD, steps=(*GOOD.steps, *steps), **more)


REFUSED = {
    "loop: carries to 'm', which is not written before the loop": refused(
        replace(GOOD, carries=(("h", "n"), ("m", "n")))
    ),
    "loop: writes 'h', which only its carry may do": refused(with_steps(copy("k3", "n", "h"))),
    "loop: carries 'm', which it does not write": refused(replace(GOOD, carries=(("h", "m"),))),
    "loop: carries 'x', which is no work or output buffer": refused(replace(GOOD, carries=(("x", "n"),))),
    "loop: carries 'last', which is no work or slice buffer": refused(replace(GOOD, carries=(("h", "last"),))),
    "loop: carries two buffers to the same one": refused(
        with_steps(copy("k3", "n", "m"), carries=(("h", "n"), ("h", "m")))
    ),
    "loop: carries 'o' to 'h', which has another dtype or shape": refused(
        with_steps(kernel("k3", (8,), store("o", "1.0f", 1)), carries=(("h", "o"),)), work("o", (8,))
    ),
    "k0: f32 a = m\\[.*reads 'm' before it is written": refused(
        replace(GOOD, steps=(copy("k0", "m", "n"), copy("k1", "n", "m"), copy("k2", "n", "y_t"))),
        before=[copy("early", "h0", "m")],
    ),
    "after: f32 a = n\\[.*reads 'n' before it is written": refused(
        GOOD, out("late", H, 2), after=[copy("after", "n", "late")]
    ),
    "k0: f32 a = y_t\\[.*reads 'y_t' before it is written": refused(
        replace(GOOD, steps=(copy("k0", "y_t", "m"), *GOOD.steps)), before=[]
    ),
    "loop: 'y_t' is not written at the end of a trip": refused(
        replace(GOOD, steps=(GOOD.steps[0], Repeat("inner", 2, GOOD.steps[1:])))
    ),
    "loop: touches 'ys' beside 'y_t', a slice of 'ys' that it writes": refused(
        with_steps(kernel("k3", (24,), load("a", "ys", 1), store("m", "a", 1)))
    ),
    "loop: touches 'twin' beside 'y_t', a slice of 'ys' that it writes": refused(
        with_steps(copy("k3", "twin", "m"), slices=("x_t", "y_t", "twin")), piece("twin", "ys")
    ),
    "loop: touches 'y_j' beside 'y_t', a slice of 'ys' that it writes": refused(
        with_steps(Repeat("inner", 4, (copy("k3", "y_j", "m"),), (), ("y_j",))), piece("y_j", "ys")
    ),
    "loop: 'ys' of shape \\[4, 3, 8\\] has not 5 rows|'x' of shape \\[4, 3, 8\\] has not 5 rows": refused(
        replace(GOOD, count=5)
    ),
    "'x' of shape \\[4, 3, 8\\] has not T rows": refused(replace(GOOD, count=T)),
    "loop: 3 trips do not write all of 'ys' of shape \\[4, 3, 8\\]": refused(replace(GOOD, count=3)),
    "loop: the number of trips -1 is negative": refused(replace(GOOD, count=-1)),
    "loop: the number of trips dimension 'Q' is not one": refused(replace(GOOD, count=Dim(1, "Q", 3))),
    "end2: .*'x_t' is a slice of no loop around this step": refused(
        GOOD, out("late", H, 2), after=[copy("end2", "x_t", "late")]
    ),
    "the slice 'lost' is named by 0 loops": refused(GOOD, piece("lost", "x")),
    "the slice 'x_t' is named by 2 loops": refused(replace(GOOD, slices=("x_t", "x_t", "y_t"))),
    "a loop names 'm' as a slice, which is none": refused(replace(GOOD, slices=("x_t", "y_t", "m"))),
    "'odd' is a slice of 'r', which is no array": refused(
        replace(GOOD, slices=("x_t", "y_t", "odd")), piece("odd", "r"), row("r", (4, *H))
    ),
    "the slice 'odd' is f64\\[3, 8\\], but 'x' is f32": refused(
        replace(GOOD, slices=("x_t", "y_t", "odd")), piece("odd", "x", H, "f64")
    ),
    "the slice 'p' is in the end a slice of itself": refused(
        replace(GOOD, slices=("x_t", "y_t", "p", "q")), piece("p", "q", (4,)), piece("q", "p", (4,))
    ),
    "inner: 'x_tt' is a slice of 'x_u', which is a slice of no loop around this one": refused(
        with_steps(
            Repeat("inner", 3, (kernel("k3", (8,), load("a", "x_tt", 1), store("m", "a", 1)),), (), ("x_tt",)),
            Repeat("other", 4, (copy("k4", "x_u", "m"),), (), ("x_u",)),
        ),
        piece("x_u", "x"),
        piece("x_tt", "x_u", (8,)),
    ),
    "loop: writes 'x_t', a slice of the input 'x'": refused(with_steps(copy("k3", "n", "x_t"))),
    "k3: .*writes the input 'h0' in a loop": refused(with_steps(copy("k3", "n", "h0")), out("late", H, 2, alias="h0")),
    "loop: has a guard, and writes rows that it need not reach": refused(
        replace(GOOD, steps=(Guard("g", "f"), *GOOD.steps)), inp("f", (), 2, "b1")
    ),
    "g: tests 'h0', which is no b1 of one element": refused(
        with_steps(Repeat("inner", 2, (Guard("g", "h0"), copy("k0", "x_t", "m"))))
    ),
    "g: tests 'f' before it is written": refused(
        replace(GOOD, steps=(Repeat("inner", 2, (Guard("g", "f"), copy("k0", "x_t", "m"))), *GOOD.steps)),
        work("f", (), "b1"),
    ),
    "g: is in no loop that it could leave": refused(GOOD, inp("f", (), 2, "b1"), after=[Guard("g", "f")]),
    "the name 'start' is used twice": refused(with_steps(copy("start", "n", "m"))),
    "the name 'h' is used twice": refused(replace(GOOD, name="h")),
    "output 'late' is never written": refused(with_steps(copy("k3", "n", "late")), out("late", H, 2)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    with pytest.raises(ProgramError, match=message):
        check(REFUSED[message])


def test_the_same_without_a_fault_is_lawful():
    check(refused(GOOD))


def test_bounds_do_not_outlive_what_a_trip_writes():
    """An index that was checked before the loop is carried: in the second trip it is another one."""
    buffers = [
        inp("i", (4,), 0, "i64"),
        inp("x", (4,), 1),
        out("y", (4,)),
        work("j", (4,), "i64"),
        work("k", (4,), "i64"),
    ]
    first = kernel("first", (4,), load("a", "i", 1, dtype="i64"), Check("a", 0, 4, 0), store("j", "a", 1))
    twice = Assign("b", "i64", Expr("{0} + {0}", ("a",), "i64", "i64"))
    use = kernel("use", (4,), load("a", "j", 1, dtype="i64"), load("v", "x", 0, index=(("a", 1),)), store("w", "v", 1))
    step = kernel("step", (4,), load("a", "j", 1, dtype="i64"), twice, store("k", "b", 1))
    end = kernel("end", (4,), load("a", "x", 1), store("y", "a", 1))
    program = make([*buffers, work("w", (4,))], [first, Repeat("loop", 2, (use, step), (("j", "k"),)), end], dims=())
    with pytest.raises(ProgramError, match=r"use: .*the index 'a' has passed no Check"):
        check(program)
    check(make([*buffers, work("w", (4,))], [first, use, end], dims=()))


def test_bounds_found_in_a_loop_are_not_known_after_it():
    """The loop may have had no trip."""
    buffers = [inp("i", (4,), 0, "i64"), inp("x", (4,), 1), out("y", (4,))]
    checked = kernel("checked", (4,), load("a", "i", 1, dtype="i64"), Check("a", 0, 4, 0))
    use = kernel("use", (4,), load("a", "i", 1, dtype="i64"), load("v", "x", 0, index=(("a", 1),)), store("y", "v", 1))
    check(make(buffers, [checked, use], dims=()))
    with pytest.raises(ProgramError, match=r"use: .*the index 'a' has passed no Check"):
        check(make(buffers, [Repeat("loop", 2, (checked,)), use], dims=()))

"""Weights that the products of a loop read turned: turned once before it, where that is right and pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen.prepack import FEWEST_TRIPS, prepack
from gtensor.codegen.program import Access, Dim, Gemm, Repeat, RowKernel, Term
from tests.codegen.by_hand import inp, make, out, piece, store, work
from tests.codegen.c_model import COMPILERS, NATIVE, TARGETS, run

TRIPS, M, K, N = 9, 4, 20, 24


def values(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def program(trips=TRIPS, weight=None, turned=True, index=()):
    """y[t] = x[t] @ w for each trip, where w lies in memory as f32[24,20], or as f32[20,24] if it is not turned."""
    shape = (N, K) if turned else (K, N)
    w = weight or inp("w", shape, 1)
    term = Term(Access("x_t", (K, 1)), Access("w", (1, K) if turned else (N, 1), 0, index), K)
    step = Gemm("g", "f32", (), M, N, (term,), "acc", (store("y_t", "acc", N, 1),))
    arrays = [inp("x", (trips, M, K)), w, out("y", (trips, M, N))]
    rows = [piece("x_t", "x", (M, K)), piece("y_t", "y", (M, N))]
    return make([*arrays, *rows], [Repeat("loop", trips, (step,), (), ("x_t", "y_t"))], dims=())


@pytest.mark.parametrize("kind", TARGETS)
def test_the_products_stay_what_they_are(kind):
    x, w = values(TRIPS, M, K), values(N, K)
    found = run(program(), {"x": x, "w": w}, target=TARGETS[kind], compiler=COMPILERS[-1])
    np.testing.assert_allclose(found.outputs["y"], x @ w.T, rtol=1e-5, atol=1e-5)
    plain = run(program(turned=False), {"x": x, "w": w.T.copy()}, target=TARGETS[kind], compiler=COMPILERS[-1])
    np.testing.assert_array_equal(found.outputs["y"], plain.outputs["y"])


def test_the_copy_is_made_once_before_the_loop_and_read_in_it():
    copy, loop = prepack(program(), NATIVE).steps
    assert isinstance(copy, RowKernel) and copy.space == (K, N)
    assert loop.steps[0].terms[0].b == Access("w_turned", (N, 1))


def test_products_of_one_loop_share_a_copy_and_those_of_two_do_not():
    made = program()
    (loop,) = made.steps
    more = replace(made, steps=(replace(loop, steps=(*loop.steps, replace(loop.steps[0], name="h"))),))
    assert [step.name for step in prepack(more, NATIVE).steps] == ["loop_w_turned", "loop"]
    both = replace(made, steps=(loop, replace(loop, name="again")))
    assert [step.name for step in prepack(both, NATIVE).steps] == ["loop_w_turned", "loop", "again_w_turned_", "again"]


UNCHANGED = {
    "it lies right": lambda: program(turned=False),
    "few trips": lambda: program(trips=FEWEST_TRIPS - 1),
    "what the loop may write": lambda: program(weight=work("w", (N, K))),
    "a row chosen at run time": lambda: program(index=(("row", 1),)),
}


@pytest.mark.parametrize("what", UNCHANGED)
def test_all_else_stays(what):
    made = UNCHANGED[what]()
    assert prepack(made, NATIVE) is made


def test_outside_of_loops_a_product_turns_its_own():
    made = program()
    (loop,) = made.steps
    buffers = [inp("x", (M, K)), inp("w", (N, K), 1), out("y", (M, N))]
    step = replace(loop.steps[0], terms=(Term(Access("x", (K, 1)), Access("w", (1, K)), K),))
    alone = make(buffers, [replace(step, epilogue=(store("y", "acc", N, 1),))], dims=())
    assert prepack(alone, NATIVE) is alone


def test_trips_counted_at_run_time_are_many():
    made = program()
    (loop,) = made.steps
    assert len(prepack(replace(made, steps=(replace(loop, count=Dim(0, "T", 100)),)), NATIVE).steps) == 2

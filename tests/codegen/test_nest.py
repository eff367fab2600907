"""Simpler loops before they are written: axes, repeated loads, statements without effect, sums over a row."""

from __future__ import annotations

import pytest

from gtensor.codegen import nest
from gtensor.codegen.program import Access, Accumulate, Accumulator, Counter, Dim, Gemm, Reduce, RowKernel, Term
from tests.codegen.by_hand import add, kernel, load, phases, store, sums, work

B = Dim(0, "B", 9)
TABLE = {b.name: b for b in (work("x", (60,)), work("y", (60,)), work("s", ()), work("s64", (), "f64"))}


def simple(step: RowKernel, same=str) -> RowKernel:
    return nest.row_kernel(step, TABLE, same)


def copy(space, strides, *more):
    return kernel("k", space, load("a", "x", *strides), *more, store("y", "a", *strides))


@pytest.mark.parametrize(
    "space, strides, merged",
    [
        ((3, 4, 5), (20, 5, 1), (60,)),
        ((3, 4, 5), (40, 10, 1), (12, 5)),
        ((3, 4, 5), (5, 15, 1), (3, 4, 5)),
        ((3, 1, 5), (5, 7, 1), (15,)),
        ((1, 1, 1), (9, 9, 9), (1,)),
        ((4, 5), (0, 0), (20,)),
        ((5, 4), (-4, -1), (20,)),
        ((B, 4, 5), (20, 5, 1), (Dim(0, "B", 9, 20),)),
        ((4, B, 5), (Dim(0, "B", 9, 5), 5, 1), (Dim(0, "B", 9, 20),)),
        ((4, B), (B, 1), (Dim(0, "B", 9, 4),)),
        ((B, B), (B, 1), (B, B)),
    ],
)
def test_axes_that_walk_on_evenly_become_one(space, strides, merged):
    assert simple(copy(space, strides)).space == merged


def test_an_axis_that_is_counted_stays():
    step = kernel("k", (2, 3, 4), Counter("n", 2), store("y", "n", 12, 4, 1))
    assert simple(step).space == (6, 4)
    step = kernel("k", (2, 1, 4), Counter("n", 1), store("y", "n", 4, 4, 1))
    assert simple(step).space == (2, 1, 4)


def test_the_row_axis_of_a_kernel_with_row_results_stays():
    fold = Reduce("m", "f32", "max", "a")
    step = phases("k", (2, 3, 4), ((), (load("a", "x", 12, 4, 1), fold)), ((store("y", "m", 3, 1, 0),), ()))
    assert simple(step).space == (6, 4)


def test_an_empty_space_leaves_only_the_accumulators():
    step = kernel("k", (0, 4), load("a", "x", 4, 1), sums("s", "a", 0, 0), accumulators=(Accumulator("s", "sum"),))
    assert (simple(step).space, simple(step).phases, simple(step).accumulators) == ((0,), (), step.accumulators)


def body(step):
    return simple(step).phases[0].body


def test_an_element_is_loaded_once_until_it_is_written():
    loads = load("a", "x", 1), load("b", "x", 1), add("c", "a", "b"), store("y", "c", 1)
    assert body(kernel("k", (60,), *loads)) == (load("a", "x", 1), add("c", "a", "a"), store("y", "c", 1))
    between = load("a", "x", 1), store("y", "a", 1), load("b", "x", 1), store("y", "b", 1)
    assert len(body(kernel("k", (60,), *between))) == 3
    assert len(simple(kernel("k", (60,), *between), lambda name: 0).phases[0].body) == 4, "x and y are one memory"


def test_a_value_of_the_head_serves_the_body_unless_the_body_writes_it():
    read = phases("k", (6, 10), ((load("a", "x", 10, 0),), (load("b", "x", 10, 0), store("y", "b", 10, 1))))
    assert len(body(read)) == 1
    assert len(nest.row_kernel(read, TABLE, lambda name: 0).phases[0].body) == 2


def test_statements_without_effect_go():
    unused = load("a", "x", 1), add("b", "a", "a"), load("c", "x", 1), store("y", "c", 1)
    assert body(kernel("k", (60,), *unused)) == (load("a", "x", 1), store("y", "a", 1))
    fold = Reduce("m", "f32", "max", "a")
    assert body(kernel("k", (60,), load("a", "x", 1), fold, store("y", "1.0f", 1))) == (store("y", "1.0f", 1),)


def test_bodies_may_use_one_name_for_their_own_variables():
    step = phases(
        "k",
        (6, 10),
        ((load("a", "x", 10, 0),), (load("b", "x", 10, 1), Reduce("m", "f32", "sum", "b"))),
        ((), (load("b", "y", 10, 1), add("c", "b", "m"), add("d", "c", "a"), store("y", "d", 10, 1))),
    )
    first, second = simple(step).phases
    assert [s.var for s in (*first.head, *first.body)] == ["a", "b", "m"]
    assert [s.var for s in second.body[:-1]] == ["b'2", "c", "d"]
    assert second.body[1].expr.args == ("b'2", "m")
    assert nest.hint("b'2") == "b"


def test_a_sum_into_one_element_per_row_becomes_a_fold():
    total = Accumulate(Access("s", (0, 0)), "sum", "a")
    step = kernel("k", (6, 10), load("a", "x", 20, 1), total, accumulators=(Accumulator("s", "sum", scratch="s64"),))
    first, second = simple(step).phases
    assert first.body[1] == Reduce("a_sum'0_0", "f64", "sum", "a")
    assert second.head == (Accumulate(Access("s", (0, 0)), "sum", "a_sum'0_0"),)
    for kept in (Accumulate(Access("s", (0, 1)), "sum", "a"), Accumulate(Access("s", (0, 0)), "prod", "a")):
        step = kernel("k", (6, 10), load("a", "x", 20, 1), kept, accumulators=(Accumulator("s", kept.op),))
        assert len(simple(step).phases) == 1


def product(batch, m, a, b, c, more=()):
    terms = (Term(Access("x", a), Access("w", b), 7),)
    return Gemm("g", "f32", batch, m, 5, terms, "acc", (*more, store("y", "acc", *c)))


@pytest.mark.parametrize(
    "batch, a, b, c, merged",
    [
        ((2, 3), (84, 28, 7, 1), (0, 0, 5, 1), (60, 20, 5, 1), ((), 24)),
        ((2, 3), (84, 28, 7, 1), (35, 0, 5, 1), (60, 20, 5, 1), ((2,), 12)),
        ((2, 3), (84, 28, 7, 1), (0, 35, 5, 1), (60, 20, 5, 1), ((2, 3), 4)),
        ((2, 3), (84, 28, 7, 1), (0, 0, 5, 1), (60, 5, 15, 1), ((2, 3), 4)),
        ((1, 3), (99, 35, 7, 1), (99, 35, 5, 1), (99, 20, 5, 1), ((3,), 4)),
        ((B,), (28, 7, 1), (0, 5, 1), (20, 5, 1), ((), Dim(0, "B", 9, 4))),
    ],
)
def test_batch_axes_become_rows(batch, a, b, c, merged):
    found = nest.gemm_axes(product(batch, 4, a, b, c))
    assert (found.batch, found.m) == merged
    assert len(found.epilogue[0].access.strides) == len(found.batch) + 2


def test_a_counted_batch_axis_stays():
    more = (Counter("n", 0), store("z", "n", 20, 5, 1))
    assert nest.gemm_axes(product((3,), 4, (28, 7, 1), (0, 5, 1), (20, 5, 1), more)).batch == (3,)


def test_terms_that_add_nothing_go():
    terms = (Term(Access("x", (0, 1)), Access("w", (5, 1)), 0), Term(Access("x", (7, 1)), Access("w", (5, 1)), 7))
    gemm = Gemm("g", "f32", (), 4, 5, terms, "acc", (store("y", "acc", 5, 1),))
    assert nest.gemm_statements(gemm, str).terms == terms[1:]
    unread = Gemm("g", "f32", (), 4, 5, terms, "acc", (store("y", "1.0f", 5, 1),))
    assert nest.gemm_statements(unread, str).terms == ()
    empty = Gemm("g", "f32", (0,), 4, 5, (), "acc", (store("y", "acc", 0, 5, 1),))
    assert nest.gemm_statements(empty, str).epilogue == ()

"""Programs that must pass the check: what each law still allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from gtensor.codegen.cexpr import DTYPES, RANGES, REDUCERS, Expr, literal
from gtensor.codegen.check import check
from gtensor.codegen.program import Access, Accumulator, Assign, Reduce, Term
from tests.codegen.by_hand import (
    CHECKED,
    COPY,
    WRITE,
    B,
    I,
    X,
    Y,
    add,
    body,
    gemm,
    inp,
    kernel,
    load,
    make,
    out,
    row,
    state,
    store,
    sums,
    two,
    work,
)
from tests.codegen.random_programs import programs

FOUR = (work("h", (4, 8)), Y)
FILL = kernel("w", (32,), store("h", "1.0f", 1))

LAWFUL = {
    "copy": make([X, Y], [COPY]),
    "nothing": make([], []),
    "scalar": body(
        load("a", "s", 0),
        store("y", "a", 0),
        space=(1,),
        buffers=(inp("s", ()), out("y", ())),
    ),
    "any stride on an axis of length one": body(load("a", "x", 99, 1), store("y", "a", 99, 1), space=(1, 8)),
    "reversed and transposed": body(load("a", "x", -1, -8, at=31), store("y", "a", 1, 8), space=(8, 4)),
    "empty loops touch nothing": body(load("a", "x", 8, 1, at=99), store("y", "a", 8, 1), space=(0, 8)),
    "run-time rows": body(
        load("a", "v", 4, 1), store("y", "a", 4, 1), space=(B, 4), buffers=(inp("v", (B, 4)), out("y", (B, 4)))
    ),
    "run-time columns": body(
        load("a", "v", B, 1), store("y", "a", B, 1), space=(4, B), buffers=(inp("v", (4, B)), out("y", (4, B)))
    ),
    "part of a longer array": body(
        load("a", "v", 1), store("y", "a", 1), space=(B,), buffers=(inp("v", (6,)), out("y", (B,)))
    ),
    "row buffer read backwards": two(
        ((), (load("a", "x", 8, 1), store("r", "a", 0, 1))),
        ((), (load("b", "r", 0, -1, at=7), store("y", "b", 8, 1))),
        buffers=(X, row("r", (8,)), Y),
    ),
    "row buffer read by index": two(
        ((), (load("a", "x", 8, 1), store("r", "a", 0, 1))),
        (CHECKED, (load("b", "r", 0, 0, index=(("j", 2),)), store("y", "b", 8, 1))),
        buffers=(X, I, row("r", (8,)), Y),
    ),
    "own row of a result": two(((), (WRITE,)), ((load("a", "y", 8, 0, at=3),), ())),
    "one name in two bodies": two(((), (load("a", "x", 8, 1),)), ((), (load("a", "x", 8, 1), store("y", "a", 8, 1)))),
    "reduction read later": two(
        ((), (load("a", "x", 8, 1), Reduce("m", "f32", "max", "a"))), ((store("y", "m", 8, 0),), ())
    ),
    "the same element, then overwritten": make(
        FOUR[1:], [kernel("w", (32,), store("y", "1.0f", 1)), kernel("k", (32,), load("a", "y", 1), store("y", "a", 1))]
    ),
    "rows apart": make(
        FOUR,
        [FILL, kernel("k", (8,), load("a", "h", 1), store("h", "a", 1, at=8), store("y", "a", 1))],
    ),
    "columns apart": make(
        FOUR, [FILL, kernel("k", (4, 4), load("a", "h", 8, 1), store("h", "a", 8, 1, at=4), store("y", "a", 8, 1))]
    ),
    "even and odd": make(
        FOUR, [FILL, kernel("k", (16,), load("a", "h", 2), store("h", "a", 2, at=1), store("y", "a", 1))]
    ),
    "a row after the one read, by products": gemm(
        store("h", "acc", 8, 1, at=8),
        store("y", "acc", 8, 1),
        terms=(Term(Access("h", (8, 1)), Access("w", (8, 1)), 8),),
        buffers=(inp("w", (8, 8)), *FOUR),
        steps=(replace(FILL, name="f"),),
        m=1,
    ),
    "pieces": make([Y], [kernel(f"k{i}", (16,), store("y", "1.0f", 1, at=16 * i)) for i in (0, 1)]),
    "pieces of one step": body(store("y", "1.0f", 8, 1), store("y", "2.0f", 8, 1, at=4), space=(4, 4)),
    "a later phase that overwrites another element": two(((), (WRITE,)), ((), (store("y", "2.0f", 8, -1, at=7),))),
    "own row, then overwritten": two(((), (WRITE,)), ((), (load("a", "y", 8, 1), store("y", "a", 8, 1)))),
    "epilogue": gemm(load("r", "x", 8, 1), add("s", "acc", "r"), store("y", "s", 8, 1)),
    "sum in an epilogue": gemm(
        sums("s", "acc", 0, 1),
        buffers=(X, inp("w", (8, 8), 1), out("s", (8,)), work("wide", (8,), "f64")),
        accumulators=(Accumulator("s", "sum", scratch="wide"),),
    ),
    "batched product": gemm(
        store("y", "acc", 32, 8, 1),
        terms=(Term(Access("x", (32, 8, 1)), Access("w", (0, 8, 1)), 8),),
        buffers=(inp("x", (2, 4, 8)), inp("w", (8, 8), 1), out("y", (2, 4, 8))),
        batch=(2,),
    ),
    "scratch of a product": gemm(buffers=(X, inp("w", (8, 8), 1), Y, work("s", (4, 8))), scratch="s", route="blas"),
    "output over an input": make([X, out("y", (4, 8), alias="x")], [COPY]),
    "output over a state, without slot": make(
        [state("s", (4,)), out("y", (4,), -1, alias="s")], [kernel("k", (4,), load("a", "s", 1), store("y", "a", 1))]
    ),
    "commit": make([X, out("y", (4, 8), alias="x")], [COPY, kernel("c", (32,), load("a", "y", 1), store("x", "a", 1))]),
    "loss": make([out("l", (1, 1))], [kernel("k", (1,), store("l", "1.0f", 0))], loss="l"),
    "condition of its own dtype": body(
        load("a", "x", 8, 1),
        Assign("c", "b1", Expr("({0} > {1})", ("a", "0.0f"), "f32", "b1")),
        Assign("b", "f32", Expr("({0} ? {1} : {2})", ("c", "a", "-INFINITY"), "f32", "f32")),
        store("y", "b", 8, 1),
    ),
}


@pytest.mark.parametrize("case", LAWFUL)
def test_lawful(case):
    check(LAWFUL[case])


@pytest.mark.parametrize("tag", DTYPES)
def test_every_literal_may_be_stored(tag):
    lowest, above = RANGES.get(tag, (-(2**31), 2**31))
    values = [0, 1, lowest, above - 1]
    values += [0.1, -1e-30, 1e30, 3.0, float("inf"), -float("inf"), float("nan")] if tag[0] == "f" else []
    texts = {literal(value, tag) for value in values} | {r.initial(tag) for r in REDUCERS.values()}
    for text in texts:
        check(make([out("y", (), 0, tag)], [kernel("k", (1,), store("y", text, 0))]))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_are_lawful(program):
    check(program)

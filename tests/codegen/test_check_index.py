"""Run-time indices: which variables may index, and which programs are refused."""

from __future__ import annotations

import pytest

from gtensor.codegen.cexpr import WRAP, Expr
from gtensor.codegen.check import check
from gtensor.codegen.errors import ProgramError
from gtensor.codegen.program import Assign, Check, Counter, Dim, Reduce
from tests.codegen.by_hand import (
    CHECKED,
    WRITE,
    B,
    I,
    X,
    Y,
    body,
    inp,
    kernel,
    load,
    make,
    out,
    phases,
    store,
    two,
    work,
)

BAD_DIM = Dim(1, "C", 3)
GATHER = load("a", "x", 0, 1, index=(("j", 8),))

REFUSED = {
    "index of nothing": (body(load("a", "x", 0, 1, index=(("j", 8),))), "f32 a = x[i1 + 8*j]: 'j' is not a variable"),
    "index without check": (
        body(load("j", "i", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),))),
        "k: f32 a = x[i1 + 8*j]: the index 'j' has passed no Check",
    ),
    "index that is no integer": (
        body(load("j", "x", 8, 1), load("a", "x", 0, 1, index=(("j", 8),))),
        "the index 'j' is f32, not an integer",
    ),
    "index checked too widely": (
        body(load("j", "i", 1, 0, dtype="i64"), Check("j", 0, 5, 0), load("a", "x", 0, 1, index=(("j", 8),))),
        "reads outside 'x' of shape [4, 8]",
    ),
    "index checked down to -1": (
        body(load("j", "i", 1, 0, dtype="i64"), Check("j", -1, 4, 0), load("a", "x", 0, 1, index=(("j", 8),))),
        "reads outside 'x' of shape [4, 8]",
    ),
    "index with a stride too wide": (
        body(*CHECKED, load("a", "x", 0, 1, index=(("j", 9),))),
        "reads outside 'x' of shape [4, 8]",
    ),
    "index that the step overwrites": (
        make(
            [X, work("h", (4,), "i64"), I, Y],
            [
                kernel("w", (4,), store("h", "9", 1)),
                kernel("c", (4,), load("j", "h", 1, dtype="i64"), Check("j", 0, 4, 0), store("h", "9", 1)),
                kernel("k", (4, 8), load("j", "h", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),)), WRITE),
            ],
        ),
        "the index 'j' has passed no Check",
    ),
    "index stored among others": (
        make(
            [X, work("h", (4,), "i64"), I, Y],
            [
                phases(
                    "c",
                    (4,),
                    ((), (load("j", "i", 1, dtype="i64"), Check("j", 0, 4, 0), store("h", "j", 1))),
                    ((), (store("h", "9", 1),)),
                ),
                kernel("k", (4, 8), load("j", "h", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),)), WRITE),
            ],
        ),
        "the index 'j' has passed no Check",
    ),
    "check in a row that may be empty": (
        make(
            [X, I, Y],
            [
                phases("c", (4, B), ((load("j", "i", 1, 0, dtype="i64"),), (Check("j", 0, 4, 0),))),
                kernel("k", (4, 8), load("j", "i", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),)), WRITE),
            ],
        ),
        "the index 'j' has passed no Check",
    ),
    "index counted from the front but too far": (
        body(
            load("r", "i", 1, 0, dtype="i64"),
            Check("r", -5, 4, 0),
            Assign("j", "i64", Expr(WRAP, ("r", "INT64_C(4)"), "i64", "i64")),
            load("a", "x", 0, 1, index=(("j", 8),)),
        ),
        "the index 'j' has passed no Check",
    ),
    "index counted from the front of a longer axis": (
        body(
            load("r", "i", 1, 0, dtype="i64"),
            Check("r", -5, 5, 0),
            Assign("j", "i64", Expr(WRAP, ("r", "INT64_C(4)"), "i64", "i64")),
            load("a", "x", 0, 1, index=(("j", 8),)),
        ),
        "the index 'j' has passed no Check",
    ),
    "index counted from the front of an axis that is longer than the buffer": (
        body(
            load("r", "i", 1, 0, dtype="i64"),
            Check("r", -5, 5, 0),
            Assign("j", "i64", Expr(WRAP, ("r", "5"), "i64", "i64")),
            load("a", "x", 0, 1, index=(("j", 8),)),
        ),
        "reads outside 'x' of shape [4, 8]",
    ),
    "check after the access": (
        body(load("j", "i", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),)), Check("j", 0, 4, 0)),
        "the index 'j' has passed no Check",
    ),
    "check in another body": (
        two(
            ((load("j", "i", 1, 0, dtype="i64"),), (Check("j", 0, 4, 0), WRITE)),
            ((), (load("a", "x", 0, 1, index=(("j", 8),)),)),
        ),
        "the index 'j' has passed no Check",
    ),
    "check of the first elements only": (
        make(
            [X, I, Y],
            [
                kernel("c", (3,), load("j", "i", 1, dtype="i64"), Check("j", 0, 4, 0)),
                kernel("k", (4, 8), load("j", "i", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),)), WRITE),
            ],
        ),
        "the index 'j' has passed no Check",
    ),
    "check of a buffer that changes": (
        make(
            [X, work("h", (4,), "i64"), I, Y],
            [
                kernel("w", (4,), store("h", "1", 1)),
                kernel("c", (4,), load("j", "h", 1, dtype="i64"), Check("j", 0, 4, 0)),
                kernel("v", (1,), store("h", "9", 1)),
                kernel("k", (4, 8), load("j", "h", 1, 0, dtype="i64"), load("a", "x", 0, 1, index=(("j", 8),)), WRITE),
            ],
        ),
        "the index 'j' has passed no Check",
    ),
    "position in an empty row": (
        two(
            ((), (load("a", "v", 1), Reduce("p", "i64", "argmax", "a"))),
            ((load("b", "v", 0, index=(("p", 1),)),), ()),
            space=(B,),
            buffers=(inp("v", (B,)), out("y", ())),
        ),
        "the index 'p' has passed no Check",
    ),
    "check of nothing": (
        body(Check("j", 0, 4, 0)),
        "check 0 <= j < 4, else eqn 0 fails: 'j' is not an integer variable",
    ),
    "check of a float": (body(load("j", "x", 8, 1), Check("j", 0, 4, 0)), "'j' is not an integer variable in scope"),
    "check up to an unknown dimension": (
        body(load("j", "i", 1, 0, dtype="i64"), Check("j", 0, BAD_DIM, 0)),
        "dimension 'C' is not one of the program's",
    ),
    "check of an unknown equation": (
        body(load("j", "i", 1, 0, dtype="i64"), Check("j", 0, 4, 1)),
        "check 0 <= j < 4, else eqn 1 fails: there is no equation 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    program, message = REFUSED[case]
    with pytest.raises(ProgramError) as error:
        check(program)
    assert message in str(error.value)


LAWFUL = {
    "index checked": body(*CHECKED, GATHER, store("y", "a", 8, 1)),
    "index checked in the head": two((CHECKED, (GATHER, store("y", "a", 8, 1)))),
    "index checked in an earlier head": two((CHECKED, ()), ((), (GATHER, store("y", "a", 8, 1)))),
    "index checked twice": body(
        load("j", "i", 1, 0, dtype="i64"), Check("j", 0, 9, 0), Check("j", -9, 4, 0), GATHER, store("y", "a", 8, 1)
    ),
    "index checked by an earlier step": make(
        [X, I, Y],
        [
            kernel("c", (4,), load("j", "i", 1, dtype="i64"), Check("j", 0, 4, 0)),
            kernel("k", (4, 8), load("j", "i", 1, 0, dtype="i64"), GATHER, store("y", "a", 8, 1)),
        ],
    ),
    "index stored by an earlier step": make(
        [X, I, work("h", (4,), "i64"), Y],
        [
            kernel("c", (4,), load("j", "i", 1, dtype="i64"), Check("j", 0, 4, 0), store("h", "j", 1)),
            kernel("k", (4, 8), load("j", "h", 1, 0, dtype="i64"), GATHER, store("y", "a", 8, 1)),
        ],
    ),
    "copy of an index checked by an earlier step": make(
        [X, I, Y],
        [
            kernel(
                "c",
                (4,),
                load("r", "i", 1, dtype="i64"),
                Assign("c0", "i64", Expr("{0}", ("r",), "i64", "i64")),
                Check("c0", 0, 4, 0),
            ),
            kernel("k", (4, 8), load("j", "i", 1, 0, dtype="i64"), GATHER, store("y", "a", 8, 1)),
        ],
    ),
    "index of run-time extent": body(
        load("j", "i", 1, dtype="i64"),
        Check("j", 0, B, 0),
        load("a", "v", 0, index=(("j", 1),)),
        store("y", "a", 1),
        space=(4,),
        buffers=(inp("v", (B,)), I, out("y", (4,))),
    ),
    "copy of an index, counted from the front": body(
        load("r", "i", 1, 0, dtype="i64"),
        Assign("c", "i64", Expr("{0}", ("r",), "i64", "i64")),
        Check("c", -4, 4, 0),
        Assign("j", "i64", Expr(WRAP, ("c", "INT64_C(4)"), "i64", "i64")),
        GATHER,
        store("y", "a", 8, 1),
    ),
    "variable with a mark": body(load("x'", "x", 8, 1), load("x'2", "x", 8, 1), store("y", "x'2", 8, 1)),
    "counter as index": body(Counter("j", 0), GATHER, store("y", "a", 8, 1)),
    "position as index": two(
        ((), (load("a", "x", 8, 1), Reduce("p", "i64", "argmax", "a"))),
        ((load("b", "x", 8, 0, index=(("p", 1),)),), (store("y", "b", 8, 1),)),
    ),
}


@pytest.mark.parametrize("case", LAWFUL)
def test_lawful(case):
    check(LAWFUL[case])

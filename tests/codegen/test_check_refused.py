"""Programs that must be refused, and the message for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.check import check
from gtensor.codegen.errors import ProgramError
from gtensor.codegen.program import Access, Accumulator, Array, Assign, Counter, Dim, Gemm, Reduce, Term
from tests.codegen.by_hand import (
    COPY,
    WRITE,
    B,
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

BAD_DIM = Dim(1, "C", 3)


def taken_over(target, output):
    return make([target, output], [])


REFUSED = {
    # ---- names
    "program name": (replace(make([X, Y], [COPY]), name="2x"), "the program's name '2x' is not a C identifier"),
    "buffer name": (make([inp("a.b", (4,))], []), "the name 'a.b' is not a C identifier"),
    "keyword": (make([inp("for", (4,))], []), "the name 'for' is not a C identifier"),
    "reserved": (make([inp("gt_x", (4,))], []), "the name 'gt_x' is not a C identifier"),
    "buffer twice": (make([X, work("x", (4,))], []), "the name 'x' is used twice"),
    "step like a buffer": (make([X, Y], [replace(COPY, name="x")]), "the name 'x' is used twice"),
    "two steps": (make([X, Y], [COPY, COPY]), "the name 'k' is used twice"),
    "dimension like a buffer": (make([inp("B", (4,))], []), "the name 'B' is used twice"),
    # ---- extents, dtypes, roles
    "index of a dimension": (make([], [], dims=(BAD_DIM,)), "dimension 'C' must have index 0, factor 1"),
    "factor of a dimension": (make([], [], dims=(replace(B, factor=2),)), "dimension 'B' must have index 0, factor 1"),
    "unknown dimension": (
        make([inp("x", (BAD_DIM, 2))], []),
        "shape [C, 2] of 'x': dimension 'C' is not one of the program's",
    ),
    "other bound": (make([inp("x", (replace(B, bound=9),))], []), "dimension 'B' is not one of the program's"),
    "negative shape": (make([inp("x", (-1,))], []), "shape [-1] of 'x': -1 is negative"),
    "negative factor": (make([inp("x", (replace(B, factor=-2),))], []), "shape [-2*B] of 'x': -2*B is negative"),
    "factor of nothing": (make([inp("x", (replace(B, factor=0),))], []), "dimension 'B' is not one of the program's"),
    "unknown dtype": (make([inp("x", (4,), 0, "f8")], []), "'x' has the unknown dtype 'f8'"),
    "unknown role": (make([replace(X, role="temp")], []), "'x' has the unknown role 'temp'"),
    "negative loop": (body(WRITE, space=(-4, 8)), "k: loop extent -4 is negative"),
    "loop over an unknown dimension": (
        body(store("y", "1.0f", 0), space=(BAD_DIM,)),
        "k: loop extent dimension 'C' is not one of the program's",
    ),
    "no axes": (body(space=()), "k: has a space without axes; a scalar kernel has space (1,)"),
    # ---- slots and arrays
    "gap in slots": (make([inp("x", (4,), 1)], []), "the slots of input buffers are [1], not [0]"),
    "slot twice": (
        make([inp("x", (4,)), inp("z", (4,))], []),
        "the slots of input buffers are [0, 0], not [0, 1]",
    ),
    "output without slot": (make([out("y", (4,), -1)], []), "the slots of output buffers are [-1], not []"),
    "work with slot": (make([replace(work("h", (4,)), slot=0)], []), "the slots of work buffers are [0], not []"),
    "array too many": (
        make([X], [], inputs=(Array("x", "f32", (4, 8)),) * 2),
        "the slots of input buffers are [0], not [0, 1]",
    ),
    "array of another type": (
        make([X], [], inputs=(Array("x", "f64", (4, 8)),)),
        "input 0 is told as f64[4, 8] but its buffer 'x' is f32[4, 8]",
    ),
    "loss of two elements": (
        make([X, Y], [COPY], loss="y"),
        "the loss 'y' is not an output of one element",
    ),
    "loss that is no output": (make([inp("x", ())], [], loss="x"), "the loss 'x' is not an output of one element"),
    "loss that is nothing": (make([], [], loss="l"), "the loss 'l' is not an output of one element"),
    # ---- aliases
    "alias of nothing": (taken_over(X, out("y", (4, 8), alias="z")), "'y' takes over 'z': only an output may"),
    "alias of a work buffer": (
        taken_over(work("h", (4,)), out("y", (4,), alias="h")),
        "'y' takes over 'h': only an output may, of an input or state",
    ),
    "alias of a work buffer over an input": (
        taken_over(X, replace(work("h", (4, 8)), alias="x")),
        "'h' takes over 'x': only an output may, of an input or state",
    ),
    "alias of another shape": (
        taken_over(X, out("y", (8, 4), alias="x")),
        "'y' takes over 'x', which has another dtype or shape",
    ),
    "alias of another dtype": (
        taken_over(X, out("y", (4, 8), 0, "i32", alias="x")),
        "'y' takes over 'x', which has another dtype or shape",
    ),
    "two outputs over one input": (
        make([X, out("y", (4, 8), alias="x"), out("z", (4, 8), 1, alias="x")], []),
        "'z' takes over 'x', which another output takes over",
    ),
    # ---- accesses
    "no such buffer": (body(load("a", "q", 8, 1)), "k: f32 a = q[8*i0 + i1]: there is no buffer 'q'"),
    "too few strides": (body(load("a", "x", 1)), "k: f32 a = x[i0]: has 1 strides for 2 axes"),
    "too many strides": (body(load("a", "x", 1, 1, 1)), "has 3 strides for 2 axes"),
    "past the end": (
        body(load("a", "x", 8, 1, at=1)),
        "k: f32 a = x[8*i0 + i1 + 1]: reads outside 'x' of shape [4, 8]",
    ),
    "before the start": (body(load("a", "x", 8, -1, at=6)), "reads outside 'x' of shape [4, 8]"),
    "store past the end": (body(store("y", "1.0f", 8, 2)), "k: y[8*i0 + 2*i1] = 1.0f: writes outside 'y'"),
    "sum past the end": (
        body(sums("y", "1.0f", 9, 1), accumulators=[Accumulator("y", "sum")]),
        "y[9*i0 + i1] = sum(itself, 1.0f): writes outside 'y'",
    ),
    "past the end at the bound": (
        body(load("a", "x", 1), space=(B,), buffers=(inp("x", (5,)), out("y", ()))),
        "k: f32 a = x[i0]: reads outside 'x' of shape [5]",
    ),
    "past the end below the bound": (
        body(load("a", "x", 1), space=(6,), buffers=(inp("x", (B,)), out("y", ()))),
        "reads outside 'x' of shape [B]",
    ),
    "one element of an empty array": (
        body(load("a", "x", 0), space=(1,), buffers=(inp("x", (B,)), out("y", ()))),
        "reads outside 'x' of shape [B]",
    ),
    "stride of an unknown dimension": (body(load("a", "x", BAD_DIM, 1)), "dimension 'C' is not one of the program's"),
    "stride along the row in a head": (
        two(((load("a", "x", 8, 1),), ())),
        "k: f32 a = x[8*i0 + i1]: has a stride along the row, but a head runs once per row",
    ),
    # ---- variables
    "variable name": (body(load("a-b", "x", 8, 1)), "the variable 'a-b' is not a C identifier"),
    "variable like a buffer": (body(load("x", "x", 8, 1)), "the variable 'x' has the name of a buffer of this step"),
    "variable like a dimension": (
        body(load("B", "x", 8, 1)),
        "the variable 'B' has the name of a buffer of this step or of a dim",
    ),
    "variable twice": (body(load("a", "x", 8, 1), load("a", "x", 8, 1)), "the variable 'a' is defined twice"),
    "body variable like one of the head": (
        two(((load("a", "x", 8, 0),), (load("a", "x", 8, 1),))),
        "the variable 'a' is defined twice",
    ),
    "variable like a reduction of its phase": (
        body(load("a", "x", 8, 1), Reduce("m", "f32", "sum", "a"), load("m", "x", 8, 1)),
        "the variable 'm' is defined twice",
    ),
    "reduction of an unknown dtype": (body(Reduce("m", "f8", "sum", "1")), "there is no reducer 'sum' of f8"),
    "reduction of floats of 16 bits": (
        body(Reduce("m", "bf16", "sum", "1.0f")),
        "folds floats of 16 bits, which are only stored",
    ),
    "accumulator of floats of 16 bits": (
        make(
            [inp("x", (4,), 0, "f16"), out("y", (), 0, "f16")],
            [
                kernel(
                    "k",
                    (4,),
                    load("a", "x", 1, dtype="f16"),
                    sums("y", "a", 0),
                    accumulators=(Accumulator("y", "sum"),),
                )
            ],
        ),
        "the accumulator 'y' folds floats of 16 bits, which are only stored",
    ),
    "variable of an unknown dtype": (
        body(Assign("b", "f8", Expr("{0}", ("1.0f",), "f32", "f8"))),
        "'b' has the unknown dtype 'f8'",
    ),
    "undefined value": (
        body(store("y", "a", 8, 1)),
        "y[8*i0 + i1] = a: 'a' is neither a variable in scope nor a literal of f32",
    ),
    "undefined argument": (
        body(add("b", "a", "1.0f")),
        "k: f32 b = gt_add_f32(a, 1.0f): 'a' is neither a variable in scope nor a literal",
    ),
    "body variable in a later body": (
        two(((), (load("a", "x", 8, 1),)), ((), (store("y", "a", 8, 1),))),
        "'a' is neither a variable in scope",
    ),
    "body variable in a later head": (
        two(((), (load("a", "x", 8, 1),)), ((store("y", "a", 8, 0),), ())),
        "'a' is neither a variable in scope",
    ),
    "reduction in its own body": (
        body(load("a", "x", 8, 1), Reduce("m", "f32", "sum", "a"), store("y", "m", 8, 1)),
        "'m' is neither a variable in scope",
    ),
    "counter of no axis": (body(Counter("c", 2)), "k: i64 c = i2: there is no counter of axis 2 here"),
    "counter of the row in a head": (two(((Counter("c", 1),), ())), "there is no counter of axis 1 here"),
    # ---- dtypes
    "load of another dtype": (body(load("a", "x", 8, 1, dtype="f64")), "f64 a = x[8*i0 + i1]: loads f32 as f64"),
    "store of another dtype": (
        body(load("j", "i", 1, 0, dtype="i64"), store("y", "j", 8, 1)),
        "y[8*i0 + i1] = j: 'j' is i64, not f32",
    ),
    "store of a double": (body(store("y", "0.1", 8, 1)), "'0.1' is neither a variable in scope nor a literal of f32"),
    "result of another dtype": (
        body(Assign("b", "f64", Expr("({0} + {1})", ("1.0f", "1.0f"), "f32", "f32"))),
        "an expression from f32 to f32 is assigned to f64",
    ),
    "argument of another dtype": (
        body(load("a", "x", 8, 1), add("b", "a", "a", dtype="f64")),
        "f64 b = gt_add_f64(a, a): 'a' is f32, not f64",
    ),
    "template without argument": (
        body(Assign("b", "f32", Expr("f({0}, {1})", ("1.0f",), "f32", "f32"))),
        "k: f32 b = 'f({0}, {1})' of (1.0f): the template 'f({0}, {1})' does not fit its 1 arguments",
    ),
    "template with an unknown field": (
        body(Assign("b", "f32", Expr("f_{q}({0})", ("1.0f",), "f32", "f32"))),
        "the template 'f_{q}({0})' does not fit its 1 arguments",
    ),
    # ---- reductions and accumulators
    "reduction in a head": (two(((Reduce("m", "f32", "sum", "1.0f"),), ())), "reduces outside the body of a phase"),
    "unknown reducer": (body(Reduce("m", "f32", "mean", "1.0f")), "there is no reducer 'mean' of f32"),
    "reduction of another dtype": (
        body(load("a", "x", 8, 1), Reduce("m", "f64", "sum", "a")),
        "f64 m = sum(a): 'a' is f32, not f64",
    ),
    "position of another dtype": (
        body(load("a", "x", 8, 1), Reduce("m", "f32", "argmax", "a")),
        "a position is i64, not f32",
    ),
    "accumulator undeclared": (
        body(sums("y", "1.0f", 8, 1)),
        "k: y[8*i0 + i1] = sum(itself, 1.0f): 'y' is not declared as an accumulator of 'sum'",
    ),
    "accumulator of another reducer": (
        body(sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "max")]),
        "'y' is not declared as an accumulator of 'sum'",
    ),
    "accumulator twice": (
        body(sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum")] * 2),
        "k: declares an accumulator or its scratch twice",
    ),
    "accumulator unused": (body(WRITE, accumulators=[Accumulator("y", "sum")]), "k: the accumulator 'y' is not used"),
    "accumulator of a position": (
        body(sums("y", "1.0f", 8, 1, op="argmax"), accumulators=[Accumulator("y", "argmax")]),
        "the accumulator of 'y' cannot be 'argmax' from 'identity'",
    ),
    "accumulator from elsewhere": (
        body(sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum", "zero")]),
        "the accumulator of 'y' cannot be 'sum' from 'zero'",
    ),
    "accumulator read": (
        two(((), (sums("y", "1.0f", 8, 1),)), ((), (load("a", "y", 8, 1),)), accumulators=[Accumulator("y", "sum")]),
        "'y' is summed in this step and can be used by later ones only",
    ),
    "accumulator stored": (
        body(WRITE, sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum")]),
        "'y' is summed in this step and can be used by later ones only",
    ),
    "accumulator keeps nothing": (
        body(sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum", "keep")]),
        "the accumulator 'y' keeps what was never written",
    ),
    "accumulator in a row buffer": (
        body(sums("r", "1.0f", 0, 1), WRITE, buffers=(Y, row("r", (8,))), accumulators=[Accumulator("r", "sum")]),
        "the row buffer 'r' cannot be an accumulator",
    ),
    "narrow scratch": (
        body(
            sums("y", "1.0", 8, 1),
            buffers=(out("y", (4, 8), 0, "f64"), work("s", (4, 8))),
            accumulators=[Accumulator("y", "sum", scratch="s")],
        ),
        "the scratch 's' is not a work buffer of f64 or wider",
    ),
    "scratch of another shape": (
        body(
            sums("y", "1.0f", 8, 1),
            buffers=(Y, work("s", (32,), "f64")),
            accumulators=[Accumulator("y", "sum", scratch="s")],
        ),
        "the scratch 's' has another shape than 'y'",
    ),
    "scratch that is an input": (
        body(sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum", scratch="x")]),
        "the scratch 'x' is not a work buffer",
    ),
    "scratch read": (
        body(
            sums("y", "1.0f", 8, 1),
            load("a", "s", 8, 1, dtype="f64"),
            buffers=(Y, work("s", (4, 8), "f64")),
            accumulators=[Accumulator("y", "sum", scratch="s")],
        ),
        "'s' is scratch memory of a step",
    ),
    "scratch used for a value later": (
        make(
            [Y, work("s", (4, 8))],
            [
                kernel("k", (4, 8), sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum", scratch="s")]),
                kernel("w", (32,), store("s", "1.0f", 1)),
            ],
        ),
        "w: s[i0] = 1.0f: 's' is scratch memory of a step",
    ),
    "scratch with a value": (
        make(
            [Y, work("s", (4, 8))],
            [
                kernel("w", (32,), store("s", "1.0f", 1)),
                kernel("k", (4, 8), sums("y", "1.0f", 8, 1), accumulators=[Accumulator("y", "sum", scratch="s")]),
            ],
        ),
        "k: the scratch 's' holds a value",
    ),
    # ---- what is written, and when
    "output never written": (make([X, Y], []), "output 'y' is never written"),
    "read of an unwritten buffer": (
        body(load("a", "h", 8, 1), WRITE, buffers=(Y, work("h", (4, 8)))),
        "k: f32 a = h[8*i0 + i1]: reads 'h' before it is written",
    ),
    "read of an output written later": (
        make([X, Y, out("z", (4, 8), 1)], [kernel("j", (4, 8), load("a", "y", 8, 1), store("z", "a", 8, 1)), COPY]),
        "j: f32 a = y[8*i0 + i1]: reads 'y' before it is written",
    ),
    "operand that is not written": (
        gemm(buffers=(X, work("w", (8, 8)), Y)),
        "g: sum(k < 8) x[8*i0 + i1] * w[8*i0 + i1]: reads 'w' before it is written",
    ),
    "write to an input": (
        body(store("x", "1.0f", 8, 1)),
        "k: x[8*i0 + i1] = 1.0f: writes the input 'x', which no output takes over",
    ),
    "write to a state": (
        body(store("s", "1.0f", 8, 1), buffers=(state("s", (4, 8)), Y)),
        "writes the state 's', which no output takes over",
    ),
    "read of an overwritten input": (
        make(
            [X, out("y", (4, 8), alias="x"), out("z", (4, 8), 1)],
            [
                COPY,
                kernel("commit", (32,), load("a", "y", 1), store("x", "a", 1)),
                kernel("late", (32,), load("a", "x", 1), store("z", "a", 1)),
            ],
        ),
        "late: f32 a = x[i0]: reads 'x' after it was overwritten",
    ),
    # ---- order inside a step
    "read in the phase of the store": (
        body(WRITE, load("a", "y", 8, 1)),
        "k: f32 a = y[8*i0 + i1]: reads 'y' before it is written",
    ),
    "read in the body below the head that stores": (
        two(((store("h", "1.0f", 1, 0),), (load("a", "h", 1, 0), WRITE)), buffers=(Y, work("h", (4,)))),
        "k: f32 a = h[i0]: reads 'h' before it is written",
    ),
    "read of another row": (
        two(((), (WRITE,)), ((), (load("a", "y", -8, 1, at=24),))),
        "k: f32 a = y[-8*i0 + i1 + 24]: reads 'y' before it is written",
    ),
    "read of more than the row wrote": (
        two(
            ((), (store("y", "1.0f", 8, 1),)),
            ((), (load("a", "y", 8, 2),)),
            space=(4, 4),
        ),
        "reads 'y' before it is written",
    ),
    "read between what the row wrote": (
        two(((), (store("y", "1.0f", 8, 2),)), ((), (load("a", "y", 8, 1, at=1),)), space=(4, 4)),
        "reads 'y' before it is written",
    ),
    "read where the row may be empty": (
        two(
            ((), (store("r", "1.0f", 1),)),
            ((load("a", "r", 0), store("y", "a", 0)), ()),
            space=(B,),
            buffers=(row("r", (6,)), out("y", ())),
        ),
        "reads 'r' before it is written",
    ),
    "neighbour of what the step overwrites": (
        make(
            [Y],
            [
                kernel("w", (32,), store("y", "1.0f", 1)),
                kernel("k", (31,), load("a", "y", 1, at=1), add("b", "a", "a"), store("y", "b", 1)),
            ],
        ),
        "k: f32 a = y[i0 + 1]: reads elements of 'y' that 'y[i0] = b' of this step writes, neither in an earlier"
        " phase of the same row nor as the same element before",
    ),
    "operand that the epilogue overwrites": (
        gemm(
            store("h", "acc", 8, 1),
            terms=(Term(Access("h", (8, 1)), Access("w", (8, 1)), 8),),
            buffers=(inp("w", (8, 8)), work("h", (4, 8))),
            steps=(kernel("w0", (32,), store("h", "1.0f", 1)),),
        ),
        "reads elements of 'h' that 'h[8*m + n] = acc' of this step writes",
    ),
    "two stores that cross": (
        body(WRITE, store("y", "2.0f", 8, -1, at=7)),
        "k: y[8*i0 - i1 + 7] = 2.0f: writes elements of 'y' that the same phase writes too",
    ),
    "row buffer that keeps rows": (
        two(
            ((), (store("r", "1.0f", 8, 1),)),
            ((), (load("a", "r", 8, 1), store("y", "a", 8, 1))),
            buffers=(Y, row("r", (32,))),
        ),
        "k: r[8*i0 + i1] = 1.0f: row buffer 'r' holds one row, but the access moves from row to row",
    ),
    "row buffer of two steps": (
        make(
            [Y, row("r", (8,))],
            [
                kernel("j", (4, 8), store("r", "1.0f", 0, 1)),
                kernel("k", (4, 8), load("a", "r", 0, 1), store("y", "a", 8, 1)),
            ],
        ),
        "k: f32 a = r[i1]: row buffer 'r' is also used by 'j'",
    ),
    # ---- products
    "no terms": (make([Y], [Gemm("g", "f32", (), 4, 8, (), "acc", (store("y", "acc", 8, 1),))]), "g: has no terms"),
    "operand of another dtype": (
        gemm(buffers=(X, inp("w", (8, 8), 1, "f64"), Y)),
        "operand 'w' is f64, the product f32",
    ),
    "product of unknown dtype": (gemm(dtype="f8"), "g: has the unknown dtype 'f8' or route 'tile'"),
    "product of floats of 16 bits": (gemm(dtype="f16"), "g: has the unknown dtype 'f16' or route 'tile'"),
    "unknown route": (gemm(route="gpu"), "g: has the unknown dtype 'f32' or route 'gpu'"),
    "operand past its end": (gemm(n=9), "g: sum(k < 8) x[8*i0 + i1] * w[8*i0 + i1]: reads outside 'w' of shape [8, 8]"),
    "operand with too few strides": (gemm(batch=(2,)), "has 2 strides for 3 axes"),
    "negative k": (
        gemm(terms=(Term(Access("x", (8, 1)), Access("w", (8, 1)), -8),)),
        "loop extent -8 is negative",
    ),
    "operand with an index": (
        gemm(terms=(Term(Access("x", (8, 1), 0, (("acc", 8),)), Access("w", (8, 1)), 8),)),
        "'acc' is not a variable in scope",
    ),
    "epilogue without store": (gemm(load("a", "x", 8, 1)), "g: has an epilogue that stores nothing"),
    "reduction in an epilogue": (
        gemm(Reduce("m", "f32", "sum", "acc"), store("y", "acc", 8, 1)),
        "g: f32 m = sum(acc): reduces outside the body of a phase",
    ),
    "accumulator of a product as a variable": (
        gemm(load("acc", "x", 8, 1), store("y", "acc", 8, 1)),
        "g: f32 acc = x[8*m + n]: the variable 'acc' is defined twice",
    ),
    "epilogue past the end": (gemm(store("y", "acc", 9, 1)), "g: y[9*m + n] = acc: writes outside 'y' of shape [4, 8]"),
    "small scratch of a product": (
        gemm(buffers=(X, inp("w", (8, 8), 1), Y, work("s", (4, 7))), scratch="s"),
        "g: the scratch 's' of shape [4, 7] is too small",
    ),
    "scratch of a product that is an output": (gemm(scratch="y"), "'y' is scratch memory of a step"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    program, message = REFUSED[case]
    with pytest.raises(ProgramError) as error:
        check(program)
    assert message in str(error.value)
    steps = {step.name for step in program.steps}
    assert not error.value.step or error.value.step in steps

"""Loops written by hand for tests, and what they give by every way to execute them.

`recurrence` and `nested` make programs, `both` executes one in Python on memory apart and on planned memory, and
in C with sanitizers, and compares the results.
"""

from __future__ import annotations

import numpy as np

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.memory import plan
from gtensor.codegen.program import Access, Assign, Dim, Gemm, Repeat, Term
from tests.codegen.by_hand import ROWS as H
from tests.codegen.by_hand import (
    add,
    copy,
    inp,
    load,
    make,
    out,
    piece,
    plus,
    store,
    work,
)
from tests.codegen.c_model import NATIVE, SANITIZE, run
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


def recurrence(count=5, rows=5, reverse=False):
    """The last h and all h of h = tanh(h @ w + x[t])."""
    buffers = [inp("x", (rows, *H)), inp("h0", H, 1), inp("w", (8, 8), 2), out("ys", (rows, *H)), out("last", H, 1)]
    buffers += [work("h", H), work("h_next", H), piece("x_t", "x"), piece("y_t", "ys")]
    inner = (cell("cell", "h", "h_next"), copy("stack", "h_next", "y_t"))
    loop = Repeat("scan", count, inner, (("h", "h_next"),), ("x_t", "y_t"), reverse, ("h = tanh(h @ w + x)",))
    dims = (T,) if T in (count, rows) else ()
    return make(buffers, [copy("start", "h0", "h"), loop, copy("end", "h", "last")], dims=dims)


def by_numpy(x, h, w, count, reverse):
    ys = np.zeros_like(x)
    for t in reversed(range(count)) if reverse else range(count):
        ys[t] = h = np.tanh(h @ w + x[t])
    return ys, h


def both(program, given, dims=()):
    """What a program gives in C, having given the same in Python on any memory (which knows no tanh)."""
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


X_T = piece("x_t", "x")


def nested():
    """s += x[i][j] for all i and j, with s stacked per i and per (i, j)."""
    buffers = [inp("x", (4, 3, 8)), inp("s0", (8,), 1), out("per_i", (4, 8)), out("per_ij", (4, 3, 8), 1)]
    buffers += [out("s", (8,), 2), work("s_i", (8,)), work("s_new", (8,))]
    buffers += [piece("x_i", "x", (3, 8)), piece("x_ij", "x_i", (8,)), piece("p_i", "per_i", (8,))]
    buffers += [piece("q_i", "per_ij", (3, 8)), piece("q_ij", "q_i", (8,))]
    inner = (plus("step", "s_i", "x_ij", "s_new", (8,)), copy("stack_ij", "s_new", "q_ij", (8,)))
    steps = (
        copy("start_i", "s", "s_i", (8,)),
        Repeat("inner", 3, inner, (("s_i", "s_new"),), ("x_ij", "q_ij"), reverse=True),
        copy("stack_i", "s_i", "p_i", (8,)),
    )
    outer = Repeat("outer", 4, steps, (("s", "s_i"),), ("x_i", "p_i", "q_i"))
    return make(buffers, [copy("start", "s0", "s", (8,)), outer], dims=())


def given_for(program):
    return {item.name: 0.5 * values(*item.shape) for item in program.inputs}

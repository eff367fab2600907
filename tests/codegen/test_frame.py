"""The frame of the C: names, comments, one function per different kernel, units, the loop over batches."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.ctext import Names, block_comment, call, comment, packed, string, wrapped
from gtensor.codegen.emit import emit
from gtensor.codegen.memory import Place, Plan
from gtensor.codegen.program import (
    Access,
    Accumulate,
    Accumulator,
    Assign,
    Check,
    Counter,
    Dim,
    Gemm,
    Phase,
    Reduce,
    RowKernel,
    Term,
)
from gtensor.codegen.target import PORTABLE
from tests.codegen.by_hand import add, inp, kernel, load, make, out, state, store, sums, work
from tests.codegen.c_model import COMPILERS, NATIVE, SANITIZE, planned, run, source

SANE = (*SANITIZE, *NATIVE.flags)
RANDOM = np.random.default_rng(0)
B = Dim(0, "B", 9)


def values(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


# ---- text of any origin ---------------------------------------------------------------------------------------

NASTY = '*/ int x; /* ??/ \\ " % \n\r\t\x00 \u2028 é 𝛼 ' + "long " * 60 + "\\"


def test_comments_and_strings_cannot_break_out():
    assert comment("a */ b") == "a * / b"
    assert not comment("x \\").endswith("\\")
    assert "\n" not in comment(NASTY)
    assert string('a"b\\c\n??/') == '"a\\"b\\\\c\\012?\\?/"'
    assert string("é𝛼") == '"é𝛼"'
    assert block_comment([]) == []
    assert all(len(line) < 119 for line in block_comment(wrapped([NASTY])))
    assert packed(["a" * 70, "b" * 70]) == ["a" * 70, "  " + "b" * 70]


def test_nasty_notes_compile():
    step = RowKernel(
        "k",
        (4,),
        (Phase((), (load("a", "x", 1), Assign("b", "f32", Expr("({0} + {1})", ("a", "a"), "f32", "f32"), NASTY),
                    store("y", "b", 1))),),
        comment=(NASTY, "short"),
    )  # fmt: skip
    program = make([inp("x", (4,)), out("y", (4,))], [step], dims=(), equations=(NASTY,), header=(NASTY,))
    x = values(4)
    for compiler in COMPILERS:
        np.testing.assert_array_equal(run(program, {"x": x}, compiler=compiler).outputs["y"], x + x)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_names_that_mean_something_to_c(compiler):
    """Of buffers, variables, kernels and the program: macros, functions of the library, words of the frame."""
    words = "linux unix exp index j0 args code i i0 tile work rows end step float_ gt restrict_ y0 signgam alloca bool"
    functions = iter("memset gamma remainder in state loop log".split())
    buffers, steps = [], []
    for slot, word in enumerate(words.split()):
        body = load(f"{word}v", word, 1), add("log", f"{word}v", f"{word}v"), Counter("strlen", 0)
        body += add("unix2", "log", "log"), store(f"out{slot}", "unix2", 1), store(f"num{slot}", "strlen", 1)
        steps.append(kernel(next(functions, f"k{slot}"), (4,), *body))
        outputs = out(f"out{slot}", (4,), 2 * slot), out(f"num{slot}", (4,), 2 * slot + 1, "i64")
        buffers += [inp(word, (4,), slot), *outputs]
    program = replace(make(buffers, steps, dims=()), name="linux")
    given = {word: values(4) for word in words.split()}
    found = run(program, given, compiler=compiler).outputs
    for slot, word in enumerate(words.split()):
        np.testing.assert_array_equal(found[f"out{slot}"], 4 * given[word])
        np.testing.assert_array_equal(found[f"num{slot}"], np.arange(4))


def test_dimensions_may_have_any_name():
    dims = Dim(0, "args", 4), Dim(1, "count", 3), Dim(2, "linux", 2)
    steps = [kernel(f"k{n}", (d,), load("a", f"x{n}", 1), store(f"y{n}", "a", 1)) for n, d in enumerate(dims)]
    buffers = [buffer for n, d in enumerate(dims) for buffer in (inp(f"x{n}", (d,), n), out(f"y{n}", (d,), n))]
    program = make(buffers, steps, dims=dims)
    given = {"x0": values(3), "x1": values(0), "x2": values(2)}
    found = run(program, given, dims=(3, 0, 2), flags=SANE).outputs
    for n in range(3):
        np.testing.assert_array_equal(found[f"y{n}"], given[f"x{n}"])
    assert '{"args", 4},' in source(program).c_source


def test_names_are_given_once_per_scope():
    names = Names(["x"])
    assert [names.new("x"), names.new("x", "ij"), names.new("x", "ij")] == ["x_2", "x_ij", "x_ij_3"]
    assert names.counter() == "i"
    names.push()
    assert [names.new("y"), names.counter()] == ["y", "j"]
    names.pop()
    assert [names.new("y"), names.counter()] == ["y", "j"]


def test_long_calls_are_broken_and_aligned():
    lines = call("void f", [f"const float *restrict argument_{n}" for n in range(5)], "")
    assert len(lines) == 2
    assert lines[1].startswith("       const")
    assert max(map(len, lines)) <= 118


# ---- one function per different kernel ------------------------------------------------------------------------


def scale(number, factor, source_, target, size=8):
    body = load(f"v{number}", source_, 1), add(f"w{number}", f"v{number}", factor), store(target, f"w{number}", 1)
    step = kernel(f"k{number}", (size,), *body)
    return replace(step, comment=(f"{target} = {source_} + {factor}", f"train.py:{number}"))


def chain(count, factor="1.0f", size=8):
    """x -> t0 -> t1 … -> y, each step adding the factor (or its number)."""
    names = ["x", *(f"t{n}" for n in range(count - 1)), "y"]
    steps = [scale(n, factor or f"{n}.0f", names[n], names[n + 1], size) for n in range(count)]
    return make([inp("x", (size,)), *(work(n, (size,)) for n in names[1:-1]), out("y", (size,))], steps, dims=())


def apart(program):
    """A plan in which no two buffers share memory."""
    places = {b.name: Place({"input": "in", "output": "out"}[b.role], 0) for b in program.buffers if b.slot == 0}
    works = [b.name for b in program.buffers if b.role == "work"]
    places |= {name: Place("work", -1, 64 * number) for number, name in enumerate(works)}
    return Plan(program, places, 64 * len(works), 0, ())


def test_equal_kernels_are_one_function():
    found = emit(apart(chain(12)), NATIVE).c_source
    assert re.findall(r"GT_KERNEL void (\w+)\(", found) == ["k0"]
    calls = re.findall(r"^    k0\((\w+), (\w+)\);$", found, re.M)
    names = ["x", *(f"t{n}" for n in range(11)), "y"]
    assert calls == list(pairwise(names))
    assert "also k1: t1 = t0 + 1.0f train.py:1" in found
    assert "and 5 more" in found


def test_kernels_that_differ_are_not():
    assert len(re.findall("GT_KERNEL void", emit(apart(chain(12, "")), NATIVE).c_source)) == 12
    shared = planned(chain(12))
    heads = re.findall(r"GT_KERNEL void \w+\((.*)\)", emit(shared, NATIVE).c_source)
    assert heads == ["const float *restrict x, float *restrict t0", "float *restrict t0"], (
        "in place is another function"
    )


def test_the_same_key_needs_the_same_dtype_literals_checks_and_sizes():
    def functions(*steps_and_buffers):
        buffers, steps = [], []
        for slot, (step, dtype, size) in enumerate(steps_and_buffers):
            buffers += [inp(f"x{slot}", (size,), slot, dtype), out(f"y{slot}", (size,), slot, dtype)]
            steps.append(kernel(f"k{slot}", (size,), *step(f"x{slot}", f"y{slot}", dtype)))
        return len(re.findall("GT_KERNEL", source(make(buffers, steps, dims=(), equations=("a", "b"))).c_source)) - 1

    def copied(x, y, dtype):
        return load("a", x, 1, dtype=dtype), store(y, "a", 1)

    def checked(node):
        return lambda x, y, dtype: (load("a", x, 1, dtype=dtype), Check("a", 0, 4, node), store(y, "a", 1))

    assert functions((copied, "f32", 8), (copied, "f32", 8)) == 1
    assert functions(*((copied, dtype, 8) for dtype in ("f32", "f64", "i32", "i64", "u8", "b1"))) == 6
    assert functions((checked(0), "i64", 8), (checked(0), "i64", 8), (checked(1), "i64", 8)) == 2


def test_single_loops_that_differ_in_length_are_one_function():
    """An update of parameters of several shapes, one of them of run-time length."""
    sizes = {"a": (5,), "b": (3, 4), "c": (B, 2), "d": (1,)}
    buffers, steps = [], []
    for slot, (name, shape) in enumerate(sizes.items()):
        more = (shape[1], 1) if len(shape) == 2 else (1,)
        body = load("v", f"{name}0", *more), add("w", "v", "1.0f"), store(f"{name}1", "w", *more)
        steps.append(kernel(f"k_{name}", shape, *body))
        buffers += [inp(f"{name}0", shape, slot), out(f"{name}1", shape, slot)]
    program = make(buffers, steps, dims=(B,))
    found = source(program).c_source
    assert re.findall(r"GT_KERNEL void (\w+)\(.*?(count)?\)", found) == [("k_a", "count"), ("k_d", "")]
    assert "k_a(c0, c1, 2 * B);" in found
    given = {"a0": values(5), "b0": values(3, 4), "c0": values(4, 2), "d0": values(1)}
    outputs = run(program, given, dims=(4,), flags=SANE).outputs
    for name in sizes:
        np.testing.assert_array_equal(outputs[f"{name}1"], given[f"{name}0"] + 1)


# ---- long programs --------------------------------------------------------------------------------------------


def test_long_programs_are_cut_into_units_and_parts(monkeypatch):
    monkeypatch.setattr("gtensor.codegen.emit.UNIT_LINES", 170)
    program = chain(230, "", 4)
    found = emit(planned(program), NATIVE)
    bodies = [len(re.findall("GT_KERNEL void", unit.text)) for unit in found.units[1:]]
    assert [unit.filename for unit in found.units] == ["hand.c", "hand_1.c", "hand_2.c", "hand_3.c"]
    assert sum(bodies) == 230
    assert max(bodies) - min(bodies) <= 1
    assert 'visibility("hidden")' in found.units[1].text
    assert re.findall(r"static int32_t (hand_part_\d)", found.units[0].text) == [f"hand_part_{n}" for n in (1, 2, 3)]
    x = values(4)
    expected = x
    for n in range(230):
        expected = expected + np.float32(n)
    for compiler in COMPILERS:
        found = run(program, {"x": x}, compiler=compiler, flags=("-O0", *NATIVE.flags))
        np.testing.assert_array_equal(found.outputs["y"], expected)


def test_a_failing_part_ends_the_step():
    program = chain(210, "", 4)
    body = load("i", "idx", 1, dtype="i64"), Check("i", 0, 4, 0), store("z", "i", 1)
    buffers = [*program.buffers, inp("idx", (1,), 1, "i64"), out("z", (1,), 1, "i64")]
    first = make(buffers, [*program.steps, kernel("checked", (1,), *body)], dims=())
    x = values(4)
    for wrong in (0, 7):
        found = run(first, {"x": x, "idx": [wrong]}, flags=("-O0", *NATIVE.flags))
        assert (found.code, found.index) == ((0, 0), (1, 7))[wrong > 0]


def test_writing_is_linear_in_the_program():
    def statements(count):
        program = apart(chain(count, "", 4))
        lines = 0

        def trace(frame, event, arg):
            nonlocal lines
            lines += event == "line" and "codegen" in frame.f_code.co_filename
            return trace

        sys.settrace(trace)
        try:
            emit(program, NATIVE)
        finally:
            sys.settrace(None)
        return lines

    assert statements(200) < 2.3 * statements(100)


# ---- the loop over batches ------------------------------------------------------------------------------------


def training():
    """w -= mean of x (4, 3) over rows times the first y; loss = the sum of x; y is a second batched input of bytes."""
    steps = [
        kernel("rows", (4, 3), load("a", "x", 3, 1), sums("g", "a", 0, 1), sums("loss", "a", 0, 0),
               accumulators=(Accumulator("g", "sum"), Accumulator("loss", "sum"))),
        kernel("check", (4,), load("c", "y", 1, dtype="i64"), Check("c", 0, 10, 0), store("seen", "c", 1)),
        kernel("update", (3,), load("b", "w", 1), load("d", "g", 1), add("e", "b", "d"), store("w_new", "e", 1)),
    ]  # fmt: skip
    buffers = [inp("x", (4, 3)), inp("y", (4,), 1, "i64"), inp("lr", (), 2), state("w", (3,)), work("g", (3,))]
    buffers += [out("w_new", (3,), 0, alias="w"), out("loss", (), 1), out("seen", (4,), 2, "i64")]
    return make(buffers, steps, dims=(), loss="loss")


@pytest.mark.parametrize("shuffled", [False, True])
def test_many_steps_over_a_data_set(shuffled):
    x, y, w = values(20, 3), np.arange(20) % 10, values(3)
    rows = RANDOM.permutation(20)[:12] if shuffled else None
    given = {"x": x, "y": y, "lr": np.float32(1), "w": w}
    seen = x[rows] if shuffled else x[4:16]
    found = run(training(), given, loop=(3, 4, 4), rows=rows, batched=("x", "y"), flags=SANE)
    assert (found.code, found.done) == (0, 3)
    np.testing.assert_allclose(found.losses, seen.reshape(3, -1).sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.state["w"], w + seen.sum(0), rtol=1e-5)
    np.testing.assert_array_equal(found.outputs["seen"], y[rows][8:] if shuffled else y[12:16])
    assert found.loss == found.losses[-1]


def test_a_step_that_fails_ends_the_loop_after_those_before_it():
    y = np.arange(20) % 10
    y[9] = 11
    x, w = values(20, 3), values(3)
    given = {"x": x, "y": y, "lr": np.float32(1), "w": w}
    found = run(training(), given, loop=(5, 4, 0), batched=("x", "y"), flags=SANE)
    assert (found.code, found.done, found.node, found.index) == (1, 2, 0, 11)
    np.testing.assert_allclose(found.state["w"], w + x[:8].sum(0), rtol=1e-5)


def test_a_loop_of_no_steps_and_one_without_batched_inputs():
    given = {"x": values(4, 3), "y": np.arange(4), "lr": np.float32(1), "w": values(3)}
    assert run(training(), given, loop=(0, 4, 0), flags=SANE).done == 0
    found = run(training(), given, loop=(3, 4, 0), flags=SANE)
    np.testing.assert_allclose(found.state["w"], given["w"] + 3 * given["x"].sum(0), rtol=1e-5)


def test_rows_of_run_time_length_are_gathered():
    steps = [kernel("k", (2, B), load("a", "x", B, 1), load("c", "z", 1, 0), add("b", "a", "c"), store("y", "b", B, 1))]
    program = make([inp("x", (2, B)), inp("z", (2,), 1), out("y", (2, B))], steps, dims=(B,))
    x, z = values(6, 5), values(6)
    found = run(program, {"x": x, "z": z}, dims=(5,), loop=(2, 2, 0), rows=[5, 0, 3, 1], batched=("x", "z"), flags=SANE)
    np.testing.assert_array_equal(found.outputs["y"], x[[3, 1]] + z[[3, 1], None])


# ---- the description ------------------------------------------------------------------------------------------


def test_a_program_of_nothing():
    found = run(make([], [], dims=()), {}, flags=SANE)
    assert (found.code, found.outputs) == (0, {})
    assert run(make([], [], dims=()), {}, loop=(3, 1, 0)).done == 3


def test_the_description_tells_shapes_bytes_and_offsets():
    three = Dim(0, "B", 9, 3)
    buffers = [inp("x", (three, 4)), state("w", (5,)), state("n", (), 1, "i64"), out("y", (three, 4))]
    program = make(buffers, [kernel("k", (three, 4), load("a", "x", 4, 1), store("y", "a", 4, 1))], dims=(B,))
    found = source(program).c_source
    assert '{"x", "f32", 2, (const int64_t[]){-1, 4}, 3, 432, 0},' in found
    assert '{"n", "i64", 0, 0, 1, 8, 64},' in found
    assert '{"B", 9},' in found


def test_jinja_is_imported_only_to_write():
    code = "import sys, gtensor.codegen.emit; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_c_as_it_is_read(golden):
    """A dense layer, a softmax with its loss, and an update in place: the whole text."""
    exps = Assign("e", "f32", Expr("gt_exp_{t}({0} - {1})", ("z", "m"), "f32", "f32"), "e = exp(h - m)  model.py:5")
    steps = [
        Gemm("hidden", "f32", (), 32, 10, (Term(Access("x", (64, 1)), Access("w", (10, 1)), 64),), "acc",
             (load("bj", "b", 0, 1), Assign("s", "f32", Expr("({0} + {1})", ("acc", "bj"), "f32", "f32"),
                                            "h = x @ w + b  model.py:3"), store("h", "s", 10, 1)),
             comment=("h = x @ w + b", "model.py:3")),
        RowKernel("softmax", (32, 10), (
            Phase((), (load("u", "h", 10, 1), Reduce("m", "f32", "max", "u", "m = max(h, axis=1)  model.py:4"))),
            Phase((), (load("z", "h", 10, 1), exps, store("p", "e", 10, 1), Reduce("s", "f32", "sum", "e"))),
            Phase((), (load("q", "p", 10, 1), Assign("r", "f32", Expr("({0} / {1})", ("q", "s"), "f32", "f32"),
                                                     "p = e / s  model.py:5"),
                       store("y", "r", 10, 1), Accumulate(Access("loss", (0, 0)), "sum", "r", "loss = sum(p)"))),
        ), (Accumulator("loss", "sum", scratch="wide"),), ("p = softmax(h)", "model.py:5")),
    ]  # fmt: skip
    buffers = [inp("x", (32, 64)), inp("w", (64, 10), 1), inp("b", (10,), 2), work("h", (32, 10)), work("p", (32, 10))]
    buffers += [work("wide", (), "f64"), out("y", (32, 10)), out("loss", (), 1)]
    equations = ("h = x @ w + b", "p = softmax(h)", "loss = sum(p)")
    program = replace(make(buffers, steps, dims=(), equations=equations, loss="loss"), name="classify")
    golden("codegen/classify.c", source(program, target=PORTABLE).c_source)

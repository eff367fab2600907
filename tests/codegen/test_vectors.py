"""Bodies on vectors: every form gives the bits of one element after the other, on vectors of each width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen import vectors
from gtensor.codegen.cexpr import Expr
from gtensor.codegen.program import Accumulator, Assign, Counter, Dim, Reduce
from gtensor.codegen.target import Target
from tests.codegen.by_hand import inp, kernel, load, make, out, phases, row, store, sums, work
from tests.codegen.c_model import COMPILERS, MACROS, NATIVE, NUMPY, SANITIZE, run, source

N = 37
SCALAR = replace(NATIVE, name="scalar", width=4)
NARROW = replace(NATIVE, name="narrow", width=16)
WIDEST = Target("wide", 64, 32, True, NATIVE.flags)
WIDE = [NARROW] + [NATIVE] * (NATIVE.width > 16) + [WIDEST] * ("__AVX512F__" in MACROS)
RANDOM = np.random.default_rng(0)
HARD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3e38, 1.0, -1.0, 88.7, -88.7, 0.5]
B = Dim(0, "B", 200)
BINARY = (
    "add sub mul div max min pow remainder floor_divide atan2 hypot copysign shift_left shift_right sf_betaln"
    " sf_gamma_density sf_gammainc sf_gammaincc sf_logaddexp sf_logaddexp2 sf_xlog1py sf_xlogy"
).split()
TESTS = ("isfinite", "isinf", "isnan", "signbit")


def values(*shape, dtype="f32"):
    """Random numbers, the difficult ones among them."""
    drawn = RANDOM.standard_normal(shape) * 3
    flat = drawn.reshape(-1)
    if dtype == "f32":
        flat[RANDOM.permutation(flat.size)[: len(HARD)]] = HARD[: flat.size]
    return (drawn > 0 if dtype == "b1" else drawn).astype(NUMPY[dtype])


def same(a, b):
    """Whether the bits are equal; of a NaN, that it is one."""
    wide = a.dtype.kind in "fV"  # V: bfloat16, which is no dtype of NumPy's own
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=wide) and (
        not wide or np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))
    )  # fmt: skip


def agree(program, given, targets=WIDE, **more):
    """The outputs, which are the same on all targets; those on vectors have vectors."""
    wanted = run(program, given, target=SCALAR, **more).outputs
    assert "GT_LANES" not in source(program, SCALAR).c_source.split("GT_KERNEL void")[1]
    for target in targets:
        assert "GT_LANES" in source(program, target).c_source
        found = run(program, given, target=target, **more).outputs
        for name in wanted:
            assert same(found[name], wanted[name]), (target.name, name, found[name], wanted[name])
    return wanted


def of(template, *args, dtype="f32", result=None, var="v"):
    return Assign(var, result or dtype, Expr(template, args, dtype, result or dtype))


def arguments(function):
    """The dtypes of a function's arguments and of its result, and the template of its calls."""
    name, _, tag = function.removeprefix("gt_").rpartition("_")
    if name.startswith("cast_"):
        return [name.removeprefix("cast_")], tag, "gt_cast_{t}_{r}"
    if name == "where":
        return ["b1", tag, tag], tag, "gt_where_{r}"
    return [tag] * (1 + (name in BINARY)), "b1" if name in TESTS else tag, f"gt_{name}_{{t}}"


def test_every_function_with_a_vector_form():
    buffers, steps, given = [], [], {}
    for number, function in enumerate(sorted(vectors.FUNCTIONS - {"gt_where_b1"})):
        tags, result, template = arguments(function)
        names = [f"{tag}_{place}" for place, tag in enumerate(tags)]
        for name, tag in zip(names, tags, strict=True):
            if name not in given:
                buffers.append(inp(name, (N,), len(given), tag))
                given[name] = values(N, dtype=tag)
        places = ", ".join(f"{{{place}}}" for place in range(len(tags)))
        loads = [load(f"a{name}", name, 1, dtype=tag) for name, tag in zip(names, tags, strict=True)]
        body = of(f"{template}({places})", *(f"a{name}" for name in names), dtype=tags[-1], result=result)
        buffers.append(out(f"y{number}", (N,), number, result))
        steps.append(kernel(f"k{number}", (N,), *loads, body, store(f"y{number}", "v", 1)))
    for first in range(0, len(steps), 40):
        part = slice(first, first + 40)
        outs = [replace(b, slot=i) for i, b in enumerate([b for b in buffers if b.role == "output"][part])]
        program = make([*(b for b in buffers if b.role == "input"), *outs], steps[part], dims=())
        agree(program, given)
        for target in WIDE:
            assert source(program, target).c_source.count("; i += GT_LANES)") == len(outs)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">="])
def test_operators_take_a_number_beside_a_vector(operator):
    result = "f32" if operator in "+-*/" else "b1"
    loads = load("a", "x", 1), load("s", "t", 0)
    ways = [("a", "s"), ("s", "a"), ("a", "2.0f"), ("2.0f", "a"), ("a", "a")]
    own = [of(f"{{0}} {operator} {{1}}", *args, result=result, var=f"v{i}") for i, args in enumerate(ways)]
    stores = [store(f"y{i}", f"v{i}", 1) for i in range(len(ways))]
    buffers = [inp("x", (N,)), inp("t", (), 1), *(out(f"y{i}", (N,), i, result) for i in range(len(ways)))]
    program = make(buffers, [kernel("k", (N,), *loads, *own, *stores)], dims=())
    for compiler in COMPILERS:
        agree(program, {"x": values(N), "t": np.float32(2)}, compiler=compiler)


@pytest.mark.parametrize("operator", ["&", "|", "^", "==", "!=", "<", "<=", ">", ">="])
def test_truth_values(operator):
    loads = load("a", "x", 1, dtype="b1"), load("b", "y", 1, dtype="b1"), load("s", "t", 0, dtype="b1")
    own = [
        of(f"{{0}} {operator} {{1}}", "a", "b", dtype="b1", var="v0"),
        of(f"{{0}} {operator} {{1}}", "a", "s", dtype="b1", var="v1"),
        of("!{0}", "v1", dtype="b1", var="v2"),
        of("gt_where_{r}({0}, {1}, {2})", "v0", "a", "s", dtype="b1", var="v3"),
        of("gt_cast_{t}_{r}({0})", "v0", dtype="b1", result="f32", var="v4"),
    ]
    buffers = [inp("x", (N,), 0, "b1"), inp("y", (N,), 1, "b1"), inp("t", (), 2, "b1")]
    buffers += [out(f"z{i}", (N,), i, "f32" if i == 4 else "b1") for i in range(5)]
    program = make(buffers, [kernel("k", (N,), *loads, *own, *(store(f"z{i}", f"v{i}", 1) for i in range(5)))], dims=())
    found = agree(program, {"x": values(N, dtype="b1"), "y": values(N, dtype="b1"), "t": np.bool_(True)})
    assert not np.array_equal(found["z1"], found["z2"])


@pytest.mark.parametrize("length", [4, 9, 16, 33, 300, 700])
def test_folds_of_a_row(length):
    folds = [Reduce(op, "f32", op, "b") for op in ("sum", "max", "min")]
    body = load("a", "x", length, 1), of("{0} * 0.5f", "a", var="b"), *folds
    results = [store(f"{op}s", op, 1, 0) for op in ("sum", "max", "min")]
    buffers = [inp("x", (5, length)), *(out(f"{op}s", (5,), i) for i, op in enumerate(("sum", "max", "min")))]
    again = of("{0} - {1}", "a", "max", var="c"), store("y", "c", length, 1)
    steps = [phases("k", (5, length), ((), body), (results, (load("a", "x", length, 1), *again)))]
    program = make([*buffers, out("y", (5, length), 3)], steps, dims=())
    plain = RANDOM.standard_normal((5, length)).astype(np.float32)
    agree(program, {"x": plain})
    agree(program, {"x": values(5, length)})


@pytest.mark.parametrize("start", ["identity", "keep"])
@pytest.mark.parametrize("rows", [1, 64, 65, 200])
def test_sums_over_rows_are_taken_by_blocks(rows, start):
    columns = (load("a", "x", N, 1), of("{0} * {0}", "a", var="b"), sums("y", "b", 0, 1))
    accumulator = Accumulator("y", "sum", start, "wide")
    steps = [kernel("k", (B, N), *columns, accumulators=(accumulator,))]
    buffers = [inp("x", (B, N)), out("y", (N,)), work("wide", (N,), "f64")]
    if start == "keep":
        steps.insert(0, kernel("first", (N,), store("y", "3.0f", 1)))
    program = make(buffers, steps, dims=(B,))
    x = RANDOM.standard_normal((rows, N)).astype(np.float32)
    found = agree(program, {"x": x}, dims=(rows,))
    exact = (x.astype(np.float64) ** 2).sum(0) + 3 * (start == "keep")
    np.testing.assert_allclose(found["y"], exact, rtol=3e-6)


def test_sums_of_few_rows_and_of_positions():
    body = load("a", "x", N, 1), sums("s", "a", 0, 1), sums("m", "a", 0, 1, op="max")
    steps = [kernel("k", (6, N), *body, accumulators=(Accumulator("s", "sum"), Accumulator("m", "max")))]
    agree(make([inp("x", (6, N)), out("s", (N,)), out("m", (N,), 1)], steps, dims=()), {"x": values(6, N)})


def test_positions_of_the_row_are_counted():
    cast = "gt_cast_{t}_{r}({0})"
    body = [
        Counter("n", 1),
        Assign("i", "i32", Expr(cast, ("n",), "i64", "i32")),
        Assign("f", "f32", Expr(cast, ("n",), "i64", "f32")),
        load("r", "x", 1, 0, dtype="i32"),
        of("{0} == {1}", "r", "i", dtype="i32", result="b1", var="hit"),
    ]
    stores = store("y", "hit", N, 1), store("z", "f", N, 1)
    steps = [kernel("k", (5, N), *body, *stores)]
    program = make([inp("x", (5,), 0, "i32"), out("y", (5, N), 0, "b1"), out("z", (5, N), 1)], steps, dims=())
    found = agree(program, {"x": np.array([0, 36, 7, 37, -1], np.int32)})
    np.testing.assert_array_equal(found["y"], np.arange(N) == np.array([[0], [36], [7], [37], [-1]]))
    np.testing.assert_array_equal(found["z"], np.broadcast_to(np.arange(N), (5, N)))


def test_values_of_a_row_pass_through_memory():
    first = (
        load("a", "x", N, 1),
        of("gt_exp_{t}({0})", "a", var="b"),
        store("r", "b", 0, 1),
        Reduce("s", "f32", "sum", "b"),
    )
    second = load("c", "r", 0, 1), of("{0} / {1}", "c", "s", var="d"), store("y", "d", N, 1)
    steps = [phases("k", (5, N), ((), first), ((), second))]
    program = make([inp("x", (5, N)), out("y", (5, N)), row("r", (N,))], steps, dims=())
    x = RANDOM.standard_normal((5, N)).astype(np.float32)
    found = agree(program, {"x": x})
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found["y"], exact / exact.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("target", WIDE, ids=lambda target: target.name)
def test_nothing_beyond_the_end_of_a_row_is_touched(target):
    """Arrays of exactly the bytes that there are, under the sanitizers."""
    buffers, steps, given, lengths = [], [], {}, (4, 5, 8, 15, 16, 17, 31)
    for slot, length in enumerate(lengths):
        x, m, n, y, o, z = (f"{name}{slot}" for name in "xmnyoz")
        body = [load("a", x, 1), load("t", m, 1, dtype="b1"), load("i", n, 1, dtype="i32")]
        body += [of("gt_where_{r}({0}, {1}, {2})", "t", "a", "0.5f", var="v"), store(y, "v", 1)]
        body += [of("gt_neg_{t}({0})", "i", dtype="i32", var="j"), store(z, "j", 1)]
        body += [of("!{0}", "t", dtype="b1", var="u"), store(o, "u", 1)]
        steps.append(kernel(f"k{slot}", (length,), *body))
        for place, (name, dtype) in enumerate([(x, "f32"), (m, "b1"), (n, "i32")]):
            buffers.append(inp(name, (length,), 3 * slot + place, dtype))
            given[name] = values(length, dtype=dtype)
        for place, (name, dtype) in enumerate([(y, "f32"), (o, "b1"), (z, "i32")]):
            buffers.append(out(name, (length,), 3 * slot + place, dtype))
    found = run(make(buffers, steps, dims=()), given, target=target, flags=(*SANITIZE, *NATIVE.flags)).outputs
    for slot in range(len(lengths)):
        x, m, n = given[f"x{slot}"], given[f"m{slot}"], given[f"n{slot}"]
        assert same(found[f"y{slot}"], np.where(m, x, np.float32(0.5)))
        assert same(found[f"z{slot}"], -n) and same(found[f"o{slot}"], ~m)


def test_bodies_without_a_vector_form_stay_as_they_are():
    """Other dtypes, other strides, an element that is read after its neighbour was written."""
    cases = [
        ([inp("x", (N,), 0, "f64"), out("y", (N,), 0, "f64")], [load("a", "x", 1, dtype="f64"), store("y", "a", 1)]),
        ([inp("x", (2 * N,)), out("y", (N,))], [load("a", "x", 2), store("y", "a", 1)]),
        ([inp("x", (N,)), out("y", (N,))], [load("a", "x", -1, at=N - 1), store("y", "a", 1)]),
        ([inp("x", (3,)), out("y", (3,))], [load("a", "x", 1), store("y", "a", 1)]),
    ]
    for buffers, body in cases:
        space = (buffers[1].shape[0],)
        program = make(buffers, [kernel("k", space, *body)], dims=())
        assert "GT_LANES" not in source(program, NATIVE).c_source
    moved = [load("a", "w", 1), store("w", "a", 1, at=1)]
    own = vectors.Question(0, N, {"w": work("w", (N + 1,))}, {"w": "w"}, (), {})
    assert not own.answer(moved, NATIVE)

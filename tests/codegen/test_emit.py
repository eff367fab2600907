"""Row kernels in C: programs written by hand, compiled without a warning, run, and compared with NumPy."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gtensor.codegen.cexpr import STORED, Expr, literal
from gtensor.codegen.program import Access, Accumulate, Accumulator, Assign, Check, Counter, Dim, Reduce
from tests.codegen.by_hand import add, inp, kernel, load, make, out, phases, row, state, store, sums, work
from tests.codegen.c_model import COMPILERS, NATIVE, NUMPY, SANITIZE, TARGETS, at, run, source
from tests.codegen.random_programs import BATCH, programs
from tests.codegen.run_program import Failed, run_apart, sample
from tests.valgrind import COMMAND, with_valgrind

B = Dim(0, "B", 9)
SANE = (*SANITIZE, *NATIVE.flags)
RANDOM = np.random.default_rng(0)
COMPUTED = [tag for tag in NUMPY if tag not in STORED]


def calc(var, template, *args, dtype="f32", result=None):
    return Assign(var, result or dtype, Expr(template, args, dtype, result or dtype))


def values(*shape, dtype="f32"):
    drawn = RANDOM.standard_normal(shape) * 3
    return (drawn > 0 if dtype == "b1" else np.abs(drawn) * 9 if dtype[0] == "u" else drawn).astype(NUMPY[dtype])


def function(program, name):
    """The text of one kernel."""
    return re.search(rf"^GT_KERNEL \w+ {name}\(.*?^}}", source(program).c_source, re.M | re.S)[0]


# ---- loops and accesses ---------------------------------------------------------------------------------------


def test_broadcast_transposed_reversed_and_repeated_reads():
    x, y = values(5, 7), values(7)
    reads = load("a", "x", 7, 1), load("b", "y", 0, -1, at=6), load("c", "x", 7, 1)
    steps = [kernel("k", (5, 7), *reads, calc("s", "({0} * {1} - {2})", "a", "b", "c"), store("z", "s", 1, 5))]
    program = make([inp("x", (5, 7)), inp("y", (7,), 1), out("z", (7, 5))], steps, dims=())
    np.testing.assert_array_equal(run(program, {"x": x, "y": y}).outputs["z"], (x * y[::-1] - x).T)
    assert function(program, "k").count("x[7 * i + j]") == 1
    assert "y[6 - j]" in function(program, "k")


def test_three_axes_with_the_middle_one_moved():
    x = values(3, 4, 5)
    steps = [kernel("k", (3, 4, 5), load("a", "x", 20, 5, 1), store("y", "a", 5, 15, 1))]
    program = make([inp("x", (3, 4, 5)), out("y", (4, 3, 5))], steps, dims=())
    np.testing.assert_array_equal(run(program, {"x": x}).outputs["y"], x.transpose(1, 0, 2))


@pytest.mark.parametrize("extent", [0, 1, 5, 9])
def test_run_time_extents_in_loops_strides_and_offsets(extent):
    """x is (2, B, 3); y is (B, 2, 3) and z the second half of x, reversed along its rows."""
    three = Dim(0, "B", 9, 3)
    steps = [
        kernel("k", (2, B, 3), load("a", "x", three, 3, 1), store("y", "a", 3, 6, 1)),
        kernel("half", (B, 3), load("a", "x", 3, 1, at=three), store("z", "a", 3, 1)),
    ]
    buffers = [inp("x", (2, B, 3)), out("y", (B, 2, 3)), out("z", (B, 3), 1)]
    program = make(buffers, steps, dims=(B,))
    x = values(2, extent, 3)
    for flags in (None, SANE):
        found = run(program, {"x": x}, dims=(extent,), flags=flags).outputs
        np.testing.assert_array_equal(found["y"], x.transpose(1, 0, 2))
        np.testing.assert_array_equal(found["z"], x[1])
    assert "3 * B * i" in function(program, "k")


def test_run_time_extents_out_of_their_bounds_are_refused():
    steps = [kernel("k", (B,), load("a", "x", 1), store("y", "a", 1))]
    program = make([inp("x", (B,)), out("y", (B,))], steps, dims=(B,))
    for wrong in (-1, 10):
        assert run(program, {"x": values(0)}, dims=(wrong,)).code == 2


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), ()])
def test_empty_and_zero_dimensional_arrays(shape):
    space = shape or (1,)
    strides = (4, 1)[-len(space) :]
    total = Accumulate(Access("s", (0,) * len(space)), "sum", "a")
    own = load("a", "x", *strides), store("y", "a", *strides), total
    steps = [kernel("k", space, *own, accumulators=(Accumulator("s", "sum"),))]
    x = values(*shape)
    program = make([inp("x", shape), out("y", shape), out("s", (), 1)], steps, dims=())
    for flags in (None, SANE):
        found = run(program, {"x": x}, flags=flags)
        np.testing.assert_array_equal(found.outputs["y"], x)
        assert found.outputs["s"] == x.sum()


def test_a_counter_is_the_position_along_its_axis():
    own = Counter("n", 0), Counter("m", 1), calc("s", "({0} * 10 + {1})", "n", "m", dtype="i64"), store("y", "s", 4, 1)
    program = make([out("y", (3, 4), 0, "i64")], [kernel("k", (3, 4), *own)], dims=())
    np.testing.assert_array_equal(run(program, {}).outputs["y"], np.add.outer(np.arange(3) * 10, np.arange(4)))


def test_every_dtype_is_moved_and_compared():
    buffers, steps, given, wanted = [], [], {}, {}
    for slot, dtype in enumerate(NUMPY):
        x = given[f"x{slot}"] = values(11, dtype=dtype)
        above = calc("b", "{0} > {1}", "a", literal(1, dtype), dtype=dtype, result="b1")
        own = load("a", f"x{slot}", 1, dtype=dtype), above
        steps.append(kernel(f"k{slot}", (11,), *own, store(f"y{slot}", "a", 1), store(f"c{slot}", "b", 1)))
        buffers += [inp(f"x{slot}", (11,), slot, dtype), out(f"y{slot}", (11,), 2 * slot, dtype)]
        buffers.append(out(f"c{slot}", (11,), 2 * slot + 1, "b1"))
        wanted |= {f"y{slot}": x, f"c{slot}": x > 1}
    found = run(make(buffers, steps, dims=()), given).outputs
    for name, expected in wanted.items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


# ---- phases and folds -----------------------------------------------------------------------------------------


def softmax(cols, dtype="f32", mark=""):
    x, held, y, more = f"x{mark}", f"held{mark}", f"y{mark}", {"dtype": dtype}
    exps = calc("e", "gt_exp_{t}(({0} - {1}))", "b", "m", **more)
    first = load("a", x, cols, 1, **more), Reduce("m", dtype, "max", "a", "m = max(x)")
    second = load("b", x, cols, 1, **more), exps, store(held, "e", 0, 1), Reduce("s", dtype, "sum", "e")
    head = (calc("r", "({0} / {1})", literal(1, dtype), "s", **more),)
    third = load("c", held, 0, 1, **more), calc("p", "({0} * {1})", "c", "r", **more), store(y, "p", cols, 1)
    return phases(f"softmax{mark}", (3, cols), ((), first), ((), second), (head, third))


LENGTHS = (1, 5, 8, 9, 16, 100, 256, 257, 1000)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_phases_with_a_row_buffer(dtype):
    buffers, steps, given_values, wanted = [], [], {}, {}
    for slot, cols in enumerate(LENGTHS):
        x = given_values[f"x{slot}"] = values(3, cols, dtype=dtype)
        exps = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
        wanted[f"y{slot}"] = exps / exps.sum(1, keepdims=True)
        buffers += [inp(f"x{slot}", (3, cols), slot, dtype), row(f"held{slot}", (cols,), dtype)]
        buffers.append(out(f"y{slot}", (3, cols), slot, dtype))
        steps.append(softmax(cols, dtype, str(slot)))
    found = run(make(buffers, steps, dims=()), given_values).outputs
    for name, expected in wanted.items():
        np.testing.assert_allclose(found[name], expected, rtol=3e-7 if dtype == "f32" else 1e-14, err_msg=name)


def test_what_lies_in_memory_is_folded_there():
    buffers = [inp("x", (3, 100)), row("held", (100,)), out("y", (3, 100))]
    found = function(make(buffers, [softmax(100)], dims=()), "softmax")
    assert "gt_row_max_f32(&x[100 * i], 100);  // m = max(x)" in found
    assert "gt_row_sum_f32(held, 100)" in found
    assert "part" not in found
    assert found.count("for (") == 3


FOLDS = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
    "argmax": np.argmax,
    "argmin": np.argmin,
}


def fold(op, dtype, cols, mark="", computed=False):
    """Buffers and the step of y[i] = op over j of x[i, j]; computed: of z = x + x, which is stored too."""
    result = "i64" if op.startswith("arg") else dtype
    more = {"dtype": dtype}
    extra = (add("b", "a", "a", **more), store(f"z{mark}", "b", cols, 1)) if computed else ()
    body = load("a", f"x{mark}", cols, 1, **more), *extra, Reduce("m", result, op, "b" if computed else "a")
    step = phases(f"k{mark}", (5, cols), ((), body), ((store(f"y{mark}", "m", 1, 0),), ()))
    slot = int(mark or 0)
    buffers = [inp(f"x{mark}", (5, cols), slot, dtype), out(f"y{mark}", (5,), 2 * slot, result)]
    return [*buffers, *([out(f"z{mark}", (5, cols), 2 * slot + 1, dtype)] if computed else [])], step


def folds(cases):
    """A program of the folds (op, dtype, cols), and its inputs."""
    found = [fold(*case, str(slot)) for slot, case in enumerate(cases)]
    outputs = 0
    buffers = []
    for buffer in (buffer for own, _ in found for buffer in own):
        if buffer.role == "output":
            buffer = replace(buffer, slot=outputs)
            outputs += 1
        buffers.append(buffer)
    return make(buffers, [step for _, step in found], dims=())


@pytest.mark.parametrize("op", FOLDS)
def test_every_fold_of_every_dtype(op):
    cases = [(op, t, n) for t in COMPUTED for n in (1, 7, 40, 300) if (op in ("any", "all")) == (t == "b1")]
    arrays = [values(5, cols, dtype=dtype) for _, dtype, cols in cases]
    for x in arrays:
        x[1], x[2] = x[1] > 0, x[2, 0]
    found = run(folds(cases), {f"x{n}": x for n, x in enumerate(arrays)}).outputs
    for n, (x, (_, dtype, cols)) in enumerate(zip(arrays, cases, strict=True)):
        more = {"dtype": NUMPY[dtype]} if op in ("sum", "prod") else {}
        with np.errstate(over="ignore"):
            expected = FOLDS[op](x, axis=1, **more)
        rounding = {"rtol": 1e-5 if dtype == "f32" else 1e-12}
        np.testing.assert_allclose(found[f"y{n}"], expected, err_msg=f"{dtype} {cols}", **rounding)


@pytest.mark.parametrize("op", ["max", "min", "argmax", "argmin", "sum"])
def test_folds_keep_nan_and_the_first_of_equals(op):
    cases = [(op, "f32", cols) for cols in (6, 50, 700)]
    arrays = [values(5, cols) for _, _, cols in cases]
    for x in arrays:
        x[0, x.shape[1] // 2] = np.nan
        x[1] = -np.inf
        x[2] = 7
        x[3, [1, 4]] = np.nan
    found = run(folds(cases), {f"x{n}": x for n, x in enumerate(arrays)}).outputs
    for n, x in enumerate(arrays):
        np.testing.assert_allclose(found[f"y{n}"], FOLDS[op](x, axis=1), rtol=1e-5)


@pytest.mark.parametrize("cols", [5, 100, 600])
@pytest.mark.parametrize("op", ["sum", "max", "argmin"])
def test_folds_of_what_a_body_computes(op, cols):
    x = values(5, cols)
    buffers, step = fold(op, "f32", cols, computed=True)
    found = run(make(buffers, [step], dims=()), {"x": x}, flags=SANE).outputs
    np.testing.assert_allclose(found["y"], FOLDS[op](x + x, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(found["z"], x + x)


def test_folds_over_a_run_time_extent():
    body = load("a", "x", B, 1), Reduce("m", "f32", "sum", "a"), Reduce("n", "i64", "argmax", "a")
    heads = (store("y", "m", 1, 0), store("p", "n", 1, 0)), ()
    steps = [phases("k", (3, B), ((), body), heads)]
    program = make([inp("x", (3, B)), out("y", (3,)), out("p", (3,), 1, "i64")], steps, dims=(B,))
    for extent in (0, 1, 9):
        x = values(3, extent)
        found = run(program, {"x": x}, dims=(extent,), flags=SANE).outputs
        np.testing.assert_allclose(found["y"], x.sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["p"], x.argmax(1) if extent else 0)


def test_many_folds_of_one_phase():
    own = [stmt for n in range(5) for stmt in (add(f"v{n}", "a", f"{n}.0f"), Reduce(f"s{n}", "f32", "sum", f"v{n}"))]
    last = [store("y", f"s{n}", 5, 0, at=n) for n in range(5)]
    steps = [phases("k", (2, 500), ((), [load("a", "x", 500, 1), *own]), (last, ()))]
    program = make([inp("x", (2, 500)), out("y", (2, 5))], steps, dims=())
    x = values(2, 500)
    expected = np.stack([(x + np.float32(n)).sum(1, dtype=np.float64) for n in range(5)], 1)
    np.testing.assert_allclose(run(program, {"x": x}).outputs["y"], expected, rtol=1e-5, atol=1e-4)
    assert "[64];" in function(program, "k")


@pytest.mark.parametrize("how", ["fold", "accumulate", "wide"])
def test_long_sums_of_floats_are_accurate(how):
    count = 10_000_000
    buffers = [inp("x", (count,)), out("y", ()), work("y64", (), "f64")]
    if how == "fold":
        pairs = ((), (load("a", "x", 1), Reduce("m", "f32", "sum", "a"))), ((store("y", "m", 0),), ())
        steps = [phases("k", (count,), *pairs)]
    else:
        wide = Accumulator("y", "sum", scratch="y64" if how == "wide" else None)
        steps = [kernel("k", (count,), load("a", "x", 1), sums("y", "a", 0), accumulators=(wide,))]
    buffers = buffers if how == "wide" else buffers[:2]
    x = np.full(count, 0.1, np.float32)
    found = float(run(make(buffers, steps, dims=()), {"x": x}).outputs["y"])
    exact = float(np.float32(0.1)) * count
    assert abs(found - exact) < 1e-6 * exact


# ---- accumulators ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize(
    "axes, strides, shape", [((0,), (0, 1), (6,)), ((1,), (1, 0), (5,)), ((0, 1), (0, 0), ()), ((), (6, 1), (5, 6))]
)
def test_sums_over_any_axes(axes, strides, shape, scratch):
    wide = "wide" if scratch else None
    buffers = [inp("x", (5, 6)), out("y", shape), *([work("wide", shape, "f64")] if scratch else [])]
    own = load("a", "x", 6, 1), sums("y", "a", *strides)
    program = make(buffers, [kernel("k", (5, 6), *own, accumulators=(Accumulator("y", "sum", scratch=wide),))], dims=())
    x = values(5, 6)
    np.testing.assert_allclose(run(program, {"x": x}).outputs["y"], x.sum(axes), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all"])
def test_every_accumulator_of_every_dtype(op):
    dtypes = [t for t in COMPUTED if (op in ("any", "all")) == (t == "b1")]
    buffers, steps = [], []
    for n, t in enumerate(dtypes):
        own = load("a", f"x{n}", 12, 1, dtype=t), sums(f"y{n}", "a", 0, 1, op=op), sums(f"z{n}", "a", 0, 0, op=op)
        buffers += [inp(f"x{n}", (5, 12), n, t), out(f"y{n}", (12,), 2 * n, t), out(f"z{n}", (), 2 * n + 1, t)]
        steps.append(kernel(f"k{n}", (5, 12), *own, accumulators=(Accumulator(f"y{n}", op), Accumulator(f"z{n}", op))))
    arrays = [values(5, 12, dtype=dtype) for dtype in dtypes]
    found = run(make(buffers, steps, dims=()), {f"x{n}": x for n, x in enumerate(arrays)}).outputs
    for n, x in enumerate(arrays):
        more = {"dtype": x.dtype} if op in ("sum", "prod") else {}
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(found[f"y{n}"], FOLDS[op](x, axis=0, **more), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found[f"z{n}"], FOLDS[op](x, **more), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("index", ["i32", "i64", "u8", "i16"])
@pytest.mark.parametrize("scratch", [None, "wide"])
def test_scatter_add_into_a_copy(index, scratch):
    table, rows, idx = values(5, 3), values(6, 3), np.array([4, 0, 4, 4, 2, 0])
    head = load("i", "idx", 1, 0, dtype=index), Check("i", 0, 5, 0)
    to = Accumulate(Access("y", (0, 1), 0, (("i", 3),)), "sum", "a")
    scatter = phases("scatter", (6, 3), (head, (load("a", "rows", 3, 1), to)), accumulators=(
        Accumulator("y", "sum", "keep", scratch),))  # fmt: skip
    copy = kernel("copy", (5, 3), load("a", "table", 3, 1), store("y", "a", 3, 1))
    buffers = [inp("table", (5, 3)), inp("rows", (6, 3), 1), inp("idx", (6,), 2, index), out("y", (5, 3))]
    program = make([*buffers, *([work("wide", (5, 3), "f64")] if scratch else [])], [copy, scatter], dims=())
    expected = table.copy()
    np.add.at(expected, idx, rows)
    found = run(program, {"table": table, "rows": rows, "idx": idx}, flags=SANE)
    np.testing.assert_allclose(found.outputs["y"], expected, rtol=1e-5)
    assert run(program, {"table": table, "rows": rows, "idx": idx + 1}).code == 1


# ---- checks ---------------------------------------------------------------------------------------------------


def gather(dtype="i64", low=0, high=5):
    head = load("i", "idx", 1, 0, dtype=dtype), Check("i", low, high, 1, "x[i]  train.py:3")
    body = load("a", "x", 0, 1, index=(("i", 3),)), store("y", "a", 3, 1)
    buffers = [inp("x", (5, 3)), inp("idx", (4,), 1, dtype), out("y", (4, 3)), out("z", (3,), 1)]
    later = kernel("later", (3,), load("a", "x", 1), store("z", "a", 1))
    return make(buffers, [phases("gather", (4, 3), (head, body)), later], dims=(), equations=("none", "x[i]"))


@pytest.mark.parametrize(
    "dtype, wrong",
    [("i64", -1), ("i64", 5), ("i64", 2**40), ("i32", -7), ("u8", 200), ("i8", -100), ("u64", 2**63 - 1)],
)
def test_an_index_out_of_range_ends_the_step_and_is_told(dtype, wrong):
    x, idx = values(5, 3), np.array([4, 0, 1, 1])
    program = gather(dtype)
    found = run(program, {"x": x, "idx": idx}, flags=SANE)
    assert (found.code, found.outputs["y"].tolist()) == (0, x[idx].tolist())
    idx[2] = wrong
    found = run(program, {"x": x, "idx": idx}, flags=SANE)
    assert (found.code, found.node, found.index) == (1, 1, wrong)
    assert found.outputs["z"].tobytes() == b"\xa5" * 12, "nothing after the failure is done"


def test_tests_that_are_always_true_are_not_written():
    found = function(gather("u8", 0, 5), "gather")
    assert "if (i_i >= 5)  // x[i]  train.py:3" in found
    assert "return gt_bad_index(args, 1, i_i);" in found
    assert "x[3 * (int64_t)i_i + j]" in found


# ---- shared memory --------------------------------------------------------------------------------------------


def test_memory_that_two_buffers_share_is_one_parameter():
    steps = [
        kernel("k0", (64,), load("a", "x", 1), add("b", "a", "a"), store("t", "b", 1)),
        kernel("k1", (64,), load("a", "t", 1), add("b", "a", "1.0f"), store("u", "b", 1)),
        kernel("k2", (64,), load("a", "u", 1), load("b", "x", 1), add("c", "a", "b"), store("y", "c", 1)),
    ]
    program = make([inp("x", (64,)), work("t", (64,)), work("u", (64,)), out("y", (64,))], steps, dims=())
    x = values(64)
    np.testing.assert_array_equal(run(program, {"x": x}).outputs["y"], x + x + 1 + x)
    assert "k1(float *restrict t)" in source(program).c_source
    assert "u in place of t" in source(program).c_source


def test_donated_inputs_and_state_are_updated_in_place():
    def update(name, old, new):
        return kernel(name, (40,), load("a", old, 1), load("b", "g", 1), add("c", "a", "b"), store(new, "c", 1))

    buffers = [inp("g", (40,)), inp("p", (40,), 1), state("w", (40,))]
    buffers += [out("p_new", (40,), 0, alias="p"), out("w_new", (40,), 1, alias="w")]
    program = make(buffers, [update("k0", "p", "p_new"), update("k1", "w", "w_new")], dims=())
    g, p, w = values(40), values(40), values(40)
    found = run(program, {"g": g, "p": p, "w": w}, flags=SANE)
    np.testing.assert_array_equal(found.outputs["p_new"], p + g)
    np.testing.assert_array_equal(found.state["w"], w + g)


# ---- whole programs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TARGETS)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(program=programs(), dim=st.integers(0, BATCH.bound), seed=st.integers(0, 9))
def test_random_programs_give_what_python_gives(kind, program, dim, seed):
    compare(program, dim, seed, kind, ("-O1", *TARGETS[kind].flags), COMPILERS[-1])


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(program=programs(), dim=st.integers(0, BATCH.bound), seed=st.integers(0, 9))
def test_random_programs_do_nothing_undefined(program, dim, seed):
    compare(program, dim, seed, "native", SANE, COMPILERS[0])


UNWRITTEN = ("-O1", "-g", "-DUNWRITTEN")
WATCHED = (*COMMAND, "--leak-check=no")
"""The driver keeps what it has until its end."""


@with_valgrind
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(program=programs(), dim=st.integers(0, BATCH.bound), seed=st.integers(0, 9))
def test_random_programs_read_nothing_that_they_have_not_written(program, dim, seed):
    compare(program, dim, seed, "narrow", UNWRITTEN, COMPILERS[0], WATCHED)


@with_valgrind
def test_a_read_of_what_was_not_written_is_found():
    steps = [
        kernel("k", (2,), load("a", "x", 1), store("w", "a", 1)),
        kernel("l", (3,), load("a", "w", 1), store("y", "a", 1)),
    ]
    program = make([inp("x", (3,)), work("w", (3,)), out("y", (3,))], steps, dims=())
    with pytest.raises(AssertionError, match="uninitialised"):
        run(program, {"x": values(3)}, target=TARGETS["narrow"], flags=UNWRITTEN, under=WATCHED)


def compare(program, dim, seed, kind, flags, compiler, under=()):
    given_values = sample(program, seed)
    arrays = {}
    for item in (*program.inputs, *program.state):
        count = np.prod([at(n, (dim if item in program.inputs else BATCH.bound,)) for n in item.shape], dtype=int)
        arrays[item.name] = given_values[item.name][:count]
    found = run(program, arrays, dims=(dim,), target=TARGETS[kind], flags=flags, compiler=compiler, under=under)
    expected, told = {}, (0, 0, 0)
    try:
        expected = run_apart(program, given_values, (dim,))
    except Failed as error:
        told = (1, *error.args)
    assert (found.code, found.node, found.index) == told
    for name, wanted in expected.items():
        rounding = {"rtol": 1e-5, "atol": 1e-5} if program.buffer(name).dtype == "f32" else {"rtol": 1e-12}
        got = found.outputs[name].ravel()
        np.testing.assert_allclose(got, np.ravel(wanted)[: got.size], err_msg=name, **rounding)

"""Matrix products in C: tiles against NumPy over odd sizes, the order of sums, epilogues, and who goes to BLAS."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gtensor.codegen import gemm
from gtensor.codegen.cexpr import STORED, Expr
from gtensor.codegen.program import Access, Accumulate, Accumulator, Assign, Check, Counter, Dim, Gemm, Term
from gtensor.codegen.target import PORTABLE, Target
from tests.codegen.by_hand import add, inp, load, make, out, store, sums, work
from tests.codegen.c_model import COMPILERS, NATIVE, NUMPY, SANITIZE, TARGETS, run, source

SANE = (*SANITIZE, *NATIVE.flags)
RANDOM = np.random.default_rng(0)
SIZES = ((1, 1, 1), (2, 3, 4), (6, 16, 5), (7, 17, 9), (12, 32, 3), (13, 10, 20), (5, 40, 1), (31, 33, 8))
"""(m, n, k)"""

B = Dim(0, "B", 14)


def values(*shape, dtype="f32"):
    drawn = RANDOM.standard_normal(shape) * 3
    return (drawn > 0 if dtype == "b1" else np.abs(drawn) * 9 if dtype[0] == "u" else drawn).astype(NUMPY[dtype])


def matmul(a, b, dtype):
    """The product as this dtype has it: integers wrap, of booleans it is whether any pair is true."""
    if dtype in ("f32", "f64"):
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(NUMPY[dtype])
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(NUMPY[dtype])


def strides(rows, cols, turned):
    """Of a matrix, or of one that lies in memory as its transpose."""
    return (1, rows) if turned else (cols, 1)


def plain(cases, dtype):
    """A program with one product per ((m, n, k), ta, tb), stored as it is."""
    buffers, steps = [], []
    for slot, ((m, n, k), ta, tb) in enumerate(cases):
        a, b, c = f"a{slot}", f"b{slot}", f"c{slot}"
        buffers.append(inp(a, (k, m) if ta else (m, k), 2 * slot, dtype))
        buffers.append(inp(b, (n, k) if tb else (k, n), 2 * slot + 1, dtype))
        buffers.append(out(c, (m, n), slot, dtype))
        term = Term(Access(a, strides(m, k, ta)), Access(b, strides(k, n, tb)), k)
        steps.append(Gemm(f"g{slot}", dtype, (), m, n, (term,), "acc", (store(c, "acc", n, 1),)))
    return make(buffers, steps, dims=())


@pytest.mark.parametrize("dtype", [tag for tag in NUMPY if tag not in STORED])
@pytest.mark.parametrize("kind", TARGETS)
def test_every_size_orientation_and_dtype(kind, dtype):
    cases = [(size, ta, tb) for size in SIZES for ta in (False, True) for tb in (False, True)]
    given, wanted = {}, []
    for slot, ((m, n, k), ta, tb) in enumerate(cases):
        a, b = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
        given |= {f"a{slot}": a.T if ta else a, f"b{slot}": b.T if tb else b}
        wanted.append(matmul(a, b, dtype))
    flags = ("-O1", *TARGETS[kind].flags)
    found = run(plain(cases, dtype), given, target=TARGETS[kind], flags=flags, compiler=COMPILERS[-1]).outputs
    rounding = {"f32": 2e-5, "f64": 1e-12}.get(dtype, 0)
    for slot, expected in enumerate(wanted):
        np.testing.assert_allclose(found[f"c{slot}"], expected, rtol=rounding, atol=rounding, err_msg=str(cases[slot]))


ADDED = {
    "a matrix": lambda m, n: ((m, n), (n, 1)),
    "a row": lambda m, n: ((n,), (0, 1)),
    "a column": lambda m, n: ((m, 1), (1, 0)),
    "one number": lambda m, n: ((), (0, 0)),
}
"""What an epilogue adds to a product of (m, n): its shape and strides."""


@pytest.mark.parametrize("what", ADDED)
@pytest.mark.parametrize("kind", TARGETS)
def test_an_epilogue_sees_every_element_of_every_size_and_orientation(kind, what):
    for size in ((2, 3, 4), (7, 17, 9), (13, 10, 20), (31, 33, 8), (1, 1, 1), (1, 8, 32), (1, 20, 7), (9, 1, 6)):
        m, n, k = size
        cases = [(size, ta, tb) for ta in (False, True) for tb in (False, True)]
        program, shape, along = plain(cases, "f32"), *ADDED[what](m, n)
        plus = load("e", "more", *along), add("s", "acc", "e")
        steps = [replace(step, epilogue=(*plus, store(f"c{i}", "s", n, 1))) for i, step in enumerate(program.steps)]
        given, wanted = {"more": values(*shape)}, []
        for slot, (_, ta, tb) in enumerate(cases):
            a, b = values(m, k), values(k, n)
            given |= {f"a{slot}": a.T if ta else a, f"b{slot}": b.T if tb else b}
            wanted.append(matmul(a, b, "f32") + given["more"])
        adding = make([*program.buffers, inp("more", shape, 2 * len(cases))], steps, dims=())
        found = run(adding, given, target=TARGETS[kind], flags=("-O1", *TARGETS[kind].flags)).outputs
        for slot, expected in enumerate(wanted):
            np.testing.assert_allclose(found[f"c{slot}"], expected, rtol=2e-5, atol=2e-5, err_msg=str(cases[slot]))


def chain(a, b, fused):
    """The product with each element summed in k order, in f32; fused: rounded once per step."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for p in range(a.shape[1]):
        if fused:
            # A product of two f32 is exact in f64; the sum of it and an f32 may round twice, which no draw here meets.
            total = (a[:, p, None].astype(np.float64) * b[None, p] + total).astype(np.float32)
        else:
            total = a[:, p, None] * b[None, p] + total
    return total


@pytest.mark.parametrize("tb", [False, True])
def test_each_element_is_one_chain_in_k_order_whatever_the_tile(tb):
    """The same rows and columns in products of many shapes: every tile gives them the same bits."""
    a, b = values(29, 50), values(50, 37)
    cases = [((m, n, 50), False, tb) for m, n in ((29, 37), (6, 16), (5, 9), (1, 1), (23, 3))]
    given = {}
    for slot, ((m, n, _), _, _) in enumerate(cases):
        given |= {f"a{slot}": a[:m], f"b{slot}": b[:, :n].T if tb else b[:, :n]}
    for kind, target in TARGETS.items():
        found = run(plain(cases, "f32"), given, target=target).outputs
        expected = chain(a, b, target.fma)
        for slot, ((m, n, _), _, _) in enumerate(cases):
            np.testing.assert_array_equal(found[f"c{slot}"], expected[:m, :n], err_msg=f"{kind} {m} {n}")


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("side", ["m", "n", "k"])
def test_run_time_sides(side, kind):
    """x (m, k) times w (k, n), and 1 more, where one of the three is B; the last case is empty."""
    m, n, k = (B if side == name else size for name, size in (("m", 9), ("n", 20), ("k", 11)))
    term = Term(Access("x", (k, 1)), Access("w", (n, 1)), k)
    more = add("s", "acc", "1.0f"), store("z", "s", n, 1)
    steps = [Gemm("g", "f32", (), m, n, (term,), "acc", (store("y", "acc", n, 1),))]
    steps.append(Gemm("h", "f32", (), m, n, (term,), "acc", more))
    program = make([inp("x", (m, k)), inp("w", (k, n), 1), out("y", (m, n)), out("z", (m, n), 1)], steps, dims=(B,))
    for extent in (14, 13, 1, 0):
        sizes = {"m": 9, "n": 20, "k": 11, side: extent}
        x, w = values(sizes["m"], sizes["k"]), values(sizes["k"], sizes["n"])
        for flags in (None, (*SANITIZE, *TARGETS[kind].flags)):
            found = run(program, {"x": x, "w": w}, dims=(extent,), target=TARGETS[kind], flags=flags).outputs
            np.testing.assert_allclose(found["y"], x @ w, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found["z"], x @ w + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(0, 4, 3), (4, 0, 3), (4, 5, 0)])
def test_empty_sides(size):
    m, n, k = size
    bias = load("b", "bias", 0, 1), add("s", "acc", "b"), store("y", "s", n, 1)
    total = Accumulate(Access("t", (0, 0)), "sum", "s")
    term = Term(Access("x", (k, 1)), Access("w", (n, 1)), k)
    step = Gemm("g", "f32", (), m, n, (term,), "acc", (*bias, total), (Accumulator("t", "sum"),))
    buffers = [inp("x", (m, k)), inp("w", (k, n), 1), inp("bias", (n,), 2), out("y", (m, n)), out("t", (), 1)]
    b = values(n)
    found = run(make(buffers, [step], dims=()), {"x": values(m, k), "w": values(k, n), "bias": b}, flags=SANE).outputs
    np.testing.assert_array_equal(found["y"], np.broadcast_to(b, (m, n)))
    np.testing.assert_allclose(found["t"], m * b.sum(), rtol=1e-6)


def test_batches_broadcast_batches_and_two_terms():
    """y[b, h] = q[b, h] @ k[b, h].T + p[h] @ r, for q of heads inside rows, with the rows of r reversed."""
    first = Term(Access("q", (60, 4, 12, 1)), Access("k", (84, 28, 1, 4)), 4)
    second = Term(Access("p", (0, 10, 2, 1)), Access("r", (0, 0, -7, 1), 7), 2)
    y = store("y", "acc", 105, 35, 7, 1)
    steps = [Gemm("g", "f32", (2, 3), 5, 7, (first, second), "acc", (y,))]
    buffers = [inp("q", (2, 5, 3, 4)), inp("k", (2, 3, 7, 4), 1), inp("p", (3, 5, 2), 2), inp("r", (2, 7), 3)]
    program = make([*buffers, out("y", (2, 3, 5, 7))], steps, dims=())
    q, k, p, r = values(2, 5, 3, 4), values(2, 3, 7, 4), values(3, 5, 2), values(2, 7)
    expected = np.einsum("bihd,bhjd->bhij", q, k) + p @ r[::-1]
    found = run(program, {"q": q, "k": k, "p": p, "r": r}, flags=SANE).outputs["y"]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_an_epilogue_of_many_statements():
    """Bias, activation, a second output, sums over rows and over all, a counter, and another dtype."""

    def calc(var, template, *args, result="f32"):
        return Assign(var, result, Expr(template, args, "f32", result))

    epilogue = (
        load("b", "bias", 0, 1),
        add("z", "acc", "b"),
        calc("h", "gt_max_{t}({0}, {1})", "z", "0.0f"),
        calc("on", "gt_gt_{t}({0}, {1})", "z", "0.0f", result="b1"),
        Counter("row", 0),
        store("y", "h", 19, 1),
        store("mask", "on", 1, 23),
        store("rows", "row", 19, 1),
        sums("cols", "h", 0, 1),
        sums("all", "h", 0, 0),
    )
    term = Term(Access("x", (8, 1)), Access("w", (19, 1)), 8)
    accumulators = (Accumulator("cols", "sum", scratch="cols64"), Accumulator("all", "sum", scratch="all64"))
    step = Gemm("g", "f32", (), 23, 19, (term,), "acc", epilogue, accumulators)
    buffers = [inp("x", (23, 8)), inp("w", (8, 19), 1), inp("bias", (19,), 2), out("y", (23, 19))]
    buffers += [out("mask", (19, 23), 1, "b1"), out("rows", (23, 19), 2, "i64"), out("cols", (19,), 3)]
    buffers += [out("all", (), 4), work("cols64", (19,), "f64"), work("all64", (), "f64")]
    x, w, bias = values(23, 8), values(8, 19), values(19)
    for flags in (None, SANE):
        found = run(make(buffers, [step], dims=()), {"x": x, "w": w, "bias": bias}, flags=flags).outputs
        z = x @ w + bias
        np.testing.assert_allclose(found["y"], np.maximum(z, 0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found["mask"], (found["y"] > 0).T)
        np.testing.assert_array_equal(found["rows"], np.repeat(np.arange(23)[:, None], 19, 1))
        np.testing.assert_allclose(found["cols"], found["y"].sum(0, dtype=np.float64), rtol=1e-6)
        np.testing.assert_allclose(found["all"], found["y"].sum(dtype=np.float64), rtol=1e-6)


def test_an_epilogue_that_fails_ends_the_step():
    number = Assign("i", "i64", Expr("gt_cast_{t}_{r}({0})", ("acc",), "f32", "i64"))
    epilogue = (number, Check("i", 0, 5, 0), store("y", "acc", 3, 1))
    step = Gemm("g", "f32", (), 2, 3, (Term(Access("x", (1, 1)), Access("w", (3, 1)), 1),), "acc", epilogue)
    program = make([inp("x", (2, 1)), inp("w", (1, 3), 1), out("y", (2, 3))], [step], dims=())
    x, w = np.array([[1], [2]]), np.array([[1, 2, 3]])
    found = run(program, {"x": x, "w": w}, flags=SANE)
    assert (found.code, found.node, found.index) == (1, 0, 6)
    assert run(program, {"x": x, "w": w - 1}, flags=SANE).code == 0


def test_an_epilogue_updates_what_it_reads_in_place():
    epilogue = load("old", "w", 16, 1), add("s", "old", "acc"), store("w_new", "s", 16, 1)
    step = Gemm("g", "f32", (), 8, 16, (Term(Access("x", (1, 8)), Access("d", (16, 1)), 4),), "acc", epilogue)
    buffers = [inp("x", (4, 8)), inp("d", (4, 16), 1), inp("w", (8, 16), 2), out("w_new", (8, 16), 0, alias="w")]
    x, d, w = values(4, 8), values(4, 16), values(8, 16)
    found = run(make(buffers, [step], dims=()), {"x": x, "d": d, "w": w}, flags=SANE).outputs["w_new"]
    np.testing.assert_allclose(found, w + x.T @ d, rtol=1e-5, atol=1e-5)


# ---- BLAS -----------------------------------------------------------------------------------------------------


@pytest.fixture
def blas_from_25_million(monkeypatch):
    """The crossover where products are still small enough for a test."""
    monkeypatch.setattr(gemm, "BLAS_FROM", 25_000_000)


def big(ta=False, tb=False, epilogue=None, dtype="f32", batch=(), pad=0):
    """y = x @ w of (300, 301, 302): 27 million multiply-adds."""
    m, n, k = 300, 301, 302
    epilogue = epilogue or (store("y", "acc", *(m * (n + pad),) * len(batch), n + pad, 1),)
    a = Access("x", (m * k,) * len(batch) + strides(m, k, ta))
    b = Access("w", (k * n,) * len(batch) + strides(k, n, tb))
    step = Gemm("g", dtype, batch, m, n, (Term(a, b, k),), "acc", epilogue)
    buffers = [inp("x", (*batch, m, k), 0, dtype), inp("w", (*batch, k, n), 1, dtype), inp("bias", (n,), 2, dtype)]
    return make([*buffers, out("y", (*batch, m, n + pad), 0, dtype)], [step], dims=())


def prepared(program, target=NATIVE, blas=True):
    return gemm.prepare(program, target, blas).steps[-1]


@pytest.mark.usefixtures("blas_from_25_million")
def test_who_goes_to_blas():
    bias = load("b", "bias", 0, 1), add("s", "acc", "b"), store("y", "s", 301, 1)
    assert prepared(big()).route == "blas"
    assert prepared(big()).scratch is None
    assert prepared(big(ta=True, tb=True, dtype="f64")).route == "blas"
    assert prepared(big(epilogue=bias)).scratch == "g_product"
    assert prepared(big(), blas=False).route == "tile"
    assert prepared(big(), target=PORTABLE).route == "tile"
    small = replace(big().steps[0], m=270)
    assert 270 * 301 * 302 < gemm.BLAS_FROM < 300 * 301 * 302
    assert prepared(replace(big(), steps=(small,))).route == "tile"
    whole = replace(big().steps[0], dtype="i32")
    assert prepared(replace(big(), steps=(whole,))).route == "tile"
    (term,) = big().steps[0].terms
    for a in ((302, 2), (0, 1), (-302, 1), (100, 1)):
        odd = replace(big().steps[0], terms=(replace(term, a=Access("x", a)),))
        assert prepared(replace(big(), steps=(odd,))).route == "tile", a


@pytest.mark.usefixtures("blas_from_25_million")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("ta, tb", [(False, False), (False, True), (True, False), (True, True)])
def test_blas_gets_what_it_understands(ta, tb, dtype):
    x, w = values(300, 302, dtype=dtype), values(302, 301, dtype=dtype)
    given = {"x": x.T if ta else x, "w": w.T if tb else w, "bias": values(301, dtype=dtype)}
    program = big(ta, tb, dtype=dtype)
    found = run(program, given, blas=True).outputs["y"]
    np.testing.assert_allclose(found, x.astype(float) @ w, rtol=1e-4 if dtype == "f32" else 1e-11, atol=1e-3)
    assert f'gt_blas_{dtype}(blas, "{"NT"[ta]}{"NT"[tb]}", 300, 301, 302' in source(program, blas=True).c_source


@pytest.mark.usefixtures("blas_from_25_million")
def test_blas_with_an_epilogue_a_batch_and_two_terms():
    epilogue = load("b", "bias", 0, 0, 1), add("s", "acc", "b"), store("y", "s", 90300, 301, 1)
    program = big(batch=(2,), epilogue=epilogue)
    (step,) = program.steps
    program = replace(program, steps=(replace(step, terms=step.terms * 2),))
    x, w, bias = values(2, 300, 302), values(2, 302, 301), values(301)
    found = run(program, {"x": x, "w": w, "bias": bias}, blas=True, flags=("-O3", *NATIVE.flags)).outputs["y"]
    np.testing.assert_allclose(found, 2 * (x.astype(float) @ w) + bias, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("blas_from_25_million")
def test_a_model_that_needs_blas_refuses_to_run_without():
    assert source(big(), blas=True).needs_blas
    assert not source(big()).needs_blas
    assert "return GT_ERR_BLAS;" in source(big(), blas=True).c_source


# ---- text -----------------------------------------------------------------------------------------------------


def test_only_tiles_that_occur_are_written_and_accumulators_have_names():
    found = source(plain([((12, 32, 50), False, False)], "f32"), target=Target("t", 32, 16, True)).c_source
    assert re.findall(r"GT_TILE void (gt_tile\w*)\(", found) == ["gt_tile_f32_6x16"]
    assert "c51 = VFMA(s, b1, c51)" in found
    assert "gt_tile_f32(" not in found
    both = source(plain([((13, 34, 50), False, True)], "f32"), target=Target("t", 32, 16, True)).c_source
    names = re.findall(r"static void (gt_tile\w*)\(|GT_TILE void (gt_tile\w*)\(", both)
    assert names[-1] == ("gt_tile_f32", "")
    assert any(name.endswith("_part") for _, name in names)


def test_portable_c_has_no_vectors():
    found = source(plain([((13, 32, 5), False, True)], "f32"), target=PORTABLE).c_source
    assert "vector_size" not in found
    assert "c33 = VFMA(s, b3, c33)" in found

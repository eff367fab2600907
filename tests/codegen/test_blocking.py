"""How products are cut: each layout gives the same bits, what lies outside is never touched, and who is packed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gtensor.codegen import gemm
from gtensor.codegen.blocking import Layout, layout
from gtensor.codegen.program import Access, Accumulate, Accumulator, Dim, Gemm, Term
from gtensor.codegen.target import PORTABLE, Target
from tests.codegen.by_hand import add, inp, load, make, out, store, work
from tests.codegen.c_model import COMPILERS, NARROW, NATIVE, NUMPY, SANITIZE, run, source

CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
WIDE = Target("wide", 64, 32, True, NATIVE.flags)
TARGETS = {"narrow": NARROW, "native": NATIVE} | ({"wide": WIDE} if "avx512f" in CPU else {})
RANDOM = np.random.default_rng(5)
M, N, K = 29, 37, 50
FORMS = ("NN", "NT", "TN")
POISON = "-DFILL=0xFF"
"""Memory starts as NaN."""


def values(*shape, dtype="f32"):
    return RANDOM.standard_normal(shape).astype(NUMPY[dtype])


def chain(a, b, fused):
    """The product with each element summed in the order of k; fused: rounded once per step."""
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for p in range(a.shape[1]):
        if fused:
            total = (a[:, p, None].astype(wide) * b[None, p] + total).astype(a.dtype)
        else:
            total = a[:, p, None] * b[None, p] + total
    return total


def framed(matrix, pad=3):
    """A matrix inside of NaN: one row above, `pad` columns behind each row."""
    room = np.full((matrix.shape[0] + 2, matrix.shape[1] + pad), np.nan, matrix.dtype)
    room[1:-1, : matrix.shape[1]] = matrix
    return room


def operand(name, matrix, turned, slot, dtype, pad=3):
    """A buffer that holds a matrix in a frame, its values, and the access that reads it; `turned` as it lies."""
    room = framed(matrix.T if turned else matrix, pad)
    stride = room.shape[1]
    return inp(name, room.shape, slot, dtype), room, Access(name, (1, stride) if turned else (stride, 1), stride)


def forced(monkeypatch, layouts):
    """Let each product have the layout that is said for its name."""
    monkeypatch.setattr(gemm, "layout", lambda step, target: layouts[step.name])


def layouts_of(form, lanes):
    """Layouts of many kinds for a product of a form; the forms share the shapes among them."""
    kinds_b = ("turned", "any") if form == "NT" else ("", "rows", "any")
    kinds_a = ("", "panels") if form == "TN" else ("", "block")
    shapes = [(rows, vectors) for rows in range(1, 15) for vectors in (1, 2)] + [(3, 4), (1, 8)]
    choices = itertools.cycle(itertools.product(kinds_b, kinds_a, (0, lanes, 32)))
    return [(rows, vectors, *next(choices)) for rows, vectors in shapes[FORMS.index(form) :: 3]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", TARGETS)
def test_no_layout_changes_a_bit(kind, form, monkeypatch):
    """Tiles of 1 to 14 rows and 1 to 8 vectors, with and without copies and blocks of k, with and without epilogue."""
    target = TARGETS[kind]
    lanes, padded = target.lanes(4), kind == "narrow"
    a, b, bias = values(M, K), values(K, N), values(N)
    x, x_room, x_at = operand("x", a, form[0] == "T", 0, "f32")
    w, w_room, w_at = operand("w", b, form[1] == "T", 1, "f32")
    buffers, steps, layouts, given = [x, w, inp("bias", (N,), 2)], [], {}, {"x": x_room, "w": w_room, "bias": bias}
    for number, (rows, vectors, packed_b, packed_a, depth) in enumerate(layouts_of(form, lanes)):
        name = f"g{number}"
        packed_b = packed_b or ("rows" if padded else "")
        layouts[name] = Layout(rows, vectors, lanes, depth, (packed_a,), (packed_b,), padded=padded)
        y, room, width = f"y{number}", f"room{number}", N + 1 + number  # no two alike: equal products are one function
        buffers += [inp(room, (M, width), 3 + number), out(y, (M, width), number, alias=room)]
        given[room] = np.full((M, width), 7, np.float32)
        stored = (store(y, "acc", width, 1),)
        if number % 2:
            stored = load("b", "bias", 0, 1), add("s", "acc", "b"), store(y, "s", width, 1)
        steps.append(Gemm(name, "f32", (), M, N, (Term(x_at, w_at, K),), "acc", stored))
    forced(monkeypatch, layouts)
    program = make(buffers, steps, dims=())
    assert source(program, target).c_source.count("GT_KERNEL void g") == len(steps)
    sums = chain(a, b, target.fma)
    found = run(program, given, target=target, flags=(*SANITIZE, *target.flags, POISON), compiler=COMPILERS[-1]).outputs
    for number, step in enumerate(steps):
        expected = sums + bias if number % 2 else sums
        np.testing.assert_array_equal(found[f"y{number}"][:, :N], expected, err_msg=str(layouts[step.name]))
        assert (found[f"y{number}"][:, N:] == 7).all(), layouts[step.name]


@pytest.mark.parametrize("kind", TARGETS)
def test_narrow_products_summed_as_their_transpose(kind, monkeypatch):
    target = TARGETS[kind]
    lanes = target.lanes(4)
    a = values(M, K)
    x, x_room, x_at = operand("x", a, False, 0, "f32")
    t, t_room, t_at = operand("t", a, True, 1, "f32")
    buffers, steps, layouts, given, wanted = [x, t], [], {}, {"x": x_room, "t": t_room}, {}
    for number, n in enumerate(n for n in (2, 3, 4, 7, 10, 14) if n < lanes):
        b = values(K, n)
        w, w_room, w_at = operand(f"w{number}", b, number % 2 == 1, 2 + number, "f32")
        buffers.append(w)
        given[w.name] = w_room
        for form, at in (("N", x_at), ("T", t_at)):
            name, y = f"g{number}{form}", f"y{number}{form}"
            vectors = 2 if 2 * n + 3 <= target.registers else 1
            kind_b = "turned" if form == "N" else "rows" if kind == "narrow" else ""
            layouts[name] = Layout(n, vectors, lanes, 0, ("",), (kind_b,), padded=kind == "narrow", across=True)
            epilogue, wanted[y] = (store(y, "acc", n, 1),), chain(a, b, target.fma)
            if form == "N" and number % 2 == 0:
                epilogue, wanted[y] = (add("s", "acc", "acc"), store(y, "s", n, 1)), 2 * wanted[y]
            elif form == "N":
                first = a[:, 0] + wanted[y].T
                epilogue, wanted[y] = (
                    (load("o", "x", K + 3, 0, at=K + 3), add("s", "o", "acc"), store(y, "s", n, 1)),
                    first.T,
                )
            buffers.append(out(y, (M, n), len(steps)))
            steps.append(Gemm(name, "f32", (), M, n, (Term(at, w_at, K),), "acc", epilogue))
    forced(monkeypatch, layouts)
    flags = (*SANITIZE, *target.flags, POISON)
    found = run(make(buffers, steps, dims=()), given, target=target, flags=flags).outputs
    for name, expected in wanted.items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("kind", TARGETS)
def test_what_is_chosen_is_right(kind, dtype):
    """The layouts that sizes really get, in frames of NaN, beside float64; with sums over columns too."""
    target = TARGETS[kind]
    sizes = ((1, 70, 33), (33, 17, 29), (32, 32, 4), (70, 300, 41), (40, 520, 272))
    buffers, steps, given, wanted = [], [], {}, {}
    for number, ((m, k, n), form) in enumerate(itertools.product(sizes, FORMS)):
        a, b = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
        x, x_room, x_at = operand(f"x{number}", a, form[0] == "T", 2 * number, dtype)
        w, w_room, w_at = operand(f"w{number}", b, form[1] == "T", 2 * number + 1, dtype)
        given |= {x.name: x_room, w.name: w_room}
        y, total = f"y{number}", f"t{number}"
        buffers += [x, w, out(y, (m, n), 2 * number, dtype), out(total, (n,), 2 * number + 1, dtype)]
        epilogue = (store(y, "acc", n, 1), Accumulate(Access(total, (0, 1)), "sum", "acc"))
        wanted |= {y: a.astype(np.float64) @ b, total: (a.astype(np.float64) @ b).sum(0)}
        steps.append(
            Gemm(f"g{number}", dtype, (), m, n, (Term(x_at, w_at, k),), "acc", epilogue, (Accumulator(total, "sum"),))
        )
    flags = (*(SANITIZE if dtype == "f32" else ("-O1",)), *target.flags, POISON)
    found = run(make(buffers, steps, dims=()), given, target=target, flags=flags, compiler=COMPILERS[-1]).outputs
    rounding = 3e-5 if dtype == "f32" else 1e-12
    for name, expected in wanted.items():
        np.testing.assert_allclose(found[name], expected, rtol=rounding, atol=rounding * 10, err_msg=name)


@pytest.mark.parametrize("kind", TARGETS)
def test_run_time_sides_of_long_products(kind):
    """Blocks of k whose number is known at run time only, also none; two terms; columns counted at run time."""
    target, size = TARGETS[kind], Dim(0, "B", 600)
    x, w, d = inp("x", (size, 40)), inp("w", (size, 70), 1), inp("d", (40, 70), 2)
    turned = Term(Access("x", (1, 40)), Access("w", (70, 1)), size)
    second = Term(Access("x", (1, 40), 0), Access("w", (70, 1), 0), size)
    bias = load("b", "d", 70, 1), add("s", "acc", "b"), store("y", "s", 70, 1)
    outer = Term(Access("d", (1, 70)), Access("x", (1, 40)), 40)
    steps = [
        Gemm("g", "f32", (), 40, 70, (turned, second), "acc", bias),
        Gemm("h", "f32", (), 70, size, (outer,), "acc", (store("z", "acc", size, 1),)),
    ]
    program = make([x, w, d, out("y", (40, 70)), out("z", (70, size), 1)], steps, dims=(Dim(0, "B", 600),))
    for extent in (600, 257, 3, 0):
        given = {"x": values(extent, 40), "w": values(extent, 70), "d": values(40, 70)}
        flags = (*SANITIZE, *target.flags, POISON)
        found = run(program, given, dims=(extent,), target=target, flags=flags).outputs
        x_, w_, d_ = (given[name].astype(np.float64) for name in "xwd")
        np.testing.assert_allclose(found["y"], 2 * (x_.T @ w_) + d_, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found["z"], d_.T @ x_.T, rtol=1e-4, atol=1e-4)


def test_a_sum_over_everything_has_one_order(monkeypatch):
    """The total of a product is summed row by row whatever the tiles."""
    x, w = values(M, K), values(K, N)
    buffers = [inp("x", (M, K)), inp("w", (K, N), 1), out("t", ())]
    term = Term(Access("x", (K, 1)), Access("w", (N, 1)), K)
    total = (Accumulate(Access("t", (0, 0)), "sum", "acc"),)
    program = make(buffers, [Gemm("g", "f32", (), M, N, (term,), "acc", total, (Accumulator("t", "sum"),))], dims=())
    found = set()
    for rows, vectors in ((6, 2), (4, 1), (13, 1)):
        monkeypatch.setattr(
            gemm, "layout", lambda step, target, r=rows, v=vectors: replace(layout(step, target), rows=r, vectors=v)
        )
        found.add(float(run(program, {"x": x, "w": w}).outputs["t"]))
    assert len(found) == 1


def choice(form, m, k, n, target=WIDE, dtype="f32"):
    a = Access("a", (k, 1) if form[0] == "N" else (1, m))
    b = Access("b", (n, 1) if form[1] == "N" else (1, k))
    step = Gemm("g", dtype, (), m, n, (Term(a, b, k),), "acc", (store("c", "acc", n, 1),))
    return layout(step, target)


def test_what_is_copied():
    assert choice("NN", 64, 64, 64).b == ("",)
    assert choice("NT", 64, 64, 64).b == ("turned",)
    assert choice("NN", 256, 1024, 1024).b == ("rows",)
    assert choice("NN", 1, 1024, 1024).b == ("",), "a copy that is read once does not pay"
    assert choice("NN", 32, 256, 256).b == ("",), "nor one that is read for few rows"
    assert choice("TN", 256, 1024, 1024).a == ("panels",)
    assert choice("TN", 256, 1024, 10).a == ("",)
    assert choice("NN", 20, 30, 37, NARROW).b == ("rows",), "no masked loads: the last vector comes from a panel"
    assert choice("NN", 20, 30, 37, PORTABLE).b == ("",)
    assert choice("NT", 20, 30, 37, PORTABLE).b == ("",)
    assert choice("NT", 20, 30, 37, dtype="i32").lanes == 1


def test_blocks_of_k_make_panels_for_the_first_level_cache():
    for target in (NARROW, NATIVE, WIDE):
        for form in FORMS:
            short, long = choice(form, 64, 4096, 1024, target), choice(form, 256, 4096, 1024, target)
            assert 24 << 10 < short.depth * short.cols * 4 <= 36 << 10
            assert 48 << 10 < long.depth * long.cols * 4 <= 72 << 10, "sums of 1 MB: fewer passes over them"
            assert choice(form, 64, 64, 64, target).depth == 0


def test_tiles_fill_the_registers():
    for target, least in ((WIDE, 24), (NATIVE, 12), (NARROW, 24)):
        cut = choice("NN", 6000, 64, 640, target)
        assert least <= cut.rows * cut.vectors < target.registers - cut.vectors
    one = choice("NN", 1, 64, 640)
    assert (one.rows, one.vectors) == (1, 8)
    assert choice("TN", 32, 32, 4).across
    assert not choice("NN", 128, 16, 16).across


def test_small_panels_lie_on_the_stack_and_bigger_ones_in_the_arena():
    def buffers(m, k, n):
        term = Term(Access("a", (k, 1)), Access("b", (1, k)), k)
        step = Gemm("g", "f32", (), m, n, (term,), "acc", (store("c", "acc", n, 1),))
        program = make([inp("a", (m, k)), inp("b", (n, k), 1), out("c", (m, n))], [step], dims=())
        return [buffer.name for buffer in gemm.prepare(program, WIDE, False).buffers[3:]]

    assert buffers(32, 4, 32) == []
    assert buffers(64, 64, 64) == ["g_b"]
    assert work("g_b", (1,)).role == "work"

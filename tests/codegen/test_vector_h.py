"""templates/gt_vector.h: every lane has the bits of gt_scalar.h, and memory beyond a part is left alone.

The scalar functions of the same compiler and flags are the reference; test_scalar_h.py compares them with NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.c_headers import VECTOR, Build, assert_same_bits, grid, vector_call, vector_loop

HEADER = "gt_vector.h"

UNARY = {
    "f32": "neg abs sign square sqrt rsqrt reciprocal floor ceil trunc round",
    "i32": "neg abs sign square not",
    "b1": "not",
}
BINARY = {
    "f32": "add sub mul div floor_divide remainder max min",
    "i32": "add sub mul floor_divide remainder pow max min shift_left shift_right",
}
NAMED = [
    *((f"gt_{name}_{tag}", (tag,), tag) for tag, names in UNARY.items() for name in names.split()),
    *((f"gt_{name}_{tag}", (tag, tag), tag) for tag, names in BINARY.items() for name in names.split()),
    *((f"gt_{name}_f32", ("f32",), "b1") for name in ("isnan", "isinf", "isfinite")),
    *((f"gt_where_{tag}", ("b1", tag, tag), tag) for tag in ("f32", "i32", "b1")),
    *((f"gt_cast_{a}_{b}", (a,), b) for a in ("f32", "i32", "b1") for b in ("f32", "i32", "b1") if a != b),
    ("gt_fma_f32", ("f32", "f32", "f32"), "f32"),
]
"""Functions, whose name for vectors has the tags of vectors."""

WRITTEN = {
    **{
        (f"gt_{name}_f32", ("f32", "f32"), "f32"): f"x {sign} y"
        for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
    },
    **{
        (f"gt_{name}_{tag}", (tag, tag), tag): f"x {sign} y"
        for name, sign in (("and", "&"), ("or", "|"), ("xor", "^"))
        for tag in ("i32", "b1")
    },
    **{
        (f"gt_{name}_{tag}", (tag, tag), "b1"): f"x {sign} y"
        for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
        for tag in ("f32", "i32")
    },
}
"""Functions that are an operator on vectors."""

FOLDS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@pytest.fixture(scope="module", params=VECTOR, ids=str)
def build(request):
    return request.param


def pairs(build, folder, expressions):
    """The functions for one value, and vector expressions instead of them."""
    signatures = list(expressions)
    scalar = Build(build.compiler, build.kind).functions("gt_scalar.h", signatures, folder)
    loops = [vector_loop(*signature, text) for signature, text in expressions.items()]
    return scalar, build.loops(HEADER, loops, signatures, folder)


@pytest.mark.parametrize("expressions", [{s: vector_call(*s) for s in NAMED}, WRITTEN], ids=["named", "operators"])
def test_lanes_are_those_of_the_scalar_functions(build, c_folder, expressions):
    scalar, vector = pairs(build, c_folder, expressions)
    for name, args, _ in expressions:
        inputs = grid(args)
        assert_same_bits(vector[name](*inputs), scalar[name](*inputs), inputs, name)


def test_doubles_are_multiplied_and_added_alike(build, c_folder):
    signature = "gt_fma_f64", ("f64", "f64", "f64"), "f64"
    loop = f"""void over_gt_fma_f64(int64_t n, const double *a, const double *b, const double *c, double *out)
{{
    const int64_t lanes = GT_LANES / 2;
    for (int64_t i = 0; i < n; i += lanes) {{
        int64_t rest = n - i < lanes ? n - i : lanes;
        gt_v_f64 x = gt_load_part_f64(a + i, rest), y = gt_load_part_f64(b + i, rest);
        gt_store_part_f64(out + i, {vector_call(*signature)[:-2]}gt_load_part_f64(c + i, rest)), rest);
    }}
}}
"""
    scalar = Build(build.compiler, build.kind).functions("gt_scalar.h", [signature], c_folder)
    vector = build.loops(HEADER, [loop], [signature], c_folder)
    inputs = tuple(np.resize(a[::7], 99_999) for a in grid(("f64", "f64", "f64")))
    assert_same_bits(vector["gt_fma_f64"](*inputs), scalar["gt_fma_f64"](*inputs), inputs)


def halves(rows, combine):
    """Each row folded in halves."""
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        rows = combine(rows[:, :half], rows[:, half:])
    return rows[:, 0]


def test_folds_go_by_halves_and_sixteen_lanes_fold_alike_in_every_width(build, c_folder):
    lanes = build.width // 4
    signatures = [(f"fold_{name}", ("f32",), "f32") for name in FOLDS] + [("any", ("b1",), "b1")]
    texts = [f"gt_splat_f32(gt_fold_{name}_f32(x))" for name in FOLDS] + ["gt_splat_b1(gt_any_v_b1(x))"]
    loops = [vector_loop(*s, text) for s, text in zip(signatures, texts, strict=True)]
    functions = build.loops(HEADER, loops, signatures, c_folder)
    values = np.random.default_rng(3).normal(size=16 * 500).astype(np.float32)
    values[5::97], values[::1001] = np.inf, np.nan
    for name, combine in FOLDS.items():
        folded = functions[f"fold_{name}"](values)[::lanes]
        assert_same_bits(folded, halves(values.reshape(-1, lanes), combine), (folded,), name)
        sixteen = values.reshape(-1, 16)
        rest = sixteen
        while rest.shape[1] > lanes:
            rest = combine(rest[:, : rest.shape[1] // 2], rest[:, rest.shape[1] // 2 :])
        folded = functions[f"fold_{name}"](np.ascontiguousarray(rest).ravel())[::lanes]
        assert_same_bits(folded, halves(sixteen, combine), (folded,), name)
    truths = np.random.default_rng(4).random(16 * 500) < 0.1
    assert_same_bits(functions["any"](truths)[::lanes], truths.reshape(-1, lanes).any(axis=1), (truths[::lanes],))


MEMORY = """
#define _GNU_SOURCE
#include "gt_vector.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char *edge;  /* a page that may be used ends here, and one that may not begins */
static long page;

static void filled(unsigned char value) { memset(edge - page, value, (size_t)page); }

/* Whether the page holds `value` but for `size` bytes before `end`. */
static int untouched(unsigned char value, const unsigned char *end, int64_t size)
{
    for (const unsigned char *p = edge - page; p < edge; p++)
        if (*p != value && (p < end - size || p >= end))
            return 0;
    return 1;
}

/* Parts of `lanes` elements, at the end of the page and before it; `which` is part or upto. */
#define CHECK(kind, type, lanes, which, value)                                                              \\
    for (int64_t rest = 0; rest <= (lanes); rest++)                                                         \\
        for (int gap = 0; gap <= 3 && (rest > 0 || !strcmp(#which, "part")); gap++) {                       \\
            type given[lanes], got[lanes], none[lanes], *at = (type *)edge - gap - rest;                    \\
            const size_t bytes = (size_t)rest * sizeof *at;                                                 \\
            memset(none, 0, sizeof none);                                                                   \\
            for (int l = 0; l < (lanes); l++)                                                               \\
                given[l] = (type)(value);                                                                   \\
            filled(1);                                                                                      \\
            memcpy(at, given, bytes);                                                                       \\
            gt_v_##kind v = gt_load_##which##_##kind(at, rest);                                             \\
            gt_store_##kind(got, v);                                                                        \\
            if (memcmp(got, given, bytes) || memcmp(got + rest, none, sizeof none - bytes))                 \\
                printf("%s: load of %d\\n", #kind " " #which, (int)rest);                                   \\
            filled(85);                                                                                     \\
            gt_store_##which##_##kind(at, gt_load_##kind(given), rest);                                     \\
            if (memcmp(at, given, bytes) || !untouched(85, (unsigned char *)(at + rest), (int64_t)bytes))   \\
                printf("%s: store of %d\\n", #kind " " #which, (int)rest);                                  \\
        }

int main(void)
{
    page = sysconf(_SC_PAGESIZE);
    unsigned char *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    edge = pages + page;
    if (pages == MAP_FAILED || mprotect(edge, (size_t)page, PROT_NONE))
        return 1;
    CHECK(f32, float, GT_LANES, part, 1.5 + l)
    CHECK(f32, float, GT_LANES, upto, 1.5 + l)
    CHECK(i32, int32_t, GT_LANES, part, -7 - l)
    CHECK(i32, int32_t, GT_LANES, upto, -7 - l)
    CHECK(b1, uint8_t, GT_LANES, part, l % 3 == 0)
    CHECK(b1, uint8_t, GT_LANES, upto, l % 3 == 0)
    CHECK(f64, double, GT_LANES / 2, part, 2.5 + l)
    for (int64_t rest = 0; rest <= 3 * GT_LANES; rest++) {
        const float ones[GT_LANES] = {GT_EACH(1)};
        int64_t most = rest < GT_LANES ? rest : GT_LANES;
        double *at = (double *)edge - most;
        filled(0);
        for (int l = 0; l < most; l++)
            at[l] = l;
        gt_add_wide_upto_f32(at, gt_load_f32(ones), rest);
        for (int l = 0; l < most; l++)
            if (at[l] != l + 1)
                printf("wide: lane %d of %d\\n", l, (int)rest);
        if (!untouched(0, edge, most * 8))
            printf("wide: beyond %d\\n", (int)rest);
        int32_t count[GT_LANES], first[GT_LANES];
        gt_store_i32(count, gt_count_i32((int32_t)rest - 5));
        gt_store_i32(first, gt_first_lanes(rest));
        for (int l = 0; l < GT_LANES; l++)
            if (count[l] != rest - 5 + l || first[l] != -(l < rest))
                printf("lane %d of %d\\n", l, (int)rest);
    }
    return 0;
}
"""


def test_parts_leave_memory_beyond_alone(build, c_folder):
    """At the end of a page behind which nothing may be touched, and between bytes that must keep their value."""
    assert build.run(MEMORY, c_folder) == ""

"""Matrix products in float32: gtensor's generated kernels beside BLAS and the peak, in GFLOP/s.

    python -m benchmarks.products
    python -m benchmarks.products --shapes 64x64x64,33x17x29 --seconds 0.2

A shape is MxKxN. Each product is a program of one step, compiled twice by gtensor's own code generator: with its own
kernels, and as one call of BLAS (scipy-openblas32 unless GT_BLAS says otherwise). Both run many times inside the C
loop over a data set, taking turns, so that no call from Python counts, and both are compared with float64 before. NN,
NT and TN say which operand is stored transposed. The peak is that of multiply-adds on registers.
"""

import argparse
from dataclasses import replace

import numpy as np

from gtensor.codegen import build, trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.library import Library, Loop
from gtensor.codegen.program import Access, Array, Buffer, Gemm, Program, Store, Term
from gtensor.stages import Settings

from . import machine
from .limits import fastest
from .table import grid

SHAPES = (
    "32x8x32 32x32x4 32x32x32 33x17x29 64x64x64 128x128x10 96x96x96 128x128x128 1024x64x64 128x256x128"
    " 100x300x70 256x256x128 128x784x256 784x128x256 256x256x256 1024x128x512 512x512x512 256x1024x1024"
).split()

FORMS = ("NN", "NT", "TN")

SMALL = 10_000_000
"""Multiply-adds below which gtensor means to be ahead of BLAS on every shape."""

SLICE = 2e-3
"""Seconds of one measurement."""


def program(form, m, k, n, route):
    """The product alone, its operands being inputs."""
    a_shape, a = {"N": ((m, k), Access("a", (k, 1))), "T": ((k, m), Access("a", (1, m)))}[form[0]]
    b_shape, b = {"N": ((k, n), Access("b", (n, 1))), "T": ((n, k), Access("b", (1, k)))}[form[1]]
    product = Gemm("product", "f32", (), m, n, (Term(a, b, k),), "acc", (Store(Access("c", (n, 1)), "acc"),))
    return Program(
        f"product_{form}_{m}x{k}x{n}",
        buffers=(
            Buffer("a", "f32", a_shape, "input", 0),
            Buffer("b", "f32", b_shape, "input", 1),
            Buffer("c", "f32", (m, n), "output", 0),
        ),
        steps=(replace(product, route=route),),
        inputs=(Array("a", "f32", a_shape), Array("b", "f32", b_shape)),
        outputs=(Array("c", "f32", (m, n)),),
    )


def aligned(values):
    """A copy that starts at a cache line, as what is resident or intermediate does."""
    room = np.empty(values.size + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    copy = room[start : start + values.size].reshape(values.shape)
    copy[...] = values
    return copy


def prepared(form, m, k, n, route, options):
    """A function that runs the product some times inside C; raises RuntimeError if it is not that of the route."""
    made = program(form, m, k, n, route)
    library = build.build(made, repr(made), options)
    if library.model.needs_blas != (route == "blas"):
        raise RuntimeError(f"{made.name} was not compiled for the route {route}")
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    result = aligned(np.full((m, n), np.nan, np.float32))
    call = library.acquire()
    call.set_input(0, aligned(left if form[0] == "N" else left.T))
    call.set_input(1, aligned(right if form[1] == "N" else right.T))
    call.set_output(0, result)
    loop = Loop(call, [False, False])
    loop.run(1, 1)
    wide = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(result, wide, rtol=0, atol=1e-6 * k**0.5 * np.abs(wide).max(), err_msg=made.name)
    return lambda times: loop.run(times, 1)


def rates(form, m, k, n, seconds, options):
    """GFLOP/s of gtensor's kernel and of BLAS."""
    own = prepared(form, m, k, n, "tile", replace(options, blas="none"))
    runs = [own, prepared(form, m, k, n, "blas", options)]
    times = max(1, round(SLICE / fastest(lambda: own(1), SLICE)))
    best = [float("inf")] * 2
    for _ in range(max(3, round(seconds / (2 * 3 * SLICE)))):
        best = [min(least, fastest(lambda run=run: run(times), 0)) for least, run in zip(best, runs, strict=True)]
    return [2e-9 * m * k * n * times / least for least in best]


PEAK = """\
#define GT_WIDTH {width}
#include "gt_abi.h"
#include "gt_vector.h"

static int32_t call(gt_args *args)
{{
    const gt_v_f32 x = gt_splat_f32(0.5f + (float)args->loss), y = gt_splat_f32(1.0f + (float)args->loss);
    gt_v_f32 {start};
    for (int64_t i = 0; i < {times}; ++i) {{
        {step}
    }}
    gt_v_f32 sum = {total};
    args->err_index = (int64_t)sum[0];
    return GT_OK;
}}

static const gt_model model = {{.abi = GT_ABI_VERSION, .name = "peak", .call = call}};
const gt_model *gt_model_get(void) {{ return &model; }}
"""


def peak(seconds, options):
    """GFLOP/s of multiply-adds whose operands are in registers."""
    workshop = Workshop(options)
    target = workshop.compiler.target("native")
    names, times = [f"c{i}" for i in range(target.registers - 4)], 100_000
    source = PEAK.format(
        width=target.width,
        times=times,
        start=", ".join(f"{name} = x + {i}.0f" for i, name in enumerate(names)),
        step=" ".join(f"{name} = VFMA({name}, x, y);" for name in names),
        total=" + ".join(names),
    )
    recipe = Recipe("peak", source)
    entry = workshop.find(recipe) or workshop.make(recipe, {"peak.c": source})
    call = Library(entry.library_path, trampoline.bridge(workshop), lambda: 0).acquire()
    return 2e-9 * times * len(names) * target.lanes(4) / fastest(call.call, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help="MxKxN,…")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--seconds", type=float, default=0.3, help="for each product")
    args = parser.parse_args()
    machine.alone()
    options, forms = Settings.now().options, args.forms.split(",")
    highest = peak(args.seconds, options)
    print(f"{machine.cpu()}, peak {highest:.1f} GFLOP/s; gtensor / BLAS in GFLOP/s (gtensor of the peak)\n")
    rows, worst = [], None
    for shape in args.shapes.split(","):
        m, k, n = map(int, shape.split("x"))
        rows.append([shape, f"{1e-6 * m * k * n:.3g}"])
        for form in forms:
            own, blas = rates(form, m, k, n, args.seconds, options)
            rows[-1].append(f"{own:.1f} / {blas:.1f} ({own / highest:.0%})")
            if m * k * n < SMALL:
                worst = min(worst or (own / blas, shape, form), (own / blas, shape, form))
    print(grid(["MxKxN", "million multiply-adds", *forms], rows))
    if worst:
        print(f"\nbelow {SMALL / 1e6:g} million multiply-adds, least gtensor over BLAS: {worst[0]:.2f} ({worst[1:]})")


if __name__ == "__main__":
    main()

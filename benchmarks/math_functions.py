"""Mathematical functions in float32: vectors of the C headers beside the C library, in ns an element, and worst errors.

    python -m benchmarks.math_functions
    python -m benchmarks.math_functions --functions exp,gelu --width 32 --stride 1

gcc and clang, as far as they are there, build gtensor's headers for this CPU and run every function over 4096 numbers
in cache, inside C. `libm` is the C library's function, one number after the other, or a formula of such functions. The
worst error is in units in the last place, against formulas in double, over every bit pattern of a float that the
stride meets (for gelu_tanh_slope not those from -1 to -1/2, where it crosses zero). A bar is what earlier polynomials
took with that compiler (a Zen 3 with vectors of 32 bytes), and a fifth more: half more for tanh, which was less exact.
"""

import argparse
import ctypes
import shutil
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.stages import Settings

from . import machine
from .limits import fastest
from .table import NOTHING, grid

COUNT = 4096

SLICE = 3e-4
"""Seconds of one measurement."""

COMPILERS = "gcc", "clang"

BARS = {
    "exp": {"gcc": 1.2 * 0.51, "clang": 1.2 * 0.32},
    "tanh": {"gcc": 1.5 * 0.46, "clang": 1.5 * 0.42},
    "sigmoid": {"gcc": 1.2 * 0.55, "clang": 1.2 * 0.41},
    "log": {"gcc": 1.2 * 0.81, "clang": 1.2 * 1.0},
    "erf": {"gcc": 1.2 * 1.5, "clang": 1.2 * 1.5},
    "gelu": {"gcc": 1.2 * 0.66, "clang": 1.2 * 0.53},
}
"""The most that a function means to take, in ns an element."""


class Function(NamedTuple):
    """C of a function of x (and y) by the C library in float, and in double; between which numbers it is timed."""

    library: str
    exact: str
    low: float = -4.0
    high: float = 4.0

    @property
    def operands(self):
        """What it is a function of."""
        return "x, y" if self.exact.endswith(", y)") else "x"


def _same(names, low=-4.0, high=4.0):
    """Functions that the C library has, and headers under the same name."""
    return {name: Function(f"{name}f(x)", f"{name}(x)", low, high) for name in names.split()}


FUNCTIONS = {
    **_same("exp exp2 expm1"),
    **_same("log log2 log10 log1p sqrt", 1e-3, 8.0),
    **_same("sin cos tan"),
    **_same("asin acos", -1.0, 1.0),
    **_same("atan sinh cosh tanh erf erfc"),
    "rsqrt": Function("1 / sqrtf(x)", "1 / sqrt(x)", 1e-3, 8.0),
    "atan2": Function("atan2f(x, y)", "atan2(x, y)"),
    "hypot": Function("hypotf(x, y)", "hypot(x, y)"),
    "pow": Function("powf(x, y)", "pow(x, y)", 1e-3, 8.0),
    "sigmoid": Function("1 / (1 + expf(-x))", "1 / (1 + exp(-x))"),
    "silu": Function("x / (1 + expf(-x))", "limited(x, x / (1 + exp(-x)))"),
    "softplus": Function("fmaxf(x, 0) + log1pf(expf(-fabsf(x)))", "softplus(x)"),
    "log_sigmoid": Function("fminf(x, 0) - log1pf(expf(-fabsf(x)))", "-softplus(-x)"),
    "gelu": Function("0.5f * x * erfcf(-0.70710678f * x)", "limited(x, 0.5 * x * erfc(-sqrt(0.5) * x))"),
    "gelu_tanh": Function("x / (1 + expf(-(float)cubic(x)))", "limited(x, x / (1 + exp(-cubic(x))))"),
    "sigmoid_slope": Function("", "share(fabs(x)) * share(-fabs(x))"),
    "gelu_slope": Function("", "from_left(x, normal(fabs(x)))"),
    "gelu_tanh_slope": Function("", "beside_zero(x) ? out[i] : from_left(x, bent(fabs(x)))"),
}

HEAD = """\
#define GT_WIDTH {width}
#include "gt_math.h"

enum {{ COUNT = {count} }};
#define SHOWN __attribute__((visibility("default")))
#define ROOT 0.3989422804014327

static inline double share(double x) {{ return 1 / (1 + exp(x)); }}
static inline double softplus(double x) {{ return fmax(x, 0) + log1p(exp(-fabs(x))); }}
static inline double cubic(double x) {{ return 4 * ROOT * (x + 0.044715 * x * x * x); }}

/* The derivatives of both forms of gelu at -a. The second crosses zero, where gt_math.h bounds the absolute error. */
static inline int beside_zero(double x) {{ return x >= -1 && x <= -0.5; }}
static inline double normal(double a) {{ return 0.5 * erfc(sqrt(0.5) * a) - a * exp(-0.5 * a * a) * ROOT; }}
static inline double bent(double a)
{{
    const double v = cubic(a), steep = v + 8 * ROOT * 0.044715 * a * a * a;
    return share(v) * (1 - steep * share(-v));
}}

/* Where the formula ends in infinity times 0. */
static inline double limited(double x, double value) {{ return x < -1e3 ? -0.0 : value; }}
static inline double from_left(double x, double left)
{{
    double s = fabs(x) > 50 ? 0 : left;
    return x > 0 ? 1 - s : s;
}}

/* Units in the last place between a result and the exact value; not finite if only one is a number. */
static inline double units(float got, double exact)
{{
    const double near = isinf(got) ? copysign(0x1p128, got) : got;
    int exponent;
    if (isnan(got) || isnan(exact))
        return isnan(got) && isnan(exact) ? 0 : INFINITY;
    if (fabs(exact) >= 0x1.ffffffp127)
        return got == copysign(INFINITY, exact) ? 0 : fabs(near - copysign(0x1p128, exact)) / 0x1p104;
    frexp(exact, &exponent);
    return fabs(near - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}}
"""

EACH = """
SHOWN void vector_{name}(int64_t times, const float *a, const float *b, float *out)
{{
    for (int64_t t = 0; t < times; ++t) {{
        for (int64_t i = 0; i < COUNT; i += GT_LANES) {{
            const gt_v_f32 x = gt_load_f32(a + i), y = gt_load_f32(b + i);
            (void)y;
            gt_store_f32(out + i, gt_{name}_v_f32({operands}));
        }}
        __asm__ volatile("" ::: "memory");
    }}
}}

SHOWN void library_{name}(int64_t times, const float *a, const float *b, float *out)
{{
    for (int64_t t = 0; t < times; ++t) {{
        for (int64_t i = 0; i < COUNT; ++i) {{
            const float x = a[i], y = b[i];
            (void)x, (void)y;
            out[i] = {library};
        }}
        __asm__ volatile("" ::: "memory");
    }}
}}

SHOWN double worst_{name}(uint64_t stride, const float *b)
{{
    static float a[COUNT], out[COUNT];
    double worst = 0;
    for (uint64_t next = 0; next >> 32 == 0;) {{
        for (int64_t i = 0; i < COUNT; ++i, next += stride)
            a[i] = next >> 32 == 0 ? gt_value_f32((uint32_t)next) : 1;
        vector_{name}(1, a, b, out);
        for (int64_t i = 0; i < COUNT; ++i) {{
            const double x = a[i], y = b[i];
            (void)y;
            worst = fmax(worst, units(out[i], {exact}));
        }}
    }}
    return worst;
}}
"""


def prepared(compiler, names, width, options):
    """The functions in a library made by one compiler, and the bytes of its vectors: `width`, if it is 0 the CPU's."""
    workshop = Workshop(replace(options, cc=compiler))
    width = width or workshop.compiler.target("native").width
    text = HEAD.format(width=width, count=COUNT)
    for name in names:
        of = FUNCTIONS[name]
        text += EACH.format(name=name, operands=of.operands, library=of.library or "0", exact=of.exact)
    recipe = Recipe("math_functions", text, link=("-lm",))
    entry = workshop.find(recipe) or workshop.make(recipe, {"math_functions.c": text})
    return ctypes.CDLL(str(entry.library_path)), width


def arrays(name):
    """Two arrays of numbers of a function's interval, and one for results."""
    of, rng = FUNCTIONS[name], np.random.default_rng(0)
    return *rng.uniform(of.low, of.high, (2, COUNT)).astype(np.float32), np.empty(COUNT, np.float32)


def nanoseconds(libraries, name, seconds):
    """Of one element, by each library: the vectors of gtensor and the C library, all taking turns."""
    held = arrays(name)
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in held]
    loops = [getattr(library, f"{kind}_{name}") for library in libraries for kind in ("vector", "library")]
    runs = [lambda times, loop=loop: loop(ctypes.c_int64(times), *addresses) for loop in loops]
    times = [max(1, round(SLICE / fastest(lambda run=run: run(1), SLICE))) for run in runs]
    best = [float("inf")] * len(runs)
    for _ in range(max(3, round(seconds / (3 * SLICE * len(runs))))):
        for k, (run, many) in enumerate(zip(runs, times, strict=True)):
            best[k] = min(best[k], fastest(lambda run=run, many=many: run(many), 0) / many)
    return [1e9 * least / COUNT for least in best]


def worst(library, name, stride):
    """Units in the last place: the largest error of a library's vectors over the bit patterns that the stride meets."""
    function = getattr(library, f"worst_{name}")
    function.restype = ctypes.c_double
    others = arrays(name)[1]
    return function(ctypes.c_uint64(stride), ctypes.c_void_p(others.ctypes.data))


def row(name, compilers, libraries, seconds, stride):
    """A line of the table."""
    times, of = nanoseconds(libraries, name, seconds), FUNCTIONS[name]
    cells = [name]
    for k, compiler in enumerate(compilers):
        bar = BARS.get(name, {}).get(compiler)
        cells += [f"{times[2 * k]:.2f}", f"{bar:.2f}" if bar else NOTHING]
        cells.append(f"{times[2 * k + 1]:.2f}" if of.library else NOTHING)
    return [*cells, f"{max(worst(library, name, stride) for library in libraries):.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--width", type=int, default=0, choices=(0, 16, 32, 64), help="bytes of a vector")
    parser.add_argument("--stride", type=int, default=257, help="of the bit patterns that errors are looked for in")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each function")
    args = parser.parse_args()
    machine.alone()
    names, options = args.functions.split(","), Settings.now().options
    compilers = [name for name in COMPILERS if shutil.which(name)]
    made = [prepared(shutil.which(name), names, args.width, options) for name in compilers]
    libraries, widths = [library for library, _ in made], {width for _, width in made}
    width = " and ".join(f"{8 * width}-bit" for width in sorted(widths))
    versions = ", ".join(Workshop(replace(options, cc=shutil.which(name))).compiler.version for name in compilers)
    print(f"{time.strftime('%Y-%m-%d')}, {machine.cpu()} ({width} vectors), {versions}; ns an element\n")
    head = ["", *(cell for name in compilers for cell in (name, "bar", "libm")), "worst ulp"]
    print(grid(head, [row(name, compilers, libraries, args.seconds, args.stride) for name in names]))


if __name__ == "__main__":
    main()

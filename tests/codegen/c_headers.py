"""Functions of the C headers of templates/ over NumPy arrays, and awkward values: what the tests of the headers share.

Comes in: signatures (function, dtype tags of the arguments, tag of the result). Goes out: functions of arrays, in one
build: a compiler, the flags of native builds or none (no optimisation, no fused multiply-add), and the bytes of a
vector, where 0 stands for one value at a time. Vectors run over an array as in generated code: whole ones, then one
in part.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gtensor.codegen import sanitizers
from tests import sanitized

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    **{tag: np.dtype(f"{tag[0]}{int(tag[1:]) // 8}").type for tag in (*SIGNED, *UNSIGNED)},
    "b1": np.bool_,
}
CTYPES = {
    "f32": "float",
    "f64": "double",
    **{tag: f"{np.dtype(NUMPY[tag]).name}_t" for tag in (*SIGNED, *UNSIGNED)},
    "b1": "uint8_t",
}
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = {
    "native": ("-std=gnu99", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
    "plain": ("-std=c99", "-O0", "-ffp-contract=off"),
}
UNDEFINED = ("-O1", *sanitizers.flags(("undefined",), clang=False))
"""Flags that end a program at the first thing that C leaves undefined."""

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]
REGISTERS = {16: (), 32: ("__AVX__", "__FMA__"), 64: ("__AVX512F__", "__AVX512DQ__")}
"""Bytes of a vector -> the macros that say that the target has such registers."""

Signature = tuple[str, tuple[str, ...], str]
Array = np.ndarray[Any, Any]
Over = Callable[..., Array]


@dataclass(frozen=True)
class Build:
    """A compiler, the name of its flags, and the bytes of a vector (0: one value)."""

    compiler: str
    kind: str
    width: int = 0

    def __str__(self) -> str:
        return f"{self.compiler}-{self.kind}" + (f"-{self.width}" if self.width else "")

    def compile(self, text: str, folder: Path, *flags: str) -> Path:
        """Compile C text that includes the headers; the path of what came out."""
        out = folder / f"{len(list(folder.iterdir()))}.out"
        source = out.with_suffix(".c")
        source.write_text(f"#define GT_WIDTH {self.width}\n{text}" if self.width else text, encoding="utf-8")
        command = [self.compiler, *FLAGS[self.kind], *WARNINGS, *flags, f"-I{TEMPLATES}", str(source), "-o", str(out)]
        done = subprocess.run([*command, "-lm"], capture_output=True, text=True, env=sanitized.outside())
        assert done.returncode == 0, done.stderr
        return out

    def run(self, text: str, folder: Path, *flags: str) -> str:
        """Compile and run a program; what it printed."""
        program = [str(self.compile(text, folder, *flags))]
        done = subprocess.run(program, capture_output=True, text=True, env=sanitized.outside())
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def functions(self, header: str, signatures: Sequence[Signature], folder: Path) -> dict[str, Over]:
        """Those functions, or those of the same operation on vectors, by the name they have for one value."""
        loops = [vector_loop(*s, vector_call(*s)) if self.width else scalar_loop(*s) for s in signatures]
        return self.loops(header, loops, signatures, folder)

    def loops(
        self, header: str, loops: Iterable[str], signatures: Iterable[Signature], folder: Path
    ) -> dict[str, Over]:
        """Those loops over arrays, given as C text, by the names of the functions."""
        text = "\n".join([f'#include "{header}"', *loops])
        library = ctypes.CDLL(str(self.compile(text, folder, "-shared", "-fPIC")))
        return {name: _over(getattr(library, f"over_{name}"), args, result) for name, args, result in signatures}


@functools.cache
def widths(compiler: str, kind: str) -> list[int]:
    """The bytes of the vectors that the target of these flags has registers for."""
    command = [compiler, *FLAGS[kind], "-dM", "-E", "-x", "c", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    macros = {line.split()[1] for line in done.stdout.splitlines()}
    return [width for width, needed in REGISTERS.items() if macros.issuperset(needed)]


FIRST = COMPILERS[0]
SCALAR = [Build(FIRST, "native"), Build(FIRST, "plain"), *(Build(other, "native") for other in COMPILERS[1:])]
"""One value at a time: with fused multiply-add and without, and from the other compiler."""
VECTOR = [
    *(Build(FIRST, "native", width) for width in widths(FIRST, "native")),
    Build(FIRST, "plain", 16),
    *(Build(other, "native", widths(other, "native")[-1]) for other in COMPILERS[1:]),
]
"""Every width once, one without instructions that the headers name, and one from the other compiler."""


def _head(name: str, args: Sequence[str], result: str) -> str:
    arrays = "".join(f"const {CTYPES[tag]} *{letter}, " for tag, letter in zip(args, "abc", strict=False))
    return f"void over_{name}(int64_t n, {arrays}{CTYPES[result]} *out)"


def scalar_loop(name: str, args: Sequence[str], result: str) -> str:
    """C text: the function applied to n elements."""
    call = f"{name}({', '.join(f'{letter}[i]' for letter in 'abc'[: len(args)])})"
    body = f"    for (int64_t i = 0; i < n; i++)\n        out[i] = ({CTYPES[result]}){call};"
    return f"{_head(name, args, result)}\n{{\n{body}\n}}\n"


def vector_call(name: str, args: Sequence[str], result: str) -> str:
    """C text: the same operation on vectors x, y, z, which is named after their tags: v_f32 for f32."""
    for tag in dict.fromkeys([*args, result]):
        name = name.replace(f"_{tag}", f"_v_{tag}")
    return f"{name}({', '.join('xyz'[: len(args)])})"


def vector_loop(name: str, args: Sequence[str], result: str, expression: str) -> str:
    """C text: an expression of vectors x, y, z applied to n elements."""
    at = list(zip(args, "abc", "xyz", strict=False))
    whole = "".join(f"gt_v_{tag} {x} = gt_load_{tag}({a} + i); " for tag, a, x in at)
    part = "".join(f"gt_v_{tag} {x} = gt_load_part_{tag}({a} + i, n - i); " for tag, a, x in at)
    return f"""{_head(name, args, result)}
{{
    int64_t i = 0;
    for (; i + GT_LANES <= n; i += GT_LANES) {{
        {whole}gt_store_{result}(out + i, {expression});
    }}
    if (i < n) {{
        {part}gt_store_part_{result}(out + i, {expression}, n - i);
    }}
}}
"""


def _over(function: Any, args: Sequence[str], result: str) -> Over:
    """The loop, called with NumPy arrays of one length."""
    function.restype = None

    def call(*arrays: Array) -> Array:
        inputs = [np.ascontiguousarray(a, NUMPY[tag]) for a, tag in zip(arrays, args, strict=True)]
        out = np.empty(len(inputs[0]), NUMPY[result])
        function(ctypes.c_int64(len(out)), *(ctypes.c_void_p(a.ctypes.data) for a in (*inputs, out)))
        return out

    return call


# ---- values ------------------------------------------------------------------------------------------------


def awkward(tag: str) -> Array:
    """Values of that dtype where something special happens, and some ordinary ones."""
    dtype = NUMPY[tag]
    if tag == "b1":
        return np.array([False, True])
    random = np.random.default_rng(7)
    if tag in ("f32", "f64"):
        info = np.finfo(dtype)
        base = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.0, 3.7, 7.0, 254.6, 255.0, 255.5, 256.0, 1e5, 1e20, np.inf]
        base += [2.0**k for k in (-149, -126, 22, 23, 24, 31, 32, 52, 53, 63, 64)]
        near = [np.nextafter(dtype(2.0**k), dtype(to)) for k in (0, 8, 23, 31, 52, 63) for to in (0, np.inf)]
        edge = [info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, 2147483647.0, 2147483648.5]
        drawn = random.integers(0, 256, 40 * info.bits // 8, dtype=np.uint8).view(dtype)
        positive = np.array([*base, *near, *edge, *np.abs(drawn)], dtype)
        return np.concatenate([positive, -positive, np.array([np.nan], dtype)])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    small = (*range(-9, 10), 31, 32, 33, 62, 63, 64, 65, 100, 127, 128, 200, 46341, 2**31)
    drawn_int = random.integers(low, high, 20, dtype, endpoint=True)
    special = [*(v for v in small if low <= v <= high), low, low + 1, low // 2, high // 2, high - 1, high]
    return np.array([*special, *drawn_int.tolist()], dtype)


def grid(args: Sequence[str]) -> tuple[Array, ...]:
    """All combinations of awkward values of those dtypes."""
    return tuple(a.ravel() for a in np.meshgrid(*(awkward(t) for t in args), indexing="ij"))


def assert_same_bits(got: Array, wanted: Array, inputs: Sequence[Any], of: str = "") -> None:
    """Equal bit for bit, but for which NaN it is."""
    assert got.dtype == wanted.dtype
    unsigned = f"u{got.dtype.itemsize}"
    same = got.view(unsigned) == wanted.view(unsigned)
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(wanted)
    wrong = np.flatnonzero(~same)[:5]
    shown = [(*(a[i].item() for a in inputs), "gives", got[i].item(), "not", wanted[i].item()) for i in wrong]
    assert not shown, (of, shown)

"""Scalar C functions over arrays: what the tests of the C headers share.

A test module names its HEADER and its SIGNATURES, tuples (function, dtype tags of the arguments, tag of the
result), and takes `c_functions`: those functions over NumPy arrays. It runs once for each compiler found and
each set of flags: those of native builds, and none (no optimisation, no fused multiply-add).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
CTYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t", "b1": "uint8_t"}
NUMPY = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8", "b1": "bool"}
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = {
    "native": ("-std=gnu99", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
    "plain": ("-std=c99", "-O0", "-ffp-contract=off"),
}
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]


def loop(name, args, result):
    """C text: the function applied to n elements."""
    letters = "abc"[: len(args)]
    arrays = "".join(f"const {CTYPES[tag]} *{letter}, " for tag, letter in zip(args, letters, strict=True))
    call = f"{name}({', '.join(f'{letter}[i]' for letter in letters)})"
    head = f"void over_{name}(int64_t n, {arrays}{CTYPES[result]} *out)"
    return f"{head}\n{{\n    for (int64_t i = 0; i < n; i++)\n        out[i] = ({CTYPES[result]}){call};\n}}\n"


def array_function(library, name, args, result):
    """The loop of that function, called with NumPy arrays of one length."""
    function = getattr(library, f"over_{name}")
    function.restype = None

    def over(*arrays):
        inputs = [np.ascontiguousarray(a, NUMPY[tag]) for a, tag in zip(arrays, args, strict=True)]
        out = np.empty(len(inputs[0]), NUMPY[result])
        function(ctypes.c_int64(len(out)), *(ctypes.c_void_p(a.ctypes.data) for a in (*inputs, out)))
        return out

    return over


@pytest.fixture(scope="module", params=[(compiler, flags) for compiler in COMPILERS for flags in FLAGS], ids="-".join)
def c_build(request, tmp_path_factory):
    """`c_build(text, *flags)`: compile C text that includes the headers, and give the path of what came out."""
    compiler, kind = request.param
    folder = tmp_path_factory.mktemp("c")

    def build(text, *flags):
        out = folder / f"{len(list(folder.iterdir()))}.out"
        source = out.with_suffix(".c")
        source.write_text(text, encoding="utf-8")
        command = [compiler, *FLAGS[kind], *WARNINGS, *flags, f"-I{TEMPLATES}", str(source), "-o", str(out), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return out

    return build


@pytest.fixture(scope="module")
def c_functions(request, c_build):
    """The functions the test module names, by name, as functions of arrays."""
    header, signatures = request.module.HEADER, request.module.SIGNATURES
    text = f'#include "{header}"\n' + "".join(loop(*signature) for signature in signatures)
    library = ctypes.CDLL(str(c_build(text, "-shared", "-fPIC")))
    return {signature[0]: array_function(library, *signature) for signature in signatures}


@pytest.fixture(scope="module")
def c_program(c_build):
    """`c_program(text, *flags)`: compile and run a program, and give what it printed."""

    def run(text, *flags):
        done = subprocess.run([str(c_build(text, *flags))], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run

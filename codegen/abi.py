"""The binary interface as cffi knows it: declarations taken from the headers of templates/, headers for a build.

Comes in: the text of gt_abi.h and gt_frame.h. Goes out: `_abi.py`, cffi's pre-parsed form of these declarations
(loading a library through it needs no parser and no compiler), and the C headers that a set of sources includes.
These headers are the only place where the interface is written down. After a change to them:

    python -m gtensor.codegen.abi

Law: `_abi.py` equals `python_module()`, which a test checks.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cffi import FFI

TEMPLATES = Path(__file__).parent.parent / "templates"
"""The folder of C templates and headers."""

BLAS_SYMBOLS = """\
void {p}sgemm_(const char *, const char *, const int32_t *, const int32_t *, const int32_t *, const float *,
               const float *, const int32_t *, const float *, const int32_t *, const float *, float *, const int32_t *);
void {p}dgemm_(const char *, const char *, const int32_t *, const int32_t *, const int32_t *, const double *,
               const double *, const int32_t *, const double *, const int32_t *, const double *, double *,
               const int32_t *);
void {p}openblas_set_num_threads(int);
"""
"""What is looked up in a BLAS library whose symbols have the prefix `p`."""

_HEAD = '''\
"""cffi's pre-parsed form of templates/gt_abi.h, made by `python -m gtensor.codegen.abi`: not to be edited."""

# ruff: noqa
# fmt: off
# mypy: ignore-errors
'''


def header(name: str) -> str:
    """The text of a header (or another C file) of templates/."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def with_headers(sources: Mapping[str, str]) -> dict[str, str]:
    """The sources and, by name, every header of templates/ that they include, directly or through another."""
    found = dict(sources)
    waiting = list(sources.values())
    while waiting:
        for name in re.findall(r'^\s*#\s*include\s+"(gt_\w+\.h)"', waiting.pop(), flags=re.MULTILINE):
            if name not in found:
                found[name] = header(name)
                waiting.append(found[name])
    return found


def declarations() -> str:
    """The types and constants of gt_abi.h and gt_frame.h, as cffi wants them: no guards, no functions."""
    text = re.sub(r"/\*.*?\*/", "", header("gt_abi.h") + header("gt_frame.h"), flags=re.DOTALL)
    constants = re.findall(r"^#define (GT_\w+) +(\d+)", text, flags=re.MULTILINE)
    types = re.sub(r"^#.*$|^GT_EXPORT .*$", "", text, flags=re.MULTILINE)
    types = re.sub(r"\n\s*\n+", "\n\n", types).strip()
    return "\n".join([*(f"#define {name} {value}" for name, value in constants), types, ""])


def library_functions() -> str:
    """The functions looked up in compiled models, in BLAS libraries and in the shim over Accelerate."""
    blas = "".join(BLAS_SYMBOLS.format(p=prefix) for prefix in ("", "scipy_"))
    return f"const gt_model *gt_model_get(void);\nconst gt_blas *gt_blas_get(void);\n{blas}"


def python_module() -> str:
    """The text of `_abi.py`."""
    ffi = FFI()
    ffi.cdef(declarations() + library_functions())
    ffi.set_source("gtensor.codegen._abi", None, compiler_verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "_abi.py"
        ffi.emit_python_code(str(path))
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return _HEAD + "\n".join(lines).strip() + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "_abi.py").write_text(python_module(), encoding="utf-8")

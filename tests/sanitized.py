"""The tests with all C under the address and undefined-behaviour sanitizers: `python -m tests.sanitized [pytest …]`.

Comes in: arguments of pytest; the compiler is GT_CC, or else gcc, clang or cc. Goes out: pytest's exit status. The
sanitizer's library is preloaded, and the first finding ends the worker that made it, so that its test fails and the
report stands above the failure. Left out are the tests marked `unsanitized`, each of which says why.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np

from gtensor.codegen import sanitizers

ROOT = Path(__file__).resolve().parent.parent

COMPILERS = ("gcc", "clang", "cc")

OPTIONS = {
    # CPython and its modules keep memory until the end; tests ask for more than there is and expect NULL.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # each object of Python in a block of its own
}

FLAGS = "-O1"
"""Quick to compile, and no access is gone before it is looked at."""


def compiler() -> str:
    """The compiler that the tests are run with."""
    return os.environ.get("GT_CC") or next(filter(shutil.which, COMPILERS), "cc")


def runtime(compiler: str) -> str:
    """The file of a compiler's address sanitizer; empty if it has none that works."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "one.c").write_text("int one(void) { return 1; }\n", encoding="utf-8")
        for clang in (True, False):
            flags = sanitizers.flags(("address", "undefined"), clang)
            command = [compiler, *flags, "-fPIC", "-shared", "one.c", "-o", "one.so"]
            if subprocess.run(command, cwd=folder, capture_output=True).returncode == 0:
                break
        else:
            return ""
        wanted = sanitizers.needed(folder / "one.so")
    said = subprocess.run([compiler, f"-print-file-name={wanted}"], capture_output=True, text=True).stdout.strip()
    return os.path.realpath(said) if os.path.isabs(said) and os.path.exists(said) else ""


def environment(compiler: str) -> dict[str, str] | None:
    """Variables that build everything under the sanitizers; None if the compiler has none."""
    library = runtime(compiler)
    if not library:
        return None
    preload = sanitizers.PRELOAD.get(sys.platform, "LD_PRELOAD")
    own = {"GT_CC": compiler, "GT_SANITIZE": "address,undefined", "GT_CFLAGS": FLAGS, preload: library}
    return {**os.environ, **OPTIONS, **own}


def exact(nbytes: int) -> np.ndarray:
    """Aligned memory that ends where it ends, where NumPy's has some bytes more: what is behind it is seen."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    library, pointer = ctypes.CDLL(None), ctypes.c_void_p()
    if library.posix_memalign(ctypes.byref(pointer), ctypes.c_size_t(64), ctypes.c_size_t(nbytes)):
        raise MemoryError(f"{nbytes} bytes")
    block = (ctypes.c_uint8 * nbytes).from_address(pointer.value or 0)
    weakref.finalize(block, library.free, pointer)
    return np.frombuffer(block, np.uint8)


def main(arguments: list[str]) -> int:
    """Run pytest under the sanitizers; 2 if the compiler has none."""
    variables = environment(compiler())
    if variables is None:
        print(f"{compiler()} has no address sanitizer that can be preloaded: nothing was run", file=sys.stderr)
        return 2
    # What a sanitizer says goes past pytest, which would lose it with the process.
    options = ["--capture=sys", "-m", "not unsanitized", "--max-worker-restart=1000"]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *arguments], cwd=ROOT, env=variables).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The tests with all C under the address and undefined-behaviour sanitizers: `python -m tests.sanitized [pytest …]`.

Comes in: arguments of pytest, or none for all tests in portions; the compiler is GT_CC, or else gcc, clang or cc. Goes
out: what was run, found and left out, and an exit status that is not 0 if anything failed or was found. The sanitizer's
library is preloaded, and the first finding ends the worker that made it, so that its test fails and the report stands
above the failure. Left out are the tests marked `unsanitized`, each of which says why.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from gtensor.codegen import sanitizers

ROOT = Path(__file__).resolve().parent.parent

COMPILERS = ("gcc", "clang", "cc")

PRELOAD = sanitizers.PRELOAD.get(sys.platform, "LD_PRELOAD")

OPTIONS = {
    # CPython and its modules keep memory until the end; tests ask for more than there is and expect NULL.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # each object of Python in a block of its own
}

FLAGS = "-O1"
"""Quick to compile, and no access is gone before it is looked at."""

PYTEST = ("--capture=sys", "--max-worker-restart=1000")
"""What a sanitizer says goes past pytest, which would lose it with the process; a new worker goes on after each."""

FOUND = re.compile(r"ERROR: AddressSanitizer:? .*|runtime error: .*")
"""How a sanitizer's report begins."""

LEFT_OUT = "unsanitized: "
"""How the reason begins for which a test is not run here (tests/conftest.py)."""

FILES = 8
"""Test files of a portion: a process that runs more grows, since the sanitizer keeps for a while what was freed."""


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
    return file_of(compiler, wanted)


def file_of(compiler: str, name: str) -> str:
    """A library that a compiler knows; empty if it knows none of that name."""
    said = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return os.path.realpath(said) if os.path.isabs(said) and os.path.exists(said) else ""


def environment(compiler: str) -> dict[str, str] | None:
    """Variables that build everything under the sanitizers; None if the compiler has none."""
    library = runtime(compiler)
    if not library:
        return None
    # gcc's sanitizer stands between a C++ module and its exceptions, and must find these when it is loaded.
    preload = ":".join(filter(None, [library, file_of(compiler, "libstdc++.so.6")]))
    own = {"GT_CC": compiler, "GT_SANITIZE": "address,undefined", "GT_CFLAGS": FLAGS, PRELOAD: preload}
    return {**os.environ, **OPTIONS, **own}


def outside() -> dict[str, str]:
    """The environment for a program that is not Python: it is not looked at, or linked with a sanitizer of its own."""
    return {name: text for name, text in os.environ.items() if name not in (PRELOAD, *OPTIONS)}


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


@dataclass(frozen=True)
class Outcome:
    """What one run of pytest came to: `failed` names tests, `skipped` counts reasons, `status` is pytest's."""

    name: str
    passed: int
    failed: tuple[str, ...]
    skipped: Counter[str]
    found: tuple[str, ...]
    status: int
    seconds: float

    @property
    def well(self) -> bool:
        return self.status == 0 and not self.failed and not self.found

    def row(self) -> str:
        """Its line of the table."""
        skipped = self.skipped.total()
        counts = f"{self.passed:8,}{len(self.failed):8}{len(self.found):10}{skipped:9}{self.seconds:9.0f}"
        unusual = f"  pytest ended with {self.status}" if self.status > 1 else ""
        return f"{self.name:32}{counts}{unusual}"


HEAD = f"{'portion':32}{'passed':>8}{'failed':>8}{'findings':>10}{'skipped':>9}{'seconds':>9}"


def portions(folder: Path) -> dict[str, list[str]]:
    """All test files below a folder: each folder in it is a portion, and so are `FILES` files of its own at a time."""
    out = {path.name: [str(path)] for path in sorted(folder.iterdir()) if any(path.glob("test_*.py"))}
    files = sorted(map(str, folder.glob("test_*.py")))
    for first in range(0, len(files), FILES):
        part = files[first : first + FILES]
        out[" - ".join(dict.fromkeys(Path(path).stem.removeprefix("test_") for path in (part[0], part[-1])))] = part
    return out


def run(name: str, arguments: Sequence[str], variables: dict[str, str]) -> Outcome:
    """Run pytest under the sanitizers, showing what it says and counting what they find."""
    began, found = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *PYTEST, f"--junitxml={report}", *arguments]
        pipe = {"stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        process = subprocess.Popen(command, cwd=ROOT, env=variables, **pipe)
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            found += FOUND.findall(line)
        status = process.wait()
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skips = [skip for case in cases if (skip := case.find("skipped")) is not None]
    return Outcome(
        name,
        len(cases) - len(failed) - len(skips),
        tuple(f"{case.get('classname')}::{case.get('name')}" for case in failed),
        Counter(skip.get("message", "") for skip in skips),
        tuple(found),
        status,
        time.monotonic() - began,
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """A table of portions, and below it what failed, what was found, and what was not run and why."""
    skipped = sum((outcome.skipped for outcome in outcomes), Counter[str]())
    failed = tuple(test for outcome in outcomes for test in outcome.failed)
    found = tuple(finding for outcome in outcomes for finding in outcome.found)
    status = max((outcome.status for outcome in outcomes), default=0)
    passed, seconds = sum(o.passed for o in outcomes), sum(o.seconds for o in outcomes)
    lines = [HEAD, *(outcome.row() for outcome in outcomes)]
    lines += [Outcome("all", passed, failed, skipped, found, status, seconds).row()]
    lines += [f"failed: {test}" for test in failed] + [f"found: {finding}" for finding in found]
    for reason, count in sorted(skipped.items()):
        kind = "left out" if reason.startswith(LEFT_OUT) else "skipped"
        lines.append(f"{kind}: {count} x {reason.removeprefix(LEFT_OUT)}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run pytest under the sanitizers; 2 if the compiler has none, 1 if anything failed or was found."""
    variables = environment(compiler())
    if variables is None:
        print(f"{compiler()} has no address sanitizer that can be preloaded: nothing was run", file=sys.stderr)
        return 2
    if arguments:
        parts = {"": list(arguments)}
    else:
        parts = {name: ["-q", "-n", "auto", *files] for name, files in portions(ROOT / "tests").items()}
    outcomes = []
    for name, given in parts.items():
        if name:
            print(f"\n== {name}", flush=True)
        outcomes.append(run(name, given, variables))
    print(f"\n{summary(outcomes)}", flush=True)
    return 0 if all(outcome.well for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

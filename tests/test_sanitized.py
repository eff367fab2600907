"""GT_SANITIZE as its users meet it, and the runner of the tests under it (tests/sanitized.py)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import sanitized
from tests.cases.processes import run, start

COMPILER = sanitized.compiler()
SETTINGS = sanitized.environment(COMPILER) or {}
PRELOAD = sanitized.PRELOAD

has_sanitizer = pytest.mark.skipif(not SETTINGS, reason="the compiler has no address sanitizer that can be preloaded")
pytestmark = has_sanitizer

TRAIN = """
import numpy as np
import gtensor as gt
train = gt.TrainStep(lambda w, x: gt.sum((x @ w) ** 2), gt.ones((3, 2)), gt.optim.sgd(0.01), gt.spec((4, 3)))
print(train(np.ones((4, 3), np.float32)))
"""

SAVE = TRAIN + "import sys\ntrain.save(sys.argv[1])\n"

LOAD = """
import sys
import numpy as np
import gtensor as gt
print(gt.load(sys.argv[1])(np.ones((4, 3), np.float32)))
"""


def plain(tmp_path: Path, **more: str | None) -> dict[str, str | None]:
    """GT_SANITIZE set in a process that was started as usual."""
    own = {"GT_CACHE": str(tmp_path / "cache"), "GT_CC": COMPILER, "GT_SANITIZE": "address,undefined"}
    return {PRELOAD: None, **own, **more}


def preloaded(tmp_path: Path) -> dict[str, str | None]:
    """GT_SANITIZE set in a process that was started for it."""
    return plain(tmp_path, **{name: SETTINGS[name] for name in (PRELOAD, *sanitized.OPTIONS)})


def refusal(script: str, *args: object, **variables: str | None) -> str:
    """What Python says of the error that ends a script: an error, not a signal or the sanitizer's own exit."""
    process = start(script, *args, **variables)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and out == "" and "Traceback" in err, err
    assert "ERROR: AddressSanitizer" not in err and "ASan runtime" not in err
    return err


def test_a_model_runs_under_the_sanitizers(tmp_path):
    assert run(TRAIN, **preloaded(tmp_path)) == "72.0\n"


def test_without_preloading_the_error_says_how_to_start(tmp_path):
    said = refusal(TRAIN, **plain(tmp_path))
    assert "ToolchainError: train_lambda" in said and "must be in the process before Python starts" in said
    assert f"hint: start it as  {PRELOAD}=$(" in said and "ASAN_OPTIONS=detect_leaks=0 python" in said


def test_a_saved_model_with_the_sanitizer_is_loaded_only_where_it_is_preloaded(tmp_path):
    model = tmp_path / "model"
    assert run(SAVE, model, **preloaded(tmp_path)) == "72.0\n"
    assert float(run(LOAD, model, **preloaded(tmp_path))) < 72
    said = refusal(LOAD, model, **plain(tmp_path, GT_SANITIZE=None))
    assert "was compiled with the address sanitizer (GT_SANITIZE)" in said and f"{PRELOAD}=$(" in said


PART = """
tests/test_tiny.py tests/test_workloads.py tests/test_resident.py
tests/fuzz/test_fuzz_graphs.py::test_compiled_takes_any_run_time_extent
""".split()
"""Calls, training steps, state that stays, and random functions; `make sanitize` runs everything."""


def suite(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The runner, started as its users do."""
    command = [sys.executable, "-m", "tests.sanitized", *map(str, arguments)]
    return subprocess.run(command, cwd=sanitized.ROOT, capture_output=True, text=True, env=sanitized.outside())


@pytest.mark.unsanitized("runs tests under the sanitizers, which all are run by then")
def test_a_part_of_the_tests_is_clean():
    """Half a minute, also when nothing has been compiled yet."""
    done = suite("-n", "1", "-k", "not fresh and not test_train_step", *PART)
    assert done.returncode == 0, done.stdout + done.stderr
    (total,) = (line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    assert int(total[1]) > 25 and total[2:5] == ["0", "0", "0"], done.stdout


TESTS = """
import os
import gtensor as gt
import pytest
from gtensor.codegen import library

def test_reads_behind_an_array():
    step = gt.compile(lambda x: x + 1).trace(gt.spec((3,))).lower().compile()
    step.inputs.take = lambda leaves: [library.aligned_empty(8)]
    step(gt.ones(3))

def test_goes_on():
    assert float(gt.compile(lambda x: x + 1)(gt.ones(()))) == 2

def test_breaks():
    assert False, "as any test may"

@pytest.mark.unsanitized("needs what is not there")
def test_that_is_left_out():
    assert False, "should not run"

def test_whose_child_has_a_finding():
    os.write(2, b"unit.c:3:5: runtime error: signed integer overflow: 1 + 1\\n")
"""


@pytest.fixture
def tests(tmp_path):
    """Arguments that run some of TESTS, by name, as the tests of this folder are run."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    config = ["-c", sanitized.ROOT / "pyproject.toml", "--rootdir", tmp_path]
    return lambda *names: [*config, *(f"{tmp_path}/test_some.py::test_{name}" for name in names)]


def test_a_finding_fails_its_test_and_no_other(tests):
    """Memory of 8 bytes where a kernel reads 12, with nothing behind it that NumPy would have added."""
    done = suite("-n", "1", *tests("reads_behind_an_array", "goes_on", "breaks"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "READ of size" in done.stderr and "2 failed, 1 passed" in done.stdout, done.stdout
    assert "found: ERROR: AddressSanitizer: heap-buffer-overflow" in done.stdout
    assert "::test_reads_behind_an_array" in done.stdout.partition("failed: ")[2]


def test_a_finding_that_no_test_fails_for_counts(tests):
    done = suite(*tests("whose_child_has_a_finding", "that_is_left_out"))
    assert done.returncode == 1 and "1 passed, 1 skipped" in done.stdout
    assert "found: runtime error: signed integer overflow: 1 + 1" in done.stdout and "failed:" not in done.stdout
    assert "left out: 1 x needs what is not there" in done.stdout


WELL = sanitized.Outcome("some", 3, (), Counter({"no compiler": 1}), (), status=0, seconds=1.0)


def test_a_failure_a_finding_and_an_unusual_end_are_not_well():
    assert WELL.well
    for change in ({"failed": ("test_x",)}, {"found": ("runtime error: x",)}, {"status": 5}):
        assert not replace(WELL, **change).well
    assert "pytest ended with 5" in sanitized.summary([WELL, replace(WELL, status=5)])
    assert "skipped: 2 x no compiler" in sanitized.summary([WELL, WELL])


def test_each_test_file_is_in_one_portion():
    parts = sanitized.portions(sanitized.ROOT / "tests")
    paths = [Path(path) for part in parts.values() for path in part]
    files = [file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])]
    assert sorted(files) == sorted((sanitized.ROOT / "tests").rglob("test_*.py"))
    assert len(parts) > 10 and max(map(len, parts.values())) <= sanitized.FILES


def test_a_compiler_without_sanitizers_is_said(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "tests.sanitized"]
    environment = {**sanitized.outside(), "GT_CC": str(compiler)}
    done = subprocess.run(command, cwd=sanitized.ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "nothing was run" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("nbytes", [0, 1, 8, 100, 4096])
def test_exact_memory_is_aligned_and_of_its_size(nbytes):
    memory = sanitized.exact(nbytes)
    assert memory.nbytes == nbytes and memory.dtype == np.uint8
    assert nbytes == 0 or (memory.ctypes.data % 64 == 0 and memory.flags.writeable)

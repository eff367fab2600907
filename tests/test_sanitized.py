"""GT_SANITIZE as its users meet it, and the runner of the tests under it (tests/sanitized.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gtensor.codegen import sanitizers
from tests import sanitized
from tests.cases.processes import run, start

COMPILER = sanitized.compiler()
SETTINGS = sanitized.environment(COMPILER) or {}
PRELOAD = sanitizers.PRELOAD.get(sys.platform, "LD_PRELOAD")

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
    return {PRELOAD: sanitizers.without(os.environ).get(PRELOAD), **own, **more}


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


BEHIND = """
import gtensor as gt
from gtensor.codegen import library

def test_reads_behind_an_array():
    step = gt.compile(lambda x: x + 1).trace(gt.spec((3,))).lower().compile()
    step.inputs.take = lambda leaves: [library.aligned_empty(8)]
    step(gt.ones(3))

def test_goes_on():
    assert float(gt.compile(lambda x: x + 1)(gt.ones(()))) == 2

def test_breaks():
    assert False, "as any test may"
"""


def test_a_finding_fails_its_test_and_no_other(tmp_path):
    """Memory of 8 bytes where a call takes 12, with nothing behind it that NumPy would have added."""
    conftest = "import tests.conftest\n"
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "test_behind.py").write_text(BEHIND, encoding="utf-8")
    command = [sys.executable, "-m", "tests.sanitized", "-n", "1", "--rootdir", str(tmp_path)]
    command += ["-c", str(sanitized.ROOT / "pyproject.toml"), str(tmp_path / "test_behind.py")]
    done = subprocess.run(
        command, cwd=sanitized.ROOT, capture_output=True, text=True, env=sanitizers.without(os.environ)
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "heap-buffer-overflow" in done.stderr and "2 failed, 1 passed" in done.stdout, done.stdout


def test_a_compiler_without_sanitizers_is_said(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "tests.sanitized"]
    environment = {**sanitizers.without(os.environ), "GT_CC": str(compiler)}
    done = subprocess.run(command, cwd=sanitized.ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "nothing was run" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("nbytes", [0, 1, 8, 100, 4096])
def test_exact_memory_is_aligned_and_of_its_size(nbytes):
    memory = sanitized.exact(nbytes)
    assert memory.nbytes == nbytes and memory.dtype == np.uint8
    assert nbytes == 0 or (memory.ctypes.data % 64 == 0 and memory.flags.writeable)

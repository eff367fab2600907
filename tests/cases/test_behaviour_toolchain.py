"""Compilers that are missing or broken (B07), and what loading compiled code does to the process (F02)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt

from .processes import NO_ZIG, answer, script

# ---- B07 --------------------------------------------------------------------------------------------------

MODELS = """
import json
import numpy as np
import gtensor as gt

x = np.ones((4, 3), np.float32)

def loss(w, x):
    return gt.mean(x @ w) * scale

makers = {
    "compiled": lambda: gt.compile(lambda x: gt.tanh(x) * scale)(x).numpy().sum().item(),
    "ahead": lambda: gt.compile(lambda x: x - scale).trace(gt.spec((4, 3))).lower().compile()(x).numpy().sum().item(),
    "trained": lambda: gt.TrainStep(loss, gt.ones((3, 2)), gt.optim.sgd(0.1), gt.spec((4, 3)))(x),
}

def made():
    out = {"eager": gt.tanh(gt.tensor(x)).sum().item()}
    for name, make in makers.items():
        try:
            out[name] = make()
        except Exception as error:
            out[name] = [f"{type(error).__module__}.{type(error).__name__}", str(error)]
    return out

results = []
for scale in SCALES:
    results.append(made())
print(json.dumps(results))
"""


def models(*scales, **variables):
    """Results of the models for each scale (a number, or the error's class and message), made in one process."""
    return answer(f"{NO_ZIG}SCALES = {scales}\n{MODELS}", **variables)


NOISE = f'seq -f "warning %.0f: {"blah " * 200}" 1 300'


def broken(folder):
    """Settings without a working compiler -> what their errors must say."""
    empty, not_executable = folder / "empty", folder / "not-executable"
    empty.mkdir()
    not_executable.write_text("")
    no_header = script(folder / "no-header", "echo \"fatal error: 'omp.h' not found\" >&2; exit 1")
    killed = script(folder / "killed", "kill -9 $$")
    noisy = script(folder / "noisy", f"{NOISE} >&2; echo the last line; exit 1")
    lying = script(folder / "lying", 'case "$*" in *self_test.so*) echo > self_test.so; exit 0;; esac; exec cc "$@"')
    return {
        "nothing on PATH": ({"PATH": empty}, ["looked for GT_CC, CC, for cc, gcc, clang on PATH", str(empty)]),
        "CC is /bin/false": ({"CC": "/bin/false"}, ["/bin/false (named by CC)", "exit status 1", "printed nothing"]),
        "a header is missing": ({"CC": no_header}, ["named by CC", "'omp.h' not found", "a header is missing"]),
        "the named one is missing": ({"GT_CC": "no-such-cc"}, ["there is no program 'no-such-cc'", "correct GT_CC"]),
        "it cannot be run": ({"GT_CC": not_executable}, ["not-executable"]),
        "it dies": ({"GT_CC": killed}, ["named by GT_CC", "signal 9"]),
        "it says too much": ({"GT_CC": noisy}, ["exit status 1", "| the last line"]),
        "it makes nonsense": ({"GT_CC": lying}, ["made a library that does not work here"]),
    }


CASES = ["nothing on PATH", "CC is /bin/false", "a header is missing", "the named one is missing", "it cannot be run",
         "it dies", "it says too much", "it makes nonsense"]  # fmt: skip


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A cache with the models of scale 1, and their results."""
    cache = tmp_path_factory.mktemp("known") / "cache"
    return cache, *models(1.0, GT_CACHE=cache)


def kept_source(message):
    """The path of the source in a message, if it names one."""
    lines = [line.strip() for line in message.splitlines()]
    return next((Path(line.removeprefix("source:").strip()) for line in lines if line.startswith("source:")), None)


@pytest.mark.parametrize("what", CASES)
def test_B07_a_compiler_that_does_not_work_is_one_short_error(what, known, tmp_path):
    """Without a working compiler users get hundreds of lines of noise, or a silent slow fallback. Here every way to
    compile raises the one class, in under 30 lines, with what was looked for, the command, the end of what the compiler
    said, where the source is kept, and what to do. Nothing else is printed; eager use and cached models work.
    """
    cache, expected = known
    variables, parts = broken(tmp_path)[what]
    again, refused = models(1.0, 2.0, GT_CACHE=shutil.copytree(cache, tmp_path / "cache"), **variables)
    assert again == expected
    assert refused.pop("eager") == expected["eager"]
    for kind, message in refused.values():
        assert kind == "gtensor.errors.ToolchainError"
        lines = message.splitlines()
        assert len(lines) < 30 and all(len(line) < 1000 for line in lines), message
        for part in (*parts, "hint: "):
            assert part in message
        if (source := kept_source(message)) is not None:
            assert source.suffix == ".c" and source.exists()
            assert "command: cd " in message


def test_B07_a_model_that_the_compiler_refuses(known, tmp_path):
    """A compiler that passes its trial and then fails on a model: the same short error, and the kept source can be
    compiled by hand with the command of the message.
    """
    cache, _ = known
    failing = script(
        tmp_path / "failing-cc",
        f'case "$*" in *lambda.c*|*train_loss.c*) {NOISE} >&2; exit 1;; esac\nexec cc "$@"',
    )
    (refused,) = models(2.0, GT_CACHE=shutil.copytree(cache, tmp_path / "cache"), GT_CC=failing)
    del refused["eager"]
    for kind, message in refused.values():
        assert kind == "gtensor.errors.ToolchainError" and len(message.splitlines()) < 30
        assert "warning 300:" in message and "warning 200:" not in message
        source = kept_source(message)
        assert source.exists() and "gt_model_get" in source.read_text()
        (command,) = (line.strip() for line in message.splitlines() if line.strip().startswith("command:"))
        by_hand = command.removeprefix("command:").replace(str(failing), "cc")
        subprocess.run(["/bin/sh", "-c", by_hand], check=True, capture_output=True)


@pytest.mark.parametrize("named", ["GT_CC", "CC"])
def test_B07_a_compiler_that_was_named_is_used_or_refused(named, tmp_path):
    """The compiler on PATH, which works, is no fallback for one that was named and fails; GT_CC goes before CC."""
    (refused,) = models(2.0, **{"GT_CACHE": tmp_path, "CC": "cc", named: "/bin/false"})
    del refused["eager"]
    assert all(kind == "gtensor.errors.ToolchainError" for kind, _ in refused.values())


def test_B07_one_that_nobody_named_and_fails_is_passed_over_in_silence(tmp_path):
    """A broken `cc` before a working `gcc` on PATH: the next one is taken. Nothing is printed about it, nor about a
    compiler that works: `models` refuses any word on standard error.
    """
    path = tmp_path / "bin"
    path.mkdir()
    script(path / "cc", "echo broken >&2; exit 1")
    variables = {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "GT_CACHE": tmp_path / "cache"}
    first, second = (models(2.0, **variables) for _ in "ab")
    assert first == second and isinstance(first[0]["compiled"], float)


# ---- F02 --------------------------------------------------------------------------------------------------

ENVIRONMENT = """
import threading
import numpy as np
import gtensor as gt

def unharmed():
    with np.errstate(all="raise"):
        assert float(np.float32(1e-40) * np.float32(1.0)) == float(np.float32(1e-40)) != 0.0
        assert float(np.finfo(np.float32).smallest_subnormal) == 2.0**-149
        assert float(np.finfo(np.float64).smallest_subnormal) == 5e-324
        assert 2.0**-1074 * 1.0 != 0.0 and float(np.float32(2.0**-130) / np.float32(2)) == 2.0**-131
        assert (np.array([1e-40], np.float32) + np.array([1e-40], np.float32))[0] != 0
        assert 1.0 + 2.0**-53 == 1.0 and 1.0 + 3 * 2.0**-54 > 1.0

unharmed()
tiny = np.full(300, 1e-40, np.float32)
w = np.ones((300, 300), np.float32)
step = gt.compile(lambda x, w: (x * 1.0, gt.sum(x), gt.exp(x), x @ w))
train = gt.TrainStep(lambda w, x: gt.mean(gt.tanh(x @ w) ** 2), w, gt.optim.adam(0.1), gt.spec((300,)))

def work():
    same, total, ones, product = step(tiny, w)
    assert (same.numpy() == tiny).all() and total.item() > 2e-38 and (product.numpy() > 2e-38).all()
    train(np.ones(300, np.float32))

for _ in range(2):
    work()
    unharmed()
failures = []

def inside():
    try:
        unharmed()
        work()
        unharmed()
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=inside) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
unharmed()
print("null" if not failures else failures)
"""


def test_F02_loading_compiled_code_leaves_the_process_its_denormals(tmp_path):
    """A shared object that was linked with -ffast-math sets flush-to-zero for the whole process when it is loaded, and
    NumPy's smallest numbers become 0, here and in threads that start later. Nothing that is loaded here (models, the
    bridge, BLAS) does so, and the models themselves keep the smallest numbers. Warnings are errors.
    """
    assert answer(ENVIRONMENT, GT_CACHE=tmp_path) is None


RELAXED = ["-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-mdaz-ftz", "-ffp-contract=fast"]


@pytest.mark.parametrize("flag", RELAXED)
@pytest.mark.parametrize("setting", ["cflags", "cc"])
def test_F02_flags_that_would_do_so_are_refused(setting, flag, tmp_path):
    """A user who adds such a flag gets an error that names it, not other numbers."""
    value = flag if setting == "cflags" else f"cc {flag}"
    with gt.config(**{setting: value, "cache": tmp_path}), pytest.raises(gt.errors.OptionError, match=flag):
        gt.compile(lambda x: x * 2)(np.ones(2, np.float32))

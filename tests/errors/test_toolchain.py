"""No compiler, a compiler that fails, a damaged cache: through the functions that users call."""

from __future__ import annotations

import importlib.util
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ToolchainError

X = np.ones(3, np.float32)


def twice(x):
    return gt.tanh(x) * 2


def hide_ziglang(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, package=None: find(name) if name != "ziglang" else None
    )


@pytest.fixture
def cache(tmp_path):
    with gt.config(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_no_compiler(refused, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    hide_ziglang(monkeypatch)
    for name in ("CC", "GT_CC"):
        monkeypatch.delenv(name, raising=False)
    with refused(
        ToolchainError,
        "no C compiler: looked for GT_CC, CC, for cc, gcc, clang on PATH, and for the ziglang package",
        f"PATH: {tmp_path}",
        "hint: install one",
        builtin=RuntimeError,
    ):
        gt.compile(twice)(X)  # fault
    with refused(ToolchainError, "no C compiler"):
        gt.TrainStep(lambda w, x: gt.sum(w * x), X, gt.optim.sgd(0.1), gt.spec((3,)))  # fault
    assert twice(X).shape == (3,)


def test_a_named_compiler_that_is_not_there(refused, cache):
    parts = "GT_CC='no-such-cc -O1': there is no program 'no-such-cc'", "hint: correct GT_CC"
    with gt.config(cc="no-such-cc -O1"), refused(ToolchainError, *parts):
        gt.compile(twice)(X)  # fault


def test_a_compiler_that_always_fails(refused, cache, tmp_path):
    text = 'for i in $(seq 1 100); do echo "line $i: omp.h: No such file or directory" >&2; done\nexit 3\n'
    broken = script(tmp_path / "broken cc", text)
    parts = (
        "the C compiler",
        "(named by GT_CC) failed with exit status 3",
        "command: cd ",
        "source: ",
        "line 81: omp.h",
        "line 100: omp.h",
        "hint: a header is missing",
    )
    with gt.config(cc=broken), refused(ToolchainError, *parts) as caught:
        gt.compile(twice)(X)  # fault
    text = str(caught.value)
    assert "line 80:" not in text
    (source,) = re.findall(r"source:  (.*)", text)
    assert Path(source).exists()


def test_a_compiler_that_fails_on_a_model(refused, cache, tmp_path):
    """It passes the trial and fails later: the model's source is kept, and nothing is left in the cache."""
    real = subprocess.run(["which", "cc"], capture_output=True, text=True, check=True).stdout.strip()
    text = f'case "$*" in *twice.c*) echo "twice.c: internal compiler error" >&2; exit 4;; esac\nexec {real} "$@"\n'
    with gt.config(cc=script(tmp_path / "cc", text)):
        f = gt.compile(twice)
        with refused(ToolchainError, "failed with exit status 4", "internal compiler error", "hint: ") as caught:
            f(X)  # fault
        (source,) = re.findall(r"source:  (.*)", str(caught.value))
        assert "gt_tanh_f32" in Path(source).read_text()
        with refused(ToolchainError, "failed with exit status 4"):
            f(X)  # fault
    assert f(X).tolist() == pytest.approx((2 * np.tanh(X)).tolist())


def test_a_compiled_model_runs_without_a_compiler(cache, monkeypatch, tmp_path):
    expected = gt.compile(twice)(X).tolist()
    monkeypatch.setenv("PATH", str(tmp_path))
    hide_ziglang(monkeypatch)
    again = gt.compile(twice)
    with pytest.raises(ToolchainError):
        gt.compile(lambda x: gt.exp(x) - 3)(X)
    assert again(X).tolist() == expected and again.compiled.hit


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has Accelerate")
def test_a_blas_that_is_not_there(refused, cache):
    parts = "GT_BLAS=accelerate: there is none here", "hint: Accelerate is part of macOS only"
    with gt.config(blas="accelerate"), refused(ToolchainError, *parts):
        gt.compile(twice)(X)  # fault


def test_flags_that_change_arithmetic(refused):
    for flag in ("-ffast-math", "-Ofast"):
        with gt.config(cflags=flag), refused(OptionError, f"GT_CFLAGS holds {flag}", "hint: leave the flag out"):
            gt.compile(twice)(X)  # fault


def entries(cache):
    return [path for path in (cache / "v1" / "entries").iterdir() if any(path.glob("twice*"))]


def harm_library(path):
    (library,) = path.glob("twice*.so")
    content = library.read_bytes()
    library.unlink()  # this process has the file mapped
    library.write_bytes(content[: len(content) // 2])


def harm_key(path):
    key = path / "key.txt"
    key.write_text(key.read_text() + " ")


def harm_record(path):
    (path / "entry.json").write_text("{")


def lose_library(path):
    (library,) = path.glob("twice*.so")
    library.unlink()


def let_others_write(path):
    path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWOTH)


@pytest.mark.parametrize("harm", [harm_library, harm_key, harm_record, lose_library, let_others_write])
def test_a_damaged_cache_entry_is_built_again(cache, harm, capsys):
    expected = gt.compile(twice)(X).tolist()
    (entry,) = entries(cache)
    harm(entry)
    with gt.config(debug=1):
        again = gt.compile(twice)
        assert again(X).tolist() == expected
    assert not again.compiled.hit
    assert "rebuilt" in capsys.readouterr().err
    third = gt.compile(twice)
    assert third(X).tolist() == expected and third.compiled.hit


def test_a_cache_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with gt.config(cache=blocked / "cache"):
        assert gt.compile(twice)(X).shape == (3,)
    assert blocked.read_text() == "no folder"


def test_odd_characters_in_the_path_of_the_cache(tmp_path):
    with gt.config(cache=tmp_path / "a b'c" / "Márton-測試"):
        assert gt.compile(twice)(X).tolist() == pytest.approx((2 * np.tanh(X)).tolist())

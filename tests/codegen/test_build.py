"""The door: a program in, a library out; what a hit does not do; what without a compiler still works."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gtensor.codegen import build as build_module
from gtensor.codegen import trampoline, write
from gtensor.codegen.artefact import Workshop
from gtensor.codegen.build import assembly, build, cache, lookup, target
from gtensor.codegen.compiler import CompileError, ToolchainError
from gtensor.codegen.errors import ProgramError
from gtensor.codegen.options import Options
from gtensor.codegen.target import PORTABLE
from tests.codegen.by_hand import add, gemm, inp, kernel, make, out, store
from tests.codegen.by_hand import load as read

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = make([inp("x", (4, 8)), out("y", (4, 8))], [
    kernel("twice", (4, 8), read("a", "x", 8, 1), add("b", "a", "a"), store("y", "b", 8, 1))
])  # fmt: skip
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    return Options(cache=tmp_path / "cache")


@pytest.mark.parametrize("variant", ["native", "portable"])
def test_a_program_becomes_a_library(options, variant):
    options = replace(options, variant=variant)
    assert lookup("double", options) is None
    library = build(PROGRAM, "double", options)
    np.testing.assert_array_equal(library.call([X])[0], 2 * X)
    again = lookup("double", options)
    assert again.path == library.path and again.model == library.model
    assert again.c_source == library.c_source
    assert "gt_model_get" in library.c_source and list(library.sources) == ["hand.c"]
    assert "gt_model_get" in assembly(library.sources, options)
    assert lookup("another", options) is None


def test_a_product(options):
    w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    for blas in ("none", ""):
        library = build(gemm(), "product", replace(options, blas=blas))
        np.testing.assert_allclose(library.call([X, w])[0], X @ w, rtol=1e-5, atol=1e-5)


def test_a_hit_does_nothing_but_load(options, monkeypatch):
    build(PROGRAM, "double", options)
    for name in ("check", "plan", "emit"):
        monkeypatch.setattr(write, name, lambda *args: pytest.fail("a hit needs none of this"))
    np.testing.assert_array_equal(build(PROGRAM, "double", options).call([X])[0], 2 * X)


def test_the_next_process_starts_no_process_and_imports_no_templates(options):
    build(PROGRAM, "double", options)
    trampoline.compiled(Workshop(options))  # this process may have another cache's
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen = None\n"
        "from pathlib import Path\n"
        "from gtensor.codegen import trampoline\n"
        "from gtensor.codegen.build import lookup\n"
        "from gtensor.codegen.options import Options\n"
        "library = lookup('double', Options(cache=Path(sys.argv[1])))\n"
        "assert library.bridge.mode == 'api', library.bridge\n"
        "assert not {'jinja2', 'pycparser'} & set(sys.modules)\n"
        "print(library.model.name)\n"
    )
    command = [sys.executable, "-c", code, str(options.cache)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "hand\n", done.stderr


def test_a_change_of_our_own_sources_is_a_miss(options, monkeypatch):
    build(PROGRAM, "double", options)
    monkeypatch.setattr(build_module, "tree_digest", lambda *folders: "other sources")
    assert lookup("double", options) is None


@pytest.mark.parametrize("change", [{"blas": "none"}, {"variant": "portable"}, {"cflags": "-O1"}])
def test_a_change_of_options_is_a_miss(options, change):
    build(PROGRAM, "double", options)
    assert lookup("double", replace(options, **change)) is None


def test_cached_models_run_without_a_compiler_and_new_ones_say_what_is_missing(options):
    build(PROGRAM, "double", options)
    broken = replace(options, cc="/bin/false")
    np.testing.assert_array_equal(build(PROGRAM, "double", broken).call([X])[0], 2 * X)
    with pytest.raises(ToolchainError, match="/bin/false"):
        build(PROGRAM, "new", broken)


def test_a_wrong_program_is_refused_before_anything_is_compiled(options):
    wrong = make(
        [inp("x", (4, 8)), out("y", (4, 8))], [kernel("k", (4, 9), read("a", "x", 8, 1), store("y", "a", 8, 1))]
    )
    with pytest.raises(ProgramError):
        build(wrong, "wrong", options)
    assert cache(options).info()["entries"] == 0


def test_flags_that_the_c_does_not_survive(options):
    with pytest.raises(CompileError) as caught:
        build(PROGRAM, "double", replace(options, cflags="-Dfloat=nothing"))
    assert len(str(caught.value).splitlines()) < 30


def test_the_log_tells_a_build_from_a_hit(options):
    lines = []
    options = replace(options, debug=1, log=lines.append)
    build(PROGRAM, "double", options)
    made, loaded = (line for line in lines if line.startswith("build: hand: "))
    assert made.startswith("build: hand: checked and planned in ") and loaded.startswith("build: hand: loaded in ")
    assert all(f"{part} in " in made for part in ("written as 1 units", "compiled"))
    lines.clear()
    build(PROGRAM, "double", options)
    assert len(lines) == 1 and lines[0].startswith("build: hand: from the cache in")
    assert not any("compiler says" in line for line in lines)


def test_the_target_of_the_options(options):
    assert target(options).variant == "native"
    assert target(replace(options, variant="portable")) == PORTABLE

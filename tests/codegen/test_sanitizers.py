"""Libraries built with sanitizers: their flags, what they find, and into which processes they can be loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gtensor.codegen import sanitizers, trampoline
from gtensor.codegen.artefact import Workshop
from gtensor.codegen.blas import from_shim
from gtensor.codegen.library import Library
from gtensor.codegen.options import SANITIZERS, Options
from gtensor.codegen.sanitizers import SanitizerError
from tests import sanitized

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (Path(__file__).parent / "by_hand.c").read_text(encoding="utf-8")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]

BOTH = "address,undefined"
PICK = "picked[0] = w[i[0]];"

FAULTS = {
    "signed integer overflow": ("undefined", "args->flags = INT64_MAX; args->flags += args->dims[0];"),
    "is outside the range of representable": ("undefined", "args->flags = (int64_t)(w[0] * 1e30f);"),
    "misaligned address": ("undefined", "picked[0] = *(const float *)((const char *)w + 1);"),
    "null pointer passed": ("undefined", "void *volatile to = 0; volatile size_t n = 0; memcpy(to, w, n);"),
    "heap-buffer-overflow": ("address", "picked[0] = ((volatile const float *)w)[3];"),
}
"""What a sanitizer says -> its name, and what makes it say so."""

USE = """
import sys
from pathlib import Path
import numpy as np
from gtensor.codegen import trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.library import Library
from gtensor.codegen.options import Options
cache, cc, sanitize, unit = sys.argv[1:]
workshop = Workshop(Options(cache=Path(cache), cc=cc, sanitize=sanitize))
text = Path(unit).read_text(encoding="utf-8")
entry = workshop.make(Recipe("by_hand", text), {"by_hand.c": text})
library = Library(entry.library_path, trampoline.bridge(workshop), lambda: 0)
x = np.ones((2, 3), np.float32)
w = np.ones(3, np.float32)
y, _ = library.call([x, w, np.zeros(2, np.int64), np.empty(0, bool)], state=library.new_state())
print("ran", float(y.sum()), library.bridge.mode)
"""


def preload(compiler: str) -> dict[str, str]:
    """Variables that put a compiler's address sanitizer into a process."""
    found = sanitized.environment(compiler)
    if found is None:
        pytest.skip(f"{compiler} has no address sanitizer here")
    return found


def use(tmp_path: Path, compiler: str, kinds: str, text: str = SOURCE, environment=None):
    """Compile a unit, load and run it in a process without a sanitizer, or with `environment`."""
    unit = tmp_path / "unit.c"
    unit.write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", USE, str(tmp_path / "cache"), compiler, kinds, str(unit)]
    environment = sanitized.outside() if environment is None else environment
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_is_right_runs(tmp_path, compiler):
    done = use(tmp_path, compiler, "undefined")
    assert "ran 6.0" in done.stdout, done.stderr
    done = use(tmp_path, compiler, BOTH, environment=preload(compiler))
    assert "ran 6.0" in done.stdout, done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("says", FAULTS)
def test_the_first_fault_ends_the_process(tmp_path, says, compiler):
    kind, fault = FAULTS[says]
    environment = preload(compiler) if kind == "address" else None
    done = use(tmp_path, compiler, kind, SOURCE.replace(PICK, fault), environment)
    assert done.returncode != 0 and says in done.stderr and "ran" not in done.stdout, done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_without_its_sanitizer_in_the_process_a_library_is_not_loaded(tmp_path, compiler):
    """The loader would end the process; the error names what to preload, with the very command that finds it."""
    done = use(tmp_path, compiler, "address")
    assert done.returncode == 1 and "SanitizerError: by_hand-" in done.stderr, done.stderr
    assert "must be in the process before Python starts, and it has none" in done.stderr
    hint = next(line for line in done.stderr.splitlines() if line.startswith("  hint: "))
    asked = hint.partition("$(")[2].partition(")")[0].split()
    found = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    assert asked[0] == compiler and os.path.isabs(found) and os.path.exists(found)
    environment = {**sanitized.outside(), "LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0"}
    assert "ran 6.0" in use(tmp_path, compiler, "address", environment=environment).stdout


@pytest.mark.skipif(len(COMPILERS) < 2, reason="needs two compilers")
@pytest.mark.parametrize("compiler, other", [COMPILERS, COMPILERS[::-1]])
def test_beside_the_sanitizer_of_another_compiler_a_library_is_not_loaded(tmp_path, compiler, other):
    done = use(tmp_path, compiler, "address", environment=preload(other))
    assert done.returncode == 1 and "it has that of another compiler, /" in done.stderr, done.stderr
    assert f"$({compiler} -print-file-name=" in done.stderr


def test_a_compiler_runs_without_the_sanitizer(tmp_path):
    """With leaks looked for, as they are unless ASAN_OPTIONS says otherwise, gcc would fail for its own."""
    environment = {name: text for name, text in preload(COMPILERS[0]).items() if name != "ASAN_OPTIONS"}
    assert "ran 6.0" in use(tmp_path, COMPILERS[0], "address", environment=environment).stdout


def test_everything_that_is_compiled_and_loaded_has_the_sanitizers(tmp_path):
    """The bridge to Python too."""
    shop = Workshop(Options(cache=tmp_path, sanitize="undefined"))
    flags = shop.flags(trampoline.recipe())
    assert "-fsanitize=undefined,float-cast-overflow" in flags and "-fno-sanitize-recover=all" in flags
    assert shop.key(trampoline.recipe()).text != Workshop(Options(cache=tmp_path)).key(trampoline.recipe()).text
    assert trampoline.api_bridge(trampoline.compiled(shop)).mode == "api"


@pytest.mark.parametrize("name", ["libasan.so.8", "libclang_rt.asan-x86_64.so", "libclang_rt.asan_osx_dynamic.dylib"])
def test_every_loader_asks(tmp_path, monkeypatch, name):
    """Of a file of which nothing but the name of the sanitizer is known."""
    monkeypatch.setattr(sanitizers, "loaded", lambda: "")
    path = tmp_path / "model.so"
    path.write_bytes(b"\0libc.so.6\0" + name.encode() + b"\0")
    assert sanitizers.needed(path) == name
    for load in (trampoline.api_bridge, from_shim, lambda path: Library(path, trampoline.abi_bridge(), lambda: 0)):
        with pytest.raises(SanitizerError, match=f"model.so was compiled .*: {name} must be in the process"):
            load(path)


@pytest.mark.parametrize(
    "name, there, fits",
    [
        ("libasan.so.8", "/usr/lib/libasan.so.8.0.0", True),
        ("libasan.so.8", "/usr/lib/libasan.so.8", True),
        ("libasan.so.8", "/usr/lib/libasan.so.80", False),
        ("libasan.so.8", "/usr/lib/libasan.so.6.0.0", False),
        ("libclang_rt.asan-x86_64.so", "/usr/lib/clang/libclang_rt.asan-x86_64.so", True),
        ("libclang_rt.asan-x86_64.so", "/usr/lib/libasan.so.8.0.0", False),
    ],
)
def test_which_sanitizer_fits(tmp_path, monkeypatch, name, there, fits):
    monkeypatch.setattr(sanitizers, "loaded", lambda: there)
    path = tmp_path / "model.so"
    path.write_bytes(b"\0" + name.encode() + b"\0")
    if fits:
        sanitizers.check(path)
    else:
        with pytest.raises(SanitizerError, match=f"another compiler, {there}"):
            sanitizers.check(path)


def test_each_sanitizer_has_checks():
    assert set(sanitizers.CHECKS) == set(SANITIZERS)
    assert sanitizers.flags((), clang=True) == ()
    assert "-shared-libsan" in sanitizers.flags(("address",), clang=True)


def test_what_else_is_preloaded_stays():
    given = {"LD_PRELOAD": "/a/libfake.so:/b/libasan.so.8.0.0 /c/libclang_rt.asan-x86_64.so", "A": "b"}
    key = sanitizers.PRELOAD.get(sys.platform, "LD_PRELOAD")
    given[key] = given["LD_PRELOAD"]
    assert sanitizers.without(given)[key] == "/a/libfake.so"
    assert sanitizers.without({"A": "b"}) == {"A": "b"}

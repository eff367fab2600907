"""Models built for other machines: which library runs where, who compiles it, and what is said where it does not run.

Libraries for other systems need the package ziglang; those for other CPUs of this system need gcc or clang.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import struct
import sys

import numpy as np
import pytest

import gtensor as gt
from gtensor.codegen import bundle, machine, toolchain
from gtensor.codegen.options import Options
from gtensor.codegen.platforms import PLATFORMS
from gtensor.errors import FileError, OptionError, ToolchainError
from tests.exported_c import STRICT, ZIG, records, run
from tests.test_checkpoints import batches, trainer
from tests.test_export import classifier
from tests.test_export_targets import QEMU, mach_o, with_zig
from tests.test_saved import train_elsewhere

X86 = [name for name in PLATFORMS if name.startswith("x86-64")]
on_x86 = pytest.mark.skipif(machine.system() != "linux x86_64", reason="x86-64 code runs on Linux on such a machine")


natively = pytest.mark.unsanitized("names the compiler of this system, which is none for another")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a model"


@pytest.fixture(scope="module")
def train():
    return trainer(gt.optim.adam(0.01))


def about_library(folder, **changes):
    """What the manifest says of the library, after the changes."""
    path = folder / "manifest.json"
    about = json.loads(path.read_text())
    about["library"] |= changes
    path.write_text(json.dumps(about))
    return about["library"]


def elf(path):
    """The machine that a library of Linux is for: 62 for x86-64, 183 for aarch64 (System V ABI, e_machine)."""
    head = path.read_bytes()[:20]
    assert head[:6] == b"\x7fELF\2\1"
    return struct.unpack("<H", head[18:20])[0]


def library(folder):
    (path,) = folder.glob("*.so")
    return path


# ---- this system, any CPU ----------------------------------------------------------------------------------


@on_x86
@pytest.mark.parametrize("target", X86)
def test_a_level_of_x86_64(target, train, folder):
    train.save(folder, target=target)
    about = about_library(folder)
    assert (about["target"], about["machine"]) == (target, "linux x86_64")
    assert frozenset(about["needs"]) == PLATFORMS[target].needs and elf(library(folder)) == 62
    assert f"-march={target}" in toolchain.find(Options(target=target)).flags
    loaded = gt.load(folder)
    model = loaded.compiled.library.model
    assert (about["state_bytes"], about["work_bytes"]) == (model.state_bytes, model.work_bytes)
    inside = loaded.compiled.library.path == library(folder)
    assert inside == PLATFORMS[target].runs_here
    assert not loaded.compiled.library.model.needs_blas
    there = [loaded(*batch) for batch in batches(5)]
    native = trainer(gt.optim.adam(0.01))
    np.testing.assert_allclose(there, [native(*batch) for batch in batches(5)], rtol=1e-5)


@on_x86
@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc, which is not installed, says what a level has")
def test_levels_are_what_the_compiler_says():
    """Each feature that a level needs is one whose macro gcc defines there, and not one level below."""
    macros = {"pni": "__SSE3__", "abm": "__LZCNT__", "bmi1": "__BMI__", "lahf_lm": "__LAHF_SAHF__"}
    macros |= {"cx16": "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16"}
    needed, known = frozenset(), set()
    for name in X86:
        lines = run("gcc", f"-march={name}", "-dM", "-E", "-x", "c", os.devnull).splitlines()
        defined, needs = {line.split()[1] for line in lines}, PLATFORMS[name].needs
        news = {macros.get(need, f"__{need.upper()}__") for need in needs - needed}
        assert needed <= needs and news <= defined and not news & known, name
        needed, known = needs, defined


@on_x86
def test_a_cpu_that_lacks_something_is_told(train, folder, tmp_path):
    train.save(folder, target="x86-64-v3")
    about_library(folder, needs=["avx2", "warp"], target="x86-64-v9")
    done = train_elsewhere(folder, PATH="", GT_CC="/no/compiler", GT_CACHE=str(tmp_path / "empty cache"))
    assert done.returncode == 1
    assert "was made for x86-64-v9, and this CPU has no warp, and its C cannot be compiled here" in done.stderr
    loaded = gt.load(folder)
    assert loaded.compiled.library.path.parent != folder and loaded.compiled.options.target == "native"
    assert np.isfinite(loaded(*next(iter(batches(1)))))


@on_x86
def test_a_model_for_a_kind_of_machine_needs_no_compiler(train, folder, tmp_path):
    train.save(folder, target="x86-64")
    done = train_elsewhere(folder, PATH="", GT_CC="/no/compiler", GT_CACHE=str(tmp_path / "empty cache"))
    assert done.returncode == 0 and len(json.loads(done.stdout)) == 3, done.stderr


@on_x86
def test_what_was_loaded_stays_what_it_is(train, folder, tmp_path):
    train.save(folder, target="x86-64")
    loaded = gt.load(folder)
    for given in ("native", "x86-64"):
        loaded.save(tmp_path / given, target=given)
        assert about_library(tmp_path / given) == about_library(folder)
    with pytest.raises(OptionError, match=r"stays what it was compiled for[\s\S]*made from Python"):
        loaded.save(tmp_path / "other", target="x86-64-v2")
    assert not (tmp_path / "other").exists()


def test_a_library_that_does_not_load_is_compiled_again(train, folder, tmp_path):
    """As where the C library is older than the one it was linked with."""
    train.save(folder)
    broken = library(folder)
    broken.write_bytes(b"not a library")
    files = about_library(folder)["files"] | {broken.name: bundle._digest(broken)}
    about_library(folder, files=files)
    loaded = gt.load(folder)
    assert loaded.compiled.library.path.parent != folder and np.isfinite(loaded(*next(iter(batches(1)))))
    done = train_elsewhere(folder, PATH="", GT_CC="/no/compiler", GT_CACHE=str(tmp_path / "empty cache"))
    assert done.returncode == 1 and "cannot be loaded" in done.stderr and "cannot be compiled here" in done.stderr


def test_other_kinds_of_models(tmp_path):
    counter = gt.Resident(lambda total, x: (total + x, gt.sum(total)), gt.ones(2), [gt.spec((2,))])
    double = gt.compile(lambda x: 2 * x)
    double(gt.ones(3))
    target = "x86-64" if machine.system() == "linux x86_64" else "native"
    counter.save(tmp_path / "counter", target=target)
    double.save(tmp_path / "double", target=target)
    assert about_library(tmp_path / "double")["target"] == target
    assert gt.load(tmp_path / "counter")(gt.ones(2)) == 2
    assert gt.load(tmp_path / "double")(gt.ones(3)).tolist() == [2, 2, 2]


# ---- other systems -----------------------------------------------------------------------------------------


@natively
@with_zig
@pytest.mark.parametrize("target", ["aarch64", "aarch64-macos"])
def test_another_system(target, train, folder, tmp_path):
    train.save(folder, target=target)
    about = about_library(folder)
    assert about["target"] == target and about["machine"] == PLATFORMS[target].system
    made = library(folder)
    assert mach_o(made) if target == "aarch64-macos" else elf(made) == 183
    assert "GT_WIDTH 16" in "".join(path.read_text() for path in (folder / "c").glob("*.c"))
    loaded = gt.load(folder)
    native = trainer(gt.optim.adam(0.01))
    there = [loaded(*batch) for batch in batches(5)]
    np.testing.assert_allclose(there, [native(*batch) for batch in batches(5)], rtol=1e-5)
    done = train_elsewhere(folder, PATH="", GT_CC="/no/compiler", GT_CACHE=str(tmp_path / "empty cache"))
    assert done.returncode == 1
    assert f"was made for {PLATFORMS[target].system}, and this is {machine.cpu()}" in done.stderr


@with_zig
@pytest.mark.skipif(not QEMU, reason="qemu-user, which is not installed, runs it")
def test_vectors_of_aarch64(tmp_path):
    (learner, predict), data = classifier(), list(batches(200))
    gt.export(tmp_path / "f", learner, predict=predict, prefix="net", variant="vector", target="aarch64")
    (tmp_path / "data.bin").write_bytes(records(data))
    flags = [flag for flag in STRICT if flag not in ("-std=c99", "-Wpedantic")]
    flags += ["-std=gnu99", "-target", "aarch64-linux-musl", "-static"]
    run(*ZIG, *flags, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    printed = run(QEMU, tmp_path / "example", tmp_path / "data.bin").split()
    python = [learner(*batch) for batch in data]
    np.testing.assert_allclose(np.array(printed, np.float64), python, rtol=1e-5)


def test_portable_c_has_no_target(tmp_path):
    (learner, _) = classifier()
    with pytest.raises(OptionError, match=r"the same for aarch64 as for all[\s\S]*variant='vector'"):
        gt.export(tmp_path / "f", learner, prefix="net", target="aarch64")
    assert not (tmp_path / "f").exists()


@pytest.fixture
def foreign():
    """A target that this machine is not."""
    return next(name for name in ("aarch64", "x86-64") if PLATFORMS[name].foreign)


def never_built(name):
    """A compiled function that no cache holds for another system."""
    return gt.compile(lambda x: x * 3 + len(name)).trace(gt.spec((3,))).lower().compile()


@natively
def test_without_a_compiler_for_it(folder, foreign, monkeypatch):
    step = never_built("without")
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    message = rf"no C compiler for {foreign}: looked for GT_CC[\s\S]*pip install ziglang"
    with gt.config(cc=""), pytest.raises(ToolchainError, match=message):
        step.save(folder, target=foreign)
    assert not folder.exists()


def test_a_compiler_for_this_machine_is_none_for_another(folder, foreign):
    step = never_built("wrong")
    with gt.config(cc="cc"), pytest.raises(ToolchainError, match=rf"cc does not compile for {foreign} \("):
        step.save(folder, target=foreign)
    assert not folder.exists()


def test_an_unknown_target(train, folder):
    with pytest.raises(OptionError, match="target='z80' is none of native, x86-64, "):
        train.save(folder, target="z80")
    assert not folder.exists()


def test_a_manifest_with_an_unknown_target(train, folder):
    train.save(folder)
    about_library(folder, target="z80")
    with pytest.raises((OptionError, FileError), match="z80"):
        gt.load(folder)


# ---- the command -------------------------------------------------------------------------------------------

MODULE = """\
import gtensor as gt
double = gt.compile(lambda x: 2 * x).trace(gt.spec((3,))).lower().compile()
"""


@natively
@with_zig
def test_the_command_for_another_system_with_a_compiler_of_ones_own(tmp_path, foreign):
    """GT_CC names it; what runs here is compiled by the compiler of this machine."""
    (tmp_path / "mine.py").write_text(MODULE)
    cross = tmp_path / "cross"
    cross.write_text(f'#!/bin/sh\nexec {shlex.join(ZIG)} -target {PLATFORMS[foreign].triple} "$@"\n')
    cross.chmod(0o755)
    source = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from gtensor.cli import main; sys.exit(main())"
    build = [sys.executable, "-c", source, "build", "mine:double", "-o", tmp_path / "out", "--target", foreign]
    run("env", f"GT_CC={cross}", *build)
    assert about_library(tmp_path / "out")["machine"] == PLATFORMS[foreign].system
    assert gt.load(tmp_path / "out")(gt.ones(3)).tolist() == [2, 2, 2]


def test_features_of_a_cpu(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPUINFO", info)
    machine.features.cache_clear()
    try:
        assert machine.features() == frozenset() and machine.has([]) and not machine.has(["fma"])
        info.write_text(
            "processor\t: 0\nflags\t\t: sse fma avx2\nmodel name\t: fma4\n\nprocessor\t: 1\nflags\t: other\n"
        )
        machine.features.cache_clear()
        assert machine.features() == {"sse", "fma", "avx2"} and machine.has(["fma"]) and not machine.has(["fma4"])
    finally:
        machine.features.cache_clear()

"""Finding a compiler, its flags, and what is said when it fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gtensor.codegen import compiler as compiler_module
from gtensor.codegen import machine, toolchain, trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.compiler import CompileError, Compiler, ToolchainError, run_all
from gtensor.codegen.folder import Draft
from gtensor.codegen.library import Library
from gtensor.codegen.options import REFUSED_FLAGS, OptionError, Options
from gtensor.codegen.platforms import PLATFORMS
from gtensor.codegen.target import PORTABLE

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (Path(__file__).parent / "by_hand.c").read_text(encoding="utf-8")
GCC = shutil.which("gcc")
CC = shutil.which("cc")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]
RECIPE = Recipe("by_hand", "")


@pytest.fixture(autouse=True)
def no_cc(monkeypatch):
    monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def script(path, text):
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{shutil.which('sh')}\n{text}\n")
    path.chmod(0o755)
    return path


def compiler_at(path, name="cc"):
    """A compiler at a place of its own."""
    return script(path, f'exec {shutil.which(name)} "$@"')


def make(options, sources=None, recipe=RECIPE):
    return Workshop(options).make(recipe, sources or {"by_hand.c": SOURCE})


@pytest.mark.parametrize("name", COMPILERS)
def test_the_compilers_here_work_and_say_what_they_are(cache, name):
    found = toolchain.find(Options(cache=cache, cc=name))
    assert found.command == (shutil.which(name),)
    assert bool(found.runtime) == (name == "clang")
    assert re.search(r"\d+\.\d+", found.version) and found.machine.count("-") >= 2
    target = found.target("native")
    assert target.flags == found.flags and target.flags in PLATFORMS["native"].flags
    assert target.width in (4, 16, 32, 64) and target.variant == "native"
    assert found.target("portable") == PORTABLE


@pytest.mark.parametrize(
    "features, width, registers, fma",
    [
        ("__SSE2__ __AVX2__ __FMA__ __AVX512F__", 64, 32, True),
        ("__SSE2__ __AVX2__ __FMA__", 32, 16, True),
        ("__SSE2__ __AVX__ __AVX2__", 32, 16, False),
        ("__SSE2__ __AVX__", 16, 16, False),
        ("__ARM_NEON __aarch64__ __ARM_FEATURE_FMA", 16, 32, True),
        ("__ARM_NEON", 16, 16, False),
        ("__riscv", 4, 16, False),
        ("", 4, 16, False),
    ],
)
def test_targets(features, width, registers, fma):
    compiler = Compiler(("cc",), "/bin/cc", "cc 1.0", "x-y-z", ("-march=native",), tuple(features.split()), "")
    target = compiler.target("native")
    assert (target.width, target.registers, target.fma) == (width, registers, fma)
    assert target.flags == ("-march=native",)


def test_the_order_of_the_search(cache, tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in ("clang", "gcc", "cc", "mine", "theirs"):
        compiler_at(folder / name)
    asked = Options(cache=cache)
    monkeypatch.setattr(toolchain, "ON_PATH", ("cc", "gcc", "clang"))
    assert toolchain.find(asked).command == (str(folder / "cc"),)
    monkeypatch.setenv("CC", "theirs")
    assert toolchain.find(asked).command == (str(folder / "theirs"),)
    assert toolchain.find(Options(cache=cache, cc="mine -O1")).command == (str(folder / "mine"), "-O1")
    monkeypatch.chdir(tmp_path)
    assert toolchain.find(Options(cache=cache, cc="bin/mine")).command == (str(folder / "mine"),)


def test_a_compiler_that_was_not_named_and_fails_is_passed_over(cache, tmp_path, monkeypatch):
    script(tmp_path / "cc", f"echo >> {tmp_path / 'tried'}; exit 1")
    compiler_at(tmp_path / "gcc")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    lines = []
    options = Options(cache=cache, debug=1, log=lines.append)
    assert toolchain.find(options).command == (str(tmp_path / "gcc"),)
    assert any(f"{tmp_path / 'cc'} does not work" in line for line in lines)
    (tmp_path / "tried").unlink()
    assert toolchain.find(options).command == (str(tmp_path / "gcc"),)
    assert not (tmp_path / "tried").exists(), "tried again although another works"
    script(tmp_path / "cc", f'exec {CC} "$@"')
    assert toolchain.find(options).command == (str(tmp_path / "cc"),)


@pytest.mark.parametrize("variable", ["GT_CC", "CC"])
@pytest.mark.parametrize("name", ["/bin/false", "no-such-compiler", "/dev/null"])
def test_a_compiler_that_was_named_and_fails_is_an_error(cache, monkeypatch, variable, name):
    options = Options(cache=cache, cc=name if variable == "GT_CC" else "")
    if variable == "CC":
        monkeypatch.setenv("CC", name)
    with pytest.raises(ToolchainError, match=re.escape(name)) as caught:
        toolchain.find(options)
    assert variable in str(caught.value)
    assert len(str(caught.value).splitlines()) < 30


def test_a_named_compiler_that_fails_is_not_tried_for_each_model(cache, tmp_path, monkeypatch):
    path = script(tmp_path / "cc", f"echo >> {tmp_path / 'tried'}; exit 1")
    options = Options(cache=cache, cc=str(tmp_path / "cc"))
    messages = []
    for _ in range(3):
        with pytest.raises(ToolchainError) as caught:
            toolchain.find(options)
        messages.append(str(caught.value))
        if (tmp_path / "tried").exists():
            assert len(messages) == 1, "tried again at once"
            (tmp_path / "tried").unlink()
    assert len(set(messages)) == 1
    monkeypatch.setattr(toolchain, "REFUSED_SECONDS", 0.0)
    with pytest.raises(ToolchainError):
        toolchain.find(options)
    assert (tmp_path / "tried").exists()
    monkeypatch.undo()
    script(path, f'exec {CC} "$@"')
    assert toolchain.find(options).command == (str(tmp_path / "cc"),)


def test_what_a_broken_compiler_prints_is_shown_in_short(cache, tmp_path):
    noise = "; ".join(f"echo line {n} >&2" for n in range(100))
    broken = script(tmp_path / "cc", f"{noise}; echo 'fatal error: omp.h: No such file or directory' >&2; exit 1")
    with pytest.raises(CompileError) as caught:
        toolchain.find(Options(cache=cache, cc=str(broken)))
    lines = str(caught.value).splitlines()
    assert len(lines) < 30
    assert f"{broken} (named by GT_CC) failed with exit status 1" in lines[0]
    assert "line 99" in lines[-3] and "omp.h" in lines[-2]
    assert lines[-1].startswith("  hint: a header is missing")
    kept = Path(next(line for line in lines if line.startswith("  source:")).removeprefix("  source:  "))
    assert "gt_model_get" in kept.read_text()
    command = next(line for line in lines if line.startswith("  command: ")).removeprefix("  command: ")
    again = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert again.returncode == 1 and "omp.h" in again.stderr


def test_a_compiler_for_another_machine_is_found_out(cache, tmp_path):
    other = script(
        tmp_path / "cc", f'{shutil.which("cc")} "$@" || exit; for f; do [ "$p" = -o ] && echo no > "$f"; p="$f"; done'
    )
    with pytest.raises(CompileError, match="made a library that does not work here") as caught:
        toolchain.find(Options(cache=cache, cc=str(other)))
    assert "does not load into this Python" in str(caught.value)


def test_without_any_compiler_one_error_says_what_to_do(cache, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ToolchainError, match="no C compiler: looked for GT_CC, CC, for cc, gcc, clang on PATH"
    ) as caught:
        toolchain.find(Options(cache=cache))
    assert "hint: install one" in str(caught.value) and len(str(caught.value).splitlines()) < 30


def test_zig_serves_where_there_is_no_other(cache, tmp_path, monkeypatch):
    real = shutil.which("cc")
    script(tmp_path / "ziglang" / "zig", f'[ "$1" = cc ] || exit 9; shift; PATH={os.environ["PATH"]} exec {real} "$@"')
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    origin = str(tmp_path / "ziglang" / "__init__.py")
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: SimpleNamespace(origin=origin))
    found = toolchain.find(Options(cache=cache))
    assert found.command == (str(tmp_path / "ziglang" / "zig"), "cc")


def test_windows_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ToolchainError, match="does not build on Windows"):
        toolchain.find(Options())


@pytest.mark.parametrize("flag", sorted(REFUSED_FLAGS))
def test_flags_that_relax_arithmetic_are_refused(flag, monkeypatch):
    for wrong in ({"cflags": f"-g {flag}"}, {"cc": f"gcc {flag}"}):
        with pytest.raises(OptionError, match=re.escape(flag)):
            Options(**wrong)
    monkeypatch.setenv("CC", f"gcc {flag}")
    with pytest.raises(OptionError, match=re.escape(flag)):
        toolchain.find(Options())


@pytest.mark.parametrize(
    "wrong", [{"blas": "mkl"}, {"variant": "fast"}, {"sanitize": "address,thread"}, {"cflags": "-D'"}, {"cc": "'"}]
)
def test_settings_that_mean_nothing(wrong):
    with pytest.raises(OptionError, match=re.escape(next(iter(wrong.values())))):
        Options(**wrong)


def test_the_flags_of_a_build():
    compiler = Compiler(("cc",), "/bin/cc", "gcc 12.0", "x-y-z", ("-march=native",), ("__AVX2__",), "")
    native = toolchain.flags(compiler, compiler.target("native"), Options(cflags="-O1"))
    assert native[0] == "-std=gnu99" and native[-1] == "-O1" and "-march=native" in native
    assert {"-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"} <= set(native)
    portable = toolchain.flags(compiler, PORTABLE, Options(variant="portable", timing=True))
    assert portable[0] == "-std=c99" and "-march=native" not in portable and "-DGT_TIME=1" in portable


def test_what_is_known_of_a_compiler_holds_until_it_changes(cache, tmp_path, monkeypatch):
    started = []
    probe = toolchain.probe

    def counting(*args):
        started.append(args)
        return probe(*args)

    monkeypatch.setattr(toolchain, "probe", counting)
    path = compiler_at(tmp_path / "my cc" / "cc")
    options = Options(cache=cache, cc=str(path))
    first = toolchain.find(options)
    assert toolchain.find(options) == first
    assert len(started) == 1
    os.utime(path)
    toolchain.find(options)
    assert len(started) == 2
    toolchain.find(Options(cache=cache, cc=str(path), cflags="-mno-fma"))
    assert len(started) == 3
    monkeypatch.setattr(machine, "cpu", lambda: "another")
    toolchain.find(options)
    assert len(started) == 4


def test_user_flags_change_the_target(cache):
    usual = toolchain.find(Options(cache=cache)).target("native")
    if "x86_64" not in machine.system():
        assert usual.width in (4, 16)
        return
    plain = toolchain.find(Options(cache=cache, cflags="-mno-avx -mno-fma")).target("native")
    assert (plain.width, plain.fma) == (16, False)


def test_the_cpu_text_ignores_what_changes_from_second_to_second(tmp_path, monkeypatch):
    texts = []
    for change in ("", "cpu MHz\t: 3000\n", "flags\t\t: fpu avx2\n"):
        info = tmp_path / "cpuinfo"
        info.write_text(
            f"processor\t: 0\nmodel name\t: A CPU\n{change}bogomips\t: 1\n\nprocessor\t: 1\nmodel name\t: B\n"
        )
        monkeypatch.setattr(machine, "CPUINFO", info)
        monkeypatch.setattr(sys, "platform", "linux")
        texts.append(machine.describe())
    assert texts[0] == texts[1] != texts[2]
    assert "A CPU" in texts[0]
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "missing")
    assert machine.describe()


def test_the_cpu_text_of_a_mac(tmp_path, monkeypatch):
    script(tmp_path / "sysctl", "echo machdep.cpu.brand_string: Apple M9; echo hw.cpufamily: 7")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Apple M9" in machine.describe()


@pytest.mark.parametrize("name", COMPILERS)
def test_several_units_make_one_library(cache, name):
    head = '#include "gt_abi.h"\n'
    parts = {
        f"part_{n}.c": f"{head}int32_t part_{n}(void);\nint32_t part_{n}(void) {{ return {n}; }}\n" for n in range(5)
    }
    calls = " + ".join(f"part_{n}()" for n in range(5))
    main = (
        head
        + "".join(f"int32_t part_{n}(void);\n" for n in range(5))
        + (
            f"static int32_t call(gt_args *args) {{ args->loss = {calls}; return GT_OK; }}\n"
            'static const gt_model model = {.abi = GT_ABI_VERSION, .name = "parts", .call = call};\n'
            "const gt_model *gt_model_get(void) { return &model; }\n"
        )
    )
    lines = []
    entry = make(Options(cache=cache, cc=name, debug=1, log=lines.append), {"main.c": main, **parts})
    call = Library(entry.library_path, trampoline.abi_bridge(), lambda: 0).acquire()
    assert call.step() == 10
    assert entry.sources == ("main.c", *parts)
    assert sorted(path.suffix for path in entry.path.iterdir()) == [".c"] * 6 + [".h", ".json", ".so", ".txt"]
    assert not any("compiler says" in line for line in lines), lines


@pytest.mark.parametrize("name", COMPILERS)
def test_equal_sources_give_equal_bytes_wherever_they_are_built(tmp_path, name):
    libraries = set()
    for folder in ("one", "two/deeper"):
        entry = make(Options(cache=tmp_path / folder, cc=name, cflags="-g"), {"a.c": SOURCE, "b.c": "int b;\n"})
        libraries.add(entry.library_path.read_bytes())
    assert len(libraries) == 1


def test_c_that_is_refused(cache):
    with pytest.raises(CompileError) as caught:
        make(Options(cache=cache), {"good.c": SOURCE, "bad.c": "int x = y;\n"})
    error = caught.value
    assert error.source == "bad.c"
    assert "bad.c:1:9: error" in str(error) and len(str(error).splitlines()) < 30
    assert (error.directory / "bad.c").read_text() == "int x = y;\n"
    assert (error.directory / "gt_abi.h").exists()
    assert str(error.directory) in str(error) and "drafts" not in str(error)


def test_few_failed_builds_are_kept(cache):
    for number in range(13):
        with pytest.raises(CompileError):
            make(Options(cache=cache), {"bad.c": f"int x = y{number};\n"})
    kept = list((cache / "v1" / "failed").iterdir())
    assert len(kept) == 10
    assert any("y12" in (path / "bad.c").read_text() for path in kept)


def test_warnings_reach_the_log_and_the_command_too(cache):
    lines = []
    make(
        Options(cache=cache, debug=4, log=lines.append),
        {"by_hand.c": SOURCE + "static int unused(void) { return 1; }\n"},
    )
    assert any("unused" in line for line in lines)
    assert any(line.startswith("toolchain: ") and "-shared" in line for line in lines)


def test_a_clean_build_says_nothing(cache, capfd):
    make(Options(cache=cache))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", COMPILERS)
def test_folder_names_that_a_shell_would_take_apart(tmp_path, monkeypatch, name):
    folder = tmp_path / "a b'c" / 'Márton-測試 "$x" `y` * \\'
    (folder / "tmp").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setenv("HOME", str(folder))
    cc = compiler_at(folder / "bin" / "my cc", name)
    options = Options(cache=folder / "cache", cc=str(cc))
    for sources in ({"by_hand.c": SOURCE}, {"by_hand.c": SOURCE, "b.c": "int b;\n"}):
        entry = make(options, sources, Recipe("by hand", str(len(sources))))
        assert Library(entry.library_path, trampoline.abi_bridge(), lambda: 0).model.name == "by_hand"
    with pytest.raises(CompileError, match="Márton") as caught:
        make(options, {"bad.c": "int x = y;\n"})
    command = re.search(r"command: (.*)", str(caught.value))[1]
    assert subprocess.run(command, shell=True, capture_output=True).returncode == 1
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("variant", ["native", "portable"])
def test_assembly(cache, variant):
    options = Options(cache=cache, variant=variant)
    text = Workshop(options).assembly(RECIPE, {"by_hand.c": SOURCE})
    assert "gt_model_get" in text and ".globl" in text
    with pytest.raises(CompileError):
        Workshop(options).assembly(RECIPE, {"bad.c": "int x = y;\n"})


def test_the_first_failure_ends_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler_module.machine, "jobs", lambda: 2)
    started = time.monotonic()
    (tmp_path / "drafts").mkdir()
    driver = script(tmp_path / "driver", f"sleep 60 & echo $! > {tmp_path / 'pass'}; wait")
    with Draft(tmp_path) as draft:
        waits = f"while [ ! -s {tmp_path / 'pass'} ]; do sleep 0.01; done; exit 1"
        done = run_all([[str(driver)], ["sh", "-c", waits], ["sleep", "60"]], draft)
        assert [process.status for process in done] == [1]
        deadline = time.monotonic() + 5
        while Path(f"/proc/{(tmp_path / 'pass').read_text().strip()}/stat").exists() and time.monotonic() < deadline:
            if " Z " in Path(f"/proc/{(tmp_path / 'pass').read_text().strip()}/stat").read_text():
                break
            time.sleep(0.01)
        assert time.monotonic() < deadline, "what the driver started is still running"
        done = run_all([["false"], ["sleep", "60"]], draft)
        assert [(process.command, process.status) for process in done] == [(("false",), 1)]
        assert time.monotonic() - started < 10
        done = run_all([["echo", str(n)] for n in range(9)], draft)
        assert [process.output for process in done] == [f"{n}\n" for n in range(9)]


def test_a_trampoline_that_cannot_be_compiled_is_tried_once(cache, monkeypatch):
    monkeypatch.setattr(trampoline, "_CHOSEN", [])
    monkeypatch.setattr(trampoline, "source", lambda: "#error no trampoline today\n")
    lines = []
    options = Options(cache=cache, debug=1, log=lines.append)
    assert trampoline.bridge(Workshop(options)).mode == "abi"
    assert any("no trampoline today" in line for line in lines)
    monkeypatch.setattr(trampoline, "_CHOSEN", [])
    assert trampoline.bridge(Workshop(options)).mode == "abi"
    assert "failed on it before" in lines[-1]


def test_without_the_headers_of_python_calls_take_the_abi_mode(cache, monkeypatch, tmp_path):
    monkeypatch.setattr(trampoline, "_CHOSEN", [])
    monkeypatch.setattr(trampoline.sysconfig, "get_path", lambda name: str(tmp_path))
    lines = []
    assert trampoline.bridge(Workshop(Options(cache=cache, debug=1, log=lines.append))).mode == "abi"
    assert f"there is no Python.h in {tmp_path}" in lines[-1]

"""Exported training steps on every target there is a compiler for: the digits and a gated memory learn for 200 steps in
plain C, with the losses of Python to the bit, on other processors too: they call nothing of <math.h> but sqrt.

The models are those of benchmarks/exported.py, whose sizes README.md and docs/leaving-python.md state.
"""

from __future__ import annotations

import re
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import exported
from gtensor.codegen import sanitizers, toolchain
from gtensor.codegen.options import Options
from tests.exported_c import COMPILERS, STRICT, ZIG, records, run, sources
from tests.values import same

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
NODE = shutil.which("node")
QEMU, QEMU_ARM = (shutil.which(f"qemu-{cpu}") or shutil.which(f"qemu-{cpu}-static") for cpu in ("aarch64", "arm"))
SANITIZED = sanitizers.flags(("address", "undefined"), clang=False)

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="tools and programs of Linux")
with_zig = pytest.mark.skipif(not ZIG, reason="the package ziglang, which is not installed, compiles for it")


@pytest.fixture(scope="module", params=["digits", "gated"])
def project(request, tmp_path_factory):
    """A project, and the losses of the Python build of its variant; its records lie in the folder above it."""
    folder = tmp_path_factory.mktemp(request.param) / "c"
    model = exported.export(request.param, folder)
    (folder.parent / "data.bin").write_bytes(records(model.batches))
    return folder, np.array([model.train(*batch) for batch in model.batches], np.float64)


def prefix(folder):
    """The name of a project."""
    return next(name for name in exported.MODELS if (folder / f"{name}.h").is_file())


def losses(folder, *command):
    """What the example prints on the project's records."""
    return np.array(run(*command, folder.parent / "data.bin").split(), np.float64)


def test_python_learns_what_is_exported(project):
    _, python = project
    assert len(python) == 200
    assert python[-20:].mean() < 0.5 * python[:5].mean()


@pytest.mark.parametrize("cc", COMPILERS)
def test_200_steps_in_plain_c_have_the_losses_of_python_to_the_bit(cc, project, tmp_path):
    folder, python = project
    run(*COMPILERS[cc], *STRICT, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    same(losses(folder, tmp_path / "example"), python)


def test_flags_for_this_machine_change_neither_a_bit_nor_the_standard(project, tmp_path):
    folder, python = project
    flags = toolchain.find(Options()).target("native").flags
    run("cc", *STRICT, *flags, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    same(losses(folder, tmp_path / "example"), python)


def test_clean_under_sanitizers(project, tmp_path):
    folder, python = project
    run("cc", *STRICT, *SANITIZED, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    same(losses(folder, tmp_path / "example"), python)


@on_linux
@pytest.mark.parametrize("cc", COMPILERS)
def test_nothing_but_mathematics_and_copies_is_called(cc, project, tmp_path):
    folder, _ = project
    objects = [tmp_path / f"{path.stem}.o" for path in sources(folder)]
    fixed = [] if cc == "zig" else ["-fno-pic"]  # else there is a table of addresses, which zig insists on but hides
    for path, made in zip(sources(folder), objects, strict=True):
        run(*COMPILERS[cc], *STRICT, *fixed, "-c", path, "-o", made)
    allowed = {"memcpy", "memset", "memmove", "sqrt", "sqrtf"}
    defined = {line.split()[-1] for line in run("nm", "-g", "--defined-only", *objects).splitlines() if " " in line}
    undefined = {line.split()[-1] for line in run("nm", "-u", *objects).splitlines() if " U " in line}
    assert undefined - defined <= allowed, undefined
    assert defined and all(name.startswith(f"{prefix(folder)}_") for name in defined), defined
    sections = re.findall(r"^(\.\S+) +(\d+) ", run("size", "-A", *objects), flags=re.MULTILINE)
    assert sections
    changing = [name for name, size in sections if re.match(r"\.t?(bss|data(?!\.rel\.ro))", name) and int(size)]
    assert not changing, "a global that changes"


@on_linux
def test_a_compiler_with_nothing_but_c99_sees_nothing_else(project):
    """No attribute, built-in function or pragma is left where a compiler is neither gcc nor clang."""
    folder, _ = project
    for path in sources(folder):
        seen = run("cc", "-std=c99", "-E", "-U__GNUC__", "-U__clang__", path)
        assert not re.findall(r"__attribute__|__builtin_\w+|#pragma|__asm__", seen), path


# ---- other processors --------------------------------------------------------------------------------------


@with_zig
def test_aarch64_linux(project, tmp_path):
    folder, _ = project
    for path in folder.glob("*.c"):
        made = tmp_path / f"{path.stem}.o"
        run(*ZIG, "-target", "aarch64-linux-musl", *STRICT, "-c", path, "-o", made)
        head = made.read_bytes()[:20]
        assert head[:6] == b"\x7fELF\2\1" and struct.unpack("<H", head[18:20]) == (183,)


@with_zig
@pytest.mark.skipif(not QEMU, reason="qemu-user, which is not installed, runs it")
def test_200_steps_on_aarch64(project, tmp_path):
    folder, python = project
    target = ["-target", "aarch64-linux-musl", "-static"]
    run(*ZIG, *target, *STRICT, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    same(losses(folder, QEMU, tmp_path / "example"), python)


RUN_WASM = """\
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";
const [module, folder] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: ["example", "/data/data.bin"], preopens: { "/data": folder } });
const { instance } = await WebAssembly.instantiate(await readFile(module), wasi.getImportObject());
process.exitCode = wasi.start(instance);
"""


@with_zig
@pytest.mark.skipif(not NODE, reason="node, which is not installed, runs it")
def test_200_steps_in_webassembly(project, tmp_path):
    folder, python = project
    run(*ZIG, "-target", "wasm32-wasi", *STRICT, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example.wasm")
    (tmp_path / "run.mjs").write_text(RUN_WASM)
    printed = run(NODE, "--no-warnings", tmp_path / "run.mjs", tmp_path / "example.wasm", folder.parent)
    same(np.array(printed.split(), np.float64), python)


def mach_o(path):
    """Whether a file is code for Apple's 64-bit ARM."""
    return struct.unpack("<II", path.read_bytes()[:8]) == (0xFEEDFACF, 0x0100000C)


@with_zig
def test_aarch64_macos(project, tmp_path):
    folder, _ = project
    run(*ZIG, "-target", "aarch64-macos", *STRICT, *folder.glob("*.c"), "-o", tmp_path / "example")
    assert mach_o(tmp_path / "example")


ACCELERATE_H = """\
enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans };
void cblas_sgemm(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, int, int, int, float, const float *, int,
                 const float *, int, float, float *, int);
void cblas_dgemm(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, int, int, int, double, const double *,
                 int, const double *, int, double, double *, int);
enum BLAS_THREADING { BLAS_THREADING_MULTI_THREADED, BLAS_THREADING_SINGLE_THREADED };
int BLASSetThreading(enum BLAS_THREADING);
"""
ACCELERATE_TBD = """\
--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos ]
install-name: /System/Library/Frameworks/Accelerate.framework/Versions/A/Accelerate
exports:
  - targets: [ arm64-macos ]
    symbols: [ _cblas_sgemm, _cblas_dgemm, _BLASSetThreading ]
...
"""
"""What a Mac has of its BLAS for a compiler: declarations, and the names in the library."""


@with_zig
def test_the_table_over_accelerate_links_for_aarch64_macos(tmp_path):
    (tmp_path / "Accelerate.framework" / "Headers").mkdir(parents=True)
    (tmp_path / "Accelerate.framework" / "Headers" / "Accelerate.h").write_text(ACCELERATE_H)
    (tmp_path / "Accelerate.framework" / "Accelerate.tbd").write_text(ACCELERATE_TBD)
    flags = ["-target", "aarch64-macos", "-std=c11", "-O2", "-dynamiclib", "-F", tmp_path, "-framework", "Accelerate"]
    run(*ZIG, *flags, TEMPLATES / "gt_accelerate.c", "-o", tmp_path / "table.dylib")
    assert mach_o(tmp_path / "table.dylib")
    assert b"Accelerate.framework/Versions/A/Accelerate" in (tmp_path / "table.dylib").read_bytes()


# ---- without a C library -----------------------------------------------------------------------------------


@on_linux
@pytest.mark.parametrize(
    "flags", [[], *([exported.CORTEX_M4] if ZIG else [])], ids=["here", "cortex-m4"][: 1 + bool(ZIG)]
)
def test_no_header_of_a_c_library_is_included(flags, project, tmp_path):
    """Only those that come with every compiler: the models, and all that models may include."""
    folder, _ = project
    own = run("cc", "-print-file-name=include").strip()
    compiler = [*ZIG, *flags] if flags else ["cc", "-nostdinc", "-isystem", own]
    headers = "kernel math special solve orthogonal half lines".split()
    (tmp_path / "all.c").write_text("#define GT_PLAIN 1\n" + "".join(f'#include "gt_{name}.h"\n' for name in headers))
    for path in [*sources(folder), tmp_path / "all.c"]:
        run(*compiler, *STRICT, "-ffreestanding", "-I", TEMPLATES, "-c", path, "-o", tmp_path / "o")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The project of W1 with a batch of one; `check.h` has examples and the losses of Python for the program."""
    folder = tmp_path_factory.mktemp("tiny")
    model = exported.export("tiny", folder)
    done = [(x, y, model.train(x, y)) for x, y in model.batches[:40]]
    rows = [("x", "[8]", "{{{}}}", 0), ("y", "[4]", "{{{}}}", 1), ("losses", "", "{}", 2)]
    lines = [f"#define CHECK_STEPS {len(done)}"]
    for name, axis, form, place in rows:
        values = [form.format(", ".join(float(v).hex() for v in np.ravel(example[place]))) for example in done]
        lines.append(f"static const float check_{name}[CHECK_STEPS]{axis} = {{{', '.join(values)}}};")
    (folder / "check.h").write_text("\n".join(lines) + "\n")
    return folder


@on_linux
def test_a_program_without_a_c_library_learns(tiny, tmp_path):
    """It compares its losses with Python's, to the bit, and says so as it leaves."""
    exported.host(tmp_path / "bare", tiny, "-DTINY_CHECK")
    run(tmp_path / "bare")
    other = shutil.copytree(tiny, tmp_path / "other")
    (other / "check.h").write_text((tiny / "check.h").read_text().replace("0x1.", "0x1.1", 1))
    exported.host(tmp_path / "wrong", other, "-DTINY_CHECK")
    run(tmp_path / "wrong", code=1)


@on_linux
def test_a_tiny_network_fits_a_small_device(tiny):
    found = exported.bare_sizes(tiny)
    assert len(found) == (2 if ZIG else 1)
    for processor, sizes in found.items():
        assert sizes.variables + sizes.stack < 16 * 1024, processor
        assert sizes.flash < 16 * 1024, processor


@with_zig
@pytest.mark.skipif(not QEMU_ARM, reason="qemu-user, which is not installed, runs it")
def test_the_losses_on_a_cortex_m4(tiny, tmp_path):
    exported.bare(tiny, [*ZIG, *exported.CORTEX_M4], tmp_path / "bare", "-DTINY_CHECK")
    run(QEMU_ARM, tmp_path / "bare")  # a processor of processes, with the instructions of the other


# ---- the documents ----------------------------------------------------------------------------------------


def test_the_c_of_the_document_is_c(tmp_path):
    """Its lines, with the declarations that they lack, are a program that learns from one batch of digits."""
    page = (ROOT / "docs" / "leaving-python.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```c\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    top, statements = shown.split("\n\n", 2)[:2], shown.split("\n\n", 2)[2]
    arrays = "static float x[32 * 64], one[64], scores[10];\nstatic int64_t y[32];\nfloat loss;\n"
    program = "\n".join([*top, arrays, "int main(void)\n{", statements, "return loss > 2 && loss < 3 ? 0 : 1;\n}\n"])
    exported.export("digits", tmp_path, prefix="mlp")
    (tmp_path / "main.c").write_text(program)
    run("cc", *STRICT, *tmp_path.glob("*.c"), "-lm", "-o", tmp_path / "page")
    run(tmp_path / "page")


# ---- the stated sizes --------------------------------------------------------------------------------------


def stated(document, head):
    """The rows of the table of a document that begins with a head."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        name, *counts = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = [int(count.replace(",", "")) for count in counts]
    return rows


def near(found, said):
    """Within the quarter that lies between compilers."""
    return 0.75 * said <= found <= 1.25 * said


@on_linux
@pytest.mark.parametrize("document", ["README.md", "docs/leaving-python.md"])
def test_the_sizes_of_projects_are_those_stated(document, project):
    folder, _ = project
    name = prefix(folder)
    found, said = exported.size(folder, name), stated(document, "project")[name]
    assert [found.state, found.work] == said[2:], "the memory is the same with every compiler"
    assert near(found.code, said[0]) and near(found.constants, said[1]), (found, said)


@on_linux
@pytest.mark.parametrize("document", ["README.md", "docs/leaving-python.md"])
def test_the_sizes_of_the_tiny_network_are_those_stated(document, tiny):
    said = stated(document, "tiny on")
    assert set(said) == {"x86-64", "Cortex-M4"}
    for processor, sizes in exported.bare_sizes(tiny).items():
        if processor in said:
            for have, told in zip(sizes, said[processor], strict=True):
                assert near(have, told), (processor, sizes, said[processor])

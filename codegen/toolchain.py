"""Which C compiler, which flags: found, tried out once per machine, and remembered.

Comes in: `Options`. Goes out: a `Compiler` that compiled, loaded and ran a small library, and the flags for a build.
The order is GT_CC, CC, then cc, gcc, clang on PATH, then zig's clang (the `ziglang` wheel). Laws: a compiler that
was named and fails is an error, never a reason to take another; what is known of a compiler holds as long as its
files' sizes and times and the CPU are the same, and is then used without starting a process; no flag relaxes IEEE
arithmetic.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _abi, machine, sanitizers
from .abi import with_headers
from .compiler import WIDTH, CompileError, Compiler, Finished, ToolchainError, environment
from .folder import Draft, Folder
from .options import Options, command
from .target import Target

FFI: Any = _abi.ffi

BASE_FLAGS = (
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
)
"""For every build."""

STANDARDS = {"native": "-std=gnu99", "portable": "-std=c99"}

PROBE_SECONDS = 60.0
"""Of patience with a compiler that is asked what it is."""

SELF_TEST = """\
#include "gt_abi.h"
#include <math.h>
static int32_t call(gt_args *args) { args->loss = exp(args->loss); return GT_OK; }
static const gt_model model = {.abi = GT_ABI_VERSION, .call = call};
const gt_model *gt_model_get(void) { return &model; }
"""

NOT_FOUND = """\
no C compiler: looked for GT_CC, CC, for {names} on PATH, and for the ziglang package
  PATH: {path}
  hint: install one (Debian: apt install gcc libc6-dev; macOS: xcode-select --install; anywhere: pip install ziglang)"""

NO_CROSS_COMPILER = """\
no C compiler for {target}: looked for GT_CC, for {triple}-gcc on PATH, and for the ziglang package
  hint: pip install ziglang, which compiles for every system; or name a compiler for {target} in GT_CC"""

WINDOWS = """\
gtensor does not build on Windows: its generated C is for gcc and clang on Linux and macOS
  hint: run it inside WSL (https://learn.microsoft.com/windows/wsl), where everything works as on Linux"""

ON_PATH = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Candidate:
    """A compiler command, its program as a full path, and who named it (`GT_CC`, `CC`, or nobody)."""

    command: tuple[str, ...]
    named: str = ""


def candidates(options: Options) -> Iterator[Candidate]:
    """The compilers to try in order, looked for one by one: the one that was named, else all that are found.

    For another system CC does not count, which names a compiler for this one.
    """
    platform = options.platform
    named = [("GT_CC", options.cc)] + [("CC", os.environ.get("CC", ""))] * (not platform.foreign)
    for name, text in named:
        if text.strip():
            words = command(text, name)
            path = shutil.which(words[0])
            if path is None:
                raise ToolchainError(
                    f"{name}={text!r}: there is no program {words[0]!r}\n  PATH: {os.environ.get('PATH', '')}\n"
                    f"  hint: correct {name}, or unset it to use the first of {', '.join(ON_PATH)} on PATH"
                )
            yield Candidate((os.path.abspath(path), *words[1:]), name)
            return
    for name in (f"{platform.triple}-gcc",) if platform.foreign else ON_PATH:
        path = shutil.which(name)
        if path is not None:
            yield Candidate((os.path.abspath(path),))
    ziglang = importlib.util.find_spec("ziglang")
    if ziglang is not None and ziglang.origin is not None:
        zig = Path(ziglang.origin).parent / "zig"
        if zig.exists():
            yield Candidate((str(zig), "cc", *(("-target", platform.triple) if platform.foreign else ())))


REFUSED_SECONDS = 20.0
"""How long a named compiler that failed is not tried again: several models may ask for it one after another."""

_REFUSED: dict[str, tuple[float, ToolchainError]] = {}
"""What is known of a named compiler -> when it failed in this process, and how."""


def find(options: Options) -> Compiler:
    """The compiler to use, tried out and identified; raises ToolchainError (CompileError if it fails on the trial).

    Of those that nobody named, one that failed before is tried again only when no other works.

    >>> find(Options()).target("native").variant
    'native'
    """
    if sys.platform == "win32":
        raise ToolchainError(WINDOWS)
    folder = Folder(options.cache, options.say)
    failures: list[ToolchainError] = []
    failed_before = []
    for candidate in candidates(options):
        if candidate.named:
            return examine_named(candidate, options, folder)
        if folder.recall("failed", about(candidate, options)) is True:
            failed_before.append(candidate)
        elif (compiler := examine_found(candidate, options, folder, failures)) is not None:
            return compiler
    for candidate in failed_before:
        if (compiler := examine_found(candidate, options, folder, failures)) is not None:
            return compiler
    if failures:
        raise failures[0]
    if options.platform.foreign:
        raise ToolchainError(NO_CROSS_COMPILER.format(target=options.target, triple=options.platform.triple))
    raise ToolchainError(NOT_FOUND.format(names=", ".join(ON_PATH), path=os.environ.get("PATH", "")))


def examine_named(candidate: Candidate, options: Options, folder: Folder) -> Compiler:
    """What a compiler is that was named; raises the error that it gave a moment ago, or gives now."""
    known = about(candidate, options)
    when, refused = _REFUSED.get(known, (0.0, None))
    if refused is not None and time.monotonic() - when < REFUSED_SECONDS:
        raise refused.with_traceback(None)
    try:
        return examine(candidate, options, folder)
    except ToolchainError as error:
        _REFUSED[known] = time.monotonic(), error
        raise


def examine_found(
    candidate: Candidate, options: Options, folder: Folder, failures: list[ToolchainError]
) -> Compiler | None:
    """What a compiler is that nobody named; None, and its error among the failures, if it does not work."""
    try:
        return examine(candidate, options, folder)
    except ToolchainError as error:
        options.say(1, f"toolchain: {shlex.join(candidate.command)} does not work: {error}")
        folder.remember("failed", about(candidate, options), True)
        failures.append(error)
        return None


def about(candidate: Candidate, options: Options) -> str:
    """What a remembered fact on a compiler depends on, read without starting it."""
    program = os.path.realpath(candidate.command[0])
    parts = [candidate.command, stamp(program), machine.cpu(), options.target, options.words, SELF_TEST]
    return json.dumps([*parts, Compiler.__match_args__])


def examine(candidate: Candidate, options: Options, folder: Folder) -> Compiler:
    """What a compiler is: remembered, or found out by trying it."""
    fact = folder.recall("compiler", about(candidate, options))
    if fact is not None and all(stamp(name) == known for name, known in fact["files"].items()):
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fact["compiler"].items()}
        return Compiler(**fields)
    with folder.draft() as draft:
        options.say(1, f"toolchain: trying {shlex.join(candidate.command)}")
        compiler = probe(candidate, options, draft)
        try:
            self_test(compiler, candidate, options, draft)
        except CompileError as error:
            error.directory = draft.keep()
            raise
        parts = [compiler.path, ask([*compiler.command, "-print-prog-name=cc1"], draft).output.strip()]
        files = {name: stamp(name) for name in parts if os.path.isabs(name)}
    folder.remember("compiler", about(candidate, options), {"files": files, "compiler": vars(compiler)})
    return compiler


def stamp(path: str) -> list[object]:
    """What tells two states of a file apart without reading it: path, size, time."""
    try:
        info = os.stat(path)
    except OSError:
        return [path]
    return [path, info.st_size, info.st_mtime_ns]


def ask(command: Sequence[str], draft: Draft) -> Finished:
    """Run a compiler with a question; a command that fails or hangs has a status that is not 0."""
    try:
        done = subprocess.run(
            command,
            cwd=draft.path,
            env=environment(draft.scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finished(tuple(command), 127, str(error))
    return Finished(tuple(command), done.returncode, done.stdout.decode("utf-8", "replace"))


def probe(candidate: Candidate, options: Options, draft: Draft) -> Compiler:
    """Ask a compiler who it is and what it makes of the CPU; what it does not answer stays empty.

    Raises ToolchainError if it knows no flag for the target.
    """
    start, words, platform = candidate.command, options.words, options.platform
    (draft.scratch / "empty.c").write_text("", encoding="utf-8")
    source = f"{draft.scratch.name}/empty.c"
    flags: tuple[str, ...] = ()
    macros = ""
    for flags in platform.flags:
        done = ask([*start, *flags, *words, "-dM", "-E", source], draft)
        if done.status == 0:
            macros = done.output
            break
    if not platform.macros <= set(re.findall(r"^#define (\w+)", macros, flags=re.MULTILINE)):
        said = f"\n  | {done.output.strip()[:WIDTH]}" if done.status else ""
        raise ToolchainError(
            f"{shlex.join(start)} does not compile for {platform.name} ({platform.triple}){said}\n"
            "  hint: name a compiler for it in GT_CC; pip install ziglang has one for every target"
        )
    driver = ask([*start, *flags, *words, "-###", "-c", source], draft).output
    version = ask([*start, "--version"], draft).output.strip()
    runtime = ask([*start, "-print-runtime-dir"], draft)
    defined = re.findall(r"^#define (__\w+) 1$", macros, flags=re.MULTILINE)
    features = sorted(name for name in defined if FEATURE.match(name))
    return Compiler(
        command=start,
        path=os.path.realpath(start[0]),
        version=version.splitlines()[0] if version else "",
        machine=ask([*start, "-dumpmachine"], draft).output.strip(),
        flags=flags,
        features=tuple(features),
        resolved=" ".join(resolved(driver)),
        runtime=runtime.output.strip() if runtime.status == 0 else "",
    )


FEATURE = re.compile(
    r"__(AVX|SSE|SSSE|MMX|FMA|BMI|F16C|LZCNT|POPCNT|AES|VAES|GFNI|SHA|AMX|ADX|ARM_|aarch64|FP_FAST_FMA|riscv|ALTIVEC|VSX)"
)
"""Names of the macros by which compilers say what the CPU can do."""


def resolved(driver: str) -> list[str]:
    """What `-###` shows of the CPU: gcc's -march, -mtune, -m… and --param, clang's -target-cpu and -target-feature."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', driver)
    flat = [quoted or bare for quoted, bare in words]
    out = []
    for position, word in enumerate(flat):
        if word in ("-target-cpu", "-target-feature", "-tune-cpu", "--param"):
            out += flat[position : position + 2]
        elif re.match(r"-m(arch|tune|cpu|no-|avx|sse|fma|bmi|prefer)", word):
            out.append(word)
    return out


def self_test(compiler: Compiler, candidate: Candidate, options: Options, draft: Draft) -> None:
    """Compile a small library, and load and run it if it is for this system; raises CompileError if one fails."""
    who = shlex.join(candidate.command) + (f" (named by {candidate.named})" if candidate.named else "")
    flags = [STANDARDS["native"], *BASE_FLAGS, *compiler.flags, *options.words]
    try:
        done = compiler.build(draft, with_headers({"self_test.c": SELF_TEST}), "self_test.so", flags)
    except CompileError as error:
        error.what = f"the C compiler {who}"
        raise
    if not options.platform.runs_here:
        return
    try:
        loaded = FFI.dlopen(str(draft.path / "self_test.so"))
        args = FFI.new("gt_args *", {"loss": 0.0})
        works = loaded.gt_model_get().call(args) == 0 and args.loss == 1.0
        problem = "" if works else "the self-test computed exp(0) wrong"
        FFI.dlclose(loaded)
    except (OSError, FFI.error) as error:
        problem = f"what it compiles does not load into this Python: {error}"
    if problem:
        raise CompileError(
            f"the C compiler {who}", Finished(done.command, 0, done.output + problem), draft.path, "self_test.c"
        )


def flags(compiler: Compiler, target: Target, options: Options) -> tuple[str, ...]:
    """The flags for compiling and for linking models.

    >>> "-ffast-math" in flags(find(Options()), find(Options()).target("native"), Options())
    False
    """
    out = [STANDARDS[target.variant], *BASE_FLAGS, *target.flags]
    if options.timing:
        out.append("-DGT_TIME=1")
    return (*out, *sanitizer_flags(compiler, options), *options.words)


def sanitizer_flags(compiler: Compiler, options: Options) -> tuple[str, ...]:
    """The flags of GT_SANITIZE, for compiling and for linking."""
    return sanitizers.flags(options.sanitizers, clang=bool(compiler.runtime))


def link_flags(compiler: Compiler, options: Options) -> tuple[str, ...]:
    """The flags for linking alone: where clang's sanitizers are found when the library is loaded."""
    return (f"-Wl,-rpath,{compiler.runtime}",) if options.sanitizers and compiler.runtime else ()

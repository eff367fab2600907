"""Running a C compiler: several units at once into one shared library, and what is said when it fails.

Comes in: a compiler that `toolchain` found, sources by file name, flags. Goes out: a library in a draft folder, or
`CompileError` with the command, the compiler's last lines, the source and one line of advice. Laws: no shell (any
path will do), relative names inside the draft (so equal sources give equal bytes wherever they are built), the
compiler's own temporary files inside the draft, no process left behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import machine, sanitizers
from .errors import CodegenError
from .folder import Draft
from .target import PORTABLE, Target

LINES = 20
"""Of the compiler's output in a message."""

WIDTH = 240
"""Characters of such a line."""

POLL = 0.002
"""Seconds between two looks at several processes."""


class ToolchainError(CodegenError):
    """There is no C compiler, or it does not work: says what was looked for and what to do."""


@dataclass(frozen=True)
class Finished:
    """A process that ended: its exit status and all it printed."""

    command: tuple[str, ...]
    status: int
    output: str


class CompileError(ToolchainError):
    """A compiler failed on a source.

    `directory` is where the source stays, `process` the command, its exit status and all that it printed.
    """

    def __init__(self, what: str, process: Finished, directory: Path, source: str) -> None:
        super().__init__(what)
        self.what = what
        self.process = process
        self.built_in = directory
        self.directory = directory
        self.source = source

    def __str__(self) -> str:
        command = shlex.join(self.process.command).replace(str(self.built_in), str(self.directory))
        lines = [line[:WIDTH] for line in self.process.output.splitlines()[-LINES:]] or ["(it printed nothing)"]
        status = self.process.status
        ended = f"failed with exit status {status}" if status > 0 else f"was ended by signal {-status}"
        if status == 0:
            ended = "made a library that does not work here"
        return "\n".join(
            [
                f"{self.what} {ended}",
                f"  command: cd {shlex.quote(str(self.directory))} && {command}",
                f"  source:  {self.directory / self.source}",
                *(f"  | {line}" for line in lines),
                f"  hint: {advice(self.process.output)}",
            ]
        )


ADVICE = (
    (
        r"\.h\W{0,3}(: No such file| ?(file )?not found)",
        "a header is missing: install the C library's headers (Debian: apt install libc6-dev, Fedora: dnf install"
        " glibc-devel, macOS: xcode-select --install), or name a complete compiler in GT_CC",
    ),
    (r"No space left|Disk quota", "the disk is full: gtensor cache prune frees space, GT_CACHE names another folder"),
    (
        r"cannot find|unable to find library|library not found",
        "the linker lacks a library: install the C library's development files (Debian: apt install libc6-dev), or"
        " name a complete compiler in GT_CC",
    ),
    (r"cannot execute|installation problem", "the compiler is incomplete: install it again (Debian: apt install gcc)"),
    (
        r"unrecognized|unknown argument|unsupported option|unknown option",
        "the compiler does not know a flag: leave it out of GT_CFLAGS, or use gcc 8, clang 10 or later",
    ),
)
"""What the compiler printed (a pattern) -> what to do about it."""

DEFAULT_ADVICE = "run the command by hand to see all it says; GT_CC names another compiler"


def advice(output: str) -> str:
    """One line of advice for what a compiler printed."""
    return next((text for pattern, text in ADVICE if re.search(pattern, output)), DEFAULT_ADVICE)


def environment(scratch: Path) -> dict[str, str]:
    """The environment of a compiler: plain English, temporary files in `scratch`, no sanitizer that looks at it."""
    own = {"LC_ALL": "C", "LANGUAGE": "C", "TMPDIR": str(scratch), "ZIG_LOCAL_CACHE_DIR": str(scratch)}
    return {**sanitizers.without(os.environ), **own}


@dataclass(frozen=True)
class Process:
    """A process that runs, and the file that takes what it prints."""

    command: tuple[str, ...]
    popen: subprocess.Popen[bytes]
    log: Path

    def finished(self) -> Finished:
        """Wait for its end."""
        status = self.popen.wait()
        return Finished(self.command, status, self.log.read_text(encoding="utf-8", errors="replace"))


def start(command: Sequence[str], draft: Draft, number: int) -> Process:
    """Start a command in a draft; raises ToolchainError if that is impossible."""
    log = draft.scratch / f"output-{number}"
    with log.open("wb") as file:
        try:
            popen = subprocess.Popen(
                command,
                cwd=draft.path,
                env=environment(draft.scratch),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        except OSError as error:
            raise ToolchainError(
                f"the C compiler cannot be started: {error.strerror or error}\n  command: {shlex.join(command)}\n"
                "  hint: GT_CC names another compiler"
            ) from error
    return Process(tuple(command), popen, log)


def run_all(commands: Sequence[Sequence[str]], draft: Draft) -> list[Finished]:
    """Run commands in a draft, several at once; after the first that fails the others are ended.

    Returns those that ended by themselves, in the order of the commands. Raises ToolchainError for a command that
    cannot be started.
    """
    waiting = list(enumerate(commands))
    running: dict[int, Process] = {}
    done: dict[int, Finished] = {}
    try:
        while waiting or running:
            while waiting and len(running) < machine.jobs():
                number, command = waiting.pop(0)
                running[number] = start(command, draft, number)
            ended = [number for number, process in running.items() if process.popen.poll() is not None]
            if not ended and len(running) > 1:
                time.sleep(POLL)
                continue
            for number in ended or list(running):
                done[number] = running.pop(number).finished()
                if done[number].status:
                    return [done[number] for number in sorted(done)]
    finally:
        for process in running.values():
            with contextlib.suppress(OSError):  # the driver and the passes it started
                os.killpg(process.popen.pid, signal.SIGKILL)
            process.popen.wait()
    return [done[number] for number in sorted(done)]


WIDTHS: tuple[tuple[frozenset[str], int, int], ...] = (
    (frozenset({"__AVX512F__"}), 64, 32),
    (frozenset({"__AVX2__"}), 32, 16),
    (frozenset({"__SSE2__"}), 16, 16),
    (frozenset({"__ARM_NEON", "__aarch64__"}), 16, 32),
    (frozenset({"__ARM_NEON"}), 16, 16),
    (frozenset(), 4, 16),
)
"""Macros that must be defined -> bytes of a vector register, number of registers; the first that fits counts."""

FMA = frozenset({"__FMA__", "__ARM_FEATURE_FMA", "__FP_FAST_FMAF"})
"""Macros that say that fused multiply-add is one instruction."""


@dataclass(frozen=True)
class Compiler:
    """A compiler that works on this machine.

    `command` starts it (with arguments, if CC has any), `path` is its executable, `version` the first line it says
    of itself, `machine` what it compiles for, `flags` its flags for this CPU, `features` the feature macros that
    these define, `resolved` what its driver makes of them, `runtime` a clang's folder of sanitizer libraries.
    """

    command: tuple[str, ...]
    path: str
    version: str
    machine: str
    flags: tuple[str, ...]
    features: tuple[str, ...]
    resolved: str
    runtime: str = ""

    def target(self, variant: str) -> Target:
        """What C is to be written for: this machine, or any (`portable`)."""
        if variant == "portable":
            return PORTABLE
        width, registers = next((w, r) for macros, w, r in WIDTHS if macros <= set(self.features))
        fma = not FMA.isdisjoint(self.features)
        name = f"{self.machine.split('-')[0]}-{8 * width if width > 4 else 'scalar'}{'-fma' if fma else ''}"
        return Target(name, width, registers, fma, self.flags)

    def identity(self, target: Target) -> str:
        """The text for a cache key: the compiler and, for a native target, what -march=native means here."""
        lines = [f"command {shlex.join(self.command)}", f"path {self.path}", f"version {self.version}"]
        lines += [f"machine {self.machine}", f"target {target}"]
        if target.variant == "native":
            lines += [f"features {' '.join(self.features)}", f"resolved {self.resolved}"]
        return "\n".join(lines)

    def build(
        self, draft: Draft, sources: Mapping[str, str], library: str, flags: Sequence[str], link: Sequence[str] = ()
    ) -> Finished:
        """Write the sources into a draft and compile those that end in `.c` into one shared library.

        Several units are compiled at once and linked after. Returns the last process, with all that was printed
        (warnings). Raises CompileError, whose `directory` is the draft: move it before the draft goes.
        """
        units = write(draft, sources)
        common = [*self.command, *flags, f"-ffile-prefix-map={draft.path}=.", "-I."]
        if len(units) == 1:
            steps = [[[*common, "-shared", "-o", library, *units, *link, "-lm"]]]
        else:
            objects = [f"{draft.scratch.name}/{unit}.o" for unit in units]
            steps = [[[*common, "-c", unit, "-o", out] for unit, out in zip(units, objects, strict=True)]]
            steps.append([[*common, "-shared", "-o", library, *objects, *link, "-lm"]])
        printed = ""
        for commands in steps:
            finished = self._run(commands, draft, units)
            printed += "".join(process.output for process in finished)
        return Finished(finished[-1].command, 0, printed)

    def assembly(self, draft: Draft, sources: Mapping[str, str], flags: Sequence[str]) -> str:
        """The assembly text of all units, with the same flags as a build; raises CompileError."""
        units = write(draft, sources)
        common = [*self.command, *flags, "-I.", "-S", "-fverbose-asm"]
        outputs = [f"{draft.scratch.name}/{unit}.s" for unit in units]
        self._run([[*common, unit, "-o", out] for unit, out in zip(units, outputs, strict=True)], draft, units)
        return "".join((draft.path / out).read_text(encoding="utf-8", errors="replace") for out in outputs)

    def _run(self, commands: Sequence[Sequence[str]], draft: Draft, units: Sequence[str]) -> list[Finished]:
        finished = run_all(commands, draft)
        for process in finished:
            if process.status:
                source = next((unit for unit in units if unit in process.command), units[0])
                raise CompileError(f"the C compiler {self.command[0]}", process, draft.path, source)
        return finished


def write(draft: Draft, sources: Mapping[str, str]) -> list[str]:
    """Write sources into a draft; returns the names of the units, those that end in `.c`."""
    for name, text in sources.items():
        (draft.path / name).write_text(text, encoding="utf-8")
    return [name for name in sources if name.endswith(".c")]

"""What models weigh that have left Python: bytes of code, constants and memory of exported projects.

    python -m benchmarks.exported

Three training steps are exported, with what predicts beside them, and compiled by cc: the digits of `gtensor demo`, a
gated memory cell that follows a level which jumps, and W1 with a batch of one, which is also linked as a program
without a C library (`-ffreestanding -nostdlib`) for this processor and, where the package ziglang is installed, for a
Cortex-M4 with single-precision floating point. The tables are those of README.md and docs/leaving-python.md.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gtensor as gt
from gtensor import demo

from . import models, workloads
from .gtensor_models import Operations
from .table import grid

STEPS = 200
"""Batches that each model comes with."""

CELL = gt.nn.GatedMemory(inputs=1, size=32)
ROWS, TIME = 8, 30
"""Series of a batch of the memory cell, and their steps."""

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
CORTEX_M4 = ["-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"]

BARE = """\
#include "tiny.h"
#ifdef TINY_CHECK
#include "check.h" /* examples: x, y and the losses of as many steps */
#endif

static unsigned char state[TINY_STATE_BYTES + TINY_ALIGN], work[TINY_WORK_BYTES + TINY_ALIGN];
static float loss;

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
void start(void);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i)
        ((volatile char *)to)[i] = (char)value;
    return to;
}

#ifdef TINY_CHECK
/* Leave a process of Linux. */
static void leave(int status)
{
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"(60), "D"(status));
#elif defined(__aarch64__)
    register long first __asm__("x0") = status, number __asm__("x8") = 93;
    __asm__ volatile("svc 0" : : "r"(first), "r"(number));
#elif defined(__arm__)
    register int first __asm__("r0") = status, number __asm__("r7") = 1;
    __asm__ volatile("svc 0" : : "r"(first), "r"(number));
#endif
}

static void learn(tiny *model)
{
    int wrong = 0;
    for (int step = 0; step < CHECK_STEPS; ++step)
        wrong += tiny_train_step(model, check_x[step], check_y[step], &loss) || loss != check_losses[step];
    leave(wrong ? 1 : 0);
}
#else
static float x[8], y[4]; /* what a device would measure */

static void learn(tiny *model)
{
    tiny_train_step(model, x, y, &loss);
}
#endif

void start(void)
{
    tiny model;
    tiny_init(&model, tiny_align(state), tiny_align(work));
    for (;;)
        learn(&model);
}
"""
"""A program of its own: no C library, no operating system but to leave it when it has checked itself."""


class Model(NamedTuple):
    """A training step, what predicts with its parameters, and the batches to train on."""

    train: gt.TrainStep
    predict: Any
    batches: list[tuple[np.ndarray[Any, Any], ...]]


def digits() -> Model:
    """The network and the pictures of `gtensor demo`: 64-128-64-10 relu, cross-entropy, adam, batches of 32."""
    x, y, _, _ = demo.load()
    specs = gt.spec((demo.BATCH, 64)), gt.spec((demo.BATCH,), gt.int64)
    train = gt.TrainStep(demo.digits_loss, demo.init(0), gt.optim.adam(1e-3), *specs)
    rows = [np.arange(i, i + demo.BATCH) % len(y) for i in range(0, STEPS * demo.BATCH, demo.BATCH)]
    return Model(train, train.bind(demo.model, gt.spec((1, 64))), [(x[row], y[row]) for row in rows])


def gated() -> Model:
    """A gated memory of 32 trained through time, adam: the first element is to be a level that jumps, seen in noise."""

    def loss_fn(p: Any, seen: Any, level: Any) -> gt.Tensor:
        _, memories = CELL.rollout(p, CELL.start(ROWS), seen)
        return gt.nn.mse_loss(memories[..., :1], level)

    def predict(p: Any, memory: Any, x: Any) -> Any:
        return CELL.step(p, memory, x)[0]

    spec = gt.spec((TIME, ROWS, 1))
    train = gt.TrainStep(loss_fn, CELL.init(gt.random.key(0)), gt.optim.adam(1e-2), spec, spec)
    rng = np.random.default_rng(1)
    shape = (STEPS, TIME, ROWS, 1)
    moves = np.where(rng.random(shape) < 1 / 20, rng.integers(1, 33, shape), 0)
    level = np.linspace(-0.8, 0.8, 33, dtype=np.float32)[np.cumsum(moves, axis=1) % 33]
    seen = level + np.float32(0.2) * rng.standard_normal(shape, dtype=np.float32)
    return Model(train, train.bind(predict, gt.spec((1, 32)), gt.spec((1, 1))), list(zip(seen, level, strict=True)))


def tiny() -> Model:
    """W1, learning from one example at a time."""
    params, data, opt = workloads.make("W1")

    def loss_fn(p: Any, x: Any, y: Any) -> Any:
        return models.W1(Operations, p, {"x": x, "y": y})

    def predict(p: Any, x: Any) -> gt.Tensor:
        return gt.nn.linear(gt.gelu(gt.nn.linear(x, p["W1"], p["b1"]), approximate="tanh"), p["W2"], p["b2"])

    train = gt.TrainStep(loss_fn, params, gt.optim.sgd(opt["lr"]), gt.spec((1, 8)), gt.spec((1, 4)))
    rows = [i % 32 for i in range(STEPS)]
    batches = [(data["x"][row : row + 1], data["y"][row : row + 1]) for row in rows]
    return Model(train, train.bind(predict, gt.spec((1, 8))), batches)


MODELS = {"digits": digits, "gated": gated, "tiny": tiny}


def export(name: str, folder: Path, prefix: str = "") -> Model:
    """Export a model, under its name or another, with what predicts; returns it, of the portable variant."""
    with gt.config(variant="portable"):
        model = MODELS[name]()
        gt.export(folder, model.train, predict=model.predict, prefix=prefix or name)
    return model


def sources(folder: Path) -> list[Path]:
    """The C of a project without its example."""
    return sorted(path for path in folder.glob("*.c") if path.name != "main.c")


def zig() -> list[str]:
    """The command of zig's C compiler, or nothing without the package ziglang."""
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else []


def run(command: Sequence[object]) -> str:
    """What a command prints."""
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


class Size(NamedTuple):
    """Bytes: of the machine's code, of constants (the exported parameters), of memory of two kinds."""

    code: int
    constants: int
    state: int
    work: int


def size(folder: Path, prefix: str) -> Size:
    """The sizes of a project, compiled as its Makefile does."""
    header = (folder / f"{prefix}.h").read_text(encoding="utf-8")
    state, work = (int(re.findall(rf"_{name}_BYTES (\d+) ", header)[0]) for name in ("STATE", "WORK"))
    with tempfile.TemporaryDirectory() as objects:
        paths = [Path(objects) / f"{path.stem}.o" for path in sources(folder)]
        for path, made in zip(sources(folder), paths, strict=True):
            run(["cc", *STRICT, "-O2", "-fno-pic", "-c", path, "-o", made])
        return Size(*map(sum, zip(*map(code_and_constants, paths), strict=True)), state, work)


def code_and_constants(path: Path) -> tuple[int, int]:
    """The bytes of the sections of both kinds in an object or a program."""
    sections = re.findall(r"^\.(\S+) +(\d+) ", run(["size", "-A", path]), flags=re.MULTILINE)
    found = [
        sum(int(count) for name, count in sections if name.split(".")[0] in kinds)
        for kinds in ({"text"}, {"rodata", "data"})
    ]
    return found[0], found[1]


class Bare(NamedTuple):
    """Bytes of a program without a C library: what it keeps in flash, its variables, at most its stack."""

    flash: int
    variables: int
    stack: int


LINK = ["-ffreestanding", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-ffunction-sections"]


def bare(folder: Path, compiler: Sequence[str], out: Path, *flags: str) -> None:
    """Link the step of the exported model `tiny` as a program without a C library."""
    (folder / "bare.c").write_text(BARE, encoding="utf-8")
    files = [folder / name for name in ("tiny.c", "tiny_train_step.c", "bare.c")]
    run([*compiler, *STRICT, "-Os", *LINK, *flags, "-I", folder, *files, "-Wl,--gc-sections,-e,start", "-o", out])


def host(out: Path, folder: Path, *flags: str) -> None:
    """The same for this machine."""
    bare(folder, ["cc"], out, "-fno-pic", "-no-pie", "-static", "-nostdlib", "-Wl,--build-id=none", *flags)


def bare_size(program: Path) -> tuple[int, int]:
    """What a program keeps in flash, and its variables."""
    variables = re.findall(r"^\.(?:bss|data)\S* +(\d+) ", run(["size", "-A", program]), flags=re.MULTILINE)
    return sum(code_and_constants(program)), sum(map(int, variables))


def frames(folder: Path) -> int:
    """The bytes of all stack frames of the host's program together: no chain of calls has more, for none is a loop."""
    with tempfile.TemporaryDirectory() as where:
        host(Path(where) / "bare", folder, "-fstack-usage")
        found = [path.read_text(encoding="utf-8") for path in Path(where).glob("*.su")]
    return sum(int(line.split("\t")[1]) for text in found for line in text.splitlines())


def bare_sizes(folder: Path) -> dict[str, Bare]:
    """The sizes of the model `tiny` without a C library, by processor."""
    with tempfile.TemporaryDirectory() as where:
        program, stack, found = Path(where) / "program", frames(folder), {}
        host(program, folder)
        found[platform.machine().replace("_", "-")] = Bare(*bare_size(program), stack)
        if zig():
            bare(folder, [*zig(), *CORTEX_M4], program)
            found["Cortex-M4"] = Bare(*bare_size(program), stack)
    return found


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as where:
        folders = {name: Path(where) / name for name in MODELS}
        rows = []
        for name, folder in folders.items():
            export(name, folder)
            rows.append([name, *(f"{count:,}" for count in size(folder, name))])
        print(grid(["project", "code", "constants", "state", "work"], rows))
        found = bare_sizes(folders["tiny"])
    print(
        grid(
            ["tiny on", "flash", "variables", "stack at most"], [[k, *(f"{n:,}" for n in v)] for k, v in found.items()]
        )
    )


if __name__ == "__main__":
    main()

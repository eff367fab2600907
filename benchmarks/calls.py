"""What a call from Python costs beside its C: a resident step and compiled functions, against an empty cffi call.

    python -m benchmarks.calls

The models are as small as can be, so that next to nothing of a call is arithmetic. `C` is the same work done many times
in a loop inside C; the overhead is what a call takes beyond that. An empty cffi call takes and returns nothing.
"""

import argparse
import platform
import sysconfig
import tempfile
import timeit
from pathlib import Path

import numpy as np
from cffi import FFI

import gtensor as gt
from gtensor.codegen import trampoline
from gtensor.codegen.artefact import Recipe, Workshop
from gtensor.codegen.library import Loop
from gtensor.stages import Settings

from . import machine
from .table import grid

CALLS, LOOPED = 2000, 10_000


def nanoseconds(call, seconds):
    """Of one call: the least mean of many batches."""
    timer, best = timeit.Timer(call), float("inf")
    for _ in range(max(5, round(seconds / timer.timeit(CALLS)))):
        best = min(best, timer.timeit(CALLS))
    return 1e9 * best / CALLS


def inside(call, inputs, seconds):
    """Nanoseconds of one run of a bound call inside C."""
    loop = Loop(call, [False] * inputs)
    timer = timeit.Timer(lambda: loop.run(LOOPED, 1))
    return 1e9 * min(timer.repeat(max(5, round(seconds / timer.timeit(1))), 1)) / LOOPED


def empty():
    """An extension function without arguments or result, called through cffi's API mode."""
    workshop, name, source = Workshop(Settings.now().options), "_gtensor_empty", "static void empty(void) {}"
    ffi = FFI()
    ffi.cdef("void empty(void);")
    ffi.set_source(name, source, compiler_verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.c"
        ffi.emit_c_code(str(path))
        text = path.read_text(encoding="utf-8")
    given = trampoline.recipe()
    recipe = Recipe("empty", f"{given.text}\n{source}", given.add, given.link, plain=True)
    include = Path(sysconfig.get_path("include"))
    entry = workshop.find(recipe) or workshop.make(recipe, {"empty.c": text}, search=(include,))
    return trampoline.module(name, entry.library_path).lib.empty


def resident_rows(seconds):
    """A training step on one weight and one example, and its parts."""
    x, y = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    weight = np.ones((1, 1), np.float32)
    train = gt.TrainStep(lambda w, x, y: gt.mean((x @ w - y) ** 2), weight, gt.optim.sgd(0.0), x, y)
    fill(train.step.frame, x)
    base = inside(train.step.frame, 2, seconds)
    yield "bound C step, nothing checked", nanoseconds(train.step.frame.step, seconds), base
    yield "TrainStep", nanoseconds(lambda: train(x, y), seconds), base
    tx, ty = gt.tensor(x), gt.tensor(y)
    yield "TrainStep of tensors", nanoseconds(lambda: train(tx, ty), seconds), base
    resident = gt.Resident(lambda total, x: (total + x, gt.sum(x)), weight, [x])
    fill(resident.step.frame, x)
    base = inside(resident.step.frame, 1, seconds)
    yield "Resident that returns a tensor", nanoseconds(lambda: resident(x), seconds), base


def compiled_rows(seconds):
    """Compiled functions of a few leaves."""
    x = np.ones(1, np.float32)
    one = gt.compile(lambda x: x + 1)
    yield "compiled, 1 array to 1", nanoseconds(lambda: one(x), seconds), alone(one, x, seconds)
    scale = np.ones(1, np.float32)
    scaled = gt.compile(lambda x: x * scale)
    yield "the same, another array captured", nanoseconds(lambda: scaled(x), seconds), alone(scaled, x, seconds)
    number = gt.compile(lambda x, rate: x * rate)
    yield "1 array and a Python number to 1", nanoseconds(lambda: number(x, 0.5), seconds), alone(one, x, seconds)
    many = gt.compile(lambda d, x: {name: value + x for name, value in d.items()})
    leaves = {name: gt.ones(1) for name in "abcd"}
    yield "compiled, dict of 4 tensors to 4", nanoseconds(lambda: many(leaves, x), seconds), alone(many, x, seconds)
    into = gt.compile(lambda d, x: {name: value + x for name, value in d.items()}, donate="d")

    def donated():
        nonlocal leaves
        leaves = into(leaves, x)

    yield "the same, donated", nanoseconds(donated, seconds), alone(into, x, seconds)


def alone(function, array, seconds):
    """Nanoseconds of the C of a compiled function that was called before, all inputs and outputs being such arrays."""
    library = function.compiled.library
    call = library.acquire()
    fill(call, array)
    return inside(call, len(library.model.inputs), seconds)


def fill(call, array):
    """Bind copies of an array to all inputs and outputs of a call."""
    for slot in range(len(call.library.model.inputs)):
        call.set_input(slot, array.copy())
    for slot in range(len(call.library.model.outputs)):
        call.set_output(slot, np.empty_like(array))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    args = parser.parse_args()
    machine.alone()
    rows = [["empty cffi call", f"{nanoseconds(empty(), args.seconds):.0f}", "–", "–"]]
    for what, whole, base in (*resident_rows(args.seconds), *compiled_rows(args.seconds)):
        rows.append([what, f"{whole:.0f}", f"{base:.0f}", f"{whole - base:.0f}"])
    print(f"{machine.cpu()}, Python {platform.python_version()}, nanoseconds\n")
    print(grid(["", "a call", "C", "overhead"], rows))


if __name__ == "__main__":
    main()

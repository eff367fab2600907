"""Programs compiled with gcc or clang and run in a process of their own (driver.c), for the tests of emit.

Comes in: a Program (lawful: `check` sees it first) and values. Goes out: a `Run` with what a caller sees.
Builds are warning-free by force, and are made once per C text; the `sanitize` ones find undefined behaviour
and every access outside the arrays.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gtensor.codegen import sanitizers
from gtensor.codegen.cexpr import DTYPES
from gtensor.codegen.emit import Source, emit
from gtensor.codegen.library import dtype_of
from gtensor.codegen.memory import Plan, nbytes
from gtensor.codegen.program import Extent, Program, upper
from gtensor.codegen.target import PORTABLE, Target
from gtensor.codegen.write import place
from tests import sanitized

HERE = Path(__file__).resolve().parent
TEMPLATES = HERE.parents[1] / "templates"
NUMPY = {tag: dtype_of(tag).name for tag in DTYPES}
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = ("-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-ffp-contract=off")
SANITIZE = ("-O1", *sanitizers.flags(("address", "undefined"), clang=False))
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]


def _macros() -> str:
    command = [COMPILERS[0], "-march=native", "-dM", "-E", "-"]
    return subprocess.run(command, input="", capture_output=True, text=True).stdout


MACROS = _macros()
"""What the first compiler defines for this machine."""

NATIVE = Target("test", 32 if "__AVX2__" in MACROS else 16, 16, "__FMA__" in MACROS, ("-march=native",))
"""The vectors of this machine, at most 32 bytes; 16 where nothing is known."""

NARROW = Target("narrow", 16, 32, False)
TARGETS = {"native": NATIVE, "narrow": NARROW, "portable": PORTABLE}


@dataclass(frozen=True)
class Run:
    """What a caller sees: outputs by name (an output with an alias is read where it lives), state, loss, errors."""

    outputs: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    loss: float
    code: int
    node: int
    index: int
    done: int
    losses: np.ndarray


def planned(program: Program, target: Target = NATIVE, blas: bool = False) -> Plan:
    """The plan of a program after its checks."""
    return place(program, target, blas)


def source(program: Program, target: Target = NATIVE, blas: bool = False) -> Source:
    """The C of a program."""
    return emit(planned(program, target, blas), target)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="gtensor-test-")


def _build(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=sanitized.outside())
    assert done.returncode == 0, done.stderr[:4000]


@functools.cache
def _driver(command: tuple[str, ...]) -> Path:
    """driver.c as an object file."""
    path = Path(tempfile.mkdtemp(dir=_folder().name)) / "driver.o"
    _build([*command, "-c", str(HERE / "driver.c"), "-o", str(path)])
    return path


@functools.lru_cache(maxsize=64)
def compiled(found: Source, compiler: str, flags: tuple[str, ...]) -> Path:
    """The program of the units and the driver."""
    folder = Path(tempfile.mkdtemp(dir=_folder().name))
    for unit in found.units:
        (folder / unit.filename).write_text(unit.text, encoding="utf-8")
    common = (compiler, "-std=gnu99", *flags, *FLAGS, *WARNINGS, f"-I{TEMPLATES}")
    driver = _driver((*common, "-DWITH_BLAS") if found.needs_blas else common)
    files = [str(folder / unit.filename) for unit in found.units]
    _build([*common, *files, str(driver), "-o", str(folder / "model"), "-lm"])
    return folder / "model"


def at(extent: Extent, dims: tuple[int, ...]) -> int:
    """The value of an extent."""
    return extent if isinstance(extent, int) else extent.factor * dims[extent.index]


def run(
    program: Program,
    values: dict[str, np.ndarray],
    *,
    dims: tuple[int, ...] = (),
    target: Target = NATIVE,
    compiler: str = COMPILERS[0],
    flags: tuple[str, ...] | None = None,
    blas: bool = False,
    loop: tuple[int, int, int] = (-1, 0, 0),
    rows: Sequence[int] | None = None,
    batched: tuple[str, ...] = (),
    under: tuple[str, ...] = (),
) -> Run:
    """Compile and run, `under` a command that takes one, such as valgrind.

    `values` holds inputs and state by name; `loop` is (steps, batch, first).
    """
    plan_ = planned(program, target, blas)
    found = emit(plan_, target)
    path = compiled(found, compiler, ("-O3", *target.flags) if flags is None else flags)
    table = program.table
    arrays = {name: np.ascontiguousarray(v, NUMPY[table[name].dtype]) for name, v in values.items()}
    sent = [*dims, *loop, -1 if rows is None else len(rows), *([] if rows is None else rows)]
    message = np.array(sent, np.int64).tobytes()
    sizes = {item.name: arrays[item.name].nbytes for item in program.inputs}
    for item in program.inputs:
        data = arrays[item.name].tobytes()
        message += np.array([len(data), item.name in batched], np.int64).tobytes() + data
    block = bytearray(plan_.state_bytes)
    for item, offset in zip(program.state, plan_.state_offsets, strict=True):
        data = arrays[item.name].tobytes()
        block[offset : offset + len(data)] = data
    message += np.array([len(block)], np.int64).tobytes() + bytes(block)
    done = subprocess.run([*under, str(path)], input=message, capture_output=True, env=sanitized.outside())
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return _reply(program, plan_, done.stdout, dims, loop[0], sizes)


def _reply(program: Program, plan_: Plan, text: bytes, dims: tuple[int, ...], steps: int, sent: dict[str, int]) -> Run:
    code, node, index, done = (int(n) for n in np.frombuffer(text[:32], np.int64))
    loss = float(np.frombuffer(text[32:40], np.float64)[0])
    starts: dict[tuple[str, int], int] = {}
    position = 40
    for slot, item in enumerate(program.outputs):
        starts["out", slot] = position
        position += nbytes(item.shape, item.dtype)
    for slot, item in enumerate(program.inputs):
        starts["in", slot] = position
        position += sent[item.name]
    for slot, offset in enumerate(plan_.state_offsets):
        starts["state", slot] = position + offset
    position += plan_.state_bytes

    def array(name: str, start: int) -> np.ndarray:
        buffer = program.buffer(name)
        shape = [min(max(at(n, dims), 0), upper(n)) for n in buffer.shape]
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(text, NUMPY[buffer.dtype], count, start).reshape(shape) if count else np.zeros(shape)

    outputs = {}
    for buffer in program.buffers:
        if buffer.role == "output":
            place = plan_.places[program.buffer(buffer.alias).name if buffer.alias else buffer.name]
            outputs[buffer.name] = array(buffer.name, starts[place.block, place.slot])
    state = {item.name: array(item.name, starts["state", slot]) for slot, item in enumerate(program.state)}
    losses = np.frombuffer(text, np.float64, max(steps, 0), position)
    return Run(outputs, state, loss, code, node, index, done, losses)

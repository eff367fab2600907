"""Programs executed in Python, element by element, on the memory that a test chooses.

Comes in: a Program, the values of its inputs and state, and either nothing (every buffer has memory of
its own) or a Plan (memory is shared as the plan says). Goes out: what a caller would see afterwards.
Two orders of execution: one element after another, or one statement after another for a whole row and
one product after another before its epilogue, as vector code and BLAS do. A lawful program gives the
same values either way, and on planned memory.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gtensor.codegen.access import at, touches
from gtensor.codegen.cexpr import DTYPES, REDUCERS
from gtensor.codegen.library import dtype_of
from gtensor.codegen.memory import Plan, nbytes
from gtensor.codegen.program import (
    Access,
    Accumulate,
    Assign,
    Check,
    Counter,
    Gemm,
    Guard,
    Load,
    Program,
    Reduce,
    Repeat,
    RowKernel,
    Step,
    Stmt,
    Store,
    upper,
)

NUMPY = {**{tag: dtype_of(tag).type for tag in DTYPES}, "b1": np.uint8}

FUNCTIONS: dict[str, Callable[..., object]] = {
    "gt_add_{t}({0}, {1})": lambda a, b: a + b,
    "gt_sub_{t}({0}, {1})": lambda a, b: a - b,
    "gt_mul_{t}({0}, {1})": lambda a, b: a * b,
    "gt_max_{t}({0}, {1})": np.maximum,
    "gt_min_{t}({0}, {1})": np.minimum,
}
"""What the templates of `random_programs` mean."""

CONSTANTS = {"INFINITY": np.inf, "NAN": np.nan, "INT64_MIN": -(2**63), "INT64_MAX": 2**63 - 1}


class Failed(Exception):
    """A Check failed; the arguments are its equation and the value."""


class Left(Exception):
    """A guard does not hold: the loop around it ends."""


class Run:
    """One execution. `memory` maps each buffer to a flat array; `dims` are the run-time extents."""

    def __init__(self, program: Program, memory: Mapping[str, np.ndarray], dims: Sequence[int], lanes: bool) -> None:
        self.program, self.memory, self.lanes = program, dict(memory), lanes
        self.point = dict(enumerate(dims))
        self.tags = {buffer.name: buffer.dtype for buffer in program.buffers}

    def all(self) -> None:
        """Execute every step."""
        self.steps(self.program.steps)

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Repeat):
                self.trips(step)
                continue
            if isinstance(step, Guard):
                if not self.memory[step.flag][0]:
                    raise Left
                continue
            self.sums = {a.buffer: self.memory[a.scratch or a.buffer] for a in step.accumulators}
            for a in step.accumulators:
                start = constant(REDUCERS[a.op].initial(self.tags[a.buffer]))
                self.sums[a.buffer][:] = self.memory[a.buffer] if a.start == "keep" else start
            (self.product if isinstance(step, Gemm) else self.rows)(step)
            for a in step.accumulators:
                self.memory[a.buffer][:] = self.sums[a.buffer]

    def trips(self, loop: Repeat) -> None:
        """Each slice is a view of a row of its outer buffer; what is carried is copied after the steps."""
        count = at(loop.count, self.point)
        for t in reversed(range(count)) if loop.reverse else range(count):
            for name in loop.slices:
                buffer = self.program.buffer(name)
                size = int(np.prod([at(n, self.point) for n in buffer.shape]))
                self.memory[name] = self.memory[buffer.alias][t * size : (t + 1) * size]
                assert len(self.memory[name]) == size, name
            try:
                self.steps(loop.steps)
            except Left:
                break
            after = [(read, self.memory[written].copy()) for read, written in loop.carries]
            for read, values in after:
                self.memory[read][: len(values)] = values

    def rows(self, kernel: RowKernel) -> None:
        lengths = [at(n, self.point) for n in kernel.space]
        for outer in itertools.product(*map(range, lengths[:-1])):
            env: dict[str, object] = {}
            for phase in kernel.phases:
                for stmt in phase.head:
                    self.statement(stmt, (*outer, 0), env, {})
                folds: dict[str, list[object]] = {}
                self.body(phase.body, [(*outer, j) for j in range(lengths[-1])], env, folds)
                for stmt in phase.body:
                    if isinstance(stmt, Reduce):
                        env[stmt.var] = fold(stmt, folds.get(stmt.var, []))

    def product(self, gemm: Gemm) -> None:
        batch = [range(at(n, self.point)) for n in gemm.batch]
        cells = list(itertools.product(range(at(gemm.m, self.point)), range(at(gemm.n, self.point))))
        for outer in itertools.product(*batch):
            places = [(*outer, m, n) for m, n in cells]
            if self.lanes:
                sums = [{gemm.acc: self.dot(gemm, place)} for place in places]
                for stmt in gemm.epilogue:
                    for place, env in zip(places, sums, strict=True):
                        self.statement(stmt, place, env, {})
            else:
                for place in places:
                    self.body(gemm.epilogue, [place], {gemm.acc: self.dot(gemm, place)}, {})

    def dot(self, gemm: Gemm, place: tuple[int, ...]) -> object:
        total = NUMPY[gemm.dtype](0)
        *outer, m, n = place
        for term in gemm.terms:
            for k in range(at(term.k, self.point)):
                a = self.memory[term.a.buffer][self.position(term.a, (*outer, m, k), {})]
                total = total + a * self.memory[term.b.buffer][self.position(term.b, (*outer, k, n), {})]
        return total

    def body(
        self, stmts: Sequence[Stmt], places: Sequence[tuple[int, ...]], env: dict[str, object], folds: dict
    ) -> None:
        scopes = [dict(env) for _ in places]
        if self.lanes:
            for stmt in stmts:
                for place, scope in zip(places, scopes, strict=True):
                    self.statement(stmt, place, scope, folds)
        else:
            for place, scope in zip(places, scopes, strict=True):
                for stmt in stmts:
                    self.statement(stmt, place, scope, folds)

    def position(self, access: Access, place: tuple[int, ...], env: Mapping[str, object]) -> int:
        position = at(access.offset, self.point)
        position += sum(at(stride, self.point) * i for stride, i in zip(access.strides, place, strict=True))
        position += sum(at(stride, self.point) * int(env[var]) for var, stride in access.index)
        assert 0 <= position < len(self.memory[access.buffer]), access
        return position

    def statement(self, stmt: Stmt, place: tuple[int, ...], env: dict[str, object], folds: dict) -> None:
        if isinstance(stmt, Load):
            env[stmt.var] = self.memory[stmt.access.buffer][self.position(stmt.access, place, env)]
        elif isinstance(stmt, Assign):
            args = [value(arg, env, stmt.expr.t) for arg in stmt.expr.args]
            env[stmt.var] = FUNCTIONS[stmt.expr.template](*args)
        elif isinstance(stmt, Counter):
            env[stmt.var] = np.int64(place[stmt.axis])
        elif isinstance(stmt, Store):
            tag = self.tags[stmt.access.buffer]
            self.memory[stmt.access.buffer][self.position(stmt.access, place, env)] = value(stmt.value, env, tag)
        elif isinstance(stmt, Reduce):
            folds.setdefault(stmt.var, []).append(value(stmt.value, env, stmt.dtype))
        elif isinstance(stmt, Accumulate):
            target, position = self.sums[stmt.access.buffer], self.position(stmt.access, place, env)
            new = target.dtype.type(value(stmt.value, env, self.tags[stmt.access.buffer]))
            target[position] = FUNCTIONS[REDUCERS[stmt.op].combine](target[position], new)
        elif isinstance(stmt, Check) and not stmt.low <= int(env[stmt.var]) < at(stmt.high, self.point):
            raise Failed(stmt.node, int(env[stmt.var]))


def constant(text: str) -> float | int:
    """The value of a C literal."""
    text = re.sub(r"\(double\)|INT64_C\((.*)\)", r"\1", text)
    sign, name = (-1, text[1:]) if text.startswith("-") else (1, text)
    if name in CONSTANTS:
        return sign * CONSTANTS[name]
    return float(text.rstrip("f")) if re.search("[.ef]", text) else int(text)


def value(text: str, env: Mapping[str, object], tag: str) -> object:
    """The value of a variable or literal."""
    return env[text] if text in env else NUMPY[tag](constant(text))


def fold(stmt: Reduce, values: Sequence[object]) -> object:
    """The result of a reduction over one row."""
    if stmt.op in ("argmax", "argmin"):
        return np.int64({"argmax": np.argmax, "argmin": np.argmin}[stmt.op](values) if values else 0)
    total = NUMPY[stmt.dtype](constant(REDUCERS[stmt.op].initial(stmt.dtype)))
    for new in values:
        total = FUNCTIONS[REDUCERS[stmt.op].combine](total, new)
    return total


def sample(program: Program, seed: int) -> dict[str, np.ndarray]:
    """Values of the inputs and the state, flat, at the bounds; integers are 0, 1, 2 and now and then 3."""
    random = np.random.default_rng(seed)
    found = {}
    for buffer in program.buffers:
        if buffer.role in ("input", "state"):
            count = int(np.prod([upper(n) for n in buffer.shape]))
            whole = np.where(random.random(count) < 0.04, 3, random.integers(0, 3, count))
            found[buffer.name] = whole.astype(NUMPY[buffer.dtype])
            if buffer.dtype == "b1":
                found[buffer.name] = (whole > 0).astype(np.uint8)
            if buffer.dtype in ("f32", "f64"):
                found[buffer.name] += random.random(count).astype(NUMPY[buffer.dtype])
    return found


def garbage(count: int, tag: str) -> np.ndarray:
    """Memory that was never written: whatever reads it gives another result."""
    return np.full(count, np.nan if tag in ("f32", "f64") else 77, NUMPY[tag])


def run_apart(program: Program, given: Mapping[str, np.ndarray], dims: Sequence[int], lanes: bool = False) -> dict:
    """The outputs, each buffer having memory of its own: output name -> its elements."""
    memory = {
        b.name: given[b.name].copy() if b.name in given else garbage(int(np.prod([upper(n) for n in b.shape])), b.dtype)
        for b in program.buffers
        if b.role != "slice"
    }
    with np.errstate(all="ignore"):
        Run(program, memory, dims, lanes).all()
    return {b.name: actual(memory[b.name], b.shape, dims) for b in program.buffers if b.role == "output"}


def blocks(plan: Plan, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The memory of a call as the plan lays it out: buffer -> a view of its block."""
    program = plan.program
    sizes = {("work", -1): plan.work_bytes, ("state", -1): plan.state_bytes}
    whole = [buffer for buffer in program.buffers if buffer.role != "slice"]
    for buffer in whole:
        place = plan.places[buffer.name]
        if place.block in ("in", "out"):
            sizes[place.block, place.slot] = nbytes(buffer.shape, buffer.dtype)
    raw = {block: np.full(size, 0xF9, np.uint8) for block, size in sizes.items()}
    touched = {name for step in program.steps for name in touches(step, program.table).names()}
    memory = {}
    for buffer in whole:
        place, size = plan.places[buffer.name], nbytes(buffer.shape, buffer.dtype)
        block = raw[place.block, place.slot if place.block in ("in", "out") else -1]
        memory[buffer.name] = block[place.offset : place.offset + size].view(NUMPY[buffer.dtype])
        assert memory[buffer.name].nbytes == size or buffer.name not in touched, (buffer, place)
    for name, values in given.items():
        memory[name][:] = values
    return memory


def run_planned(plan: Plan, memory: Mapping[str, np.ndarray], dims: Sequence[int], lanes: bool = False) -> dict:
    """The outputs as the caller finds them: an output with an alias is in its target's memory."""
    with np.errstate(all="ignore"):
        Run(plan.program, memory, dims, lanes).all()
    return {
        b.name: actual(memory[b.alias or b.name], b.shape, dims) for b in plan.program.buffers if b.role == "output"
    }


def actual(values: np.ndarray, shape: Sequence, dims: Sequence[int]) -> np.ndarray:
    """The elements that count at the run-time extents."""
    return values[: int(np.prod([at(n, dict(enumerate(dims))) for n in shape]))].copy()

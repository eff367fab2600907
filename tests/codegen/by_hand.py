"""Short spellings for programs written by hand in tests.

`make` wraps buffers and steps into a Program whose arrays are its buffers; `load`, `store` and `sums`
take strides in order. Nothing is checked here: the tests of the check build unlawful programs with it.
"""

from __future__ import annotations

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.program import (
    Access,
    Accumulate,
    Array,
    Assign,
    Buffer,
    Dim,
    Load,
    Phase,
    Program,
    RowKernel,
    Step,
    Stmt,
    Store,
)

B = Dim(0, "B", 6)


def make(buffers, steps, dims=(B,), equations=("eqn",), **more) -> Program:
    """A program of those buffers and steps."""
    arrays = {}
    for role in ("input", "output", "state"):
        slots = sorted((b for b in buffers if b.role == role and b.slot >= 0), key=lambda b: b.slot)
        arrays[role] = tuple(Array(b.name, b.dtype, b.shape) for b in slots)
    told = {"inputs": arrays["input"], "outputs": arrays["output"], "state": arrays["state"]}
    return Program("hand", tuple(buffers), tuple(steps), dims=dims, equations=equations, **{**told, **more})


def inp(name, shape, slot=0, dtype="f32") -> Buffer:
    return Buffer(name, dtype, shape, "input", slot)


def out(name, shape, slot=0, dtype="f32", alias=None) -> Buffer:
    return Buffer(name, dtype, shape, "output", slot, alias)


def state(name, shape, slot=0, dtype="f32") -> Buffer:
    return Buffer(name, dtype, shape, "state", slot)


def work(name, shape, dtype="f32") -> Buffer:
    return Buffer(name, dtype, shape, "work")


def row(name, shape, dtype="f32") -> Buffer:
    return Buffer(name, dtype, shape, "row")


def load(var, buffer, *strides, at=0, index=(), dtype="f32") -> Load:
    return Load(var, dtype, Access(buffer, strides, at, index))


def store(buffer, value, *strides, at=0, index=()) -> Store:
    return Store(Access(buffer, strides, at, index), value)


def sums(buffer, value, *strides, op="sum") -> Accumulate:
    return Accumulate(Access(buffer, strides), op, value)


def add(var, *args, dtype="f32") -> Assign:
    return Assign(var, dtype, Expr("gt_add_{t}({0}, {1})", args, dtype, dtype))


def kernel(name, space, *body: Stmt, accumulators=()) -> RowKernel:
    """A row kernel of one phase."""
    return phases(name, space, ((), body), accumulators=accumulators)


def phases(name, space, *pairs, accumulators=()) -> RowKernel:
    """A row kernel of phases, each a pair (head, body)."""
    return RowKernel(name, space, tuple(Phase(tuple(head), tuple(body)) for head, body in pairs), tuple(accumulators))


def names(steps: tuple[Step, ...]) -> list[str]:
    return [step.name for step in steps]

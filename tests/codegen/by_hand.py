"""Short spellings for programs written by hand in tests.

`make` wraps buffers and steps into a Program whose arrays are its buffers; `load`, `store` and `sums`
take strides in order; `body`, `two` and `gemm` make whole programs of one step, `piece`, `copy` and `plus`
what loops consist of. Nothing is checked here:
the tests of the check build unlawful programs with it.
"""

from __future__ import annotations

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.program import (
    Access,
    Accumulate,
    Array,
    Assign,
    Buffer,
    Check,
    Dim,
    Gemm,
    Load,
    Phase,
    Program,
    RowKernel,
    Step,
    Stmt,
    Store,
    Term,
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


X, Y = inp("x", (4, 8)), out("y", (4, 8))
I = inp("i", (4,), 1, "i64")  # noqa: E741
W = inp("w", (8, 8), 1)
COPY = kernel("k", (4, 8), load("a", "x", 8, 1), store("y", "a", 8, 1))
WRITE = store("y", "1.0f", 8, 1)
CHECKED = (load("j", "i", 1, 0, dtype="i64"), Check("j", 0, 4, 0))


def body(*stmts, space=(4, 8), buffers=(X, I, Y), **more) -> Program:
    """A program of one kernel of one phase."""
    return make(buffers, [kernel("k", space, *stmts, **more)])


def two(*pairs, space=(4, 8), buffers=(X, I, Y), **more) -> Program:
    """A program of one kernel of several phases."""
    return make(buffers, [phases("k", space, *pairs, **more)])


def gemm(*epilogue, terms=(), buffers=(X, W, Y), steps=(), **more) -> Program:
    """A program of one product, x @ w, after those steps."""
    terms = terms or (Term(Access("x", (8, 1)), Access("w", (8, 1)), 8),)
    epilogue = epilogue or (store("y", "acc", 8, 1),)
    fields = {"dtype": "f32", "batch": (), "m": 4, "n": 8, "acc": "acc", **more}
    return make(buffers, [*steps, Gemm("g", terms=terms, epilogue=epilogue, **fields)])


def chain(name, source, target, *strides, space=(4, 8)):
    """target = source + source."""
    strides = strides or (8, 1)
    return kernel(name, space, load("a", source, *strides), add("b", "a", "a"), store(target, "b", 8, 1))


def update(name="k", w="w", new="w_new", g="g"):
    """new = w + g."""
    body = load("a", w, 8, 1), load("b", g, 8, 1), add("c", "a", "b"), store(new, "c", 8, 1)
    return kernel(name, (4, 8), *body)


DONATED = (state("w", (4, 8)), inp("g", (4, 8)), out("w_new", (4, 8), -1, alias="w"))


def checks(name, index="idx"):
    """A step that can fail."""
    return kernel(name, (4,), load("i", index, 1, dtype="i64"), Check("i", 0, 4, 0))


ROWS = (3, 8)


def piece(name, outer, shape=ROWS, dtype="f32") -> Buffer:
    """A slice."""
    return Buffer(name, dtype, shape, "slice", alias=outer)


def copy(name, source, target, space=ROWS):
    """target = source."""
    strides = (space[1], 1) if len(space) == 2 else (1,)
    return kernel(name, space, load("a", source, *strides), store(target, "a", *strides))


def plus(name, one, other, target, space=ROWS):
    """target = one + other."""
    strides = (space[1], 1) if len(space) == 2 else (1,)
    body = load("a", one, *strides), load("b", other, *strides), add("c", "a", "b"), store(target, "c", *strides)
    return kernel(name, space, *body)

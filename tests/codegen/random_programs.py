"""Random lawful programs, as a hypothesis strategy: `programs()`.

Every kind of step occurs: elementwise kernels with broadcast, transposed and reversed reads, row kernels
with phases and row buffers, sums over any axes, products with epilogues, pieces of a concatenation,
gathers and scatter-adds with checks before them or among their own statements, loops over any of these,
with carries, slices and guards, and loops inside loops. Values become outputs,
some of them over an input or a state leaf of their type, so that donation is met in all its forms.
Templates are those of `run_program.FUNCTIONS`, so a program can be executed in Python and in C.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from gtensor.codegen.access import contiguous
from gtensor.codegen.cexpr import Expr, literal
from gtensor.codegen.program import (
    Access,
    Accumulate,
    Accumulator,
    Array,
    Assign,
    Buffer,
    Check,
    Counter,
    Dim,
    Extent,
    Gemm,
    Guard,
    Load,
    Phase,
    Program,
    Reduce,
    Repeat,
    RowKernel,
    Step,
    Stmt,
    Store,
    Term,
    scaled,
)

Shape = tuple[Extent, ...]

BATCH = Dim(0, "B", 3)
SHAPES: tuple[Shape, ...] = ((), (4,), (3, 4), (4, 3), (3, 3), (2, 3, 4), (0, 3), (BATCH, 4), (BATCH,), (1, 4))
OPS = ("add", "mul", "max", "min")


class Builder:
    """A program in the making; `draw` is hypothesis's."""

    def __init__(self, draw: Callable) -> None:
        self.draw = draw
        self.buffers: dict[str, Buffer] = {}
        self.steps: list[Step] = []
        self.hidden: set[str] = set()
        self.depth = 0
        self.count = 0

    def choose(self, options):
        return self.draw(st.sampled_from(options))

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def new(self, dtype: str, shape: Shape, role: str = "work", hint: str = "t") -> Buffer:
        buffer = Buffer(self.name(hint), dtype, shape, role)
        self.buffers[buffer.name] = buffer
        return buffer

    def values(self, *dtypes: str, rank: int | None = None) -> list[Buffer]:
        """The buffers that may be read now."""
        return [
            b
            for b in self.buffers.values()
            if b.role != "row" and not b.name.startswith("wide") and b.dtype in (dtypes or ("f32", "f64"))
            if b.name not in self.hidden
            if rank is None or len(b.shape) == rank
        ]

    def compute(self, args: list[str], dtype: str) -> tuple[list[Stmt], str]:
        """Statements that combine variables (and a literal) into one."""
        stmts: list[Stmt] = []
        value = args[0]
        for arg in [*args[1:], literal(self.choose([1, 2, 3]), dtype)]:
            var = self.name("v")
            expr = Expr(f"gt_{self.choose(OPS)}_{{t}}({{0}}, {{1}})", (value, arg), dtype, dtype)
            stmts.append(Assign(var, dtype, expr))
            value = var
        return stmts, value

    def operand(self, buffer: Buffer, shape: Shape) -> Access | None:
        """A read of the buffer in loops over `shape`, straight, broadcast, transposed or reversed."""
        own = contiguous(buffer.shape)
        skip = len(shape) - len(buffer.shape)
        if skip >= 0 and shape[skip:] == buffer.shape:
            axis = self.draw(st.integers(0, 3))
            if axis < len(own) and isinstance(n := shape[skip + axis], int) and n > 1 and isinstance(own[axis], int):
                turned = (*own[:axis], scaled(own[axis], -1), *own[axis + 1 :])
                return Access(buffer.name, (0,) * skip + turned, scaled(own[axis], n - 1))
            return Access(buffer.name, (0,) * skip + own)
        if len(shape) == 2 and buffer.shape == shape[::-1]:
            return Access(buffer.name, own[::-1])

    def loads(self, values: list[Buffer], shape: Shape, most: int) -> tuple[list[Stmt], list[str]]:
        """Up to `most` reads of those values, where they fit in loops over `shape`."""
        stmts: list[Stmt] = []
        for buffer in self.draw(st.lists(st.sampled_from(values), min_size=1, max_size=most)):
            access = self.operand(buffer, shape)
            if access:
                stmts.append(Load(self.name("x"), buffer.dtype, _pad(access)))
        return stmts, [stmt.var for stmt in stmts if isinstance(stmt, Load)]

    def finish(self) -> Program:
        """Roles, slots and aliases, now that all values are there."""
        if not any(b.role == "work" for b in self.values()):
            elementwise(self)  # loops alone, which left nothing
        made = [b for b in self.values("f32", "f64", "i64") if b.role == "work"]
        over = [b for b in self.buffers.values() if b.role in ("input", "state")]
        picked = self.draw(st.lists(st.sampled_from(made), min_size=1, unique=True))
        slots = {"input": 0, "output": 0, "state": 0}
        arrays: dict[str, list[Array]] = {"input": [], "output": [], "state": []}
        final = []
        for buffer in self.buffers.values():
            role, alias = buffer.role, None
            if buffer in picked:
                twins = [b for b in over if (b.dtype, b.shape) == (buffer.dtype, buffer.shape)]
                alias = self.choose([None, *twins, *twins]) if twins else None
                over = [b for b in over if b is not alias]
                role = "output"
            slot = -1
            if role in slots:
                slot, slots[role] = slots[role], slots[role] + 1
                arrays[role].append(Array(buffer.name, buffer.dtype, buffer.shape))
            over_ = alias.name if alias else buffer.alias
            final.append(Buffer(buffer.name, buffer.dtype, buffer.shape, role, slot, over_))
        return Program(
            "random",
            tuple(final),
            tuple(self.steps),
            tuple(arrays["input"]),
            tuple(arrays["output"]),
            tuple(arrays["state"]),
            (Dim(0, "B", BATCH.bound),),
            equations=("indices in range",),
        )


def _space(shape: Shape) -> Shape:
    return shape or (1,)


def _full(buffer: Buffer) -> Access:
    return Access(buffer.name, contiguous(_space(buffer.shape)))


def _pad(access: Access) -> Access:
    """An access to a scalar, in the space (1,)."""
    return access if access.strides else Access(access.buffer, (0,), access.offset)


def elementwise(b: Builder) -> None:
    """A kernel over the shape of some value, with one or two results."""
    like = b.choose(b.values())
    values = b.values(like.dtype)
    body: list[Stmt] = []
    for _ in range(b.choose([1, 1, 2])):
        stmts, names = b.loads(values, like.shape, 3)
        if not names:
            stmts, names = [Load(b.name("x"), like.dtype, _full(like))], [f"x{b.count}"]
        more, value = b.compute(names, like.dtype)
        body += [*stmts, *more, Store(_full(b.new(like.dtype, like.shape)), value)]
    if b.draw(st.booleans()):
        # All reads first: what a fused kernel looks like.
        body = [s for s in body if isinstance(s, Load)] + [s for s in body if not isinstance(s, Load)]
    b.steps.append(RowKernel(b.name("k"), _space(like.shape), (Phase(body=tuple(body)),)))


def copy(b: Builder) -> None:
    """The same value again, under another name."""
    old = b.choose(b.values("f32", "f64", "i64"))
    var = b.name("x")
    body = (Load(var, old.dtype, _full(old)), Store(_full(b.new(old.dtype, old.shape)), var))
    b.steps.append(RowKernel(b.name("k"), _space(old.shape), (Phase(body=body),)))


def normalise(b: Builder) -> None:
    """Phases over a row: a fold, a row buffer or a result, and passes that read them, perhaps backwards."""
    like = b.choose(b.values())
    space, dtype = _space(like.shape), like.dtype
    x, again, back, m, y = (b.name("x") for _ in range(5))
    first, value = b.compute([x], dtype)
    first = [Load(x, dtype, _full(like)), *first]
    held, through = _full(like), b.choose(["row buffer", "result", "input"])
    if through != "input":
        row = Access(b.new(dtype, space[-1:], "row", "row").name, (*(0 for _ in space[1:]), 1))
        held = row if through == "row buffer" else _full(b.new(dtype, like.shape))
        first.append(Store(held, value))
        if isinstance(n := space[-1], int) and n and b.draw(st.booleans()):
            held = Access(held.buffer, (*held.strides[:-1], -1), n - 1)
    first.append(Reduce(m, dtype, b.choose(["sum", "max", "min"]), value))
    head = (Store(_per_row(b, dtype, space), m),) if b.draw(st.booleans()) else ()
    target = _full(b.new(dtype, like.shape))
    second, final = b.compute([again, m], dtype)
    phases = [Phase(body=tuple(first)), Phase(head, (Load(again, dtype, held), *second, Store(target, final)))]
    if b.draw(st.booleans()):
        phases.append(Phase(body=(Load(back, dtype, target), Reduce(y, dtype, "sum", back))))
        phases.append(Phase((Store(_per_row(b, dtype, space), y),)))
    b.steps.append(RowKernel(b.name("k"), space, tuple(phases)))


def _per_row(b: Builder, dtype: str, space: Shape) -> Access:
    """A new value with one element per row, as a head writes it."""
    return Access(b.new(dtype, space[:-1]).name, (*contiguous(space[:-1]), 0))


def total(b: Builder) -> None:
    """A sum over some axes, f32 perhaps through f64."""
    like = b.choose(b.values())
    space = _space(like.shape)
    kept = [bool(like.shape) and b.draw(st.booleans()) for _ in space]
    shape = tuple(n for n, keep in zip(space, kept, strict=True) if keep)
    inner = iter(contiguous(shape))
    target = b.new(like.dtype, shape)
    wide = b.new("f64", shape, hint="wide").name if like.dtype == "f32" and b.draw(st.booleans()) else None
    access = Access(target.name, tuple(next(inner) if keep else 0 for keep in kept))
    x, op = b.name("x"), b.choose(["sum", "max", "min"])
    body = (Load(x, like.dtype, _full(like)), Accumulate(access, op, x))
    accumulators = (Accumulator(target.name, op, scratch=wide),)
    b.steps.append(RowKernel(b.name("k"), space, (Phase(body=body),), accumulators))


def product(b: Builder) -> None:
    """A product of two matrices that fit, straight or transposed, with an epilogue."""
    views = []
    for buffer in b.values(rank=2):
        straight = contiguous(buffer.shape)
        views += [(buffer, buffer.shape, straight), (buffer, buffer.shape[::-1], straight[::-1])]
    pairs = [(a, c) for a in views for c in views if a[1][1] == c[1][0] and a[0].dtype == c[0].dtype]
    if not pairs:
        elementwise(b)
        return
    (one, (m, k), own), (other, (_, n), its) = b.choose(pairs)
    dtype, acc = one.dtype, b.name("acc")
    terms = [Term(Access(one.name, own), Access(other.name, its), k)] * b.choose([1, 1, 2])
    stmts, names = b.loads(b.values(dtype), (m, n), 2)
    more, value = b.compute([acc, *names], dtype)
    epilogue = [*stmts, *more, Store(Access(b.new(dtype, (m, n)).name, (n, 1)), value)]
    b.steps.append(Gemm(b.name("k"), dtype, (), m, n, tuple(terms), acc, tuple(epilogue)))


def concat(b: Builder) -> None:
    """Two pieces of one result, written by two steps."""
    fits = [v for v in b.values() if v.shape and all(isinstance(n, int) for n in v.shape)]
    if not fits:
        elementwise(b)
        return
    like = b.choose(fits)
    values = b.values(like.dtype)
    result = b.new(like.dtype, (*like.shape[:-1], scaled(like.shape[-1], 2)))
    for piece in range(2):
        stmts, names = b.loads(values, like.shape, 1)
        store = Access(result.name, contiguous(result.shape), scaled(like.shape[-1], piece))
        body = (*stmts, Store(store, names[0] if names else literal(1, like.dtype)))
        b.steps.append(RowKernel(b.name("k"), like.shape, (Phase(body=body),)))


def gather(b: Builder) -> None:
    """Rows of a table by an index input: checked in the step, in an earlier step, or counted."""
    tables = [v for v in b.values(rank=2) if isinstance(v.shape[0], int) and v.shape[0] >= 3]
    if not tables:
        elementwise(b)
        return
    table = b.choose(tables)
    rows, cols = table.shape
    index, check = _index(b, rows)
    target = b.new(table.dtype, (4, cols))
    i, x = b.name("i"), b.name("x")
    load = Load(x, table.dtype, Access(table.name, (0, 1), 0, ((i, cols),)))
    head = (Load(i, "i64", Access(index.name, (1, 0))), *check(i))
    phase = Phase(head, (load, Store(_full(target), x)))
    b.steps.append(RowKernel(b.name("k"), (4, cols), (phase,)))


def scatter(b: Builder) -> None:
    """Rows added into a copy of a table by an index input."""
    tables = [v for v in b.values(rank=2) if isinstance(v.shape[0], int) and v.shape[0] >= 3]
    if not tables:
        elementwise(b)
        return
    table = b.choose(tables)
    rows, cols = table.shape
    index, check = _index(b, rows)
    target = b.new(table.dtype, table.shape)
    x, i, c = b.name("x"), b.name("i"), b.name("c")
    body: tuple[Stmt, ...] = (Load(x, table.dtype, _full(table)), Store(_full(target), x))
    b.steps.append(RowKernel(b.name("k"), table.shape, (Phase(body=body),)))
    head = (Load(i, "i64", Access(index.name, (1, 0))), *check(i))
    access = Access(target.name, (0, 0), 0, ((i, cols), (c, 1)))
    body = (Counter(c, 1), Accumulate(access, "sum", literal(2, table.dtype)))
    accumulators = (Accumulator(target.name, "sum", "keep"),)
    b.steps.append(RowKernel(b.name("k"), (4, cols), (Phase(head, body),), accumulators))


def _index(b: Builder, rows: Extent) -> tuple[Buffer, Callable[[str], tuple[Check, ...]]]:
    """An index input of four elements, and the statements that check a variable loaded from it."""
    index = b.new("i64", (4,), "input", "idx")
    if b.draw(st.booleans()):
        return index, lambda var: (Check(var, 0, rows, 0),)
    i = b.name("i")
    body = (Load(i, "i64", Access(index.name, (1,))), Check(i, 0, rows, 0))
    b.steps.append(RowKernel(b.name("check"), (4,), (Phase(body=body),)))
    return index, lambda var: ()


def _copied(b: Builder, old: Buffer, new: Buffer, more: int = 0) -> None:
    """new = old, perhaps with something done to it."""
    var = b.name("x")
    stmts, value = b.compute([var] * more, old.dtype) if more else ([], var)
    body = (Load(var, old.dtype, _full(old)), *stmts, Store(_full(new), value))
    b.steps.append(RowKernel(b.name("k"), _space(old.shape), (Phase(body=body),)))


def _sliced(b: Builder, outer: Buffer) -> Buffer:
    """A buffer for the rows of that one."""
    row = Buffer(b.name("s"), outer.dtype, outer.shape[1:], "slice", alias=outer.name)
    b.buffers[row.name] = row
    return row


def loop(b: Builder) -> None:
    """A loop over one to three steps, which read what is there, carries and rows, and write rows and carries."""
    if b.depth == 2:
        elementwise(b)
        return
    count = b.choose([0, 1, 2, 3, 3, BATCH])
    outer_steps, known = b.steps, set(b.buffers)
    starts = b.draw(st.lists(st.sampled_from(b.values()), max_size=3))
    carried = [b.new(start.dtype, start.shape, hint="c") for start in starts]
    for start, read in zip(starts, carried, strict=True):
        _copied(b, start, read, b.choose([0, 1]))
    stacks = [v for v in b.values() if v.shape and (v.shape[0] == count or (v.shape[0] in (3, 4) and count in (1, 2)))]
    rows = [
        _sliced(b, v) for v in (b.draw(st.lists(st.sampled_from(stacks), max_size=2, unique=True)) if stacks else ())
    ]
    b.steps, b.depth = [], b.depth + 1
    before = set(b.buffers)
    makers = b.draw(st.lists(st.sampled_from(MAKERS), min_size=1, max_size=3))
    guarded = b.choose([None, None, *range(len(makers) + 1)])
    for number, maker in enumerate([*makers, None]):
        if number == guarded:
            rows.append(_sliced(b, b.new("b1", (count,), "input", "flags")))
            b.steps.append(Guard(b.name("guard"), rows[-1].name))
        if maker:
            maker(b)
    made = [v for v in b.values() if v.name not in before and v.role == "work"]
    pairs = []
    for read in carried:
        fits = [v for v in made if (v.dtype, v.shape) == (read.dtype, read.shape)]
        written = b.choose([*fits, None])
        if written is None:
            written = b.new(read.dtype, read.shape, hint="n")
            _copied(b, read, written, b.choose([1, 2]))
            made.append(written)
        pairs.append((read.name, written.name))
    stacked = []
    stored = [*made, *carried] if guarded is None else []
    for value in b.draw(st.lists(st.sampled_from(stored), max_size=2)) if stored else ():
        if sum(isinstance(n, Dim) for n in (count, *value.shape)) > 1:
            continue
        stacked.append(b.new(value.dtype, (count, *value.shape), hint="ys"))
        rows.append(_sliced(b, stacked[-1]))
        _copied(b, value, rows[-1], b.choose([0, 1]))
        if read := b.choose([None, *(c for c in carried if (c.dtype, c.shape) == (value.dtype, value.shape))]):
            pairs = [(one, rows[-1].name if one == read.name else other) for one, other in pairs]
    inner, b.steps, b.depth = tuple(b.steps), outer_steps, b.depth - 1
    kept = {v.name for v in (*carried, *stacked)}
    b.hidden |= {v.name for v in b.buffers.values() if v.name not in known and v.name not in kept and v.role != "input"}
    slices = tuple(v.name for v in rows)
    b.steps.append(Repeat(b.name("loop"), count, inner, tuple(pairs), slices, b.draw(st.booleans())))


MAKERS = (elementwise, elementwise, copy, normalise, total, product, product, concat, gather, scatter, loop, loop)


@st.composite
def programs(draw: Callable, most: int = 7) -> Program:
    """A lawful program of up to about `most` steps."""
    builder = Builder(draw)
    for role in draw(st.lists(st.sampled_from(["input", "state"]), min_size=2, max_size=4)):
        builder.new(draw(st.sampled_from(["f32", "f64", "f64"])), draw(st.sampled_from(SHAPES)), role, role[0])
    for maker in draw(st.lists(st.sampled_from(MAKERS), min_size=1, max_size=most)):
        maker(builder)
    return builder.finish()

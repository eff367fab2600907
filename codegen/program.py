"""The loop-level program: buffers, row kernels and matrix products, before any C is written.

What comes in is built by `gtensor.lower` (or by hand in a test); what goes out to `emit` is the same
data with a memory plan beside it. Everything is a frozen dataclass, so a program can be compared,
printed and checked. Nothing here knows tensors or derivatives. Laws: every access stays inside its
buffer, every value is written before it is read (`check.py`); a kernel may be executed row after row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from .cexpr import Expr
from .extent import Array as Array
from .extent import Dim as Dim
from .extent import Extent as Extent
from .extent import scaled as scaled
from .extent import upper as upper


@dataclass(frozen=True)
class Buffer:
    """A C-contiguous array in memory.

    `dtype` is a tag of `cexpr.DTYPES`. `role` is one of: `input` (read through `args->in[slot]`, never
    written unless an output aliases it), `output` (`args->out[slot]`), `state` (leaf `slot` of the
    resident block), `work` (placed in the arena by `memory.plan`), `row` (an arena buffer whose content
    lives for one row of one kernel), `slice` (in trip t of the loop that names it, row t of the outer
    buffer `alias`, which is one axis longer, or has as many elements in another shape: `rows`). An output
    with `alias` takes over the memory of that input or state buffer (donation): it is the same storage
    under a second name.
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    role: str
    slot: int = -1
    alias: str | None = None


@dataclass(frozen=True)
class Access:
    """An element of a buffer as an affine function of the loop counters, in elements.

    `strides` has one entry per axis of the kernel's space, outermost first; 0 repeats, negative walks
    backwards. `index` adds run-time terms: pairs (integer variable, stride).
    """

    buffer: str
    strides: tuple[Extent, ...]
    offset: Extent = 0
    index: tuple[tuple[str, Extent], ...] = ()


@dataclass(frozen=True)
class Load:
    """`var = buffer[access]`; the variable has the buffer's dtype."""

    var: str
    dtype: str
    access: Access


@dataclass(frozen=True)
class Assign:
    """`var = expr`: one scalar statement; `note` names the equation and the user's line."""

    var: str
    dtype: str
    expr: Expr
    note: str = ""


@dataclass(frozen=True)
class Counter:
    """`var = the loop counter of axis` (an i64)."""

    var: str
    axis: int


@dataclass(frozen=True)
class Store:
    """`buffer[access] = value`; `value` is a variable or a C literal of the buffer's dtype."""

    access: Access
    value: str


@dataclass(frozen=True)
class Reduce:
    """Fold `value` over the last axis into `var`, which the heads of later phases may read.

    `op` is a key of `cexpr.REDUCERS`. argmax and argmin fold the position along the last axis (an
    i64); their first winner stays, a NaN wins.
    """

    var: str
    dtype: str
    op: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Accumulate:
    """`buffer[access] = op(buffer[access], value)`: a reduction over the axes whose stride is 0.

    The kernel's `accumulators` say how the buffer starts and in what precision it is summed; the
    result may be read by later kernels only.
    """

    access: Access
    op: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Check:
    """Leave the kernel with an error unless `low <= var < high` (both constant); `node` says which equation."""

    var: str
    low: int
    high: Extent
    node: int
    note: str = ""


Stmt = Load | Assign | Counter | Store | Reduce | Accumulate | Check


@dataclass(frozen=True)
class Accumulator:
    """How the target of `Accumulate` starts and is summed.

    `start` is `identity` (the reducer's neutral element) or `keep` (what the buffer already holds:
    scatter-add into a copy). `scratch` names a wider buffer of the target's shape (f32 sums in f64)
    that takes the running values and is written back to the target when the loops end.
    """

    buffer: str
    op: str
    start: str = "identity"
    scratch: str | None = None


@dataclass(frozen=True)
class Phase:
    """One pass over a row: `head` runs once per row, `body` once per element of the row.

    A body of () makes a phase of per-row statements only. Variables of a head are seen by that
    phase's body and all later phases; variables of a body only inside that body (what a later phase
    needs goes through a `row` buffer); results of `Reduce` by all later heads and bodies.
    """

    head: tuple[Stmt, ...] = ()
    body: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class RowKernel:
    """A loop nest over `space` whose last axis is the row; the phases run one after another per row.

    Within one phase, rows and elements run in increasing order; a statement sees the stores of earlier
    phases of its own row. `space` has at least one axis; a scalar kernel has space (1,).
    """

    name: str
    space: tuple[Extent, ...]
    phases: tuple[Phase, ...]
    accumulators: tuple[Accumulator, ...] = ()
    comment: tuple[str, ...] = ()


@dataclass(frozen=True)
class Term:
    """One product `a @ b` added into an accumulator: `a` over (batch…, m, k), `b` over (batch…, k, n)."""

    a: Access
    b: Access
    k: Extent


@dataclass(frozen=True)
class Gemm:
    """`acc[batch…, m, n] = sum of terms`, then the epilogue per element.

    The epilogue is a list of statements over the space (batch…, m, n) in which the variable `acc`
    (of `dtype`) is the finished sum; it holds at least one Store or Accumulate. Strides of 1 along k
    or m / n say which operand is transposed. Each element is one chain in k order, term after term.
    `gemm.prepare` sets `route` to `tile` (our register tiles) or `blas`, `scratch` where one product of
    (m, n) lies aside before the epilogue reads it, and `packed_a` and `packed_b` where operands are copied
    into panels first.
    """

    name: str
    dtype: str
    batch: tuple[Extent, ...]
    m: Extent
    n: Extent
    terms: tuple[Term, ...]
    acc: str
    epilogue: tuple[Stmt, ...]
    accumulators: tuple[Accumulator, ...] = ()
    scratch: str | None = None
    comment: tuple[str, ...] = ()
    route: str = "tile"
    packed_a: str | None = None
    packed_b: str | None = None

    @property
    def memory(self) -> tuple[str, ...]:
        """The buffers that hold nothing before and after the product."""
        return tuple(name for name in (self.scratch, self.packed_a, self.packed_b) if name)


@dataclass(frozen=True)
class Line:
    """Elements of a buffer that a function walks along: `length` of them, `step` apart.

    The first of them is the element of `access`, an affine function of the loops around the call.
    """

    access: Access
    step: Extent
    length: Extent
    written: bool = False

    @property
    def every(self) -> Access:
        """All its elements: the access with one axis more."""
        return Access(self.access.buffer, (*self.access.strides, self.step), self.access.offset)


@dataclass(frozen=True)
class LineCall:
    """`function(first element, step, of each line, lengths, memory)` once for each place of `space`.

    What no scalar statement says, such as sorting: `function` is one of templates/gt_lines.h. It writes all
    elements of the lines that are `written` and nothing else, may use `memory` (work buffers that hold nothing
    before and after the call), and cannot fail. Calls for different places touch different elements.
    """

    name: str
    function: str
    space: tuple[Extent, ...]
    lines: tuple[Line, ...]
    lengths: tuple[Extent, ...]
    memory: tuple[str, ...] = ()
    comment: tuple[str, ...] = ()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """It has none."""
        return ()


@dataclass(frozen=True)
class Routine:
    """A call of a C routine over whole matrices: `function` of `library.h` in templates/, one of each dtype.

    It takes `sizes` (batch first), then the arrays of `reads`, of `writes` and the memory `scratch`, and is told
    nothing else: each array is a whole buffer, in row-major order and of `dtype`. It writes all of `writes` and
    allocates nothing. A `node` that is not negative says that it can fail, and which equation it belongs to.
    `flops` is what it does, about.
    """

    name: str
    library: str
    function: str
    dtype: str
    sizes: tuple[Extent, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: str | None = None
    node: int = -1
    flops: int = 0
    comment: tuple[str, ...] = ()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """It has none."""
        return ()


@dataclass(frozen=True)
class Repeat:
    """A loop: `steps` run `count` times (perhaps 0), one trip after another.

    Trips are numbered t = 0 … count - 1 and run in this order, with `reverse` from the last to the first.
    `slices` are the buffers of role `slice` that move with this loop: in trip t such a buffer is row t of
    its outer buffer, which has `count` rows (or more, but for an output that is written). It is used by the
    steps of this loop and of the loops inside it; its outer buffer is an input, state, output or work
    buffer, or a slice of a loop around this one. A slice that is written is written in every trip, before
    it is read in the trip; after the loop its outer buffer counts as written. Nothing in the loop touches
    that outer buffer otherwise. Inputs and state are not written in loops.

    `carries` are pairs (read, written): what the trip leaves in the second buffer is in the first one in the
    next trip, and after the loop. The first is a work or output buffer which was written before the loop and
    which no step of the loop writes; the second is a work buffer or slice of the same dtype and shape which
    the trip writes. Contents move after all steps of the trip, in any order.

    All else that a trip writes and reads is written earlier in the same trip; it cannot be read after the loop.
    """

    name: str
    count: Extent
    steps: tuple[Step, ...]
    carries: tuple[tuple[str, str], ...] = ()
    slices: tuple[str, ...] = ()
    reverse: bool = False
    comment: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guard:
    """Leaves the loop around it unless `flag`, a b1 of one element, holds: this trip and all later ones end there.

    What the trip has written so far is not carried. A loop with a guard writes no slices, since it need not
    write all rows.
    """

    name: str
    flag: str
    comment: tuple[str, ...] = ()


def rows(outer: Buffer, part: Buffer) -> Extent | None:
    """How many rows of the type of `part` an array has: its first extent, or what its elements make in another shape.

    >>> x, row = Buffer("x", "f32", (20, 3), "work"), Buffer("x_t", "f32", (4, 3), "slice", alias="x")
    >>> rows(x, row)
    5
    """
    if outer.shape and outer.shape[1:] == part.shape:
        return outer.shape[0]
    (whole, dims), (row, same) = _elements(outer.shape), _elements(part.shape)
    if not row or whole % row:
        return None
    if dims and not same:
        alone = [n for n in outer.shape if isinstance(n, Dim)]
        return replace(alone[0], factor=whole // row) if len(alone) == 1 else None
    return whole // row if dims == same else None


def _elements(shape: tuple[Extent, ...]) -> tuple[int, list[str]]:
    """The constant factor of a number of elements, and the run-time dimensions that it is a multiple of."""
    constant = prod(n if isinstance(n, int) else n.factor for n in shape)
    return constant, sorted(n.name for n in shape if not isinstance(n, int))


Kernel = RowKernel | Gemm | LineCall | Routine
"""What becomes a function of the C."""

Step = Kernel | Repeat | Guard


def kernels(steps: Iterable[Step]) -> Iterator[Kernel]:
    """The kernels of the steps in order, those of loops once."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from kernels(step.steps)
        elif not isinstance(step, Guard):
            yield step


def loops(steps: Iterable[Step]) -> Iterator[Repeat]:
    """The loops of the steps in order, a loop before those inside it."""
    for step in steps:
        if isinstance(step, Repeat):
            yield step
            yield from loops(step.steps)


def with_kernels(steps: Iterable[Step], changed: Iterable[Kernel]) -> tuple[Step, ...]:
    """The steps with other kernels, as many as `kernels` yields, in that order."""
    rest = iter(changed)

    def rebuilt(step: Step) -> Step:
        if isinstance(step, Repeat):
            return replace(step, steps=tuple(map(rebuilt, step.steps)))
        return step if isinstance(step, Guard) else next(rest)

    return tuple(map(rebuilt, steps))


def home(name: str, table: Mapping[str, Buffer]) -> str:
    """The buffer of which this one is a slice, or a slice of a slice; itself if it is none."""
    while name in table and table[name].role == "slice":
        name = table[name].alias or ""
    return name


@dataclass(frozen=True)
class Program:
    """A whole model: its buffers, its steps in order, and what callers are told.

    `loss` names the scalar output copied to `args->loss`, if any. `equations` are the lines shown as
    metadata; `Check.node` indexes them.
    """

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    state: tuple[Array, ...] = ()
    dims: tuple[Dim, ...] = ()
    loss: str | None = None
    equations: tuple[str, ...] = ()
    header: tuple[str, ...] = field(default=())

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return self.table[name]

    @property
    def table(self) -> dict[str, Buffer]:
        """Buffers by name."""
        return {b.name: b for b in self.buffers}

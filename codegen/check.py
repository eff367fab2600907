"""The laws of a Program: what `emit` may rely on, or a ProgramError that names the step and the statement.

Comes in: a Program from `gtensor.lower` or written by hand. Goes out: nothing, or the first breach found.
Laws: the boundary is sound (`boundary.py`); variables are C identifiers (with a mark perhaps that the C
does not show, as in `x'2`), defined before use in the scopes of `Phase`, and dtypes agree; every access
stays inside its buffer; a buffer is written before it is read, and an input only if an output takes it
over; inside a step no statement sees what the documented order of rows and phases leaves open; the laws of
loops are in `trips.py`.

Run-time indices. A variable may index if its range is known: it is a Counter, the position found by
argmax or argmin over a row of constant length, a variable that passed a Check before in its scope, a copy
of such a variable or that variable counted from the front (`cexpr.WRAP`), or a load from a buffer all of
whose elements passed a Check in, or were stored from checked variables by, an earlier step. The last rule
lets a step check the labels first and donated memory be written later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from .access import KINDS, Bounds, Use, apart, inside, once, same_element, touches, whole, within_row
from .boundary import check_boundary, wrong_extent
from .cexpr import DTYPES, INTEGERS, REDUCERS, SIZES, STORED, WRAP, Expr, identifier
from .errors import ProgramError
from .program import (
    Access,
    Accumulate,
    Assign,
    Buffer,
    Check,
    Counter,
    Extent,
    Gemm,
    Guard,
    Kernel,
    Line,
    LineCall,
    Load,
    Program,
    Reduce,
    Repeat,
    Routine,
    RowKernel,
    Step,
    Stmt,
    Store,
    Term,
    upper,
)
from .show import show_shape, show_statement
from .trips import Known, enter, guard, leave

_POSITIONS = ("argmax", "argmin")
_WHOLE = r"-?\d+"
_REAL = r"-?\d+(\.\d+)?(e[+-]?\d+)?"
_LITERALS = {
    "f32": re.compile(rf"{_WHOLE}|{_REAL}f|-?INFINITY|NAN"),
    **dict.fromkeys(STORED, re.compile(rf"{_WHOLE}|{_REAL}f|-?INFINITY|NAN")),
    "f64": re.compile(rf"{_REAL}|-?(\(double\))?INFINITY|(\(double\))?NAN"),
    **{tag: re.compile(rf"{_WHOLE}|{DTYPES[tag][:-2].upper()}_M(IN|AX)") for tag in ("i8", "i16", "i32")},
    **{tag: re.compile(rf"\d+|{DTYPES[tag][:-2].upper()}_MAX") for tag in ("u8", "u16")},
    "i64": re.compile(rf"{_WHOLE}|INT64_C\({_WHOLE}\)|INT64_M(IN|AX)"),
    "u32": re.compile(r"\d+|UINT32_C\(\d+\)|UINT32_MAX"),
    "u64": re.compile(r"\d+|UINT64_C\(\d+\)|UINT64_MAX"),
    "b1": re.compile("[01]"),
}
"""The literals of each dtype, as `cexpr.literal` and the reducers write them."""

_COUNT = re.compile(r"(?:INT64_C\()?(\d+)\)?")
"""A literal of a positive integer."""


def check(program: Program) -> None:
    """Raise ProgramError if the program breaks a law.

    >>> from gtensor.codegen.program import Phase
    >>> x = Buffer("x", "f32", (8,), "input", 0)
    >>> k0 = RowKernel("k0", (9,), (Phase(body=(Load("a", "f32", Access("x", (1,))),)),))
    >>> check(Program("p", (x,), (k0,), (x,), ()))
    Traceback (most recent call last):
    gtensor.codegen.errors.ProgramError: k0: f32 a = x[i0]: reads outside 'x' of shape [8]
    """
    check_boundary(program)
    state = Known(program, program.table)
    _steps(state, program.steps)
    for buffer in program.buffers:
        if buffer.role == "output" and buffer.name not in state.written:
            raise ProgramError(f"output {buffer.name!r} is never written")


def _steps(state: Known, steps: Iterable[Step]) -> None:
    """The laws of these steps; those of a loop are checked as those of any one trip."""
    for step in steps:
        if isinstance(step, Repeat):
            before = enter(state, step)
            _steps(state, step.steps)
            leave(state, step, before)
        elif isinstance(step, Guard):
            guard(state, step)
        else:
            _Step(state, step).check()


@dataclass(frozen=True)
class _Value:
    """A variable: its dtype, what is known of its range, and the load it comes from."""

    dtype: str
    bounds: Bounds | None = None
    load: Use | None = None


class _Step:
    """One step, statement after statement."""

    def __init__(self, state: Known, step: Kernel) -> None:
        self.state, self.step = state, step
        touched = touches(step)
        self.taken = {*touched.names(), *(dim.name for dim in state.program.dims)}
        self.scratch = touched.scratch
        self.accumulators = {a.buffer: a for a in step.accumulators}
        self.counters: tuple[str, ...] | None = None
        self.scope: dict[str, _Value] = {}
        self.results: dict[str, _Value] = {}
        self.reads: dict[str, list[Use]] = {}
        self.stores: dict[str, list[Use]] = {}
        self.sums: dict[str, list[Use]] = {}
        self.checked: list[tuple[Use, Bounds]] = []
        self.space: tuple[Extent, ...] = ()
        self.phase, self.body, self.position = 0, True, 0
        self.stmt: Stmt | Term | Line | None = None

    def fail(self, message: str, stmt: Stmt | Term | Line | None = None) -> ProgramError:
        """The error that names this step and the statement at hand."""
        stmt = stmt or self.stmt
        named = None if isinstance(stmt, Term) else self.counters
        return ProgramError(message, step=self.step.name, statement=show_statement(stmt, named) if stmt else "")

    def check(self) -> None:
        """All laws that concern the step."""
        if isinstance(self.step, Routine):
            self.routine(self.step)
            return
        if isinstance(self.step, Gemm):
            self.product(self.step)
        elif isinstance(self.step, LineCall):
            self.call(self.step)
        else:
            self.rows(self.step)
        self.stmt = None
        self.sum_targets()
        self.order()
        self.conclude()

    def rows(self, kernel: RowKernel) -> None:
        """The phases of a row kernel."""
        if not kernel.space:
            raise self.fail("has a space without axes; a scalar kernel has space (1,)")
        self.loops(kernel.space)
        for number, phase in enumerate(kernel.phases):
            self.run(phase.head, (*kernel.space[:-1], 1), number, False)
            outer, self.scope = self.scope, dict(self.scope)
            self.run(phase.body, kernel.space, number, True)
            self.scope = outer | self.results

    def product(self, gemm: Gemm) -> None:
        """The terms and the epilogue of a product."""
        batch = tuple(f"b{axis}" for axis in range(len(gemm.batch)))
        self.counters = (*batch, "m", "n")
        if gemm.dtype not in DTYPES or gemm.dtype in STORED or gemm.route not in ("tile", "blas"):
            raise self.fail(f"has the unknown dtype {gemm.dtype!r} or route {gemm.route!r}")
        self.loops((*gemm.batch, gemm.m, gemm.n))
        if not gemm.terms:
            raise self.fail("has no terms")
        for position, term in enumerate(gemm.terms):
            self.stmt, self.position = term, position
            self.loops((term.k,))
            for access, inner in ((term.a, (gemm.m, term.k)), (term.b, (term.k, gemm.n))):
                self.space = (*gemm.batch, *inner)
                buffer = self.access(access, "operand", self.reads)
                if buffer.dtype != gemm.dtype:
                    raise self.fail(f"operand {access.buffer!r} is {buffer.dtype}, the product {gemm.dtype}")
        self.stmt = None
        self.define(gemm.acc, _Value(gemm.dtype))
        self.run(gemm.epilogue, (*gemm.batch, gemm.m, gemm.n), 1, True)
        self.stmt = None
        if not self.stores and not self.sums:
            raise self.fail("has an epilogue that stores nothing")
        for name in gemm.memory:
            self.scratch_buffer(name, gemm.dtype)
        if gemm.scratch is not None:
            shape = self.state.table[gemm.scratch].shape
            if prod(map(upper, shape)) < upper(gemm.m) * upper(gemm.n):
                raise self.fail(f"the scratch {gemm.scratch!r} of shape {show_shape(shape)} is too small")

    def call(self, step: LineCall) -> None:
        """The lines that a function walks along."""
        self.loops(step.space)
        if not any(line.written for line in step.lines):
            raise self.fail("calls a function that writes nothing")
        for self.position, line in enumerate(step.lines):
            self.stmt = line
            self.loops((line.length,))
            self.space = (*step.space, line.length)
            if not line.written:
                self.access(line.every, "operand", self.reads)
            else:
                self.writable(self.access(line.every, "store", self.stores).name)
                if not once(self.stores[line.access.buffer][-1]):
                    raise self.fail("writes an element twice")
        self.stmt = None
        if not set(step.lengths) <= {line.length for line in step.lines}:
            raise self.fail("is told a length that none of its lines has")
        for name in step.memory:
            self.scratch_buffer(name, "b1")

    def routine(self, step: Routine) -> None:
        """The arrays of a routine: all different, of its dtype, those that it reads written before."""
        state, arrays = self.state, (*step.reads, *step.writes)
        self.loops(step.sizes)
        if not step.writes or not step.sizes:
            raise self.fail("writes nothing, or has no sizes")
        if not -1 <= step.node < len(state.program.equations):
            raise self.fail(f"there is no equation {step.node}")
        if not set(step.writes).isdisjoint(step.reads) or len(set(step.writes)) < len(step.writes):
            raise self.fail("writes an array that it reads, or one twice")
        for name in arrays:
            buffer = state.table.get(name)
            if buffer is None:
                raise self.fail(f"there is no buffer {name!r}")
            if buffer.dtype != step.dtype:
                raise self.fail(f"the array {name!r} is {buffer.dtype}, the routine {step.dtype}")
            if buffer.role == "row" or (buffer.role == "slice" and name not in state.slices):
                raise self.fail(f"{name!r} is memory of another step or loop")
            if name in self.scratch or name in state.scratch:
                raise self.fail(f"{name!r} is scratch memory of a step")
        for name in step.reads:
            if name in state.overwritten or not self.ready(name):
                raise self.fail(f"reads {name!r} before it is written or after it was overwritten")
        for name in step.writes:
            self.writable(name)
        if step.scratch is not None:
            self.scratch_buffer(step.scratch, step.dtype)
        for name in step.writes:
            state.bounds.pop(name, None)
            (state.overwritten if state.table[name].role in ("input", "state") else state.written).add(name)

    def writable(self, name: str) -> None:
        """An input or state is written only where an output takes it over."""
        role = self.state.table[name].role
        if role in ("input", "state"):
            if all(b.alias != name for b in self.state.program.buffers):
                raise self.fail(f"writes the {role} {name!r}, which no output takes over")
            if self.state.depth:
                raise self.fail(f"writes the {role} {name!r} in a loop")

    def loops(self, space: tuple[Extent, ...]) -> None:
        for extent in space:
            if wrong := wrong_extent(extent, self.state.program.dims, 0):
                raise self.fail(f"loop extent {wrong}")

    def run(self, stmts: tuple[Stmt, ...], space: tuple[Extent, ...], phase: int, body: bool) -> None:
        """One list of statements in the present scope."""
        self.space, self.phase, self.body = space, phase, body
        for self.position, self.stmt in enumerate(stmts):
            _STATEMENTS[type(self.stmt)](self, self.stmt)

    def define(self, var: str, value: _Value) -> None:
        """A new variable of the present scope."""
        if value.dtype not in DTYPES:
            raise self.fail(f"{var!r} has the unknown dtype {value.dtype!r}")
        if identifier(plain := var.partition("'")[0]) != plain:
            raise self.fail(f"the variable {var!r} is not a C identifier")
        if var in self.taken:
            raise self.fail(f"the variable {var!r} has the name of a buffer of this step or of a dimension")
        if var in self.scope or var in self.results:
            raise self.fail(f"the variable {var!r} is defined twice")
        (self.results if isinstance(self.stmt, Reduce) else self.scope)[var] = value

    def value(self, text: str, tag: str) -> _Value:
        """The variable or literal of that dtype."""
        value = self.scope.get(text)
        if value is None and _LITERALS[tag].fullmatch(text):
            return _Value(tag)
        if value is None:
            raise self.fail(f"{text!r} is neither a variable in scope nor a literal of {tag}")
        if value.dtype != tag:
            raise self.fail(f"{text!r} is {value.dtype}, not {tag}")
        return value

    def access(self, access: Access, kind: str, uses: dict[str, list[Use]]) -> Buffer:
        """The buffer of a new use, which is inside it."""
        buffer = self.state.table.get(access.buffer)
        if buffer is None:
            raise self.fail(f"there is no buffer {access.buffer!r}")
        if len(access.strides) != len(self.space):
            raise self.fail(f"has {len(access.strides)} strides for {len(self.space)} axes")
        for extent in (*access.strides, access.offset, *(stride for _, stride in access.index)):
            if wrong := wrong_extent(extent, self.state.program.dims):
                raise self.fail(wrong)
        if not self.body and access.strides[-1] != 0:
            raise self.fail("has a stride along the row, but a head runs once per row")
        bounds = {var: self.index(var) for var, _ in access.index}
        use = Use(access, self.space, kind, self.phase, self.body, self.position, self.stmt, bounds)  # type: ignore[arg-type]
        if not inside(use, buffer):
            verb = "writes" if kind in ("store", "accumulate") else "reads"
            raise self.fail(f"{verb} outside {buffer.name!r} of shape {show_shape(buffer.shape)}")
        if buffer.role == "row":
            self.row_buffer(use)
        if buffer.role == "slice" and buffer.name not in self.state.slices:
            raise self.fail(f"{buffer.name!r} is a slice of no loop around this step")
        if buffer.name in self.scratch or buffer.name in self.state.scratch:
            raise self.fail(f"{buffer.name!r} is scratch memory of a step")
        uses.setdefault(buffer.name, []).append(use)
        return buffer

    def index(self, var: str) -> Bounds:
        """The range of a variable that indexes."""
        if var not in self.scope:
            raise self.fail(f"{var!r} is not a variable in scope")
        if self.scope[var].dtype not in INTEGERS:
            raise self.fail(f"the index {var!r} is {self.scope[var].dtype}, not an integer")
        bounds = self.scope[var].bounds
        if bounds is None:
            raise self.fail(f"the index {var!r} has passed no Check")
        return bounds

    def row_buffer(self, use: Use) -> None:
        name = use.access.buffer
        if any(stride != 0 and n != 1 for stride, n in zip(use.access.strides[:-1], self.space[:-1], strict=True)):
            raise self.fail(f"row buffer {name!r} holds one row, but the access moves from row to row")
        if self.state.rows.setdefault(name, self.step.name) != self.step.name:
            raise self.fail(f"row buffer {name!r} is also used by {self.state.rows[name]!r}")

    def write(self, access: Access, text: str, uses: dict[str, list[Use]]) -> _Value:
        """A store or accumulation of a value of the buffer's dtype."""
        buffer = self.access(access, KINDS[type(self.stmt)], uses)
        self.writable(buffer.name)
        return self.value(text, buffer.dtype)

    def load(self, stmt: Load) -> None:
        buffer = self.access(stmt.access, "load", self.reads)
        if buffer.dtype != stmt.dtype:
            raise self.fail(f"loads {buffer.dtype} as {stmt.dtype}")
        bounds = self.state.bounds.get(buffer.name)
        self.define(stmt.var, _Value(stmt.dtype, bounds, self.reads[buffer.name][-1]))

    def assign(self, stmt: Assign) -> None:
        expr = stmt.expr
        if expr.r != stmt.dtype or expr.t not in DTYPES:
            raise self.fail(f"an expression from {expr.t} to {expr.r} is assigned to {stmt.dtype}")
        try:
            expr.text()
        except (IndexError, KeyError, ValueError):
            raise self.fail(f"the template {expr.template!r} does not fit its {len(expr.args)} arguments") from None
        for arg in expr.args:
            if arg in self.scope:
                # Conditions and exponents have a dtype of their own; a float that is not `t` would be converted.
                if self.scope[arg].dtype != expr.t and self.scope[arg].dtype in ("f32", "f64", *STORED):
                    raise self.fail(f"{arg!r} is {self.scope[arg].dtype}, not {expr.t}")
            elif not any(pattern.fullmatch(arg) for pattern in _LITERALS.values()):
                raise self.fail(f"{arg!r} is neither a variable in scope nor a literal")
        copied = self.scope.get(expr.args[0]) if expr.template == "{0}" and expr.t == expr.r else None
        self.define(stmt.var, copied or _Value(stmt.dtype, self.wrapped(expr)))

    def wrapped(self, expr: Expr) -> Bounds | None:
        """The range of an index counted from the front, if that is what the expression is."""
        size = _COUNT.fullmatch(expr.args[1]) if expr.template == WRAP else None
        known = self.scope[expr.args[0]].bounds if size and expr.args[0] in self.scope else None
        if size is None or known is None:
            return None
        length = int(size[1])
        return (0, length) if -length <= known[0] and upper(known[1]) <= length else None

    def counter(self, stmt: Counter) -> None:
        axes = len(self.space) if self.body else len(self.space) - 1
        if not 0 <= stmt.axis < axes:
            raise self.fail(f"there is no counter of axis {stmt.axis} here")
        self.define(stmt.var, _Value("i64", (0, self.space[stmt.axis])))

    def store(self, stmt: Store) -> None:
        value = self.write(stmt.access, stmt.value, self.stores)
        if value.bounds is not None:
            self.checked.append((self.stores[stmt.access.buffer][-1], value.bounds))

    def reduce(self, stmt: Reduce) -> None:
        if isinstance(self.step, Gemm) or not self.body:
            raise self.fail("reduces outside the body of a phase")
        if stmt.op not in REDUCERS or stmt.dtype not in DTYPES:
            raise self.fail(f"there is no reducer {stmt.op!r} of {stmt.dtype}")
        position, length = stmt.op in _POSITIONS, self.space[-1]
        if position and stmt.dtype != "i64":
            raise self.fail(f"a position is i64, not {stmt.dtype}")
        found = self.scope.get(stmt.value)
        if (found.dtype if found else stmt.dtype) in STORED:
            raise self.fail("folds floats of 16 bits, which are only stored")
        self.value(stmt.value, found.dtype if position and found else stmt.dtype)
        # Over an empty row the position is 0, which is no element, so only a constant length gives a range.
        known = position and isinstance(length, int) and length > 0
        self.define(stmt.var, _Value(stmt.dtype, (0, length) if known else None))

    def accumulate(self, stmt: Accumulate) -> None:
        declared = self.accumulators.get(stmt.access.buffer)
        if declared is None or declared.op != stmt.op:
            raise self.fail(f"{stmt.access.buffer!r} is not declared as an accumulator of {stmt.op!r}")
        self.write(stmt.access, stmt.value, self.sums)

    def range_check(self, stmt: Check) -> None:
        value = self.scope.get(stmt.var)
        if value is None or value.dtype not in INTEGERS:
            raise self.fail(f"{stmt.var!r} is not an integer variable in scope")
        if wrong := wrong_extent(stmt.high, self.state.program.dims, None if isinstance(stmt.high, int) else 1):
            raise self.fail(wrong)
        if not 0 <= stmt.node < len(self.state.program.equations):
            raise self.fail(f"there is no equation {stmt.node}")
        bounds: Bounds = (stmt.low, stmt.high)
        if value.bounds is not None:
            low, high = value.bounds
            # Of two ends that cannot be compared the later one holds, as does the earlier.
            both = isinstance(high, int) and isinstance(stmt.high, int)
            bounds = (max(low, stmt.low), high if both and upper(high) < upper(stmt.high) else stmt.high)
        self.scope[stmt.var] = _Value(value.dtype, bounds, value.load)
        if value.load and value.load.body == self.body:
            self.checked.append((value.load, bounds))

    def scratch_buffer(self, name: str, tag: str) -> None:
        buffer = self.state.table.get(name)
        if buffer is None or buffer.role != "work" or SIZES[buffer.dtype] < SIZES[tag]:
            raise self.fail(f"the scratch {name!r} is not a work buffer of {tag} or wider")
        if name in self.state.written:
            raise self.fail(f"the scratch {name!r} holds a value")
        self.state.scratch.add(name)

    def sum_targets(self) -> None:
        """The declared accumulators."""
        table, scratch = self.state.table, [a.scratch for a in self.step.accumulators if a.scratch]
        scratch += self.step.memory if isinstance(self.step, Gemm | LineCall) else ()
        if len(set(scratch)) < len(scratch) or len(self.accumulators) < len(self.step.accumulators):
            raise self.fail("declares an accumulator or its scratch twice")
        for name, declared in self.accumulators.items():
            if declared.op not in REDUCERS or declared.op in _POSITIONS or declared.start not in ("identity", "keep"):
                raise self.fail(f"the accumulator of {name!r} cannot be {declared.op!r} from {declared.start!r}")
            if table[name].dtype in STORED and declared.op != "last":
                raise self.fail(f"the accumulator {name!r} folds floats of 16 bits, which are only stored")
            if name not in self.sums:
                raise self.fail(f"the accumulator {name!r} is not used")
            if name in self.reads or name in self.stores:
                raise self.fail(f"{name!r} is summed in this step and can be used by later ones only")
            if table[name].role == "row":
                raise self.fail(f"the row buffer {name!r} cannot be an accumulator")
            if declared.start == "keep" and not self.ready(name):
                raise self.fail(f"the accumulator {name!r} keeps what was never written")
            if declared.scratch is not None:
                self.scratch_buffer(declared.scratch, table[name].dtype)
                if table[declared.scratch].shape != table[name].shape:
                    raise self.fail(f"the scratch {declared.scratch!r} has another shape than {name!r}")

    def order(self) -> None:
        """What is read was written before; what the step itself writes is read as rows and phases allow."""
        for name, loads in self.reads.items():
            stores, ready = self.stores.get(name, []), self.ready(name)
            for load in loads:
                if name in self.state.overwritten:
                    raise self.fail(f"reads {name!r} after it was overwritten", load.source)
                rows = [within_row(load, store) for store in stores]
                if not ready and not any(rows):
                    raise self.fail(f"reads {name!r} before it is written", load.source)
                for store, own in zip(stores, rows, strict=True):
                    if not (own or same_element(load, store) or apart(load, store)):
                        raise self.fail(
                            f"reads elements of {name!r} that '{show_statement(store.source, self.counters)}' of this"
                            " step writes, neither in an earlier phase of the same row nor as the same element before",
                            load.source,
                        )
        for name, stores in self.stores.items():
            for number, late in enumerate(stores):
                for early in stores[:number]:
                    together = (early.phase, early.body) == (late.phase, late.body)
                    if together and not (same_element(early, late) or apart(early, late)):
                        raise self.fail(f"writes elements of {name!r} that the same phase writes too", late.source)

    def ready(self, name: str) -> bool:
        return self.state.ready(name)

    def conclude(self) -> None:
        """What holds of the buffers after the step."""
        state = self.state
        for name in (*self.stores, *self.sums):
            state.bounds.pop(name, None)
            (state.overwritten if state.table[name].role in ("input", "state") else state.written).add(name)
        for use, bounds in self.checked:
            name = use.access.buffer
            only = name not in self.stores if use.kind == "load" else len(self.stores[name]) == 1
            if only and whole(use, state.table[name]):
                state.bounds[name] = bounds


_STATEMENTS: Mapping[type, Callable[..., None]] = {
    Load: _Step.load,
    Assign: _Step.assign,
    Counter: _Step.counter,
    Store: _Step.store,
    Reduce: _Step.reduce,
    Accumulate: _Step.accumulate,
    Check: _Step.range_check,
}

"""The inside of a kernel function: scalar statements as C, shared by row kernels and products.

In comes a step with its signature; the writers of rows.py and gemm.py call `Body` statement by statement
inside the loops they open. Goes out: lines of C, and the tile functions that they call.
Law: one statement of the program is one statement of the C, in the same order.
"""

from __future__ import annotations

import math
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from .cexpr import DTYPES, RANGES, REDUCERS, SIZES, STORED, literal
from .ctext import FLOATS, VARIABLES, WIDTH, Code, Names, affine, extent, size
from .memory import Place
from .nest import hint, reads
from .program import (
    Access,
    Accumulate,
    Accumulator,
    Assign,
    Buffer,
    Check,
    Counter,
    Extent,
    Kernel,
    Load,
    Reduce,
    Stmt,
    Store,
)
from .signature import Signature, local, statements
from .target import Target
from .tiles import Tile
from .vectors import Lanes, Question, whole_vectors

EXTREMES = {"argmax": "max", "argmin": "min"}
"""Folds of a position: the fold of the values that goes with each."""

BESIDE = 1024
"""Elements of a row up to which running values of it may lie in a small array that has room for whole vectors."""

MOST_BESIDE = 4
"""Such arrays of one kernel: they lie on the stack."""

_ASSIGN = {"sum": "+=", "prod": "*="}
_ASSIGN_BITS = {"any": "|=", "all": "&="}


def fold(op: str, tag: str, so_far: str, value: str) -> str:
    """`so_far = op(so_far, value);`.

    >>> fold("sum", "f32", "s", "x"), fold("max", "f32", "s", "x"), fold("sum", "i32", "s", "x")
    ('s += x;', 's = gt_max_f32(s, x);', 's = gt_add_i32(s, x);')
    """
    short = _ASSIGN_BITS.get(op) or (_ASSIGN.get(op) if tag in FLOATS else None)
    if short:
        return f"{so_far} {short} {value};"
    return f"{so_far} = {REDUCERS[op].combine.format(so_far, value, t=tag)};"


def neutral(op: str, tag: str) -> str:
    """The neutral element of a reducer as C: `0.0f`, `-INFINITY`, `INT32_MIN`."""
    text = REDUCERS[op].initial(tag)
    return literal(float(text), tag) if tag in FLOATS and text.isdigit() else text


def converted(value: str, source: str, target: str) -> str:
    """A value as another dtype; what C converts without loss it may convert by itself.

    >>> converted("s", "f64", "f32"), converted("s", "f32", "f64")
    ('gt_cast_f64_f32(s)', 's')
    """
    free = source == target or (source, target) == ("f32", "f64")
    return value if free else f"gt_cast_{source}_{target}({value})"


def loop(counter: str, end: str, start: str = "0", step: str = "") -> str:
    """The head of a for loop."""
    walk = f"{counter} += {step}" if step else f"++{counter}"
    return f"for (int64_t {counter} = {start}; {counter} < {end}; {walk})"


class Body:
    """The statements of one kernel under way.

    `counters` holds the C of each axis' counter ("0" where there is no loop), and is set by the writer as
    it opens loops; `lanes` is set while statements are written for vectors, and `wide` once they were. `packs` says
    that gt_pack.h is called; `tiles`, `choices` and `rests` are what `tiles.families` has to write for it;
    `libraries` are further headers without their `.h`.
    """

    def __init__(self, step: Kernel, signature: Signature, table: Mapping[str, Buffer], target: Target) -> None:
        self.step = step
        self.signature = signature
        self.table = table
        self.target = target
        self.places = {name: param.place for param in signature.params for name in param.buffers}
        self.lanes: Lanes | None = None
        self.wide = False
        self.packs = False
        self.code = Code()
        self.names = Names(dim.name for dim in signature.dims)
        self.pointers: dict[str, str] = {}
        self.params: list[str] = []
        for param in signature.params:
            name = self.names.new(param.buffers[0])
            self.pointers |= dict.fromkeys(param.buffers, name)
            self.params.append(name)
        self.counters: list[str] = []
        self.tiles: set[Tile] = set()
        self.choices: set[str] = set()
        self.rests: set[str] = set()
        self.libraries: set[str] = set()
        self._note = ""
        self._inline: set[str] = set()
        self._stored: dict[str, Store] = {}
        self._pending: dict[str, Load] = {}
        self._vars: dict[str, tuple[str, str]] = {}
        self.running: dict[str, tuple[str, str]] = {}
        self.roomy: set[str] = set()

    # ---- variables ----

    def define(self, var: str, tag: str, subscript: str = "") -> str:
        """A C name for a variable of the program."""
        name = self.names.new(hint(var), subscript)
        self._vars[var] = (name, tag)
        return name

    def alias(self, var: str, tag: str, text: str) -> None:
        """Let an expression stand for a variable of the program."""
        self._vars[var] = (text, tag)

    def value(self, var: str) -> str:
        """The C of a variable or literal."""
        return self._vars[var][0] if var in self._vars else var

    def tag(self, var: str, otherwise: str) -> str:
        """The dtype of a variable; a literal has the one that is asked for."""
        return self._vars[var][1] if var in self._vars else otherwise

    def subscript(self, strides: Sequence[Extent] | None = None) -> str:
        """The counters as a subscript: of those axes along which an access moves, or of all."""
        moving = (
            self.counters if strides is None else [c for c, s in zip(self.counters, strides, strict=True) if s != 0]
        )
        return "".join(c for c in moving if c != "0") or "0"

    # ---- vectors ----

    def suits_vectors(self, stmts: Sequence[Stmt], axis: int, length: Extent, wide: Iterable[str] = ()) -> bool:
        """Whether statements over an axis of that length can run on vectors; `wide` are variables that are vectors."""
        doubles = [item.buffer for item in self.step.accumulators if item.scratch]
        tags = {var: tag for var, (_, tag) in self._vars.items()}
        return Question(axis, length, self.table, self.places, doubles, tags, set(wide)).answer(stmts, self.target)

    def open_lanes(self, counter: str, length: Extent, end: str, first: str = "0") -> None:
        """Open the loop over vectors of a row, and write its statements for vectors until it is closed."""
        whole = whole_vectors(length, self.target)
        self.wide = True
        self.code.open(loop(counter, end, first, "GT_LANES"))
        self.lanes = Lanes(counter, "" if whole else f"{end} - {counter}")

    # ---- memory ----

    def place(self, access: Access) -> str:
        """The index expression of an access."""
        terms = [(self._index(var), stride) for var, stride in access.index]
        return affine([*terms, *zip(self.counters, access.strides, strict=True)], access.offset)

    def _index(self, var: str) -> str:
        wide = self.tag(var, "i64") == "i64"
        return self.value(var) if wide else f"(int64_t){self.value(var)}"

    def element(self, access: Access) -> str:
        """The element as a C lvalue."""
        return f"{self.pointers[access.buffer]}[{self.place(access)}]"

    def held(self, element: str, tag: str) -> str:
        """The value of an element in memory."""
        return f"gt_from_{self.told(tag)}({element})" if tag in STORED else element

    def kept(self, value: str, tag: str) -> str:
        """What is put into memory for a value."""
        return f"gt_to_{self.told(tag)}({value})" if tag in STORED else value

    def told(self, tag: str) -> str:
        """The tag of a float of 16 bits, after its header is noted."""
        self.libraries.add("gt_half")
        return tag

    def address(self, access: Access) -> str:
        """The address of the element."""
        place = self.place(access)
        return self.pointers[access.buffer] if place == "0" else f"&{self.pointers[access.buffer]}[{place}]"

    # ---- statements ----

    def said(self, note: str) -> str:
        """A note, unless the statement before had the same."""
        fresh, self._note = note != self._note, note
        return note if fresh else ""

    def all(self, stmts: Sequence[Stmt], own: bool = True) -> None:
        """Write statements in order; `own` says that nothing outside of them reads their variables."""
        self._inline = self._single_uses(stmts) if own else set()
        self._stored = _stored_at_once(stmts) if own else {}
        for stmt in stmts:
            self.write(stmt)

    def write(self, stmt: Stmt) -> None:
        """Write one statement."""
        _WRITERS[type(stmt)](self, stmt)

    def _single_uses(self, stmts: Sequence[Stmt]) -> set[str]:
        """The loads that are read once, before their element could be written: they stand where they are read."""
        places = self.places
        loads: dict[str, tuple[int, Place]] = {}
        written: dict[Place, int] = {}
        found: set[str] = set()
        for position, stmt in enumerate(stmts):
            for var, count in mentions(stmt):
                if var in loads:
                    start, place = loads.pop(var)
                    if count == 1 and written.get(place, -1) < start:
                        found.add(var)
                else:
                    found.discard(var)
            if isinstance(stmt, Load):
                loads[stmt.var] = position, places[stmt.access.buffer]
            elif isinstance(stmt, Store | Accumulate):
                written[places[stmt.access.buffer]] = position
        return found

    def constants(self, stmts: Iterable[Stmt]) -> None:
        """Load before the loops what all their elements share and the kernel does not write."""
        alone = (param for param in self.signature.params if param.const and param.restrict)
        fixed = {name for param in alone for name in param.buffers}
        found: dict[tuple[str, Extent], str] = {}
        for stmt in stmts:
            if not isinstance(stmt, Load) or stmt.access.buffer not in fixed:
                continue
            access = stmt.access
            always = all(isinstance(n, int) and n > 0 for n in self.table[access.buffer].shape)
            if always and not access.index and not any(access.strides) and isinstance(access.offset, int):
                first = found.setdefault((access.buffer, access.offset), stmt.var)
                if first == stmt.var:
                    self.load(replace(stmt, access=replace(access, strides=())))
                self._vars[stmt.var] = self._vars[first]

    def load(self, stmt: Load) -> None:
        """`const float x_ij = x[784 * i + j];`, unless it has been loaded before the loops."""
        if stmt.var in self._vars:
            return
        ctype, source = VARIABLES[stmt.dtype], self.held(self.element(stmt.access), stmt.dtype)
        if self.lanes and stmt.access.strides[-1] == 1:
            ctype, source = f"gt_v_{stmt.dtype}", self.lanes.load(stmt.dtype, self.address(stmt.access))
            self.lanes.varying.add(stmt.var)
        if stmt.var in self._inline:
            self._vars[stmt.var] = (source, stmt.dtype)
            self._pending[stmt.var] = stmt
            return
        name = self.define(stmt.var, stmt.dtype, self.subscript(stmt.access.strides))
        self.code.add(f"const {ctype} {name} = {source};")

    def assign(self, stmt: Assign) -> None:
        """`const float h = gt_tanh_f32(z);`, preceded by its loads where that is too wide.

        A value that is only stored is assigned to its element: `h[32 * i + j] = gt_tanh_f32(z);`.
        """
        wide = self.lanes is not None and self.lanes.is_wide(stmt.expr.args)
        if wide and self.lanes:
            self.lanes.varying.add(stmt.var)
        stored = stmt.var in self._stored
        name = (
            self.element(self._stored[stmt.var].access) if stored else self.names.new(hint(stmt.var), self.subscript())
        )
        line = self._assignment(stmt, name, wide)
        if 4 * self.code.depth + len(line) > WIDTH:
            for arg in stmt.expr.args:
                if arg in self._pending:
                    self._inline.discard(arg)
                    del self._vars[arg]
                    self.load(self._pending.pop(arg))
            line = self._assignment(stmt, name, wide)
        self._vars[stmt.var] = (name, stmt.dtype)
        self.code.add(line, self.said(stmt.note))

    def _assignment(self, stmt: Assign, name: str, wide: bool) -> str:
        text = self._expression(stmt, wide)
        if stmt.var in self._stored:
            return self._storing(self._stored[stmt.var], text, wide)
        return f"const {f'gt_v_{stmt.dtype}' if wide else VARIABLES[stmt.dtype]} {name} = {text};"

    def _expression(self, stmt: Assign, wide: bool) -> str:
        expr = stmt.expr
        if expr.t in STORED or expr.r in STORED:
            self.libraries.add("gt_half")
        texts = [self.value(arg) for arg in expr.args]
        if wide and self.lanes:
            return _bare(self.lanes.expression(expr, texts, [self.tag(arg, expr.t) for arg in expr.args]))
        return _bare(expr.template.format(*texts, t=expr.t, r=expr.r))

    def _storing(self, stmt: Store, text: str, wide: bool) -> str:
        """The statement that stores a value of that text; `wide` says that it is a vector."""
        tag = self.table[stmt.access.buffer].dtype
        kept = self.kept(text, tag)
        if not self.lanes:
            return f"{self.element(stmt.access)} = {kept};"
        return self.lanes.store(tag, self.address(stmt.access), text if wide else f"gt_splat_{tag}({text})")

    def count(self, stmt: Counter) -> None:
        """The loop counter itself serves as the variable."""
        self._vars[stmt.var] = (self.counters[stmt.axis], "i64")
        if self.lanes and stmt.axis == len(self.counters) - 1:
            self.lanes.counts.add(stmt.var)

    def store(self, stmt: Store) -> None:
        """`y[784 * i + j] = h;`, unless its value was assigned there."""
        if self._stored.get(stmt.value) is stmt:
            return
        wide = self.lanes is not None and stmt.value in self.lanes.varying
        self.code.add(self._storing(stmt, self.value(stmt.value), wide))

    def accumulate(self, stmt: Accumulate) -> None:
        """`y[j] += h;`, or into the running variable of a one-element target."""
        target, tag = self.running[stmt.access.buffer]
        if self.lanes:
            place = self.place(stmt.access)
            self._accumulate_lanes(stmt, target if place == "0" else f"&{target}[{place}]", tag)
            return
        value = converted(self.value(stmt.value), self.tag(stmt.value, tag), tag)
        if local(self.step, stmt.access.buffer, self.table):
            so_far = target
        else:
            so_far, value = f"{target}[{self.place(stmt.access)}]", self.kept(value, tag)
        self.code.add(fold(stmt.op, tag, so_far, value), self.said(stmt.note))

    def _accumulate_lanes(self, stmt: Accumulate, address: str, tag: str) -> None:
        """`gt_store_f32(&y[j], gt_load_f32(&y[j]) + h);`; f32 into doubles by `gt_add_wide`."""
        assert self.lanes is not None
        value, own = self.value(stmt.value), self.tag(stmt.value, tag)
        note = self.said(stmt.note)
        if tag != own:
            rest = f", {self.lanes.rest}" if self.lanes.rest else ""
            name = "gt_add_wide_upto_f32" if rest else "gt_add_wide_f32"
            self.code.add(f"{name}({address}, {value}{rest});", note)
            return
        lanes = replace(self.lanes, rest="") if stmt.access.buffer in self.roomy else self.lanes
        held = lanes.load(tag, address)
        plain = stmt.op == "sum" and tag == "f32"
        combined = f"{held} + {value}" if plain else REDUCERS[stmt.op].combine.format(held, value, t=f"v_{tag}")
        self.code.add(lanes.store(tag, address, combined), note)

    def check(self, stmt: Check) -> None:
        """Leave the kernel when a value is out of range."""
        tag, name = self.tag(stmt.var, "i64"), self.value(stmt.var)
        lowest, above = RANGES[tag]  # a test outside of it would be always true
        tests = [f"{name} < {extent(stmt.low)}"] if stmt.low > lowest else []
        tests += [f"{name} >= {extent(stmt.high)}"] if not isinstance(stmt.high, int) or stmt.high < above else []
        if tests:
            self.code.add(f"if ({' || '.join(tests)})", self.said(stmt.note))
            self.code.add(f"    return gt_bad_index(args, {stmt.node}, {name});")

    # ---- accumulators ----

    def start(self) -> None:
        """Give every accumulator its first value."""
        for item in self.step.accumulators:
            self.start_one(item)

    def start_one(self, item: Accumulator) -> None:
        """Give an accumulator its first value."""
        buffer, pointer = self.table[item.buffer], self.pointers[item.buffer]
        tag = self.table[item.scratch].dtype if item.scratch else buffer.dtype
        keep = item.start == "keep"
        if local(self.step, item.buffer, self.table):
            name = self.names.new(f"{item.buffer}_total")
            self.running[item.buffer] = (name, tag)
            held = self.held(f"{pointer}[0]", buffer.dtype)
            first = converted(held, buffer.dtype, tag) if keep else neutral(item.op, tag)
            self.code.add(f"{VARIABLES[tag]} {name} = {first};")
            return
        room = self.room(item)
        if room:
            name = self.names.new(f"{hint(item.buffer)}_row")
            self.running[item.buffer] = (name, tag)
            self.roomy.add(item.buffer)
            self.array(name, room)
            self.over(str(room), f"{name}[@] = {neutral(item.op, tag)};")
            return
        target = self.pointers[item.scratch] if item.scratch else pointer
        self.running[item.buffer] = (target, tag)
        if not keep:
            self.over(size(buffer.shape), f"{target}[@] = {neutral(item.op, tag)};")
        elif item.scratch:
            self.over(size(buffer.shape), f"{target}[@] = {converted(f'{pointer}[@]', buffer.dtype, tag)};")

    def room(self, item: Accumulator) -> int:
        """Elements of an array for the running values of one row, with room for whole vectors; 0 where none is needed.

        What is left of a row, added to memory as part of a vector, would wait each time until the part before is
        written: masked stores are not forwarded to loads.
        """
        buffer, lanes = self.table[item.buffer], self.target.lanes(4)
        ways = {s.access for s in statements(self.step) if isinstance(s, Accumulate) and s.access.buffer == item.buffer}
        one_row = all(not (way.index or way.offset or any(way.strides[:-1])) and way.strides[-1] == 1 for way in ways)
        count = math.prod(n for n in buffer.shape if isinstance(n, int))
        one_row = one_row and all(isinstance(n, int) for n in buffer.shape)
        small = count <= BESIDE and len(self.roomy) < MOST_BESIDE
        if not one_row or item.scratch or item.start == "keep" or buffer.dtype != "f32" or not small:
            return 0
        return -(-count // lanes) * lanes if count % lanes else 0

    def array(self, name: str, length: int, dtype: str = "f32", then: str = "") -> None:
        """Declare a small array that vectors can be loaded from."""
        align = " __attribute__((aligned(64)))" if self.target.lanes(SIZES[dtype]) > 1 else ""
        self.code.add(f"{DTYPES[dtype]} {name}[{length}]{align}{then};")

    def finish(self) -> None:
        """Write the running values that live elsewhere to their targets, and say that all went well."""
        for item in self.step.accumulators:
            buffer, pointer = self.table[item.buffer], self.pointers[item.buffer]
            running, tag = self.running[item.buffer]
            if local(self.step, item.buffer, self.table):
                self.code.add(f"{pointer}[0] = {self.kept(converted(running, tag, buffer.dtype), buffer.dtype)};")
            elif item.buffer in self.roomy:
                self.over(size(buffer.shape), f"{pointer}[@] = {running}[@];")
            elif item.scratch:
                total, tag = self.pointers[item.scratch], self.table[item.scratch].dtype
                self.over(size(buffer.shape), f"{pointer}[@] = {converted(f'{total}[@]', tag, buffer.dtype)};")
        if self.signature.fails:
            self.code.add("return GT_OK;")

    def over(self, count: str, line: str) -> None:
        """A loop over that many elements; `@` in the line is the counter."""
        self.names.push()
        counter = self.names.counter()
        self.code.open(loop(counter, count))
        self.code.add(line.replace("@", counter))
        self.code.close()
        self.names.pop()


def _stored_at_once(stmts: Sequence[Stmt]) -> dict[str, Store]:
    """The values that are stored by the next statement and read by no other."""
    reads_of = Counted(var for stmt in stmts for var in reads(stmt))
    return {
        first.var: then
        for first, then in pairwise(stmts)
        if isinstance(first, Assign)
        and isinstance(then, Store)
        and then.value == first.var
        and reads_of[first.var] == 1
    }


def mentions(stmt: Stmt) -> list[tuple[str, int]]:
    """What a statement reads, and how often each is named in its C; 2 stands for more than once."""
    if isinstance(stmt, Assign):
        texts = [stmt.expr.template.count(f"{{{place}}}") for place in range(len(stmt.expr.args))]
        return list(zip(stmt.expr.args, texts, strict=True))
    often = isinstance(stmt, Check) or (isinstance(stmt, Reduce) and stmt.op in EXTREMES)
    return [(var, 2 if often else 1) for var in reads(stmt)]


def _bare(text: str) -> str:
    """An expression without parentheses around all of it.

    >>> _bare("(a + b)"), _bare("(a) + (b)")
    ('a + b', '(a) + (b)')
    """
    depth = 0
    for place, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if c == ")" and place == len(text) - 1 and text[0] == "(" else text
    return text


_WRITERS: dict[type, Callable[[Body, Any], None]] = {
    Load: Body.load,
    Assign: Body.assign,
    Counter: Body.count,
    Store: Body.store,
    Accumulate: Body.accumulate,
    Check: Body.check,
}

"""Row kernels as C: loops over the outer axes, phases row by row, and folds of a row.

In comes a kernel that nest.py has simplified; goes out the inside of its function, on vectors where its
statements have that form. Laws, the order of float sums, max and min over a row: elements are put aside in
blocks, each block is folded in 16 lanes (element i in lane i % 16) and the lanes in halves, blocks one after
another; block sums of f32 are added in double. Rows of at most 8 elements, and every other fold, are one
chain in order. Sums over many rows add up 64 rows in f32, and those sums in double. Vectors change no bit.
"""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .body import BESIDE, EXTREMES, MOST_BESIDE, Body, converted, fold, loop, neutral
from .cexpr import SIZES
from .ctext import FLOATS, VARIABLES, extent, size
from .nest import FOLDED, hint, live
from .program import Access, Accumulate, Assign, Buffer, Extent, Load, Phase, Reduce, RowKernel, Stmt, Store, upper
from .signature import Signature, local, statements
from .target import Target

ONE_BLOCK = 512
"""Rows up to this length are one block: a lane then adds 32 numbers, few enough for float32."""

BLOCK = 256
"""Elements of a block of a longer row."""

ASIDE = 4096
"""Bytes that a phase may put aside: what does not fit is folded in blocks of 256, or else of 64."""

ROWS = 64
"""Rows that are summed in float32, element by element, before their sum goes into a double."""

CHAIN = 8
"""Rows up to this length are folded in one chain: too short for lanes."""


@dataclass(frozen=True)
class _Fold:
    """A Reduce under way: `tag` is the dtype of the elements, `wide` that of the running value `total`.

    A fold in lanes takes its elements from `source`, where they lie one behind the other, or else from
    `part`, where they are put aside (element j at j + shift). For argmax and argmin `total` is the position
    so far and `best` the element there.
    """

    stmt: Reduce
    tag: str
    wide: str
    total: str = ""
    part: str = ""
    shift: str = ""
    best: str = ""
    source: Access | None = None

    def in_lanes(self, length: Extent) -> bool:
        """Whether a row of that length is folded in lanes."""
        floats = self.stmt.dtype in FLOATS and self.tag in FLOATS
        return self.stmt.op in FOLDED and floats and not (isinstance(length, int) and length <= CHAIN)


def write(kernel: RowKernel, signature: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    """The inside of the function of a row kernel."""
    body = _Rows(kernel, signature, table, target)
    if kernel.space != (1,):
        body.constants(statements(kernel))
    body.start()
    outer = kernel.space[:-1] if kernel.phases else ()
    for length in outer[:-1]:
        body.counters.append(body.names.counter())
        body.code.open(loop(body.counters[-1], extent(length)))
    if outer:
        body.rows(outer[-1])
    else:
        body.row()
    for _ in outer[:-1]:
        body.code.close()
    body.finish()
    return body


class _Rows(Body):
    """A body that also writes phases and folds; `plain` kernels are a loop nest around one body."""

    def __init__(self, kernel: RowKernel, signature: Signature, table: Mapping[str, Buffer], target: Target) -> None:
        super().__init__(kernel, signature, table, target)
        self.kernel = kernel
        only = kernel.phases[0] if len(kernel.phases) == 1 else Phase((), ())
        self.plain = bool(only.body) and not only.head and not any(isinstance(stmt, Reduce) for stmt in only.body)
        self.sums = self._row_sums()
        self.beside: dict[str, str] = {}
        self._folds: dict[str, _Fold] = {}

    # ---- sums over rows ----

    def _row_sums(self) -> dict[str, Accumulate]:
        """The accumulators that are summed in float32 over 64 rows at a time: each row adds to the same elements."""
        wide = {a.buffer for a in self.kernel.accumulators if a.scratch and a.op == "sum"}
        wide -= {name for name in wide if local(self.kernel, name, self.table)}
        found: dict[str, Accumulate] = {}
        for stmt in statements(self.kernel):
            if isinstance(stmt, Accumulate) and stmt.access.buffer in wide:
                access = stmt.access
                same = len(self.kernel.space) > 1 and access.strides[-2] == 0 != access.strides[-1] and not access.index
                if not same or access.buffer in found or self.table[access.buffer].dtype != "f32":
                    wide.discard(access.buffer)
                    found.pop(access.buffer, None)
                else:
                    found[access.buffer] = stmt
        return found

    def start(self) -> None:
        """As ever; the sum of a block of rows lies in an array of its own or the target, of all before in scratch."""
        length = self.kernel.space[-1]
        short = isinstance(length, int) and length <= BESIDE
        for item in self.step.accumulators:
            if item.buffer not in self.sums:
                self.start_one(item)
                continue
            buffer, total = self.table[item.buffer], self.pointers[item.scratch or ""]
            pointer = self.pointers[item.buffer]
            self.running[item.buffer] = (pointer, buffer.dtype)
            if item.start != "keep" and short and len(self.beside) < MOST_BESIDE:
                self.beside[item.buffer] = self.names.new(f"{hint(item.buffer)}_rows")
            elif item.start != "keep":
                self.over(size(buffer.shape), f"{pointer}[@] = 0.0f;")
            self.over(size(buffer.shape), f"{total}[@] = 0.0;")

    def rows(self, length: Extent) -> None:
        """The loop over rows, in blocks where sums over rows ask for it."""
        counter, end = self.names.counter(), extent(length)
        self.counters.append(counter)
        if not self.sums:
            self.code.open(loop(counter, end))
            self.row()
            self.code.close()
            self.counters.pop()
            return
        first, stop = self.names.new(f"{counter}0"), self.names.new("end")
        self.code.open(loop(first, end, step=str(ROWS)))
        self.code.add(f"const int64_t {stop} = {first} + {ROWS} < {end} ? {first} + {ROWS} : {end};")
        lanes = self.target.lanes(4)
        for name in self.beside.values():
            self.array(name, -(-upper(self.kernel.space[-1]) // lanes) * lanes, then=" = {0}")
        self.code.open(loop(counter, stop, first))
        self.row()
        self.code.close()
        self.counters[-1] = "0"
        for item in self.step.accumulators:
            if item.buffer in self.sums:
                self._sum_up(self.pointers[item.scratch or ""], self.sums[item.buffer])
        self.code.close()
        self.counters.pop()

    def _sum_up(self, total: str, stmt: Accumulate) -> None:
        """Add the sum of a block of rows to that of the blocks before."""
        self.names.push()
        self.counters.append(self.names.counter())
        self.code.open(loop(self.counters[-1], extent(self.kernel.space[-1])))
        place, beside = self.place(stmt.access), self.beside.get(stmt.access.buffer)
        element = f"{beside}[{self.counters[-1]}]" if beside else self.element(stmt.access)
        self.code.add(f"{total}[{place}] += {element};", "in double")
        if not beside:
            self.code.add(f"{element} = 0.0f;")
        self.code.close()
        self.counters.pop()
        self.names.pop()

    # ---- phases ----

    def row(self) -> None:
        """All phases over one row."""
        for phase in self.kernel.phases:
            self.phase(phase, self.kernel.space[-1])

    def phase(self, phase: Phase, length: Extent) -> None:
        """The head, then the loop over the row with its folds around it."""
        self.counters.append("0")
        self.all(phase.head, own=False)
        self.counters.pop()
        tags = {stmt.var: stmt.dtype for stmt in phase.body if isinstance(stmt, Load | Assign)}
        folds = [
            _Fold(stmt, tags.get(stmt.value) or self.tag(stmt.value, stmt.dtype), stmt.dtype)
            for stmt in phase.body
            if isinstance(stmt, Reduce)
        ]
        lanes = [item.stmt.var for item in folds if item.in_lanes(length)]
        sources = self._sources(phase.body, [item for item in folds if item.in_lanes(length)])
        wide = sum(SIZES[item.tag] for item in folds if item.stmt.var in lanes and item.stmt.var not in sources)
        block = BLOCK if BLOCK * wide <= ASIDE else BLOCK // 4
        blocks = not isinstance(length, int) or length > ONE_BLOCK or (length > block and length * wide > ASIDE)
        for item in folds:
            var = item.stmt.var
            found = replace(item, source=sources.get(var))
            self._folds[var] = self._lanes(found, blocks) if var in lanes else self._chain(found)
        body = live([stmt for stmt in phase.body if not (isinstance(stmt, Reduce) and stmt.var in sources)])
        if lanes and blocks:
            self._blocks(body, extent(length), block, lanes)
        else:
            for var in lanes:
                self._put_aside(var, extent(length), "")
            self._row(body, length)
        for var in lanes:
            self._close(self._folds[var], "" if blocks else extent(length))

    def write(self, stmt: Stmt) -> None:
        """Write one statement."""
        if isinstance(stmt, Reduce):
            self._take(self._folds[stmt.var])
        elif isinstance(stmt, Accumulate) and stmt.access.buffer in self.beside:
            self._add_beside(stmt, self.beside[stmt.access.buffer])
        else:
            super().write(stmt)

    def _add_beside(self, stmt: Accumulate, rows: str) -> None:
        """Add an element, or a vector of them, to the sum of a block of rows; lanes behind the row have room there."""
        place = f"{rows}[{self.counters[-1]}]"
        value = converted(self.value(stmt.value), self.tag(stmt.value, "f32"), "f32")
        if self.lanes:
            self.code.add(f"gt_store_f32(&{place}, gt_load_f32(&{place}) + {value});", self.said(stmt.note))
        else:
            self.code.add(f"{place} += {value};", self.said(stmt.note))

    # ---- loops over the row ----

    def _row(self, stmts: Sequence[Stmt], length: Extent) -> None:
        """One loop over all elements; a row of one element needs none."""
        if not stmts:
            return
        self.names.push()
        if length == 1:
            self.counters.append("0")
            if not self.plain:
                self.code.open()
            self.all(stmts)
            if not self.plain:
                self.code.close()
            self.counters.pop()
        else:
            self._elements(stmts, self.names.counter(), extent(length))
        self.names.pop()

    def _elements(self, stmts: Sequence[Stmt], counter: str, end: str, first: str = "0") -> None:
        """The loop over elements, on vectors where that is possible."""
        length = self.kernel.space[-1]
        folded = all(self._folds[stmt.var].in_lanes(length) for stmt in stmts if isinstance(stmt, Reduce))
        axis = len(self.kernel.space) - 1
        wide = folded and not self._meets_next_row(stmts) and self.suits_vectors(stmts, axis, length)
        self.counters.append(counter)
        if wide:
            self.open_lanes(counter, length, end, first)
        else:
            self.code.open(loop(counter, end, first))
        self.all(stmts)
        self.code.close()
        self.lanes = None
        self.counters.pop()

    def _meets_next_row(self, stmts: Sequence[Stmt]) -> bool:
        """Whether sums in memory fill a part of a vector only: the load of the next ones would wait for the store."""
        length, lanes = self.kernel.space[-1], self.target.lanes(SIZES["f32"])
        sums = any(isinstance(stmt, Accumulate) and stmt.access.strides[-1] != 0 for stmt in stmts)
        return sums and isinstance(length, int) and length < lanes

    def _blocks(self, stmts: Sequence[Stmt], length: str, block: int, lanes: Sequence[str]) -> None:
        """The same in blocks, each followed by its folds."""
        self.names.push()
        counter = self.names.counter()
        first, end = self.names.new(f"{counter}0"), self.names.new("end")
        self.code.open(loop(first, length, step=str(block)))
        self.code.add(f"const int64_t {end} = {first} + {block} < {length} ? {first} + {block} : {length};")
        for var in lanes:
            self._put_aside(var, str(block), f" - {first}")
        if stmts:
            self.names.push()
            self._elements(stmts, counter, end, first)
            self.names.pop()
        for var in lanes:
            item = self._folds[var]
            folded = self._folded(item, first, f"{end} - {first}")
            self.code.add(fold(item.stmt.op, item.wide, item.total, folded))
        self.code.close()
        self.names.pop()

    # ---- folds ----

    def _sources(self, body: Sequence[Stmt], folds: Sequence[_Fold]) -> dict[str, Access]:
        """Where the elements of a fold lie in memory one behind the other once the loop has run."""
        places = {name: param.place for param in self.signature.params for name in param.buffers}
        written = Counted(places[stmt.access.buffer] for stmt in body if isinstance(stmt, Store | Accumulate))
        found: dict[tuple[str, str], Access] = {}
        for stmt in body:
            if isinstance(stmt, Load | Store) and stmt.access.strides[-1] == 1 and not stmt.access.index:
                value, writes = (stmt.var, 0) if isinstance(stmt, Load) else (stmt.value, 1)
                if written[places[stmt.access.buffer]] == writes:
                    found[value, self.table[stmt.access.buffer].dtype] = stmt.access
        keys = {item.stmt.var: (item.stmt.value, item.tag) for item in folds}
        return {var: found[key] for var, key in keys.items() if key in found}

    def _chain(self, item: _Fold) -> _Fold:
        """Open a fold in one chain: the running value is the variable itself."""
        stmt = item.stmt
        total = self.define(stmt.var, stmt.dtype)
        if stmt.op in EXTREMES:
            best = self.names.new(f"{total}_best")
            self.code.add(f"{VARIABLES[item.tag]} {best} = {neutral(EXTREMES[stmt.op], item.tag)};")
            self.code.add(f"int64_t {total} = 0;", self.said(stmt.note))
            return replace(item, total=total, best=best)
        self.code.add(f"{VARIABLES[stmt.dtype]} {total} = {neutral(stmt.op, stmt.dtype)};", self.said(stmt.note))
        return replace(item, total=total)

    def _lanes(self, item: _Fold, blocks: bool) -> _Fold:
        """Open a fold in lanes: over several blocks there is a running value, in double for sums."""
        stmt = item.stmt
        if not blocks:
            return replace(item, wide=item.tag)
        wide = "f64" if stmt.op == "sum" else item.tag
        named = wide == stmt.dtype
        total = self.define(stmt.var, wide) if named else self.names.new(f"{hint(stmt.var)}_total")
        self.code.add(f"{VARIABLES[wide]} {total} = {neutral(stmt.op, wide)};", self.said(stmt.note if named else ""))
        return replace(item, wide=wide, total=total)

    def _put_aside(self, var: str, length: str, shift: str) -> None:
        """Declare the block of elements of a fold, where they do not lie in memory already."""
        item = self._folds[var]
        if item.source is None:
            part = self.names.new(f"{hint(var)}_part")
            self.code.add(f"{VARIABLES[item.tag]} {part}[{length}];")
            self._folds[var] = replace(item, part=part, shift=shift)

    def _take(self, item: _Fold) -> None:
        """Take one element into a fold."""
        stmt, value = item.stmt, self.value(item.stmt.value)
        if item.best:
            self.code.open(f"if (gt_{stmt.op}_{item.tag}({value}, {item.best}))")
            self.code.add(f"{item.best} = {value};")
            self.code.add(f"{item.total} = {self.counters[-1]};")
            self.code.close()
        elif item.part:
            place = f"{item.part}[{self.counters[-1]}{item.shift}]"
            self.code.add(self.lanes.store(item.tag, f"&{place}", value) if self.lanes else f"{place} = {value};")
        else:
            self.code.add(fold(stmt.op, item.wide, item.total, converted(value, item.tag, item.wide)))

    def _folded(self, item: _Fold, first: str, length: str) -> str:
        """One block folded in lanes."""
        self.counters.append(first)
        where = self.address(item.source) if item.source else item.part
        self.counters.pop()
        return f"gt_row_{item.stmt.op}_{item.tag}({where}, {length})"

    def _close(self, item: _Fold, length: str) -> None:
        """Name the result of a fold in lanes, where its running value does not bear the name."""
        stmt = item.stmt
        if length or item.wide != stmt.dtype:
            result = self._folded(item, "0", length) if length else item.total
            name = self.define(stmt.var, stmt.dtype)
            text = f"const {VARIABLES[stmt.dtype]} {name} = {converted(result, item.wide, stmt.dtype)};"
            self.code.add(text, self.said(stmt.note))

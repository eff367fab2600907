"""Row kernels as C: loops over the outer axes, phases row by row, and folds of a row.

In comes a kernel that nest.py has simplified; goes out the inside of its function. Law, the order of
float sums, max and min over a row: elements are put aside in blocks, each block is folded in 16 lanes
(element i in lane i % 16) and the lanes in halves, blocks one after another; block sums of f32 are added in
double. Rows of at most 8 elements, and every other fold, are one chain in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .body import FLOATS, Body, converted, fold, loop, neutral
from .ctext import VARIABLES, extent
from .nest import FOLDED, hint
from .program import Assign, Buffer, Extent, Load, Phase, Reduce, RowKernel, Stmt
from .signature import Signature

BLOCK = 256
"""Elements folded at a time: 1 or 2 KB that stay in the first-level cache."""

MANY_BLOCK = 64
"""The same in a phase of more than two folds, so that what is put aside stays small."""

CHAIN = 8
"""Rows up to this length are folded in one chain: too short for lanes."""

EXTREMES = {"argmax": "max", "argmin": "min"}


@dataclass(frozen=True)
class _Fold:
    """A Reduce under way: its running value, and the block of elements put aside ("" for a chain).

    `tag` is the dtype of the elements, `wide` that of the running value; for argmax and argmin `total` is
    the position so far and `best` the element there.
    """

    stmt: Reduce
    tag: str
    wide: str
    total: str
    part: str = ""
    best: str = ""


def write(kernel: RowKernel, signature: Signature, table: Mapping[str, Buffer]) -> Body:
    """The inside of the function of a row kernel."""
    body = _Rows(kernel, signature, table)
    body.start()
    outer = kernel.space[:-1] if kernel.phases else ()
    for place, length in enumerate(outer):
        body.counters.append(body.names.counter())
        body.code.open(loop(body.counters[-1], extent(length)), brace=place == len(outer) - 1 and not body.plain)
    for phase in kernel.phases:
        body.phase(phase, kernel.space[-1])
    for _ in outer:
        body.code.close()
    body.finish()
    return body


class _Rows(Body):
    """A body that also writes phases and folds; `plain` kernels are a loop nest around one body."""

    def __init__(self, kernel: RowKernel, signature: Signature, table: Mapping[str, Buffer]) -> None:
        super().__init__(kernel, signature, table)
        only = kernel.phases[0] if len(kernel.phases) == 1 else Phase((), ())
        self.plain = bool(only.body) and not only.head and not any(isinstance(stmt, Reduce) for stmt in only.body)
        self._folds: dict[str, _Fold] = {}

    def phase(self, phase: Phase, length: Extent) -> None:
        """The head, then the loop over the row with its folds around it."""
        self.counters.append("0")
        self.all(phase.head)
        self.counters.pop()
        if not phase.body:
            return
        folds = [stmt for stmt in phase.body if isinstance(stmt, Reduce)]
        tags = {stmt.var: stmt.dtype for stmt in phase.body if isinstance(stmt, Load | Assign)}
        lanes = [stmt for stmt in folds if self._in_lanes(stmt, tags, length)]
        block = BLOCK if len(lanes) <= 2 else MANY_BLOCK
        blocks = not isinstance(length, int) or length > block
        for stmt in folds:
            tag = self._tag(stmt, tags)
            if stmt not in lanes:
                self._open_chain(stmt, tag)
            elif blocks:
                self._open_blocks(stmt, tag)
            else:
                self._open_block(stmt, tag, extent(length))
        if lanes and blocks:
            self._blocks(phase.body, extent(length), block, lanes)
        else:
            self._row(phase.body, length)
        for stmt in lanes:
            self._close(self._folds[stmt.var], "" if blocks else extent(length))

    def all(self, stmts: Iterable[Stmt]) -> None:
        """Write statements in order."""
        for stmt in stmts:
            if isinstance(stmt, Reduce):
                self._fold(self._folds[stmt.var])
            else:
                super().all((stmt,))

    # ---- loops over the row ----

    def _row(self, stmts: Sequence[Stmt], length: Extent) -> None:
        """One loop over all elements; a row of one element needs none."""
        self.names.push()
        if length == 1:
            self.counters.append("0")
            if not self.plain:
                self.code.open()
        else:
            self.counters.append(self.names.counter())
            self.code.open(loop(self.counters[-1], extent(length)))
        self.all(stmts)
        if length != 1 or not self.plain:
            self.code.close()
        self.counters.pop()
        self.names.pop()

    def _blocks(self, stmts: Sequence[Stmt], length: str, block: int, lanes: Sequence[Reduce]) -> None:
        """The same in blocks, each followed by its folds."""
        self.names.push()
        counter = self.names.counter()
        first, end = self.names.new(f"{counter}0"), self.names.new("end")
        self.counters.append(counter)
        self.code.open(loop(first, length, step=str(block)))
        self.code.add(f"const int64_t {end} = {first} + {block} < {length} ? {first} + {block} : {length};")
        for stmt in lanes:
            item = self._folds[stmt.var]
            part = self.names.new(f"{hint(stmt.var)}_part")
            self._folds[stmt.var] = replace(item, part=f"{part}[{counter} - {first}]")
            self.code.add(f"{VARIABLES[item.tag]} {part}[{block}];")
        self.code.open(loop(counter, end, first))
        self.names.push()
        self.all(stmts)
        self.names.pop()
        self.code.close()
        for stmt in lanes:
            item = self._folds[stmt.var]
            folded = f"gt_row_{stmt.op}_{item.tag}({item.part.split('[')[0]}, {end} - {first})"
            self.code.add(fold(stmt.op, item.wide, item.total, folded))
        self.code.close()
        self.counters.pop()
        self.names.pop()

    # ---- folds ----

    def _tag(self, stmt: Reduce, tags: Mapping[str, str]) -> str:
        """The dtype of the elements of a fold."""
        return tags.get(stmt.value) or self.tag(stmt.value, stmt.dtype)

    def _in_lanes(self, stmt: Reduce, tags: Mapping[str, str], length: Extent) -> bool:
        floats = stmt.dtype in FLOATS and self._tag(stmt, tags) in FLOATS
        return stmt.op in FOLDED and floats and not (isinstance(length, int) and length <= CHAIN)

    def _open_chain(self, stmt: Reduce, tag: str) -> None:
        """The running value is the variable itself."""
        total = self.define(stmt.var, stmt.dtype)
        best = ""
        if stmt.op in EXTREMES:
            best = self.names.new(f"{total}_best")
            self.code.add(f"{VARIABLES[tag]} {best} = {neutral(EXTREMES[stmt.op], tag)};")
            self.code.add(f"int64_t {total} = 0;", stmt.note)
        else:
            self.code.add(f"{VARIABLES[stmt.dtype]} {total} = {neutral(stmt.op, stmt.dtype)};", stmt.note)
        self._folds[stmt.var] = _Fold(stmt, tag, stmt.dtype, total, best=best)

    def _open_blocks(self, stmt: Reduce, tag: str) -> None:
        """The running value over the blocks; sums are double."""
        self.needs.add(("fold", stmt.op, tag))
        wide = "f64" if stmt.op == "sum" else tag
        named = wide == stmt.dtype
        total = self.define(stmt.var, wide) if named else self.names.new(f"{hint(stmt.var)}_total")
        self.code.add(f"{VARIABLES[wide]} {total} = {neutral(stmt.op, wide)};", stmt.note if named else "")
        self._folds[stmt.var] = _Fold(stmt, tag, wide, total)

    def _open_block(self, stmt: Reduce, tag: str, length: str) -> None:
        """The whole row is one block."""
        self.needs.add(("fold", stmt.op, tag))
        part = self.names.new(f"{hint(stmt.var)}_part")
        self.code.add(f"{VARIABLES[tag]} {part}[{length}];")
        self._folds[stmt.var] = _Fold(stmt, tag, tag, "", part=f"{part}[@]")

    def _fold(self, item: _Fold) -> None:
        """Take one element in."""
        stmt, value = item.stmt, self.value(item.stmt.value)
        if item.best:
            self.code.open(f"if (gt_{stmt.op}_{item.tag}({value}, {item.best}))")
            self.code.add(f"{item.best} = {value};")
            self.code.add(f"{item.total} = {self.counters[-1]};")
            self.code.close()
        elif item.part:
            self.code.add(f"{item.part.replace('@', self.counters[-1])} = {value};")
        else:
            self.code.add(fold(stmt.op, item.wide, item.total, converted(value, item.tag, item.wide)))

    def _close(self, item: _Fold, length: str) -> None:
        """Name the result of a fold in lanes, where its running value does not bear the name."""
        stmt = item.stmt
        result = f"gt_row_{stmt.op}_{item.tag}({item.part.split('[')[0]}, {length})" if length else item.total
        if length or item.wide != stmt.dtype:
            name = self.define(stmt.var, stmt.dtype)
            value = converted(result, item.tag if length else item.wide, stmt.dtype)
            self.code.add(f"const {VARIABLES[stmt.dtype]} {name} = {value};", stmt.note)

"""Matrix products: who computes them, and the inside of their functions.

`prepare` runs before the memory plan: it takes batch axes into the rows where strides allow, sends big plain
products to BLAS and adds the scratch buffers that this needs. `write` emits the loops over tiles; the tiles
themselves are functions shared by all products of a unit (tiles.py). Law: each element of a product is one
chain of multiply-adds in k order, whatever the tile; BLAS keeps its own order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from .blocking import STACK_BYTES, Layout, across, layout
from .body import Body, loop, mentions
from .cexpr import SIZES, literal
from .ctext import FLOATS, VARIABLES, affine, call, extent
from .nest import gemm_axes
from .program import (
    Access,
    Accumulate,
    Buffer,
    Counter,
    Dim,
    Extent,
    Gemm,
    Load,
    Program,
    Store,
    Term,
    kernels,
    upper,
    with_kernels,
)
from .signature import Signature
from .target import Target
from .tiles import Tile
from .vectors import whole_vectors

BLAS_FROM = 500_000_000
"""Multiply-adds of one product above which BLAS is called. GFLOP/s of one core of a Sapphire Rapids (peak 217), our
tiles / OpenBLAS: 64x64x64 180 / 167, 128x784x256 169 / 129, 256x1024x1024 138 / 115, 512x2048x512 153 / 128,
1024x1024x1024 141 / 136, 2048x256x2048 124 / 133, 2048x2048x2048 93 / 146."""


# ---- who computes it --------------------------------------------------------------------------------------


def prepare(program: Program, target: Target, blas: bool) -> Program:
    """The program with simpler products, the big ones sent to BLAS if there is one, and the memory that they need."""
    table = program.table
    added: list[Buffer] = []

    def work(hint: str, dtype: str, shape: tuple[Extent, ...]) -> str:
        name = _free(hint, table)
        table[name] = Buffer(name, dtype, shape, "work")
        added.append(table[name])
        return name

    steps = list(kernels(program.steps))
    for place, step in enumerate(steps):
        if not isinstance(step, Gemm):
            continue
        gemm = gemm_axes(step)
        by_blas = gemm.route == "blas" or (blas and target.variant != "portable" and _for_blas(gemm))
        cut = layout(gemm, target)
        if (by_blas or cut.depth or cut.aside) and not _plain_store(gemm, table):
            gemm = replace(gemm, scratch=work(f"{gemm.name}_product", gemm.dtype, (gemm.m, gemm.n)))
        if by_blas:
            gemm = replace(gemm, route="blas")
        else:
            a, b = _packed_a(gemm, cut), _packed_b(gemm, cut)
            if a:
                gemm = replace(gemm, packed_a=work(f"{gemm.name}_a", gemm.dtype, (a,)))
            if b * SIZES[gemm.dtype] > STACK_BYTES:
                gemm = replace(gemm, packed_b=work(f"{gemm.name}_b", gemm.dtype, (b,)))
        steps[place] = gemm
    return replace(program, steps=with_kernels(program.steps, steps), buffers=(*program.buffers, *added))


def _packed_a(gemm: Gemm, cut: Layout) -> int:
    """Elements of the copies of the first operands that are needed at once."""
    tall = -(-upper(gemm.m) // cut.rows) * cut.rows
    sizes = [tall * cut.span(term.k) for term, kind in zip(gemm.terms, cut.a, strict=True) if kind]
    return (max if cut.depth else sum)([0, *sizes])


def _packed_b(gemm: Gemm, cut: Layout) -> int:
    """Elements of the panels of second operands that are needed at once."""
    sizes = [cut.panel(term.k) for term, kind in zip(gemm.terms, cut.b, strict=True) if kind]
    return (max if cut.depth else sum)([0, *sizes])


def _free(name: str, table: Mapping[str, Buffer]) -> str:
    while name in table:
        name += "_"
    return name


def _for_blas(gemm: Gemm) -> bool:
    """Whether a product is big enough, and of a form that BLAS takes."""
    work = upper(gemm.m) * upper(gemm.n) * sum(upper(term.k) for term in gemm.terms)
    return (
        gemm.dtype in FLOATS
        and work > BLAS_FROM
        and all(_operand(t.a, gemm.m, t.k) and _operand(t.b, t.k, gemm.n) for t in gemm.terms)
    )


def _operand(access: Access, rows: Extent, cols: Extent) -> tuple[str, Extent] | None:
    """How BLAS takes a matrix: plain (N) or transposed (T), and the distance of its rows; None if it cannot."""
    down, along = access.strides[-2:]
    if along == 1 and _covers(down, cols):
        return "N", down
    if down == 1 and _covers(along, rows):
        return "T", along
    return None


def _covers(distance: Extent, length: Extent) -> bool:
    """Whether rows of that length lie apart, always, and in 32 bits."""
    if max(upper(distance), upper(length)) >= 2**31:
        return False
    if isinstance(distance, Dim) or isinstance(length, Dim):
        return distance == length
    return distance >= max(length, 1)


def _plain_store(gemm: Gemm, table: Mapping[str, Buffer]) -> Access | None:
    """Where BLAS may write the product itself: the epilogue only stores it, row by row."""
    if len(gemm.epilogue) != 1 or not isinstance(gemm.epilogue[0], Store):
        return None
    access = gemm.epilogue[0].access
    down, along = access.strides[-2:]
    dense = along == 1 and _covers(down, gemm.n) and not access.index
    same = gemm.epilogue[0].value == gemm.acc and table[access.buffer].dtype == gemm.dtype
    return access if dense and same else None


# ---- the function -----------------------------------------------------------------------------------------


def write(gemm: Gemm, signature: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    """The inside of the function of a product."""
    body = _Product(gemm, signature, table, target)
    body.constants(gemm.epilogue)
    body.start()
    if gemm.epilogue:
        for length in gemm.batch:
            body.counters.append(body.names.counter())
            body.code.open(loop(body.counters[-1], extent(length)))
        _ROUTES[gemm.route if gemm.terms else "none"](body)
        for _ in gemm.batch:
            body.code.close()
    body.finish()
    return body


class _Rows(NamedTuple):
    """A first operand as tiles read it: distances along m and k, and where it lies, or its copy of `span` per row."""

    steps: list[str]
    packed: str = ""
    span: int = 0
    access: Access | None = None


class _Product(Body):
    """A body that also writes products."""

    def __init__(self, gemm: Gemm, signature: Signature, table: Mapping[str, Buffer], target: Target) -> None:
        super().__init__(gemm, signature, table, target)
        self.gemm = gemm
        self.layout = layout(gemm, target)

    def by_tiles(self) -> None:
        """Loops over blocks of k, panels of b and tiles of rows; a finished tile goes through the epilogue.

        Where k is cut, the sums wait in the result itself or in memory set aside, and each term is a pass of its own;
        otherwise all terms are summed tile by tile.
        """
        gemm, cut = self.gemm, self.layout
        if cut.across:
            self._across()
            return
        direct = None if gemm.scratch else _plain_store(gemm, self.table)
        into = self._sums(direct)
        panels = self._panels()
        numbered = [*enumerate(gemm.terms)]
        for terms in [[item] for item in numbered] if cut.depth else [numbered]:
            self.names.push()
            p0, depth, more = self._cut_k(terms)
            a_sides = self._pack_a(terms, p0, depth)
            i, j = self.names.counter(), self.names.counter()
            j, j0, cols = self._cut(gemm.n, cut.cols, j, "cols")
            b_sides = [self._pack_b(number, term, panels, p0, depth, j0, cols) for number, term in terms]
            i, i0, rows = self._cut(gemm.m, cut.rows, i, "rows")
            for (number, term), a_side, b_side in zip(terms, a_sides, b_sides, strict=True):
                span = depth or extent(term.k)
                c, cm = into(i0, j0)
                args = [rows, cols, span, *self._rows(a_side, i0, p0), *b_side, more or str(int(number > 0)), c, cm]
                self._tile(args, gemm.m, gemm.n, strided=cut.lanes == 1 and term.b.strides[-1] != 1)
            if terms[-1] == numbered[-1] and not direct and not cut.aside:
                if p0 != "0":
                    self.code.open(f"if ({p0} + {cut.depth} >= {extent(terms[-1][1].k)})")
                self._elements((i, i0, rows), (j, j0, cols), self._source(into, i, i0, j, j0))
                if p0 != "0":
                    self.code.close()
            for first in (i0, j0, p0):
                if first != "0":
                    self.code.close()
            self.names.pop()
        if cut.aside and not direct:
            self._all_elements(self.pointers[gemm.scratch or ""])

    def _across(self) -> None:
        """Loops over vectors of rows: the transpose of their part of the product is summed, and turned back.

        Rows lie one behind the other in the tile, so an epilogue of single elements runs over all of them at once.
        """
        gemm, cut = self.gemm, self.layout
        direct = None if gemm.scratch else _plain_store(gemm, self.table)
        sums, tile = self._array("sums", cut.rows * cut.cols), ""
        if not direct:
            whole = isinstance(gemm.m, int) and _is_flat(gemm) and whole_vectors(gemm.m * cut.rows, self.target)
            tile = self._array("tile", (cut.cols + 1) * cut.rows + cut.lanes, zero=not whole)
        panels = self._panels()
        each, j = self.names.counter(), self.names.counter()
        i, i0, rows = self._cut(gemm.m, cut.cols, each, "rows")
        for number, term in enumerate(map(across, gemm.terms)):
            b_side = self._pack_b(number, term, panels, "0", "", i0, rows)
            a_side = [self._at(term.a, "0", "0"), *map(extent, term.a.strides[-2:])]
            more = str(int(number > 0))
            args = [extent(gemm.n), rows, extent(term.k), *a_side, *b_side, more, sums, str(cut.cols)]
            self._tile(args, gemm.n, gemm.m)
        n = cut.rows
        to = [self._at(direct, i0, "0"), extent(direct.strides[-2])] if direct else [tile, str(n)]
        self._pack("turn", [rows, str(n), sums, str(cut.cols), *to])
        if not direct and _is_flat(gemm):
            count = str(n * int(rows)) if rows.isdigit() else f"{n} * {rows}"
            place = affine([(each, 1), (i0, -n)])
            self._elements(("0", "0", "1"), (each, affine([(i0, n)]), count), f"{tile}[{place}]")
        elif not direct:
            place = affine([(i, n), (i0, -n), (j, 1)])
            self._elements((i, i0, rows), (j, "0", str(n)), f"{tile}[{place}]")
        if i0 != "0":
            self.code.close()

    def _sums(self, direct: Access | None) -> Callable[[str, str], tuple[str, str]]:
        """Where a tile at (i0, j0) leaves its sums, and how far its rows lie apart there, as C."""
        gemm, cut = self.gemm, self.layout
        if direct:
            return lambda i0, j0: (self._at(direct, i0, j0), extent(direct.strides[-2]))
        if gemm.scratch:
            product = self.pointers[gemm.scratch]
            return lambda i0, j0: (_plus(product, affine([(i0, gemm.n), (j0, 1)])), extent(gemm.n))
        tile = self._array("tile", cut.rows * cut.cols, zero=not whole_vectors(gemm.n, self.target))
        return lambda i0, j0: (tile, str(cut.cols))

    def _source(self, into: Callable[[str, str], tuple[str, str]], i: str, i0: str, j: str, j0: str) -> str:
        """The element (i, j) of the sums, as C."""
        gemm, cut = self.gemm, self.layout
        if gemm.scratch:
            return f"{self.pointers[gemm.scratch]}[{affine([(i, gemm.n), (j, 1)])}]"
        row = affine([(i, cut.cols)]) if i0 == "0" else f"{cut.cols} * ({i} - {i0})"
        place = " + ".join(part for part in (row, affine([(j, 1), (j0, -1)])) if part != "0") or "0"
        return f"{into(i0, j0)[0]}[{place}]"

    def _all_elements(self, product: str) -> None:
        """The epilogue over the whole product, which lies aside."""
        i, j = self.names.counter(), self.names.counter()
        place = affine([(i, self.gemm.n), (j, 1)])
        self._elements((i, "0", extent(self.gemm.m)), (j, "0", extent(self.gemm.n)), f"{product}[{place}]")

    def _at(self, access: Access, *counters: str) -> str:
        """The address of an element of an operand or of the result, within the present element of the batch."""
        self.counters += counters
        address = self.address(access)
        del self.counters[-2:]
        return address

    def _array(self, hint: str, length: int, zero: bool = False) -> str:
        """Declare a small array of the product's dtype, that vectors can be loaded from.

        `zero`: an epilogue on vectors also computes with elements behind the end of a row, which no tile writes. What
        lies on the stack would do, but may be denormal numbers, and with them a kernel takes ten times as long.
        """
        name = self.names.new(hint)
        dtype = self.gemm.dtype
        self.array(name, length, dtype, " = {0}" if zero and dtype == "f32" and self.layout.lanes > 1 else "")
        return name

    def _cut_k(self, terms: Sequence[tuple[int, Term]]) -> tuple[str, str, str]:
        """Open the loop over blocks of k: first index, length, and whether sums are continued, as C.

        The last two are "" where each term has its own.
        """
        number, term = terms[0]
        depth = self.layout.depth
        if not depth or upper(term.k) <= depth:
            return "0", "", ""
        p0, end = self.names.new("p0"), extent(term.k)
        at_least_once = f" || {p0} == 0" if isinstance(term.k, Dim) else ""
        self.code.open(f"for (int64_t {p0} = 0; {p0} < {end}{at_least_once}; {p0} += {depth})")
        if isinstance(term.k, int) and term.k % depth == 0:
            return p0, str(depth), "1" if number else f"{p0} > 0"
        length = self.names.new("depth")
        self.code.add(f"const int64_t {length} = {p0} + {depth} < {end} ? {depth} : {end} - {p0};")
        return p0, length, "1" if number else f"{p0} > 0"

    def _panels(self) -> Callable[[int], str]:
        """Where the panel of b of each term lies, as C; they are declared if they lie on the stack."""
        gemm, cut = self.gemm, self.layout
        size = _packed_b(gemm, cut)
        if not size:
            return lambda number: ""
        name = self.pointers[gemm.packed_b] if gemm.packed_b else self._array("panel", size)
        kinds = zip(gemm.terms, cut.b, strict=True)
        starts = [0, *accumulate(cut.panel(term.k) if kind and not cut.depth else 0 for term, kind in kinds)]
        return lambda number: _plus(name, str(starts[number]))

    def _pack_b(
        self, number: int, term: Term, panels: Callable[[int], str], p0: str, depth: str, j0: str, cols: str
    ) -> list[str]:
        """Copy a panel of b if need be; how its tiles take it: (b, bk, bn) as C."""
        down, along = (extent(stride) for stride in term.b.strides[-2:])
        b, kind = self._at(term.b, p0, j0), self.layout.b[number]
        if not kind:
            return [b, down, along]
        steps = {"rows": [down], "turned": [along], "any": [down, along]}[kind]
        panel, width = panels(number), str(self.layout.cols)
        self._pack(f"pack_{kind}", [depth or extent(term.k), cols, b, *steps, panel, width])
        return [panel, width, "1"]

    def _pack_a(self, terms: Sequence[tuple[int, Term]], p0: str, depth: str) -> list[_Rows]:
        """Copy the first operands if need be; how tiles take their rows."""
        gemm, cut = self.gemm, self.layout
        sides: list[_Rows] = []
        start = 0
        for number, term in terms:
            down, along = (extent(stride) for stride in term.a.strides[-2:])
            kind, span = cut.a[number], cut.span(term.k)
            if not kind:
                sides.append(_Rows([down, along], access=term.a))
                continue
            packed = _plus(self.pointers[gemm.packed_a or ""], str(start))
            start += -(-upper(gemm.m) // cut.rows) * cut.rows * span
            length = depth or extent(term.k)
            if kind == "block":
                self._pack("pack_rows", [extent(gemm.m), length, self._at(term.a, "0", p0), down, packed, str(span)])
                sides.append(_Rows([str(span), "1"], packed, span))
            else:
                self.names.push()
                _, i0, rows = self._cut(gemm.m, cut.rows, self.names.counter(), "rows")
                panel = _plus(packed, affine([(i0, span)]))
                self._pack("pack_rows", [length, rows, self._at(term.a, i0, p0), along, panel, str(cut.rows)])
                if i0 != "0":
                    self.code.close()
                self.names.pop()
                sides.append(_Rows(["1", str(cut.rows)], packed, span))
        return sides

    def _rows(self, side: _Rows, i0: str, p0: str) -> list[str]:
        """How a tile at row i0 takes a first operand: (a, am, ak) as C."""
        if side.access:
            return [self._at(side.access, i0, p0), *side.steps]
        return [_plus(side.packed, affine([(i0, side.span)])), *side.steps]

    def _pack(self, how: str, args: list[str]) -> None:
        """Call a function of gt_pack.h."""
        self.packs = True
        self._call(f"gt_{how}_{self.gemm.dtype}", args)

    def _tile(self, args: list[str], m: Extent, n: Extent, strided: bool = False) -> None:
        """Call the tile of a product of (m, n), or its family where its size differs from call to call."""
        tiles = [self._sized(rows, cols, strided) for rows in _sizes(m, self.layout.rows) for cols in self._widths(n)]
        self.tiles.update(tiles)
        if isinstance(m, Dim):
            self.rests.add(tiles[0].family)
        if len(tiles) == 1:
            self._call(tiles[0].name, tiles[0].takes(args))
        else:
            self.choices.add(tiles[0].family)
            self._call(tiles[0].family, tiles[0].family_takes(args))

    def _widths(self, n: Extent) -> list[int]:
        """The columns of the tiles that occur; where they are counted at run time, any number is part of a vector."""
        cut = self.layout
        if not isinstance(n, Dim):
            return _sizes(n, cut.cols)
        return [cut.cols, cut.cols - 1] if cut.lanes > 1 else [*range(cut.cols, 0, -1)]

    def _sized(self, rows: int, cols: int, strided: bool) -> Tile:
        cut = self.layout
        vectors, part = -(-cols // cut.lanes), cols % cut.lanes != 0
        return Tile(self.gemm.dtype, cut.lanes, rows, vectors, part, part and cut.padded, strided and vectors > 1)

    def by_blas(self) -> None:
        """One call per term, into the target or aside; what was put aside goes through the epilogue."""
        gemm = self.gemm
        self.counters += ["0", "0"]
        stored = None if gemm.scratch else _plain_store(gemm, self.table)
        c = self.address(stored) if stored else self.pointers[gemm.scratch or ""]
        ldc = extent(stored.strides[-2] if stored else gemm.n)
        for number, term in enumerate(gemm.terms):
            sides = _operand(term.a, gemm.m, term.k), _operand(term.b, term.k, gemm.n)
            (ta, lda), (tb, ldb) = (side for side in sides if side)
            shape = [extent(gemm.m), extent(gemm.n), extent(term.k)]
            a, b = self.address(term.a), self.address(term.b)
            first = "0" if number == 0 else "1"
            args = ["blas", f'"{ta}{tb}"', *shape, a, extent(lda), b, extent(ldb), first, c, ldc]
            self._call(f"gt_blas_{gemm.dtype}", args)
        del self.counters[-2:]
        if not stored:
            self._all_elements(c)

    def by_nothing(self) -> None:
        """A sum of no terms is zero."""
        i, j = self.names.counter(), self.names.counter()
        zero = literal(0, self.gemm.dtype) if self.gemm.dtype in FLOATS else "0"
        self._elements((i, "0", extent(self.gemm.m)), (j, "0", extent(self.gemm.n)), zero)

    def _cut(self, length: Extent, step: int, counter: str, hint: str) -> tuple[str, str, str]:
        """Open the loop over the tiles of one side: counter, first index and length of the tile, as C.

        A side of length 1 needs neither loop nor counter.
        """
        if length == 1:
            return "0", "0", "1"
        if isinstance(length, int) and length <= step:
            return counter, "0", str(length)
        first = self.names.new(f"{counter}0")
        whole = isinstance(length, int) and length % step == 0
        self.code.open(loop(first, extent(length), step=str(step)))
        if whole:
            return counter, first, str(step)
        count = self.names.new(hint)
        self.code.add(
            f"const int64_t {count} = {first} + {step} < {extent(length)} ? {step} : {extent(length)} - {first};"
        )
        return counter, first, count

    def _elements(self, down: tuple[str, str, str], along: tuple[str, str, str], source: str) -> None:
        """The epilogue over the elements of a block, on vectors if possible; each side is (counter, first, length)."""
        gemm = self.gemm
        for counter, first, count in (down, along):
            end = count if first == "0" else f"{first} + {count}"
            self.counters.append(counter)
            if counter == along[0] != "0" and self._suits_vectors(source):
                self.open_lanes(counter, gemm.n, end, first)
            elif counter != "0":
                self.code.open(loop(counter, end, first))
        named = sum(count for stmt in gemm.epilogue for var, count in mentions(stmt) if var == gemm.acc)
        ctype = VARIABLES[gemm.dtype]
        if self.lanes and source.endswith("]"):
            self.lanes.varying.add(gemm.acc)
            whole = f"gt_load_{gemm.dtype}(&{source})"  # a tile has room for whole vectors
            source = self.lanes.load(gemm.dtype, f"&{source}") if gemm.scratch else whole
            ctype = f"gt_v_{gemm.dtype}"
        if named == 1:
            self.alias(gemm.acc, gemm.dtype, source)
        elif named:
            name = self.define(gemm.acc, gemm.dtype, self.subscript())
            self.code.add(f"const {ctype} {name} = {source};")
        self.all(gemm.epilogue)
        self.lanes = None
        for counter, _, _ in (along, down):
            self.counters.pop()
            if counter != "0":
                self.code.close()

    def _suits_vectors(self, source: str) -> bool:
        """Whether the epilogue can run on vectors of a row of the product."""
        gemm = self.gemm
        self.alias(gemm.acc, gemm.dtype, source)
        wide = [gemm.acc] if source.endswith("]") else []
        return gemm.dtype == "f32" and self.suits_vectors(gemm.epilogue, len(gemm.batch) + 1, gemm.n, wide)

    def _call(self, function: str, args: list[str], inner: bool = False) -> None:
        """A call, in several lines if need be."""
        self.code.depth += inner
        for line in call(function, args, ";"):
            self.code.add(line)
        self.code.depth -= inner


def _is_flat(gemm: Gemm) -> bool:
    """Whether the epilogue sees elements only, or what is one for all, and its arrays are as dense as the product."""
    dense = ((gemm.n, 1), (0, 0))
    return all(
        not isinstance(stmt, Counter | Accumulate)
        and (not isinstance(stmt, Load | Store) or (not stmt.access.index and stmt.access.strides[-2:] in dense))
        for stmt in gemm.epilogue
    )


def _sizes(length: Extent, step: int) -> list[int]:
    """The lengths of the pieces of a side; where the last one is known at run time only, single rows serve."""
    if isinstance(length, Dim):
        return [1, step]
    return [size for size in (length % step, step if length >= step else 0) if size]


def _plus(pointer: str, place: str) -> str:
    """A pointer moved on."""
    return pointer if place == "0" else f"{pointer} + {place}"


_ROUTES = {"tile": _Product.by_tiles, "blas": _Product.by_blas, "none": _Product.by_nothing}

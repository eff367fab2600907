"""Matrix products: who computes them, and the inside of their functions.

`prepare` runs before the memory plan: it takes batch axes into the rows where strides allow, sends big plain
products to BLAS and adds the scratch buffers that this needs. `write` emits the loops over tiles; the tiles
themselves are functions shared by all products of a unit (tiles.py). Law: each element of a product is one
chain of multiply-adds in k order, whatever the tile; BLAS keeps its own order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .body import Body, loop, mentions
from .cexpr import DTYPES, literal
from .ctext import FLOATS, VARIABLES, affine, call, extent
from .nest import gemm_axes
from .program import Access, Buffer, Dim, Extent, Gemm, Program, Store, Term, kernels, upper, with_kernels
from .signature import Signature
from .target import Target
from .tiles import Tile, full_tile

BLAS_FROM = 25_000_000
"""Multiply-adds of one product above which BLAS is called: below, its packing and its call cost more than
they bring (32x8x32 runs at 24 GF/s in OpenBLAS and at 67 in a register tile); up to twice this, either."""


# ---- who computes it --------------------------------------------------------------------------------------


def prepare(program: Program, target: Target, blas: bool) -> Program:
    """The program with simpler products, the big ones sent to BLAS if there is one."""
    table = program.table
    added: list[Buffer] = []
    steps = list(kernels(program.steps))
    for place, step in enumerate(steps):
        if not isinstance(step, Gemm):
            continue
        gemm = gemm_axes(step)
        if blas and target.variant != "portable" and _for_blas(gemm):
            gemm = replace(gemm, route="blas")
            if not _plain_store(gemm, table):
                name = _free(f"{gemm.name}_product", table)
                table[name] = Buffer(name, gemm.dtype, (gemm.m, gemm.n), "work")
                added.append(table[name])
                gemm = replace(gemm, scratch=name)
        steps[place] = gemm
    return replace(program, steps=with_kernels(program.steps, steps), buffers=(*program.buffers, *added))


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


class _Product(Body):
    """A body that also writes products."""

    def __init__(self, gemm: Gemm, signature: Signature, table: Mapping[str, Buffer], target: Target) -> None:
        super().__init__(gemm, signature, table, target)
        self.gemm = gemm
        self.full = full_tile(gemm.dtype, gemm.m, target)

    def by_tiles(self) -> None:
        """Loops over tiles: each is summed in registers, then its elements go through the epilogue."""
        gemm, full = self.gemm, self.full
        i, i0, rows = self._cut(gemm.m, full.rows, "rows")
        j, j0, cols = self._cut(gemm.n, full.cols, "cols")
        tile = self.names.new("tile")
        empty = isinstance(gemm.terms[0].k, Dim)
        self.code.add(f"{DTYPES[gemm.dtype]} {tile}[{full.rows * full.cols}]{' = {0}' if empty else ''};")
        for number, term in enumerate(gemm.terms):
            tiles = self._tiles_of(term, more=number > 0 or empty)
            self.counters += [i0, "0"]
            a = self.address(term.a)
            self.counters[-2:] = ["0", j0]
            b = self.address(term.b)
            del self.counters[-2:]
            a_steps, b_steps = ([extent(stride) for stride in side.strides[-2:]] for side in (term.a, term.b))
            args = [rows, cols, extent(term.k), a, *a_steps, b, *b_steps, tile]
            guarded = isinstance(term.k, Dim)
            if guarded:
                self.code.add(f"if ({extent(term.k)} > 0)")
            if len(tiles) == 1:
                self._call(tiles[0].name, tiles[0].takes(args), guarded)
            else:
                self.choices.add(tiles[0].family)
                self._call(tiles[0].family, args, guarded)
        row = affine([(i, full.cols)]) if i0 == "0" else f"{full.cols} * ({i} - {i0})"
        col = affine([(j, 1), (j0, -1)])
        place = " + ".join(part for part in (row, col) if part != "0") or "0"
        self._elements((i, i0, rows), (j, j0, cols), f"{tile}[{place}]")
        for first in (j0, i0):
            if first != "0":
                self.code.close()

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
            i, j = self.names.counter(), self.names.counter()
            place = affine([(i, gemm.n), (j, 1)])
            self._elements((i, "0", extent(gemm.m)), (j, "0", extent(gemm.n)), f"{c}[{place}]")

    def by_nothing(self) -> None:
        """A sum of no terms is zero."""
        i, j = self.names.counter(), self.names.counter()
        zero = literal(0, self.gemm.dtype) if self.gemm.dtype in FLOATS else "0"
        self._elements((i, "0", extent(self.gemm.m)), (j, "0", extent(self.gemm.n)), zero)

    def _cut(self, length: Extent, step: int, hint: str) -> tuple[str, str, str]:
        """Open the loop over the tiles of one side: counter, first index and length of the tile, as C.

        A side of length 1 needs neither loop nor counter.
        """
        if length == 1:
            return "0", "0", "1"
        counter = self.names.counter()
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
            source = self.lanes.load(gemm.dtype, f"&{source}") if gemm.route == "blas" else whole
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

    def _tiles_of(self, term: Term, more: bool) -> list[Tile]:
        """Every size of tile that occurs: whole ones and what remains at the ends."""
        gemm = self.gemm
        base = self.full._replace(more=more)
        strided = term.b.strides[-1] != 1
        tiles = [
            base._replace(rows=rows, cols=cols, strided=strided and cols > 1)
            for rows in _sizes(gemm.m, base.rows)
            for cols in _sizes(gemm.n, base.cols)
        ]
        self.tiles.update(tiles)
        if isinstance(gemm.m, Dim) or isinstance(gemm.n, Dim):
            self.rests.add(base.family)
        return tiles


def _sizes(length: Extent, step: int) -> list[int]:
    """The lengths of the pieces of a side; where the last one is known at run time only, single rows serve."""
    if isinstance(length, Dim):
        return [1, step]
    return [size for size in (length % step, step if length >= step else 0) if size]


_ROUTES = {"tile": _Product.by_tiles, "blas": _Product.by_blas, "none": _Product.by_nothing}

"""How a product is cut: the shape of its tiles, blocks of k, and which operands are copied into panels first.

In comes a product and a target; out goes a `Layout`, a function of these two only. Laws: no choice made here changes
a bit of the result, since each element stays one chain in the order of k; the constants are measured (the figures
stand beside them), so they decide about speed and memory and about nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

from .cexpr import SIZES
from .ctext import FLOATS
from .program import Access, Accumulate, Dim, Extent, Gemm, Term, upper
from .target import Target

PANEL_BYTES, LONG_PANEL_BYTES, SUMS_BYTES = 32 << 10, 64 << 10, 512 << 10
"""Blocks of k make panels of b of PANEL_BYTES, which stay in the first-level cache (32 or 48 KB) while all rows pass.
Each block is a pass over the sums: where these take more than SUMS_BYTES, panels are twice as long. 128x784x256 runs
at 162 and 151 GF/s with short and long ones, the product and update of 1024x256x1024 takes 4.4 and 3.8 ms."""

WHOLE = 1.5
"""How much longer than a block k may be and not be cut; twice, where b is read as it lies: 128x256x128 runs at 178 GF/s
whole and 175 in two blocks as b lies, at 169 and 177 from copies."""

STACK_BYTES = 2 << 10
"""Panels of b of so few bytes lie on the stack, bigger ones in the arena."""

DEEP = 64
"""Steps of k from which on copying an operand may pay."""

FAR_B, TALL, WALKED = 512, 64, 64 << 10
"""When copying rows of b pays: they lie at least FAR_B bytes apart, so that they fall on a part of the sets of the
first-level cache, are read for at least TALL rows, and these times their distance in bytes is at least WALKED. GF/s as
b lies / copied, row by row: 64x64x64 184 / 177, 64x128x128 172 / 166, 32x256x256 154 / 141, 256x256x128 177 / 186,
784x128x256 178 / 190, 1024x128x512 160 / 184, 16x1024x1024 111 / 95, 64x512x1024 145 / 155."""

FAR_A, STRIPS = 1 << 10, 4
"""When copying columns of a pays: they lie at least FAR_A bytes apart (its rows: four times that, where they all fall
on the same sets), and are read for at least that many strips of columns of b. GF/s as a lies / copied: transposed
784x128x256 176 / 176, 1024x128x512 135 / 144, 512x512x512 132 / 156; by rows 256x1024x1024 134 / 146."""

TILE_CYCLES = 24
"""What the call of a tile costs beside its multiply-adds."""

VARIANT = 1.01
"""How much faster a shape must be that needs one more size of tile: each takes the compiler 5 to 10 ms."""

SCALAR_ROWS = SCALAR_COLUMNS = 4
"""The tile where there are no vectors."""

COPYING = {"": 0.0, "rows": 0.1, "turned": 0.25, "any": 1.5}
"""Cycles that copying an element of a second operand takes."""

BACK = 3.0
"""Cycles per row and four columns of taking a transpose back."""

MOST_ROWS, MOST_VECTORS = 16, 8
"""Rows of a tile are addressed through general registers, and there are 16 of them or 32."""


@dataclass(frozen=True)
class Layout:
    """Tiles of `rows` x `vectors` vectors of `lanes`; blocks of `depth` along k (0: k is not cut).

    `a` and `b` say for each term how the operand is copied before tiles read it, "" if it is not: b in `rows` (as it
    lies), `turned` (its columns are contiguous), or from `any` strides; a in `panels` of as many rows as a tile has
    (its columns are contiguous), or as one `block` (its rows are). `aside` puts the whole product into memory of its
    own before the epilogue, where the order of the epilogue's sums would show the tiles. `padded`: where columns are
    left over, b is packed, so that whole vectors are there. `across`: the transpose of the product is summed, with
    vectors along its rows, `rows` being all its columns, and `b` is said of the transpose of the first operand.
    """

    rows: int
    vectors: int
    lanes: int
    depth: int
    a: tuple[str, ...]
    b: tuple[str, ...]
    aside: bool = False
    padded: bool = False
    across: bool = False

    @property
    def cols(self) -> int:
        """Columns of a tile, and of a panel of b."""
        return self.vectors * self.lanes

    def panel(self, k: Extent) -> int:
        """Elements of a panel of b."""
        return self.cols * self.span(k)

    def span(self, k: Extent) -> int:
        """The most of k that is walked at once."""
        return min(self.depth or upper(k), upper(k))


def layout(gemm: Gemm, target: Target) -> Layout:
    """The layout of a product."""
    lanes = target.lanes(SIZES[gemm.dtype]) if gemm.dtype in FLOATS else 1
    aside = not _in_any_order(gemm)
    if lanes == 1:
        plain = ("",) * len(gemm.terms)
        return Layout(SCALAR_ROWS, SCALAR_COLUMNS, lanes, 0, plain, plain, aside)
    size, deep = SIZES[gemm.dtype], sum(upper(term.k) for term in gemm.terms)
    masked = gemm.dtype == "f32" and target.width >= 32
    rows, vectors, cycles = shape(gemm.m, gemm.n, deep, lanes, target.registers)
    cols, tiles = vectors * lanes, -(-upper(gemm.m) // rows)
    padded = not masked and _leaves_rest(gemm.n, lanes)
    b = tuple(_copied_b(term, size, gemm.m, gemm.n, must=padded) for term in gemm.terms)
    a = tuple(_copied_a(term, size, -(-upper(gemm.n) // cols)) for term in gemm.terms)
    other = None if aside else _across(gemm, lanes, target.registers, masked)
    if other and other[1] < cycles + _copying(gemm.n, gemm.terms, b):
        return other[0]
    longest = max((upper(term.k) for term in gemm.terms), default=0)
    block = (LONG_PANEL_BYTES if upper(gemm.m) * upper(gemm.n) * size > SUMS_BYTES else PANEL_BYTES) // (cols * size)
    depth = 0
    if longest > block * (WHOLE if any(b) else 2) and (tiles > 1 or any(b)):
        depth = -(-longest // (-(-longest // block) * lanes)) * lanes
    return Layout(rows, vectors, lanes, depth, a, b, aside, padded)


def _across(gemm: Gemm, lanes: int, registers: int, masked: bool) -> tuple[Layout, float] | None:
    """The layout that sums the transpose, and its cycles, for a product narrower than a vector."""
    if isinstance(gemm.n, Dim) or not 0 < gemm.n < min(lanes, MOST_ROWS + 1):
        return None
    deep = sum(upper(term.k) for term in gemm.terms)
    _, vectors, cycles = shape(gemm.n, gemm.m, deep, lanes, registers, whole=True)
    padded = not masked and _leaves_rest(gemm.m, lanes)
    terms = tuple(across(term) for term in gemm.terms)
    b = tuple(_copied_b(term, SIZES[gemm.dtype], gemm.n, gemm.m, must=padded) for term in terms)
    found = Layout(gemm.n, vectors, lanes, 0, ("",) * len(b), b, False, padded, across=True)
    return found, cycles + _copying(gemm.m, terms, b) + BACK * upper(gemm.m) * -(-gemm.n // 4)


def across(term: Term) -> Term:
    """The term of the transpose of a product."""
    return Term(_swapped(term.b), _swapped(term.a), term.k)


def _swapped(access: Access) -> Access:
    *outer, down, along = access.strides
    return replace(access, strides=(*outer, along, down))


def _leaves_rest(n: Extent, lanes: int) -> bool:
    return isinstance(n, Dim) or n % lanes != 0


def _copying(n: Extent, terms: Sequence[Term], kinds: Sequence[str]) -> float:
    """Cycles that copying second operands takes."""
    return upper(n) * sum(COPYING[kind] * upper(term.k) for term, kind in zip(terms, kinds, strict=True))


def _copied_b(term: Term, size: int, m: Extent, n: Extent, must: bool) -> str:
    down, along = term.b.strides[-2:]
    if along != 1 and n != 1:
        return "turned" if down == 1 else "any"
    apart = abs(upper(down)) * size
    pays = upper(term.k) >= DEEP and apart >= FAR_B and upper(m) >= TALL and upper(m) * apart >= WALKED
    return "rows" if pays or must else ""


def _copied_a(term: Term, size: int, strips: int) -> str:
    down, along = (stride if isinstance(stride, int) else upper(stride) for stride in term.a.strides[-2:])
    if upper(term.k) < DEEP or strips < STRIPS:
        return ""
    if down == 1 and along * size >= FAR_A:
        return "panels"
    return "block" if along == 1 and down * size >= 4 * FAR_A else ""


def _in_any_order(gemm: Gemm) -> bool:
    """Whether every sum of the epilogue gets its values in one order whatever the tiles: it is over rows or columns."""
    return all(
        not stmt.access.index and (stmt.access.strides[-2] == 0) != (stmt.access.strides[-1] == 0)
        for stmt in gemm.epilogue
        if isinstance(stmt, Accumulate)
    )


# ---- the shape of a tile ----------------------------------------------------------------------------------


@cache
def shape(m: Extent, n: Extent, k: int, lanes: int, registers: int, whole: bool = False) -> tuple[int, int, float]:
    """Rows and vectors of the tile that takes the fewest cycles over the whole product, and these cycles.

    Accumulators, a row of b (unless it is used once) and one element of a fit into the registers. Where the columns
    are counted at run time there is one vector, so that what remains is at most a part of one. `whole` asks for all
    rows in one tile.

    >>> shape(64, 64, 64, lanes=16, registers=32)[:2], shape(1, 64, 64, lanes=8, registers=16)[:2]
    ((6, 4), (1, 8))
    """
    found = (1, 1, inf)
    for vectors in range(1, 1 + (1 if isinstance(n, Dim) else MOST_VECTORS)):
        for rows in [upper(m)] if whole else range(1, MOST_ROWS + 1):
            if rows * vectors + (vectors if rows > 1 else 1) + 1 <= registers:
                down, along = list(_pieces(m, rows)), list(_pieces(-(-upper(n) // lanes), vectors))
                cycles = sum(
                    times * more * (k * _cycles(high, wide) + TILE_CYCLES)
                    for high, times in down
                    for wide, more in along
                )
                cycles *= VARIANT ** (len(down) * len(along) - 1)
                if cycles < found[2]:
                    found = (rows, vectors, cycles)
    return found


def _pieces(length: Extent, step: int) -> Iterator[tuple[int, float]]:
    """Sizes of the pieces of a side and how many there are; of a run-time side single rows remain."""
    whole, rest = divmod(upper(length), step)
    if isinstance(length, Dim):
        yield step, max(whole, 1)
        if step > 1:
            yield 1, (step - 1) / 2
        return
    if whole:
        yield step, whole
    if rest:
        yield rest, 1


def _cycles(rows: int, vectors: int) -> float:
    """Cycles per step of k, measured on AVX-512: two multiply-adds a cycle, of which loads hold up some.

    One step at least takes the latency of a multiply-add: 8x2 vectors 9.4 cycles, 8x3 13.7, 6x4 13.6, 14x2 17.1,
    8x1 5.6, 16x1 11.2.
    """
    return max(4.0, 0.3 + rows * vectors / 2 + (rows + vectors) / 6)

"""Register tiles of matrix products: their sizes, and their functions as records for templates/prelude.c.j2.

A tile function sums one block of a product in named accumulators (an array of them spills under clang) and
leaves the block in a small local array, from which the product's epilogue reads. Tiles are shared by all
products of a unit. Law: each element is one chain of multiply-adds in the order of k, whatever the tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .cexpr import DTYPES, SIZES
from .ctext import FLOATS, VARIABLES, affine, call, packed
from .program import Extent
from .target import Target


class Tile(NamedTuple):
    """`rows` x `cols` accumulators, `lanes` of them per vector, in an array whose rows lie `width` apart.

    `more` continues the sums that are in the array, otherwise they start at 0. `strided` takes b with any
    distance between its columns; otherwise vectors of it are loaded.
    """

    dtype: str
    more: bool
    rows: int
    cols: int
    strided: bool
    lanes: int
    width: int

    @property
    def family(self) -> str:
        """The function that chooses among tiles that differ in size only."""
        return f"gt_tile_{self.dtype}{'_more' if self.more else ''}"

    @property
    def name(self) -> str:
        """The function of this size."""
        return f"{self.family}_{self.rows}x{self.cols}{'_strided' if self.strided else ''}"

    def takes(self, args: Sequence[str]) -> list[str]:
        """Of (rows, cols, k, a, am, ak, b, bk, bn, tile), those that a tile of this size takes."""
        _, _, k, a, am, ak, b, bk, bn, tile = args
        return [k, a, *[am] * (self.rows > 1), ak, b, bk, *[bn] * self.strided, tile]


FEWEST_ROWS = 4
"""Rows of two vectors that still keep both multiply-add units of a core busy."""


def full_tile(dtype: str, m: Extent, target: Target) -> Tile:
    """The tile for products of m rows: accumulators, one row of b and one element of a fit into the registers.

    Somewhat fewer rows are taken if that leaves no rows over.

    >>> avx2 = Target("avx2", width=32, registers=16, fma=True)
    >>> [full_tile("f32", m, avx2).rows for m in (12, 32, 31, 3)], full_tile("f32", 12, avx2).cols
    ([6, 4, 6, 6], 16)
    """
    lanes = target.lanes(SIZES[dtype]) if dtype in FLOATS else 1
    most = FEWEST_ROWS if lanes == 1 else 6 if target.registers < 32 else 8
    even = [rows for rows in range(most, FEWEST_ROWS - 1, -1) if isinstance(m, int) and m % rows == 0]
    cols = 4 if lanes == 1 else 2 * lanes
    return Tile(dtype, False, even[0] if even else most, cols, False, lanes, cols)


def families(tiles: Iterable[Tile], choices: Iterable[str], rests: Iterable[str]) -> list[dict[str, Any]]:
    """The tiles as text, by family; `choices` are the families with a choice, `rests` those with any size."""
    found: dict[str, list[Tile]] = {}
    for tile in sorted(tiles):
        found.setdefault(tile.family, []).append(tile)
    return [_family(own, name in choices, name in rests) for name, own in found.items()]


def _family(tiles: Sequence[Tile], choice: bool, rest: bool) -> dict[str, Any]:
    one = tiles[0]
    unused = [] if rest or any(tile.rows > 1 for tile in tiles) else ["am"]
    unused += [] if rest or any(tile.cols > 1 for tile in tiles) else ["bn"]
    return {
        "name": one.family,
        "sign": "+=" if one.more else "=",
        "width": one.width,
        "tiles": [_tile(tile) for tile in tiles],
        "choice": choice,
        "unused": unused,
        "head": call(f"static void {one.family}", _params(one), ""),
        "vector": VARIABLES[one.dtype],
        "start": "tile[j]" if one.more else "0",
        "rest": _multiply_add(one, "a[ak * p]", "b[bk * p + bn * j]", "c") if rest else "",
    }


def _multiply_add(tile: Tile, a: str, b: str, c: str) -> str:
    """`a * b + c`: fused where the target can."""
    tag = tile.dtype
    return f"VFMA({a}, {b}, {c})" if tag in FLOATS else f"gt_add_{tag}({c}, gt_mul_{tag}({a}, {b}))"


def _params(tile: Tile) -> list[str]:
    ctype = DTYPES[tile.dtype]
    a = [f"const {ctype} *a", "int64_t am", "int64_t ak"]
    b = [f"const {ctype} *b", "int64_t bk", "int64_t bn"]
    return ["int64_t rows", "int64_t cols", "int64_t k", *a, *b, f"{ctype} *tile"]


def _tile(tile: Tile) -> dict[str, Any]:
    """One tile function: its accumulators are named c<row><vector>."""
    tag, wide = tile.dtype, tile.lanes > 1
    vector = f"gt_v_{tag}" if wide else VARIABLES[tag]
    cells = [
        [(f"c{row}{number}", tile.width * row + start) for number, start in enumerate(range(0, tile.cols, tile.lanes))]
        for row in range(tile.rows)
    ]
    everything = [cell for row in cells for cell in row]
    load, store = (f"gt_load_{tag}(tile + {{}})", f"gt_store_{tag}(tile + {{}}, {{}});")
    first = [f"{name} = {load.format(at) if wide else f'tile[{at}]'}" for name, at in everything]
    zero = "{0}" if wide else "0"
    steps = []
    for row, named in enumerate(cells):
        source = f"ap[{affine([('am', row)])}]"
        products = [f"{c} = {_multiply_add(tile, 's', f'b{number}', c)}" for number, (c, _) in enumerate(named)]
        words = [f"s = {f'gt_splat_{tag}({source})' if wide else source}", *products]
        steps += packed([f"{word}," for word in words[:-1]] + [f"{words[-1]};"], indent="    ")
    own = tile.takes(_params(tile))
    test = [f"rows == {tile.rows}", f"cols == {tile.cols}"]
    test += [f"bn {'!=' if tile.strided else '=='} 1"] if tile.cols > 1 else []
    return {
        **tile._asdict(),
        "vector": vector,
        "head": call(f"static void {tile.name}", own, ""),
        "test": " && ".join(test),
        "call": f"{tile.name}({', '.join(param.split()[-1].lstrip('*') for param in own)})",
        "first": _declared(vector, first if tile.more else [f"{name} = {zero}" for name, _ in everything]),
        "loads": [f"const {DTYPES[tag]} *ap = a + ak * p, *bp = b + bk * p;", *_row_of_b(tile, vector)],
        "steps": steps,
        "last": [" ".join(store.format(at, c) if wide else f"tile[{at}] = {c};" for c, at in row) for row in cells],
    }


def _declared(vector: str, cells: Sequence[str]) -> list[str]:
    """One declaration, in lines."""
    ends = [",", ";"]
    words = [f"{cell}{ends[place == len(cells) - 1]}" for place, cell in enumerate(cells)]
    return packed([f"{vector} {words[0]}", *words[1:]], indent=" " * (len(vector) + 1))


def _row_of_b(tile: Tile, vector: str) -> list[str]:
    """The lines that load a row of b, vector by vector; lanes behind the last column are 0."""
    plain: list[str] = []
    lines: list[str] = []
    for number, start in enumerate(range(0, tile.cols, tile.lanes)):
        lanes = range(start, min(start + tile.lanes, tile.cols))
        cells = [f"bp[{affine([('bn', lane)]) if tile.strided else lane}]" for lane in lanes]
        if tile.lanes == 1:
            plain.append(f"b{number} = {cells[0]}")
        elif len(lanes) == tile.lanes and not tile.strided:
            plain.append(f"b{number} = gt_load_{tile.dtype}(bp + {start})")
        else:
            lines += call(f"const {vector} b{number} = ", cells, ";", brackets="{}")
    return (_declared(f"const {vector}", plain) if plain else []) + lines

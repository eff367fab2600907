"""Register tiles of matrix products: their sizes, and their functions as records for templates/prelude.c.j2.

A tile function sums one block of a product in named accumulators (an array of them spills under clang) and leaves
the block where its caller says: in the result, in memory set aside, or in a small local array from which the
product's epilogue reads. Tiles are shared by all products of a unit. Law: each element is one chain of multiply-adds
in the order of k, whatever the tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .cexpr import DTYPES
from .ctext import FLOATS, VARIABLES, affine, call, packed


class Tile(NamedTuple):
    """`rows` x `vectors` accumulators of `lanes` elements each.

    `part`: the last vector holds fewer columns, as many as the caller says; then b may be `padded`: it has room for
    whole vectors all the same. `strided`: b has any distance between its columns (single lanes only).
    """

    dtype: str
    lanes: int
    rows: int
    vectors: int
    part: bool = False
    padded: bool = False
    strided: bool = False

    @property
    def family(self) -> str:
        """The function that chooses among tiles that differ in size only."""
        return f"gt_tile_{self.dtype}"

    @property
    def name(self) -> str:
        """The function of this size."""
        kind = "_strided" if self.strided else "_part" if self.part else ""
        return f"{self.family}_{self.rows}x{self.vectors * self.lanes}{kind}"

    def family_takes(self, args: Sequence[str]) -> list[str]:
        """Of (rows, cols, k, a, am, ak, b, bk, bn, more, c, cm), those that the family takes."""
        return [arg for place, arg in enumerate(args) if place != 8 or self.lanes == 1]

    def takes(self, args: Sequence[str]) -> list[str]:
        """Of the same, those that a tile of this size takes."""
        _, cols, k, a, am, ak, b, bk, bn, more, c, cm = args
        tall = self.rows > 1
        b_side = [b, bk, *[bn] * self.strided]
        return [*[cols] * self.part, k, a, *[am] * tall, ak, *b_side, more, c, *[cm] * tall]


REST = ("1", "cols", "k", "a + am * i", "am", "ak", "b", "bk", "bn", "more", "c + cm * i", "cm")
"""The arguments for row i of any number of rows."""


def families(tiles: Iterable[Tile], choices: Iterable[str], rests: Iterable[str]) -> list[dict[str, Any]]:
    """The tiles as text, by family; `choices` are the families with a choice, `rests` those with any number of rows."""
    found: dict[str, list[Tile]] = {}
    for tile in sorted(tiles, key=lambda tile: (tile.dtype, -tile.rows, -tile.vectors, *tile[4:])):
        found.setdefault(tile.family, []).append(tile)
    return [_family(own, name in choices, name in rests) for name, own in found.items()]


def _family(tiles: Sequence[Tile], choice: bool, rest: bool) -> dict[str, Any]:
    params = _params(tiles[0])
    texts = [_tile(tile) for tile in tiles]
    used = {word for text in texts for word in re.findall(r"\w+", f"{text['test']} {text['call']}")}
    return {
        "name": tiles[0].family,
        "tiles": texts,
        "choice": choice,
        "unused": [] if rest else [name for name in tiles[0].family_takes(_names(params)) if name not in used],
        "head": call(f"static void {tiles[0].family}", tiles[0].family_takes(params), ""),
        "rest": ", ".join(tiles[0].family_takes(REST)) if rest else "",
    }


def _params(tile: Tile) -> list[str]:
    ctype = DTYPES[tile.dtype]
    a = [f"const {ctype} *a", "int64_t am", "int64_t ak"]
    b = [f"const {ctype} *b", "int64_t bk", "int64_t bn"]
    return ["int64_t rows", "int64_t cols", "int64_t k", *a, *b, "int more", f"{ctype} *c", "int64_t cm"]


def _names(params: Sequence[str]) -> list[str]:
    return [param.split()[-1].lstrip("*") for param in params]


def _multiply_add(tag: str, a: str, b: str, c: str) -> str:
    """`a * b + c`: fused where the target can."""
    return f"VFMA({a}, {b}, {c})" if tag in FLOATS else f"gt_add_{tag}({c}, gt_mul_{tag}({a}, {b}))"


def _tile(tile: Tile) -> dict[str, Any]:
    """One tile function: its accumulators are named c<row><vector>."""
    tag, wide = tile.dtype, tile.lanes > 1
    vector = f"gt_v_{tag}" if wide else VARIABLES[tag]
    last = tile.vectors - 1
    rest = f", cols - {last * tile.lanes}" if last else ", cols"
    cells = [
        [(f"c{row}{number}", affine([("cm", row)], number * tile.lanes)) for number in range(tile.vectors)]
        for row in range(tile.rows)
    ]
    first: list[str] = []
    final: list[str] = []
    for row in cells:
        ends = [rest if tile.part and number == last else "" for number in range(tile.vectors)]
        first += [f"{name} = {_load(tile, 'c', at, end)};" for (name, at), end in zip(row, ends, strict=True)]
        final += [_store(tile, at, name, end) for (name, at), end in zip(row, ends, strict=True)]
    steps = []
    for number, row in enumerate(cells):
        source = f"ap[{affine([('am', number)])}]"
        products = [f"{c} = {_multiply_add(tag, 's', f'b{place}', c)}" for place, (c, _) in enumerate(row)]
        words = [f"s = {f'gt_splat_{tag}({source})' if wide else source}", *products]
        steps += packed([f"{word}," for word in words[:-1]] + [f"{words[-1]};"], indent="    ")
    params = _params(tile)
    return {
        **tile._asdict(),
        "cols": tile.vectors * tile.lanes,
        "vector": vector,
        "head": call(f"GT_TILE void {tile.name}", tile.takes(params), ""),
        "test": _test(tile),
        "call": f"{tile.name}({', '.join(tile.takes(_names(params)))})",
        "zero": _declared(vector, [f"{name} = {'{0}' if wide else '0'}" for row in cells for name, _ in row]),
        "first": packed(first, indent=""),
        "loads": [f"const {DTYPES[tag]} *ap = a + ak * p, *bp = b + bk * p;", *_row_of_b(tile, vector, rest)],
        "steps": steps,
        "last": packed(final, indent=""),
    }


def _load(tile: Tile, pointer: str, place: str, rest: str) -> str:
    """A vector, or an element; `rest` is not empty where not all lanes are there."""
    if tile.lanes == 1:
        return f"{pointer}[{place}]"
    return f"gt_load{'_part' if rest else ''}_{tile.dtype}({_address(pointer, place)}{rest})"


def _store(tile: Tile, place: str, name: str, rest: str) -> str:
    if tile.lanes == 1:
        return f"c[{place}] = {name};"
    return f"gt_store{'_part' if rest else ''}_{tile.dtype}({_address('c', place)}, {name}{rest});"


def _address(pointer: str, place: str) -> str:
    return pointer if place == "0" else f"{pointer} + {place}"


def _test(tile: Tile) -> str:
    """When a family takes this tile."""
    cols = tile.vectors * tile.lanes
    tests = [f"rows == {tile.rows}"]
    if tile.part:
        tests += [f"cols > {cols - tile.lanes}"] * (tile.vectors > 1) + [f"cols < {cols}"]
    else:
        tests += [f"cols == {cols}"]
    if tile.lanes == 1 and cols > 1:
        tests += [f"bn {'!=' if tile.strided else '=='} 1"]
    return " && ".join(tests)


def _declared(vector: str, cells: Sequence[str]) -> list[str]:
    """One declaration, in lines."""
    ends = [",", ";"]
    words = [f"{cell}{ends[place == len(cells) - 1]}" for place, cell in enumerate(cells)]
    return packed([f"{vector} {words[0]}", *words[1:]], indent=" " * (len(vector) + 1))


def _row_of_b(tile: Tile, vector: str, rest: str) -> list[str]:
    """The lines that load a row of b, vector by vector."""
    cells = []
    for number in range(tile.vectors):
        place = affine([("bn", number)]) if tile.strided else str(number * tile.lanes)
        part = tile.part and not tile.padded and number == tile.vectors - 1
        cells.append(f"b{number} = {_load(tile, 'bp', place, rest if part else '')}")
    return _declared(f"const {vector}", cells)

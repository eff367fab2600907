"""What the templates are told: the description of a model, and the helper functions that its kernels need.

In comes a plan, or the `needs` of kernels; out go plain records for templates/model.c.j2 and prelude.c.j2.
Law: a helper is written only into a unit that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from .body import FLOATS, fold, neutral
from .cexpr import DTYPES, SIZES
from .ctext import VARIABLES, affine, call, extent, packed, size, string
from .gemm import Tile, full_tile
from .memory import Plan
from .program import Array, Buffer, Dim, Extent, Gemm, Program, Step, upper
from .signature import Signature
from .target import Target


def shape_text(array: Array | Buffer) -> str:
    """`f32[32, 784]`."""
    return f"{array.dtype}[{', '.join(extent(n) for n in array.shape)}]"


def shapes(step: Step, signature: Signature, table: Mapping[str, Buffer]) -> list[str]:
    """The loops and the arrays of a kernel: `(32, 10): x f32[32, 10] -> y f32[32, 10]`."""
    space = [*step.batch, step.m, step.n] if isinstance(step, Gemm) else step.space
    words = [f"({', '.join(extent(n) for n in space)})"]
    if isinstance(step, Gemm):
        words.append(f"sums of {' and '.join(extent(term.k) for term in step.terms) or '0'}")
    words[-1] += ":"
    for const, arrow in ((True, []), (False, ["->"])):
        arrays = [param.buffers for param in signature.params if param.const is const]
        words += (arrow if arrays else []) + [f"{' = '.join(names)} {shape_text(table[names[0]])}," for names in arrays]
        words[-1] = words[-1].rstrip(",")
    return packed(words)


# ---- the description --------------------------------------------------------------------------------------


def description(plan: Plan) -> dict[str, Any]:
    """The arrays, dimensions and equations of a model, as C initialisers."""
    program = plan.program
    offsets = plan.state_offsets
    return {
        "inputs": [_array(array) for array in program.inputs],
        "outputs": [_array(array) for array in program.outputs],
        "state": [_array(array, offset) for array, offset in zip(program.state, offsets, strict=True)],
        "dims": [{"name": string(dim.name), "bound": dim.bound} for dim in program.dims],
        "equations": [string(line) for line in program.equations],
        "state_bytes": plan.state_bytes,
        "work_bytes": plan.work_bytes,
        "row_bytes": _row_bytes(program),
    }


def _array(array: Array, offset: int = 0) -> dict[str, Any]:
    """The fields of a gt_array."""
    shape = [-1 - n.index if isinstance(n, Dim) else n for n in array.shape]
    count = 1
    for n in array.shape:
        count *= upper(n)
    return {
        "name": string(array.name),
        "dtype": string(array.dtype),
        "rank": len(shape),
        "shape": f"(const int64_t[]){{{', '.join(map(str, shape))}}}" if shape else "0",
        "scale": next((n.factor for n in array.shape if isinstance(n, Dim)), 1),
        "bytes": count * SIZES[array.dtype],
        "offset": offset,
    }


def _row_bytes(program: Program) -> str:
    """The bytes of one row of each input: a constant table, or one of this call where dimensions take part."""
    rows = [(SIZES[a.dtype], *map(_of_call, a.shape[1:])) if a.shape else (0,) for a in program.inputs]
    fixed = all(isinstance(n, int) for row in rows for n in row)
    values = ", ".join(size(row) for row in rows)
    return f"{'static ' if fixed else ''}const int64_t row_bytes[{len(rows)}] = {{{values}}};"


def _of_call(length: Extent) -> Extent:
    """An extent in terms of the arguments."""
    if isinstance(length, int):
        return length
    return Dim(length.index, f"args->dims[{length.index}]", length.bound, length.factor)


# ---- helpers ----------------------------------------------------------------------------------------------


class Needy(Protocol):
    """A kernel that names the helpers it calls."""

    @property
    def needs(self) -> set[tuple[Any, ...]]: ...


def helpers(kernels: Iterable[Needy], target: Target) -> dict[str, Any]:
    """What the prelude of a unit with these kernels has to define."""
    needs: set[tuple[Any, ...]] = set()
    for kernel in kernels:
        needs |= kernel.needs
    tiles = sorted(need[1] for need in needs if need[0] == "tile")
    tags = sorted({tile.dtype for tile in tiles})
    return {
        "fail": ("fail",) in needs,
        "folds": [_fold(*need[1:]) for need in sorted(need for need in needs if need[0] == "fold")],
        "vectors": [_vector(tag, target) for tag in tags if full_tile(tag, target).lanes > 1],
        "tiles": [_family(tag, tiles, ("choice", tag) in needs, ("rest", tag) in needs, target) for tag in tags],
        "blas": [
            {"tag": tag, "ctype": DTYPES[tag], "function": _BLAS[tag]} for tag in FLOATS if ("blas", tag) in needs
        ],
    }


_BLAS = {"f32": "sgemm", "f64": "dgemm"}

_WORDS = {"sum": "sum", "max": "maximum", "min": "minimum"}


def _fold(op: str, tag: str) -> dict[str, Any]:
    take = partial(fold, op, tag)
    return {"op": op, "tag": tag, "word": _WORDS[op], "ctype": DTYPES[tag], "first": neutral(op, tag), "take": take}


def _vector(tag: str, target: Target) -> dict[str, Any]:
    lanes = target.lanes(SIZES[tag])
    splat = ", ".join(["s"] * lanes)
    return {
        "tag": tag,
        "ctype": DTYPES[tag],
        "lanes": lanes,
        "bytes": target.width,
        "align": SIZES[tag],
        "splat": splat,
    }


def _multiply_add(tag: str, a: str, b: str, c: str) -> str:
    """`a * b + c` of a product: fused where the target can."""
    return f"VFMA({a}, {b}, {c})" if tag in FLOATS else f"gt_add_{tag}({c}, gt_mul_{tag}({a}, {b}))"


def _family(tag: str, tiles: Sequence[Tile], choice: bool, rest: bool, target: Target) -> dict[str, Any]:
    """The tiles of one dtype, and the function that chooses among them where sizes vary."""
    width = full_tile(tag, target).cols
    last = _multiply_add(tag, "a[ak * p]", "b[bk * p + bn * j]", "tile[j]") if rest else ""
    own = [tile for tile in tiles if tile.dtype == tag]
    unused = [] if rest or any(tile.rows > 1 for tile in own) else ["am"]
    unused += [] if rest or any(tile.cols > 1 for tile in own) else ["bn"]
    return {
        "tag": tag,
        "width": width,
        "tiles": [_tile(tile, width) for tile in own],
        "choice": choice,
        "rest": last,
        "unused": unused,
        "head": call(f"static void gt_tile_{tag}", _tile_params(DTYPES[tag]), ""),
    }


def _tile_params(ctype: str) -> list[str]:
    """The parameters of the function that chooses a tile; a tile takes some of them."""
    a = [f"const {ctype} *a", "int64_t am", "int64_t ak"]
    b = [f"const {ctype} *b", "int64_t bk", "int64_t bn"]
    return ["int64_t rows", "int64_t cols", "int64_t k", *a, *b, f"{ctype} *tile"]


def _bare_names(params: Sequence[str]) -> list[str]:
    return [param.split()[-1].lstrip("*") for param in params]


def _tile(tile: Tile, width: int) -> dict[str, Any]:
    """One tile function: its accumulators are named c<row><vector>."""
    tag, lanes = tile.dtype, tile.lanes
    ctype = DTYPES[tag]
    vector = f"gt_v_{tag}" if lanes > 1 else VARIABLES[tag]
    params = tile.takes(_tile_params(ctype))
    starts = range(0, tile.cols, lanes)
    first, steps, last = [], [], []
    for row in range(tile.rows):
        cells = [(f"c{row}{v}", width * row + start) for v, start in enumerate(starts)]
        source = f"ap[{affine([('am', row)])}]"
        if lanes > 1:
            first.append(f"{vector} {', '.join(f'{c} = gt_load_{tag}(tile + {at})' for c, at in cells)};")
            steps.append(f"s = gt_splat_{tag}({source});")
            last.append(" ".join(f"gt_store_{tag}(tile + {at}, {c});" for c, at in cells))
        else:
            first.append(f"{vector} {', '.join(f'{c} = tile[{at}]' for c, at in cells)};")
            steps.append(f"s = {source};")
            last.append(" ".join(f"tile[{at}] = {c};" for c, at in cells))
        products = [f"{c} = {_multiply_add(tag, 's', f'b{v}', c)}" for v, (c, _) in enumerate(cells)]
        steps += [f"{', '.join(products[at : at + 4])};" for at in range(0, len(products), 4)]
    loads = [line for v, start in enumerate(starts) for line in _row_of_b(tile, vector, v, start)]
    return {
        **tile._asdict(),
        "vector": vector,
        "head": call(f"static void {tile.name}", params, ""),
        "call": f"{tile.name}({', '.join(_bare_names(params))})",
        "pointers": [f"const {ctype} *ap = a + ak * p, *bp = b + bk * p;"],
        "first": first,
        "loads": loads,
        "steps": steps,
        "last": last,
    }


def _row_of_b(tile: Tile, vector: str, number: int, start: int) -> list[str]:
    """The lines that load one vector of b; lanes behind the last column are 0."""
    count = min(tile.lanes, tile.cols - start)
    lanes = range(start, start + count)
    cells = [f"bp[{affine([('bn', lane)]) if tile.strided else lane}]" for lane in lanes]
    if tile.lanes == 1:
        return [f"const {vector} b{number} = {cells[0]};"]
    if count == tile.lanes and not tile.strided:
        return [f"const {vector} b{number} = gt_load_{tile.dtype}(bp{f' + {start}' if start else ''});"]
    return call(f"const {vector} b{number} = ", cells, ";", brackets="{}")

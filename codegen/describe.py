"""What C readers and callers are told: the arrays of a kernel in its comment, and the description of a model.

In comes a step or a plan; out goes comment text, and records for templates/model.c.j2 and run.c.j2. Law: the
description names arrays, dimensions and equations as the program does, with the places of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cexpr import SIZES
from .ctext import extent, packed, size, string
from .memory import Plan
from .program import Array, Buffer, Dim, Extent, Gemm, Kernel, Program, Routine, upper
from .signature import Signature, touched


def shape_text(array: Array | Buffer) -> str:
    """`f32[32, 784]`."""
    return f"{array.dtype}[{', '.join(extent(n) for n in array.shape)}]"


def shapes(original: Kernel, step: Kernel, signature: Signature, table: Mapping[str, Buffer]) -> list[str]:
    """The loops and the arrays of a kernel: `(32, 10): x f32[32, 10] -> y f32[32, 10]`.

    The loops are those of the original step, the arrays those that the simplified one still touches.
    """
    if isinstance(original, Gemm):
        space = (*original.batch, original.m, original.n)
        sums = f" sums of {' and '.join(extent(term.k) for term in original.terms) or '0'}"
    elif isinstance(original, Routine):
        space, sums = original.sizes, f" {original.function}"
    else:
        space, sums = original.space, ""
    words = [f"({', '.join(extent(n) for n in space)}){sums}:"]
    homes = {name: param.buffers for param in signature.params for name in param.buffers}
    read: dict[str, str] = {}
    written: dict[str, str] = {}
    for name, writes in touched(step, table):
        known = {**read, **written}
        if name not in known:
            older = next((other for other in homes[name] if other in known), "")
            told = f"in place of {older}" if older else shape_text(table[name])
            (written if writes else read)[name] = f"{name} {told},"
    for arrow, found in (("", read), ("->", written)):
        words += ([arrow] if arrow and found else []) + list(found.values())
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
        "equations": packed([f"{string(line)}," for line in program.equations], indent=""),
        "n_equations": len(program.equations),
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

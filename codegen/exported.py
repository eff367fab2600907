"""A model as a small C project: its functions under a user's prefix, its parameters, an example, ways to build it.

Comes in: programs over one state (or none), the state's first contents, a target. Goes out: files by name. Laws: the
C is that of a build for the same target, so it computes the same bits; it allocates nothing, has no global that
changes, calls nothing but <string.h> and <math.h>, and takes all its memory from the caller.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import toolchain, write
from .abi import with_headers
from .cexpr import DTYPES, identifier
from .ctext import Names, comment, packed
from .emit import renderer
from .extent import ALIGN, Array, Dim, nbytes, upper
from .memory import Plan
from .program import Program
from .target import Target

HEADER_BYTES = 24
"""Of a saved state: a mark, the layout, the bytes, a checksum."""


@dataclass(frozen=True)
class Function:
    """A function of the project: `program` under `name`; inputs named in `constants` are arrays of the project's."""

    name: str
    program: Program
    constants: Mapping[int, np.ndarray]
    about: str


def project(
    prefix: str, functions: Sequence[Function], state: Sequence[np.ndarray], target: Target, version: str
) -> dict[str, str]:
    """The files of a project. `state` has the first contents of the state's leaves, in order."""
    plans = [write.place(function.program, target, blas=False) for function in functions]
    sources = [write.emit(plan, target, whole=True).units[0].text for plan in plans]
    first = plans[0]
    leaves = _leaves(prefix, first, state)
    layout = zlib.crc32("\n".join(f"{leaf['name']} {leaf['type']} {leaf['offset']}" for leaf in leaves).encode())
    context: dict[str, Any] = {
        "prefix": prefix,
        "upper": prefix.upper(),
        "version": version,
        "functions": [_function(prefix, *pair) for pair in zip(functions, plans, strict=True)],
        "leaves": leaves,
        "state_bytes": first.state_bytes,
        "work_bytes": max(plan.work_bytes for plan in plans),
        "saved_bytes": HEADER_BYTES + first.state_bytes,
        "layout": f"{layout:#010x}",
        "aligned": ALIGN,
        "flags": " ".join([toolchain.STANDARDS[target.variant], "-O2", *target.flags]),
        "sources": [f"{prefix}.c", *(f"{prefix}_{function.name}.c" for function in functions)],
    }
    render = renderer()
    files = {f"{prefix}_{f.name}.c": _own(prefix, f.name, text) for f, text in zip(functions, sources, strict=True)}
    files = with_headers(files)
    for name, template in _TEMPLATES.items():
        files[name.format(prefix=prefix)] = render(template, context)
    return files


_TEMPLATES = {
    "{prefix}.h": "export.h.j2",
    "{prefix}.c": "export.c.j2",
    "main.c": "export_main.c.j2",
    "Makefile": "export_Makefile.j2",
    "CMakeLists.txt": "export_CMakeLists.txt.j2",
}
"""File -> its template."""


def _own(prefix: str, name: str, text: str) -> str:
    """The C of one program as a file of the project: its entry gets a name of its own."""
    return (
        "#if defined(__clang__)\n"
        "#pragma clang fp contract(off) /* a * b + c is rounded twice, as everywhere */\n"
        "#elif defined(__GNUC__)\n"
        '#pragma GCC optimize("fp-contract=off")\n'
        "#endif\n"
        f"#define gt_model_get {prefix}_{name}_model /* one name per file */\n{text}"
    )


def _leaves(prefix: str, plan: Plan, state: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    names = Names(_WORDS)
    constants = [names.new(identifier(array.name).upper()) for array in plan.program.state]
    return [
        {
            "name": comment(array.name),
            "constant": f"{prefix.upper()}_{constant}",
            "array": f"{prefix}_first_{constant.lower()}",
            "type": DTYPES[array.dtype],
            "shape": _shape(array),
            "offset": offset,
            "bytes": nbytes(array.shape, array.dtype),
            "values": _values(contents),
        }
        for constant, array, offset, contents in zip(
            constants, plan.program.state, plan.state_offsets, state, strict=True
        )
    ]


_WORDS = frozenset(
    "H STATE_BYTES WORK_BYTES SAVED_BYTES ALIGN OK ERR_INDEX ERR_MATRIX ERR_MEMORY ERR_SIZE ERR_SAVED PARTS".split()
)
"""What the header calls its own constants, after the prefix."""


def _function(prefix: str, function: Function, plan: Plan) -> dict[str, Any]:
    """What the templates say of a function: parameters, and how they become the arguments of its call."""
    program = plan.program
    names = Names(("m",))
    parameters: list[dict[str, Any]] = []
    constants: list[dict[str, Any]] = []
    inputs, buffers = [], []
    dims = [{"name": names.new(dim.name), "bound": dim.bound} for dim in program.dims]
    parameters += [{"text": f"int64_t {dim['name']}", "about": f"1 to {dim['bound']}"} for dim in dims]
    for slot, array in enumerate(program.inputs):
        kind = DTYPES[array.dtype]
        if slot in function.constants:
            name = f"{prefix}_{function.name}_constant_{len(constants)}"
            constants.append({"name": name, "type": kind, "values": _values(function.constants[slot])})
            inputs.append(name)
            continue
        name = names.new(identifier(array.name))
        by_value = not array.shape
        parameters.append({"text": f"{kind} {name}" if by_value else f"const {kind} *{name}", "about": _shape(array)})
        inputs.append(f"&{name}" if by_value else name)
        buffers.append({"name": name, "type": kind, "count": _count(array), "by_value": by_value})
    outputs, results = [], []
    for slot, array in enumerate(program.outputs):
        loss = slot == 0 and program.loss is not None
        given = identifier(array.name)
        name = names.new("loss" if loss else given if given[0].isalpha() else f"out{given}")
        about = f"{_shape(array)}{', or NULL' if loss else ''}"
        parameters.append({"text": f"{DTYPES[array.dtype]} *{name}", "about": about})
        outputs.append({"name": name, "type": DTYPES[array.dtype], "loss": loss})
        results.append({"name": name, "type": DTYPES[array.dtype], "count": _count(array)})
    return {
        "name": function.name,
        "about": function.about,
        "parameters": parameters,
        "inputs": inputs,
        "outputs": outputs,
        "constants": constants,
        "dims": dims,
        "buffers": buffers,
        "results": results,
        "has_state": bool(program.state),
    }


def _shape(array: Array) -> str:
    """The type of an array for people: float [32][64]."""
    extents = [f"{e.factor} {e.name}" if isinstance(e, Dim) and e.factor != 1 else _extent(e) for e in array.shape]
    return f"{DTYPES[array.dtype]}{''.join(f' [{e}]' if not i else f'[{e}]' for i, e in enumerate(extents))}"


def _extent(extent: Any) -> str:
    return extent.name if isinstance(extent, Dim) else str(extent)


def _count(array: Array) -> int:
    count = 1
    for extent in array.shape:
        count *= upper(extent)
    return max(count, 1)


def _values(array: np.ndarray) -> list[str]:
    """The elements as C, in lines; an array without elements has one, since C knows no others."""
    flat = np.ascontiguousarray(array).ravel()
    if flat.itemsize == 2 and flat.dtype.kind not in "iu":
        flat = flat.view(np.uint16)  # floats of 16 bits are their bits in C
    words = [_value(value) for value in (flat if flat.size else np.zeros(1, flat.dtype))]
    return list(packed([f"{word}," for word in words], indent="    "))


def _value(value: Any) -> str:
    if value.dtype.kind != "f":
        number = int(value)
        if value.dtype.itemsize < 8:
            return str(number)
        return f"UINT64_C({number})" if number >= 0 else f"(-INT64_C({-number - 1}) - 1)"
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    digits = np.format_float_scientific(value, unique=True, trim="0")
    return f"{digits}f" if value.dtype.itemsize == 4 else digits

"""A model as a small C project: its functions under a user's prefix, its parameters, an example, ways to build it.

Comes in: programs over one state (or none), the state's first contents, a target. Goes out: files by name. Laws: the
C is that of a build for the same target, so it computes the same bits; it allocates nothing, has no global that
changes, calls nothing but <string.h> and <math.h>, and takes all its memory from the caller.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import toolchain, write
from .abi import with_headers
from .access import touches
from .cexpr import DTYPES, identifier, literal
from .ctext import LIBRARY, Names, call, comment, packed
from .emit import renderer
from .extent import ALIGN, Array, Dim, nbytes, upper
from .memory import Plan
from .program import Load, Program, RowKernel, Step, Store, home
from .target import Target

HEADER_BYTES = 16
"""Of a saved state: a mark, the layout, the bytes, a checksum."""

MARK = int.from_bytes(b"GTS1", "little")
"""Begins a saved state; read in the other byte order it is another number."""

_CPP = (
    "alignas alignof and and_eq bitand bitor bool catch char8_t char16_t char32_t class compl concept consteval"
    " constexpr constinit const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export false"
    " friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public"
    " reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid typename"
    " using virtual wchar_t xor xor_eq"
)
_IN_USE = "NULL EOF FILE argc argv stdin stdout stderr fopen fclose fread fgetc fprintf size_t uintptr_t"
RESERVED = frozenset([*_CPP.split(), *_IN_USE.split(), *DTYPES.values()])
"""What no name of a header may be, beside the keywords of C: a header is for C++ too."""

_WORDS = frozenset(
    "H STATE_BYTES WORK_BYTES SAVED_BYTES ALIGN OK ERR_INDEX ERR_MATRIX ERR_MEMORY ERR_SIZE ERR_SAVED PARTS".split()
)
"""What the header calls its own constants, after the prefix."""


@dataclass(frozen=True)
class Function:
    """A function of the project: `program` under `name`; inputs named in `constants` are arrays of the project's."""

    name: str
    program: Program
    constants: Mapping[int, np.ndarray]
    about: str


def fits(prefix: str) -> bool:
    """Whether names of C and C++ may begin so, and a type be called so.

    >>> fits("mlp"), fits("class"), fits("linux"), fits("2x"), fits("size_t")
    (True, False, False, False, False)
    """
    return Names(RESERVED, LIBRARY).new(prefix) == prefix and not prefix.endswith("_t")


def of_touched_state(program: Program) -> tuple[Program, list[int]]:
    """The program without the leaves of the state that it leaves alone, and the numbers of those it keeps.

    A leaf that is only copied onto itself is left alone.
    """
    table = program.table
    over = {b.name: b.alias for b in program.buffers if b.role == "output" and b.alias and b.slot == -1}
    leaves = {buffer.name: buffer.slot for buffer in program.buffers if buffer.role == "state"}
    used, steps = set(), []
    for step in program.steps:
        named = {over.get(name, name) for name in (home(n, table) for n in touches(step, table).names())}
        if not (_is_copy(step) and len(named) == 1 and named <= leaves.keys()):
            used |= named
            steps.append(step)
    used |= {buffer.alias for buffer in program.buffers if buffer.alias and buffer.slot != -1}
    kept = sorted(slot for name, slot in leaves.items() if name in used)
    buffers = []
    for buffer in program.buffers:
        leaf = over.get(buffer.name, buffer.name)
        if leaf in leaves and leaf not in used:
            continue
        buffers.append(replace(buffer, slot=kept.index(buffer.slot)) if buffer.role == "state" else buffer)
    state = tuple(program.state[slot] for slot in kept)
    return replace(program, buffers=tuple(buffers), steps=tuple(steps), state=state), kept


def _is_copy(step: Step) -> bool:
    """Whether a step moves elements, each to the same place of another buffer, and computes nothing."""
    if not isinstance(step, RowKernel):
        return False
    stmts = [stmt for phase in step.phases for stmt in (*phase.head, *phase.body)]
    places = {replace(stmt.access, buffer="") for stmt in stmts if isinstance(stmt, Load | Store)}
    return len(places) == 1 and all(isinstance(stmt, Load | Store) for stmt in stmts)


def project(
    prefix: str,
    about: str,
    functions: Sequence[Function],
    state: Sequence[np.ndarray],
    target: Target,
    version: str,
    in_file: bool,
) -> dict[str, bytes]:
    """The files of a project.

    `about` says what the model is; `state` has the first contents of the state's leaves, in order, which with `in_file`
    go into a file that a program reads instead of the C.
    """
    plans = [write.place(function.program, target, blas=False) for function in functions]
    first = plans[0]
    leaves = _leaves(prefix, first, [] if in_file else state)
    context: dict[str, Any] = {
        "prefix": prefix,
        "upper": prefix.upper(),
        "about": about,
        "version": version,
        "functions": [_function(prefix, *pair) for pair in zip(functions, plans, strict=True)],
        "leaves": leaves,
        "in_file": in_file,
        "state_bytes": first.state_bytes,
        "work_bytes": max(plan.work_bytes for plan in plans),
        "saved_bytes": HEADER_BYTES + first.state_bytes,
        "mark": f"{MARK:#010x}",
        "layout": f"{_layout(first):#010x}",
        "aligned": ALIGN,
        "flags": " ".join([toolchain.STANDARDS[target.variant], "-O2", *target.flags]),
        "sources": [f"{prefix}.c", *(f"{prefix}_{function.name}.c" for function in functions)],
    }
    files = {
        f"{prefix}_{function.name}.c": _own(prefix, function.name, plan, target)
        for function, plan in zip(functions, plans, strict=True)
    }
    render = renderer()
    for name, template in _TEMPLATES.items():
        files[name.format(prefix=prefix)] = render(template, context)
    every = with_headers(files)
    if target.variant == "portable":
        every.pop("gt_vector.h", None)  # included where there are vectors only
    encoded = {name: text.encode() for name, text in every.items()}
    return encoded | ({f"{prefix}.bin": saved(first, state)} if in_file else {})


_TEMPLATES = {
    "{prefix}.h": "export.h.j2",
    "{prefix}.c": "export.c.j2",
    "main.c": "export_main.c.j2",
    "Makefile": "export_Makefile.j2",
    "CMakeLists.txt": "export_CMakeLists.txt.j2",
}
"""File -> its template."""


def _own(prefix: str, name: str, plan: Plan, target: Target) -> str:
    """The C of one program as a file of the project."""
    text = write.emit(plan, target, entry=_entry(prefix, name)).units[0].text
    return (
        f"/* {prefix}_{name}.c: what {prefix}_{name} computes, kernel after kernel; the last function calls them.\n"
        f" * The lines beside the C are those of the Python that it was made of. */\n"
        "#if defined(__clang__)\n"
        "#pragma clang fp contract(off) /* a * b + c is rounded twice, as everywhere */\n"
        "#elif defined(__GNUC__)\n"
        '#pragma GCC optimize("fp-contract=off")\n'
        f"#endif\n\n{text}"
    )


def _entry(prefix: str, name: str) -> str:
    """The symbol of the C of one program."""
    return f"{prefix}_{name}_compute"


# ---- the state ---------------------------------------------------------------------------------------------


def _layout(plan: Plan) -> int:
    """A digest of what the leaves of the state are and where they lie."""
    leaves = zip(plan.program.state, plan.state_offsets, strict=True)
    return zlib.crc32("\n".join(f"{a.name} {a.dtype} {list(a.shape)} {offset}" for a, offset in leaves).encode())


def saved(plan: Plan, state: Sequence[np.ndarray]) -> bytes:
    """The state as the C saves it, in the byte order of this machine."""
    block = bytearray(plan.state_bytes)
    for array, offset in zip(state, plan.state_offsets, strict=True):
        block[offset : offset + array.nbytes] = np.ascontiguousarray(array).tobytes()
    header = np.array([MARK, _layout(plan), plan.state_bytes & 0xFFFFFFFF, zlib.crc32(block)], np.uint32)
    return header.tobytes() + bytes(block)


def _leaves(prefix: str, plan: Plan, state: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """What the templates say of the leaves of the state; those that `state` has no contents of have no values."""
    names = Names(_WORDS)
    constants = [names.new(identifier(array.name).upper()) for array in plan.program.state]
    wide = len(prefix) + max(map(len, constants), default=0) + 2
    values = [_values(array) if array.tobytes().strip(b"\0") else [] for array in state]
    values += [[]] * (len(constants) - len(values))
    return [
        {
            "told": f"{prefix.upper()}_{constant},".ljust(wide) + f" /* {comment(array.name)}: {_shape(array)} */",
            "array": f"{prefix}_first_{constant.lower()}",
            "type": DTYPES[array.dtype],
            "offset": offset,
            "bytes": nbytes(array.shape, array.dtype),
            "values": contents,
        }
        for constant, array, offset, contents in zip(
            constants, plan.program.state, plan.state_offsets, values, strict=True
        )
    ]


# ---- the functions -----------------------------------------------------------------------------------------


def _function(prefix: str, function: Function, plan: Plan) -> dict[str, Any]:
    """What the templates say of a function: parameters, and how they become the arguments of its call."""
    program, entry = plan.program, _entry(prefix, function.name)
    names = Names(("m", entry), RESERVED, (f"{prefix.upper()}_{word}" for word in _WORDS))
    parameters: list[dict[str, str]] = []
    constants: list[dict[str, Any]] = []
    inputs, buffers, outputs, results = [], [], [], []
    dims: list[dict[str, Any]] = [{"name": names.new(dim.name), "bound": dim.bound} for dim in program.dims]
    for dim in dims:
        parameters.append({"name": dim["name"], "text": f"int64_t {dim['name']}", "about": f"1 to {dim['bound']}"})
    for slot, array in enumerate(program.inputs):
        kind = DTYPES[array.dtype]
        if slot in function.constants:
            name = f"{prefix}_{function.name}_constant_{len(constants)}"
            constants.append({"name": name, "type": kind, "values": _values(function.constants[slot])})
            inputs.append(name)
            continue
        name = names.new(identifier(array.name))
        by_value = not array.shape
        text = f"{kind} {name}" if by_value else f"const {kind} *{name}"
        parameters.append({"name": name, "text": text, "about": _shape(array)})
        inputs.append(f"&{name}" if by_value else name)
        buffers.append({"name": name, "type": kind, "count": _count(array), "by_value": by_value})
    for slot, array in enumerate(program.outputs):
        kind, loss = DTYPES[array.dtype], slot == 0 and program.loss is not None
        name = names.new("loss" if loss else _result(array.name, len(program.outputs)))
        about = f"{_shape(array)}{', or NULL' if loss else ''}"
        parameters.append({"name": name, "text": f"{kind} *{name}", "about": f"{about}, written"})
        outputs.append({"name": name, "type": kind, "loss": loss})
        shown = _PRINTED.get(kind, ("%llu", "unsigned long long") if kind[0] == "u" else ("%lld", "long long"))
        results.append({"name": name, "type": kind, "count": _count(array), "format": shown[0], "shown": shown[1]})
    given_to = [
        *(str(dim["bound"]) for dim in dims),
        *(f"{prefix}_in_{b['name']}{'[0]' if b['by_value'] else ''}" for b in buffers),
        *(f"{prefix}_out_{result['name']}" for result in results),
    ]
    return {
        "name": function.name,
        "about": function.about,
        "entry": entry,
        "head": call(f"int32_t {prefix}_{function.name}", [f"{prefix} *m", *(p["text"] for p in parameters)], ""),
        "call": call(f"code = {prefix}_{function.name}", ["&model", *given_to], ";"),
        "parameters": parameters,
        "inputs": inputs,
        "outputs": outputs,
        "constants": constants,
        "dims": dims,
        "buffers": buffers,
        "results": results,
        "has_state": bool(program.state),
    }


def _result(path: str, count: int) -> str:
    """What a result is called: the keys at the end of its path, or `out` and its last number if there are several.

    >>> _result("1.1.mean", 2), _result("1.0", 2), _result("1", 1)
    ('mean', 'out0', 'out')
    """
    keys = path.lstrip("0123456789.")
    return identifier(keys) if keys else f"out{path.rpartition('.')[2] if count > 1 else ''}"


_PRINTED = {"float": ("%.17g", "double"), "double": ("%.17g", "double")}
"""C type -> how printf shows it, and as which type it takes it; integers are shown as the widest there are."""


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


# ---- arrays ------------------------------------------------------------------------------------------------


def _values(array: np.ndarray) -> list[str]:
    """The elements as C, in lines; an array without elements has one, since C knows no others."""
    flat = np.ascontiguousarray(array).ravel()
    if flat.itemsize == 2 and flat.dtype.kind not in "iu":
        flat = flat.view(np.uint16)  # floats of 16 bits are their bits in C
    flat = flat if flat.size else np.zeros(1, flat.dtype)
    words = map(_float, flat) if flat.dtype.kind == "f" else (literal(int(value), _tag(flat)) for value in flat)
    return list(packed([f"{word}," for word in words], indent="    "))


def _tag(array: np.ndarray) -> str:
    """The tag of an array of integers or truth values."""
    return "b1" if array.dtype.kind == "b" else f"{array.dtype.kind}{8 * array.itemsize}"


def _float(value: Any) -> str:
    """The shortest literal of a float's bits; NumPy finds it sooner than `literal` does."""
    suffix = "f" if value.dtype.itemsize == 4 else ""
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return f"{value.item() if not suffix else value!s}{suffix}"

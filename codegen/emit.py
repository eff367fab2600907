"""Program -> C: functions for the steps, an entry that calls them, the loop over batches, the description.

In comes a planned Program; out goes C text in one unit or several (templates/*.c.j2 hold the frame, rows.py
and gemm.py the kernels). Laws: the C depends on the plan and the target only; it allocates nothing, has no
globals but constant tables, and every kernel that is the same function is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from . import gemm, nest, rows
from .body import Body
from .cexpr import DTYPES, identifier
from .ctext import LIBRARY, Code, Names, block_comment, call, comment, extent, string, wrapped
from .describe import description, shape_text, shapes
from .memory import Place, Plan
from .program import Buffer, Dim, Extent, Gemm, Reduce, RowKernel, Step
from .signature import Signature, signature
from .target import Target
from .tiles import families

UNIT_LINES = 1500
"""Statements per file: more are spread over several files, which compile in parallel."""

PART_CALLS = 100
"""Kernel calls per function, and twice that in the entry alone: compilers take long over longer functions."""

COUNT = -1
"""The index of the dimension that stands for the length of a kernel that serves several lengths."""

COMMENTED_USES = 6
"""Further uses of a kernel that its comment lists."""

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


@dataclass(frozen=True)
class Unit:
    """One C file."""

    filename: str
    text: str


@dataclass(frozen=True)
class Source:
    """The C of a model. The first unit holds the entry; all are compiled and linked together."""

    name: str
    units: tuple[Unit, ...]
    needs_blas: bool

    @property
    def c_source(self) -> str:
        """All units as one text, for reading."""
        if len(self.units) == 1:
            return self.units[0].text
        return "\n".join(f"/* ---- {unit.filename} ---- */\n{unit.text}" for unit in self.units)


@dataclass
class _Function:
    """A kernel function, and the steps that it serves beside its first."""

    name: str
    step: Step
    signature: Signature
    body: Body
    shapes: list[str]
    also: list[Step] = field(default_factory=list)

    @property
    def result(self) -> str:
        return "int32_t" if self.signature.fails else "void"

    @property
    def text(self) -> str:
        """The inside."""
        return self.body.code.text()

    @property
    def head(self) -> list[str]:
        """`GT_KERNEL void name(parameters)`, in lines."""
        sig = self.signature
        params = [param.declare(name) for param, name in zip(sig.params, self.body.params, strict=True)]
        params += [f"int64_t {dim.name}" for dim in sig.dims]
        params += ["gt_args *args"] * sig.fails + ["const gt_blas *blas"] * sig.blas
        return call(f"GT_KERNEL {self.result} {self.name}", params, "")

    @property
    def comment(self) -> list[str]:
        """What the kernel computes, over which loops and arrays, and what else it serves."""
        also: list[str] = []
        said: tuple[str, ...] = self.step.comment
        for step in self.also[:COMMENTED_USES]:
            if step.comment != said or not also:
                also.append(f"also {step.name}")
                also[-1] += f": {' '.join(step.comment)}" if step.comment not in ((), said) else ""
            else:
                also[-1] += f", {step.name}"
            said = step.comment
        if len(self.also) > COMMENTED_USES:
            also.append(f"and {len(self.also) - COMMENTED_USES} more")
        return block_comment([*wrapped(self.step.comment), *self.shapes, *wrapped(also)])


@dataclass(frozen=True)
class _Call:
    """One step of the entry."""

    function: _Function
    signature: Signature
    length: Extent

    @property
    def dims(self) -> Iterator[Dim]:
        """The run-time dimensions that its arguments name."""
        own = (*self.signature.dims, *([self.length] if isinstance(self.length, Dim) else []))
        return (Dim(dim.index, dim.name, dim.bound) for dim in own if dim.index != COUNT)

    def args(self, pointers: Mapping[str, str]) -> list[str]:
        """The arguments, for buffers that are called so."""
        sig = self.signature
        args = [pointers[param.buffers[0]] for param in sig.params]
        args += [extent(self.length) if dim.index == COUNT else dim.name for dim in sig.dims]
        return args + ["args"] * sig.fails + ["args->blas"] * sig.blas


def emit(plan: Plan, target: Target, timed: bool = False) -> Source:
    """The C of a planned program for a target; `timed` adds the clock of gt_time.h around each kernel."""
    told = description(plan)
    plan = _with_dim_names(plan)
    program = plan.program
    title = identifier(program.name)
    names = Names(LIBRARY, (dim.name for dim in program.dims))
    frame = {part: names.new(f"{title}_{part}") for part in _FRAME}
    count = Dim(COUNT, names.new("count"), 2**62)
    functions, calls = _functions(plan, target, names, count)
    groups = _units(functions)
    alone = len(groups) == 1
    if not alone:
        for function in functions:
            function.name = names.new(f"{title}_{function.name}")
    parts, entry = _entry(plan, calls, names, title, timed)
    needs_blas = any(function.signature.blas for function in functions)
    module = {
        "title": string(program.name),
        "header": block_comment(wrapped([f"{program.name}: generated by gtensor", *program.header])),
        "names": frame,
        "parts": parts,
        "entry": entry,
        "needs_blas": needs_blas,
        "has_loss": program.loss is not None,
        "declarations": [] if alone else _declarations(functions),
        "kernels": groups[0] if alone else [],
        "module": True,
        "alone": alone,
        "timed": [string(item.function.name) for item in calls] if timed else [],
        **_prelude(groups[0] if alone else [], target),
        **told,
    }
    render = _renderer()
    units = [Unit(f"{title}.c", render("module.c.j2", module))]
    for number, group in enumerate([] if alone else groups, 1):
        more = {"title": comment(program.name), "kernels": group, "module": False, "alone": False}
        units.append(Unit(f"{title}_{number}.c", render("unit.c.j2", {**more, **_prelude(group, target)})))
    return Source(title, tuple(units), needs_blas)


_FRAME = ("call", "run", "init", "model", "inputs", "outputs", "state", "dims", "equations")
"""The names of the frame at file level, after the model's own."""


def _with_dim_names(plan: Plan) -> Plan:
    """The plan with run-time dimensions called as a C variable may be: their names become parameters."""
    fit = Names()
    names = {dim.index: fit.new(dim.name) for dim in plan.program.dims}
    if all(names[dim.index] == dim.name for dim in plan.program.dims):
        return plan

    def renamed(value: Any) -> Any:
        if isinstance(value, Dim):
            return replace(value, name=names[value.index])
        if isinstance(value, tuple):
            return tuple(map(renamed, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: renamed(getattr(value, f.name)) for f in fields(value)})
        return value

    return replace(plan, program=renamed(plan.program))


# ---- kernels ----------------------------------------------------------------------------------------------


def _functions(plan: Plan, target: Target, names: Names, count: Dim) -> tuple[list[_Function], list[_Call]]:
    """A function per kernel, equal ones once, and the calls in order. A step that touches nothing is left out."""
    table = plan.program.table
    found: dict[Hashable, _Function] = {}
    calls: list[_Call] = []
    simplified = [_simplified(step, table, plan.places) for step in plan.program.steps]
    for original, (step, length) in zip(plan.program.steps, _of_any_length(simplified, plan, count), strict=True):
        own = signature(step, table, plan.places)
        if not own.params:
            continue
        function = found.get(own.key)
        if function is None:
            told = shapes(original, step, own, table)
            function = _Function(names.new(step.name), step, own, _write(step, own, table, target), told)
            found[own.key] = function
        else:
            function.also.append(step)
        calls.append(_Call(function, own, length))
    return list(found.values()), calls


def _of_any_length(steps: Sequence[Step], plan: Plan, count: Dim) -> list[tuple[Step, Extent]]:
    """The steps with their lengths; single loops that differ in nothing but length take it as a parameter, `count`.

    An optimizer's update of parameters of many shapes is then one function.
    """
    table = plan.program.table
    found: dict[Hashable, list[int]] = {}
    out: list[tuple[Step, Extent]] = [(step, 0) for step in steps]
    for number, step in enumerate(steps):
        if isinstance(step, RowKernel) and _is_plain_loop(step):
            general = replace(step, space=(count,))
            found.setdefault(signature(general, table, plan.places).key, []).append(number)
            out[number] = (general, step.space[0])
    for numbers in found.values():
        if len({out[number][1] for number in numbers}) == 1:
            for number in numbers:
                out[number] = (steps[number], 0)
    return out


def _is_plain_loop(kernel: RowKernel) -> bool:
    """One loop of more than one element around one body, without sums."""
    if len(kernel.space) != 1 or kernel.space[0] == 1 or len(kernel.phases) != 1 or kernel.accumulators:
        return False
    (phase,) = kernel.phases
    return not phase.head and not any(isinstance(stmt, Reduce) for stmt in phase.body)


def _simplified(step: Step, table: Mapping[str, Buffer], places: Mapping[str, Place]) -> Step:
    if isinstance(step, Gemm):
        return nest.gemm_statements(step, places.__getitem__)
    return nest.row_kernel(step, table, places.__getitem__)


def _write(step: Step, own: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    if isinstance(step, Gemm):
        return gemm.write(step, own, table, target)
    return rows.write(step, own, table, target)


def _units(functions: list[_Function]) -> list[list[_Function]]:
    """The functions in order, in as many groups of about equal length as their statements ask for."""
    sizes = [len(function.body.code.lines) for function in functions]
    count = max(1, -(-sum(sizes) // UNIT_LINES))
    groups: list[list[_Function]] = [[] for _ in range(count)]
    done = 0
    for function, size in zip(functions, sizes, strict=True):
        groups[min(count - 1, (done + size // 2) * count // max(1, sum(sizes)))].append(function)
        done += size
    return [group for group in groups if group] or [[]]


def _declarations(functions: Iterable[_Function]) -> list[str]:
    """Prototypes of kernels in other units."""
    return [line for function in functions for line in [*function.head[:-1], function.head[-1] + ";"]]


# ---- the entry --------------------------------------------------------------------------------------------


def _entry(plan: Plan, calls: list[_Call], names: Names, title: str, timed: bool) -> tuple[list[dict[str, str]], str]:
    """The functions that parts of a long step become, and the inside of the entry."""
    parts: list[dict[str, str]] = []
    entry = _Entry(plan, names, timed)
    entry.test_dims()
    if len(calls) <= 2 * PART_CALLS:
        entry.calls(calls)
    else:
        entry.code.add("int32_t code;")
        for first in range(0, len(calls), PART_CALLS):
            part = _Entry(plan, names, timed)
            part.calls(calls[first : first + PART_CALLS], first)
            parts.append({"name": names.new(f"{title}_part_{len(parts) + 1}"), "body": part.end()})
            entry.run(parts[-1]["name"], ["args"], fails=True)
    entry.loss()
    return parts, entry.end()


class _Entry:
    """The inside of a function that fetches pointers from the arguments and calls kernels."""

    def __init__(self, plan: Plan, names: Names, timed: bool) -> None:
        self.plan = plan
        self.names = names
        self.timed = timed
        self.names.push()
        self.code = Code()
        self._pointers: dict[str, str] = {}
        self._blocks: dict[str, str] = {}
        self._known: set[int] = set()

    def end(self) -> str:
        """The text; the names of the function are free again."""
        self.names.pop()
        self.code.add("return GT_OK;")
        return self.code.text()

    def test_dims(self) -> None:
        """Fetch the run-time dimensions and refuse those out of their bounds."""
        dims = self.plan.program.dims
        self._dims(dims)
        for dim in dims:
            self.code.add(f"if ({dim.name} < 0 || {dim.name} > {dim.bound})")
            self.code.add("    return GT_ERR_ABI;")

    def calls(self, calls: Sequence[_Call], first: int = 0) -> None:
        """Fetch what the calls need, then call; `first` is the number of the first."""
        self._dims(sorted({dim for item in calls for dim in item.dims}, key=lambda dim: dim.index))
        params = [param for item in calls for param in item.signature.params]
        self._fetch({param.buffers[0] for param in params}, {p.buffers[0] for p in params if not p.const})
        if any(item.signature.fails for item in calls):
            self.code.add("int32_t code;")
        if calls:
            self.code.add("")
        clock = self.names.new("clock") if self.timed and calls else ""
        if clock:
            self.code.add(f"double {clock};")
        for number, item in enumerate(calls, first):
            if clock:
                self.code.add(f"{clock} = gt_time_now();")
            self.run(item.function.name, item.args(self._pointers), item.signature.fails)
            if clock:
                self.code.add(f"gt_time_note({number}, {clock});")

    def run(self, function: str, args: list[str], fails: bool) -> None:
        """Call one function; leave if it fails."""
        head, tail = ("if ((code = ", ") != GT_OK)") if fails else ("", ";")
        for line in call(head + function, args, tail):
            self.code.add(line)
        if fails:
            self.code.add("    return code;")

    def loss(self) -> None:
        """Tell the loss."""
        name = self.plan.program.loss
        if name is not None:
            self._fetch({name} - set(self._pointers), set())
            self.code.add(f"args->loss = {self._pointers[name]}[0];")

    def _dims(self, dims: Sequence[Dim]) -> None:
        for dim in dims:
            if dim.index not in self._known:
                self._known.add(dim.index)
                self.code.add(f"const int64_t {dim.name} = args->dims[{dim.index}];")

    def _fetch(self, wanted: set[str], written: set[str]) -> None:
        """Declare a pointer for each buffer, in the order of the program."""
        places = self.plan.places
        buffers = [buffer for buffer in self.plan.program.buffers if buffer.name in wanted]
        for buffer in sorted(buffers, key=lambda buffer: _BLOCKS.index(places[buffer.name].block)):
            place, ctype = places[buffer.name], DTYPES[buffer.dtype]
            if place.block in ("state", "work") and place.block not in self._blocks:
                self._blocks[place.block] = self.names.new(place.block)
                self.code.add(f"unsigned char *{self._blocks[place.block]} = args->{place.block};")
            name = self._pointers[buffer.name] = self.names.new(buffer.name)
            const = "const " if place.block == "in" and buffer.name not in written else ""
            self.code.add(f"{const}{ctype} *{name} = {self._source(place, ctype, bool(const))};", shape_text(buffer))

    def _source(self, place: Place, ctype: str, const: bool) -> str:
        if place.block in self._blocks:
            block = self._blocks[place.block]
            return f"({ctype} *)({block} + {place.offset})" if place.offset else f"({ctype} *){block}"
        cast = f"({ctype} *)" if place.block == "in" and not const else ""
        return f"{cast}args->{place.block}[{place.slot}]"


_BLOCKS = ("in", "out", "state", "work")


# ---- text -------------------------------------------------------------------------------------------------


def _prelude(functions: Sequence[_Function], target: Target) -> dict[str, Any]:
    """What stands before the kernels of a unit."""
    tiles, choices, rests = (
        {item for function in functions for item in getattr(function.body, kind)}
        for kind in ("tiles", "choices", "rests")
    )
    wide = any(tile.lanes > 1 for tile in tiles) or any(function.body.wide for function in functions)
    packs = any(function.body.packs for function in functions)
    return {"vector_bytes": target.width if wide else 0, "tiles": families(tiles, choices, rests), "packs": packs}


def _renderer() -> Callable[[str, Mapping[str, Any]], str]:
    """Renders a template of the templates folder."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return lambda template, context: environment.get_template(template).render(context)

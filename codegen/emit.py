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
from .ctext import LIBRARY, Code, Names, block_comment, call, comment, extent, size, string, wrapped
from .describe import description, shape_text, shapes
from .memory import Place, Plan
from .program import Buffer, Dim, Extent, Gemm, Kernel, Reduce, Repeat, RowKernel, Step, home, kernels
from .signature import Param, Signature, signature
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
    step: Kernel
    signature: Signature
    body: Body
    shapes: list[str]
    also: list[Kernel] = field(default_factory=list)

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


@dataclass(frozen=True)
class _Loop:
    """A loop of the entry, with something in it."""

    repeat: Repeat
    items: list[_Call | _Loop]


_Item = _Call | _Loop


def _calls(items: Iterable[_Item]) -> Iterator[_Call]:
    """The calls in order, those in loops once."""
    for item in items:
        if isinstance(item, _Loop):
            yield from _calls(item.items)
        else:
            yield item


def emit(plan: Plan, target: Target, timed: bool = False) -> Source:
    """The C of a planned program for a target; `timed` adds the clock of gt_time.h around each kernel."""
    told = description(plan)
    plan = _with_dim_names(plan)
    program = plan.program
    title = identifier(program.name)
    names = Names(LIBRARY, (dim.name for dim in program.dims))
    frame = {part: names.new(f"{title}_{part}") for part in _FRAME}
    count = Dim(COUNT, names.new("count"), 2**62)
    functions, found = _functions(plan, target, names, count)
    items = _items(program.steps, found)
    groups = _units(functions)
    alone = len(groups) == 1
    if not alone:
        for function in functions:
            function.name = names.new(f"{title}_{function.name}")
    parts, entry = _entry(plan, items, names, title, timed)
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
        "timed": [string(item.function.name) for item in _calls(items)] if timed else [],
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


def _functions(plan: Plan, target: Target, names: Names, count: Dim) -> tuple[list[_Function], dict[str, _Call]]:
    """A function per kernel, equal ones once, and the calls by kernel. A kernel that touches nothing is left out."""
    table = plan.program.table
    found: dict[Hashable, _Function] = {}
    calls: dict[str, _Call] = {}
    originals = list(kernels(plan.program.steps))
    simplified = [_simplified(step, table, plan.places) for step in originals]
    for original, (step, length) in zip(originals, _of_any_length(simplified, plan, count), strict=True):
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
        calls[original.name] = _Call(function, own, length)
    return list(found.values()), calls


def _of_any_length(steps: Sequence[Kernel], plan: Plan, count: Dim) -> list[tuple[Kernel, Extent]]:
    """The steps with their lengths; single loops that differ in nothing but length take it as a parameter, `count`.

    An optimizer's update of parameters of many shapes is then one function.
    """
    table = plan.program.table
    found: dict[Hashable, list[int]] = {}
    out: list[tuple[Kernel, Extent]] = [(step, 0) for step in steps]
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


def _simplified(step: Kernel, table: Mapping[str, Buffer], places: Mapping[str, Place]) -> Kernel:
    if isinstance(step, Gemm):
        return nest.gemm_statements(step, places.__getitem__)
    return nest.row_kernel(step, table, places.__getitem__)


def _write(step: Kernel, own: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    if isinstance(step, Gemm):
        return gemm.write(step, own, table, target)
    return rows.write(step, own, table, target)


def _units(functions: list[_Function]) -> list[list[_Function]]:
    """The functions in order, in as many groups of about equal length as their statements ask for."""
    sizes = [len(function.body.code.lines) for function in functions]
    count = max(1, -(-sum(sizes) // UNIT_LINES))
    groups: list[list[_Function]] = [[] for _ in range(count)]
    done = 0
    for function, lines in zip(functions, sizes, strict=True):
        groups[min(count - 1, (done + lines // 2) * count // max(1, sum(sizes)))].append(function)
        done += lines
    return [group for group in groups if group] or [[]]


def _declarations(functions: Iterable[_Function]) -> list[str]:
    """Prototypes of kernels in other units."""
    return [line for function in functions for line in [*function.head[:-1], function.head[-1] + ";"]]


# ---- the entry --------------------------------------------------------------------------------------------


def _items(steps: Iterable[Step], calls: Mapping[str, _Call]) -> list[_Item]:
    """The steps as calls and loops, without loops that do nothing."""
    found: list[_Item] = []
    for step in steps:
        if not isinstance(step, Repeat):
            found += [calls[step.name]] if step.name in calls else []
        elif inner := _items(step.steps, calls):
            found.append(_Loop(step, inner))
    return found


def _entry(plan: Plan, items: list[_Item], names: Names, title: str, timed: bool) -> tuple[list[dict[str, str]], str]:
    """The functions that parts of a long step become, and the inside of the entry."""
    parts: list[dict[str, str]] = []
    entry = _Entry(plan, names, timed)
    entry.test_dims()
    if len(list(_calls(items))) <= 2 * PART_CALLS:
        entry.all(items)
    else:
        entry.code.add("int32_t code;")
        first = 0
        for group in _grouped(items):
            part = _Entry(plan, names, timed)
            part.all(group, first)
            first += len(list(_calls(group)))
            parts.append({"name": names.new(f"{title}_part_{len(parts) + 1}"), "body": part.end()})
            entry.run(parts[-1]["name"], ["args"], fails=True)
    entry.loss()
    return parts, entry.end()


def _grouped(items: Sequence[_Item]) -> list[list[_Item]]:
    """The items in groups of at most PART_CALLS calls; a loop of more is a group of its own."""
    groups: list[list[_Item]] = []
    room = 0
    for item in items:
        count = len(list(_calls([item])))
        if count > room or not groups:
            groups.append([])
            room = PART_CALLS
        groups[-1].append(item)
        room -= count
    return groups


class _Entry:
    """The inside of a function that fetches pointers from the arguments and calls kernels."""

    def __init__(self, plan: Plan, names: Names, timed: bool) -> None:
        self.plan = plan
        self.names = names
        self.timed = timed
        self.names.push()
        self.code = Code()
        self._pointers: dict[str, str] = {}
        self._consts: set[str] = set()
        self._clock = ""
        self._number = 0
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

    def all(self, items: Sequence[_Item], first: int = 0) -> None:
        """Fetch what the calls need, then call; `first` is the number of the first."""
        table, calls = self.plan.program.table, list(_calls(items))
        dims = {dim for item in calls for dim in item.dims} | set(self._dims_of_loops(items))
        self._dims(sorted(dims, key=lambda dim: dim.index))
        params = [param for item in calls for param in item.signature.params]
        wanted, written = ({home(name, table) for name in names} for names in _named(params))
        self._fetch(wanted, written)
        if any(item.signature.fails for item in calls):
            self.code.add("int32_t code;")
        if calls:
            self.code.add("")
        self._number = first
        if self.timed and calls:
            self._clock = self.names.new("clock")
            self.code.add(f"double {self._clock};")
        self._items(items)

    def _items(self, items: Iterable[_Item]) -> None:
        for item in items:
            if isinstance(item, _Loop):
                self._loop(item)
                continue
            if self._clock:
                self.code.add(f"{self._clock} = gt_time_now();")
            self.run(item.function.name, item.args(self._pointers), item.signature.fails)
            if self._clock:
                self.code.add(f"gt_time_note({self._number}, {self._clock});")
            self._number += 1

    def _loop(self, loop: _Loop) -> None:
        """The trips of a loop: the pointers of its slices, then its calls."""
        repeat = loop.repeat
        self.names.push()
        counter, count = self.names.new("t"), extent(repeat.count)
        for line in block_comment(wrapped([f"loop: {' '.join(repeat.comment) or repeat.name}"])):
            self.code.add(line)
        forward = f"{counter} = 0; {counter} < {count}; ++{counter}"
        self.code.open(f"for (int64_t {f'{counter} = {count}; {counter}-- > 0;' if repeat.reverse else forward})")
        self._slices(loop, counter)
        self._items(loop.items)
        self.code.close()
        self.names.pop()

    def _slices(self, loop: _Loop, counter: str) -> None:
        """Declare a pointer for each slice that a call in the loop, or a slice of a loop inside it, starts from."""
        table = self.plan.program.table
        wanted, _ = _named(param for item in _calls(loop.items) for param in item.signature.params)
        for name in list(wanted):
            while table[name].role == "slice":
                wanted.add(name)
                name = str(table[name].alias)
        for buffer in self.plan.program.buffers:
            if buffer.name in wanted and buffer.name in loop.repeat.slices:
                outer, row = str(buffer.alias), size(buffer.shape)
                const = "const " if outer in self._consts else ""
                if const:
                    self._consts.add(buffer.name)
                pointer = self._pointers[buffer.name] = self.names.new(buffer.name)
                place = self._pointers[outer] + (f" + {counter}" if row == "1" else f" + {row} * {counter}")
                self.code.add(f"{const}{DTYPES[buffer.dtype]} *{pointer} = {place};", shape_text(buffer))

    def _dims_of_loops(self, items: Iterable[_Item]) -> Iterator[Dim]:
        """The run-time dimensions that the trips and the rows of slices name."""
        for item in items:
            if isinstance(item, _Loop):
                shapes = [self.plan.program.buffer(name).shape for name in item.repeat.slices]
                for found in (item.repeat.count, *(n for shape in shapes for n in shape)):
                    if isinstance(found, Dim):
                        yield Dim(found.index, found.name, found.bound)
                yield from self._dims_of_loops(item.items)

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
            if const:
                self._consts.add(buffer.name)
            self.code.add(f"{const}{ctype} *{name} = {self._source(place, ctype, bool(const))};", shape_text(buffer))

    def _source(self, place: Place, ctype: str, const: bool) -> str:
        if place.block in self._blocks:
            block = self._blocks[place.block]
            return f"({ctype} *)({block} + {place.offset})" if place.offset else f"({ctype} *){block}"
        cast = f"({ctype} *)" if place.block == "in" and not const else ""
        return f"{cast}args->{place.block}[{place.slot}]"


_BLOCKS = ("in", "out", "state", "work")


def _named(params: Iterable[Param]) -> tuple[set[str], set[str]]:
    """The buffers that the caller's arguments are named after, and those of them that are written."""
    found = list(params)
    return {param.buffers[0] for param in found}, {param.buffers[0] for param in found if not param.const}


# ---- text -------------------------------------------------------------------------------------------------


def _prelude(functions: Sequence[_Function], target: Target) -> dict[str, Any]:
    """What stands before the kernels of a unit."""
    tiles, choices, rests = (
        {item for function in functions for item in getattr(function.body, kind)}
        for kind in ("tiles", "choices", "rests")
    )
    wide = any(tile.lanes > 1 for tile in tiles) or any(function.body.wide for function in functions)
    return {"vector_bytes": target.width if wide else 0, "tiles": families(tiles, choices, rests)}


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

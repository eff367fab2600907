"""From equations to kernels: which equations share a loop, and why.

Comes in: a simplified Graph. Goes out: a Schedule: groups in order, each one kernel (or a few, for joined
arrays), and for every value where it lives: its group, its level there, and the memory it is a view of.
Law: an equation joins group k only if its operands are made in groups before k, or in k at a level that a
loop can pass on. Groups are numbered as they are made, so no cycle can form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from .ir import Atom, Eqn, Graph, Lit, Var, names, show_atom, show_param
from .types import Dim, Shape, Type, shape_size

MAX_EQUATIONS = 500
"""A group is closed at this many equations: C compilers take more than linear time over a function."""

LOOKBACK = 16
"""How many later groups are tried for an equation that could run anywhere after its operands."""

Level = Literal["element", "row", "after"]
"""Where in its group a value is known: per element of the loop, per row, or only when the loop is over."""

GroupKind = Literal["row", "product", "assemble", "copy"]


@dataclass(frozen=True)
class Location:
    """A value as a view: of the memory of `base`, of a literal, or (base None) of the counters themselves.

    Element (i, j, …) is at offset + i * strides[0] + j * strides[1] + …; for a counter that sum is the value.
    """

    base: Var | Lit | None
    strides: tuple[Any, ...]
    offset: Any = 0


@dataclass
class Group:
    """Equations of one kernel over the loop `space`. `why` says why the first of them opened it.

    A `copy` has no equations: it writes the elements at `source` to `target`, in row-major order of `space`.
    """

    kind: GroupKind
    space: Shape
    why: str
    eqns: list[Eqn] = field(default_factory=list)
    reads: set[Var] = field(default_factory=set)
    target: Var | None = None
    source: Location | None = None


@dataclass(frozen=True, eq=False)
class Schedule:
    """Groups in order; `home` is the group of each computed value, `level` its level there.

    `outputs` are the variables whose memory the graph's outputs are, one for each.
    """

    graph: Graph
    groups: tuple[Group, ...]
    home: dict[Var, int]
    level: dict[Var, Level]
    location: dict[Var, Location]
    outputs: tuple[Var, ...]

    def as_text(self) -> str:
        """The groups with their equations and the rule that opened each."""
        name_of = names(self.graph)
        lines = [f"schedule of {self.graph.name}: {len(self.groups)} kernels"]
        for i, group in enumerate(self.groups):
            space = ", ".join(map(str, group.space))
            lines.append(f"kernel {i}: {group.kind} over ({space}){f': {group.why}' if group.why else ''}")
            for eqn in group.eqns:
                args = [show_atom(a, name_of) for a in eqn.ins]
                args += [f"{k}={show_param(v)}" for k, v in sorted(eqn.params.items())]
                level = self.level[eqn.out]
                lines.append(f"    {level:<8}{name_of[eqn.out]}: {eqn.out.type} = {eqn.prim.name}({', '.join(args)})")
            if group.target is not None:
                lines.append(f"    copy to {name_of.get(group.target, group.target.hint)}: {group.target.type}")
        return "\n".join(lines)


def dense_strides(shape: Shape) -> tuple[Any, ...]:
    """Row-major strides in elements.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[Any] = []
    for i in range(len(shape)):
        strides.append(shape_size(shape[i + 1 :]))
    return tuple(strides)


def fuse(graph: Graph) -> Schedule:
    """Group the equations of a graph; see the module's text for the rule."""
    fuser = _Fuser(graph)
    for eqn in graph.eqns:
        _HANDLERS[eqn.prim.kind](fuser, eqn)
    outputs = fuser.outputs()
    return Schedule(graph, tuple(fuser.groups), fuser.home, fuser.level, fuser.location, outputs)


class _Fuser:
    """The schedule under construction."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name_of = names(graph)
        self.groups: list[Group] = []
        self.home: dict[Var, int] = {}
        self.level: dict[Var, Level] = {}
        self.location: dict[Var, Location] = {v: Location(v, dense_strides(v.type.shape)) for v in graph.inputs}

    # ---- what is known of operands ----

    def home_of(self, atom: Atom) -> int:
        """The group in which an operand is made; -1 for inputs, literals and counters."""
        return self.home.get(atom, -1) if isinstance(atom, Var) else -1

    def locate(self, atom: Atom) -> Location:
        """Where an operand lives."""
        if isinstance(atom, Var):
            return self.location[atom]
        return Location(atom, (0,) * len(atom.type.shape))

    def earliest(self, eqn: Eqn, joins: Callable[[Atom, int], bool]) -> int:
        """The first group that an equation could be in; `joins` says whether a loop can pass an operand on."""
        first = 0
        for atom in eqn.ins:
            home = self.home_of(atom)
            if home >= 0:
                first = max(first, home if joins(atom, home) else home + 1)
        return first

    def reads_of(self, eqn: Eqn) -> set[Var]:
        """What an equation reads from memory, to find groups that read the same."""
        return {base for a in eqn.ins if isinstance(base := self.locate(a).base, Var)}

    # ---- placing equations ----

    def put(self, eqn: Eqn, at: int, level: Level, location: Location | None = None) -> None:
        """Add an equation to a group."""
        group = self.groups[at]
        group.eqns.append(eqn)
        group.reads |= self.reads_of(eqn) | set(eqn.outs)
        self.note(eqn, at, level, location)

    def note(self, eqn: Eqn, at: int, level: Level, location: Location | None = None) -> None:
        """Record where an equation's result is."""
        out = eqn.out
        self.level[out] = level
        self.location[out] = location or Location(out, dense_strides(out.type.shape))
        if at >= 0:
            self.home[out] = at

    def open(self, kind: GroupKind, space: Shape, why: str) -> int:
        """A new group at the end."""
        self.groups.append(Group(kind, space, why))
        return len(self.groups) - 1

    def candidates(self, eqn: Eqn, first: int) -> list[int]:
        """Groups to try: where the last operand is made, else the newest that read the same memory."""
        last = max((self.home_of(a) for a in eqn.ins), default=-1)
        result = [last] if last >= first and last >= 0 else []
        reads = self.reads_of(eqn)
        for k in range(len(self.groups) - 1, max(first, len(self.groups) - LOOKBACK) - 1, -1):
            if k != last and self.groups[k].kind == "row" and self.groups[k].reads & reads:
                result.append(k)
        return [k for k in result if len(self.groups[k].eqns) < MAX_EQUATIONS]

    def materialize(self, atom: Atom, why: str) -> None:
        """Make sure that an operand is in memory: a literal or a counter is written out by a copy."""
        if isinstance(atom, Var) and not isinstance(self.location[atom].base, Var):
            self.copy(atom, self.location[atom], atom.type.shape, why)

    def copy(self, target: Var, source: Location, space: Shape, why: str) -> None:
        """A group that writes a view to memory of its own, in which `target` lives from then on."""
        at = self.open("copy", space, why)
        group = self.groups[at]
        group.target, group.source = target, source
        self.home[target], self.level[target] = at, "after"
        self.location[target] = Location(target, dense_strides(target.type.shape))

    def outputs(self) -> tuple[Var, ...]:
        """Memory for each output; what has none of its own (inputs, views, literals, repeats) is copied."""
        result: list[Var] = []
        inputs = set(self.graph.inputs)
        for i, atom in enumerate(self.graph.outputs):
            own = isinstance(atom, Var) and self.location[atom].base is atom and atom not in inputs
            if own and isinstance(atom, Var) and atom not in result:
                result.append(atom)
                continue
            target = Var(atom.type, f"out{i}")
            self.copy(target, self.locate(atom), atom.type.shape, "an output has memory of its own")
            result.append(target)
        return tuple(result)


def _fits_row(shape: Shape, space: Shape) -> bool:
    """Whether a shape has one element per row of a space."""
    return bool(space) and shape in (space[:-1], (*space[:-1], 1)) and shape != space


def _level_in(f: _Fuser, shape: Shape, at: int) -> Level | None:
    """The level of an elementwise result of that shape in a group, or None where it does not fit."""
    group = f.groups[at]
    if group.kind not in ("row", "product"):
        return None
    if shape == group.space:
        return "element"
    return "row" if group.kind == "row" and _fits_row(shape, group.space) else None


def _passes(f: _Fuser, at: int, level: Level) -> Callable[[Atom], bool]:
    """Whether group `at` can use an operand at that level: made before, or in the group at the same level."""

    def check(atom: Atom) -> bool:
        home = f.home_of(atom)
        return home < at or (home == at and isinstance(atom, Var) and f.level[atom] == level)

    return check


def _elementwise(f: _Fuser, eqn: Eqn) -> None:
    shape = eqn.out.type.shape
    first = f.earliest(eqn, lambda atom, home: f.level[atom] != "after")  # type: ignore[index]
    for at in f.candidates(eqn, first):
        level = _level_in(f, shape, at)
        if level == "row" and not any(f.home_of(a) == at for a in eqn.ins):
            continue
        if level is not None and all(map(_passes(f, at, level), eqn.ins)):
            f.put(eqn, at, level)
            return
    f.put(eqn, f.open("row", shape, _reason(f, eqn, shape)), "element")


def _reason(f: _Fuser, eqn: Eqn, shape: Shape) -> str:
    """Why the group of the last operand could not take an equation."""
    last = max((f.home_of(a) for a in eqn.ins), default=-1)
    if last < 0:
        return "reads inputs only"
    for atom in eqn.ins:
        if isinstance(atom, Var) and f.home_of(atom) == last and f.level[atom] == "after":
            return f"{f.name_of[atom]} is known only when kernel {last} is done"
    if len(f.groups[last].eqns) >= MAX_EQUATIONS:
        return f"kernel {last} is full"
    if f.groups[last].kind not in ("row", "product"):
        return f"kernel {last} only moves data"
    return f"its loop differs from kernel {last}'s"


def _reduce(f: _Fuser, eqn: Eqn) -> None:
    (x,) = eqn.ins
    shape, axes = x.type.shape, eqn.params["axis"]
    first = f.earliest(eqn, lambda atom, home: f.level[atom] != "after")  # type: ignore[index]
    last_only = axes == (len(shape) - 1,)
    by_position = eqn.prim.c["*"] in ("argmax", "argmin")
    if not by_position or last_only:
        for at in f.candidates(eqn, first):
            level = _level_in(f, shape, at)
            if level is None or not _passes(f, at, level)(x):
                continue
            if level == "row" and f.home_of(x) != at:
                continue
            if f.groups[at].kind == "product" and len(shape) - 1 in axes:
                continue
            f.put(eqn, at, "row" if level == "element" and last_only else "after")
            return
    at = f.open("row", _reduction_space(shape, axes, by_position), _reason(f, eqn, shape))
    f.put(eqn, at, "row" if last_only else "after")


def _reduction_space(shape: Shape, axes: tuple[int, ...], by_position: bool) -> Shape:
    """The loop of a reduction: its operand's shape; for positions with the searched axis innermost."""
    if not by_position or not shape:
        return shape
    return (*(n for i, n in enumerate(shape) if i not in axes), *(shape[i] for i in axes))


def _view(f: _Fuser, eqn: Eqn) -> None:
    (x,) = eqn.ins
    home, out = f.home_of(x), eqn.out
    source = f.locate(x)
    assert eqn.prim.strides is not None
    found = eqn.prim.strides(x.type, source.strides, source.offset, out.type, **eqn.params)
    location = None if found is None else Location(source.base, *found)
    if location is not None and home >= 0 and isinstance(x, Var) and _stays_in_loop(f, x, out.type, home):
        level: Level = "element" if out.type.shape == f.groups[home].space else "row"
        f.put(eqn, home, level, location)
        return
    if location is None:
        f.copy(out, source, x.type.shape, "its elements cannot be reached by strides")
        return
    f.note(eqn, home, "after", location)


def _stays_in_loop(f: _Fuser, x: Var, out: Type, home: int) -> bool:
    """Whether a view of a value per row is, in its own group, the same value per row or repeated along it."""
    group = f.groups[home]
    if f.level[x] != "row" or group.kind != "row":
        return False
    if _fits_row(out.shape, group.space):
        return _real(out.shape) == _real(x.type.shape)
    if out.shape != group.space:
        return False
    return x.type.shape == (*group.space[:-1], 1) or (x.type.shape == () and len(group.space) == 1)


def _real(shape: Shape) -> list[int | Dim]:
    return [n for n in shape if n != 1]


def _contract(f: _Fuser, eqn: Eqn) -> None:
    for atom in eqn.ins:
        f.materialize(atom, "an operand of a product must be in memory")
    at = f.open("product", eqn.out.type.shape, "a product starts a kernel")
    f.put(eqn, at, "element")


def _gather(f: _Fuser, eqn: Eqn) -> None:
    f.materialize(eqn.ins[0], "what is indexed must be in memory")
    first = f.earliest(eqn, lambda atom, home: False)
    shape = eqn.out.type.shape
    for at in f.candidates(eqn, first):
        if f.groups[at].kind == "row" and shape == f.groups[at].space:
            f.put(eqn, at, "element")
            return
    f.put(eqn, f.open("row", shape, "reads at computed places"), "element")


def _scatter(f: _Fuser, eqn: Eqn) -> None:
    target, index, values = eqn.ins
    shape = values.type.shape
    first = max(
        f.earliest(Eqn(eqn.prim, (target, index), {}, eqn.outs), lambda atom, home: False),
        f.earliest(Eqn(eqn.prim, (values,), {}, eqn.outs), lambda atom, home: f.level[atom] == "element"),  # type: ignore[index]
    )
    home = f.home_of(values)
    if home >= first and home >= 0 and f.groups[home].kind == "row" and f.groups[home].space == shape:
        if len(f.groups[home].eqns) < MAX_EQUATIONS and isinstance(values, Var) and f.level[values] == "element":
            f.put(eqn, home, "after")
            return
    f.put(eqn, f.open("row", shape, "writes at computed places"), "after")


def _assemble(f: _Fuser, eqn: Eqn) -> None:
    f.put(eqn, f.open("assemble", eqn.out.type.shape, "its parts are written side by side"), "after")


def _source(f: _Fuser, eqn: Eqn) -> None:
    axis = eqn.prim.place(**eqn.params) if eqn.prim.place is not None else 0
    strides = tuple(1 if i == axis else 0 for i in range(len(eqn.out.type.shape)))
    f.note(eqn, -1, "after", Location(None, strides))


_HANDLERS: dict[str, Callable[[_Fuser, Eqn], None]] = {
    "elementwise": _elementwise,
    "effect": _elementwise,
    "reduce": _reduce,
    "view": _view,
    "contract": _contract,
    "gather": _gather,
    "scatter": _scatter,
    "assemble": _assemble,
    "source": _source,
}


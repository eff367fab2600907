"""A schedule: groups of equations, each one kernel, and where every value lives.

Made by `fuse`, read by `lower` and by the reports. Law: a group reads only what groups before it have
made, or what its own loop passes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .ir import Eqn, Graph, Lit, Var, names, show_eqn
from .types import Shape, shape_size

Level = Literal["element", "row", "after"]
"""Where in its group a value is known: per element of the loop, per row, or only when the loop is over."""

GroupKind = Literal["row", "product", "assemble", "copy", "loop", "switch", "while", "along", "routine"]


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
    """Equations of one kernel over the loop `space`. `why` says why the first of them opened it,
    with {} for the number of the group `blocker`.

    A `copy` has no equations: it writes the elements at `source` to `target`, in row-major order of `space`.
    `loop`, `switch` and `while` have one, and a `Body` for each of its graphs. A `routine` has one, and reads
    `operands`, dense in memory.
    """

    kind: GroupKind
    space: Shape
    why: str
    blocker: Group | None = None
    eqns: list[Eqn] = field(default_factory=list)
    reads: set[Var] = field(default_factory=set)
    target: Var | None = None
    source: Location | None = None
    bodies: tuple[Body, ...] = ()
    operands: tuple[Var, ...] = ()


@dataclass(frozen=True, eq=False)
class Body:
    """The inside of a loop or branch: the schedule of its graph, and the memory around it.

    `operands` are the values that its inputs behind the carries are read from, dense in memory; `results` has
    for each output of the graph its place among the outputs of the schedule.
    """

    schedule: Schedule
    operands: tuple[Var, ...]
    results: tuple[int, ...]


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

    @property
    def equations(self) -> tuple[Eqn, ...]:
        """All equations, in the order in which a program numbers them: those of a loop's body after all others."""
        inner = (body.schedule.equations for group in self.groups for body in group.bodies)
        return (*self.graph.eqns, *(eqn for eqns in inner for eqn in eqns))

    def as_text(self) -> str:
        """The groups with their equations and the rule that opened each."""
        name_of = names(self.graph)
        lines = [f"schedule of {self.graph.name}: {len(self.groups)} kernels"]
        number = {id(group): i for i, group in enumerate(self.groups)}
        for i, group in enumerate(self.groups):
            space = ", ".join(map(str, group.space))
            lines.append(f"kernel {i}: {group.kind} over ({space}): {group.why.format(number.get(id(group.blocker)))}")
            for eqn in group.eqns:
                lines.append(f"    {self.level[eqn.outs[0]]:<8}{show_eqn(eqn, name_of)}")
            for body in group.bodies:
                lines += [f"    {line}" for line in body.schedule.as_text().splitlines()]
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

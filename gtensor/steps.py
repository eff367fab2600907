"""The steps of a schedule under construction: names, memory and what is known of every value.

Comes in: a Schedule and the Memory of the program. `statements` and `lower` fill the list of steps; the body
of a loop has steps of its own in the same memory. Law: a value gets memory only if another kernel or the
caller reads it.
"""

from __future__ import annotations

from typing import Any

from .codegen import program as p
from .ir import Atom, Eqn, Var, names, show_eqn
from .kernel import Kernel, Memory, scalar_space
from .schedule import Group, Location, Schedule, dense_strides
from .types import Dim, Type


class Steps:
    """The steps of a schedule under construction; `equations` are the lines of the whole program so far."""

    def __init__(self, schedule: Schedule, memory: Memory, equations: list[str], prefix: str = "k") -> None:
        self.schedule = schedule
        self.graph = schedule.graph
        self.memory = memory
        self.equations = equations
        self.prefix = prefix
        self.numbers = {eqn.outs[0]: i for i, eqn in enumerate(self.graph.eqns, len(equations))}
        name_of = names(self.graph)
        equations.extend(describe(eqn, name_of) for eqn in self.graph.eqns)
        self.steps: list[p.Step] = []

        self.stored = self._stored()

    def _stored(self) -> set[Var]:
        """Values that need memory: outputs, and what a kernel reads that another has made."""
        schedule = self.schedule
        stored = set(schedule.outputs)
        for index, group in enumerate(schedule.groups):
            if group.target is not None and group.source is not None:
                stored.add(group.target)
                if isinstance(group.source.base, Var):
                    stored.add(group.source.base)
            stored.update(group.operands)
            for eqn in group.eqns:
                whole = group.kind in ("assemble", "loop", "along", "routine")
                if whole or eqn.prim.kind in ("scatter", "overlap"):
                    stored.update(eqn.outs)
                for atom in eqn.ins:
                    if isinstance(atom, Var) and not self.inside(atom, index):
                        base = schedule.location[atom].base
                        if isinstance(base, Var):
                            stored.add(base)
        return stored

    def inside(self, atom: Atom, index: int) -> bool:
        """Whether a value is a variable of kernel `index`."""
        s = self.schedule
        return isinstance(atom, Var) and s.home.get(atom) == index and s.level[atom] != "after"

    def locate(self, atom: Atom) -> Location:
        """Where a value lives."""
        return self.schedule.location[atom] if isinstance(atom, Var) else Location(atom, (0,) * len(atom.type.shape))

    def buffer(self, var: Var) -> str:
        """The buffer of a stored value; made on first use."""
        return self.memory.buffer(var)

    def kernel(self, index: int, group: Group) -> Kernel:
        """An empty kernel over the group's space."""
        return Kernel(self.memory, scalar_space(group.space))

    def name(self, index: int, group: Group) -> str:
        """A name for a kernel: its number and the last named value it makes, else its last operation."""
        named = [out for eqn in group.eqns for out in eqn.outs if out.hint]
        last = group.target or (named[-1] if named else None)
        what = group.eqns[-1].prim.name if last is None else self.memory.names[last]
        return self.memory.unique(f"{self.prefix}{index}_{what.rstrip('_')}")

    def comment(self, group: Group) -> tuple[str, ...]:
        """The user lines of a group, each once."""
        lines: dict[str, None] = {}
        for eqn in group.eqns:
            for source in eqn.source:
                lines.setdefault(str(source))
        return tuple(lines)


def copy_step(
    f: Steps, name: str, target: Var, source: Location, type: Type, strides: Any = None, offset: int | Dim = 0
) -> p.RowKernel:
    """A kernel that writes the elements at `source` to the target's buffer."""
    kernel = Kernel(f.memory, scalar_space(type.shape))
    over = tuple(f.memory.extent(s) for s in source.strides) or (0,)
    value = kernel.read(source.base, over, source.offset, type, False, 0)
    to = strides if strides is not None else dense_strides(type.shape)
    access = p.Access(f.buffer(target), tuple(f.memory.extent(s) for s in to) or (0,), f.memory.extent(offset))
    kernel.add(p.Store(access, value), False, 0)
    return p.RowKernel(name, kernel.space, kernel.finished())


def describe(eqn: Eqn, name_of: dict[Var, str]) -> str:
    """An equation in one line, with the first user line it came from."""
    source = f"  {eqn.source[0].base}:{eqn.source[0].line}" if eqn.source else ""
    return f"{show_eqn(eqn, name_of)}{source}"

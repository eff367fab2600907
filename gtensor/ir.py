"""The graph: an ordered list of typed equations over primitives.

`Var` and `Lit` are the values, `Eqn` applies a primitive, `Graph` lists equations from inputs to
outputs. Everything is immutable. Laws (checked by `check.py`): each variable is assigned once, before
it is used, and its type is what the primitive's type rule gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import Source
from .types import Type

if TYPE_CHECKING:
    from .prim import Prim


class Var:
    """A value of the graph; compared by identity. `hint` is the name a person would give it."""

    __slots__ = ("hint", "type")

    def __init__(self, type: Type, hint: str = "") -> None:
        self.type = type
        self.hint = hint

    def __repr__(self) -> str:
        return f"Var({self.hint or '_'}:{self.type})"


class Lit:
    """A scalar constant; equal to another of the same type and the same bits."""

    __slots__ = ("bits", "type", "value")

    def __init__(self, value: np.generic, type: Type) -> None:
        self.value = value
        self.type = type
        self.bits = value.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lit) and self.type == other.type and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((self.type, self.bits))

    def __repr__(self) -> str:
        return f"Lit({self.value}:{self.type})"


Atom = Var | Lit


def lit(value: Any, type: Type) -> Lit:
    """A literal of that scalar type from any number.

    >>> from .types import float32
    >>> lit(0.5, Type((), float32))
    Lit(0.5:f32[])
    """
    with np.errstate(all="ignore"):
        return Lit(type.dtype.dtype.type(np.asarray(value).astype(type.dtype.dtype)), type)


@dataclass(frozen=True, eq=False)
class Eqn:
    """`outs = prim(ins; params)`; `source` holds the user lines it came from (merged equations have several)."""

    prim: Prim
    ins: tuple[Atom, ...]
    params: Mapping[str, Any]
    outs: tuple[Var, ...]
    source: tuple[Source, ...] = ()

    @property
    def out(self) -> Var:
        """The only output."""
        (out,) = self.outs
        return out


@dataclass(frozen=True, eq=False)
class Graph:
    """A function as equations. `inputs` carry the names of the arguments in their hints."""

    name: str
    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]
    output_names: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return text(self)


def subgraphs(eqn: Eqn) -> Iterator[tuple[str, Graph]]:
    """The body graphs among an equation's parameters, by name: what every pass and checker recurses through."""
    for name, value in eqn.params.items():
        if isinstance(value, Graph):
            yield name, value
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                if isinstance(item, Graph):
                    yield f"{name}.{i}", item


def definitions(graph: Graph) -> dict[Var, Eqn]:
    """Which equation defines each variable."""
    return {out: eqn for eqn in graph.eqns for out in eqn.outs}


def use_counts(graph: Graph) -> dict[Var, int]:
    """How often each variable is read, outputs included."""
    counts: dict[Var, int] = {}
    for eqn in graph.eqns:
        for atom in eqn.ins:
            if isinstance(atom, Var):
                counts[atom] = counts.get(atom, 0) + 1
    for atom in graph.outputs:
        if isinstance(atom, Var):
            counts[atom] = counts.get(atom, 0) + 1
    return counts


def names(graph: Graph) -> dict[Var, str]:
    """A distinct printed name for each variable of a graph: its hint, or a number."""
    taken: set[str] = set()
    result: dict[Var, str] = {}
    numbered = 0
    for var in (*graph.inputs, *(out for eqn in graph.eqns for out in eqn.outs)):
        if var in result:
            continue
        name = var.hint
        if not name:
            name, numbered = f"t{numbered}", numbered + 1
        while name in taken:
            stem, _, count = name.rpartition("_")
            name = f"{stem}_{int(count) + 1}" if stem and count.isdigit() else f"{name}_2"
        taken.add(name)
        result[var] = name
    return result


def text(graph: Graph, *, sources: bool = True, indent: str = "") -> str:
    """The graph as a person reads it, one equation a line, with the user's line behind it.

    The text without sources is canonical: equal graphs (up to variable identity) give equal texts.
    """
    name_of = names(graph)
    rows = [show_eqn(eqn, name_of) for eqn in graph.eqns]
    width = min(72, max((len(row) for row in rows), default=0))
    head = ", ".join(f"{name_of[v]}: {_show_type(v.type)}" for v in graph.inputs)
    lines = [f"graph {graph.name}({head}):"]
    last = None
    for eqn, row in zip(graph.eqns, rows, strict=True):
        source = eqn.source[0] if sources and eqn.source else None
        lines.append(f"  {row:<{width}}  # {source}" if source and source != last else f"  {row}")
        last = source or last
        for name, body in subgraphs(eqn):
            lines.append(f"    {name} = {text(body, sources=sources, indent=indent + '    ').lstrip()}")
    lines.append(f"  return {', '.join(show_atom(a, name_of) for a in graph.outputs)}")
    return "\n".join(indent + line if i else line for i, line in enumerate(lines))


def show_eqn(eqn: Eqn, name_of: Mapping[Var, str]) -> str:
    """One equation as a line of the graph's text."""
    outs = ", ".join(f"{name_of[v]}: {_show_type(v.type)}" for v in eqn.outs)
    args = [show_atom(a, name_of) for a in eqn.ins]
    args += [f"{k}={show_param(v)}" for k, v in sorted(eqn.params.items()) if not _holds_graph(v)]
    return f"{outs} = {eqn.prim.name}({', '.join(args)})"


def show_atom(atom: Atom, name_of: Mapping[Var, str]) -> str:
    """A variable's name or a literal's value with its dtype."""
    if isinstance(atom, Var):
        return name_of[atom]
    return f"{atom.value!s}:{atom.type.dtype.tag}{'~' if atom.type.weak else ''}"


def show_param(value: Any) -> str:
    """A parameter as text: sequences in brackets, everything else by str."""
    return "(" + ", ".join(map(show_param, value)) + ")" if isinstance(value, tuple) else str(value)


def _show_type(type: Type) -> str:
    return f"{type}~" if type.weak else str(type)


def _holds_graph(value: Any) -> bool:
    return isinstance(value, Graph) or (isinstance(value, tuple) and any(isinstance(v, Graph) for v in value))

"""The laws of a graph: what every pass may rely on and must keep.

Comes in: a graph. Goes out: nothing, or an InternalError that shows the bad equation among its neighbours
and the user's line. Laws checked: variables are assigned once, before they are used; operations are the
registered ones; types are what the type rules give; parameters are hashable; bodies obey the same laws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import GTensorError, InternalError, Source
from .ir import Eqn, Graph, Lit, Var, names, show_eqn, subgraphs
from .prim import REGISTRY
from .types import Dim, DType, Type, bool_

NEIGHBOURS = 2
"""How many equations are shown before and after the bad one."""


def check_graph(graph: Graph, where: str = "") -> None:
    """Raise InternalError where a graph, or a body graph in it, breaks one of its laws.

    `where` says what had just been done to the graph, for the message.

    >>> import gtensor as gt
    >>> check_graph(gt.trace(lambda x: gt.tanh(x), gt.spec((2,))))
    """
    for fault, at in _faults(graph):
        sources = () if at is None else graph.eqns[at].source
        place = f"graph {graph.name}" if at is None else f"equation {at} of {graph.name}"
        raise InternalError(f"{where}: {place}: {fault}".removeprefix(": ") + _excerpt(graph, at), sources=sources)
    for eqn in graph.eqns:
        for name, body in subgraphs(eqn):
            check_graph(body, f"{where}: {name} of {eqn.prim.name} in {graph.name}".removeprefix(": "))


class _Names(dict[Var, str]):
    """Printed names of variables; one that is no variable of the graph has a question mark."""

    def __missing__(self, var: Var) -> str:
        return f"?{var.hint}"


def _excerpt(graph: Graph, at: int | None) -> str:
    """The bad equation and its neighbours, one a line."""
    if at is None:
        return ""
    name_of = _Names(names(graph))
    first = max(0, at - NEIGHBOURS)
    lines = [show_eqn(_printable(eqn), name_of) for eqn in graph.eqns[first : at + NEIGHBOURS + 1]]
    return "".join(f"\n  {'>' if i == at else ' '} {line}" for i, line in enumerate(lines, first))


def _printable(eqn: Eqn) -> Eqn:
    """The equation with a stand-in for an operand that is no variable and no literal."""
    stand_ins = (a if isinstance(a, Var | Lit) else Var(Type((), bool_), type(a).__name__) for a in eqn.ins)
    return Eqn(eqn.prim, tuple(stand_ins), eqn.params, eqn.outs)


def _faults(graph: Graph) -> Iterator[tuple[str, int | None]]:
    """What is wrong, with the number of the equation it is wrong in."""
    name_of = _Names(names(graph))
    bounds: dict[str, int] = {}
    defined: set[Var] = set()

    def defines(var: Var) -> Iterator[str]:
        if var in defined:
            yield f"{name_of[var]} is assigned twice"
        yield from _type_faults(var.type, name_of[var], bounds)
        defined.add(var)

    def reads(atom: Any, what: str) -> Iterator[str]:
        if isinstance(atom, Lit):
            yield from _literal_faults(atom, what)
        elif not isinstance(atom, Var):
            yield f"{what} is {type(atom).__name__}, no variable and no literal"
        elif atom not in defined:
            known = atom in name_of
            yield f"{name_of[atom]} is {'used before it is defined' if known else 'no variable of this graph'}"

    for var in graph.inputs:
        yield from ((fault, None) for fault in defines(var))
    for at, eqn in enumerate(graph.eqns):
        for i, atom in enumerate(eqn.ins):
            yield from ((fault, at) for fault in reads(atom, f"operand {i}"))
        yield from ((fault, at) for fault in _eqn_faults(eqn))
        for var in eqn.outs:
            yield from ((fault, at) for fault in defines(var))
    for i, atom in enumerate(graph.outputs):
        yield from ((f"output {i}: {fault}", None) for fault in reads(atom, "it"))
    if graph.output_names and len(graph.output_names) != len(graph.outputs):
        yield f"{len(graph.outputs)} outputs have {len(graph.output_names)} names", None


def _type_faults(type_: Any, what: str, bounds: dict[str, int]) -> Iterator[str]:
    """A type has extents that are counts, a known dtype, and one bound per run-time extent."""
    if not isinstance(type_, Type) or not isinstance(type_.dtype, DType):
        yield f"{what} has the type {type_!r}"
        return
    for extent in type_.shape:
        if isinstance(extent, Dim):
            if bounds.setdefault(extent.name, extent.bound) != extent.bound:
                yield f"{what}: the run-time extent {extent.name} has two bounds"
        elif not isinstance(extent, int) or extent < 0:
            yield f"{what} has the extent {extent!r}"


def _literal_faults(literal: Lit, what: str) -> Iterator[str]:
    """A literal is a scalar whose value has the dtype of its type."""
    if literal.type.shape != ():
        yield f"{what} is a literal of shape {literal.type.shape}"
    if literal.value.dtype != literal.type.dtype.dtype:
        yield f"{what} is a literal of type {literal.type} with a value of {literal.value.dtype}"


def _eqn_faults(eqn: Eqn) -> Iterator[str]:
    """An equation by itself: a registered operation, hashable parameters, types by the rule, known lines."""
    if REGISTRY.get(eqn.prim.name) is not eqn.prim:
        yield f"{eqn.prim.name} is not the registered operation of that name"
    for name, value in eqn.params.items():
        try:
            hash(value)
        except TypeError:
            yield f"parameter {name} is {type(value).__name__}, which is not hashable"
    if not all(isinstance(line, Source) for line in eqn.source):
        yield f"source {eqn.source!r} is no tuple of lines"
    try:
        found = eqn.prim.type(*(a.type for a in eqn.ins), **eqn.params)
    except (GTensorError, TypeError) as error:
        yield f"{eqn.prim.name} does not take these operands: {getattr(error, 'message', error)}"
        return
    expected = found if isinstance(found, tuple) else (found,)
    given = tuple(var.type for var in eqn.outs)
    if given != expected:
        yield f"the types of the results are {_show(given)}, by the rule {_show(expected)}"


def _show(types: tuple[Type, ...]) -> str:
    return ", ".join(f"{t}{' (weak)' if t.weak else ''}" for t in types) or "none"

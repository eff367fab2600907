"""How a pass rewrites: rules look at one operation about to be bound, and at what made its operands.

Comes in: a graph, and a table of rules by the name, or the kind, of a primitive. Goes out: the graph with
every rule applied. A rule gives the atom that its `Site` is bit-equal to, or None; what it binds through the
site goes through the same rules. Laws: a rule looks up, at operands that are in normal form already, and
never at users, so one sweep from inputs to outputs is enough and a second one finds nothing; it gives None
unless it rewrites.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import ir
from ..builder import Builder, rebuild
from ..errors import InternalError, Source
from ..ir import Atom, Eqn, Graph, Lit, Var
from ..prim import REGISTRY, Prim
from ..types import Type


@dataclass(slots=True)  # not frozen, which would make it several times as dear, and there is one per equation
class Site:
    """An operation about to be bound: `prim(ins; params)` of that type, with operands in normal form.

    `output`: the result is an output of the graph, for which a view would have to be copied.
    """

    builder: Builder
    rules: Rules
    prim: Prim
    ins: tuple[Atom, ...]
    params: Mapping[str, Any]
    type: Type
    source: tuple[Source, ...]
    output: bool = False

    def maker(self, atom: Atom, *names: str) -> Eqn | None:
        """The equation that made an operand, if it is of one of these primitives."""
        eqn = self.builder.define(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and eqn.prim.name in names else None

    def bind(self, name: str, *ins: Atom, **params: Any) -> Atom:
        """The value of another operation, simplified by the same rules: an operand of the result."""
        return self._bind(REGISTRY[name], ins, params, False)

    def become(self, name: str, *ins: Atom, **params: Any) -> Atom:
        """The value of another operation that takes the place of this one."""
        return self._bind(REGISTRY[name], ins, params, self.output)

    def again(self, *ins: Atom) -> Atom:
        """The same operation on other operands, in the place of this one."""
        return self._bind(self.prim, ins, self.params, self.output)

    def _bind(self, prim: Prim, ins: tuple[Atom, ...], params: Mapping[str, Any], output: bool) -> Atom:
        type_ = prim.type(*(a.type for a in ins), **params)
        site = Site(self.builder, self.rules, prim, ins, params, type_, self.source, output)
        simple = site.simplified()
        return simple if simple is not None else self.builder.bind(prim, ins, params, self.source)

    def literal(self, value: Any) -> Lit:
        """A scalar of the dtype of this operation's result."""
        return ir.lit(value, self.type.with_shape(()))

    def simplified(self) -> Atom | None:
        """What the first rule that applies gives."""
        for key in (self.prim.name, self.prim.kind):
            for rule in self.rules.get(key, ()):
                atom = rule(self)
                if atom is None:
                    continue
                if atom.type != self.type:
                    raise InternalError(
                        f"rule {rule.__name__} gave {atom.type} for {self.prim.name} of {self.type}",
                        sources=self.source,
                    )
                return atom
        return None


Rule = Callable[[Site], Atom | None]
Rules = Mapping[str, Sequence[Rule]]
"""Rules by the name of a primitive, or by its kind; those of the name come first."""


def apply_rules(graph: Graph, rules: Rules) -> Graph:
    """The graph with each equation simplified by these rules, less those that they have replaced."""
    outputs = set(graph.outputs)

    def rewrite(builder: Builder, eqn: Eqn, ins: list[Atom]) -> Sequence[Atom] | None:
        if eqn.prim.name not in rules and eqn.prim.kind not in rules:
            return None
        site = Site(builder, rules, eqn.prim, tuple(ins), eqn.params, eqn.out.type, eqn.source, eqn.out in outputs)
        atom = site.simplified()
        if atom is None:
            return None
        if isinstance(atom, Var) and not atom.hint and builder.define(atom) is not None:
            atom.hint = eqn.out.hint
        return [atom]

    result = rebuild(graph, rewrite)
    return graph if result is graph else drop_dead(result)


def drop_dead(graph: Graph) -> Graph:
    """The graph of the equations that an output depends on; the same object where all are."""
    needed = {atom for atom in graph.outputs if isinstance(atom, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        if not needed.isdisjoint(eqn.outs):
            kept.append(eqn)
            needed.update(atom for atom in eqn.ins if isinstance(atom, Var))
    if len(kept) == len(graph.eqns):
        return graph
    return Graph(graph.name, graph.inputs, tuple(reversed(kept)), graph.outputs, graph.output_names)


GraphPass = Callable[[Graph], Graph]


def with_bodies(run: GraphPass) -> GraphPass:
    """The pass applied to the body graphs inside a graph's equations, innermost first, then to the graph."""

    @functools.wraps(run)
    def everywhere(graph: Graph) -> Graph:
        return run(_in_bodies(graph, everywhere))

    return everywhere


def _in_bodies(graph: Graph, run: GraphPass) -> Graph:
    changed: dict[Eqn, dict[str, Any]] = {}
    for eqn in graph.eqns:
        if any(True for _ in ir.subgraphs(eqn)):
            params = {name: _mapped(value, run) for name, value in eqn.params.items()}
            if any(params[name] is not value for name, value in eqn.params.items()):
                changed[eqn] = params
    if not changed:
        return graph

    def rewrite(builder: Builder, eqn: Eqn, ins: list[Atom]) -> Sequence[Atom] | None:
        if eqn not in changed:
            return None
        return builder.bind_all(eqn.prim, ins, changed[eqn], eqn.source, [v.hint for v in eqn.outs])

    return rebuild(graph, rewrite)


def _mapped(value: Any, run: GraphPass) -> Any:
    """A parameter with `run` applied to its graphs; the same object where nothing changed."""
    if isinstance(value, Graph):
        return run(value)
    if not isinstance(value, tuple):
        return value
    items = tuple(_mapped(item, run) for item in value)
    return items if any(a is not b for a, b in zip(items, value, strict=True)) else value

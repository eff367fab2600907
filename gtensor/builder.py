"""The builder: binds equations one after another, merging equal ones and dropping neutral ones.

Comes in: a primitive, atoms, parameters. Goes out: atoms of the graph under construction. Local
simplification and value numbering happen here, so they hold everywhere, derivative rules included.
Laws: what is merged or dropped is bit-equal; merged equations keep the user lines of all of them; a
builder that is finished binds no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import InternalError, Source
from .ir import Atom, Eqn, Graph, Lit, Var, lit
from .prim import Define, Prim
from .types import Type


class Builder:
    """A graph under construction. `parent` is the builder of the surrounding trace, if any."""

    def __init__(self, name: str, parent: Builder | None = None) -> None:
        self.name = name
        self.parent = parent
        self.inputs: list[Var] = []
        self.eqns: list[Eqn] = []
        self.sources: list[list[Source]] = []
        self.open = True
        self._defined: dict[Var, Eqn] = {}
        self._row: dict[Var, int] = {}
        self._numbered: dict[Any, tuple[Var, ...]] = {}

    def input(self, type: Type, hint: str = "") -> Var:
        """A new input at the end of the list."""
        var = Var(type, hint)
        self.inputs.append(var)
        return var

    def define(self, var: Var) -> Eqn | None:
        """The equation that defines a variable; None for inputs."""
        return self._defined.get(var)

    def source_of(self, var: Var) -> tuple[Source, ...]:
        """The user lines of the equation that defines a variable."""
        row = self._row.get(var)
        return () if row is None else tuple(self.sources[row])

    def bind(
        self, prim: Prim, ins: Sequence[Atom], params: Mapping[str, Any], source: Sequence[Source] = (), hint: str = ""
    ) -> Atom:
        """The value of `prim(ins; params)`: an existing atom where one is bit-equal, else a new variable."""
        (out,) = self.bind_all(prim, ins, params, source, (hint,))
        return out

    def bind_all(
        self,
        prim: Prim,
        ins: Sequence[Atom],
        params: Mapping[str, Any],
        source: Sequence[Source] = (),
        hints: Sequence[str] = (),
    ) -> tuple[Atom, ...]:
        """`bind` for a primitive with any number of results."""
        if not self.open:
            raise InternalError(f"{prim.name} was bound after the trace of {self.name} had ended", sources=source)
        found = prim.type(*(a.type for a in ins), **params)
        out_types = found if isinstance(found, tuple) else (found,)
        simple = _fold(prim, ins, params, out_types) or _simplify(prim, ins, params, out_types, self.define)
        if simple is not None:
            return (simple,)
        key = _number(prim, ins, params, out_types)
        known = self._numbered.get(key)
        if known is not None:
            lines = self.sources[self._row[known[0]]]
            lines.extend(s for s in source if s not in lines)
            return known
        names = [*hints, *[""] * (len(out_types) - len(hints))]
        outs = tuple(Var(t, h) for t, h in zip(out_types, names, strict=True))
        eqn = Eqn(prim, tuple(ins), dict(params), outs)
        self._numbered[key] = outs
        for out in outs:
            self._defined[out] = eqn
            self._row[out] = len(self.eqns)
        self.eqns.append(eqn)
        self.sources.append(list(dict.fromkeys(source)))
        return outs

    def find(self, prim: Prim, ins: Sequence[Atom], params: Mapping[str, Any]) -> Var | None:
        """The variable of that very equation, if it has been bound."""
        known = self._numbered.get(_number(prim, ins, params, (prim.type(*(a.type for a in ins), **params),)))
        return None if known is None else known[0]

    def finish(self, outputs: Sequence[Atom], output_names: Iterable[str] = ()) -> Graph:
        """Close the builder and give the graph."""
        self.open = False
        eqns = tuple(
            Eqn(e.prim, e.ins, e.params, e.outs, tuple(lines)) for e, lines in zip(self.eqns, self.sources, strict=True)
        )
        return Graph(self.name, tuple(self.inputs), eqns, tuple(outputs), tuple(output_names))


def _number(prim: Prim, ins: Sequence[Atom], params: Mapping[str, Any], out_types: Sequence[Type]) -> Any:
    """What equal equations have in common."""
    return prim.name, tuple(ins), tuple((k, _bits(v)) for k, v in sorted(params.items())), tuple(out_types)


def _bits(value: Any) -> Any:
    """A parameter as part of a key: 0.0 and -0.0 differ there."""
    return value.hex() if isinstance(value, float) else value


def _fold(prim: Prim, ins: Sequence[Atom], params: Mapping[str, Any], out_types: Sequence[Type]) -> Lit | None:
    """Evaluate an operation on literals only, where the evaluator and the C agree to the bit."""
    if not prim.exact or not ins or len(out_types) != 1 or out_types[0].shape != ():
        return None
    if not all(isinstance(a, Lit) for a in ins):
        return None
    with np.errstate(all="ignore"):
        value = prim.numpy(*(np.asarray(a.value) for a in ins if isinstance(a, Lit)), **params)
    return lit(value, out_types[0])


def _simplify(
    prim: Prim, ins: Sequence[Atom], params: Mapping[str, Any], out_types: Sequence[Type], define: Define
) -> Atom | None:
    """The operand that the result is bit-equal to, if the record knows one of the right type."""
    simple = prim.simplify(ins, define, **params) if prim.simplify is not None else None
    return simple if simple is not None and (simple.type,) == tuple(out_types) else None


def inline(builder: Builder, graph: Graph, args: Sequence[Atom]) -> list[Atom]:
    """Bind a graph's equations into a builder with these atoms for its inputs; gives its outputs."""
    env: dict[Var, Atom] = dict(zip(graph.inputs, args, strict=True))
    for eqn in graph.eqns:
        ins = [read(env, a) for a in eqn.ins]
        outs = builder.bind_all(eqn.prim, ins, eqn.params, eqn.source, [v.hint for v in eqn.outs])
        env.update(zip(eqn.outs, outs, strict=True))
    return [read(env, a) for a in graph.outputs]


def read(env: Mapping[Var, Atom], atom: Atom) -> Atom:
    """What an atom stands for in an environment."""
    return env[atom] if isinstance(atom, Var) else atom


Rewrite = Callable[[Builder, Eqn, list[Atom]], Sequence[Atom] | None]
"""Given an equation with its operands already rebuilt: atoms for its results, or None to bind it as it is."""


def rebuild(graph: Graph, rewrite: Rewrite | None = None) -> Graph:
    """The graph bound anew, each equation through `rewrite`; the same object when nothing changed."""
    builder = Builder(graph.name)
    env: dict[Var, Atom] = {v: builder.input(v.type, v.hint) for v in graph.inputs}
    changed = False
    for eqn in graph.eqns:
        ins = [read(env, a) for a in eqn.ins]
        before = len(builder.eqns)
        new = rewrite(builder, eqn, ins) if rewrite is not None else None
        if new is None:
            new = builder.bind_all(eqn.prim, ins, eqn.params, eqn.source, [v.hint for v in eqn.outs])
            changed |= len(builder.eqns) != before + 1
        else:
            changed = True
        env.update(zip(eqn.outs, new, strict=True))
    if not changed:
        return graph
    return builder.finish([read(env, a) for a in graph.outputs], graph.output_names)

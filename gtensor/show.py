"""Graphs for reading: as text, as the difference of two, as a drawing.

Comes in: graphs. Goes out: text for people. Law: `diff` gives a variable of the second graph the name that
its counterpart has in the first, so that an equation that only moved down the numbering shows no change.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .ir import Atom, Eqn, Graph, Lit, Var, names, show_atom, show_param, subgraphs, text

__all__ = ["diff", "dot", "text"]


def diff(before: Graph, after: Graph) -> str:
    """What changed between two graphs, as a unified diff of their texts; empty where nothing did.

    >>> import gtensor as gt
    >>> x = gt.spec((2,))
    >>> print(diff(gt.trace(lambda x: gt.exp(gt.tanh(x)) + 1, x), gt.trace(lambda x: gt.exp(x) + 1, x)))
    --- lambda
    +++ lambda
    @@ -1,5 +1,4 @@
     graph lambda(x: f32[2]):
    -  t0: f32[2] = tanh(x)
    -  t1: f32[2] = exp(t0)
    +  t1: f32[2] = exp(x)
       t2: f32[2] = add(t1, 1.0:f32)
       return t2
    """
    old = text(before, sources=False).splitlines()
    new = text(_named_like(after, before), sources=False).splitlines()
    return "\n".join(difflib.unified_diff(old, new, before.name, after.name, lineterm=""))


def _named_like(graph: Graph, model: Graph) -> Graph:
    """The graph with the names of `model` on the variables that correspond, and new ones on the others."""
    known = names(model)
    pairs = list(zip(graph.inputs, model.inputs, strict=False))
    bodies: dict[Eqn, Eqn] = {}
    for eqn, counterpart in _matches(graph, model):
        pairs.extend(zip(eqn.outs, counterpart.outs, strict=False))
        bodies[eqn] = counterpart
    given = {var: known[like] for var, like in pairs}
    taken = set(known.values())
    own = names(graph)
    fresh = (name for i in itertools.count() if (name := f"t{i}") not in taken)
    for var, name in own.items():
        if var not in given:
            given[var] = name if var.hint and name not in taken else next(fresh)
            taken.add(given[var])
    renamed = {var: Var(var.type, name) for var, name in given.items()}

    def atom(a: Atom) -> Atom:
        return renamed.get(a, a) if isinstance(a, Var) else a

    eqns = tuple(
        Eqn(
            eqn.prim,
            tuple(map(atom, eqn.ins)),
            _bodies_like(eqn, bodies.get(eqn)),
            tuple(renamed[v] for v in eqn.outs),
            eqn.source,
        )
        for eqn in graph.eqns
    )
    inputs = tuple(renamed[v] for v in graph.inputs)
    return Graph(graph.name, inputs, eqns, tuple(map(atom, graph.outputs)), graph.output_names)


def _matches(graph: Graph, model: Graph) -> Iterator[tuple[Eqn, Eqn]]:
    """Equations of two graphs that correspond: the same operation in the same order.

    Those from the same line of the user's are matched first, and then what lies between them.
    """
    here, there = 0, 0
    for i, j, size in _blocks(graph.eqns, model.eqns, lambda eqn: (_likeness(eqn), eqn.source[:1])):
        left, right = graph.eqns[here:i], model.eqns[there:j]
        for k, m, length in _blocks(left, right, _likeness):
            yield from zip(left[k : k + length], right[m : m + length], strict=True)
        yield from zip(graph.eqns[i : i + size], model.eqns[j : j + size], strict=True)
        here, there = i + size, j + size


LONG = 2_000
"""Equations in a sequence from which on correspondences are looked for nearby only: the general search is quadratic."""

NEAR = 50
"""How far apart correspondences in long sequences may be."""


def _blocks(left: Sequence[Eqn], right: Sequence[Eqn], key: Callable[[Eqn], Any]) -> list[difflib.Match]:
    """Runs of equations with equal keys, in order; the last one is empty and stands at the ends."""
    search = _long_blocks if max(len(left), len(right)) >= LONG else _best_blocks
    return search([*map(key, left)], [*map(key, right)])


def _best_blocks(left: list[Any], right: list[Any]) -> list[difflib.Match]:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()


def _long_blocks(left: list[Any], right: list[Any]) -> list[difflib.Match]:
    """Runs found from the front: after a difference, the nearest place where both go on alike."""
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        size = 0
        while i + size < len(left) and j + size < len(right) and left[i + size] == right[j + size]:
            size += 1
        if size:
            found.append(difflib.Match(i, j, size))
        i, j = i + size, j + size
        ahead: dict[Any, int] = {}
        for step, value in enumerate(right[j : j + NEAR]):
            ahead.setdefault(value, step)
        near = [(step + ahead[v], step) for step, v in enumerate(left[i : i + NEAR]) if v in ahead]
        distance, step = min(near, default=(2, 1))
        i, j = i + step, j + distance - step
    return [*found, difflib.Match(len(left), len(right), 0)]


def _likeness(eqn: Eqn) -> tuple[Any, ...]:
    """What an equation says besides the names of its variables."""
    plain = tuple((k, show_param(v)) for k, v in sorted(eqn.params.items()) if not isinstance(v, Graph))
    literals = tuple(a if isinstance(a, Lit) else None for a in eqn.ins)
    return eqn.prim.name, literals, plain, tuple(v.type for v in eqn.outs)


def _bodies_like(eqn: Eqn, model: Eqn | None) -> Mapping[str, Any]:
    """Parameters with the body graphs named like those of another equation."""
    if model is None:
        return eqn.params
    known = dict(subgraphs(model))

    def like(name: str, value: Any) -> Any:
        if isinstance(value, Graph):
            return _named_like(value, known[name]) if name in known else value
        if isinstance(value, tuple):
            return tuple(like(f"{name}.{i}", item) for i, item in enumerate(value))
        return value

    return {name: like(name, value) for name, value in eqn.params.items()}


def dot(graph: Graph) -> str:
    """The graph in Graphviz's language: `dot -Tsvg` draws it.

    Equations are boxes that say operation, parameters and literals, and name the user's line in their
    tooltip; inputs and outputs are ovals; edges say the type that flows. Body graphs are framed.

    >>> import gtensor as gt
    >>> print(dot(gt.trace(lambda x: gt.exp(x), gt.spec((2,)))))
    digraph "lambda" {
      node [shape=box, fontname="monospace"];
      "in.x" [shape=oval, label="x"];
      "e0" [label="exp", tooltip="..."];
      "in.x" -> "e0" [label="f32[2]"];
      "out.0" [shape=oval, label="out"];
      "e0" -> "out.0" [label="f32[2]"];
    }
    """
    lines = [f"digraph {_quoted(graph.name)} {{", '  node [shape=box, fontname="monospace"];']
    lines += ["  " + line for line in _nodes(graph, "")]
    return "\n".join([*lines, "}"])


def _nodes(graph: Graph, prefix: str) -> Iterator[str]:
    """Nodes and edges of a graph; `prefix` keeps the nodes of bodies apart."""
    name_of = names(graph)
    node = {var: f"{prefix}in.{name_of[var]}" for var in graph.inputs}
    for var in graph.inputs:
        yield f"{_quoted(node[var])} [shape=oval, label={_quoted(name_of[var])}];"
    for i, eqn in enumerate(graph.eqns):
        here = f"{prefix}e{i}"
        node.update((out, here) for out in eqn.outs)
        details = [show_atom(a, name_of) for a in eqn.ins if isinstance(a, Lit)]
        held = dict(subgraphs(eqn))
        bodies = {name.split(".")[0] for name in held}
        details += [f"{k}={show_param(v)}" for k, v in sorted(eqn.params.items()) if k not in bodies]
        label = "\n".join([eqn.prim.name, *details])
        yield f"{_quoted(here)} [label={_quoted(label)}, tooltip={_quoted(', '.join(map(str, eqn.source)))}];"
        for a in eqn.ins:
            if isinstance(a, Var):
                yield _edge(node[a], here, str(a.type))
        for name, body in held.items():
            inner = f"{here}.{name}."
            yield f"subgraph {_quoted('cluster ' + inner)} {{"
            yield f"  label={_quoted(name + ' = ' + body.name)};"
            yield from ("  " + line for line in _nodes(body, inner))
            yield "}"
    for i, a in enumerate(graph.outputs):
        here = f"{prefix}out.{i}"
        name = graph.output_names[i] if graph.output_names else f"out{i}"
        yield f"{_quoted(here)} [shape=oval, label={_quoted(name)}];"
        if isinstance(a, Var):
            yield _edge(node[a], here, str(a.type))
        else:
            literal = f"{here}.literal"
            yield f"{_quoted(literal)} [shape=plain, label={_quoted(show_atom(a, name_of))}];"
            yield _edge(literal, here, str(a.type))


def _edge(start: str, end: str, label: str) -> str:
    return f"{_quoted(start)} -> {_quoted(end)} [label={_quoted(label)}];"


def _quoted(value: str) -> str:
    """A string of Graphviz's language."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

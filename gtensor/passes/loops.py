"""The pass `loops`: one loop where a derivative has made a second one, and no results that nobody reads.

The derivative of a loop binds the same loop again, with more of its body's values as stacked results; the
first and the second are one loop with the results of both. A result, a carry, an input of the body that
nothing needs goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Atom, Eqn, Graph, Var, use_counts
from .rules import drop_dead, with_bodies


@with_bodies
def loops(graph: Graph) -> Graph:
    """Join scans over the same operands with the same body; drop their dead results, carries and inputs.

    before::

        t0: f32[3], t1: f32[5,3] = scan(h, x, w, …)       body returns t2, t2
        t2: f32[3], t3: f32[5,3], t4: f32[5,3] = scan(h, x, w, …)       body returns t2, t2, t0

    after, where t0 and t2 are not used::

        t1: f32[5,3], t4: f32[5,3] = scan(h, x, w, …)       body returns t2, t2, t0
    """
    if all(eqn.prim.name != "scan" for eqn in graph.eqns):
        return graph
    joined = _joined(graph)
    counts = use_counts(joined)
    eqns = tuple(_pruned(e, counts.keys()) if e.prim.name == "scan" else e for e in joined.eqns)
    if all(a is b for a, b in zip(eqns, graph.eqns, strict=False)) and len(eqns) == len(graph.eqns):
        return graph
    return Graph(graph.name, graph.inputs, eqns, joined.outputs, graph.output_names)


def _joined(graph: Graph) -> Graph:
    """The graph with equal loops made one, at the place of the first."""
    same: dict[object, list[Eqn]] = {}
    for eqn in graph.eqns:
        if eqn.prim.name == "scan":
            body, params = eqn.params["body"], eqn.params
            rest = tuple(sorted((k, v) for k, v in params.items() if k != "body"))
            same.setdefault((eqn.ins, id(body.eqns), body.inputs, rest), []).append(eqn)
    if all(len(group) == 1 for group in same.values()):
        return graph
    instead: dict[Var, Var] = {}
    first: dict[Eqn, Eqn] = {}
    dropped: set[Eqn] = set()
    for group in same.values():
        if len(group) > 1:
            first[group[0]] = _union(group, instead)
            dropped.update(group[1:])

    def read(atom: Atom) -> Atom:
        return instead.get(atom, atom) if isinstance(atom, Var) else atom

    eqns = [first.get(eqn, eqn) for eqn in graph.eqns if eqn not in dropped]
    renamed = tuple(Eqn(e.prim, tuple(map(read, e.ins)), e.params, e.outs, e.source) for e in eqns)
    return Graph(graph.name, graph.inputs, renamed, tuple(map(read, graph.outputs)), graph.output_names)


def _union(group: Sequence[Eqn], instead: dict[Var, Var]) -> Eqn:
    """One loop with the results of all; `instead` learns which results stand for which."""
    one = group[0]
    body, carries = one.params["body"], one.params["carries"]
    outputs, outs = list(body.outputs), list(one.outs)
    for other in group[1:]:
        for i, (atom, out) in enumerate(zip(other.params["body"].outputs, other.outs, strict=True)):
            at = i if i < carries else next((k for k in range(carries, len(outputs)) if outputs[k] == atom), None)
            if at is None:
                outputs.append(atom)
                outs.append(out)
            else:
                instead[out] = outs[at]
    graph = Graph(body.name, body.inputs, body.eqns, tuple(outputs))
    source = tuple(dict.fromkeys(line for eqn in group for line in eqn.source))
    return Eqn(one.prim, one.ins, {**one.params, "body": graph}, tuple(outs), source)


def _pruned(eqn: Eqn, used: object) -> Eqn:
    """The loop without what nobody reads."""
    body, carries, slices = eqn.params["body"], eqn.params["carries"], eqn.params["slices"]
    live = {i for i, out in enumerate(eqn.outs) if out in used}  # type: ignore[operator]
    while True:
        needed = _needed(body, [body.outputs[i] for i in live])
        more = {i for i in range(carries) if body.inputs[i] in needed} - live
        if not more:
            break
        live |= more
    kept_ins = [i for i, var in enumerate(body.inputs) if (i in live if i < carries else var in needed)]
    if len(live) == len(eqn.outs) and len(kept_ins) == len(body.inputs):
        return eqn
    kept_outs = sorted(live)
    inputs, outputs = (body.inputs[i] for i in kept_ins), (body.outputs[i] for i in kept_outs)
    graph = drop_dead(Graph(body.name, tuple(inputs), body.eqns, tuple(outputs)))
    params = {
        **eqn.params,
        "body": graph,
        "carries": sum(i < carries for i in kept_ins),
        "slices": sum(carries <= i < carries + slices for i in kept_ins),
    }
    ins = tuple(eqn.ins[i] for i in kept_ins)
    return Eqn(eqn.prim, ins, params, tuple(eqn.outs[i] for i in kept_outs), eqn.source)


def _needed(body: Graph, outputs: Sequence[Atom]) -> set[Atom]:
    """Everything that outputs depend on."""
    needed = set(outputs)
    for eqn in reversed(body.eqns):
        if not needed.isdisjoint(eqn.outs):
            needed.update(eqn.ins)
    return needed

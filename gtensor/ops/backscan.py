"""The derivative of a scan: another scan, the other way round.

Comes in: a scan's operands, results and their cotangents. Goes out: cotangents of its operands. The body is
differentiated once; what depends on cotangents runs in the loop that goes back, which carries the cotangents
of the carries and the sums of those of captured values. Of the body's values that it needs, those that are
moved elements, the same in every step, or one cheap operation away from others are made again; what is left
is stacked by the forward loop. Law: the
result is made of ordinary equations, so the derivative of a derivative needs nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..builder import Builder, read
from ..ir import Atom, Eqn, Graph, Lit, Var
from ..prim import REGISTRY
from ..pullback import pull_back, traced_steps, zeros
from ..tensor import Scope, Tensor, apply, as_tensor, bind_all
from ..trace import binding, placeholder, scope
from ..types import Type

MADE_AGAIN = ("view", "source", "assemble")
"""Kinds of equations that compute nothing: their results are not worth the memory of all steps."""


@dataclass(frozen=True)
class _Scan:
    """A scan equation over tensors."""

    ins: Sequence[Tensor]
    outs: Sequence[Tensor]
    params: Mapping[str, Any]

    @property
    def body(self) -> Graph:
        body: Graph = self.params["body"]
        return body

    @property
    def carries(self) -> int:
        count: int = self.params["carries"]
        return count

    @property
    def first_capture(self) -> int:
        """The place of the first captured value among the inputs."""
        count: int = self.params["slices"]
        return self.carries + count


def backward(
    gs: Sequence[Tensor | None], outs: Sequence[Tensor], ins: Sequence[Tensor], wanted: Sequence[bool], **params: Any
) -> list[Tensor | None]:
    """Cotangents of the operands that are wanted, from those of the results (None where there is none)."""
    scan = _Scan(ins, outs, params)
    floats = [i for i in range(scan.carries) if scan.body.inputs[i].type.dtype.floating]
    given = [*floats, *(i for i in range(scan.carries, len(outs)) if gs[i] is not None)]
    asked = [i in floats if i < scan.carries else want for i, want in enumerate(wanted)]
    joint = _differentiated(scan.body, given, asked)
    found = [i for i in range(scan.carries, len(ins)) if joint.found[i] is not None]
    rows, sums = ([i for i in found if (i < scan.first_capture) == side] for side in (True, False))
    seeds = {i: Var(seed.type, "d") for i, seed in joint.seeds.items()}
    totals = [Var(scan.body.inputs[i].type, f"d_{scan.body.inputs[i].hint}") for i in sums]

    def body(again: set[Var]) -> tuple[_Back, list[Atom]]:
        back = _Back(scan, joint, again)
        back.env |= {joint.seeds[i]: seed for i, seed in seeds.items()}
        with binding(back.builder) as inner:
            new = [back.value(inner, joint.found[i], seeds[i].type) for i in floats]
            new += [back.added(inner, total, joint.found[i]) for total, i in zip(totals, sums, strict=True)]
            new += [back.value(inner, joint.found[i], scan.body.inputs[i].type) for i in rows]
        return back, new

    back, new = body(set())
    if cheap := back.cheap():
        back, new = body(cheap)
    later = [i for i in given if i >= scan.carries]
    starts = [*(_or_zeros(gs[i], seeds[i].type) for i in floats), *(zeros(v.type) for v in totals)]
    moved = [*back.operands(rows=True), *_stacks(scan, back.kept), *(_or_zeros(gs[i], seeds[i].type) for i in later)]
    back.builder.inputs = [
        *(seeds[i] for i in floats), *totals,
        *back.inputs(rows=True), *back.kept.values(), *(seeds[i] for i in later),
        *back.inputs(rows=False),
    ]  # fmt: skip
    turned = {
        "length": params["length"],
        "reverse": not params["reverse"],
        "carries": len(starts),
        "slices": len(moved),
    }
    operands = [*starts, *moved, *back.operands(rows=False)]
    results = bind_all(REGISTRY["scan"], operands, {**turned, "body": back.builder.finish(new)})
    place = dict(zip((*floats, *sums, *rows), results, strict=True))
    return [place.get(i) for i in range(len(ins))]


def _or_zeros(g: Tensor | None, type_: Type) -> Tensor:
    return zeros(type_) if g is None else g


@dataclass(frozen=True)
class _Joint:
    """The body and its derivative in one graph.

    `at` maps the body's variables to its atoms, `seeds` the places of results to their cotangents; `found` has
    the cotangent of each input of the body, or None; `captured` has what rules captured.
    """

    eqns: tuple[Eqn, ...]
    at: dict[Var, Atom]
    seeds: dict[int, Var]
    found: list[Atom | None]
    captured: dict[Var, Tensor]


def _differentiated(body: Graph, given: Sequence[int], wanted: Sequence[bool]) -> _Joint:
    """Differentiate a body: from cotangents of the outputs `given`, for the inputs that are `wanted`."""
    with scope(f"{body.name}_joint") as inner:
        inputs = [placeholder(inner, v.type, v.hint) for v in body.inputs]
        at: dict[Var, Atom] = {v: inner.atom(t) for v, t in zip(body.inputs, inputs, strict=True)}
        for eqn in body.eqns:
            ins = [read(at, a) for a in eqn.ins]
            outs = inner.builder.bind_all(eqn.prim, ins, eqn.params, eqn.source, [v.hint for v in eqn.outs])
            at.update(zip(eqn.outs, outs, strict=True))
        outputs = [read(at, body.outputs[i]) for i in given]
        seeds = [placeholder(inner, a.type, "d") for a in outputs]
        variables = [t for t, want in zip(inputs, wanted, strict=True) if want]
        steps = traced_steps(inner)
        tensors = [Tensor(a.type, atom=a, scope=inner) for a in outputs]
        found = iter(pull_back(steps, tensors, seeds, variables, lambda t: t, lambda t: f"a value of {body.name}"))
        cotangents = [next(found) if want else None for want in wanted]
        atoms = [None if t is None else inner.atom(t) for t in cotangents]
        graph = inner.builder.finish([])
    named = {i: t.atom for i, t in zip(given, seeds, strict=True) if isinstance(t.atom, Var)}
    captured = {var: as_tensor(value) for value, var in inner.captures.values()}
    return _Joint(graph.eqns, at, named, atoms, captured)


class _Back:
    """The body of the loop that goes back, under construction.

    `kept` maps the body's values that the forward loop has to stack to the inputs that they become, `used`
    likewise the atoms that stand for rows and captures; `env` maps the joint graph's atoms to this body's.
    Values in `again` are made again.
    """

    def __init__(self, scan: _Scan, joint: _Joint, again: set[Var]) -> None:
        self.again = again
        self.builder = Builder(f"{scan.body.name}_back")
        self.makers = {out: eqn for eqn in joint.eqns for out in eqn.outs}
        self.env: dict[Var, Atom] = {}
        self.kept: dict[Var, Var] = {}
        self.used: dict[Var, Var] = {}
        self.forward: dict[Var, Var] = {}
        for var, atom in joint.at.items():
            if isinstance(atom, Var):
                self.forward.setdefault(atom, var)
        inputs = [joint.at[v] for v in scan.body.inputs]
        self.around = {a: scan.ins[i] for i, a in enumerate(inputs) if i >= scan.carries and isinstance(a, Var)}
        self.rows = [a for a in inputs[scan.carries : scan.first_capture] if isinstance(a, Var)]
        self.around.update(joint.captured)
        self.fixed = {a for a in self.around if a not in self.rows}
        self.late = set(joint.seeds.values())
        for eqn in joint.eqns:
            if any(a in self.late for a in eqn.ins):
                self.late.update(eqn.outs)
            elif all(isinstance(a, Lit) or a in self.fixed for a in eqn.ins):
                self.fixed.update(eqn.outs)

    def inputs(self, rows: bool) -> list[Var]:
        """The inputs for the rows, or the captures, that the body uses."""
        return [var for atom, var in self.used.items() if (atom in self.rows) == rows]

    def operands(self, rows: bool) -> list[Tensor]:
        """What these are outside the loop."""
        return [self.around[atom] for atom in self.used if (atom in self.rows) == rows]

    def value(self, inner: Scope, atom: Atom | None, type_: Type) -> Atom:
        """An atom of the joint graph in this body; zeros for none."""
        if atom is None:
            return inner.atom(zeros(type_))
        stack = [atom]
        while stack:
            top = stack[-1]
            if isinstance(top, Lit) or top in self.env:
                stack.pop()
            elif top in self.around:
                self.env[top] = self.used[top] = Var(top.type, top.hint)
            elif self._is_kept(top):
                self.env[top] = self.kept[self.forward[top]] = Var(top.type, top.hint)
            else:
                stack.extend(self._bound(self.makers[top]))
        return read(self.env, atom)

    def _bound(self, eqn: Eqn) -> list[Atom]:
        """Bind an equation of the joint graph, or give the operands that have to be made first."""
        missing: list[Atom] = [a for a in eqn.ins if isinstance(a, Var) and a not in self.env]
        if not missing:
            ins = [read(self.env, a) for a in eqn.ins]
            outs = self.builder.bind_all(eqn.prim, ins, eqn.params, eqn.source, [v.hint for v in eqn.outs])
            self.env.update(zip(eqn.outs, outs, strict=True))
        return missing

    def added(self, inner: Scope, total: Var, atom: Atom | None) -> Atom:
        """A running sum and the part of this step."""
        part = self.value(inner, atom, total.type)
        parts = (Tensor(a.type, atom=a, scope=inner) for a in (total, part))
        return inner.atom(apply("add", *parts))

    def cheap(self) -> set[Var]:
        """The kept values that one operation makes of others that are there: those need not be stacked."""
        kept = dict.fromkeys(atom for atom, var in self.forward.items() if var in self.kept)
        found: set[Var] = set()
        for atom in kept:
            eqn = self.makers.get(atom)
            if eqn is not None and eqn.prim.kind == "elementwise" and eqn.prim.flops <= 1:
                there = (isinstance(a, Lit) or a in self.around or (a in kept and a not in found) for a in eqn.ins)
                if all(there):
                    found.add(atom)
        return found

    def _is_kept(self, var: Var) -> bool:
        """Whether a value comes from the forward loop."""
        if var in self.late or var not in self.forward or var in self.fixed or var in self.again:
            return False
        return var not in self.makers or self.makers[var].prim.kind not in MADE_AGAIN


def _stacks(scan: _Scan, kept: Mapping[Var, Var]) -> list[Tensor]:
    """The kept values of all steps: results of the loop already, or of the same loop with more results.

    The pass `loops` makes one loop of both.
    """
    body = scan.body
    there = {a: i for i, a in enumerate(body.outputs) if i >= scan.carries and isinstance(a, Var)}
    more = [v for v in kept if v not in there]
    extra: list[Tensor] = []
    if more:
        longer = Graph(body.name, body.inputs, body.eqns, (*body.outputs, *more))
        extra = bind_all(REGISTRY["scan"], scan.ins, {**scan.params, "body": longer})[len(scan.outs) :]
    found = dict(zip(more, extra, strict=True))
    return [scan.outs[there[v]] if v in there else found[v] for v in kept]

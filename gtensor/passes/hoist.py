"""The pass `hoist`: what a loop need not do step by step is done once, before it or after it.

Before the loop: equations on captured values only, and products of rows with captured values, which become
one product over all rows. After it: products that only make a row of a result, and sums over the steps of
products (weight gradients) or of sums, which become one product or sum over the stacked operands. Law: every
value is that of the loop but for the order in which floats are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..builder import Builder, rebuild
from ..ir import Atom, Eqn, Graph, Lit, Var, definitions, use_counts
from ..prim import REGISTRY
from ..tensor import Scope, Tensor, apply, bind, bind_all, sourced
from ..trace import binding
from ..types import Dim
from .rules import drop_dead, with_bodies


@with_bodies
def hoist(graph: Graph) -> Graph:
    """Take equations out of scans.

    before::

        t0: f32[4,3], d_w: f32[3,3] = scan(h, zeros, x, w, …)
            t1 = matmul(x, w); t2 = add(h, t1); t3 = matmul(x, t2, ta=True); t4 = add(d_w, t3)
            return t2, t4

    after::

        xw: f32[5,4,3] = matmul(x, w)
        t0: f32[4,3], t2: f32[5,4,3] = scan(h, xw)
            t2 = add(h, xw)
            return t2, t2
        d_w: f32[3,3] = add(zeros, matmul(reshape(x), reshape(t2), ta=True))
    """
    if all(eqn.prim.name != "scan" for eqn in graph.eqns):
        return graph

    def rewrite(builder: Builder, eqn: Eqn, ins: list[Atom]) -> Sequence[Atom] | None:
        if eqn.prim.name != "scan" or eqn.params["length"] == 0:
            return None  # without steps nothing is done, and nothing can fail
        loop = _Loop(eqn)
        if not loop.early and not loop.late:
            return None
        with binding(builder) as scope, sourced(eqn.source):
            return loop.outside(scope, ins)

    result = rebuild(graph, rewrite)
    return graph if result is graph else drop_dead(result)


_Total = tuple[tuple[Var, ...], Callable[[list[Tensor]], Tensor]]
"""Values of a body, and what is computed of their stacks."""


@dataclass
class _Late:
    """A result made after the loop: `operands` are values of the body, stacked, `make` computes with the stacks."""

    operands: tuple[Var, ...]
    make: Callable[[list[Tensor]], Tensor]
    start: int | None = None


@dataclass
class _Loop:
    """What of a scan goes where. `early` are equations done before it, in order; `late` results made after it."""

    eqn: Eqn
    early: list[Eqn] = field(default_factory=list)
    late: dict[int, _Late] = field(default_factory=dict)

    def __post_init__(self) -> None:
        params = self.eqn.params
        self.body: Graph = params["body"]
        self.carries: int = params["carries"]
        self.slices: int = params["slices"]
        self.makers = definitions(self.body)
        self.uses = use_counts(self.body)
        inputs = self.body.inputs
        self.level = dict.fromkeys(inputs[: self.carries], 2)
        self.level |= dict.fromkeys(inputs[self.carries : self.carries + self.slices], 1)
        self.level |= dict.fromkeys(inputs[self.carries + self.slices :], 0)
        for eqn in self.body.eqns:
            level = max((self.level[a] for a in eqn.ins if isinstance(a, Var)), default=0)
            self.level |= dict.fromkeys(eqn.outs, level)
        self._find_early()
        self._find_late()

    # ---- what leaves ----

    def _find_early(self) -> None:
        """Products of rows with what is captured, anything but a view of captured values, and what these need."""
        wanted: set[Var] = set()
        for eqn in reversed(self.body.eqns):
            level = self.level[eqn.outs[0]]
            batched = level == 0 or (eqn.prim.batch is not None and eqn.prim.kind != "loop" and self._stacks(eqn))
            starts = eqn.prim.kind == "contract" if level else eqn.prim.kind not in ("view", "source", "effect")
            if level < 2 and batched and (starts or not wanted.isdisjoint(eqn.outs)):
                self.early.append(eqn)
                wanted.update(a for a in eqn.ins if isinstance(a, Var))
        self.early.reverse()
        self._keep_complete()

    def _stacks(self, eqn: Eqn) -> bool:
        """Whether the operands of all steps can be one array of rows: with one run-time extent at most."""
        atoms = [*eqn.ins, *eqn.outs] if isinstance(self.eqn.params["length"], Dim) else []
        return not any(isinstance(n, Dim) for a in atoms for n in a.type.shape)

    def _keep_complete(self) -> None:
        """Leave out of `early` what needs something that stays in the loop."""
        known = set(self.body.inputs[self.carries :])
        kept = []
        for eqn in self.early:
            if all(isinstance(a, Lit) or a in known for a in eqn.ins):
                kept.append(eqn)
                known.update(eqn.outs)
        self.early = kept

    def _find_late(self) -> None:
        made_early = {out for eqn in self.early for out in eqn.outs}
        for i, atom in enumerate(self.body.outputs):
            eqn = self.makers.get(atom) if isinstance(atom, Var) else None
            if eqn is None or atom in made_early or self.uses[atom] != 1:  # type: ignore[index]
                continue
            found = self._sum(i, eqn) if i < self.carries else self._row(eqn)
            if found is not None:
                self.late[i] = found

    def _row(self, eqn: Eqn) -> _Late | None:
        """A row of a result that is a product with what is captured."""
        fixed = not all(self.level[a] for a in eqn.ins if isinstance(a, Var))
        if eqn.prim.kind != "contract" or not fixed or not self._stacks(eqn):
            return None
        return _Late(_variables(eqn.ins), lambda stacks: _batched(eqn, stacks, self.level)[0])

    def _sum(self, i: int, eqn: Eqn) -> _Late | None:
        """A carry that only adds up a product, or a sum, of each step."""
        carry = self.body.inputs[i]
        if eqn.prim.name != "add" or carry not in eqn.ins or self.uses.get(carry) != 1:
            return None
        (part,) = (a for a in eqn.ins if a is not carry)
        total = self._total(part)
        return None if total is None else _Late(*total, i)

    def _total(self, part: Atom) -> _Total | None:
        """How to add up a value over all steps after the loop, if there is a good way: only operands of steps stack."""
        made = self.makers.get(part) if isinstance(part, Var) else None
        if made is None or self.uses[made.outs[0]] != 1 or not all(self.level.get(a) for a in made.ins):
            return None
        if not self._stacks(made):
            return None
        if made.prim.name == "concat":
            totals = [self._total(a) for a in made.ins]
            return None if None in totals else _joined(made, totals)  # type: ignore[arg-type]
        make = _SUMS[made.prim.name](made) if made.prim.name in _SUMS else None
        return None if make is None else (_variables(made.ins), make)

    # ---- the new equations ----

    def outside(self, scope: Scope, ins: Sequence[Atom]) -> list[Atom]:
        """Bind what comes before, the loop, and what comes after; gives the results."""
        tensors = {v: _tensor(scope, a) for v, a in zip(self.body.inputs, ins, strict=True)}
        for eqn in self.early:
            made = _batched(eqn, [tensors[a] for a in _variables(eqn.ins)], self.level)
            tensors |= zip(eqn.outs, made, strict=True)
        body, operands, params, places = self._loop(tensors)
        outs = scope.builder.bind_all(
            self.eqn.prim, [scope.atom(t) for t in operands], {**params, "body": body}, self.eqn.source,
            [self.eqn.outs[i].hint for i in places.values()],
        )  # fmt: skip
        stacks = {a: _tensor(scope, out) for a, out in zip(body.outputs, outs, strict=True) if isinstance(a, Var)}
        rows = {a: t for a, t in stacks.items() if a in body.outputs[params["carries"] :]}
        found = dict(zip(places.values(), outs, strict=False))
        results: list[Atom] = []
        for i in range(len(self.eqn.outs)):
            if i not in self.late:
                results.append(found[i])
                continue
            late = self.late[i]
            value = late.make([tensors[a] if self._is_there(a, tensors) else rows[a] for a in late.operands])
            if late.start is not None:
                value = apply("add", tensors[self.body.inputs[late.start]], value)
            results.append(scope.atom(value))
        return results

    def _is_there(self, var: Var, tensors: dict[Var, Tensor]) -> bool:
        """Whether all of a value's steps are known outside the loop; of a carry that is its first value only."""
        return var in tensors and self.level[var] < 2

    def _loop(self, tensors: dict[Var, Tensor]) -> tuple[Graph, list[Tensor], dict[str, Any], dict[int, int]]:
        """The body that stays, its operands and parameters, and which of its first results is which of the old ones."""
        gone = {out for eqn in self.early for out in eqn.outs}
        stays = [i for i in range(len(self.body.outputs)) if i not in self.late]
        outputs = [self.body.outputs[i] for i in stays]
        extra = [a for late in self.late.values() for a in late.operands if not self._is_there(a, tensors)]
        there = outputs[sum(i < self.carries for i in stays) :]
        outputs += [a for a in dict.fromkeys(extra) if a not in there]
        eqns = [eqn for eqn in self.body.eqns if gone.isdisjoint(eqn.outs)]
        needed = set(outputs)
        kept: list[Eqn] = []
        for eqn in reversed(eqns):
            if not needed.isdisjoint(eqn.outs):
                kept.append(eqn)
                needed.update(eqn.ins)
        carried = [v for i, v in enumerate(self.body.inputs[: self.carries]) if i not in self.late]
        rows = [v for v in tensors if self.level[v] == 1 and v in needed]
        fixed = [v for v in tensors if self.level[v] == 0 and v in needed]
        body = Graph(self.body.name, (*carried, *rows, *fixed), tuple(reversed(kept)), tuple(outputs))
        params = {**self.eqn.params, "carries": len(carried), "slices": len(rows)}
        return body, [tensors[v] for v in (*carried, *rows, *fixed)], params, dict(enumerate(stays))


def _joined(eqn: Eqn, totals: Sequence[_Total]) -> _Total:
    """The total of joined parts: their totals, joined."""

    def make(stacks: list[Tensor]) -> Tensor:
        queue = iter(stacks)
        parts = [part([next(queue) for _ in operands]) for operands, part in totals]
        return apply("concat", *parts, axis=eqn.params["axis"])

    return tuple(a for operands, _ in totals for a in operands), make


def _tensor(scope: Scope, atom: Atom) -> Tensor:
    return Tensor(atom.type, atom=atom, scope=scope)


def _variables(atoms: Sequence[Atom]) -> tuple[Var, ...]:
    return tuple(a for a in atoms if isinstance(a, Var))


def _batched(eqn: Eqn, operands: Sequence[Tensor], level: dict[Var, int]) -> list[Tensor]:
    """An equation of a body over all steps at once: operands that differ from step to step are stacked in front."""
    queue = iter(operands)
    args = [Tensor(a.type, atom=a) if isinstance(a, Lit) else next(queue) for a in eqn.ins]
    axes = [0 if isinstance(a, Var) and level[a] else None for a in eqn.ins]
    if all(axis is None for axis in axes):
        if eqn.prim.kind == "loop":
            return bind_all(eqn.prim, args, eqn.params, [out.hint for out in eqn.outs])
        return [bind(eqn.prim, args, eqn.params, eqn.out.hint)]
    assert eqn.prim.batch is not None
    out, axis = eqn.prim.batch(args, axes, **eqn.params)
    return [out if axis == 0 else apply("transpose", out, axes=(axis, *(i for i in range(out.ndim) if i != axis)))]


def _sum_of_products(eqn: Eqn) -> Callable[[list[Tensor]], Tensor] | None:
    """The sum over steps of a'b is one product over the rows of all steps."""
    if not eqn.params["ta"] or eqn.params["tb"] or any(a.type.ndim != 2 for a in eqn.ins):
        return None

    def make(stacks: list[Tensor]) -> Tensor:
        a, b = (apply("reshape", t, shape=(t.shape[0] * t.shape[1], t.shape[2])) for t in stacks)
        return apply("matmul", a, b, ta=True, tb=False)

    return make


def _sum_of_sums(eqn: Eqn) -> Callable[[list[Tensor]], Tensor] | None:
    axes = (0, *(axis + 1 for axis in eqn.params["axis"]))
    return lambda stacks: bind(REGISTRY["sum"], stacks, {"axis": axes})


_SUMS = {"matmul": _sum_of_products, "sum": _sum_of_sums}
"""What may be added up after the loop, by the operation that makes one step's part."""

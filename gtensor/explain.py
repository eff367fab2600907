"""explain_grad: by which lines a gradient flows to each parameter, and where it is cut.

Comes in: a function and arguments like its own. Goes out: a `Flow` for each leaf of the first argument:
the user's lines on its paths to the loss, how many paths there are, and the cuts (`stop_gradient`, and
operations whose derivative is zero everywhere) that stop others. Law: a path counted here is one along
which `grad` adds a contribution, in the graph as it is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import tree
from .errors import GradError, Source
from .ir import Eqn, Graph, Var
from .trace import split_arguments, trace_call


@dataclass(frozen=True)
class Step:
    """Equations of one user line: the line, and the operations on it."""

    source: Source | None
    operations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source or 'no line'}    [{', '.join(self.operations)}]"


@dataclass(frozen=True)
class Flow:
    """How a gradient reaches a parameter: `paths` counts the ways, `steps` are their lines from parameter to loss.

    `cuts` are lines at which further paths end, the first cut of each, where the loss depends on the value.
    """

    name: str
    paths: int
    steps: tuple[Step, ...]
    cuts: tuple[Step, ...]

    def __str__(self) -> str:
        head = f"{self.name}: {self.paths} path{'s' * (self.paths != 1)} to the loss" if self.paths else (
            f"{self.name}: no path to the loss, its gradient is zero"
        )  # fmt: skip
        lines = [head, *(f"    {step}" for step in self.steps)]
        return "\n".join(lines + [f"    cut at {step}" for step in self.cuts])


@dataclass(frozen=True)
class Explanation:
    """The flows of all parameters; printed, one after another."""

    flows: tuple[Flow, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.flows))

    def __getitem__(self, name: str) -> Flow:
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise KeyError(name)


def explain_grad(fn: Callable[..., Any], *args: Any, has_aux: bool = False) -> Explanation:
    """Which paths carry the gradient of `fn` to each leaf of its first argument, and what cuts others.

    `fn(params, …)` gives a scalar loss (or a pair with one, if `has_aux`); arguments are arrays, tensors,
    `gt.spec`, or pytrees of them, and nothing is computed. Raises GradError for a loss that is no scalar.

    >>> import gtensor as gt
    >>> def energy(w, x):
    ...     mu = gt.tanh(x @ w)
    ...     return gt.sum((gt.stop_gradient(mu) - mu) ** 2)
    >>> flow = explain_grad(energy, gt.spec((2, 2)), gt.spec((3, 2)))["w"]
    >>> flow.paths, [step.operations for step in flow.cuts]
    (1, [('stop_gradient',)])
    """
    leaves, signature = split_arguments(fn, args, {})
    traced = trace_call(fn, leaves, signature)
    graph = traced.graph
    structure = tree.flatten(args[0])[1] if args else None
    outputs = graph.outputs[:1] if has_aux else graph.outputs
    if len(outputs) != 1 or outputs[0].type.shape != ():
        raise GradError("explain_grad needs a scalar loss", hint="return (loss, aux) with has_aux=True")
    count = 0 if structure is None else len(tree.paths(structure))
    open_, seen = (_reaching(graph, outputs, through) for through in (_passes, lambda eqn: True))
    return Explanation(tuple(_flow(graph, var, outputs, open_, seen) for var in graph.inputs[:count]))


def _passes(eqn: Eqn) -> bool:
    """Whether a derivative goes through an equation."""
    return not eqn.prim.zero and eqn.prim.kind != "effect"


def _reaching(graph: Graph, outputs: Iterable[Any], through: Callable[[Eqn], bool]) -> set[Any]:
    """The values from which the loss can be reached through such operations."""
    reaching = set(outputs)
    for eqn in reversed(graph.eqns):
        if through(eqn) and not reaching.isdisjoint(eqn.outs):
            reaching.update(eqn.ins)
    return reaching


def _flow(graph: Graph, var: Var, outputs: tuple[Any, ...], reaching: set[Any], seen: set[Any]) -> Flow:
    """Paths are counted forwards: those to a value are those to the operands of its equation.

    `reaching` are values whose gradient the loss has, `seen` those that the loss depends on at all.
    """
    paths: dict[Any, int] = {var: 1}
    on_path: list[Eqn] = []
    cuts: list[Eqn] = []
    for eqn in graph.eqns:
        arriving = sum(paths.get(atom, 0) for atom in eqn.ins if isinstance(atom, Var))
        if not arriving or seen.isdisjoint(eqn.outs):
            continue
        if not _passes(eqn):
            cuts.append(eqn)
            continue
        paths.update((out, arriving) for out in eqn.outs if out.type.dtype.floating)
        if not reaching.isdisjoint(eqn.outs):
            on_path.append(eqn)
    name = var.hint or "argument"
    found = paths.get(outputs[0], 0)
    return Flow(name, found, _steps(on_path) if found else (), _steps(cuts))


def _steps(eqns: Iterable[Eqn]) -> tuple[Step, ...]:
    """Equations gathered by line, in order; movements of elements are left out where something else is said."""
    lines: dict[Source | None, dict[str, None]] = {}
    for eqn in eqns:
        source = eqn.source[0] if eqn.source else None
        names = lines.setdefault(source, {})
        if eqn.prim.kind != "view":
            names[eqn.prim.name] = None
    return tuple(Step(source, tuple(names)) for source, names in lines.items() if names)

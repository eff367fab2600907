"""How far float32 results are from the exact values: eager, and compiled for any machine (the portable variant).

Comes in: how functions are called. Goes out: for each the largest error, in units in the last place (ulp). An
elementwise function is tried on a fixed sample of numbers of all sizes and signs, and its error is counted in ulp of
each exact value; any other is tried on fixed draws of its operands, and counts in ulp of the largest number of its
result. Exact values are NumPy's and SciPy's in float64 where they have the function, else gtensor's evaluator's in
float64. All functions are compiled together, so that one run of the C compiler does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

import gtensor as gt
from docs.operator_calls import OPERANDS, REFERENCES, matrices
from gtensor import ir
from gtensor.codegen import build
from gtensor.codegen.options import Options
from gtensor.config import get
from gtensor.errors import GTensorError
from gtensor.pipeline import fuse, lower, simplify
from gtensor.tensor import Tensor
from gtensor.trace import split_arguments, to_array, trace_call

Array = np.ndarray[Any, Any]
Call = Callable[[Any, Any], Any]

DRAWS = 20
"""How often operands of functions that are not elementwise are drawn."""

POSITIVE = {"addcdiv", "addcmul", "betaln", "digamma", "gammainc", "gammaincc", "lerp", "lgamma", "polygamma"}
"""Elementwise functions that are tried on positive numbers: elsewhere sums cancel, or roots lie between poles."""


def floats(result: Any) -> list[Tensor]:
    """The arrays of floats of a result."""
    leaves = result if isinstance(result, (tuple, list)) else [result]
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.dtype.floating]


def traced(call: Call, x: Any, y: Any) -> ir.Graph | None:
    """The graph of a call, or None where it cannot be traced."""
    try:
        return gt.trace(call, x, y)
    except GTensorError:
        return None


def elementwise(call: Call) -> bool:
    """Whether a call is made of elementwise operations only, so that vectors of any length do."""
    graph = traced(call, gt.spec((7,)), gt.spec((7,)))
    return graph is not None and len(graph.outputs) == 1 and graph.outputs[0].type.shape == (7,) and (
        {eqn.prim.kind for eqn in graph.eqns} == {"elementwise"}
    )  # fmt: skip


def sample(name: str) -> tuple[Array, Array]:
    """Numbers of all sizes and signs as float32, and the same ones in another order."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-6, 6, 1000)
    x = np.concatenate([np.linspace(-10, 10, 801), np.linspace(-1, 1, 401), sizes, -sizes]).astype(np.float32)
    x = np.abs(x) if name in POSITIVE else x
    return x, rng.permutation(x)


def operands(name: str, seed: int) -> tuple[Array, Array]:
    """Operands as a function takes them."""
    x, y = OPERANDS.get(name, matrices)(np.random.default_rng(seed))
    return x.astype(np.float32), y.astype(np.float32)


def reference(name: str) -> Callable[[Array, Array], Array] | None:
    """The exact function of two float64 arrays, of which it may need the first only."""
    found = REFERENCES.get(name) or getattr(np, name, None) or getattr(special, name, None)
    if isinstance(found, np.ufunc):
        return lambda x, y: found(*(x, y)[: found.nin])
    return REFERENCES.get(name)


def distance(got: Array, exact: Array, each: bool) -> float:
    """The largest error in ulp of each exact value, or of the largest; inf where one is no number and the other is."""
    least, most = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
    counted = (np.abs(exact) <= most) & ((np.abs(exact) >= least) | (exact == 0))
    if not counted.any():
        return 0.0
    size = np.abs(exact) if each else np.full(exact.shape, np.abs(exact[counted]).max())
    with np.errstate(all="ignore"):
        ulp = np.spacing(np.maximum(size, least).astype(np.float32)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact)[counted] / ulp[counted]
    return float(np.where(np.isnan(error), np.inf, error).max())


@dataclass(frozen=True)
class Compiled:
    """Calls in one program for any machine: operands by name give results of floats by name."""

    run: Callable[[Mapping[str, tuple[Array, Array]]], dict[str, list[Array]]]

    @staticmethod
    def of(calls: Mapping[str, Call], given: Mapping[str, tuple[Array, Array]]) -> Compiled:
        """The calls compiled for operands like these."""
        counts: dict[str, int] = {}

        def together(given: Mapping[str, tuple[Any, Any]]) -> list[Tensor]:
            found = {name: floats(call(*given[name])) for name, call in calls.items()}
            counts.update((name, len(outs)) for name, outs in found.items())
            return [out for outs in found.values() for out in outs]

        def leaves(given: Mapping[str, tuple[Array, Array]]) -> tuple[Any, Any]:
            return split_arguments(together, (dict(given),), {})

        traced = trace_call(together, *leaves(given))
        key = f"docs/operators.md {ir.text(traced.graph, sources=False)}"
        program = lower(fuse(simplify(traced.graph)))
        library = build.build(program, key, Options(cache=get("cache"), variant="portable"))

        def run(given: Mapping[str, tuple[Array, Array]]) -> dict[str, list[Array]]:
            results = iter(library.call([to_array(x) for x in (*leaves(given)[0], *traced.captured)]))
            return {name: [next(results) for _ in range(count)] for name, count in counts.items()}

        return Compiled(run)


@dataclass(frozen=True)
class Measured:
    """The largest errors of a function, and how much larger they may be where sums are added in another order."""

    eager: float
    compiled: float
    room: float


def errors(calls: Mapping[str, Call]) -> dict[str, Measured]:
    """The errors of the functions that can be traced and give floats."""
    each = {name: call for name, call in calls.items() if elementwise(call)}
    rest = {name: call for name, call in calls.items() if name not in each}
    found = _errors(each, [{name: sample(name) for name in each}], True)
    others = _errors(rest, [{name: operands(name, seed) for name in rest} for seed in range(DRAWS)], False)
    return {name: Measured(*pair, 0.0) for name, pair in found.items()} | {
        name: Measured(*pair, max(0.5, max(pair) / 4)) for name, pair in others.items()
    }


def _errors(
    calls: Mapping[str, Call], draws: Sequence[Mapping[str, tuple[Array, Array]]], each: bool
) -> dict[str, tuple[float, float]]:
    """The largest errors of calls with such operands."""
    counted = {
        name: call
        for name, call in calls.items()
        if (graph := traced(call, *draws[0][name])) and any(out.type.dtype.floating for out in graph.outputs)
    }
    draws = [{name: draw[name] for name in counted} for draw in draws]
    program = Compiled.of(counted, draws[0])
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in counted}
    for draw in draws:
        results = program.run(draw)
        for name, call in counted.items():
            eager = [out.numpy() for out in floats(call(*map(gt.tensor, draw[name])))]
            exact = _exact(name, call, draw[name], each)
            of_eager, of_compiled = (
                max(distance(got, wanted, each) for got, wanted in zip(outs, exact, strict=True))
                for outs in (eager, results[name])
            )
            found[name].append((of_eager, of_compiled))
    return {name: (max(a for a, _ in pairs), max(b for _, b in pairs)) for name, pairs in found.items()}


def _exact(name: str, call: Call, given: tuple[Array, Array], each: bool) -> list[Array]:
    """The results in float64."""
    x, y = (a.astype(np.float64) for a in given)
    known = reference(name) if each else None
    if known is None:
        return [out.numpy() for out in floats(call(gt.tensor(x), gt.tensor(y)))]
    with np.errstate(all="ignore"):
        return [np.asarray(known(x, y), np.float64)]

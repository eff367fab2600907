"""Whether a pass kept the values: both graphs evaluated on the same random inputs.

Comes in: a graph before and after a pass. Goes out: what differs, in words, or nothing. Outputs that
depend on exactly computed operations only must agree to the bit in their own dtype; the others are compared
in float64, where what a pass may change (the layout that a product or sum reads) is far below the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..builder import Builder
from ..errors import GTensorError, IndexingError
from ..interp import Array, concrete, run
from ..ir import Atom, Graph, Lit, Var, lit
from ..types import Dim, DType, Type, float32, float64

TOLERANCE = 1e-6
"""Of values computed in float64, relative to the largest; literals folded in float32 differ by 1e-8."""

EXTENT = 3
"""The value that run-time extents get, as far as their bound allows."""


def changed_value(before: Graph, after: Graph, seed: int = 0) -> str:
    """How the outputs of two graphs differ on random inputs; empty where they agree.

    Where the first graph refuses the inputs (an index out of range), nothing can be compared.
    """
    rng = np.random.default_rng(seed)
    drawn = [random_array(var.type, rng) for var in before.inputs]
    smallest = [np.zeros_like(array) if array.dtype.kind in "iu" else array for array in drawn]
    exact = exact_outputs(before)
    for bits in set(exact):
        first, second = (before, after) if bits else (in_float64(before), in_float64(after))
        accepted = _first_accepted(first, (drawn, smallest))
        if accepted is None:
            continue
        inputs, old = accepted
        try:
            new = run(second, inputs)
        except GTensorError as error:
            return f"it can no longer be evaluated: {error.message}"
        for i, name in enumerate(before.output_names or map(str, range(len(exact)))):
            fault = difference(old[i], new[i], 0.0 if bits else TOLERANCE) if exact[i] == bits else ""
            if fault:
                return f"output {name}: {fault}"
    return ""


def _first_accepted(graph: Graph, choices: Sequence[list[Array]]) -> tuple[list[Array], list[Array]] | None:
    """The first inputs for which no index is out of range, and the outputs for them."""
    for inputs in choices:
        try:
            return inputs, run(graph, inputs)
        except IndexingError:
            continue
    return None


def random_array(type: Type, rng: np.random.Generator) -> Array:
    """An array of that type: floats around 0, integers and bool 0 or 1, which most indexing allows."""
    dims = {n.name: min(EXTENT, n.bound) for n in type.shape if isinstance(n, Dim)}
    shape = concrete(type.shape, dims)
    drawn: Array = rng.uniform(-2, 2, shape) if type.dtype.floating else rng.integers(0, 2, shape)
    return np.asarray(drawn, type.dtype.dtype)


def difference(old: Array, new: Array, tolerance: float = 0.0) -> str:
    """How two arrays differ: in bits, or by more than the tolerance times the largest; empty where they agree."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{old.dtype}{list(old.shape)} became {new.dtype}{list(new.shape)}"
    if old.dtype.kind != "f":
        bad = old != new
    else:
        finite = np.isfinite(old) & np.isfinite(new)
        slack = tolerance * np.max(np.abs(old), where=finite, initial=1.0)
        with np.errstate(invalid="ignore"):
            far = np.abs(new - old) > slack if tolerance else (old != new) | (np.signbit(old) != np.signbit(new))
            bad = np.where(finite, far, (old != new) & ~(np.isnan(old) & np.isnan(new)))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"element {list(at)} was {old[at]} and became {new[at]}"


def exact_outputs(graph: Graph) -> list[bool]:
    """Which outputs depend on exact operations only.

    A float result of a reduction counts as inexact: its sign of zero depends on the order of equal elements.
    """
    inexact: set[Atom] = set()
    for eqn in graph.eqns:
        folds = eqn.prim.kind == "reduce" and any(var.type.dtype.floating for var in eqn.outs)
        if not eqn.prim.exact or folds or not inexact.isdisjoint(eqn.ins):
            inexact.update(eqn.outs)
    return [atom not in inexact for atom in graph.outputs]


def in_float64(graph: Graph) -> Graph:
    """The same graph with every float32 a float64, inside parameters and bodies too."""
    builder = Builder(graph.name)
    env: dict[Var, Atom] = {v: builder.input(_wide_type(v.type), v.hint) for v in graph.inputs}

    def read(atom: Atom) -> Atom:
        return lit(atom.value, _wide_type(atom.type)) if isinstance(atom, Lit) else env[atom]

    for eqn in graph.eqns:
        params = {name: _wide_param(value) for name, value in eqn.params.items()}
        outs = builder.bind_all(eqn.prim, list(map(read, eqn.ins)), params, eqn.source, [v.hint for v in eqn.outs])
        env.update(zip(eqn.outs, outs, strict=True))
    return builder.finish(list(map(read, graph.outputs)), graph.output_names)


def _wide(dtype: DType) -> DType:
    return float64 if dtype == float32 else dtype


def _wide_type(type: Type) -> Type:
    return Type(type.shape, _wide(type.dtype), type.weak)


def _wide_param(value: Any) -> Any:
    if isinstance(value, DType):
        return _wide(value)
    if isinstance(value, Graph):
        return in_float64(value)
    return tuple(map(_wide_param, value)) if isinstance(value, tuple) else value

"""The reference evaluator: a graph run equation by equation with the NumPy rules of its primitives.

This is the meaning of every graph; compiled code is held against it. Comes in: a graph and one array per
input. Goes out: one array per output. Floating-point warnings are silent, as in compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import GTensorError, InternalError, ShapeError
from .ir import Atom, Graph, Lit, Var
from .types import Dim, Type

Array = np.ndarray[Any, Any]


def run(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a graph for these inputs; raises ShapeError where an input does not fit its type."""
    if len(arrays) != len(graph.inputs):
        raise ShapeError(f"{graph.name} takes {len(graph.inputs)} arrays, not {len(arrays)}")
    dims: dict[str, int] = {}
    env: dict[Var, Array] = {}
    for var, array in zip(graph.inputs, arrays, strict=True):
        match_dims(var.type, np.shape(array), dims, var.hint)
        env[var] = np.asarray(array, var.type.dtype.dtype)

    def read(atom: Atom) -> Array:
        return np.asarray(atom.value) if isinstance(atom, Lit) else env[atom]

    for eqn in graph.eqns:
        with np.errstate(all="ignore"):
            try:
                result = eqn.prim.numpy(*map(read, eqn.ins), **concrete_params(eqn.params, dims))
            except GTensorError as error:
                error.during(eqn.prim.name).at(eqn.source)
                raise
        values = result if isinstance(result, tuple) else (result,)
        for out, value in zip(eqn.outs, values, strict=True):
            array = np.asarray(value)
            if array.shape != concrete(out.type.shape, dims):
                raise InternalError(f"{eqn.prim.name} gave shape {array.shape} for {out.type}", sources=eqn.source)
            env[out] = array.astype(out.type.dtype.dtype, copy=False)
    return [np.array(read(atom)) for atom in graph.outputs]


def match_dims(type: Type, shape: tuple[int, ...], dims: dict[str, int], name: str) -> None:
    """Read run-time extents off an input's shape into `dims`; raises ShapeError where it does not fit."""
    fits = len(shape) == type.ndim
    for declared, given in zip(type.shape, shape, strict=False):
        if isinstance(declared, Dim):
            value = dims.setdefault(declared.name, given // declared.factor)
            fits &= declared.at(value) == given and value <= declared.bound
        else:
            fits &= declared == given
    if not fits:
        raise ShapeError(f"{name or 'an input'} must be {type}, not of shape {shape}")


def concrete(shape: Sequence[int | Dim], dims: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with its run-time extents replaced by their values."""
    return tuple(n.at(dims[n.name]) if isinstance(n, Dim) else n for n in shape)


def concrete_params(params: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
    """Parameters with run-time extents replaced by their values."""

    def replace(value: Any) -> Any:
        if isinstance(value, Dim):
            return value.at(dims[value.name])
        return tuple(map(replace, value)) if isinstance(value, tuple) else value

    return {k: replace(v) for k, v in params.items()} if dims else dict(params)

"""The ways in which a function can run, and the law that they agree.

`agreed` runs a function eagerly, traced by the evaluator, and compiled, holds the results against each
other, and gives the eager ones as NumPy arrays in the structure the function returned; `derivatives` does so with
the derivatives of a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gtensor as gt
from gtensor import tree
from gtensor.interp import run as evaluate
from gtensor.tensor import as_tensor
from gtensor.trace import split_arguments, to_array, trace_call


def evaluated(fn: Callable[..., Any], *args: Any) -> Any:
    """The function traced, its graph run by the reference evaluator."""
    leaves, signature = split_arguments(fn, args, {})
    traced = trace_call(fn, leaves, signature)
    given = [to_array(leaf) for leaf, type_ in zip(leaves, signature.types, strict=True) if type_ is not None]
    outs = evaluate(traced.graph, [*given, *map(to_array, traced.captured)])
    return tree.unflatten(traced.out_structure, outs)


def eager(fn: Callable[..., Any], *args: Any) -> Any:
    """The function run on concrete tensors."""
    return tree.map_leaves(lambda leaf: as_tensor(leaf).numpy(), fn(*tree.map_leaves(as_tensor, args)))


def compiled(fn: Callable[..., Any], *args: Any) -> Any:
    """The function compiled and called."""
    return tree.map_leaves(lambda leaf: as_tensor(leaf).numpy(), gt.compile(fn)(*args))


def agreed(fn: Callable[..., Any], *args: Any, rtol: float = 1e-6, atol: float = 1e-7) -> Any:
    """The eager result, which the others must equal within rounding (NaN and infinities exactly)."""
    result = eager(fn, *args)
    for other in (evaluated, compiled):
        leaves, structure = tree.flatten(other(fn, *args))
        expected, same = tree.flatten(result)
        assert structure == same
        for a, b in zip(leaves, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    return result


def derivatives(fn: Callable[..., Any], x: Any, upto: int = 2, *, rtol: float = 1e-10, atol: float = 1e-12) -> Any:
    """The derivatives of order 1 to `upto` of an elementwise function in float64, in which all ways agree."""
    chain = [fn]
    for _ in range(upto):
        chain.append(gt.grad(lambda x, f=chain[-1]: gt.sum(f(x))))
    return agreed(lambda x: [f(x) for f in chain[1:]], np.array(x, np.float64), rtol=rtol, atol=atol)

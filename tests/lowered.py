"""Run a function through fusion, lowering and C, without the API: for tests of those stages.

`check(fn, *args)` compares the compiled outputs with the evaluator's and gives the program, so that a
test can also look at what was made. Floats may differ by rounding in sums and products; `exact=True`
asks for equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import gtensor as gt
from gtensor import ir
from gtensor.codegen import build
from gtensor.codegen.library import Library
from gtensor.codegen.options import Options
from gtensor.codegen.program import Program
from gtensor.config import get
from gtensor.fuse import fuse
from gtensor.interp import run as evaluate
from gtensor.lower import lower
from gtensor.passes import simplify
from gtensor.trace import Traced, split_arguments, to_array, trace_call


def traced(fn: Callable[..., Any], *args: Any) -> tuple[Traced, list[Any]]:
    """The trace of a call and the leaves of its arguments."""
    leaves, signature = split_arguments(fn, args, {})
    return trace_call(fn, leaves, signature), leaves


def library(program: Program, key: str) -> Library:
    """The compiled program."""
    return build.build(program, key, Options(cache=get("cache")))


def compiled(
    fn: Callable[..., Any],
    *args: Any,
    state: Mapping[int, int] | None = None,
    alias: Mapping[int, int] | None = None,
    loss: int | None = None,
) -> tuple[Traced, Program, Library]:
    """A function, its program and its library, for the types of these arguments."""
    trace, _ = traced(fn, *args)
    graph = simplify(trace.graph)
    program = lower(fuse(graph), state=state, alias=alias, loss=loss)
    key = f"{ir.text(trace.graph, sources=False)} {state} {alias} {loss}"
    return trace, program, library(program, key)


def arrays(trace: Traced, leaves: list[Any]) -> list[np.ndarray]:
    """The arrays of a call: its leaves and what was captured."""
    return [to_array(x) for x in (*leaves, *trace.captured)]


def check(fn: Callable[..., Any], *args: Any, exact: bool = False, rtol: float = 2e-5) -> Program:
    """Compare a compiled function with the evaluator; gives the program."""
    trace, program, made = compiled(fn, *args)
    _, leaves = traced(fn, *args)
    given = arrays(trace, leaves)
    expected = evaluate(trace.graph, given)
    got = made.call(given)
    for wanted, value in zip(expected, got, strict=True):
        assert wanted.shape == value.shape and wanted.dtype == value.dtype
        if exact or wanted.dtype.kind != "f":
            np.testing.assert_array_equal(value, wanted)
        else:
            size = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
            np.testing.assert_allclose(value, wanted, rtol=rtol, atol=rtol * float(size))
    return program


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


__all__ = ["arrays", "check", "compiled", "gt", "library", "normal", "traced"]

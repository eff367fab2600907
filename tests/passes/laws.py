"""The contract of a pass, and single rewrites as text.

`check_laws(run, graph)` holds a pass to its contract on one graph. `left(run, fn, *types)` traces a
function, checks the laws, and gives the equations that the outputs need after the pass, as lines.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import IndexingError
from gtensor.interp import run as evaluate
from gtensor.ir import Graph, text
from gtensor.passes.dce import dce
from gtensor.passes.verify import changed_value, difference, exact_outputs
from gtensor.tensor import Tensor, apply
from gtensor.trace import Spec
from gtensor.types import Shape, Type, as_dtype

from .graphs import B, awkward

DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8", "b1": "bool"}


def same_values(before: Graph, after: Graph, seed: int) -> None:
    """Equal bits on awkward inputs where all is exact; close values on ordinary ones elsewhere."""
    assert changed_value(before, after, seed) == ""
    inputs = awkward(before, seed)
    try:
        expected = evaluate(before, inputs)
    except IndexingError:
        return
    for exact, old, new in zip(exact_outputs(before), expected, evaluate(after, inputs), strict=True):
        assert not exact or difference(old, new) == ""


def check_laws(run: Callable[[Graph], Graph], graph: Graph, seed: int = 0) -> Graph:
    """The graph after a pass, which has kept its contract."""
    shown, eqns = text(graph), graph.eqns
    result = run(graph)
    assert text(graph) == shown and all(a is b for a, b in zip(graph.eqns, eqns, strict=True)), "the graph was changed"
    assert [(v.type, v.hint) for v in result.inputs] == [(v.type, v.hint) for v in graph.inputs]
    assert [a.type for a in result.outputs] == [a.type for a in graph.outputs]
    check_graph(result)
    assert run(result) is result, "twice is not once"
    assert result is graph or text(result) != shown, "unchanged is not the same object"
    same_values(graph, result, seed)
    return result


def extents(shape: Sequence[int | str]) -> Shape:
    """A shape in which "B" is a run-time extent."""
    return tuple(B if n == "B" else int(n) for n in shape)


def spec(type_: str) -> Spec:
    """The argument of a type as it is printed, such as `f32[2,3]` or `i64[B]`."""
    match = re.fullmatch(r"(\w+)\[(.*)\]", type_)
    assert match is not None
    return Spec(Type(extents([n for n in match[2].split(",") if n]), as_dtype(DTYPES[match[1]])))


def left(run: Callable[[Graph], Graph], fn: Callable[..., Any], *types: str) -> list[str]:
    """The lines of the graph of `fn` for inputs of these types, after a pass; the last is `return …`."""
    result = dce(check_laws(run, gt.trace(fn, *map(spec, types))))
    return [line.strip() for line in text(result, sources=False).splitlines()[1:]]


def left_inside(run: Callable[[Graph], Graph], fn: Callable[..., Any], *types: str) -> list[str]:
    """`left` for a value that is no output: it is written twice side by side, which no rule sees through."""

    @functools.wraps(fn)
    def twice(*args: Any) -> Tensor:
        out = fn(*args)
        return apply("concat", out, out, axis=out.ndim - 1)

    *lines, last, _ = left(run, twice, *types)
    match = re.search(r"concat\((\w+), \1,", last)
    assert match is not None
    return [*lines, f"return {match[1]}"]


def op(name: str, *operands: Any, **params: Any) -> Tensor:
    """A primitive bound as it is, which the public functions may do in another way."""
    return apply(name, *operands, **params)

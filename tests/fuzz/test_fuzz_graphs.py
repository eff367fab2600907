"""Random functions: traced, batched and compiled they are what they are eagerly, and so are their derivatives.

Laws: exact operations keep every bit; in float32 the compiled error against float64 is at most four times the
evaluator's own plus four units in the last place; derivatives are the differences; graphs are canonical.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import gtensor as gt
from gtensor import interp
from gtensor.builder import rebuild
from gtensor.check import check_graph
from gtensor.ir import text
from gtensor.trace import split_arguments, to_array, trace_call
from tests.op_table import same_bits
from tests.random_graphs import BATCH, BOUND, Recipe, recipes

EXTENTS = (BATCH, 1, BOUND)
TOGETHER = 6
"""Recipes compiled as one function, which spares the compiler's start."""


def evaluated(recipe: Recipe, arrays, specs) -> list[np.ndarray]:
    """The reference evaluator on the recipe's graph."""
    leaves, signature = split_arguments(recipe, tuple(specs), {})
    traced = trace_call(recipe, leaves, signature)
    return interp.run(traced.graph, [*arrays, *map(to_array, traced.captured)])


def equal(recipe: Recipe, found, expected) -> None:
    """The same bits, but for products, whose rounding depends on the operands' memory."""
    for a, b in zip(found, expected, strict=True):
        if "matmul" in recipe.body:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        else:
            assert same_bits(a, b)


@settings(max_examples=2 * settings.default.max_examples)
@given(recipe=recipes("float") | recipes("exact"))
def test_traced_is_eager(recipe):
    equal(recipe, evaluated(recipe, recipe.arrays, recipe.specs()), recipe.eager())


@given(recipe=recipes("float", batch=True) | recipes("exact", batch=True))
def test_a_run_time_extent_may_have_any_value(recipe):
    for extent in EXTENTS:
        arrays = recipe.resized(extent)
        equal(recipe, evaluated(recipe, arrays, recipe.specs()), recipe.eager(arrays))


@given(recipe=recipes("float") | recipes("float", batch=True))
def test_graphs_are_canonical(recipe):
    first, second = (gt.trace(recipe, *recipe.specs()) for _ in range(2))
    assert text(first, sources=False) == text(second, sources=False)
    assert rebuild(first) is first
    check_graph(first)


@given(recipe=recipes("smooth"))
def test_derivatives_are_the_differences(recipe):
    gt.check_grads(lambda *xs: recipe(*xs, F="float64"), recipe.arrays)


@settings(max_examples=max(1, settings.default.max_examples // 4))
@given(recipe=recipes("smooth", lines=6))
def test_second_derivatives_are_the_differences(recipe):
    gt.check_grads(lambda *xs: recipe(*xs, F="float64"), recipe.arrays, order=2)


# ---- compiled ----------------------------------------------------------------------------------------------

COMPILED = settings(max_examples=max(1, 2 * settings.default.max_examples // TOGETHER))


def several(kind: str, batch: bool = False, lines: int = 14):
    return st.lists(recipes(kind, batch=batch, lines=lines), min_size=TOGETHER, max_size=TOGETHER)


def run_all(functions):
    """The functions, each with its own arguments, as one."""
    return lambda rows: [fn(*row) for fn, row in zip(functions, rows, strict=True)]


@COMPILED
@given(batch=several("exact"))
def test_compiled_exact_operations_keep_every_bit(batch):
    found = gt.compile(run_all(batch))([list(r.arrays) for r in batch])
    for recipe, results in zip(batch, found, strict=True):
        for a, b in zip(results, recipe.eager(), strict=True):
            assert same_bits(a.numpy(), b), recipe


def hold(recipe: Recipe, found, expected, exact) -> None:
    """A compiled float32 result is nearly as close to the float64 one as the evaluator's is."""
    for a, b, c in zip(found, expected, exact, strict=True):
        if b.dtype.kind != "f":
            assert same_bits(a, b), recipe
        elif b.size:
            eps = np.finfo(b.dtype).eps
            own, error = (np.abs(x - c).max() for x in (b, a))
            assert error <= 4 * own + 4 * eps * np.abs(c).max(), (recipe, a, b, c)


@COMPILED
@given(batch=several("float"))
def test_compiled_is_as_accurate_as_evaluated(batch):
    found = gt.compile(run_all(batch))([list(r.arrays) for r in batch])
    for recipe, results in zip(batch, found, strict=True):
        hold(recipe, [r.numpy() for r in results], recipe.eager(), recipe.eager(recipe.wide, F="float64"))


@settings(max_examples=max(1, settings.default.max_examples // TOGETHER // 2))
@given(batch=several("float", batch=True))
def test_compiled_takes_any_run_time_extent(batch):
    compiled = gt.compile(run_all(batch)).trace([r.specs() for r in batch]).lower().compile()
    for extent in EXTENTS:
        rows = [r.resized(extent) for r in batch]
        for recipe, row, results in zip(batch, rows, compiled([list(row) for row in rows]), strict=True):
            wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in row]
            hold(recipe, [r.numpy() for r in results], recipe.eager(row), recipe.eager(wide, F="float64"))


@settings(max_examples=max(1, settings.default.max_examples // TOGETHER))
@given(batch=several("smooth", lines=8))
def test_compiled_derivatives_are_the_evaluated_ones(batch):
    def gradient(recipe):
        def loss(*xs):
            return sum(gt.sum(gt.sin(out)) for out in recipe(*xs, F="float64") if out.dtype.floating)

        return gt.grad(loss, tuple(i for i, a in enumerate(recipe.arrays) if a.dtype.kind == "f"))

    functions = [gradient(recipe) for recipe in batch]
    rows = [list(recipe.arrays) for recipe in batch]
    for recipe, fn, row, found in zip(batch, functions, rows, gt.compile(run_all(functions))(rows), strict=True):
        for a, b in zip(found, fn(*row), strict=True):
            size = np.abs(b.numpy()).max(initial=0.0)
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-11 * size, err_msg=repr(recipe))

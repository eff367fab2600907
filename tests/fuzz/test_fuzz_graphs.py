"""Random functions: traced, batched and compiled they are what they are eagerly, and so are their derivatives.

Laws: exact operations keep every bit; in float32 the compiled error against float64 is at most four times the
evaluator's own plus four units in the last place; derivatives are the differences; graphs are canonical.
"""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

import gtensor as gt
from gtensor.builder import rebuild
from gtensor.check import check_graph
from gtensor.interp import run as evaluate
from gtensor.ir import text
from gtensor.trace import split_arguments, to_array, trace_call
from tests.op_table import same_bits
from tests.random_graphs import BATCH, BOUND, Recipe, recipes, widened

EXTENTS = (BATCH, 1, BOUND)


def evaluated(recipe: Recipe, arrays, specs) -> list[np.ndarray]:
    """The reference evaluator on the recipe's graph."""
    leaves, signature = split_arguments(recipe, tuple(specs), {})
    traced = trace_call(recipe, leaves, signature)
    return evaluate(traced.graph, [*arrays, *map(to_array, traced.captured)])


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

TOGETHER = 6
"""Recipes compiled as one function, which spares the compiler's start."""


def compiled(share: float):
    """Settings for so many examples in proportion; what fails is not made smaller, each try being a compilation."""
    count = max(1, int(share * settings.default.max_examples) // TOGETHER)
    return settings(max_examples=count, phases=[Phase.explicit, Phase.reuse, Phase.generate])


def several(kind: str, batch: bool = False, lines: int = 14):
    return st.lists(recipes(kind, batch=batch, lines=lines), min_size=TOGETHER, max_size=TOGETHER)


def run_compiled(functions, rows, specs=None):
    """The results of the functions, compiled as one; if that fails, the one that fails by itself is noted."""
    try:
        made = gt.compile(lambda rows: [fn(*row) for fn, row in zip(functions, rows, strict=True)])
        run = made if specs is None else made.trace(specs).lower().compile()
        return [run([list(row) for row in each]) for each in rows]
    except gt.errors.GTensorError:
        for fn, row in zip(functions, rows[0], strict=True):
            try:
                gt.compile(lambda xs, fn=fn: fn(*xs))(list(row))
            except gt.errors.GTensorError:
                note(f"this one fails alone:\n{fn!r}")
                raise
        raise


@compiled(2)
@given(batch=several("exact"))
def test_compiled_exact_operations_keep_every_bit(batch):
    (found,) = run_compiled(batch, [[r.arrays for r in batch]])
    for recipe, results in zip(batch, found, strict=True):
        for a, b in zip(results, recipe.eager(), strict=True):
            assert same_bits(a.numpy(), b), recipe


def hold(recipe: Recipe, found, expected, exact) -> None:
    """A compiled float32 result is nearly as close to the float64 one as the evaluator's is."""
    for a, b, c in zip(found, expected, exact, strict=True):
        if b.dtype.kind != "f":
            assert same_bits(a.numpy(), b), recipe
        elif b.size:
            eps = np.finfo(b.dtype).eps
            own, error = (np.abs(x - c).max() for x in (b, a.numpy()))
            assert error <= 4 * own + 4 * eps * np.abs(c).max(), (recipe, a, b, c)


@compiled(2)
@given(batch=several("float"))
def test_compiled_is_as_accurate_as_evaluated(batch):
    (found,) = run_compiled(batch, [[r.arrays for r in batch]])
    for recipe, results in zip(batch, found, strict=True):
        hold(recipe, results, recipe.eager(), recipe.eager(recipe.wide, F="float64"))


@compiled(0.5)
@given(batch=several("float", batch=True))
def test_compiled_takes_any_run_time_extent(batch):
    rows = [[r.resized(extent) for r in batch] for extent in EXTENTS]
    for arrays, found in zip(rows, run_compiled(batch, rows, [r.specs() for r in batch]), strict=True):
        for recipe, row, results in zip(batch, arrays, found, strict=True):
            hold(recipe, results, recipe.eager(row), recipe.eager(widened(row), F="float64"))


def gradient(recipe: Recipe):
    """The gradient of a smooth function of all results by all floating-point arguments."""

    def loss(*xs):
        outs = map(gt.asarray, recipe(*xs, F="float64"))
        return sum((gt.sum(gt.sin(out)) for out in outs if out.dtype.floating), gt.sum(xs[0]))

    return gt.grad(loss, tuple(i for i, a in enumerate(recipe.arrays) if a.dtype.kind == "f"))


def hold_gradients(batch, rows, found) -> None:
    """Compiled float64 gradients are the eager ones, to what rounding and order of sums leave."""
    for recipe, row, results in zip(batch, rows, found, strict=True):
        for a, b in zip(results, gradient(recipe)(*row), strict=True):
            size = np.abs(b.numpy()).max(initial=1.0)
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12 * size, err_msg=repr(recipe))


@compiled(1)
@given(batch=several("smooth", lines=8))
def test_compiled_derivatives_are_the_evaluated_ones(batch):
    rows = [recipe.arrays for recipe in batch]
    (found,) = run_compiled(list(map(gradient, batch)), [rows])
    hold_gradients(batch, rows, found)


@compiled(0.5)
@given(batch=several("smooth", batch=True, lines=8))
def test_compiled_derivatives_take_any_run_time_extent(batch):
    rows = [[r.resized(extent) for r in batch] for extent in EXTENTS]
    found = run_compiled(list(map(gradient, batch)), rows, [r.specs() for r in batch])
    for each, results in zip(rows, found, strict=True):
        hold_gradients(batch, each, results)

"""Every primitive against its own record, over the registry: no edit is needed when an operation is added.

Types against the NumPy rule, values against float64 and Python's math, difficult values and difficult
memory through the evaluator, derivatives of both orders against differences, batch rules against a loop,
what loops the record describes against what the rule computes, and simplification against none.
"""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor.codegen.cexpr import REDUCERS, Expr
from gtensor.codegen.ctext import VARIABLES
from gtensor.interp import run as evaluate
from gtensor.prim import REGISTRY, Placement
from gtensor.types import as_dtype, finfo_of, type_of
from tests.op_table import (
    DIFFERENTIABLE,
    FLOATS,
    TABLE,
    awkward,
    batch_of,
    layouts,
    operands,
    same_bits,
    special,
)

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
every = pytest.mark.parametrize("entry", TABLE, ids=str)


def kinds(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", [e for e in TABLE if e.prim.kind in names and not e.widened], ids=str)


@pytest.mark.parametrize("prim", REGISTRY.values(), ids=lambda p: p.name)
def test_a_record_is_complete(prim):
    assert prim.doc.endswith(".")
    if prim.kind == "loop":  # its operands are bodies: tests/test_scan.py, test_control.py and test_checkpoint.py
        assert prim.vjp is not None
        return
    assert prim.samples and prim.batch
    assert (prim.vjp is not None) or not any(s.grad for s in prim.samples)
    assert not (prim.zero and any(s.grad for s in prim.samples))
    assert (prim.strides is not None) == (prim.kind == "view")
    if prim.kind in ("gather", "scatter", "assemble", "source", "along"):
        assert prim.place is not None
    if prim.kind in ("reduce", "scatter"):
        assert prim.c["*"] in REDUCERS
    if prim.kind == "elementwise":
        assert all(prim.c_for(e.dtype) for e in TABLE if e.prim is prim)


# ---- types and values --------------------------------------------------------------------------------------


@every
def test_the_type_rule_gives_what_numpy_gives(entry):
    arrays = operands(entry)
    expected = type_of(entry.numpy(*arrays))
    assert entry.prim.type(*map(type_of, arrays), **entry.sample.params) == expected
    assert entry.call(*arrays).type == expected


@every
def test_eager_and_traced_agree_on_difficult_values(entry):
    for arrays in awkward(entry):
        expected = entry.numpy(*arrays)
        assert same_bits(entry.call(*arrays).numpy(), expected)
        assert same_bits(entry.interpreted(*arrays), expected)


@every
def test_memory_order_changes_nothing(entry):
    """But for the rounding of BLAS products, which depends on how the operands are stored."""
    arrays = operands(entry)
    expected = entry.numpy(*arrays)
    for moved in zip(*map(layouts, arrays), strict=True):
        copies = [a.copy() for a in moved]
        for found in (entry.call(*moved).numpy(), entry.interpreted(*moved)):
            if entry.prim.kind == "contract":
                rtol = 2 * float(finfo_of(entry.dtype).eps) if entry.dtype.stored else 1e-5
                np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=rtol, atol=1e-5)
            else:
                assert same_bits(found, expected)
        assert all(map(same_bits, moved, copies))


OF_ITS_OWN_DTYPE = {"nextafter"}
"""What the neighbour of a number is depends on the dtype."""

NARROW = [e for e in FLOATS if e.dtype is gt.float32 and e.prim.name not in OF_ITS_OWN_DTYPE]

ROUTINE = 40
"""Roundings of the largest element that a routine's result may be off, on samples of a few rows."""


@pytest.mark.parametrize("entry", NARROW, ids=str)
def test_float32_is_float64_rounded(entry):
    """Elementwise to one unit in the last place; sums and products to half a unit per term, the worst case;
    routines on their well-conditioned samples to a few units of the largest element."""
    eps = np.finfo(np.float32).eps
    if entry.prim.kind == "routine":
        found, exact = entry.numpy(*operands(entry)), entry.numpy(*(a.astype(np.float64) for a in operands(entry)))
        np.testing.assert_allclose(found, exact, rtol=0, atol=ROUTINE * eps * np.abs(exact).max(initial=1))
        return
    for arrays in [operands(entry), *(awkward(entry) if entry.prim.kind == "elementwise" else ())]:
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
        found, exact = entry.numpy(*arrays), entry.numpy(*wide)
        with np.errstate(all="ignore"):
            rounded = exact.astype(found.dtype)
            if found.dtype != np.float32:
                assert same_bits(found, rounded)
            elif entry.prim.exact:
                ulps = np.spacing(np.abs(rounded))
                close = (np.abs(found - rounded) <= ulps) | (found == rounded) | (np.isnan(found) & np.isnan(rounded))
                assert close.all() and np.array_equal(np.signbit(found)[found == 0], np.signbit(rounded)[found == 0])
            elif entry.prim.kind == "elementwise":
                assert same_bits(found, rounded)
            else:
                scale = entry.numpy(*(np.abs(a) if a.dtype.kind == "f" else a for a in wide))
                terms = max(a.size for a in arrays)
                assert (np.abs(found - exact) <= 0.5 * eps * terms * scale).all()


NAMED_OTHERWISE = {"remainder"}
"""Python's math.remainder is another function."""
LESS_EXACT = {"lgamma"}
"""Python's math.lgamma loses digits near its zeros (test_special.py compares with mpmath)."""

SCALAR = [e for e in FLOATS if e.prim.kind == "elementwise" and e.dtype is gt.float64]
IN_MATH = [e for e in SCALAR if hasattr(math, e.prim.name) and e.prim.name not in NAMED_OTHERWISE | LESS_EXACT]


@pytest.mark.parametrize("entry", IN_MATH, ids=str)
def test_values_are_those_of_python_s_math(entry):
    """To four units in the last place, between two libraries."""
    function = getattr(math, entry.prim.name)
    arrays = operands(entry)
    expected = np.array([function(*map(float, row)) for row in zip(*(a.ravel() for a in arrays), strict=True)])
    np.testing.assert_allclose(entry.numpy(*arrays).ravel(), expected, rtol=8.9e-16, atol=0)


# ---- derivatives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=str)
def test_derivatives_of_both_orders_are_the_differences(entry):
    """Operands that are indices or conditions are passed on by check_grads as they are."""
    gt.check_grads(entry.call, operands(entry), order=2, rtol=1e-6)


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=str)
def test_derivatives_traced_are_those_evaluated(entry):
    arrays = operands(entry)
    numbers = tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f")
    weights = np.random.default_rng(3).uniform(0.5, 1.5, entry.numpy(*arrays).shape)
    gradient = gt.grad(lambda *xs: gt.sum(entry.call(*xs) * weights), numbers)
    second = gt.grad(lambda *xs: gt.sum(gradient(*xs)[0] ** 2), numbers)
    for fn in (gradient, second):
        graph = gt.trace(fn, *(gt.spec(a.shape, a.dtype) for a in arrays))
        captured = [weights] * (len(graph.inputs) - len(arrays))
        found = evaluate(graph, [*arrays, *captured])
        for a, b in zip(found, fn(*arrays), strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-12, atol=1e-12)


FLAT = [e for e in FLOATS if e.prim.zero and e.sample.inputs and e.sample.inputs[0].dtype is None]


@pytest.mark.parametrize("entry", FLAT, ids=str)
def test_no_gradient_flows_where_the_record_says_zero(entry):
    arrays = operands(entry)
    found = gt.grad(lambda x: gt.sum(gt.astype(entry.call(x, *arrays[1:]), "float64")))(arrays[0])
    assert not found.numpy().any()


# ---- batches -----------------------------------------------------------------------------------------------


def batch_axes(count: int) -> list[tuple[int | None, ...]]:
    """Each operand alone and all together, with the batch axis in front (0) or at the end (-1)."""
    return [axes for axes in itertools.product((None, 0, -1), repeat=count) if any(a is not None for a in axes)]


@pytest.mark.parametrize("entry", [e for e in TABLE if e.sample.inputs], ids=str)
def test_the_batch_rule_is_a_loop(entry):
    size = 3
    single = operands(entry)
    stacked = [batch_of(i, entry.dtype, size) for i in entry.sample.inputs]
    for axes in batch_axes(len(single)) if len(single) < 3 else [(0,) * 3, (-1,) * 3, (None, 0, 0), (0, None, -1)]:
        places = [None if a is None else a % (x.ndim + 1) for a, x in zip(axes, single, strict=True)]
        args = [
            gt.tensor(x if a is None else np.moveaxis(s, 0, a)) for a, x, s in zip(places, single, stacked, strict=True)
        ]
        out, axis = entry.prim.batch(args, places, **entry.sample.params)
        columns = [[x] * size if a is None else s for a, x, s in zip(places, single, stacked, strict=True)]
        expected = np.stack([entry.numpy(*row) for row in zip(*columns, strict=True)])
        found = np.moveaxis(out.numpy(), axis, 0)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        if entry.prim.exact:
            assert same_bits(found, expected)
        else:
            rtol = 2 * float(finfo_of(entry.dtype).eps) if entry.dtype.stored else 1e-5
            np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=1e-6)


# ---- what loops the record describes -----------------------------------------------------------------------


@kinds("view")
def test_strides_describe_the_view(entry):
    """On an operand that is dense, and on one that is itself a view; None means that it must be copied."""
    (array,) = operands(entry)
    type_ = type_of(array)
    out = entry.prim.type(type_, **entry.sample.params)
    described = 0
    for held in (np.ascontiguousarray(array), np.asfortranarray(array)):
        strides = tuple(s // array.itemsize for s in held.strides) if array.ndim else ()
        found = entry.prim.strides(type_, strides, 0, out, **entry.sample.params)
        if found is None:
            continue
        described += 1
        flat = held.ravel(order="K")
        places = np.full(out.shape, found[1], np.int64)
        for i, stride in enumerate(found[0]):
            places += (np.arange(out.shape[i]) * stride).reshape([-1 if k == i else 1 for k in range(out.ndim)])
        assert same_bits(flat[places], entry.numpy(array))
    assert described, "a dense operand is always a view"


def positions(indexing, space: tuple[int, ...], index: np.ndarray, big: np.ndarray):
    """For each element of the loop space, the element of the big operand that the record addresses."""
    for at in np.ndindex(space):
        chosen = int(index[tuple(at[a] for a in indexing.index_axes)]) % big.shape[indexing.axis]
        yield at, tuple(chosen if a is None else at[a] for a in indexing.axes)


FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "last": lambda old, new: new}
"""How a scatter meets what is there, by the name of its reducer."""


@kinds("gather", "scatter")
def test_places_describe_the_indexing(entry):
    big, index, *values = operands(entry)
    types = map(type_of, (big, index, *values))
    indexing = entry.prim.place(*types, **entry.sample.params)
    expected = entry.numpy(big, index, *values)
    found = big.copy() if values else np.empty_like(expected)
    space = values[0].shape if values else expected.shape
    for at, place in positions(indexing, space, index, big):
        if values:
            found[place] = FOLDS[entry.prim.c["*"]](found[place], values[0][at])
        else:
            found[at] = big[place]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@kinds("assemble", "source")
def test_places_describe_what_is_written(entry):
    arrays = operands(entry)
    expected = entry.numpy(*arrays)
    place = entry.prim.place(*map(type_of, arrays), **entry.sample.params)
    if isinstance(place, Placement):
        found = np.zeros_like(expected) if place.fill is None else np.full_like(expected, place.fill)
        for array, (start, step) in zip(arrays, place.pieces, strict=True):
            for at in np.ndindex(array.shape):
                found[tuple(a + k * i for a, k, i in zip(start, step, at, strict=True))] = array[at]
    else:
        found = np.indices(expected.shape)[place].astype(expected.dtype)
    assert same_bits(found, expected)


def test_c_forms_are_c(tmp_path):
    """Each scalar expression, for each dtype of its samples, compiles without a warning against the headers."""
    lines = ['#include "gt_special.h"', '#include "gt_half.h"']
    for n, entry in enumerate(e for e in TABLE if e.prim.kind == "elementwise" and not e.widened):
        arrays = operands(entry)
        tag = entry.dtype.tag
        args = [f"x{i}" for i in range(len(arrays))]
        result = entry.prim.type(*map(type_of, arrays), **entry.sample.params).dtype.tag
        text = Expr(entry.prim.c_for(entry.dtype), tuple(args), tag, result).text()
        heads = [f"{VARIABLES[as_dtype(a.dtype).tag]} {x}" for a, x in zip(arrays, args, strict=True)]
        lines.append(f"{VARIABLES[result]} f{n}({', '.join(heads)}) {{ return ({VARIABLES[result]})({text}); }}")
    (tmp_path / "forms.c").write_text("\n".join(lines) + "\n")
    compiler = next(filter(shutil.which, ("cc", "gcc", "clang")))
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{TEMPLATES}", "-c", "forms.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


# ---- simplification ----------------------------------------------------------------------------------------


SIMPLIFIED = [e for e in TABLE if e.prim.simplify is not None]


@pytest.mark.parametrize("entry", [e for e in SIMPLIFIED if e.prim.kind == "elementwise"], ids=str)
def test_simplification_with_literals_is_bit_neutral(entry):
    for full in itertools.islice(awkward(entry), 1):
        for k, literal in itertools.product(range(len(full)), special(entry.dtype)):
            if full[k].dtype != literal.dtype:
                continue
            rest = [a for i, a in enumerate(full) if i != k]
            graph = gt.trace(lambda *xs, k=k, v=literal: entry.call(*xs[:k], v, *xs[k:]), *rest)
            (found,) = evaluate(graph, rest)
            expected = entry.numpy(*full[:k], np.full_like(full[k], literal), *full[k + 1 :])
            assert found.shape == () or same_bits(found, expected), literal


@pytest.mark.parametrize("entry", [e for e in SIMPLIFIED if len(e.sample.inputs) == 1], ids=str)
def test_simplification_of_chains_is_bit_neutral(entry):
    """The same operation twice, where the result's type allows it."""
    (array,) = operands(entry)
    once = entry.numpy(array)
    try:
        entry.prim.type(type_of(once), **entry.sample.params)
    except gt.errors.GTensorError:
        return
    (found,) = evaluate(gt.trace(lambda x: entry.call(entry.call(x)), array), [array])
    assert same_bits(found, entry.numpy(once))


X = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5], np.float32)
M = X.reshape(2, 3)


NEUTRAL = {
    "x * 1": X, "1 * x": X, "x - 0": X, "x + -0.0": X, "-0.0 + x": X, "x / 1": X, "x ** 1": X, "-(-x)": X,
    "gt.where(True, x, 1.0)": X, "gt.where(x > 0, x, x)": X, "gt.astype(x, 'float32')": X, "x.T.T": M,
    "x.reshape(2, 3).reshape(6)": X, "x.transpose(0, 1)": M, "gt.broadcast_to(x, (2, 3))": M, "x[:, 0:3]": M,
    "x + 0": np.arange(3), "~(~x)": np.arange(3), "~ ~x": np.array([True, False]),
}  # fmt: skip


@pytest.mark.parametrize("expression, array", NEUTRAL.items(), ids=NEUTRAL)
def test_neutral_operations_vanish(expression, array):
    graph = gt.trace(eval(f"lambda x: {expression}", {"gt": gt}), array)
    assert graph.outputs == graph.inputs
    assert same_bits(evaluate(graph, [array])[0], array)


@pytest.mark.parametrize("expression", ["x + 0", "x * 0", "x - -0.0", "0 - x", "x / x", "x - x"])
def test_operations_that_only_look_neutral_stay(expression):
    fn = eval(f"lambda x: {expression}")
    graph = gt.trace(fn, X)
    assert len(graph.eqns) == 1
    assert same_bits(evaluate(graph, [X])[0], fn(gt.tensor(X)).numpy())


def test_equal_equations_merge_and_zeros_of_other_sign_do_not():
    graph = gt.trace(lambda x: (gt.pad(x, 1), gt.pad(x, 1, constant_values=-0.0), gt.pad(x, 1), x + 0.0, x + 0.0), X)
    first, second, third, fourth, fifth = graph.outputs
    assert first is third and first is not second and fourth is fifth
    assert np.signbit(evaluate(graph, [X])[1][0])

"""All public functions of floats: derivatives of both orders against differences, batches against a loop, compiled.

The calls stand in public_calls.py; a public name without a call and without a reason for it fails here. Law: first
and second derivatives are those of the values, at 1e-6 in float64, whatever the shapes, axes and broadcasting, and at
ties and kinks what numerics says.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor import tree
from gtensor.tensor import Tensor, as_tensor
from tests.public_calls import CALLS, CONSTANTS, METHODS, OPERANDS, WITHOUT, function_of, leading, names_of
from tests.public_calls import operands_of, public
from tests.ways import eager

EVERY = pytest.mark.parametrize("text", [*CALLS, *METHODS])


def floats(result):
    """The floating-point results, as a list."""
    return [leaf for leaf in map(as_tensor, tree.flatten(result)[0]) if leaf.dtype.floating]


# ---- the table ---------------------------------------------------------------------------------------------


def test_every_public_function_is_called_or_has_a_reason():
    called, excused = {*map(leading, CALLS)}, " ".join(WITHOUT.values()).split()
    assert len(excused) == len({*excused}) and not called & {*excused}
    assert called | {*excused} == {*public()}
    assert len({*CALLS, *METHODS}) == len([*CALLS, *METHODS])


def test_every_operand_and_constant_is_used():
    texts = " ".join([*CALLS, *METHODS])
    assert {name for text in (*CALLS, *METHODS) for name in names_of(text)} == {*OPERANDS}
    assert all(name in texts for name in CONSTANTS)


OTHER_METHODS = {
    "all", "any", "argmax", "argmin", "argsort", "assign_", "at", "backward", "detach", "device", "dtype", "isfinite", "isinf",
    "isnan", "item", "levels", "nbytes", "ndim", "nonzero", "numpy", "require_alive", "shape", "size", "to_device", "tolist",
    "zero_grad",
}  # fmt: skip
"""Methods and properties of tensors whose results are no floats, or no arrays."""


def test_every_method_is_called_or_has_no_derivative():
    called = {text.partition(".")[2].partition("(")[0].partition("[")[0] for text in METHODS}
    slots = {name for kind in Tensor.__mro__ for name in getattr(kind, "__slots__", ())}
    public_names = {name for name in dir(Tensor) if not name.startswith("_")} - slots
    assert public_names - called == OTHER_METHODS - {"at"}
    assert not called & OTHER_METHODS - {"at"}


# ---- derivatives and batches -------------------------------------------------------------------------------


@EVERY
def test_derivatives_of_both_orders_are_the_differences(text):
    gt.check_grads(function_of(text), operands_of(text), order=2)


def looped(fn, columns):
    """The results of a Python loop over the examples, stacked in front, as a list."""
    rows = [[as_tensor(leaf).numpy() for leaf in tree.flatten(fn(*map(gt.tensor, row)))[0]] for row in columns]
    return [np.stack(leaves) for leaves in zip(*rows, strict=True)]


@EVERY
def test_a_map_is_a_loop(text):
    """All operands mapped along their first axis; and each alone along its last, with the results at the end."""
    fn, args = function_of(text), operands_of(text)
    stacks = [np.stack([x, np.flip(x)]) for x in args]
    ways = [(tuple(0 for _ in args), 0)]
    ways += [(tuple(-1 if i == k else None for i in range(len(args))), -1) for k in range(len(args))]
    for axes, out_axis in ways:
        given = [x if a is None else np.moveaxis(xs, 0, a) for x, xs, a in zip(args, stacks, axes, strict=True)]
        columns = zip(*([x] * 2 if a is None else xs for x, xs, a in zip(args, stacks, axes, strict=True)), strict=True)
        found = tree.flatten(eager(gt.vmap(fn, axes, out_axis), *given))[0]
        for out, wanted in zip(found, looped(fn, columns), strict=True):
            assert out.dtype == wanted.dtype
            np.testing.assert_allclose(np.moveaxis(out, out_axis, 0), wanted, rtol=1e-9, atol=1e-11)

"""Every primitive compiled against the evaluator, over the registry: no edit is needed when one is added.

All samples of a record, in all their dtypes, with difficult values and in difficult memory, are compiled as
one function. Exact operations and all integers must have equal bits; other functions stay within two units
in the last place of float32 (of float64, where both sides round, as many as the record says), sums and
products within half a unit per term, which is the worst case of any order. Routines over matrices stay within a few
roundings of the largest element, on samples of a few rows.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.prim import REGISTRY
from gtensor.types import finfo_of, known
from tests.op_table import TABLE, Entry, awkward, layouts, operands, same_bits

Arrays = list[np.ndarray]


def mild(array: np.ndarray) -> np.ndarray:
    """Without the numbers with which a sum or product overflows in one order and not in another."""
    if not known(array.dtype).floating:
        return array
    with np.errstate(invalid="ignore"):  # ml_dtypes compares NaN with a warning
        size = np.abs(array)
        return np.where((size == 0) | (size > 0.2) & (size < 100) | ~np.isfinite(size), array, array.dtype.type(1))


def trials(entry: Entry) -> list[Arrays]:
    """Operands of one entry: its sample, and the difficult values that have one right answer."""
    folds = entry.prim.kind not in ("elementwise", "routine") and not entry.prim.exact
    hard = [[mild(a) for a in arrays] if folds else arrays for arrays in awkward(entry)]
    return [operands(entry), *hard]


def hold(entry: Entry, arrays: Arrays, found: np.ndarray) -> None:
    """Fail unless a compiled result is what the evaluator gives, as closely as the record promises."""
    expected = entry.numpy(*arrays)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if entry.prim.exact or not known(found.dtype).floating:
        assert same_bits(found, expected), arrays
        return
    if entry.dtype.stored:
        hold_rounded(entry, arrays, found, expected)
        return
    special = ~np.isfinite(expected)
    assert same_bits(found[special], expected[special])
    with np.errstate(all="ignore"):
        distance = np.abs(found.astype(np.float64) - expected)[~special]
        if entry.prim.kind == "elementwise":
            ulps = 2 if found.dtype == np.float32 else entry.prim.ulps
            bound = ulps * np.spacing(np.abs(expected))[~special]
            assert np.array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))
        elif entry.prim.kind == "routine":
            bound = 40 * np.finfo(found.dtype).eps * np.abs(expected[~special]).max(initial=1)
        else:
            scale = entry.numpy(*(np.abs(a) if a.dtype.kind == "f" else a for a in arrays))[~special]
            bound = 0.5 * np.finfo(found.dtype).eps * max(a.size for a in arrays) * scale
        assert (distance <= bound).all(), (arrays, found, expected)


def hold_rounded(entry: Entry, arrays: Arrays, found: np.ndarray, expected: np.ndarray) -> None:
    """Fail unless a result of 16 bits is one of the two beside what float32 gives, which may be a few units off."""
    eps, tiny = float(finfo_of(entry.dtype).eps), float(finfo_of(entry.dtype).smallest_subnormal)
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    largest = float(finfo_of(entry.dtype).max)
    special = np.isnan(expected)
    assert np.array_equal(np.isnan(found), special), arrays
    a, b = (np.clip(x[~special], -2 * largest, 2 * largest) for x in (found, expected))
    size = (
        entry.numpy(*(np.abs(x) for x in arrays)).astype(np.float64)[~special]
        if entry.prim.kind != "elementwise"
        else b
    )
    assert (np.abs(a - b) <= np.maximum(eps * np.abs(np.nan_to_num(size)), tiny)).all(), (arrays, found, expected)


@pytest.mark.parametrize("prim", REGISTRY.values(), ids=lambda p: p.name)
def test_compiled_is_evaluated(prim):
    work = [(entry, arrays) for entry in TABLE if entry.prim is prim for arrays in trials(entry)]

    def every(rows):
        return [entry.call(*row) for (entry, _), row in zip(work, rows, strict=True)]

    compiled = gt.compile(every)
    results = compiled([arrays for _, arrays in work])
    for (entry, arrays), result in zip(work, results, strict=True):
        hold(entry, arrays, result.numpy())
    memories = [list(zip(*map(layouts, arrays), strict=True)) if arrays else [()] * 3 for _, arrays in work]
    for rows in zip(*memories, strict=True):
        for before, after in zip(results, compiled([list(row) for row in rows]), strict=True):
            assert same_bits(before.numpy(), after.numpy())

"""Dtypes: promotion and conversions over all pairs, integers that wrap, compiled as evaluated.

Promotion is held against NumPy's, with what the array API standard leaves open; values against
NumPy in the same dtype, or against Python's integers cut to the dtype's bits.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, IndexingError
from gtensor.types import DTYPES, SIGNED, STORED, UNSIGNED, Type, holds, promote
from tests.codegen.test_half_h import rounded
from tests.op_table import same_bits, special

INTEGERS = (*SIGNED, *UNSIGNED)
PAIRS = list(itertools.product(DTYPES, DTYPES))
NO_COMMON = {frozenset((gt.uint64, signed)) for signed in SIGNED}


def both(fn, *arrays):
    """The results of a function on tensors, after those of its compiled form have been found to be the same."""
    eager, compiled = fn(*map(gt.tensor, arrays)), gt.compile(fn)(*arrays)
    for a, b in zip(eager, compiled, strict=True):
        assert same_bits(a.numpy(), b.numpy()), (arrays, a, b)
    return [a.numpy() for a in eager]


def wrapped(value, dtype):
    """A Python integer cut to the bits of a dtype."""
    return np.array(value % 2**64, np.uint64).astype(dtype.dtype)


# ---- promotion ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a, b", PAIRS, ids=str)
def test_operands_meet_where_numpy_s_do(a, b):
    if frozenset((a, b)) in NO_COMMON:
        for meet in (gt.result_type, lambda a, b: gt.ones(1, a) + gt.ones(1, b)):
            with pytest.raises(DTypeError, match="no common integer dtype"):
                meet(a, b)
        return
    found = gt.result_type(a, b)
    if {a, b} == {*STORED}:
        assert found == gt.float32
    elif a.floating == b.floating:
        assert found.dtype == np.promote_types(a.dtype, b.dtype)
    else:  # the floating dtype wins, however wide the integers are
        assert found == (a if a.floating else b)
    assert found == gt.result_type(b, a) == (gt.ones(1, a) + gt.ones(1, b)).dtype
    assert (
        found == gt.concat([gt.ones(1, a), gt.ones(1, b)]).dtype == gt.where(True, gt.ones(1, a), gt.ones(1, b)).dtype
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_python_numbers_yield(dtype):
    x = gt.ones(2, dtype)
    assert (x | True if dtype is gt.bool_ else x + True).dtype == dtype
    assert (x + 1).dtype == (gt.int64 if dtype is gt.bool_ else dtype)
    assert (x + 0.5).dtype == (dtype if dtype.floating else gt.float32)
    assert promote([Type((), dtype), Type((), gt.float64, weak=True)])[0] == (x + 0.5).dtype


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_python_integer_must_fit(dtype):
    info, x = gt.iinfo(dtype), gt.ones(1, dtype)
    assert (info.bits, info.min, info.max) == (dtype.itemsize * 8, *(int(f(dtype.dtype)) for f in (low, high)))
    assert gt.maximum(x, info.max).tolist() == [info.max] and gt.minimum(x, info.min).tolist() == [info.min]
    for value in (info.min - 1, info.max + 1):
        with pytest.raises(DTypeError, match="does not fit"):
            x + value
    assert gt.full(2, info.max, dtype=dtype).tolist() == [info.max] * 2
    assert gt.asarray([info.min, info.max], dtype=dtype).tolist() == [info.min, info.max]


def low(dtype):
    return np.iinfo(dtype).min


def high(dtype):
    return np.iinfo(dtype).max


# ---- conversions -------------------------------------------------------------------------------------------


def converted(value, dtype):
    """What one number becomes: floats truncate, saturate and send NaN to 0; integers wrap; floats round."""
    if dtype is gt.bool_:
        return value != 0
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        info = gt.iinfo(dtype)
        return info.max if value >= info.max else info.min if value <= info.min else int(value)
    return wrapped(int(value), dtype)


def difficult(dtype):
    """Difficult values, those around the ends of the integers among them."""
    values = special(dtype)
    if not dtype.floating:
        return values
    ends = [s * (2.0**k + d) for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5) for s in (1, -1)]
    with np.errstate(all="ignore"):
        return np.concatenate([values, np.array(ends).astype(dtype.dtype)])


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions_to_all_dtypes(source):
    values = difficult(source)
    found = both(lambda x: [x.astype(target) for target in DTYPES], values)
    for target, result in zip(DTYPES, found, strict=True):
        numbers = values.astype(np.float32) if source.stored else values
        with np.errstate(all="ignore"):
            if target.stored:
                wanted = rounded(numbers, target.tag)
            elif target.floating:
                wanted = numbers.astype(target.dtype)
            else:
                wanted = np.array([converted(v, target) for v in numbers.tolist()], target.dtype)
        assert same_bits(result, wanted), (target, values, result, wanted)


@pytest.mark.parametrize("between", DTYPES, ids=str)
def test_conversions_one_after_another_stay_what_they_are(between):
    """Where the dtype between has every value of the first it is skipped, but not where it saturates."""
    values = [difficult(source) for source in DTYPES if holds(between, source)]
    found = iter(both(lambda *xs: [x.astype(between).astype(last) for x in xs for last in DTYPES], *values))
    for x in values:
        held = gt.tensor(gt.astype(x, between).numpy())
        assert all(same_bits(next(found), held.astype(last).numpy()) for last in DTYPES)


# ---- integers ----------------------------------------------------------------------------------------------

OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: int(math.copysign(1, a)) * (abs(a) % abs(b)) if b else 0,
    "maximum": max,
    "minimum": min,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "less": lambda a, b: a < b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
}
UNARY = {
    "negative": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "bitwise_invert": lambda a: ~a,
    "square": lambda a: a * a,
    "floor": lambda a: a,
    "round": lambda a: a,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_python_s_cut_to_their_bits(dtype):
    values = special(dtype)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    results = both(
        lambda a, b: [*(getattr(gt, n)(a, b) for n in OPERATIONS), *(getattr(gt, n)(a) for n in UNARY)], a, b
    )
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    wanted = [[f(*pair) for pair in pairs] for f in OPERATIONS.values()]
    wanted += [[f(x) for x, _ in pairs] for f in UNARY.values()]
    for name, found, row in zip([*OPERATIONS, *UNARY], results, wanted, strict=True):
        same = row if found.dtype == bool else [wrapped(v, dtype) for v in row]
        assert same_bits(found, np.array(same, found.dtype)), name


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_the_smallest_integer(dtype):
    """It has no negative: -x, abs(x) and x // -1 wrap to it, and x % -1 is 0."""
    lowest = gt.iinfo(dtype).min
    x, minus = np.array([lowest], dtype.dtype), np.array([-1], dtype.dtype)
    found = both(lambda x, m: [-x, abs(x), x // m, x % m, x * m, x - 1, gt.fmod(x, m)], x, minus)
    assert [int(r[0]) for r in found] == [lowest, lowest, lowest, 0, lowest, -(lowest + 1), 0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_wrap(dtype):
    base = np.array([2, 3, 5, 7, 0, 1, gt.iinfo(dtype).max], dtype.dtype)
    exponent = np.array([7, 6, 9, 100, 0, 127, 3], dtype.dtype)
    (found,) = both(lambda a, b: [a**b], base, exponent)
    wanted = [wrapped(int(a) ** int(b), dtype) for a, b in zip(base, exponent, strict=True)]
    assert found.tolist() == [int(w) for w in wanted]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts(dtype):
    bits, values = dtype.itemsize * 8, special(dtype)
    counts = np.array([0, 1, bits - 1, bits, 100, *([-1] if dtype.kind == "i" else [])], dtype.dtype)
    a, n = (x.ravel() for x in np.meshgrid(values, counts))
    left, right = both(lambda a, n: [a << n, a >> n], a, n)
    far = [not 0 <= c < bits for c in n.tolist()]
    pairs = list(zip(a.tolist(), n.tolist(), far, strict=True))
    assert left.tolist() == [int(wrapped(0 if f else x << c, dtype)) for x, c, f in pairs]
    assert right.tolist() == [(-1 if x < 0 else 0) if f else x >> c for x, c, f in pairs]


@pytest.mark.parametrize("dtype", [*INTEGERS, gt.bool_], ids=str)
def test_folds_take_the_widest_dtype(dtype):
    wide = gt.uint64 if dtype.kind == "u" else gt.int64
    x = np.resize(special(dtype), (3, 50))
    folds = (gt.sum, gt.prod, gt.cumsum, gt.cumprod)
    found = both(lambda x: [f(x, axis=1) for f in folds], x)
    with np.errstate(all="ignore"):
        wanted = [f(x, axis=1, dtype=wide.dtype) for f in (np.sum, np.prod, np.cumsum, np.cumprod)]
    assert all(map(same_bits, found, wanted))
    narrow = both(lambda x: [f(x, axis=1, dtype=dtype) for f in folds], x)
    assert all(same_bits(a, b.astype(dtype.dtype)) or dtype is gt.bool_ for a, b in zip(narrow, wanted, strict=True))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_order_and_places(dtype):
    x = np.random.default_rng(0).permutation(np.resize(special(dtype), 40)).reshape(4, 10)
    found = both(
        lambda x: [
            gt.sort(x), gt.argsort(x), gt.sort(x, descending=True), gt.max(x, axis=0), gt.min(x, axis=0),
            gt.argmax(x, axis=1), gt.argmin(x, axis=1), gt.cummax(x, axis=1), gt.cummin(x, axis=0),
            gt.searchsorted(gt.sort(x[0]), x[1]),
        ], x,
    )  # fmt: skip
    wanted = [
        np.sort(x), np.argsort(x, kind="stable"), np.sort(x)[:, ::-1], x.max(0), x.min(0), x.argmax(1), x.argmin(1),
        np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 0), np.searchsorted(np.sort(x[0]), x[1]),
    ]  # fmt: skip
    assert all(map(same_bits, found, wanted))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_are_moved_as_they_are(dtype):
    x = np.resize(special(dtype), (4, 6))
    index = np.array([2, 0, -1])

    def moved(x, index):
        return [
            x.T, x.reshape(8, 3), x[1:, ::2], gt.flip(x), gt.concat([x, x[:1]]), gt.stack([x, x]),
            gt.take(x, index, axis=0), gt.roll(x, 1, axis=1), gt.tile(x, (2, 1)),
            gt.where(x == x[0], x, x[::-1]), x.at[index].set(x[:3]), gt.pad(x, 1), gt.broadcast_to(x[:, :1], (4, 5)),
            gt.take_along_axis(x, gt.argsort(x, axis=1), axis=1),
        ]  # fmt: skip

    found = both(moved, x, index)
    assert all(r.dtype == x.dtype for r in found)
    assert same_bits(found[0], x.T) and same_bits(found[2], x[1:, ::2]) and same_bits(found[6], x[index])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_every_integer_is_an_index(dtype):
    """Also where places counted from the end do not fit the dtype."""
    x = np.arange(300.0)
    index = np.array([0, 5, 127, *([-1, -128] if dtype.kind == "i" else [255 if dtype.itemsize == 1 else 299])])
    take = gt.compile(lambda x, i: (gt.take(x, i, axis=0), x.at[i].set(0.0)))
    found, updated = take(x, index.astype(dtype.dtype))
    assert found.tolist() == x[index].tolist()
    assert not updated.numpy()[index].any()
    if dtype.itemsize > 1:
        wrong = index.copy()
        wrong[1] = 300
        with pytest.raises(IndexingError):
            take(x, wrong.astype(dtype.dtype))


def test_an_index_beyond_int64_is_out_of_range():
    """2**64 - 1 is not -1."""
    take = gt.compile(lambda x, i: gt.take(x, i, axis=0))
    for value in (2**64 - 1, 2**63, 2**63 - 1):
        index = np.array([value], np.uint64)
        for call in (take, lambda x, i: gt.take(x, i, axis=0)):
            with pytest.raises(IndexingError):
                call(np.arange(3.0), index)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_are_made_counted_and_handed_on(dtype):
    x = gt.asarray(np.resize(special(dtype), 5))
    assert x.dtype is dtype and str(x).endswith(f"dtype={dtype.name})")
    if dtype is not gt.bfloat16:  # which NumPy hands to nobody
        assert same_bits(np.from_dlpack(x), x.numpy()) and same_bits(np.asarray(memoryview(x.numpy())), x.numpy())
        assert gt.from_dlpack(x.numpy()).dtype is dtype
    assert gt.zeros(3, dtype).dtype is gt.ones_like(x).dtype is gt.empty_like(x).dtype is dtype
    if dtype is not gt.bool_:
        assert gt.arange(3, 9, 2, dtype=dtype).tolist() == [3, 5, 7]
        (counted,) = both(lambda x: [gt.arange(5, dtype=dtype) + x * 0], np.ones(5, dtype.dtype))
        assert counted.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_state_and_parameters_have_any_dtype(dtype):
    """A scan carries it, a donated argument is updated in place, a run-time batch has it."""
    start = np.array([1, 0, 1], dtype.dtype)
    steps = np.resize(np.array([1, 0, 0, 1, 1], dtype.dtype), (5, 3))

    def run(start, steps):
        return gt.scan(lambda h, x: (h | x, h) if dtype is gt.bool_ else (h + x, h), start, steps)

    (h, hs), (eager, eagers) = gt.compile(run)(start, steps), run(gt.tensor(start), gt.tensor(steps))
    assert same_bits(h.numpy(), eager.numpy()) and same_bits(hs.numpy(), eagers.numpy())
    given = start.copy()
    out = gt.compile(lambda s, x: gt.where(x == x, x, s), donate=("s",))(given, steps[1])
    assert np.shares_memory(out.numpy(), given) and same_bits(given, steps[1])


def test_the_c_reads_and_writes_every_integer_literal():
    """The ends of each dtype as constants of the C."""
    for dtype in INTEGERS:
        info = gt.iinfo(dtype)
        x = np.array([0, 1], dtype.dtype)
        ends = info.min, info.max, info.max - 1
        found = both(lambda x, ends=ends: [gt.maximum(x, ends[0]), gt.minimum(x, ends[1]), x ^ ends[2]], x)
        assert found[2].tolist() == [info.max - 1, int(wrapped(1 ^ (info.max - 1), dtype))]

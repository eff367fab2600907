"""Values that have no meaning: gradients of integers (D01), casts to integers (D05), indices out of range (I03)."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

import gtensor as gt

from .processes import PATIENCE, run, start

INTEGERS = (np.int32, np.int64, np.uint8)

# ---- D01 --------------------------------------------------------------------------------------------------


def half(x):
    return gt.sum(x / 2)


def total(p):
    return gt.sum(p["rows"][1]["k"] * 2.0)


def by_tensor(x):
    return gt.grad(half(x), [x])[0]


WHOLE = np.array([3, 4], np.int32)
FLOATS = np.array([3, 4], np.float32)

ASKED = {
    "grad": (lambda x: gt.grad(half)(x), "x is {}[2]"),
    "value_and_grad": (lambda x: gt.value_and_grad(half)(x), "x is {}[2]"),
    "vjp": (lambda x: gt.vjp(half, x), "x is {}[2]"),
    "jvp": (lambda x: gt.jvp(half, (x,), (x,)), "x is {}[2]"),
    "hvp": (lambda x: gt.hvp(half, (x,), (x,)), "x is {}[2]"),
    "one of two": (lambda x: gt.grad(lambda a, b: gt.sum(a * b), (0, 1))(FLOATS, x), "b is {}[2]"),
    "a leaf": (lambda x: gt.grad(total)({"rows": [FLOATS, {"k": x}]}), "p.rows.1.k is {}[2]"),
    "inside a gradient": (lambda x: gt.grad(lambda y: gt.grad(lambda z: gt.sum(z * y))(x).sum())(FLOATS), "z is {}[2]"),
    "of a tensor": (by_tensor, "wrt[0] is {}[2]"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [*INTEGERS, np.bool_])
@pytest.mark.parametrize("what", ASKED)
def test_D01_integers_have_no_gradient(what, dtype):
    """Asking for the derivative by an integer or a bool must be an error that names the argument and its dtype, eager
    and compiled: a silent 0 (or a gradient rounded to whole numbers) trains nothing and nobody notices.
    """
    asked, named = ASKED[what]
    x = WHOLE.astype(dtype)
    tag = {"int32": "i32", "int64": "i64", "uint8": "u8", "bool": "b1"}[x.dtype.name]
    for run_it in (asked, gt.compile(asked)):
        given = gt.tensor(x) if what == "of a tensor" else x
        with pytest.raises(TypeError, match="only floating-point inputs have a gradient") as caught:
            run_it(given)
        assert named.format(tag) in str(caught.value)


def test_D01_python_integers_and_parameters():
    """Numbers, parameters of a training step, and leaves that ask for a gradient: the same error."""
    for step in (gt.grad(lambda x: x / 2), gt.compile(gt.grad(lambda x: x / 2))):
        with pytest.raises(TypeError, match=r"x is i64\[\]"):
            step(3)
    with pytest.raises(TypeError, match=r"p.w is i64\[2\]"):
        gt.TrainStep(lambda p, x: gt.sum(p["w"] * x), {"w": np.array([1, 2])}, gt.optim.sgd(0.1), gt.spec((2,)))
    with pytest.raises(TypeError, match="int64"):
        gt.tensor([1, 2], requires_grad=True)


def test_D01_integers_beside_the_differentiated_arguments_are_welcome():
    """Labels, counts and masks are integers; only the derivative by them is refused. Frozen leaves are not asked."""

    def loss(p, n):
        return gt.sum(p["w"] * p["steps"] / n)

    params = {"w": FLOATS, "steps": WHOLE}
    for f in (gt.grad(loss, frozen=lambda path: path == "steps"),):
        for step in (f, gt.compile(f)):
            grads = step(params, np.array([2, 2], np.int64))
            assert grads["w"].tolist() == [1.5, 2] and grads["steps"] is None


# ---- D05 --------------------------------------------------------------------------------------------------

REPORTED = [np.nan, np.inf, -np.inf, 3e9, -3.7, 3.7]
AWKWARD = [
    *REPORTED, 0.5, -0.5, -0.0, -1.0, 1e-45, 254.9, 255.9, 256.0, 300.0, 1e30, -1e30, 2.0**31, 2.0**31 - 1,
    2.0**31 - 64, -(2.0**31), -(2.0**31) - 1, 2.0**32 + 5, 2.0**62, 2.0**63, 2.0**63 - 1024, -(2.0**63), 2.0**64,
]  # fmt: skip
TARGETS = (gt.int32, gt.int64, gt.uint8)


def whole(value, dtype):
    """What a cast gives: the part before the point, held to the range; 0 for NaN. In exact Python integers."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if np.isnan(value):
        return 0
    if np.isinf(value):
        return high if value > 0 else low
    return min(max(int(value), low), high)


def casts(x):
    return [gt.astype(x, target) for target in TARGETS]


@pytest.fixture(scope="module")
def any_length():
    """The casts compiled once for arrays of up to 64 elements, per dtype."""
    return {
        dtype: gt.compile(casts).trace(gt.spec(("N",), dtype, max={"N": 64})).lower().compile()
        for dtype in (gt.float32, gt.float64)
    }


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64], ids=["float32", "float64"])
def test_D05_casts_to_integers_do_not_depend_on_the_length(dtype, any_length):
    """Casting NaN, infinity or a number out of range is undefined in C: the vector body of a loop, its scalar tail and
    the constant folder of a compiler then give different integers. Here each value has one, at every length.
    """
    numbers = np.array(AWKWARD, dtype.dtype)
    for n in range(1, 34):
        for first in range(0, len(numbers), 7):
            x = np.resize(np.roll(numbers, -first), n)
            for target, result in zip(TARGETS, any_length[dtype](x), strict=True):
                assert result.tolist() == [whole(value, target.dtype) for value in x]


@pytest.mark.parametrize("n", [1, 8, 33])
def test_D05_casts_at_lengths_known_to_the_compiler(n):
    """The same with loops whose length the C compiler knows, and unrolls."""
    for value in REPORTED:
        x = np.full(n, value, np.float32)
        for target, result in zip(TARGETS, gt.compile(casts)(x), strict=True):
            assert result.tolist() == [whole(value, target.dtype)] * n


def test_D05_casts_of_constants():
    """The same for numbers that are known while tracing: folded by gtensor, or by the C compiler."""

    def constants(x):
        literals = [gt.astype(gt.full((), value, dtype=x.dtype), target) for value in AWKWARD for target in TARGETS]
        filled = [gt.astype(gt.full((5,), value, dtype=x.dtype), target) for value in REPORTED for target in TARGETS]
        mixed = [gt.astype(gt.where(x == x, value, 0.0), target) for value in REPORTED for target in TARGETS]
        return literals, filled, mixed

    for dtype in (np.float32, np.float64):
        for step in (constants, gt.compile(constants)):
            literals, filled, mixed = step(gt.zeros(3, dtype))
            for numbers, results in ((AWKWARD, literals), (REPORTED, filled), (REPORTED, mixed)):
                pairs = [(dtype(value), target) for value in numbers for target in TARGETS]
                for (value, target), result in zip(pairs, results, strict=True):
                    assert set(np.ravel(result.numpy()).tolist()) == {whole(value, target.dtype)}


def test_D05_casts_inside_other_arithmetic():
    """The same between other operations of a kernel, and as an index: nothing is read at a place that NaN names."""

    def places(x, table):
        return gt.take(table, gt.astype(x, gt.int32), axis=0) + gt.astype(gt.astype(x * 2 - x, gt.uint8), gt.float32)

    table, step = np.arange(4, dtype=np.float32), gt.compile(places)
    assert step(np.array([np.nan, 3.7, -0.9, 0.0], np.float32), table).tolist() == [0, 6, 0, 0]
    for value in (np.inf, -np.inf, 3e9, 4.0, -5.5):
        with pytest.raises(IndexError):
            step(np.array([0, 0, 0, value], np.float32), table)


# ---- I03 --------------------------------------------------------------------------------------------------

X, V = np.array([1, 2, 3], np.float32), np.ones(1, np.float32)
OUTSIDE = (3, 7, -4, 2**31 - 1, -(2**31), 2**40, -(2**63), 2**63 - 1)

INDEXED = {
    "take": lambda x, i, v: gt.take(x, i, axis=0),
    "x[i]": lambda x, i, v: x[i],
    "gather": lambda x, i, v: gt.gather(x, 0, gt.concat([i, i, i])),
    "scatter_add": lambda x, i, v: gt.scatter_add(x, 0, i, v),
    "index_add": lambda x, i, v: gt.index_add(x, 0, i, v),
    "gradient of take": lambda x, i, v: gt.grad(lambda x: gt.sum(gt.take(x, i, axis=0) ** 2))(x),
    "computed": lambda x, i, v: gt.take(gt.exp(x), i + 0 * gt.astype(x[:1], i.dtype), axis=0),
    "embedding": lambda x, i, v: gt.nn.embedding(i, gt.reshape(x, (3, 1))),
}


@pytest.mark.parametrize("what", INDEXED)
def test_I03_indices_out_of_range_raise(what):
    """An index outside the axis raises IndexError, eager and compiled, and names the index; it never reads or writes
    beside the array. Indices from the end count, as in Python.
    """
    indexed = INDEXED[what]
    compiled = gt.compile(indexed)
    for dtype in INTEGERS:
        for index in OUTSIDE:
            if not np.iinfo(dtype).min <= index <= np.iinfo(dtype).max:
                continue
            i = np.array([index], dtype)
            for run_it in (indexed, compiled):
                with pytest.raises(IndexError, match=rf"index {index} is out of range"):
                    run_it(gt.tensor(X), gt.tensor(i), gt.tensor(V))
        for index in (0, 2, -1, -3) if dtype is not np.uint8 else (0, 2):
            i = np.array([index], dtype)
            expected = indexed(gt.tensor(X), gt.tensor(i), gt.tensor(V)).numpy()
            np.testing.assert_allclose(compiled(X, i, V).numpy(), expected, rtol=1e-6)


CONSTANT = {
    "a list": lambda x, index: gt.take(x, [index], axis=0),
    "an integer": lambda x, index: x[index],
    "a tensor": lambda x, index: gt.take(x, gt.tensor([index]), axis=0),
    "scatter_add": lambda x, index: gt.scatter_add(x, 0, [index], x[:1]),
    "gather": lambda x, index: gt.gather(x, 0, [index] * 3),
}


@pytest.mark.parametrize("what", CONSTANT)
@pytest.mark.parametrize("index", [3, 7, -4])
def test_I03_constant_indices_out_of_range_are_found_while_tracing(what, index):
    """An index that is written in the program is an error before anything is compiled, not at the first call."""
    with pytest.raises(IndexError, match=f"index {index} is out of range"):
        gt.trace(lambda x: CONSTANT[what](x, index), gt.spec((3,)))


def test_I03_a_captured_index_is_checked_at_each_call():
    """A NumPy array that the function reads may change between calls, so it is checked at each, as an argument is."""
    captured = np.array([2])
    step = gt.compile(lambda x: gt.take(x, captured, axis=0))
    assert step(X).tolist() == [3]
    captured[0] = 3
    with pytest.raises(IndexError, match="index 3 is out of range"):
        step(X)
    captured[0] = -3
    assert step(X).tolist() == [1]
    with pytest.raises(IndexError, match="index 7 is out of range"):
        gt.compile(lambda x: x[np.array([7])])(X)


def guarded(values):
    """An array in the middle of a block whose other bytes are known, and the check that they still are."""
    block = np.full(values.nbytes + 512, 0xA5, np.uint8)
    inside = block[256 : 256 + values.nbytes].view(values.dtype).reshape(values.shape)
    inside[...] = values

    def check():
        assert (block[:256] == 0xA5).all() and (block[256 + values.nbytes :] == 0xA5).all()

    return inside, check


def test_I03_a_call_that_raises_leaves_all_memory_as_it_was():
    """Donated arrays, resident state and the bytes around every buffer are untouched by a call that raises, even if
    the bad index comes late and the update is in place.
    """

    def step(x, i, v):
        return gt.scatter_add(x * 2, 0, i, v), gt.sum(v)

    rows, good, bad = np.arange(12, dtype=np.float32).reshape(4, 3), [0, 3, 1, 0], [0, 1, 2, 4]
    values = np.ones((4, 3), np.float32)

    def along(indices):
        return np.repeat(np.array(indices)[:, None], 3, axis=1)

    donated, resident = gt.compile(step, donate="x"), gt.Resident(step, rows, [gt.spec((4, 3), int), gt.spec((4, 3))])
    (x, check), (v, check_v) = guarded(rows), guarded(values)
    for wrong in (bad, [-5, 0, 0, 0], [0, 0, 0, 2**40]):
        i, check_i = guarded(along(wrong))
        for run_it in (lambda i=i: donated(x, i, v), lambda i=i: resident(i, v)):
            with pytest.raises(IndexError):
                run_it()
        for unharmed in (check, check_v, check_i):
            unharmed()
        np.testing.assert_array_equal(x, rows)
        np.testing.assert_array_equal(resident.state, rows)
    donated(x, along(good), v)
    resident(along(good), v)
    check()
    expected = rows * 2
    np.add.at(expected, good, 1)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(resident.state, expected)


def test_I03_training_stops_before_the_batch_with_the_bad_label():
    """A label out of range raises from a step and from the loop in C; the steps before it stay, its own is not done."""

    def loss(w, x, y):
        return gt.nn.cross_entropy(x @ w, y)

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 5), np.float32), rng.integers(0, 3, 12)

    def fresh():
        return gt.TrainStep(loss, gt.zeros((5, 3)), gt.optim.sgd(0.1), gt.spec((4, 5)), gt.spec((4,), int))

    single, only = fresh(), fresh()
    for train in (single, only):
        train(x[:4], y[:4])
    for wrong in (3, -1, 2**40):
        labels = y.copy()
        labels[6] = wrong
        with pytest.raises(IndexError, match=f"index {wrong} is out of range"):
            single(x[4:8], labels[4:8])
        looped = fresh()
        with pytest.raises(IndexError, match=f"index {wrong} is out of range"):
            looped.fit(x, labels, shuffle=False, progress=False)
        for train in (single, looped):
            np.testing.assert_array_equal(train.params, only.params)


SANITIZED = """
import sys
import numpy as np
import gtensor as gt
sys.path.insert(0, "tests")
from cases.test_behaviour_values import INDEXED, OUTSIDE, V, X

steps = [gt.compile(INDEXED[name]) for name in ("take", "scatter_add", "gradient of take", "computed")]
raised = 0
for index in (0, 2, -1, -3, *OUTSIDE):
    for step in steps:
        try:
            step(X, np.array([index]), V)
        except IndexError:
            raised += 1
assert raised == len(OUTSIDE) * len(steps), raised
print("ran")
"""

BESIDE = """
import numpy as np
import gtensor as gt
step = gt.compile(lambda x: x + 1).trace(gt.spec((3,))).lower().compile()
step.inputs.take = lambda leaves: list(leaves)
step(np.ones(1, np.float32))
"""
"""Gives C an array that is too short, past all that checks it."""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="preloads gcc's libasan")
def test_I03_the_address_sanitizer_sees_nothing(tmp_path):
    """The same calls with C that was built with -fsanitize=address: no access outside of an array is reported, and
    one that is made on purpose is.
    """
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    settings = {
        "GT_CACHE": tmp_path / "cache", "GT_CC": "gcc", "GT_SANITIZE": "address", "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc",
    }  # fmt: skip
    assert run(SANITIZED, **settings) == "ran\n"
    process = start(BESIDE, **settings)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0 and "heap-buffer-overflow" in said

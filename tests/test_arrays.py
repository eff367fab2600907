"""Array functions that are no primitives against NumPy: keys, views, joins, creation, conversion; and what is refused.

Each runs eagerly, traced and compiled (`ways.agreed`).
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, OptionError, ShapeError, TraceError
from tests.op_table import same_bits
from tests.ways import agreed

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
M = X[0]
I = np.array([1, 0, -1])  # noqa: E741

KEYS = {
    "an integer": np.s_[1],
    "the last": np.s_[-1, :, -2],
    "all integers": np.s_[2, 3, 4],
    "a slice": np.s_[1:],
    "steps": np.s_[::2, 1::3],
    "backwards": np.s_[::-1, 3:0:-2],
    "past the end": np.s_[5:, :99, -99:2],
    "ellipsis": np.s_[..., 1],
    "new axes": np.s_[None, :, None, 0],
    "nothing": np.s_[()],
    "an array": np.s_[I],
    "a matrix": np.s_[I[None]],
    "an array behind": np.s_[..., I],
    "an array between": np.s_[:, I, 1:],
    "an array beside an integer": np.s_[:, 0, I],
    "an array apart from an integer": np.s_[0, :, I],
    "an array apart by an ellipsis": np.s_[:, 0, ..., I],
    "an array apart by a new axis": np.s_[0, None, I],
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_numpy_s(name):
    key = KEYS[name]
    assert same_bits(agreed(lambda x: x[key], X), X[key])


def test_a_traced_integer_is_an_index():
    assert agreed(lambda x, i: x[i], X, np.int64(-1)).tolist() == X[-1].tolist()
    assert agreed(lambda x, i: gt.take(x, i, axis=1), X, np.int32(2)).tolist() == X[:, 2].tolist()


FUNCTIONS = {
    "reshape": (lambda x: gt.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
    "flatten": (lambda x: gt.flatten(x, 1), lambda x: x.reshape(3, 20)),
    "squeeze": (lambda x: gt.squeeze(x[:1, :, :1]), lambda x: x[0, :, 0]),
    "squeeze one": (lambda x: gt.squeeze(x[:1, :, :1], axis=-1), lambda x: x[:1, :, 0]),
    "expand_dims": (lambda x: gt.expand_dims(x, -1), lambda x: x[..., None]),
    "permute_dims": (lambda x: gt.permute_dims(x, (2, 0, -2)), lambda x: x.transpose(2, 0, 1)),
    "matrix_transpose": (gt.matrix_transpose, lambda x: x.swapaxes(1, 2)),
    "moveaxis": (lambda x: gt.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "T": (lambda x: x.T, lambda x: x.T),
    "mT": (lambda x: x.mT, lambda x: x.swapaxes(1, 2)),
    "flip": (gt.flip, np.flip),
    "flip one": (lambda x: gt.flip(x, axis=-2), lambda x: np.flip(x, -2)),
    "broadcast_to": (lambda x: gt.broadcast_to(x[:, :1], (2, 3, 4, 5)), lambda x: np.stack([x[:, [0] * 4]] * 2)),
    "slice": (lambda x: x.slice(1, 1, 4, 2), lambda x: x[:, 1:4:2]),
    "concat": (lambda x: gt.concat([x, 2 * x], axis=-1), lambda x: np.concatenate([x, 2 * x], -1)),
    "concat flat": (lambda x: gt.concat([x, x[0]], axis=None), lambda x: np.concatenate([x, x[0]], None)),
    "stack": (lambda x: gt.stack([x, -x], axis=-1), lambda x: np.stack([x, -x], -1)),
    "pad": (lambda x: gt.pad(x, 1), lambda x: np.pad(x, 1)),
    "pad each": (lambda x: gt.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=-1.5),
                 lambda x: np.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=-1.5)),
    "take": (lambda x: gt.take(x, I, axis=1), lambda x: x.take(I, 1)),
    "take flat": (lambda x: gt.take(x, I), lambda x: x.take(I)),
    "take_along_axis": (lambda x: gt.take_along_axis(x, gt.argmax(x, axis=1, keepdims=True), axis=1),
                        lambda x: x.max(1, keepdims=True)),
    "argmax flat": (gt.argmax, lambda x: x.argmax()),
    "argmin": (lambda x: gt.argmin(x, axis=0, keepdims=True), lambda x: x.argmin(0, keepdims=True)),
    "sum as": (lambda x: gt.sum(x, axis=(0, 2), dtype="int32"), lambda x: x.sum((0, 2)).astype(np.int32)),
    "max of bools": (lambda x: gt.max(x > 50, axis=2), lambda x: (x > 50).max(2)),
    "min of bools": (lambda x: gt.min(x > 50), lambda x: (x > 50).min()),
    "any of numbers": (lambda x: gt.any(x, axis=0), lambda x: x.any(0)),
    "arange": (lambda x: gt.arange(3) + x[0, 0, :3], lambda x: (np.arange(3) + x[0, 0, :3]).astype(np.float32)),
    "arange steps": (lambda x: gt.arange(7, -2, -3), lambda x: np.arange(7, -2, -3)),
    "arange floats": (lambda x: gt.arange(0.0, 1.0, 0.25), lambda x: np.arange(0, 1, 0.25, np.float32)),
    "linspace": (lambda x: gt.linspace(-1, 1, 7), lambda x: np.linspace(-1, 1, 7, dtype=np.float32)),
    "linspace open": (lambda x: gt.linspace(0, 1, 4, endpoint=False), lambda x: np.linspace(0, 1, 4, False, dtype="f")),
    "linspace of one": (lambda x: gt.linspace(3, 4, 1), lambda x: np.linspace(3, 4, 1, dtype=np.float32)),
    "eye": (lambda x: gt.eye(3, 4, k=1), lambda x: np.eye(3, 4, 1, np.float32)),
    "full": (lambda x: gt.full((2, 3), 7), lambda x: np.full((2, 3), 7)),
    "full_like": (lambda x: gt.full_like(x, 0.1), lambda x: np.full_like(x, 0.1)),
    "zeros_like": (lambda x: gt.zeros_like(x, dtype="int32"), lambda x: np.zeros_like(x, np.int32)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_numpy_s(name):
    ours, numpys = FUNCTIONS[name]
    assert same_bits(agreed(ours, X), np.asarray(numpys(X)))


# ---- conversion --------------------------------------------------------------------------------------------


def test_python_numbers_take_the_default_dtypes_and_arrays_keep_theirs():
    for dtype, examples in {
        gt.float32: [0.1, [1, 2.5], [], X],
        gt.float64: [np.float64(1), [np.float64(1)]],
        gt.int64: [3, [[1], [2]]],
        gt.bool_: [True, [False]],
        gt.uint8: [np.arange(2, dtype="u1")],
    }.items():
        assert all(gt.tensor(data).dtype == dtype for data in examples)


def test_a_dtype_that_is_asked_for_is_reached_without_a_detour():
    assert gt.tensor([0.1], "float64").item() == 0.1 and gt.tensor(0.1, "float64").item() == 0.1
    assert gt.tensor([2**62 + 1], "int64").item() == 2**62 + 1
    assert gt.tensor([1.9, -1.9, np.nan, 1e30], "int32").tolist() == [1, -1, 0, 2**31 - 1]
    assert gt.tensor(np.array([1, 2], np.int8), "float32").tolist() == [1, 2]


def test_a_tensor_is_a_copy_that_nobody_writes():
    x = np.array([1.0, 2.0])
    t = gt.tensor(x)
    x[0] = 9
    assert t.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        t.numpy()[0] = 3
    assert gt.asarray(t) is t
    view = gt.reshape(x, (2, 1))
    x[1] = 7
    assert view.tolist() == [[9], [2]] and x.flags.writeable


def test_memory_of_every_kind_is_read():
    for x in (np.asfortranarray(M), M[::-1, ::-2], np.broadcast_to(np.float32(2), (4, 5)), M.astype(">f4"), M[:0]):
        assert agreed(lambda x: x * 2, np.asarray(x)).tolist() == (x * 2).tolist()


REFUSED = {
    "text": (lambda: gt.tensor("x"), DTypeError),
    "an object": (lambda: gt.tensor(object()), DTypeError),
    "a ragged list": (lambda: gt.tensor([[1], [1, 2]]), DTypeError),
    "an unknown dtype": (lambda: gt.tensor(np.longdouble([1])), DTypeError),
    "a huge integer": (lambda: gt.tensor([1]) + 2**70, DTypeError),
    "an integer that does not fit": (lambda: gt.tensor([1], "uint8") + 300, DTypeError),
    "a slice of floats": (lambda: gt.tensor(X)[1.5:], DTypeError),
    "a slice without a step": (lambda: gt.tensor(X)[::0], OptionError),
    "a float as key": (lambda: gt.tensor(X)[1.0], DTypeError),
    "too many keys": (lambda: gt.tensor(X)[0, 0, 0, 0], IndexError),
    "a key out of range": (lambda: gt.tensor(X)[0, 4], IndexError),
    "a float as index": (lambda: gt.take(X, 1.0, axis=0), DTypeError),
    "sizes": (lambda: gt.reshape(X, (7, -1)), ShapeError),
    "two unknowns": (lambda: gt.reshape(X, (-1, -1)), ShapeError),
    "an axis": (lambda: gt.sum(X, axis=3), ShapeError),
    "an axis twice": (lambda: gt.sum(X, axis=(0, -3)), ShapeError),
    "shapes": (lambda: gt.tensor(X) + gt.ones(4), ShapeError),
    "joined shapes": (lambda: gt.concat([X, M], axis=0), ShapeError),
    "nothing to join": (lambda: gt.stack([]), ShapeError),
    "a negative border": (lambda: gt.pad(X, -1), ShapeError),
    "inner sizes": (lambda: gt.matmul(M, M), ShapeError),
    "floats as bits": (lambda: gt.tensor(X) & 1, DTypeError),
    "an empty maximum": (lambda: gt.max(X[:0], axis=0), ShapeError),
    "a step of 0": (lambda: gt.arange(0, 5, 0), ShapeError),
    "a traced list": (lambda: gt.trace(lambda x: gt.tensor([x, x]), gt.spec(())), TraceError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    run, error = REFUSED[name]
    with pytest.raises(error) as info:
        run()
    assert "test_arrays.py" in str(info.value) and len(str(info.value).splitlines()) <= 4

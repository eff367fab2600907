"""Reading and writing by keys: NumPy's shapes and values, gradients, masks, clamped slices, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, IndexingError, OptionError, ShapeError, TraceError
from tests.ways import agreed

RNG = np.random.default_rng(2)
X = RNG.normal(size=(3, 4, 5, 2))
I = np.array([1, 0, -1])  # noqa: E741
J = np.array([[0], [2]])
MASK = np.array([True, False, True])

BASIC = {
    "a reversed axis": np.s_[::-1],
    "steps backwards": np.s_[:, 3:0:-2, ::-3],
    "empty backwards": np.s_[0:2:-1],
    "integers and new axes": np.s_[1, None, ..., -1, None],
    "an empty slice": np.s_[:, 2:2],
    "everything": np.s_[...],
}
ARRAYS = {
    "two side by side": np.s_[I, I],
    "in the middle": np.s_[:, I, I],
    "apart": np.s_[I, :, I],
    "apart by an ellipsis": np.s_[I, ..., I % 2],
    "apart by a new axis": np.s_[I, None, I],
    "an integer and an array": np.s_[:, 0, I],
    "an integer and an array apart": np.s_[0, :, I],
    "an array between integers": np.s_[1, I, 2],
    "broadcast against each other": np.s_[J, I, ::-2],
    "at the end": np.s_[..., I, J % 2],
    "of every axis": np.s_[I, I, I, I % 2],
    "one, apart from an integer": np.s_[0, :, :, I % 2],
    "lists": np.s_[[0, 1], [2, -1]],
    "an empty list": np.s_[[]],
    "no dimensions": np.s_[np.array(1), I],
    "bools in a list": np.s_[[True, False, True]],
    "bools in a list beside an array": np.s_[[True, False, True], :, [0, 1]],
}
MASKS = {
    "of the first axis": np.s_[MASK],
    "of two axes": np.s_[X[:, :, 0, 0] > 0],
    "of all": np.s_[X > 0.3],
    "behind a slice": np.s_[:, [True, False, True, False]],
    "beside an array": np.s_[MASK, I[:2]],
    "apart from an array": np.s_[MASK, :, I[:2]],
    "of nothing": np.s_[X > 100],
}


def ids(table):
    return pytest.mark.parametrize("key", table.values(), ids=list(table))


@ids(BASIC | ARRAYS | MASKS)
def test_keys_read_as_numpy_s(key):
    found = gt.tensor(X)[key].numpy()
    assert found.shape == X[key].shape and np.array_equal(found, X[key])
    weights = RNG.normal(size=X[key].shape)
    slope = gt.grad(lambda x: gt.sum(x[key] * weights))(X).numpy()
    expected = np.zeros_like(X)
    np.add.at(expected, key, weights)
    np.testing.assert_allclose(slope, expected, atol=1e-14)


def test_keys_compiled():
    keys = {**BASIC, **ARRAYS}

    def every(x):
        return [x[key] for key in keys.values()]

    for key, found in zip(keys.values(), agreed(every, X), strict=True):
        np.testing.assert_array_equal(found, X[key])
    slope = agreed(gt.grad(lambda x: sum(gt.sum(y * y) for y in every(x))), X, rtol=1e-12)
    expected = np.zeros_like(X)
    for key in keys.values():
        np.add.at(expected, key, 2 * X[key])
    np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-13)


def test_traced_indices_of_several_axes():
    def run(x, i, j):
        return [x[i, j], x[j % 3, :, i], x[i, 1, j % 2], x[0, i[0]]]

    i, j = np.array([1, 2, 0]), np.array([[3, -1, 0]])
    for found, wanted in zip(agreed(run, X, i, j), run(X, i, j), strict=True):
        np.testing.assert_array_equal(found, wanted)
    compiled = gt.compile(lambda x, i, j: x[i, j])
    for bad in (np.array([3, 0, 0]), np.array([-4, 0, 0])):
        with pytest.raises(IndexError):
            compiled(X, bad, j)
    with pytest.raises(IndexError):
        gt.tensor(X)[[0, 3], [0, 0]]


# ---- updates -----------------------------------------------------------------------------------------------


def put(x, key, v, fold):
    out = x.copy()
    fold(out, key, v)
    return out


def assign(out, key, v):
    out[key] = v


WAYS = {
    "set": assign,
    "add": np.add.at,
    "multiply": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


@pytest.mark.parametrize("way", WAYS)
def test_updates_are_numpy_s(way):
    keys = [k for name, k in (BASIC | ARRAYS).items() if "bools" not in name]
    values = [RNG.normal(size=X[key].shape) for key in keys]
    found = agreed(lambda x, vs: [getattr(x.at[k], way)(v) for k, v in zip(keys, vs, strict=True)], X, values)
    for key, value, updated in zip(keys, values, found, strict=True):
        np.testing.assert_allclose(updated, put(X, key, value, WAYS[way]), rtol=1e-14, err_msg=str(key))
        few = np.broadcast_to(np.asarray(value).ravel()[:1].sum(), ())
        np.testing.assert_allclose(
            getattr(gt.tensor(X).at[key], way)(float(few)).numpy(), put(X, key, float(few), WAYS[way]), rtol=1e-14
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["repeated", "a slice", "a mask", "a reversed slice"])
def test_derivatives_of_updates(way, name):
    """By the array and by the values, at places that repeat too."""
    x = RNG.normal(size=(4, 3))
    key = {
        "repeated": np.s_[[1, 3, 1, 1], [0, 2, 0, 0]],
        "a slice": np.s_[1:3],
        "a mask": x > 0,
        "a reversed slice": np.s_[::-2, 1],
    }[name]
    v = RNG.normal(size=() if name == "a mask" else x[key].shape)
    gt.check_grads(lambda x, v: getattr(x.at[key], way)(v) ** 2, [x, v], order=2, rtol=1e-6)


def test_products_at_repeated_places_with_zeros():
    x, v, i = np.array([2.0, 3.0]), np.array([0.0, 5.0, 0.0, 7.0, 4.0]), np.array([1, 1, -2, 1, 0])
    gt.check_grads(lambda x, v: x.at[i].multiply(v), [x, v], order=2, rtol=1e-6)
    slope = agreed(gt.grad(lambda v: gt.sum(gt.tensor(x).at[i].multiply(v))), v)
    assert slope.tolist() == [105.0, 0.0, 8.0, 0.0, 0.0]


def test_of_several_that_are_set_the_last_stays():
    x, v = np.zeros(3), np.array([1.0, 2.0, 3.0])
    found, slope = agreed(
        lambda x, v: [x.at[[1, 1, 0]].set(v), gt.grad(lambda v: gt.sum(x.at[[1, 1, 0]].set(v)))(v)], x, v
    )
    assert found.tolist() == [3.0, 2.0, 0.0] and slope.tolist() == [0.0, 1.0, 1.0]


def test_equal_extremes_share():
    slope = gt.grad(lambda x, v: gt.sum(x.at[[0, 0]].max(v)), (0, 1))(gt.tensor([2.0, 1.0]), gt.tensor([2.0, 2.0]))
    np.testing.assert_allclose(slope[0].numpy(), [1 / 3, 1.0], rtol=1e-6)
    np.testing.assert_allclose(slope[1].numpy(), [1 / 3, 1 / 3], rtol=1e-6)


def test_masks_are_keys_of_updates_while_tracing():
    x = RNG.normal(size=(3, 4)).astype(np.float32)

    def run(x):
        return [
            x.at[x > 0].set(0.0),
            x.at[x[:, 0] > 0].add(gt.arange(4.0)),
            x.at[x < 0].multiply(-1.0),
            x.at[gt.isnan(x)].get() if x.data is not None else x[:0].reshape(0),
        ]

    found = agreed(run, x)
    np.testing.assert_array_equal(found[0], np.where(x > 0, 0, x))
    np.testing.assert_array_equal(found[1], np.where(x[:, :1] > 0, x + np.arange(4, dtype=np.float32), x))
    np.testing.assert_array_equal(found[2], np.abs(x))
    values = gt.tensor(x).at[x > 0].set(gt.arange(float((x > 0).sum())))  # one value per place, outside a trace
    np.testing.assert_array_equal(values.numpy(), put(x, x > 0, np.arange((x > 0).sum()), assign))
    slope = gt.grad(lambda x: gt.sum(x.at[x <= 0].set(1.0).log()))(gt.tensor([-1.0, 0.0, 2.0]))
    assert slope.tolist() == [0.0, 0.0, 0.5]


def test_updates_keep_what_they_do_not_touch():
    x = np.float32([-0.0, np.nan, np.inf, 1.0])
    for found in agreed(lambda x: [x.at[3].add(1.0), x.at[[3]].add(1.0), x.at[3:].multiply(2.0)], x):
        assert np.signbit(found[0]) and np.isnan(found[1]) and found[2:].tolist() == [np.inf, 2.0]
    assert gt.zeros(3, dtype="int32").at[0].set(2).dtype == gt.tensor([1], dtype="int32").dtype


def test_a_tensor_is_not_written_in_place():
    with pytest.raises(TypeError, match="at"):
        gt.tensor(X)[0] = 1.0


# ---- scatter, put, take ------------------------------------------------------------------------------------


def test_scatter_and_put_along_an_axis():
    x, index = RNG.normal(size=(3, 5)), np.array([[4, 0], [1, 1], [-1, 2]])
    v = RNG.normal(size=(3, 2))
    expected = x.copy()
    np.put_along_axis(expected, index, v, 1)
    found = agreed(lambda x, i, v: [gt.put_along_axis(x, i, v, axis=1), gt.scatter(x, 1, i, v)], x, index, v)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)
    folds = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
    rows = np.arange(3)[:, None]
    for name, ufunc in folds.items():
        found = agreed(lambda x, i, v, name=name: gt.scatter_reduce(x, 1, i, v, name), x, index, v)
        np.testing.assert_allclose(found, put(x, (rows, index), v, ufunc.at))
        gt.check_grads(lambda x, v, n=name: gt.scatter_reduce(x, 1, index, v, n) ** 2, [x, v], order=2, rtol=1e-6)
    with pytest.raises(OptionError):
        gt.scatter_reduce(x, 1, index, v, "mean")
    with pytest.raises(DTypeError):
        gt.scatter_reduce(x > 0, 1, index, v > 0, "amax")
    with pytest.raises(IndexError):
        gt.compile(lambda i: gt.scatter(x, 1, i, v))(index + 3)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_taking_beyond_the_ends(mode):
    x, index = RNG.normal(size=(4, 3)), np.array([[-1, 3], [0, 2]])
    if mode != "raise":
        index = index * 7
    found = agreed(lambda x, i: [gt.take(x, i, axis=a, mode=mode) for a in (0, None)], x, index)
    np.testing.assert_array_equal(found[0], np.take(x, index, 0, mode=mode))
    np.testing.assert_array_equal(found[1], np.take(x, index, mode=mode))
    with pytest.raises(OptionError):
        gt.take(x, index, axis=0, mode="fill")
    with pytest.raises(DTypeError):
        gt.take(x, 1.5, axis=0, mode="wrap")
    with pytest.raises(IndexingError):
        gt.take(x[:0], [0], axis=0, mode=mode)


# ---- slices at computed places -----------------------------------------------------------------------------

STARTS = [(0, 0), (1, 2), (-1, -2), (9, 1), (-9, -9), (2, 9)]


def clamped(starts, sizes, shape):
    """Where jax.lax.dynamic_slice begins: from the end if negative, then moved so that the slice fits."""
    counted = [s + n if s < 0 else s for s, n in zip(starts, shape, strict=True)]
    return [min(max(s, 0), n - k) for s, n, k in zip(counted, shape, sizes, strict=True)]


def test_dynamic_slices_are_clamped():
    x, sizes = RNG.normal(size=(4, 5)), (2, 3)
    v = RNG.normal(size=sizes)
    read = gt.compile(lambda x, s: gt.dynamic_slice(x, s, sizes))
    write = gt.compile(lambda x, v, i, j: gt.dynamic_update_slice(x, v, (i, j)))
    for starts in STARTS:
        i, j = clamped(starts, sizes, x.shape)
        expected = x[i : i + 2, j : j + 3]
        np.testing.assert_array_equal(gt.dynamic_slice(x, starts, sizes).numpy(), expected)
        np.testing.assert_array_equal(np.asarray(read(x, np.array(starts))), expected)
        updated = put(x, np.s_[i : i + 2, j : j + 3], v, assign)
        np.testing.assert_array_equal(gt.dynamic_update_slice(x, v, starts).numpy(), updated)
        np.testing.assert_array_equal(np.asarray(write(x, v, *starts)), updated)
    place = (np.array(2), 1)
    gt.check_grads(lambda x: gt.dynamic_slice(x, place, sizes) ** 2, [x], order=2, rtol=1e-6)
    gt.check_grads(lambda x, v: gt.dynamic_update_slice(x, v, place) ** 2, [x, v], order=2, rtol=1e-6)
    assert gt.dynamic_index_in_dim(x, -1, axis=1, keepdims=False).numpy().tolist() == x[:, -1].tolist()
    assert gt.dynamic_index_in_dim(x, 9).shape == (1, 5)


def test_a_buffer_that_is_written_in_a_loop():
    def run(xs):
        def body(carry, x):
            buffer, i = carry
            return (gt.dynamic_update_slice(buffer, x[None] * 2, (i, 0)), i + 1), gt.sum(buffer)

        (buffer, _), sums = gt.scan(body, (gt.zeros((4, 3)), gt.tensor(0)), xs)
        return buffer, sums

    xs = RNG.normal(size=(4, 3)).astype(np.float32)
    buffer, _ = agreed(run, xs, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(buffer, xs * 2, rtol=1e-6)
    agreed(gt.grad(lambda xs: gt.sum(run(xs)[0] ** 2) + gt.sum(run(xs)[1])), xs, rtol=1e-5, atol=1e-5)


# ---- what depends on values --------------------------------------------------------------------------------


def test_places_of_what_is_not_zero():
    x = np.array([[0.0, 2.0, np.nan], [-0.0, 0.0, 1.0]])
    for found, expected in zip(gt.nonzero(x), np.nonzero(x), strict=True):
        assert found.dtype == gt.int64 and found.numpy().tolist() == expected.tolist()
    assert gt.argwhere(x).tolist() == np.argwhere(x).tolist()
    assert gt.tensor([False, True]).nonzero()[0].tolist() == [1]
    assert gt.argwhere(np.zeros((2, 3))).shape == (0, 2)
    with pytest.raises(ShapeError):
        gt.nonzero(gt.tensor(1.0))


REFUSED = {
    "a mask": (lambda x: x[x > 0], TraceError),
    "a mask from outside": (lambda x: x[MASK], TraceError),
    "nonzero": (gt.nonzero, TraceError),
    "argwhere": (gt.argwhere, TraceError),
    "one value per place of a mask": (lambda x: x.at[x > 0].set(gt.arange(3.0)[:, None, None, None, None]), TraceError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_while_tracing_no_shape_depends_on_values(name):
    run, error = REFUSED[name]
    with pytest.raises(error, match="not known while tracing"):
        gt.trace(run, X)


WRONG = {
    "a mask of another shape": (lambda: gt.tensor(X)[MASK[:2]], IndexError),
    "an update's mask of another shape": (lambda: gt.tensor(X).at[MASK[:2]].set(0.0), ShapeError),
    "too many axes of masks": (lambda: gt.tensor(X[0, 0, 0])[X > 0], IndexError),
    "arrays that do not broadcast": (lambda: gt.tensor(X)[I, I[:2]], ShapeError),
    "floats": (lambda: gt.tensor(X)[I * 1.0], DTypeError),
    "values of another shape": (lambda: gt.tensor(X).at[0].set(gt.ones(3)), ShapeError),
    "a slice that is too large": (lambda: gt.dynamic_slice(X, (0, 0, 0, 0), (9, 1, 1, 1)), ShapeError),
    "starts of other axes": (lambda: gt.dynamic_slice(X, (0,), (1,)), ShapeError),
    "starts that are no integers": (lambda: gt.dynamic_slice(X[0, 0, 0], (0.5,), (1,)), DTypeError),
    "an update with other axes": (lambda: gt.dynamic_update_slice(X, gt.ones(2), (0, 0, 0, 0)), ShapeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    run, error = WRONG[name]
    with pytest.raises(error):
        run()

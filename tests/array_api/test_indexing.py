"""Indexing of the array API: integers, slices, ellipsis, new axes, masks and integer arrays, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtensor as gt
from gtensor.errors import TraceError
from tests.ways import compiled, eager

from .alike import agrees, draw
from .standard import DTYPES

PROPERTY = settings(max_examples=3 * settings.default.max_examples)


def slices(extent):
    """Slices of an axis, with bounds beyond its ends too, which NumPy cuts off."""
    bound = st.none() | st.integers(-extent - 3, extent + 3)
    return st.builds(slice, bound, bound, st.none() | st.integers(-4, 4).filter(bool))


@st.composite
def keys(draw, shape):
    """A key of slices, integers, new axes and at most one ellipsis."""
    axes = draw(st.integers(0, len(shape)))
    parts = []
    for extent in shape[:axes]:
        parts.append(draw(slices(extent) | st.integers(-extent, extent - 1) if extent else slices(extent)))
    if draw(st.booleans()):
        parts.insert(axes, ...)
        kept = draw(st.integers(0, len(shape) - axes))
        parts += [draw(slices(extent)) for extent in shape[len(shape) - kept :]]
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@PROPERTY
@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_basic(data, dtype):
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=4)))
    x = draw(shape, dtype)
    key = data.draw(keys(shape))
    agrees(gt.asarray(x)[key], np.asarray(x[key]), about=f"{shape} {key}")


@PROPERTY
@given(data=st.data())
def test_masks(data):
    """Of the first axes; a mask without elements fits any axis."""
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
    x = draw(shape, "int64")
    extents = [data.draw(st.sampled_from([n, n, n, 0])) for n in shape[: data.draw(st.integers(0, len(shape)))]]
    mask = draw(tuple(extents), "bool", data.draw(st.integers(0, 9)))
    agrees(gt.asarray(x)[gt.asarray(mask)], x[mask], about=f"{shape} {mask.shape}")


@PROPERTY
@given(data=st.data())
def test_integer_arrays(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    x = draw(shape, "float32")
    met = data.draw(st.sampled_from([(2,), (2, 3), (0,), ()]))
    parts = []
    for extent in shape[: data.draw(st.integers(1, len(shape)))]:
        parts.append(
            data.draw(
                st.integers(-extent, extent - 1)
                | st.builds(lambda seed, n=extent: np.random.default_rng(seed).integers(-n, n, met), st.integers(0, 99))
            )
        )
    agrees(gt.asarray(x)[tuple(parts)], np.asarray(x[tuple(parts)]), about=f"{shape} {parts}")
    given_keys = tuple(gt.asarray(p) if isinstance(p, np.ndarray) else p for p in parts)
    agrees(gt.asarray(x)[given_keys], np.asarray(x[tuple(parts)]), about=f"{shape} {parts}")


def test_compiled():
    x, mask = draw((5, 4, 3), "float32"), [True, False, True, False]
    keys_ = [
        0, -1, ..., None, (), slice(9, None, -2), slice(-99, 99), (slice(None), 1), (..., -1), (0, ..., 2),
        (None, 1, ..., None), (slice(1, 1), slice(4, 0, -3)), ([0, 2], [1, -1]), (slice(None), [3, 0], 1),
        (slice(0, 4), mask), True, (1, [[0], [2]], [0, 1]),
    ]  # fmt: skip

    def everything(x):
        return [x[key] for key in keys_]

    for key, a, b in zip(keys_, compiled(everything, x), eager(everything, x), strict=True):
        agrees(a, b, about=f"{key}")
        agrees(a, np.asarray(x[key]), about=f"{key}")


def test_a_mask_without_axes_adds_one():
    x = np.arange(6.0).reshape(2, 3)
    for key in (
        True,
        False,
        np.True_,
        (True, ...),
        (..., False),
        (None, True),
        (slice(None), True),
        (0, True),
        (True, [0, 1]),
    ):
        agrees(gt.asarray(x)[key], x[key], about=f"{key}")
    for value in (True, False):
        agrees(gt.asarray(x)[gt.asarray(value)], x[np.asarray(value)])
        agrees(gt.asarray(2.5, dtype=gt.float64)[gt.asarray(value)], np.asarray(2.5)[np.asarray(value)])
    assert gt.zeros(2).at[True].set(1.0).tolist() == [1, 1] and gt.zeros(2).at[gt.asarray(False)].set(1.0).tolist() == [
        0,
        0,
    ]
    with pytest.raises(TraceError, match="depends on the values of the mask"):
        gt.trace(lambda x, m: x[m], x, np.asarray(True))


def test_what_is_no_index():
    x = gt.ones((2, 3))
    refused = {
        IndexError: [2, -3, (0, 3), (0, 0, 0), (..., ...)],
        TypeError: [1.0, "a", slice(0.5), 1j, (0, "a"), (0, None, 2.5)],
        ValueError: [slice(None, None, 0), (0, slice(1, 2, 0))],
    }
    for error, key in [(error, key) for error, keys_ in refused.items() for key in keys_]:
        with pytest.raises(error) as caught:
            x[key]
        assert isinstance(caught.value, gt.errors.GTensorError) and "test_indexing.py" in str(caught.value)
    for mask in (np.ones(3, bool), np.ones((2, 2), bool), np.ones((2, 3, 1), bool)):
        with pytest.raises(IndexError):
            x[gt.asarray(mask)]
    for index in ([2], [-3]):
        with pytest.raises(IndexError):
            x[gt.asarray(index)]
    with pytest.raises(TypeError):
        x[gt.asarray([1.0])]

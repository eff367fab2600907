"""Arithmetic on axes: groups that a reshape keeps together, and what follows for broadcasts and reductions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtensor.passes.axes import groups, reduced_before, regrouped
from gtensor.types import Dim, shape_size

B = Dim("B", 8)


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ((), (), []),
        ((), (1, 1), [((), (0,)), ((), (1,))]),
        ((2, 3), (6,), [((0, 1), (0,))]),
        ((2, 3), (3, 2), [((0, 1), (0, 1))]),
        ((2, 1, 3), (2, 3), [((0,), (0,)), ((1,), ()), ((2,), (1,))]),
        ((2, 1, 3), (6,), [((0, 1, 2), (0,))]),
        ((B, 4), (B * 4,), [((0, 1), (0,))]),
        ((B, 4, 6), (B * 2, 2, 2, 3), [((0, 1), (0, 1)), ((2,), (2, 3))]),
        ((4, B), (B * 4,), [((0, 1), (0,))]),
        ((2, 0), (0, 5), None),
        ((B * 0, 3), (B * 0,), None),
    ],
)
def test_groups(old, new, expected):
    assert groups(old, new) == expected


EXTENTS = st.lists(st.sampled_from([1, 1, 2, 3, 4]), max_size=4).map(tuple)


def reshapes(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of the same size: factors in other places."""
    factors = [f for n in shape for f in {4: (2, 2)}.get(n, (n,))]

    def merged(cuts: list[bool]) -> tuple[int, ...]:
        result = [1]
        for factor, cut in zip(factors, cuts, strict=True):
            if cut:
                result.append(1)
            result[-1] *= factor
        return tuple(result)

    return st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)).map(merged)


SHAPES = EXTENTS.flatmap(lambda old: st.tuples(st.just(old), reshapes(old)))


@given(SHAPES)
def test_groups_hold_all_axes_in_order_and_equal_numbers_of_elements(shapes):
    old, new = shapes
    pairs = groups(old, new)
    assert [i for before, _ in pairs for i in before] == list(range(len(old)))
    assert [j for _, after in pairs for j in after] == list(range(len(new)))
    for before, after in pairs:
        assert shape_size([old[i] for i in before]) == shape_size([new[j] for j in after])


@given(SHAPES, st.data())
def test_regrouped_broadcasts_read_the_same_elements(shapes, data):
    old, new = shapes
    small = tuple(data.draw(st.sampled_from([1, n])) for n in old)[data.draw(st.integers(0, len(old))) :]
    shape = regrouped(small, old, new)
    if shape is not None:
        x = np.arange(shape_size(small)).reshape(small)
        expected = np.broadcast_to(x, old).reshape(new)
        assert np.array_equal(np.broadcast_to(x.reshape(shape), new), expected)


@given(SHAPES, st.data())
def test_reductions_before_a_reshape_fold_the_same_elements(shapes, data):
    old, new = shapes
    axis = tuple(i for i in range(len(new)) if data.draw(st.booleans()))
    before = reduced_before(axis, old, new)
    if before is not None:
        x = np.random.default_rng(0).integers(0, 100, old)
        expected = np.sum(x.reshape(new), axis=axis)
        assert np.array_equal(np.sum(x, axis=before).reshape(expected.shape), expected)

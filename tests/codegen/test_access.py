"""Questions about accesses, against every element they touch, at every run-time extent."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtensor.codegen.access import Use, apart, at, contiguous, inside, once, same_element, whole, within_row
from gtensor.codegen.program import Access, Buffer, Dim

B = Dim(0, "B", 6)

EXTENTS = st.sampled_from([0, 1, 2, 3, B, replace(B, factor=2)])
STRIDES = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, -1, -2, B, replace(B, factor=2)])
MANY = settings(max_examples=400, deadline=None)


@st.composite
def uses(draw, axes=2, space=None):
    """A use in loops over `axes` axes, some with a run-time index in [low, high)."""
    space = space or tuple(draw(EXTENTS) for _ in range(axes))
    strides = tuple(draw(STRIDES) for _ in space)
    index, bounds = (), {}
    if draw(st.integers(0, 3)) == 0:
        index, bounds = (("v", draw(STRIDES)),), {"v": (draw(st.integers(-1, 2)), draw(EXTENTS))}
    offset = draw(st.sampled_from([0, 0, 1, 2, 4, B]))
    order = draw(st.integers(0, 2)), draw(st.booleans()), draw(st.integers(0, 2))
    return Use(Access("x", strides, offset, index), space, "load", *order, None, bounds)


@st.composite
def pairs(draw):
    """Two uses in the same loops, often alike."""
    one = draw(uses())
    other = draw(uses(space=one.space))
    strides = one.access.strides
    if draw(st.booleans()):
        strides = (*strides[:-1], other.access.strides[-1]) if draw(st.booleans()) else strides
        other = other._replace(access=replace(other.access, strides=strides))
    return one, other


def points():
    return [{0: value} for value in range(B.bound + 1)]


def elements(use, point, rows=None):
    """Every element the use touches, in order, or only those of one row."""
    ranges = [range(at(n, point)) for n in use.space]
    values = [range(use.bounds[v][0], at(use.bounds[v][1], point)) for v, _ in use.access.index]
    strides = [at(s, point) for s in (*use.access.strides, *(s for _, s in use.access.index))]
    for place in itertools.product(*ranges, *values):
        if rows is None or place[: len(use.space) - 1] == rows:
            yield at(use.access.offset, point) + sum(s * i for s, i in zip(strides, place, strict=True))


def size(buffer, point):
    count = 1
    for n in buffer.shape:
        count *= at(n, point)
    return count


@MANY
@given(uses(), st.lists(EXTENTS, max_size=2))
def test_inside(use, shape):
    buffer = Buffer("x", "f32", tuple(shape), "work")
    fits = [all(0 <= e < size(buffer, point) for e in elements(use, point)) for point in points()]
    if inside(use, buffer):
        assert all(fits)
    else:
        # The corners are extents that occur, so an access is not refused for nothing.
        assert not all(fits)


@MANY
@given(uses())
def test_once(use):
    if once(use):
        for point in points():
            touched = list(elements(use, point))
            assert len(touched) == len(set(touched))


@MANY
@given(uses(), st.lists(EXTENTS, max_size=2))
def test_whole(use, shape):
    buffer = Buffer("x", "f32", tuple(shape), "work")
    if whole(use, buffer):
        for point in points():
            assert sorted(elements(use, point)) == list(range(size(buffer, point)))


@MANY
@given(pairs())
def test_apart(pair):
    one, other = pair
    assert apart(one, other) == apart(other, one)
    if apart(one, other):
        for point in points():
            assert not set(elements(one, point)) & set(elements(other, point))


@MANY
@given(pairs())
def test_within_row(pair):
    load, store = pair
    if within_row(load, store):
        assert store.phase < load.phase
        for point in points():
            for rows in itertools.product(*(range(at(n, point)) for n in load.space[:-1])):
                assert set(elements(load, point, rows)) <= set(elements(store, point, rows))


@MANY
@given(pairs())
def test_same_element(pair):
    first, then = pair
    if same_element(first, then):
        for point in points():
            mine, theirs = list(elements(first, point)), list(elements(then, point))
            assert mine == theirs
            assert len(mine) == len(set(mine))


def use(*strides, space=(4, 8), at=0, phase=0, body=True, position=0, kind="load"):
    return Use(Access("x", strides, at), space, kind, phase, body, position, None)


def test_the_usual_accesses_are_recognised():
    buffer = Buffer("x", "f32", (4, 8), "work")
    assert inside(use(8, 1), buffer)
    assert once(use(8, 1))
    assert whole(use(8, 1), buffer)
    assert whole(use(1, 8, space=(8, 4)), buffer)
    assert whole(use(8, -1, at=7), buffer)
    assert not whole(use(8, 1, space=(4, 7)), buffer)
    assert not once(use(8, 0))
    assert once(use(8, 0, space=(4, 1)))
    assert once(use(B, 1, space=(4, B)))
    assert whole(use(B, 1, space=(4, B)), Buffer("x", "f32", (4, B), "work"))
    assert apart(use(8, 1, space=(4, 4)), use(8, 1, space=(4, 4), at=4))
    assert apart(use(8, 2, space=(4, 4)), use(8, 2, space=(4, 4), at=1))
    assert apart(use(8, 1, space=(2, 8)), use(8, 1, space=(2, 8), at=16))
    assert not apart(use(8, 1), use(8, 1, at=1))
    assert within_row(use(8, -1, at=7, phase=1), use(8, 1))
    assert within_row(use(8, 0, at=3, phase=1), use(8, 1))
    assert not within_row(use(8, 1), use(8, 1))
    assert not within_row(use(8, 1, at=1, phase=1), use(8, 1))
    anywhere = use(8, 1)._replace(access=Access("x", (8, 1), 0, (("v", 1),)), bounds={"v": (0, 1)})
    assert not within_row(use(8, 1, phase=1), anywhere)
    assert same_element(use(8, 1), use(8, 1, position=1))
    assert same_element(use(8, 1, position=5), use(8, 1, phase=1))
    assert same_element(use(8, 3, space=(4, 1), body=False), use(8, 0, space=(4, 1)))
    assert not same_element(use(8, 1), use(8, 1))
    assert not same_element(use(8, 1, phase=1), use(8, 1))
    assert not same_element(use(8, 1, kind="operand"), use(8, 1, phase=1))


def test_extents_between_the_corners_count():
    # 2 + 5 > 2 * 3 - 1: the first extent at which the range of v is not empty decides.
    late = Use(Access("x", (0,), 5, (("v", 1),)), (1,), "load", 0, True, 0, None, {"v": (2, B)})
    assert not inside(late, Buffer("x", "f32", (replace(B, factor=2),), "work"))
    # Inside at 1, 2 and 12, outside from 3 to 11, since the size grows with the square.
    wide = replace(B, bound=12)
    square = Use(Access("x", (replace(wide, factor=11), 25)), (wide, wide), "load", 0, True, 0, None)
    assert not inside(square, Buffer("x", "f32", (wide, wide, 12), "work"))


def test_contiguous_strides():
    assert contiguous(()) == ()
    assert contiguous((2, B, 3)) == (replace(B, factor=3), 3, 1)
    assert contiguous((B, B)) == (B, 1)
    with pytest.raises(ValueError, match="product of two run-time extents"):
        contiguous((2, B, B))

"""Functions of the array API with arguments drawn at random: shapes, axes, shifts, repetitions, against NumPy.

`CALLS` has for each function how its arguments are drawn; what NumPy has not is put together from what it has.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtensor as gt

from .alike import agrees, draw
from .standard import DTYPES, dtypes

PROPERTY = settings(max_examples=settings.default.max_examples // 2)

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
FULL = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
"""Shapes, and such without axes of extent 0, with one axis at least."""


def an_axis(shape):
    return st.integers(-len(shape), len(shape) - 1)


def some_axes(shape, least=0):
    unique = st.lists(an_axis(shape), min_size=least, max_size=len(shape), unique_by=lambda i: i % len(shape))
    return unique.map(tuple)


def one_or_more(shape):
    return st.none() | an_axis(shape) | some_axes(shape) if shape else st.none()


def permutations(shape):
    return st.permutations(range(len(shape))).map(tuple)


@st.composite
def moves(draw, shape):
    source = draw(some_axes(shape))
    return source, draw(st.permutations(range(len(shape))))[: len(source)]


@st.composite
def new_shapes(draw, shape):
    """A shape of as many elements, one extent perhaps as -1."""
    size = math.prod(shape)
    extents = []
    while size > 1:
        n = draw(st.sampled_from([k for k in range(2, size + 1) if size % k == 0]))
        extents.append(n)
        size //= n
    extents = draw(st.permutations([*extents, *[1] * draw(st.integers(0, 2))]))
    if extents and draw(st.booleans()):
        extents[draw(st.integers(0, len(extents) - 1))] = -1
    return tuple(extents)


@st.composite
def rolls(draw, shape):
    axes = draw(one_or_more(shape))
    shifts = st.integers(-9, 9)
    if isinstance(axes, tuple):
        return draw(st.lists(shifts, min_size=len(axes), max_size=len(axes)).map(tuple) | shifts), {"axis": axes}
    return draw(shifts), {"axis": axes}


def keywords(**given):
    return st.fixed_dictionaries({}, optional=given)


CALLS = {
    "broadcast_to": (SHAPES, lambda s: st.tuples(st.lists(st.integers(0, 2), max_size=2).map(lambda n: (*n, *s)))),
    "expand_dims": (SHAPES, lambda s: st.tuples(st.integers(-len(s) - 1, len(s)))),
    "flip": (SHAPES, lambda s: st.tuples(keywords(axis=one_or_more(s)))),
    "moveaxis": (FULL, lambda s: moves(s)),
    "permute_dims": (SHAPES, lambda s: st.tuples(permutations(s))),
    "repeat": (FULL, lambda s: st.tuples(st.integers(0, 3), keywords(axis=st.none() | an_axis(s)))),
    "reshape": (FULL, lambda s: st.tuples(new_shapes(s))),
    "roll": (FULL, lambda s: rolls(s)),
    "tile": (SHAPES, lambda s: st.tuples(st.lists(st.integers(0, 3), max_size=4).map(tuple))),
    "tril": (FULL.filter(lambda s: len(s) > 1), lambda s: st.tuples(keywords(k=st.integers(-5, 5)))),
    "triu": (FULL.filter(lambda s: len(s) > 1), lambda s: st.tuples(keywords(k=st.integers(-5, 5)))),
    "unstack": (FULL, lambda s: st.tuples(keywords(axis=an_axis(s)))),
    "all": (SHAPES, lambda s: st.tuples(keywords(axis=one_or_more(s), keepdims=st.booleans()))),
    "any": (SHAPES, lambda s: st.tuples(keywords(axis=one_or_more(s), keepdims=st.booleans()))),
    "count_nonzero": (SHAPES, lambda s: st.tuples(keywords(axis=one_or_more(s), keepdims=st.booleans()))),
    "max": (FULL, lambda s: st.tuples(keywords(axis=one_or_more(s), keepdims=st.booleans()))),
    "min": (FULL, lambda s: st.tuples(keywords(axis=one_or_more(s), keepdims=st.booleans()))),
    "argmax": (FULL, lambda s: st.tuples(keywords(axis=st.none() | an_axis(s), keepdims=st.booleans()))),
    "argmin": (FULL, lambda s: st.tuples(keywords(axis=st.none() | an_axis(s), keepdims=st.booleans()))),
    "sort": (FULL, lambda s: st.tuples(keywords(axis=an_axis(s), stable=st.just(True)))),
    "argsort": (FULL, lambda s: st.tuples(st.fixed_dictionaries({"axis": an_axis(s), "stable": st.just(True)}))),
    "diff": (FULL, lambda s: st.tuples(keywords(axis=an_axis(s), n=st.integers(1, 3)))),
}
"""Functions: the shapes they take, and strategies of their further arguments, the last of which may be keywords."""


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    shapes, arguments = CALLS[name]

    @PROPERTY
    @given(data=st.data(), shape=shapes, dtype=st.sampled_from(DTYPES))
    def holds(data, shape, dtype):
        args = data.draw(arguments(shape))
        keys = args[-1] if args and isinstance(args[-1], dict) else {}
        args = args[: len(args) - bool(args and isinstance(args[-1], dict))]
        x = draw(shape, dtype)
        wanted = getattr(np, name)(x, *args, **keys)
        got = getattr(gt, name)(gt.asarray(x), *args, **keys)
        agrees(got, wanted if isinstance(wanted, tuple) else np.asarray(wanted), about=f"{name} {shape} {args} {keys}")

    holds()


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_joins(name):
    @PROPERTY
    @given(data=st.data(), shape=FULL, dtype=st.sampled_from(DTYPES))
    def holds(data, shape, dtype):
        axis = data.draw(an_axis(shape))
        extents = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
        cut = {"concat": lambda n: tuple(n if i == axis % len(shape) else m for i, m in enumerate(shape))}
        parts = [draw(cut.get(name, lambda n: shape)(n), dtype, seed) for seed, n in enumerate(extents)]
        agrees(getattr(gt, name)([*map(gt.asarray, parts)], axis=axis), getattr(np, name)(parts, axis=axis))

    holds()


@PROPERTY
@given(data=st.data(), shape=FULL, dtype=st.sampled_from(DTYPES))
def test_squeeze(data, shape, dtype):
    shape = tuple(1 if data.draw(st.booleans()) else n for n in shape)
    axes = data.draw(an_axis(shape) | some_axes(shape))
    x = draw(shape, dtype)
    listed = axes if isinstance(axes, tuple) else (axes,)
    if all(shape[i] == 1 for i in listed):
        agrees(gt.squeeze(gt.asarray(x), axes), np.squeeze(x, axes))
    else:
        with pytest.raises(ValueError, match="extent 1"):
            gt.squeeze(gt.asarray(x), axes)


@PROPERTY
@given(data=st.data(), shape=FULL, dtype=st.sampled_from(DTYPES))
def test_takes(data, shape, dtype):
    axis = data.draw(an_axis(shape))
    n = shape[axis]
    x = draw(shape, dtype)
    index = np.array(
        data.draw(st.lists(st.integers(-n, n - 1), max_size=5)), data.draw(st.sampled_from(["int64", "int32"]))
    )
    agrees(gt.take(gt.asarray(x), gt.asarray(index), axis=axis), np.take(x, index, axis=axis))
    along = [data.draw(st.sampled_from([m, 1])) for m in shape]
    along[axis] = data.draw(st.integers(0, 5))
    places = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-n, n, along)
    agrees(gt.take_along_axis(gt.asarray(x), gt.asarray(places), axis=axis), np.take_along_axis(x, places, axis))


def small(shape, dtype, seed):
    """Small whole numbers, whose sums of products are exact in every dtype."""
    return np.random.default_rng([seed, *shape]).integers(0, 3, shape).astype(dtype)


@st.composite
def stacks(draw):
    """Shapes of two operands of a matrix product: vectors, matrices, and stacks that broadcast."""
    m, k, n = (draw(st.integers(0, 3)) for _ in "mkn")
    lead = draw(st.lists(st.integers(0, 3), max_size=2))
    leads = [[draw(st.sampled_from([e, 1])) for e in lead[draw(st.integers(0, len(lead))) :]] for _ in "ab"]
    left = draw(st.sampled_from([(k,), (*leads[0], m, k)]))
    right = draw(st.sampled_from([(k,), (*leads[1], k, n)]))
    return left, right


@PROPERTY
@given(shapes=stacks(), dtype=st.sampled_from(dtypes("numeric")))
def test_matmul(shapes, dtype):
    x, y = (small(shape, dtype, seed) for seed, shape in enumerate(shapes))
    agrees(gt.matmul(gt.asarray(x), gt.asarray(y)), np.asarray(np.matmul(x, y)), about=f"{shapes}")


@PROPERTY
@given(data=st.data(), dtype=st.sampled_from(dtypes("numeric")))
def test_tensordot(data, dtype):
    one = data.draw(SHAPES)
    count = data.draw(st.integers(0, len(one)))
    rest = data.draw(st.lists(st.integers(0, 3), max_size=2))
    if data.draw(st.booleans()):
        other, axes = (*one[len(one) - count :], *rest), count
    else:
        left = data.draw(st.permutations(range(len(one))))[:count]
        other = data.draw(st.permutations([(i, one[i]) for i in left] + [(None, n) for n in rest]))
        right = [[i for i, _ in other].index(i) for i in left]
        other = tuple(n for _, n in other)
        axes = ([i - len(one) if data.draw(st.booleans()) else i for i in left], right)
    x, y = small(one, dtype, 0), small(other, dtype, 1)
    wanted = np.asarray(np.tensordot(x, y, axes=axes))
    agrees(gt.tensordot(gt.asarray(x), gt.asarray(y), axes=axes), wanted, about=f"{one} {other} {axes}")


@PROPERTY
@given(data=st.data(), shape=FULL, dtype=st.sampled_from(dtypes("numeric")))
def test_vecdot(data, shape, dtype):
    lead = [tuple(data.draw(st.sampled_from([n, 1])) for n in shape[:-1]) for _ in "ab"]
    axis = -data.draw(st.integers(1, len(shape)))
    shapes = [(*s[: len(shape) + axis], shape[-1], *s[len(shape) + axis :]) for s in lead]
    x, y = (small(s, dtype, seed) for seed, s in enumerate(shapes))
    agrees(
        gt.vecdot(gt.asarray(x), gt.asarray(y), axis=axis), np.asarray(np.vecdot(x, y, axis=axis)), about=f"{shapes}"
    )


@PROPERTY
@given(data=st.data(), dtype=st.sampled_from(dtypes("integer")))
def test_integers_divide_as_in_python(data, dtype):
    info = np.iinfo(dtype)
    numbers = st.integers(int(info.min), int(info.max))
    x, y = data.draw(numbers), data.draw(numbers.filter(bool))
    if not info.min <= x // y <= info.max:
        return
    a, b = (gt.asarray(n, dtype=getattr(gt, dtype)) for n in (x, y))
    assert (int(a // b), int(a % b)) == (x // y, x % y)
    n = data.draw(st.integers(0, 2 * info.bits))
    if n < info.bits:
        assert int(a >> gt.asarray(n, dtype=a.dtype)) == x >> n
    assert int(~a) == (~x if info.min else info.max - x)

"""Arithmetic on axes for the view rules: which axes hold the same elements before and after.

Shapes come in and go out; nothing here knows graphs. A run-time extent (`Dim`) equals only itself and is
never 1. Law: where a question has no answer for all extents, the answer is None and no rule applies.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Dim, Shape, extent_bound, shape_size

AxisGroups = list[tuple[tuple[int, ...], tuple[int, ...]]]


def without_leading_ones(shape: Shape) -> Shape:
    """What broadcasting sees of a shape.

    >>> without_leading_ones((1, 1, 3, 1))
    (3, 1)
    """
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return shape[first:]


def aligned(shape: Shape, rank: int) -> Shape:
    """A shape with leading unit axes up to that rank, as broadcasting lines it up.

    >>> aligned((3,), 3)
    (1, 1, 3)
    """
    return (1,) * (rank - len(shape)) + shape


def spread_axes(small: Shape, big: Shape) -> set[int]:
    """The axes of `big` along which a broadcast from `small` repeats elements.

    >>> sorted(spread_axes((3, 1), (2, 3, 4)))
    [0, 2]
    """
    return {i for i, (n, m) in enumerate(zip(aligned(small, len(big)), big, strict=True)) if n == 1 and m != 1}


def swaps_last_two(axes: Sequence[int]) -> bool:
    """Whether a transpose exchanges the last two axes and no others.

    >>> swaps_last_two((0, 2, 1)), swaps_last_two((2, 1, 0))
    (True, False)
    """
    n = len(axes)
    return n >= 2 and tuple(axes) == (*range(n - 2), n - 1, n - 2)


def groups(old: Shape, new: Shape) -> AxisGroups | None:
    """The finest pairs (axes of old, axes of new) that a reshape keeps together; None for empty arrays.

    A unit axis at the edge of a pair stands alone, against nothing.

    >>> groups((6, 5), (2, 3, 1, 5))
    [((0,), (0, 1)), ((), (2,)), ((1,), (3,))]
    """
    if 0 in map(extent_bound, (*old, *new)):
        return None
    result: AxisGroups = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == 1:
            result.append(((i,), ()))
            i += 1
        elif j < len(new) and new[j] == 1:
            result.append(((), (j,)))
            j += 1
        else:
            first, start = i, j
            i, j = i + 1, j + 1
            while shape_size(old[first:i]) != shape_size(new[start:j]):
                if _below(old[first:i], new[start:j]):
                    i += 1
                else:
                    j += 1
            result.append((tuple(range(first, i)), tuple(range(start, j))))
    return result


def _below(a: Shape, b: Shape) -> bool:
    """Whether the first product is the smaller one; a run-time extent counts as more than any constant."""
    first, second = (
        (isinstance(size, Dim), size.factor if isinstance(size, Dim) else size)
        for size in (shape_size(a), shape_size(b))
    )
    return first < second


def regrouped(small: Shape, old: Shape, new: Shape) -> Shape | None:
    """The shape in which an array of shape `small`, broadcast to `old`, broadcasts to a reshape `new` of that.

    >>> regrouped((5,), (6, 5), (2, 3, 5)), regrouped((6, 1), (6, 5), (2, 3, 5)), regrouped((3, 1), (3, 2), (6,))
    ((5,), (2, 3, 1), None)
    """
    pairs = groups(old, new)
    if pairs is None:
        return None
    full = aligned(small, len(old))
    extents: list[int | Dim] = [1] * len(new)
    for before, after in pairs:
        if all(full[i] == old[i] for i in before):
            for j in after:
                extents[j] = new[j]
        elif any(full[i] != 1 for i in before):
            return None
    shape = tuple(extents)
    fits = without_leading_ones(shape) == without_leading_ones(small) and len(small) <= len(new)
    return small if fits else without_leading_ones(shape)


def reduced_before(axis: Sequence[int], old: Shape, new: Shape) -> tuple[int, ...] | None:
    """The axes of `old` to reduce instead of the axes `axis` of a reshape `new` of it.

    Unit axes of `old` that the reshape drops are reduced too: folding one element is folding none.

    >>> reduced_before((0, 1), (6, 5), (2, 3, 5)), reduced_before((0,), (6, 5), (2, 3, 5))
    ((0,), None)
    """
    pairs = groups(old, new)
    if pairs is None:
        return None
    result: list[int] = []
    for before, after in pairs:
        folded = [j in axis for j in after if new[j] != 1]
        if all(folded):
            result += before
        elif any(folded):
            return None
    return tuple(result)

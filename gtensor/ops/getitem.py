"""`x[key]` as in NumPy: integers, slices with any step, ellipsis, None, integer arrays, and masks outside a trace.

A key is read into a `Selection`: a view (slices, reversed axes, a shape) and the integer arrays, which together
address the elements behind it. `spread` is the way back for keys without arrays. Laws: the result's shape is
NumPy's; negative integers count from the end; an index out of range raises IndexError, from the call where it
is computed; a mask while tracing is refused, since the shape would depend on its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DTypeError, IndexingError, OptionError, ShapeError, TraceError
from ..prim import public
from ..tensor import STATE, Tensor, apply, as_tensor, cast, meet
from ..types import Dim, Type, bool_, int64, shape_size
from .index import in_range, take
from .layout import flip, slice_length

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Places:
    """An integer array of a key; `extent` is that of its axis where a mask, which must fit, was one.

    A mask without axes addresses a new axis: `new`.
    """

    index: Tensor
    extent: int | None = None
    new: bool = False


@dataclass(frozen=True)
class Selection:
    """A key for arrays of one type: start, stop, step of each axis, the reversed ones, and the shape of that view.

    `arrays` are the integer arrays with the axes of the view that they address; `front` says that theirs come
    first in the result, since integers and arrays stand apart in the key.
    """

    start: tuple[Any, ...]
    stop: tuple[Any, ...]
    step: tuple[int, ...]
    flips: tuple[int, ...]
    shape: tuple[Any, ...]
    arrays: tuple[tuple[int, Tensor], ...]
    front: bool


def selection(type: Type, key: Any) -> Selection:
    """What a key selects of an array; raises IndexingError, DTypeError, ShapeError or TraceError."""
    given = list(_parts(key if isinstance(key, tuple) else (key,)))
    start: list[Any] = []
    stop: list[Any] = []
    step: list[int] = []
    flips: list[int] = []
    shape: list[Any] = []
    arrays: list[tuple[int, Tensor]] = []
    for part in _full_key(given, type.ndim):
        if part is None:
            shape.append(1)
            continue
        if isinstance(part, Places) and part.new:
            arrays.append((len(shape), part.index))
            shape.append(1)
            continue
        axis = len(start)
        n = type.shape[axis]
        if isinstance(n, Dim) and isinstance(part, (int, np.integer)):
            part = Places(as_tensor(int(part)))
        if isinstance(part, Places):
            if part.extent not in (None, 0, n):
                raise IndexingError(f"a mask of extent {part.extent} does not fit axis {axis} of {n}")
            arrays.append((len(shape), part.index))
        first, last, stride, reverse = _bounds(slice(None) if isinstance(part, Places) else part, n)
        if reverse:
            flips.append(axis)
        if isinstance(part, (Places, slice)):
            shape.append(n if isinstance(n, Dim) else slice_length(first, last, stride))
        start.append(first)
        stop.append(last)
        step.append(stride)
    return Selection(
        tuple(start), tuple(stop), tuple(step), tuple(flips), tuple(shape), tuple(arrays),
        bool(arrays) and _is_split(given),
    )  # fmt: skip


def _parts(key: tuple[Any, ...]) -> Iterator[Any]:
    """The parts of a key with arrays as `Places`; a mask becomes one for each of its axes."""
    for part in key:
        if not _is_array(part):
            yield part
            continue
        empty = isinstance(part, list) and not part
        index = as_tensor(np.zeros(0, np.int64) if empty else part)
        if index.type.dtype == bool_:
            yield from _where_true(index, isinstance(part, (list, bool, np.bool_)))
        else:
            yield Places(index)


def _is_array(part: Any) -> bool:
    if isinstance(part, Tensor):
        return part.data is None or part.ndim > 0 or part.type.dtype == bool_
    return isinstance(part, (list, np.ndarray, bool, np.bool_))


def _where_true(mask: Tensor, written_out: bool) -> Iterator[Places]:
    """The places of the true elements along each axis of a mask; one without axes is one element of a new axis.

    While tracing only a mask that is written out, as a list or True, is known.
    """
    if mask.data is None or (STATE.scope is not None and not written_out):
        raise TraceError(
            "the shape of x[mask] depends on the values of the mask, which are not known while tracing",
            hint="use gt.where, or x.at[mask].set(value), which keep the shape",
        )
    known = mask.require_alive()
    if mask.ndim == 0:
        return iter([Places(as_tensor(np.zeros(int(known), np.int64)), new=True)])
    return (Places(as_tensor(found), n) for found, n in zip(np.nonzero(known), known.shape, strict=True))


def _is_split(key: list[Any]) -> bool:
    """Whether integers and arrays stand apart in a key: NumPy then puts the array's axes in front."""
    places = [i for i, part in enumerate(key) if not (part is None or part is Ellipsis or isinstance(part, slice))]
    return places[-1] - places[0] >= len(places)


def _full_key(key: list[Any], ndim: int) -> list[Any]:
    """The key with its ellipsis spelled out, one entry per axis beside the new ones."""
    used = sum(not (k is None or k is Ellipsis or (isinstance(k, Places) and k.new)) for k in key)
    if used > ndim:
        raise IndexingError(f"{used} indices for an array with {ndim} axes")
    if sum(k is Ellipsis for k in key) > 1:
        raise IndexingError("an index can have one ellipsis")
    fill = [slice(None)] * (ndim - used)
    at = next((i for i, k in enumerate(key) if k is Ellipsis), None)
    if at is None:
        return [*key, *fill]
    return [*key[:at], *fill, *key[at + 1 :]]


def _bounds(part: Any, n: Any) -> tuple[Any, Any, int, bool]:
    """(start, stop, step, reversed) of an integer or a slice of an axis."""
    if isinstance(part, slice):
        if isinstance(n, Dim):
            if part.start is not None or part.stop is not None or part.step not in (None, 1, -1):
                raise ShapeError(f"of the run-time axis {n} a slice takes all, or x[::-1]")
            return 0, n, 1, part.step == -1
        a, b, k = _indices(part, n)
        if k > 0:
            return a, max(a, b), k, False
        count = max(0, -((b - a) // -k)) if b < a else 0
        return (a + (count - 1) * k, a + 1, -k, True) if count else (0, 0, 1, False)
    if not hasattr(part, "__index__"):
        raise DTypeError(f"an index is an integer, slice, ellipsis, None or integer array, not {part!r}")
    i = int(part.__index__())
    if not -n <= i < n:
        raise IndexingError(f"index {i} is out of range for an axis of {n}")
    return i % n, i % n + 1, 1, False


def _indices(part: slice, n: int) -> tuple[int, int, int]:
    try:
        return part.indices(n)
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"a slice holds integers and None, not {part}") from None
    except ValueError:
        raise OptionError("the step of a slice must not be 0") from None


# ---- reading ---------------------------------------------------------------------------------------------


@public
def getitem(x: Any, key: Any, /) -> Tensor:
    """x[key] for integers, slices, ellipsis, None, integer arrays and masks, mixed as in NumPy.

    Several arrays broadcast and address elements together. Raises IndexError for an integer out of range or
    too many of them, DTypeError for another kind of index, TraceError for a mask while tracing.

    >>> import gtensor as gt
    >>> x = gt.arange(6).reshape(2, 3)
    >>> x[:, ::-2]
    Tensor([[2, 0],
            [5, 3]], dtype=int64)
    >>> x[[0, 1], [2, 0]], x[x > 3]
    (Tensor([2, 3], dtype=int64), Tensor([4, 5], dtype=int64))
    """
    tensor = as_tensor(x)
    chosen = selection(tensor.type, key)
    out = apply("slice", tensor, start=chosen.start, stop=chosen.stop, step=chosen.step)
    out = flip(out, chosen.flips) if chosen.flips else out
    out = apply("reshape", out, shape=chosen.shape)
    if not chosen.arrays:
        return out
    axes = [at for at, _ in chosen.arrays]
    out, at, index = _one_axis(out, axes, [index for _, index in chosen.arrays])
    out = take(out, index, axis=at)
    if not chosen.front:
        return out
    order = range(at, at + index.ndim)
    return apply("transpose", out, axes=(*order, *(i for i in range(out.ndim) if i not in order)))


def _one_axis(x: Tensor, axes: list[int], arrays: list[Tensor]) -> tuple[Tensor, int, Tensor]:
    """Axes that several arrays address together joined into one, and the array of places in it."""
    if len(axes) == 1:
        return x, axes[0], arrays[0]
    shape = x.shape
    sizes = [shape[axis] for axis in axes]
    counted = meet(*(_counted(index, n) for index, n in zip(arrays, sizes, strict=True)))
    places = as_tensor(0)
    for n, index in zip(sizes, counted, strict=True):
        places = places * n + index
    first = axes[0]
    after = [i for i in range(first, x.ndim) if i not in axes]
    moved = apply("transpose", x, axes=(*range(first), *axes, *after))
    joined = (*shape[:first], shape_size(sizes), *(shape[i] for i in after))
    return apply("reshape", moved, shape=joined), first, places


def _counted(index: Tensor, n: Any) -> Tensor:
    """Indices of an axis counted from the front, checked."""
    strong = in_range(index, n)
    if isinstance(n, Dim):
        return apply("check_index", strong, low=0, high=n)
    checked = apply("check_index", strong, low=-n, high=n)
    return apply("remainder", cast(checked, int64), n)


# ---- the way back ----------------------------------------------------------------------------------------


def spread(values: Tensor, chosen: Selection, type: Type) -> Tensor:
    """Values of what a key without arrays selects, at their places in an array of zeros of that type."""
    whole = apply("broadcast", values, shape=chosen.shape)
    lengths = tuple(
        n if isinstance(n, Dim) else slice_length(first, last, stride)
        for n, first, last, stride in zip(type.shape, chosen.start, chosen.stop, chosen.step, strict=True)
    )
    whole = apply("reshape", whole, shape=lengths)
    whole = flip(whole, chosen.flips) if chosen.flips else whole
    start = tuple(0 if n == 0 else first for n, first in zip(lengths, chosen.start, strict=True))
    return apply("pad", whole, shape=type.shape, start=start, step=chosen.step, value=0)

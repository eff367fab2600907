"""Functional updates: `x.at[key].set(values)` and its kind, dynamic_slice, dynamic_update_slice.

Nothing is changed in place: each gives a new array, which compiled code may write into the old one's memory.
Keys without arrays become padded values under a fixed mask, masks become `where`, integer arrays become
scatters over the flattened array. Law: what is not addressed keeps its bits and its whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, bool_, int64, normalize_axis
from .arithmetic import add, maximum, minimum, multiply, where
from .getitem import getitem, selection, spread
from .index import take

Pair = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Way:
    """How values meet what is there: the scatter of several at one place, and the function of one of each."""

    scatter: str
    pair: Pair


SET = Way("scatter_set", lambda old, new: new)
ADD = Way("scatter_add", add)
MULTIPLY = Way("scatter_mul", multiply)
MIN = Way("scatter_min", minimum)
MAX = Way("scatter_max", maximum)


class At:
    """What `x.at` gives: `x.at[key]` are the places that an update writes to."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Places:
        return Places(self._x, key)


class Places:
    """Elements of an array, `x.at[key]`; each update gives a new array in which they are others.

    The values are converted to the array's dtype and broadcast to the shape of x[key]. Where integer arrays
    name a place several times, all values meet there, in their order; of several that are set, the last stays.
    A mask is a key while tracing too, for values that broadcast to the axes behind it. Raises IndexError for
    an index out of range.
    """

    def __init__(self, x: Tensor, key: Any) -> None:
        self._x = x
        self._key = key

    def get(self) -> Tensor:
        """x[key]."""
        return getitem(self._x, self._key)

    def set(self, values: Any) -> Tensor:
        """x with those elements replaced."""
        return _updated(self._x, self._key, values, SET)

    def add(self, values: Any) -> Tensor:
        """x with values added to those elements."""
        return _updated(self._x, self._key, values, ADD)

    def multiply(self, values: Any) -> Tensor:
        """x with those elements multiplied by values."""
        return _updated(self._x, self._key, values, MULTIPLY)

    mul = multiply

    def min(self, values: Any) -> Tensor:
        """x with values in place of those elements that are larger."""
        return _updated(self._x, self._key, values, MIN)

    def max(self, values: Any) -> Tensor:
        """x with values in place of those elements that are smaller."""
        return _updated(self._x, self._key, values, MAX)


@public
def at(x: Any, /) -> At:
    """The functional update of x: `x.at[key].set(values)`, `.add`, `.multiply`, `.min`, `.max`, and `.get()`.

    >>> import gtensor as gt
    >>> gt.zeros(4).at[1:3].set(gt.tensor([5.0, 6.0]))
    Tensor([0., 5., 6., 0.], dtype=float32)
    >>> gt.zeros(3).at[[0, 2, 2]].add(1.0)
    Tensor([1., 0., 2.], dtype=float32)
    """
    return At(as_tensor(x))


def _updated(x: Tensor, key: Any, values: Any, way: Way) -> Tensor:
    new = cast(as_tensor(values), x.type.dtype)
    mask = _mask(key)
    if mask is not None and new.ndim <= x.ndim - mask.ndim:
        return _under_mask(x, mask, new, way)
    chosen = selection(x.type, key)
    if not chosen.arrays:
        fixed = spread(as_tensor(True), chosen, x.type)
        return where(fixed, way.pair(x, spread(new, chosen, x.type)), x)
    flat = _flat(x)
    numbers = apply("reshape", _counters(flat.shape[0]), shape=x.type.shape)
    places = getitem(numbers, key)
    new = apply("broadcast", new, shape=places.type.shape)
    written = apply(way.scatter, flat, _flat(places), _flat(new), axis=0)
    return apply("reshape", written, shape=x.type.shape)


def _flat(x: Tensor) -> Tensor:
    """All elements in one line."""
    return apply("reshape", x, shape=(x.type.size,))


def _counters(n: Any) -> Tensor:
    return apply("iota", shape=(n,), axis=0, dtype=int64)


def _mask(key: Any) -> Tensor | None:
    """The mask that a key consists of."""
    if not isinstance(key, (Tensor, np.ndarray, list)):
        return None
    found = as_tensor(key)
    return found if found.type.dtype == bool_ else None


def _under_mask(x: Tensor, mask: Tensor, new: Tensor, way: Way) -> Tensor:
    shape = x.type.shape
    if mask.type.shape != shape[: mask.ndim]:
        raise ShapeError(f"a mask of shape {mask.type.shape} does not fit the first axes of {x.type}")
    wide = apply("reshape", mask, shape=(*shape[: mask.ndim], *(1,) * (x.ndim - mask.ndim)))
    return where(wide, way.pair(x, apply("broadcast", new, shape=shape)), x)


# ---- slices at computed places ---------------------------------------------------------------------------


def _starts(x: Tensor, starts: Any, sizes: Sequence[Any]) -> list[Tensor]:
    """Where the slice starts along each axis: from the end if negative, then moved so far that it fits."""
    given = [starts[i] for i in range(x.ndim)] if isinstance(starts, Tensor) and starts.ndim else list(starts)
    if len(given) != x.ndim or len(sizes) != x.ndim:
        raise ShapeError(f"a slice of {x.type} has one start and one size per axis")
    found = []
    for start, size, n in zip(map(as_tensor, given), sizes, x.type.shape, strict=True):
        if start.ndim or start.type.dtype.kind not in "iu":
            raise DTypeError(f"a slice starts at integers, not at {start.type}")
        if size != n and (isinstance(n, Dim) or isinstance(size, Dim) or not 0 <= size <= n):
            raise ShapeError(f"a slice of {size} elements does not fit an axis of {n}")
        if isinstance(n, Dim):
            found.append(cast(as_tensor(0), int64))
            continue
        place = cast(start, int64)
        counted = where(place < 0, place + n, place)
        found.append(minimum(maximum(counted, 0), n - size))
    return found


@public
def dynamic_slice(x: Any, start_indices: Any, slice_sizes: Sequence[int], /) -> Tensor:
    """A part of x of fixed sizes at computed places, one start per axis, as `jax.lax.dynamic_slice`.

    A negative start counts from the end; then a slice that would reach over an end is moved inside. Raises
    ShapeError where a size does not fit its axis, DTypeError for starts that are no integers.

    >>> import gtensor as gt
    >>> gt.dynamic_slice(gt.arange(5), (gt.tensor(4),), (2,))
    Tensor([3, 4], dtype=int64)
    """
    tensor = as_tensor(x)
    out = tensor
    for axis, (start, size) in enumerate(zip(_starts(tensor, start_indices, slice_sizes), slice_sizes, strict=True)):
        if size != tensor.type.shape[axis]:
            out = take(out, start + _counters(size), axis=axis)
    return out


@public
def dynamic_update_slice(x: Any, update: Any, start_indices: Any, /) -> Tensor:
    """x with a part replaced at computed places, one start per axis, as `jax.lax.dynamic_update_slice`.

    The starts are those of `dynamic_slice`. Raises ShapeError where the update does not fit.

    >>> import gtensor as gt
    >>> gt.dynamic_update_slice(gt.zeros(4), gt.ones(2), (gt.tensor(9),))
    Tensor([0., 0., 1., 1.], dtype=float32)
    """
    tensor = as_tensor(x)
    new = cast(as_tensor(update), tensor.type.dtype)
    if new.ndim != tensor.ndim:
        raise ShapeError(f"an update of {tensor.type} has as many axes, not {new.ndim}")
    sizes = new.shape
    if any(isinstance(n, Dim) for n in sizes):
        raise ShapeError(f"an update has a fixed shape, not that of {new.type}")
    places = as_tensor(0)
    for axis, (start, n) in enumerate(zip(_starts(tensor, start_indices, sizes), tensor.type.shape, strict=True)):
        along = tuple(sizes[axis] if i == axis else 1 for i in range(new.ndim))
        places = places * n + apply("reshape", start + _counters(sizes[axis]), shape=along)
    written = apply(
        "scatter_set", _flat(tensor), _flat(apply("broadcast", places, shape=sizes)), _flat(new), axis=0
    )  # fmt: skip
    return apply("reshape", written, shape=tensor.type.shape)


@public
def dynamic_index_in_dim(x: Any, index: Any, /, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One element of an axis at a computed place, as `jax.lax.dynamic_index_in_dim`; clamped as `dynamic_slice`.

    >>> import gtensor as gt
    >>> gt.dynamic_index_in_dim(gt.arange(5), 9, keepdims=False)
    Tensor(4, dtype=int64)
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    shape = tensor.shape
    starts = [index if i == at else 0 for i in range(tensor.ndim)]
    sizes = [1 if i == at else n for i, n in enumerate(shape)]
    out = dynamic_slice(tensor, starts, sizes)
    return out if keepdims else apply("reshape", out, shape=tuple(n for i, n in enumerate(shape) if i != at))

"""Sliding windows: what convolution and pooling are made of.

`windows` shows every window of the last axes as a view that repeats elements without copying them; `overlap`
adds windows back to where they came from. Each is the other's derivative, so there are derivatives of every
order; products and reductions of windows are convolutions and pools. Law: `overlap` adds in a fixed order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..prim import Prim, Sample, register
from ..tensor import Tensor, apply
from ..types import Dim, Shape, Type
from .layout import ALL
from .records import move_axis, uniform

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def span(window: int, dilation: int) -> int:
    """How many elements a window reaches over."""
    return (window - 1) * dilation + 1


def _windows_type(x: Type, window: Sizes, step: Sizes, dilation: Sizes) -> Type:
    first = x.ndim - len(window)
    counts: list[int] = []
    for n, size, move, spread in zip(x.shape[first:], window, step, dilation, strict=True):
        if isinstance(n, Dim):
            raise ShapeError(f"windows cannot slide along a run-time axis of {x}")
        if n < span(size, spread):
            raise ShapeError(f"a window of {span(size, spread)} does not fit an axis of {n}")
        counts.append((n - span(size, spread)) // move + 1)
    return x.with_shape([*x.shape[:first], *window, *counts])


def _windows_strides(
    x: Type, strides: tuple[Any, ...], offset: Any, out: Type, window: Sizes, step: Sizes, dilation: Sizes
) -> tuple[tuple[Any, ...], Any]:
    first = x.ndim - len(window)
    own = strides[first:]
    inside = (s * k for s, k in zip(own, dilation, strict=True))
    between = (s * k for s, k in zip(own, step, strict=True))
    return (*strides[:first], *inside, *between), offset


def _windows_array(x: Array, window: Sizes, step: Sizes, dilation: Sizes) -> Array:
    axes = tuple(range(x.ndim - len(window), x.ndim))
    spans = tuple(map(span, window, dilation))
    every = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    taken: Any = (..., *(slice(None, None, k) for k in step), *(slice(None, None, k) for k in dilation))
    found = every[taken]
    d = len(window)
    order = (*range(x.ndim - d), *range(x.ndim, x.ndim + d), *axes)
    return np.ascontiguousarray(np.transpose(found, order))


def _overlap_type(x: Type, shape: Sizes, step: Sizes, dilation: Sizes) -> Type:
    d = len(shape)
    lead, window, counts = x.shape[: x.ndim - 2 * d], x.shape[x.ndim - 2 * d : x.ndim - d], x.shape[x.ndim - d :]
    for n, size, count, move, spread in zip(shape, window, counts, step, dilation, strict=True):
        if isinstance(size, Dim) or isinstance(count, Dim):
            raise ShapeError(f"windows along a run-time axis of {x} cannot overlap")
        if size and count and (count - 1) * move + span(size, spread) > n:
            raise ShapeError(f"{count} windows of {size} do not fit an axis of {n}")
    return x.with_shape([*lead, *shape])


def _overlap_array(x: Array, shape: Sizes, step: Sizes, dilation: Sizes) -> Array:
    d = len(shape)
    window, counts = x.shape[x.ndim - 2 * d : x.ndim - d], x.shape[x.ndim - d :]
    every: Any = (slice(None),) * d
    out = np.zeros((*x.shape[: x.ndim - 2 * d], *shape), x.dtype)
    for at in itertools.product(*map(range, window)):
        first = [i * k for i, k in zip(at, dilation, strict=True)]
        stop = [a + (n - 1) * k + 1 for a, n, k in zip(first, counts, step, strict=True)]
        to: Any = (..., *map(slice, first, stop, step))
        if 0 not in counts:
            out[to] += x[(..., *at, *every)]
    return out


def _overlap_place(x: Type, shape: Sizes, step: Sizes, dilation: Sizes) -> tuple[Any, ...]:
    """The strides of the operand's axes in the dense result."""
    d = len(shape)
    whole = Type((*x.shape[: x.ndim - 2 * d], *shape), x.dtype)
    dense: list[Any] = [1]
    for n in reversed(whole.shape[1:]):
        dense.insert(0, dense[0] * n)
    return _windows_strides(whole, tuple(dense), 0, x, tuple(shape), step, dilation)[0]


def _batch(name: str, axes_of: str, groups: int) -> Any:
    def rule(args: Sequence[Tensor], axes: Sequence[int | None], **params: Any) -> tuple[Tensor, int]:
        (x,), (at,) = args, axes
        assert at is not None and x.ndim - 1 >= groups * len(params[axes_of])
        return apply(name, move_axis(x, at, 0, x.ndim - 1), **params), 0

    return rule


def _windows_vjp(g: Tensor, y: Tensor, x: Tensor, window: Sizes, step: Sizes, dilation: Sizes) -> Sequence[Any]:
    return (apply("overlap", g, shape=x.shape[x.ndim - len(window) :], step=step, dilation=dilation),)


def _overlap_vjp(g: Tensor, y: Tensor, x: Tensor, shape: Sizes, step: Sizes, dilation: Sizes) -> Sequence[Any]:
    d = len(shape)
    window = x.shape[x.ndim - 2 * d : x.ndim - d]
    found = apply("windows", g, window=window, step=step, dilation=dilation)
    if found.shape != x.shape:  # the array has room for more windows than there are
        stop = (*found.type.shape[: found.ndim - d], *x.shape[x.ndim - d :])
        found = apply("slice", found, start=(0,) * found.ndim, stop=stop, step=(1,) * found.ndim)
    return (found,)


def _sample(inner: Shape, dtypes: tuple[str, ...] = ("f",), **params: Sizes) -> Sample:
    return Sample((uniform(shape=tuple(inner)),), params, dtypes=dtypes)  # type: ignore[arg-type]


register(
    Prim(
        "windows", "view", _windows_type, _windows_array, vjp=_windows_vjp, batch=_batch("windows", "window", 1),
        strides=_windows_strides, exact=True,
        samples=(
            _sample((2, 5, 6), ALL, window=(3, 2), step=(1, 2), dilation=(1, 1)),
            _sample((7,), window=(3,), step=(2,), dilation=(2,)),
            _sample((2, 3, 4), window=(1, 4), step=(1, 1), dilation=(1, 1)),
        ),
        flops=0, doc="Every window of the last axes: [..., n] becomes [..., window, how many].",
    )
)  # fmt: skip

register(
    Prim(
        "overlap", "overlap", _overlap_type, _overlap_array, vjp=_overlap_vjp, mask="move",
        batch=_batch("overlap", "shape", 2), place=_overlap_place,
        samples=(
            _sample((2, 3, 2, 3, 3), ("f", "i"), shape=(5, 6), step=(1, 2), dilation=(1, 1)),
            _sample((3, 2), shape=(8,), step=(2,), dilation=(2,)),
            _sample((2, 2, 0), shape=(4,), step=(1,), dilation=(1,)),
        ),
        doc="Windows added to where they lie: [..., window, how many] becomes [..., n].",
    )
)  # fmt: skip

"""Operations that write operands into a new array: pad (public in `padding`), concat, and stack made of it.

`pad` writes an operand into a filled array at a start and a step, which makes it the derivative of
`slice`; `concat` writes operands side by side. In the compiled code producers may write in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..prim import Placement, Prim, Sample, public, register
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, Shape, Type, extent_bound, normalize_axis, promote, show_shapes
from .layout import ALL, expand_dims, flatten
from .records import batch_size, move_axis, uniform

Array = np.ndarray[Any, Any]
Extents = tuple[Any, ...]


def _pad_type(x: Type, shape: Shape, start: Extents, step: Extents, value: float) -> Type:
    for n, whole, first, stride in zip(x.shape, shape, start, step, strict=True):
        if isinstance(n, Dim) or isinstance(whole, Dim):
            if n != whole or (first, stride) != (0, 1):
                raise ShapeError(f"the run-time axis of {x} cannot be padded")
        elif first < 0 or stride < 1 or (n > 0 and first + (n - 1) * stride >= whole):
            raise ShapeError(f"{n} elements from {first} by {stride} do not fit an axis of {whole}")
    return x.with_shape(shape)


def _pad_array(x: Array, shape: tuple[int, ...], start: tuple[int, ...], step: tuple[int, ...], value: float) -> Array:
    out = np.full(shape, value, x.dtype)
    places = [
        slice(a, a + (n - 1) * k + 1, k) if n else slice(0, 0) for a, k, n in zip(start, step, x.shape, strict=True)
    ]
    out[tuple(places)] = x
    return out


def _pad_batch(
    args: Sequence[Tensor], at: Sequence[int | None], shape: Shape, start: Extents, step: Extents, value: float
) -> tuple[Tensor, int]:
    x = move_axis(args[0], at[0], 0, len(shape))
    return apply("pad", x, shape=(x.shape[0], *shape), start=(0, *start), step=(1, *step), value=value), 0


def _pad_vjp(
    g: Tensor, y: Tensor, x: Tensor, shape: Shape, start: Extents, step: Extents, value: float
) -> Sequence[Any]:
    stop = tuple(
        n if isinstance(n, Dim) else (a + (n - 1) * k + 1 if n else a)
        for a, k, n in zip(start, step, x.type.shape, strict=True)
    )
    return (apply("slice", g, start=start, stop=stop, step=step),)


def _pad_sample(
    inner: tuple[int, ...], shape: Shape, start: Extents, step: Extents, value: float, dtypes: tuple[str, ...] = ("f",)
) -> Sample:
    params = {"shape": shape, "start": start, "step": step, "value": value}
    return Sample((uniform(shape=inner),), params, dtypes=dtypes)


register(
    Prim(
        "pad", "assemble", _pad_type, _pad_array, vjp=_pad_vjp, mask="move", batch=_pad_batch,
        place=lambda x, shape, start, step, value: Placement(value, ((start, step),)), exact=True,
        samples=(
            _pad_sample((2, 3), (4, 6), (1, 0), (1, 2), 0.0, ALL),
            _pad_sample((3,), (5,), (2,), (1,), 1.0),
            _pad_sample((0,), (2,), (0,), (1,), 2.0),
        ),
        flops=0, doc="A filled array with the operand written at start + step * i.",
    )
)  # fmt: skip


def _concat_type(*types: Type, axis: int) -> Type:
    if len({t.dtype for t in types}) != 1:
        raise DTypeError("arrays of different dtypes")
    first = types[0]
    if len({(t.ndim, t.shape[:axis], t.shape[axis + 1 :]) for t in types}) != 1:
        raise ShapeError(f"shapes differ elsewhere than along axis {axis}")
    total = 0
    for t in types:
        extent = t.shape[axis]
        if isinstance(extent, Dim):
            raise ShapeError(f"arrays cannot be joined along the run-time axis {axis}")
        total += extent
    return first.with_shape([*first.shape[:axis], total, *first.shape[axis + 1 :]])


def _starts(types: Sequence[Any], axis: int) -> list[int]:
    lengths = [extent_bound(t.shape[axis]) for t in types]
    return [sum(lengths[:i]) for i in range(len(lengths))]


def _concat_vjp(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> Sequence[Any]:
    def part(x: Tensor, at: int) -> Any:
        start = tuple(at if i == axis else 0 for i in range(g.ndim))
        stop = tuple(at + extent_bound(n) if i == axis else n for i, n in enumerate(x.type.shape))
        return lambda: apply("slice", g, start=start, stop=stop, step=(1,) * g.ndim)

    return [part(x, at) for x, at in zip(xs, _starts([x.type for x in xs], axis), strict=True)]


def _concat_place(*types: Type, axis: int) -> Placement:
    n = types[0].ndim
    steps = (1,) * n
    return Placement(
        None, tuple((tuple(at if i == axis else 0 for i in range(n)), steps) for at in _starts(types, axis))
    )


def _concat_batch(args: Sequence[Tensor], at: Sequence[int | None], axis: int) -> tuple[Tensor, int]:
    size = batch_size(args, at)
    ndim = next(x.ndim - (a is not None) for x, a in zip(args, at, strict=True))
    return apply("concat", *(move_axis(x, a, size, ndim) for x, a in zip(args, at, strict=True)), axis=axis + 1), 0


register(
    Prim(
        "concat", "assemble", _concat_type, lambda *xs, axis: np.concatenate(xs, axis), vjp=_concat_vjp, mask="move",
        batch=_concat_batch, place=_concat_place, exact=True,
        samples=(
            Sample((uniform(shape=(2, 3)), uniform(shape=(2, 1))), {"axis": 1}, dtypes=ALL),
            Sample((uniform(shape=(2, 3)), uniform(shape=(0, 3)), uniform(shape=(1, 3))), {"axis": 0}),
        ),
        flops=0, doc="Arrays side by side along an axis.",
    )
)  # fmt: skip


def _joined(arrays: Any) -> list[Tensor]:
    tensors = [as_tensor(x) for x in arrays]
    if not tensors:
        raise ShapeError("there are no arrays to join")
    dtype, weak = promote([t.type for t in tensors])
    return [cast(t, dtype, weak) for t in tensors]


@public
def concat(arrays: Any, /, axis: int | None = 0) -> Tensor:
    """Arrays joined along an existing axis (flattened first if it is None), in their common dtype.

    Along a run-time axis each must have a multiple of one extent. Raises ShapeError where shapes do not fit.
    """
    tensors = _joined(arrays)
    if axis is None:
        tensors, axis = [flatten(t) for t in tensors], 0
    at = normalize_axis(axis, tensors[0].ndim)
    if any(t.ndim > at and isinstance(t.type.shape[at], Dim) for t in tensors):
        return _joined_at_run_time(tensors, at)
    return apply("concat", *tensors, axis=at)


def _joined_at_run_time(tensors: list[Tensor], axis: int) -> Tensor:
    """Arrays joined along an axis of which each has a multiple of one run-time extent: the multiples are an axis."""
    extents = [t.type.shape[axis] for t in tensors if t.ndim > axis]
    first = next(n for n in extents if isinstance(n, Dim))
    if len(extents) < len(tensors) or any(not isinstance(n, Dim) or n.name != first.name for n in extents):
        shapes = show_shapes([t.type.shape for t in tensors])
        raise ShapeError(f"concat: {shapes} cannot be joined along axis {axis}, only multiples of one run-time extent")
    counts = [n.factor for n in extents if isinstance(n, Dim)]
    one = Dim(first.name, first.bound)

    def shaped(t: Tensor, *middle: Any) -> Tensor:
        return apply("reshape", t, shape=(*t.type.shape[:axis], *middle, *t.type.shape[axis + 1 :]))

    joined = apply("concat", *(shaped(t, n, one) for t, n in zip(tensors, counts, strict=True)), axis=axis)
    shape = (*joined.type.shape[:axis], one * sum(counts), *joined.type.shape[axis + 2 :])
    return apply("reshape", joined, shape=shape)


@public
def stack(arrays: Any, /, axis: int = 0) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    tensors = _joined(arrays)
    if len({t.type.shape for t in tensors}) != 1:
        raise ShapeError(f"stack: shapes differ: {show_shapes([t.type.shape for t in tensors])}")
    at = normalize_axis(axis, tensors[0].ndim + 1)
    return apply("concat", *(expand_dims(t, at) for t in tensors), axis=at)

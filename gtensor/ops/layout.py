"""Operations that only rename elements: broadcast, reshape, transpose, slice, flip.

In the compiled code they become strides wherever the strides exist. Shapes may hold one run-time extent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..ir import Atom, Lit
from ..prim import Define, Prim, Sample, public, register
from ..pullback import Part
from ..tensor import Tensor, apply, as_tensor
from ..types import (
    Dim,
    Shape,
    Type,
    bool_,
    broadcast_shapes,
    extent_bound,
    int64,
    normalize_axes,
    normalize_axis,
    shape_size,
    show_shapes,
)
from .records import move_axis, uniform

Array = np.ndarray[Any, Any]
Extents = tuple[Any, ...]
ALL = ("f", "i", "u", "b")


# ---- broadcast -------------------------------------------------------------------------------------------


def require_extents(shape: Shape) -> Shape:
    """The shape; raises ShapeError for a negative extent."""
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ShapeError(f"a shape has no negative extents, as {show_shapes([shape])} does")
    return shape


def _broadcast_type(x: Type, shape: Shape) -> Type:
    require_extents(shape)
    if len(shape) < len(x.shape) or broadcast_shapes([x.shape, shape]) != tuple(shape):
        raise ShapeError(f"{show_shapes([x.shape])} does not broadcast to {show_shapes([shape])}")
    return x.with_shape(shape)


def _broadcast_vjp(g: Tensor, y: Tensor, x: Tensor, shape: Shape) -> Sequence[Any]:
    lead = len(shape) - x.ndim
    axes = tuple(i for i, n in enumerate(shape) if i < lead or (x.type.shape[i - lead] == 1 and n != 1))
    folded = apply("any" if g.type.dtype == bool_ else "sum", g, axis=axes)
    return (apply("reshape", folded, shape=x.type.shape),)


def _broadcast_strides(x: Type, strides: Extents, offset: Any, out: Type, shape: Shape) -> tuple[Extents, Any]:
    lead = out.ndim - x.ndim
    inner = tuple(
        0 if n == 1 and out.shape[lead + i] != 1 else s for i, (n, s) in enumerate(zip(x.shape, strides, strict=True))
    )
    return (0,) * lead + inner, offset


def _broadcast_batch(args: Sequence[Tensor], axes: Sequence[int | None], shape: Shape) -> tuple[Tensor, int]:
    x = move_axis(args[0], axes[0], 0, len(shape))
    return apply("broadcast", x, shape=(x.shape[0], *shape)), 0


register(
    Prim(
        "broadcast", "view", _broadcast_type, lambda x, shape: np.broadcast_to(x, shape), vjp=_broadcast_vjp,
        mask="any", batch=_broadcast_batch, strides=_broadcast_strides, exact=True,
        simplify=lambda ins, define, shape: ins[0] if ins[0].type.shape == shape else None,
        samples=(
            Sample((uniform(shape=(3, 1)),), {"shape": (2, 3, 4)}, dtypes=ALL),
            Sample((uniform(shape=()),), {"shape": (2, 3)}),
            Sample((uniform(shape=(1, 4)),), {"shape": (0, 4)}),
        ),
        flops=0, doc="Repeat along new axes and axes of extent 1.",
    )
)  # fmt: skip


@public
def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """x repeated to that shape by NumPy's rule; raises ShapeError where it does not fit."""
    return apply("broadcast", x, shape=as_shape(shape))


# ---- reshape ---------------------------------------------------------------------------------------------


def as_shape(shape: Any) -> Shape:
    """A shape from an extent or a sequence of extents; raises DTypeError for what is no integer."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    result: list[int | Dim] = []
    for extent in extents:
        if isinstance(extent, Dim):
            result.append(extent)
            continue
        try:
            result.append(int(extent.__index__()))
        except AttributeError:
            raise DTypeError(f"a shape holds integers, not {extent!r}") from None
    return tuple(result)


def _elements(shape: Shape) -> tuple[int, list[str]]:
    """How many elements a shape has: a constant times run-time extents, of which there may be several."""
    constant = math.prod(n.factor if isinstance(n, Dim) else n for n in shape)
    return constant, sorted(n.name for n in shape if isinstance(n, Dim)) if constant else []


def _reshape_type(x: Type, shape: Shape) -> Type:
    require_extents(shape)
    if _elements(shape) != _elements(x.shape):
        raise ShapeError(f"{show_shapes([x.shape])} does not reshape to {show_shapes([shape])}")
    return x.with_shape(shape)


def reshape_strides(shape: Shape, strides: Extents, new: Shape) -> Extents | None:
    """Strides of the same elements in a new shape, or None where they must be copied."""
    if 0 in shape:
        return (0,) * len(new)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result: list[Any] = []
    i = 0
    pending = list(new)
    while pending:
        if pending[0] == 1:
            result.append(0)
            pending.pop(0)
            continue
        if i == len(old):
            return None
        group_old, group_new = [old[i]], [pending.pop(0)]
        i += 1
        while shape_size([n for n, _ in group_old]) != shape_size(group_new):
            if _larger(group_new, [n for n, _ in group_old]):
                if i == len(old):
                    return None
                group_old.append(old[i])
                i += 1
            else:
                if not pending:
                    return None
                group_new.append(pending.pop(0))
        if not _dense(group_old):
            return None
        stride = group_old[-1][1]
        inner: list[Any] = [stride]
        for extent in reversed(group_new[1:]):
            inner.append(_times(inner[-1], extent))
        result.extend(reversed(inner))
    return tuple(result)


def _larger(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether the first group has more elements (a run-time extent counts as more than any constant)."""
    sizes = []
    for group in (a, b):
        size = shape_size(group)
        sizes.append((isinstance(size, Dim), size.factor if isinstance(size, Dim) else size))
    return sizes[0] > sizes[1]


def _dense(group: Sequence[tuple[Any, Any]]) -> bool:
    return all(group[i][1] == _times(group[i + 1][1], group[i + 1][0]) for i in range(len(group) - 1))


def _times(a: Any, b: Any) -> Any:
    return a * b if isinstance(a, int) or isinstance(b, int) else None


def _reshape_batch(args: Sequence[Tensor], axes: Sequence[int | None], shape: Shape) -> tuple[Tensor, int]:
    x = move_axis(args[0], axes[0], 0, args[0].ndim - 1)
    return apply("reshape", x, shape=(x.shape[0], *shape)), 0


def _simplify_reshape(ins: Sequence[Atom], define: Define, shape: Shape) -> Atom | None:
    """A reshape to the same shape, or back to the shape before the last reshape, is the operand."""
    if ins[0].type.shape == shape:
        return ins[0]
    inner = None if isinstance(ins[0], Lit) else define(ins[0])
    while inner is not None and inner.prim.name == "reshape":
        if inner.ins[0].type.shape == shape:
            return inner.ins[0]
        inner = None if isinstance(inner.ins[0], Lit) else define(inner.ins[0])
    return None


def _reshape_view(x: Type, strides: Extents, offset: Any, out: Type, shape: Shape) -> tuple[Extents, Any] | None:
    found = reshape_strides(x.shape, strides, shape)
    return None if found is None else (found, offset)


register(
    Prim(
        "reshape", "view", _reshape_type, lambda x, shape: np.reshape(x, shape),
        vjp=lambda g, y, x, shape: (apply("reshape", g, shape=x.type.shape),), mask="move", batch=_reshape_batch,
        strides=_reshape_view, simplify=_simplify_reshape, exact=True,
        samples=(
            Sample((uniform(shape=(3, 4)),), {"shape": (2, 6)}, dtypes=ALL),
            Sample((uniform(shape=(2, 3, 1)),), {"shape": (1, 6)}),
            Sample((uniform(shape=(1,)),), {"shape": ()}),
            Sample((uniform(shape=(0, 3)),), {"shape": (3, 0)}),
        ),
        flops=0, doc="The same elements in row-major order in another shape.",
    )
)  # fmt: skip


@public
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one extent may be -1. Raises ShapeError where the sizes differ.

    `copy` is the standard's: nobody can write a tensor, so that a view is as good as a copy.

    >>> import gtensor as gt
    >>> reshape(gt.arange(6), (2, -1)).shape
    (2, 3)
    """
    tensor = as_tensor(x)
    return apply("reshape", tensor, shape=_infer(tensor.type, as_shape(shape)))


def _infer(type: Type, shape: Shape) -> Shape:
    if -1 not in shape:
        return shape
    known = shape_size([n for n in shape if n != -1])
    size = type.size
    if shape.count(-1) > 1 or known == 0:
        raise ShapeError(f"reshape: cannot infer -1 in {show_shapes([shape])} from {type}")
    if isinstance(size, Dim):
        factor = known.factor if isinstance(known, Dim) else known
        quotient: Any = (
            size.factor // factor if isinstance(known, Dim) else Dim(size.name, size.bound, size.factor // factor)
        )
        exact = size.factor % factor == 0
    else:
        assert isinstance(known, int)
        quotient, exact = size // known, size % known == 0
    if not exact:
        raise ShapeError(f"reshape: {type} does not divide into {show_shapes([shape])}")
    return tuple(quotient if n == -1 else n for n in shape)


@public
def flatten(x: Any, /, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes start_dim … end_dim merged into one."""
    tensor = as_tensor(x)
    if tensor.ndim == 0:
        return apply("reshape", tensor, shape=(1,))
    first, last = normalize_axis(start_dim, tensor.ndim), normalize_axis(end_dim, tensor.ndim)
    shape = tensor.type.shape
    return apply("reshape", tensor, shape=(*shape[:first], shape_size(shape[first : last + 1]), *shape[last + 1 :]))


@public
def squeeze(x: Any, /, axis: Any = None) -> Tensor:
    """Without the given axes of extent 1 (all of them by default); raises ShapeError for another extent."""
    tensor = as_tensor(x)
    shape = tensor.type.shape
    axes = tuple(i for i, n in enumerate(shape) if n == 1) if axis is None else normalize_axes(axis, tensor.ndim)
    if any(shape[i] != 1 for i in axes):
        raise ShapeError(f"squeeze: axis {axis} of {tensor.type} is not of extent 1")
    return apply("reshape", tensor, shape=tuple(n for i, n in enumerate(shape) if i not in axes))


@public
def expand_dims(x: Any, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """With a new axis of extent 1 at that place, or several at places of the result.

    >>> import gtensor as gt
    >>> gt.expand_dims(gt.ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    tensor = as_tensor(x)
    new = normalize_axes(axis, tensor.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1))
    extents = list(tensor.type.shape)
    for at in new:
        extents.insert(at, 1)
    return apply("reshape", tensor, shape=tuple(extents))


# ---- transpose and flip ----------------------------------------------------------------------------------


def _transpose_type(x: Type, axes: tuple[int, ...]) -> Type:
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(f"axes {axes} do not permute {x.ndim} axes")
    return x.with_shape([x.shape[i] for i in axes])


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axes.index(i) for i in range(len(axes)))


def _transpose_batch(args: Sequence[Tensor], at: Sequence[int | None], axes: tuple[int, ...]) -> tuple[Tensor, int]:
    x = move_axis(args[0], at[0], 0, len(axes))
    return apply("transpose", x, axes=(0, *(i + 1 for i in axes))), 0


def _simplify_transpose(ins: Sequence[Atom], define: Define, axes: tuple[int, ...]) -> Atom | None:
    """No permutation, or one that undoes the last."""
    if axes == tuple(range(len(axes))):
        return ins[0]
    inner = None if isinstance(ins[0], Lit) else define(ins[0])
    if inner is not None and inner.prim.name == "transpose" and inner.params["axes"] == _inverse(axes):
        return inner.ins[0]
    return None


register(
    Prim(
        "transpose", "view", _transpose_type, lambda x, axes: np.transpose(x, axes),
        vjp=lambda g, y, x, axes: (apply("transpose", g, axes=_inverse(axes)),), mask="move", batch=_transpose_batch,
        strides=lambda x, strides, offset, out, axes: (tuple(strides[i] for i in axes), offset),
        simplify=_simplify_transpose, exact=True,
        samples=(
            Sample((uniform(shape=(3, 4)),), {"axes": (1, 0)}, dtypes=ALL),
            Sample((uniform(shape=(2, 3, 4)),), {"axes": (2, 0, 1)}),
            Sample((uniform(shape=()),), {"axes": ()}),
        ),
        flops=0, doc="Axes in another order.",
    )
)  # fmt: skip


@public
def permute_dims(x: Any, /, axes: Any) -> Tensor:
    """x with its axes in the given order."""
    tensor = as_tensor(x)
    return apply("transpose", tensor, axes=tuple(normalize_axis(a, tensor.ndim) for a in axes))


@public
def matrix_transpose(x: Any, /) -> Tensor:
    """x with its last two axes exchanged; raises ShapeError for fewer than two axes."""
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"matrix_transpose needs two axes, not {tensor.type}")
    n = tensor.ndim
    return apply("transpose", tensor, axes=(*range(n - 2), n - 1, n - 2))


@public
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """x with one axis moved to another place, or several.

    >>> import gtensor as gt
    >>> gt.moveaxis(gt.ones((2, 3, 4)), (0, 1), (-1, 0)).shape
    (3, 4, 2)
    """
    tensor = as_tensor(x)
    pairs = [a if isinstance(a, (tuple, list)) else (a,) for a in (source, destination)]
    starts, ends = ([normalize_axis(a, tensor.ndim) for a in axes] for axes in pairs)
    if len(starts) != len(ends) or len({*starts}) != len(starts) or len({*ends}) != len(ends):
        raise ShapeError(f"moveaxis: axes {source} cannot be moved to {destination}")
    order = [i for i in range(tensor.ndim) if i not in starts]
    for end, start in sorted(zip(ends, starts, strict=True)):
        order.insert(end, start)
    return apply("transpose", tensor, axes=tuple(order))


def _flip_type(x: Type, axes: tuple[int, ...]) -> Type:
    for axis in axes:
        if isinstance(x.shape[axis], Dim):
            raise ShapeError(f"the run-time axis {axis} of {x} cannot be reversed")
    return x


def _flip_strides(x: Type, strides: Extents, offset: Any, out: Type, axes: tuple[int, ...]) -> tuple[Extents, Any]:
    for axis in axes:
        offset = add_extents(offset, _times(strides[axis], max(extent_bound(x.shape[axis]) - 1, 0)))
    return tuple(_times(s, -1) if i in axes else s for i, s in enumerate(strides)), offset


def add_extents(a: Any, b: Any) -> Any:
    """The sum of two offsets of one kind; raises ShapeError for a constant plus a run-time extent."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0 or b == 0:
        return b if a == 0 else a
    if isinstance(a, Dim) and isinstance(b, Dim) and a.name == b.name:
        return Dim(a.name, a.bound, a.factor + b.factor)
    raise ShapeError("this view of an array with a run-time extent is not supported")


def _axes_batch(name: str) -> Any:
    def rule(args: Sequence[Tensor], at: Sequence[int | None], axes: tuple[int, ...]) -> tuple[Tensor, int]:
        x = move_axis(args[0], at[0], 0, args[0].ndim - 1)
        return apply(name, x, axes=tuple(i + 1 for i in axes)), 0

    return rule


register(
    Prim(
        "flip", "view", _flip_type, lambda x, axes: np.flip(x, axes),
        vjp=lambda g, y, x, axes: (apply("flip", g, axes=axes),), mask="move", batch=_axes_batch("flip"),
        strides=_flip_strides, exact=True,
        samples=(
            Sample((uniform(shape=(3, 4)),), {"axes": (0, 1)}, dtypes=ALL),
            Sample((uniform(shape=(5,)),), {"axes": (0,)}),
            Sample((uniform(shape=(0, 2)),), {"axes": (0,)}),
        ),
        flops=0, doc="Axes in reverse order.",
    )
)  # fmt: skip


def backwards(x: Tensor, axis: int) -> Tensor:
    """An axis in reverse order; a run-time one is read in reverse."""
    n = x.type.shape[axis]
    if not isinstance(n, Dim):
        return apply("flip", x, axes=(axis,))
    return apply("take", x, n - 1 - apply("iota", shape=(n,), axis=0, dtype=int64), axis=axis)


@public
def flip(x: Any, /, axis: Any = None) -> Tensor:
    """x with the given axes (all by default) reversed."""
    tensor = as_tensor(x)
    axes = normalize_axes(axis, tensor.ndim)
    fixed = tuple(at for at in axes if not isinstance(tensor.type.shape[at], Dim))
    tensor = apply("flip", tensor, axes=fixed) if fixed else tensor
    for at in axes:
        tensor = tensor if at in fixed else backwards(tensor, at)
    return tensor


# ---- slice ----------------------------------------------------------------------------------------------


def slice_length(start: int, stop: int, step: int) -> int:
    """How many elements start:stop:step has, for a positive step."""
    return max(0, -((start - stop) // step)) if stop > start else 0


def _slice_type(x: Type, start: Extents, stop: Extents, step: Extents) -> Type:
    shape: list[int | Dim] = []
    for n, first, last, stride in zip(x.shape, start, stop, step, strict=True):
        if isinstance(n, Dim):
            if (first, last, stride) != (0, n, 1):
                raise ShapeError(f"the run-time axis of {x} can only be taken whole")
            shape.append(n)
        elif not (0 <= first <= n and 0 <= last <= n and stride > 0):
            raise ShapeError(f"slice {first}:{last}:{stride} does not fit an axis of {n}")
        else:
            shape.append(slice_length(first, last, stride))
    return x.with_shape(shape)


def _slice_array(x: Array, start: Extents, stop: Extents, step: Extents) -> Array:
    return np.asarray(x[tuple(slice(a, b, c) for a, b, c in zip(start, stop, step, strict=True))])


def _slice_strides(
    x: Type, strides: Extents, offset: Any, out: Type, start: Extents, stop: Extents, step: Extents
) -> tuple[Extents, Any]:
    for s, first in zip(strides, start, strict=True):
        offset = add_extents(offset, _times(s, first))
    return tuple(_times(s, k) for s, k in zip(strides, step, strict=True)), offset


def _slice_batch(
    args: Sequence[Tensor], at: Sequence[int | None], start: Any, stop: Any, step: Any
) -> tuple[Tensor, int]:
    x = move_axis(args[0], at[0], 0, len(start))
    return apply("slice", x, start=(0, *start), stop=(x.shape[0], *stop), step=(1, *step)), 0


register(
    Prim(
        "slice", "view", _slice_type, _slice_array,
        vjp=lambda g, y, x, start, stop, step: (Part(g, x.type.shape, start, step),),
        mask="move", batch=_slice_batch, strides=_slice_strides, exact=True,
        simplify=lambda ins, define, start, stop, step: (
            ins[0] if (set(start) | set(step)) <= {0, 1} and not any(start) and stop == ins[0].type.shape else None
        ),
        samples=(
            Sample((uniform(shape=(5, 4)),), {"start": (1, 0), "stop": (4, 4), "step": (1, 2)}, dtypes=ALL),
            Sample((uniform(shape=(7,)),), {"start": (1,), "stop": (7,), "step": (3,)}),
            Sample((uniform(shape=(3,)),), {"start": (2,), "stop": (2,), "step": (1,)}),
        ),
        flops=0, doc="Part of each axis: start, stop, positive step.",
    )
)  # fmt: skip


@public
def slice_axis(x: Any, /, axis: int, start: int = 0, stop: int | None = None, step: int = 1) -> Tensor:
    """Part of one axis, as x[..., start:stop:step, ...]."""
    tensor = as_tensor(x)
    key = [slice(None)] * tensor.ndim
    key[normalize_axis(axis, tensor.ndim)] = slice(start, stop, step)
    return tensor[tuple(key)]

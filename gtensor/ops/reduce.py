"""Reductions: sum, prod, max, min, any, all, argmax, argmin over any axes.

The primitives drop the reduced axes (`keepdims` is a reshape). Sums of float32 stay accurate for long
axes; sums of integers and bool are int64 or uint64; max and min propagate NaN; argmax takes the first of equals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..prim import Input, Prim, Sample, public, register
from ..pullback import Masked
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, Type, as_dtype, bool_, int64, normalize_axes, normalize_axis, shape_size, summed
from .arithmetic import multiply
from .records import uniform

Array = np.ndarray[Any, Any]
Axis = int | tuple[int, ...] | None


def _reduced(x: Type, axis: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(n for i, n in enumerate(x.shape) if i not in axis)


def _require_elements(x: Type, axis: tuple[int, ...], what: str) -> None:
    if 0 in [x.shape[i] for i in axis]:
        raise ShapeError(f"{what} of an empty axis has no value")


def _folded(fold: Any) -> Callable[..., Array]:
    """A NumPy fold in one order, whatever the memory's: along a dense last axis, where sums are pairwise."""

    def run(x: Array, axis: tuple[int, ...]) -> Array:
        kept = tuple(i for i in range(x.ndim) if i not in axis)
        shape = (*(x.shape[i] for i in kept), math.prod(x.shape[i] for i in axis))
        rows = np.ascontiguousarray(np.transpose(x, kept + axis).reshape(shape))
        return np.asarray(fold(rows, axis=-1, dtype=summed(as_dtype(x.dtype)).dtype))

    return run


def _sum_type(x: Type, axis: tuple[int, ...]) -> Type:
    return Type(_reduced(x, axis), summed(x.dtype), x.weak)


def expand(y: Tensor, like: Type, axis: tuple[int, ...]) -> Tensor:
    """A reduced tensor repeated along the axes it was reduced over."""
    if axis != tuple(range(len(axis))):
        y = apply("reshape", y, shape=tuple(1 if i in axis else n for i, n in enumerate(like.shape)))
    return apply("broadcast", y, shape=like.shape)


def _extreme_vjp(g: Tensor, y: Tensor, x: Tensor, axis: tuple[int, ...]) -> Sequence[Any]:
    """Equal extremes share the gradient evenly."""
    best = x == expand(y, x.type, axis)
    count = apply("sum", cast(best, x.type.dtype), axis=axis)
    return (Masked(expand(g / count, x.type, axis), best),)


def _prod_vjp(g: Tensor, y: Tensor, x: Tensor, axis: tuple[int, ...]) -> Sequence[Any]:
    """g times the product of all other elements, by a tree of products: right for zeros at every order."""
    kept = tuple(i for i in range(x.ndim) if i not in axis)
    moved = apply("transpose", x, axes=kept + axis)
    outer = tuple(x.shape[i] for i in kept)
    length = shape_size(x.shape[i] for i in axis)
    if isinstance(length, Dim):
        raise ShapeError(f"the derivative of a product needs a constant number of factors, not {length}")
    if length == 0:
        return (x * 0,)
    flat = apply("reshape", moved, shape=(*outer, length))
    others = _products_of_others(flat, outer, length)
    back = apply("reshape", others, shape=(*outer, *(x.shape[i] for i in axis)))
    order = kept + axis
    inverse = tuple(order.index(i) for i in range(x.ndim))
    return (expand(g, x.type, axis) * apply("transpose", back, axes=inverse),)


def _spread_mask(mask: Tensor, y: Tensor, x: Tensor, axis: tuple[int, ...]) -> Sequence[Any]:
    """A masked fold masks all that it folds."""
    return (expand(mask, x.type, axis),)


def _products_of_others(flat: Tensor, outer: tuple[Any, ...], length: int) -> Tensor:
    """For each element of the last axis the product of the others: products up a binary tree, then down."""
    rank = len(outer)
    size = 1 << (length - 1).bit_length()
    start, step = (0,) * (rank + 1), (1,) * (rank + 1)
    level = apply("pad", flat, shape=(*outer, size), start=start, step=step, value=1.0)
    pairs: list[Tensor] = []
    while size > 1:
        size //= 2
        pair = apply("reshape", level, shape=(*outer, size, 2))
        pairs.append(pair)
        level = _pair_product(pair, outer, size)
    down = apply("broadcast", as_tensor(1.0).astype(flat.type.dtype), shape=(*outer, 1))
    for pair in reversed(pairs):
        swapped = apply("flip", pair, axes=(rank + 1,))
        size = int(pair.shape[rank])
        above = apply("broadcast", apply("reshape", down, shape=(*outer, size, 1)), shape=pair.shape)
        down = apply("reshape", multiply(above, swapped), shape=(*outer, 2 * size))
    return apply("slice", down, start=start, stop=(*outer, length), step=step)


def _pair_product(pair: Tensor, outer: tuple[Any, ...], size: int) -> Tensor:
    rank = len(outer)
    start, stop = (0,) * (rank + 1), (*outer, size)
    halves = [apply("slice", pair, start=(*start, i), stop=(*stop, i + 1), step=(1,) * (rank + 2)) for i in (0, 1)]
    return apply("reshape", halves[0] * halves[1], shape=(*outer, size))


def _batch(name: str) -> Callable[..., tuple[Tensor, int]]:
    def rule(args: Sequence[Tensor], axes: Sequence[int | None], axis: tuple[int, ...]) -> tuple[Tensor, int]:
        (at,) = axes
        assert at is not None
        shifted = tuple(i + (i >= at) for i in axis)
        return apply(name, args[0], axis=shifted), at - len([i for i in shifted if i < at])

    return rule


_SHAPES = [
    ((3, 4), (1,)),
    ((3, 4), (0,)),
    ((3, 4), (0, 1)),
    ((2, 3, 5), (1,)),
    ((2, 3, 5), (0, 2)),
    ((4,), (0,)),
    ((3,), ()),
]


def _samples(grad: bool, dtypes: tuple[str, ...], empty: bool) -> tuple[Sample, ...]:
    shapes = [*_SHAPES, ((0, 3), (1,)), ((3, 0), (1,))] if empty else _SHAPES
    return tuple(Sample((uniform(shape=s),), {"axis": a}, grad=grad, dtypes=dtypes) for s, a in shapes)


def _reduction(
    name: str, numpy: Any, type: Any, vjp: Any, *, mask: Any = "drop", zero: bool = False, empty: bool = True,
    exact: bool = False, dtypes: tuple[str, ...] = ("f", "i", "u"), doc: str,
) -> None:  # fmt: skip
    register(
        Prim(
            name, "reduce", type, numpy, vjp=vjp, zero=zero, mask=mask, batch=_batch(name), c={"*": name}, exact=exact,
            samples=_samples(vjp is not None and not zero, dtypes, empty), doc=doc,
        )
    )  # fmt: skip


def _same(name: str) -> Any:
    def rule(x: Type, axis: tuple[int, ...]) -> Type:
        _require_elements(x, axis, name)
        return Type(_reduced(x, axis), x.dtype, x.weak)

    return rule


def _bool_type(x: Type, axis: tuple[int, ...]) -> Type:
    return Type(_reduced(x, axis), bool_)


def _no_vjp(*args: Any, **params: Any) -> Sequence[Any]:
    return (None,)


_reduction(
    "sum", _folded(np.sum), _sum_type, lambda g, y, x, axis: (expand(g, x.type, axis),), mask="move",
    dtypes=("f", "i", "u", "b"), doc="Sum over axes.",
)  # fmt: skip
_reduction(
    "prod", _folded(np.prod), _sum_type, _prod_vjp, mask=_spread_mask, doc="Product over axes.",
)  # fmt: skip
_reduction(
    "max", lambda x, axis: np.max(x, axis=axis), _same("max"), _extreme_vjp, mask=_spread_mask, empty=False, exact=True,
    doc="Largest value over axes.",
)  # fmt: skip
_reduction(
    "min", lambda x, axis: np.min(x, axis=axis), _same("min"), _extreme_vjp, mask=_spread_mask, empty=False, exact=True,
    doc="Smallest value over axes.",
)  # fmt: skip
_reduction(
    "any", lambda x, axis: np.any(x, axis=axis), _bool_type, _no_vjp, zero=True, exact=True, dtypes=("b",),
    doc="Whether any element over axes is true.",
)  # fmt: skip
_reduction(
    "all", lambda x, axis: np.all(x, axis=axis), _bool_type, _no_vjp, zero=True, exact=True, dtypes=("b",),
    doc="Whether all elements over axes are true.",
)  # fmt: skip


def _arg_type(x: Type, axis: tuple[int, ...]) -> Type:
    _require_elements(x, axis, "argmax or argmin")
    return Type(_reduced(x, axis), int64)


for _name, _numpy, _word in (("argmax", np.argmax, "largest"), ("argmin", np.argmin, "smallest")):
    register(
        Prim(
            _name, "reduce", _arg_type, lambda x, axis, f=_numpy: np.asarray(f(x, axis=axis[0]), np.int64),
            batch=_batch(_name), c={"*": _name}, exact=True,
            samples=(
                Sample((uniform(shape=(3, 5)),), {"axis": (1,)}, grad=False, dtypes=("f", "i", "u")),
                Sample((uniform(shape=(3, 5)),), {"axis": (0,)}, grad=False),
                Sample((Input(values=[2.0, 5.0, 5.0]),), {"axis": (0,)}, grad=False),
            ),
            doc=f"Position of the {_word} element of one axis, the first of equals.",
        )
    )  # fmt: skip


def reduce(name: str, x: Any, axis: Axis, keepdims: bool) -> Tensor:
    """A reduction with NumPy's arguments."""
    tensor = as_tensor(x)
    axes = normalize_axes(axis, tensor.ndim)
    out = apply(name, tensor, axis=axes)
    if not keepdims:
        return out
    return apply("reshape", out, shape=tuple(1 if i in axes else n for i, n in enumerate(tensor.type.shape)))


@public
def sum(x: Any, /, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum over axes (all by default); of integers and bool as int64, of unsigned ones as uint64.

    0 where there is nothing to add.

    With `dtype` the elements are converted first, and the result has that dtype.

    >>> import gtensor as gt
    >>> sum(gt.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([4., 6.], dtype=float32)
    """
    return _folded_as("sum", x, axis, keepdims, dtype)


def _folded_as(name: str, x: Any, axis: Axis, keepdims: bool, dtype: Any) -> Tensor:
    """A reduction of the elements converted to a dtype, in that dtype."""
    if dtype is None:
        return reduce(name, x, axis, keepdims)
    target = as_dtype(dtype)
    return cast(reduce(name, cast(as_tensor(x), target), axis, keepdims), target)


@public
def prod(x: Any, /, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product over axes; 1 where there is nothing to multiply. Its gradient is right for zeros too.

    With `dtype` the elements are converted first, and the result has that dtype.

    >>> import gtensor as gt
    >>> gt.grad(prod)(gt.tensor([2.0, 0.0, 3.0]))
    Tensor([0., 6., 0.], dtype=float32)
    """
    return _folded_as("prod", x, axis, keepdims, dtype)


def _extreme(name: str, of_bools: str, x: Any, axis: Axis, keepdims: bool) -> Tensor:
    type_ = as_tensor(x).type
    if type_.dtype != bool_:
        return reduce(name, x, axis, keepdims)
    _require_elements(type_, normalize_axes(axis, type_.ndim), name)
    return reduce(of_bools, x, axis, keepdims)


@public
def max(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes, NaN if there is one; equal ones share the gradient evenly.

    Of bools it is `any`. Raises ShapeError (a ValueError) for an empty axis.
    """
    return _extreme("max", "any", x, axis, keepdims)


@public
def min(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes, NaN if there is one; equal ones share the gradient evenly.

    Of bools it is `all`. Raises ShapeError (a ValueError) for an empty axis.
    """
    return _extreme("min", "all", x, axis, keepdims)


amax, amin = max, min


@public
def any(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element over axes is true (not 0)."""
    return reduce("any", cast(as_tensor(x), bool_), axis, keepdims)


@public
def all(x: Any, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes are true (not 0)."""
    return reduce("all", cast(as_tensor(x), bool_), axis, keepdims)


def _arg(name: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    if tensor.type.dtype == bool_:
        tensor = cast(tensor, as_dtype("uint8"))
    if axis is None:
        flat = apply("reshape", tensor, shape=(tensor.type.size,))
        out = apply(name, flat, axis=(0,))
        return apply("reshape", out, shape=(1,) * tensor.ndim) if keepdims else out
    return reduce(name, tensor, (normalize_axis(axis, tensor.ndim),), keepdims)


@public
def argmax(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the largest element (int64): the first of equals, the first NaN if there is one.

    >>> import gtensor as gt
    >>> argmax(gt.tensor([1.0, 3.0, 3.0]))
    Tensor(1, dtype=int64)
    """
    return _arg("argmax", x, axis, keepdims)


@public
def argmin(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the smallest element (int64): the first of equals, the first NaN if there is one."""
    return _arg("argmin", x, axis, keepdims)

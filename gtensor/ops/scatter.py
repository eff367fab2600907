"""Writes at computed places: set, multiply, minimum, maximum along an axis; scatter, scatter_reduce, put_along_axis.

As `scatter_add` in index.py, with other ways of meeting what is there. Laws: values meet in the order of their
places in memory, so of several that are set at one place the last stays; derivatives are right where places
repeat, values are equal, and factors are 0, at every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError
from ..prim import Input, Prim, Sample, public, register
from ..pullback import Masked, zeros
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Type, bool_, extent_bound, int64, normalize_axis
from .arithmetic import where
from .cumulative import before_each
from .index import along_place, in_range, scatter_places, scatter_type
from .records import batch_along, uniform

Array = np.ndarray[Any, Any]


# ---- derivatives -----------------------------------------------------------------------------------------


def _gathered(x: Tensor, index: Tensor, axis: int) -> Tensor:
    return apply("gather", x, index, axis=axis)


def _constant(type: Type, value: float) -> Tensor:
    """An array of that type, filled."""
    return apply("broadcast", cast(as_tensor(value), type.dtype), shape=type.shape)


def _set_vjp(g: Tensor, y: Tensor, x: Tensor, index: Tensor, v: Tensor, axis: int) -> Sequence[Any]:
    """What is overwritten gets nothing: the element that was there, and all values but the last of a place."""

    def of_values() -> Masked:
        numbers = apply("iota", shape=v.type.shape, axis=axis, dtype=int64)
        blank = _constant(Type(x.type.shape, int64), -1)
        last = apply("scatter_set", blank, index, numbers, axis=axis)
        return Masked(_gathered(g, index, axis), _gathered(last, index, axis) == numbers)

    return (lambda: apply("scatter_set", g, index, zeros(v.type), axis=axis), None, of_values)


def _mul_vjp(g: Tensor, y: Tensor, x: Tensor, index: Tensor, v: Tensor, axis: int) -> Sequence[Any]:
    """Each factor of a place gets the product of all others there; none is divided out, so it may be 0."""

    def of_array() -> Tensor:
        return g * apply("scatter_mul", _constant(x.type, 1.0), index, v, axis=axis)

    def of_values() -> Tensor:
        size = extent_bound(x.type.shape[axis])
        order = apply("argsort", apply("remainder", cast(index, int64), size), axis=axis)
        back = apply("argsort", order, axis=axis)
        places = apply("remainder", cast(_gathered(index, order, axis), int64), size)
        others = _products_of_others(_gathered(v, order, axis), places, axis)
        return _gathered(g * x, index, axis) * _gathered(others, back, axis)

    return (of_array, None, of_values)


def _products_of_others(v: Tensor, places: Tensor, axis: int) -> Tensor:
    """For each value the product of the other values of its place; equal places stand side by side."""

    def of_earlier(v: Tensor, places: Tensor) -> Tensor:
        """Products that start again at 1 with each place: factors 0 and terms 1 there."""
        same = before_each(places, axis, -1) == places
        none = zeros(v.type)
        factors = where(same, before_each(v, axis, 0.0), none)
        return apply("recurrence", factors, where(same, none, none + 1.0), axis=axis)

    def turned(x: Tensor) -> Tensor:
        return apply("flip", x, axes=(axis,))

    return of_earlier(v, places) * turned(of_earlier(turned(v), turned(places)))


def _extreme_vjp(g: Tensor, y: Tensor, x: Tensor, index: Tensor, v: Tensor, axis: int) -> Sequence[Any]:
    """All that are equal to the result share the gradient evenly."""
    kept, taken = x == y, v == _gathered(y, index, axis)
    count = apply("scatter_add", cast(kept, x.type.dtype), index, cast(taken, x.type.dtype), axis=axis)
    share = g / where(count == 0, 1.0, count)
    return (Masked(share, kept), None, lambda: Masked(_gathered(share, index, axis), taken))


# ---- records ---------------------------------------------------------------------------------------------


def _in_order(at: Callable[..., None]) -> Callable[..., Array]:
    """The NumPy rule: values meet the array by a ufunc's `at`, one after another."""

    def run(x: Array, index: Array, values: Array, axis: int) -> Array:
        out = x.copy()
        at(out, scatter_places(x, index, axis), values)
        return out

    return run


def _put(out: Array, places: Any, values: Array) -> None:
    """Of several values at one place the last stays."""
    out[places] = values


_INDEX = Input(values=[[2, 0, -1], [1, 1, 0]], dtype=int64)
_ROWS = Input(values=[[2, 0, -1], [2, -3, -1]], dtype=int64)
_EQUAL = (Input(values=[[1.0, 2.0, 3.0]]), Input(values=[[1, -1, 1]], dtype=int64), Input(values=[[4.0, 0.0, 4.0]]))

for _name, _reducer, _at, _vjp, _dtypes, _smooth, _doc in (
    ("set", "last", _put, _set_vjp, ("f", "i", "u", "b"), True, "An array with values set along an axis."),
    ("mul", "prod", np.multiply.at, _mul_vjp, ("f", "i", "u"), True, "An array multiplied by values along an axis."),
    ("max", "max", np.maximum.at, _extreme_vjp, ("f", "i", "u"), False, "The larger of an array and values."),
    ("min", "min", np.minimum.at, _extreme_vjp, ("f", "i", "u"), False, "The smaller of an array and values."),
):
    register(
        Prim(
            f"scatter_{_name}", "scatter", scatter_type, _in_order(_at), vjp=_vjp,
            batch=batch_along(f"scatter_{_name}"), c={"*": _reducer},
            place=lambda x, index, v, axis: along_place(x, index, axis), exact=_name != "mul",
            moves=_name == "set",
            samples=(
                Sample((uniform(shape=(2, 3)), _INDEX, uniform(shape=(2, 3))), {"axis": 1}, dtypes=_dtypes),
                Sample((uniform(shape=(3, 3)), _ROWS, uniform(shape=(2, 3))), {"axis": 0}),
                Sample(_EQUAL, {"axis": 1}, grad=_smooth),
            ),
            flops=1, doc=_doc,
        )
    )  # fmt: skip


# ---- functions -------------------------------------------------------------------------------------------


def _operands(x: Any, axis: int, index: Any, values: Any) -> tuple[Tensor, Tensor, Tensor, int]:
    """An array, checked places along an axis, and values of their shape and the array's dtype."""
    tensor, places = as_tensor(x), as_tensor(index)
    at = normalize_axis(axis, tensor.ndim)
    places = in_range(places, tensor.type.shape[at])
    given = cast(as_tensor(values), tensor.type.dtype)
    if given.type.shape != places.type.shape:
        given = apply("broadcast", given, shape=places.type.shape)
    return tensor, places, given, at


@public
def scatter(x: Any, axis: int, index: Any, values: Any, /) -> Tensor:
    """x with values set along an axis: out[i][index[i][j]] = values[i][j] for axis 1, as `torch.scatter`.

    index: integers, with the extents of x but along the axis; values broadcast to its shape. Where a place
    repeats the last value stays, and takes the gradient. Raises IndexError for an index out of range.

    >>> import gtensor as gt
    >>> gt.scatter(gt.zeros(4), 0, [2, 0], gt.tensor([5.0, 6.0]))
    Tensor([6., 0., 5., 0.], dtype=float32)
    """
    tensor, places, given, at = _operands(x, axis, index, values)
    return apply("scatter_set", tensor, places, given, axis=at)


@public
def put_along_axis(x: Any, indices: Any, values: Any, /, axis: int = -1) -> Tensor:
    """`scatter` with NumPy's order of arguments; the result is a new array.

    >>> import gtensor as gt
    >>> gt.put_along_axis(gt.zeros((2, 2)), [[1], [0]], 7.0, axis=1)
    Tensor([[0., 7.],
            [7., 0.]], dtype=float32)
    """
    return scatter(x, axis, indices, values)


REDUCTIONS = {"sum": "scatter_add", "prod": "scatter_mul", "amax": "scatter_max", "amin": "scatter_min"}
"""How `scatter_reduce` meets what is there, by torch's name."""


@public
def scatter_reduce(x: Any, axis: int, index: Any, values: Any, /, reduce: str) -> Tensor:
    """x with values folded in along an axis, as `torch.scatter_reduce`: reduce is "sum", "prod", "amax" or "amin".

    As `scatter` otherwise. Equal extremes share the gradient evenly. Raises OptionError for another fold,
    DTypeError for bools.

    >>> import gtensor as gt
    >>> gt.scatter_reduce(gt.ones(3), 0, [0, 0, 2], gt.tensor([2.0, 3.0, -1.0]), "prod")
    Tensor([ 6.,  1., -1.], dtype=float32)
    """
    if reduce not in REDUCTIONS:
        raise OptionError(f"scatter_reduce: reduce must be one of {', '.join(REDUCTIONS)}, not {reduce!r}")
    tensor, places, given, at = _operands(x, axis, index, values)
    if tensor.dtype == bool_:
        raise DTypeError("scatter_reduce takes numbers, not bools")
    return apply(REDUCTIONS[reduce], tensor, places, given, axis=at)

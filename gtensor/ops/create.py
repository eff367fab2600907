"""Arrays from nothing: tensor, zeros, ones, full, arange, linspace, eye, iota, seeded randn.

Inside a trace they are equations (a literal broadcast, a counter), outside they are arrays. The default
dtypes are float32 and int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..prim import Prim, Sample, public, register
from ..tensor import Tensor, apply, as_tensor, cast, from_data, frozen
from ..trace import to_array
from ..types import (
    DEFAULT_FLOAT,
    DType,
    Shape,
    Type,
    as_dtype,
    float32,
    float64,
    int64,
    resolve,
    show_shapes,
    type_of,
)
from .arithmetic import cast_array
from .layout import as_shape

Array = np.ndarray[Any, Any]


def _iota_array(shape: tuple[int, ...], axis: int, dtype: DType) -> Array:
    line = np.arange(shape[axis]).astype(dtype.dtype)
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _iota_type(shape: Shape, axis: int, dtype: DType) -> Type:
    if not 0 <= axis < len(shape):
        raise ShapeError(f"axis {axis} of a shape with {len(shape)} axes")
    return Type(shape, dtype)


def _iota_batch(args: Sequence[Tensor], axes: Sequence[int | None], **params: Any) -> tuple[Tensor, None]:
    return apply("iota", **params), None


register(
    Prim(
        "iota", "source", _iota_type, _iota_array, vjp=lambda g, y, **params: (), zero=True, batch=_iota_batch,
        place=lambda shape, axis, dtype: axis, exact=True,
        samples=(
            Sample((), {"shape": (3, 4), "axis": 1, "dtype": int64}, grad=False),
            Sample((), {"shape": (5,), "axis": 0, "dtype": float32}, grad=False),
        ),
        flops=0, doc="The position along an axis.",
    )
)  # fmt: skip


@public
def tensor(data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    """A concrete tensor with a copy of the data: numbers, nested lists, arrays, tensors, DLPack objects.

    Python floats become float32 and ints int64; arrays keep their dtype. With `requires_grad` the tensor
    is a leaf: what is computed from it can be differentiated by `gt.grad(loss, [w])` and `backward()`.
    Raises DTypeError for data that is no array of numbers and for a dtype that gtensor has not.

    >>> import gtensor as gt
    >>> gt.tensor([[1, 2], [3, 4]], dtype="float64")
    Tensor([[1., 2.],
            [3., 4.]], dtype=float64)
    """
    asked = None if dtype is None else as_dtype(dtype)
    array = from_data(data, asked) if isinstance(data, (bool, int, float, list, tuple)) else to_array(data)
    target = asked if asked is not None and array.dtype.kind in "fiub" else type_of(array).dtype
    with np.errstate(all="ignore"):
        made = np.array(cast_array(array, target), order="C")
    if requires_grad and not target.floating:
        raise DTypeError(f"requires_grad needs a floating-point tensor, not {target}")
    return Tensor(type_of(made), frozen(made), requires_grad=requires_grad)


@public
def asarray(data: Any, /, dtype: Any = None) -> Tensor:
    """A tensor of the data, which is itself when it already is one of that dtype."""
    if isinstance(data, Tensor):
        return data if dtype is None else cast(data, as_dtype(dtype))
    return tensor(data, dtype)


@public
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """An array of one value, whose dtype follows the value by default."""
    value = as_tensor(fill_value)
    value = cast(value, resolve(value.type).dtype if dtype is None else as_dtype(dtype))
    return apply("broadcast", value, shape=as_shape(shape))


@public
def zeros(shape: Any, dtype: Any = float32) -> Tensor:
    """An array of zeros.

    >>> zeros((2, 2))
    Tensor([[0., 0.],
            [0., 0.]], dtype=float32)
    """
    return full(shape, 0, dtype)


@public
def ones(shape: Any, dtype: Any = float32) -> Tensor:
    """An array of ones."""
    return full(shape, 1, dtype)


def _like(x: Any, value: Any, dtype: Any) -> Tensor:
    type_ = resolve(as_tensor(x).type)
    return full(type_.shape, value, type_.dtype if dtype is None else dtype)


@public
def zeros_like(x: Any, /, dtype: Any = None) -> Tensor:
    """Zeros in the shape and dtype of x."""
    return _like(x, 0, dtype)


@public
def ones_like(x: Any, /, dtype: Any = None) -> Tensor:
    """Ones in the shape and dtype of x."""
    return _like(x, 1, dtype)


@public
def full_like(x: Any, fill_value: Any, /, dtype: Any = None) -> Tensor:
    """One value in the shape and dtype of x."""
    return _like(x, fill_value, dtype)


@public
def arange(start: float, /, stop: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
    """start, start + step, … below stop (0 … start with one argument); int64 for integers, else float32.

    >>> arange(3)
    Tensor([0, 1, 2], dtype=int64)
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange: step must not be 0")
    whole = all(isinstance(v, (int, np.integer)) for v in (first, last, step))
    target = as_dtype(dtype) if dtype is not None else int64 if whole else DEFAULT_FLOAT
    count = max(0, math.ceil((last - first) / step))
    wide = int64 if whole else float64
    if (first, step) == (0, 1):
        return apply("iota", shape=(count,), axis=0, dtype=target)
    line = apply("iota", shape=(count,), axis=0, dtype=wide)
    return cast(apply("add", apply("mul", line, step), first), target)


@public
def linspace(start: float, stop: float, /, num: int, dtype: Any = None, endpoint: bool = True) -> Tensor:
    """`num` evenly spaced values from start to stop, the last included by default.

    >>> linspace(0.0, 1.0, 3)
    Tensor([0. , 0.5, 1. ], dtype=float32)
    """
    if num < 0:
        raise ShapeError(f"linspace: num is {num}, which is negative")
    target = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    parts = num - 1 if endpoint else num
    line = apply("iota", shape=(num,), axis=0, dtype=float64)
    values = apply("add", apply("mul", line, (stop - start) / parts if parts > 0 else 0.0), float(start))
    if endpoint and num > 1:
        values = apply("where", apply("eq", line, float(num - 1)), cast(as_tensor(float(stop)), float64), values)
    return cast(values, target)


@public
def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = float32) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    row = apply("iota", shape=shape, axis=0, dtype=int64)
    column = apply("iota", shape=shape, axis=1, dtype=int64)
    return cast(apply("eq", apply("add", row, k), column), as_dtype(dtype))


@public
def randn(*shape: Any, seed: int, dtype: Any = float32) -> Tensor:
    """Standard normal numbers from a seed (NumPy's PCG64): the same numbers for the same seed.

    The result is concrete, also inside a trace, so its extents are constants.

    >>> bool((randn(3, seed=1) == randn(3, seed=1)).all())
    True
    """
    extents = as_shape(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    constant = tuple(n for n in extents if isinstance(n, int))
    if len(constant) != len(extents):
        raise ShapeError(f"randn: {show_shapes([extents])} has a run-time extent")
    return tensor(np.random.default_rng(seed).standard_normal(constant), dtype)

"""Arrays from nothing: tensor, zeros, ones, full, empty, arange, linspace and its kind, eye, iota, seeded randn.

Inside a trace they are equations (a literal broadcast, a counter), outside they are arrays. The default
dtypes are float32 and int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import CopyError, DTypeError, OptionError, ProtocolError, ShapeError
from ..interchange import require_device
from ..prim import Prim, Sample, public, register
from ..tensor import Tensor, apply, as_tensor, cast, from_data, frozen
from ..trace import to_array
from ..types import (
    DEFAULT_FLOAT,
    Dim,
    DType,
    Shape,
    Type,
    as_dtype,
    float32,
    float64,
    int64,
    known,
    resolve,
    show_shapes,
    type_of,
)
from .arithmetic import cast_array
from .layout import as_shape, require_extents

Array = np.ndarray[Any, Any]


def _iota_array(shape: tuple[int, ...], axis: int, dtype: DType) -> Array:
    line = np.arange(shape[axis]).astype(dtype.dtype)
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _iota_type(shape: Shape, axis: int, dtype: DType) -> Type:
    if not 0 <= axis < len(shape):
        raise ShapeError(f"axis {axis} of a shape with {len(shape)} axes")
    return Type(require_extents(shape), dtype)


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
    target = asked if asked is not None and known(array.dtype) is not None else type_of(array).dtype
    with np.errstate(all="ignore"):
        made = np.array(cast_array(array, target), order="C")
    if requires_grad and not target.floating:
        raise DTypeError(f"requires_grad needs a floating-point tensor, not {target}")
    return Tensor(type_of(made), frozen(made), requires_grad=requires_grad)


@public
def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of the data, which is itself when it already is one of that dtype.

    `copy=True` is the default for everything else; `copy=False` raises CopyError where a copy is needed,
    because a tensor's memory is its own. Raises DeviceError for a device other than "cpu", DTypeError as `tensor`.

    >>> import gtensor as gt
    >>> gt.asarray([1, 2], dtype=gt.float32)
    Tensor([1., 2.], dtype=float32)
    """
    require_device(device)
    same = isinstance(obj, Tensor) and (dtype is None or as_dtype(dtype) == obj.dtype)
    if copy is False and not same:
        raise CopyError("asarray: a tensor's memory is its own, so the data must be copied", hint="leave copy out")
    if isinstance(obj, Tensor):
        return obj if dtype is None else cast(obj, as_dtype(dtype))
    return tensor(obj, dtype)


@public
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array of another library that speaks DLPack (NumPy, PyTorch, JAX, …), of its dtype.

    The data are copied, since nobody may write a tensor's memory; `copy=False` raises CopyError. A tensor is
    given back itself. Raises DeviceError for a device other than "cpu", ProtocolError (an AttributeError) for
    what does not speak DLPack, DTypeError for a dtype that gtensor has not.

    >>> import gtensor as gt, numpy as np
    >>> gt.from_dlpack(np.arange(3))
    Tensor([0, 1, 2], dtype=int64)
    """
    require_device(device)
    if isinstance(x, Tensor):
        return x
    if not hasattr(x, "__dlpack__"):
        raise ProtocolError(f"from_dlpack: {type(x).__name__} does not speak DLPack", hint="use gt.asarray")
    if copy is False:
        raise CopyError("from_dlpack: a tensor's memory is its own, so the data must be copied", hint="leave copy out")
    return tensor(x)


@public
def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array of one value, whose dtype follows the value by default.

    >>> import gtensor as gt
    >>> gt.full(2, 7)
    Tensor([7, 7], dtype=int64)
    """
    require_device(device)
    value = as_tensor(fill_value)
    value = cast(value, resolve(value.type).dtype if dtype is None else as_dtype(dtype))
    return apply("broadcast", value, shape=as_shape(shape))


@public
def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array of zeros, of the default float unless a dtype is given.

    >>> zeros((2, 2))
    Tensor([[0., 0.],
            [0., 0.]], dtype=float32)
    """
    return full(shape, 0, DEFAULT_FLOAT if dtype is None else dtype, device=device)


@public
def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array of ones, of the default float unless a dtype is given.

    >>> ones(3)
    Tensor([1., 1., 1.], dtype=float32)
    """
    return full(shape, 1, DEFAULT_FLOAT if dtype is None else dtype, device=device)


@public
def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array to which no values are promised: zeros, since a tensor cannot be filled later.

    >>> import gtensor as gt
    >>> gt.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, device=device)


def _like(x: Any, value: Any, dtype: Any, device: Any) -> Tensor:
    type_ = resolve(as_tensor(x).type)
    return full(type_.shape, value, type_.dtype if dtype is None else dtype, device=device)


@public
def zeros_like(x: Any, /, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Zeros in the shape and dtype of x."""
    return _like(x, 0, dtype, device)


@public
def ones_like(x: Any, /, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones in the shape and dtype of x."""
    return _like(x, 1, dtype, device)


@public
def empty_like(x: Any, /, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array in the shape and dtype of x to which no values are promised: zeros."""
    return _like(x, 0, dtype, device)


@public
def full_like(x: Any, /, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """One value in the shape and dtype of x."""
    return _like(x, fill_value, dtype, device)


@public
def arange(start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None) -> Tensor:
    """start, start + step, … below stop (0 … start with one argument); int64 for integers, else float32.

    The numbers are known while tracing, or the one argument is a run-time extent. Raises ShapeError for others, for
    a step of 0 and where the number of elements is not finite, DTypeError for what is no number.

    >>> arange(3)
    Tensor([0, 1, 2], dtype=int64)
    """
    require_device(device)
    first, last = (0, start) if stop is None else (start, stop)
    if isinstance(last, Dim) and (first, step) == (0, 1):
        return apply("iota", shape=(last,), axis=0, dtype=int64 if dtype is None else as_dtype(dtype))
    first, last, step = map(_plain, (first, last, step))
    whole = all(isinstance(v, (int, np.integer)) for v in (first, last, step))
    target = as_dtype(dtype) if dtype is not None else int64 if whole else DEFAULT_FLOAT
    count = _count(first, last, step, whole)
    wide = int64 if whole else float64
    if (first, step) == (0, 1):
        return apply("iota", shape=(count,), axis=0, dtype=target)
    line = apply("iota", shape=(count,), axis=0, dtype=wide)
    return cast(apply("add", apply("mul", line, step), first), target)


def _plain(value: Any) -> Any:
    """A number, also that of a tensor without axes."""
    number = value.item() if isinstance(value, Tensor) and value.data is not None else value
    if isinstance(number, (Dim, Tensor)):
        raise ShapeError("arange: from 0 to a run-time extent, or between numbers that are known while tracing")
    if not isinstance(number, (int, float, np.integer, np.floating)):
        raise DTypeError(f"arange takes numbers, not {value!r}")
    return number


def _count(first: float, last: float, step: float, whole: bool) -> int:
    """How many elements first, first + step, … has below last: exactly for integers of any size."""
    if step == 0:
        raise ShapeError("arange: step must not be 0")
    if whole:
        return len(range(int(first), int(last), int(step)))
    ratio = (last - first) / step
    if not math.isfinite(ratio):
        raise ShapeError(f"arange: from {first} to {last} by {step} is no finite number of elements")
    return max(0, math.ceil(ratio))


def _line(start: float, stop: float, num: int, endpoint: bool, what: str) -> Tensor:
    """`num` evenly spaced values in float64, the last of them exactly `stop`."""
    (num,) = as_shape(num)  # type: ignore[assignment]
    if num < 0:
        raise ShapeError(f"{what}: num is {num}, which is negative")
    parts = num - 1 if endpoint else num
    line = apply("iota", shape=(num,), axis=0, dtype=float64)
    gap = (stop - start) / parts if parts > 0 else 0.0
    if not math.isfinite(gap):  # beyond the largest float, though both ends are not
        gap = stop / parts - start / parts
    values = apply("add", apply("mul", line, gap), float(start))
    if endpoint and num > 1:
        values = apply("where", apply("eq", line, float(num - 1)), cast(as_tensor(float(stop)), float64), values)
    return values


@public
def linspace(
    start: float, stop: float, /, num: int, dtype: Any = None, endpoint: bool = True, *, device: Any = None
) -> Tensor:
    """`num` evenly spaced values from start to stop, the last included by default.

    >>> linspace(0.0, 1.0, 3)
    Tensor([0. , 0.5, 1. ], dtype=float32)
    """
    require_device(device)
    return cast(_line(start, stop, num, endpoint, "linspace"), DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


@public
def logspace(
    start: float, stop: float, /, num: int = 50, base: float = 10.0, dtype: Any = None, endpoint: bool = True
) -> Tensor:
    """base ** start … base ** stop in `num` steps of one factor, the last included by default.

    Computed in float64. Raises ShapeError for a negative num.

    >>> logspace(0, 2, 3)
    Tensor([  1.,  10., 100.], dtype=float32)
    """
    powers = apply("pow", cast(as_tensor(float(base)), float64), _line(start, stop, num, endpoint, "logspace"))
    return cast(powers, DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


@public
def geomspace(start: float, stop: float, /, num: int = 50, dtype: Any = None, endpoint: bool = True) -> Tensor:
    """`num` values from start to stop with one factor between neighbours, the last included by default.

    Both ends are exact. Raises OptionError where an end is 0 or the ends differ in sign, ShapeError for a
    negative num.

    >>> geomspace(1, 8, 4)
    Tensor([1., 2., 4., 8.], dtype=float32)
    """
    if not (start > 0 and stop > 0) and not (start < 0 and stop < 0):
        raise OptionError(f"geomspace: start and stop must not be 0 and be of one sign, not {start} and {stop}")
    first, last = (math.log(abs(end)) for end in (start, stop))
    powers = apply("exp", _line(first, last, num, endpoint, "geomspace"))
    values = apply("mul", powers, math.copysign(1.0, start))
    line = apply("iota", shape=(num,), axis=0, dtype=int64)
    for place, end in ((0, start), *(((num - 1, stop),) if endpoint and num > 1 else ())):
        values = apply("where", apply("eq", line, place), cast(as_tensor(float(end)), float64), values)
    return cast(values, DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


@public
def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere.

    >>> eye(2, k=1)
    Tensor([[0., 1.],
            [0., 0.]], dtype=float32)
    """
    require_device(device)
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols))
    row = apply("iota", shape=shape, axis=0, dtype=int64)
    column = apply("iota", shape=shape, axis=1, dtype=int64)
    return cast(apply("eq", apply("add", row, k), column), DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


@public
def identity(n: int, /, dtype: Any = None) -> Tensor:
    """The matrix [n, n] with ones on the diagonal and zeros elsewhere.

    >>> identity(2)
    Tensor([[1., 0.],
            [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


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

"""Dtypes, run-time extents and array types; promotion and broadcasting.

A `Type` is what is known of an array while tracing: its shape, its dtype, and whether it came from a
Python number (weak). Promotion follows the Python array API standard; where the standard leaves the
result open, the floating dtype wins (int32 + float32 is float32). Law: every function here is pure and
raises an `errors.ShapeError` or `errors.DTypeError` without a source, which the caller adds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .errors import AxisError, DTypeError, ShapeError


@dataclass(frozen=True)
class DType:
    """An element type: `gt.float32`, `gt.int64`, …; usable wherever NumPy takes a dtype.

    >>> import gtensor as gt, numpy as np
    >>> np.zeros(2, gt.float32).dtype
    dtype('float32')
    """

    name: str
    tag: str
    kind: str
    itemsize: int
    extra: str = ""

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's; raises DTypeError where the package that has it is not installed."""
        return _of_extra(self) if self.extra else np.dtype(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"gtensor.{self.name}"

    @functools.cached_property
    def floating(self) -> bool:
        """Whether it has a gradient."""
        return self.kind == "f"

    @functools.cached_property
    def stored(self) -> bool:
        """Whether it is a float of 16 bits: arrays are kept in it, and computed with in float32."""
        return self.floating and self.itemsize == 2


def _of_extra(dtype: DType) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        hint = f"pip install gtensor[{dtype.extra}]"
        raise DTypeError(f"{dtype.name} needs the package ml_dtypes", hint=hint) from None
    return np.dtype(getattr(ml_dtypes, dtype.name))


float16 = DType("float16", "f16", "f", 2)
bfloat16 = DType("bfloat16", "bf16", "f", 2, extra="bf16")
float32 = DType("float32", "f32", "f", 4)
float64 = DType("float64", "f64", "f", 8)
int8 = DType("int8", "i8", "i", 1)
int16 = DType("int16", "i16", "i", 2)
int32 = DType("int32", "i32", "i", 4)
int64 = DType("int64", "i64", "i", 8)
uint8 = DType("uint8", "u8", "u", 1)
uint16 = DType("uint16", "u16", "u", 2)
uint32 = DType("uint32", "u32", "u", 4)
uint64 = DType("uint64", "u64", "u", 8)
bool_ = DType("bool", "b1", "b", 1)

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
STORED = (float16, bfloat16)
DTYPES = (float32, float64, *STORED, *SIGNED, *UNSIGNED, bool_)
DEFAULT_FLOAT = float32
DEFAULT_INT = int64

_BY_NAME = {d.name: d for d in DTYPES}
_BY_PYTHON: dict[Any, DType] = {float: float32, int: int64, bool: bool_}


_KNOWN: dict[np.dtype[Any], DType | None] = {}


def known(dtype: np.dtype[Any]) -> DType | None:
    """The DType of a NumPy dtype in any byte order; None for one that gtensor has not."""
    if dtype not in _KNOWN:
        _KNOWN[dtype] = _BY_NAME.get(dtype.name)
    return _KNOWN[dtype]


def as_dtype(dtype: Any) -> DType:
    """The DType of a DType, a NumPy dtype or its name, or a Python number type.

    >>> as_dtype("float64"), as_dtype(int), as_dtype(np.uint8)
    (gtensor.float64, gtensor.int64, gtensor.uint8)
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    if isinstance(dtype, type) and dtype in _BY_PYTHON:
        return _BY_PYTHON[dtype]
    try:
        found = None if dtype is None else known(dtype if isinstance(dtype, np.dtype) else np.dtype(dtype))
    except TypeError:
        found = None
    if found is None:
        names = ", ".join(d.name for d in DTYPES)
        raise DTypeError(f"dtype {dtype!r} is not supported", hint=f"use one of {names}")
    return found


@dataclass(frozen=True)
class Dim:
    """A run-time extent, at most `bound`; `factor` times it where axes were merged.

    A multiple of an extent by a whole number, not negative, is an extent; other arithmetic gives a number of the trace,
    a tensor, which `counted` (set by `tensor`) makes.

    >>> Dim("B", 512) * 4
    4*B
    """

    name: str
    bound: int
    factor: int = 1
    counted: ClassVar[Callable[[Dim], Any]]

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int) and other >= 0:
            return replace(self, factor=self.factor * other)
        return Dim.counted(self) * (Dim.counted(other) if isinstance(other, Dim) else other)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return Dim.counted(self) + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return Dim.counted(self) - other

    def __rsub__(self, other: Any) -> Any:
        return other - Dim.counted(self)

    def __truediv__(self, other: Any) -> Any:
        return Dim.counted(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / Dim.counted(self)

    def __floordiv__(self, other: Any) -> Any:
        return Dim.counted(self) // other

    def __mod__(self, other: Any) -> Any:
        return Dim.counted(self) % other

    def __pow__(self, other: Any) -> Any:
        return Dim.counted(self) ** other

    def __neg__(self) -> Any:
        return -Dim.counted(self)

    def __lt__(self, other: Any) -> Any:
        return Dim.counted(self) < other

    def __le__(self, other: Any) -> Any:
        return Dim.counted(self) <= other

    def __gt__(self, other: Any) -> Any:
        return Dim.counted(self) > other

    def __ge__(self, other: Any) -> Any:
        return Dim.counted(self) >= other

    def __int__(self) -> int:
        return int(Dim.counted(self))  # raises TraceError, which names the user's line

    def __float__(self) -> float:
        return float(Dim.counted(self))

    __index__ = __int__

    def __str__(self) -> str:
        return self.name if self.factor == 1 else f"{self.factor}*{self.name}"

    __repr__ = __str__

    def at(self, value: int) -> int:
        """The extent when the dimension has this value."""
        return self.factor * value


Shape = tuple[int | Dim, ...]


def extent_bound(extent: int | Dim) -> int:
    """The largest value of an extent."""
    return extent if isinstance(extent, int) else extent.factor * extent.bound


def shape_size(shape: Iterable[int | Dim]) -> int | Dim:
    """The number of elements; raises ShapeError where two run-time extents would multiply."""
    size = 1
    dim: Dim | None = None
    for extent in shape:
        if isinstance(extent, int):
            size *= extent
        elif dim is None:
            dim = extent
        else:
            raise ShapeError(f"an array can have one run-time extent, not both {dim} and {extent}")
    return size if dim is None else dim * size


@dataclass(frozen=True)
class Type:
    """Shape and dtype of an array. `weak` marks a Python number, whose dtype yields to others."""

    shape: Shape
    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.dtype.tag}[{','.join(map(str, self.shape))}]"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int | Dim:
        """The number of elements."""
        return shape_size(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes at the bound of a run-time extent."""
        return math.prod(map(extent_bound, self.shape)) * self.dtype.itemsize

    def with_shape(self, shape: Sequence[int | Dim]) -> Type:
        """The same dtype in another shape."""
        return Type(tuple(shape), self.dtype, self.weak)

    def with_dtype(self, dtype: DType) -> Type:
        """The same shape with another (strong) dtype."""
        return Type(self.shape, dtype)


def type_of(value: np.ndarray[Any, Any] | np.generic) -> Type:
    """The type of a NumPy array or scalar."""
    return Type(tuple(value.shape), as_dtype(value.dtype))


_RANK = {"b": 0, "u": 1, "i": 2, "f": 3}


def summed(dtype: DType) -> DType:
    """The dtype in which sums and products over axes are taken: floats keep theirs, integers take the widest.

    >>> summed(uint8), summed(bool_), summed(float32)
    (gtensor.uint64, gtensor.int64, gtensor.float32)
    """
    return dtype if dtype.floating else uint64 if dtype.kind == "u" else int64


_DIGITS = {"b1": 1, "f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def holds(wide: DType, dtype: DType) -> bool:
    """Whether a dtype has every value of another.

    >>> holds(int16, uint8), holds(float32, int32), holds(float16, bfloat16)
    (True, False, False)
    """
    have, need = (_DIGITS.get(d.tag, 8 * d.itemsize - (d.kind == "i")) for d in (wide, dtype))
    return dtype == wide or (
        _RANK[dtype.kind] <= _RANK[wide.kind] and need <= have and not (dtype.stored and wide.stored)
    )


def finfo_of(dtype: DType) -> Any:
    """The limits of a floating dtype, as NumPy or ml_dtypes has them."""
    if not dtype.extra:
        return np.finfo(dtype.dtype)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return finfo(dtype.dtype)


def promote(types: Sequence[Type]) -> tuple[DType, bool]:
    """The dtype in which operands meet, and whether it is still weak.

    Raises DTypeError for uint64 and a signed integer, since no integer holds all of both.

    >>> promote([Type((), int32), Type((), float32)])[0]
    gtensor.float32
    >>> promote([Type((3,), float32), Type((), float64, weak=True)])[0]
    gtensor.float32
    >>> promote([Type((), uint8), Type((), int8)])[0]
    gtensor.int16
    """
    strong = [t.dtype for t in types if not t.weak]
    weak = [t.dtype for t in types if t.weak]
    if not strong:
        return max(weak, key=lambda d: (_RANK[d.kind], d.itemsize)), True
    result = strong[0]
    for dtype in strong[1:]:
        result = _meet(result, dtype)
    for dtype in weak:
        if _RANK[dtype.kind] > _RANK[result.kind] and not (dtype.kind == "i" and result.kind == "u"):
            result = DEFAULT_FLOAT if dtype.kind == "f" else DEFAULT_INT
    return result, False


def _meet(a: DType, b: DType) -> DType:
    if a.kind == "f" or b.kind == "f":
        floats = [d for d in (a, b) if d.kind == "f"]
        return float32 if {*floats} == {*STORED} else max(floats, key=lambda d: d.itemsize)
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    if bool_ in (a, b):
        return b if a == bool_ else a
    unsigned, signed = sorted((a, b), key=lambda d: _RANK[d.kind])
    if unsigned == uint64:
        raise DTypeError(f"{a} and {b} have no common integer dtype", hint="convert one of them with astype")
    return next(d for d in SIGNED if d.itemsize > unsigned.itemsize and d.itemsize >= signed.itemsize)


def stored(dtypes: Sequence[DType]) -> DType | None:
    """The dtype of 16 bits that operands have and their result is rounded to, if they are floats of no other.

    >>> stored([float16, int64]), stored([float16, float32])
    (gtensor.float16, None)
    """
    found: DType | None = None
    for dtype in dtypes:
        if dtype.floating:
            if not dtype.stored:
                return None
            found = dtype if found is None or found == dtype else float32
    return found


def resolve(type_: Type) -> Type:
    """What a weak type becomes when it leaves a function: the default float or int."""
    if not type_.weak:
        return type_
    default = {"f": DEFAULT_FLOAT, "i": DEFAULT_INT}.get(type_.dtype.kind, type_.dtype)
    return Type(type_.shape, default)


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape operands meet in, by NumPy's rule.

    >>> broadcast_shapes([(3, 1), (4,)])
    (3, 4)
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[int | Dim] = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extent == 1 or extent == result[i]:
                continue
            if result[i] != 1:
                raise ShapeError(f"shapes {show_shapes(shapes)} do not broadcast: {result[i]} against {extent}")
            result[i] = extent
    return tuple(result)


def show_shapes(shapes: Sequence[Shape]) -> str:
    """Shapes as a reader writes them.

    >>> show_shapes([(3,), ()])
    '(3,) and ()'
    """
    texts = ["(" + ", ".join(map(str, s)) + ("," if len(s) == 1 else "") + ")" for s in shapes]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def normalize_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """A non-negative axis; raises AxisError when out of range, DTypeError when it is no integer."""
    try:
        index = int(axis.__index__())
    except AttributeError:
        raise DTypeError(f"{what} must be an integer, not {axis!r}") from None
    if not -ndim <= index < ndim:
        raise AxisError(f"{what} {index} is out of range for an array with {ndim} axes")
    return index + ndim if index < 0 else index


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Sorted, distinct, non-negative axes; None means all."""
    if axis is None:
        return tuple(range(ndim))
    axes = [normalize_axis(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(axes))

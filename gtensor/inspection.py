"""What the array API standard asks of dtypes and of the namespace: result_type, can_cast, finfo, iinfo, isdtype, info.

Comes in: dtypes, arrays, numbers. Goes out: facts. Law: nothing here looks at values; what is said of dtypes is
what `types.promote` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import DTypeError, OptionError
from .interchange import DEVICE, require_device
from .prim import public
from .tensor import as_tensor
from .types import DEFAULT_FLOAT, DEFAULT_INT, DTYPES, STORED, DType, Type, as_dtype, finfo_of, promote, resolve

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
"""The standard's names of kinds of dtypes, and the letters of `DType.kind` that are meant."""

MOST_AXES = 64
"""NumPy's limit, which evaluates eager calls."""


@dataclass(frozen=True)
class FloatInfo:
    """Facts of a floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """Facts of an integer dtype, as Python numbers."""

    bits: int
    max: int
    min: int
    dtype: DType


def _type(x: Any) -> Type:
    """The type of an array or a number; a dtype counts as an array of it without axes."""
    if isinstance(x, (DType, np.dtype, type, str)):
        return Type((), as_dtype(x))
    return as_tensor(x).type


@public
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype in which arrays, dtypes and Python numbers meet, as in an operation on them.

    Raises DTypeError where nothing is given, and for uint64 with a signed integer.

    >>> import gtensor as gt
    >>> gt.result_type(gt.int32, gt.ones(2)), gt.result_type(gt.uint8, 1)
    (gtensor.float32, gtensor.uint8)
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type of nothing")
    return resolve(Type((), *promote([_type(x) for x in arrays_and_dtypes]))).dtype


@public
def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether an array or dtype becomes the dtype `to` where it meets it, by the rules of promotion.

    >>> import gtensor as gt
    >>> gt.can_cast(gt.int32, gt.int64), gt.can_cast(gt.float64, gt.float32)
    (True, False)
    """
    target = as_dtype(to)
    try:
        return promote([Type((), resolve(_type(from_)).dtype), Type((), target)])[0] == target
    except DTypeError:
        return False


@public
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is the given one, or of the given kind, or one of a tuple of these.

    The kinds are "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating"
    and "numeric". Raises OptionError for another name.

    >>> import gtensor as gt
    >>> gt.isdtype(gt.uint8, "integral"), gt.isdtype(gt.uint8, (gt.int64, "bool"))
    (True, False)
    """
    found = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if not isinstance(kind, str):
        return found == as_dtype(kind)
    if kind not in KINDS:
        raise OptionError(f"isdtype: kind must be a dtype or one of {', '.join(KINDS)}, not {kind!r}")
    return found.kind in KINDS[kind]


@public
def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or of that of an array; raises DTypeError for another.

    >>> import gtensor as gt
    >>> gt.finfo(gt.float32).eps, gt.finfo(gt.float64).bits
    (1.1920928955078125e-07, 64)
    """
    dtype = resolve(_type(type)).dtype
    if not dtype.floating:
        raise DTypeError(f"finfo: {dtype} is no floating dtype", hint="use gt.iinfo")
    info = finfo_of(dtype)
    return FloatInfo(
        int(info.bits), float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), dtype
    )


@public
def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of that of an array; raises DTypeError for another.

    >>> import gtensor as gt
    >>> gt.iinfo(gt.int32).max
    2147483647
    """
    dtype = resolve(_type(type)).dtype
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: {dtype} is no integer dtype", hint="use gt.finfo")
    info = np.iinfo(dtype.dtype)
    return IntegerInfo(int(info.bits), int(info.max), int(info.min), dtype)


class NamespaceInfo:
    """What `gt.__array_namespace_info__()` gives: the standard's questions about the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """What depends on values in its shape works eagerly, and is refused while tracing."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MOST_AXES}

    def default_device(self) -> str:
        """The device of new arrays."""
        return DEVICE

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of arrays of Python numbers, and of indices; complex numbers are not there."""
        require_device(device)
        return {"real floating": DEFAULT_FLOAT, "integral": DEFAULT_INT, "indexing": DEFAULT_INT}

    def devices(self) -> list[str]:
        """All devices."""
        return [DEVICE]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes by name, or those of a kind (as for `isdtype`); float16 and bfloat16 come on top."""
        require_device(device)
        return {d.name: d for d in DTYPES if d not in STORED and (kind is None or isdtype(d, kind))}


def __array_namespace_info__() -> NamespaceInfo:
    """Facts about the namespace, as the array API standard asks for them.

    >>> import gtensor as gt
    >>> gt.__array_namespace_info__().default_dtypes()["real floating"]
    gtensor.float32
    """
    return NamespaceInfo()

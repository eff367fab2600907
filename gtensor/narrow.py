"""Functions of several operations on floats of 16 bits: computed in float32 throughout, rounded once at the end.

A single operation on float16 or bfloat16 is computed in float32 and rounded (`tensor.bind`). Comes in: a function of
tensors that is made of several. Goes out: the same function, whose intermediate values keep the digits and the range
of float32. Law: other data are handed on as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .tensor import Tensor, as_tensor, cast
from .types import Type, float32, known, promote

P = ParamSpec("P")
R = TypeVar("R")


def rounded_once(fn: Callable[P, R]) -> Callable[P, R]:
    """The function with its arguments of 16 bits as float32, and its float32 results in the dtype they meet in.

    Among float32 or float64 data the arguments yield to those, and nothing is rounded.
    """

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not any(map(_stored, args)) and not any(map(_stored, kwargs.values())):
            return fn(*args, **kwargs)
        floats = [t for t in map(_type, (*args, *kwargs.values())) if t is not None and t.dtype.floating]
        target = promote(floats)[0]
        out: Any = fn(*map(_widened, args), **{k: _widened(v) for k, v in kwargs.items()})
        return out if not target.stored else _rounded(out, target)

    return call


def _type(value: Any) -> Type | None:
    """The type of an argument that is an array."""
    if isinstance(value, Tensor):
        return value.type
    dtype = known(value.dtype) if isinstance(value, (np.ndarray, np.generic)) else None
    return None if dtype is None else Type((), dtype)


def _stored(value: Any) -> bool:
    type_ = _type(value)
    return type_ is not None and type_.dtype.stored


def _widened(value: Any) -> Any:
    return cast(as_tensor(value), float32) if _stored(value) else value


def _rounded(out: Any, target: Any) -> Any:
    if isinstance(out, tuple):
        parts = [_rounded(part, target) for part in out]
        return type(out)(*parts) if hasattr(out, "_fields") else tuple(parts)
    return cast(out, target) if isinstance(out, Tensor) and out.type.dtype == float32 else out

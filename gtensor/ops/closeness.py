"""Equality of arrays: isclose, allclose, array_equal.

Laws: the results are bools, traced ones too; NaN equals nothing unless `equal_nan` says so; infinities are
close to themselves only.
"""

from __future__ import annotations

from typing import Any

from ..prim import public
from ..tensor import Tensor, as_tensor, meet
from .arithmetic import abs, equal, isfinite, isnan, less_equal, logical_and, logical_or, subtract
from .reduce import all


@public
def isclose(x1: Any, x2: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Elementwise |x1 - x2| <= atol + rtol |x2|, as bool; operands broadcast.

    >>> import gtensor as gt
    >>> gt.isclose([1.0, 1.0, gt.nan], [1.0 + 1e-6, 1.1, gt.nan], equal_nan=True)
    Tensor([ True, False,  True], dtype=bool)
    """
    a, b = meet(x1, x2)
    near = less_equal(abs(subtract(a, b)), rtol * abs(b) + atol) if a.type.dtype.floating else _near(a, b, rtol, atol)
    close = logical_or(equal(a, b), logical_and(logical_and(isfinite(a), isfinite(b)), near))
    return logical_or(close, logical_and(isnan(a), isnan(b))) if equal_nan else close


def _near(a: Tensor, b: Tensor, rtol: float, atol: float) -> Tensor:
    """Closeness of integers, in float64: their difference may not fit their dtype."""
    wide_a, wide_b = a.astype("float64"), b.astype("float64")
    return less_equal(abs(subtract(wide_a, wide_b)), rtol * abs(wide_b) + atol)


@public
def allclose(x1: Any, x2: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close in the sense of `isclose`, as a bool tensor.

    >>> import gtensor as gt
    >>> bool(gt.allclose([1.0, 2.0], [1.0, 2.0 + 1e-6]))
    True
    """
    return all(isclose(x1, x2, rtol, atol, equal_nan))


@public
def array_equal(x1: Any, x2: Any, /, equal_nan: bool = False) -> Tensor:
    """Whether the arrays have one shape and equal elements, as a bool tensor.

    >>> import gtensor as gt
    >>> bool(gt.array_equal([1, 2], [1, 2])), bool(gt.array_equal([1, 2], [1, 2, 3]))
    (True, False)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if a.type.shape != b.type.shape:
        return as_tensor(False)
    same = equal(a, b)
    return all(logical_or(same, logical_and(isnan(a), isnan(b))) if equal_nan else same)

"""What floating-point numbers are made of, elementwise: signs, neighbours, remainders, steps, NaN and closeness.

Comes in: arrays that broadcast. Laws: compiled results are bit-equal to NumPy's; complex numbers do not exist here, so
that `real` and `conj` are the identity and `imag` is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..prim import Input, public
from ..pullback import zeros
from ..tensor import Tensor, as_tensor, meet
from ..types import finfo_of
from .arithmetic import NUMBERS, isnan, maximum, minimum, round, sign, where
from .records import Function, bool_type, elementwise, uniform
from .statistics import floating

copysign: Function = elementwise(
    "copysign", np.copysign, "gt_copysign_{t}({0}, {1})",
    vjp=lambda g, y, a, b: (lambda: g * (sign(a) * copysign(1.0, b)), None), arity=2, promotion="float", exact=True,
    samples=[[uniform(0.2, 3), uniform(-3, -0.2)], [uniform(-3, -0.2), uniform(-3, -0.2)]],
    doc="Elementwise the size of x1 with the sign of x2, that of a zero or NaN included.",
)  # fmt: skip
nextafter = elementwise(
    "nextafter", lambda a, b: np.where(a == b, b, np.nextafter(a, b)),
    "gt_nextafter_{t}({0}, {1})", arity=2, promotion="float", exact=True, moves=True,
    doc="Elementwise the number next to x1 in the direction of x2; it has no derivative.",
)  # fmt: skip
signbit = elementwise(
    "signbit", np.signbit, "gt_signbit_{t}({0})", vjp=lambda g, y, x: (None,), zero=True, promotion="float",
    type=bool_type, exact=True, doc="Elementwise test for a minus sign, that of a zero or NaN included.",
)  # fmt: skip
fmod = elementwise(
    "fmod", np.fmod, "gt_fmod_{t}({0}, {1})",
    vjp=lambda g, y, a, b: (g, lambda: -(g * round((a - y) / b))), arity=2, exact=True,
    samples=[[Input(values=[5.3, -4.2, 0.7, 7.9]), Input(values=[2.0, 3.0, -0.4, -3.0])]], dtypes=NUMBERS,
    doc="Elementwise x1 - x2 * trunc(x1 / x2), with the sign of x1; integer remainder by zero gives 0.",
)  # fmt: skip


def _of_numbers(x1: Any, x2: Any, choose: Function) -> Tensor:
    """The choice between both where neither is NaN, else the one that is none."""
    a, b = meet(x1, x2)
    if not a.type.dtype.floating:
        return choose(a, b)
    return where(isnan(a), b, where(isnan(b), a, choose(a, b)))


@public
def fmax(x1: Any, x2: Any, /) -> Tensor:
    """The larger value; where one is NaN, the other (`maximum` gives NaN). Equal operands share the gradient.

    >>> import gtensor as gt
    >>> gt.fmax(gt.tensor([1.0, gt.nan, gt.nan]), gt.tensor([2.0, 3.0, gt.nan]))
    Tensor([ 2.,  3., nan], dtype=float32)
    """
    return _of_numbers(x1, x2, maximum)


@public
def fmin(x1: Any, x2: Any, /) -> Tensor:
    """The smaller value; where one is NaN, the other (`minimum` gives NaN). Equal operands share the gradient.

    >>> import gtensor as gt
    >>> gt.fmin(gt.tensor([1.0, gt.nan, gt.nan]), gt.tensor([2.0, 3.0, gt.nan]))
    Tensor([ 1.,  3., nan], dtype=float32)
    """
    return _of_numbers(x1, x2, minimum)


@public
def heaviside(x1: Any, x2: Any, /) -> Tensor:
    """0 where x1 is negative, x2 where it is 0, 1 where it is positive; NaN stays. Integers give the default float.

    Its derivative by x1 is 0, by x2 that of the choice.

    >>> import gtensor as gt
    >>> gt.heaviside(gt.tensor([-1.5, 0.0, 2.0]), 0.5)
    Tensor([0. , 0.5, 1. ], dtype=float32)
    """
    a, b = (floating(x) for x in meet(x1, x2))
    return where(a < 0, 0.0, where(a > 0, 1.0, where(a == 0, b, a * 0)))


@public
def nan_to_num(x: Any, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with NaN and both infinities replaced: by `nan`, `posinf`, `neginf`, or the dtype's largest and smallest.

    x: any shape and dtype; integers have nothing to replace. The derivative is 1 where x stays, else 0.

    >>> import gtensor as gt
    >>> gt.nan_to_num(gt.tensor([gt.nan, gt.inf, -gt.inf, 1.0]), posinf=9.0)
    Tensor([ 0.0000000e+00,  9.0000000e+00, -3.4028235e+38,  1.0000000e+00], dtype=float32)
    """
    tensor = as_tensor(x)
    if not tensor.type.dtype.floating:
        return tensor
    info = finfo_of(tensor.type.dtype)
    high = float(info.max) if posinf is None else posinf
    low = float(info.min) if neginf is None else neginf
    bounded = where(tensor == np.inf, high, where(tensor == -np.inf, low, tensor))
    return where(isnan(tensor), nan, bounded)


@public
def real(x: Any, /) -> Tensor:
    """x itself, since all numbers here are real."""
    return as_tensor(x)


@public
def conj(x: Any, /) -> Tensor:
    """x itself, since all numbers here are real."""
    return as_tensor(x)


@public
def imag(x: Any, /) -> Tensor:
    """Zeros of the shape and dtype of x, since all numbers here are real."""
    return zeros(as_tensor(x).type)

"""Elementary functions beside those of every day: inverse hyperbolic ones, roots, logarithms of sums, sinc, angles.

Comes in: arrays that broadcast; integers give the default float. As in transcendental.py the evaluator computes in
float64 and rounds once; the compiled functions stand in gt_special.h, which states their errors. Law: values and
derivatives neither overflow nor cancel where they are finite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..prim import public
from ..tensor import Tensor
from .arithmetic import isinf, where
from .records import Function, elementwise, in_f64, uniform
from .statistics import floating
from .transcendental import INSIDE, sigmoid, sqrt

Array = np.ndarray[Any, Any]


def in_double(
    name: str, numpy: Any, vjp: Any, doc: str, samples: Any = (), arity: int = 1, ulps: int = 4, **more: Any
) -> Function:
    """The record and the function of gt_special.h's function of that name."""
    places = ", ".join(f"{{{i}}}" for i in range(arity))
    return elementwise(
        name, in_f64(numpy), f"gt_sf_{name}_{{t}}({places})", vjp=vjp, arity=arity, promotion="float", ulps=ulps,
        samples=samples, flops=40.0, doc=doc, **more,
    )  # fmt: skip


def _share(y: Tensor, x: Tensor) -> Tensor:
    """x / y, 0 where y is."""
    return where(y == 0, 0.0, x / y)


hypot = elementwise(
    "hypot", in_f64(np.hypot), "gt_hypot_{t}({0}, {1})",
    vjp=lambda g, y, a, b: (lambda: g * _share(y, a), lambda: g * _share(y, b)), arity=2, promotion="float",
    samples=[[uniform(0.3, 3), uniform()], [uniform(), uniform(-3, -0.3)]], flops=10.0,
    doc="Elementwise sqrt(x1**2 + x2**2), without overflow; its derivatives at (0, 0) are 0.",
)  # fmt: skip
acosh = in_double(
    "acosh", np.arccosh, lambda g, y, x: (g / (sqrt(x - 1) * sqrt(x + 1)),),
    "Elementwise inverse hyperbolic cosine; NaN below 1.", [[uniform(1.3, 4)]],
)  # fmt: skip
asinh = in_double("asinh", np.arcsinh, lambda g, y, x: (g / hypot(x, 1.0),), "Elementwise inverse hyperbolic sine.")
atanh = in_double(
    "atanh", np.arctanh, lambda g, y, x: (g / ((1 - x) * (1 + x)),), "Elementwise inverse hyperbolic tangent.", INSIDE
)
cbrt = in_double(
    "cbrt", np.cbrt, lambda g, y, x: (g / (3 * (y * y)),), "Elementwise cube root; its derivative at 0 is +inf.",
    [[uniform(0.3, 4)], [uniform(-4, -0.3)]],
)  # fmt: skip


def _ahead(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """The derivative of logaddexp by a: sigmoid(a - b), 1/2 between equal infinities."""
    return where(isinf(a) & (a == b), 0.5, sigmoid(scale * (a - b)))


def _sum_vjp(scale: float) -> Any:
    return lambda g, y, a, b: (lambda: g * _ahead(a, b, scale), lambda: g * _ahead(b, a, scale))


logaddexp = in_double(
    "logaddexp", np.logaddexp, _sum_vjp(1.0), "Elementwise log(e**x1 + e**x2), without overflow.", arity=2
)
logaddexp2 = in_double(
    "logaddexp2", np.logaddexp2, _sum_vjp(math.log(2.0)), "Elementwise log2(2**x1 + 2**x2), without overflow.", arity=2
)


def _sine_of_turns(x: Array) -> Array:
    """sin(pi x): x less the nearest even number is exact, and so is its distance from 1."""
    r = x - 2 * np.rint(0.5 * x)
    return np.asarray(np.sin(np.pi * np.where(np.abs(r) > 0.5, np.copysign(1, r) - r, r)))


def _cosine_of_turns(x: Array) -> Array:
    r = np.abs(x - 2 * np.rint(0.5 * x))
    return np.asarray(np.where(r < 0.25, np.cos(np.pi * r), np.sin(np.pi * (0.5 - r))))


def _sinc(x: Array) -> Array:
    return np.asarray(np.where(x == 0, 1.0, _sine_of_turns(x) / (np.pi * x)))


def _sinc_slope(x: Array) -> Array:
    """(cos(pi x) - sinc(x)) / x, near 0 by its series."""
    near = np.clip(x, -0.5, 0.5)
    z, total = (np.pi * near) ** 2, np.ones_like(x)
    for j in range(12, 0, -1):
        total = 1 - total * z / (2 * j * (2 * j + 3))
    far = (_cosine_of_turns(x) - _sinc(x)) / x
    return np.asarray(np.where(np.abs(x) < 0.5, -np.pi * np.pi / 3 * near * total, far))


sinc_slope = in_double(
    "sinc_slope", _sinc_slope,
    lambda g, y, x: (g * where(x == 0, -math.pi**2 / 3, -(math.pi**2) * sinc(x) - 2 * y / x),),
    "The derivative of sinc, elementwise.", ulps=16,
)  # fmt: skip
sinc: Function = in_double(
    "sinc", _sinc, lambda g, y, x: (g * sinc_slope(x),),
    "Elementwise sin(pi x) / (pi x), 1 at 0 and exactly 0 at all other whole numbers.",
)  # fmt: skip


@public
def deg2rad(x: Any, /) -> Tensor:
    """Degrees in radians: x times pi / 180. Integers give the default float; `radians` is another name.

    >>> import gtensor as gt
    >>> gt.deg2rad(gt.tensor([180.0, -90.0]))
    Tensor([ 3.1415927, -1.5707964], dtype=float32)
    """
    return floating(x) * (math.pi / 180)


@public
def rad2deg(x: Any, /) -> Tensor:
    """Radians in degrees: x times 180 / pi. Integers give the default float; `degrees` is another name.

    >>> import gtensor as gt
    >>> gt.rad2deg(gt.tensor([gt.pi, -gt.pi / 2]))
    Tensor([180., -90.], dtype=float32)
    """
    return floating(x) * (180 / math.pi)

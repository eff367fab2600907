"""Activations composed of primitives: relu, leaky_relu, silu, log_sigmoid, clip.

Comes in: an array of any shape. Goes out: one of the same shape. Laws: NaN stays NaN; at kinks the
derivatives are those each function states, at every order.
"""

from __future__ import annotations

import math
from typing import Any

from ..narrow import rounded_once
from ..ops.arithmetic import where
from ..ops.records import number
from ..ops.transcendental import sigmoid, softplus
from ..prim import public
from ..tensor import Tensor, as_tensor, meet


@public
def relu(x: Any, /) -> Tensor:
    """x where it is positive, else 0; NaN stays. Its derivatives at 0 are 0.

    x: any shape, any dtype but bool, which is kept.

    >>> import gtensor as gt
    >>> gt.relu(gt.tensor([-1.0, 0.0, 2.0])), gt.grad(gt.relu)(0.0)
    (Tensor([0., 0., 2.], dtype=float32), Tensor(0., dtype=float32))
    """
    tensor = as_tensor(x)
    return where(tensor <= 0, 0, tensor)


@public
@rounded_once
def leaky_relu(x: Any, /, negative_slope: Any = 0.01) -> Tensor:
    """x where it is positive, else x * negative_slope, which is also the derivative at 0; NaN stays.

    x: any shape; negative_slope: a number, or an array that broadcasts with x (and then has a gradient).
    Source: Maas, Hannun and Ng, Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.

    >>> import gtensor as gt
    >>> gt.leaky_relu(gt.tensor([-2.0, 3.0]), 0.5)
    Tensor([-1.,  3.], dtype=float32)
    """
    tensor, slope = meet(x, negative_slope)
    return tensor * where(tensor <= 0, slope, 1)


@public
@rounded_once
def silu(x: Any, /) -> Tensor:
    """x * sigmoid(x), also called swish, without overflow.

    x: any shape; integers give the default float. Source: Elfwing, Uchibe and Doya, Sigmoid-Weighted
    Linear Units for Neural Network Function Approximation in Reinforcement Learning, 2018.

    >>> import gtensor as gt
    >>> gt.silu(gt.tensor([-100.0, 0.0, 100.0]))
    Tensor([-3.784e-42,  0.000e+00,  1.000e+02], dtype=float32)
    """
    tensor = as_tensor(x)
    return tensor * sigmoid(tensor)


@public
@rounded_once
def log_sigmoid(x: Any, /) -> Tensor:
    """The logarithm of sigmoid(x), without overflow and without cancellation: -softplus(-x).

    x: any shape; integers give the default float.

    >>> import gtensor as gt
    >>> gt.log_sigmoid(gt.tensor([-1000.0, 0.0, 30.0]))
    Tensor([-1.000000e+03, -6.931472e-01, -9.357623e-14], dtype=float32)
    """
    return -softplus(-as_tensor(x))


@public
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """x, but no less than `min` and no more than `max`; None is no bound. NaN in x or a bound gives NaN.

    x, min, max: numbers or arrays that broadcast, in their common dtype. The derivative with respect to x
    is 1 inside and at the bounds, 0 outside, where it goes to the bound. Where min > max the result is max.

    >>> import gtensor as gt
    >>> gt.clip(gt.tensor([-2.0, -1.0, 0.5, 3.0]), -1, 1)
    Tensor([-1. , -1. ,  0.5,  1. ], dtype=float32)
    >>> gt.grad(lambda x: gt.sum(gt.clip(x, -1, 1)))(gt.tensor([-2.0, -1.0, 0.5, 3.0]))
    Tensor([0., 1., 1., 0.], dtype=float32)
    """
    given = [bound for bound in (min, max) if bound is not None]
    tensor, *bounds = meet(x, *given)
    if min is not None:
        low = bounds.pop(0)
        tensor = _bounded(tensor, low, tensor < low)
    for high in bounds:
        tensor = _bounded(tensor, high, tensor > high)
    return tensor


def _bounded(x: Tensor, bound: Tensor, beyond: Tensor) -> Tensor:
    """The bound where x is beyond it or the bound is NaN; a number that is no NaN needs no test."""
    value = number(bound)
    if value is None or math.isnan(value):
        beyond = beyond | (bound != bound)
    return where(beyond, bound, x)

"""Activations given piece by piece: relu6, hardtanh and its kin, threshold, prelu, elu, selu, celu, shrinkages.

Comes in: an array of any shape; where a rule rounds, integers give the default float. Goes out: one of the same shape.
Laws: NaN stays NaN; a piece that is not taken contributes exactly nothing to the gradient; at a kink the derivatives
are PyTorch's, which each function states.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import where
from ..ops.statistics import floating
from ..ops.transcendental import expm1
from ..tensor import Tensor, apply, as_tensor, meet
from .activations import leaky_relu


@rounded_once
def hardtanh(x: Any, /, min_val: Any = -1.0, max_val: Any = 1.0) -> Tensor:
    """x between two bounds, else the nearer one. Its derivative is 1 inside and 0 at the bounds and beyond.

    x: any shape; min_val, max_val: numbers, or arrays that broadcast (and then have gradients). `clip` is the same
    but for its derivative at the bounds, which is 1.

    >>> import gtensor as gt
    >>> gt.nn.hardtanh(gt.tensor([-2.0, 0.5, 3.0]))
    Tensor([-1. ,  0.5,  1. ], dtype=float32)
    """
    tensor, low, high = meet(x, min_val, max_val)
    return where(tensor <= low, low, where(tensor >= high, high, tensor))


def relu6(x: Any, /) -> Tensor:
    """x between 0 and 6, else the nearer one. Its derivative is 1 inside and 0 at the bounds and beyond.

    x: any shape, any dtype but bool, which is kept. Source: Howard et al., MobileNets, 2017.

    >>> import gtensor as gt
    >>> gt.nn.relu6(gt.tensor([-1.0, 3.0, 8.0]))
    Tensor([0., 3., 6.], dtype=float32)
    """
    return hardtanh(x, 0, 6)


@rounded_once
def hardsigmoid(x: Any, /) -> Tensor:
    """(x + 3) / 6 between -3 and 3, 0 below and 1 above. Its derivative is 0 at both kinks.

    x: any shape. Source: Courbariaux, Bengio and David, BinaryConnect, 2015, with PyTorch's slope.

    >>> import gtensor as gt
    >>> gt.nn.hardsigmoid(gt.tensor([-4.0, 0.0, 1.5, 4.0]))
    Tensor([0.  , 0.5 , 0.75, 1.  ], dtype=float32)
    """
    tensor = floating(x)
    return where(tensor <= -3, 0, where(tensor >= 3, 1, (tensor + 3) / 6))


@rounded_once
def hardswish(x: Any, /) -> Tensor:
    """x * hardsigmoid(x). Its derivative at -3 is 0, at 3 it is 1.

    x: any shape. Source: Howard et al., Searching for MobileNetV3, 2019.

    >>> import gtensor as gt
    >>> gt.nn.hardswish(gt.tensor([-4.0, -1.5, 3.0, 5.0]))
    Tensor([ 0.   , -0.375,  3.   ,  5.   ], dtype=float32)
    """
    tensor = floating(x)
    return where(tensor <= -3, 0, where(tensor >= 3, tensor, tensor * (tensor + 3) / 6))


@rounded_once
def threshold(x: Any, /, threshold: Any, value: Any) -> Tensor:
    """x where it is above the threshold, else `value`. Its derivative by x at the threshold is 0.

    x: any shape; threshold, value: numbers, or arrays that broadcast.

    >>> import gtensor as gt
    >>> gt.nn.threshold(gt.tensor([0.5, 1.0, 2.0]), 1.0, -7.0)
    Tensor([-7., -7.,  2.], dtype=float32)
    """
    tensor, limit, other = meet(x, threshold, value)
    return where(tensor <= limit, other, tensor)


@rounded_once
def prelu(x: Any, weight: Any) -> Tensor:
    """x where it is positive, else x * weight, which is also the derivative at 0: a leaky_relu whose slope is learned.

    x: any shape; weight: one number, or [channels] where x is [batch, channels, ...]. Raises ShapeError for a weight
    that is neither. Source: He et al., Delving Deep into Rectifiers, 2015.

    >>> import gtensor as gt
    >>> gt.nn.prelu(gt.tensor([[-2.0, -2.0], [3.0, 3.0]]), gt.tensor([0.5, 0.25]))
    Tensor([[-1. , -0.5],
            [ 3. ,  3. ]], dtype=float32)
    """
    tensor, slope = as_tensor(x), as_tensor(weight)
    if slope.type.shape in ((), (1,)):
        return leaky_relu(tensor, apply("reshape", slope, shape=()))
    if slope.ndim != 1 or tensor.ndim < 2 or slope.type.shape[0] != tensor.type.shape[1]:
        raise ShapeError(f"prelu: weight must be one number or one per channel of {tensor.type}, not {slope.type}")
    return leaky_relu(tensor, apply("reshape", slope, shape=(*slope.type.shape, *(1,) * (tensor.ndim - 2))))


@rounded_once
def elu(x: Any, /, alpha: Any = 1.0) -> Tensor:
    """x where it is positive, else alpha * (e**x - 1). Its derivative at 0 is alpha.

    x: any shape; alpha: a number, or an array that broadcasts (and then has a gradient). Source: Clevert,
    Unterthiner and Hochreiter, Fast and Accurate Deep Network Learning by Exponential Linear Units, 2016.

    >>> import gtensor as gt
    >>> gt.nn.elu(gt.tensor([-1.0, 0.0, 2.0]))
    Tensor([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    tensor, scale = meet(floating(x), alpha)
    return where(tensor > 0, tensor, scale * expm1(tensor))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""With these a layer keeps mean 0 and variance 1; the fixed point of the paper's equations."""


@rounded_once
def selu(x: Any, /) -> Tensor:
    """scale * elu(x, alpha) with the constants that keep mean 0 and variance 1. Its derivative at 0 is scale * alpha.

    x: any shape. Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.

    >>> import gtensor as gt
    >>> gt.nn.selu(gt.tensor([-1.0, 0.0, 2.0]))
    Tensor([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """
    return elu(x, SELU_ALPHA) * SELU_SCALE


@rounded_once
def celu(x: Any, /, alpha: Any = 1.0) -> Tensor:
    """x where it is positive, else alpha * (e**(x / alpha) - 1), smooth at 0, where its derivative is 1.

    x: any shape; alpha: a number that is not 0, or an array that broadcasts (and then has a gradient). Source:
    Barron, Continuously Differentiable Exponential Linear Units, 2017.

    >>> import gtensor as gt
    >>> gt.nn.celu(gt.tensor([-1.0, 0.0, 2.0]), 2.0)
    Tensor([-0.78693867,  0.        ,  2.        ], dtype=float32)
    """
    tensor, scale = meet(floating(x), alpha)
    return where(tensor > 0, tensor, scale * expm1(tensor / scale))


def hardshrink(x: Any, /, lambd: Any = 0.5) -> Tensor:
    """x where its size is above lambd, else 0. Its derivative at the bounds is 0.

    x: any shape; lambd: a number, or an array that broadcasts.

    >>> import gtensor as gt
    >>> gt.nn.hardshrink(gt.tensor([-1.0, 0.5, 2.0]))
    Tensor([-1.,  0.,  2.], dtype=float32)
    """
    tensor, limit = meet(x, lambd)
    return where((tensor >= -limit) & (tensor <= limit), 0, tensor)


def softshrink(x: Any, /, lambd: Any = 0.5) -> Tensor:
    """x moved towards 0 by lambd, and 0 where that would pass it. Its derivative at the bounds is 0.

    x: any shape; lambd: a number, or an array that broadcasts (and then has a gradient).

    >>> import gtensor as gt
    >>> gt.nn.softshrink(gt.tensor([-1.0, 0.5, 2.0]))
    Tensor([-0.5,  0. ,  1.5], dtype=float32)
    """
    tensor, limit = meet(x, lambd)
    inner = where(tensor < -limit, tensor + limit, where(tensor != tensor, tensor, 0))
    return where(tensor > limit, tensor - limit, inner)

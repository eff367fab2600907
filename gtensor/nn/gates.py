"""Smooth activations and gates: mish, softsign, softmin, glu, swiglu.

Comes in: an array of any shape, the gates' with an axis of even length. Goes out: one of the same shape, or with half
of that axis. Laws: NaN stays NaN; nothing overflows where the value and its derivatives are finite.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import abs as absolute
from ..ops.layout import slice_axis
from ..ops.statistics import floating
from ..ops.transcendental import sigmoid, softplus, tanh
from ..tensor import Tensor
from ..types import normalize_axis
from .activations import silu
from .normalization import softmax


@rounded_once
def mish(x: Any, /) -> Tensor:
    """x * tanh(softplus(x)), without overflow.

    x: any shape; integers give the default float. Source: Misra, Mish: A Self Regularized Non-Monotonic Activation
    Function, 2020.

    >>> import gtensor as gt
    >>> gt.nn.mish(gt.tensor([-1.0, 0.0, 2.0]))
    Tensor([-0.30340147,  0.        ,  1.943959  ], dtype=float32)
    """
    tensor = floating(x)
    return tensor * tanh(softplus(tensor))


@rounded_once
def softsign(x: Any, /) -> Tensor:
    """x / (1 + |x|). Its derivative at 0 is 1, its second one 0.

    x: any shape; integers give the default float.

    >>> import gtensor as gt
    >>> gt.nn.softsign(gt.tensor([-3.0, 0.0, 1.0]))
    Tensor([-0.75,  0.  ,  0.5 ], dtype=float32)
    """
    tensor = floating(x)
    return tensor / (1 + absolute(tensor))


@rounded_once
def softmin(x: Any, /, axis: Any = -1) -> Tensor:
    """softmax(-x): the smallest element gets the largest share.

    x: any shape but 0-d; axis: one, several, or None for all. Raises ShapeError for a wrong axis.

    >>> import gtensor as gt
    >>> gt.nn.softmin(gt.tensor([0.0, 0.0, gt.inf]))
    Tensor([0.5, 0.5, 0. ], dtype=float32)
    """
    return softmax(-floating(x), axis)


def _halves(x: Any, axis: int, what: str) -> tuple[Tensor, Tensor]:
    """Both halves of an axis; raises ShapeError where it is odd."""
    tensor = floating(x)
    place = normalize_axis(axis, tensor.ndim)
    size = tensor.type.shape[place]
    if not isinstance(size, int) or size % 2:
        raise ShapeError(f"{what}: axis {axis} of {tensor.type} must have an even length")
    return slice_axis(tensor, place, 0, size // 2), slice_axis(tensor, place, size // 2, size)


@rounded_once
def glu(x: Any, /, axis: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second.

    x: any shape with an even length along the axis, which the result has half of. Raises ShapeError where it is odd.
    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017.

    >>> import gtensor as gt
    >>> gt.nn.glu(gt.tensor([2.0, 4.0, 0.0, 100.0]))
    Tensor([1., 4.], dtype=float32)
    """
    value, gate = _halves(x, axis, "glu")
    return value * sigmoid(gate)


@rounded_once
def swiglu(x: Any, /, axis: int = -1) -> Tensor:
    """silu of the first half of an axis times the second.

    x: any shape with an even length along the axis, which the result has half of. Raises ShapeError where it is odd.
    Source: Shazeer, GLU Variants Improve Transformer, 2020.

    >>> import gtensor as gt
    >>> gt.nn.swiglu(gt.tensor([100.0, 0.0, 0.5, 3.0]))
    Tensor([50.,  0.], dtype=float32)
    """
    gate, value = _halves(x, axis, "swiglu")
    return silu(gate) * value

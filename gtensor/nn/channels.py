"""Normalization of arrays with channels, x: [N, C, *S]: batch_norm, group_norm, instance_norm.

A group of elements is brought to mean 0 and variance 1, then each channel has a weight and a bias. Variances are
two-pass. Law: nothing is kept behind the user's back: the running statistics of `batch_norm` come in as a state and
go out as a new one.
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.arithmetic import maximum, stop_gradient
from ..ops.statistics import floating, mean
from ..ops.transcendental import rsqrt, square
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Dim, shape_size

State = dict[str, Tensor]


@rounded_once
def batch_norm(
    x: Any, state: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, State]:  # fmt: skip
    """Each channel less its mean, over the root of its variance plus eps, times weight, plus bias; and the new state.

    x: [N, C, *S] or [N, C]; weight, bias: [C] or none; state: {"mean": [C], "var": [C]}, zeros and ones at first. With
    `training` (static) the statistics are those of x, and the new state has moved towards them by `momentum` (the
    variance unbiased, as in PyTorch), without a gradient; else they are those of the state, which stays. Raises
    ShapeError where a channel is missing, or has fewer than two elements while training; OptionError for a wrong eps.
    Source: Ioffe and Szegedy, Batch Normalization, 2015.

    >>> import gtensor as gt
    >>> state = {"mean": gt.zeros(1), "var": gt.ones(1)}
    >>> y, state = gt.nn.batch_norm(gt.tensor([[1.0], [3.0]]), state, training=True)
    >>> y, state["mean"], state["var"]
    (Tensor([[-0.999995],
            [ 0.999995]], dtype=float32), Tensor([0.2], dtype=float32), Tensor([1.1], dtype=float32))
    """
    tensor = _checked("batch_norm", x, 2, eps)
    channels = tensor.type.shape[1]
    names = {"weight": weight, "bias": bias, 'state["mean"]': state["mean"], 'state["var"]': state["var"]}
    scale, shift, old_mean, old_var = (_per_channel("batch_norm", name, p, tensor) for name, p in names.items())
    assert old_mean is not None and old_var is not None
    if not training:
        result = _affine((tensor - old_mean) * rsqrt(old_var + eps), scale, shift)
        return result, {"mean": as_tensor(state["mean"]), "var": as_tensor(state["var"])}
    axes = (0, *range(2, tensor.ndim))
    count = shape_size(tensor.type.shape[i] for i in axes)
    if not isinstance(count, Dim) and count < 2:
        raise ShapeError(f"batch_norm: a channel of {tensor.type} has no variance while training")
    middle = mean(tensor, axes, keepdims=True)
    centred = tensor - middle
    spread = mean(square(centred), axes, keepdims=True)
    result = _affine(centred * rsqrt(spread + eps), scale, shift)
    ones = apply("broadcast", cast(as_tensor(1.0), tensor.dtype), shape=tuple(tensor.type.shape[i] for i in axes))
    total = apply("sum", ones, axis=tuple(range(len(axes)))) if isinstance(count, Dim) else count
    freedom = maximum(total - 1, 1) if isinstance(count, Dim) else count - 1
    unbiased = spread * (total / freedom)  # a known count stays a Python number, which takes the dtype of x
    new = {"mean": old_mean + momentum * (middle - old_mean), "var": old_var + momentum * (unbiased - old_var)}
    moved = {name: apply("reshape", stop_gradient(value), shape=(channels,)) for name, value in new.items()}
    return result, {name: cast(value, as_tensor(state[name]).dtype) for name, value in moved.items()}


@rounded_once
def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Each group of channels of each example less its mean, over the root of its variance plus eps, then per channel
    times weight, plus bias.

    x: [N, C, *S] or [N, C]; num_groups divides C; weight, bias: [C] or none. Raises ShapeError where a channel is
    missing, OptionError where the groups do not divide the channels, or for a wrong eps. Source: Wu and He, Group
    Normalization, 2018.

    >>> import gtensor as gt
    >>> gt.nn.group_norm(gt.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    Tensor([[-0.999995  ,  0.999995  , -0.99999875,  0.99999875]], dtype=float32)
    """
    return _group_norm("group_norm", x, num_groups, weight, bias, eps)


@rounded_once
def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Each channel of each example less its mean, over the root of its variance plus eps, times weight, plus bias.

    x: [N, C, *S] with an axis S at least; weight, bias: [C] or none. Raises as `group_norm` does. Source: Ulyanov,
    Vedaldi and Lempitsky, Instance Normalization, 2016.

    >>> import gtensor as gt
    >>> gt.nn.instance_norm(gt.tensor([[[1.0, 3.0], [5.0, 5.0]]]))
    Tensor([[[-0.999995,  0.999995],
             [ 0.      ,  0.      ]]], dtype=float32)
    """
    tensor = _checked("instance_norm", x, 3, eps)
    return _group_norm("instance_norm", tensor, tensor.type.shape[1], weight, bias, eps)


def _group_norm(what: str, x: Any, groups: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    tensor = _checked(what, x, 2, eps)
    shape = tensor.type.shape
    channels = shape[1]
    if isinstance(channels, Dim) or not isinstance(groups, int) or groups < 1 or channels % groups:
        raise OptionError(f"{what}: {channels} channels cannot be divided into num_groups={groups!r}")
    scale, shift = (_per_channel(what, name, p, tensor) for name, p in (("weight", weight), ("bias", bias)))
    row = shape_size((channels // groups, *shape[2:]))
    rows = apply("reshape", tensor, shape=(shape[0], groups, row))
    centred = rows - mean(rows, -1, keepdims=True)
    result = centred * rsqrt(mean(square(centred), -1, keepdims=True) + eps)
    return _affine(apply("reshape", result, shape=shape), scale, shift)


def _checked(what: str, x: Any, least: int, eps: float) -> Tensor:
    """x as an array of floats with channels."""
    if isinstance(eps, (int, float)) and not eps >= 0:
        raise OptionError(f"{what}: eps must not be negative, as {eps} is")
    tensor = floating(x)
    if tensor.ndim < least:
        raise ShapeError(f"{what}: x must have at least {least} axes, not {tensor.type}")
    return tensor


def _per_channel(what: str, name: str, value: Any, x: Tensor) -> Tensor | None:
    """A parameter so that it broadcasts over x."""
    if value is None:
        return None
    parameter, channels = as_tensor(value), x.type.shape[1]
    if parameter.type.shape != (channels,):
        raise ShapeError(f"{what}: {name} {parameter.type} does not fit the channels of {x.type}")
    return apply("reshape", parameter, shape=(channels, *(1,) * (x.ndim - 2)))


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    if scale is not None:
        x = x * scale
    return x if shift is None else x + shift

"""A moving mean of parameters: smoother weights for evaluation, or a target network that follows slowly.

Comes in: the parameters after each step. Goes out: their exponential moving mean, as a tree like theirs.
Laws: parameters that do not change are their own mean to the bit; leaves that are no floats are copied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import OptionError
from ..ops.arithmetic import astype
from ..ops.create import tensor
from ..ops.transcendental import expm1
from ..tensor import STATE, Tensor, as_tensor, cast
from ..trace import leaf_type
from ..types import float64, int64, resolve
from .optimizer import State, column, count, entry, fitted, require


@dataclass(frozen=True)
class Ema:
    """A pair of functions: the mean before the first step, and after one more. Made by `ema`."""

    decay: float
    debias: bool

    def init(self, params: Any) -> State:
        """The state before the first step: `average`, a copy of the parameters, and `step` with `debias`.

        >>> import gtensor as gt
        >>> gt.optim.ema(0.9).init({"w": gt.ones(2)})
        {'average': {'w': Tensor([1., 1.], dtype=float32)}}
        """
        state: State = {"average": tree.map_leaves(_copy, params)}
        if self.debias:
            state["step"] = count()
        return state

    def update(self, params: Any, state: Mapping[str, Any]) -> State:
        """The state after the parameters of one more step; its `average` is a tree like theirs.

        Raises ShapeError where the state does not fit the parameters.

        >>> import gtensor as gt
        >>> average = gt.optim.ema(0.75)
        >>> average.update(gt.tensor(8.0), average.init(gt.tensor(4.0)))
        {'average': Tensor(5., dtype=float32)}
        """
        leaves, structure = tree.flatten(params)
        averages = column(structure, entry(state, "average", "ema"), "average", "ema")
        after: State = {}
        weight = as_tensor(1 - self.decay)
        if self.debias:
            after["step"] = step = astype(entry(state, "step", "ema"), int64) + 1
            # 1 - decay**step in float64: of the first steps each mean is that of the parameters so far
            weight = weight / -expm1(cast(step, float64) * math.log(self.decay))
        rows = zip(tree.paths(structure), leaves, averages, strict=True)
        after["average"] = tree.unflatten(structure, [_followed(*row, weight) for row in rows])
        return after


def ema(decay: float, debias: bool = False) -> Ema:
    """The exponential moving mean of parameters: average + (1 - decay) * (p - average) at each step.

    It begins at the parameters that `init` gets. With `debias` it forgets them: after t steps the weights of
    the parameters of those steps add up to 1, as Adam's means do. Use it by itself inside a compiled step,
    or behind an optimizer in `chain`. Raises OptionError for a decay outside [0, 1), or for a debiased one
    of 0. Source: Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992; PyTorch's
    get_ema_avg_fn; optax's ema for `debias`.

    >>> import gtensor as gt
    >>> average = gt.optim.ema(0.75, debias=True)
    >>> state = average.init(gt.tensor(100.0))
    >>> average.update(gt.tensor(8.0), state)["average"]
    Tensor(8., dtype=float32)
    """
    require("ema", 0, 1, decay=decay)
    if debias and not decay:
        raise OptionError("ema: a decay of 0 has no bias to correct")
    return Ema(decay, debias)


def _copy(leaf: Any) -> Any:
    """A parameter in memory of its own, so that both may be donated; what is no array as it is."""
    if leaf_type(leaf) is None:
        return leaf
    value = as_tensor(leaf)
    value = cast(value, resolve(value.type).dtype)
    return tensor(np.array(value.numpy())) if STATE.scope is None else value


def _followed(path: str, leaf: Any, average: Any, weight: Tensor) -> Any:
    """The mean after one more value of a parameter."""
    type_ = leaf_type(leaf)
    if type_ is None or not type_.dtype.floating:
        return leaf
    p, mean = fitted("ema", path, leaf, ("its average",), (average,))
    # decay * mean + (1 - decay) * p would drift: in float32 the two weights do not add up to 1
    return mean + cast(weight, p.type.dtype) * (p - mean)

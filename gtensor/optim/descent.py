"""Steps along the gradient or its mean: sgd with momentum, and lion, which takes the sign alone.

Comes in: options. Goes out: an `Optimizer`. Law: formulas, defaults and the order of operations are those
of the source each function names.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import OptionError
from ..ops.arithmetic import sign, where
from ..tensor import Tensor
from .optimizer import Optimizer, PerLeaf, require


def sgd(
    learning_rate: Any = None,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    dampening: float = 0.0,
) -> Optimizer:
    """Stochastic gradient descent: p - rate * g, with momentum b = momentum * b + (1 - dampening) * g for g.

    learning_rate: a number, a scalar tensor, a schedule, or None where `update` gets it. The first b is g
    itself. `nesterov` steps along g + momentum * b; `weight_decay` adds weight_decay * p to g. State:
    `momentum` if there is any, `step` if there is a dampening or a schedule. Raises OptionError for options
    out of range. Formulas as PyTorch's SGD (Sutskever, Martens, Dahl and Hinton, On the Importance of
    Initialization and Momentum in Deep Learning, 2013).

    >>> import gtensor as gt
    >>> gt.optim.sgd(0.1).update(gt.tensor(2.0), gt.tensor(5.0), {})[0]
    Tensor(1.5, dtype=float32)
    """
    require("sgd", 0, math.inf, learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)
    if nesterov and (not momentum or dampening):
        raise OptionError("sgd: nesterov needs a momentum, and no dampening")
    if dampening and not momentum:
        raise OptionError("sgd: dampening needs a momentum")

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: Tensor, *moments: Tensor) -> tuple[Tensor, ...]:
        if weight_decay:
            g = g + weight_decay * p
        if not momentum:
            return (p - rate * g,)
        (b,) = moments
        b = where(step == 1, g, momentum * b + (1 - dampening) * g) if dampening else momentum * b + g
        return p - rate * (g + momentum * b if nesterov else b), b

    return PerLeaf("sgd", learning_rate, rule, ("momentum",) if momentum else (), counts=bool(dampening))


def lion(learning_rate: Any = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> Optimizer:
    """Lion: p - rate * (sign(b1 m + (1 - b1) g) + weight_decay * p), then m = b2 m + (1 - b2) g.

    All elements step by the rate, so it is some ten times smaller than Adam's. learning_rate: a number, a
    scalar tensor or a schedule. State: `m`. Raises OptionError for options out of range. Source: Chen and
    others, Symbolic Discovery of Optimization Algorithms, 2023, Algorithm 2.

    >>> import gtensor as gt
    >>> lion = gt.optim.lion(0.5)
    >>> lion.update(gt.tensor([2.0, 2.0]), gt.tensor([1e-3, -50.0]), lion.init(gt.ones(2)))[0]
    Tensor([1.5, 2.5], dtype=float32)
    """
    b1, b2 = betas
    require("lion", 0, math.inf, learning_rate=learning_rate, weight_decay=weight_decay)
    require("lion", 0, 1, **{"betas[0]": b1, "betas[1]": b2})

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: Tensor | None, m: Tensor) -> tuple[Tensor, ...]:
        direction = sign(b1 * m + (1 - b1) * g)
        if weight_decay:
            direction = direction + weight_decay * p
        return p - rate * direction, b2 * m + (1 - b2) * g

    return PerLeaf("lion", learning_rate, rule, ("m",))

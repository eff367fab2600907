"""Steps over the size of the gradient so far: adam, adamw, rmsprop, adagrad.

Comes in: options. Goes out: an `Optimizer`. Laws: formulas, defaults and the place of eps are PyTorch's;
what is a function of the step alone is computed once for all leaves; corrections and variances do not
cancel in float32.
"""

from __future__ import annotations

import math
from typing import Any

from ..ops.arithmetic import maximum
from ..ops.transcendental import expm1, rsqrt, sqrt, square
from ..tensor import Tensor
from .optimizer import Optimizer, PerLeaf, require


def adam(
    learning_rate: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    amsgrad: bool = False,
) -> Optimizer:
    """Adam: steps of about the learning rate, along the mean of the gradient over the root of its mean square.

    m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g², p - rate * m' / (sqrt(v') + eps) with m' = m / (1 - b1^t)
    and v' = v / (1 - b2^t). With `amsgrad` the largest v so far takes the place of v. learning_rate: a
    number, a scalar tensor or a schedule. State: `m`, `v`, `largest` for amsgrad, `step`. Raises OptionError
    for options out of range. Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015; Reddi,
    Kale and Kumar, On the Convergence of Adam and Beyond, 2018; eps as in PyTorch.

    >>> import gtensor as gt
    >>> adam = gt.optim.adam(0.5)
    >>> params, state = adam.update(gt.tensor(2.0), gt.tensor(100.0), adam.init(gt.tensor(2.0)))
    >>> params, state["step"]
    (Tensor(1.5, dtype=float32), Tensor(1, dtype=int64))
    """
    return _adaptive("adam", learning_rate, betas, eps, 0.0, amsgrad)


def adamw(
    learning_rate: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
) -> Optimizer:
    """Adam with decoupled weight decay: each step first takes rate * weight_decay * p off the parameter.

    Options, state and errors as for `adam`. Source: Loshchilov and Hutter, Decoupled Weight Decay
    Regularization, 2019; formulas as PyTorch's AdamW.

    >>> import gtensor as gt
    >>> adamw = gt.optim.adamw(0.5, weight_decay=0.1)
    >>> adamw.update(gt.tensor(2.0), gt.tensor(0.0), adamw.init(gt.tensor(2.0)))[0]
    Tensor(1.9, dtype=float32)
    """
    return _adaptive("adamw", learning_rate, betas, eps, weight_decay, amsgrad)


def _adaptive(
    name: str, learning_rate: Any, betas: tuple[float, float], eps: float, weight_decay: float, amsgrad: bool
) -> Optimizer:
    """Adam with or without decay."""
    b1, b2 = betas
    require(name, 0, math.inf, learning_rate=learning_rate, eps=eps, weight_decay=weight_decay)
    require(name, 0, 1, **{"betas[0]": b1, "betas[1]": b2})

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: Tensor, *moments: Tensor) -> tuple[Tensor, ...]:
        m, v, *largest = moments
        if weight_decay:
            p = p * (1 - rate * weight_decay)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * square(g)
        largest = [maximum(top, v) for top in largest]
        size = rate / _mass(b1, step)
        return p - size * m / (sqrt(largest[0] if amsgrad else v) * rsqrt(_mass(b2, step)) + eps), m, v, *largest

    return PerLeaf(name, learning_rate, rule, ("m", "v", "largest") if amsgrad else ("m", "v"), counts=True)


def _mass(beta: float, step: Tensor) -> Tensor:
    """1 - beta**step, the weight of all terms of a moving mean so far, without cancellation in float32."""
    return -expm1(step * (math.log(beta) if beta else -math.inf))


def rmsprop(
    learning_rate: Any = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
) -> Optimizer:
    """RMSprop: p - rate * g / (sqrt(v) + eps) with v = alpha v + (1 - alpha) g², the mean square of g.

    `centered` divides by the deviation from the moving mean m instead, which is never below 0: v = alpha
    (v + (1 - alpha) (g - m)²). With a momentum the step goes along b = momentum * b + g / (sqrt(v) + eps).
    learning_rate: a number, a scalar tensor or a schedule. State: `v`, then `m` if centered, `momentum` if
    there is any, `step` for a schedule. Raises OptionError for options out of range. Source: Tieleman and
    Hinton, Lecture 6.5 of Neural Networks for Machine Learning, 2012; Graves, Generating Sequences with
    Recurrent Neural Networks, 2013 (centered); place of eps as in PyTorch.

    >>> import gtensor as gt
    >>> rmsprop = gt.optim.rmsprop(0.5, alpha=0.75)
    >>> rmsprop.update(gt.tensor(2.0), gt.tensor(100.0), rmsprop.init(gt.tensor(2.0)))[0]
    Tensor(1., dtype=float32)
    """
    options = {"learning_rate": learning_rate, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
    require("rmsprop", 0, math.inf, **options)
    require("rmsprop", 0, 1, alpha=alpha)

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: Tensor | None, *moments: Tensor) -> tuple[Tensor, ...]:
        v, *means = moments[: 1 + centered]
        velocity = moments[1 + centered :]
        if weight_decay:
            g = g + weight_decay * p
        if centered:
            # E[g²] - E[g]², as PyTorch has it, cancels and may fall below 0; this recurrence gives the same.
            v = alpha * (v + (1 - alpha) * square(g - means[0]))
            means = [alpha * means[0] + (1 - alpha) * g]
        else:
            v = alpha * v + (1 - alpha) * square(g)
        along = g / (sqrt(v) + eps)
        if momentum:
            along = momentum * velocity[0] + along
            return p - rate * along, v, *means, along
        return p - rate * along, v, *means

    moments = ("v", *(("m",) if centered else ()), *(("momentum",) if momentum else ()))
    return PerLeaf("rmsprop", learning_rate, rule, moments)


def adagrad(
    learning_rate: Any = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0
) -> Optimizer:
    """Adagrad: p - rate * g / (sqrt(s) + eps), with s the sum of all g² so far.

    `initial_accumulator_value` is the first s; `weight_decay` adds weight_decay * p to g. learning_rate: a
    number, a scalar tensor or a schedule. State: `sum`, `step` for a schedule. Raises OptionError for
    options out of range. Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning
    and Stochastic Optimization, 2011; place of eps as in PyTorch.

    >>> import gtensor as gt
    >>> adagrad = gt.optim.adagrad(0.5)
    >>> adagrad.update(gt.tensor(2.0), gt.tensor(100.0), adagrad.init(gt.tensor(2.0)))[0]
    Tensor(1.5, dtype=float32)
    """
    options = {"learning_rate": learning_rate, "eps": eps, "weight_decay": weight_decay}
    require("adagrad", 0, math.inf, **options, initial_accumulator_value=initial_accumulator_value)

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: Tensor | None, total: Tensor) -> tuple[Tensor, ...]:
        if weight_decay:
            g = g + weight_decay * p
        total = total + square(g)
        return p - rate * g / (sqrt(total) + eps), total

    return PerLeaf("adagrad", learning_rate, rule, ("sum",), start=initial_accumulator_value)

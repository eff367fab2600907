"""Negative log-likelihoods of numbers, as PyTorch defines them: gaussian_nll_loss, poisson_nll_loss.

Comes in: parameters of a distribution and what was observed. Goes out: a scalar, or one loss per element with
`reduction="none"`. Law: constants that do not depend on the parameters are left out unless `full` is set.
"""

from __future__ import annotations

import math
from typing import Any

from ..ops.arithmetic import stop_gradient, where
from ..ops.statistics import floating
from ..ops.transcendental import exp, log, square
from ..tensor import Tensor
from .losses import difference, pair, reduced


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target)² / var) / 2: numbers of normal distributions with that mean and variance.

    input, target: one shape [...], or one is a scalar; var: variances that broadcast to it, which count as eps at
    least (the derivative by var is that of the value they count as). With `full` log(2 pi) / 2 is added. The result is
    0-d, or [...] for reduction "none". Raises ShapeError for shapes that differ, OptionError for another reduction.
    Source: Nix and Weigend, Estimating the mean and variance of the target probability distribution, 1994; PyTorch's
    function of that name.

    >>> import gtensor as gt
    >>> gt.nn.gaussian_nll_loss(gt.tensor([1.0, 1.0]), gt.tensor([1.0, 3.0]), gt.tensor([1.0, 4.0]), reduction="none")
    Tensor([0.       , 1.1931472], dtype=float32)
    """
    spread = floating(var)
    spread = where(spread < eps, spread + stop_gradient(eps - spread), spread)
    loss = 0.5 * (log(spread) + square(difference(input, target, "gaussian_nll_loss")) / spread)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, "gaussian_nll_loss")


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """rate - target * log(rate): counts of Poisson distributions, by default from log(rate); mean or sum.

    input: log(rate), or rate itself without `log_input` (its logarithm is taken of rate + eps); target: counts of the
    same shape [...], or a scalar. With `full` Stirling's approximation of log(target!) is added where target > 1. The
    result is 0-d, or [...] for reduction "none". Raises ShapeError for shapes that differ, OptionError for another
    reduction. Source: PyTorch's function of that name.

    >>> import gtensor as gt
    >>> gt.nn.poisson_nll_loss(gt.tensor([0.0, 2.0]), gt.tensor([3.0, 1.0]), reduction="none")
    Tensor([1.      , 5.389056], dtype=float32)
    """
    x, y = pair(input, target, "poisson_nll_loss")
    loss = exp(x) - y * x if log_input else x - y * log(x + eps)
    if full:
        many = where(y > 1, y, 2)
        loss = loss + where(y > 1, many * log(many) - many + 0.5 * log(2 * math.pi * many), 0)
    return reduced(loss, reduction, "poisson_nll_loss")

"""Learning rates that change: functions from the number of steps taken so far to the rate of the next one.

Comes in: the shape of the curve. Goes out: a `Schedule`, to be given to an optimizer as its learning rate,
which then counts its steps and evaluates it inside the compiled step; or to be called and plotted. Laws:
the first step has the rate at 0; rates are computed in float64, elementwise; beyond its end a curve stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import OptionError
from ..ops.arithmetic import floor_divide, minimum, where
from ..ops.layout import broadcast_to
from ..ops.transcendental import cos, exp
from ..tensor import Tensor, as_tensor, cast
from ..types import float64
from .optimizer import require

Schedule = Callable[[Any], Any]
"""schedule(step) -> rate. `step` is an int64 scalar tensor inside an optimizer, else a number or array of steps."""


def _number(step: Any) -> Tensor:
    """The step as float64, which counts exactly further than anyone trains."""
    return cast(as_tensor(step), float64)


def _wave(base: Any, peak: float, phase: Tensor) -> Tensor:
    """A wave of the cosine: the peak at phase 0, base at phase -1, and from phase 1 on."""
    return base + (peak - base) * (0.5 + 0.5 * cos(math.pi * minimum(phase, 1)))


def _require_steps(what: str, **steps: Any) -> None:
    """Raise OptionError for a number of steps below 1."""
    require(what, 1, math.inf, **steps)


def constant(value: float) -> Schedule:
    """The same rate at each step: what a schedule put together from others may need.

    >>> import gtensor as gt
    >>> gt.optim.constant(0.1)(7)
    Tensor(0.1, dtype=float64)
    """
    return lambda step: broadcast_to(_number(value), as_tensor(step).type.shape)


def linear(start: float, end: float, steps: int) -> Schedule:
    """From start to end in equal parts over `steps` steps, then end. Raises OptionError for steps below 1.

    >>> import gtensor as gt
    >>> gt.optim.linear(1.0, 0.0, steps=4)([0, 1, 4, 9])
    Tensor([1.  , 0.75, 0.  , 0.  ], dtype=float64)
    """
    _require_steps("linear", steps=steps)
    return lambda step: start + (end - start) * minimum(_number(step) / steps, 1)


def cosine_decay(start: float, steps: int, end: float = 0.0) -> Schedule:
    """end + (start - end) * (1 + cos(pi * step / steps)) / 2, then end. Raises OptionError for steps below 1.

    Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017, without the
    restarts; PyTorch's CosineAnnealingLR up to its end.

    >>> import gtensor as gt
    >>> gt.optim.cosine_decay(1.0, steps=4, end=0.5)([0, 2, 4, 9])
    Tensor([1.  , 0.75, 0.5 , 0.5 ], dtype=float64)
    """
    _require_steps("cosine_decay", steps=steps)
    return lambda step: _wave(end, start, _number(step) / steps)


def warmup_cosine(peak: float, warmup: int, steps: int, start: float = 0.0, end: float = 0.0) -> Schedule:
    """Linearly from start to peak over `warmup` steps, then along a cosine to end at step `steps`, then end.

    Raises OptionError unless 1 <= warmup < steps. Source: optax's warmup_cosine_decay_schedule.

    >>> import gtensor as gt
    >>> gt.optim.warmup_cosine(1.0, warmup=2, steps=6)([0, 1, 2, 4, 6, 9])
    Tensor([0. , 0.5, 1. , 0.5, 0. , 0. ], dtype=float64)
    """
    _require_steps("warmup_cosine", warmup=warmup)
    if not warmup < steps:
        raise OptionError(f"warmup_cosine: the warm-up of {warmup} steps must end before step {steps}")

    def schedule(step: Any) -> Tensor:
        t = _number(step)
        up = start + (peak - start) / warmup * t
        return where(t < warmup, up, _wave(end, peak, (t - warmup) / (steps - warmup)))

    return schedule


def _power(factor: float, exponent: Tensor) -> Tensor:
    return exp(math.log(factor) * exponent)


def exponential_decay(start: float, factor: float, steps: int = 1) -> Schedule:
    """start * factor ** (step / steps): times the factor every `steps` steps, smoothly.

    Raises OptionError for a factor that is not positive or steps below 1. PyTorch's ExponentialLR for
    steps = 1.

    >>> import gtensor as gt
    >>> gt.optim.exponential_decay(1.0, 0.25, steps=2)([0, 1, 2, 4])
    Tensor([1.    , 0.5   , 0.25  , 0.0625], dtype=float64)
    """
    _require_factor("exponential_decay", factor)
    _require_steps("exponential_decay", steps=steps)
    return lambda step: start * _power(factor, _number(step) / steps)


def step_decay(start: float, factor: float, every: int) -> Schedule:
    """start * factor ** (step // every): times the factor at every so many steps. PyTorch's StepLR.

    Raises OptionError for a factor that is not positive or `every` below 1.

    >>> import gtensor as gt
    >>> gt.optim.step_decay(1.0, 0.5, every=3)([0, 2, 3, 5, 6])
    Tensor([1.  , 1.  , 0.5 , 0.5 , 0.25], dtype=float64)
    """
    _require_factor("step_decay", factor)
    _require_steps("step_decay", every=every)
    return lambda step: start * _power(factor, _number(floor_divide(as_tensor(step), every)))


def _require_factor(what: str, factor: float) -> None:
    if not 0 < factor < math.inf:
        raise OptionError(f"{what}: factor must be positive, not {factor}")


def piecewise(start: float, factors: Mapping[int, float]) -> Schedule:
    """start, times each factor from the step that it is listed under on: PyTorch's MultiStepLR.

    Source: optax's piecewise_constant_schedule.

    >>> import gtensor as gt
    >>> gt.optim.piecewise(1.0, {2: 0.5, 5: 0.1})([0, 1, 2, 4, 5])
    Tensor([1.  , 1.  , 0.5 , 0.5 , 0.05], dtype=float64)
    """

    def schedule(step: Any) -> Tensor:
        at, value = as_tensor(step), start
        rate = constant(start)(step)
        for boundary in sorted(factors):
            value = value * factors[boundary]
            rate = where(at >= boundary, value, rate)
        return rate

    return schedule


def one_cycle(
    peak: float, steps: int, pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 1e4
) -> Schedule:
    """Up along a cosine from peak / div_factor to the peak, then down to that start / final_div_factor.

    The way up takes the share `pct_start` of the steps; the last of them, step steps - 1, has the lowest
    rate. Raises OptionError for a share outside [0, 1), a way down without steps, or divisors that are not
    positive. Source: Smith and Topin, Super-Convergence: Very Fast Training of Neural Networks Using Large
    Learning Rates, 2018; PyTorch's OneCycleLR.

    >>> import gtensor as gt
    >>> gt.optim.one_cycle(1.0, steps=10, pct_start=0.5, div_factor=10, final_div_factor=10)([0, 2, 4, 9])
    Tensor([0.1 , 0.55, 1.  , 0.01], dtype=float64)
    """
    require("one_cycle", 0, 1, pct_start=pct_start)
    if not (div_factor > 0 and final_div_factor > 0):
        raise OptionError("one_cycle: div_factor and final_div_factor must be positive")
    top, last = max(pct_start * steps - 1, 0), steps - 1
    if not last > top:
        raise OptionError(f"one_cycle: there are no steps down from the peak among {steps}")
    start = peak / div_factor

    def schedule(step: Any) -> Tensor:
        beyond = _number(step) - top
        up = beyond < 0
        base = where(up, _number(start), start / final_div_factor)
        return _wave(base, peak, beyond / where(up, _number(top), last - top))

    return schedule

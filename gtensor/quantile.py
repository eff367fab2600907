"""The normal distribution backwards: how far from 0 a value lies of which a given part lies beyond.

Comes in: the part of the distribution beyond the value, and its distance from one half, each exact in its own
right. Goes out: the value, not negative. Law: accurate to the last digits of the dtype in the middle and in
the tails, which is why both numbers are asked for: neither can be had from the other without cancelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .ops.arithmetic import where
from .ops.transcendental import log, sqrt, square
from .tensor import Tensor
from .types import DType, float32, float64

Coefficients = tuple[float, ...]
"""Of a polynomial, that of the highest power first."""


@dataclass(frozen=True)
class Ratio:
    """One polynomial over another."""

    over: Coefficients
    under: Coefficients

    def at(self, x: Tensor) -> Tensor:
        """The ratio at x."""
        return horner(self.over, x) / horner(self.under, x)


def horner(coefficients: Sequence[float], x: Tensor) -> Any:
    """The polynomial at x."""
    total: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


@dataclass(frozen=True)
class Quantile:
    """The three ratios of the normal quantile: in the middle, in the tails, and far out."""

    middle: Ratio
    tail: Ratio
    far: Ratio


SHORT = Quantile(
    Ratio((59.109374720, 159.29113202, 50.434271938, 3.3871327179), (67.187563600, 78.757757664, 17.895169469, 1.0)),
    Ratio((0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777), (0.12021131975, 0.73700164250, 1.0)),
    Ratio((0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150), (0.012258202635, 0.24197894225, 1.0)),
)
LONG = Quantile(
    Ratio(
        (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
         1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080),
        (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
         5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
    ),
    Ratio(
        (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
         3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
        (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
         6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
    ),
    Ratio(
        (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
         2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
        (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
         7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
         5.99832206555887937690e-1, 1.0),
    ),
)  # fmt: skip
RATIOS = {float32: SHORT, float64: LONG}
"""Good to 1e-7 and to 1e-16. Source: Wichura, Algorithm AS 241, Applied Statistics 37, 1988."""

FAR = 1.39e-11
"""exp(-25): below it the tail is far out."""


def normal_quantile(beyond: Tensor, inside: Tensor, least: float, dtype: DType) -> Tensor:
    """The z >= 0 with a standard normal number above z with probability `beyond` = 1/2 - `inside`.

    beyond: in [least, 1/2]; inside: in [0, 1/2], of the same shape. Ranges below `least` are not computed.
    """
    ratios = RATIOS[dtype]
    middle = inside * ratios.middle.at(0.180625 - square(inside))
    root = sqrt(-log(beyond))
    tail = ratios.tail.at(root - 1.6)
    if least < FAR:
        tail = where(root <= 5.0, tail, ratios.far.at(root - 5.0))
    return where(inside <= 0.425, middle, tail)

"""Special functions, elementwise: of the gamma function, the inverse error function, Bessel functions, entropies.

Comes in: arrays that broadcast; integers give the default float. scipy.special is the meaning, but where it misses a
limit; the compiled functions are in gt_special.h, which states their errors. Laws: a pole gives its infinity, what is
not real NaN; derivatives are functions of this module, at every order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..errors import DTypeError, GradError
from ..prim import Input, public
from ..tensor import Tensor, apply, as_tensor, broadcast
from ..types import Type, int32
from .arithmetic import abs as absolute
from .arithmetic import sign, where
from .elementary import in_double
from .records import Function, common_shape, elementwise, in_f64, uniform
from .statistics import floating
from .transcendental import POSITIVE, exp, log, log1p

Array = np.ndarray[Any, Any]


def _scipy(name: str, *args: Array) -> Array:
    from scipy import special

    return np.asarray(getattr(special, name)(*args))


# ---- of an order, which is a whole number --------------------------------------------------------------------


def _order_type(order: Type, x: Type) -> Type:
    if order.dtype.kind not in "iu" or not x.dtype.floating:
        raise DTypeError("needs an order that is an integer, and floats")
    return Type(common_shape([order, x]), x.dtype, x.weak)


def _ordered(name: str, numpy: Any, vjp: Any, doc: str, low: float, high: float, **more: Any) -> Function:
    """The record of a function of an integer order and a number."""
    return elementwise(
        name, in_f64(numpy), f"gt_sf_{name}_{{t}}({{0}}, {{1}})", vjp=vjp, arity=2, promotion="none", type=_order_type,
        samples=[[Input(values=[[0, 1, 2, 3]], dtype=int32), uniform(low, high, (1, 4))]], flops=80.0, doc=doc, **more,
    )  # fmt: skip


def _apply_ordered(name: str, n: Any, x: Any) -> Tensor:
    return apply(name, *broadcast([as_tensor(n), floating(x)]))


def _ive(n: Array, x: Array) -> Array:
    """scipy's, but for very small and very large arguments, which it does not know."""
    a, order = np.abs(x), 4 * n * n
    small, large = (0.5 * a) ** n / _scipy("gamma", n + 1), 1 / np.maximum(8 * a, 8)
    series = 1 - (order - 1) * large * (1 - (order - 9) / 2 * large * (1 - (order - 25) / 3 * large))
    size = np.where(a > 1e4, series / np.sqrt(2 * np.pi) / np.sqrt(a), np.where(a < 1e-100, small, _scipy("ive", n, a)))
    return np.where(n < 0, np.nan, np.where(n % 2 == 1, np.copysign(size, x), size))


ive: Function = _ordered(
    "ive", _ive,
    lambda g, y, n, x: (None, lambda: g * (0.5 * (ive(absolute(n - 1), x) + ive(n + 1, x)) - sign(x) * y)),
    "The modified Bessel function of the first kind of a whole order, times e**-|x|.", -4, 4, ulps=40,
)  # fmt: skip


# ---- the gamma function --------------------------------------------------------------------------------------


def _lgamma(x: Array) -> Array:
    tiny = np.abs(x) < 1e-300
    return np.where(tiny, -np.log(np.abs(x)), np.where(np.isinf(x), np.inf, _scipy("gammaln", x)))


lgamma = in_double(
    "lgamma", _lgamma, lambda g, y, x: (g * digamma(x),),
    "Elementwise logarithm of the size of the gamma function; +inf at its poles.", [[uniform(0.2, 6)]], ulps=16,
)  # fmt: skip
digamma: Function = in_double(
    "digamma", lambda x: _scipy("digamma", x), lambda g, y, x: (g * polygamma(1, x),),
    "Elementwise derivative of lgamma; NaN at negative whole numbers.", [[uniform(0.2, 6)]], ulps=16,
)  # fmt: skip
_polygamma = _ordered(
    "polygamma", lambda n, x: _scipy("polygamma", n, x), lambda g, y, n, x: (None, lambda: g * polygamma(n + 1, x)),
    "The derivative of that order of digamma.", 0.5, 4, ulps=20,
)  # fmt: skip


@public
def polygamma(n: Any, x: Any, /) -> Tensor:
    """The n-th derivative of digamma, elementwise; of order 0 digamma itself.

    n: an integer, or an array of integers; x: an array that broadcasts with it. NaN for negative n; at 0 and at
    negative whole numbers +inf for odd n and -inf for even n, as scipy has it. Raises DTypeError for an n that is no
    integer.

    >>> import gtensor as gt
    >>> gt.polygamma(1, gt.tensor([1.0, 2.0]))
    Tensor([1.644934  , 0.64493406], dtype=float32)
    """
    return _apply_ordered("polygamma", n, x)


def _no_slope(name: str) -> Any:
    def refuse() -> NoReturn:
        raise GradError(f"{name} has no derivative by a, only by x", hint="wrap a in gt.stop_gradient")

    return refuse


def _incomplete(name: str, is_upper: bool) -> Any:
    """scipy's function, with its limits where a is too large or too small for it."""

    def values(a: Array, x: Array) -> Array:
        found = _scipy(name, a, x)
        rest = a * _scipy("exp1", x)
        found = np.where((a > 0) & (a < 1e-300) & (x > 0), rest if is_upper else 1 - rest, found)
        lost = np.isnan(found) & (a > 0) & (x >= 0) & (np.isfinite(a) | np.isfinite(x))
        return np.where(lost, np.where((x > a) != is_upper, 1.0, 0.0), found)

    return values


def _stirling_rest(a: Array) -> Array:
    """What Stirling's formula for log(gamma(a)) lacks, a >= 10 (dlmf.nist.gov, 5.11.1)."""
    series = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
    return np.polyval(series, 1 / a / a) / a


def _gamma_density(a: Array, x: Array) -> Array:
    """x**(a-1) e**-x / gamma(a), by Stirling's formula for a from 16 on."""
    small, large = np.minimum(a, 16), np.maximum(a, 16)
    t = (x - large) / large
    power = np.where(np.abs(t) < 0.5, large * (np.log1p(t) - t), large * np.log(x / large) - (x - large))
    far = large / x * (np.exp(power - _stirling_rest(large)) / np.sqrt(2 * np.pi) / np.sqrt(large))
    density = np.where((a < 16) | (x < 1e-280), np.exp(_scipy("xlogy", small - 1, x) - x - _lgamma(small)), far)
    density = np.where(a == 0, 0.0, np.where(np.isinf(x), 0.0, density))
    density = np.where(x == 0, np.where((a > 0) & (a < 1), np.inf, np.where(a == 1, 1.0, 0.0)), density)
    return np.where((a >= 0) & (x >= 0) & np.isfinite(a), density, np.nan)


def _gamma_density_vjp(g: Tensor, y: Tensor, a: Tensor, x: Tensor) -> Any:
    """By x the difference of two densities, which holds at 0 too."""
    slope = where(a < 1, y * ((a - 1) / x - 1), gamma_density(a - 1, x) - y)
    return _no_slope("the derivative of gammainc"), lambda: g * slope


_SHAPES = [[uniform(0.5, 5), uniform(0.3, 6)]]
gamma_density = in_double(
    "gamma_density", _gamma_density, _gamma_density_vjp,
    "The density of the gamma distribution, which is the derivative of gammainc by x.", _SHAPES, arity=2, ulps=4000,
    grad=False,
)  # fmt: skip
gammainc = in_double(
    "gammainc", _incomplete("gammainc", False),
    lambda g, y, a, x: (_no_slope("gammainc"), lambda: g * gamma_density(a, x)),
    "Elementwise lower incomplete gamma function of (a, x), regularized: 0 at x = 0, 1 at infinity.", _SHAPES, arity=2,
    ulps=2000, grad=False,
)  # fmt: skip
gammaincc = in_double(
    "gammaincc", _incomplete("gammaincc", True),
    lambda g, y, a, x: (_no_slope("gammaincc"), lambda: -(g * gamma_density(a, x))),
    "Elementwise upper incomplete gamma function of (a, x), regularized: 1 - gammainc(a, x).", _SHAPES, arity=2,
    ulps=2000, grad=False,
)  # fmt: skip


def _betaln(a: Array, b: Array) -> Array:
    """log(gamma(a) gamma(b) / gamma(a + b)); where one is 10 or more by Stirling's formula, without cancellation."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    big, both = np.maximum(high, 10), np.maximum(low, 10)
    near = _lgamma(low) + _lgamma(high) - _lgamma(low + high)
    rest = _stirling_rest(big) - _stirling_rest(low + big)
    mixed = _lgamma(low) - low * np.log(big) - ((low + big - 0.5) * np.log1p(low / big) - low) + rest
    rest = _stirling_rest(big) - _stirling_rest(both + big) + _stirling_rest(both)
    rest = rest + 0.5 * math.log(2 * math.pi) - 0.5 * np.log(big)
    far = rest - (both - 0.5) * np.log1p(big / both) - big * np.log1p(both / big)
    inside = np.where(high < 10, near, np.where(low < 10, mixed, far))
    inside = np.where(low == 0, np.inf, np.where(np.isinf(high), -np.inf, inside))
    return np.where((a >= 0) & (b >= 0), inside, np.nan)


def _betaln_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
    return lambda: g * (digamma(a) - digamma(a + b)), lambda: g * (digamma(b) - digamma(a + b))


betaln = in_double(
    "betaln", _betaln, _betaln_vjp,
    "Elementwise logarithm of the beta function of two numbers that are not negative (else NaN).",
    [[uniform(0.3, 4), uniform(0.3, 4)]], arity=2, ulps=40,
)  # fmt: skip


# ---- the inverse error function, Bessel functions ------------------------------------------------------------

erfinv = in_double(
    "erfinv", lambda x: np.copysign(_scipy("erfinv", x), x),
    lambda g, y, x: (g * (0.5 * math.sqrt(math.pi) * exp(y * y)),),
    "Elementwise inverse of erf; infinite at ±1, NaN beyond.", [[uniform(-0.9, 0.9)]], ulps=8,
)  # fmt: skip


def _grown(x: Tensor, order: int) -> Tensor:
    """The modified Bessel function of that order; the exponential in two steps, since it may overflow alone."""
    half = exp(0.5 * absolute(x))
    return ive(order, x) * half * half


def _bessel(order: int) -> Callable[[Array], Array]:
    """SciPy's i0 or i1 by way of i0e or i1e, which are finite where i0 and i1 are but an exponential overflows."""

    def rule(x: Array) -> Array:
        half = np.exp(0.5 * np.abs(x))
        grown = _scipy(f"i{order}e", x) * half * half
        return np.where(np.isinf(x), np.abs(x) if order == 0 else x, np.copysign(grown, x if order else 1.0))

    return rule


i0 = in_double(
    "i0", _bessel(0), lambda g, y, x: (g * i1(x),),
    "Elementwise modified Bessel function of the first kind of order 0.", ulps=40,
)  # fmt: skip
i1: Function = in_double(
    "i1", _bessel(1),
    lambda g, y, x: (g * (0.5 * (i0(x) + _grown(x, 2))),),
    "Elementwise modified Bessel function of the first kind of order 1.", ulps=40,
)  # fmt: skip
i0e = in_double(
    "i0e", lambda x: _scipy("i0e", x), lambda g, y, x: (g * (i1e(x) - sign(x) * y),),
    "Elementwise i0(x) e**-|x|; its derivative at 0 is 0.", [[uniform(0.2, 4)], [uniform(-4, -0.2)]], ulps=40,
)  # fmt: skip
i1e: Function = in_double(
    "i1e", lambda x: np.copysign(_scipy("i1e", x), x),
    lambda g, y, x: (g * (0.5 * (i0e(x) + ive(2, x)) - sign(x) * y),),
    "Elementwise i1(x) e**-|x|.", [[uniform(0.2, 4)], [uniform(-4, -0.2)]], ulps=40,
)  # fmt: skip


# ---- entropies and odds --------------------------------------------------------------------------------------


def _xlogy_vjp(g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> Any:
    """As PyTorch has it: nothing flows to x where x is 0 and log(y) is not finite, nor to y where both are 0."""
    return (
        lambda: g * where((x == 0) & (y <= 0), 0.0, log(y)),
        lambda: g * where((x == 0) & (y == 0), 0.0, x / y),
    )


def _xlog1py_vjp(g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> Any:
    return (
        lambda: g * where((x == 0) & (y <= -1), 0.0, log1p(y)),
        lambda: g * where((x == 0) & (y == -1), 0.0, x / (1 + y)),
    )


xlogy = in_double(
    "xlogy", lambda x, y: _scipy("xlogy", x, y), _xlogy_vjp,
    "Elementwise x1 log(x2), which is 0 where x1 is, unless x2 is NaN.", [[uniform(), uniform(0.3, 4)]], arity=2,
)  # fmt: skip
xlog1py = in_double(
    "xlog1py", lambda x, y: _scipy("xlog1py", x, y), _xlog1py_vjp,
    "Elementwise x1 log(1 + x2), which is 0 where x1 is, unless x2 is NaN.", [[uniform(), uniform(-0.6, 3)]], arity=2,
)  # fmt: skip
entr = in_double(
    "entr", lambda x: _scipy("entr", x), lambda g, y, x: (g * (-log(x) - 1),),
    "Elementwise -x log(x), 0 at 0 with the derivative +inf, -inf below.", POSITIVE,
)  # fmt: skip
logit = in_double(
    "logit", lambda x: _scipy("logit", x), lambda g, y, x: (g / (x * (1 - x)),),
    "Elementwise log(x / (1 - x)), the inverse of sigmoid; NaN outside of [0, 1].", [[uniform(0.1, 0.9)]], ulps=8,
)  # fmt: skip

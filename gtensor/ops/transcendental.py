"""Elementwise functions that round: exponentials, logarithms, trigonometry, powers, activations.

The evaluator computes float32 in float64 and rounds once, so that its values are the same on every machine.
In float32 and float64 the compiled functions stay within 2 units in the last place of the exact value
(gt_math.h states each measured bound). Derivatives are written so that they neither overflow nor cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import OptionError
from ..ir import Atom
from ..prim import Define, public
from ..pullback import zeros
from ..tensor import Tensor, apply, as_tensor
from .arithmetic import maximum, minimum, where
from .records import Function, elementwise, in_f64, number, uniform

Array = np.ndarray[Any, Any]


_erf, _erfc = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))
"""The C library's: NumPy has none."""


def _unary(name: str, numpy: Any, vjp: Any, doc: str, samples: Any = (), public: str | None = None) -> Function:
    return elementwise(
        name, in_f64(numpy), f"gt_{name}_{{t}}({{0}})", vjp=vjp, promotion="float", samples=samples, doc=doc,
        public=public, flops=10.0,
    )  # fmt: skip


POSITIVE = [[uniform(0.2, 4)]]
INSIDE = [[uniform(-0.9, 0.9)]]

exp = _unary("exp", np.exp, lambda g, y, x: (g * y,), "Elementwise e**x.")
exp2 = _unary("exp2", np.exp2, lambda g, y, x: (g * (y * math.log(2.0)),), "Elementwise 2**x.")
expm1 = _unary("expm1", np.expm1, lambda g, y, x: (g * exp(x),), "Elementwise e**x - 1, without cancellation near 0.")
log = _unary("log", np.log, lambda g, y, x: (g / x,), "Elementwise natural logarithm; -inf at 0, NaN below.", POSITIVE)
log2 = _unary("log2", np.log2, lambda g, y, x: (g / (x * math.log(2.0)),), "Elementwise base-2 logarithm.", POSITIVE)
log10 = _unary(
    "log10", np.log10, lambda g, y, x: (g / (x * math.log(10.0)),), "Elementwise base-10 logarithm.", POSITIVE
)
log1p = _unary(
    "log1p", np.log1p, lambda g, y, x: (g / (1 + x),), "Elementwise log(1 + x), without cancellation near 0.",
    [[uniform(-0.7, 3)]],
)  # fmt: skip
tanh = _unary("tanh", np.tanh, lambda g, y, x: (g * (1 - y * y),), "Elementwise hyperbolic tangent.")


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1.0) / (1 + e))


def _sigmoid_slope(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(e / ((1 + e) * (1 + e)))


sigmoid_slope = _unary(
    "sigmoid_slope", _sigmoid_slope, lambda g, y, x: (g * (y * -tanh(0.5 * x)),),
    "The derivative of sigmoid, elementwise: sigmoid(x) sigmoid(-x).",
)  # fmt: skip
sigmoid = _unary(
    "sigmoid", _sigmoid, lambda g, y, x: (g * sigmoid_slope(x),), "Elementwise 1 / (1 + e**-x), without overflow."
)
sqrt = elementwise(
    "sqrt", np.sqrt, "gt_sqrt_{t}({0})", vjp=lambda g, y, x: (g * (0.5 / y),), promotion="float", exact=True,
    samples=POSITIVE, doc="Elementwise square root; its derivative at 0 is +inf.",
)  # fmt: skip
rsqrt = _unary(
    "rsqrt", lambda x: 1 / np.sqrt(x), lambda g, y, x: (g * (-0.5 * y / x),), "Elementwise 1 / sqrt(x).", POSITIVE,
)  # fmt: skip
square = elementwise(
    "square", np.square, "gt_mul_{t}({0}, {0})", vjp=lambda g, y, x: (g * (2 * x),), exact=True,
    dtypes=("f", "i", "u"), doc="Elementwise x * x.",
)  # fmt: skip
reciprocal = elementwise(
    "reciprocal", lambda x: 1 / x, "1 / {0}", vjp=lambda g, y, x: (g * -(y * y),), promotion="float", exact=True,
    samples=POSITIVE, doc="Elementwise 1 / x.",
)  # fmt: skip
erf = _unary(
    "erf", _erf, lambda g, y, x: (g * (2 / math.sqrt(math.pi) * exp(-(x * x))),), "Elementwise error function."
)
erfc = _unary(
    "erfc", _erfc, lambda g, y, x: (g * (-2 / math.sqrt(math.pi) * exp(-(x * x))),),
    "Elementwise 1 - erf(x), without cancellation.",
)  # fmt: skip
sin = _unary("sin", np.sin, lambda g, y, x: (g * cos(x),), "Elementwise sine of radians.")
cos: Function = _unary("cos", np.cos, lambda g, y, x: (g * -sin(x),), "Elementwise cosine of radians.")
tan = _unary(
    "tan", np.tan, lambda g, y, x: (g * (1 + y * y),), "Elementwise tangent of radians.", [[uniform(-1.2, 1.2)]]
)
asin = _unary("asin", np.arcsin, lambda g, y, x: (g * rsqrt((1 - x) * (1 + x)),), "Elementwise arc sine.", INSIDE)
acos = _unary("acos", np.arccos, lambda g, y, x: (g * -rsqrt((1 - x) * (1 + x)),), "Elementwise arc cosine.", INSIDE)
atan = _unary("atan", np.arctan, lambda g, y, x: (g / (1 + x * x),), "Elementwise arc tangent.")
sinh = _unary("sinh", np.sinh, lambda g, y, x: (g * cosh(x),), "Elementwise hyperbolic sine.")
cosh: Function = _unary("cosh", np.cosh, lambda g, y, x: (g * sinh(x),), "Elementwise hyperbolic cosine.")
softplus = _unary(
    "softplus", lambda x: np.logaddexp(x, np.zeros_like(x)), lambda g, y, x: (g * sigmoid(x),),
    "Elementwise log(1 + e**x), without overflow.",
)  # fmt: skip


def _product(a: Array, high: float | Array, low: float | Array = 0.0) -> tuple[Array, Array]:
    """a * (high + low) as a double and what its rounding lost (Dekker, A floating-point technique, 1971)."""
    (a_top, a_rest), (b_top, b_rest) = (_halves(a), _halves(high))
    product = np.asarray(a * high)
    return product, ((a_top * b_top - product) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest + a * low


def _halves(x: float | Array) -> tuple[Any, Any]:
    """x as a sum of two numbers of 26 bits, whose products are exact."""
    top = x * 134217729.0 - (x * 134217729.0 - x)
    return top, x - top


def _gelu(x: Array) -> Array:
    """x Phi(x)."""
    near = np.clip(x, -40.0, 40.0)
    return np.asarray(np.where(x > 40, x, near * _normal_tail(-near)))


def _normal_tail(x: Array) -> Array:
    """Phi(-x), where the last bits of x / sqrt(2) count, since the tail of erfc multiplies them by its square."""
    z, lost = _product(x, math.sqrt(0.5), -4.833646656726457e-17)
    return np.asarray(0.5 * (_erfc(z) - 2 / math.sqrt(math.pi) * np.exp(-z * z) * lost))


def _gelu_slope(x: Array) -> Array:
    """Phi(x) + x phi(x), which for x > 0 is 1 less its value at -x."""
    a = np.clip(np.abs(x), 0.0, 40.0)
    square, lost = _product(a, 0.5 * a)
    density = math.sqrt(0.5 / math.pi) * (np.exp(-square) * (1 - lost))
    left = -(a * density - _normal_tail(a))
    return np.asarray(np.where(x > 0, 1 - left, left))


def _gelu_tanh_argument(x: Array) -> tuple[Array, Array, Array]:
    """v = x (A + B x**2) of gelu_tanh(x) = x s(v) as a double and what it lacks, and B x**2."""
    square, square_lost = _product(x, x)
    growth, growth_lost = _product(square, 0.07135481627260025, -6.175149918155315e-19)
    factor = 1.5957691216057308 + growth
    lost = np.where(growth < 1.5, (1.5957691216057308 - factor) + growth, (growth - factor) + 1.5957691216057308)
    lost += growth_lost + 0.07135481627260025 * square_lost - 9.96930880911092e-17
    return (*_product(x, factor, lost), growth)


def _gelu_tanh(x: Array) -> Array:
    """x s(v), where the last bits of v count, since the tail of s multiplies its error by v."""
    near = np.clip(x, -50.0, 40.0)
    v, lost, _ = _gelu_tanh_argument(near)
    power = np.exp(-np.abs(v)) * (1 - np.sign(v) * lost)
    return np.asarray(np.where(x > 40, x, near * np.where(v < 0, power, 1.0) / (1 + power)))


def _gelu_tanh_slope(x: Array) -> Array:
    """s(v) + x v' s(v) s(-v), which for x > 0 is 1 less its value at -x; x v' = v + 2 B x**3."""
    a = np.clip(np.abs(x), 0.0, 50.0)
    v, lost, growth = _gelu_tanh_argument(a)
    power = np.exp(-v) * (1 - lost)
    left = power / (1 + power) * (1 - (v + 2 * a * growth) / (1 + power))
    return np.asarray(np.where(x > 0, 1 - left, left))


def _gelu_slope_vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    """phi(x) (2 - x**2), which is 0 to all digits beyond 40."""
    near = minimum(maximum(x, -40.0), 40.0)
    squared = near * near
    return (g * (math.sqrt(0.5 / math.pi) * exp(-0.5 * squared) * (2 - squared)),)


def _gelu_tanh_slope_vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    """s'(v) (2 v' + x v'' - x v'**2 tanh(v / 2)), which is 0 to all digits beyond 30; v = A x + B x**3."""
    scale, cube = 2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715
    near = minimum(maximum(x, -30.0), 30.0)
    squared = near * near
    v, steep = near * (scale + cube * squared), scale + 3 * cube * squared
    bend = 2 * steep + 6 * cube * squared - near * (steep * steep) * tanh(0.5 * v)
    return (g * (sigmoid_slope(v) * bend),)


gelu_slope = _unary("gelu_slope", _gelu_slope, _gelu_slope_vjp, "The derivative of gelu: Phi(x) + x phi(x).")
gelu_tanh_slope = _unary(
    "gelu_tanh_slope", _gelu_tanh_slope, _gelu_tanh_slope_vjp, "The derivative of gelu by its tanh approximation."
)
_gelu_exact = _unary(
    "gelu", _gelu, lambda g, y, x: (g * gelu_slope(x),), "x Phi(x), Phi the normal distribution.", public="gelu_exact"
)
_gelu_approximate = _unary(
    "gelu_tanh", _gelu_tanh, lambda g, y, x: (g * gelu_tanh_slope(x),), "gelu by its tanh approximation."
)


@public
def gelu(x: Any, /, approximate: str = "none") -> Tensor:
    """The Gaussian error linear unit x Phi(x), exact or (`approximate="tanh"`) by the usual approximation.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016. Raises OptionError (a ValueError) for another name.

    >>> import gtensor as gt
    >>> gelu(gt.tensor([-1.0, 0.0, 2.0]))
    Tensor([-0.15865526,  0.        ,  1.9544997 ], dtype=float32)
    """
    forms = {"none": _gelu_exact, "tanh": _gelu_approximate}
    if approximate not in forms:
        raise OptionError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
    return forms[approximate](x)


atan2 = elementwise(
    "atan2", in_f64(np.arctan2), "gt_atan2_{t}({0}, {1})",
    vjp=lambda g, y, a, b: (lambda: g * (b / (a * a + b * b)), lambda: g * (-a / (a * a + b * b))), arity=2,
    promotion="float", samples=[[uniform(0.3, 3), uniform()], [uniform(-3, -0.3), uniform()]], flops=20.0,
    doc="Elementwise angle of the point (x2, x1).",
)  # fmt: skip


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        # In full: NumPy takes another function, with other values at -0 and -inf, for one exponent of 1/2.
        return np.asarray(in_f64(np.power)(*np.broadcast_arrays(x, y)))
    # Integers: repeated squaring that wraps; a negative exponent gives the rounded-down reciprocal's integer part.
    negative = y < 0
    result = np.asarray(np.power(x, np.where(negative, 0, y).astype(y.dtype)))
    unit = np.where(x == 1, 1, np.where((x == -1) if x.dtype.kind == "i" else False, np.where(y % 2 == 0, 1, -1), 0))
    return np.asarray(np.where(negative, unit.astype(x.dtype), result))


def _pow_vjp(g: Tensor, y: Tensor, x: Tensor, p: Tensor) -> Sequence[Any]:
    return lambda: g * _pow_slope(x, p), lambda: g * _pow_exponent_slope(y, x, p)


def _pow_slope(x: Tensor, p: Tensor) -> Tensor:
    """p x**(p-1), 0 where p is 0."""
    constant = number(p)
    if constant is None:
        return where(p == 0, 0.0, p * apply("pow", x, p - 1))
    return constant * pow(x, constant - 1) if constant else zeros(x.type)


def _pow_exponent_slope(y: Tensor, x: Tensor, p: Tensor) -> Tensor:
    """y log(x), 0 where x is 0 and p positive."""
    return where((x == 0) & (p > 0), 0.0, y * log(x))


def _simplify_pow(ins: Sequence[Atom], define: Define) -> Atom | None:
    """x ** 1 is x."""
    value = getattr(ins[1], "value", None)
    return ins[0] if value is not None and value == 1 else None


_pow = elementwise(
    "pow", _power, "gt_pow_{t}({0}, {1})", vjp=_pow_vjp, arity=2, simplify=_simplify_pow,
    samples=[[uniform(0.3, 3), uniform()]],
    dtypes=("f", "i", "u"), flops=20.0, doc="Elementwise x1 ** x2.", public="power",
)  # fmt: skip


@public
def pow(x1: Any, x2: Any, /) -> Tensor:
    """Elementwise x1 ** x2; x ** 0 is 1 with gradient 0, integer powers are exact for negative bases.

    Integer operands give integers that wrap; a negative integer exponent gives 0 (but for ±1).

    >>> import gtensor as gt
    >>> gt.grad(lambda x: gt.sum(x ** 3))(gt.tensor([-2.0, 0.0]))
    Tensor([12.,  0.], dtype=float32)
    """
    if isinstance(x2, (int, float)) and not isinstance(x2, bool) and x2 == 2:
        base = as_tensor(x1)
        if base.type.dtype.kind != "b" and (isinstance(x2, int) or base.type.dtype.floating):
            return square(base)
    return _pow(x1, x2)

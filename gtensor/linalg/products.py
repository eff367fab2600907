"""Powers and parts of matrices: matrix_power, expm, diagonal, trace.

Composed of other operations, so they have derivatives of every order. Law: powers and the exponential are those of the
matrix, not of its elements.
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError
from ..narrow import rounded_once
from ..ops import diagonals
from ..ops.arithmetic import abs, maximum, multiply, stop_gradient, where
from ..ops.linalg import column, identity_like, product
from ..ops.reduce import max, sum
from ..ops.transcendental import exp2, log2
from ..tensor import Tensor, apply
from .factors import matrices
from .systems import inv, solve


@rounded_once
def matrix_power(x: Any, n: int, /) -> Tensor:
    """Square matrices to an integer power; a negative one is a power of the inverse, 0 gives the identity.

    >>> import gtensor as gt
    >>> gt.linalg.matrix_power(gt.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    Tensor([[1., 5.],
            [0., 1.]], dtype=float32)
    """
    if isinstance(n, bool) or not isinstance(n, int):
        raise OptionError(f"matrix_power: the exponent must be an int, not {n!r}")
    tensor = matrices(x, "matrix_power", square=True)
    if n < 0:
        return matrix_power(inv(tensor), -n)
    power: Tensor | None = None
    while n:
        if n & 1:
            power = tensor if power is None else product(power, tensor)
        n >>= 1
        tensor = product(tensor, tensor) if n else tensor
    return identity_like(tensor) if power is None else power


_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""The numerator of the diagonal Padé approximant of order 13, lowest power first."""

_REACH = 5.371920351148152
"""The 1-norm up to which it is exact in float64 (Higham 2005, table 2.3)."""

_SQUARINGS = 24
"""Squarings at most: norms up to 9e7."""


@rounded_once
def expm(x: Any, /) -> Tensor:
    """The exponential of square matrices, by scaling and squaring (Higham, "The scaling and squaring method", 2005).

    x: (..., n, n). A matrix with a 1-norm above 9e7 gives NaN.

    >>> import gtensor as gt
    >>> gt.linalg.expm(gt.tensor([[0.0, 1.0], [0.0, 0.0]]))
    Tensor([[1., 1.],
            [0., 1.]], dtype=float32)
    """
    a = matrices(x, "expm", square=True)
    if not a.type.size:
        return a
    size = stop_gradient(max(sum(abs(a), -2), -1))
    steps = _ceiling(log2(maximum(size, _REACH) / _REACH))
    a = multiply(a, column(exp2(where(steps == steps, -steps, 0))))
    one, b = identity_like(a), _PADE
    a2 = product(a, a)
    a4 = product(a2, a2)
    a6 = product(a4, a2)
    odd = product(a6, b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
    even = product(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    odd = product(a, odd)
    power = solve(even - odd, even + odd)
    for step in range(_SQUARINGS):
        power = where(column(steps > step), product(power, power), power)
    return where(column(steps <= _SQUARINGS), power, float("nan"))


def _ceiling(x: Tensor) -> Tensor:
    return apply("ceil", x)


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices: (..., m, n) gives (..., k); a positive offset lies above the main diagonal.

    >>> import gtensor as gt
    >>> gt.linalg.diagonal(gt.tensor([[1, 2], [3, 4]]), offset=1)
    Tensor([2], dtype=int64)
    """
    return diagonals.diagonal(x, offset, -2, -1)


@rounded_once
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal: (..., m, n) gives (...); dtypes as for `gt.sum`.

    >>> import gtensor as gt
    >>> gt.linalg.trace(gt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor(5., dtype=float32)
    """
    return diagonals.matrix_trace(x, offset, -2, -1, dtype)

"""First weights of a network: `init(key, shape, dtype=float32)`, drawn from a key, eagerly or traced.

Names and distributions are JAX's: `glorot`, `he` and `lecun` keep the variance of what flows through a layer,
uniform ones by a bound, normal ones cut off at two standard deviations. A weight is [in, out] unless `in_axis`
and `out_axis` say otherwise; its other axes are places that a kernel sees at once. Law: equal keys give equal
weights, within the rounding of `gt.random`.
"""

from __future__ import annotations

import math
from typing import Any

from .. import random
from ..errors import ShapeError
from ..ops import create
from ..ops.contract import matmul
from ..ops.layout import as_shape, matrix_transpose, reshape
from ..ops.reduce import sum
from ..ops.transcendental import rsqrt, square
from ..tensor import Tensor
from ..types import float32, normalize_axis, show_shapes

CUT = 2.0
CUT_DEVIATION = 0.87962566103423978
"""Where normal weights are cut off, and the standard deviation that a standard normal number has then."""

GROWTH = ((3.4445, -4.7750, 2.0315),) * 22 + ((1.5, -0.5, 0.0),) * 6
"""Polynomials a s + b s^3 + c s^5: the first ones take singular values from 1e-12 into [0.68, 1.21], the others to 1.

The first are those of the Muon optimizer (Jordan et al., 2024), the others Newton's (Björck and Bowie, 1971).
"""


def _extents(shape: Any, what: str) -> tuple[int, ...]:
    extents = tuple(n for n in as_shape(shape) if isinstance(n, int) and n >= 0)
    if len(extents) != len(as_shape(shape)):
        raise ShapeError(f"{what}: {show_shapes([as_shape(shape)])} has extents that are no constants")
    return extents


def fans(shape: Any, in_axis: int = -2, out_axis: int = -1) -> tuple[int, int]:
    """How many numbers flow into one output of a weight, and out of one input.

    Raises ShapeError for a shape with fewer than two axes.

    >>> fans((3, 3, 16, 32))
    (144, 288)
    """
    extents = _extents(shape, "fans")
    if len(extents) < 2:
        raise ShapeError(f"a weight {show_shapes([extents])} has no two axes to go in and out by", hint="use normal")
    into, out = (normalize_axis(axis, len(extents)) for axis in (in_axis, out_axis))
    places = math.prod(n for axis, n in enumerate(extents) if axis not in (into, out))
    return extents[into] * places, extents[out] * places


def _deviation(gain: float, count: float) -> float:
    """The standard deviation for a sum of that many products; 0 where there are none."""
    return math.sqrt(gain / count) if count else 0.0


def _bounded(key: Any, shape: Any, dtype: Any, deviation: float) -> Tensor:
    """Uniform weights of that standard deviation."""
    bound = math.sqrt(3.0) * deviation
    return random.uniform(key, shape, dtype, -bound, bound)


def _cut(key: Any, shape: Any, dtype: Any, deviation: float) -> Tensor:
    """Normal weights, cut off, of that standard deviation."""
    return random.truncated_normal(key, -CUT, CUT, shape, dtype) * (deviation / CUT_DEVIATION)


def zeros(key: Any, shape: Any, dtype: Any = float32) -> Tensor:
    """Zeros: for biases. The key is not looked at.

    >>> import gtensor as gt
    >>> gt.nn.initializers.zeros(None, (2,))
    Tensor([0., 0.], dtype=float32)
    """
    return create.zeros(shape, dtype)


def ones(key: Any, shape: Any, dtype: Any = float32) -> Tensor:
    """Ones: for scales. The key is not looked at.

    >>> import gtensor as gt
    >>> gt.nn.initializers.ones(None, (2,))
    Tensor([1., 1.], dtype=float32)
    """
    return create.ones(shape, dtype)


def uniform(key: Any, shape: Any, dtype: Any = float32, *, scale: float = 0.01) -> Tensor:
    """Uniform weights in [0, scale).

    >>> import gtensor as gt
    >>> gt.nn.initializers.uniform(gt.random.key(42), (2,), scale=2.0)
    Tensor([0.97741914, 1.3595943 ], dtype=float32)
    """
    return random.uniform(key, shape, dtype) * scale


def normal(key: Any, shape: Any, dtype: Any = float32, *, stddev: float = 0.01) -> Tensor:
    """Normal weights of mean 0 and that standard deviation.

    >>> import gtensor as gt
    >>> gt.nn.initializers.normal(gt.random.key(42), (2,), stddev=0.1).numpy().round(4)
    array([-0.0028,  0.0467], dtype=float32)
    """
    return random.normal(key, shape, dtype) * stddev


def truncated_normal(
    key: Any, shape: Any, dtype: Any = float32, *, stddev: float = 0.01, lower: float = -2.0, upper: float = 2.0
) -> Tensor:
    """Standard normal weights between lower and upper, times stddev (which is therefore not their own).

    >>> import gtensor as gt
    >>> gt.nn.initializers.truncated_normal(gt.random.key(42), (2,), stddev=1.0).numpy().round(4)
    array([-0.027 ,  0.4444], dtype=float32)
    """
    return random.truncated_normal(key, lower, upper, shape, dtype) * stddev


def glorot_uniform(key: Any, shape: Any, dtype: Any = float32, *, in_axis: int = -2, out_axis: int = -1) -> Tensor:
    """Uniform weights of variance 2 / (in + out), also called Xavier: for tanh and sigmoid layers.

    Raises ShapeError for fewer than two axes. Source: Glorot and Bengio, Understanding the Difficulty of
    Training Deep Feedforward Neural Networks, 2010.

    >>> import gtensor as gt
    >>> gt.nn.initializers.glorot_uniform(gt.random.key(42), (1, 2)).numpy().round(4)
    array([[-0.0319,  0.5085]], dtype=float32)
    """
    into, out = fans(shape, in_axis, out_axis)
    return _bounded(key, shape, dtype, _deviation(2.0, into + out))


def glorot_normal(key: Any, shape: Any, dtype: Any = float32, *, in_axis: int = -2, out_axis: int = -1) -> Tensor:
    """Cut-off normal weights of variance 2 / (in + out); else as `glorot_uniform`.

    >>> import gtensor as gt
    >>> gt.nn.initializers.glorot_normal(gt.random.key(42), (1, 2)).numpy().round(4)
    array([[-0.0251,  0.4125]], dtype=float32)
    """
    into, out = fans(shape, in_axis, out_axis)
    return _cut(key, shape, dtype, _deviation(2.0, into + out))


def he_uniform(key: Any, shape: Any, dtype: Any = float32, *, in_axis: int = -2, out_axis: int = -1) -> Tensor:
    """Uniform weights of variance 2 / in, also called Kaiming: for relu layers.

    Raises ShapeError for fewer than two axes. Source: He, Zhang, Ren and Sun, Delving Deep into Rectifiers, 2015.

    >>> import gtensor as gt
    >>> gt.nn.initializers.he_uniform(gt.random.key(42), (1, 2)).numpy().round(4)
    array([[-0.0553,  0.8808]], dtype=float32)
    """
    return _bounded(key, shape, dtype, _deviation(2.0, fans(shape, in_axis, out_axis)[0]))


def he_normal(key: Any, shape: Any, dtype: Any = float32, *, in_axis: int = -2, out_axis: int = -1) -> Tensor:
    """Cut-off normal weights of variance 2 / in; else as `he_uniform`.

    >>> import gtensor as gt
    >>> gt.nn.initializers.he_normal(gt.random.key(42), (1, 2)).numpy().round(4)
    array([[-0.0434,  0.7145]], dtype=float32)
    """
    return _cut(key, shape, dtype, _deviation(2.0, fans(shape, in_axis, out_axis)[0]))


def lecun_normal(key: Any, shape: Any, dtype: Any = float32, *, in_axis: int = -2, out_axis: int = -1) -> Tensor:
    """Cut-off normal weights of variance 1 / in: for linear and selu layers.

    Raises ShapeError for fewer than two axes. Source: LeCun, Bottou, Orr and Müller, Efficient BackProp, 1998.

    >>> import gtensor as gt
    >>> gt.nn.initializers.lecun_normal(gt.random.key(42), (1, 2)).numpy().round(4)
    array([[-0.0307,  0.5052]], dtype=float32)
    """
    return _cut(key, shape, dtype, _deviation(1.0, fans(shape, in_axis, out_axis)[0]))


def orthogonal(key: Any, shape: Any, dtype: Any = float32, *, scale: float = 1.0) -> Tensor:
    """Weights whose columns (or rows, if they are fewer) are orthonormal, times scale: for recurrent layers.

    All axes but the last count as rows. Every such matrix is as likely as any other: it is the nearest one to a
    matrix of normal numbers, found by products alone, so that it compiles at any size; columns are orthonormal
    to 2e-6 (float64: 1e-14). As the nearest matrix depends on the drawn one by up to its condition, eager and
    compiled weights agree to fewer digits. Raises ShapeError for fewer than two axes. Source: Saxe, McClelland
    and Ganguli, Exact Solutions to the Nonlinear Dynamics of Learning in Deep Linear Neural Networks, 2014.

    >>> import gtensor as gt
    >>> q = gt.nn.initializers.orthogonal(gt.random.key(0), (3, 2))
    >>> (q.T @ q).numpy().round(4) + 0
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    extents = _extents(shape, "orthogonal")
    if len(extents) < 2:
        raise ShapeError(f"orthogonal: {show_shapes([extents])} has fewer than two axes")
    rows, columns = math.prod(extents[:-1]), extents[-1]
    drawn = random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
    matrix = drawn * rsqrt(sum(square(drawn)))
    for a, b, c in GROWTH:
        inner = matmul(matrix_transpose(matrix), matrix)
        factor = b * inner + c * matmul(inner, inner) if c else b * inner
        matrix = a * matrix + matmul(matrix, factor)
    wide = matrix_transpose(matrix) if rows < columns else matrix
    return reshape(wide * scale, extents)

"""Functions known at points: polyval, interp, gradient, trapezoid, convolve, correlate.

Laws: all are differentiable by the values, `interp` and `gradient` by the points too; convolutions are
direct products of windows with the kernel, which suits short kernels; what does not fit raises ShapeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import OptionError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast, meet
from ..types import normalize_axis
from .arithmetic import add, divide, isnan, multiply, subtract, where
from .assemble import concat
from .contract import matmul
from .counting import digitize
from .index import take
from .layout import flip, slice_axis
from .padding import pad
from .places import constant_extent
from .reduce import sum
from .statistics import floating


@public
def polyval(p: Any, x: Any, /) -> Tensor:
    """The polynomial p[0] x**(n - 1) + … + p[n - 1] at each element of x, by Horner's rule.

    p: [n], the coefficient of the highest power first, as `np.polyval`. Raises ShapeError for p that is no
    vector.

    >>> import gtensor as gt
    >>> gt.polyval([1.0, 0.0, -1.0], gt.tensor([0.0, 3.0]))
    Tensor([-1.,  8.], dtype=float32)
    """
    coefficients, tensor = _vector(p, "polyval"), as_tensor(x)
    count = constant_extent(coefficients, 0, "polyval")
    total, at = meet(coefficients[0] if count else cast(as_tensor(False), coefficients.type.dtype), tensor)
    total = apply("broadcast", total, shape=at.type.shape)
    for i in range(1, count):
        total = add(multiply(total, at), coefficients[i])
    return total


def _vector(x: Any, what: str) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim != 1:
        raise ShapeError(f"{what} takes vectors, not {tensor.type}")
    return tensor


@public
def interp(x: Any, xp: Any, fp: Any, /, left: Any = None, right: Any = None) -> Tensor:
    """The function through the points (xp, fp), straight between them, at each element of x.

    xp: [n], ascending; fp: [n]. Below xp[0] it is `left`, by default fp[0], above xp[-1] `right`, by default
    fp[-1]. The result has the shape of x; integers give the default float. Raises ShapeError for points that
    are no vectors of one length, or none.

    >>> import gtensor as gt
    >>> gt.interp([0.5, 9.0], [0.0, 1.0, 2.0], [0.0, 10.0, 30.0])
    Tensor([ 5., 30.], dtype=float32)
    """
    at, points, values = (floating(t) for t in (x, _vector(xp, "interp"), _vector(fp, "interp")))
    count = constant_extent(points, 0, "interp")
    if points.type.shape != values.type.shape or count == 0:
        raise ShapeError(f"interp: {points.type} and {values.type} are no points of a function")
    inside: Any = values[0]
    if count > 1:
        cell = digitize(at, points[1:-1])
        x0, x1 = take(points, cell, axis=0), take(points, cell + 1, axis=0)
        y0, y1 = take(values, cell, axis=0), take(values, cell + 1, axis=0)
        width = subtract(x1, x0)
        inside = where(width == 0, y1, add(y0, multiply(divide(subtract(y1, y0), width), subtract(at, x0))))
    below = values[0] if left is None else left
    above = values[count - 1] if right is None else right
    return where(isnan(at), at, where(at < points[0], below, where(at > points[count - 1], above, inside)))


@public
def trapezoid(y: Any, x: Any = None, /, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis by the trapezoidal rule, over points x or at distance dx.

    y: any shape; x: of y's shape, or a vector of the axis's extent. Integers give the default float. Raises
    ShapeError where they do not fit.

    >>> import gtensor as gt
    >>> gt.trapezoid([1.0, 2.0, 4.0], [0.0, 1.0, 3.0])
    Tensor(7.5, dtype=float32)
    """
    values = floating(y)
    at = normalize_axis(axis, values.ndim)
    middles = multiply(add(slice_axis(values, at, 1, None), slice_axis(values, at, 0, -1)), 0.5)
    if x is None:
        return multiply(sum(middles, at), dx)
    points = floating(x)
    if points.ndim == 1 and points.type.shape[0] == values.type.shape[at]:
        points = apply("reshape", points, shape=_along(values, at, points.type.shape[0]))
    elif points.type.shape != values.type.shape:
        raise ShapeError(f"trapezoid: points {points.type} do not fit axis {axis} of {values.type}")
    return sum(multiply(middles, subtract(slice_axis(points, at, 1, None), slice_axis(points, at, 0, -1))), at)


def _along(x: Tensor, axis: int, extent: Any) -> tuple[Any, ...]:
    """The shape of a vector that lies along an axis of x."""
    return tuple(extent if i == axis else 1 for i in range(x.ndim))


@public
def gradient(f: Any, /, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes by central differences along each axis, one-sided at the ends, as `np.gradient`.

    f: at least edge_order + 1 elements along each axis; integers give the default float. spacing: nothing
    (1), one distance for all axes, or for each a distance or a vector of points. axis: one or several, all by
    default. edge_order: 1 or 2, of the differences at the ends. One array for one axis, else a tuple. (For
    derivatives of functions see `gt.grad`.) Raises ShapeError for what does not fit, OptionError for another
    edge_order.

    >>> import gtensor as gt
    >>> gt.gradient(gt.tensor([1.0, 2.0, 4.0, 8.0]))
    Tensor([1. , 1.5, 3. , 4. ], dtype=float32)
    """
    values = floating(f)
    if edge_order not in (1, 2):
        raise OptionError(f"gradient: edge_order must be 1 or 2, not {edge_order}")
    given = range(values.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [normalize_axis(a, values.ndim) for a in given]
    steps = [as_tensor(s) for s in spacing or (1.0,)]
    if len(steps) == 1:
        steps *= len(axes)
    if len(steps) != len(axes):
        raise ShapeError(f"gradient: {len(steps)} spacings for {len(axes)} axes")
    slopes = tuple(_slopes(values, a, s, edge_order) for a, s in zip(axes, steps, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _slopes(f: Tensor, axis: int, spacing: Tensor, edge_order: int) -> Tensor:
    count = constant_extent(f, axis, "gradient")
    if count < edge_order + 1:
        raise ShapeError(f"gradient: axis {axis} of {f.type} has fewer than {edge_order + 1} elements")
    if spacing.ndim == 0:
        before = after = spacing
        lines: Sequence[Any] = (spacing,) * 4
    else:
        if spacing.type.shape != (count,):
            raise ShapeError(f"gradient: spacing {spacing.type} does not fit axis {axis} of {f.type}")
        places = floating(spacing)
        widths = apply("reshape", places[1:] - places[:-1], shape=_along(f, axis, count - 1))
        before, after = slice_axis(widths, axis, 0, -1), slice_axis(widths, axis, 1, None)
        lines = [slice_axis(widths, axis, i, i + 1) for i in (0, min(1, count - 2))]
        lines += [slice_axis(widths, axis, i, i + 1) for i in (max(count - 3, 0), count - 2)]
    pieces = [_end(f, axis, (0, 1, 2), lines[0], lines[1], edge_order)]
    if count > 2:
        low, middle, high = (slice_axis(f, axis, i, i - 2 or None) for i in range(3))
        pieces.append(_inner(low, middle, high, before, after, spacing.ndim == 0))
    pieces.append(-_end(f, axis, (count - 1, count - 2, count - 3), lines[-1], lines[-2], edge_order))
    return concat(pieces, axis=axis)


def _inner(low: Tensor, middle: Tensor, high: Tensor, before: Tensor, after: Tensor, even: bool) -> Tensor:
    """The slope at the middle of three points; weights that are exact for parabolas."""
    if even:
        return divide(subtract(high, low), multiply(before, 2.0))
    both = add(before, after)
    a = divide(-after, multiply(before, both))
    b = divide(subtract(after, before), multiply(before, after))
    c = divide(before, multiply(after, both))
    return add(add(multiply(a, low), multiply(b, middle)), multiply(c, high))


def _end(f: Tensor, axis: int, places: tuple[int, int, int], near: Any, far: Any, order: int) -> Tensor:
    """The slope at the first of three places inwards; `near` and `far` are the distances between them."""
    first, second = (slice_axis(f, axis, i, i + 1) for i in places[:2])
    if order == 1:
        return divide(subtract(second, first), near)
    third = slice_axis(f, axis, places[2], places[2] + 1)
    both = add(near, far)
    a = divide(-add(both, near), multiply(near, both))
    b = divide(both, multiply(near, far))
    c = divide(-near, multiply(far, both))
    return add(add(multiply(a, first), multiply(b, second)), multiply(c, third))


_MODES = ("full", "same", "valid")


@public
def convolve(x1: Any, x2: Any, /, mode: str = "full") -> Tensor:
    """The convolution of two vectors: result[k] = the sum of x1[i] * x2[k - i].

    x1: [m], x2: [n], none empty. The result has m + n - 1 elements for the mode "full", max(m, n) for "same"
    (the middle of them), and |m - n| + 1 for "valid" (those that need no border). Work and memory are of the
    order m n. Raises ShapeError for what is no vector of some elements, OptionError for another mode.

    >>> import gtensor as gt
    >>> gt.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    Tensor([0. , 1. , 2.5, 4. , 1.5], dtype=float32)
    """
    if mode not in _MODES:
        raise OptionError(f"convolve: mode must be one of {', '.join(_MODES)}, not {mode!r}")
    signal, kernel = _vector(x1, "convolve"), _vector(x2, "convolve")
    m, n = constant_extent(signal, 0, "convolve"), constant_extent(kernel, 0, "convolve")
    if m < n:
        signal, kernel, m, n = kernel, signal, n, m
    if n == 0:
        raise ShapeError(f"convolve takes vectors of some elements, not {kernel.type}")
    before, after = {"full": (n - 1, n - 1), "same": (n // 2, (n - 1) // 2), "valid": (0, 0)}[mode]
    runs = apply("windows", pad(signal, (before, after)), window=(n,), step=(1,), dilation=(1,))
    return matmul(flip(kernel, 0), runs)


@public
def correlate(x1: Any, x2: Any, /, mode: str = "valid") -> Tensor:
    """The correlation of two vectors: result[k] = the sum of x1[i + k] * x2[i], k counted from the mode's first.

    Arguments, sizes and errors as for `convolve`.

    >>> import gtensor as gt
    >>> gt.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    Tensor([3.5], dtype=float32)
    """
    a, b = _vector(x1, "correlate"), _vector(x2, "correlate")
    if constant_extent(a, 0, "correlate") < constant_extent(b, 0, "correlate"):
        return flip(correlate(b, a, mode), 0)
    return convolve(a, flip(b, 0), mode)

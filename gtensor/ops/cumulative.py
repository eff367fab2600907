"""Running folds along an axis: cumulative sum, product, maximum, minimum, logsumexp, linear recurrences; diff.

One pass along each line, in order. Laws: running sums, products and recurrences of float32 are computed in
float64 and rounded once per element, so an element of a long sum is as exact as a short one; maxima propagate
NaN; products have the right derivatives where factors are 0, at every order; no rule divides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..prim import Prim, Sample, Walk, public, register
from ..pullback import zeros
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Type, as_dtype, bool_, extent_bound, int64, normalize_axis, resolve, summed
from .arithmetic import isinf, stop_gradient, where
from .assemble import concat
from .layout import backwards
from .records import batch_along, uniform
from .transcendental import exp, log

Array = np.ndarray[Any, Any]


def _lines(name: str, operands: int = 1) -> Callable[..., Walk]:
    """How a function of that name walks: along the axis of every operand and of the result."""

    def place(*types: Type, axis: int) -> Walk:
        return Walk(f"gt_{name}_{types[-1].dtype.tag}", (axis,) * (operands + 1))

    return place


# ---- moving along an axis --------------------------------------------------------------------------------


def _length(x: Tensor, axis: int) -> int:
    """The extent of an axis; raises ShapeError where it is known at run time only."""
    n = x.shape[axis]
    if not isinstance(n, int):
        raise ShapeError(f"the length of axis {axis} of {x.type} is known at run time only")
    return n


def _part(x: Tensor, axis: int, first: int, last: int) -> Tensor:
    """Elements first … last - 1 of an axis."""
    shape = x.type.shape
    start = tuple(first if i == axis else 0 for i in range(len(shape)))
    stop = tuple(last if i == axis else n for i, n in enumerate(shape))
    return apply("slice", x, start=start, stop=stop, step=(1,) * len(shape))


def _behind(x: Tensor, axis: int, value: float) -> Tensor:
    """With `value` put before the first element of an axis."""
    shape = x.shape
    _length(x, axis)
    start = tuple(int(i == axis) for i in range(len(shape)))
    wider = tuple(n + 1 if i == axis else n for i, n in enumerate(shape))
    return apply("pad", x, shape=wider, start=start, step=(1,) * len(shape), value=value)


def before_each(x: Tensor, axis: int, value: float) -> Tensor:
    """Element i - 1 at place i of a line, `value` at its start; nothing of a line without elements."""
    if x.type.shape[axis] == 0:
        return x
    return _behind(_part(x, axis, 0, _length(x, axis) - 1), axis, value)


def _suffix_sums(g: Tensor, factors: Tensor, axis: int) -> Tensor:
    """s[i] = g[i] + factors[i + 1] * s[i + 1]: what a recurrence with these factors gives back."""
    turned = before_each(backwards(factors, axis), axis, 0.0)
    return backwards(apply("recurrence", turned, backwards(g, axis), axis=axis), axis)


def _later_mask(mask: Tensor, y: Tensor, *xs: Tensor, axis: int) -> Sequence[Any]:
    """An element counts where it, or one behind it, does: the masks of what a fold from the front folds."""
    counts = backwards(apply("cumsum", backwards(cast(mask, int64), axis), axis=axis), axis)
    return (counts,) * len(xs)


# ---- records ---------------------------------------------------------------------------------------------


def _same_lines(x: Type, axis: int) -> Type:
    return x


def _wide(fold: Any) -> Callable[..., Array]:
    """A running fold of NumPy's, of floats in float64."""

    def run(x: Array, axis: int) -> Array:
        wide = np.float64 if x.dtype.kind == "f" else x.dtype
        return np.asarray(fold.accumulate(x, axis=axis, dtype=wide)).astype(x.dtype)

    return run


def _sum_vjp(g: Tensor, y: Tensor, x: Tensor, axis: int) -> Sequence[Any]:
    return (backwards(apply("cumsum", backwards(g, axis), axis=axis), axis),)


def _prod_vjp(g: Tensor, y: Tensor, x: Tensor, axis: int) -> Sequence[Any]:
    """The product before each element times the weighted products after it, by Horner's rule: nothing is divided."""
    if x.type.shape[axis] == 0:
        return (g,)
    return (before_each(y, axis, 1.0) * _suffix_sums(g, x, axis),)


def _extreme_vjp(places: str) -> Callable[..., Sequence[Any]]:
    """The cotangent goes to the element that was taken, the last of equals."""

    def rule(g: Tensor, y: Tensor, x: Tensor, axis: int) -> Sequence[Any]:
        taken = apply(places, x, axis=axis)
        return (apply("scatter_add", zeros(x.type), taken, g, axis=axis),)

    return rule


def _place_type(x: Type, axis: int) -> Type:
    return Type(x.shape, int64)


def _places(fold: Any) -> Callable[..., Array]:
    """Where the last of the largest (or smallest) elements so far stands; a NaN is one where it is met."""

    def run(x: Array, axis: int) -> Array:
        counts = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        best = fold.accumulate(x, axis=axis)
        return np.asarray(np.maximum.accumulate(np.where((x == best) | (x != x), counts, 0), axis=axis), np.int64)

    return run


_SHAPES: list[tuple[tuple[int, ...], int]] = [((3, 5), 1), ((3, 5), 0), ((2, 3, 2), 1), ((4,), 0), ((2, 0), 1)]


def _samples(grad: bool, dtypes: tuple[str, ...]) -> tuple[Sample, ...]:
    return tuple(Sample((uniform(shape=s),), {"axis": a}, grad=grad, dtypes=dtypes) for s, a in _SHAPES)


def _running(
    name: str, type: Any, numpy: Any, vjp: Any, dtypes: tuple[str, ...], doc: str, mask: Any = "drop"
) -> None:  # fmt: skip
    samples = _samples(vjp is not None, dtypes)
    register(
        Prim(
            name, "along", type, numpy, vjp=vjp, mask=mask, batch=batch_along(name), place=_lines(name), exact=True,
            samples=samples, doc=doc,
        )
    )  # fmt: skip


_running(
    "cumsum", _same_lines, _wide(np.add), _sum_vjp, ("f", "i64", "u64"), "Running sums along an axis.", _later_mask
)  # fmt: skip
_running(
    "cumprod", _same_lines, _wide(np.multiply), _prod_vjp, ("f", "i64", "u64"), "Running products along an axis.",
    _later_mask,
)  # fmt: skip
for _name, _ufunc, _word in (("max", np.maximum, "largest"), ("min", np.minimum, "smallest")):
    _running(
        f"cum{_name}", _same_lines, lambda x, axis, f=_ufunc: f.accumulate(x, axis=axis),
        _extreme_vjp(f"cumarg{_name}"), ("f", "i", "u"), f"The {_word} element so far along an axis.",
    )  # fmt: skip
    _running(
        f"cumarg{_name}", _place_type, _places(_ufunc), None, ("f", "i", "u"),
        f"The place of the last of the {_word} elements so far along an axis.",
    )  # fmt: skip


def _recurrence_type(a: Type, b: Type, axis: int) -> Type:
    if a != b or not a.dtype.floating:
        raise ShapeError("the factors and the terms must be floats of one type")
    return b


def _recurrence_array(a: Array, b: Array, axis: int) -> Array:
    factors, terms = (np.moveaxis(x, axis, 0).astype(np.float64) for x in (a, b))
    for i in range(1, len(terms)):
        terms[i] += factors[i] * terms[i - 1]
    return np.moveaxis(terms, 0, axis).astype(b.dtype)


def _recurrence_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor, axis: int) -> Sequence[Any]:
    n = extent_bound(b.type.shape[axis])
    if n == 0:
        return (g, g)
    sums = _suffix_sums(g, a, axis)
    return (lambda: _behind(_part(sums, axis, 1, n) * _part(y, axis, 0, n - 1), axis, 0.0), sums)


register(
    Prim(
        "recurrence", "along", _recurrence_type, _recurrence_array, vjp=_recurrence_vjp, mask=_later_mask,
        batch=batch_along("recurrence"), place=_lines("recurrence", 2), exact=True,
        samples=tuple(Sample((uniform(shape=s), uniform(shape=s)), {"axis": a}) for s, a in _SHAPES),
        flops=2, doc="y[0] = b[0] and y[i] = a[i] * y[i - 1] + b[i] along an axis.",
    )
)  # fmt: skip


# ---- functions -------------------------------------------------------------------------------------------


def _line_up(x: Any, axis: int | None) -> tuple[Tensor, int]:
    """The tensor, strongly typed, and the axis of its lines: it is flattened without one."""
    tensor = as_tensor(x)
    tensor = cast(tensor, resolve(tensor.type).dtype)
    if axis is None or tensor.ndim == 0:
        normalize_axis(axis or 0, max(tensor.ndim, 1))
        return apply("reshape", tensor, shape=(tensor.type.size,)), 0
    return tensor, normalize_axis(axis, tensor.ndim)


def _run(name: str, x: Tensor, axis: int, reverse: bool) -> Tensor:
    if reverse:
        return backwards(apply(name, backwards(x, axis), axis=axis), axis)
    return apply(name, x, axis=axis)


def _fold(name: str, x: Any, axis: int | None, dtype: Any, reverse: bool) -> tuple[Tensor, int]:
    """A running sum or product; integers are folded in int64 or uint64, as `sum` does."""
    tensor, at = _line_up(x, axis)
    target = summed(tensor.dtype) if dtype is None else as_dtype(dtype)
    return cast(_run(name, cast(cast(tensor, target), summed(target)), at, reverse), target), at


@public
def cumsum(x: Any, /, axis: int | None = None, dtype: Any = None, *, reverse: bool = False) -> Tensor:
    """The sums of the elements up to each along an axis, of the flattened array without one (as np.cumsum).

    With `reverse` the sums of the elements from each to the last. Integers and bools give int64, unsigned ones
    uint64. float32 is summed in float64 and rounded once per element. With `dtype` the elements are converted first.
    Raises ShapeError for an axis out of range.

    >>> import gtensor as gt
    >>> gt.cumsum(gt.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([[1., 2.],
            [4., 6.]], dtype=float32)
    """
    return _fold("cumsum", x, axis, dtype, reverse)[0]


@public
def cumprod(x: Any, /, axis: int | None = None, dtype: Any = None, *, reverse: bool = False) -> Tensor:
    """The products of the elements up to each along an axis, of the flattened array without one (as np.cumprod).

    As `cumsum` otherwise. Its derivatives are right where elements are 0 too, at every order.

    >>> import gtensor as gt
    >>> gt.grad(lambda x: gt.cumprod(x).sum())(gt.tensor([2.0, 0.0, 3.0]))
    Tensor([1., 8., 0.], dtype=float32)
    """
    return _fold("cumprod", x, axis, dtype, reverse)[0]


def _standard(name: str, start: float, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Tensor:
    tensor = as_tensor(x)
    if axis is None and tensor.ndim > 1:
        raise ShapeError(
            f"{name} needs an axis for {tensor.type}, which has several", hint="gt.cumsum and gt.cumprod flatten it"
        )
    out, at = _fold(name, tensor, axis, dtype, False)
    return _behind(out, at, start) if include_initial else out


@public
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """The running sums along an axis, which only a vector may leave out (the array API's name of `cumsum`).

    With `include_initial` a 0 stands before the first, so the axis is one longer. Integers and bools give
    int64, unsigned ones uint64. Raises ShapeError for an axis out of range, or none where there are several.

    >>> import gtensor as gt
    >>> gt.cumulative_sum(gt.tensor([1.0, 2.0, 3.0]), include_initial=True)
    Tensor([0., 1., 3., 6.], dtype=float32)
    """
    return _standard("cumsum", 0, x, axis, dtype, include_initial)


@public
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """The running products along an axis, which only a vector may leave out (the array API's name of `cumprod`).

    With `include_initial` a 1 stands before the first, so the axis is one longer.

    >>> import gtensor as gt
    >>> gt.cumulative_prod(gt.tensor([2, 3, 4]), include_initial=True)
    Tensor([ 1,  2,  6, 24], dtype=int64)
    """
    return _standard("cumprod", 1, x, axis, dtype, include_initial)


def _extreme(name: str, x: Any, axis: int | None, reverse: bool) -> Tensor:
    tensor, at = _line_up(x, axis)
    held = cast(tensor, as_dtype("uint8")) if tensor.dtype == bool_ else tensor
    return cast(_run(name, held, at, reverse), tensor.dtype)


@public
def cummax(x: Any, /, axis: int | None = None, *, reverse: bool = False) -> Tensor:
    """The largest of the elements up to each along an axis, of the flattened array without one.

    NaN once there is one. With `reverse` from each to the last. Of equal elements the last takes the gradient,
    as in torch.cummax.

    >>> import gtensor as gt
    >>> gt.cummax(gt.tensor([1, 3, 2, 5]))
    Tensor([1, 3, 3, 5], dtype=int64)
    """
    return _extreme("cummax", x, axis, reverse)


@public
def cummin(x: Any, /, axis: int | None = None, *, reverse: bool = False) -> Tensor:
    """The smallest of the elements up to each along an axis; as `cummax` otherwise.

    >>> import gtensor as gt
    >>> gt.cummin(gt.tensor([4, 3, 5, 1]))
    Tensor([4, 3, 3, 1], dtype=int64)
    """
    return _extreme("cummin", x, axis, reverse)


@public
def cumlogsumexp(x: Any, /, axis: int | None = None, *, reverse: bool = False) -> Tensor:
    """The logarithm of the running sums of exponentials along an axis, which neither overflows nor cancels.

    As `cumsum` otherwise. Where all elements so far are -inf it is -inf, with a gradient of 0.

    >>> import gtensor as gt
    >>> gt.cumlogsumexp(gt.tensor([1000.0, -1000.0, 1002.0]))
    Tensor([1000.     , 1000.     , 1002.12695], dtype=float32)
    """
    tensor, at = _line_up(x, axis)
    if not tensor.dtype.floating:
        tensor = cast(tensor, as_dtype("float32"))
    if tensor.type.shape[at] == 0:
        return tensor
    if reverse:
        return backwards(_log_sums(backwards(tensor, at), at), at)
    return _log_sums(tensor, at)


def _log_sums(x: Tensor, axis: int) -> Tensor:
    """s[i] = s[i - 1] * exp(m[i - 1] - m[i]) + exp(x[i] - m[i]) with the running maximum m; then m + log(s)."""
    top = apply("cummax", stop_gradient(x), axis=axis)
    shift = where(isinf(top), 0.0, top)
    before = before_each(top, axis, 0.0)
    fall = where(before == -np.inf, 0.0, exp(before_each(shift, axis, 0.0) - shift))
    sums = apply("recurrence", fall, exp(x - shift), axis=axis)
    return where(sums > 0, shift + log(sums), where(sums == 0, -np.inf, sums))


@public
def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times; of bools whether they differ.

    `prepend` and `append` are put before and behind the elements first; a scalar is repeated as needed.
    The axis is `n` shorter. Raises ShapeError for a scalar, OptionError for a negative n.

    >>> import gtensor as gt
    >>> gt.diff(gt.tensor([1, 4, 9, 16])), gt.diff(gt.tensor([1, 4, 9, 16]), n=2)
    (Tensor([3, 5, 7], dtype=int64), Tensor([2, 2], dtype=int64))
    """
    tensor = as_tensor(x)
    if n < 0:
        raise OptionError(f"diff: n must not be negative, not {n}")
    at = normalize_axis(axis, tensor.ndim)
    parts = [_beside(part, tensor, at) for part in (prepend, x, append) if part is not None]
    if n == 0:
        return tensor
    out = concat(parts, axis=at) if len(parts) > 1 else tensor
    for _ in range(n):
        length = _length(out, at)
        later, sooner = _part(out, at, min(1, length), length), _part(out, at, 0, max(length - 1, 0))
        out = later != sooner if out.dtype == bool_ else later - sooner
    return out


def _beside(part: Any, x: Tensor, axis: int) -> Tensor:
    """What is put beside x along an axis: a scalar as one element per line."""
    tensor = as_tensor(part)
    if tensor.ndim:
        return tensor
    return apply("broadcast", tensor, shape=tuple(1 if i == axis else n for i, n in enumerate(x.type.shape)))

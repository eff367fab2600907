"""Convolutions over one, two and three axes, and their transposes.

x is [N, C, *S] (or [C, *S]) and a weight [O, C / groups, *K], as in PyTorch. A convolution is one matrix product
per example: the weights times the windows of x, which `ops.conv` shows as a view. Its transpose is the product the
other way round, whose windows are added where they overlap. Law: both are compositions of primitives, so they have
derivatives of every order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import OptionError, ShapeError
from ..narrow import rounded_once
from ..ops.contract import matmul
from ..ops.conv import span
from ..ops.remat import checkpoint
from ..ops.scan import scan
from ..ops.statistics import floating
from ..tensor import Tensor, apply, cast
from ..types import Dim, promote

AT_ONCE, BLOCK = 16 << 20, 1 << 20
"""Bytes of windows that a convolution copies for all examples, and of those of a block of examples where they are
more. The windows of LeNet's first layer, 64 pictures, take 3.7 MB and are kept for the derivative: 1.7 ms a step, 2.0
in blocks. Those of 64 channels of 32x32, 16 pictures, are 38 MB; in blocks the step takes as long, without them."""

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def sizes(what: str, name: str, value: Any, axes: int, least: int = 1) -> Sizes:
    """One integer, or one per axis, as one per axis; raises OptionError."""
    given = (value,) * axes if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else ()
    good = len(given) == axes and all(isinstance(n, int) and not isinstance(n, bool) and n >= least for n in given)
    if not good:
        raise OptionError(f"{what}: {name} must be one or {axes} integers of at least {least}, not {value!r}")
    return given


def borders(what: str, value: Any, axes: int) -> Pairs:
    """How many elements stand before and after each axis: one integer, one per axis, or a pair per axis."""
    if isinstance(value, Sequence) and any(isinstance(pair, Sequence) for pair in value):
        pairs = [sizes(what, "padding", pair, 2, least=0) for pair in value]
        if len(pairs) != axes:
            raise OptionError(f"{what}: padding must have {axes} pairs, not {value!r}")
        return tuple((before, after) for before, after in pairs)
    return tuple((n, n) for n in sizes(what, "padding", value, axes, least=0))


def paddings(what: str, value: Any, window: Sizes, stride: Sizes, dilation: Sizes) -> Pairs:
    """How many zeros stand before and after each axis; raises OptionError."""
    if value == "valid":
        return ((0, 0),) * len(window)
    if value == "same":
        if any(move != 1 for move in stride):
            raise OptionError(f"{what}: padding='same' needs a stride of 1, not {stride}")
        totals = (span(size, spread) - 1 for size, spread in zip(window, dilation, strict=True))
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(value, str):
        raise OptionError(f"{what}: padding must be integers, 'same' or 'valid', not {value!r}")
    return borders(what, value, len(window))


def padded(x: Tensor, pairs: Pairs, value: float = 0.0) -> Tensor:
    """x with borders along its last axes."""
    if not any(map(any, pairs)):
        return x
    first = x.ndim - len(pairs)
    inner = tuple(n + before + after for n, (before, after) in zip(x.shape[first:], pairs, strict=True))
    start = (*(0,) * first, *(before for before, _ in pairs))
    return apply("pad", x, shape=(*x.type.shape[:first], *inner), start=start, step=(1,) * x.ndim, value=value)


def examples(what: str, x: Tensor, axes: int) -> tuple[Tensor, bool]:
    """x with an axis of examples in front, and whether it had one; raises ShapeError."""
    if x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(f"{what}: x must have {axes + 2} axes, or {axes + 1} for one example, not {x.type}")
    if x.ndim == axes + 2:
        return x, True
    return apply("reshape", x, shape=(1, *x.type.shape)), False


def _operands(what: str, axes: int, *values: Any) -> list[Tensor | None]:
    """x, weight and bias in their common dtype, the weight with as many axes as it needs."""
    tensors = [None if value is None else floating(value) for value in values]
    dtype, _ = promote([t.type for t in tensors if t is not None])
    weight = tensors[1]
    assert weight is not None
    if weight.ndim != axes + 2:
        raise ShapeError(f"{what}: weight must have {axes + 2} axes, not {weight.type}")
    return [None if t is None else cast(t, dtype) for t in tensors]


def _convolve(
    axes: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    what = f"conv{axes}d"
    data, kernel, shift = _operands(what, axes, x, weight, bias)
    assert data is not None and kernel is not None
    window = kernel.shape[2:]
    move, spread = sizes(what, "stride", stride, axes), sizes(what, "dilation", dilation, axes)
    pairs = paddings(what, padding, window, move, spread)
    data, batched = examples(what, data, axes)
    outs, ins = kernel.shape[:2]
    _check_groups(what, groups, data.shape[1], ins * groups, outs, kernel)
    column = None if shift is None else _per_channel(what, shift, outs)

    def product(x: Tensor, kernel: Tensor, column: Tensor | None) -> Tensor:
        seen = apply("windows", padded(x, pairs), window=window, step=move, dilation=spread)
        count, places, inner = seen.type.shape[0], seen.shape[2 + axes :], ins * math.prod(window)
        split = () if groups == 1 else (groups,)
        columns = apply("reshape", seen, shape=(count, *split, inner, math.prod(places)))
        rows = apply("reshape", kernel, shape=(*split, outs // groups, inner))
        result = apply("reshape", matmul(rows, columns), shape=(count, outs, math.prod(places)))
        if column is not None:
            result = result + column
        return apply("reshape", result, shape=(count, outs, *places))

    result = _in_blocks(product, data, kernel, column)
    return result if batched else apply("reshape", result, shape=result.type.shape[1:])


def _in_blocks(product: Callable[..., Tensor], x: Tensor, kernel: Tensor, column: Tensor | None) -> Tensor:
    """A convolution of all examples at once, or in a loop over blocks of them if their windows take much memory.

    In the loop windows are not kept for the derivative but copied again, while they are in the cache.
    """
    count, size = x.type.shape[0], math.prod(x.shape[1:]) * math.prod(kernel.shape[2:]) * x.dtype.dtype.itemsize
    if isinstance(count, Dim) or count * size <= AT_ONCE:
        return product(x, kernel, column)
    block = max(n for n in range(1, count + 1) if count % n == 0 and (n == 1 or n * size <= BLOCK))
    blocks = apply("reshape", x, shape=(count // block, block, *x.shape[1:]))
    again = checkpoint(product)
    _, found = scan(lambda carry, part: (carry, again(part, kernel, column)), (), blocks)
    return apply("reshape", found, shape=(count, *found.type.shape[2:]))


def _transposed(
    axes: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> Tensor:  # fmt: skip
    what = f"conv_transpose{axes}d"
    data, kernel, shift = _operands(what, axes, x, weight, bias)
    assert data is not None and kernel is not None
    window = kernel.shape[2:]
    move, spread = sizes(what, "stride", stride, axes), sizes(what, "dilation", dilation, axes)
    border = borders(what, padding, axes)
    extra = sizes(what, "output_padding", output_padding, axes, least=0)
    if any(more >= max(k, d) for more, k, d in zip(extra, move, spread, strict=True)):
        raise OptionError(f"{what}: output_padding {extra} must be smaller than the stride or the dilation")
    data, batched = examples(what, data, axes)
    ins, outs = kernel.shape[0], kernel.shape[1] * groups
    _check_groups(what, groups, data.shape[1], ins, outs, kernel)
    count, places = data.type.shape[0], data.shape[2:]
    inner = kernel.shape[1] * math.prod(window)
    split = () if groups == 1 else (groups,)
    rows = apply("reshape", kernel, shape=(*split, ins // groups, inner))
    columns = apply("reshape", data, shape=(count, *split, ins // groups, math.prod(places)))
    turned = apply("transpose", rows, axes=(*range(len(split)), len(split) + 1, len(split)))
    spread_out = apply("reshape", matmul(turned, columns), shape=(count, outs, *window, *places))
    reach = [
        (n - 1) * k + span(size, d) + more
        for n, k, size, d, more in zip(places, move, window, spread, extra, strict=True)
    ]
    if any(n < sum(pair) + 1 for n, pair in zip(reach, border, strict=True)):
        raise ShapeError(f"{what}: padding {padding} leaves nothing of {tuple(reach)}")
    whole = apply("overlap", spread_out, shape=tuple(reach), step=move, dilation=spread)
    start = (0, 0, *(before for before, _ in border))
    stop = (count, outs, *(n - after for n, (_, after) in zip(reach, border, strict=True)))
    result = apply("slice", whole, start=start, stop=stop, step=(1,) * whole.ndim)
    if shift is not None:
        result = result + apply("reshape", _per_channel(what, shift, outs), shape=(outs, *(1,) * axes))
    return result if batched else apply("reshape", result, shape=result.type.shape[1:])


def _check_groups(what: str, groups: int, given: int, ins: int, outs: int, weight: Tensor) -> None:
    if not isinstance(groups, int) or isinstance(groups, bool) or groups < 1 or outs % groups or ins % groups:
        raise OptionError(f"{what}: {ins} channels to {outs} cannot be divided into groups={groups!r}")
    if given != ins:
        raise ShapeError(f"{what}: weight {weight.type} takes {ins} channels in {groups} groups, x has {given}")


def _per_channel(what: str, bias: Tensor, channels: int) -> Tensor:
    """The bias as a column."""
    if bias.shape != (channels,):
        raise ShapeError(f"{what}: bias must be [{channels}], not {bias.type}")
    return apply("reshape", bias, shape=(channels, 1))


@rounded_once
def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The sum over channels and window of weight times x, at every place that the window reaches, plus bias.

    x: [N, C, L] or [C, L]; weight: [O, C / groups, K]; bias: [O] or none; the result is [N, O, P] or [O, P] in the
    common dtype. stride, dilation: an integer; padding: zeros on both sides, a list of one pair (before, after),
    "same" (with stride 1; the odd one after) or "valid". Raises ShapeError where sizes do not fit, OptionError for
    wrong options.

    >>> import gtensor as gt
    >>> gt.nn.conv1d(gt.tensor([[1.0, 2.0, 4.0, 8.0]]), gt.tensor([[[1.0, -1.0]]]))
    Tensor([[-1., -2., -4.]], dtype=float32)
    """
    return _convolve(1, x, weight, bias, stride, padding, dilation, groups)


@rounded_once
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """`conv1d` over two axes.

    x: [N, C, H, W] or [C, H, W]; weight: [O, C / groups, KH, KW]; options are one integer or one per axis, padding
    also one pair (before, after) per axis. Raises as `conv1d` does.

    >>> import gtensor as gt
    >>> x, weight = gt.ones((8, 3, 28, 28)), gt.ones((16, 3, 5, 5))
    >>> gt.nn.conv2d(x, weight, stride=2, padding=(2, 0)).shape, gt.nn.conv2d(x, weight, padding="same").shape
    ((8, 16, 14, 12), (8, 16, 28, 28))
    """
    return _convolve(2, x, weight, bias, stride, padding, dilation, groups)


@rounded_once
def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """`conv1d` over three axes.

    x: [N, C, D, H, W] or [C, D, H, W]; weight: [O, C / groups, KD, KH, KW]. Raises as `conv1d` does.

    >>> import gtensor as gt
    >>> gt.nn.conv3d(gt.ones((1, 2, 4, 5, 6)), gt.ones((3, 2, 2, 2, 2))).shape
    (1, 3, 3, 4, 5)
    """
    return _convolve(3, x, weight, bias, stride, padding, dilation, groups)


@rounded_once
def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv1d`: every element of x adds its multiple of the weights to the result, plus bias.

    x: [N, C, L] or [C, L]; weight: [C, O / groups, K]; bias: [O] or none; the result is [N, O, P] with
    P = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1; padding may be a list of one pair
    (before, after). Raises as `conv1d` does.

    >>> import gtensor as gt
    >>> gt.nn.conv_transpose1d(gt.tensor([[1.0, 2.0]]), gt.tensor([[[1.0, 10.0, 100.0]]]), stride=2)
    Tensor([[  1.,  10., 102.,  20., 200.]], dtype=float32)
    """
    return _transposed(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


@rounded_once
def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """`conv_transpose1d` over two axes.

    x: [N, C, H, W] or [C, H, W]; weight: [C, O / groups, KH, KW]. Raises as `conv1d` does.

    >>> import gtensor as gt
    >>> gt.nn.conv_transpose2d(gt.ones((2, 4, 5, 5)), gt.ones((4, 3, 2, 2)), stride=2).shape
    (2, 3, 10, 10)
    """
    return _transposed(2, x, weight, bias, stride, padding, output_padding, groups, dilation)


@rounded_once
def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """`conv_transpose1d` over three axes.

    x: [N, C, D, H, W] or [C, D, H, W]; weight: [C, O / groups, KD, KH, KW]. Raises as `conv1d` does.

    >>> import gtensor as gt
    >>> gt.nn.conv_transpose3d(gt.ones((1, 2, 2, 2, 2)), gt.ones((2, 1, 2, 2, 2))).shape
    (1, 1, 3, 3, 3)
    """
    return _transposed(3, x, weight, bias, stride, padding, output_padding, groups, dilation)

"""Channels as pixels and back: pixel_shuffle, pixel_unshuffle.

Comes in: x, [..., C, H, W]. Goes out: the same elements in another shape. Law: each function is the other's inverse.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor, apply, as_tensor
from ..types import Dim
from .convolution import sizes


def pixel_shuffle(x: Any, upscale_factor: int) -> Tensor:
    """Channels as pixels: [..., C r r, H, W] gives [..., C, H r, W r], r the factor.

    Raises ShapeError for fewer than three axes and where r * r does not divide the channels. Source: Shi et al.,
    Real-Time Single Image and Video Super-Resolution, 2016.

    >>> import gtensor as gt
    >>> gt.nn.pixel_shuffle(gt.tensor([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]), 2)
    Tensor([[[1., 2.],
            [3., 4.]]], dtype=float32)
    """
    (r,) = sizes("pixel_shuffle", "upscale_factor", upscale_factor, 1)
    *lead, channels, rows, columns = _picture(x, "pixel_shuffle").type.shape
    if isinstance(channels, Dim) or channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels do not divide into squares of {r} by {r}")
    apart = apply("reshape", as_tensor(x), shape=(*lead, channels // (r * r), r, r, rows, columns))
    n = len(lead)
    beside = apply("transpose", apart, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return apply("reshape", beside, shape=(*lead, channels // (r * r), rows * r, columns * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Tensor:
    """Pixels as channels: [..., C, H r, W r] gives [..., C r r, H, W], the inverse of `pixel_shuffle`.

    Raises ShapeError for fewer than three axes and where r does not divide the last two.

    >>> import gtensor as gt
    >>> gt.nn.pixel_unshuffle(gt.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2).shape
    (4, 1, 1)
    """
    (r,) = sizes("pixel_unshuffle", "downscale_factor", downscale_factor, 1)
    *lead, channels, rows, columns = _picture(x, "pixel_unshuffle").type.shape
    if isinstance(rows, Dim) or isinstance(columns, Dim) or rows % r or columns % r:
        raise ShapeError(f"pixel_unshuffle: {rows} by {columns} pixels do not divide into squares of {r} by {r}")
    apart = apply("reshape", as_tensor(x), shape=(*lead, channels, rows // r, r, columns // r, r))
    n = len(lead)
    behind = apply("transpose", apart, axes=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return apply("reshape", behind, shape=(*lead, channels * r * r, rows // r, columns // r))


def _picture(x: Any, what: str) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 3:
        raise ShapeError(f"{what} takes [..., channels, rows, columns], not {tensor.type}")
    return tensor

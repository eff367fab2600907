"""Borders: pad with its modes.

A constant border is the primitive `pad`; the other modes repeat elements of the array, as runs of slices
side by side, so their gradients are sums over the copies. Laws: a border that no element can fill, a negative
one, and one along a run-time axis raise ShapeError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor
from ..types import Dim
from .arithmetic import cast_array
from .places import constant_extent, constant_integers, rows

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
"""What a border is filled with: one value, the outermost elements, the array mirrored without or with its
outermost elements, the array from its other end."""


@public
def pad(x: Any, pad_width: Any, /, mode: str = "constant", *, constant_values: float = 0.0) -> Tensor:
    """x with borders; `pad_width` is one number, (before, after) for all axes, or one such pair per axis.

    mode: "constant", "edge", "reflect" (mirrored, the outermost elements once), "symmetric" (mirrored, the
    outermost elements twice) or "wrap" (from the other end). Raises ShapeError for a negative width, where
    an empty axis has nothing to repeat, and where a run-time axis would grow; OptionError for another mode.

    >>> import gtensor as gt
    >>> gt.pad(gt.tensor([1.0, 2.0]), (1, 0)), gt.pad([1, 2, 3], 2, mode="reflect")
    (Tensor([0., 1., 2.], dtype=float32), Tensor([3, 2, 1, 2, 3, 2, 1], dtype=int64))
    """
    if mode not in MODES:
        raise OptionError(f"pad: mode must be one of {', '.join(MODES)}, not {mode!r}")
    tensor = as_tensor(x)
    given = constant_integers(pad_width, "pad: widths")
    try:
        widths = np.broadcast_to(given, (tensor.ndim, 2))
    except ValueError:
        raise ShapeError(f"pad: widths of shape {given.shape} do not fit {tensor.type}") from None
    if (widths < 0).any():
        raise ShapeError(f"pad: widths {pad_width} must not be negative")
    if mode == "constant":
        return _filled(tensor, widths.tolist(), constant_values)
    for axis, (before, after) in enumerate(widths.tolist()):
        if before or after:
            tensor = _repeated(tensor, axis, before, after, mode)
    return tensor


def _filled(x: Tensor, widths: list[list[int]], value: float) -> Tensor:
    for n, pair in zip(x.type.shape, widths, strict=True):
        if isinstance(n, Dim) and any(pair):
            raise ShapeError(f"pad: the run-time extent {n} of {x.type} cannot grow")
    shape = tuple(n + sum(pair) if any(pair) else n for n, pair in zip(x.type.shape, widths, strict=True))
    start = tuple(before for before, _ in widths)
    fill = cast_array(np.asarray(value), x.dtype).item()
    return apply("pad", x, shape=shape, start=start, step=(1,) * x.ndim, value=fill)


def _repeated(x: Tensor, axis: int, before: int, after: int, mode: Any) -> Tensor:
    extent = constant_extent(x, axis, "pad")
    if extent == 0:
        raise ShapeError(f"pad: axis {axis} of {x.type} is empty and has nothing to repeat")
    return rows(x, np.pad(np.arange(extent), (before, after), mode=mode), axis)

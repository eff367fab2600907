"""Run-time extents, and what a caller is told of an array: the words that memory and calls share.

Law: an extent is a constant, or a constant multiple of one run-time dimension with a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .cexpr import SIZES

ALIGN = 64
"""Bytes: every buffer of the arena and every state leaf starts at a multiple of this."""


@dataclass(frozen=True)
class Dim:
    """A run-time extent: `factor * dims[index]`, where `dims[index]` is at most `bound`."""

    index: int
    name: str
    bound: int
    factor: int = 1


Extent = int | Dim
"""A loop extent, stride or offset: a constant, or a constant multiple of one run-time dimension."""


def upper(extent: Extent) -> int:
    """The largest value an extent can take."""
    return extent if isinstance(extent, int) else extent.factor * extent.bound


def scaled(extent: Extent, factor: int) -> Extent:
    """`extent * factor`."""
    if isinstance(extent, int):
        return extent * factor
    return Dim(extent.index, extent.name, extent.bound, extent.factor * factor) if factor else 0


@dataclass(frozen=True)
class Array:
    """What a caller is told of one input, output or state leaf: shown in the metadata of the C."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]


def nbytes(shape: Sequence[Extent], dtype: str) -> int:
    """Bytes of an array at the bounds of its run-time extents."""
    return prod(map(upper, shape)) * SIZES[dtype]


def aligned(size: int) -> int:
    """The next multiple of ALIGN.

    >>> aligned(1), aligned(64)
    (64, 64)
    """
    return -(-size // ALIGN) * ALIGN


def state_layout(arrays: Sequence[Array]) -> tuple[tuple[int, ...], int]:
    """The byte offset of each state leaf and the bytes of the block; a function of shapes and dtypes only.

    >>> state_layout((Array("w", "f32", (3, 5)), Array("n", "i64", ()), Array("b", "f32", (5,))))
    ((0, 64, 128), 192)
    """
    offsets, end = [], 0
    for array in arrays:
        offsets.append(end)
        end += aligned(nbytes(array.shape, array.dtype))
    return tuple(offsets), end

"""Arrays cut into pieces: split, array_split, hsplit, vsplit, dsplit, chunk.

Pieces are slices, so they cost nothing in the compiled code. Laws: the pieces side by side are the array;
where to cut is known while tracing; a multiple of a run-time extent is cut into pieces of that extent only.
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor
from ..types import Dim, normalize_axis
from .places import constant_extent, constant_integers


def _equal(x: Tensor, axis: int, extent: Dim, sections: int) -> tuple[Tensor, ...]:
    """Equal pieces of a run-time axis."""
    if extent.factor % sections:
        raise ShapeError(f"split: the run-time extent {extent} does not divide into {sections} pieces")
    before, after = x.type.shape[:axis], x.type.shape[axis + 1 :]
    size = Dim(extent.name, extent.bound, extent.factor // sections)
    apart = apply("reshape", x, shape=(*before, sections, size, *after))
    stops = list(range(1, sections))
    return tuple(apply("reshape", part, shape=(*before, size, *after)) for part in _cut(apart, axis, stops))


def _cut(x: Tensor, axis: int, stops: list[int]) -> tuple[Tensor, ...]:
    """The pieces between 0, each stop and the end; a slice from beyond the end is empty."""
    extent = constant_extent(x, axis, "split")
    starts, ends = [0, *stops], [*stops, extent]
    pieces = []
    for first, last in zip(starts, ends, strict=True):
        low, high, _ = slice(first, last).indices(extent)
        start = tuple(low if i == axis else 0 for i in range(x.ndim))
        stop = tuple(max(low, high) if i == axis else n for i, n in enumerate(x.type.shape))
        pieces.append(apply("slice", x, start=start, stop=stop, step=(1,) * x.ndim))
    return tuple(pieces)


@public
def array_split(x: Any, indices_or_sections: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into so many pieces, the first ones longer by one where it does not divide.

    With a sequence of places instead of a number it is cut before each of them. Raises ShapeError for a
    number below 1 and for a wrong axis, TraceError for traced places.

    >>> import gtensor as gt
    >>> [p.tolist() for p in gt.array_split(gt.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    where = constant_integers(indices_or_sections, "split: places")
    if where.ndim:
        return _cut(tensor, at, where.ravel().tolist())
    sections = int(where)
    if sections < 1:
        raise ShapeError(f"split: the number of pieces must be above 0, not {sections}")
    whole = tensor.type.shape[at]
    if isinstance(whole, Dim):
        return _equal(tensor, at, whole, sections)
    size, longer = divmod(constant_extent(tensor, at, "split"), sections)
    return _cut(tensor, at, [i * size + min(i, longer) for i in range(1, sections)])


@public
def split(x: Any, indices_or_sections: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into so many equal pieces, or before each of the given places.

    As `np.split`: a number counts the pieces (that of `torch.split` is their size: see `chunk`). Raises
    ShapeError where the axis does not divide, otherwise as `array_split`.

    >>> import gtensor as gt
    >>> [p.tolist() for p in gt.split(gt.arange(4), 2)], [p.tolist() for p in gt.split(gt.arange(4), [1])]
    ([[0, 1], [2, 3]], [[0], [1, 2, 3]])
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    where = constant_integers(indices_or_sections, "split: places")
    whole = tensor.type.shape[at]
    if not where.ndim and int(where) > 0 and isinstance(whole, int) and whole % int(where):
        raise ShapeError(f"split: axis {axis} of {tensor.type} does not divide into {int(where)} equal pieces")
    return array_split(tensor, where, at)


@public
def vsplit(x: Any, indices_or_sections: Any, /) -> tuple[Tensor, ...]:
    """`split` along axis 0; raises ShapeError for fewer than two axes.

    >>> import gtensor as gt
    >>> [p.shape for p in gt.vsplit(gt.ones((4, 3)), 2)]
    [(2, 3), (2, 3)]
    """
    return split(_with_axes(x, 2, "vsplit"), indices_or_sections, 0)


@public
def hsplit(x: Any, indices_or_sections: Any, /) -> tuple[Tensor, ...]:
    """`split` along axis 1, of a vector along axis 0; raises ShapeError for a 0-d array.

    >>> import gtensor as gt
    >>> [p.shape for p in gt.hsplit(gt.ones((4, 3)), [1])]
    [(4, 1), (4, 2)]
    """
    tensor = _with_axes(x, 1, "hsplit")
    return split(tensor, indices_or_sections, min(tensor.ndim - 1, 1))


@public
def dsplit(x: Any, indices_or_sections: Any, /) -> tuple[Tensor, ...]:
    """`split` along axis 2; raises ShapeError for fewer than three axes.

    >>> import gtensor as gt
    >>> [p.shape for p in gt.dsplit(gt.ones((1, 3, 4)), 2)]
    [(1, 3, 2), (1, 3, 2)]
    """
    return split(_with_axes(x, 3, "dsplit"), indices_or_sections, 2)


def _with_axes(x: Any, least: int, what: str) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < least:
        raise ShapeError(f"{what} needs {least} axes, not {tensor.type}")
    return tensor


@public
def chunk(x: Any, chunks: int, /, axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into at most so many pieces of one size but for the last, as `torch.chunk`.

    Raises OptionError for a number below 1, ShapeError for a wrong axis.

    >>> import gtensor as gt
    >>> [p.tolist() for p in gt.chunk(gt.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    if chunks < 1:
        raise OptionError(f"chunk: chunks must be above 0, not {chunks}")
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim)
    whole = tensor.type.shape[at]
    if isinstance(whole, Dim):
        return _equal(tensor, at, whole, chunks)
    extent = constant_extent(tensor, at, "chunk")
    size = -(-extent // chunks) or 1
    return _cut(tensor, at, list(range(size, extent, size)))

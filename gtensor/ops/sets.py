"""What depends on values in its shape: unique and its kind, nonzero, argwhere, flatnonzero.

They read the numbers, so they work eagerly and are refused while tracing, with the reason. Laws: each NaN
is a value of its own and -0 equals 0, as the array API standard has it; values come in ascending order and carry the
gradient of their first occurrence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError, TraceError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, concrete
from .arrange import ravel

Array = np.ndarray[Any, Any]


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def _known(x: Any, what: str, hint: str) -> tuple[Tensor, Array]:
    """The tensor and its numbers; raises TraceError while tracing."""
    tensor = as_tensor(x)
    if tensor.data is None:
        raise TraceError(
            f"{what}: the shape of the result depends on values, which are not known while tracing", hint=hint
        )
    return tensor, tensor.require_alive()


def _integers(array: Array) -> Tensor:
    return concrete(np.array(array, np.int64))


@public
def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements, where each occurs first in the flattened array, which of them each element is, how often.

    x: any shape, which `inverse_indices` has too. Raises TraceError while tracing.

    >>> import gtensor as gt
    >>> values, indices, inverse_indices, counts = gt.unique_all([3, 1, 3])
    >>> values.tolist(), indices.tolist(), inverse_indices.tolist(), counts.tolist()
    ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    tensor, array = _known(x, "unique", "call it outside the traced function")
    flat = array.reshape(-1)
    _, indices, inverse, counts = np.unique(
        flat, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    values = apply("take", ravel(tensor), _integers(indices), axis=0)
    return UniqueAll(values, _integers(indices), _integers(inverse.reshape(array.shape)), _integers(counts))


@public
def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements in ascending order, and how often each occurs; TraceError while tracing.

    >>> import gtensor as gt
    >>> gt.unique_counts([3, 1, 3])
    UniqueCounts(values=Tensor([1, 3], dtype=int64), counts=Tensor([1, 2], dtype=int64))
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


@public
def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements in ascending order, and which of them each element is; TraceError while tracing.

    >>> import gtensor as gt
    >>> gt.unique_inverse([[3, 1], [3, 3]]).inverse_indices
    Tensor([[1, 0],
            [1, 1]], dtype=int64)
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


@public
def unique_values(x: Any, /) -> Tensor:
    """The distinct elements in ascending order; TraceError while tracing.

    >>> import gtensor as gt
    >>> gt.unique_values([3, 1, 3])
    Tensor([1, 3], dtype=int64)
    """
    return unique_all(x).values


@public
def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not 0, a vector of int64 for each axis, in row-major order.

    Raises ShapeError for a 0-d array, TraceError while tracing.

    >>> import gtensor as gt
    >>> gt.nonzero([[0, 7], [8, 0]])
    (Tensor([0, 1], dtype=int64), Tensor([1, 0], dtype=int64))
    """
    tensor, array = _known(x, "nonzero", "use gt.where(condition, x, 0), which keeps the shape")
    if array.ndim == 0:
        raise ShapeError(f"nonzero of the 0-d array {tensor.type}: it has no axes")
    return tuple(_integers(places) for places in np.nonzero(array))


@public
def argwhere(x: Any, /) -> Tensor:
    """The places of the elements that are not 0, a row of int64 each, in row-major order; TraceError while tracing.

    >>> import gtensor as gt
    >>> gt.argwhere([[0, 7], [8, 0]])
    Tensor([[0, 1],
            [1, 0]], dtype=int64)
    """
    return _integers(np.argwhere(_known(x, "argwhere", "use gt.where(condition, x, 0), which keeps the shape")[1]))


@public
def flatnonzero(x: Any, /) -> Tensor:
    """The places of the elements of the flattened array that are not 0; TraceError while tracing.

    >>> import gtensor as gt
    >>> gt.flatnonzero([[0, 7], [8, 0]])
    Tensor([1, 2], dtype=int64)
    """
    return nonzero(ravel(x))[0]

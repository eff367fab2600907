"""The matrix product: one primitive whose derivative is again itself.

`matmul(a, b; ta, tb)` multiplies the last two axes of operands with equal leading axes; `ta` and `tb`
say that an operand is stored transposed. Broadcasting and vectors are handled by the public function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import moved
from ..errors import DTypeError, ShapeError
from ..prim import Prim, Sample, public, register
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import Type, bool_, broadcast_shapes, promote, shape_size
from .records import batch_size, move_axis, uniform

Array = np.ndarray[Any, Any]


def _matrix(x: Type, transposed: bool) -> tuple[Any, Any]:
    rows, columns = x.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _matmul_type(a: Type, b: Type, ta: bool, tb: bool) -> Type:
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError("needs matrices")
    if a.dtype != b.dtype:
        raise DTypeError("dtypes differ")
    (m, k), (k2, n) = _matrix(a, ta), _matrix(b, tb)
    if k != k2:
        raise ShapeError(f"inner sizes differ ({k} against {k2})")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError("needs matrices with the same leading axes")
    return Type((*a.shape[:-2], m, n), a.dtype)


BLOCK = 512
"""Terms that the reference adds up in one chain: NumPy's float32 product of 1e7 terms of one sign is 9 % off."""


def _matmul_array(a: Array, b: Array, ta: bool, tb: bool) -> Array:
    left, right = a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b
    k = left.shape[-1]
    if k <= BLOCK or left.dtype != np.float32:
        return np.asarray(np.matmul(left, right))
    total = np.zeros((*left.shape[:-1], right.shape[-1]))
    for at in range(0, k, BLOCK):
        total += np.matmul(left[..., at : at + BLOCK], right[..., at : at + BLOCK, :])
    return total.astype(np.float32)


def _product(a: Tensor, b: Tensor, ta: bool, tb: bool) -> Any:
    return lambda: apply("matmul", a, b, ta=ta, tb=tb)


def _matmul_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor, ta: bool, tb: bool) -> Sequence[Any]:
    """dA = G B', dB = A' G, each stored as its operand is."""
    da = _product(b, g, tb, True) if ta else _product(g, b, False, not tb)
    db = _product(g, a, True, ta) if tb else _product(a, g, not ta, False)
    return da, db


def _matmul_batch(args: Sequence[Tensor], axes: Sequence[int | None], ta: bool, tb: bool) -> tuple[Tensor, int]:
    """Many examples of one matrix and another that all share are a single tall, or wide, product."""
    (a, b), (at, bt) = args, axes
    size = batch_size(args, axes)
    if bt is None and at is not None and b.ndim == 2:
        front = moved(a, at, int(ta))
        rows = front.type.shape[1 + ta]
        joined = (front.type.shape[0], rows * size) if ta else (size * rows, front.type.shape[2])
        out = apply("matmul", apply("reshape", front, shape=joined), b, ta=ta, tb=tb)
        return apply("reshape", out, shape=(size, rows, out.type.shape[1])), 0
    if at is None and bt is not None and a.ndim == 2:
        front = moved(b, bt, int(not tb))
        columns = front.type.shape[2 - tb]
        joined = (size * columns, front.type.shape[2]) if tb else (front.type.shape[0], columns * size)
        out = apply("matmul", a, apply("reshape", front, shape=joined), ta=ta, tb=tb)
        return apply("reshape", out, shape=(out.type.shape[0], size, columns)), 1
    each = [move_axis(x, axis, size, x.ndim - (axis is not None)) for x, axis in zip(args, axes, strict=True)]
    return apply("matmul", *each, ta=ta, tb=tb), 0


def _sample(a: tuple[int, ...], b: tuple[int, ...], ta: bool, tb: bool, dtypes: tuple[str, ...] = ("f",)) -> Sample:
    return Sample((uniform(shape=a), uniform(shape=b)), {"ta": ta, "tb": tb}, dtypes=dtypes)


register(
    Prim(
        "matmul", "contract", _matmul_type, _matmul_array, vjp=_matmul_vjp, batch=_matmul_batch,
        samples=(
            _sample((3, 5), (5, 4), False, False, ("f", "i")),
            _sample((5, 3), (5, 4), True, False),
            _sample((3, 5), (4, 5), False, True),
            _sample((5, 3), (4, 5), True, True),
            _sample((2, 3, 4), (2, 4, 2), False, False),
            _sample((3, 0), (0, 2), False, False),
            _sample((0, 3), (3, 2), False, False),
        ),
        doc="Matrix product of the last two axes.",
    )
)  # fmt: skip


@public
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product by NumPy's rules: vectors, matrices, and stacks of matrices that broadcast.

    Raises ShapeError where the inner sizes differ or an operand is 0-d.

    >>> import gtensor as gt
    >>> matmul(gt.ones((2, 3)), gt.ones(3))
    Tensor([3., 3.], dtype=float32)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    dtype, _ = promote([a.type, b.type])
    if a.ndim == 0 or b.ndim == 0 or dtype == bool_:
        raise (ShapeError if dtype != bool_ else DTypeError)(
            f"matmul needs arrays of numbers, not {a.type} and {b.type}"
        )
    a, b = cast(a, dtype), cast(b, dtype)
    if a.type.shape[-1] != b.type.shape[-2 if b.ndim > 1 else -1]:
        return apply("matmul", _as_matrix(a, True), _as_matrix(b, False), ta=False, tb=False)
    row, column = a.ndim == 1, b.ndim == 1
    a, b = _as_matrix(a, True), _as_matrix(b, False)
    out = _stacked(a, b)
    if row:
        out = apply("reshape", out, shape=(*out.type.shape[:-2], out.type.shape[-1]))
    return apply("reshape", out, shape=out.type.shape[:-1]) if column else out


def _as_matrix(x: Tensor, row: bool) -> Tensor:
    if x.ndim > 1:
        return x
    n = x.type.shape[0]
    return apply("reshape", x, shape=(1, n) if row else (n, 1))


def _stacked(a: Tensor, b: Tensor) -> Tensor:
    """Products of stacks; a stack times one matrix is a single tall product."""
    lead_a, lead_b = a.type.shape[:-2], b.type.shape[:-2]
    if lead_a and not lead_b:
        m, k = a.type.shape[-2:]
        tall = apply("reshape", a, shape=(shape_size((*lead_a, m)), k))
        out = apply("matmul", tall, b, ta=False, tb=False)
        return apply("reshape", out, shape=(*lead_a, m, b.type.shape[-1]))
    lead = broadcast_shapes([lead_a, lead_b])
    a, b = (
        x if x.type.shape[:-2] == lead else apply("broadcast", x, shape=(*lead, *x.type.shape[-2:])) for x in (a, b)
    )
    return apply("matmul", a, b, ta=False, tb=False)

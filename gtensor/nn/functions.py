"""Layers as functions: linear, embedding, one_hot, dropout.

Comes in: data and weights. Goes out: data. Law: what does not fit raises ShapeError, and an index out of
range IndexError, eager and compiled.
"""

from __future__ import annotations

from typing import Any

from ..errors import DTypeError, OptionError, ShapeError
from ..ops.arithmetic import where
from ..ops.contract import matmul
from ..ops.index import take
from ..ops.statistics import floating
from ..prim import public
from ..random import uniform
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import as_dtype, bool_, float32, int32, int64


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight + bias.

    x: [..., in] or [in]; weight: [in, out] (PyTorch's is [out, in]); bias: [out] or none. The result is
    [..., out] in the common dtype. Raises ShapeError where the sizes do not fit.

    >>> import gtensor as gt
    >>> gt.nn.linear(gt.ones((2, 3)), gt.ones((3, 1)), gt.tensor([0.5]))
    Tensor([[3.5],
            [3.5]], dtype=float32)
    """
    matrix = as_tensor(weight)
    if matrix.ndim != 2:
        raise ShapeError(f"linear: weight must be [in, out], not {matrix.type}")
    product = matmul(x, matrix)
    if bias is None:
        return product
    vector = as_tensor(bias)
    if vector.type.shape != matrix.type.shape[1:]:
        raise ShapeError(f"linear: bias is {vector.type}, which does not fit weight {matrix.type}")
    return product + vector


def embedding(ids: Any, weight: Any) -> Tensor:
    """The rows of `weight` at the given places.

    ids: integers of any shape [...]; weight: [count, features]; the result is [..., features]. Gradients
    of repeated ids add up. Raises IndexError for an id not in [-count, count) (negative ones count from
    the end), ShapeError and DTypeError for operands of another kind.

    >>> import gtensor as gt
    >>> gt.nn.embedding([2, 0], gt.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    Tensor([[4., 5.],
            [0., 1.]], dtype=float32)
    """
    table = as_tensor(weight)
    if table.ndim != 2:
        raise ShapeError(f"embedding: weight must be [count, features], not {table.type}")
    return take(table, ids, axis=0)


def hot(labels: Tensor, shape: tuple[Any, ...], axis: int) -> Tensor:
    """Where along an axis of `shape` the class is that of its row's label; labels have the other axes."""
    column = apply("reshape", cast(labels, int32), shape=(*shape[:axis], 1, *shape[axis + 1 :]))
    return apply("eq", apply("broadcast", column, shape=shape), apply("iota", shape=shape, axis=axis, dtype=int32))


def classes(labels: Any, what: str) -> Tensor:
    """Labels as a tensor of integers of a dtype of their own; raises DTypeError for anything else."""
    tensor = as_tensor(labels)
    if tensor.type.dtype.floating or tensor.type.dtype == bool_:
        raise DTypeError(f"{what}: labels must be integers, not {tensor.type}")
    return cast(tensor, int64) if tensor.type.weak else tensor


@public
def one_hot(labels: Any, /, num_classes: int, dtype: Any = float32) -> Tensor:
    """1 at the place of each label along a new last axis, 0 elsewhere.

    labels: integers of any shape [...]; the result is [..., num_classes]. Raises IndexError for a label
    that is not in [0, num_classes), DTypeError for labels that are no integers.

    >>> import gtensor as gt
    >>> gt.one_hot([1, 0], 3)
    Tensor([[0., 1., 0.],
            [1., 0., 0.]], dtype=float32)
    """
    if num_classes < 0:
        raise OptionError(f"one_hot: num_classes is {num_classes}, which is negative")
    tensor = classes(labels, "one_hot")
    checked = apply("check_index", tensor, low=0, high=num_classes)
    return cast(hot(checked, (*tensor.type.shape, num_classes), tensor.ndim), as_dtype(dtype))


def dropout(x: Any, rate: Any, key: Any, training: bool = True) -> Tensor:
    """Each element 0 with probability `rate`, else times 1 / (1 - rate); x itself when not training.

    x: any shape; integers give the default float; rate: a number in [0, 1], or a scalar tensor; key: of
    `gt.random`, another one for each call. What is dropped is exactly 0, whatever it was, and so is its
    gradient: forward and backward share one mask. Raises OptionError for a rate out of range, DTypeError and
    ShapeError for what is no key. Source: Srivastava et al., Dropout: A Simple Way to Prevent Neural
    Networks from Overfitting, 2014.

    >>> import gtensor as gt
    >>> gt.nn.dropout(gt.ones(6), 0.5, gt.random.key(0))
    Tensor([2., 2., 0., 0., 2., 0.], dtype=float32)
    """
    if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
        raise OptionError(f"dropout: rate must be in [0, 1], not {rate}")
    tensor = floating(x)
    if not training:
        return tensor
    kept = uniform(key, tensor.type.shape) >= rate
    if isinstance(rate, (int, float)):
        return where(kept, tensor * (1 / (1 - rate) if rate < 1 else 1.0), 0)
    return where(kept, tensor / (1 - as_tensor(rate)), 0)

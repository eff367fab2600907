"""ONNX operators as functions of gtensor: elementwise ones, reductions, layout and indexing.

`OPERATORS` maps the name of an operator to the function that computes it from its attributes (a namespace) and its
inputs (None where one is left out), and to the inputs that decide shapes, which are arrays known while tracing.
`onnx_networks` adds what `gt.nn` has. Law: the work is done by gtensor's function of the same meaning; what an
adapter adds is what a user who ports the operator would write around it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

import gtensor as gt


@dataclass(frozen=True)
class Operator:
    """How to compute an operator; `fixed` are the places of the inputs that decide shapes.

    Where the values of other inputs decide them, `traced` is false: compiled it is refused.
    """

    call: Callable[..., Any]
    fixed: tuple[int, ...] = ()
    traced: bool = True


OPERATORS: dict[str, Operator] = {}


def adapter(*names: str, **how: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function of the attributes and the inputs under the names of its operators."""

    def enter(call: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update({name: Operator(call, **how) for name in names})
        return call

    return enter


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the inputs alone."""
    return lambda a, *inputs: function(*inputs)


def unsigned(x: Any) -> bool:
    return gt.isdtype(x.dtype, "unsigned integer")


def integers(values: Any) -> tuple[int, ...]:
    """A fixed vector (or number) of integers."""
    return tuple(int(n) for n in np.ravel(values))


# ---- elementwise -----------------------------------------------------------------------------------------

SAME = {
    "Abs": gt.abs, "Acos": gt.acos, "Acosh": gt.acosh, "Add": gt.add, "And": gt.logical_and, "Asin": gt.asin,
    "Asinh": gt.asinh, "Atan": gt.atan, "Atanh": gt.atanh, "BitwiseAnd": gt.bitwise_and,
    "BitwiseNot": gt.bitwise_invert, "BitwiseOr": gt.bitwise_or, "BitwiseXor": gt.bitwise_xor, "Ceil": gt.ceil,
    "Cos": gt.cos, "Cosh": gt.cosh, "Det": gt.linalg.det, "Equal": gt.equal, "Erf": gt.erf, "Exp": gt.exp,
    "Floor": gt.floor, "Greater": gt.greater, "GreaterOrEqual": gt.greater_equal, "HardSwish": gt.nn.hardswish,
    "Identity": gt.asarray, "IsNaN": gt.isnan, "Less": gt.less, "LessOrEqual": gt.less_equal, "Log": gt.log,
    "MatMul": gt.matmul, "Mish": gt.nn.mish, "Mul": gt.multiply, "Neg": gt.negative, "Not": gt.logical_not,
    "Or": gt.logical_or, "Reciprocal": gt.reciprocal, "Relu": gt.relu, "Round": gt.round, "Sigmoid": gt.sigmoid,
    "Sign": gt.sign, "Sin": gt.sin, "Sinh": gt.sinh, "Softplus": gt.softplus, "Softsign": gt.nn.softsign,
    "Sqrt": gt.sqrt, "Sub": gt.subtract, "Tan": gt.tan, "Tanh": gt.tanh, "Where": gt.where, "Xor": gt.logical_xor,
}  # fmt: skip
"""Operators that are a function of gtensor as it stands."""

for _name, _function in SAME.items():
    adapter(_name)(plain(_function))

for _name, _function in {"Max": gt.maximum, "Min": gt.minimum, "Sum": gt.add}.items():
    adapter(_name)(lambda a, *inputs, f=_function: functools.reduce(f, inputs))


@adapter("Mean")
def mean_of_inputs(a, *inputs):
    return functools.reduce(gt.add, inputs) / len(inputs)


@adapter("BitShift")
def bit_shift(a, x, count):
    return {"LEFT": gt.bitwise_left_shift, "RIGHT": gt.bitwise_right_shift}[a.direction](x, count)


@adapter("Cast")
def cast(a, x):
    return gt.astype(x, onnx.helper.tensor_dtype_to_np_dtype(a.to))


@adapter("CastLike")
def cast_like(a, x, other):
    return gt.astype(x, other.dtype)


@adapter("Celu")
def celu(a, x):
    return gt.nn.celu(x, a.alpha)


@adapter("Clip")
def clip(a, x, low=None, high=None):
    return gt.clip(x, low, high)


@adapter("Div")
def divide(a, x, y):
    """Quotients of integers lose their fraction."""
    if x.dtype.floating:
        return gt.divide(x, y)
    below = gt.floor_divide(x, y)
    if unsigned(x):
        return below
    inexact = (x - below * y != 0) & ((x < 0) != (y < 0))
    return below + gt.astype(inexact, x.dtype)


@adapter("Elu")
def elu(a, x):
    return gt.nn.elu(x, a.alpha)


@adapter("Gelu")
def gelu(a, x):
    return gt.gelu(x, approximate=a.approximate)


@adapter("HardSigmoid")
def hard_sigmoid(a, x):
    return gt.clip(a.alpha * x + a.beta, 0, 1)


@adapter("IsInf")
def is_infinite(a, x):
    return gt.isinf(x) & ((x > 0) if not a.detect_negative else (x < 0) if not a.detect_positive else (x == x))


@adapter("LeakyRelu")
def leaky_relu(a, x):
    return gt.leaky_relu(x, a.alpha)


@adapter("Mod")
def mod(a, x, y):
    return (gt.fmod if a.fmod else gt.remainder)(x, y)


@adapter("PRelu")
def prelu(a, x, slope):
    """The slope broadcasts from the last axis, where `gt.nn.prelu` has one for each channel."""
    return gt.leaky_relu(x, slope)


@adapter("Pow")
def power(a, x, y):
    return gt.astype(gt.pow(x, y), x.dtype)


@adapter("Selu")
def selu(a, x):
    standard = math.isclose(a.alpha, 1.6732632, rel_tol=1e-6) and math.isclose(a.gamma, 1.050701, rel_tol=1e-6)
    return gt.nn.selu(x) if standard else a.gamma * gt.nn.elu(x, a.alpha)


@adapter("Shrink")
def shrink(a, x):
    return gt.where(x < -a.lambd, x + a.bias, gt.where(x > a.lambd, x - a.bias, 0))


@adapter("SwiGLU")
def swiglu(a, x, gate):
    if a.alpha == 1:
        return gt.nn.swiglu(gt.concat([x, gate], axis=-1))
    return x * gt.sigmoid(a.alpha * x) * gate


@adapter("Swish")
def swish(a, x):
    return gt.silu(x) if a.alpha == 1 else x * gt.sigmoid(a.alpha * x)


@adapter("ThresholdedRelu")
def thresholded_relu(a, x):
    return gt.nn.threshold(x, a.alpha, 0)


# ---- products --------------------------------------------------------------------------------------------


@adapter("Einsum")
def einsum(a, *operands):
    return gt.einsum(a.equation, *operands)


@adapter("Gemm")
def gemm(a, x, y, c=None):
    product = a.alpha * ((x.T if a.transA else x) @ (y.T if a.transB else y))
    return product if c is None else product + a.beta * c


# ---- reductions ------------------------------------------------------------------------------------------

REDUCTIONS = {
    "ReduceL1": lambda x, **how: gt.sum(gt.abs(x), **how, dtype=x.dtype),
    "ReduceL2": lambda x, **how: gt.linalg.vector_norm(x, **how),
    "ReduceLogSum": lambda x, **how: gt.log(gt.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: gt.logsumexp(x, **how),
    "ReduceMax": lambda x, **how: gt.max(x, **how),
    "ReduceMean": lambda x, **how: gt.mean(x, **how),
    "ReduceMin": lambda x, **how: gt.min(x, **how),
    "ReduceProd": lambda x, **how: gt.prod(x, **how, dtype=x.dtype),
    "ReduceSum": lambda x, **how: gt.sum(x, **how, dtype=x.dtype),
    "ReduceSumSquare": lambda x, **how: gt.sum(gt.square(x), **how, dtype=x.dtype),
}  # fmt: skip


def reduction(fold: Callable[..., Any]) -> Callable[..., Any]:
    """No axes are all of them, or none with `noop_with_empty_axes`; before opset 18 they are an attribute."""

    def call(a, x, axes=None):
        given = integers(getattr(a, "axes", None) or () if axes is None else axes)
        whole = not given and not getattr(a, "noop_with_empty_axes", 0)
        return fold(x, axis=None if whole else given, keepdims=bool(a.keepdims))

    return call


for _name, _function in REDUCTIONS.items():
    adapter(_name, fixed=(1,))(reduction(_function))


def extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    """The first of equal elements, or the last if asked for."""

    def call(a, x):
        if not a.select_last_index:
            return pick(x, axis=a.axis, keepdims=bool(a.keepdims))
        return x.shape[a.axis] - 1 - pick(gt.flip(x, axis=a.axis), axis=a.axis, keepdims=bool(a.keepdims))

    return call


adapter("ArgMax")(extreme(gt.argmax))
adapter("ArgMin")(extreme(gt.argmin))


def running(fold: Callable[..., Any]) -> Callable[..., Any]:
    """A fold along an axis, backwards if asked for, without the element itself if it is exclusive."""

    def call(a, x, axis):
        (at,) = integers(axis)
        at %= x.ndim
        line = gt.flip(x, axis=at) if a.reverse else x
        folded = fold(line, axis=at, dtype=x.dtype, include_initial=bool(a.exclusive))
        if a.exclusive:
            folded = folded[(slice(None),) * at + (slice(-1),)]
        return gt.flip(folded, axis=at) if a.reverse else folded

    return call


adapter("CumSum", fixed=(1,))(running(gt.cumulative_sum))
adapter("CumProd", fixed=(1,))(running(gt.cumulative_prod))


@adapter("TopK", fixed=(1,))
def top_k(a, x, k):
    return gt.top_k(x, *integers(k), a.axis, largest=bool(a.largest))


@adapter("LpNormalization")
def lp_normalization(a, x):
    return gt.nn.normalize(x, a.p, a.axis)


@adapter("MeanVarianceNormalization")
def mean_variance_normalization(a, x):
    axes = tuple(a.axes)
    return (x - gt.mean(x, axes, keepdims=True)) / (gt.std(x, axes, keepdims=True) + 1e-9)


@adapter("Softmax")
def softmax(a, x):
    return gt.softmax(x, axis=a.axis)


@adapter("LogSoftmax")
def log_softmax(a, x):
    return gt.log_softmax(x, axis=a.axis)


@adapter("Hardmax")
def hardmax(a, x):
    return gt.moveaxis(gt.one_hot(gt.argmax(x, axis=a.axis), x.shape[a.axis], x.dtype), -1, a.axis)


# ---- new arrays ------------------------------------------------------------------------------------------


@adapter("Constant")
def constant(a):
    return gt.asarray(a.value)


@adapter("ConstantOfShape", fixed=(0,))
def constant_of_shape(a, shape):
    value = np.zeros(1, np.float32) if a.value is None else a.value
    return gt.full(integers(shape), value.item(), value.dtype)


@adapter("EyeLike")
def eye_like(a, x):
    dtype = x.dtype if a.dtype is None else onnx.helper.tensor_dtype_to_np_dtype(a.dtype)
    return gt.eye(*x.shape, k=a.k, dtype=dtype)


@adapter("Range", fixed=(0, 1, 2))
def line(a, start, limit, delta):
    return gt.arange(start.item(), limit.item(), delta.item(), start.dtype)


@adapter("Shape")
def shape(a, x):
    return gt.asarray(np.array(x.shape[a.start : a.end], np.int64))


@adapter("Size")
def size(a, x):
    return gt.asarray(np.array(x.size, np.int64))


@adapter("OneHot", fixed=(1,))
def one_hot(a, indices, depth, values):
    """Indices count from the end if negative; one that is out of range has no place, where `gt.one_hot` refuses."""
    count = int(depth.item())
    axis = a.axis % (indices.ndim + 1)
    counted = gt.expand_dims(gt.where(indices < 0, indices + count, indices), axis)
    classes = gt.reshape(gt.arange(count), (count, *(1,) * (indices.ndim - axis)))
    return gt.where(counted == classes, values[1], values[0])


# ---- layout ----------------------------------------------------------------------------------------------


@adapter("Concat")
def concat(a, *inputs):
    return gt.concat(inputs, axis=a.axis)


@adapter("Expand", fixed=(1,))
def expand(a, x, shape):
    return gt.broadcast_to(x, np.broadcast_shapes(x.shape, integers(shape)))


@adapter("Flatten")
def flatten(a, x):
    return gt.reshape(x, (math.prod(x.shape[: a.axis]), -1))


@adapter("Reshape", fixed=(1,))
def reshape(a, x, shape):
    wanted = integers(shape)
    return gt.reshape(x, wanted if a.allowzero else [n or x.shape[i] for i, n in enumerate(wanted)])


@adapter("Transpose")
def transpose(a, x):
    return gt.transpose(x, a.perm)


@adapter("Squeeze", fixed=(1,))
def squeeze(a, x, axes=None):
    return gt.squeeze(x, None if axes is None else integers(axes))


@adapter("Unsqueeze", fixed=(1,))
def unsqueeze(a, x, axes):
    return gt.expand_dims(x, integers(axes))


@adapter("Split", fixed=(1,))
def split(a, x, sizes=None):
    """Into pieces of the given sizes, or into equal ones of which the last may be smaller."""
    if sizes is None:
        count = getattr(a, "num_outputs", None) or a.outputs
        part = -(-x.shape[a.axis] // count)
        return gt.array_split(x, [part * i for i in range(1, count)], axis=a.axis)
    return gt.split(x, np.cumsum(sizes)[:-1], axis=a.axis)


@adapter("Slice", fixed=(1, 2, 3, 4))
def cut(a, x, starts, ends, axes=None, steps=None):
    places = range(len(starts)) if axes is None else integers(axes)
    strides = (1,) * len(starts) if steps is None else integers(steps)
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(places, integers(starts), integers(ends), strides, strict=True):
        key[axis] = slice(start, end, step)
    return x[tuple(key)]


@adapter("Tile", fixed=(1,))
def tile(a, x, repeats):
    return gt.tile(x, integers(repeats))


@adapter("Pad", fixed=(1, 2, 3))
def pad(a, x, pads, value=None, axes=None):
    places = range(x.ndim) if axes is None else integers(axes)
    widths = [(0, 0)] * x.ndim
    for axis, before, after in zip(places, *np.split(pads, 2), strict=True):
        widths[axis] = (int(before), int(after))
    return gt.pad(x, widths, a.mode, constant_values=0 if value is None else value.item())


@adapter("Trilu", fixed=(1,))
def triangle(a, x, k=0):
    return (gt.triu if a.upper else gt.tril)(x, int(k))


@adapter("DepthToSpace")
def depth_to_space(a, x):
    """In the mode "DCR" the channels of a block lie apart, in "CRD" side by side, as in PyTorch."""
    n, c, h, w = x.shape
    b = a.blocksize
    if a.mode == "DCR":
        x = gt.reshape(gt.swapaxes(gt.reshape(x, (n, b * b, c // b**2, h, w)), 1, 2), x.shape)
    return gt.nn.pixel_shuffle(x, b)


@adapter("SpaceToDepth")
def space_to_depth(a, x):
    n, c, h, w = x.shape
    b = a.blocksize
    y = gt.nn.pixel_unshuffle(x, b)
    if getattr(a, "mode", None) == "CRD":
        return y
    return gt.reshape(gt.swapaxes(gt.reshape(y, (n, c, b * b, h // b, w // b)), 1, 2), y.shape)


# ---- indexing --------------------------------------------------------------------------------------------


@adapter("Gather")
def gather(a, x, indices):
    return gt.take(x, indices, axis=a.axis)


@adapter("GatherElements")
def gather_elements(a, x, indices):
    return gt.gather(x, a.axis, indices)


@adapter("GatherND")
def gather_nd(a, x, indices):
    """Along the first `batch_dims` axes each element has its own indices."""
    places = gt.unstack(indices, axis=-1)
    free = places[0].ndim
    batches = (gt.reshape(gt.arange(n), (n, *(1,) * (free - i - 1))) for i, n in enumerate(x.shape[: a.batch_dims]))
    return x[(*batches, *places)]


FOLDS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@adapter("Scatter", "ScatterElements")
def scatter_elements(a, x, indices, updates):
    fold = getattr(a, "reduction", "none")
    if fold == "none":
        return gt.scatter(x, a.axis, indices, updates)
    return gt.scatter_reduce(x, a.axis, indices, updates, FOLDS[fold])


@adapter("ScatterND")
def scatter_nd(a, x, indices, updates):
    method = {"none": "set", "mul": "multiply"}.get(a.reduction, a.reduction)
    return operator.methodcaller(method, updates)(x.at[gt.unstack(indices, axis=-1)])


@adapter("TensorScatter")
def tensor_scatter(a, x, updates, starts=None):
    """A cache whose rows along an axis are replaced from a start on, another one for each example."""
    axis = a.axis % x.ndim
    count = updates.shape[axis]
    first = gt.zeros(x.shape[0], gt.int64) if starts is None else starts
    places = gt.expand_dims(first, 1) + gt.arange(count)
    places = places % x.shape[axis] if a.mode == "circular" else places
    spread = gt.reshape(places, [n if i in (0, axis) else 1 for i, n in enumerate(updates.shape)])
    return gt.scatter(x, axis, gt.broadcast_to(spread, updates.shape), updates)


@adapter("Compress", fixed=(1,))
def compress(a, x, condition):
    line = gt.ravel(x) if a.axis is None else x
    return gt.take(line, np.flatnonzero(condition), axis=a.axis or 0)


@adapter("NonZero", traced=False)
def nonzero(a, x):
    return gt.stack(gt.nonzero(x))


@adapter("Unique", traced=False)
def unique(a, x):
    values, first, inverse, counts = gt.unique_all(x)
    return values, first, gt.ravel(inverse), counts


@adapter("ReverseSequence")
def reverse_sequence(a, x, lengths):
    """The first elements of each sequence turned round, as many as it is long."""
    along = gt.moveaxis(x, (a.batch_axis, a.time_axis), (0, 1))
    places = gt.arange(along.shape[1])
    ends = gt.expand_dims(lengths, 1)
    turned = gt.where(places < ends, ends - 1 - places, places)
    rest = along.shape[2:]
    index = gt.broadcast_to(gt.reshape(turned, (*turned.shape, *(1,) * len(rest))), along.shape)
    return gt.moveaxis(gt.take_along_axis(along, index, axis=1), (0, 1), (a.batch_axis, a.time_axis))

"""Operators and methods of `Tensor`, by name: what they do stands with the functions they call.

Every method looks its function up in `prim.FUNCTIONS`, which the modules above fill, so this file knows
signatures and no meanings. Names are the array API's and NumPy's, with PyTorch's for the same things (`view`,
`permute`, `unsqueeze`, `clamp`, `amax`, `mul` …); what PyTorch has beyond those stands in `torch_methods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import DTypeError
from .prim import FUNCTIONS
from .torch_methods import TorchMethods

if TYPE_CHECKING:
    from .tensor import Tensor

Axis = int | tuple[int, ...] | None


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return FUNCTIONS[name](*args, **kwargs)


def _extents(shape: tuple[Any, ...]) -> Any:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` are one."""
    return shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


class TensorMethods(TorchMethods):
    """What a Tensor can do; see the function of the same name in `gtensor`."""

    __slots__ = ()

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix; axes reversed for any rank."""
        return _call("permute_dims", self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return _call("matrix_transpose", self)

    def __add__(self, other: Any) -> Tensor:
        return _call("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _call("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _call("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _call("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _call("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _call("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _call("divide", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _call("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _call("remainder", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _call("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _call("pow", other, self)

    def __and__(self, other: Any) -> Tensor:
        return _call("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _call("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _call("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _call("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _call("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _call("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return _call("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _call("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _call("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _call("bitwise_right_shift", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _call("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _call("matmul", other, self)

    def __lt__(self, other: Any) -> Tensor:
        return _call("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _call("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _call("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _call("greater_equal", self, other)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _call("equal", self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _call("not_equal", self, other)

    def __neg__(self) -> Tensor:
        return _call("negative", self)

    def __pos__(self) -> Tensor:
        return _call("positive", self)

    def __abs__(self) -> Tensor:
        return _call("abs", self)

    def __invert__(self) -> Tensor:
        return _call("bitwise_invert", self)

    def __getitem__(self, key: Any) -> Tensor:
        return _call("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise DTypeError("a Tensor is not changed in place", hint="use x = x.at[key].set(value)")

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[key].set(values)`, `.add`, `.multiply`, `.min`, `.max`; see `gt.at`."""
        return _call("at", self)

    def exp(self) -> Tensor:
        """`gt.exp(x)`."""
        return _call("exp", self)

    def expm1(self) -> Tensor:
        """`gt.expm1(x)`."""
        return _call("expm1", self)

    def log(self) -> Tensor:
        """`gt.log(x)`."""
        return _call("log", self)

    def log1p(self) -> Tensor:
        """`gt.log1p(x)`."""
        return _call("log1p", self)

    def sqrt(self) -> Tensor:
        """`gt.sqrt(x)`."""
        return _call("sqrt", self)

    def rsqrt(self) -> Tensor:
        """`gt.rsqrt(x)`."""
        return _call("rsqrt", self)

    def abs(self) -> Tensor:
        """`gt.abs(x)`."""
        return _call("abs", self)

    def square(self) -> Tensor:
        """`gt.square(x)`."""
        return _call("square", self)

    def sign(self) -> Tensor:
        """`gt.sign(x)`."""
        return _call("sign", self)

    def tanh(self) -> Tensor:
        """`gt.tanh(x)`."""
        return _call("tanh", self)

    def sigmoid(self) -> Tensor:
        """`gt.sigmoid(x)`."""
        return _call("sigmoid", self)

    def relu(self) -> Tensor:
        """`gt.relu(x)`."""
        return _call("relu", self)

    def silu(self) -> Tensor:
        """`gt.silu(x)`."""
        return _call("silu", self)

    def softplus(self) -> Tensor:
        """`gt.softplus(x)`."""
        return _call("softplus", self)

    def sin(self) -> Tensor:
        """`gt.sin(x)`."""
        return _call("sin", self)

    def cos(self) -> Tensor:
        """`gt.cos(x)`."""
        return _call("cos", self)

    def erf(self) -> Tensor:
        """`gt.erf(x)`."""
        return _call("erf", self)

    def floor(self) -> Tensor:
        """`gt.floor(x)`."""
        return _call("floor", self)

    def ceil(self) -> Tensor:
        """`gt.ceil(x)`."""
        return _call("ceil", self)

    def round(self) -> Tensor:
        """`gt.round(x)`."""
        return _call("round", self)

    def trunc(self) -> Tensor:
        """`gt.trunc(x)`."""
        return _call("trunc", self)

    def isnan(self) -> Tensor:
        """`gt.isnan(x)`."""
        return _call("isnan", self)

    def isinf(self) -> Tensor:
        """`gt.isinf(x)`."""
        return _call("isinf", self)

    def isfinite(self) -> Tensor:
        """`gt.isfinite(x)`."""
        return _call("isfinite", self)

    def add(self, other: Any) -> Tensor:
        """`gt.add(x, other)`."""
        return _call("add", self, other)

    def sub(self, other: Any) -> Tensor:
        """`gt.subtract(x, other)`."""
        return _call("subtract", self, other)

    def mul(self, other: Any) -> Tensor:
        """`gt.multiply(x, other)`."""
        return _call("multiply", self, other)

    def div(self, other: Any) -> Tensor:
        """`gt.divide(x, other)`."""
        return _call("divide", self, other)

    def pow(self, other: Any) -> Tensor:
        """`gt.pow(x, other)`."""
        return _call("pow", self, other)

    def matmul(self, other: Any) -> Tensor:
        """`gt.matmul(x, other)`."""
        return _call("matmul", self, other)

    def maximum(self, other: Any) -> Tensor:
        """`gt.maximum(x, other)`."""
        return _call("maximum", self, other)

    def minimum(self, other: Any) -> Tensor:
        """`gt.minimum(x, other)`."""
        return _call("minimum", self, other)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.sum(x, axis, keepdims)`."""
        return _call("sum", self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.prod(x, axis, keepdims)`."""
        return _call("prod", self, axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.max(x, axis, keepdims)`."""
        return _call("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.min(x, axis, keepdims)`."""
        return _call("min", self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.any(x, axis, keepdims)`."""
        return _call("any", self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.all(x, axis, keepdims)`."""
        return _call("all", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.mean(x, axis, keepdims)`."""
        return _call("mean", self, axis=axis, keepdims=keepdims)

    def amax(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.max(x, axis, keepdims)`."""
        return _call("max", self, axis=axis, keepdims=keepdims)

    def amin(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.min(x, axis, keepdims)`."""
        return _call("min", self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """`gt.var(x, axis, correction, keepdims)`."""
        return _call("var", self, axis=axis, correction=correction, keepdims=keepdims)

    def std(self, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """`gt.std(x, axis, correction, keepdims)`."""
        return _call("std", self, axis=axis, correction=correction, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """`gt.argmax(x, axis, keepdims)`."""
        return _call("argmax", self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """`gt.argmin(x, axis, keepdims)`."""
        return _call("argmin", self, axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None) -> Tensor:
        """`gt.cumsum(x, axis)`."""
        return _call("cumsum", self, axis)

    def cumprod(self, axis: int | None = None) -> Tensor:
        """`gt.cumprod(x, axis)`."""
        return _call("cumprod", self, axis)

    def median(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.median(x, axis, keepdims)`."""
        return _call("median", self, axis=axis, keepdims=keepdims)

    def quantile(self, q: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """`gt.quantile(x, q, axis, keepdims=keepdims)`."""
        return _call("quantile", self, q, axis=axis, keepdims=keepdims)

    def sort(self, axis: int | None = -1, descending: bool = False) -> Tensor:
        """`gt.sort(x, axis, descending=descending)`."""
        return _call("sort", self, axis, descending=descending)

    def argsort(self, axis: int | None = -1, descending: bool = False) -> Tensor:
        """`gt.argsort(x, axis, descending=descending)`."""
        return _call("argsort", self, axis, descending=descending)

    def topk(self, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
        """`gt.top_k(x, k, axis, largest=largest)`."""
        return _call("top_k", self, k, axis, largest=largest)

    def nonzero(self) -> tuple[Tensor, ...]:
        """`gt.nonzero(x)`."""
        return _call("nonzero", self)

    def softmax(self, axis: int = -1) -> Tensor:
        """`gt.softmax(x, axis)`."""
        return _call("softmax", self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """`gt.log_softmax(x, axis)`."""
        return _call("log_softmax", self, axis=axis)

    def logsumexp(self, axis: int = -1) -> Tensor:
        """`gt.logsumexp(x, axis)`."""
        return _call("logsumexp", self, axis=axis)

    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """`gt.leaky_relu(x, negative_slope)`."""
        return _call("leaky_relu", self, negative_slope)

    def gelu(self, approximate: str = "none") -> Tensor:
        """`gt.gelu(x, approximate)`."""
        return _call("gelu", self, approximate=approximate)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """`gt.clip(x, min, max)`."""
        return _call("clip", self, min, max)

    clamp = clip

    def reshape(self, *shape: Any) -> Tensor:
        """`gt.reshape(x, shape)`; one extent may be -1."""
        return _call("reshape", self, _extents(shape))

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """`gt.flatten(x, start_dim, end_dim)`."""
        return _call("flatten", self, start_dim, end_dim)

    def transpose(self, *axes: Any) -> Tensor:
        """Axes in a new order; reversed when none are given. PyTorch's `transpose` is `swapaxes`."""
        return _call("permute_dims", self, _extents(axes) if axes else tuple(range(self.ndim))[::-1])

    permute = transpose

    def squeeze(self, axis: Axis = None) -> Tensor:
        """`gt.squeeze(x, axis)`."""
        return _call("squeeze", self, axis)

    def unsqueeze(self, axis: int) -> Tensor:
        """`gt.expand_dims(x, axis)`."""
        return _call("expand_dims", self, axis)

    def broadcast_to(self, *shape: Any) -> Tensor:
        """`gt.broadcast_to(x, shape)`."""
        return _call("broadcast_to", self, _extents(shape))

    def slice(self, axis: int, start: int = 0, stop: int | None = None, step: int = 1) -> Tensor:
        """Part of one axis: `x[..., start:stop:step, ...]`."""
        return _call("slice_axis", self, axis, start, stop, step)

    def flip(self, axis: Axis = None) -> Tensor:
        """`gt.flip(x, axis)`."""
        return _call("flip", self, axis=axis)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """`gt.take(x, indices, axis)`."""
        return _call("take", self, indices, axis=axis)

    def gather(self, axis: int, index: Any) -> Tensor:
        """`gt.gather(x, axis, index)`."""
        return _call("gather", self, axis, index)

    def scatter_add(self, axis: int, index: Any, values: Any) -> Tensor:
        """`gt.scatter_add(x, axis, index, values)`."""
        return _call("scatter_add", self, axis, index, values)

    def astype(self, dtype: Any) -> Tensor:
        """`gt.astype(x, dtype)`."""
        return _call("astype", self, dtype)

    cast = astype

    def ravel(self) -> Tensor:
        """`gt.ravel(x)`."""
        return _call("ravel", self)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """`gt.swapaxes(x, axis1, axis2)`."""
        return _call("swapaxes", self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """`gt.diagonal(x, offset, axis1, axis2)`."""
        return _call("diagonal", self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
        """The sum of a diagonal: `gt.matrix_trace(x, offset, axis1, axis2, dtype)`."""
        return _call("matrix_trace", self, offset, axis1, axis2, dtype)

    def tril(self, k: int = 0) -> Tensor:
        """`gt.tril(x, k)`."""
        return _call("tril", self, k)

    def triu(self, k: int = 0) -> Tensor:
        """`gt.triu(x, k)`."""
        return _call("triu", self, k)

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        """`gt.repeat(x, repeats, axis)`, as NumPy's; PyTorch's `repeat` is `tile`."""
        return _call("repeat", self, repeats, axis)

    def tile(self, *repetitions: Any) -> Tensor:
        """`gt.tile(x, repetitions)`."""
        return _call("tile", self, _extents(repetitions))

    def roll(self, shift: Any, axis: Any = None) -> Tensor:
        """`gt.roll(x, shift, axis)`."""
        return _call("roll", self, shift, axis)

    def dot(self, other: Any) -> Tensor:
        """`gt.dot(x, other)`."""
        return _call("dot", self, other)

    def chunk(self, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
        """`gt.chunk(x, chunks, axis)`."""
        return _call("chunk", self, chunks, axis)

    def backward(self, gradient: Any = None) -> None:
        """Add the gradient of this scalar to `.grad` of every leaf with `requires_grad` that it depends on."""
        _call("backward", self, gradient)

    if TYPE_CHECKING:

        @property
        def ndim(self) -> int: ...

"""Methods of `Tensor` that PyTorch users know and NumPy's arrays lack.

Each calls the function of that name, with `axis` for PyTorch's `dim`; like `methods`, of which it is a part, this file
knows signatures and no meanings. What has another meaning in NumPy (`repeat`, `split`, `norm`, `size`) is NumPy's or
not here: docs/coming-from.md lists both. Law: a tensor is never changed, so copies of it are itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ShapeError
from .prim import FUNCTIONS
from .types import DTYPES

if TYPE_CHECKING:
    from .tensor import Tensor

Count = int
"""What annotations say for int, which is a method here."""

_DTYPES = {dtype.name for dtype in DTYPES}


def _call(name: str, *args: Any) -> Any:
    return FUNCTIONS[name](*args)


class TorchMethods:
    """The part of a Tensor that PyTorch users know."""

    __slots__ = ()

    def clone(self) -> Tensor:
        """The tensor itself: nobody can change it."""
        return _call("positive", self)

    contiguous = clone

    def cpu(self) -> Tensor:
        """The tensor itself: the only device is "cpu"."""
        return _call("positive", self)

    def numel(self) -> Count:
        """The number of elements, `x.size`."""
        return self.size

    def dim(self) -> Count:
        """The number of axes, `x.ndim`."""
        return self.ndim

    def to(self, target: Any) -> Tensor:
        """In another dtype, `gt.astype(x, target)`; or itself, if the target is the device "cpu".

        Raises OptionError for another device.
        """
        if isinstance(target, str) and target not in _DTYPES:
            return self.to_device(target)
        return _call("astype", self, target)

    def float(self) -> Tensor:
        """`gt.astype(x, gt.float32)`."""
        return _call("astype", self, "float32")

    def double(self) -> Tensor:
        """`gt.astype(x, gt.float64)`."""
        return _call("astype", self, "float64")

    def int(self) -> Tensor:
        """`gt.astype(x, gt.int32)`."""
        return _call("astype", self, "int32")

    def long(self) -> Tensor:
        """`gt.astype(x, gt.int64)`."""
        return _call("astype", self, "int64")

    def bool(self) -> Tensor:
        """`gt.astype(x, gt.bool)`."""
        return _call("astype", self, "bool")

    def t(self) -> Tensor:
        """The transpose of a matrix; vectors and numbers are themselves."""
        if self.ndim > 2:
            raise ShapeError(f"t takes a matrix, not {self.ndim} axes", hint="x.mT exchanges the last two axes")
        return _call("transpose", self)

    def expand(self, *shape: Any) -> Tensor:
        """`gt.broadcast_to(x, shape)`, where -1 is the extent that an axis has."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        new = len(extents) - self.ndim
        if -1 in extents[: max(new, 0)]:
            raise ShapeError(f"expand: -1 in {tuple(extents)} stands for an axis that the tensor does not have")
        kept = (None,) * new + tuple(self.shape)
        return _call("broadcast_to", self, tuple(k if n == -1 else n for n, k in zip(extents, kept, strict=False)))

    def expand_as(self, other: Any) -> Tensor:
        """`gt.broadcast_to(x, other.shape)`."""
        return _call("broadcast_to", self, other.shape)

    def view_as(self, other: Any) -> Tensor:
        """`gt.reshape(x, other.shape)`."""
        return _call("reshape", self, other.shape)

    reshape_as = view_as

    def unflatten(self, axis: Count, sizes: Any) -> Tensor:
        """`gt.unflatten(x, axis, sizes)`."""
        return _call("unflatten", self, axis, sizes)

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """`gt.moveaxis(x, source, destination)`."""
        return _call("moveaxis", self, source, destination)

    def unbind(self, axis: Count = 0) -> tuple[Tensor, ...]:
        """`gt.unbind(x, axis)`."""
        return _call("unbind", self, axis)

    def narrow(self, axis: Count, start: Count, length: Count) -> Tensor:
        """`gt.narrow(x, axis, start, length)`."""
        return _call("narrow", self, axis, start, length)

    def index_select(self, axis: Count, index: Any) -> Tensor:
        """`gt.index_select(x, axis, index)`."""
        return _call("index_select", self, axis, index)

    def index_add(self, axis: Count, index: Any, values: Any) -> Tensor:
        """`gt.index_add(x, axis, index, values)`."""
        return _call("index_add", self, axis, index, values)

    def scatter(self, axis: Count, index: Any, values: Any) -> Tensor:
        """`gt.scatter(x, axis, index, values)`."""
        return _call("scatter", self, axis, index, values)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """`gt.masked_fill(x, mask, value)`."""
        return _call("masked_fill", self, mask, value)

    def repeat_interleave(self, repeats: Any, axis: Count | None = None) -> Tensor:
        """`gt.repeat(x, repeats, axis)`."""
        return _call("repeat", self, repeats, axis)

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """`gt.lerp(x, end, weight)`."""
        return _call("lerp", self, end, weight)

    def mm(self, other: Any) -> Tensor:
        """`gt.matmul(x, other)`."""
        return _call("matmul", self, other)

    bmm = mm
    mv = mm

    def outer(self, other: Any) -> Tensor:
        """`gt.outer(x, other)`."""
        return _call("outer", self, other)

    def eq(self, other: Any) -> Tensor:
        """`gt.equal(x, other)`."""
        return _call("equal", self, other)

    def ne(self, other: Any) -> Tensor:
        """`gt.not_equal(x, other)`."""
        return _call("not_equal", self, other)

    def lt(self, other: Any) -> Tensor:
        """`gt.less(x, other)`."""
        return _call("less", self, other)

    def le(self, other: Any) -> Tensor:
        """`gt.less_equal(x, other)`."""
        return _call("less_equal", self, other)

    def gt(self, other: Any) -> Tensor:
        """`gt.greater(x, other)`."""
        return _call("greater", self, other)

    def ge(self, other: Any) -> Tensor:
        """`gt.greater_equal(x, other)`."""
        return _call("greater_equal", self, other)

    def neg(self) -> Tensor:
        """`gt.negative(x)`."""
        return _call("negative", self)

    def reciprocal(self) -> Tensor:
        """`gt.reciprocal(x)`."""
        return _call("reciprocal", self)

    def log2(self) -> Tensor:
        """`gt.log2(x)`."""
        return _call("log2", self)

    def log10(self) -> Tensor:
        """`gt.log10(x)`."""
        return _call("log10", self)

    def exp2(self) -> Tensor:
        """`gt.exp2(x)`."""
        return _call("exp2", self)

    def tan(self) -> Tensor:
        """`gt.tan(x)`."""
        return _call("tan", self)

    def atan2(self, other: Any) -> Tensor:
        """`gt.atan2(x, other)`."""
        return _call("atan2", self, other)

    def erfc(self) -> Tensor:
        """`gt.erfc(x)`."""
        return _call("erfc", self)

    def nan_to_num(self, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
        """`gt.nan_to_num(x, nan, posinf, neginf)`."""
        return _call("nan_to_num", self, nan, posinf, neginf)

    def clamp_min(self, min: Any) -> Tensor:
        """`gt.clip(x, min)`."""
        return _call("clip", self, min)

    def clamp_max(self, max: Any) -> Tensor:
        """`gt.clip(x, None, max)`."""
        return _call("clip", self, None, max)

    def count_nonzero(self, axis: Any = None) -> Tensor:
        """`gt.count_nonzero(x, axis)`."""
        return _call("count_nonzero", self, axis)

    def diff(self, n: Count = 1, axis: Count = -1) -> Tensor:
        """`gt.diff(x, n, axis)`."""
        return _call("diff", self, n, axis)

    if TYPE_CHECKING:

        @property
        def ndim(self) -> Count: ...

        @property
        def size(self) -> Any: ...

        @property
        def shape(self) -> tuple[Any, ...]: ...

        def to_device(self, device: Any, /, *, stream: Any = None) -> Any: ...

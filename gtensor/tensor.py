"""The Tensor: a concrete array or a value of a trace, and how operations are bound to it.

`apply(name, *operands, **params)` is the one way an operation happens: operands become tensors, meet in
one dtype and shape, and the primitive is bound — into the graph of the trace in force, or evaluated at
once by its NumPy rule. An eager result remembers its equation only if an operand is being recorded.
Laws: a traced tensor belongs to one scope and is refused outside it; concrete data is read-only.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .builder import Builder
from .errors import DonatedError, DTypeError, GTensorError, ShapeError, Source, TraceError, calling_line
from .interchange import Interchange
from .ir import Atom, Lit, Var, lit
from .methods import TensorMethods
from .prim import FUNCTIONS, REGISTRY, Prim
from .record import Record
from .tree import nested
from .types import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    Dim,
    DType,
    Type,
    bfloat16,
    bool_,
    broadcast_shapes,
    float32,
    float64,
    int64,
    known,
    promote,
    resolve,
    stored,
    type_of,
    uint64,
)

Array = np.ndarray[Any, Any]


class Scope:
    """A trace in progress: its builder and what it captured from outside, each as a hidden input."""

    def __init__(self, builder: Builder, parent: Scope | None) -> None:
        self.builder = builder
        self.parent = parent
        self.captures: dict[int, tuple[Any, Var]] = {}

    def capture(self, key: Any, value: Any, type: Type, hint: str) -> Var:
        """The hidden input that stands for an outer tensor or array; the same one for the same key object."""
        known = self.captures.get(id(key))
        if known is None:
            known = self.captures[id(key)] = (value, self.builder.input(type, hint))
        return known[1]

    def atom(self, tensor: Tensor) -> Atom:
        """The atom of a tensor in this scope: its own, or a capture."""
        if tensor.scope is self or isinstance(tensor.atom, Lit):
            assert tensor.atom is not None
            return tensor.atom
        if tensor.scope is not None:
            require_open(tensor, self)
            return self.capture(tensor.atom, tensor, tensor.type, _hint(tensor))
        tensor.require_alive()
        value = tensor if tensor.captured is None else tensor.captured
        return self.capture(value, value, tensor.type, _hint(tensor))


class _State(threading.local):
    scope: Scope | None = None
    sources: tuple[Source, ...] | None = None


STATE = _State()


class Tensor(TensorMethods, Interchange):
    """An array of gtensor: concrete (it holds data) or traced (it stands for a value of a graph).

    Make one with `gt.tensor`; operators and methods work as NumPy's. Inside `gt.compile`, `gt.trace`
    and their kind, tensors are traced and have a shape and a dtype but no numbers.

    >>> import gtensor as gt
    >>> gt.tensor([1.0, 2.0]) * 2
    Tensor([2., 4.], dtype=float32)
    """

    __slots__ = (
        "__weakref__", "atom", "captured", "data", "donated", "grad", "record", "requires_grad", "scope", "type",
    )  # fmt: skip

    def __init__(
        self,
        type: Type,
        data: Array | None = None,
        *,
        atom: Atom | None = None,
        scope: Scope | None = None,
        record: Record | None = None,
        requires_grad: bool = False,
        captured: Any = None,
    ) -> None:
        self.type = type
        self.data = data
        self.atom = atom
        self.scope = scope
        self.record = record
        self.requires_grad = requires_grad
        self.captured = captured
        self.grad: Tensor | None = None
        self.donated = False

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents; a run-time extent is a `Dim`."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return resolve(self.type).dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.ndim

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.type.size

    @property
    def nbytes(self) -> int:
        """Bytes of the data (at the bound of a run-time extent)."""
        return resolve(self.type).nbytes

    @property
    def levels(self) -> frozenset[int]:
        """The recordings this value belongs to."""
        return self.record.levels if self.record is not None else _LEAF if self.requires_grad else _NONE

    def require_alive(self) -> Array:
        """The data; raises DonatedError after its memory was given away."""
        if self.donated:
            raise DonatedError(
                "this tensor was donated to a compiled call, which overwrote its memory",
                hint="use the tensor that the call returned, or do not donate",
            )
        assert self.data is not None
        return self.data

    def numpy(self) -> Array:
        """The data as a read-only NumPy array, without a copy; raises TraceError for a traced tensor."""
        if self.data is None:
            raise no_value(self, "has no numbers yet", "return it from the function, or use gt.stop_gradient and ops")
        return self.require_alive()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = _UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__)
        if method == "__call__" and not kwargs and name in FUNCTIONS:
            return FUNCTIONS[name](*inputs)
        raise TraceError(
            f"np.{ufunc.__name__} does not take a gtensor Tensor", hint="use the function of gtensor, or x.numpy()"
        )

    def item(self) -> float | int | bool:
        """The number in a tensor of one element."""
        data = self.numpy()
        if data.size != 1:
            raise ShapeError(f"item() needs one element, not {data.size}")
        value: float | int | bool = (data.astype(np.float32) if self.dtype.stored else data).item()
        return value

    def tolist(self) -> Any:
        """The data as nested lists."""
        data = self.numpy()
        return (data.astype(np.float32) if self.dtype.stored else data).tolist()

    def __bool__(self) -> bool:
        if self.data is None:
            raise no_value(
                self,
                "has no truth value: `if` and `while` run once, while tracing",
                "use gt.where, or pass the flag as a static argument",
            )
        if self.data.size != 1:
            raise ShapeError(
                f"the truth value of {self.type}, which has {self.data.size} elements, is not defined",
                hint="use gt.any or gt.all, or x.size to see whether there are any",
            )
        return bool(self.item())

    def __float__(self) -> float:
        if self.data is None:
            raise no_value(self, "cannot become a Python float", "keep it a tensor, and return it")
        return float(self.item())

    def __int__(self) -> int:
        if self.data is None:
            raise no_value(self, "cannot become a Python int", "pass the number as a static argument")
        return int(self.item())

    def __index__(self) -> int:
        if self.data is None:
            raise no_value(self, "cannot be a Python index", "use gt.take, or pass the number as a static argument")
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError(f"only an integer scalar can be an index, not {self.type}")
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("a 0-d tensor has no length")
        if isinstance(self.shape[0], Dim):
            raise TraceError(f"the length {self.shape[0]} is known at run time only", hint="use x.shape[0]")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if self.data is None:
            return f"Tensor({resolve(self.type)}, traced)"
        if self.donated:
            return f"Tensor({self.type}, donated)"
        data = self.data.astype(np.float32) if self.dtype == bfloat16 else self.data  # which NumPy cannot print
        body = np.array2string(data, separator=", ", prefix="Tensor(")
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"Tensor({body}, dtype={self.dtype}{grad})"

    def assign_(self, value: Any) -> Tensor:
        """Give a leaf new values of the same shape and dtype: how an optimizer written by hand updates it."""
        if self.data is None or self.record is not None:
            raise TraceError("assign_ is for leaves outside a trace")
        new = as_tensor(value).numpy()
        if new.shape != self.data.shape:
            raise ShapeError(f"assign_: shape {new.shape} does not fit {self.data.shape}")
        self.data = frozen(np.array(new, self.data.dtype))
        self.donated = False
        return self

    def zero_grad(self) -> None:
        """Forget the accumulated gradient."""
        self.grad = None

    def detach(self) -> Tensor:
        """The same values with no history: what `stop_gradient` gives."""
        return apply("stop_gradient", self)


_NONE: frozenset[int] = frozenset()
_LEAF: frozenset[int] = frozenset({0})
_UFUNC_NAMES = {
    "absolute": "abs", "arctan2": "atan2", "power": "pow", "true_divide": "divide", "divide": "divide",
    "negative": "negative", "conjugate": "positive", "invert": "bitwise_invert", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "rint": "round",
}  # fmt: skip


def user_sources() -> tuple[Source, ...]:
    """The innermost line outside gtensor, or what `sourced` set."""
    return calling_line() if STATE.sources is None else STATE.sources


@contextlib.contextmanager
def sourced(sources: tuple[Source, ...]) -> Iterator[None]:
    """Bind everything inside under these user lines (derivatives come from the forward equation's line)."""
    saved, STATE.sources = STATE.sources, sources
    try:
        yield
    finally:
        STATE.sources = saved


@contextlib.contextmanager
def in_scope(scope: Scope | None) -> Iterator[None]:
    """Bind everything inside in that scope of the traces in force, or outside all of them."""
    saved, STATE.scope = STATE.scope, scope
    try:
        yield
    finally:
        STATE.scope = saved


def no_value(tensor: Tensor, what: str, hint: str) -> TraceError:
    """The error for asking a traced tensor for its numbers."""
    name = _hint(tensor)
    return TraceError(f"a traced tensor{f' ({name})' if name else ''} {what}", hint=hint)


def _hint(tensor: Tensor) -> str:
    return tensor.atom.hint if isinstance(tensor.atom, Var) else ""


def require_open(tensor: Tensor, scope: Scope | None) -> None:
    """Refuse a tensor of a trace that has ended or that does not surround this one."""
    while scope is not None:
        if scope is tensor.scope:
            return
        scope = scope.parent
    assert tensor.scope is not None and isinstance(tensor.atom, Var)
    made = tensor.scope.builder.source_of(tensor.atom)
    raise TraceError(
        f"a traced tensor of {tensor.scope.builder.name} was used outside its trace",
        hint="return it from the traced function" + (f"; it was made at {made[0]}" if made else ""),
    )


def frozen(array: Array) -> Array:
    """The array, marked read-only."""
    array.flags.writeable = False
    return array


def concrete(array: Array) -> Tensor:
    """A concrete tensor over an array that nobody else writes."""
    return Tensor(type_of(array), frozen(array))


def as_tensor(value: Any) -> Tensor:
    """A tensor of any operand: a Tensor, a Python or NumPy number, an array, or a nested list of numbers.

    Python numbers are weak literals, NumPy scalars are literals of their own dtype, arrays are read when
    the operation runs, a run-time extent is counted then. Raises DTypeError for anything else.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        type_ = type_of(value)
        return Tensor(type_, frozen(np.array(value)), atom=Lit(value, type_))
    if isinstance(value, bool):
        return _literal(value, Type((), bool_))
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise DTypeError(f"{value} does not fit int64 or uint64")
        return _literal(value, Type((), int64 if value < 2**63 else uint64, weak=True))
    if isinstance(value, float):
        return _literal(value, Type((), float64, weak=True))
    if isinstance(value, np.ndarray):
        return Tensor(type_of(value), value, captured=value)
    return _counted(value) if isinstance(value, Dim) else concrete(from_data(value))


def _counted(extent: Dim) -> Tensor:
    """A run-time extent as a number, which yields to other dtypes as a Python number does."""
    ones = apply("broadcast", cast(as_tensor(1), int64), shape=(Dim(extent.name, extent.bound),))
    return cast(apply("sum", ones, axis=(0,)) * extent.factor, int64, weak=True)


Dim.counted = _counted


def _literal(value: float | int | bool, type_: Type) -> Tensor:
    atom = lit(value, type_)
    return Tensor(type_, np.asarray(atom.value), atom=atom)


def from_data(value: Any, dtype: DType | None = None) -> Array:
    """A fresh array from a number, nested lists or an array-like; Python numbers take the default dtypes.

    With `dtype` they are read at full precision, for a conversion to it. Raises DTypeError for anything else.
    """
    if any(isinstance(leaf, Tensor) and (leaf.data is None or leaf.levels) for leaf in nested(value)):
        raise TraceError("a list of traced or recorded tensors is no array", hint="use gt.stack")
    try:
        array = np.array(value)
    except ValueError:
        raise DTypeError(
            f"cannot make a tensor of {type(value).__name__}: its parts differ in length or in depth"
        ) from None
    except TypeError as error:
        raise DTypeError(f"cannot make a tensor of {type(value).__name__}: {error}") from None
    if array.dtype.kind in "OSUMmcV" and known(array.dtype) is None:
        raise DTypeError(f"cannot make a tensor of {type(value).__name__} ({array.dtype})")
    if dtype is not None or any(hasattr(leaf, "dtype") for leaf in nested(value)):
        return array
    default = {"f": DEFAULT_FLOAT, "i": DEFAULT_INT}.get(array.dtype.kind)
    with np.errstate(all="ignore"):
        return array if default is None else array.astype(default.dtype)


def apply(name: str, *operands: Any, **params: Any) -> Tensor:
    """Bind the primitive of that name to operands that first meet by its promotion rule."""
    prim = REGISTRY[name]
    tensors = [as_tensor(x) for x in operands]
    if prim.promotion != "none":
        try:
            tensors = _meet(prim, tensors)
        except GTensorError as error:
            _explain(error, prim, tensors)
            raise
    return bind(prim, tensors, params)


def bind(prim: Prim, tensors: Sequence[Tensor], params: Mapping[str, Any], hint: str = "") -> Tensor:
    """Bind a primitive to tensors that already fit: into the trace in force, else evaluated at once."""
    if not prim.takes_stored:
        narrow = stored([t.type.dtype for t in tensors])
        if narrow is not None:
            wide = [cast(t, float32) if t.type.dtype.stored else t for t in tensors]
            out = bind(prim, wide, params, hint)
            return cast(out, narrow) if out.type.dtype == float32 else out
    scope = STATE.scope
    try:
        if scope is not None:
            atoms = [scope.atom(t) for t in tensors]
            atom = scope.builder.bind(prim, atoms, params, user_sources(), hint)
            return Tensor(atom.type, atom=atom, scope=scope)
        return _evaluate(prim, tensors, params)
    except GTensorError as error:
        _explain(error, prim, tensors)
        raise


def bind_all(
    prim: Prim, tensors: Sequence[Tensor], params: Mapping[str, Any], hints: Sequence[str] = ()
) -> list[Tensor]:
    """Bind a primitive with any number of results: into the trace in force, else evaluated at once."""
    scope = STATE.scope
    try:
        if scope is None:
            return _evaluate_all(prim, tensors, params)
        atoms = scope.builder.bind_all(prim, [scope.atom(t) for t in tensors], params, user_sources(), hints)
    except GTensorError as error:
        _explain(error, prim, tensors)
        raise
    return [Tensor(atom.type, atom=atom, scope=scope) for atom in atoms]


def _explain(error: GTensorError, prim: Prim, tensors: Sequence[Tensor]) -> None:
    """Add the operation, its operands by name and type, and the user's line to the error of a rule."""
    operands = ", ".join(f"{_hint(t) or f'operand {i}'} is {resolve(t.type)}" for i, t in enumerate(tensors, 1))
    error.during(prim.name, operands if isinstance(error, (ShapeError, DTypeError)) else "").at(user_sources())


def _evaluate(prim: Prim, tensors: Sequence[Tensor], params: Mapping[str, Any]) -> Tensor:
    arrays = _data(tensors)
    out_type = resolve(prim.type(*(t.type for t in tensors), **params))
    with np.errstate(all="ignore"):
        data = _own(prim.numpy(*arrays, **params), out_type, tensors)
    levels = _NONE.union(*(t.levels for t in tensors))
    if not levels or not _is_followed(prim, tensors, out_type):
        return Tensor(out_type, frozen(data))
    record = Record(prim, tuple(tensors), params, levels, user_sources())
    out = record.out = Tensor(out_type, frozen(data))
    return recorded(out, record)


def _evaluate_all(prim: Prim, tensors: Sequence[Tensor], params: Mapping[str, Any]) -> list[Tensor]:
    arrays = _data(tensors)
    types = [resolve(t) for t in prim.type(*(t.type for t in tensors), **params)]  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        found = prim.numpy(*arrays, **params)
    outs = [Tensor(t, frozen(_own(data, t, tensors))) for data, t in zip(found, types, strict=True)]
    return recorded_all(prim, tensors, params, outs)


def _data(tensors: Sequence[Tensor]) -> list[Array]:
    for tensor in tensors:
        if tensor.data is None:
            require_open(tensor, None)
    return [t.require_alive() for t in tensors]


def _own(value: Any, type_: Type, tensors: Sequence[Tensor]) -> Array:
    """A result of that type in memory that nobody can change."""
    data = np.asarray(value).astype(type_.dtype.dtype, copy=False)
    held = [t.data for t in tensors] if any(t.captured is not None for t in tensors) else []
    return data.copy() if any(a is not None and np.may_share_memory(data, a) for a in held) else data


def _is_followed(prim: Prim, tensors: Sequence[Tensor], out: Type) -> bool:
    """Whether a derivative needs this equation: also integers, from an operation without derivative on."""
    if prim.zero or prim.kind == "effect" or out.dtype == bool_:
        return False
    return out.dtype.floating or prim.vjp is None or any(t.levels and not t.type.dtype.floating for t in tensors)


def recorded(tensor: Tensor, record: Record) -> Tensor:
    """A handle on a value that carries its record; `record.out` itself stays without, so that no cycle forms."""
    return Tensor(tensor.type, tensor.data, record=record)


def recorded_all(
    prim: Prim, tensors: Sequence[Tensor], params: Mapping[str, Any], outs: Sequence[Tensor]
) -> list[Tensor]:
    """The results of an equation with several, those that can have a derivative as handles with their records."""
    levels = _NONE.union(*(t.levels for t in tensors))
    if not levels:
        return list(outs)
    record = Record(prim, tuple(tensors), params, levels, user_sources())
    whole = tuple(outs)
    records = [record.result(whole, place) for place in range(len(whole))]
    return [recorded(t, r) if t.type.dtype.floating else t for t, r in zip(whole, records, strict=True)]


def _require_integer(dtype: DType) -> DType:
    if dtype.floating:
        raise DTypeError("takes integers or bool, not floats")
    return dtype


_PREPARE: Mapping[str, Callable[[DType], DType]] = {
    "float": lambda dtype: dtype if dtype.floating else DEFAULT_FLOAT,
    "boolean": lambda dtype: bool_,
    "integer": _require_integer,
    "same": lambda dtype: dtype,
}


def _meet(prim: Prim, tensors: list[Tensor]) -> list[Tensor]:
    """Operands in one dtype and one shape."""
    dtype, weak = promote([t.type for t in tensors])
    target = _PREPARE[prim.promotion](dtype)
    if weak and target.floating and not dtype.floating:
        target = float64
    return broadcast([cast(t, target, weak) for t in tensors])


def meet(*operands: Any) -> list[Tensor]:
    """Operands converted to their common dtype and broadcast to their common shape."""
    tensors = [as_tensor(x) for x in operands]
    dtype, weak = promote([t.type for t in tensors])
    return broadcast([cast(t, dtype, weak) for t in tensors])


def broadcast(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors broadcast to their common shape; scalar literals stay, since elementwise operations take them."""
    shapes = [t.type.shape for t in tensors]
    if all(s == shapes[0] for s in shapes):
        return list(tensors)
    shape = broadcast_shapes(shapes)
    prim = REGISTRY["broadcast"]
    return [t if is_literal(t) or t.type.shape == shape else bind(prim, [t], {"shape": shape}) for t in tensors]


def is_literal(tensor: Tensor) -> bool:
    """Whether the tensor is a scalar constant of the program text."""
    return isinstance(tensor.atom, Lit)


def cast(tensor: Tensor, dtype: DType, weak: bool = False) -> Tensor:
    """The tensor in another dtype: literals are re-read, everything else goes through the `cast` primitive."""
    if tensor.type.dtype == dtype and tensor.type.weak == weak:
        return tensor
    if isinstance(tensor.atom, Lit) and tensor.scope is None:
        new = lit(tensor.atom.value, Type((), dtype, weak)) if _keeps(tensor, dtype) else None
        if new is not None:
            return Tensor(new.type, np.asarray(new.value), atom=new)
    return bind(REGISTRY["cast"], [tensor], {"dtype": dtype, "weak": weak})


def _keeps(tensor: Tensor, dtype: DType) -> bool:
    """Whether a literal converts by plain rounding; a float to an integer goes through the cast rule."""
    fits = tensor.type.dtype.floating <= dtype.floating
    if fits and dtype.kind in "iu" and tensor.data is not None:
        info = np.iinfo(dtype.dtype)
        if not info.min <= int(tensor.data) <= info.max:
            raise DTypeError(
                f"the integer {int(tensor.data)} does not fit {dtype}", hint="convert an operand with astype"
            )
    return fits

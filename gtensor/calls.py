"""From Python arguments to one C call and back: what is checked, converted and bound each time.

Comes in: a signature, what was captured, the types of a graph's outputs, and how they share memory (`Wiring`).
Goes out: arrays for a call's inputs, tensors of its outputs, and the error that says what does not fit. Laws:
nothing that does not fit reaches C; arrays are read where they are unless C could not read them there; results
are fresh memory, or that of a donated argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from . import tree
from .captures import Captures
from .codegen.library import Call
from .errors import DTypeError, GTensorError, SignatureError, TraceError
from .tensor import Tensor
from .trace import Signature, Spec, leaf_type, to_array
from .types import Dim, Type

Array = np.ndarray[Any, Any]

READABLE = 0x101
"""NumPy's flags C_CONTIGUOUS and ALIGNED: what C can read where it is."""


# ---- inputs ----------------------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """What one leaf must be: a type, or (type None) the static value of that class.

    `shape` and `dtype` are the type's; `shape` is None if the type has a run-time extent.
    """

    type: Type | None
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    static: tuple[Any, Any] | None
    name: str


_SAME: dict[Type, Type] = {}


def one(type_: Type) -> Type:
    """One object for all equal types, so that tensors that come out of a call are recognised by identity."""
    return _SAME.setdefault(type_, type_)


def fixed_shape(type_: Type) -> tuple[int, ...] | None:
    """The shape of a type without run-time extents; None for one that has some."""
    extents = tuple(extent for extent in type_.shape if isinstance(extent, int))
    return extents if len(extents) == type_.ndim else None


def _wanted(signature: Signature) -> tuple[Wanted, ...]:
    statics = iter(signature.statics)
    return tuple(
        Wanted(None, None, None, next(statics), name)
        if type_ is None
        else Wanted(one(type_), fixed_shape(type_), type_.dtype.dtype, None, name)
        for type_, name in zip(signature.types, signature.names, strict=True)
    )


class Inputs:
    """The inputs of a call: leaves of the arguments, then what the function captured.

    A compiled function keeps one for each of its signatures; threads share it. `depth` is how deep in the structure
    the arguments stand: 2 in (args, kwargs), 1 in a plain tuple of them; `says` is for messages.
    """

    def __init__(
        self, name: str, signature: Signature, captures: Captures, depth: int = 2, says: str = "was compiled for"
    ) -> None:
        self.name = name
        self.says = f"{name} {says}"
        self.signature = signature
        self._flatten = signature.structure.flatten_up_to
        self.depth = depth
        self.wanted = _wanted(signature)
        self.typed = tuple(want for want in self.wanted if want.type is not None)
        self._rows = tuple((w.type, _ONLY_NUMBERS if _weak(w) else w.shape, w.dtype, w.static) for w in self.wanted)
        self.captures = captures
        self._captured = tuple((type_.shape, type_.dtype.dtype) for type_ in captures.types)
        self.dynamic = any(want.shape is None for want in self.typed)
        self.exact = len(self.typed) == len(self.wanted)
        self.flat = not captures.values and _is_flat(signature.structure, depth)

    @cached_property
    def rows(self) -> int | Dim | None:
        """The extent of the batch: the leading one of the first leaf that has axes."""
        return next((want.type.shape[0] for want in self.typed if want.type is not None and want.type.shape), None)

    @cached_property
    def first(self) -> int:
        """The number of that leaf among the compiled inputs; there must be one."""
        return next(i for i, want in enumerate(self.typed) if want.type is not None and want.type.shape)

    @cached_property
    def batched(self) -> list[bool]:
        """Which of the compiled inputs have the extent of the batch in front; captured arrays never do."""
        rows = self.rows
        flags = [want.type is not None and want.type.shape[:1] == (rows,) for want in self.typed]
        return flags + [False] * len(self._captured)

    def with_rows(self, count: int | Dim, name: str) -> Inputs:
        """The same inputs with another extent of the batch, for another function."""
        rows, signature = self.rows, self.signature
        types = [t.with_shape((count, *t.shape[1:])) if t and t.shape[:1] == (rows,) else t for t in signature.types]
        return Inputs(name, replace(signature, types=tuple(types)), self.captures, self.depth, "takes")

    @property
    def specs(self) -> Any:
        """The tree of the arguments with a spec for each array."""
        leaves = [Spec(w.type) if w.type is not None else w.static[1] if w.static else None for w in self.wanted]
        return tree.unflatten(self.signature.structure, leaves)

    def leaves(self, args: Any) -> list[Any] | None:
        """The leaves of a call's arguments, or None where their structure is not that of the signature."""
        try:
            leaves: list[Any] = self._flatten(args)
        except (ValueError, TypeError):
            return None
        return leaves

    @property
    def numbers(self) -> list[str]:
        """For each compiled input `f` or `i` if it is a Python number, else nothing."""
        return [w.type.dtype.kind if w.type and w.type.weak else "" for w in self.typed] + [""] * len(self._captured)

    def given(self, leaves: list[Any]) -> list[Any] | None:
        """The leaves, and after them what was captured as it is now; None if that no longer fits."""
        if not self._captured:
            return leaves
        values = self.captures.now()
        return None if values is None else [*leaves, *values]

    def take(self, leaves: Sequence[Any]) -> list[Array] | None:
        """The arrays of leaves that fit exactly, in the order of the compiled inputs; no array is converted.

        None for leaves that do not fit, and for those that no compiled call can take: tensors that are traced,
        recorded or donated. Shapes with a run-time extent are left to `extents`.
        """
        arrays = []
        for leaf, (type_, shape, dtype, static) in zip(leaves, self._rows, strict=True):
            kind = leaf.__class__
            if type_ is None:
                if static is None or kind is not static[0] or (leaf is not static[1] and leaf != static[1]):
                    return None
            elif kind is np.ndarray:
                if (leaf.shape != shape and shape is not None) or (leaf.dtype is not dtype and leaf.dtype != dtype):
                    return None
                arrays.append(leaf)
            elif kind is Tensor:
                data = leaf.data
                if data is None or leaf.record is not None or leaf.requires_grad or leaf.donated:
                    return None
                given = leaf.type
                if given is not type_ and (given != type_ if shape is not None else data.dtype != dtype):
                    return None
                arrays.append(data)
            elif (number := _number(leaf, type_)) is not None:
                arrays.append(number)
            else:
                return None
        if not self._captured:
            return arrays
        captured = self._read_captures()
        return None if captured is None else arrays + captured

    def take_rows(self, leaves: Sequence[Any]) -> list[Array] | None:
        """`take` for arrays with any number of rows, but some, in place of the extent of the batch.

        None if it takes more than a look: other leaves than arrays, run-time extents other than that of the batch.
        """
        arrays, count = [], 0
        for leaf, (_, shape, dtype, _), batched in zip(leaves, self._rows, self.batched, strict=False):
            if leaf.__class__ is not np.ndarray or leaf.dtype is not dtype or shape is None:
                return None
            if batched and leaf.ndim:
                count = count or len(leaf)
                if leaf.shape != (count, *shape[1:]):
                    return None
            elif leaf.shape != shape:
                return None
            arrays.append(leaf)
        captured = self._read_captures() if self._captured else []
        return None if captured is None or not count else arrays + captured

    def _read_captures(self) -> list[Array] | None:
        """The arrays of what was captured; None if they no longer fit."""
        values = self.captures.now()
        if values is None:
            return None
        arrays: list[Array] = []
        for value, (shape, dtype) in zip(values, self._captured, strict=True):
            array = value
            if value.__class__ is Tensor:
                if value.record is not None or value.requires_grad or value.donated:
                    return None
                array = value.data
            if array.dtype != dtype:
                array = normal(array)
            if array.shape != shape or array.dtype != dtype:
                return None
            arrays.append(array)
        return arrays

    def extents(self, arrays: Sequence[Array]) -> dict[str, int] | None:
        """The values of the run-time extents by name, or None for shapes that do not fit."""
        found: dict[str, int] = {}
        for want, array in zip(self.typed, arrays, strict=False):
            if want.shape is None and want.type is not None and not fits(want.type, array.shape, found):
                return None
        return found

    def takes(self, types: Sequence[Type | None], statics: Sequence[Any]) -> bool:
        """Whether arguments of these types fit, run-time extents included."""
        found: dict[str, int] = {}
        for want, given in zip(self.wanted, types, strict=True):
            if want.type is None or given is None:
                if want.type is not given:
                    return False
            elif (given.dtype, given.weak) != (want.type.dtype, want.type.weak) or not fits(
                want.type, given.shape, found
            ):
                return False
        return tuple(statics) == self.signature.statics

    def refusal(self, args: Any) -> GTensorError:
        """The error that says which argument differs from what was compiled, and how."""
        leaves = self.leaves(args)
        if leaves is None:
            return self._other_structure(args)
        dims: dict[str, int] = {}
        for leaf, want in zip(leaves, self.wanted, strict=True):
            if (wrong := self._wrong(leaf, want, dims)) is not None:
                return wrong
        for value, type_ in zip(self.captures.values, self.captures.types, strict=True):
            if isinstance(value, Tensor):
                value.require_alive()
                if value.record is not None or value.requires_grad:
                    return _recorded(self.name, f"a captured {type_}")
        return SignatureError(
            f"{self.name} was compiled with arrays that have since been replaced by others of another type or place",
            hint="compile it again, or pass what changes as an argument",
        )

    def _wrong(self, leaf: Any, want: Wanted, dims: dict[str, int]) -> GTensorError | None:
        """What is wrong with one leaf."""
        type_ = want.type
        if type_ is None:
            if (type(leaf), leaf) == want.static:
                return None
            held = want.static[1] if want.static is not None else None
            return SignatureError(f"{self.says} {want.name} = {held!r}; this call has {leaf!r}")
        if isinstance(leaf, Spec):
            return TraceError(
                f"{want.name} is a spec, not an array", hint="give specs to .trace(…), arrays to the compiled function"
            )
        if isinstance(leaf, Tensor):
            if leaf.data is None:
                return TraceError(
                    f"{want.name} is a traced tensor, and {self.name} runs compiled code, which needs numbers"
                )
            leaf.require_alive()
            if leaf.record is not None or leaf.requires_grad:
                return _recorded(self.name, want.name)
        given = leaf_type(adapted(leaf, want))
        known = f" with {', '.join(f'{k} = {v}' for k, v in dims.items())}" if dims and want.shape is None else ""
        compiled_for = f"{self.says} {want.name}: {_shown(type_)}{known}"
        if given is None:
            return SignatureError(f"{compiled_for}; this call has {'None' if leaf is None else type(leaf).__name__}")
        same = given.shape == type_.shape if want.shape is not None else fits(type_, given.shape, dims)
        if same and (given.dtype, given.weak) == (type_.dtype, type_.weak):
            return None
        return SignatureError(f"{compiled_for}; this call has {_shown(given)}", hint=_advice(want, given, same))

    def _other_structure(self, args: Any) -> SignatureError:
        """The error for arguments of another structure: the leaves that are missing or not expected."""
        signature = self.signature
        _, structure = tree.flatten(args)
        given, expected = self._names(structure), list(signature.names)
        missing = [name for name in expected if name not in given]
        extra = [name for name in given if name not in expected]
        parts = [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
        parts += [f"{', '.join(extra)} {'is' if len(extra) == 1 else 'are'} not expected"] if extra else []
        what = "; ".join(parts) or f"this call has {structure}, not {signature.structure}"
        return SignatureError(f"{self.says} {', '.join(expected) or 'no arguments'}; {what}")

    def _names(self, structure: tree.Structure) -> list[str]:
        """Names of the leaves of other arguments, after the names that the signature has for its own."""
        deep, own = self.depth, zip(self.signature.structure.paths(), self.signature.names, strict=True)
        heads = {path[:deep]: name.removesuffix("".join(f".{part}" for part in path[deep:])) for path, name in own}
        result = []
        for path in structure.paths():
            key = path[deep - 1]
            head = heads.get(path[:deep], f"argument {key + 1}" if isinstance(key, int) else str(key))
            result.append(".".join([head, *map(str, path[deep:])]))
        return result


def _is_flat(structure: tree.Structure, depth: int) -> bool:
    """Whether arguments are leaves one by one: a tuple of them, for depth 2 without keywords after it."""
    args = structure if depth == 1 else structure.children()[0]
    return structure.num_leaves == args.num_leaves == args.num_children and args.num_nodes == 1 + args.num_leaves


_ONLY_NUMBERS = (-1,)
"""In place of a shape: no array has it."""


def _weak(want: Wanted) -> bool:
    return want.type is not None and want.type.weak


def fits(type_: Type, shape: Sequence[int | Dim], found: dict[str, int]) -> bool:
    """Whether a shape is one of the type's; run-time extents are put into `found`, or must equal what is there.

    >>> from .types import float32
    >>> found = {}
    >>> fits(Type((Dim("B", 8), 3), float32), (5, 3), found), fits(Type((Dim("B", 8),), float32), (6,), found), found
    (True, False, {'B': 5})
    """
    if len(shape) != type_.ndim:
        return False
    for declared, given in zip(type_.shape, shape, strict=True):
        if isinstance(declared, int) or isinstance(given, Dim):
            same = declared == given
        else:
            value = found.setdefault(declared.name, given // declared.factor)
            same = declared.at(value) == given and value <= declared.bound
        if not same:
            return False
    return True


def normal(leaf: Any) -> Any:
    """A leaf that is array-like but no plain native array, tensor or Python number, as an array; others as they are.

    >>> normal(np.arange(2, dtype=">i8")).dtype.isnative, normal("text")
    (True, 'text')
    """
    if isinstance(leaf, (Tensor, Spec)) or leaf.__class__ in (int, float, bool) or leaf_type(leaf) is None:
        return leaf
    array = np.asarray(to_array(leaf))
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def adapted(leaf: Any, want: Wanted) -> Any:
    """A leaf made to fit where that is safe.

    A Python number takes the dtype of a 0-d argument of its kind or wider; where a Python number is expected, an
    array of one element with the dtype of such numbers will do.

    >>> from .types import float32
    >>> adapted(1, Wanted(Type((), float32), (), float32.dtype, None, "rate"))
    Tensor(1., dtype=float32)
    """
    leaf, type_ = normal(leaf), want.type
    if type_ is None or type_.shape:
        return leaf
    if type_.weak and isinstance(leaf, np.ndarray) and leaf.shape == () and leaf.dtype == type_.dtype.dtype:
        return Tensor(type_, leaf)
    if leaf.__class__ not in (int, float):
        return leaf
    if type_.dtype.kind not in ("iuf" if leaf.__class__ is int else "f"):
        return leaf
    try:
        return Tensor(type_, np.array(leaf, type_.dtype.dtype))
    except OverflowError:
        raise DTypeError(f"{want.name}: {leaf} does not fit {type_.dtype}") from None


_PYTHON = {type(number): leaf_type(number) for number in (0.0, 0, False)}
"""Class of a Python number -> its type."""


def _number(leaf: Any, type_: Type) -> Array | None:
    """A Python number as an array of its weak type, a NumPy scalar as one of its own; None if that is not `type_`."""
    kind = leaf.__class__
    if kind is float or kind is int or kind is bool:
        if type_ != _PYTHON[kind]:
            return None
        try:
            return np.array(leaf, type_.dtype.dtype)
        except OverflowError:
            raise DTypeError(f"{leaf} does not fit int64") from None
    if isinstance(leaf, np.generic) and leaf.dtype == type_.dtype.dtype and not type_.weak and not type_.shape:
        return np.array(leaf)
    return None


def _recorded(name: str, what: str) -> TraceError:
    return TraceError(
        f"{what} records its history, and {name} runs compiled code, which records none",
        hint="pass it through .detach()",
    )


def _shown(type_: Type) -> str:
    bounds = ", ".join(f"{e.name} <= {e.bound}" for e in type_.shape if isinstance(e, Dim))
    number = f" (a Python {'float' if type_.dtype.floating else 'int'})" if type_.weak else ""
    return f"{type_}{f' ({bounds})' if bounds else ''}{number}"


def _advice(want: Wanted, given: Type, same_shape: bool) -> str:
    """What to do about an argument of another type."""
    if want.type is not None and same_shape:
        return f"convert it with astype({want.type.dtype.name!r}), or compile for {given.dtype}"
    if want.shape is None:
        return "give all arguments the same run-time extent, at most its bound"
    return 'compile for this shape too, or with a run-time extent: gt.spec(("B", …), max={"B": …})'


def bind(call: Call, arrays: Sequence[Array], state: Array | None = None) -> None:
    """Bind arrays to a call's inputs; what C could not read where it is, or lies in the state, is copied."""
    for slot, array in enumerate(arrays):
        in_state = state is not None and np.may_share_memory(array, state)
        if in_state or array.flags.num & READABLE != READABLE:
            array = np.array(array, order="C")
        call.set_input(slot, array)


# ---- outputs ---------------------------------------------------------------------------------------------


class Outputs:
    """The results of a call: their memory before it, and tensors in the function's tree after it.

    `aliases` has for each result the number of the input whose memory it takes over, or -1 for fresh memory.
    """

    def __init__(self, types: Sequence[Type], aliases: Sequence[int], structure: tree.Structure) -> None:
        self._made = tuple((one(t), fixed_shape(t), t.dtype.dtype, a) for t, a in zip(types, aliases, strict=True))
        self.structure = structure
        self.single = structure.is_leaf()
        self.row = structure.type is tuple and structure.num_nodes == structure.num_leaves + 1

    def bind(self, call: Call, inputs: Sequence[Array], dims: Mapping[str, int]) -> list[Array]:
        """The arrays of the results; fresh ones are bound to the call, the others are those of inputs."""
        arrays: list[Array] = []
        slot = 0
        for type_, shape, dtype, alias in self._made:
            if alias >= 0:
                arrays.append(inputs[alias])
                continue
            if shape is None:
                shape = tuple(e if isinstance(e, int) else e.at(dims[e.name]) for e in type_.shape)
            array = np.empty(shape, dtype)
            call.set_output(slot, array)
            arrays.append(array)
            slot += 1
        return arrays

    @property
    def finish(self) -> Callable[..., Any]:
        """A function of a loss and the arrays of the results: the results as tensors, in their tree."""
        if not self.single:
            return lambda loss, *arrays: self.tensors(arrays)
        type_, shape = self._made[0][:2]
        if shape is None:
            return lambda loss, array: self.tensors((array,))

        def tensor(loss: float, array: Array) -> Tensor:
            array.setflags(write=False)
            return Tensor(type_, array)

        return tensor

    def tensors(self, arrays: Sequence[Array]) -> Any:
        """The results as tensors, in their tree."""
        results = []
        for array, (type_, shape, _, _) in zip(arrays, self._made, strict=True):
            array.setflags(write=False)
            results.append(Tensor(type_ if shape is not None else Type(array.shape, type_.dtype), array))
        if self.single:
            return results[0]
        return tuple(results) if self.row else self.structure.unflatten(results)

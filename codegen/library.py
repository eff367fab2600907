"""A compiled model in this process: its description as data, and calls with their arguments bound beforehand.

Comes in: the path of a library with the interface of templates/gt_abi.h, a `Bridge`, perhaps a BLAS table. Goes
out: a `Library`, from which threads take `Call` objects (one frame of arguments and one workspace each). Laws: the
caller owns all memory and a `Call` keeps alive what is bound to it; a `Call` serves one thread at a time; nothing
is waited for, so a fork at any moment leaves the child with what it needs. `Call`'s setters check nothing but
contiguity and, for what is written, writability; `Library.call` checks everything.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import sanitizers
from .cexpr import INTEGERS, SIZES
from .errors import CodegenError
from .extent import Dim, Extent
from .trampoline import FFI, Arrays, Bridge, Guard, Stepper, Wrapper

ABI_VERSION: int = FFI.integer_const("GT_ABI_VERSION")
ERR_INDEX: int = FFI.integer_const("GT_ERR_INDEX")
ERR_MATRIX: int = FFI.integer_const("GT_ERR_MATRIX")

ALIGN = 64
"""Bytes: alignment of states and workspaces."""

STEPPER_ARRAYS, STEPPER_RANK, STEPPER_DIMS = 128, 8, 8
"""What templates/gt_stepper.c has room for: inputs and outputs together, and axes."""

IDLE_CALLS = 16
"""How many calls (with their workspaces) a library keeps for the next that need one."""

_DTYPES: dict[str, np.dtype[Any]] = {
    **{tag: np.dtype(f"f{SIZES[tag]}") for tag in ("f16", "f32", "f64")},
    **{tag: np.dtype(f"{tag[0]}{SIZES[tag]}") for tag in INTEGERS},
    "b1": np.dtype(np.bool_),
}


class LibraryError(CodegenError):
    """A file is no compiled model of this version, or was called in a way its description forbids."""


def dtype_of(tag: str) -> np.dtype[Any]:
    """NumPy's dtype of a tag; raises LibraryError for bf16 where ml_dtypes, which has it, is not installed.

    >>> dtype_of("f16"), dtype_of("u8")
    (dtype('float16'), dtype('uint8'))
    """
    if tag not in _DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise LibraryError(f"the model has arrays of {tag}: pip install ml_dtypes") from None
        _DTYPES[tag] = np.dtype(ml_dtypes.bfloat16)
    return _DTYPES[tag]


def aligned_empty(nbytes: int) -> np.ndarray:
    """Uninitialised bytes, owned by NumPy; the address of the first, if there is one, is a multiple of 64.

    >>> aligned_empty(100).__array_interface__["data"][0] % 64, aligned_empty(0).nbytes
    (0, 0)
    """
    base = np.empty(nbytes + ALIGN, np.uint8)
    start = -base.__array_interface__["data"][0] % ALIGN
    return base[start : start + nbytes]


@dataclass(frozen=True)
class Leaf:
    """One input, output or state leaf. `bytes` is at the bound of a run-time extent, `offset` counts in the state."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    bytes: int
    offset: int

    def shape_at(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The shape for given values of the run-time dimensions."""
        return tuple(e if isinstance(e, int) else e.factor * dims[e.index] for e in self.shape)


@dataclass(frozen=True)
class Model:
    """What a compiled model says of itself; `equations` are the lines that error codes refer to."""

    name: str
    abi: int
    state_bytes: int
    work_bytes: int
    needs_blas: bool
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    state: tuple[Leaf, ...]
    dims: tuple[Dim, ...]
    equations: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """Why a call failed: a GT_ERR_ code, the number of the equation, and the value of an index out of range, or which
    matrix of a batch has no answer."""

    status: int
    node: int
    index: int
    equation: str

    def error(self) -> Exception:
        """The exception to raise for it: IndexError, LinAlgError, or LibraryError for a wrong caller."""
        if self.status == ERR_INDEX:
            return IndexError(f"index {self.index} is out of range in {self.equation or f'equation {self.node}'}")
        if self.status == ERR_MATRIX:
            where = self.equation or f"equation {self.node}"
            return np.linalg.LinAlgError(f"matrix {self.index} of the batch has no answer in {where}")
        return LibraryError(f"the compiled model refused the call with code {self.status}")


def _text(pointer: Any) -> str:
    return bytes(FFI.string(pointer)).decode("utf-8") if pointer else ""


def describe(pointer: Any) -> Model:
    """The description behind a `const gt_model *`; raises LibraryError for another version."""
    if pointer.abi != ABI_VERSION:
        raise LibraryError(f"it has interface version {pointer.abi}; this gtensor has {ABI_VERSION}: build it again")
    dims = tuple(Dim(k, _text(pointer.dims[k].name), pointer.dims[k].bound) for k in range(pointer.n_dims))

    def leaf(array: Any) -> Leaf:
        extents = [array.shape[axis] for axis in range(array.rank)]
        shape = tuple(e if e >= 0 else Dim(-1 - e, dims[-1 - e].name, dims[-1 - e].bound, array.scale) for e in extents)
        return Leaf(_text(array.name), _text(array.dtype), shape, array.bytes, array.offset)

    return Model(
        name=_text(pointer.name),
        abi=pointer.abi,
        state_bytes=pointer.state_bytes,
        work_bytes=pointer.work_bytes,
        needs_blas=bool(pointer.needs_blas),
        inputs=tuple(leaf(pointer.inputs[k]) for k in range(pointer.n_inputs)),
        outputs=tuple(leaf(pointer.outputs[k]) for k in range(pointer.n_outputs)),
        state=tuple(leaf(pointer.state[k]) for k in range(pointer.n_state)),
        dims=dims,
        equations=tuple(_text(pointer.equations[k]) for k in range(pointer.n_equations)),
    )


class Call:
    """One call made ready: a frame of arguments and a workspace. For one thread at a time.

    `call()` runs the model and returns its status; `step()` runs it and returns the loss, or NaN if it failed
    (`status` says which). Both are bound C functions: no Python runs between them and the model. What is bound stays
    bound, and alive, until it is bound anew or the call is given back.
    """

    __slots__ = (
        "_args",
        "_dims",
        "_enter_loop",
        "_frame",
        "_from_buffer",
        "_held",
        "_inputs",
        "_outputs",
        "call",
        "library",
        "step",
    )

    def __init__(self, library: Library) -> None:
        bridge, model = library.bridge, library.model
        frame = FFI.new("gt_frame *")
        functions = FFI.cast("gt_model *", library.address)
        frame.call, frame.run = functions.call, functions.run
        args = frame.args
        args.size = FFI.sizeof("gt_args")
        self._inputs = FFI.new("void *[]", len(model.inputs) + 1)
        self._outputs = FFI.new("void *[]", len(model.outputs) + 1)
        self._dims = FFI.new("int64_t[]", [dim.bound for dim in model.dims] + [0])
        work = FFI.from_buffer(aligned_empty(model.work_bytes))
        setattr(args, "in", self._inputs)  # `in` is a keyword
        args.out, args.dims, args.work = self._outputs, self._dims, work
        args.blas = FFI.cast("gt_blas *", library.blas)
        self._held: dict[object, Any] = {"work": work}
        self._frame, self._args = frame, args
        self._from_buffer = FFI.from_buffer
        self._enter_loop = bridge.enter_loop(frame)
        self.library = library
        self.call = bridge.enter(frame)
        self.step = bridge.step(frame)

    def set_input(self, slot: int, buffer: Any) -> None:
        """Bind an input: anything with a C-contiguous buffer, read-only and empty ones too. Size is not checked."""
        pointer = self._from_buffer(buffer)
        self._inputs[slot] = pointer
        self._held[slot] = pointer

    def set_output(self, slot: int, buffer: Any) -> None:
        """Bind an output: a writable C-contiguous buffer. Size is not checked."""
        pointer = self._from_buffer("char[]", buffer, True)
        self._outputs[slot] = pointer
        self._held[~slot] = pointer

    def set_state(self, block: np.ndarray) -> None:
        """Bind the state block, which `Library.new_state` made."""
        pointer = self._from_buffer("char[]", block, True)
        self._args.state = pointer
        self._held["state"] = pointer

    def set_dims(self, values: Sequence[int]) -> None:
        """Set the run-time dimensions; raises ValueError for a value outside 0 … bound."""
        for dim, value in zip(self.library.model.dims, values, strict=True):
            if not 0 <= value <= dim.bound:
                raise ValueError(f"dimension {dim.name} is {value}, outside 0 … {dim.bound}")
            self._dims[dim.index] = value

    def dims(self) -> list[int]:
        """The run-time dimensions as they are set: the bounds, if nothing else was."""
        return list(self._dims)[:-1]

    @property
    def status(self) -> int:
        """What the last call returned: 0 or a GT_ERR_ code."""
        return int(self._frame.status)

    @property
    def loss(self) -> float:
        """The loss of the last call of a model that has one."""
        return float(self._args.loss)

    def stepper(
        self,
        slots: Sequence[int],
        otherwise: Stepper,
        guard: Guard,
        *,
        finish: Callable[..., Any] | None = None,
        wrapper: Wrapper | None = None,
        numbers: Sequence[str] = (),
    ) -> Stepper:
        """A function of arrays for the inputs `slots`: it runs one call with no Python between.

        It takes arrays whose dtype and shape are exactly those described (the run-time dimensions that are extents of
        these inputs are read off them, the others are as they are bound), or objects that stand for such (`wrapper`),
        or where `numbers` says so (for each slot, `f`, `i` or nothing) Python floats or ints. It holds `guard` (from
        `bridge.guard`) while C runs, and leaves the bindings of this call as they are. It returns the loss; with
        `finish`, all outputs are fresh arrays, and it returns `finish(loss, *outputs)`. Other arguments, a guard that
        is taken and a call that fails go to `otherwise`, which gets the same arguments without the guard and whose
        result is returned; a failed call is to be run again there to raise its error. All but these inputs, and without
        `finish` the outputs, must be bound beforehand.
        """
        model = self.library.model
        inputs = [model.inputs[slot] for slot in slots]
        outputs = model.outputs if finish is not None else ()
        leaves = (*inputs, *outputs)
        seen, made = (
            {extent.index for leaf in some for extent in leaf.shape if isinstance(extent, Dim)}
            for some in (inputs, outputs)
        )
        if made - seen or len(model.dims) > STEPPER_DIMS:
            return otherwise
        # The description has one factor for all run-time extents of an array: of several it need not be that of each.
        if any(sum(isinstance(extent, Dim) for extent in leaf.shape) > 1 for leaf in leaves):
            return otherwise
        if len(leaves) > STEPPER_ARRAYS or any(len(leaf.shape) > STEPPER_RANK for leaf in leaves):
            return otherwise
        kinds = numbers or [""] * len(inputs)
        arrays = Arrays(
            tuple((s, dtype_of(x.dtype), _told(x.shape), n) for s, x, n in zip(slots, inputs, kinds, strict=True)),
            tuple((slot, dtype_of(leaf.dtype), _told(leaf.shape)) for slot, leaf in enumerate(outputs)),
            wrapper,
            model.state_bytes,
            len(model.dims),
        )
        return self.library.bridge.stepper(self._frame, self, arrays, otherwise, finish, guard)

    def failure(self) -> Failure:
        """Why the last call failed."""
        node = int(self._args.err_node)
        equations = self.library.model.equations
        equation = equations[node] if 0 <= node < len(equations) else ""
        return Failure(self.status, node, int(self._args.err_index), equation)

    def held(self, slot: int) -> int:
        """Bytes of the buffer bound to an input."""
        return len(self._held[slot])

    def unbind(self) -> None:
        """Let go of all inputs, outputs and the state; the workspace stays."""
        self._held = {"work": self._held["work"]}


def _told(shape: tuple[Extent, ...]) -> tuple[Any, ...]:
    """A shape as a stepper reads it."""
    return tuple(e if isinstance(e, int) else (e.index, e.factor, e.bound) for e in shape)


class Loop:
    """Many calls over the rows of a data set, inside C. `batched[i]` says whether input i is the whole data set.

    The other arguments of each call are those bound to `call`. For one thread at a time.
    """

    def __init__(self, call: Call, batched: Sequence[bool]) -> None:
        self.call = call
        self._loop = FFI.new("gt_loop *")
        self._loop.size = FFI.sizeof("gt_loop")
        self._batched = FFI.new("uint8_t[]", [int(flag) for flag in batched] + [0])
        self._loop.batched = self._batched
        self._leaves = [(k, call.library.model.inputs[k]) for k, flag in enumerate(batched) if flag]
        self._rows = None if call.library.model.dims else self._rows_of_call()
        space = sum(-(-leaf.bytes // ALIGN) * ALIGN for _, leaf in self._leaves)
        self._gather = FFI.from_buffer(aligned_empty(space))
        self._loop.gather = self._gather

    @property
    def done(self) -> int:
        """How many steps the last run completed."""
        return int(self._loop.done)

    def _rows_of_call(self) -> list[tuple[int, int, int]]:
        """Of each batched input: its number, its rows in a call, and the bytes of a row."""
        found, dims = [], self.call.dims()
        for slot, leaf in self._leaves:
            rows, *row = leaf.shape_at(dims)
            found.append((slot, rows, SIZES[leaf.dtype] * math.prod(row)))
        return found

    def run(
        self,
        steps: int,
        batch: int,
        *,
        first: int = 0,
        rows: np.ndarray | None = None,
        losses: np.ndarray | None = None,
        stop: np.ndarray | None = None,
    ) -> int:
        """Run `steps` calls of `batch` rows each; returns 0 or the code of the step that failed (number `done`).

        Step s sees the rows from `first + s * batch` on, or those that `rows` (int64) names from `s * batch` on.
        `losses` (float64) takes one loss per step; a non-zero `stop[0]` (int32) ends the loop between two steps.
        Raises ValueError, before anything runs, for a row outside the data or an array that is too short.
        """
        loop = self._loop
        wanted = steps * batch
        if steps < 0 or batch < 0 or first < 0:
            raise ValueError("steps, batch and first must not be negative")
        if rows is None:
            low, high = first, first + wanted
        else:
            _expect(rows, np.int64, wanted, "rows")
            used = rows[:wanted]
            low, high = (int(used.min()), int(used.max()) + 1) if wanted else (0, 0)
        for slot, rows_of_call, row in self._rows or self._rows_of_call():
            if rows_of_call != batch:
                name = self.call.library.model.inputs[slot].name
                raise ValueError(f"{name} has {rows_of_call} rows in a call, not {batch}")
            if low < 0 or high * row > self.call.held(slot):
                name = self.call.library.model.inputs[slot].name
                raise ValueError(f"{name} has no row {high - 1 if low >= 0 else low}")
        if losses is not None:
            _expect(losses, np.float64, steps, "losses")
        if stop is not None:
            _expect(stop, np.int32, 1, "stop")
        loop.steps, loop.batch, loop.first = steps, batch, first
        held = [  # alive until C returns
            FFI.NULL if rows is None else FFI.from_buffer("int64_t[]", rows),
            FFI.NULL if losses is None else FFI.from_buffer("double[]", losses, True),
            FFI.NULL if stop is None else FFI.from_buffer("int32_t[]", stop),
        ]
        loop.rows, loop.losses, loop.stop = held
        return int(self.call._enter_loop(loop))


def _expect(array: np.ndarray, dtype: type, count: int, name: str) -> None:
    if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous or array.size < count:
        raise ValueError(f"{name} must be a contiguous {np.dtype(dtype).name} array of at least {count} elements")


class Library:
    """A loaded model. `model` is its description, `path` the file, `address` that of its `gt_model`.

    `blas` gives the address of a `gt_blas` and is asked only by a model that needs one; `sources` gives the C units
    by file name. Raises LibraryError if the file is no model of this version, SanitizerError if it has the address
    sanitizer and this process has not.
    """

    def __init__(
        self,
        path: Path,
        bridge: Bridge,
        blas: Callable[[], int],
        sources: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.path = path
        self.bridge = bridge
        self._sources = sources
        try:
            sanitizers.check(path)
            self._opened = FFI.dlopen(os.path.abspath(path), FFI.RTLD_NOW | FFI.RTLD_LOCAL)
            self._pointer = self._opened.gt_model_get()
        except (OSError, FFI.error) as error:
            raise LibraryError(f"{path} cannot be loaded: {error}") from error
        try:
            self.model = describe(self._pointer)
        except LibraryError as error:
            raise LibraryError(f"{path} cannot be used: {error}") from None
        self.address = int(FFI.cast("intptr_t", self._pointer))
        self.blas = blas() if self.model.needs_blas else 0
        self._idle: list[Call] = []

    @property
    def sources(self) -> Mapping[str, str]:
        """The C units by file name."""
        return self._sources()

    @property
    def c_source(self) -> str:
        """The C units as one text, for reading."""
        units = self.sources
        if len(units) == 1:
            return next(iter(units.values()))
        return "\n".join(f"/* ---- {name} ---- */\n{text}" for name, text in units.items())

    def acquire(self) -> Call:
        """A call that nobody else uses: an idle one, or a new one with its own workspace."""
        try:
            return self._idle.pop()
        except IndexError:
            return Call(self)

    def release(self, call: Call) -> None:
        """Give a call back for others; what was bound to it is let go."""
        call.unbind()
        if len(self._idle) < IDLE_CALLS:
            self._idle.append(call)

    def new_state(self) -> np.ndarray:
        """A state block: aligned bytes owned by NumPy, set to zero by the model."""
        block = aligned_empty(self.model.state_bytes)
        self._pointer.init(FFI.from_buffer("char[]", block, True))
        return block

    def state_views(self, block: np.ndarray) -> tuple[np.ndarray, ...]:
        """The leaves of a state block, as arrays that share its memory and keep it alive."""
        bounds = [dim.bound for dim in self.model.dims]
        return tuple(
            block[leaf.offset : leaf.offset + leaf.bytes].view(dtype_of(leaf.dtype)).reshape(leaf.shape_at(bounds))
            for leaf in self.model.state
        )

    def call(
        self,
        inputs: Sequence[Any] = (),
        *,
        state: np.ndarray | None = None,
        outputs: Mapping[int, np.ndarray] | None = None,
        dims: Sequence[int] | None = None,
    ) -> list[np.ndarray]:
        """Run the model once, everything checked; returns its outputs.

        `inputs` are arrays of the described dtypes and shapes (any strides: what is not C-contiguous is copied).
        `outputs` gives memory for some of the outputs by slot; the others are new. `dims` are the run-time dimensions;
        what is missing is read off the inputs' shapes. Raises LibraryError for arguments that do not fit, IndexError
        for an index out of range.
        """
        model = self.model
        if len(inputs) != len(model.inputs):
            raise LibraryError(f"{model.name} takes {len(model.inputs)} inputs, not {len(inputs)}")
        if (state is None) != (model.state_bytes == 0):
            raise LibraryError(f"{model.name} has a state of {model.state_bytes} bytes")
        arrays = [np.asarray(value) for value in inputs]
        values = self._dims(arrays) if dims is None else list(dims)
        bound = self.acquire()
        try:
            bound.set_dims(values)
            for slot, (leaf, array) in enumerate(zip(model.inputs, arrays, strict=True)):
                bound.set_input(slot, np.ascontiguousarray(_fitting(leaf, array, values)))
            given = outputs or {}
            results = []
            for slot, leaf in enumerate(model.outputs):
                array = given[slot] if slot in given else np.empty(leaf.shape_at(values), dtype_of(leaf.dtype))
                bound.set_output(slot, _fitting(leaf, array, values))
                results.append(array)
            if state is not None:
                bound.set_state(state)
            if bound.call():
                raise bound.failure().error()
            return results
        finally:
            self.release(bound)

    def _dims(self, arrays: Sequence[np.ndarray]) -> list[int]:
        values = [dim.bound for dim in self.model.dims]
        for leaf, array in zip(self.model.inputs, arrays, strict=True):
            for extent, actual in zip(leaf.shape, array.shape, strict=False):
                if isinstance(extent, Dim):
                    values[extent.index] = actual // extent.factor
        return values


def _fitting(leaf: Leaf, array: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    dtype, shape = dtype_of(leaf.dtype), leaf.shape_at(dims)
    if array.dtype != dtype or array.shape != shape:
        raise LibraryError(f"{leaf.name} must be {dtype.name}{list(shape)}, not {array.dtype.name}{list(array.shape)}")
    return array

"""`gt.Resident`: a compiled step whose state lives in one block of memory, from call to call.

Comes in: `step(state, *batch) -> (state, outputs)`, the first state, specs of the batch. Goes out: a callable of the
batch alone. Laws: the block is owned by Python, its layout depends on the types of the state only, so several
functions share it (`bind`); calls on one block run one after another; a call that raises has not touched it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from . import arrays_file, saved, tree
from .calls import Inputs, Outputs, adapted, bind
from .captures import Captures
from .codegen.extent import Array as Described
from .codegen.extent import state_layout
from .codegen.library import Call, Loop, aligned_empty
from .codegen.trampoline import Bridge, Guard
from .errors import FileError, InternalError, ShapeError, SignatureError, TraceError
from .saved import CAPTURED, Code, captured_arrays
from .shortcut import over_batches
from .stages import Compiled, Inspected, Settings, Traced
from .tensor import as_tensor
from .trace import Signature, Spec, argument_names, leaf_type, split_arguments, to_array, trace_call
from .types import Dim, Type, as_dtype, resolve
from .wiring import Wiring

Array = np.ndarray[Any, Any]

EXTRA = "extra:"
"""Begins the names of a checkpoint's arrays that are no part of the state."""


class Block:
    """The memory of a state: one block of 64-byte aligned bytes, a view of it per leaf, and a lock for its users.

    The lock is made with the first function that uses the block.
    """

    lock: Guard

    def __init__(self, state: Any) -> None:
        leaves, self.structure = tree.flatten(state)
        self.names = [path or "state" for path in tree.paths(self.structure)]
        _require_names(self.names)
        self.types = [_state_type(leaf, name) for leaf, name in zip(leaves, self.names, strict=True)]
        described = [Described(n, t.dtype.tag, t.shape) for n, t in zip(self.names, self.types, strict=True)]  # type: ignore[arg-type]
        self.offsets, size = state_layout(described)
        self.memory = aligned_empty(size)
        self.memory[:] = 0
        self.views = [
            self.memory[offset : offset + type_.nbytes].view(type_.dtype.dtype).reshape(type_.shape)
            for offset, type_ in zip(self.offsets, self.types, strict=True)
        ]
        for view, leaf in zip(self.views, leaves, strict=True):
            view[...] = to_array(leaf)

    def locked_by(self, bridge: Bridge) -> Guard:
        """The lock, made now if there is none."""
        if not hasattr(self, "lock"):
            self.lock = bridge.guard()
        return self.lock

    @property
    def specs(self) -> Any:
        """The state's tree with a spec for each leaf."""
        return tree.unflatten(self.structure, [Spec(type_) for type_ in self.types])

    @property
    def tree(self) -> Any:
        """The state's tree with the views."""
        return tree.unflatten(self.structure, self.views)

    def copies(self) -> dict[str, Array]:
        """A copy of each leaf by its name, all of one moment."""
        with self.lock:
            return {name: view.copy() for name, view in zip(self.names, self.views, strict=True)}

    def take(self, arrays: Mapping[str, Array]) -> None:
        """Put arrays in the place of the leaves."""
        with self.lock:
            for name, view in zip(self.names, self.views, strict=True):
                view[...] = arrays[name]


def _require_names(names: Sequence[str]) -> None:
    """Raise SignatureError for two leaves of one path, and for a name that a file keeps for other things."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise SignatureError(f"the state has two arrays at {name}", hint="leave the dot out of a key")
        if name.startswith((EXTRA, CAPTURED)):
            raise SignatureError(
                f"the state has {name}, and names that begin so are used in files", hint="rename the key"
            )


def _state_type(leaf: Any, name: str) -> Type:
    """The type of a state leaf; raises SignatureError for one that is no array, or has a run-time extent."""
    type_ = None if isinstance(leaf, Spec) else leaf_type(leaf)
    if type_ is None:
        raise SignatureError(f"the state has {type(leaf).__name__} at {name}, which is no array")
    if any(isinstance(extent, Dim) for extent in type_.shape):
        raise ShapeError(f"the state {name} is {type_}: a state has no run-time extents")
    return resolve(type_)


def trace_over(
    block: Block,
    fn: Callable[..., Any],
    specs: Sequence[Any],
    *,
    name: str,
    names: Sequence[str],
    updates: bool,
    loss: bool,
    roots: Sequence[Any],
    finish: Callable[[Compiled], Any],
) -> Traced:
    """Trace `fn(state, *batch)` with its state in a block. `roots` are the user's functions behind it.

    `names` are those of the batch arguments. With `updates` the function returns (state, outputs) and the new state
    takes the old one's place. With `loss` the first output is also reported as a number.
    """
    settings, started = Settings.now(), time.perf_counter()
    leaves, signature = split_arguments(fn, (block.specs, *specs), {})
    count = len(block.types)
    own = argument_names(fn, 1 + len(specs))[1:]
    renamed = [_renamed(leaf, own, names) for leaf in signature.names[count:]]
    signature = replace(signature, names=(*block.names, *renamed))
    traced = trace_call(fn, leaves, signature, name, roots)
    if updates:
        _require_state(block, traced.out_structure, [a.type for a in traced.graph.outputs], name)
    kept = {i: i for i in range(count)}
    wiring = Wiring(kept, kept if updates else {}, (count if updates else 0) if loss else None)
    return Traced(traced, wiring, settings, time.perf_counter() - started, finish)


def _renamed(leaf: str, own: Sequence[str], names: Sequence[str]) -> str:
    """The name of a batch leaf below another name of its argument."""
    head, dot, rest = leaf.partition(".")
    return dict(zip(own, names, strict=True)).get(head, head) + dot + rest


def _require_state(block: Block, structure: tree.Structure, types: Sequence[Type], name: str) -> None:
    """Raise TraceError unless a step returned (state, outputs) with a state like the one it took."""
    parts = structure.children() if structure.type is tuple else []
    if len(parts) != 2:
        raise TraceError(f"{name} must return (state, outputs), not {structure}")
    if parts[0] != block.structure:
        raise TraceError(f"{name} returned a state of structure {parts[0]}, it took {block.structure}")
    for leaf, before, after in zip(block.names, block.types, types, strict=False):
        if before != after:
            raise TraceError(
                f"{name} changes the type of its state: {leaf} came as {before} and is returned as {after}"
            )


class Bound(Inspected):
    """A function compiled over a block of state: call it with the batch. Made by `Resident.bind`.

    Raises SignatureError for arguments that differ from the specs, IndexError for an index out of range.
    """

    def __init__(self, block: Block, compiled: Code, roots: Sequence[Any]) -> None:
        interface = compiled.interface
        count, full, alias, name = len(block.types), interface.signature, interface.wiring.alias, interface.name
        self.block = block
        self.compiled: Code = compiled  # type: ignore[assignment]
        batch = Signature(_batch_structure(full.structure), full.types[count:], full.statics, full.names[count:])
        self.inputs = Inputs(name, batch, Captures(compiled.captured, interface.captured, roots), depth=1)
        shown = [type_ for i, type_ in enumerate(interface.outputs) if i not in alias]
        structure = interface.structure.children()[1] if alias else interface.structure
        self.outputs = Outputs(shown, [-1] * len(shown), structure)
        self.frame: Call = compiled.library.acquire()
        if tuple(leaf.offset for leaf in compiled.library.model.state) != tuple(block.offsets):
            raise InternalError(f"{name}: the compiled state is laid out differently from its block")
        self.frame.set_state(block.memory)
        self._dims = interface.dims
        self.kept: list[Array] = []
        self.run = over_batches(
            self.frame, self.inputs, block.locked_by(compiled.library.bridge), self._checked, self.outputs.finish
        )

    def __call__(self, *batch: Any) -> Any:
        return self.run(*batch)

    def _checked(self, *batch: Any) -> Any:
        """A call with any batch: what fits is converted, what does not is refused."""
        arrays, dims = self.fit(batch)
        with self.block.lock:
            self.bind(arrays, dims)
            results = self.outputs.bind(self.frame, (), dims)
            failure = self.frame.failure() if self.frame.call() else None
            for slot, array in enumerate(self.kept):
                self.frame.set_output(slot, array)
        if failure is not None:
            raise self.compiled.error(failure)
        return self.outputs.tensors(results)

    @cached_property
    def loop(self) -> Loop:
        """The loop over the rows of a data set; the block's lock is held while it runs."""
        return Loop(self.frame, self.inputs.batched)

    def keep_outputs(self) -> None:
        """Keep memory for the results bound, `kept`, for calls that want the loss alone."""
        self.kept = self.outputs.bind(self.frame, (), {})

    def fit(self, batch: tuple[Any, ...]) -> tuple[list[Array], dict[str, int]]:
        """The arrays of a batch, and the values of its run-time extents; raises SignatureError."""
        inputs = self.inputs
        leaves = inputs.leaves(batch)
        if leaves is not None:
            arrays = inputs.take(leaves)
            if arrays is None:
                fitted = [adapted(leaf, want) for leaf, want in zip(leaves, inputs.wanted, strict=True)]
                arrays = inputs.take(fitted)
            if arrays is not None:
                if not self._dims:
                    return arrays, {}
                found = inputs.extents(arrays)
                if found is not None:
                    return arrays, found
        raise inputs.refusal(batch)

    def bind(self, arrays: Sequence[Array], dims: dict[str, int]) -> None:
        """Bind the inputs and run-time extents of a call; the block's lock is held."""
        bind(self.frame, arrays, self.block.memory)
        if dims:
            self.frame.set_dims([dims[name] for name in self._dims])


def _batch_structure(structure: tree.Structure) -> tree.Structure:
    """The structure of the batch in that of (state, *batch), {}."""
    args = structure.children()[0]
    return tree.flatten(tuple(tree.unflatten(child, range(child.num_leaves)) for child in args.children()[1:]))[1]


class Resident(Inspected):
    """A step compiled over a state that stays in memory: `outputs = resident(*batch)` updates it in place.

    `step(state, *batch) -> (state, outputs)` returns a state of the structure and types it takes; `specs` has one
    spec (or pytree of specs, or an example) per batch argument. Raises what tracing raises, TraceError for a state
    that changes its type, ToolchainError without a working compiler.

    >>> import gtensor as gt
    >>> counter = gt.Resident(lambda total, x: (total + x, total), gt.zeros(2), [gt.spec((2,))])
    >>> counter(gt.ones(2)), counter(gt.ones(2))
    (Tensor([0., 0.], dtype=float32), Tensor([1., 1.], dtype=float32))
    >>> counter.state
    array([2., 2.], dtype=float32)
    """

    def __init__(self, step: Callable[..., Any], state: Any, specs: Sequence[Any]) -> None:
        if isinstance(specs, Spec):
            raise SignatureError("specs is a sequence with one spec for each batch argument", hint="put it in a list")
        self.block = Block(state)
        names = argument_names(step, 1 + len(specs))[1:]
        self.step = self._compile(step, tuple(specs), name_of(step), names, updates=True)

    def _compile(
        self,
        fn: Callable[..., Any],
        specs: Sequence[Any],
        name: str,
        names: Sequence[str],
        *,
        updates: bool,
        loss: bool = False,
        roots: Sequence[Any] = (),
    ) -> Bound:
        """A function of (state, *batch) compiled over the block; captured arrays are looked for from `roots`, or it."""
        traced = trace_over(
            self.block, fn, specs, name=name, names=names, updates=updates, loss=loss, roots=roots or (fn,),
            finish=lambda compiled: Bound(self.block, compiled, roots or (fn,)),
        )  # fmt: skip
        bound: Bound = traced.lower().compile()
        return bound

    def __call__(self, *batch: Any) -> Any:
        return self.step.run(*batch)

    @property
    def compiled(self) -> Code:  # type: ignore[override]
        """The last stage of the step."""
        return self.step.compiled

    @property
    def state(self) -> Any:
        """The state as NumPy arrays in its tree. They are the memory itself: calls change them, and so may you."""
        return self.block.tree

    def checkpoint(self, path: str | os.PathLike[str], **extra: Any) -> None:
        """Write the state into a safetensors file, each leaf under its path, and the arrays `extra` beside it.

        What a run needs to go on is in the state: parameters, the optimizer's moments and step count. A random key or
        the number of an epoch that the caller keeps goes into `extra`. The file is replaced when the new one is
        complete. Raises MissingPackageError without the package safetensors, OSError where the file cannot be written.

        >>> import gtensor as gt, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.safetensors"
        >>> counter = gt.Resident(lambda total, x: (total + x, None), gt.zeros(2), [gt.spec((2,))])
        >>> counter(gt.ones(2)); counter.checkpoint(path, epoch=3); counter(gt.ones(2))
        >>> int(counter.restore(path)["epoch"]), counter.state
        (3, array([1., 1.], dtype=float32))
        """
        kept = {f"{EXTRA}{name}": to_array(as_tensor(value)) for name, value in extra.items()}
        arrays_file.write(path, {**self.block.copies(), **self._settings(), **kept})

    def restore(self, path: str | os.PathLike[str]) -> dict[str, Array]:
        """Take the state from a file of `checkpoint`; returns the arrays it was given as `extra`.

        The run goes on with the bits that it would have had. Raises FileError for a file that is damaged, and for the
        state of another model, naming each difference, and then leaves the state as it is; OSError where the file
        cannot be read.
        """
        held, settings = arrays_file.read(path), self._settings()
        extra = {name.removeprefix(EXTRA): held.pop(name) for name in list(held) if name.startswith(EXTRA)}
        expected = dict(zip(self.block.names, self.block.types, strict=True))
        expected |= {name: Type(array.shape, as_dtype(array.dtype)) for name, array in settings.items()}
        lines = arrays_file.differences(expected, held)
        if lines:
            raise FileError(f"{os.fspath(path)} holds another state:\n  " + "\n  ".join(lines))
        self.block.take(held)
        for name, array in settings.items():
            array[...] = held[name]
        return extra

    def save(self, folder: str | os.PathLike[str], *, target: str = "native") -> None:
        """Write the compiled step and its state into a folder; `gt.load` makes a Resident that goes on.

        target: the machines that its library is for, as for `Executable.save`, whose errors it raises too. An earlier
        saved model of that name is replaced. Raises FileError for a folder that holds anything else;
        MissingPackageError without the package safetensors.
        """
        self._save(folder, "resident", target)

    def _save(self, folder: str | os.PathLike[str], kind: str, target: str, **extra: Any) -> None:
        values = self.step.inputs.captures.now()
        if values is None:
            raise self.step.inputs.refusal(())
        arrays = {**self.block.copies(), **self._settings(), **captured_arrays(values)}
        saved.save(folder, kind, self.step.compiled, arrays, target, **extra)

    def _settings(self) -> dict[str, Array]:
        """What a checkpoint keeps beside the state, by name."""
        return {}

    def bind(self, fn: Callable[..., Any], *specs: Any, updates: bool = False) -> Bound:
        """Compile another function over the same state: `fn(state, *batch) -> outputs`.

        With `updates`, it returns (state, outputs) as the step does, and its state replaces the present one.

        >>> import gtensor as gt
        >>> counter = gt.Resident(lambda total, x: (total + x, total), gt.zeros(2), [gt.spec((2,))])
        >>> halve = counter.bind(lambda total: (total / 2, None), updates=True)
        >>> counter(gt.ones(2)); halve(); counter.state
        Tensor([0., 0.], dtype=float32)
        array([0.5, 0.5], dtype=float32)
        """
        return self._compile(fn, specs, name_of(fn), argument_names(fn, 1 + len(specs))[1:], updates=updates)


def name_of(fn: Callable[..., Any]) -> str:
    """The name of a function as kernels and messages show it."""
    return str(getattr(fn, "__name__", "step")).strip("<>")

"""`gt.compile`: a Python function as compiled C, one specialisation per signature.

Comes in: a function, the names of donated and static arguments. Goes out: a callable with the same arguments and
results. Laws: what it computes is what the function computes; results are fresh memory unless donated; arrays
that the function captured are read at each call; inside a trace, and on tensors that record, the Python function
itself runs. Calls from several threads, and after a fork, do not disturb each other.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, overload

from . import saved
from .calls import Inputs, Outputs, adapted, bind, normal
from .captures import Captures
from .donation import Donation, pairs
from .errors import OptionError, SignatureError, TraceError
from .saved import Code, captured_arrays
from .shortcut import MISS, miss, stepper
from .stages import Compiled, Inspected, Lowered, Settings, Traced
from .tensor import STATE, Tensor
from .trace import Signature, Spec, split_arguments, trace_call
from .wiring import Wiring

Names = str | Sequence[str]
Decorator = Callable[[Callable[..., Any]], "CompiledFunction"]


class Executable(Inspected):
    """A function compiled for one signature; call it with arguments of that signature.

    Made by `step.trace(…).lower().compile()`. Python numbers take the dtype of a 0-d argument. Raises SignatureError
    for arguments of another structure, shape or dtype, IndexError for an index out of range, DonatedError for a
    tensor that was donated before.

    >>> import gtensor as gt
    >>> double = gt.compile(lambda x: x * 2).trace(gt.spec(("B", 2), max={"B": 8})).lower().compile()
    >>> double(gt.ones((3, 2))).shape
    (3, 2)
    """

    def __init__(self, fn: Callable[..., Any], compiled: Code, donate: Sequence[str]) -> None:
        library, interface = compiled.library, compiled.interface
        alias, outputs = interface.wiring.alias, interface.outputs
        self.compiled: Code = compiled  # type: ignore[assignment]
        self.fn = fn
        captures = Captures(compiled.captured, interface.captured, (fn, *_held(interface.signature)))
        self.inputs = Inputs(interface.name, interface.signature, captures)
        self.outputs = Outputs(outputs, [alias.get(i, -1) for i in range(len(outputs))], interface.structure)
        self.donate = tuple(donate)
        self.donation = Donation(interface.signature, donate) if donate else None
        self.library = library
        self._dims = interface.dims
        self._call, self._guard = library.acquire(), library.bridge.guard()
        self._step = self._stepper(miss)
        self._run = self.stepper(self._checked)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs) if STATE.scope is None else self.fn(*args, **kwargs)

    def save(self, folder: str | os.PathLike[str], *, target: str = "native") -> None:
        """Write the compiled function into a folder, with a copy of the arrays it captured; `gt.load` reads it.

        target: the machines that its library is for: "native" is this one and those like it; "x86-64", "x86-64-v2",
        "x86-64-v3", "x86-64-v4", "aarch64" (Linux) and "aarch64-macos" are all of that kind, and such a model calls no
        BLAS. A compiler for another system is looked for in GT_CC, on PATH (`aarch64-linux-gnu-gcc`) and in the
        package ziglang. Elsewhere `gt.load` compiles the C again.
        An earlier saved model of that name is replaced. Raises FileError for a folder that holds anything else, and
        for arguments or results that cannot be written down: trees may have dicts with names, lists and tuples,
        static arguments are numbers or texts; OptionError for an unknown target, or another one than that of a model
        that was loaded; ToolchainError where the library must be compiled and there is no compiler for its target.
        """
        values = self.inputs.captures.now()
        if values is None:
            raise self.inputs.refusal(((), {}))
        saved.save(folder, "function", self.compiled, captured_arrays(values), target, donate=list(self.donate))

    def stepper(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the arguments that takes those that fit as they are, and hands others to `otherwise`."""
        return self._stepper(otherwise) if self.inputs.flat else otherwise

    def _stepper(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        if self.donation is not None:
            return otherwise
        return stepper(self._call, self.inputs, self._guard, otherwise, self.outputs.finish)

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        """The result for any arguments, or the error that they deserve."""
        leaves = self.inputs.leaves((args, kwargs))
        if leaves is not None:
            if (result := self.run(leaves)) is not MISS:
                return result
            if any(map(_records, (*leaves, *self.inputs.captures.values))):
                return self.fn(*args, **kwargs)
            fitted = [adapted(leaf, want) for leaf, want in zip(leaves, self.inputs.wanted, strict=True)]
            if (result := self.run(fitted)) is not MISS:
                return result
        raise self.inputs.refusal((args, kwargs))

    def run(self, leaves: list[Any]) -> Any:
        """The result for leaves of the arguments, or MISS if they do not fit."""
        given = self.inputs.given(leaves)
        if given is None:
            return MISS
        result = self._step(*given)
        return self._converted(leaves) if result is MISS else result

    def _converted(self, leaves: list[Any]) -> Any:
        """`run` for leaves that C does not take as they are, or whose call it could not run or finish."""
        arrays = self.inputs.take(leaves)
        if arrays is None:
            return MISS
        dims: dict[str, int] = {}
        if self._dims:
            found = self.inputs.extents(arrays)
            if found is None:
                return MISS
            dims = found
        donation = self.donation
        if donation is not None:
            donation.prepare(leaves, arrays)
        own = self._guard.acquire(False)
        call = self._call if own else self.library.acquire()
        try:
            bind(call, arrays)
            results = self.outputs.bind(call, arrays, dims)
            if dims:
                call.set_dims([dims[name] for name in self._dims])
            if call.call():
                raise self.compiled.error(call.failure())
        finally:
            if own:
                call.unbind()
                self._guard.release()
            else:
                self.library.release(call)
        if donation is not None:
            donation.finish(leaves)
        return self.outputs.tensors(results)


class CompiledFunction(Inspected):
    """A function that is compiled for each signature it is called with; made by `gt.compile`.

    `.trace(*args)` gives the first stage for arguments or specs: `.trace(…).lower().compile()` compiles ahead of time.
    `.graph`, `.kernels`, `.c_source`, `.memory` and `.assembly` show the specialisation that was used last.
    """

    def __init__(self, fn: Callable[..., Any], donate: Sequence[str], static: Sequence[str]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.donate = tuple(donate)
        self.static = tuple(static)
        self._known: dict[Any, Executable] = {}
        self._recent: tuple[Executable, ...] = ()
        self._run: Callable[..., Any] = self._try_recent

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs) if STATE.scope is None else self.fn(*args, **kwargs)

    def _try_recent(self, *args: Any, **kwargs: Any) -> Any:
        """A call of any of the specialisations; `_run` is the same, with a short way for the one used last."""
        for executable in self._recent:
            leaves = executable.inputs.leaves((args, kwargs))
            if leaves is not None and (result := executable.run(leaves)) is not MISS:
                if executable is not self._recent[0]:
                    self._use(executable)
                return result
        return self._dispatch(args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<compiled function {getattr(self.fn, '__name__', self.fn)}, {len(self._known)} signatures>"

    @property
    def compiled(self) -> Code:  # type: ignore[override]
        """The last stage of the specialisation that was used last; raises SignatureError if there is none."""
        return self.last.compiled

    @property
    def last(self) -> Executable:
        """The specialisation that was used last; raises SignatureError if there is none."""
        if not self._recent:
            name = getattr(self.fn, "__name__", "the function")
            raise SignatureError(
                f"{name} is not compiled yet: that happens at the first call",
                hint="call it, or compile ahead of time: .trace(…).lower().compile()",
            )
        return self._recent[0]

    def save(self, folder: str | os.PathLike[str], *, target: str = "native") -> None:
        """Write the specialisation that was used last into a folder, as `Executable.save`."""
        self.last.save(folder, target=target)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The first stage for arguments like these: arrays, tensors, numbers, `gt.spec`, or pytrees of them.

        The function that `.lower().compile()` then gives also serves later calls of this one that fit it.
        Raises TraceError, ShapeError and DTypeError as `gt.trace` does.
        """
        leaves, signature = split_arguments(self.fn, args, kwargs, self.static)
        return self._trace(leaves, signature)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """`trace(…).lower()`."""
        return self.trace(*args, **kwargs).lower()

    def _trace(self, leaves: Sequence[Any], signature: Signature) -> Traced:
        settings, started = Settings.now(), time.perf_counter()
        traced = trace_call(self.fn, leaves, signature)
        wiring = Wiring(alias=pairs(traced, self.donate))
        return Traced(traced, wiring, settings, time.perf_counter() - started, self._adopt)

    def _adopt(self, compiled: Compiled) -> Executable:
        """Keep a compiled specialisation for later calls."""
        executable = Executable(self.fn, compiled, self.donate)
        key = compiled.traced.call.signature.key
        replaced = self._known.get(key)
        self._known[key] = executable
        self._use(executable, replaced)
        return executable

    def _use(self, executable: Executable, replaced: Executable | None = None) -> None:
        """Put a specialisation first among those that a call tries."""
        others = (other for other in self._recent if other is not executable and other is not replaced)
        self._recent = (executable, *others)[:RECENT]
        self._run = executable.stepper(self._try_recent)

    def _dispatch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that none of the recent specialisations takes as it is."""
        leaves, signature = split_arguments(self.fn, args, kwargs, self.static)
        if any(map(_records, leaves)):
            return self.fn(*args, **kwargs)
        executable = self._find(signature)
        if executable is None:
            for leaf, name in zip(leaves, signature.names, strict=True):
                _require_value(leaf, name)
            executable = self._trace(leaves, signature).lower().compile()
        elif executable.inputs.captures.now() is None:
            executable = self._trace(leaves, executable.inputs.signature).lower().compile()
        if any(map(_records, executable.inputs.captures.values)):
            return self.fn(*args, **kwargs)
        plain = executable.inputs.leaves((args, kwargs))
        result = MISS if plain is None else executable.run([normal(leaf) for leaf in plain])
        if result is MISS:
            raise executable.inputs.refusal((args, kwargs))
        self._use(executable)
        return result

    def _find(self, signature: Signature) -> Executable | None:
        """The specialisation for a signature: its own, or one with a run-time extent that it fits."""
        own = self._known.get(signature.key)
        if own is not None:
            return own
        for executable in list(self._known.values()):
            inputs = executable.inputs
            same = inputs.dynamic and inputs.signature.structure == signature.structure
            if same and inputs.takes(signature.types, signature.statics):
                return executable
        return None


RECENT = 8
"""How many specialisations a call tries one after another before it looks up its signature."""


def _held(signature: Signature) -> list[Any]:
    """The static arguments, which may hold arrays."""
    return [value for _, value in signature.statics]


def _records(leaf: Any) -> bool:
    """Whether a leaf makes a compiled function run as Python: a traced tensor, or one whose history is recorded."""
    if not isinstance(leaf, Tensor) or leaf.donated:
        return False
    return leaf.data is None or leaf.record is not None or leaf.requires_grad


def _require_value(leaf: Any, name: str) -> None:
    """Refuse an argument that stands for an array but has no numbers."""
    if isinstance(leaf, Spec):
        raise TraceError(
            f"{name} is a spec, not an array", hint="give specs to .trace(…), arrays to the compiled function"
        )
    if isinstance(leaf, Tensor):
        leaf.require_alive()


@overload
def compile(fn: Callable[..., Any], *, donate: Names = (), static: Names = ()) -> CompiledFunction: ...
@overload
def compile(fn: None = None, *, donate: Names = (), static: Names = ()) -> Decorator: ...


def compile(fn: Callable[..., Any] | None = None, *, donate: Names = (), static: Names = ()) -> Any:
    """Compile a function to C at its first call with each signature; a decorator, with or without arguments.

    The function takes and returns pytrees of arrays, tensors and numbers; results are tensors. `donate` names
    arguments whose memory the call may update in place: a donated tensor refuses further use, a donated NumPy array
    is overwritten, and a returned leaf of equal type is the same memory. `static` names arguments whose value is
    part of the signature (strings, functions and None always are). Arrays that the function captures are read at
    each call; what NumPy alone makes of them is made once, while tracing. Raises OptionError for a name that is no
    parameter; a call raises what tracing raises, ToolchainError without a working compiler, and IndexError for an
    index out of range.

    >>> import gtensor as gt
    >>> @gt.compile
    ... def step(x, w):
    ...     return gt.tanh(x @ w), gt.sum(w)
    >>> step(gt.ones((2, 3)), gt.zeros((3, 1)))
    (Tensor([[0.],
            [0.]], dtype=float32), Tensor(0., dtype=float32))
    """
    if fn is None:
        return functools.partial(compile, donate=donate, static=static)
    if not callable(fn):
        raise OptionError(f"compile takes a function, not {type(fn).__name__}")
    given = {"donate": _tuple(donate), "static": _tuple(static)}
    for option, names in given.items():
        _require_parameters(fn, option, names)
    return CompiledFunction(fn, **given)


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _require_parameters(fn: Callable[..., Any], option: str, names: Sequence[str]) -> None:
    """Raise OptionError for a name that is no parameter of the function."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    for name in names:
        if name not in parameters:
            raise OptionError(f"{option}: there is no argument {name!r}", hint=f"arguments are {', '.join(parameters)}")

"""The bridge over which compiled models are called: an extension module where possible, else libffi.

Comes in: a `Workshop` (cache and compiler). Goes out: a `Bridge`, the one that this process uses. In its `api` mode the
calls run through the module of templates/gt_stepper.c, compiled once per machine and Python and cached like a model;
without a compiler or Python.h, in `abi` mode, through cffi and libffi, with nothing to compile. Law: both do the same;
only the time differs.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from . import _abi, sanitizers
from .abi import header, with_headers
from .artefact import Recipe, Workshop
from .compiler import CompileError, ToolchainError
from .folder import roomy
from .options import Options
from .sanitizers import SanitizerError

FFI: Any = _abi.ffi
"""cffi in its mode without compiled code: makes the memory that C sees."""

NAME = "_gtensor_stepper"
"""The module of templates/gt_stepper.c."""

FLAGS = ("-std=gnu11", "-O2", "-w", "-fPIC", "-fvisibility=hidden")

LINK = {"darwin": ("-undefined", "dynamic_lookup")}
"""Platform -> what leaves Python's own symbols to be found when the module is loaded."""


Stepper = Callable[..., Any]


class Guard(Protocol):
    """A lock for `with`, free in a child after fork whatever thread held it.

    `waiting` is how many threads are about to take it: who takes it again and again gives way to them.
    """

    @property
    def waiting(self) -> int: ...
    def acquire(self, blocking: bool = True, /) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


class Wrapper(NamedTuple):
    """Objects that stand for arrays: of exactly this class, holding one in the attribute `data`.

    What the paths in `plain` lead to (names of an attribute, of an attribute of that, …) must be None or False.
    """

    cls: type
    data: str
    plain: tuple[tuple[str, ...], ...]


class Arrays(NamedTuple):
    """What a stepper takes and makes: (slot, dtype, shape, number) of each input, (slot, dtype, shape) of each output.

    A shape has an extent for each axis, or (number of the run-time dimension, factor, bound); there are `dims` of
    these. The number is `f` or `i` for an input that is a Python float or int of 64 bits, and empty for an array.
    """

    inputs: tuple[tuple[int, Any, tuple[Any, ...], str], ...]
    outputs: tuple[tuple[int, Any, tuple[Any, ...]], ...]
    wrapper: Wrapper | None
    state_bytes: int
    dims: int


@dataclass(frozen=True)
class Bridge:
    """How to enter frames, which `FFI` makes. `mode` is `api` or `abi`.

    `enter(frame)` gives a function of no arguments that runs the frame's call and returns its status, `step(frame)`
    one that returns the loss or NaN, `enter_loop(frame)` one that takes a `gt_loop *` and returns the status. All
    release the GIL while C runs, and leave the status in the frame. `guard()` makes a `Guard`, and
    `stepper(frame, owner, arrays, otherwise, finish, guard)` the function that `Call.stepper` returns.
    """

    mode: str
    enter: Callable[[Any], Callable[[], int]]
    step: Callable[[Any], Callable[[], float]]
    enter_loop: Callable[[Any], Callable[[Any], int]]
    guard: Callable[[], Guard]
    stepper: Callable[[Any, object, Arrays, Stepper, Callable[..., Any] | None, Guard], Stepper]


def module(name: str, path: Path) -> Any:
    """An extension module in a file; raises ImportError, or SanitizerError for one that would end this process."""
    sanitizers.check(path)
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(f"no module in {path}")
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def api_bridge(path: Path) -> Bridge:
    """The bridge through a compiled trampoline; raises ImportError or SanitizerError if it does not load."""
    steppers = module(NAME, path)

    def address(pointer: Any) -> int:
        return int(FFI.cast("intptr_t", pointer))

    def stepper(
        frame: Any, owner: object, arrays: Arrays, otherwise: Stepper, finish: Callable[..., Any] | None, guard: Guard
    ) -> Stepper:
        made: Stepper = steppers.Stepper(
            frame=address(frame),
            owner=owner,
            state_bytes=arrays.state_bytes,
            inputs=arrays.inputs,
            outputs=arrays.outputs,
            wrapper=arrays.wrapper,
            otherwise=otherwise,
            finish=finish,
            guard=guard,
            array_type=np.ndarray,
            empty=np.empty,
            dims=arrays.dims,
        )
        return made

    return Bridge(
        mode="api",
        enter=lambda frame: partial(steppers.enter, address(frame), frame),
        step=lambda frame: partial(steppers.step, address(frame), frame),
        enter_loop=lambda frame: lambda loop: steppers.enter_loop(address(frame), address(loop)),
        guard=steppers.Guard,
        stepper=stepper,
    )


class PlainGuard:
    """A `Guard` without C. Who waits is not counted: Python's own locks wake one that waits."""

    _all: ClassVar[weakref.WeakSet[PlainGuard]] = weakref.WeakSet()
    waiting = 0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all.add(self)

    def acquire(self, blocking: bool = True, /) -> bool:
        """Take it; False if it is taken and `blocking` is false."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Let it go."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @classmethod
    def after_fork(cls) -> None:
        """In a child: nobody holds what threads of the parent held."""
        for guard in cls._all:
            guard._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PlainGuard.after_fork)


def abi_bridge() -> Bridge:
    """The bridge that needs nothing compiled."""

    def enter(frame: Any) -> Callable[[], int]:
        call, args = frame.call, FFI.addressof(frame, "args")

        def run() -> int:
            frame.status = status = int(call(args))
            return status

        return run

    def step(frame: Any) -> Callable[[], float]:
        run = enter(frame)
        return lambda: float("nan") if run() else float(frame.args.loss)

    def enter_loop(frame: Any) -> Callable[[Any], int]:
        loop, args = frame.run, FFI.addressof(frame, "args")

        def run(what: Any) -> int:
            frame.status = status = int(loop(args, what))
            return status

        return run

    def stepper(
        frame: Any, owner: object, arrays: Arrays, otherwise: Stepper, finish: Callable[..., Any] | None, guard: Guard
    ) -> Stepper:
        return otherwise

    return Bridge(mode="abi", enter=enter, step=step, enter_loop=enter_loop, guard=PlainGuard, stepper=stepper)


def source() -> str:
    """The C of the trampoline."""
    return header("gt_stepper.c")


def recipe() -> Recipe:
    """What the trampoline is made from: its C and the headers, and this Python."""
    python = f"{sys.implementation.cache_tag}{sys.abiflags} {sysconfig.get_platform()}"
    files = with_headers({"gt_stepper.c": source()})
    parts = [python, *(f"{name}\n{text}" for name, text in sorted(files.items()))]
    return Recipe("trampoline", "\n".join(parts), FLAGS, LINK.get(sys.platform, ()), plain=True)


def compiled(workshop: Workshop) -> Path:
    """The extension module, from the cache or made now; raises ImportError or ToolchainError.

    A compiler that failed on it once is not tried again: the process would wait for the failure each time.
    """
    made = recipe()
    entry = workshop.find(made)
    if entry is None:
        include = Path(sysconfig.get_path("include"))
        if not (include / "Python.h").exists():
            raise ImportError(f"there is no Python.h in {include}")
        folder, about = workshop.cache.folder, workshop.key(made).text
        if folder.recall("trampoline", about) is not None:
            raise ImportError("the compiler failed on it before")
        try:
            entry = workshop.make(made, {"gt_stepper.c": source()}, search=(include,))
        except CompileError as error:
            # Neither killed nor out of room: it would fail again.
            if error.process.status > 0 and roomy(folder.writable()):
                folder.remember("trampoline", about, "failed")
            raise
    return entry.library_path


_CHOSEN: list[Bridge] = []
"""The bridge of this process, once chosen."""

_CHOOSING = PlainGuard()


def bridge(workshop: Workshop) -> Bridge:
    """The bridge of this process: through the trampoline if it can be had."""
    with _CHOOSING:
        if not _CHOSEN:
            try:
                _CHOSEN.append(api_bridge(compiled(workshop)))
            except (ImportError, OSError, ToolchainError, SanitizerError) as error:
                workshop.options.say(1, f"calls: through libffi, since there is no trampoline: {error}")
                _CHOSEN.append(abi_bridge())
        return _CHOSEN[0]


def begin(options: Options) -> None:
    """Choose the bridge in a thread, so that a trampoline is compiled while the caller compiles something else."""
    if not _CHOSEN:
        threading.Thread(target=lambda: bridge(Workshop(options))).start()

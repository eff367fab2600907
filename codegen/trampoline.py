"""The bridge over which compiled models are called: cffi's API mode where possible, else its ABI mode.

Comes in: a `Workshop` (cache and compiler). Goes out: a `Bridge`, the one that this process uses. In API mode the
calls run through a small extension module, compiled once per machine and Python and cached like a model; without a
compiler or Python.h they run through libffi, with nothing to compile. Law: both do the same; only the time differs.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import _cffi_backend
from cffi import FFI

from . import _abi
from .abi import declarations, header
from .artefact import Recipe, Workshop
from .compiler import CompileError, ToolchainError

NAME, STEPPER = "_gtensor_trampoline", "_gtensor_stepper"
"""The two modules in the compiled file: cffi's, and that of templates/gt_stepper.c."""

FUNCTIONS = """\
int32_t gt_enter(gt_frame *frame);
double gt_step(gt_frame *frame);
int32_t gt_enter_loop(gt_frame *frame, gt_loop *loop);
"""

PREAMBLE = """\
#include <math.h>
#include "gt_frame.h"

static int32_t gt_enter(gt_frame *frame) { return frame->status = frame->call(&frame->args); }

/* The loss, or NaN when the call failed: only then need the caller look at the status. */
static double gt_step(gt_frame *frame) { return gt_enter(frame) ? NAN : frame->args.loss; }

static int32_t gt_enter_loop(gt_frame *frame, gt_loop *loop) {
    return frame->status = frame->run(&frame->args, loop);
}
"""

FLAGS = ("-std=gnu11", "-O2", "-w", "-fPIC", "-fvisibility=hidden")

LINK = {"darwin": ("-undefined", "dynamic_lookup")}
"""Platform -> what leaves Python's own symbols to be found when the module is loaded."""


Stepper = Callable[..., Any]
Guard = AbstractContextManager[Any]


@dataclass(frozen=True)
class Bridge:
    """How to make frames and enter them. `mode` is `api` or `abi`; `ffi` makes the memory that C sees.

    `enter(frame)` gives a function of no arguments that runs the frame's call and returns its status, `step(frame)`
    one that returns the loss or NaN, `enter_loop(frame)` one that takes a `gt_loop *` and returns the status. All
    release the GIL while C runs, and leave the status in the frame. `guard()` makes a lock for `with`, and
    `stepper(frame, owner, inputs, otherwise, guard)` the function that `Call.stepper` returns.
    """

    mode: str
    ffi: Any
    enter: Callable[[Any], Callable[[], int]]
    step: Callable[[Any], Callable[[], float]]
    enter_loop: Callable[[Any], Callable[[Any], int]]
    guard: Callable[[], Guard]
    stepper: Callable[[Any, object, tuple[Any, ...], Stepper, Guard], Stepper]


def module(name: str, path: Path) -> Any:
    """An extension module in a file; raises ImportError."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(f"no module in {path}")
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def api_bridge(path: Path) -> Bridge:
    """The bridge through a compiled trampoline; raises ImportError if it does not load."""
    trampoline, steppers = module(NAME, path), module(STEPPER, path)
    ffi, lib = trampoline.ffi, trampoline.lib
    return Bridge(
        mode="api",
        ffi=ffi,
        enter=lambda frame: partial(lib.gt_enter, frame),
        step=lambda frame: partial(lib.gt_step, frame),
        enter_loop=lambda frame: partial(lib.gt_enter_loop, frame),
        guard=steppers.Guard,
        stepper=lambda frame, *rest: steppers.Stepper(int(ffi.cast("intptr_t", frame)), *rest),
    )


def abi_bridge() -> Bridge:
    """The bridge that needs nothing compiled."""
    ffi: Any = _abi.ffi

    def enter(frame: Any) -> Callable[[], int]:
        call, args = frame.call, ffi.addressof(frame, "args")

        def run() -> int:
            frame.status = status = int(call(args))
            return status

        return run

    def step(frame: Any) -> Callable[[], float]:
        run = enter(frame)
        return lambda: float("nan") if run() else float(frame.args.loss)

    def enter_loop(frame: Any) -> Callable[[Any], int]:
        loop, args = frame.run, ffi.addressof(frame, "args")

        def run(what: Any) -> int:
            frame.status = status = int(loop(args, what))
            return status

        return run

    def stepper(frame: Any, owner: object, inputs: tuple[Any, ...], otherwise: Stepper, guard: Guard) -> Stepper:
        return otherwise

    return Bridge(
        mode="abi", ffi=ffi, enter=enter, step=step, enter_loop=enter_loop, guard=threading.Lock, stepper=stepper
    )


def sources() -> dict[str, str]:
    """The C of the two modules; cffi writes its own, which takes its parser a moment."""
    ffi = FFI()
    ffi.cdef(declarations() + FUNCTIONS)
    ffi.set_source(NAME, PREAMBLE, compiler_verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trampoline.c"
        ffi.emit_c_code(str(path))
        return {path.name: path.read_text(encoding="utf-8"), "gt_stepper.c": header("gt_stepper.c")}


def recipe() -> Recipe:
    """What the trampoline is made from: the interface, this Python and this cffi."""
    python = f"{sys.implementation.cache_tag}{sys.abiflags} {sysconfig.get_platform()}"
    parts = [python, f"cffi {_cffi_backend.__version__}", declarations(), FUNCTIONS, PREAMBLE, header("gt_stepper.c")]
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
            entry = workshop.make(made, sources(), search=(include,))
        except CompileError:
            folder.remember("trampoline", about, "failed")
            raise
    return entry.library_path


_CHOSEN: list[Bridge] = []
"""The bridge of this process, once chosen; several at once would do no harm."""


def bridge(workshop: Workshop) -> Bridge:
    """The bridge of this process: API mode if the trampoline can be had, else ABI mode."""
    if not _CHOSEN:
        try:
            _CHOSEN.append(api_bridge(compiled(workshop)))
        except (ImportError, OSError, ToolchainError) as error:
            workshop.options.say(1, f"calls: cffi's ABI mode, since there is no trampoline: {error}")
            _CHOSEN.append(abi_bridge())
    return _CHOSEN[0]

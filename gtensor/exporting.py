"""`gt.export`: a compiled step or function as a small C project that needs no Python.

Comes in: a `TrainStep`, `Resident` or compiled function, perhaps a function bound to the same state. Goes out: a folder
with C99, a header, an example, a Makefile and a CMakeLists.txt. Laws: the same graph and the same C as a Python build
of that variant, so the same bits; nothing is overwritten that is not as an earlier export left it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .api import CompiledFunction, Executable
from .codegen import build, exported
from .codegen.platforms import NATIVE
from .codegen.target import PORTABLE, Target
from .errors import FileError, OptionError
from .resident import Bound, Resident
from .stages import Settings, user_errors
from .trace import to_array
from .train import TrainStep

VARIANTS = ("portable", "vector")
"""What the C is written for."""

PARAMETERS = ("array", "file")
"""Where the state is: in the C, or beside it."""

LIST = "gtensor.sha256"
"""The file that tells which files of a folder an export wrote, and how: `sha256sum -c` reads it."""


def export(
    folder: str | os.PathLike[str],
    step: Any,
    *,
    predict: Bound | None = None,
    predict_only: bool = False,
    parameters: str = "array",
    prefix: str = "model",
    variant: str = "portable",
    target: str = NATIVE,
) -> list[Path]:
    """Write a step as C that goes on training, or a function as C, into a folder; returns the files.

    step: a `TrainStep` (its function is called `train_step`), a `Resident` (`step`) or a compiled function (`predict`);
    predict: what `step.bind` gave, a function of the same state, called `predict`; with `predict_only` the step itself
    is left out, and of the state all that `predict` does not use. parameters: "array" puts the state, as it is now,
    into the C; "file" into a file that a program reads and hands over. prefix: begins all names, and is the name of
    the files. The C is C99 and calls nothing but <string.h> and <math.h>; all memory is its caller's, of a size that
    the header states. Arrays that a function captured become constants.
    variant: "portable" runs anywhere; "vector" is written for the vectors of `target`, with its compiler flags, and is
    no C99 but the C of gcc and clang. target: "native" is this machine, others are named as for `Executable.save`.
    A folder that an export of this prefix made is written to again; other files in it are left as they are.
    Raises OptionError for a step that cannot be exported and for a wrong option; FileError for a folder with other
    things or with files of an export that were changed since, and where it cannot be written: nothing is changed then;
    ToolchainError for "vector" without a compiler for the target, which is asked for its vectors.

    >>> import gtensor as gt, tempfile, pathlib
    >>> train = gt.TrainStep(lambda w, x: gt.sum((x @ w) ** 2), gt.ones(3), gt.optim.sgd(0.1), gt.spec((4, 3)))
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "line"
    >>> files = gt.export(folder, train, predict=train.bind(lambda w, x: x @ w, gt.spec((1, 3))), prefix="line")
    >>> sorted(path.name for path in files if not path.name.startswith("gt"))
    ['CMakeLists.txt', 'Makefile', 'line.c', 'line.h', 'line_predict.c', 'line_train_step.c', 'main.c']
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix) or prefix.startswith("gt_") or not exported.fits(prefix):
        raise OptionError(
            f"prefix {prefix!r} cannot begin C names", hint="lower case letters, digits and _, such as mlp"
        )
    if parameters not in PARAMETERS:
        raise OptionError(f"parameters must be one of {', '.join(PARAMETERS)}, not {parameters!r}")
    about, functions, state = _parts(step, predict, predict_only)
    if parameters == "file" and not state:
        raise OptionError("there are no parameters for a file: what a function captured is a constant of its C")
    version = sys.modules[__package__ or "gtensor"].__version__
    with user_errors():
        files = exported.project(
            prefix, about, functions, state, _target(variant, target), version, in_file=parameters == "file"
        )
    return _write(Path(folder).expanduser(), prefix, files)


def _target(variant: str, target: str) -> Target:
    if variant not in VARIANTS:
        raise OptionError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    if variant == "vector":
        return build.target(replace(Settings.now().options, target=target))
    if target != NATIVE:
        raise OptionError(f"portable C is the same for {target} as for all", hint="target goes with variant='vector'")
    return PORTABLE


def _parts(
    step: Any, predict: Bound | None, predict_only: bool
) -> tuple[str, list[exported.Function], Sequence[np.ndarray[Any, Any]]]:
    """What the project is, its functions, and the state's arrays."""
    if isinstance(step, CompiledFunction):
        step = step.last
    if isinstance(step, Executable):
        if predict is not None or predict_only:
            raise OptionError("predict is a function bound to the state of a step, and a compiled function has none")
        if step.donate:
            raise OptionError(
                f"{step.inputs.name} donates arguments, which an export cannot do", hint="compile it without"
            )
        return "a function", [_function("predict", step, f"{step.inputs.name}.")], ()
    if not isinstance(step, Resident):
        raise OptionError(f"export takes a TrainStep, a Resident or a compiled function, not {type(step).__name__}")
    if predict is not None and (not isinstance(predict, Bound) or predict.block is not step.block):
        raise OptionError("predict must be what step.bind(…) gave", hint="predict=step.bind(fn, *specs)")
    state = list(step.block.copies().values())
    if predict is not None:
        told = "which changes the state" if predict.compiled.interface.wiring.alias else "with the state as it is"
        bound = _function("predict", predict, f"{predict.inputs.name}, {told}.")
    if predict_only:
        if predict is None:
            raise OptionError("predict_only leaves the step out, and there is nothing else", hint="give predict too")
        program, kept = exported.of_touched_state(bound.program)
        return "a model without its training", [replace(bound, program=program)], [state[leaf] for leaf in kept]
    training = isinstance(step, TrainStep)
    told = "One step of training; loss is that of the batch before it." if training else "One step."
    functions = [_function("train_step" if training else "step", step.step, told)]
    return "a model as C functions", [*functions, *([bound] if predict is not None else [])], state


def _function(name: str, call: Bound | Executable, about: str) -> exported.Function:
    """A function of the project: its program, and the arrays that it captured."""
    program = call.compiled.lowered.program
    values = call.inputs.captures.now()
    if values is None:
        raise call.inputs.refusal(((), {}) if isinstance(call, Executable) else ())
    first = len(program.inputs) - len(values)
    return exported.Function(name, program, {first + i: to_array(value) for i, value in enumerate(values)}, about)


# ---- the folder --------------------------------------------------------------------------------------------


def _write(target: Path, prefix: str, files: Mapping[str, bytes]) -> list[Path]:
    """Write the files and their list; all of them are made beside the folder's own before the first is moved there."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    listed = "".join(f"{digests[name]}  {name}\n" for name in sorted(files))
    try:
        before = _ours(target, prefix)
        clash = sorted(name for name in files if name not in before and os.path.lexists(target / name))
        if clash:
            raise FileError(f"export: {target} has {', '.join(clash)} of somebody else: nothing was written")
        target.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".gtensor-", dir=target))
        try:
            for name, data in {**files, LIST: listed.encode()}.items():
                (draft / name).write_bytes(data)
            for name in sorted({*files, LIST}):
                os.replace(draft / name, target / name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        for name in before - files.keys():
            (target / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"export: {error.filename or target}: {error.strerror}") from None
    return [target / name for name in sorted({*files, LIST})]


def _ours(target: Path, prefix: str) -> set[str]:
    """The files that an earlier export wrote; raises FileError for a folder with other things, or with changed ones."""
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return set()
    lines = (target / LIST).read_text("utf-8", "replace").splitlines() if (target / LIST).is_file() else []
    digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if f"{prefix}.h" not in digests:
        raise FileError(f"export: {target} is there and no export of {prefix}, so it is left as it is")
    there = {name: target / name for name in digests if Path(name).name == name and os.path.lexists(target / name)}
    changed = [name for name, path in there.items() if path.is_symlink() or _digest(path) != digests[name]]
    if changed:
        raise FileError(
            f"export: {', '.join(sorted(changed))} in {target} was changed since it was written: nothing was written",
            hint="rename it, or name another folder",
        )
    return set(there)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

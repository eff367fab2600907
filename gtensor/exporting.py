"""`gt.export`: a compiled step or function as a small C project that needs no Python.

Comes in: a `TrainStep`, `Resident` or compiled function, perhaps a function bound to the same state. Goes out: a folder
with C99, a header, an example, a Makefile and a CMakeLists.txt. Laws: the same graph and the same C as a Python build
of that variant, so the same bits; only a folder that an export made is written to again.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .api import CompiledFunction, Executable
from .codegen import build, exported
from .codegen.cexpr import identifier
from .codegen.ctext import LIBRARY
from .codegen.target import PORTABLE, Target
from .errors import FileError, OptionError
from .resident import Bound, Resident
from .stages import Settings, user_errors
from .trace import to_array
from .train import TrainStep

VARIANTS = ("portable", "vector")


def export(
    folder: str | os.PathLike[str],
    step: Any,
    *,
    predict: Bound | None = None,
    prefix: str = "model",
    variant: str = "portable",
) -> list[Path]:
    """Write a step as C that goes on training, or a function as C, into a folder; returns the files.

    step: a `TrainStep` (its function is called `train_step`), a `Resident` (`step`) or a compiled function (`predict`);
    predict: what `step.bind` gave, a function of the same state, called `predict`; prefix: begins all names, and is
    the name of the files. The C is C99 and calls nothing but <string.h> and <math.h>; all memory is its caller's, of a
    size that the header states; the state is that of now. Arrays that a function captured become constants.
    variant: "portable" runs anywhere; "vector" is written for the vectors of this machine, with its compiler flags,
    and is no C99 but the C of gcc and clang. Raises OptionError for a step that cannot be exported and for a wrong
    prefix, FileError for a folder with other things, ToolchainError for "vector" without a compiler.

    >>> import gtensor as gt, tempfile, pathlib
    >>> train = gt.TrainStep(lambda w, x: gt.sum((x @ w) ** 2), gt.ones(3), gt.optim.sgd(0.1), gt.spec((4, 3)))
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "line"
    >>> files = gt.export(folder, train, predict=train.bind(lambda w, x: x @ w, gt.spec((1, 3))), prefix="line")
    >>> sorted(path.name for path in files if not path.name.startswith("gt_"))
    ['CMakeLists.txt', 'Makefile', 'line.c', 'line.h', 'line_predict.c', 'line_train_step.c', 'main.c']
    """
    plain = re.fullmatch(r"[a-z][a-z0-9_]*", prefix) and identifier(prefix) == prefix and prefix not in LIBRARY
    if not plain or prefix.startswith("gt_"):
        raise OptionError(
            f"prefix {prefix!r} cannot begin C names", hint="lower case letters, digits and _, such as mlp"
        )
    functions, state = _parts(step, predict)
    version = sys.modules[__package__ or "gtensor"].__version__
    with user_errors():
        files = exported.project(prefix, functions, state, _target(variant), version)
    target = Path(folder).expanduser()
    _require_ours(target, prefix)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (target / name).write_text(text, encoding="utf-8")
    return [target / name for name in sorted(files)]


def _target(variant: str) -> Target:
    if variant not in VARIANTS:
        raise OptionError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    return PORTABLE if variant == "portable" else build.target(Settings.now().options)


def _parts(step: Any, predict: Bound | None) -> tuple[list[exported.Function], Sequence[np.ndarray[Any, Any]]]:
    """The functions of the project, and the state's arrays."""
    if isinstance(step, CompiledFunction):
        step = step.last
    if isinstance(step, Executable):
        if predict is not None:
            raise OptionError("predict is a function bound to the state of a step, and a compiled function has none")
        if step.donate:
            raise OptionError(
                f"{step.inputs.name} donates arguments, which an export cannot do", hint="compile it without"
            )
        return [_function("predict", step, f"{step.inputs.name}.")], ()
    if not isinstance(step, Resident):
        raise OptionError(f"export takes a TrainStep, a Resident or a compiled function, not {type(step).__name__}")
    if predict is not None and (not isinstance(predict, Bound) or predict.block is not step.block):
        raise OptionError("predict must be what step.bind(…) gave", hint="predict=step.bind(fn, *specs)")
    training = isinstance(step, TrainStep)
    about = "One step of training: the loss of the batch before it." if training else "One step."
    functions = [_function("train_step" if training else "step", step.step, about)]
    if predict is not None:
        functions.append(_function("predict", predict, f"{predict.inputs.name}, with the state as it is."))
    return functions, list(step.block.copies().values())


def _function(name: str, call: Bound | Executable, about: str) -> exported.Function:
    """A function of the project: its program, and the arrays that it captured."""
    program = call.compiled.lowered.program
    values = call.inputs.captures.now()
    if values is None:
        raise call.inputs.refusal(((), {}) if isinstance(call, Executable) else ())
    first = len(program.inputs) - len(values)
    return exported.Function(name, program, {first + i: to_array(value) for i, value in enumerate(values)}, about)


def _require_ours(target: Path, prefix: str) -> None:
    """Raise FileError for a folder with things in it that no export wrote."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    header = target / f"{prefix}.h"
    if not header.is_file() or "written by gtensor" not in header.read_text(encoding="utf-8")[:200]:
        raise FileError(f"export: {target} is there and no export of {prefix}, so it is left as it is")

"""`gt.load`: a saved model back as what it was, without tracing it, and without a compiler where its library fits.

Comes in: a folder that `save` wrote. Goes out: a function, a Resident or a TrainStep that goes on where it was. Law:
what is loaded gives the bits of what was saved, on the same kind of machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from . import tree
from .api import Executable
from .errors import FileError, OptionError, TraceError
from .resident import Block, Bound, Resident
from .saved import LoadedCode, read
from .train import TrainStep

Array = np.ndarray[Any, Any]


def load(folder: str | os.PathLike[str]) -> Any:
    """What `save` wrote into a folder: a compiled function, a `Resident` or a `TrainStep`, ready to be called.

    Nothing is traced, and where the library was made for a machine like this one, nothing is compiled; elsewhere its C
    is compiled again. A library is code: load models only from those whom you would let run programs. Raises FileError
    for a folder that is no saved model or damaged, of a newer format, or for another machine where there is no
    compiler; MissingPackageError where it has arrays and the package safetensors is missing.

    >>> import gtensor as gt, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "double"
    >>> gt.compile(lambda x: 2 * x).trace(gt.spec((2,))).lower().compile().save(folder)
    >>> gt.load(folder)(gt.ones(2))
    Tensor([2., 2.], dtype=float32)
    """
    about, code, arrays = read(folder)
    kind = about.get("kind")
    if kind not in _KINDS:
        raise FileError(f"{os.fspath(folder)} holds a {kind!r}, which this version does not know")
    try:
        return _KINDS[kind](about, code, arrays)
    except KeyError as error:
        raise FileError(f"{os.fspath(folder)} is damaged: {error} is missing") from None


class LoadedResident(Resident):
    """A Resident that was loaded."""

    def __init__(self, code: LoadedCode, arrays: Mapping[str, Array]) -> None:
        self.block = _block(code, arrays)
        self.step = Bound(self.block, code, ())


class LoadedTrainStep(TrainStep):
    """A TrainStep that was loaded: it has batches of the size it was compiled for, and no loss function in Python."""

    def __init__(self, about: Mapping[str, Any], code: LoadedCode, arrays: Mapping[str, Array]) -> None:
        self.loss_fn = _no_function(code.interface.name.removeprefix("train_"), code)
        self.has_aux = about["has_aux"]
        self._rate = (np.array(arrays["learning_rate"], np.float64),) if about["rate"] else ()
        self.block = _block(code, arrays)
        self._begin(Bound(self.block, code, ()))

    def _train(self, specs: Any) -> NoReturn:
        raise self._fixed()

    def _train_loss(self, specs: Any) -> NoReturn:
        raise self._fixed()

    def _fixed(self) -> OptionError:
        return OptionError(
            f"this step was loaded from a file and takes batches of {self.step.inputs.rows} rows only",
            hint="give fit that batch_size and drop_last=True, or save a step made with a run-time batch; "
            "bind a function for a loss without a step",
        )


def _block(code: LoadedCode, arrays: Mapping[str, Array]) -> Block:
    """The state, with the names of the saved arrays."""
    arguments = code.interface.signature.structure.children()[0]
    structure = arguments.children()[0]
    names = [path or "state" for path in tree.paths(structure)]
    return Block(tree.unflatten(structure, [arrays[name] for name in names]))


def _no_function(name: str, code: LoadedCode) -> Callable[..., Any]:
    def loaded(*args: Any, **kwargs: Any) -> NoReturn:
        raise TraceError(f"{name} was loaded from {code.folder}: it is C, and can be neither traced nor differentiated")

    loaded.__name__ = name
    return loaded


_KINDS: dict[str, Callable[[Mapping[str, Any], LoadedCode, Mapping[str, Array]], Any]] = {
    "function": lambda about, code, arrays: Executable(
        _no_function(code.interface.name, code), code, tuple(about["donate"])
    ),
    "resident": lambda about, code, arrays: LoadedResident(code, arrays),
    "train": LoadedTrainStep,
}
"""Kind of model -> what it is when loaded."""

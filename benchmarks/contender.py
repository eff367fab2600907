"""What a library brings to the harness.

`<library>_models.py` has `build(name, mode, params, data, opt)`, which gives a `Run`: the training step of a workload
in one of the library's `MODES`. It may have `prepare()`: what is done once per machine, timed apart. Law: a call of a
`Run` has done its updates, and read their losses, when it returns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Run(NamedTuple):
    """`call()` makes `updates` updates and returns the loss before each: a number, or a sequence if there are more.

    `about()` gives whatever else is worth a field of the record.
    """

    call: Callable[[], Any]
    updates: int = 1
    about: Callable[[], dict[str, Any]] = dict


class Unsupported(Exception):
    """A library does not do a workload in this mode; the text says why."""

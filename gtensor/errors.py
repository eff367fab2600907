"""Errors: the user's mistakes and ours, one formatter.

A user error names what was done, the user's file and line, and what to do. An internal error names the
pass or rule and the equation. An error finds the innermost line outside gtensor by itself when it is
made; where the fault stands elsewhere (an equation's line), `at` says so. Law: every error that a user can
cause is a `GTensorError` and also the built-in type that a NumPy user would catch (IndexError, TypeError,
ValueError).
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Self

import numpy as np


@dataclass(frozen=True)
class Source:
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        text = self.text
        return f"{self.base}:{self.line}" + (f"   {text}" if text else "")

    @property
    def base(self) -> str:
        """The file's base name, so that what is printed does not depend on the machine."""
        return self.file.replace("\\", "/").rsplit("/", 1)[-1]

    @property
    def text(self) -> str:
        """The line itself, if it can still be read."""
        return linecache.getline(self.file, self.line).strip()


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_USER_FILES = {_PACKAGE + "demo.py"}
"""Files of the package whose lines are shown as a user's own."""
_BETWEEN = {contextlib.__file__, functools.__file__}
"""Files of Python that stand between the user's line and the package."""


def calling_line() -> tuple[Source, ...]:
    """The innermost line of the call stack that is not gtensor's own; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _USER_FILES or not (file.startswith((_PACKAGE, "<frozen ")) or file in _BETWEEN):
            return (Source(file, frame.f_lineno, frame.f_code.co_name),)
        frame = frame.f_back
    return ()


class GTensorError(Exception):
    """The base of all errors raised on purpose. `sources` are user lines, `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "", sources: Sequence[Source] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.sources = tuple(sources) or calling_line()
        self.operation = ""

    def at(self, sources: Sequence[Source]) -> Self:
        """The same error at these user lines, if any are known."""
        self.sources = tuple(sources) or self.sources
        return self

    def during(self, operation: str, operands: str = "") -> Self:
        """The same error with the operation it happened in and that operation's operands."""
        if not self.operation:
            self.operation = operation
            self.message = f"{operation}: {self.message}" + (f": {operands}" if operands else "")
        return self

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  at {source}" for source in self.sources[:3]]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class ShapeError(GTensorError, ValueError):
    """Shapes, axes or sizes that do not fit."""


class AxisError(ShapeError, IndexError):
    """An axis that an array has not; the standard asks for an IndexError, NumPy users catch a ValueError."""


class DTypeError(GTensorError, TypeError):
    """A dtype that an operation does not take."""


class ProtocolError(DTypeError, AttributeError):
    """An object without the methods of a protocol that it was to speak, such as DLPack."""


class OptionError(GTensorError, ValueError):
    """An option whose value is not one that the function knows, or out of its range."""


class DeviceError(OptionError, BufferError):
    """A device other than the one that gtensor has."""


class CopyError(GTensorError, ValueError, BufferError):
    """A copy that was forbidden and is needed."""


class TraceError(GTensorError, TypeError, ValueError):
    """Something a traced tensor cannot do, such as being an `if` condition, or leaving its trace.

    Of a number that is not known yet the array API has a ValueError, Python a TypeError.
    """


class GradError(GTensorError, TypeError):
    """A derivative that does not exist: an integer input, a non-scalar loss, an op without a rule."""


class GradCheckError(GTensorError, AssertionError):
    """A derivative that differs from differences of values, found by `gt.check_grads`."""


class IndexingError(GTensorError, IndexError):
    """An index out of range, while tracing, in the evaluator, or reported by a compiled call."""


class MatrixError(GTensorError, np.linalg.LinAlgError):
    """A matrix without an answer: singular where an inverse is needed, or not positive definite."""


class SignatureError(GTensorError, TypeError):
    """Arguments of a compiled call that differ from what it was compiled for."""


class DonatedError(GTensorError, RuntimeError):
    """A tensor whose memory was given to a compiled call and overwritten."""


class FileError(GTensorError, ValueError):
    """A file of arrays that is damaged, or does not hold what is expected of it."""


class MissingPackageError(GTensorError, ImportError):
    """An optional package that a function needs."""


class ToolchainError(GTensorError, RuntimeError):
    """No C compiler, one that fails, or a BLAS that was named and is missing; the message says what was tried."""


class InternalError(GTensorError, RuntimeError):
    """A fault of gtensor itself: a pass, a rule or the code generator broke its own law."""

    def __init__(self, message: str, *, hint: str = "", sources: Sequence[Source] = ()) -> None:
        super().__init__(message, hint=hint or "this is a fault of gtensor: please report it", sources=sources)

"""The errors that codegen raises about what it was given.

`ProgramError` says that a program breaks the laws of `program.py` and names the step and the statement. That is
a fault of whoever built the program, never of the user's model, so it carries no user line.
"""

from __future__ import annotations


class CodegenError(Exception):
    """What codegen raises: the base of all its errors."""


class ProgramError(CodegenError):
    """A program breaks a law of `program.py`.

    >>> print(ProgramError("reads outside 'x'", step="k0", statement="Load(v0)"))
    k0: Load(v0): reads outside 'x'
    """

    def __init__(self, message: str, step: str = "", statement: str = "") -> None:
        super().__init__(": ".join(part for part in (step, statement, message) if part))
        self.step = step
        self.statement = statement

"""The command that looks at programs while they run, and the mark of tests that need it.

Valgrind sees what the sanitizers do not: a branch, an index or a result that depends on memory nobody has written.
It knows no AVX-512, so programs for it are compiled for every processor of their kind, without -march=native.
"""

from __future__ import annotations

import shutil

import pytest

WRONG = 97
"""How a program ends in which valgrind found something."""

COMMAND = (
    "valgrind", "--quiet", f"--error-exitcode={WRONG}", "--leak-check=full", "--show-leak-kinds=all",
    "--errors-for-leak-kinds=all",
)  # fmt: skip

with_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

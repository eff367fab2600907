"""Every module of gtensor and gtensor.codegen imports, and the examples in its docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import gtensor
from gtensor.prim import FUNCTIONS

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ROOT = Path(__file__).resolve().parent.parent


def names() -> list[str]:
    """The import name of every module below gtensor/, those of the linked codegen/ included."""
    found = []
    for top in ("gtensor", "gtensor/codegen"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return sorted(set(found))


def test_the_modules_are_found():
    assert {"gtensor", "gtensor.ir", "gtensor.codegen", "gtensor.codegen.program"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples fail: see the output"


def test_examples_of_functions_that_records_make():
    """Such functions stand in no module under their own name, so the search by module passes them by."""
    for name in names():
        importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=FLAGS)
    for name, function in FUNCTIONS.items():
        if vars(sys.modules[function.__module__]).get(function.__name__) is not function:
            for test in finder.find(function, f"gt.{name}", module=False, globs={"gt": gtensor, "np": np}):
                runner.run(test)
    assert runner.failures == 0, f"{runner.failures} of {runner.tries} examples fail: see the output"

"""Modules that are imported when something of them is first needed.

A cached model is loaded without the parts that simplify, lower and write it; those parts are named here
as strings, under `if TYPE_CHECKING` as ordinary imports. Law: what is lazy is only ever used as
`module.name`, and `tests/test_layers.py` counts the string as an import.
"""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """Stands for a module; reading an attribute imports it, and keeps what was read.

    >>> Lazy("json").dumps([1])
    '[1]'
    """

    def __init__(self, name: str, package: str | None = None) -> None:
        self._name = name
        self._package = package

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name, self._package), attribute)
        setattr(self, attribute, value)
        return value

"""What a function holds: closures, defaults, globals that it names, and the objects, dicts and lists behind them.

Comes in: functions and other objects. Goes out: their children, each with the place where it could be replaced.
Law: nothing is called but attribute access; arrays and tensors, modules, classes and gtensor's own objects are ends.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .tensor import Tensor

MAX_PLACES = 10_000
"""How many objects are looked at in one search."""

MAX_ITEMS = 1_000
"""Longer containers are taken for data and not looked into."""

Place = tuple[Any, Any]
"""A container and a key: what `container[key]` gives is held there."""


def held(roots: Iterable[Any], kinds: tuple[type, ...]) -> list[Any]:
    """The objects of some classes that can be reached from some objects.

    >>> def outer(names):
    ...     return lambda: names
    >>> held([outer({"a": [1, 2.5]})], (float,))
    [2.5]
    """
    found: dict[int, Any] = {}
    seen: dict[int, Any] = {}
    waiting = list(roots)
    while waiting and len(seen) < MAX_PLACES:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        for _, child in children(item):
            if isinstance(child, kinds):
                found[id(child)] = child
            elif follows(child):
                waiting.append(child)
    return list(found.values())


class _Attributes:
    """Attributes of an object, or the content of a closure's cell, by key as in a dict."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __getitem__(self, name: str) -> Any:
        return getattr(self.owner, name)


_MISSING = object()


def look(container: Any, key: Any) -> Any:
    """What a place holds now; a mark if it is gone."""
    try:
        return container[key]
    except (KeyError, IndexError, AttributeError, ValueError):
        return _MISSING


def follows(item: Any) -> bool:
    """Whether something may lead to arrays."""
    if isinstance(item, (dict, list, tuple)):
        return len(item) <= MAX_ITEMS
    if isinstance(item, (FunctionType, MethodType, CellType, functools.partial)):
        return True
    if isinstance(item, (type, ModuleType, Tensor, np.ndarray)):
        return False
    return hasattr(item, "__wrapped__") or (hasattr(item, "__dict__") and not _is_own(item))


def _is_own(item: Any) -> bool:
    """Whether an object is gtensor's: what it holds is no name of the user's."""
    return type(item).__module__.partition(".")[0] == __name__.partition(".")[0]


def children(item: Any) -> Iterator[tuple[Place | None, Any]]:
    """What an object holds, and where; without a place where it cannot be replaced."""
    if isinstance(item, dict):
        yield from (((item, key), value) for key, value in list(item.items()))
    elif isinstance(item, list):
        yield from (((item, i), value) for i, value in enumerate(item))
    elif isinstance(item, tuple):
        yield from ((None, value) for value in item)
    elif isinstance(item, FunctionType):
        yield from _children_of_function(item)
    elif isinstance(item, MethodType):
        yield from ((None, item.__func__), (None, item.__self__))
    elif isinstance(item, functools.partial):
        yield from ((None, value) for value in (item.func, item.args, item.keywords))
    elif hasattr(item, "__wrapped__"):
        yield None, item.__wrapped__
    elif hasattr(item, "__dict__"):
        yield from children(vars(item))


def _children_of_function(function: FunctionType) -> Iterator[tuple[Place | None, Any]]:
    """Closure cells, default values and the globals that the code names; of modules, the attributes it names."""
    for cell in function.__closure__ or ():
        content = _Attributes(cell)
        if (value := look(content, "cell_contents")) is not _MISSING:
            yield (content, "cell_contents"), value
    yield from ((None, value) for value in function.__defaults__ or ())
    yield from ((None, value) for value in (function.__kwdefaults__ or {}).values())
    named = set(_names(function.__code__))
    for name in named & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and not _is_own_module(value):
            yield from (((vars(value), key), vars(value)[key]) for key in named & vars(value).keys())
        else:
            yield (function.__globals__, name), value


def _is_own_module(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] == __name__.partition(".")[0]


def _names(code: CodeType) -> Iterator[str]:
    """The names that code and the functions inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)

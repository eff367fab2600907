"""The arrays that a traced function reads besides its arguments, as they are at each call.

Comes in: what a trace captured, the function and its static arguments. Goes out: the arrays to bind now. A change
inside an array is seen because the array itself is bound; a name bound to another array is seen because the places
where the arrays were found (globals, closures, attributes, dicts, lists) are looked at again. Law: as far as these
places reach, a compiled function reads what the Python function would read; what a property or a function call makes
anew is not followed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .tensor import Tensor
from .trace import leaf_type
from .types import Type

MAX_PLACES = 10_000
"""How many objects are looked at in search of the captured arrays."""

MAX_ITEMS = 1_000
"""Longer containers are taken for data and not looked into."""

Place = tuple[Any, Any]
"""A container and a key: what `container[key]` gives is held there."""


class Captures:
    """What a function captured, in the order of the compiled inputs."""

    def __init__(self, values: Sequence[Any], types: Sequence[Type], roots: Iterable[Any]) -> None:
        self.values = tuple(values)
        self.types = tuple(types)
        self._places: list[tuple[int, Place]] = []
        self._links: list[tuple[Place, Any]] = []
        if values:
            self._find(roots)

    def now(self) -> tuple[Any, ...] | None:
        """The arrays and tensors to read; None if one was replaced by something of another type, or moved."""
        values = self.values
        for (container, key), child in self._links:
            if _look(container, key) is not child:
                return None
        for number, (container, key) in self._places:
            if _look(container, key) is not values[number]:
                return self._replaced()
        return values

    def _replaced(self) -> tuple[Any, ...] | None:
        """Take what now stands where the arrays were found, if it fits."""
        found: dict[int, Any] = {}
        for number, (container, key) in self._places:
            value = _look(container, key)
            if found.setdefault(number, value) is not value:
                return None
        for number, value in found.items():
            if not isinstance(value, (np.ndarray, Tensor)) or leaf_type(value) != self.types[number]:
                return None
        self.values = tuple(found.get(number, value) for number, value in enumerate(self.values))
        return self.values

    def _find(self, roots: Iterable[Any]) -> None:
        """Search the places of the captured arrays, and the links from the function to these places."""
        numbers = {id(value): number for number, value in enumerate(self.values)}
        held: dict[int, Any] = {}
        parents: dict[int, list[tuple[Place | None, Any]]] = {}
        waiting = list(roots)
        while waiting and len(held) < MAX_PLACES:
            item = waiting.pop()
            if id(item) in held:
                continue
            held[id(item)] = item
            for place, child in _children(item):
                if id(child) in numbers and place is not None:
                    self._places.append((numbers[id(child)], place))
                elif not _follows(child):
                    continue
                else:
                    waiting.append(child)
                parents.setdefault(id(child), []).append((place, item))
        needed, seen = [id(value) for value in self.values], set()
        while needed:
            child = needed.pop()
            if child in seen:
                continue
            seen.add(child)
            for place, parent in parents.get(child, ()):
                needed.append(id(parent))
                if place is not None and child not in numbers:
                    self._links.append((place, held[child]))


class _Attributes:
    """Attributes of an object, or the content of a closure's cell, by key as in a dict."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __getitem__(self, name: str) -> Any:
        return getattr(self.owner, name)


_MISSING = object()


def _look(container: Any, key: Any) -> Any:
    """What a place holds now; a mark if it is gone."""
    try:
        return container[key]
    except (KeyError, IndexError, AttributeError, ValueError):
        return _MISSING


def _follows(item: Any) -> bool:
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


def _children(item: Any) -> Iterator[tuple[Place | None, Any]]:
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
        yield from _children(vars(item))


def _children_of_function(function: FunctionType) -> Iterator[tuple[Place | None, Any]]:
    """Closure cells, default values and the globals that the code names; of modules, the attributes it names."""
    for cell in function.__closure__ or ():
        content = _Attributes(cell)
        if (value := _look(content, "cell_contents")) is not _MISSING:
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

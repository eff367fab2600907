"""The arrays that a traced function reads besides its arguments, as they are at each call.

Comes in: what a trace captured, the function and its static arguments. Goes out: the arrays to bind now. A change
inside an array is seen because the array itself is bound; a name bound to another array is seen because the places
where the arrays were found (globals, closures, attributes, dicts, lists) are looked at again. Law: as far as these
places reach, a compiled function reads what the Python function would read; what a property or a function call makes
anew is not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .reach import MAX_PLACES, Place, children, follows, look
from .tensor import Tensor
from .trace import leaf_type
from .types import Type


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
            if look(container, key) is not child:
                return None
        for number, (container, key) in self._places:
            if look(container, key) is not values[number]:
                return self._replaced()
        return values

    def _replaced(self) -> tuple[Any, ...] | None:
        """Take what now stands where the arrays were found, if it fits."""
        found: dict[int, Any] = {}
        for number, (container, key) in self._places:
            value = look(container, key)
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
            for place, child in children(item):
                if id(child) in numbers and place is not None:
                    self._places.append((numbers[id(child)], place))
                elif not follows(child):
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

"""What an eager result remembers: the equation that made it, over tensors.

Comes in: a primitive, its operands, the recordings that want to know. Goes out: a `Record` that hangs on the
result and dies with it. Law: results of one equation with several have the same serial number and keys of
their own, so that the equation is one step and each result one value of the reverse walk.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import Source
from .prim import Prim

if TYPE_CHECKING:
    from .tensor import Tensor


class Record:
    """How an eager result came about: its equation over tensors. `levels` are the recordings that want it.

    `out` is the result without its record, so that no cycle forms; `whole` has all results of an equation with
    several, of which this is the one at `place`.
    """

    __slots__ = ("ins", "levels", "out", "params", "place", "prim", "serial", "source", "whole")
    _counter = itertools.count()

    def __init__(
        self,
        prim: Prim | None,
        ins: tuple[Tensor, ...],
        params: Mapping[str, Any],
        levels: frozenset[int],
        source: tuple[Source, ...] = (),
        serial: int | None = None,
    ) -> None:
        self.prim = prim
        self.ins = ins
        self.params = params
        self.levels = levels
        self.source = source
        self.serial = next(Record._counter) if serial is None else serial
        self.out: Any = None
        self.whole: tuple[Tensor, ...] | None = None
        self.place = 0

    @property
    def key(self) -> Any:
        """What identifies the result."""
        return id(self) if self.whole is None else (id(self.whole), self.place)

    def result(self, whole: tuple[Tensor, ...], place: int) -> Record:
        """The same equation as the maker of one of its several results."""
        record = Record(self.prim, self.ins, self.params, self.levels, self.source, self.serial)
        record.whole, record.place, record.out = whole, place, whole[place]
        return record

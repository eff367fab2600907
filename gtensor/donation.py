"""Donated arguments: which output takes over which argument's memory, and when C may really write it.

Comes in: a traced function and the names it donates; at each call, the leaves and their arrays. Goes out: the
pairs of output and input; arrays that C may overwrite. Laws: memory that anything but the donated argument can
see is never written (it is copied, or refused); after a call that worked, a donated tensor refuses further use;
after one that raised, all is as before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .calls import READABLE
from .errors import DonatedError
from .tensor import Tensor
from .trace import Signature, Traced
from .types import Type, float32

Array = np.ndarray[Any, Any]


def positions(signature: Signature, names: Sequence[str]) -> list[int]:
    """The leaves of the arguments with these names."""
    heads = [name.split(".")[0] for name in signature.names]
    return [i for i, head in enumerate(heads) if head in names and signature.types[i] is not None]


def pairs(traced: Traced, names: Sequence[str]) -> dict[int, int]:
    """Which graph output takes over which graph input: equal types, and the same path below the argument if possible.

    So in `return params, state` the leaf `state.m.w` goes to the memory of `state.m.w`, whatever the order.
    """
    signature, graph = traced.signature, traced.graph
    numbers = {leaf: i for i, leaf in enumerate(i for i, t in enumerate(signature.types) if t is not None)}
    free = {numbers[leaf]: signature.names[leaf] for leaf in positions(signature, names)}
    found: dict[int, int] = {}
    for by_path in (True, False):
        for output, (atom, name) in enumerate(zip(graph.outputs, graph.output_names, strict=True)):
            if output in found:
                continue
            for number, donated in free.items():
                if graph.inputs[number].type == atom.type and (not by_path or _same_path(name, donated)):
                    found[output] = number
                    del free[number]
                    break
    return found


def _same_path(output: str, donated: str) -> bool:
    """Whether an output stands where the argument's leaf stood.

    >>> _same_path("1.m.w", "state.m.w"), _same_path("state.m.w", "state.m.w"), _same_path("0.w", "state.m.w")
    (True, True, False)
    """
    path = donated.partition(".")[2]
    return output == donated or path in (output, output.partition(".")[2])


class Donation:
    """The donated leaves of one signature: their positions among the leaves and among the arrays of a call."""

    def __init__(self, signature: Signature, names: Sequence[str]) -> None:
        types = signature.types
        self.leaves = positions(signature, names)
        self.slots = [sum(t is not None for t in types[:leaf]) for leaf in self.leaves]
        self.names = [signature.names[leaf] for leaf in self.leaves]

    def prepare(self, leaves: Sequence[Any], arrays: list[Array]) -> None:
        """Replace arrays of donated leaves by ones that C may overwrite: the leaf's own memory if nothing else sees it.

        A tensor's memory that something else can see is copied, and so are inputs that overlap a donated array.
        Raises DonatedError for a donated array that is read-only, not contiguous, or overlaps another donated one.
        """
        written: dict[int, str] = {}
        held = [id(array) for array in arrays]
        for position, slot, name in zip(self.leaves, self.slots, self.names, strict=True):
            leaf = leaves[position]
            if leaf.__class__ is np.ndarray:
                _require_writable(leaf, name)
                for other in written:
                    if np.may_share_memory(arrays[other], leaf):
                        raise DonatedError(f"the donated arguments {written[other]} and {name} share memory")
                written[slot] = name
            elif not isinstance(leaf, Tensor) or held.count(held[slot]) > 1 or not _only_ours(leaf):
                arrays[slot] = np.array(arrays[slot], order="C")
        for slot in written:
            for other in range(len(arrays)):
                if other != slot and np.may_share_memory(arrays[other], arrays[slot]):
                    arrays[other] = np.array(arrays[other], order="C")
            arrays[slot] = arrays[slot].view()

    def finish(self, leaves: Sequence[Any]) -> None:
        """Make the donated tensors refuse further use."""
        for position in self.leaves:
            leaf = leaves[position]
            if isinstance(leaf, Tensor):
                leaf.donated, leaf.data = True, _GONE


_GONE: Array = np.empty(0, np.uint8)
"""The data of a donated tensor."""


def _require_writable(array: Array, name: str) -> None:
    if not array.flags.carray:
        reason = "is read-only" if not array.flags.writeable else "is not C-contiguous"
        raise DonatedError(
            f"the donated argument {name} {reason}, so its memory cannot be updated in place",
            hint="pass a writable, C-contiguous array, or do not donate it",
        )


def _only_ours(tensor: Tensor) -> bool:
    """Whether nothing but the tensor and the list of arrays holds its memory: no view, no second tensor."""
    data = tensor.data
    if data is None or data.flags.num & READABLE != READABLE:
        return False
    owner = data.base
    if owner is not None and (not isinstance(owner, np.ndarray) or not owner.flags.owndata):
        return False
    whole = owner is None
    del data, owner
    return _holders(tensor) <= _ALONE + 1 and (whole or _holders_of_base(tensor) <= _ALONE)


def _holders(tensor: Tensor) -> int:
    return sys.getrefcount(tensor.data)


def _holders_of_base(tensor: Tensor) -> int:
    return sys.getrefcount(tensor.data.base)  # type: ignore[union-attr]


def _count_alone() -> int:
    """What `_holders` gives for memory that one tensor alone holds: it depends on the version of Python."""
    return _holders(Tensor(Type((), float32), np.empty((), np.float32)))


_ALONE = _count_alone()

"""Gradient accumulation: an optimizer that moves the parameters at every n-th call, by the mean gradient.

Comes in: an optimizer. Goes out: one with the same use, for batches that do not fit at once. Laws: between
the n-th calls parameters and the optimizer's state stay as they are to the bit; one compiled step serves
all calls, which choose by a counter in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import tree
from ..errors import OptionError
from ..ops.arithmetic import astype, where
from ..tensor import Tensor, as_tensor
from ..types import int64
from .optimizer import Optimizer, State, again, column, count, entry, fitted, moment, recorded


@dataclass(frozen=True)
class Accumulated(Optimizer):
    """The optimizer applied to the mean of the gradients of `every` calls."""

    name: str
    optimizer: Optimizer
    every: int

    def init(self, params: Any) -> State:
        """See `Optimizer.init`: the optimizer's state, the `sum` of gradients, and `calls` since the last step."""
        leaves, structure = tree.flatten(params)
        zeros = tree.unflatten(structure, list(map(moment, leaves)))
        return {"optimizer": self.optimizer.init(params), "sum": zeros, "calls": count()}

    def update(self, params: Any, grads: Any, state: Mapping[str, Any], learning_rate: Any = None) -> tuple[Any, State]:
        """See `Optimizer.update`."""
        leaves, structure = tree.flatten(params)
        given = column(structure, grads, "grads", self.name)
        before = column(structure, entry(state, "sum", self.name), "sum", self.name)
        calls = astype(entry(state, "calls", self.name), int64) + 1
        full = calls == self.every
        totals = [
            None if grad is None else self._total(path, leaf, total, grad)
            for path, leaf, total, grad in zip(tree.paths(structure), leaves, before, given, strict=True)
        ]
        means = [None if total is None else total / self.every for total in totals]
        inner = entry(state, "optimizer", self.name)
        moved, after = self.optimizer.update(params, tree.unflatten(structure, means), inner, learning_rate)
        sums = [old if total is None else where(full, 0, total) for old, total in zip(before, totals, strict=True)]
        return _chosen(full, moved, params), {
            "optimizer": _chosen(full, after, inner),
            "sum": tree.unflatten(structure, sums),
            "calls": where(full, 0, calls),
        }

    def _total(self, path: str, leaf: Any, total: Any, grad: Any) -> Tensor:
        _, total, g = fitted(self.name, path, leaf, ("sum", "its gradient"), (total, grad))
        return total + g


def _chosen(full: Tensor, new: Any, old: Any) -> Any:
    """The new values if this call is the last of its row, else the old ones."""

    def choose(after: Any, before: Any) -> Any:
        if after is before:
            return before
        a, b = (t.detach() if recorded(before) else t for t in map(as_tensor, (after, before)))
        return again(where(full, a, b), before)

    return tree.map_leaves(choose, new, old)


def accumulate(optimizer: Optimizer, every: int) -> Optimizer:
    """The optimizer, stepping at each `every`-th call only, by the mean of the gradients of those calls.

    So `every` batches of n rows with a mean loss move as one of every * n. A compiled step computes the
    candidate at each call and chooses; a learning rate schedule counts the steps, not the calls. State:
    `optimizer`, `sum`, `calls`. Raises OptionError for `every` below 1. Source: optax's MultiSteps.

    >>> import gtensor as gt
    >>> sgd = gt.optim.accumulate(gt.optim.sgd(0.5), every=2)
    >>> params, state = sgd.update(gt.tensor(2.0), gt.tensor(1.0), sgd.init(gt.tensor(2.0)))
    >>> params, sgd.update(params, gt.tensor(3.0), state)[0]
    (Tensor(2., dtype=float32), Tensor(1., dtype=float32))
    """
    if every < 1:
        raise OptionError(f"accumulate: every must be at least 1, not {every}")
    return Accumulated(f"accumulate of {optimizer.name}", optimizer, every)

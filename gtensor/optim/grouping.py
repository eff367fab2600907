"""Parameter groups: one optimizer for the parameters of each pattern of paths, or none for frozen ones.

Comes in: optimizers by pattern. Goes out: one optimizer. Laws: the first pattern that fits a path has it;
every floating-point parameter belongs to a group, and every pattern fits something, so a misspelt pattern
is an error and trains or freezes nothing in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .. import tree
from ..errors import OptionError, ShapeError
from ..trace import leaf_type
from .optimizer import Optimizer, State, column, entry

Pattern = str | Callable[[str], bool]
"""A path with `*`, `?` and `[…]` as in file names (`*` stands for dots too), or a predicate of paths."""


@dataclass(frozen=True)
class Groups(Optimizer):
    """Optimizers by pattern, in order."""

    name: str
    rules: tuple[tuple[Pattern, Optimizer | None], ...]

    def init(self, params: Any) -> State:
        """See `Optimizer.init`: the list of the groups' states, None for frozen ones."""
        leaves, structure = tree.flatten(params)
        owners = self._owners(structure, leaves)
        parts = enumerate(optimizer for _, optimizer in self.rules)
        states = [
            None if optimizer is None else optimizer.init(tree.unflatten(structure, _part(leaves, owners, i)))
            for i, optimizer in parts
        ]
        return {"groups": states}

    def update(self, params: Any, grads: Any, state: Mapping[str, Any], learning_rate: Any = None) -> tuple[Any, State]:
        """See `Optimizer.update`; a learning rate given here is that of all groups."""
        leaves, structure = tree.flatten(params)
        owners = self._owners(structure, leaves)
        given = column(structure, grads, "grads", self.name)
        states = list(entry(state, "groups", self.name))
        if len(states) != len(self.rules):
            raise ShapeError(f"{self.name}: the state is of {len(states)} groups, not of {len(self.rules)}")
        new = list(leaves)
        for i, (_, optimizer) in enumerate(self.rules):
            if optimizer is None:
                continue
            mine, its = (tree.unflatten(structure, _part(values, owners, i)) for values in (leaves, given))
            moved, states[i] = optimizer.update(mine, its, states[i], learning_rate)
            after = iter(tree.flatten(moved)[0])
            new = [next(after) if owner == i else leaf for owner, leaf in zip(owners, new, strict=True)]
        return tree.unflatten(structure, new), {"groups": states}

    def _owners(self, structure: tree.Structure, leaves: list[Any]) -> list[int | None]:
        """The number of each leaf's group; None for leaves that are no floats, which nothing moves."""
        paths = tree.paths(structure)
        fits = [[_fits(pattern, path) for pattern, _ in self.rules] for path in paths]
        for i, (pattern, _) in enumerate(self.rules):
            if not any(row[i] for row in fits):
                raise OptionError(
                    f"{self.name}: no parameter fits {pattern!r}", hint=f"the paths are {', '.join(paths)}"
                )
        return [self._owner(path, leaf, row) for path, leaf, row in zip(paths, leaves, fits, strict=True)]

    def _owner(self, path: str, leaf: Any, fits: list[bool]) -> int | None:
        type_ = leaf_type(leaf)
        if type_ is None or not type_.dtype.floating:
            return None
        if True not in fits:
            raise OptionError(f"{self.name}: {path} fits no pattern", hint='let "*" stand last, for all others')
        return fits.index(True)


def _fits(pattern: Pattern, path: str) -> bool:
    return fnmatchcase(path, pattern) if isinstance(pattern, str) else bool(pattern(path))


def _part(values: list[Any], owners: list[int | None], group: int) -> list[Any]:
    """The values of one group; None, an empty tree, for the others."""
    return [value if owner == group else None for value, owner in zip(values, owners, strict=True)]


def groups(optimizers: Mapping[Pattern, Optimizer | None]) -> Optimizer:
    """One optimizer out of several, each for the parameters whose paths fit its pattern; None freezes them.

    optimizers: pattern -> optimizer, the first that fits counts. A pattern is a path such as "layers.0.w"
    with `*`, `?` and `[…]` as in file names ("*.bias", "encoder.*", "*"), or a predicate of paths. State:
    `groups`, a list. Raises OptionError where a floating-point parameter fits no pattern or a pattern no
    parameter, when the parameters are seen.

    >>> import gtensor as gt
    >>> optimizer = gt.optim.groups({"encoder.*": None, "*.b": gt.optim.sgd(0.1), "*": gt.optim.sgd(0.5)})
    >>> params = {"encoder": {"w": gt.ones(1)}, "head": {"w": gt.ones(1), "b": gt.ones(1)}}
    >>> optimizer.update(params, params, optimizer.init(params))[0]["head"]
    {'w': Tensor([0.5], dtype=float32), 'b': Tensor([0.9], dtype=float32)}
    """
    if not optimizers:
        raise OptionError("groups needs a pattern")
    return Groups("groups", tuple(optimizers.items()))

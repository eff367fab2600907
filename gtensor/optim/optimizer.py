"""What an optimizer is: `Optimizer`, its state, and `PerLeaf`, a rule for one parameter applied to a whole tree.

Comes in: trees of parameters, gradients and state. Goes out: the parameters moved, and the state after it.
Laws: all trees have the structure of the parameters; dtypes are those of the parameters; a leaf whose
gradient is None stays as it is; what does not fit raises, naming the leaf.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import DTypeError, OptionError, ShapeError
from ..ops.arithmetic import astype
from ..ops.create import tensor
from ..pullback import zeros
from ..tensor import STATE, Tensor, as_tensor, cast
from ..trace import leaf_type
from ..types import Type, int64, resolve

State = dict[str, Any]
"""What an optimizer remembers: trees in the structure of the parameters by name, and counts such as `step`."""

Rule = Callable[..., tuple[Tensor, ...]]
"""rule(p, g, rate, step, *moments) -> (p, *moments): one parameter moved by its gradient."""


class Optimizer(ABC):
    """A pair of functions over pytrees: the state before the first step, and one step.

    `name` stands in errors. Instances are made by the functions of `gt.optim`; a subclass with these two
    methods works wherever those do.
    """

    name: str

    @abstractmethod
    def init(self, params: Any) -> State:
        """The state before the first step.

        params: a pytree of floating-point arrays, tensors, numbers or specs; leaves that are none of these
        must be frozen and have no state (None). What is remembered per parameter has its shape and dtype.

        >>> import gtensor as gt
        >>> gt.optim.adam().init({"w": gt.ones(2)})["m"]
        {'w': Tensor([0., 0.], dtype=float32)}
        """

    @abstractmethod
    def update(self, params: Any, grads: Any, state: Mapping[str, Any], learning_rate: Any = None) -> tuple[Any, State]:
        """The parameters moved against the gradients, and the state after it.

        grads: the structure and shapes of params, None for leaves to be left alone; state: what `init` or
        the last `update` gave; learning_rate: a number or scalar tensor (a run-time input inside a compiled
        function) instead of what was given at construction. A leaf with `requires_grad` comes back as such
        a leaf, without the history of the step. Raises ShapeError where grads or state do not fit params,
        OptionError where no learning rate was given.

        >>> import gtensor as gt
        >>> sgd = gt.optim.sgd(0.5)
        >>> params, state = sgd.update([gt.tensor([1.0, 2.0])], [gt.tensor([2.0, 0.0])], sgd.init([gt.ones(2)]))
        >>> params
        [Tensor([0., 2.], dtype=float32)]
        """


@dataclass(frozen=True)
class PerLeaf(Optimizer):
    """An optimizer that moves each parameter by itself: a rule, applied to all leaves of a pytree.

    `learning_rate` is the default of `update`: a number, a scalar tensor, or a schedule, which is called
    with the number of steps taken before this one. `moments` are the names of what the rule remembers per
    parameter, `start` at first. `counts` says whether the rule needs the number of the step, counted from
    1; with a schedule it is counted too (in an int64 scalar, which costs one addition a step, never stops
    growing and converts exactly).
    """

    name: str
    learning_rate: Any
    rule: Rule
    moments: tuple[str, ...] = ()
    counts: bool = False
    start: float = 0.0

    def init(self, params: Any) -> State:
        """See `Optimizer.init`; the state has a tree for each of `moments`, and `step` where steps are counted."""
        leaves, structure = tree.flatten(params)
        state: State = {
            name: tree.unflatten(structure, [moment(leaf, self.start) for leaf in leaves]) for name in self.moments
        }
        if self._counted:
            state["step"] = count()
        return state

    def update(self, params: Any, grads: Any, state: Mapping[str, Any], learning_rate: Any = None) -> tuple[Any, State]:
        """See `Optimizer.update`."""
        leaves, structure = tree.flatten(params)
        columns = [
            column(structure, value, name, self.name)
            for name, value in [("grads", grads), *((m, entry(state, m, self.name)) for m in self.moments)]
        ]
        done = astype(entry(state, "step", self.name), int64) if self._counted else None
        rate = self._rate(learning_rate, done)
        step = None if done is None else done + 1
        moved = [
            self._moved(path, leaf, rate, step, *row)
            for path, leaf, *row in zip(tree.paths(structure), leaves, *columns, strict=True)
        ]
        trees = [tree.unflatten(structure, [row[i] for row in moved]) for i in range(1 + len(self.moments))]
        after: State = dict(zip(self.moments, trees[1:], strict=True))
        if step is not None:
            after["step"] = step
        return trees[0], after

    @property
    def _counted(self) -> bool:
        return self.counts or callable(self.learning_rate)

    def _rate(self, given: Any, done: Tensor | None) -> Tensor:
        """The learning rate of the step that comes after `done` steps."""
        if callable(given):
            raise OptionError(f"{self.name}: a schedule is given to the optimizer, not to update")
        rate = self.learning_rate if given is None else given
        if rate is None:
            raise OptionError(f"{self.name} has no learning rate", hint="give it to the optimizer or to update")
        scalar = as_tensor(rate(done) if callable(rate) else rate)
        if scalar.type.shape != ():
            raise ShapeError(f"{self.name}: the learning rate must be a scalar, not {resolve(scalar.type)}")
        return scalar

    def _moved(
        self, path: str, leaf: Any, rate: Tensor, step: Tensor | None, grad: Any, *moments: Any
    ) -> tuple[Any, ...]:
        """One leaf and its moments after the step."""
        if grad is None:
            return leaf, *moments
        p, *others = fitted(self.name, path, leaf, ("its gradient", *self.moments), (grad, *moments))
        number = None if step is None else cast(step, p.type.dtype)
        new, *after = self.rule(p, others[0], cast(rate, p.type.dtype), number, *others[1:])
        return again(new, leaf), *after


def fitted(optimizer: str, path: str, leaf: Any, names: Sequence[str], others: Sequence[Any]) -> list[Tensor]:
    """A parameter and what belongs to it, in the dtype of the parameter; none with the history of a recorded leaf.

    Raises DTypeError for a parameter that is no float, ShapeError for what has another shape.
    """
    p = as_tensor(leaf)
    dtype = resolve(p.type).dtype
    if not dtype.floating:
        raise DTypeError(f"{optimizer}: {path or 'params'} is {p.type}: only floats can be moved by a gradient")
    rest = list(map(as_tensor, others))
    for name, other in zip(names, rest, strict=True):
        if other.type.shape != p.type.shape:
            raise ShapeError(f"{optimizer}: {path or 'params'} is {resolve(p.type)}, {name} {resolve(other.type)}")
    held = recorded(leaf)
    return [cast(t.detach() if held else t, dtype) for t in (p, *rest)]


def recorded(leaf: Any) -> bool:
    """Whether a parameter is a leaf of PyTorch's style, whose history would grow from step to step."""
    return isinstance(leaf, Tensor) and leaf.requires_grad and STATE.scope is None


def again(new: Tensor, leaf: Any) -> Tensor:
    """The new value of a parameter: a leaf with `requires_grad` where the old one was."""
    return Tensor(new.type, new.numpy(), requires_grad=True) if recorded(leaf) else new


def _filled(type: Type, value: float) -> Tensor:
    """Equal numbers: equations inside a trace, else memory of its own, which a call may update in place."""
    if STATE.scope is None:
        return tensor(np.full(type.shape, value, type.dtype.dtype))
    return zeros(type) + value if value else zeros(type)


def count() -> Tensor:
    """A counter at 0."""
    return _filled(Type((), int64), 0)


def moment(leaf: Any, value: float = 0.0) -> Tensor | None:
    """What is remembered of a parameter at first; None for what is no floating-point array."""
    type_ = leaf_type(leaf)
    return _filled(resolve(type_), value) if type_ is not None and type_.dtype.floating else None


def entry(state: Mapping[str, Any], name: str, optimizer: str) -> Any:
    """One entry of a state; raises OptionError where it is missing."""
    if name not in state:
        raise OptionError(f"{optimizer}: the state has no {name!r}", hint=f"begin with the state of {optimizer}.init")
    return state[name]


def column(structure: tree.Structure, value: Any, name: str, optimizer: str) -> list[Any]:
    """One value per parameter from a tree of the parameters' structure; None where it has None for a leaf."""
    try:
        return list(structure.flatten_up_to(value))
    except ValueError as error:
        raise ShapeError(f"{optimizer}: {name} does not have the structure of params: {error}") from None


def require(what: str, low: float, high: float, **options: Any) -> None:
    """Raise OptionError for a number outside [low, high); tensors and schedules are not looked into."""
    for name, value in options.items():
        if isinstance(value, (int, float)) and not low <= value < high:
            raise OptionError(f"{what}: {name} must be in [{low:g}, {high:g}), not {value}")

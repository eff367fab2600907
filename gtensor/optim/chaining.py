"""Changes of the gradients before an optimizer sees them: clipping and decay, and `chain`, which lines them up.

A change is a function `(params, grads) -> grads` of trees of one structure, with None for leaves that have
no gradient; the user's own serve as well. Law: a change keeps structure, shapes and dtypes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import tree
from ..errors import OptionError
from ..nn.activations import clip
from ..ops.arithmetic import add, where
from ..ops.reduce import sum
from ..ops.statistics import floating
from ..ops.transcendental import sqrt, square
from ..tensor import Tensor, as_tensor, cast
from .averaging import Ema
from .optimizer import Optimizer, State, column, entry, fitted, require

Change = Callable[[Any, Any], Any]
"""change(params, grads) -> grads."""


def clip_by_value(limit: float) -> Change:
    """Each element of the gradients clipped to [-limit, limit]; NaN stays. For `chain`.

    Raises OptionError for a limit that is negative. PyTorch's clip_grad_value_.

    >>> import gtensor as gt
    >>> gt.optim.clip_by_value(1.0)(None, [gt.tensor([0.5, -3.0])])
    [Tensor([ 0.5, -1. ], dtype=float32)]
    """
    require("clip_by_value", 0, math.inf, limit=limit)
    return lambda params, grads: tree.map_leaves(lambda g: clip(g, -limit, limit), grads)


def global_norm(grads: Any) -> Tensor:
    """The 2-norm of all elements of a tree as one vector, in the common dtype of its leaves; 0 for no leaves.

    Squares are not scaled: beyond 1e19 the norm of float32 is infinite.

    >>> import gtensor as gt
    >>> gt.optim.global_norm({"w": gt.tensor([3.0, 0.0]), "b": gt.tensor(4.0)})
    Tensor(5., dtype=float32)
    """
    squares = [sum(square(floating(leaf))) for leaf in tree.flatten(grads)[0]]
    total = functools.reduce(add, squares) if squares else as_tensor(0.0)
    return where(total == 0, 0, sqrt(total))  # so that the derivative at 0 is 0


def clip_by_global_norm(limit: float) -> Change:
    """The gradients times limit / norm where the norm of all of them together is above the limit. For `chain`.

    A norm that is NaN makes all gradients NaN, one that is infinite makes the finite ones 0. Raises
    OptionError for a limit that is negative. Source: Pascanu, Mikolov and Bengio, On the Difficulty of
    Training Recurrent Neural Networks, 2013; optax's function of that name (PyTorch's clip_grad_norm_ has
    norm + 1e-6 for the norm).

    >>> import gtensor as gt
    >>> gt.optim.clip_by_global_norm(1.0)(None, {"w": gt.tensor([3.0, 0.0]), "b": gt.tensor(4.0)})
    {'w': Tensor([0.6, 0. ], dtype=float32), 'b': Tensor(0.8, dtype=float32)}
    """
    require("clip_by_global_norm", 0, math.inf, limit=limit)

    def change(params: Any, grads: Any) -> Any:
        norm = global_norm(grads)
        scale = where(norm <= limit, 1, limit / norm)
        return tree.map_leaves(lambda g: _scaled(floating(g), scale), grads)

    return change


def _scaled(g: Tensor, scale: Tensor) -> Tensor:
    return g * cast(scale, g.type.dtype)


def add_decayed_weights(weight_decay: float) -> Change:
    """weight_decay * p added to each gradient: the derivative of a penalty weight_decay / 2 * |p|². For `chain`.

    For the decoupled decay see `adamw`; for decay of some parameters only, `groups`. Raises OptionError for
    a decay that is negative.

    >>> import gtensor as gt
    >>> gt.optim.add_decayed_weights(0.5)([gt.tensor([2.0, 4.0])], [gt.tensor([1.0, 1.0])])
    [Tensor([2., 3.], dtype=float32)]
    """
    name = "add_decayed_weights"
    require(name, 0, math.inf, weight_decay=weight_decay)

    def change(params: Any, grads: Any) -> Any:
        leaves, structure = tree.flatten(params)
        rows = zip(tree.paths(structure), leaves, column(structure, grads, "grads", name), strict=True)
        return tree.unflatten(structure, [_decayed(*row) for row in rows])

    def _decayed(path: str, leaf: Any, grad: Any) -> Tensor | None:
        if grad is None:
            return None
        p, g = fitted(name, path, leaf, ("its gradient",), (grad,))
        return g + weight_decay * p

    return change


@dataclass(frozen=True)
class Chain(Optimizer):
    """An optimizer with changes of its gradients before it, and perhaps a moving mean of its parameters behind it."""

    name: str
    changes: tuple[Change, ...]
    optimizer: Optimizer
    average: Ema | None

    def init(self, params: Any) -> State:
        """See `Optimizer.init`: the state of the optimizer, and `ema` for that of the moving mean."""
        state = self.optimizer.init(params)
        return state if self.average is None else {**state, "ema": self.average.init(params)}

    def update(self, params: Any, grads: Any, state: Mapping[str, Any], learning_rate: Any = None) -> tuple[Any, State]:
        """See `Optimizer.update`."""
        for change in self.changes:
            grads = change(params, grads)
        new, after = self.optimizer.update(params, grads, state, learning_rate)
        return new, after if self.average is None else {
            **after,
            "ema": self.average.update(new, entry(state, "ema", self.name)),
        }


def chain(*parts: Any) -> Optimizer:
    """Changes of the gradients, in order, then the optimizer, then perhaps `ema`: one optimizer of them all.

    parts: functions `(params, grads) -> grads` such as `clip_by_global_norm(1.0)`, one optimizer, and at
    most one `ema` after it, whose mean stands in the state as `state["ema"]["average"]`. The rest of the
    state is the optimizer's. Raises OptionError for parts in another order.

    >>> import gtensor as gt
    >>> optimizer = gt.optim.chain(gt.optim.clip_by_value(1.0), gt.optim.sgd(0.5), gt.optim.ema(0.5))
    >>> optimizer.update(gt.tensor(2.0), gt.tensor(9.0), optimizer.init(gt.tensor(2.0)))
    (Tensor(1.5, dtype=float32), {'ema': {'average': Tensor(1.75, dtype=float32)}})
    """
    places = [i for i, part in enumerate(parts) if isinstance(part, Optimizer)]
    if len(places) != 1:
        raise OptionError(f"chain needs one optimizer among its parts, not {len(places)}")
    (place,) = places
    changes, optimizer, behind = parts[:place], parts[place], parts[place + 1 :]
    if not all(callable(change) for change in changes):
        raise OptionError("chain: what stands before the optimizer must be functions (params, grads) -> grads")
    if not all(isinstance(part, Ema) for part in behind):
        raise OptionError("chain: only ema may stand behind the optimizer", hint="put changes of gradients before it")
    inner = isinstance(optimizer, Chain) and optimizer.average is not None
    if len(behind) + inner > 1:
        raise OptionError("chain: there may be one ema")
    return Chain(f"chain of {optimizer.name}", changes, optimizer, behind[0] if behind else None)

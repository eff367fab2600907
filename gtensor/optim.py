"""Optimizers: sgd, adam and adamw as pairs of functions over pytrees, eager and traced alike.

`init(params) -> state`, `update(params, grads, state) -> (params, state)`. The state is a plain dict: one
tree in the structure of the parameters per moment, and the number of steps taken. Laws: nothing is
changed in place; dtypes are those of the parameters; a leaf whose gradient is None stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tree
from .errors import DTypeError, OptionError, ShapeError
from .ops.arithmetic import astype
from .ops.create import tensor
from .ops.transcendental import expm1, rsqrt, sqrt, square
from .pullback import zeros
from .tensor import STATE, Tensor, as_tensor, cast
from .trace import leaf_type
from .types import Type, int64, resolve

State = dict[str, Any]
"""What an optimizer remembers: trees in the structure of the parameters by name, and `step`."""

Rule = Callable[..., tuple[Tensor, ...]]
"""rule(p, g, rate, step, *moments) -> (p, *moments): one parameter moved by its gradient."""


@dataclass(frozen=True)
class Optimizer:
    """A rule for one parameter, applied to all leaves of a pytree.

    `moments` are the names of what the rule remembers per parameter, zeros at first; `counts` says whether
    it needs the number of the step (counted from 1 in an int64 scalar, which costs one addition a step,
    never stops growing and converts exactly). `learning_rate` is the default of `update`.
    """

    name: str
    learning_rate: Any
    rule: Rule
    moments: tuple[str, ...] = ()
    counts: bool = False

    def init(self, params: Any) -> State:
        """The state before the first step.

        params: a pytree of floating-point arrays, tensors, numbers or specs; leaves that are none of these
        must be frozen and have no state (None). Moments have the shape and dtype of their parameters.

        >>> import gtensor as gt
        >>> gt.optim.adam().init({"w": gt.ones(2)})["m"]
        {'w': Tensor([0., 0.], dtype=float32)}
        """
        leaves, structure = tree.flatten(params)
        state: State = {name: tree.unflatten(structure, list(map(_moment, leaves))) for name in self.moments}
        if self.counts:
            state["step"] = _zeros(Type((), int64))
        return state

    def update(self, params: Any, grads: Any, state: Mapping[str, Any], learning_rate: Any = None) -> tuple[Any, State]:
        """The parameters moved against the gradients, and the state after it.

        grads: the structure and shapes of params, None for leaves to be left alone; state: what `init` or
        the last `update` gave; learning_rate: a number or scalar tensor (a run-time input inside a compiled
        function) instead of the one given at construction. A leaf with `requires_grad` comes back as such a
        leaf, without the history of the step. Raises ShapeError where grads or state do not fit params,
        OptionError where no learning rate was given.

        >>> import gtensor as gt
        >>> sgd = gt.optim.sgd(0.5)
        >>> params, state = sgd.update([gt.tensor([1.0, 2.0])], [gt.tensor([2.0, 0.0])], sgd.init([gt.ones(2)]))
        >>> params
        [Tensor([0., 2.], dtype=float32)]
        """
        rate = self.learning_rate if learning_rate is None else learning_rate
        if rate is None:
            raise OptionError(f"{self.name} has no learning rate", hint="give it to the optimizer or to update")
        leaves, structure = tree.flatten(params)
        columns = [
            _column(structure, value, name, self.name)
            for name, value in [("grads", grads), *((m, _entry(state, m, self.name)) for m in self.moments)]
        ]
        step = astype(_entry(state, "step", self.name), int64) + 1 if self.counts else None
        moved = [
            self._moved(path, leaf, rate, step, *row)
            for path, leaf, *row in zip(tree.paths(structure), leaves, *columns, strict=True)
        ]
        trees = [tree.unflatten(structure, [row[i] for row in moved]) for i in range(1 + len(self.moments))]
        after: State = dict(zip(self.moments, trees[1:], strict=True))
        if step is not None:
            after["step"] = step
        return trees[0], after

    def _moved(self, path: str, leaf: Any, rate: Any, step: Tensor | None, grad: Any, *moments: Any) -> tuple[Any, ...]:
        """One leaf and its moments after the step."""
        if grad is None:
            return leaf, *moments
        p = as_tensor(leaf)
        dtype = resolve(p.type).dtype
        if not dtype.floating:
            raise DTypeError(f"{self.name}: {path or 'params'} is {p.type}: only floats can be moved by a gradient")
        others = [as_tensor(t) for t in (grad, *moments)]
        for name, other in zip(("its gradient", *self.moments), others, strict=True):
            if other.type.shape != p.type.shape:
                raise ShapeError(f"{self.name}: {path or 'params'} is {resolve(p.type)}, {name} {resolve(other.type)}")
        held = p.requires_grad and STATE.scope is None
        p, *others = (cast(t.detach() if held else t, dtype) for t in (p, *others))
        number = None if step is None else cast(step, dtype)
        new, *after = self.rule(p, others[0], cast(as_tensor(rate), dtype), number, *others[1:])
        return Tensor(new.type, new.numpy(), requires_grad=True) if held else new, *after


def _zeros(type: Type) -> Tensor:
    """Zeros: equations inside a trace, else memory of its own, which a call may update in place."""
    return tensor(np.zeros(type.shape, type.dtype.dtype)) if STATE.scope is None else zeros(type)


def _moment(leaf: Any) -> Tensor | None:
    """The first moment of a parameter; None for what is no floating-point array."""
    type_ = leaf_type(leaf)
    return _zeros(resolve(type_)) if type_ is not None and type_.dtype.floating else None


def _entry(state: Mapping[str, Any], name: str, optimizer: str) -> Any:
    if name not in state:
        raise OptionError(f"{optimizer}: the state has no {name!r}", hint=f"begin with the state of {optimizer}.init")
    return state[name]


def _column(structure: tree.Structure, value: Any, name: str, optimizer: str) -> list[Any]:
    """One value per parameter from a tree of the parameters' structure; None where it has None for a leaf."""
    try:
        return list(structure.flatten_up_to(value))
    except ValueError as error:
        raise ShapeError(f"{optimizer}: {name} does not have the structure of params: {error}") from None


def _require(optimizer: str, low: float, high: float, **options: Any) -> None:
    """Raise OptionError for a number outside [low, high); tensors are not looked into."""
    for name, value in options.items():
        if isinstance(value, (int, float)) and not low <= value < high:
            raise OptionError(f"{optimizer}: {name} must be in [{low:g}, {high:g}), not {value}")


def sgd(
    learning_rate: Any = None, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
) -> Optimizer:
    """Stochastic gradient descent: p - rate * g, with momentum b = momentum * b + g in place of g.

    `nesterov` steps along g + momentum * b; `weight_decay` adds weight_decay * p to g. State: `momentum`,
    if there is any. Raises OptionError for options out of range. Formulas as PyTorch's SGD (Sutskever,
    Martens, Dahl and Hinton, On the Importance of Initialization and Momentum in Deep Learning, 2013).

    >>> import gtensor as gt
    >>> gt.optim.sgd(0.1).update(gt.tensor(2.0), gt.tensor(5.0), {})[0]
    Tensor(1.5, dtype=float32)
    """
    _require("sgd", 0, math.inf, learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)
    if nesterov and not momentum:
        raise OptionError("sgd: nesterov needs a momentum")

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: None, *moments: Tensor) -> tuple[Tensor, ...]:
        if weight_decay:
            g = g + weight_decay * p
        if not momentum:
            return (p - rate * g,)
        (b,) = moments
        b = momentum * b + g
        return p - rate * (g + momentum * b if nesterov else b), b

    return Optimizer("sgd", learning_rate, rule, ("momentum",) if momentum else ())


def adam(learning_rate: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam: steps of about the learning rate, along the mean of the gradient over the root of its mean square.

    m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g², p - rate * m' / (sqrt(v') + eps) with m' = m / (1 - b1^t)
    and v' = v / (1 - b2^t). State: `m`, `v`, `step`. Raises OptionError for options out of range. Source:
    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015; eps as in PyTorch.

    >>> import gtensor as gt
    >>> adam = gt.optim.adam(0.5)
    >>> params, state = adam.update(gt.tensor(2.0), gt.tensor(100.0), adam.init(gt.tensor(2.0)))
    >>> params, state["step"]
    (Tensor(1.5, dtype=float32), Tensor(1, dtype=int64))
    """
    return _adaptive("adam", learning_rate, betas, eps, 0.0)


def adamw(
    learning_rate: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> Optimizer:
    """Adam with decoupled weight decay: each step first takes rate * weight_decay * p off the parameter.

    State and errors as for `adam`. Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization,
    2019; formulas as PyTorch's AdamW.

    >>> import gtensor as gt
    >>> adamw = gt.optim.adamw(0.5, weight_decay=0.1)
    >>> adamw.update(gt.tensor(2.0), gt.tensor(0.0), adamw.init(gt.tensor(2.0)))[0]
    Tensor(1.9, dtype=float32)
    """
    return _adaptive("adamw", learning_rate, betas, eps, weight_decay)


def _adaptive(name: str, learning_rate: Any, betas: tuple[float, float], eps: float, weight_decay: float) -> Optimizer:
    """Adam with or without decay."""
    b1, b2 = betas
    _require(name, 0, math.inf, learning_rate=learning_rate, eps=eps, weight_decay=weight_decay)
    _require(name, 0, 1, **{"betas[0]": b1, "betas[1]": b2})

    def rule(p: Tensor, g: Tensor, rate: Tensor, step: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        if weight_decay:
            p = p * (1 - rate * weight_decay)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * square(g)
        size = rate / _mass(b1, step)
        return p - size * m / (sqrt(v) * rsqrt(_mass(b2, step)) + eps), m, v

    return Optimizer(name, learning_rate, rule, ("m", "v"), counts=True)


def _mass(beta: float, step: Tensor) -> Tensor:
    """1 - beta**step, the weight of all terms of a moving mean so far, without cancellation in float32."""
    return -expm1(step * (math.log(beta) if beta else -math.inf))

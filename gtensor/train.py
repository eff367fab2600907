"""`gt.TrainStep`: loss, gradients and optimizer as one compiled call; `fit`: the loop over a data set in C.

Comes in: a loss function, parameters, an optimizer, specs of a batch. Goes out: a callable that takes a batch and
returns its loss, having moved the parameters in place. Laws: a step is committed whole or not at all; `fit` runs
every row of every epoch, the last partial batch too; between slices of about 100 ms Python is in charge: signals,
callbacks and the progress bar.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import tree
from .calls import READABLE, Inputs, Wanted, normal
from .codegen.library import Loop
from .errors import GTensorError, OptionError, ShapeError, SignatureError
from .grad import Frozen, value_and_grad
from .optim import Optimizer
from .resident import Array, Bound, Resident
from .tensor import as_tensor
from .trace import Spec, argument_names, leaf_type, spec
from .types import Dim, float64

SLICE = 0.1
"""Seconds that C keeps the loop before Python looks at signals and callbacks."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the data: the mean of its losses, the validation loss after it, and the seconds it took."""

    loss: float
    validation: float | None
    seconds: float


@dataclass
class History:
    """What `fit` has seen: the losses of all steps so far, one record per finished epoch, and the seconds."""

    losses: Array
    epochs: list[Epoch] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        """How many steps were run."""
        return len(self.losses)

    @property
    def steps_per_second(self) -> float:
        """Speed, validation and callbacks included."""
        return self.steps / self.seconds if self.seconds else 0.0

    def __repr__(self) -> str:
        last = f", loss {self.epochs[-1].loss:.6g}" if self.epochs else ""
        return f"History({self.steps} steps, {len(self.epochs)} epochs{last}, {self.seconds:.2f} s)"


class TrainStep(Resident):
    """Loss, gradients and the optimizer's update as one compiled call over parameters that stay in memory.

    loss_fn: `loss_fn(params, *batch) -> loss`, or (loss, aux) with `has_aux`; params: a pytree of arrays, which are
    copied; optimizer: one of `gt.optim`; specs: one spec, or pytree of specs, per batch argument. `frozen` (a predicate
    on leaf paths, or a tree prefix of bools) keeps leaves as they are. With `learning_rate` given, the rate is read at
    each step and can be changed: `train.learning_rate = 1e-4`. Raises what tracing raises, GradError for a loss that
    is no scalar, ToolchainError without a working compiler.

    >>> import gtensor as gt
    >>> def loss_fn(w, x, y):
    ...     return gt.mean((x @ w - y) ** 2)
    >>> train = gt.TrainStep(loss_fn, gt.zeros(2), gt.optim.sgd(0.5), gt.spec((4, 2)), gt.spec((4,)))
    >>> train(gt.ones((4, 2)), gt.ones(4)), train(gt.ones((4, 2)), gt.ones(4))
    (1.0, 1.0)
    >>> train.params
    array([0., 0.], dtype=float32)
    """

    def __init__(
        self,
        loss_fn: Callable[..., Any],
        params: Any,
        optimizer: Optimizer,
        *specs: Any,
        has_aux: bool = False,
        frozen: Frozen = None,
        learning_rate: float | None = None,
    ) -> None:
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.has_aux = has_aux
        self.frozen = frozen
        self._rate = () if learning_rate is None else (np.array(learning_rate, np.float64),)
        self._names = argument_names(loss_fn, 1 + len(specs))[1:]
        self._steps: dict[int, Bound] = {}
        self._validations: dict[int, Bound] = {}
        self._block(params)
        self.step = self._compile_step(specs)
        self.step.outputs.bind(self.step.frame, (), {})

    def __call__(self, *batch: Any) -> Any:
        step = self.step
        arrays, dims = step.fit((*self._rate, *batch))
        frame = step.frame
        if self.has_aux:
            return self._with_aux(step, arrays, dims)
        with self.block.lock:
            step.bind(arrays, dims)
            loss = frame.step()
            if loss != loss and frame.status:
                raise step.compiled.error(frame.failure())
        return loss

"""A recurrent cell that learns: parameters and optimizer in one block, each training step one compiled call.

Comes in: a cell, an optimizer, a key. Goes out: an `Updater` with step, predict, train_step and train_step_memory,
the same for every cell, so that one stands in for another. Law: memories come in and go out, and are never kept;
parameters change in training steps only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self

from .. import tree
from ..grad import value_and_grad
from ..optim import Optimizer
from ..resident import Bound, Resident
from ..tensor import Tensor
from ..trace import spec
from ..types import float32
from .cells import Cell, ClonedMemory, GatedMemory
from .layers import require_sizes
from .losses import mse_loss


class Updater:
    """A cell with its parameters and its optimizer, compiled for sequences of `window` inputs of `batch` rows.

    cell: one of `gt.nn`, or any other of their protocol; optimizer: one of `gt.optim`; key: what the parameters are
    drawn from. Arrays are [batch, features], sequences [window, batch, features]. `train_step` is compiled
    at once, the others at their first call. `resident` is the compiled step: its C can be read, and further functions
    be bound to its parameters. Raises what the cell raises, SignatureError for arrays of another shape or dtype.

    >>> import gtensor as gt
    >>> updater = gt.nn.Updater(gt.nn.GRU(2, 8, outputs=1), gt.optim.adam(1e-2), gt.random.key(0), batch=4, window=5)
    >>> xs, targets = gt.randn(5, 4, 2, seed=1), gt.zeros((5, 4, 1))
    >>> first = updater.train_step(updater.start(), xs, targets)
    >>> updater.train_step(updater.start(), xs, targets) < first
    True
    """

    def __init__(
        self, cell: Cell, optimizer: Optimizer, key: Any, *, batch: int = 1, window: int = 1, dtype: Any = float32
    ) -> None:
        require_sizes(self, batch=batch, window=window)
        self.cell, self.optimizer, self.batch, self.dtype = cell, optimizer, batch, dtype
        params = cell.init(key, dtype)
        self._memory = tree.map_leaves(lambda leaf: spec(leaf.shape, dtype), self.start())
        outputs = cell.size if cell.outputs is None else cell.outputs
        self._x, self._xs = spec((batch, cell.inputs), dtype), spec((window, batch, cell.inputs), dtype)
        self.resident = Resident(
            self._training(self._output_loss, "train_step"),
            {"params": params, "optimizer": optimizer.init(params)},
            [self._memory, self._xs, spec((window, batch, outputs), dtype)],
        )

    @property
    def params(self) -> Any:
        """The parameters as NumPy arrays in their tree. They are the memory itself: training steps change them."""
        return self.resident.state["params"]

    def start(self) -> Any:
        """The memory before the first input: zeros."""
        return self.cell.start(self.batch, self.dtype)

    def step(self, memory: Any, x: Any) -> Any:
        """The memory after one more input, x: [batch, inputs]."""
        return self._step(memory, x)

    def predict(self, memory: Any, x: Any) -> Tensor:
        """The output for one more input, [batch, outputs]; the memory stays where it is."""
        output: Tensor = self._predict(memory, x)
        return output

    def train_step(self, memory: Any, xs: Any, targets: Any) -> float:
        """Learn to give the targets, [window, batch, outputs], for the inputs xs: [window, batch, inputs].

        The gradient of the mean squared error goes back through the whole window. Gives the loss before the update.
        """
        return float(self.resident(memory, xs, targets))

    def train_step_memory(self, memory: Any, xs: Any, target: Any) -> float:
        """Learn to be at a target memory after the inputs xs: [window, batch, inputs]; else as `train_step`."""
        return float(self._train_memory(memory, xs, target))

    @cached_property
    def _step(self) -> Bound:
        def step(state: Any, memory: Any, x: Any) -> Any:
            return self.cell.step(state["params"], memory, x)[0]

        return self.resident.bind(step, self._memory, self._x)

    @cached_property
    def _predict(self) -> Bound:
        def predict(state: Any, memory: Any, x: Any) -> Any:
            return self.cell.step(state["params"], memory, x)[1]

        return self.resident.bind(predict, self._memory, self._x)

    @cached_property
    def _train_memory(self) -> Bound:
        train = self._training(self._memory_loss, "train_step_memory")
        return self.resident.bind(train, self._memory, self._xs, self._memory, updates=True)

    def _output_loss(self, params: Any, memory: Any, xs: Any, targets: Any) -> Tensor:
        return mse_loss(self.cell.rollout(params, memory, xs)[1], targets)

    def _memory_loss(self, params: Any, memory: Any, xs: Any, target: Any) -> Tensor:
        last = self.cell.rollout(params, memory, xs)[0]
        losses = [mse_loss(a, b) for a, b in zip(tree.flatten(last)[0], tree.flatten(target)[0], strict=True)]
        return sum(losses[1:], losses[0])

    def _training(self, loss: Callable[..., Tensor], name: str) -> Callable[..., Any]:
        """A step of the optimizer down a loss, as a function of the whole state."""

        def train(state: Any, memory: Any, xs: Any, target: Any) -> Any:
            value, grads = value_and_grad(loss)(state["params"], memory, xs, target)
            params, optimizer = self.optimizer.update(state["params"], grads, state["optimizer"])
            return {"params": params, "optimizer": optimizer}, value

        train.__name__ = name
        return train


class _Named(Updater):
    """An updater of one kind of cell."""

    kind: ClassVar[type[Cell]]

    @classmethod
    def new(
        cls, inputs: int, size: int, outputs: int | None = None, *, optimizer: Optimizer, key: Any, batch: int = 1,
        window: int = 1, dtype: Any = float32,
    ) -> Self:  # fmt: skip
        """An updater of a new cell of these sizes: features of the input, of the memory, of the output."""
        return cls(cls.kind(inputs, size, outputs), optimizer, key, batch=batch, window=window, dtype=dtype)


class GatedMemoryUpdater(_Named):
    """An `Updater` of a `GatedMemory`: M' = (1 - z) M + z c with z a sigmoid and c a tanh of [M ‖ x].

    >>> import gtensor as gt
    >>> updater = gt.nn.GatedMemoryUpdater.new(2, 8, 1, optimizer=gt.optim.sgd(0.1), key=gt.random.key(0))
    >>> memory = updater.step(updater.start(), gt.ones((1, 2)))
    >>> memory.shape, updater.predict(memory, gt.ones((1, 2))).shape
    ((1, 8), (1, 1))
    >>> loss = updater.train_step_memory(updater.start(), gt.ones((1, 1, 2)), memory)
    >>> round(loss, 6)
    0.0
    """

    kind = GatedMemory


class ClonedMemoryUpdater(_Named):
    """An `Updater` of a `ClonedMemory`: M' = clip(M + leaky_relu([M ‖ x] @ W + b), -1, 1).

    >>> import gtensor as gt
    >>> updater = gt.nn.ClonedMemoryUpdater.new(2, 8, 1, optimizer=gt.optim.sgd(0.1), key=gt.random.key(0))
    >>> updater.step(updater.start(), gt.ones((1, 2))).shape
    (1, 8)
    """

    kind = ClonedMemory

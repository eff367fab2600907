"""Recurrent cells with one protocol: a state that each input moves on, and an output read from it.

A cell is a frozen dataclass of sizes; its parameters are a pytree of the user's. `init(key) -> params`,
`start(batch) -> state`, `step(params, state, x) -> (state, output)`, `rollout` over the leading axis of xs, `predict`
with each output as the next input. Laws: a rollout is the steps one after another, in one loop whatever their
number; all cells take and give the same, so that one stands in for another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from .. import random
from ..errors import OptionError, ShapeError
from ..ops import create
from ..ops.assemble import concat
from ..ops.layout import as_shape
from ..ops.scan import scan
from ..ops.transcendental import sigmoid, tanh
from ..tensor import Tensor, as_tensor
from ..types import float32
from .activations import clip, leaky_relu
from .functions import linear
from .layers import Linear, require_sizes

Params = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class Cell(ABC):
    """What every cell can do. A new one says which weights it has (`weights`) and how an input moves it (`advance`).

    inputs: features of x; size: features of the state; outputs: features of the output, read from the state by a
    linear layer `readout`; without it the output is the state (its first part, where it has several).

    >>> import gtensor as gt
    >>> cell = gt.nn.GatedMemory(inputs=3, size=4, outputs=2)
    >>> params, state = cell.init(gt.random.key(0)), cell.start(5)
    >>> state, output = cell.step(params, state, gt.ones((5, 3)))
    >>> last, outputs = cell.rollout(params, state, gt.ones((7, 5, 3)))
    >>> sorted(params), last.shape, outputs.shape
    (['candidate', 'gate', 'readout'], (5, 4), (7, 5, 2))
    """

    inputs: int
    size: int
    outputs: int | None = None

    __gt_leaf__ = True

    def __post_init__(self) -> None:
        require_sizes(self, inputs=self.inputs, size=self.size)
        if self.outputs is not None:
            require_sizes(self, outputs=self.outputs)

    @abstractmethod
    def weights(self) -> dict[str, Linear]:
        """The linear layers that `advance` uses, by the names of their parameters."""

    @abstractmethod
    def advance(self, params: Params, state: Any, x: Any) -> Any:
        """The next state, given an input."""

    def memory(self, state: Any) -> Tensor:
        """The part of a state that outputs are read from."""
        return as_tensor(state)

    def init(self, key: Any, dtype: Any = float32) -> Params:
        """The first parameters, drawn from a key."""
        layers = self.weights()
        if self.outputs is not None:
            layers["readout"] = Linear(self.size, self.outputs)
        keys = random.split(key, len(layers))
        return {name: layer.init(own, dtype) for (name, layer), own in zip(layers.items(), keys, strict=True)}

    def start(self, batch: Any = (), dtype: Any = float32) -> Any:
        """The state before the first input: zeros, [*batch, size]."""
        return create.zeros((*as_shape(batch), self.size), dtype)

    def step(self, params: Params, state: Any, x: Any) -> tuple[Any, Tensor]:
        """One input, x: [*batch, inputs]; gives the next state and its output, [*batch, outputs]."""
        after = self.advance(params, state, x)
        return after, self.readout(params, self.memory(after))

    def rollout(self, params: Params, state: Any, xs: Any) -> tuple[Any, Tensor]:
        """All inputs of a sequence, xs: [steps, *batch, inputs]; gives the last state and [steps, *batch, outputs]."""

        def cell(state: Any, x: Any) -> tuple[Any, Any]:
            after = self.advance(params, state, x)
            return after, self.memory(after)

        last, memories = scan(cell, state, xs)
        return last, self.readout(params, memories)

    def predict(self, params: Params, state: Any, x: Any, steps: int) -> tuple[Any, Tensor]:
        """Run freely: x is the first input, each output the next one; gives the last state and all outputs.

        Raises ShapeError for a cell whose outputs are not as many as its inputs.

        >>> import gtensor as gt
        >>> cell = gt.nn.Elman(inputs=2, size=2)
        >>> cell.predict(cell.init(gt.random.key(0)), cell.start(), gt.ones(2), steps=10)[1].shape
        (10, 2)
        """
        outputs = self.size if self.outputs is None else self.outputs
        if outputs != self.inputs:
            raise ShapeError(f"{type(self).__name__}: {outputs} outputs cannot be the next {self.inputs} inputs")

        def cell(carry: Any, _: None) -> tuple[Any, Any]:
            after, output = self.step(params, *carry)
            return (after, output), output

        (last, _), found = scan(cell, (state, x), length=steps)
        return last, found

    def readout(self, params: Params, memory: Any) -> Tensor:
        """The output of a memory, or of many at once."""
        return memory if self.outputs is None else _linear(params["readout"], memory)


def _linear(params: dict[str, Tensor], x: Any) -> Tensor:
    return linear(x, params["w"], params["b"])


def _joined(memory: Any, x: Any) -> Tensor:
    """[M ‖ x] along the features."""
    return concat([memory, x], axis=-1)


@dataclass(frozen=True)
class GatedMemory(Cell):
    """A memory that a gate moves towards a candidate, and holds where the gate is shut.

    z = sigmoid([M ‖ x] @ gate.w + gate.b), c = tanh([M ‖ x] @ candidate.w + candidate.b), M' = (1 - z) M + z c.
    M' lies between M and c: the memory never leaves [-1, 1], or [-|M|, |M|] of a first one beyond, whatever the
    weights. The equations are those of a gated recurrent unit without its reset gate (Zhou, Wu, Zhang and Zhou,
    Minimal Gated Unit for Recurrent Neural Networks, 2016, have a related one).

    >>> import gtensor as gt
    >>> cell = gt.nn.GatedMemory(inputs=1, size=1)
    >>> shut = {"w": gt.zeros((2, 1)), "b": gt.tensor([-100.0])}
    >>> cell.step({"gate": shut, "candidate": shut}, gt.tensor([0.25]), gt.ones(1))[0]
    Tensor([0.25], dtype=float32)
    """

    def weights(self) -> dict[str, Linear]:
        into = Linear(self.size + self.inputs, self.size)
        return {"gate": into, "candidate": into}

    def advance(self, params: Params, state: Any, x: Any) -> Tensor:
        memory, joined = as_tensor(state), _joined(state, x)
        z = sigmoid(_linear(params["gate"], joined))
        return (1 - z) * memory + z * tanh(_linear(params["candidate"], joined))

    def gate(self, params: Params, state: Any, x: Any) -> Tensor:
        """How far the gate is open for an input, [*batch, size]: 0 holds the memory, 1 replaces it.

        >>> import gtensor as gt
        >>> cell = gt.nn.GatedMemory(inputs=1, size=2)
        >>> params = {"gate": {"w": gt.zeros((3, 2)), "b": gt.tensor([0.0, -100.0])}}
        >>> cell.gate(params, cell.start(), gt.ones(1))
        Tensor([5.0e-01, 3.8e-44], dtype=float32)
        """
        return sigmoid(_linear(params["gate"], _joined(state, x)))


@dataclass(frozen=True)
class ClonedMemory(Cell):
    """A memory that each input adds to, through a leaky rectifier, and that a clamp keeps within `limit`.

    M' = clip(M + leaky_relu([M ‖ x] @ update.w + update.b, slope), -limit, limit).

    >>> import gtensor as gt
    >>> cell = gt.nn.ClonedMemory(inputs=1, size=1, slope=0.5)
    >>> params = {"update": {"w": gt.tensor([[0.0], [1.0]]), "b": gt.zeros(1)}}
    >>> cell.rollout(params, cell.start(), gt.tensor([[0.75], [-0.5], [3.0]]))[1]
    Tensor([[0.75],
            [0.5 ],
            [1.  ]], dtype=float32)
    """

    slope: float = 0.01
    limit: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.limit > 0:
            raise OptionError(f"ClonedMemory: limit must be positive, not {self.limit}")

    def weights(self) -> dict[str, Linear]:
        return {"update": Linear(self.size + self.inputs, self.size)}

    def advance(self, params: Params, state: Any, x: Any) -> Tensor:
        change = leaky_relu(_linear(params["update"], _joined(state, x)), self.slope)
        return clip(as_tensor(state) + change, -self.limit, self.limit)


@dataclass(frozen=True)
class _Recurrent(Cell):
    """A cell with separate products of its input and of its state, for `gates` values side by side."""

    def weights(self) -> dict[str, Linear]:
        wide = self.gates() * self.size
        return {"input": Linear(self.inputs, wide), "hidden": Linear(self.size, wide)}

    @abstractmethod
    def gates(self) -> int:
        """How many values a unit of the state needs."""

    def parts(self, x: Tensor) -> list[Tensor]:
        """The values of each gate."""
        return [x[..., i * self.size : (i + 1) * self.size] for i in range(self.gates())]


@dataclass(frozen=True)
class Elman(_Recurrent):
    """h' = tanh(x @ input.w + input.b + h @ hidden.w + hidden.b), as PyTorch's RNNCell.

    Source: Elman, Finding Structure in Time, 1990.

    >>> import gtensor as gt
    >>> cell = gt.nn.Elman(inputs=3, size=4)
    >>> cell.init(gt.random.key(0))["hidden"]["w"].shape
    (4, 4)
    """

    def gates(self) -> int:
        return 1

    def advance(self, params: Params, state: Any, x: Any) -> Tensor:
        return tanh(_linear(params["input"], x) + _linear(params["hidden"], state))


@dataclass(frozen=True)
class GRU(_Recurrent):
    """A gated recurrent unit, as PyTorch's GRUCell: weights hold reset gate r, update gate z and candidate n.

    r = sigmoid(x @ input.r + h @ hidden.r), z = sigmoid(x @ input.z + h @ hidden.z),
    n = tanh(x @ input.n + r (h @ hidden.n)), h' = (1 - z) n + z h; each product has its bias. Without `reset_after`
    (the name is Keras's) it is n = tanh(x @ input.n + (r h) @ hidden.n), as in the paper. Source: Cho et al.,
    Learning Phrase Representations using RNN Encoder-Decoder, 2014.

    >>> import gtensor as gt
    >>> cell = gt.nn.GRU(inputs=3, size=4)
    >>> cell.init(gt.random.key(0))["input"]["w"].shape
    (3, 12)
    """

    reset_after: bool = True

    def gates(self) -> int:
        return 3

    def advance(self, params: Params, state: Any, x: Any) -> Tensor:
        memory, hidden = as_tensor(state), params["hidden"]
        xr, xz, xn = self.parts(_linear(params["input"], x))
        if self.reset_after:
            hr, hz, hn = self.parts(_linear(hidden, memory))
            r, z = sigmoid(xr + hr), sigmoid(xz + hz)
            return (1 - z) * tanh(xn + r * hn) + z * memory
        both = 2 * self.size
        gates = _linear({name: p[..., :both] for name, p in hidden.items()}, memory)
        r, z = sigmoid(xr + gates[..., : self.size]), sigmoid(xz + gates[..., self.size :])
        hn = _linear({name: p[..., both:] for name, p in hidden.items()}, r * memory)
        return (1 - z) * tanh(xn + hn) + z * memory

    def gate(self, params: Params, state: Any, x: Any) -> tuple[Tensor, Tensor]:
        """The reset gate r and the update gate z for an input, [*batch, size] both; z = 1 holds the state.

        >>> import gtensor as gt
        >>> cell = gt.nn.GRU(inputs=3, size=4)
        >>> r, z = cell.gate(cell.init(gt.random.key(0)), cell.start(2), gt.ones((2, 3)))
        >>> r.shape, z.shape
        ((2, 4), (2, 4))
        """
        xr, xz, _ = self.parts(_linear(params["input"], x))
        hr, hz, _ = self.parts(_linear(params["hidden"], state))
        return sigmoid(xr + hr), sigmoid(xz + hz)


@dataclass(frozen=True)
class LSTM(_Recurrent):
    """Long short-term memory, as PyTorch's LSTMCell: weights hold the gates i, f, g and o; the state is (h, c).

    With a = x @ input + h @ hidden and their biases: c' = sigmoid(a.f) c + sigmoid(a.i) tanh(a.g),
    h' = sigmoid(a.o) tanh(c'). Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997, with the forget
    gate of Gers, Schmidhuber and Cummins, 2000.

    >>> import gtensor as gt
    >>> cell = gt.nn.LSTM(inputs=3, size=4)
    >>> [part.shape for part in cell.start(2)]
    [(2, 4), (2, 4)]
    """

    def gates(self) -> int:
        return 4

    def start(self, batch: Any = (), dtype: Any = float32) -> tuple[Tensor, Tensor]:
        zeros = super().start(batch, dtype)
        return zeros, zeros

    def memory(self, state: Any) -> Tensor:
        return as_tensor(state[0])

    def advance(self, params: Params, state: Any, x: Any) -> tuple[Tensor, Tensor]:
        hidden, carried = state
        i, f, g, o = self.parts(_linear(params["input"], x) + _linear(params["hidden"], hidden))
        after = sigmoid(f) * as_tensor(carried) + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(after), after

    def gate(self, params: Params, state: Any, x: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The input, forget and output gates for an input, [*batch, size] each.

        >>> import gtensor as gt
        >>> cell = gt.nn.LSTM(inputs=3, size=4)
        >>> [gate.shape for gate in cell.gate(cell.init(gt.random.key(0)), cell.start(2), gt.ones((2, 3)))]
        [(2, 4), (2, 4), (2, 4)]
        """
        i, f, _, o = self.parts(_linear(params["input"], x) + _linear(params["hidden"], state[0]))
        return sigmoid(i), sigmoid(f), sigmoid(o)

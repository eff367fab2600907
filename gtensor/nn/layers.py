"""Layers as light modules: sizes in a frozen dataclass, parameters in a pytree of the user's.

A layer holds no arrays: `params = layer.init(key)`, `y = layer.apply(params, x)`, or `layer(params, x)`. Parameters
are dicts whose names are read in paths and in C (`w`, `b`). Laws: equal layers and equal keys give equal
parameters; nothing is drawn, and nothing changes, but with `training` and a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import random
from ..errors import OptionError, ShapeError
from ..ops import create
from ..tensor import Tensor
from ..types import float32
from .attention import multi_head_attention
from .functions import dropout, embedding, linear
from .initializers import lecun_normal
from .normalization import layer_norm, rms_norm

Initializer = Callable[[Any, Any, Any], Tensor]
"""initializer(key, shape, dtype) -> weights; `gt.nn.initializers` has them."""


def require_sizes(owner: object, **sizes: Any) -> None:
    """Raise OptionError for a size that is no positive integer."""
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{type(owner).__name__}: {name} must be a positive integer, not {value!r}")


class Layer(ABC):
    """What makes a layer: `init(key) -> params` and `apply(params, x, key, training) -> y`.

    A subclass is a frozen dataclass of hyper-parameters. In the arguments of a compiled function it is static.
    """

    __gt_leaf__ = True

    @abstractmethod
    def init(self, key: Any, dtype: Any = float32) -> Any:
        """The first parameters, drawn from a key."""

    @abstractmethod
    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        """The layer's value; with `training`, layers that drop or draw do so from the key."""

    def __call__(self, params: Any, x: Any, *rest: Any, **named: Any) -> Tensor:
        return self.apply(params, x, *rest, **named)


@dataclass(frozen=True)
class Linear(Layer):
    """x @ w + b. w: [inputs, outputs] from `initializer`, b: [outputs] zeros (none without `bias`).

    >>> import gtensor as gt
    >>> layer = gt.nn.Linear(3, 2)
    >>> params = layer.init(gt.random.key(0))
    >>> params["b"], layer(params, gt.ones((5, 3))).shape
    (Tensor([0., 0.], dtype=float32), (5, 2))
    """

    inputs: int
    outputs: int
    bias: bool = True
    initializer: Initializer = lecun_normal

    def __post_init__(self) -> None:
        require_sizes(self, inputs=self.inputs, outputs=self.outputs)

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        params = {"w": self.initializer(key, (self.inputs, self.outputs), dtype)}
        return {**params, "b": create.zeros((self.outputs,), dtype)} if self.bias else params

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return linear(x, params["w"], params["b"] if self.bias else None)


@dataclass(frozen=True)
class Embedding(Layer):
    """The rows of w: [count, features], standard normal at first, at integer places x of any shape.

    >>> import gtensor as gt
    >>> layer = gt.nn.Embedding(10, 4)
    >>> layer(layer.init(gt.random.key(0)), [[1, 2, 3]]).shape
    (1, 3, 4)
    """

    count: int
    features: int

    def __post_init__(self) -> None:
        require_sizes(self, count=self.count, features=self.features)

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        return {"w": random.normal(key, (self.count, self.features), dtype)}

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return embedding(x, params["w"])


@dataclass(frozen=True)
class LayerNorm(Layer):
    """`layer_norm` of rows of `size` elements, with w: [size] ones and b: [size] zeros at first.

    >>> import gtensor as gt
    >>> layer = gt.nn.LayerNorm(2)
    >>> layer(layer.init(), gt.tensor([1.0, 3.0]))
    Tensor([-0.999995,  0.999995], dtype=float32)
    """

    size: int
    eps: float = 1e-5

    def __post_init__(self) -> None:
        require_sizes(self, size=self.size)

    def init(self, key: Any = None, dtype: Any = float32) -> dict[str, Tensor]:
        """The first parameters, which are constants: no key is needed."""
        return {"w": create.ones((self.size,), dtype), "b": create.zeros((self.size,), dtype)}

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return layer_norm(x, params["w"], params["b"], self.eps)


@dataclass(frozen=True)
class RMSNorm(Layer):
    """`rms_norm` of rows of `size` elements, with w: [size] ones at first.

    >>> import gtensor as gt
    >>> layer = gt.nn.RMSNorm(2)
    >>> layer(layer.init(), gt.tensor([1.0, 7.0]))
    Tensor([0.2, 1.4], dtype=float32)
    """

    size: int
    eps: float | None = None

    def __post_init__(self) -> None:
        require_sizes(self, size=self.size)

    def init(self, key: Any = None, dtype: Any = float32) -> dict[str, Tensor]:
        """The first parameters, which are constants: no key is needed."""
        return {"w": create.ones((self.size,), dtype)}

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return rms_norm(x, params["w"], self.eps)


@dataclass(frozen=True)
class Dropout(Layer):
    """`dropout` at a rate, from a key, while training; it has no parameters.

    Raises OptionError for a rate outside [0, 1], and where something would be dropped without a key.

    >>> import gtensor as gt
    >>> layer = gt.nn.Dropout(0.5)
    >>> layer({}, gt.ones(3)), layer({}, gt.ones(3), gt.random.key(0), training=True)
    (Tensor([1., 1., 1.], dtype=float32), Tensor([2., 2., 0.], dtype=float32))
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise OptionError(f"Dropout: rate must be in [0, 1], not {self.rate}")

    def init(self, key: Any = None, dtype: Any = float32) -> dict[str, Tensor]:
        """No parameters: no key is needed."""
        return {}

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        if training and self.rate and key is None:
            raise OptionError("Dropout: what is dropped is drawn from a key", hint="pass key=gt.random.key(0)")
        return dropout(x, self.rate, key, training and self.rate > 0)


@dataclass(frozen=True)
class MultiHeadAttention(Layer):
    """`multi_head_attention` over x: [..., L, size], with `causal` each position over itself and those before it.

    Parameters: `qkv` and `out`, each with w and, with `bias`, b. `apply` also takes another sequence to attend to
    (`context`: [..., S, size]) and a `mask`, true or added where a key may be seen, that broadcasts to
    [..., heads, L, S].

    >>> import gtensor as gt
    >>> layer = gt.nn.MultiHeadAttention(8, heads=2, causal=True)
    >>> params = layer.init(gt.random.key(0))
    >>> params["qkv"]["w"].shape, layer(params, gt.ones((5, 3, 8))).shape
    ((8, 24), (5, 3, 8))
    """

    size: int
    heads: int
    causal: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        require_sizes(self, size=self.size, heads=self.heads)
        if self.size % self.heads:
            raise OptionError(f"MultiHeadAttention: {self.size} features cannot be divided among {self.heads} heads")

    def init(self, key: Any, dtype: Any = float32) -> dict[str, dict[str, Tensor]]:
        first, second = random.split(key)
        return {
            "qkv": Linear(self.size, 3 * self.size, self.bias).init(first, dtype),
            "out": Linear(self.size, self.size, self.bias).init(second, dtype),
        }

    def apply(
        self, params: Any, x: Any, key: Any = None, training: bool = False, *, context: Any = None, mask: Any = None
    ) -> Tensor:
        qkv, out = params["qkv"], params["out"]
        return multi_head_attention(
            x, qkv["w"], out["w"], self.heads, *((qkv["b"], out["b"]) if self.bias else ()),
            context=context, attn_mask=mask, is_causal=self.causal,
        )  # fmt: skip


@dataclass(frozen=True, init=False)
class Sequential(Layer):
    """Layers one after another; plain functions of an array, such as `gt.gelu`, are layers without parameters.

    The parameters are a tuple with those of each layer, `()` for a function. Each layer has a key of its own.

    >>> import gtensor as gt
    >>> model = gt.nn.Sequential(gt.nn.Linear(4, 8), gt.gelu, gt.nn.Dropout(0.1), gt.nn.Linear(8, 2))
    >>> params = model.init(gt.random.key(0))
    >>> [sorted(part) for part in params], model(params, gt.ones((3, 4))).shape
    ([['b', 'w'], [], [], ['b', 'w']], (3, 2))
    """

    layers: tuple[Layer | Callable[[Any], Tensor], ...]

    def __init__(self, *layers: Layer | Callable[[Any], Tensor]) -> None:
        object.__setattr__(self, "layers", layers)

    def init(self, key: Any, dtype: Any = float32) -> tuple[Any, ...]:
        keys = random.split(key, len(self.layers)) if self.layers else ()
        return tuple(
            layer.init(own, dtype) if isinstance(layer, Layer) else ()
            for layer, own in zip(self.layers, keys, strict=True)
        )

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Any:
        if len(params) != len(self.layers):
            raise ShapeError(f"Sequential: parameters of {len(params)} layers, not of {len(self.layers)}")
        for number, (layer, own) in enumerate(zip(self.layers, params, strict=True)):
            if isinstance(layer, Layer):
                drawn = random.fold_in(key, number) if training and key is not None else None
                x = layer.apply(own, x, drawn, training)
            else:
                x = layer(x)
        return x

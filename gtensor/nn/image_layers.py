"""Layers of arrays with channels, x: [N, C, *S]: convolutions, pools, normalization, flatten.

As in `layers`, a layer holds sizes and options, its parameters are the user's. `BatchNorm` also has a state, which
its `apply` takes and gives; it is no `Layer`, and stands beside a `Sequential`, not in it. Law: a layer computes what
the function of its name does.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import OptionError
from ..ops import create
from ..ops.layout import flatten
from ..tensor import Tensor
from ..types import float32
from . import convolution, pooling
from .channels import State, batch_norm, group_norm
from .initializers import lecun_normal
from .layers import Initializer, Layer, require_sizes


@dataclass(frozen=True)
class _Conv(Layer):
    """w: [outputs, inputs / groups, *window] from `initializer`, b: [outputs] zeros (none without `bias`)."""

    inputs: int
    outputs: int
    window: Any
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int = 1
    bias: bool = True
    initializer: Initializer = lecun_normal

    axes: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __post_init__(self) -> None:
        require_sizes(self, inputs=self.inputs, outputs=self.outputs, groups=self.groups)
        convolution.sizes(type(self).__name__, "window", self.window, self.axes)
        if self.inputs % self.groups or self.outputs % self.groups:
            raise OptionError(
                f"{type(self).__name__}: {self.inputs} channels to {self.outputs} cannot be divided into"
                f" groups={self.groups}"
            )

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        window = convolution.sizes(type(self).__name__, "window", self.window, self.axes)
        inner = self.inputs // self.groups
        drawn = self.initializer(key, (inner * math.prod(window), self.outputs), dtype)
        params = {"w": drawn.T.reshape((self.outputs, inner, *window))}
        return {**params, "b": create.zeros((self.outputs,), dtype)} if self.bias else params

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        shift = params["b"] if self.bias else None
        return type(self).function(x, params["w"], shift, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """`conv1d` from `inputs` channels to `outputs`.

    w: [outputs, inputs / groups, window] from `initializer`, b: [outputs] zeros at first (none without `bias`).

    >>> import gtensor as gt
    >>> layer = gt.nn.Conv1d(3, 8, 5, padding="same")
    >>> layer(layer.init(gt.random.key(0)), gt.ones((2, 3, 20))).shape
    (2, 8, 20)
    """

    axes = 1
    function = staticmethod(convolution.conv1d)


class Conv2d(_Conv):
    """`conv2d` from `inputs` channels to `outputs`; `window` and the options are one integer or one per axis.

    w: [outputs, inputs / groups, *window] from `initializer`, b: [outputs] zeros at first (none without `bias`).

    >>> import gtensor as gt
    >>> layer = gt.nn.Conv2d(3, 8, 5, stride=2, padding=2)
    >>> params = layer.init(gt.random.key(0))
    >>> params["w"].shape, layer(params, gt.ones((2, 3, 28, 28))).shape
    ((8, 3, 5, 5), (2, 8, 14, 14))
    """

    axes = 2
    function = staticmethod(convolution.conv2d)


class Conv3d(_Conv):
    """`conv3d` from `inputs` channels to `outputs`; otherwise as `Conv2d`.

    >>> import gtensor as gt
    >>> layer = gt.nn.Conv3d(1, 2, (1, 3, 3))
    >>> layer(layer.init(gt.random.key(0)), gt.ones((1, 1, 4, 5, 6))).shape
    (1, 2, 4, 3, 4)
    """

    axes = 3
    function = staticmethod(convolution.conv3d)


@dataclass(frozen=True)
class _Pool(Layer):
    """A pool: no parameters."""

    window: Any
    stride: Any = None
    padding: Any = 0

    def __post_init__(self) -> None:
        convolution.sizes(type(self).__name__, "window", self.window, 2)

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        return {}

    @abstractmethod
    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        """The pooled array."""


class MaxPool2d(_Pool):
    """`max_pool2d` of windows, side by side unless `stride` is given; it has no parameters.

    >>> import gtensor as gt
    >>> gt.nn.MaxPool2d(2)({}, gt.ones((8, 3, 6, 6))).shape
    (8, 3, 3, 3)
    """

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return pooling.max_pool2d(x, self.window, self.stride, self.padding)


class AvgPool2d(_Pool):
    """`avg_pool2d` of windows, side by side unless `stride` is given; it has no parameters.

    >>> import gtensor as gt
    >>> gt.nn.AvgPool2d(3, stride=2, padding=1)({}, gt.ones((8, 3, 6, 6))).shape
    (8, 3, 3, 3)
    """

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return pooling.avg_pool2d(x, self.window, self.stride, self.padding)


@dataclass(frozen=True)
class Flatten(Layer):
    """All axes from `start` on as one; it has no parameters.

    >>> import gtensor as gt
    >>> gt.nn.Flatten()({}, gt.ones((8, 3, 4, 5))).shape
    (8, 60)
    """

    start: int = 1

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        return {}

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return flatten(x, self.start)


@dataclass(frozen=True)
class GroupNorm(Layer):
    """`group_norm` of `channels` in `groups`, with w: [channels] ones and b: [channels] zeros at first.

    >>> import gtensor as gt
    >>> layer = gt.nn.GroupNorm(2, 4)
    >>> layer(layer.init(gt.random.key(0)), gt.tensor([[1.0, 3.0, 5.0, 9.0]]))
    Tensor([[-0.999995  ,  0.999995  , -0.99999875,  0.99999875]], dtype=float32)
    """

    groups: int
    channels: int
    eps: float = 1e-5

    def __post_init__(self) -> None:
        require_sizes(self, groups=self.groups, channels=self.channels)
        if self.channels % self.groups:
            raise OptionError(f"GroupNorm: {self.channels} channels cannot be divided into {self.groups} groups")

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        return {"w": create.ones((self.channels,), dtype), "b": create.zeros((self.channels,), dtype)}

    def apply(self, params: Any, x: Any, key: Any = None, training: bool = False) -> Tensor:
        return group_norm(x, self.groups, params["w"], params["b"], self.eps)


@dataclass(frozen=True)
class BatchNorm:
    """`batch_norm` of x: [N, channels, *S], with w: [channels] ones and b: [channels] zeros at first.

    `init_state()` gives the first running statistics; `apply(params, state, x, training)` gives y and the new state.

    >>> import gtensor as gt
    >>> layer = gt.nn.BatchNorm(3)
    >>> params, state = layer.init(gt.random.key(0)), layer.init_state()
    >>> y, state = layer(params, state, gt.ones((4, 3, 5, 5)), training=True)
    >>> y.shape, state["mean"]
    ((4, 3, 5, 5), Tensor([0.1, 0.1, 0.1], dtype=float32))
    """

    channels: int
    momentum: float = 0.1
    eps: float = 1e-5

    __gt_leaf__ = True

    def __post_init__(self) -> None:
        require_sizes(self, channels=self.channels)

    def init(self, key: Any, dtype: Any = float32) -> dict[str, Tensor]:
        """The first parameters; none is drawn from the key."""
        return {"w": create.ones((self.channels,), dtype), "b": create.zeros((self.channels,), dtype)}

    def init_state(self, dtype: Any = float32) -> State:
        """The first running statistics: mean 0 and variance 1."""
        return {"mean": create.zeros((self.channels,), dtype), "var": create.ones((self.channels,), dtype)}

    def apply(self, params: Any, state: Any, x: Any, training: bool = False) -> tuple[Tensor, State]:
        """The normalized array, by the statistics of x with `training`, else by the state's, and the new state."""
        return batch_norm(x, state, params["w"], params["b"], training, self.momentum, self.eps)

    def __call__(self, params: Any, state: Any, x: Any, training: bool = False) -> tuple[Tensor, State]:
        return self.apply(params, state, x, training)

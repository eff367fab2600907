"""The workloads in gtensor: the table of operations and the training step of each."""

from collections.abc import Callable
from typing import Any

import gtensor as gt

from . import models, workloads


class Operations:
    """The table B of models.py."""

    linear = staticmethod(gt.nn.linear)
    relu = staticmethod(gt.relu)
    tanh = staticmethod(gt.tanh)
    sigmoid = staticmethod(gt.sigmoid)
    layernorm = staticmethod(gt.nn.layer_norm)
    xent = staticmethod(gt.nn.cross_entropy)
    mse = staticmethod(gt.nn.mse_loss)
    mean = staticmethod(gt.mean)
    sum = staticmethod(gt.sum)

    @staticmethod
    def gelu(x: Any) -> gt.Tensor:
        """The tanh form."""
        return gt.gelu(x, approximate="tanh")


OPTIMIZERS: dict[str, Callable[[dict[str, Any]], gt.optim.Optimizer]] = {
    "sgd": lambda opt: gt.optim.sgd(opt["lr"]),
    "sgd_dx": lambda opt: gt.optim.sgd(opt["lr"]),
    "adam": lambda opt: gt.optim.adam(opt["lr"]),
    "adamw": lambda opt: gt.optim.adamw(opt["lr"], weight_decay=opt["wd"]),
}


def loss_of(name: str) -> Callable[..., gt.Tensor]:
    """`loss(params, x, y)` of a workload; the last argument is W9's cotangent."""
    model = models.LOSS[name]
    second = "ct" if name == "W9" else "y"

    def loss(params: dict[str, Any], x: Any, y: Any) -> gt.Tensor:
        value: gt.Tensor = model(Operations, params, {"x": x, second: y})
        return value

    loss.__name__ = name
    return loss


def batch_of(name: str, data: dict[str, Any]) -> tuple[Any, Any]:
    """The two arrays of a workload's batch."""
    return data["x"], data["ct" if name == "W9" else "y"]


def step_of(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A plain training step `step(params, state, x, y)` and its first arguments.

    It returns new parameters and state and the loss; for W9 also the gradient with respect to x.
    """
    params, data, opt = workloads.make(name)
    optimizer = OPTIMIZERS[opt["kind"]](opt)
    loss_fn = loss_of(name)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = gt.value_and_grad(loss_fn)(params, x, y)
        params, state = optimizer.update(params, grads, state)
        return params, state, loss

    def step_dx(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, (grads, dx) = gt.value_and_grad(loss_fn, (0, 1))(params, x, y)
        params, state = optimizer.update(params, grads, state)
        return params, state, loss, dx

    chosen = step_dx if opt["kind"] == "sgd_dx" else step
    chosen.__name__ = f"{name}_step"
    return chosen, (params, optimizer.init(params), *batch_of(name, data))

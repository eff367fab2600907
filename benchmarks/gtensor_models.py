"""The workloads in gtensor: the table of operations and the training step of each.

Modes: step (`TrainStep`, for W9 a `Resident` that also returns the gradient of x), compile (`gt.compile` with donated
parameters and state), fit (a hundred steps over a data set that repeats the batch), noblas (step without BLAS).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import gtensor as gt

from . import models, workloads
from .contender import Run, Unsupported


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
    concat = staticmethod(lambda arrays: gt.concat(arrays, axis=-1))
    sum = staticmethod(gt.sum)

    @staticmethod
    def sdpa(q: Any, k: Any, v: Any, causal: bool) -> gt.Tensor:
        """Attention."""
        return gt.nn.scaled_dot_product_attention(q, k, v, is_causal=causal)

    @staticmethod
    def take(table: Any, ids: Any) -> gt.Tensor:
        """Rows of a table."""
        return gt.take(table, ids, axis=0)

    @staticmethod
    def heads(h: gt.Tensor, batch: int, length: int, heads: int, size: int) -> tuple[gt.Tensor, ...]:
        """Queries, keys and values by heads."""
        return tuple(h.reshape((batch, length, 3, heads, size)).transpose((2, 0, 3, 1, 4)))

    @staticmethod
    def unheads(a: gt.Tensor, batch: int, length: int, size: int) -> gt.Tensor:
        """The heads side by side again."""
        return a.transpose((0, 2, 1, 3)).reshape((batch, length, size))

    @staticmethod
    def scan(cell: Callable[[Any, Any], Any], init: Any, xs: Any) -> gt.Tensor:
        """The carries of all steps."""

        def step(carry: Any, x: Any) -> tuple[Any, Any]:
            carry = cell(carry, x)
            return carry, carry

        return gt.scan(step, init, xs)[1]

    conv = staticmethod(gt.nn.conv2d)
    avgpool2 = staticmethod(lambda x: gt.nn.avg_pool2d(x, 2))
    flatten = staticmethod(lambda x: gt.flatten(x, 1))

    @staticmethod
    def gelu(x: Any) -> gt.Tensor:
        """The tanh form."""
        return gt.gelu(x, approximate="tanh")


OPTIMIZERS: dict[str, Callable[[dict[str, Any]], gt.optim.Optimizer]] = {
    "sgd": lambda opt: gt.optim.sgd(opt["lr"]),
    "sgd_dx": lambda opt: gt.optim.sgd(opt["lr"]),
    "pc": lambda opt: gt.optim.sgd(opt["lr"]),
    "adam": lambda opt: gt.optim.adam(opt["lr"]),
    "adamw": lambda opt: gt.optim.adamw(opt["lr"], weight_decay=opt["wd"]),
}


def loss_of(name: str) -> Callable[..., gt.Tensor]:
    """`loss(params, x, y)` of a workload; the last argument is W9's cotangent, further data is captured."""
    if name == "W5":
        return predictive_coding
    model = models.LOSS[name]
    second = "ct" if name == "W9" else "y"
    rest = {key: value for key, value in workloads.make(name)[1].items() if key not in ("x", second)}

    def loss(params: dict[str, Any], x: Any, y: Any) -> gt.Tensor:
        value: gt.Tensor = model(Operations, params, {"x": x, second: y, **rest})
        return value

    loss.__name__ = name
    return loss


def predictive_coding(params: dict[str, Any], x: Any, y: Any) -> gt.Tensor:
    """W5: the activity relaxes for K steps, then the energy at rest is what the weights descend."""
    data, opt = {"x": x, "y": y}, workloads.make("W5")[2]
    mu = models.W5_mu1(Operations, params, data)
    slope = gt.grad(lambda activity: models.W5_energy(Operations, params, data, activity, mu))
    relaxed, _ = gt.scan(lambda a, _: (a - opt["lr_x"] * slope(a), None), mu, length=opt["K"])
    value: gt.Tensor = models.W5_energy(Operations, params, data, gt.stop_gradient(relaxed), mu) * (1 / 64)
    return value


def batch_of(name: str, data: dict[str, Any]) -> tuple[Any, Any]:
    """The two arrays of a workload's batch."""
    return data["x"], data["ct" if name == "W9" else "y"]


def step_of(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A plain training step `step(params, state, x, y)` and its first arguments.

    It returns new parameters and state and the loss; for W9 also the gradient with respect to x.
    """
    return plain_step(name, *workloads.make(name))


def plain_step(name: str, params: Any, data: Any, opt: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`step_of` for a workload that is made already."""
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


# ---- for the harness --------------------------------------------------------------------------------------


def prepare() -> None:
    """Once per machine: the compiler is tried out, the trampoline for calls compiled."""
    gt.compile(lambda x: x + 1)(gt.ones(1))


def about(compiled: Any) -> dict[str, Any]:
    """What the record says of a compilation: the milliseconds of its parts, and whether the cache had it."""
    times = compiled.times
    parts = {"trace": times.trace, "find": times.find, "lower": times.lower, "build": times.build}
    return {"hit": compiled.hit, "stages_ms": {part: 1e3 * seconds for part, seconds in parts.items()}}


def train_step(name: str, params: Any, data: Any, opt: Any) -> Run:
    """One call of `TrainStep`, which gives the loss."""
    batch = batch_of(name, data)
    train = gt.TrainStep(loss_of(name), params, OPTIMIZERS[opt["kind"]](opt), *batch)
    return Run(lambda: train(*batch), about=lambda: about(train.compiled))


def resident_step(name: str, params: Any, data: Any, opt: Any) -> Run:
    """One call of a `Resident` that gives the loss and the gradient of x, in fresh memory."""
    plain, (params, state, *batch) = plain_step(name, params, data, opt)

    def step(state: Any, x: Any, ct: Any) -> Any:
        params, after, loss, dx = plain(state["params"], state["optimizer"], x, ct)
        return {"params": params, "optimizer": after}, (loss, dx)

    resident = gt.Resident(step, {"params": params, "optimizer": state}, batch)
    return Run(lambda: resident(*batch)[0].item(), about=lambda: about(resident.compiled))


ONE_CALL: dict[str, Callable[..., Run]] = {"sgd_dx": resident_step}


def one_call(name: str, params: Any, data: Any, opt: Any) -> Run:
    """The fastest way to one step: state that stays in C, only the batch passed."""
    return ONE_CALL.get(opt["kind"], train_step)(name, params, data, opt)


def donated(name: str, params: Any, data: Any, opt: Any) -> Run:
    """One call of a compiled function that takes and gives parameters and state, in the same memory."""
    step, (params, state, *batch) = plain_step(name, params, data, opt)
    compiled = gt.compile(step, donate=("params", "state"))
    params = {key: gt.tensor(value) for key, value in params.items()}

    def call() -> float:
        nonlocal params, state
        params, state, loss, *_ = compiled(params, state, *batch)
        return loss.item()

    return Run(call, about=lambda: about(compiled.compiled))


UPDATES = 100
"""Of one call of `fit`, as of jax's."""


def fit(name: str, params: Any, data: Any, opt: Any) -> Run:
    """One call of `fit` over a data set of a hundred batches, all of them the workload's."""
    if opt["kind"] == "sgd_dx":
        raise Unsupported("fit does not return the gradient of x")
    batch = batch_of(name, data)
    train = gt.TrainStep(loss_of(name), params, OPTIMIZERS[opt["kind"]](opt), *batch)
    rows = [np.concatenate([array] * UPDATES) for array in batch]
    return Run(
        lambda: train.fit(*rows, shuffle=False, progress=False).losses, UPDATES, about=lambda: about(train.compiled)
    )


BIG = ("W2", "W8")
"""Workloads with products for which BLAS is called where there is one."""


def noblas(name: str, params: Any, data: Any, opt: Any) -> Run:
    """As `one_call`, all products being gtensor's own."""
    if name not in BIG:
        raise Unsupported("no product is big enough for BLAS")
    with gt.config(blas="none"):
        return one_call(name, params, data, opt)


MODES = {"step": one_call, "compile": donated, "fit": fit, "noblas": noblas}


def build(name: str, mode: str, params: Any, data: Any, opt: Any) -> Run:
    """The training step of a workload in a mode; raises Unsupported."""
    return MODES[mode](name, params, data, opt)

"""The workloads in jax.

Modes: jit (one step a call), 100steps (a scan over a hundred steps a call, all losses returned). The state is donated.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import models
from .contender import Run

tree_map = jax.tree.map


class Operations:
    """The table B of models.py."""

    linear = staticmethod(lambda x, W, b: x @ W + b)
    relu = staticmethod(jax.nn.relu)
    gelu = staticmethod(functools.partial(jax.nn.gelu, approximate=True))
    mse = staticmethod(lambda a, b: jnp.mean((a - b) ** 2))
    sum = staticmethod(jnp.sum)

    @staticmethod
    def layernorm(x, g, b):
        centred = x - jnp.mean(x, -1, keepdims=True)
        return centred * lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * g + b

    @staticmethod
    def xent(logits, labels):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def sgd(loss, rate):
    def step(state, data):
        value, grads = jax.value_and_grad(loss)(state["p"], data)
        return {"p": tree_map(lambda p, g: p - rate * g, state["p"], grads)}, value

    return step, lambda params, data: {}


def sgd_dx(loss, rate):
    def step(state, data):
        gradient = jax.value_and_grad(lambda p, x: loss(p, {**data, "x": x}), (0, 1))
        value, (grads, dx) = gradient(state["p"], data["x"])
        return {"p": tree_map(lambda p, g: p - rate * g, state["p"], grads), "dx": dx}, value

    return step, lambda params, data: {"dx": jnp.zeros_like(data["x"])}


def adam(loss, rate):
    def step(state, data):
        value, grads = jax.value_and_grad(loss)(state["p"], data)
        t = state["t"] + 1
        m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)
        v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, state["v"], grads)
        scale, square = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        p = tree_map(lambda p, m, v: p - rate * (m * scale) / (jnp.sqrt(v * square) + 1e-8), state["p"], m, v)
        return {"p": p, "m": m, "v": v, "t": t}, value

    def start(params, data):
        return {"m": tree_map(jnp.zeros_like, params), "v": tree_map(jnp.zeros_like, params), "t": jnp.zeros(())}

    return step, start


STEPS = {"sgd": sgd, "sgd_dx": sgd_dx, "adam": adam}

UPDATES = 100


def jit(step):
    return step


def hundred(step):
    return lambda state, data: lax.scan(lambda s, _: step(s, data), state, length=UPDATES)


MODES = {"jit": (jit, float, 1), "100steps": (hundred, np.asarray, UPDATES)}
"""Mode -> what becomes of the step, how its loss is read, how many updates a call makes."""


def build(name, mode, params, data, opt):
    params, data = ({key: jnp.array(value) for key, value in arrays.items()} for arrays in (params, data))
    step, start = STEPS[opt["kind"]](lambda p, d: models.LOSS[name](Operations, p, d), opt["lr"])
    transform, read, updates = MODES[mode]
    function = jax.jit(transform(step), donate_argnums=0)
    state = {"p": params, **start(params, data)}

    def call():
        nonlocal state
        state, value = function(state, data)
        return read(value)

    return Run(call, updates)

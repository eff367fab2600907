"""The workloads in jax.

Modes: jit (one step a call), 100steps (a scan over a hundred steps a call, all losses returned). The state is donated.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import models, workloads
from .contender import Run

tree_map = jax.tree.map


class Operations:
    """The table B of models.py."""

    linear = staticmethod(lambda x, W, b: x @ W + b)
    relu = staticmethod(jax.nn.relu)
    gelu = staticmethod(functools.partial(jax.nn.gelu, approximate=True))
    tanh = staticmethod(jnp.tanh)
    sigmoid = staticmethod(jax.nn.sigmoid)
    mse = staticmethod(lambda a, b: jnp.mean((a - b) ** 2))
    sum = staticmethod(jnp.sum)
    mean = staticmethod(jnp.mean)
    concat = staticmethod(lambda arrays: jnp.concatenate(arrays, axis=-1))
    take = staticmethod(lambda table, ids: table[ids])

    flatten = staticmethod(lambda x: x.reshape((x.shape[0], -1)))

    @staticmethod
    def conv(x, K, c):
        layout = ("NCHW", "OIHW", "NCHW")
        return lax.conv_general_dilated(x, K, (1, 1), "VALID", dimension_numbers=layout) + c[:, None, None]

    @staticmethod
    def avgpool2(x):
        batch, channels, height, width = x.shape
        return x.reshape(batch, channels, height // 2, 2, width // 2, 2).mean((3, 5))

    @staticmethod
    def layernorm(x, g, b):
        centred = x - jnp.mean(x, -1, keepdims=True)
        return centred * lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * g + b

    @staticmethod
    def sdpa(q, k, v, causal):
        scores = (q @ jnp.swapaxes(k, -1, -2)) * (q.shape[-1] ** -0.5)
        if causal:
            scores = jnp.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
        return jax.nn.softmax(scores, -1) @ v

    @staticmethod
    def heads(h, batch, length, heads, size):
        return tuple(h.reshape(batch, length, 3, heads, size).transpose(2, 0, 3, 1, 4))

    @staticmethod
    def unheads(a, batch, length, size):
        return a.transpose(0, 2, 1, 3).reshape(batch, length, size)

    @staticmethod
    def scan(cell, start, xs):
        return lax.scan(lambda c, x: (cell(c, x),) * 2, start, xs)[1]

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


def adam(loss, rate, decay=0.0):
    def step(state, data):
        value, grads = jax.value_and_grad(loss)(state["p"], data)
        t = state["t"] + 1
        m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)
        v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, state["v"], grads)
        scale, square = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)

        def moved(p, m, v):
            return p * (1 - rate * decay) - rate * (m * scale) / (jnp.sqrt(v * square) + 1e-8)

        p = tree_map(moved, state["p"], m, v)
        return {"p": p, "m": m, "v": v, "t": t}, value

    def start(params, data):
        return {"m": tree_map(jnp.zeros_like, params), "v": tree_map(jnp.zeros_like, params), "t": jnp.zeros(())}

    return step, start


STEPS = {"sgd": sgd, "sgd_dx": sgd_dx, "adam": adam, "pc": sgd, "adamw": functools.partial(adam, decay=0.01)}


def predictive_coding(params, data):
    """W5: the activity relaxes, then the energy at rest is what the weights descend."""
    opt, mu = workloads.make("W5")[2], models.W5_mu1(Operations, params, data)
    slope = jax.grad(lambda activity: models.W5_energy(Operations, params, data, activity, mu))
    relaxed = lax.fori_loop(0, opt["K"], lambda _, a: a - opt["lr_x"] * slope(a), lax.stop_gradient(mu))
    return models.W5_energy(Operations, params, data, lax.stop_gradient(relaxed), mu) * (1 / 64)


UPDATES = 100


def jit(step):
    return step


def hundred(step):
    return lambda state, data: lax.scan(lambda s, _: step(s, data), state, length=UPDATES)


MODES = {"jit": (jit, float, 1), "100steps": (hundred, np.asarray, UPDATES)}
"""Mode -> what becomes of the step, how its loss is read, how many updates a call makes."""


def build(name, mode, params, data, opt):
    params, data = ({key: jnp.array(value) for key, value in arrays.items()} for arrays in (params, data))
    loss = predictive_coding if name == "W5" else functools.partial(models.LOSS[name], Operations)
    step, start = STEPS[opt["kind"]](loss, opt["lr"])
    transform, read, updates = MODES[mode]
    function = jax.jit(transform(step), donate_argnums=0)
    state = {"p": params, **start(params, data)}

    def call():
        nonlocal state
        state, value = function(state, data)
        return read(value)

    return Run(call, updates)

"""The workloads in pytensor. Mode: default (its own default mode and linker), parameters in shared variables."""

import numpy as np
import pytensor
import pytensor.tensor as pt

from . import models
from .contender import Run, Unsupported

pytensor.config.floatX = "float32"

f32 = np.float32


class Operations:
    """The table B of models.py."""

    linear = staticmethod(lambda x, W, b: x @ W + b)
    relu = staticmethod(lambda x: pt.maximum(x, f32(0)))
    mse = staticmethod(lambda a, b: pt.mean((a - b) ** 2))
    sum = staticmethod(pt.sum)

    @staticmethod
    def gelu(x):
        """The tanh form."""
        return f32(0.5) * x * (1 + pt.tanh(f32(0.7978845608028654) * (x + f32(0.044715) * x * x * x)))

    @staticmethod
    def layernorm(x, g, b):
        centred = x - pt.mean(x, axis=-1, keepdims=True)
        return centred / pt.sqrt(pt.mean(centred * centred, axis=-1, keepdims=True) + f32(1e-5)) * g + b

    @staticmethod
    def xent(logits, labels):
        return -pt.mean(pt.special.log_softmax(logits, axis=-1)[pt.arange(labels.shape[0]), labels])


def sgd(params, grads, rate):
    return [(p, p - rate * g) for p, g in zip(params, grads, strict=True)]


def adam(params, grads, rate):
    count = pytensor.shared(f32(0))
    t = count + f32(1)
    scale, square = 1 / (1 - f32(0.9) ** t), 1 / (1 - f32(0.999) ** t)
    updates = [(count, t)]
    for p, g in zip(params, grads, strict=True):
        first, second = (pytensor.shared(np.zeros_like(p.get_value()), shape=p.type.shape) for _ in range(2))
        m, v = f32(0.9) * first + f32(0.1) * g, f32(0.999) * second + f32(0.001) * g * g
        updates += [(first, m), (second, v), (p, p - rate * (m * scale) / (pt.sqrt(v * square) + f32(1e-8)))]
    return updates


UPDATES = {"sgd": sgd, "sgd_dx": sgd, "adam": adam}

MODES = ("default",)


WRITTEN = ("W1", "W2", "W8", "W9")
"""Workloads whose operations stand in the table above."""


def build(name, mode, params, data, opt):
    if name not in WRITTEN:
        raise Unsupported("not written in pytensor")
    params, data = (
        {key: pytensor.shared(value, key, shape=value.shape) for key, value in arrays.items()}
        for arrays in (params, data)
    )
    loss, weights = models.LOSS[name](Operations, params, data), list(params.values())
    more = [pytensor.Out(pt.grad(loss, data["x"]), borrow=True)] if opt["kind"] == "sgd_dx" else []
    updates = UPDATES[opt["kind"]](weights, pt.grad(loss, weights), f32(opt["lr"]))
    function = pytensor.function([], [loss, *more], updates=[(old, new.astype("float32")) for old, new in updates])
    function.trust_input = True
    return Run(lambda: float(function()[0]))

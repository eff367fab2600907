"""The workloads in torch.

Modes: eager (autograd and the fused optimizer), compile (forward, gradient and update in one torch.compile graph).
"""

import functools
import os

import torch
import torch.nn.functional as F

from . import models
from .contender import Run

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class Operations:
    """The table B of models.py."""

    linear = staticmethod(lambda x, W, b: torch.addmm(b, x, W))
    relu = staticmethod(torch.relu)
    gelu = staticmethod(functools.partial(F.gelu, approximate="tanh"))
    layernorm = staticmethod(lambda x, g, b: F.layer_norm(x, g.shape, g, b, 1e-5))
    xent = staticmethod(F.cross_entropy)
    mse = staticmethod(F.mse_loss)
    sum = staticmethod(torch.sum)


OPTIMIZERS = {"sgd": torch.optim.SGD, "sgd_dx": torch.optim.SGD, "adam": torch.optim.Adam}


def eager(loss, params, data, opt):
    for value in params.values():
        value.requires_grad_(True)
    wants_dx = opt["kind"] == "sgd_dx"
    data["x"].requires_grad_(wants_dx)
    optimizer = OPTIMIZERS[opt["kind"]](list(params.values()), lr=opt["lr"], fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        if wants_dx:
            data["x"].grad = None
        value = loss(params, data)
        value.backward()
        optimizer.step()
        return value.item()

    return step


def compiled(loss, params, data, opt):
    update, state = UPDATES[opt["kind"]](params, opt["lr"])
    gradient = torch.func.grad_and_value(loss)
    gradient_dx = torch.func.grad_and_value(lambda p, x, d: loss(p, {**d, "x": x}), argnums=(0, 1))

    def step(params, state, data):
        grads, value = gradient(params, data)
        update(params, grads, state)
        return value, None

    def step_dx(params, state, data):
        (grads, dx), value = gradient_dx(params, data["x"], data)
        update(params, grads, state)
        return value, dx

    function = torch.compile(step_dx if opt["kind"] == "sgd_dx" else step, fullgraph=True)

    def call():
        with torch.no_grad():
            return function(params, state, data)[0].item()

    return call


def sgd(params, rate):
    def update(params, grads, state):
        for key, value in params.items():
            value.sub_(rate * grads[key])

    return update, ()


def adam(params, rate):
    moments = [{key: torch.zeros_like(value) for key, value in params.items()} for _ in range(2)]

    def update(params, grads, state):
        first, second, count = state
        count.add_(1)
        scale, square = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)
        for key, value in params.items():
            m, v = 0.9 * first[key] + 0.1 * grads[key], 0.999 * second[key] + 0.001 * grads[key] * grads[key]
            first[key].copy_(m)
            second[key].copy_(v)
            value.sub_(rate * (m * scale) / ((v * square).sqrt() + 1e-8))

    return update, (*moments, torch.zeros(()))


UPDATES = {"sgd": sgd, "sgd_dx": sgd, "adam": adam}

MODES = {"eager": eager, "compile": compiled}


def build(name, mode, params, data, opt):
    params, data = ({key: torch.tensor(value) for key, value in arrays.items()} for arrays in (params, data))
    if "y" in data and not data["y"].is_floating_point():
        data["y"] = data["y"].long()
    return Run(MODES[mode](lambda p, d: models.LOSS[name](Operations, p, d), params, data, opt))

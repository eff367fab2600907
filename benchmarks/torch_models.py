"""The workloads in torch.

Modes: eager (autograd and the fused optimizer), compile (forward, gradient and update in one torch.compile graph).
"""

import functools
import os

import torch
import torch.nn.functional as F

from . import models, workloads
from .contender import Run

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class Operations:
    """The table B of models.py."""

    linear = staticmethod(lambda x, W, b: torch.addmm(b, x, W) if x.dim() == 2 else F.linear(x, W.t(), b))
    relu = staticmethod(torch.relu)
    gelu = staticmethod(functools.partial(F.gelu, approximate="tanh"))
    layernorm = staticmethod(lambda x, g, b: F.layer_norm(x, g.shape, g, b, 1e-5))
    xent = staticmethod(F.cross_entropy)
    mse = staticmethod(F.mse_loss)
    sum = staticmethod(torch.sum)
    mean = staticmethod(torch.mean)
    tanh = staticmethod(torch.tanh)
    sigmoid = staticmethod(torch.sigmoid)
    concat = staticmethod(lambda arrays: torch.cat(arrays, -1))
    take = staticmethod(lambda table, ids: F.embedding(ids, table))
    sdpa = staticmethod(lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal))

    conv = staticmethod(F.conv2d)
    avgpool2 = staticmethod(lambda x: F.avg_pool2d(x, 2))
    flatten = staticmethod(lambda x: x.flatten(1))

    @staticmethod
    def heads(h, batch, length, heads, size):
        return h.view(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)

    @staticmethod
    def unheads(a, batch, length, size):
        return a.transpose(1, 2).reshape(batch, length, size)

    @staticmethod
    def scan(cell, start, xs):
        carries = []
        for x in xs.unbind(0):
            start = cell(start, x)
            carries.append(start)
        return torch.stack(carries)


OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "sgd_dx": torch.optim.SGD,
    "pc": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": functools.partial(torch.optim.AdamW, weight_decay=0.01),
}


def relaxed_loss(slope_of):
    """W5: the activity relaxes, then the energy at rest is what the weights descend."""

    def loss(params, data):
        opt, mu = workloads.make("W5")[2], models.W5_mu1(Operations, params, data)
        activity, rest = mu.detach(), mu.detach()
        slope = slope_of(params, data, rest)
        for _ in range(opt["K"]):
            activity = activity - opt["lr_x"] * slope(activity)
        return models.W5_energy(Operations, params, data, activity.detach(), mu) * (1 / 64)

    return loss


def slope_by_tape(params, data, rest):
    def slope(activity):
        activity = activity.detach().requires_grad_(True)
        (found,) = torch.autograd.grad(models.W5_energy(Operations, params, data, activity, rest), activity)
        return found

    return slope


def slope_by_function(params, data, rest):
    held = {key: value.detach() for key, value in params.items()}
    return torch.func.grad(lambda activity: models.W5_energy(Operations, held, data, activity, rest))


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


def adam(params, rate, decay=0.0):
    moments = [{key: torch.zeros_like(value) for key, value in params.items()} for _ in range(2)]

    def update(params, grads, state):
        first, second, count = state
        count.add_(1)
        scale, square = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)
        for key, value in params.items():
            m, v = 0.9 * first[key] + 0.1 * grads[key], 0.999 * second[key] + 0.001 * grads[key] * grads[key]
            first[key].copy_(m)
            second[key].copy_(v)
            value.copy_(value * (1 - rate * decay) - rate * (m * scale) / ((v * square).sqrt() + 1e-8))

    return update, (*moments, torch.zeros(()))


UPDATES = {"sgd": sgd, "sgd_dx": sgd, "pc": sgd, "adam": adam, "adamw": functools.partial(adam, decay=0.01)}

MODES = {"eager": eager, "compile": compiled}


def build(name, mode, params, data, opt):
    params, data = ({key: torch.tensor(value) for key, value in arrays.items()} for arrays in (params, data))
    for key, value in data.items():
        data[key] = value if value.is_floating_point() else value.long()
    if name == "W5":
        loss = relaxed_loss(slope_by_tape if mode == "eager" else slope_by_function)
    else:
        loss = functools.partial(models.LOSS[name], Operations)
    return Run(MODES[mode](loss, params, data, opt))

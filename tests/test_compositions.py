"""Compositions as functions: first and second derivatives against differences, lawful graphs, compiled as evaluated."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.interp import run
from tests.values import agree, check_derivatives, close, f32

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(5)

SMOOTH = {
    "mean": lambda x: gt.mean(x, axis=0),
    "var": lambda x: gt.var(x, axis=1, correction=1),
    "std": lambda x: gt.std(x, axis=(0, 1)),
    "norm": lambda x: gt.norm(x, axis=1),
    "norm of all": gt.norm,
    "relu": gt.relu,
    "leaky_relu": gt.leaky_relu,
    "silu": gt.silu,
    "log_sigmoid": gt.log_sigmoid,
    "clip": lambda x: gt.clip(x, -0.5, 0.6),
    "linear": lambda x: gt.nn.linear(x, gt.reshape(gt.arange(8.0), (4, 2)), gt.ones(2)),
    "dot": lambda x: gt.dot(x, gt.arange(4.0)),
    "vecdot": lambda x: gt.vecdot(x, x * 2),
    "outer": lambda x: gt.outer(x, x),
    "tensordot": lambda x: gt.tensordot(x, gt.reshape(gt.arange(24.0), (2, 4, 3)), axes=((1, 0), (1, 2))),
    "swapaxes": lambda x: gt.swapaxes(x, 0, 1),
    "unstack": lambda x: gt.unstack(x, axis=1)[2] * gt.unstack(x)[1][0],
    "meshgrid": lambda x: gt.meshgrid(x[0], x[1])[0] * gt.meshgrid(x[0], x[1])[1],
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    check_derivatives(SMOOTH[name], RNG.standard_normal((3, 4)))


@pytest.mark.parametrize("name", SMOOTH)
def test_traced_graphs_keep_the_laws_and_mean_the_same(name):
    x = RNG.standard_normal((3, 4)).astype(np.float32)

    def loss(x):
        return gt.sum(SMOOTH[name](x))

    graph = gt.trace(gt.value_and_grad(loss), x)
    check_graph(graph)
    value, grads = gt.value_and_grad(loss)(x)
    for got, wanted in zip(run(graph, [x]), (value, grads), strict=True):
        close(got, wanted, atol=1e-6)


def test_compiled_functions_are_the_evaluated_ones():
    def everything(x):
        losses = [lambda x, f=f: gt.sum(gt.sin(f(x))) for f in SMOOTH.values()]
        return [t for loss in losses for t in (loss(x), gt.grad(loss)(x))]

    x = RNG.standard_normal((3, 4)).astype(np.float32)
    agree(gt.compile(everything)(x), everything(x))


def test_compiled_functions_are_the_evaluated_ones_on_awkward_values():
    def everything(x):
        functions = [gt.relu, gt.leaky_relu, gt.silu, gt.log_sigmoid, gt.softmax, gt.log_softmax, gt.logsumexp]
        functions += [lambda x: gt.clip(x, -1, 1), lambda x: gt.clip(x, NAN, 1), lambda x: gt.norm(x, axis=1)]
        functions += [lambda x: gt.std(x, axis=1), gt.nn.layer_norm, lambda x: gt.nn.huber_loss(x, 0.0, "none")]
        return [t for f in functions for t in (f(x), gt.grad(lambda x, f=f: gt.sum(f(x)))(x))]

    rows = [[0, -0.0, 1, -1], [1e-40, -1e-40, 3e38, -3e38], [INF, 1, 2, 3], [-INF, 1, 2, 3], [-INF] * 4, [NAN, 1, 2, 3]]
    x = f32([*rows, [5, 5, 5, 5], [1e-30, 2e-30, 0, 0]])
    agree(gt.compile(everything)(x), everything(x))

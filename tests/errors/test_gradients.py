"""Derivatives that do not exist."""

from __future__ import annotations

import numpy as np

import gtensor as gt
from gtensor.errors import GradError, TraceError

W = {"w1": np.ones((3, 4), np.float32), "n": np.arange(3)}
X = np.ones((2, 3), np.float32)


def test_the_gradient_of_integers(refused):
    with refused(
        GradError,
        "params.n is i64[3]: only floating-point inputs have a gradient",
        "hint: convert it",
        builtin=TypeError,
    ):
        gt.grad(lambda params: gt.sum(params["w1"]))(W)  # fault
    with refused(GradError, "n is i64[3]"):
        gt.compile(gt.grad(lambda n: gt.sum(n * 1.0)))(np.arange(3))  # fault


def test_the_gradient_of_a_string(refused):
    with refused(GradError, "p.b is str, which has no gradient", "hint: leave it out with argnums or frozen"):
        gt.grad(lambda p: gt.sum(p["a"]))({"a": X, "b": "text"})  # fault


def test_a_loss_that_is_no_scalar(refused):
    with refused(GradError, "grad of rows needs a scalar result, not f32[2]", "hint: reduce it with gt.sum or gt.mean"):

        def rows(x):
            return gt.sum(x, axis=1)

        gt.grad(rows)(X)  # fault


def test_a_loss_that_is_an_integer(refused):
    with refused(GradError, "needs a floating-point result, not i64[]"):
        gt.grad(lambda x: gt.argmax(gt.sum(x, axis=1)))(X)  # fault


def test_an_operation_without_derivative_on_the_path(refused):
    def loss_fn(params, x):
        picked = gt.argmax(x @ params["w1"], axis=1)  # fault
        return gt.mean(picked)

    for differentiate in (gt.grad(loss_fn, frozen=lambda path: path == "n"), None):
        with refused(
            GradError,
            "argmax has no derivative; it lies on the path from params.w1 to the loss",
            "hint: wrap it in gt.stop_gradient",
        ):
            if differentiate is not None:
                differentiate(W, X)
            else:
                params = {"w1": gt.spec((3, 4))}
                gt.trace(gt.grad(loss_fn), params, gt.spec((2, 3)))


def test_backward_inside_a_trace(refused):
    def step(x):
        gt.sum(x * x).backward()  # fault
        return x

    with refused(TraceError, "backward() inside a trace", "hint: use gt.grad(loss, [w])"):
        gt.trace(step, gt.spec((3,)))


def test_backward_without_history(refused):
    with refused(GradError, "this tensor has no history", "requires_grad=True"):
        gt.sum(gt.ones(3)).backward()  # fault


def test_an_argument_that_does_not_exist(refused):
    with refused(GradError, "argnums=2, but there are 1 arguments"):
        gt.grad(lambda x: x, argnums=2)(1.0)  # fault

"""Programs refused while they are traced: shapes, dtypes, and what a traced tensor cannot do."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import (
    AxisError,
    DTypeError,
    GTensorError,
    IndexingError,
    OptionError,
    ShapeError,
    TraceError,
)

X = gt.spec((32, 8))


def test_inner_sizes_of_a_product(refused):
    def step(x, w0):
        h = x @ w0  # fault
        return h

    parts = "matmul: inner sizes differ", "8 against 9", "x is f32[32,8], w0 is f32[9,32]"
    with refused(ShapeError, *parts, builtin=ValueError):
        gt.trace(step, X, gt.spec((9, 32)))


def test_shapes_that_do_not_broadcast(refused):
    def step(params, x):
        return x + params["b"]  # fault

    with refused(ShapeError, "add: shapes (32, 8) and (4,) do not broadcast: 8 against 4", "params.b is f32[4]"):
        gt.trace(step, {"b": gt.spec((4,))}, X)


def test_a_reshape_to_another_size(refused):
    def step(x):
        return x.reshape(5, 5)  # fault

    with refused(ShapeError, "reshape", "x is f32[32,8]"):
        gt.trace(step, X)


def test_an_axis_out_of_range(refused):
    def step(x):
        return gt.sum(x, axis=2)  # fault

    with refused(AxisError, "axis 2 is out of range for an array with 2 axes", builtin=IndexError):
        gt.trace(step, X)


def test_the_largest_of_nothing(refused):
    def step(x):
        return gt.max(x[:0])  # fault

    with refused(ShapeError, "max of an empty axis has no value"):
        gt.trace(step, X)


def test_bits_of_floats(refused):
    def step(x):
        return gt.bitwise_and(x, 1)  # fault

    with refused(DTypeError, "bitwise_and: takes integers or bool, not floats: x is f32[32,8]", builtin=TypeError):
        gt.trace(step, X)


def test_indices_that_are_floats(refused):
    def step(x, i):
        return gt.take(x, i, axis=0)  # fault

    with refused(DTypeError, "indices must be integers, not float32"):
        gt.trace(step, X, gt.spec((3,)))


@pytest.mark.parametrize("dtype", ["complex64", "U3", "datetime64[s]"])
def test_dtypes_that_gtensor_has_not(refused, dtype):
    with refused(DTypeError, f"dtype {np.dtype(dtype)!r} is not supported", "hint: use one of float32, float64"):
        gt.compile(lambda x: x)(np.zeros(2, dtype))  # fault


def test_a_constant_index_out_of_range(refused):
    def step(x):
        return x[40]  # fault

    with refused(IndexingError, "index 40 is out of range for an axis of 32", builtin=IndexError):
        gt.trace(step, X)


def test_a_condition(refused):
    def step(loss):
        if loss < 1e-3:  # fault
            return loss
        return -loss

    with refused(
        TraceError,
        "a traced tensor has no truth value: `if` and `while` run once, while tracing",
        "hint: use gt.where, or pass the flag as a static argument",
        builtin=TypeError,
    ):
        gt.trace(step, gt.spec(()))


@pytest.mark.parametrize(
    "use, message, hint",
    [
        (lambda x: bool(x), "has no truth value", "gt.where"),  # fault
        (lambda x: float(x), "cannot become a Python float", "return it"),  # fault
        (lambda x: int(x), "cannot become a Python int", "static argument"),  # fault
        (lambda x: range(8)[x], "cannot be a Python index", "gt.take"),  # fault
        (lambda x: x.numpy(), "(x) has no numbers yet", "return it"),  # fault
        (lambda x: x.item(), "(x) has no numbers yet", "return it"),  # fault
        (lambda x: x.tolist(), "(x) has no numbers yet", "return it"),  # fault
        (lambda x: np.asarray(x), "(x) has no numbers yet", "return it"),  # fault
        (lambda x: [v for v in range(3) if v in x], "has no truth value", "gt.where"),  # fault
    ],
)
def test_numbers_of_a_traced_tensor(refused, use, message, hint):
    with refused(TraceError, message, "hint:", hint, builtin=ValueError):
        gt.trace(use, gt.spec(()))


def test_numpy_functions_that_gtensor_has_not(refused):
    def step(x):
        return np.spacing(x)  # fault

    with refused(TraceError, "np.spacing does not take a gtensor Tensor"):
        gt.trace(step, X)


def test_a_list_of_traced_tensors(refused):
    def step(x):
        return gt.sum([x[0], x[1]])  # fault

    with refused(TraceError, "a list of traced", "hint: use gt.stack"):
        gt.trace(step, X)


LEFT = []


def leaky(x):
    LEFT.append(x * 2)
    return x


@pytest.fixture
def left():
    LEFT.clear()
    gt.trace(leaky, X)
    return LEFT[0]


def test_a_tensor_used_after_its_trace(refused, left):
    with refused(
        TraceError, "a traced tensor of leaky was used outside its trace", "hint: return it", "made at test_tracing.py"
    ):
        left + 1  # fault


def test_a_tensor_used_in_another_trace(refused, left):
    def step(y):
        return y + left  # fault

    with refused(TraceError, "a traced tensor of leaky was used outside its trace"):
        gt.trace(step, X)
    with refused(TraceError, "a traced tensor of leaky was used outside its trace"):
        gt.compile(step)(np.zeros((32, 8), np.float32))


def test_a_leaked_tensor_as_an_argument(refused, left):
    double = gt.compile(lambda x: x * 2)  # fault
    with refused(TraceError, "a traced tensor of leaky was used outside its trace"):
        double(left)


@pytest.mark.parametrize("draw", [lambda: np.random.rand(8), random.random, lambda: np.random.normal()])
def test_random_numbers(refused, draw):
    def step(x):
        return x + draw()

    with refused(
        TraceError,
        "step drew random numbers while it was traced",
        "hint: draw them outside and pass them in",
        line=False,
    ):
        gt.trace(step, X)


class Noisy:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, x):
        return x + self.rng.normal()


def test_random_numbers_of_a_generator_that_is_captured(refused):
    rng, legacy, held = np.random.default_rng(0), np.random.RandomState(0), {"all": [np.random.default_rng(1)]}
    x = np.zeros(8, np.float32)

    def helper():
        return held["all"][0].random(8)

    def outer(rng):
        return lambda x: x + rng.random_sample(8)

    steps = [
        lambda x: x + rng.random(8),
        outer(legacy),
        lambda x: x + helper(),
        Noisy().__call__,
        functools.partial(lambda noise, x: noise(x), Noisy()),
    ]
    for step in steps:
        for use in (gt.trace, gt.compile(step)):
            with refused(TraceError, "drew random numbers while it was traced", line=False):
                use(*((step, x) if use is gt.trace else (x,)))
    with refused(TraceError, "drew random numbers while it was traced", line=False):
        gt.TrainStep(lambda w, x: gt.sum(w * x * rng.random(8)), x, gt.optim.sgd(0.1), x)
    with refused(TraceError, "drew random numbers while it was traced"):
        gt.trace(lambda x: x + rng.random(8), x)  # fault
    gt.trace(lambda x: x + len(str(rng)), x)


def test_results_that_are_no_arrays(refused):
    with refused(TraceError, "step returned str at b.0, which is no array", "hint: return tensors", line=False):

        def step(x):
            return {"a": x, "b": ["text"]}

        gt.compile(step)(np.zeros(3))


def test_static_arguments_that_have_no_hash(refused):
    with refused(TraceError, "a static argument must be hashable, not set"):
        gt.compile(lambda x, options: x)(np.zeros(3), {1, 2})  # fault


def test_run_time_extents(refused):
    with refused(ShapeError, "the run-time extent 'B' needs its bound: max={'B': …}"):
        gt.spec(("B", 3))  # fault
    with refused(ShapeError, "the run-time extent 'B' must be the first extent"):
        gt.spec((3, "B"), max={"B": 3})  # fault


def test_a_setting_that_does_not_exist(refused):
    with refused(GTensorError, "there is no setting 'verbose'", "hint: settings are cache, cache_size, cc"):
        gt.config(verbose=1).__enter__()  # fault


def test_a_setting_of_the_wrong_kind(refused, monkeypatch):
    monkeypatch.setenv("GT_DEBUG", "much")
    with refused(GTensorError, "GT_DEBUG='much' is not valid: 1: stages and times"):
        gt.compile(lambda x: x)(np.zeros(3))  # fault


def test_a_stage_that_does_not_exist(refused):
    with refused(OptionError, "there is no stage 'asm'", "hint: stages are simplified", builtin=ValueError):
        gt.compile(lambda x: x).lower(X).as_text("asm")  # fault

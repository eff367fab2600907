"""gt.optim against PyTorch's numbers (tests/optim_reference.py says how they were made), eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from tests.optim_reference import OPTIMIZERS, PARAMETERS, RATE, RATES, START, STEPS, gradient
from tests.ways import agreed


def as_type(leaves, dtype):
    return {k: v.astype(dtype) for k, v in leaves.items()}


def flat(params):
    return np.concatenate([np.ravel(params[k].numpy()) for k in sorted(params)])


def make(name, rate=RATE):
    kind, options = OPTIMIZERS[name]
    return getattr(gt.optim, kind.lower())(rate, **options)


def after_all_steps(optimizer, dtype, update):
    params = as_type(START, dtype)
    state = optimizer.init(params)
    for t in range(STEPS):
        params, state = update(params, as_type(gradient(t), dtype), state)
    return flat(params)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_pytorchs(name):
    optimizer = make(name)
    np.testing.assert_allclose(after_all_steps(optimizer, "float64", optimizer.update), PARAMETERS[name], rtol=1e-11)
    # In float32 an element is as exact as the largest value it had: one of them passes through 0.
    error = np.abs(after_all_steps(optimizer, "float32", optimizer.update) - PARAMETERS[name])
    start = np.concatenate([np.ravel(START[k]) for k in sorted(START)])
    assert (error <= 1e-6 * np.maximum(np.abs(start), np.abs(PARAMETERS[name]))).all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_steps_are_pytorchs(name):
    optimizer = make(name)
    update = gt.compile(optimizer.update)
    np.testing.assert_allclose(after_all_steps(optimizer, "float64", update), PARAMETERS[name], rtol=1e-11)


CURVES = {
    "linear": gt.optim.linear(0.2, 0.8, steps=8),
    "cosine": gt.optim.cosine_decay(0.8, steps=12, end=0.01),
    "exponential": gt.optim.exponential_decay(0.8, 0.9),
    "step": gt.optim.step_decay(0.8, 0.3, every=4),
    "piecewise": gt.optim.piecewise(0.8, {11: 0.1, 3: 0.1, 10: 0.1}),
    "one cycle": gt.optim.one_cycle(0.8, steps=20),
    "one cycle options": gt.optim.one_cycle(0.8, steps=20, pct_start=0.45, div_factor=10, final_div_factor=100),
}


@pytest.mark.parametrize("name", CURVES)
def test_rates_are_pytorchs(name):
    wanted = RATES[name]
    got = agreed(CURVES[name], np.arange(len(wanted)), rtol=1e-12, atol=0)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=1e-10)
    for t in (0, 3, len(wanted) - 1):
        np.testing.assert_allclose(CURVES[name](t), wanted[t], rtol=1e-10)


def test_warmup_then_cosine():
    """optax's documented curve: the line up, then the cosine over the steps that are left."""
    t = np.arange(40)
    down = 0.1 + 0.7 * (1 + np.cos(np.pi * (t - 5) / 25)) / 2
    wanted = np.where(t < 5, 0.2 + 0.6 * t / 5, np.where(t < 30, down, 0.1))
    got = agreed(gt.optim.warmup_cosine(0.8, warmup=5, steps=30, start=0.2, end=0.1), t, rtol=1e-12)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["linear", "cosine", "one cycle"])
def test_curves_stay_at_their_end(name):
    rates = CURVES[name](np.array([len(RATES[name]) - 1, 50, 10**9, 2**62])).numpy()
    np.testing.assert_array_equal(rates[1:], rates[0])


def test_the_default_curves_are_what_they_say():
    np.testing.assert_array_equal(gt.optim.constant(0.5)(np.zeros((2, 3), int)), np.full((2, 3), 0.5))
    np.testing.assert_array_equal(gt.optim.exponential_decay(1.0, 0.5, steps=10)([0]), [1.0])
    np.testing.assert_array_equal(gt.optim.one_cycle(1.0, steps=5, pct_start=0.0)(0), 1.0)


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop momentum", "adagrad"])
@pytest.mark.parametrize("curve", ["linear", "one cycle", "step"])
def test_a_schedule_gives_each_step_its_rate(name, curve):
    """The compiled step with a schedule inside is the step that is handed PyTorch's rate."""
    inside, handed = make(name, CURVES[curve]), make(name, None)
    params = others = as_type(START, "float64")
    state, theirs = inside.init(params), handed.init(params)
    assert state["step"].dtype == gt.int64
    update = gt.compile(inside.update)
    for t in range(12):
        params, state = update(params, gradient(t), state)
        others, theirs = handed.update(others, gradient(t), theirs, RATES[curve][t])
    np.testing.assert_allclose(flat(params), flat(others), rtol=1e-9)
    assert state["step"].item() == 12


def test_a_schedule_of_ones_own():
    """Any function of the step: here a table of rates."""
    table = np.array([0.5, 0.25, 0.125])
    optimizer = gt.optim.sgd(lambda step: gt.take(table, step))
    w, state = gt.tensor(1.0), optimizer.init(gt.tensor(1.0))
    update = gt.compile(optimizer.update)
    for wanted in (0.5, 0.25, 0.125):
        w, state = update(w, gt.tensor(1.0), state)
        assert w.dtype == gt.float32
        np.testing.assert_allclose(w, wanted)

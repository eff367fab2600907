"""gt.optim: steps against the published algorithms in float64, eager and traced, over pytrees, with frozen
leaves and a learning rate given at run time; and wrong use."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import DTypeError, OptionError, ShapeError
from gtensor.interp import run

RNG = np.random.default_rng(11)
SHAPES = {"w": (3, 4), "b": (4,), "s": ()}


def params():
    return {k: RNG.standard_normal(s) for k, s in SHAPES.items()}


def gradients(count):
    """Gradients of very different sizes, zeros included."""
    scales = 10.0 ** RNG.integers(-3, 3, count)
    return [{k: scale * RNG.standard_normal(s) * (RNG.random(s) > 0.1) for k, s in SHAPES.items()} for scale in scales]


class SGD:
    """torch.optim.SGD as its documentation states it."""

    def __init__(self, momentum=0.0, nesterov=False, weight_decay=0.0, dampening=0.0):
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.dampening = dampening
        self.buffer = None

    def step(self, p, g, lr):
        g = g + self.weight_decay * p
        if self.momentum:
            self.buffer = g if self.buffer is None else self.momentum * self.buffer + (1 - self.dampening) * g
            g = g + self.momentum * self.buffer if self.nesterov else self.buffer
        return p - lr * g


class Adam:
    """Algorithm 1 of Kingma and Ba, Algorithm 2 of Loshchilov and Hutter for a decay, PyTorch's amsgrad."""

    def __init__(self, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False):
        self.betas, self.eps, self.weight_decay, self.amsgrad = betas, eps, weight_decay, amsgrad
        self.m = self.v = self.largest = 0.0
        self.t = 0

    def step(self, p, g, lr):
        (b1, b2), self.t = self.betas, self.t + 1
        p = p - lr * self.weight_decay * p
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        m_hat = self.m / (1 - b1**self.t)
        self.largest = np.maximum(self.largest, self.v)
        v_hat = (self.largest if self.amsgrad else self.v) / (1 - b2**self.t)
        return p - lr * m_hat / (np.sqrt(v_hat) + self.eps)


class RMSprop:
    """torch.optim.RMSprop as its documentation states it."""

    def __init__(self, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
        self.alpha, self.eps, self.weight_decay = alpha, eps, weight_decay
        self.momentum, self.centered = momentum, centered
        self.v = self.mean = self.buffer = 0.0

    def step(self, p, g, lr):
        g = g + self.weight_decay * p
        self.v = self.alpha * self.v + (1 - self.alpha) * g**2
        self.mean = self.alpha * self.mean + (1 - self.alpha) * g
        size = np.sqrt(self.v - self.centered * self.mean**2) + self.eps
        self.buffer = self.momentum * self.buffer + g / size
        return p - lr * self.buffer


class Adagrad:
    """torch.optim.Adagrad as its documentation states it."""

    def __init__(self, eps=1e-10, weight_decay=0.0, initial_accumulator_value=0.0):
        self.eps, self.weight_decay, self.total = eps, weight_decay, initial_accumulator_value

    def step(self, p, g, lr):
        g = g + self.weight_decay * p
        self.total = self.total + g**2
        return p - lr * g / (np.sqrt(self.total) + self.eps)


class Lion:
    """Algorithm 2 of Chen and others, Symbolic Discovery of Optimization Algorithms, 2023."""

    def __init__(self, betas=(0.9, 0.99), weight_decay=0.0):
        self.betas, self.weight_decay, self.m = betas, weight_decay, 0.0

    def step(self, p, g, lr):
        b1, b2 = self.betas
        c = b1 * self.m + (1 - b1) * g
        self.m = b2 * self.m + (1 - b2) * g
        return p - lr * (np.sign(c) + self.weight_decay * p)


CASES = {
    "sgd": (gt.optim.sgd, SGD, {}),
    "sgd momentum": (gt.optim.sgd, SGD, {"momentum": 0.9}),
    "sgd nesterov": (gt.optim.sgd, SGD, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    "sgd decay": (gt.optim.sgd, SGD, {"weight_decay": 0.01}),
    "adam": (gt.optim.adam, Adam, {}),
    "adam betas": (gt.optim.adam, Adam, {"betas": (0.5, 0.9), "eps": 1e-3}),
    "adam no means": (gt.optim.adam, Adam, {"betas": (0.0, 0.0)}),
    "adamw": (gt.optim.adamw, Adam, {"weight_decay": 0.01}),
    "adamw decay": (gt.optim.adamw, Adam, {"weight_decay": 0.3, "betas": (0.8, 0.99)}),
    "sgd dampening": (gt.optim.sgd, SGD, {"momentum": 0.9, "dampening": 0.3}),
    "adam amsgrad": (gt.optim.adam, Adam, {"betas": (0.8, 0.9), "amsgrad": True}),
    "rmsprop": (gt.optim.rmsprop, RMSprop, {}),
    "rmsprop centered": (gt.optim.rmsprop, RMSprop, {"centered": True, "alpha": 0.8, "eps": 1e-2}),
    "rmsprop all": (gt.optim.rmsprop, RMSprop, {"centered": True, "momentum": 0.5, "eps": 0.1, "weight_decay": 0.1}),
    "adagrad": (gt.optim.adagrad, Adagrad, {}),
    "adagrad options": (gt.optim.adagrad, Adagrad, {"initial_accumulator_value": 0.5, "weight_decay": 0.1}),
    "lion": (gt.optim.lion, Lion, {}),
    "lion decay": (gt.optim.lion, Lion, {"betas": (0.5, 0.8), "weight_decay": 0.1}),
}


def as_type(tree, dtype):
    return {k: v.astype(dtype) for k, v in tree.items()}


@pytest.mark.parametrize("name, dtype", list(itertools.product(CASES, ["float64", "float32"])))
def test_steps_are_the_published_ones(name, dtype):
    make, reference, options = CASES[name]
    optimizer = make(0.05, **options)
    wanted = params()
    rules = {k: reference(**options) for k in wanted}
    got = as_type(wanted, dtype)
    state = optimizer.init(got)
    for g in gradients(20):
        got, state = optimizer.update(got, as_type(g, dtype), state)
        wanted = {k: rules[k].step(p, g[k], 0.05) for k, p in wanted.items()}
        for k in wanted:
            assert got[k].dtype.name == dtype
            bound = (1e-12 if dtype == "float64" else 1e-6) * max(1, np.abs(wanted[k]).max())
            np.testing.assert_allclose(got[k], wanted[k], rtol=0, atol=bound)


@pytest.mark.parametrize("beta", [0.9, 0.999, 0.99999])
def test_the_bias_correction_does_not_cancel_in_float32(beta):
    """The first steps of a constant gradient are the learning rate, which a rounded 1 - beta**t would miss."""
    optimizer = gt.optim.adam(1.0, betas=(0.9, beta))
    p = np.zeros(1, np.float32)
    state = optimizer.init(p)
    for t in range(1, 6):
        p, state = optimizer.update(p, np.ones(1, np.float32), state)
        np.testing.assert_allclose(p, [-t], rtol=3e-7)


@pytest.mark.parametrize("name", CASES)
def test_a_traced_step_is_the_eager_one(name):
    make, _, options = CASES[name]
    optimizer = make(0.05, **options)
    p = as_type(params(), "float32")
    g = as_type(gradients(1)[0], "float32")
    state = optimizer.init(p)
    p, state = optimizer.update(p, g, state)
    p, g = {k: v.numpy() for k, v in p.items()}, {k: v * 2 for k, v in g.items()}

    def step(p, g, state, rate):
        return optimizer.update(p, g, state, learning_rate=rate)

    for rate in (0.05, np.float64(0.05)):
        graph = gt.trace(step, p, g, state, rate)
        check_graph(graph)
        leaves = [v.numpy() if isinstance(v, gt.Tensor) else v for v in flat((p, g, state, rate))]
        eager = flat(step(p, g, state, rate))
        for a, b, var in zip(run(graph, leaves), eager, graph.outputs, strict=True):
            assert a.dtype == b.dtype.dtype == var.type.dtype.dtype
            np.testing.assert_array_equal(a, b)


def flat(tree):
    """Leaves with dictionary keys in order."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in flat(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in flat(item)]
    return [tree]


def test_state_is_a_plain_tree_with_readable_names():
    p = as_type(params(), "float32")
    state = gt.optim.adamw().init(p)
    assert sorted(state) == ["m", "step", "v"]
    assert {k: v.shape for k, v in state["m"].items()} == SHAPES
    assert (state["step"].item(), state["step"].dtype) == (0, gt.int64)
    assert gt.optim.sgd(0.1).init(p) == {}
    assert list(gt.optim.sgd(0.1, momentum=0.9).init(p)) == ["momentum"]
    for leaf in flat(state):
        assert leaf.numpy().flags.c_contiguous
        assert 0 not in leaf.numpy().strides


def test_a_state_can_be_made_from_specs():
    p = as_type(params(), "float64")
    wanted = flat(gt.optim.adam().init(p))
    got = flat(gt.optim.adam().init({k: gt.spec(v.shape, v.dtype) for k, v in p.items()}))
    assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in wanted]


def test_nothing_is_changed_in_place():
    optimizer = gt.optim.adam(0.1)
    p, g = np.ones(3, np.float32), np.ones(3, np.float32)
    state = optimizer.init(p)
    first = optimizer.update(p, g, state)
    again = optimizer.update(p, g, state)
    np.testing.assert_array_equal(p, np.ones(3))
    assert state["step"].item() == 0
    np.testing.assert_array_equal(first[0], again[0])


class Pair(NamedTuple):
    first: object
    second: object


@dataclass
class Layer:
    weight: object
    bias: object


def test_pytrees_of_every_kind():
    optimizer = gt.optim.adam(0.5)
    tree = [Pair(np.ones(2, np.float32), {"a": gt.tensor([1.0])}), Layer(1.0, None), ()]
    grads = [Pair(np.ones(2, np.float32), {"a": gt.tensor([2.0])}), Layer(3.0, None), ()]
    new, state = optimizer.update(tree, grads, optimizer.init(tree))
    assert isinstance(new[0], Pair)
    assert isinstance(new[1], Layer)
    assert isinstance(state["m"][1], Layer)
    np.testing.assert_allclose(new[0].first, [0.5, 0.5], rtol=3e-7)
    np.testing.assert_allclose(new[0].second["a"], [0.5], rtol=3e-7)
    assert new[1].bias is None
    assert new[1].weight.dtype == gt.float32
    single, _ = optimizer.update(2.0, 1.0, optimizer.init(2.0))
    np.testing.assert_allclose(single, 1.5, rtol=3e-7)


def test_a_leaf_without_gradient_is_left_alone():
    optimizer = gt.optim.adamw(0.1)
    tree = {"w": np.ones(2, np.float32), "frozen": np.ones(2, np.float32), "count": 3, "name": "mlp"}
    state = optimizer.init(tree)
    assert state["m"]["count"] is None
    assert state["m"]["name"] is None
    grads = gt.grad(lambda t: gt.sum(t["w"] * t["frozen"]), frozen=lambda path: path != "w")(tree)
    for _ in range(2):
        new, after = optimizer.update(tree, grads, state)
        assert new["frozen"] is tree["frozen"]
        assert (new["count"], new["name"]) == (3, "mlp")
        assert after["m"]["frozen"] is state["m"]["frozen"]
        assert (new["w"] != tree["w"]).all()
        state = after
    assert state["step"].item() == 2


@pytest.mark.parametrize("name", CASES)
def test_compiled_steps_update_donated_memory_as_eager_ones_do(name):
    make, _, options = CASES[name]
    optimizer = make(0.05, **options)
    p = as_type(params(), "float32")
    eager, eager_state = p, optimizer.init(p)
    donated = {k: gt.tensor(v) for k, v in p.items()}
    state = optimizer.init(donated)
    step = gt.compile(optimizer.update, donate=("params", "state"))
    for g in gradients(3):
        g = as_type(g, "float32")
        eager, eager_state = optimizer.update(eager, g, eager_state)
        donated, state = step(donated, g, state)
    for a, b in zip(flat((donated, state)), flat((eager, eager_state)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * max(1, np.abs(b.numpy()).max()))


def test_a_learning_rate_may_come_with_each_step():
    p, g = gt.tensor([1.0, 2.0]), gt.tensor([1.0, -1.0])
    for make in (gt.optim.sgd, gt.optim.adam, gt.optim.adamw):
        fixed, given = make(0.25), make(None)
        wanted, _ = fixed.update(p, g, fixed.init(p))
        for rate in (0.25, np.float64(0.25), np.float32(0.25), gt.tensor(0.25, dtype="float64")):
            got, _ = given.update(p, g, given.init(p), learning_rate=rate)
            assert got.dtype == gt.float32
            np.testing.assert_array_equal(got, wanted)
        again, _ = fixed.update(p, g, fixed.init(p), 0.5)
        assert (again != wanted).all()
        with pytest.raises(OptionError, match=f"{given.name} has no learning rate"):
            given.update(p, g, given.init(p))


def test_the_gradient_of_a_step_is_exact():
    """A step is a function like others: its derivative with respect to the learning rate and the parameters."""
    optimizer = gt.optim.sgd(momentum=0.5)

    def after(rate, p):
        state = optimizer.init(p)
        for _ in range(2):
            p, state = optimizer.update(p, gt.grad(lambda p: p * p)(p), state, rate)
        return p

    p, rate = 3.0, 0.1
    # p1 = p (1 - 2r); b2 = 0.5 * 2p + 2 p1; p2 = p1 - r b2 = p (1 - 5r + 4r²)
    np.testing.assert_allclose(after(rate, p), p * (1 - 5 * rate + 4 * rate**2), rtol=1e-6)
    np.testing.assert_allclose(gt.grad(after)(rate, p), p * (-5 + 8 * rate), rtol=1e-6)
    np.testing.assert_allclose(gt.grad(after, 1)(rate, p), 1 - 5 * rate + 4 * rate**2, rtol=1e-6)


def test_recorded_leaves_stay_leaves():
    """Written in PyTorch's style the history ends with each step, so it cannot grow."""
    optimizer = gt.optim.adam(0.1)
    w = gt.tensor([1.0, -2.0], requires_grad=True)
    state = optimizer.init([w])
    for _ in range(3):
        grads = gt.grad(gt.sum(w * w * w), [w])
        assert grads[0].levels
        (w,), state = optimizer.update([w], grads, state)
        assert w.requires_grad
        assert w.record is None
        assert state["m"][0].record is None
    gt.sum(w).backward()
    np.testing.assert_array_equal(w.grad, [1, 1])


def test_training_goes_downhill():
    x = RNG.standard_normal((64, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32)

    def loss(w):
        return gt.nn.mse_loss(x @ w, y)

    for optimizer in (gt.optim.sgd(0.1, momentum=0.9), gt.optim.adam(0.1), gt.optim.adamw(0.1, weight_decay=1e-3)):
        w = np.zeros((3, 1), np.float32)
        state = optimizer.init(w)
        start = loss(w).item()
        for _ in range(100):
            w, state = optimizer.update(w, gt.grad(loss)(w), state)
        assert loss(w).item() < 1e-3 * start


@pytest.mark.parametrize(
    "make, options, message",
    [
        (gt.optim.sgd, {"learning_rate": -1}, "learning_rate must be in"),
        (gt.optim.sgd, {"learning_rate": math.nan}, "learning_rate must be in"),
        (gt.optim.sgd, {"momentum": -0.1}, "momentum must be in"),
        (gt.optim.sgd, {"weight_decay": -1}, "weight_decay must be in"),
        (gt.optim.sgd, {"nesterov": True}, "nesterov needs a momentum"),
        (gt.optim.sgd, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "no dampening"),
        (gt.optim.sgd, {"dampening": 0.1}, "dampening needs a momentum"),
        (gt.optim.rmsprop, {"alpha": 1.0}, "rmsprop: alpha must be in"),
        (gt.optim.rmsprop, {"momentum": -1}, "rmsprop: momentum must be in"),
        (gt.optim.adagrad, {"initial_accumulator_value": -1}, "adagrad: initial_accumulator_value must be in"),
        (gt.optim.lion, {"betas": (0.9, 1.0)}, r"lion: betas\[1\] must be in"),
        (gt.optim.adam, {"learning_rate": -1}, "adam: learning_rate must be in"),
        (gt.optim.adam, {"betas": (1.0, 0.9)}, r"betas\[0\] must be in \[0, 1\), not 1.0"),
        (gt.optim.adam, {"betas": (0.9, -0.1)}, r"betas\[1\] must be in"),
        (gt.optim.adam, {"eps": -1e-8}, "eps must be in"),
        (gt.optim.adamw, {"weight_decay": -0.1}, "adamw: weight_decay must be in"),
    ],
)
def test_options_out_of_range_are_refused(make, options, message):
    with pytest.raises(OptionError, match=message):
        make(**options)


def test_what_does_not_fit_is_refused():
    optimizer = gt.optim.adam()
    p = {"w": gt.ones(2), "n": gt.tensor(3)}
    state = optimizer.init(p)
    good = {"w": gt.ones(2), "n": None}
    optimizer.update(p, good, state)
    with pytest.raises(ShapeError, match="grads does not have the structure"):
        optimizer.update(p, {"w": gt.ones(2)}, state)
    with pytest.raises(ShapeError, match="w is f32\\[2\\], its gradient f32\\[1\\]"):
        optimizer.update(p, {"w": gt.ones(1), "n": None}, state)
    with pytest.raises(ShapeError, match="w is f32\\[2\\], v f32\\[3\\]"):
        optimizer.update(p, good, {**state, "v": {"w": gt.ones(3), "n": None}})
    with pytest.raises(DTypeError, match="n is i64"):
        optimizer.update(p, {"w": gt.ones(2), "n": gt.tensor(1.0)}, state)
    with pytest.raises(OptionError, match="the state has no 'm'"):
        optimizer.update(p, good, gt.optim.sgd().init(p))
    with pytest.raises(OptionError, match="the state has no 'step'"):
        optimizer.update(p, good, {k: state[k] for k in ("m", "v")})

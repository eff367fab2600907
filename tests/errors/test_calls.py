"""Arguments that a compiled function refuses, and indices that it finds out of range."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DonatedError, IndexingError, SignatureError, TraceError


@pytest.fixture(scope="module")
def step():
    def step(params, x, mode="mean", rate=0.1):
        reduce = gt.mean if mode == "mean" else gt.sum
        return reduce(x @ params["w"] + params["b"]) * rate

    params = {"w": gt.spec((8, 4)), "b": gt.spec((4,))}
    return gt.compile(step).trace(params, gt.spec((32, 8)), mode="mean", rate=0.1).lower().compile()


W, B, X = np.ones((8, 4), np.float32), np.zeros(4, np.float32), np.ones((32, 8), np.float32)


def test_what_it_was_compiled_for(step):
    assert step({"w": W, "b": B}, X, mode="mean", rate=0.5).item() == 4


@pytest.mark.parametrize(
    "params, x, options, parts",
    [
        ({"w": W, "b": B}, X[:31], {}, ("x: f32[32,8]; this call has f32[31,8]", "hint: compile for this shape too")),
        ({"w": W, "b": B.astype(np.float64)}, X, {}, ("params.b: f32[4]; this call has f64[4]", "astype('float32')")),
        ({"w": W, "b": gt.zeros(4, gt.float64)}, X, {}, ("params.b: f32[4]; this call has f64[4]",)),
        ({"w": W, "b": 1.0}, X, {}, ("params.b: f32[4]; this call has f64[] (a Python float)",)),
        ({"w": W, "b": "text"}, X, {}, ("params.b: f32[4]; this call has str",)),
        ({"w": W, "b": B}, X, {"rate": np.ones(1)}, ("rate: f64[] (a Python float); this call has f64[1]",)),
        ({"w": W, "b": B}, X, {"mode": "sum"}, ("mode = 'mean'; this call has 'sum'",)),
        ({"w": W}, X, {}, ("params.b, params.w, x, mode, rate; params.b is missing",)),
        ({"w": W, "b": B, "c": B}, X, {}, ("params.c is not expected",)),
        ({"w": W, "b": None}, X, {}, ("params.b: f32[4]; this call has None",)),
        ({"w": W, "b": [B]}, X, {}, ("params.b: f32[4]; this call has list",)),
        ([B, W], X, {}, ("params.b, params.w are missing; params.0, params.1 are not expected",)),
    ],
)
def test_other_arguments(refused, step, params, x, options, parts):
    with refused(SignatureError, "step was compiled for", *parts, builtin=TypeError):
        step(params, x, **{"mode": "mean", "rate": 0.1, **options})  # fault


def test_arguments_that_are_too_many_or_too_few(refused, step):
    with refused(SignatureError, "mode, rate are missing"):
        step({"w": W, "b": B}, X)  # fault
    with refused(SignatureError, "argument 3 is not expected"):
        step({"w": W, "b": B}, X, X, mode="mean", rate=0.1)  # fault


def test_specs_instead_of_arrays(refused, step):
    with refused(TraceError, "x is a spec, not an array", "hint: give specs to .trace(…)"):
        step({"w": W, "b": B}, gt.spec((32, 8)), mode="mean", rate=0.1)  # fault
    with refused(TraceError, "x is a spec, not an array"):
        gt.compile(lambda x: x)(gt.spec((3,)))  # fault


def test_donated_tensors(refused):
    f = gt.compile(lambda x: x + 1, donate="x")
    x = gt.tensor([1.0, 2.0])
    f(x)
    parts = "this tensor was donated to a compiled call", "hint: use the tensor that the call returned"
    with refused(DonatedError, *parts, builtin=RuntimeError):
        f(x)  # fault
    with refused(DonatedError, "this tensor was donated to a compiled call"):
        x + 1  # fault


def indexed(x, i):
    return gt.take(x, i, axis=0)  # fault


@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_an_index_out_of_range_at_run_time(refused, index):
    x = np.ones((3, 2), np.float32)
    for call in (indexed, gt.compile(indexed)):
        with refused(IndexingError, f"take: index {index} is out of range for an axis of 3", builtin=IndexError):
            call(x, np.array([0, index]))


def test_a_computed_index_out_of_range(refused):
    def late(x):
        i = gt.astype(gt.sum(x), gt.int64)
        return gt.take(x, i, axis=0)  # fault

    for call in (late, gt.compile(late)):
        with refused(IndexingError, "index 6 is out of range for an axis of 3"):
            call(np.full(3, 2, np.float32))


def test_a_label_out_of_range(refused):
    def loss_fn(scores, labels):
        return gt.nn.cross_entropy(scores, labels)  # fault

    for labels in ([0, 3], [-1, 0]):
        for call in (loss_fn, gt.compile(loss_fn)):
            with refused(IndexingError, f"index {3 if 3 in labels else -1} is out of range [0, 3)"):
                call(np.ones((2, 3), np.float32), np.array(labels))

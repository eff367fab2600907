"""The workloads' first five losses, through TrainStep and through a plain compiled step, against the table."""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from benchmarks import gtensor_models, workloads

EXPRESSIBLE = ("W1", "W2", "W7", "W8", "W9")


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_train_step(name):
    params, data, opt = workloads.make(name)
    batch = gtensor_models.batch_of(name, data)
    optimizer = gtensor_models.OPTIMIZERS[opt["kind"]](opt)
    train = gt.TrainStep(gtensor_models.loss_of(name), params, optimizer, *batch)
    losses = [train(*batch) for _ in range(5)]
    np.testing.assert_allclose(losses, workloads.LOSSES[name], rtol=1e-4)


@pytest.mark.parametrize("donate", [(), ("params", "state")], ids=["fresh", "donated"])
@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_compiled_step(name, donate):
    step, (params, state, *batch) = gtensor_models.step_of(name)
    compiled = gt.compile(step, donate=donate)
    params = {key: gt.tensor(value) for key, value in params.items()}
    losses = []
    for _ in range(5):
        params, state, loss, *_ = compiled(params, state, *batch)
        losses.append(float(loss))
    np.testing.assert_allclose(losses, workloads.LOSSES[name], rtol=1e-4)


def test_the_gradient_of_x_is_returned_by_w9():
    step, (params, state, x, ct) = gtensor_models.step_of("W9")
    *_, dx = gt.compile(step)(params, state, x, ct)
    wide = {key: value.astype(np.float64) for key, value in params.items()}
    loss = gtensor_models.loss_of("W9")
    rows = slice(0, 8)
    wanted = gt.grad(loss, 1)(wide, x[rows].astype(np.float64), ct[rows].astype(np.float64))
    np.testing.assert_allclose(dx.numpy()[rows], wanted.numpy(), rtol=1e-4, atol=1e-10)

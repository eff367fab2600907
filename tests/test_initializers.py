"""Initializers: their variances, JAX's numbers, orthogonality, and every way to run."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, ShapeError
from gtensor.nn import initializers as init
from tests.values import close, same
from tests.ways import agreed

KEY = gt.random.key(42)

# Made with jax 0.10.2 (CPU): jax.nn.initializers.<name>()(jax.random.PRNGKey(42), (3, 2))
JAX = {
    "glorot_uniform": [-0.024736095, 0.39391589, 0.25473809, 0.13367954, -0.10813224, 0.18812267],
    "glorot_normal": [-0.019425005, 0.31951216, 0.20267111, 0.10534006, -0.085103117, 0.14876758],
    "he_uniform": [-0.031934161, 0.50854319, 0.32886544, 0.17257954, -0.13959812, 0.24286531],
    "he_normal": [-0.025077576, 0.41248846, 0.26164728, 0.13599345, -0.10986766, 0.19205812],
    "lecun_normal": [-0.017732522, 0.29167336, 0.18501256, 0.09616188, -0.077688165, 0.13580559],
}


@pytest.mark.parametrize("name", JAX)
def test_weights_are_jaxs_but_for_the_bits_it_rounds_away(name):
    close(getattr(init, name)(KEY, (3, 2)), np.reshape(JAX[name], (3, 2)), rtol=2e-6, atol=1e-6)


VARIANCES = {
    "glorot_uniform": lambda into, out: 2 / (into + out),
    "glorot_normal": lambda into, out: 2 / (into + out),
    "he_uniform": lambda into, out: 2 / into,
    "he_normal": lambda into, out: 2 / into,
    "lecun_normal": lambda into, out: 1 / into,
}


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64])
@pytest.mark.parametrize("name", VARIANCES)
def test_variances(name, dtype):
    f = getattr(init, name)
    for shape, axes, into, out in [
        ((200, 300), {}, 200, 300),
        ((3, 3, 80, 90), {}, 720, 810),
        ((90, 80, 3, 3), {"in_axis": 1, "out_axis": 0}, 720, 810),
    ]:
        w = f(KEY, shape, dtype, **axes)
        assert w.shape == shape and w.dtype == dtype
        x, variance = w.numpy().astype(np.float64), VARIANCES[name](into, out)
        assert abs(x.mean()) < 4 * math.sqrt(variance / x.size)
        assert abs(x.var() / variance - 1) < 4 * math.sqrt(1.4 / x.size)
        limit = math.sqrt(3 * variance) if "uniform" in name else 2 * math.sqrt(variance) / 0.87962566
        assert 0.99 * limit < np.abs(x).max() <= limit * (1 + 1e-6)


def test_plain_initializers():
    same(init.zeros(KEY, (2, 3), gt.float64), np.zeros((2, 3)))
    same(init.ones(None, 3), np.ones(3, np.float32))
    same(init.normal(KEY, (50,), stddev=1.0), gt.random.normal(KEY, (50,)))
    assert abs(init.normal(KEY, (10_000,)).numpy().std() - 0.01) < 3e-4
    x = init.uniform(KEY, (10_000,)).numpy()
    assert x.min() >= 0 and 0.0099 < x.max() < 0.01
    x = init.truncated_normal(KEY, (10_000,), stddev=0.5, lower=-1.0, upper=2.0).numpy()
    assert -0.5 <= x.min() < -0.499 and 0.99 < x.max() <= 1


@pytest.mark.parametrize("dtype, bound", [(gt.float32, 2e-6), (gt.float64, 1e-14)])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 3), (3, 5), (64, 64), (2, 3, 4), (2, 3, 7), (200, 100)])
def test_orthogonal(shape, dtype, bound):
    rows, columns = math.prod(shape[:-1]), shape[-1]
    for seed in range(5):
        q = init.orthogonal(gt.random.key(seed), shape, dtype, scale=2.0)
        assert q.shape == shape and q.dtype == dtype
        q = q.numpy().reshape(rows, columns).astype(np.float64) / 2
        product = q.T @ q if rows >= columns else q @ q.T
        assert np.abs(product - np.eye(len(product))).max() < bound


def test_orthogonal_from_matrices_that_are_nearly_singular(monkeypatch):
    """The drawn matrix has a singular value of 1e-11 beside one of 1: less than chance ever gives."""
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.standard_normal((8, 8)))[0] for _ in "ab")
    drawn = u * np.array([1.0, 0.5, 0.3, 0.1, 1e-3, 1e-5, 1e-8, 1e-11]) @ v.T
    monkeypatch.setattr(gt.random, "normal", lambda *args: gt.tensor(drawn))
    q = init.orthogonal(KEY, (8, 8), gt.float64).numpy()
    assert np.abs(q.T @ q - np.eye(8)).max() < 1e-14
    close(q @ v[:, :5], u[:, :5], rtol=0, atol=1e-9)


def test_orthogonal_matrices_favour_no_direction():
    """The angle of 2 x 2 rotations is uniform, and as many matrices turn as mirror."""
    q = np.stack([init.orthogonal(key, (2, 2)).numpy() for key in gt.random.split(KEY, 1500)])
    angle = np.sort((np.arctan2(q[:, 1, 0], q[:, 0, 0]) / (2 * math.pi)) % 1)
    assert np.abs(angle - (np.arange(1500) + 0.5) / 1500).max() * math.sqrt(1500) < 1.95
    turns = np.linalg.det(q) > 0
    assert abs(turns.mean() - 0.5) < 4 * 0.5 / math.sqrt(1500)


def test_every_way_to_run():
    for f in (init.glorot_uniform, init.he_normal):
        agreed(lambda key, f=f: f(key, (12, 7)), KEY, rtol=1e-6, atol=1e-6)
    agreed(lambda key: init.orthogonal(key, (24, 5)), KEY, rtol=0, atol=2e-5)
    agreed(lambda key: init.orthogonal(key, (5, 24), gt.float64), KEY, rtol=0, atol=1e-13)


def test_wrong_shapes_and_keys_are_refused():
    with pytest.raises(ShapeError, match="no two axes"):
        init.glorot_uniform(KEY, (3,))
    with pytest.raises(ShapeError, match="fewer than two axes"):
        init.orthogonal(KEY, (3,))
    with pytest.raises(DTypeError, match="the key is"):
        init.he_normal(0, (3, 3))
    with pytest.raises(DTypeError, match="the dtype must be a floating one, not int32"):
        init.he_normal(KEY, (3, 3), gt.int32)
    assert init.he_normal(KEY, (0, 3)).shape == (0, 3)
    with pytest.raises(ShapeError, match="no constants"):
        gt.trace(lambda x: init.he_normal(KEY, x.shape), gt.spec(("B", 3), max={"B": 4}))

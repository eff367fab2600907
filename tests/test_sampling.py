"""affine_grid and grid_sample against loops over the places, by PyTorch's rules; derivatives, outside, compiled."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ShapeError
from tests.values import agree, close, f32

RNG = np.random.default_rng(13)
MODES, PADDINGS = ("nearest", "bilinear", "bicubic"), ("zeros", "border", "reflection")
EVERY = [
    (mode, padding, align, axes)
    for mode, padding, align, axes in itertools.product(MODES, PADDINGS, (False, True), (2, 3))
    if mode != "bicubic" or axes == 2
]
every = pytest.mark.parametrize("mode, padding, align, axes", EVERY)


def kernel(t, a=-0.75):
    """Keys's, which is 1 at 0, and 0 at 1 and 2."""
    return ((a + 2) * t - (a + 3)) * t * t + 1 if t <= 1 else a * (((t - 5) * t + 8) * t - 4)


def brought_in(at, n, padding, align):
    """A place by the rule of what is outside; mirrors take it step by step."""
    if padding == "zeros":
        return at
    low, high = (0, n - 1) if align else (-0.5, n - 0.5)
    while padding == "reflection" and n > 1 and not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return min(max(at, 0), n - 1)


def taps(place, n, mode, padding, align):
    """Elements along an axis and their weights."""
    if mode == "bicubic":
        near = [math.floor(place) + k for k in (-1, 0, 1, 2)]
        return [(round(brought_in(k, n, padding, align)), kernel(abs(place - k))) for k in near]
    place = brought_in(place, n, padding, align)
    if mode == "nearest":
        return [(round(place), 1.0)]
    first = math.floor(place)
    return [(first, 1 - (place - first)), (first + 1, place - first)]


def sampled(x, grid, mode, padding, align):
    """x: [N, C, *S], grid: [N, *P, axes]."""
    extents, shape = x.shape[2:], grid.shape[1:-1]
    out = np.zeros((*x.shape[:2], *shape))
    for n, *at in np.ndindex(len(x), *shape):
        lines = []
        for size, g in zip(extents, grid[(n, *at)][::-1], strict=True):
            place = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
            lines.append(taps(float(place), size, mode, padding, align))
        for picks in itertools.product(*lines):
            where = tuple(k for k, _ in picks)
            if all(0 <= k < size for k, size in zip(where, extents, strict=True)):
                out[(n, slice(None), *at)] += x[(n, slice(None), *where)] * math.prod(w for _, w in picks)
    return out


def drawn(axes):
    """A picture, and places of which a third are outside."""
    return RNG.standard_normal((2, 3, 4, 5, 3)[: axes + 2]), RNG.uniform(-1.6, 1.6, (2, 3, 4, axes))


@every
def test_values(mode, padding, align, axes):
    x, grid = drawn(axes)

    def f(x, grid):
        return gt.nn.grid_sample(x, grid, mode, padding, align)

    wanted = sampled(x, grid, mode, padding, align)
    close(f(x, grid), wanted, 1e-12, 1e-12)
    close(gt.compile(f)(f32(x), f32(grid)), wanted, 1e-4, 1e-5)


@every
def test_derivatives(mode, padding, align, axes):
    x, grid = drawn(axes)
    few = x[:1, :1, :3, :3], grid[:1, :2, :2]
    gt.check_grads(lambda x, grid: gt.nn.grid_sample(x, grid, mode, padding, align), few, order=2 if axes == 2 else 1)


def test_places_far_outside_and_nowhere():
    x = f32(RNG.standard_normal((1, 2, 3, 3)))
    grid = f32([[[[0.0, np.nan], [np.inf, 0.0], [-1e30, 0.0], [3e9, 3e9], [0.0, 0.0]]]])
    for mode in MODES:
        found = gt.nn.grid_sample(x, grid, mode)
        np.testing.assert_array_equal(np.asarray(found)[..., :4], np.zeros((1, 2, 1, 4)))
        agree([gt.compile(lambda x, grid, mode=mode: gt.nn.grid_sample(x, grid, mode))(x, grid)], [found])
        slope = gt.grad(lambda x, mode=mode: gt.sum(gt.nn.grid_sample(x, grid, mode)))(x)
        assert np.isfinite(slope).all()
    corner = gt.nn.grid_sample(x, grid[..., 3:4, :], padding_mode="border")
    np.testing.assert_array_equal(np.asarray(corner)[0, :, 0, 0], x[0, :, 2, 2])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits_are_rounded_once(dtype):
    x, grid = (gt.asarray(part).astype(dtype) for part in drawn(2))
    found = gt.nn.grid_sample(x, grid, "bicubic")
    wanted = gt.nn.grid_sample(x.astype("float32"), grid.astype("float32"), "bicubic").astype(dtype)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype("float32"), wanted.astype("float32"))
    theta = gt.ones((1, 2, 3), dtype)
    assert gt.nn.affine_grid(theta, (1, 1, 3, 7)).dtype == theta.dtype


def test_one_element_and_a_batch_known_at_run_time():
    one = RNG.standard_normal((2, 3, 1, 1))
    grid = RNG.uniform(-1, 1, (2, 4, 4, 2))
    for align in (False, True):
        mirrored = gt.nn.grid_sample(one, grid, "bilinear", "reflection", align)
        close(mirrored, np.broadcast_to(one, (2, 3, 4, 4)))
    x = f32(RNG.standard_normal((2, 3, 4, 5)))
    specs = gt.spec(("B", 3, 4, 5), max={"B": 4}), gt.spec(("B", 4, 4, 2), max={"B": 4})
    some = gt.compile(gt.nn.grid_sample).trace(*specs).lower().compile()
    for count in (1, 2):
        agree([some(x[:count], f32(grid[:count]))], [gt.nn.grid_sample(x[:count], f32(grid[:count]))])


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("extents", [(3, 4), (1, 5), (2, 3, 4)], ids=str)
def test_affine_grid(extents, align):
    axes = len(extents)
    theta = RNG.standard_normal((2, axes, axes + 1))

    def f(theta):
        return gt.nn.affine_grid(theta, (2, 7, *extents), align)

    wanted = np.empty((2, *extents, axes))
    for at in np.ndindex(*extents):
        steps = [2 * i / max(n - 1, 1) - (n > 1) if align else (2 * i + 1) / n - 1 for i, n in zip(at, extents)]  # noqa: B905
        wanted[(slice(None), *at)] = theta @ np.array([*steps[::-1], 1.0])
    close(f(theta), wanted, 1e-12, 1e-12)
    agree([gt.compile(f)(f32(theta))], [f(f32(theta))])
    gt.check_grads(f, (theta,), order=2)


def test_the_identity_gives_the_picture_back():
    x = RNG.standard_normal((2, 3, 4, 5))
    theta = np.broadcast_to(np.eye(2, 3), (2, 2, 3))
    for align in (False, True):
        grid = gt.nn.affine_grid(theta, x.shape, align)
        for mode in MODES:
            close(gt.nn.grid_sample(x, grid, mode, align_corners=align), x, 1e-12, 1e-12)


def test_wrong_options():
    x, grid = gt.ones((2, 3, 4, 5)), gt.zeros((2, 6, 6, 2))
    with pytest.raises(OptionError, match="mode 'cubic' must be one of"):
        gt.nn.grid_sample(x, grid, "cubic")
    with pytest.raises(OptionError, match="padding_mode 'wrap'"):
        gt.nn.grid_sample(x, grid, padding_mode="wrap")
    for wrong, at in ((x, grid[:1]), (x[0, 0, 0], grid), (x, grid[..., 0]), (x, gt.ones(2)), (x[:, :, :0], grid)):
        with pytest.raises(ShapeError, match="cannot sample"):
            gt.nn.grid_sample(wrong, at)
    with pytest.raises(ShapeError, match="cannot sample"):
        gt.nn.grid_sample(x[None], gt.zeros((1, 6, 6, 3)), "bicubic")
    with pytest.raises(ShapeError, match="affine_grid: theta"):
        gt.nn.affine_grid(gt.ones((2, 2, 3)), (2, 3, 4))

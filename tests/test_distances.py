"""Distances, losses of margins, likelihoods, pixel_shuffle: PyTorch's documented formulas in NumPy, and derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import OptionError, ShapeError
from tests.values import check_derivatives, close, same
from tests.ways import agreed

RNG = np.random.default_rng(8)
A, B, C = (RNG.standard_normal((4, 5)) for _ in range(3))
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
COUNTS = RNG.poisson(2.0, (4, 5)).astype(float)


def length(x, p=2.0):
    return (np.abs(x) ** p).sum(-1) ** (1 / p)


def cosine(a, b):
    return (a * b).sum(-1) / (length(a) * length(b))


def apart(a, b, p=2.0):
    return length(a - b + 1e-6, p)


FORMULAS = {
    "normalize": (gt.nn.normalize, lambda a: a / length(a)[:, None]),
    "normalize by a 3-norm along an axis": (
        lambda a: gt.nn.normalize(a, 3.0, axis=0), lambda a: a / length(a.T, 3.0)[None]
    ),
    "cosine_similarity": (lambda a: gt.nn.cosine_similarity(a, B), lambda a: cosine(a, B)),
    "pairwise_distance": (lambda a: gt.nn.pairwise_distance(a, B), lambda a: apart(a, B)),
    "pairwise_distance of three": (
        lambda a: gt.nn.pairwise_distance(a, B, p=3.0, keepdims=True), lambda a: apart(a, B, 3.0)[:, None]
    ),
    "cdist": (lambda a: gt.cdist(a, B[:3]), lambda a: length(a[:, None] - B[None, :3])),
    "cdist of stacks by a 1-norm": (
        lambda a: gt.cdist(gt.stack([a, a]), B[None], p=1), lambda a: np.stack([np.abs(a[:, None] - B).sum(-1)] * 2)
    ),
    "margin_ranking_loss": (
        lambda a: gt.nn.margin_ranking_loss(a, B, SIGNS[:, None], 0.3, "none"),
        lambda a: np.maximum(0, -SIGNS[:, None] * (a - B) + 0.3),
    ),
    "triplet_margin_loss": (
        lambda a: gt.nn.triplet_margin_loss(a, B, C, 0.5, reduction="none"),
        lambda a: np.maximum(0, apart(a, B) - apart(a, C) + 0.5),
    ),
    "triplet_margin_loss with swap": (
        lambda a: gt.nn.triplet_margin_loss(a, B, C, p=3.0, swap=True),
        lambda a: np.maximum(0, apart(a, B, 3.0) - np.minimum(apart(a, C, 3.0), apart(B, C, 3.0)) + 1).mean(),
    ),
    "hinge_embedding_loss": (
        lambda a: gt.nn.hinge_embedding_loss(a, gt.broadcast_to(SIGNS[:, None], (4, 5)), 0.6, "none"),
        lambda a: np.where(SIGNS[:, None] == 1, a, np.maximum(0, 0.6 - a)),
    ),
    "cosine_embedding_loss": (
        lambda a: gt.nn.cosine_embedding_loss(a, B, SIGNS, -0.9, "none"),
        lambda a: np.where(SIGNS == 1, 1 - cosine(a, B), np.maximum(0, cosine(a, B) + 0.9)),
    ),
    "soft_margin_loss": (
        lambda a: gt.nn.soft_margin_loss(a, gt.broadcast_to(SIGNS[:, None], (4, 5)), "sum"),
        lambda a: np.log1p(np.exp(-SIGNS[:, None] * a)).sum(),
    ),
    "gaussian_nll_loss": (
        lambda a: gt.nn.gaussian_nll_loss(a, B, np.abs(C) + 0.1, reduction="none"),
        lambda a: 0.5 * (np.log(np.abs(C) + 0.1) + (a - B) ** 2 / (np.abs(C) + 0.1)),
    ),
    "gaussian_nll_loss by its variance": (
        lambda a: gt.nn.gaussian_nll_loss(B, C, a * a + 0.1, full=True),
        lambda a: 0.5 * (np.log(a * a + 0.1) + (B - C) ** 2 / (a * a + 0.1) + np.log(2 * np.pi)).mean(),
    ),
    "poisson_nll_loss": (
        lambda a: gt.nn.poisson_nll_loss(a, COUNTS, reduction="none"), lambda a: np.exp(a) - COUNTS * a
    ),
    "poisson_nll_loss of rates": (
        lambda a: gt.nn.poisson_nll_loss(a * a, COUNTS, log_input=False, full=True),
        lambda a: (a * a - COUNTS * np.log(a * a + 1e-8) + stirling(COUNTS)).mean(),
    ),
}  # fmt: skip


def stirling(n):
    many = np.maximum(n, 2)
    return np.where(n > 1, many * np.log(many) - many + 0.5 * np.log(2 * np.pi * many), 0)


@pytest.mark.parametrize("name", FORMULAS)
def test_functions_are_their_formulas(name):
    ours, formula = FORMULAS[name]
    close(agreed(ours, A, rtol=1e-12), formula(A), rtol=1e-11)
    check_derivatives(ours, A)


def test_the_sides_of_a_margin():
    x = np.array([0.5, 0.7, 2.0])
    slope = gt.grad(lambda x: gt.nn.hinge_embedding_loss(x, -1.0, 0.7, "sum"))(x)
    assert slope.tolist() == [-1, 0, 0]
    assert gt.nn.triplet_margin_loss(A, A, A + 9).item() == 0


def test_vectors_of_length_0():
    zero = np.zeros((2, 3))
    same(agreed(gt.nn.normalize, zero), zero)
    assert agreed(gt.nn.cosine_similarity, zero, A[:2, :3]).tolist() == [0, 0]
    assert agreed(gt.grad(lambda x: gt.sum(gt.cdist(x, x))), A[:2]).shape == (2, 5)
    assert agreed(gt.grad(lambda x: gt.sum(gt.cdist(x, zero))), zero).tolist() == zero.tolist()


def test_near_points_lose_no_digits():
    x = np.array([[1e4, 1.0]], np.float32)
    assert agreed(gt.cdist, x, x + np.float32([[0, 0.5]])).item() == 0.5
    assert agreed(gt.cdist, 1e30 * x, 0 * x).item() == pytest.approx(1e34, rel=1e-6)


def test_small_variances_count_as_the_least():
    close(gt.nn.gaussian_nll_loss(1.0, 0.0, 0.0, eps=0.5), 0.5 * (math.log(0.5) + 2))
    slope = gt.grad(lambda v: gt.nn.gaussian_nll_loss(1.0, 0.0, v, eps=0.5))(0.0)
    close(slope, 0.5 * (1 / 0.5 - 1 / 0.25))


def test_pixels_and_channels():
    x = np.arange(2 * 8 * 2 * 3).reshape(2, 8, 2, 3)
    wanted = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6)
    same(agreed(lambda x: gt.nn.pixel_shuffle(x, 2), x), wanted)
    same(agreed(lambda x: gt.nn.pixel_unshuffle(gt.nn.pixel_shuffle(x, 2), 2), x), x)
    same(agreed(lambda x: gt.nn.pixel_shuffle(x, 2), x[0]), wanted[0])
    check_derivatives(lambda x: gt.nn.pixel_unshuffle(x, 2) ** 2, RNG.standard_normal((1, 2, 4)))


REFUSED = {
    "points of two sizes": (lambda: gt.cdist(A, A[:, :3]), ShapeError),
    "one point": (lambda: gt.cdist(A[0], A), ShapeError),
    "an axis that is not there": (lambda: gt.nn.normalize(A[0]), ShapeError),
    "targets that do not fit": (lambda: gt.nn.cosine_embedding_loss(A, B, SIGNS[:2]), ShapeError),
    "scores of two shapes": (lambda: gt.nn.margin_ranking_loss(A, B[:2], 1.0), ShapeError),
    "a reduction": (lambda: gt.nn.soft_margin_loss(A, B, "average"), OptionError),
    "channels that do not divide": (lambda: gt.nn.pixel_shuffle(A[None, :3], 2), ShapeError),
    "pixels that do not divide": (lambda: gt.nn.pixel_unshuffle(A[None], 2), ShapeError),
    "no picture": (lambda: gt.nn.pixel_shuffle(A, 2), ShapeError),
    "no factor": (lambda: gt.nn.pixel_shuffle(A[None], 0), OptionError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    attempt, error = REFUSED[name]
    with pytest.raises(error):
        attempt()

"""The kinds of faults that the public reports stand for, each ruled out for all functions that could have it.

A case of cases.jsonl is one input of one function; here the same question is put to every primitive of the
registry, or to a list of all public functions it could concern, eagerly and compiled.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.tensor import as_tensor
from tests.op_table import DIFFERENTIABLE, FLOATS, awkward
from tests.values import f32

INF, NAN = math.inf, math.nan
ELEMENTWISE = [e for e in DIFFERENTIABLE if e.prim.kind == "elementwise"]


def in_both_ways(fn, *args):
    """The results of a function, which returns a list, eagerly and compiled."""
    for run in (fn, gt.compile(fn)):
        yield [as_tensor(out).numpy() for out in run(*args)]


def numbers(arrays):
    """Which operands have derivatives."""
    return tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f")


def both_orders(fn, wanted):
    """The gradients of a function and, for each, the gradients of the sum of its squares, as one function."""

    def run(*xs):
        first = gt.grad(fn, wanted)
        squares = [lambda *ys, k=k: gt.sum(first(*ys)[k] ** 2) for k in range(len(wanted))]
        return [*first(*xs), *(g for square in squares for g in gt.grad(square, wanted)(*xs))]

    return run


# ---- N: what is masked contributes nothing -----------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_N_a_masked_primitive_has_gradient_0_whatever_its_operands_are(part):
    """Infinities, NaN, zeros and overflow in a branch that is not taken: exactly 0, in first and second derivatives."""
    entries = [e for e in FLOATS if e.sample.grad and e.prim.kind == "elementwise" and e.dtype is gt.float32][part::4]
    tables = [next(awkward(entry)) for entry in entries]
    keep = [np.zeros(arrays[0].shape, bool) for arrays in tables]

    def run(keep, tables):
        outs = []
        for entry, mask, arrays in zip(entries, keep, tables, strict=True):
            fn = lambda *xs, e=entry, m=mask: gt.sum(gt.where(m, e.call(*xs), 0.0))  # noqa: E731
            outs += both_orders(fn, tuple(i for i, a in enumerate(arrays) if a.dtype.floating))(*arrays)
        return outs

    names = [str(e) for e, arrays in zip(entries, tables, strict=True) for _ in range(sum(orders(arrays)))]
    for found in in_both_ways(run, [*map(gt.tensor, keep)], [[*map(gt.tensor, arrays)] for arrays in tables]):
        assert {name for name, g in zip(names, found, strict=True) if np.any(g)} == set()


def orders(arrays):
    """How many gradients `both_orders` gives."""
    n = len(numbers(arrays))
    return n, n * n


ROWS = f32(
    [
        [0.5, 2.0, 1.5, 0.25], [0, 0, 0, 0], [-1, 0, 1, -0.0], [INF, 1, 2, -1], [-INF, -INF, -INF, -INF],
        [NAN, 1, 2, 3], [1e30, 3e38, -3e38, 1], [1e-40, -1e-40, 0, 1e-30], [200, -200, 2, 2],
    ]
)  # fmt: skip
KEPT = np.arange(len(ROWS)) == 0

ROW_FUNCTIONS = {
    "norm": lambda x: gt.norm(x, axis=1),
    "l1 norm": lambda x: gt.linalg.vector_norm(x, axis=1, ord=1),
    "3-norm": lambda x: gt.linalg.vector_norm(x, axis=1, ord=3),
    "-1-norm": lambda x: gt.linalg.vector_norm(x, axis=1, ord=-1),
    "largest": lambda x: gt.linalg.vector_norm(x, axis=1, ord=INF),
    "prod": lambda x: gt.prod(x, axis=1),
    "mean": lambda x: gt.mean(x, axis=1),
    "max": lambda x: gt.max(x, axis=1),
    "min": lambda x: gt.min(x, axis=1),
    "var": lambda x: gt.var(x, axis=1),
    "std": lambda x: gt.std(x, axis=1),
    "logsumexp": gt.logsumexp,
    "logsumexp of logarithms": lambda x: gt.logsumexp(gt.log(x)),
    "softmax": lambda x: gt.softmax(x)[:, 1],
    "log_softmax": lambda x: gt.log_softmax(x)[:, 1],
    "median": lambda x: gt.median(x, axis=1),
    "sorted": lambda x: gt.sort(x, axis=1)[:, 2],
    "largest root": lambda x: gt.max(gt.sqrt(x), axis=1),
    "product of logarithms": lambda x: gt.prod(gt.log(x), axis=1),
    "cumsum": lambda x: gt.cumsum(gt.log(x), axis=1)[:, 2],
    "cumprod": lambda x: gt.cumprod(x, axis=1)[:, 3],
    "cumlogsumexp": lambda x: gt.cumlogsumexp(x, axis=1)[:, 3],
    "quotient": lambda x: gt.sum(x / x[:, :1], axis=1),
    "layer_norm": lambda x: gt.nn.layer_norm(x)[:, 1],
    "rms_norm": lambda x: gt.nn.rms_norm(x)[:, 1],
    "unit vector": lambda x: (x / gt.norm(x, axis=1, keepdims=True))[:, 2],
    "cosine": lambda x: gt.vecdot(x, x[:1]) / (gt.norm(x, axis=1) * gt.norm(x[0])),
    "cross entropy": lambda x: gt.nn.cross_entropy(x, np.zeros(len(ROWS), np.int64), reduction="none"),
    "binary cross entropy": lambda x: gt.nn.binary_cross_entropy(x / 4, 0 * x, reduction="none")[:, 0],
    "kl_div": lambda x: gt.sum(gt.nn.kl_div(gt.log(x), x, "none"), axis=1),
    "nanmean": lambda x: gt.nanmean(gt.log(x), axis=1),
    "angle": lambda x: gt.atan2(x[:, 0], x[:, 1]),
    "activations": lambda x: sum(f(x[:, 0]) + f(x[:, 1]) for f in ACTIVATIONS.values()),
}

ACTIVATIONS = {
    **{name: getattr(gt.nn, name) for name in (
        "relu", "relu6", "elu", "selu", "celu", "mish", "hardswish", "hardsigmoid", "hardtanh", "softsign", "silu",
        "log_sigmoid", "leaky_relu", "gelu", "sigmoid", "softplus", "tanh",
    )},
    "gelu tanh": lambda x: gt.gelu(x, approximate="tanh"),
    "prelu": lambda x: gt.nn.prelu(x, f32(0.1)),
    "threshold": lambda x: gt.nn.threshold(x, 0.5, -1.0),
    "clip": lambda x: gt.clip(x, -2.0, 3.0),
}  # fmt: skip
"""The activations of one array."""


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_N_masked_rows_of_functions_have_gradient_0(name):
    """Compositions over an axis: rows that are not taken are clean, and the row that is has its own derivative."""
    fn = ROW_FUNCTIONS[name]
    run = both_orders(lambda x: gt.sum(gt.where(KEPT, fn(x), 0.0)), (0,))
    alone = [
        np.asarray(g) for g in both_orders(lambda x: fn(x)[0], (0,))(ROWS[:1] if name != "cross entropy" else ROWS)
    ]
    for found in in_both_ways(run, ROWS):
        for g, own in zip(found, alone, strict=True):
            assert not g[1:].any()
            np.testing.assert_allclose(g[0], own[0], rtol=1e-4, atol=1e-6)


def test_N_a_guarded_argument_is_clean_too():
    """The other way to write it: the argument itself is replaced where it is out of the domain."""
    for entry in ELEMENTWISE:
        (columns, *_), safe = awkward(entry), np.random.default_rng(0)
        inside = [i.array(safe, entry.dtype).ravel()[0] for i in entry.sample.inputs]
        wanted, keep = numbers(columns), np.zeros(columns[0].shape, bool)

        def f(*xs, entry=entry, inside=inside, keep=keep):
            guarded = [gt.where(keep, x, v) for x, v in zip(xs, inside, strict=True)]
            return gt.sum(entry.call(*guarded))

        assert not any(np.any(g) for g in map(np.asarray, both_orders(f, wanted)(*columns))), str(entry)


# ---- S: ties share, whatever finds the extreme ---------------------------------------------------------------

TIED = f32([1, 3, 3, 0, 3])
TIES = {
    "max": gt.max,
    "amax": lambda x: gt.amax(x, axis=0),
    "min": lambda x: -gt.min(-x),
    "amin": lambda x: -gt.amin(-x, axis=0),
    "nanmax": gt.nanmax,
    "nanmin": lambda x: -gt.nanmin(-x),
    "ptp": lambda x: gt.ptp(gt.maximum(x, 2)),
    "maximum": lambda x: gt.maximum(x[1], gt.maximum(x[2], x[4])),
    "minimum": lambda x: gt.minimum(x[1], x[2]),
    "fmax": lambda x: gt.fmax(x[1], x[2]),
    "fmin": lambda x: gt.fmin(x[1], x[2]),
    "sort": lambda x: gt.sort(x)[-1],
    "top_k": lambda x: gt.top_k(x, 1)[0][0],
    "median": gt.median,
    "quantile": lambda x: gt.quantile(x, 0.8),
    "cummax": lambda x: gt.cummax(x)[-1],
    "cummin": lambda x: -gt.cummin(-x)[-1],
    "max_pool": lambda x: gt.nn.max_pool1d(x[None], 5)[0, 0],
    "adaptive_max_pool": lambda x: gt.nn.adaptive_max_pool1d(x[None], 1)[0, 0],
    "largest": lambda x: gt.linalg.vector_norm(x, ord=INF),
    "column": lambda x: gt.linalg.matrix_norm(x[None], ord=1),
    "row": lambda x: gt.linalg.matrix_norm(x[:, None], ord=INF),
    "scatter_reduce": lambda x: gt.scatter_reduce(f32([0, 0]), 0, [0, 0, 0, 1, 0], x, "amax")[0],
    "at max": lambda x: gt.zeros(2).at[[0, 0, 0, 1, 0]].max(x)[0],
    "over a scan": lambda x: gt.scan(lambda c, e: (gt.maximum(c, e), None), x[0], x)[0],
}


@pytest.mark.parametrize("name", TIES)
def test_S_a_tie_hands_on_the_cotangent_once(name):
    """The gradient lies among the tied elements, is not negative, and sums to 1: it is never counted for each."""
    for (g,) in in_both_ways(lambda x: [gt.grad(TIES[name])(x)], TIED):
        assert not g[TIED != 3].any() and (g >= 0).all(), g
        np.testing.assert_allclose(g.sum(), 1, rtol=1e-6)


# ---- M: neither overflow nor cancellation --------------------------------------------------------------------

FAR = np.array([-1000, -100, -50, -20, -5, -1, -0.1, -1e-4, 0, 1e-4, 0.1, 1, 5, 20, 50, 100, 1000])

LOSSES = {
    "bce": lambda x: gt.nn.binary_cross_entropy_with_logits(x, 0 * x + 0.25, reduction="none"),
    "cross entropy": lambda x: gt.nn.cross_entropy(
        gt.stack([x, 0 * x, -x], axis=1), np.arange(17) % 3, reduction="none"
    ),
    "log_softmax": lambda x: gt.log_softmax(gt.stack([x, 2 * x], axis=1))[:, 0],
    "logsumexp": lambda x: gt.logsumexp(gt.stack([x, 2 * x, -x], axis=1)),
    "logaddexp": lambda x: gt.logaddexp(x, -2 * x),
    "cumlogsumexp": lambda x: gt.cumlogsumexp(gt.stack([x, 2 * x], axis=1), axis=1)[:, 1],
    "norm": lambda x: gt.norm(gt.stack([x, x + 1], axis=1), axis=1),
    "hypot": lambda x: gt.hypot(x, x + 1),
    "glu": lambda x: gt.nn.glu(gt.stack([x, x], axis=1))[:, 0],
    "swiglu": lambda x: gt.nn.swiglu(gt.stack([x, x], axis=1))[:, 0],
    "huber": lambda x: gt.nn.huber_loss(x, 0 * x, "none"),
    "erf": gt.erf,
    "atan": gt.atan,
    "asinh": gt.asinh,
}


@pytest.mark.parametrize("name", [*ACTIVATIONS, *LOSSES])
def test_M_float32_keeps_the_digits_of_float64_far_out(name):
    """Values and both derivatives at large, small and ordinary arguments are finite, and those of float64."""
    fn = (ACTIVATIONS | LOSSES)[name]

    def run(x):
        slope = gt.grad(lambda x: gt.sum(fn(x)))
        return [fn(x), slope(x), gt.grad(lambda x: gt.sum(slope(x)))(x)]

    exact = [np.asarray(out) for out in run(gt.tensor(FAR))]
    assert all(np.isfinite(out).all() for out in exact)
    for found in in_both_ways(run, FAR.astype(np.float32)):
        for out, right in zip(found, exact, strict=True):
            np.testing.assert_allclose(out, right, rtol=2e-5, atol=1e-6)


# ---- R: long, far and empty ----------------------------------------------------------------------------------


def test_R_everything_that_sums_keeps_its_digits():
    """A single accumulator is 9 % off over 1e7 elements; here nothing that adds them up is."""
    x, one = np.full(10_000_000, 0.1, np.float32), float(np.float32(0.1))

    def run(x):
        ones = gt.ones_like(x)
        return [
            gt.sum(x) / 1e7, gt.mean(x), gt.vecdot(x, ones) / 1e7, gt.dot(x, ones) / 1e7, (x[None] @ ones)[0] / 1e7,
            gt.einsum("i,i->", x, ones) / 1e7, gt.average(x, weights=ones), gt.nansum(x) / 1e7, gt.nanmean(x),
            gt.norm(x) ** 2 * 10 / 1e7, gt.exp(gt.logsumexp(gt.log(x))) / 1e7, gt.linalg.vector_norm(x, ord=1) / 1e7,
            gt.trapezoid(x) / 1e7, gt.cumsum(x)[-1] / 1e7, (gt.reshape(x, (2, -1)) @ ones[: 10**7 // 2])[1] / 5e6,
            gt.grad(lambda s: gt.sum(x * s))(gt.tensor(2.0)) / 1e7,
        ]  # fmt: skip

    for found in in_both_ways(run, x):
        np.testing.assert_allclose(found, np.full(len(found), one), rtol=1e-5)


def test_R_every_variance_is_taken_about_the_mean():
    """Rows with a mean of 40,000 and a spread of 1: the difference of two large squares would be noise."""
    x = f32(40000 + np.arange(32) % 4).reshape(2, 16)
    pictures = x.reshape(2, 4, 2, 2)
    states = {"mean": f32([0] * 4), "var": f32([1] * 4)}

    def run(x, pictures):
        return [
            gt.var(x, axis=1), gt.std(x, axis=1) ** 2, gt.nanvar(x, axis=1), gt.nanstd(x, axis=1) ** 2,
            gt.var(x, axis=0), gt.nn.layer_norm(x, eps=0.0), gt.nn.group_norm(pictures, 2, eps=0.0),
            gt.nn.instance_norm(pictures, eps=0.0),
            gt.nn.batch_norm(pictures, states, training=True, eps=0.0)[0],
        ]  # fmt: skip

    wide, spread = x.astype(np.float64), pictures.astype(np.float64)

    def normed(x, axes):
        return (x - x.mean(axes, keepdims=True)) / x.std(axes, keepdims=True)

    groups = normed(spread.reshape(2, 2, 8), 2).reshape(spread.shape)
    wanted = [
        *[wide.var(1)] * 4,
        wide.var(0),
        normed(wide, 1),
        groups,
        normed(spread, (2, 3)),
        normed(spread, (0, 2, 3)),
    ]
    for found in in_both_ways(run, x, pictures):
        for out, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(out, right, rtol=1e-4, atol=1e-6)


FOLDS = {
    "sum": 0, "prod": 1, "mean": NAN, "var": NAN, "std": NAN, "any": False, "all": True, "norm": 0, "nansum": 0,
    "nanprod": 1, "nanmean": NAN, "count_nonzero": 0, "logsumexp": -INF,
}  # fmt: skip
"""What a reduction gives for an axis without elements."""


@pytest.mark.parametrize("name", FOLDS)
def test_R_axes_without_elements(name):
    """Folding nothing gives the neutral element, NaN where there is none; folding along another axis gives nothing."""
    fn, x = getattr(gt, name), np.zeros((3, 0), np.float32)

    def run(x):
        return [fn(x, axis=1), fn(x, axis=0), fn(x, axis=1, keepdims=True), fn(x, axis=(0, 1))]

    for rows, none, kept, whole in in_both_ways(run, x):
        assert (rows.shape, none.shape, kept.shape, whole.shape) == ((3,), (0,), (3, 1), ())
        for out in (rows, kept, whole):
            np.testing.assert_array_equal(out, np.full(out.shape, FOLDS[name]))
    if rows.dtype.kind == "f":
        for (g,) in in_both_ways(lambda x: [gt.grad(lambda x: gt.sum(fn(x, axis=1)))(x)], x):
            assert g.shape == (3, 0)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "argmin", "nanmax", "ptp", "median"])
def test_R_no_extreme_of_nothing(name):
    for run in (getattr(gt, name), gt.compile(getattr(gt, name))):
        with pytest.raises(gt.errors.ShapeError):
            run(np.zeros((3, 0), np.float32))


SHAPED = {
    "softmax": gt.softmax, "log_softmax": gt.log_softmax, "layer_norm": gt.nn.layer_norm, "rms_norm": gt.nn.rms_norm,
    "cumsum": lambda x: gt.cumsum(x, axis=1), "cumprod": lambda x: gt.cumprod(x, axis=1), "sort": gt.sort,
    "argsort": gt.argsort, "flip": gt.flip, "cummax": lambda x: gt.cummax(x, axis=1), "roll": lambda x: gt.roll(x, 1),
}  # fmt: skip
PRODUCTS = {
    "matmul": lambda x: x @ x.T, "einsum": lambda x: gt.einsum("ij,kj->ik", x, x), "vecdot": lambda x: gt.vecdot(x, x),
    "outer": lambda x: gt.tensordot(x, x, axes=((1,), (1,))), "linear": lambda x: gt.nn.linear(x, x.T),
}  # fmt: skip


def test_R_functions_of_nothing_have_its_shape_and_products_over_nothing_are_0():
    x = np.zeros((3, 0), np.float32)
    for shaped in in_both_ways(lambda x: [fn(x) for fn in SHAPED.values()], x):
        assert {out.shape for out in shaped} == {(3, 0)}
    for summed in in_both_ways(lambda x: [fn(x) for fn in PRODUCTS.values()], x):
        assert not any(out.any() for out in summed) and {out.shape for out in summed} == {(3, 3), (3,)}


# ---- F: NaN stays, in the body of a loop and in its tail -------------------------------------------------------

KEEPS = {
    **ACTIVATIONS,
    "sort": lambda x: gt.sort(x)[-1:], "max": lambda x: gt.max(x)[None], "min": lambda x: gt.min(x)[None],
    "mean": lambda x: gt.mean(x)[None], "median": lambda x: gt.median(x)[None], "softmax": gt.softmax,
    "cummax": lambda x: gt.cummax(x)[-1:], "cummin": lambda x: gt.cummin(x)[-1:], "norm": lambda x: gt.norm(x)[None],
    "maximum": lambda x: gt.maximum(1.0, x), "minimum": lambda x: gt.minimum(x, 1.0), "sign": gt.sign,
    "argmax": lambda x: gt.take(x, gt.argmax(x)[None]), "argmin": lambda x: gt.take(x, gt.argmin(x)[None]),
    "max_pool": lambda x: gt.nn.max_pool1d(x[None], x.shape[0])[0], "top_k": lambda x: gt.top_k(x, 1)[0],
}  # fmt: skip


@pytest.mark.parametrize("n", [1, 3, 17])
def test_F_nan_is_never_dropped(n):
    """The instructions for maxima keep one operand or the other; here NaN wins, wherever it stands."""

    def run(xs):
        return [fn(x) for x in xs for fn in KEEPS.values()]

    rows = [f32(np.where(np.arange(n) == k, NAN, np.linspace(-2, 2, n))) for k in {0, n // 2, n - 1}]
    for found in in_both_ways(run, rows):
        for out, name in zip(found, list(KEEPS) * len(rows), strict=True):
            assert np.isnan(out).any(), name


# ---- A05: numbers without axes ---------------------------------------------------------------------------------


def test_A05_scalars_stay_scalars():
    """Each primitive of numbers: the result and the gradients of 0-d operands are 0-d tensors."""
    entries = [e for e in FLOATS if e.prim.kind == "elementwise" and e.dtype is gt.float32]
    rng = np.random.default_rng(0)
    scalars = [[i.array(rng, e.dtype).ravel()[0] for i in e.sample.inputs] for e in entries]
    smooth = {id(e): numbers(map(np.asarray, row)) for e, row in zip(entries, scalars, strict=True) if e.sample.grad}

    def run(rows):
        outs = []
        for entry, row in zip(entries, rows, strict=True):
            outs.append(entry.call(*row))
            if id(entry) in smooth:
                outs += gt.grad(lambda *xs, entry=entry: entry.call(*xs), smooth[id(entry)])(*row)
        return outs

    for found in in_both_ways(run, scalars):
        assert {out.shape for out in found} == {()}


# ---- L: windows and strides that do not fit --------------------------------------------------------------------

WINDOWS = [
    (n, k, stride, padding, dilation)
    for n, k, stride, padding, dilation in itertools.product((5, 8), (1, 2, 3), (1, 2, 3), (0, 1), (1, 2))
    if padding < k and (k - 1) * dilation < n + 2 * (padding // 2)
]


def test_L_gradients_of_windows_at_every_remainder():
    """Elements that no window reaches have gradient 0, and no window is moved or lost."""
    rng = np.random.default_rng(3)
    for n, k, stride, padding, dilation in WINDOWS:
        x, w = rng.standard_normal((1, 2, n)), rng.standard_normal((2, 2, k))
        gt.check_grads(lambda x, w, o=(stride, padding, dilation): gt.nn.conv1d(x, w, None, *o), (x, w))
        gt.check_grads(lambda x, o=(k, stride, padding // 2, dilation): gt.nn.max_pool1d(x, *o), (x[0],))
        gt.check_grads(lambda x, o=(k, stride, padding // 2): gt.nn.avg_pool1d(x, *o), (x[0],))
        extra = min(stride, dilation) - 1
        if (turned := (stride, padding, extra, 1, dilation)) and (n - 1) * stride + (k - 1) * dilation > 2 * padding:
            gt.check_grads(lambda x, w, o=turned: gt.nn.conv_transpose1d(x, w, None, *o), (x, w))

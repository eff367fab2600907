"""All public functions of floats: derivatives of both orders against differences, batches against a loop, compiled.

The calls stand in public_calls.py; a public name without a call and without a reason for it fails here. Law: first
and second derivatives are those of the values, at 1e-6 in float64, whatever the shapes, axes and broadcasting, and at
ties and kinks what numerics says.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor import tree
from gtensor.tensor import Tensor, as_tensor
from tests.public_calls import (
    CALLS,
    CONSTANTS,
    METHODS,
    OPERANDS,
    WITHOUT,
    WORD,
    function_of,
    leading,
    names_of,
    operands_of,
    public,
)
from tests.ways import eager

EVERY = pytest.mark.parametrize("text", [*CALLS, *METHODS])


def floats(result):
    """The floating-point results, as a list."""
    return [leaf for leaf in map(as_tensor, tree.flatten(result)[0]) if leaf.dtype.floating]


# ---- the table ---------------------------------------------------------------------------------------------


def test_every_public_function_is_called_or_has_a_reason():
    called, excused = {*map(leading, CALLS)}, " ".join(WITHOUT.values()).split()
    assert len(excused) == len({*excused}) and not called & {*excused}
    assert called | {*excused} == {*public()}
    assert len({*CALLS, *METHODS}) == len([*CALLS, *METHODS])


def test_every_operand_and_constant_is_used():
    assert {name for text in (*CALLS, *METHODS) for name in names_of(text)} == {*OPERANDS}
    assert {*CONSTANTS} <= {*WORD.findall(" ".join([*CALLS, *METHODS]))}


OTHER_METHODS = {
    "all", "any", "argmax", "argmin", "argsort", "assign_", "at", "backward", "bool", "count_nonzero", "detach",
    "device", "dim", "dtype", "eq", "float", "ge", "gt", "int", "isfinite", "isinf", "isnan", "item", "le", "levels",
    "long", "lt", "nbytes", "ndim", "ne", "nonzero", "numel", "numpy", "require_alive", "shape", "size",
    "to_device", "tolist", "zero_grad",
}  # fmt: skip
"""Methods and properties of tensors whose results are no float64, or no arrays."""


def test_every_method_is_called_or_has_no_derivative():
    called = {text.partition(".")[2].partition("(")[0].partition("[")[0] for text in METHODS}
    slots = {name for kind in Tensor.__mro__ for name in getattr(kind, "__slots__", ())}
    public_names = {name for name in dir(Tensor) if not name.startswith("_")} - slots
    assert public_names - called == OTHER_METHODS - {"at"}
    assert not called & OTHER_METHODS - {"at"}


# ---- derivatives and batches -------------------------------------------------------------------------------


@EVERY
def test_derivatives_of_both_orders_are_the_differences(text):
    gt.check_grads(function_of(text), operands_of(text), order=2)


def looped(fn, columns):
    """The results of a Python loop over the examples, stacked in front, as a list."""
    rows = [[as_tensor(leaf).numpy() for leaf in tree.flatten(fn(*map(gt.tensor, row)))[0]] for row in columns]
    return [np.stack(leaves) for leaves in zip(*rows, strict=True)]


@EVERY
def test_a_map_is_a_loop(text):
    """All operands mapped along their first axis; and each alone along its last, with the results at the end."""
    fn, args = function_of(text), operands_of(text)
    stacks = [np.stack([x, np.flip(x)]) for x in args]
    ways = [(tuple(0 for _ in args), 0)]
    ways += [(tuple(-1 if i == k else None for i in range(len(args))), -1) for k in range(len(args))]
    for axes, out_axis in ways:
        given = [x if a is None else np.moveaxis(xs, 0, a) for x, xs, a in zip(args, stacks, axes, strict=True)]
        columns = zip(*([x] * 2 if a is None else xs for x, xs, a in zip(args, stacks, axes, strict=True)), strict=True)
        found = tree.flatten(eager(gt.vmap(fn, axes, out_axis), *given))[0]
        for out, wanted in zip(found, looped(fn, columns), strict=True):
            assert out.dtype == wanted.dtype
            np.testing.assert_allclose(np.moveaxis(out, out_axis, 0), wanted, rtol=1e-9, atol=1e-11)


PARTS = 24
"""Into how many compiled functions the calls go: each costs the C compiler a start."""


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_gradients_are_the_evaluated_ones(part):
    """Values and gradients of a share of the first calls of all functions, together in one compiled function."""
    first = {leading(text): text for text in reversed([*CALLS, *METHODS])}
    texts = [text for text in first.values() if operands_of(text)][part::PARTS]

    def run(operands):
        outs = []
        for text in texts:
            fn = function_of(text)
            loss = lambda *xs, fn=fn: sum(gt.sum(gt.sin(out)) for out in floats(fn(*xs)))  # noqa: E731
            args = [operands[name] for name in names_of(text)]
            outs.append([floats(fn(*args)), gt.grad(loss, tuple(range(len(args))))(*args)])
        return outs

    used = {name: OPERANDS[name] for text in texts for name in names_of(text)}
    wanted, found = run(tree.map_leaves(gt.tensor, used)), gt.compile(run)(used)
    for text, *pair in zip(texts, wanted, found, strict=True):
        for a, b in zip(*(tree.flatten(each)[0] for each in pair), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-8, atol=1e-9, err_msg=text)


# ---- kinks, ties and ends of domains -----------------------------------------------------------------------

INF, NAN = math.inf, math.nan

KINKS = {
    "abs": (gt.abs, [0, -0.0, 1], [0, 0, 1]),
    "acosh": (gt.acosh, [1], [INF]),
    "adaptive_max_pool": (lambda x: gt.nn.adaptive_max_pool1d(x[None], 1), [1, 1], [0.5, 0.5]),
    "asin": (gt.asin, [-1, 1], [INF, INF]),
    "binary_cross_entropy": (lambda x: gt.nn.binary_cross_entropy(x, [0.0, 1.0], reduction="sum"), [0, 1], [1, -1]),
    "cbrt": (gt.cbrt, [0, 8], [INF, 1 / 12]),
    "celu": (lambda x: gt.nn.celu(x, 2.0), [0], [1]),
    "clip": (lambda x: gt.clip(x, -1, 1), [-2, -1, 0, 1, 2], [0, 1, 1, 1, 0]),
    "copysign": (lambda x: gt.copysign(x, -1.0), [-1, 0, 1], [1, 0, -1]),
    "cummax": (gt.cummax, [1, 1, 0, 1], [1, 2, 0, 1]),
    "cumprod": (gt.cumprod, [0, 2, 0], [3, 0, 0]),
    "elu": (lambda x: gt.nn.elu(x, 0.5), [0], [0.5]),
    "entr": (gt.entr, [0, 1], [INF, -1]),
    "fmax": (lambda x: gt.fmax(x, 0), [-1, 0, NAN], [0, 0.5, 0]),
    "fmin": (lambda x: gt.fmin(0, x), [-1, 0, NAN], [1, 0.5, 0]),
    "fmod": (lambda x: gt.fmod(x, 1.0), [1, -1], [1, 1]),
    "gammainc": (lambda x: gt.gammainc(1.0, x), [0], [1]),
    "hardsigmoid": (gt.nn.hardsigmoid, [-3, 0, 3], [0, 1 / 6, 0]),
    "hardswish": (gt.nn.hardswish, [-3, 0, 3], [0, 0.5, 1]),
    "hardtanh": (gt.nn.hardtanh, [-1, 0, 1], [0, 1, 0]),
    "heaviside": (lambda x: gt.heaviside(x, 0.5), [-1, 0, 1], [0, 0, 0]),
    "huber_loss": (lambda x: gt.nn.huber_loss(x, 0 * x, "sum"), [-1, 0, 1, 2], [-1, 0, 1, 1]),
    "hypot": (lambda x: gt.hypot(x, 0 * x), [-1, 0], [-1, 0]),
    "interp": (lambda x: gt.interp(x, [0.0, 1.0, 2.0], [0.0, 2.0, 3.0]), [-1, 0, 1, 2, 3], [0, 2, 1, 1, 0]),
    "l1_loss": (lambda x: gt.nn.l1_loss(x, 0 * x, "sum"), [-1, 0, 1], [-1, 0, 1]),
    "layer_norm": (lambda x: gt.sum(gt.nn.layer_norm(x)), [1, 1, 1], [0, 0, 0]),
    "leaky_relu": (gt.leaky_relu, [-1, 0, 1], [0.01, 0.01, 1]),
    "log": (gt.log, [0], [INF]),
    "logaddexp": (lambda x: gt.logaddexp(x, x), [0, -INF], [1, 1]),
    "logsumexp": (gt.logsumexp, [1, 1], [0.5, 0.5]),
    "matrix_norm": (gt.linalg.matrix_norm, [[0, 0]], [[0, 0]]),
    "maximum": (lambda x: gt.maximum(x, 0), [-1, 0, 1], [0, 0.5, 1]),
    "median": (gt.median, [1, 1, 2, 2], [0, 0.5, 0.5, 0]),
    "nan_to_num": (gt.nan_to_num, [NAN, 1, INF], [0, 1, 0]),
    "nanmax": (gt.nanmax, [1, NAN, 1], [0.5, 0, 0.5]),
    "nanstd": (gt.nanstd, [2, 2, NAN], [0, 0, 0]),
    "norm": (gt.norm, [0, 0], [0, 0]),
    "3-norm": (lambda x: gt.linalg.vector_norm(x, ord=3), [0, 0], [0, 0]),
    "pow": (lambda x: gt.pow(x, [0.0, 1.0, 2.0, 0.5]), [0, 0, 0, 0], [0, 1, 0, INF]),
    "power of 0": (lambda x: gt.pow([0.0, 0.0], x), [1, 2], [0, 0]),
    "prelu": (lambda x: gt.nn.prelu(x, gt.tensor(0.25)), [-1, 0, 1], [0.25, 0.25, 1]),
    "prod": (gt.prod, [0, 3, 2], [6, 0, 0]),
    "ptp": (gt.ptp, [1, 1, 3, 3], [-0.5, -0.5, 0.5, 0.5]),
    "relu": (gt.relu, [0, -0.0, 1], [0, 0, 1]),
    "relu6": (gt.nn.relu6, [0, 3, 6], [0, 1, 0]),
    "remainder": (lambda x: x % 1.0, [0, 1, 2], [1, 1, 1]),
    "round": (gt.round, [0.5, 1.5], [0, 0]),
    "selu": (gt.nn.selu, [0], [1.0507009873554805 * 1.6732632423543772]),
    "sinc": (gt.sinc, [0, 1], [0, -1]),
    "smooth_l1_loss": (lambda x: gt.nn.smooth_l1_loss(x, 0 * x, "sum", beta=0.0), [-1, 0, 1], [-1, 0, 1]),
    "softsign": (gt.nn.softsign, [0], [1]),
    "sort": (lambda x: gt.sort(x) * gt.arange(3), [1, 1, 1], [0, 1, 2]),
    "sqrt": (gt.sqrt, [0, 4], [INF, 0.25]),
    "std": (gt.std, [2, 2, 2], [0, 0, 0]),
    "threshold": (lambda x: gt.nn.threshold(x, 1.0, 5.0), [0, 1, 2], [0, 0, 1]),
    "top_k": (lambda x: gt.top_k(x, 2)[0], [1, 1, 1, 0], [1, 1, 0, 0]),
    "where": (lambda x: gt.where(x > 0, gt.log(x), gt.sqrt(-x)), [1, 4], [1, 0.25]),
    "xlogy": (lambda x: gt.xlogy(0 * x, x), [0, 1], [0, 0]),
}
"""Functions, points where they have kinks, ties or an end of their domain, and what their derivative is there."""

ENDLESS = {"acosh", "asin", "cbrt", "entr", "log", "pow", "sqrt"}
"""Those whose second derivative there is not finite either."""


def test_derivatives_at_kinks_ties_and_ends():
    """First derivatives as the documentation has them, second ones finite, eager and compiled."""
    points = {name: np.array(at, np.float64) for name, (_, at, _) in KINKS.items()}

    def run(points):
        slopes = {n: gt.grad(lambda x, f=fn: gt.sum(f(x))) for n, (fn, _, _) in KINKS.items()}
        twice = {n: gt.grad(lambda x, s=slope: gt.sum(s(x))) for n, slope in slopes.items()}
        return [{n: f(points[n]) for n, f in each.items()} for each in (slopes, twice)]

    for slopes, twice in (run(tree.map_leaves(gt.tensor, points)), gt.compile(run)(points)):
        for name, (_, _, wanted) in KINKS.items():
            np.testing.assert_allclose(slopes[name].numpy(), wanted, rtol=1e-12, atol=1e-12, err_msg=name)
        assert {n for n, second in twice.items() if not np.isfinite(second.numpy()).all()} == ENDLESS


# ---- transformations of transformations --------------------------------------------------------------------

W = np.random.default_rng(5).standard_normal((3, 3))
X = np.random.default_rng(6).standard_normal(3)
XS = np.random.default_rng(7).standard_normal((4, 3))


def looping(x):
    return gt.sum(gt.scan(lambda c, e: (gt.tanh(c @ W + e), None), x, gt.stack([x, gt.sin(x)]))[0] ** 2)


ENERGIES = {
    "layers": lambda x: gt.sum(gt.nn.layer_norm(gt.gelu(x @ W)) * x),
    "loss": lambda x: gt.nn.cross_entropy((gt.tanh(x) @ W)[None], gt.tensor([1])),
    "attention": lambda x: gt.sum(gt.nn.scaled_dot_product_attention(gt.outer(x, x), W * x, W) ** 2),
    "window": lambda x: gt.sum(gt.nn.conv1d(gt.outer(x, x)[None], W[:, :, None] * x) ** 3),
    "matrix": lambda x: (
        gt.linalg.slogdet(gt.outer(x, x) + 2 * gt.eye(3))[1] + gt.sum(gt.linalg.inv(W + gt.diag(x)) ** 2)
    ),
    "sorted": lambda x: gt.sum(gt.cumprod(gt.sort(gt.sin(x))) * gt.cumsum(x)),
    "indexed": lambda x: gt.sum(gt.index_add(gt.outer(x, x), 0, [2, 2], W[:2] * x)[gt.argmax(x)[None]] ** 2),
    "loop": looping,
    "branch": lambda x: gt.cond(gt.sum(x) > 0, lambda v: gt.sum(gt.exp(v)), lambda v: gt.prod(v), x),
    "masked": lambda x: gt.sum(gt.where(x > 0, gt.log(x), x**3) ** 2),
}


def differences(fn, x, step=1e-4):
    """The derivatives of an array function of one array, by central differences of the fourth order, axis last."""
    columns = []
    for i in range(x.size):
        h = np.zeros_like(x)
        h[i] = step
        ahead, back, far, rear = (eager(fn, x + k * h) for k in (1, -1, 2, -2))
        columns.append((8 * (ahead - back) - (far - rear)) / (12 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", ENERGIES)
def test_second_derivatives_are_one_thing_however_they_are_asked_for(name):
    """Forward over reverse, reverse over forward, reverse over reverse: the same matrix, that of the differences."""
    fn = ENERGIES[name]

    def every(x):
        rows = gt.vmap(lambda t: gt.hvp(fn, [x], [t])[0])(gt.eye(3, dtype="float64"))
        return [
            gt.hessian(fn)(x),
            gt.jacfwd(gt.jacrev(fn))(x),
            gt.jacrev(gt.jacfwd(fn))(x),
            gt.jacrev(gt.grad(fn))(x),
            rows,
        ]

    wanted = differences(gt.grad(fn), X)
    for found in (eager(every, X), [out.numpy() for out in gt.compile(every)(X)]):
        for out in found:
            np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-7)
    gt.check_grads(fn, (X,), order=2)


@pytest.mark.parametrize("name", ENERGIES)
def test_maps_of_gradients_and_gradients_of_maps(name):
    """vmap(grad), grad(vmap), and both through a scan whose step is a map, are loops over the examples."""
    fn = ENERGIES[name]

    def through_scan(xs):
        step = lambda total, _: (total + gt.sum(gt.vmap(fn)(xs)), gt.vmap(fn)(xs * 2))  # noqa: E731
        total, rows = gt.scan(step, gt.tensor(np.float64(0)), length=2)
        return total + gt.sum(rows[0])

    def each_scans(x):
        return gt.sum(gt.scan(lambda c, k: (c + fn(x * k), None), gt.tensor(np.float64(0)), np.array([1.0, 2.0]))[0])

    def every(xs):
        mapped = gt.vmap(gt.grad(fn))
        return [
            mapped(xs), gt.grad(lambda xs: gt.sum(gt.vmap(fn)(xs)))(xs), gt.vmap(gt.value_and_grad(fn))(xs)[1],
            gt.grad(through_scan)(xs), gt.vmap(gt.grad(each_scans))(xs), gt.vmap(gt.hessian(fn))(xs),
        ]  # fmt: skip

    slopes = np.stack([eager(gt.grad(fn), x) for x in XS])
    doubled = np.stack([2 * eager(gt.grad(fn), 2 * x) for x in XS])
    curves = np.stack([eager(gt.hessian(fn), x) for x in XS])
    wanted = [slopes, slopes, slopes, 2 * slopes + doubled, slopes + doubled, curves]
    for found in (eager(every, XS), [out.numpy() for out in gt.compile(every)(XS)]):
        for out, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(out, right, rtol=1e-8, atol=1e-9)

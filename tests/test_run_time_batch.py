"""A batch whose size is known at run time only: one compiled function serves every size with the results of each.

Law: for 1, 7, 64 and 100 rows, and for none, the results are those of the function run on arrays of that size, within
rounding, and nothing is compiled again. What cannot be one function for all sizes is refused by name, with the
user's line. `GROUPS` holds small functions that are compiled together.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor import stages, tree
from gtensor.api import Executable
from gtensor.errors import SignatureError, TraceError
from gtensor.resident import Bound
from gtensor.tensor import as_tensor

RNG = np.random.default_rng(3)
W = RNG.standard_normal((6, 6)).astype(np.float32) / 3
SIZES = (1, 7, 64, 100)
BOUND = {"B": 100}

LAYER = gt.nn.Sequential(gt.nn.Linear(6, 8), gt.gelu, gt.nn.LayerNorm(8), gt.nn.Dropout(0.5), gt.nn.Linear(8, 3))
ATTENTION = gt.nn.MultiHeadAttention(6, heads=2, causal=True)
CELLS = [kind(6, 4, 2) for kind in (gt.nn.GatedMemory, gt.nn.GRU, gt.nn.LSTM)]
OPTIMIZER = gt.optim.adam(1e-2)


def layer_loss(params, x):
    labels = gt.argmax(x[:, :3], axis=1)
    return gt.nn.cross_entropy(LAYER(params, x, gt.random.key(1), training=True), labels)


def trained(params, state, x):
    loss, grads = gt.value_and_grad(layer_loss)(params, x)
    return OPTIMIZER.update(params, grads, state), loss


def rolled(cell):
    params = cell.init(gt.random.key(0))

    def loss(x):
        xs = gt.stack([x, x * 2, gt.sin(x)])
        by_params = gt.grad(lambda p: gt.mean(cell.rollout(p, cell.start(x.shape[0]), xs)[1] ** 2))
        return cell.rollout(params, cell.start(x.shape[0]), xs)[1], by_params(params)

    return loss


def one(row):
    carry, rows = gt.scan(lambda c, e: (gt.tanh(c @ W + e), gt.sum(c)), row, gt.outer(row, row))
    return gt.sum(carry) + gt.sum(rows**2)


PARAMS = LAYER.init(gt.random.key(0))
SQUARE = gt.custom_vjp(lambda x: x * x)
SQUARE.defvjp(lambda x: (SQUARE(x), x), lambda x, g: (2 * g * x,))

FUNCTIONS = {
    "network": lambda x: gt.tanh(x @ W) @ W.T,
    "gradients": lambda x: gt.value_and_grad(layer_loss)(PARAMS, x),
    "training": lambda x: trained(PARAMS, OPTIMIZER.init(PARAMS), x),
    "attention": lambda x: ATTENTION(ATTENTION.init(gt.random.key(0)), gt.stack([x, x * x], axis=1)),
    **{type(cell).__name__: rolled(cell) for cell in CELLS},
    "statistics": lambda x: (gt.mean(x), gt.std(x, axis=0), gt.norm(x), gt.max(x, axis=0), gt.argmax(x, axis=0)),
    "count": lambda x: (gt.sum(x) / x.shape[0], x * x.shape[0], len(x.shape)),
    "pairs": lambda x: (x @ x.T, x[:, None] - x[None]),
    "shapes": lambda x: (x.T, x.reshape(-1), x.reshape((x.shape[0], 2, 3)), gt.concat([x, x[:, ::2]], axis=1)),
    "branches": lambda x: gt.cond(gt.sum(x) > 0, gt.sin, gt.negative, x),
    "checkpoint": gt.grad(lambda x: gt.sum(gt.checkpoint(lambda x: gt.sin(gt.exp(x) @ W))(x))),
    "rule": gt.grad(lambda x: gt.sum(SQUARE(x) ** 2)),
    "products": lambda x: gt.jvp(lambda x: gt.tanh(x @ W), [x], [x]),
    "map": gt.vmap(one),
    "map of gradients": gt.vmap(gt.grad(one)),
    "gradient of a map": gt.grad(lambda x: gt.sum(gt.vmap(one)(x) ** 2)),
    "map of jacobians": gt.vmap(gt.jacrev(lambda row: gt.softmax(row @ W))),
    "map of loops": gt.vmap(lambda row: gt.while_loop(lambda c: gt.sum(c * c) < 99, lambda c: 1.5 * c + 0.1, row)),
    "map of indexing": gt.vmap(
        gt.value_and_grad(lambda row: gt.sum(gt.take(gt.outer(row, row), gt.argmax(row)[None], axis=1) ** 2))
    ),
    "map of branches": gt.vmap(lambda row: gt.switch(gt.argmax(row), [gt.sin, gt.exp, gt.negative], row)),
}


IMAGE = {"mean": np.zeros(2, np.float32), "var": np.ones(2, np.float32)}
KERNEL = RNG.standard_normal((4, 2, 3, 3)).astype(np.float32) / 4
KEY = gt.random.key(5)


def images(x):
    return gt.reshape(x, (x.shape[0], 1, 2, 3)) * gt.reshape(gt.tensor([1.0, -0.5]), (2, 1, 1))


def matrices(x):
    return x[:, :3, None] * x[:, None, :3] + 4 * gt.eye(3)


def network(kernel, x):
    h, state = gt.nn.batch_norm(
        gt.nn.conv2d(images(x), kernel, padding=1), {"mean": gt.zeros(4), "var": gt.ones(4)}, training=True
    )
    h = gt.nn.max_pool2d(gt.relu(gt.nn.group_norm(h, 2)), (2, 1))
    return gt.nn.cross_entropy(h.reshape((x.shape[0], 12))[:, :6], gt.argmax(x, axis=1)), state


def contrast(x):
    """The loss of two views that find each other in a batch, both ways."""
    z = gt.concat([gt.tanh(x @ W), gt.sin(x)])
    z = z / gt.norm(z, axis=1, keepdims=True)
    one, other = gt.chunk(z, 2)
    places, scores = gt.arange(x.shape[0]), 5 * one @ other.T
    both = gt.nn.cross_entropy(scores, places) + gt.nn.cross_entropy(scores.T, places, label_smoothing=0.1)
    return both - gt.mean(gt.diagonal(scores)) + gt.mean(gt.einsum("bi,ci->bc", one, one) * gt.eye(x.shape[0]))


def label(x):
    return gt.argmax(x, axis=1)


GROUPS = {
    "images": {
        "training": lambda x: gt.value_and_grad(network, has_aux=True)(KERNEL, x),
        "batch_norm": lambda x: gt.nn.batch_norm(images(x), IMAGE, training=True),
        "by x": gt.grad(lambda x: gt.sum(gt.nn.batch_norm(images(x), IMAGE, training=True)[0] ** 3)),
        "group_norm": lambda x: gt.nn.group_norm(images(x), 2),
        "instance_norm": lambda x: gt.nn.instance_norm(images(x)),
        "avg_pool": gt.grad(lambda x: gt.sum(gt.nn.avg_pool2d(gt.nn.conv2d(images(x), KERNEL, padding=1), 2) ** 2)),
        "turned": lambda x: gt.nn.conv_transpose2d(images(x), np.swapaxes(KERNEL, 0, 1)),
        "adaptive": lambda x: gt.nn.adaptive_avg_pool2d(images(x), (1, 2)),
        "resized": lambda x: gt.nn.interpolate(images(x), scale_factor=2, mode="bilinear"),
    },
    "order": {
        "sort": lambda x: gt.sort(x, axis=1),
        "sort by x": gt.grad(lambda x: gt.sum(gt.sort(x, axis=1) * np.arange(6))),
        "top_k": lambda x: gt.top_k(x, 2, axis=1),
        "sort along the batch": lambda x: gt.sort(x, axis=0),
        "argsort along the batch": lambda x: gt.argsort(x, axis=0),
        "median": lambda x: gt.median(x, axis=1),
        "cumsum": lambda x: gt.cumsum(x, axis=1),
        "cumsum along the batch": lambda x: gt.cumsum(x, axis=0),
        "cumsum by x": gt.grad(lambda x: gt.sum(gt.cumsum(x, axis=0) ** 2)),
        "cumprod by x": gt.grad(lambda x: gt.sum(gt.cumprod(x, axis=1))),
        "searchsorted": lambda x: gt.searchsorted(gt.tensor([-1.0, 0.0, 1.0]), x),
        "histogram": lambda x: gt.histogram(x, 4, (-2.0, 2.0)),
        "bincount": lambda x: gt.bincount(label(x), length=6),
    },
    "folds": {
        "moments": lambda x: (gt.mean(x, axis=0), gt.var(x, axis=0), gt.std(x), gt.norm(x, axis=0)),
        "by x": gt.grad(lambda x: gt.sum(gt.var(x, axis=0) ** 2) + gt.sum(gt.logsumexp(x, axis=0))),
        "softmax": lambda x: gt.softmax(x, axis=0),
        "logic": lambda x: (gt.any(x > 1, axis=0), gt.all(x < 3), gt.count_nonzero(x > 0, axis=0), gt.prod(x, axis=0)),
        "covariance": lambda x: (lambda d: d.T @ d / gt.maximum(x.shape[0] - 1, 1))(x - gt.mean(x, axis=0)),
        "counts": lambda x: (2 + x.shape[0] / 2, 1 / (1 + x.shape[0]), x.shape[0] % 3, x.shape[0] // 2, 9 - x.shape[0]),
        "compared": lambda x: (
            gt.where(x.shape[0] > 3, x, -x) + (x.shape[0] <= 7) * 1.0 + (x.shape[0] >= 7) * (x.shape[0] < 99)
        ),
        "size": lambda x: x.size * gt.ones(2),
        "two extents": lambda x: (gt.mean(x @ x.T), gt.var(x @ x.T + 1), gt.nn.mse_loss(x @ x.T, gt.eye(x.shape[0]))),
        "einsum": lambda x: (gt.einsum("bi,ij->bj", x, W), gt.einsum("bi,bj->ij", x, x), gt.einsum("bi,bi->b", x, x)),
        "tensordot": lambda x: gt.tensordot(x, x, axes=((0,), (0,))),
    },
    "places": {
        "rows in order": lambda x: x[gt.argsort(x[:, 0])],
        "by x": gt.grad(lambda x: gt.sum(x[gt.argsort(x[:, 0])] ** 2 * gt.arange(x.shape[0])[:, None])),
        "labels": lambda x: gt.log_softmax(x)[gt.arange(x.shape[0]), label(x)],
        "labels by x": gt.grad(lambda x: gt.sum(gt.log_softmax(x)[gt.arange(x.shape[0]), label(x)])),
        "along": lambda x: gt.take_along_axis(x, label(x)[:, None], axis=1),
        "gather": lambda x: gt.gather(x, 0, gt.argsort(x, axis=0)),
        "columns": lambda x: gt.take(x, [2, 0], axis=1),
        "clipped": lambda x: gt.take(gt.concat([x, x]), label(x) * 0 + 1, axis=1, mode="clip"),
        "embedding": lambda x: gt.value_and_grad(lambda w: gt.sum(gt.nn.embedding(label(x), w) ** 2))(W),
        "one_hot": lambda x: gt.one_hot(label(x), 6),
        "segments": lambda x: gt.zeros((6, 6)).at[label(x)].add(x),
        "index_add": lambda x: gt.index_add(gt.zeros((6, 6)), 0, label(x), x),
        "scatter_add": lambda x: gt.scatter_add(x, 1, label(x)[:, None], x[:, :1]),
        "set": lambda x: x.at[:, 0].set(1.0).at[:, [1, 1]].add(x[:, :2]),
        "slices": lambda x: (x[::-1], x[:, ::-2], gt.dynamic_slice(x, (0, 1), (x.shape[0], 2))),
        "turned": lambda x: (gt.flip(x), gt.roll(x, 2, axis=0), gt.roll(x, -1, axis=1)),
    },
    "shapes": {
        "joined": lambda x: (gt.concat([x, 2 * x]), gt.vstack([x, x, -x]), gt.hstack([x, x]), gt.stack([x, x], axis=1)),
        "joined by x": gt.grad(lambda x: gt.sum(gt.concat([x, x * x, gt.concat([x, -x])]) ** 3)),
        "parts": lambda x: (
            gt.chunk(gt.concat([x, 2 * x]), 2),
            gt.split(gt.tile(x, (3, 1)), 3),
            gt.split(x, 2, axis=1),
        ),
        "copies": lambda x: (gt.repeat(x, 2, axis=0), gt.tile(x, (1, 2)), gt.broadcast_to(gt.sum(x, axis=0), x.shape)),
        "contrast": lambda x: gt.value_and_grad(contrast)(x),
        "lower": lambda x: (gt.tril(x @ x.T), gt.triu(x @ x.T), gt.matrix_trace(x @ x.T), gt.diagonal(x @ x.T)),
        "causal": lambda x: gt.nn.scaled_dot_product_attention(x, x, x, is_causal=True),
        "made": lambda x: (gt.full((x.shape[0], 2), 3.0), gt.arange(x.shape[0], dtype="float32"), gt.zeros_like(x)),
        "padded": lambda x: gt.pad(x, ((0, 0), (1, 2)), mode="edge"),
    },
    "matrices": {
        "cholesky": lambda x: gt.linalg.cholesky(matrices(x)),
        "solve": lambda x: gt.linalg.solve(matrices(x), x[:, 3:, None]),
        "solve by x": gt.grad(lambda x: gt.sum(gt.linalg.solve(matrices(x), x[:, 3:, None]) ** 2)),
        "inverse": lambda x: (
            gt.linalg.inv(matrices(x)),
            gt.linalg.slogdet(matrices(x)),
            gt.linalg.eigvalsh(matrices(x)),
        ),
        "normal equations": lambda x: gt.linalg.solve(x.T @ x + gt.eye(6), x.T @ x[:, :1]),
    },
    "chance": {
        "dropout": lambda x: gt.nn.dropout(x, 0.5, KEY),
        "normal": lambda x: x + gt.random.normal(KEY, x.shape),
        "uniform": lambda x: gt.random.uniform(KEY, x.shape),
        "bernoulli": lambda x: gt.random.bernoulli(KEY, gt.sigmoid(x)),
        "permutation": lambda x: (gt.random.permutation(KEY, x), gt.random.permutation(KEY, x.shape[0])),
        "each its own": lambda x: gt.vmap(lambda k, r: r + gt.random.normal(k, (6,)))(
            gt.random.split(KEY, x.shape[0]), x
        ),
    },
    "loops over the rows": {
        "scan": lambda x: gt.scan(lambda c, r: (gt.tanh(c @ W + r), gt.sum(c)), gt.zeros(6), x),
        "backwards": lambda x: gt.scan(lambda c, r: (c * 0.5 + r, c), gt.zeros(6), x, reverse=True),
        "by x": gt.grad(lambda x: gt.sum(gt.scan(lambda c, r: (gt.tanh(c @ W + r), c), gt.zeros(6), x)[1] ** 2)),
        "by w": lambda x: gt.grad(lambda w: gt.sum(gt.scan(lambda c, r: (gt.tanh(c @ w + r), c), gt.zeros(6), x)[0]))(
            W
        ),
        "counted": lambda x: gt.fori_loop(0, x.shape[0], lambda i, c: 0.9 * c + x[i, 0], gt.tensor(1.0)),
    },
}

HOPELESS = {"images", "shapes"}
"""Groups with functions that have no value for no rows (a variance, the probability of one of no classes)."""


def together(functions):
    """Small functions as one."""
    return lambda x: {name: fn(x) for name, fn in functions.items()}


ALL = FUNCTIONS | {name: together(functions) for name, functions in GROUPS.items()}


@pytest.mark.parametrize("name", ALL)
def test_one_function_serves_every_size(name, monkeypatch):
    fn = ALL[name]
    open_ = gt.compile(fn)
    open_.trace(gt.spec(("B", 6), max=BOUND)).lower().compile()
    sizes = SIZES if name in FUNCTIONS or name in HOPELESS else (*SIZES, 0)
    batches = [RNG.standard_normal((size, 6)).astype(np.float32) for size in sizes]
    with monkeypatch.context() as patch:
        patch.setattr(stages.Lowered, "compile", lambda self: pytest.fail("this compiles again"))
        results = [open_(x) for x in batches]
    for x, found in zip(batches, results, strict=True):
        wanted = fn(gt.tensor(x))
        pairs = zip(*(map(as_tensor, tree.flatten(each)[0]) for each in (found, wanted)), strict=True)
        for a, b in pairs:
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)


def test_results_equal_those_of_a_fixed_size():
    fn = gt.compile(FUNCTIONS["training"])
    open_ = gt.compile(FUNCTIONS["training"])
    open_.trace(gt.spec(("B", 6), max=BOUND)).lower().compile()
    for size in SIZES:
        x = RNG.standard_normal((size, 6)).astype(np.float32)
        for a, b in zip(tree.flatten(open_(x))[0], tree.flatten(fn(x))[0], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)


def mean_loss(params, x):
    return gt.mean(gt.tanh(x @ params) ** 2)


def test_a_call_of_another_size_goes_straight_to_c(monkeypatch):
    """Training, a resident step and a compiled function: where Python would look at the arrays, this fails."""
    for kind in (gt.TrainStep, Bound, Executable):
        monkeypatch.setattr(kind, "_checked", lambda self, *batch, **more: pytest.fail("this is the long way"))
    spec = gt.spec(("B", 6), max=BOUND)
    train = gt.TrainStep(mean_loss, W, gt.optim.sgd(0.0), spec)
    counter = gt.Resident(lambda total, x: (total + gt.sum(x), x * 2), gt.zeros(()), [spec])
    double = gt.compile(lambda x: x * 2).trace(spec).lower().compile()
    if train.compiled.library.bridge.mode != "api":
        return
    for size in (*SIZES, 0):
        x = RNG.standard_normal((size, 6)).astype(np.float32)
        if size:
            assert train(x) == pytest.approx(mean_loss(gt.tensor(W), gt.tensor(x)).item(), rel=1e-5)
        for out in (counter(x), double(x)):
            assert out.type == gt.spec((size, 6)).type
            np.testing.assert_array_equal(out.numpy(), x * 2)


def test_what_divides_by_a_count_joins_the_kernels_of_the_fixed_size():
    """A loss and its gradient have one kernel more: the one that counts."""
    specs = gt.spec((100, 6)), gt.spec(("B", 6), max=BOUND)
    kernels = [len(gt.compile(gt.value_and_grad(mean_loss)).trace(W, s).lower().program.steps) for s in specs]
    assert kernels[1] <= kernels[0] + 1


def test_an_extent_is_a_number_where_one_is_wanted():
    graph = gt.trace(lambda x: x.shape[0] * gt.sum(x, axis=0) / x.shape[0], gt.spec(("B", 2), max=BOUND))
    assert graph.outputs[0].type == gt.spec((2,)).type
    as_int = gt.compile(lambda x, n: n * x.shape[0])
    as_int.trace(gt.spec(("B", 2), max=BOUND), gt.spec((), "int32")).lower().compile()
    found = as_int(np.zeros((7, 2), np.float32), np.int32(3))
    assert found.dtype == gt.int32 and found.item() == 21
    with pytest.raises(TypeError):
        gt.trace(lambda x: gt.zeros(x.shape[0] * 0.5), gt.spec(("B", 2), max=BOUND))


NUMBERS = {
    "half": lambda n: 0.5 * n + n * 0.5,
    "negative": lambda n: -n + n * -2,
    "square": lambda n: n * n,
    "power": lambda n: n**2 + n**0.5,
    "whole": lambda n: n // 2 + n % 3,
    "reversed": lambda n: (1 - n) + 1 / n,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_arithmetic_of_an_extent_is_that_of_a_number(name):
    number = NUMBERS[name]
    step = gt.compile(lambda x: gt.sum(x) * 0 + number(x.shape[0]))
    step.trace(gt.spec(("B",), max=BOUND)).lower().compile()
    for size in (1, 7, 100):
        assert float(step(np.ones(size, np.float32))) == pytest.approx(number(size), rel=1e-6)


@pytest.mark.parametrize("use", [float, int, range], ids=lambda use: use.__name__)
def test_an_extent_is_no_python_number_and_the_line_is_named(use):
    def wrong(x):
        return x * len(str(use(x.shape[0])))

    with pytest.raises(TraceError, match=r"traced tensor cannot become a Python[\s\S]*test_run_time_batch\.py"):
        gt.trace(wrong, gt.spec(("B",), max=BOUND))


def test_rows_at_both_ends_and_at_computed_places():
    def ends(x, i):
        return (
            x[0],
            x[-1],
            x[i],
            x[-2:][0] if isinstance(x.shape[0], int) else x[-2],
            x.at[i].set(0.0),
            x[gt.argmax(x[:, 0])],
        )

    step = gt.compile(ends)
    step.trace(gt.spec(("B", 6), max=BOUND), gt.spec((), int)).lower().compile()
    for size in (2, 7, 100):
        x = RNG.standard_normal((size, 6)).astype(np.float32)
        for i in (0, size - 1, -1, -size):
            for a, b in zip(step(x, i), ends(gt.tensor(x), gt.tensor(i)), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
        for i in (size, -size - 1, 2**40):
            with pytest.raises(IndexError, match=f"index {i} is out of range"):
                step(x, np.int64(i))
    with pytest.raises(IndexError, match="index 0 is out of range"):
        gt.compile(lambda x: x[0]).trace(gt.spec(("B",), max=BOUND)).lower().compile()(np.zeros(0, np.float32))


REFUSED = {
    "a part of the rows": (lambda x: x[:3], "of the run-time axis B a slice takes all"),
    "all but the first": (lambda x: x[1:], "of the run-time axis B a slice takes all"),
    "joined to fixed rows": (lambda x: gt.concat([x, W[:, :2]]), "only multiples of one run-time extent"),
    "grown": (lambda x: gt.pad(x, ((1, 0), (0, 0))), "the run-time extent B of .* cannot grow"),
    "cut": (lambda x: gt.split(x, 2), "the run-time extent B does not divide into 2 pieces"),
    "cut at places": (lambda x: gt.split(x, [1]), "the extent B of axis 0 is known at run time only"),
    "taken apart": (lambda x: gt.unstack(x), "the extent B of axis 0 is known at run time only"),
    "differences": (lambda x: gt.diff(x, axis=0), "the length of axis 0 of .* is known at run time only"),
    "a median": (lambda x: gt.median(x, axis=0), "known at run time only"),
    "the slope of a product": (gt.grad(lambda x: gt.sum(gt.prod(x, axis=0))), "a constant number of factors, not B"),
    "least squares": (lambda x: gt.linalg.lstsq(x, x), "matrices of constant sizes"),
    "two extents in one": (lambda x: (x @ x.T).reshape(-1), "one run-time extent"),
    "counting from 1": (lambda x: gt.arange(1, x.shape[0]), "arange: from 0 to a run-time extent"),
    "an array of a computed size": (lambda x: gt.zeros(x.shape[0] + 1), "a shape holds integers"),
    "its length": (len, "the length B is known at run time only"),
    "a branch in Python": (lambda x: x if x.shape[0] > 3 else -x, "has no truth value"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_names_the_line(what):
    fn, message = REFUSED[what]
    with pytest.raises(gt.errors.GTensorError, match=message) as caught:
        gt.trace(fn, gt.spec(("B", 2), max={"B": 4}))
    assert "test_run_time_batch.py" in str(caught.value)


def test_what_is_refused():
    spec = gt.spec(("B", 2), max={"B": 4})
    fn = gt.compile(lambda x: x * 2)
    call = fn.trace(spec).lower().compile()
    with pytest.raises(SignatureError, match="B <= 4"):
        call(np.zeros((5, 2), np.float32))

"""A batch whose size is known at run time only: one compiled function serves every size with the results of each.

Law: for 1, 7, 64 and 100 rows the results are those of the function compiled for that size, within rounding, and
nothing is compiled again.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor import stages, tree
from gtensor.errors import ShapeError, SignatureError
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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_function_serves_every_size(name, monkeypatch):
    fn = FUNCTIONS[name]
    open_ = gt.compile(fn)
    open_.trace(gt.spec(("B", 6), max=BOUND)).lower().compile()
    batches = [RNG.standard_normal((size, 6)).astype(np.float32) for size in SIZES]
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


def test_an_extent_is_a_number_where_one_is_wanted():
    graph = gt.trace(lambda x: x.shape[0] * gt.sum(x, axis=0) / x.shape[0], gt.spec(("B", 2), max=BOUND))
    assert graph.outputs[0].type == gt.spec((2,)).type
    as_int = gt.compile(lambda x, n: n * x.shape[0])
    as_int.trace(gt.spec(("B", 2), max=BOUND), gt.spec((), "int32")).lower().compile()
    found = as_int(np.zeros((7, 2), np.float32), np.int32(3))
    assert found.dtype == gt.int32 and found.item() == 21
    with pytest.raises(TypeError):
        gt.trace(lambda x: gt.zeros(x.shape[0] * 0.5), gt.spec(("B", 2), max=BOUND))


def test_what_is_refused():
    spec = gt.spec(("B", 2), max={"B": 4})
    fn = gt.compile(lambda x: x * 2)
    call = fn.trace(spec).lower().compile()
    with pytest.raises(SignatureError, match="B <= 4"):
        call(np.zeros((5, 2), np.float32))
    for refused in (lambda x: x[0], lambda x: gt.concat([x, x]), lambda x: gt.flip(x, axis=0), gt.unstack):
        with pytest.raises(ShapeError, match=r"run-time|run time"):
            gt.trace(refused, spec)

"""float16 and bfloat16: kept in 16 bits, computed in float32, rounded once per operation; compiled as evaluated.

What is expected is the same function of float32 on the same values, rounded by NumPy or ml_dtypes.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError
from gtensor.types import STORED, finfo_of
from tests.op_table import same_bits, special

dtypes = pytest.mark.parametrize("dtype", STORED, ids=str)


def draw(dtype, *shape, seed=0, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(dtype.dtype)


def wide(x):
    return np.asarray(x).astype(np.float32)


def agreed(fn, *arrays):
    """The results of a function, evaluated and compiled, which must have equal bits."""
    eager, compiled = fn(*map(gt.tensor, arrays)), gt.compile(fn)(*arrays)
    for a, b in zip(eager, compiled, strict=True):
        assert same_bits(a.numpy(), b.numpy()), (a, b)
    return [a.numpy() for a in eager]


def steps(found, wanted):
    """How many values of the dtype lie between, at most."""
    unsigned = [np.asarray(x).view(np.uint16).astype(np.int64) for x in (found, wanted)]
    ordered = [np.where(u & 0x8000, -(u & 0x7FFF), u) for u in unsigned]
    return int(np.abs(ordered[0] - ordered[1]).max(initial=0))


# ---- one operation -----------------------------------------------------------------------------------------

OPERATIONS = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.copysign]


@dtypes
def test_an_operation_is_that_of_float32_rounded(dtype):
    a, b = (x.ravel() for x in np.meshgrid(special(dtype), special(dtype)))
    names = [f.__name__ for f in OPERATIONS]
    found = agreed(lambda a, b: [*(getattr(gt, n)(a, b) for n in names), -a, abs(a), gt.sqrt(a), gt.floor(a)], a, b)
    with np.errstate(all="ignore"):
        x, y = wide(a), wide(b)
        wanted = [*(f(x, y) for f in OPERATIONS), -x, abs(x), np.sqrt(x), np.floor(x)]
        assert all(same_bits(f, w.astype(dtype.dtype)) for f, w in zip(found, wanted, strict=True))
        tests = agreed(lambda a, b: [a < b, a == b, gt.isnan(a), gt.isfinite(b), gt.argmax(a), gt.sign(a)], a, b)
        assert same_bits(tests[0], x < y) and same_bits(tests[1], x == y) and same_bits(tests[3], np.isfinite(y))


@dtypes
def test_each_operation_of_a_chain_is_rounded(dtype):
    """1 + eps/2 is 1 again before it is multiplied; kept in float32 it would not be."""
    eps = float(finfo_of(dtype).eps)
    x = np.full(37, 1, dtype.dtype)
    (found,) = agreed(lambda x: [(x + eps / 2 - x) * 1000], x)
    assert not wide(found).any()


@dtypes
def test_operands_meet(dtype):
    x = gt.ones(3, dtype)
    other = STORED[1 - STORED.index(dtype)]
    for y, wanted in (
        (gt.ones(3, dtype), dtype),
        (gt.ones(3), gt.float32),
        (gt.ones(3, gt.float64), gt.float64),
        (gt.ones(3, other), gt.float32),
        (gt.arange(3), dtype),
        (gt.ones(3, gt.bool_), dtype),
        (np.float32(1.0), gt.float32),
        (0.1, dtype),
        (3, dtype),
    ):
        assert (x + y).dtype is (y + x).dtype is gt.result_type(x, y) is wanted
        assert gt.compile(lambda x, y: x * y)(x, y).dtype is wanted if isinstance(y, gt.Tensor) else True
    assert gt.can_cast(dtype, gt.float32) and not gt.can_cast(gt.float32, dtype)
    assert gt.isdtype(dtype, "real floating") and not gt.isdtype(dtype, "integral")
    assert dtype.name not in gt.__array_namespace_info__().dtypes()


@dtypes
def test_limits(dtype):
    info = gt.finfo(dtype)
    assert (info.bits, info.dtype) == (16, dtype)
    one, top = gt.tensor([1.0], dtype=dtype), gt.tensor([info.max], dtype=dtype)
    (after, before, overflow) = agreed(
        lambda x, y: [gt.nextafter(x, y), gt.nextafter(y, x), y + y], one.numpy(), top.numpy()
    )
    assert float(after[0]) == 1 + info.eps and np.isinf(wide(overflow))[0] and float(before[0]) < info.max
    assert gt.tensor([info.smallest_normal], dtype=dtype).item() == info.smallest_normal


# ---- sums and products: one rounding -----------------------------------------------------------------------


@dtypes
def test_sums_run_in_float32(dtype):
    """Of many small terms each would be lost in the dtype's own sum."""
    x = np.full((3, 5000), 0.1, dtype.dtype)
    total = float(x[0, 0].astype(np.float64)) * 5000
    for found in agreed(lambda x: [gt.sum(x, axis=1), x @ gt.ones((5000,), dtype), gt.mean(x, axis=1) * 5000], x):
        assert steps(found, np.full(3, total).astype(dtype.dtype)) <= 1
    mean = agreed(lambda x: [gt.mean(x), gt.cumsum(x, axis=1)[:, -1]], np.full((2, 4000), 40000, dtype.dtype))[0]
    assert float(mean) == float(np.asarray(40000.0).astype(dtype.dtype)), "the sum is beyond float16"


@dtypes
def test_products_run_in_float32(dtype):
    a, b = draw(dtype, 33, 300), draw(dtype, 300, 17, seed=1)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype.dtype)
    product = gt.compile(lambda a, b: a @ b)(a, b)
    assert product.dtype is dtype
    assert steps(product.numpy(), exact) <= 1 and steps((gt.tensor(a) @ gt.tensor(b)).numpy(), exact) <= 1


FUNCTIONS = {
    "softmax": gt.softmax, "log_softmax": gt.log_softmax, "logsumexp": gt.logsumexp, "mean": gt.mean, "var": gt.var,
    "std": gt.std, "norm": gt.norm, "layer_norm": gt.nn.layer_norm, "rms_norm": lambda x: gt.nn.rms_norm(x, eps=1e-5),
    "gelu": gt.gelu, "silu": gt.silu, "softplus": gt.softplus, "tanh": gt.tanh, "exp": gt.exp, "median": gt.median,
    "mse_loss": lambda x: gt.nn.mse_loss(x, x * 0), "mish": gt.nn.mish, "group_norm": lambda x: gt.nn.group_norm(x, 2),
    "attention": lambda x: gt.nn.scaled_dot_product_attention(x, x, x),
    "cross_entropy": lambda x: gt.nn.cross_entropy(x, np.arange(4)),
    "conv1d": lambda x: gt.nn.conv1d(x[None], gt.ones((2, 4, 3), x.dtype)),
}  # fmt: skip


@dtypes
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_several_operations_are_rounded_once(name, dtype):
    fn = FUNCTIONS[name]
    for scale in (1, 40):
        x = draw(dtype, 4, 6, scale=scale)
        for call in (fn, gt.compile(fn)):
            found, wanted = call(gt.tensor(x)), call(gt.tensor(wide(x)))
            assert found.dtype is dtype and wanted.dtype is gt.float32
            with np.errstate(over="ignore"):
                assert steps(found.numpy(), wanted.numpy().astype(dtype.dtype)) <= 1


# ---- derivatives -------------------------------------------------------------------------------------------


def model(w, b, x, y):
    h = gt.tanh(x @ w + b)
    return gt.nn.mse_loss(gt.sum(h, axis=1), y)


@dtypes
def test_gradients_have_the_dtype_and_the_values(dtype):
    arrays = [draw(dtype, 7, 5, seed=1), draw(dtype, 5, seed=2), draw(dtype, 9, 7, seed=3), draw(dtype, 9, seed=4)]
    gradient = gt.grad(model, (0, 1, 2))
    eager = gradient(*arrays)
    compiled = gt.compile(gradient)(*arrays)
    wanted = gradient(*map(wide, arrays))
    for e, c, w in zip(eager, compiled, wanted, strict=True):
        assert e.dtype is c.dtype is dtype
        size = float(np.abs(w.numpy()).max())
        for found in (e, c):
            np.testing.assert_allclose(wide(found), w.numpy(), rtol=0, atol=8 * size * float(finfo_of(dtype).eps))


@dtypes
def test_derivatives_of_higher_order_batches_and_loops(dtype):
    x = draw(dtype, 5)

    def second(x):
        return [gt.grad(lambda x: gt.sum(gt.grad(lambda x: gt.sum(x**3))(x) ** 2))(x)]

    (found,) = agreed(second, x)
    np.testing.assert_allclose(wide(found), 36 * wide(x) ** 3, rtol=5 * float(finfo_of(dtype).eps), atol=1e-3)
    xs = draw(dtype, 4, 5, seed=5)
    (batched,) = agreed(lambda xs: [gt.vmap(gt.grad(lambda x: gt.sum(gt.sin(x) * x)))(xs)], xs)
    rows = [gt.grad(lambda x: gt.sum(gt.sin(x) * x))(gt.tensor(row)).numpy() for row in xs]
    np.testing.assert_allclose(wide(batched), wide(np.stack(rows)), atol=8 * float(finfo_of(dtype).eps))

    def loop(x):
        h, hs = gt.scan(lambda h, x: (gt.sin(h + x), h), gt.zeros((5,), dtype), x)
        return gt.sum(h) + gt.sum(hs)

    found, compiled = gt.grad(loop)(xs), gt.compile(gt.grad(loop))(xs)
    assert found.dtype is compiled.dtype is dtype
    for got in (found, compiled):
        np.testing.assert_allclose(wide(got), gt.grad(loop_wide)(wide(xs)), atol=20 * float(finfo_of(dtype).eps))


def loop_wide(x):
    h, hs = gt.scan(lambda h, x: (gt.sin(h + x), h), gt.zeros((5,)), x)
    return gt.sum(h) + gt.sum(hs)


@dtypes
def test_masked_gradients_stay_zero(dtype):
    x = np.array([2.0, 0.0, -1.0], dtype.dtype)
    (found,) = agreed(lambda x: [gt.grad(lambda x: gt.sum(gt.where(x > 0, gt.log(x), 0.0)))(x)], x)
    assert found.astype(np.float32).tolist() == [0.5, 0, 0]


# ---- parameters, state, random numbers ---------------------------------------------------------------------


@dtypes
def test_a_model_is_trained(dtype):
    x, w = draw(dtype, 64, 4), np.array([1.0, -2.0, 0.5, 3.0], dtype.dtype)
    y = (wide(x) @ wide(w)).astype(dtype.dtype)

    def loss_fn(params, x, y):
        return gt.nn.mse_loss(x @ params["w"], y)

    step = gt.TrainStep(
        loss_fn, {"w": np.zeros(4, dtype.dtype)}, gt.optim.sgd(0.1), gt.spec((64, 4), dtype), gt.spec(64, dtype)
    )
    losses = [step(x, y) for _ in range(60)]
    assert losses[-1] < 1e-2 < losses[0]
    held = step.params["w"]
    assert held.dtype == dtype.dtype and np.abs(wide(held) - wide(w)).max() < 0.1


@dtypes
def test_every_length_of_a_row(dtype):
    """Whole vectors and parts of them; what lies behind is left alone."""
    for n in (1, 3, 8, 15, 16, 17, 64, 65):
        x = draw(dtype, 3, n)
        agreed(
            lambda x: [gt.sin(x) * x + 1, gt.where(x > 0, x, -x), x[:, ::-1] + x, gt.sum(gt.sin(x) * 0 + x, axis=0)], x
        )


@dtypes
def test_random_numbers(dtype):
    key = gt.random.key(3)
    for name in ("uniform", "normal", "exponential", "gumbel", "laplace"):
        draw_one = getattr(gt.random, name)
        x = draw_one(key, (2000,), dtype)
        assert (
            x.dtype is dtype
            and steps(gt.compile(lambda k, f=draw_one: f(k, (2000,), dtype))(key).numpy(), x.numpy()) <= 1
        )
    x = wide(gt.random.uniform(key, (20000,), dtype))
    assert x.min() == 0 and x.max() < 1 and abs(x.mean() - 0.5) < 0.01


@dtypes
def test_values_come_and_go(dtype):
    x = gt.tensor([0.5, 1.0, -3.0], dtype=dtype)
    assert x.tolist() == [0.5, 1.0, -3.0] and x[0].item() == 0.5 and f"dtype={dtype.name}" in repr(x)
    assert gt.asarray(x.numpy()).dtype is dtype and gt.asarray([1.5], dtype=dtype.name).dtype is dtype
    assert same_bits(gt.tensor(np.array([1.5, 2.5]), dtype=dtype).numpy(), np.array([1.5, 2.5]).astype(dtype.dtype))
    assert gt.full(3, 0.1, dtype=dtype).dtype is gt.linspace(0, 1, 5, dtype=dtype).dtype is dtype
    assert gt.compile(lambda: gt.arange(5, dtype=dtype))().tolist() == [0, 1, 2, 3, 4]


def test_bfloat16_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(gt.bfloat16.__dict__, "dtype", raising=False)
    with pytest.raises(DTypeError, match=r"bfloat16 needs the package ml_dtypes\n.*\n.*pip install gtensor\[bf16\]"):
        gt.ones(3, gt.bfloat16)
    assert gt.result_type(gt.bfloat16, gt.float16) is gt.float32

"""What the project grew from, requirement by requirement: A1, A4, A6, A7, A9 and B1–B9 of the two first texts.

Each test is named by its row and runs eagerly and compiled. Right values are differences, closed forms and
NumPy in float64.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import ShapeError
from gtensor.fuse import fuse
from gtensor.passes import simplify
from gtensor.prim import REGISTRY

WAYS = {"eager": lambda f: f, "compiled": gt.compile}


@pytest.fixture(params=WAYS)
def way(request):
    """Makes a function run eagerly, or compiled."""
    return WAYS[request.param]


def normal(seed, *shape, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got, wanted, rtol=1e-6, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=rtol, atol=atol)


def exactly(got, wanted):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


def slopes(f, args, which, step=1e-6):
    """The gradient of a scalar NumPy function with respect to one argument by central differences."""
    out = np.zeros_like(args[which])
    for i in np.ndindex(out.shape):
        moved = [[a.copy() for a in args] for _ in range(2)]
        moved[0][which][i] += step
        moved[1][which][i] -= step
        out[i] = (f(*moved[0]) - f(*moved[1])) / (2 * step)
    return out


def worst(got, wanted):
    """The largest error relative to the largest element."""
    return np.abs(np.asarray(got) - wanted).max() / np.abs(wanted).max()


# ---- A: the tape-autograd crate --------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gated(z, m, c, xp):
    """(1 - z) m + z c with z a sigmoid and c a tanh."""
    gate = xp.sigmoid(z) if xp is gt else sigmoid(z)
    return (1 - gate) * m + gate * xp.tanh(c)


COMPOSITES = {
    "tanh": (lambda x, xp: xp.tanh(x), 1),
    "sigmoid": (lambda x, xp: xp.sigmoid(x) if xp is gt else sigmoid(x), 1),
    "gated": (gated, 3),
}


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.parametrize("dtype, bound", [("float64", 1e-6), ("float32", 1e-3)])
def test_A1_derivatives_of_the_gate_equal_differences(name, dtype, bound, way):
    f, count = COMPOSITES[name]
    args = [normal(i, 4, 5) for i in range(count)]
    weights = normal(9, 4, 5)

    def loss(*args):
        return gt.sum(f(*args, gt) * weights.astype(dtype))

    got = way(gt.grad(loss, tuple(range(count))))(*(a.astype(dtype) for a in args))
    for i, g in enumerate(got):
        assert g.dtype.name == dtype
        wanted = slopes(lambda *args: (f(*args, np) * weights).sum(), args, i)
        assert worst(g, wanted) < bound


def test_A4_a_two_layer_perceptron_trains_end_to_end(way):
    """The first text reports a loss from 8.65 to 0.39; ours falls by that ratio at least."""
    x = normal(0, 64, 4, dtype=np.float32)
    y = np.stack([3 * np.sin(x[:, 0]) + x[:, 1] ** 2, 2 * x[:, 2] * x[:, 3] - 1], axis=1)
    params = {
        "w1": normal(1, 4, 32, dtype=np.float32) / 2, "b1": np.zeros(32, np.float32),
        "w2": normal(2, 32, 2, dtype=np.float32) / 6, "b2": np.zeros(2, np.float32),
    }  # fmt: skip

    def loss(p, x, y):
        hidden = gt.gelu(x @ p["w1"] + p["b1"])
        return gt.nn.mse_loss(hidden @ p["w2"] + p["b2"], y)

    optimizer = gt.optim.sgd(0.1)
    state = optimizer.init(params)

    def step(params, state, x, y):
        value, grads = gt.value_and_grad(loss)(params, x, y)
        params, state = optimizer.update(params, grads, state)
        return params, state, value

    step = way(step)
    losses = []
    for _ in range(300):
        params, state, value = step(params, state, x, y)
        losses.append(value.item())
    assert losses[-1] < losses[0] * 0.39 / 8.65
    assert max(losses[1:]) < losses[0]


def test_A6_gradients_of_all_uses_are_summed(way):
    x = np.array([1.0, -2.0, 3.0], np.float32)
    gradient = lambda f: way(gt.grad(lambda x: gt.sum(f(x))))(x)  # noqa: E731
    exactly(gradient(lambda s: gt.multiply(s, s)), 2 * x)
    exactly(gradient(lambda s: s + s), [2, 2, 2])
    exactly(gradient(lambda s: s - s), [0, 0, 0])
    exactly(gradient(lambda s: s * s * s + 2 * s), 3 * x * x + 2)
    exactly(gradient(lambda s: s + gt.relu(s)), [2, 1, 2])
    exactly(gradient(lambda s: gt.where(s > 0, s, s * s) + s), [2, -3, 2])

    def residual(s):
        for _ in range(3):
            s = s + s * 2
        return s

    exactly(gradient(residual), [27, 27, 27])


def attention(e, q, k, v, out):
    """A set encoder's layer, its embedding used four times: for Q, K, V and the residual."""
    scores = gt.softmax((q @ gt.matrix_transpose(k)) / math.sqrt(q.shape[-1]))
    return gt.sum((e + scores @ v) * out)


def test_A6_an_embedding_shared_by_q_k_v_and_the_residual(way):
    e, wq, wk, wv, out = (normal(i, *s) for i, s in enumerate([(6, 4), (4, 4), (4, 4), (4, 4), (6, 4)]))

    def shared(e):
        return attention(e, e @ wq, e @ wk, e @ wv, out)

    def apart(residual, q, k, v):
        return attention(residual, q @ wq, k @ wk, v @ wv, out)

    parts = way(gt.grad(apart, (0, 1, 2, 3)))(e, e, e, e)
    total = way(gt.grad(shared))(e)
    assert min(np.abs(p).max() for p in map(np.asarray, parts)) > 0.01
    close(total, sum(map(np.asarray, parts)), rtol=1e-12, atol=1e-14)
    wanted = slopes(lambda e: shared(gt.tensor(e)).item(), [e], 0)
    assert worst(total, wanted) < 1e-6


RANKS = [(axis, shape) for shape in [(5,), (3, 4), (2, 3, 4), (2, 2, 3, 2)] for axis in range(-len(shape), len(shape))]


@pytest.mark.parametrize("axis, shape", RANKS)
def test_A7_softmax_gradients_on_every_axis_and_rank(axis, shape, way):
    x, weights = normal(0, *shape), normal(1, *shape)

    def reference(x):
        e = np.exp(x - x.max(axis, keepdims=True))
        return (e / e.sum(axis, keepdims=True) * weights).sum()

    got = way(gt.grad(lambda x: gt.sum(gt.softmax(x, axis) * weights)))(x)
    assert worst(got, slopes(reference, [x], 0)) < 1e-6


# ---- B: the CPU-first tensor library ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 1, 3, 2), (1, 2, 1, 2, 1, 2)])
def test_B1_tensors_of_every_rank_and_dtype(shape, dtype, way):
    data = (normal(len(shape), *shape) * 10).astype(dtype)
    x = gt.tensor(data)
    assert (x.shape, x.ndim, x.size, x.dtype.name) == (shape, len(shape), data.size, dtype)
    got = way(lambda x: x * 2 + x)(x)
    assert got.dtype.name == dtype
    exactly(got, data * 2 + data)
    exactly(x.tolist(), data.tolist())


CREATION = {
    "data": (lambda: gt.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1, 2], [3, 4]], "float32"),
    "integers": (lambda: gt.tensor([1, 2]), [1, 2], "int64"),
    "zeros": (lambda: gt.zeros((2, 3)), np.zeros((2, 3)), "float32"),
    "ones": (lambda: gt.ones(3, dtype="int64"), [1, 1, 1], "int64"),
    "full": (lambda: gt.full((2, 2), 7.5), np.full((2, 2), 7.5), "float32"),
    "arange": (lambda: gt.arange(1, 10, 3), [1, 4, 7], "int64"),
    "arange of floats": (lambda: gt.arange(0.0, 1.0, 0.25), [0, 0.25, 0.5, 0.75], "float32"),
    "linspace": (lambda: gt.linspace(-1.0, 1.0, 5, dtype="float64"), [-1, -0.5, 0, 0.5, 1], "float64"),
    "eye": (lambda: gt.eye(2, 3, k=1), [[0, 1, 0], [0, 0, 1]], "float32"),
    "randn": (lambda: gt.randn(2, 3, seed=4), normal(4, 2, 3).astype(np.float32), "float32"),
}


@pytest.mark.parametrize("name", CREATION)
def test_B2_construction(name, way):
    make, wanted, dtype = CREATION[name]
    got = way(make)()
    assert got.dtype.name == dtype
    exactly(got, wanted)


def test_B2_randn_follows_its_seed():
    exactly(gt.randn(5, seed=1), gt.randn(5, seed=1))
    assert (gt.randn(5, seed=1) != gt.randn(5, seed=2)).all()
    many = gt.randn(20000, seed=0).numpy()
    assert abs(many.mean()) < 0.03
    assert abs(many.std() - 1) < 0.03


VIEWS = {
    "reshape": (lambda x: x.reshape(4, 6), lambda x: x.reshape(4, 6)),
    "view": (lambda x: x.view(-1, 2), lambda x: x.reshape(-1, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "transpose": (lambda x: x.T, lambda x: x.T),
    "slice": (lambda x: x.slice(1, 1, 3), lambda x: x[:, 1:3]),
    "slices": (lambda x: x[:, ::-2, 1:], lambda x: x[:, ::-2, 1:]),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda x: x[0]),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: x[:, None]),
    "flatten": (lambda x: x.flatten(), lambda x: x.ravel()),
    "flatten from": (lambda x: x.flatten(1), lambda x: x.reshape(2, 12)),
    "cast": (lambda x: x.cast("int64"), lambda x: x.astype(np.int64)),
    "broadcast_to": (lambda x: x[:, :1].broadcast_to(2, 5, 4), lambda x: np.broadcast_to(x[:, :1], (2, 5, 4))),
}


@pytest.mark.parametrize("name", VIEWS)
def test_B3_views(name, way):
    f, reference = VIEWS[name]
    x = normal(3, 2, 3, 4, dtype=np.float32) * 5
    got = way(f)(x if way is gt.compile else gt.tensor(x))
    wanted = reference(x)
    assert (got.shape, got.numpy().dtype) == (wanted.shape, wanted.dtype)
    exactly(got, wanted)


def erf(x):
    return np.vectorize(math.erf)(x)


ELEMENTWISE = {
    "add": (lambda a, b: a.add(b), lambda a, b: a + b),
    "sub": (lambda a, b: a.sub(b), lambda a, b: a - b),
    "mul": (lambda a, b: a.mul(b), lambda a, b: a * b),
    "div": (lambda a, b: a.div(b), lambda a, b: a / b),
    "exp": (lambda a, b: a.exp(), lambda a, b: np.exp(a)),
    "log": (lambda a, b: b.log(), lambda a, b: np.log(b)),
    "sqrt": (lambda a, b: b.sqrt(), lambda a, b: np.sqrt(b)),
    "abs": (lambda a, b: a.abs(), lambda a, b: np.abs(a)),
    "relu": (lambda a, b: a.relu(), lambda a, b: np.maximum(a, 0)),
    "leaky_relu": (lambda a, b: a.leaky_relu(0.1), lambda a, b: np.where(a > 0, a, 0.1 * a)),
    "gelu": (lambda a, b: a.gelu(), lambda a, b: 0.5 * a * (1 + erf(a / math.sqrt(2)))),
    "gelu tanh": (
        lambda a, b: a.gelu("tanh"),
        lambda a, b: 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))),
    ),
    "silu": (lambda a, b: a.silu(), lambda a, b: a * sigmoid(a)),
    "sigmoid": (lambda a, b: a.sigmoid(), lambda a, b: sigmoid(a)),
    "tanh": (lambda a, b: a.tanh(), lambda a, b: np.tanh(a)),
    "softplus": (lambda a, b: a.softplus(), lambda a, b: np.log1p(np.exp(a))),
    "clamp": (lambda a, b: a.clamp(-0.5, 0.5), lambda a, b: np.clip(a, -0.5, 0.5)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_B4_elementwise_with_derivatives(name, way):
    f, reference = ELEMENTWISE[name]
    a = normal(1, 5, 3)
    b = np.abs(normal(2, 5, 3)) + 0.2

    def both(a, b):
        value = f(gt.asarray(a), gt.asarray(b))
        return gt.sum(value), value

    (_, value), grads = way(gt.value_and_grad(both, (0, 1), has_aux=True))(a, b)
    close(value, reference(a, b), rtol=1e-12, atol=1e-12)
    for i, got in enumerate(grads):
        close(got, slopes(lambda a, b: reference(a, b).sum(), [a, b], i), rtol=1e-6, atol=1e-8)
    narrow = way(f)(*map(gt.tensor, (a.astype(np.float32), b.astype(np.float32))))
    assert narrow.dtype == gt.float32
    close(narrow, reference(a.astype(np.float32).astype(float), b.astype(np.float32).astype(float)), rtol=1e-6)


def test_B5_reductions(way):
    x = normal(0, 3, 4, 5)
    places = [(axis, keepdims) for axis in (None, 0, -1, (0, 2)) for keepdims in (False, True)]

    def reductions(x):
        return [(x.sum(*place), x.mean(*place), x.amax(*place)) for place in places]

    for (axis, keepdims), (total, mean, largest) in zip(places, way(reductions)(gt.tensor(x)), strict=True):
        close(total, x.sum(axis, keepdims=keepdims), rtol=1e-12)
        close(mean, x.mean(axis, keepdims=keepdims), rtol=1e-12)
        exactly(largest, x.max(axis, keepdims=keepdims))


def test_B5_amax_of_nothing_is_an_error(way):
    for make in (lambda x: gt.amax(x), lambda x: x.amax(axis=1)):
        with pytest.raises(ShapeError, match="empty"):
            way(make)(gt.zeros((3, 0)))
        with pytest.raises(ValueError, match="empty"):
            way(make)(gt.zeros((3, 0)))


def test_B5_matmul_and_linear(way):
    x, w, b = normal(0, 2, 3, 4), normal(1, 4, 5), normal(2, 5)
    close(way(lambda x, w: x.matmul(w))(gt.tensor(x), w), x @ w, rtol=1e-12)
    close(way(gt.nn.linear)(x, w, b), x @ w + b, rtol=1e-12)
    dx, dw, db = way(gt.grad(lambda x, w, b: gt.sum(gt.nn.linear(x, w, b) ** 2), (0, 1, 2)))(x, w, b)
    g = 2 * (x @ w + b)
    close(dx, g @ w.T, rtol=1e-12)
    close(dw, x.reshape(6, 4).T @ g.reshape(6, 5), rtol=1e-12)
    close(db, g.sum((0, 1)), rtol=1e-12)


def test_B5_gather_and_scatter_add(way):
    x, v = normal(0, 3, 4), normal(1, 3, 2)
    index = np.array([[3, 3], [0, 1], [-1, 2]])
    exactly(way(lambda x, i: gt.gather(x, 1, i))(x, index), np.take_along_axis(x, index % 4, 1))
    wanted = x.copy()
    np.add.at(wanted, (np.arange(3)[:, None], index), v)
    close(way(lambda x, i, v: gt.scatter_add(x, 1, i, v))(x, index, v), wanted, rtol=1e-15)
    dx, dv = way(gt.grad(lambda x, i, v: gt.sum(gt.scatter_add(x, 1, i, v) * x), (0, 2)))(x, index, v)
    close(dx, x + wanted, rtol=1e-12)
    exactly(dv, np.take_along_axis(x, index % 4, 1))
    counts = way(gt.grad(lambda x, i: gt.sum(gt.gather(x, 1, i))))(x, index)
    exactly(counts, [[0, 0, 0, 2], [1, 1, 0, 0], [0, 0, 1, 1]])
    with pytest.raises(IndexError):
        way(lambda x, i: gt.gather(x, 1, i))(x, index + 2)


def test_B5_cat_and_stack(way):
    a, b = normal(0, 2, 3), normal(1, 2, 3)
    exactly(way(lambda a, b: gt.cat([a, b], axis=1))(a, b), np.concatenate([a, b], 1))
    exactly(way(lambda a, b: gt.stack([a, b], axis=1))(a, b), np.stack([a, b], 1))
    da, db = way(gt.grad(lambda a, b: gt.sum(gt.cat([a, b, a]) * np.arange(6.0)[:, None]), (0, 1)))(a, b)
    exactly(da, [[4] * 3, [6] * 3])
    exactly(db, [[2] * 3, [3] * 3])


def log_softmax(z):
    z = z - z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def test_B6_softmax_losses_and_layers(way):
    z, y, w = normal(0, 4, 3), np.array([2, 0, 1, 1]), normal(1, 5, 3)
    logp = log_softmax(z)
    close(way(gt.softmax)(z), np.exp(logp), rtol=1e-12)
    close(way(gt.log_softmax)(z), logp, rtol=1e-12)
    picked = -logp[np.arange(4), y]
    targets = normal(2, 4, 3)
    modes = {"none": lambda loss: loss, "mean": np.mean, "sum": np.sum}

    def losses(z, y, targets, logp):
        mse = [gt.nn.mse_loss(z, targets, mode) for mode in modes]
        nll = [gt.nn.nll_loss(logp, y, reduction=mode) for mode in modes]
        return mse, nll, [gt.nn.cross_entropy(z, y, reduction=mode) for mode in modes]

    wanted = [(z - targets) ** 2, picked, picked]
    for rows, losses_of in zip(wanted, way(losses)(z, y, targets, logp), strict=True):
        for reduce, loss in zip(modes.values(), losses_of, strict=True):
            close(loss, reduce(rows), rtol=1e-12)
    centred = z - z.mean(1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    close(way(gt.nn.layer_norm)(z, w[0], w[1]), scaled * w[0] + w[1], rtol=1e-12)
    exactly(way(gt.nn.embedding)(y, w), w[y])
    dz = way(gt.grad(gt.nn.cross_entropy))(z, y)
    close(dz, (np.exp(logp) - np.eye(3)[y]) / 4, rtol=1e-12)


def test_B7_grad_of_a_tensor_never_accumulates():
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    v = gt.tensor([3.0, 4.0], requires_grad=True)
    for _ in range(2):
        dw, dv = gt.grad(gt.sum(w * w * v), [w, v])
        exactly(dw, [6, 16])
        exactly(dv, [1, 4])
    assert w.grad is None
    assert v.grad is None


def test_B7_grad_of_a_tensor_compiles(way):
    def slopes(w, v):
        w, v = gt.asarray(w), gt.asarray(v)
        return gt.grad(gt.sum(w * w * v), [w, v])

    w, v = (gt.tensor(a, requires_grad=True) for a in ([1.0, 2.0], [3.0, 4.0]))
    if way is gt.compile:
        w, v = w.detach(), v.detach()
    dw, dv = way(slopes)(w, v)
    exactly(dw, [6, 16])
    exactly(dv, [1, 4])


def test_B7_backward_accumulates_until_zero_grad():
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    gt.sum(w * w).backward()
    exactly(w.grad, [2, 4])
    gt.sum(w * 3).backward()
    exactly(w.grad, [5, 7])
    w.zero_grad()
    assert w.grad is None
    gt.sum(w).backward()
    exactly(w.grad, [1, 1])
    with pytest.raises(TypeError, match="scalar"):
        (w * w).backward()


@pytest.mark.parametrize("cut", [gt.stop_gradient, lambda x: x.detach()])
def test_B7_stop_gradient_and_detach_cut(cut, way):
    x = np.array([2.0, -3.0])
    exactly(way(gt.grad(lambda x: gt.sum(x * cut(gt.asarray(x)))))(x), x)
    exactly(way(gt.grad(lambda x: gt.sum(cut(gt.asarray(x)) ** 2)))(x), [0, 0])
    exactly(way(gt.grad(lambda x: gt.sum(gt.grad(lambda x: gt.sum(x * x * cut(gt.asarray(x))))(x))))(x), 2 * x)


def adamw(p, grads, lr, decay, b1=0.9, b2=0.999, eps=1e-8):
    """Algorithm 2 of Loshchilov and Hutter in float64."""
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        p = p * (1 - lr * decay)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return p


def test_B8_sgd_and_adamw(way):
    p, grads = normal(0, 3, 2), [normal(i, 3, 2) for i in range(1, 6)]
    momentum = p.copy()
    buffer = 0.0
    for g in grads:
        buffer = 0.9 * buffer + g
        momentum = momentum - 0.1 * buffer
    cases = [
        (gt.optim.sgd(0.1), p - 0.1 * sum(grads)),
        (gt.optim.sgd(0.1, momentum=0.9), momentum),
        (gt.optim.adamw(0.1, weight_decay=0.2), adamw(p, grads, 0.1, 0.2)),
    ]
    for optimizer, wanted in cases:
        for dtype, bound in (("float64", 1e-12), ("float32", 1e-6)):
            update = way(optimizer.update)
            got = {"w": p.astype(dtype)}
            state = optimizer.init(got)
            for g in grads:
                got, state = update(got, {"w": g.astype(dtype)}, state)
            assert got["w"].dtype.name == dtype
            assert worst(got["w"], wanted) < bound


def test_A9_compiled_gradients_come_from_the_c_and_not_from_the_evaluator(monkeypatch):
    def never(*args, **params):
        raise AssertionError("the evaluator ran")

    x = normal(0, 5)
    for name in ("tanh", "mul", "sub", "sum"):
        monkeypatch.setitem(REGISTRY, name, replace(REGISTRY[name], numpy=never))
    got = gt.compile(gt.grad(lambda x: gt.sum(gt.tanh(x) * x)))(x)
    close(got, np.tanh(x) + x * (1 - np.tanh(x) ** 2), rtol=1e-12, atol=1e-12)


def relaxed(w, pre, x, steps):
    """Inference of predictive coding: the activity moves towards its prediction, whose weights are cut."""
    for _ in range(steps):
        x = x - 0.2 * (x - gt.tanh(pre @ gt.stop_gradient(w)))
    return x


def energy(w, pre, x, steps):
    """The local energy of the settled activity, which is cut from how it settled."""
    error = gt.stop_gradient(relaxed(w, pre, x, steps)) - gt.tanh(pre @ w)
    return 0.5 * gt.sum(error * error)


@pytest.mark.parametrize("steps", [4, 12])
def test_B9_the_weight_gradient_is_that_of_the_local_energy_alone(way, steps):
    w, pre, x = normal(0, 3, 4), normal(1, 5, 3), normal(2, 5, 4)
    mu = np.tanh(pre @ w)
    settled = mu + (x - mu) * 0.8**steps
    wanted = pre.T @ ((mu - settled) * (1 - mu * mu))
    got = way(gt.grad(lambda w: energy(w, pre, x, steps)))(w)
    assert worst(got, wanted) < 1e-12
    exactly(way(gt.grad(lambda w: gt.sum(relaxed(w, pre, x, steps))))(w), np.zeros_like(w))


def test_B9_no_backward_code_for_the_relaxation():
    args = gt.spec((3, 4)), gt.spec((5, 3)), gt.spec((5, 4))

    def size(fn, steps):
        graph = simplify(gt.trace(lambda *a: fn(*a, steps), *args))
        return len(graph.eqns), len(fuse(graph).groups)

    for steps in (4, 12):
        (forward, _), (both, kernels) = size(energy, steps), size(gt.value_and_grad(energy), steps)
        if steps == 4:
            extra, few = both - forward, kernels
    assert both - forward == extra and kernels == few
    every = gt.compile(lambda *a: gt.value_and_grad(energy)(*a, 12)).trace(*args).lower().compile().c_source
    assert every.count("gt_tanh_") == 1

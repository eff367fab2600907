"""Large programs: deep graphs (B10), large intermediates on small stacks (B12), the size of the generated C (B13)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gtensor as gt

from .processes import run

# ---- B10 --------------------------------------------------------------------------------------------------

DEEP = """
import gc, sys
import numpy as np
import gtensor as gt
assert sys.getrecursionlimit() == 1000

def f(x):
    y = x
    for _ in range(20000):
        y = y * 1.0001 + 0.0001
    return y

x, value, slope = np.float32(1.0), 2 * 1.0001**20000 - 1, 1.0001**20000

def near(tensor, expected):
    assert abs(float(tensor) - expected) < 1e-3 * expected, (tensor, expected)

"""

DEEP_STEPS = {
    "compiled": """
step = gt.compile(f)
near(step(x), value)
graph = step.graph
assert len(graph.eqns) == 40000
assert len(repr(graph)) > 1_000_000 and len(str(graph).splitlines()) == 40002
assert len(step.compiled.lowered.schedule.groups) >= 80
del graph, step
""",
    "differentiated": """
near(gt.compile(gt.grad(f))(x), slope)
""",
    "recorded": """
leaf = gt.tensor(x, requires_grad=True)
y = f(leaf)
near(y, value)
y.backward()
near(leaf.grad, slope)
del leaf, y
""",
}


@pytest.mark.parametrize("what", DEEP_STEPS)
def test_B10_twenty_thousand_operations_in_a_chain(what, tmp_path):
    """Walking a deep graph by recursion ends in RecursionError while it is sorted, differentiated or printed, or in a
    crash of the process when it is freed. All of it works at Python's default recursion limit; kernels stay small, so
    that the C compiler takes them.
    """
    assert run(f"{DEEP}{DEEP_STEPS[what]}\ngc.collect()\nprint('freed')", GT_CACHE=tmp_path) == "freed\n"


CHAINS = """
import gc, sys
import numpy as np
import gtensor as gt
w, order = np.array([[0.6, -0.8], [0.8, 0.6]], np.float32), np.array([3, 1, 0, 2])

chains = {
    "rows": (lambda y, x: y * 0.5 + x, (7,)),
    "products": (lambda y, x: y @ w, (3, 2)),
    "reductions": (lambda y, x: y - gt.mean(y * x), (5,)),
    "views": (lambda y, x: gt.flip(y.T, axis=0) * x, (3, 3)),
    "selects": (lambda y, x: gt.where(y > x, y, x - y), (4,)),
    "joined": (lambda y, x: gt.concat([y[1:] * x[1:], y[:1]]), (4,)),
    "indexed": (lambda y, x: gt.take(y, order, axis=0), (4,)),
    "scattered": (lambda y, x: gt.scatter_add(x, 0, order, y), (4,)),
    "views alone": (lambda y, x: gt.reshape(gt.expand_dims(y, 0), (4,)), (4,)),
    "walls": (lambda y, x: x + gt.stop_gradient(y), (4,)),
}

def chained(body):
    def f(x):
        y = x
        for _ in range(150):
            y = body(y, x)
        return gt.sum(y)
    return f

gt.compile(gt.value_and_grad(lambda x: gt.sum(x @ w)))(np.ones((2, 2), np.float32))
sys.setrecursionlimit(130)
for name, (body, shape) in chains.items():
    try:
        x = np.linspace(0.1, 0.9, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        f = gt.value_and_grad(chained(body))
        lowered = gt.compile(f).lower(x)
        texts = [lowered.as_text(stage) for stage in ("simplified", "schedule", "program", "memory", "c")]
        assert all(texts) and repr(lowered.traced.graph)
        gt.grad(lambda x: gt.sum(gt.grad(chained(body))(x)))(x)
    except RecursionError as error:
        raise AssertionError(f"{name}: {error}") from error
    del f, lowered
    gc.collect()
print("done")
"""


def test_B10_chains_of_every_kind(tmp_path):
    """The same for products, reductions, views, joined and indexed arrays and what lies behind stop_gradient, with
    first and second derivatives, through every stage up to the C. The recursion limit is lowered below the length of
    the chains, which makes the same demand as longer chains at the usual one.
    """
    assert run(CHAINS, GT_CACHE=tmp_path) == "done\n"


# ---- B12 --------------------------------------------------------------------------------------------------

LARGE = """
import threading
import numpy as np
import gtensor as gt

n = 4096
rng = np.random.default_rng(0)
a, b, v = (rng.uniform(0.5, 1, n).astype(np.float32) for _ in range(3))

def outer(a, b, v):
    h = gt.reshape(a, (n, 1)) * b + 1
    return h @ v

def row(x):
    return gt.softmax(gt.reshape(gt.broadcast_to(x, (n, n)), (-1,)))

def both(a, b):
    h = gt.reshape(a, (n, 1)) + b
    return gt.sum(h, axis=0), gt.softmax(h, axis=0)[0]

def train_loss(a, b, v):
    return gt.mean(outer(a, b, v) ** 2)

steps = {
    "a product": gt.compile(outer).trace(a, b, v).lower().compile(),
    "one long row": gt.compile(row).trace(a).lower().compile(),
    "sums both ways": gt.compile(both).trace(a, b).lower().compile(),
}
train = gt.TrainStep(train_loss, a, gt.optim.sgd(1e-9), gt.spec((n,)), gt.spec((n,)))
for step in (steps["a product"], steps["one long row"], train.step):
    assert step.compiled.library.model.work_bytes >= 64 << 20, step.memory

def work():
    exact = a.astype(float) * (b.astype(float) @ v) + v.sum(dtype=float)
    np.testing.assert_allclose(steps["a product"](a, b, v).numpy(), exact, rtol=1e-5)
    row = steps["one long row"](a).numpy()
    expected = np.exp(a - a.max(), dtype=float)
    np.testing.assert_allclose(row[:n], expected / expected.sum() / 4096, rtol=1e-5)
    assert row.shape == (n * 4096,) and (row[:n] == row[-n:]).all()
    total, first = steps["sums both ways"](a, b)
    np.testing.assert_allclose(total.numpy(), a.sum(dtype=float) + n * b.astype(float), rtol=1e-5)
    assert np.isfinite(first.numpy()).all()
    np.testing.assert_allclose(train(b, v), (exact**2).mean(), rtol=1e-4)
    results.append("right")

results = []
threading.stack_size(512 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
work()
assert results == ["right"] * 2
print("done")
"""


def test_B12_large_intermediates_do_not_lie_on_the_stack(tmp_path):
    """Intermediates of 64 MiB, kept as C arrays, overflow the stack: of a thread with 512 KiB, or of a process that was
    started with `ulimit -s 1024`. They lie in the workspace, whose size is known, and the results are right.
    """
    assert run(LARGE, GT_CACHE=tmp_path, limits=["-s 1024"]) == "done\n"


FRAMES = {
    "products and rows": lambda x: gt.softmax(x @ x.T) @ gt.tanh(x),
    "normalised": lambda x: gt.nn.layer_norm(x, gt.ones(x.shape[1]), gt.zeros(x.shape[1])),
    "sorted out": lambda x: (gt.argmax(x, axis=1), gt.var(x, axis=0), gt.take(x, gt.argmin(x, axis=1), axis=0)),
    "derivatives": gt.grad(lambda x: gt.sum(gt.nn.cross_entropy(x @ x.T, gt.argmax(x, axis=1)))),
    "many values": lambda x: [gt.exp(x[k : k + 9] * k) @ gt.ones((x.shape[1], 5)) for k in range(0, 60, 2)],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_B12_no_function_has_a_large_frame(dtype, tmp_path):
    """The C compiler itself says how much stack each function takes: with these flags, more than 16 KiB is an error."""

    def every(x):
        return {name: f(x) for name, f in FRAMES.items()}

    with gt.config(cflags="-Wframe-larger-than=16384 -Werror", cache=tmp_path):
        results = gt.compile(every)(np.ones((64, 3000), dtype))
        assert results["products and rows"].shape == (64, 3000)


# ---- B13 --------------------------------------------------------------------------------------------------

MILLIONS = 4_000_000


def held(step):
    """Bytes of the C and of the library of a compiled function, and its number of units."""
    files = step.compiled.files
    return sum(path.stat().st_size for path in files), step.compiled.library.path.stat().st_size, len(files)


TABLE = np.arange(MILLIONS, dtype=np.float32)
TENSOR = gt.tensor(TABLE)
PLACES = np.arange(MILLIONS)[::-1].copy()

LARGE_CONSTANTS = {
    "an array": lambda x: gt.sum(TABLE * x),
    "a tensor": lambda x: gt.max(TENSOR + x),
    "an index": lambda x: gt.take(TABLE, PLACES, axis=0)[0] * x,
    "a mask": lambda x: gt.sum(gt.where(TABLE > 5, x, 0.0)),
    "made while tracing": lambda x: gt.sum(gt.asarray(np.full(MILLIONS, 2.0, np.float32)) * x),
    "counted": lambda x: gt.max(gt.arange(MILLIONS) + x),
    "differentiated": lambda x: gt.grad(lambda x: gt.sum(TABLE * x))(x),
}


@pytest.mark.parametrize("what", LARGE_CONSTANTS)
def test_B13_large_constants_are_data(what, tmp_path):
    """A captured array that is printed into the C as literals makes files of hundreds of megabytes and hours of
    compiling. Arrays are passed as data: the C of a model with four million numbers is as short as any other.
    """
    fn = LARGE_CONSTANTS[what]
    with gt.config(cache=tmp_path):
        step = gt.compile(fn)
        result = float(step(np.float32(1.0)))
        size, library, units = held(step)
        text = str(step.graph)
    expected = float(fn(gt.tensor(np.float32(1.0))))
    assert result == pytest.approx(expected, rel=1e-5)
    assert size < 40_000 and library < 200_000 and units == 1 and len(text) < 4000


def test_B13_large_constants_in_training(tmp_path):
    """The same for parameters, the optimizer's state and a table that a training step captured."""
    with gt.config(cache=tmp_path):
        train = gt.TrainStep(
            lambda w, x: gt.mean((w * TABLE - x) ** 2), np.zeros(MILLIONS, np.float32), gt.optim.adam(0.1), gt.spec(())
        )
        assert train(np.float32(3.0)) == 9.0
        size, library, units = held(train)
    assert size < 40_000 and library < 200_000 and units == 1


def layers(h, params):
    """Ten layers with products."""
    for k in range(10):
        h = gt.tanh(h @ params["w"][k] + params["b"][k])
    return gt.nn.layer_norm(h, params["g"], params["b"][0])


def arithmetic(h, params):
    """Ten layers without products."""
    for k in range(10):
        h = gt.relu(h * params["g"] + params["b"][k]) / (1 + h * h)
    return h


def lookups(h, params):
    """Ten layers that look up rows, which can fail."""
    for k in range(10):
        h = h + gt.take(params["w"][k], gt.argmax(h, axis=1), axis=0)
    return h


def repeated(block, times, derive):
    """A network of equal blocks with one set of weights, before it is compiled."""
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((10, 16, 16), np.float32), rng.standard_normal((10, 16), np.float32)
    params = {"w": list(w / 4), "b": list(b), "g": np.ones(16, np.float32)}

    def loss(params, x):
        for _ in range(times):
            x = block(x, params)
        return gt.mean(x)

    return gt.compile(derive(loss)).lower(params, gt.spec((8, 16)))


def longest(text):
    """The lines of the longest function of a C text."""
    return max(body.count("\n") for body in re.findall(r"^{\n.*?^}", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("derive", [lambda loss: loss, gt.grad], ids=["value", "gradient"])
@pytest.mark.parametrize("block", [layers, arithmetic, lookups], ids=lambda block: block.__name__)
def test_B13_blocks_that_are_applied_again_add_calls(block, derive):
    """The same ten layers applied fifty times must not make a file that grows faster than the number of blocks, nor
    functions that grow with it, which a C compiler takes for ever over.
    """
    texts = [repeated(block, times, derive).c_source for times in (4, 8, 20)]
    few, more, most = map(len, texts)
    assert (most - more) / 12 < 1.5 * (more - few) / 4
    assert most < 1_000_000
    assert max(map(longest, texts)) < 5000


@pytest.mark.parametrize("derive", [lambda loss: loss, gt.grad], ids=["value", "gradient"])
def test_B13_equal_kernels_are_written_once(derive, tmp_path):
    """However often the ten layers are applied, the C has the functions of one block, in one unit, and it compiles."""
    few, more = (repeated(layers, times, derive).c_source for times in (3, 6))
    with gt.config(cache=tmp_path):
        step = repeated(layers, 50, derive).compile()
    size, _, units = held(step)
    most = step.compiled.files[0].read_text()
    counts = {len(re.findall(r"^GT_KERNEL \w+ \w+\(", text, flags=re.MULTILINE)) for text in (few, more, most)}
    assert len(counts) == 1
    assert size < 1_000_000 and units == 1

"""What the project grew from, the rows on memory cells, layers and attention: A1 through time, A2, A3, A4, A5.

Each test is named by its row. Right values are NumPy's, by differences in float64; what is trained is compiled.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt

WAYS = {"eager": lambda f: f, "compiled": gt.compile}


@pytest.fixture(params=WAYS)
def way(request):
    """Makes a function run eagerly, or compiled."""
    return WAYS[request.param]


def normal(seed, *shape, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- A1: the exact gated composite -----------------------------------------------------------------------

NAMES = ["M", "x", "gate w", "gate b", "candidate w", "candidate b"]


def rolled(memory, xs, wz, bz, wc, bc):
    """The sum of the weighted memories of a gated cell, in NumPy."""
    total = 0.0
    for x, weights in zip(xs, WEIGHTS, strict=False):
        joined = np.concatenate([memory, x], axis=1)
        z = 1 / (1 + np.exp(-(joined @ wz + bz)))
        memory = (1 - z) * memory + z * np.tanh(joined @ wc + bc)
        total += (memory * weights).sum()
    return total


WEIGHTS = normal(9, 8, 2, 3)


@pytest.mark.parametrize("steps", [1, 8])
@pytest.mark.parametrize("dtype, bound", [("float64", 1e-6), ("float32", 1e-3)])
def test_A1_gradients_through_the_gated_cell_equal_differences(steps, dtype, bound, way):
    """The row asks for 1e-6 in float64 and 1e-3 in float32; one step is the composite itself."""
    args = [normal(i, *shape) for i, shape in enumerate([(2, 3), (steps, 2, 4), (7, 3), (3,), (7, 3), (3,)])]
    cell = gt.nn.GatedMemory(inputs=4, size=3)

    def loss(memory, xs, wz, bz, wc, bc):
        params = {"gate": {"w": wz, "b": bz}, "candidate": {"w": wc, "b": bc}}
        return gt.sum(cell.rollout(params, memory, xs)[1] * WEIGHTS[:steps].astype(dtype))

    found = way(gt.grad(loss, tuple(range(6))))(*(a.astype(dtype) for a in args))
    for i, gradient in enumerate(found):
        assert gradient.dtype.name == dtype
        assert error(gradient, args, i) < bound, NAMES[i]


def error(gradient, args, which, step=1e-5):
    """The largest difference from central differences, relative to the largest slope."""
    wanted = np.zeros_like(args[which])
    for place in np.ndindex(wanted.shape):
        values = []
        for sign in (1, -1):
            moved = [a.copy() for a in args]
            moved[which][place] += sign * step
            values.append(rolled(*moved))
        wanted[place] = (values[0] - values[1]) / (2 * step)
    return np.abs(gradient.numpy() - wanted).max() / np.abs(wanted).max()


# ---- A2: updaters of one surface -------------------------------------------------------------------------

BATCH, WINDOW, SIZE = 8, 10, 24


def delayed():
    """Sequences, and what they were two steps before."""
    xs = np.random.default_rng(0).uniform(-1, 1, (WINDOW, BATCH, 2)).astype(np.float32)
    targets = np.zeros_like(xs)
    targets[2:] = xs[:-2]
    return xs, targets


def last_memory(updater, xs):
    """The memory after a sequence, input by input."""
    memory = updater.start()
    for x in xs:
        memory = updater.step(memory, x)
        assert np.abs(memory).max() <= 1
    return memory


@pytest.mark.parametrize("kind", [gt.nn.GatedMemoryUpdater, gt.nn.ClonedMemoryUpdater])
def test_A2_both_memories_train_by_one_protocol(kind):
    """Outputs learn what was seen two steps before; the memory learns where another cell's memory goes."""
    student, teacher = (
        kind.new(2, SIZE, 2, optimizer=gt.optim.adam(1e-2), key=gt.random.key(seed), batch=BATCH, window=WINDOW)
        for seed in (0, 1)
    )
    xs, targets = delayed()
    losses = [student.train_step(student.start(), xs, targets) for _ in range(600)]
    assert losses[-1] < 0.1 * losses[0]
    before = last_memory(student, xs[:-1])
    wrong = np.mean((student.predict(before, xs[-1]).numpy() - targets[-1]) ** 2)
    assert wrong < 0.3 * np.mean(targets[-1] ** 2)

    aim = last_memory(teacher, xs)
    losses = [student.train_step_memory(student.start(), xs, aim) for _ in range(400)]
    assert losses[-1] < 0.25 * losses[0]
    assert np.mean((last_memory(student, xs).numpy() - aim.numpy()) ** 2) < 0.25 * losses[0]


# ---- A3: a non-expansion ---------------------------------------------------------------------------------


def random_cell(rng, inputs, size, outputs=None):
    """Parameters of any magnitude from 0.01 to 100, all float32."""

    def draw(*shape):
        return (10 ** rng.uniform(-2, 2) * rng.standard_normal(shape)).astype(np.float32)

    layers = {"gate": (inputs + size, size), "candidate": (inputs + size, size)}
    if outputs:
        layers["readout"] = (size, outputs)
    return {name: {"w": draw(*shape), "b": draw(shape[1])} for name, shape in layers.items()}


def test_A3_the_memory_of_1000_random_cells_never_grows():
    """|M_t| <= max(|M_0|, 1) for each element, to the bit, in 500 steps of a free rollout; half start in [-1, 1]."""
    cell, rng = gt.nn.GatedMemory(inputs=4, size=4), np.random.default_rng(0)
    run = gt.compile(lambda params, memory, x: cell.predict(params, memory, x, 500)[1])
    for number in range(1000):
        memory = rng.uniform(-1, 1, (2, 4)).astype(np.float32) * (1 if number % 2 else 5)
        memories = run(random_cell(rng, 4, 4), memory, normal(number, 2, 4, dtype=np.float32)).numpy()
        assert memories.shape == (500, 2, 4)
        assert (np.abs(memories) <= np.maximum(np.abs(memory), 1)).all(), number


def test_A3_a_free_rollout_through_the_readout_stays_within_bounds():
    """The outputs go where the readout sends them, the memory stays within [-1, 1] without a clamp."""
    cell, rng = gt.nn.GatedMemory(inputs=3, size=8, outputs=3), np.random.default_rng(1)

    def free(params, memory, x):
        def step(carry, _):
            memory, output = cell.step(params, *carry)
            return (memory, output), memory

        return gt.scan(step, (memory, x), length=500)[1]

    run = gt.compile(free)
    for _ in range(100):
        memories = run(
            random_cell(rng, 3, 8, 3), rng.uniform(-1, 1, 8).astype(np.float32), normal(0, 3, dtype=np.float32)
        )
        assert np.abs(memories).max() <= 1


# ---- A4: a perceptron of layers --------------------------------------------------------------------------


def test_A4_two_linear_layers_with_gelu_train_end_to_end():
    """The first text reports a loss from 8.65 to 0.39; ours falls by that ratio at least."""
    model = gt.nn.Sequential(gt.nn.Linear(4, 32), gt.gelu, gt.nn.Linear(32, 2))
    x = normal(0, 64, 4, dtype=np.float32)
    y = np.stack([3 * np.sin(x[:, 0]) + x[:, 1] ** 2, 2 * x[:, 2] * x[:, 3] - 1], axis=1)

    def loss(params, x, y):
        return gt.nn.mse_loss(model(params, x), y)

    train = gt.TrainStep(loss, model.init(gt.random.key(0)), gt.optim.sgd(0.1), gt.spec((64, 4)), gt.spec((64, 2)))
    losses = [train(x, y) for _ in range(400)]
    assert losses[-1] < losses[0] * 0.39 / 8.65


# ---- A5: a set encoder -----------------------------------------------------------------------------------

LENGTH, FEATURES, EMBED, TOKENS = 8, 4, 8, 24
USES = ["query", "key", "value", "residual"]


def test_A5_an_attention_set_encoder_learns_the_mean_of_its_window():
    """The first text reports a loss from 0.27 to about 0; ours falls below 1e-3 on windows it has not seen."""
    embed, attend, out = gt.nn.Linear(FEATURES, 32), gt.nn.MultiHeadAttention(32, heads=4), gt.nn.Linear(32, FEATURES)
    keys = gt.random.split(gt.random.key(0), 3)
    params = {"embed": embed.init(keys[0]), "attend": attend.init(keys[1]), "out": out.init(keys[2])}

    def loss(params, x):
        e = embed(params["embed"], x)
        found = out(params["out"], e + attend(params["attend"], e))
        return gt.mean((found - gt.mean(x, axis=1, keepdims=True)) ** 2)

    train = gt.TrainStep(loss, params, gt.optim.adam(3e-3), gt.spec((64, LENGTH, FEATURES)))
    history = train.fit(normal(0, 3200, LENGTH, FEATURES, dtype=np.float32), epochs=12, progress=False)
    assert history.losses[0] > 0.1
    assert train.evaluate(normal(1, 640, LENGTH, FEATURES, dtype=np.float32)) < 1e-3


def encoder(uses):
    """The loss of a set encoder whose embedding gets the gradients of some of its four uses only.

    The window is of tokens, each of which stands for a vector; the embedding, narrower than they are many, has to
    find these vectors. Every place of the window is to say their mean.
    """
    vectors = normal(5, TOKENS, FEATURES, dtype=np.float32)

    def loss(params, tokens):
        e = gt.nn.embedding(tokens, params["embed"])
        q, k, v, residual = (e if use in uses else gt.stop_gradient(e) for use in USES)
        mixed = gt.nn.scaled_dot_product_attention(q @ params["q"], k @ params["k"], v @ params["v"])
        found = (residual + mixed) @ params["out"]
        return gt.mean((found - gt.mean(gt.take(gt.tensor(vectors), tokens, axis=0), axis=1, keepdims=True)) ** 2)

    return loss


def trained(uses, seed):
    """The mean loss of the last 50 of 600 steps."""
    shapes = {
        "embed": (TOKENS, EMBED),
        "q": (EMBED,) * 2,
        "k": (EMBED,) * 2,
        "v": (EMBED,) * 2,
        "out": (EMBED, FEATURES),
    }
    params = {name: normal(seed + i, *s, dtype=np.float32) / s[0] ** 0.5 for i, (name, s) in enumerate(shapes.items())}
    tokens = np.random.default_rng(seed).integers(0, TOKENS, (3200, LENGTH)).astype(np.int32)
    train = gt.TrainStep(encoder(uses), params, gt.optim.adam(5e-3), gt.spec((64, LENGTH), "int32"))
    return train.fit(tokens, epochs=12, progress=False).losses[-50:].mean()


@pytest.mark.parametrize("seed", [0, 10])
def test_A5_the_gradients_of_all_four_uses_are_needed(seed):
    """The embedding fans out to query, key, value and residual: with the gradient of one of them alone it fails."""
    assert trained(USES, seed) < 1e-3
    for use in USES:
        assert trained([use], seed) > 1e-3, use

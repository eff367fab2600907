"""Recurrent cells: one protocol, PyTorch's numbers, rollouts that are their steps, derivatives, updaters.

`reference/torch_nn.json` holds PyTorch's results, and `reference/torch_nn.py` says how they were made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor import tree
from gtensor.errors import OptionError, ShapeError, SignatureError
from gtensor.passes import simplify
from tests.ways import agreed

REFERENCE = json.loads((Path(__file__).parent / "reference" / "torch_nn.json").read_text(encoding="utf-8"))
KINDS = [gt.nn.GatedMemory, gt.nn.ClonedMemory, gt.nn.Elman, gt.nn.GRU, gt.nn.LSTM]
STEPS, BATCH, INPUTS, SIZE, OUTPUTS = 4, 2, 2, 3, 2


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    """A kind of cell."""
    return request.param


def normal(seed, *shape, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def drawn(kind, outputs=OUTPUTS, dtype=np.float64):
    """A cell, its parameters with biases drawn too, a first state, inputs."""
    cell = kind(INPUTS, SIZE, outputs)
    leaves, structure = tree.flatten(cell.init(gt.random.key(3), dtype))
    params = tree.unflatten(
        structure, [leaf.numpy() + 0.3 * normal(i, *leaf.shape, dtype=dtype) for i, leaf in enumerate(leaves)]
    )
    state = tree.map_leaves(lambda zeros: 0.5 * normal(9, *zeros.shape, dtype=dtype), cell.start(BATCH, dtype))
    return cell, params, state, normal(8, STEPS, BATCH, INPUTS, dtype=dtype)


def arrays(nested, dtype):
    """The lists of the reference as arrays."""
    if isinstance(nested, dict):
        return {name: arrays(part, dtype) for name, part in nested.items()}
    return np.array(nested, dtype)


# ---- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, bound", [("float64", 1e-12), ("float32", 1e-6)])
@pytest.mark.parametrize("name", ["Elman", "GRU", "LSTM"])
def test_values_are_pytorchs(name, dtype, bound):
    wanted = arrays(REFERENCE[name], dtype)
    params = wanted["params"]
    cell = getattr(gt.nn, name)(params["input"]["w"].shape[0], params["hidden"]["w"].shape[0])
    first, last = (tuple(wanted[part]) if name == "LSTM" else wanted[part] for part in ("first", "last"))
    found, outputs = agreed(cell.rollout, params, first, wanted["xs"], atol=2e-7)
    np.testing.assert_allclose(outputs, wanted["outputs"], rtol=0, atol=bound)
    for a, b in zip(tree.flatten(found)[0], tree.flatten(last)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=5 * bound)


def test_a_gated_memory_is_its_formula():
    cell, params, memory, xs = drawn(gt.nn.GatedMemory)
    joined = np.concatenate([memory, xs[0]], axis=1)
    z = 1 / (1 + np.exp(-(joined @ params["gate"]["w"] + params["gate"]["b"])))
    c = np.tanh(joined @ params["candidate"]["w"] + params["candidate"]["b"])
    wanted = (1 - z) * memory + z * c
    after, output = agreed(cell.step, params, memory, xs[0], rtol=1e-12)
    np.testing.assert_allclose(after, wanted, rtol=1e-12)
    np.testing.assert_allclose(output, wanted @ params["readout"]["w"] + params["readout"]["b"], rtol=1e-12)


def test_the_gates_of_a_cell_are_those_that_move_it():
    cell, params, memory, xs = drawn(gt.nn.GatedMemory)
    z = agreed(cell.gate, params, memory, xs[0])
    joined = np.concatenate([memory, xs[0]], axis=1)
    candidate = np.tanh(joined @ params["candidate"]["w"] + params["candidate"]["b"])
    np.testing.assert_allclose(
        (1 - z) * memory + z * candidate, cell.step(params, memory, xs[0])[0].numpy(), rtol=1e-12
    )

    cell, params, state, xs = drawn(gt.nn.GRU)
    r, z = agreed(cell.gate, params, state, xs[0])
    from_x, from_h = (part @ params[k]["w"] + params[k]["b"] for k, part in (("input", xs[0]), ("hidden", state)))
    new = np.tanh(from_x[:, -SIZE:] + r * from_h[:, -SIZE:])
    np.testing.assert_allclose((1 - z) * new + z * state, cell.step(params, state, xs[0])[0].numpy(), rtol=1e-12)

    cell, params, state, xs = drawn(gt.nn.LSTM)
    i, f, o = agreed(cell.gate, params, state, xs[0])
    sums = (
        xs[0] @ params["input"]["w"] + params["input"]["b"] + state[0] @ params["hidden"]["w"] + params["hidden"]["b"]
    )
    after = f * state[1] + i * np.tanh(sums[:, 2 * SIZE : 3 * SIZE])
    (hidden, carried), _ = cell.step(params, state, xs[0])
    np.testing.assert_allclose(carried.numpy(), after, rtol=1e-12)
    np.testing.assert_allclose(hidden.numpy(), o * np.tanh(after), rtol=1e-12)


def test_a_gru_that_resets_before_its_product():
    cell, params, state, xs = drawn(gt.nn.GRU)
    before = gt.nn.GRU(INPUTS, SIZE, OUTPUTS, reset_after=False)
    assert before.weights() == cell.weights()
    r, z = (np.asarray(gate) for gate in before.gate(params, state, xs[0]))
    from_x, from_h = (part @ params[k]["w"] + params[k]["b"] for k, part in (("input", xs[0]), ("hidden", r * state)))
    wanted = (1 - z) * np.tanh(from_x[:, -SIZE:] + from_h[:, -SIZE:]) + z * state
    after, _ = agreed(before.step, params, state, xs[0], rtol=1e-12)
    np.testing.assert_allclose(after, wanted, rtol=1e-12)
    assert np.abs(wanted - np.asarray(cell.step(params, state, xs[0])[0])).max() > 1e-3
    gt.check_grads(lambda p, s: before.rollout(p, s, xs)[1], (params, state))


def test_a_cloned_memory_is_its_formula_and_clamped():
    cell, params, memory, xs = drawn(gt.nn.ClonedMemory)
    wanted = []
    for x in 3 * xs:
        u = np.concatenate([memory, x], axis=1) @ params["update"]["w"] + params["update"]["b"]
        memory = np.clip(memory + np.where(u > 0, u, 0.01 * u), -1, 1)
        wanted.append(memory @ params["readout"]["w"] + params["readout"]["b"])
    _, params, memory, xs = drawn(gt.nn.ClonedMemory)
    last, outputs = agreed(cell.rollout, params, memory, 3 * xs, rtol=1e-12)
    np.testing.assert_allclose(outputs, wanted, rtol=1e-12)
    assert (last == 1).any() and np.abs(last).max() <= 1


def test_a_rollout_is_its_steps(kind):
    for outputs in (OUTPUTS, None):
        cell, params, state, xs = drawn(kind, outputs)
        last, found = agreed(cell.rollout, params, state, xs, rtol=1e-12)
        for x, output in zip(xs, found, strict=True):
            state, wanted = cell.step(params, state, x)
            np.testing.assert_allclose(output, wanted, rtol=1e-12)
        for a, b in zip(tree.flatten(last)[0], tree.flatten(state)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert found.shape == (STEPS, BATCH, SIZE)


def test_a_prediction_feeds_itself(kind):
    cell, params, state, xs = drawn(kind)
    _, found = agreed(lambda params, state, x: cell.predict(params, state, x, 6), params, state, xs[0], rtol=1e-11)
    x = xs[0]
    for output in found:
        state, x = cell.step(params, state, x)
        np.testing.assert_allclose(output, x, rtol=1e-11)


def test_states_of_every_batch(kind):
    cell = kind(INPUTS, SIZE, OUTPUTS)
    params = cell.init(gt.random.key(0))
    for batch in ((), 3, (2, 3)):
        state = cell.start(batch)
        rows = batch if isinstance(batch, tuple) else (batch,)
        assert all(leaf.shape == (*rows, SIZE) and not leaf.numpy().any() for leaf in tree.flatten(state)[0])
        _, outputs = cell.rollout(params, state, gt.ones((STEPS, *rows, INPUTS)))
        assert outputs.shape == (STEPS, *rows, OUTPUTS)


def test_parameters_follow_their_key(kind):
    cell = kind(INPUTS, SIZE, OUTPUTS)
    one, same, other = (tree.flatten(cell.init(gt.random.key(seed)))[0] for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    matrices = [(a, b) for a, b in zip(one, other, strict=True) if a.ndim == 2]
    assert len(matrices) >= 2 and all((a != b).any() for a, b in matrices)
    assert {leaf.dtype for leaf in tree.flatten(cell.init(gt.random.key(1), "float64"))[0]} == {gt.float64}


# ---- derivatives -----------------------------------------------------------------------------------------


def loss_of(cell):
    def loss(params, state, xs):
        last, outputs = cell.rollout(params, state, xs)
        return gt.sum(outputs * outputs) + sum(gt.sum(gt.sin(leaf)) for leaf in tree.flatten(last)[0])

    return loss


def test_gradients_through_a_rollout_equal_differences(kind):
    cell, params, state, xs = drawn(kind)
    gt.check_grads(loss_of(cell), (params, state, xs))
    agreed(gt.grad(loss_of(cell), (0, 1, 2)), params, state, xs, rtol=1e-9, atol=1e-11)


def test_compiled_float32_gradients_equal_those_of_float64(kind):
    cell, params, state, xs = drawn(kind)
    wanted = tree.flatten(gt.grad(loss_of(cell), (0, 1, 2))(params, state, xs))[0]
    narrow = tree.map_leaves(lambda leaf: leaf.astype(np.float32), (params, state, xs))
    found = tree.flatten(gt.compile(gt.grad(loss_of(cell), (0, 1, 2)))(*narrow))[0]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == gt.float32
        assert np.abs(a.numpy() - b.numpy()).max() <= 1e-3 * np.abs(b.numpy()).max()


def test_graphs_do_not_grow_with_the_length(kind):
    cell, params, state, _ = drawn(kind)
    graphs = [gt.trace(gt.grad(loss_of(cell)), params, state, normal(0, n, BATCH, INPUTS)) for n in (3, 300)]
    assert len({len(simplify(graph).eqns) for graph in graphs}) == 1
    forward = gt.trace(cell.rollout, params, state, normal(0, 3, BATCH, INPUTS))
    assert [eqn.prim.name for eqn in forward.eqns].count("scan") == 1
    assert len(forward.eqns) <= 11


# ---- use -------------------------------------------------------------------------------------------------


def test_cells_are_values(kind):
    assert kind(2, 3) == kind(2, 3) and kind(2, 3) != kind(2, 4) and hash(kind(2, 3)) == hash(kind(2, 3))
    cell = kind(INPUTS, SIZE)
    run = gt.compile(lambda cell, params, state, x: cell.step(params, state, x)[1])
    params = cell.init(gt.random.key(0))
    found = run(cell, params, cell.start(1), gt.ones((1, INPUTS)))
    np.testing.assert_allclose(found, cell.step(params, cell.start(1), gt.ones((1, INPUTS)))[1], rtol=1e-6)


@dataclass(frozen=True)
class Leaky(gt.nn.Cell):
    """A cell of a user's own: leaky integrators of their input."""

    rate: float = 0.25

    def weights(self):
        return {"input": gt.nn.Linear(self.inputs, self.size, bias=False)}

    def advance(self, params, state, x):
        return (1 - self.rate) * state + self.rate * gt.tanh(x @ params["input"]["w"])


def test_a_cell_of_ones_own_has_the_whole_protocol():
    cell, params, state, xs = drawn(Leaky)
    last, outputs = agreed(cell.rollout, params, state, xs, rtol=1e-12)
    for x in xs:
        state = 0.75 * state + 0.25 * np.tanh(x @ params["input"]["w"])
    np.testing.assert_allclose(last, state, rtol=1e-12)
    np.testing.assert_allclose(outputs[-1], state @ params["readout"]["w"] + params["readout"]["b"], rtol=1e-12)
    updater = gt.nn.Updater(cell, gt.optim.sgd(0.1), gt.random.key(0), batch=BATCH, window=STEPS)
    x32, targets = xs.astype(np.float32), np.ones((STEPS, BATCH, OUTPUTS), np.float32)
    first = updater.train_step(updater.start(), x32, targets)
    assert updater.train_step(updater.start(), x32, targets) < first


def test_what_is_refused(kind):
    for sizes in ((0, 1), (1, -1), (1, 1.5), (1, True), (1, 1, 0)):
        with pytest.raises(OptionError, match=f"{kind.__name__}: .* must be a positive integer"):
            kind(*sizes)
    cell = kind(INPUTS, SIZE, 3)
    params = cell.init(gt.random.key(0))
    with pytest.raises(ShapeError, match="3 outputs cannot be the next 2 inputs"):
        cell.predict(params, cell.start(1), gt.ones((1, INPUTS)), 2)
    with pytest.raises(ShapeError):
        cell.step(params, cell.start(1), gt.ones((1, INPUTS + 1)))


def test_a_clamp_has_a_positive_limit():
    with pytest.raises(OptionError, match="limit"):
        gt.nn.ClonedMemory(1, 1, limit=0.0)


# ---- updaters --------------------------------------------------------------------------------------------


def test_an_updater_is_its_cell_and_optimizer(kind):
    cell, optimizer, key = kind(INPUTS, SIZE, OUTPUTS), gt.optim.adam(0.05), gt.random.key(5)
    updater = gt.nn.Updater(cell, optimizer, key, batch=BATCH, window=STEPS)
    params, xs, targets = cell.init(key), *(normal(i, STEPS, BATCH, INPUTS, dtype=np.float32) for i in (1, 2))
    state, memory = optimizer.init(params), updater.step(updater.start(), xs[0])
    wanted_memory, wanted_output = cell.step(params, memory, xs[1])
    after = updater.step(memory, xs[1])
    for a, b in zip(tree.flatten(after)[0], tree.flatten(wanted_memory)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(updater.predict(memory, xs[1]), wanted_output, rtol=1e-5, atol=1e-6)

    def output_loss(params):
        return gt.nn.mse_loss(cell.rollout(params, memory, xs)[1], targets)

    def memory_loss(params):
        pairs = zip(tree.flatten(cell.rollout(params, memory, xs)[0])[0], tree.flatten(after)[0], strict=True)
        return sum(gt.nn.mse_loss(a, b) for a, b in pairs)

    for loss, step, aim in (
        (output_loss, updater.train_step, targets),
        (memory_loss, updater.train_step_memory, after),
        (output_loss, updater.train_step, targets),
    ):
        value, grads = gt.value_and_grad(loss)(params)
        params, state = optimizer.update(params, grads, state)
        assert abs(step(memory, xs, aim) - value.item()) < 1e-5 * value.item()
        for a, b in zip(tree.flatten(updater.params)[0], tree.flatten(params)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4)


def test_the_step_of_an_updater_can_be_read_and_bound_to():
    updater = gt.nn.GatedMemoryUpdater.new(2, 3, 2, optimizer=gt.optim.sgd(0.1), key=gt.random.key(0), window=50)
    assert updater.resident.c_source.count("tanh") < 20 and "train_step" in updater.resident.c_source
    free = updater.resident.bind(
        lambda state, memory, x: updater.cell.predict(state["params"], memory, x, 30)[1],
        gt.spec((1, 3)),
        gt.spec((1, 2)),
    )
    first, x = np.zeros((1, 3), np.float32), np.ones((1, 2), np.float32)
    before = free(first, x).numpy()
    updater.train_step(first, np.ones((50, 1, 2), np.float32), np.ones((50, 1, 2), np.float32))
    after = free(first, x).numpy()
    assert (after != before).any()
    np.testing.assert_allclose(after, updater.cell.predict(updater.params, first, x, 30)[1], rtol=1e-4, atol=1e-5)


def test_an_updater_refuses_other_shapes():
    updater = gt.nn.GatedMemoryUpdater.new(2, 3, 1, optimizer=gt.optim.sgd(0.1), key=gt.random.key(0), window=2)
    before = updater.params["gate"]["w"].copy()
    with pytest.raises(SignatureError):
        updater.train_step(updater.start(), gt.ones((3, 1, 2)), gt.ones((3, 1, 1)))
    assert (updater.params["gate"]["w"] == before).all()
    with pytest.raises(OptionError, match="window"):
        gt.nn.GatedMemoryUpdater.new(2, 3, 1, optimizer=gt.optim.sgd(0.1), key=gt.random.key(0), window=0)

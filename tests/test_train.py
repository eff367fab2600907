"""`gt.TrainStep` and `fit`: against the same steps in Python, with every row of every epoch, interrupted or not."""

from __future__ import annotations

import io
import re
import signal
import threading

import numpy as np
import pytest

import gtensor as gt
from gtensor import loop
from gtensor.errors import GradError, IndexingError, OptionError, ShapeError, SignatureError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((22, 3), np.float32)
Y = (X @ np.array([1, -2, 3], np.float32) + 0.5).astype(np.float32)
BATCH = 4


def loss_fn(params, x, y):
    return gt.mean((x @ params["w"] + params["b"] - y) ** 2)


def start():
    return {"w": np.zeros(3, np.float32), "b": np.float32(0)}


def make(optimizer=None, **options):
    specs = gt.spec((BATCH, 3)), gt.spec((BATCH,))
    return gt.TrainStep(loss_fn, start(), optimizer or gt.optim.adam(0.1), *specs, **options)


def by_hand(rows, optimizer=None):
    """Losses and parameters of the same steps in Python, for batches given as arrays of rows."""
    optimizer = optimizer or gt.optim.adam(0.1)
    params, losses = start(), []
    state = optimizer.init(params)
    for batch in rows:
        loss, grads = gt.value_and_grad(loss_fn)(params, X[batch], Y[batch])
        params, state = optimizer.update(params, grads, state)
        losses.append(loss.item())
    return losses, params


def batches(order, size=BATCH):
    return [order[i : i + size] for i in range(0, len(order), size)]


def test_a_step_moves_the_parameters_and_returns_the_loss_before():
    train = make()
    rows = batches(np.arange(20))
    losses = [train(X[r], Y[r]) for r in rows]
    expected, params = by_hand(rows)
    assert all(isinstance(loss, float) for loss in losses)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(train.params["w"], params["w"].numpy(), rtol=1e-5)
    assert train.state["optimizer"]["step"] == 5
    assert np.shares_memory(train.params["w"], train.block.memory)


def test_fit_runs_every_row_of_every_epoch():
    train = make()
    history = train.fit(X, Y, epochs=3, shuffle=False, progress=False)
    losses, params = by_hand(batches(np.arange(22)) * 3)
    np.testing.assert_allclose(history.losses, losses, rtol=1e-4)
    np.testing.assert_allclose(train.params["w"], params["w"].numpy(), rtol=1e-4)
    assert len(history.epochs) == 3
    sizes = [4, 4, 4, 4, 4, 2]
    assert history.epochs[1].loss == pytest.approx(np.average(losses[6:12], weights=sizes), rel=1e-4)
    assert history.epochs[0].validation is None and history.seconds > 0
    assert "18 steps, 3 epochs" in repr(history)


def test_shuffled_rows_are_those_of_the_seed():
    history = make().fit(X, Y, epochs=2, seed=7, progress=False)
    rng = np.random.default_rng(7)
    losses, _ = by_hand([r for _ in range(2) for r in batches(rng.permutation(22))])
    np.testing.assert_allclose(history.losses, losses, rtol=1e-4)
    assert make().fit(X, Y, epochs=2, seed=7, progress=False).losses.tolist() == history.losses.tolist()
    assert make().fit(X, Y, epochs=2, seed=8, progress=False).losses.tolist() != history.losses.tolist()


def test_fit_takes_any_batch_size_and_any_memory():
    for size in (22, 30):
        history = make().fit(X, Y, batch_size=size, epochs=2, shuffle=False, progress=False)
        np.testing.assert_allclose(history.losses, by_hand([np.arange(22)] * 2)[0], rtol=1e-4)
    strided = np.repeat(X, 2, axis=0)[::2]
    history = make().fit(strided, gt.tensor(Y), shuffle=False, progress=False)
    np.testing.assert_allclose(history.losses, by_hand(batches(np.arange(22)))[0], rtol=1e-4)


def test_a_run_time_batch_needs_one_compiled_step():
    specs = gt.spec(("B", 3), max={"B": 8}), gt.spec(("B",), max={"B": 8})
    train = gt.TrainStep(loss_fn, start(), gt.optim.adam(0.1), *specs)
    history = train.fit(X, Y, batch_size=BATCH, shuffle=False, progress=False)
    losses, _ = by_hand(batches(np.arange(22)))
    np.testing.assert_allclose(history.losses, losses, rtol=1e-4)
    assert list(train._sizes.made.values()) == [train.step]
    assert train(X[:7], Y[:7]) == pytest.approx(train.evaluate(X[:7], Y[:7], batch_size=7), rel=0.5)
    with pytest.raises(OptionError, match="batch_size is not given, and B is known at run time only"):
        train.fit(X, Y, progress=False)
    with pytest.raises(OptionError, match="batch_size is 9, the step was compiled for at most 8"):
        train.fit(X, Y, batch_size=9, progress=False)


def test_rows_that_are_left_need_one_more_step_whatever_their_number():
    train = make()
    for count in (22, 21, 19, 3):
        expected, params = by_hand(batches(np.arange(count)))
        train = make() if count == 22 else train
        train.block.memory[:] = make().block.memory
        history = train.fit(X[:count], Y[:count], shuffle=False, progress=False)
        np.testing.assert_allclose(history.losses, expected, rtol=1e-4)
        np.testing.assert_allclose(train.params["w"], params["w"].numpy(), rtol=1e-4)
        mean = float(np.mean((X[:count] @ train.params["w"] + train.params["b"] - Y[:count]) ** 2))
        assert train.evaluate(X[:count], Y[:count]) == pytest.approx(mean, rel=1e-5)
    assert len(train._sizes.made) == 2 and len(train._losses.made) == 2


def test_a_loss_that_has_to_know_the_number_of_rows_gets_a_step_for_each():
    def by_rows(params, x, y):
        rows = [x[i] @ params["w"] + params["b"] - y[i] for i in range(len(x))]
        return gt.mean(gt.stack(rows) ** 2)

    train = gt.TrainStep(by_rows, start(), gt.optim.adam(0.1), gt.spec((BATCH, 3)), gt.spec((BATCH,)))
    history = train.fit(X, Y, shuffle=False, progress=False)
    np.testing.assert_allclose(history.losses, by_hand(batches(np.arange(22)))[0], rtol=1e-4)
    assert train._sizes.made[2].inputs.rows == 2


def test_the_last_rows_can_be_dropped():
    train = make()
    history = train.fit(X, Y, epochs=2, shuffle=False, drop_last=True, progress=False)
    np.testing.assert_allclose(history.losses, by_hand(batches(np.arange(20)) * 2)[0], rtol=1e-4)
    assert len(train._sizes.made) == 1
    history = make().fit(X, Y, epochs=2, seed=7, drop_last=True, progress=False)
    rng = np.random.default_rng(7)
    losses, _ = by_hand([r for _ in range(2) for r in batches(rng.permutation(22)[:20])])
    np.testing.assert_allclose(history.losses, losses, rtol=1e-4)
    with pytest.raises(OptionError, match="3 rows are no batch of 4, and drop_last leaves them out"):
        train.fit(X[:3], Y[:3], drop_last=True, progress=False)


def test_evaluate_is_the_mean_over_the_rows_and_changes_nothing():
    train = make()
    train(X[:4], Y[:4])
    before = train.block.memory.copy()
    expected = float(np.mean((X @ train.params["w"] + train.params["b"] - Y) ** 2))
    for size in (None, 1, 5, 22, 100):
        assert train.evaluate(X, Y, batch_size=size) == pytest.approx(expected, rel=1e-5)
    assert np.array_equal(train.block.memory, before)


def test_validation_and_callbacks_end_the_training():
    seen = []

    def callback(history):
        seen.append((len(history.losses), len(history.epochs)))
        return len(history.epochs) == 2

    train = make()
    history = train.fit(X, Y, epochs=50, validation=(X[:5], Y[:5]), callback=callback, progress=False)
    assert len(history.epochs) == 2 and len(history.losses) == 12 and seen[-1] == (12, 2)
    assert history.epochs[1].validation == pytest.approx(train.evaluate(X[:5], Y[:5]))


def test_the_learning_rate_can_change():
    train = make(gt.optim.sgd(None), learning_rate=0.0)
    train(X[:4], Y[:4])
    assert train.params["w"].tolist() == [0, 0, 0]
    assert train.learning_rate == 0
    train.learning_rate = 0.1
    assert train(X[:4], Y[:4]) > train(X[:4], Y[:4])
    _, params = by_hand([np.arange(4)] * 2, gt.optim.sgd(0.1))
    np.testing.assert_allclose(train.params["w"], params["w"].numpy(), rtol=1e-5)
    train.learning_rate = 0.05
    assert len(train.fit(X, Y, validation=(X, Y), progress=False).losses) == 6
    with pytest.raises(OptionError, match="learning rate built in"):
        _ = make().learning_rate
    with pytest.raises(OptionError, match="sgd has no learning rate"):
        make(gt.optim.sgd(None))


def test_auxiliary_results_come_with_the_loss():
    def with_aux(params, x, y):
        residual = x @ params["w"] + params["b"] - y
        return gt.mean(residual**2), {"residual": residual, "n": 4}

    train = gt.TrainStep(with_aux, start(), gt.optim.sgd(0.1), gt.spec((4, 3)), gt.spec((4,)), has_aux=True)
    loss, aux = train(X[:4], Y[:4])
    np.testing.assert_allclose(aux["residual"].numpy(), -Y[:4], rtol=1e-6)
    assert loss == pytest.approx(float((Y[:4] ** 2).mean())) and aux["n"].item() == 4
    kept = aux["residual"].tolist()
    history = train.fit(X, Y, validation=(X, Y), progress=False)
    assert len(history.losses) == 6 and aux["residual"].tolist() == kept


def test_arrays_that_fit_go_the_short_way(monkeypatch):
    steps = {
        "plain": make(),
        "rate": make(gt.optim.sgd(None), learning_rate=0.1),
        "aux": gt.TrainStep(
            lambda p, x, y: (loss_fn(p, x, y), y * 2), start(), gt.optim.adam(0.1), X[:4], Y[:4], has_aux=True
        ),
        "tree": gt.TrainStep(lambda p, xy: loss_fn(p, *xy), start(), gt.optim.adam(0.1), (X[:4], Y[:4])),
    }
    expected = {name: by_hand(batches(np.arange(20)), gt.optim.sgd(0.1) if name == "rate" else None) for name in steps}
    monkeypatch.setattr(type(steps["plain"].step), "fit", lambda self, batch: pytest.fail("this is the long way"))
    for name, train in steps.items():
        for at, loss in zip(range(0, 20, BATCH), expected[name][0], strict=True):
            batch = X[at : at + BATCH], gt.tensor(Y[at : at + BATCH])
            found = train(batch) if name == "tree" else train(*batch)
            if name == "aux":
                found, doubled = found
                assert np.array_equal(doubled.numpy(), 2 * Y[at : at + BATCH])
            assert found == pytest.approx(loss, rel=1e-4)
        np.testing.assert_allclose(train.params["w"], expected[name][1]["w"].numpy(), rtol=1e-4)


def test_results_of_the_step_itself_stay():
    train = make()
    first = train.step(X[:4], Y[:4])[0]
    kept = first.item()
    train(X[4:8], Y[4:8])
    train(np.asfortranarray(X[4:8]), Y[4:8])
    train.fit(X, Y, progress=False)
    assert first.item() == kept


def test_a_step_in_another_thread_gets_its_turn_during_fit():
    train = make()
    predict = train.bind(lambda params: params["w"])
    done = []

    def ask():
        done.append(predict())
        done.append(train(np.asfortranarray(X[:4]), Y[:4]))

    other = threading.Timer(0.3, ask)
    other.start()
    train.fit(X, Y, epochs=10_000_000, callback=lambda history: len(done) == 2, progress=False)
    other.join()


def test_frozen_leaves_stay():
    train = make(frozen=lambda path: path == "b")
    train(X[:4], Y[:4])
    assert train.params["b"] == 0 and train.params["w"].any()
    train = make(frozen={"w": True, "b": False})
    train(X[:4], Y[:4])
    assert not train.params["w"].any() and train.params["b"] != 0


def test_functions_bound_to_a_step_see_its_parameters():
    train = make()
    predict = train.bind(lambda params, x: x @ params["w"] + params["b"], gt.spec(("B", 3), max={"B": 32}))
    clear = train.bind(lambda params: ({**params, "b": params["b"] * 0}, None), updates=True)
    train.fit(X, Y, epochs=200, progress=False)
    np.testing.assert_allclose(predict(X).numpy(), Y, atol=0.2)
    clear()
    assert train.params["b"] == 0 and train.params["w"].any() and train.state["optimizer"]["step"] == 1200


def test_data_shared_by_all_batches():
    def weighted(params, x, y, weight):
        return gt.mean(weight * (x @ params["w"] - y) ** 2)

    specs = gt.spec((BATCH, 3)), gt.spec((BATCH,)), gt.spec(())
    train = gt.TrainStep(weighted, start(), gt.optim.sgd(0.1), *specs)
    history = train.fit(X, Y, 2, shuffle=False, progress=False)
    assert history.losses[0] == pytest.approx(2 * float((Y[:4] ** 2).mean()), rel=1e-5)


def test_an_array_with_a_run_time_extent_of_its_own():
    def compared(w, x, table):
        return gt.sum((x * w) ** 2) + gt.sum(table)

    specs = gt.spec(("B", 3), max={"B": 8}), gt.spec(("T",), max={"T": 4})
    train = gt.TrainStep(compared, np.ones(3, np.float32), gt.optim.sgd(0.0), *specs)
    history = train.fit(X, np.ones(3, np.float32), batch_size=8, shuffle=False, progress=False)
    expected = [(X[at : at + 8] ** 2).sum() + 3 for at in (0, 8, 16)]
    np.testing.assert_allclose(history.losses, expected, rtol=1e-5)


def test_a_batch_that_fails_is_named_and_the_ones_before_are_done():
    def embed(params, i):
        return gt.sum(gt.take(params, i, axis=0) ** 2)

    train = gt.TrainStep(embed, np.ones((5, 2), np.float32), gt.optim.sgd(0.1), gt.spec((2,), gt.int64))
    rows = np.array([0, 1, 2, 3, 4, 0, 9, 1, 2, 2])
    with pytest.raises(IndexingError, match=r"take: index 9 is out of range for an axis of 5 \(batch 3 of epoch 0;"):
        train.fit(rows, shuffle=False, progress=False)
    expected = np.ones((5, 2), np.float32) * 0.8
    expected[0] *= 0.8
    np.testing.assert_allclose(train.params, expected, rtol=1e-6)
    before = train.params.copy()
    with pytest.raises(IndexingError, match="index -6 is out of range"):
        train(np.array([1, -6]))
    assert np.array_equal(train.params, before)


def test_an_interrupt_is_served_between_slices(monkeypatch):
    monkeypatch.setattr(loop, "SLICE", 0.001)
    train = make()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            train.fit(X, Y, epochs=10_000_000, progress=False)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, handler)
    steps = int(train.state["optimizer"]["step"])
    assert steps > 0 and np.isfinite(train.params["w"]).all()
    train(X[:4], Y[:4])
    assert train.state["optimizer"]["step"] == steps + 1


def test_slices_grow_towards_their_time():
    pace = loop.Pace()
    pace.measure(1, 1e-6)
    assert pace.steps == loop.GROWTH
    pace.measure(8, 0.8)
    assert pace.steps == 1
    pace.measure(1, 5.0)
    assert pace.steps == 1


def test_the_bar_shows_loss_and_speed(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    make().fit(X, Y, epochs=2)
    last = re.split(r"[\r\n]+", screen.getvalue().strip())[-1]
    assert re.search(r"loss_fn: 100%.* 12/12 .*steps/s, loss [\d.]+", last)
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]+", screen.getvalue()))


def test_wrong_uses():
    train = make()
    with pytest.raises(SignatureError, match=r"train_loss_fn was compiled for x: f32\[4,3\]; this call has f32\[3,3\]"):
        train(X[:3], Y[:3])
    with pytest.raises(SignatureError, match=r"fit of loss_fn takes y: f32\[22\]; this call has f64\[22\]"):
        train.fit(X, Y.astype(np.float64), progress=False)
    with pytest.raises(SignatureError, match=r"y: f32\[22\]; this call has f32\[21\]"):
        train.fit(X, Y[:21], progress=False)
    with pytest.raises(SignatureError, match="y is missing"):
        train.fit(X, progress=False)
    with pytest.raises(ShapeError, match="fit of loss_fn needs data with at least one row"):
        train.fit(X[:0], Y[:0], progress=False)
    for options in ({"epochs": 0}, {"batch_size": -1}, {"batch_size": 2.5}):
        with pytest.raises(OptionError, match="must be a positive integer"):
            train.fit(X, Y, progress=False, **options)
    with pytest.raises(GradError, match="needs a scalar result"):
        gt.TrainStep(lambda w, x: w * x, np.zeros(3, np.float32), gt.optim.sgd(0.1), gt.spec((3,)))
    scalar = gt.TrainStep(lambda w, x: w * x, np.float32(1), gt.optim.sgd(0.1), gt.spec(()))
    with pytest.raises(ShapeError, match="this step takes no array with axes"):
        scalar.fit(np.float32(1), progress=False)

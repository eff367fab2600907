"""What combines optimizers: changes of gradients in a chain, accumulation, parameter groups, moving means of
parameters; eager and compiled, inside `TrainStep`, in small graphs; and wrong use."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtensor as gt
from gtensor.check import check_graph
from gtensor.errors import OptionError, ShapeError
from tests.ways import agreed

RNG = np.random.default_rng(3)


def tree_of(scale=1.0, dtype=np.float64):
    return {
        "encoder": {"w": (scale * RNG.standard_normal((2, 3))).astype(dtype), "b": np.full(3, scale, dtype)},
        "head": {"w": (scale * RNG.standard_normal(4)).astype(dtype)},
    }


def leaves(tree):
    return [x for key in sorted(tree) for x in leaves(tree[key])] if isinstance(tree, dict) else [np.asarray(tree)]


def equal(got, wanted, rtol=1e-12):
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


def run(update, optimizer, params, gradients, **options):
    """The parameters and states after each step."""
    state, history = optimizer.init(params), []
    for grads in gradients:
        params, state = update(params, grads, state, **options)
        history.append((params, state))
    return history


def test_clip_by_value():
    grads = {"a": np.array([-3.0, 0.5, math.inf, math.nan]), "none": None}
    got = agreed(lambda g: gt.optim.clip_by_value(1.0)(None, g), grads)
    np.testing.assert_array_equal(got["a"], [-1, 0.5, 1, math.nan])
    assert got["none"] is None


@pytest.mark.parametrize("limit", [0.5, 3.0, 1e6])
def test_clip_by_global_norm(limit):
    """optax's formula; PyTorch's differs by its 1e-6 in the denominator."""
    grads = tree_of(2.0)
    norm = math.sqrt(sum((x**2).sum() for x in leaves(grads)))
    np.testing.assert_allclose(agreed(gt.optim.global_norm, grads), norm, rtol=1e-12)
    got = agreed(lambda g: gt.optim.clip_by_global_norm(limit)(None, g), grads, rtol=1e-12)
    for a, b in zip(leaves(got), leaves(grads), strict=True):
        np.testing.assert_allclose(a, b if norm <= limit else b * limit / norm, rtol=1e-12)


def test_clip_by_global_norm_at_the_ends():
    clip = gt.optim.clip_by_global_norm(1.0)
    zeros = {"a": np.zeros(3), "b": np.float64(0)}
    equal(agreed(lambda g: clip(None, g), zeros), zeros)
    second = gt.grad(lambda g: gt.sum(clip(None, [g])[0]))(np.zeros(3))
    np.testing.assert_array_equal(second, [1, 1, 1])
    got = agreed(lambda g: clip(None, g), {"a": np.array([1.0, math.nan]), "b": np.ones(2)})
    assert all(np.isnan(x).all() for x in leaves(got))
    got = agreed(lambda g: clip(None, g), {"a": np.array([1.0, math.inf])})
    np.testing.assert_array_equal(got["a"], [0, math.nan])
    assert gt.optim.global_norm({"a": None}).item() == 0
    mixed = clip(None, {"a": np.full(2, 3, np.float32), "b": np.full(2, 4.0)})
    assert (mixed["a"].dtype, mixed["b"].dtype) == (gt.float32, gt.float64)


def test_a_chain_changes_the_gradients_in_order():
    params, gradients = tree_of(), [tree_of(t) for t in (0.1, 3.0, 1.0)]
    limit, decay = 1.5, 0.2
    optimizer = gt.optim.chain(
        gt.optim.clip_by_global_norm(limit), gt.optim.add_decayed_weights(decay), gt.optim.adam(0.1)
    )
    history = run(gt.compile(optimizer.update), optimizer, params, gradients)
    plain = gt.optim.adam(0.1)
    state = plain.init(params)
    assert sorted(history[0][1]) == sorted(state)
    for grads, (got, after) in zip(gradients, history, strict=True):
        factor = min(1, limit / math.sqrt(sum((x**2).sum() for x in leaves(grads))))
        changed = gt.optim.add_decayed_weights(decay)(
            params, {k: {n: x * factor for n, x in v.items()} for k, v in grads.items()}
        )
        params, state = plain.update(params, changed, state)
        equal(got, params, rtol=1e-9)
        equal(after["m"], state["m"], rtol=1e-9)


def test_decayed_weights_are_the_decay_of_sgd():
    params, grads = tree_of(), {**tree_of(), "head": {"w": None}}
    chained = gt.optim.chain(gt.optim.add_decayed_weights(0.3), gt.optim.sgd(0.1, momentum=0.9))
    got, _ = chained.update(params, grads, chained.init(params))
    decayed = gt.optim.sgd(0.1, momentum=0.9, weight_decay=0.3)
    wanted, _ = decayed.update(params, grads, decayed.init(params))
    equal(got["encoder"], wanted["encoder"])
    assert got["head"]["w"] is params["head"]["w"]


def test_a_change_of_ones_own():
    optimizer = gt.optim.chain(lambda params, grads: [-g for g in grads], gt.optim.sgd(1.0))
    (got,), _ = optimizer.update([gt.ones(2)], [gt.ones(2)], {})
    np.testing.assert_array_equal(got, [2, 2])


@pytest.mark.parametrize("compiled", [False, True])
def test_accumulation_steps_by_the_mean_at_every_nth_call(compiled):
    params, gradients = tree_of(), [tree_of(t) for t in range(1, 8)]
    plain, rate = gt.optim.adamw(gt.optim.linear(0.1, 0.0, steps=4)), 3
    optimizer = gt.optim.accumulate(plain, every=rate)
    history = run(gt.compile(optimizer.update) if compiled else optimizer.update, optimizer, params, gradients)
    state, before = plain.init(params), leaves(params)
    for t, (got, after) in enumerate(history, start=1):
        if t % rate:
            for a, b in zip(leaves(got), before, strict=True):
                np.testing.assert_array_equal(a, b)
        else:
            mean = {k: {n: sum(g[k][n] for g in gradients[t - rate : t]) / rate for n in v} for k, v in params.items()}
            params, state = plain.update(params, mean, state)
            equal(got, params, rtol=1e-9)
            equal(after["optimizer"], state, rtol=1e-9)
        before = leaves(got)
        assert (after["calls"].item(), after["optimizer"]["step"].item()) == (t % rate, t // rate)


def test_accumulation_keeps_what_it_must():
    """A NaN in one row of calls is gone after its step is skipped over; frozen and recorded leaves stay such."""
    optimizer = gt.optim.accumulate(gt.optim.sgd(0.5), every=2)
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    params = {"w": w, "frozen": np.ones(2), "n": 3}
    state = optimizer.init(params)
    assert state["sum"]["n"] is None
    for t in range(4):
        grads = {"w": gt.grad(gt.sum(params["w"] * params["w"]), [params["w"]])[0], "frozen": None, "n": None}
        params, state = optimizer.update(params, grads, state)
        assert params["w"].requires_grad and params["w"].record is None
        assert state["sum"]["w"].record is None
        assert params["frozen"].tolist() == [1, 1] and params["n"] == 3
        np.testing.assert_allclose(params["w"].numpy(), [[1, 2], [0, 0]][t > 0])


def test_groups_have_optimizers_of_their_own():
    params, gradients = tree_of(), [tree_of() for _ in range(4)]
    rates = gt.optim.exponential_decay(0.1, 0.5)
    parts = {"*.b": gt.optim.sgd(0.5), "encoder.*": gt.optim.adam(rates), "*": gt.optim.lion(0.01)}
    optimizer = gt.optim.groups(parts)
    for update in (optimizer.update, gt.compile(optimizer.update)):
        got, state = run(update, optimizer, params, gradients)[-1]
        for i, (path, alone) in enumerate(
            [(("encoder", "b"), parts["*.b"]), (("encoder", "w"), parts["encoder.*"]), (("head", "w"), parts["*"])]
        ):
            mine = run(alone.update, alone, params[path[0]][path[1]], [g[path[0]][path[1]] for g in gradients])
            equal(got[path[0]][path[1]], mine[-1][0], rtol=1e-9)
            if i == 1:
                assert state["groups"][1]["m"]["head"]["w"] is None
                equal(state["groups"][1]["m"]["encoder"]["w"], mine[-1][1]["m"], rtol=1e-9)


def test_frozen_groups_stay():
    params = {**tree_of(), "count": 3}
    optimizer = gt.optim.groups({lambda path: path.startswith("encoder"): None, "*": gt.optim.adam(0.1)})
    state = optimizer.init(params)
    assert state["groups"][0] is None
    got, after = optimizer.update(params, {**tree_of(), "count": None}, state)
    assert got["encoder"]["w"] is params["encoder"]["w"] and got["count"] == 3
    assert (got["head"]["w"].numpy() != params["head"]["w"]).all()
    assert after["groups"][0] is None
    got, _ = optimizer.update(params, {**tree_of(), "count": None}, state, learning_rate=0.0)
    equal(got["head"], params["head"])


def test_groups_refuse_what_would_train_or_freeze_nothing():
    params = tree_of()
    with pytest.raises(OptionError, match=r"no parameter fits 'encodr\.\*'"):
        gt.optim.groups({"encodr.*": None, "*": gt.optim.sgd(0.1)}).init(params)
    with pytest.raises(OptionError, match=r"encoder\.b fits no pattern"):
        gt.optim.groups({"*.w": gt.optim.sgd(0.1)}).init(params)
    with pytest.raises(OptionError, match="needs a pattern"):
        gt.optim.groups({})
    one = gt.optim.groups({"*": gt.optim.sgd(0.1)})
    with pytest.raises(ShapeError, match="of 2 groups, not of 1"):
        one.update(params, params, {"groups": [{}, {}]})
    with pytest.raises(OptionError, match="no 'groups'"):
        one.update(params, params, {})
    with pytest.raises(ShapeError, match="grads does not have the structure"):
        one.update(params, {}, one.init(params))


@pytest.mark.parametrize("decay, debias", [(0.9, False), (0.0, False), (0.9, True), (0.999, True)])
def test_moving_means(decay, debias):
    """PyTorch's get_ema_avg_fn from the first parameters on; optax's debiased mean of those that came after."""
    average, values = gt.optim.ema(decay, debias), [RNG.standard_normal(3) for _ in range(12)]
    state = average.init(values[0])
    mean, mass = (0.0, 0.0) if debias else (values[0], 1.0)
    update = gt.compile(average.update)
    for value in values[1:]:
        mean, mass = decay * mean + (1 - decay) * value, decay * mass + (1 - decay)
        eager = average.update(value, state)
        state = update(value, state)
        np.testing.assert_allclose(state["average"], mean / mass, rtol=1e-10)
        np.testing.assert_allclose(eager["average"], mean / mass, rtol=1e-10)


def test_the_mean_of_what_does_not_change_is_itself_to_the_bit():
    params = {"w": RNG.standard_normal(1000).astype(np.float32), "n": np.array([3]), "name": "mlp"}
    average = gt.optim.ema(0.9999)
    state = average.init(params)
    assert not np.shares_memory(state["average"]["w"].numpy(), params["w"])
    for _ in range(50):
        state = average.update(params, state)
    np.testing.assert_array_equal(state["average"]["w"], params["w"])
    assert state["average"]["n"].tolist() == [3] and state["average"]["name"] == "mlp"
    w = gt.tensor([1.0], requires_grad=True)
    after = average.update([w], average.init([w]))["average"][0]
    assert after.record is None and not after.requires_grad


def test_a_chain_keeps_the_mean_behind_its_optimizer():
    params, gradients = tree_of(), [tree_of() for _ in range(5)]
    sgd, average = gt.optim.sgd(0.1), gt.optim.ema(0.8)
    optimizer = gt.optim.chain(sgd, average)
    history = run(gt.compile(optimizer.update), optimizer, params, gradients)
    state = average.init(params)
    for grads, (got, after) in zip(gradients, history, strict=True):
        params, _ = sgd.update(params, grads, {})
        state = average.update(params, state)
        equal(got, params, rtol=1e-9)
        equal(after["ema"], state, rtol=1e-9)


def test_everything_at_once_trains_in_one_compiled_step():
    x = RNG.standard_normal((64, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5], np.float32) + 0.25

    def loss_fn(params, x, y):
        return gt.nn.mse_loss(x @ params["w"] + params["b"], y)

    def build():
        rates = gt.optim.warmup_cosine(0.2, warmup=10, steps=200)
        parts = gt.optim.groups({"b": gt.optim.rmsprop(rates, centered=True), "*": gt.optim.adamw(rates)})
        parts = gt.optim.chain(gt.optim.clip_by_global_norm(1.0), parts, gt.optim.ema(0.9, debias=True))
        return gt.optim.accumulate(parts, every=2)

    start = {"w": np.zeros(3, np.float32), "b": np.float32(0)}
    train = gt.TrainStep(loss_fn, start, build(), gt.spec((16, 3)), gt.spec((16,)))
    params, optimizer = start, build()
    state = optimizer.init(params)
    for t in range(6):
        rows = slice(16 * (t % 4), 16 * (t % 4) + 16)
        params, state = optimizer.update(params, gt.grad(loss_fn)(params, x[rows], y[rows]), state)
        train(x[rows], y[rows])
    np.testing.assert_allclose(train.params["w"], params["w"].numpy(), rtol=1e-5)
    history = train.fit(x, y, epochs=100, progress=False)
    assert history.losses[-1] < 1e-3 * history.losses[0]
    mean = train.state["optimizer"]["optimizer"]["ema"]["average"]
    np.testing.assert_allclose(mean["w"], [1, -2, 0.5], atol=0.02)
    assert train.state["optimizer"]["optimizer"]["groups"][0]["step"] == 203


@pytest.mark.parametrize(
    "optimizer, scalars, arrays",
    [
        (gt.optim.sgd(gt.optim.one_cycle(0.1, 100), momentum=0.9), 17, 5),
        (gt.optim.adamw(gt.optim.warmup_cosine(0.1, 10, 100)), 27, 18),
        (gt.optim.adam(gt.optim.cosine_decay(0.1, 100), amsgrad=True), 20, 16),
        (gt.optim.rmsprop(1e-3), 0, 9),
        (gt.optim.lion(1e-3), 0, 9),
        (gt.optim.chain(gt.optim.clip_by_global_norm(1.0), gt.optim.sgd(0.1)), 6, 5),
        (gt.optim.chain(gt.optim.sgd(0.1), gt.optim.ema(0.9, debias=True)), 7, 6),
        (gt.optim.accumulate(gt.optim.sgd(0.1), every=4), 3, 8),
    ],
)
def test_scalar_work_is_shared_among_leaves(optimizer, scalars, arrays):
    """Equations of a step: those of the step alone are there once for all leaves, the others once for each."""

    def equations(count):
        params = [gt.spec((5,))] * count
        graph = gt.trace(optimizer.update, params, params, optimizer.init([np.ones(5, np.float32)] * count))
        check_graph(graph)
        shapes = [eqn.outs[0].type.shape for eqn in graph.eqns]
        gathered = 2 * count - 1 if "sum" in {eqn.prim.name for eqn in graph.eqns} else 0
        return shapes.count(()) - gathered, shapes.count((5,))

    for count in (2, 7):
        few, many = equations(count)
        assert few <= scalars
        assert many <= arrays * count


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: gt.optim.chain(gt.optim.clip_by_value(1.0)), "needs one optimizer among its parts, not 0"),
        (lambda: gt.optim.chain(gt.optim.sgd(0.1), gt.optim.sgd(0.1)), "not 2"),
        (lambda: gt.optim.chain(gt.optim.sgd(0.1), gt.optim.clip_by_value(1.0)), "only ema may stand behind"),
        (lambda: gt.optim.chain(gt.optim.ema(0.9), gt.optim.sgd(0.1)), "must be functions"),
        (lambda: gt.optim.chain(gt.optim.sgd(0.1), gt.optim.ema(0.9), gt.optim.ema(0.9)), "one ema"),
        (
            lambda: gt.optim.chain(gt.optim.chain(gt.optim.sgd(0.1), gt.optim.ema(0.9)), gt.optim.ema(0.9)),
            "one ema",
        ),
        (lambda: gt.optim.clip_by_value(-1.0), "clip_by_value: limit"),
        (lambda: gt.optim.clip_by_global_norm(math.nan), "clip_by_global_norm: limit"),
        (lambda: gt.optim.add_decayed_weights(-1.0), "weight_decay must be in"),
        (lambda: gt.optim.ema(1.0), "ema: decay must be in"),
        (lambda: gt.optim.ema(0.0, debias=True), "no bias to correct"),
        (lambda: gt.optim.accumulate(gt.optim.sgd(0.1), every=0), "every must be at least 1"),
        (lambda: gt.optim.linear(0.1, 0.0, steps=0), "linear: steps must be in"),
        (lambda: gt.optim.cosine_decay(0.1, steps=0), "cosine_decay: steps must be in"),
        (lambda: gt.optim.warmup_cosine(0.1, warmup=5, steps=5), "must end before step 5"),
        (lambda: gt.optim.exponential_decay(0.1, 0.0), "factor must be positive"),
        (lambda: gt.optim.step_decay(0.1, 0.5, every=0), "step_decay: every must be in"),
        (lambda: gt.optim.one_cycle(0.1, steps=1), "no steps down"),
        (lambda: gt.optim.one_cycle(0.1, steps=9, pct_start=1.0), "pct_start must be in"),
        (lambda: gt.optim.one_cycle(0.1, steps=9, div_factor=0.0), "must be positive"),
    ],
)
def test_wrong_options_are_refused(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_rates_that_do_not_fit_are_refused():
    w = gt.ones(2)
    with pytest.raises(ShapeError, match=r"the learning rate must be a scalar, not f32\[2\]"):
        gt.optim.sgd(gt.ones(2)).update(w, w, {})
    with pytest.raises(OptionError, match="a schedule is given to the optimizer, not to update"):
        gt.optim.sgd().update(w, w, {}, gt.optim.constant(0.1))
    with pytest.raises(OptionError, match="the state has no 'step'"):
        gt.optim.sgd(gt.optim.constant(0.1)).update(w, w, {})
    optimizer = gt.optim.chain(gt.optim.sgd(0.1), gt.optim.ema(0.9))
    with pytest.raises(OptionError, match="the state has no 'ema'"):
        optimizer.update(w, w, {})
    with pytest.raises(ShapeError, match="average"):
        optimizer.update(w, w, {"ema": {"average": gt.ones(3)}})

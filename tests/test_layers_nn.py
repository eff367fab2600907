"""Layers as modules: parameters by name, values of the functions, PyTorch's attention, dropout, use in training.

`reference/torch_nn.json` holds PyTorch's results, and `reference/torch_nn.py` says how they were made.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor import tree
from gtensor.errors import OptionError, ShapeError
from tests.values import close, same
from tests.ways import agreed

REFERENCE = json.loads((Path(__file__).parent / "reference" / "torch_nn.json").read_text(encoding="utf-8"))
KEY = gt.random.key(7)


def normal(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arrays(nested, dtype=np.float64):
    if isinstance(nested, dict):
        return {name: arrays(part, dtype) for name, part in nested.items()}
    array = np.array(nested)
    return array if array.dtype == bool else array.astype(dtype)


def names(params):
    """The path and the shape of each parameter."""
    leaves, structure = tree.flatten(params)
    return {path: leaf.shape for path, leaf in zip(tree.paths(structure), leaves, strict=True)}


# ---- parameters ------------------------------------------------------------------------------------------

LAYERS = {
    "linear": (gt.nn.Linear(3, 4), (5, 3), {"w": (3, 4), "b": (4,)}),
    "linear without bias": (gt.nn.Linear(3, 4, bias=False), (5, 3), {"w": (3, 4)}),
    "layer norm": (gt.nn.LayerNorm(3), (2, 5, 3), {"w": (3,), "b": (3,)}),
    "rms norm": (gt.nn.RMSNorm(3), (2, 5, 3), {"w": (3,)}),
    "dropout": (gt.nn.Dropout(0.5), (5, 3), {}),
    "attention": (
        gt.nn.MultiHeadAttention(4, heads=2), (2, 5, 4),
        {"qkv.w": (4, 12), "qkv.b": (12,), "out.w": (4, 4), "out.b": (4,)},
    ),
    "attention without bias": (
        gt.nn.MultiHeadAttention(4, heads=1, causal=True, bias=False), (5, 4), {"qkv.w": (4, 12), "out.w": (4, 4)},
    ),
    "sequence": (
        gt.nn.Sequential(gt.nn.Linear(3, 4), gt.gelu, gt.nn.Sequential(gt.nn.LayerNorm(4), gt.nn.Dropout(0.1))), (5, 3),
        {"0.w": (3, 4), "0.b": (4,), "2.0.w": (4,), "2.0.b": (4,)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_have_names_and_layers_run_every_way(name):
    layer, shape, wanted = LAYERS[name]
    params = layer.init(KEY)
    assert names(params) == wanted
    found = agreed(layer, params, normal(0, *shape), atol=1e-6)
    assert found.dtype == np.float32
    same(found, layer.apply(params, normal(0, *shape)))
    wide = layer.init(KEY, "float64")
    assert {leaf.dtype for leaf in tree.flatten(wide)[0]} <= {gt.float64}
    if wanted:
        gt.check_grads(layer, (wide, normal(1, *shape, dtype=np.float64)))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_values_and_static_arguments(name):
    layer, shape, _ = LAYERS[name]
    assert layer == layer and hash(layer) == hash(layer) and layer != gt.nn.Linear(1, 1)
    params, x = layer.init(KEY), normal(0, *shape)
    close(gt.compile(lambda layer, params, x: layer(params, x))(layer, params, x), layer(params, x), atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_a_batch_known_at_run_time(name):
    layer, shape, _ = LAYERS[name]
    params = layer.init(KEY)
    run = gt.compile(layer).trace(params, gt.spec(("B", *shape), max={"B": 4})).lower().compile()
    for count in (1, 3):
        x = normal(count, count, *shape)
        close(run(params, x), layer(params, x), atol=2e-6)


def test_parameters_follow_their_key_and_initializer():
    layer = gt.nn.Linear(400, 100)
    w = layer.init(KEY)["w"].numpy()
    same(w, layer.init(KEY)["w"])
    assert (w != layer.init(gt.random.key(8))["w"].numpy()).any()
    assert abs(w.std() - 1 / 20) < 1e-3 and abs(w.mean()) < 1e-3
    he = gt.nn.Linear(400, 100, initializer=gt.nn.initializers.he_uniform).init(KEY)["w"].numpy()
    assert abs(he.std() - (2 / 400) ** 0.5) < 1e-3
    parts = gt.nn.MultiHeadAttention(4, 1).init(KEY)
    first, second = gt.nn.Sequential(gt.nn.Linear(4, 4), gt.nn.Linear(4, 4)).init(KEY)
    assert (first["w"] != second["w"]).any() and (parts["qkv"]["w"][:, :4] != parts["out"]["w"]).any()


def test_a_sequence_is_its_layers_one_after_another():
    model = gt.nn.Sequential(gt.nn.Linear(3, 4), gt.tanh, gt.nn.Linear(4, 2))
    params, x = model.init(KEY), normal(0, 5, 3)
    wanted = gt.nn.linear(gt.tanh(gt.nn.linear(x, params[0]["w"], params[0]["b"])), params[2]["w"], params[2]["b"])
    same(model(params, x), wanted)
    same(gt.nn.Sequential()((), x), x)
    with pytest.raises(ShapeError, match="parameters of 2 layers, not of 3"):
        model(params[:2], x)


def test_embedding_rows_and_their_gradient():
    layer, ids = gt.nn.Embedding(5, 3), np.array([[1, 1, 4]])
    params = layer.init(KEY)
    same(agreed(layer, params, ids), params["w"].numpy()[ids])
    slope = agreed(gt.grad(lambda params: gt.sum(layer(params, ids))), params)
    assert slope["w"].sum(1).tolist() == [0, 6, 0, 0, 3]


# ---- attention -------------------------------------------------------------------------------------------

CAUSAL = gt.nn.MultiHeadAttention(6, heads=2, causal=True)
ATTENTION = {
    "self": lambda layer, r: layer(r["params"], r["x"]),
    "causal": lambda layer, r: CAUSAL(r["params"], r["x"]),
    "other": lambda layer, r: layer(r["params"], r["x"], context=r["context"]),
    "with added": lambda layer, r: layer.apply(r["params"], r["x"], context=r["context"], mask=r["added"]),
    "with padding": lambda layer, r: layer.apply(
        r["params"], r["x"], context=r["context"], mask=~gt.asarray(r["padding"])[:, None, None, :]
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("dtype, bound", [("float64", 1e-12), ("float32", 1e-5)])
def test_attention_is_pytorchs(name, dtype, bound):
    reference = arrays(REFERENCE["attention"], dtype)
    found = agreed(lambda r: ATTENTION[name](gt.nn.MultiHeadAttention(6, heads=2), r), reference, atol=2e-6)
    np.testing.assert_allclose(found, reference[name], rtol=bound, atol=bound)


@pytest.mark.parametrize("name", ["causal", "with added", "with padding"])
def test_attention_has_right_derivatives(name):
    reference = arrays(REFERENCE["attention"])
    moved = {part: reference[part] for part in ("params", "x", "context", "added")}
    layer = gt.nn.MultiHeadAttention(6, heads=2)
    gt.check_grads(lambda r: ATTENTION[name](layer, {**r, "padding": reference["padding"]}), (moved,))


def test_what_a_mask_hides_has_no_part():
    reference = arrays(REFERENCE["attention"])
    changed = reference["context"].copy()
    changed[reference["padding"]] = 1e3
    layer = gt.nn.MultiHeadAttention(6, heads=2)

    def run(context):
        return ATTENTION["with padding"](layer, {**reference, "context": context})

    close(run(changed), reference["with padding"], rtol=1e-12)
    slopes = agreed(gt.grad(lambda context: gt.sum(run(context) ** 2)), reference["context"], atol=1e-9)
    assert not slopes[reference["padding"]].any() and slopes[~reference["padding"]].all()


def test_heads_that_serve_several_queries():
    q, k, v = normal(0, 2, 6, 4, 3), normal(1, 2, 2, 5, 3), normal(2, 2, 2, 5, 7)

    def shared(q, k, v):
        return gt.nn.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    wide = [part.repeat(3, axis=1) for part in (k, v)]
    close(agreed(shared, q, k, v), gt.nn.scaled_dot_product_attention(q, *wide), rtol=1e-12)
    gt.check_grads(shared, (q, k, v))
    with pytest.raises(ShapeError, match="no heads that divide"):
        shared(q, k[:, :1].repeat(4, axis=1), v)
    with pytest.raises(ShapeError, match="no heads"):
        shared(q[0, 0], k[0, 0], v[0, 0])


def test_attention_refuses():
    w = gt.ones((4, 12))
    with pytest.raises(OptionError, match="4 features cannot be divided among 3 heads"):
        gt.nn.multi_head_attention(gt.ones((2, 4)), w, gt.eye(4), 3)
    with pytest.raises(OptionError, match="divided"):
        gt.nn.MultiHeadAttention(4, 3)
    with pytest.raises(ShapeError, match=r"must be \[E, 3E\]"):
        gt.nn.multi_head_attention(gt.ones((2, 3)), w, gt.eye(4), 2)
    with pytest.raises(ShapeError):
        gt.nn.multi_head_attention(gt.ones((2, 4)), w, gt.eye(4), 2, context=gt.ones((2, 3)))
    with pytest.raises(ShapeError):
        gt.nn.multi_head_attention(gt.ones(4), w, gt.eye(4), 2)


# ---- normalization and dropout ---------------------------------------------------------------------------


def test_rms_norm_is_pytorchs():
    reference = arrays(REFERENCE["rms_norm"])
    x, w = reference["x"], reference["weight"]
    np.testing.assert_allclose(agreed(gt.nn.rms_norm, x), reference["plain"], rtol=1e-12)
    found = agreed(lambda x, w: gt.nn.rms_norm(x, w, eps=0.1), x, w)
    np.testing.assert_allclose(found, reference["weighted"], rtol=1e-12)
    gt.check_grads(lambda x, w: gt.nn.rms_norm(x, w, eps=0.1), (x, w), order=2)
    same(gt.nn.rms_norm(np.zeros((2, 3), np.float32)), np.zeros((2, 3), np.float32))


def test_rms_norm_refuses():
    with pytest.raises(ShapeError, match="rms_norm: weight"):
        gt.nn.rms_norm(gt.ones((2, 3)), gt.ones(2))
    with pytest.raises(OptionError, match="eps"):
        gt.nn.rms_norm(gt.ones(3), eps=-1.0)


def test_dropout_only_while_training_and_the_same_in_both_passes():
    layer, x = gt.nn.Dropout(0.25), np.full((100, 100), 2, np.float32)
    same(layer({}, x), x)
    same(layer({}, x, KEY), x)
    same(gt.nn.Dropout(0.0)({}, x, training=True), x)
    dropped = agreed(lambda x, key: layer({}, x, key, training=True), x, KEY)
    slope = agreed(gt.grad(lambda x, key: gt.sum(layer({}, x, key, training=True) ** 2)), x, KEY)
    assert abs((dropped != 0).mean() - 0.75) < 0.02
    np.testing.assert_allclose(slope, 2 * dropped / 0.75, rtol=1e-6)


def test_dropout_refuses():
    for wrong in (-0.1, 1.5):
        with pytest.raises(OptionError, match="rate must be in"):
            gt.nn.Dropout(wrong)
    with pytest.raises(OptionError, match="drawn from a key"):
        gt.nn.Dropout(0.5)({}, gt.ones(3), training=True)


def test_a_sequence_gives_each_layer_a_key_of_its_own():
    model = gt.nn.Sequential(gt.nn.Dropout(0.5), gt.nn.Dropout(0.5))
    params, x = model.init(KEY), np.ones(4000, np.float32)
    same(model(params, x, KEY), x)
    found = agreed(lambda x, key: model(params, x, key, training=True), x, KEY)
    assert abs((found != 0).mean() - 0.25) < 0.03
    with pytest.raises(OptionError, match="key"):
        model(params, x, training=True)


# ---- training --------------------------------------------------------------------------------------------


def test_sizes_are_positive():
    for make in (
        lambda: gt.nn.Linear(0, 1), lambda: gt.nn.Embedding(3, -1), lambda: gt.nn.LayerNorm(1.5),
        lambda: gt.nn.RMSNorm(0), lambda: gt.nn.MultiHeadAttention(4, 0),
    ):  # fmt: skip
        with pytest.raises(OptionError, match="must be a positive integer"):
            make()


def test_a_model_with_dropout_trains_in_one_compiled_step():
    model = gt.nn.Sequential(gt.nn.Linear(2, 32), gt.gelu, gt.nn.Dropout(0.1), gt.nn.Linear(32, 1))
    x = normal(0, 64, 2)
    y = x[:, :1] * x[:, 1:]

    def loss(params, x, y, key):
        return gt.nn.mse_loss(model(params, x, key, training=True), y)

    train = gt.TrainStep(
        loss, model.init(KEY), gt.optim.adam(1e-2), *map(gt.spec, (x.shape, y.shape)), gt.spec(2, "int32")
    )
    losses = [train(x, y, gt.random.fold_in(KEY, step)) for step in range(300)]
    clean = gt.nn.mse_loss(model(train.params, x), y).item()
    assert clean < 0.1 * losses[0] and clean < np.mean(losses[-20:])


def test_layers_that_draw_nothing_need_no_key():
    for layer in (gt.nn.LayerNorm(3), gt.nn.RMSNorm(3), gt.nn.Dropout(0.5)):
        without, given = layer.init(), layer.init(gt.random.key(0))
        assert {name: leaf.tolist() for name, leaf in without.items()} == {k: v.tolist() for k, v in given.items()}
    assert gt.nn.LayerNorm(3).init(dtype="float64")["w"].dtype == gt.float64

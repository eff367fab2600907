"""Files of arrays: a run that is resumed has the bits of one that never stopped, and a file that does not fit is
refused with every difference named. `reference/torch_mlp.py` says where the PyTorch weights come from.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor import arrays_file
from gtensor.errors import FileError, MissingPackageError
from tests.values import close, same

REFERENCE = Path(__file__).parent / "reference" / "torch_mlp.safetensors"

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((24, 6)).astype(np.float32), RNG.integers(0, 3, 24)


def params(hidden=8):
    first, second = gt.nn.Linear(6, hidden).init(gt.random.key(1)), gt.nn.Linear(hidden, 3).init(gt.random.key(2))
    return {"first": first, "second": second}


def loss(p, x, y):
    h = gt.tanh(x @ p["first"]["w"] + p["first"]["b"])
    return gt.nn.cross_entropy(h @ p["second"]["w"] + p["second"]["b"], y)


def dropping(p, x, y, key):
    h = gt.nn.dropout(gt.tanh(x @ p["first"]["w"] + p["first"]["b"]), 0.5, key)
    return gt.nn.cross_entropy(h @ p["second"]["w"] + p["second"]["b"], y)


def trainer(optimizer, hidden=8, **options):
    return gt.TrainStep(loss, params(hidden), optimizer, gt.spec((8, 6)), gt.spec((8,), gt.int64), **options)


def batches(steps, start=0):
    for i in range(start, start + steps):
        rows = slice(8 * (i % 3), 8 * (i % 3) + 8)
        yield X[rows], Y[rows]


def leaves(train):
    return gt.tree.flatten(train.state)[0]


@pytest.mark.parametrize(
    "optimizer",
    [
        gt.optim.sgd(0.1),
        gt.optim.sgd(0.1, momentum=0.9),
        gt.optim.adam(0.01),
        gt.optim.adamw(gt.optim.cosine_decay(0.01, 12), weight_decay=0.1),
    ],
    ids=["sgd", "momentum", "adam", "schedule"],
)
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(optimizer, tmp_path):
    whole, first = trainer(optimizer), trainer(optimizer)
    expected = [whole(*batch) for batch in batches(12)]
    found = [first(*batch) for batch in batches(5)]
    first.checkpoint(tmp_path / "run.safetensors")
    second = trainer(optimizer)
    assert second.restore(tmp_path / "run.safetensors") == {}
    found += [second(*batch) for batch in batches(7, 5)]
    assert found == expected
    for a, b in zip(leaves(second), leaves(whole), strict=True):
        same(a, b)


def test_resuming_with_dropout_and_its_key(tmp_path):
    def make():
        specs = gt.spec((8, 6)), gt.spec((8,), gt.int64), gt.random.key(0)
        return gt.TrainStep(dropping, params(), gt.optim.adam(0.01), *specs)

    def run(train, key, steps, start=0):
        losses = []
        for batch in batches(steps, start):
            key, drawn = gt.random.split(key)
            losses.append(train(*batch, drawn))
        return losses, key

    whole, first, second = make(), make(), make()
    expected, _ = run(whole, gt.random.key(7), 10)
    begun, key = run(first, gt.random.key(7), 4)
    first.checkpoint(tmp_path / "run", key=key, epoch=4)
    extra = second.restore(tmp_path / "run")
    rest, _ = run(second, gt.tensor(extra["key"]), 6, int(extra["epoch"]))
    assert begun + rest == expected
    for a, b in zip(leaves(second), leaves(whole), strict=True):
        same(a, b)


def test_the_learning_rate_that_was_set_is_kept(tmp_path):
    first, second = trainer(gt.optim.sgd(0.1), learning_rate=0.1), trainer(gt.optim.sgd(0.1), learning_rate=0.5)
    first.learning_rate = 0.025
    first.checkpoint(tmp_path / "run")
    second.restore(tmp_path / "run")
    assert second.learning_rate == 0.025
    batch = next(batches(1))
    first(*batch), second(*batch)
    for a, b in zip(leaves(second), leaves(first), strict=True):
        same(a, b)


def test_state_of_every_dtype_and_shape(tmp_path):
    state = {
        "float": gt.tensor([[1.5, -0.0, gt.nan]]), "double": gt.tensor(1e300, gt.float64), "empty": gt.zeros((0, 3)),
        "int": gt.tensor([2**62, -1]), "small": gt.tensor([255], gt.uint8), "flag": gt.tensor([True, False]),
        "narrow": gt.tensor([-7], gt.int32),
    }  # fmt: skip

    def step(s):
        return {**s, "float": s["float"] + 1}, None

    first, second = gt.Resident(step, state, []), gt.Resident(step, state, [])
    first()
    first.checkpoint(tmp_path / "s")
    second.restore(tmp_path / "s")
    for name, array in first.state.items():
        same(second.state[name], array)


# ---- what does not fit -------------------------------------------------------------------------------------


def test_a_changed_architecture_is_an_error_that_names_each_difference(tmp_path):
    trainer(gt.optim.adam(), hidden=8).checkpoint(tmp_path / "run")
    other = trainer(gt.optim.sgd(0.1), hidden=9)
    before = [leaf.copy() for leaf in leaves(other)]
    with pytest.raises(FileError) as caught:
        other.restore(tmp_path / "run")
    text = str(caught.value)
    assert "params.first.w is f32[6,8] in the file, here f32[6,9]" in text
    assert "params.second.w is f32[8,3] in the file, here f32[9,3]" in text
    assert "optimizer.m.first.w is not part of it" in text and "params.second.b" not in text
    for a, b in zip(leaves(other), before, strict=True):
        same(a, b)


def test_a_missing_leaf_is_named(tmp_path):
    train = trainer(gt.optim.sgd(0.1))
    gt.save_arrays(tmp_path / "run", {"params": {"first": params()["first"]}})
    with pytest.raises(FileError, match=r"params\.second\.w is missing"):
        train.restore(tmp_path / "run")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "header", "empty", "text"])
def test_a_damaged_file_is_refused_and_nothing_changes(damage, tmp_path):
    path, train = tmp_path / "run", trainer(gt.optim.adam(0.01))
    train.checkpoint(path)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[-5] ^= 4
    elif damage == "header":
        data[20] ^= 4
    path.write_bytes({"truncated": data[:-9], "empty": b"", "text": b"not a file of arrays"}.get(damage, data))
    before = [leaf.copy() for leaf in leaves(train)]
    with pytest.raises(FileError):
        train.restore(path)
    for a, b in zip(leaves(train), before, strict=True):
        same(a, b)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        trainer(gt.optim.sgd(0.1)).restore(tmp_path / "run")
    with pytest.raises(FileNotFoundError):
        gt.save_arrays(tmp_path / "no folder" / "run", {"w": gt.ones(2)})


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "run"
    gt.save_arrays(path, {"w": gt.ones(2)})
    before = path.read_bytes()
    for name in ("fsync", "replace"):
        with monkeypatch.context() as broken:

            def full(*args):
                raise OSError(28, "No space left on device")

            broken.setattr(os, name, full)
            with pytest.raises(OSError, match="No space"):
                gt.save_arrays(path, {"w": gt.zeros(2)})
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["run"]


def test_permissions_are_those_of_any_file(tmp_path):
    (tmp_path / "plain").write_text("")
    gt.save_arrays(tmp_path / "new", {"w": gt.ones(2)})
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "new").chmod(0o600)
    gt.save_arrays(tmp_path / "new", {"w": gt.zeros(2)})
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_what_is_no_array(tmp_path):
    with pytest.raises(FileError, match="b is str, which is no array"):
        gt.save_arrays(tmp_path / "f", {"a": gt.ones(2), "b": "text"})
    with pytest.raises(FileError, match="two arrays have the name 'x'"):
        gt.save_arrays(tmp_path / "f", {"a": gt.ones(2), "b": gt.ones(2)}, names=lambda path: "x")
    with pytest.raises(FileError, match=r"names: the tree has no c(.|\n)*hint: it has a, b"):
        gt.save_arrays(tmp_path / "f", {"a": gt.ones(2), "b": gt.ones(2)}, names={"c": "d"})
    with pytest.raises(FileError, match="only a matrix"):
        gt.save_arrays(tmp_path / "f", {"a": gt.ones(2)}, names={"a": "a.T"})
    assert not os.listdir(tmp_path)


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(MissingPackageError, match=r'pip install "gtensor\[io\]"'):
        gt.save_arrays(tmp_path / "f", {"a": gt.ones(2)})


# ---- weights from elsewhere --------------------------------------------------------------------------------


def test_a_classifier_of_pytorch_gives_its_logits():
    names = {
        "first.w": "0.weight.T", "first.b": "0.bias", "norm.w": "2.weight", "norm.b": "2.bias",
        "second.w": "3.weight.T", "second.b": "3.bias",
    }  # fmt: skip
    like = {
        "first": gt.nn.Linear(8, 16).init(gt.random.key(0)), "norm": gt.nn.LayerNorm(16).init(gt.random.key(0)),
        "second": gt.nn.Linear(16, 4).init(gt.random.key(0)),
    }  # fmt: skip
    p = gt.load_arrays(REFERENCE, like, names=names)
    stored = json.loads(REFERENCE.with_suffix(".json").read_text(encoding="utf-8"))

    def logits(p, x):
        h = gt.gelu(gt.nn.Linear(8, 16)(p["first"], x))
        return gt.nn.Linear(16, 4)(p["second"], gt.nn.LayerNorm(16)(p["norm"], h))

    x = np.array(stored["x"], np.float32)
    close(logits(p, x), stored["logits"], 1e-6, 1e-6)
    close(gt.compile(logits)(p, x), stored["logits"], 1e-6, 1e-6)


def test_a_file_saved_under_other_names_is_read_by_others(tmp_path):
    w, b = RNG.standard_normal((2, 3)).astype(np.float32), np.arange(3.0, dtype=np.float32)
    gt.save_arrays(tmp_path / "f", {"w": w, "b": b}, names=lambda path: {"w": "fc.weight.T", "b": "fc.bias"}[path])
    from safetensors.numpy import load_file

    held = load_file(tmp_path / "f")
    assert sorted(held) == ["fc.bias", "fc.weight"]
    same(held["fc.weight"], w.T)
    same(held["fc.bias"], b)


def test_a_file_of_others_is_read_and_widened(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.array([1, 2], np.int32), "h": np.array([0.5, 65504], np.float16)}, tmp_path / "f")
    found = gt.load_arrays(tmp_path / "f", {"a": gt.spec((2,), gt.int64), "h": gt.spec((2,))})
    assert found["a"].dtype == gt.int64 and found["a"].tolist() == [1, 2]
    assert found["h"].dtype == gt.float32 and found["h"].tolist() == [0.5, 65504]
    with pytest.raises(FileError) as caught:
        gt.load_arrays(tmp_path / "f", {"a": gt.spec((2,)), "h": gt.spec((3,)), "c": gt.spec(())})
    text = str(caught.value)
    assert "a is i32[2]: a needs f32[2]" in text and "h needs f32[3]" in text
    assert "c is missing: c needs f32[]" in text and "the file has a, h" in text


def test_the_digest_covers_names_types_and_contents():
    arrays = {"a": np.zeros(2, np.float32)}
    others = (
        {"b": arrays["a"]},
        {"a": np.zeros(2, np.int32)},
        {"a": np.zeros((1, 2), np.float32)},
        {"a": arrays["a"] + 1},
    )
    assert len({arrays_file._digest(a) for a in (arrays, *others)}) == 5


def test_arrays_of_every_dtype_and_byte_order(tmp_path):
    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()
    arrays = {name: gt.tensor([0, 1, 1], name) for name in names}
    gt.save_arrays(tmp_path / "f", {**arrays, "swapped": np.array([1.5, -2.0], ">f4")})
    found = gt.load_arrays(tmp_path / "f", {**arrays, "swapped": gt.spec((2,))})
    for name in names:
        assert found[name].dtype == arrays[name].dtype and found[name].astype("float64").tolist() == [0, 1, 1], name
    assert found["swapped"].tolist() == [1.5, -2] and not found["swapped"].numpy().flags.writeable


def test_a_dtype_that_gtensor_has_not_is_in_nobodys_way(tmp_path):
    header = {
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "q": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [8, 11]},
    }
    text = json.dumps(header).encode()
    data = np.ones(2, np.float32).tobytes() + b"\x01\x02\x03"
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text + data)
    assert gt.load_arrays(tmp_path / "f", {"w": gt.spec((2,))})["w"].tolist() == [1, 1]
    with pytest.raises(FileError, match="q needs f32"):
        gt.load_arrays(tmp_path / "f", {"q": gt.spec((3,))})


def test_whole_numbers_that_a_float_does_not_hold_are_not_widened(tmp_path):
    gt.save_arrays(tmp_path / "f", {"n": gt.tensor([2**62 + 1])})
    with pytest.raises(FileError, match=r"n is i64\[1\]: n needs f64\[1\]"):
        gt.load_arrays(tmp_path / "f", {"n": gt.spec((1,), gt.float64)})

"""Saved models: what is loaded gives the bits of what was saved, without tracing or compiling, and what does not fit
this machine or this version is refused with its reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from gtensor.codegen import bundle, machine
from gtensor.errors import DTypeError, FileError, IndexingError, OptionError, SignatureError, TraceError
from gtensor.loading import LoadedTrainStep
from tests.test_checkpoints import X, Y, batches, leaves, loss, params, trainer
from tests.values import same

ROOT = Path(__file__).resolve().parent.parent

SCALE = np.array([1.0, 2.0, 3.0], np.float32)


def model(p, x, *, power=2):
    return {"out": [gt.sin(x @ p["w"]) * SCALE, (None, gt.sum(x**power))]}


P = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a model"


def saved_function(folder):
    step = gt.compile(model, static="power")
    step(P, gt.ones((4, 2)), power=3)
    step.save(folder)
    return step


def test_a_function_is_what_it_was(folder, monkeypatch):
    step, x = saved_function(folder), np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    expected = step(P, x, power=3)
    with monkeypatch.context() as still:
        still.setattr(subprocess, "Popen", None)
        loaded = gt.load(folder)
    found = loaded(P, x, power=3)
    same(found["out"][0], expected["out"][0])
    same(found["out"][1][1], expected["out"][1][1])
    assert found["out"][1][0] is None
    assert loaded.c_source == step.compiled.library.c_source
    assert [path.name for path in loaded.compiled.files] == list(loaded.compiled.library.sources)


def test_a_saved_function_keeps_a_copy_of_what_it_captured(folder):
    captured = np.ones(2, np.float32)
    step = gt.compile(lambda x: x + captured)
    step(gt.zeros(2))
    captured[:] = 5
    step.save(folder)
    captured[:] = 7
    assert gt.load(folder)(gt.zeros(2)).tolist() == [5, 5]


def test_arguments_that_do_not_fit_are_refused_as_before(folder):
    saved_function(folder)
    loaded = gt.load(folder)
    with pytest.raises(SignatureError, match=r"x: f32\[4,2\]"):
        loaded(P, gt.ones((5, 2)), power=3)
    with pytest.raises(SignatureError, match="power = 3; this call has 2"):
        loaded(P, gt.ones((4, 2)), power=2)
    with pytest.raises(TraceError, match="neither traced nor differentiated"):
        gt.grad(lambda x: loaded(P, x, power=3)["out"][1][1])(gt.ones((4, 2)))
    with pytest.raises(OptionError, match="its graph was not saved"):
        str(loaded.graph)


def test_run_time_extents_and_errors_of_calls(folder):
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    look = gt.compile(lambda i, x: gt.take(table, i, axis=0) + x)
    look.trace(gt.spec(("B",), gt.int64, max={"B": 8}), gt.spec(2)).lower().compile().save(folder)
    loaded = gt.load(folder)
    for places in ([2, 0], [-1, 1, 1, 2, 0], []):
        same(loaded(np.array(places, np.int64), gt.ones(2)), table[np.array(places, int)] + 1)
    with pytest.raises(IndexingError, match=r"index 3 is out of range in .*take"):
        loaded(np.array([0, 3]), gt.ones(2))
    with pytest.raises(SignatureError, match="B <= 8"):
        loaded(np.zeros(9, np.int64), gt.ones(2))


def test_donated_arguments(folder):
    step = gt.compile(lambda w, g: w - g, donate="w")
    step(np.ones(3, np.float32), np.ones(3, np.float32))
    step.save(folder)
    w = np.full(3, 5, np.float32)
    assert gt.load(folder)(w, np.ones(3, np.float32)).tolist() == [4, 4, 4]
    assert w.tolist() == [4, 4, 4]


def test_a_training_step_goes_on_with_the_bits_that_it_would_have_had(folder):
    whole, first = trainer(gt.optim.adam(0.01)), trainer(gt.optim.adam(0.01))
    expected = [whole(*batch) for batch in batches(9)]
    found = [first(*batch) for batch in batches(4)]
    first.save(folder)
    loaded = gt.load(folder)
    found += [loaded(*batch) for batch in batches(5, 4)]
    assert found == expected
    for a, b in zip(leaves(loaded), leaves(whole), strict=True):
        same(a, b)
    assert isinstance(loaded, gt.TrainStep) and sorted(loaded.params) == ["first", "second"]


def test_a_loaded_training_step_does_what_one_does(folder, tmp_path):
    train = trainer(gt.optim.sgd(0.1), learning_rate=0.1)
    train.learning_rate = 0.05
    train.save(folder)
    loaded = gt.load(folder)
    assert loaded.learning_rate == 0.05
    ours = train.fit(X, Y, epochs=2, progress=False)
    theirs = loaded.fit(X, Y, epochs=2, progress=False)
    same(theirs.losses, ours.losses)
    loaded.checkpoint(tmp_path / "run")
    train.restore(tmp_path / "run")
    held_out = loaded.bind(loss, X, Y)
    same(held_out(X, Y), train.bind(loss, X, Y)(X, Y))
    loaded.save(folder)
    again = gt.load(folder)
    for a, b in zip(leaves(again), leaves(train), strict=True):
        same(a, b)
    with pytest.raises(OptionError, match="takes batches of 8 rows only"):
        loaded.fit(X[:20], Y[:20], progress=False)
    assert len(loaded.fit(X[:20], Y[:20], drop_last=True, progress=False).losses) == 2
    with pytest.raises(OptionError, match="bind a function"):
        loaded.evaluate(X, Y)


def test_auxiliary_results(folder):
    train = gt.TrainStep(
        lambda p, x, y: (loss(p, x, y), {"n": gt.sum(y)}), params(), gt.optim.sgd(0.1), X, Y, has_aux=True
    )
    train.save(folder)
    value, aux = gt.load(folder)(X, Y)
    expected, more = train(X, Y)
    assert value == expected and aux["n"].item() == more["n"].item() == Y.sum()


def test_a_resident(folder):
    bias = gt.tensor([0.5, 0.25])
    counter = gt.Resident(
        lambda s, x: ({"n": s["n"] + x, "k": s["k"] + 1}, s["n"] * 2 + bias), {"n": gt.zeros(2), "k": 0}, [gt.spec(2)]
    )
    counter(gt.ones(2))
    counter.save(folder)
    loaded = gt.load(folder)
    assert loaded(gt.ones(2)).tolist() == [2.5, 2.25]
    assert loaded.state["n"].tolist() == [2, 2] and loaded.state["k"] == 2 and counter.state["k"] == 1


# ---- other machines, versions and damage -------------------------------------------------------------------


def train_elsewhere(folder, **environment):
    """The output of a process that loads a training step and makes three steps."""
    code = (
        "import sys, numpy as np, gtensor as gt\n"
        "train = gt.load(sys.argv[1])\n"
        "print([train(np.ones((8, 6), np.float32), np.zeros(8, np.int64)) for _ in range(3)])\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GT_")}
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, env=clean | environment, capture_output=True, text=True
    )


def test_the_manifest_says_what_memory_a_model_takes(folder):
    train = trainer(gt.optim.adam(0.01))
    train.save(folder)
    about = json.loads((folder / "manifest.json").read_text())["library"]
    leaves = sum(leaf.nbytes for leaf in train.block.copies().values())
    assert leaves <= about["state_bytes"] <= leaves + 64 * len(train.block.copies())
    assert about["work_bytes"] == train.compiled.library.model.work_bytes > 0


def test_a_saved_model_trains_without_a_compiler(folder, tmp_path):
    train = trainer(gt.optim.adam(0.01))
    train.save(folder)
    done = train_elsewhere(folder, PATH="", GT_CC="/no/compiler", GT_CACHE=str(tmp_path / "empty cache"))
    expected = [train(np.ones((8, 6), np.float32), np.zeros(8, np.int64)) for _ in range(3)]
    assert done.stdout == f"{expected}\n", done.stderr


def of_another_machine(folder):
    path = folder / "manifest.json"
    about = json.loads(path.read_text())
    about["library"]["machine"] = "linux x86_64 Some Other CPU 0123456789abcdef"
    path.write_text(json.dumps(about))


def test_a_model_of_another_machine_is_compiled_again(folder, tmp_path):
    train = trainer(gt.optim.adam(0.01))
    train.save(folder)
    of_another_machine(folder)
    loaded = gt.load(folder)
    assert loaded.compiled.library.path.parent != folder
    assert [loaded(*batch) for batch in batches(3)] == [train(*batch) for batch in batches(3)]
    assert gt.load(folder).compiled.library.path == loaded.compiled.library.path


def test_a_model_of_another_machine_without_a_compiler_says_so(folder, tmp_path):
    trainer(gt.optim.sgd(0.1)).save(folder)
    of_another_machine(folder)
    done = train_elsewhere(folder, PATH="", GT_CC="/no/compiler", GT_CACHE=str(tmp_path / "empty cache"))
    assert done.returncode == 1
    assert "was made for linux x86_64 Some Other CPU 0123456789abcdef" in done.stderr
    assert f"this is {machine.cpu()}, and its C cannot be compiled here" in done.stderr


def bits(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["model-*.so", "params.safetensors", "c/*.c"])
@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing"])
def test_damaged_files_are_refused_before_anything_is_loaded(name, harm, folder, monkeypatch):
    trainer(gt.optim.sgd(0.1)).save(folder)
    path = sorted(folder.glob(name))[0]
    if harm == "missing":
        path.unlink()
    elif harm == "flipped":
        bits(path)
    else:
        path.write_bytes(path.read_bytes()[:-3])
    monkeypatch.setattr(bundle, "Library", lambda *args: pytest.fail("loaded"))
    with pytest.raises(FileError, match=r"is damaged|cannot be read"):
        gt.load(folder)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda m: "{", "manifest.json is damaged"),
        (lambda m: json.dumps([m]), "manifest.json is damaged"),
        (lambda m: json.dumps(m | {"format": 2, "gtensor": "9.1"}), r"saved by gtensor 9\.1 in format 2; this version"),
        (lambda m: json.dumps(m | {"kind": "oracle"}), "holds a 'oracle'"),
        (lambda m: json.dumps({k: v for k, v in m.items() if k != "interface"}), "manifest.json is damaged"),
        (lambda m: json.dumps(m | {"library": m["library"] | {"abi": 99}}), "interface version 99"),
        (lambda m: json.dumps(m | {"library": m["library"] | {"files": {"../../etc/hosts": "0"}}}), "outside itself"),
        (lambda m: json.dumps(m | {"interface": m["interface"] | {"captured": [{"dtype": "f9", "shape": []}]}}), "f9"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_used(change, message, folder):
    trainer(gt.optim.sgd(0.1)).save(folder)
    path = folder / "manifest.json"
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises((FileError, DTypeError), match=message):
        gt.load(folder)


def test_what_is_no_model(tmp_path):
    with pytest.raises(FileError, match="no saved model: it has no manifest"):
        gt.load(tmp_path)
    with pytest.raises(FileError, match="no saved model"):
        gt.load(tmp_path / "nothing")


# ---- where it is written -----------------------------------------------------------------------------------


def test_only_a_saved_model_is_replaced(folder):
    saved_function(folder)
    trainer(gt.optim.sgd(0.1)).save(folder)
    assert isinstance(gt.load(folder), LoadedTrainStep)
    other = folder.parent / "mine"
    other.mkdir()
    (other / "notes.txt").write_text("keep")
    with pytest.raises(FileError, match="no saved model, so it is left as it is"):
        saved_function(other)
    assert sorted(os.listdir(folder.parent)) == ["a model", "mine"] and os.listdir(other) == ["notes.txt"]


def test_a_save_that_fails_leaves_the_old_model_and_no_rest(folder, monkeypatch):
    trainer(gt.optim.sgd(0.1)).save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space"):
        trainer(gt.optim.adam(0.1)).save(folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert os.listdir(folder.parent) == ["a model"]


def test_what_cannot_be_written_down(tmp_path):
    step = gt.compile(lambda x, f: f(x), static="f")
    step(gt.ones(2), gt.sin)
    with pytest.raises(FileError, match="the static argument f is function"):
        step.save(tmp_path / "f")
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")
    pairs = gt.compile(lambda x: Pair(x, x))
    pairs(gt.ones(2))
    with pytest.raises(FileError, match=r"the result of .* has a Pair"):
        pairs.save(tmp_path / "f")
    with pytest.raises(SignatureError, match="not compiled yet"):
        gt.compile(lambda x: x).save(tmp_path / "f")
    assert not os.listdir(tmp_path)


def test_the_same_model_is_saved_as_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        trainer(gt.optim.adam(0.01)).save(tmp_path / name)
    for path in (tmp_path / "one").rglob("*"):
        if path.is_file():
            other = tmp_path / "two" / path.relative_to(tmp_path / "one")
            assert path.read_bytes() == other.read_bytes(), path.name


def test_a_model_that_takes_the_place_of_another_is_itself(folder):
    """A loader takes two libraries of one path for one: the first is still there when the second is loaded."""
    x = np.ones(2, np.float32)
    for factor in (2.0, 3.0):
        step = gt.compile(lambda x, factor=factor: x * factor)
        step(x)
        step.save(folder)
        loaded = [gt.load(folder)]
        assert loaded[-1](x).tolist() == [factor, factor]


def test_a_stray_file_beside_the_c_is_not_read(folder):
    saved_function(folder)
    (folder / "c" / ".DS_Store").write_bytes(b"\xff\xfe\x00")
    assert gt.load(folder)(P, gt.ones((4, 2)), power=3)["out"][1][1].item() == 8


def test_an_interrupted_save_keeps_the_old_model(folder, monkeypatch):
    saved_function(folder)
    rename = os.rename

    def interrupted(source, target):
        if Path(target) == folder and Path(source).name != "old":
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            saved_function(folder)
    assert os.listdir(folder.parent) == ["a model"]
    assert gt.load(folder)(P, gt.ones((4, 2)), power=3)["out"][1][1].item() == 8


def test_names_of_a_state_are_its_own():
    with pytest.raises(SignatureError, match=r"two arrays at a\.b"):
        gt.Resident(lambda s: (s, None), {"a": {"b": gt.ones(1)}, "a.b": gt.zeros(1)}, [])
    with pytest.raises(SignatureError, match="begin so are used in files"):
        gt.Resident(lambda s: (s, None), {"extra:key": gt.ones(1)}, [])

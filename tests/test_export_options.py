"""What of a model is exported, and where to: prediction alone, parameters in a file, what is refused, folders that hold
other things.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

import gtensor as gt
from gtensor import cli
from gtensor.errors import FileError, OptionError
from tests.exported_c import STRICT, Project, records, run
from tests.test_checkpoints import batches, trainer
from tests.test_export import classifier, scores
from tests.values import same

# ---- what is refused ---------------------------------------------------------------------------------------


def test_what_cannot_be_exported(tmp_path):
    train, other = trainer(gt.optim.sgd(0.1)), trainer(gt.optim.sgd(0.1))
    step = gt.compile(lambda w, g: w - g, donate="w")
    step(np.ones(2, np.float32), np.ones(2, np.float32))
    plain = gt.compile(lambda w: w * 2)
    plain(np.ones(2, np.float32))
    train.save(tmp_path / "saved")
    loaded = gt.load(tmp_path / "saved")
    for wrong, message in [
        (lambda: gt.export(tmp_path / "f", 3), "takes a TrainStep, a Resident or a compiled function, not int"),
        (lambda: gt.export(tmp_path / "f", step), "donates arguments"),
        (lambda: gt.export(tmp_path / "f", train, predict=other.bind(scores, gt.spec((1, 6)))), "predict must be what"),
        (lambda: gt.export(tmp_path / "f", train, predict=scores), "predict must be what"),
        (lambda: gt.export(tmp_path / "f", train, prefix="9"), "prefix '9'"),
        (lambda: gt.export(tmp_path / "f", train, prefix="float"), "prefix 'float'"),
        (lambda: gt.export(tmp_path / "f", train, prefix="log"), "prefix 'log'"),
        *(
            (lambda prefix=prefix: gt.export(tmp_path / "f", train, prefix=prefix), f"prefix '{prefix}'")
            for prefix in ("", "Net", "class", "linux", "main", "size_t", "stdin", "gt_net", "net/../x", "n\u00e4t")
        ),
        (lambda: gt.export(tmp_path / "f", train, variant="fast"), "variant must be one of portable, vector"),
        (lambda: gt.export(tmp_path / "f", train, parameters="npz"), "parameters must be one of array, file"),
        (lambda: gt.export(tmp_path / "f", train, predict_only=True), "leaves the step out, and there is nothing else"),
        (lambda: gt.export(tmp_path / "f", plain, predict_only=True), "a compiled function has none"),
        (lambda: gt.export(tmp_path / "f", plain, parameters="file"), "no parameters for a file"),
        (lambda: gt.export(tmp_path / "f", loaded), "its graph was not saved"),
    ]:
        with pytest.raises(OptionError, match=message):
            wrong()
    assert not (tmp_path / "f").exists()


def test_shapes_and_types_that_c_has_no_name_for(tmp_path):
    """Nothing that compiles is refused: no elements, no axes, bytes of 16-bit floats, a batch known at run time."""
    state = {"none": gt.zeros((0, 3)), "half": gt.ones(2, dtype=gt.float16), "wide": gt.zeros((), dtype=gt.uint64)}
    keeper = gt.Resident(
        lambda s, x, flag: (s, (gt.sum(x, axis=0) + gt.sum(s["none"]), gt.logical_not(flag), s["half"] * 2)),
        state,
        [gt.spec(("B", 2), max={"B": 4}), gt.spec((), gt.bool)],
    )
    gt.export(tmp_path / "f", keeper, prefix="keeper")
    run("cc", *STRICT, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(np.ones((4, 2), np.float32).tobytes() + b"\0")
    assert run(tmp_path / "example", tmp_path / "data").split() == ["4", "4", "1", "16384", "16384"]


# ---- prediction alone, parameters in a file ----------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The classifier's prediction after some training, its parameters in the C and in a file, and what Python says."""
    folder = tmp_path_factory.mktemp("alone")
    with gt.config(variant="portable"):
        train, predict = classifier()
        for batch in batches(20):
            train(*batch)
        for parameters in ("array", "file"):
            options = {"predict": predict, "predict_only": True, "parameters": parameters, "prefix": "net"}
            gt.export(folder / parameters, train, **options)
    rows = next(batches(1))[0][:5]
    return folder, rows, np.concatenate([predict(row[None]).numpy() for row in rows]), train


def test_prediction_alone_has_neither_training_nor_its_memory(alone):
    folder, rows, python, train = alone
    files = {path.name for path in (folder / "array").iterdir()}
    assert not any("train" in name for name in files) and "net_predict.c" in files
    header = (folder / "array" / "net.h").read_text()
    assert "OPTIMIZER" not in header and "train_step" not in header and "without its training" in header
    project = Project(folder / "array", "net")
    assert project.lib.NET_PARTS == 4
    assert project.constant("STATE_BYTES") == sum(-(-a.nbytes // 64) * 64 for a in gt.tree.flatten(train.params)[0])
    model, out = project.model(), np.zeros((1, 3), np.float32)
    for row, expected in zip(rows, python, strict=True):
        assert project.call("predict", model, row[None].copy(), out) == 0
        same(out[0], expected)


def test_parameters_alone_are_read_from_their_file(alone):
    folder, rows, python, _ = alone
    assert "first_params" not in (folder / "file" / "net.c").read_text()
    project = Project(folder / "file", "net")
    model, out = project.model(), np.ones((1, 3), np.float32)
    assert project.call("predict", model, rows[:1].copy(), out) == 0 and not out.any(), "zero until they are read"
    data = np.fromfile(folder / "file" / "net.bin", np.uint8)
    assert data.nbytes == project.constant("SAVED_BYTES")
    assert project.call("restore", model, data, data.nbytes) == 0
    for row, expected in zip(rows, python, strict=True):
        assert project.call("predict", model, row[None].copy(), out) == 0
        same(out[0], expected)
    saved = np.zeros_like(data)
    assert project.call("save", model, saved, saved.nbytes) == 0
    same(saved, data)


def test_the_example_reads_the_file_and_refuses_others(alone, tmp_path):
    folder, rows, python, train = alone
    run("cc", *STRICT, *(folder / "file").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(records([(row,) for row in rows]))
    printed = run(tmp_path / "example", folder / "file" / "net.bin", tmp_path / "data").split()
    same(np.array(printed, np.float64).reshape(5, 3), python.astype(np.float64))
    data = (folder / "file" / "net.bin").read_bytes()
    harmed = bytearray(data)
    harmed[len(data) // 2] ^= 1
    gt.export(tmp_path / "whole", train, parameters="file", prefix="net")
    others = [b"", data[:-1], data + b"\0", bytes(harmed), data[::-1], (tmp_path / "whole" / "net.bin").read_bytes()]
    for other in others:
        (tmp_path / "other.bin").write_bytes(other)
        run(tmp_path / "example", tmp_path / "other.bin", tmp_path / "data", code=1)
    run(tmp_path / "example", tmp_path / "missing.bin", tmp_path / "data", code=1)


def test_training_goes_on_from_the_file(tmp_path):
    with gt.config(variant="portable"):
        train, _ = classifier()
        for batch in batches(10):
            train(*batch)
        gt.export(tmp_path / "f", train, parameters="file", prefix="net")
        python = [train(*batch) for batch in batches(10, 10)]
    run("cc", *STRICT, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(records(batches(10, 10)))
    printed = run(tmp_path / "example", tmp_path / "f" / "net.bin", tmp_path / "data").split()
    same(np.array(printed, np.float64), np.array(python, np.float64))


def test_prediction_alone_that_keeps_a_state_of_its_own(tmp_path):
    """What `predict` changes goes on; what only the step reads is gone."""
    keeper = gt.Resident(
        lambda s, x: ({**s, "sum": s["sum"] + x * s["rate"]}, None),
        {"sum": gt.zeros(1), "rate": gt.ones(1)},
        [gt.spec(1)],
    )
    count = keeper.bind(lambda s: ({**s, "sum": s["sum"] + 1}, s["sum"] * 2), updates=True)
    gt.export(tmp_path / "f", keeper, predict=count, predict_only=True, prefix="keeper")
    assert "which changes the state" in (tmp_path / "f" / "keeper.h").read_text()
    project = Project(tmp_path / "f", "keeper")
    assert project.lib.KEEPER_PARTS == 1 and project.lib.KEEPER_SUM == 0
    model, out = project.model(), np.zeros(1, np.float32)
    assert [project.call("predict", model, out) or out[0] for _ in range(3)] == [0, 2, 4]


# ---- the folder --------------------------------------------------------------------------------------------


def contents(folder):
    """Everything in a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_list_of_files_is_that_of_sha256sum(tmp_path):
    files = gt.export(tmp_path / "f", trainer(gt.optim.sgd(0.1)))
    lines = (tmp_path / "f" / "gtensor.sha256").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert listed == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.name != "gtensor.sha256"
    }
    assert sorted(path.name for path in files) == sorted(os.listdir(tmp_path / "f"))


def test_the_same_export_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        gt.export(tmp_path / name, trainer(gt.optim.sgd(0.1)), parameters="file")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_an_export_is_written_to_again_and_files_of_others_stay(tmp_path):
    train, predict = classifier()
    gt.export(tmp_path / "f", train, predict=predict, parameters="file")
    (tmp_path / "f" / "mine.c").write_text("int mine;")
    gt.export(tmp_path / "f", train)
    names = set(os.listdir(tmp_path / "f"))
    assert "mine.c" in names and not names & {"model_predict.c", "model.bin"}, "what is no longer made is gone"
    assert (tmp_path / "f" / "mine.c").read_text() == "int mine;"


def _edited(folder):
    (folder / "main.c").write_text("int main(void) { return 0; } /* mine */")


def _linked(folder):
    (folder.parent / "elsewhere.c").write_bytes((folder / "main.c").read_bytes())
    (folder / "main.c").unlink()
    (folder / "main.c").symlink_to(folder.parent / "elsewhere.c")


def _in_the_way(folder):
    (folder / "model_predict.c").write_text("mine")


def _without_list(folder):
    (folder / "gtensor.sha256").unlink()


def _damaged_list(folder):
    (folder / "gtensor.sha256").write_bytes(b"\xff\xfe not a list")


@pytest.mark.parametrize(
    "change, message",
    [
        (_edited, "main.c in .* was changed since it was written"),
        (_linked, "main.c in .* was changed since it was written"),
        (_in_the_way, "model_predict.c of somebody else"),
        (_without_list, "is there and no export of model"),
        (_damaged_list, "is there and no export of model"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_the_user_changed_is_not_overwritten(change, message, tmp_path):
    train, predict = classifier()
    gt.export(tmp_path / "f", train)
    change(tmp_path / "f")
    before = contents(tmp_path / "f")
    with pytest.raises(FileError, match=message):
        gt.export(tmp_path / "f", train, predict=predict)
    assert contents(tmp_path / "f") == before


def test_folders_that_are_no_export(tmp_path):
    train = trainer(gt.optim.sgd(0.1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep")
    (tmp_path / "file").write_text("keep")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    gt.export(tmp_path / "other", train, prefix="other")
    for name in ("mine", "file", "nowhere", "other"):
        with pytest.raises(FileError, match="no export of model, so it is left as it is"):
            gt.export(tmp_path / name, train)
    with pytest.raises(FileError, match="Not a directory"):
        gt.export(tmp_path / "file" / "below", train)
    assert contents(tmp_path / "mine") == {"notes": b"keep"} and (tmp_path / "file").read_text() == "keep"
    (tmp_path / "empty").mkdir()
    assert gt.export(tmp_path / "empty", train)


def test_a_list_cannot_name_files_elsewhere(tmp_path):
    train = trainer(gt.optim.sgd(0.1))
    gt.export(tmp_path / "f", train)
    (tmp_path / "mine").write_text("keep")
    with open(tmp_path / "f" / "gtensor.sha256", "a", encoding="utf-8") as file:
        file.write(f"{hashlib.sha256(b'keep').hexdigest()}  ../mine\n")
    gt.export(tmp_path / "f", train)
    assert (tmp_path / "mine").read_text() == "keep"


# ---- the command -------------------------------------------------------------------------------------------


def test_the_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "exported_by_test.py").write_text(
        "import gtensor as gt\n"
        "train = gt.TrainStep(lambda w, x: gt.sum((x @ w) ** 2), gt.ones(3), gt.optim.sgd(0.1), gt.spec((4, 3)))\n"
        "predict = train.bind(lambda w, x: x @ w, gt.spec((1, 3)))\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["export", "exported_by_test:train", "-o", "line", "--predict", "exported_by_test:predict", "--prefix"]
    assert cli.main([*command, "line"]) == 0
    out = capsys.readouterr().out
    assert "line/line.h" in out and "state 64 B, work" in out
    assert cli.main([*command, "LINE"]) == 2
    assert "cannot begin C names" in capsys.readouterr().err
    command[3] = "alone"
    assert cli.main([*command, "line", "--predict-only", "--parameters", "file"]) == 0
    assert "alone/line.bin" in capsys.readouterr().out and not (tmp_path / "alone" / "line_train_step.c").exists()
    assert cli.main(["export", "exported_by_test:train", "-o", "f", "--predict-only"]) == 2
    assert "give predict too" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert cli.main(["export", "exported_by_test:train", "-o", "file/below"]) == 2
    assert "Not a directory" in capsys.readouterr().err

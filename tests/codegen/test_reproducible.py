"""Artefacts are reproducible: the same inputs give the same bytes, in whatever folders and whenever they are built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gtensor.codegen.folder import LAYOUT
from tests.exported_c import COMPILERS

PACKAGE = Path(__file__).resolve().parents[2] / "gtensor"

MODEL = """\
import numpy as np
import gtensor as gt

def loss(params, x, y):
    h = gt.nn.gelu(x @ params["w"] + params["b"])
    return gt.mean((h - y) ** 2)

params = {"w": np.ones((6, 6), np.float32), "b": np.zeros(6, np.float32)}
train = gt.TrainStep(loss, params, gt.optim.adam(1e-3), gt.spec((8, 6)), gt.spec((8, 6)))
train.save("saved")
gt.export("exported", train)
gt.compile(lambda x: gt.tanh(x @ x)).trace(gt.spec((96, 96))).lower().compile()
print(len(train.compiled.library.sources))
"""


def built(folder, compiler, **variables):
    """What a program in a folder of its own, with a checkout, a cache, a home of its own, leaves: name -> bytes."""
    (folder / "home").mkdir(parents=True)
    (folder / "tmp").mkdir()
    shutil.copytree(PACKAGE, folder / "checkout" / "gtensor", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "model.py").write_text(MODEL)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GT_")}
    places = {"HOME": "home", "TMPDIR": "tmp", "GT_CACHE": "cache", "PYTHONPATH": "checkout"}
    clean |= {name: str(folder / place) for name, place in places.items()} | {"GT_CC": compiler} | variables
    done = subprocess.run([sys.executable, "model.py"], cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    roots = [folder / "cache" / LAYOUT / "entries", folder / "saved", folder / "exported"]
    return {str(path.relative_to(folder)): path.read_bytes() for root in roots for path in root.rglob("*.*")}


@pytest.mark.parametrize("compiler, flags", [("cc", ""), *((name, "-g") for name in COMPILERS if name != "zig")])
def test_the_same_inputs_give_the_same_bytes(compiler, flags, tmp_path):
    one = built(tmp_path / "one", compiler, GT_CFLAGS=flags, PYTHONHASHSEED="1")
    two = built(tmp_path / "a longer name" / "two", compiler, GT_CFLAGS=flags, PYTHONHASHSEED="2", TZ="Asia/Tokyo")
    assert one.keys() == two.keys() and sum(name.endswith(".so") for name in one) >= 3
    assert [name for name in one if one[name] != two[name]] == []
    assert not [name for name in one if str(tmp_path).encode() in one[name]]

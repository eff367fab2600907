"""Each file of examples/ runs with its small budget, and what it says it learns is learnt.

The marks are those of the quick runs; examples/README.md has the figures of the full ones.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples"

OUTCOMES = {
    "adamw_sine": lambda r: r["error"] < 0.02,
    "attention_toy": lambda r: r["accuracy"] > 0.99 and r["looks"] > 0.9,
    "autoencoder": lambda r: r["kept"] > 0.97 and r["linear"] < 0.7,
    "bandit": lambda r: r["best"] > 0.9 and r["last"] > r["first"] + 0.1,
    "char_transformer": lambda r: r["transformer"] < r["pairs"] - 0.2 and r["triples"] < r["pairs"] - 0.5,
    "classify_blobs": lambda r: r["accuracy"] > r["best"] - 0.01 and r["best"] < 0.96,
    "dqn_gridworld": lambda r: r["steps"] == r["shortest"],
    "gated_memory": lambda r: (
        r["gated"][0] < min(0.8 * r["average"][0], 0.4 * r["seen"][0])
        and r["gated"][1][2] > 0.85 > r["average"][1][2]
        and r["jumping"] > r["settled"] + 0.04
        and r["most"] <= 1
    ),
    "lenet_digits": lambda r: r["lenet"] > 0.94 and r["linear"] < 0.96,
    "mlp": lambda r: r["after"] < 0.05 * r["before"],
    "pc_local": lambda r: r["error"] < 1e-6 and r["loops"] == (1, 2),
    "pc_train": lambda r: r["accuracy"] > 0.97 and r["last"] < 0.1 * r["first"],
    "ppo_cartpole": lambda r: r["before"] < 100 and r["after"] > 200,
    "reinforce_cartpole": lambda r: r["before"] < 100 and r["after"] > 300,
    "set_encoder": lambda r: r["after"] < 1e-4 and 0.1 < r["least"] < r["most"] < 0.15,
}
"""What the results of a quick run must satisfy."""


PICTURES = ["gated_memory"]
"""The examples that draw one, which is kept in docs/."""


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name, tmp_path):
    drawn = {"picture": tmp_path / "drawn.png"} if name in PICTURES else {}
    results = load(name).main(quick=True, **drawn)
    assert OUTCOMES[name](results), results
    for path in drawn.values():
        pictures = path, FOLDER.parent / "docs" / f"{name}.png"
        assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
        assert all(picture.stat().st_size < 80_000 for picture in pictures)


def test_every_example_has_a_mark_and_a_row_in_the_table():
    files = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert files == sorted(OUTCOMES)
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.py\) \|", table, re.MULTILINE)
    assert sorted(rows) == [(name, name) for name in files]


def test_examples_are_scripts():
    """As a reader starts one: from its folder, with an option."""
    run = subprocess.run(
        [sys.executable, "mlp.py", "--quick"], cwd=FOLDER, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(FOLDER.parent)},
    )  # fmt: skip
    assert "steps per second" in run.stdout

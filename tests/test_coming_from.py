"""docs/coming-from.md: each name that it gives exists, and what it says to PyTorch users gives PyTorch's numbers.

tests/reference/torch_names.json has what PyTorch gives for each line; tests/torch_calls.py has the operands, and the
arguments of the functions whose names are the same.
"""

from __future__ import annotations

import functools
import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import gtensor as gt
from tests.torch_calls import HOMES, OPERANDS, PAGE, SAME, calls, listed, table

TEXT = PAGE.read_text(encoding="utf-8")
WANTED = json.loads((Path(__file__).resolve().parent / "reference" / "torch_names.json").read_text(encoding="utf-8"))

OTHER_DTYPES = {
    "F.one_hot(i)": "float32",
    "torch.bernoulli(m * 1.0)": "bool",
    "torch.histc(x, bins=4, min=-2, max=2)": "int64",
}
"""Lines whose note says that the dtype is another than PyTorch's."""


def resolve(name: str) -> Any:
    """What a dotted name stands for; raises AttributeError."""
    home, *rest = name.split(".")
    return functools.reduce(getattr, rest, {"gt": gt, "np": np, "special": special, "x": gt.tensor([1.0])}[home])


def compare(got: Any, wanted: Any, text: str) -> None:
    """A result against PyTorch's."""
    if isinstance(wanted, list):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            compare(a, b, text)
    elif isinstance(wanted, dict):
        array = np.asarray(got)
        assert array.dtype == OTHER_DTYPES.get(text, wanted["dtype"])
        assert list(array.shape) == wanted["shape"]
        np.testing.assert_allclose(array.ravel(), wanted["values"], rtol=2e-5, atol=2e-6)
    else:
        assert got == wanted


@pytest.mark.parametrize("text", calls())
def test_lines_give_what_pytorch_gives(text):
    names = {name: gt.tensor(array) for name, array in OPERANDS.items()}
    compare(eval(calls()[text], {"gt": gt, "key": gt.random.key(0), **names}), WANTED[text], text)


def test_every_line_of_the_page_was_asked_of_pytorch():
    assert {*WANTED} == {*calls()}
    assert len(calls()) > 350 and len(table()) > 70
    texts = {home: re.split(r"\n| \| ", text.strip()) for home, text in SAME.items()}
    names = {home: [call.partition("(")[0] for call in found] for home, found in texts.items()}
    assert {home: sorted(found) for home, found in names.items()} == {h: sorted(f) for h, f in listed().items()}
    assert all(len(found) == len({*found}) for found in names.values())


def test_names_that_are_the_same_are_here():
    for home, found in listed().items():
        for name in found:
            assert callable(resolve(f"{HOMES[home]}.{name}")), name


def test_every_name_of_gtensor_exists():
    names = {name.rstrip(".") for name in re.findall(r"(?<![\w.])gt\.[\w.]+", TEXT)}
    assert len(names) > 100
    for name in names:
        resolve(name)
    for name in re.findall(r"`x\.(\w+)", TEXT):
        assert hasattr(gt.Tensor, name) or name in ("fill_diagonal_", "size", "type"), name


@pytest.mark.parametrize("section, least", [("JAX", 30), ("NumPy", 15)])
def test_tables_for_others_name_what_exists(section, least):
    part = TEXT.partition(f"## From {section}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)[^`]*` \| `([\w.]+)[^`]*` \|", part, re.MULTILINE)
    assert len(rows) == part.count("\n| `") >= least
    for theirs, ours in rows:
        resolve(ours)
        if theirs.startswith(("np.", "scipy.special.")):
            resolve(theirs.removeprefix("scipy."))


def test_the_training_loop_runs(tmp_path):
    (example,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    names = runpy.run_path(str(tmp_path / "example.py"))
    assert names["loss"] > names["train"](names["X"][:32], names["Y"][:32]) > 0
    assert np.any(names["params"]["w"])


def test_what_the_text_says():
    x = gt.tensor([[1.0, 3.0], [2.0, 4.0]])
    assert (gt.tensor([1.0]).dtype, gt.tensor([1]).dtype) == (gt.float32, gt.int64)
    assert (gt.ones(2, dtype="int32") + gt.ones(2)).dtype == gt.float32
    assert gt.asarray(np.ones(2)).dtype == gt.float64
    assert x.at[0].set(7.0).tolist() == [[7, 7], [2, 4]] and x.tolist() == [[1, 3], [2, 4]]
    assert gt.median(x).item() == 2.5 and gt.std(gt.tensor([1.0, 3.0])).item() == 1
    layer = gt.nn.Linear(8, 4)
    assert layer(layer.init(gt.random.key(0)), gt.ones((2, 8))).shape == (2, 4)
    w = gt.tensor([2.0], requires_grad=True)
    gt.sum(w * w).backward()
    assert w.grad.tolist() == [4] and gt.grad(gt.sum(w * w), [w])[0].tolist() == [4]
    assert x.device == "cpu" and x.to("cpu") is x

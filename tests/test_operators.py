"""docs/operators.md is what docs/operators.py writes, and the script says what it reads off a function rightly."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import gtensor as gt

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "operators.py"


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("operators_page", SCRIPT)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(page):
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "run: python docs/operators.py"


def test_every_public_array_function_has_a_row(page):
    text = page.PAGE.read_text(encoding="utf-8")
    assert {"einsum", "sin", "sort" if hasattr(gt, "sort") else "sum", "softmax"} <= {*page.functions()}
    assert not [name for name in page.functions() if f"\n| `{name}` |" not in text]


@pytest.mark.parametrize(
    "name, dtypes, derivative, made_of",
    [
        ("sin", "bool, int, uint, float", "yes", "elementwise"),
        ("subtract", "int, uint, float", "yes", "elementwise"),
        ("floor", "bool, int, uint, float", "0", "elementwise"),
        ("bitwise_and", "bool, int, uint", "", "elementwise"),
        ("argmax", "bool, int, uint, float", "", "reduce, view"),
        ("nonzero", "bool, int, uint, float", "", "eager"),
        ("matmul", "int, uint, float", "yes", "contract"),
    ],
)
def test_what_is_said_of_a_function(page, name, dtypes, derivative, made_of):
    row = page.row(name, getattr(gt, name))
    assert (row.dtypes, row.derivative, row.made_of) == (dtypes, derivative, made_of)


def test_a_derivative_that_does_not_exist_is_found(page):
    assert page.derivative(lambda x, y: gt.stop_gradient(x)) == "0"
    assert page.derivative(lambda x, y: gt.take(x, gt.argmax(x)) + gt.astype(gt.argmax(y), gt.float64)) == "none"


def test_a_function_that_nobody_can_call_is_named(page):
    with pytest.raises(LookupError, match=r"f\(a, b, c\) needs an entry"):
        page.call("f", lambda a, b, c: a)

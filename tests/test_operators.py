"""docs/operators.md is what docs/operators.py writes, and the script says what it reads off a function rightly.

Errors are compared as upper bounds, since NumPy's own loops and BLAS differ between machines; all else is compared as
text. Law: no row without a test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gtensor as gt
from docs import operator_errors, operators
from docs.operator_calls import CALLS, OPERANDS, REFERENCES
from gtensor.prim import REGISTRY

TESTS = Path(__file__).resolve().parent
BOUNDS = re.compile(r" \| ([\d.]+|inf|) \| ([\d.]+|inf|) \| ([\w, ]*) \|$", re.MULTILINE)
"""The last three cells of a row: both errors, and the kernels."""

OF_NAMES = {"test_operators.py", "test_coming_from.py", "test_namespace.py"}
"""Tests that look at names of functions only."""

OF_SIGNATURES = {"test_array_api.py"}
"""Tests in whose texts stand signatures, which is no use of a function."""


@pytest.fixture(scope="module")
def texts() -> tuple[str, str]:
    """The page as it is, and as it is written now."""
    return operators.PAGE.read_text(encoding="utf-8"), operators.text()


def test_the_page_is_up_to_date(texts):
    held, now = (BOUNDS.sub(r" | | | \3 |", text) for text in texts)
    assert held == now, "run: python -m docs.operators"


def test_errors_are_no_larger_than_the_page_says(texts):
    held, now = ([m.groups()[:2] for m in BOUNDS.finditer(text)] for text in texts)
    names = re.findall(r"^\| `([\w.]+)` \|", texts[1], re.MULTILINE)
    larger = [
        (name, wanted, found)
        for name, wanted, found in zip(names, held, now, strict=True)
        if [bool(x) for x in wanted] != [bool(x) for x in found]
        or any(float(b) > float(a) for a, b in zip(wanted, found, strict=True) if a)
    ]
    assert not larger, f"{larger}: run: python -m docs.operators"


def test_elementwise_functions_are_as_exact_as_promised(texts):
    """The evaluator rounds primitives once; what is compiled is within 2 ulp, and compositions within some more."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \|.* \| ([\d.]+ \| [\d.]+) \| [\w, ]+ \|$", texts[0], re.MULTILINE))
    for name in ("exp", "log", "sin", "tan", "tanh", "erf", "gelu", "pow", "lgamma", "sigmoid", "expm1", "atan2"):
        eager, compiled = map(float, rows[name].split(" | "))
        assert eager == 0.5 and compiled <= 2, name
    assert rows["where"] == rows["floor"] == "0 | 0"


def test_every_public_array_function_has_a_row():
    text = operators.PAGE.read_text(encoding="utf-8")
    names = operators.functions()
    assert {"einsum", "sin", "sort", "softmax", "nn.conv2d", "linalg.svd", "random.normal", "masked_fill"} <= {*names}
    assert not [name for name in names if f"\n| `{name}` |" not in text]


def test_tables_name_functions_that_exist():
    assert {*CALLS, *OPERANDS, *REFERENCES} <= {*operators.functions()}


def used(path: Path) -> Iterator[str]:
    """The names of functions below `gt` that a test module names, in code or in texts that it evaluates."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    homes = {"gt": "", "gt.nn": "nn.", "gt.linalg": "linalg.", "gt.random": "random."}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and ast.unparse(node.value) in homes:
            homes[node.targets[0].id] = homes[ast.unparse(node.value)]
        if isinstance(node, ast.ImportFrom) and node.module == "gtensor":
            homes.update((a.asname or a.name, f"{a.name}.") for a in node.names if a.name in ("nn", "linalg", "random"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in homes:
            yield homes[ast.unparse(node.value)] + node.attr
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and path.name not in OF_SIGNATURES:
            found = re.findall(r"(?<![\w.])(\w+)(?:$|\()", node.value)
            yield from (home + name for name in found for home in ("", "nn.", "linalg.", "random."))


def test_no_row_without_a_test():
    named = {name for path in TESTS.rglob("test_*.py") if path.name not in OF_NAMES for name in used(path)}
    records = {prim.name for prim in REGISTRY.values() if prim.samples}
    assert {"sin", "nn.conv2d", "linalg.svd", "random.normal", "atleast_3d"} <= named
    untested = [
        name
        for name, f in operators.functions().items()
        if name not in records and named.isdisjoint((name, *operators.names_of(f)))
    ]
    assert not untested


@pytest.mark.parametrize(
    "name, dtypes, derivatives, kernels",
    [
        ("sin", "bool, int, uint, float", "any", "rows"),
        ("subtract", "int, uint, float", "any", "rows"),
        ("floor", "bool, int, uint, float", "0", "rows"),
        ("bitwise_and", "bool, int, uint", "", "rows"),
        ("argmax", "bool, int, uint, float", "", "rows"),
        ("nonzero", "bool, int, uint, float", "", "eager"),
        ("matmul", "int, uint, float", "any", "product"),
        ("reshape", "bool, int, uint, float", "any", "view"),
        ("sort", "bool, int, uint, float", "any", "lines, rows"),
        ("gammainc", "bool, int, uint, float", "any by x2", "rows"),
        ("linalg.cholesky", "int, uint, float", "any", "routine, rows"),
    ],
)
def test_what_is_said_of_a_function(name, dtypes, derivatives, kernels):
    row = operators.row(name, operators.functions()[name], {}, None)
    assert (row.dtypes, row.derivatives, row.kernels) == (dtypes, derivatives, kernels)


def test_a_derivative_that_does_not_exist_is_found():
    assert operators.derivatives("f", lambda x, y: gt.stop_gradient(x)) == "0"
    assert operators.derivatives("f", lambda x, y: gt.nextafter(x, y)) == "none"


def test_a_function_that_nobody_can_call_is_named():
    with pytest.raises(LookupError, match=r"f\(a, b, c\) needs an entry"):
        operators.call("f", lambda a, b, c: a)


def test_errors_are_counted_in_units_in_the_last_place():
    exact = np.array([1.0, 1000.0, 0.0, 1e-45, 1e39])
    got = np.array([1 + 2.0**-23, 1000, 0, 7, 8], np.float32)
    assert operator_errors.distance(got, exact, True) == 1
    assert operator_errors.distance(got, exact, False) == 2.0**-23 / np.spacing(np.float32(1000))
    assert operator_errors.distance(np.array([np.nan]), np.array([1.0]), True) == np.inf


def test_errors_are_found():
    calls = {"f": lambda x, y: gt.sin(x) * (1 + 2.0**-20), "g": lambda x, y: gt.sum(x) * (1 + 2.0**-20)}
    found = operator_errors.errors({"sin": calls["f"], "g": lambda x, y: gt.sum(x)})
    assert 7 < found["sin"].eager < 17 and 7 < found["sin"].compiled < 17
    assert found["g"].eager < 2 and found["g"].room > 0
    assert [operators.stated(e, 0.0) for e in (0, 0.502, 0.51, 1.2, 5.0, 999.0)] == [0, 0.5, 1, 1.5, 6, float("inf")]
    assert operators.stated(0.8, 0.5) == 1.5


def test_pytorchs_names_are_read_off_the_page():
    page = "| `torch.cat(xs, dim=0)` | `gt.concat(xs, axis=0)` | |\n| `F.pad(x, (1, 2))` | `gt.pad(x, ((1, 2),))` | |\n"
    page += "| `F.other(p)` | `gt.nn.relu(p)` | |\n"
    names = "- **`torch`, here `gt`**: `abs`, `acos`,\n  `add`\n- **`F`, here `gt.nn`**: `relu`\n"
    found = {"concat": "torch.cat", "pad": "F.pad", "abs": "torch.abs", "acos": "torch.acos", "add": "torch.add"}
    assert operators.torch_names(page + names) == found | {"nn.relu": "F.relu"}

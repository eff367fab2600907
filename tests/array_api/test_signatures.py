"""The names and signatures of the array API standard: functions, methods, constants, and what is left out.

As the standard's own test suite has it, a parameter may be given by position where the standard asks for a keyword,
never the other way round.
"""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path

import pytest

import gtensor as gt
from gtensor.ops.sets import UniqueAll, UniqueCounts, UniqueInverse

from .standard import (
    ATTRIBUTES,
    CONSTANTS,
    DTYPES,
    EXCLUDED,
    INFO,
    LINALG,
    MAIN,
    METHODS,
    OPERATORS,
    refuses,
    signatures,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "array_api.md"


def breaches(given: inspect.Signature, wanted: inspect.Signature) -> list[str]:
    """In what a signature is less than the standard's."""
    ours, wrong = list(given.parameters.values()), []
    for i, parameter in enumerate(wanted.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY:
            mine = given.parameters.get(parameter.name)
            if mine is None or mine.kind is mine.POSITIONAL_ONLY or mine.default != parameter.default:
                wrong.append(f"{parameter.name} must be a keyword with the default {parameter.default}")
            continue
        mine = ours[i] if i < len(ours) else None
        if mine is None or mine.kind is mine.KEYWORD_ONLY:
            wrong.append(f"{parameter.name} must be in place {i}")
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and (mine.kind, mine.name) != (
            parameter.kind, parameter.name,
        ):  # fmt: skip
            wrong.append(f"{parameter.name} must be in place {i} and a keyword")
        elif parameter.kind is parameter.VAR_POSITIONAL and mine.kind is not parameter.kind:
            wrong.append(f"*{parameter.name} is missing")
        elif parameter.default is not parameter.empty and mine.default != parameter.default:
            wrong.append(f"{parameter.name} must have the default {parameter.default}")
    return wrong + [
        f"{mine.name} must have a default"
        for mine in ours[len(wanted.parameters) :]
        if mine.default is mine.empty and mine.kind not in (mine.VAR_POSITIONAL, mine.VAR_KEYWORD)
    ]


@pytest.mark.parametrize("name", signatures(MAIN))
def test_main(name):
    assert not breaches(inspect.signature(getattr(gt, name)), signatures(MAIN)[name])


@pytest.mark.parametrize("name", signatures(LINALG))
def test_linalg(name):
    assert not breaches(inspect.signature(getattr(gt.linalg, name)), signatures(LINALG)[name])


@pytest.mark.parametrize("name", signatures(INFO))
def test_info(name):
    asked = type(gt.__array_namespace_info__())
    assert not breaches(inspect.signature(getattr(asked, name)), signatures(INFO)[name])


@pytest.mark.parametrize("name", signatures(METHODS))
def test_methods(name):
    assert not breaches(inspect.signature(getattr(gt.Tensor, name)), signatures(METHODS)[name])


def test_breaches_are_found():
    wanted = signatures("f(x, /, *, axis=None)")["f"]
    for text in ("f(x)", "f(x, /, axis=0)", "f(x, axis=None, /)", "f(*, x, axis=None)", "f()", "f(x, axis=None, *, k)"):
        assert breaches(signatures(text)["f"], wanted), text
    assert not breaches(signatures("f(x, axis=None, more=1)")["f"], wanted)
    assert breaches(signatures("f(y)")["f"], signatures("f(x)")["f"])
    assert breaches(signatures("f(x)")["f"], signatures("f(*x)")["f"])


@pytest.mark.parametrize("name", OPERATORS.split())
def test_operators(name):
    assert callable(getattr(gt.Tensor, f"__{name}__"))


def test_constants():
    for name, value in CONSTANTS.items():
        found = getattr(gt, name)
        assert found is None if value is None else isinstance(found, float)
        assert found == value or (math.isnan(value) and math.isnan(found))
    assert gt.__array_api_version__ == "2024.12"


def test_attributes():
    x = gt.ones((2, 3))
    assert all(hasattr(x, name) for name in ATTRIBUTES.split())
    assert (x.ndim, x.size, x.shape, x.device, x.T.shape, x.mT.shape) == (2, 6, (2, 3), "cpu", (3, 2), (3, 2))
    assert type(x.ndim) is type(x.size) is int and type(x.shape) is tuple
    assert x.dtype == gt.float32 and x.dtype != gt.float64 and {x.dtype: 1}[gt.float32] == 1


def test_dtypes_are_names_of_the_namespace():
    assert all(getattr(gt, name) == gt.__array_namespace_info__().dtypes()[name] for name in DTYPES)


def test_fields_of_results():
    fields = {
        UniqueAll: "values indices inverse_indices counts",
        UniqueCounts: "values counts",
        UniqueInverse: "values inverse_indices",
        gt.linalg.factors.EighResult: "eigenvalues eigenvectors",
        gt.linalg.factors.QRResult: "Q R",
        gt.linalg.factors.SVDResult: "U S Vh",
        gt.linalg.systems.SlogdetResult: "sign logabsdet",
    }
    for kind, names in fields.items():
        assert kind._fields == tuple(names.split())


def test_every_function_is_called_by_a_test():
    here = Path(__file__)
    others = [path for path in here.parent.glob("test_*.py") if path != here]
    words = {word for path in others for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert {*signatures(MAIN), *signatures(LINALG), *signatures(INFO), *signatures(METHODS)} <= words


# ---- what is left out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", EXCLUDED, ids=lambda entry: entry.what)
def test_no_exclusion_is_out_of_date(entry):
    assert entry.holds()


def test_a_probe_can_fail():
    assert not refuses(lambda: None, TypeError)() and refuses(lambda: [][0], IndexError)()


def test_the_page_lists_the_exclusions():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    table = rows[rows.index("| left out | why |") + 1 :]
    assert table == [f"| {entry.what} | {entry.reason} |" for entry in EXCLUDED]

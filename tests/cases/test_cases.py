"""Public fault reports of other libraries, restated as small cases with right values: all are right here.

`cases.jsonl` holds them; `expr` is run with `xp` (the array functions), `grad`, `stop_gradient` and the inputs
by name. Each value case runs three ways: eagerly, compiled, and compiled inside a larger function, whose
other equations read the inputs before and the result after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gtensor as gt

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
VALUES = {case["id"]: case for case in CASES if case["kind"] == "value"}

XP = SimpleNamespace(
    **{name: getattr(gt, name) for name in gt.__all__},
    arctan2=gt.atan2,
    cross_entropy=gt.nn.cross_entropy,
    gelu_tanh=lambda x: gt.gelu(x, approximate="tanh"),
)
NAMES = {"grad": gt.grad, "scan": gt.scan, "stop_gradient": gt.stop_gradient, "xp": XP}

NOT_YET = {"L01": "conv2d"}
"""Cases that need an operation which does not exist; each is run as soon as it does."""


def needs(case: dict[str, Any]) -> set[str]:
    """The names a case uses that are not there."""
    used = set(re.findall(r"\bxp\.(\w+)", case["expr"])) | set(re.findall(r"\b(scan)\(", case["expr"]))
    return {name for name in used if not hasattr(XP, name)}


def array(given: dict[str, Any]) -> np.ndarray:
    """An input: float32 unless it says otherwise; int8, which gtensor has not, as uint8."""
    made = eval(given["np"], {"np": np}) if "np" in given else number(given["data"], given["dtype"])
    return made.astype(np.uint8) if made.dtype == np.int8 else made


def number(data: Any, dtype: Any) -> np.ndarray:
    """Nested lists with "nan", "inf" and "-inf" among the numbers."""
    return np.array(np.vectorize(float)(np.array(data, object)) if np.size(data) else data).astype(dtype)


def of_case(case: dict[str, Any]) -> Callable[..., Any]:
    """The case as a function of its inputs."""
    code = compile(case["expr"], case["id"], "exec")

    def run(**inputs: Any) -> Any:
        space = {**NAMES, **inputs}
        exec(code, space)
        return space["out"]

    return run


def eager(case: dict[str, Any], inputs: dict[str, np.ndarray]) -> Any:
    return of_case(case)(**{name: gt.tensor(value) for name, value in inputs.items()})


def compiled(case: dict[str, Any], inputs: dict[str, np.ndarray]) -> Any:
    return gt.compile(of_case(case))(**inputs)


def inside(case: dict[str, Any], inputs: dict[str, np.ndarray]) -> Any:
    """Compiled among other equations; what is added at run time, -0 and 0, and the factor 1 change no bit."""
    run = of_case(case)

    def larger(zero: Any, one: Any, inputs: dict[str, Any]) -> Any:
        moved = {name: x + gt.astype(zero, x.dtype) if x.dtype != gt.bool_ else x for name, x in inputs.items()}
        out = run(**moved)
        before = sum(gt.sum(gt.where(gt.isfinite(x), x, 0)) for x in inputs.values())
        after = gt.max(gt.tanh(out), axis=-1) if out.ndim and out.shape[-1] else gt.sum(out)
        return out * gt.astype(one, out.dtype), before, after

    result, _, _ = gt.compile(larger)(np.float32(-0.0), np.float32(1.0), inputs)
    return result


WAYS = {"eager": eager, "compiled": compiled, "inside": inside}


def judge(case: dict[str, Any], out: np.ndarray) -> None:
    """Fail unless the result is what the case expects."""
    if case["check"] == "predicate":
        assert eval(case["expected"], {"np": np, "out": out}), out
        return
    expected = number(case["expected"], np.float64)
    assert out.shape == expected.shape
    if case["check"] == "exact":
        np.testing.assert_array_equal(out, expected)
    else:
        np.testing.assert_allclose(out, expected, rtol=case["rtol"], atol=case["atol"])


def test_only_what_needs_missing_operations_is_left_out():
    assert {name: missing for name, case in VALUES.items() if (missing := needs(case))} == {
        name: {missing} for name, missing in NOT_YET.items()
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [name for name in VALUES if name not in NOT_YET])
def test_case(name, way):
    case = VALUES[name]
    inputs = {key: array(value) for key, value in case["inputs"].items()}
    judge(case, WAYS[way](case, inputs).numpy())

"""Public fault reports of other libraries, restated as small cases with right values: all are right here.

`cases.jsonl` holds them; `expr` is run with `xp` (the array functions), `grad`, `stop_gradient` and the inputs
by name. Each value case runs in four ways: eagerly; compiled; compiled inside a larger function, whose other
equations read the inputs before and the result after it, and are held against the same function run eagerly; and
under `vmap`, beside another example, which must be what it is alone. What kind of fault a case stands for is
ruled out in test_kinds.py.
"""

from __future__ import annotations

import json
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
    conv2d=gt.nn.conv2d,
    cross_entropy=gt.nn.cross_entropy,
    gelu_tanh=lambda x: gt.gelu(x, approximate="tanh"),
)
NAMES = {"grad": gt.grad, "scan": gt.scan, "stop_gradient": gt.stop_gradient, "xp": XP}

Inputs = dict[str, np.ndarray]


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


def eager(case: dict[str, Any], inputs: Inputs) -> np.ndarray:
    return of_case(case)(**{name: gt.tensor(value) for name, value in inputs.items()}).numpy()


def compiled(case: dict[str, Any], inputs: Inputs) -> np.ndarray:
    return gt.compile(of_case(case))(**inputs).numpy()


def inside(case: dict[str, Any], inputs: Inputs) -> np.ndarray:
    """Compiled among other equations; what is added at run time, -0 and 0, and the factor 1 change no bit."""
    run = of_case(case)

    def larger(zero: Any, one: Any, inputs: dict[str, Any]) -> Any:
        moved = {name: x + gt.astype(zero, x.dtype) if x.dtype != gt.bool_ else x for name, x in inputs.items()}
        out = run(**moved)
        before = sum(gt.sum(gt.where(gt.isfinite(x), x, 0)) for x in inputs.values())
        after = gt.max(gt.tanh(out), axis=-1) if out.ndim and out.shape[-1] else gt.sum(out)
        return out * gt.astype(one, out.dtype), before, after

    given = np.float32(-0.0), np.float32(1.0), inputs
    result, *others = gt.compile(larger)(*given)
    _, *wanted = larger(*map(gt.tensor, given[:2]), {name: gt.tensor(value) for name, value in inputs.items()})
    for found, right in zip(others, wanted, strict=True):
        same(found.numpy(), right.numpy())
    return result.numpy()


def mapped(case: dict[str, Any], inputs: Inputs) -> np.ndarray:
    """As the last example of three: all inputs are stacked, and then each alone; the others are its reversals."""
    run, names = of_case(case), list(inputs)
    turned = {name: np.flip(value) for name, value in inputs.items()}
    for chosen in (names, *([name] for name in names if len(names) > 1)):
        stacks = [np.stack([turned[n], inputs[n], inputs[n]]) if n in chosen else inputs[n] for n in names]
        axes = tuple(0 if n in chosen else None for n in names)
        each = gt.vmap(lambda *xs: run(**dict(zip(names, xs, strict=True))), axes)
        for made in (each(*map(gt.tensor, stacks)), gt.compile(each)(*stacks)):
            other, first, result = made.numpy()
            same(other, eager(case, {n: turned[n] if n in chosen else inputs[n] for n in names}))
            judge(case, first)
            judge(case, result)
    return result


def same(found: np.ndarray, right: np.ndarray) -> None:
    """Fail unless two results are equal within rounding, NaN and infinities in the same places."""
    assert (found.shape, found.dtype) == (right.shape, right.dtype)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


WAYS = {"eager": eager, "compiled": compiled, "inside": inside, "mapped": mapped}


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


def test_there_are_as_many_as_the_reports():
    assert (len(CASES), len(VALUES)) == (52, 35)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VALUES)
def test_case(name, way):
    case = VALUES[name]
    inputs = {key: array(value) for key, value in case["inputs"].items()}
    judge(case, WAYS[way](case, inputs))

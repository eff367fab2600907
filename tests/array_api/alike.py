"""How tests of the array API draw operands and hold results against NumPy's.

`draw` gives operands with all that is awkward in a dtype; `text_agrees` runs one text on `gt` and on NumPy, whose main
namespace and `linalg` are the standard's too; `agrees` compares: dtype and shape as they are, NaN, infinities and the
signs of zeros exactly, other floats to a number of units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gtensor as gt

AWKWARD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 1e-30, 3e20]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0, awkward: bool = True) -> np.ndarray[Any, Any]:
    """An array of that dtype: small numbers, and if `awkward` the ends of integers, NaN, infinities and zeros too."""
    rng = np.random.default_rng([seed, len(shape), *map(ord, dtype)])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind == "f":
        small = np.asarray(rng.standard_normal(shape) * 3)
        special = rng.choice(AWKWARD, shape)
        return np.asarray(np.where(awkward & (rng.random(shape) < 0.4), special, small)).astype(dtype)
    low = 0 if kind == "u" else -9
    small = np.asarray(rng.integers(low, 10, shape)).astype(dtype)
    ends = rng.choice(np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype), shape)
    return np.asarray(np.where(awkward & (rng.random(shape) < 0.2), ends, small))


def agrees(got: Any, wanted: Any, ulps: float = 0, about: str = "") -> None:
    """Fail unless the results are alike: arrays, or tuples and lists of them."""
    if isinstance(wanted, (tuple, list)):
        assert len(got) == len(wanted), about
        for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
            agrees(a, b, ulps, f"{about}[{i}]")
        return
    assert isinstance(got, (gt.Tensor, np.ndarray)), f"{about}: {type(got).__name__}"
    a, b = np.asarray(got), np.asarray(wanted)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{about}: {a.dtype}{a.shape} against {b.dtype}{b.shape}"
    if b.dtype.kind == "f" and ulps:
        near = np.isfinite(b) & (b != 0)
        assert np.isfinite(a[near]).all(), f"{about}: {a[near]} against {b[near]}"
        distance = np.abs(_place(a[near]) - _place(b[near]))
        assert (distance <= ulps).all(), f"{about}: {distance.max()} ulp between {a[near]} and {b[near]}"
        a, b = a[~near], b[~near]
    np.testing.assert_array_equal(a, b, err_msg=about)
    if b.dtype.kind == "f":
        zero = b == 0
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]), err_msg=f"{about}: signs of zeros")


def _place(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The places of floats among all of their dtype, in order."""
    bits = x.view(f"int{8 * x.itemsize}")
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


def evaluate(text: str, xp: Any, operands: dict[str, Any]) -> Any:
    """The value of a text in a namespace: names are its functions, beside the operands."""
    return eval(text, {**vars(xp), "xp": xp, **operands})


def text_agrees(text: str, operands: dict[str, np.ndarray[Any, Any]], ulps: float = 0) -> None:
    """Fail unless `gt` and NumPy make the same of a text."""
    with np.errstate(all="ignore"):
        wanted = evaluate(text, np, operands)
    got = evaluate(text, gt, {name: gt.asarray(value) for name, value in operands.items()})
    kinds = {name: value.dtype.name for name, value in operands.items()}
    agrees(got, wanted, ulps, f"{text} of {kinds}")


def texts(table: str) -> list[str]:
    """The texts of a table, which stand between | and line ends."""
    return [text.strip() for line in table.strip().splitlines() for text in line.split(" | ")]

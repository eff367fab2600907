"""The special cases of the standard's elementwise functions, as rules.

A line is a function, a class for each operand, and the result: an expression of the operands x1, x2, x3. `operands`
gives every combination of the members of the classes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

RULES = """
abs nan nan | abs -0 0 | abs -inf inf
acos nan nan | acos >1 nan | acos <-1 nan | acos 1 0
acosh nan nan | acosh <1 nan | acosh 1 0 | acosh inf inf
add nan any nan | add any nan nan | add inf -inf nan | add -inf inf nan | add inf inf inf | add -inf -inf -inf
add inf finite inf | add -inf finite -inf | add finite inf inf | add finite -inf -inf
add -0 -0 -0. | add -0 0 0 | add 0 -0 0 | add 0 0 0 | add zero nonzero x2 | add nonzero zero x1
asin nan nan | asin >1 nan | asin <-1 nan | asin 0 0 | asin -0 -0.
asinh nan nan | asinh 0 0 | asinh -0 -0. | asinh inf inf | asinh -inf -inf
atan nan nan | atan 0 0 | atan -0 -0. | atan inf pi/2 | atan -inf -pi/2
atan2 nan any nan | atan2 any nan nan | atan2 positive 0 pi/2 | atan2 positive -0 pi/2 | atan2 0 positive 0
atan2 0 0 0 | atan2 0 -0 pi | atan2 0 negative pi | atan2 -0 positive -0. | atan2 -0 0 -0. | atan2 -0 -0 -pi
atan2 -0 negative -pi | atan2 negative 0 -pi/2 | atan2 negative -0 -pi/2 | atan2 positive inf 0
atan2 positive -inf pi | atan2 negative inf -0. | atan2 negative -inf -pi | atan2 inf finite pi/2
atan2 -inf finite -pi/2 | atan2 inf inf pi/4 | atan2 inf -inf 3*pi/4 | atan2 -inf inf -pi/4 | atan2 -inf -inf -3*pi/4
atanh nan nan | atanh <-1 nan | atanh >1 nan | atanh -1 -inf | atanh 1 inf | atanh 0 0 | atanh -0 -0.
ceil whole x1 | ceil inf inf | ceil -inf -inf | ceil 0 0 | ceil -0 -0. | ceil nan nan | ceil -0.5 -0.
clip nan number number nan | clip number nan number nan | clip number number nan nan
copysign any negative -abs(x1) | copysign any -0 -abs(x1) | copysign any 0 abs(x1) | copysign any positive abs(x1)
copysign any -nan -abs(x1) | copysign any +nan abs(x1) | copysign any inf abs(x1) | copysign any -inf -abs(x1)
cos nan nan | cos zero 1 | cos infinite nan
cosh nan nan | cosh zero 1 | cosh infinite inf
divide nan any nan | divide any nan nan | divide infinite infinite nan | divide zero zero nan
divide 0 positive 0 | divide -0 positive -0. | divide 0 negative -0. | divide -0 negative 0
divide positive 0 inf | divide positive -0 -inf | divide negative 0 -inf | divide negative -0 inf
divide inf positive inf | divide inf negative -inf | divide -inf positive -inf | divide -inf negative inf
divide positive inf 0 | divide positive -inf -0. | divide negative inf -0. | divide negative -inf 0
equal nan any False | equal any nan False | equal inf inf True | equal -inf -inf True | equal zero zero True
equal finite infinite False | equal inf -inf False
exp nan nan | exp zero 1 | exp inf inf | exp -inf 0
expm1 nan nan | expm1 0 0 | expm1 -0 -0. | expm1 inf inf | expm1 -inf -1
floor whole x1 | floor inf inf | floor -inf -inf | floor 0 0 | floor -0 -0. | floor nan nan | floor 0.5 0
floor_divide nan any nan | floor_divide any nan nan | floor_divide infinite infinite nan | floor_divide zero zero nan
floor_divide 0 positive 0 | floor_divide -0 positive -0. | floor_divide 0 negative -0. | floor_divide -0 negative 0
floor_divide positive 0 inf | floor_divide positive -0 -inf
floor_divide negative 0 -inf | floor_divide negative -0 inf
floor_divide infinite nonzero nan | floor_divide positive inf 0 | floor_divide positive -inf -1
floor_divide negative inf -1 | floor_divide negative -inf 0
hypot infinite any inf | hypot any infinite inf | hypot zero any abs(x2) | hypot any zero abs(x1)
hypot finite nan nan | hypot nan finite nan | hypot nan nan nan
isfinite infinite False | isfinite nan False | isfinite finite True
isinf infinite True | isinf nan False | isinf finite False
isnan nan True | isnan number False
log nan nan | log negative nan | log -inf nan | log zero -inf | log 1 0 | log inf inf
log10 nan nan | log10 negative nan | log10 -inf nan | log10 zero -inf | log10 1 0 | log10 inf inf
log1p nan nan | log1p <-1 nan | log1p -1 -inf | log1p -0 -0. | log1p 0 0 | log1p inf inf
log2 nan nan | log2 negative nan | log2 -inf nan | log2 zero -inf | log2 1 0 | log2 inf inf
logaddexp nan any nan | logaddexp any nan nan | logaddexp inf number inf | logaddexp number inf inf
maximum nan any nan | maximum any nan nan | minimum nan any nan | minimum any nan nan
maximum inf number inf | minimum number -inf -inf | maximum -inf number x2 | minimum number inf x1
multiply nan any nan | multiply any nan nan | multiply infinite zero nan | multiply zero infinite nan
multiply infinite infinite sign(x1)*sign(x2)*inf | multiply infinite nonzero sign(x1)*sign(x2)*inf
multiply nonzero infinite sign(x1)*sign(x2)*inf | multiply zero finite copysign(0,x1)*copysign(1,x2)
nextafter nan any nan | nextafter any nan nan | nextafter -0 0 0 | nextafter 0 -0 -0.
not_equal nan any True | not_equal any nan True | not_equal inf -inf True | not_equal -inf inf True
not_equal zero zero False | not_equal infinite finite True
pow >1 inf inf | pow <-1 inf inf | pow >1 -inf 0 | pow <-1 -inf 0
pow 1 number 1 | pow 1 infinite 1 | pow -1 infinite 1 | pow any zero 1 | pow nan nonzero nan | pow nan infinite nan
pow small nan nan | pow >1 nan nan | pow negative nan nan | pow small inf 0 | pow small -inf inf
pow inf positive inf | pow inf negative 0 | pow -inf odd -inf | pow -inf even inf | pow -inf half inf
pow -inf -odd -0. | pow -inf -even 0 | pow -inf -half 0 | pow 0 positive 0 | pow 0 negative inf | pow -0 odd -0.
pow -0 even 0 | pow -0 half 0 | pow -0 -odd -inf | pow -0 -even inf | pow -0 -half inf
pow negative half nan | pow negative -half nan
reciprocal nan nan | reciprocal 0 inf | reciprocal -0 -inf | reciprocal inf 0 | reciprocal -inf -0.
remainder nan any nan | remainder any nan nan | remainder infinite infinite nan | remainder zero zero nan
remainder zero positive 0 | remainder zero negative -0. | remainder nonzero zero nan | remainder infinite nonzero nan
remainder positive inf x1 | remainder positive -inf x2 | remainder negative inf x2 | remainder negative -inf x1
round whole x1 | round inf inf | round -inf -inf | round 0 0 | round -0 -0. | round nan nan
round 0.5 0 | round 1.5 2 | round 2.5 2 | round -0.5 -0. | round -1.5 -2 | round -2.5 -2
sign negative -1 | sign zero 0 | sign positive 1 | sign nan nan | sign inf 1 | sign -inf -1
signbit 0 False | signbit -0 True | signbit inf False | signbit -inf True | signbit positive False
signbit negative True | signbit +nan False | signbit -nan True
sin nan nan | sin 0 0 | sin -0 -0. | sin infinite nan
sinh nan nan | sinh 0 0 | sinh -0 -0. | sinh inf inf | sinh -inf -inf
sqrt nan nan | sqrt negative nan | sqrt -inf nan | sqrt 0 0 | sqrt -0 -0. | sqrt inf inf
square nan nan | square infinite inf | square zero 0
subtract nan any nan | subtract any nan nan | subtract inf inf nan | subtract -inf -inf nan
subtract inf -inf inf | subtract -inf inf -inf | subtract infinite finite x1 | subtract finite infinite -x2
subtract -0 0 -0. | subtract -0 -0 0 | subtract 0 -0 0 | subtract 0 0 0 | subtract zero nonzero -x2
tan nan nan | tan 0 0 | tan -0 -0. | tan infinite nan
tanh nan nan | tanh 0 0 | tanh -0 -0. | tanh inf 1 | tanh -inf -1
trunc whole x1 | trunc inf inf | trunc -inf -inf | trunc 0 0 | trunc -0 -0. | trunc nan nan | trunc -0.5 -0.
"""
"""The standard's text, function by function. Where it leaves a choice (floor_divide, infinity) it is Python's."""

_POSITIVE = ["tiny", 0.25, 1.0, 3.0, "max"]
_SPECIAL = {"tiny": lambda info: info.smallest_normal, "max": lambda info: info.max}


def _negated(members: list[Any]) -> list[Any]:
    return [("-", m) for m in members]


CLASSES: dict[str, list[Any]] = {
    "nan": [np.nan, -np.nan],
    "+nan": [np.nan],
    "-nan": [-np.nan],
    "inf": [np.inf],
    "-inf": [-np.inf],
    "infinite": [np.inf, -np.inf],
    "0": [0.0],
    "-0": [-0.0],
    "zero": [0.0, -0.0],
    "positive": _POSITIVE,
    "negative": _negated(_POSITIVE),
    "nonzero": _POSITIVE + _negated(_POSITIVE),
    "finite": [0.0, -0.0, *_POSITIVE, *_negated(_POSITIVE)],
    "number": [np.inf, -np.inf, 0.0, -0.0, *_POSITIVE, *_negated(_POSITIVE)],
    "any": [np.nan, np.inf, -np.inf, 0.0, -0.0, *_POSITIVE, *_negated(_POSITIVE)],
    "whole": [1.0, -1.0, 7.0, -100.0, 4194304.0, "max", ("-", "max")],
    ">1": [1.5, 2.0, "max"],
    "<-1": [-1.5, -2.0, ("-", "max")],
    "<1": [0.5, 0.0, -1.0, ("-", "max"), -np.inf],
    "small": ["tiny", 0.25, -0.5, ("-", "tiny")],
    "odd": [1.0, 3.0, 101.0],
    "-odd": [-1.0, -3.0, -101.0],
    "even": [2.0, 4.0, 102.0],
    "-even": [-2.0, -4.0, -102.0],
    "half": [0.5, 1.5, 2.25],
    "-half": [-0.5, -1.5, -2.25],
}
"""Members of each class of operands; a number stands for itself."""


def _members(name: str, dtype: str) -> list[Any]:
    info = np.finfo(dtype)

    def value(member: Any) -> Any:
        if isinstance(member, tuple):
            return -value(member[1])
        return _SPECIAL[member](info) if isinstance(member, str) else member

    return [value(m) for m in CLASSES.get(name) or [float(name)]]


def rules() -> dict[str, list[tuple[str, ...]]]:
    """For each function its rules: classes of the operands and the result."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in RULES.strip().splitlines():
        for rule in line.split(" | "):
            name, *parts = rule.split()
            found.setdefault(name, []).append(tuple(parts))
    return found


def operands(rule: tuple[str, ...], dtype: str) -> tuple[list[Array], Array]:
    """All combinations that a rule speaks of, and their results."""
    *classes, result = rule
    columns = [*zip(*itertools.product(*(_members(c, dtype) for c in classes)), strict=True)]
    xs = [np.array(column, dtype) for column in columns]
    names = {f"x{i}": x for i, x in enumerate(xs, 1)}
    with np.errstate(all="ignore"):
        value = eval(result, {"pi": np.pi, "inf": np.inf, "nan": np.nan, "True": True, "False": False}
                     | {f.__name__: f for f in (np.sign, np.copysign)} | {"abs": np.abs} | names)  # fmt: skip
    wanted = np.asarray(value)
    target = np.bool_ if wanted.dtype == np.bool_ else np.dtype(dtype)
    return xs, np.broadcast_to(wanted, xs[0].shape).astype(target)

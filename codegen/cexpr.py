"""Scalar expressions of the generated C: dtype tags, reducers, literals and identifiers.

An expression is a template such as `gt_tanh_{t}({0})` with the names of its arguments; `{t}` is the
tag of the arguments' dtype and `{r}` that of the result. Templates use C operators and `gt_` functions
only, so that the same text serves scalars and vector types. Law: no template evaluates an argument's
side effects, since arguments are variable names or literals.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
INTEGERS = tuple(_BITS)
"""The tags of integers."""

STORED = ("f16", "bf16")
"""The tags of floats of 16 bits: a variable of theirs is a float, and no arithmetic is done in them."""

DTYPES = {
    "f32": "float",
    "f64": "double",
    **dict.fromkeys(STORED, "uint16_t"),
    **{tag: f"{'u' if tag[0] == 'u' else ''}int{bits}_t" for tag, bits in _BITS.items()},
    "b1": "uint8_t",
}
"""Tag -> the C type in memory. A b1 is a byte that holds 0 or 1, a float of 16 bits is its bits."""

SIZES = {"f32": 4, "f64": 8, **dict.fromkeys(STORED, 2), **{tag: bits // 8 for tag, bits in _BITS.items()}, "b1": 1}
"""Tag -> bytes of one element."""

RANGES = {
    **{tag: (0, 2**bits) if tag[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1)) for tag, bits in _BITS.items()},
    "b1": (0, 2),
}
"""Tag of integers or truth values -> the lowest value, and the first above the highest."""


@dataclass(frozen=True)
class Expr:
    """`template` filled with `args` (variable names or literals); `t` is the arguments' dtype tag."""

    template: str
    args: tuple[str, ...]
    t: str
    r: str

    def text(self) -> str:
        """The C text.

        >>> Expr("gt_max_{t}({0}, {1})", ("a", "b"), "f32", "f32").text()
        'gt_max_f32(a, b)'
        """
        return self.template.format(*self.args, t=self.t, r=self.r)


WRAP = "gt_wrap_{t}({0}, {1})"
"""An index in [-n, n), counted from the front: i + n where it is negative. `check` knows its range."""

INDEX = "gt_index_{t}({0})"
"""An integer of another dtype as an i64 that may index; of uint64 what is too large becomes the largest."""


@dataclass(frozen=True)
class Reducer:
    """How a reduction folds: `combine` over {0} (so far) and {1} (new), and its neutral element per kind."""

    combine: str
    start: dict[str, str]

    def initial(self, tag: str) -> str:
        """The neutral element as a C literal of that dtype."""
        return self.start.get(tag, self.start["*"])


_LIMITS = {tag: f"{'U' if tag[0] == 'u' else ''}INT{bits}_" for tag, bits in _BITS.items()}
_LOWEST = {
    **dict.fromkeys(("f32", "f64", *STORED), "-INFINITY"),
    **{tag: f"{name}MIN" for tag, name in _LIMITS.items() if tag[0] == "i"},
    "*": "0",
}
_HIGHEST = {
    **dict.fromkeys(("f32", "f64", *STORED), "INFINITY"),
    **{tag: f"{name}MAX" for tag, name in _LIMITS.items()},
    "*": "1",
}

REDUCERS = {
    "sum": Reducer("gt_add_{t}({0}, {1})", {"*": "0"}),
    "prod": Reducer("gt_mul_{t}({0}, {1})", {"*": "1"}),
    "max": Reducer("gt_max_{t}({0}, {1})", _LOWEST),
    "min": Reducer("gt_min_{t}({0}, {1})", _HIGHEST),
    "last": Reducer("{1}", {"*": "0"}),
    "any": Reducer("({0} | {1})", {"*": "0"}),
    "all": Reducer("({0} & {1})", {"*": "1"}),
    "argmax": Reducer("gt_argmax_{t}", {"*": "0"}),
    "argmin": Reducer("gt_argmin_{t}", {"*": "0"}),
}


def literal(value: float | int | bool, tag: str) -> str:
    """A C literal of that dtype that reads back to the same bits (NaN keeps only its being NaN).

    >>> literal(0.1, "f32"), literal(1, "f64"), literal(-2, "i64"), literal(True, "b1")
    ('0.1f', '1.0', 'INT64_C(-2)', '1')
    """
    if tag == "b1":
        return str(int(bool(value)))
    if tag in STORED:
        return _float_literal(float(value), "f32")
    if tag in ("f32", "f64"):
        return _float_literal(float(value), tag)
    value = int(value)
    if tag in _WIDE_LITERALS:
        lowest, wide = _WIDE_LITERALS[tag]
        return lowest if lowest and value == RANGES[tag][0] else wide.format(value)
    return str(value)


_WIDE_LITERALS = {
    "i32": ("INT32_MIN", "{}"),
    "i64": ("INT64_MIN", "INT64_C({})"),
    "u32": ("", "UINT32_C({})"),
    "u64": ("", "UINT64_C({})"),
}
"""Tag -> how the lowest value reads, which no C literal has, and how the others do."""


def _float_literal(value: float, tag: str) -> str:
    suffix = "f" if tag == "f32" else ""
    if math.isnan(value):
        return "NAN" if tag == "f32" else "(double)NAN"
    if math.isinf(value):
        return ("-" if value < 0 else "") + ("INFINITY" if tag == "f32" else "(double)INFINITY")
    text = shortest(value) if tag == "f32" else repr(value)
    if not any(c in text for c in ".e"):
        text += ".0"
    return text + suffix


def shortest(value: float) -> str:
    """The shortest decimal text that reads back to the same float32.

    >>> shortest(-30.0), shortest(0.10000000149011612), shortest(1e-40)
    ('-30.0', '0.1', '1e-40')
    """
    target = round_f32(value)
    for digits in range(1, 10):
        near = float(f"{value:.{digits}g}")
        if round_f32(near) == target:
            return repr(near)
    return repr(value)


def round_f32(value: float) -> float:
    """Round a Python float to float32; what is too large becomes infinite."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long"
    " register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while"
    " main errno I NAN INFINITY".split()
)


def identifier(hint: str) -> str:
    """A C identifier that reads like the hint.

    >>> identifier("params.w1"), identifier("2x"), identifier("for")
    ('params_w1', 'v2x', 'for_')
    """
    text = re.sub(r"\W+", "_", hint, flags=re.ASCII).strip("_") or "v"
    if text[0].isdigit():
        text = "v" + text
    return text + "_" if text in _KEYWORDS or text.startswith("gt_") else text

"""Exact elementwise operations: arithmetic, rounding, comparison, logic, selection, conversion.

Compiled results are bit-equal to NumPy's. Integers wrap; division and remainder of integers floor, and
give 0 for a zero divisor; conversions from floats truncate, saturate, and send NaN to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError
from ..interchange import require_device
from ..ir import Atom, Lit
from ..prim import Define, Input, Prim, Sample, public, register
from ..pullback import Masked
from ..tensor import Tensor, apply, as_tensor, broadcast, cast
from ..types import DTYPES, DType, Type, as_dtype, bfloat16, bool_, float64, promote
from .records import Function, batch_elementwise, bool_type, common_shape, elementwise, same_type, uniform

Array = np.ndarray[Any, Any]
NUMBERS = ("f", "i", "u")
ALL = ("f", "i", "u", "b")


def _is(atom: Atom, value: float, negative_zero: bool | None = None) -> bool:
    """Whether an atom is that literal; with `negative_zero` also that its sign is so."""
    if not isinstance(atom, Lit) or atom.value != value:
        return False
    return negative_zero is None or bool(np.signbit(atom.value)) == negative_zero


def _number_type(*types: Type) -> Type:
    """The operands' shape and dtype, which must not be bool."""
    if types[0].dtype == bool_:
        raise DTypeError("takes numbers, not bools")
    return same_type(*types)


def _simplify_add(ins: Sequence[Atom], define: Define) -> Atom | None:
    """x + (-0) is x; for integers x + 0 is x too."""
    for zero, other in ((ins[1], ins[0]), (ins[0], ins[1])):
        if _is(zero, 0.0, negative_zero=True) or (_is(zero, 0) and not zero.type.dtype.floating):
            return other
    return None


def _simplify_subtract(ins: Sequence[Atom], define: Define) -> Atom | None:
    """x - (+0) is x."""
    return ins[0] if _is(ins[1], 0.0, negative_zero=False) else None


def _simplify_multiply(ins: Sequence[Atom], define: Define) -> Atom | None:
    """x * 1 is x."""
    return ins[0] if _is(ins[1], 1) else ins[1] if _is(ins[0], 1) else None


def _simplify_divide(ins: Sequence[Atom], define: Define) -> Atom | None:
    """x / 1 is x."""
    return ins[0] if _is(ins[1], 1) else None


def _inverse(name: str) -> Any:
    """name(name(x)) is x."""

    def simplify(ins: Sequence[Atom], define: Define) -> Atom | None:
        if isinstance(ins[0], Lit):
            return None
        inner = define(ins[0])
        return inner.ins[0] if inner is not None and inner.prim.name == name else None

    return simplify


add = elementwise(
    "add", np.add, {"f": "{0} + {1}", "*": "gt_add_{t}({0}, {1})", "b": "{0} | {1}"},
    vjp=lambda g, y, a, b: (g, g), arity=2, simplify=_simplify_add, exact=True, dtypes=ALL,
    doc="Elementwise sum.",
)  # fmt: skip
subtract = elementwise(
    "sub", np.subtract, {"f": "{0} - {1}", "*": "gt_sub_{t}({0}, {1})"},
    vjp=lambda g, y, a, b: (g, lambda: -g), arity=2, type=_number_type, simplify=_simplify_subtract, exact=True,
    dtypes=NUMBERS, public="subtract", doc="Elementwise difference.",
)  # fmt: skip
multiply = elementwise(
    "mul", np.multiply, {"f": "{0} * {1}", "*": "gt_mul_{t}({0}, {1})", "b": "{0} & {1}"},
    vjp=lambda g, y, a, b: (lambda: g * b, lambda: g * a), arity=2, simplify=_simplify_multiply, exact=True,
    dtypes=ALL, public="multiply", doc="Elementwise product.",
)  # fmt: skip
divide = elementwise(
    "div", np.true_divide, {"f": "{0} / {1}"},
    vjp=lambda g, y, a, b: (lambda: g / b, lambda: -(g * y) / b), arity=2, promotion="float",
    simplify=_simplify_divide, exact=True, samples=[[uniform(), uniform(0.5, 3)], [uniform(), uniform(-3, -0.5)]],
    public="divide", doc="Elementwise quotient; integers give the default float.",
)  # fmt: skip
negative = elementwise(
    "neg", np.negative, {"f": "-{0}", "*": "gt_neg_{t}({0})"}, vjp=lambda g, y, x: (-g,), type=_number_type,
    simplify=_inverse("neg"), exact=True, dtypes=NUMBERS, public="negative", doc="Elementwise -x; integers wrap.",
)  # fmt: skip
abs = elementwise(
    "abs", np.abs, {"f": "gt_abs_{t}({0})", "*": "gt_abs_{t}({0})"}, vjp=lambda g, y, x: (g * sign(x),), exact=True,
    samples=[[uniform(0.1, 3)], [uniform(-3, -0.1)]], dtypes=NUMBERS,
    doc="Elementwise absolute value; its derivative at 0 is 0.",
)  # fmt: skip
sign: Function = elementwise(
    "sign", np.sign, "gt_sign_{t}({0})", vjp=lambda g, y, x: (None,), zero=True, type=_number_type, exact=True,
    dtypes=NUMBERS, doc="Elementwise -1, 0 or 1; NaN stays. Its derivative is 0.",
)  # fmt: skip


def _extreme_vjp(is_best: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Sequence[Any]]:
    """The cotangent goes to the operand that was taken, half to each where both are equal."""

    def share(g: Tensor, taken: Tensor, other: Tensor) -> Masked:
        return Masked(where(taken == other, g * 0.5, g), is_best(taken, other))

    return lambda g, y, a, b: (lambda: share(g, a, b), lambda: share(g, b, a))


maximum = elementwise(
    "max2", np.maximum, {"b": "{0} | {1}", "*": "gt_max_{t}({0}, {1})"},
    vjp=_extreme_vjp(lambda a, b: a >= b),
    arity=2, exact=True, dtypes=ALL, public="maximum",
    doc="Elementwise larger value; NaN if either is NaN. Equal operands share the gradient.",
)  # fmt: skip
minimum = elementwise(
    "min2", np.minimum, {"b": "{0} & {1}", "*": "gt_min_{t}({0}, {1})"},
    vjp=_extreme_vjp(lambda a, b: a <= b),
    arity=2, exact=True, dtypes=ALL, public="minimum",
    doc="Elementwise smaller value; NaN if either is NaN. Equal operands share the gradient.",
)  # fmt: skip
floor_divide = elementwise(
    "floor_divide", np.floor_divide, "gt_floor_divide_{t}({0}, {1})", vjp=lambda g, y, a, b: (None, None), zero=True,
    arity=2, type=_number_type, exact=True, samples=[[uniform(-9, 9), uniform(-4, 4)]], dtypes=NUMBERS,
    doc="Elementwise quotient rounded down; integer division by zero gives 0. Its derivative is 0.",
)  # fmt: skip
remainder = elementwise(
    "remainder", np.remainder, "gt_remainder_{t}({0}, {1})",
    vjp=lambda g, y, a, b: (g, lambda: -(g * floor_divide(a, b))), arity=2, type=_number_type, exact=True,
    samples=[[Input(values=[5.3, -4.2, 0.7]), Input(values=[2.0, 3.0, -0.4])]], dtypes=NUMBERS,
    doc="Elementwise a - b * floor(a / b), with the sign of b; integer remainder by zero gives 0.",
)  # fmt: skip

_ROUNDING_INPUT = [[Input(values=[-2.3, -0.7, 0.4, 1.6, 2.2])]]


def _rounding(name: str, numpy: Any, doc: str) -> Any:
    return elementwise(
        name, lambda x: numpy(x) if x.dtype.kind == "f" else x, {"f": f"gt_{name}_{{t}}({{0}})", "*": "{0}"},
        vjp=lambda g, y, x: (None,), zero=True, exact=True,
        samples=_ROUNDING_INPUT, dtypes=NUMBERS, doc=doc + " Its derivative is 0.",
    )  # fmt: skip


floor = _rounding("floor", np.floor, "Elementwise largest integer not above x.")
ceil = _rounding("ceil", np.ceil, "Elementwise smallest integer not below x.")
round = _rounding("round", np.rint, "Elementwise nearest integer, halves to even.")
trunc = _rounding("trunc", np.trunc, "Elementwise x without its fraction.")


def _comparison(name: str, numpy: Any, operator: str, public_name: str, words: str) -> Any:
    return elementwise(
        name, numpy, f"{{0}} {operator} {{1}}", vjp=lambda g, y, a, b: (None, None), zero=True, arity=2, type=bool_type,
        exact=True, samples=[[uniform(), uniform()], [Input(values=[1, 2, 3]), Input(values=[3, 2, 1])]], dtypes=ALL,
        public=public_name, doc=f"Elementwise {words}, as bool.",
    )  # fmt: skip


equal = _comparison("eq", np.equal, "==", "equal", "x1 == x2")
not_equal = _comparison("ne", np.not_equal, "!=", "not_equal", "x1 != x2")
less = _comparison("lt", np.less, "<", "less", "x1 < x2")
less_equal = _comparison("le", np.less_equal, "<=", "less_equal", "x1 <= x2")
greater = _comparison("gt", np.greater, ">", "greater", "x1 > x2")
greater_equal = _comparison("ge", np.greater_equal, ">=", "greater_equal", "x1 >= x2")


def _logic(name: str, numpy: Any, c: str, arity: int, doc: str) -> Any:
    return elementwise(
        name, numpy, c, vjp=lambda *a: (None,) * arity, zero=True, arity=arity, promotion="boolean", type=bool_type,
        simplify=_inverse(name) if arity == 1 else None, exact=True, dtypes=("b",), doc=doc,
    )  # fmt: skip


logical_and = _logic("logical_and", np.logical_and, "{0} & {1}", 2, "Elementwise and of truth values.")
logical_or = _logic("logical_or", np.logical_or, "{0} | {1}", 2, "Elementwise or of truth values.")
logical_xor = _logic("logical_xor", np.logical_xor, "{0} ^ {1}", 2, "Elementwise exclusive or of truth values.")
logical_not = _logic("logical_not", np.logical_not, "!{0}", 1, "Elementwise negation of a truth value.")


def _bits(name: str, numpy: Any, c: dict[str, str], arity: int, doc: str, samples: Any = ()) -> Any:
    return elementwise(
        name, numpy, c, vjp=lambda *a: (None,) * arity, zero=True, arity=arity, promotion="integer", exact=True,
        simplify=_inverse(name) if arity == 1 else None, samples=samples,
        dtypes=("i", "u", "b") if "b" in c else ("i", "u"), doc=doc,
    )  # fmt: skip


def _shift(numpy: Any, left: bool) -> Any:
    """NumPy's shift, with what it leaves undefined: too far gives 0, or the sign of a negative number."""

    def shifted(x: Array, n: Array) -> Array:
        bits = x.dtype.itemsize * 8
        far = (n < 0) | (n >= bits)
        limit = np.zeros_like(x) if left or x.dtype.kind == "u" else np.where(x < 0, -1, 0).astype(x.dtype)
        return np.asarray(np.where(far, limit, numpy(x, np.where(far, 0, n).astype(x.dtype))))

    return shifted


_SHIFTS = [[Input(values=[1, 5, -7, 100]), Input(values=[0, 3, 2, 99])]]
bitwise_and = _bits("bitwise_and", np.bitwise_and, {"*": "{0} & {1}", "b": "{0} & {1}"}, 2, "Elementwise and of bits.")
bitwise_or = _bits("bitwise_or", np.bitwise_or, {"*": "{0} | {1}", "b": "{0} | {1}"}, 2, "Elementwise or of bits.")
bitwise_xor = _bits("bitwise_xor", np.bitwise_xor, {"*": "{0} ^ {1}", "b": "{0} ^ {1}"}, 2, "Elementwise xor of bits.")
bitwise_invert = _bits(
    "bitwise_invert", np.invert, {"*": "gt_not_{t}({0})", "b": "!{0}"}, 1, "Elementwise inversion of all bits."
)
bitwise_left_shift = _bits(
    "bitwise_left_shift", _shift(np.left_shift, True), {"*": "gt_shift_left_{t}({0}, {1})"}, 2,
    "Elementwise x1 * 2**x2; shifting too far or by a negative count gives 0.", _SHIFTS,
)  # fmt: skip
bitwise_right_shift = _bits(
    "bitwise_right_shift", _shift(np.right_shift, False), {"*": "gt_shift_right_{t}({0}, {1})"}, 2,
    "Elementwise x1 >> x2; shifting too far or by a negative count gives 0, or -1 for negative x1.", _SHIFTS,
)  # fmt: skip


def _test(name: str, numpy: Any, doc: str) -> Any:
    return elementwise(
        name, numpy, f"gt_{name}_{{t}}({{0}})", vjp=lambda g, y, x: (None,), zero=True, promotion="float",
        type=bool_type, exact=True, doc=doc,
    )  # fmt: skip


isnan = _test("isnan", np.isnan, "Elementwise test for NaN.")
isinf = _test("isinf", np.isinf, "Elementwise test for plus or minus infinity.")
isfinite = _test("isfinite", np.isfinite, "Elementwise test for neither NaN nor infinite.")


def _where_type(c: Type, a: Type, b: Type) -> Type:
    if c.dtype != bool_ or a.dtype != b.dtype:
        raise DTypeError("needs a bool and two operands of one dtype")
    return Type(common_shape([c, a, b]), a.dtype, a.weak and b.weak)


def _simplify_where(ins: Sequence[Atom], define: Define) -> Atom | None:
    """A constant condition picks its operand; two equal operands need none."""
    if isinstance(ins[0], Lit):
        return ins[1] if ins[0].value else ins[2]
    return ins[1] if ins[1] is ins[2] or (isinstance(ins[1], Lit) and ins[1] == ins[2]) else None


register(
    Prim(
        "where", "elementwise", _where_type, np.where,
        vjp=lambda g, y, c, a, b: (None, lambda: Masked(g, c), lambda: Masked(g, logical_not(c))), mask="keep",
        batch=batch_elementwise("where"), c={"*": "gt_where_{r}({0}, {1}, {2})"}, simplify=_simplify_where, exact=True,
        moves=True,
        samples=(Sample((Input(values=[[True, False], [False, True]], dtype=bool_), uniform(shape=(2, 2)),
                         uniform(shape=(2, 2))), dtypes=ALL),),
        doc="Elementwise choice.",
    )
)  # fmt: skip


@public
def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, else x2; operands broadcast, x1 and x2 meet in one dtype.

    The operand that is not chosen contributes exactly nothing to the gradient, even where its own
    derivative is infinite or NaN.

    >>> import gtensor as gt
    >>> gt.grad(lambda x: gt.sum(gt.where(x > 0, gt.log(x), 0.0)))(gt.tensor([2.0, 0.0]))
    Tensor([0.5, 0. ], dtype=float32)
    """
    chosen = cast(as_tensor(condition), bool_)
    return apply("where", *broadcast([chosen, *_same_dtype(x1, x2)]))


def _same_dtype(x1: Any, x2: Any) -> list[Tensor]:
    a, b = as_tensor(x1), as_tensor(x2)
    dtype, weak = promote([a.type, b.type])
    return [cast(a, dtype, weak), cast(b, dtype, weak)]


def _cast_type(x: Type, dtype: DType, weak: bool = False) -> Type:
    return Type(x.shape, dtype, weak)


def cast_array(x: Array, dtype: DType, weak: bool = False) -> Array:
    """Conversion by gtensor's rule: floats to integers truncate, saturate, and send NaN to 0; to floats they round."""
    if x.dtype.kind == "V":
        x = x.astype(np.float32)  # bfloat16
    if dtype == bfloat16 and x.dtype == np.float64:
        x = _odd(x)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype.dtype)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = whole <= float(info.min), whole >= float(info.max)
        inside = np.where(low | high, 0.0, whole).astype(dtype.dtype)
        return np.asarray(np.where(low, info.min, np.where(high, info.max, inside)).astype(dtype.dtype))
    return x.astype(dtype.dtype)


def _odd(x: Array) -> Array:
    """float64 as float32 whose last bit is 1 where digits were cut off: rounded further, it is as if rounded once."""
    near = x.astype(np.float32)
    bits = near.view(np.uint32) - (np.abs(near) > np.abs(x))
    return np.where(near == x, near, (bits | 1).view(np.float32))


def _simplify_cast(ins: Sequence[Atom], define: Define, dtype: DType, weak: bool = False) -> Atom | None:
    return ins[0] if ins[0].type.dtype == dtype and ins[0].type.weak == weak else None


register(
    Prim(
        "cast", "elementwise", _cast_type, cast_array,
        vjp=lambda g, y, x, dtype, weak=False: (cast(g, x.type.dtype) if x.type.dtype.floating else None,), mask="keep",
        batch=batch_elementwise("cast"), c={"*": "gt_cast_{t}_{r}({0})"}, simplify=_simplify_cast, exact=True,
        moves=True,
        samples=tuple(
            Sample((uniform(),), {"dtype": d}, grad=d == float64, dtypes=ALL)
            for d in DTYPES
        ),
        doc="Conversion to another dtype.",
    )
)  # fmt: skip


@public
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x in another dtype. Floats to integers truncate, saturate, and send NaN to 0; to bool: not 0.

    `copy` is the standard's: nobody can write a tensor, so that x itself is as good as a copy. Raises
    DeviceError for a device other than "cpu".

    >>> import gtensor as gt
    >>> astype(gt.tensor([-1.7, 3e9, float("nan")]), "int32")
    Tensor([        -1, 2147483647,          0], dtype=int32)
    """
    require_device(device)
    return cast(as_tensor(x), as_dtype(dtype))


@public
def positive(x: Any, /) -> Tensor:
    """x itself, as a tensor."""
    return as_tensor(x)


def _stop_type(x: Type) -> Type:
    return x


register(
    Prim(
        "stop_gradient", "effect", _stop_type, lambda x: x, zero=True, exact=True,
        batch=batch_elementwise("stop_gradient"), vjp=lambda g, y, x: (None,),
        samples=(Sample((uniform(),), grad=False, dtypes=ALL),),
        doc="The same value, whose derivative is exactly 0 at every order.",
    )
)  # fmt: skip


@public
def stop_gradient(x: Any, /) -> Tensor:
    """The same value, through which no gradient flows, at any order; it costs nothing in the C.

    >>> import gtensor as gt
    >>> gt.grad(lambda x: x * stop_gradient(x))(3.0)
    Tensor(3., dtype=float32)
    """
    return apply("stop_gradient", x)

"""The pass `algebra`: arithmetic and selections in their shortest form, as far as not a bit changes.

The rules for arithmetic are here, those for truth values and `where` in `logic`. Bit-equal means equal
signs of zeros and equal places of NaN, for all operands, infinities and denormals included; the sign and
payload of a NaN are nobody's. The record of a primitive drops neutral operands (x*1, x-0) already.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ir
from ..ir import Atom, Graph, Lit
from ..prim import REGISTRY
from ..types import DTYPES, bool_, holds
from .logic import LOGIC
from .rules import Rule, Site, apply_rules, with_bodies
from .sink import below_views, literal_operands


@with_bodies
def algebra(graph: Graph) -> Graph:
    """Rewrite equations to simpler ones that are bit-equal.

    Left as they are, since a bit would change: x+0 (-0), x*0 (NaN), 0-x and -(a-b) (zeros), a*b+a*c,
    c*(d*x) (denormals), x/c but for powers of two, max(a, b) against max(b, a) (zeros), not (a < b) of
    floats (NaN), x**2 against x*x and x**-1 against 1/x (pow rounds differently).
    Precondition: literal operands are literals, not broadcasts of them (views).

    before::

        t0: f32[3] = neg(y)
        t1: f32[3] = add(x, t0)
        t2: f32[3] = div(t1, 4.0:f32)

    after::

        t0: f32[3] = sub(x, y)
        t1: f32[3] = mul(t0, 0.25:f32)
    """
    return apply_rules(graph, RULES)


def number(atom: Atom) -> Any:
    """The value of a literal; None for a variable."""
    return atom.value if isinstance(atom, Lit) else None


def negated(atom: Atom) -> Atom:
    """A literal with its sign changed (integers wrap); a variable as it is."""
    if not isinstance(atom, Lit):
        return atom
    with np.errstate(all="ignore"):
        return ir.lit(np.negative(atom.value), atom.type)


# ---- signs -----------------------------------------------------------------------------------------------


def add_of_negative(site: Site) -> Atom | None:
    """a + -b is a - b, and -a + b is b - a."""
    a, b = site.ins
    if (eqn := site.maker(b, "neg")) is not None:
        return site.become("sub", a, eqn.ins[0])
    if (eqn := site.maker(a, "neg")) is not None:
        return site.become("sub", b, eqn.ins[0])
    return None


def sub_of_negative(site: Site) -> Atom | None:
    """a - -b is a + b."""
    eqn = site.maker(site.ins[1], "neg")
    return None if eqn is None else site.become("add", site.ins[0], eqn.ins[0])


def sub_from_zero(site: Site) -> Atom | None:
    """-0 - x is -x, and so is 0 - x for integers; for floats 0 - 0 is 0, not -0."""
    value = number(site.ins[0])
    if value is None or value != 0 or (site.type.dtype.floating and not np.signbit(value)):
        return None
    return site.become("neg", site.ins[1])


def of_two_negatives(site: Site) -> Atom | None:
    """-a * -b is a * b, and -a / -b is a / b."""
    a, b = (site.maker(x, "neg") for x in site.ins)
    return None if a is None or b is None else site.again(a.ins[0], b.ins[0])


def of_negative_and_literal(site: Site) -> Atom | None:
    """-a * c is a * -c, in either order, and so for quotients; unsigned ones have no negative literals."""
    made = [site.maker(x, "neg") for x in site.ins]
    if site.type.dtype.kind == "u" or not any(made) or not any(isinstance(x, Lit) for x in site.ins):
        return None
    return site.again(*(negated(x) if eqn is None else eqn.ins[0] for x, eqn in zip(site.ins, made, strict=True)))


def mul_by_minus_one(site: Site) -> Atom | None:
    """x * -1 is -x."""
    a, b = site.ins
    for factor, x in ((a, b), (b, a)):
        value = number(factor)
        if value is not None and value == -1:
            return site.become("neg", x)
    return None


def neg_of_scaled(site: Site) -> Atom | None:
    """-(c * x) is -c * x."""
    eqn = site.maker(site.ins[0], "mul")
    if eqn is None or site.type.dtype.kind == "u" or not any(isinstance(x, Lit) for x in eqn.ins):
        return None
    return site.become("mul", *map(negated, eqn.ins))


def abs_of_sign(site: Site) -> Atom | None:
    """abs(-x) and abs(abs(x)) are abs(x)."""
    eqn = site.maker(site.ins[0], "neg", "abs")
    return None if eqn is None else site.again(eqn.ins[0])


# ---- one form --------------------------------------------------------------------------------------------


def add_to_itself(site: Site) -> Atom | None:
    """x + x is 2 * x, whose factor only moves the exponent; of bool, whose sum is `or`, it is x."""
    a, b = site.ins
    if a is not b:
        return None
    return a if site.type.dtype == bool_ else site.become("mul", site.literal(2), a)


def square_as_product(site: Site) -> Atom | None:
    """square(x) is x * x."""
    return site.become("mul", site.ins[0], site.ins[0])


def reciprocal_as_quotient(site: Site) -> Atom | None:
    """reciprocal(x) is 1 / x."""
    return site.become("div", site.literal(1), site.ins[0])


def div_by_power_of_two(site: Site) -> Atom | None:
    """x / c is x * (1/c) where c and 1/c are exact: both move the exponent of x and round once."""
    value = number(site.ins[1])
    if value is None:
        return None
    size, tiny = abs(float(value)), float(np.finfo(site.type.dtype.dtype).smallest_normal)
    if not tiny <= size <= 1 / tiny or math.frexp(size)[0] != 0.5:
        return None
    return site.become("mul", site.ins[0], site.literal(1 / float(value)))


def pow_of_nothing(site: Site) -> Atom | None:
    """x ** 0 is 1, also for NaN."""
    value = number(site.ins[1])
    return None if value is None or value != 0 else site.become("broadcast", site.literal(1), shape=site.type.shape)


def extreme_of_one(site: Site) -> Atom | None:
    """The larger, or smaller, of x and x is x."""
    return site.ins[0] if site.ins[0] is site.ins[1] else None


HOLDS = {dtype: frozenset(wide for wide in DTYPES if holds(wide, dtype)) for dtype in DTYPES}
"""The dtypes that hold every value of a dtype."""


def cast_of_cast(site: Site) -> Atom | None:
    """A conversion by way of a dtype that holds every value of the first is a direct one.

    But not that of integers by way of floats to integers that do not hold them: floats saturate, integers wrap.
    """
    eqn = site.maker(site.ins[0], "cast")
    if eqn is None or eqn.out.type.dtype not in HOLDS[eqn.ins[0].type.dtype]:
        return None
    first, between, last = eqn.ins[0].type.dtype, eqn.out.type.dtype, site.type.dtype
    saturates = between.floating and not first.floating and last.kind in "iu" and last not in HOLDS[first]
    return None if saturates else site.again(eqn.ins[0])


MIRROR = {
    **{name: name for name in ("add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor")},
    **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"},
}
"""The operation that gives the same for exchanged operands."""


def mirrored(site: Site) -> Atom | None:
    """b * a is a * b where that is there already; what is first stays as its author wrote it."""
    a, b = site.ins
    return None if a is b else site.builder.find(REGISTRY[MIRROR[site.prim.name]], (b, a), site.params)


ARITHMETIC: dict[str, tuple[Rule, ...]] = {
    "add": (add_to_itself, add_of_negative),
    "sub": (sub_of_negative, sub_from_zero),
    "mul": (of_two_negatives, of_negative_and_literal, mul_by_minus_one),
    "div": (of_two_negatives, of_negative_and_literal, div_by_power_of_two),
    "neg": (neg_of_scaled,),
    "abs": (abs_of_sign,),
    "max2": (extreme_of_one,),
    "min2": (extreme_of_one,),
    "pow": (pow_of_nothing,),
    "square": (square_as_product,),
    "reciprocal": (reciprocal_as_quotient,),
    "cast": (cast_of_cast,),
}
"""Which rules see which primitive, in the order in which they are tried."""

RULES: dict[str, tuple[Rule, ...]] = {
    name: (*ARITHMETIC.get(name, ()), *LOGIC.get(name, ()), *((mirrored,) if name in MIRROR else ()))
    for name in (*ARITHMETIC, *LOGIC, *MIRROR)
} | {"elementwise": (literal_operands, below_views)}
"""All of them; and literals that a rule has spread become operands, as in views."""

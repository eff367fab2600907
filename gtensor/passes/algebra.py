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
from ..builder import rebuild
from ..ir import Atom, Graph, Lit
from ..types import DType, bool_, float32, float64, int32, int64, uint8
from .logic import LOGIC
from .rules import Rule, Site, rewriter, with_bodies
from .sink import below_views, literal_operands


@with_bodies
def algebra(graph: Graph) -> Graph:
    """Rewrite equations to simpler ones that are bit-equal.

    Left as they are, since a bit would change: x+0 (-0), x*0 (NaN), 0-x, a*b+a*c, c*(d*x) (denormals),
    x/c but for powers of two, -(a-b) (-0), max(a, b) against max(b, a) (zeros), not (a < b) of floats (NaN),
    x**2 against x*x and x**-1 against 1/x (pow rounds differently).
    Precondition: literal operands are literals, not broadcasts of them (views).

    before::

        t0: f32[3] = neg(y)
        t1: f32[3] = add(x, t0)
        t2: f32[3] = div(t1, 4.0:f32)

    after::

        t0: f32[3] = sub(x, y)
        t1: f32[3] = mul(t0, 0.25:f32)
    """
    return rebuild(graph, rewriter(RULES))


def number(atom: Atom) -> Any:
    """The value of a literal; None for a variable."""
    return atom.value if isinstance(atom, Lit) else None


def negated(literal: Lit) -> Lit:
    """The literal with its sign changed; integers wrap."""
    with np.errstate(all="ignore"):
        return ir.lit(np.negative(literal.value), literal.type)


# ---- signs -----------------------------------------------------------------------------------------------


def add_of_negative(site: Site) -> Atom | None:
    """a + -b is a - b; -a + b is b - a."""
    a, b = site.ins
    if (eqn := site.maker(b, "neg")) is not None:
        return site.bind("sub", a, eqn.ins[0])
    if (eqn := site.maker(a, "neg")) is not None:
        return site.bind("sub", b, eqn.ins[0])
    return None


def sub_of_negative(site: Site) -> Atom | None:
    """a - -b is a + b."""
    eqn = site.maker(site.ins[1], "neg")
    return None if eqn is None else site.bind("add", site.ins[0], eqn.ins[0])


def sub_from_zero(site: Site) -> Atom | None:
    """-0 - x is -x, and so is 0 - x for integers; for floats 0 - 0 is 0, not -0."""
    zero, x = site.ins
    value = number(zero)
    if value is None or value != 0 or (site.type.dtype.floating and not np.signbit(value)):
        return None
    return site.bind("neg", x)


def of_two_negatives(site: Site) -> Atom | None:
    """-a * -b is a * b; -a / -b is a / b."""
    made = [site.maker(x, "neg") for x in site.ins]
    a, b = made
    return None if a is None or b is None else site.again(a.ins[0], b.ins[0])


def of_negative_and_literal(site: Site) -> Atom | None:
    """-a * c is a * -c, and in the same way for c * -a, -a / c and c / -a."""
    if site.type.dtype == uint8:
        return None
    for at, other in ((0, 1), (1, 0)):
        eqn, literal = site.maker(site.ins[at], "neg"), site.ins[other]
        if eqn is not None and isinstance(literal, Lit):
            ins = (eqn.ins[0], negated(literal))
            return site.again(ins[at], ins[other])
    return None


def mul_by_minus_one(site: Site) -> Atom | None:
    """x * -1 is -x."""
    for at, other in ((0, 1), (1, 0)):
        value = number(site.ins[at])
        if value is not None and value == -1:
            return site.bind("neg", site.ins[other])
    return None


def neg_of_scaled(site: Site) -> Atom | None:
    """-(c * x) is -c * x."""
    eqn = site.maker(site.ins[0], "mul")
    if eqn is None or site.type.dtype == uint8 or not any(isinstance(x, Lit) for x in eqn.ins):
        return None
    return site.bind("mul", *(negated(x) if isinstance(x, Lit) else x for x in eqn.ins))


def abs_of_sign(site: Site) -> Atom | None:
    """abs(-x) and abs(abs(x)) are abs(x)."""
    eqn = site.maker(site.ins[0], "neg", "abs")
    return None if eqn is None else site.again(eqn.ins[0])


# ---- one form --------------------------------------------------------------------------------------------


def add_to_itself(site: Site) -> Atom | None:
    """x + x is 2 * x, in which the factor only moves the exponent; of bool it is x."""
    a, b = site.ins
    if a is not b:
        return None
    return a if site.type.dtype == bool_ else site.bind("mul", site.literal(2), a)


def square_as_product(site: Site) -> Atom | None:
    """square(x) is x * x."""
    return site.bind("mul", site.ins[0], site.ins[0])


def reciprocal_as_quotient(site: Site) -> Atom | None:
    """reciprocal(x) is 1 / x."""
    return site.bind("div", site.literal(1), site.ins[0])


def div_by_power_of_two(site: Site) -> Atom | None:
    """x / c is x * (1/c) where c and 1/c are exact: both are x with its exponent moved, rounded once."""
    value = number(site.ins[1])
    if value is None:
        return None
    size, tiny = abs(float(value)), float(np.finfo(site.type.dtype.dtype).smallest_normal)
    if not tiny <= size <= 1 / tiny or math.frexp(size)[0] != 0.5:
        return None
    return site.bind("mul", site.ins[0], site.literal(1 / float(value)))


def pow_of_nothing(site: Site) -> Atom | None:
    """x ** 0 is 1, also for NaN."""
    value = number(site.ins[1])
    if value is None or value != 0:
        return None
    return site.bind("broadcast", site.literal(1), shape=site.type.shape)


def extreme_of_one(site: Site) -> Atom | None:
    """The larger of x and x is x."""
    return site.ins[0] if site.ins[0] is site.ins[1] else None


EXACT: dict[DType, tuple[DType, ...]] = {
    bool_: (uint8, int32, int64, float32, float64),
    uint8: (int32, int64, float32, float64),
    int32: (int64, float64),
    float32: (float64,),
}
"""The dtypes that hold every value of a dtype."""


def cast_of_cast(site: Site) -> Atom | None:
    """A conversion through a dtype that holds every value of the first is a direct one."""
    eqn = site.maker(site.ins[0], "cast")
    if eqn is None or eqn.out.type.dtype not in EXACT.get(eqn.ins[0].type.dtype, ()):
        return None
    return site.again(eqn.ins[0])


MIRROR = {
    name: name
    for name in (
        "add", "mul", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"
    )
} | {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}  # fmt: skip
"""The operation that gives the same for exchanged operands."""


def mirrored(site: Site) -> Atom | None:
    """b * a is a * b where that has been computed; what is first stays as the author wrote it."""
    a, b = site.ins
    return None if a is b else site.builder.find(ir_prim(MIRROR[site.prim.name]), (b, a), site.params)

"""Rules for truth values, comparisons and `where`: what the mask algebra leaves behind becomes short.

Comes in: a `rules.Site` of such an operation; `algebra` runs them. All hold bit by bit for every value,
NaN included: only eq and ne of floats are each other's negation.
"""

from __future__ import annotations

from ..ir import Atom, Lit, Var
from ..types import bool_
from .rules import Rule, Site


def _truth(atom: Atom) -> bool | None:
    """The truth value of a bool literal; None for what is none."""
    return bool(atom.value) if isinstance(atom, Lit) and atom.type.dtype == bool_ else None


def _spread(site: Site, literal: Atom) -> Atom:
    """A literal in the shape of this operation."""
    return site.become("broadcast", literal, shape=site.type.shape)


def _with_truth(site: Site) -> tuple[Atom, bool] | None:
    """An operand and the truth value that is the other one."""
    a, b = site.ins
    for literal, x in ((a, b), (b, a)):
        truth = _truth(literal)
        if truth is not None:
            return x, truth
    return None


def _or_not(site: Site, x: Atom, keep: bool) -> Atom:
    return x if keep else site.become("logical_not", x)


# ---- not, and, or ----------------------------------------------------------------------------------------

OPPOSITE = {"eq": "ne", "ne": "eq"}
OPPOSITE_OF_ORDERED = {**OPPOSITE, "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def not_of_comparison(site: Site) -> Atom | None:
    """not (a == b) is a != b, and back; not (a < b) is a >= b only for integers, since NaN is neither."""
    eqn = site.maker(site.ins[0], *OPPOSITE_OF_ORDERED)
    if eqn is None:
        return None
    opposite = (OPPOSITE if eqn.ins[0].type.dtype.floating else OPPOSITE_OF_ORDERED).get(eqn.prim.name)
    return None if opposite is None else site.become(opposite, *eqn.ins)


def of_itself(site: Site) -> Atom | None:
    """x and x is x, and so is x or x, and both bit by bit."""
    return site.ins[0] if site.ins[0] is site.ins[1] else None


def and_with_literal(site: Site) -> Atom | None:
    """x and True is x; x and False is False."""
    found = _with_truth(site)
    return None if found is None else found[0] if found[1] else _spread(site, site.literal(False))


def or_with_literal(site: Site) -> Atom | None:
    """x or False is x; x or True is True."""
    found = _with_truth(site)
    return None if found is None else _spread(site, site.literal(True)) if found[1] else found[0]


def xor_with_literal(site: Site) -> Atom | None:
    """x xor False is x; x xor True is not x."""
    found = _with_truth(site)
    return None if found is None else _or_not(site, found[0], not found[1])


def absorbed(site: Site) -> Atom | None:
    """x and (x and y) is x and y; x and (x or y) is x; the same with `and` and `or` exchanged."""
    a, b = site.ins
    for x, other in ((a, b), (b, a)):
        eqn = site.maker(other, "logical_and", "logical_or")
        if eqn is not None and any(x is y for y in eqn.ins):
            return other if eqn.prim is site.prim else x
    return None


# ---- comparisons of truth values -------------------------------------------------------------------------


def eq_with_truth(site: Site) -> Atom | None:
    """x == True is x; x == False is not x."""
    found = _with_truth(site)
    return None if found is None else _or_not(site, found[0], found[1])


def ne_with_truth(site: Site) -> Atom | None:
    """x != False is x; x != True is not x."""
    found = _with_truth(site)
    return None if found is None else _or_not(site, found[0], not found[1])


# ---- where -----------------------------------------------------------------------------------------------


def where_of_literals(site: Site) -> Atom | None:
    """What is one literal everywhere is that literal, spread."""
    c, a, b = site.ins
    chosen = a if _truth(c) else b if isinstance(c, Lit) else a if a == b else None
    return _spread(site, chosen) if isinstance(chosen, Lit) else None


def where_as_condition(site: Site) -> Atom | None:
    """where(c, True, False) is c; where(c, False, True) is not c."""
    c, a, b = site.ins
    first, second = _truth(a), _truth(b)
    if first is None or second is None or first == second or c.type != site.type:
        return None
    return _or_not(site, c, first)


def where_not(site: Site) -> Atom | None:
    """where(not c, a, b) is where(c, b, a)."""
    c, a, b = site.ins
    eqn = site.maker(c, "logical_not")
    return None if eqn is None else site.become("where", eqn.ins[0], b, a)


def where_of_where(site: Site) -> Atom | None:
    """where(c, where(c, a, x), b) is where(c, a, b), and so for the other branch."""
    c, a, b = site.ins
    first, second = site.maker(a, "where"), site.maker(b, "where")
    new_a = first.ins[1] if first is not None and first.ins[0] is c else a
    new_b = second.ins[2] if second is not None and second.ins[0] is c else b
    return None if new_a is a and new_b is b else site.become("where", c, new_a, new_b)


MAX_SUMMANDS = 8
"""Summands that `where_of_masked` looks at, so that a long sum under many conditions stays linear."""


def where_of_masked(site: Site) -> Atom | None:
    """where(c, s, 0) is s, and so where(c, 0, s) for not c, where s is a sum of what is 0 there already.

    A summand where(c, x, 0) or where(c and d, x, 0) is. Adding zeros gives 0, so even the sign is the same.
    """
    c, a, b = site.ins
    for masked, zero, chosen in ((a, b, True), (b, a, False)):
        if _is_zero(zero) and isinstance(masked, Var) and _masked(site, masked, c, chosen):
            return masked
    return None


def _is_zero(atom: Atom) -> bool:
    """Whether an atom is the literal 0, and not -0."""
    return isinstance(atom, Lit) and not any(atom.value.tobytes())


def _masked(site: Site, atom: Atom, c: Atom, chosen: bool) -> bool:
    """Whether a value is 0 wherever the condition is not `chosen`, by what made it."""
    stack, seen = [atom], 0
    while stack:
        eqn = site.maker(stack.pop(), "add", "where")
        seen += 1
        if eqn is None or seen > MAX_SUMMANDS:
            return False
        if eqn.prim.name == "add":
            stack += eqn.ins
        elif not _is_zero(eqn.ins[2 if chosen else 1]) or not _implies(site, eqn.ins[0], c, chosen):
            return False
    return True


def _implies(site: Site, condition: Atom, c: Atom, chosen: bool) -> bool:
    """Whether an element on which a condition is `chosen` has c so too."""
    if condition is c:
        return True
    eqn = site.maker(condition, "logical_and" if chosen else "logical_or")
    return eqn is not None and any(x is c for x in eqn.ins)


LOGIC: dict[str, tuple[Rule, ...]] = {
    "logical_not": (not_of_comparison,),
    "logical_and": (of_itself, and_with_literal, absorbed),
    "logical_or": (of_itself, or_with_literal, absorbed),
    "logical_xor": (xor_with_literal,),
    "bitwise_and": (of_itself,),
    "bitwise_or": (of_itself,),
    "eq": (eq_with_truth,),
    "ne": (ne_with_truth,),
    "where": (where_of_literals, where_as_condition, where_not, where_of_where, where_of_masked),
}
"""Which rules see which primitive, in the order in which they are tried."""

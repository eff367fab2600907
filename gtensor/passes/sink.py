"""Rules that take views out of the way of elementwise operations, reductions and products.

Comes in: a `rules.Site` of such an operation. An operation on views of one shape becomes a view of the
operation on what was viewed, so that a chain stays in the shape in which it began: in its product's
epilogue, in its row, in few elements before they are repeated. Only views next to the operation move, past
one view at most, so a sweep stays linear; views of inputs stay, since reading memory in another shape is
free. Reductions keep the order of their terms, products that of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Atom, Eqn, Lit, Var
from ..types import Dim, Shape, broadcast_shapes, shape_size
from .axes import aligned, reduced_before, regrouped, spread_axes, swaps_last_two, without_leading_ones
from .rules import Rule, Site

VIEWS = ("broadcast", "reshape", "transpose", "flip", "slice")
SCATTERED = ("broadcast", "transpose", "flip", "slice")
"""Views whose elements do not follow each other in memory."""

Made = dict[Atom, Eqn]


# ---- elementwise -----------------------------------------------------------------------------------------


def literal_operands(site: Site) -> Atom | None:
    """Operands that are literals spread become the literals, which elementwise operations take as they are."""
    ins = tuple(_literal_of(site, x) for x in site.ins)
    if all(a is b for a, b in zip(ins, site.ins, strict=True)):
        return None
    shaped = any(a.type.shape == site.type.shape for a in ins)
    return site.again(*ins) if shaped else None


def _literal_of(site: Site, x: Atom) -> Atom:
    eqn = site.maker(x, "broadcast")
    return eqn.ins[0] if eqn is not None and isinstance(eqn.ins[0], Lit) else x


def below_views(site: Site) -> Atom | None:
    """An operation whose operands are all the same view is that view of the operation.

    Inputs, which can be read in any shape, go along with a reshape. Outputs stay as they are.
    """
    made = {x: site.maker(x, "broadcast", "reshape", "transpose", "flip") for x in site.ins if isinstance(x, Var)}
    views: Made = {x: eqn for x, eqn in made.items() if eqn is not None}
    if site.output and any(isinstance(eqn.ins[0], Var) for eqn in views.values()):
        return None
    kinds = {eqn.prim.name for eqn in views.values()}
    if len(views) == len(made) and kinds == {"broadcast"}:
        return _below_broadcast(site, views)
    moving = [eqn for eqn in views.values() if eqn.prim.name != "broadcast"]
    if not moving or not all(_computed(site, eqn.ins[0]) or _is_input(site, eqn.ins[0]) for eqn in moving):
        return None
    if not any(_computed(site, eqn.ins[0]) for eqn in moving):
        return None
    if kinds <= {"reshape", "broadcast"} and all(_is_input(site, x) for x in made.keys() - views.keys()):
        return _below_reshape(site, views, moving[0].ins[0].type.shape)
    first = moving[0]
    same = all(eqn.prim is first.prim and eqn.params == first.params for eqn in views.values())
    if len(views) < len(made) or not same:
        return None
    inner = _inner(site, *(views[x].ins[0] if x in views else x for x in site.ins))
    return site.bind(first.prim.name, inner, **first.params)


def _inner(site: Site, *ins: Atom) -> Atom:
    """The operation on what was viewed."""
    return site.bind(site.prim.name, *ins, **site.params)


def _is_input(site: Site, x: Atom) -> bool:
    return isinstance(x, Var) and site.builder.define(x) is None


def _computed(site: Site, x: Atom) -> bool:
    """Whether a variable is made by an equation that is no view."""
    return not _is_input(site, x) and site.maker(x, *VIEWS) is None


def _below_broadcast(site: Site, views: Made) -> Atom | None:
    """Compute few elements, then repeat them; not an index check, which must not check what is repeated 0 times."""
    sources = [views[x].ins[0] if x in views else x for x in site.ins]
    small = broadcast_shapes([x.type.shape for x in sources])
    computed = any(isinstance(x, Var) for x in sources)
    if computed and without_leading_ones(small) == without_leading_ones(site.type.shape):
        return None
    if site.prim.place is not None and _may_be_empty(site.type.shape):
        return None
    fitted = [
        x if isinstance(x, Lit) or x.type.shape == small else site.bind("broadcast", x, shape=small) for x in sources
    ]
    return site.bind("broadcast", _inner(site, *fitted), shape=site.type.shape)


def _may_be_empty(shape: Sequence[int | Dim]) -> bool:
    return any(isinstance(n, Dim) or n == 0 for n in shape)


def _below_reshape(site: Site, views: Made, old: Shape) -> Atom | None:
    """Compute in the shape before the reshape; broadcasts to the shape behind it become broadcasts to this one."""
    before: dict[Atom, Shape] = {}
    for x, eqn in views.items():
        source = eqn.ins[0].type.shape
        shape = source if eqn.prim.name == "reshape" else regrouped(source, site.type.shape, old)
        if shape is None or (eqn.prim.name == "reshape" and shape != old):
            return None
        before[x] = shape

    def moved(x: Atom) -> Atom:
        if isinstance(x, Lit):
            return x
        source = views[x].ins[0] if x in views else x
        return site.bind("broadcast", site.bind("reshape", source, shape=before.get(x, old)), shape=old)

    return site.bind("reshape", _inner(site, *map(moved, site.ins)), shape=site.type.shape)


# ---- reductions ------------------------------------------------------------------------------------------


def reduce_of_one(site: Site) -> Atom | None:
    """Folding one element gives it: a reshape. A sum starts at 0, which turns -0 into 0, and integers widen."""
    (x,) = site.ins
    if any(x.type.shape[i] != 1 for i in site.params["axis"]):
        return None
    if x.type.dtype != site.type.dtype:
        x = site.bind("cast", x, dtype=site.type.dtype, weak=site.type.weak)
    x = site.bind("reshape", x, shape=site.type.shape)
    if site.prim.name == "sum" and site.type.dtype.floating:
        return site.become("add", x, site.literal(0.0))
    return x


def reduce_of_reshape(site: Site) -> Atom | None:
    """Folding all axes that a reshape made of some is folding those."""
    eqn = site.maker(site.ins[0], "reshape")
    if eqn is None or site.maker(eqn.ins[0], *VIEWS) is not None:
        return None
    (x,) = eqn.ins
    axis = reduced_before(site.params["axis"], x.type.shape, eqn.out.type.shape)
    if axis is None or (site.output and len(x.type.shape) - len(axis) != site.type.ndim):
        return None
    return site.bind("reshape", site.bind(site.prim.name, x, axis=axis), shape=site.type.shape)


def reduce_of_transpose(site: Site) -> Atom | None:
    """Folding axes of a transpose is folding those of its operand, where all that is left stands in order."""
    eqn = site.maker(site.ins[0], "transpose")
    if eqn is None or site.maker(eqn.ins[0], *VIEWS) is not None:
        return None
    axes = eqn.params["axes"]
    folded = [axes[i] for i in site.params["axis"]]
    kept = [i for i in axes if i not in folded]
    if kept != sorted(kept) or folded != sorted(folded):
        return None
    return site.bind(site.prim.name, eqn.ins[0], axis=tuple(folded))


def extreme_of_broadcast(site: Site) -> Atom | None:
    """The largest of equal elements is each of them."""
    eqn = site.maker(site.ins[0], "broadcast")
    if eqn is None:
        return None
    (x,), whole, axis = eqn.ins, eqn.out.type.shape, site.params["axis"]
    if not spread_axes(x.type.shape, whole).issuperset(axis) or _may_be_empty([whole[i] for i in axis]):
        return None
    left = tuple(n for i, n in enumerate(aligned(x.type.shape, len(whole))) if i not in axis)
    if x.type.shape != left:
        x = site.bind("reshape", x, shape=left)
    return site.bind("broadcast", x, shape=site.type.shape)


# ---- products --------------------------------------------------------------------------------------------


def matmul_of_transpose(site: Site) -> Atom | None:
    """A transposed operand is an operand stored transposed."""
    ins, flags = list(site.ins), [site.params["ta"], site.params["tb"]]
    for i, x in enumerate(site.ins):
        eqn = site.maker(x, "transpose")
        if eqn is not None and swaps_last_two(eqn.params["axes"]):
            ins[i], flags[i] = eqn.ins[0], not flags[i]
    if ins == list(site.ins):
        return None
    return site.bind("matmul", *ins, ta=flags[0], tb=flags[1])


def matmul_of_stack(site: Site) -> Atom | None:
    """A stack of matrices times one repeated matrix is a single tall product; not a view, which it would copy."""
    a, b = site.ins
    eqn = site.maker(b, "broadcast")
    if eqn is None or site.params["ta"] or a.type.ndim < 3 or site.maker(a, *SCATTERED):
        return None
    matrix, source = b.type.shape[-2:], eqn.ins[0].type
    if any(n != 1 for n in source.shape[:-2]) or aligned(source.shape, 2)[-2:] != matrix:
        return None
    tall = site.bind("reshape", a, shape=(shape_size(a.type.shape[:-1]), a.type.shape[-1]))
    one = site.bind("reshape", eqn.ins[0], shape=matrix)
    out = site.bind("matmul", tall, one, ta=False, tb=site.params["tb"])
    return site.bind("reshape", out, shape=site.type.shape)


_REDUCTIONS = (reduce_of_one, reduce_of_reshape, reduce_of_transpose)

SINK: dict[str, tuple[Rule, ...]] = {
    "elementwise": (literal_operands, below_views),
    "sum": _REDUCTIONS,
    "prod": _REDUCTIONS,
    "max": (*_REDUCTIONS, extreme_of_broadcast),
    "min": (*_REDUCTIONS, extreme_of_broadcast),
    "any": (*_REDUCTIONS, extreme_of_broadcast),
    "all": (*_REDUCTIONS, extreme_of_broadcast),
    "matmul": (matmul_of_transpose, matmul_of_stack),
}
"""Which rules see which primitive, or kind, in the order in which they are tried."""

"""The pass `split`: products of arrays that were joined are products of their parts, and long dot products are sums.

Nothing is joined in memory only to be multiplied: [a, b] @ w is a @ w_a + b @ w_b, where w_a and w_b are parts of
w in place; and of a product of which only columns are used, only these are computed. An element of a product is one
chain of additions, which loses digits over many terms; sums do not, and cost the same where a matrix meets a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder, rebuild
from ..ir import Atom, Eqn, Graph, Lit, Var
from ..prim import REGISTRY
from ..types import extent_bound
from .rules import Site, apply_rules, drop_dead, with_bodies


@with_bodies
def split(graph: Graph) -> Graph:
    """Multiply parts where arrays were joined; the order in which floats are added changes.

    before::

        t0: f32[4,5] = concat(a, b, axis=1)
        t1: f32[4,2] = matmul(t0, w, ta=False, tb=False)

    after::

        t0: f32[3,2] = slice(w, start=(0, 0), stop=(3, 2), step=(1, 1))
        t1: f32[4,2] = matmul(a, t0, ta=False, tb=False)
        t2: f32[2,2] = slice(w, start=(3, 0), stop=(5, 2), step=(1, 1))
        t3: f32[4,2] = matmul(b, t2, ta=False, tb=False)
        t4: f32[4,2] = add(t1, t3)
    """
    if all(eqn.prim.name != "matmul" for eqn in graph.eqns):
        return graph
    return _columns(apply_rules(graph, {"matmul": (of_joined, of_long)}))


LONG = 4096
"""Terms of a dot product above which it is computed as a sum."""


def of_long(site: Site) -> Atom | None:
    """Rows that lie in memory as they are read, times a vector, over many terms: a sum along each row."""
    a, b = site.ins
    ta, tb = site.params["ta"], site.params["tb"]
    if a.type.ndim != 2 or not a.type.dtype.floating:
        return None
    m, n, k = *site.type.shape, a.type.shape[0 if ta else 1]
    if extent_bound(k) <= LONG or not ((n == 1 and (m == 1 or not ta)) or (m == 1 and tb)):
        return None
    rows, shape, vector = (a, (m, k), b) if n == 1 else (b, (n, k), a)
    line = site.bind("reshape", vector, shape=(k,))
    terms = site.bind("mul", site.bind("reshape", rows, shape=shape), site.bind("broadcast", line, shape=shape))
    return site.become("reshape", site.bind("sum", terms, axis=(1,)), shape=site.type.shape)


def of_joined(site: Site) -> Atom | None:
    """A product whose left operand was joined along its columns (a sum of products) or its rows (products joined)."""
    a, b = site.ins
    made = site.maker(a, "concat")
    if made is None or a.type.ndim != 2:
        return None
    ta, tb = site.params["ta"], site.params["tb"]
    inner = made.params["axis"] == (0 if ta else 1)
    parts, start = [], 0
    for part in made.ins:
        length = int(part.type.shape[made.params["axis"]])
        own = _rows(site, b, 1 if tb else 0, start, start + length) if inner else b
        parts.append(site.bind("matmul", part, own, ta=ta, tb=tb))
        start += length
    if not inner:
        return site.become("concat", *parts, axis=0)
    for part in parts[1:-1]:
        parts[0] = site.bind("add", parts[0], part)
    return site.become("add", parts[0], parts[-1]) if len(parts) > 1 else parts[0]


def _rows(site: Site, x: Atom, axis: int, start: int, stop: int) -> Atom:
    starts = tuple(start if i == axis else 0 for i in range(x.type.ndim))
    stops = tuple(stop if i == axis else n for i, n in enumerate(x.type.shape))
    return site.bind("slice", x, start=starts, stop=stops, step=(1,) * x.type.ndim)


Range = tuple[int, int]
"""First column and the one after the last."""


def _columns(graph: Graph) -> Graph:
    """Products, and elementwise operations on them, of which all users take the same columns: only these are made."""
    ranges = _ranges(graph)
    narrow: set[Var] = set()
    for eqn in graph.eqns:
        made = eqn.outs[0]
        sums = eqn.prim.kind == "elementwise" and not narrow.isdisjoint(eqn.ins)
        if ranges.get(made) is not None and (eqn.prim.name == "matmul" or sums):
            narrow.add(made)
    if not narrow:
        return graph

    def rewrite(builder: Builder, eqn: Eqn, ins: list[Atom]) -> Sequence[Atom] | None:
        if eqn.prim.name == "slice" and eqn.ins[0] in narrow:
            return ins
        found = ranges.get(eqn.outs[0])
        if eqn.outs[0] not in narrow or found is None:
            return None

        def part(x: Atom, axis: int, old: Atom) -> Atom:
            if isinstance(x, Lit) or old in narrow:
                return x
            stop = tuple(found[1] if i == axis else n for i, n in enumerate(x.type.shape))
            start = tuple(found[0] if i == axis else 0 for i in range(2))
            return builder.bind(REGISTRY["slice"], (x,), {"start": start, "stop": stop, "step": (1, 1)}, eqn.source)

        if eqn.prim.name == "matmul":
            own = [ins[0], part(ins[1], 0 if eqn.params["tb"] else 1, eqn.ins[1])]
        else:
            own = [part(x, 1, old) for x, old in zip(ins, eqn.ins, strict=True)]
        return [builder.bind(eqn.prim, own, eqn.params, eqn.source, eqn.out.hint)]

    return drop_dead(rebuild(graph, rewrite))


def _ranges(graph: Graph) -> dict[Atom, Range | None]:
    """The columns of each matrix that all its users take; None where they do not agree, or one takes all."""
    ranges: dict[Atom, Range | None] = dict.fromkeys(graph.outputs)

    def note(atom: Atom, found: Range | None) -> None:
        ranges[atom] = found if ranges.get(atom, found) == found else None

    for eqn in reversed(graph.eqns):
        made = ranges.get(eqn.outs[0]) if eqn.prim.kind == "elementwise" else None
        for atom in eqn.ins:
            if isinstance(atom, Var):
                alike = made is not None and atom.type.shape == eqn.out.type.shape
                note(atom, _taken(eqn) if eqn.prim.name == "slice" else made if alike else None)
    return ranges


def _taken(eqn: Eqn) -> Range | None:
    """The columns that a slice takes of a matrix, all rows of them; None if it takes something else."""
    shape = eqn.ins[0].type.shape
    start, stop, step = (eqn.params[name] for name in ("start", "stop", "step"))
    if len(shape) != 2 or step != (1, 1) or start[0] != 0 or stop[0] != shape[0] or not isinstance(shape[1], int):
        return None
    return (start[1], stop[1]) if 0 < stop[1] - start[1] < shape[1] else None

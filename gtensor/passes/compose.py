"""Rules for views of views, and for views of what was put together: one form each.

Comes in: a `rules.Site` of a view, pad, concat or take. The normal form of a chain of views has no two of
one sort in a row, no view that renames nothing, and its broadcast last, since what is small is then
rearranged before it is repeated. All rules hold for every dtype and keep every bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ir import Atom, Lit
from ..types import Dim, Shape
from .axes import aligned, regrouped, spread_axes, without_leading_ones
from .rules import Rule, Site


def _source(site: Site, name: str) -> tuple[Atom, Any] | None:
    """Operand and parameters of the view of that name that the only operand is."""
    eqn = site.maker(site.ins[0], name)
    return None if eqn is None else (eqn.ins[0], eqn.params)


# ---- broadcast -------------------------------------------------------------------------------------------


def broadcast_of_broadcast(site: Site) -> Atom | None:
    """Repeating twice is repeating once."""
    inner = _source(site, "broadcast")
    return None if inner is None else site.again(inner[0])


def broadcast_of_new_axes(site: Site) -> Atom | None:
    """broadcast(reshape(x)) is broadcast(x) where the reshape only changes leading unit axes."""
    inner = _source(site, "reshape")
    if inner is None:
        return None
    x, shape = inner[0].type.shape, inner[1]["shape"]
    same = without_leading_ones(x) == without_leading_ones(shape) and len(x) <= len(site.type.shape)
    return site.again(inner[0]) if same else None


def broadcast_to_unit_axes(site: Site) -> Atom | None:
    """A broadcast that repeats nothing is a reshape; literals stay broadcasts, which is how they are spread."""
    (x,), shape = site.ins, site.type.shape
    if isinstance(x, Lit) or x.type.shape == shape or shape != aligned(x.type.shape, len(shape)):
        return None
    return site.bind("reshape", x, shape=shape)


# ---- reshape ---------------------------------------------------------------------------------------------


def reshape_of_literal(site: Site) -> Atom | None:
    """A literal in a shape is a literal spread."""
    (x,) = site.ins
    return site.bind("broadcast", x, shape=site.type.shape) if isinstance(x, Lit) and site.type.shape else None


def reshape_of_reshape(site: Site) -> Atom | None:
    """Only the last shape counts."""
    inner = _source(site, "reshape")
    return None if inner is None else site.again(inner[0])


def reshape_of_broadcast(site: Site) -> Atom | None:
    """reshape(broadcast(x)) is broadcast(reshape(x)) where whole groups of axes are repeated."""
    inner = _source(site, "broadcast")
    if inner is None or site.type.shape == site.ins[0].type.shape:
        return None
    shape = regrouped(inner[0].type.shape, site.ins[0].type.shape, site.type.shape)
    if shape is None:
        return None
    return site.bind("broadcast", site.bind("reshape", inner[0], shape=shape), shape=site.type.shape)


# ---- transpose and flip ----------------------------------------------------------------------------------


def transpose_of_transpose(site: Site) -> Atom | None:
    """Permutations compose."""
    inner = _source(site, "transpose")
    if inner is None:
        return None
    return site.bind("transpose", inner[0], axes=tuple(inner[1]["axes"][i] for i in site.params["axes"]))


def transpose_of_unit_axes(site: Site) -> Atom | None:
    """A transpose that keeps the order of all axes but unit axes is a reshape."""
    (x,), axes = site.ins, site.params["axes"]
    real = [i for i in axes if x.type.shape[i] != 1]
    if real != sorted(real) or axes == tuple(range(len(axes))):
        return None
    return site.bind("reshape", x, shape=site.type.shape)


def transpose_of_broadcast(site: Site) -> Atom | None:
    """transpose(broadcast(x)) is broadcast(transpose(x))."""
    inner = _source(site, "broadcast")
    if inner is None or site.params["axes"] == tuple(range(site.type.ndim)):
        return None
    full = site.bind("reshape", inner[0], shape=aligned(inner[0].type.shape, site.type.ndim))
    moved = site.bind("transpose", full, axes=site.params["axes"])
    return site.bind("broadcast", moved, shape=site.type.shape)


def flip_of_few(site: Site) -> Atom | None:
    """Reversing an axis of at most one element does nothing; axes stand in order."""
    (x,), axes = site.ins, site.params["axes"]
    kept = tuple(sorted(i for i in axes if x.type.shape[i] not in (0, 1)))
    if kept == axes:
        return None if axes else x
    return site.bind("flip", x, axes=kept)


def flip_of_flip(site: Site) -> Atom | None:
    """An axis reversed twice is as it was."""
    inner = _source(site, "flip")
    if inner is None:
        return None
    return site.bind("flip", inner[0], axes=tuple(sorted({*site.params["axes"]} ^ {*inner[1]["axes"]})))


def flip_of_broadcast(site: Site) -> Atom | None:
    """flip(broadcast(x)) is broadcast(flip(x)); repeated axes read the same in both directions."""
    inner = _source(site, "broadcast")
    if inner is None or not site.params["axes"]:
        return None
    x, lead = inner[0], site.type.ndim - inner[0].type.ndim
    axes = tuple(i - lead for i in site.params["axes"] if i >= lead)
    flipped = site.bind("flip", x, axes=axes) if axes else x
    return site.bind("broadcast", flipped, shape=site.type.shape)


# ---- slice -----------------------------------------------------------------------------------------------

Extents = tuple[Any, ...]


def _canonical(start: Sequence[Any], step: Sequence[Any], shape: Shape) -> dict[str, Extents]:
    """Parameters of the slice of that result: stop just behind the last element, step 1 where it does not matter."""
    rows = [
        (a, n, 1) if isinstance(n, Dim) else (a, a + (n - 1) * k + 1, k if n > 1 else 1) if n else (0, 0, 1)
        for a, k, n in zip(start, step, shape, strict=True)
    ]
    starts, stops, steps = zip(*rows, strict=True) if rows else ((), (), ())
    return {"start": starts, "stop": stops, "step": steps}


def slice_in_order(site: Site) -> Atom | None:
    """Slices of the same elements have the same bounds."""
    params = _canonical(site.params["start"], site.params["step"], site.type.shape)
    return None if params == dict(site.params) else site.bind("slice", site.ins[0], **params)


def slice_of_slice(site: Site) -> Atom | None:
    """Part of a part: starts add up, steps multiply."""
    inner = _source(site, "slice")
    if inner is None:
        return None
    x, outer = inner[0], site.params
    start = [a + b * k for a, k, b in zip(inner[1]["start"], inner[1]["step"], outer["start"], strict=True)]
    step = [k * m for k, m in zip(inner[1]["step"], outer["step"], strict=True)]
    return site.bind("slice", x, **_canonical(start, step, site.type.shape))


def slice_of_broadcast(site: Site) -> Atom | None:
    """slice(broadcast(x)) is broadcast(slice(x)): a repeated axis is only repeated less often."""
    inner = _source(site, "broadcast")
    if inner is None or site.type.shape == site.ins[0].type.shape:
        return None
    x, whole = inner[0], site.ins[0].type.shape
    lead, spread = len(whole) - x.type.ndim, spread_axes(x.type.shape, whole)
    start, step, shape = (list(s[lead:]) for s in (site.params["start"], site.params["step"], site.type.shape))
    for axis in spread:
        if axis >= lead:
            start[axis - lead], step[axis - lead], shape[axis - lead] = 0, 1, 1
    part = site.bind("slice", x, **_canonical(start, step, tuple(shape))) if x.type.shape else x
    return site.bind("broadcast", part, shape=site.type.shape)


def slice_of_concat(site: Site) -> Atom | None:
    """A slice that lies inside one piece of a concat is a slice of that piece."""
    eqn = site.maker(site.ins[0], "concat")
    if eqn is None:
        return None
    axis = eqn.params["axis"]
    first, last = site.params["start"][axis], site.params["stop"][axis]
    at = 0
    for piece in eqn.ins:
        length = piece.type.shape[axis]
        assert isinstance(length, int)
        if at <= first < last <= at + length:
            start = [a - at if i == axis else a for i, a in enumerate(site.params["start"])]
            return site.bind("slice", piece, **_canonical(start, site.params["step"], site.type.shape))
        at += length
    return None


def slice_of_pad(site: Site) -> Atom | None:
    """A slice that takes nothing but written elements of a pad is a slice of what was written."""
    inner = _source(site, "pad")
    if inner is None or 0 in site.type.shape:
        return None
    start: list[Any] = []
    step: list[Any] = []
    for first, stride, count, at, apart, extent in zip(
        site.params["start"], site.params["step"], site.type.shape, inner[1]["start"], inner[1]["step"],
        inner[0].type.shape, strict=True,
    ):  # fmt: skip
        if isinstance(extent, Dim):
            start.append(0)
            step.append(1)
            continue
        begin, off = divmod(first - at, apart)
        pace, uneven = divmod(stride, apart)
        if count == 1:
            pace, uneven = 1, 0
        if off or uneven or begin < 0 or begin + (count - 1) * pace >= extent:
            return None
        start.append(begin)
        step.append(pace)
    return site.bind("slice", inner[0], **_canonical(start, step, site.type.shape))


# ---- pad, concat, take -----------------------------------------------------------------------------------


def pad_of_nothing(site: Site) -> Atom | None:
    """A pad to the same shape is its operand."""
    return site.ins[0] if site.ins[0].type.shape == site.type.shape else None


def pad_of_pad(site: Site) -> Atom | None:
    """Padding twice with one value is padding once."""
    inner = _source(site, "pad")
    if inner is None or not _same_number(inner[1]["value"], site.params["value"]):
        return None
    outer = list(zip(site.params["start"], site.params["step"], strict=True))
    start = tuple(a + k * b for (a, k), b in zip(outer, inner[1]["start"], strict=True))
    step = tuple(k * m for (_, k), m in zip(outer, inner[1]["step"], strict=True))
    return site.bind("pad", inner[0], **{**site.params, "start": start, "step": step})


def _same_number(a: float, b: float) -> bool:
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


def concat_of_few(site: Site) -> Atom | None:
    """Pieces without elements add nothing; one piece is the whole."""
    axis = site.params["axis"]
    kept = tuple(x for x in site.ins if x.type.shape[axis] != 0) or site.ins[:1]
    if len(kept) == 1:
        return kept[0]
    return None if len(kept) == len(site.ins) else site.again(*kept)


def take_of_constant(site: Site) -> Atom | None:
    """Taking one known place is a slice; a place out of range stays, to raise its error."""
    x, index = site.ins
    if not isinstance(index, Lit):
        return None
    axis = site.params["axis"]
    n, i = x.type.shape[axis], int(index.value)
    if isinstance(n, Dim) or not -n <= i < n:
        return None
    start = [i % n if j == axis else 0 for j in range(x.type.ndim)]
    shape = tuple(1 if j == axis else m for j, m in enumerate(x.type.shape))
    element = site.bind("slice", x, **_canonical(start, [1] * len(start), shape))
    return site.bind("reshape", element, shape=site.type.shape)


COMPOSE: dict[str, tuple[Rule, ...]] = {
    "broadcast": (broadcast_of_broadcast, broadcast_of_new_axes, broadcast_to_unit_axes),
    "reshape": (reshape_of_literal, reshape_of_reshape, reshape_of_broadcast),
    "transpose": (transpose_of_transpose, transpose_of_unit_axes, transpose_of_broadcast),
    "flip": (flip_of_few, flip_of_flip, flip_of_broadcast),
    "slice": (slice_in_order, slice_of_slice, slice_of_broadcast, slice_of_concat, slice_of_pad),
    "pad": (pad_of_nothing, pad_of_pad),
    "concat": (concat_of_few,),
    "take": (take_of_constant,),
}
"""Which rules see which primitive, in the order in which they are tried."""

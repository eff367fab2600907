"""einsum: sums of products by an equation, as matrix products.

Comes in: an equation and operands. Goes out: one array. Operands are contracted in pairs, in the order of
`np.einsum_path`; a pair that shares summed labels is one stack of matrix products, others are elementwise
products, so derivatives are einsums again. Laws: any equation of NumPy's (ellipsis, repeated and
unmentioned labels, axes of extent 1 that broadcast); dtypes promote as everywhere; of bools it is any of all.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, cast
from ..types import bool_, extent_bound, int64, promote, shape_size
from .diagonals import diagonal

Labels = str
"""One letter for each axis of an operand."""


@dataclass(frozen=True)
class Term:
    """An operand and the labels of its axes, no label twice."""

    tensor: Tensor
    labels: Labels

    def extents(self, labels: Labels) -> tuple[Any, ...]:
        """The extents of these axes."""
        return tuple(self.tensor.type.shape[self.labels.index(label)] for label in labels)

    def ordered(self, labels: Labels) -> Tensor:
        """The tensor with its axes in the order of these labels."""
        return apply("transpose", self.tensor, axes=tuple(self.labels.index(label) for label in labels))


@public
def einsum(equation: str, /, *operands: Any) -> Tensor:
    """The sums of products that an equation describes: "ij,jk->ik" is a matrix product.

    Before the arrow stand the labels of each operand's axes, behind it those of the result; labels that the
    result lacks are summed over. Without an arrow the result has the labels that occur once, in alphabetical order.
    A label twice in one operand takes its diagonal; "..." stands for axes that broadcast. Raises OptionError
    for an equation that is none, ShapeError where it does not fit the operands.

    >>> import gtensor as gt
    >>> a, b = gt.ones((5, 2, 3)), gt.ones((5, 3, 4))
    >>> gt.einsum("bij,bjk->bik", a, b).shape, gt.einsum("ii", gt.eye(3)).item()
    ((5, 2, 4), 3.0)
    """
    tensors = [as_tensor(x) for x in operands]
    inputs, output = _parsed(equation, tensors)
    dtype, weak = promote([t.type for t in tensors])
    meeting = int64 if dtype == bool_ else dtype
    terms = [_plain(cast(t, meeting, weak), labels) for t, labels in zip(tensors, inputs, strict=True)]
    terms = _without_ones(terms)
    for chosen in _order(terms, output):
        pair = [terms[i] for i in chosen]
        terms = [term for i, term in enumerate(terms) if i not in chosen]
        wanted = output + "".join(term.labels for term in terms)
        terms.append(_contracted(pair, wanted))
    result = _summed(terms[0], output).ordered(output)
    return result if result.type.dtype == dtype else cast(result, dtype)


def _parsed(equation: str, tensors: Sequence[Tensor]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result, with the ellipsis spelled out."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(tensors):
        raise ShapeError(f"einsum: {equation!r} has {len(inputs)} operands, not {len(tensors)}")
    spare = [c for c in string.ascii_letters if c not in equation]
    ranks = [_hidden(labels, t, equation) for labels, t in zip(inputs, tensors, strict=True)]
    most = max(ranks)
    if most > len(spare):
        raise OptionError(f"einsum: {equation!r} runs out of letters")
    dots = "".join(spare[:most])
    if not arrow:
        named = left.replace("...", "").replace(",", "")
        right = ("..." if most else "") + "".join(sorted(c for c in {*named} if named.count(c) == 1))
    output = right.replace("...", dots, 1)
    full = [labels.replace("...", dots[most - rank :], 1) for labels, rank in zip(inputs, ranks, strict=True)]
    _require_lawful(equation, full, output)
    return full, output


def _hidden(labels: Labels, tensor: Tensor, equation: str) -> int:
    """How many axes the ellipsis of an operand stands for."""
    named = labels.replace("...", "", 1)
    rank = tensor.ndim - len(named)
    if rank < 0 or (rank > 0 and named == labels):
        raise ShapeError(f"einsum: {labels!r} of {equation!r} does not fit {tensor.type}")
    return rank


def _require_lawful(equation: str, inputs: Sequence[Labels], output: Labels) -> None:
    known = {*"".join(inputs)}
    if not known | {*output} <= {*string.ascii_letters}:
        raise OptionError(f"einsum: {equation!r} is no equation of letters, commas, one arrow, and ellipses")
    if len({*output}) != len(output) or not {*output} <= known:
        raise OptionError(f"einsum: each label behind the arrow of {equation!r} occurs there once, and before it")


def _plain(tensor: Tensor, labels: Labels) -> Term:
    """The operand with the diagonals of repeated labels taken; they come last."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.type.shape[first] != tensor.type.shape[second]:
                raise ShapeError(f"einsum: axes {first} and {second} of {tensor.type} share a label")
            tensor = diagonal(tensor, 0, first, second)
            labels = "".join(c for i, c in enumerate(labels) if i not in (first, second)) + label
    return Term(tensor, labels)


def _without_ones(terms: Sequence[Term]) -> list[Term]:
    """Axes of extent 1 that meet a larger extent are dropped: they broadcast. Others must be equal."""
    extents: dict[str, Any] = {}
    for term in terms:
        for label, extent in zip(term.labels, term.tensor.type.shape, strict=True):
            known = extents.setdefault(label, extent)
            if known == 1:
                extents[label] = extent
            elif extent not in (1, known):
                raise ShapeError(f"einsum: a label has the extents {known} and {extent}")
    result = []
    for term in terms:
        kept = "".join(c for c, n in zip(term.labels, term.tensor.type.shape, strict=True) if n == extents[c])
        result.append(Term(apply("reshape", term.tensor, shape=term.extents(kept)), kept))
    return result


def _order(terms: Sequence[Term], output: Labels) -> list[tuple[int, ...]]:
    """Which terms to contract, step by step; what is contracted leaves the list and its result joins the end."""
    if len(terms) <= 2:
        return [tuple(range(len(terms)))] if len(terms) == 2 else []
    shapes = [tuple(map(extent_bound, term.tensor.type.shape)) for term in terms]
    dummies = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    equation = ",".join(term.labels for term in terms) + "->" + output
    found, _ = np.einsum_path(equation, *dummies, optimize="greedy")
    steps: list[tuple[int, ...]] = []
    for step in found[1:]:
        steps += _in_pairs(tuple(sorted(step)), len(terms) - sum(len(s) - 1 for s in steps))
    return steps


def _in_pairs(step: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """A step of more than two of `count` terms as steps of two: each result meets the last of the rest."""
    pairs = []
    while len(step) > 2:
        pairs.append(step[-2:])
        step = (*step[:-2], count - 2)
        count -= 1
    return [*pairs, step]


def _summed(term: Term, wanted: Labels) -> Term:
    """The term without the labels that nobody wants, summed over."""
    axes = tuple(i for i, label in enumerate(term.labels) if label not in wanted)
    if not axes:
        return term
    total = apply("sum", term.tensor, axis=axes)
    return Term(cast(total, term.tensor.type.dtype), "".join(c for c in term.labels if c in wanted))


def _contracted(pair: Sequence[Term], wanted: Labels) -> Term:
    """The product of two terms (or of one), summed over the labels that nobody wants any more."""
    if len(pair) == 1:
        return _summed(pair[0], wanted)
    a, b = (_summed(term, wanted + other.labels) for term, other in (pair, pair[::-1]))
    shared = [c for c in a.labels if c in b.labels]
    batch = "".join(c for c in shared if c in wanted)
    inner = "".join(c for c in shared if c not in wanted)
    rows = "".join(c for c in a.labels if c not in b.labels)
    columns = "".join(c for c in b.labels if c not in a.labels)
    if not inner:
        return _elementwise(a, b, batch + rows + columns)
    if not rows and not columns:
        return _summed(_elementwise(a, b, batch + inner), wanted)
    left, ta = _matrices(a, batch, rows, inner)
    right, turned = _matrices(b, batch, columns, inner)
    product = apply("matmul", left, right, ta=ta, tb=not turned)
    return Term(apply("reshape", product, shape=a.extents(batch + rows) + b.extents(columns)), batch + rows + columns)


def _elementwise(a: Term, b: Term, labels: Labels) -> Term:
    """The product of each pair of elements, with the axes of both in this order."""
    spread = []
    for term in (a, b):
        inside = "".join(c for c in labels if c in term.labels)
        shape = tuple(term.extents(c)[0] if c in term.labels else 1 for c in labels)
        spread.append(apply("reshape", term.ordered(inside), shape=shape))
    return Term(apply("mul", *spread), labels)


def _matrices(term: Term, batch: Labels, outer: Labels, inner: Labels) -> tuple[Tensor, bool]:
    """A stack of matrices [batch, outer, inner], or [batch, inner, outer] and True where the term lies so."""
    turned = bool(outer) and term.labels[-1] in outer
    order = (inner, outer) if turned else (outer, inner)
    shape = tuple(shape_size(term.extents(part)) for part in order)
    ordered = term.ordered(batch + order[0] + order[1])
    return apply("reshape", ordered, shape=term.extents(batch) + shape), turned

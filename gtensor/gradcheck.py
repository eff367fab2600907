"""Derivatives against differences of values: `check_grads`, the test for anything built on gtensor.

Comes in: a function and arguments. Goes out: nothing, or a GradCheckError that names the leaf, the element
and both numbers. Everything runs in float64: each element is varied alone, by central differences of
fourth order, good to about 1e-10 for smooth functions. Law: order 2 compares the rules' second derivatives
with differences of first derivatives, so it is as sharp as order 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tree
from .errors import GradCheckError, GradError
from .grad import vjp
from .tensor import Tensor, as_tensor, cast, concrete
from .trace import argument_names, leaf_type
from .types import float64

Array = np.ndarray[Any, Any]
LeafFunction = Callable[..., list[Tensor]]

_STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))
"""Offsets and weights of the central difference of fourth order."""

_FINER = (1.0, 1 / 8, 1 / 64)
"""Further steps for an element that fails: a truncation error shrinks with the step, a wrong rule does not."""


def check_grads(
    fn: Callable[..., Any], args: Sequence[Any], order: int = 1, rtol: float = 1e-6, atol: float = 1e-8,
    eps: float = 1e-3,
) -> None:  # fmt: skip
    """Compare the derivatives of `fn` at `args` with differences of its values; raise GradCheckError where they differ.

    fn: a function of pytrees that returns a pytree of tensors and is smooth within 2 eps max(1, |x|) of each
    element; integer results are left out. args: a tuple or list; its floating-point leaves are converted
    to float64 and varied, all others are passed on. order: 1, or 2 for second derivatives as well. An element
    passes where |rule - difference| <= atol + rtol |difference|. Several results are combined with fixed
    random weights, so the work is one vjp and four values per element. Raises GradError for another order.

    >>> import gtensor as gt
    >>> check_grads(lambda p, x: gt.tanh(x @ p["w"]), ({"w": gt.ones((2, 2))}, gt.ones((3, 2))), order=2)
    >>> check_grads(lambda x: gt.sum(x * gt.stop_gradient(x)), (gt.tensor([1.0, 3.0]),))
    Traceback (most recent call last):
    gtensor.errors.GradCheckError: the derivative by x[0] is 1 by the rules, 2 by differences...
    """
    if order not in (1, 2):
        raise GradError(f"check_grads: order must be 1 or 2, not {order}")
    leaves, structure = tree.flatten(tuple(args))
    types = map(leaf_type, leaves)
    places = [i for i, type_ in enumerate(types) if type_ is not None and type_.dtype.floating]
    names = argument_names(fn, len(args))
    paths = [".".join([names[path[0]], *map(str, path[1:])]) for path in structure.paths()]
    point = [np.array(cast(as_tensor(leaves[i]), float64).numpy()) for i in places]

    def values(*varied: Tensor) -> list[Tensor]:
        whole = list(leaves)
        for place, tensor in zip(places, varied, strict=True):
            whole[place] = tensor
        outs = [as_tensor(out) for out in tree.flatten(fn(*tree.unflatten(structure, whole)))[0]]
        return [out for out in outs if out.dtype.floating]

    def gradients(*varied: Tensor) -> list[Tensor]:
        outs, pullback = vjp(values, *varied)
        return list(pullback(_weights(outs)))

    limits = _Limits(rtol, atol, eps)
    _compare(values, point, [paths[i] for i in places], limits, "derivative by")
    if order == 2:
        _compare(gradients, point, [paths[i] for i in places], limits, "second derivative by")


@dataclass(frozen=True)
class _Limits:
    rtol: float
    atol: float
    eps: float

    def allow(self, rule: float, difference: float) -> bool:
        """Whether two numbers agree; NaN agrees with nothing."""
        return abs(rule - difference) <= self.atol + self.rtol * abs(difference)


def _compare(fn: LeafFunction, point: Sequence[Array], paths: Sequence[str], limits: _Limits, what: str) -> None:
    """Hold the pullback of the weighted outputs against their differences, element by element."""
    outs, pullback = vjp(fn, *map(_tensor, point))
    weights = _weights(outs)
    for leaf, (path, cotangent) in enumerate(zip(paths, pullback(weights), strict=True)):
        for index in np.ndindex(point[leaf].shape):
            rule = float(cotangent.numpy()[index])
            found = list(_differences(fn, point, leaf, index, weights, limits.eps, rule, limits.allow))
            difference = min(found, key=lambda d: abs(rule - d) if d == d else np.inf)
            if not limits.allow(rule, difference):
                where = f"{path}[{', '.join(map(str, index))}]" if index else path
                raise GradCheckError(
                    f"the {what} {where} is {rule:.10g} by the rules, {difference:.10g} by differences"
                )


def _differences(
    fn: LeafFunction, point: Sequence[Array], leaf: int, index: tuple[int, ...], weights: Sequence[Tensor], eps: float,
    rule: float, enough: Callable[[float, float], bool],
) -> Iterator[float]:  # fmt: skip
    """The derivative by one element from values around it, with finer steps until one agrees with the rule."""
    for fineness in _FINER:
        step = eps * fineness * max(1.0, abs(float(point[leaf][index])))
        difference = 0.0
        for offset, coefficient in _STENCIL:
            moved = [np.array(x) for x in point]
            moved[leaf][index] += offset * step
            difference += coefficient * _weighted(fn(*map(_tensor, moved)), weights)
        yield difference / step
        if enough(rule, difference / step):
            return


def _weighted(outs: Sequence[Tensor], weights: Sequence[Tensor]) -> float:
    return float(sum(np.sum(out.numpy() * w.numpy()) for out, w in zip(outs, weights, strict=True)))


def _weights(outs: Sequence[Tensor]) -> list[Tensor]:
    """Random weights for several results, the same in every run; 1 for a single number."""
    rng = np.random.default_rng(0)
    alone = sum(out.size for out in outs) == 1
    drawn = [np.ones(out.shape) if alone else rng.uniform(0.5, 1.5, out.shape) for out in outs]
    return [cast(concrete(np.asarray(w)), out.dtype) for w, out in zip(drawn, outs, strict=True)]


def _tensor(array: Array) -> Tensor:
    return concrete(np.array(array))

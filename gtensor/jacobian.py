"""Whole derivatives of functions with many results: jacrev, jacfwd, hessian, and linearize.

A Jacobian is a pullback, or its transpose, over the unit vectors of the results, or of the arguments, all at
once by `vmap`. Goes out: for each leaf of the result the structure of the arguments, each leaf of which has the
axes of the result and then those of the argument. Law: made of vjp and vmap alone, so everything nests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from . import tree
from .batch import vmap
from .errors import GradError, ShapeError
from .grad import Frozen, vjp
from .prim import FUNCTIONS
from .pullback import zeros
from .tensor import Tensor, apply
from .trace import named
from .types import resolve

Argnums = int | Sequence[int]


def linearize(
    fn: Callable[..., Any], *primals: Any, argnums: Argnums | None = None, has_aux: bool = False, frozen: Frozen = None
) -> Any:
    """(value, linear) of `fn` at the primals; linear(*tangents) is the directional derivative, as from `jvp`.

    The function runs once, however often `linear` is called. There is one tangent per primal, or per argument of
    `argnums`, with None for frozen leaves. With `has_aux`, `fn` returns (value, aux) and the result is (value,
    linear, aux). Raises GradError for integer arguments and for results that are no floats, ShapeError where a
    tangent does not fit.

    >>> import gtensor as gt
    >>> value, linear = linearize(lambda x: x * x, gt.tensor(3.0))
    >>> value, linear(gt.tensor(1.0)), linear(gt.tensor(10.0))
    (Tensor(9., dtype=float32), Tensor(6., dtype=float32), Tensor(60., dtype=float32))
    """
    value, _, push, aux = _linearized(fn, primals, argnums, has_aux, frozen)
    single = isinstance(argnums, int)

    def linear(*tangents: Any) -> Any:
        if single and len(tangents) != 1:
            raise ShapeError(f"linearize: {len(tangents)} tangents for one argument")
        return push(tangents[0] if single else tangents)[0]

    return (value, linear, *aux)


def _linearized(
    fn: Callable[..., Any], primals: Sequence[Any], argnums: Argnums | None, has_aux: bool, frozen: Frozen
) -> tuple[Any, Any, Callable[[Any], Any], list[Any]]:
    """The value, a tree like the tangents, (tangents) -> (derivative,), and what else the function returned.

    The derivative is the transpose of the pullback, which is linear.
    """
    value, pullback, *aux = vjp(fn, *primals, argnums=argnums, has_aux=has_aux, frozen=frozen)
    gradients, push = vjp(pullback, tree.map_leaves(_zero_cotangent, value))
    return value, gradients, push, aux


def _zero_cotangent(out: Tensor) -> Tensor:
    """Zero, where the derivative, which does not depend on it, is taken."""
    if not out.dtype.floating:
        raise GradError(
            f"a result is {resolve(out.type)}: only floating-point results have a derivative",
            hint="return it beside the value, with has_aux=True",
        )
    return zeros(resolve(out.type))


def jacrev(
    fn: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, frozen: Frozen = None
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `fn`, by one pullback per element of the result: for few results.

    For each leaf of the result there is the structure of the argument (a tuple of them for several argnums), whose
    leaves have the shape (*result, *argument). With `has_aux`, `fn` returns (value, aux) and the function (Jacobian,
    aux). `frozen` leaves have None. Raises GradError for arguments and results that are no floats, ShapeError for
    run-time extents.

    >>> import gtensor as gt
    >>> jacrev(lambda x: x * x[::-1])(gt.tensor([2.0, 3.0]))
    Tensor([[3., 2.],
            [3., 2.]], dtype=float32)
    """

    @named(fn, "jacrev")
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        value, pullback, *aux = vjp(
            functools.partial(fn, **kwargs) if kwargs else fn, *args, argnums=argnums, has_aux=has_aux, frozen=frozen
        )
        outs, structure = tree.flatten(value)
        for out in outs:
            _zero_cotangent(out)
        rows = vmap(pullback)(tree.unflatten(structure, _units(outs)))
        parts = [
            tree.map_leaves(lambda leaf, at=at, out=out: _cut(leaf, 0, at, out.type.shape), rows)
            for at, out in zip(_starts(outs), outs, strict=True)
        ]
        found = tree.unflatten(structure, parts)
        return (found, *aux) if has_aux else found

    return jacobian_of


def jacfwd(
    fn: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, frozen: Frozen = None
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `fn`, by one directional derivative per element of the arguments.

    For few arguments and many results; the Jacobian and what is raised are those of `jacrev`.

    >>> import gtensor as gt
    >>> jacfwd(lambda p: {"y": p["a"] * p["b"]})({"a": gt.tensor([1.0, 2.0]), "b": gt.tensor(3.0)})["y"]["a"]
    Tensor([[3., 0.],
            [0., 3.]], dtype=float32)
    """

    @named(fn, "jacfwd")
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        given = functools.partial(fn, **kwargs) if kwargs else fn
        _, tangents, push, aux = _linearized(given, args, argnums, has_aux, frozen)
        leaves, structure = tree.flatten(tangents)
        columns = vmap(lambda unit: push(unit)[0], out_axes=-1)(tree.unflatten(structure, _units(leaves)))

        def whole(out: Tensor) -> Any:
            parts = [
                _cut(out, out.ndim - 1, at, leaf.type.shape) for at, leaf in zip(_starts(leaves), leaves, strict=True)
            ]
            return tree.unflatten(structure, parts)

        outs, result = tree.flatten(columns)
        found = tree.unflatten(result, [whole(out) for out in outs])
        return (found, *aux) if has_aux else found

    return jacobian_of


jacobian = jacrev


def hessian(
    fn: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, frozen: Frozen = None
) -> Callable[..., Any]:
    """A function that gives the second derivatives of `fn`: `jacfwd(jacrev(fn))`.

    For a scalar function of one array of shape s, an array of shape (*s, *s); else the structure of the result, in
    it that of the arguments, and in it that of the arguments again, with axes in that order. Arguments and errors
    are those of `jacrev`.

    >>> import gtensor as gt
    >>> hessian(lambda x: x[0] ** 2 * x[1])(gt.tensor([2.0, 3.0]))
    Tensor([[6., 4.],
            [4., 0.]], dtype=float32)
    """
    inner = jacrev(fn, argnums, has_aux, frozen=frozen)
    return named(fn, "hessian")(jacfwd(inner, argnums, has_aux, frozen=frozen))


def _units(leaves: Sequence[Tensor]) -> list[Tensor]:
    """All unit vectors of the space that some tensors span together, one per row of each."""
    sizes = [leaf.size for leaf in leaves]
    for leaf, size in zip(leaves, sizes, strict=True):
        if not isinstance(size, int):
            raise ShapeError(f"a Jacobian has a fixed size, and that of {leaf.type} is known at run time only")
    total, found = sum(sizes), []
    for leaf, start in zip(leaves, _starts(leaves), strict=True):
        block = FUNCTIONS["eye"](total, leaf.size, k=-start, dtype=leaf.dtype)
        found.append(apply("reshape", block, shape=(total, *leaf.type.shape)))
    return found


def _starts(leaves: Sequence[Tensor]) -> list[int]:
    """Where each tensor begins when all are laid end to end."""
    sizes = [leaf.size for leaf in leaves]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _cut(x: Tensor, axis: int, start: int, shape: tuple[Any, ...]) -> Tensor:
    """The part of an axis that belongs to a tensor of that shape, in that shape."""
    stop = start + math.prod(shape)
    before, after = x.type.shape[:axis], x.type.shape[axis + 1 :]
    part = apply(
        "slice", x, start=tuple(start if i == axis else 0 for i in range(x.ndim)),
        stop=(*before, stop, *after), step=(1,) * x.ndim,
    )  # fmt: skip
    return apply("reshape", part, shape=(*before, *shape, *after))

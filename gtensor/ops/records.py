"""How records are made: type rules, batch rules and public functions that many operations share.

`elementwise` makes a record and the function users call; the other helpers are the pieces of records of
other kinds. Law: an elementwise rule sees operands of one shape, beside scalar literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..batch import batch_size as batch_size
from ..errors import ShapeError
from ..ir import Lit
from ..prim import FUNCTIONS, Input, Prim, Promotion, Sample, register
from ..tensor import Tensor, apply, broadcast
from ..types import Shape, Type, bool_, show_shapes

Function = Callable[..., Tensor]


def in_f64(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Evaluate in float64 and round once to the last operand's dtype, on dense memory (elsewhere NumPy may run code
    that rounds otherwise)."""
    return lambda *args: np.asarray(fn(*(np.asarray(x, np.float64, order="C") for x in args))).astype(args[-1].dtype)


def uniform(low: float = -3.0, high: float = 3.0, shape: tuple[int, ...] = (3, 4)) -> Input:
    """A random operand."""
    return Input(shape, low, high)


def common_shape(types: Sequence[Type]) -> Shape:
    """The one shape of elementwise operands, scalars aside; raises ShapeError."""
    shapes = {t.shape for t in types if t.shape != ()}
    if len(shapes) > 1:
        raise ShapeError(f"shapes {show_shapes([t.shape for t in types])} differ")
    return next(iter(shapes), ())


def same_type(*types: Type, **params: Any) -> Type:
    """The result has the operands' shape and dtype."""
    return Type(common_shape(types), types[0].dtype, all(t.weak for t in types))


def bool_type(*types: Type, **params: Any) -> Type:
    """The result is a bool of the operands' shape."""
    return Type(common_shape(types), bool_)


def move_axis(x: Tensor, source: int | None, size: Any, ndim: int) -> Tensor:
    """A batched operand with its batch axis in front and `ndim` axes behind it; an unbatched one is repeated."""
    if source is None:
        x = apply("reshape", x, shape=(1, *x.shape))
        return apply("broadcast", x, shape=(size, *x.shape[1:]))
    if source:
        order = (source, *(i for i in range(x.ndim) if i != source))
        x = apply("transpose", x, axes=order)
    missing = ndim + 1 - x.ndim
    return apply("reshape", x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x


def batch_elementwise(name: str) -> Callable[..., tuple[Tensor, int]]:
    """The batch rule of an elementwise operation: bring the batch axes to the front, then the same operation."""

    def rule(args: Sequence[Tensor], axes: Sequence[int | None], **params: Any) -> tuple[Tensor, int]:
        ndim = max(x.ndim - (a is not None) for x, a in zip(args, axes, strict=True))
        size = batch_size(args, axes)
        moved = [
            x if a is None and x.ndim == 0 else move_axis(x, a, size, ndim) for x, a in zip(args, axes, strict=True)
        ]
        return apply(name, *broadcast(moved), **params), 0

    return rule


def batch_along(name: str) -> Callable[..., tuple[Tensor, int]]:
    """The batch rule of an operation along the axis `axis` of operands of one rank: the batch axis goes in front."""

    def rule(args: Sequence[Tensor], axes: Sequence[int | None], axis: int) -> tuple[Tensor, int]:
        size = batch_size(args, axes)
        moved = [move_axis(x, a, size, x.ndim - (a is not None)) for x, a in zip(args, axes, strict=True)]
        return apply(name, *moved, axis=axis + 1), 0

    return rule


def elementwise(
    name: str,
    numpy: Callable[..., Any],
    c: str | dict[str, str],
    *,
    vjp: Callable[..., Sequence[Any]] | None = None,
    zero: bool = False,
    arity: int = 1,
    promotion: Promotion = "same",
    type: Callable[..., Type] = same_type,
    simplify: Callable[..., Any] | None = None,
    exact: bool = False,
    ulps: int = 4,
    samples: Sequence[Sequence[Input]] = (),
    grad: bool = True,
    dtypes: tuple[str, ...] = ("f",),
    public: str | None = None,
    flops: float = 1.0,
    moves: bool = False,
    doc: str = "",
) -> Function:
    """Register an elementwise primitive and give the function users call (under the name `public`).

    Samples default to one random operand per place; `dtypes` are the kinds (or tags) they run in; `grad` is false
    where a floating-point operand has no derivative.
    """
    shapes = samples or [[uniform() for _ in range(arity)]]
    prim = Prim(
        name,
        "elementwise",
        type,
        numpy,
        vjp=vjp,
        zero=zero,
        mask="keep",
        batch=batch_elementwise(name),
        promotion=promotion,
        c={"*": c} if isinstance(c, str) else c,
        simplify=simplify,
        exact=exact,
        ulps=ulps,
        samples=tuple(Sample(tuple(ins), grad=grad and vjp is not None and not zero, dtypes=dtypes) for ins in shapes),
        flops=flops,
        moves=moves,
        doc=doc,
    )
    register(prim)
    return function(name, arity, public or name, doc)


def function(name: str, arity: int, public: str, doc: str) -> Function:
    """The public function of a primitive that takes operands only."""
    if arity == 1:

        def call(x: Any, /) -> Tensor:
            return apply(name, x)

    elif arity == 2:

        def call(x1: Any, x2: Any, /) -> Tensor:  # type: ignore[misc]
            return apply(name, x1, x2)

    else:

        def call(*operands: Any) -> Tensor:  # type: ignore[misc]
            return apply(name, *operands)

    call.__name__ = call.__qualname__ = public
    call.__doc__ = doc
    FUNCTIONS[public] = call
    return call


def number(x: Tensor) -> Any:
    """The value of a scalar literal, or None."""
    return x.atom.value.item() if isinstance(x.atom, Lit) else None

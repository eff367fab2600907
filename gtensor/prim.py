"""The record of one primitive: everything gtensor knows about an operation stands in it.

`ops/*` makes one `Prim` per operation and registers it here; the tracer, the evaluator, the
differentiator, the batcher, fusion and lowering only read records. Law: no module outside `ops` knows
an operation by name for its meaning, so that adding one touches one place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from .errors import InternalError
from .ir import Eqn, Lit, Var
from .types import Dim, DType, Type

F = TypeVar("F", bound=Callable[..., Any])

Kind = Literal[
    "elementwise",
    "reduce",
    "view",
    "contract",
    "gather",
    "scatter",
    "overlap",
    "assemble",
    "source",
    "effect",
    "along",
    "loop",
    "routine",
]
"""What shape of loop an operation is, which decides how it may be fused:

- `elementwise`: one scalar expression per element (`c`)
- `reduce`: folds axes (`params["axis"]`) by a reducer (`c["*"]` is its name)
- `view`: only renames elements (`strides` gives the map); free when the operand is in memory
- `contract`: a matrix product
- `gather`: reads one operand at computed places
- `scatter`: folds values into computed places by a reducer (`c["*"]` is its name)
- `overlap`: adds into places that lie as strides say
- `assemble`: writes operands side by side into one array
- `source`: made of nothing but the loop counters
- `effect`: no computation of its own: a wall or a marker (`stop_gradient`)
- `along`: computes whole lines along an axis by a function of templates/gt_lines.h
- `loop`: runs body graphs, which are among its parameters; it may have several results
- `routine`: a function of C over whole arrays (`place` names it); what it makes lies in one array
"""

Promotion = Literal["same", "float", "integer", "boolean", "none"]
"""How operands meet before the operation: in their common dtype (`same`), the same but integers become
the default float (`float`), integers or bool only (`integer`), converted to bool (`boolean`), or as they
are (`none`)."""


@dataclass(frozen=True)
class Input:
    """One random operand of a test sample: uniform in [low, high), perhaps made into another array, or given values."""

    shape: tuple[int, ...] = (3, 4)
    low: float = -3.0
    high: float = 3.0
    values: Any = None
    dtype: DType | None = None
    made: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None

    def array(self, rng: np.random.Generator, dtype: DType) -> np.ndarray[Any, Any]:
        """The operand in its own dtype, else in `dtype`."""
        target = (self.dtype or dtype).dtype
        if self.values is not None:
            return np.asarray(self.values).astype(target)
        drawn = np.asarray(rng.uniform(self.low, self.high, self.shape))
        drawn = drawn if self.made is None else self.made(drawn)
        if target.kind == "b":
            return np.asarray(drawn > (self.low + self.high) / 2)
        return (np.abs(drawn) if target.kind == "u" else drawn).astype(target)


@dataclass(frozen=True)
class Sample:
    """Operands and parameters on which every rule of a record is tested; `grad` if it is differentiable there."""

    inputs: tuple[Input, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    grad: bool = True
    dtypes: tuple[str, ...] = ("f",)


@dataclass(frozen=True)
class Indexing:
    """How an indexed operation addresses its big operand from the loop space (a gather's result, a scatter's values).

    `axes` has for each axis of the big operand the space axis that runs along it, or None for the
    indexed axis; `index_axes` has for each axis of the index operand its space axis; `axis` is the
    indexed one.
    """

    axes: tuple[int | None, ...]
    index_axes: tuple[int, ...]
    axis: int


@dataclass(frozen=True)
class Bounds:
    """What an index check allows: low <= value < high, or the value `ignore`."""

    low: int
    high: int | Dim
    ignore: int | None = None


@dataclass(frozen=True)
class Placement:
    """How an assembled array is written: first filled with `fill` if given, then each operand at start + step * i."""

    fill: Any
    pieces: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True)
class Walk:
    """How an operation along lines is called: `function` once for each place of the other axes.

    `axes` has the axis of the lines for each operand and then for the result; `lengths` are the operands (or,
    one after the last, the result) whose lengths the function is told; `memory` has a dtype and a number of
    elements for each piece of memory that it works in.
    """

    function: str
    axes: tuple[int, ...]
    lengths: tuple[int, ...] = (0,)
    memory: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Calling:
    """The routine that a record calls: `function` of the header `library` in templates/, one of each dtype of floats.

    It is given `sizes` (the batch first), the operands, the result, and memory for `scratch` elements unless
    that is None. `fails` says what is wrong with a matrix that has no answer; it is empty where all have one.
    """

    library: str
    function: str
    sizes: tuple[Any, ...]
    scratch: int | None
    flops: int
    fails: str = ""


_MOVING = frozenset({"view", "gather", "assemble", "source", "effect", "loop"})
"""Kinds of operations that put elements elsewhere as they are, or leave it to their bodies to compute."""


@dataclass(frozen=True, eq=False)
class Prim:
    """One operation.

    type(*types, **params) -> Type: the result's type; raises ShapeError or DTypeError.
    numpy(*arrays, **params) -> array: the meaning.
    vjp(g, y, *xs, **params) -> cotangents, one per operand: Tensor, None, or a callable that gives one
        (called only when that operand's gradient is wanted). None instead of a rule: no derivative.
        `zero=True`: the derivative is zero everywhere (floor, comparisons), the path simply ends.
        Of a loop: vjp(gs, ys, xs, wanted, **params), with lists: gs has None for results without a cotangent,
        `wanted` says which operands' cotangents are asked for.
    mask: how a cotangent's mask goes through the vjp: `keep` (the rule multiplies elementwise), `move` (apply
        the same vjp to the mask), `any` (the vjp sums; of a mask it takes any), `drop` (applied before), or a
        rule (mask, y, *xs, **params) -> masks, one per operand (the vjp mixes elements and multiplies). A vjp
        makes a mask by giving a `pullback.Masked`, and says that it read a slice by a `pullback.Part`.
    batch(args, axes, **params) -> (out, axis): the rule with a batch axis in some operands.
    c: dtype tag, kind or `*` -> C expression (elementwise), or the reducer's name (reduce, scatter).
    strides(type, strides, offset, out_type, **params) -> (strides, offset) or None (view).
    place(*types, **params): the Indexing of a gather or scatter, the Placement of an assembled array, the
        strides in the result of an overlap's operand, the counted axis of a source, the Bounds of an index check,
        the Walk of an operation along lines, the Calling of a routine.
    simplify(ins, define, **params) -> an operand that the result is bit-equal to, or None.
    moves: elements are converted or moved, not computed with, though the kind does not say so; or each dtype has
        its own answer.
    exact: compiled results are bit-equal to the evaluator's.
    ulps: how many units in the last place compiled float64 results may be from the evaluator's where both round
        (float32: 2).
    """

    name: str
    kind: Kind
    type: Callable[..., Type]
    numpy: Callable[..., Any]
    vjp: Callable[..., Sequence[Any]] | None = None
    zero: bool = False
    mask: Literal["keep", "move", "any", "drop"] | Callable[..., Sequence[Any]] = "drop"
    batch: Callable[..., Any] | None = None
    promotion: Promotion = "none"
    c: Mapping[str, str] = field(default_factory=dict)
    strides: Callable[..., Any] | None = None
    place: Callable[..., Any] | None = None
    simplify: Callable[..., Var | Lit | None] | None = None
    exact: bool = False
    ulps: int = 4
    samples: tuple[Sample, ...] = ()
    flops: float = 1.0
    moves: bool = False
    doc: str = ""

    def __repr__(self) -> str:
        return f"Prim({self.name})"

    @functools.cached_property
    def takes_stored(self) -> bool:
        """Whether it takes floats of 16 bits as they are; all others take them as float32, and round their result."""
        return self.moves or self.kind in _MOVING

    def c_for(self, dtype: DType) -> str | None:
        """The C form for operands of that dtype."""
        for key in (dtype.tag, dtype.kind, "*"):
            if key in self.c:
                return self.c[key]
        return None


REGISTRY: dict[str, Prim] = {}
"""All primitives by name; filled by the modules of `ops`."""


def register(prim: Prim) -> Prim:
    """Add a record; two of one name are a fault."""
    if prim.name in REGISTRY:
        raise InternalError(f"primitive {prim.name!r} is registered twice")
    REGISTRY[prim.name] = prim
    return prim


Define = Callable[[Var], Eqn | None]
"""Looks up the equation that defines a variable in the builder at hand."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Public functions by name, so that methods of `Tensor` can reach what is defined above them."""


def public(fn: F) -> F:
    """Make a function reachable as a method of `Tensor` and by NumPy's dispatch."""
    FUNCTIONS[fn.__name__] = fn
    return fn

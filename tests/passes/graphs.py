"""Random graphs that are hard on passes, and arrays that are hard on arithmetic.

The graphs are bound operation by operation, not traced from functions, so that views of views, literals
spread, constants as conditions and unused equations come in all orders. A seed and a length make a graph, and
a shorter one is a prefix of it, so a failure shrinks. `awkward` arrays hold signed zeros, infinities, NaN,
denormals and the largest numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import gtensor as gt
from gtensor.builder import Builder
from gtensor.interp import concrete
from gtensor.ir import Atom, Graph, Lit, Var, lit
from gtensor.prim import REGISTRY
from gtensor.types import Dim, DType, Type, extent_bound, shape_size

B = Dim("B", 8)
AT = {"B": 3}
"""A run-time extent, and its value where the tests evaluate."""

DTYPES = (gt.float32, gt.float64, gt.int32, gt.int64, gt.uint8, gt.bool_)
EXTENTS = (0, 1, 1, 2, 3, 4, 6)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -4.0, 3.0, 0.1)
AWKWARD = (0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 1e-40, -3e-39, 3e38, 0.3, 2.0**-126)


class Sketch:
    """A graph under construction, with every atom so far; few dtypes and extents, so that operands fit."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dtypes = [gt.float32, gt.bool_, self.among(DTYPES)]
        self.extents = [self.among(EXTENTS), self.among(EXTENTS)]
        self.builder = Builder("random")
        self.atoms: list[Atom] = []

    def among(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def mixed(self, items: Sequence[Any]) -> list[Any]:
        return self.random.sample(list(items), len(items))

    def bind(self, name: str, *ins: Atom, **params: Any) -> None:
        self.atoms.append(self.builder.bind(REGISTRY[name], ins, params))

    def pick(self, fits: Callable[[Type], bool] = lambda type_: True) -> Var | None:
        """A variable, the newest preferred, so that operations follow each other."""
        found = [a for a in self.atoms if isinstance(a, Var) and fits(a.type)]
        return self.among([*found[-1:] * 4, *found[-4:], *found]) if found else None

    def like(self, x: Var) -> Atom:
        """An operand beside x: a variable of its type, a literal, or a literal spread."""
        kind = self.among(["variable", "variable", "literal", "spread"])
        if kind == "variable":
            return self.pick(lambda t: t == x.type) or x
        value = self.literal(x.type.dtype)
        if kind == "literal":
            return value
        names = ["broadcast", "reshape"] if x.type.size == 1 else ["broadcast"]
        self.bind(self.among(names), value, shape=x.type.shape)
        return self.atoms.pop()

    def literal(self, dtype: DType) -> Lit:
        return lit(self.among(NUMBERS if dtype.floating else [0, 1, 2, 3]), Type((), dtype))


def unary(s: Sketch) -> None:
    x = s.pick(lambda t: t.dtype.kind in "fi")
    if x is not None:
        names = ["neg", "neg", "abs", "square", "sign"]
        s.bind(s.among(names + (["reciprocal", "floor", "sqrt", "exp", "tanh"] if x.type.dtype.floating else [])), x)


def binary(s: Sketch) -> None:
    x = s.pick(lambda t: t.dtype != gt.bool_)
    if x is not None:
        names = ["add", "sub", "mul", "max2", "min2", "eq", "ne", "lt", "ge"]
        pair = s.mixed([x, s.like(x)])
        s.bind(s.among(names + (["div", "div", "pow"] if x.type.dtype.floating else [])), *pair)


def logic(s: Sketch) -> None:
    x = s.pick(lambda t: t.dtype == gt.bool_)
    if x is not None:
        name = s.among(["logical_and", "logical_or", "logical_xor", "logical_not", "logical_not", "eq", "add"])
        s.bind(name, *([x] if name == "logical_not" else s.mixed([x, s.like(x)])))


def choice(s: Sketch) -> None:
    c = s.pick(lambda t: t.dtype == gt.bool_)
    x = None if c is None else s.pick(lambda t: t.shape == c.type.shape)
    if c is not None and x is not None:
        s.bind("where", s.among([c, c, s.literal(gt.bool_)]), *s.mixed([x, s.like(x)]))


def convert(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        s.bind("cast", x, dtype=s.among(s.dtypes), weak=False)


def broadcast(s: Sketch) -> None:
    x = s.pick(lambda t: t.ndim < 4)
    if x is not None:
        shape = tuple(s.among([1, 2, 3, 3]) if n == 1 else n for n in x.type.shape)
        s.bind("broadcast", x, shape=(*s.among([(), (), (1,), (2,), (3,)]), *shape))


def reshape(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        extents = list(x.type.shape)
        for _ in range(s.random.randint(1, 3)):
            s.among([_merge, _split, _insert, _remove])(s, extents)
        if shape_size(extents) == x.type.size and len(extents) < 6:
            s.bind("reshape", x, shape=tuple(extents))


def _merge(s: Sketch, extents: list[Any]) -> None:
    if len(extents) > 1:
        at = s.random.randint(0, len(extents) - 2)
        extents[at : at + 2] = [extents[at] * extents[at + 1]]


def _split(s: Sketch, extents: list[Any]) -> None:
    for at, n in enumerate(extents):
        if isinstance(n, int) and n in (4, 6, 8, 9, 12):
            extents[at : at + 1] = [2, n // 2] if n % 2 == 0 else [3, n // 3]
            return


def _insert(s: Sketch, extents: list[Any]) -> None:
    extents.insert(s.random.randint(0, len(extents)), 1)


def _remove(s: Sketch, extents: list[Any]) -> None:
    if 1 in extents:
        extents.remove(1)


def transpose(s: Sketch) -> None:
    x = s.pick(lambda t: t.ndim > 1)
    if x is not None:
        n = x.type.ndim
        swap = (*range(n - 2), n - 1, n - 2)
        s.bind("transpose", x, axes=s.among([swap, tuple(s.mixed(range(n)))]))


def flip(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        axes = [i for i, n in enumerate(x.type.shape) if isinstance(n, int) and s.coin()]
        s.bind("flip", x, axes=tuple(axes))


def part(s: Sketch) -> None:
    x = s.pick(lambda t: t.ndim > 0)
    if x is not None:
        bounds = [(0, n, 1) if isinstance(n, Dim) or s.coin() else _bounds(s, n) for n in x.type.shape]
        start, stop, step = zip(*bounds, strict=True)
        s.bind("slice", x, start=start, stop=stop, step=step)


def _bounds(s: Sketch, n: int) -> tuple[int, int, int]:
    first = s.random.randint(0, n)
    return first, s.random.randint(first, n), s.among([1, 1, 2])


def pad(s: Sketch) -> None:
    x = s.pick(lambda t: not any(isinstance(n, Dim) for n in t.shape))
    if x is not None:
        start = tuple(s.among([0, 0, 1]) for _ in x.type.shape)
        step = tuple(s.among([1, 1, 2]) for _ in x.type.shape)
        written = [(n - 1) * k + 1 if n else 0 for n, k in zip(x.type.shape, step, strict=True)]
        shape = tuple(a + n + s.among([0, 1]) for a, n in zip(start, written, strict=True))
        if math.prod(shape) <= 400:
            s.bind("pad", x, shape=shape, start=start, step=step, value=s.among([0.0, 1.0]))


def concat(s: Sketch) -> None:
    x = s.pick(lambda t: any(isinstance(n, int) for n in t.shape))
    if x is not None:
        axis = s.among([i for i, n in enumerate(x.type.shape) if isinstance(n, int)])
        rest = [*x.type.shape[:axis], *x.type.shape[axis + 1 :]]
        y = s.pick(
            lambda t: (
                t.dtype == x.type.dtype
                and t.ndim == x.type.ndim
                and isinstance(t.shape[axis], int)
                and [*t.shape[:axis], *t.shape[axis + 1 :]] == rest
            )
        )
        s.bind("concat", *s.among([(x,), (x, y), (y, x), (x, x)]), axis=axis)


def reduction(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        axis = tuple(i for i in range(x.type.ndim) if s.coin())
        names = ["any", "all"] if x.type.dtype == gt.bool_ else ["sum", "sum", "prod", "max", "min"]
        if 0 not in [extent_bound(x.type.shape[i]) for i in axis]:
            s.bind(s.among(names), x, axis=axis)


def product(s: Sketch) -> None:
    x = s.pick(lambda t: t.ndim > 1 and t.dtype.floating)
    if x is None:
        return
    ta, tb = s.coin(), s.coin()
    inner = x.type.shape[-2 if ta else -1]
    y = s.pick(
        lambda t: t.dtype == x.type.dtype and t.ndim == x.type.ndim and t.shape[:-2] == x.type.shape[:-2]
        and t.shape[-1 if tb else -2] == inner and isinstance(t.shape[-2 if tb else -1], int)
    )  # fmt: skip
    if y is not None:
        s.bind("matmul", x, y, ta=ta, tb=tb)


def take(s: Sketch) -> None:
    x = s.pick(lambda t: any(isinstance(n, int) and n > 1 for n in t.shape))
    if x is not None:
        axis = s.among([i for i, n in enumerate(x.type.shape) if isinstance(n, int) and n > 1])
        index = s.among([s.literal(gt.int64), s.pick(lambda t: t.dtype == gt.bool_ and not t.shape)])
        if isinstance(index, Lit):
            s.bind("take", x, lit(int(index.value) % 2, index.type), axis=axis)
        elif index is not None:
            s.bind("cast", index, dtype=gt.int64, weak=False)
            s.bind("take", x, s.atoms[-1], axis=axis)


def wall(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        s.bind("stop_gradient", x)


STEPS = (
    unary, unary, unary, binary, binary, binary, binary, logic, logic, choice, choice, convert, broadcast, reshape,
    reshape, transpose, transpose, flip, part, pad, concat, reduction, product, take, wall,
)  # fmt: skip


def graph_of(seed: int, length: int) -> Graph:
    """The first `length` operations of the random graph of that seed; some of them no output needs."""
    s = Sketch(seed)
    for i in range(s.random.randint(1, 4)):
        shape: tuple[Any, ...] = tuple(s.among(s.extents) for _ in range(s.random.randint(0, 3)))
        shape = (B, *shape) if s.random.random() < 0.2 else shape
        s.atoms.append(s.builder.input(Type(shape, s.among(s.dtypes)), f"x{i}"))
    for _ in range(length):
        step = s.among(STEPS)
        if any(isinstance(a, Var) and math.prod(concrete(a.type.shape, AT)) > 2000 for a in s.atoms[-2:]):
            break
        step(s)
    return s.builder.finish([s.among(s.atoms), *s.atoms[-2:]])


def graphs() -> st.SearchStrategy[Graph]:
    """Random graphs of up to 40 operations."""
    return st.builds(graph_of, st.integers(0, 10**9), st.integers(1, 40))


def awkward(graph: Graph, seed: int) -> list[np.ndarray]:
    """Inputs of a graph that hold all that arithmetic can stumble over."""
    rng = np.random.default_rng(seed)
    arrays = []
    for var in graph.inputs:
        shape, dtype = concrete(var.type.shape, AT), var.type.dtype
        if dtype.floating:
            drawn = np.where(rng.random(shape) < 0.5, rng.choice(AWKWARD, shape), rng.integers(-4, 5, shape) / 4)
        else:
            drawn = rng.integers(0, 2 if dtype == gt.bool_ else 200, shape)
        with np.errstate(all="ignore"):
            arrays.append(np.asarray(drawn).astype(dtype.dtype))
    return arrays

"""Random functions over the public API, as a hypothesis strategy: `recipes(kind)`.

A recipe is Python source with arrays for its arguments, so a failure reads as a program that can be run. It is
drawn line by line; each line is evaluated at once, which gives its type and keeps the numbers tame. Shared
values, several results, mixed dtypes, extents 0, 1 and odd ones occur; with `batch` the first axis of some
arguments is a run-time extent. Kinds:

- `exact`: operations whose bits are prescribed, on arguments with NaN, infinities, signed zeros and denormals;
- `float`: everything, tame; operations with jumps read only integers that float32 represents;
- `smooth`: what has two derivatives around the arguments, far from every kink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import gtensor as gt

Array = np.ndarray
BATCH, BOUND = 5, 8
"""The run-time extent while a recipe is drawn (no other extent is 5), and its bound."""

EXTENTS = (0, 1, 2, 3, 4, 7)
SHAPES = ((), (1,), (3,), (7,), (2, 3), (3, 4), (4, 1), (1, 7), (2, 3, 4), (0, 3), (3, 3))
BATCHED = ((BATCH,), (BATCH, 3), (BATCH, 1), (BATCH, 3, 4), (BATCH, 7))
AWKWARD = (0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-40, 3e38, -(2.0**-126), 2.5, -3.0, 0.5, 1e10)
LARGEST = 100


@dataclass(frozen=True)
class Recipe:
    """A function of arrays; `F` names the dtype of its floats, so that it also runs in float64."""

    body: str
    arrays: tuple[Array, ...]

    @property
    def source(self) -> str:
        """The function as Python text."""
        names = ", ".join(f"x{i}" for i in range(len(self.arrays)))
        return f"def recipe({names}, F='float32'):\n{self.body}"

    def __repr__(self) -> str:
        types = ", ".join(f"x{i}: {a.dtype}{list(a.shape)}" for i, a in enumerate(self.arrays))
        return f"# {types}\n{self.source}"

    def __call__(self, *arrays: Any, F: str = "float32") -> tuple[Any, ...]:
        space: dict[str, Any] = {"gt": gt, "np": np}
        exec(compile(self.source, "<recipe>", "exec"), space)
        return space["recipe"](*arrays, F=F)

    @property
    def wide(self) -> tuple[Array, ...]:
        """The arguments with float64 for float32."""
        return widened(self.arrays)

    def eager(self, arrays: Sequence[Array] | None = None, F: str = "float32") -> list[Array]:
        """The results on concrete tensors."""
        given = self.arrays if arrays is None else arrays
        return [gt.asarray(out).numpy() for out in self(*map(gt.tensor, given), F=F)]

    def specs(self) -> list[Any]:
        """The arguments' types, with the run-time extent `B` where they are batched."""
        return [
            gt.spec(("B", *a.shape[1:]) if is_batched(a.shape) else a.shape, a.dtype, max={"B": BOUND})
            for a in self.arrays
        ]

    def resized(self, extent: int) -> tuple[Array, ...]:
        """Arguments with another value of the run-time extent."""
        return tuple(np.resize(a, (extent, *a.shape[1:])) if is_batched(a.shape) else a for a in self.arrays)


def widened(arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Arrays with float64 for float32."""
    return tuple(a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays)


def is_batched(shape: tuple[int, ...]) -> bool:
    """Whether the first axis is the run-time one."""
    return bool(shape) and shape[0] == BATCH


@dataclass(frozen=True)
class Value:
    """A variable of the recipe with its present value; `whole`: integers that float32 represents."""

    name: str
    tensor: gt.Tensor
    whole: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def kind(self) -> str:
        return self.tensor.dtype.kind


@dataclass(frozen=True)
class Op:
    """A line that can be written: its text with {} for operands, and where it may stand.

    `jumps`: not continuous. `whole`: maps integers to integers. `exact`: its bits are prescribed.
    `kink`: a function of the operands' arrays that must stay away from 0 in smooth recipes.
    """

    text: str
    exact: bool = False
    whole: bool = False
    jumps: bool = False
    kink: Callable[..., Any] | None = None


def gaps(x: Array) -> Array:
    """The distances between elements."""
    return np.diff(np.sort(x, axis=None))


UNARY = [
    *(Op(f"gt.{n}({{0}})") for n in "exp tanh sigmoid sin cos erf expm1 softplus gelu atan silu".split()),
    *(Op(f"gt.{n}({{0}} * {{0}} + 0.5)") for n in "log rsqrt log2 log1p reciprocal".split()),
    Op("gt.gelu({0}, approximate='tanh')"),
    Op("{0} ** 3"),
    Op("({0} * {0} + 0.25) ** 1.5"),
    Op("gt.stop_gradient({0})", exact=True, whole=True, kink=np.zeros_like),  # nowhere what differences give
    Op("gt.sqrt({0} * {0} + 0.25)", exact=True),
    Op("-{0}", exact=True, whole=True),
    Op("{0} ** 2", exact=True, whole=True),
    Op("gt.abs({0})", exact=True, whole=True, kink=np.abs),
    Op("gt.relu({0})", exact=True, whole=True, kink=np.abs),
    Op("gt.clip({0}, -1, 2)", exact=True, whole=True, kink=lambda x: np.minimum(np.abs(x + 1), np.abs(x - 2))),
    Op("gt.maximum({0}, 0.5)", exact=True, kink=lambda x: np.abs(x - 0.5)),
    Op("gt.leaky_relu({0}, 0.5)", exact=True, kink=np.abs),
    *(Op(f"gt.{n}({{0}})", exact=True, whole=True, jumps=True) for n in ("floor", "ceil", "round", "trunc", "sign")),
    Op("{0} // 2", exact=True, whole=True, jumps=True),
    Op("{0} % 3", exact=True, whole=True, jumps=True),
]  # fmt: skip
BINARY = [
    Op("{0} + {1}", exact=True, whole=True),
    Op("{0} - {1}", exact=True, whole=True),
    Op("{0} * {1}", exact=True, whole=True),
    Op("{0} / ({1} * {1} + 1)", exact=True),
    Op("gt.atan2({0}, {1} * {1} + 1)"),
    Op("({0} * {0} + 0.5) ** gt.tanh({1})"),
    Op("gt.maximum({0}, {1})", exact=True, whole=True, kink=lambda a, b: np.abs(a - b)),
    Op("gt.minimum({0}, {1})", exact=True, whole=True, kink=lambda a, b: np.abs(a - b)),
    Op("gt.where({0} > {1}, {0}, 2 * {1})", exact=True, whole=True, jumps=True, kink=lambda a, b: np.abs(a - b)),
]
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
INTEGERS = (
    "{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} // {1}", "{0} % {1}", "{0} & {1}", "{0} ^ {1}", "{0} << 2", "{0} >> 1",
    "gt.maximum({0}, {1})", "-{0}", "~{0}", "gt.sign({0})", "{0} ** 2",
)  # fmt: skip
BOOLS = ("{0} & {1}", "{0} | {1}", "{0} ^ {1}", "~{0}", "gt.logical_and({0}, {1})", "gt.logical_not({0})")
FOLDS = [
    Op("gt.sum({0}, axis={axis}, keepdims={keep})", whole=True),
    Op("gt.mean({0}, axis={axis}, keepdims={keep})"),
    Op("gt.prod(gt.tanh({0}), axis={axis}, keepdims={keep})"),
    Op("gt.var({0}, axis={axis}, keepdims={keep})"),
    Op("gt.norm({0}, axis={axis}, keepdims={keep})", kink=np.abs),
    Op("gt.logsumexp({0}, axis={axis}, keepdims={keep})"),
    Op("gt.max({0}, axis={axis}, keepdims={keep})", exact=True, whole=True, kink=gaps),
    Op("gt.min({0}, axis={axis}, keepdims={keep})", exact=True, whole=True, kink=gaps),
]
MOVED = Op("", exact=True, whole=True)
"""A line that only moves elements."""


class Draft:
    """A recipe in the making; `draw` is hypothesis's."""

    def __init__(self, draw: Callable[..., Any], kind: str, batch: bool) -> None:
        self.draw = draw
        self.kind = kind
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.arrays: list[Array] = []
        self.F = "float64" if kind == "smooth" else "float32"
        for i in range(draw(st.integers(1, 3))):
            shapes = BATCHED if batch and i == 0 else SHAPES + BATCHED * batch
            self.argument(self.choose(shapes), self.choose(self.argument_kinds(i)))

    def choose(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def argument_kinds(self, i: int) -> tuple[str, ...]:
        if self.kind == "smooth":
            return ("real",) if i == 0 else ("real", "real", "i64")
        return ("real",) if i == 0 else ("real", "whole", "f64", "i64", "i32", "u8", "bool")

    def argument(self, shape: tuple[int, ...], what: str) -> None:
        """One more argument with numbers of that kind."""
        if what in ("real", "f64"):
            values = self.rng.choice(AWKWARD, shape) if self.kind == "exact" else self.rng.normal(size=shape)
            array = values.astype(self.F if what == "real" else np.float64)
        else:
            dtype = {"whole": self.F, "i64": "int64", "i32": "int32", "u8": "uint8", "bool": "bool"}[what]
            low, high = {"u8": (0, 5), "bool": (0, 2)}.get(what, (-4, 5))
            array = self.rng.integers(low, high, shape).astype(dtype)
        self.values.append(Value(f"x{len(self.arrays)}", gt.tensor(array), what not in ("real", "f64")))
        self.arrays.append(np.asarray(array))

    # ---- lines -------------------------------------------------------------------------------------------

    def write(self, text: str, operands: Sequence[Value], op: Op = MOVED) -> None:
        """Add a line, unless its value is too large, too wild, or on a kink."""
        whole = op.whole and all(v.whole for v in operands)
        if op.jumps and not (self.kind == "exact" or whole or (self.kind == "smooth" and op.kink)):
            return
        arrays = [v.tensor.numpy() for v in operands]
        if self.kind == "smooth" and op.kink and not (np.abs(op.kink(*arrays)) > 0.05).all():
            return
        expression = text.format(*(v.name for v in operands))
        space = {v.name: v.tensor for v in operands} | {"gt": gt, "F": self.F}
        tensor = gt.asarray(eval(expression, space))
        found = tensor.numpy()
        limit = 2**20 if whole else 1e3
        if (
            found.size > LARGEST
            or BATCH in found.shape[1:]
            or (found.dtype.kind == "f" and self.kind != "exact" and not tame(found, limit))
        ):
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {expression}")
        self.values.append(Value(name, tensor, whole or found.dtype.kind != "f"))

    def pick(self, kinds: str, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value of one of these kinds, the newest preferred."""
        found = [v for v in self.values if v.kind in kinds and fits(v)]
        if not found:
            return None
        return self.choose(found[-3:] if self.draw(st.booleans()) else found)

    def partner(self, value: Value, kinds: str) -> Value | None:
        """A value that broadcasts with another one."""
        return self.pick(kinds, lambda v: meets(v.shape, value.shape))

    def axes(self, value: Value, nonempty: bool = True) -> list[int]:
        """Axes that may be named by number: with elements where that is needed."""
        return [i for i, n in enumerate(value.shape) if n or not nonempty]

    def constant_axes(self, value: Value) -> list[int]:
        """Axes whose extent is a constant."""
        return [i for i, n in enumerate(value.shape) if i or n != BATCH]

    def unary(self) -> None:
        if value := self.pick("f"):
            op = self.choose([op for op in UNARY if op.exact or self.kind != "exact"])
            self.write(op.text, [value], op)

    def binary(self) -> None:
        value = self.pick("f")
        other = value and self.partner(value, "fi" if self.kind == "float" else "f")
        if value and other:
            op = self.choose([op for op in BINARY if op.exact or self.kind != "exact"])
            self.write(op.text, [value, other], op)

    def literal(self) -> None:
        if value := self.pick("fi"):
            whole = value.kind == "i" or self.draw(st.booleans())
            integral = ("{0} * 2", "{0} + 1", "3 - {0}", "{0} * 1", "{0} + 0")
            text = self.choose(integral if whole else ("0.5 * {0}", "{0} / 4"))
            self.write(text, [value], Op(text, exact=True, whole=whole))

    def integer(self) -> None:
        value = self.pick("iu")
        other = value and self.partner(value, "iu")
        if value and other:
            self.write(self.choose(INTEGERS), [value, other])

    def compare(self) -> None:
        value = self.pick("fiu", lambda v: v.whole or self.kind == "exact")
        other = value and self.partner(value, value.kind)
        if value and other and (other.whole or self.kind == "exact"):
            self.write(f"{{0}} {self.choose(COMPARISONS)} {{1}}", [value, other])

    def logic(self) -> None:
        value = self.pick("b")
        other = value and self.partner(value, "b")
        if value and other:
            self.write(self.choose(BOOLS), [value, other])

    def select(self) -> None:
        chosen = self.pick("b")
        value = chosen and self.partner(chosen, "fiu")
        other = value and self.pick(value.kind, lambda v: meets(v.shape, value.shape) and meets(v.shape, chosen.shape))
        if chosen and value and other:
            self.write("gt.where({0}, {1}, {2})", [chosen, value, other], MOVED)

    def cast(self) -> None:
        value = self.pick("fiub")
        if value:
            dtype = self.choose(("F", "'float64'", "'int32'", "'int64'", "'uint8'", "'bool'"))
            jumps = value.kind == "f" and "loat" not in dtype and dtype != "F"
            if self.kind == "smooth" and (jumps or dtype == "F"):
                return
            self.write(f"gt.astype({{0}}, {dtype})", [value], Op("", exact=True, whole=True, jumps=jumps))

    def fold(self) -> None:
        value = self.pick("f", lambda v: 0 not in v.shape)
        if value and value.shape:
            op = self.choose([op for op in FOLDS if op.exact or self.kind != "exact"])
            axis = self.choose([None, *range(len(value.shape)), -1, tuple(range(len(value.shape)))])
            keep = self.draw(st.booleans())
            self.write(op.text.replace("{axis}", str(axis)).replace("{keep}", str(keep)), [value], op)

    def count(self) -> None:
        value = self.pick("iub", lambda v: bool(v.shape))
        if value:
            name = self.choose(("any", "all") if value.kind == "b" else ("sum", "prod"))
            self.write(f"gt.{name}({{0}}, axis={self.choose(range(len(value.shape)))})", [value])

    def position(self) -> None:
        value = self.pick("fiu", lambda v: bool(v.shape) and 0 not in v.shape and (v.whole or self.kind == "exact"))
        if value:
            name, axis = self.choose(("argmax", "argmin")), self.choose(range(len(value.shape)))
            self.write(f"gt.{name}({{0}}, axis={axis})", [value], Op("", exact=True, whole=True, jumps=True))

    def softmax(self) -> None:
        value = self.pick("f", lambda v: bool(v.shape))
        if value:
            name, axis = self.choose(("softmax", "log_softmax")), self.choose(range(len(value.shape)))
            self.write(f"gt.{name}({{0}}, axis={axis})", [value], Op(""))

    def view(self) -> None:
        value = self.pick("fiub", lambda v: bool(v.shape))
        if not value:
            return
        n, constant = len(value.shape), self.constant_axes(value)
        first = n - len(constant)
        options = [f"gt.expand_dims({{0}}, {self.draw(st.integers(first, n))})", "{0}[...]"]
        if first:
            options.append("{0}.reshape({0}.shape[0], -1)" if 0 not in value.shape[1:] else "{0}")
        else:
            options.append("{0}.reshape(-1)" if 0 not in value.shape else "{0}")
            options.append("gt.broadcast_to({0}, (2, *{0}.shape))")
        if constant:
            order = list(range(first)) + self.draw(st.permutations(constant))
            axis = self.choose(constant)
            before = ":, " * axis
            start, step = self.draw(st.integers(-2, 2)), self.choose((1, 2, -1))
            options += [
                f"gt.permute_dims({{0}}, {tuple(order)})",
                f"gt.flip({{0}}, axis={axis})",
                f"{{0}}[{before}{start}::{step}]",
                f"{{0}}[{before}:{start}]",
            ]
        self.write(self.choose(options), [value])

    def join(self) -> None:
        value = self.pick("fiub", lambda v: bool(self.constant_axes(v)))
        if not value:
            return
        axis = self.choose(self.constant_axes(value))
        other = self.pick(value.kind, lambda v: v.shape == value.shape)
        assert other
        texts = [f"gt.concat([{{0}}, {{1}}, {{0}}], axis={axis})", f"gt.stack([{{0}}, {{1}}], axis={max(axis, 1)})"]
        if not is_batched(value.shape):
            texts.append("gt.pad({0}, (1, 2), constant_values=1)")
        self.write(self.choose(texts), [value, other])

    def product(self) -> None:
        value = self.pick("f", lambda v: len(v.shape) >= 1)
        if not value:
            return
        k = value.shape[-1]
        if k == BATCH and len(value.shape) == 1:
            return
        other = self.pick("f", lambda v: len(v.shape) == 2 and v.shape[0] == k and not is_batched(v.shape))
        if other:
            self.write("gt.matmul(gt.tanh({0}), {1})", [value, other], Op(""))
        elif len(value.shape) == 2 and not is_batched(value.shape):
            self.write("gt.matmul({0}, {0}.T)", [value], Op(""))

    def lookup(self) -> None:
        value = self.pick("fiub", lambda v: any(v.shape[i] for i in self.constant_axes(v)))
        if not value:
            return
        axis = self.choose([i for i in self.constant_axes(value) if value.shape[i]])
        n = value.shape[axis]
        index = self.pick("i", lambda v: len(v.shape) < 2 and (not is_batched(v.shape) or not is_batched(value.shape)))
        if index and not (is_batched(index.shape) and axis):
            self.write(f"gt.take({{0}}, {{1}} % {n}, axis={axis})", [value, index])
        else:
            rows = self.rng.integers(-n, n, self.draw(st.integers(1, 4))).tolist()
            self.write(f"gt.take({{0}}, {rows}, axis={axis})", [value])

    def scatter(self) -> None:
        value = self.pick("f", lambda v: any(v.shape[i] for i in self.constant_axes(v)))
        if not value:
            return
        axis = self.choose([i for i in self.constant_axes(value) if value.shape[i]])
        n = value.shape[axis]
        into, of = self.rng.integers(-n, n, (2, self.draw(st.integers(1, 4)))).tolist()
        self.write(
            f"gt.index_add({{0}}, {axis}, {into}, gt.take({{0}}, {of}, axis={axis}))", [value], Op("", whole=True)
        )

    ANY = (unary, binary, literal, integer, compare, logic, select, cast, count, position, view, view, join, lookup)
    FLOAT = (unary, binary, fold, softmax, product, scatter)

    def finish(self) -> Recipe:
        """The last value and some others as results."""
        wanted = [self.values[-1], *self.draw(st.lists(st.sampled_from(self.values), max_size=3))]
        self.lines.append(f"    return ({', '.join(v.name for v in wanted)},)")
        return Recipe("\n".join(self.lines), tuple(self.arrays))


def tame(array: Array, limit: float) -> bool:
    """Finite and of moderate size."""
    return bool((np.abs(array) <= limit).all())


def meets(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast."""
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


@st.composite
def recipes(draw: Callable[..., Any], kind: str = "float", batch: bool = False, lines: int = 14) -> Recipe:
    """Random functions of that kind, with a run-time extent in the first axis if `batch`."""
    draft = Draft(draw, kind, batch)
    steps = {
        "exact": Draft.ANY,
        "float": (*Draft.ANY, *Draft.FLOAT),
        "smooth": (*Draft.FLOAT, Draft.unary, Draft.binary, Draft.literal, Draft.view, Draft.join, Draft.lookup),
    }[kind]
    for _ in range(draw(st.integers(3, lines))):
        draw(st.sampled_from(steps))(draft)
    return draft.finish()

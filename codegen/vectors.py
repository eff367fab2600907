"""Statements over vectors: which bodies can run on GT_LANES elements at once, and how their C reads.

Comes in: the statements of one pass over a row, or of a product's epilogue. Goes out: whether they have a
vector form, and the C of each access and expression in it (templates/gt_vector.h and gt_math.h define the
functions). Laws: a lane gets the bits that the element alone would get, so the choice changes no result;
what is the same for the whole row stays a scalar; lanes behind the end of a row touch no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from .cexpr import REDUCERS, STORED, Expr
from .memory import Place
from .program import Access, Accumulate, Assign, Buffer, Check, Counter, Extent, Load, Reduce, Stmt, Store, upper
from .target import Target

LANES = ("f32", "i32", "b1", *STORED)
"""Dtypes with a vector type of GT_LANES elements."""

FEWEST = 4
"""Rows shorter than this stay scalar: most lanes would be empty."""

COUNT = "gt_cast_{t}_{r}({0})"
"""What turns a counter of the row, an i64, into a lane type: its vector is counted in i32."""

_MASK_FORMS = {
    "!{0}": "~{0}",
    "{0} < {1}": "{0} > {1}",
    "{0} <= {1}": "{0} >= {1}",
    "{0} > {1}": "{0} < {1}",
    "{0} >= {1}": "{0} <= {1}",
}
"""Operators on truth values that are others on vectors of them, where true is -1."""

_FUNCTIONS = {
    "f32": """abs acos add asin atan atan2 ceil copysign cos cosh div erf erfc exp exp2 expm1 floor floor_divide
        gelu gelu_slope gelu_tanh gelu_tanh_slope hypot isfinite isinf isnan log log10 log1p log2 log_sigmoid max
        min mul neg pow reciprocal remainder round rsqrt sigmoid sigmoid_slope sign signbit silu sin sinh softplus
        sqrt square sub tan tanh trunc where
        sf_acosh sf_asinh sf_atanh sf_betaln sf_cbrt sf_digamma sf_entr sf_erfinv sf_gamma_density sf_gammainc
        sf_gammaincc sf_i0 sf_i0e sf_i1 sf_i1e sf_lgamma sf_logaddexp sf_logaddexp2 sf_logit sf_sinc sf_sinc_slope
        sf_xlog1py sf_xlogy""",
    "i32": """abs add floor_divide max min mul neg not pow remainder shift_left shift_right sign square sub
        where""",
    "b1": "not where",
    **dict.fromkeys(STORED, "where"),
}
FUNCTIONS = {f"gt_{name}_{tag}" for tag, names in _FUNCTIONS.items() for name in names.split()} | {
    f"gt_cast_{source}_{target}" for source, target in permutations(LANES, 2)
}
"""Functions of one element that have a vector form, whose name has v_ before each tag."""

_CALL = re.compile(r"\bgt_[\w{}]+(?=\()")


@dataclass
class Lanes:
    """The vector form of a body under way.

    `rest` is the C of how many elements are left, or empty where all vectors are whole; `counter` the C of
    the row's counter. `varying` grows with the variables that are vectors; `counts` are counters of the row.
    """

    counter: str
    rest: str = ""
    varying: set[str] = field(default_factory=set)
    counts: set[str] = field(default_factory=set)

    def load(self, tag: str, address: str) -> str:
        """GT_LANES elements from there on."""
        return f"gt_load_upto_{tag}({address}, {self.rest})" if self.rest else f"gt_load_{tag}({address})"

    def store(self, tag: str, address: str, value: str) -> str:
        """The statement that stores them."""
        return f"gt_store_upto_{tag}({address}, {value}, {self.rest});" if self.rest else (
            f"gt_store_{tag}({address}, {value});"
        )  # fmt: skip

    def is_wide(self, args: Iterable[str]) -> bool:
        """Whether an expression of these variables is a vector."""
        return any(arg in self.varying or arg in self.counts for arg in args)

    def expression(self, expr: Expr, texts: Sequence[str], tags: Sequence[str]) -> str:
        """The C of an expression with at least one vector among its arguments, which have these texts and dtypes."""
        if expr.args[0] in self.counts:
            counted = f"gt_count_i32((int32_t){self.counter})"
            return counted if expr.r == "i32" else f"gt_cast_v_i32_v_{expr.r}({counted})"
        template = _MASK_FORMS.get(expr.template, expr.template) if expr.t == "b1" else expr.template
        called = bool(_CALL.search(template))
        texts = [
            self.wide(arg, text, tag) if called or tag == "b1" else text
            for arg, text, tag in zip(expr.args, texts, tags, strict=True)
        ]
        return template.format(*texts, t=f"v_{expr.t}", r=f"v_{expr.r}")

    def wide(self, var: str, text: str, tag: str) -> str:
        """A variable as a vector: the same in all lanes if it is a scalar."""
        return text if var in self.varying else f"gt_splat_{tag}({text})"


def whole_vectors(length: Extent, target: Target) -> bool:
    """Whether a row of that length leaves no vector in part.

    >>> [whole_vectors(length, Target("avx2", 32, 16, True)) for length in (512, 10)]
    [True, False]
    """
    return isinstance(length, int) and length % target.lanes(4) == 0


@dataclass
class Question:
    """Whether statements over an axis of that length have a vector form: the axis is the last of their accesses.

    `table` and `places` tell of buffers, `wide` are those summed in doubles. `tags` are the dtypes of variables
    from outside, scalars but for those in `varying` (the sum of a product). The answer adds variables to both.
    """

    axis: int
    length: Extent
    table: Mapping[str, Buffer]
    places: Mapping[str, Place]
    wide: Iterable[str]
    tags: dict[str, str]
    varying: set[str] = field(default_factory=set)
    counts: set[str] = field(default_factory=set)

    def answer(self, stmts: Sequence[Stmt], target: Target) -> bool:
        """Whether all of them do, some of them work on vectors, and lanes cannot meet in memory."""
        if target.width < 16 or (isinstance(self.length, int) and self.length < FEWEST):
            return False
        return all(_TESTS[type(s)](self, s) for s in stmts) and bool(self.varying) and _apart(stmts, self.places)

    def fixed(self, access: Access) -> bool:
        """Whether no run-time index of an access differs between lanes."""
        return not any(var in self.varying or var in self.counts for var, _ in access.index)


def _load(q: Question, stmt: Load) -> bool:
    q.tags[stmt.var] = stmt.dtype
    step = stmt.access.strides[-1]
    if step == 1:
        q.varying.add(stmt.var)
    return q.fixed(stmt.access) and (step == 0 or (step == 1 and stmt.dtype in LANES))


def _assign(q: Question, stmt: Assign) -> bool:
    expr = stmt.expr
    q.tags[stmt.var] = stmt.dtype
    if any(arg in q.counts for arg in expr.args):
        q.varying.add(stmt.var)
        return expr.template == COUNT and expr.r in ("i32", "f32", *STORED)
    if not any(arg in q.varying for arg in expr.args):
        return True
    q.varying.add(stmt.var)
    called = _CALL.findall(expr.template)
    known = all("{" in name and name.format(t=expr.t, r=expr.r) in FUNCTIONS for name in called)
    return expr.t in LANES and expr.r in LANES and known and "?" not in expr.template


def _counter(q: Question, stmt: Counter) -> bool:
    q.tags[stmt.var] = "i64"
    if stmt.axis == q.axis:
        q.counts.add(stmt.var)
    return stmt.axis != q.axis or upper(q.length) < 2**31


def _store(q: Question, stmt: Store) -> bool:
    return (
        stmt.access.strides[-1] == 1
        and stmt.value not in q.counts
        and q.table[stmt.access.buffer].dtype in LANES
        and q.fixed(stmt.access)
    )


def _reduce(q: Question, stmt: Reduce) -> bool:
    return stmt.value in q.varying and q.tags[stmt.value] == "f32"


def _accumulate(q: Question, stmt: Accumulate) -> bool:
    tag = q.tags.get(stmt.value, "f32")
    function = REDUCERS[stmt.op].combine.format(0, 0, t=tag).split("(")[0]
    return (
        stmt.access.strides[-1] == 1
        and not stmt.access.index
        and stmt.value in q.varying
        and tag == q.table[stmt.access.buffer].dtype
        and (stmt.op == "sum" or stmt.access.buffer not in q.wide)
        and function in FUNCTIONS
    )


def _check(q: Question, stmt: Check) -> bool:
    return stmt.var not in q.varying and stmt.var not in q.counts


_TESTS: dict[type, Callable[[Question, Any], bool]] = {
    Load: _load,
    Assign: _assign,
    Counter: _counter,
    Store: _store,
    Reduce: _reduce,
    Accumulate: _accumulate,
    Check: _check,
}


def _apart(stmts: Iterable[Stmt], places: Mapping[str, Place]) -> bool:
    """Whether lanes cannot meet in memory: what is written is touched in one way only, by all statements."""
    ways: dict[Place, set[object]] = {}
    written: set[Place] = set()
    for stmt in stmts:
        if isinstance(stmt, Load | Store | Accumulate):
            place, access = places[stmt.access.buffer], stmt.access
            ways.setdefault(place, set()).add((access.strides, access.offset, access.index))
            if not isinstance(stmt, Load):
                written.add(place)
    return all(len(ways[place]) == 1 for place in written)

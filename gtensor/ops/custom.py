"""custom_vjp and custom_jvp: functions whose derivative is written by hand.

A call inside a trace is one equation with the function's body and its rule; the rule runs when a derivative
is taken, so it is made of ordinary operations and has derivatives itself. The pass `inline` puts the body in the
equation's place. Laws: the value is that of the function; an operand's cotangent is what the rule says, and
nothing else; under vmap the rule runs once per example.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .. import tree
from ..batch import Axes, batch_size, in_front, moved, run_batched, run_each
from ..errors import GradError, ShapeError, TraceError
from ..grad import vjp
from ..interp import run
from ..ir import Graph
from ..prim import Prim, register
from ..pullback import zeros
from ..tensor import STATE, Tensor, apply, as_tensor, bind_all, cast, recorded_all
from ..trace import argument_names, leaf_type, subgraph
from ..types import Type, resolve

Array = np.ndarray[Any, Any]
Cotangents = Sequence[Tensor | None]


# ---- the primitive -----------------------------------------------------------------------------------------


class Rule(Protocol):
    """How cotangents of a call's results become those of its operands."""

    def pull(self, gs: Cotangents, ins: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
        """A cotangent per operand, None where there is none; `gs` has None for results without one."""


def _type(*types: Type, body: Graph, rule: Rule) -> tuple[Type, ...]:
    return tuple(a.type for a in body.outputs)


def _run(*arrays: Array, body: Graph, rule: Rule) -> tuple[Array, ...]:
    return tuple(run(body, arrays))


def _vjp(
    gs: Cotangents, outs: Sequence[Tensor], ins: Sequence[Tensor], wanted: Sequence[bool], *, rule: Rule,
    body: Graph | None = None,
) -> list[Tensor | None]:  # fmt: skip
    return rule.pull(gs, ins, wanted)


def _batch(args: Sequence[Tensor], axes: Axes, *, body: Graph, rule: Rule) -> tuple[list[Tensor], list[int | None]]:
    size = batch_size(args, axes)

    def every(*tensors: Tensor) -> list[Tensor]:
        outs, found = run_batched(body, tensors, axes)
        return [in_front(out, axis, size) for out, axis in zip(outs, found, strict=True)]

    graph = subgraph(every, [x.type for x in args], body.name, [v.hint for v in body.inputs]).graph
    return bind_all(CUSTOM, args, {"body": graph, "rule": _EachExample(rule, tuple(axes))}), [0] * len(body.outputs)


CUSTOM = register(
    Prim(
        "custom", "loop", _type, _run, vjp=_vjp, batch=_batch,  # type: ignore[arg-type]
        flops=0, doc="A function with a derivative of its own.",
    )
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _EachExample:
    """The rule of a call under vmap: the rule of one example for each of them; operands that all share have the sum."""

    rule: Rule
    axes: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"each {self.rule}"

    def pull(self, gs: Cotangents, ins: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
        given = [i for i, g in enumerate(gs) if g is not None]
        found: list[int] = []

        def one(*tensors: Tensor) -> list[Tensor]:
            own = dict(zip(given, tensors[len(ins) :], strict=True))
            pulled = self.rule.pull([own.get(i) for i in range(len(gs))], tensors[: len(ins)], wanted)
            found.extend(i for i, t in enumerate(pulled) if t is not None)
            return [t for t in pulled if t is not None]

        tensors = [*ins, *(g for g in gs if g is not None)]
        outs, places = run_each(one, tensors, [*self.axes, *(0 for _ in given)], str(self.rule))
        size = batch_size(ins, self.axes)
        result: list[Tensor | None] = [None] * len(ins)
        for i, out, place in zip(found, outs, places, strict=True):
            front, axis = in_front(out, place, size), self.axes[i]
            result[i] = apply("sum", front, axis=(0,)) if axis is None else moved(front, 0, axis)
        return result


# ---- calls -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of a function with a rule: how operands make its arguments, and what it gives.

    `leaves` are those of the arguments, with a place among the operands for each array; `types` and `result` are
    those of the results.
    """

    function: _Custom
    leaves: tuple[Any, ...]
    structure: tree.Structure
    types: tuple[Type, ...]
    result: tree.Structure

    def __str__(self) -> str:
        return self.function.name

    @property
    def operands(self) -> int:
        """How many operands are arrays among the arguments; others are what the function captured."""
        return sum(isinstance(leaf, _Operand) for leaf in self.leaves)

    def arguments(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with these for the arrays."""
        leaves = [tensors[leaf.place] if isinstance(leaf, _Operand) else leaf for leaf in self.leaves]
        found: tuple[Any, ...] = tree.unflatten(self.structure, leaves)
        return found

    def require_no_capture(self, differentiated: bool) -> None:
        """Refuse to differentiate by what the function captured."""
        if differentiated:
            raise GradError(
                f"{self} captures a tensor that is differentiated, for which its rule has no derivative",
                hint="pass the tensor as an argument",
            )

    def cotangent(self, gs: Cotangents) -> Any:
        """The cotangents in the structure of the result, zeros where there is none."""
        given = [zeros(resolve(t)) if g is None else g for g, t in zip(gs, self.types, strict=True)]
        return tree.unflatten(self.result, given)

    def pull(self, gs: Cotangents, ins: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
        count = self.operands
        self.require_no_capture(any(wanted[count:]))
        found = self.function.pull(self, gs, ins[:count], wanted[:count])
        return [*found, *(None for _ in ins[count:])]


@dataclass(frozen=True)
class _Operand:
    """Stands among the leaves of a call's arguments for one of its operands."""

    place: int
    __gt_leaf__ = True


class _Custom(ABC):
    """A function with a rule; a subclass knows what rules are."""

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = getattr(fn, "__name__", "function").strip("<>")
        numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.nondiff = tuple(sorted(numbers))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @abstractmethod
    def pull(self, call: _Call, gs: Cotangents, ins: Sequence[Tensor], wanted: Sequence[bool]) -> Cotangents:
        """Cotangents of the operands of a call."""

    @abstractmethod
    def _require_rule(self) -> None:
        """Raise GradError for a function whose rule was not given."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._require_rule()
        given = self._positional(args, kwargs)
        leaves, structure = tree.flatten(given)
        paths = structure.paths()
        is_operand = [
            isinstance(leaf, (Tensor, np.ndarray)) or (path[0] not in self.nondiff and leaf_type(leaf) is not None)
            for leaf, path in zip(leaves, paths, strict=True)
        ]
        tensors = [as_tensor(leaf) for leaf, operand in zip(leaves, is_operand, strict=True) if operand]
        tensors = [cast(t, resolve(t.type).dtype) for t in tensors]
        places = iter(range(len(tensors)))
        held = tuple(
            _Operand(next(places)) if operand else leaf for leaf, operand in zip(leaves, is_operand, strict=True)
        )
        names = argument_names(self.fn, len(given))
        hints = [
            ".".join([names[path[0]], *map(str, path[1:])])
            for path, operand in zip(paths, is_operand, strict=True)
            if operand
        ]
        return self._traced(held, structure, tensors, hints) if STATE.scope else self._eager(held, structure, tensors)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included, which is how rules see them."""
        bound = inspect.signature(self.fn).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TraceError(
                f"{self.name}: {', '.join(bound.kwargs)} can only be given by keyword, and rules have none"
            )
        for number in self.nondiff:
            if not 0 <= number < len(bound.args):
                raise GradError(f"nondiff_argnums={number}, but {self.name} has {len(bound.args)} arguments")
        return bound.args

    def _run(self, call: _Call, tensors: Sequence[Tensor]) -> tuple[list[Tensor], tree.Structure]:
        outs, structure = tree.flatten(self.fn(*call.arguments(tensors)))
        found = [as_tensor(out) for out in outs]
        return [cast(t, resolve(t.type).dtype) for t in found], structure

    def _traced(
        self, held: tuple[Any, ...], structure: tree.Structure, tensors: Sequence[Tensor], hints: Sequence[str]
    ) -> Any:
        call = _Call(self, held, structure, (), structure)
        made: list[tree.Structure] = []

        def body(*inner: Tensor) -> list[Tensor]:
            outs, found = self._run(call, inner)
            made.append(found)
            return outs

        found = subgraph(body, [t.type for t in tensors], self.name, hints)
        types = tuple(a.type for a in found.graph.outputs)
        params = {"body": found.graph, "rule": _Call(self, held, structure, types, made[0])}
        return tree.unflatten(made[0], bind_all(CUSTOM, [*tensors, *found.captured], params))

    def _eager(self, held: tuple[Any, ...], structure: tree.Structure, tensors: Sequence[Tensor]) -> Any:
        plain = [Tensor(t.type, t.require_alive(), captured=t.captured) for t in tensors]
        outs, result = self._run(_Call(self, held, structure, (), structure), plain)
        call = _Call(self, held, structure, tuple(t.type for t in outs), result)
        call.require_no_capture(any(t.levels for t in outs))
        arrays = [t.require_alive() if t.captured is None else np.array(t.captured) for t in outs]
        outs = [Tensor(t.type, a) for t, a in zip(outs, arrays, strict=True)]
        return tree.unflatten(result, recorded_all(CUSTOM, tensors, {"rule": call}, outs))


# ---- rules -------------------------------------------------------------------------------------------------


class custom_vjp(_Custom):
    """A function whose derivative in reverse is written by hand: `f = custom_vjp(f)`, then `f.defvjp(fwd, bwd)`.

    `fwd(*args) -> (value, residuals)` and `bwd(residuals, cotangent) -> tuple` with a cotangent for each argument,
    in the argument's structure, or None where it has none. Arguments are pytrees; integers among them have no
    cotangent. Those of `nondiff_argnums` keep their Python values (a number, a string, a function): `fwd` takes
    all arguments, and `bwd` has these in front. `fwd` runs when a derivative is taken, and may call the function
    itself. The rule is differentiated like any code, so it needs operations that have derivatives, for higher
    order; forward derivatives (jvp) are its transpose. It may capture arrays, not traced tensors.

    Calls raise GradError without a rule; derivatives raise GradError for a rule that returns something else or for
    a captured tensor that is differentiated, ShapeError for a cotangent of another shape.

    >>> import gtensor as gt
    >>> @custom_vjp
    ... def clipped(x, limit):
    ...     return x
    >>> def bwd(limit, g):
    ...     return gt.clip(g, -limit, limit), None
    >>> clipped.defvjp(lambda x, limit: (x, limit), bwd)
    >>> gt.grad(lambda x: gt.sum(clipped(x, 1.0) ** 2))(gt.tensor([0.25, 3.0]))
    Tensor([0.5, 1. ], dtype=float32)
    """

    _fwd: Callable[..., Any] | None = None
    _bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule."""
        self._fwd, self._bwd = fwd, bwd

    def _require_rule(self) -> None:
        if self._fwd is None or self._bwd is None:
            raise GradError(f"{self.name} has no rule yet", hint=f"give it one: {self.name}.defvjp(fwd, bwd)")

    def pull(self, call: _Call, gs: Cotangents, ins: Sequence[Tensor], wanted: Sequence[bool]) -> Cotangents:
        assert self._fwd is not None and self._bwd is not None
        args = call.arguments(ins)
        found = self._fwd(*args)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise GradError(f"the fwd of {self.name} must return a pair (value, residuals)")
        fixed = [args[number] for number in self.nondiff]
        cotangents = self._bwd(*fixed, found[1], call.cotangent(gs))
        active = [number for number in range(len(args)) if number not in self.nondiff]
        if not isinstance(cotangents, (tuple, list)) or len(cotangents) != len(active):
            what = f"{len(cotangents)}" if isinstance(cotangents, (tuple, list)) else type(cotangents).__name__
            raise GradError(f"the bwd of {self.name} must return a tuple of {len(active)} cotangents, not {what}")
        whole: list[Any] = [None] * len(args)
        for number, cotangent in zip(active, cotangents, strict=True):
            whole[number] = cotangent
        try:
            values = tree.broadcast_values(tuple(whole), args)
        except ValueError:
            raise GradError(f"the bwd of {self.name} gave cotangents of another structure than its arguments") from None
        by_place = {leaf.place: v for leaf, v in zip(call.leaves, values, strict=True) if isinstance(leaf, _Operand)}
        return [
            _fitted(by_place[i], x, f"the bwd of {self.name}") if want else None
            for i, (x, want) in enumerate(zip(ins, wanted, strict=True))
        ]


def _fitted(value: Any, like: Tensor, what: str) -> Tensor | None:
    """A value in the dtype of a tensor of the same shape; None stays."""
    if value is None:
        return None
    tensor = as_tensor(value)
    if tensor.type.shape != like.type.shape:
        raise ShapeError(f"{what} gave {resolve(tensor.type)} for {resolve(like.type)}")
    return cast(tensor, resolve(like.type).dtype)


class custom_jvp(_Custom):
    """A function whose directional derivative is written by hand: `f = custom_jvp(f)`, then `f.defjvp(jvp)`.

    `jvp(primals, tangents) -> (value, tangent)`, where primals and tangents are tuples like the arguments, and the
    tangent has the structure of the value and is linear in the tangents (those of integers are zeros). Arguments of
    `nondiff_argnums` keep their Python values, stand in front of both tuples, and not in them. Gradients are the
    transpose of the rule, so it serves both directions and every order. It may capture arrays, not traced tensors.

    Calls raise GradError without a rule; derivatives raise GradError for a rule that returns something else or for
    a captured tensor that is differentiated, ShapeError for a tangent of another shape.

    >>> import gtensor as gt
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return gt.log(1 + gt.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + gt.exp(x)))
    >>> gt.grad(log1pexp)(100.0), gt.jvp(log1pexp, [0.0], [1.0])[1]
    (Tensor(1., dtype=float32), Tensor(0.5, dtype=float32))
    """

    _jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; gives it back, so that it can decorate."""
        self._jvp = jvp
        return jvp

    def _require_rule(self) -> None:
        if self._jvp is None:
            raise GradError(f"{self.name} has no rule yet", hint=f"give it one: {self.name}.defjvp(jvp)")

    def pull(self, call: _Call, gs: Cotangents, ins: Sequence[Tensor], wanted: Sequence[bool]) -> Cotangents:
        places = [i for i, want in enumerate(wanted) if want]
        floats = [i for i, type_ in enumerate(call.types) if type_.dtype.floating]

        def along(*tangents: Tensor) -> list[Tensor]:
            moving = dict(zip(places, tangents, strict=True))
            every = [moving.get(i, zeros(resolve(x.type))) for i, x in enumerate(ins)]
            outs = self._tangents(call, ins, every)
            return [outs[i] for i in floats]

        _, pullback = vjp(along, *(zeros(resolve(ins[i].type)) for i in places))
        seeds = tree.flatten(call.cotangent(gs))[0]
        found = dict(zip(places, pullback([seeds[i] for i in floats]), strict=True))
        return [found.get(i) for i in range(len(ins))]

    def _tangents(self, call: _Call, ins: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Tensor]:
        """The tangents of the results by the rule."""
        assert self._jvp is not None
        primals, moving = call.arguments(ins), call.arguments(tangents)
        fixed = [primals[number] for number in self.nondiff]
        active = [number for number in range(len(primals)) if number not in self.nondiff]
        found = self._jvp(*fixed, tuple(primals[n] for n in active), tuple(moving[n] for n in active))
        if not (isinstance(found, tuple) and len(found) == 2):
            raise GradError(f"the jvp of {self.name} must return a pair (value, tangent)")
        outs, structure = tree.flatten(found[1])
        if structure != call.result:
            raise GradError(f"the jvp of {self.name} gave a tangent of structure {structure} for {call.result}")
        what = f"the jvp of {self.name}"
        result = []
        for out, type_ in zip(outs, call.types, strict=True):
            tensor = _fitted(out, zeros(resolve(type_)), what)
            assert tensor is not None
            result.append(tensor)
        return result

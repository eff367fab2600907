"""The reverse walk: cotangents from outputs to variables, over recorded or traced equations.

Comes in: steps (equations over tensors, in order), output cotangents, the wanted variables. Goes out:
their cotangents as tensors, computed by ordinary operations, so derivatives of derivatives need nothing
new. Laws: contributions are summed in a fixed order; `stop_gradient` is a wall; a cotangent that `where`
has masked stays exactly zero whatever it is multiplied by, which is the mask algebra: a factor keeps the
mask, a view moves it, a sum of cotangents counts where any of them does, and the select is written once,
where the chain ends. Cotangents of slices that lie side by side are joined, not padded and added: n of them are
written once, and so n steps over x[0], x[1], ... cost no n² (only the sign of a zero could tell).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import GradError, Source
from .ir import Var
from .prim import REGISTRY, Prim
from .record import Record
from .tensor import Scope, Tensor, apply, as_tensor, bind, cast, sourced
from .types import Type, bool_


@dataclass(frozen=True)
class Step:
    """One equation over tensors; `keys` name the values that its operands and its results are."""

    prim: Prim | None
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    params: Mapping[str, Any]
    source: tuple[Source, ...]
    in_keys: tuple[Any, ...]
    out_keys: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The primitive's name; a link between recordings has none."""
        return "" if self.prim is None else self.prim.name


@dataclass(frozen=True)
class Cotangent:
    """A value and where it counts: False in `mask` means exactly 0. `clean`: the value already is 0 there."""

    value: Tensor
    mask: Tensor | None = None
    clean: bool = True

    def select(self) -> Tensor:
        """The value with the mask applied."""
        if self.mask is None or self.clean:
            return self.value
        return apply("where", self.mask, self.value, cast(as_tensor(0), self.value.type.dtype, self.value.type.weak))


@dataclass(frozen=True)
class Masked:
    """What a rule gives for an operand that counts only where `mask` holds, and elsewhere exactly not at all."""

    value: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Part:
    """What a rule gives for an operand of which it read a slice: the cotangent of the slice; 0 elsewhere."""

    value: Tensor
    shape: tuple[Any, ...]
    start: tuple[Any, ...]
    step: tuple[Any, ...]

    def whole(self) -> Tensor:
        """The cotangent of the operand."""
        return apply("pad", self.value, shape=self.shape, start=self.start, step=self.step, value=0.0)

    def interval(self, axis: int) -> tuple[Any, Any]:
        """Where it begins and ends along an axis."""
        return self.start[axis], self.start[axis] + self.value.type.shape[axis]

    def fills(self, axis: int) -> bool:
        """Whether it has all that the operand has along an axis."""
        return self.start[axis] == 0 and self.value.type.shape[axis] == self.shape[axis]


def zeros(type: Type) -> Tensor:
    """Zeros of that type."""
    zero = cast(as_tensor(0), type.dtype, type.weak)
    return bind(REGISTRY["broadcast"], [zero], {"shape": type.shape}) if type.shape else zero


def key_of(tensor: Tensor) -> Any:
    """What identifies a value: its variable when traced, its record when recorded, else the tensor itself."""
    if isinstance(tensor.atom, Var):
        return id(tensor.atom)
    return id(tensor) if tensor.record is None else tensor.record.key


def recorded_steps(outputs: Iterable[Tensor], wanted: Callable[[Record], bool]) -> list[Step]:
    """The eager equations behind some tensors, oldest first, as far as `wanted` follows them."""
    found: dict[int, Record] = {}
    stack = [t.record for t in outputs if t.record is not None]
    while stack:
        record = stack.pop()
        if record.serial in found or not wanted(record):
            continue
        found[record.serial] = record
        stack.extend(t.record for t in record.ins if t.record is not None)
    return [_recorded_step(found[serial]) for serial in sorted(found)]


def _recorded_step(record: Record) -> Step:
    keys = tuple(key_of(t) for t in record.ins)
    whole = record.whole
    makers = [record] if whole is None else [record.result(whole, place) for place in range(len(whole))]
    outs = tuple(Tensor(maker.out.type, maker.out.data, record=maker) for maker in makers)
    return Step(record.prim, record.ins, outs, record.params, record.source, keys, tuple(m.key for m in makers))


def traced_steps(scope: Scope) -> list[Step]:
    """The equations of a scope as steps."""
    builder = scope.builder

    def tensor(atom: Any) -> Tensor:
        return Tensor(atom.type, atom=atom, scope=scope)

    return [
        Step(
            eqn.prim,
            tuple(map(tensor, eqn.ins)),
            tuple(map(tensor, eqn.outs)),
            eqn.params,
            tuple(lines),
            tuple(map(id, eqn.ins)),
            tuple(map(id, eqn.outs)),
        )
        for eqn, lines in zip(list(builder.eqns), list(builder.sources), strict=True)
    ]


def pull_back(
    steps: Sequence[Step],
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    variables: Sequence[Tensor],
    strip: Callable[[Tensor], Tensor],
    describe: Callable[[Tensor], str],
) -> list[Tensor | None]:
    """Cotangents of the variables; None for one that the outputs do not depend on.

    `strip` takes a forward value out of the recording that is being differentiated, so that the
    derivative is not part of it; `describe` names a variable or an output in an error. Raises GradError
    where a cotangent arrives at an operation without derivative, or at a number computed from one.
    """
    wanted = [key_of(v) for v in variables]
    active, broken = _activity(steps, set(wanted))
    sums = _Sums(frozenset(wanted))
    for out, cotangent in zip(outputs, cotangents, strict=True):
        if key_of(out) in active:
            sums.add(key_of(out), Cotangent(cotangent))
    for step in reversed(steps):
        totals = [sums.take(key) for key in step.out_keys]
        if all(total is None for total in totals) or not any(key in active for key in step.out_keys):
            continue
        if cause := _cause(step, active, broken):
            start = _start(steps, cause, dict(zip(wanted, variables, strict=True)))
            path = f"it lies on the path from {describe(start)} to {describe(outputs[0])}"
            raise GradError(f"{cause.name} has no derivative; {path}", hint=_CUT, sources=cause.source)
        if any(key in active for key in step.in_keys):
            with sourced(step.source):
                for key, part in _through(step, totals, active, strip):
                    sums.add(key, part, step.source)
    found = [sums.take(key) for key in wanted]
    return [None if total is None else total.select() for total in found]


_CUT = "wrap it in gt.stop_gradient"


def _activity(steps: Sequence[Step], wanted: set[Any]) -> tuple[set[Any], dict[Any, Step]]:
    """The floats that depend on a wanted value, and the integers that do, each with the step where derivatives end.

    A cotangent never arrives at an integer; it arrives at a float that was converted from one, and that
    is how a loss that depends on an argmax other than by comparison or as an index is found.
    """
    active = set(wanted)
    broken: dict[Any, Step] = {}
    for step in steps:
        if step.prim is not None and (step.prim.zero or step.prim.kind == "effect"):
            continue
        ends = next((broken[key] for key in _operands(step) if key in broken), None)
        is_active = any(key in active for key in step.in_keys)
        for out, key in zip(step.outs, step.out_keys, strict=True):
            dtype = out.type.dtype
            if dtype.floating and (is_active or ends):
                active.add(key)
            elif not dtype.floating and dtype != bool_:
                if step.prim is not None and step.prim.vjp is None and is_active:
                    broken[key] = step
                elif ends:
                    broken[key] = ends
    return active, broken


def _operands(step: Step) -> tuple[Any, ...]:
    """The operands that are computed with, indices (the second operand of a gather or scatter) left out."""
    indexed = step.prim is not None and step.prim.kind in ("gather", "scatter")
    return (step.in_keys[0], *step.in_keys[2:]) if indexed else step.in_keys


def _cause(step: Step, active: set[Any], broken: Mapping[Any, Step]) -> Step | None:
    """The step without derivative that a cotangent has met here, if any."""
    if step.prim is not None and step.prim.vjp is None and any(key in active for key in step.in_keys):
        return step
    return next((broken[key] for key in _operands(step) if key in broken), None)


def _start(steps: Sequence[Step], end: Step, variables: Mapping[Any, Tensor]) -> Tensor:
    """A variable that a step depends on."""
    makers = {key: step for step in steps for key in step.out_keys}
    seen: set[Any] = set()
    stack = list(end.in_keys)
    while stack:
        key = stack.pop()
        if key in variables:
            return variables[key]
        if key in makers and key not in seen:
            seen.add(key)
            stack.extend(makers[key].in_keys)
    return next(iter(variables.values()))


class _Sums:
    """The cotangents of values, as far as they have been summed; those of slices wait until all are there."""

    def __init__(self, wanted: frozenset[Any]) -> None:
        self._wanted = wanted
        self._found: dict[Any, Cotangent] = {}
        self._parts: dict[Any, list[tuple[Part, tuple[Source, ...]]]] = {}

    def add(self, key: Any, new: Cotangent | Part, source: tuple[Source, ...] = ()) -> None:
        """Count a contribution, made at `source`."""
        if isinstance(new, Part):
            self._parts.setdefault(key, []).append((new, source))
            return
        old = self._found.get(key)
        if old is None:
            self._found[key] = new
        elif old.mask is not None and new.mask is not None and _same(old.mask, new.mask):
            self._found[key] = Cotangent(apply("add", old.value, new.value), old.mask, old.clean and new.clean)
        else:
            both = old.mask is not None and new.mask is not None
            mask = apply("logical_or", old.mask, new.mask) if both else None
            self._found[key] = Cotangent(apply("add", old.select(), new.select()), mask)

    def take(self, key: Any) -> Cotangent | None:
        """The sum of all contributions, None if there was none. It is kept only where it is wanted at the end."""
        waiting = self._parts.pop(key, [])
        if waiting:
            with sourced(tuple(dict.fromkeys(line for _, source in waiting for line in source))):
                for value in _joined([part for part, _ in waiting]):
                    self.add(key, Cotangent(value))
        return self._found.get(key) if key in self._wanted else self._found.pop(key, None)


def _joined(parts: Sequence[Part]) -> list[Tensor]:
    """Tensors with the sum of the parts: one, if they lie side by side along an axis, else one for each."""
    first = parts[0]
    axis = next((axis for axis in range(len(first.shape)) if not first.fills(axis)), None)
    if axis is None or len(parts) == 1:
        return [part.whole() for part in parts]
    others = [other for other in range(len(first.shape)) if other != axis]
    beside = all(set(part.step) <= {1} and all(map(part.fills, others)) for part in parts)
    ordered = sorted(parts, key=lambda part: part.interval(axis))
    pieces, reached = [], 0
    for part in ordered if beside else ():
        begin, end = part.interval(axis)
        if begin < reached:
            beside = False
            break
        pieces += [*_gap(part, axis, begin - reached), part.value]
        reached = end
    if not beside:
        return [part.whole() for part in parts]
    pieces += _gap(first, axis, first.shape[axis] - reached)
    return [apply("concat", *pieces, axis=axis)]


def _gap(part: Part, axis: int, length: int) -> list[Tensor]:
    """Zeros between two parts, if there is room."""
    shape = part.value.type.shape
    return [zeros(part.value.type.with_shape([*shape[:axis], length, *shape[axis + 1 :]]))] if length else []


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (isinstance(a.atom, Var) and a.atom is b.atom)


def _through(
    step: Step, totals: Sequence[Cotangent | None], active: set[Any], strip: Callable[[Tensor], Tensor]
) -> list[tuple[Any, Cotangent | Part]]:
    """What one equation hands to its active operands."""
    prim = step.prim
    if prim is not None and prim.kind == "loop":
        return _through_loop(step, totals, active, strip)
    (total,) = totals
    assert total is not None
    if prim is None:
        return [(step.in_keys[0], total)]
    assert prim.vjp is not None
    vjp, out, ins = prim.vjp, strip(step.outs[0]), [strip(t) for t in step.ins]

    def rule(g: Tensor) -> Sequence[Any]:
        return vjp(g, out, *ins, **step.params)

    way = WAYS[prim.mask] if isinstance(prim.mask, str) else _own_way(prim.mask, out, ins, step.params)
    values = rule(total.select() if way.select_first else total.value)
    masks: Sequence[Any] = [None] * len(ins) if total.mask is None else way.masks(total.mask, rule, len(ins))
    found: list[tuple[Any, Cotangent | Part]] = []
    for key, value, mask in zip(step.in_keys, values, masks, strict=True):
        if key in active and value is not None:
            clean = total.mask is None or (way.keeps_zeros and (way.select_first or total.clean))
            found.append((key, _cotangent(_called(value), _whole(_called(mask)), clean)))
    return found


def _own_way(masks: Callable[..., Sequence[Any]], out: Tensor, ins: list[Tensor], params: Mapping[str, Any]) -> Way:
    """How masks go through a rule that has one of its own for them; what it multiplies may be infinite."""
    return Way(True, lambda mask, rule, n: masks(mask, out, *ins, **params), False)


def _through_loop(
    step: Step, totals: Sequence[Cotangent | None], active: set[Any], strip: Callable[[Tensor], Tensor]
) -> list[tuple[Any, Cotangent | Part]]:
    """The same of an equation with a body, whose rule takes the cotangents of all results at once."""
    assert step.prim is not None and step.prim.vjp is not None
    given = [None if total is None else total.select() for total in totals]
    wanted = tuple(key in active for key in step.in_keys)
    outs, ins = [strip(t) for t in step.outs], [strip(t) for t in step.ins]
    values = step.prim.vjp(given, outs, ins, wanted, **step.params)
    return [(k, Cotangent(v)) for k, v in zip(step.in_keys, values, strict=True) if v is not None and k in active]


def _cotangent(value: Tensor | Masked | Part, mask: Tensor | None, clean: bool) -> Cotangent | Part:
    if isinstance(value, Part) and mask is None:
        return value
    mask = None if mask is None else cast(mask, bool_)
    if not isinstance(value, Masked):
        return Cotangent(_whole(value), mask, clean)
    both = value.mask if mask is None else apply("logical_and", mask, value.mask)
    return Cotangent(value.value, both, clean=False)


def _whole(value: Any) -> Any:
    return value.whole() if isinstance(value, Part) else value


def _called(part: Any) -> Any:
    return part() if callable(part) else part


@dataclass(frozen=True)
class Way:
    """How a masked cotangent goes through a rule.

    `select_first`: the mask is applied to the cotangent before the rule. `masks` gives the operands'
    masks. `keeps_zeros`: the rule moves values without computing, so zeros stay zeros.
    """

    select_first: bool
    masks: Callable[[Tensor, Callable[[Tensor], Sequence[Any]], int], Sequence[Any]]
    keeps_zeros: bool


WAYS = {
    "keep": Way(False, lambda mask, rule, n: [mask] * n, False),
    "move": Way(False, lambda mask, rule, n: rule(mask), True),
    "any": Way(True, lambda mask, rule, n: rule(mask), True),
    "drop": Way(True, lambda mask, rule, n: [None] * n, True),
}
"""By `Prim.mask`, where that is no rule of its own. In `move` and `any` the mask goes through the vjp, as a bool."""


def unit(tensor: Tensor) -> Tensor:
    """The cotangent 1 of a scalar."""
    return cast(as_tensor(1.0), tensor.type.dtype, tensor.type.weak)

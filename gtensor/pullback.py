"""The reverse walk: cotangents from outputs to variables, over recorded or traced equations.

Comes in: steps (equations over tensors, in order), output cotangents, the wanted variables. Goes out:
their cotangents as tensors, computed by ordinary operations, so derivatives of derivatives need nothing
new. Laws: contributions are summed in a fixed order; `stop_gradient` is a wall; a cotangent that `where`
has masked stays exactly zero whatever it is multiplied by (the mask algebra).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import GradError, Source
from .ir import Var
from .prim import REGISTRY, Prim
from .tensor import Record, Scope, Tensor, apply, as_tensor, bind, cast, sourced
from .types import Type, bool_


@dataclass(frozen=True)
class Step:
    """One equation over tensors; `keys` name the values that its operands and its result are."""

    prim: Prim | None
    ins: tuple[Tensor, ...]
    out: Tensor
    params: Mapping[str, Any]
    source: tuple[Source, ...]
    in_keys: tuple[Any, ...]
    out_key: Any


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


def zeros(type: Type) -> Tensor:
    """Zeros of that type."""
    zero = cast(as_tensor(0), type.dtype, type.weak)
    return bind(REGISTRY["broadcast"], [zero], {"shape": type.shape}) if type.shape else zero


def key_of(tensor: Tensor) -> Any:
    """What identifies a value: its variable when traced, its record when recorded, else the tensor itself."""
    if isinstance(tensor.atom, Var):
        return id(tensor.atom)
    return id(tensor.record if tensor.record is not None else tensor)


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
    plain: Tensor = record.out
    out = Tensor(plain.type, plain.data, record=record)
    keys = tuple(key_of(t) for t in record.ins)
    return Step(record.prim, record.ins, out, record.params, record.source, keys, id(record))


def traced_steps(scope: Scope) -> list[Step]:
    """The equations of a scope as steps."""
    builder = scope.builder

    def tensor(atom: Any) -> Tensor:
        return Tensor(atom.type, atom=atom, scope=scope)

    return [
        Step(
            eqn.prim,
            tuple(map(tensor, eqn.ins)),
            tensor(eqn.out),
            eqn.params,
            tuple(lines),
            tuple(id(a) for a in eqn.ins),
            id(eqn.out),
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
    derivative is not part of it; `describe` names a variable in an error.
    """
    wanted = [key_of(v) for v in variables]
    active = _active(steps, set(wanted))
    sums: dict[Any, Cotangent] = {}
    for out, cotangent in zip(outputs, cotangents, strict=True):
        if key_of(out) in active:
            _add(sums, key_of(out), Cotangent(cotangent))
    for step in reversed(steps):
        if step.out_key not in active or step.out_key not in sums:
            continue
        total = sums[step.out_key] if step.out_key in wanted else sums.pop(step.out_key)
        if not any(key in active for key in step.in_keys):
            continue
        with sourced(step.source):
            for key, part in _through(step, total, active, strip, describe, outputs, variables):
                _add(sums, key, part)
    return [sums[key].select() if key in sums else None for key in wanted]


def _active(steps: Sequence[Step], wanted: set[Any]) -> set[Any]:
    """The values that depend on a wanted one through equations that carry a gradient."""
    active = set(wanted)
    for step in steps:
        if step.prim is not None and (step.prim.zero or step.prim.kind == "effect"):
            continue
        if step.out.type.dtype.floating and any(key in active for key in step.in_keys):
            active.add(step.out_key)
    return active


def _add(sums: dict[Any, Cotangent], key: Any, new: Cotangent) -> None:
    old = sums.get(key)
    if old is None:
        sums[key] = new
    elif old.mask is not None and new.mask is not None and _same(old.mask, new.mask):
        sums[key] = Cotangent(apply("add", old.value, new.value), old.mask, old.clean and new.clean)
    else:
        both = old.mask is not None and new.mask is not None
        mask = apply("logical_or", old.mask, new.mask) if both else None
        sums[key] = Cotangent(apply("add", old.select(), new.select()), mask)


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (isinstance(a.atom, Var) and a.atom is b.atom)


def _through(
    step: Step,
    total: Cotangent,
    active: set[Any],
    strip: Callable[[Tensor], Tensor],
    describe: Callable[[Tensor], str],
    outputs: Sequence[Tensor],
    variables: Sequence[Tensor],
) -> list[tuple[Any, Cotangent]]:
    """What one equation hands to its active operands."""
    prim = step.prim
    if prim is None:
        return [(step.in_keys[0], total)]
    if prim.vjp is None:
        path = f" from {describe(variables[0])}" if len(variables) == 1 else ""
        raise GradError(
            f"{prim.name} has no derivative; it lies on the path{path} to {describe(outputs[0])}",
            hint="wrap it in gt.stop_gradient",
            sources=step.source,
        )
    ins = [strip(t) for t in step.ins]
    parts = MASKS[prim.mask](prim, step, total, ins, strip(step.out))
    return [
        (key, Cotangent(_called(part.value), part.mask, part.clean))
        for key, part in zip(step.in_keys, parts, strict=True)
        if key in active and part is not None
    ]


def _called(value: Any) -> Tensor:
    tensor: Tensor = value() if callable(value) else value
    return tensor


Parts = Sequence["Cotangent | None"]


def _rule(prim: Prim, step: Step, g: Tensor, ins: Sequence[Tensor], out: Tensor) -> Sequence[Any]:
    assert prim.vjp is not None
    return prim.vjp(g, out, *ins, **step.params)


def _keep(prim: Prim, step: Step, total: Cotangent, ins: Sequence[Tensor], out: Tensor) -> Parts:
    parts = _rule(prim, step, total.value, ins, out)
    return [None if p is None else Cotangent(p, total.mask, total.mask is None) for p in parts]


def _move(prim: Prim, step: Step, total: Cotangent, ins: Sequence[Tensor], out: Tensor) -> Parts:
    parts = _rule(prim, step, total.value, ins, out)
    return [
        None if p is None else Cotangent(p, m, total.clean) for p, m in zip(parts, _masks(prim, step, total, ins, out))
    ]


def _any(prim: Prim, step: Step, total: Cotangent, ins: Sequence[Tensor], out: Tensor) -> Parts:
    parts = _rule(prim, step, total.select(), ins, out)
    return [None if p is None else Cotangent(p, m) for p, m in zip(parts, _masks(prim, step, total, ins, out))]


def _masks(prim: Prim, step: Step, total: Cotangent, ins: Sequence[Tensor], out: Tensor) -> list[Tensor | None]:
    """The mask sent through the same rule: moved with the values, or true where any of the summed ones is."""
    if total.mask is None:
        return [None] * len(ins)
    moved = _rule(prim, step, total.mask, ins, out)
    return [None if m is None else cast(_called(m), bool_) for m in moved]


def _select(prim: Prim, step: Step, total: Cotangent, ins: Sequence[Tensor], out: Tensor) -> Parts:
    chosen = ins[0]
    other = apply("logical_not", chosen)
    masks = [m if total.mask is None else apply("logical_and", total.mask, m) for m in (chosen, other)]
    return [None, *(Cotangent(total.value, mask, clean=False) for mask in masks)]


def _drop(prim: Prim, step: Step, total: Cotangent, ins: Sequence[Tensor], out: Tensor) -> Parts:
    return [None if p is None else Cotangent(p) for p in _rule(prim, step, total.select(), ins, out)]


MASKS = {"keep": _keep, "move": _move, "any": _any, "select": _select, "drop": _drop}
"""How a masked cotangent goes through a rule, by `Prim.mask`."""


def unit(tensor: Tensor) -> Tensor:
    """The cotangent 1 of a scalar."""
    return cast(as_tensor(1.0), tensor.type.dtype, tensor.type.weak)

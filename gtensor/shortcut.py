"""The short way of a call: arguments that fit as they are go from Python to C and back without Python in between.

Comes in: a bound C call, what it expects (`Inputs`), the checked way that serves all other arguments. Goes out: a
function of the same arguments. Law: the short way takes what `Inputs.take` takes without copying or converting, and
gives what the checked way gives; all else, errors too, is left to the checked way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .calls import Array, Inputs
from .codegen.library import Call
from .codegen.trampoline import Guard, Wrapper
from .tensor import Tensor

Function = Callable[..., Any]

MISS = object()
"""What a call gives for arguments that it does not take."""

WRAPPER = Wrapper(Tensor, data="data", plain=(("record",), ("requires_grad",), ("donated",), ("type", "weak")))
"""Tensors as `Inputs.take` takes them."""


def miss(*_: Any) -> object:
    """`MISS`, whatever the arguments."""
    return MISS


def stepper(
    call: Call, inputs: Inputs, guard: Guard, otherwise: Function, finish: Function | None, first: int = 0
) -> Function:
    """A C function of the leaves of a call and of what was captured; what it does not take goes to `otherwise`.

    Where it could take nothing at all, `otherwise` is the result. The `first` inputs are not passed but bound
    beforehand; `finish` as in `Call.stepper`.
    """
    if not inputs.exact:
        return otherwise
    numbers = inputs.numbers
    slots = range(first, len(numbers))
    return call.stepper(slots, otherwise, guard, finish=finish, wrapper=WRAPPER, numbers=numbers[first:])


def over_batches(
    call: Call,
    inputs: Inputs,
    guard: Guard,
    checked: Function,
    finish: Function | None,
    first: tuple[Array, ...] = (),
) -> Function:
    """A function of a batch that does what `checked` does.

    `inputs` has depth 1; the arrays `first` stand before the batch and are bound already.
    """
    count = len(first)
    if inputs.flat:
        return stepper(call, inputs, guard, checked, finish, count)
    step = stepper(call, inputs, guard, miss, finish, count)
    if step is miss:
        return checked

    def run(*batch: Any) -> Any:
        leaves = inputs.leaves((*first, *batch))
        given = None if leaves is None else inputs.given(leaves)
        if given is not None and (result := step(*given[count:])) is not MISS:
            return result
        return checked(*batch)

    return run

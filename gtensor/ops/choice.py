"""Choices among several arrays: select, choose, piecewise.

Laws: they are chains of `where`, so what is not chosen contributes exactly nothing to the gradient, infinite
and NaN derivatives included; all alternatives are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DTypeError, OptionError, ShapeError
from ..prim import public
from ..tensor import Tensor, apply, as_tensor, broadcast, cast
from ..types import bool_, int64
from .arithmetic import equal, logical_not, logical_or, remainder, where


@public
def select(conditions: Sequence[Any], choices: Sequence[Any], /, default: Any = 0) -> Tensor:
    """Of several arrays, elementwise, that of the first condition that holds, else the default.

    All operands broadcast, and choices and default meet in one dtype. Raises ShapeError for lists that are
    empty or not of one length, DTypeError for conditions that are no bools.

    >>> import gtensor as gt
    >>> x = gt.arange(5)
    >>> gt.select([x < 2, x < 4], [x, 10 * x], -1)
    Tensor([ 0,  1, 20, 30, -1], dtype=int64)
    """
    if len(conditions) != len(choices) or len(conditions) == 0:
        raise ShapeError(f"select: {len(conditions)} conditions for {len(choices)} choices")
    tests = [as_tensor(c) for c in conditions]
    if any(t.type.dtype != bool_ for t in tests):
        raise DTypeError("select: conditions must be bools")
    result: Any = default
    for test, value in zip(reversed(tests), reversed(choices), strict=True):
        result = where(test, value, result)
    return as_tensor(result)


@public
def choose(index: Any, choices: Sequence[Any], /, mode: str = "raise") -> Tensor:
    """Of several arrays, elementwise, the one whose number the index gives; all operands broadcast.

    `mode` says what becomes of a number that no choice has: "raise" an IndexError, "wrap" counts round,
    "clip" takes the nearest. Raises OptionError for another mode and for no choices.

    >>> import gtensor as gt
    >>> gt.choose([0, 1, 0], [[1, 2, 3], [10, 20, 30]])
    Tensor([ 1, 20,  3], dtype=int64)
    """
    count = len(choices)
    if mode not in ("raise", "wrap", "clip") or not count:
        raise OptionError(f"choose: mode {mode!r} with {count} choices; the modes are raise, wrap, clip")
    number = as_tensor(index)
    if number.type.dtype.kind not in "iu":
        raise DTypeError(f"choose: the index must be integers, not {number.dtype}")
    number = cast(number, int64)
    if mode == "raise":
        number = apply("check_index", number, low=0, high=count)
    elif mode == "wrap":
        number = remainder(number, count)
    result = as_tensor(choices[-1])
    for i in reversed(range(count - 1)):
        result = where(number <= i if mode == "clip" else equal(number, i), choices[i], result)
    return broadcast([result, number])[0]


@public
def piecewise(x: Any, conditions: Sequence[Any], functions: Sequence[Any], /, *args: Any, **kwargs: Any) -> Tensor:
    """x with a function (or a number) applied where its condition holds, of several the last; 0 elsewhere.

    One function more than conditions is for where none holds. A function gets the whole of x, not a part of
    it as in NumPy, and `args` and `kwargs`. The result has x's dtype. Raises ShapeError for another number of
    functions.

    >>> import gtensor as gt
    >>> x = gt.tensor([-2.0, 1.0, 9.0])
    >>> gt.piecewise(x, [x < 0, x >= 4], [lambda v: -v, gt.sqrt, 0.5])
    Tensor([2. , 0.5, 3. ], dtype=float32)
    """
    tensor = as_tensor(x)
    listed = conditions if isinstance(conditions, (list, tuple)) else [conditions]
    tests = [cast(as_tensor(c), bool_) for c in listed]
    branches = list(functions)
    if not tests:
        raise ShapeError("piecewise needs a condition")
    if len(branches) == len(tests) + 1:
        covered = tests[0]
        for test in tests[1:]:
            covered = logical_or(covered, test)
        tests.append(logical_not(covered))
    if len(branches) != len(tests):
        raise ShapeError(f"piecewise: {len(branches)} functions for {len(tests)} conditions")
    result = cast(as_tensor(False), tensor.type.dtype)
    for test, branch in zip(tests, branches, strict=True):
        value = as_tensor(branch(tensor, *args, **kwargs) if callable(branch) else branch)
        result = where(test, cast(value, tensor.type.dtype), result)
    return broadcast([result, tensor])[0]

"""debug_print: a line with values, printed where the function runs on numbers.

Comes in: a format and tensors. Goes out: a line on standard output, nothing to the program. Law: a graph has no
effects; what is printed inside a trace is refused, never dropped in silence.
"""

from __future__ import annotations

from typing import Any

from . import tree
from .errors import TraceError
from .tensor import STATE, Tensor


def debug_print(fmt: str, /, *args: Any, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` with the values of tensors, also inside `gt.grad` and other derivatives.

    It prints where operations run at once. Compiled code has no Python to call, so while a function is traced (by
    gt.compile, gt.trace, gt.vmap and resident steps) it raises TraceError: call the function itself on arrays, which
    gives the same numbers, or return the value beside the result (with `has_aux`).

    >>> import gtensor as gt
    >>> def loss(w):
    ...     gt.debug_print("w = {}, |w| = {norm:.2f}", w, norm=gt.norm(w))
    ...     return gt.sum(w * w)
    >>> gt.grad(loss)(gt.tensor([3.0, 4.0]))
    w = [3. 4.], |w| = 5.00
    Tensor([6., 8.], dtype=float32)
    """
    values, structure = tree.flatten((args, kwargs))
    if STATE.scope is not None or any(isinstance(v, Tensor) and v.data is None for v in values):
        raise TraceError(
            "debug_print while a function is traced: there are no values to print yet, and compiled code cannot print",
            hint="call the function on arrays without gt.compile or gt.vmap, or return the value as well",
        )
    shown = [_shown(value) for value in values]
    positional, named = tree.unflatten(structure, shown)
    print(fmt.format(*positional, **named))


def _shown(value: Any) -> Any:
    """A tensor as its array, or its number, so that format specifications apply."""
    if not isinstance(value, Tensor):
        return value
    return value.item() if value.ndim == 0 else value.numpy()

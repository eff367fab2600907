"""Calls of functions that walk along whole lines of arrays (templates/gt_lines.h), as C.

In comes a LineCall with its signature; out comes the inside of its function: loops over the places of its space
around one call. Law: each line is passed as its first element and its step, the lengths follow, then the memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from .body import Body, loop
from .ctext import call, extent
from .program import Buffer, LineCall
from .signature import Signature
from .target import Target


def write(step: LineCall, signature: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    """The inside of the function of a call."""
    body = Body(step, signature, table, target)
    body.libraries.add("gt_lines")
    for length in step.space:
        body.counters.append("0" if length == 1 else body.names.counter())
        if length != 1:
            body.code.open(loop(body.counters[-1], extent(length)))
    args: list[str] = []
    for line in step.lines:
        args += [body.address(line.access), extent(line.step)]
    args += [extent(length) for length in step.lengths]
    args += [body.pointers[name] for name in step.memory]
    for text in call(step.function, args, ";"):
        body.code.add(text)
    for length in step.space:
        if length != 1:
            body.code.close()
    return body

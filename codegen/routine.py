"""Kernels that call a routine of a template header: matrices in, factors out.

In comes a Routine and its signature; out goes the inside of its function: one call and, if the routine can fail,
the way out. Law: a routine is told its sizes and its arrays only, so equal calls are one function.
"""

from __future__ import annotations

from collections.abc import Mapping

from .body import Body
from .ctext import call, extent
from .program import Buffer, Routine
from .signature import Signature
from .target import Target


def write(step: Routine, signature: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    """The inside of the function of a routine."""
    body = Body(step, signature, table, target)
    body.libraries.add(step.library)
    arrays = [*step.reads, *step.writes, *([step.scratch] if step.scratch else [])]
    args = [*map(extent, step.sizes), *(body.pointers[name] for name in arrays)]
    function = f"{step.function}_{step.dtype}"
    if not signature.fails:
        for line in call(f"(void){function}", args, ";"):
            body.code.add(line)
        return body
    for line in call(f"const int64_t bad = {function}", args, ";"):
        body.code.add(line)
    body.code.add(f"return bad < 0 ? GT_OK : gt_bad_matrix(args, {step.node}, bad);")
    return body

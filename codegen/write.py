"""Program -> C text: checked, its products assigned, its memory planned, written.

What a cache hit does without. Comes in: a Program, the target, and whether there is a BLAS. Goes out: a
Plan, and by `emit` the Source of one.
"""

from __future__ import annotations

from . import gemm
from .check import check
from .emit import emit
from .memory import Plan, plan
from .prepack import prepack
from .program import Program
from .target import Target

__all__ = ["emit", "place"]


def place(program: Program, target: Target, blas: bool) -> Plan:
    """The checked program with a place for each buffer; raises ProgramError."""
    check(program)
    return plan(gemm.prepare(prepack(program, target), target, blas))

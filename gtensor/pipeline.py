"""What turns a traced graph into a program, and stages into text: all that a cache hit does without."""

from __future__ import annotations

from .codegen.memory import Plan, show_plan
from .codegen.show import show
from .fuse import fuse
from .ir import Graph
from .lower import lower
from .ops.remat import spared
from .passes import simplify
from .passes.dce import dce
from .passes.loops import loops
from .report import kernels
from .show import diff

__all__ = ["diff", "fuse", "kernels", "lower", "show", "show_memory", "simplify"]


def show_memory(plan: Plan, traced: Graph) -> str:
    """Where everything lies, and what the checkpoints of the function do not keep."""
    return show_plan(plan) + "".join(f"computed again, not kept: {line}\n" for line in spared(dce(loops(traced))))

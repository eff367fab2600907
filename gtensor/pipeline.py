"""What turns a traced graph into a program, and stages into text: all that a cache hit does without."""

from __future__ import annotations

from .codegen.memory import show_plan
from .codegen.show import show
from .fuse import fuse
from .lower import lower
from .passes import simplify
from .report import kernels
from .show import diff

__all__ = ["diff", "fuse", "kernels", "lower", "show", "show_plan", "simplify"]

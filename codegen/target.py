"""What the C is written for: vector width, registers, and whether fused multiply-add is packed.

Comes from `toolchain` (which asks the compiler) or is named by the user; goes to `emit` and `gemm`,
which choose tile shapes by it. The generated C depends on nothing else of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`width` is bytes of one vector register (4: scalar code), `registers` how many there are.

    `flags` are the compiler's machine flags (such as `-march=native`), `fma` whether fused
    multiply-add is one instruction. `variant` is `native` or `portable` (C99, no BLAS, width 4).
    """

    name: str
    width: int
    registers: int
    fma: bool
    flags: tuple[str, ...] = ()
    variant: str = "native"

    def lanes(self, bytes_per_element: int) -> int:
        """Elements of that size in one vector."""
        return max(1, self.width // bytes_per_element)


PORTABLE = Target("portable", width=4, registers=16, fma=False, variant="portable")
"""Plain C99: no vector types, no BLAS."""

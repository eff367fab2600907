"""How the inputs and outputs of a compiled function share memory.

A `Wiring` is made where a function is traced (donated arguments, a state that stays) and read where it is lowered,
called and saved. Law: it depends on the function's types only, and is part of the cache key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wiring:
    """How a graph's inputs and outputs share memory.

    `state` maps inputs to leaves of a state block, `alias` maps outputs to the inputs whose memory they take over,
    `loss` is the output that is also reported as a number.
    """

    state: Mapping[int, int] = field(default_factory=dict)
    alias: Mapping[int, int] = field(default_factory=dict)
    loss: int | None = None

    def as_text(self) -> str:
        """For the cache key: a line each.

        >>> print(Wiring(alias={1: 0}, loss=0).as_text())
        state
        alias 1:0
        loss 0
        """
        pairs = (("state", self.state), ("alias", self.alias))
        lines = [" ".join([name, *(f"{k}:{v}" for k, v in sorted(found.items()))]) for name, found in pairs]
        return "\n".join([*lines, f"loss {'' if self.loss is None else self.loss}".rstrip()])

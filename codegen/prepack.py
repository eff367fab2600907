"""Products in loops whose second operand lies turned: it is turned once, before the loop.

Comes in: a program before `gemm.prepare`, and the target. Goes out: the same with a copy, in work memory, of each
weight that the products of a loop would otherwise turn in every trip. Law: the products read the same numbers in the
same order, so no bit changes; only inputs and state are copied, which no loop writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .blocking import layout
from .nest import gemm_axes
from .program import (
    Access,
    Buffer,
    Extent,
    Gemm,
    Kernel,
    Load,
    Phase,
    Program,
    Repeat,
    RowKernel,
    Step,
    Store,
    Term,
    kernels,
    with_kernels,
)
from .target import Target

FEWEST_TRIPS = 8
"""Trips from which a copy pays: it goes element by element, a product's own copy by vectors."""


def prepack(program: Program, target: Target) -> Program:
    """The program in which loops read turned copies of weights."""
    table = program.table
    added: list[Buffer] = []

    def work(hint: str, dtype: str, shape: tuple[Extent, ...]) -> str:
        name = hint
        while name in table:
            name += "_"
        table[name] = Buffer(name, dtype, shape, "work")
        added.append(table[name])
        return name

    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Repeat) and (not isinstance(step.count, int) or step.count >= FEWEST_TRIPS):
            steps += _Loop(step, table, target, work).steps()
        else:
            steps.append(step)
    return replace(program, steps=tuple(steps), buffers=(*program.buffers, *added)) if added else program


class _Loop:
    """One outermost loop, and the copies made for it."""

    def __init__(
        self,
        loop: Repeat,
        table: dict[str, Buffer],
        target: Target,
        work: Callable[[str, str, tuple[Extent, ...]], str],
    ) -> None:
        self.loop = loop
        self._table = table
        self._target = target
        self._work = work
        self._copies: dict[tuple[Access, Extent, Extent], RowKernel] = {}

    def steps(self) -> list[Step]:
        """The copies, then the loop that reads them."""
        changed = [self._read_turned(kernel) for kernel in kernels([self.loop])]
        return [*self._copies.values(), *with_kernels([self.loop], changed)] if self._copies else [self.loop]

    def _read_turned(self, kernel: Kernel) -> Kernel:
        if not isinstance(kernel, Gemm):
            return kernel
        gemm = gemm_axes(kernel)
        cut = layout(gemm, self._target)
        if cut.across or "turned" not in cut.b:
            return kernel
        kinds = zip(gemm.terms, cut.b, strict=True)
        terms = [self._term(term, gemm) if kind == "turned" else term for term, kind in kinds]
        return replace(gemm, terms=tuple(terms))

    def _term(self, term: Term, gemm: Gemm) -> Term:
        """The term with a copy for its second operand, if that is the same in every trip and element of the batch."""
        access, k, n = term.b, term.k, gemm.n
        fixed = not access.index and not any(access.strides[:-2]) and isinstance(k, int) and isinstance(n, int)
        buffer = self._table[access.buffer]
        if not fixed or buffer.role not in ("input", "state") or buffer.dtype != gemm.dtype:
            return term
        plain = replace(access, strides=access.strides[-2:])
        if (plain, k, n) not in self._copies:
            name = self._work(f"{access.buffer}_turned", gemm.dtype, (k, n))
            body = (Load("h", gemm.dtype, plain), Store(Access(name, (n, 1)), "h"))
            label = f"{self.loop.name}_{name}"
            self._copies[plain, k, n] = RowKernel(label, (k, n), (Phase((), body),), comment=gemm.comment)
        (store,) = (s for s in self._copies[plain, k, n].phases[0].body if isinstance(s, Store))
        return replace(term, b=replace(store.access, strides=(*[0] * len(gemm.batch), n, 1)))

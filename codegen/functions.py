"""Kernels -> C functions: one for each that is different, and the calls of them.

In comes a planned Program; out go the functions with their C, and a call per kernel for the entry (emit.py).
Law: kernels with equal signatures' keys are one function; single loops of different lengths share one too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import gemm, lines, nest, routine, rows
from .body import Body
from .ctext import Names, block_comment, call, extent, wrapped
from .describe import shapes
from .memory import Place, Plan
from .program import Buffer, Dim, Extent, Gemm, Kernel, LineCall, Reduce, Routine, RowKernel, kernels
from .signature import Signature, signature
from .target import Target

COUNT = -1
"""The index of the dimension that stands for the length of a kernel that serves several lengths."""

COMMENTED_USES = 6
"""Further uses of a kernel that its comment lists."""


@dataclass
class Function:
    """A kernel function, and the steps that it serves beside its first."""

    name: str
    step: Kernel
    signature: Signature
    body: Body
    shapes: list[str]
    also: list[Kernel] = field(default_factory=list)

    @property
    def result(self) -> str:
        return "int32_t" if self.signature.fails else "void"

    @property
    def text(self) -> str:
        """The inside."""
        return self.body.code.text()

    @property
    def head(self) -> list[str]:
        """`GT_KERNEL void name(parameters)`, in lines."""
        sig = self.signature
        params = [param.declare(name) for param, name in zip(sig.params, self.body.params, strict=True)]
        params += [f"int64_t {dim.name}" for dim in sig.dims]
        params += ["gt_args *args"] * sig.fails + ["const gt_blas *blas"] * sig.blas
        return call(f"GT_KERNEL {self.result} {self.name}", params, "")

    @property
    def comment(self) -> list[str]:
        """What the kernel computes, over which loops and arrays, and what else it serves."""
        also: list[str] = []
        said: tuple[str, ...] = self.step.comment
        for step in self.also[:COMMENTED_USES]:
            if step.comment != said or not also:
                also.append(f"also {step.name}")
                also[-1] += f": {' '.join(step.comment)}" if step.comment not in ((), said) else ""
            else:
                also[-1] += f", {step.name}"
            said = step.comment
        if len(self.also) > COMMENTED_USES:
            also.append(f"and {len(self.also) - COMMENTED_USES} more")
        return block_comment([*wrapped(self.step.comment), *self.shapes, *wrapped(also)])


@dataclass(frozen=True)
class Call:
    """One step of the entry."""

    function: Function
    signature: Signature
    length: Extent

    @property
    def dims(self) -> Iterator[Dim]:
        """The run-time dimensions that its arguments name."""
        own = (*self.signature.dims, *([self.length] if isinstance(self.length, Dim) else []))
        return (Dim(dim.index, dim.name, dim.bound) for dim in own if dim.index != COUNT)

    def args(self, pointers: Mapping[str, str]) -> list[str]:
        """The arguments, for buffers that are called so."""
        sig = self.signature
        args = [pointers[param.buffers[0]] for param in sig.params]
        args += [extent(self.length) if dim.index == COUNT else dim.name for dim in sig.dims]
        return args + ["args"] * sig.fails + ["args->blas"] * sig.blas


def kernel_functions(plan: Plan, target: Target, names: Names, count: Dim) -> tuple[list[Function], dict[str, Call]]:
    """A function per kernel, equal ones once, and the calls by kernel. A kernel that touches nothing is left out."""
    table = plan.program.table
    found: dict[Hashable, Function] = {}
    calls: dict[str, Call] = {}
    originals = list(kernels(plan.program.steps))
    simplified = [_simplified(step, table, plan.places) for step in originals]
    for original, (step, length) in zip(originals, _of_any_length(simplified, plan, count), strict=True):
        own = signature(step, table, plan.places)
        if not own.params:
            continue
        function = found.get(own.key)
        if function is None:
            told = shapes(original, step, own, table)
            function = Function(names.new(step.name), step, own, _write(step, own, table, target), told)
            found[own.key] = function
        else:
            function.also.append(step)
        calls[original.name] = Call(function, own, length)
    return list(found.values()), calls


def _of_any_length(steps: Sequence[Kernel], plan: Plan, count: Dim) -> list[tuple[Kernel, Extent]]:
    """The steps with their lengths; single loops that differ in nothing but length take it as a parameter, `count`.

    An optimizer's update of parameters of many shapes is then one function.
    """
    table = plan.program.table
    found: dict[Hashable, list[int]] = {}
    out: list[tuple[Kernel, Extent]] = [(step, 0) for step in steps]
    for number, step in enumerate(steps):
        if isinstance(step, RowKernel) and _is_plain_loop(step):
            general = replace(step, space=(count,))
            found.setdefault(signature(general, table, plan.places).key, []).append(number)
            out[number] = (general, step.space[0])
    for numbers in found.values():
        if len({out[number][1] for number in numbers}) == 1:
            for number in numbers:
                out[number] = (steps[number], 0)
    return out


def _is_plain_loop(kernel: RowKernel) -> bool:
    """One loop of more than one element around one body, without sums."""
    if len(kernel.space) != 1 or kernel.space[0] == 1 or len(kernel.phases) != 1 or kernel.accumulators:
        return False
    (phase,) = kernel.phases
    return not phase.head and not any(isinstance(stmt, Reduce) for stmt in phase.body)


def _simplified(step: Kernel, table: Mapping[str, Buffer], places: Mapping[str, Place]) -> Kernel:
    if isinstance(step, Routine):
        return step
    if isinstance(step, Gemm):
        return nest.gemm_statements(step, places.__getitem__)
    if isinstance(step, LineCall):
        return step
    return nest.row_kernel(step, table, places.__getitem__)


def _write(step: Kernel, own: Signature, table: Mapping[str, Buffer], target: Target) -> Body:
    if isinstance(step, Routine):
        return routine.write(step, own, table, target)
    if isinstance(step, Gemm):
        return gemm.write(step, own, table, target)
    if isinstance(step, LineCall):
        return lines.write(step, own, table, target)
    return rows.write(step, own, table, target)

"""Program -> text: buffers in a table, each step as a loop nest with one line per statement.

Comes in: any Program, lawful or not. Goes out: text for people, golden files and messages; it is not
read back. Law: the same program gives the same text, and programs that compute differently give different texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .program import (
    Access,
    Accumulate,
    Accumulator,
    Array,
    Assign,
    Check,
    Counter,
    Extent,
    Gemm,
    Guard,
    Line,
    LineCall,
    Load,
    Phase,
    Program,
    Reduce,
    Repeat,
    Routine,
    RowKernel,
    Step,
    Stmt,
    Store,
    Term,
)


def show(program: Program) -> str:
    """The whole program as text, ending in a newline.

    >>> from gtensor.codegen.cexpr import Expr
    >>> from gtensor.codegen.program import Buffer
    >>> x, y = Buffer("x", "f32", (4, 8), "input", 0), Buffer("y", "f32", (4, 8), "output", 0)
    >>> double = Assign("b", "f32", Expr("{0} + {0}", ("a",), "f32", "f32"), note="y = x + x")
    >>> body = (Load("a", "f32", Access("x", (8, 1))), double, Store(Access("y", (8, 1)), "b"))
    >>> k0 = RowKernel("k0", (4, 8), (Phase(body=body),))
    >>> arrays = (Array("x", "f32", (4, 8)),), (Array("y", "f32", (4, 8)),)
    >>> print(show(Program("twice", (x, y), (k0,), *arrays)), end="")
    program twice
      input 0: x f32[4, 8]
      output 0: y f32[4, 8]
    <BLANKLINE>
    buffers
      x  f32[4, 8]  input 0
      y  f32[4, 8]  output 0
    <BLANKLINE>
    k0: rows over (4, 8)
      for i0 < 4:
        for i1 < 8:
          f32 a = x[8*i0 + i1]
          f32 b = a + a  # y = x + x
          y[8*i0 + i1] = b
    """
    parts = [_head(program), _buffers(program)] + [show_step(step) for step in program.steps]
    return "\n\n".join(parts) + "\n"


def show_step(step: Step) -> str:
    """One step as a loop nest."""
    lines = _STEPS[type(step)](step)
    return "\n".join([lines[0], *(f"  # {line}" for line in step.comment), *lines[1:]])


def show_statement(stmt: Stmt | Term | Line, counters: Sequence[str] | None = None) -> str:
    """One statement as a line; the counters of the loops are i0, i1 … unless named.

    >>> show_statement(Load("a", "f32", Access("x", (8, -1), 7, (("j", 16),))))
    'f32 a = x[8*i0 - i1 + 7 + 16*j]'
    """
    text = _STATEMENTS[type(stmt)](stmt, counters)
    note = getattr(stmt, "note", "")
    return f"{text}  # {note}" if note else text


def show_extent(extent: Extent) -> str:
    """An extent as text: `8`, `B` or `3*B`."""
    if isinstance(extent, int):
        return str(extent)
    return extent.name if extent.factor == 1 else f"{extent.factor}*{extent.name}"


def show_shape(shape: Sequence[Extent]) -> str:
    """A shape as text: `[B, 8]`."""
    return "[" + ", ".join(map(show_extent, shape)) + "]"


def show_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _head(program: Program) -> str:
    lines = [f"program {program.name}", *(f"  # {line}" for line in program.header)]
    lines += [f"  dim {dim.index}: {dim.name} <= {dim.bound}" for dim in program.dims]
    told = (("input", program.inputs), ("output", program.outputs), ("state", program.state))
    lines += [f"  {word} {slot}: {_array(array)}" for word, arrays in told for slot, array in enumerate(arrays)]
    if program.loss is not None:
        lines.append(f"  loss: {program.loss}")
    return "\n".join(lines + [f"  eqn {number}: {line}" for number, line in enumerate(program.equations)])


def _array(array: Array) -> str:
    return f"{array.name} {array.dtype}{show_shape(array.shape)}"


def _buffers(program: Program) -> str:
    rows = [
        (
            b.name,
            b.dtype + show_shape(b.shape),
            b.role + (f" {b.slot}" if b.slot >= 0 else ""),
            (f"of {b.alias}" if b.role == "slice" else f"over {b.alias}") if b.alias else "",
        )
        for b in program.buffers
    ]
    return "\n".join(["buffers", *(f"  {line}" for line in show_table(rows))]) if rows else "buffers: none"


def _rows(kernel: RowKernel) -> list[str]:
    lines = [f"{kernel.name}: rows over ({', '.join(map(show_extent, kernel.space))})"]
    lines += [f"  {_accumulator(a)}" for a in kernel.accumulators]
    pad = "  "
    for axis, extent in enumerate(kernel.space[:-1]):
        lines.append(f"{pad}for i{axis} < {show_extent(extent)}:")
        pad += "  "
    for number, phase in enumerate(kernel.phases):
        if len(kernel.phases) > 1:
            lines.append(f"{pad}phase {number}:")
        lines += [f"{pad}{line}" for line in _phase(kernel, phase, "  " if len(kernel.phases) > 1 else "")]
    return lines


def _phase(kernel: RowKernel, phase: Phase, pad: str) -> list[str]:
    lines = [pad + show_statement(stmt) for stmt in phase.head]
    if phase.body:
        lines.append(f"{pad}for i{len(kernel.space) - 1} < {show_extent(kernel.space[-1])}:")
        lines += [f"{pad}  {show_statement(stmt)}" for stmt in phase.body]
    return lines


def _repeat(loop: Repeat) -> list[str]:
    order = ", the last first" if loop.reverse else ""
    lines = [f"{loop.name}: {show_extent(loop.count)} trips{order}"]
    lines += [f"  slices {', '.join(loop.slices)}"] if loop.slices else []
    lines += [f"  carry {read} = {written}" for read, written in loop.carries]
    return lines + [f"  {line}" if line else "" for step in loop.steps for line in ["", *show_step(step).split("\n")]]


def _guard(guard: Guard) -> list[str]:
    return [f"{guard.name}: leave the loop unless {guard.flag}"]


def _routine(step: Routine) -> list[str]:
    sizes = ", ".join(map(show_extent, step.sizes))
    fails = f", else eqn {step.node} fails" if step.node >= 0 else ""
    lines = [f"{step.name}: {step.function} of {step.dtype} over ({sizes}){fails}"]
    lines += [f"  scratch {step.scratch}"] if step.scratch else []
    return [*lines, f"  {', '.join(step.writes)} = {step.library}({', '.join(step.reads)})"]


def _gemm(gemm: Gemm) -> list[str]:
    outer = [f"b{axis}" for axis in range(len(gemm.batch))]
    space = (*gemm.batch, gemm.m, gemm.n)
    lines = [f"{gemm.name}: product over ({', '.join(map(show_extent, space))}) by {gemm.route}"]
    lines += [f"  {_accumulator(a)}" for a in gemm.accumulators]
    lines += [f"  scratch {name}" for name in gemm.memory]
    loops = ", ".join(f"{c} < {show_extent(n)}" for c, n in zip((*outer, "m", "n"), space, strict=True))
    lines.append(f"  for {loops}:")
    for number, term in enumerate(gemm.terms):
        start = f"{gemm.dtype} {gemm.acc} =" if number == 0 else f"{gemm.acc} +="
        a, b = _affine(term.a, (*outer, "m", "k")), _affine(term.b, (*outer, "k", "n"))
        lines.append(f"    {start} sum(k < {show_extent(term.k)}) {a} * {b}")
    return lines + [f"    {show_statement(stmt, (*outer, 'm', 'n'))}" for stmt in gemm.epilogue]


def _calls(step: LineCall) -> list[str]:
    space, lengths = (", ".join(map(show_extent, extents)) for extents in (step.space, step.lengths))
    lines = [f"{step.name}: {step.function} of lengths ({lengths}) over ({space})"]
    return lines + [f"  scratch {name}" for name in step.memory] + [f"  {show_statement(line)}" for line in step.lines]


def _line(line: Line, counters: Sequence[str] | None) -> str:
    verb = "writes" if line.written else "reads"
    elements = f"{_affine(line.access, counters)}, {show_extent(line.length)} elements {show_extent(line.step)} apart"
    return f"{verb} {elements}"


def _accumulator(a: Accumulator) -> str:
    return f"accumulate {a.op} in {a.buffer}, start {a.start}" + (f", through {a.scratch}" if a.scratch else "")


def _affine(access: Access, counters: Sequence[str] | None) -> str:
    names = counters or [f"i{axis}" for axis in range(len(access.strides))]
    # The check shows accesses with a wrong number of strides too.
    terms = [_product(stride, name) for stride, name in zip(access.strides, names, strict=False)]
    terms += [_product(access.offset, "")] + [_product(stride, var) for var, stride in access.index]
    text = " + ".join(term for term in terms if term) or "0"
    return f"{access.buffer}[{text.replace('+ -', '- ')}]"


def _product(extent: Extent, name: str) -> str:
    if extent == 0:
        return ""
    text = show_extent(extent)
    if not name:
        return text
    return {"1": name, "-1": f"-{name}"}.get(text, f"{text}*{name}")


def _load(stmt: Load, counters: Sequence[str] | None) -> str:
    return f"{stmt.dtype} {stmt.var} = {_affine(stmt.access, counters)}"


def _assign(stmt: Assign, counters: Sequence[str] | None) -> str:
    expr = stmt.expr
    try:
        return f"{stmt.dtype} {stmt.var} = {expr.text()}"
    except (IndexError, KeyError, ValueError):
        return f"{stmt.dtype} {stmt.var} = {expr.template!r} of ({', '.join(expr.args)})"


def _counter(stmt: Counter, counters: Sequence[str] | None) -> str:
    named = counters and 0 <= stmt.axis < len(counters)
    return f"i64 {stmt.var} = {counters[stmt.axis] if counters and named else f'i{stmt.axis}'}"


def _store(stmt: Store, counters: Sequence[str] | None) -> str:
    return f"{_affine(stmt.access, counters)} = {stmt.value}"


def _reduce(stmt: Reduce, counters: Sequence[str] | None) -> str:
    return f"{stmt.dtype} {stmt.var} = {stmt.op}({stmt.value})"


def _accumulate(stmt: Accumulate, counters: Sequence[str] | None) -> str:
    return f"{_affine(stmt.access, counters)} = {stmt.op}(itself, {stmt.value})"


def _check(stmt: Check, counters: Sequence[str] | None) -> str:
    return f"check {stmt.low} <= {stmt.var} < {show_extent(stmt.high)}, else eqn {stmt.node} fails"


def _term(stmt: Term, counters: Sequence[str] | None) -> str:
    return f"sum(k < {show_extent(stmt.k)}) {_affine(stmt.a, None)} * {_affine(stmt.b, None)}"


_STATEMENTS: Mapping[type, Callable[..., str]] = {
    Load: _load,
    Assign: _assign,
    Counter: _counter,
    Store: _store,
    Reduce: _reduce,
    Accumulate: _accumulate,
    Check: _check,
    Term: _term,
    Line: _line,
}

_STEPS: Mapping[type, Callable[..., list[str]]] = {
    RowKernel: _rows,
    Gemm: _gemm,
    LineCall: _calls,
    Routine: _routine,
    Repeat: _repeat,
    Guard: _guard,
}

"""The text of a program: one with everything in it, word for word."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.check import check
from gtensor.codegen.program import Access, Accumulator, Assign, Check, Counter, Gemm, Reduce, Term
from gtensor.codegen.show import show, show_step
from tests.codegen.by_hand import B, add, inp, kernel, load, make, out, phases, row, state, store, sums, work
from tests.codegen.random_programs import programs

ROWS = replace(
    phases(
        "softmax",
        (B, 4),
        ((), (load("a", "x", 4, 1), Reduce("m", "f32", "max", "a", "m = max(x)"), store("r", "a", 0, 1))),
        (
            (Counter("i", 0), load("j", "labels", 1, 0, dtype="i64"), Check("j", 0, 4, 1, "in range")),
            (load("b", "r", 0, -1, at=3), add("c", "b", "m"), store("h", "c", 4, 1)),
        ),
        ((load("e", "h", 4, 0, index=(("j", 1),)),), ()),
    ),
    comment=("h = softmax(x)  model.py:3",),
)
LOSS = kernel(
    "total",
    (B, 4),
    load("a", "h", 4, 1),
    sums("loss", "a", 0, 0),
    accumulators=[Accumulator("loss", "sum", scratch="wide")],
)
PRODUCT = Gemm(
    "product",
    "f32",
    (2,),
    4,
    4,
    (Term(Access("w", (0, 4, 1)), Access("w", (0, 1, 4)), 4), Term(Access("x", (0, 1, 4)), Access("h", (0, 4, 1)), B)),
    "acc",
    (
        load("w0", "w", 0, 4, 1),
        Assign("w1", "f32", Expr("({0} - {1})", ("w0", "acc"), "f32", "f32")),
        store("w_new", "w1", 0, 4, 1),
    ),
    comment=("w_new = w - g",),
    scratch="aside",
    route="blas",
)
PROGRAM = replace(
    make(
        [
            inp("x", (B, 4)),
            inp("labels", (B,), 1, "i64"),
            state("w", (4, 4)),
            work("h", (B, 4)),
            row("r", (4,)),
            work("wide", (), "f64"),
            work("aside", (4, 4)),
            out("loss", ()),
            out("w_new", (4, 4), -1, alias="w"),
        ],
        [ROWS, LOSS, PRODUCT],
        equations=("h = softmax(x)", "check labels"),
        loss="loss",
    ),
    name="step",
    header=("made by hand",),
)

TEXT = """\
program step
  # made by hand
  dim 0: B <= 6
  input 0: x f32[B, 4]
  input 1: labels i64[B]
  output 0: loss f32[]
  state 0: w f32[4, 4]
  loss: loss
  eqn 0: h = softmax(x)
  eqn 1: check labels

buffers
  x       f32[B, 4]  input 0
  labels  i64[B]     input 1
  w       f32[4, 4]  state 0
  h       f32[B, 4]  work
  r       f32[4]     row
  wide    f64[]      work
  aside   f32[4, 4]  work
  loss    f32[]      output 0
  w_new   f32[4, 4]  output    over w

softmax: rows over (B, 4)
  # h = softmax(x)  model.py:3
  for i0 < B:
    phase 0:
      for i1 < 4:
        f32 a = x[4*i0 + i1]
        f32 m = max(a)  # m = max(x)
        r[i1] = a
    phase 1:
      i64 i = i0
      i64 j = labels[i0]
      check 0 <= j < 4, else eqn 1 fails  # in range
      for i1 < 4:
        f32 b = r[-i1 + 3]
        f32 c = gt_add_f32(b, m)
        h[4*i0 + i1] = c
    phase 2:
      f32 e = h[4*i0 + j]

total: rows over (B, 4)
  accumulate sum in loss, start identity, through wide
  for i0 < B:
    for i1 < 4:
      f32 a = h[4*i0 + i1]
      loss[0] = sum(itself, a)

product: product over (2, 4, 4) by blas
  # w_new = w - g
  scratch aside
  for b0 < 2, m < 4, n < 4:
    f32 acc = sum(k < 4) w[4*m + k] * w[k + 4*n]
    acc += sum(k < B) x[m + 4*k] * h[4*k + n]
    f32 w0 = w[4*m + n]
    f32 w1 = (w0 - acc)
    w_new[4*m + n] = w1
"""


def test_the_program_shown_is_lawful():
    check(PROGRAM)


def test_text_of_a_program():
    assert show(PROGRAM) == TEXT


def test_text_of_an_empty_program():
    assert show(make([], [], dims=(), equations=())) == "program hand\n\nbuffers: none\n"


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_every_step_has_a_text_of_its_own(program):
    text = show(program)
    assert text == show(program)
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert all(show_step(step) in text for step in program.steps)
    assert all(buffer.name in text for buffer in program.buffers)

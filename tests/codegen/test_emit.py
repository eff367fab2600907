"""Row kernels in C: programs written by hand, compiled without a warning, run, and compared with NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gtensor.codegen.cexpr import Expr
from gtensor.codegen.program import Access, Accumulate, Accumulator, Assign, Check, Counter, Dim, Load, Reduce, Store
from tests.codegen.by_hand import add, inp, kernel, load, make, out, phases, row, state, store, sums, work
from tests.codegen.c_model import COMPILERS, NATIVE, NUMPY, SANITIZE, TARGETS, at, run, source
from tests.codegen.random_programs import BATCH, programs
from tests.codegen.run_program import Failed, run_apart, sample

B = Dim(0, "B", 9)
BUILDS = {"gcc": ("gcc", ("-O2",)), "clang": ("clang", ("-O2",)), "sanitize": (COMPILERS[0], SANITIZE)}
RANDOM = np.random.default_rng(0)


def calc(var, template, *args, dtype="f32", result=None):
    return Assign(var, result or dtype, Expr(template, args, dtype, result or dtype))


def values(*shape, dtype="f32"):
    drawn = RANDOM.standard_normal(shape) * 3
    return (drawn > 0 if dtype == "b1" else np.abs(drawn) * 9 if dtype == "u8" else drawn).astype(NUMPY[dtype])


def text(program, **more):
    return source(program, **more).c_source


def function(program, name):
    """The text of one kernel."""
    return re.search(rf"^GT_KERNEL \w+ {name}\(.*?^}}", text(program), re.M | re.S)[0]


# ---- loops and accesses ---------------------------------------------------------------------------------------


def test_broadcast_transposed_reversed_and_repeated_reads():
    x, y = values(5, 7), values(7)
    steps = [
        kernel(
            "k",
            (5, 7),
            load("a", "x", 7, 1),
            load("b", "y", 0, -1, at=6),
            load("c", "x", 7, 1),
            calc("s", "({0} * {1} - {2})", "a", "b", "c"),
            store("z", "s", 1, 5),
        )
    ]
    program = make([inp("x", (5, 7)), inp("y", (7,), 1), out("z", (7, 5))], steps, dims=())
    np.testing.assert_array_equal(run(program, {"x": x, "y": y}).outputs["z"], (x * y[::-1] - x).T)
    assert function(program, "k").count("x[7 * i + j]") == 1


def test_three_axes_with_the_middle_one_transposed():
    x = values(3, 4, 5)
    steps = [kernel("k", (3, 4, 5), load("a", "x", 20, 5, 1), store("y", "a", 5, 15, 1))]
    program = make([inp("x", (3, 4, 5)), out("y", (4, 3, 5))], steps, dims=())
    np.testing.assert_array_equal(run(program, {"x": x}).outputs["y"], x.transpose(1, 0, 2))


@pytest.mark.parametrize(
    "space, strides, loops",
    [
        ((3, 4, 5), (20, 5, 1), ["60"]),
        ((3, 4, 5), (40, 10, 1), ["12", "5"]),
        ((3, 1, 5), (5, 7, 1), ["15"]),
        ((1, 1, 1), (1, 1, 1), []),
        ((B, 4, 5), (20, 5, 1), ["20 * B"]),
        ((4, B, 5), (Dim(0, "B", 9, 5), 5, 1), ["20 * B"]),
        ((4, B), (B, 1), ["4 * B"]),
    ],
)
def test_axes_that_walk_on_evenly_become_one_loop(space, strides, loops):
    size = 20 * 9 * 2
    steps = [kernel("k", space, load("a", "x", *strides), add("b", "a", "a"), store("y", "b", *strides))]
    program = make([inp("x", (size,)), out("y", (size,))], steps, dims=(B,))
    # The laws of a program ask for whole outputs; only the text is looked at here.
    from gtensor.codegen.emit import emit
    from gtensor.codegen.memory import plan

    assert re.findall(r"i?[a-z]\d? < ([^;]*);", emit(plan(program), NATIVE).c_source.split("GT_KERNEL void")[1])[: len(loops)] == loops

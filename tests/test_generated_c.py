"""The generated C of the workloads: its text (golden files), its warnings, its memory, its length.

The golden C is written for one fixed target, so that it does not depend on the machine; what is compiled
here is written for this machine, for plain vectors of 16 bytes, and for no vectors at all.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gtensor_models
from gtensor import ir
from gtensor.codegen import build, sanitizers, show
from gtensor.codegen.abi import TEMPLATES
from gtensor.codegen.emit import Source, emit
from gtensor.codegen.options import Options
from gtensor.codegen.target import PORTABLE, Target
from gtensor.codegen.write import place
from gtensor.config import get
from gtensor.fuse import fuse
from gtensor.lower import lower
from gtensor.passes import simplify
from tests import sanitized

from .lowered import traced

AVX2 = Target("avx2", width=32, registers=16, fma=True)
SSE = Target("sse2", width=16, registers=16, fma=False)
WORKLOADS = ("W1", "W2", "W8", "W9")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


@cache
def stages(name: str):
    """The trace, the simplified graph, the schedule and the program of a workload's step."""
    step, args = gtensor_models.step_of(name)
    trace, leaves = traced(step, *args)
    graph = simplify(trace.graph)
    schedule = fuse(graph)
    count = len(leaves) - 2
    alias = {i: i for i in range(count)}
    return trace.graph, graph, schedule, lower(schedule, state=alias, alias=alias, loss=count)


def source(name: str, target: Target) -> Source:
    """The C of a workload for a target."""
    program = stages(name)[-1]
    return emit(place(program, target, False), target)


@pytest.mark.parametrize("name", WORKLOADS)
def test_golden(name, golden):
    graph, simplified, schedule, program = stages(name)
    golden(f"{name}/1_graph.txt", ir.text(graph) + "\n")
    golden(f"{name}/2_simplified.txt", ir.text(simplified) + "\n")
    golden(f"{name}/3_schedule.txt", schedule.as_text() + "\n")
    golden(f"{name}/4_program.txt", show.show(program) + "\n")
    golden(f"{name}/5_step.c", source(name, AVX2).c_source)


def written(made: Source, folder: Path) -> list[Path]:
    """The units as files, beside the headers."""
    for header in TEMPLATES.glob("*.h"):
        shutil.copy(header, folder)
    paths = [folder / unit.filename for unit in made.units]
    for path, unit in zip(paths, made.units, strict=True):
        path.write_text(unit.text)
    return [path for path in paths if path.suffix == ".c"]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("standard", [("c99", "-O1"), ("gnu99", "-O3")], ids=lambda pair: pair[0])
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("target", [PORTABLE, SSE], ids=lambda t: t.name)
def test_no_warnings(name, target, standard, compiler, tmp_path):
    flags = [f"-std={standard[0]}", standard[1], "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fno-math-errno"]
    for path in written(source(name, target), tmp_path):
        command = [compiler, *flags, "-c", path.name, "-o", "unit.o"]
        environment = sanitized.outside()
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr


def test_the_c_of_w1_is_short():
    assert sum(unit.text.count("\n") for unit in source("W1", AVX2).units) < 400


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_step_allocates_nothing_and_keeps_its_stack_small(name):
    text = "".join(unit.text for unit in source(name, AVX2).units)
    assert "malloc" not in text and "alloca" not in text


DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gt_abi.h"
int main(int argc, char **argv)
{
    const gt_model *model = gt_model_get();
    unsigned char *state = aligned_alloc(64, (size_t)model->state_bytes + 64);
    unsigned char *work = aligned_alloc(64, (size_t)model->work_bytes + 64);
    const void *in[16];
    void *out[16];
    FILE *file = fopen(argv[argc - 1], "rb");
    model->init(state);
    for (int64_t i = 0; i < model->n_state; ++i) {
        const size_t bytes = (size_t)model->state[i].bytes;
        if (fread(state + model->state[i].offset, 1, bytes, file) != bytes)
            return 3;
    }
    for (int64_t i = 0; i < model->n_inputs; ++i) {
        const size_t bytes = (size_t)model->inputs[i].bytes;
        void *data = malloc(bytes + 1);
        if (fread(data, 1, bytes, file) != bytes)
            return 3;
        in[i] = data;
    }
    for (int64_t i = 0; i < model->n_outputs; ++i)
        out[i] = malloc((size_t)model->outputs[i].bytes + 1);
    gt_args args = {.size = sizeof(gt_args), .in = in, .out = out, .state = state, .work = work};
    for (int step = 0; step < 3; ++step) {
        if (model->call(&args))
            return 4;
        printf("%.9g\\n", args.loss);
    }
    return 0;
}
"""


@pytest.mark.parametrize("name", ["W1", "W2", "W9"])
def test_sanitizers_find_nothing(name, tmp_path):
    """Address and undefined-behaviour checks over three steps with exactly the memory that is declared."""
    step, args = gtensor_models.step_of(name)
    _, leaves = traced(step, *args)
    made = source(name, build.target(Options(cache=get("cache"))))
    paths = [path.name for path in written(made, tmp_path)]
    (tmp_path / "driver.c").write_text(DRIVER)
    (tmp_path / "data").write_bytes(b"".join(np.ascontiguousarray(np.asarray(x)).tobytes() for x in leaves))
    machine = build.target(Options(cache=get("cache"))).flags
    checks = sanitizers.flags(("address", "undefined"), clang=False)
    command = ["gcc", "-std=gnu99", "-O1", *machine, *checks, "-ffp-contract=off", "driver.c", *paths, "-lm"]
    subprocess.run([*command, "-o", "run"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        ["./run", "data"], cwd=tmp_path, capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"}
    )
    assert done.returncode == 0, done.stderr
    losses = [float(line) for line in done.stdout.split()]
    np.testing.assert_allclose(losses, gtensor_models.workloads.LOSSES[name][:3], rtol=1e-4)

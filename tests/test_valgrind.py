"""Exported training steps under valgrind: the digits and a gated memory learn for 200 steps in unwritten memory.

Each array is of exactly the bytes that the header states, from malloc, so that what lies behind it, what is read
before it is written and what is not given back are all seen; and three programs show that they would be.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from benchmarks import exported
from tests.exported_c import STRICT, records, run, sources
from tests.valgrind import COMMAND, WRONG, with_valgrind
from tests.values import same

pytestmark = with_valgrind

PROGRAM = """
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
#ifndef LESS
#define LESS 0
#endif

static void *room(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, NET_ALIGN, bytes))
        exit(3);
    return p;
}

static void must(int32_t code)
{
    if (code != NET_OK)
        exit(4);
}

int main(int argc, char **argv)
{
    FILE *file = fopen(argv[argc - 1], "rb");
    void *state = room(NET_STATE_BYTES), *work = room(NET_WORK_BYTES - LESS), *saved = room(NET_SAVED_BYTES);
    void *x = room(X_BYTES), *y = room(Y_BYTES);
    float *loss = room(sizeof *loss);
    net model;
    must(net_init(&model, state, work));
#ifndef BLANK
    while (fread(x, X_BYTES, 1, file) == 1 && fread(y, Y_BYTES, 1, file) == 1) {
#endif
        must(net_train_step(&model, x, y, loss));
        printf("%.17g\\n", (double)*loss);
        must(net_save(&model, saved, NET_SAVED_BYTES));
        must(net_restore(&model, saved, NET_SAVED_BYTES));
#ifndef BLANK
    }
#endif
    fclose(file);
    free(loss), free(y), free(x), free(saved), free(work);
#ifndef KEEP
    free(state);
#endif
    return 0;
}
"""


@pytest.fixture(scope="module", params=["digits", "gated"])
def project(request, tmp_path_factory):
    """A folder with an exported model, its records, and a program for it; the flags of the program; Python's losses."""
    folder = tmp_path_factory.mktemp(request.param)
    model = exported.export(request.param, folder / "c", prefix="net")
    (folder / "data").write_bytes(records(model.batches))
    (folder / "program.c").write_text(PROGRAM)
    sizes = [f"-D{name}_BYTES={array.nbytes}" for name, array in zip("XY", model.batches[0], strict=True)]
    return folder, sizes, np.array([model.train(*batch) for batch in model.batches], np.float64)


def program(folder, *flags):
    """A project compiled with its program."""
    path = folder / "program"
    own = [*sources(folder / "c"), folder / "program.c", "-I", folder / "c", "-lm", "-o", path]
    run("cc", *STRICT, "-g", *flags, *own)
    return path


def test_200_steps_are_clean(project):
    folder, sizes, python = project
    assert len(python) == 200
    same(np.array(run(*COMMAND, program(folder, *sizes), folder / "data").split(), np.float64), python)


FAULTS = {"a smaller workspace": "-DLESS=4096", "input that nobody wrote": "-DBLANK", "memory that is kept": "-DKEEP"}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_found(project, fault, tmp_path):
    folder, sizes, _ = project
    shutil.copy(folder / "data", tmp_path / "data")
    with (tmp_path / "data").open("r+b") as file:
        file.truncate(2 * sum(int(size.partition("=")[2]) for size in sizes))
    run(*COMMAND, program(folder, *sizes, FAULTS[fault]), tmp_path / "data", code=WRONG)

"""Exported projects as C programs see them: every function of the header, in C and C++, prediction alone, parameters in
a file, names, the folder. What is learnt on which target is in test_export_targets.py.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import gtensor as gt
from tests.exported_c import STRICT, Project, records, run, sources
from tests.test_checkpoints import batches, params, trainer
from tests.values import same

RNG = np.random.default_rng(0)


def scores(p, x):
    return gt.tanh(x @ p["first"]["w"] + p["first"]["b"]) @ p["second"]["w"] + p["second"]["b"]


def classifier():
    """A step with adam, and what predicts."""
    train = trainer(gt.optim.adam(0.01))
    return train, train.bind(scores, gt.spec((1, 6)))


# ---- the functions, in C and C++ ---------------------------------------------------------------------------

USE = """
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char memory[2][NET_STATE_BYTES + NET_ALIGN], work[NET_WORK_BYTES + NET_ALIGN], saved[NET_SAVED_BYTES];

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\\n", what);
        exit(1);
    }
}

int main(void)
{
    net one, two;
    float x[48], w[48], changed[48], out[3], first = 0, second = 0, again = 0;
    int64_t y[8];
    for (int i = 0; i < 48; ++i)
        x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 8; ++i)
        y[i] = i % 3;

    must(net_init(&one, NULL, net_align(work)) == NET_ERR_MEMORY, "no memory");
    must(net_init(&one, net_align(memory[0]), (char *)net_align(work) + 8) == NET_ERR_MEMORY, "not aligned");
    must(net_init(&one, net_align(memory[0]), net_align(work)) == NET_OK, "one");
    must(net_init(&two, net_align(memory[1]), net_align(work)) == NET_OK, "two, with the same memory to work in");

    must(net_train_step(&one, x, y, &first) == NET_OK && net_train_step(&one, x, y, &second) == NET_OK, "training");
    must(second < first && net_train_step(&two, x, y, &again) == NET_OK && again == first, "two models");
    must(net_predict(&one, x, out) == NET_OK && net_train_step(&one, x, y, NULL) == NET_OK, "prediction");
    net_reset(&one);
    must(net_train_step(&one, x, y, &again) == NET_OK && again == first, "reset");

    must(net_bytes(NET_PARAMS_FIRST_W) == sizeof w && net_bytes(NET_PARTS) == 0 && net_bytes(-1) == 0, "bytes");
    must(net_get(&one, NET_PARAMS_FIRST_W, w, sizeof w) == NET_OK, "get");
    must(net_get(&one, NET_PARTS, w, sizeof w) == NET_ERR_SIZE, "no such part");
    memset(changed, 0, sizeof changed);
    must(net_set(&one, NET_PARAMS_FIRST_W, changed, sizeof changed - 1) == NET_ERR_SIZE, "too small");
    must(net_set(&one, NET_PARAMS_FIRST_W, changed, sizeof changed) == NET_OK, "set");
    must(net_get(&one, NET_PARAMS_FIRST_W, w, sizeof w) == NET_OK && !memcmp(w, changed, sizeof w), "get what was set");

    must(net_save(&two, saved, sizeof saved - 1) == NET_ERR_SIZE, "no room");
    must(net_save(&two, saved, sizeof saved) == NET_OK, "save");
    must(net_restore(&one, saved, sizeof saved) == NET_OK, "restore");
    must(net_train_step(&one, x, y, &first) == NET_OK && net_train_step(&two, x, y, &second) == NET_OK, "both");
    must(first == second, "the restored one goes on as the other");
    saved[sizeof saved / 2] ^= 4;
    must(net_restore(&one, saved, sizeof saved) == NET_ERR_SAVED, "damage");

    y[3] = 7;
    must(net_train_step(&one, x, y, &first) == NET_ERR_INDEX && one.error_index == 7, "a wrong label");
    must(NET_STATE_BYTES % NET_ALIGN == 0 && NET_SAVED_BYTES > NET_STATE_BYTES, "sizes");
    puts("all is well");
    return 0;
}
"""
"""A program that is C99 and C++ and calls every function of a header."""

LANGUAGES = {
    name: command
    for name, command in {
        "c": ["cc", *STRICT],
        "gcc c++": ["g++", "-x", "c++", "-Wall", "-Wextra", "-Wpedantic", "-Werror"],
        "clang c++": ["clang++", "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"],
    }.items()
    if shutil.which(command[0])
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_that_calls_every_function(net, language, tmp_path):
    project, _, _ = net
    (tmp_path / "use.c").write_text(USE)
    objects = [tmp_path / f"{path.stem}.o" for path in sources(project.folder)]
    for path, made in zip(sources(project.folder), objects, strict=True):
        run("cc", *STRICT, "-c", path, "-o", made)
    run(*LANGUAGES[language], "-I", project.folder, "-c", tmp_path / "use.c", "-o", tmp_path / "use.o")
    run(LANGUAGES[language][0], tmp_path / "use.o", *objects, "-lm", "-o", tmp_path / "use")
    assert run(tmp_path / "use") == "all is well\n"


def test_every_function_and_size_is_told_of(net):
    """A comment stands above each function, and the top of the header names what a caller needs first."""
    header = (net[0].folder / "net.h").read_text()
    for name in ("init", "train_step", "predict", "reset", "bytes", "get", "save", "restore", "align"):
        (before,) = (part for part in header.split(f"net_{name}(")[:-1][-1:])
        assert before.rsplit("\n\n", 1)[-1].lstrip().startswith("/*"), name
    for name in ("STATE_BYTES", "WORK_BYTES", "SAVED_BYTES", "ALIGN", "PARTS"):
        assert f"NET_{name}" in header, name


def test_make_cmake_and_names_with_spaces(net, tmp_path):
    copy = shutil.copytree(net[0].folder, tmp_path / "with spaces")
    (copy / "mine.o").write_text("not make's")
    (copy / "data.bin").write_bytes(records(batches(3)))
    run("make", cwd=copy)
    printed = run("./net_example", "data.bin", cwd=copy)
    assert len(printed.split()) == 3
    run("make", "clean", cwd=copy)
    assert [path.name for path in copy.glob("*.o")] == ["mine.o"]
    if shutil.which("cmake"):
        run("cmake", "-S", copy, "-B", tmp_path / "build", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", tmp_path / "build")
        assert run(tmp_path / "build" / "net_example", copy / "data.bin") == printed


def test_the_example_says_what_is_wrong(net, tmp_path):
    run("cc", *STRICT, *net[0].folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    run(tmp_path / "example", code=2)
    run(tmp_path / "example", tmp_path / "missing", code=1)
    x, y = next(batches(1))
    (tmp_path / "data").write_bytes(records([(x, y), (x, y + 100)]))
    assert len(run(tmp_path / "example", tmp_path / "data", code=1).split()) == 1


# ---- the functions, called through cffi --------------------------------------------------------------------


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """The classifier as a library, and the training step it was made from."""
    with gt.config(variant="portable"):
        train, predict = classifier()
        folder = tmp_path_factory.mktemp("net")
        gt.export(folder, train, predict=predict, prefix="net")
    return Project(folder, "net"), train, predict


def test_models_are_independent_and_go_back(net):
    project, train, _ = net
    one, two = project.model(), project.model()
    train_losses, loss = [], np.zeros(1, np.float32)
    state = train.block.memory.copy()
    for x, y in batches(5):
        train_losses.append(train(x, y))
        assert project.call("train_step", one, x, y, loss) == 0 and loss[0] == train_losses[-1]
    x, y = next(batches(1))
    assert project.call("train_step", two, x, y, loss) == 0 and loss[0] == train_losses[0]
    project.call("reset", one)
    assert project.call("train_step", one, x, y, project.ffi.NULL) == 0
    out, other = np.zeros((1, 3), np.float32), np.zeros((1, 3), np.float32)
    assert project.call("predict", one, x[:1], out) == project.call("predict", two, x[:1], other) == 0
    same(out, other)
    train.block.memory[:] = state


def test_prediction_is_that_of_python(net):
    project, _, predict = net
    x, out = RNG.standard_normal((1, 6)).astype(np.float32), np.zeros((1, 3), np.float32)
    assert project.call("predict", project.model(), x, out) == 0
    same(out, predict(x).numpy())


def test_parts_of_the_state(net):
    project, _, _ = net
    model, w = project.model(), np.zeros((6, 8), np.float32)
    part = project.lib.NET_PARAMS_FIRST_W
    assert project.call("get", model, part, w, w.nbytes) == 0
    same(w, np.asarray(params()["first"]["w"]))
    w[:] = RNG.standard_normal(w.shape)
    back = np.zeros_like(w)
    assert project.call("set", model, part, w, w.nbytes) == 0 and project.call("get", model, part, back, w.nbytes) == 0
    same(back, w)
    assert project.call("get", model, part, w, w.nbytes - 1) == project.constant("ERR_SIZE")
    assert project.call("set", model, project.lib.NET_PARTS, w, w.nbytes) == project.constant("ERR_SIZE")
    assert project.lib.net_bytes(part) == w.nbytes and project.lib.net_bytes(-1) == 0


def test_a_saved_state_goes_on_and_a_damaged_one_is_refused(net):
    project, _, _ = net
    one, two, loss, other = project.model(), project.model(), np.zeros(1, np.float32), np.zeros(1, np.float32)
    for batch in batches(4):
        project.call("train_step", one, *batch, loss)
    buffer = np.zeros(project.constant("SAVED_BYTES"), np.uint8)
    assert project.call("save", one, buffer, buffer.nbytes) == 0
    assert project.call("restore", two, buffer, buffer.nbytes) == 0
    for batch in batches(3, 4):
        assert project.call("train_step", one, *batch, loss) == project.call("train_step", two, *batch, other) == 0
        assert loss[0] == other[0]
    before = project.state(two)
    for bit in range(8 * len(buffer)):
        harmed = buffer.copy()
        harmed[bit // 8] ^= 1 << bit % 8
        assert project.call("restore", two, harmed, harmed.nbytes) == project.constant("ERR_SAVED"), bit
    turned = buffer.view(np.uint32).byteswap().view(np.uint8)
    assert project.call("restore", two, turned, turned.nbytes) == project.constant("ERR_SAVED"), "the other byte order"
    longer = np.concatenate([buffer, np.zeros(8, np.uint8)])
    for length in (0, 15, 16, buffer.nbytes - 1, buffer.nbytes + 1, longer.nbytes):
        assert project.call("restore", two, longer, length) == project.constant("ERR_SIZE"), length
    assert project.call("save", two, buffer, buffer.nbytes - 1) == project.constant("ERR_SIZE")
    assert project.state(two) == before


def other_models():
    """Models whose states have as many bytes as one with f32[2,3] and i32[4], and other contents."""
    return {
        "a shape": {"a": gt.zeros((3, 2)), "b": gt.zeros(4, dtype=gt.int32)},
        "a dtype": {"a": gt.zeros((2, 3)), "b": gt.zeros(4)},
        "a name": {"a": gt.zeros((2, 3)), "c": gt.zeros(4, dtype=gt.int32)},
        "an order": {"b": gt.zeros((2, 3)), "a": gt.zeros(4, dtype=gt.int32)},
    }


@pytest.mark.parametrize("what", other_models())
def test_the_state_of_another_model_is_refused(what, tmp_path):
    models = []
    for name, state in [
        ("one", {"a": gt.zeros((2, 3)), "b": gt.zeros(4, dtype=gt.int32)}),
        ("two", other_models()[what]),
    ]:
        gt.export(tmp_path / name, gt.Resident(lambda s: (s, None), state, []), prefix=name)
        models.append(Project(tmp_path / name, name))
    one, two = models
    assert one.constant("SAVED_BYTES") == two.constant("SAVED_BYTES")
    buffer = np.zeros(one.constant("SAVED_BYTES"), np.uint8)
    assert one.call("save", one.model(), buffer, buffer.nbytes) == 0
    assert one.call("restore", one.model(), buffer, buffer.nbytes) == 0
    assert two.call("restore", two.model(), buffer, buffer.nbytes) == two.constant("ERR_SAVED")


def test_memory_that_is_missing_or_not_aligned(net):
    project, _, _ = net
    model, state, work = project.ffi.new("net *"), project.memory("STATE_BYTES"), project.memory("WORK_BYTES")
    wrong = project.constant("ERR_MEMORY")
    assert project.call("init", model, project.ffi.NULL, work) == project.call("init", model, state, work + 1) == wrong


def test_a_wrong_index_is_an_error_that_changes_nothing(net):
    project, _, _ = net
    model, loss = project.model(), np.zeros(1, np.float32)
    x, y = next(batches(1))
    before, after = np.zeros((6, 8), np.float32), np.zeros((6, 8), np.float32)
    project.call("get", model, project.lib.NET_PARAMS_FIRST_W, before, before.nbytes)
    y = y.copy()
    y[3] = 7
    assert project.call("train_step", model, x, y, loss) == project.constant("ERR_INDEX") and model.error_index == 7
    project.call("get", model, project.lib.NET_PARAMS_FIRST_W, after, after.nbytes)
    same(after, before)


def test_a_function_with_constants_numbers_and_a_run_time_extent(tmp_path):
    table = np.array([[1.5, np.nan], [-np.inf, 1e-42], [0.1, -0.0]], np.float32)
    big = np.array([2**63 - 1, -(2**63)])

    def look(i, scale, flag):
        rows = gt.take(gt.tensor(table), i, axis=0) * scale
        return {"rows": gt.where(flag, rows, 0), "big": gt.take(big, i % 2)}

    step = (
        gt.compile(look)
        .trace(gt.spec(("B",), gt.int64, max={"B": 4}), gt.spec((), gt.float64), gt.spec((), gt.bool))
        .lower()
        .compile()
    )
    gt.export(tmp_path / "f", step, prefix="look")
    project = Project(tmp_path / "f", "look", ("-std=c99", "-Wall", "-Wextra", "-Werror"))
    model = project.model()
    i, rows, wide = np.array([2, 0, 1]), np.zeros((3, 2), np.float64), np.zeros(3, np.int64)
    assert project.call("predict", model, 3, i, 2.0, 1, wide, rows) == 0
    same(rows, table[i].astype(np.float64) * 2)
    assert wide.tolist() == [2**63 - 1, 2**63 - 1, -(2**63)]
    assert project.call("predict", model, 5, i, 2.0, 1, wide, rows) == project.constant("ERR_SIZE")


def test_a_state_of_every_dtype_that_has_a_c_type(tmp_path):
    state = {
        "i8": gt.tensor([-128, 127], gt.int8), "u16": gt.tensor([65535], gt.uint16), "i64": gt.tensor([-(2**63), 0]),
        "i32": gt.tensor([-(2**31)], gt.int32), "u64": gt.tensor([2**64 - 1], gt.uint64), "none": gt.zeros((0, 2)),
        "f16": gt.tensor([1.5, -0.0], gt.float16), "f64": gt.tensor([1e-310, gt.nan]), "b": gt.tensor([True, False]),
    }  # fmt: skip
    keeper = gt.Resident(lambda s, x: (s, x), state, [gt.spec(1)])
    gt.export(tmp_path / "f", keeper, prefix="keeper")
    project = Project(tmp_path / "f", "keeper", ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"))
    model = project.model()
    for name, array in keeper.state.items():
        out = np.zeros(array.nbytes, np.uint8)
        part = getattr(project.lib, f"KEEPER_{name.upper()}")
        assert project.call("get", model, part, out, out.nbytes) == 0
        assert out.tobytes() == array.tobytes(), name


def test_names_that_meet_in_c(tmp_path):
    """Parts that differ in case or a dot only, or are called as the header's own words; arguments as the example's."""
    state = {
        "W": gt.ones(1),
        "w": gt.zeros(1),
        "\u00f6 */": gt.ones(1),
        "a": {"b": gt.ones(1)},
        "a_b": gt.zeros(1),
        "ok": gt.ones(1),
        "parts": gt.ones(1),
    }
    keeper = gt.Resident(
        lambda s, state, file, model, code, work: (s, state + file + model + code + work), state, [gt.spec(1)] * 5
    )
    gt.export(tmp_path / "f", keeper, prefix="keeper")
    project = Project(tmp_path / "f", "keeper", ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"))
    assert project.lib.KEEPER_PARTS == 7
    run("cc", *STRICT, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(np.arange(10, dtype=np.float32).tobytes())
    assert run(tmp_path / "example", tmp_path / "data").split() == ["10", "35"]


def test_arguments_that_are_words_of_cpp_or_of_the_header(tmp_path):
    words = "new delete this template size_t m args gt_in KEEPER_OK NULL out memset loss keeper".split()
    taken = ", ".join(words)
    step = eval(f"lambda s, {taken}: (s, {' + '.join(words)})")
    gt.export(tmp_path / "f", gt.Resident(step, gt.zeros(1), [gt.spec(1)] * len(words)), prefix="keeper")
    run("cc", *STRICT, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(np.ones(len(words), np.float32).tobytes())
    assert run(tmp_path / "example", tmp_path / "data").split() == [str(len(words))]
    for compiler in (language[0] for name, language in LANGUAGES.items() if name != "c"):
        (tmp_path / "use.cpp").write_text(
            '#include "keeper.h"\nint main() { keeper k; return keeper_init(&k, 0, 0) == 0; }'
        )
        run(
            compiler,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I",
            tmp_path / "f",
            "-c",
            tmp_path / "use.cpp",
            "-o",
            tmp_path / "o",
        )


@pytest.mark.skipif(not shutil.which("clang++"), reason="clang, which is not installed, has a warning for everything")
def test_the_header_alone_gives_no_warning_of_any_kind(net, tmp_path):
    folder = net[0].folder
    (tmp_path / "use.cpp").write_text('#include "net.h"\n')
    for flags in (["-x", "c", "-std=c99"], ["-std=c++11", "-Wno-c++98-compat-pedantic"]):
        run("clang++", *flags, "-Weverything", "-Werror", "-I", folder, "-fsyntax-only", tmp_path / "use.cpp")


def test_two_projects_in_one_program(net, tmp_path):
    """Neither has a symbol of the other's, and their headers stand side by side."""
    gt.export(tmp_path / "f", trainer(gt.optim.sgd(0.1)), prefix="other")
    (tmp_path / "main.c").write_text(
        '#include "net.h"\n#include "other.h"\n'
        "int main(void) { net n; other o; return !net_init(&n, 0, 0) || !other_init(&o, 0, 0); }\n"
    )
    files = [*sources(net[0].folder), *sources(tmp_path / "f")]
    folders = ["-I", net[0].folder, "-I", tmp_path / "f"]
    run("cc", *STRICT, *folders, tmp_path / "main.c", *files, "-lm", "-o", tmp_path / "both")
    run(tmp_path / "both")


def test_a_step_without_arguments(tmp_path):
    counter = gt.Resident(lambda n: (n + 1, n), gt.zeros(1), [])
    gt.export(tmp_path / "f", counter, prefix="counter")
    run("cc", *STRICT, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(b"go!")
    assert run(tmp_path / "example", tmp_path / "data").split() == ["0", "1", "2"]


def test_a_resident(tmp_path):
    counter = gt.Resident(lambda n, x: (n + x, n * 2), gt.zeros(2), [gt.spec(2)])
    counter(gt.ones(2))
    gt.export(tmp_path / "f", counter, prefix="counter")
    project = Project(tmp_path / "f", "counter")
    model, x, out = project.model(), np.ones(2, np.float32), np.zeros(2, np.float32)
    assert [project.call("step", model, x, out) or out.tolist() for _ in range(2)] == [[2, 2], [4, 4]]


def test_results_a_rate_and_a_batch_of_any_size(tmp_path):
    """What a step returns beside its loss is called as in Python; the rate and the number of rows are arguments."""

    def loss_fn(p, x, y):
        h = gt.tanh(x @ p)
        return gt.mean((h - y) ** 2), {"mean": gt.mean(h), "pair": (h, h * 2)}

    specs = gt.spec(("B", 3), max={"B": 4}), gt.spec(("B", 2), max={"B": 4})
    with gt.config(variant="portable"):
        train = gt.TrainStep(loss_fn, gt.ones((3, 2)), gt.optim.sgd(0.1), *specs, has_aux=True, learning_rate=0.1)
        gt.export(tmp_path / "f", train, prefix="step")
        header = (tmp_path / "f" / "step.h").read_text()
        assert "double learning_rate, const float *x, const float *y, float *loss, float *mean," in " ".join(
            header.split()
        )
        project = Project(tmp_path / "f", "step")
        model, loss, mean = project.model(), np.zeros(1, np.float32), np.zeros(1, np.float32)
        for rows, rate in [(4, 0.1), (1, 0.5), (3, 0.01)]:
            x, y = (RNG.standard_normal((rows, n)).astype(np.float32) for n in (3, 2))
            pair = np.zeros((rows, 2), np.float32), np.zeros((rows, 2), np.float32)
            train.learning_rate = rate
            right, aux = train(x, y)
            assert project.call("train_step", model, rows, rate, x, y, loss, mean, *pair) == 0
            assert (loss[0], mean[0]) == (right, float(aux["mean"]))
            for found, expected in zip(pair, aux["pair"], strict=True):
                same(found, expected.numpy())


def test_a_cell_that_learns(tmp_path):
    """The compiled step of an updater: a memory goes in, a loss comes out."""
    with gt.config(variant="portable"):
        key, adam = gt.random.key(0), gt.optim.adam(0.01)
        updater = gt.nn.GatedMemoryUpdater(gt.nn.GatedMemory(1, 8), adam, key, batch=2, window=5)
        gt.export(tmp_path / "f", updater.resident, prefix="cell")
        memory, xs, targets = (RNG.standard_normal(n).astype(np.float32) for n in [(2, 8), (5, 2, 1), (5, 2, 8)])
        python = [updater.train_step(memory, xs, targets) for _ in range(20)]
    project = Project(tmp_path / "f", "cell")
    model, loss, c = project.model(), np.zeros(1, np.float32), []
    for _ in python:
        assert project.call("step", model, memory, xs, targets, loss) == 0
        c.append(float(loss[0]))
    assert c == python and c[-1] < c[0]


def test_the_variant_with_vectors(tmp_path):
    (train, predict), data = classifier(), list(batches(200))
    gt.export(tmp_path / "f", train, predict=predict, prefix="net", variant="vector")
    (tmp_path / "data.bin").write_bytes(records(data))
    run("make", cwd=tmp_path / "f")
    printed = run("./net_example", tmp_path / "data.bin", cwd=tmp_path / "f").split()
    with gt.config(blas="none"):
        again, _ = classifier()
        same(np.array(printed, np.float64), np.array([again(*batch) for batch in data]))

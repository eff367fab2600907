"""Exported projects: C99 that every compiler takes without a warning, whose steps have the bits of the Python build of
that variant, in memory that its caller owns.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import cffi
import numpy as np
import pytest

import gtensor as gt
from gtensor import cli
from gtensor.codegen import toolchain
from gtensor.codegen.options import Options
from gtensor.errors import FileError, OptionError
from tests.test_checkpoints import batches, params, trainer
from tests.values import same

STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZED = [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
COMPILERS = [name for name in ("gcc", "clang", "cc") if shutil.which(name)]
KINDS = {"float": np.float32, "double": np.float64, "int64_t": np.int64, "int32_t": np.int32, "uint8_t": np.uint8}

RNG = np.random.default_rng(0)


def run(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def scores(p, x):
    return gt.tanh(x @ p["first"]["w"] + p["first"]["b"]) @ p["second"]["w"] + p["second"]["b"]


def digits():
    """A classifier, adam, 200 batches."""
    train = trainer(gt.optim.adam(0.01))
    return train, train.bind(scores, gt.spec((1, 6))), list(batches(200))


def memory():
    """A memory cell trained through time, sgd, 200 sequences."""
    cell = gt.nn.GatedMemory(inputs=2, size=5)

    def follow(p, xs, ys):
        _, out = gt.scan(lambda m, x: cell.step(p["cell"], m, x), gt.zeros((3, 5)), xs)
        return gt.mean((out @ p["w"] - ys) ** 2)

    p = {"cell": cell.init(gt.random.key(0)), "w": gt.random.normal(gt.random.key(1), (5, 1))}
    train = gt.TrainStep(follow, p, gt.optim.sgd(0.05, momentum=0.9), gt.spec((7, 3, 2)), gt.spec((7, 3, 1)))
    drawn = RNG.standard_normal((200, 7, 3, 2)).astype(np.float32)
    return train, None, [(xs, np.cumsum(xs[..., :1], axis=0)) for xs in drawn]


@pytest.fixture(scope="module", params=[digits, memory], ids=["digits", "memory"])
def project(request, tmp_path_factory):
    """A project, its records, and the losses of the Python build of that variant."""
    with gt.config(variant="portable"):
        train, predict, data = request.param()
        folder = tmp_path_factory.mktemp("export") / "net"
        gt.export(folder, train, predict=predict, prefix="net")
        losses = [train(*batch) for batch in data]
    (folder / "data.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for batch in data for a in batch))
    return folder, losses


def sources(folder):
    return sorted(path for path in folder.glob("*.c") if path.name != "main.c")


@pytest.mark.parametrize("cc", COMPILERS)
def test_200_steps_in_plain_c_have_the_losses_of_python_to_the_bit(cc, project, tmp_path):
    folder, losses = project
    run(cc, *STRICT, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    printed = run(tmp_path / "example", folder / "data.bin").split()
    same(np.array(printed, np.float64), np.array(losses, np.float64))
    assert losses[-1] < losses[0] * 0.8


def test_flags_for_this_machine_change_neither_a_bit_nor_the_standard(project, tmp_path):
    folder, losses = project
    flags = toolchain.find(Options()).target("native").flags
    run("cc", *STRICT, *flags, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    printed = run(tmp_path / "example", folder / "data.bin").split()
    same(np.array(printed, np.float64), np.array(losses, np.float64))


def test_clean_under_sanitizers(project, tmp_path):
    folder, losses = project
    run("cc", *SANITIZED, *folder.glob("*.c"), "-lm", "-o", tmp_path / "example")
    printed = run(tmp_path / "example", folder / "data.bin").split()
    same(np.array(printed, np.float64), np.array(losses, np.float64))


def test_nothing_but_mathematics_and_copies_is_called(project, tmp_path):
    folder, _ = project
    objects = []
    for path in sources(folder):
        objects.append(tmp_path / f"{path.stem}.o")
        run("cc", *STRICT, "-fno-pic", "-fno-pie", "-c", path, "-o", objects[-1])
    allowed = {"memcpy", "memset", "memmove", "memcmp", "sqrt", "sqrtf", "fma", "fmaf"}
    defined = {line.split()[-1] for line in run("nm", "-g", "--defined-only", *objects).splitlines() if " " in line}
    undefined = {line.split()[-1] for line in run("nm", "-u", *objects).splitlines() if " U " in line}
    assert undefined - defined <= allowed, undefined
    assert all(name.startswith("net_") for name in defined), defined
    assert not re.findall(r" [bBdD] ", run("nm", *objects)), "a global that changes"


def test_make_and_the_header_in_cpp(project, tmp_path):
    folder, losses = project
    copy = tmp_path / "with spaces"
    shutil.copytree(folder, copy)
    run("make", cwd=copy)
    assert len(run("./net_example", "data.bin", cwd=copy).split()) == len(losses)
    run("make", "clean", cwd=copy)
    assert not list(copy.glob("*.o"))
    if shutil.which("c++"):
        (copy / "use.cpp").write_text('#include "net.h"\nint main() { net n; return net_init(&n, 0, 0) == 0; }\n')
        for path in sources(copy):
            run("cc", "-std=c99", "-c", path, cwd=copy)
        run("c++", "-Wall", "-Wextra", "-Werror", "use.cpp", *copy.glob("*.o"), "-lm", "-o", "use", cwd=copy)
        run(copy / "use")


# ---- the functions, called through cffi --------------------------------------------------------------------


class Project:
    """A project as a shared library: `lib`, and `model()` for a new model in memory of its own."""

    def __init__(self, folder, prefix, flags=("-std=c99",)):
        library = folder / f"lib{prefix}.so"
        run("cc", *flags, "-O1", "-fPIC", "-shared", *sources(folder), "-lm", "-o", library)
        header = re.sub(r"/\*.*?\*/", "", (folder / f"{prefix}.h").read_text(), flags=re.DOTALL)
        header = re.sub(r"static inline.*?\n}\n", "", header, flags=re.DOTALL)
        header = re.sub(r'#(ifdef __cplusplus\n(extern "C" {|}))\n#endif', "", header)
        self.constants = dict(re.findall(r"#define (\w+) (\d+)", header))
        self.ffi = cffi.FFI()
        self.ffi.cdef(re.sub(r"^#.*$", "", header, flags=re.MULTILINE).replace("size_t offset, bytes;", ""))
        self.lib, self.prefix, self.kept = self.ffi.dlopen(str(library)), prefix, []

    def constant(self, name):
        return int(self.constants[f"{self.prefix.upper()}_{name}"])

    def memory(self, name):
        buffer = self.ffi.new("char[]", self.constant(name) + 64)
        self.kept.append(buffer)
        return self.ffi.cast("char *", (int(self.ffi.cast("intptr_t", buffer)) + 63) // 64 * 64)

    def model(self):
        model = self.ffi.new(f"{self.prefix} *")
        assert self.call("init", model, self.memory("STATE_BYTES"), self.memory("WORK_BYTES")) == 0
        return model

    def call(self, name, model, *args):
        return getattr(self.lib, f"{self.prefix}_{name}")(model, *map(self.given, args))

    def given(self, arg):
        if not isinstance(arg, np.ndarray):
            return arg
        kind = next(kind for kind, dtype in KINDS.items() if dtype == arg.dtype)
        return self.ffi.cast(f"{kind} *", arg.ctypes.data)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """The classifier as a library, and the training step it was made from."""
    with gt.config(variant="portable"):
        train, predict, _ = digits()
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
    for place in (0, 5, 9, 17, 30, len(buffer) - 1):
        harmed = buffer.copy()
        harmed[place] ^= 1
        assert project.call("restore", two, harmed, harmed.nbytes) == project.constant("ERR_SAVED"), place
    assert project.call("restore", two, buffer, buffer.nbytes - 1) == project.constant("ERR_SIZE")
    assert project.call("save", two, buffer, buffer.nbytes - 1) == project.constant("ERR_SIZE")


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
    assert project.lib.KEEPER_PARTS == 6
    run("cc", *STRICT, *(tmp_path / "f").glob("*.c"), "-lm", "-o", tmp_path / "example")
    (tmp_path / "data").write_bytes(np.arange(10, dtype=np.float32).tobytes())
    assert run(tmp_path / "example", tmp_path / "data").split() == ["10", "35"]


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


def test_the_variant_with_vectors(tmp_path):
    train, predict, data = digits()
    gt.export(tmp_path / "f", train, predict=predict, prefix="net", variant="vector")
    (tmp_path / "data.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for batch in data for a in batch))
    run("make", cwd=tmp_path / "f")
    printed = run("./net_example", tmp_path / "data.bin", cwd=tmp_path / "f").split()
    with gt.config(blas="none"):
        again, _, _ = digits()
        same(np.array(printed, np.float64), np.array([again(*batch) for batch in data]))


# ---- what is refused ---------------------------------------------------------------------------------------


def test_what_cannot_be_exported(tmp_path):
    train, other = trainer(gt.optim.sgd(0.1)), trainer(gt.optim.sgd(0.1))
    step = gt.compile(lambda w, g: w - g, donate="w")
    step(np.ones(2, np.float32), np.ones(2, np.float32))
    for wrong, message in [
        (lambda: gt.export(tmp_path / "f", 3), "takes a TrainStep, a Resident or a compiled function, not int"),
        (lambda: gt.export(tmp_path / "f", step), "donates arguments"),
        (lambda: gt.export(tmp_path / "f", train, predict=other.bind(scores, gt.spec((1, 6)))), "predict must be what"),
        (lambda: gt.export(tmp_path / "f", train, predict=scores), "predict must be what"),
        (lambda: gt.export(tmp_path / "f", train, prefix="9"), "prefix '9'"),
        (lambda: gt.export(tmp_path / "f", train, prefix="float"), "prefix 'float'"),
        (lambda: gt.export(tmp_path / "f", train, prefix="log"), "prefix 'log'"),
        (lambda: gt.export(tmp_path / "f", train, variant="fast"), "variant must be one of portable, vector"),
    ]:
        with pytest.raises(OptionError, match=message):
            wrong()
    assert not (tmp_path / "f").exists()


def test_only_an_export_is_written_to_again(tmp_path):
    train = trainer(gt.optim.sgd(0.1))
    for _ in range(2):
        gt.export(tmp_path / "f", train)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep")
    with pytest.raises(FileError, match="no export of model, so it is left as it is"):
        gt.export(tmp_path / "mine", train)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


def test_the_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "exported_by_test.py").write_text(
        "import gtensor as gt\n"
        "train = gt.TrainStep(lambda w, x: gt.sum((x @ w) ** 2), gt.ones(3), gt.optim.sgd(0.1), gt.spec((4, 3)))\n"
        "predict = train.bind(lambda w, x: x @ w, gt.spec((1, 3)))\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["export", "exported_by_test:train", "-o", "line", "--predict", "exported_by_test:predict", "--prefix"]
    assert cli.main([*command, "line"]) == 0
    out = capsys.readouterr().out
    assert "line/line.h" in out and "state 64 B, work" in out
    assert cli.main([*command, "LINE"]) == 2
    assert "cannot begin C names" in capsys.readouterr().err


# ---- without an operating system ---------------------------------------------------------------------------

BARE = """
#include "tiny.h"
static uint64_t state[TINY_STATE_BYTES / 8 + 8], work[TINY_WORK_BYTES / 8 + 8];
static float x[8], y[4], loss;
void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        ((volatile char *)to)[i] = (char)c;
    return to;
}
void start(void)
{
    tiny model;
    tiny_init(&model, tiny_align(state), tiny_align(work));
    for (;;)
        tiny_train_step(&model, x, y, &loss);
}
"""


def test_a_tiny_network_fits_a_small_device(tmp_path):
    """A network of 8, 32 and 4 units that learns from one example at a time, as a program without a C library."""

    def tiny(p, x, y):
        h = gt.tanh(x @ p["w1"] + p["b1"])
        return gt.mean((h @ p["w2"] + p["b2"] - y) ** 2)

    p = {"w1": gt.ones((8, 32)), "b1": gt.zeros(32), "w2": gt.ones((32, 4)), "b2": gt.zeros(4)}
    train = gt.TrainStep(tiny, p, gt.optim.sgd(0.05), gt.spec((1, 8)), gt.spec((1, 4)))
    gt.export(tmp_path, train, prefix="tiny")
    (tmp_path / "main.c").write_text(BARE)
    flags = ["-std=c99", "-Os", "-ffreestanding", "-fno-pic", "-ffunction-sections", "-fdata-sections"]
    link = ["-nostdlib", "-static", "-no-pie", "-Wl,--gc-sections,-e,start,--build-id=none"]
    run("cc", *flags, *tmp_path.glob("*.c"), *link, "-o", tmp_path / "bare")
    text, data, bss = map(int, run("size", tmp_path / "bare").splitlines()[1].split()[:3])
    assert data + bss < 16 * 1024, (text, data, bss)
    assert text + data < 32 * 1024, (text, data, bss)

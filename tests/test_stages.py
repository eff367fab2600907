"""The stages: their texts, the cache key, what a hit leaves out, and the settings that look inside."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import gtensor as gt
from gtensor import passes, report
from gtensor.errors import InternalError, OptionError, SignatureError

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def row_norm(x):
    y = gt.exp(x - gt.max(x, axis=1, keepdims=True))
    return y / gt.sum(y, axis=1, keepdims=True)


def test_every_stage_can_be_read():
    traced = gt.compile(row_norm).trace(X)
    lowered = traced.lower()
    compiled = lowered.compile()
    assert traced.as_text().startswith("graph row_norm(x: f32[3,4]):")
    assert "y = gt.exp(x" in traced.as_text()
    assert "exp(" in lowered.as_text("simplified")
    assert lowered.as_text("schedule").startswith("schedule of row_norm: 1 kernels")
    assert lowered.as_text().startswith("program row_norm")
    assert "arena:" in lowered.as_text("memory")
    assert lowered.as_text("c") == compiled.as_text() == compiled.c_source
    assert "gt_model_get" in compiled.c_source
    with pytest.raises(OptionError, match=r"there is no stage 'asm'"):
        lowered.as_text("asm")


def test_what_was_compiled_can_be_looked_into():
    f = gt.compile(row_norm)
    for name in ("graph", "kernels", "c_source", "memory", "assembly"):
        with pytest.raises(SignatureError, match="row_norm is not compiled yet"):
            getattr(f, name)
    f(X)
    assert f.graph.name == "row_norm"
    assert f.compiled.files[0].read_text() == f.compiled.library.sources["row_norm.c"]
    assert "row_norm" in f.assembly or "gt_model" in f.assembly
    (kernel,) = f.kernels
    assert (kernel.kind, kernel.space, kernel.reads, kernel.bytes_read, kernel.bytes_written) == (
        "rows", "3, 4", ("x",), 48, 48,
    )  # fmt: skip
    assert any("test_stages.py" in line for line in kernel.lines)
    assert "x" in str(kernel) and "48 B" in str(kernel)


def test_the_kernels_are_counted():
    f = gt.compile(lambda x, w: (x @ w, gt.sum(x, axis=0)))
    f(X, X.T)
    product, rows = sorted(f.kernels, key=lambda kernel: kernel.kind)
    assert (product.kind, product.space, product.flops) == ("product", "3, 3", 2 * 3 * 3 * 4)
    assert (product.bytes_read, product.bytes_written) == (2 * 48, 36)
    assert rows.bytes_written == 16
    assert report.text(f.kernels).splitlines()[-1].startswith("2 kernels: ")


def key(fn, *args, donate=(), **settings):
    with gt.config(**settings):
        return gt.compile(fn, donate=donate).trace(*args).key


def test_the_key_says_all_that_the_c_depends_on():
    def f(x, y):
        return gt.exp(x) + y, gt.sum(y)

    x, y = gt.spec((4,)), gt.spec((4,))
    base = key(f, x, y)
    assert key(f, np.ones(4, np.float32), gt.ones(4)) == base
    assert key(lambda x, y: (gt.exp(x) + y, gt.sum(y)), x, y) != base  # the C has the function's name
    different = [
        key(f, gt.spec((5,)), gt.spec((5,))),
        key(f, gt.spec((4,), gt.float64), y),
        key(f, x, y, donate="x"),
        key(f, x, y, skip="algebra"),
        key(f, gt.spec(("B",), max={"B": 4}), gt.spec(("B",), max={"B": 4})),
        key(f, gt.spec(("B",), max={"B": 5}), gt.spec(("B",), max={"B": 5})),
        key(f, x, 1.0),
        key(f, x, 1),
    ]
    assert len({base, *different}) == 1 + len(different)
    assert gt.__version__ in base
    assert "test_stages" not in base


def test_equal_functions_of_other_lines_share_the_cache():
    def make():
        def twice(x):
            return x * 2

        return twice

    first = make()

    def twice(x):
        return x * 2

    gt.compile(first)(X)
    again = gt.compile(twice)
    again(X)
    assert again.compiled.hit
    lines = [f"test_stages.py:{fn.__code__.co_firstlineno + 1} " for fn in (first, twice)]
    assert lines[0] not in again.c_source and lines[1] in again.c_source


HIT = """
import sys
import numpy as np
import gtensor as gt

f = gt.compile(lambda x: gt.tanh(x) * 2)
result = f(np.ones(3, np.float32)).tolist()
needless = ["jinja2", "tqdm", "scipy", *(f"gtensor.{m}" for m in ("passes", "fuse", "lower", "codegen.emit"))]
print(result, f.compiled.hit, [m for m in needless if m in sys.modules])
"""


def test_a_second_process_only_loads(tmp_path):
    def run(mode):
        done = subprocess.run(
            [sys.executable, "-c", HIT, mode], env=environment(tmp_path), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    expected = (2 * np.tanh(np.ones(3, np.float32))).tolist()
    late = ["jinja2", "gtensor.passes", "gtensor.fuse", "gtensor.lower", "gtensor.codegen.emit"]
    assert run("miss") == f"{expected} False {late}"
    assert run("hit") == f"{expected} True []"


def environment(cache):
    return {**os.environ, "GT_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_debug_levels_say_more_and_more(capsys):
    def said(level):
        with gt.config(debug=level):
            gt.compile(row_norm)(X)
        return capsys.readouterr().err

    assert said(0) == ""
    first, second, third = said(1), said(2), said(3)
    assert "trace: row_norm: " in first and "build: row_norm" in first
    assert "graph row_norm" not in first and "graph row_norm(x: f32[3,4]):" in second and "pass views" in second
    assert "schedule of row_norm" not in second and "schedule of row_norm" in third


def test_the_c_and_the_command_are_said_at_the_fourth_level(tmp_path, capsys):
    with gt.config(debug=4, cache=tmp_path):
        gt.compile(row_norm)(X)
    said = capsys.readouterr().err
    assert "gt_model_get" in said and " -O3 " in said


def test_stages_are_dumped_in_numbered_files(tmp_path):
    with gt.config(dump=str(tmp_path / "new")):
        gt.compile(row_norm)(X)
        gt.compile(row_norm)(X[:2])
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert len(names) == 12
    assert [name.split("-", 2)[2] for name in names[:6]] == [
        "0-traced.txt", "1-simplified.txt", "2-schedule.txt", "3-program.txt", "4-memory.txt", "5.c",
    ]  # fmt: skip
    assert "gt_model_get" in (tmp_path / "new" / names[5]).read_text()


def test_checks_look_at_every_pass_even_on_a_hit(monkeypatch):
    gt.compile(row_norm)(X)
    with gt.config(check=2):
        assert np.array_equal(gt.compile(row_norm)(X).numpy(), gt.compile(row_norm)(X).numpy())
    bad = passes.Pass("wrong", lambda graph: gt.trace(lambda x: row_norm(x) + 1, gt.spec((3, 4))), "")
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, bad))
    with gt.config(check=2), pytest.raises(InternalError, match="the pass wrong changed a value"):
        gt.compile(row_norm)(X)


def test_passes_can_be_left_out():
    def f(x):
        return gt.stop_gradient(x) / 4

    def prims(**settings):
        with gt.config(**settings):
            return [e.prim.name for e in gt.compile(f).trace(X).lower().simplified.eqns]

    assert "stop_gradient" not in prims()
    assert "stop_gradient" in prims(skip="cut")
    with gt.config(skip="nonsense"), pytest.raises(OptionError, match="there is no pass 'nonsense'"):
        gt.compile(f)(X[:1])


def test_kernels_can_be_timed():
    with gt.config(time=1):
        f = gt.compile(row_norm)
        np.testing.assert_allclose(f(X).numpy(), row_norm(X).numpy(), rtol=1e-6)
        assert "-DGT_TIME=1" in f.compiled.library.path.parent.joinpath("entry.json").read_text()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64", "arm64"), reason="no mode to flush that we know of")
def test_denormal_numbers_count_as_zero_where_it_is_asked_and_nowhere_else():
    tiny = np.array([1e-40, 1.0, 1e-38], np.float32)
    table = np.ones((3, 2), np.float32)

    def f(x, table, row):
        return x * 0.5, gt.sum(gt.take(table, row, axis=0)) * 0

    def apart(result):
        halves = np.array([5e-41, 0.5, 5e-39], np.float32)
        assert (tiny * np.float32(0.5) == halves).all()  # in this thread nothing has changed
        return [float(a) for a in result[0].numpy()] == [float(a) for a in halves]

    row, beyond = np.array([0], np.int64), np.array([3], np.int64)
    assert apart(gt.compile(f)(tiny, table, row))
    with gt.config(flush=1):
        flushing = gt.compile(f)
        result = flushing(tiny, table, row)
    assert not apart(result) and result[0].numpy().tolist() == [0, 0.5, 0]
    with pytest.raises(IndexError):
        flushing(tiny, table, beyond)
    again = gt.compile(f)
    assert apart(again(tiny, table, row))
    assert ["gt_flush()" in fn.compiled.c_source for fn in (flushing, again)] == [True, False]


def test_moments_of_a_gradient_that_stays_zero_are_zero_in_a_flushing_step():
    """Adam's moments shrink with each step: to nothing, or else to denormal numbers that nothing ends."""
    rows, left = np.tile(np.array([0, 1], np.float32), (3000, 1)), {}
    for flush in (0, 1):
        with gt.config(flush=flush):
            train = gt.TrainStep(
                lambda w, x: gt.sum(w * x), np.ones(2, np.float32), gt.optim.adam(1e-3), gt.spec((1, 2))
            )
        train(np.ones((1, 2), np.float32))
        train.fit(rows, batch_size=1)
        left[flush] = train.state["optimizer"]["m"].copy()
        np.testing.assert_allclose(train.params[1], 1 - 3.001, rtol=1e-3)
    assert 0 < left[0][0] < 1e-38 and left[1][0] == 0 and left[0][1] == left[1][1]


def test_the_settings_of_the_trace_count():
    with gt.config(cflags="-DNOTHING=1"):
        lowered = gt.compile(row_norm).trace(X).lower()
    entry = lowered.compile().compiled.library.path.parent / "entry.json"
    assert "-DNOTHING=1" in entry.read_text()


@pytest.mark.parametrize("name, value", [("cflags", "-ffast-math"), ("blas", "mkl"), ("sanitize", "nothing")])
def test_settings_that_mean_nothing_are_refused(name, value):
    with gt.config(**{name: value}), pytest.raises(OptionError, match=f"GT_{name.upper()}"):
        gt.compile(row_norm)(X)


def test_kernels_are_timed_and_told_at_the_end(tmp_path):
    code = "import gtensor as gt; f = gt.compile(lambda x: gt.sum(gt.tanh(x) @ x)); [f(gt.ones((4, 4))) for _ in 'abc']"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path) | {"GT_TIME": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0 and "us in kernels" in done.stderr, done.stderr
    rows = [line.split() for line in done.stderr.splitlines() if "%" in line]
    assert rows and all(row[2] == "3" for row in rows)

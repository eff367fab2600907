"""The cache of compiled models: its key (B01, B03), builders that race or die (B04), awkward folder names (B06)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time

import numpy as np
import pytest

import gtensor as gt
from gtensor.codegen import blas, machine, toolchain
from gtensor.codegen.blas import Provider
from gtensor.codegen.folder import LAYOUT

from .processes import AWKWARD, PATIENCE, ROOT, WARM, CountedCompiler, answer, finish, run, script, start

PROCESSES = int(os.environ.get("TEST_PROCESSES", "8"))
"""How many processes race in B04: TEST_PROCESSES=20 for the number of the report."""

X = np.array([1, 2], np.float32)


@pytest.fixture
def settings(tmp_path):
    """An empty cache and a compiler whose starts are counted, in force in this process."""
    compiler = CountedCompiler(tmp_path)
    with gt.config(cache=tmp_path / "cache", cc=str(compiler.path)):
        yield compiler


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache that knows the compiler."""
    cache = tmp_path_factory.mktemp("warm") / "cache"
    run(WARM, GT_CACHE=cache)
    return cache


@pytest.fixture
def cache(warm, tmp_path):
    """A cache of the test's own that knows the compiler and holds no model of a test."""
    return shutil.copytree(warm, tmp_path / "cache")


def hit(fn, *args, **options):
    """Whether the compiled function was in the cache."""
    step = gt.compile(fn, **options)
    step(*args)
    return step.compiled.hit


# ---- B01 --------------------------------------------------------------------------------------------------

FAMILY = """
import functools, json, sys
import numpy as np
import gtensor as gt

x, m = np.array([1, 2], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)

def times(k):
    return lambda x: x * k

def along(axis):
    return lambda x: gt.sum(m * x[0], axis=axis)

def reduced(x, how):
    return gt.sum(x) if how == "sum" else gt.max(x)

def beside(flag):
    def f(x):
        return x + 1 if flag else x - 1
    return f

class Scale:
    def __init__(self, k):
        self.k = k
    def __call__(self, x):
        return gt.tanh(x) * self.k

constants = [2.0, 3.0, np.nextafter(2.0, 3.0), -2.0, 0.0, -0.0, float("nan"), True]
constants += [np.float32(2.5), np.float64(2.5)]
constants += [np.array([2, 2], np.int32), np.array([2, 2], np.float32), np.array(2, np.float32)]
family = [times(k) for k in constants]
family += [along(axis) for axis in (None, 1)] + [beside(flag) for flag in (True, False)]
family += [functools.partial(reduced, how=how) for how in ("sum", "max")] + [Scale(1.5), Scale(2.5)]
family += [lambda x, k=k: gt.clip(x, 0.0, k) for k in (1.0, 1.5)]
family += [lambda x, d=d: gt.astype(x, d) for d in (gt.int32, gt.int64)]
family += [lambda x, n=n: gt.grad(lambda x: gt.sum(x**n))(x) for n in (4, 5)]

out = []
for f in family:
    step = gt.compile(f)
    compiled, eager = np.asarray(step(x)), np.asarray(f(gt.tensor(x)))
    assert compiled.dtype == eager.dtype and compiled.shape == eager.shape
    np.testing.assert_allclose(compiled, eager, rtol=1e-6)
    out.append([step.compiled.hit, compiled.tobytes().hex()])
print(json.dumps(out))
"""


def test_B01_what_a_function_holds_is_part_of_its_key(cache):
    """A key made of the function's code alone takes `make(2.0)` and `make(3.0)` for one function, now or from disk in
    the next process. Functions that differ in one captured number, its type or sign, an option, a branch or an
    attribute each have an entry of their own, and the next process finds each.
    """
    first, second = (answer(FAMILY, GT_CACHE=cache) for _ in "ab")
    assert not any(hit for hit, _ in first)
    assert all(hit for hit, _ in second)
    assert [result for _, result in first] == [result for _, result in second]


def test_B01_the_two_functions_of_the_report():
    """`make(2.0)` and `make(3.0)` in one process."""

    def make(k):
        return gt.compile(lambda x: x * k)

    f, g = make(2.0), make(3.0)
    assert [f(X).tolist(), g(X).tolist(), f(X).tolist()] == [[2, 4], [3, 6], [2, 4]]


def test_B01_a_captured_array_is_read_at_each_call():
    """A change inside a captured array, or of a tensor's value, is seen by the next call: in one compiled function, and
    in training. Nothing is compiled anew, since only the type is part of the key.
    """
    k, leaf = np.array([2, 3], np.float32), gt.tensor([1.0, 1.0])
    step = gt.compile(lambda x: (x * k, x + leaf))
    assert [out.tolist() for out in step(X)] == [[2, 6], [2, 3]]
    k[:] = [10, 100]
    leaf.assign_([5.0, 6.0])
    assert [out.tolist() for out in step(X)] == [[10, 200], [6, 8]]
    train = gt.TrainStep(lambda w, x: gt.sum(w * x * k), gt.ones(2), gt.optim.sgd(0.0), gt.spec((2,)))
    assert train(X) == 210
    k[:] = 1
    assert train(X) == 3


HELPER = """
import gtensor as gt
SCALE = 2.0
def helper(x):
    return gt.tanh(x * SCALE) + 1
"""

USES_HELPER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import gtensor as gt
import helpers_of_b01 as h
x = np.array([1, 2], np.float32)
step = gt.compile(lambda x: h.helper(x) * 2)
train = gt.TrainStep(lambda w, x: gt.sum(w * h.helper(x)), gt.ones(2), gt.optim.sgd(0.1), gt.spec((2,)))
print(json.dumps([step(x).tolist(), train(x), step.compiled.hit, train.compiled.hit]))
"""


EDITS = {
    "nothing": (("2.0", "2.0"), lambda x: np.tanh(x * 2) + 1),
    "a global": (("2.0", "3.0"), lambda x: np.tanh(x * 3) + 1),
    "a call": (("tanh", "sinh"), lambda x: np.sinh(x * 2) + 1),
    "a sign": (("+ 1", "- 1"), lambda x: np.tanh(x * 2) - 1),
}


def test_B01_an_edited_helper_in_another_file_is_seen(cache, tmp_path):
    """A key made of the main function's own source gives the old result after an edit of what it calls. The edits keep
    the file's size and time; undone, they find the old entries again.
    """
    path = tmp_path / "helpers_of_b01.py"
    for known, edits in ((False, EDITS), (True, list(EDITS)[:2])):
        for what in edits:
            edit, meaning = EDITS[what]
            path.write_text(HELPER.replace(*edit))
            os.utime(path, (1e9, 1e9))
            *results, hit, trained = answer(USES_HELPER, tmp_path, GT_CACHE=cache, PYTHONDONTWRITEBYTECODE="1")
            assert (hit, trained) == (known, known), what
            np.testing.assert_allclose(results[0], 2 * meaning(X), rtol=1e-5, err_msg=what)
            np.testing.assert_allclose(results[1], meaning(X).sum(), rtol=1e-5, err_msg=what)


# ---- B03 --------------------------------------------------------------------------------------------------


def plain(x):
    return gt.tanh(x) * 3


def other_cpu(patch, tmp_path):
    patch.setattr(machine, "cpu", lambda: "another CPU")
    return {}


def other_compiler_version(patch, tmp_path):
    probe = toolchain.probe

    def newer(*args):
        found = probe(*args)
        return type(found)(**{**vars(found), "version": found.version + " patched"})

    patch.setattr(toolchain, "probe", newer)
    os.utime(tmp_path / "counted-cc", (1e9, 1e9))
    return {}


def other_meaning_of_native(patch, tmp_path):
    probe = toolchain.probe

    def wider(*args):
        found = probe(*args)
        return type(found)(**{**vars(found), "resolved": found.resolved + " -mnew"})

    patch.setattr(toolchain, "probe", wider)
    os.utime(tmp_path / "counted-cc", (2e9, 2e9))
    return {}


def other_blas(**changed):
    def change(patch, tmp_path):
        found = {"name": "scipy-openblas32", "path": "/lib/blas.so", "version": "1", "prefix": "scipy_"} | changed
        patch.setitem(blas.FINDERS, "scipy-openblas32", lambda workshop: Provider(**found))
        return {}

    return change


def other_gtensor(patch, tmp_path):
    patch.setattr(gt, "__version__", "0.0.0")
    return {}


CHANGES = {
    "CPU": other_cpu,
    "compiler version": other_compiler_version,
    "meaning of -march=native": other_meaning_of_native,
    "compiler path": lambda patch, tmp_path: {"cc": str(CountedCompiler(tmp_path, "other-cc").path)},
    "flags": lambda patch, tmp_path: {"cflags": "-O2"},
    "BLAS path": other_blas(),
    "BLAS version": other_blas(version="2"),
    "no BLAS": lambda patch, tmp_path: {"blas": "none"},
    "version of gtensor": other_gtensor,
    "passes left out": lambda patch, tmp_path: {"skip": "algebra"},
    "timing": lambda patch, tmp_path: {"time": 1},
}


def test_B03_each_change_is_a_miss_and_no_change_a_hit(settings, monkeypatch, tmp_path):
    """Machine code for another CPU, of another compiler, for another BLAS must not be loaded; code for this machine
    must be found, without starting a compiler. Each change compiles anew, once; undoing it finds the first entry.
    """
    assert not hit(plain, X) and hit(plain, X)
    kept = settings.count
    assert kept > 0
    for what, change in CHANGES.items():
        with monkeypatch.context() as patch, gt.config(**change(patch, tmp_path)):
            assert not hit(plain, X), f"{what} is not in the key"
            assert hit(plain, X), f"{what}: compiled again"
    os.utime(settings.path, (1e9, 1e9))
    with gt.config(blas="scipy-openblas32"):
        assert hit(plain, X), "the default BLAS, named"
    before = settings.count
    assert hit(plain, X)
    assert settings.count == before


SECOND = """
import json, sys
started = []
sys.addaudithook(lambda event, args: started.append(event) if event in (
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn"
) else None)
import numpy as np
import gtensor as gt
x = np.ones((4, 3), np.float32)

def loss(p, x):
    return gt.mean(gt.tanh(x @ p["w"]) ** 2)

train = gt.TrainStep(loss, {"w": np.ones((3, 3), np.float32)}, gt.optim.adam(0.1), gt.spec((4, 3)))
step = gt.compile(lambda x: gt.softmax(x @ gt.ones((3, 300)) @ gt.ones((300, 5))), donate="x")
dims = gt.compile(lambda x: gt.sum(x, axis=0)).trace(gt.spec(("B", 3), max={"B": 9})).lower().compile()
numbers = [train(x), step(x.copy()).numpy().sum().item(), dims(x).tolist()]
numbers.append(train.bind(lambda p, x: x @ p["w"], gt.spec((4, 3)))(x).tolist())
numbers.append(train.fit(np.ones((10, 3), np.float32), epochs=2, progress=False).losses.tolist())
print(json.dumps([numbers, [train.compiled.hit, step.compiled.hit, dims.compiled.hit], started]))
"""


def test_B03_the_next_process_compiles_nothing(tmp_path):
    """On the same machine every kind of model is found: plain, with donation, with run-time extents, resident, bound,
    and the steps of another batch size that `fit` makes. No process is started for it, and the cache may have moved.
    """
    compiler = CountedCompiler(tmp_path)
    first = answer(SECOND, GT_CACHE=tmp_path / "cache", GT_CC=compiler.path)
    assert first[1] == [False] * 3 and "subprocess.Popen" in first[2]
    count = compiler.count
    shutil.copytree(tmp_path / "cache", tmp_path / "moved")
    for name in ("cache", "moved"):
        numbers, hits, started = answer(SECOND, GT_CACHE=tmp_path / name, GT_CC=compiler.path)
        assert (numbers, hits, started) == (first[0], [True] * 3, [])
    assert compiler.count == count


# ---- B04 --------------------------------------------------------------------------------------------------

RACER = """
import sys, time
from pathlib import Path
import numpy as np
import gtensor as gt
print("ready", flush=True)
deadline = time.monotonic() + 120
while not Path(sys.argv[1]).exists() and time.monotonic() < deadline:
    time.sleep(0.002)
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
step = gt.compile(lambda x: gt.tanh(x @ gt.reshape(x, (3, 4)))).trace(gt.spec((4, 3))).lower().compile()
print(step(x).numpy().tobytes().hex(), step.compiled.hit)
"""


def racers(count, go, **variables):
    """Processes that wait for a file before they compile the same function."""
    processes = [start(RACER, go, **variables) for _ in range(count)]
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    return processes


def slow_compiler(folder):
    """A compiler that takes its time over the model, but not over what is asked of it first."""
    return script(folder / "slow-cc", 'case "$*" in *lambda*) sleep 0.3;; esac\nexec cc "$@"')


def wait_for_draft(cache, process):
    """Wait until a process is in the middle of its compile of the model."""
    deadline = time.monotonic() + PATIENCE
    while True:
        drafts = (cache / LAYOUT / "drafts").glob(f"*.{process.pid}.*/lambda.c")
        if next(drafts, None) is not None:
            return
        assert time.monotonic() < deadline and process.poll() is None, process.stderr.read()
        time.sleep(0.002)


def watch(cache, processes):
    """Until the processes end: an entry that can be seen is whole."""
    deadline = time.monotonic() + PATIENCE
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        for entry in (cache / LAYOUT / "entries").glob("*"):
            assert (entry / "entry.json").exists() or not entry.exists()
        time.sleep(0.001)


def rest(cache):
    """All that is in a cache besides its entries, their bytes in all and the remembered facts."""
    entries = cache / LAYOUT / "entries"
    left = [path for path in (cache / LAYOUT).rglob("*") if path.is_file() and entries not in path.parents]
    inside = [path for path in entries.glob("*/*") if path.is_dir()]
    return sorted(path.name for path in (*left, *inside) if path.name not in ("facts.json", "total"))


def model_of(cache):
    """The folder of the entry of the racers' function; there is one."""
    (source,) = (cache / LAYOUT / "entries").glob("*/lambda.c")
    return source.parent


def test_B04_many_processes_compile_the_same_at_once(tmp_path):
    """Behind a barrier, with nothing cached, not even what the compiler is: one is killed in the middle of its compile,
    the others all end well with the same numbers and wait for nobody. No half-written file is ever loaded.
    """
    cache, go = tmp_path / "cache", tmp_path / "go"
    variables = {"GT_CACHE": cache, "GT_CC": slow_compiler(tmp_path)}
    processes = racers(PROCESSES, go, **variables)
    go.touch()
    victim = processes.pop()
    wait_for_draft(cache, victim)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    watch(cache, processes)
    numbers = {finish(process).split()[0] for process in processes}
    assert len(numbers) == 1
    entry = model_of(cache)
    assert finish(*racers(1, go, **variables)).split() == [*numbers, "True"]

    for harm in (2, 1):
        library = next(entry.glob("*.so"))
        os.truncate(library, library.stat().st_size // 2 if harm == 2 else 0)
        assert finish(*racers(1, go, **variables)).split() == [*numbers, "False"]
        assert finish(*racers(1, go, **variables)).split() == [*numbers, "True"]
    assert model_of(cache).name == entry.name
    assert rest(cache) == []


def test_B04_nobody_waits_for_a_builder_that_stopped(cache, tmp_path):
    """A builder that is stopped in the middle of its compile holds no lock: the others finish before it goes on, and
    when it does it uses what they made.
    """
    go, variables = tmp_path / "go", {"GT_CACHE": cache, "GT_CC": slow_compiler(tmp_path)}
    go.touch()
    (sleeper,) = racers(1, go, **variables)
    wait_for_draft(cache, sleeper)
    sleeper.send_signal(signal.SIGSTOP)
    try:
        numbers = [finish(process).split()[0] for process in racers(2, go, **variables)]
    finally:
        sleeper.send_signal(signal.SIGCONT)
    assert {finish(sleeper).split()[0], *numbers} == {numbers[0]}
    assert finish(*racers(1, go, **variables)).split() == [numbers[0], "True"]
    assert rest(cache) == []


def others(cache):
    """The libraries in a cache that are not the racers' function: the bridge to Python and what warmed the cache up."""
    return [path for path in (cache / LAYOUT / "entries").glob("*/*.so") if path.parent != model_of(cache)]


def garbage(cache):
    for path in (model_of(cache) / "entry.json", cache / LAYOUT / "facts.json"):
        path.write_bytes(b"\0" * 100)


def gone(cache):
    next(model_of(cache).glob("*.so")).unlink()
    for path in others(cache):
        os.truncate(path, 0)


def exchanged(cache):
    shutil.copy(others(cache)[0], next(model_of(cache).glob("*.so")))
    (cache / LAYOUT / "facts.json").write_text('{"compiler": {"a": 1}, "trampoline": []}')


def another_key(cache):
    (model_of(cache) / "key.txt").write_text("another key")
    (cache / LAYOUT / "facts.json").unlink()


def test_B04_whatever_is_damaged_is_rebuilt(cache, tmp_path):
    """A cache that a full disk, a crash or a copy has damaged gives the right numbers and no message, and is whole
    again afterwards.
    """
    go = tmp_path / "go"
    go.touch()
    first = finish(*racers(1, go, GT_CACHE=cache)).split()[0]
    for harm in (garbage, gone, exchanged, another_key):
        harm(cache)
        assert finish(*racers(1, go, GT_CACHE=cache)).split() == [first, "False"], harm.__name__
    assert finish(*racers(1, go, GT_CACHE=cache)).split() == [first, "True"]
    assert rest(cache) == []


# ---- B06 --------------------------------------------------------------------------------------------------

MÁRTON = """
import json, os, sys, tempfile
import numpy as np
import gtensor as gt
from gtensor.config import get

def Márton_測試(x, größe):
    y = x * größe  # a comment that ends here */ int x; // and ??/ goes \\\\
    "%s %d \\\\n"; 測 = gt.tanh(y); return {"µ": 測, 'a "b" \\\\ */ ??/': gt.sum(測)}

x = np.array([1, 2], np.float32)
step = gt.compile(Márton_測試)
out = step(x, np.float32(2))
inside = [str(get("cache")).startswith(sys.argv[1]), tempfile.gettempdir().startswith(sys.argv[1])]
print(json.dumps([[leaf.tolist() for leaf in out.values()], step.compiled.hit, inside, step.c_source.count("*/")]))
"""


def test_B06_folders_with_spaces_quotes_and_other_letters(tmp_path):
    """Spaces, quotes, `$`, `%` and letters outside of ASCII in the folders of the user, the cache, temporary files, the
    project and the compiler, and in names and lines of the program: nothing on the way to C takes them apart.
    """
    folder = tmp_path / AWKWARD
    home, project = folder / "home", folder / "a project"
    for path in (home, project, folder / "tmp"):
        path.mkdir(parents=True)
    main = project / "Márton 測試.py"
    main.write_text(MÁRTON, encoding="utf-8")
    code = f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); runpy.run_path({main.name!r}, run_name='__main__')"
    places = {"HOME": home, "TMPDIR": folder / "tmp", "XDG_CACHE_HOME": None}
    compiler = CountedCompiler(folder)
    for variables in (
        {**places, "LC_ALL": "C"},
        {**places, "GT_CACHE": folder / "cache", "GT_CC": compiler.path},
    ):
        first, second = (answer(code, folder, cwd=project, **variables) for _ in "ab")
        assert first[1:3] == [False, [True, True]] and second[1:3] == [True, [True, True]]
        assert first[0] == second[0] and first[3] == second[3]
        np.testing.assert_allclose(first[0][0], np.tanh([2.0, 4.0]), rtol=1e-6)
    assert compiler.count > 0
    worded = {"GT_CACHE": folder / "cache", "GT_CC": f"{shlex.quote(str(compiler.path))} -g"}
    assert answer(code, folder, cwd=project, **places | worded)[0] == first[0]
    assert list((folder / "tmp").iterdir()) == []

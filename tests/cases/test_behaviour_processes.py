"""Processes: after a fork (B08), random numbers while tracing (Z01), the same bits in every run (Z03)."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import gtensor as gt

from .processes import answer, run

# ---- B08 --------------------------------------------------------------------------------------------------

FORKED = """
import multiprocessing, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads, which is meant here
import numpy as np
import gtensor as gt

x = np.random.default_rng(0).standard_normal((200, 200), np.float32)
step = gt.compile(lambda x, w: gt.tanh(x @ w) @ x)
train = gt.TrainStep(lambda w, x: gt.mean((x @ w) ** 2), x / 200, gt.optim.adam(1e-3), gt.spec((200, 200)))
expected = None

def numbers():
    return step(x, x).numpy().tobytes(), train.bind(lambda w, x: x @ w, gt.spec((200, 200)))(x).numpy().tobytes()

def child(pipe):
    first = numbers()
    loss = train(x)
    late = gt.compile(lambda x: x @ x + 1)(x).numpy()
    pipe.send((first, loss, np.isfinite(late).all().item()))
    pipe.close()

def through(context):
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,))
    process.start()
    there.close()
    result = here.recv()
    process.join()
    assert process.exitcode == 0
    return result

def by_hand():
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if numbers() == expected and isinstance(train(x), float) else 2
            os.write(sink, b"done")
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(source, 4) == b"done"

if __name__ == "__main__":
    expected = numbers()
    before = train.params.copy()
    by_hand()
    results = [through(multiprocessing.get_context(how)) for how in ("fork", "spawn")]
    assert [first == expected for first, _, _ in results] == [True, True] and all(fine for _, _, fine in results)
    assert (train.params == before).all() and numbers() == expected
    assert {loss for _, loss, _ in results} == {train(x)}

    stop = threading.Event()
    def training():
        while not stop.is_set():
            train(x)
    def compiling():
        while not stop.is_set():
            step(x, x)
            gt.compile(lambda x: x * 2)(x)
    threads = [threading.Thread(target=work) for work in (training, compiling)]
    for thread in threads:
        thread.start()
    expected = numbers()
    def one():
        pid = os.fork()
        if pid == 0:
            try:
                fine = step(x, x).numpy().tobytes() == expected[0] and isinstance(train(x), float)
                fine = fine and np.isfinite(gt.compile(lambda x: x * 2)(x).numpy()).all()
                os._exit(0 if fine else 3)
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1]
    statuses = {one() for _ in range(12)}
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == {0}, statuses
    assert step(x, x).numpy().tobytes() == expected[0]
    print("finished")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_B08_forked_and_spawned_processes_compute_the_same(tmp_path):
    """A thread pool or a lock that does not survive a fork makes the child hang in its first product, or the parent in
    its next one. Products go on in both, through BLAS and not, by os.fork and by both ways of multiprocessing, also
    when other threads of the parent are in the middle of calls, training and compiling. A hanging process fails.
    """
    main = tmp_path / "forked.py"
    main.write_text(FORKED)
    code = f"import runpy, sys; sys.argv = [{str(main)!r}]; sys.path.insert(0, {str(tmp_path)!r}); import forked"
    assert (
        run(f"{code}; runpy.run_path({str(main)!r}, run_name='__main__')", GT_CACHE=tmp_path / "cache") == "finished\n"
    )


# ---- Z01 --------------------------------------------------------------------------------------------------


def noise(shape):
    return np.random.standard_normal(shape)  # where it is drawn


DRAWS = {
    "numpy.random": lambda x: x + np.random.normal(size=x.shape),
    "through a helper": lambda x: x + noise(x.shape),
    "randn": lambda x: x * np.random.randn(),
    "integers": lambda x: x[np.random.randint(2)],
    "a permutation": lambda x: gt.take(x, np.random.permutation(2), axis=0),
    "random": lambda x: x + random.random(),
    "random.gauss": lambda x: x + random.gauss(0, 1),
    "a choice": lambda x: x + random.choice([1.0, 2.0]),
    "shuffled": lambda x: (order := [0, 1], random.shuffle(order), gt.take(x, order, axis=0))[2],
    "inside a gradient": lambda x: gt.grad(lambda x: gt.sum(x * np.random.random()))(x),
}

TRACED = {
    "traced": lambda f, x: gt.trace(f, x),
    "compiled": lambda f, x: gt.compile(f)(x),
    "trained": lambda f, x: gt.TrainStep(lambda w, x: gt.sum(f(w) * x), x, gt.optim.sgd(0.1), gt.spec((2,))),
}


@pytest.mark.parametrize("way", TRACED)
@pytest.mark.parametrize("what", DRAWS)
def test_Z01_random_numbers_drawn_while_tracing_are_an_error(what, way):
    """Numbers that Python draws while a function is traced become constants: every call returns the same sample, and
    dropout drops the same units for ever. It is refused, naming the line that draws, each time.
    """
    x = np.ones(2, np.float32)
    for _ in "ab":
        with pytest.raises(gt.errors.TraceError, match="drew random numbers while it was traced") as caught:
            TRACED[way](DRAWS[what], x)
        line = "where it is drawn" if what == "through a helper" else f'"{what}": lambda'
        assert line in str(caught.value)


def test_Z01_loading_a_library_is_no_draw(tmp_path):
    """A function that imports something while it is traced, which loads numpy.random, has drawn nothing; the next one,
    in the same process, is refused as usual.
    """
    code = (
        "import sys\nimport numpy as np\nimport gtensor as gt\n"
        "def loads(x):\n    import numpy.random\n    return x + 1\n"
        "def draws(x):\n    return x + np.random.random()\n"
        "assert 'numpy.random' not in sys.modules\nprint(gt.trace(loads, gt.spec(2)).name)\n"
        "try:\n    gt.trace(draws, gt.spec(2))\nexcept gt.errors.TraceError:\n    print('refused')\n"
    )
    assert run(code, GT_CACHE=tmp_path).split() == ["loads", "refused"]


def test_Z01_random_numbers_from_outside_are_arguments():
    """Numbers that are drawn outside and passed in differ from call to call; eager functions may draw as they like."""
    f = gt.compile(lambda x, noise: x + noise)
    rng = np.random.default_rng(0)
    results = [f(np.zeros(2, np.float32), rng.standard_normal(2, np.float32)).tolist() for _ in range(10)]
    assert len(set(map(tuple, results))) == 10
    x = gt.ones(2)
    assert DRAWS["numpy.random"](x).tolist() != DRAWS["numpy.random"](x).tolist()
    grads = [gt.grad(lambda x: gt.sum(x * np.random.random()))(x).tolist() for _ in "ab"]
    assert grads[0] != grads[1]


def test_Z01_a_key_draws_inside_the_compiled_function():
    """Ten keys give ten results of one compiled function, the same key the same bits."""
    f = gt.compile(lambda key, x: x + gt.random.normal(key, x.shape))
    x = np.zeros(2, np.float32)
    keys = [gt.random.key(0), *gt.random.split(gt.random.key(0), 9)]
    results = [tuple(f(key, x).tolist()) for key in keys]
    assert len(set(results)) == 10
    assert [tuple(f(key, x).tolist()) for key in keys] == results
    for key, result in zip(keys, results, strict=True):
        np.testing.assert_allclose(gt.random.normal(key, 2), result, rtol=4e-7)


def test_Z01_a_captured_key_is_read_at_each_call():
    """A key in an array outside, which is overwritten between two calls, as any captured array."""
    key = np.array([0, 1], np.int32)
    f = gt.compile(lambda x: x + gt.random.uniform(key, x.shape))
    x = np.zeros(3, np.float32)
    first = f(x).tolist()
    key[:] = [0, 2]
    assert f(x).tolist() == gt.random.uniform(gt.random.key(2), 3).tolist() != first


def test_Z01_tracing_leaves_the_generators_alone():
    """Compiling does not draw: what the user draws next is the same with and without it."""
    np.random.seed(5)
    random.seed(5)
    expected = np.random.random(), random.random()
    np.random.seed(5)
    random.seed(5)
    gt.compile(lambda x: gt.tanh(x) + gt.randn(2, seed=1))(np.ones(2, np.float32))
    assert (np.random.random(), random.random()) == expected


# ---- Z03 --------------------------------------------------------------------------------------------------

TRAINED = """
import hashlib, json
import numpy as np
import gtensor as gt
from benchmarks import gtensor_models as models, workloads

def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

out, hits = [], []
for name, steps in (("W1", 200), ("W2", 3)):
    params, data, opt = workloads.make(name)
    x, y = models.batch_of(name, data)
    specs = gt.spec(x.shape), gt.spec(y.shape, y.dtype)
    train = gt.TrainStep(models.loss_of(name), params, models.OPTIMIZERS[opt["kind"]](opt), *specs)
    out.append(digest(*[train(x, y) for _ in range(steps)], *train.params.values()))
    rows = np.concatenate([x] * 3), np.concatenate([y] * 3)
    out.append(digest(train.fit(*rows, epochs=2, seed=3, progress=False).losses, *train.params.values()))
    out.append(train.c_source)
    hits.append(train.compiled.hit)
step, args = models.step_of("W1")
compiled, state = gt.compile(step, donate=("params", "state")), args[:2]
for _ in range(3):
    *state, loss = compiled(*state, *args[2:])
out += [digest(*map(np.asarray, state[0].values())), compiled.c_source]
hits.append(compiled.compiled.hit)

def noisy(params, key, x, y):
    hidden = gt.nn.dropout(gt.tanh(x @ params["w"] + 0.1 * gt.random.normal(key, (16, 24))), 0.3, key)
    return gt.nn.mse_loss(hidden @ params["v"], y)

key = gt.random.key(11)
params = {"w": gt.nn.initializers.he_normal(key, (8, 24)), "v": gt.nn.initializers.orthogonal(key, (24, 3))}
rng, optimizer = np.random.default_rng(0), gt.optim.adam(1e-2)
x, y = rng.standard_normal((16, 8), np.float32), rng.standard_normal((16, 3), np.float32)

@gt.compile
def noisy_step(params, state, key, x, y):
    loss, grads = gt.value_and_grad(noisy)(params, gt.random.fold_in(key, state["step"]), x, y)
    return *optimizer.update(params, grads, state), loss

state = optimizer.init(params)
for _ in range(50):
    params, state, loss = noisy_step(params, state, key, x, y)
out += [digest(*map(np.asarray, params.values()), np.asarray(loss)), noisy_step.c_source]
hits.append(noisy_step.compiled.hit)
print(json.dumps([out, hits]))
"""


def test_Z03_every_run_gives_the_same_bits(tmp_path):
    """The same program with the same seed trains to the same bits in every process: with a fresh cache and a warm one,
    in another folder, and whatever the order of Python's sets. W1 runs on its own products, W2 on those of BLAS; a
    third model has noise and dropout. The generated C is the same text too. (One thread; a setting for more does not
    exist yet.)
    """
    fresh, fresh_hits = answer(TRAINED, GT_CACHE=tmp_path / "a", PYTHONHASHSEED="0")
    warm, warm_hits = answer(TRAINED, GT_CACHE=tmp_path / "a", PYTHONHASHSEED="1")
    other, other_hits = answer(TRAINED, GT_CACHE=tmp_path / "b", PYTHONHASHSEED="2", OPENBLAS_NUM_THREADS="1")
    assert (set(fresh_hits), set(warm_hits), set(other_hits)) == ({False}, {True}, {False})
    assert fresh == warm == other

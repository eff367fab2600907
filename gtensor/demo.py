"""`gtensor demo`: a network learns handwritten digits through one generated C function.

Comes in: scikit-learn's bundled digits (1797 pictures of 8 by 8). Goes out: what happened and how long it took, and
the accuracy on a quarter of the pictures that was held out. Everything above `main` is what a user would write.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import nn, optim
from .errors import GTensorError
from .nn.activations import relu
from .resident import Array
from .trace import spec
from .train import TrainStep
from .types import int64

SIZES = (64, 128, 64, 10)
BATCH = 32
Params = dict[str, Any]


def init(seed: int) -> Params:
    """Weights of the layers, scaled for relu, and zero biases."""
    rng = np.random.default_rng(seed)
    params: Params = {}
    for i, (n, m) in enumerate(itertools.pairwise(SIZES)):
        params[f"w{i}"] = (rng.standard_normal((n, m)) * np.sqrt(2 / n)).astype(np.float32)
        params[f"b{i}"] = np.zeros(m, np.float32)
    return params


def model(params: Params, x: Any) -> Any:
    """The scores of the ten digits: f32[B,64] to f32[B,10]."""
    h = relu(x @ params["w0"] + params["b0"])
    h = relu(h @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def digits_loss(params: Params, x: Any, y: Any) -> Any:
    """The mean cross-entropy of a batch of pictures and their labels."""
    return nn.cross_entropy(model(params, x), y)


def load() -> tuple[Array, Array, Array, Array]:
    """Pictures and labels to learn from, and the held-out quarter of both."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise GTensorError(
            "the demo learns from pictures that come with scikit-learn, which is not installed",
            hint='pip install scikit-learn, or pip install "gtensor[demo]"',
        ) from None
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = (found.data[order] / 16).astype(np.float32)
    y = found.target[order].astype(np.int64)
    held = len(y) // 4
    return x[held:], y[held:], x[:held], y[:held]


def main(quick: bool = False) -> int:
    """Run the demo and print what happens; the exit status is 0 if the network has learnt."""
    x, y, x_held, y_held = load()
    layers = "-".join(map(str, SIZES))
    print(f"\n  A network {layers} learns handwritten digits")
    print(f"  {len(y)} pictures to learn from, {len(y_held)} held out, batches of {BATCH}, adam\n")

    started = time.perf_counter()
    train = TrainStep(digits_loss, init(0), optim.adam(1e-3), spec((BATCH, 64)), spec((BATCH,), int64))
    first = train(x[:BATCH], y[:BATCH])
    ready = time.perf_counter() - started

    times, hit = train.compiled.times, train.compiled.hit
    equations, kernels = len(train.graph.eqns), "from the cache" if hit else "compiled now"
    _row("trace", f"{1e3 * times.trace:.1f} ms", f"{equations} equations: loss, gradients, optimizer")
    _row("cache", f"{1e3 * times.find:.1f} ms", "hit" if hit else "miss: this step was not compiled before")
    if not hit:
        _row("simplify", f"{1e3 * times.lower:.1f} ms", "and group into loops")
        _row("compile", f"{times.build:.2f} s", "write the C, and run the compiler on it")
    _row("first step", f"{1e3 * ready:.1f} ms", f"after TrainStep(...) began, {kernels}; loss {first:.3f}")
    print()

    epochs = 10 if quick else 40
    history = train.fit(x, y, batch_size=BATCH, epochs=epochs, seed=0)
    predict = train.bind(model, spec(("B", 64), max={"B": 512}))
    right = float((predict(x_held).numpy().argmax(axis=1) == y_held).mean())

    print()
    for epoch in sorted({0, epochs // 4, epochs // 2, epochs - 1}):
        _row(f"epoch {epoch + 1}", f"{history.epochs[epoch].loss:.5f}", "mean loss")
    _row("accuracy", f"{100 * right:.1f} %", f"of the {len(y_held)} pictures it has never seen")
    speed, count = history.steps_per_second, len(history.losses)
    _row("speed", f"{speed:,.0f}", f"steps per second, {count} steps in {history.seconds:.2f} s")
    print("\n  The C that did it:")
    for path in train.compiled.files:
        print(f"    {shown(path)}")
    if not hit:
        print("\n  Run it again: the step then comes from the cache.")
    print()
    return 0 if right >= (0.9 if quick else 0.97) else 1


def shown(path: Path) -> str:
    """A path as a reader of the terminal wants it: below ~ where it is."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def _row(what: str, value: str, note: str) -> None:
    print(f"  {what:<12}{value:>10}  {note}")

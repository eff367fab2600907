"""A small network learns the sine from samples, with AdamW and a learning rate that rises and falls.

The schedule is part of the compiled step, which counts its own steps. Weights decay, biases do not. You see the
largest error over the whole interval.
"""

import argparse

import numpy as np

import gtensor as gt


def init(key):
    keys = gt.random.split(key, 3)
    sizes = [(1, 32), (32, 32), (32, 1)]
    return [
        {"w": gt.nn.initializers.glorot_normal(k, size), "b": gt.zeros(size[1])}
        for k, size in zip(keys, sizes, strict=True)
    ]


def model(layers, x):
    for layer in layers[:-1]:
        x = gt.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def loss_fn(layers, x, y):
    return gt.nn.mse_loss(model(layers, x), y)


def main(quick=False):
    x = np.random.default_rng(1).uniform(-np.pi, np.pi, (1024, 1)).astype(np.float32)
    epochs, batch = 200 if quick else 1000, 64
    rate = gt.optim.warmup_cosine(1e-2, warmup=100, steps=epochs * len(x) // batch)
    optimizer = gt.optim.groups({"*.b": gt.optim.adam(rate), "*": gt.optim.adamw(rate, weight_decay=1e-3)})
    train = gt.TrainStep(loss_fn, init(gt.random.key(0)), optimizer, gt.spec((batch, 1)), gt.spec((batch, 1)))
    history = train.fit(x, np.sin(x), epochs=epochs, seed=0)

    grid = np.linspace(-np.pi, np.pi, 629, dtype=np.float32)[:, None]
    error = float(np.abs(model(train.params, grid) - np.sin(grid)).max())
    print(f"mean squared error {history.losses[0]:.3f} -> {history.epochs[-1].loss:.2e}")
    print(f"largest error on [-pi, pi]: {error:.4f}, after {len(history.losses)} steps in {history.seconds:.2f} s")
    return {"error": error}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

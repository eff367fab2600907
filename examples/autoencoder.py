"""An autoencoder finds that pictures of 64 pixels have only two degrees of freedom.

Each picture shows one bright spot somewhere on 8 by 8 pixels. The network has to pass it through two numbers and
draw it again. You see how much of the pictures' variance it keeps, beside what the best linear code of two numbers
keeps (principal components), and one picture before and after.
"""

import argparse
import itertools

import numpy as np

import gtensor as gt

SIDE = 8
SIZES = (SIDE * SIDE, 64, 2, 64, SIDE * SIDE)


def init(key):
    layers = list(itertools.pairwise(SIZES))
    glorot = gt.nn.initializers.glorot_normal
    return [
        {"w": glorot(k, size), "b": gt.zeros(size[1])}
        for k, size in zip(gt.random.split(key, len(layers)), layers, strict=True)
    ]


def encode(params, x):
    hidden = gt.tanh(x @ params[0]["w"] + params[0]["b"])
    return hidden @ params[1]["w"] + params[1]["b"]


def decode(params, code):
    hidden = gt.tanh(code @ params[2]["w"] + params[2]["b"])
    return hidden @ params[3]["w"] + params[3]["b"]


def reconstruct(params, x):
    return decode(params, encode(params, x))


def loss_fn(params, x):
    return gt.nn.mse_loss(reconstruct(params, x), x)


def spots(count, seed):
    """Pictures f32[count,64] of a spot around a random place, values from 0 to 1."""
    place = np.random.default_rng(seed).uniform(1, SIDE - 2, (2, count, 1))
    row, column = np.exp(-((np.arange(SIDE) - place) ** 2) / 4)
    return (row[:, :, None] * column[:, None, :]).reshape(count, -1).astype(np.float32)


def draw(*pictures):
    """Pictures side by side, in characters."""
    levels = np.concatenate([picture.reshape(SIDE, SIDE) for picture in pictures], axis=1)
    shades = np.clip(9 * levels, 0, 9).astype(int)
    return "\n".join("".join(2 * " .:-=+*#%@"[shade] for shade in row) for row in shades)


def main(quick=False):
    x, x_held = spots(4096, seed=1), spots(512, seed=2)
    train = gt.TrainStep(loss_fn, init(gt.random.key(0)), gt.optim.adam(3e-3), gt.spec((64, SIDE * SIDE)))
    train.fit(x, epochs=20 if quick else 200, seed=0)

    variance = np.square(x_held - x.mean(axis=0)).mean()
    kept = 1 - train.evaluate(x_held) / float(variance)
    spectrum = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    linear = float(spectrum[:2].sum() / spectrum.sum())
    print(f"variance kept by two numbers: {kept:.2%}; by two principal components: {linear:.2%}")
    print(draw(x_held[0], reconstruct(train.params, x_held[0]).numpy()))
    return {"kept": kept, "linear": linear}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

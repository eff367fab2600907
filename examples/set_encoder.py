"""An attention set encoder learns the mean of its input window, dimension by dimension.

The embedding of each element fans out to queries, keys, values and the residual, so its gradient is the sum of four.
The summary is read at the first element alone, which sees the others only through attention: it has to learn to look
at all of them alike. You see the loss go to nearly nothing, on windows that were held out, and where it looks.
"""

import argparse

import numpy as np

import gtensor as gt

WINDOW, SIZE, WIDTH = 8, 4, 16


def init(key):
    square = (WIDTH, WIDTH)
    shapes = {"embed": (SIZE, WIDTH), "q": square, "k": square, "v": square, "out": (WIDTH, SIZE)}
    keys = gt.random.split(key, len(shapes))
    glorot = gt.nn.initializers.glorot_normal
    return {name: glorot(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}


def encode(params, window):
    """A summary of each window: f32[B,8,4] to f32[B,4]."""
    e = window @ params["embed"]
    attended = gt.nn.scaled_dot_product_attention(e @ params["q"], e @ params["k"], e @ params["v"])
    return (e + attended)[:, 0] @ params["out"]


def looks(params, window):
    """How much the first element looks at each: f32[B,8,4] to f32[B,8]."""
    e = window @ params["embed"]
    scores = e @ params["q"] @ gt.matrix_transpose(e @ params["k"])
    return gt.softmax(scores[:, 0] / WIDTH**0.5)


def loss_fn(params, window, mean):
    return gt.nn.mse_loss(encode(params, window), mean)


def windows(count, seed):
    """Windows f32[count,8,4] scattered around a place of their own, and their means f32[count,4]."""
    rng = np.random.default_rng(seed)
    window = rng.uniform(-1, 1, (count, 1, SIZE)) + 0.5 * rng.standard_normal((count, WINDOW, SIZE))
    return window.astype(np.float32), window.mean(axis=1).astype(np.float32)


def main(quick=False):
    data, held_out = windows(2048, seed=1), windows(512, seed=2)
    specs = gt.spec((32, WINDOW, SIZE)), gt.spec((32, SIZE))
    train = gt.TrainStep(loss_fn, init(gt.random.key(0)), gt.optim.adam(2e-3), *specs)
    before = train.evaluate(*held_out)
    train.fit(*data, epochs=20 if quick else 100, seed=0)
    after = train.evaluate(*held_out)

    weights = looks(train.params, held_out[0]).numpy()
    print(f"loss on held-out windows: {before:.3f} before, {after:.1e} after")
    print(f"weights of the {WINDOW} elements: between {weights.min():.3f} and {weights.max():.3f}")
    return {"before": before, "after": after, "least": float(weights.min()), "most": float(weights.max())}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

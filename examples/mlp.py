"""A perceptron with one hidden layer learns a smooth function of four numbers.

The whole of training is here: parameters from a key, a loss, an optimizer, one compiled step, and the loop over the
data in C. You see the loss before and after, on examples that the network was not shown.
"""

import argparse

import numpy as np

import gtensor as gt


def init(key):
    """Weights for 4 inputs, 32 hidden units and 2 outputs."""
    first, second = gt.random.split(key)
    glorot = gt.nn.initializers.glorot_uniform
    return {"w1": glorot(first, (4, 32)), "b1": gt.zeros(32), "w2": glorot(second, (32, 2)), "b2": gt.zeros(2)}


def loss_fn(params, x, y):
    hidden = gt.gelu(x @ params["w1"] + params["b1"])
    return gt.nn.mse_loss(hidden @ params["w2"] + params["b2"], y)


def examples(count, seed):
    """Inputs f32[count,4] and what is to be learned of them, f32[count,2]."""
    x = np.random.default_rng(seed).standard_normal((count, 4), dtype=np.float32)
    return x, np.stack([3 * np.sin(x[:, 0]) + x[:, 1] ** 2, 2 * x[:, 2] * x[:, 3] - 1], axis=1)


def main(quick=False):
    x, y = examples(4096, seed=1)
    held_out = examples(1024, seed=2)
    train = gt.TrainStep(loss_fn, init(gt.random.key(0)), gt.optim.sgd(0.05), gt.spec((32, 4)), gt.spec((32, 2)))
    before = train.evaluate(*held_out)
    history = train.fit(x, y, epochs=20 if quick else 200, seed=0)
    after = train.evaluate(*held_out)
    print(f"loss on held-out examples: {before:.3f} before, {after:.4f} after {len(history.losses)} steps")
    print(f"{history.steps_per_second:,.0f} steps per second")
    return {"before": before, "after": after}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

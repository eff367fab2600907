"""One attention layer learns to look things up: which value stood beside this key?

A list pairs 8 symbols in random order with random digits; the question is one of the symbols. Each pair is the sum of
two embeddings, so the layer has to find out which part of an embedding to compare and which part to pass on. You see
the accuracy on lists that were held out, and where it looks for one of them.
"""

import argparse

import numpy as np

import gtensor as gt

SYMBOLS, DIGITS, WIDTH = 8, 10, 32


def init(key):
    shapes = {"symbol": (SYMBOLS, WIDTH), "digit": (DIGITS, WIDTH), "out": (WIDTH, DIGITS)}
    shapes |= dict.fromkeys("qkv", (WIDTH, WIDTH))
    keys = gt.random.split(key, len(shapes))
    glorot = gt.nn.initializers.glorot_normal
    return {name: glorot(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}


def parts(params, symbols, digits, question):
    """Query f32[B,1,32] and keys and values f32[B,8,32] of lists of pairs and a question about each."""
    pairs = gt.nn.embedding(symbols, params["symbol"]) + gt.nn.embedding(digits, params["digit"])
    asked = gt.nn.embedding(question, params["symbol"])
    return asked @ params["q"], pairs @ params["k"], pairs @ params["v"]


def answer(params, symbols, digits, question):
    """The scores of the digits: f32[B,10]."""
    found = gt.nn.scaled_dot_product_attention(*parts(params, symbols, digits, question))
    return found[:, 0] @ params["out"]


def loss_fn(params, symbols, digits, question, wanted):
    return gt.nn.cross_entropy(answer(params, symbols, digits, question), wanted)


def lookups(count, seed):
    """Symbols and digits i64[count,8], questions i64[count,1], and the right digits i64[count]."""
    rng = np.random.default_rng(seed)
    symbols = rng.permuted(np.tile(np.arange(SYMBOLS), (count, 1)), axis=1)
    digits = rng.integers(DIGITS, size=(count, SYMBOLS))
    place = rng.integers(SYMBOLS, size=(count, 1))
    pick = np.take_along_axis
    return symbols, digits, pick(symbols, place, axis=1), pick(digits, place, axis=1)[:, 0]


def main(quick=False):
    data, (*held_out, wanted) = lookups(4096, seed=1), lookups(1000, seed=2)
    specs = [gt.spec((64, *column.shape[1:]), gt.int64) for column in data]
    train = gt.TrainStep(loss_fn, init(gt.random.key(0)), gt.optim.adam(3e-3), *specs)
    history = train.fit(*data, epochs=10 if quick else 50, seed=0)

    accuracy = float(np.mean(answer(train.params, *held_out).numpy().argmax(axis=1) == wanted))
    symbols, digits, question = held_out
    query, keys, _ = parts(train.params, *held_out)
    looks = gt.softmax(query @ gt.matrix_transpose(keys) / WIDTH**0.5)[:, 0].numpy()
    right = float(looks[symbols == question].mean())
    print(f"cross-entropy {history.losses[0]:.3f} -> {history.epochs[-1].loss:.4f}")
    print(f"accuracy on held-out lists: {accuracy:.1%}; guessing gives {1 / DIGITS:.0%}")
    print("pairs   " + "  ".join(f"{'ABCDEFGH'[s]}:{d}  " for s, d in zip(symbols[0], digits[0], strict=True)))
    print("looks   " + "  ".join(f"{w:4.2f} " for w in looks[0]) + f"   asked for {'ABCDEFGH'[question[0, 0]]}")
    print(f"weight of the right pair, mean of the held-out lists: {right:.2f}")
    return {"accuracy": accuracy, "looks": right}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

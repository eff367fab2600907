"""A small transformer learns to write Python's documentation, character by character.

Embeddings, blocks of causal attention and a perceptron, and a head that is the embedding again; AdamW with a rate
that rises and falls and a limit on the gradients, all in one compiled step. You see how many bits a character of a
part that was held out costs, beside counts of pairs and of triples, and a text drawn by a second compiled function.
"""

import argparse
from pydoc_data.topics import topics

import numpy as np

import gtensor as gt

WINDOW, WIDTH, BLOCKS, BATCH = 64, 96, 2, 16
LENGTH, TEMPERATURE = 500, 0.7
"""Characters that are written at the end; a temperature below 1 prefers the likely ones."""

ATTENTION = gt.nn.MultiHeadAttention(WIDTH, heads=4, causal=True)
PERCEPTRON = gt.nn.Sequential(gt.nn.Linear(WIDTH, 4 * WIDTH), gt.gelu, gt.nn.Linear(4 * WIDTH, WIDTH))
NORM = gt.nn.LayerNorm(WIDTH)


def init_block(key):
    parts = {"norm1": NORM, "attention": ATTENTION, "norm2": NORM, "perceptron": PERCEPTRON}
    return {name: part.init(k) for k, (name, part) in zip(gt.random.split(key, 4), parts.items(), strict=True)}


def init(key, characters):
    first, second, third, *keys = gt.random.split(key, 3 + BLOCKS)
    normal = gt.nn.initializers.normal
    return {
        "character": normal(first, (characters, WIDTH), stddev=0.05),
        "place": normal(second, (WINDOW, WIDTH), stddev=0.05),
        "blocks": [init_block(k) for k in keys],
        "norm": NORM.init(third),
    }


def scores(params, text):
    """The scores of what may follow each character: i32[B,64] to f32[B,64,C]."""
    x = gt.nn.embedding(text, params["character"]) + params["place"]
    for block in params["blocks"]:
        x = x + ATTENTION(block["attention"], NORM(block["norm1"], x))
        x = x + PERCEPTRON(block["perceptron"], NORM(block["norm2"], x))
    return NORM(params["norm"], x) @ gt.matrix_transpose(params["character"])


def loss_fn(params, text):
    """Nats per character: in pieces of 65, i32[B,65], the last 64 are predicted."""
    return gt.nn.cross_entropy(gt.matrix_transpose(scores(params, text[:, :-1])), text[:, 1:])


def write(params, text, key):
    """What is drawn to follow 64 characters, i32[LENGTH]: each one enters the window, and the first leaves it."""

    def draw(window, key):
        drawn = gt.random.categorical(key, scores(params, window[None])[0, -1] / TEMPERATURE)
        return gt.concat([window[1:], gt.astype(drawn, gt.int32)[None]]), drawn

    return gt.scan(draw, text, gt.random.split(key, LENGTH))[1]


def documentation():
    """The help topics of this Python, each paragraph once: (alphabet, i32[N] for training, i32[M] held out)."""
    paragraphs = dict.fromkeys("\n\n".join(topics.values()).split("\n\n"))
    text = np.frombuffer("\n\n".join(paragraphs).encode("ascii", "ignore"), np.uint8)
    alphabet, codes = np.unique(text, return_inverse=True)
    codes = codes.astype(np.int32)
    return alphabet, *np.split(codes, [len(codes) * 9 // 10])


def pieces(codes, stride):
    """Full batches of pieces of 65 characters, one every `stride` characters: i32[n,65]."""
    found = np.lib.stride_tricks.sliding_window_view(codes, WINDOW + 1)[::stride]
    return found[: len(found) // BATCH * BATCH]


def counted(codes, held_out, characters, before):
    """Nats per character of the held-out part, by counts of what followed the same `before` characters."""

    def runs(text):
        return tuple(text[i : len(text) - before + i] for i in range(before + 1))

    counts = np.full((characters,) * (before + 1), 0.1)  # smoothing: 1, 0.3, 0.03 and 0.01 are worse for triples
    np.add.at(counts, runs(codes), 1)
    chances = counts / counts.sum(axis=-1, keepdims=True)
    return -np.log(chances[runs(held_out)]).mean()


def main(quick=False):
    alphabet, codes, held_out = documentation()
    data, epochs = (pieces(codes, stride=64), 1) if quick else (pieces(codes, stride=32), 6)
    rate = gt.optim.warmup_cosine(3e-3, warmup=100, steps=epochs * len(data) // BATCH, end=1e-4)
    optimizer = gt.optim.chain(gt.optim.clip_by_global_norm(1.0), gt.optim.adamw(rate, weight_decay=0.1))
    params = init(gt.random.key(0), len(alphabet))
    train = gt.TrainStep(loss_fn, params, optimizer, gt.spec((BATCH, WINDOW + 1), gt.int32))
    history = train.fit(data, epochs=epochs, seed=0)

    nats = {
        "pairs": counted(codes, held_out, len(alphabet), before=1),
        "triples": counted(codes, held_out, len(alphabet), before=2),
        "transformer": train.evaluate(pieces(held_out, stride=WINDOW)),
    }
    bits = {name: float(value / np.log(2)) for name, value in nats.items()}
    start = alphabet[held_out].tobytes().index(b"\n\n", WINDOW) + 2  # of a paragraph
    writer = train.bind(write, gt.spec((WINDOW,), gt.int32), gt.random.key(0))
    written = writer(held_out[start - WINDOW : start], gt.random.key(1)).numpy()
    print(f"{len(codes):,} characters of {len(alphabet)} kinds, {len(held_out):,} more held out")
    print(f"{len(history.losses):,} steps at {history.steps_per_second:.1f} per second")
    print("bits per character of the held-out part: " + ", ".join(f"{k} {v:.2f}" for k, v in bits.items()) + "\n")
    print(alphabet[written].tobytes().decode())
    return bits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

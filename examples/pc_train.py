"""A predictive coding network learns to tell a ring from its middle by inference and Hebbian updates.

No gradient is taken anywhere. While the network learns, inputs and labels are held and the hidden activity settles
where the errors of both layers balance; then each weight changes by the product of what comes in below and the error
above, which are both at hand where the weight is. All of that is one compiled step over the weights. You see the
energy fall, and the accuracy on points that were held out.
"""

import argparse

import numpy as np
from tqdm import trange

import gtensor as gt

BATCH, HIDDEN, STEPS = 50, 32, 20
SETTLE, RATE = 0.05, 0.2


def init(key):
    first, second = gt.random.split(key)
    glorot = gt.nn.initializers.glorot_normal
    w1, w2 = glorot(first, (2, HIDDEN)), glorot(second, (HIDDEN, 1))
    return {"w1": w1, "b1": gt.zeros(HIDDEN), "w2": w2, "b2": gt.zeros(1)}


def predict(params, below):
    """What the hidden layer should be, given the input: f32[B,2] to f32[B,HIDDEN]."""
    return gt.tanh(below @ params["w1"] + params["b1"])


def score(params, hidden):
    """What the label should be, given the hidden layer: f32[B,HIDDEN] to f32[B,1]."""
    return hidden @ params["w2"] + params["b2"]


def learn(params, x, label):
    """Inference, then one Hebbian update: (parameters, energy)."""
    expected = predict(params, x)

    def settle(hidden, _):
        error = hidden - expected, label - score(params, hidden)
        return hidden + SETTLE * (error[1] @ params["w2"].T - error[0]), None

    hidden, _ = gt.scan(settle, expected, length=STEPS)
    above = label - score(params, hidden)
    below = (hidden - expected) * (1 - expected * expected)
    return {
        "w1": params["w1"] + RATE * (x.T @ below) / BATCH,
        "b1": params["b1"] + RATE * gt.mean(below, axis=0),
        "w2": params["w2"] + RATE * (hidden.T @ above) / BATCH,
        "b2": params["b2"] + RATE * gt.mean(above, axis=0),
    }, 0.5 * (gt.sum(above**2) + gt.sum((hidden - expected) ** 2)) / BATCH


def rings(count, seed):
    """Points f32[count,2], and the labels f32[count,1]: 1 in the middle, -1 on the ring around it."""
    rng = np.random.default_rng(seed)
    label = rng.choice(np.array([-1, 1], np.float32), size=(count, 1))
    radius = np.where(label > 0, 0.6, 1.6) + 0.2 * rng.standard_normal((count, 1))
    angle = rng.uniform(0, 2 * np.pi, (count, 1))
    return (radius * np.concatenate([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32), label


def main(quick=False):
    x, label = rings(2000, seed=1)
    x_held, label_held = rings(1000, seed=2)
    step = gt.Resident(learn, init(gt.random.key(0)), [gt.spec((BATCH, 2)), gt.spec((BATCH, 1))])
    rng, energies = np.random.default_rng(0), []
    for _ in trange(40 if quick else 200, desc="epochs", disable=None):
        for rows in rng.permutation(len(x)).reshape(-1, BATCH):
            energies.append(float(step(x[rows], label[rows])))

    guess = score(step.state, predict(step.state, x_held)).numpy()
    accuracy = float(np.mean(np.sign(guess) == label_held))
    print(f"energy {energies[0]:.3f} -> {np.mean(energies[-40:]):.4f} in {len(energies)} steps")
    print(f"accuracy on held-out points: {accuracy:.1%}")
    return {"first": energies[0], "last": float(np.mean(energies[-40:])), "accuracy": accuracy}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

"""A classifier tells three clouds of points apart by cross-entropy.

Labels are integers. A second function, compiled over the same parameters, predicts the class of any number of
points, and the accuracy is taken on points that were held out. Beside it stands the accuracy of the best possible
classifier, which knows the clouds: they overlap, so nobody gets them all.
"""

import argparse

import numpy as np

import gtensor as gt

CENTRES = np.array([[0.0, 1.5], [-1.3, -0.8], [1.3, -0.8]], np.float32)


def init(key):
    first, second = gt.random.split(key)
    he = gt.nn.initializers.he_normal
    return {"w1": he(first, (2, 16)), "b1": gt.zeros(16), "w2": he(second, (16, 3)), "b2": gt.zeros(3)}


def scores(params, x):
    """The unnormalized log probabilities of the classes: f32[B,2] to f32[B,3]."""
    return gt.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss_fn(params, x, labels):
    return gt.nn.cross_entropy(scores(params, x), labels)


def blobs(count, seed):
    """Points f32[count,2] around the centres, and which centre: i64[count]."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(CENTRES), size=count)
    return CENTRES[labels] + 0.7 * rng.standard_normal((count, 2), dtype=np.float32), labels


def main(quick=False):
    x, labels = blobs(3000, seed=1)
    x_held, labels_held = blobs(1000, seed=2)
    specs = gt.spec((50, 2)), gt.spec((50,), gt.int64)
    train = gt.TrainStep(loss_fn, init(gt.random.key(0)), gt.optim.adam(1e-2), *specs)
    history = train.fit(x, labels, epochs=5 if quick else 30, seed=0)

    predict = train.bind(lambda params, x: gt.argmax(scores(params, x), axis=1), gt.spec(("B", 2), max={"B": 1000}))
    accuracy = float(np.mean(predict(x_held).numpy() == labels_held))
    nearest = np.linalg.norm(x_held[:, None] - CENTRES, axis=2).argmin(axis=1)
    best = float(np.mean(nearest == labels_held))
    print(f"cross-entropy {history.losses[0]:.3f} -> {history.epochs[-1].loss:.3f}")
    print(f"accuracy on held-out points: {accuracy:.1%}; the best possible classifier: {best:.1%}")
    return {"accuracy": accuracy, "best": best}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

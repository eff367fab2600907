"""A small LeNet reads handwritten digits: convolutions, pools, and a layer for each.

The pictures are scikit-learn's, 8 by 8 pixels (`pip install "gtensor[demo]"`). A quarter of them is held out. Beside
the network stands a linear classifier trained in the same way: what it gets wrong is what the convolutions are for.
"""

import argparse

import numpy as np

import gtensor as gt

LENET = gt.nn.Sequential(
    gt.nn.Conv2d(1, 8, 3, padding="same"),
    gt.relu,
    gt.nn.MaxPool2d(2),
    gt.nn.Conv2d(8, 16, 3, padding="same"),
    gt.relu,
    gt.nn.AvgPool2d(2),
    gt.nn.Flatten(),
    gt.nn.Linear(64, 10),
)
LINEAR = gt.nn.Sequential(gt.nn.Flatten(), gt.nn.Linear(64, 10))


def digits():
    """Pictures f32[N,1,8,8] between 0 and 1 and labels i64[N], shuffled."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return (found.images[order, None] / 16).astype(np.float32), found.target[order]


def accuracy(model, x, labels, x_held, labels_held, epochs):
    """The part of the held-out pictures that a model names after so many passes over the others."""
    params = model.init(gt.random.key(0))
    specs = gt.spec((32, 1, 8, 8)), gt.spec((32,), gt.int64)
    train = gt.TrainStep(lambda p, x, y: gt.nn.cross_entropy(model(p, x), y), params, gt.optim.adam(5e-3), *specs)
    train.fit(x, labels, epochs=epochs, seed=0)
    batch = gt.spec(("B", 1, 8, 8), max={"B": len(x_held)})
    name = train.bind(lambda params, x: gt.argmax(model(params, x), axis=1), batch)
    return float(np.mean(name(x_held).numpy() == labels_held))


def main(quick=False):
    x, labels = digits()
    held = len(x) // 4
    data = x[held:], labels[held:], x[:held], labels[:held]
    found = {
        name: accuracy(model, *data, 10 if quick else 40) for name, model in (("lenet", LENET), ("linear", LINEAR))
    }
    print(f"accuracy on {held} held-out digits: {found['lenet']:.1%}; a linear classifier: {found['linear']:.1%}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

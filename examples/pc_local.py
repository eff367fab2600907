"""Predictive coding with exact cuts: a local learning rule falls out of one energy and two `stop_gradient`s.

An activity relaxes for K steps down the error between itself and what the weights predict, and the weights learn
from the energy that is left. With the weights detached in the relaxation and the activity stopped after it, the
gradient of the weights is that of the local energy alone: the product of an input and an error, for any K, and
nothing is differentiated backwards through the K steps. You see the gradient beside the formula that one would
derive by hand, the gradient that is found without the cuts, what `gt.explain_grad` says of both, and how many loops
each of them has.
"""

import argparse
import functools

import numpy as np

import gtensor as gt

RATE = 0.1


def relax(w, pre, target, steps):
    """The activity after K steps down its energy: halfway between the prediction and the target, if K is large."""

    def step(x, _):
        return x - RATE * ((x - gt.tanh(pre @ w)) + (x - target)), None

    return gt.scan(step, gt.zeros_like(target), length=steps)[0]


def local_energy(w, pre, x):
    return 0.5 * gt.sum((x - gt.tanh(pre @ w)) ** 2)


def energy(w, pre, target, steps):
    """The energy after relaxation, with both cuts: its gradient is local."""
    x = relax(gt.stop_gradient(w), pre, target, steps)
    return local_energy(w, pre, gt.stop_gradient(x))


def energy_without_cuts(w, pre, target, steps):
    """The same number, but its gradient goes through the relaxation too."""
    return local_energy(w, pre, relax(w, pre, target, steps))


def by_hand(w, pre, target, steps):
    """Input times error times the slope of tanh, written down in NumPy."""
    mu = np.tanh(pre @ w)
    x = np.asarray(relax(w, pre, target, steps))
    return pre.T @ ((mu - x) * (1 - mu * mu))


def loops(fn, *args):
    """How many loops the gradient of `fn` has."""
    graph = gt.trace(gt.grad(fn), *args)
    return sum(eqn.prim.name == "scan" for eqn in graph.eqns)


def main(quick=False):
    rng = np.random.default_rng(0)
    w, pre, target = (rng.standard_normal(shape, dtype=np.float32) / 2 for shape in [(8, 4), (16, 8), (16, 4)])
    errors = []
    for steps in (4, 12) if quick else (0, 1, 4, 12, 100):
        cut, whole = (functools.partial(fn, steps=steps) for fn in (energy, energy_without_cuts))
        wanted = by_hand(w, pre, target, steps)
        local, through = (gt.compile(gt.grad(fn))(w, pre, target).numpy() for fn in (cut, whole))
        with_cuts, without = (float(np.abs(g - wanted).max() / np.abs(wanted).max()) for g in (local, through))
        errors.append(with_cuts)
        print(f"K = {steps:3}: with the cuts {with_cuts:.0e} from the formula, without {without:.2f}")
    counts = loops(cut, w, pre, target), loops(whole, w, pre, target)
    print(f"loops in the gradient: {counts[0]} with the cuts, {counts[1]} without")
    print("\nwith the cuts", gt.explain_grad(cut, w, pre, target)["w"], sep="\n")
    print("\nwithout", gt.explain_grad(whole, w, pre, target)["w"], sep="\n")
    return {"error": max(errors), "loops": counts}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

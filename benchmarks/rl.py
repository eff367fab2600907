"""The networks of examples/ppo_cartpole.py in use: what an action and an update take, beside PyTorch eager.

    python -m benchmarks.rl

An action is the policy on one observation, from a NumPy array to an int: the best action, or one drawn. An update is
all that PPO does with a rollout: values, advantages, and epochs of gradient, clipping and Adam, from NumPy arrays to
losses that were read. Both libraries must show the same logits, and from one rollout the same losses and parameters,
before anything is timed; then they take turns, with a rate of 0, so that the parameters stay. Rollouts are made up, so
that no environment is needed.
"""

import argparse
import importlib.util
import platform

import numpy as np
import torch

import gtensor as gt

from . import machine
from .limits import fastest
from .table import grid


def example(name):
    """The module of an example: their folder is no package."""
    spec = importlib.util.spec_from_file_location(name, machine.ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch.set_num_threads(1)
ppo = example("ppo_cartpole")

RATE, TOLERANCE = 1e-3, 1e-4
"""The learning rate of the update that is compared, and how far losses, parameters and logits may lie apart."""

SLICE = 2e-3
"""Seconds of one measurement, if a call is shorter."""


def rollout():
    """Observations, actions, rewards, failures and ends of episodes, as the example collects them."""
    rng, rows = np.random.default_rng(0), (ppo.STEPS, ppo.ENVS)
    over = (rng.random((ppo.STEPS + 1, ppo.ENVS)) < 0.02).astype(np.float32)
    failed = over[1:] * (rng.random(rows) < 0.5)
    seen = rng.standard_normal((ppo.STEPS + 1, ppo.ENVS, 4), np.float32)
    return seen, rng.integers(2, size=rows), np.ones(rows, np.float32), failed.astype(np.float32), over


class Torch:
    """The same in PyTorch eager: autograd and the fused Adam."""

    def __init__(self, params):
        self.params = {
            name: {key: torch.tensor(value, requires_grad=True) for key, value in part.items()}
            for name, part in params.items()
        }
        self.leaves = [leaf for part in self.params.values() for leaf in part.values()]
        self.optimizer = torch.optim.Adam(self.leaves, fused=True)

    def apply(self, name, seen):
        p = self.params[name]
        hidden = torch.tanh(torch.tanh(seen @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
        return hidden @ p["w3"] + p["b3"]

    def log_chances(self, seen, action):
        chances = torch.log_softmax(self.apply("policy", seen), -1)
        return chances.gather(-1, action[..., None])[..., 0]

    @torch.no_grad()
    def advantages(self, values, reward, failed, over):
        """As in the example."""
        surprise = (1 - ppo.DISCOUNT) * reward + ppo.DISCOUNT * (1 - failed) * values[1:] - values[:-1]
        kept, later = ppo.DISCOUNT * ppo.LAMBDA * (1 - over), torch.zeros(ppo.ENVS)
        found = torch.empty_like(surprise)
        for t in range(ppo.STEPS - 1, -1, -1):
            found[t] = later = surprise[t] + kept[t] * later
        return found

    def update(self, rate, *arrays):
        """As in the example; the losses as NumPy has them."""
        seen, action, reward, failed, over = map(torch.from_numpy, arrays)
        with torch.no_grad():
            values = self.apply("value", seen)[..., 0]
            advantage = self.advantages(values, reward, failed, over[1:])
            goal, counts = values[:-1] + advantage, 1 - over[:-1]
            counts = counts / counts.sum()
            advantage = advantage - (counts * advantage).sum()
            advantage = advantage / ((counts * advantage**2).sum().sqrt() + 1e-8)
            before = self.log_chances(seen[:-1], action)
        self.optimizer.param_groups[0]["lr"] = rate
        losses = []
        for _ in range(ppo.EPOCHS):
            ratio = torch.exp(self.log_chances(seen[:-1], action) - before)
            gain = torch.minimum(ratio * advantage, ratio.clamp(1 - ppo.CLIP, 1 + ppo.CLIP) * advantage)
            loss = (counts * (0.5 * (self.apply("value", seen[:-1])[..., 0] - goal) ** 2 - gain)).sum()
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.leaves, ppo.LIMIT)
            self.optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).numpy()

    @torch.inference_mode()
    def logits(self, seen):
        return self.apply("policy", torch.from_numpy(seen))

    def best(self, seen):
        return self.logits(seen).argmax().item()

    @torch.inference_mode()
    def draw(self, seen):
        return torch.multinomial(torch.softmax(self.logits(seen), -1), 1).item()


def compare(what, own, other):
    """Raise AssertionError unless both are the same but for rounding."""
    np.testing.assert_allclose(own, other, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def least(runs, seconds):
    """Microseconds of a call of each: the least of batches that take turns."""
    times = [max(1, round(SLICE / fastest(run, SLICE))) for run in runs]

    def batch(run, count):
        for _ in range(count):
            run()

    best = [float("inf")] * len(runs)
    taken = sum(fastest(lambda run=run, n=n: batch(run, n), 0) for run, n in zip(runs, times, strict=True))
    for _ in range(max(3, round(seconds / taken))):
        for i, (run, n) in enumerate(zip(runs, times, strict=True)):
            best[i] = min(best[i], fastest(lambda run=run, n=n: batch(run, n), 0) / n)
    return [1e6 * value for value in best]


def prepared():
    """A row per measurement: what it is, gtensor's call and torch's, after both were compared."""
    state, arrays, seen = ppo.init(0), rollout(), np.full(4, 0.1, np.float32)
    learn = gt.Resident(ppo.update, state, [gt.spec(()), *arrays])
    draw = learn.bind(ppo.draw, gt.spec((4,)), updates=True)
    best = learn.bind(ppo.best, gt.spec((4,)))
    logits = learn.bind(lambda state, seen: ppo.apply(state["params"]["policy"], seen), gt.spec((4,)))
    peer = Torch(learn.state["params"])

    compare("logits", logits(seen).numpy(), peer.logits(seen).numpy())
    for number in range(3):
        compare(f"losses of update {number}", learn(RATE, *arrays).numpy(), peer.update(RATE, *arrays))
    for name, part in learn.state["params"].items():
        for key, value in part.items():
            compare(f"{name}.{key}", value, peer.params[name][key].detach().numpy())
    compare("logits after learning", logits(seen).numpy(), peer.logits(seen).numpy())

    yield "best action", lambda: int(best(seen)), lambda: peer.best(seen)
    yield "drawn action", lambda: int(draw(seen)), lambda: peer.draw(seen)
    yield "update", lambda: learn(0.0, *arrays).numpy(), lambda: peer.update(0.0, *arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    args = parser.parse_args()
    machine.alone()
    rows = []
    for what, own, other in prepared():
        mine, theirs = least([own, other], args.seconds)
        rows.append([what, f"{mine:.2f}", f"{theirs:.2f}", f"{theirs / mine:.1f}×"])
    size = f"{ppo.EPOCHS} epochs of {ppo.STEPS * ppo.ENVS} steps"
    print(f"{machine.cpu()}, Python {platform.python_version()}, torch {torch.__version__}; an update has {size}\n")
    print(grid(["microseconds", "gtensor", "torch eager", "faster"], rows))


if __name__ == "__main__":
    main()

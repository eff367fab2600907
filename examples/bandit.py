"""A softmax policy finds the best arm of a Bernoulli bandit by its own rewards: REINFORCE with a baseline.

The arms, the draws and the updates are all in one compiled function: a `gt.scan` over the pulls, whose state (the
preferences, the mean reward, the random key) stays in memory between calls. You see the mean reward of the first and
of the last pulls, and the probabilities that the policy gives to the arms.
"""

import argparse

import numpy as np

import gtensor as gt

CHANCES = np.array([0.2, 0.5, 0.35, 0.8, 0.65], np.float32)
"""The chance of each arm to give a reward of 1."""

PULLS = 500
RATE = 0.05


def pull(state, _):
    """Draw an arm, see its reward, and make what was better than usual more likely: (state, reward)."""
    key, for_arm, for_reward = gt.random.split(state["key"], 3)
    arm = gt.random.categorical(for_arm, state["preferences"])
    reward = gt.astype(gt.random.bernoulli(for_reward, gt.asarray(CHANCES)[arm]), gt.float32)

    advantage = reward - state["baseline"]
    gain = gt.grad(lambda preferences: advantage * gt.log_softmax(preferences)[arm])(state["preferences"])
    return {
        "key": key,
        "preferences": state["preferences"] + RATE * gain,
        "baseline": state["baseline"] + RATE * advantage,
    }, reward


def session(state):
    """Many pulls, one after another: (state, rewards f32[PULLS])."""
    return gt.scan(pull, state, length=PULLS)


def main(quick=False):
    state = {"key": gt.random.key(0), "preferences": gt.zeros(len(CHANCES)), "baseline": gt.zeros(())}
    play = gt.Resident(session, state, [])
    rewards = np.concatenate([play().numpy() for _ in range(10 if quick else 100)])

    policy = gt.softmax(play.state["preferences"]).numpy()
    first, last = float(rewards[:PULLS].mean()), float(rewards[-PULLS:].mean())
    print(f"mean reward of {PULLS} pulls: {first:.2f} at first, {last:.2f} at last")
    print("chances of the arms  " + " ".join(f"{p:.2f}" for p in CHANCES))
    print("learned policy       " + " ".join(f"{p:.2f}" for p in policy))
    return {"first": first, "last": last, "best": float(policy[CHANCES.argmax()])}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

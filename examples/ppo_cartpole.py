"""Clipped PPO balances a pole: many environments step side by side, one compiled function learns from what they did.

One block of memory holds the networks of policy and value, the optimizer's state and a random key. Three compiled
functions share it: the draw of actions, the best actions, and the update, which has everything else inside: the
advantages (GAE) as a `gt.scan` backwards in time, and the epochs of clipped steps as another. You see the mean return
of 100 episodes of the greedy policy, before and after; 500 is the most there can be.
"""

import argparse

import numpy as np
from tqdm import trange

import gtensor as gt

ENVS, STEPS, EPOCHS = 16, 64, 10
"""Environments side by side, their steps between updates, and the passes over them in an update."""

DISCOUNT, LAMBDA, CLIP = 0.98, 0.95, 0.2
RATE, LIMIT = 2e-3, 0.5
OPTIMIZER = gt.optim.chain(gt.optim.clip_by_global_norm(LIMIT), gt.optim.adam())
PLAYED = 100
"""Episodes from which the greedy policy is judged."""


def network(key, outputs, gain):
    """Parameters of 4 → 64 → 64 → outputs, orthogonal, the last layer times a gain."""
    keys, orthogonal = gt.random.split(key, 3), gt.nn.initializers.orthogonal
    return {
        "w1": orthogonal(keys[0], (4, 64)), "b1": gt.zeros(64),
        "w2": orthogonal(keys[1], (64, 64)), "b2": gt.zeros(64),
        "w3": gain * orthogonal(keys[2], (64, outputs)), "b3": gt.zeros(outputs),
    }  # fmt: skip


def init(seed):
    """The state: parameters, the optimizer's state, and the key that actions are drawn with."""
    for_policy, for_value, for_actions = gt.random.split(gt.random.key(seed), 3)
    params = {"policy": network(for_policy, 2, 0.01), "value": network(for_value, 1, 1.0)}
    return {"params": params, "optimizer": OPTIMIZER.init(params), "key": for_actions}


def apply(params, seen):
    hidden = gt.tanh(seen @ params["w1"] + params["b1"])
    return gt.tanh(hidden @ params["w2"] + params["b2"]) @ params["w3"] + params["b3"]


def log_chances(params, seen, action):
    """The logarithm of the chance that the policy gives to the action taken."""
    return gt.take_along_axis(gt.log_softmax(apply(params["policy"], seen)), action[..., None], axis=-1)[..., 0]


def value(params, seen):
    return apply(params["value"], seen)[..., 0]


def advantages(values, reward, failed, over):
    """How much better each action did than the value of its state had it: f32[STEPS,ENVS].

    Rewards are made small, so that values are near 1 and their gradient does not drown the policy's. After a failure
    nothing is to be had, but what the time limit has cut off is worth the value of its last state.
    """
    surprise = (1 - DISCOUNT) * reward + DISCOUNT * (1 - failed) * values[1:] - values[:-1]

    def back(later, now):
        advantage = now[0] + DISCOUNT * LAMBDA * (1 - now[1]) * later
        return advantage, advantage

    return gt.scan(back, gt.zeros(ENVS), (surprise, over), reverse=True)[1]


def update(state, rate, seen, action, reward, failed, over):
    """Learn from a rollout: (state, the loss before each epoch).

    seen and over have a first row more than the others, of before the first step. A step from a state that is over is
    the environment's reset, whatever the action was: it counts for nothing.
    """
    values = value(state["params"], seen)
    advantage = advantages(values, reward, failed, over[1:])
    goal = values[:-1] + advantage

    counts = 1 - over[:-1]
    counts = counts / gt.sum(counts)
    mean = gt.sum(counts * advantage)
    advantage = (advantage - mean) / (gt.sqrt(gt.sum(counts * (advantage - mean) ** 2)) + 1e-8)
    before = log_chances(state["params"], seen[:-1], action)

    def loss_fn(params):
        ratio = gt.exp(log_chances(params, seen[:-1], action) - before)
        gain = gt.minimum(ratio * advantage, gt.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
        return gt.sum(counts * (0.5 * (value(params, seen[:-1]) - goal) ** 2 - gain))

    def epoch(carry, _):
        loss, grads = gt.value_and_grad(loss_fn)(carry["params"])
        params, optimizer = OPTIMIZER.update(carry["params"], grads, carry["optimizer"], rate)
        return {"params": params, "optimizer": optimizer}, loss

    learnt, losses = gt.scan(epoch, {"params": state["params"], "optimizer": state["optimizer"]}, length=EPOCHS)
    return {**learnt, "key": state["key"]}, losses


def draw(state, seen):
    """An action for each observation, drawn from the policy: (state, i64[…])."""
    key, now = gt.random.split(state["key"])
    return {**state, "key": key}, gt.random.categorical(now, apply(state["params"]["policy"], seen))


def best(state, seen):
    return gt.argmax(apply(state["params"]["policy"], seen), axis=-1)


def evaluate(act):
    """The mean return of PLAYED episodes, side by side."""
    import gymnasium

    envs = gymnasium.make_vec("CartPole-v1", num_envs=PLAYED)
    seen, _ = envs.reset(seed=1)
    total, alive = 0.0, np.ones(PLAYED, bool)
    while alive.any():
        seen, reward, failed, cut, _ = envs.step(act(seen).numpy())
        total += float(reward[alive].sum())
        alive &= ~(failed | cut)
    return total / PLAYED


def main(quick=False, seed=0):
    import gymnasium

    seen, action = np.zeros((STEPS + 1, ENVS, 4), np.float32), np.zeros((STEPS, ENVS), np.int64)
    reward, failed = np.zeros((2, STEPS, ENVS), np.float32)
    over = np.zeros((STEPS + 1, ENVS), np.float32)
    learn = gt.Resident(update, init(seed), [gt.spec(()), seen, action, reward, failed, over])
    act = learn.bind(draw, gt.spec((ENVS, 4)), updates=True)
    play = learn.bind(best, gt.spec((PLAYED, 4)))

    before = evaluate(play)
    envs = gymnasium.make_vec("CartPole-v1", num_envs=ENVS)
    seen[-1], _ = envs.reset(seed=seed)
    updates = 120 if quick else 300
    for number in trange(updates, desc="updates", disable=None):
        seen[0], over[0] = seen[-1], over[-1]
        for t in range(STEPS):
            action[t] = act(seen[t]).numpy()
            seen[t + 1], reward[t], failed[t], cut, _ = envs.step(action[t])
            over[t + 1] = np.maximum(failed[t], cut)
        learn(RATE * (1 - number / updates), seen, action, reward, failed, over)

    after = evaluate(play)
    print(f"mean return of {PLAYED} episodes: {before:.1f} before, {after:.1f} after {updates * STEPS * ENVS} steps")
    return {"before": before, "after": after}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    parser.add_argument("--seed", type=int, default=0, help="of parameters, actions and environments")
    args = parser.parse_args()
    main(args.quick, args.seed)

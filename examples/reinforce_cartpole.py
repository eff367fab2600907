"""REINFORCE balances a pole: it plays episodes to their end and makes more likely what did better than usual.

One block of memory holds the policy, the optimizer's state and a random key. Three compiled functions share it: the
draw of actions, the best actions, and the update. Episodes differ in length, so the update takes them padded to the
longest that there can be, and a mask says which steps were played. What is usual at a step is the mean over the
episodes that got there, so there is no second network. You see the mean return of 100 episodes of the greedy policy,
before and after; 500 is the most there can be.
"""

import argparse

import numpy as np
from tqdm import trange

import gtensor as gt

ENVS, LONGEST = 16, 500
"""Episodes of an update, played side by side, and the steps after which the environment ends one."""

DISCOUNT, RATE = 0.99, 1e-2
OPTIMIZER = gt.optim.adam()
PLAYED = 100
"""Episodes from which the greedy policy is judged."""


def init(seed):
    """The state: parameters with which both actions are equally likely, the optimizer's state, and a key."""
    for_params, for_actions = gt.random.split(gt.random.key(seed))
    hidden = gt.nn.initializers.glorot_normal(for_params, (4, 32))
    params = {"w1": hidden, "b1": gt.zeros(32), "w2": gt.zeros((32, 2)), "b2": gt.zeros(2)}
    return {"params": params, "optimizer": OPTIMIZER.init(params), "key": for_actions}


def logits(params, seen):
    """f32[…,4] to f32[…,2]."""
    return gt.tanh(seen @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def advantages(played):
    """How much more came after each step than after the same step of the other episodes: f32[LONGEST,ENVS]."""

    def back(later, reward):
        total = reward + DISCOUNT * later
        return total, total

    after = gt.scan(back, gt.zeros(ENVS), played, reverse=True)[1]  # each step that is played gives a reward of 1
    alive = gt.maximum(gt.sum(played, axis=1, keepdims=True), 1)
    better = played * (after - gt.sum(after, axis=1, keepdims=True) / alive)
    return better / (gt.sqrt(gt.sum(better**2) / gt.sum(played)) + 1e-8)


def update(state, rate, seen, action, played):
    """One step along the gradient of the expected return: (state, loss)."""
    advantage = advantages(played)

    def loss_fn(params):
        chances = gt.log_softmax(logits(params, seen))
        taken = gt.take_along_axis(chances, action[..., None], axis=-1)[..., 0]
        return -gt.sum(advantage * taken) / gt.sum(played)

    loss, grads = gt.value_and_grad(loss_fn)(state["params"])
    params, optimizer = OPTIMIZER.update(state["params"], grads, state["optimizer"], rate)
    return {"params": params, "optimizer": optimizer, "key": state["key"]}, loss


def draw(state, seen):
    """An action for each observation, drawn from the policy: (state, i64[…])."""
    key, now = gt.random.split(state["key"])
    return {**state, "key": key}, gt.random.categorical(now, logits(state["params"], seen))


def best(state, seen):
    return gt.argmax(logits(state["params"], seen), axis=-1)


def play(envs, act):
    """An episode in each environment: observations, actions, and 1 for each step that was played."""
    seen = np.zeros((LONGEST, envs.num_envs, 4), np.float32)
    action = np.zeros((LONGEST, envs.num_envs), np.int64)
    played = np.zeros((LONGEST, envs.num_envs), np.float32)
    now, _ = envs.reset()
    alive = np.ones(envs.num_envs, bool)
    for t in range(LONGEST):
        seen[t], action[t], played[t] = now, act(now).numpy(), alive
        now, _, failed, cut, _ = envs.step(action[t])
        alive &= ~(failed | cut)
        if not alive.any():
            break
    return seen, action, played


def main(quick=False, seed=0):
    import gymnasium

    shape = (LONGEST, ENVS)
    specs = [gt.spec(()), gt.spec((*shape, 4)), gt.spec(shape, gt.int64), gt.spec(shape)]
    learn = gt.Resident(update, init(seed), specs)
    act = learn.bind(draw, gt.spec((ENVS, 4)), updates=True)
    choose = learn.bind(best, gt.spec((PLAYED, 4)))

    envs = gymnasium.make_vec("CartPole-v1", num_envs=ENVS)
    judges = gymnasium.make_vec("CartPole-v1", num_envs=PLAYED)
    envs.reset(seed=seed)
    judges.reset(seed=seed)
    before = float(play(judges, choose)[2].sum()) / PLAYED
    updates = 80 if quick else 200
    for number in trange(updates, desc="updates", disable=None):
        learn(RATE * (1 - number / updates), *play(envs, act))

    after = float(play(judges, choose)[2].sum()) / PLAYED
    print(f"mean return of {PLAYED} episodes: {before:.1f} before, {after:.1f} after {updates * ENVS} to learn from")
    return {"before": before, "after": after}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    parser.add_argument("--seed", type=int, default=0, help="of parameters, actions and environments")
    args = parser.parse_args()
    main(args.quick, args.seed)

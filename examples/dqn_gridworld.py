"""Deep Q-learning finds the shortest way through a small maze with a dead end.

One block of memory holds the network, a target network that follows it slowly, and the optimizer's state. Two
compiled functions share it: the update from a batch of the replay memory, which also moves the target (an
exponential moving mean, in C), and the choice of an action for one observation. You see the way that the greedy
policy walks, and its length beside that of the shortest one.
"""

import argparse

import numpy as np
from tqdm import trange

import gtensor as gt

MAZE = ["S..#.", "##.#.", ".....", ".####", "....G"]
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
SHORTEST, LIMIT = 12, 100
"""Steps from S to G, and those after which an episode ends."""

BATCH, MEMORY, DISCOUNT = 32, 4096, np.float32(0.95)
FOLLOW = gt.optim.ema(0.98)
OPTIMIZER = gt.optim.adam(1e-3)


class Grid:
    """The maze: a step costs 0.04 and into a wall it stays where it is; the goal gives 1 and ends the episode."""

    def reset(self):
        self.at = np.array([0, 0])
        return self.observe()

    def observe(self):
        """The place, as 25 numbers of which one is 1."""
        seen = np.zeros((5, 5), np.float32)
        seen[tuple(self.at)] = 1
        return seen.ravel()

    def step(self, action):
        """(observation, reward, whether the goal is reached)."""
        to = self.at + MOVES[action]
        if to.min() >= 0 and to.max() < 5 and MAZE[to[0]][to[1]] != "#":
            self.at = to
        done = MAZE[self.at[0]][self.at[1]] == "G"
        return self.observe(), 1.0 if done else -0.04, done


def init(key):
    first, second = gt.random.split(key)
    he = gt.nn.initializers.he_normal
    return {"w1": he(first, (25, 64)), "b1": gt.zeros(64), "w2": he(second, (64, 4)), "b2": gt.zeros(4)}


def values(params, seen):
    """What each action is worth: f32[…,25] to f32[…,4]."""
    return gt.relu(seen @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def update(state, seen, action, reward, then, done):
    """One step of Q-learning with a target network: (state, loss)."""
    goal = reward + DISCOUNT * (1 - done) * gt.max(values(state["target"]["average"], then), axis=1)

    def loss_fn(params):
        taken = gt.take_along_axis(values(params, seen), action[:, None], axis=1)[:, 0]
        return gt.nn.huber_loss(taken, goal)

    loss, grads = gt.value_and_grad(loss_fn)(state["params"])
    params, optimizer = OPTIMIZER.update(state["params"], grads, state["optimizer"])
    return {"params": params, "target": FOLLOW.update(params, state["target"]), "optimizer": optimizer}, loss


def best_action(state, seen):
    return gt.argmax(values(state["params"], seen))


def walk(act):
    """The places that the greedy policy visits."""
    grid = Grid()
    seen, places, done = grid.reset(), [(0, 0)], False
    while not done and len(places) <= LIMIT:
        seen, _, done = grid.step(int(act(seen)))
        places.append(tuple(grid.at))
    return places


def main(quick=False):
    rng, params = np.random.default_rng(0), init(gt.random.key(0))
    state = {"params": params, "target": FOLLOW.init(params), "optimizer": OPTIMIZER.init(params)}
    rows, numbers = gt.spec((BATCH, 25)), gt.spec((BATCH,))
    learn = gt.Resident(update, state, [rows, gt.spec((BATCH,), gt.int64), numbers, rows, numbers])
    act = learn.bind(best_action, gt.spec((25,)))

    memory = {
        "seen": np.zeros((MEMORY, 25), np.float32), "action": np.zeros(MEMORY, np.int64),
        "reward": np.zeros(MEMORY, np.float32), "then": np.zeros((MEMORY, 25), np.float32),
        "done": np.zeros(MEMORY, np.float32),
    }  # fmt: skip
    grid, count = Grid(), 0
    episodes = 60 if quick else 300
    for episode in trange(episodes, desc="episodes", disable=None):
        explore = max(0.1, 1 - 2 * episode / episodes)
        seen, done = grid.reset(), False
        for _ in range(LIMIT):
            action = rng.integers(4) if rng.random() < explore else int(act(seen))
            then, reward, done = grid.step(action)
            for column, value in zip(memory.values(), (seen, action, reward, then, done), strict=True):
                column[count % MEMORY] = value
            seen, count = then, count + 1
            if count >= 10 * BATCH:
                picked = rng.integers(min(count, MEMORY), size=BATCH)
                learn(*(column[picked] for column in memory.values()))
            if done:
                break

    places = walk(act)
    print("\n".join(
        "".join("o" if (r, c) in places and cell == "." else cell for c, cell in enumerate(row))
        for r, row in enumerate(MAZE)
    ))  # fmt: skip
    print(f"the greedy policy takes {len(places) - 1} steps, the shortest way has {SHORTEST}; {count} steps to learn")
    return {"steps": len(places) - 1, "shortest": SHORTEST}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    main(parser.parse_args().quick)

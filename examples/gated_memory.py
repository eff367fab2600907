"""A gated memory follows a level that it sees in noise: it jumps when the level does, and holds in between.

The level keeps its value for a random time, then takes another. A fixed average has to choose between quick and
steady; the gate learns when to be which. You see the errors beside those of the best fixed average and of the exact
filter, which knows how the levels are drawn, and 500 steps in which the memory hears only itself: what is a mean of
the old memory and of a tanh, with the gate as weight, cannot leave [-1, 1].
"""

import argparse

import numpy as np

import gtensor as gt

LEVELS = np.linspace(-0.8, 0.8, 33, dtype=np.float32)
NOISE, SWITCH = np.float32(0.2), 1 / 60
"""The deviation of what is seen from the level, and the chance of the level to change at a step."""

BATCH, STEPS = 32, 150
SERIES, LONG = 100, 500
"""Series of the test and their steps, which are as many again without anything to see."""

CELL = gt.nn.GatedMemory(inputs=1, size=32)


def series(count, steps, seed):
    """What is seen, and the levels behind it: f32[count,steps] both."""
    rng = np.random.default_rng(seed)
    moves = np.where(rng.random((count, steps)) < SWITCH, rng.integers(1, len(LEVELS), (count, steps)), 0)
    level = LEVELS[(rng.integers(len(LEVELS), size=(count, 1)) + moves.cumsum(axis=1)) % len(LEVELS)]
    return level + NOISE * rng.standard_normal((count, steps), dtype=np.float32), level


def by_step(seen):
    """f32[B,T] as the cell takes it, step after step: f32[T,B,1]."""
    return gt.matrix_transpose(seen)[..., None]


def loss_fn(params, seen, level):
    """The first element of the memory is to be the level."""
    _, memories = CELL.rollout(params, CELL.start(len(seen)), by_step(seen))
    return gt.nn.mse_loss(memories[..., :1], by_step(level))


def follow(params, seen):
    """The last memory f32[B,32]; for each step the estimate and how far the gate is open, f32[T,B] both."""

    def step(memory, x):
        gate = CELL.gate(params, memory, x)
        memory, _ = CELL.step(params, memory, x)
        return memory, (memory[:, 0], gt.mean(gate, axis=1))

    return gt.scan(step, CELL.start(len(seen)), by_step(seen))


def free(params, memory):
    """All memories, f32[LONG,B,32], of a run in which each estimate is what is seen next."""

    def step(memory, _):
        memory, _ = CELL.step(params, memory, memory[:, :1])
        return memory, memory

    return gt.scan(step, memory, length=LONG)[1]


def average(seen, share):
    """A mean that each value enters with the same share."""
    found = seen.copy()
    for t in range(1, seen.shape[1]):
        found[:, t] = (1 - share) * found[:, t - 1] + share * seen[:, t]
    return found


def exact_filter(seen):
    """The expected level, given all that was seen and the true chances: Bayes' rule."""
    chances, found = np.full((len(seen), len(LEVELS)), 1 / len(LEVELS)), np.empty_like(seen)
    for t in range(seen.shape[1]):
        chances = (1 - SWITCH) * chances + SWITCH * (1 - chances) / (len(LEVELS) - 1)
        chances *= np.exp(-0.5 * ((seen[:, t, None] - LEVELS) / NOISE) ** 2)
        chances /= chances.sum(axis=1, keepdims=True)
        found[:, t] = chances @ LEVELS
    return found


def age(level):
    """For how many steps the level has been what it is."""
    time, changed = np.arange(level.shape[1]), np.diff(level, axis=1, prepend=level[:, :1]) != 0
    return time - np.maximum.accumulate(np.where(changed, time, 0), axis=1)


def judge(found, level):
    """The error where the level is 20 steps old or older, and which share of a jump is done in 1, 2, 3 steps."""
    old = age(level)
    row, at = np.nonzero((old[:, :-3] >= 10) & (old[:, 3:] == 2))  # the last step before a jump
    before, jump = level[row, at], level[row, at + 1] - level[row, at]
    done = [(found[row, at + k] - before) @ jump / (jump @ jump) for k in (1, 2, 3)]
    return float(np.sqrt(np.mean((found - level)[old >= 20] ** 2))), [float(share) for share in done]


def draw(path, seen, level, estimate, gate, memories):
    """The first series, and what becomes of twenty of them without anything to see."""
    import matplotlib.pyplot as plt

    shown = slice(0, 300)
    figure, (top, middle, bottom) = plt.subplots(3, figsize=(8, 7), height_ratios=[3, 1.2, 2], layout="constrained")
    top.plot(seen[0, shown], ".", color="0.7", markersize=4, label="seen")
    top.step(np.arange(300), level[0, shown], color="black", linewidth=1, where="mid", label="level")
    top.plot(estimate[0, shown], color="tab:red", linewidth=1.5, label="estimate")
    top.legend(ncols=3, loc="upper right", frameon=False)
    top.set(ylabel="level", xlim=(0, 300), ylim=(-1.5, 1.9))
    middle.plot(gate[0, shown], color="tab:blue", linewidth=1.2)
    top.tick_params(labelbottom=False)
    middle.set(ylabel="mean gate", xlabel="step", xlim=(0, 300))
    bottom.plot(memories[:, :20, 0], color="tab:red", linewidth=1, alpha=0.6)
    bottom.plot(np.zeros(20), level[:20, -1], "k.", clip_on=False, label="last level")
    bottom.legend(loc="upper right", frameon=False)
    bottom.set(ylabel="estimate, nothing seen", xlabel="step", xlim=(0, LONG), ylim=(-1, 1))
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main(quick=False, picture=None):
    data = series(2048 if quick else 8192, STEPS, seed=1)
    epochs = 30 if quick else 40
    steps = epochs * len(data[0]) // BATCH
    optimizer = gt.optim.adam(gt.optim.warmup_cosine(1e-2, warmup=steps // 20, steps=steps, end=1e-4))
    specs = gt.spec((BATCH, STEPS)), gt.spec((BATCH, STEPS))
    train = gt.TrainStep(loss_fn, CELL.init(gt.random.key(0)), optimizer, *specs)
    history = train.fit(*data, epochs=epochs, seed=0)
    print(f"{history.steps_per_second:,.0f} updates per second, each through {STEPS} steps of {BATCH} series")

    seen, level = series(SERIES, LONG, seed=2)
    memory, tracks = train.bind(follow, gt.spec((SERIES, LONG)))(seen)
    estimate, gate = (track.numpy().T for track in tracks)
    memories = train.bind(free, gt.spec((SERIES, CELL.size)))(memory).numpy()
    if picture:
        draw(picture, seen, level, estimate, gate, memories)

    averages = [average(seen, share) for share in np.linspace(0.02, 1, 50, dtype=np.float32)]
    tracks = {
        "seen": seen,
        "average": min(averages, key=lambda found: np.mean((found - level) ** 2)),
        "gated": estimate,
        "exact": exact_filter(seen),
    }
    results = {name: judge(found, level) for name, found in tracks.items()}
    print("             error when settled   share of a jump done in 1, 2, 3 steps")
    for name, (error, done) in results.items():
        print(f"{name:<13}{error:18.3f}   " + " ".join(f"{share:5.2f}" for share in done))

    old = age(level)
    settled, jumping = float(gate[old >= 20].mean()), float(gate[(old > 0) & (old < 4)].mean())
    most = float(np.abs(memories).max())
    print(f"the gate is open by {settled:.2f} when settled, by {jumping:.2f} after a jump")
    drift = float(np.sqrt(np.mean((memories[-1, :, 0] - estimate[:, -1]) ** 2)))
    print(f"{LONG} steps with nothing to see: the estimates move by {drift:.3f}, no memory is beyond {most:.3f}")
    return results | {"settled": settled, "jumping": jumping, "most": most}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a run of seconds, as in the tests")
    parser.add_argument("--picture", metavar="FILE", help="draw the levels, the estimates and the gate")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.picture)

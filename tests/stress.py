"""Many processes that compile the same step at once and are killed at random: `make stress`, python -m tests.stress.

A round begins with a cache that holds no model. Twenty processes, children of one that has imported gtensor, wait for
one moment, compile a training step and train it; some are killed with SIGKILL, each at a moment of its own, between
before it began and after it ended. Meanwhile every entry that can be seen is verified. Afterwards:

- all that were not killed ended well, with the same losses, and within the time that all compiles take one after the
  other: nobody waited for one that had died;
- the entry loads in a new process, which compiles nothing and has the same losses;
- nothing of the dead is left once somebody builds again.

`python -m tests.stress --rounds 100 --seed 7` prints a line for each round, and what is wrong; its status is 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gtensor.codegen.cache import Damaged, verify
from gtensor.codegen.folder import LAYOUT

ROOT = Path(__file__).resolve().parent.parent

PROCESSES = 20

STEP = """
import sys, time
import numpy as np
import gtensor as gt

def loss(params, x, y):
    return gt.mean((gt.tanh(x @ params["w"]) - y) ** 2)

def losses():
    params = {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)}
    train = gt.TrainStep(loss, params, gt.optim.adam(0.01), gt.spec((8, 4)), gt.spec((8, 3)))
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(8, 4)
    return [train(x, x[:, :3]).hex() for _ in range(5)], train.compiled.hit
"""

RACERS = (
    STEP
    + """
import json, os, signal
from pathlib import Path
folder, count, before = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
exec(before)
children = []
for number in range(count):
    pid = os.fork()
    if pid == 0:
        try:
            while not (folder / "go").exists():
                time.sleep(0.001)
            found = losses()
            part = folder / f"part-{number}"
            part.write_text(json.dumps([time.monotonic(), *found]))
            part.rename(folder / f"result-{number}")
        except BaseException as error:
            (folder / f"error-{number}").write_text(repr(error))
        finally:
            sys.stdout.flush()
            os._exit(0)
    children.append(pid)
print(json.dumps(children), flush=True)
for pid in children:
    os.waitpid(pid, 0)
"""
)
"""argv: a folder, a number of processes, Python that runs in their parent first."""

AFTERWARDS = STEP + "import json\nfound = losses()\ngt.compile(lambda x: x + 1)(gt.ones(1))\nprint(json.dumps(found))\n"
"""Loads the step, and builds something else, which sweeps up."""

TIMED = """
gt.compile(lambda x: x + 1)(gt.ones(1))
start = time.monotonic()
losses()
print(time.monotonic() - start)
"""


@dataclass
class Round:
    """What came of one round: how many were killed while they were at work, how long it took, what is wrong."""

    killed: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def warm(cache: Path) -> float:
    """A cache that knows the compiler and the bridge to Python; returns the seconds that the step takes to compile."""
    took = float(_python(STEP + TIMED, cache))
    for entry in (cache / LAYOUT / "entries").glob("*/train_loss.c"):
        shutil.rmtree(entry.parent)
    return took


def one_round(cache: Path, alone: float, random: random.Random, processes: int = PROCESSES, before: str = "") -> Round:
    """One round over a cache without the step, which takes `alone` seconds to compile when nothing else runs.

    `before` is Python that the racers run first: a fault, for the test of this program.
    """
    result = Round()
    folder = Path(tempfile.mkdtemp(prefix="gtensor-stress-"))
    parent = subprocess.Popen(
        [sys.executable, "-c", RACERS, str(folder), str(processes), before],
        cwd=ROOT,
        env=_environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    children: list[int] = json.loads(parent.stdout.readline())
    whole = alone * processes  # seconds, if they all compile, one after the other
    victims = random.sample(range(processes), random.randint(processes // 4, processes // 2))
    moments = sorted((random.uniform(-0.05, 0.8 * whole / (os.cpu_count() or 1)), victim) for victim in victims)
    start = time.monotonic()
    while moments and moments[0][0] < 0:
        result.killed += _kill(children[moments.pop(0)[1]])
    (folder / "go").touch()
    limit = 4 * whole + 10
    while parent.poll() is None and time.monotonic() - start < limit:
        while moments and moments[0][0] < time.monotonic() - start:
            victim = moments.pop(0)[1]
            result.killed += not (folder / f"result-{victim}").exists() and _kill(children[victim])
        result.wrong += _not_whole(cache)
        time.sleep(0.002)
    if parent.poll() is None:
        result.wrong.append(f"somebody still waits after {limit:.0f} s, where {whole:.0f} s would do for all")
        os.killpg(parent.pid, signal.SIGKILL)
    _, errors = parent.communicate()
    result.seconds = time.monotonic() - start
    result.wrong += [errors] * bool(errors)
    result.wrong += [path.read_text() for path in folder.glob("error-*")]
    ended = {int(path.name.partition("-")[2]): json.loads(path.read_text()) for path in folder.glob("result-*")}
    missing = set(range(processes)) - set(victims) - ended.keys()
    result.wrong += [f"{len(missing)} that nobody killed have no result"] * bool(missing)
    losses = {json.dumps(found[1]) for found in ended.values()}
    after, hit = json.loads(_python(AFTERWARDS, cache))
    if len(losses | {json.dumps(after)}) != 1:
        result.wrong.append(f"different losses: {losses | {json.dumps(after)}}")
    if ended and not hit:
        result.wrong.append("it was compiled, and a new process compiled it again")
    left = [path.name for path in (cache / LAYOUT / "drafts").iterdir()]
    result.wrong += [f"left over: {left}"] * bool(left)
    shutil.rmtree(folder)
    return result


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _not_whole(cache: Path) -> Iterable[str]:
    """What is wrong with the entries that can be seen now."""
    for entry in (cache / LAYOUT / "entries").glob("*"):
        try:
            verify(entry)
        except Damaged as error:
            if entry.exists():
                yield f"a half entry can be seen: {error}"


def _environment(cache: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GT_")}
    return clean | {"GT_CACHE": str(cache), "GT_CFLAGS": "-O0"}  # what is tried here is the cache


def _python(code: str, cache: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=_environment(cache), capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def main() -> int:
    """The command; its status is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    chance, wrong, killed = random.Random(arguments.seed), 0, 0
    with tempfile.TemporaryDirectory(prefix="gtensor-stress-") as folder:
        known = Path(folder) / "known"
        alone = warm(known)
        for number in range(arguments.rounds):
            cache = Path(shutil.copytree(known, Path(folder) / "cache"))
            found = one_round(cache, alone, chance, arguments.processes)
            shutil.rmtree(cache)
            killed, wrong = killed + found.killed, wrong + bool(found.wrong)
            told = "; ".join(dict.fromkeys(found.wrong)) or "well"
            print(f"round {number + 1}: {found.killed} killed at work, {found.seconds:.1f} s: {told}", flush=True)
    print(f"{arguments.rounds} rounds, {killed} processes killed at work, {wrong} rounds went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

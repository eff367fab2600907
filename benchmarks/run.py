"""The harness: every library on every workload, in processes of their own, taking turns on one core.

    python -m benchmarks.run
    python -m benchmarks.run --workloads W1 --contenders gtensor:step,jax:jit --rounds 5 --seconds 1

Comes in: names. Goes out: records as JSON lines in a file, a line for each as it comes, and the tables of table.py at
the end. Each library is first run once with an empty cache, on all cores, for its first call alone. Then come the
rounds, one core, one thread: the limits of the machine, then each library, which starts from the cache that it filled
in the first round. A library that is not installed, or cannot do a workload, is left out and says why.
"""

import argparse
import functools
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gtensor.codegen import build, toolchain
from gtensor.stages import Settings

from . import machine, table

WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9")

CONTENDERS = (
    "gtensor:step",
    "gtensor:compile",
    "gtensor:fit",
    "gtensor:noblas",
    "torch:eager",
    "torch:compile",
    "jax:jit",
    "jax:100steps",
    "pytensor:default",
    "numpy:hand",
)

PATIENCE = 900
"""Seconds that one process may take."""


def caches(folder):
    """The variables that put every library's cache into a folder."""
    return {
        "GT_CACHE": f"{folder}/gtensor",
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "NUMBA_CACHE_DIR": f"{folder}/numba",
        "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "XDG_CACHE_HOME": f"{folder}/xdg",
    }


def record(module, *words, core, folder):
    """What a module of this package prints in a process of its own: its record, or one that says what went wrong."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *words]
    try:
        done = subprocess.run(
            command,
            cwd=machine.ROOT,
            env=machine.environment(**caches(folder)),
            preexec_fn=functools.partial(machine.pin, core),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {PATIENCE} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def about():
    """What the tables say of this machine and of the run."""
    options = Settings.now().options
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": machine.cpu(),
        "vector_bits": 8 * build.target(options).width,
        "compiler": toolchain.find(options).version,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "pinned": machine.last_core() is not None,
    }


class Log:
    """The records, in a file and in memory, each shown as it comes."""

    def __init__(self, path):
        self.path, self.records, self.begun = path, [], time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, **fields):
        """Keep a record; gives it back."""
        self.records.append(fields)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")
        what = " ".join(f"{fields[key]}" for key in ("workload", "round", "contender") if key in fields)
        print(f"{time.monotonic() - self.begun:6.0f} s  {what:28} {table.line(fields)}", flush=True)
        return fields


def compare(workload, contenders, rounds, seconds, log):
    """All rounds of a workload."""
    core, active = machine.last_core(), []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for contender in contenders:
            with tempfile.TemporaryDirectory(prefix="bench-cold-") as empty:
                found = record("measure", contender, workload, "--seconds", "0", core=None, folder=empty)
            log.add(workload=workload, round=0, contender=contender, **found)
            if not found.keys() & {"skipped", "error"}:
                active.append(contender)
        for number in range(1, rounds + 1):
            found = record("limits", "--json", core=core, folder=folder)
            log.add(workload=workload, round=number, contender="limits", **found)
            turn = number % max(1, len(active))
            for contender in active[turn:] + active[:turn]:
                own = f"{folder}/{contender.replace(':', '-')}"
                found = record("measure", contender, workload, "--seconds", str(seconds), core=core, folder=own)
                log.add(workload=workload, round=number, contender=contender, **found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="library:mode,…")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed calls in each process")
    parser.add_argument("--out", type=Path, help="file for the records (a new one in build/bench)")
    args = parser.parse_args()
    log = Log(args.out or machine.ROOT / "build" / "bench" / time.strftime("%Y%m%d-%H%M%S.jsonl"))
    log.add(**about(), rounds=args.rounds, seconds=args.seconds)
    for workload in args.workloads.split(","):
        compare(workload, args.contenders.split(","), args.rounds, args.seconds, log)
    print(f"\n{table.markdown(log.records)}\nrecords: {log.path}")


if __name__ == "__main__":
    main()

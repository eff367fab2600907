"""One process of the harness: one library, one mode, one workload, and nothing else.

    python -m benchmarks.measure gtensor:step W1 --seconds 1

prints a record in JSON. The losses before the first five updates must be those of the table in workloads.py; only then
calls are timed, one by one, the loss read in each. `--seconds 0` stops after the losses: the first call is then all
that was timed. The threads and the
core are those that it is started with. Law: nothing but the standard library is imported before the library.
"""

import argparse
import importlib
import json
import math
import resource
import statistics
import sys
import time

from .contender import Unsupported

CHECKED, TOLERANCE = 5, 1e-4
"""How many losses are compared with the table, and how close they must be, relatively."""

WARM_UP = 0.3
"""Seconds of calls before those that are timed."""


def sequence(value):
    """The losses of one call."""
    return [float(loss) for loss in value] if hasattr(value, "__len__") else [float(value)]


def checked(losses, wanted):
    """The first losses; raises ArithmeticError if they are not those of the table."""
    first = losses[:CHECKED]
    if len(first) < CHECKED or not all(map(lambda a, b: math.isclose(a, b, rel_tol=TOLERANCE), first, wanted)):
        raise ArithmeticError(f"the first losses are {first}, not {list(wanted)}")
    return first


def timed(run, seconds):
    """Fields of the record: the least and the median time of an update, over calls of that many seconds in all."""
    call, clock = run.call, time.perf_counter
    end = clock() + WARM_UP
    while clock() < end:
        call()
    least, times = 7 if run.updates == 1 else 2, []
    end = clock() + seconds
    while (begin := clock()) < end or len(times) < least:
        call()
        times.append(clock() - begin)
    scale = 1e6 / run.updates
    return {"min_us": scale * min(times), "median_us": scale * statistics.median(times), "calls": len(times)}


def measure(contender, workload, seconds):
    """The record of a library and mode (`gtensor:step`) on a workload."""
    name, mode = contender.split(":")
    clock = time.perf_counter
    begin = clock()
    library = importlib.import_module(f".{name}_models", __package__)
    record = {"import_s": clock() - begin, "version": sys.modules[name].__version__}
    workloads = importlib.import_module(".workloads", __package__)
    made = workloads.make(workload)
    if hasattr(library, "prepare"):
        begin = clock()
        library.prepare()
        record["prepare_s"] = clock() - begin
    begin = clock()
    run = library.build(workload, mode, *made)
    losses = sequence(run.call())
    record["first_s"] = clock() - begin
    while len(losses) < CHECKED:
        losses += sequence(run.call())
    record |= {"losses": checked(losses, workloads.LOSSES[workload]), "updates": run.updates, **run.about()}
    if seconds:
        record |= timed(run, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record["rss_mb"] = peak / (2**20 if sys.platform == "darwin" else 2**10)
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("contender", help="library:mode")
    parser.add_argument("workload")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed calls; 0: only the first call")
    args = parser.parse_args()
    try:
        record = measure(args.contender, args.workload, args.seconds)
    except (Unsupported, ModuleNotFoundError) as reason:
        record = {"skipped": str(reason)}
    print(json.dumps(record))


if __name__ == "__main__":
    main()

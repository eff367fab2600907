"""Records of the harness as tables.

    python -m benchmarks.table RECORDS             print the tables
    python -m benchmarks.table RECORDS --readme    put them into README.md beside this file

The time of a library is the least of all its rounds, with the median of the rounds' medians beside it; a ratio is one
of such minima. The yardstick takes the best limits that were measured between the same rounds. The best peer is the
fastest of those that make one update a call; calls of many updates are compared with each other.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import NamedTuple

from . import limits, workloads

README = Path(__file__).parent / "README.md"

BEGIN, END = "<!-- tables: python -m benchmarks.table RECORDS --readme -->", "<!-- end of tables -->"

OWN, OWN_MANY, OWN_ALONE = "gtensor:step", "gtensor:fit", "gtensor:noblas"
"""What is compared with the best peer, with peers that make many updates a call, and with itself without BLAS."""

NOTHING = "–"


class Result(NamedTuple):
    """A contender on a workload: microseconds of an update, seconds of first call and import, memory."""

    contender: str
    version: str
    updates: int
    least: float
    median: float
    cold: float | None
    prepare: float | None
    cached: float | None
    imported: float
    rss_mb: float


def line(record):
    """A record in a few words."""
    if reason := record.get("error") or record.get("skipped"):
        return f"{'failed' if 'error' in record else 'left out'}: {reason}"
    if "min_us" in record:
        return f"min {record['min_us']:.2f} µs, median {record['median_us']:.2f} µs, {record['calls']} calls"
    if "gflops" in record:
        return f"products {record['gflops']:.1f} GFLOP/s, copy {record['copy_gbps']:.1f} GB/s"
    if "first_s" in record:
        return f"first call {first(record):.2f} s"
    return ", ".join(f"{key} {value}" for key, value in record.items())


def first(record):
    """Seconds until a first call has returned, what is done once per machine included."""
    return record["first_s"] + record.get("prepare_s", 0.0)


def results(records, workload):
    """The contenders of a workload that were timed, as they came."""
    rows = [r for r in records if r.get("workload") == workload and "first_s" in r]
    found = []
    for contender in dict.fromkeys(r["contender"] for r in rows if "min_us" in r):
        own = [r for r in rows if r["contender"] == contender]
        timed = [r for r in own if "min_us" in r]
        cold = next((r for r in own if r["round"] == 0), None)
        found.append(
            Result(
                contender=contender,
                version=timed[0]["version"],
                updates=timed[0]["updates"],
                least=min(r["min_us"] for r in timed),
                median=statistics.median(r["median_us"] for r in timed),
                cold=first(cold) if cold else None,
                prepare=cold.get("prepare_s") if cold else None,
                cached=min((first(r) for r in timed if r["round"] > 1), default=None),
                imported=min(r["import_s"] for r in own),
                rss_mb=statistics.median(r["rss_mb"] for r in timed),
            )
        )
    order = list(dict.fromkeys(r["contender"] for r in records if "contender" in r))
    return sorted(found, key=lambda result: order.index(result.contender))


def yardstick(records, workload):
    """The floor of a workload in microseconds, from the limits measured between its rounds; None without any."""
    rows = [r for r in records if r.get("workload") == workload and "gflops" in r]
    if not rows:
        return None
    return limits.floor_us(workload, max(r["gflops"] for r in rows), max(r["copy_gbps"] for r in rows))


def number(value, digits=3):
    """A figure with that many digits, or a dash."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in text else text


def ratio(slow, fast):
    """How many times faster, by minima and (in brackets) by medians."""
    return f"{slow.least / fast.least:.2f}× ({slow.median / fast.median:.2f}×)" if slow and fast else NOTHING


def fastest(found, own, many):
    """The fastest peer of one kind."""
    peers = [r for r in found if not r.contender.startswith("gtensor") and (r.updates > 1) == many]
    return min(peers, key=lambda r: r.least, default=None) if own else None


def grid(head, rows):
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


SUMMARY = "workload|yardstick|gtensor|of yardstick|best peer|faster|fit|best peer of it|faster|without BLAS".split("|")


def summary(records, names):
    """A line per workload."""
    rows = []
    for name in names:
        found = results(records, name)
        by_name = {r.contender: r for r in found}
        own, many, alone = (by_name.get(contender) for contender in (OWN, OWN_MANY, OWN_ALONE))
        peer, other, floor = fastest(found, own, False), fastest(found, many, True), yardstick(records, name)
        cells = [f"{name} {workloads.TITLES[name]}", number(floor)]
        cells += [number(own.least) if own else NOTHING, f"{own.least / floor:.2f}×" if own and floor else NOTHING]
        for mine, theirs in ((own, peer), (many, other)):
            cells += [f"{number(theirs.least)} {theirs.contender}" if theirs else NOTHING, ratio(theirs, mine)]
        cells.insert(6, number(many.least) if many else NOTHING)
        cells.append(f"{number(alone.least)} ({alone.least / own.least:.2f}×)" if alone and own else NOTHING)
        rows.append(cells)
    return grid(SUMMARY, rows)


def details(records, name):
    """A line per contender of a workload."""
    floor = yardstick(records, name)
    head = [name, "min µs", "median µs", "of yardstick", "first call, cold s", "cached s", "import s", "RSS MB"]
    rows = []
    for r in results(records, name):
        above = f"{r.least / floor:.2f}×" if floor else NOTHING
        figures = [number(value) for value in (r.cold, r.cached, r.imported, r.rss_mb)]
        rows.append([r.contender, number(r.least, 4), number(r.median, 4), above, *figures])
    return grid(head, rows)


def markdown(records):
    """All tables, below what they were measured on."""
    about = next(r for r in records if "cpu" in r)
    names = sorted({r["workload"] for r in records if "workload" in r})
    everything = [r for name in names for r in results(records, name)]
    versions = dict.fromkeys(f"{r.contender.partition(':')[0]} {r.version}" for r in everything)
    once = max((r.prepare for r in everything if r.prepare is not None), default=None)
    reasons = [f"{r['workload']} {r['contender']}: {line(r)}" for r in records if r.keys() & {"error", "skipped"}]
    core = "one core, one thread" if about["pinned"] else "one thread, no core to itself"
    where = [about["date"], f"{about['cpu']} ({about['vector_bits']}-bit vectors)", about["system"], about["compiler"]]
    parts = [
        f"{', '.join(where)}, Python {about['python']}; {', '.join(versions)}. {about['rounds']} rounds of "
        f"{about['seconds']:g} s, {core}. Microseconds an update; factors in brackets are those of medians.",
        summary(records, names),
        *(details(records, name) for name in names),
    ]
    if once is not None:
        parts.append(
            f"Of a cold first call of gtensor, up to {number(once, 2)} s come once per machine: trying the compiler, "
            "compiling the bridge for calls."
        )
    if reasons:
        parts.append("\n".join(["Not measured:", *(f"- {reason}" for reason in reasons)]))
    return "\n\n".join(parts) + "\n"


def insert(text, tables):
    """The text with its tables replaced; raises ValueError if it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n\n{tables}\n{end}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--readme", action="store_true", help="put the tables into benchmarks/README.md")
    args = parser.parse_args()
    tables = markdown([json.loads(row) for row in args.records.read_text(encoding="utf-8").splitlines()])
    if args.readme:
        README.write_text(insert(README.read_text(encoding="utf-8"), tables), encoding="utf-8")
    else:
        print(tables, end="")


if __name__ == "__main__":
    main()

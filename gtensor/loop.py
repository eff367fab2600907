"""The loop over a data set: a compiled function run batch after batch inside C, in slices.

Comes in: a function over a block of state (`resident.Bound`), arrays with one row per example. Goes out: losses.
Laws: rows are gathered in C, nothing is copied beforehand but what is not C-contiguous; a failing batch is named and
leaves the batches before it done; between slices of about 100 ms Python is in charge.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .calls import READABLE, Inputs, adapted
from .errors import GTensorError, OptionError, ShapeError
from .resident import Array, Bound
from .types import Dim

SLICE = 0.1
"""Seconds that C keeps the loop before Python looks at signals and callbacks."""

GIVE_WAY = 0.002
"""Seconds for which a loop leaves its state to threads that wait for it: longer than they sleep before they look."""

GROWTH = 8
"""By how much a slice may be longer than the last one: the first steps of a run say little of its speed."""


class Epoch(NamedTuple):
    """One pass over the data: the mean loss of its rows, the validation loss after it, and the seconds it took."""

    loss: float
    validation: float | None
    seconds: float


@dataclass
class History:
    """What a run has seen: the losses of all steps so far, a record per finished epoch, and the seconds."""

    losses: Array
    epochs: list[Epoch] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def steps_per_second(self) -> float:
        """Speed over all, validation and callbacks included."""
        return len(self.losses) / self.seconds if self.seconds else 0.0

    def __repr__(self) -> str:
        last = f", loss {self.epochs[-1].loss:.6g}" if self.epochs else ""
        return f"History({len(self.losses)} steps, {len(self.epochs)} epochs{last}, {self.seconds:.2f} s)"


class Data:
    """A data set for the batch inputs of a function: arrays with a row per example, and what every batch shares.

    An input is batched if its leading extent is that of the first input with axes. Raises SignatureError for data
    of another structure, shape or dtype, ShapeError for data without rows.
    """

    def __init__(self, inputs: Inputs, data: tuple[Any, ...], what: str) -> None:
        leaves = inputs.leaves(data)
        if leaves is None:
            raise inputs.refusal(data)
        found = inputs.take_rows(leaves)
        if found is not None:
            self.count, self.dims = len(found[inputs.first]), {}
        else:
            leaves = [adapted(leaf, want) for leaf, want in zip(leaves, inputs.wanted, strict=True)]
            arrays = [leaf for leaf, want in zip(leaves, inputs.wanted, strict=True) if want.type is not None]
            first: Any = arrays[inputs.first]
            if not np.ndim(first) or not len(first):
                raise ShapeError(f"{what} needs data with at least one row")
            self.count = len(first)
            whole = inputs.with_rows(self.count, what)
            found = whole.take(leaves)
            dims = None if found is None else whole.extents(found)
            if found is None or dims is None:
                raise whole.refusal(data)
            self.dims = dims
        self.arrays = [a if a.flags.num & READABLE == READABLE else np.array(a, order="C") for a in found]


class Part(NamedTuple):
    """`steps` batches of `size` rows from row `start` of an epoch on, run by `bound`."""

    bound: Bound
    start: int
    size: int
    steps: int


def parts(count: int, size: int, full: Callable[[], Bound], rest: Callable[[int], Bound] | None) -> list[Part]:
    """Full batches, run by `full`, then the rows that are left, by what `rest` gives for their number, if anything."""
    batches, left = divmod(count, size)
    found = [Part(full(), 0, size, batches)] if batches else []
    return found + ([Part(rest(left), batches * size, left, 1)] if left and rest is not None else [])


class Runner:
    """Runs one part over the data set of its function. `done` is how many batches the last run completed."""

    def __init__(self, part: Part, data: Data) -> None:
        self.part = part
        self.steps = part.steps
        self.done = 0
        self.data = data
        rows = part.bound.inputs.rows
        self.dims = {**data.dims, rows.name: part.size} if isinstance(rows, Dim) else data.dims

    def run(self, first: int, steps: int, order: Array | None, losses: Array) -> GTensorError | None:
        """Run `steps` batches from the part's batch `first` on; the error of batch number `done`, if it failed."""
        bound, size = self.part.bound, self.part.size
        start = self.part.start + first * size
        rows = None if order is None else order[start : start + steps * size]
        with bound.block.lock:
            bound.bind(self.data.arrays, self.dims)
            if not bound.kept:
                bound.outputs.bind(bound.frame, (), self.dims)
            failed = bound.loop.run(steps, size, first=start, rows=rows, losses=losses)
            failure = bound.frame.failure() if failed else None
            self.done = bound.loop.done
        if bound.block.lock.waiting:
            time.sleep(GIVE_WAY)
        return None if failure is None else bound.compiled.error(failure)


class Pace:
    """How many steps fit into a slice, from how long the last ones took; it may be kept from run to run."""

    def __init__(self) -> None:
        self.steps = 1

    def measure(self, steps: int, seconds: float) -> None:
        """Learn from a slice that was run."""
        fitting = int(SLICE * steps / seconds) if seconds > 0 else GROWTH * steps
        self.steps = max(1, min(fitting, GROWTH * self.steps))


def mean_loss(runners: list[Runner]) -> float:
    """The mean over all rows of the loss of a function that changes nothing."""
    total = 0.0
    for runner in runners:
        losses = np.empty(runner.steps)
        if (error := runner.run(0, runner.steps, None, losses)) is not None:
            raise error
        total += runner.part.size * float(losses.sum())
    return total / sum(runner.steps * runner.part.size for runner in runners)


def run(
    runners: list[Runner],
    *,
    epochs: int,
    pace: Pace,
    order: Callable[[], Array | None],
    validate: Callable[[], float] | None,
    callback: Callable[[History], object] | None,
    advance: Callable[[int, float], None],
) -> History:
    """All parts, epoch after epoch. `order` gives the rows of each epoch; `callback` ends the run by a true result.

    `advance` is told of each slice: its steps and its last loss. Raises the error of a batch that fails, which says
    which one; what the batches before it did stays done.
    """
    batches, count = sum(r.steps for r in runners), sum(r.steps * r.part.size for r in runners)
    losses = np.empty(epochs * batches)
    history, begun, total = History(losses[:0]), time.perf_counter(), 0
    for epoch in range(epochs):
        rows, started, weighted = order(), time.perf_counter(), 0.0
        for runner in runners:
            at = 0
            while at < runner.steps:
                steps, before = min(pace.steps, runner.steps - at), time.perf_counter()
                error = runner.run(at, steps, rows, losses[total:])
                pace.measure(steps, time.perf_counter() - before)
                total, at = total + runner.done, at + runner.done
                history.losses = losses[:total]
                if error is not None:
                    batch = total - epoch * batches
                    error.message += f" (batch {batch} of epoch {epoch}; the steps before it are done)"
                    raise error
                weighted += runner.part.size * float(np.add.reduce(losses[total - steps : total]))
                advance(steps, float(losses[total - 1]))
                if runner is runners[-1] and at == runner.steps:
                    value = None if validate is None else validate()
                    history.epochs.append(Epoch(weighted / count, value, time.perf_counter() - started))
                history.seconds = time.perf_counter() - begun
                if callback is not None and callback(history):
                    return history
    return history


@contextlib.contextmanager
def progress_bar(total: int, name: str, show: bool) -> Iterator[Callable[[int, float], None]]:
    """A bar with loss and steps per second on standard error, in terminals and notebooks."""
    if not show:
        yield lambda steps, loss: None
        return
    from tqdm.auto import tqdm

    notebook = "ipykernel" in sys.modules
    often = 0.1 if notebook or sys.stderr.isatty() else 5.0
    with tqdm(total=total, desc=name, unit=" steps", ncols=None if notebook else 80, mininterval=often) as bar:

        def advance(steps: int, loss: float) -> None:
            bar.set_postfix_str(f"loss {loss:.4g}", refresh=False)
            bar.update(steps)

        yield advance


def require_positive(**values: int) -> None:
    """Raise OptionError for a count that is no positive integer."""
    for name, value in values.items():
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{name} must be a positive integer, not {value!r}")

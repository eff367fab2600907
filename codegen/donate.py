"""Donation: which outputs lie on the memory they take over, and the order of the steps that allows it.

Comes in: a checked Program and what each step touches. Goes out: the order of its steps (unchanged
where that works, otherwise stable) and the outputs that are written straight into the memory of their
alias. Law: in that order every value is computed from the same values as before, no step that can fail
stands at or after the first write of such memory, and no step reads the old value after it, except as
the very element it then overwrites. All other outputs with an alias must be copied at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .access import Touches, may_take_over
from .program import Program


@dataclass(frozen=True)
class _Takeover:
    """One output that may lie on its target: its first writer, and the steps that must come before it."""

    output: str
    writer: int
    readers: tuple[int, ...]


def arrange(program: Program, steps: Sequence[Touches]) -> tuple[tuple[int, ...], frozenset[str]]:
    """The order of the steps (their positions) and the names of the outputs that lie on their alias.

    Takeovers that hold in the given order are kept first. Each other one is tried in turn: its first
    writer is made to wait for the readers of the old value and for every step that can fail, unless one
    of them needs what the writer writes.

    ```
    before: k0: w_new = w - g     k1: y = x @ w     k2: check labels
    after:  k1: y = x @ w         k2: check labels  k0: w_new = w - g     (w_new lies on w)
    ```
    """
    size = len(steps)
    fails = [number for number, step in enumerate(steps) if step.fails]
    hold: list[_Takeover] = []
    wait: list[_Takeover] = []
    for takeover in _takeovers(program, steps):
        latest = max((*takeover.readers, *fails[-1:]), default=-1)
        (hold if latest < takeover.writer else wait).append(takeover)
    if not wait:
        return tuple(range(size)), frozenset(takeover.output for takeover in hold)
    # One more node, number `size`, stands for "everything that can fail is done".
    after = _dependencies(steps)
    after.append([])
    for number in fails:
        after[number].append(size)
    for takeover in hold:
        _precede(after, (*takeover.readers, size), takeover.writer)
    direct = {takeover.output for takeover in hold}
    for takeover in wait:
        before = {*takeover.readers, *([size] if fails else [])}
        if not _reaches(after, takeover.writer, before):
            _precede(after, before, takeover.writer)
            direct.add(takeover.output)
    return _sorted(after, size), frozenset(direct)


def _takeovers(program: Program, steps: Sequence[Touches]) -> list[_Takeover]:
    """The outputs that their first writer does not keep from lying on their target.

    A later writer that reads the old value, or any writer that can fail, is found to need the first one.
    """
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        for name in step.writes:
            writers.setdefault(name, []).append(number)
        for name in step.reads:
            readers.setdefault(name, []).append(number)
    found = []
    for buffer in program.buffers:
        if buffer.alias is None or buffer.alias in writers:
            continue
        mine, old = writers.get(buffer.name, []), readers.get(buffer.alias, [])
        if mine and may_take_over(steps[mine[0]], buffer.alias, buffer.name):
            found.append(_Takeover(buffer.name, mine[0], tuple(number for number in old if number != mine[0])))
    return found


def _dependencies(steps: Sequence[Touches]) -> list[list[int]]:
    """Step -> later steps that must stay behind it: reads after writes, writes after reads and writes.

    Scratch memory carries nothing from step to step.
    """
    after: list[list[int]] = [[] for _ in steps]
    last: dict[str, int] = {}
    since: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        for name in step.reads:
            if name in last:
                after[last[name]].append(number)
            since.setdefault(name, []).append(number)
        for name in step.writes:
            for earlier in (*since.pop(name, ()), *([last[name]] if name in last else [])):
                if earlier != number:
                    after[earlier].append(number)
            last[name] = number
    return after


def _precede(after: list[list[int]], before: Iterable[int], number: int) -> None:
    for earlier in before:
        after[earlier].append(number)


def _reaches(after: Sequence[Sequence[int]], start: int, ends: set[int]) -> bool:
    """Whether a path leads from `start` to one of `ends`."""
    seen, stack = {start}, [start]
    while stack:
        for later in after[stack.pop()]:
            if later in ends:
                return True
            if later not in seen:
                seen.add(later)
                stack.append(later)
    return False


def _sorted(after: Sequence[Sequence[int]], size: int) -> tuple[int, ...]:
    """The steps in an order that keeps all edges; of those that may come next, the earliest comes next."""
    missing = [0] * len(after)
    for targets in after:
        for number in targets:
            missing[number] += 1
    # Node `size` is no step: it comes as soon as it may, so that who waits for it waits no longer.
    rank = [*range(size), -1]
    ready = [(rank[number], number) for number, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for later in after[number]:
            missing[later] -= 1
            if missing[later] == 0:
                heapq.heappush(ready, (rank[later], later))
    return tuple(number for number in order if number != size)

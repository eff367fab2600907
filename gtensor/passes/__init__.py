"""The passes: each makes a graph simpler and keeps its meaning; `PASSES` is their order, and why.

Comes in: a traced graph. Goes out: the graph that fusion sees. Laws, tested on random graphs: a pass is
pure, keeps the types of inputs and outputs and every value, gives the same object when it changes nothing,
changes nothing the second time, and leaves a graph that obeys `check_graph`. Each runs once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..check import check_graph
from ..errors import InternalError, OptionError
from ..ir import Graph
from .algebra import algebra
from .cut import cut
from .dce import dce
from .gemm import gemm
from .hoist import hoist
from .inline import inline
from .loops import loops
from .split import split
from .verify import changed_value
from .views import views


@dataclass(frozen=True)
class Pass:
    """A pass, by the name that GT_SKIP and logs know, and the reason for its place in the order."""

    name: str
    run: Callable[[Graph], Graph]
    why: str


PASSES = (
    Pass("loops", loops, "first: it knows that two loops are one by their bodies, which other passes rewrite"),
    Pass("inline", inline, "before all that looks at equations; after loops, which looks at bodies as they were bound"),
    Pass("cut", cut, "early: a wall hides what made an operand from all rules that follow"),
    Pass("split", split, "before hoist: the part of a product that does not change from step to step can leave a loop"),
    Pass("hoist", hoist, "before views: what leaves a loop becomes larger operations for them to simplify"),
    Pass("views", views, "before gemm and algebra: they look for transposes and literals next to operations"),
    Pass("gemm", gemm, "after views: a transpose that a product or another transpose takes in is no use to count"),
    Pass("algebra", algebra, "after views: it sees literals as operands and no view between two operations"),
    Pass("dce", dce, "last: every other pass leaves behind the equations that it has replaced"),
)
"""Every pass, in order. Without one of them the others still keep their laws; only the result is longer."""

Log = Callable[[str, Graph, Graph, float], None]
"""Called after each pass with its name, the graph before, the graph after (the same object where nothing
changed) and the seconds it took."""


def simplify(graph: Graph, *, skip: Iterable[str] = (), check: int = 0, log: Log | None = None) -> Graph:
    """The graph after all passes but those named in `skip`.

    With `check` 1, `check_graph` runs on the graph and after each pass; with 2 both graphs of each pass are
    also evaluated on random inputs. Raises InternalError that names the first pass that breaks a law or
    changes a value, OptionError for an unknown name in `skip`.

    >>> import gtensor as gt
    >>> def f(x, y):
    ...     return gt.stop_gradient(x) + -y / 4
    >>> print(gt.ir.text(simplify(gt.trace(f, gt.spec((3,)), gt.spec((3,)))), sources=False))
    graph f(x: f32[3], y: f32[3]):
      t0: f32[3] = mul(y, -0.25:f32)
      t1: f32[3] = add(x, t0)
      return t1
    """
    left_out = set(skip)
    for name in sorted(left_out - {p.name for p in PASSES}):
        raise OptionError(f"there is no pass {name!r} to skip", hint=f"passes are {', '.join(p.name for p in PASSES)}")
    if check >= 1:
        check_graph(graph)
    for each in PASSES:
        if each.name in left_out:
            continue
        started = time.perf_counter()
        result = each.run(graph)
        seconds = time.perf_counter() - started
        if log is not None:
            log(each.name, graph, result, seconds)
        if result is not graph:
            _check(each.name, graph, result, check)
        graph = result
    return graph


def _check(name: str, before: Graph, after: Graph, level: int) -> None:
    """Hold a pass to its laws; raises InternalError that names it."""
    if level >= 1:
        check_graph(after, f"after the pass {name}")
    if level >= 2:
        fault = changed_value(before, after)
        if fault:
            raise InternalError(f"the pass {name} changed a value of {before.name}: {fault}")

"""From equations to kernels: which equations share a loop, and why.

Comes in: a simplified Graph. Goes out: a Schedule: groups in order, each one kernel (or a few, for joined
arrays), and for every value where it lives: its group, its level there, and the memory it is a view of.
Law: an equation joins group k only if its operands are made in groups before k, or in k at a level that a
loop can pass on. Groups are numbered as they are made, so no cycle can form. An elementwise equation that
would open a group waits instead and goes where it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .ir import Atom, Eqn, Graph, Lit, Var, names
from .schedule import Body, Group, GroupKind, Level, Location, Schedule, dense_strides
from .types import Dim, Shape, Type, shape_size

MAX_EQUATIONS = 500
"""A group is closed at this many equations: C compilers take more than linear time over a function."""

MAX_WAITING = 64
"""How many equations may wait for one consumer."""

PROLOGUE = 0
"""The first group: scalars made of inputs only, so that every later kernel can use them."""

LOOKBACK = 16
"""How many later groups are tried for an equation that could run anywhere after its operands."""


def fuse(graph: Graph) -> Schedule:
    """Group the equations of a graph; see the module's text for the rule."""
    fuser = _Fuser(graph)
    for eqn in _counts_first(graph):
        _HANDLERS[eqn.prim.kind](fuser, eqn)
    outputs = fuser.outputs()
    groups, home = fuser.groups, fuser.home
    if not groups[PROLOGUE].eqns:
        groups, home = groups[1:], {var: at - 1 for var, at in home.items()}
    groups, home = _literals_first(groups, home, fuser.location)
    return Schedule(graph, tuple(groups), home, fuser.level, fuser.location, outputs)


def _counts_first(graph: Graph) -> list[Eqn]:
    """The equations, those of numbers that depend on nothing but run-time extents before all others.

    A mean divides by such a count, and what comes of it can then join the kernel that makes what is divided.
    """
    eqns = list(graph.eqns)
    if all(isinstance(n, int) for var in graph.inputs for n in var.type.shape):
        return eqns
    free: set[Atom] = set()
    for eqn in eqns:
        if eqn.ins and eqn.prim.kind in _COUNTING and all(isinstance(a, Lit) or a in free for a in eqn.ins):
            free.update(eqn.outs)
    first: set[Atom] = set()
    for eqn in reversed(eqns):
        if eqn.outs[0] in free and (eqn.outs[0] in first or eqn.out.type.shape == ()):
            first.update((*eqn.outs, *eqn.ins))
    return sorted(eqns, key=lambda eqn: eqn.outs[0] not in first)


_COUNTING = ("elementwise", "reduce", "view")
"""Kinds of operations that counts of elements are made of."""


def _literals_first(
    groups: list[Group], home: dict[Var, int], location: dict[Var, Location]
) -> tuple[list[Group], dict[Var, int]]:
    """The groups with each literal or counter written out before every group that reads it.

    What a later group needed in memory lives there for earlier ones too, which took it for a literal.
    """
    first: dict[Var | Lit | None, int] = {}
    for i, group in enumerate(groups):
        for atom in (a for eqn in group.eqns for a in eqn.ins if isinstance(a, Var)):
            first.setdefault(location[atom].base, i)
    place = [float(i) for i in range(len(groups))]
    for i, group in enumerate(groups):
        if group.source is not None and not isinstance(group.source.base, Var):
            place[i] = min(place[i], first.get(group.target, i) - 0.5)
    order = sorted(range(len(groups)), key=place.__getitem__)
    moved = {old: new for new, old in enumerate(order)}
    return [groups[i] for i in order], {var: moved[at] for var, at in home.items()}


class _Fuser:
    """The schedule under construction."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name_of = names(graph)
        self.groups: list[Group] = [Group("row", (), "scalars of inputs only")]
        self.home: dict[Var, int] = {}
        self.level: dict[Var, Level] = {}
        self.location: dict[Var, Location] = {v: Location(v, dense_strides(v.type.shape)) for v in graph.inputs}
        self.waiting: dict[Var, Eqn] = {}
        self.in_order: dict[Atom, Var] = {}
        self.number = {eqn.outs[0]: i for i, eqn in enumerate(graph.eqns)}

    # ---- what is known of operands ----

    def home_of(self, atom: Atom) -> int:
        """The group in which an operand is made; -1 for inputs, literals and counters."""
        return self.home.get(atom, -1) if isinstance(atom, Var) else -1

    def locate(self, atom: Atom) -> Location:
        """Where an operand lives."""
        if isinstance(atom, Var):
            return self.location[atom]
        return Location(atom, (0,) * len(atom.type.shape))

    def frontier(self, atoms: Sequence[Atom]) -> list[Var]:
        """The operands that are already made: of equations, and of those that wait for them."""
        behind = [a for eqn in self.behind(atoms) for a in eqn.ins]
        return [a for a in (*atoms, *behind) if isinstance(a, Var) and a not in self.waiting]

    def earliest(self, atoms: Sequence[Atom]) -> int:
        """The first group that something with these operands could be in."""
        first = 0
        for var in self.frontier(atoms):
            home = self.home_of(var)
            if home >= 0:
                first = max(first, home + (self.level[var] == "after"))
        return first

    def reads_of(self, atoms: Sequence[Atom]) -> set[Var]:
        """What is read from memory for operands, to find groups that read the same."""
        return {base for a in self.frontier(atoms) if isinstance(base := self.locate(a).base, Var)}

    # ---- equations that wait for their first consumer ----

    def behind(self, atoms: Sequence[Atom]) -> list[Eqn]:
        """The waiting equations that operands depend on, in order."""
        found: dict[Var, Eqn] = {}
        stack = [a for a in atoms if isinstance(a, Var) and a in self.waiting]
        while stack:
            var = stack.pop()
            if var not in found:
                found[var] = self.waiting[var]
                stack.extend(a for a in found[var].ins if isinstance(a, Var) and a in self.waiting)
        return sorted(found.values(), key=lambda eqn: self.number[eqn.out])

    def wait(self, eqn: Eqn) -> bool:
        """Let an equation wait, unless too many wait with it."""
        if len(self.behind(eqn.ins)) >= MAX_WAITING:
            return False
        self.waiting[eqn.out] = eqn
        return True

    def settle(self, atoms: Sequence[Atom], space: Shape | None = None) -> None:
        """Place waiting operands now, but for those that the loop of `space` can take in."""
        if space is None:
            outside = [self.waiting[a] for a in atoms if isinstance(a, Var) and a in self.waiting]
        else:
            behind = self.behind(atoms)
            viewed = {a for e in behind if e.prim.kind == "view" for a in e.ins}
            outside = [e for e in behind if not _fits(e.out.type.shape, space, only_row=e.out in viewed)]
        for eqn in outside:
            if eqn.out in self.waiting:
                del self.waiting[eqn.out]
                _place(self, eqn)

    def bring(self, atoms: Sequence[Atom], at: int) -> None:
        """Put waiting operands into the group that needs them."""
        for eqn in self.behind(atoms):
            del self.waiting[eqn.out]
            view = eqn.prim.kind == "view"
            if view and self.home_of(eqn.ins[0]) != at:
                _view(self, eqn)
                continue
            level: Level = "element" if eqn.out.type.shape == self.groups[at].space else "row"
            self.put(eqn, at, level, _view_location(self, eqn) if view else None)

    # ---- placing equations ----

    def put(self, eqn: Eqn, at: int, level: Level, location: Location | None = None) -> None:
        """Add an equation to a group, after what waits for it."""
        self.bring(eqn.ins, at)
        group = self.groups[at]
        group.eqns.append(eqn)
        group.reads |= self.reads_of(eqn.ins) | set(eqn.outs)
        self.note(eqn, at, level, location)

    def note(self, eqn: Eqn, at: int, level: Level, location: Location | None = None) -> None:
        """Record where an equation's result is."""
        for out in eqn.outs:
            self.level[out] = level
            self.location[out] = location or Location(out, dense_strides(out.type.shape))
            if at >= 0:
                self.home[out] = at

    def open(self, kind: GroupKind, space: Shape, why: str, blocker: Group | None = None) -> int:
        """A new group at the end."""
        self.groups.append(Group(kind, space, why, blocker))
        return len(self.groups) - 1

    def candidates(self, atoms: Sequence[Atom], first: int) -> list[int]:
        """Groups to try: where the last operand is made, the newest, and late ones that read the same memory."""
        last = max((self.home_of(a) for a in self.frontier(atoms)), default=-1)
        newest = len(self.groups) - 1
        reads = self.reads_of(atoms)
        result = [last] if last >= first and last >= 0 else []
        for k in range(newest, max(first, newest + 1 - LOOKBACK) - 1, -1):
            if k != last and self.groups[k].kind == "row" and (k == newest or self.groups[k].reads & reads):
                result.append(k)
        return [k for k in result if len(self.groups[k].eqns) < MAX_EQUATIONS]

    def admits(self, at: int, level: Level, atoms: Sequence[Atom]) -> bool:
        """Whether group `at` can use operands at that level, and take in what waits for them."""
        if not all(self._passes(a, at, level) for a in atoms if a not in self.waiting):
            return False
        for eqn in self.behind(atoms):
            inner = _level_in(self, eqn.out.type.shape, at)
            source: Level | None = "row" if eqn.prim.kind == "view" else inner
            if inner is None or not all(self._passes(a, at, source) for a in eqn.ins if a not in self.waiting):
                return False
        return True

    def _passes(self, atom: Atom, at: int, level: Level | None) -> bool:
        home = self.home_of(atom)
        return home < at or (home == at and isinstance(atom, Var) and self.level[atom] == level)

    def materialize(self, atom: Atom, why: str) -> None:
        """Make sure that an operand is in memory: a literal or a counter is written out by a copy."""
        self.settle([atom])
        if isinstance(atom, Var) and not isinstance(self.location[atom].base, Var):
            self.copy(atom, self.location[atom], atom.type.shape, why)

    def dense(self, atom: Atom, why: str) -> Var:
        """A variable with memory of its own that holds an operand in row-major order."""
        self.settle([atom])
        location = self.locate(atom)
        if isinstance(atom, Var) and location == Location(location.base, dense_strides(atom.type.shape)):
            base = location.base
            if isinstance(base, Var) and shape_size(base.type.shape) == shape_size(atom.type.shape):
                return base
        target = Var(atom.type, atom.hint if isinstance(atom, Var) else "")
        self.copy(target, location, atom.type.shape, why)
        return target

    def copy(self, target: Var, source: Location, space: Shape, why: str) -> None:
        """A group that writes a view to memory of its own, in which `target` lives from then on."""
        at = self.open("copy", space, why)
        group = self.groups[at]
        group.target, group.source = target, source
        self.home[target], self.level[target] = at, "after"
        self.location[target] = Location(target, dense_strides(target.type.shape))

    def outputs(self) -> tuple[Var, ...]:
        """Memory for each output; what has none of its own (inputs, views, literals, repeats) is copied."""
        self.settle(self.graph.outputs)
        result: list[Var] = []
        inputs = set(self.graph.inputs)
        for i, atom in enumerate(self.graph.outputs):
            own = isinstance(atom, Var) and self.location[atom].base is atom and atom not in inputs
            if own and isinstance(atom, Var) and atom not in result:
                result.append(atom)
                continue
            target = Var(atom.type, f"out{i}")
            self.copy(target, self.locate(atom), atom.type.shape, "an output has memory of its own")
            result.append(target)
        return tuple(result)


def _fits_row(shape: Shape, space: Shape) -> bool:
    """Whether a shape has one element per row of a space."""
    return bool(space) and shape in (space[:-1], (*space[:-1], 1)) and shape != space


def _fits(shape: Shape, space: Shape, only_row: bool = False) -> bool:
    """Whether the loop of a space can make a value of that shape: per row (as what is viewed must be) or element."""
    return _fits_row(shape, space) or (shape == space and not only_row)


def _level_in(f: _Fuser, shape: Shape, at: int) -> Level | None:
    """The level of an elementwise result of that shape in a group, or None where it does not fit."""
    group = f.groups[at]
    if group.kind not in ("row", "product"):
        return None
    if shape == group.space:
        return "element"
    return "row" if group.kind == "row" and _fits_row(shape, group.space) else None


def _elementwise(f: _Fuser, eqn: Eqn) -> None:
    made = any(f.home_of(a) >= 0 for a in f.frontier(eqn.ins))
    if not (made and _join(f, eqn)) and not f.wait(eqn):
        _place(f, eqn)


def _place(f: _Fuser, eqn: Eqn) -> None:
    """Put an equation where its operands are, or into a group of its own."""
    if eqn.prim.kind == "view":
        f.settle(eqn.ins)
        _view(f, eqn)
        return
    shape = eqn.out.type.shape
    f.settle(eqn.ins, shape)
    full = len(f.groups[PROLOGUE].eqns) >= MAX_EQUATIONS
    if shape == () and not full and all(f.home_of(a) <= PROLOGUE for a in f.frontier(eqn.ins)):
        f.put(eqn, PROLOGUE, "element")
    elif not _join(f, eqn):
        f.put(eqn, _open_row(f, eqn, shape), "element")


def _join(f: _Fuser, eqn: Eqn) -> bool:
    """Put an equation into a group that makes its operands or reads the same, if there is one that it fits."""
    shape = eqn.out.type.shape
    f.settle(eqn.ins, shape)
    for at in f.candidates(eqn.ins, f.earliest(eqn.ins)):
        level = _level_in(f, shape, at)
        if level == "row" and not any(f.home_of(a) == at for a in f.frontier(eqn.ins)):
            continue
        if level is not None and f.admits(at, level, eqn.ins):
            f.put(eqn, at, level)
            return True
    return False


def _open_row(f: _Fuser, eqn: Eqn, space: Shape) -> int:
    """A new row group, and why the group of the last operand could not take the equation."""
    made = f.frontier(eqn.ins)
    last = max(map(f.home_of, made), default=-1)
    if last < 0:
        return f.open("row", space, "reads inputs only")
    group = f.groups[last]
    late = next((v for v in made if f.home_of(v) == last and f.level[v] == "after"), None)
    if late is not None:
        why = f"{f.name_of[late]} is known only when kernel {{}} is done"
    elif len(group.eqns) >= MAX_EQUATIONS:
        why = "kernel {} is full"
    elif group.kind in ("row", "product"):
        why = "its loop differs from that of kernel {}"
    else:
        why = "kernel {} only moves data"
    return f.open("row", space, why, group)


def _reduce(f: _Fuser, eqn: Eqn) -> None:
    (x,) = eqn.ins
    shape, axes = x.type.shape, eqn.params["axis"]
    last_only = axes == (len(shape) - 1,)
    by_position = eqn.prim.c["*"] in ("argmax", "argmin")
    f.settle([x], shape if last_only or not by_position else None)
    if not by_position or last_only:
        for at in f.candidates([x], f.earliest([x])):
            level = _level_in(f, shape, at)
            if level is None or (by_position and level == "row") or not f.admits(at, level, [x]):
                continue
            if level == "row" and not any(f.home_of(a) == at for a in f.frontier([x])):
                continue
            if f.groups[at].kind == "product" and len(shape) - 1 in axes:
                continue
            f.put(eqn, at, "row" if level == "element" and last_only else "after")
            return
    at = _open_row(f, eqn, _reduction_space(shape, axes, by_position))
    f.put(eqn, at, "row" if last_only else "after")


def _reduction_space(shape: Shape, axes: tuple[int, ...], by_position: bool) -> Shape:
    """The loop of a reduction: its operand's shape; for positions with the searched axis innermost."""
    if not by_position or not shape:
        return shape
    return (*(n for i, n in enumerate(shape) if i not in axes), *(shape[i] for i in axes))


def _view(f: _Fuser, eqn: Eqn) -> None:
    (x,) = eqn.ins
    out = eqn.out
    if isinstance(x, Var) and x in f.waiting:
        if _repeats_rows(x.type.shape, out.type.shape) and _keeps_order(eqn):
            f.waiting[out] = eqn
            return
        f.settle([x])
    home = f.home_of(x)
    location = _view_location(f, eqn)
    stays = home >= 0 and isinstance(x, Var) and _stays_in_loop(f, x, out.type, home)
    if location is not None and stays and _keeps_order(eqn):
        level: Level = "element" if out.type.shape == f.groups[home].space else "row"
        f.put(eqn, home, level, location)
        return
    if (
        location is None and x in f.in_order
    ):  # a reshape, as all that strides cannot say; its elements lie in order already
        home = f.home_of(f.in_order[x])
        location = Location(f.locate(f.in_order[x]).base, dense_strides(out.type.shape))
    if location is None:
        f.copy(out, f.locate(x), x.type.shape, "its elements cannot be reached by strides")
        f.in_order[x] = out
        return
    f.note(eqn, home, "after", location)


def _view_location(f: _Fuser, eqn: Eqn) -> Location | None:
    """The elements of a view in the memory of its operand, or None where strides cannot say it."""
    (x,) = eqn.ins
    source = f.locate(x)
    assert eqn.prim.strides is not None
    found = eqn.prim.strides(x.type, source.strides, source.offset, eqn.out.type, **eqn.params)
    return None if found is None else Location(source.base, *found)


def _repeats_rows(shape: Shape, out: Shape) -> bool:
    """Whether a view only adds or drops extents of 1, or repeats values per row along the row."""
    return _real(shape) == _real(out) or (len(out) > 0 and shape == (*out[:-1], 1))


def _keeps_order(eqn: Eqn) -> bool:
    """Whether a view has its operand's elements in their order: it is not reversed, transposed or cut."""
    (x,) = eqn.ins
    assert eqn.prim.strides is not None
    dense = dense_strides(x.type.shape)
    found = eqn.prim.strides(x.type, dense, 0, eqn.out.type, **eqn.params)
    if found is None or found[1] != 0:
        return False
    moving = [s for n, s in zip(eqn.out.type.shape, found[0], strict=True) if n != 1 and s != 0]
    return moving == [s for n, s in zip(x.type.shape, dense, strict=True) if n != 1]


def _stays_in_loop(f: _Fuser, x: Var, out: Type, home: int) -> bool:
    """Whether a view of a value per row is, in its own group, the same value per row or repeated along it."""
    group = f.groups[home]
    if f.level[x] != "row" or group.kind != "row":
        return False
    if _fits_row(out.shape, group.space):
        return _real(out.shape) == _real(x.type.shape)
    if out.shape != group.space:
        return False
    return x.type.shape == (*group.space[:-1], 1) or (x.type.shape == () and len(group.space) == 1)


def _real(shape: Shape) -> list[int | Dim]:
    return [n for n in shape if n != 1]


def _contract(f: _Fuser, eqn: Eqn) -> None:
    for atom in eqn.ins:
        f.materialize(atom, "an operand of a product must be in memory")
    at = f.open("product", eqn.out.type.shape, "a product starts a kernel")
    f.put(eqn, at, "element")


def _loop(f: _Fuser, eqn: Eqn) -> None:
    """What a loop or branch computes is scheduled by itself; its operands are read from memory."""
    f.settle(eqn.ins)
    _LOOPS[eqn.prim.name](f, eqn)


def _scan(f: _Fuser, eqn: Eqn) -> None:
    carries, length = eqn.params["carries"], eqn.params["length"]
    body = _body(eqn.params["body"], _in_memory(f, eqn.ins[carries:]), carries)
    _put_bodies(f, eqn, "loop", (length,), (body,), "a loop over rows")


def _switch(f: _Fuser, eqn: Eqn) -> None:
    _, *operands = _in_memory(f, eqn.ins)
    bodies = tuple(_body(graph, operands, 0) for graph in eqn.params["branches"])
    _put_bodies(f, eqn, "switch", (), bodies, "one of several functions runs")


def _while(f: _Fuser, eqn: Eqn) -> None:
    carries, tests = eqn.params["carries"], eqn.params["tests"]
    operands = _in_memory(f, eqn.ins[carries:])
    test = _body(eqn.params["cond"], operands[:tests], 0)
    _put_bodies(
        f, eqn, "while", (), (test, _body(eqn.params["body"], operands[tests:], 0)), "a loop that tests a value"
    )


def _put_bodies(f: _Fuser, eqn: Eqn, kind: GroupKind, space: Shape, bodies: tuple[Body, ...], why: str) -> None:
    at = f.open(kind, space, why)
    f.groups[at].bodies = bodies
    f.put(eqn, at, "after")


def _routine(f: _Fuser, eqn: Eqn) -> None:
    operands = _in_memory(f, eqn.ins)
    at = f.open("routine", eqn.out.type.shape, "a routine works on whole arrays")
    f.groups[at].operands = tuple(operands)
    f.put(eqn, at, "after")


def _in_memory(f: _Fuser, atoms: Sequence[Atom]) -> list[Var]:
    return [f.dense(a, "a loop, branch or routine reads it from memory") for a in atoms]


def _body(graph: Graph, operands: Sequence[Var], carries: int) -> Body:
    """The schedule of a graph. A carry that is also a row of a result lies there, so that it is written once."""
    order = [*range(carries, len(graph.outputs)), *range(carries)]
    first: dict[Atom, int] = {}
    kept: list[int] = []
    results: dict[int, int] = {}
    for i in order:
        atom = graph.outputs[i]
        if i < carries and isinstance(atom, Var) and atom in first:
            results[i] = first[atom]
            continue
        first.setdefault(atom, len(kept))
        results[i] = len(kept)
        kept.append(i)
    own = Graph(graph.name, graph.inputs, graph.eqns, tuple(graph.outputs[i] for i in kept))
    return Body(fuse(_fresh(own)), tuple(operands), tuple(results[i] for i in range(len(graph.outputs))))


_LOOPS = {"scan": _scan, "switch": _switch, "while_loop": _while}
"""Which operation has which bodies."""


def _fresh(graph: Graph) -> Graph:
    """The graph with variables of its own: one body may serve several loops."""
    env: dict[Var, Var] = {}

    def new(var: Var) -> Var:
        env[var] = Var(var.type, var.hint)
        return env[var]

    def read(atom: Atom) -> Atom:
        return env[atom] if isinstance(atom, Var) else atom

    inputs = tuple(map(new, graph.inputs))
    eqns = [Eqn(e.prim, tuple(map(read, e.ins)), e.params, tuple(map(new, e.outs)), e.source) for e in graph.eqns]
    return Graph(graph.name, inputs, tuple(eqns), tuple(map(read, graph.outputs)))


def _gather(f: _Fuser, eqn: Eqn) -> None:
    f.settle(eqn.ins)
    f.materialize(eqn.ins[0], "what is indexed must be in memory")
    shape = eqn.out.type.shape
    for at in f.candidates(eqn.ins, f.earliest(eqn.ins)):
        before = all(f.home_of(a) < at for a in eqn.ins)
        if before and f.groups[at].kind == "row" and shape == f.groups[at].space:
            f.put(eqn, at, "element")
            return
    f.put(eqn, f.open("row", shape, "reads at computed places"), "element")


def _scatter(f: _Fuser, eqn: Eqn) -> None:
    target, index, values = eqn.ins
    shape = values.type.shape
    f.settle([target, index])
    f.settle([values], shape)
    for at in f.candidates([values], f.earliest([values])):
        before = all(f.home_of(a) < at for a in (target, index))
        if before and f.groups[at].kind == "row" and shape == f.groups[at].space and f.admits(at, "element", [values]):
            f.put(eqn, at, "after")
            return
    f.put(eqn, f.open("row", shape, "writes at computed places"), "after")


def _overlap(f: _Fuser, eqn: Eqn) -> None:
    (x,) = eqn.ins
    shape = x.type.shape
    f.settle([x], shape)
    for at in f.candidates([x], f.earliest([x])):
        if f.groups[at].kind == "row" and shape == f.groups[at].space and f.admits(at, "element", [x]):
            f.put(eqn, at, "after")
            return
    f.put(eqn, f.open("row", shape, "adds windows that overlap"), "after")


def _assemble(f: _Fuser, eqn: Eqn) -> None:
    f.settle(eqn.ins)
    f.put(eqn, f.open("assemble", eqn.out.type.shape, "its parts are written side by side"), "after")


def _along(f: _Fuser, eqn: Eqn) -> None:
    for atom in eqn.ins:
        f.materialize(atom, "a line that a function walks along must be in memory")
    f.put(eqn, f.open("along", eqn.out.type.shape, "a function computes whole lines"), "after")


def _source(f: _Fuser, eqn: Eqn) -> None:
    axis = eqn.prim.place(**eqn.params) if eqn.prim.place is not None else 0
    strides = tuple(1 if i == axis else 0 for i in range(len(eqn.out.type.shape)))
    f.note(eqn, -1, "after", Location(None, strides))


_HANDLERS: dict[str, Callable[[_Fuser, Eqn], None]] = {
    "elementwise": _elementwise,
    "effect": _elementwise,
    "reduce": _reduce,
    "view": _view,
    "contract": _contract,
    "gather": _gather,
    "scatter": _scatter,
    "overlap": _overlap,
    "assemble": _assemble,
    "source": _source,
    "loop": _loop,
    "along": _along,
    "routine": _routine,
}

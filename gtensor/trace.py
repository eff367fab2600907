"""Tracing: run a Python function on tensors that stand for its arguments, and keep the equations.

Comes in: a function and arguments (arrays, tensors, numbers, specs, or pytrees of them). Goes out: a
`Traced`: the graph, the structures of arguments and result, and what was captured. Laws: the function
runs once; everything it captured is an input, read at each call; drawing random numbers is refused.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import linecache
import pickle
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from . import tree
from .builder import Builder
from .errors import DTypeError, ShapeError, Source, TraceError
from .ir import Atom, Graph, Var
from .reach import held
from .tensor import STATE, Scope, Tensor, as_tensor, cast
from .types import Dim, Type, as_dtype, float32, float64, int64, resolve, type_of


@dataclass(frozen=True)
class Spec:
    """The type of an argument without its data; made by `gt.spec`."""

    type: Type
    __gt_leaf__ = True

    def __str__(self) -> str:
        return str(self.type)


def spec(shape: Sequence[int | str] | int, dtype: Any = float32, *, max: Mapping[str, int] | None = None) -> Spec:
    """A stand-in for an array when tracing or compiling ahead of time.

    A named leading extent is known at run time only; `max` gives its bound. Raises ShapeError for a
    name without a bound or elsewhere than in front, DTypeError for an unknown dtype.

    >>> print(spec((32, 8)), spec(("B", 784), max={"B": 512}))
    f32[32,8] f32[B,784]
    """
    extents: list[int | Dim] = []
    for i, extent in enumerate(shape if isinstance(shape, (tuple, list)) else (shape,)):
        if isinstance(extent, str):
            if i or max is None or extent not in max:
                what = "must be the first extent" if i else f"needs its bound: max={{{extent!r}: …}}"
                raise ShapeError(f"spec: the run-time extent {extent!r} {what}")
            extents.append(Dim(extent, int(max[extent])))
        elif extent < 0:
            raise ShapeError(f"spec: extent {extent} is negative")
        else:
            extents.append(int(extent))
    return Spec(Type(tuple(extents), as_dtype(dtype)))


@contextlib.contextmanager
def scope(name: str) -> Iterator[Scope]:
    """A new graph under construction inside the present one; bindings go into it until the block ends."""
    inner = Scope(Builder(name, STATE.scope.builder if STATE.scope else None), STATE.scope)
    STATE.scope = inner
    try:
        yield inner
    finally:
        STATE.scope = inner.parent
        inner.builder.open = False


@contextlib.contextmanager
def binding(builder: Builder) -> Iterator[Scope]:
    """Bind everything inside into a builder that is there already, until the block ends."""
    inner = Scope(builder, STATE.scope)
    STATE.scope = inner
    try:
        yield inner
    finally:
        STATE.scope = inner.parent


def placeholder(inner: Scope, type: Type, hint: str = "") -> Tensor:
    """A traced tensor that stands for a new input."""
    return Tensor(type, atom=inner.builder.input(type, hint), scope=inner)


def subgraph(fn: Callable[..., Any], types: Sequence[Type], name: str, hints: Sequence[str] = ()) -> Subgraph:
    """Trace `fn(*tensors) -> sequence of tensors` into a graph of its own; captures become its last inputs."""
    with scope(name) as inner:
        names = [*hints, *[""] * (len(types) - len(hints))]
        args = [placeholder(inner, t, h) for t, h in zip(types, names, strict=True)]
        outputs = [inner.atom(as_tensor(out)) for out in fn(*args)]
        captured = [as_tensor(value) for value, _ in inner.captures.values()]
        order = [v for v in inner.builder.inputs if all(v is not c for _, c in inner.captures.values())]
        inner.builder.inputs = order + [var for _, var in inner.captures.values()]
        return Subgraph(inner.builder.finish(outputs), captured)


@dataclass(frozen=True)
class Subgraph:
    """A graph whose last inputs are captured tensors of the surrounding scope."""

    graph: Graph
    captured: list[Tensor]


@dataclass(frozen=True, eq=False)
class Signature:
    """What a trace depends on besides the function's code: structure, types and static values."""

    structure: tree.Structure
    types: tuple[Type | None, ...]
    statics: tuple[Any, ...]
    names: tuple[str, ...]

    @property
    def key(self) -> Any:
        """Equal keys trace to the same graph."""
        return self.structure, self.types, self.statics


@dataclass(frozen=True, eq=False)
class Traced:
    """A traced function: its graph (arguments first, then captures) and the structures around it."""

    graph: Graph
    signature: Signature
    out_structure: tree.Structure
    captured: tuple[Any, ...]


def leaf_type(leaf: Any) -> Type | None:
    """The type of an argument leaf that is traced; None for a static one (a string, a function, a dtype…)."""
    if isinstance(leaf, Tensor):
        return leaf.type
    if isinstance(leaf, Spec):
        return leaf.type
    if isinstance(leaf, (np.ndarray, np.generic)):
        return type_of(leaf)
    if isinstance(leaf, bool):
        return Type((), as_dtype(bool))
    if isinstance(leaf, int):
        return Type((), int64, weak=True)
    if isinstance(leaf, float):
        return Type((), float64, weak=True)
    if hasattr(leaf, "__dlpack__") or hasattr(leaf, "__array__"):
        return type_of(to_array(leaf))
    return None


def to_array(leaf: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of an argument leaf, without a copy where the leaf allows it."""
    if isinstance(leaf, Tensor):
        return leaf.require_alive() if leaf.data is not None else leaf.numpy()
    if isinstance(leaf, np.ndarray):
        return leaf
    if hasattr(leaf, "__dlpack__") and not isinstance(leaf, np.generic):
        return _read(leaf)
    if isinstance(leaf, float) and not isinstance(leaf, np.generic):
        return np.asarray(leaf, np.float64)
    return np.asarray(leaf)


def _read(leaf: Any) -> np.ndarray[Any, Any]:
    """Another library's array through DLPack, or as it gives itself to NumPy where NumPy's DLPack lacks the dtype."""
    try:
        return np.from_dlpack(leaf)
    except RuntimeError:
        pass
    try:
        return np.asarray(leaf)
    except (TypeError, RuntimeError):
        dtype = getattr(leaf, "dtype", "unknown")
        raise DTypeError(f"{type(leaf).__name__} of dtype {dtype} cannot be read", hint="convert it first") from None


def split_arguments(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], static: Sequence[str] = ()
) -> tuple[list[Any], Signature]:
    """The leaves of a call's arguments and its signature. `static` arguments are not looked into."""
    names = argument_names(fn, len(args))
    held = tuple(_Static(a) if n in static else a for n, a in zip(names, args, strict=True))
    held_kw = {k: _Static(v) if k in static else v for k, v in kwargs.items()}
    leaves, structure = tree.flatten((held, held_kw))
    types: list[Type | None] = []
    statics: list[Any] = []
    for leaf in leaves:
        type_ = None if isinstance(leaf, _Static) else leaf_type(leaf)
        types.append(type_)
        if type_ is None:
            statics.append(_hashable(leaf))
    return leaves, Signature(structure, tuple(types), tuple(statics), tuple(_leaf_names(structure, names)))


@dataclass(frozen=True)
class _Static:
    value: Any
    __gt_leaf__ = True


def _hashable(leaf: Any) -> Any:
    value = leaf.value if isinstance(leaf, _Static) else leaf
    try:
        hash(value)
    except TypeError:
        raise TraceError(f"a static argument must be hashable, not {type(value).__name__}") from None
    return type(value), value


def argument_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Names of the positional arguments of a call."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for i in range(count):
        if i < len(parameters) and parameters[i].kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            names.append(parameters[i].name)
        else:
            names.append(f"arg{i}")
    return names


def named(fn: Callable[..., Any], what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function made of `fn` its signature, and a name of its own."""

    def decorate(derived: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(derived, fn)
        derived.__name__ = f"{what}_{getattr(fn, '__name__', 'function').strip('<>')}"
        return derived

    return decorate


def _leaf_names(structure: tree.Structure, names: Sequence[str]) -> list[str]:
    result = []
    for path in structure.paths():
        head = names[path[1]] if path[0] == 0 else str(path[1])
        result.append(".".join([head, *map(str, path[2:])]))
    return result


def trace_call(
    fn: Callable[..., Any],
    leaves: Sequence[Any],
    signature: Signature,
    name: str | None = None,
    roots: Sequence[Any] = (),
) -> Traced:
    """Trace a function for a signature; the values of traced leaves are not looked at.

    `roots` are the user's functions behind it, if it is not the user's own.
    """
    name = name or getattr(fn, "__name__", "function").strip("<>")
    roots = (*(roots or (fn,)), *(value for _, value in signature.statics))
    before = _Generators(roots)
    with scope(name) as inner:
        tensors = [
            (leaf.value if isinstance(leaf, _Static) else leaf) if type_ is None else placeholder(inner, type_, hint)
            for leaf, type_, hint in zip(leaves, signature.types, signature.names, strict=True)
        ]
        args, kwargs = tree.unflatten(signature.structure, tensors)
        result = fn(*args, **kwargs)
        if before.were_used():
            raise TraceError(
                f"{name} drew random numbers while it was traced: they would be the same in every call",
                hint="draw them outside and pass them in",
                sources=_drawing_line(lambda: fn(*args, **kwargs), roots),
            )
        out_leaves, out_structure = tree.flatten(result)
        out_names = [path or "out" for path in tree.paths(out_structure)]
        outputs = [_output(inner, leaf, n, name) for leaf, n in zip(out_leaves, out_names, strict=True)]
        name_values(inner.builder)
        graph = inner.builder.finish(outputs, out_names)
        captured = tuple(value for value, _ in inner.captures.values())
    graph = _captures_last(graph, [var for _, var in inner.captures.values()])
    return Traced(graph, signature, out_structure, captured)


def _captures_last(graph: Graph, captures: Sequence[Var]) -> Graph:
    late = {id(v) for v in captures}
    inputs = [v for v in graph.inputs if id(v) not in late] + list(captures)
    for i, var in enumerate(captures):
        var.hint = var.hint or f"captured{i}"
    return Graph(graph.name, tuple(inputs), graph.eqns, graph.outputs, graph.output_names)


def _output(inner: Scope, leaf: Any, name: str, function: str) -> Atom:
    try:
        tensor = as_tensor(leaf)
    except DTypeError:
        raise TraceError(
            f"{function} returned {type(leaf).__name__} at {name}, which is no array",
            hint="return tensors, numbers, or pytrees of them",
        ) from None
    if tensor.type.weak:
        tensor = cast(tensor, resolve(tensor.type).dtype)
    return inner.atom(tensor)


def trace(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """The graph of `fn` for arguments like these (arrays, tensors, numbers, `gt.spec`, or pytrees of them).

    Raises TraceError where the function asks a traced tensor for its numbers, ShapeError and DTypeError
    where operands do not fit.

    >>> import gtensor as gt
    >>> print(trace(lambda x, w: gt.tanh(x @ w), gt.spec((2, 3)), gt.spec((3, 4))))
    graph lambda(x: f32[2,3], w: f32[3,4]):
      t0: f32[2,4] = matmul(x, w, ta=False, tb=False)...
      t1: f32[2,4] = tanh(t0)
      return t1
    """
    if not callable(fn):
        raise TraceError(
            f"trace takes a function, not {type(fn).__name__}", hint="the sum of a diagonal is gt.matrix_trace(x)"
        )
    leaves, signature = split_arguments(fn, args, kwargs)
    return trace_call(fn, leaves, signature).graph


_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*[^\s{\[]")


def name_values(builder: Builder) -> None:
    """Give the last value of each line `name = …` the name its author gave it, unless one has it already."""
    lines: dict[tuple[str, int], list[Var]] = {}
    for eqn, sources in zip(builder.eqns, builder.sources, strict=True):
        if len(sources) == 1:
            lines.setdefault((sources[0].file, sources[0].line), []).append(eqn.outs[-1])
    for (file, line), values in lines.items():
        match = _ASSIGNMENT.match(linecache.getline(file, line))
        if match and not values[-1].hint and all(v.hint != match[1] for v in values):
            values[-1].hint = match[1]


FRESH = 623
"""The position of NumPy's global generator before its first draw, when it is made with the module."""


def _random_state() -> tuple[Any, Any]:
    """The states of the global generators; None for NumPy's while its module is not loaded."""
    if "numpy.random" not in sys.modules:
        return None, random.getstate()
    state = np.random.get_state(legacy=False)
    return (state["state"]["pos"], state["state"]["key"].tobytes(), state["has_gauss"]), random.getstate()


def _drew(before: tuple[Any, Any]) -> bool:
    """Whether a global generator was used since; loading NumPy's is no use of it."""
    after = _random_state()
    if before[0] is None and after[0] is not None and after[0][0] == FRESH:
        return bool(after[1] != before[1])
    return bool(after != before)


class _Generators:
    """The random generators that a function could use: the global ones and NumPy's that it can reach from its roots."""

    def __init__(self, roots: Sequence[Any]) -> None:
        self._global = _random_state()
        loaded = "numpy.random" in sys.modules
        reached = held(roots, (np.random.Generator, np.random.RandomState)) if loaded else []
        self._reached = [(generator, _state(generator)) for generator in reached]

    def were_used(self) -> bool:
        """Whether one of them has drawn since."""
        return _drew(self._global) or any(_state(generator) != before for generator, before in self._reached)


def _state(generator: Any) -> bytes:
    """The state of one of NumPy's generators."""
    legacy = isinstance(generator, np.random.RandomState)
    return pickle.dumps(generator.get_state(legacy=False) if legacy else generator.bit_generator.state)


def _drawing_line(run: Callable[[], Any], roots: Sequence[Any]) -> list[Source]:
    """The user's line that draws, found by running the function again and looking at the generators after each line."""
    found: list[Source] = []
    at: list[Source] = []
    before = _Generators(roots)

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        if _user_frame(frame) is not frame:
            return None
        if not found and before.were_used():
            found.extend(at)
        here = _user_frame(frame.f_back) if event == "return" else frame
        if here is not None:
            at[:] = [Source(here.f_code.co_filename, here.f_lineno, here.f_code.co_name)]
        return watch

    saved = sys.gettrace()
    sys.settrace(watch)
    try:
        with contextlib.suppress(Exception):
            run()
    finally:
        sys.settrace(saved)
    return found


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from this one on, that is neither of gtensor nor of a module that draws."""
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_USERS:
        frame = frame.f_back
    return frame


_NOT_THE_USERS = {__name__.partition(".")[0], "numpy", "random"}
"""Packages whose lines are not the user's."""

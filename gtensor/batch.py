"""vmap, and batch rules over whole graphs: what a body does to one example, done to many at once.

Comes in: a function or a graph, operands, and for each the axis along which examples lie (None where all share
it). Goes out: the same of the results. Laws: the results are those of a loop over the examples; what does not
depend on an example is computed once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import tree
from .errors import DTypeError, InternalError, ShapeError
from .ir import Atom, Eqn, Graph, Lit, Var
from .tensor import STATE, Tensor, apply, as_tensor, bind, bind_all, cast, concrete, sourced
from .trace import argument_names, named, subgraph
from .types import Dim, normalize_axis, resolve

Axes = Sequence[int | None]


# ---- graphs ------------------------------------------------------------------------------------------------


def run_batched(graph: Graph, args: Sequence[Tensor], axes: Axes) -> tuple[list[Tensor], list[int | None]]:
    """Bind a graph's equations by their batch rules: into the trace in force, else evaluated at once."""
    env: dict[Atom, tuple[Tensor, int | None]] = dict(zip(graph.inputs, zip(args, axes, strict=True), strict=True))

    def read(atom: Atom) -> tuple[Tensor, int | None]:
        return (Tensor(atom.type, np.asarray(atom.value), atom=atom), None) if isinstance(atom, Lit) else env[atom]

    for eqn in graph.eqns:
        tensors, places = zip(*map(read, eqn.ins), strict=True) if eqn.ins else ((), ())
        with sourced(eqn.source):
            found = _bound(eqn, tensors, places)
        for out, (tensor, _) in zip(eqn.outs, found, strict=True):
            if isinstance(tensor.atom, Var) and not tensor.atom.hint:
                tensor.atom.hint = out.hint
        env.update(zip(eqn.outs, found, strict=True))
    outs = [read(a) for a in graph.outputs]
    return [tensor for tensor, _ in outs], [axis for _, axis in outs]


def run(graph: Graph, args: Sequence[Tensor]) -> list[Tensor]:
    """Bind a graph's equations as they are: into the trace in force, else evaluated at once."""
    return run_batched(graph, args, [None] * len(args))[0]


def _bound(eqn: Eqn, args: Sequence[Tensor], axes: Axes) -> list[tuple[Tensor, int | None]]:
    loop = eqn.prim.kind == "loop"
    if all(axis is None for axis in axes):
        hints = [v.hint for v in eqn.outs]
        outs = bind_all(eqn.prim, args, eqn.params, hints) if loop else [bind(eqn.prim, args, eqn.params, hints[0])]
        return [(out, None) for out in outs]
    if eqn.prim.batch is None:
        raise InternalError(f"{eqn.prim.name} has no batch rule", sources=eqn.source)
    found, places = eqn.prim.batch(args, axes, **eqn.params)
    return list(zip(found, places, strict=True)) if loop else [(found, places)]


def batch_size(args: Sequence[Tensor], axes: Axes) -> Any:
    """How many examples there are."""
    return next(x.type.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)


def in_front(x: Tensor, axis: int | None, size: int | Dim) -> Tensor:
    """The operand with its examples along axis 0: moved there, or repeated where all share it."""
    if axis is None:
        return apply("broadcast", apply("reshape", x, shape=(1, *x.type.shape)), shape=(size, *x.type.shape))
    return moved(x, axis, 0)


def moved(x: Tensor, source: int, target: int) -> Tensor:
    """The operand with one axis elsewhere."""
    if source == target:
        return x
    rest = [i for i in range(x.ndim) if i != source]
    return apply("transpose", x, axes=(*rest[:target], source, *rest[target:]))


def run_each(
    fn: Callable[..., Sequence[Any]], tensors: Sequence[Tensor], axes: Axes, name: str, hints: Sequence[str] = ()
) -> tuple[list[Tensor], list[int | None]]:
    """`fn` of one example each, traced once, for all of them; gives its results and where their examples lie."""
    types = [
        t.type if a is None else t.type.with_shape((*t.type.shape[:a], *t.type.shape[a + 1 :]))
        for t, a in zip(tensors, axes, strict=True)
    ]
    one = subgraph(fn, types, name, hints)
    return run_batched(one.graph, [*tensors, *one.captured], [*axes, *(None for _ in one.captured)])


# ---- functions ---------------------------------------------------------------------------------------------


def vmap(fn: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """The function over many examples at once: it is written for one, and its operations run on all of them.

    `in_axes`: the axis along which the examples of an argument lie, None for an argument that all share; one for
    all arguments, or a tuple with one for each, which may be trees that stop at or above the leaves. Arguments
    given by keyword have their examples along axis 0. `out_axes`: the same for the result, where None says that it
    does not differ. Negative axes count from the end. What the function captures is shared. The function is traced,
    also outside a trace: its values have no numbers yet, so use `gt.cond` or `gt.where` for `if`. A loop that ends
    by a condition runs until the last example has ended, a `switch` on a value of the example runs all branches;
    in both, an index that is out of range counts even where its result would not.

    Raises ShapeError where no argument is mapped, the numbers of examples differ, an axis is out of range, or
    `in_axes` or `out_axes` do not fit; DTypeError for a mapped argument that is no array.

    >>> import gtensor as gt
    >>> vmap(gt.dot, in_axes=(0, None))(gt.tensor([[1.0, 2.0], [3.0, 4.0]]), gt.tensor([1.0, 10.0]))
    Tensor([21., 43.], dtype=float32)
    >>> vmap(gt.grad(lambda w, x: gt.tanh(w * x)), in_axes=(None, 0))(0.0, gt.tensor([1.0, 2.0, 3.0]))
    Tensor([1., 2., 3.], dtype=float32)
    """
    name = getattr(fn, "__name__", "function").strip("<>")
    what = f"vmap of {name}"

    @named(fn, "vmap")
    def over_examples(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        paths = _paths(structure, argument_names(fn, len(args)))
        axes = _argument_axes(in_axes, args, kwargs, what)
        places = [
            None if axis is None else _place(leaf, axis, path, what)
            for leaf, axis, path in zip(leaves, axes, paths, strict=True)
        ]
        tensors = [as_tensor(leaf) for leaf, place in zip(leaves, places, strict=True) if place is not None]
        mapped = [place for place in places if place is not None]
        hints = [path for path, place in zip(paths, places, strict=True) if place is not None]
        size = _common_size(tensors, mapped, hints, what)
        made: list[tree.Structure] = []

        def example(*own: Tensor) -> list[Tensor]:
            queue = iter(own)
            given = [leaf if place is None else next(queue) for leaf, place in zip(leaves, places, strict=True)]
            inner_args, inner_kwargs = tree.unflatten(structure, given)
            outs, found = tree.flatten(fn(*inner_args, **inner_kwargs))
            made.append(found)
            return [_result(leaf, path, name) for leaf, path in zip(outs, tree.paths(found), strict=True)]

        outs, found = run_each(example, tensors, mapped, name, hints)
        wanted = _result_axes(out_axes, made[0], what)
        placed = [
            _put(out, place, axis, size, f"{what}: {path or 'the result'}")
            for out, place, axis, path in zip(outs, found, wanted, tree.paths(made[0]), strict=True)
        ]
        return tree.unflatten(made[0], [_own(out) for out in placed])

    return over_examples


def _own(out: Tensor) -> Tensor:
    """A result that is not the caller's array."""
    if STATE.scope is None and out.captured is not None:
        return concrete(np.array(out.captured))
    return out


def _paths(structure: tree.Structure, names: Sequence[str]) -> list[str]:
    """A name for each leaf of (args, kwargs)."""
    heads = [(names[path[1]] if path[0] == 0 else str(path[1]), path[2:]) for path in structure.paths()]
    return [".".join([head, *map(str, rest)]) for head, rest in heads]


def _argument_axes(in_axes: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str) -> list[Any]:
    """An axis or None for each leaf of the arguments."""
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    if isinstance(axes, tuple) and len(axes) != len(args):
        raise ShapeError(f"{what}: in_axes has {len(axes)} entries for {len(args)} arguments")
    try:
        return tree.broadcast_values((axes, 0), (args, kwargs))
    except ValueError:
        raise ShapeError(f"{what}: in_axes={in_axes!r} does not fit the structure of the arguments") from None


def _place(leaf: Any, axis: Any, path: str, what: str) -> int:
    """The axis of a mapped leaf, counted from the front."""
    try:
        tensor = as_tensor(leaf)
    except DTypeError:
        raise DTypeError(
            f"{what}: {path} is {type(leaf).__name__}, which has no axis to map", hint="give None for it in in_axes"
        ) from None
    if not tensor.ndim:
        raise ShapeError(f"{what}: {path} is a scalar, which has no axis to map", hint="give None for it in in_axes")
    return _axis(axis, tensor.ndim, f"{what}: the axis of {path}, {resolve(tensor.type)},")


def _axis(axis: Any, ndim: int, what: str) -> int:
    """An axis counted from the front."""
    try:
        return normalize_axis(axis, ndim)
    except ShapeError:
        raise ShapeError(f"{what} is out of range: {axis}") from None
    except DTypeError:
        raise DTypeError(f"{what} must be an integer or None, not {axis!r}") from None


def _common_size(tensors: Sequence[Tensor], places: Sequence[int], hints: Sequence[str], what: str) -> Any:
    """How many examples there are; raises ShapeError unless the arguments agree."""
    if not tensors:
        raise ShapeError(f"{what}: no argument is mapped", hint="give at least one argument an axis in in_axes")
    sizes = [t.type.shape[place] for t, place in zip(tensors, places, strict=True)]
    for size, hint, place in zip(sizes, hints, places, strict=True):
        if size != sizes[0]:
            first = f"{hints[0]} has {sizes[0]} along axis {places[0]}"
            raise ShapeError(f"{what}: the numbers of examples differ: {first}, {hint} has {size} along axis {place}")
    return sizes[0]


def _result(leaf: Any, path: str, name: str) -> Tensor:
    try:
        tensor = as_tensor(leaf)
    except DTypeError:
        where = f" at {path}" if path else ""
        raise DTypeError(f"vmap of {name}: it returned {type(leaf).__name__}{where}, which is no array") from None
    return cast(tensor, resolve(tensor.type).dtype)


def _result_axes(out_axes: Any, structure: tree.Structure, what: str) -> list[Any]:
    """An axis or None for each leaf of the result."""
    axes = tuple(out_axes) if isinstance(out_axes, list) and structure.type is tuple else out_axes
    try:
        return tree.broadcast_values(axes, tree.unflatten(structure, [0] * structure.num_leaves))
    except ValueError:
        raise ShapeError(f"{what}: out_axes={out_axes!r} does not fit the structure of the result") from None


def _put(out: Tensor, place: int | None, wanted: Any, size: Any, what: str) -> Tensor:
    """A result with its examples where they are wanted."""
    if wanted is None:
        if place is not None:
            raise ShapeError(f"{what} differs from example to example, and out_axes has None for it")
        return out
    target = _axis(wanted, out.ndim + (place is None), f"{what}: its axis in out_axes")
    return moved(in_front(out, place, size), 0, target) if place is None else moved(out, place, target)

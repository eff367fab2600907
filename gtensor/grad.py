"""Derivatives: grad, value_and_grad, vjp, jvp, hvp over pytrees; `backward` on recorded tensors.

One mechanism serves both styles: a recording gives handles on the variables, runs the function, and
pulls cotangents back through what was recorded. Inside a trace a recording is a graph of its own that is
inlined afterwards; outside it is a level on eager tensors. Law: results carry the history of every
recording but their own, so transformations nest to any order and never confuse variables.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from . import tree
from .builder import inline
from .errors import GradError, GTensorError, ShapeError
from .ir import Var
from .prim import public
from .pullback import Step, key_of, pull_back, recorded_steps, traced_steps, unit, zeros
from .tensor import STATE, Record, Scope, Tensor, as_tensor, concrete
from .trace import argument_names, name_values, placeholder, scope
from .types import Type, resolve

_LEVELS = itertools.count(1)
Frozen = Callable[[str], bool] | Any


def _same(tensor: Tensor) -> Tensor:
    return tensor


class Eager:
    """A recording on concrete tensors: handles carry a level, and operations on them are remembered."""

    def __init__(self, name: str) -> None:
        self.level = next(_LEVELS)

    def __enter__(self) -> Eager:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def variable(self, tensor: Tensor, hint: str = "") -> Tensor:
        """A handle that is differentiated separately from the tensor it copies."""
        return _link(tensor, tensor.levels | {self.level})

    def steps(self, outputs: Sequence[Tensor]) -> list[Step]:
        """What was recorded behind the outputs."""
        return recorded_steps(outputs, lambda record: self.level in record.levels)

    def strip(self, tensor: Tensor) -> Tensor:
        """The tensor outside this recording."""
        levels = tensor.levels
        return _link(tensor, levels - {self.level}) if self.level in levels else tensor

    def export(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors for use after the recording."""
        return [self.strip(t) for t in tensors]


def _link(tensor: Tensor, levels: frozenset[int]) -> Tensor:
    """The same values under other levels."""
    plain = Tensor(resolve(tensor.type), tensor.require_alive())
    if not levels:
        return plain
    record = Record(None, (tensor,), {}, levels)
    record.out = plain
    return Tensor(plain.type, plain.data, record=record)


class Abstract:
    """A recording inside a trace: a scope of its own, inlined into the surrounding one by `export`."""

    def __init__(self, name: str) -> None:
        self._context = scope(name)
        self.arguments: list[tuple[Var, Tensor]] = []

    def __enter__(self) -> Abstract:
        self.scope: Scope = self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def variable(self, tensor: Tensor, hint: str = "") -> Tensor:
        """A new input that stands for the tensor."""
        handle = placeholder(self.scope, tensor.type, hint)
        assert isinstance(handle.atom, Var)
        self.arguments.append((handle.atom, tensor))
        return handle

    def steps(self, outputs: Sequence[Tensor]) -> list[Step]:
        """The equations bound so far; they get their names before derivatives join their lines."""
        name_values(self.scope.builder)
        return traced_steps(self.scope)

    def strip(self, tensor: Tensor) -> Tensor:
        """Traced values are never tied to a recording."""
        return tensor

    def export(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Close the scope and inline it; gives the tensors in the surrounding scope."""
        inner, outer = self.scope, self.scope.parent
        assert outer is not None
        atoms = [inner.atom(t) for t in tensors]
        given = {var: outer.atom(t) for var, t in self.arguments}
        given.update((var, outer.atom(as_tensor(value))) for value, var in inner.captures.values())
        graph = inner.builder.finish(atoms)
        outs = inline(outer.builder, graph, [given[v] for v in graph.inputs])
        return [Tensor(a.type, atom=a, scope=outer) for a in outs]


def recording(name: str) -> Eager | Abstract:
    """The recording that fits the moment: abstract inside a trace, else eager."""
    return Eager(name) if STATE.scope is None else Abstract(name)


def _pull(
    rec: Eager | Abstract, outputs: Sequence[Tensor], cotangents: Sequence[Tensor], variables: Sequence[Tensor],
    names: Sequence[str], out_name: str,
) -> list[Tensor]:  # fmt: skip
    """Cotangents of a recording's variables, zeros where an output does not depend on one."""
    named = {key_of(v): n for v, n in zip(variables, names, strict=True)}
    found = pull_back(
        rec.steps(outputs), outputs, cotangents, variables, rec.strip, lambda t: named.get(key_of(t), out_name)
    )
    for tensor, name in zip(found, names, strict=True):
        if tensor is not None and isinstance(tensor.atom, Var) and not tensor.atom.hint:
            tensor.atom.hint = "d_" + name
    return [zeros(v.type) if t is None else t for t, v in zip(found, variables, strict=True)]


class _Arguments:
    """The arguments of a differentiated function: which leaves are variables, and how to call with handles."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], argnums: int | Sequence[int], frozen: Frozen):
        self.args = args
        self.single = isinstance(argnums, int)
        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        names = argument_names(fn, len(args))
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradError(f"argnums={number}, but there are {len(args)} arguments")
        self.numbers = [n % len(args) for n in numbers]
        self.leaves: list[list[Any]] = []
        self.structures: list[tree.Structure] = []
        self.variables: list[Tensor] = []
        self.names: list[str] = []
        self.live: list[list[bool]] = []
        for number in self.numbers:
            leaves, structure = tree.flatten(args[number])
            paths = [".".join(filter(None, [names[number], p])) for p in tree.paths(structure)]
            live = [not cut for cut in _frozen_flags(frozen, structure, tree.paths(structure), args[number])]
            self.leaves.append(leaves)
            self.structures.append(structure)
            self.live.append(live)
            for leaf, path, alive in zip(leaves, paths, live, strict=True):
                if alive:
                    self.variables.append(_variable(leaf, path))
                    self.names.append(path)

    def call(self, fn: Callable[..., Any], handles: Sequence[Tensor], kwargs: dict[str, Any]) -> Any:
        """`fn` with handles for its variables."""
        args = list(self.args)
        for number, tree_ in zip(self.numbers, self._trees(handles, keep=True), strict=True):
            args[number] = tree_
        return fn(*args, **kwargs)

    def gradients(self, cotangents: Sequence[Tensor]) -> Any:
        """Cotangents in the structure of the arguments; None for frozen leaves."""
        trees = self._trees(cotangents, keep=False)
        return trees[0] if self.single else tuple(trees)

    def _trees(self, values: Sequence[Tensor], keep: bool) -> list[Any]:
        queue = iter(values)
        return [
            tree.unflatten(
                structure,
                [next(queue) if alive else (leaf if keep else None) for leaf, alive in zip(leaves, live, strict=True)],
            )
            for leaves, structure, live in zip(self.leaves, self.structures, self.live, strict=True)
        ]


def _named(fn: Callable[..., Any], what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a derived function the signature of `fn` and a name of its own."""

    def decorate(derived: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(derived, fn)
        derived.__name__ = f"{what}_{getattr(fn, '__name__', 'function').strip('<>')}"
        return derived

    return decorate


def _frozen_flags(frozen: Frozen, structure: tree.Structure, paths: Sequence[str], value: Any) -> list[bool]:
    if frozen is None:
        return [False] * len(paths)
    if callable(frozen):
        return [bool(frozen(path)) for path in paths]
    return [bool(flag) for flag in tree.broadcast_prefix(frozen, value)]


def _variable(leaf: Any, path: str) -> Tensor:
    """The tensor of a leaf that is differentiated; raises GradError naming it when it is no float."""
    try:
        tensor = as_tensor(leaf)
    except GTensorError:
        raise GradError(
            f"{path} is {type(leaf).__name__}, which has no gradient", hint="leave it out with argnums or frozen"
        ) from None
    if not tensor.type.dtype.floating:
        raise GradError(
            f"{path} is {resolve(tensor.type)}: only floating-point inputs have a gradient",
            hint="convert it with astype, or leave it out with argnums or frozen",
        )
    return Tensor(resolve(tensor.type), tensor.data) if tensor.type.weak and tensor.scope is None else tensor


def _scalar(result: Any, what: str) -> Tensor:
    tensor = as_tensor(result)
    if tensor.type.shape != ():
        raise GradError(
            f"{what} needs a scalar result, not {resolve(tensor.type)}",
            hint="reduce it with gt.sum or gt.mean, or use gt.vjp with a cotangent",
        )
    if not tensor.type.dtype.floating:
        raise GradError(f"{what} needs a floating-point result, not {resolve(tensor.type)}")
    return tensor


def value_and_grad(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, *, frozen: Frozen = None
) -> Callable[..., Any]:
    """A function that gives `fn`'s value and its gradient with respect to the arguments `argnums`.

    The gradient has the structure of the argument (a tuple of them for several argnums). With `has_aux`,
    `fn` returns (loss, anything) and the value is that pair. `frozen`, a predicate on leaf paths or a
    tree prefix of bools, leaves leaves out: their gradient is None. Raises GradError for integer
    arguments, a non-scalar loss, and an operation without derivative on the path.

    >>> import gtensor as gt
    >>> value_and_grad(lambda w: gt.sum(w * w))(gt.tensor([1.0, 3.0]))
    (Tensor(10., dtype=float32), Tensor([2., 6.], dtype=float32))
    """

    name = getattr(fn, "__name__", "function").strip("<>")

    @_named(fn, "value_and_grad")
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        arguments = _Arguments(fn, args, argnums, frozen)
        with recording(f"grad({name})") as rec:
            handles = [rec.variable(v, n) for v, n in zip(arguments.variables, arguments.names, strict=True)]
            result = arguments.call(fn, handles, kwargs)
            loss, aux = result if has_aux else (result, None)
            value = _scalar(loss, f"grad of {name}")
            cotangents = _pull(rec, [value], [unit(value)], handles, arguments.names, "the loss")
            aux_leaves, aux_structure = tree.flatten(aux)
            extra = [as_tensor(leaf) for leaf in aux_leaves]
            exported = rec.export([value, *extra, *cotangents])
        value, extra, cotangents = exported[0], exported[1 : 1 + len(extra)], exported[1 + len(extra) :]
        gradients = arguments.gradients(cotangents)
        return ((value, tree.unflatten(aux_structure, extra)) if has_aux else value), gradients

    return differentiated


def grad(fn: Callable[..., Any] | Tensor, argnums: Any = 0, has_aux: bool = False, *, frozen: Frozen = None) -> Any:
    """The gradient of a function, or of a recorded or traced scalar.

    `grad(fn, argnums, has_aux)` gives a function: see `value_and_grad`; with `has_aux` it returns
    (gradient, aux). `grad(loss, [w, …])` gives the gradients of a tensor with respect to tensors it was
    computed from, in the structure given, and never touches `.grad`; zeros where there is no path.

    >>> import gtensor as gt
    >>> grad(lambda x: x ** 3)(2.0)
    Tensor(12., dtype=float32)
    >>> w = gt.tensor([1.0, 2.0], requires_grad=True)
    >>> grad(gt.sum(w * w), [w])
    [Tensor([2., 4.], dtype=float32)]
    """
    if isinstance(fn, Tensor):
        return _grad_of_tensor(fn, argnums)
    both = value_and_grad(fn, argnums, has_aux, frozen=frozen)

    @_named(fn, "grad")
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def _grad_of_tensor(loss: Tensor, wrt: Any) -> Any:
    leaves, structure = tree.flatten(wrt)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            raise GradError(f"grad(tensor, wrt): wrt[{i}] is {type(leaf).__name__}, no tensor")
        _variable(leaf, f"wrt[{i}]")
    _scalar(loss, "grad")
    here = STATE.scope
    if here is None:
        variables = leaves
        steps = recorded_steps([loss], lambda record: True)
    else:
        loss, *variables = [Tensor(t.type, atom=here.atom(t), scope=here) for t in [loss, *leaves]]
        steps = traced_steps(here)
    found = pull_back(steps, [loss], [unit(loss)], variables, _same, lambda t: "the loss" if t is loss else "wrt")
    return tree.unflatten(structure, [zeros(v.type) if t is None else t for t, v in zip(found, variables, strict=True)])


@public
def backward(loss: Tensor, gradient: Any = None) -> None:
    """Add the gradient of a scalar to `.grad` of every leaf with `requires_grad` that it depends on.

    With `gradient` given the tensor may have any shape. Raises GradError inside a trace (use `gt.grad`)
    and for a tensor without history.

    >>> import gtensor as gt
    >>> w = gt.tensor([1.0, 2.0], requires_grad=True)
    >>> gt.sum(w * w).backward(); gt.sum(w).backward()
    >>> w.grad
    Tensor([3., 5.], dtype=float32)
    """
    if STATE.scope is not None or loss.data is None:
        raise GradError("backward() inside a trace", hint="use gt.grad(loss, [w])")
    if not loss.levels:
        raise GradError("backward(): this tensor has no history", hint="create its inputs with requires_grad=True")  # fmt: skip
    seed = unit(_scalar(loss, "backward()")) if gradient is None else as_tensor(gradient)
    if seed.type.shape != loss.type.shape:
        raise ShapeError(f"backward(): gradient is {seed.type}, the tensor {loss.type}")
    steps = recorded_steps([loss], lambda record: True)
    tensors = {id(t): t for s in steps for t in s.ins} | {id(loss): loss}
    leaves = [t for t in tensors.values() if t.requires_grad]

    def plain(tensor: Tensor) -> Tensor:
        return Tensor(tensor.type, tensor.data)

    found = pull_back(steps, [loss], [seed], leaves, plain, lambda t: "the loss" if t is loss else "a leaf")
    for leaf, cotangent in zip(leaves, found, strict=True):
        if cotangent is not None:
            total = cotangent.numpy() if leaf.grad is None else leaf.grad.numpy() + cotangent.numpy()
            leaf.grad = concrete(total.copy())


def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(value, pullback) of `fn` at the primals; pullback(cotangent) gives one gradient per primal.

    The cotangent has the structure of the value. With `has_aux`, `fn` returns (value, aux) and the
    result is (value, pullback, aux). Raises ShapeError where the cotangent does not fit.

    >>> import gtensor as gt
    >>> y, pullback = vjp(lambda x: gt.sin(x), gt.tensor([0.0, 1.0]))
    >>> pullback(gt.tensor([2.0, 0.0]))
    (Tensor([2., 0.], dtype=float32),)
    """
    arguments = _Arguments(fn, primals, tuple(range(len(primals))), None)
    result = fn(*primals)
    value, aux = result if has_aux else (result, None)
    outputs, structure = tree.flatten(value)

    def pullback(cotangent: Any) -> Any:
        seeds = _seeds(cotangent, outputs, structure)
        with recording("vjp") as rec:
            handles = [rec.variable(v, n) for v, n in zip(arguments.variables, arguments.names, strict=True)]
            again = arguments.call(fn, handles, {})
            traced = [as_tensor(t) for t in tree.flatten(again[0] if has_aux else again)[0]]
            found = _pull(rec, traced, seeds, handles, arguments.names, "the value")
            return arguments.gradients(rec.export(found))

    return (value, pullback, aux) if has_aux else (value, pullback)


def _seeds(cotangent: Any, outputs: Sequence[Any], structure: tree.Structure) -> list[Tensor]:
    leaves, given = tree.flatten(cotangent)
    if given != structure:
        raise ShapeError(f"the cotangent has structure {given}, the value {structure}")
    return [_fitted(leaf, as_tensor(out).type, "cotangent") for leaf, out in zip(leaves, outputs, strict=True)]


def _fitted(leaf: Any, type_: Type, what: str) -> Tensor:
    tensor = as_tensor(leaf)
    if tensor.type.shape != type_.shape:
        raise ShapeError(f"the {what} is {resolve(tensor.type)}, the value {resolve(type_)}")
    return tensor.astype(resolve(type_).dtype)


def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(value, directional derivative) of `fn` at the primals along the tangents.

    Computed as the vjp of the vjp, which is linear in its cotangent. Raises ShapeError where a tangent
    does not fit its primal.

    >>> import gtensor as gt
    >>> jvp(lambda x: x * x, [gt.tensor(3.0)], [gt.tensor(1.0)])
    (Tensor(9., dtype=float32), Tensor(6., dtype=float32))
    """
    if len(primals) != len(tangents):
        raise ShapeError(f"jvp: {len(primals)} primals but {len(tangents)} tangents")
    arguments = _Arguments(fn, tuple(primals), tuple(range(len(primals))), None)
    directions = [t for tangent in tangents for t in tree.flatten(tangent)[0]]
    if len(directions) != len(arguments.variables):
        raise ShapeError("jvp: the tangents have another structure than the primals")
    fitted = [_fitted(t, v.type, "tangent") for t, v in zip(directions, arguments.variables, strict=True)]
    with recording("jvp") as outer:
        with recording("vjp") as inner:
            handles = [inner.variable(v, n) for v, n in zip(arguments.variables, arguments.names, strict=True)]
            leaves, structure = tree.flatten(arguments.call(fn, handles, {}))
            outputs = [as_tensor(leaf) for leaf in leaves]
            seeds = [outer.variable(_no_scope(zeros, resolve(out.type), outer)) for out in outputs]
            found = _pull(inner, outputs, seeds, handles, arguments.names, "the value")
            exported = inner.export([*outputs, *found])
        values, cotangents = exported[: len(outputs)], exported[len(outputs) :]
        moved = _pull(outer, cotangents, fitted, seeds, ["seed"] * len(seeds), "the value")
        results = outer.export([*values, *moved])
    n = len(values)
    return tree.unflatten(structure, results[:n]), tree.unflatten(structure, results[n:])


def _no_scope(make: Callable[[Type], Tensor], type_: Type, outer: Eager | Abstract) -> Tensor:
    """Make a tensor in the scope that surrounds a recording, where its variables' values live."""
    if isinstance(outer, Eager):
        return make(type_)
    saved, STATE.scope = STATE.scope, outer.scope.parent
    try:
        return make(type_)
    finally:
        STATE.scope = saved


def hvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of a scalar function at the primals times the tangents, one result per primal.

    >>> import gtensor as gt
    >>> hvp(lambda x: gt.sum(x ** 3), [gt.tensor([1.0, 2.0])], [gt.tensor([1.0, 0.0])])
    (Tensor([6., 0.], dtype=float32),)
    """
    numbers = tuple(range(len(primals)))
    gradient = grad(fn, numbers)
    _, product = jvp(lambda *args: gradient(*args), primals, tangents)
    return product

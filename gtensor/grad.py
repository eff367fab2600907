"""Derivatives: grad, value_and_grad, vjp, jvp, hvp over pytrees; `backward` on recorded tensors.

One mechanism serves both styles: a recording gives handles on the variables, runs the function, and
pulls cotangents back through what was recorded. Inside a trace a recording is a graph of its own that is
inlined afterwards; outside it is a level on eager tensors. Law: results carry the history of every
recording but their own, so transformations nest to any order and never confuse variables.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import tree
from .builder import inline
from .errors import GradError, GTensorError, ShapeError, TraceError
from .ir import Atom, Graph, Var
from .prim import public
from .pullback import Step, key_of, pull_back, recorded_steps, traced_steps, unit, zeros
from .record import Record
from .tensor import STATE, Scope, Tensor, as_tensor, cast, concrete, in_scope, require_open
from .trace import argument_names, name_values, named, placeholder, scope
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
        self.name = name
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
        outer = self.scope.parent
        assert outer is not None
        self.graph: Graph = self.scope.builder.finish([self.scope.atom(t) for t in tensors])
        return self.inlined(outer, {var: outer.atom(t) for var, t in self.arguments})

    def inlined(self, target: Scope, given: dict[Var, Atom]) -> list[Tensor]:
        """The exported tensors bound in another scope, with these atoms for the variables."""
        captured = {var: target.atom(as_tensor(value)) for value, var in self.scope.captures.values()}
        atoms = inline(target.builder, self.graph, [(given | captured)[v] for v in self.graph.inputs])
        return [Tensor(a.type, atom=a, scope=target) for a in atoms]


def recording(name: str) -> Eager | Abstract:
    """The recording that fits the moment: abstract inside a trace, else eager."""
    return Eager(name) if STATE.scope is None else Abstract(name)


@contextlib.contextmanager
def _reopened(
    rec: Eager | Abstract, outputs: Sequence[Tensor], handles: Sequence[Tensor]
) -> Iterator[tuple[Eager | Abstract, Sequence[Tensor], Sequence[Tensor]]]:
    """A recording after its end, to pull back through: an abstract one is bound again, which merges with the first."""
    if isinstance(rec, Eager):
        yield rec, outputs, handles
        return
    with Abstract(rec.name) as again:
        fresh = [again.variable(tensor, var.hint) for var, tensor in rec.arguments]
        given = {var: again.scope.atom(handle) for (var, _), handle in zip(rec.arguments, fresh, strict=True)}
        yield again, rec.inlined(again.scope, given)[: len(outputs)], fresh


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

    def __init__(
        self, fn: Callable[..., Any], args: Sequence[Any], argnums: int | Sequence[int] | None, frozen: Frozen
    ) -> None:
        self.args = args
        self.single = isinstance(argnums, int)
        numbers = range(len(args)) if argnums is None else [argnums] if isinstance(argnums, int) else argnums
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradError(f"argnums={number}, but there are {len(args)} arguments")
        self.numbers = [n % len(args) for n in numbers]
        if len(set(self.numbers)) != len(self.numbers):
            raise GradError(f"argnums={argnums} names an argument twice")
        chosen = tuple(args[n] for n in self.numbers)
        self.leaves, self.structure = tree.flatten(chosen)
        names = argument_names(fn, len(args))
        paths = [".".join([names[self.numbers[path[0]]], *map(str, path[1:])]) for path in self.structure.paths()]
        self.live = [not cut for cut in self._frozen(frozen, chosen, paths)]
        live = [(leaf, path) for leaf, path, alive in zip(self.leaves, paths, self.live, strict=True) if alive]
        self.variables = [_variable(leaf, path) for leaf, path in live]
        self.names = [path for _, path in live]

    def _frozen(self, frozen: Frozen, chosen: tuple[Any, ...], paths: Sequence[str]) -> list[Any]:
        """A flag per leaf. One argument alone is the tree that `frozen` speaks of, several are a tuple of trees."""
        if frozen is None:
            return [False] * len(paths)
        if callable(frozen):
            return [frozen(path.partition(".")[2] if self.single else path) for path in paths]
        return tree.broadcast_prefix(frozen, chosen[0] if self.single else chosen)

    def handles(self, rec: Eager | Abstract) -> list[Tensor]:
        """The variables as a recording sees them."""
        return [rec.variable(v, n) for v, n in zip(self.variables, self.names, strict=True)]

    def call(self, fn: Callable[..., Any], handles: Sequence[Tensor], kwargs: dict[str, Any]) -> Any:
        """`fn` with handles for its variables."""
        queue = iter(handles)
        leaves = [next(queue) if alive else leaf for leaf, alive in zip(self.leaves, self.live, strict=True)]
        args = list(self.args)
        for number, chosen in zip(self.numbers, tree.unflatten(self.structure, leaves), strict=True):
            args[number] = chosen
        return fn(*args, **kwargs)

    def gradients(self, cotangents: Sequence[Tensor]) -> Any:
        """Cotangents in the structure of the arguments; None for frozen leaves."""
        queue = iter(cotangents)
        trees = tree.unflatten(self.structure, [next(queue) if alive else None for alive in self.live])
        return trees[0] if self.single else trees


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
    return tensor if tensor.data is None else cast(tensor, resolve(tensor.type).dtype)


def _scalar(result: Any, what: str) -> Tensor:
    if isinstance(result, _Result) and len(result.outputs) != 1:
        raise GradError(
            f"{what} needs one scalar result, not {len(result.outputs)}", hint="return (loss, aux) with has_aux=True"
        )
    tensor = result.outputs[0] if isinstance(result, _Result) else result
    if tensor.type.shape != ():
        raise GradError(
            f"{what} needs a scalar result, not {resolve(tensor.type)}",
            hint="reduce it with gt.sum or gt.mean, or use gt.vjp with a cotangent",
        )
    if not tensor.type.dtype.floating:
        raise GradError(f"{what} needs a floating-point result, not {resolve(tensor.type)}")
    return tensor


class _Result:
    """What a differentiated function returned: the value's leaves, and what else, with its tensors to be exported."""

    def __init__(self, result: Any, has_aux: bool) -> None:
        if has_aux and not (isinstance(result, tuple) and len(result) == 2):
            raise GradError("with has_aux the function must return a pair (value, aux)")
        value, aux = result if has_aux else (result, None)
        leaves, self.structure = tree.flatten(value)
        self.outputs = [as_tensor(leaf) for leaf in leaves]
        self._aux, self._aux_structure = tree.flatten(aux)
        self.has_aux = has_aux

    @property
    def tensors(self) -> list[Tensor]:
        """The value's leaves, then the tensors among the rest (whose other leaves stay as they are)."""
        return [*self.outputs, *(leaf for leaf in self._aux if isinstance(leaf, Tensor))]

    def rebuilt(self, exported: Sequence[Tensor]) -> tuple[Any, Any]:
        """(value, aux) from the exported `tensors`."""
        queue = iter(exported)
        value = tree.unflatten(self.structure, [next(queue) for _ in self.outputs])
        aux = [next(queue) if isinstance(leaf, Tensor) else leaf for leaf in self._aux]
        return value, tree.unflatten(self._aux_structure, aux)


def value_and_grad(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, *, frozen: Frozen = None
) -> Callable[..., Any]:
    """A function that gives `fn`'s value and its gradient with respect to the arguments `argnums`.

    The gradient has the structure of the argument (a tuple of them for several argnums). With `has_aux`,
    `fn` returns (loss, anything) and the value is that pair. `frozen` leaves leaves out: their gradient
    is None. It is a tree of bools that stops at or above the leaves, or a predicate on their paths
    (`layers.0.w`; with several argnums the argument's name comes first). Raises GradError for integer
    arguments, a non-scalar loss, and an operation without derivative on the path.

    >>> import gtensor as gt
    >>> value_and_grad(lambda w: gt.sum(w * w))(gt.tensor([1.0, 3.0]))
    (Tensor(10., dtype=float32), Tensor([2., 6.], dtype=float32))
    >>> gt.grad(lambda p: p["a"] * p["b"], frozen={"a": False, "b": True})({"a": 2.0, "b": 3.0})
    {'a': Tensor(3., dtype=float32), 'b': None}
    """
    name = getattr(fn, "__name__", "function").strip("<>")

    @named(fn, "value_and_grad")
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        arguments = _Arguments(fn, args, argnums, frozen)
        with recording(f"grad({name})") as rec:
            handles = arguments.handles(rec)
            result = _Result(arguments.call(fn, handles, kwargs), has_aux)
            loss = _scalar(result, f"grad of {name}")
            cotangents = _pull(rec, [loss], [unit(loss)], handles, arguments.names, "the loss")
            exported = rec.export([*result.tensors, *cotangents])
        value, aux = result.rebuilt(exported)
        gradients = arguments.gradients(exported[len(exported) - len(cotangents) :])
        return ((value, aux) if has_aux else value), gradients

    return differentiated


def grad(fn: Callable[..., Any] | Tensor, argnums: Any = 0, has_aux: bool = False, *, frozen: Frozen = None) -> Any:
    """The gradient of a function, or of a recorded or traced scalar.

    `grad(fn, argnums, has_aux)` gives a function: see `value_and_grad`; with `has_aux` it returns
    (gradient, aux). `grad(loss, [w, …])` gives the gradients of a tensor with respect to tensors it was
    computed from, in the structure given, and never touches `.grad`; zeros where there is no path. Outside
    a trace these must have been created with `requires_grad`.

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

    @named(fn, "grad")
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


_RECORD = "create what is differentiated with gt.tensor(…, requires_grad=True)"


def _grad_of_tensor(loss: Tensor, wrt: Any) -> Any:
    leaves, structure = tree.flatten(wrt)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            raise GradError(f"grad(tensor, wrt): wrt[{i}] is {type(leaf).__name__}, no tensor")
        _variable(leaf, f"wrt[{i}]")
        if loss.scope is None and not leaf.levels:
            raise GradError(f"grad(tensor, wrt): wrt[{i}] has no history", hint=_RECORD)
    _scalar(loss, "grad")
    if loss.scope is not None:
        require_open(loss, STATE.scope)
    with in_scope(loss.scope):
        home = loss.scope
        if home is None:
            variables, steps = leaves, recorded_steps([loss], lambda record: True)
        else:
            loss, *variables = (Tensor(t.type, atom=home.atom(t), scope=home) for t in (loss, *leaves))
            steps = traced_steps(home)
        names = {key_of(v): f"wrt[{i}]" for i, v in enumerate(variables)}
        found = pull_back(steps, [loss], [unit(loss)], variables, _same, lambda t: names.get(key_of(t), "the loss"))
        gradients = [zeros(v.type) if t is None else t for t, v in zip(found, variables, strict=True)]
    return tree.unflatten(structure, gradients)


@public
def backward(loss: Tensor, gradient: Any = None) -> None:
    """Add the gradient of a scalar to `.grad` of every leaf with `requires_grad` that it depends on.

    With `gradient` given the tensor may have any shape. Raises TraceError inside a trace (use `gt.grad`)
    and GradError for a tensor without history.

    >>> import gtensor as gt
    >>> w = gt.tensor([1.0, 2.0], requires_grad=True)
    >>> gt.sum(w * w).backward(); gt.sum(w).backward()
    >>> w.grad
    Tensor([3., 5.], dtype=float32)
    """
    if STATE.scope is not None or loss.data is None:
        raise TraceError("backward() inside a trace", hint="use gt.grad(loss, [w])")
    if not loss.levels:
        raise GradError("backward(): this tensor has no history", hint=_RECORD)
    seed = unit(_scalar(loss, "backward()")) if gradient is None else _fitted(gradient, loss.type, "gradient")
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


def vjp(
    fn: Callable[..., Any], *primals: Any, argnums: int | Sequence[int] | None = None, has_aux: bool = False,
    frozen: Frozen = None,
) -> Any:  # fmt: skip
    """(value, pullback) of `fn` at the primals; pullback(cotangent) gives one gradient per primal.

    The cotangent has the structure of the value. With `has_aux`, `fn` returns (value, aux) and the
    result is (value, pullback, aux). `argnums` and `frozen` choose what has a gradient, as in
    `value_and_grad`. Raises ShapeError where the cotangent does not fit.

    >>> import gtensor as gt
    >>> y, pullback = vjp(lambda x: gt.sin(x), gt.tensor([0.0, 1.0]))
    >>> pullback(gt.tensor([2.0, 0.0]))
    (Tensor([2., 0.], dtype=float32),)
    """
    arguments = _Arguments(fn, primals, argnums, frozen)
    with recording("vjp") as rec:
        handles = arguments.handles(rec)
        result = _Result(arguments.call(fn, handles, {}), has_aux)
        value, aux = result.rebuilt(rec.export(result.tensors))

    def pullback(cotangent: Any) -> Any:
        seeds = _seeds(cotangent, result.outputs, result.structure)
        with _reopened(rec, result.outputs, handles) as (again, outputs, fresh):
            found = _pull(again, outputs, seeds, fresh, arguments.names, "the value")
            return arguments.gradients(again.export(found))

    return (value, pullback, aux) if has_aux else (value, pullback)


def _seeds(cotangent: Any, outputs: Sequence[Tensor], structure: tree.Structure) -> list[Tensor]:
    leaves, given = tree.flatten(cotangent)
    if given != structure:
        raise ShapeError(f"the cotangent has structure {given}, the value {structure}")
    return [_fitted(leaf, out.type, "cotangent") for leaf, out in zip(leaves, outputs, strict=True)]


def _fitted(leaf: Any, type_: Type, what: str) -> Tensor:
    tensor = as_tensor(leaf)
    if tensor.type.shape != type_.shape:
        raise ShapeError(f"the {what} is {resolve(tensor.type)}, the value {resolve(type_)}")
    return tensor.astype(resolve(type_).dtype)


def jvp(
    fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any],
    argnums: int | Sequence[int] | None = None, has_aux: bool = False, *, frozen: Frozen = None,
) -> Any:  # fmt: skip
    """(value, directional derivative) of `fn` at the primals along the tangents.

    Computed as the vjp of the vjp, which is linear in its cotangent. There is one tangent per primal, or
    per argument of `argnums`, with None for frozen leaves. With `has_aux`, `fn` returns (value, aux) and
    aux is a third result. Raises ShapeError where a tangent does not fit its primal.

    >>> import gtensor as gt
    >>> jvp(lambda x: x * x, [gt.tensor(3.0)], [gt.tensor(1.0)])
    (Tensor(9., dtype=float32), Tensor(6., dtype=float32))
    """
    arguments = _Arguments(fn, primals, argnums, frozen)
    given = tangents if arguments.single else tuple(tangents)
    directions, structure = tree.flatten(given)
    expected = tree.flatten(arguments.gradients(arguments.variables))[1]
    if structure != expected:
        raise ShapeError(f"jvp: the tangents have the structure {structure}, their primals {expected}")
    fitted = [_fitted(t, v.type, "tangent") for t, v in zip(directions, arguments.variables, strict=True)]
    with recording("jvp") as outer:
        with recording("vjp") as inner:
            handles = arguments.handles(inner)
            result = _Result(arguments.call(fn, handles, {}), has_aux)
            outputs = result.outputs
            seeds = [_seed(outer, resolve(out.type)) for out in outputs]
            found = _pull(inner, outputs, seeds, handles, arguments.names, "the value")
            exported = inner.export([*result.tensors, *found])
        values, cotangents = exported[: len(result.tensors)], exported[len(result.tensors) :]
        moved = _pull(outer, cotangents, fitted, seeds, ["seed"] * len(seeds), "the value")
        exported = outer.export([*values, *moved])
    value, aux = result.rebuilt(exported)
    tangent = tree.unflatten(result.structure, exported[len(values) :])
    return (value, tangent, aux) if has_aux else (value, tangent)


def _seed(outer: Eager | Abstract, type_: Type) -> Tensor:
    """A variable of a recording, zero in the scope that surrounds it."""
    with in_scope(None if isinstance(outer, Eager) else outer.scope.parent):
        zero = zeros(type_)
    return outer.variable(zero)


def hvp(
    fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any],
    argnums: int | Sequence[int] | None = None, has_aux: bool = False, *, frozen: Frozen = None,
) -> Any:  # fmt: skip
    """The Hessian of a scalar function at the primals times the tangents, one result per primal.

    `argnums`, `has_aux` and `frozen` are those of `jvp`; with `has_aux` the result is (product, aux).

    >>> import gtensor as gt
    >>> hvp(lambda x: gt.sum(x ** 3), [gt.tensor([1.0, 2.0])], [gt.tensor([1.0, 0.0])])
    (Tensor([6., 0.], dtype=float32),)
    """
    numbers = tuple(range(len(primals))) if argnums is None else argnums
    gradient = grad(fn, numbers, has_aux, frozen=frozen)
    _, *product = jvp(gradient, primals, tangents, numbers, has_aux, frozen=frozen)
    return tuple(product) if has_aux else product[0]

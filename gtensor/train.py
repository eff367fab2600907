"""`gt.TrainStep`: loss, gradients and the optimizer's update as one compiled call.

Comes in: a loss function, parameters, an optimizer, specs of a batch. Goes out: a callable that takes a batch and
returns its loss, having moved the parameters in place, and `fit`, the loop over a data set in C. Laws: a step is
committed whole or not at all; `fit` runs every row of every epoch, the last partial batch too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import loop
from .errors import GTensorError, OptionError, ShapeError
from .grad import Frozen, value_and_grad
from .optim import Optimizer
from .resident import Array, Block, Bound, Resident, name_of
from .shortcut import over_batches
from .trace import argument_names, spec
from .types import Dim, float64


class TrainStep(Resident):
    """Loss, gradients and the optimizer's update as one compiled call over parameters that stay in memory.

    loss_fn: `loss_fn(params, *batch) -> loss`, or (loss, aux) with `has_aux`; params: a pytree of arrays, which are
    copied; optimizer: one of `gt.optim`; specs: one spec, or pytree of specs, per batch argument. `frozen` (a predicate
    on leaf paths, or a tree prefix of bools) keeps leaves as they are. With `learning_rate` given, the rate is read at
    each step and can be changed: `train.learning_rate = 1e-4`. Where a gradient stays zero, the optimizer's moments
    shrink to denormal numbers, on which processors are slow; steps made under `gt.config(flush=1)` count those as zero.
    Raises what tracing raises, GradError for a loss that is no scalar, ToolchainError without a working compiler.

    >>> import gtensor as gt
    >>> def loss_fn(w, x, y):
    ...     return gt.mean((x @ w - y) ** 2)
    >>> train = gt.TrainStep(loss_fn, gt.zeros(2), gt.optim.sgd(0.25), gt.spec((4, 2)), gt.spec((4,)))
    >>> train(gt.ones((4, 2)), gt.ones(4)), train(gt.ones((4, 2)), gt.ones(4))
    (1.0, 0.0)
    >>> train.params
    array([0.5, 0.5], dtype=float32)
    """

    def __init__(
        self,
        loss_fn: Callable[..., Any],
        params: Any,
        optimizer: Optimizer,
        *specs: Any,
        has_aux: bool = False,
        frozen: Frozen = None,
        learning_rate: float | None = None,
    ) -> None:
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.has_aux = has_aux
        self.frozen = frozen
        self.names = argument_names(loss_fn, 1 + len(specs))[1:]
        self._rate: tuple[Array, ...] = () if learning_rate is None else (np.array(learning_rate, np.float64),)
        self.block = Block({"params": params, "optimizer": optimizer.init(params)})
        self._begin(self._train(specs))

    def _begin(self, step: Bound) -> None:
        """Make ready what calls and `fit` need around the compiled step."""
        self.step = step
        if not self.has_aux:
            step.keep_outputs()
        for slot, array in enumerate(self._rate):
            step.frame.set_input(slot, array)
        finish = self._with_aux if self.has_aux else None
        self._run = over_batches(step.frame, step.inputs, self.block.lock, self._checked, finish, self._rate)
        self._sizes = _Sizes(step, len(self._rate), self._train, {step.inputs.rows: step})
        self._losses = _Sizes(step, len(self._rate), self._train_loss, {})
        self._paces: dict[int, loop.Pace] = {}

    def __call__(self, *batch: Any) -> Any:
        """One step: the loss of the batch before the update, as a float; (loss, aux) with `has_aux`.

        Raises SignatureError for arguments that differ from the specs, IndexError for an index out of range; the
        state is then untouched.
        """
        return self._run(*batch)

    def _checked(self, *batch: Any) -> Any:
        """A step with any batch: what fits is converted, what does not is refused."""
        step = self.step
        arrays, dims = step.fit((*self._rate, *batch))
        with self.block.lock:
            step.bind(arrays, dims)
            results = step.outputs.bind(step.frame, (), dims) if self.has_aux else ()
            loss = step.frame.step()
            failure = step.frame.failure() if loss != loss and step.frame.status else None
        if failure is not None:
            raise step.compiled.error(failure)
        return self._with_aux(loss, *results) if self.has_aux else loss

    def _with_aux(self, loss: float, *results: Array) -> tuple[float, Any]:
        """The loss and the auxiliary results of a step."""
        return loss, self.step.outputs.tensors(results)[1]

    def save(self, folder: str | os.PathLike[str], *, target: str = "native") -> None:
        """Write the step, its parameters and the optimizer's state into a folder; `gt.load` goes on from there.

        What is loaded needs no Python of the loss, takes batches of the size that this step was made for, and can be
        bound to other functions. target: the machines that its library is for, as for `Executable.save`. Raises as
        `Resident.save`.
        """
        self._save(folder, "train", target, has_aux=self.has_aux, rate=bool(self._rate))

    @property
    def params(self) -> Any:
        """The parameters as NumPy arrays in their tree. They are the memory itself: steps change them."""
        return self.state["params"]

    @property
    def learning_rate(self) -> float:
        """The rate that the next step reads; raises OptionError unless the step was made with `learning_rate`."""
        return float(self._rate_array())

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._rate_array()[...] = value

    def bind(self, fn: Callable[..., Any], *specs: Any, updates: bool = False) -> Bound:
        """Compile another function over the same parameters: `fn(params, *batch) -> outputs`.

        With `updates` it returns (params, outputs), and its parameters replace the present ones.
        """

        def over(state: Any, *batch: Any) -> Any:
            result = fn(state["params"], *batch)
            if not updates:
                return result
            params, outputs = result
            return {**state, "params": params}, outputs

        names = argument_names(fn, 1 + len(specs))[1:]
        return self._compile(over, specs, name_of(fn), names, updates=updates)

    def fit(
        self,
        *data: Any,
        batch_size: int | None = None,
        epochs: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        validation: tuple[Any, ...] | None = None,
        callback: Callable[[loop.History], object] | None = None,
        progress: bool = True,
    ) -> loop.History:
        """Train on a data set: the loop over the batches runs in C; returns the losses and a record per epoch.

        data: what a step takes, with a row per example (arguments whose leading extent is that of the first one are
        cut into batches, the others are the same for all). The last batch of an epoch has the rows that are left:
        their loss is the mean, or whatever `loss_fn` says, of fewer rows. With `drop_last` they are left out (with
        `shuffle`, others in each epoch). What is compiled: a `batch_size` other than the compiled one needs a step of
        its size, and the rows that are left one more, whose number of rows is known at run time, so that it serves
        any number of them, in later calls too; where `loss_fn` needs to know the number, a step for each. A step made
        with a run-time batch (`gt.spec(("B", 8), max={"B": 64})`) serves all. `shuffle` draws a new order for each
        epoch from `seed`. `validation` is a data set whose mean loss is taken after each epoch. `callback` gets
        the history about ten times a second and after each epoch, and ends the training by returning true. Raises
        SignatureError for data of other types, IndexError for an index out of range, naming the batch; the steps
        before it stay done, as they do when the training is interrupted.

        >>> import gtensor as gt
        >>> def loss_fn(w, x, y):
        ...     return gt.mean((x @ w - y) ** 2)
        >>> train = gt.TrainStep(loss_fn, gt.zeros(2), gt.optim.sgd(0.1), gt.spec((4, 2)), gt.spec((4,)))
        >>> history = train.fit(gt.randn(10, 2, seed=1), gt.ones(10), epochs=2, progress=False)
        >>> len(history.losses), len(history.epochs)
        (6, 2)
        """
        size = self._batch_size(batch_size)
        loop.require_positive(epochs=epochs)
        name = name_of(self.loss_fn)
        given, what = loop.Data(self.step.inputs, (*self._rate, *data), f"fit of {name}"), f"fit of {name}"
        runners = self._runners(given, data, size, self._sizes, self._rate, drop_last, what)
        if not runners:
            raise OptionError(f"{what}: {given.count} rows are no batch of {size}, and drop_last leaves them out")
        rng = np.random.default_rng(seed) if shuffle else None
        with loop.progress_bar(epochs * sum(runner.steps for runner in runners), name, progress) as advance:
            return loop.run(
                runners,
                epochs=epochs,
                pace=self._paces.setdefault(size, loop.Pace()),
                order=lambda: None if rng is None else rng.permutation(given.count),
                validate=None if validation is None else lambda: self.evaluate(*validation, batch_size=size),
                callback=callback,
                advance=advance,
            )

    def evaluate(self, *data: Any, batch_size: int | None = None) -> float:
        """The mean loss over a data set with the present parameters, which stay as they are.

        data and batch_size as in `fit`; raises as it does.
        """
        size, what = self._batch_size(batch_size), f"evaluate of {name_of(self.loss_fn)}"
        whole = loop.Data(self.step.inputs, (*self._rate, *data), what)
        return loop.mean_loss(self._runners(whole, data, size, self._losses, (), False, what))

    def _runners(
        self, whole: loop.Data, data: tuple[Any, ...], size: int, sizes: _Sizes, first: tuple[Array, ...],
        drop_last: bool, what: str,
    ) -> list[loop.Runner]:  # fmt: skip
        """Runners for the full batches of a data set and for the rest, unless it is dropped.

        `sizes` has the functions; they take the arrays `first` and a batch.
        """

        def own(bound: Bound) -> loop.Data:
            return whole if bound is self.step else loop.Data(bound.inputs, (*first, *data), what)

        rest = None if drop_last else lambda left: sizes.rest(left, size)
        found = loop.parts(whole.count, size, lambda: sizes.full(size), rest)
        return [loop.Runner(part, own(part.bound)) for part in found]

    def _settings(self) -> dict[str, Array]:
        return dict(zip(("learning_rate",), self._rate, strict=False))

    def _rate_array(self) -> Array:
        if not self._rate:
            raise OptionError(
                "this step has its learning rate built in", hint="give TrainStep a learning_rate to change it later"
            )
        return self._rate[0]

    def _train(self, specs: Sequence[Any]) -> Bound:
        """The step for these specs of a batch."""
        given = [(spec((), float64), "learning_rate")] if self._rate else []
        roots = (self.loss_fn, self.frozen)
        every, names = [*(s for s, _ in given), *specs], [*(n for _, n in given), *self.names]
        return self._compile(
            self._advance, every, f"train_{name_of(self.loss_fn)}", names, updates=True, loss=True, roots=roots
        )

    def _advance(self, state: Any, *batch: Any) -> Any:
        """The step as Python: (state, (loss, aux))."""
        params, count = state["params"], len(self._rate)
        value, grads = value_and_grad(self.loss_fn, has_aux=self.has_aux, frozen=self.frozen)(params, *batch[count:])
        loss, aux = value if self.has_aux else (value, None)
        params, after = self.optimizer.update(params, grads, state["optimizer"], *batch[:count])
        return {"params": params, "optimizer": after}, (loss, aux)

    def _train_loss(self, specs: Sequence[Any]) -> Bound:
        """The loss alone for these specs of a batch."""
        name = f"loss_{name_of(self.loss_fn)}"
        return self._compile(self._loss, specs, name, self.names, updates=False, loss=True, roots=(self.loss_fn,))

    def _loss(self, state: Any, *batch: Any) -> Any:
        result = self.loss_fn(state["params"], *batch)
        return result[0] if self.has_aux else result

    def _batch_size(self, size: int | None) -> int:
        """The batch size asked for, or that of the compiled step."""
        rows = self.step.inputs.rows
        if rows is None:
            raise ShapeError("fit needs batches with rows, and this step takes no array with axes")
        if size is None:
            if isinstance(rows, Dim):
                raise OptionError(f"fit: batch_size is not given, and {rows} is known at run time only")
            return rows
        loop.require_positive(batch_size=size)
        if isinstance(rows, Dim) and size > rows.bound:
            raise OptionError(f"fit: batch_size is {size}, the step was compiled for at most {rows.bound}")
        return int(size)


class _Sizes:
    """A function of a batch, compiled for the batch sizes that are asked for.

    `build` compiles it for specs of a batch, which are those of the step, without the `skip` first ones, with another
    extent of the batch. `made` has what is compiled: for a number of rows, or for all up to the bound of a run-time
    extent, where None says that the function has to know the number.
    """

    def __init__(
        self, step: Bound, skip: int, build: Callable[[Sequence[Any]], Bound], made: dict[int | Dim | None, Bound]
    ) -> None:
        self._inputs = step.inputs
        self._skip = skip
        self._build = build
        self.made: dict[int | Dim | None, Bound | None] = dict(made)

    def full(self, size: int) -> Bound:
        """The function for batches of that size; a step with a run-time batch takes all."""
        rows = self._inputs.rows
        key = rows if isinstance(rows, Dim) else size
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self._compiled(key)
        return found

    def rest(self, left: int, size: int) -> Bound:
        """The function for the rows that are left of batches of a size: one for any number of them, if it can be."""
        if left in self.made or isinstance(self._inputs.rows, Dim):
            return self.full(left)
        for rows, found in self.made.items():
            if isinstance(rows, Dim) and rows.bound >= left and found is not None:
                return found
        rows = Dim(self._name(), size)
        if rows not in self.made:
            try:
                self.made[rows] = self._compiled(rows)
            except (GTensorError, TypeError):
                self.made[rows] = None
        return self.made[rows] or self.full(left)

    def _compiled(self, rows: int | Dim) -> Bound:
        return self._build(self._inputs.with_rows(rows, "").specs[self._skip :])

    def _name(self) -> str:
        """A name for the run-time extent that no other one has."""
        extents = [extent for want in self._inputs.typed if want.type is not None for extent in want.type.shape]
        taken, name = {extent.name for extent in extents if isinstance(extent, Dim)}, "rows"
        while name in taken:
            name += "_"
        return name

"""The single-node cases that the onnx wheel makes: one operator, its inputs, and what it must give.

`cases()` generates them all, without a network, once in a process and from a fixed seed, as records that know
nothing of onnx any more. Law: the same cases with the same numbers in every process.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

SEED = 0


@dataclass(frozen=True, eq=False)
class Case:
    """One node: `inputs` has None where an optional one is left out, `wanted` says which outputs are compared.

    `attributes` has all that the operator has at the case's opset, those not given with their default, or None; and
    `outputs`, how many there are.
    """

    name: str
    operator: str
    attributes: SimpleNamespace
    inputs: tuple[Any, ...]
    wanted: tuple[bool, ...]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def kinds(self) -> set[str]:
        """The dtypes of what goes in and comes out; that of what is no array is the name of its class."""
        values = [x for x in (*self.inputs, *self.outputs) if x is not None]
        return {x.dtype.name if isinstance(x, np.ndarray) else type(x).__name__ for x in values}


@functools.cache
def cases() -> dict[str, tuple[Case, ...]]:
    """The cases of each operator: models of one node, not expanded into others."""
    state = np.random.get_state()
    np.random.seed(SEED)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = load_model_tests(kind="node")
    finally:
        np.random.set_state(state)
    found: dict[str, list[Case]] = {}
    for test in made:
        if len(test.model.graph.node) == 1 and "_expanded" not in test.name:
            case = _case(test)
            found.setdefault(case.operator, []).append(case)
    return {name: tuple(group) for name, group in sorted(found.items())}


def _case(test: Any) -> Case:
    (node,) = test.model.graph.node
    ((given, expected),) = test.data_sets
    values = iter(given)
    version = next(o.version for o in test.model.opset_import if o.domain == node.domain)
    return Case(
        test.name, node.op_type, _attributes(node, version),
        tuple(_value(next(values)) if name else None for name in node.input),
        tuple(map(bool, node.output)), tuple(map(_value, expected)), test.rtol, test.atol,
    )  # fmt: skip


def _attributes(node: Any, version: int) -> SimpleNamespace:
    known = onnx.defs.get_schema(node.op_type, version, node.domain).attributes
    defaults = {name: _plain(attribute.default_value) for name, attribute in known.items()}
    given = {attribute.name: _plain(attribute) for attribute in node.attribute}
    return SimpleNamespace(**{"outputs": len(node.output)} | defaults | given)


def _plain(attribute: Any) -> Any:
    """The value of an attribute as a Python one, tensors as arrays; None where there is none."""
    if attribute.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    return _value(value) if isinstance(value, onnx.TensorProto) else value


def _value(value: Any) -> Any:
    """An input or output as a NumPy array; what is none (sequences, strings of other classes) stays."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic, float, int)) else value

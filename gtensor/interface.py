"""What stands around the C of a compiled function, as data: it is all that a call needs to know besides the C itself.

Comes in: a traced function and how its arguments share memory, or what a saved model says. Goes out: an `Interface`,
and its form as JSON. Laws: it can be written and read without loss, and reading it runs no code; what cannot be
written (a static argument that is no number or text, a class of the user's in a tree) is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import tree
from .errors import FileError
from .ir import Graph
from .trace import Signature
from .trace import Traced as Tracing
from .types import Dim, Type, as_dtype
from .wiring import Wiring

STATICS = (bool, int, float, str)
"""Classes of the static arguments that can be written."""


@dataclass(frozen=True)
class Interface:
    """Arguments, captured arrays and results of a compiled function, and the memory that they share.

    The C takes the arrays of the arguments in their order, then `captured`; it makes `outputs`, which stand in a tree
    `structure`. `dims` are its run-time extents in order.
    """

    name: str
    signature: Signature
    captured: tuple[Type, ...]
    outputs: tuple[Type, ...]
    structure: tree.Structure
    wiring: Wiring
    dims: tuple[str, ...]

    @staticmethod
    def of(call: Tracing, wiring: Wiring) -> Interface:
        """That of a traced function."""
        graph = call.graph
        captured = graph.inputs[len(graph.inputs) - len(call.captured) :]
        return Interface(
            name=graph.name,
            signature=call.signature,
            captured=tuple(var.type for var in captured),
            outputs=tuple(atom.type for atom in graph.outputs),
            structure=call.out_structure,
            wiring=wiring,
            dims=tuple(dim_names(graph)),
        )

    def as_json(self) -> dict[str, Any]:
        """As JSON data; raises FileError for what cannot be written."""
        signature = self.signature
        statics = iter(signature.statics)
        arguments = [
            {"name": name, **(_type_json(type_) if type_ else {"static": _static(next(statics), name)})}
            for type_, name in zip(signature.types, signature.names, strict=True)
        ]
        return {
            "name": self.name,
            "structure": _structure_json(signature.structure, f"an argument of {self.name}"),
            "arguments": arguments,
            "captured": [_type_json(type_) for type_ in self.captured],
            "results": {
                "structure": _structure_json(self.structure, f"the result of {self.name}"),
                "types": [_type_json(type_) for type_ in self.outputs],
            },
            "state": sorted(self.wiring.state.items()),
            "alias": sorted(self.wiring.alias.items()),
            "loss": self.wiring.loss,
            "dims": list(self.dims),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Interface:
        """Back from JSON data; raises KeyError, TypeError or ValueError for data of another form."""
        arguments = data["arguments"]
        statics = tuple((type(a["static"]), a["static"]) for a in arguments if "static" in a)
        return Interface(
            name=data["name"],
            signature=Signature(
                _structure(data["structure"]),
                tuple(None if "static" in a else _type(a) for a in arguments),
                statics,
                tuple(a["name"] for a in arguments),
            ),
            captured=tuple(map(_type, data["captured"])),
            outputs=tuple(map(_type, data["results"]["types"])),
            structure=_structure(data["results"]["structure"]),
            wiring=Wiring(dict(data["state"]), dict(data["alias"]), data["loss"]),
            dims=tuple(data["dims"]),
        )


def dim_names(graph: Graph) -> list[str]:
    """The run-time extents of a graph in the order of the compiled function's dimensions: as its inputs name them."""
    extents = (extent for var in graph.inputs for extent in var.type.shape)
    return list(dict.fromkeys(extent.name for extent in extents if isinstance(extent, Dim)))


# ---- types -------------------------------------------------------------------------------------------------


def _type_json(type_: Type) -> dict[str, Any]:
    shape = [e if isinstance(e, int) else {"name": e.name, "bound": e.bound, "factor": e.factor} for e in type_.shape]
    return {"dtype": type_.dtype.name, "shape": shape, **({"weak": True} if type_.weak else {})}


def _type(data: Mapping[str, Any]) -> Type:
    shape = tuple(e if isinstance(e, int) else Dim(e["name"], e["bound"], e["factor"]) for e in data["shape"])
    return Type(shape, as_dtype(data["dtype"]), bool(data.get("weak", False)))


def _static(static: tuple[Any, Any], name: str) -> Any:
    kind, value = static
    if kind not in STATICS:
        raise FileError(
            f"the static argument {name} is {kind.__name__}, which a saved model cannot hold",
            hint="numbers and texts can be saved; let the function capture the rest",
        )
    return value


# ---- trees -------------------------------------------------------------------------------------------------


def _structure_json(structure: tree.Structure, what: str) -> Any:
    """A tree as JSON: a number for a leaf, {"dict": …}, {"list": …}, {"tuple": …}, null for None."""
    return _encode(tree.unflatten(structure, range(structure.num_leaves)), what)


def _encode(node: Any, what: str) -> Any:
    if node is None or isinstance(node, int):
        return node
    if type(node) is dict and all(isinstance(key, str) for key in node):
        return {"dict": {key: _encode(child, what) for key, child in node.items()}}
    if type(node) in (list, tuple):
        return {type(node).__name__: [_encode(child, what) for child in node]}
    raise FileError(
        f"{what} has a {type(node).__name__}, which a saved model cannot hold",
        hint="trees of dicts with names, lists and tuples can be saved",
    )


def _structure(data: Any) -> tree.Structure:
    return tree.flatten(_decode(data))[1]


def _decode(data: Any) -> Any:
    if data is None or isinstance(data, int):
        return data
    ((kind, children),) = data.items()
    if kind == "dict":
        return {key: _decode(child) for key, child in children.items()}
    return _SEQUENCES[kind](_decode(child) for child in children)


_SEQUENCES: dict[str, Callable[[Iterable[Any]], Any]] = {"list": list, "tuple": tuple}
"""Kind of node in the file -> what makes it of its children."""

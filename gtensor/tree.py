"""Pytrees: nested dicts, lists, tuples, namedtuples and dataclasses of leaves, through optree.

Leaves come out in optree's order (dict keys sorted); a path such as `params.layers.0.w` names a leaf
for errors, graphs and C. None is an empty tree. Law: `unflatten(structure, flatten(tree)[0])` is the tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .codegen.lazy import Lazy

if TYPE_CHECKING:
    import optree
else:
    optree = Lazy("optree")

Structure: TypeAlias = "optree.PyTreeSpec"


def _register_dataclass(cls: type) -> None:
    names = tuple(f.name for f in dataclasses.fields(cls) if f.init)

    def flatten_node(node: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(node, n) for n in names), None, names

    optree.register_pytree_node(
        cls, flatten_node, lambda _, children: cls(**dict(zip(names, children, strict=True))), namespace="gtensor"
    )


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves and the structure; dataclasses are registered when first met.

    >>> flatten({"b": 2, "a": [1, None]})[0]
    [1, 2]
    """
    while True:
        leaves, structure = optree.tree_flatten(tree, namespace="gtensor")
        unknown = {type(leaf) for leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)}
        unknown = {cls for cls in unknown if not getattr(cls, "__gt_leaf__", False)}
        if not unknown:
            return leaves, structure
        for cls in unknown:
            _register_dataclass(cls)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of that structure with these leaves."""
    return structure.unflatten(leaves)


def paths(structure: Structure) -> list[str]:
    """One dotted name per leaf; the root leaf has the empty name.

    >>> paths(flatten({"w": [1, 2]})[1])
    ['w.0', 'w.1']
    """
    return [".".join(map(str, path)) for path in structure.paths()]


def map_leaves(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`fn` over the leaves of trees of one structure.

    >>> map_leaves(lambda a, b: a + b, {"x": 1}, {"x": 2})
    {'x': 3}
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in rest:
        other_leaves, other_structure = flatten(other)
        if other_structure != structure:
            raise ValueError(f"trees differ: {structure} against {other_structure}")
        columns.append(other_leaves)
    return unflatten(structure, [fn(*row) for row in zip(*columns, strict=True)])


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    """One value per leaf of `tree` from a tree that stops at or above its leaves.

    >>> broadcast_prefix({"a": True, "b": [False, True]}, {"a": [1, 2], "b": [3, 4]})
    [True, True, False, True]
    """
    return list(optree.broadcast_prefix(prefix, tree, namespace="gtensor"))


def broadcast_values(prefix: Any, tree: Any) -> list[Any]:
    """`broadcast_prefix` where None in the prefix is a value; what is None in the tree has no leaf and none here.

    >>> broadcast_values((None, {"a": 1, "b": None}), (5, {"a": [6, None], "b": 7}))
    [None, 1, None]
    """
    values = optree.broadcast_prefix(prefix, tree, none_is_leaf=True, namespace="gtensor")
    leaves = optree.tree_leaves(tree, none_is_leaf=True, namespace="gtensor")
    return [value for value, leaf in zip(values, leaves, strict=True) if leaf is not None]


def nested(value: Any) -> Iterator[Any]:
    """What stands in nested lists and tuples.

    >>> list(nested([1, (2, [3])]))
    [3, 2, 1]
    """
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        else:
            yield item

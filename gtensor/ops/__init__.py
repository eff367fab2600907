"""The primitives: importing this package fills the registry.

One record per operation: type rule, NumPy rule, derivative, batch rule, C form and samples stand
together, grouped by what kind of loop the operations are.
"""

from . import (
    arithmetic,
    arrange,
    assemble,
    contract,
    control,
    create,
    factors,
    index,
    layout,
    linalg,
    products,
    reduce,
    remat,
    scan,
    statistics,
    transcendental,
)

__all__ = [
    "arithmetic",
    "arrange",
    "assemble",
    "contract",
    "control",
    "create",
    "factors",
    "index",
    "layout",
    "linalg",
    "products",
    "reduce",
    "remat",
    "scan",
    "statistics",
    "transcendental",
]

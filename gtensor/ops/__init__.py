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
    cumulative,
    getitem,
    index,
    layout,
    products,
    quantiles,
    reduce,
    remat,
    scan,
    scatter,
    sort,
    statistics,
    transcendental,
    updates,
)

__all__ = [
    "arithmetic",
    "arrange",
    "assemble",
    "contract",
    "control",
    "create",
    "cumulative",
    "getitem",
    "index",
    "layout",
    "products",
    "quantiles",
    "reduce",
    "remat",
    "scan",
    "scatter",
    "sort",
    "statistics",
    "transcendental",
    "updates",
]

"""The further names of NumPy and of the array API on `gt`: functions composed of others, and aliases.

`gtensor` takes all that is listed here. At the end stands the one table of aliases: names of NumPy and
PyTorch for functions that have another name here, the same object each.
"""

from .inspection import can_cast, finfo, iinfo, isdtype, result_type
from .ops.arithmetic import (
    abs,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_right_shift,
    divide,
    multiply,
    negative,
    remainder,
    round,
    subtract,
    trunc,
)
from .ops.arrange import atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, fliplr, flipud, ravel
from .ops.choice import choose, piecewise, select
from .ops.closeness import allclose, array_equal, isclose
from .ops.counting import bincount, count_nonzero, digitize, histogram
from .ops.create import asarray, empty, empty_like, from_dlpack, geomspace, identity, logspace
from .ops.diagonals import diag, diagflat, diagonal, matrix_trace, tri, tril, triu, vander
from .ops.einsum import einsum
from .ops.joining import append, block, column_stack, delete, dstack, hstack, insert, vstack
from .ops.layout import expand_dims, permute_dims
from .ops.nan_statistics import nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar
from .ops.places import ravel_multi_index, unravel_index
from .ops.products import cross, inner, kron, vdot
from .ops.repeating import repeat, roll, rot90, tile
from .ops.sampled import convolve, correlate, gradient, interp, polyval, trapezoid
from .ops.sets import argwhere, flatnonzero, nonzero, unique_all, unique_counts, unique_inverse, unique_values
from .ops.splitting import array_split, chunk, dsplit, hsplit, split, vsplit
from .ops.statistics import average, ptp
from .ops.transcendental import acos, asin, atan, atan2

absolute = abs
arccos = acos
arcsin = asin
arctan = atan
arctan2 = atan2
array = asarray
bitwise_not = invert = bitwise_invert
div = true_divide = divide
fix = trunc
left_shift = bitwise_left_shift
mod = remainder
mul = multiply
neg = negative
permute = permute_dims
right_shift = bitwise_right_shift
rint = round
sub = subtract
unsqueeze = expand_dims

__all__ = [
    "absolute",
    "allclose",
    "append",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "argwhere",
    "array",
    "array_equal",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "bincount",
    "bitwise_not",
    "block",
    "broadcast_arrays",
    "can_cast",
    "choose",
    "chunk",
    "column_stack",
    "convolve",
    "correlate",
    "count_nonzero",
    "cross",
    "delete",
    "diag",
    "diagflat",
    "diagonal",
    "digitize",
    "div",
    "dsplit",
    "dstack",
    "einsum",
    "empty",
    "empty_like",
    "finfo",
    "fix",
    "flatnonzero",
    "fliplr",
    "flipud",
    "from_dlpack",
    "geomspace",
    "gradient",
    "histogram",
    "hsplit",
    "hstack",
    "identity",
    "iinfo",
    "inner",
    "insert",
    "interp",
    "invert",
    "isclose",
    "isdtype",
    "kron",
    "left_shift",
    "logspace",
    "matrix_trace",
    "mod",
    "mul",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "neg",
    "nonzero",
    "permute",
    "piecewise",
    "polyval",
    "ptp",
    "ravel",
    "ravel_multi_index",
    "repeat",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "rot90",
    "select",
    "split",
    "sub",
    "tile",
    "trapezoid",
    "tri",
    "tril",
    "triu",
    "true_divide",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unravel_index",
    "unsqueeze",
    "vander",
    "vdot",
    "vsplit",
    "vstack",
]

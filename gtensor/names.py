"""The further names of NumPy and of the array API on `gt`: functions composed of others, and aliases.

`gtensor` takes all that is listed here. At the end stands the one table of aliases: names of NumPy and
PyTorch for functions that have another name here, the same object each.
"""

from .inspection import can_cast, finfo, iinfo, isdtype, result_type
from .nn.distances import cdist
from .ops.arithmetic import (
    abs,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_right_shift,
    divide,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    negative,
    not_equal,
    remainder,
    round,
    subtract,
    trunc,
)
from .ops.arrange import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    fliplr,
    flipud,
    ravel,
    swapaxes,
)
from .ops.choice import choose, piecewise, select
from .ops.closeness import allclose, array_equal, isclose
from .ops.contract import matmul
from .ops.counting import bincount, count_nonzero, digitize, histogram
from .ops.create import asarray, empty, empty_like, from_dlpack, geomspace, identity, logspace
from .ops.cumulative import cumlogsumexp
from .ops.diagonals import diag, diag_embed, diagflat, diagonal, matrix_trace, tri, tril, triu, vander
from .ops.einsum import einsum
from .ops.elementary import acosh, asinh, atanh
from .ops.index import take_along_axis
from .ops.joining import append, block, column_stack, delete, dstack, hstack, insert, vstack
from .ops.layout import expand_dims, moveaxis, permute_dims
from .ops.nan_statistics import nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar
from .ops.places import ravel_multi_index, unravel_index
from .ops.products import cross, inner, kron, vdot
from .ops.repeating import repeat, roll, rot90, tile
from .ops.sampled import convolve, correlate, gradient, interp, polyval, trapezoid
from .ops.sets import argwhere, flatnonzero, nonzero, unique_all, unique_counts, unique_inverse, unique_values
from .ops.shorthands import (
    addcdiv,
    addcmul,
    addmm,
    bucketize,
    frac,
    index_select,
    lerp,
    masked_fill,
    narrow,
    unbind,
    unflatten,
)
from .ops.splitting import array_split, chunk, dsplit, hsplit, split, vsplit
from .ops.statistics import average, ptp
from .ops.transcendental import acos, asin, atan, atan2

absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
array = asarray
baddbmm = addmv = addmm
bitwise_not = invert = bitwise_invert
bmm = mm = mv = matmul
div = true_divide = divide
eq = equal
fix = trunc
ge = greater_equal
gt = greater
le = less_equal
left_shift = bitwise_left_shift
logcumsumexp = cumlogsumexp
lt = less
mod = remainder
movedim = moveaxis
mul = multiply
ne = not_equal
neg = negative
permute = permute_dims
repeat_interleave = repeat
right_shift = bitwise_right_shift
rint = round
sub = subtract
swapdims = swapaxes
take_along_dim = take_along_axis
unique = unique_values
unsqueeze = expand_dims

__all__ = [
    "absolute",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "allclose",
    "append",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argwhere",
    "array",
    "array_equal",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "baddbmm",
    "bincount",
    "bitwise_not",
    "block",
    "bmm",
    "broadcast_arrays",
    "bucketize",
    "can_cast",
    "cdist",
    "choose",
    "chunk",
    "column_stack",
    "convolve",
    "correlate",
    "count_nonzero",
    "cross",
    "delete",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "digitize",
    "div",
    "dsplit",
    "dstack",
    "einsum",
    "empty",
    "empty_like",
    "eq",
    "finfo",
    "fix",
    "flatnonzero",
    "fliplr",
    "flipud",
    "frac",
    "from_dlpack",
    "ge",
    "geomspace",
    "gradient",
    "gt",
    "histogram",
    "hsplit",
    "hstack",
    "identity",
    "iinfo",
    "index_select",
    "inner",
    "insert",
    "interp",
    "invert",
    "isclose",
    "isdtype",
    "kron",
    "le",
    "left_shift",
    "lerp",
    "logcumsumexp",
    "logspace",
    "lt",
    "masked_fill",
    "matrix_trace",
    "mm",
    "mod",
    "movedim",
    "mul",
    "mv",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "narrow",
    "ne",
    "neg",
    "nonzero",
    "permute",
    "piecewise",
    "polyval",
    "ptp",
    "ravel",
    "ravel_multi_index",
    "repeat",
    "repeat_interleave",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "rot90",
    "select",
    "split",
    "sub",
    "swapdims",
    "take_along_dim",
    "tile",
    "trapezoid",
    "tri",
    "tril",
    "triu",
    "true_divide",
    "unbind",
    "unflatten",
    "unique",
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

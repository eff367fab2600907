"""gtensor: NumPy-style Python traced into graphs, differentiated, and compiled ahead of time to readable C.

Everything a user calls by the name `gt.…` stands here, each name once and in order. Array functions have
the names of the Python array API standard; a few of NumPy's and PyTorch's names for the same are beside them.
"""

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import errors, linalg, names, nn, optim, random
from .arrays_file import load_arrays, save_arrays
from .batch import vmap
from .codegen.lazy import Lazy as _Lazy
from .config import config
from .debug import debug_print
from .explain import explain_grad
from .grad import grad, hvp, jvp, value_and_grad, vjp
from .inspection import __array_namespace_info__ as __array_namespace_info__
from .ir import Graph
from .jacobian import hessian, jacfwd, jacobian, jacrev, linearize
from .names import *  # noqa: F403
from .nn.activations import clip, leaky_relu, log_sigmoid, relu, silu
from .nn.functions import one_hot
from .nn.normalization import log_softmax, logsumexp, softmax
from .ops.arithmetic import (
    abs,
    add,
    astype,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    divide,
    equal,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    remainder,
    round,
    sign,
    stop_gradient,
    subtract,
    trunc,
    where,
)
from .ops.arrange import meshgrid, swapaxes, transpose, unstack
from .ops.assemble import concat, stack
from .ops.contract import matmul
from .ops.control import cond, fori_loop, switch, while_loop
from .ops.create import (
    arange,
    asarray,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    randn,
    tensor,
    zeros,
    zeros_like,
)
from .ops.cumulative import cumlogsumexp, cummax, cummin, cumprod, cumsum, cumulative_prod, cumulative_sum, diff
from .ops.custom import custom_jvp, custom_vjp
from .ops.elementary import (
    acosh,
    asinh,
    atanh,
    cbrt,
    deg2rad,
    hypot,
    logaddexp,
    logaddexp2,
    rad2deg,
    sinc,
)
from .ops.floats import (
    conj,
    copysign,
    fmax,
    fmin,
    fmod,
    heaviside,
    imag,
    nan_to_num,
    nextafter,
    real,
    signbit,
)
from .ops.index import gather, index_add, scatter_add, take, take_along_axis
from .ops.layout import (
    broadcast_to,
    expand_dims,
    flatten,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
)
from .ops.padding import pad
from .ops.products import dot, outer, tensordot, vecdot
from .ops.quantiles import median, percentile, quantile
from .ops.reduce import all, amax, amin, any, argmax, argmin, max, min, prod, sum
from .ops.remat import checkpoint
from .ops.scan import scan
from .ops.scatter import put_along_axis, scatter, scatter_reduce
from .ops.sort import argsort, searchsorted, sort, top_k
from .ops.special import (
    betaln,
    digamma,
    entr,
    erfinv,
    gammainc,
    gammaincc,
    i0,
    i0e,
    i1,
    i1e,
    lgamma,
    logit,
    polygamma,
    xlog1py,
    xlogy,
)
from .ops.statistics import mean, norm, std, var
from .ops.transcendental import (
    acos,
    asin,
    atan,
    atan2,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    gelu,
    log,
    log1p,
    log2,
    log10,
    pow,
    reciprocal,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    tan,
    tanh,
)
from .ops.updates import dynamic_index_in_dim, dynamic_slice, dynamic_update_slice
from .tensor import Tensor
from .trace import spec, trace
from .types import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

newaxis = None
bool = bool_
cat = concatenate = concat
clamp = clip
degrees = rad2deg
gammaln = lgamma
power = pow
radians = deg2rad
topk = top_k

if TYPE_CHECKING:
    from . import show
    from .api import compile
    from .exporting import export
    from .gradcheck import check_grads
    from .loading import load
    from .resident import Resident
    from .train import TrainStep

_LATE = {
    "Resident": _Lazy(".resident", __name__),
    "TrainStep": _Lazy(".train", __name__),
    "check_grads": _Lazy(".gradcheck", __name__),
    "compile": _Lazy(".api", __name__),
    "export": _Lazy(".exporting", __name__),
    "load": _Lazy(".loading", __name__),
}
"""What is imported when it is first used: evaluating and differentiating need no compiler."""


def __getattr__(name: str) -> _Any:
    if name == "show":
        return _import_module(".show", __name__)
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_LATE[name], name)
    return value


del TYPE_CHECKING

__all__ = [
    "Graph",
    "Resident",
    "Tensor",
    "TrainStep",
    "__version__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "betaln",
    "bfloat16",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "bool_",
    "broadcast_to",
    "cat",
    "cbrt",
    "ceil",
    "check_grads",
    "checkpoint",
    "clamp",
    "clip",
    "compile",
    "concat",
    "concatenate",
    "cond",
    "config",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "custom_jvp",
    "custom_vjp",
    "debug_print",
    "deg2rad",
    "degrees",
    "diff",
    "digamma",
    "divide",
    "dot",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_update_slice",
    "e",
    "entr",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "errors",
    "exp",
    "exp2",
    "expand_dims",
    "explain_grad",
    "expm1",
    "export",
    "eye",
    "flatten",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fori_loop",
    "full",
    "full_like",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gather",
    "gelu",
    "grad",
    "greater",
    "greater_equal",
    "heaviside",
    "hessian",
    "hvp",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "imag",
    "index_add",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isfinite",
    "isinf",
    "isnan",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "leaky_relu",
    "less",
    "less_equal",
    "lgamma",
    "linalg",
    "linearize",
    "linspace",
    "load",
    "load_arrays",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "nan_to_num",
    "negative",
    "newaxis",
    "nextafter",
    "nn",
    "norm",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "optim",
    "outer",
    "pad",
    "percentile",
    "permute_dims",
    "pi",
    "polygamma",
    "positive",
    "pow",
    "power",
    "prod",
    "put_along_axis",
    "quantile",
    "rad2deg",
    "radians",
    "randn",
    "random",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "reshape",
    "round",
    "rsqrt",
    "save_arrays",
    "scan",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "show",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "softmax",
    "softplus",
    "sort",
    "spec",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "switch",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensor",
    "tensordot",
    "top_k",
    "topk",
    "trace",
    "transpose",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unstack",
    "value_and_grad",
    "var",
    "vecdot",
    "vjp",
    "vmap",
    "where",
    "while_loop",
    "xlog1py",
    "xlogy",
    "zeros",
    "zeros_like",
]
__all__ += names.__all__

"""gtensor: NumPy-style Python traced into graphs, differentiated, and compiled ahead of time to readable C."""

from . import ops as _ops
from .config import config
from .grad import grad, hvp, jvp, value_and_grad, vjp
from .prim import FUNCTIONS as _FUNCTIONS
from .tensor import Tensor
from .trace import spec, trace
from .types import bool_, float32, float64, int32, int64, uint8

__version__ = "0.1.0"

globals().update(_FUNCTIONS)

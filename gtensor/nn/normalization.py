"""Functions of a whole row: softmax, log_softmax, logsumexp, layer_norm.

They subtract the row's largest element or its mean first, so that nothing overflows or cancels; the
largest element is a constant to the derivative, which does not depend on it. Compiled along the last axis
each is one loop over rows. Laws: NaN stays; a row of nothing but -inf has logsumexp -inf with gradient 0.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import DTypeError, OptionError, ShapeError
from ..ops.arithmetic import stop_gradient, where
from ..ops.reduce import Axis, max, sum
from ..ops.statistics import floating, mean
from ..ops.transcendental import exp, isfinite, log, reciprocal, rsqrt, square
from ..prim import public
from ..tensor import Tensor, apply, as_tensor
from ..types import Type, normalize_axes, show_shapes

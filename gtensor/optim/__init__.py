"""Optimizers as pairs of functions over pytrees, learning rates as functions of the step, and what combines them.

`init(params) -> state`, `update(params, grads, state) -> (params, state)`. The state is a plain tree that
lives where the caller keeps it. Laws: eager, traced and compiled steps are the same; nothing is changed in
place; dtypes are those of the parameters; a leaf whose gradient is None stays as it is.
"""

from .accumulation import accumulate
from .adaptive import adagrad, adam, adamw, rmsprop
from .averaging import Ema, ema
from .chaining import add_decayed_weights, chain, clip_by_global_norm, clip_by_value, global_norm
from .descent import lion, sgd
from .grouping import groups
from .optimizer import Optimizer, PerLeaf, Rule, State
from .schedules import (
    Schedule,
    constant,
    cosine_decay,
    exponential_decay,
    linear,
    one_cycle,
    piecewise,
    step_decay,
    warmup_cosine,
)

__all__ = [
    "Ema",
    "Optimizer",
    "PerLeaf",
    "Rule",
    "Schedule",
    "State",
    "accumulate",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "chain",
    "clip_by_global_norm",
    "clip_by_value",
    "constant",
    "cosine_decay",
    "ema",
    "exponential_decay",
    "global_norm",
    "groups",
    "linear",
    "lion",
    "one_cycle",
    "piecewise",
    "rmsprop",
    "sgd",
    "step_decay",
    "warmup_cosine",
]

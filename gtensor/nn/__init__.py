"""What neural networks are made of: activations, normalization, losses, layers, recurrent cells, initializers.

Names and keywords of functions are PyTorch's functional ones, but weights of `linear` are [in, out]. Layers and
cells are dataclasses of sizes whose parameters are the user's. Everything is composed of primitives, so it has
derivatives of every order and compiles to fused kernels. Law: nothing here overflows or cancels where its value
and its derivatives are finite.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

from ..codegen.lazy import Lazy as _Lazy
from ..ops.arithmetic import stop_gradient
from ..ops.transcendental import gelu, sigmoid, softplus, tanh
from . import initializers
from .activations import clip, leaky_relu, log_sigmoid, relu, silu
from .attention import multi_head_attention, scaled_dot_product_attention
from .channels import batch_norm, group_norm, instance_norm
from .convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from .distances import cdist, cosine_similarity, normalize, pairwise_distance
from .divergences import binary_cross_entropy, binary_cross_entropy_with_logits, kl_div
from .functions import dropout, embedding, linear, one_hot
from .gates import glu, mish, softmin, softsign, swiglu
from .likelihoods import gaussian_nll_loss, poisson_nll_loss
from .losses import cross_entropy, huber_loss, l1_loss, mse_loss, nll_loss, smooth_l1_loss
from .margins import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from .normalization import layer_norm, log_softmax, logsumexp, rms_norm, softmax
from .piecewise import (
    celu,
    elu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    prelu,
    relu6,
    selu,
    softshrink,
    threshold,
)
from .pixels import pixel_shuffle, pixel_unshuffle
from .pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from .resizing import interpolate, upsample
from .sampling import affine_grid, grid_sample

bce_with_logits = binary_cross_entropy_with_logits
logsigmoid = log_sigmoid

if TYPE_CHECKING:
    from .cells import GRU, LSTM, Cell, ClonedMemory, Elman, GatedMemory
    from .image_layers import AvgPool2d, BatchNorm, Conv1d, Conv2d, Conv3d, Flatten, GroupNorm, MaxPool2d
    from .layers import Dropout, Embedding, Layer, LayerNorm, Linear, MultiHeadAttention, RMSNorm, Sequential
    from .updaters import ClonedMemoryUpdater, GatedMemoryUpdater, Updater

_MODULES = (
    (_Lazy(".cells", __name__), "GRU LSTM Cell ClonedMemory Elman GatedMemory"),
    (_Lazy(".image_layers", __name__), "AvgPool2d BatchNorm Conv1d Conv2d Conv3d Flatten GroupNorm MaxPool2d"),
    (_Lazy(".layers", __name__), "Dropout Embedding Layer LayerNorm Linear MultiHeadAttention RMSNorm Sequential"),
    (_Lazy(".updaters", __name__), "ClonedMemoryUpdater GatedMemoryUpdater Updater"),
)
_LATE = {name: module for module, names in _MODULES for name in names.split()}
"""What is imported when it is first used: classes take ten times as long to make as functions."""


def __getattr__(name: str) -> _Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_LATE[name], name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


del TYPE_CHECKING

__all__ = [
    "GRU",
    "LSTM",
    "AvgPool2d",
    "BatchNorm",
    "Cell",
    "ClonedMemory",
    "ClonedMemoryUpdater",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "Dropout",
    "Elman",
    "Embedding",
    "Flatten",
    "GatedMemory",
    "GatedMemoryUpdater",
    "GroupNorm",
    "Layer",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "MultiHeadAttention",
    "RMSNorm",
    "Sequential",
    "Updater",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bce_with_logits",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "celu",
    "clip",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "initializers",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "logsigmoid",
    "logsumexp",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "multi_head_attention",
    "nll_loss",
    "normalize",
    "one_hot",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "stop_gradient",
    "swiglu",
    "tanh",
    "threshold",
    "triplet_margin_loss",
    "upsample",
]

"""What neural networks are made of, as functions: activations, normalization, layers, losses, initializers.

Names and keywords are PyTorch's functional ones, but weights of `linear` are [in, out]. Everything is
composed of primitives, so it has derivatives of every order and compiles to fused kernels. Law: nothing
here overflows or cancels where its value and its derivatives are finite.
"""

from ..ops.arithmetic import stop_gradient
from ..ops.transcendental import gelu, sigmoid, softplus, tanh
from . import initializers
from .activations import clip, leaky_relu, log_sigmoid, relu, silu
from .attention import scaled_dot_product_attention
from .divergences import binary_cross_entropy, binary_cross_entropy_with_logits, kl_div
from .functions import dropout, embedding, linear, one_hot
from .losses import cross_entropy, huber_loss, l1_loss, mse_loss, nll_loss, smooth_l1_loss
from .normalization import layer_norm, log_softmax, logsumexp, softmax

bce_with_logits = binary_cross_entropy_with_logits

__all__ = [
    "bce_with_logits",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "clip",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "huber_loss",
    "initializers",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "stop_gradient",
    "tanh",
]

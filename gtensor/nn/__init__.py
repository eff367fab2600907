"""What neural networks are made of, as functions: activations, normalization, layers, losses, initializers.

Names and keywords are PyTorch's functional ones, but weights of `linear` are [in, out]. Everything is
composed of primitives, so it has derivatives of every order and compiles to fused kernels. Law: nothing
here overflows or cancels where its value and its derivatives are finite.
"""

from ..ops.arithmetic import stop_gradient
from ..ops.transcendental import gelu, sigmoid, softplus, tanh
from . import initializers
from .activations import clip, leaky_relu, log_sigmoid, relu, silu
from .functions import dropout, embedding, linear, one_hot
from .losses import cross_entropy, huber_loss, mse_loss, nll_loss
from .normalization import layer_norm, log_softmax, logsumexp, softmax

__all__ = [
    "clip",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "huber_loss",
    "initializers",
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
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "stop_gradient",
    "tanh",
]

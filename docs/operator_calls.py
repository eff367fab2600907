"""How docs/operators.py calls each function, with which operands, and what the exact values are.

`CALLS` has what f(x) and f(x1, x2) do not call; `OPERANDS` makes the two operands of those that do not take matrices
[3, 3]; `REFERENCES` gives exact values in float64 where NumPy and SciPy have no function of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import gtensor as gt

Array = np.ndarray[Any, Any]


def key() -> gt.Tensor:
    """A key for random numbers."""
    return gt.random.key(0)


CALLS: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda f, x, y: f(x, x, y),
    "addcmul": lambda f, x, y: f(x, x, y),
    "addmm": lambda f, x, y: f(x, x, y),
    "append": lambda f, x, y: f(x, y),
    "arange": lambda f, x, y: f(5, dtype=x.dtype),
    "array_split": lambda f, x, y: f(x, 2),
    "asarray": lambda f, x, y: f(x),
    "astype": lambda f, x, y: f(x, gt.float64),
    "atleast_1d": lambda f, x, y: f(x),
    "atleast_2d": lambda f, x, y: f(x),
    "atleast_3d": lambda f, x, y: f(x),
    "bincount": lambda f, x, y: f(x[0], length=9),
    "block": lambda f, x, y: f([x, y]),
    "broadcast_arrays": lambda f, x, y: f(x, y),
    "broadcast_to": lambda f, x, y: f(x, (2, 3, 3)),
    "bucketize": lambda f, x, y: f(x, y[0]),
    "choose": lambda f, x, y: f([[0], [1], [1]], [x, y]),
    "chunk": lambda f, x, y: f(x, 2),
    "clip": lambda f, x, y: f(x, 0, y),
    "column_stack": lambda f, x, y: f([x, y]),
    "concat": lambda f, x, y: f([x, y]),
    "convolve": lambda f, x, y: f(x[0], y[0]),
    "correlate": lambda f, x, y: f(x[0], y[0]),
    "cumulative_prod": lambda f, x, y: f(x, axis=0),
    "cumulative_sum": lambda f, x, y: f(x, axis=0),
    "delete": lambda f, x, y: f(x, 1, 0),
    "digitize": lambda f, x, y: f(x, y[0]),
    "dsplit": lambda f, x, y: f(x[None], 3),
    "dstack": lambda f, x, y: f([x, y]),
    "dynamic_index_in_dim": lambda f, x, y: f(x, 1),
    "dynamic_slice": lambda f, x, y: f(x, (1, 0), (2, 2)),
    "dynamic_update_slice": lambda f, x, y: f(x, y[:2, :2], (1, 0)),
    "einsum": lambda f, x, y: f("ij,jk->ik", x, y),
    "empty": lambda f, x, y: f(3, dtype=x.dtype),
    "eye": lambda f, x, y: f(3, dtype=x.dtype),
    "full": lambda f, x, y: f(3, x[0, 0]),
    "full_like": lambda f, x, y: f(x, 1),
    "gather": lambda f, x, y: f(x, 1, [[1], [0], [2]]),
    "geomspace": lambda f, x, y: f(1, 8, 4, dtype=x.dtype),
    "hsplit": lambda f, x, y: f(x, 3),
    "hstack": lambda f, x, y: f([x, y]),
    "identity": lambda f, x, y: f(3, dtype=x.dtype),
    "index_add": lambda f, x, y: f(x, 0, [1, 1], y[:2]),
    "index_select": lambda f, x, y: f(x, 1, [2, 0]),
    "insert": lambda f, x, y: f(x, 1, y[0], 0),
    "interp": lambda f, x, y: f(x, [-1.0, 0.0, 1.0], [1.0, 0.0, 2.0]),
    "lerp": lambda f, x, y: f(x, y, 0.25),
    "linalg.lstsq": lambda f, x, y: f(x, y),
    "linalg.matrix_power": lambda f, x, y: f(x, 3),
    "linalg.solve_triangular": lambda f, x, y: f(x, y),
    "linspace": lambda f, x, y: f(0, 8, 3, dtype=x.dtype),
    "logspace": lambda f, x, y: f(0, 2, 3, dtype=x.dtype),
    "masked_fill": lambda f, x, y: f(x, y > 0.5, 2),
    "meshgrid": lambda f, x, y: f(x[0], y[0]),
    "moveaxis": lambda f, x, y: f(x, 0, 1),
    "narrow": lambda f, x, y: f(x, 1, 1, 2),
    "nn.adaptive_avg_pool1d": lambda f, x, y: f(x, 2),
    "nn.adaptive_avg_pool2d": lambda f, x, y: f(x, 2),
    "nn.adaptive_avg_pool3d": lambda f, x, y: f(x, 2),
    "nn.adaptive_max_pool1d": lambda f, x, y: f(x, 2),
    "nn.adaptive_max_pool2d": lambda f, x, y: f(x, 2),
    "nn.adaptive_max_pool3d": lambda f, x, y: f(x, 2),
    "nn.affine_grid": lambda f, x, y: f(x, (1, 1, 3, 4)),
    "nn.avg_pool1d": lambda f, x, y: f(x, 2),
    "nn.avg_pool2d": lambda f, x, y: f(x, 2),
    "nn.avg_pool3d": lambda f, x, y: f(x, 2),
    "nn.batch_norm": lambda f, x, y: f(x, {"mean": y[0], "var": y[1]}, training=True)[0],
    "nn.binary_cross_entropy": lambda f, x, y: f(x, y),
    "nn.binary_cross_entropy_with_logits": lambda f, x, y: f(x, y),
    "nn.conv1d": lambda f, x, y: f(x, y),
    "nn.conv2d": lambda f, x, y: f(x, y),
    "nn.conv3d": lambda f, x, y: f(x, y),
    "nn.conv_transpose1d": lambda f, x, y: f(x, y),
    "nn.conv_transpose2d": lambda f, x, y: f(x, y),
    "nn.conv_transpose3d": lambda f, x, y: f(x, y),
    "nn.cosine_embedding_loss": lambda f, x, y: f(x, y, [1, -1, 1]),
    "nn.cross_entropy": lambda f, x, y: f(x, [0, 2, 1]),
    "nn.dropout": lambda f, x, y: f(x, 0.5, key()),
    "nn.embedding": lambda f, x, y: f([2, 0], x),
    "nn.gaussian_nll_loss": lambda f, x, y: f(x, y, y),
    "nn.grid_sample": lambda f, x, y: f(x, y),
    "nn.group_norm": lambda f, x, y: f(x, 2),
    "nn.hinge_embedding_loss": lambda f, x, y: f(x, [[1, -1, 1]] * 3),
    "nn.huber_loss": lambda f, x, y: f(x, y),
    "nn.interpolate": lambda f, x, y: f(x, scale_factor=2, mode="linear"),
    "nn.kl_div": lambda f, x, y: f(x, y),
    "nn.l1_loss": lambda f, x, y: f(x, y),
    "nn.linear": lambda f, x, y: f(x, y),
    "nn.margin_ranking_loss": lambda f, x, y: f(x, y, 1),
    "nn.max_pool1d": lambda f, x, y: f(x, 2),
    "nn.max_pool2d": lambda f, x, y: f(x, 2),
    "nn.max_pool3d": lambda f, x, y: f(x, 2),
    "nn.mse_loss": lambda f, x, y: f(x, y),
    "nn.multi_head_attention": lambda f, x, y: f(x, y, y[:, :4], 2),
    "nn.nll_loss": lambda f, x, y: f(x, [0, 2, 1]),
    "nn.pixel_shuffle": lambda f, x, y: f(x, 2),
    "nn.pixel_unshuffle": lambda f, x, y: f(x, 2),
    "nn.poisson_nll_loss": lambda f, x, y: f(x, y),
    "nn.prelu": lambda f, x, y: f(x, y[0]),
    "nn.rms_norm": lambda f, x, y: f(x, eps=1e-5),
    "nn.scaled_dot_product_attention": lambda f, x, y: f(x, y, y),
    "nn.smooth_l1_loss": lambda f, x, y: f(x, y),
    "nn.soft_margin_loss": lambda f, x, y: f(x, [[1, -1, 1]] * 3),
    "nn.threshold": lambda f, x, y: f(x, 0.5, 2),
    "nn.triplet_margin_loss": lambda f, x, y: f(x, y, x[::-1]),
    "one_hot": lambda f, x, y: f(x, 9),
    "ones": lambda f, x, y: f(3, dtype=x.dtype),
    "pad": lambda f, x, y: f(x, 1),
    "percentile": lambda f, x, y: f(x, 40.0, axis=1),
    "permute_dims": lambda f, x, y: f(x, (1, 0)),
    "piecewise": lambda f, x, y: f(x, [x > 1], [x, y]),
    "polygamma": lambda f, x, y: f(2, x),
    "polyval": lambda f, x, y: f(x[0], y),
    "put_along_axis": lambda f, x, y: f(x, [[1], [0], [2]], y[:, :1]),
    "quantile": lambda f, x, y: f(x, 0.4, axis=1),
    "randn": lambda f, x, y: f(3, seed=0, dtype=x.dtype),
    "random.bernoulli": lambda f, x, y: f(key(), x),
    "random.bits": lambda f, x, y: f(key(), (3,)),
    "random.categorical": lambda f, x, y: f(key(), x),
    "random.choice": lambda f, x, y: f(key(), x, (2,)),
    "random.exponential": lambda f, x, y: f(key(), (3,), x.dtype),
    "random.fold_in": lambda f, x, y: f(key(), 1),
    "random.gumbel": lambda f, x, y: f(key(), (3,), x.dtype),
    "random.key": lambda f, x, y: f(0),
    "random.laplace": lambda f, x, y: f(key(), (3,), x.dtype),
    "random.normal": lambda f, x, y: f(key(), (3,), x.dtype),
    "random.permutation": lambda f, x, y: f(key(), x),
    "random.randint": lambda f, x, y: f(key(), (3,), 0, 9, x.dtype),
    "random.split": lambda f, x, y: f(key()),
    "random.truncated_normal": lambda f, x, y: f(key(), -1, 1, (3,), x.dtype),
    "random.uniform": lambda f, x, y: f(key(), (3,), x.dtype),
    "ravel_multi_index": lambda f, x, y: f((x, y), (9, 9)),
    "repeat": lambda f, x, y: f(x, 2),
    "reshape": lambda f, x, y: f(x, (9,)),
    "roll": lambda f, x, y: f(x, 1),
    "scatter": lambda f, x, y: f(x, 1, [[1], [0], [2]], y[:, :1]),
    "scatter_add": lambda f, x, y: f(x, 1, [[1], [0], [2]], y[:, :1]),
    "scatter_reduce": lambda f, x, y: f(x, 1, [[1], [0], [2]], y[:, :1], "sum"),
    "select": lambda f, x, y: f([x > 1], [x], y),
    "split": lambda f, x, y: f(x, 3),
    "stack": lambda f, x, y: f([x, y]),
    "swapaxes": lambda f, x, y: f(x, 0, 1),
    "take": lambda f, x, y: f(x, [1, 0], axis=0),
    "take_along_axis": lambda f, x, y: f(x, [[1], [0], [2]]),
    "tensor": lambda f, x, y: f(x),
    "tile": lambda f, x, y: f(x, 2),
    "top_k": lambda f, x, y: f(x, 2),
    "tri": lambda f, x, y: f(3, dtype=x.dtype),
    "unflatten": lambda f, x, y: f(x, 1, (1, 3)),
    "unravel_index": lambda f, x, y: f(x, (9, 9)),
    "vander": lambda f, x, y: f(x[0]),
    "vsplit": lambda f, x, y: f(x, 3),
    "vstack": lambda f, x, y: f([x, y]),
    "where": lambda f, x, y: f(x > 1, x, y),
    "zeros": lambda f, x, y: f(3, dtype=x.dtype),
}
"""How a function is called with two operands of one dtype, where neither f(x) nor f(x1, x2) does."""


def sizes(x: tuple[int, ...], y: tuple[int, ...] = ()) -> Callable[[np.random.Generator], tuple[Array, Array]]:
    """Operands of these shapes, of numbers between 0 and 1."""
    return lambda rng: (rng.uniform(0.05, 0.95, x), rng.uniform(0.05, 0.95, y))


def definite(rng: np.random.Generator) -> tuple[Array, Array]:
    """A symmetric matrix far from singular, and another one; rounded to integers they are so too."""
    x = rng.uniform(0.05, 0.95, (3, 3))
    return x + x.T + np.diag([3, 6, 9]), rng.uniform(0.05, 0.95, (3, 3))


def regular(rng: np.random.Generator) -> tuple[Array, Array]:
    """A matrix far from singular, and any other one."""
    return rng.uniform(0.05, 0.95, (3, 3)) + np.diag([2, 4, 6]), rng.uniform(0.05, 0.95, (3, 3))


matrices = sizes((3, 3), (3, 3))

OPERANDS: dict[str, Callable[[np.random.Generator], tuple[Array, Array]]] = {
    "acosh": lambda rng: (rng.uniform(1.05, 3.95, (3, 3)), np.zeros(())),
    **dict.fromkeys(("linalg.cholesky", "linalg.eigh", "linalg.eigvalsh"), definite),
    **dict.fromkeys(
        [
            "linalg.cond", "linalg.det", "linalg.inv", "linalg.matrix_rank", "linalg.pinv",
            "linalg.qr", "linalg.slogdet", "linalg.solve", "linalg.solve_triangular", "linalg.svd", "linalg.svdvals",
        ],
        regular,
    ),
    "linalg.lstsq": sizes((5, 3), (5, 2)),
    **{f"nn.{n}1d": sizes((1, 2, 6)) for n in ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool")},
    **{f"nn.{n}2d": sizes((1, 2, 6, 6)) for n in ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool")},
    **{f"nn.{n}3d": sizes((1, 2, 4, 4, 4)) for n in ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool")},
    "nn.affine_grid": sizes((1, 2, 3)),
    "nn.conv1d": sizes((1, 2, 6), (3, 2, 2)),
    "nn.conv2d": sizes((1, 2, 5, 5), (3, 2, 2, 2)),
    "nn.conv3d": sizes((1, 2, 3, 3, 3), (2, 2, 2, 2, 2)),
    "nn.conv_transpose1d": sizes((1, 2, 4), (2, 3, 2)),
    "nn.conv_transpose2d": sizes((1, 2, 3, 3), (2, 3, 2, 2)),
    "nn.conv_transpose3d": sizes((1, 2, 2, 2, 2), (2, 2, 2, 2, 2)),
    "nn.glu": sizes((3, 4)),
    "nn.grid_sample": sizes((1, 2, 4, 5), (1, 3, 4, 2)),
    "nn.group_norm": sizes((2, 4, 3)),
    "nn.instance_norm": sizes((2, 3, 4)),
    "nn.interpolate": sizes((1, 2, 4)),
    "nn.multi_head_attention": sizes((3, 4), (4, 12)),
    "nn.pixel_shuffle": sizes((1, 4, 2, 2)),
    "nn.pixel_unshuffle": sizes((1, 1, 4, 4)),
    "nn.swiglu": sizes((3, 4)),
}  # fmt: skip
"""Operands of the functions that do not take matrices [3, 3] of numbers between 0 and 1."""


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


REFERENCES: dict[str, Callable[..., Array]] = {
    "betaln": special.betaln,
    "erf": special.erf,
    "gelu": lambda x, y: x * special.ndtr(x),
    "i0": special.i0,
    "lgamma": special.gammaln,
    "log_sigmoid": special.log_expit,
    "nextafter": lambda x, y: np.nextafter(x.astype(np.float32), y.astype(np.float32)),
    "pow": np.power,
    "polygamma": lambda x, y: special.polygamma(2, x),
    "rsqrt": lambda x, y: 1 / np.sqrt(x),
    "sigmoid": special.expit,
    "silu": lambda x, y: x * special.expit(x),
    "softplus": lambda x, y: _softplus(x),
    "nn.celu": lambda x, y: _elu(x),
    "nn.elu": lambda x, y: _elu(x),
    "nn.mish": lambda x, y: x * np.tanh(_softplus(x)),
    "nn.selu": lambda x, y: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "nn.softsign": lambda x, y: x / (1 + np.abs(x)),
}
"""Exact values of elementwise functions of float64 arrays x and y, by formulas of their own."""

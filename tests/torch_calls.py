"""The lines of docs/coming-from.md for PyTorch users as calls: PyTorch's and gtensor's text, and their operands.

Names that are the same in both have their arguments here; the lines of the table are calls themselves.
tests/reference/torch_names.json holds what PyTorch gives, tests/test_coming_from.py compares.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "docs" / "coming-from.md"


def _f32(data):
    return np.asarray(data, np.float32)


OPERANDS: dict[str, np.ndarray] = {
    "x": _f32([[0.5, -1.25, 2.0], [-0.75, 1.5, 0.25]]),
    "y": _f32([[1.5, 0.5, -0.25], [2.0, 1.5, -1.0]]),
    "z": _f32([[0.5, 1.0], [-1.0, 2.0], [0.25, 1.5]]),
    "m": np.array([[True, False, True], [False, True, True]]),
    "v": _f32([0.5, 1.5, 1.0]),
    "w": _f32([2.0, 0.25, 1.0]),
    "a": _f32([[4.0, 1.0, 0.5], [0.0, 3.0, 1.0], [0.0, 0.0, 2.0]]),
    "i": np.array([2, 0, 1]),
    "p": _f32((np.arange(32) % 7).reshape(1, 2, 4, 4)),
    "u": _f32([[0.2, 0.5, 0.3], [0.9, 0.4, 0.6]]),
    "s": _f32([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]),
    "t": _f32(np.arange(12).reshape(2, 3, 2) / 4 - 1),
    "j": np.array([[2, 0, 1], [1, 0, 2]]),
    "k": _f32(np.arange(16).reshape(2, 2, 2, 2) / 8 - 1),
    "e": _f32([[1, -1, -1], [1, 1, -1]]),
    "b": _f32([-1.0, 0.25, 1.5]),
}
"""Those that the page describes, and below them some more."""

SAME = {
    "torch": """
abs(x) | absolute(x) | acos(u) | acosh(u + 1) | add(x, y) | addcdiv(x, y, u, value=2) | addcmul(x, y, u, value=2)
addmm(a[:2, :2], x, z, beta=2, alpha=3) | addmv(v[:2], x, w) | all(m, 1) | allclose(x, y) | amax(x, 1) | amin(x, 1)
any(m, 1) | arange(1, 7, 2) | arccos(u) | arccosh(u + 1) | arcsin(u) | arcsinh(x) | arctan(x) | arctan2(x, y)
arctanh(u) | argmax(x, 1) | argmin(x, 1) | argsort(x, 1) | argwhere(m) | asarray(x) | asin(u) | asinh(x) | atan(x)
atan2(x, y) | atanh(u) | atleast_1d(v[0]) | atleast_2d(v) | atleast_3d(v) | baddbmm(t[:, :2], t[:, :2], t[:, :2])
bincount(i) | bitwise_and(i, 1) | bitwise_left_shift(i, 2) | bitwise_not(i) | bitwise_or(i, 1)
bitwise_right_shift(i, 1) | bitwise_xor(i, 3) | bmm(t, t[:, :2]) | broadcast_to(v, (2, 3)) | bucketize(x, b)
cat([x, y], 1) | cdist(x, y) | ceil(x) | chunk(v, 2)[1] | clamp(x, -1, 1) | clip(x, -1, 1) | column_stack([v, w])
concat([x, y], 0) | concatenate([x, y], 1) | conj(x) | copysign(x, y) | cos(x) | cosh(x) | count_nonzero(m, 1)
cross(x, y) | cumprod(x, 1) | cumsum(x, 1) | deg2rad(x) | diag(v, 1) | diag_embed(x) | diagflat(z) | diagonal(a, 1)
diff(x, 1, 0) | digamma(u) | div(x, y) | divide(x, y) | dot(v, w) | dsplit(t, 2)[1] | dstack([x, y])
einsum("ij,jk->ik", x, z) | empty_like(x).shape | eq(x, y) | erf(x) | erfc(x) | erfinv(u) | exp(x) | exp2(x)
expm1(x) | eye(2, 3) | fix(x) | flatten(t, 1) | flip(x, (0,)) | fliplr(x) | flipud(x) | floor(x) | floor_divide(x, y)
fmax(x, y) | fmin(x, y) | fmod(x, y) | frac(x) | from_dlpack(x) | full((2, 3), 7.0) | full_like(x, 7.0)
gather(x, 1, j) | ge(x, y) | greater(x, y) | greater_equal(x, y) | gt(x, y) | heaviside(x, y) | hsplit(a, 3)[1]
hstack([x, y]) | hypot(x, y) | i0(x) | index_add(x, 1, i, y) | index_select(x, 1, i) | inner(x, y) | isclose(x, y)
isfinite(x / 0) | isinf(x / 0) | isnan(x) | kron(v, w) | le(x, y) | lerp(x, y, 0.25) | less(x, y) | less_equal(x, y)
lgamma(u) | linspace(0, 1, 5) | log(u) | log10(u) | log1p(u) | log2(u) | log_softmax(x, 1) | logaddexp(x, y)
logaddexp2(x, y) | logcumsumexp(x, 1) | logical_and(m, x) | logical_not(m) | logical_or(m, x) | logical_xor(m, x)
logit(u) | logspace(0, 2, 3) | logsumexp(x, 1) | lt(x, y) | masked_fill(x, m, 7.0) | matmul(x, z) | maximum(x, y)
mean(x, 1) | minimum(x, y) | mm(x, z) | moveaxis(t, 0, 2) | movedim(t, 0, 2) | mul(x, y) | multiply(x, y) | mv(x, v)
nan_to_num(x / 0) | nanmean(x, 1) | nansum(x, 1) | narrow(x, 1, 1, 2) | ne(x, y) | neg(x) | negative(x)
nextafter(x, y) | not_equal(x, y) | ones((2, 3)) | ones_like(x) | outer(v, w) | permute(t, (2, 0, 1))
polygamma(1, u) | positive(x) | pow(u, y) | prod(x, 1) | quantile(x, 0.3, 1) | rad2deg(x) | ravel(x) | real(x)
reciprocal(x) | relu(x) | remainder(x, y) | repeat_interleave(x, 2, 1) | reshape(x, (3, 2)) | roll(x, 1, 1) | rot90(x)
round(x) | rsqrt(u) | scatter(x, 1, j, y) | scatter_add(x, 1, j, y) | scatter_reduce(x, 1, j, y, "amax")
searchsorted(b, x) | sigmoid(x) | sign(x) | signbit(x) | sin(x) | sinc(x) | sinh(x) | softmax(x, 1) | sqrt(u)
square(x) | squeeze(p, 0) | stack([x, y], 1) | sub(x, y) | subtract(x, y) | sum(x, 1) | swapaxes(t, 0, 2)
swapdims(t, 0, 2) | take(x, i) | take_along_dim(x, j, 1) | tan(x) | tanh(x) | tensor([1.0, 2.0]) | tensordot(x, z, 1)
tile(x, (2, 1)) | topk(x, 2, 1)[0] | trapezoid(x) | tril(a, 1) | triu(s, 1) | true_divide(x, y) | trunc(x)
unbind(x, 1)[1] | unflatten(p, 3, (2, 2)) | unique(j) | unravel_index(i, (2, 2))[1] | unsqueeze(x, 1) | vander(v, 2)
vdot(v, w) | vsplit(x, 2)[1] | vstack([x, y]) | where(m, x, y) | xlogy(u, u) | zeros((2, 3)) | zeros_like(x)
""",
    "F": """
adaptive_avg_pool1d(p[0], 2) | adaptive_avg_pool2d(p, 3) | adaptive_avg_pool3d(p[None], (1, 2, 3))
adaptive_max_pool1d(p[0], 3) | adaptive_max_pool2d(p, 2) | adaptive_max_pool3d(p[None], (1, 2, 3))
affine_grid(x[None], (1, 1, 2, 3)) | avg_pool1d(p[0], 3, 2, 1, True) | avg_pool2d(p, 3, 2, 1, True, False)
avg_pool3d(p, 2) | binary_cross_entropy(u, u) | binary_cross_entropy_with_logits(x, u) | celu(x, 2.0)
conv1d(p[:, 0], k[:, :, 0].reshape(1, 4, 2)) | conv2d(p, k, v[:2]) | conv3d(p[:, None], k[None, :1])
conv_transpose1d(p[:, :, 0], k[:, :, 0]) | conv_transpose2d(p, k) | conv_transpose3d(p[:, None], k[:1, None])
cosine_embedding_loss(x, y, e[0, :2]) | cosine_similarity(x, y) | cross_entropy(x, i[:2]) | elu(x, 0.5)
embedding(i[1:], x) | gaussian_nll_loss(x, y, u) | gelu(x) | glu(t) | grid_sample(p, k[:1], "bicubic", "reflection")
group_norm(p, 2, v[:2], w[:2]) | hardshrink(x) | hardsigmoid(x) | hardswish(x) | hardtanh(x, -0.5, 1.0)
hinge_embedding_loss(u, e) | huber_loss(x, y) | interpolate(p, size=(2, 3)) | kl_div(x, u) | l1_loss(x, y)
leaky_relu(x, 0.1) | log_softmax(x, 1) | logsigmoid(x) | margin_ranking_loss(x, y, e, 0.5) | max_pool1d(p[0], 2)
max_pool2d(p, 3, 2, 1, 1, True, True) | max_pool3d(p, 2) | mish(x) | mse_loss(x, y) | nll_loss(x, i[:2])
normalize(x) | pairwise_distance(x, y) | pixel_shuffle(p.reshape(1, 8, 2, 2), 2) | pixel_unshuffle(p, 2)
poisson_nll_loss(x, u) | prelu(p - 3, v[:2]) | relu(x) | relu6(4 * x) | scaled_dot_product_attention(t, t, t)
selu(x) | sigmoid(x) | silu(x) | smooth_l1_loss(x, y) | soft_margin_loss(x, e) | softmax(x, 1) | softmin(x, 1)
softplus(x) | softshrink(x) | softsign(x) | tanh(x) | threshold(x, 0.4, -3.0) | triplet_margin_loss(x, y, u)
""",
    "torch.linalg": """
cholesky(s) | cond(s) | cross(x, y) | det(a) | diagonal(a) | eigh(s)[0] | eigvalsh(s) | inv(a) | matmul(x, z)
matrix_norm(x) | matrix_power(a, 3) | matrix_rank(x) | norm(x) | pinv(x) | qr(x)[1].abs() | slogdet(a)[1]
solve(a, z) | svd(x)[1] | svdvals(x) | vecdot(x, y)
""",
    "torch.special": """
entr(u) | gammainc(u, u) | gammaincc(u, u) | gammaln(u) | i0e(x) | i1(x) | i1e(x) | xlog1py(u, u)
""",
}
"""Module of PyTorch -> calls of the names that its list on the page has."""

HOMES = {"torch": "gt", "F": "gt.nn", "torch.linalg": "gt.linalg", "torch.special": "gt"}


def page() -> str:
    """The part of the page for PyTorch users."""
    return PAGE.read_text(encoding="utf-8").partition("## From PyTorch")[2].partition("\n## ")[0]


def listed() -> dict[str, list[str]]:
    """Module of PyTorch -> the names that the page says are the same."""
    found = re.findall(r"^- \*\*`([\w.]+)`, here `gt(?:\.\w+)?`\*\*:(.*(?:\n  .*)*)", page(), re.MULTILINE)
    return {home: re.findall(r"`([\w.]+)`", names) for home, names in found}


def table() -> list[tuple[str, str]]:
    """The first two cells of each line of the table."""
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page(), re.MULTILINE)


def calls() -> dict[str, str]:
    """PyTorch's text -> gtensor's, of every name and line of the page."""
    same = {
        f"{home}.{call.strip()}": f"{HOMES[home]}.{call.strip()}"
        for home, texts in SAME.items()
        for line in texts.strip().splitlines()
        for call in line.split(" | ")
    }
    return same | dict(table())

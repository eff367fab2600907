"""Calls of all public functions of floats, as text: what tests of derivatives and of batches go through.

`CALLS` holds one text a call; its names are the functions of `gt`, `gt.nn` and `gt.linalg` and the operands of
`OPERANDS`, which are float64, lie apart from each other and from kinks, and are the arguments of the call. Numbers
that have no derivative (indices, labels, masks, keys) are in `CONSTANTS`. `METHODS` are the same for Tensor methods,
`WITHOUT` says for each other public name why it has no call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import gtensor as gt

RNG = np.random.default_rng(17)
WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def spaced(shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, offset: float = 0.031) -> np.ndarray:
    """Numbers in a random order that are at least a step apart, from each other and from the integers and halves."""
    count = int(np.prod(shape, dtype=int))
    numbers = np.linspace(low, high, count + 2)[1:-1] + offset
    near = np.abs(2 * numbers - np.round(2 * numbers)) < 0.02
    return RNG.permutation(numbers + 0.013 * near).reshape(shape)


def definite(*shape: int) -> np.ndarray:
    """Symmetric positive matrices whose eigenvalues lie apart."""
    u, _, _ = np.linalg.svd(RNG.standard_normal(shape))
    return u * np.arange(1.0, shape[-1] + 1) @ np.swapaxes(u, -1, -2)


def spread(*shape: int) -> np.ndarray:
    """Matrices with the singular values 1, 2, … ."""
    u, _, v = np.linalg.svd(RNG.standard_normal(shape), full_matrices=False)
    return u * np.arange(1.0, u.shape[-1] + 1) @ v


OPERANDS: dict[str, np.ndarray] = {
    "s": np.array(0.731), "v": spaced((3,)), "w": spaced((3,), offset=0.087), "m": spaced((2, 3)),
    "n": spaced((2, 3), offset=0.113), "t": spaced((2, 2, 3)), "o": spaced((2, 1)), "r": spaced((1, 3), offset=0.157),
    "long": spaced((5,)), "p": spaced((2, 3), 0.1, 0.9, 0.004), "c": spaced((3,), 0.1, 0.9, 0.013),
    "big": spaced((2, 3), 1.2, 4.0), "wide": spaced((2, 4), -2.5, 2.5), "h": np.where([[0, 0, 1], [1, 0, 0]], np.nan,
    spaced((2, 3))), "sq": spread(3, 3), "sqs": spread(2, 2, 2), "tall": spread(3, 2), "pos": definite(3, 3),
    "poss": definite(2, 2, 2), "sig": spaced((1, 2, 6)), "ker": spaced((2, 2, 3)), "img": spaced((1, 2, 4, 5)),
    "pat": spaced((2, 1, 2, 3)), "vol": spaced((1, 1, 3, 3, 2)), "cub": spaced((1, 1, 2, 2, 2)),
    "two": spaced((2,), offset=0.2), "rows": spaced((4, 2)), "qkv": spaced((2, 6)), "mix": spaced((2, 2)),
}  # fmt: skip
"""What is differentiated: names with their values."""

CONSTANTS: dict[str, Any] = {
    "I": np.array([2, 0, 2]), "J": np.array([1, 0, 1]), "II": np.array([[2, 0], [1, 1]]), "L": np.array([2, 0]),
    "LL": np.array([[0, 1, 1], [1, 0, 1]]), "SKIP": np.array([2, -100]), "KEY": gt.random.key(3), "AT": np.array(1),
    "SIGNS": np.array([1.0, -1.0]), "MASK": np.array([[True, False, True], [False, True, True]]),
    "P": np.array([0.5, -1.0, 2.0]), "INF": np.inf,
    "STATE": {"mean": np.array([0.1, -0.2]), "var": np.array([1.5, 0.7])}, "tanh": gt.tanh,
}  # fmt: skip


def each(names: str, *calls: str) -> list[str]:
    """Calls of several functions in the same ways."""
    return [call.replace("_", name, 1) for name in names.split() for call in calls]


UNARY = """
abs absolute arctan asinh atan cbrt ceil conj cos cosh deg2rad degrees erf erfc exp exp2 expm1 fix floor gelu i0 i0e
i1 i1e imag leaky_relu log_sigmoid nan_to_num neg negative positive rad2deg radians real reciprocal relu rint round
sigmoid sign silu sin sinc sinh softplus square tanh trunc asarray nn.celu nn.elu nn.gelu nn.hardsigmoid nn.hardswish
nn.hardtanh nn.leaky_relu nn.log_sigmoid nn.logsigmoid nn.mish nn.relu nn.relu6 nn.selu nn.sigmoid nn.silu nn.softplus
nn.softsign nn.tanh
"""
POSITIVE = "acos arccos arcsin asin atanh digamma entr erfinv gammaln lgamma log log10 log1p log2 logit rsqrt sqrt tan"
BINARY = """
add arctan2 atan2 copysign div divide floor_divide fmax fmin fmod heaviside hypot logaddexp logaddexp2 maximum minimum
mod mul multiply remainder sub subtract true_divide
"""
FOLDS = """
amax amin logsumexp max mean median min nanmax nanmean nanmin nanprod nanstd nansum nanvar norm prod ptp std sum var
nn.logsumexp linalg.vector_norm
"""
LINES = "cumlogsumexp cummax cummin cumprod cumsum"
ROWS = "log_softmax softmax sort nn.log_softmax nn.softmax nn.softmin"

CALLS = [
    *each(UNARY, "_(m)", "_(s)", "_(3 * o)"),
    *each(POSITIVE, "_(p)", "_(c[:, None])"),
    *each("acosh arccosh", "_(big)", "_(1.5 + c)"),
    *each("arcsinh", "_(m)"),
    *each("arctanh", "_(p)"),
    *each(BINARY, "_(m, n)", "_(m, w)", "_(o, r)", "_(s, m)", "_(t, m)", "_(m, 1.5)", "_(2.5, m)"),
    *each("pow power", "_(p, n)", "_(p, w)", "_(s, r)", "_(m, 3)", "_(m, 2.0)", "_(2.0, m)", "_(p, -0.5)", "_(big, o)"),
    *each("betaln", "_(p, big)", "_(c, s)"),
    *each("xlogy xlog1py", "_(m, p)", "_(w, p)", "_(s, c)"),
    *each("gammainc gammaincc", "_(2.5, p)", "_(P[2], c)"),
    *each("polygamma", "_(1, p)", "_(2, c)"),
    *each(FOLDS, "_(m)", "_(m, axis=0)", "_(t, axis=(0, 2))", "_(t, axis=-1, keepdims=True)", "_(s[None])"),
    *each("nanmax nanmean nanmin nanprod nanstd nansum nanvar", "_(h)", "_(h, axis=1)", "_(h, axis=0, keepdims=True)"),
    *each("std var nanstd nanvar", "_(m, axis=1, correction=1)"),
    *each("cumlogsumexp logcumsumexp cummax cummin cumprod cumsum", "_(m)", "_(m, axis=0)"),
    *each("cumlogsumexp cummax cummin cumprod cumsum", "_(t, axis=-1, reverse=True)"),
    *each("cumulative_sum cumulative_prod", "_(v)", "_(m, axis=1, include_initial=True)"),
    *each(ROWS, "_(m)", "_(t, axis=1)", "_(v, axis=0)"),
    *each("array_split chunk split", "_(long[:4], 2)", "_(m, 1, axis=1)"),
    *each("bmm", "_(t, sqs[:, :, [0, 1, 0]].mT)"),
    *each("mm", "_(m, sq)"),
    *each("mv", "_(m, v)"),
    *each("movedim", "_(t, 0, 2)"),
    *each("swapdims", "_(t, 0, 2)"),
    *each("repeat_interleave", "_(m, 2, axis=1)"),
    *each("take_along_dim", "_(m, II)"),
    *each("cdist nn.cdist", "_(m, sq)", "_(t, sq, 1.0)", "_(m, sq, 3.0)"),
    *each("concat concatenate cat", "_([m, n])", "_([m, o, t[0]], axis=1)", "_([m, s[None, None]], axis=None)"),
    *each("vstack hstack dstack", "_([m, n])", "_([v, w])", "_([s, s])"),
    *each("matmul linalg.matmul", "_(m, sq)", "_(v, sq)", "_(t, sq)", "_(m, v)", "_(v, w)",
          "_(t[:, :, :2], (mix @ m)[None])"),
    *each("outer linalg.outer", "_(v, two)"),
    *each("cross linalg.cross", "_(v, w)", "_(m, w)", "_(sq, v[:, None], axis=0)"),
    *each("tensordot linalg.tensordot", "_(m, n)", "_(t, m, axes=((0, 2), (0, 1)))", "_(m, v, axes=1)",
          "_(v, w, axes=0)"),
    *each("vecdot linalg.vecdot", "_(m, w)", "_(t, m)", "_(m, n, axis=0)"),
    *each("matrix_transpose linalg.matrix_transpose", "_(m)", "_(t)"),
    *each("permute permute_dims", "_(t, (2, 0, 1))"),
    *each("expand_dims unsqueeze", "_(m, 1)", "_(v, -1)"),
    *each("clip clamp nn.clip", "_(m, -0.6, 0.8)", "_(m, o, 2.5)", "_(m, min=w)", "_(v, None, s)"),
    *each("topk top_k", "_(long, 2)", "_(m, 2, axis=0)", "_(t, 1, largest=False)"),
    *each("array", "_(m)"),
    *each("diagonal linalg.diagonal", "_(t)", "_(sq, offset=1)"),
    *each("nn.l1_loss nn.mse_loss nn.huber_loss nn.smooth_l1_loss", "_(m, n)", "_(m, n, 'none')", "_(3 * v, w, 'sum')"),
    *each("nn.max_pool1d nn.avg_pool1d", "_(sig, 2)", "_(sig[0], 3, 1, 1)", "_(long[None], 2, 2)"),
    *each("nn.max_pool2d nn.avg_pool2d", "_(img, 2)", "_(img, (2, 3), (1, 2), (1, 0))"),
    *each("nn.max_pool3d nn.avg_pool3d", "_(vol, 2)", "_(vol, (2, 1, 2), 1, (1, 0, 0))"),
    *each("nn.adaptive_avg_pool1d nn.adaptive_max_pool1d", "_(sig, 4)", "_(sig[0], 1)"),
    *each("nn.adaptive_avg_pool2d nn.adaptive_max_pool2d", "_(img, (3, 2))", "_(img, 1)"),
    *each("nn.adaptive_avg_pool3d nn.adaptive_max_pool3d", "_(vol, (2, 3, 1))"),
    *each("nn.interpolate nn.upsample", "_(sig, 4)", "_(img, (6, 3), mode='bilinear')",
          "_(img, scale_factor=2, mode='bilinear', align_corners=True)"),
    *each("nn.binary_cross_entropy_with_logits nn.bce_with_logits",
          "_(m, p)", "_(m, p, c, 'sum')", "_(m, p, pos_weight=big)"),
    *each("nn.conv1d", "_(sig, ker)", "_(sig, ker, two, 2, 1)", "_(sig[0], ker[:, :1], None, 1, 2, 2, 2)"),
    *each("nn.conv2d", "_(img, pat[:, :, :, :2], two, (1, 2), 1, 1, 2)", "_(img[:, :1], pat, None, 1, 'same')"),
    *each("nn.conv3d", "_(vol, cub)", "_(vol, cub[..., :1], s[None], 2, (1, 0, 0))"),
    *each("nn.conv_transpose1d", "_(sig[..., :3], ker)", "_(sig[0, :, :3], ker, two, 2, 1, 1)"),
    *each("nn.conv_transpose2d", "_(img[..., :2, :3], pat, None, (2, 1), 1)"),
    *each("nn.conv_transpose3d", "_(vol[..., :2, :], cub, s[None], 2)"),
    *each("linalg.norm", "_(sq)", "_(m, axis=1)", "_(m, 3, 0, True)", "_(sq, 'nuc')", "_(sqs, 2, (1, 2))"),
    *"""
addcdiv(m, n, big) | addcdiv(m, 1.0, big, value=s) | addcmul(m, n, w, value=0.5) | addmm(m, n, sq)
addmm(r, m, sq, beta=0.5, alpha=s) | addmv(two, m, v) | baddbmm(sqs, poss, mix[None] + sqs, beta=2.0) | diag_embed(m)
diag_embed(v, 1) | frac(m) | index_select(m, 1, I) | lerp(m, n, 0.3) | lerp(m, n, p) | masked_fill(m, MASK, s)
narrow(m, 1, 1, 2) | unbind(t, 1) | unflatten(m, 1, (3, 1)) | nn.affine_grid(t, (2, 1, 2, 3))
nn.cosine_embedding_loss(m, n, SIGNS) | nn.cosine_similarity(m, n) | nn.cosine_similarity(t, m, axis=-1)
nn.gaussian_nll_loss(m, n, p) | nn.gaussian_nll_loss(m, n, p, full=True, reduction='sum')
nn.grid_sample(img, reshape(rows, (1, 2, 2, 2)) / 3)
nn.grid_sample(img, reshape(rows, (1, 2, 2, 2)), padding_mode='border', align_corners=True) | nn.hardshrink(m)
nn.softshrink(m, 0.3) | nn.hinge_embedding_loss(m, 2.0 * MASK - 1.0)
nn.margin_ranking_loss(two, rows[0], SIGNS, 0.2) | nn.normalize(m) | nn.normalize(t, 1.0, -1)
nn.pairwise_distance(m, n) | nn.pairwise_distance(m, v, 1.0, keepdims=True)
nn.pixel_shuffle(reshape(img, (1, 4, 2, 5)), 2) | nn.pixel_unshuffle(img[..., :4], 2) | nn.poisson_nll_loss(m, p)
nn.poisson_nll_loss(p, big, log_input=False, full=True) | nn.soft_margin_loss(m, 2.0 * MASK - 1.0)
nn.triplet_margin_loss(m, n, t[0]) | nn.triplet_margin_loss(m, n, t[0], swap=True, p=1.0) | append(m, n)
append(m, o, axis=1) | astype(m, 'float64') | atleast_1d(s) | atleast_1d(s, m) | atleast_2d(v) | atleast_3d(v, m)
average(m) | average(m, 1, p[0]) | average(m, weights=p) | average(t, (0, 2), returned=True)
bincount(J, w, length=3) | block([[m, o], [r, s]]) | broadcast_arrays(o, r, s) | broadcast_to(o, (2, 2, 3))
choose(J, [m, r, s]) | choose(J + 5, [v, w], mode='wrap') | column_stack([v, w]) | column_stack([two, m])
convolve(long, v) | convolve(v, long, 'same') | convolve(long, w, 'valid') | correlate(long, v)
correlate(long, w, 'full') | delete(long, 1) | delete(m, [0, 2], axis=1) | diag(v) | diag(v, -1) | diag(sq, 1)
diagflat(m) | diff(long) | diff(m, 2, axis=1) | diff(v, prepend=s) | diff(m, axis=0, append=r) | dot(v, w) | dot(m, w)
dot(sq, sq) | dsplit(t, [1]) | hsplit(m, [2]) | vsplit(m, 2) | dynamic_index_in_dim(m, AT, 1)
dynamic_slice(m, (AT, AT), (1, 2)) | dynamic_update_slice(m, o, (AT, AT)) | einsum('ij,jk->ik', m, sq)
einsum('ij,ij->', m, n) | einsum('ii->i', sq) | einsum('bij,jk,k->bi', t, sq, v) | einsum('ij->ji', m)
einsum('...j,j', t, v) | einsum('i,j', v, w) | flatten(t, 1) | flatten(s) | flip(m) | flip(t, axis=(0, 2)) | fliplr(m)
flipud(m) | full_like(m, s) | full((2, 2), s) | gather(m, 1, II) | gradient(long) | gradient(m, axis=1)
gradient(m, 2.0, 0.5) | gradient(v, c, edge_order=2) | gradient(v, s) | histogram(P, 2, weights=w)
histogram(P, [-2.0, 0.0, 1.0, 3.0], weights=v, density=True) | index_add(m, 1, J, n) | inner(m, v) | inner(m, n)
insert(m, 1, w, axis=0) | insert(long, [1, 3], two) | insert(v, 1, s) | interp(long, P[[1, 0, 2]], v)
interp(p, P[[1, 0, 2]], w, left=s, right=2.0) | kron(v, two) | kron(m, r) | log1p(m + 3) | matrix_trace(sq)
matrix_trace(t, 1, 1, 2) | meshgrid(v, two) | meshgrid(v, two, s[None], indexing='ij') | moveaxis(t, (0, 1), (2, 0))
nn.batch_norm(img, STATE) | nn.batch_norm(img, STATE, two, two, training=True)[0]
nn.batch_norm(m.T, STATE, training=True)[0] | nn.binary_cross_entropy(p, big / 5)
nn.binary_cross_entropy(p, p * 0.5, c, 'none') | nn.cross_entropy(m, L)
nn.cross_entropy(m, SKIP, c, label_smoothing=0.1) | nn.cross_entropy(t, LL, reduction='sum') | nn.cross_entropy(m, p)
nn.cross_entropy(v, AT) | nn.dropout(m, 0.4, KEY) | nn.dropout(m, 0.4, KEY, training=False) | nn.embedding(II, sq)
nn.embedding(L, m.T) | nn.glu(wide) | nn.glu(m.T[:2], axis=0) | nn.swiglu(wide) | nn.group_norm(img, 2)
nn.group_norm(sig, 1, two, two) | nn.instance_norm(img) | nn.instance_norm(sig, two, two, eps=0.1) | nn.kl_div(m, p)
nn.kl_div(m, n, 'batchmean', log_target=True) | nn.layer_norm(m) | nn.layer_norm(t, v, w, eps=0.1) | nn.linear(m, sq)
nn.linear(t, sq, w) | nn.linear(v, tall, two) | nn.multi_head_attention(rows[:3], qkv, mix, 2)
nn.multi_head_attention(rows[:2], qkv, mix, 1, qkv[0], two, context=rows, is_causal=False) | nn.nll_loss(m, L)
nn.nll_loss(m, SKIP, c, reduction='sum') | nn.prelu(m, s) | nn.prelu(sig, two) | nn.rms_norm(m)
nn.rms_norm(t, v, eps=0.1) | nn.scaled_dot_product_attention(m, sq, sq)
nn.scaled_dot_product_attention(t, m, n, scale=0.5) | nn.scaled_dot_product_attention(m, n, n * 2, MASK[:, :2])
nn.scaled_dot_product_attention(m, n, n, n[:, :2]) | nn.scaled_dot_product_attention(sq, sq, sq, is_causal=True)
nn.threshold(m, 0.2, -3.0) | nn.hardtanh(3 * m, -2.0, 2.0) | nn.elu(m, 0.5) | nn.celu(m, 2.0) | nn.leaky_relu(m, 0.2)
nn.leaky_relu(m, s) | gelu(m, approximate='tanh') | ones_like(m) | pad(m, 1) | pad(v, (2, 1), mode='edge')
pad(m, ((1, 0), (1, 2)), mode='reflect') | pad(v, 4, mode='symmetric') | pad(v, (2, 5), mode='wrap')
pad(m, 1, constant_values=2.0) | percentile(long, 30.0) | percentile(m, 45.0, axis=1)
piecewise(m, [MASK], [lambda x: x * x, tanh]) | polyval(v, m) | polyval(long, s) | put_along_axis(m, II, mix)
put_along_axis(m, LL[:1], 3.0, axis=0) | quantile(long, 0.4) | quantile(m, [0.2, 0.9], axis=1)
quantile(t, 0.35, axis=(0, 2), keepdims=True) | quantile(long, s) | ravel(t) | repeat(m, 2)
repeat(m, [2, 0, 1], axis=1) | reshape(t, (3, 4)) | reshape(m, -1) | roll(m, 1) | roll(t, (1, -2), (0, 2)) | rot90(m)
rot90(t, 3, (2, 0)) | scatter(m, 1, II, mix) | scatter(v, 0, I[:2], two) | scatter_add(m, 1, II, mix)
scatter_add(v, 0, I, w) | scatter_reduce(m, 1, II, mix, 'prod') | scatter_reduce(v, 0, I, w, 'amax')
scatter_reduce(m, 0, [[1, 0, 1]], r, 'amin') | scatter_reduce(v, 0, I, w, 'sum') | select([MASK, m > 0], [m, n], s)
squeeze(o) | squeeze(r[None], (0, 1)) | stack([m, n]) | stack([v, w, v], axis=1) | swapaxes(t, 0, 2)
take(m, I, axis=1) | take(long, II) | take(t, -1, axis=2) | take(m, [5, -9], axis=1, mode='clip')
take_along_axis(m, II) | take_along_axis(sq, LL[:1], axis=0) | tile(m, 2) | tile(v, (2, 2)) | transpose(t)
transpose(t, (1, 0, 2)) | trapezoid(m) | trapezoid(m, c) | trapezoid(t, dx=0.5, axis=1) | trapezoid(m, n) | tril(m)
tril(t, -1) | triu(m, 1) | triu(t) | unstack(m) | unstack(t, axis=-1) | vander(v) | vander(v, 4, increasing=True)
vdot(m, n) | where(MASK, m, n) | where(MASK, r, s) | where(m > 0, m * m, o) | zeros_like(m) | nan_to_num(h, 2.0)
linalg.cholesky(pos) | linalg.cholesky(poss, upper=True) | linalg.cond(sq) | linalg.cond(sqs, 1) | linalg.det(sqs)
linalg.eigh(poss) | linalg.eigvalsh(pos) | linalg.expm(0.5 * sqs) | linalg.inv(sqs) | linalg.lstsq(tall, v)[0]
linalg.lstsq(tall, sq)[1] | linalg.matrix_norm(sqs) | linalg.matrix_norm(m, ord=1)
linalg.matrix_norm(m, ord=-INF, keepdims=True) | linalg.matrix_norm(tall, ord=2) | linalg.matrix_norm(tall, ord='nuc')
linalg.matrix_power(sqs, 3) | linalg.matrix_power(sqs, -1) | linalg.matrix_power(sq, 0) | linalg.pinv(tall)
linalg.qr(sq) | linalg.qr(tall) | linalg.slogdet(sqs) | linalg.solve(sq, v) | linalg.solve(sqs, mix)
linalg.solve(sqs, rows[:2, :1]) | linalg.solve_triangular(pos, v)
linalg.solve_triangular(sq + 3, tall, 1, lower=True) | linalg.svd(tall, full_matrices=False) | linalg.svd(sqs)
linalg.svdvals(tall) | linalg.trace(sqs) | linalg.trace(sq, offset=-1) | linalg.vector_norm(m, ord=1)
linalg.vector_norm(m, axis=1, ord=3.5) | linalg.vector_norm(m, axis=0, ord=INF)
linalg.vector_norm(m, ord=-1, keepdims=True) | linalg.vector_norm(m, ord=0.5)
""".replace("\n", "|").split("|"),
]  # fmt: skip

METHODS = [
    *each("exp expm1 abs square sign tanh sigmoid relu silu softplus sin cos erf floor ceil round trunc", "m._()"),
    *each("log log1p sqrt rsqrt", "p._()"),
    *each("add sub mul div maximum minimum", "m._(n)", "m._(w)"),
    *each("sum prod max min mean amax amin var std median", "m._()", "t._(axis=(0, 2), keepdims=True)"),
    *each("softmax log_softmax logsumexp cumsum cumprod sort", "m._()", "t._(axis=1)"),
    *"""
t.view(4, 3) | o.expand(2, 3) | m.permute(1, 0) | m.clamp(-1.0, 0.7) | m.to('float64') | m.cast('float64')
m.atan2(n) | t.bmm(sqs[:, :, [0, 1, 0]].mT) | m.clamp_max(0.3) | m.clamp_min(s) | m.clone() | m.contiguous() | m.cpu()
m.diff() | m.double() | m.erfc() | m.exp2() | o.expand_as(m) | m.index_add(1, I, n) | m.index_select(1, I)
m.lerp(n, 0.2) | p.log10() | p.log2() | m.masked_fill(MASK, 2.0) | m.mm(sq) | t.movedim(0, 1) | m.mv(v)
h.nan_to_num(1.0) | m.narrow(1, 0, 2) | m.neg() | v.outer(two) | p.reciprocal() | m.repeat_interleave(2, 1)
m.reshape_as(m.T) | m.scatter(1, II, mix) | m.t() | p.tan() | t.unbind(2) | m.unflatten(1, (1, 3)) | m.view_as(m.T)
p.pow(n) | m.pow(2) | m.matmul(sq) | m.dot(w) | m.quantile(0.3) | long.topk(2) | m.leaky_relu(0.2) | m.gelu()
m.clip(-1.0, 0.7) | m.reshape(3, 2) | m.reshape((6,)) | t.flatten(1) | t.transpose(2, 0, 1) | m.transpose()
o.squeeze(1) | v.unsqueeze(0) | o.broadcast_to(2, 3) | m.slice(1, 0, 3, 2) | m.flip(0) | m.take(I, 1)
m.gather(1, II) | m.scatter_add(1, II, mix) | m.astype('float64') | t.ravel() | t.swapaxes(0, 2) | sq.diagonal(1)
sq.trace() | m.tril() | m.triu(1) | m.repeat(2) | m.tile(2, 1) | m.roll(1) | long.chunk(2) | m.T | t.mT | m[0]
m[:, ::-2] | m[..., None] | t[1, :, I] | m[II[0][:, None] // 2, J] | m[1, AT] | m.at[0].set(w) | m.at[:, 1:].add(s)
m.at[J, I].add(v) | m.at[J, I].multiply(v) | m.at[[0, 1], [1, 2]].set(two) | v.at[I].max(w) | v.at[I].min(w)
m.at[MASK].set(s) | m.at[II // 2, 0].get() | m.at[LL, 0].mul(n) | m + n | 1 - m | m * w | o / (r + 4) | p ** n
m ** 3 | 2.0 ** m | m % 0.7 | 2.5 % p | m // 0.7 | -m | +m | m @ sq | v @ tall
""".replace("\n", "|").split("|"),
]  # fmt: skip
"""Methods and operators of tensors."""

INTEGERS = "their results are integers or bools, or their operands are"
MADE = "creation: no operand has a derivative"
EAGER = "the shape of the result depends on values, which are found by sorting or counting"
RULES = (
    "functions of functions: test_transformations.py, test_scan.py, test_control.py, test_custom.py, test_jacobian.py"
)
WITHOUT = {
    INTEGERS: """
        all allclose any bucketize eq ge gt le lt ne argmax argmin argsort array_equal bitwise_and bitwise_invert
        bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor count_nonzero digitize equal greater
        greater_equal invert isclose isfinite isinf isnan left_shift less less_equal linalg.matrix_rank logical_and
        logical_not logical_or logical_xor nn.one_hot not_equal one_hot ravel_multi_index right_shift searchsorted
        signbit unravel_index
    """,
    MADE: """
        arange empty empty_like eye from_dlpack geomspace identity linspace logspace ones randn tensor tri zeros
    """,
    EAGER: "argwhere flatnonzero nonzero unique unique_all unique_counts unique_inverse unique_values",
    "numbers of types": "can_cast finfo iinfo isdtype result_type",
    RULES: """
        check_grads checkpoint compile cond config debug_print explain_grad fori_loop grad hessian hvp jacfwd jacobian
        jacrev jvp linearize scan spec switch trace value_and_grad vjp vmap while_loop
    """,
    "walls: their gradient is 0 by definition": "stop_gradient nn.stop_gradient",
    "files": "export load load_arrays save_arrays",
    "the neighbour of a number: its derivative is refused": "nextafter",
}
"""Why public functions stand in no call."""


def public() -> dict[str, Callable[..., Any]]:
    """All public functions by their names; classes, modules and dtypes are none."""
    spaces = {"": gt, "nn.": gt.nn, "linalg.": gt.linalg}
    found = {f"{prefix}{name}": getattr(space, name) for prefix, space in spaces.items() for name in space.__all__}
    return {name: f for name, f in found.items() if callable(f) and not isinstance(f, type)}


def leading(text: str) -> str:
    """The name of the function that a text calls."""
    return text.partition("(")[0]


def names_of(text: str) -> tuple[str, ...]:
    """The operands of a text, in the order of their first use."""
    return tuple(dict.fromkeys(word for word in WORD.findall(re.sub(r"'[^']*'", "", text)) if word in OPERANDS))


def function_of(text: str) -> Callable[..., Any]:
    """The text as a function of its operands."""
    code, names = compile(text.strip(), text, "eval"), names_of(text)
    return lambda *args: eval(code, {**vars(gt), **CONSTANTS, **dict(zip(names, args, strict=True))})


def operands_of(text: str) -> list[np.ndarray]:
    """The values of its operands."""
    return [OPERANDS[name] for name in names_of(text)]


CALLS, METHODS = ([text.strip() for text in table if text.strip()] for table in (CALLS, METHODS))

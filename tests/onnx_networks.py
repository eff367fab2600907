"""ONNX operators as functions of gt.nn: convolutions, pools, norms, resizing, recurrent cells, attention, losses.

`OPERATORS` is the table of `onnx_adapter` with these in it. What is said there holds here.
"""

from __future__ import annotations

import math
from typing import Any

import gtensor as gt
from tests.onnx_adapter import OPERATORS, adapter, integers

__all__ = ["OPERATORS"]

CONV = {1: gt.nn.conv1d, 2: gt.nn.conv2d, 3: gt.nn.conv3d}
CONV_TRANSPOSE = {1: gt.nn.conv_transpose1d, 2: gt.nn.conv_transpose2d, 3: gt.nn.conv_transpose3d}
MAX_POOL = {1: gt.nn.max_pool1d, 2: gt.nn.max_pool2d, 3: gt.nn.max_pool3d}
AVG_POOL = {1: gt.nn.avg_pool1d, 2: gt.nn.avg_pool2d, 3: gt.nn.avg_pool3d}
GLOBAL_AVG = {1: gt.nn.adaptive_avg_pool1d, 2: gt.nn.adaptive_avg_pool2d, 3: gt.nn.adaptive_avg_pool3d}
GLOBAL_MAX = {1: gt.nn.adaptive_max_pool1d, 2: gt.nn.adaptive_max_pool2d, 3: gt.nn.adaptive_max_pool3d}

# ---- windows ---------------------------------------------------------------------------------------------


def ones_for(a, axes):
    """Strides and dilations, 1 unless given."""
    return a.strides or [1] * axes, a.dilations or [1] * axes


def spans(window, dilations):
    return [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]


def pairs(totals, odd_after):
    """Borders of a total width, whose odd element stands after or before."""
    return [(n // 2, n - n // 2) if odd_after else (n - n // 2, n // 2) for n in totals]


def borders(a, extents, window, strides, dilations):
    """What stands before and after each axis: as given, or so that the result has the extents over the strides."""
    if a.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-n // move) - 1) * move + reach - n, 0)
            for n, move, reach in zip(extents, strides, spans(window, dilations), strict=True)
        ]
        return pairs(totals, a.auto_pad == "SAME_UPPER")
    pads = a.pads or [0] * (2 * len(extents))
    return list(zip(pads[: len(extents)], pads[len(extents) :], strict=True))


@adapter("Conv")
def conv(a, x, weight, bias=None):
    axes = x.ndim - 2
    strides, dilations = ones_for(a, axes)
    padding = borders(a, x.shape[2:], weight.shape[2:], strides, dilations)
    return CONV[axes](x, weight, bias, strides, padding, dilations, a.group)


@adapter("ConvTranspose")
def conv_transpose(a, x, weight, bias=None):
    """A wanted shape, or the extents times the strides, decides the borders; what is missing is added behind."""
    axes = x.ndim - 2
    strides, dilations = ones_for(a, axes)
    padding = borders(a, x.shape[2:], weight.shape[2:], [1] * axes, [1] * axes)
    extra = list(a.output_padding or [0] * axes)
    wanted = a.output_shape
    if a.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * move for n, move in zip(x.shape[2:], strides, strict=True)]
    if wanted:
        reach = spans(weight.shape[2:], dilations)
        full = [(n - 1) * s + r + e for n, s, r, e in zip(x.shape[2:], strides, reach, extra, strict=True)]
        extra = [e + max(w - f, 0) for e, w, f in zip(extra, wanted, full, strict=True)]
        padding = pairs([max(f - w, 0) for w, f in zip(wanted, full, strict=True)], a.auto_pad == "SAME_UPPER")
    return CONV_TRANSPOSE[axes](x, weight, bias, strides, padding, extra, a.group, dilations)


def pooling(a, x):
    """The options of a pool in the order of gtensor's functions: sizes, strides, borders, dilations."""
    axes = x.ndim - 2
    strides, dilations = ones_for(a, axes)
    return a.kernel_shape, strides, borders(a, x.shape[2:], a.kernel_shape, strides, dilations), dilations


@adapter("MaxPool")
def max_pool(a, x):
    """Indices count through the whole array, in column-major order of the last axes with `storage_order` 1."""
    axes, extents = x.ndim - 2, x.shape[2:]
    found = MAX_POOL[axes](x, *pooling(a, x), bool(a.ceil_mode), return_indices=a.outputs > 1)
    if a.outputs == 1:
        return found
    largest, places = found
    if a.storage_order:
        places = gt.ravel_multi_index(gt.unravel_index(places, extents)[::-1], extents[::-1])
    planes = gt.reshape(gt.arange(math.prod(x.shape[:2])), (*x.shape[:2], *(1,) * axes))
    return largest, places + planes * math.prod(extents)


@adapter("AveragePool")
def average_pool(a, x):
    window, strides, padding, dilations = pooling(a, x)
    return AVG_POOL[x.ndim - 2](
        x, window, strides, padding, bool(a.ceil_mode), bool(a.count_include_pad), dilation=dilations
    )


@adapter("LpPool")
def lp_pool(a, x):
    window, strides, padding, dilations = pooling(a, x)
    mean = AVG_POOL[x.ndim - 2](gt.abs(x) ** a.p, window, strides, padding, bool(a.ceil_mode), dilation=dilations)
    return (mean * math.prod(window)) ** (1 / a.p)


@adapter("GlobalAveragePool")
def global_average_pool(a, x):
    return GLOBAL_AVG[x.ndim - 2](x, 1)


@adapter("GlobalMaxPool")
def global_max_pool(a, x):
    return GLOBAL_MAX[x.ndim - 2](x, 1)


# ---- norms -----------------------------------------------------------------------------------------------


@adapter("BatchNormalization")
def batch_normalization(a, x, scale, bias, mean, var):
    """ONNX keeps the biased variance, and its momentum is the share of the old state."""
    state = {"mean": mean, "var": var}
    y, new = gt.nn.batch_norm(x, state, scale, bias, bool(a.training_mode), 1 - a.momentum, a.epsilon)
    count = x.size // x.shape[1]
    kept = a.momentum * var
    return y, new["mean"], kept + (new["var"] - kept) * (count - 1) / count


@adapter("GroupNormalization")
def group_normalization(a, x, scale, bias):
    return gt.nn.group_norm(x, a.num_groups, scale, bias, a.epsilon)


@adapter("InstanceNormalization")
def instance_normalization(a, x, scale, bias):
    return gt.nn.instance_norm(x, scale, bias, a.epsilon)


@adapter("LayerNormalization")
def layer_normalization(a, x, scale, bias=None):
    axes = tuple(range(a.axis % x.ndim, x.ndim))
    spread = gt.rsqrt(gt.var(x, axes, keepdims=True) + a.epsilon)
    return gt.nn.layer_norm(x, scale, bias, a.epsilon), gt.mean(x, axes, keepdims=True), spread


@adapter("RMSNormalization")
def rms_normalization(a, x, scale):
    return gt.nn.rms_norm(x, scale, a.epsilon)


@adapter("LRN")
def local_response_normalization(a, x):
    """Over windows of channels; zeros beyond the first and the last one count."""
    line = gt.moveaxis(gt.square(x), 1, -1)
    ((before, after),) = pairs([a.size - 1], odd_after=True)
    mean = gt.moveaxis(gt.nn.avg_pool1d(line, a.size, 1, [(before, after)]), -1, 1)
    return x / (a.bias + a.alpha * mean) ** a.beta


@adapter("Dropout", fixed=(1, 2))
def dropout(a, x, ratio=None, training=None):
    """A mask that is drawn is not ONNX's, so only cases that keep all can be equal."""
    rate = 0.5 if ratio is None else ratio.item()
    y = gt.nn.dropout(x, rate, gt.random.key(0), training=training is not None and bool(training))
    return y, gt.ones(x.shape, gt.bool)


# ---- resizing --------------------------------------------------------------------------------------------

MODES = {
    "nearest": {1: "nearest", 2: "nearest", 3: "nearest"},
    "linear": {1: "linear", 2: "bilinear", 3: "trilinear"},
    "cubic": {2: "bicubic"},
}


@adapter("Upsample", fixed=(1,))
def upsample(a, x, scales):
    return gt.nn.interpolate(x, scale_factor=[float(s) for s in scales[2:]], mode=a.mode)


@adapter("Resize", fixed=(1, 2, 3))
def resize(a, x, roi=None, scales=None, sizes=None):
    """Examples and channels stay; a policy lets the axis that is scaled least (or most) decide for all.

    With half pixels the nearest element is the one in which the centre lies; of two that are as near ONNX takes the
    first and gtensor the second, so that sizes, which divide an array evenly, are met in a mirror.
    """
    axes = a.axes or range(x.ndim)
    mode = MODES[a.mode][x.ndim - 2]
    exact = a.mode == "nearest" and a.coordinate_transformation_mode == "half_pixel"
    mode = "nearest-exact" if exact else mode
    how: dict[str, Any]
    if sizes is None:
        factors = dict(zip(axes, scales.tolist(), strict=True))
        how = {"scale_factor": [factors.get(i, 1.0) for i in range(2, x.ndim)]}
    else:
        wanted = dict(zip(axes, integers(sizes), strict=True))
        if a.keep_aspect_ratio_policy != "stretch":
            pick = {"not_larger": min, "not_smaller": max}[a.keep_aspect_ratio_policy]
            factor = pick(n / x.shape[i] for i, n in wanted.items())
            wanted = {i: int(factor * x.shape[i] + 0.5) for i in wanted}
        how = {"size": [wanted.get(i, n) for i, n in enumerate(x.shape)][2:]}
        if exact:
            return gt.flip(gt.nn.interpolate(gt.flip(x), **how, mode=mode))
    return gt.nn.interpolate(x, **how, mode=mode, align_corners=a.coordinate_transformation_mode == "align_corners")


@adapter("AffineGrid", fixed=(1,))
def affine_grid(a, theta, size):
    return gt.nn.affine_grid(theta, integers(size), bool(a.align_corners))


@adapter("GridSample")
def grid_sample(a, x, grid):
    mode = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[a.mode]
    return gt.nn.grid_sample(x, grid, mode, a.padding_mode, bool(a.align_corners))


# ---- recurrence ------------------------------------------------------------------------------------------


def recurrence(a, cell, inputs, layers, lengths, states):
    """A cell over a sequence [steps, batch, inputs], forwards, backwards or both; gives all outputs, last states.

    `layers` has the parameters of each direction, `states` the first states [directions, batch, size] or None.
    With `layout` 1 the batch is the first axis of everything. All sequences are of one length.
    """
    assert lengths is None
    xs = gt.swapaxes(inputs, 0, 1) if a.layout else inputs
    outputs, last = [], []
    for i, params in enumerate(layers):
        backwards = a.direction == "reverse" or i == 1
        state = cell.start(xs.shape[1:2], xs.dtype)
        if states[0] is not None:
            first = tuple(s[:, i] if a.layout else s[i] for s in states)
            state = first if isinstance(state, tuple) else first[0]
        final, found = cell.rollout(params, state, gt.flip(xs, axis=0) if backwards else xs)
        outputs.append(gt.flip(found, axis=0) if backwards else found)
        last.append(final if isinstance(final, tuple) else (final,))
    every = gt.stack(outputs, axis=1)
    every = gt.transpose(every, (2, 0, 1, 3)) if a.layout else every
    return every, *(gt.stack(parts, axis=1 if a.layout else 0) for parts in zip(*last, strict=True))


def parameters(w, r, b, order):
    """Of each direction: weights [gates * size, features] as [features, gates * size], gates in gtensor's order."""
    count, rows, _ = w.shape
    size = rows // len(order)
    zeros = gt.zeros((count, 2 * rows), w.dtype) if b is None else b

    def ordered(x):
        return gt.concat([x[i * size : (i + 1) * size] for i in order], axis=0)

    return [
        {
            "input": {"w": ordered(w[i]).T, "b": ordered(zeros[i, :rows])},
            "hidden": {"w": ordered(r[i]).T, "b": ordered(zeros[i, rows:])},
        }
        for i in range(count)
    ]


@adapter("RNN")
def rnn(a, x, w, r, b=None, lengths=None, first=None):
    return recurrence(a, gt.nn.Elman(x.shape[-1], a.hidden_size), x, parameters(w, r, b, (0,)), lengths, [first])


@adapter("GRU")
def gru(a, x, w, r, b=None, lengths=None, first=None):
    """ONNX has z, r, n where gtensor has r, z, n."""
    cell = gt.nn.GRU(x.shape[-1], a.hidden_size, reset_after=bool(a.linear_before_reset))
    return recurrence(a, cell, x, parameters(w, r, b, (1, 0, 2)), lengths, [first])


@adapter("LSTM")
def lstm(a, x, w, r, b=None, lengths=None, first=None, carried=None):
    """ONNX has i, o, f, c where gtensor has i, f, g, o."""
    layers = parameters(w, r, b, (0, 2, 3, 1))
    return recurrence(a, gt.nn.LSTM(x.shape[-1], a.hidden_size), x, layers, lengths, [first, carried])


# ---- attention -------------------------------------------------------------------------------------------


def heads(x, count):
    """[batch, length, heads * size] as [batch, heads, length, size]; what has heads stays."""
    return x if x.ndim == 4 else gt.swapaxes(gt.reshape(x, (*x.shape[:2], count, -1)), 1, 2)


def mask_of(a, q, k, mask, past, lengths):
    """What is added to the scores, -inf where a key may not be seen; None where all may."""
    rows, columns = q.shape[2], k.shape[2]
    bias = gt.zeros((rows, columns), q.dtype)
    if mask is not None:
        hidden = False if mask.dtype == gt.bool else -math.inf
        short = [(0, 0)] * (mask.ndim - 1) + [(0, columns - mask.shape[-1])]
        wide = gt.pad(mask, short, constant_values=hidden)
        bias = gt.where(wide, bias, -math.inf) if mask.dtype == gt.bool else bias + wide
    column = gt.arange(columns)
    offset: Any = 0 if past is None else past.shape[2]
    if lengths is not None:
        ends = gt.reshape(lengths, (-1, 1, 1, 1))
        bias = gt.where(column < ends, bias, -math.inf)
        offset = ends - rows
    ahead = column - (gt.expand_dims(gt.arange(rows), 1) + offset)
    left, right = (getattr(a, f"{side}_window_size", -1) for side in ("left", "right"))
    for applies, allowed in (
        (a.is_causal, ahead <= 0), (right >= 0, ahead <= right), (left >= 0, -ahead <= left),
    ):  # fmt: skip
        if applies:
            bias = gt.where(allowed, bias, -math.inf)
    plain = mask is None and lengths is None and not a.is_causal and max(left, right) < 0
    return None if plain else bias


@adapter("Attention")
def attention(a, q, k, v, mask=None, past_key=None, past_value=None, lengths=None):
    flat = q.ndim == 3
    q, k, v = heads(q, a.q_num_heads), heads(k, a.kv_num_heads), heads(v, a.kv_num_heads)
    if past_key is not None:
        k, v = gt.concat([past_key, k], axis=2), gt.concat([past_value, v], axis=2)
    y, scores = attended(a, q, k, v, mask_of(a, q, k, mask, past_key, lengths))
    return gt.reshape(gt.swapaxes(y, 1, 2), (q.shape[0], q.shape[2], -1)) if flat else y, k, v, scores


def attended(a, q, k, v, bias):
    """The result, and the scores that ONNX can show; a row that sees nothing is 0, where gtensor's is NaN."""
    shared = q.shape[1] != k.shape[1]
    y = gt.nn.scaled_dot_product_attention(q, k, v, bias, scale=a.scale, enable_gqa=shared)
    scores = None
    if a.softcap or a.outputs > 3:
        stages = shown(a, q, k, bias)
        y, scores = stages[3] @ repeated(v, q) if a.softcap else y, stages[a.qk_matmul_output_mode]
    if bias is None:
        return y, scores
    blind = gt.isinf(gt.max(bias, axis=-1, keepdims=True))
    return gt.where(blind, 0, y), gt.where(blind, 0, scores) if a.qk_matmul_output_mode == 3 else scores


def repeated(x, q):
    return gt.repeat(x, q.shape[1] // x.shape[1], axis=1)


def shown(a, q, k, bias):
    """The scores: as the product gives them, capped, with the mask, and as shares."""
    scale = 1 / math.sqrt(q.shape[-1]) if a.scale is None else a.scale
    product = (q * scale) @ gt.matrix_transpose(repeated(k, q))
    capped = a.softcap * gt.tanh(product / a.softcap) if a.softcap else product
    masked = capped if bias is None else capped + bias
    return product, capped, masked, gt.softmax(masked)


@adapter("RotaryEmbedding")
def rotary_embedding(a, x, cos, sin, positions=None):
    """Pairs of features turned by the angles of their position."""
    flat = x.ndim == 3
    along = heads(x, a.num_heads)
    cosines, sines = (c if positions is None else c[positions] for c in (cos, sin))
    c, s = gt.expand_dims(cosines, 1), gt.expand_dims(sines, 1)
    turned = a.rotary_embedding_dim or along.shape[-1]
    part, rest = along[..., :turned], along[..., turned:]
    half = turned // 2
    first, second = (part[..., ::2], part[..., 1::2]) if a.interleaved else (part[..., :half], part[..., half:])
    real, imaginary = c * first - s * second, s * first + c * second
    if a.interleaved:
        part = gt.reshape(gt.stack([real, imaginary], axis=-1), part.shape)
    else:
        part = gt.concat([real, imaginary], axis=-1)
    y = gt.concat([part, rest], axis=-1)
    return gt.reshape(gt.swapaxes(y, 1, 2), x.shape) if flat else y


# ---- losses ----------------------------------------------------------------------------------------------


@adapter("NegativeLogLikelihoodLoss")
def nll_loss(a, x, labels, weight=None):
    return gt.nn.nll_loss(x, labels, weight, a.ignore_index, a.reduction)


@adapter("SoftmaxCrossEntropyLoss")
def cross_entropy(a, x, labels, weight=None):
    loss = gt.nn.cross_entropy(x, labels, weight, a.ignore_index, reduction=a.reduction)
    return (loss, gt.log_softmax(x, axis=1)) if a.outputs > 1 else loss

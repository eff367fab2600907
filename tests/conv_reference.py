"""Convolutions and pools as plain NumPy loops over the places of the result, in float64."""

from __future__ import annotations

import itertools

import numpy as np


def places(shape, window, stride, dilation):
    """For each place of the result its index and the elements of the last axes that the window holds there."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(shape, reach, stride, strict=True)]
    for at in itertools.product(*map(range, counts)):
        yield (
            at,
            tuple(slice(i * s, i * s + r, d) for i, s, r, d in zip(at, stride, reach, dilation, strict=True)),
        )


def bordered(x, pairs, value=0.0):
    """x with borders along its last axes."""
    return np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + list(pairs), constant_values=value)


def both(padding):
    """One number stands on both sides."""
    return (padding, padding) if isinstance(padding, int) else padding


def conv(x, w, bias, stride, pairs, dilation, groups):
    """x: [N, C, *S], w: [O, C / groups, *K]."""
    x = bordered(x, pairs)
    found = {}
    for at, cut in places(x.shape[2:], w.shape[2:], stride, dilation):
        seen = x[(slice(None), slice(None), *cut)]
        parts = [
            np.tensordot(part, rows, 2 * [range(1, x.ndim)])
            for part, rows in zip(np.split(seen, groups, 1), np.split(w, groups, 0), strict=True)
        ]
        found[at] = np.concatenate(parts, 1)
    counts = tuple(n + 1 for n in max(found))
    out = np.stack([found[at] for at in np.ndindex(*counts)], -1).reshape(len(x), len(w), *counts)
    return out if bias is None else out + bias.reshape(-1, *(1,) * len(counts))


def conv_transpose(x, w, bias, stride, padding, extra, dilation, groups):
    """x: [N, C, *S], w: [C, O / groups, *K]: every element adds its multiple of the weights."""
    axes = w.ndim - 2
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], stride, w.shape[2:], dilation, extra, strict=True)
    ]
    outs = w.shape[1] * groups
    out = np.zeros((len(x), outs, *full))
    for n, c, *at in np.ndindex(*x.shape):
        group = c // (x.shape[1] // groups)
        cut = tuple(
            slice(i * s, i * s + (k - 1) * d + 1, d)
            for i, s, k, d in zip(at, stride, w.shape[2:], dilation, strict=True)
        )
        rows = slice(group * w.shape[1], (group + 1) * w.shape[1])
        out[(n, rows, *cut)] += x[(n, c, *at)] * w[c]
    out = out[(..., *(slice(p, m - q) for (p, q), m in zip(map(both, padding), full, strict=True)))]
    return out if bias is None else out + bias.reshape(-1, *(1,) * axes)


def pool(x, fold, window, stride, padding, dilation, border, ceil=False):
    """The last axes of x in windows, each folded to a number; in ceil mode the last one may reach beyond the border."""
    x = bordered(x, list(map(both, padding)), border)
    axes = len(window)
    lines = []
    for n, pair, k, s, d in zip(x.shape[x.ndim - axes :], map(both, padding), window, stride, dilation, strict=True):
        starts = [i for i in range(0, n, s) if i + (k - 1) * d < n or (ceil and i - s + (k - 1) * d < n - 1)]
        starts = [i for i in starts if i + (k - 1) * d < n or i < n - pair[1]]
        lines.append([[at for at in range(i, i + k * d, d) if at < n] for i in starts])
    found = np.empty((*x.shape[: x.ndim - axes], *map(len, lines)))
    for at in np.ndindex(*map(len, lines)):
        seen = x[(..., *np.ix_(*(line[i] for line, i in zip(lines, at, strict=True))))]
        found[(..., *at)] = fold(seen, axis=tuple(range(x.ndim - axes, x.ndim)))
    return found

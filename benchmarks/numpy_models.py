"""The workloads in NumPy, by hand: forward and backward pass and update, in place where that saves a pass."""

import numpy as np

from .contender import Run, Unsupported

f32 = np.float32


def sgd(params, opt):
    rate = f32(opt["lr"])

    def update(grads):
        for key, grad in grads.items():
            grad *= rate
            params[key] -= grad

    return update


def adam(params, opt):
    first, second, scratch, other = ({k: np.zeros_like(v) for k, v in params.items()} for _ in range(4))
    count = 0

    def update(grads):
        nonlocal count
        count += 1
        scale, square = f32(opt["lr"] / (1 - 0.9**count)), f32(1 / (1 - 0.999**count))
        for key, grad in grads.items():
            m, v, a, b = first[key], second[key], scratch[key], other[key]
            m *= f32(0.9)
            m += np.multiply(grad, f32(0.1), out=a)
            v *= f32(0.999)
            np.multiply(grad, grad, out=a)
            a *= f32(0.001)
            v += a
            np.sqrt(np.multiply(v, square, out=a), out=a)
            a += f32(1e-8)
            np.multiply(m, scale, out=b)
            b /= a
            params[key] -= b

    return update


UPDATES = {"sgd": sgd, "sgd_dx": sgd, "adam": adam}


def mean_square(out, data):
    """The loss, and its derivative in place of `out`."""
    out -= data["y"]
    loss = np.vdot(out, out) / out.size
    out *= f32(2 / out.size)
    return loss, out


def cross_entropy(out, data):
    """The loss, and its derivative."""
    rows, labels = np.arange(len(out)), data["y"]
    out -= out.max(1, keepdims=True)
    e = np.exp(out)
    total = e.sum(1, keepdims=True)
    loss = (np.log(total[:, 0]) - out[rows, labels]).mean()
    e /= total
    e[rows, labels] -= 1
    e *= f32(1 / len(out))
    return loss, e


def w1(params, data, update):
    x = data["x"]
    c, a, half = f32(0.7978845608028654), f32(0.044715), f32(0.5)

    def step():
        u = x @ params["W1"]
        u += params["b1"]
        square = u * u
        th = np.tanh(c * u * (1 + a * square))
        h = half * u * (1 + th)
        out = h @ params["W2"]
        out += params["b2"]
        loss, d = mean_square(out, data)
        dh = d @ params["W2"].T
        dh *= half * (1 + th) + half * u * (1 - th * th) * (c * (1 + 3 * a * square))
        update({"W1": x.T @ dh, "b1": dh.sum(0), "W2": h.T @ d, "b2": d.sum(0)})
        return float(loss)

    return step


def layers(loss_of):
    """Three linear layers with relu between them: W2 and W8."""

    def workload(params, data, update):
        grads = {key: np.empty_like(value) for key, value in params.items()}

        def step():
            values = [data["x"]]
            for i in (1, 2, 3):
                out = values[-1] @ params[f"W{i}"]
                out += params[f"b{i}"]
                values.append(np.maximum(out, 0, out=out) if i < 3 else out)
            loss, d = loss_of(values.pop(), data)
            for i in (3, 2, 1):
                h = values.pop()
                np.matmul(h.T, d, out=grads[f"W{i}"])
                d.sum(0, out=grads[f"b{i}"])
                if i > 1:
                    d = d @ params[f"W{i}"].T
                    d *= h > 0
            update(grads)
            return float(loss)

        return step

    return workload


ROWS = 128
"""Of W9 at a time: the arrays between x and its gradient then stay in the cache."""


def w9(params, data, update):
    dx = np.empty_like(data["x"])
    c, a, half = f32(0.7978845608028654), f32(0.044715), f32(0.5)

    scale = f32(1 / data["x"].size)

    def block(x, ct, dx, grads):
        """The loss of some rows, unscaled; their part of the gradients is added, that of x is written."""
        u = x * params["a"]
        u += params["b"]
        square = u * u
        th = np.tanh(c * u * (1 + a * square))
        n = half * u * (1 + th)
        n -= n.mean(1, keepdims=True)
        r = 1 / np.sqrt((n * n).mean(1, keepdims=True) + f32(1e-5))
        n *= r
        loss = np.vdot(n * params["g"] + params["h"], ct)
        grads["g"] += (ct * n).sum(0)
        grads["h"] += ct.sum(0)
        d = ct * params["g"]
        d -= d.mean(1, keepdims=True) + n * (d * n).mean(1, keepdims=True)
        d *= r
        d *= half * (1 + th) + half * u * (1 - th * th) * (c * (1 + 3 * a * square))
        grads["a"] += (d * x).sum(0)
        grads["b"] += d.sum(0)
        np.multiply(d, params["a"] * scale, out=dx)
        return loss

    def step():
        x = data["x"]
        grads = {key: np.zeros_like(value) for key, value in params.items()}
        loss = 0.0
        for first in range(0, len(x), ROWS):
            rows = slice(first, first + ROWS)
            loss += float(block(x[rows], data["ct"][rows], dx[rows], grads))
        for grad in grads.values():
            grad *= scale
        update(grads)
        return loss * float(scale)

    return step


STEPS = {"W1": w1, "W2": layers(cross_entropy), "W8": layers(mean_square), "W9": w9}

MODES = ("hand",)


def build(name, mode, params, data, opt):
    if name not in STEPS:
        raise Unsupported("no derivative written by hand")
    return Run(STEPS[name](params, data, UPDATES[opt["kind"]](params, opt)))

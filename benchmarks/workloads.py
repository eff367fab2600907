"""The workloads W1 … W9: shapes, seeded initial parameters and data, shared by all libraries.

`make(name)` gives (params, data, opt): params and data are dicts of arrays (weights are stored [in, out],
the batch is the same one each step), opt is a dict with `kind` (sgd, adam, adamw, pc, sgd_dx) and its
numbers. What each workload computes is in models.py; its loss is the one before the update.
"""

import numpy as np

NAMES = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9"]
LOSSES = {
    "W1": (1.364803, 1.297962, 1.242203, 1.195004, 1.154535),
    "W2": (2.318624, 2.196935, 2.126145, 2.052223, 1.968095),
    "W3": (1.030308, 1.020578, 1.011382, 1.002654, 0.994340),
    "W4": (0.174501, 0.147669, 0.124987, 0.105957, 0.090161),
    "W5": (3.117038, 2.764220, 2.460362, 2.203153, 1.986299),
    "W6": (4.626766, 4.435926, 4.122344, 3.997254, 3.895641),
    "W7": (2.255044, 2.180369, 2.166146, 2.164281, 2.157432),
    "W8": (1.239200, 1.230556, 1.222550, 1.215111, 1.208177),
    "W9": (-4.351234e-4, -4.58671e-4, -4.82218e-4, -5.05767e-4, -5.29316e-4),
}
"""The losses before each of the first five updates, seed 0: every library must show these."""

TITLES = {
    "W1": "mlp_tiny",
    "W2": "mlp_digits",
    "W3": "gated_memory",
    "W4": "set_encoder",
    "W5": "predictive_coding",
    "W6": "char_transformer",
    "W7": "lenet",
    "W8": "wide_mlp",
    "W9": "elementwise",
}
f32 = np.float32


def make(name, seed=0):
    r = np.random.default_rng(seed + int(name[1:]) * 1000)

    def n(*s):
        return r.standard_normal(s).astype(f32)

    def W(i, o):
        return (r.standard_normal((i, o)) / np.sqrt(i)).astype(f32)

    def z(*s):
        return np.zeros(s, f32)

    def one(*s):
        return np.ones(s, f32)

    if name == "W1":
        p = {"W1": W(8, 32), "b1": z(32), "W2": W(32, 4), "b2": z(4)}
        d = {"x": n(32, 8), "y": n(32, 4)}
        return p, d, {"kind": "sgd", "lr": 0.05}
    if name == "W2":
        p = {"W1": W(784, 256), "b1": z(256), "W2": W(256, 128), "b2": z(128), "W3": W(128, 10), "b3": z(10)}
        d = {"x": r.random((128, 784), dtype=f32), "y": r.integers(0, 10, 128).astype(np.int32)}
        return p, d, {"kind": "adam", "lr": 1e-3}
    if name == "W3":
        T, Bt, M, X = 64, 32, 64, 16
        p = {"Wz": W(M + X, M), "bz": z(M), "Wc": W(M + X, M), "bc": z(M), "Wr": W(M, X), "br": z(X)}
        x = n(T, Bt, X)
        y = np.zeros_like(x)
        y[3:] = x[:-3]
        return p, {"x": x, "y": y, "M0": z(Bt, M)}, {"kind": "adam", "lr": 1e-3}
    if name == "W4":
        p = {"We": W(8, 64), "be": z(64), "Wq": W(64, 64), "Wk": W(64, 64), "Wv": W(64, 64), "Wo": W(64, 8), "bo": z(8)}
        x = n(64, 16, 8)
        return p, {"x": x, "y": np.ascontiguousarray(x.mean(1))}, {"kind": "adam", "lr": 1e-3}
    if name == "W5":
        p = {"W1": W(64, 128), "b1": z(128), "W2": W(128, 10), "b2": z(10)}
        t = -0.9 * one(64, 10)
        t[np.arange(64), r.integers(0, 10, 64)] = 0.9
        return p, {"x": n(64, 64), "y": t}, {"kind": "pc", "lr": 0.05, "lr_x": 0.1, "K": 20}
    if name == "W6":
        V, D, T, Bt, L = 65, 128, 64, 16, 4
        p = {"tok": 0.02 * n(V, D), "pos": 0.02 * n(T, D)}
        for i in range(L):
            p.update(
                {
                    f"l{i}_g1": one(D),
                    f"l{i}_b1": z(D),
                    f"l{i}_Wqkv": W(D, 3 * D),
                    f"l{i}_bqkv": z(3 * D),
                    f"l{i}_Wp": W(D, D),
                    f"l{i}_bp": z(D),
                    f"l{i}_g2": one(D),
                    f"l{i}_b2": z(D),
                    f"l{i}_Wf": W(D, 4 * D),
                    f"l{i}_bf": z(4 * D),
                    f"l{i}_Wo": W(4 * D, D),
                    f"l{i}_bo": z(D),
                }
            )
        p.update(gf=one(D), bf=z(D), Wh=W(D, V))
        s = r.integers(0, V, (Bt, T + 1)).astype(np.int32)
        return (
            p,
            {"x": np.ascontiguousarray(s[:, :-1]), "y": np.ascontiguousarray(s[:, 1:])},
            {"kind": "adamw", "lr": 1e-3, "wd": 0.01},
        )
    if name == "W7":
        p = {
            "K1": n(6, 1, 5, 5) / f32(5),
            "c1": z(6),
            "K2": n(16, 6, 5, 5) / f32(np.sqrt(150)),
            "c2": z(16),
            "W1": W(256, 120),
            "b1": z(120),
            "W2": W(120, 84),
            "b2": z(84),
            "W3": W(84, 10),
            "b3": z(10),
        }
        d = {"x": r.random((64, 1, 28, 28), dtype=f32), "y": r.integers(0, 10, 64).astype(np.int32)}
        return p, d, {"kind": "adam", "lr": 1e-3}
    if name == "W8":
        p = {}
        for i in (1, 2, 3):
            p[f"W{i}"] = W(1024, 1024)
            p[f"b{i}"] = z(1024)
        return p, {"x": n(256, 1024), "y": n(256, 1024)}, {"kind": "sgd", "lr": 0.05}
    if name == "W9":
        p = {"a": one(512) + 0.1 * n(512), "b": 0.1 * n(512), "g": one(512), "h": z(512)}
        return p, {"x": n(4096, 512), "ct": n(4096, 512)}, {"kind": "sgd_dx", "lr": 10.0}
    raise KeyError(name)

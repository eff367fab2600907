"""What the workloads compute: loss functions over a table B of operations, which each library fills.

B: linear(x,W,b) relu tanh sigmoid gelu(tanh approx) layernorm(x,g,b) xent(logits2d, labels1d) mse(a,b) concat(list)
   scan(f, carry, xs)->stacked carries   sdpa(q,k,v,causal) on [B,H,T,D] or [B,T,D]   take(table, idx)
   conv(x,K,c) avgpool2 flatten mean(x,axis) sum(x)
"""


def W1(B, p, d):
    h = B.gelu(B.linear(d["x"], p["W1"], p["b1"]))
    return B.mse(B.linear(h, p["W2"], p["b2"]), d["y"])


def W2(B, p, d):
    h = B.relu(B.linear(d["x"], p["W1"], p["b1"]))
    h = B.relu(B.linear(h, p["W2"], p["b2"]))
    return B.xent(B.linear(h, p["W3"], p["b3"]), d["y"])


def W3(B, p, d):
    def cell(M, x):
        h = B.concat([M, x])
        z = B.sigmoid(B.linear(h, p["Wz"], p["bz"]))
        c = B.tanh(B.linear(h, p["Wc"], p["bc"]))
        return (1.0 - z) * M + z * c

    Ms = B.scan(cell, d["M0"], d["x"])
    return B.mse(B.linear(Ms, p["Wr"], p["br"]), d["y"])


def W4(B, p, d):
    e = B.linear(d["x"], p["We"], p["be"])
    h = e + B.sdpa(e @ p["Wq"], e @ p["Wk"], e @ p["Wv"], False)
    return B.mse(B.linear(B.mean(h, 1), p["Wo"], p["bo"]), d["y"])


def W5_mu1(B, p, d):
    return B.tanh(B.linear(d["x"], p["W1"], p["b1"]))


def W5_energy(B, p, d, x1, mu1):
    e1 = x1 - mu1
    e2 = d["y"] - B.tanh(B.linear(x1, p["W2"], p["b2"]))
    return 0.5 * (B.sum(e1 * e1) + B.sum(e2 * e2))


def W6(B, p, d):
    Bt, T, D, H = 16, 64, 128, 4
    x = B.take(p["tok"], d["x"]) + p["pos"]
    for i in range(4):

        def q(k, i=i):
            return p[f"l{i}_{k}"]

        h = B.linear(B.layernorm(x, q("g1"), q("b1")), q("Wqkv"), q("bqkv"))
        qq, kk, vv = B.heads(h, Bt, T, H, D // H)
        a = B.sdpa(qq, kk, vv, True)
        x = x + B.linear(B.unheads(a, Bt, T, D), q("Wp"), q("bp"))
        h = B.gelu(B.linear(B.layernorm(x, q("g2"), q("b2")), q("Wf"), q("bf")))
        x = x + B.linear(h, q("Wo"), q("bo"))
    x = B.layernorm(x, p["gf"], p["bf"])
    return B.xent((x @ p["Wh"]).reshape((Bt * T, 65)), d["y"].reshape((-1,)))


def W7(B, p, d):
    h = B.avgpool2(B.tanh(B.conv(d["x"], p["K1"], p["c1"])))
    h = B.avgpool2(B.tanh(B.conv(h, p["K2"], p["c2"])))
    h = B.flatten(h)
    h = B.tanh(B.linear(h, p["W1"], p["b1"]))
    h = B.tanh(B.linear(h, p["W2"], p["b2"]))
    return B.xent(B.linear(h, p["W3"], p["b3"]), d["y"])


def W8(B, p, d):
    h = B.relu(B.linear(d["x"], p["W1"], p["b1"]))
    h = B.relu(B.linear(h, p["W2"], p["b2"]))
    return B.mse(B.linear(h, p["W3"], p["b3"]), d["y"])


def W9(B, p, d):
    y = B.layernorm(B.gelu(d["x"] * p["a"] + p["b"]), p["g"], p["h"])
    return B.sum(y * d["ct"]) * (1.0 / (4096 * 512))


LOSS = {"W1": W1, "W2": W2, "W3": W3, "W4": W4, "W6": W6, "W7": W7, "W8": W8, "W9": W9}

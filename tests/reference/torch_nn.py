"""Writes torch_nn.json: what PyTorch's cells, attention and RMS norm give, for the tests that hold gtensor to it.

Run it where PyTorch is installed (the stored numbers are of 2.13.0 on a CPU): `python tests/reference/torch_nn.py`.
Everything is float64; inputs and weights are seeded and rounded to three digits, so that the file stays small.
Weights are stored as gtensor has them, [in, out], masks as PyTorch's modules have them.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

INPUTS, SIZE, BATCH, STEPS = 3, 4, 2, 5
EMBED, HEADS, LENGTH, OTHER = 6, 2, 3, 4


def rounded(module: torch.nn.Module) -> torch.nn.Module:
    """The module with its weights redrawn and rounded."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(normal(*parameter.shape))
    return module


def normal(*shape: int) -> torch.Tensor:
    return torch.round(torch.randn(*shape), decimals=3)


def cell(kind: type[torch.nn.RNNCellBase]) -> dict:
    module, xs, h = rounded(kind(INPUTS, SIZE)), normal(STEPS, BATCH, INPUTS), normal(BATCH, SIZE)
    state = (h, normal(BATCH, SIZE)) if kind is torch.nn.LSTMCell else h
    first, outputs = state, []
    for x in xs:
        state = module(x, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    params = {
        "input": {"w": module.weight_ih.T, "b": module.bias_ih},
        "hidden": {"w": module.weight_hh.T, "b": module.bias_hh},
    }
    return {"params": params, "xs": xs, "first": first, "outputs": torch.stack(outputs), "last": state}


def attention() -> dict:
    module = rounded(torch.nn.MultiheadAttention(EMBED, HEADS, batch_first=True))
    x, context = normal(BATCH, LENGTH, EMBED), normal(BATCH, OTHER, EMBED)
    causal = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
    added, padding = normal(LENGTH, OTHER), torch.tensor([[False, False, True, False], [True, False, False, True]])

    def run(other: torch.Tensor, **masks: torch.Tensor) -> torch.Tensor:
        return module(x, other, other, need_weights=False, **masks)[0]

    return {
        "params": {
            "qkv": {"w": module.in_proj_weight.T, "b": module.in_proj_bias},
            "out": {"w": module.out_proj.weight.T, "b": module.out_proj.bias},
        },
        "x": x, "context": context, "added": added, "padding": padding,
        "self": run(x), "causal": run(x, attn_mask=causal), "other": run(context),
        "with added": run(context, attn_mask=added), "with padding": run(context, key_padding_mask=padding),
    }  # fmt: skip


def rms_norm() -> dict:
    x, weight = normal(2, 3, 4), normal(4)
    return {
        "x": x, "weight": weight,
        "plain": torch.nn.functional.rms_norm(x, (4,)),
        "weighted": torch.nn.functional.rms_norm(x, (4,), weight, eps=0.1),
    }  # fmt: skip


def plain(value: object) -> object:
    """Tensors as lists, through dicts and tuples."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple) else value.tolist()


if __name__ == "__main__":
    found = {
        "Elman": cell(torch.nn.RNNCell), "GRU": cell(torch.nn.GRUCell), "LSTM": cell(torch.nn.LSTMCell),
        "attention": attention(), "rms_norm": rms_norm(),
    }  # fmt: skip
    Path(__file__).with_suffix(".json").write_text(json.dumps(plain(found)) + "\n", encoding="utf-8")

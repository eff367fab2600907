"""Writes torch_mlp.safetensors and torch_mlp.json: the weights of a small PyTorch classifier, inputs, and its logits.

Run it where PyTorch and safetensors are installed (the stored file is of torch 2.13.0):
`python tests/reference/torch_mlp.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
x = torch.round(torch.randn(5, 8), decimals=3)

save_file(model.state_dict(), str(HERE.with_suffix(".safetensors")))
found = {"x": x.tolist(), "logits": model(x).tolist()}
HERE.with_suffix(".json").write_text(json.dumps(found) + "\n", encoding="utf-8")

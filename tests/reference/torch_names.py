"""Writes torch_names.json: what PyTorch gives for the lines of docs/coming-from.md that are for its users.

Run it from the root of the repository where PyTorch is installed (the stored numbers are of 2.13.0 on a CPU):
`python -m tests.reference.torch_names`. Floats are rounded to seven digits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional

from tests.torch_calls import OPERANDS, calls


def plain(value: Any) -> Any:
    """A result as numbers, lists and its dtype."""
    if isinstance(value, torch.Size | tuple | list):
        return [plain(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value
    floats = value.dtype.is_floating_point
    numbers = [float(f"{n:.7g}") if floats else n for n in value.flatten().tolist()]
    return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "values": numbers}


def main() -> None:
    """Evaluate each line."""
    torch.manual_seed(0)
    found = {}
    for text in calls():
        names = {name: torch.tensor(array) for name, array in OPERANDS.items()}
        found[text] = plain(eval(text, {"torch": torch, "F": torch.nn.functional, **names}))
    lines = ",\n".join(f"{json.dumps(text)}: {json.dumps(value)}" for text, value in found.items())
    Path(__file__).with_suffix(".json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

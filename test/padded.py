"""The small target with more experts, as many as tensor-parallel ranks: the same function, other sizes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def pad_experts(target: Path, out: Path, count: int) -> Path:
    """A copy of `target` in `out` with `count` routed experts; the added ones are copies that are never routed to."""
    out.mkdir(parents=True)
    config = json.loads((target / "config.json").read_text())
    have = config["n_routed_experts"]
    tensors = load_file(target / "model.safetensors")
    for name, tensor in list(tensors.items()):
        if name.endswith("mlp.gate.weight"):
            tensors[name] = torch.cat([tensor, tensor[: count - have]])
        elif name.endswith("e_score_correction_bias"):
            tensors[name] = torch.cat([tensor, torch.full((count - have,), -1e4, dtype=tensor.dtype)])
        elif ".mlp.experts.0." in name:
            for number in range(have, count):
                tensors[name.replace(".experts.0.", f".experts.{number}.")] = tensor.clone()
    save_file(tensors, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(config | {"n_routed_experts": count}))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(target / name, out / name)
    return out

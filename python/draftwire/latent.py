"""The same MLA target with a wider latent: a geometry that SGLang's Triton decode kernel can compile.

The kernel rounds the latent, and the latent with its rope part, up to powers of two and needs both to be
the same (or 512 + 64, 256 + 32): 64 + 16 ends in "incompatible dimensions at index 1: 64 and 128".
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def triple_latent(target: Path, out: Path) -> Path:
    """A copy of `target` in `out` with three times its `kv_lora_rank` that computes the same function.

    The latent stands there three times, which leaves RMSNorm's mean as it was; kv_b_proj takes it by a half
    and two quarters, so no weight is rounded. Single-file checkpoints.
    """
    import torch
    from safetensors.torch import load_file, save_file

    config = json.loads((target / "config.json").read_text())
    rank = config["kv_lora_rank"]
    tensors = load_file(target / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("kv_a_proj_with_mqa.weight"):
            tensors[name] = torch.cat([tensor[:rank].repeat(3, 1), tensor[rank:]])
        elif name.endswith("kv_b_proj.weight"):
            tensors[name] = torch.cat([tensor / 2, tensor / 4, tensor / 4], dim=1)
        elif name.endswith("kv_a_layernorm.weight"):
            tensors[name] = tensor.repeat(3)
    out.mkdir(parents=True)
    save_file(tensors, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(config | {"kv_lora_rank": 3 * rank}, indent=2))
    for file in target.glob("tokenizer*"):
        shutil.copy(file, out / file.name)
    return out

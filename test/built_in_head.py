"""The example's target with an MTP layer, as DeepSeek's checkpoints have one behind the last. Nobody trained it: the
layer is a copy of the last one, fed the sum of its two inputs."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def with_built_in_head(target: Path, folder: Path) -> Path:
    """Written to `folder`, which is returned."""
    shutil.copytree(target, folder)
    config = json.loads((folder / "config.json").read_text())
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    (folder / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": 1}))
    tensors = {name: t for file in folder.glob("*.safetensors") for name, t in load_file(file).items()}
    last, mine = f"model.layers.{layers - 1}.", f"model.layers.{layers}."
    head = {mine + name.removeprefix(last): t.clone() for name, t in tensors.items() if name.startswith(last)}
    ones = torch.ones(hidden, dtype=torch.bfloat16)
    head |= {f"{mine}{name}.weight": ones.clone() for name in ("enorm", "hnorm")}
    head[f"{mine}eh_proj.weight"] = torch.eye(hidden, dtype=torch.bfloat16).repeat(1, 2)
    head[f"{mine}shared_head.norm.weight"] = tensors["model.norm.weight"].clone()
    save_file(head, folder / "model-of-the-head.safetensors")
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    return folder

"""The example's draft damaged in one place each, and the axis that must be named for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file

from draftwire.pair import example_pair

Tensors = dict[str, torch.Tensor]


class Damage(NamedTuple):
    axis: str
    config: dict[str, Any]
    edit: Callable[[Tensors], None] | None = None


def swap_blocks(tensors: Tensors) -> None:
    first, second, third = tensors["fc.weight"].chunk(3, dim=1)
    tensors["fc.weight"] = torch.cat([second, first, third], dim=1)


def write_target_ids(tensors: Tensors) -> None:
    tensors["d2t"] = tensors["d2t"] + torch.arange(len(tensors["d2t"]))


def add_joint_norm(tensors: Tensors) -> None:
    tensors["input_norm.weight"] = torch.ones(576, dtype=torch.bfloat16)


def add_norms(tensors: Tensors) -> None:
    tensors |= {f"fc_norm.{i}.weight": torch.ones(192, dtype=torch.bfloat16) for i in range(3)}


def ids(values: list[int]) -> dict[str, Any]:
    return {"eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": values}}


def rope(kind: str, **block: float) -> dict[str, Any]:
    return {"rope_scaling": {"rope_type": kind, **block}}


DAMAGES = {
    "swapped_blocks": Damage("order", {}, swap_blocks),
    "outputs_as_boundaries": Damage("boundaries", ids([2, 5, 8])),
    "without_the_embedding": Damage("boundaries", ids([3, 6, 9])),
    "target_ids_in_d2t": Damage("d2t", {}, write_target_ids),
    "theta": Damage("rope_theta", {"rope_theta": 100.0}),
    "linear_rope": Damage("rope_scaling", rope("linear", factor=8.0)),
    "yarn_magnitude": Damage(
        "yarn_magnitude", rope("yarn", factor=1.0, attn_factor=1.416, original_max_position_embeddings=4096)
    ),
    "normed_residual": Damage("norm_before_residual", {"norm_before_residual": True}),
    "normed_output": Damage("norm_output", {"norm_output": True}),
    "joint_norm": Damage("norm_before_fc", {"norm_before_fc": True}, add_joint_norm),
    "norm_of_each_state": Damage("fc_norm", {"fc_norm": True}, add_norms),
    "window": Damage("window", {"layer_types": ["sliding_attention"], "sliding_window": 16}),
}


def damage(folder: Path, config: dict[str, Any] | None = None, edit: Callable[[Tensors], None] | None = None) -> Path:
    """A copy of the example's draft in `folder` with other config keys and tensors."""
    folder.mkdir(parents=True)
    source = example_pair().draft
    tensors = load_file(source / "model.safetensors")
    if edit is not None:
        edit(tensors)
    table = json.loads((source / "config.json").read_text()) | (config or {})
    (folder / "config.json").write_text(json.dumps(table))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder

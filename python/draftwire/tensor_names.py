"""Trainers' names of a draft's tensors as SGLang's. Imported by every process that serves: standard library alone."""

from __future__ import annotations

import re

LEGACY = {"midlayer.": "layers.0.", "aux_norm_low.": "fc_norm.0.", "aux_norm_mid.": "fc_norm.1.",
          "aux_norm_high.": "fc_norm.2."}  # fmt: skip


def rename(name: str, *, speculators: bool = False) -> str:
    """SGLang's name for a trainer's tensor. SGLang's later layers call their first norm hidden_norm."""
    name = name.removeprefix("model.")
    for old, new in LEGACY.items():
        if name.startswith(old):
            name = new + name.removeprefix(old)
    later = re.fullmatch(r"(layers\.[1-9]\d*)\.input_layernorm\.weight", name) if speculators else None
    return f"{later[1]}.hidden_norm.weight" if later else name

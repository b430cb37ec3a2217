"""The drafts that speculators' trainer can make for EAGLE-3, by name, and a few that stretch one thing each."""

from __future__ import annotations

import itertools
from typing import Any

VOCABULARY = 1024
REDUCED = 640
WINDOW = 64
BEFORE_FC = {"plain": {}, "before_fc": {"norm_before_fc": True}, "fc_norm": {"fc_norm": True}}
TRAINERS_DEFAULT = "llama-residual-before_fc-output-reduced-window"
FULL = "qwen3-residual-fc_norm-pre-whole-full"


def combinations() -> list[dict[str, Any]]:
    """Norm flags (of which two exclude each other) x vocabularies x architectures x with and without a window."""
    cases = []
    for arch, residual, before, output, vocabulary, window in itertools.product(
        ("llama", "qwen3"), (True, False), BEFORE_FC, (True, False), ("reduced", "whole"), (True, False)
    ):
        names = [arch, "residual" if residual else "raw", before, "output" if output else "pre", vocabulary]
        cases.append(
            {
                "name": "-".join([*names, "window" if window else "full"]),
                "arch": arch,
                "norm_before_residual": residual,
                **BEFORE_FC[before],
                "norm_output": output,
                "draft_vocab": REDUCED if vocabulary == "reduced" else VOCABULARY,
                "windows": [WINDOW] if window else None,
                "boundaries": [0, 3, 6],
            }
        )
    return cases


def stretched() -> list[dict[str, Any]]:
    """Two and three layers, a window in one of them, two and four captured states, an embedding that was trained."""
    base = {"arch": "llama", "draft_vocab": REDUCED, "norm_before_residual": True, "boundaries": [0, 3, 6]}
    return [
        {**base, "name": "three_layers", "arch": "qwen3", "layers": 3, "norm_before_fc": True},
        {**base, "name": "mixed_windows", "windows": [WINDOW, None], "norm_output": True},
        {**base, "name": "four_states", "boundaries": [0, 3, 6, 9]},
        {**base, "name": "two_states", "boundaries": [2, 9], "fc_norm": True},
        {**base, "name": "boundary_1", "boundaries": [1, 5, 9]},
        {**base, "name": "own_embedding", "own_embedding": True},
    ]


def other_widths() -> list[dict[str, Any]]:
    """Drafts narrower and wider than the target's 192: speculators builds their fc, 576 wide, as of six states of the
    draft's own width 96, or two of 288; in service it takes three of the target's. And RoPE with YaRN."""
    base = {"arch": "llama", "draft_vocab": REDUCED, "norm_before_residual": True, "norm_before_fc": True}
    served = {"eagle_aux_hidden_state_layer_ids": [0, 3, 6], "target_hidden_size": 192}
    yarn = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 8.0, "original_max_position_embeddings": 64}
    return [
        {**base, "name": "narrower", "hidden": 96, "boundaries": [0, 2, 4, 6, 8, 10], "served": served},
        {**base, "name": "wider", "hidden": 288, "boundaries": [3, 6], "served": served, "norm_before_residual": False},
        {**base, "name": "yarn", "boundaries": [0, 3, 6], "rope": yarn},
        {
            **base,
            "name": "yarn_mscale",
            "boundaries": [0, 3, 6],
            "rope": {**yarn, "mscale": 1.0, "mscale_all_dim": 1.0},
        },
    ]


def of_releases() -> dict[str, list[dict[str, Any]]]:
    """By release of speculators, what its trainer can make: no window, fc_norm and norm_output before 0.7."""
    base = {"draft_vocab": REDUCED, "boundaries": [0, 3, 6]}
    yarn = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 8.0, "original_max_position_embeddings": 64}
    early = [
        {**base, "name": "residual", "arch": "llama", "norm_before_residual": True},
        {**base, "name": "before_fc", "arch": "llama", "norm_before_fc": True, "layers": 2, "draft_vocab": VOCABULARY},
        {**base, "name": "qwen", "arch": "qwen3", "norm_before_residual": True},
        {**base, "name": "yarn", "arch": "llama", "norm_before_residual": True, "rope": yarn},
    ]
    late = [
        *early,
        {**base, "name": "qwen_window", "arch": "qwen3", "norm_before_residual": True, "windows": [WINDOW]},
        {**base, "name": "output", "arch": "llama", "norm_before_residual": True, "fc_norm": True, "norm_output": True,
         "windows": [WINDOW], "boundaries": [2, 9]},
    ]  # fmt: skip
    return {"0.5.0": early, "0.6.0": early, "0.7.0": late, "0.8.0": late, "0.8.1": late}

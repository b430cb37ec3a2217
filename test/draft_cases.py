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

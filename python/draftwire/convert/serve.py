"""The launch flags that a converted draft needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftwire.convert.flatten import Flat


def serve_flags(config: dict[str, Any], flat: Flat, out: Path) -> dict[str, Any]:
    """SGLang's own flags by name, for a file of `--config`.

    A trainer's window of W keys counts the token's own; SGLang's counts the keys before it, so W - 1 is written. A
    window that not every layer has is no flag: the overlay reads it from the config.
    """
    flags: dict[str, Any] = {
        "speculative-algorithm": "EAGLE3",
        "speculative-draft-model-path": str(out.absolute()),
        "speculative-num-steps": flat.steps,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": flat.steps + 1,
    }
    types = config.get("layer_types") or []
    if types and set(types) == {"sliding_attention"}:
        flags["speculative-draft-window-size"] = config["sliding_window"] - 1
    return flags

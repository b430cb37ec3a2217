"""The launch flags that a converted draft needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftwire.convert.flatten import Flat
from draftwire.draft import DraftError


def serve_flags(config: dict[str, Any], flat: Flat, out: Path) -> dict[str, Any]:
    """SGLang's own flags by name, for a file of `--config`.

    A trainer's window of W keys counts the token's own; SGLang's counts the keys before it, so W - 1 is written. A
    window that not every layer has is no flag: the overlay reads it from the config. Raises DraftError on a path that
    the file cannot hold.
    """
    place = str(out.absolute())
    try:
        place.encode()
    except UnicodeEncodeError:
        raise DraftError("an output path in UTF-8", repr(place), "OUT", "name another place") from None
    flags: dict[str, Any] = {
        "speculative-algorithm": "EAGLE3",
        "speculative-draft-model-path": place,
        "speculative-num-steps": flat.steps,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": flat.steps + 1,
    }
    types = config.get("layer_types") or []
    if types and set(types) == {"sliding_attention"}:
        flags["speculative-draft-window-size"] = config["sliding_window"] - 1
    return flags

"""Which layers attend to a window, and how wide it is, as the trainer's own classes read its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from draftwire.draft import DraftError

SLIDING, FULL = "sliding_attention", "full_attention"
# The first speculators whose EAGLE-3 forward builds a mask from layer_types; before, every layer attended to all.
SINCE = Version("0.7")
REMEDY = "write what the draft was trained with"


def read_windows(
    layer: Mapping[str, Any], layers: int, trainer: Version | None, source: object
) -> tuple[list[str], int, list[str]]:
    """The type of each layer, the window in tokens (the token's own included) and what is worth saying.

    No types and 0 where every layer attends to all tokens. trainer: speculators' version, None for other trainers.
    Qwen3's config class drops `sliding_window` unless `use_sliding_window` is true, and where `layer_types` is missing
    gives the window to the layers from `max_window_layers` (28) on. Raises DraftError where the keys contradict.
    """
    types, window, used = layer.get("layer_types"), layer.get("sliding_window"), layer.get("use_sliding_window")
    if used is not None and not isinstance(used, bool):
        raise DraftError("use_sliding_window as true or false", repr(used), source, REMEDY)
    qwen = layer.get("model_type") == "qwen3"
    if types is None and qwen and used and window is not None:
        types = _from_depth(layer, layers, source)
    if types is None:
        return [], 0, _unused(window, "no layer_types", qwen and not used)
    fits = isinstance(types, list) and len(types) == layers and all(kind in (SLIDING, FULL) for kind in types)
    if fits and SLIDING not in types:
        return [], 0, []
    if fits and qwen and not used:
        return [], 0, ["layer_types name a window and use_sliding_window is off: Qwen3's layers attend to all tokens"]
    if fits and trainer is not None and trainer < SINCE:
        return [], 0, [f"layer_types name a window; speculators {trainer} trained without: all tokens are attended to"]
    if not fits or type(window) is not int or not 0 < window < 2**31:
        raise DraftError(
            f"layer_types for {layers} layers and a sliding_window", f"{types} and {window!r}", source, REMEDY
        )
    if window == 1:
        raise DraftError(
            "a sliding_window of 2 tokens or more", 1, source,
            "train with a wider window: no SGLang backend was shown to serve one of the token alone",
        )  # fmt: skip
    if used is False:
        raise DraftError("use_sliding_window true beside layer_types with a window", "false", source, REMEDY)
    return types, window, [f"attention over the last {window} tokens in {types.count(SLIDING)} layer(s)"]


def _from_depth(layer: Mapping[str, Any], layers: int, source: object) -> list[str]:
    first = layer.get("max_window_layers", 28)
    if type(first) is not int or first < 0:
        raise DraftError("max_window_layers as a whole number", repr(first), source, REMEDY)
    return [SLIDING if i >= first else FULL for i in range(layers)]


def _unused(window: Any, why: str, is_off: bool) -> list[str]:
    if window is None or is_off:
        return []
    return [f"sliding_window {window!r} beside {why}: no trainer's class applies it, all tokens are attended to"]

"""A RoPE block that means the same to SGLang as it meant to the trainer, in every supported release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from draftwire.draft import DraftError

KEPT = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate"),
}
OPTIONAL = {"beta_fast", "beta_slow", "truncate"}


def rope_block(layer: Mapping[str, Any], source: object) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` for the draft's config. `layer`: the trainer's transformer config, in the form
    of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters).

    YaRN: trainers multiply cos and sin by `attention_factor`, else by get(mscale) / get(mscale_all_dim), else by
    get(1), where get(m) = 0.1 m ln(factor) + 1 (transformers' `_compute_yarn_parameters`). SGLang reads mscale from
    0.5.16 on only and attention_factor never, but multiplies get(1) by `attn_factor` in all releases: that says it.
    Raises DraftError on a type or key that SGLang's draft would not honour.
    """
    block = layer.get("rope_parameters")
    if block is None:
        scaling = layer.get("rope_scaling") or {}
        block = {"rope_theta": layer.get("rope_theta", 10000.0), **scaling} if isinstance(scaling, dict) else scaling
    if not isinstance(block, dict):
        raise DraftError("a table", repr(block), f"rope_parameters of {source}", "write the trainer's RoPE block")
    block = {key: value for key, value in block.items() if value is not None}
    if isinstance(block.get("sliding_attention"), dict):
        block = dict(block["sliding_attention"])
    kind = block.pop("rope_type", block.pop("type", "default"))
    block.pop("type", None)
    theta = block.pop("rope_theta", layer.get("rope_theta", 10000.0))
    if kind not in list(KEPT):
        raise DraftError(f"a RoPE of type {', '.join(KEPT)}", repr(kind), source, "other types are not proven here")
    if block.pop("partial_rotary_factor", 1.0) != 1.0 or layer.get("partial_rotary_factor", 1.0) not in (None, 1.0):
        raise DraftError("RoPE over the whole head", "partial_rotary_factor", source, "SGLang's draft rotates it all")
    scaling = {key: block.pop(key) for key in KEPT[kind] if key in block}
    if lacks := [key for key in KEPT[kind] if key not in scaling and key not in OPTIONAL]:
        raise DraftError(f"{lacks[0]} of a {kind} RoPE block", "none", source, "write the trainer's RoPE block")
    _require_numbers({"rope_theta": theta, **scaling}, source)
    if kind == "yarn":
        scaling["attn_factor"] = _magnitude(block, scaling["factor"], source) / _get(scaling["factor"], 1.0)
    block.pop("original_max_position_embeddings", None) if kind in ("default", "linear") else None
    for key in ("attention_factor", "mscale", "mscale_all_dim"):
        block.pop(key, None)
    if block:
        raise DraftError(f"a {kind} RoPE block", f"also {sorted(block)[0]!r}", source, "SGLang's draft ignores it")
    return {"rope_theta": float(theta), "rope_scaling": {"rope_type": kind, **scaling} if kind != "default" else None}


def _magnitude(block: Mapping[str, Any], factor: float, source: object) -> float:
    _require_numbers({k: block[k] for k in ("attention_factor", "mscale", "mscale_all_dim") if k in block}, source)
    if "attention_factor" in block:
        return float(block["attention_factor"])
    if block.get("mscale") and block.get("mscale_all_dim"):
        return _get(factor, block["mscale"]) / _get(factor, block["mscale_all_dim"])
    return _get(factor, 1.0)


def _get(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _require_numbers(values: Mapping[str, Any], source: object) -> None:
    for key, value in values.items():
        wanted = bool if key == "truncate" else (int, float)
        if not isinstance(value, wanted) or (key != "truncate" and (isinstance(value, bool) or not 0 < value < 1e12)):
            raise DraftError(f"a positive number for {key}", repr(value), source, "write the trainer's RoPE block")

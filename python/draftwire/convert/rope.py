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
LAYER_TYPES = ("full_attention", "sliding_attention")
REMEDY = "write the trainer's RoPE block"


def rope_block(layer: Mapping[str, Any], source: object, *, also: str = "") -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` for the draft's config. `layer`, `also`: as for `read_block`.

    YaRN: trainers multiply cos and sin by `attention_factor`, else by get(mscale) / get(mscale_all_dim), else by
    get(1), where get(m) = 0.1 m ln(factor) + 1 (transformers' `_compute_yarn_parameters`). SGLang reads mscale from
    0.5.16 on only and attention_factor never, but multiplies get(1) by `attn_factor` in all releases: that says it.
    Raises DraftError on a type or key that SGLang's draft would not honour.
    """
    theta, kind, block = read_block(layer, source, also)
    if kind not in list(KEPT):
        raise DraftError(f"a RoPE of type {', '.join(KEPT)}", repr(kind), source, "train with one of these")
    if block.pop("partial_rotary_factor", 1.0) != 1.0 or layer.get("partial_rotary_factor", 1.0) not in (None, 1.0):
        raise DraftError(
            "RoPE over the whole head", "partial_rotary_factor", source, "train without it: SGLang's draft rotates all"
        )
    scaling = {key: block.pop(key) for key in KEPT[kind] if key in block}
    if lacks := [key for key in KEPT[kind] if key not in scaling and key not in OPTIONAL]:
        raise DraftError(f"{lacks[0]} of a {kind} RoPE block", "none", source, REMEDY)
    require_numbers({"rope_theta": theta, **scaling}, source)
    if kind == "yarn":
        scaling["attn_factor"] = _magnitude(block, scaling["factor"], source) / _get(scaling["factor"], 1.0)
    block.pop("original_max_position_embeddings", None) if kind in ("default", "linear") else None
    for key in ("attention_factor", "mscale", "mscale_all_dim"):
        block.pop(key, None)
    if block:
        raise DraftError(
            f"a {kind} RoPE block", f"also {sorted(block)[0]!r}", source, "train without it: SGLang's draft ignores it"
        )
    return {"rope_theta": float(theta), "rope_scaling": {"rope_type": kind, **scaling} if kind != "default" else None}


def read_block(layer: Mapping[str, Any], source: object, also: str = "") -> tuple[Any, Any, dict[str, Any]]:
    """The base, the type and the further keys of the RoPE, unchecked, as the trainer's transformers read them.

    layer: the trainer's transformer config, in the form of transformers 4 (`rope_theta`, `rope_scaling`), of 5
    (`rope_parameters`, one block or one a layer type) or of both. also: the layer type whose block the trainer gives to
    every layer: sliding_attention in speculators (`flatten_rope_parameters`). Raises DraftError on what is no table,
    and where two places, or the layer types that the draft has and `also`, say different things.
    """
    old, block = layer.get("rope_scaling"), layer.get("rope_parameters")
    for name, table in (("rope_parameters", block), ("rope_scaling", old)):
        if table is not None and not isinstance(table, Mapping):
            raise DraftError("a table", repr(table), f"{name} of {source}", REMEDY)
    if block is None:
        return _normal(old or {}, layer.get("rope_theta"), source)
    theta = layer.get("rope_theta")
    found = _normal(_one_table(block, layer, source, also), theta, source)
    if theta is not None and theta != found[0]:
        raise DraftError(f"rope_theta {found[0]}, as in rope_parameters", theta, source, REMEDY)
    if old and (said := _normal(_one_table(old, layer, source, also), found[0], source)) != found:
        raise DraftError(
            f"rope_scaling of type {found[1]!r} with {found[2]}, as in rope_parameters", f"{said[1]!r} with {said[2]}",
            source, REMEDY,
        )  # fmt: skip
    return found


def _one_table(table: Mapping[str, Any], layer: Mapping[str, Any], source: object, also: str) -> Mapping[str, Any]:
    """The table itself, or the one of the layer types that the draft has, where it holds a table for each type."""
    if not any(kind in table for kind in LAYER_TYPES):
        return table
    types = layer.get("layer_types")
    used = sorted({*(map(str, types) if isinstance(types, list) and types else ["full_attention"]), also} - {""})
    tables = []
    for kind in used:
        if not isinstance(one := table.get(kind), Mapping):
            raise DraftError(f"a RoPE block for {kind} layers", repr(one), source, REMEDY)
        tables.append(one)
    if beside := sorted(key for key, value in table.items() if key not in LAYER_TYPES and value is not None):
        raise DraftError("RoPE blocks by layer type alone", f"also {beside[0]!r}", source, REMEDY)
    theta = layer.get("rope_theta")
    if any(_normal(one, theta, source) != _normal(tables[0], theta, source) for one in tables):
        raise DraftError(
            "one RoPE for all of the draft's layers", f"another for each of {', '.join(used)}", source,
            "train with one RoPE: SGLang's draft has no more",
        )  # fmt: skip
    return tables[0]


def _normal(table: Mapping[str, Any], theta: Any, source: object) -> tuple[Any, Any, dict[str, Any]]:
    block = {key: value for key, value in table.items() if value is not None}
    old, kind = block.pop("type", None), block.pop("rope_type", None)
    if None not in (old, kind) and old != kind:
        raise DraftError(f"rope_type {old!r}, as type says", repr(kind), source, REMEDY)
    kind = kind if kind is not None else "default" if old is None else old
    return block.pop("rope_theta", 10000.0 if theta is None else theta), kind, block


def _magnitude(block: Mapping[str, Any], factor: float, source: object) -> float:
    require_numbers({k: block[k] for k in ("attention_factor", "mscale", "mscale_all_dim") if k in block}, source)
    if "attention_factor" in block:
        return float(block["attention_factor"])
    if block.get("mscale") and block.get("mscale_all_dim"):
        return _get(factor, block["mscale"]) / _get(factor, block["mscale_all_dim"])
    return _get(factor, 1.0)


def _get(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def require_numbers(values: Mapping[str, Any], source: object) -> None:
    """Raises DraftError on a value that is no positive finite number (`truncate`: no bool)."""
    for key, value in values.items():
        wanted = bool if key == "truncate" else (int, float)
        if not isinstance(value, wanted) or (key != "truncate" and (isinstance(value, bool) or not 0 < value < 1e12)):
            raise DraftError(f"a positive number for {key}", repr(value), source, REMEDY)

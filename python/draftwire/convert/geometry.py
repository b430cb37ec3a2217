"""Sizes of the draft's layers, from a config that may leave out its class's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftwire.draft import DraftError

REMEDY = "write what the draft was trained with"
# What transformers fills in where a saved config says nothing (speculators saves the difference from them).
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
              "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6},
    "qwen3": {"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
              "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
              "rms_norm_eps": 1e-6},
}  # fmt: skip
SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "max_position_embeddings")  # fmt: skip
# The names under which SGLang knows a DeepSeek config; flat Llama drafts of such targets bear them too.
MLA_TYPES = ("kimi_k2", "deepseek_v3")
MLA_SIZES = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def read_geometry(layer: Mapping[str, Any], outer: Mapping[str, Any], layout: str, source: object) -> dict[str, Any]:
    """Sizes and switches of the draft's layers, complete: no key is left to a default of the reader.

    layer: the table that holds them. outer: the draft's config, with draft_vocab_size and dtype. Raises DraftError on
    a size that is missing or no positive whole number, and on a layer that SGLang's draft classes do not build.
    """
    kind = layer.get("model_type")
    kinds = list(MLA_TYPES if layout == "mla" else DEFAULTS if layout == "speculators" else [*DEFAULTS, *MLA_TYPES])
    if kind not in kinds:
        raise DraftError(
            f"model_type {' or '.join(kinds)}", repr(kind), source, "write the class that trained the layers"
        )
    # Saved differences only: other layouts are read by the class that wrote them, which is Llama's too.
    values = {**DEFAULTS.get(kind, {}), **{k: v for k, v in layer.items() if v is not None}}
    out: dict[str, Any] = {"model_type": "llama" if layout != "mla" else kind}
    for key in SIZES:
        out[key] = _size(values, key, source)
    heads = out["num_attention_heads"]
    values.setdefault("num_key_value_heads", heads)
    out["num_key_value_heads"] = _size(values, "num_key_value_heads", source)
    if layout == "mla":
        out |= {key: _size(values, key, source) for key in MLA_SIZES}
    else:
        values.setdefault("head_dim", out["hidden_size"] // heads)
        out["head_dim"] = _size(values, "head_dim", source)
        if heads % out["num_key_value_heads"]:
            raise DraftError(f"num_key_value_heads that divide {heads}", out["num_key_value_heads"], source, REMEDY)
    out["rms_norm_eps"] = _epsilon(values.get("rms_norm_eps", 1e-6), source)
    out["hidden_act"] = values.get("hidden_act", "silu")
    for key, wanted in (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False), ("bias", False)):
        if values.get(key, wanted) != wanted:
            raise DraftError(
                f"{key} {wanted}", values[key], source, f"train with {key} {wanted}: SGLang's draft builds no other"
            )
    out |= _vocabulary(values, outer, layout, source)
    dtype = outer.get("dtype") or outer.get("torch_dtype")
    out["torch_dtype"] = dtype if dtype in ("bfloat16", "float16", "float32") else "bfloat16"
    out |= {key: layer.get(key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return out


def _vocabulary(values: Mapping[str, Any], outer: Mapping[str, Any], layout: str, source: object) -> dict[str, Any]:
    sizes = dict(values, draft_vocab_size=outer.get("draft_vocab_size"))
    if sizes["draft_vocab_size"] is None:
        sizes["draft_vocab_size"] = 32000 if layout == "speculators" else sizes["vocab_size"]
    size = _size(sizes, "draft_vocab_size", source)
    if size > values["vocab_size"]:
        raise DraftError(f"draft_vocab_size of at most {values['vocab_size']}", size, source, REMEDY)
    # speculators always trains a head of its own, whatever the layer's config says.
    tied = layout != "speculators" and bool(values.get("tie_word_embeddings", False))
    if tied and size < values["vocab_size"]:
        raise DraftError(
            "an lm_head of its own for a reduced vocabulary", "tie_word_embeddings", source,
            "store the head: the embedding has a row for every token of the target",
        )  # fmt: skip
    return {"draft_vocab_size": size, "tie_word_embeddings": tied}


def _size(values: Mapping[str, Any], key: str, source: object) -> int:
    value = values.get(key)
    if type(value) is not int or not 0 < value < 2**31:
        raise DraftError(f"{key} as a positive whole number", repr(value), source, REMEDY)
    return value


def _epsilon(value: Any, source: object) -> float:
    if type(value) is not float or not 0 < value < 1:
        raise DraftError("rms_norm_eps between 0 and 1", repr(value), source, REMEDY)
    return float(value)

"""The switches of a draft's config about its norms, as SGLang and draftwire read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftwire.draft import Draft
from draftwire.features import REQUIRES

NESTED_WINS = ("norm_before_fc", "norm_before_residual")
QK_NORMS = ("self_attn.q_norm.weight", "self_attn.k_norm.weight")


def eagle_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of that name, empty where there is none."""
    nested = config.get("eagle_config")
    return nested if isinstance(nested, dict) else {}


def layer_config(draft: Draft) -> Mapping[str, Any]:
    """The table that describes the draft's layers: nested in a speculators config, the config elsewhere."""
    nested = draft.config.get("transformer_layer_config")
    return nested if isinstance(nested, dict) else draft.config


def required(config: Mapping[str, Any]) -> list[str]:
    """What the converter wrote that only the overlay serves; see features.KNOWN."""
    names = eagle_config(config).get(REQUIRES)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def is_on(config: Mapping[str, Any], name: str) -> bool:
    """A switch at the config's top or in `eagle_config`, which wins where SGLang or draftwire reads both."""
    nested = eagle_config(config)
    if name in NESTED_WINS and name in nested:
        return bool(nested[name])
    return bool(config.get(name) or nested.get(name))


def wants_qk_norm(draft: Draft) -> bool:
    """As Qwen3's layers have it. A flat draft that only calls itself qwen3 is served with Llama's layers, rightly where
    it has no such tensors."""
    if "qk_norm" in required(draft.config):
        return True
    layer = layer_config(draft)
    has_norms = any(name.endswith(QK_NORMS) for name in draft.tensors)
    return layer.get("model_type") == "qwen3" and (layer is not draft.config or has_norms)

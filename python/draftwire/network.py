"""A draft's layers out of `transformers`' own: Llama's and Qwen3's decoder layers, DeepSeek's latent attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import DeepseekV3Config, LlamaConfig, Qwen3Config
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen3 import modeling_qwen3 as qwen3

from draftwire.settings import Settings


class Family(NamedTuple):
    config: Any
    layer: Any
    rotary: Any
    norm: Any


FAMILIES = {
    "llama": Family(LlamaConfig, llama.LlamaDecoderLayer, llama.LlamaRotaryEmbedding, llama.LlamaRMSNorm),
    "qwen3": Family(Qwen3Config, qwen3.Qwen3DecoderLayer, qwen3.Qwen3RotaryEmbedding, qwen3.Qwen3RMSNorm),
    "mla": Family(DeepseekV3Config, deepseek.DeepseekV3DecoderLayer, deepseek.DeepseekV3RotaryEmbedding,
                  deepseek.DeepseekV3RMSNorm),
}  # fmt: skip
MLP_ROWS = 128  # at once: its inner values are the widest that the forward holds
WIDENED = ("q_proj", "k_proj", "v_proj", "q_a_proj", "kv_a_proj_with_mqa")


class FirstLayer(nn.Module):
    """EAGLE-3's first layer around a decoder layer of transformers: its attention reads [norm(e), norm(h)].

    embeds, hidden: [batch, rows, hidden] each. With `norm_before_residual` the residual is norm(h), else h.
    """

    def __init__(self, layer: nn.Module, norm: nn.Module, hidden_size: int, *, norm_before_residual: bool):
        super().__init__()
        self.layer, self.hidden_norm, self.norm_before_residual = layer, norm, norm_before_residual
        for name in WIDENED:
            if isinstance(old := getattr(layer.self_attn, name, None), nn.Linear):
                setattr(layer.self_attn, name, nn.Linear(2 * hidden_size, old.out_features, bias=False))

    def forward(self, embeds, hidden, **attention):
        normed = self.hidden_norm(hidden)
        residual = normed if self.norm_before_residual else hidden
        joined = torch.cat([self.layer.input_layernorm(embeds), normed], dim=-1)
        del normed
        attended, _ = self.layer.self_attn(hidden_states=joined, **attention)
        state = residual + attended
        del joined, attended
        parts = [self.layer.mlp(self.layer.post_attention_layernorm(rows)) for rows in state.split(MLP_ROWS, dim=1)]
        return state + torch.cat(parts, dim=1)


class Network(nn.Module):
    """The layers, norms and rotary embedding; neither fc, embedding nor head. Weights are on the meta device."""

    def __init__(self, geometry: Mapping[str, Any], settings: Settings, count: int):
        super().__init__()
        kind = "mla" if "kv_lora_rank" in geometry else "qwen3" if settings.qk_norm else "llama"
        family = FAMILIES[kind]
        self.config = _config(family, geometry, settings)
        hidden, eps = geometry["hidden_size"], geometry["rms_norm_eps"]
        captured = geometry["target_hidden_size"]
        with torch.device("meta"):
            norm = family.norm(hidden, eps=eps)
            layers = [family.layer(self.config, i) for i in range(geometry["num_hidden_layers"])]
            first = FirstLayer(layers[0], norm, hidden, norm_before_residual=settings.norm_before_residual)
            self.layers = nn.ModuleList([first, *layers[1:]])
            self.norm = family.norm(hidden, eps=eps)
            self.input_norm = family.norm(count * captured, eps=eps) if settings.norm_before_fc else None
            self.fc_norm = nn.ModuleList(family.norm(captured, eps=eps) for _ in range(count * settings.fc_norm))
        for module in self.modules():
            if hasattr(module, "variance_epsilon"):
                module.variance_epsilon = eps
        self.rotary = family.rotary(self.config)
        self.rotary.attention_scaling = settings.rope.magnitude


def _config(family: Family, geometry: Mapping[str, Any], settings: Settings) -> Any:
    keys = {k: v for k, v in geometry.items() if k not in ("architectures", "model_type", "torch_dtype")}
    rope = settings.rope
    keys["rope_parameters"] = {"rope_type": rope.kind, "rope_theta": rope.theta, **dict(rope.block)}
    if family.config is DeepseekV3Config:
        keys |= {"head_dim": geometry["qk_rope_head_dim"], "first_k_dense_replace": geometry["num_hidden_layers"]}
        keys["rope_parameters"] |= {k: v for k, v in geometry.get("latent_rope", {}).items()}
    keys["layer_types"] = ["full_attention"] * geometry["num_hidden_layers"]
    if family.config is DeepseekV3Config:
        keys.pop("layer_types")
    return family.config(**keys, attn_implementation="sdpa")

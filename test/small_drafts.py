"""Drafts of a few kilobytes in every layout, written to disk by hand, to be spoiled in one place by a test."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HIDDEN, INNER, HEADS, GROUPS, DIM, VOCABULARY, REDUCED, STATES = 16, 24, 4, 2, 4, 40, 10, 3
HOT = [1, 2, 3, 5, 8, 13, 21, 34, 35, 39]
Tensor = tuple[str, tuple[int, ...], bytes]


def floats(*shape: int) -> Tensor:
    """A float32 tensor, whose bytes tell its place: row-major numbers."""
    count = 1
    for size in shape:
        count *= size
    return "F32", shape, struct.pack(f"<{count}f", *range(count))


def integers(values: list[int]) -> Tensor:
    return "I64", (len(values),), struct.pack(f"<{len(values)}q", *values)


def booleans(values: list[bool]) -> Tensor:
    return "BOOL", (len(values),), bytes(values)


def layer(index: int, first: str = "input_layernorm") -> dict[str, Tensor]:
    width = 2 * HIDDEN if index == 0 else HIDDEN
    tensors = {
        "self_attn.q_proj": floats(HEADS * DIM, width), "self_attn.k_proj": floats(GROUPS * DIM, width),
        "self_attn.v_proj": floats(GROUPS * DIM, width), "self_attn.o_proj": floats(HIDDEN, HEADS * DIM),
        "mlp.gate_proj": floats(INNER, HIDDEN), "mlp.up_proj": floats(INNER, HIDDEN),
        "mlp.down_proj": floats(HIDDEN, INNER), "post_attention_layernorm": floats(HIDDEN), first: floats(HIDDEN),
    }  # fmt: skip
    if index == 0:
        tensors["hidden_norm"] = floats(HIDDEN)
    return {f"layers.{index}.{name}.weight": tensor for name, tensor in tensors.items()}


def tensors(layers: int = 1) -> dict[str, Tensor]:
    """Of a speculators draft with a reduced vocabulary and no norm before fc."""
    out = {"fc.weight": floats(HIDDEN, STATES * HIDDEN), "norm.weight": floats(HIDDEN)}
    out |= {"embed_tokens.weight": floats(VOCABULARY, HIDDEN), "lm_head.weight": floats(REDUCED, HIDDEN)}
    out |= {"d2t": integers([token - i for i, token in enumerate(HOT)])}
    out |= {"t2d": booleans([token in HOT for token in range(VOCABULARY)])}
    for index in range(layers):
        out |= layer(index)
    return out


def speculators_config(layers: int = 1, **changes: Any) -> dict[str, Any]:
    """changes: top-level keys; `layer` holds changes of the transformer_layer_config. None deletes a key."""
    of_layer = {
        "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "head_dim": DIM,
        "hidden_act": "silu", "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }  # fmt: skip
    config = {
        "speculators_model_type": "eagle3", "speculators_version": "0.9.0", "draft_vocab_size": REDUCED,
        "norm_before_residual": True, "norm_before_fc": False, "fc_norm": False, "norm_output": False,
        "embed_requires_grad": False, "eagle_aux_hidden_state_layer_ids": [0, 3, 6], "dtype": "float32",
        "speculators_config": {"verifier": {"architectures": ["DeepseekV3ForCausalLM"], "name_or_path": "nobody/none"}},
    }  # fmt: skip
    of_layer |= changes.pop("layer", {})
    config |= {"transformer_layer_config": {k: v for k, v in of_layer.items() if v is not None}, **changes}
    return {k: v for k, v in config.items() if v is not None}


def flat_config(**changes: Any) -> dict[str, Any]:
    """Of SpecForge, ModelOpt and SGLang's own examples: Llama's keys at the top. None deletes a key."""
    nested = {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [1, 4, 7]}
    config = {**speculators_config()["transformer_layer_config"], "architectures": ["LlamaForCausalLMEagle3"]}
    config |= {"draft_vocab_size": REDUCED, "torch_dtype": "float32", "eagle_config": nested, **changes}
    return {k: v for k, v in config.items() if v is not None}


def flat_tensors() -> dict[str, Tensor]:
    """Of SpecForge and SafeAILab: `midlayer`."""
    return {name.replace("layers.0.", "midlayer."): tensor for name, tensor in tensors().items()}


def target(folder: Path, architecture: str = "DeepseekV3ForCausalLM", layers: int = 12) -> Path:
    folder.mkdir(parents=True)
    config = {"architectures": [architecture], "num_hidden_layers": layers, "hidden_size": HIDDEN}
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": VOCABULARY}))
    return folder


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file."""
    entries, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + b"".join(data for _, _, data in tensors.values())


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], shards: int = 1) -> Path:
    """A draft directory; with more shards, an index beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    if shards == 1:
        (folder / "model.safetensors").write_bytes(pack(tensors))
        return folder
    places = {name: f"model-{i % shards + 1:05d}.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        (folder / file).write_bytes(pack({n: tensors[n] for n in names if places[n] == file}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder

"""Draft directories of any size that take no disk: a config, safetensors headers, and holes for the weights; vectors,
which are norms, are ones."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WIDTHS = {"BF16": 2, "I64": 8, "BOOL": 1}


def write_sparse(folder: Path, config: Mapping[str, Any], changes: Mapping[str, Any]) -> Path:
    """A draft with the tensors that its config asks for. changes: name -> shape, or dtype and shape."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    shapes: dict[str, tuple[str, list[int]]] = {name: ("BF16", shape) for name, shape in _shapes(config).items()}
    if config["draft_vocab_size"] != config["vocab_size"]:
        shapes["d2t"] = ("I64", [config["draft_vocab_size"]])
    for name, shape in changes.items():
        shapes[name] = (shape[0], shape[1:]) if isinstance(shape[0], str) else ("BF16", shape)
    write_header(folder / "model.safetensors", shapes)
    return folder


def write_header(file: Path, shapes: Mapping[str, tuple[str, list[int]]]) -> None:
    """A safetensors file whose matrices are holes, and whose vectors in bfloat16 are ones."""
    entries, at, vectors = {}, 0, []
    for name, (dtype, shape) in shapes.items():
        size = math.prod(shape) * WIDTHS[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        if dtype == "BF16" and len(shape) == 1:
            vectors.append((at, size))
        at += size
    header = json.dumps(entries).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        stream.truncate(8 + len(header) + at)
        for start, size in vectors:
            stream.seek(8 + len(header) + start)
            stream.write(b"\x80\x3f" * (size // 2))


def _shapes(config: Mapping[str, Any]) -> dict[str, list[int]]:
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    nested = config.get("eagle_config") or {}
    ids = nested.get("eagle_aux_hidden_state_layer_ids") or config.get("eagle_aux_hidden_state_layer_ids") or [0] * 3
    shapes = {
        "fc.weight": [hidden, len(ids) * config.get("target_hidden_size", hidden)],
        "norm.weight": [hidden],
        "lm_head.weight": [config["draft_vocab_size"], hidden],
    }
    layer = {norm: [hidden] for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm")}
    layer |= {"mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
    if "kv_lora_rank" in config:
        query, latent, rope = config["q_lora_rank"], config["kv_lora_rank"], config["qk_rope_head_dim"]
        nope, value = config["qk_nope_head_dim"], config["v_head_dim"]
        attention = {
            "q_a_proj": [query, 2 * hidden], "q_a_layernorm": [query], "q_b_proj": [heads * (nope + rope), query],
            "kv_a_proj_with_mqa": [latent + rope, 2 * hidden], "kv_a_layernorm": [latent],
            "kv_b_proj": [heads * (nope + value), latent], "o_proj": [hidden, heads * value],
        }  # fmt: skip
    else:
        groups, dim = config["num_key_value_heads"], config["head_dim"]
        attention = {"q_proj": [heads * dim, 2 * hidden], "o_proj": [hidden, heads * dim]}
        attention |= {name: [groups * dim, 2 * hidden] for name in ("k_proj", "v_proj")}
    layer |= {f"self_attn.{name}": shape for name, shape in attention.items()}
    return shapes | {f"midlayer.{name}.weight": shape for name, shape in layer.items()}

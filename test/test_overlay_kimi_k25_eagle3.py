"""The MLA draft in the real engine: its norm before fc, and a tensor that is missing.

No trainer's package has this network, so the oracle is upstream's own code: over one captured state, the norm before fc
that the overlay adds is the `fc_norm` that stock SGLang has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drafts_served import TARGET, DraftServer
from states import load_sample

from draftwire.convert import convert
from draftwire.pair import example_pair

pytestmark = pytest.mark.slow
HIDDEN, WIDE, INNER, HEADS, VOCABULARY = 96, 192, 256, 8, 1024
SIZES = {"q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16}


def weights() -> dict:
    import torch

    torch.manual_seed(5)
    shapes = {
        "fc": (HIDDEN, WIDE), "embed_tokens": (VOCABULARY, HIDDEN), "lm_head": (VOCABULARY, HIDDEN), "norm": (HIDDEN,),
        "layers.0.hidden_norm": (HIDDEN,), "layers.0.input_layernorm": (HIDDEN,),
        "layers.0.post_attention_layernorm": (HIDDEN,), "layers.0.mlp.gate_proj": (INNER, HIDDEN),
        "layers.0.mlp.up_proj": (INNER, HIDDEN), "layers.0.mlp.down_proj": (HIDDEN, INNER),
        "layers.0.self_attn.q_a_proj": (64, 2 * HIDDEN), "layers.0.self_attn.q_a_layernorm": (64,),
        "layers.0.self_attn.q_b_proj": (HEADS * 32, 64), "layers.0.self_attn.kv_a_proj_with_mqa": (80, 2 * HIDDEN),
        "layers.0.self_attn.kv_a_layernorm": (64,), "layers.0.self_attn.kv_b_proj": (HEADS * 32, 64),
        "layers.0.self_attn.o_proj": (HIDDEN, HEADS * 16),
    }  # fmt: skip
    return {
        f"{name}.weight": torch.randn(shape) / shape[-1] ** 0.5 if shape[1:] else 1 + 0.3 * torch.randn(shape)
        for name, shape in shapes.items()
    }


def draft(folder: Path, tensors: dict, **changes) -> Path:
    from safetensors.torch import save_file

    facts = json.loads((TARGET / "config.json").read_text())
    config = {
        "architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": HIDDEN,
        "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "num_hidden_layers": 1,
        "vocab_size": VOCABULARY, "draft_vocab_size": VOCABULARY, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "rope_scaling": facts["rope_scaling"],
        "tie_word_embeddings": False, "torch_dtype": "float32", "target_hidden_size": WIDE, **SIZES,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [3], "aux_boundaries": [3]}, **changes,
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_the_norm_before_fc_is_upstreams_over_one_state(tmp_path: Path) -> None:
    import torch

    norm = 1 + 0.3 * torch.randn(WIDE)
    kinds = {
        "plain": draft(tmp_path / "plain", weights()),
        "fc_norm": draft(tmp_path / "fc_norm", {**weights(), "fc_norm.0.weight": norm}, fc_norm=True),
        "before_fc": draft(tmp_path / "before_fc", {**weights(), "input_norm.weight": norm}, norm_before_fc=True),
    }
    (tmp_path / "out").mkdir()
    for kind, source in kinds.items():
        convert(str(source), tmp_path / "out" / kind, target=str(TARGET))
    prompt = load_sample(example_pair().directory, 0)["input_ids"][:120].tolist()
    folder = tmp_path / "probe"
    folder.mkdir()
    with DraftServer(tmp_path / "out" / "plain", folder) as server:
        logits = {}
        for kind in kinds:
            assert server.exchange(tmp_path / "out" / kind) is None
            logits[kind] = server.draft(prompt).logits
        missing = {k: v for k, v in weights().items() if "kv_b_proj" not in k}
        assert "'layers.0.self_attn.kv_b_proj.weight'" in server.exchange(draft(tmp_path / "missing", missing))
    assert (logits["fc_norm"] - logits["plain"]).abs().max() > 0.1
    assert (logits["fc_norm"] - logits["before_fc"]).abs().max() < 1e-5

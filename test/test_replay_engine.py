"""The replay computes what the real engine's draft classes compute: llama_eagle3 and the MLA draft, on CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from drafts_served import Drafted, DraftServer
from safetensors.torch import save_file

from draftwire.draft import read_draft
from draftwire.pair import example_pair
from draftwire.replay import Replay
from draftwire.sample import Sample
from draftwire.settings import read_settings
from draftwire.target import read_target
from draftwire.weights import read_parts

pytestmark = pytest.mark.slow
PAIR = example_pair()
PROMPTS = [PAIR.prompts[0][:100], PAIR.prompts[1][:40]]


def latent_draft(folder: Path, **flags: bool) -> Path:
    """An MLA draft with random weights, its sizes and RoPE the example target's."""
    torch.manual_seed(5)
    target = json.loads((PAIR.target / "config.json").read_text())
    keys = ("hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "q_lora_rank", "kv_lora_rank",
            "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "intermediate_size", "max_position_embeddings",
            "rope_theta", "rope_scaling", "rms_norm_eps", "hidden_act")  # fmt: skip
    config = {key: target[key] for key in keys} | flags
    config |= {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 1,
               "draft_vocab_size": 1024, "torch_dtype": "float32", "tie_word_embeddings": False}  # fmt: skip
    ids = {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [0, 3, 6]}
    config["eagle_config"] = ids | {"aux_boundaries": [0, 3, 6]}
    hidden, inner, heads, query, latent = 192, 512, 8, 64, 64
    shapes = {"q_a_proj": (query, 2 * hidden), "q_b_proj": (heads * 32, query), "o_proj": (hidden, heads * 16),
              "kv_a_proj_with_mqa": (latent + 16, 2 * hidden), "kv_b_proj": (heads * 32, latent)}  # fmt: skip
    shapes = {f"self_attn.{name}": shape for name, shape in shapes.items()}
    shapes |= {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    shapes |= {"self_attn.q_a_layernorm": (query,), "self_attn.kv_a_layernorm": (latent,)}
    shapes |= dict.fromkeys(("input_layernorm", "hidden_norm", "post_attention_layernorm"), (hidden,))
    names = {f"midlayer.{name}.weight": shape for name, shape in shapes.items()}
    names |= {"fc.weight": (hidden, 3 * hidden), "norm.weight": (hidden,), "lm_head.weight": (1024, hidden)}
    if flags.get("fc_norm"):
        names |= {f"fc_norm.{i}.weight": (hidden,) for i in range(3)}
    tensors = {}
    for name, shape in names.items():
        noise = torch.randn(shape)
        tensors[name] = 1 + 0.3 * noise if len(shape) == 1 else noise / shape[-1] ** 0.5
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def without_cuda(folder: Path) -> Path:
    """A plugin for the server: the MLA draft waits for a GPU when it takes the target's embedding."""
    entry = folder / "without_cuda-0.dist-info"
    entry.mkdir(parents=True)
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: without_cuda\nVersion: 0\n")
    (entry / "entry_points.txt").write_text("[sglang.srt.plugins]\nwithout_cuda = without_cuda:activate\n")
    (folder / "without_cuda.py").write_text(
        "def activate():\n"
        "    import torch\n"
        "    if not torch.cuda.is_available():\n"
        "        torch.cuda.synchronize = torch.cuda.empty_cache = lambda *given: None\n"
    )
    return folder


def replayed(draft: Path, one: Drafted) -> torch.Tensor:
    """Logits [3, draft vocabulary] after the prompt, from the states and tokens that the engine fed its draft."""
    replay = Replay(read_draft(draft), read_parts(read_target(PAIR.target)))
    rows = len(one.hidden)
    states = [torch.nn.functional.pad(s.float(), (0, 0, 0, 3)) for s in one.hidden.split(replay.width, dim=-1)]
    tokens = torch.cat([torch.zeros(1, dtype=torch.long), one.tokens.long()])
    ids, kept = torch.nn.functional.pad(tokens, (0, rows + 3 - len(tokens))), slice(0, rows + 3)
    sample = Sample(draft, ids[kept], torch.ones(rows + 3, dtype=torch.bool), tuple(states), None, False)
    return replay.logits(sample, (0, 1, 2), read_settings(replay.draft), 3)[:, rows - 1]


@pytest.mark.parametrize("name", ["mla", "mla_3.1", "llama"])
def test_logits_are_the_engines(name: str, tmp_path: Path) -> None:
    flags = {"fc_norm": True, "norm_output": True} if name == "mla_3.1" else {}
    draft = PAIR.draft if name == "llama" else latent_draft(tmp_path / "draft", **flags)
    folder = tmp_path / "served"
    folder.mkdir()
    with DraftServer(draft, folder, python_path=[without_cuda(tmp_path / "plugin")]) as server:
        answers = [server.draft(prompt) for prompt in PROMPTS]
    for one in answers:
        expected = one.logits.float()
        assert expected.std() > 0.5
        assert (replayed(draft, one) - expected).abs().max() < 1e-4 * max(1.0, float(expected.abs().max()))

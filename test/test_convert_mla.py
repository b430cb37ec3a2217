"""MLA drafts: what SGLang's class builds is written, anything else is refused in one line with no output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import small_drafts as small
from hypothesis import given, settings
from hypothesis import strategies as st
from test_convert_config import ANY, MLA, converted, mla_tensors
from test_convert_output import command

from draftwire.convert import DraftError, convert
from draftwire_overlay.srt.speculative.aux_boundaries import WiringError

IDS = "eagle_aux_hidden_state_layer_ids"
YARN = {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "beta_fast": 1.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip
OLD = {"rope_parameters": None, "rope_theta": 5e4}


def config(**changes) -> dict:
    fields = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "kimi_k2", **MLA,
              "eagle_config": {IDS: [-1, 2, 5]}, **changes}  # fmt: skip
    return small.flat_config(**fields)


def experts() -> dict:
    kept = {name: tensor for name, tensor in mla_tensors().items() if ".mlp." not in name}
    return kept | {f"layers.0.mlp.experts.0.{n}_proj.weight": small.floats(24, 16) for n in ("gate", "up", "down")}


def whole() -> dict:
    tensors = {name: tensor for name, tensor in mla_tensors().items() if name not in ("d2t", "t2d", "lm_head.weight")}
    return tensors


REFUSED = {
    "two layers": ("num_hidden_layers 1", config(num_hidden_layers=2), mla_tensors()),
    "own_embedding": ("own_embedding", config(embed_requires_grad=True), mla_tensors()),
    "norm_before_residual": ("norm_before_residual", config(norm_before_residual=True), mla_tensors()),
    "a window": ("sliding_window", config(layer_types=["sliding_attention"], sliding_window=8), mla_tensors()),
    "tied": ("lm_head of its own", config(tie_word_embeddings=True, draft_vocab_size=None), whole()),
    "llama": ("model_type kimi_k2 or deepseek_v3; found 'llama'", config(model_type="llama"), mla_tensors()),
    "qwen3": ("found 'qwen3'", config(model_type="qwen3"), mla_tensors()),
    "llama by its tensors": ("found 'llama'", config(model_type="llama", architectures=["LlamaForCausalLMEagle3"]),
                             mla_tensors()),
    "experts": ("experts.0", config(n_routed_experts=4), experts()),
    "rope_interleave": ("rope_interleave", config(rope_interleave=False), mla_tensors()),
    "linear": ("'linear'", config(**OLD, rope_scaling={"type": "linear", "factor": 2.0}), mla_tensors()),
    "llama3": ("'llama3'", config(rope_parameters={"rope_type": "llama3", "factor": 2.0}), mla_tensors()),
    "unknown": ("'mystery'", config(**OLD, rope_scaling={"type": "mystery"}), mla_tensors()),
    "a type that is none": ("[1]", config(**OLD, rope_scaling={"type": [1]}), mla_tensors()),
    "no table": ("rope_scaling", config(**OLD, rope_scaling="yarn"), mla_tensors()),
    "no factor": ("factor", config(**OLD, rope_scaling={"type": "yarn"}), mla_tensors()),
    "a factor of text": ("factor", config(**OLD, rope_scaling={**YARN, "factor": "64"}), mla_tensors()),
    "no length": ("original_max", config(**OLD, rope_scaling={"type": "yarn", "factor": 4.0}), mla_tensors()),
    "attention_factor": ("attention_factor", config(**OLD, rope_scaling={**YARN, "attention_factor": 1.1}),
                         mla_tensors()),
    "one mscale": ("mscale and mscale_all_dim", config(**OLD, rope_scaling={**YARN, "mscale": None}), mla_tensors()),
    "theta": ("rope_theta", config(rope_parameters=None, rope_theta="x"), mla_tensors()),
    "two places": ("rope_theta", config(rope_theta=5e4), mla_tensors()),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_release_serves(tmp_path: Path, what: str) -> None:
    said, given, tensors = REFUSED[what]
    target = small.target(tmp_path / "target")
    ran = command(small.write(tmp_path / "draft", given, tensors), tmp_path / "out", "--target", target)
    assert ran.exit_code == 2, ran.output
    assert len(ran.output.splitlines()) == 1
    assert ran.output.startswith("draftwire: expected ")
    assert said in ran.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["draft", "target"]


@pytest.mark.parametrize("scaling", [YARN, {**YARN, "rope_type": "yarn"}, {k: v for k, v in YARN.items() if "m" not in k
                                     or k == "original_max_position_embeddings"}])  # fmt: skip
def test_yarn_is_kept_key_by_key(tmp_path: Path, scaling: dict) -> None:
    target = str(small.target(tmp_path / "target"))
    out = converted(tmp_path, config(**OLD, rope_scaling=scaling), mla_tensors(), target=target)
    assert out["rope_theta"] == 5e4
    assert out["rope_scaling"] == {"rope_type": "yarn", **{k: v for k, v in scaling.items() if "type" not in k}}
    assert "rope_parameters" not in out


@pytest.mark.parametrize(
    "block", [{"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, {"rope_parameters": None}]
)
def test_no_scaling_is_none(tmp_path: Path, block: dict) -> None:
    out = converted(tmp_path, config(**block), mla_tensors(), target=str(small.target(tmp_path / "target")))
    assert (out["rope_theta"], out["rope_scaling"]) == (1e4, None)


def test_the_targets_expert_keys_mean_nothing(tmp_path: Path) -> None:
    """A draft's config inherits them; Eagle3MLADecoderLayer builds a dense MLP, and the weights are one."""
    target = small.target(tmp_path / "target")
    source = small.write(tmp_path / "draft", config(n_routed_experts=384, moe_intermediate_size=8), mla_tensors())
    ran = command(source, tmp_path / "out", "--target", target)
    assert "note: n_routed_experts 384 is ignored" in ran.output
    assert "n_routed_experts" not in json.loads((tmp_path / "out" / "config.json").read_text())


def test_upstream_builds_one_layer_with_a_dense_mlp() -> None:
    """The facts that these refusals stand on, in the installed SGLang's own text."""
    import ast

    import upstream

    module = "sglang.srt.models.kimi_k25_eagle3"
    built = upstream.find_method(upstream.installed(), module, "Eagle3MLAModel", "__init__")
    assert built is not None
    assert "config.num_hidden_layers != 1" in ast.unparse(built)
    layer = upstream.find_method(upstream.installed(), module, "Eagle3MLADecoderLayer", "__init__")
    assert layer is not None
    assert "DeepseekV2MLP(" in ast.unparse(layer)
    assert "n_routed_experts" not in ast.unparse(layer)
    attention = upstream.find_method(
        upstream.installed(), "sglang.srt.models.deepseek_v2", "DeepseekV2AttentionMLA", "__init__"
    )
    assert attention is not None
    assert "rope_scaling['rope_type'] = 'deepseek_yarn'" in ast.unparse(attention)


KEYS = st.sampled_from([*sorted(config()), "rope_scaling", "rope_theta", "rope_interleave", "n_routed_experts"])
BLOCK = st.dictionaries(st.sampled_from([*YARN, "rope_type", "full_attention"]), ANY | st.sampled_from(["yarn", 2.0]))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEYS, ANY, max_size=2), BLOCK)
def test_any_value_of_any_key(tmp_path_factory, changes: dict, block: dict) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    target = str(small.target(folder / "target"))
    source = small.write(folder / "draft", config(**{"rope_scaling": block, **changes}), mla_tensors())
    try:
        convert(str(source), folder / "out", target=target)
    except ValueError as error:
        assert isinstance(error, (DraftError, WiringError)), repr(error)
        assert len(str(error).splitlines()) == 1
        assert sorted(p.name for p in folder.iterdir()) == ["draft", "target"]

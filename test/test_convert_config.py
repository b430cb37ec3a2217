"""Ids, RoPE and the other layouts: what the converter reads in a config, and what it writes for SGLang."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import small_drafts as small
import upstream
from hypothesis import given, settings
from hypothesis import strategies as st

from draftwire.convert import DraftError, convert
from draftwire.convert.rope import rope_block
from draftwire_overlay.srt.speculative.aux_boundaries import IDS, WiringError

YARN = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 64.0, "original_max_position_embeddings": 4096}
BOTH = {"mscale": 1.0, "mscale_all_dim": 1.0}


def converted(folder: Path, config: dict, tensors: dict, **fields) -> dict:
    convert(str(small.write(folder / "draft", config, tensors)), folder / "out", **fields)
    return json.loads((folder / "out" / "config.json").read_text())


def verifier(architecture: str) -> dict:
    return {"verifier": {"architectures": [architecture], "name_or_path": "nobody/none"}}


@pytest.mark.parametrize(
    ("architecture", "boundaries", "ids", "requires"),
    [
        ("DeepseekV3ForCausalLM", [0, 3, 31], [0, 3, 31], []),
        ("KimiK25ForConditionalGeneration", [2, 30, 58], [2, 30, 58], []),
        ("DeepseekV3ForCausalLM", [1, 29, 57], [-1, 29, 57], ["boundary_1"]),
        ("LlamaForCausalLM", [2, 16, 29], [1, 15, 28], []),
        ("GptOssForCausalLM", [2, 18, 36], [1, 17, 35], []),
    ],
)
def test_ids_capture_the_boundaries_on_stock(tmp_path, architecture, boundaries, ids, requires) -> None:
    """speculators' ids are boundaries. The setter of the installed SGLang makes them of ours, or cannot."""
    config = small.speculators_config(
        norm_before_residual=False,
        eagle_aux_hidden_state_layer_ids=boundaries,
        speculators_config=verifier(architecture),
    )
    nested = converted(tmp_path, config, small.tensors())["eagle_config"]
    assert nested[IDS] == ids
    assert nested.get("requires", []) == requires
    captured = capture(architecture, ids, layers=61 if "Llama" not in architecture else 32)
    assert (captured == boundaries) == (not requires)


def capture(architecture: str, ids: list[int], layers: int) -> list[int]:
    """`layers_to_capture` as the installed release's own setter computes it, run on a stand-in for the model."""
    import types

    module, owner = {
        "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
        "GptOssForCausalLM": ("gpt_oss", "GptOssForCausalLM"),
    }.get(architecture, ("deepseek_v2", "DeepseekV2ForCausalLM"))
    method = upstream.find_method(
        upstream.installed(), f"sglang.srt.models.{module}", owner, "set_eagle3_layers_to_capture"
    )
    import ast
    import typing

    space: dict = {"Optional": typing.Optional, "List": list}
    exec(compile(ast.Module([method], []), module, "exec"), space)
    config = types.SimpleNamespace(num_hidden_layers=layers)
    model = types.SimpleNamespace(layers_to_capture=None, start_layer=0, end_layer=layers)
    this = types.SimpleNamespace(
        pp_group=types.SimpleNamespace(is_last_rank=True), config=config, model=model, capture_aux_hidden_states=False
    )
    space[method.name](this, ids)
    return list(model.layers_to_capture)


@pytest.mark.parametrize(
    ("layout", "ids", "given", "expected"),
    [
        ("specforge", [1, 4, 7], None, [2, 5, 8]),
        ("specforge", [-1, 2, 5], None, [0, 3, 6]),
        ("specforge", [2, 5, 8], None, None),
        ("specforge", [2, 5, 8], [2, 5, 8], [2, 5, 8]),
        ("specforge", [2, 5, 8], [3, 6, 9], [3, 6, 9]),
        ("specforge", [1, 4, 7], [1, 4, 7], None),
        ("modelopt", [1, 4, 7], None, [2, 5, 8]),
        ("modelopt", [2, 5, 8], None, None),
        ("sglang", None, None, [2, 6, 9]),
        ("sglang", None, [0, 3, 6], [0, 3, 6]),
    ],
)
def test_ids_of_other_trainers(tmp_path: Path, layout: str, ids, given, expected) -> None:
    """On DeepSeek a list that could be read in two ways is refused, until the user says which."""
    nested = None if layout == "sglang" else {"use_aux_hidden_state": True, IDS: ids}
    if layout == "modelopt":
        nested |= {"use_last_layernorm": True, "parallel_draft_step": 1}
    source = small.flat_config(eagle_config=nested)
    fields = {"target": str(small.target(tmp_path / "target")), "boundaries": given}
    if expected is None:
        with pytest.raises((DraftError, WiringError), match="--boundaries"):
            converted(tmp_path, source, small.flat_tensors(), **fields)
        return
    out = converted(tmp_path, source, small.flat_tensors(), **fields)
    assert out["eagle_config"]["aux_boundaries"] == expected
    assert capture("DeepseekV3ForCausalLM", out["eagle_config"][IDS], layers=12) == expected
    from safetensors import safe_open

    with safe_open(tmp_path / "out" / "model.safetensors", "np") as opened:
        assert not any(name.startswith("midlayer") for name in opened.keys())  # noqa: SIM118


def test_the_same_ids_for_a_llama_are_outputs(tmp_path: Path) -> None:
    target = small.target(tmp_path / "target", "LlamaForCausalLM")
    source = small.flat_config(eagle_config={IDS: [2, 5, 8]})
    out = converted(tmp_path, source, small.flat_tensors(), target=str(target))
    assert out["eagle_config"][IDS] == [2, 5, 8]


@pytest.mark.parametrize(
    ("key", "value"),
    [("use_last_layernorm", False), ("use_input_layernorm_in_first_layer", False), ("use_mtp_layernorm", True),
     ("parallel_draft_step", 4), ("next_layer_regular", False)],
)  # fmt: skip
def test_what_modelopt_can_and_sglang_cannot(tmp_path: Path, key: str, value: object) -> None:
    config = small.flat_config(eagle_config={IDS: [1, 4, 7], "use_last_layernorm": True, key: value})
    with pytest.raises(DraftError, match=key):
        converted(tmp_path, config, small.flat_tensors(), target=str(small.target(tmp_path / "target")))


def test_tied_embeddings_with_a_reduced_vocabulary(tmp_path: Path) -> None:
    config = small.flat_config(tie_word_embeddings=True)
    with pytest.raises(DraftError, match="reduced vocabulary"):
        converted(tmp_path, config, small.flat_tensors(), target=str(small.target(tmp_path / "target")))


@pytest.mark.parametrize(("release", "marked"), [("0.5.16", True), ("0.5.17", False), ("", True)])
def test_norm_before_fc_by_release(tmp_path: Path, release: str, marked: bool) -> None:
    config = small.speculators_config(norm_before_residual=False, norm_before_fc=True)
    tensors = {**small.tensors(), "input_norm.weight": small.floats(3 * small.HIDDEN)}
    out = converted(tmp_path, config, tensors, release=release)
    assert (out["eagle_config"].get("requires") == ["norm_before_fc"]) == marked


def test_another_target(tmp_path: Path) -> None:
    """What the target's config contradicts is refused."""
    target = small.target(tmp_path / "target", layers=5)
    with pytest.raises(WiringError, match="boundaries of 0 to 5"):
        converted(tmp_path, small.speculators_config(), small.tensors(), target=str(target))
    (target / "config.json").write_text(json.dumps({"architectures": ["DeepseekV3ForCausalLM"],
        "text_config": {"num_hidden_layers": 12, "hidden_size": 32, "vocab_size": 40}}))  # fmt: skip
    with pytest.raises(DraftError, match="target_hidden_size 32"):
        converted(tmp_path / "again", small.speculators_config(), small.tensors(), target=str(target))


def test_a_wider_target(tmp_path: Path) -> None:
    """target_hidden_size of its own: fc's width follows it, and the embedding is the draft's."""
    tensors = {**small.tensors(), "fc.weight": small.floats(small.HIDDEN, 3 * 24)}
    config = small.speculators_config(target_hidden_size=24)
    assert converted(tmp_path, config, tensors)["target_hidden_size"] == 24
    del tensors["embed_tokens.weight"]
    with pytest.raises(DraftError, match=r"embed_tokens\.weight"):
        converted(tmp_path / "again", config, tensors)


def test_one_state_as_wide_as_the_draft(tmp_path: Path) -> None:
    """SGLang tells captured states by their width: where it is the draft's own it would skip fc."""
    tensors = {**small.tensors(), "fc.weight": small.floats(small.HIDDEN, small.HIDDEN)}
    with pytest.raises(DraftError, match="skip fc"):
        converted(tmp_path, small.speculators_config(eagle_aux_hidden_state_layer_ids=[3]), tensors)


MLA = {"q_lora_rank": 6, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4}


def mla_tensors() -> dict:
    heads, hidden = small.HEADS, small.HIDDEN
    attention = {
        "q_a_proj": (6, 2 * hidden), "q_a_layernorm": (6,), "q_b_proj": (heads * 6, 6), "kv_a_layernorm": (8,),
        "kv_a_proj_with_mqa": (10, 2 * hidden), "kv_b_proj": (heads * 8, 8), "o_proj": (hidden, heads * 4),
    }  # fmt: skip
    kept = {name: tensor for name, tensor in small.tensors().items() if "self_attn" not in name}
    return kept | {f"layers.0.self_attn.{n}.weight": small.floats(*shape) for n, shape in attention.items()}


def test_an_mla_draft(tmp_path: Path) -> None:
    config = small.flat_config(architectures=["Eagle3DeepseekV2ForCausalLM"], model_type="kimi_k2", **MLA,
                               norm_before_fc=True, eagle_config={IDS: [-1, 2, 5]})  # fmt: skip
    tensors = {**mla_tensors(), "input_norm.weight": small.floats(3 * small.HIDDEN)}
    out = converted(tmp_path, config, tensors, target=str(small.target(tmp_path / "target")))
    assert out["eagle_config"]["requires"] == ["norm_before_fc"]
    assert {key: out[key] for key in MLA} == MLA
    with pytest.raises(DraftError, match="norm_before_residual"):
        converted(tmp_path / "again", {**config, "norm_before_residual": True}, tensors)


BLOCKS = [
    YARN, {**YARN, **BOTH}, {**YARN, "mscale": 0.7, "mscale_all_dim": 1.2}, {**YARN, "mscale": 0.5},
    {**YARN, "attention_factor": 1.3}, {**YARN, "factor": 1.0, **BOTH}, {**YARN, "beta_fast": 16.0, "beta_slow": 2.0},
]  # fmt: skip


@pytest.mark.parametrize("release", ["0.5.14", "0.5.15.post1", "0.5.16", "0.5.23"])
@pytest.mark.parametrize("block", BLOCKS)
def test_yarn_is_transformers_in_every_release(block: dict, release: str) -> None:
    """Frequencies and magnitude: those of transformers' own function, by the YaRN code of each release."""
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    trained = LlamaConfig(head_dim=64, max_position_embeddings=262144, rope_parameters=dict(block))
    frequencies, magnitude = ROPE_INIT_FUNCTIONS["yarn"](trained, torch.device("cpu"))
    served = LlamaConfig(head_dim=64, max_position_embeddings=262144, **rope_block({"rope_parameters": block}, "x"))
    yarn = sglang_yarn(release)
    kept = ("extrapolation_factor", "attn_factor", "beta_fast", "beta_slow")
    kwargs = {k: v for k, v in served.rope_parameters.items() if k in kept}
    rope = yarn.__new__(yarn)
    torch.nn.Module.__init__(rope)
    rope.__init__(64, 64, served.rope_parameters["original_max_position_embeddings"],
                  served.rope_parameters["rope_theta"], True, served.rope_parameters["factor"], torch.float32,
                  truncate=served.rope_parameters.get("truncate", True), **kwargs)  # fmt: skip
    assert math.isclose(rope.mscale, magnitude, rel_tol=1e-6)
    assert torch.allclose(rope._compute_inv_freq(rope.scaling_factor), frequencies, rtol=1e-6)


def sglang_yarn(release: str):
    """The release's class with its functions, its parent's constructor reduced to storing what it was given."""
    import ast
    import typing

    import torch

    tree = upstream.given(release) or (upstream.installed() if release == "0.5.23" else upstream.download(release))
    module = upstream.parse(tree, "sglang.srt.layers.rotary_embedding.yarn")
    wanted = [
        node for node in module.body
        if (isinstance(node, ast.FunctionDef) and node.name.startswith("yarn_"))
        or (isinstance(node, ast.ClassDef) and node.name == "YaRNScalingRotaryEmbedding")
    ]  # fmt: skip

    class RotaryEmbedding(torch.nn.Module):
        def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype):
            super().__init__()
            self.rotary_dim, self.base, self.max_position_embeddings = rotary_dim, base, max_position_embeddings

    space = {"torch": torch, "math": math, "RotaryEmbedding": RotaryEmbedding, **vars(typing)}
    exec(compile(ast.Module(wanted, []), str(tree), "exec"), space)
    return space["YaRNScalingRotaryEmbedding"]


@pytest.mark.parametrize(
    ("block", "said"),
    [({"rope_type": "longrope"}, "longrope"), ({"rope_type": "dynamic", "factor": 2.0}, "dynamic"),
     ({"rope_type": "yarn"}, "factor"), ({**YARN, "factor": "64"}, "factor"), ({**YARN, "factor": -1.0}, "factor"),
     ({**YARN, "mrope_section": [1]}, "mrope_section"), ({"partial_rotary_factor": 0.5}, "whole"),
     ({"rope_type": "llama3", "factor": 8.0}, "low_freq_factor"), ({"rope_theta": 0}, "rope_theta"),
     ({**YARN, "mscale": "1"}, "mscale")],
)  # fmt: skip
def test_rope_that_is_refused(block: dict, said: str) -> None:
    with pytest.raises(DraftError, match=said):
        rope_block({"rope_parameters": block}, "config.json")


def test_rope_of_transformers_4() -> None:
    layer = {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert rope_block(layer, "x") == {"rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
OUTER = st.sampled_from(sorted(small.speculators_config()))
MORE = ["layer_types", "sliding_window", "rope_scaling", "rope_theta", "partial_rotary_factor", "mlp_bias",
        "use_sliding_window", "max_window_layers"]  # fmt: skip
LAYER = st.sampled_from([*sorted(small.speculators_config()["transformer_layer_config"]), *MORE])


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(OUTER, ANY, max_size=2), st.dictionaries(LAYER, ANY, max_size=2))
def test_any_value_of_any_key(tmp_path_factory, outer: dict, layer: dict) -> None:
    """A config with anything in it is converted, or refused in one line with nothing written."""
    folder = tmp_path_factory.mktemp("fuzz")
    config = small.speculators_config()
    config["transformer_layer_config"] |= layer
    source = small.write(folder / "draft", {**config, **outer}, small.tensors())
    try:
        convert(str(source), folder / "out")
    except ValueError as error:
        assert isinstance(error, (DraftError, WiringError)), repr(error)
        assert len(str(error).splitlines()) == 1
        assert [p.name for p in folder.iterdir()] == ["draft"]

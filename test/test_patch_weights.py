"""`patching/draft_weights.py`, a file that a patch adds: tensors of a draft are placed or refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from draftwire.patching.draft_weights import checked

PARAMETERS = (
    "model.embed_tokens.weight", "model.fc.weight", "model.layers.0.self_attn.qkv_proj.weight",
    "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.gate_up_proj.weight",
    "model.layers.0.hidden_norm.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight", "lm_head.weight",
)  # fmt: skip
NAMES = (
    "fc.weight", "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight",
    "layers.0.self_attn.v_proj.weight", "layers.0.self_attn.o_proj.weight", "layers.0.mlp.gate_proj.weight",
    "layers.0.mlp.up_proj.weight", "layers.0.hidden_norm.weight", "layers.0.input_layernorm.weight", "norm.weight",
    "lm_head.weight", "d2t", "t2d",
)  # fmt: skip


def draft(parameters=PARAMETERS, quantised=False, lm_head_from_target=False, **config):
    known = {"hidden_size": 8, "tie_word_embeddings": False, "draft_vocab_size": 4, "vocab_size": 16}
    return SimpleNamespace(
        named_parameters=lambda: [(name, None) for name in parameters],
        quant_config=object() if quantised else None,
        load_lm_head_from_target=lm_head_from_target,
        config=SimpleNamespace(**{**known, "_name_or_path": "the/draft", **config}),
    )


def load(model, names, **tensors):
    return dict(checked(model, [(name, tensors.get(name, torch.zeros(8))) for name in names]))


def refusal(model, names) -> str:
    with pytest.raises(SystemExit) as ended:
        load(model, names)
    line = str(ended.value)
    assert line.startswith("EAGLE-3 draft: expected ") and "the/draft" in line and "\n" not in line
    return line


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        [f"model.{name}" if name != "lm_head.weight" else name for name in NAMES],
        [name.replace("layers.0.", "midlayer.") for name in NAMES],
        [*NAMES, "embed_tokens.weight"],
    ],
)
def test_a_whole_draft_is_taken_as_it_comes(names):
    assert list(load(draft(), names)) == list(names)


def test_the_head_has_one_spelling():
    """It lies outside of the model, and upstream drops it under any other name."""
    for quantised in (False, True):
        names = [name.replace("lm_head", "model.lm_head") for name in NAMES]
        assert "'model.lm_head.weight'" in refusal(draft(quantised=quantised), names)


def test_a_release_that_calls_the_layer_midlayer_takes_only_that():
    older = draft([name.replace("layers.0.", "midlayer.") for name in PARAMETERS])
    names = [name.replace("layers.0.", "midlayer.") for name in NAMES]
    assert list(load(older, names)) == names
    assert "'layers.0.self_attn.q_proj.weight'" in refusal(older, NAMES)


@pytest.mark.parametrize(
    "name", ["input_norm.weight", "fc.bias", "layers.1.mlp.up_proj.weight", "verifier_norm.weight"]
)
def test_a_tensor_without_a_parameter_is_refused(name):
    assert repr(name) in refusal(draft(), [*NAMES, name])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "t2d"])
def test_a_parameter_without_a_tensor_is_refused(name):
    assert repr(name) in refusal(draft(), [other for other in NAMES if other != name])


def test_what_the_target_gives_is_not_missed():
    shared = draft(lm_head_from_target=True, draft_vocab_size=16)
    assert load(shared, [name for name in NAMES if name not in ("lm_head.weight", "d2t", "t2d")])
    assert "'embed_tokens.weight'" in refusal(draft(target_hidden_size=16), NAMES)
    later = [*PARAMETERS, "model.layers.1.input_layernorm.weight"]
    assert load(draft(later), NAMES)


def test_a_later_update_may_bring_a_part():
    model = draft()
    load(model, NAMES)
    assert load(model, ["fc.weight"])
    assert "'odd.weight'" in refusal(model, ["odd.weight"])


def test_a_quantised_draft_is_compared_by_module():
    model = draft(quantised=True)
    assert load(model, [*NAMES, "fc.weight_scale", "layers.0.self_attn.q_proj.qweight"])
    assert "'other.scale'" in refusal(model, [*NAMES, "other.scale"])


def test_a_marked_norm_is_unmarked_where_the_draft_asks_for_more():
    mark = {"layers.0.hidden_norm.weight": torch.zeros(1, 8)}
    asked = draft(eagle_config={"requires": ["norm_before_residual"]})
    assert load(asked, NAMES, **mark)["layers.0.hidden_norm.weight"].shape == (8,)
    assert load(draft(), NAMES, **mark)["layers.0.hidden_norm.weight"].shape == (1, 8)

from pathlib import Path

from cases import damage, look, only, read_weights
from small_drafts import floats

NAME = "tensors_known"


def rename(old: str, new: str) -> dict:
    return {name.replace(old, new): tensor for name, tensor in read_weights().items()}


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.", "layers.0."))
    only(look(NAME, draft, release="0.5.12"), "ok")


def test_layers_0_before_0_5_12(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.", "layers.0."))
    only(look(NAME, draft, release="0.5.11"), "error", "drops", "layers.0.", "midlayer")


def test_an_unknown_name(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.mlp.up_proj", "midlayer.mlp.up"))
    found = only(look(NAME, draft), "error", "refuses layers.0.mlp.up.weight")
    assert " more" not in found.text
    both = {
        name.replace("mlp.up_proj", "mlp.up").replace("mlp.gate_proj", "mlp.gate"): t
        for name, t in read_weights().items()
    }
    only(look(NAME, damage(tmp_path / "both", tensors=both)), "error", "layers.0.mlp.gate.weight and 1 more")
    only(look(NAME, draft, delivery="stock"), "warning", "drop layers.0.mlp.up.weight")


def test_biases(tmp_path: Path) -> None:
    """q, k and v are built without, whatever the config says; o_proj and fc where it asks for them."""
    weights = read_weights()
    query = weights | {"midlayer.self_attn.q_proj.bias": floats(192)}
    only(look(NAME, damage(tmp_path / "q", tensors=query, attention_bias=True)), "error", "self_attn.q_proj.bias")
    output = weights | {"midlayer.self_attn.o_proj.bias": floats(192)}
    only(look(NAME, damage(tmp_path / "o", tensors=output)), "error", "self_attn.o_proj.bias")
    only(look(NAME, damage(tmp_path / "asked", tensors=output, attention_bias=True)), "ok")
    joint = weights | {"fc.bias": floats(192)}
    only(look(NAME, damage(tmp_path / "fc", tensors=joint)), "error", "fc.bias")
    only(look(NAME, damage(tmp_path / "bias", tensors=joint | output, bias=True)), "ok")


def test_the_patch_refuses_too(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.mlp.up_proj", "midlayer.mlp.up"))
    only(look(NAME, draft, delivery="patch"), "error", "with draftwire's patch refuses layers.0.mlp.up.weight")


def test_what_a_draft_may_have(tmp_path: Path) -> None:
    more = {"input_norm.weight": floats(576), "rotary_emb.inv_freq": floats(12), "fc_norm.0.weight": floats(192)}
    more |= {"embed_tokens.weight": floats(1024, 192), "midlayer.self_attn.q_norm.weight": floats(24)}
    only(look(NAME, damage(tmp_path / "draft", tensors=read_weights() | more)), "ok")


MLA = {"architectures": ["Eagle3DeepseekV2ForCausalLM"]}


def test_the_spelling_that_each_class_drops(tmp_path: Path) -> None:
    """All under `model.`: the Llama draft loses its head, the MLA draft everything."""
    weights = {f"model.{name}": tensor for name, tensor in read_weights().items()}
    for delivery, level in (("stock", "warning"), ("overlay", "error")):
        draft = damage(tmp_path / delivery, tensors=weights)
        found = only(look(NAME, draft, delivery=delivery), level, "model.lm_head.weight", "draftwire convert")
        assert " more" not in found.text
    spelled = {name.replace("model.lm_head", "lm_head"): tensor for name, tensor in weights.items()}
    only(look(NAME, damage(tmp_path / "spelled", tensors=spelled)), "ok")
    plain = [name for name in weights if "d2t" not in name and "t2d" not in name]
    only(look(NAME, damage(tmp_path / "mla", tensors=weights, **MLA)), "error", f"and {len(plain) - 1} more")
    norms = read_weights() | {"aux_norm_low.weight": floats(192)}
    only(look(NAME, damage(tmp_path / "llama norms", tensors=norms)), "ok")
    only(look(NAME, damage(tmp_path / "mla norms", tensors=norms, **MLA)), "error", "refuses aux_norm_low.weight")


def test_two_names_for_one_tensor(tmp_path: Path) -> None:
    weights = read_weights()
    twice = weights | {"layers.0.hidden_norm.weight": weights["midlayer.hidden_norm.weight"]}
    only(look(NAME, damage(tmp_path / "draft", tensors=twice)), "error", "Two tensors are layers.0.hidden_norm.weight",
         "midlayer.hidden_norm.weight", "last")  # fmt: skip

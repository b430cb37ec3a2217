from pathlib import Path

from cases import damage, look, only, read_weights
from small_drafts import floats

NAME = "norms_match_flags"


def test_healthy() -> None:
    only(look(NAME), "ok")


def test_a_flag_without_its_tensor(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "a", fc_norm=True)), "error", "fc_norm.0.weight and 2 more")
    only(look(NAME, damage(tmp_path / "b", norm_before_fc=True)), "error", "input_norm.weight")
    only(look(NAME, damage(tmp_path / "c", eagle_config={"requires": ["qk_norm"]})), "error", "q_norm.weight")


def test_a_tensor_without_its_flag(tmp_path: Path) -> None:
    weights = read_weights() | {"input_norm.weight": floats(576)}
    only(look(NAME, damage(tmp_path / "a", tensors=weights)), "error", "does not say norm_before_fc")
    weights = read_weights() | {"aux_norm_low.weight": floats(192)}
    only(look(NAME, damage(tmp_path / "b", tensors=weights)), "error", "does not say fc_norm")


def test_both(tmp_path: Path) -> None:
    weights = (
        read_weights() | {"input_norm.weight": floats(576)} | {f"fc_norm.{i}.weight": floats(192) for i in range(3)}
    )
    draft = damage(tmp_path / "draft", tensors=weights, norm_before_fc=True, fc_norm=True)
    only(look(NAME, draft), "error", "exclude each other")
    healthy = damage(tmp_path / "healthy", tensors=read_weights() | {"input_norm.weight": floats(576)},
                     norm_before_fc=True)  # fmt: skip
    only(look(NAME, healthy), "ok", "norm_before_fc")


def test_q_and_k_norms_go_together(tmp_path: Path) -> None:
    one = {"q": "midlayer.self_attn.q_norm.weight", "k": "midlayer.self_attn.k_norm.weight"}
    for kind, name in one.items():
        weights = read_weights() | {name: floats(24)}
        alone = damage(tmp_path / kind, tensors=weights)
        only(look(NAME, alone), "error", f"{kind}_norm.weight is there", "does not say qk_norm")
        other = one["k" if kind == "q" else "q"].replace("midlayer", "layers.0")
        only(look(NAME, damage(tmp_path / f"{kind}3", tensors=weights, model_type="qwen3")), "error", f"no {other}")
    both = read_weights() | {name: floats(24) for name in one.values()}
    only(look(NAME, damage(tmp_path / "both", tensors=both, model_type="qwen3")), "ok", "qk_norm")


def test_a_llama_draft_that_calls_itself_qwen3(tmp_path: Path) -> None:
    """Its class follows from architectures, and without such tensors it was trained with Llama's layers."""
    only(look(NAME, damage(tmp_path / "draft", model_type="qwen3")), "ok")
    only(look("norms_served", damage(tmp_path / "served", model_type="qwen3")), "ok")


def test_one_norm_for_each_state(tmp_path: Path) -> None:
    norms = {f"fc_norm.{i}.weight": floats(192) for i in range(3)}
    only(look(NAME, damage(tmp_path / "three", tensors=read_weights() | norms, fc_norm=True)), "ok", "fc_norm")
    del norms["fc_norm.1.weight"]
    two = damage(tmp_path / "two", tensors=read_weights() | norms, use_aux_norm=True)
    only(look(NAME, two), "error", "finds no fc_norm.1.weight")


def test_norms_under_a_name_that_an_mla_draft_drops(tmp_path: Path) -> None:
    norms = {f"aux_norm_{kind}.weight": floats(192) for kind in ("low", "mid", "high")}
    llama = damage(tmp_path / "llama", tensors=read_weights() | norms, fc_norm=True)
    only(look(NAME, llama), "ok")
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "fc_norm": True}
    for delivery in ("stock", "overlay"):
        draft = damage(tmp_path / delivery, tensors=read_weights() | norms, **mla)
        only(look(NAME, draft, delivery=delivery), "error", "no fc_norm.0.weight and 2 more", "aux_norm_low.weight")


def test_the_nested_flag_wins(tmp_path: Path) -> None:
    """As SGLang and the overlay read it: the top of the config is asked where eagle_config does not say."""
    weights = read_weights() | {"input_norm.weight": floats(576)}
    off = {"norm_before_fc": True, "eagle_config": {"norm_before_fc": False}}
    only(look(NAME, damage(tmp_path / "off", tensors=weights, **off)), "error", "does not say norm_before_fc")
    only(look(NAME, damage(tmp_path / "none", **off)), "ok")
    on = {"norm_before_fc": False, "eagle_config": {"norm_before_fc": True}}
    only(look(NAME, damage(tmp_path / "on", tensors=weights, **on)), "ok", "norm_before_fc")

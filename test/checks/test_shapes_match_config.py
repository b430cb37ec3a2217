import json
from pathlib import Path

import pytest
from cases import damage, look, only, read_weights
from small_drafts import floats
from sparse import write_sparse

from draftwire.headers import read_header

NAME = "shapes_match_config"


def test_healthy() -> None:
    only(look(NAME), "ok")


@pytest.mark.parametrize(
    ("keys", "tensor"),
    [
        ({"num_key_value_heads": 4}, "k_proj"),
        ({"head_dim": 32}, "q_proj"),
        ({"intermediate_size": 768}, "gate_proj"),
        ({"draft_vocab_size": 512}, "lm_head"),
    ],
)
def test_failing(tmp_path: Path, keys: dict, tensor: str) -> None:
    only(look(NAME, damage(tmp_path / "draft", **keys)), "error", tensor)


def test_the_embedding(tmp_path: Path) -> None:
    weights = read_weights() | {"embed_tokens.weight": floats(1000, 192)}
    only(look(NAME, damage(tmp_path / "draft", tensors=weights)), "error", "embed_tokens.weight should be [1024, 192]")


def test_no_sizes(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", intermediate_size="512")), "error", "intermediate_size")


def test_the_converters_mark(tmp_path: Path) -> None:
    """Overlay and patch unfold it, and only where the config says what for."""
    weights = read_weights()
    dtype, shape, data = weights["midlayer.hidden_norm.weight"]
    weights["midlayer.hidden_norm.weight"] = (dtype, (1, *shape), data)
    marked = damage(tmp_path / "draft", tensors=weights, eagle_config={"requires": ["norm_before_residual"]})
    only(look(NAME, marked), "ok")
    only(look(NAME, marked, delivery="patch"), "ok")
    only(look(NAME, marked, delivery="stock"), "error", "hidden_norm", "[1, 192]")
    only(look(NAME, damage(tmp_path / "unsaid", tensors=weights)), "error", "hidden_norm")


def test_mla(tmp_path: Path) -> None:
    facts = json.loads((Path(__file__).parent.parent / "reports/kimi-k2.6-mla-before-0.5.12.json").read_text())["draft"]
    shapes = {name: list(tensor.shape) for name, tensor in read_header(written(tmp_path / "draft", facts, {})).items()}
    only(look(NAME, tmp_path / "draft", target=None), "ok")
    sizes = {"q_lora_rank": "q_a_proj", "kv_lora_rank": "kv_a_proj_with_mqa", "qk_rope_head_dim": "q_b_proj",
             "qk_nope_head_dim": "q_b_proj", "v_head_dim": "kv_b_proj"}  # fmt: skip
    for key, tensor in sizes.items():
        written(tmp_path / key, facts | {key: facts[key] + 64}, shapes)
        only(look(NAME, tmp_path / key, target=None), "error", tensor)
        written(tmp_path / f"no {key}", facts, {}, unsaid=key)
        only(look(NAME, tmp_path / f"no {key}", target=None), "error", f"no usable {key}")


def written(folder: Path, config: dict, shapes: dict, unsaid: str = "") -> Path:
    write_sparse(folder, config, shapes)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != unsaid}))
    return folder / "model.safetensors"


def test_the_second_layer(tmp_path: Path) -> None:
    """It reads the state alone: half of the first one's width."""
    layer = {f"layers.1.self_attn.{part}.weight": floats(192, 192) for part in ("q_proj", "k_proj", "v_proj")}
    only(look(NAME, damage(tmp_path / "a", tensors=read_weights() | layer, num_hidden_layers=2)), "ok")
    layer["layers.1.self_attn.q_proj.weight"] = floats(192, 384)
    wide = damage(tmp_path / "b", tensors=read_weights() | layer, num_hidden_layers=2)
    only(look(NAME, wide), "error", "layers.1.self_attn.q_proj.weight should be [192, 192]")


def test_llama_4_calls_its_width_otherwise(tmp_path: Path) -> None:
    """As the Llama draft reads it; intermediate_size is that of Llama 4's experts."""
    keys = {"model_type": "llama4_text", "intermediate_size": 64, "intermediate_size_mlp": 512}
    only(look(NAME, damage(tmp_path / "draft", **keys)), "ok")
    only(look(NAME, damage(tmp_path / "narrow", **keys | {"intermediate_size_mlp": 64})), "error", "gate_proj")
    only(look(NAME, damage(tmp_path / "unsaid", **keys | {"intermediate_size_mlp": None})), "error",
         "no usable intermediate_size_mlp")  # fmt: skip
    only(look(NAME, damage(tmp_path / "llama", **keys | {"model_type": "llama"})), "error", "gate_proj")

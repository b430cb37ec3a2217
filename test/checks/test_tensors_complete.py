from pathlib import Path

import pytest
import small_drafts as small
from cases import damage, look, only, read_weights

NAME = "tensors_complete"


def without(*names: str) -> dict:
    return {name: tensor for name, tensor in read_weights().items() if name not in names}


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    whole = damage(tmp_path / "whole", tensors=without("lm_head.weight", "d2t"), draft_vocab_size=None)
    only(look(NAME, whole), "ok")


def test_an_embedding_of_another_width(tmp_path: Path) -> None:
    """SGLang does not share the target's where widths differ."""
    only(look(NAME, damage(tmp_path / "draft", target_hidden_size=256)), "error", "embed_tokens")


@pytest.mark.parametrize(
    "name", ["lm_head.weight", "norm.weight", "midlayer.hidden_norm.weight", "midlayer.self_attn.q_proj.weight"]
)
def test_failing(tmp_path: Path, name: str) -> None:
    found = look(NAME, damage(tmp_path / "draft", tensors=without(name)))
    assert " more" not in only(found, "error", f"no {name.replace('midlayer', 'layers.0')}", "random").text


def test_several(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=without("lm_head.weight", "norm.weight"))
    only(look(NAME, draft), "error", "no norm.weight and 1 more")


def test_the_second_layer(tmp_path: Path) -> None:
    """speculators calls its norm input_layernorm; SGLang would leave hidden_norm at random."""
    config = small.flat_config(num_hidden_layers=2)
    draft = small.write(tmp_path / "draft", config, small.tensors(2))
    only(look(NAME, draft, target=None), "error", "layers.1.hidden_norm.weight")

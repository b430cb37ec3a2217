from pathlib import Path

import pytest
from cases import damage, look, only, read_weights
from small_drafts import floats

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
    """Only the overlay unfolds it, and only where the config says what for."""
    weights = read_weights()
    dtype, shape, data = weights["midlayer.hidden_norm.weight"]
    weights["midlayer.hidden_norm.weight"] = (dtype, (1, *shape), data)
    marked = damage(tmp_path / "draft", tensors=weights, eagle_config={"requires": ["norm_before_residual"]})
    only(look(NAME, marked), "ok")
    only(look(NAME, marked, delivery="stock"), "error", "hidden_norm", "[1, 192]")
    only(look(NAME, damage(tmp_path / "unsaid", tensors=weights)), "error", "hidden_norm")

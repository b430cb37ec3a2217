from pathlib import Path

from cases import damage, look, only, read_weights
from small_drafts import floats

NAME = "norms_match_flags"


def test_healthy() -> None:
    only(look(NAME), "ok")


def test_a_flag_without_its_tensor(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "a", fc_norm=True)), "error", "fc_norm.N.weight")
    only(look(NAME, damage(tmp_path / "b", norm_before_fc=True)), "error", "input_norm.weight")
    only(look(NAME, damage(tmp_path / "c", model_type="qwen3")), "error", "q_norm.weight")


def test_a_tensor_without_its_flag(tmp_path: Path) -> None:
    weights = read_weights() | {"input_norm.weight": floats(576)}
    only(look(NAME, damage(tmp_path / "a", tensors=weights)), "error", "does not say norm_before_fc")
    weights = read_weights() | {"aux_norm_low.weight": floats(192)}
    only(look(NAME, damage(tmp_path / "b", tensors=weights)), "error", "does not say fc_norm")


def test_both(tmp_path: Path) -> None:
    weights = read_weights() | {"input_norm.weight": floats(576), "fc_norm.0.weight": floats(192)}
    draft = damage(tmp_path / "draft", tensors=weights, norm_before_fc=True, fc_norm=True)
    only(look(NAME, draft), "error", "exclude each other")
    healthy = damage(tmp_path / "healthy", tensors=read_weights() | {"input_norm.weight": floats(576)},
                     norm_before_fc=True)  # fmt: skip
    only(look(NAME, healthy), "ok", "norm_before_fc")

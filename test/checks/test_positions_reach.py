from pathlib import Path

from cases import damage, look, only

NAME = "positions_reach"


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok", "4096")
    only(look(NAME, target=None), "skipped")
    only(look(NAME, damage(tmp_path / "draft", max_position_embeddings=2048), "--context-length", "2048"), "ok")
    linear = {"rope_type": "linear", "factor": 2.0}
    only(look(NAME, damage(tmp_path / "l", max_position_embeddings=2048, rope_scaling=linear)), "ok", "4096")


def test_failing(tmp_path: Path) -> None:
    short = damage(tmp_path / "draft", max_position_embeddings=2048)
    only(look(NAME, short), "error", "2048", "4096", "--context-length 2048")
    allowed = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    only(look(NAME, short, environment=allowed), "warning", "longer than the draft's")
    only(look(NAME, damage(tmp_path / "none", max_position_embeddings=None)), "error", "max_position_embeddings")

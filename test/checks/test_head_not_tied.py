from pathlib import Path

from cases import damage, look, only

NAME = "head_not_tied"


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    only(look(NAME, damage(tmp_path / "draft", tie_word_embeddings=True, draft_vocab_size=1024)), "ok", "whole")


def test_failing(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", tie_word_embeddings=True)), "error", "640", "1024")

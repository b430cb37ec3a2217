from pathlib import Path

from cases import damage, look, only, write_target

NAME = "draft_fits_target"


def test_healthy() -> None:
    only(look(NAME), "ok", "vocab_size 1024")
    only(look(NAME, target=None), "skipped")


def test_failing(tmp_path: Path) -> None:
    other = write_target(tmp_path / "target", vocab_size=2048)
    only(look(NAME, target=other), "error", "different size", "2048")
    only(look(NAME, damage(tmp_path / "draft", target_hidden_size=256)), "error", "256", "192")
    narrow = damage(tmp_path / "narrow", target_hidden_size=None, hidden_size=128)
    only(look(NAME, narrow), "error", "Write target_hidden_size 192")

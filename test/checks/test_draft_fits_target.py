import json
from pathlib import Path

import pytest
from cases import damage, look, only, read_config, write_target

from draftwire.headers import DraftError

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


def test_a_target_that_leaves_its_vocabulary_to_its_class(tmp_path: Path) -> None:
    """As gemma-3 does in text_config. What does not need it is looked at."""
    text = {key: value for key, value in read_config("target").items() if key != "vocab_size"}
    target = write_target(tmp_path / "target", text_config=text)
    only(look(NAME, target=target), "skipped", "vocab_size")
    only(look(NAME, damage(tmp_path / "draft", target_hidden_size=256), target=target), "error", "256")
    only(look("fc_width", target=target), "ok")
    odd = write_target(tmp_path / "odd", text_config=text | {"vocab_size": 0})
    with pytest.raises(DraftError, match="vocab_size"):
        look(NAME, target=odd)
    flat = tmp_path / "flat"
    flat.mkdir()
    (flat / "config.json").write_text(json.dumps(text))
    with pytest.raises(DraftError, match="vocab_size"):
        look(NAME, target=flat)

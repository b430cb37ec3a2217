from pathlib import Path

from cases import damage, look, only

NAME = "window_passed"


FLAG = "--speculative-draft-window-size"
TRAINED = {"layer_types": ["sliding_attention"], "sliding_window": 2048}


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    draft = damage(tmp_path / "draft", **TRAINED)
    only(look(NAME, draft, delivery="overlay"), "ok")
    only(look(NAME, draft, FLAG, "2047", delivery="stock"), "ok")


def test_failing(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", **TRAINED)
    only(look(NAME, draft, delivery="stock"), "error", "Say --speculative-draft-window-size 2047")
    only(look(NAME, draft, FLAG, "2048", delivery="stock"), "error", "2047")
    only(look(NAME, draft, FLAG, "100"), "error", "not the trained window")
    only(look(NAME, draft, release="0.5.11"), "error", "no window")
    only(look(NAME, draft, delivery="stock", launch=None), "skipped")
    only(look(NAME, damage(tmp_path / "plain"), FLAG, "100"), "warning", "does not speak of")


def test_what_the_flag_cannot_say(tmp_path: Path) -> None:
    mixed = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}
    only(look(NAME, damage(tmp_path / "mixed", **mixed), FLAG, "63", delivery="stock"), "error", "every layer")
    mla = damage(tmp_path / "mla", architectures=["Eagle3DeepseekV2ForCausalLM"], **TRAINED)
    only(look(NAME, mla), "error", "MLA")
    only(look(NAME, damage(tmp_path / "none", **(TRAINED | {"sliding_window": None}))), "error", "no window")

from pathlib import Path

from cases import damage, look, only

NAME = "disaggregation_carries_states"


MODE = ("--disaggregation-mode", "prefill")


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    only(look(NAME, launch=None), "skipped")


def test_the_other_server_is_not_seen(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft"), *MODE), "warning", "decode server")


def test_another_width(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", hidden_size=128)
    only(look(NAME, draft, *MODE, release="0.5.14"), "error", "target's width", "0.5.15")
    only(look(NAME, draft, *MODE, release="0.5.15"), "warning")

from pathlib import Path

from cases import damage, look, only

NAME = "ids_before_graphs"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, release="0.5.11"), "ok")


def test_failing(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", [2, 5, 7])
    only(look(NAME, draft, release="0.5.10"), "error", "[2, 6, 9]", "[3, 6, 8]")
    only(look(NAME, draft, release="0.5.10", delivery="patch"), "ok")
    only(look(NAME, draft, "--disable-cuda-graph", release="0.5.10"), "ok")
    only(look(NAME, draft, release="0.5.10", target=None), "skipped")
    only(look(NAME, damage(tmp_path / "default", [1, 5, 8]), release="0.5.10"), "ok", "default")

from pathlib import Path

from cases import look, only, write_target

NAME = "target_captures"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, target=None), "skipped")


def test_a_release_too_early(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", architectures=["KimiK25ForConditionalGeneration"])
    only(look(NAME, target=target, release="0.5.9", delivery="stock"), "error", "0.5.9", "0.5.10")
    only(look(NAME, target=target, release="0.5.9", delivery="patch"), "ok")
    only(look(NAME, target=target, release="0.5.10"), "ok")


def test_an_unknown_class(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", architectures=["BertModel"])
    only(look(NAME, target=target), "warning", "BertModel")

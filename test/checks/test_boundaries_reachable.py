from pathlib import Path

import pytest
from cases import damage, look, only, write_target

NAME = "boundaries_reachable"


def test_healthy() -> None:
    only(look(NAME), "ok", "[0, 3, 6] of 12")
    only(look(NAME, target=None), "skipped")


@pytest.mark.parametrize(
    ("ids", "release", "words"),
    [
        ([-1, 2, 5], "0.5.23", ["-1 is no layer", "Install draftwire"]),
        ([0, 3, 6], "0.5.13", ["crashes", "layer 0", "Install draftwire"]),
        ([-1, 2, 5], "0.5.12", ["crashes", "layer 0", "Install draftwire"]),
        ([3, 6, 12], "0.5.23", ["output of the last layer", "12", "Train the draft on an earlier layer"]),
        ([3, 6, 99], "0.5.23", ["Boundary 99", "12 layers", "Name the draft's own target"]),
    ],
)
def test_stock(tmp_path: Path, ids: list[int], release: str, words: list[str]) -> None:
    only(look(NAME, damage(tmp_path / "draft", ids), release=release, delivery="stock"), "error", *words)


def test_the_embedding_in_newer_releases(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", [0, 3, 6]), delivery="stock"), "ok")


def test_the_last_layer_with_draftwire(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", [-1, 5, 11])), "error", "output of the last layer")


def test_gpt_oss_reads_its_last_layer_since_0_5_17(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", architectures=["GptOssForCausalLM"])
    draft = damage(tmp_path / "draft", [8, 10, 12])
    only(look(NAME, draft, target=target, release="0.5.16"), "error", "Boundary 13")
    only(look(NAME, draft, target=target, release="0.5.17"), "ok", "[8, 10, 12]")


def test_the_embedding_of_other_families(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", architectures=["LlamaForCausalLM"])
    only(look(NAME, damage(tmp_path / "draft", [-1, 2, 5]), target=target, delivery="stock"), "warning", "not proven")

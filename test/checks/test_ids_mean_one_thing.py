from pathlib import Path

import pytest
from cases import IDS, damage, look, only, write_target

NAME = "ids_mean_one_thing"


def test_healthy() -> None:
    only(look(NAME), "ok", "[0, 3, 6]")
    only(look(NAME, target=None), "skipped")


def test_minus_one_on_stock() -> None:
    found = only(look(NAME, delivery="stock"), "error", "Trained on boundaries [0, 3, 6], served [2, 5]")
    assert "stock 0.5.8 to 0.5.12.post1: [3, 6] and stops" in found.evidence


@pytest.mark.parametrize(
    ("release", "delivery", "served"),
    [("0.5.12.post1", "stock", "[3, 6, 9]"), ("0.5.13", "stock", "[2, 5, 8]"), ("0.5.23", "overlay", "[2, 5, 8]"),
     ("0.5.12", "patch", "[3, 6, 9]")],
)  # fmt: skip
def test_plain_ids(tmp_path: Path, release: str, delivery: str, served: str) -> None:
    """The founding case: the same list is other layers before and after 0.5.13."""
    found = look(NAME, damage(tmp_path / "draft", [2, 5, 8]), release=release, delivery=delivery)
    only(found, "warning", f": {served}", "[2, 5, 8] or [3, 6, 9]", "Write eagle_config.aux_boundaries")


def test_first_id_1_means_outputs_in_every_release(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", [1, 5, 8])
    for release in ("0.5.8", "0.5.12", "0.5.13", "0.5.23"):
        only(look(NAME, draft, release=release, delivery="stock"), "ok", "[2, 6, 9]")


def test_written_boundaries(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", eagle_config={"aux_boundaries": [0, 3, 6], IDS: [0, 3, 6]})
    only(look(NAME, draft), "ok", "[0, 3, 6]")
    only(look(NAME, draft, delivery="stock"), "ok", "[0, 3, 6]")
    only(look(NAME, draft, delivery="stock", release="0.5.12"), "error", "served [1, 4, 7]")
    contradicts = damage(tmp_path / "other", eagle_config={"aux_boundaries": [0, 3, 6], IDS: [3, 6, 9]})
    only(look(NAME, contradicts), "error", "draftwire refuses", "[3, 6, 9]")


def test_other_families_have_one_meaning(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", architectures=["LlamaForCausalLM"])
    only(look(NAME, damage(tmp_path / "draft", [2, 5, 8]), target=target), "ok", "[3, 6, 9]")


def test_gpt_oss_where_the_largest_is_the_last_layer(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", architectures=["GptOssForCausalLM"])
    found = only(look(NAME, damage(tmp_path / "draft", [8, 10, 12]), target=target, delivery="stock"), "warning")
    assert "stock 0.5.8 to 0.5.16: [9, 11] and stops" in found.evidence
    assert "stock 0.5.17 to 0.5.23: [8, 10, 12]" in found.evidence
    assert "as this release reads them" in found.remedy
    only(look(NAME, damage(tmp_path / "other", [2, 5, 8]), target=target, delivery="stock"), "ok", "[3, 6, 9]")


def test_with_and_without_draftwire() -> None:
    found = only(look(NAME, delivery="stock"), "error")
    assert found.evidence[-1] == "with draftwire: [0, 3, 6]"
    assert "Install draftwire" in found.remedy


def test_the_last_layer_with_draftwire(tmp_path: Path) -> None:
    found = look(NAME, damage(tmp_path / "draft", [-1, 5, 11]))
    only(found, "error", "Trained on boundaries [0, 6, 12], served [0, 6]", "boundaries_reachable")


@pytest.mark.parametrize("keys", [{"ids": [-1, 2, 5]}, {IDS: [0, 3, 6]}, {"eagle_config": {"aux_boundaries": [3, 6]}}])
def test_draftwire_leaves_other_families_their_rule(tmp_path: Path, keys: dict) -> None:
    """The overlay refuses what their own rule could not mean."""
    target = write_target(tmp_path / "target", architectures=["LlamaForCausalLM"])
    draft = damage(tmp_path / "draft", **({"ids": [2, 5, 8]} | keys if "eagle_config" not in keys else keys))
    only(look(NAME, draft, target=target), "error", "draftwire refuses", "LlamaForCausalLM", "as this release reads")

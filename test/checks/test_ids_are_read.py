from pathlib import Path

from cases import IDS, damage, look, only

NAME = "ids_are_read"


def test_healthy() -> None:
    only(look(NAME), "ok", "eagle_config")


def top(folder: Path, ids: list[int], **keys: object) -> Path:
    return damage(folder, None, **{IDS: ids}, **keys)


def test_ids_at_top_level(tmp_path: Path) -> None:
    draft = top(tmp_path / "draft", [0, 3, 6], speculators_model_type="eagle3")
    only(look(NAME, draft, delivery="overlay"), "ok", "[0, 3, 6]")
    only(look(NAME, draft, delivery="stock"), "error", "default [2, 6, 9]", "trained on boundaries [0, 3, 6]")
    only(look(NAME, draft, delivery="stock", target=None), "error")


def test_top_level_ids_that_are_the_default(tmp_path: Path) -> None:
    draft = top(tmp_path / "draft", [2, 6, 9], speculators_model_type="eagle3")
    only(look(NAME, draft, delivery="stock"), "warning", "happens to be the same")


def test_only_boundaries_on_stock(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", eagle_config={"aux_boundaries": [0, 3, 6]})
    only(look(NAME, draft, delivery="stock"), "error", "only eagle_config.aux_boundaries")
    only(look(NAME, top(tmp_path / "top", [0, 3, 6]), delivery="stock"), "error", "at the top of config.json")


def test_no_ids(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", None)
    only(look(NAME, draft), "warning", "[2, 6, 9]", "a guess")
    only(look(NAME, draft, target=None), "skipped")


def test_speculators_before_0_5(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", None, speculators_model_type="eagle3", speculators_version="0.4.0")
    only(look(NAME, draft), "error", "0.3 and 0.4")


def test_a_table_that_is_none(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", eagle_config=[1])), "error", "no table", "list")


def test_no_states(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", eagle_config={"use_aux_hidden_state": False})), "ok", "no aux")

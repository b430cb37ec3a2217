from pathlib import Path

import pytest
from cases import IDS, damage, look, only

NAME = "ids_ascending"


def test_healthy() -> None:
    only(look(NAME), "ok", "[-1, 2, 5]")


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([5, 2, -1], ["do not ascend", "[-1, 2, 5]", "order [2, 1, 0]"]),
        ([2, 2, 5], ["twice"]),
        ([-2, 2, 5], ["below -1"]),
        ([1.0, 2, 5], ["whole numbers"]),
        (["1"], ["whole numbers"]),
        ([True, 2, 5], ["whole numbers"]),
        ([], ["whole numbers"]),
        ("1,2", ["whole numbers"]),
        ({"a": 1}, ["whole numbers"]),
    ],
)
def test_failing(tmp_path: Path, ids: object, words: list[str]) -> None:
    only(look(NAME, damage(tmp_path / "draft", ids)), "error", *words)


def test_other_lists(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "top", None, **{IDS: [6, 3]})), "error", "do not ascend")
    written = damage(tmp_path / "written", eagle_config={"aux_boundaries": [-1, 2]})
    only(look(NAME, written), "error", "below 0", "aux_boundaries")
    only(look(NAME, damage(tmp_path / "none", None)), "ok", "No ids")


def test_no_states_no_ids(tmp_path: Path) -> None:
    """ModelOpt's drafts without captured states have an empty list."""
    nested = {"use_aux_hidden_state": False, IDS: []}
    only(look(NAME, damage(tmp_path / "draft", eagle_config=nested)), "ok", "no aux hidden states")
    only(look(NAME, damage(tmp_path / "with", eagle_config=nested | {"use_aux_hidden_state": True})), "error")

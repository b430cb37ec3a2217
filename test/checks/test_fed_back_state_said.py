from pathlib import Path

import small_drafts as small
from cases import damage, look, only

NAME = "fed_back_state_said"


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    only(look(NAME, damage(tmp_path / "draft", fc_norm=True, norm_output=False)), "ok", "False")
    only(look(NAME, small.write(tmp_path / "s", small.speculators_config(norm_before_fc=True, norm_output=None),
                                small.tensors())), "ok")  # fmt: skip


def test_failing(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", fc_norm=True)), "warning", "fc_norm is true", "norm_output")

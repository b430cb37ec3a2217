from pathlib import Path

from cases import damage, look, only, write_target

NAME = "rope_matches_target"


def test_healthy() -> None:
    """The target's YaRN has factor 1, which is none."""
    only(look(NAME), "ok", "base 10000")
    only(look(NAME, target=None), "skipped")


def test_failing(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "base", rope_theta=1e6)), "warning", "base 1e+06", "base 10000")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    target = write_target(tmp_path / "target", rope_scaling=yarn)
    only(look(NAME, target=target), "warning", "target: base 10000, yarn x 4")
    only(look(NAME, damage(tmp_path / "same", rope_scaling=yarn), target=target), "ok")

from pathlib import Path

from cases import damage, look, only

NAME = "rope_is_read"


NEWER = {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok", "base 10000")
    only(look(NAME, damage(tmp_path / "draft", **NEWER), release="0.5.10"), "ok", "1e+06")


def test_before_0_5_10(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", **NEWER), release="0.5.9"), "error", "does not read rope_parameters")


def test_two_bases(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", **{**NEWER, "rope_theta": 5e4})
    only(look(NAME, draft), "error", "Two RoPE bases")


def test_no_block(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "a", rope_theta="10000")), "error", "positive rope_theta")
    only(look(NAME, damage(tmp_path / "b", rope_scaling=[1])), "error", "no table")


def test_both_places_before_0_5_10(tmp_path: Path) -> None:
    both = {"rope_theta": 1e6, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    only(look(NAME, damage(tmp_path / "same", **both), release="0.5.9"), "ok", "1e+06")
    default = {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 10000}}
    only(look(NAME, damage(tmp_path / "default", **default), release="0.5.9"), "ok")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    lost = damage(tmp_path / "lost", rope_parameters={**yarn, "rope_theta": 10000.0})
    only(look(NAME, lost, release="0.5.9"), "error", "does not read rope_parameters", "yarn")
    kept = damage(tmp_path / "kept", rope_parameters={**yarn, "rope_theta": 10000.0}, rope_scaling=yarn)
    only(look(NAME, kept, release="0.5.9"), "ok")

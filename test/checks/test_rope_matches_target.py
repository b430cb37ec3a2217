import json
from pathlib import Path

import pytest
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


def test_a_target_whose_base_is_in_its_class_alone(tmp_path: Path) -> None:
    """Gemma-3's published text config has no rope_theta; its class's base is 1e6."""
    target = _without_base(write_target(tmp_path / "target"))
    only(look(NAME, damage(tmp_path / "draft", rope_theta=1e6), target=target), "skipped", "writes no RoPE base")
    scaled = write_target(tmp_path / "scaled", rope_scaling={"rope_type": "linear", "factor": 8.0})
    only(look(NAME, target=_without_base(scaled)), "warning", "target: base 10000 (none written), linear x 8")


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        ("yarn", {"original_max_position_embeddings": 4096}, "original_max_position_embeddings"),
        ("yarn", {"original_max_position_embeddings": None}, "original_max_position_embeddings"),
        ("yarn", {"beta_fast": 1}, "beta_fast"),
        ("yarn", {"beta_slow": 2}, "beta_slow"),
        ("llama3", {"low_freq_factor": 2.0}, "low_freq_factor"),
        ("llama3", {"high_freq_factor": 8.0}, "high_freq_factor"),
    ],
)
def test_what_shapes_the_frequencies(tmp_path: Path, kind: str, changes: dict, word: str) -> None:
    block = {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 1024}
    if kind == "llama3":
        block |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    target = write_target(tmp_path / "target", rope_scaling=block)
    only(look(NAME, damage(tmp_path / "draft", rope_scaling=block | changes), target=target), "warning", word)
    said = block | ({"beta_fast": 32, "beta_slow": 1} if kind == "yarn" else {})
    only(look(NAME, damage(tmp_path / "said", rope_scaling=said), target=target), "ok")


def _without_base(target: Path) -> Path:
    config = json.loads((target / "config.json").read_text())
    del config["rope_theta"]
    (target / "config.json").write_text(json.dumps(config))
    return target

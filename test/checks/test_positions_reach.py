from pathlib import Path

import pytest
from cases import damage, look, only

NAME = "positions_reach"


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok", "4096")
    only(look(NAME, target=None), "skipped")
    only(look(NAME, damage(tmp_path / "draft", max_position_embeddings=2048), "--context-length", "2048"), "ok")
    linear = {"rope_type": "linear", "factor": 2.0}
    only(look(NAME, damage(tmp_path / "l", max_position_embeddings=2048, rope_scaling=linear)), "ok", "4096")


def test_failing(tmp_path: Path) -> None:
    short = damage(tmp_path / "draft", max_position_embeddings=2048)
    only(look(NAME, short), "error", "2048", "4096", "--context-length 2048")
    for value in ("1", "true", "YES", "y"):
        allowed = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": value}
        only(look(NAME, short, environment=allowed), "warning", "longer than the draft's")
    only(look(NAME, short, environment={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "0"}), "error")
    only(look(NAME, damage(tmp_path / "none", max_position_embeddings=None)), "error", "max_position_embeddings")


YARN, LINEAR = {"rope_type": "yarn", "factor": 8.0}, {"rope_type": "linear", "factor": 8.0}
LONGROPE = {"rope_type": "longrope", "factor": 8.0, "short_factor": [1.0] * 12, "long_factor": [8.0] * 12}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("keys", "reach"),
    [
        ({}, 512),
        ({"rope_scaling": YARN}, 512),
        ({"rope_scaling": {"type": "yarn", "factor": 8.0}}, 512),
        ({"rope_scaling": LINEAR}, 4096),
        ({"rope_scaling": LLAMA3}, 512),
        ({"rope_scaling": {"type": "llama3", **LLAMA3}}, 512),
        ({"rope_parameters": {**LINEAR, "rope_theta": 1e4}}, 4096),
        ({"rope_parameters": {**YARN, "rope_theta": 1e4}}, 512),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 256}}, 512),
        ({"model_max_length": 9999}, 9999),
        ({"max_sequence_length": 600, "seq_length": 5}, 600),
        ({"seq_length": 700, "max_seq_len": 5}, 700),
        ({"max_seq_len": 800, "model_max_length": 5}, 800),
        ({"rope_scaling": LONGROPE}, 512),
    ],
)
def test_upstreams_own_length(tmp_path: Path, keys: dict, reach: int) -> None:
    from sglang.srt.utils.hf_transformers import get_config
    from sglang.srt.utils.hf_transformers.common import get_context_length

    draft = damage(tmp_path / "draft", max_position_embeddings=512, **keys)
    assert get_context_length(get_config(str(draft), trust_remote_code=False)) == reach
    only(look(NAME, draft, "--context-length", str(reach)), "ok")
    only(look(NAME, draft, "--context-length", str(reach + 1)), "error", f"context {reach + 1}")


def test_before_transformers_5(tmp_path: Path) -> None:
    """Until 0.5.9 no original length is filled in, and rope_parameters is not read."""
    yarn = damage(tmp_path / "yarn", max_position_embeddings=512, rope_scaling=YARN)
    only(look(NAME, yarn, release="0.5.9"), "ok", "4096 positions")
    linear = damage(tmp_path / "linear", max_position_embeddings=512, rope_parameters=LINEAR)
    only(look(NAME, linear, release="0.5.9"), "error", "512")

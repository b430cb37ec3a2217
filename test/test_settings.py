"""What a draft's config asks for, and what each server makes of it. Needs no torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import small_drafts

from draftwire.axes import differences, moved
from draftwire.doctor import collect
from draftwire.draft import DraftError, read_draft
from draftwire.settings import Settings, read_settings, served_settings

YARN = {"rope_type": "yarn", "factor": 64.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096}  # fmt: skip
SERVERS = [("0.5.8", "stock"), ("0.5.12", "stock"), ("0.5.15", "stock"), ("0.5.23", "stock"), ("0.5.15", "patch"),
           ("0.5.15", "overlay"), ("0.5.23", "overlay")]  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    return small_drafts.write(folder / "draft", small_drafts.flat_config(**changes), small_drafts.flat_tensors())


def served(folder: Path, release: str, delivery: str, **changes: Any) -> Settings:
    target = folder / "target"
    if not target.exists():
        small_drafts.target(target)
    draft = written(folder / f"{release}-{delivery}", **changes)
    return served_settings(collect(str(draft), str(target), release=release, delivery=delivery))


@pytest.mark.parametrize(
    ("name", "changes", "wanted"),
    [
        ("norm_before_residual", {"norm_before_residual": True}, [0, 0, 0, 0, 1, 1, 1]),
        ("norm_before_fc", {"norm_before_fc": True}, [0, 0, 0, 1, 0, 1, 1]),
        ("fc_norm", {"fc_norm": True}, [0, 1, 1, 1, 1, 1, 1]),
        ("norm_output", {"norm_output": True}, [0, 1, 1, 1, 1, 1, 1]),
        ("norm_output", {"eagle_config": {"norm_output": True}}, [0, 0, 0, 0, 0, 0, 0]),
        ("qk_norm", {"eagle_config": {"requires": ["qk_norm"]}}, [0, 0, 0, 0, 0, 1, 1]),
    ],
)
def test_flags_by_server(name: str, changes: dict, wanted: list[int], tmp_path: Path) -> None:
    assert getattr(read_settings(read_draft(written(tmp_path, **changes))), name)
    found = [getattr(served(tmp_path, *server, **changes), name) for server in SERVERS]
    assert found == [bool(w) for w in wanted]


@pytest.mark.parametrize(("changes", "wanted"), [
    ({"norm_before_fc": True, "eagle_config": {"norm_before_fc": False}}, {"norm_before_fc": False}),
    ({"norm_before_fc": False, "eagle_config": {"norm_before_fc": True}}, {"norm_before_fc": True}),
    ({"fc_norm": True, "eagle_config": {"fc_norm": False}}, {"fc_norm": True}),
    ({"model_type": "qwen3"}, {"qk_norm": False}),
])  # fmt: skip
def test_the_replay_reads_switches_as_the_doctor_does(changes: dict, wanted: dict, tmp_path: Path) -> None:
    """Of two that differ the one that SGLang reads; Qwen3's norms only where the draft has them."""
    draft = read_draft(written(tmp_path, **changes))
    asked, case = read_settings(draft), collect(str(draft.directory), release="0.5.23", delivery="overlay")
    for name, value in wanted.items():
        assert getattr(asked, name) is value
        assert (case.wants_qk_norm if name == "qk_norm" else case.flag(name)) is value


def test_yarn_by_release(tmp_path: Path) -> None:
    changes = {"rope_parameters": None, "rope_scaling": YARN, "rope_theta": 50000.0}
    asked = read_settings(read_draft(written(tmp_path, **changes))).rope
    assert (asked.kind, asked.theta, asked.magnitude) == ("yarn", 50000.0, 1.0)
    found = [served(tmp_path, *server, **changes).rope.magnitude for server in SERVERS]
    whole = 0.1 * math.log(64) + 1
    assert found == pytest.approx([whole, whole, whole, 1.0, whole, whole, 1.0])


def test_a_window_by_server(tmp_path: Path) -> None:
    changes = {"layer_types": ["sliding_attention"], "sliding_window": 64}
    assert read_settings(read_draft(written(tmp_path, **changes))).window == (64,)
    found = [served(tmp_path, *server, **changes).window for server in SERVERS]
    assert found == [(None,)] * 5 + [(64,)] * 2
    draft = written(tmp_path / "flag", **changes)
    case = collect(str(draft), str(tmp_path / "target"), release="0.5.23", delivery="stock",
                   command_line=["--speculative-draft-window-size", "63"])  # fmt: skip
    assert served_settings(case).window == (64,)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": "8"}},
        {"layer_types": ["sliding_attention"], "sliding_window": 0},
    ],
)
def test_refused(changes: dict, tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=r"config\.json"):
        read_settings(read_draft(written(tmp_path, **changes)))


def test_moving_every_axis_of_difference_makes_equal(tmp_path: Path) -> None:
    one = read_settings(read_draft(written(tmp_path / "one")))
    changes = {"rope_parameters": {**YARN, "rope_theta": 5e5}, "norm_output": True, "fc_norm": True}
    other = read_settings(read_draft(written(tmp_path / "other", **changes)))._replace(d2t="ids", window=(7,))
    axes = differences(one, other)
    assert sorted(axes) == ["d2t", "fc_norm", "norm_output", "rope_scaling", "rope_theta", "window"]
    for axis in axes:
        assert differences(one, moved(one, axis, other)) == [axis]
        one = moved(one, axis, other)
    assert one == other
    assert json.loads(json.dumps(one))

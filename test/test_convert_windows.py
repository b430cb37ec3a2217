"""Windows: which layers have one, by the trainer's own config classes."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_drafts as small
from packaging.version import Version

from draftwire.convert import DraftError, convert
from draftwire.convert.windows import read_windows

SLIDING, FULL = "sliding_attention", "full_attention"
NEWEST = Version("0.9.0")


@pytest.mark.parametrize("window", [1, 0, -4, None, 8.0, True])
def test_a_window_of_no_earlier_key_is_refused(tmp_path: Path, window: object) -> None:
    """A window of 1 would be the flag 0."""
    config = small.speculators_config(layer={"layer_types": [SLIDING], "sliding_window": window})
    with pytest.raises(DraftError, match="sliding_window"):
        convert(str(small.write(tmp_path / "draft", config, small.tensors())), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["draft"]


def test_a_window_of_two_is_a_flag_of_one(tmp_path: Path) -> None:
    config = small.speculators_config(layer={"layer_types": [SLIDING], "sliding_window": 2})
    output = convert(str(small.write(tmp_path / "draft", config, small.tensors())), tmp_path / "out")
    assert output.flags["speculative-draft-window-size"] == 1


# Keys of a Qwen3 config of four layers, as a person or a trainer may write them.
QWEN = [
    {"sliding_window": 8, "layer_types": [SLIDING] * 4, "use_sliding_window": True},
    {"sliding_window": 8, "layer_types": [SLIDING] * 4, "use_sliding_window": False},
    {"sliding_window": 8, "layer_types": [SLIDING] * 4},
    {"sliding_window": None, "layer_types": [SLIDING] * 4, "use_sliding_window": False},
    {"sliding_window": 8, "layer_types": [FULL, SLIDING, FULL, SLIDING], "use_sliding_window": True},
    {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2},
    {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 0},
    {"sliding_window": 8, "use_sliding_window": True},
    {"sliding_window": 8, "use_sliding_window": False, "max_window_layers": 0},
    {"sliding_window": 8},
    {"sliding_window": None, "use_sliding_window": True, "max_window_layers": 0},
    {},
]


@pytest.mark.parametrize("keys", QWEN)
def test_qwen3_has_the_windows_of_its_own_class(keys: dict) -> None:
    """The oracle: transformers' class; speculators attends by the layer_types and sliding_window that it computes."""
    from transformers import Qwen3Config

    trained = Qwen3Config(num_hidden_layers=4, **keys)
    wanted = [trained.sliding_window if kind == SLIDING else None for kind in trained.layer_types]
    types, window, notes = read_windows({"model_type": "qwen3", **keys}, 4, NEWEST, "x")
    assert [window if kind == SLIDING else None for kind in types or [FULL] * 4] == wanted
    assert bool(notes) == (any(wanted) or SLIDING in trained.layer_types)


def test_llama_without_layer_types_has_no_window() -> None:
    """speculators takes the layers with a window from layer_types alone; a Llama config has none of its own."""
    from transformers import LlamaConfig

    assert getattr(LlamaConfig(sliding_window=8), "layer_types", None) is None
    types, window, notes = read_windows({"model_type": "llama", "sliding_window": 8}, 2, NEWEST, "x")
    assert (types, window) == ([], 0)
    assert "sliding_window 8 beside no layer_types" in notes[0]


@pytest.mark.parametrize(
    "keys",
    [{"layer_types": [SLIDING], "sliding_window": 8, "use_sliding_window": False}, {"use_sliding_window": "no"},
     {"model_type": "qwen3", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": "x"}],
)  # fmt: skip
def test_keys_that_contradict(keys: dict) -> None:
    with pytest.raises(DraftError, match="window"):
        read_windows({"model_type": "llama", **keys}, 1, NEWEST, "x")


@pytest.mark.parametrize(("version", "window"), [("0.6.3", 0), ("0.7.0", 8), ("0.9.1", 8)])
def test_speculators_before_0_7_trained_without(version: str, window: int) -> None:
    """Its forward is shown in test_convert_speculators_releases.py."""
    layer = {"model_type": "llama", "layer_types": [SLIDING], "sliding_window": 8}
    found = read_windows(layer, 1, Version(version), "x")
    assert found[1] == window
    assert version in found[2][0] or window

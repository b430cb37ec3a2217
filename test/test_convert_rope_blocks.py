"""A RoPE that a config says in two places, or once a layer type: resolved where they agree, refused where not."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_drafts as small

from draftwire.convert import DraftError, convert
from draftwire.convert.mla import mla_rope
from draftwire.convert.rope import rope_block

LOCAL = {"rope_type": "default", "rope_theta": 1e4}
WIDE = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0, "original_max_position_embeddings": 1024}


def by_type(full: object, sliding: object) -> dict:
    return {"rope_parameters": {"full_attention": full, "sliding_attention": sliding}}


@pytest.mark.parametrize(
    ("layer", "types"),
    [
        (by_type(WIDE, WIDE), ["sliding_attention", "full_attention"]),
        (by_type(WIDE, LOCAL), ["full_attention"] * 2),
        (by_type(LOCAL, WIDE), ["sliding_attention"]),
        (by_type(WIDE, LOCAL), None),
        ({"rope_parameters": {"full_attention": WIDE}}, ["full_attention"]),
    ],
)
def test_blocks_by_layer_type_are_the_layers_own(layer: dict, types: list[str] | None) -> None:
    assert rope_block({**layer, "layer_types": types}, "x") == rope_block({"rope_parameters": WIDE}, "x")


@pytest.mark.parametrize(
    ("layer", "types", "said"),
    [
        (by_type(WIDE, LOCAL), ["sliding_attention", "full_attention"], "one RoPE for all"),
        (by_type(WIDE, {**WIDE, "rope_theta": 1e4}), ["sliding_attention", "full_attention"], "one RoPE for all"),
        (by_type(WIDE, None), ["sliding_attention"], "sliding_attention layers"),
        (by_type(WIDE, 5), ["sliding_attention"], "sliding_attention layers"),
        ({"rope_parameters": {"full_attention": WIDE, "factor": 8.0}}, None, "'factor'"),
    ],
)
def test_blocks_by_layer_type_that_differ(layer: dict, types: list[str] | None, said: str) -> None:
    with pytest.raises(DraftError, match=said):
        rope_block({**layer, "layer_types": types}, "x")


@pytest.mark.parametrize(
    ("types", "taken"), [(["sliding_attention"], True), (["full_attention"], False), (None, False)]
)
def test_speculators_takes_the_sliding_block_for_every_layer(tmp_path: Path, types: list | None, taken: bool) -> None:
    """Its flatten_rope_parameters; where the layer's own type has another block, nobody can say what was meant."""
    layer = {**by_type(WIDE, LOCAL), "layer_types": types, "sliding_window": 8}
    source = small.write(tmp_path / "draft", small.speculators_config(layer=layer), small.tensors())
    if not taken:
        with pytest.raises(DraftError, match="one RoPE for all"):
            convert(str(source), tmp_path / "out")
        return
    config = convert(str(source), tmp_path / "out").config
    assert (config["rope_theta"], config["rope_scaling"]) == (1e4, None)


AGREE = [
    {"rope_theta": 5e4}, {"rope_scaling": None}, {"rope_theta": None}, {"rope_scaling": WIDE}, {"rope_scaling": {}},
    {"rope_theta": 50000, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}},
    {"rope_scaling": {**WIDE, "attention_factor": None}},
]  # fmt: skip
CONTRADICT = [
    {"rope_theta": 1e4}, {"rope_scaling": {**WIDE, "factor": 8.0}}, {"rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_scaling": {**WIDE, "rope_theta": 1e4}}, {"rope_scaling": {"rope_type": "default"}},
    {"rope_scaling": {**WIDE, "mscale": 1.0}}, {"rope_scaling": {**WIDE, "type": "linear"}},
]  # fmt: skip


@pytest.mark.parametrize("beside", AGREE)
@pytest.mark.parametrize("read", [rope_block, mla_rope])
def test_two_places_that_agree(beside: dict, read) -> None:
    assert read({"rope_parameters": WIDE, **beside}, "x") == read({"rope_parameters": WIDE}, "x")


@pytest.mark.parametrize("beside", CONTRADICT)
@pytest.mark.parametrize("read", [rope_block, mla_rope])
def test_two_places_that_contradict(beside: dict, read) -> None:
    with pytest.raises(DraftError, match=r"in config\.json"):
        read({"rope_parameters": WIDE, **beside}, "config.json")


def test_a_contradiction_leaves_no_output(tmp_path: Path) -> None:
    layer = {"rope_parameters": WIDE, "rope_theta": 1e4}
    source = small.write(tmp_path / "draft", small.speculators_config(layer=layer), small.tensors())
    with pytest.raises(DraftError, match=r"rope_theta 50000\.0, as in rope_parameters; found 10000\.0"):
        convert(str(source), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["draft"]


def test_transformers_reads_blocks_by_layer_type_so() -> None:
    """The oracle of the form: transformers' own config keeps a block for each layer type under these names."""
    from transformers import Gemma3TextConfig

    blocks = Gemma3TextConfig(num_hidden_layers=2).rope_parameters
    assert set(blocks) == {"full_attention", "sliding_attention"}
    assert blocks["sliding_attention"]["rope_type"] == "default"

"""Drafts that are converted and served without another trainer's word: the engine's answer to one form of a draft is
compared with its answer to another form of the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drafts_served import TARGET, DraftServer
from states import load_sample

from draftwire.convert import convert
from draftwire.pair import example_pair

pytestmark = pytest.mark.slow


def save(folder: Path, tensors: dict, **changes) -> Path:
    from safetensors.torch import save_file

    config = json.loads((example_pair().draft / "config.json").read_text()) | changes
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder


def test_one_draft_in_many_forms(tmp_path: Path) -> None:
    """The small pair's draft, trained by a recipe like SpecForge's: as it is, converted, in SafeAILab's names, without
    the embedding; and with the target's head over the whole vocabulary, stored and not stored."""
    from safetensors.torch import load_file

    original = load_file(example_pair().draft / "model.safetensors")
    target = load_file(TARGET / "model.safetensors")
    legacy = {name.replace("layers.0.", "midlayer."): tensor for name, tensor in original.items()}
    shared = {name: tensor for name, tensor in original.items() if name not in ("d2t", "t2d", "lm_head.weight")}
    shared["embed_tokens.weight"] = target["model.embed_tokens.weight"]
    without = {name: tensor for name, tensor in original.items() if name != "embed_tokens.weight"}
    forms = {
        "as it is": example_pair().draft,
        "specforge": save(tmp_path / "specforge", original),
        "sglang": save(tmp_path / "sglang", legacy, eagle_config=None),
        "no embedding": save(tmp_path / "embedding", without),
        "own head": save(
            tmp_path / "own", {**shared, "lm_head.weight": target["lm_head.weight"]}, draft_vocab_size=1024
        ),
        "target's head": save(tmp_path / "target", shared, draft_vocab_size=1024),
    }
    for form in list(forms)[1:]:
        given = [0, 3, 6] if form == "sglang" else None
        convert(str(forms[form]), tmp_path / f"out {form}", target=str(TARGET), boundaries=given)
        forms[form] = tmp_path / f"out {form}"
    prompt = load_sample(example_pair().directory, 0)["input_ids"][:100].tolist()
    (tmp_path / "probe").mkdir()
    logits = {}
    with DraftServer(forms["as it is"], tmp_path / "probe") as server:
        for form, draft in forms.items():
            assert server.exchange(draft) is None
            logits[form] = server.draft(prompt).logits
    for form in ("specforge", "sglang", "no embedding"):
        assert (logits[form] - logits["as it is"]).abs().max() < 1e-5, form
    assert (logits["own head"] - logits["target's head"]).abs().max() < 1e-5
    assert logits["own head"].shape[-1] == 1024
    assert logits["own head"].std() > 0.5

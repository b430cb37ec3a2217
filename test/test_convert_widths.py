"""Drafts of another width than the target's, tied drafts, and YaRN, in the engine: logits against speculators' own
forward, or against another form of the same draft."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draft_cases import other_widths
from drafts_served import TARGET, DraftServer
from speculators_oracle import compute_logits, made_once
from states import load_sample, relative_errors
from test_convert_served import save

from draftwire.convert import convert
from draftwire.pair import example_pair

pytestmark = pytest.mark.slow
CASES = {case["name"]: case for case in other_widths()}
LENGTH = 200


made = made_once(CASES.values())


def prompt() -> list[int]:
    return load_sample(example_pair().directory, 0)["input_ids"][:LENGTH].tolist()


def as_served(made: Path, name: str, folder: Path) -> Path:
    """The draft with the states that it takes in service: the same values at fc, cut into other pieces."""
    draft = folder / "given"
    draft.mkdir()
    config = json.loads((made / name / "config.json").read_text()) | CASES[name].get("served", {})
    (draft / "config.json").write_text(json.dumps(config))
    (draft / "model.safetensors").symlink_to(made / name / "model.safetensors")
    return draft


@pytest.mark.parametrize("name", CASES)
def test_logits_are_the_trainers(name: str, made: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    output = convert(str(as_served(made, name, tmp_path)), tmp_path / "out", release="0.5.23")
    assert output.boundaries == [0, 3, 6]
    assert output.config["target_hidden_size"] == 192
    assert output.config["hidden_size"] == CASES[name].get("hidden", 192)
    (tmp_path / "probe").mkdir()
    with DraftServer(tmp_path / "out", tmp_path / "probe") as server:
        drafted = server.draft(prompt())
    wanted = load_sample(example_pair().directory, 0)["hidden_states"][:3, :LENGTH]
    assert max(relative_errors(drafted.hidden.view(LENGTH, 3, -1).transpose(0, 1), wanted)) < 0.02
    save_file({"hidden": drafted.hidden.contiguous(), "tokens": drafted.tokens.long()}, tmp_path / "states.in")
    compute_logits([(made / name, tmp_path / "states.in", tmp_path / "logits.out")])
    expected = load_file(tmp_path / "logits.out")["logits"]
    assert expected.std() > 0.5
    assert (drafted.logits - expected).abs().max() < 2e-5


def test_a_tied_draft_has_its_own_embedding_and_head(tmp_path: Path) -> None:
    """The same as an untied one that stores the tensor twice and says that its embedding was trained."""
    import torch
    from safetensors.torch import load_file

    dropped = ("d2t", "t2d", "lm_head.weight", "embed_tokens.weight")
    tensors = load_file(example_pair().draft / "model.safetensors")
    tensors = {name: tensor for name, tensor in tensors.items() if name not in dropped}
    torch.manual_seed(2)
    tensors["embed_tokens.weight"] = torch.randn(1024, 192) / 192**0.5
    whole = {"draft_vocab_size": 1024}
    twice = {**tensors, "lm_head.weight": tensors["embed_tokens.weight"].clone()}
    forms = {
        "untied": save(tmp_path / "untied", twice, embed_requires_grad=True, **whole),
        "tied": save(tmp_path / "tied", tensors, tie_word_embeddings=True, **whole),
        "stored twice": save(tmp_path / "stored", twice, tie_word_embeddings=True, **whole),
    }
    (tmp_path / "probe").mkdir()
    logits = {}
    for form, source in forms.items():
        output = convert(str(source), tmp_path / f"out {form}", target=str(TARGET))
        assert output.requires == ["own_embedding"]
    with DraftServer(tmp_path / "out untied", tmp_path / "probe") as server:
        for form in forms:
            assert server.exchange(tmp_path / f"out {form}") is None
            logits[form] = server.draft(prompt()).logits
    assert logits["untied"].std() > 0.1
    for form in forms:
        assert (logits[form] - logits["untied"]).abs().max() < 1e-6, form

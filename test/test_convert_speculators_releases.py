"""Drafts of speculators 0.5 to 0.8, made by each release itself, converted and compared in the engine with what that
release's own forward computes; up to 0.7 with the transformers 4 of its day, whose configs have other RoPE keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draft_cases import VOCABULARY, of_releases
from drafts_served import DraftServer
from speculators_oracle import compute_logits, make_drafts
from states import load_sample

from draftwire.convert import convert
from draftwire.pair import Pair, example_pair

pytestmark = pytest.mark.slow
CASES = [(release, case["name"]) for release, cases in of_releases().items() for case in cases]
LENGTH = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, pair: Pair) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for release, cases in of_releases().items():
        make_drafts(cases, pair.target, folder / release, release)
    return folder


@pytest.fixture(scope="module")
def answers(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple]:
    """By release and case: what the engine's draft answered, and the release's own answer."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("answers")
    drafted, answered = {}, {}
    for release, name in CASES:
        convert(str(made / release / name), folder / f"{release}-{name}")
    prompt = load_sample(example_pair().directory, 0)["input_ids"][:LENGTH].tolist()
    (folder / "probe").mkdir()
    # The draft of most layers starts the server, whose KV cache then fits all.
    with DraftServer(folder / "0.5.0-before_fc", folder / "probe") as server:
        for case in CASES:
            assert server.exchange(folder / "-".join(case)) is None
            drafted[case] = server.draft(prompt)
    for release in of_releases():
        requests = []
        for case in (case for case in CASES if case[0] == release):
            states, out = folder / f"{'-'.join(case)}.in", folder / f"{'-'.join(case)}.out"
            save_file({"hidden": drafted[case].hidden.contiguous(), "tokens": drafted[case].tokens.long()}, states)
            requests.append((made / release / case[1], states, out))
        compute_logits(requests, release)
        answered |= {(release, draft.name): load_file(out)["logits"] for draft, _, out in requests}
    return {case: (drafted[case].logits, answered[case]) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_logits_are_the_releases_own(case: tuple[str, str], answers: dict) -> None:
    logits, expected = answers[case]
    assert expected.std() > 0.5
    assert expected.shape == logits.shape
    assert (logits - expected).abs().max() < 2e-5


def test_each_release_made_its_own(made: Path) -> None:
    """Their configs say so, and those of transformers 4 are of the old form."""
    for release, name in CASES:
        config = json.loads((made / release / name / "config.json").read_text())
        assert config["speculators_version"] == release
        assert ("rope_parameters" in config["transformer_layer_config"]) == (release >= "0.8")
        assert config["transformers_version"].startswith("5." if release >= "0.8" else "4.57")


@pytest.mark.parametrize("release", ["0.5.0", "0.6.0"])
def test_no_window_was_trained_before_0_7(release: str, pair: Pair, tmp_path: Path) -> None:
    """Their masks know no window, and their forward ends where a sequence is longer than the one in the config."""
    import torch
    from safetensors.torch import save_file

    (case,) = [case for case in of_releases()["0.7.0"] if case["name"] == "qwen_window"]
    make_drafts([case], pair.target, tmp_path, release)
    save_file({"hidden": torch.zeros(100, 576), "tokens": torch.zeros(102, dtype=torch.long)}, tmp_path / "in")
    with pytest.raises(AssertionError, match="block_mask was created for"):
        compute_logits([(tmp_path / case["name"], tmp_path / "in", tmp_path / "out")], release)
    output = convert(str(tmp_path / case["name"]), tmp_path / "converted")
    assert "sliding_window" not in output.requires
    assert "speculative-draft-window-size" not in output.flags
    assert any("trained without" in note for note in output.notes)


def test_a_window_shows(answers: dict) -> None:
    """The test could tell one network from another."""
    with_window, without = answers["0.7.0", "qwen_window"][1], answers["0.7.0", "qwen"][1]
    assert (with_window - without).abs().max() > 1e-2
    assert answers["0.5.0", "before_fc"][1].shape[-1] == VOCABULARY

"""WIRED, MISWIRED and UNKNOWN, each for the right reason; damaged drafts are named by the axis that was damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from draft_damage import DAMAGES, damage, ids
from safetensors.torch import load_file, save_file

from draftwire import diagnosis
from draftwire.diagnosis import diagnose
from draftwire.doctor import collect
from draftwire.draft import DraftError
from draftwire.pair import example_pair
from draftwire.release import RELEASES
from draftwire.sample import Samples, read_samples
from draftwire.samples_command import examine_samples, read_states
from draftwire.states_command import name_dumped

PAIR = example_pair()
SAMPLES = PAIR.directory / "samples"


@pytest.fixture(scope="module")
def samples() -> Samples:
    return read_samples(SAMPLES, hidden_size=192, vocab_size=1024)


def case_of(draft: Path, release: str = "0.5.23", delivery: str = "overlay", target: Path | None = PAIR.target):
    return collect(str(draft), str(target) if target else None, release=release, delivery=delivery)


def test_the_example_is_wired(samples: Samples) -> None:
    found = diagnose(case_of(PAIR.draft), samples, expect=0.6527)
    assert (found.verdict, found.axes, found.boundaries) == ("WIRED", [], (0, 3, 6))
    assert found.decided
    assert found.served_agreement is not None
    assert 100 * found.served_agreement.rate == pytest.approx(62.2, abs=1.0)
    rival = found.runner_up
    assert rival is not None and found.choices == 24
    assert rival.agreement.of == rival.best.of == found.tokens  # it stopped last, and both are of what both read
    assert rival.best.hits > rival.agreement.hits
    norms = dict(found.norms)
    assert norms[0] == min(norms.values())


FAST = ("swapped_blocks", "target_ids_in_d2t", "theta", "normed_output")


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in DAMAGES])
def test_the_damaged_axis_is_named(name: str, samples: Samples, tmp_path: Path) -> None:
    axis, config, edit = DAMAGES[name]
    found = diagnose(case_of(damage(tmp_path / "draft", config, edit)), samples)
    assert (found.verdict, found.axes) == ("MISWIRED", [axis])
    assert sorted(b for b in found.boundaries if b is not None) == [0, 3, 6]
    assert len(found.reasons) == 1


@pytest.mark.parametrize("values", [[2, 5, 8], [3, 6, 9]])
def test_miswired_on_every_release(values: list[int], samples: Samples, tmp_path: Path, monkeypatch) -> None:
    """Each release reads the ids by its own rule, and none feeds 0, 3, 6."""
    draft = damage(tmp_path / "draft", ids(values))
    original, measure = diagnosis._find, diagnosis.measure
    remembered: dict = {}  # the draft's forward does not depend on the release

    def find_once(*given):
        if "found" not in remembered:
            remembered["found"] = original(*given)
        return remembered["found"]

    def measure_once(replay, evidence, candidate, steps):
        if (candidate, steps) not in remembered:
            remembered[candidate, steps] = measure(replay, evidence, candidate, steps)
        return remembered[candidate, steps]

    monkeypatch.setattr(diagnosis, "_find", find_once)
    monkeypatch.setattr(diagnosis, "measure", measure_once)
    for release in RELEASES:
        for delivery in ("stock", "patch", *(["overlay"] if RELEASES.index(release) >= 10 else [])):
            found = diagnose(case_of(draft, release, delivery), samples)
            raw = RELEASES.index(release) >= RELEASES.index("0.5.13")
            fed = values if raw else [v + 1 for v in values]
            assert (found.verdict, found.axes) == ("MISWIRED", ["boundaries"]), (release, delivery)
            assert list(found.served or ()) == fed
            assert f"trained on boundaries [0, 3, 6], SGLang {release}" in found.reasons[0]
            assert f"boundaries {fed}" in found.reasons[0]
            if fed == [3, 6, 9]:
                assert 100 * found.served_agreement.rate == pytest.approx(26.7, abs=1.0)


def test_stock_captures_two_of_three(samples: Samples) -> None:
    found = diagnose(case_of(PAIR.draft, delivery="stock"), samples)
    assert (found.verdict, found.axes) == ("MISWIRED", ["count"])
    assert "drops -1, the embedding output, and captures 2 states [2, 5], fc takes 3" in found.reasons[0]
    assert "serve it with draftwire's overlay, which captures boundaries [0, 3, 6], -1 as boundary 0" in found.remedy


def linked(folder: Path, manifest: dict | None) -> Path:
    folder.mkdir()
    for file in SAMPLES.glob("*.pt"):
        (folder / file.name).symlink_to(file)
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_without_names_only_the_embedding_speaks(tmp_path: Path) -> None:
    bare = read_samples(linked(tmp_path / "bare", None))
    found = diagnose(case_of(PAIR.draft), bare)
    assert found.verdict == "UNKNOWN"
    assert "--states" in found.reasons[0]
    assert found.boundaries == (0, None, None)
    found = diagnose(case_of(damage(tmp_path / "draft", ids([3, 6, 9]))), bare)
    assert (found.verdict, found.axes) == ("MISWIRED", ["boundaries"])
    assert "trained on the embedding among its states" in found.reasons[0]


def test_a_manifest_that_lies_about_the_embedding(tmp_path: Path) -> None:
    lying = read_samples(linked(tmp_path / "lying", {"boundaries": [3, 0, 6, 9]}))
    with pytest.raises(DraftError, match=r"expected the embedding of its tokens as state 1; found it as state 0"):
        diagnose(case_of(PAIR.draft), lying)


def test_without_target_the_tensor_is_named(samples: Samples) -> None:
    found = diagnose(case_of(PAIR.draft, target=None), samples)
    assert found.verdict == "UNKNOWN"
    assert "embed_tokens.weight" in found.reasons[0]


def test_a_target_without_its_head_shard_gives_what_it_has(samples: Samples, tmp_path: Path) -> None:
    """Embedding, norm and head are read from whichever shards are there; no layer is."""
    weights = load_file(PAIR.target / "model.safetensors")
    (tmp_path / "config.json").write_bytes((PAIR.target / "config.json").read_bytes())
    names = {"model.embed_tokens": "a", "lm_head": "c", "model.norm": "b", "model.layers.0.input_layernorm": "b"}
    shards = {f"{name}.weight": f"{shard}.safetensors" for name, shard in names.items()}
    for shard in ("a.safetensors", "b.safetensors"):
        save_file({n: weights[n] for n, s in shards.items() if s == shard}, tmp_path / shard)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    found = diagnose(case_of(PAIR.draft, target=tmp_path), samples)
    assert found.verdict == "WIRED"
    assert "dumped last state" not in found.scores


def test_a_draft_that_is_noise_is_unknown(samples: Samples, tmp_path: Path) -> None:
    def scramble(tensors: dict) -> None:
        torch.manual_seed(0)
        tensors["lm_head.weight"] = torch.randn(640, 192).bfloat16()

    found = diagnose(case_of(damage(tmp_path / "draft", {}, scramble)), samples)
    assert found.verdict == "UNKNOWN"
    assert "do not tell" in found.reasons[0]


def test_a_figure_that_is_not_reached(samples: Samples) -> None:
    found = diagnose(case_of(PAIR.draft), samples, expect=0.9)
    assert found.verdict == "UNKNOWN"
    assert "falls short of the trainer's 90.0%: 67.3% +-" in found.reasons[-1]
    assert "agree with the target's argmax at step 1 over the draft's vocabulary" in found.reasons[-1]


def test_another_hidden_size(tmp_path: Path) -> None:
    folder = tmp_path / "narrow"
    folder.mkdir()
    states = [torch.zeros(8, 64)] * 4
    torch.save({"input_ids": torch.arange(8), "hidden_states": states}, folder / "data_0.pt")
    with pytest.raises(DraftError, match=r"expected hidden_states\[0\] \[8, 192\] of floats; found \[8, 64\]"):
        examine_samples(case_of(PAIR.draft), folder)


def test_before_training_each_state_is_named(tmp_path: Path) -> None:
    text, status = name_dumped(str(PAIR.target), linked(tmp_path / "bare", None))
    assert [f"dumped state {i}: boundary {b}" in text for i, b in enumerate([0, 3, 6, 9])] == [True] * 4
    assert text.startswith("the last state is boundary 9 of 12")
    assert max(map(len, text.splitlines())) <= 80
    assert status == 1
    text, _ = name_dumped(str(PAIR.target), SAMPLES)
    assert "said to be" not in text
    text, status = name_dumped(str(PAIR.target), linked(tmp_path / "lying", {"boundaries": [0, 2, 6, 9]}))
    assert text.startswith("dumped state 1 is boundary 3, said to be 2; correct the manifest or --states")
    assert "dumped state 1: boundary 3, mean norm 5.75; said to be 2" in text
    assert status == 1


def test_before_training_the_verifiers_state_is_told_from_the_normed_one(tmp_path: Path) -> None:
    from draftwire.naming import run_target
    from draftwire.target import read_target

    tokens = torch.load(SAMPLES / "data_1.pt", weights_only=True)["input_ids"][:64]
    boundaries, normed = run_target(read_target(PAIR.target), tokens)
    assert len(boundaries) == 13
    wanted = ((boundaries[12], "the target's output: what the trainer takes", 0), (normed, "after the final norm", 1))
    for last, said, status in wanted:
        states = [boundaries[2], boundaries[0], last]
        torch.save({"input_ids": tokens, "hidden_states": states}, tmp_path / "data_0.pt")
        text, found = name_dumped(str(PAIR.target), tmp_path)
        assert "state 0: boundary 2" in text
        assert "state 1: boundary 0 (the embedding)" in text
        assert said in " ".join(text.splitlines()[:2])
        assert found == status


def test_text_and_json(samples: Samples) -> None:
    text, status = examine_samples(case_of(PAIR.draft), SAMPLES, expect=0.653)
    assert status == 0
    assert text.startswith("WIRED\n")
    assert "boundary 0 (the embedding) 1.14" in text
    assert "accept" not in text
    table, _ = examine_samples(case_of(PAIR.draft, delivery="stock"), SAMPLES, as_json=True)
    found = json.loads(table)
    assert found["verdict"] == "MISWIRED"
    assert found["boundaries"] == [0, 3, 6]
    assert found["choices"] == 24
    assert "overlay" in found["next"]


@pytest.mark.parametrize("text", ["a", "1,,2", "-1,2", "1;2"])
def test_states_that_are_none(text: str) -> None:
    with pytest.raises(DraftError, match="--states"):
        read_states(text)

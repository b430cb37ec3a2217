"""A draft's own forward: the example's known figures, and speculators' forward for every flag (slow)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from draft_cases import TRAINERS_DEFAULT, combinations, stretched
from draft_damage import add_joint_norm, add_norms, damage
from speculators_oracle import compute_logits, made_once

from draftwire import loaded_draft
from draftwire import replay as module
from draftwire.draft import DraftError, read_draft
from draftwire.loaded_draft import MissingTensor
from draftwire.pair import example_pair
from draftwire.replay import Replay, ordered_choices
from draftwire.sample import Sample, Samples, read_samples
from draftwire.settings import read_settings
from draftwire.target import read_target
from draftwire.weights import read_parts

CASES = {case["name"]: case for case in [*stretched(), *combinations()]}
LENGTH = 150


@pytest.fixture(scope="module")
def samples() -> Samples:
    return read_samples(example_pair().directory / "samples", hidden_size=192, vocab_size=1024)


def example_replay(folder: Path | None = None) -> Replay:
    pair = example_pair()
    return Replay(read_draft(folder or pair.draft), read_parts(read_target(pair.target)))


def agree(samples: Samples, choice: tuple[int, ...], reference: str) -> float:
    replay = example_replay()
    settings, hits, count = read_settings(replay.draft), 0, 0
    for sample in samples:
        predicted = replay.tokens("offsets")[replay.draft_ids(sample, [choice], settings)[0, 0]]
        wanted = sample.argmax[1:] if reference == "argmax" else sample.input_ids[2:]
        hits, count = hits + int((predicted[: len(wanted)] == wanted).sum()), count + len(wanted)
    return 100 * hits / count


@pytest.mark.parametrize(
    ("choice", "reference", "expected"),
    [((0, 1, 2), "argmax", 62.2), ((1, 2, 3), "argmax", 26.7), ((0, 1, 2), "next", 52.5)],
)
def test_figures_of_the_example(samples: Samples, choice: tuple[int, ...], reference: str, expected: float) -> None:
    assert agree(samples, choice, reference) == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize(("flags", "edit"), [({}, None), ({"norm_before_fc": True}, add_joint_norm),
                                             ({"fc_norm": True}, add_norms)])  # fmt: skip
def test_fc_in_pieces_is_fc(samples: Samples, tmp_path: Path, flags: dict, edit) -> None:
    """Any ordered choice: torch's own norm and one product over the joined states."""
    torch.manual_seed(1)

    def scatter(tensors: dict) -> None:
        if edit:
            edit(tensors)
        for name in tensors:
            if name.startswith(("input_norm", "fc_norm")):
                tensors[name] = torch.rand_like(tensors[name].float()).bfloat16() + 0.5

    replay = example_replay(damage(tmp_path / "draft", flags, scatter))
    settings, sample = read_settings(replay.draft), next(iter(samples))
    for choice in [(0, 1, 2), (3, 0, 1)]:
        states = [sample.states[i][:-1].float() for i in choice]
        if flags.get("fc_norm"):
            weights = [replay.tensors[f"fc_norm.{i}.weight"].float() for i in range(3)]
            states = [torch.nn.functional.rms_norm(s, (192,), w, 1e-6) for s, w in zip(states, weights, strict=True)]
        joined = torch.cat(states, dim=-1)
        if flags.get("norm_before_fc"):
            joined = torch.nn.functional.rms_norm(joined, (576,), replay.tensors["input_norm.weight"].float(), 1e-6)
        ((_, fed, *_),) = replay._parts(sample, [choice], settings, 1)
        expected = joined @ replay.fc.float().T
        assert expected.abs().max() > 0.5
        assert (fed[0] - expected).abs().max() < 1e-4 * expected.abs().max()


def test_batched_wirings_are_the_single_ones(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, sample = example_replay(), next(iter(samples))
    settings, choices = read_settings(replay.draft), ordered_choices(4, 3)
    monkeypatch.setattr(module, "VALUES", 255 * 512 * 5)
    together = replay.draft_ids(sample, choices, settings, 3)
    assert together.shape == (24, 3, 255)
    for i in (0, 5, 23):
        alone = replay.draft_ids(sample, [choices[i]], settings, 3)[0]
        assert (together[i] == alone).float().mean() > 0.995


def test_what_a_row_attends_to() -> None:
    """Of the first step its own and the one before, with a window of 2; of each later step its own row."""
    first = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    own = [[int(i == j) for j in range(4)] for i in range(4)]
    assert module._mask(4, 0, 2)[0, 0].int().tolist() == first
    wanted = [[*a, *b, *b] for a, b in zip(first, own, strict=True)]
    assert module._mask(4, 2, 2)[0, 0].int().tolist() == wanted
    assert module._mask(4, 0, None)[0, 0].int().tolist() == [[int(j <= i) for j in range(4)] for i in range(4)]


def test_positions_are_those_of_the_tokens_that_a_step_reads(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row t reads token t + 1 in the first step, which stands at position t + 1, and one further in each next step."""
    replay, sample = example_replay(), next(iter(samples))
    settings = read_settings(replay.draft)
    rotary, seen, read = replay.network(settings).rotary, [], []
    rows = replay.embed.rows
    monkeypatch.setattr(
        rotary, "forward", lambda x, ids: (seen.append(ids[0].tolist()), type(rotary).forward(rotary, x, ids))[1]
    )
    monkeypatch.setattr(replay.embed, "rows", lambda ids: (read.append(ids[:3].tolist()), rows(ids))[1])
    replay.draft_ids(sample, [(0, 1, 2)], settings, 3)
    assert [positions[:3] for positions in seen] == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert read == [sample.input_ids[first:][:3].tolist() for first in (1, 2, 3)]


def test_a_head_in_pieces_is_the_head(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, sample = example_replay(), next(iter(samples))
    settings = read_settings(replay.draft)
    whole = replay.draft_ids(sample, [(0, 1, 2)], settings, 2)
    assert len(whole.unique()) > 20
    for pieces in (7, 100):
        monkeypatch.setattr(module, "HEAD_VALUES", pieces * replay.head.shape[1])
        assert (replay.draft_ids(sample, [(0, 1, 2)], settings, 2) == whole).float().mean() > 0.995


@pytest.mark.parametrize("name", ["fc.weight", "midlayer.hidden_norm.weight", "norm.weight"])
def test_a_missing_tensor_is_named(samples: Samples, tmp_path: Path, name: str) -> None:
    folder = damage(tmp_path / "draft", edit=lambda tensors: tensors.__delitem__(name))
    with pytest.raises(MissingTensor, match=name.replace("midlayer", r"layers\.0")):
        replay = example_replay(folder)
        replay.draft_ids(next(iter(samples)), [(0, 1, 2)], read_settings(replay.draft))


def test_an_embedding_must_come_from_somewhere() -> None:
    with pytest.raises(MissingTensor, match=r"embed_tokens\.weight in the draft or its target"):
        Replay(read_draft(example_pair().draft))


def test_a_config_that_lies_about_sizes(tmp_path: Path, samples: Samples) -> None:
    replay = example_replay(damage(tmp_path / "draft", {"intermediate_size": 500}))
    with pytest.raises(DraftError, match=r"expected layers.0.mlp.gate_proj.weight \[500, 192\]; found \[512, 192\]"):
        replay.draft_ids(next(iter(samples)), [(0, 1, 2)], read_settings(replay.draft))


made = made_once(CASES.values())


@pytest.fixture(scope="module")
def answers(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Sample, torch.Tensor]]:
    """By case: a sample, and speculators' logits [3, draft vocabulary] at its row LENGTH - 1."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("asked")
    first = next(iter(read_samples(example_pair().directory / "samples")))
    requests, asked = [], {}
    for name, case in CASES.items():
        count = len(case["boundaries"])
        states = tuple(s[: LENGTH + 3].float() for s in first.states[:count])
        asked[name] = Sample(first.file, first.input_ids[: LENGTH + 3], first.loss_mask, states, None, False)
        joined = torch.cat([s[:LENGTH] for s in states], dim=-1).contiguous()
        save_file({"hidden": joined, "tokens": first.input_ids[1 : LENGTH + 3].clone()}, folder / f"{name}.in")
        requests.append((made / name, folder / f"{name}.in", folder / f"{name}.out"))
    compute_logits(requests)
    return {name: (sample, load_file(folder / f"{name}.out")["logits"]) for name, sample in asked.items()}


def difference(draft: Path, sample: Sample, expected: torch.Tensor) -> float:
    replay = Replay(read_draft(draft))
    choice = tuple(range(replay.count))
    logits = replay.logits(sample, choice, read_settings(replay.draft), 3)
    return float((logits[:, LENGTH - 1] - expected).abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_logits_are_speculators(name: str, made: Path, answers: dict) -> None:
    sample, expected = answers[name]
    assert expected.std() > 0.5
    assert difference(made / name, sample, expected) < 1e-4


def _without_own_rows(rows: int, step: int, window: int | None) -> torch.Tensor:
    mask = ORIGINAL(rows, step, window)
    mask[..., rows : rows * step] = False
    return mask


def _all_later_rows(rows: int, step: int, window: int | None) -> torch.Tensor:
    first = ORIGINAL(rows, 0, window)
    return torch.cat([first] * (step + 1), dim=-1)


ORIGINAL = module._mask
MUTATIONS = {
    "a window that counts one key less": ("_mask", lambda rows, step, w: ORIGINAL(rows, step, w and w - 1)),
    "no keys of the steps between": ("_mask", _without_own_rows),
    "keys of other rows' later steps": ("_mask", _all_later_rows),
    "a later layer's norm under its other name": ("_stored_name", lambda n: n.replace("layers.0.layer.", "layers.0.")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_shows(name: str, made: Path, answers: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, mutant = MUTATIONS[name]
    monkeypatch.setattr(loaded_draft if attribute == "_stored_name" else module, attribute, mutant)
    case = "three_layers" if attribute == "_stored_name" else TRAINERS_DEFAULT
    try:
        assert difference(made / case, *answers[case]) > 1e-3
    except MissingTensor:
        assert attribute == "_stored_name"

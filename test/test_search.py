"""The race: right winner, paired statistics, loss mask, vocabularies, and when it stops."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")
import torch
from draft_damage import damage
from test_replay import example_replay

from draftwire import search
from draftwire.doubt import lead
from draftwire.draft import DraftError
from draftwire.pair import example_pair
from draftwire.reference import ARGMAX, LAST, NEXT, Agreement, Reference, agreements
from draftwire.sample import read_samples
from draftwire.search import Candidate, Evidence, measure, race, search_choices
from draftwire.settings import read_settings
from draftwire.target import read_target
from draftwire.weights import read_parts

SAMPLES = example_pair().directory / "samples"


@pytest.fixture(scope="module")
def setting():
    replay = example_replay()
    parts = read_parts(read_target(example_pair().target))
    return replay, Evidence(replay, read_samples(SAMPLES), parts), read_settings(replay.draft)


def test_the_winner_of_24(setting) -> None:
    replay, evidence, settings = setting
    run = search_choices(replay, evidence, settings, 4)
    assert len(run.candidates) == 48  # 24 ordered choices under two readings of d2t
    assert run.candidates[run.winner].choice == (0, 1, 2)
    assert run.candidates[run.winner].settings.d2t == "offsets"
    assert run.decided
    assert run.tokens < 1530


def test_all_references_and_vocabularies(setting) -> None:
    replay, evidence, settings = setting
    found = measure(replay, evidence, Candidate((0, 1, 2), settings), 2)
    assert list(found) == [ARGMAX, LAST, NEXT]
    assert evidence.kind == ARGMAX
    full, reduced = found[ARGMAX][0]
    assert 100 * full.rate == pytest.approx(62.2, abs=1.0)
    assert full.of == 6 * 255
    assert reduced.hits == full.hits  # a token outside of the draft's vocabulary is never drafted
    assert reduced.of < full.of
    assert found[NEXT][0][0].of == 6 * 254
    assert found[NEXT][1][0].of == 6 * 253


def test_the_lens_is_the_targets_own(setting) -> None:
    """head(norm(boundary 9)) by torch's own norm, and its argmax within the draft's vocabulary."""
    _, evidence, _ = setting
    parts = read_parts(read_target(example_pair().target))
    sample, found = evidence.samples[0], evidence.references[0][LAST]
    normed = torch.nn.functional.rms_norm(sample.states[-1].float(), (192,), parts.norm.float(), 1e-6)
    logits = normed @ parts.head.float().T
    assert (found.tokens == logits.argmax(-1)).float().mean() > 0.99
    hot = example_replay().tokens("offsets")
    blocked = torch.full_like(logits, float("-inf"))
    blocked[:, hot] = logits[:, hot]
    assert (found.reduced == blocked.argmax(-1)).float().mean() > 0.99


def test_the_loss_mask_is_respected(setting) -> None:
    replay, evidence, settings = setting
    sample = evidence.samples[0]
    mask = torch.zeros(256, dtype=torch.bool)
    mask[100:110] = True
    one = Evidence(replay, [replace(sample, loss_mask=mask)], None)
    found = measure(replay, one, Candidate((0, 1, 2), settings), 3)
    assert [full.of for full, _ in found[ARGMAX]] == [10, 10, 10]
    predicted = replay.tokens("offsets")[replay.draft_ids(sample, [(0, 1, 2)], settings)[0, 0]]
    # Row t foretells what follows position t + 1.
    assert found[ARGMAX][0][0].hits == int((predicted[99:109] == sample.argmax[100:110]).sum())


def test_rows_and_steps_line_up() -> None:
    """A draft that is always right agrees everywhere, one that is a position late nowhere."""
    tokens = torch.arange(10)
    reference = Reference(NEXT, tokens, tokens, torch.ones(10, dtype=torch.bool))
    for step in range(3):
        predicted = torch.full((9,), -7)
        predicted[: 9 - step] = tokens[1 + step :]
        full, _ = agreements(predicted, reference, step)
        assert full.all()
        assert len(full) == 9 - step
        assert not agreements(predicted - 1, reference, step)[0].any()


def test_paired_is_mcnemar() -> None:
    one = torch.tensor([1] * 30 + [0] * 10 + [1] * 60).bool()
    other = torch.tensor([0] * 30 + [1] * 10 + [1] * 60).bool()
    assert float(lead(one, other)) == pytest.approx(20 / math.sqrt(40))
    assert lead(other, one) == -lead(one, other)
    assert lead(one, one) == 0
    assert lead(torch.stack([one, other]), other).tolist() == [float(lead(one, other)), 0]


@pytest.mark.parametrize(("ahead", "alive"), [(24, [0, 1]), (26, [0])])
def test_a_candidate_stops_five_deviations_behind(
    ahead: int, alive: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 and 26 tokens that only the first has right: 4.9 and 5.1 deviations."""
    right = [torch.ones(100, dtype=torch.bool), torch.arange(100) >= ahead]
    monkeypatch.setattr(search, "_predict", lambda *_: ((i, [right[i]]) for i in range(2)))
    monkeypatch.setattr(search, "agreements", lambda tokens, *_: (tokens, tokens))
    evidence = SimpleNamespace(samples=[SimpleNamespace(length=101)], references=[{"argmax": None}], kind="argmax")
    assert race(None, evidence, ["first", "second"]).alive == alive


def test_the_binomial_error() -> None:
    assert Agreement(622, 1000).error == pytest.approx(math.sqrt(0.622 * 0.378 / 1000), rel=0.01)
    assert Agreement(0, 100).error > 0
    assert Agreement(0, 0).rate == 0


def test_equals_are_never_decided(setting) -> None:
    replay, evidence, settings = setting
    twice = [Candidate((0, 1, 2), settings)] * 2
    run = race(replay, evidence, twice)
    assert not run.decided
    assert run.winner == 0
    assert run.tokens == 6 * 255


@pytest.mark.parametrize(("name", "value"), [("fc.weight", float("nan")), ("midlayer.mlp.up_proj.weight", math.inf)])
def test_weights_that_are_no_numbers(name: str, value: float, tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", {}, lambda tensors: tensors[name][100].fill_(value))
    with pytest.raises(DraftError, match=rf"expected {name.replace('midlayer', 'layers.0')} of numbers; found {value}"):
        Evidence(example_replay(draft), read_samples(SAMPLES), None)


def test_without_argmax_and_target_the_text_decides(tmp_path: Path) -> None:
    replay = example_replay()
    for file in SAMPLES.glob("data_*.pt"):
        (tmp_path / file.name).symlink_to(file)
    evidence = Evidence(replay, read_samples(tmp_path), None)
    assert evidence.kind == NEXT
    run = search_choices(replay, evidence, read_settings(replay.draft), 4)
    assert run.candidates[run.winner].choice == (0, 1, 2)

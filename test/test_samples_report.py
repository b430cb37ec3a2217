"""What a diagnosis looks like: verdict first, the terminal's width, names of states, the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from draft_damage import damage, ids
from test_diagnosis import PAIR, case_of

from draftwire.comparison import compare_figure
from draftwire.diagnosis import Diagnosis, Rival, _runner_up
from draftwire.doctor_command import columns
from draftwire.reference import ARGMAX, LAST, NEXT, Agreement
from draftwire.remedy import next_step
from draftwire.samples_report import as_table, describe, flag_lines
from draftwire.search import Candidate, Race
from draftwire.settings import read_settings

HALF, MOST = Agreement(500, 1000), Agreement(900, 1000)


def diagnosis(case, **changes) -> Diagnosis:
    winner = Candidate((0, 1, 2), read_settings(case.draft))
    rival = Rival((0, 2, 3), (0, 6, 9), "offsets", HALF, MOST)
    kept = {"winner": winner, "boundaries": (0, 3, 6), "decided": True, "tokens": 1020, "choices": 24,
            "kind": ARGMAX, "runner_up": rival, "norms": [(0, 1.14), (3, 5.75), (6, 8.81), (9, 11.8)],
            "scores": {LAST: [(HALF, HALF)] * 4, ARGMAX: [(MOST, MOST)] * 4, NEXT: [(HALF, HALF)] * 4},
            "served": (0, 3, 6)}  # fmt: skip
    return Diagnosis(**{"verdict": "WIRED", "reasons": [], **kept, **changes})


REASON = "trained on boundaries [0, 3, 6], SGLang 0.5.23 with draftwire's overlay feeds it boundaries [3, 6, 9] " * 2


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_verdict_is_first_and_no_line_is_wider(width: int) -> None:
    case = case_of(PAIR.draft)
    found = diagnosis(case, verdict="MISWIRED", axes=["boundaries"], reasons=[REASON], remedy="`--fix OUT` " * 9,
                      notes=["no loss mask: every token counts " * 4], served_agreement=HALF)  # fmt: skip
    lines = list(describe(case, found, width))
    assert lines[0] == "MISWIRED: boundaries"
    assert max(map(len, lines)) <= width
    assert "  Next: `--fix OUT`" in "\n".join(lines)


def test_the_deciding_reference_at_every_step_the_others_at_the_first() -> None:
    case = case_of(PAIR.draft)
    text = "\n".join(describe(case, diagnosis(case)))
    assert [text.count(f"{kind}, step") for kind in (ARGMAX, LAST, NEXT)] == [4, 1, 1]
    assert text.index(ARGMAX + ", step 1") < text.index(LAST)


def test_the_winner_and_its_rival_on_the_same_tokens() -> None:
    case = case_of(PAIR.draft)
    text = " ".join("\n".join(describe(case, diagnosis(case))).split())
    assert "best boundaries (0, 3, 6) of 24 choices, beyond doubt after 1020 tokens" in text
    assert f"next boundaries (0, 6, 9): {HALF} at step 1, where the best has {MOST} on the same tokens" in text
    same = diagnosis(case, runner_up=Rival((0, 1, 2), (0, 3, 6), "ids", HALF, MOST))
    assert "next boundaries (0, 3, 6) with d2t read as ids:" in "\n".join(describe(case, same))


def test_states_that_nobody_named_are_dumped_states() -> None:
    case = case_of(PAIR.draft)
    rival = Rival((0, 2, 3), (0, None, None), "offsets", HALF, MOST)
    unnamed = diagnosis(case, boundaries=(0, None, None), runner_up=rival, norms=[(0, 1.14), (None, 5.75)])
    text = " ".join("\n".join(describe(case, unnamed)).split())
    assert "best dumped states (0, 1, 2) of 24" in text
    assert "next dumped states (0, 2, 3):" in text
    assert "boundary 0 (the embedding) 1.14, dumped state 1 5.75" in text


def test_what_json_says() -> None:
    table = as_table(diagnosis(case_of(PAIR.draft), remedy="do"))
    assert (table["choices"], table["next"], table["decided"]) == (24, "do", True)
    assert table["runner_up"] == {"boundaries": [0, 6, 9], "agreement": 0.5, "best": 0.9, "of": 1000}


def test_flags_are_not_parted() -> None:
    flags = {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "/a b/" + "x" * 90, "n": 3}
    assert flag_lines(flags, 40) == [
        "  --speculative-algorithm EAGLE3", f"  --speculative-draft-model-path '/a b/{'x' * 90}'", "  --n 3",
    ]  # fmt: skip


class Terminal:
    def isatty(self) -> bool:
        return True


def test_the_width_is_the_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert columns(Terminal()) == 100
    with open("/dev/null", "w", encoding="ascii") as stream:
        assert columns(stream) == 80


# ---- the next step


@pytest.mark.parametrize(
    ("values", "release", "delivery", "said"),
    [
        (
            [-1, 2, 5],
            "0.5.23",
            "stock",
            "serve it with draftwire's overlay, which captures boundaries [0, 3, 6], -1 as",
        ),
        ([-1, 2, 5], "0.5.12", "stock", "serve it with draftwire's patch (`draftwire patch`), which captures"),
        ([2, 5, 8], "0.5.23", "stock", "`--fix OUT` writes"),
        ([2, 5, 8], "0.5.12", "stock", "`--fix OUT` writes a draft that is served as it was trained, by SGLang 0.5.14"),
    ],
)
def test_the_next_step(values: list[int], release: str, delivery: str, said: str, tmp_path: Path) -> None:
    case = case_of(damage(tmp_path / "draft", ids(values)), release, delivery)
    assert next_step(case, diagnosis(case, verdict="MISWIRED", axes=["boundaries"])).startswith(said)


def test_the_next_step_names_what_is_missing() -> None:
    case = case_of(PAIR.draft, delivery="stock")
    assert "--states" in next_step(case, diagnosis(case, boundaries=(0, None, None)))
    assert "convert" in next_step(case, diagnosis(case, axes=["form"]))
    without = case_of(PAIR.draft, delivery="stock", target=None)
    assert next_step(without, diagnosis(without)).startswith("name --target")


# ---- the trainer's figure


def figure(expect: float, **changes) -> Diagnosis:
    found = diagnosis(case_of(PAIR.draft), **changes)
    compare_figure(found, expect)
    return found


def test_the_figure_is_held_against_the_deciding_reference_only() -> None:
    """The highest of the others would reach it."""
    scores = {ARGMAX: [(MOST, HALF)], LAST: [(MOST, MOST)], NEXT: [(MOST, MOST)]}
    found = figure(0.7, scores=scores)
    assert found.verdict == "UNKNOWN"
    assert f"{HALF} agree with the target's argmax at step 1 over the draft's vocabulary" in found.reasons[0]
    assert found.notes == []


def test_which_figure_is_said() -> None:
    found = figure(0.45, kind=NEXT)
    assert found.verdict == "WIRED"
    assert f"the trainer's figure 45.0% is reached: {HALF} agree with the next token at step 1" in found.notes[0]
    assert "a trainer compares with the target's argmax, which these samples lack" in found.notes[0]
    found = figure(0.45, kind=NEXT, scores={NEXT: [(MOST, Agreement(0, 0))]})
    assert f"{MOST} agree with the next token at step 1 over all tokens" in found.notes[0]


def test_a_figure_leaves_miswired_alone() -> None:
    found = figure(0.99, verdict="MISWIRED", axes=["order"])
    assert found.verdict == "MISWIRED"
    assert "falls short of the trainer's 99.0%" in found.notes[0]


def test_a_rival_that_stopped_early_is_held_against_what_it_read() -> None:
    case = case_of(PAIR.draft)
    settings = read_settings(case.draft)
    run = Race([Candidate((0, 1, 2), settings), Candidate((0, 2, 3), settings)], winner=0, alive=[0])
    run.hits = [torch.tensor([1, 1, 0, 1, 0, 0, 0, 0]).bool(), torch.tensor([0, 1, 0, 0]).bool()]
    rival = _runner_up(run, [0, 3, 6, 9])
    assert rival == Rival((0, 2, 3), (0, 6, 9), "offsets", Agreement(1, 4), Agreement(3, 4))

"""The wiring that a draft was trained with, found by running it, against what a server would feed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from draftwire.axes import differences, moved, shown
from draftwire.case import Case
from draftwire.draft import DraftError
from draftwire.loaded_draft import MissingTensor
from draftwire.naming import find_embedding, row_norm
from draftwire.reference import LAST, Agreement
from draftwire.replay import Replay
from draftwire.sample import Samples
from draftwire.search import BEYOND, Candidate, Evidence, measure, race, search_axes, search_choices
from draftwire.settings import Scaling, Settings, read_settings, served_settings
from draftwire.trust import check_states
from draftwire.weights import TargetParts, read_parts

STEPS = 4
SHORT = 0.02  # what the winner may lack of the trainer's figure beside three standard errors


@dataclass
class Diagnosis:
    """`verdict`: WIRED, MISWIRED or UNKNOWN. `axes`: what differs between winner and server, by name: boundaries,
    order, count, form or one of axes.NAMES. `reasons`: a line each, `notes` beside them.

    `boundaries`: the winner's, in the order in which fc was trained on them, None for a state that nobody named.
    `decided`: whether they are ahead of all others beyond doubt. `served`: what the server captures.
    `scores`: {reference: [(full, draft vocabulary) by step]}. `tokens`: after how many it was beyond doubt.
    """

    verdict: str
    reasons: list[str]
    axes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    winner: Candidate | None = None
    boundaries: tuple[int | None, ...] = ()
    served: tuple[int, ...] | None = None
    served_agreement: Agreement | None = None
    runner_up: tuple[tuple[int | None, ...], Agreement] | None = None
    tokens: int = 0
    kind: str = ""
    decided: bool = False
    norms: list[tuple[int | None, float]] = field(default_factory=list)
    scores: dict[str, list[Any]] = field(default_factory=dict)


def diagnose(case: Case, samples: Samples, *, expect: float | None = None, steps: int = STEPS) -> Diagnosis:
    """Run a case's draft on samples. expect: the trainer's agreement at step 1, from 0 to 1.

    Raises DraftError on samples or a draft that cannot be read; what cannot be decided is UNKNOWN.
    """
    parts = read_parts(case.target) if case.target else None
    try:
        replay = Replay(case.draft, parts)
        evidence = Evidence(replay, samples, parts)
        return _diagnose(case, replay, evidence, samples, parts, expect, steps)
    except MissingTensor as missing:
        return Diagnosis("UNKNOWN", [str(missing)])


def _diagnose(case: Case, replay: Replay, evidence: Evidence, samples: Samples, parts: TargetParts | None,
              expect: float | None, steps: int) -> Diagnosis:  # fmt: skip
    first = evidence.samples[0]
    names = _name(samples, evidence, replay, parts)
    evidence.last_is_output, doubts = check_states(samples, first, case.target, evidence.kind == LAST)
    if len(first.states) < replay.count:
        raise DraftError(f"{replay.count} states or more, as fc takes", len(first.states), first.file, "dump them all")
    if samples.hidden_size is None and first.states[0].shape[1] != replay.width:
        raise DraftError(f"states of width {replay.width}", first.states[0].shape[1], first.file, "name their draft")
    choices, best = _find(case, replay, evidence, read_settings(case.draft), len(first.states), steps)
    found = Diagnosis("UNKNOWN", [], winner=best, tokens=choices.tokens, kind=evidence.kind)
    found.boundaries = tuple(names[i] for i in best.choice)
    found.norms = [(names[i], row_norm(state)) for i, state in enumerate(first.states)]
    found.scores = measure(replay, evidence, best, steps)
    found.notes += [*samples.notes, *doubts]
    others = [i for i in range(len(choices.candidates)) if i != choices.winner]
    if others:
        second = max(others, key=lambda i: choices.agreement(i).rate)
        found.runner_up = (tuple(names[i] for i in choices.candidates[second].choice), choices.agreement(second))
    found.decided = choices.decided
    if not choices.decided:
        rest = [tuple(names[j] for j in choices.candidates[i].choice) for i in choices.alive if i != choices.winner]
        found.reasons.append(f"the samples do not tell {list(found.boundaries)} from {list(rest[0])}")
        return found
    _compare_wiring(case, found, names)
    _compare_settings(case, replay, evidence, found, best, steps)
    _score_served(replay, evidence, found, names, served_settings(case))
    found.verdict = "MISWIRED" if found.axes else "UNKNOWN" if found.reasons else "WIRED"
    if expect is not None:
        _expect(found, expect)
    return found


def _find(case: Case, replay: Replay, evidence: Evidence, settings: Settings, states: int, steps: int):
    target_rope = _target_rope(case)
    for _ in range(3):
        choices = search_choices(replay, evidence, settings, states)
        found = choices.candidates[choices.winner]
        best, _ = search_axes(replay, evidence, found, steps, target_rope)
        if best == found:
            break
        settings = best.settings
    return choices, best


def _target_rope(case: Case) -> Scaling | None:
    if case.target is None:
        return None
    try:
        return read_settings(case.draft._replace(config={**case.target.text}, directory=case.target.directory)).rope
    except DraftError:
        return None


def _name(samples: Samples, evidence: Evidence, replay: Replay, parts: TargetParts | None) -> list[int | None]:
    """The boundaries as they are said, of which 0 must be the embedding; without, only the embedding's."""
    first = evidence.samples[0]
    embed = parts.embed if parts is not None and parts.embed is not None else replay.embed
    seen = find_embedding(first, embed)
    if samples.boundaries is None:
        return [0 if i == seen else None for i in range(len(first.states))]
    said = samples.boundaries.index(0) if 0 in samples.boundaries else None
    if said != seen and parts is not None:
        raise DraftError(
            f"the embedding of its tokens as state {said}" if said is not None else "no state that is the embedding",
            "none that is" if seen is None else f"it as state {seen}", first.file, "correct the manifest or --states",
        )  # fmt: skip
    return list(samples.boundaries)


def _compare_wiring(case: Case, found: Diagnosis, names: Sequence[int | None]) -> None:
    trained = found.boundaries
    if case.is_nested:
        found.axes.append("form")
        found.reasons.append("the config has its trainer's form, which no release reads: run `draftwire convert`")
        return
    reading = case.reading
    found.served = reading.captured
    if reading.refusal:
        found.axes.append("boundaries")
        found.reasons.append(f"{case.server} refuses it: {reading.refusal}")
        return
    if reading.captured is None:
        found.reasons.append(f"what {case.server} captures is not known: {reading}")
        return
    served = list(reading.captured)
    if len(served) != len(trained):
        found.axes.append("count")
        found.reasons.append(f"{case.server} captures {len(served)} states {served}, fc takes {len(trained)}")
        return
    unnamed = None in trained
    if unnamed and (0 in served) == (0 in trained):
        found.reasons.append("which boundary each state is nobody says: name them with --states or a manifest")
        return
    if unnamed or sorted(b for b in trained if b is not None) != served:
        found.axes.append("boundaries")
        what = "the embedding among its states" if 0 in trained else "no embedding among its states"
        was = what if unnamed else f"boundaries {sorted(b for b in trained if b is not None)}"
        found.reasons.append(f"trained on {was}, {case.server} feeds it {reading}")
    elif list(trained) != served:
        found.axes.append("order")
        found.reasons.append(f"fc takes its states in the order {list(trained)}, every server feeds them as {served}")


def _compare_settings(
    case: Case, replay: Replay, evidence: Evidence, found: Diagnosis, best: Candidate, steps: int
) -> None:
    served = served_settings(case)
    for axis in differences(best.settings, served):
        other = Candidate(best.choice, moved(best.settings, axis, served))
        line = f"{axis}: trained {shown(best.settings, axis)}, served {shown(served, axis)}"
        try:
            run = race(replay, evidence, [best, other], steps)
        except DraftError:
            found.axes.append(axis)
            found.reasons.append(f"{line}, with which its tensors do not fit")
            continue
        lead = run.lead(0, 1)
        if lead >= BEYOND:
            found.axes.append(axis)
            found.reasons.append(f"{line}; agreement {run.agreement(0)} against {run.agreement(1)}")
        else:
            found.reasons.append(f"{line}; these samples do not tell ({lead:.1f} standard deviations)")


def _score_served(
    replay: Replay, evidence: Evidence, found: Diagnosis, names: list[int | None], settings: Settings
) -> None:
    """Agreement at step 1 as served, where every captured state was dumped."""
    served = found.served
    if served is None or len(served) != replay.count or not set(served) <= set(names):
        return
    choice = tuple(names.index(b) for b in served)
    try:
        found.served_agreement = measure(replay, evidence, Candidate(choice, settings), 1)[evidence.kind][0][0]
    except DraftError:
        return


def _expect(found: Diagnosis, expect: float) -> None:
    pairs = {kind: rows[0] for kind, rows in found.scores.items()}
    nearest = max((a for pair in pairs.values() for a in pair), key=lambda a: a.rate)
    if nearest.rate + 3 * nearest.error + SHORT < expect:
        found.notes.append(
            f"the trainer's figure is {expect:.1%}, the best agreement here {nearest}: the samples, the target or the "
            "draft are not those of that figure"
        )
        if found.verdict == "WIRED":
            found.verdict = "UNKNOWN"
            found.reasons.append(f"agreement {nearest} falls short of the trainer's {expect:.1%}")
    else:
        found.notes.append(f"the trainer's figure {expect:.1%} is reached: {nearest}")

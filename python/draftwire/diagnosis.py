"""The wiring that a draft was trained with, found by running it, against what a server would feed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from draftwire.axes import differences, moved, shown
from draftwire.case import Case
from draftwire.comparison import compare_figure, compare_wiring
from draftwire.doubt import BEYOND
from draftwire.draft import DraftError
from draftwire.loaded_draft import MissingTensor
from draftwire.naming import find_embedding, row_norm
from draftwire.reference import LAST, Agreement
from draftwire.remedy import next_step
from draftwire.replay import Replay
from draftwire.sample import Samples
from draftwire.samples_report import states_of
from draftwire.search import Candidate, Evidence, Race, measure, race, search_axes, search_choices
from draftwire.settings import Scaling, Settings, read_settings, served_settings
from draftwire.trust import check_states
from draftwire.weights import TargetParts, read_parts

STEPS = 4


class Rival(NamedTuple):
    """The best of those that lost last. `agreement` and the winner's, `best`, are of the same predictions, step 1."""

    choice: tuple[int, ...]
    boundaries: tuple[int | None, ...]
    d2t: str
    agreement: Agreement
    best: Agreement


@dataclass
class Diagnosis:
    """`verdict`: WIRED, MISWIRED or UNKNOWN. `axes`: what differs between winner and server, by name: boundaries,
    order, count, form or one of axes.NAMES. `reasons`: a line each, `notes` beside them. `remedy`: what mends it.

    `boundaries`: the winner's, in the order in which fc was trained on them, None for a state that nobody named.
    `choices`: among how many. `decided`: whether it is ahead of all others beyond doubt. `served`: what the server
    captures. `scores`: {reference: [(full, draft vocabulary) by step]}. `tokens`: after how many it was beyond doubt.
    `norms`: boundary and mean length of each dumped state, in their order.
    """

    verdict: str
    reasons: list[str]
    axes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    winner: Candidate | None = None
    boundaries: tuple[int | None, ...] = ()
    served: tuple[int, ...] | None = None
    served_agreement: Agreement | None = None
    runner_up: Rival | None = None
    remedy: str = ""
    choices: int = 0
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
        found = _diagnose(case, replay, evidence, samples, parts, steps)
    except MissingTensor as missing:
        return Diagnosis("UNKNOWN", [str(missing)])
    if expect is not None:
        compare_figure(found, expect)
    if found.verdict == "MISWIRED":
        found.remedy = next_step(case, found)
    return found


def _diagnose(case: Case, replay: Replay, evidence: Evidence, samples: Samples, parts: TargetParts | None,
              steps: int) -> Diagnosis:  # fmt: skip
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
    found.choices = len({candidate.choice for candidate in choices.candidates})
    found.runner_up = _runner_up(choices, names)
    found.decided = choices.decided
    if not choices.decided:
        other = next(choices.candidates[i].choice for i in choices.alive if i != choices.winner)
        one, two = (states_of(choice, tuple(names[i] for i in choice)) for choice in (best.choice, other))
        found.reasons.append(f"the samples do not tell {one} from {two}")
        return found
    compare_wiring(case, found)
    _compare_settings(case, replay, evidence, found, best, steps)
    _score_served(replay, evidence, found, names, served_settings(case))
    found.verdict = "MISWIRED" if found.axes else "UNKNOWN" if found.reasons else "WIRED"
    return found


def _runner_up(run: Race, names: Sequence[int | None]) -> Rival | None:
    others = [i for i in range(len(run.candidates)) if i != run.winner]
    if not others:
        return None
    second = max(others, key=lambda i: (len(run.hits[i]), run.agreement(i).rate))
    hits = run.hits[run.winner][: len(run.hits[second])]
    candidate = run.candidates[second]
    boundaries = tuple(names[i] for i in candidate.choice)
    best = Agreement(int(hits.sum()), len(hits))
    return Rival(candidate.choice, boundaries, candidate.settings.d2t, run.agreement(second), best)


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

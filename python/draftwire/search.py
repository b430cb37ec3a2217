"""Which wiring of a draft agrees best with its training samples: a race of candidates, paired token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from draftwire.axes import alternatives
from draftwire.doubt import BEYOND, lead
from draftwire.draft import DraftError
from draftwire.reference import LAST, ORDER, Agreement, Reference, agreements, references
from draftwire.replay import Replay, ordered_choices
from draftwire.sample import Sample, Samples
from draftwire.settings import Scaling, Settings
from draftwire.target import EMBEDDING
from draftwire.weights import TargetParts

MOST_TOKENS = 16384
PIECE = 2**20


class Candidate(NamedTuple):
    """An ordered choice of dumped states, as indices, under settings."""

    choice: tuple[int, ...]
    settings: Settings


class Evidence:
    """Samples with what predictions are compared with, at most `most` tokens. `last_is_output`: whether the dumped last
    state may decide, for it is the target's output. Raises DraftError on a draft with weights that are no numbers."""

    def __init__(self, replay: Replay, samples: Samples, parts: TargetParts | None, most: int = MOST_TOKENS):
        require_numbers(replay)
        self.samples: list[Sample] = []
        self.references: list[dict[str, Reference]] = []
        known = {reading: self._known(replay, reading) for reading in ("offsets", "ids")}
        self.vocabulary = "offsets" if len(known["offsets"]) >= len(known["ids"]) else "ids"
        tokens = 0
        for sample in samples:
            self.samples.append(sample)
            self.references.append(references(sample, known[self.vocabulary], parts))
            tokens += sample.length
            if tokens >= most:
                break
        self.last_is_output = True

    @property
    def kind(self) -> str:
        """The reference that decides: the first in order that every sample has."""
        kinds = [kind for kind in ORDER if kind != LAST or self.last_is_output]
        return next(kind for kind in kinds if all(kind in found for found in self.references))

    @staticmethod
    def _known(replay: Replay, reading: str) -> Tensor:
        tokens = replay.tokens(reading)
        return tokens[tokens >= 0].unique()


def require_numbers(replay: Replay) -> None:
    """Raises DraftError on a tensor with NaN or infinity. The embedding is left out: few of its rows are read."""
    for name, tensor in replay.tensors.items():
        if name == EMBEDDING or not tensor.is_floating_point() or not tensor.numel():
            continue
        for part in tensor.flatten().split(PIECE):
            odd = [float(end) for end in part.aminmax() if not math.isfinite(end)]
            if odd:
                raise DraftError(f"{name} of numbers", f"{odd[0]:g}", replay.draft.directory,
                                 "export the draft again, from a step before its training diverged")  # fmt: skip


@dataclass
class Race:
    """`winner`: ahead of all others beyond doubt if it alone is in `alive`. `tokens`: read until the end.

    `hits`: for each candidate the agreement of each prediction, in one order for all that stayed as long.
    """

    candidates: list[Candidate]
    winner: int = 0
    alive: list[int] = field(default_factory=list)
    tokens: int = 0
    hits: list[Tensor] = field(default_factory=list)

    @property
    def decided(self) -> bool:
        return self.alive == [self.winner]

    def lead(self, one: int, other: int) -> float:
        """Standard deviations by which `one` is ahead of `other` on what both have read (McNemar's test)."""
        shared = min(len(self.hits[one]), len(self.hits[other]))
        return float(lead(self.hits[one][:shared], self.hits[other][:shared]))

    def agreement(self, candidate: int) -> Agreement:
        return Agreement(int(self.hits[candidate].sum()), len(self.hits[candidate]))


def race(replay: Replay, evidence: Evidence, candidates: Sequence[Candidate], steps: int = 1) -> Race:
    """Let candidates predict sample after sample; one that falls behind the best beyond doubt stops. The first of
    equals wins, so name the config's own first."""
    run = Race(list(candidates), alive=list(range(len(candidates))))
    run.hits = [torch.empty(0, dtype=torch.bool)] * len(candidates)
    for sample, found in zip(evidence.samples, evidence.references, strict=True):
        for index, tokens in _predict(replay, sample, [(i, candidates[i]) for i in run.alive], steps):
            hits = [agreements(tokens[k], found[evidence.kind], k)[0] for k in range(steps)]
            run.hits[index] = torch.cat([run.hits[index], *hits])
        run.tokens += sample.length - 1
        run.winner = max(run.alive, key=lambda i: (int(run.hits[i].sum()), -i))
        run.alive = [i for i in run.alive if i == run.winner or run.lead(run.winner, i) < BEYOND]
        if run.decided:
            break
    return run


def _predict(replay: Replay, sample: Sample, racing: Sequence[tuple[int, Candidate]], steps: int):
    """(index, tokens [steps, T - 1] in the target's vocabulary) of each; candidates of one network run together."""
    groups: dict[Settings, list[tuple[int, Candidate]]] = {}
    for index, candidate in racing:
        groups.setdefault(candidate.settings._replace(d2t=""), []).append((index, candidate))
    for settings, members in groups.items():
        choices = list(dict.fromkeys(candidate.choice for _, candidate in members))
        drafted = replay.draft_ids(sample, choices, settings, steps)
        for index, candidate in members:
            yield index, replay.tokens(candidate.settings.d2t)[drafted[choices.index(candidate.choice)]]


def search_choices(replay: Replay, evidence: Evidence, settings: Settings, states: int) -> Race:
    """Every ordered choice of the dumped states at step 1, under both readings of the vocabulary map."""
    readings = ["offsets", "ids"] if replay.d2t is not None and replay.reduced else [settings.d2t]
    readings.sort(key=lambda reading: reading != settings.d2t)
    choices = ordered_choices(states, replay.count)
    return race(replay, evidence, [Candidate(c, settings._replace(d2t=r)) for r in readings for c in choices])


def search_axes(
    replay: Replay, evidence: Evidence, best: Candidate, steps: int, target_rope: Scaling | None
) -> tuple[Candidate, list[Race]]:
    """One axis after another around `best`, over steps 1 to `steps`, each moved where that is better beyond doubt."""
    races = []
    for _ in range(8):
        others = [Candidate(best.choice, s) for s in alternatives(best.settings, replay, target_rope)]
        run = race(replay, evidence, [best, *others], steps)
        races.append(run)
        if run.winner == 0 or run.lead(run.winner, 0) < BEYOND:
            return best, races
        best = run.candidates[run.winner]
    return best, races


def measure(replay: Replay, evidence: Evidence, candidate: Candidate, steps: int) -> dict[str, list[Any]]:
    """Agreement with every reference there is, by step: {kind: [(full, draft vocabulary)]}."""
    found: dict[str, list[list[int]]] = {}
    for sample, by_kind in zip(evidence.samples, evidence.references, strict=True):
        ((_, tokens),) = _predict(replay, sample, [(0, candidate)], steps)
        for kind, reference in by_kind.items():
            rows = found.setdefault(kind, [[0, 0, 0, 0] for _ in range(steps)])
            for k in range(steps):
                full, reduced = agreements(tokens[k], reference, k)
                counted = (int(full.sum()), full.numel(), int(reduced.sum()), reduced.numel())
                rows[k] = [a + b for a, b in zip(rows[k], counted, strict=True)]
    return {kind: [(Agreement(*r[:2]), Agreement(*r[2:])) for r in rows] for kind, rows in found.items()}

"""What a step costs, taken apart as far as a run allows, and what a tree would have to accept to be worth its cost.

In ms at concurrency b, from the points of `prediction` (T(k) is a decode step with k draft steps):

    plain         P(b), the baseline's decode step
    another step  (T(K) - T(k)) / (K - k): one more draft forward and one more verified token a request
    verify        P(b m): what a plain step costs with as many tokens in its batch as m verified ones a request; it
                  reads b m caches instead of b, so it is no less than a verification's forward
    draft         another step less its verified token, (P(b m) - P(b)) / (m - 1)
    rest          T(k) less verify and k drafts: choosing, and what the draft reads of verified tokens

`verify`, `draft` and `rest` are of the most steps, beyond the fewest, for which there is a baseline at b m or more, and
the draft's of the counts up to it; without one they are None, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from draftwire.bench.prediction import Point, line


class Costs(NamedTuple):
    """Milliseconds at one concurrency. steps: the count that `verify` and `rest` are of, the largest measured one
    for which the baseline's batches reach.
    """

    concurrency: int
    plain: float
    another_step: float
    steps: int | None = None
    verify: float | None = None
    draft: float | None = None
    rest: float | None = None


def take_apart(plain: Sequence[Point], drafted: Sequence[Point], concurrency: int) -> Costs:
    """Of one concurrency of a run with at least two step counts at it."""
    points = sorted((p for p in drafted if p.concurrency == concurrency), key=lambda p: p.steps)
    batches = sorted((p.concurrency, p.step(p.tok_s)) for p in plain)
    own = line(batches, concurrency)
    first, last = points[0], points[-1]
    another = (last.step(last.tok_s) - first.step(first.tok_s)) / (last.steps - first.steps)
    reached = [p for p in points[1:] if concurrency * (p.steps + 1) <= batches[-1][0]]
    if not reached:
        return Costs(concurrency, own, another)
    widest = reached[-1]
    verify = line(batches, concurrency * (widest.steps + 1))
    # Of the counts up to this one: where a step's cost bends further on, the whole slope is not its own.
    here = (widest.step(widest.tok_s) - first.step(first.tok_s)) / (widest.steps - first.steps)
    draft = here - (verify - own) / widest.steps
    rest = widest.step(widest.tok_s) - verify - widest.steps * draft
    return Costs(concurrency, own, another, widest.steps, verify, draft, rest)


def tree_must_accept(chain: float, step: float, more: float) -> float:
    """Acceptance length with which a tree equals a chain that accepts `chain` tokens in a step of `step` ms, where
    the tree's step costs `more` ms more: as many tokens a millisecond.
    """
    return chain * (step + more) / step

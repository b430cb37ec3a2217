"""Tokens a second for every number of draft steps, from one measured run. Pure: rows in, numbers out.

A decode step with k draft steps and topk 1 drafts k tokens (the first while the draft reads the tokens that were just
verified, each further one by a forward of its own), then verifies k + 1 tokens a request. So another step adds one
draft forward and one verified token, and what a step costs is close to a line in k. Its two numbers need two step
counts: a run at 1 and N. The plain step is the baseline's and no point of that line (at k = 0 the draft would still
read and the verification still choose). In ms, for concurrency b, n output tokens a request and c_j the share of
verify steps that accept positions 1 to j:

    request(k) = 1000 b n / tok_s(k)                           measured; a slot's time for a request
    AL(k)      = 1 + c_1 + ... + c_k
    T(k)       = (request(k) - ttft(k)) AL(k) / (n - 1)        a decode step; the prefill gives the first token
    tok_s(k)   = 1000 b n / (ttft(k) + (n - 1) T(k) / AL(k))   predicted

T, n, ttft and each c_j are interpolated linearly between the step counts that were measured, so that a measured count
is predicted as it was measured. c_j alone is not quite independent of k, although with topk 1 and greedy sampling
what is drafted at a place of the text is: shorter windows start more often inside the text that is easy to draft, so
c_j falls a little as k grows. Beyond the last measured count T continues its last line and the conditional acceptance
c_j / c_(j-1) stays as it was last: such a prediction is marked extrapolated. SGLang's own step times
(SGLANG_RECORD_STEP_TIME) are means of whole steps over 40 of them, verification and drafts together: not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from draftwire.bench.refusals import BenchError

MOST_STEPS = 32  # That `draftwire tune` predicts.


class Point(NamedTuple):
    """One measurement with topk 1, or without speculation (steps 0). tok_s: median, least, most. Times in ms.

    tokens: mean output tokens a request. positions: c_1 to c_steps.
    """

    concurrency: int
    steps: int
    tok_s: float
    low: float
    high: float
    ttft: float
    tokens: float
    positions: tuple[float, ...] = ()

    def accept_length(self) -> float:
        return 1 + sum(self.positions)

    def step(self, tok_s: float) -> float:
        """Milliseconds of a decode step at that many tokens a second; the time for a request less its prefill's."""
        request = 1000 * self.concurrency * self.tokens / tok_s
        return (request - self.ttft) * self.accept_length() / (self.tokens - 1)


class Prediction(NamedTuple):
    """tok_s, and what it is where all that was measured was at its least and at its most.

    gain: over the baseline's median. extrapolated: beyond the step counts that were measured.
    """

    concurrency: int
    steps: int
    tok_s: float
    low: float
    high: float
    gain: float
    accept_length: float
    extrapolated: bool


def read_points(row: Mapping[str, Any], length: str = "eos") -> tuple[list[Point], list[Point]]:
    """Baseline and EAGLE-3 points of a row of `draftwire bench`. Raises BenchError on one that cannot carry a
    prediction: no baseline, fewer than two step counts at every concurrency, or a ratio that bench refused.
    """
    where = f"the row of {row.get('date')} for {row.get('config')}"
    taken = [m for m in row.get("measurements", ()) if m["length"] == length]
    if said := next((m["refused"] for m in taken if m.get("refused")), ""):
        raise BenchError("arms that can be compared", f"({said})", where, "mend that and measure again")
    plain = [_point(m, where) for m in taken if m["arm"] == "baseline"]
    drafted = [_point(m, where) for m in taken if m["arm"] == "eagle3" and m["topk"] == 1]
    if not plain:
        raise BenchError("a baseline", "none", where, "measure with --arms baseline,eagle3")
    known = {p.concurrency for p in plain}
    drafted = [p for p in drafted if p.concurrency in known]
    if not any(len(_at(drafted, b)) > 1 for b in known):
        found = sorted({p.steps for p in drafted}) or "none"
        remedy = "draftwire bench FILE --steps 1,5: one count cannot tell a draft step from a verified token"
        raise BenchError("eagle3 with topk 1 at two step counts", found, where, remedy)
    return plain, [p for p in drafted if len(_at(drafted, p.concurrency)) > 1]


def _point(m: Mapping[str, Any], where: str) -> Point:
    steps = m["steps"] or 0
    positions = tuple((m.get("accept_positions") or ())[:steps])
    if len(positions) < steps:
        # SGLang's histogram ends with the last count that was seen.
        positions += (0.0,) * (steps - len(positions)) if positions else ()
    if steps and not positions:
        raise BenchError(f"accept_positions of {steps} steps", "none", where, "measure with this SGLang's histogram")
    point = Point(m["concurrency"], steps, m["tok_s"], m["tok_s_min"], m["tok_s_max"], m["ttft_ms"],
                  m["mean_output_tokens"], positions)  # fmt: skip
    if point.tokens <= 1 or not point.low > 0 or point.step(point.high) <= 0:
        found = f"{point.tokens} tokens a request at {point.high} tok/s with {point.ttft} ms to the first"
        raise BenchError("time left for decoding", found, where, "measure longer outputs")
    return point


def _at(points: Iterable[Point], concurrency: int) -> list[Point]:
    """In the order of their steps."""
    return sorted((p for p in points if p.concurrency == concurrency), key=lambda p: p.steps)


def line(points: Sequence[tuple[float, float]], x: float) -> float:
    """Piecewise linear through (x, y) in the order of x, its end pieces continued; constant for one point."""
    if len(points) == 1:
        return points[0][1]
    pieces = list(pairwise(points))
    (x0, y0), (x1, y1) = next((piece for piece in pieces if x <= piece[1][0]), pieces[-1])
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def acceptance(points: Sequence[Point], steps: int) -> list[float]:
    """c_1 to c_steps when served with that many, from runs in the order of their steps; never rising."""
    shares: list[float] = []
    for j in range(1, steps + 1):
        known = [(p.steps, p.positions[j - 1]) for p in points if p.steps >= j]
        if known:
            # Held at its ends: a trend from sampling noise is not continued.
            share = line(known, min(max(steps, known[0][0]), known[-1][0]))
        else:
            before = shares[-2] if len(shares) > 1 else 1.0
            share = shares[-1] * (shares[-1] / before if before else 0.0)
        shares.append(min([share, *shares[-1:]]))
    return shares


def predict_speed(points: Sequence[Point], steps: int, speed: str = "tok_s", floor: float = 0.0) -> float:
    """Tokens a second at one concurrency, from each point's `speed`: tok_s, low or high.

    floor: ms that no step beyond the measured counts goes under, such as the plain step's.
    """
    points = sorted(points, key=lambda p: p.steps)
    inside = min(max(steps, points[0].steps), points[-1].steps)
    tokens = line([(p.steps, p.tokens) for p in points], inside)
    ttft = line([(p.steps, p.ttft) for p in points], inside)
    step = line([(p.steps, p.step(getattr(p, speed))) for p in points], steps)
    if steps != inside:
        step = max(step, min(floor or math.inf, *(p.step(getattr(p, speed)) for p in points)))
    length = 1 + sum(acceptance(points, steps))
    return 1000 * points[0].concurrency * tokens / (ttft + (tokens - 1) * step / length)


def predict(plain: Sequence[Point], drafted: Sequence[Point], most: int) -> list[Prediction]:
    """For 1 to `most` steps at every concurrency of both, in that order."""
    out = []
    for base in sorted(plain, key=lambda p: p.concurrency):
        points = _at(drafted, base.concurrency)
        if not points:
            continue
        for steps in range(1, most + 1):
            floor = base.step(base.tok_s)
            speed, low, high = (predict_speed(points, steps, name, floor) for name in ("tok_s", "low", "high"))
            outside = not points[0].steps <= steps <= points[-1].steps
            length = 1 + sum(acceptance(points, steps))
            out.append(Prediction(base.concurrency, steps, speed, min(low, high), max(low, high), speed / base.tok_s,
                                  length, outside))  # fmt: skip
    return out


def rank(predictions: Iterable[Prediction], concurrency: int) -> list[Prediction]:
    """At one concurrency, fastest first; of equals the fewer steps."""
    here = (p for p in predictions if p.concurrency == concurrency)
    return sorted(here, key=lambda p: (-p.tok_s, p.steps))


class Crossover(NamedTuple):
    """Where the gain falls to 1. concurrency: None where it does not between `first` and `last`, both measured.

    pays: whether speculation pays at `first`.
    """

    concurrency: float | None
    first: int
    last: int
    pays: bool

    def __str__(self) -> str:
        if not self.pays:
            return f"does not pay at {self.first} already"
        if self.concurrency is None:
            return f"not within {self.first}..{self.last}" if self.first < self.last else f"only {self.first} measured"
        shown = f"{self.concurrency:.0f}" if self.concurrency >= 10 else f"{self.concurrency:.1f}"
        return f"at {shown} (interpolated within {self.first}..{self.last})"


def find_crossover(gains: Iterable[tuple[int, float]]) -> Crossover:
    """gains: (concurrency, gain). Log of the gain over log of the concurrency, linear between what was measured."""
    known = sorted(gains)
    first, last = known[0][0], known[-1][0]
    if known[0][1] < 1:
        return Crossover(None, first, last, False)
    for (b0, g0), (b1, g1) in pairwise(known):
        if g1 < 1:
            share = math.log(g0) / (math.log(g0) - math.log(g1))
            return Crossover(b0 * (b1 / b0) ** share, first, last, True)
    return Crossover(None, first, last, True)


def is_within(predicted: float, tok_s: float, low: float, high: float, share: float = 0.1) -> bool:
    """Whether a prediction lies within `share` of what was measured or between its least and most."""
    return min(low, tok_s * (1 - share)) <= predicted <= max(high, tok_s * (1 + share))

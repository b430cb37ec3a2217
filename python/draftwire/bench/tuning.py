"""What `draftwire tune` says of a measured run: its predictions, the best of them, where they stop paying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftwire.bench.costs import Costs, take_apart, tree_must_accept
from draftwire.bench.deployment import tree_tokens
from draftwire.bench.prediction import (
    Crossover,
    Point,
    Prediction,
    find_crossover,
    line,
    predict,
    predict_speed,
    rank,
    read_points,
)
from draftwire.bench.refusals import BenchError

TOPK = 2  # Of the tree that is compared with a chain.
# What a prediction rests on, of a measurement's keys.
KEPT = (
    "arm", "steps", "topk", "draft_tokens", "concurrency", "length", "requests", "repeats", "tok_s", "tok_s_min",
    "tok_s_max", "ttft_ms", "tpot_ms", "mean_output_tokens", "accept_length", "accept_positions", "speedup",
)  # fmt: skip


class Study:
    """A measured run read for its predictions, for 1 to `most` steps; `at`: the concurrency to be fastest at, 0 the
    lowest one.

    Raises BenchError where the run cannot carry a prediction.
    """

    def __init__(self, run: Mapping[str, Any], most: int, at: int = 0):
        self.run = run
        self.plain, self.drafted = read_points(run)
        self.predictions = predict(self.plain, self.drafted, most)
        self.concurrencies = sorted({p.concurrency for p in self.predictions})
        self.at = at or self.concurrencies[0]
        if self.at not in self.concurrencies:
            raise BenchError(f"a concurrency of {self.concurrencies}", at, "--at", "name one that is measured")

    def best(self, count: int = 1) -> list[Prediction]:
        return rank(self.predictions, self.at)[:count]

    def best_by_concurrency(self) -> list[Prediction]:
        return [rank(self.predictions, b)[0] for b in self.concurrencies]

    def costs(self, concurrency: int) -> Costs:
        return take_apart(self.plain, self.drafted, concurrency)

    def stops_paying(self) -> tuple[Crossover, Crossover]:
        """Of the best number of steps, kept at every concurrency; and of the best one for each concurrency."""
        steps = self.best()[0].steps
        kept = [p for p in self.predictions if p.steps == steps]
        kept_at, free_at = ([(p.concurrency, p.gain) for p in some] for some in (kept, self.best_by_concurrency()))
        return find_crossover(kept_at), find_crossover(free_at)

    def tree(self) -> dict[str, Any]:
        """What a tree of topk 2 must accept a step to be as fast as the best chain. A chain's run does not tell what a
        tree accepts; a tree that drafts as deep costs a chain's step and what it verifies beyond it.

        most: what it can accept. at_least: that the tokens verified beyond the chain's were taken as free, for want
        of a baseline at such a batch. measured: by `checked.compare_tree`.
        """
        best = self.best()[0]
        tokens = tree_tokens(TOPK, best.steps)
        points = [p for p in self.drafted if p.concurrency == self.at]
        step = line(sorted((p.steps, p.step(p.tok_s)) for p in points), best.steps)
        batches = sorted((p.concurrency, p.step(p.tok_s)) for p in self.plain)
        more = None
        if self.at * tokens <= batches[-1][0]:
            more = line(batches, self.at * tokens) - line(batches, self.at * (best.steps + 1))
        must = tree_must_accept(best.accept_length, step, max(more or 0.0, 0.0))
        return {"steps": best.steps, "topk": TOPK, "draft_tokens": tokens, "must_accept": round(must, 3),
                "chain": round(best.accept_length, 3), "most": best.steps + 1, "at_least": more is None,
                "measured": None}  # fmt: skip

    def left_out(self) -> list[tuple[Point, float]]:
        """Measured step counts between others, each with the speed that the others alone predict."""
        out = []
        for b in self.concurrencies:
            points = sorted((p for p in self.drafted if p.concurrency == b), key=lambda p: p.steps)
            for i in range(1, len(points) - 1):
                out.append((points[i], predict_speed(points[:i] + points[i + 1 :], points[i].steps)))
        return out

    def findings(self) -> dict[str, Any]:
        """The part of a row that comes from the measured run alone. Milliseconds and tokens a second."""
        kept, free = self.stops_paying()
        measured = [m for m in self.run["measurements"] if m["length"] == "eos" and m["arm"] in ("baseline", "eagle3")]
        return {
            "at": self.at,
            "measurements": [{key: m.get(key) for key in KEPT} for m in measured],
            "costs": [_rounded(self.costs(b)) for b in self.concurrencies],
            "predictions": [_entry(p) for p in self.predictions],
            "best": [_entry(p) for p in self.best_by_concurrency()],
            "stops_paying": {**kept._asdict(), "said": str(kept)},
            "stops_paying_at_best": {**free._asdict(), "said": str(free)},
            "tree": self.tree(),
        }


def carries_prediction(run: Mapping[str, Any]) -> bool:
    """Whether a row of bench has a baseline and two step counts beside it."""
    try:
        read_points(run)
    except BenchError:
        return False
    return True


def _entry(p: Prediction) -> dict[str, Any]:
    return {"concurrency": p.concurrency, "steps": p.steps, "tok_s": round(p.tok_s, 2), "tok_s_min": round(p.low, 2),
            "tok_s_max": round(p.high, 2), "speedup": round(p.gain, 4), "accept_length": round(p.accept_length, 4),
            "extrapolated": p.extrapolated}  # fmt: skip


def _rounded(costs: Costs) -> dict[str, Any]:
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in costs._asdict().items()}

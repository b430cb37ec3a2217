"""One entry of a row: an arm at one concurrency, beside the baseline at the same."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from draftwire.bench.client import Load, Run
from draftwire.bench.loops import distinct_share, looping_share
from draftwire.bench.ratios import reason_against
from draftwire.bench.schedule import Measured


def measurement(one: Measured, load: Load, baseline: Measured | None) -> dict[str, Any]:
    """Figures are upstream's client's: each a median over runs, with tok/s's least and most.

    accept_length, accept_positions: of the untimed pass over the same requests; tokens and share of verify steps.
    upstream_accept_length: as upstream's client prints it, the server's mean over its last whole decode logs.
    step_cost_ratio: acceptance length x baseline tok/s / speculative tok/s, what a verify step with its drafts costs
    in plain steps. outputs_equal: share of texts equal to the baseline's first run, None where they are drawn by
    chance. `refused`: why there is no speedup.
    """
    runs, seen, arm = one.runs[load], one.passes[load], one.arm
    speeds = [run.tok_s for run in runs]
    drafted = arm.steps is not None
    other = baseline if drafted else None
    refused = reason_against(other, one, load) if other else ""
    table: dict[str, Any] = {
        "arm": arm.name,
        "steps": arm.steps,
        "topk": arm.topk,
        "draft_tokens": arm.draft_tokens,
        "concurrency": load.concurrency,
        "length": load.length,
        "requests": load.requests,
        "repeats": len(runs),
        "tok_s": round(median(speeds), 2),
        "tok_s_min": round(min(speeds), 2),
        "tok_s_max": round(max(speeds), 2),
    }
    for key in ("ttft_ms", "tpot_ms", "itl_p50_ms", "itl_p99_ms"):
        table[key] = round(median(getattr(run, key) for run in runs), 3)
    table |= {
        "mean_input_tokens": round(fmean(fmean(run.tokens_in) for run in runs), 2),
        "mean_output_tokens": round(fmean(fmean(run.tokens_out) for run in runs), 2),
        "failed": sum(run.failed for run in runs),
        "looping": round(looping_share(seen.outputs), 4),
        "distinct_4grams": round(fmean(map(distinct_share, seen.outputs)), 4),
        "accept_length": round(seen.acceptance.length, 4) if drafted else None,
        "accept_positions": [round(share, 4) for share in seen.acceptance.positions] if drafted else None,
        "verify_steps": seen.acceptance.verifies if drafted else None,
        "upstream_accept_length": _mean_said(runs) if drafted else None,
        "speedup": None,
        "speedup_min": None,
        "speedup_max": None,
        "step_cost_ratio": None,
        "outputs_equal": None,
        "refused": refused or None,
    }
    if other is None or refused:
        return table
    plain = [run.tok_s for run in other.runs[load]]
    speedup = median(speeds) / median(plain)
    table["speedup"] = round(speedup, 4)
    table["speedup_min"] = round(min(speeds) / max(plain), 4)
    table["speedup_max"] = round(max(speeds) / min(plain), 4)
    table["step_cost_ratio"] = round(seen.acceptance.length / speedup, 4)
    if load.temperature == 0:
        pairs = zip(runs[0].texts, other.runs[load][0].texts, strict=True)
        table["outputs_equal"] = round(fmean(mine == theirs for mine, theirs in pairs), 4)
    return table


def _mean_said(runs: Sequence[Run]) -> float | None:
    said = [run.accept_length for run in runs if run.accept_length]
    return round(fmean(said), 4) if said else None

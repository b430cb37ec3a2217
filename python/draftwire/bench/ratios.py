"""What may be divided by what: reasons why a speed-up of one arm over the baseline would mislead."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from draftwire.bench.client import Load
from draftwire.bench.loops import FLOOR, MOST, N, looping_share
from draftwire.bench.refusals import BenchError, RatioRefused

if TYPE_CHECKING:
    from draftwire.bench.schedule import Measured

LENGTH_DIFFERENCE = 0.05
SAMPLING = ("sampling_defaults", "preferred_sampling_params")
LIMITS = (
    "max_running_requests", "effective_max_running_requests_per_dp", "chunked_prefill_size", "max_prefill_tokens",
    "max_total_num_tokens",
    "page_size", "attention_backend", "dtype", "kv_cache_dtype", "disable_radix_cache", "disable_overlap_schedule",
    "enable_mixed_chunk", "decode_cuda_graph_bs", "tp_size", "dp_size", "ep_size",
)  # fmt: skip


def require_honest_acceptance(environment: Mapping[str, str] | None = None) -> None:
    """Raises BenchError where a variable makes SGLang accept drafts by dice."""
    said = os.environ if environment is None else environment
    for name in sorted(said):
        if name.startswith("SGLANG_SIMULATE_"):
            raise BenchError(f"{name} unset", said[name], "the environment", "unset it: its acceptance is made up")


def differences(baseline: Measured, other: Measured) -> dict[str, list]:
    """What the two servers say of themselves and speculation has changed: baseline's value, then the other's."""
    pairs = {key: [baseline.info.get(key), other.info.get(key)] for key in LIMITS}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def reason_against(baseline: Measured, other: Measured, load: Load) -> str:
    """One line why there is no ratio for that load; empty where there is one."""
    for one in (baseline, other):
        if reason := failure_of(one, load):
            return reason
    # As upstream's client counts them and as each server does: its tokenizer and template may be others.
    first = baseline.runs[load][0].tokens_in
    if (
        any(run.tokens_in != first for one in (baseline, other) for run in one.runs[load])
        or baseline.passes[load].tokens_in != other.passes[load].tokens_in
    ):
        return f"expected the same requests, found other prompt lengths in {other.arm.label}"
    for key in SAMPLING:
        if baseline.info.get(key) != other.info.get(key):
            pair = f"{baseline.info.get(key)} and {other.info.get(key)}"
            return f"expected the same sampling, found {key} {pair} in {other.arm.label}"
    mine, theirs = (fmean(fmean(run.tokens_out) for run in one.runs[load]) for one in (baseline, other))
    if abs(mine - theirs) > LENGTH_DIFFERENCE * mine:
        return f"expected outputs as long within 5%, found {mine:.1f} and {theirs:.1f} tokens in {other.arm.label}"
    return loops_of(baseline, load) or loops_of(other, load)


def failure_of(one: Measured, load: Load) -> str:
    """That some of an arm's requests have failed, in one line; empty where none has."""
    failed = sum(run.failed for run in one.runs[load])
    error = next((run.error for run in one.runs[load] if run.error), "answers are missing")
    return f"expected no failed requests, found {failed} in {one.arm.label}: {error}" if failed else ""


def loops_of(one: Measured, load: Load) -> str:
    """That too many of an arm's outputs loop, in one line; empty where they do not."""
    looping = looping_share(one.passes[load].outputs)
    if looping <= MOST:
        return ""
    return (
        f"expected at most {MOST:.0%} of outputs to loop (under {FLOOR:.0%} of their {N}-grams distinct), "
        f"found {looping:.0%} in {one.arm.label}; a draft guesses loops: give other prompts or fewer --tokens"
    )


def refuse_early(arms: Sequence[Measured], load: Load) -> None:
    """Raises RatioRefused where what an arm has shown so far leaves it without a ratio whatever is measured next."""
    if not any(one.arm.name == "baseline" for one in arms):
        return
    for one in arms:
        if load in one.runs and (reason := failure_of(one, load) or loops_of(one, load)):
            where = f"at {load.concurrency} at once, length eos"
            raise RatioRefused(f"no ratio {where}: {reason}; nothing further was measured, and no row was written")

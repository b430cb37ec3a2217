"""Which boundary is each dumped state? The embedding is told by its rows, the others by running the target again."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from draftwire.draft import DraftError
from draftwire.headers import read_tensors
from draftwire.sample import Sample
from draftwire.target import Target
from draftwire.weights import RowTable, TargetParts

SAME = 0.05  # relative error up to which a state in 16 bit is another one
MEMORY = 0.5  # share of the free memory that a target in float32 may take
ROWS = 256


class Named(NamedTuple):
    """A dumped state: `boundary`, None where it is none that was looked at; `error`: |found - dumped| / |dumped| of
    the nearest; `normed`: the target's final norm is in it; `norm`: mean length of its rows."""

    boundary: int | None
    error: float
    normed: bool
    norm: float


def row_norm(state: Tensor) -> float:
    """Mean Euclidean length of the rows of [T, hidden]."""
    return float(state[:ROWS].float().norm(dim=-1).mean())


def relative_error(found: Tensor, dumped: Tensor) -> float:
    return float((found.float() - dumped.float()).norm() / dumped.float().norm().clamp_min(1e-30))


def find_embedding(sample: Sample, embed: RowTable | None) -> int | None:
    """The index of the dumped state that is the embedding of the sample's tokens; None where none is."""
    if embed is None or embed.shape[1] != sample.states[0].shape[1]:
        return None
    rows = embed.rows(sample.input_ids[:ROWS])
    errors = [relative_error(rows, state[:ROWS]) for state in sample.states]
    best = min(range(len(errors)), key=errors.__getitem__)
    return best if errors[best] < SAME else None


def name_states(sample: Sample, target: Target, parts: TargetParts) -> tuple[list[Named], str]:
    """Each dumped state of a sample by the target's own forward, and why not where that does not fit in here."""
    reason = does_not_fit(target)
    states = [state[:ROWS] for state in sample.states]
    if reason:
        embedding = find_embedding(sample, parts.embed)
        return [Named(0 if i == embedding else None, 0.0 if i == embedding else float("nan"), False, row_norm(s))
                for i, s in enumerate(states)], reason  # fmt: skip
    boundaries, normed = run_target(target, sample.input_ids[:ROWS])
    return [_nearest(state, boundaries, normed) for state in states], ""


def _nearest(state: Tensor, boundaries: list[Tensor], normed: Tensor) -> Named:
    errors = [relative_error(found, state) for found in [*boundaries, normed]]
    best = min(range(len(errors)), key=errors.__getitem__)
    last = best == len(boundaries)
    boundary = min(best, len(boundaries) - 1) if errors[best] < SAME else None
    return Named(boundary, errors[best], last and boundary is not None, row_norm(state))


def does_not_fit(target: Target) -> str:
    """Why the target is not run here; empty where it is: its float32 weights take at most half of the free memory."""
    try:
        values = sum(stored.size for stored in read_tensors(target.directory).values()) * 2
    except DraftError as failure:
        return str(failure)
    free = _free_memory()
    if values > MEMORY * free:
        return f"the target's layers in float32 take {values / 2**30:.0f} GiB, of {free / 2**30:.0f} free"
    return ""


@torch.inference_mode()
def run_target(target: Target, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """Boundaries 0 to n of the target [T, hidden] in float32, and n after the final norm, by transformers."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            target.directory, dtype=torch.float32, trust_remote_code=False, local_files_only=True
        ).eval()
    except (ValueError, OSError, ImportError, KeyError, AttributeError, RuntimeError) as failure:
        raise DraftError("a target that transformers runs", type(failure).__name__, target.directory,
                         "name the boundaries with --states") from None  # fmt: skip
    body: Any = model.base_model
    seen: list[Tensor] = []
    hook = body.layers[-1].register_forward_hook(lambda module, given, output: seen.append(_plain(output)[0]))
    answer = body(ids[None], output_hidden_states=True, use_cache=False)
    hook.remove()
    return [*(h[0] for h in answer.hidden_states[:-1]), seen[0]], answer.last_hidden_state[0]


def _plain(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _free_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 0

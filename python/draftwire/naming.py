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
AGAIN = "name one whose layers are to be run"


class Named(NamedTuple):
    """A dumped state: `boundary`, None where it is none that was looked at; `error`: |found - dumped| / |dumped| of
    the nearest; `normed`: the target's final norm is in it; `norm`: mean length of its rows; `nearest`: the boundary
    that is nearest, however far, None where the target was not run."""

    boundary: int | None
    error: float
    normed: bool
    norm: float
    nearest: int | None = None


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
    named, reason = compare_states(sample, target)
    if named:
        return named, ""
    embedding = find_embedding(sample, parts.embed)
    return [Named(0 if i == embedding else None, 0.0 if i == embedding else float("nan"), False, row_norm(s))
            for i, s in enumerate(sample.states)], reason  # fmt: skip


def compare_states(sample: Sample, target: Target) -> tuple[list[Named], str]:
    """The boundary nearest to each dumped state's first rows; none and why where the target is not run here."""
    if reason := does_not_fit(target):
        return [], reason
    try:
        boundaries, normed = run_target(target, sample.input_ids[:ROWS])
    except DraftError as failure:
        return [], str(failure)
    return [_nearest(state[:ROWS], boundaries, normed) for state in sample.states], ""


def _nearest(state: Tensor, boundaries: list[Tensor], normed: Tensor) -> Named:
    errors = [relative_error(found, state) for found in [*boundaries, normed]]
    best = min(range(len(errors)), key=errors.__getitem__)
    last = best == len(boundaries)
    nearest = min(best, len(boundaries) - 1)
    boundary = nearest if errors[best] < SAME else None
    return Named(boundary, errors[best], last and boundary is not None, row_norm(state), nearest)


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
    """Boundaries 0 to n of the target [T, hidden] in float32, and n after the final norm, by transformers. Raises
    DraftError on a target that transformers does not run, or of which a layer's tensors are not there."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    said = logging.get_verbosity()
    logging.set_verbosity_error()
    seen: list[Tensor] = []
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            target.directory, dtype=torch.float32, trust_remote_code=False, local_files_only=True,
            output_loading_info=True,
        )  # fmt: skip
        model, report = loaded
        missing = sorted(name for name in report["missing_keys"] if not name.startswith("lm_head."))
        if missing:
            raise DraftError("a target with all of its layers", f"no {missing[0]}", target.directory, AGAIN)
        body: Any = model.eval().base_model
        hook = body.layers[-1].register_forward_hook(lambda module, given, output: seen.append(_plain(output)[0]))
        answer = body(ids[None], output_hidden_states=True, use_cache=False)
        hook.remove()
        return [*(h[0] for h in answer.hidden_states[:-1]), seen[0]], answer.last_hidden_state[0]
    except DraftError:
        raise
    except Exception as failure:  # whatever a model's code raises
        raise DraftError("a target that transformers runs", type(failure).__name__, target.directory, AGAIN) from None
    finally:
        logging.set_verbosity(said)


def _plain(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _free_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 0

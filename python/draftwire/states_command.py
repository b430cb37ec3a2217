"""`draftwire doctor --samples` before there is a draft: which boundary each dumped state is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftwire.draft import find_directory
from draftwire.rendering import WIDTH, wrap
from draftwire.samples_command import read_states, require_torch


def name_dumped(
    target: str, directory: Path, *, states: str = "", as_json: bool = False, width: int = WIDTH
) -> tuple[str, int]:
    """Before there is a draft: which boundary each dumped state is, and whether the last is the verifier's.

    The status is 0 where it is, 1 where it is not, 2 where that cannot be seen.
    """
    require_torch()
    from draftwire.naming import name_states
    from draftwire.sample import read_samples
    from draftwire.target import read_target
    from draftwire.weights import read_parts

    read = read_target(find_directory(target))
    samples = read_samples(
        directory,
        states=read_states(states),
        hidden_size=read.hidden_size,
        vocab_size=read.vocab_size,
        num_layers=read.num_layers,
    )
    first = next(iter(samples))
    named, reason = name_states(first, read, read_parts(read))
    said = samples.boundaries
    lines: list[str] = []
    wrong: list[str] = []
    for i, one in enumerate(named):
        what = "not recognised" if one.boundary is None else f"boundary {one.boundary}"
        what += " after the final norm" if one.normed else " (the embedding)" if one.boundary == 0 else ""
        lines += wrap(f"dumped state {i}: {what}, mean norm {one.norm:.3g}", width)
        if said is not None and one.boundary not in (None, said[i]):
            wrong.append(f"dumped state {i} is boundary {one.boundary}, said to be {said[i]}")
            lines[-1] += f"; said to be {said[i]}"
    last = named[-1]
    right = last.boundary == read.num_layers and last.normed == first.last_is_normed and not wrong
    status = 2 if last.boundary is None else 0 if right else 1
    verdict = _of_last(last, read.num_layers, first.last_is_normed, reason)
    verdict = "; ".join([*wrong, "correct the manifest or --states", verdict]) if wrong else verdict
    if as_json:
        table = [{"boundary": n.boundary, "normed": n.normed, "mean_norm": n.norm} for n in named]
        return json.dumps({"states": table, "status": status, "last": verdict}, indent=2), status
    seen = f"{first.file.name} of {len(samples.files)} samples, {first.length} tokens, target {read.architecture}"
    for note in samples.notes:
        lines += wrap(f"note: {note}", width)
    return "\n".join([*wrap(verdict, width), *wrap(seen, width), *lines]), status


def _of_last(last: Any, layers: int, normed: bool, reason: str) -> str:
    if last.boundary is None:
        return "the last state is not recognised: " + (reason or "it is no boundary of this target")
    if last.boundary != layers:
        return (
            f"the last state is boundary {last.boundary} of {layers}: the trainer takes the last as the verifier's and "
            f"would learn what layer {last.boundary} foretells; dump boundary {layers} too"
        )
    if last.normed != normed:
        form, other = ("after", "before") if last.normed else ("before", "after")
        return (
            f"the last state is the target's output {form} the final norm; this format's trainer takes it as {other} it"
        )
    return f"the last state is boundary {layers}, the target's output: what the trainer takes as the verifier's state"

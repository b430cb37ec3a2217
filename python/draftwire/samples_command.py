"""`draftwire doctor --samples`: the draft, or before there is one the target, run on training samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftwire.draft import DraftError, find_directory
from draftwire.rendering import printable

if TYPE_CHECKING:
    from draftwire.case import Case
    from draftwire.diagnosis import Diagnosis

STATUS = {"WIRED": 0, "MISWIRED": 1, "UNKNOWN": 2}


def examine_samples(
    case: Case, directory: Path, *, data: Path | None = None, states: str = "", expect: float | None = None,
    fix: Path | None = None, as_json: bool = False,
) -> tuple[str, int]:  # fmt: skip
    """Text or JSON for the user and the exit status: 0 WIRED, 1 MISWIRED, 2 UNKNOWN; after a mend, the mended draft's.

    states: boundaries of the dumped states such as 0,3,6,9. expect: the trainer's figure, 0.747 or 74.7.
    Raises DraftError, one line, on samples, drafts and arguments that cannot be used.
    """
    require_torch()
    from draftwire.diagnosis import diagnose
    from draftwire.sample import read_samples

    if expect is not None:
        expect = expect / 100 if 1 < expect <= 100 else expect
        if not 0 < expect <= 1:
            raise DraftError("an agreement such as 0.747", expect, "--expect", "write the trainer's figure")
    width, size = (case.target.hidden_size, case.target.vocab_size) if case.target else (None, case.vocab_size)
    samples = read_samples(directory, states=read_states(states), data=data, hidden_size=width, vocab_size=size,
                           num_layers=case.target.num_layers if case.target else None)  # fmt: skip
    found = diagnose(case, samples, expect=expect)
    mended, lines, status = None, list(describe(case, found)), STATUS[found.verdict]
    if fix is not None:
        lines, mended = _mend(case, found, samples, fix, lines)
        status = STATUS[mended.verdict]
    if not as_json:
        return "\n".join(printable(line) for line in lines), status
    table = as_table(found) | ({"fixed": {"out": str(fix), **as_table(mended)}} if mended else {})
    return json.dumps(table, indent=2), status


def _mend(case: Case, found: Diagnosis, samples: Any, fix: Path, lines: list[str]) -> tuple[list[str], Diagnosis]:
    """Write the mended draft and diagnose it, as the overlay serves it and as stock would."""
    from draftwire.case import Case
    from draftwire.diagnosis import diagnose
    from draftwire.draft import read_draft
    from draftwire.mend import mend

    output = mend(case, found, fix)
    cases = {
        name: Case(read_draft(fix), case.target, None, case.release, name, case.environment)
        for name in dict.fromkeys((case.delivery, "overlay", "stock"))
    }
    ours = cases["overlay" if output.requires else case.delivery]
    again = diagnose(ours, samples)
    ids = output.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    outputs = [b - 1 for b in output.boundaries]
    overlay = f"for the overlay: ids {ids}" + (f" (or {outputs})" if outputs[0] == -1 else "")
    captured = cases["stock"].reading.captured
    stock = f"for stock SGLang {case.release}: "
    if output.requires:
        stock += f"none, it needs {', '.join(output.requires)}"
    elif captured == tuple(output.boundaries):
        stock += f"the same ids {ids}"
    else:
        stock += f"none, it would capture {list(captured or ())}"
    return [*lines, "", f"wrote {fix}", overlay, stock, "diagnosed again:", *describe(ours, again)], again


def name_dumped(target: str, directory: Path, *, states: str = "", as_json: bool = False) -> tuple[str, int]:
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
        directory, states=read_states(states), hidden_size=read.hidden_size, vocab_size=read.vocab_size,
        num_layers=read.num_layers,
    )
    first = next(iter(samples))
    named, reason = name_states(first, read, read_parts(read))
    said = samples.boundaries
    lines = [f"{first.file.name} of {len(samples.files)} samples, {first.length} tokens, target {read.architecture}"]
    wrong = False
    for i, one in enumerate(named):
        what = "not recognised" if one.boundary is None else f"boundary {one.boundary}"
        what += " after the final norm" if one.normed else " (the embedding)" if one.boundary == 0 else ""
        other = said is not None and one.boundary is not None and said[i] != one.boundary
        wrong = wrong or other
        lines.append(
            f"state {i}: {what}, mean norm {one.norm:.3g}" + (f"; said to be {said[i]}" * other if said else "")
        )
    last = named[-1]
    right = last.boundary == read.num_layers and last.normed == first.last_is_normed and not wrong
    status = 2 if last.boundary is None else 0 if right else 1
    lines.append(_of_last(last, read.num_layers, first.last_is_normed, reason))
    if as_json:
        table = [{"boundary": n.boundary, "normed": n.normed, "mean_norm": n.norm} for n in named]
        return json.dumps({"states": table, "status": status, "last": lines[-1]}, indent=2), status
    return "\n".join(lines), status


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


def describe(case: Case, found: Diagnosis) -> Iterator[str]:
    """The diagnosis in lines: norms, agreements, winner, server, verdict."""
    for boundary, norm in found.norms:
        name = "unnamed" if boundary is None else "0, the embedding" if boundary == 0 else str(boundary)
        yield f"state {name}: mean norm {norm:.3g}"
    if found.winner is not None:
        states = ", ".join("?" if b is None else str(b) for b in found.boundaries)
        doubt = f"beyond doubt after {found.tokens} tokens" if found.decided else f"undecided after {found.tokens}"
        yield f"best: states ({states}), {doubt}; decided by agreement with the {found.kind}"
        if found.runner_up:
            other, agreement = found.runner_up
            states = ", ".join("?" if b is None else str(b) for b in other)
            yield f"next: states ({states}), {agreement} when it stopped"
    for kind, rows in found.scores.items():
        for step, (full, reduced) in enumerate(rows, 1):
            yield f"agreement with the {kind}, step {step}: {full}; draft vocabulary {reduced}"
    if found.served is not None:
        yield f"{case.server} captures {list(found.served)}"
    if found.served_agreement is not None:
        yield f"as served, step 1: {found.served_agreement}"
    yield from (f"note: {line}" for line in found.notes)
    yield from found.reasons
    yield f"{found.verdict}" + (f": {', '.join(found.axes)}" if found.axes else "")


def as_table(found: Diagnosis) -> dict[str, Any]:
    """For `json.dumps`."""
    scores = {
        kind: [
            {"full": f.rate, "full_of": f.of, "draft_vocabulary": r.rate, "draft_vocabulary_of": r.of} for f, r in rows
        ]
        for kind, rows in found.scores.items()
    }
    return {
        "verdict": found.verdict, "axes": found.axes, "reasons": found.reasons, "notes": found.notes,
        "boundaries": list(found.boundaries), "served": None if found.served is None else list(found.served),
        "tokens": found.tokens, "decided_by": found.kind, "agreement": scores,
        "served_agreement": found.served_agreement.rate if found.served_agreement else None,
        "norms": [{"boundary": b, "mean_norm": n} for b, n in found.norms],
    }  # fmt: skip


def read_states(text: str) -> Sequence[int] | None:
    """Boundaries from a list such as 0,3,6,9; None where nothing was said."""
    if not text:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 7 for part in parts):
        raise DraftError("boundaries such as 0,3,6,9", text, "--states", "name each dumped state's boundary")
    return [int(part) for part in parts]


def require_torch() -> None:
    """Raises DraftError where torch or transformers is not installed."""
    try:
        import torch
        import transformers  # noqa: F401

        del torch
    except ImportError as failure:
        raise DraftError(
            "torch and transformers", str(failure), "this Python", "pip install 'draftwire[doctor]'"
        ) from None

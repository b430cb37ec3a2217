"""A diagnosis and a mend, as text for a terminal and as a table for JSON. The verdict comes first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftwire.rendering import WIDTH, wrap

if TYPE_CHECKING:
    from draftwire.case import Case
    from draftwire.convert.output import Output
    from draftwire.diagnosis import Diagnosis

LABEL, CELL = 28, 24


def describe(case: Case, found: Diagnosis, width: int = WIDTH) -> Iterator[str]:
    """Lines of at most `width` columns: verdict, reasons, next step, winner and runner-up, agreements, norms."""
    yield headline(found)
    for reason in found.reasons:
        yield from wrap(reason, width, 2)
    if found.remedy:
        yield from wrap(f"Next: {found.remedy}", width, 2)
    yield ""
    for line in _race(found):
        yield from wrap(line, width)
    if found.served is not None:
        yield from wrap(f"{case.server} captures boundaries {list(found.served)}", width)
    yield from _agreements(found, width)
    if found.norms:
        yield from wrap("mean norms: " + ", ".join(_norms(found)), width)
    for line in found.notes:
        yield from wrap(f"note: {line}", width)


def headline(found: Diagnosis) -> str:
    return found.verdict + (f": {', '.join(found.axes)}" if found.axes else "")


def states_of(choice: Sequence[int], boundaries: Sequence[int | None]) -> str:
    """`boundaries (0, 3, 6)`; where nobody named one of them, `dumped states (0, 1, 2)`, by their place."""
    named = None not in boundaries
    return f"{'boundaries' if named else 'dumped states'} ({', '.join(map(str, boundaries if named else choice))})"


def _race(found: Diagnosis) -> Iterator[str]:
    """The winner, and the one that lost last, on the same tokens."""
    if found.winner is None:
        return
    doubt = f"beyond doubt after {found.tokens} tokens" if found.decided else f"undecided after {found.tokens} tokens"
    best = states_of(found.winner.choice, found.boundaries)
    yield f"best {best} of {found.choices} choices, {doubt}, by agreement with the {found.kind}"
    if found.runner_up is not None:
        rival = found.runner_up
        also = f" with d2t read as {rival.d2t}" if rival.choice == found.winner.choice else ""
        other = states_of(rival.choice, rival.boundaries) + also
        yield f"next {other}: {rival.agreement} at step 1, where the best has {rival.best} on the same tokens"


def _norms(found: Diagnosis) -> Iterator[str]:
    for i, (boundary, norm) in enumerate(found.norms):
        name = f"dumped state {i}" if boundary is None else f"boundary {boundary}"
        yield name + (" (the embedding)" if boundary == 0 else "") + f" {norm:.3g}"


def _agreements(found: Diagnosis, width: int) -> Iterator[str]:
    """The deciding reference at every step, the others at the first."""
    if not found.scores:
        return
    yield from _row("agreement", ["all tokens", "draft's vocabulary"], width)
    for kind in sorted(found.scores, key=lambda kind: kind != found.kind):
        for step, cells in enumerate(found.scores[kind][: None if kind == found.kind else 1], 1):
            yield from _row(f"{kind}, step {step}", [str(cell) for cell in cells], width)
    if found.served_agreement is not None:
        yield from _row("as served, step 1", [str(found.served_agreement)], width)


def _row(label: str, cells: Sequence[str], width: int) -> Iterator[str]:
    if width >= LABEL + 2 * CELL:
        yield (label.ljust(LABEL) + "".join(cell.ljust(CELL) for cell in cells)).rstrip()
        return
    yield label
    yield from (f"  {cell}" for cell in cells)


def describe_mend(found: Diagnosis, again: Diagnosis, mended: dict[str, Any], width: int = WIDTH) -> Iterator[str]:
    """What was written, what it is now, and how to launch it. mended: of `mended_table`."""
    yield f"{again.verdict} as mended; it was {headline(found)}"
    for reason in again.reasons:
        yield from wrap(reason, width, 2)
    if again.remedy:
        yield from wrap(f"Next: {again.remedy}", width, 2)
    yield from wrap(f"wrote {mended['out']}", width)
    for line in mended["changes"] or ["nothing but its form: it was served as trained"]:
        yield from wrap(f"- {line}", width, 2)
    for line in (*mended["served_by"], *mended["notes"]):
        yield from wrap(line, width)
    before, after = found.served_agreement, again.served_agreement
    if after is not None:
        was = f", before {before}" if before is not None else ""
        yield from wrap(f"agreement with the {again.kind} as served, step 1: {after}{was}", width)
    for line in again.notes:
        yield from wrap(f"note: {line}", width)
    yield from wrap(f"launch flags, also in {Path(mended['out']) / 'serve.yaml'} for --config:", width)
    yield from flag_lines(mended["flags"], width)


def flag_lines(flags: dict[str, Any], width: int) -> list[str]:
    """`--name value` pairs packed into lines of `width`, none of them parted."""
    lines: list[str] = []
    for name, value in flags.items():
        pair = f"--{name} {shlex.quote(str(value))}"
        if lines and len(lines[-1]) + 1 + len(pair) <= width:
            lines[-1] += f" {pair}"
        else:
            lines.append(f"  {pair}")
    return lines


def as_table(found: Diagnosis) -> dict[str, Any]:
    """For `json.dumps`."""
    scores = {
        kind: [
            {"full": f.rate, "full_of": f.of, "draft_vocabulary": r.rate, "draft_vocabulary_of": r.of} for f, r in rows
        ]
        for kind, rows in found.scores.items()
    }
    rival = found.runner_up
    return {
        "verdict": found.verdict, "axes": found.axes, "reasons": found.reasons, "next": found.remedy,
        "notes": found.notes, "boundaries": list(found.boundaries), "choices": found.choices,
        "served": None if found.served is None else list(found.served),
        "tokens": found.tokens, "decided": found.decided, "decided_by": found.kind, "agreement": scores,
        "served_agreement": found.served_agreement.rate if found.served_agreement else None,
        "runner_up": None if rival is None else {
            "boundaries": list(rival.boundaries), "agreement": rival.agreement.rate, "best": rival.best.rate,
            "of": rival.agreement.of,
        },
        "norms": [{"boundary": b, "mean_norm": n} for b, n in found.norms],
    }  # fmt: skip


def mended_table(
    out: Path, output: Output, changes: list[str], served_by: list[str], notes: list[str]
) -> dict[str, Any]:
    """What was written into `out`, for `json.dumps`."""
    return {"out": str(out), "changes": changes, "served_by": served_by, "notes": notes, "requires": output.requires,
            "flags": output.flags}  # fmt: skip

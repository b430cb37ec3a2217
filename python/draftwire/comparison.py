"""What a diagnosis found against what a server captures, and against the trainer's figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftwire.case import Case
from draftwire.reference import ARGMAX

if TYPE_CHECKING:
    from draftwire.diagnosis import Diagnosis

SHORT = 0.02  # what the winner may lack of the trainer's figure beside three standard errors


def compare_wiring(case: Case, found: Diagnosis) -> None:
    """Add to a diagnosis what the server captures, and its axes: form, boundaries, count or order."""
    trained = found.boundaries
    if case.is_nested:
        found.axes.append("form")
        found.reasons.append("the config has its trainer's form, which no release reads: run `draftwire convert`")
        return
    reading = case.reading
    found.served = reading.captured
    if reading.refusal:
        found.axes.append("boundaries")
        found.reasons.append(f"{case.server} refuses it: {reading.refusal}")
        return
    if reading.captured is None:
        found.reasons.append(f"what {case.server} captures is not known: {reading}")
        return
    served = list(reading.captured)
    if len(served) != len(trained):
        found.axes.append("count")
        found.reasons.append(f"{case.server} {_lost(case, served)}captures {len(served)} states {served}, "
                             f"fc takes {len(trained)}")  # fmt: skip
        return
    unnamed = None in trained
    if unnamed and (0 in served) == (0 in trained):
        found.reasons.append("which boundary each state is nobody says: name them with --states or a manifest")
        return
    if unnamed or sorted(b for b in trained if b is not None) != served:
        found.axes.append("boundaries")
        what = "the embedding among its states" if 0 in trained else "no embedding among its states"
        was = what if unnamed else f"boundaries {sorted(b for b in trained if b is not None)}"
        found.reasons.append(f"trained on {was}, {case.server} feeds it {reading}")
    elif list(trained) != served:
        found.axes.append("order")
        found.reasons.append(f"fc takes its states in the order {list(trained)}, every server feeds them as {served}")


def _lost(case: Case, served: list[int]) -> str:
    """That a server without draftwire leaves out the -1 of nested ids."""
    ids = case.reading.ids or ()
    return "drops -1, the embedding output, and " if case.delivery == "stock" and -1 in ids and 0 not in served else ""


def compare_figure(found: Diagnosis, expect: float) -> None:
    """Hold a share that the trainer reported against the deciding reference. One that falls short leaves no WIRED.

    Trainers report step 1 against the target's argmax, of the tokens of the draft's vocabulary.
    """
    if found.kind not in found.scores:
        return
    full, reduced = found.scores[found.kind][0]
    agreement, over = (reduced, "the draft's vocabulary") if reduced.of else (full, "all tokens")
    what = f"{agreement} agree with the {found.kind} at step 1 over {over}"
    if found.kind != ARGMAX:
        what += f" (a trainer compares with the {ARGMAX}, which these samples lack)"
    if agreement.rate + 3 * agreement.error + SHORT >= expect:
        found.notes.append(f"the trainer's figure {expect:.1%} is reached: {what}")
        return
    line = f"falls short of the trainer's {expect:.1%}: {what}; samples, target or draft are not those of that figure"
    if found.verdict == "WIRED":
        found.verdict = "UNKNOWN"
        found.reasons.append(f"agreement {line}")
    else:
        found.notes.append(f"agreement {line}")

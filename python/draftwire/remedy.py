"""What mends a mis-wired draft: another delivery that feeds it as it was trained, or a copy written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftwire.axes import differences
from draftwire.case import Case
from draftwire.convert.flatten import OLDEST
from draftwire.delivery import available
from draftwire.release import has
from draftwire.settings import served_settings

if TYPE_CHECKING:
    from draftwire.diagnosis import Diagnosis

OURS = {"overlay": "draftwire's overlay", "patch": "draftwire's patch (`draftwire patch`)", "stock": "stock SGLang"}


def next_step(case: Case, found: Diagnosis) -> str:
    """One sentence for a diagnosis that is MISWIRED and has a winner."""
    if "form" in found.axes:
        return "`draftwire convert DRAFT OUT --target TARGET`, and look at what it wrote"
    if None in found.boundaries:
        return "name each dumped state with --states or a manifest, and add `--fix OUT`"
    if case.target is None:
        return "name --target, and add `--fix OUT`"
    written = "`--fix OUT` writes a draft that is served as it was trained"
    if not has(case.release, "layer_captures"):
        written = f"{written}, by SGLang {OLDEST} and later"
    delivery = mending_delivery(case, found)
    if not delivery:
        return written
    also = ", -1 as boundary 0" if -1 in (case.reading.ids or ()) else ""
    return f"serve it with {OURS[delivery]}, which captures boundaries {list(found.boundaries)}{also}; or {written}"


def mending_delivery(case: Case, found: Diagnosis) -> str:
    """Another delivery of the same release that serves the draft, as it is, as it was trained; empty for none."""
    assert found.winner is not None
    trained = found.winner.settings
    for name in OURS:
        if name == case.delivery or name not in available(case.release, case.environment):
            continue
        other = Case(case.draft, case.target, case.flags, case.release, name, case.environment)
        if other.reading.captured == found.boundaries and not differences(trained, served_settings(other)):
            return name
    return ""

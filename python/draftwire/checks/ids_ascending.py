"""The layer ids are whole numbers, each of them once, in ascending order, none below -1.

What: every list of ids, and `aux_boundaries`, in the config.

Why: the target's loop asks each layer whether it is in the list. The order of the list is lost and an id that is there
twice is captured once, so a draft trained on cat([L31, L3, embedding]) gets the right states in the wrong places.

Example: `[5, 2, -1]` is served as boundaries 0, 3, 6, the blocks of `fc.weight` standing for 6, 3, 0.

Remedy: sort the ids and permute the column blocks of `fc.weight` to match; ids alone cannot express another order.

Reports:
- https://github.com/vllm-project/speculators/issues/1065
- https://github.com/sgl-project/sglang/pull/25454
"""

from typing import Any

from draftwire.case import Case
from draftwire.finding import Finding, error, ok
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS, NESTED

MEND = "Write the ids that the draft was trained on."


def check(case: Case) -> Finding:
    if not case.uses_states:
        return ok("The draft wants no aux hidden states.")
    lists = {
        NESTED: (case.eagle_config.get(IDS), -1),
        IDS: (case.draft.config.get(IDS), -1),
        f"eagle_config.{BOUNDARIES}": (case.eagle_config.get(BOUNDARIES), 0),
    }
    there = {key: (ids, lowest) for key, (ids, lowest) in lists.items() if ids is not None}
    for key, (ids, lowest) in there.items():
        if finding := _look(key, ids, lowest):
            return finding
    return ok("Ascending, each once.", *(f"{k} {i}" for k, (i, _) in there.items())) if there else ok("No ids.")


def _look(key: str, ids: Any, lowest: int) -> Finding | None:
    found = f"{key} {ids!r}"[:160]
    if not isinstance(ids, list) or not ids or not all(type(i) is int for i in ids):
        return error("The ids are no list of whole numbers.", found, remedy=MEND)
    if min(ids) < lowest:
        return error(f"There is no id below {lowest}; -1 is the embedding output.", found, remedy=MEND)
    if len(set(ids)) < len(ids):
        return error("An id is there twice and would be captured once.", found, remedy=MEND)
    if ids != sorted(ids):
        order = sorted(range(len(ids)), key=ids.__getitem__)
        return error(
            "The ids do not ascend, but states are captured in ascending order.", found,
            remedy=f"Write {sorted(ids)} and put the column blocks of fc.weight in the order {order}.",
        )  # fmt: skip
    return None

"""What the ids mean to the trainer is what they mean to this server.

What: the boundaries that the config's own words say (`aux_boundaries`, a -1, speculators' index) against those that
this release captures; and, where the ids are plain nested ones, whether releases and trainers read them alike.
Boundary b is the residual stream after b decoder layers, 0 the embedding output.

Why: an id has three meanings. On DeepSeek and Kimi, SGLang until 0.5.12.post1 read `[2, 30, 58]` as boundaries 3, 31
and 59, and since 0.5.13 as 2, 30 and 58, unless the first id is 1. SpecForge, TRT-LLM and ModelOpt name layer outputs,
speculators and vLLM an index. Nothing fails when they differ: a Kimi-K2.5 draft with 74.7% validation accuracy served
at half of the speed without it.

Example: `[2, 30, 58]` without a word about what it counts, on Kimi-K2.5.

Remedy: `eagle_config.aux_boundaries` with the boundaries that the draft was trained on, or `draftwire convert
--boundaries`; both are served alike by every release, or refused.

Reports:
- https://github.com/sgl-project/sglang/pull/25454
- https://github.com/SafeAILab/EAGLE/issues/239
- https://github.com/NickL77/BaldEagle/issues/18
"""

from draftwire.capture_rules import SETTERS
from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire.reading import read_stock, show, trained_boundaries

SAY = "Write eagle_config.aux_boundaries with the boundaries that the draft was trained on."


def check(case: Case) -> Finding:
    if not case.uses_states:
        return ok("The draft wants no aux hidden states.")
    if case.target is None:
        return skipped("the target was not named, and what ids mean depends on it")
    reading, trained = case.reading, trained_boundaries(case)
    if reading.refusal:
        return error("draftwire refuses the ids.", reading.refusal, remedy=SAY)
    if reading.wanted is None:
        return skipped(f"the ids have no meaning here ({reading.rule})")
    both = f"{case.server}: {show(reading.captured)}"
    if trained is not None:
        if reading.captured == trained:
            return ok(f"Trained on and served boundaries {show(trained)}.", str(reading))
        return error(
            f"Trained on boundaries {show(trained)}, served {show(reading.captured)}.", str(reading), *_others(case),
            remedy=_mend(case, trained),
        )  # fmt: skip
    if reading.ids is None:
        return ok(f"Served the default {show(reading.captured)}.", str(reading))
    rules = {rule for _, rule in SETTERS.get(case.target.architecture, ())}
    if len(rules) > 1 and not (len(reading.ids) > 0 and reading.ids[0] == 1):
        shifted = [b + 1 for b in reading.ids]
        return warning(
            f"The ids {list(reading.ids)} mean boundaries {list(reading.ids)} or {shifted}, and nothing says which.",
            both, *_others(case), remedy=SAY,
        )  # fmt: skip
    return ok("One meaning in every release and for the trainers that write ids here.", both)


def _others(case: Case) -> list[str]:
    """What releases on both sides of 0.5.13 make of the ids without draftwire."""
    lines = []
    for label, release in (("0.5.8 to 0.5.12.post1", "0.5.12.post1"), ("0.5.13", "0.5.13"), ("0.5.14 on", "0.5.23")):
        reading = read_stock(case, release)
        lost = "" if reading.wanted is None or len(reading.wanted) == len(reading.captured or ()) else " and stops"
        lines.append(f"stock {label}: {show(reading.captured)}{lost}")
    return lines


def _mend(case: Case, trained: tuple[int, ...]) -> str:
    if case.delivery == "stock":
        return "Install draftwire beside SGLang 0.5.14 or later, patch an older one, or run `draftwire convert`."
    return f"Say what is true: eagle_config.aux_boundaries {list(trained)}, or the ids."

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

from itertools import groupby

from draftwire.capture_rules import SETTERS, apply_rule
from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire.reading import read_stock, read_wired, show, trained_boundaries
from draftwire.release import RELEASES
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY

INSTALL = "Install draftwire beside SGLang 0.5.14 or later, patch an older one, or run `draftwire convert`."
SAY = "Write eagle_config.aux_boundaries with the boundaries that the draft was trained on."


def check(case: Case) -> Finding:
    if not case.uses_states:
        return ok("The draft wants no aux hidden states.")
    if case.target is None:
        return skipped("the target was not named, and what ids mean depends on it")
    reading, trained = case.reading, trained_boundaries(case)
    if reading.refusal:
        return error("draftwire refuses the ids.", reading.refusal, remedy=_say(case))
    if reading.wanted is None:
        return skipped(f"the ids have no meaning here ({reading.rule})")
    both = f"{case.server}: {show(reading.captured)}"
    if trained is not None:
        if reading.captured == trained:
            return ok(f"Trained on and served boundaries {show(trained)}.", str(reading))
        return error(
            f"Trained on boundaries {show(trained)}, served {show(reading.captured)}.", str(reading),
            *_by_release(case), remedy=INSTALL if case.delivery == "stock" else "Mend what boundaries_reachable names.",
        )  # fmt: skip
    if reading.ids is None:
        return ok(f"Served the default {show(reading.captured)}.", str(reading))
    rules = {rule for _, rule in SETTERS.get(case.target.architecture, ())}
    meanings = sorted({tuple(apply_rule(rule, reading.ids, case.target.num_layers)) for rule in rules})
    if len(meanings) > 1:
        return warning(
            f"The ids {list(reading.ids)} mean boundaries {' or '.join(map(show, meanings))}, and nothing says which.",
            both, *_by_release(case),
            remedy=_say(case),
        )  # fmt: skip
    return ok("One meaning in every release and for the trainers that write ids here.", both)


def _say(case: Case) -> str:
    if case.target is not None and case.target.architecture in DEEPSEEK_FAMILY:
        return SAY
    return "Write nested ids as this release reads them: draftwire leaves this target to it."


def _by_release(case: Case) -> list[str]:
    """What each release makes of the ids without draftwire, and the newest with it."""
    said = []
    for release in RELEASES:
        reading = read_stock(case, release)
        stops = reading.wanted is not None and len(reading.wanted) > len(reading.captured or ())
        told = "cannot capture" if reading.wanted is None else show(reading.captured) + (" and stops" if stops else "")
        said.append((told, release))
    lines = []
    for told, group in groupby(said, key=lambda pair: pair[0]):
        releases = [release for _, release in group]
        span = releases[0] if releases[0] == releases[-1] else f"{releases[0]} to {releases[-1]}"
        lines.append(f"stock {span}: {told}")
    if case.target is not None and case.target.architecture in DEEPSEEK_FAMILY:
        wired = read_wired(case)
        lines.append(f"with draftwire: {'refused' if wired.refusal else show(wired.captured)}")
    return lines

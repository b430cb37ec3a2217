"""The layer ids lie where the server reads them.

What: `eagle_config.eagle_aux_hidden_state_layer_ids`, the one key that every stock release reads, against the same key
at the top of the config, where speculators and vLLM write it. Where draftwire wires the target, both are read.

Why: stock SGLang looks into `eagle_config` inside a bare `except`. A list elsewhere is no error: the release captures
its default, 2, n // 2 and n - 3, and the draft proposes from states that it never saw.

Example: `{"eagle_aux_hidden_state_layer_ids": [0, 3, 31]}` at top level is served as [2, 30, 58] on Kimi-K2.5.

Remedy: `draftwire convert`, or install draftwire beside SGLang 0.5.14 or later.

Reports:
- https://github.com/vllm-project/vllm/pull/50170
- https://github.com/lightseekorg/tokenspeed/pull/526
- https://github.com/ggml-org/llama.cpp/pull/27040
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire.reading import show, trained_boundaries
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS, NESTED

MEND = "Run `draftwire convert`, or write the ids into eagle_config."


def check(case: Case) -> Finding:
    nested, top = case.eagle_config.get(IDS), case.draft.config.get(IDS)
    table = case.draft.config.get("eagle_config")
    if table is not None and not isinstance(table, dict):
        return error("eagle_config is no table.", f"{type(table).__name__} in config.json", remedy=MEND)
    if not case.uses_states:
        return ok("The draft wants no aux hidden states.", "eagle_config.use_aux_hidden_state is false")
    if nested is None and top is None and case.eagle_config.get(BOUNDARIES) is None:
        return _no_ids(case)
    if nested is not None:
        return ok("The ids lie in eagle_config.", f"{NESTED} {nested}")
    if case.is_wired_by_us and not case.reading.refusal:
        return ok("draftwire reads the ids at this place.", f"{case.reading.where} {show(case.reading.wanted)}")
    found = f"{IDS} {top} at the top of config.json" if top is not None else f"only eagle_config.{BOUNDARIES}"
    if case.target is None:
        return error("Stock SGLang does not read ids at this place.", found, remedy=MEND)
    served, wanted = case.reading.captured, trained_boundaries(case)
    if served is not None and served == wanted:
        return warning(f"The ids are not read; the default {show(served)} happens to be the same.", found, remedy=MEND)
    return error(
        f"The ids are not read by {case.server}: it captures its default {show(served)}.", found,
        f"trained on boundaries {show(wanted)}", remedy=MEND,
    )  # fmt: skip


def _no_ids(case: Case) -> Finding:
    if str(case.draft.config.get("speculators_version", "")).startswith(("0.3", "0.4")):
        return error(
            "speculators 0.3 and 0.4 do not write the ids, and generate states one layer later than they are served.",
            "no ids in config.json", remedy="Export with speculators 0.5 or later, with the ids of the training data.",
        )  # fmt: skip
    if case.target is None:
        return skipped("there are no ids, and the release's default depends on the target, which was not named")
    return warning(
        f"There are no ids: {case.release} captures its default {show(case.reading.captured)}, which is a guess.",
        "no ids in config.json",
        remedy="Write eagle_config.aux_boundaries with the boundaries that the draft was trained on.",
    )

"""The config says whether the draft feeds back its state before or after the last norm.

What: `norm_output` in drafts that show marks of newer trainers (`norm_before_fc`, `fc_norm`, speculators).

Why: newer trainers feed the normed state back by default, SGLang the one before the norm unless `norm_output` says
otherwise. The first position is right either way; from the second on acceptance falls.

Example: a draft with `fc_norm` trained by SpecForge's defaults, whose config has no `norm_output`.

Remedy: write `norm_output` true or false, as trained.

Reports:
- https://github.com/sgl-project/SpecForge/pull/879
- https://github.com/ROCm/ATOM/pull/882
"""

from draftwire.case import Case
from draftwire.finding import Finding, ok, warning


def check(case: Case) -> Finding:
    said = [table["norm_output"] for table in (case.draft.config, case.eagle_config) if "norm_output" in table]
    if said:
        return ok(f"norm_output is {said[0]!r}.")
    marks = [name for name in ("norm_before_fc", "fc_norm", "use_aux_norm") if case.flag(name)]
    if not marks or case.draft.layout == "speculators":
        # speculators leaves out what is false.
        return ok("The state before the last norm is fed back, as older trainers do.")
    return warning(
        "norm_output is not said, and trainers that write this config differ in their default.", f"{marks[0]} is true",
        remedy="Write norm_output true or false into config.json, as the draft was trained.",
    )  # fmt: skip

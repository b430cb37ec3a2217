"""The target's class can capture aux hidden states in this release.

What: whether the model class has `set_eagle3_layers_to_capture` in the release that will serve.

Why: without it the server ends at start with an AttributeError, minutes after the weights began to load.

Example: Kimi-K2.5 on SGLang 0.5.9, whose wrapper class came a release before its EAGLE-3 hook.

Remedy: the first release that has the hook; for Kimi-K2.5 on 0.5.9 also draftwire's patch.

Reports:
- https://github.com/sgl-project/sglang/pull/19689
"""

from draftwire.capture_rules import SETTERS, rule_of
from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning


def check(case: Case) -> Finding:
    if case.target is None:
        return skipped("the target was not named")
    name = case.target.architecture
    said = f"architectures [{name}] in the target's config.json"
    if rule_of(name, case.release):
        return ok(f"{name} captures aux hidden states in {case.release}.")
    if case.delivery == "patch" and name == "KimiK25ForConditionalGeneration" and case.release.startswith("0.5.9"):
        return ok(f"draftwire's patch gives {name} what EAGLE workers call.")
    if name in SETTERS:
        return error(
            f"{name} cannot capture aux hidden states in SGLang {case.release}.", said,
            remedy=f"Serve with SGLang {SETTERS[name][0][0]} or later.",
        )  # fmt: skip
    return warning(
        f"{name} is not among the classes that were seen to capture aux hidden states.", said,
        remedy="Look for set_eagle3_layers_to_capture in its model file before a long launch.",
    )  # fmt: skip

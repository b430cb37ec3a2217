"""SGLang will load draftwire's plugin.

What: SGLANG_PLUGINS, SGLang's allow-list, and DRAFTWIRE, in this environment; the release.

Why: a list without `draftwire` leaves the overlay out without a word. A draft with a -1 then stops the stock server, a
converted one that needs the overlay is refused by its marked norm; all else is served by SGLang's own rule.

Example: `SGLANG_PLUGINS=my_platform` in a container image.

Remedy: add `draftwire` to SGLANG_PLUGINS, unset DRAFTWIRE.

Reports:
- https://github.com/sgl-project/sglang/pull/21388
"""

from draftwire.case import Case
from draftwire.delivery import OFF, is_listed
from draftwire.finding import Finding, error, ok, warning

SWITCH = ("", "on", "1", "true", "off", "0", "false")


def check(case: Case) -> Finding:
    listed, off = case.environment.get("SGLANG_PLUGINS", ""), case.environment.get(OFF, "")
    if not case.has("plugins"):
        return ok(f"SGLang {case.release} has no plugins.", f"served {case.delivery}")
    if not is_listed(case.environment):
        return warning(
            "SGLANG_PLUGINS leaves draftwire out: the server is stock.", f"SGLANG_PLUGINS={listed}",
            remedy=f"Say SGLANG_PLUGINS={listed},draftwire.",
        )  # fmt: skip
    if off.strip().lower() not in SWITCH:
        return error(
            f"draftwire does not know this value of {OFF} and stops the server.", f"{OFF}={off}",
            remedy=f"Unset {OFF}, or write off.",
        )  # fmt: skip
    if off.strip().lower() in ("off", "0", "false"):
        return warning("draftwire is turned off: the server is stock.", f"{OFF}={off}", remedy=f"Unset {OFF}.")
    return ok("Nothing keeps draftwire out.", *([f"SGLANG_PLUGINS={listed}"] if listed else []))

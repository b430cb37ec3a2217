"""The release is one that draftwire and these checks know.

What: the SGLang release against the range that the overlay is tested with and the releases that were read for the
tables here (0.5.8 to 0.5.23).

Why: releases change what ids mean without a message. The overlay refuses a release that it was not tested with.

Example: SGLang 0.5.24 beside a draftwire of today.

Remedy: a newer draftwire; DRAFTWIRE_UNTESTED=1 to try.

Reports:
- https://github.com/sgl-project/sglang/pull/25454
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, warning
from draftwire.plugin import known, supported
from draftwire.release import RELEASES, is_known


def check(case: Case) -> Finding:
    if case.delivery == "overlay" and not known(case.release):
        if case.environment.get("DRAFTWIRE_UNTESTED") == "1":
            return warning(f"The overlay is not tested with {case.release}.", "DRAFTWIRE_UNTESTED=1",
                           remedy=f"Serve with SGLang {supported()}.")  # fmt: skip
        return error(
            f"The overlay refuses SGLang {case.release}.", f"tested with {supported()}",
            remedy="Install one of these, or a newer draftwire.",
        )  # fmt: skip
    if not is_known(case.release):
        return warning(
            f"What is said of SGLang {case.release} was read in other releases.", f"{RELEASES[0]} to {RELEASES[-1]}",
            remedy="Take a newer draftwire, and try one request before a long launch.",
        )  # fmt: skip
    return ok(f"SGLang {case.release} was read.", f"served {case.delivery}")

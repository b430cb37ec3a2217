"""The config's ids are set before decode graphs are captured.

What: the release, `--disable-cuda-graph`, and whether the ids differ from the release's default.

Why: until 0.5.10.post1 the graph runner set the default ids just before it captured, so prefill used the config's
layers and every decode step the default ones: acceptance as with the default, whatever the config says.

Example: a Kimi-K2.5 draft with ids [-1, 2, 30], or any custom list, on SGLang 0.5.10.

Remedy: SGLang 0.5.11 or later; draftwire's patch for an older one; or `--disable-cuda-graph`, slowly.

Reports:
- https://github.com/sgl-project/sglang/pull/22836
- https://github.com/sgl-project/sglang/pull/9076
"""

from draftwire.capture_rules import default_boundaries
from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped
from draftwire.reading import show


def check(case: Case) -> Finding:
    if case.has("ids_before_graphs") or case.delivery == "patch":
        return ok("Ids are in force when graphs are captured.")
    if case.target is None:
        return skipped("the target was not named")
    if case.flags is not None and case.flags.said("disable-cuda-graph"):
        return ok("There are no graphs.", "--disable-cuda-graph")
    default = tuple(default_boundaries(case.target.architecture, case.target.num_layers))
    if case.reading.wanted in (None, default):
        return ok("The draft wants the default ids.")
    return error(
        f"Decode graphs would capture the default {show(default)}, not {show(case.reading.wanted)}.",
        f"SGLang {case.release} sets default ids just before it captures graphs",
        remedy="Serve with 0.5.11 or later, or apply draftwire's patch.",
    )

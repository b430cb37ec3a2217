"""Prefill and decode servers that are apart hand over a state of the draft's width.

What: `--disaggregation-mode`, the draft's hidden size and the target's.

Why: the hand-over carries one state of the draft for each request. Until 0.5.14 its buffer has the target's width, so
a draft of another width crashes. Before 0.5.8 three captured states in a buffer for one did. Both servers need the
same draft flags: the form of the hand-over follows from them.

Example: a draft of 2,048 for a target of 7,168 on SGLang 0.5.14 with `--disaggregation-mode prefill`.

Remedy: SGLang 0.5.15 or later, or a draft of the target's width.

Reports:
- https://github.com/sgl-project/sglang/issues/10059
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning


def check(case: Case) -> Finding:
    if case.flags is None:
        return skipped("no launch flags were named")
    mode = case.flags.text("disaggregation-mode", "null")
    if mode not in ("prefill", "decode"):
        return ok("Prefill and decode are one server.")
    hidden, width = case.size("hidden_size"), case.captured_width
    seen = f"--disaggregation-mode {mode}, draft {hidden}, target {width}"
    if not case.has("draft_width_sent") and hidden != width:
        return error(
            f"SGLang {case.release} hands over states of the target's width.", seen,
            remedy="Serve with 0.5.15 or later.",
        )  # fmt: skip
    other = "decode" if mode == "prefill" else "prefill"
    return warning(
        f"The {other} server was not looked at, and must be told the same draft.", seen,
        remedy=f"Run the doctor with the {other} server's flags too.",
    )  # fmt: skip

"""Captured layers do not run in two overlapping batches.

What: `--enable-two-batch-overlap` against the first boundary past the target's dense layers.

Why: overlapped layers run outside of the loop that captures. None of the states past the dense layers is kept: up to
0.5.16 in silence until a matrix does not fit, since 0.5.17 with "captured 0 of 3 aux hidden states".

Example: DeepSeek-V2-Lite with an EAGLE-3 draft and `--enable-two-batch-overlap`.

Remedy: leave the flag out.

Reports:
- https://github.com/sgl-project/sglang/pull/32680
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped


def check(case: Case) -> Finding:
    flag = "enable-two-batch-overlap"
    if case.flags is None:
        return skipped("no launch flags were named")
    if not case.flags.said(flag) or not case.uses_states:
        return ok("No two-batch overlap.")
    dense = case.target.text.get("first_k_dense_replace", 0) if case.target else 0
    dense = dense if type(dense) is int else 0
    beyond = [b for b in case.reading.wanted or () if b >= dense]
    if case.reading.wanted is not None and not beyond:
        return ok("All states come from dense layers, which do not overlap.", f"first_k_dense_replace {dense}")
    return error(
        "Layers that overlap are not captured.", f"--{flag} in {case.flags.where(flag)}",
        f"boundaries {beyond or 'of unknown place'}, overlapped from layer {dense} on", remedy="Leave the flag out.",
    )  # fmt: skip

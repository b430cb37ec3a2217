"""A captured state is the whole sum over tensor-parallel ranks.

What: the release and the flags of tensor parallelism, of all-reduce fusion and of DP attention, on DeepSeek and Kimi.

Why: up to 0.5.13.post1 the loop captures before a fused all-reduce has run, so each rank keeps its own partial sum.
The fusion turns itself on for one node of Hopper or Blackwell GPUs, which is an ordinary 8-GPU server. Read in the
source, not measured. A patched release captures the embedding ahead of its reduction where the input is scattered, and
refuses.

Example: Kimi-K2.5 on 8 x H200 with SGLang 0.5.12 and no flag about fusion.

Remedy: SGLang 0.5.14 or later, draftwire's patch, or `--enforce-disable-flashinfer-allreduce-fusion`.

Reports:
- https://github.com/sgl-project/sglang/pull/20492
- https://github.com/sgl-project/sglang/pull/20701
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY

SCATTERED = "enable-attn-tp-input-scattered"
OFF = "enforce-disable-flashinfer-allreduce-fusion"


def check(case: Case) -> Finding:
    if case.delivery == "patch" and not case.has("layer_captures") and 0 in (case.reading.wanted or ()):
        if case.flags is None:
            return skipped("no launch flags were named")
        if case.flags.said(SCATTERED):
            return error(
                "The embedding would be captured before it is reduced; the patch refuses.", f"--{SCATTERED}",
                remedy="Leave the flag out.",
            )  # fmt: skip
    if case.has("layer_captures") or case.delivery == "patch":
        return ok("A layer captures after its all-reduce.")
    if case.target is None or case.flags is None:
        return skipped("the target or the launch flags were not named")
    ranks = case.flags.number("tp-size") or 1
    if case.target.architecture not in DEEPSEEK_FAMILY or ranks == 1:
        return ok("No fused all-reduce before a capture.", f"--tp-size {ranks}")
    if case.flags.said(OFF) or case.flags.said("enable-dp-attention"):
        return ok("The fusion is off.", *(f"--{n}" for n in (OFF, "enable-dp-attention") if case.flags.said(n)))
    return warning(
        "On Hopper and Blackwell each rank may capture its own partial sum.",
        f"--tp-size {ranks} on SGLang {case.release}",
        remedy=f"Serve with 0.5.14 or later, apply draftwire's patch, or add --{OFF}.",
    )

"""A captured state is the whole sum over tensor-parallel ranks, and of the rank's own tokens.

What: the release and the flags of tensor parallelism, of all-reduce fusion, of DP attention and of the experts'
all-to-all, on DeepSeek and Kimi.

Why: up to 0.5.13.post1 the loop captures before a fused all-reduce has run, so each rank keeps its own partial sum.
The fusion turns itself on for one node of Hopper or Blackwell GPUs, which is an ordinary 8-GPU server. Read in the
source, not measured. A patched release captures the embedding ahead of its reduction where the input is scattered, and
refuses. Before 0.5.10, with DP attention and an all-to-all between experts, a state is gathered from every rank and not
from those that share its tokens: a crash, or other requests' states.

Example: Kimi-K2.5 on 8 x H200 with SGLang 0.5.12 and no flag about fusion.

Remedy: SGLang 0.5.14 or later, draftwire's patch, or `--enforce-disable-flashinfer-allreduce-fusion`; for DP attention
with an all-to-all 0.5.10 or later.

Reports:
- https://github.com/sgl-project/sglang/pull/20492
- https://github.com/sgl-project/sglang/pull/20701
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY

SCATTERED = "enable-attn-tp-input-scattered"
# Those after which the loop of these releases gathers.
GATHERED = ("deepep", "mooncake")
DP, ALL_TO_ALL = "enable-dp-attention", "moe-a2a-backend"
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
    if wrong := _gathered(case):
        return wrong
    if case.has("layer_captures") or case.delivery == "patch":
        return ok("A layer captures after its all-reduce.")
    if case.target is None or case.flags is None:
        return skipped("the target or the launch flags were not named")
    ranks = case.flags.number("tp-size") or 1
    if case.target.architecture not in DEEPSEEK_FAMILY or ranks == 1:
        return ok("No fused all-reduce before a capture.", f"--tp-size {ranks}")
    if case.flags.said(OFF) or case.flags.said(DP):
        return ok("The fusion is off.", *(f"--{n}" for n in (OFF, DP) if case.flags.said(n)))
    return warning(
        "On Hopper and Blackwell each rank may capture its own partial sum.",
        f"--tp-size {ranks} on SGLang {case.release}",
        remedy=f"Serve with 0.5.14 or later, apply draftwire's patch, or add --{OFF}.",
    )


def _gathered(case: Case) -> Finding | None:
    if case.has("states_gathered_by_group") or case.flags is None or case.target is None:
        return None
    backend = case.flags.text(ALL_TO_ALL)
    if backend not in GATHERED or not case.flags.said(DP) or case.target.architecture not in DEEPSEEK_FAMILY:
        return None
    return error(
        "A captured state would be gathered from every rank, not from those that share its tokens.",
        f"--{DP} and --{ALL_TO_ALL} {backend} on SGLang {case.release}", remedy="Serve with 0.5.10 or later.",
    )  # fmt: skip

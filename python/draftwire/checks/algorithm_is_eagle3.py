"""An EAGLE-3 draft is served with `--speculative-algorithm EAGLE3`.

What: the launch flags beside the draft. EAGLE and NEXTN are for drafts that read one hidden state.

Why: with EAGLE the target captures no aux hidden states. The draft then gets states that are as wide as its own, by
which SGLang tells that `fc` is not to be run, and skips it in silence: acceptance length 1.00 or little more, no error.

Example: `--speculative-algorithm EAGLE --speculative-draft-model-path kimi-k2.5-eagle3`.

Remedy: `--speculative-algorithm EAGLE3`. draftwire's overlay refuses EAGLE for a draft whose class is an EAGLE-3 one.

Reports:
- https://github.com/sgl-project/sglang/pull/21272
- https://github.com/sgl-project/sglang/issues/25673
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped


def check(case: Case) -> Finding:
    if case.flags is None:
        return skipped("no launch flags were named")
    name = "speculative-algorithm"
    if not case.flags.said(name):
        return error(
            "The launch flags do not turn the draft on.", f"no --{name}", remedy=f"Add --{name} EAGLE3.",
        )  # fmt: skip
    algorithm = case.flags.text(name)
    if algorithm.upper() == "EAGLE3":
        return ok("The launch asks for EAGLE3.")
    return error(
        f"{algorithm} captures no aux hidden states: the draft's fc would be skipped or the draft not be used.",
        f"--{name} {algorithm} in {case.flags.where(name)}",
        remedy=f"Say --{name} EAGLE3.",
    )

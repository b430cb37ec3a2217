"""The draft is not built with a quantization that its weights do not have.

What: `--quantization` without `--speculative-draft-model-quantization`, and a draft without a quantization_config.

Why: the draft inherits the target's flag. A draft in bfloat16 is then built with packed weights that it does not have,
and the start fails, or it is quantised once more on the fly.

Example: `--quantization awq` for the target, a draft in bfloat16.

Remedy: `--speculative-draft-model-quantization unquant`.

Reports:
- https://github.com/sgl-project/sglang/pull/28196
- https://github.com/sgl-project/sglang/pull/22588
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning

OWN, TARGETS = "speculative-draft-model-quantization", "quantization"
# Built from full-precision weights while they are loaded: the draft starts, in fewer bits.
ON_THE_FLY = ("fp8", "w8a8_fp8", "mxfp4", "mxfp8", "bitsandbytes", "nvfp4_online", "quark_mxfp4")


def check(case: Case) -> Finding:
    if case.flags is None:
        return skipped("no launch flags were named")
    mine = case.draft.config.get("quantization_config")
    own, targets = case.flags.text(OWN), case.flags.text(TARGETS)
    if not targets or own or mine:
        why = f"--{OWN} {own}" if own else "a quantization_config of its own" if mine else f"no --{TARGETS}"
        return ok("The draft does not take over the target's quantization.", why)
    seen = f"--{TARGETS} {targets} in {case.flags.where(TARGETS)}, no quantization_config in the draft"
    remedy = f"Add --{OWN} unquant."
    if targets.lower() in ON_THE_FLY:
        return warning(f"The draft would be quantised to {targets} while it is loaded.", seen, remedy=remedy)
    return error(f"The draft would be built as {targets}, which its weights are not.", seen, remedy=remedy)

"""Acceptance is the draft's own.

What: SGLANG_SIMULATE_ACC_LEN and its like in this environment.

Why: with it SGLang accepts as many draft tokens as it is told to, and puts out text that the target did not choose.
Figures that were made so are not of a draft.

Example: `SGLANG_SIMULATE_ACC_LEN=3` left over from a benchmark of kernels.

Remedy: unset it.

Reports:
- https://github.com/NVIDIA/TensorRT-LLM/pull/18905
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok


def check(case: Case) -> Finding:
    value = case.environment.get("SGLANG_SIMULATE_ACC_LEN", "")
    try:
        simulated = float(value or -1) > 0
    except ValueError:
        simulated = True
    if simulated:
        return error(
            "SGLang would simulate acceptance.", f"SGLANG_SIMULATE_ACC_LEN={value}", remedy="Unset it.",
        )  # fmt: skip
    return ok("Acceptance is not simulated.")

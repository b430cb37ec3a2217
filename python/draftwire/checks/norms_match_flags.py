"""A norm's tensor is there exactly when the config's flag says so.

What: `input_norm.weight` and `norm_before_fc`; `fc_norm.N.weight`, one for each state, and `fc_norm` (once
`use_aux_norm`); q and k norms and Qwen3's layers.

Why: a flag without its tensor leaves the norm at ones, or at random; a tensor without its flag is skipped in silence.
Either way the draft runs another network than was trained.

Example: `fc_norm.0.weight` in the file, and no `fc_norm` in the config that a converter wrote.

Remedy: set the flag that was trained with, or export again.

Reports:
- https://github.com/vllm-project/vllm/pull/38111
- https://github.com/vllm-project/vllm/pull/42143
- https://github.com/vllm-project/vllm/pull/46488
- https://github.com/sgl-project/sglang/pull/32334
"""

import re

from draftwire.case import Case
from draftwire.finding import Finding, error, ok


def check(case: Case) -> list[Finding]:
    names = case.tensors
    wants_qk = case.layer.get("model_type") == "qwen3" or "qk_norm" in case.requires
    per_state = sorted(n for n in names if re.fullmatch(r"fc_norm\.\d+\.weight", n))
    pairs = [
        ("norm_before_fc", case.flag("norm_before_fc"), [n for n in names if n == "input_norm.weight"],
         "input_norm.weight"),
        ("fc_norm", case.flag("fc_norm") or case.flag("use_aux_norm"), per_state, "fc_norm.N.weight"),
        ("qk_norm", wants_qk, [n for n in names if n.endswith(("self_attn.q_norm.weight", "self_attn.k_norm.weight"))],
         "q_norm.weight and k_norm.weight"),
    ]  # fmt: skip
    findings = []
    for flag, wanted, found, tensor in pairs:
        if wanted and not found:
            findings.append(
                error(
                    f"The config wants {flag}, but there is no {tensor}.", f"{flag} in config.json",
                    remedy="Export the draft again, or clear the flag if it was trained without.",
                )
            )  # fmt: skip
        elif found and not wanted:
            findings.append(
                error(
                    f"{found[0]} is there, but the config does not say {flag}.", f"{len(found)} tensor(s)",
                    remedy=f"Say what it was trained with: {flag} in config.json, or `draftwire convert`.",
                )
            )  # fmt: skip
    if case.flag("norm_before_fc") and (case.flag("fc_norm") or case.flag("use_aux_norm")):
        findings.append(
            error("norm_before_fc and fc_norm exclude each other.", "config.json", remedy="Keep the trained one.")
        )
    return findings or [ok("Norms and flags agree.", *(flag for flag, wanted, *_ in pairs if wanted))]

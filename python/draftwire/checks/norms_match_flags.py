"""A norm's tensor is there exactly when the config's flag says so.

What: `input_norm.weight` and `norm_before_fc`; `fc_norm.N.weight`, one for each state, and `fc_norm` (once
`use_aux_norm`); q and k norms and Qwen3's layers. Of names that the loader drops (see tensors_known) it is as of none.

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
from draftwire.checks.fc_width import states
from draftwire.finding import Finding, error, ok
from draftwire.switches import QK_NORMS
from draftwire.tensor_names import rename


def check(case: Case) -> list[Finding]:
    placed = {place for place in case.places.values() if place}
    layers = range(min(case.size("num_hidden_layers") or 1, 100))
    per_state = case.flag("fc_norm") or case.flag("use_aux_norm")
    # What a flag asks for, and what of its kind there is.
    kinds = [
        ("norm_before_fc", case.flag("norm_before_fc"), ["input_norm.weight"], r"input_norm\.weight"),
        ("fc_norm", per_state, [f"fc_norm.{i}.weight" for i in range(states(case))], r"fc_norm\.\d+\.weight"),
        ("qk_norm", case.wants_qk_norm, [f"layers.{i}.{norm}" for i in layers for norm in QK_NORMS],
         r"layers\.\d+\.self_attn\.[qk]_norm\.weight"),
    ]  # fmt: skip
    findings = []
    for flag, wanted, asked, pattern in kinds:
        found = sorted(name for name in case.tensors if re.fullmatch(pattern, name))
        missing = [name for name in asked if name not in placed]
        if wanted and missing:
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            findings.append(
                error(
                    f"The config wants {flag}, but SGLang finds no {missing[0]}{more}.", f"{flag} in config.json",
                    *_dropped(case, missing),
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
    if case.flag("norm_before_fc") and per_state:
        findings.append(
            error("norm_before_fc and fc_norm exclude each other.", "config.json", remedy="Keep the trained one.")
        )
    return findings or [ok("Norms and flags agree.", *(flag for flag, wanted, *_ in kinds if wanted))]


def _dropped(case: Case, missing: list[str]) -> list[str]:
    """Of those that are missing, the first that is in the file under a name that the loader drops (tensors_known)."""
    names = [name for name, place in case.places.items() if place is None and rename(name) in missing]
    return [f"{names[0]} is dropped for its spelling: run `draftwire convert`"] if names else []

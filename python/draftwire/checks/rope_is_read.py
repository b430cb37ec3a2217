"""The draft's RoPE base lies where the release reads it, and both places say the same.

What: `rope_theta` and `rope_scaling` (transformers 4) and `rope_parameters` (transformers 5) in the draft's config.

Why: until 0.5.9 SGLang reads only the older keys: a config saved with transformers 5 falls back to a base of 10,000 in
silence. Later releases read `rope_parameters` and ignore a `rope_theta` beside it.

Example: `"rope_parameters": {"rope_type": "default", "rope_theta": 1000000}` on SGLang 0.5.9.

Remedy: write `rope_theta` and `rope_scaling`, in their old places, as `draftwire convert` does.

Reports:
- https://github.com/sgl-project/SpecForge/issues/265
- https://github.com/sgl-project/SpecForge/pull/702
- https://github.com/NVIDIA-NeMo/Automodel/pull/2920
- https://github.com/wejoncy/sfllm/pull/32
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok
from draftwire.rope import read_rope


def check(case: Case) -> Finding:
    table, theta = case.layer.get("rope_parameters"), case.layer.get("rope_theta")
    rope = read_rope(case.layer)
    if rope is None:
        return error(
            "The RoPE block is no table with a positive rope_theta.", "config.json", remedy="Write the trained block.",
        )  # fmt: skip
    seen = f"base {rope.theta:g}, {rope.kind} in {rope.where}"
    nested = table.get("rope_theta") if isinstance(table, dict) else None
    if nested is not None and theta is not None and nested != theta:
        return error(
            "Two RoPE bases are written.", f"rope_theta {theta}, rope_parameters.rope_theta {nested}",
            remedy="Keep the one that the draft was trained with, in both places.",
        )  # fmt: skip
    if isinstance(table, dict) and not case.has("rope_parameters"):
        lost = nested not in (None, theta) and nested != 10000
        if lost or (rope.kind != "default" and not case.layer.get("rope_scaling")):
            return error(
                f"SGLang {case.release} does not read rope_parameters.", seen,
                remedy="Write rope_theta and rope_scaling, or run `draftwire convert`.",
            )  # fmt: skip
    return ok("RoPE is read as written.", seen)

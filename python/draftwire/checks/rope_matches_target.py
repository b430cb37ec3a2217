"""The draft turns positions as its target does, or was trained otherwise.

What: RoPE base, type and factor of the draft against the target's, and what else shapes a scaled one's frequencies.

Why: trainers copy the target's block, so a difference is often a key that was lost on the way: fine at short
positions, worse with each token. A converter that drops `rope_scaling` shows at long contexts only. It is a warning, as
a draft may really have been trained with another base; one measured at 10,000 was better than at its config's 1e6.

Example: target base 50,000 with YaRN of factor 64, draft base 10,000 and no scaling.

Remedy: compare with the trainer's config; `rope_theta` and `rope_scaling` as it was trained.

Reports:
- https://github.com/sgl-project/SpecForge/issues/265
- https://github.com/vllm-project/speculators/pull/574
- https://github.com/vllm-project/vllm-ascend/issues/6612
- https://github.com/wejoncy/sfllm/pull/32
"""

from typing import Any

from draftwire.case import Case
from draftwire.finding import Finding, ok, skipped, warning
from draftwire.rope import Rope, read_rope

# By key the value that SGLang takes where there is none.
SHAPE = {
    "original_max_position_embeddings": None, "beta_fast": 32, "beta_slow": 1, "low_freq_factor": None,
    "high_freq_factor": None,
}  # fmt: skip


def check(case: Case) -> Finding:
    if case.target is None:
        return skipped("the target was not named")
    mine, theirs = read_rope(case.layer), read_rope(case.target.text)
    if mine is None or theirs is None:
        return skipped("a RoPE block has no form that is known here")
    if not theirs.written and _scaling(mine) == _scaling(theirs):
        return skipped("the target's config writes no RoPE base, and its class's own is not known here")
    differing = [key for key in SHAPE if _shape(mine, key) != _shape(theirs, key)]
    if (mine.theta, *_scaling(mine)) == (theirs.theta, *_scaling(theirs)):
        if not differing:
            return ok("RoPE is the target's.", _say(mine))
        key = differing[0]
        return warning(
            f"RoPE differs from the target's in {key}.",
            f"draft: {_shape(mine, key)}", f"target: {_shape(theirs, key)}",
            remedy="Write what the draft was trained with, if this is not it.",
        )  # fmt: skip
    return warning(
        "RoPE differs from the target's.", f"draft: {_say(mine)}", f"target: {_say(theirs)}",
        remedy="Write what the draft was trained with, if this is not it.",
    )  # fmt: skip


def _scaling(rope: Rope) -> tuple[str, float]:
    """Factor 1 of any type is no scaling."""
    return ("default", 1.0) if rope.kind == "default" or rope.factor == 1.0 else (rope.kind, rope.factor)


def _shape(rope: Rope, key: str) -> Any:
    """A key that shapes the frequencies of a scaled RoPE."""
    return None if _scaling(rope) == ("default", 1.0) else rope.block.get(key, SHAPE[key])


def _say(rope: Rope) -> str:
    base = f"base {rope.theta:g}" + ("" if rope.written else " (none written)")
    return f"{base}, {rope.kind}" + (f" x {rope.factor:g}" if rope.kind != "default" else "")

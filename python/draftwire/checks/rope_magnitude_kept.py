"""YaRN multiplies the draft's cosines by the number it was trained with.

What: type, factor, `mscale`, `mscale_all_dim`, `attention_factor` and `attn_factor` of a Llama-type draft, by release.

Why: until 0.5.15.post1 SGLang drops mscale and mscale_all_dim for such a draft and multiplies by 0.1 ln(factor) + 1:
1.416 at factor 64, which doubles the attention scores, where trainers that follow Hugging Face multiply by 1. Weak at
every length. No release reads `attention_factor`.

Example: the block of Kimi-K2.5 (yarn, factor 64, mscale 1, mscale_all_dim 1) in a draft on SGLang 0.5.15.

Remedy: `attn_factor`, by which every release multiplies, as `draftwire convert` writes it; or SGLang 0.5.16.

Reports: none; found by reading the releases.
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped
from draftwire.rope import read_rope, trained_magnitude, yarn_magnitude


def check(case: Case) -> Finding:
    rope = read_rope(case.layer)
    if rope is None:
        return skipped("the RoPE block has no form that is known here")
    if case.is_mla:
        return ok("An MLA draft takes the target's own RoPE.")
    if rope.kind != "yarn":
        return ok(f"RoPE of type {rope.kind} has no magnitude.")
    served = yarn_magnitude(rope, reads_mscale=case.has("yarn_mscale"))
    # attn_factor is SGLang's own key: with it the config was written for SGLang, and says what it says.
    trained = served if "attn_factor" in rope.block else trained_magnitude(rope)
    seen = f"yarn x {rope.factor:g}, mscale {rope.block.get('mscale')}/{rope.block.get('mscale_all_dim')}"
    if abs(served - trained) < 1e-3:
        return ok(f"Cosines are multiplied by {served:.3f}.", seen)
    factor = trained / yarn_magnitude(rope._replace(block={"factor": rope.factor}), reads_mscale=False)
    return error(
        f"SGLang {case.release} multiplies cosines by {served:.3f}, the trainer by {trained:.3f}.", seen,
        remedy=f"Write attn_factor {factor:.6g} in place of the mscale keys, or run `draftwire convert`.",
    )  # fmt: skip

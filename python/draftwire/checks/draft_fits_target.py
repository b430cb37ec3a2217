"""The draft was made for this target.

What: `target_hidden_size`, `vocab_size` and the draft's hidden size against the target's config.

Why: a token id means another word to a target with another vocabulary, and states of another width do not fit; where
the draft is narrower or wider than the target, `target_hidden_size` must say so, or buffers are sized by the draft.

Example: a draft of Kimi-K2 (vocabulary 163,840) beside DeepSeek-V3 (129,280).

Remedy: name the draft's own target, or add `target_hidden_size`.

Reports:
- https://github.com/sgl-project/sglang/pull/8163
- https://github.com/sgl-project/sglang/pull/4716
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped


def check(case: Case) -> Finding:
    if case.target is None:
        return skipped("the target was not named")
    if case.target.vocab_size is not None and case.vocab_size != case.target.vocab_size:
        return error(
            "Draft and target have vocabularies of different size.",
            f"vocab_size {case.layer.get('vocab_size')!r}, the target's {case.target.vocab_size}",
            remedy="Name the target that the draft was trained for.",
        )
    said, hidden = case.draft.config.get("target_hidden_size"), case.size("hidden_size")
    if said is not None and said != case.target.hidden_size:
        return error(
            "target_hidden_size is not this target's.", f"{said!r}, the target's hidden_size {case.target.hidden_size}",
            remedy="Name the target that the draft was trained for.",
        )  # fmt: skip
    if said is None and hidden != case.target.hidden_size:
        return error(
            "The draft has another width than the target and does not say the target's.",
            f"hidden_size {hidden}, the target's {case.target.hidden_size}",
            remedy=f"Write target_hidden_size {case.target.hidden_size} into the draft's config.",
        )
    if case.target.vocab_size is None:
        return skipped("the target's config leaves its vocab_size to its class; the width is the target's")
    return ok("Vocabulary and width are the target's.", f"vocab_size {case.vocab_size}, hidden_size {hidden}")

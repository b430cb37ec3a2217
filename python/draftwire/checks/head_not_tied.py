"""A draft with a reduced vocabulary has a head of its own.

What: `tie_word_embeddings` beside `draft_vocab_size` below the target's vocabulary.

Why: tied, the embedding is the head: a row for every token of the target, whose numbers are then taken for draft ids
and looked up in a map that is too short.

Example: `"tie_word_embeddings": true, "draft_vocab_size": 32000, "vocab_size": 163840`.

Remedy: `"tie_word_embeddings": false`, with the draft's own `lm_head.weight`.

Reports:
- https://github.com/Tencent/AngelSlim/issues/16
- https://github.com/wejoncy/sfllm/pull/32
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok


def check(case: Case) -> Finding:
    sizes = f"draft_vocab_size {case.draft_vocab_size}, vocab_size {case.vocab_size}"
    # speculators trains a head whatever the layer's config says.
    tied = case.layer.get("tie_word_embeddings") and not case.is_nested
    if tied and case.draft_vocab_size != case.vocab_size:
        return error(
            "The head is tied to an embedding of another vocabulary.", "tie_word_embeddings true", sizes,
            remedy="Write tie_word_embeddings false; the draft needs an lm_head of its own.",
        )  # fmt: skip
    return ok("The head is tied to the whole vocabulary." if tied else "The head is the draft's own.", sizes)

"""The map from draft ids to the target's ids is complete, in range, and made of offsets.

What: `d2t` (one offset for each draft token: target id = draft id + d2t[draft id]) and `t2d` (one bool for each token
of the target): sizes, ranges, doubles, whether they agree, and whether d2t holds target ids instead of offsets.

Why: the map is applied without a look. A stale one, or one of ids where offsets are meant, proposes wrong words, with
a perfect draft: acceptance length near 1.00. An id out of range crashes a kernel.

Example: `d2t` saved as [0, 1, 2, 5, ...] target ids: token 3 becomes 3 + 5 = 8.

Remedy: export the draft with the map it was trained with; `draftwire convert` turns ids into offsets where t2d proves
that they are ids.

Reports:
- https://github.com/sgl-project/SpecForge/pull/602
- https://github.com/vllm-project/speculators/pull/1081
- https://github.com/vllm-project/vllm/issues/50158
"""

from array import array
from itertools import pairwise

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped
from draftwire.rows import read_integers

AGAIN = "Export the draft with the vocabulary map that it was trained with."
OFFSETS = "Write offsets (target id - draft id), or export the draft with its t2d, which decides."
LARGEST, SHORT = 2**24, 16


def check(case: Case) -> Finding:
    d2t, t2d, size, whole = case.tensor("d2t"), case.tensor("t2d"), case.draft_vocab_size, case.vocab_size
    if size is None or whole is None:
        return skipped("the config says no usable vocab_size")
    sizes = f"draft_vocab_size {size} of {whole}"
    if size > whole:
        return error("The draft knows more tokens than the target.", sizes, remedy=AGAIN)
    if d2t is None:
        if size == whole:
            return ok("The draft has the whole vocabulary and needs no map.", sizes)
        return error("A reduced vocabulary has no map: draft ids would be taken for target ids.", sizes, remedy=AGAIN)
    stored = f"d2t {d2t.dtype} {list(d2t.shape)}"
    if d2t.dtype not in ("I64", "I32") or d2t.shape != (size,) or size > LARGEST:
        return error(f"d2t should hold {size} whole numbers.", stored, sizes, remedy=AGAIN)
    values = read_integers(d2t)
    ids = [i + value for i, value in enumerate(values)]
    hot = None
    if t2d is not None:
        if t2d.dtype not in ("BOOL", "U8") or t2d.shape != (whole,):
            return error(f"t2d should hold {whole} bools.", f"t2d {t2d.dtype} {list(t2d.shape)}", remedy=AGAIN)
        hot = [token for token, kept in enumerate(t2d.read()) if kept]
        if len(hot) != size:
            return error(f"t2d keeps {len(hot)} tokens, the draft knows {size}.", sizes, remedy=AGAIN)
    return _compare(values, ids, hot, whole)


def _compare(values: array, ids: list[int], hot: list[int] | None, whole: int) -> Finding:
    seen = f"d2t {list(values[:4])}.. gives target ids {ids[:4]}.."
    if list(values) == hot and ids != hot:
        return error("d2t holds target ids, and SGLang reads offsets.", seen, remedy="Run `draftwire convert`.")
    if min(ids) < 0 or max(ids) >= whole:
        direct = min(values) >= 0 and max(values) < whole and len(set(values)) == len(values)
        if direct:
            return error("d2t holds target ids, and SGLang reads offsets.", seen, remedy="Run `draftwire convert`.")
        return error(f"d2t leaves the target's {whole} tokens.", seen, remedy=AGAIN)
    if hot is None and len(values) >= SHORT and all(a < b for a, b in pairwise(values)):
        # Offsets grow from one token to the next only where tokens between them are left out.
        return error("d2t looks like target ids, for no two of its tokens are neighbours.", seen, remedy=OFFSETS)
    if len(set(ids)) < len(ids):
        return error("d2t gives the same target id to two draft ids.", seen, remedy=AGAIN)
    if hot is not None and ids != hot:
        return error("d2t and t2d name different tokens.", seen, f"t2d keeps {hot[:4]}..", remedy=AGAIN)
    return ok(f"{len(ids)} draft tokens map into {whole}.", seen)

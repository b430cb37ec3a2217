"""The draft's embedding, where it has one, is the target's.

What: some rows of `embed_tokens.weight` of both, read from disk; their cosine and the share of equal ones.

Why: SGLang puts the target's embedding into a draft of the same width and never looks at the draft's. Random rows, a
known bug of an exporter, are thus harmless here and ruin the draft in vLLM; rows that were trained are lost here. A
target whose embedding was rotated by its quantiser does not fit a draft that was trained on the plain one: its rows are
as long as the draft's and point elsewhere.

Example: TorchSpec exports with random rows: poor in vLLM, fine in SGLang.

Remedy: copy the target's rows into the draft; for an embedding that was trained, `draftwire convert` and the overlay;
for a rotated target, its plain weights.

Reports:
- https://github.com/lightseekorg/TorchSpec/issues/38
- https://github.com/vllm-project/vllm/pull/27737
- https://github.com/vllm-project/vllm-ascend/pull/7038
"""

import math

from draftwire.case import Case
from draftwire.finding import UNREPORTED, Finding, error, ok, skipped, warning
from draftwire.headers import Stored
from draftwire.rows import read_row

# A whole row is read where rotations are told, and none of a header that lies of its width.
ROWS, COLUMNS, WIDEST = 16, 256, 2**16
# Lengths of rows that are no rotation differ by more: sqrt(1 / hidden size) of them even where both are random.
ROTATED = 0.005


def check(case: Case) -> Finding:
    mine = case.tensor("embed_tokens.weight")
    if mine is None:
        return ok("The draft has no embedding; SGLang takes the target's.")
    if case.target is None or case.target.embedding is None:
        return skipped("the target's embedding is not at hand")
    theirs = case.target.embedding
    if mine.shape != theirs.shape:
        return skipped(f"the draft's embedding is {list(mine.shape)}, the target's {list(theirs.shape)}")
    rows = sorted({int((i + 0.5) * mine.shape[0] / ROWS) for i in range(ROWS)})
    cosines = []
    for row in rows:
        a, b = read_row(mine, row, COLUMNS), read_row(theirs, row, COLUMNS)
        if a is None or b is None:
            return skipped(f"rows of {mine.dtype} and {theirs.dtype} are not compared")
        if not all(map(math.isfinite, (*a, *b))):
            return warning(
                "The embedding of draft or target holds values that are no numbers.", f"row {row}",
                remedy="Export the draft again, and look at the target's own weights.", report=UNREPORTED,
            )  # fmt: skip
        if (cosine := _cosine(a, b)) is not None:
            cosines.append(cosine)
    if not cosines:
        return skipped("the rows that were read are all zero")
    mean = sum(cosines) / len(cosines)
    seen = f"mean cosine {mean:.3f} over {len(cosines)} rows"
    trained = case.flag("embed_requires_grad") or "own_embedding" in case.requires
    if trained:
        if case.delivery == "overlay" and not case.is_nested:
            return ok("The draft's embedding was trained, and the overlay keeps it.", seen)
        return error(
            "The draft's embedding was trained, and SGLang would replace it by the target's.", seen,
            remedy="Run `draftwire convert` and serve with draftwire's overlay.",
        )  # fmt: skip
    if mean > 0.99:
        return ok("The rows are the target's.", seen)
    if mean < 0.5 and mine.shape[1] <= WIDEST and _are_as_long(mine, theirs, rows):
        return error(
            "The target's embedding looks rotated, and SGLang gives it to a draft with the plain one.", seen,
            f"{len(rows)} rows of the same length in both",
            remedy="Serve the target's plain weights, or a draft that was trained on these.",
            report="https://github.com/vllm-project/vllm-ascend/pull/7038",
        )  # fmt: skip
    what = "look random" if mean < 0.2 else "differ from the target's"
    return warning(
        f"The draft's embedding rows {what}; SGLang replaces them, other engines do not.", seen,
        remedy="Copy the target's embed_tokens.weight into the draft, unless it was trained on its own.",
    )  # fmt: skip


def _are_as_long(mine: Stored, theirs: Stored, rows: list[int]) -> bool:
    for row in rows:
        a, b = (math.hypot(*(read_row(tensor, row) or [])) for tensor in (mine, theirs))
        if not math.isfinite(a + b) or abs(a - b) > ROTATED * b:
            return False
    return True


def _cosine(a: list[float], b: list[float]) -> float | None:
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norms if norms and math.isfinite(norms) else None

"""What can be known, without running it, of a draft's embedding that SGLang replaces by the target's."""

from __future__ import annotations

import math
from typing import Any

from draftwire.convert.target import Target
from draftwire.draft import Draft, DraftError
from draftwire.features import REQUIRES
from draftwire.headers import Stored
from draftwire.rows import read_row
from draftwire.target import EMBEDDING, read_target
from draftwire.tensor_names import rename

ROWS, COLUMNS = 16, 256


def describe_embedding(draft: Draft, target: Target, config: dict[str, Any]) -> list[str]:
    """A note where SGLang puts the target's embedding in place of the draft's; `config` is the output's.

    That is right if the draft was trained with the target's, frozen. The stored rows may differ all the same, as some
    trainers export what was never filled; 16 rows of both are compared where the target's weights lie on this machine.
    """
    stored = next((t for name, t in draft.tensors.items() if rename(name) == EMBEDDING), None)
    own = "own_embedding" in config["eagle_config"].get(REQUIRES, ())
    if stored is None or own or config["target_hidden_size"] != config["hidden_size"]:
        return []
    start = "embed_tokens: SGLang takes the target's in its place"
    theirs = _of_target(target)
    if theirs is None or theirs.shape != stored.shape:
        return [f"{start}; not compared with it, whose weights are not at hand (--target DIR)"]
    rows = sorted({int((i + 0.5) * stored.shape[0] / ROWS) for i in range(ROWS)})
    pairs = [(read_row(stored, row, COLUMNS), read_row(theirs, row, COLUMNS)) for row in rows]
    cosines = [_cosine(a, b) for a, b in pairs if a is not None and b is not None]
    if not cosines:
        return [f"{start}; not compared with it, whose rows are {theirs.dtype}"]
    mean = sum(cosines) / len(cosines)
    if mean > 0.99:
        return [f"{start}, of which {len(cosines)} rows were compared and are the same"]
    return [
        f"{start}, and its rows are others (mean cosine {mean:.2f} over {len(cosines)} rows): right if they were never "
        "trained; if they were, write embed_requires_grad true and convert again"
    ]


def _of_target(target: Target) -> Stored | None:
    try:
        return read_target(target.directory).embedding if target.directory else None
    except DraftError:
        return None


def _cosine(a: list[float], b: list[float]) -> float:
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norms if norms and math.isfinite(norms) else 0.0
